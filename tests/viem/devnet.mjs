// viem against a running `bardo devnet`: reads, sends, reverts, logs, and blocks watched over HTTP and WebSocket.
//
// DEVNET is the first line of `bardo devnet`, MNEMONIC its accounts' phrase, BARDO_NODE_MODULES the folder
// with viem. Fails on a wrong answer.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";

const load = createRequire(join(process.env.BARDO_NODE_MODULES, "here.js"));
const viem = load("viem");
const { mnemonicToAccount } = load("viem/accounts");

const chainOf = (described) =>
  viem.defineChain({
    id: described.chain_id,
    name: described.name,
    nativeCurrency: { name: "Ether", symbol: "ETH", decimals: 18 },
    rpcUrls: { default: { http: [described.rpc] } },
    contracts: { multicall3: { address: described.contracts.multicall3 } },
  });

const [described, second] = JSON.parse(process.env.DEVNET).chains;
const chain = chainOf(described);
const account = mnemonicToAccount(process.env.MNEMONIC);
const transport = viem.http(described.rpc, { batch: true });
const client = viem.createPublicClient({ chain, transport, pollingInterval: 200 });
const wallet = viem.createWalletClient({ account, chain, transport });
const abi = viem.erc20Abi;
const weth = described.tokens.WETH.address;
const usdc = described.tokens.USDC.address;

const within = (promise, what) => {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what}: nothing within a minute`)), 60_000);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
};

async function reads() {
  assert.equal(described.accounts[0].toLowerCase(), account.address.toLowerCase());
  assert.equal(await client.getChainId(), 31337);
  assert.equal(await viem.createPublicClient({ transport: viem.http(second.rpc) }).getChainId(), 31338);
  const [number, block, fees, code] = await Promise.all([
    client.getBlockNumber(),
    client.getBlock(),
    client.estimateFeesPerGas(),
    client.getCode({ address: described.contracts.permit2 }),
  ]);
  assert.ok(block.number >= number - 1n && block.baseFeePerGas > 0n);
  assert.ok(fees.maxFeePerGas >= block.baseFeePerGas / 2n);
  assert.equal(viem.size(code), 9152);
  const [symbol, decimals, balance] = await client.multicall({
    allowFailure: false,
    contracts: [
      { address: usdc, abi, functionName: "symbol" },
      { address: usdc, abi, functionName: "decimals" },
      { address: weth, abi, functionName: "balanceOf", args: [account.address] },
    ],
  });
  assert.deepEqual([symbol, decimals], ["USDC", 6]);
  assert.ok(balance > 0n);
  const before = await client.getBalance({ address: account.address, blockNumber: number });
  assert.ok(before > 0n);
}

async function sends() {
  const to = "0x00000000000000000000000000000000c0ffee01";
  const value = viem.parseEther("0.000123");
  const hash = await wallet.sendTransaction({ to, value });
  const receipt = await within(client.waitForTransactionReceipt({ hash }), "receipt");
  assert.deepEqual([receipt.status, receipt.gasUsed, receipt.type], ["success", 21000n, "eip1559"]);
  assert.equal(await client.getBalance({ address: to }), value);
  const sent = await client.getTransaction({ hash });
  assert.deepEqual([sent.from.toLowerCase(), sent.value], [account.address.toLowerCase(), value]);

  const amount = 1_234_567n;
  const { request } = await client.simulateContract({
    account, address: usdc, abi, functionName: "transfer", args: [to, amount],
  });
  const moved = await within(client.waitForTransactionReceipt({ hash: await wallet.writeContract(request) }), "receipt");
  const [transfer] = viem.parseEventLogs({ abi, logs: moved.logs, eventName: "Transfer" });
  assert.deepEqual([transfer.args.to, transfer.args.value], [viem.getAddress(to), amount]);
  const found = await client.getContractEvents({
    address: usdc, abi, eventName: "Transfer", args: { to }, fromBlock: moved.blockNumber, toBlock: moved.blockNumber,
  });
  assert.deepEqual(found.map((log) => log.transactionHash), [moved.transactionHash]);
}

async function refuses() {
  // More than anyone has: the node must answer with revert data that viem recognises as a revert.
  const greedy = client.simulateContract({
    account, address: usdc, abi, functionName: "transfer", args: [weth, 2n ** 200n],
  });
  const error = await greedy.then(() => assert.fail("an impossible transfer was simulated"), (error) => error);
  assert.ok(error.walk((cause) => cause instanceof viem.ContractFunctionRevertedError), `${error}`);
  // A used nonce: an immediate error, and nothing is sent.
  const nonce = (await client.getTransactionCount({ address: account.address })) - 1;
  const replayed = wallet.sendTransaction({ to: account.address, value: 1n, nonce, gas: 21000n });
  const low = await replayed.then(() => assert.fail("a used nonce was taken"), (error) => error);
  assert.ok(low.walk((cause) => cause instanceof viem.NonceTooLowError), `${low}`);
}

async function watches(over) {
  const watcher = viem.createPublicClient({ chain, transport: over, pollingInterval: 200 });
  let stop;
  const numbers = await within(
    new Promise((resolve, reject) => {
      const seen = [];
      stop = watcher.watchBlocks({
        emitMissed: true,
        onBlock: (block) => {
          seen.push(block.number);
          if (seen.length === 4) resolve(seen);
        },
        onError: reject,
      });
    }),
    "blocks",
  ).finally(() => stop?.());
  assert.deepEqual(numbers.map((number) => number - numbers[0]), [0n, 1n, 2n, 3n]);
}

await reads();
await sends();
await refuses();
await watches(transport);
await watches(viem.webSocket(described.rpc.replace(/^http/, "ws")));
console.log("all answers are right");
// An open WebSocket would keep the process alive.
process.exit(0);
