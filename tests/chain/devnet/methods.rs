//! Every JSON-RPC method that both the devnet and anvil have, called on both.
//!
//! Necessary differences are listed here with their reason: methods in [`EXEMPT`], fields in [`HASHES`] and beside
//! their request. Everything else is compared field by field.

use std::collections::{BTreeMap, BTreeSet};

use alloy::eips::eip2935::HISTORY_STORAGE_ADDRESS;
use alloy::primitives::{Address, B256, Bytes, U256, keccak256};
use alloy::providers::{DynProvider, Provider};
use alloy::signers::local::MnemonicBuilder;
use alloy_trie::TrieAccount;
use alloy_trie::root::{state_root_unhashed, storage_root_unhashed};
use bardo::chain::devnet::rpc::{methods, served_names};
use bardo::chain::devnet::{ChainConfig, Devnet, DevnetConfig, MNEMONIC, MiningMode, RunningConfig};
use serde_json::{Value, json};

use crate::devnet::differential::{CHAIN_ID, GENESIS_TIME, SLOTS, ask, ask_all};
use bardo_testkit::anvil::{Anvil, start_with};

/// Maximum number of differences that one run reports.
const MOST_DIFFERENCES: usize = 50;

/// Interval in blocks at which the state root is compared: that takes a request for every slot.
const ROOT_EVERY: u64 = 7;

/// Methods whose answers identify the node, or that differ by design.
const EXEMPT: &[(&str, &str)] = &[
    ("web3_clientVersion", "the name of the node"),
    ("anvil_metadata", "name, version and instance of the node; its chain's id and head are compared"),
    ("anvil_reset", "anvil goes back to an empty chain, the devnet to its furnished beginning; tested by itself"),
    ("eth_signTypedData", "anvil answers \"Not implemented\" here, and as the devnet does to eth_signTypedData_v4"),
    ("anvil_dumpState", "its own test, `chain devnet::dumps`, loads each node's dump into the other"),
    ("anvil_loadState", "as anvil_dumpState"),
    ("anvil_reorg", "new blocks have other hashes; what is on them afterwards is tested by itself"),
];

/// Fields that hold a block hash, or follow from one: the two nodes choose PREVRANDAO differently, so their headers
/// always differ.
const HASHES: &[&str] = &["blockHash", "mixHash", "parentHash"];

/// Excluded fields of a block, in addition to its own hash.
const BLOCK: &[&str] = &["blockHash", "hash", "mixHash", "parentHash", "size", "stateRoot"];

/// Further excluded fields by method, with the reason.
const FIELDS: &[(&str, &[&str], &str)] = &[
    ("eth_getBlockByNumber", BLOCK, "the state root is compared by itself; anvil's size lacks the list of withdrawals"),
    ("eth_getBlockByHash", BLOCK, "the state root is compared by itself; anvil's size lacks the list of withdrawals"),
    ("eth_getProof", PROOF, "anvil keeps accounts that are empty, which EIP-161 removes: see compare_roots"),
    (
        "eth_getBlockReceipts",
        RECEIPT,
        "anvil adds blob fields to all receipts, go-ethereum to those of blob transactions",
    ),
    ("eth_getTransactionReceipt", RECEIPT, "the same"),
];

/// Fields of a proof that depend on the rest of the trie.
const PROOF: &[&str] = &["accountProof", "proof", "storageHash"];

/// Fields of a receipt that only one node has.
const RECEIPT: &[&str] = &["blobGasPrice", "blobGasUsed", "blockTimestamp"];

/// A request, shortened so that many fit into a report.
fn asked(method: &str, params: &Value) -> String {
    format!("{method} {}", params.to_string().chars().take(120).collect::<String>())
}

/// Fields of an answer that are excluded.
fn left_out(method: &str) -> Vec<&'static str> {
    let fields = FIELDS.iter().filter(|(name, ..)| *name == method).flat_map(|(_, fields, _)| *fields);
    HASHES.iter().chain(fields).copied().collect()
}

/// Both nodes, and the results of the comparison.
pub struct Pair {
    /// The devnet under test.
    pub ours: DynProvider,
    /// The anvil process.
    pub theirs: DynProvider,
    compared: BTreeSet<&'static str>,
    differences: Vec<String>,
    accounts: Vec<Address>,
    _anvil: Anvil,
    devnet: Devnet,
}

