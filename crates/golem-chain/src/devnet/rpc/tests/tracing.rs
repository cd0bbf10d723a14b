//! Tests of traces of known programs; expected values follow from the programs and the gas schedule.

use super::*;

/// Calls LOGGER with 100 zero bytes as calldata and returns nothing.
const CALLER: Address = Address::repeat_byte(0x12);
/// Increments slot 0 and calls REVERTER, which fails.
const COUNTER: Address = Address::repeat_byte(0x13);
/// Runs out of gas in a loop that pushes an item per iteration, up to 500.
const ENDLESS: Address = Address::repeat_byte(0x14);
/// Reads consecutive slots until it runs out of gas.
const READER: Address = Address::repeat_byte(0x15);
/// Calls itself with all its gas.
const NESTED: Address = Address::repeat_byte(0x16);

async fn traced(mining: MiningMode) -> Devnet {
    let devnet = devnet(mining);
    let call = |to: Address, input: &str| format!("0x5f5f{input}5f5f73{}5af1", alloy::primitives::hex::encode(to));
    let codes = [
        (CALLER, call(LOGGER, "6064") + "00"),
        (COUNTER, format!("0x5f546001015f55{}00", &call(REVERTER, "5f")[2..])),
        (ENDLESS, format!("0x{}5b5a5061{:04x}56", "5f".repeat(500), 500)),
        (READER, "0x5f5b80545060010160015600".to_owned()),
        (NESTED, call(NESTED, "5f") + "00"),
    ];
    for (address, code) in codes {
        ask(&devnet, "anvil_setCode", json!([address, code])).await;
    }
    devnet
}

async fn sent(devnet: &Devnet, to: Address) -> Value {
    ask(devnet, "eth_sendTransaction", json!([{ "from": ALICE, "to": to, "gas": "0x30d40" }])).await
}

#[tokio::test]
async fn struct_logs_show_every_step_and_its_gas() {
    let devnet = traced(MiningMode::OnTransaction).await;
    let hash = sent(&devnet, LOGGER).await;
    let trace = ask(&devnet, "debug_traceTransaction", json!([hash])).await;
    let steps: Vec<_> = trace["structLogs"].as_array().expect("steps").iter().collect();
    let names: Vec<_> = steps.iter().map(|step| step["op"].as_str().expect("a name")).collect();
    assert_eq!(names, ["PUSH1", "PUSH0", "PUSH0", "LOG1", "STOP"]);
    // PUSH1 3, PUSH0 2, LOG1 375 plus 375 for its topic; 200,000 gas given, 21,000 of them for the transaction.
    let gas: Vec<_> = steps.iter().map(|step| step["gas"].as_u64().expect("gas")).collect();
    assert_eq!(gas, [179_000, 178_997, 178_995, 178_993, 178_243]);
    assert_eq!(steps[3]["stack"], json!(["0x2a", "0x0", "0x0"]));
    assert_eq!((&trace["gas"], &trace["failed"]), (&json!(21_757), &json!(false)));
    let options = json!({ "disableStack": true, "limit": 2 });
    let short = ask(&devnet, "debug_traceTransaction", json!([hash, options])).await;
    assert_eq!(short["structLogs"].as_array().map(Vec::len), Some(2));
    assert_eq!(short["structLogs"][0]["stack"], Value::Null);
}

