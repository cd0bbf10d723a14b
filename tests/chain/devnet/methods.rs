//! Every JSON-RPC method that both the devnet and anvil have, asked of both.
//!
//! What cannot be the same is named here with its reason: methods in [`EXEMPT`], fields in [`HASHES`] and beside the
//! question they belong to. Everything else is compared field by field.

use std::collections::BTreeSet;

use alloy::eips::eip2935::HISTORY_STORAGE_ADDRESS;
use alloy::primitives::{Address, B256, Bytes, U256};
use alloy::providers::{DynProvider, Provider};
use alloy::signers::local::MnemonicBuilder;
use bardo::chain::devnet::rpc::{methods, served_names};
use bardo::chain::devnet::{ChainConfig, Devnet, DevnetConfig, MNEMONIC, Mining, RunningConfig};
use serde_json::{Value, json};

use crate::anvil::{Anvil, start};
use crate::devnet::differential::{CHAIN_ID, GENESIS_TIME, SLOTS, ask, ask_all, assert_same};

/// Methods that both have and whose answers say who answers, or where the two mean different things by design.
const EXEMPT: &[(&str, &str)] = &[
    ("web3_clientVersion", "the name of the node"),
    ("anvil_metadata", "name, version and instance of the node; its chain's id and head are compared"),
    ("anvil_reset", "anvil goes back to an empty chain, the devnet to its furnished beginning; tested by itself"),
    ("eth_signTypedData", "anvil answers \"Not implemented\" here, and as the devnet does to eth_signTypedData_v4"),
    ("anvil_reorg", "new blocks have other hashes; what is on them afterwards is tested by itself"),
];

/// Fields that hold a block's hash, or follow from one: the two draw PREVRANDAO differently, so that no block has the
/// same header.
const HASHES: &[&str] = &["blockHash", "mixHash", "parentHash"];

/// Both nodes, and what has been compared.
pub struct Pair {
    /// The devnet.
    pub ours: DynProvider,
    /// anvil.
    pub theirs: DynProvider,
    compared: BTreeSet<&'static str>,
    accounts: Vec<Address>,
    _anvil: Anvil,
    _devnet: Devnet,
}

/// `value` without the fields named, at any depth.
fn without(mut value: Value, names: &[&str]) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.retain(|name, _| !names.contains(&name.as_str()));
            for field in fields.values_mut() {
                *field = without(field.take(), names);
            }
        }
        Value::Array(items) => {
            for item in items {
                *item = without(item.take(), names);
            }
        }
        _ => {}
    }
    value
}

impl Pair {
    /// The same genesis on both, the development accounts with anvil's 10,000 ether each.
    pub async fn start() -> Self {
        let parent = MnemonicBuilder::from_phrase(MNEMONIC).build_parent_key().expect("the phrase");
        let accounts: Vec<Address> = parent.children().take(10).map(|key| key.expect("a key").address()).collect();
        let ether = U256::from(10_000) * U256::from(10).pow(U256::from(18));
        let balances = accounts.iter().map(|account| (*account, ether)).collect();
        let chain = ChainConfig { genesis_time: GENESIS_TIME, balances, ..Default::default() };
        let running = RunningConfig { mining: Mining::Manual, clock: None, hook: None };
        let devnet = Devnet::spawn(DevnetConfig { chain, running }).expect("spawns");
        let state = devnet.run(|chain| chain.state().clone()).await.expect("alive");
        let (anvil, theirs) = start(&state, GENESIS_TIME, CHAIN_ID).await;
        let ours = devnet.provider();
        Self { ours, theirs, compared: BTreeSet::new(), accounts, _anvil: anvil, _devnet: devnet }
    }

    /// Asks both and compares all but the fields named; returns the devnet's answer.
    async fn same_but(&mut self, method: &'static str, params: Value, left_out: &[&str]) -> Value {
        self.same_of(method, params.clone(), params, left_out).await
    }

    async fn same(&mut self, method: &'static str, params: Value) -> Value {
        self.same_but(method, params, HASHES).await
    }

    /// The same where each has its own names for things, such as a block's hash.
    async fn same_of(&mut self, method: &'static str, ours: Value, theirs: Value, left_out: &[&str]) -> Value {
        self.compared.insert(method);
        let here = ask(&self.ours, method, ours.clone()).await;
        let there = ask(&self.theirs, method, theirs).await;
        assert_same(&without(here.clone(), left_out), &without(there, left_out), &format!("{method}{ours}"));
        here
    }