/// `value` without the named fields, at any depth.
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

/// A trace without the parts in which anvil 1.7.1 differs:
/// - gas of the outermost frame: anvil gives the rest after the transaction's own cost, and adds the use of earlier
///   ones;
/// - accounts that did not exist before: anvil lists them with a zero balance;
/// - names of failures: anvil uses the interpreter's.
fn trace(mut trace: Value) -> Value {
    if let Some(inner) = trace.get_mut("result").filter(|result| result.is_object()) {
        *inner = self::trace(inner.take());
    }
    if let Some(fields) = trace.as_object_mut() {
        if fields.contains_key("structLogs") || fields.contains_key("type") {
            fields.retain(|name, _| name != "gas" && name != "gasUsed");
        }
        fields.retain(|_, account| {
            let there = ["code", "nonce"].iter().any(|field| account.get(field).is_some());
            account.get("balance") != Some(&json!("0x0")) || there
        });
    }
    named(trace)
}

/// Collects the selectors with which `frame` and its subframes call precompiles.
fn precompile_selectors(frame: &Value, selectors: &mut BTreeMap<String, u64>) {
    let to: Option<Address> = serde_json::from_value(frame["to"].clone()).ok();
    let input: Bytes = serde_json::from_value(frame["input"].clone()).expect("input");
    if to.is_some_and(|to| to < Address::left_padding_from(&[0x01, 0x01])) && input.len() >= 4 {
        let name = format!("{}-{}", Bytes::copy_from_slice(&input[..4]), input.len() - 4);
        *selectors.entry(name).or_default() += 1;
    }
    for inner in frame["calls"].as_array().into_iter().flatten() {
        precompile_selectors(inner, selectors);
    }
}

/// anvil's selectors without those of precompiles, which go-ethereum does not count.
fn without_selectors(mut counts: Value, less: &BTreeMap<String, u64>) -> Value {
    for (name, count) in less {
        let left = counts[name].as_u64().unwrap_or_default().saturating_sub(*count);
        counts[name] = json!(left);
    }
    counts.as_object_mut().expect("counts").retain(|_, count| *count != json!(0));
    counts
}

/// `value` with one name for each failure.
fn named(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            // For a failed creation, Parity gives the returned data; anvil gives the address of the missing contract.
            if fields.get("type") == Some(&json!("create"))
                && fields.contains_key("error")
                && let Some(result) = fields.get_mut("result").and_then(Value::as_object_mut)
            {
                result.retain(|name, _| name == "gasUsed");
            }
            for (name, field) in fields.iter_mut() {
                let known = field.as_str().filter(|_| name == "error").map(|error| json!(failure(error)));
                *field = known.unwrap_or_else(|| named(field.take()));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = named(item.take())),
        _ => {}
    }
    value
}

/// Normalises a failure's name: `stack underflow`, `Stack underflow` and `StackUnderflow` are equal.
fn failure(error: &str) -> String {
    let same = FAILURES.iter().find(|(_, names)| names.contains(&error)).map_or(error, |(name, _)| name);
    same.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
}

/// Names of a write in a static context.
const STATIC: &[&str] = &["write protection", "Mutable Call In Static Context", "CallNotAllowedInsideStatic"];

/// Failures with several names.
const FAILURES: &[(&str, &[&str])] = &[
    ("CreateContractStartingWithEF", &["invalid code: must not begin with 0xef", "Invalid code"]),
    ("NotActivated", &["invalid opcode", "Bad instruction"]),
    ("StateChangeDuringStaticCall", STATIC),
];

