#!/usr/bin/env node
// Runs the Solidity compiler of the npm package `solc` with the two command lines that forge uses for a native one.

const { createRequire } = require("node:module");
const { join } = require("node:path");
const { readFileSync } = require("node:fs");

const solc = createRequire(join(process.env.BARDO_NODE_MODULES, "here.js"))("solc");

if (process.argv.includes("--version")) {
  console.log(`solc, the solidity compiler commandline interface\nVersion: ${solc.version().replace(/\.Emscripten.*/, ".Linux.g++")}`);
} else if (process.argv.includes("--standard-json")) {
  process.stdout.write(solc.compile(readFileSync(0, "utf8")));
} else {
  console.error(`unknown arguments: ${process.argv.slice(2).join(" ")}`);
  process.exit(1);
}
