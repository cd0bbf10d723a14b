//! Tests of the dispatcher through an alloy provider and the in-process transport.

mod asides;
mod proofs;
mod signing;
mod simulation;
mod tracing;

use std::time::Duration;

use alloy::network::{EthereumWallet, TransactionBuilder};
use alloy::primitives::{Address, B256, Bytes, TxKind, U256, address, bytes, keccak256};
use alloy::providers::{DynProvider, Provider, ProviderBuilder, WalletProvider};
use alloy::rpc::client::BatchRequest;
use alloy::rpc::types::{BlockNumberOrTag, Filter, TransactionRequest};
use alloy::signers::local::PrivateKeySigner;
use serde_json::{Value, json};

use super::super::chain::ChainConfig;
use super::super::handle::{Devnet, DevnetConfig, DevnetStopped, HookPolicy, MiningMode, RunningConfig};

const ALICE: Address = address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
const BOB: Address = Address::repeat_byte(0xb0);
const ETHER: u128 = 1_000_000_000_000_000_000;
/// Contract that executes LOG1 with no data and topic 0x2a.
const LOGGER: Address = Address::repeat_byte(0x10);
/// Contract that reverts with one word, 7.
const REVERTER: Address = Address::repeat_byte(0x11);

fn devnet(mining: MiningMode) -> Devnet {
    let chain = ChainConfig {
        balances: vec![(ALICE, U256::from(100 * ETHER))],
        codes: vec![(LOGGER, bytes!("602a5f5fa100")), (REVERTER, bytes!("60075f5260205ffd"))],
        ..Default::default()
    };
    let running = RunningConfig { mining, clock: None, hook: None };
    Devnet::spawn(DevnetConfig { chain, running }).expect("spawns")
}

async fn ask(devnet: &Devnet, method: &'static str, params: Value) -> Value {
    let answer = devnet.provider().raw_request::<_, Value>(method.into(), params).await;
    answer.unwrap_or_else(|error| panic!("{method}: {error}"))
}

async fn refused(devnet: &Devnet, method: &'static str, params: Value) -> (i64, String, Option<Value>) {
    let error = devnet.provider().raw_request::<_, Value>(method.into(), params).await.expect_err(method);
    let payload = error.as_error_resp().unwrap_or_else(|| panic!("{method}: {error}"));
    let data = payload.data.as_ref().map(|data| serde_json::from_str(data.get()).expect("JSON"));
    (payload.code, payload.message.to_string(), data)
}

fn wallet_provider(devnet: &Devnet) -> impl Provider + WalletProvider + Clone + use<> {
    let key: PrivateKeySigner =
        "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80".parse().expect("a key");
    ProviderBuilder::new().wallet(EthereumWallet::from(key)).connect_provider(devnet.provider())
}

fn to_logger() -> TransactionRequest {
    TransactionRequest::default().with_to(LOGGER)
}

#[tokio::test]
async fn an_alloy_wallet_fills_signs_sends_and_gets_its_receipt() {
    let devnet = devnet(MiningMode::OnTransaction);
    let provider = wallet_provider(&devnet);
    let request = TransactionRequest::default().with_to(BOB).with_value(U256::from(5));
    let receipt = provider.send_transaction(request).await.expect("sent").get_receipt().await.expect("mined");
    assert!(receipt.status());
    assert_eq!((receipt.gas_used, receipt.block_number), (21_000, Some(1)));
    assert_eq!(provider.get_balance(BOB).await.expect("read"), U256::from(5));
    let block = provider.get_block_by_number(BlockNumberOrTag::Latest).full().await.expect("read").expect("there");
    assert_eq!(block.header.hash, block.header.inner.hash_slow());
    let consensus = alloy::consensus::Block {
        header: block.header.inner.clone(),
        body: alloy::consensus::BlockBody {
            transactions: block
                .transactions
                .as_transactions()
                .expect("whole")
                .iter()
                .map(|tx| tx.inner.clone_inner())
                .collect(),
            ommers: Vec::new(),
            withdrawals: Some(Default::default()),
        },
    };
    assert_eq!(block.header.size, Some(U256::from(alloy::rlp::Encodable::length(&consensus))));
    let transaction = block.transactions.as_transactions().expect("whole")[0].clone();
    assert_eq!(*transaction.inner.tx_hash(), receipt.transaction_hash);
    let found = provider.get_transaction_by_hash(receipt.transaction_hash).await.expect("read").expect("there");
    assert_eq!(found.inner.signer(), ALICE);
    assert_eq!(provider.get_block_receipts(1.into()).await.expect("read").expect("there").len(), 1);
}

