//! Tests of `eth_simulateV1` by the rules of execution-apis, with go-ethereum's codes.

use super::*;

fn simulation(blocks: Value) -> Value {
    json!([{ "blockStateCalls": blocks }, "latest"])
}

#[tokio::test]
async fn blocks_build_on_each_other_and_nothing_is_kept() {
    let devnet = devnet(MiningMode::Manual);
    ask(&devnet, "evm_mine", json!([])).await;
    let made = ask(
        &devnet,
        "eth_simulateV1",
        simulation(json!([
            {
                "stateOverrides": { REVERTER.to_string(): { "balance": "0x64" } },
                "calls": [
                    { "from": REVERTER, "to": BOB, "value": "0x63" },
                    { "from": ALICE, "to": LOGGER },
                    { "to": REVERTER },
                ],
            },
            { "blockOverrides": { "number": "0x5", "time": "0x77359400" }, "calls": [{ "from": BOB, "to": ALICE, "value": "0x63" }] },
        ])),
    )
    .await;
    // Blocks 3 and 4 fill the gap.
    let blocks = made.as_array().expect("blocks");
    let numbers: Vec<_> = blocks.iter().map(|block| block["number"].as_str().unwrap()).collect();
    assert_eq!(numbers, ["0x2", "0x3", "0x4", "0x5"]);
    let head = ask(&devnet, "eth_getBlockByNumber", json!(["latest"])).await;
    assert_eq!(blocks[0]["parentHash"], head["hash"]);
    for pair in blocks.windows(2) {
        assert_eq!(pair[1]["parentHash"], pair[0]["hash"]);
    }
    let seconds = |block: &Value| u64::from_str_radix(&block["timestamp"].as_str().unwrap()[2..], 16).unwrap();
    assert_eq!(seconds(&blocks[1]) - seconds(&blocks[0]), 12);
    assert_eq!(blocks[3]["timestamp"], "0x77359400");

    let calls = &blocks[0]["calls"];
    assert_eq!((&calls[0]["status"], &calls[0]["gasUsed"]), (&json!("0x1"), &json!("0x5208")));
    let log = &calls[1]["logs"][0];
    assert_eq!((&log["address"], &log["blockHash"]), (&json!(LOGGER), &blocks[0]["hash"]));
    assert_eq!((&log["transactionIndex"], &log["transactionHash"]), (&json!("0x1"), &blocks[0]["transactions"][1]));
    let seven = json!(B256::with_last_byte(7));
    assert_eq!(calls[2]["error"], json!({ "code": 3, "message": "execution reverted", "data": seven }));
    assert_eq!((&calls[2]["status"], &calls[2]["logs"]), (&json!("0x0"), &json!([])));
    // The last block spends what BOB received in the first.
    assert_eq!(blocks[3]["calls"][0]["status"], "0x1");
    assert_eq!(ask(&devnet, "eth_blockNumber", json!([])).await, "0x1");
    assert_eq!(ask(&devnet, "eth_getBalance", json!([BOB])).await, "0x0");
}

#[tokio::test]
async fn transfers_are_logged_and_whole_transactions_given_on_request() {
    let devnet = devnet(MiningMode::Manual);
    let calls = json!([{ "calls": [{ "from": ALICE, "to": BOB, "value": "0x5" }, { "from": ALICE, "to": LOGGER }] }]);
    let request =
        json!([{ "blockStateCalls": calls, "traceTransfers": true, "returnFullTransactions": true }, "latest"]);
    let made = ask(&devnet, "eth_simulateV1", request).await;
    let log = &made[0]["calls"][0]["logs"][0];
    assert_eq!(log["address"], "0xeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee");
    let topics = json!([keccak256("Transfer(address,address,uint256)"), ALICE.into_word(), BOB.into_word()]);
    assert_eq!((&log["topics"], &log["data"]), (&topics, &json!(B256::with_last_byte(5))));
    // The log of the second call follows that of the first in the block.
    assert_eq!(made[0]["calls"][1]["logs"][0]["logIndex"], "0x1");
    let transaction = &made[0]["transactions"][0];
    assert_eq!(
        (&transaction["from"], &transaction["value"], &transaction["type"]),
        (&json!(ALICE), &json!("0x5"), &json!("0x2"))
    );
    assert_eq!((&transaction["blockHash"], &transaction["nonce"]), (&made[0]["hash"], &json!("0x0")));
    assert_eq!(made[0]["transactions"][1]["nonce"], "0x1");
}