    /// Both refuse, with the same code.
    async fn refused(&mut self, method: &'static str, params: Value) {
        let code = async |provider: &DynProvider| {
            let answer = provider.raw_request::<_, Value>(method.into(), params.clone()).await;
            let error = answer.expect_err(method);
            error.as_error_resp().unwrap_or_else(|| panic!("{method}: {error}")).code
        };
        assert_eq!(code(&self.ours).await, code(&self.theirs).await, "{method}{params}");
    }

    /// Many questions at once.
    async fn all_same(&mut self, questions: &[(&'static str, Value)], left_out: &[&str]) {
        let here = ask_all(&self.ours, questions).await;
        let there = ask_all(&self.theirs, questions).await;
        for (((method, params), here), there) in questions.iter().zip(here).zip(there) {
            self.compared.insert(method);
            assert_same(&without(here, left_out), &without(there, left_out), &format!("{method}{params}"));
        }
    }

    async fn hashes(&self, block: &str) -> (Value, Value) {
        let ours = ask(&self.ours, "eth_getBlockByNumber", json!([block, false])).await["hash"].clone();
        (ours, ask(&self.theirs, "eth_getBlockByNumber", json!([block, false])).await["hash"].clone())
    }

    /// The state both begin with, by its root. Then the contract that keeps block hashes goes from both: from there on
    /// every state root and every proof is the same, though no block hash is.
    pub async fn compare_genesis(&mut self) {
        let roots = [&self.ours, &self.theirs].map(|provider| async move {
            ask(provider, "eth_getBlockByNumber", json!(["0x0", false])).await["stateRoot"].clone()
        });
        let [ours, theirs] = roots;
        assert_eq!(ours.await, theirs.await, "the root of the genesis state");
        for (method, params) in [
            ("anvil_setCode", json!([HISTORY_STORAGE_ADDRESS, "0x"])),
            ("anvil_setNonce", json!([HISTORY_STORAGE_ADDRESS, "0x0"])),
        ] {
            self.same(method, params).await;
        }
    }

    /// The newest block: itself, what is in it, its traces, and proofs of its state.
    pub async fn compare_block(&mut self, number: u64, addresses: &[Address]) {
        let at = format!("{number:#x}");
        let block = self
            .same_but("eth_getBlockByNumber", json!([at, true]), &["blockHash", "hash", "mixHash", "parentHash"])
            .await;
        let hashes: Vec<Value> =
            block["transactions"].as_array().expect("all").iter().map(|one| one["hash"].clone()).collect();
        let mut questions = vec![
            ("eth_getBlockReceipts", json!([at])),
            ("eth_getBlockTransactionCountByNumber", json!([at])),
            ("eth_getUncleCountByBlockNumber", json!([at])),
            ("trace_block", json!([at])),
            ("eth_feeHistory", json!(["0x5", at, [10.0, 50.0, 90.0]])),
            ("eth_getLogs", json!([{ "fromBlock": at, "toBlock": at }])),
        ];
        for (index, hash) in hashes.iter().enumerate() {
            questions.extend([
                ("eth_getTransactionByHash", json!([hash])),
                ("eth_getTransactionReceipt", json!([hash])),
                ("eth_getRawTransactionByHash", json!([hash])),
                ("eth_getRawTransactionByBlockNumberAndIndex", json!([at, format!("{index:#x}")])),
                ("eth_getTransactionByBlockNumberAndIndex", json!([at, format!("{index:#x}")])),
                ("trace_transaction", json!([hash])),
            ]);
        }
        self.all_same(&questions, HASHES).await;
        self.compare_traces(&at, &hashes).await;
        let slots: Vec<B256> = (0..SLOTS).map(|slot| B256::from(U256::from(slot))).collect();
        let proofs: Vec<_> =
            addresses.iter().map(|address| ("eth_getProof", json!([address, slots, "latest"]))).collect();
        self.all_same(&proofs, &[]).await;
        let (ours, theirs) = self.hashes(&at).await;
        for method in ["eth_getBlockTransactionCountByHash", "eth_getUncleCountByBlockHash"] {
            self.same_of(method, json!([ours]), json!([theirs]), HASHES).await;
        }
        let fields = ["blockHash", "hash", "mixHash", "parentHash"];
        self.same_of("eth_getBlockByHash", json!([ours, false]), json!([theirs, false]), &fields).await;
        for method in ["eth_getTransactionByBlockHashAndIndex", "eth_getRawTransactionByBlockHashAndIndex"] {
            self.same_of(method, json!([ours, "0x0"]), json!([theirs, "0x0"]), HASHES).await;
        }
    }

    async fn compare_traces(&mut self, at: &str, hashes: &[Value]) {
        let tracers = [
            json!({ "tracer": "callTracer", "tracerConfig": { "withLog": true } }),
            json!({ "tracer": "4byteTracer" }),
            json!({ "tracer": "prestateTracer" }),
            json!({ "tracer": "prestateTracer", "tracerConfig": { "diffMode": true } }),
            json!({}),
        ];
        let mut questions = Vec::new();
        for hash in hashes {
            questions.extend(tracers.iter().map(|tracer| ("debug_traceTransaction", json!([hash, tracer]))));
        }
        questions.extend(tracers.iter().take(2).map(|tracer| ("debug_traceBlockByNumber", json!([at, tracer]))));
        self.all_same(&questions, &[]).await;
        let (ours, theirs) = self.hashes(at).await;
        let tracer = &tracers[0];
        self.same_of("debug_traceBlockByHash", json!([ours, tracer]), json!([theirs, tracer]), &[]).await;
    }

    /// Calls that leave nothing behind.
    pub async fn compare_calls(&mut self, contracts: &[Address], from: Address) {
        for to in contracts.iter().take(60) {
            let request = json!({ "from": from, "to": to, "gas": "0x7a120", "data": "0x01020304" });
            let here = self.ours.raw_request::<_, Value>("eth_call".into(), json!([request, "latest"])).await;
            if here.is_err() {
                // Reverted, or halted: go-ethereum has a code for the one and another for the other; anvil has its own.
                let there = self.theirs.raw_request::<_, Value>("eth_call".into(), json!([request, "latest"])).await;
                assert!(there.is_err(), "eth_call{request}: ours {here:?}, anvil {there:?}");
            } else {
                self.same("eth_call", json!([request, "latest"])).await;
                self.same("eth_createAccessList", json!([request, "latest"])).await;
            }
            self.same("debug_traceCall", json!([request, "latest", { "tracer": "callTracer" }])).await;
            self.same("debug_traceCall", json!([request, "latest", { "tracer": "4byteTracer" }])).await;
            self.compare_simulation(&request).await;
        }
        let transfer = json!({ "from": from, "to": Address::repeat_byte(0x5e), "value": "0x1" });
        self.same("eth_estimateGas", json!([transfer, "latest"])).await;
    }

    /// anvil simulates in the block it is given instead of one after it, on chain 1, keeps no roots, and has a code of
    /// its own for failures: what the calls do is compared, and not the blocks around them.
    async fn compare_simulation(&mut self, request: &Value) {
        self.compared.insert("eth_simulateV1");
        let payload = json!([{ "blockStateCalls": [{ "calls": [request] }] }, "latest"]);
        let here = ask(&self.ours, "eth_simulateV1", payload.clone()).await;
        let there = ask(&self.theirs, "eth_simulateV1", payload).await;
        let what = |answer: &Value| {
            let call = &answer[0]["calls"][0];
            let logs = call["logs"].as_array().into_iter().flatten();
            let logs: Vec<Value> = logs.map(|log| json!([log["address"], log["topics"], log["data"]])).collect();
            json!({ "status": call["status"], "gasUsed": call["gasUsed"], "returnData": call["returnData"], "logs": logs })
        };
        assert_same(&what(&here), &what(&there), &format!("eth_simulateV1{request}"));
    }

    /// Accounts, their signatures, and the small questions.
    pub async fn compare_accounts(&mut self) {
        let account = self.accounts[1];
        let typed = json!({
            "types": {
                "EIP712Domain": [{ "name": "name", "type": "string" }, { "name": "chainId", "type": "uint256" }],
                "Order": [{ "name": "maker", "type": "address" }, { "name": "amounts", "type": "uint256[]" }],
            },
            "primaryType": "Order",
            "domain": { "name": "Differential", "chainId": CHAIN_ID },
            "message": { "maker": account, "amounts": ["1", "2"] },
        });
        let request = json!({ "from": account, "to": Address::repeat_byte(0x5e), "value": "0x1", "nonce": "0x0", "gas": "0x5208",
            "maxFeePerGas": "0x12a05f200", "maxPriorityFeePerGas": "0x3b9aca00" });
        for (method, params) in [
            ("eth_accounts", json!([])),
            ("eth_sign", json!([account, "0x68656c6c6f"])),
            ("personal_sign", json!(["0x68656c6c6f", account])),
            ("eth_signTypedData_v4", json!([account, typed])),
            ("eth_signTransaction", json!([request])),
            ("web3_sha3", json!(["0x68656c6c6f"])),
            ("net_version", json!([])),
            ("net_listening", json!([])),
            ("eth_chainId", json!([])),
            ("eth_syncing", json!([])),
            ("eth_blockNumber", json!([])),
            ("eth_coinbase", json!([])),
            ("eth_gasPrice", json!([])),
            ("eth_maxPriorityFeePerGas", json!([])),
            ("eth_blobBaseFee", json!([])),
            ("eth_getBalance", json!([account, "latest"])),
            ("eth_getCode", json!([account, "latest"])),
            ("eth_getTransactionCount", json!([account, "latest"])),
            ("eth_getStorageAt", json!([account, "0x0", "latest"])),
            ("anvil_getAutomine", json!([])),
        ] {
            self.same(method, params).await;
        }
        // anvil's timestamp here is that of its next block's environment.
        self.same_but("anvil_nodeInfo", json!([]), &["currentBlockHash", "currentBlockTimestamp"]).await;
        let metadata = ["chainId", "latestBlockNumber"];
        let here = ask(&self.ours, "anvil_metadata", json!([])).await;
        let there = ask(&self.theirs, "anvil_metadata", json!([])).await;
        metadata.iter().for_each(|field| assert_eq!(here[field], there[field], "{field}"));
        let stranger = Address::repeat_byte(0x99);
        self.refused("eth_sign", json!([stranger, "0x12"])).await;
        self.refused("eth_sendTransaction", json!([{ "from": stranger, "to": account }])).await;
        self.refused("eth_signTransaction", json!([{ "from": stranger, "to": account }])).await;
        self.refused("eth_getBalance", json!(["0x12", "latest"])).await;
    }

    /// What waits for a block, sent by unlocked accounts.
    pub async fn compare_pool(&mut self) {
        let (first, second) = (self.accounts[0], self.accounts[2]);
        let fees = json!({ "maxFeePerGas": "0x12a05f200", "maxPriorityFeePerGas": "0x3b9aca00" });
        let with = |fields: Value| {
            let mut request = fees.clone();
            request.as_object_mut().expect("fields").extend(fields.as_object().expect("fields").clone());
            json!([request])
        };
        let filters = json!([{ "address": first }]);
        for (method, params) in [
            ("eth_newFilter", filters),
            ("eth_newBlockFilter", json!([])),
            ("eth_newPendingTransactionFilter", json!([])),
        ] {
            self.compared.insert(method);
            let ours = ask(&self.ours, method, params.clone()).await;
            let theirs = ask(&self.theirs, method, params).await;
            let hash = self
                .same(
                    "eth_sendTransaction",
                    with(json!({ "from": first, "to": second, "value": "0x1", "gas": "0x5208" })),
                )
                .await;
            if method == "eth_newPendingTransactionFilter" {
                self.same_of("eth_getFilterChanges", json!([ours]), json!([theirs]), &[]).await;
            } else if method == "eth_newFilter" {
                self.same_of("eth_getFilterLogs", json!([ours]), json!([theirs]), HASHES).await;
            }
            self.same_of("eth_uninstallFilter", json!([ours]), json!([theirs]), &[]).await;
            self.same("eth_getTransactionByHash", json!([hash])).await;
        }
        let create = with(json!({ "from": second, "data": "0x00", "nonce": "0x7", "gas": "0xcf0e" }));
        let waiting = self.same("eth_sendTransaction", create).await;
        for method in ["txpool_status", "txpool_content", "txpool_inspect"] {
            self.same(method, json!([])).await;
        }
        self.same("anvil_dropTransaction", json!([waiting])).await;
        let raw = ask(
            &self.ours,
            "eth_signTransaction",
            with(json!({ "from": self.accounts[3], "to": first, "gas": "0x5208" })),
        )
        .await;
        self.same("eth_sendRawTransaction", json!([raw])).await;
        let time = GENESIS_TIME + 100_000;
        self.same("evm_setNextBlockTimestamp", json!([time])).await;
        self.same("evm_mine", json!([])).await;
        let number = ask(&self.ours, "eth_blockNumber", json!([])).await;
        let number: U256 = serde_json::from_value(number).expect("a number");
        self.compare_block(number.to(), &[first, second]).await;
    }

    /// What only a development node lets its clients do; the state afterwards is compared by its root.
    pub async fn compare_development(&mut self, contracts: &[Address]) {
        let (whale, coder) = (Address::repeat_byte(0xab), Address::repeat_byte(0xac));
        let code = Bytes::from_static(&[0x60, 0x2a, 0x5f, 0x5f, 0xa1, 0x00]);
        for (method, params) in [
            ("anvil_setBalance", json!([whale, "0xde0b6b3a7640000"])),
            ("anvil_setNonce", json!([whale, "0x5"])),
            ("anvil_setCode", json!([coder, code])),
            ("anvil_setStorageAt", json!([coder, "0x1", B256::with_last_byte(9)])),
            ("anvil_setStorageAt", json!([contracts[0], "0x1", B256::with_last_byte(9)])),
            ("anvil_setCoinbase", json!([Address::repeat_byte(0xc1)])),
            ("anvil_setNextBlockBaseFeePerGas", json!(["0x3b9aca00"])),
            ("anvil_impersonateAccount", json!([whale])),
            ("anvil_setNextBlockTimestamp", json!([GENESIS_TIME + 200_000])),
        ] {
            self.same(method, params).await;
        }
        // The hash of what nobody signed is each node's own.
        for provider in [&self.ours, &self.theirs] {
            let fees = json!([{ "from": whale, "to": coder, "gas": "0xea60", "maxFeePerGas": "0x12a05f200", "maxPriorityFeePerGas": "0x1" }]);
            ask(provider, "eth_sendTransaction", fees).await;
        }
        self.same("anvil_mine", json!(["0x1"])).await;
        let block = ["blockHash", "hash", "mixHash", "parentHash", "transactions", "transactionsRoot", "size"];
        self.same_but("eth_getBlockByNumber", json!(["latest", false]), &block).await;
        self.same("anvil_stopImpersonatingAccount", json!([whale])).await;
        self.same("anvil_autoImpersonateAccount", json!([true])).await;
        self.same("anvil_autoImpersonateAccount", json!([false])).await;
        self.refused("eth_sendTransaction", json!([{ "from": whale, "to": coder }])).await;
        for save in ["evm_snapshot", "anvil_snapshot"] {
            self.compared.insert(save);
            let (ours, theirs) = (ask(&self.ours, save, json!([])).await, ask(&self.theirs, save, json!([])).await);
            self.same("anvil_setBalance", json!([whale, "0x0"])).await;
            let revert = if save == "evm_snapshot" { "evm_revert" } else { "anvil_revert" };
            self.same_of(revert, json!([ours]), json!([theirs]), &[]).await;
            self.same("eth_getBalance", json!([whale, "latest"])).await;
        }
        self.same("anvil_setBlockTimestampInterval", json!([17])).await;
        self.same("anvil_mine", json!(["0x3"])).await;
        self.same_but("eth_getBlockByNumber", json!(["latest", false]), &block).await;
        self.same("anvil_removeBlockTimestampInterval", json!([])).await;
        self.same("anvil_mine", json!(["0x3", "0x3c"])).await;
        self.same_but("eth_getBlockByNumber", json!(["latest", false]), &["hash", "mixHash", "parentHash"]).await;
        for method in ["evm_setAutomine", "anvil_setAutomine"] {
            self.same(method, json!([true])).await;
            self.same("anvil_getAutomine", json!([])).await;
            self.same(method, json!([false])).await;
        }
        for method in ["evm_setIntervalMining", "anvil_setIntervalMining"] {
            self.same(method, json!([0])).await;
        }
        for method in ["evm_increaseTime", "anvil_increaseTime"] {
            self.compared.insert(method);
            // By how much time has been moved in all counts the wall, which each reads by itself.
            for provider in [&self.ours, &self.theirs] {
                assert!(ask(provider, method, json!([100])).await.is_number(), "{method}");
            }
        }
    }

    /// Nothing that both have was forgotten: anvil is asked for every method of the devnet.
    pub async fn assert_complete(&self) {
        let mut forgotten = Vec::new();
        for method in methods() {
            let exempt = EXEMPT.iter().any(|(name, _)| *name == method);
            if exempt || self.compared.contains(method) {
                continue;
            }
            let answer = self.theirs.raw_request::<_, Value>(method.into(), json!([])).await;
            let missing = answer.err().and_then(|error| error.as_error_resp().map(|error| error.code)) == Some(-32601);
            if !missing {
                forgotten.push(method);
            }
        }
        assert!(forgotten.is_empty(), "both have these, and nothing compares them: {forgotten:?}");
        println!("{} methods compared", self.compared.len());
    }
}

/// The list for readers names every method that is served, and no other.
#[test]
fn the_documentation_lists_what_is_answered() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/devnet-rpc.md");
    let text = std::fs::read_to_string(path).expect("the documentation");
    let listed: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains('`'))
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .collect();
    let listed_once: BTreeSet<&str> = listed.iter().copied().collect();
    assert_eq!(listed.len(), listed_once.len(), "a method is listed twice");
    let served: BTreeSet<&str> = served_names().chain(["eth_subscribe", "eth_unsubscribe"]).collect();
    assert_eq!(listed_once, served);
}