#[tokio::test]
async fn simple_methods_return_the_expected_values() {
    let devnet = devnet(MiningMode::Manual);
    assert_eq!(ask(&devnet, "eth_chainId", json!([])).await, "0x7a69");
    assert_eq!(ask(&devnet, "net_version", json!([])).await, "31337");
    assert_eq!(ask(&devnet, "eth_blockNumber", json!([])).await, "0x0");
    assert_eq!(ask(&devnet, "eth_syncing", json!([])).await, false);
    assert_eq!(ask(&devnet, "eth_gasPrice", json!([])).await, "0x77359400");
    assert_eq!(ask(&devnet, "eth_maxPriorityFeePerGas", json!([])).await, "0x3b9aca00");
    assert_eq!(ask(&devnet, "eth_getBlockTransactionCountByNumber", json!(["latest"])).await, "0x0");
    assert_eq!(ask(&devnet, "eth_getTransactionReceipt", json!([B256::ZERO])).await, Value::Null);
    assert_eq!(ask(&devnet, "eth_getBlockByNumber", json!(["0x99", false])).await, Value::Null);
    assert_eq!(ask(&devnet, "eth_getCode", json!([LOGGER, "latest"])).await, "0x602a5f5fa100");
    assert_eq!(ask(&devnet, "web3_sha3", json!(["0x"])).await, json!(keccak256([])));
    assert!(ask(&devnet, "web3_clientVersion", json!([])).await.as_str().expect("text").starts_with("bardo"));
    assert_eq!(ask(&devnet, "eth_accounts", json!([])).await, json!([ALICE]));
}

#[tokio::test]
async fn parameters_may_be_missing_null_or_in_decimal() {
    let devnet = devnet(MiningMode::Manual);
    let balance = json!(U256::from(100 * ETHER));
    for params in [
        json!([ALICE]),
        json!([ALICE, null]),
        json!([ALICE, "latest"]),
        json!([ALICE, "0x0"]),
        json!([ALICE, 0]),
        json!([ALICE, "0"]),
        json!([ALICE, { "blockNumber": "0x0" }]),
        json!([ALICE, "earliest", "and more"]),
    ] {
        assert_eq!(ask(&devnet, "eth_getBalance", params.clone()).await, balance, "{params}");
    }
    let hash = ask(&devnet, "eth_getBlockByNumber", json!([0])).await["hash"].clone();
    assert_eq!(ask(&devnet, "eth_getBalance", json!([ALICE, hash])).await, balance);
    assert_eq!(ask(&devnet, "eth_getBalance", json!([ALICE, { "blockHash": hash }])).await, balance);
}

#[tokio::test]
async fn errors_have_the_codes_clients_know() {
    let devnet = devnet(MiningMode::OnTransaction);
    let (code, message, _) = refused(&devnet, "eth_nothing", json!([])).await;
    assert_eq!(code, -32601);
    assert!(message.contains("eth_nothing"), "{message}");
    assert_eq!(refused(&devnet, "eth_getBalance", json!([])).await.0, -32602);
    assert_eq!(refused(&devnet, "eth_getBalance", json!(["0x12"])).await.0, -32602);
    assert_eq!(refused(&devnet, "eth_getBalance", json!([ALICE, "0x5"])).await.0, -32000);
    let (code, message, data) = refused(&devnet, "eth_call", json!([{ "to": REVERTER }])).await;
    assert_eq!((code, message.as_str()), (3, "execution reverted"));
    assert_eq!(data, Some(json!(B256::with_last_byte(7))));
    assert_eq!(refused(&devnet, "eth_estimateGas", json!([{ "to": REVERTER }])).await.0, 3);
    let (code, message, _) = refused(&devnet, "eth_sendTransaction", json!([{ "from": BOB, "to": ALICE }])).await;
    assert_eq!(code, -32602);
    assert!(message.contains("anvil_impersonateAccount"), "{message}");
    ask(&devnet, "anvil_impersonateAccount", json!([BOB])).await;
    let poor = json!([{ "from": BOB, "to": ALICE, "gas": "0x5208" }]);
    let (code, message, _) = refused(&devnet, "eth_sendTransaction", poor).await;
    assert_eq!(code, -32003);
    assert!(message.starts_with("insufficient funds for gas * price + value"), "{message}");
    assert_eq!(refused(&devnet, "eth_sendRawTransaction", json!(["0x1234"])).await.0, -32602);
    let (_, message, _) = refused(&devnet, "eth_\u{1b}[31m", json!([])).await;
    assert!(!message.contains('\u{1b}'));
}

