// What the two contract scripts share: manifest entries, hashes, writing and comparing.

import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

/** assets/contracts of this checkout. */
export const bundleFolder = resolve(dirname(fileURLToPath(import.meta.url)), "..", "assets", "contracts");

/** Packages the scripts themselves run with. */
export const toolPackages = { solc: "0.8.30", "@noble/hashes": "1.8.0" };

/** Packages with Solidity sources that our own contracts import. */
export const sourcePackages = { "@openzeppelin/contracts": "5.4.0", "@openzeppelin/contracts-upgradeable": "5.4.0" };

/**
 * The manifest entry of one contract and its code as stored: lower-case hex, no prefix, link slots zeroed.
 * `links` is in solc's form {file: {library: [{start, length}]}}; `embeds` names codes that lie whole inside this one.
 */
export async function entryFor(modules, { name, kind, origin, spdx, abi, code, links = {}, settings = null, compiler = null, embeds = [] }) {
  const keccak = await keccakWith(modules);
  const linkList = Object.entries(links).flatMap(([, libraries]) =>
    Object.entries(libraries).flatMap(([library, places]) => places.map(({ start, length }) => ({ library, offset: start, length }))),
  );
  let hex = code.replace(/^0x/, "").toLowerCase();
  for (const { offset, length } of linkList) {
    hex = hex.slice(0, offset * 2) + "0".repeat(length * 2) + hex.slice((offset + length) * 2);
  }
  if (!/^([0-9a-f]{2})+$/.test(hex)) throw new Error(`${name}: not hexadecimal, or a link reference is not declared`);
  const entry = {
    name,
    file: `${name}.hex`,
    kind,
    origin,
    spdx,
    bytes: hex.length / 2,
    keccak256: keccak(hex),
    compiler: { version: compiler ?? compilerOf(hex), settings },
    constructor: kind === "creation" ? constructorOf(abi) : null,
    links: linkList,
    embeds: embeds.map((embedded) => {
      const inner = embedded.code.replace(/^0x/, "").toLowerCase();
      const at = hex.indexOf(inner);
      if (at < 0 || at % 2 !== 0) throw new Error(`${name} does not hold the code of ${embedded.name}`);
      return { name: embedded.name, offset: at / 2, length: inner.length / 2, keccak256: keccak(inner) };
    }),
  };
  return { entry, code: hex };
}

/** The constructor as Solidity would write its parameters: `constructor(address _factory, address _WETH9)`. */
export function constructorOf(abi) {
  const inputs = abi.find((item) => item.type === "constructor")?.inputs ?? [];
  return `constructor(${inputs.map(parameter).join(", ")})`;
}

function parameter({ type, name, components }) {
  const written = type.startsWith("tuple") ? `(${components.map(parameter).join(", ")})${type.slice("tuple".length)}` : type;
  return name ? `${written} ${name}` : written;
}

/** The compiler version that solc writes into the CBOR trailer (`"solc"` then three bytes), or null where there is none. */
function compilerOf(hex) {
  const at = hex.lastIndexOf("64736f6c6343");
  if (at < 0) return null;
  return [0, 1, 2].map((index) => parseInt(hex.slice(at + 12 + index * 2, at + 14 + index * 2), 16)).join(".");
}

async function keccakWith(modules) {
  const { keccak_256 } = await import(pathToFileURL(join(modules, "@noble", "hashes", "sha3.js")).href);
  return (hex) => `0x${Buffer.from(keccak_256(Buffer.from(hex, "hex"))).toString("hex")}`;
}

/** Writes the files into the bundle, or with `check` compares them; says what differs; true when all is well. */
export function applyFiles(files, check) {
  let differing = 0;
  for (const [file, content] of files) {
    const path = join(bundleFolder, file);
    if (check) {
      if (!existsSync(path)) console.error(`missing: ${file}`);
      else if (readFileSync(path, "utf8") !== content) console.error(`differs: ${file}`);
      else continue;
      differing += 1;
    } else {
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, content);
    }
  }
  console.error(check ? `${files.size} files compared, ${differing} differ` : `${files.size} files written`);
  return differing === 0;
}