#[tokio::test]
async fn call_selector_and_state_tracers_report_their_data() {
    let devnet = traced(MiningMode::Manual).await;
    for to in [BOB, COUNTER, CALLER] {
        sent(&devnet, to).await;
    }
    ask(&devnet, "evm_mine", json!([])).await;
    let block = ask(&devnet, "eth_getBlockByNumber", json!(["latest"])).await;
    let hash = &block["transactions"][1];
    let with = |tracer: &str, config: Value| json!([hash, { "tracer": tracer, "tracerConfig": config }]);

    let calls = ask(&devnet, "debug_traceTransaction", with("callTracer", json!({}))).await;
    assert_eq!((&calls["to"], &calls["gas"], &calls["type"]), (&json!(COUNTER), &json!("0x30d40"), &json!("CALL")));
    let inner = &calls["calls"][0];
    assert_eq!((&inner["to"], &inner["from"]), (&json!(REVERTER), &json!(COUNTER)));
    assert_eq!((&inner["error"], &inner["output"]), (&json!("execution reverted"), &json!(B256::with_last_byte(7))));
    assert_eq!(calls["calls"].as_array().map(Vec::len), Some(1));
    let top = ask(&devnet, "debug_traceTransaction", with("callTracer", json!({ "onlyTopCall": true }))).await;
    assert_eq!(top["calls"], Value::Null);

    // The second transaction sees the state after the first: ALICE's nonce is 1 before it.
    let before = ask(&devnet, "debug_traceTransaction", with("prestateTracer", json!({}))).await;
    let key = |address: Address| format!("{address:#x}");
    assert_eq!(before[key(ALICE)]["nonce"], 1);
    assert!(before[key(COUNTER)]["code"].is_string() && before[key(REVERTER)]["code"].is_string());
    let change = ask(&devnet, "debug_traceTransaction", with("prestateTracer", json!({ "diffMode": true }))).await;
    assert_eq!(change["post"][key(ALICE)]["nonce"], 2);
    assert_eq!(change["post"][key(COUNTER)]["storage"], json!({ B256::ZERO.to_string(): B256::with_last_byte(1) }));
    assert_eq!(change["post"][key(REVERTER)], Value::Null);

    // 100 zero bytes: the selector 0 and 96 more.
    let third = &block["transactions"][2];
    let selectors = ask(&devnet, "debug_traceTransaction", json!([third, { "tracer": "4byteTracer" }])).await;
    assert_eq!(selectors, json!({ "0x00000000-96": 1 }));
}

#[tokio::test]
async fn whole_blocks_are_traced_in_both_families() {
    let devnet = traced(MiningMode::Manual).await;
    for to in [BOB, COUNTER, CALLER] {
        sent(&devnet, to).await;
    }
    ask(&devnet, "evm_mine", json!([])).await;
    let block = ask(&devnet, "eth_getBlockByNumber", json!(["latest"])).await;
    let tracer = json!({ "tracer": "callTracer" });
    let all = ask(&devnet, "debug_traceBlockByNumber", json!(["0x1", tracer])).await;
    assert_eq!(ask(&devnet, "debug_traceBlockByHash", json!([block["hash"], tracer])).await, all);
    for (index, hash) in block["transactions"].as_array().expect("hashes").iter().enumerate() {
        assert_eq!(all[index]["txHash"], *hash);
        let alone = ask(&devnet, "debug_traceTransaction", json!([hash, tracer])).await;
        assert_eq!(all[index]["result"], alone);
    }
    let flat = ask(&devnet, "trace_block", json!(["latest"])).await;
    let places: Vec<_> = flat
        .as_array()
        .expect("traces")
        .iter()
        .map(|trace| (trace["transactionPosition"].as_u64().unwrap(), trace["traceAddress"].to_string()))
        .collect();
    let places: Vec<_> = places.iter().map(|(index, address)| (*index, address.as_str())).collect();
    assert_eq!(places, [(0, "[]"), (1, "[]"), (1, "[0]"), (2, "[]"), (2, "[0]")]);
    assert_eq!((&flat[2]["error"], &flat[1]["subtraces"]), (&json!("Reverted"), &json!(1)));
    assert_eq!(flat[0]["action"]["gas"], json!("0x2bb38"));
    let one = ask(&devnet, "trace_transaction", json!([block["transactions"][1]])).await;
    assert_eq!(one, json!([flat[1], flat[2]]));
    assert_eq!(ask(&devnet, "trace_transaction", json!([B256::ZERO])).await, json!([]));
    assert_eq!(ask(&devnet, "trace_block", json!(["0x99"])).await, json!([]));
    assert_eq!(refused(&devnet, "debug_traceTransaction", json!([B256::ZERO])).await.1, "transaction not found");
    assert_eq!(refused(&devnet, "debug_traceBlockByNumber", json!(["0x99"])).await.1, "block #153 not found");
}