impl Pair {
    /// Starts both with the same genesis: the development accounts with anvil's 10,000 ether each.
    pub async fn start() -> Self {
        let parent = MnemonicBuilder::from_phrase(MNEMONIC).build_parent_key().expect("the phrase");
        let accounts: Vec<Address> = parent.children().take(10).map(|key| key.expect("a key").address()).collect();
        let ether = U256::from(10_000) * U256::from(10).pow(U256::from(18));
        let balances = accounts.iter().map(|account| (*account, ether)).collect();
        let chain = ChainConfig { genesis_time: GENESIS_TIME, balances, ..Default::default() };
        let running = RunningConfig { mining: MiningMode::Manual, clock: None, hook: None };
        let devnet = Devnet::spawn(DevnetConfig { chain, running }).expect("spawns");
        let state = devnet.run(|chain| chain.state().clone()).await.expect("alive");
        // anvil records steps only on request, and would deploy a contract that is not in the state.
        let more = ["--steps-tracing", "--disable-default-create2-deployer"];
        let (anvil, theirs) = start_with(&state, GENESIS_TIME, CHAIN_ID, &more).await;
        let ours = devnet.provider();
        Self { ours, theirs, compared: BTreeSet::new(), differences: Vec::new(), accounts, _anvil: anvil, devnet }
    }

    /// Calls both and compares; returns the devnet's answer.
    async fn same(&mut self, method: &'static str, params: Value) -> Value {
        self.same_but(method, params, &[]).await
    }

    /// [`same`](Self::same) without additional fields.
    async fn same_but(&mut self, method: &'static str, params: Value, less: &[&str]) -> Value {
        self.same_of(method, params.clone(), params, less).await
    }

    /// Same as [`same_but`](Self::same_but) with different parameters for the two, such as a block's hash.
    async fn same_of(&mut self, method: &'static str, ours: Value, theirs: Value, less: &[&str]) -> Value {
        self.compared.insert(method);
        let here = ask(&self.ours, method, ours.clone()).await;
        let there = ask(&self.theirs, method, theirs).await;
        let fields = [&left_out(method), less].concat();
        let (left, right) = (named(without(here.clone(), &fields)), named(without(there, &fields)));
        self.compare(&left, &right, &asked(method, &ours));
        here
    }

    /// Records every difference, so that one run shows them all.
    fn compare(&mut self, ours: &Value, theirs: &Value, path: &str) {
        match (ours, theirs) {
            (Value::Object(left), Value::Object(right)) => {
                for name in left.keys().chain(right.keys().filter(|name| !left.contains_key(*name))) {
                    self.compare(&ours[name], &theirs[name], &format!("{path}.{name}"));
                }
            }
            (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
                for (index, (left, right)) in left.iter().zip(right).enumerate() {
                    self.compare(left, right, &format!("{path}[{index}]"));
                }
            }
            _ if ours == theirs => {}
            _ if self.differences.len() < MOST_DIFFERENCES => {
                self.differences.push(format!("{path}: ours {ours}, anvil {theirs}"));
            }
            _ => {}
        }
    }

    /// Asserts that both reject the request with the same code.
    async fn refused(&mut self, method: &'static str, params: Value) {
        let code = async |provider: &DynProvider| {
            let answer = provider.raw_request::<_, Value>(method.into(), params.clone()).await;
            let error = answer.expect_err(method);
            error.as_error_resp().unwrap_or_else(|| panic!("{method}: {error}")).code
        };
        let (ours, theirs) = (code(&self.ours).await, code(&self.theirs).await);
        self.compare(&json!(ours), &json!(theirs), &format!("{method}{params}, refused"));
    }

