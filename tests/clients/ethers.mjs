// ethers' JsonRpcSigner with an account of a running `bardo devnet`: the node signs, ethers verifies.
//
// DEVNET is the first line of `bardo devnet`, BARDO_NODE_MODULES the folder with ethers, COUNTER a compiled contract.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";

const load = createRequire(join(process.env.BARDO_NODE_MODULES, "here.js"));
const { ethers } = load("ethers");

const [described] = JSON.parse(process.env.DEVNET).chains;
const { abi, bytecode } = JSON.parse(process.env.COUNTER);
const provider = new ethers.JsonRpcProvider(described.rpc, undefined, { pollingInterval: 50, cacheTimeout: -1 });
const signer = await provider.getSigner(2);
const address = await signer.getAddress();

const to = "0x00000000000000000000000000000000c0ffee03";
const receipt = await (await signer.sendTransaction({ to, value: 5n })).wait();
assert.deepEqual([receipt.status, receipt.gasUsed], [1, 21000n]);
assert.equal(await provider.getBalance(to), 5n);

const counter = await new ethers.ContractFactory(abi, bytecode, signer).deploy();
await counter.waitForDeployment();
const added = await (await counter.add(7n)).wait();
assert.equal(added.logs[0].args.count, 7n);
assert.equal(added.from, address);
assert.equal(await counter.count(), 7n);
await assert.rejects(counter.add(0n), /nothing to add/);

const message = "signed by the node";
assert.equal(ethers.verifyMessage(message, await signer.signMessage(message)), address);
assert.equal(ethers.verifyMessage(message, await signer._legacySignMessage(message)), address);
const domain = { name: "Round", chainId: described.chain_id };
const types = { Order: [{ name: "maker", type: "address" }, { name: "amount", type: "uint256" }] };
const order = { maker: address, amount: 12n };
assert.equal(ethers.verifyTypedData(domain, types, order, await signer.signTypedData(domain, types, order)), address);

const raw = await provider.send("eth_signTransaction", [{ from: address, to, value: "0x6" }]);
assert.equal(ethers.Transaction.from(raw).from, address);
await (await provider.broadcastTransaction(raw)).wait();
assert.equal(await provider.getBalance(to), 11n);
console.log("all answers are right");
provider.destroy();
