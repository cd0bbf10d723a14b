// viem's wallet actions with accounts of a running `bardo devnet`: the node signs, viem verifies.
//
// DEVNET is the first line of `bardo devnet`, BARDO_NODE_MODULES the folder with viem, COUNTER a compiled contract.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";

const load = createRequire(join(process.env.BARDO_NODE_MODULES, "here.js"));
const viem = load("viem");

const [described] = JSON.parse(process.env.DEVNET).chains;
const { abi, bytecode } = JSON.parse(process.env.COUNTER);
const chain = viem.defineChain({
  id: described.chain_id,
  name: described.name,
  nativeCurrency: { name: "Ether", symbol: "ETH", decimals: 18 },
  rpcUrls: { default: { http: [described.rpc] } },
});
const transport = viem.http(described.rpc);
const client = viem.createPublicClient({ chain, transport, pollingInterval: 50 });
const [, account] = await viem.createWalletClient({ chain, transport }).getAddresses();
const wallet = viem.createWalletClient({ account, chain, transport });
const mined = async (hash) => {
  const receipt = await client.waitForTransactionReceipt({ hash, timeout: 60_000 });
  assert.equal(receipt.status, "success");
  return receipt;
};

const to = "0x00000000000000000000000000000000c0ffee02";
await mined(await wallet.sendTransaction({ to, value: 5n }));
assert.equal(await client.getBalance({ address: to }), 5n);

const { contractAddress: counter } = await mined(await wallet.deployContract({ abi, bytecode }));
const added = await mined(await wallet.writeContract({ address: counter, abi, functionName: "add", args: [7n] }));
const [counted] = viem.parseEventLogs({ abi, logs: added.logs, eventName: "Counted" });
assert.equal(counted.args.count, 7n);
assert.equal(added.from.toLowerCase(), account.toLowerCase());

const message = "signed by the node";
const signature = await wallet.signMessage({ message });
assert.ok(await viem.verifyMessage({ address: account, message, signature }));
const typed = {
  domain: { name: "Round", chainId: described.chain_id },
  types: { Order: [{ name: "maker", type: "address" }, { name: "amount", type: "uint256" }] },
  primaryType: "Order",
  message: { maker: account, amount: 12n },
};
assert.ok(await viem.verifyTypedData({ ...typed, address: account, signature: await wallet.signTypedData(typed) }));

const prepared = await wallet.prepareTransactionRequest({ to, value: 6n });
const raw = await wallet.signTransaction(prepared);
assert.equal((await viem.recoverTransactionAddress({ serializedTransaction: raw })).toLowerCase(), account.toLowerCase());
await mined(await wallet.sendRawTransaction({ serializedTransaction: raw }));
assert.equal(await client.getBalance({ address: to }), 11n);

const [simulated] = await client.simulateBlocks({
  blocks: [{
    calls: [
      { account, to: counter, abi, functionName: "add", args: [1n] },
      { account, to: counter, abi, functionName: "count" },
      { account, to: counter, abi, functionName: "add", args: [0n] },
    ],
  }],
});
assert.deepEqual(simulated.calls.map((call) => call.status), ["success", "success", "failure"]);
assert.equal(simulated.calls[1].result, 8n);
assert.match(`${simulated.calls[2].error}`, /nothing to add/);

const proof = await client.getProof({ address: counter, storageKeys: [viem.toHex(0, { size: 32 })] });
assert.equal(proof.storageProof[0].value, 7n);
console.log("all answers are right");