    /// Compares many requests at once.
    async fn all_same(&mut self, questions: &[(&'static str, Value)]) {
        let here = ask_all(&self.ours, questions).await;
        let there = ask_all(&self.theirs, questions).await;
        for (((method, params), here), there) in questions.iter().zip(here).zip(there) {
            self.compared.insert(method);
            let fields = left_out(method);
            let (left, right) = (named(without(here, &fields)), named(without(there, &fields)));
            self.compare(&left, &right, &asked(method, params));
        }
    }

    async fn hashes(&self, block: &str) -> (Value, Value) {
        let ours = ask(&self.ours, "eth_getBlockByNumber", json!([block, false])).await["hash"].clone();
        (ours, ask(&self.theirs, "eth_getBlockByNumber", json!([block, false])).await["hash"].clone())
    }

    /// Compares the genesis states by proofs, because anvil's block 0 has no state root. Then the contract that stores
    /// block hashes is removed from both: from there on every state root and proof is equal, although no block hash is.
    pub async fn compare_genesis(&mut self) {
        // No account is empty yet, so the proofs are equal node by node.
        for whom in self.accounts.iter().chain([&HISTORY_STORAGE_ADDRESS, &Address::ZERO]) {
            let params = json!([whom, [], "latest"]);
            let ours = ask(&self.ours, "eth_getProof", params.clone()).await;
            assert_eq!(ours, ask(&self.theirs, "eth_getProof", params).await, "{whom}");
        }
        self.same("anvil_setCode", json!([HISTORY_STORAGE_ADDRESS, "0x"])).await;
    }

    /// Compares the newest block: header, contents, traces, and proofs of its state.
    pub async fn compare_block(&mut self, number: u64, addresses: &[Address]) {
        let at = format!("{number:#x}");
        let block = self.same_but("eth_getBlockByNumber", json!([at, true]), BLOCK).await;
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
        self.all_same(&questions).await;
        self.compare_traces(&at, block["transactions"].as_array().expect("all")).await;
        let slots: Vec<B256> = (0..SLOTS).map(|slot| B256::from(U256::from(slot))).collect();
        let proofs: Vec<_> =
            addresses.iter().map(|address| ("eth_getProof", json!([address, slots, "latest"]))).collect();
        self.all_same(&proofs).await;
        if number.is_multiple_of(ROOT_EVERY) {
            self.compare_roots(&block["stateRoot"]).await;
        }
        let (ours, theirs) = self.hashes(&at).await;
        for method in ["eth_getBlockTransactionCountByHash", "eth_getUncleCountByBlockHash"] {
            self.same_of(method, json!([ours]), json!([theirs]), &[]).await;
        }
        self.same_of("eth_getBlockByHash", json!([ours, false]), json!([theirs, false]), BLOCK).await;
        for method in ["eth_getTransactionByBlockHashAndIndex", "eth_getRawTransactionByBlockHashAndIndex"] {
            self.same_of(method, json!([ours, "0x0"]), json!([theirs, "0x0"]), &[]).await;
        }
    }

    /// Compares the state root with one that alloy computes from anvil's accounts and slots. anvil's own roots differ:
    /// they include touched empty accounts, which EIP-161 removes, and zero slots.
    async fn compare_roots(&mut self, root: &Value) {
        let state = self.devnet.run(|chain| chain.state().clone()).await.expect("alive");
        let mut accounts = Vec::new();
        for address in state.addresses() {
            let slots: Vec<B256> = state.storage(address).map(|(slot, _)| B256::from(slot)).collect();
            let mut questions = vec![
                ("eth_getBalance", json!([address, "latest"])),
                ("eth_getTransactionCount", json!([address, "latest"])),
                ("eth_getCode", json!([address, "latest"])),
            ];
            questions.extend(slots.iter().map(|slot| ("eth_getStorageAt", json!([address, slot, "latest"]))));
            let answers = ask_all(&self.theirs, &questions).await;
            let number = |index: usize| serde_json::from_value::<U256>(answers[index].clone()).expect("a number");
            let code: Bytes = serde_json::from_value(answers[2].clone()).expect("code");
            let values = slots.iter().zip(3..).map(|(slot, index)| (*slot, number(index)));
            let storage_root = storage_root_unhashed(values.filter(|(_, value)| !value.is_zero()));
            accounts.push((address, TrieAccount::new(number(1).to(), number(0), storage_root, keccak256(code))));
        }
        let theirs = json!(state_root_unhashed(accounts));
        self.compare(root, &theirs, "the root of anvil's accounts");
    }

    async fn compare_traces(&mut self, at: &str, transactions: &[Value]) {
        let tracers = [
            json!({ "tracer": "callTracer", "tracerConfig": { "withLog": true } }),
            json!({ "tracer": "4byteTracer" }),
            json!({ "tracer": "prestateTracer" }),
            json!({ "tracer": "prestateTracer", "tracerConfig": { "diffMode": true } }),
            json!({}),
        ];
        let method = "debug_traceTransaction";
        self.compared.insert(method);
        let mut precompiles: Vec<BTreeMap<String, u64>> = Vec::new();
        for tracer in &tracers {
            let hashes = transactions.iter().map(|one| &one["hash"]);
            let questions: Vec<_> = hashes.map(|hash| (method, json!([hash, tracer]))).collect();
            let ours = ask_all(&self.ours, &questions).await;
            let theirs = ask_all(&self.theirs, &questions).await;
            for (index, ((transaction, ours), mut theirs)) in transactions.iter().zip(ours).zip(theirs).enumerate() {
                let what = format!("{method}[{},{tracer}]", transaction["hash"]);
                if tracer["tracer"] == "callTracer" {
                    self.compare(&ours["gas"], &transaction["gas"], &format!("{what}, gas limit"));
                    let mut selectors = BTreeMap::new();
                    precompile_selectors(&theirs, &mut selectors);
                    precompiles.push(selectors);
                }
                if tracer["tracer"] == "4byteTracer" {
                    theirs = without_selectors(theirs, &precompiles[index]);
                }
                self.compare(&trace(ours), &trace(theirs), &what);
            }
        }
        let (ours, theirs) = self.hashes(at).await;
        for tracer in &tracers[..1] {
            for (method, ours, theirs) in [
                ("debug_traceBlockByNumber", json!([at, tracer]), json!([at, tracer])),
                ("debug_traceBlockByHash", json!([ours, tracer]), json!([theirs, tracer])),
            ] {
                self.compared.insert(method);
                let here = ask(&self.ours, method, ours).await;
                let there = ask(&self.theirs, method, theirs).await;
                let here: Vec<Value> = here.as_array().into_iter().flatten().cloned().map(trace).collect();
                let there: Vec<Value> = there.as_array().into_iter().flatten().cloned().map(trace).collect();
                self.compare(&json!(here), &json!(there), &format!("{method}[{at},{tracer}]"));
            }
        }
    }

    /// Compares calls without lasting effects.
    pub async fn compare_calls(&mut self, contracts: &[Address], from: Address) {
        for to in contracts.iter().take(60) {
            let request = json!({ "from": from, "to": to, "gas": "0x7a120", "data": "0x01020304" });
            let here = self.ours.raw_request::<_, Value>("eth_call".into(), json!([request, "latest"])).await;
            if here.is_err() {
                // For reverts and halts, go-ethereum has two codes; anvil has its own.
                let there = self.theirs.raw_request::<_, Value>("eth_call".into(), json!([request, "latest"])).await;
                assert!(there.is_err(), "eth_call{request}: ours {here:?}, anvil {there:?}");
            } else {
                self.same("eth_call", json!([request, "latest"])).await;
            }
            let params = json!([request, "latest", { "tracer": "callTracer" }]);
            self.compared.insert("debug_traceCall");
            let here = trace(ask(&self.ours, "debug_traceCall", params.clone()).await);
            let there = trace(ask(&self.theirs, "debug_traceCall", params.clone()).await);
            self.compare(&here, &there, &asked("debug_traceCall", &params));
            self.compare_simulation(&request).await;
        }
        // Random programs read GAS, which an access list changes: this one only reads two slots.
        let reader = Address::repeat_byte(0xad);
        self.same("anvil_setCode", json!([reader, "0x6001545060025450"])).await;
        self.same("eth_createAccessList", json!([{ "from": from, "to": reader }, "latest"])).await;
        let transfer = json!({ "from": from, "to": Address::repeat_byte(0x5e), "value": "0x1" });
        self.same("eth_estimateGas", json!([transfer, "latest"])).await;
    }

    /// anvil simulates in the given block instead of the next one, on chain 1, keeps no roots, and has its own failure
    /// codes. So the effects of the calls are compared, not the blocks around them.
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
        self.compare(&what(&here), &what(&there), &format!("eth_simulateV1{request}"));
    }

    /// Compares accounts, their signatures, and small requests.
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
            ("eth_blobBaseFee", json!([])),
            ("eth_getBalance", json!([account, "latest"])),
            ("eth_getCode", json!([account, "latest"])),
            ("eth_getTransactionCount", json!([account, "latest"])),
            ("eth_getStorageAt", json!([account, "0x0", "latest"])),
            ("anvil_getAutomine", json!([])),
        ] {
            self.same(method, params).await;
        }
        // The tip is each node's own recommendation, anvil's from recent blocks; the base that it is added to is equal.
        let mut base_fees = Vec::new();
        for provider in [&self.ours, &self.theirs] {
            let [price, tip] =
                ["eth_gasPrice", "eth_maxPriorityFeePerGas"].map(|method| ask(provider, method, json!([])));
            let (price, tip) = (serde_json::from_value(price.await), serde_json::from_value(tip.await));
            let (price, tip): (U256, U256) = (price.expect("a price"), tip.expect("a tip"));
            base_fees.push(json!(price - tip));
        }
        self.compared.extend(["eth_gasPrice", "eth_maxPriorityFeePerGas"]);
        self.compare(&base_fees[0], &base_fees[1], "eth_gasPrice without the tip");
        // anvil's timestamp here is that of its next block's environment.
        self.same_but("anvil_nodeInfo", json!([]), &["currentBlockHash", "currentBlockTimestamp", "gasPrice"]).await;
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