#[tokio::test]
async fn solidity_reasons_are_put_into_words() {
    let devnet = devnet(MiningMode::Manual);
    // Error("no"), which the init code copies to memory itself.
    let mut data = keccak256("Error(string)")[..4].to_vec();
    data.extend_from_slice(&U256::from(32).to_be_bytes::<32>());
    data.extend_from_slice(&U256::from(2).to_be_bytes::<32>());
    data.extend_from_slice(b"no");
    data.resize(100, 0);
    // PUSH1 100 PUSH1 10 PUSH0 CODECOPY PUSH1 100 PUSH0 REVERT, then the data.
    let mut code = vec![0x60, 100, 0x60, 10, 0x5f, 0x39, 0x60, 100, 0x5f, 0xfd];
    code.extend_from_slice(&data);
    let (code, message, returned) = refused(&devnet, "eth_call", json!([{ "data": Bytes::from(code) }])).await;
    assert_eq!((code, message.as_str()), (3, "execution reverted: no"));
    assert_eq!(returned, Some(json!(Bytes::from(data))));
}

#[tokio::test]
async fn calls_take_state_and_block_overrides() {
    let devnet = devnet(MiningMode::Manual);
    // Returns SLOAD(1), then its own balance, then TIMESTAMP.
    let code = bytes!("6001545f52476020524260405260605ff3");
    let state = json!({ BOB.to_string(): {
        "code": code,
        "balance": "0x9",
        "stateDiff": { B256::with_last_byte(1).to_string(): B256::with_last_byte(8) },
    }});
    let answer = ask(&devnet, "eth_call", json!([{ "to": BOB }, "latest", state, { "time": "0x64" }])).await;
    let words = [8_u64, 9, 100].map(|word| U256::from(word).to_be_bytes::<32>()).concat();
    assert_eq!(answer, json!(Bytes::from(words)));
    assert_eq!(ask(&devnet, "eth_getCode", json!([BOB])).await, "0x");
}

#[tokio::test]
async fn logs_are_found_by_range_address_topic_and_block() {
    let devnet = devnet(MiningMode::OnTransaction);
    let provider = wallet_provider(&devnet);
    for _ in 0..3 {
        provider.send_transaction(to_logger()).await.expect("sent").get_receipt().await.expect("mined");
    }
    let topic = B256::with_last_byte(0x2a);
    let count = async |filter: Filter| provider.get_logs(&filter).await.expect("found").len();
    assert_eq!(count(Filter::new().from_block(0)).await, 3);
    assert_eq!(count(Filter::new().select(2..=2)).await, 1);
    assert_eq!(count(Filter::new().from_block(0).address(vec![BOB, LOGGER])).await, 3);
    assert_eq!(count(Filter::new().from_block(0).address(BOB)).await, 0);
    assert_eq!(count(Filter::new().from_block(0).event_signature(vec![B256::ZERO, topic])).await, 3);
    assert_eq!(count(Filter::new().from_block(0).event_signature(B256::ZERO)).await, 0);
    assert_eq!(count(Filter::new().from_block(0).topic1(topic)).await, 0);
    let hash = provider.get_block_by_number(2.into()).await.expect("read").expect("there").header.hash;
    let logs = provider.get_logs(&Filter::new().at_block_hash(hash)).await.expect("found");
    assert_eq!((logs.len(), logs[0].block_number, logs[0].log_index), (1, Some(2), Some(0)));
    assert_eq!(refused(&devnet, "eth_getLogs", json!([{ "blockHash": B256::ZERO }])).await.1, "unknown block");
    assert_eq!(refused(&devnet, "eth_getLogs", json!([{ "fromBlock": "0x3", "toBlock": "0x1" }])).await.0, -32602);
}

