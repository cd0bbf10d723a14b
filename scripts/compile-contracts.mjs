#!/usr/bin/env node
// Compiles our own contracts, assets/contracts/src/*.sol, with the pinned npm solc.
//
//   node scripts/compile-contracts.mjs            rewrites their .hex files and their part of the manifest
//   node scripts/compile-contracts.mjs --check    writes nothing; fails if the committed code differs

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { applyFiles, bundleFolder, entryFor, sourcePackages, toolPackages } from "./contract-bundle.mjs";

const settings = { optimizer: { enabled: true, runs: 200 }, evmVersion: "cancun", metadata: { bytecodeHash: "none" } };

/** Manifest entry and code of every contract in assets/contracts/src, by file and name. */
export async function compileOwn(modules) {
  const solc = createRequire(join(modules, "x.js"))("solc");
  const folder = join(bundleFolder, "src");
  const names = readdirSync(folder).filter((name) => name.endsWith(".sol")).sort();
  const sources = Object.fromEntries(names.map((name) => [name, { content: readFileSync(join(folder, name), "utf8") }]));
  const output = JSON.parse(
    solc.compile(
      JSON.stringify({
        language: "Solidity",
        sources,
        settings: { ...settings, outputSelection: { "*": { "*": ["abi", "evm.bytecode.object", "metadata"] } } },
      }),
      { import: (path) => importFrom(modules, path) },
    ),
  );
  const problems = output.errors ?? [];
  for (const problem of problems) console.error(problem.formattedMessage);
  if (problems.length > 0) throw new Error("our contracts must compile without errors and warnings");

  const made = [];
  for (const name of names) {
    for (const [contract, { abi, evm, metadata }] of Object.entries(output.contracts[name])) {
      const code = evm.bytecode.object;
      if (code === "") continue; // interfaces and abstract contracts
      const imports = packagesOf(Object.keys(JSON.parse(metadata).sources));
      const imported = Object.keys(imports).length > 0;
      made.push(
        await entryFor(modules, {
          name: contract,
          kind: "creation",
          origin: { package: "bardo", source: `src/${name}`, ...(imported ? { imports } : {}) },
          spdx: imported ? "(MIT OR Apache-2.0) AND MIT" : "MIT OR Apache-2.0",
          abi,
          code,
          settings,
          compiler: solc.version(),
        }),
      );
    }
  }
  return made;
}

/** An imported file: only of the pinned packages, whose licence is MIT. */
function importFrom(modules, path) {
  if (Object.keys(packagesOf([path])).length === 0) return { error: `${path} is not in a pinned package` };
  try {
    return { contents: readFileSync(join(modules, path), "utf8") };
  } catch (error) {
    return { error: String(error) };
  }
}

/** The pinned packages that these source files are from, with their versions. */
function packagesOf(paths) {
  return Object.fromEntries(Object.entries(sourcePackages).filter(([name]) => paths.some((path) => path.startsWith(`${name}/`))));
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const folder = mkdtempSync(join(tmpdir(), "bardo-solc-"));
  try {
    writeFileSync(join(folder, "package.json"), JSON.stringify({ private: true }));
    const wanted = Object.entries({ ...toolPackages, ...sourcePackages }).map(([name, version]) => `${name}@${version}`);
    execFileSync("npm", ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--save-exact", ...wanted], {
      cwd: folder,
      stdio: ["ignore", "ignore", "inherit"],
    });
    const own = await compileOwn(join(folder, "node_modules"));
    const manifest = JSON.parse(readFileSync(join(bundleFolder, "manifest.json"), "utf8"));
    manifest.contracts = [...manifest.contracts.filter(({ origin }) => origin.package !== "bardo"), ...own.map(({ entry }) => entry)];
    const files = new Map(own.map(({ entry, code }) => [entry.file, `${code}\n`]));
    files.set("manifest.json", `${JSON.stringify(manifest, null, 2)}\n`);
    process.exitCode = applyFiles(files, process.argv.includes("--check")) ? 0 : 1;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