#[tokio::test]
async fn validation_applies_the_rules_of_a_block_to_calls() {
    let devnet = devnet(MiningMode::Manual);
    let simulate = |call: Value| json!([{ "blockStateCalls": [{ "calls": [call] }], "validation": true }, "latest"]);
    let fee = "0x77359400";
    for (call, code) in [
        (json!({ "from": ALICE, "to": BOB }), -38_012),
        (json!({ "from": ALICE, "to": BOB, "maxFeePerGas": fee, "nonce": "0x1" }), -38_011),
        (json!({ "from": ALICE, "to": BOB, "maxFeePerGas": fee, "gas": "0x1" }), -38_013),
        (json!({ "from": BOB, "to": ALICE, "maxFeePerGas": fee }), -38_014),
        (json!({ "from": LOGGER, "to": ALICE, "maxFeePerGas": fee }), -38_024),
    ] {
        let (found, message, _) = refused(&devnet, "eth_simulateV1", simulate(call)).await;
        assert_eq!(found, code, "{message}");
    }
    let made = ask(&devnet, "eth_simulateV1", simulate(json!({ "from": ALICE, "to": BOB, "maxFeePerGas": fee }))).await;
    assert_eq!(made[0]["baseFeePerGas"], "0x3b9aca00");
    assert_eq!(made[0]["calls"][0]["status"], "0x1");
    // Without validation, the same call is free and any nonce is accepted.
    let free = simulation(json!([{ "calls": [{ "from": BOB, "to": ALICE, "nonce": "0x9" }] }]));
    assert_eq!(ask(&devnet, "eth_simulateV1", free).await[0]["baseFeePerGas"], "0x0");
}

#[tokio::test]
async fn too_many_or_unordered_blocks_are_rejected() {
    let devnet = devnet(MiningMode::Manual);
    for (blocks, code) in [
        (json!([]), -32_602),
        (json!(vec![json!({}); 257]), -38_026),
        (json!([{ "blockOverrides": { "number": "0x101" } }]), -38_026),
        (json!([{ "blockOverrides": { "number": "0xffffffffffffffffffffffff" } }]), -38_026),
        (json!([{ "blockOverrides": { "number": "0x0" } }]), -38_020),
        (json!([{ "blockOverrides": { "time": "0x1" } }]), -38_021),
        (json!([{ "calls": [{ "to": BOB, "gas": "0x1c9c381" }] }]), -38_015),
        (json!([{ "calls": 7 }]), -32_602),
    ] {
        let (found, message, _) = refused(&devnet, "eth_simulateV1", simulation(blocks)).await;
        assert_eq!(found, code, "{message}");
    }
    // 256 blocks are the maximum.
    let most = ask(&devnet, "eth_simulateV1", simulation(json!(vec![json!({}); 256]))).await;
    assert_eq!(most.as_array().map(Vec::len), Some(256));

    // All calls together have 50 million gas: two endless loops in blocks of 30 million use it up.
    let endless = Address::repeat_byte(0x14);
    ask(&devnet, "anvil_setCode", json!([endless, "0x5b5f56"])).await;
    let block = json!({ "calls": [{ "to": endless }] });
    let (_, message, _) = refused(&devnet, "eth_simulateV1", simulation(json!([block, block, block]))).await;
    assert_eq!(message, "RPC gas cap exhausted");
}

#[tokio::test]
async fn json_nested_without_end_is_refused() {
    let devnet = devnet(MiningMode::Manual);
    let provider = devnet.provider();
    let deep = format!("[{}{}]", "[".repeat(100_000), "]".repeat(100_000));
    for method in ["eth_simulateV1", "debug_traceCall", "eth_signTypedData_v4", "eth_getProof", "anvil_reset"] {
        let params = serde_json::value::RawValue::from_string(deep.clone()).expect("JSON");
        let error = provider.raw_request::<_, Value>(method.into(), params).await.expect_err(method);
        assert_eq!(error.as_error_resp().map(|error| error.code), Some(-32602), "{method}: {error}");
    }
}