#[tokio::test]
async fn filters_report_each_item_once_and_logs_removed_by_a_reorganisation() {
    let devnet = devnet(MiningMode::OnTransaction);
    let provider = wallet_provider(&devnet);
    let logs = ask(&devnet, "eth_newFilter", json!([{ "address": LOGGER }])).await;
    let blocks = ask(&devnet, "eth_newBlockFilter", json!([])).await;
    let pending = ask(&devnet, "eth_newPendingTransactionFilter", json!([])).await;
    let receipt = provider.send_transaction(to_logger()).await.expect("sent").get_receipt().await.expect("mined");
    assert_eq!(ask(&devnet, "eth_getFilterChanges", json!([blocks])).await, json!([receipt.block_hash]));
    assert_eq!(ask(&devnet, "eth_getFilterChanges", json!([pending])).await, json!([receipt.transaction_hash]));
    let told = ask(&devnet, "eth_getFilterChanges", json!([logs])).await;
    assert_eq!((told.as_array().expect("list").len(), told[0]["removed"].clone()), (1, json!(false)));
    assert_eq!(ask(&devnet, "eth_getFilterChanges", json!([logs])).await, json!([]));

    ask(&devnet, "anvil_reorg", json!([1, []])).await;
    let told = ask(&devnet, "eth_getFilterChanges", json!([logs])).await;
    assert_eq!(told.as_array().expect("list").len(), 1);
    assert_eq!((told[0]["removed"].clone(), told[0]["blockHash"].clone()), (json!(true), json!(receipt.block_hash)));
    assert_eq!(ask(&devnet, "eth_getFilterLogs", json!([logs])).await, json!([]));
    let gone = ask(&devnet, "eth_getTransactionReceipt", json!([receipt.transaction_hash])).await;
    assert_eq!(gone, Value::Null);

    assert_eq!(ask(&devnet, "eth_uninstallFilter", json!([logs])).await, true);
    assert_eq!(ask(&devnet, "eth_uninstallFilter", json!([logs])).await, false);
    assert_eq!(refused(&devnet, "eth_getFilterChanges", json!([logs])).await.1, "filter not found");
}

#[tokio::test]
async fn development_methods_do_what_they_say() {
    let devnet = devnet(MiningMode::Manual);
    ask(&devnet, "anvil_setBalance", json!([BOB, "0x10"])).await;
    assert_eq!(ask(&devnet, "eth_getBalance", json!([BOB])).await, "0x10");
    ask(&devnet, "hardhat_setNonce", json!([BOB, "0x3"])).await;
    assert_eq!(ask(&devnet, "eth_getTransactionCount", json!([BOB])).await, "0x3");
    ask(&devnet, "anvil_setCode", json!([BOB, "0x5f"])).await;
    assert_eq!(ask(&devnet, "eth_getCode", json!([BOB])).await, "0x5f");
    ask(&devnet, "anvil_setStorageAt", json!([BOB, "0x1", B256::with_last_byte(4)])).await;
    assert_eq!(ask(&devnet, "eth_getStorageAt", json!([BOB, "0x1", "latest"])).await, json!(B256::with_last_byte(4)));

    let id = ask(&devnet, "evm_snapshot", json!([])).await;
    let start = 1_700_000_000_u64;
    assert_eq!(ask(&devnet, "evm_increaseTime", json!(["0x64"])).await, 100);
    ask(&devnet, "evm_mine", json!([])).await;
    let timestamp =
        async |devnet: &Devnet| ask(devnet, "eth_getBlockByNumber", json!(["latest"])).await["timestamp"].clone();
    assert_eq!(timestamp(&devnet).await, format!("{:#x}", start + 101));
    ask(&devnet, "evm_setNextBlockTimestamp", json!([start + 500])).await;
    ask(&devnet, "evm_mine", json!([])).await;
    assert_eq!(timestamp(&devnet).await, format!("{:#x}", start + 500));
    assert_eq!(refused(&devnet, "evm_setNextBlockTimestamp", json!([start + 500])).await.0, -32602);
    ask(&devnet, "anvil_mine", json!(["0x3", "0xa"])).await;
    assert_eq!(timestamp(&devnet).await, format!("{:#x}", start + 530));
    assert_eq!(ask(&devnet, "eth_blockNumber", json!([])).await, "0x5");
    assert_eq!(ask(&devnet, "evm_revert", json!([id])).await, true);
    assert_eq!(ask(&devnet, "eth_blockNumber", json!([])).await, "0x0");
    assert_eq!(ask(&devnet, "evm_revert", json!([id])).await, false);

    assert_eq!(refused(&devnet, "bardo_describe", json!([])).await.0, -32000);
    devnet.set_description(json!({ "name": "ethereum" })).await.expect("alive");
    assert_eq!(ask(&devnet, "bardo_describe", json!([])).await, json!({ "name": "ethereum" }));
}

