//! Tests of long requests that must not block others, of the pool, and of the node's description.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

#[tokio::test]
async fn others_are_answered_while_many_blocks_are_mined() {
    const BLOCKS: u64 = 5_000;
    let devnet = devnet(MiningMode::Manual);
    let mining = tokio::spawn({
        let devnet = devnet.clone();
        async move { ask(&devnet, "anvil_mine", json!([BLOCKS])).await }
    });
    let mut between = 0;
    while !mining.is_finished() {
        let number: U256 = serde_json::from_value(ask(&devnet, "eth_blockNumber", json!([])).await).expect("a number");
        between += u64::from(number > U256::ZERO && number < U256::from(BLOCKS));
        tokio::task::yield_now().await;
    }
    assert_eq!(mining.await.expect("runs"), Value::Null);
    assert!(between > 3, "answered {between} times in between");
    assert_eq!(ask(&devnet, "eth_blockNumber", json!([])).await, format!("{BLOCKS:#x}"));
    ask(&devnet, "evm_mine", json!([{ "blocks": 3 }])).await;
    assert_eq!(ask(&devnet, "eth_blockNumber", json!([])).await, format!("{:#x}", BLOCKS + 3));
    assert_eq!(refused(&devnet, "anvil_mine", json!(["0x186a1"])).await.0, -32602);
}

#[tokio::test]
async fn others_are_answered_while_calls_are_traced() {
    let devnet = devnet(MiningMode::Manual);
    let endless = Address::repeat_byte(0x14);
    ask(&devnet, "anvil_setCode", json!([endless, "0x5b5f56"])).await;
    let done = Arc::new(AtomicUsize::new(0));
    let traces: Vec<_> = (0..4)
        .map(|_| {
            let (devnet, done) = (devnet.clone(), Arc::clone(&done));
            tokio::spawn(async move {
                let request = json!([{ "to": endless, "gas": "0x2faf080" }, "latest", { "tracer": "callTracer" }]);
                let trace = ask(&devnet, "debug_traceCall", request).await;
                done.fetch_add(1, Ordering::SeqCst);
                assert_eq!(trace["error"], "out of gas");
            })
        })
        .collect();
    tokio::task::yield_now().await;
    // Blocks are mined while all four run or wait for a permit.
    for _ in 0..5 {
        ask(&devnet, "evm_mine", json!([])).await;
    }
    assert!(done.load(Ordering::SeqCst) < 4, "the traces were over first");
    for trace in traces {
        trace.await.expect("runs");
    }
}

#[tokio::test]
async fn a_batch_with_long_requests_is_answered_in_order() {
    let devnet = devnet(MiningMode::OnTransaction);
    let provider = devnet.provider();
    let mut batch = BatchRequest::new(provider.client());
    let sent =
        batch.add_call::<_, B256>("eth_sendTransaction", &json!([{ "from": ALICE, "to": LOGGER }])).expect("added");
    let traced = batch
        .add_call::<_, Value>("debug_traceBlockByNumber", &json!(["0x1", { "tracer": "callTracer" }]))
        .expect("added");
    let mined = batch.add_call::<_, Value>("anvil_mine", &json!(["0x2"])).expect("added");
    let number = batch.add_call::<_, U256>("eth_blockNumber", &()).expect("added");
    batch.send().await.expect("answered");
    let hash = sent.await.expect("answered");
    assert_eq!(traced.await.expect("answered")[0]["txHash"], json!(hash));
    mined.await.expect("answered");
    assert_eq!(number.await.expect("answered"), U256::from(3));
}

#[tokio::test]
async fn the_pool_is_listed_in_full_and_as_summary_lines() {
    let devnet = devnet(MiningMode::Manual);
    let first = ask(&devnet, "eth_sendTransaction", json!([{ "from": ALICE, "to": BOB, "value": "0x1" }])).await;
    let gap = json!([{ "from": ALICE, "data": "0x00", "nonce": "0x5", "gas": "0xcf0e", "maxFeePerGas": "0x77359400" }]);
    let later = ask(&devnet, "eth_sendTransaction", gap).await;
    assert_eq!(ask(&devnet, "txpool_status", json!([])).await, json!({ "pending": "0x1", "queued": "0x1" }));
    let content = ask(&devnet, "txpool_content", json!([])).await;
    let sender = format!("{ALICE:#x}");
    assert_eq!(content["pending"][&sender]["0"], ask(&devnet, "eth_getTransactionByHash", json!([first])).await);
    assert_eq!(content["queued"][&sender]["5"]["hash"], later);
    let lines = ask(&devnet, "txpool_inspect", json!([])).await;
    // Twice the base fee of 1 gwei plus the tip of 1 gwei.
    let expected = format!("{BOB:#x}: 1 wei + 21000 gas × 3000000000 wei");
    assert_eq!(lines["pending"][&sender]["0"], expected);
    assert_eq!(lines["queued"][&sender]["5"], "contract creation: 0 wei + 53006 gas × 2000000000 wei");
}