#[tokio::test]
async fn a_call_is_traced_with_overrides_and_between_transactions() {
    let devnet = traced(MiningMode::Manual).await;
    for to in [COUNTER, COUNTER] {
        sent(&devnet, to).await;
    }
    ask(&devnet, "evm_mine", json!([])).await;
    let read = |options: Value| {
        let mut all = json!({ "tracer": "callTracer" });
        all.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        // Overrides the code of COUNTER with code that returns slot 0.
        let code = json!({ COUNTER.to_string(): { "code": "0x5f545f5260205ff3" } });
        all["stateOverrides"] = code;
        json!([{ "to": COUNTER }, "latest", all])
    };
    for (options, count) in [(json!({}), 2), (json!({ "txIndex": "0x0" }), 0), (json!({ "txIndex": "0x1" }), 1)] {
        let trace = ask(&devnet, "debug_traceCall", read(options)).await;
        assert_eq!(trace["output"], json!(B256::with_last_byte(count)));
    }
    assert_eq!(refused(&devnet, "debug_traceCall", read(json!({ "txIndex": "0x2" }))).await.0, -32000);
}

#[tokio::test]
async fn a_trace_that_would_fill_the_memory_ends_with_an_error() {
    let devnet = traced(MiningMode::Manual).await;
    for (to, options) in [(ENDLESS, json!({})), (READER, json!({ "disableStack": true }))] {
        let (code, message, _) = refused(&devnet, "debug_traceCall", json!([{ "to": to }, "latest", options])).await;
        assert_eq!(code, -32000);
        assert!(message.contains("too large") && message.contains("limit"), "{message}");
        // With few steps, or with calls only, the trace is small.
        let few = ask(&devnet, "debug_traceCall", json!([{ "to": to }, "latest", { "limit": 10 }])).await;
        assert_eq!((few["structLogs"].as_array().map(Vec::len), &few["failed"]), (Some(10), &json!(true)));
        let calls = json!([{ "to": to }, "latest", { "tracer": "callTracer" }]);
        assert_eq!(ask(&devnet, "debug_traceCall", calls).await["error"], "out of gas");
    }
}

#[tokio::test]
async fn calls_nested_as_deeply_as_gas_allows_are_traced() {
    let devnet = traced(MiningMode::Manual).await;
    let request = json!({ "to": NESTED, "gas": "0x2faf080" });
    let provider = devnet.provider();
    let text: Box<serde_json::value::RawValue> = provider
        .raw_request("debug_traceCall".into(), json!([request, "latest", { "tracer": "callTracer" }]))
        .await
        .expect("a trace");
    // Each level retains a 64th: of 50 million gas, some 400 levels have enough.
    let depth = text.get().matches("\"calls\"").count();
    assert!((300..1_024).contains(&depth), "{depth}");
}

#[tokio::test]
async fn unknown_tracers_and_bad_options_are_refused() {
    let devnet = traced(MiningMode::OnTransaction).await;
    let hash = sent(&devnet, LOGGER).await;
    for tracer in ["{ step: function() {} }", "muxTracer", "erc7562Tracer", "noSuchTracer"] {
        let (code, message, _) = refused(&devnet, "debug_traceTransaction", json!([hash, { "tracer": tracer }])).await;
        assert_eq!(code, -32000);
        assert!(message.starts_with("tracer not found"), "{message}");
    }
    let bad = json!([hash, { "tracer": "callTracer", "tracerConfig": { "withLog": 7 } }]);
    assert_eq!(refused(&devnet, "debug_traceTransaction", bad).await.0, -32602);
    assert_eq!(refused(&devnet, "debug_traceTransaction", json!([hash, 7])).await.0, -32602);
    assert_eq!(refused(&devnet, "debug_traceBlockByNumber", json!(["pending"])).await.0, -32000);
}