#[tokio::test]
async fn mining_can_be_switched_while_it_runs() {
    let devnet = devnet(MiningMode::Manual);
    ask(&devnet, "anvil_impersonateAccount", json!([ALICE])).await;
    let send = json!([{ "from": ALICE, "to": BOB, "value": "0x1" }]);
    let first = ask(&devnet, "eth_sendTransaction", send.clone()).await;
    assert_eq!(ask(&devnet, "eth_getTransactionByHash", json!([first])).await["blockNumber"], Value::Null);
    assert_eq!(ask(&devnet, "eth_getTransactionCount", json!([ALICE, "pending"])).await, "0x1");
    assert_eq!(ask(&devnet, "eth_getBalance", json!([BOB, "pending"])).await, "0x1");
    assert_eq!(ask(&devnet, "txpool_status", json!([])).await, json!({ "pending": "0x1", "queued": "0x0" }));
    ask(&devnet, "evm_setAutomine", json!([true])).await;
    assert_eq!(ask(&devnet, "eth_blockNumber", json!([])).await, "0x1");
    ask(&devnet, "eth_sendTransaction", send).await;
    assert_eq!(ask(&devnet, "eth_blockNumber", json!([])).await, "0x2");

    devnet.set_mining(MiningMode::Interval(Duration::from_millis(5))).await.expect("alive");
    let mut head = devnet.head();
    head.wait_for(|block| block.number() >= 4).await.expect("blocks come by themselves");
}

#[tokio::test]
async fn a_block_hook_acts_inside_each_block() {
    let devnet = devnet(MiningMode::Manual);
    let hook = |chain: &mut super::super::Chain| {
        let request = TransactionRequest {
            from: Some(ALICE),
            to: Some(TxKind::Call(BOB)),
            value: Some(U256::from(1)),
            ..Default::default()
        };
        chain.set_impersonated(ALICE, true);
        chain.send(request).expect("taken");
    };
    devnet.set_block_hook(Box::new(hook), HookPolicy { on_request: true, on_transaction: false }).await.expect("alive");
    let mut events = devnet.events();
    ask(&devnet, "evm_mine", json!([])).await;
    assert_eq!(devnet.mine().await.expect("alive").transactions.len(), 1);
    assert_eq!(ask(&devnet, "eth_getBalance", json!([BOB])).await, "0x2");
    let mut mined = 0;
    while let Ok(event) = events.try_recv() {
        mined += u32::from(matches!(event, super::super::events::ChainEvent::Added(_)));
    }
    assert_eq!(mined, 2);
}

#[tokio::test]
async fn blocking_on_the_own_thread_is_rejected_and_the_thread_ends_with_the_handle() {
    let devnet = devnet(MiningMode::Interval(Duration::from_secs(3_600)));
    let inner = devnet.clone();
    let answer = devnet.run(move |_| inner.run_blocking(|chain| chain.number())).await.expect("alive");
    assert_eq!(answer, Err(DevnetStopped::FromOwnThread));
    let provider: DynProvider = devnet.provider();
    let head = devnet.head();
    drop(devnet);
    assert!(head.has_changed().is_ok(), "the provider keeps it alive");
    drop(provider);
    assert!(head.has_changed().is_err(), "nobody is left to tell");
}

#[tokio::test]
async fn batches_are_answered_in_order_and_see_each_other() {
    let devnet = devnet(MiningMode::OnTransaction);
    ask(&devnet, "anvil_impersonateAccount", json!([ALICE])).await;
    let provider = devnet.provider();
    let mut batch = BatchRequest::new(provider.client());
    let before = batch.add_call::<_, U256>("eth_blockNumber", &()).expect("added");
    let sent = batch
        .add_call::<_, B256>("eth_sendTransaction", &json!([{ "from": ALICE, "to": BOB, "value": "0x1" }]))
        .expect("added");
    let after = batch.add_call::<_, U256>("eth_blockNumber", &()).expect("added");
    batch.send().await.expect("answered");
    assert_eq!(before.await.expect("answered"), U256::ZERO);
    sent.await.expect("answered");
    assert_eq!(after.await.expect("answered"), U256::from(1));
}

#[test]
fn every_method_is_there_once() {
    let mut names: Vec<_> = super::served_names().collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    for name in super::HARDHAT_NAMES {
        let anvil = name.replace("hardhat_", "anvil_");
        assert!(super::methods().any(|method| method == anvil), "{name}");
    }
}