#[tokio::test]
async fn a_reset_restores_the_genesis_and_notifies_clients() {
    let devnet = devnet(MiningMode::OnTransaction);
    ask(&devnet, "anvil_setBalance", json!([REVERTER, "0x7"])).await;
    let filter = ask(&devnet, "eth_newFilter", json!([{ "address": LOGGER }])).await;
    let saved = ask(&devnet, "evm_snapshot", json!([])).await;
    let before = ask(&devnet, "anvil_metadata", json!([])).await;
    assert_eq!(before["snapshots"], json!({ "0x1": [0, before["latestBlockHash"]] }));
    ask(&devnet, "eth_sendTransaction", json!([{ "from": ALICE, "to": LOGGER }])).await;
    assert_eq!(ask(&devnet, "eth_getFilterChanges", json!([filter])).await[0]["removed"], false);
    assert_eq!(ask(&devnet, "anvil_reset", json!([])).await, Value::Null);
    assert_eq!(ask(&devnet, "eth_getFilterChanges", json!([filter])).await[0]["removed"], true);
    assert_eq!(ask(&devnet, "eth_blockNumber", json!([])).await, "0x0");
    assert_eq!(ask(&devnet, "eth_getTransactionCount", json!([ALICE])).await, "0x0");
    assert_eq!(ask(&devnet, "eth_getBalance", json!([REVERTER])).await, "0x0");
    assert_eq!(ask(&devnet, "eth_getCode", json!([REVERTER])).await, "0x60075f5260205ffd");
    assert_eq!(ask(&devnet, "evm_revert", json!([saved])).await, false);
    let after = ask(&devnet, "anvil_metadata", json!([])).await;
    assert_eq!((&after["latestBlockHash"], &after["snapshots"]), (&before["latestBlockHash"], &json!({})));
    assert_ne!(after["instanceId"], before["instanceId"]);
    // The chain continues from there, and can be reset again.
    ask(&devnet, "eth_sendTransaction", json!([{ "from": ALICE, "to": LOGGER }])).await;
    ask(&devnet, "hardhat_reset", json!([{}])).await;
    assert_eq!(ask(&devnet, "eth_blockNumber", json!([])).await, "0x0");
    let fork = json!([{ "forking": { "jsonRpcUrl": "http://localhost:1" } }]);
    assert_eq!(refused(&devnet, "anvil_reset", fork).await.0, -32602);
}

#[tokio::test]
async fn node_info_and_metadata_describe_the_node() {
    let devnet = devnet(MiningMode::OnTransaction);
    ask(&devnet, "eth_sendTransaction", json!([{ "from": ALICE, "to": LOGGER }])).await;
    let block = ask(&devnet, "eth_getBlockByNumber", json!(["latest"])).await;
    let info = ask(&devnet, "anvil_nodeInfo", json!([])).await;
    assert_eq!((&info["currentBlockNumber"], &info["currentBlockHash"]), (&json!("0x1"), &block["hash"]));
    assert_eq!((&info["hardFork"], &info["transactionOrder"]), (&json!("Osaka"), &json!("fees")));
    assert_eq!(info["environment"]["chainId"], 31_337);
    assert_eq!(info["environment"]["gasLimit"], block["gasLimit"]);
    assert_eq!(info["environment"]["gasPrice"], ask(&devnet, "eth_gasPrice", json!([])).await);
    assert_eq!(ask(&devnet, "anvil_metadata", json!([])).await["chainId"], 31_337);
    assert_eq!(ask(&devnet, "hardhat_metadata", json!([])).await["latestBlockNumber"], 1);
    let coinbase = json!(Address::repeat_byte(0xc0));
    ask(&devnet, "anvil_setCoinbase", json!([coinbase])).await;
    assert_eq!(ask(&devnet, "eth_coinbase", json!([])).await, coinbase);
}