    /// Compares the pool, filled by unlocked accounts.
    pub async fn compare_pool(&mut self) {
        let (first, second) = (self.accounts[0], self.accounts[2]);
        let fees = json!({ "maxFeePerGas": "0x12a05f200", "maxPriorityFeePerGas": "0x3b9aca00" });
        let with = |fields: Value| {
            let mut request = fees.clone();
            request.as_object_mut().expect("fields").extend(fields.as_object().expect("fields").clone());
            json!([request])
        };
        let filters = json!([{ "address": first }]);
        let mut last = Value::Null;
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
                self.same_of("eth_getFilterLogs", json!([ours]), json!([theirs]), &[]).await;
            }
            self.same_of("eth_uninstallFilter", json!([ours]), json!([theirs]), &[]).await;
            self.same("eth_getTransactionByHash", json!([hash])).await;
            last = hash;
        }
        let create = with(json!({ "from": second, "data": "0x00", "nonce": "0x7", "gas": "0xcf0e" }));
        self.same("eth_sendTransaction", create).await;
        for method in ["txpool_status", "txpool_inspect"] {
            self.same(method, json!([])).await;
        }
        // The price: anvil's cap here, the next block's price in eth_getTransactionByHash; the devnet gives the latter
        // in both.
        self.same_but("txpool_content", json!([]), &["gasPrice"]).await;
        // anvil keeps transactions that wait for a nonce in the pool.
        self.same("anvil_dropTransaction", json!([last])).await;
        self.same("eth_getTransactionByHash", json!([last])).await;
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

    /// Compares development methods; the resulting state is compared by its root.
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
        // The hash of an unsigned transaction is specific to each node.
        for provider in [&self.ours, &self.theirs] {
            let fees = json!([{ "from": whale, "to": coder, "gas": "0xea60", "maxFeePerGas": "0x12a05f200", "maxPriorityFeePerGas": "0x1" }]);
            ask(provider, "eth_sendTransaction", fees).await;
        }
        self.same("anvil_mine", json!(["0x1"])).await;
        let block = [BLOCK, &["transactions", "transactionsRoot"]].concat();
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
        self.same("anvil_mine", json!(["0x3", "0x3c"])).await;
        self.same_but("eth_getBlockByNumber", json!(["latest", false]), BLOCK).await;
        self.same("anvil_setBlockTimestampInterval", json!([17])).await;
        self.same("anvil_mine", json!(["0x3"])).await;
        self.same_but("eth_getBlockByNumber", json!(["latest", false]), &block).await;
        self.same("anvil_removeBlockTimestampInterval", json!([])).await;
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
            // The total time offset includes the wall clock, which each node reads itself.
            for provider in [&self.ours, &self.theirs] {
                assert!(ask(provider, method, json!([100])).await.is_number(), "{method}");
            }
        }
    }

    /// Asserts that no common method was forgotten: anvil is asked for every method of the devnet.
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
        assert!(self.differences.is_empty(), "{:#?}", self.differences);
        assert!(forgotten.is_empty(), "both have these, and nothing compares them: {forgotten:?}");
        println!("{} methods compared", self.compared.len());
    }
}

/// The documentation lists exactly the methods that are served.
#[test]
fn the_documentation_lists_the_served_methods() {
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
