//! `bardo tools --dialect almanak` and `bardo call --dialect almanak`: every tool of the dialect by the binary, on one devnet.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::fixture::{Answer, Fixture};
use crate::{bardo, run};

/// Account that owns nothing of the session.
const STRANGER: &str = "0x000000000000000000000000000000000000dEaD";

impl Fixture {
    /// Calls a tool of the dialect.
    fn almanak(&self, tool: &str, params: &Value, more: &[&str]) -> Answer {
        let params = params.to_string();
        let fixed = ["call", "--dialect", "almanak", tool, &params, "--rpc", &self.given];
        let (out, err, code) = run(bardo(self.home.path()).args(fixed).args(more));
        let envelope: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{tool}: {error}: {out}{err}"));
        let fields: BTreeSet<&str> = envelope.as_object().unwrap().keys().map(String::as_str).collect();
        let expected = ["data", "decision_hints", "error", "explanation", "status"];
        assert_eq!(fields, BTreeSet::from(expected), "{tool}");
        (envelope, code)
    }

    /// Data of a call that ends with this status and exit code 0.
    fn almanak_ends(&self, status: &str, tool: &str, params: &Value) -> Value {
        let (mut envelope, code) = self.almanak(tool, params, &["--approve", "always"]);
        assert_eq!((envelope["status"].as_str(), code), (Some(status), 0), "{tool} {params}: {envelope:#}");
        envelope["data"].take()
    }
}

fn listed(format: &str) -> Value {
    let home = tempfile::tempdir().unwrap();
    let (out, err, code) = run(bardo(home.path()).args(["tools", "--dialect", "almanak", "--format", format]));
    assert_eq!((err.as_str(), code), ("", 0));
    serde_json::from_str(&out).unwrap()
}

#[test]
fn all_formats_list_the_41_tools() {
    let full = listed("json");
    let names: Vec<&str> = full.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 41);
    let openai = listed("openai");
    let mcp = listed("mcp");
    for (number, tool) in full.as_array().unwrap().iter().enumerate() {
        let function = &openai[number]["function"];
        assert_eq!((&function["name"], &function["parameters"]), (&tool["name"], &tool["input_schema"]));
        assert_eq!(openai[number]["type"], "function");
        assert_eq!(
            (&mcp["tools"][number]["name"], &mcp["tools"][number]["inputSchema"]),
            (&tool["name"], &tool["input_schema"])
        );
        // What only reads is marked so, and nothing else.
        let reads =
            ["data", "planning"].contains(&tool["category"].as_str().unwrap()) || tool["name"] == "load_agent_state";
        assert_eq!(mcp["tools"][number]["annotations"]["readOnlyHint"], reads, "{}", tool["name"]);
    }
    let home = tempfile::tempdir().unwrap();
    let (table, _, code) = run(bardo(home.path()).args(["tools", "--dialect", "almanak"]));
    assert_eq!((table.lines().count(), code), (42, 0), "{table}");
    let lacking = full.as_array().unwrap().iter().filter(|tool| tool["lacks"] != json!([]));
    for tool in lacking {
        let name = tool["name"].as_str().unwrap();
        let line = table.lines().find(|line| line.split_whitespace().next() == Some(name)).unwrap();
        assert!(line.contains(&format!("lacks {}", tool["lacks"][0].as_str().unwrap())), "{line}");
    }
    let (one, _, _) = run(bardo(home.path()).args(["tools", "swap_tokens", "--dialect", "almanak"]));
    for part in
        ["slippage_bps (integer, default 50)", "amount (string, required)", "execution_wallet (string, optional)"]
    {
        assert!(one.contains(part), "{one}");
    }
    let (_, err, code) = run(bardo(home.path()).args(["tools", "swap_token", "--dialect", "almanak"]));
    assert!(code == 2 && err.contains("did you mean 'swap_tokens'?"), "{err}");
}

/// Every tool of the dialect, by the binary, on one devnet that stays between the calls.
#[test]
fn each_tool_runs_on_the_devnet() {
    let fixture = Fixture::new();
    let account = fixture.account().to_owned();
    let on = |mut params: Value| {
        params["chain"] = json!("ethereum");
        params
    };
    let ends = |status: &str, tool: &str, params: Value| fixture.almanak_ends(status, tool, &params);
    let mut called = BTreeSet::new();
    let mut read = |tool: &'static str, params: Value| {
        called.insert(tool);
        ends("success", tool, params)
    };

    assert!(read("get_price", on(json!({"token": "WETH"})))["price_usd"].as_f64().unwrap() > 1_000.0);
    let before = read("get_balance", on(json!({"token": "WETH"})));
    let several = read("batch_get_balances", on(json!({"tokens": ["WETH", "USDC"]})));
    assert_eq!(several["balances"][0], before);
    let pool = read("get_pool_state", on(json!({"token_a": "WETH", "token_b": "USDC", "fee_tier": 3000})));
    let resolved = read("resolve_pool_address", on(json!({"address": pool["pool_address"]})));
    assert_eq!(resolved["factory_verified"], "verified");
    assert!(read("list_token_pools", on(json!({"token": "WETH", "quote_token": "USDC"})))["count"].as_u64() > Some(1));
    assert_eq!(read("resolve_token", on(json!({"token": "USDC"})))["decimals"], 6);
    let same = |found: &Value| found.as_str().unwrap().eq_ignore_ascii_case(&account);
    assert!(same(&read("get_portfolio", on(json!({})))["wallet_address"]));
    assert!(same(&read("get_wallet_overview", on(json!({})))["wallet_address"]));
    assert_eq!(read("check_protocol_support", on(json!({"protocol": "aave_v3"})))["supported"], true);
    assert_eq!(read("list_lending_positions", on(json!({})))["health_factor"], "∞");
    assert!(read("list_lending_reserves", on(json!({})))["count"].as_u64() > Some(2));
    let gas =
        read("estimate_gas", on(json!({"intent_type": "wrap_native", "params": {"token": "WETH", "amount": "0.1"}})));
    assert!(gas["gas_units"].as_u64() > Some(20_000), "{gas}");
    let intent =
        on(json!({"intent_type": "swap", "params": {"token_in": "WETH", "token_out": "USDC", "amount": "0.05"}}));
    assert_eq!(read("validate_risk", intent.clone())["allowed"], true);
    let bundle = read("compile_intent", intent.clone())["bundle_id"].clone();
    assert_eq!(read("save_agent_state", json!({"state": {"n": 1}}))["version"], 1);
    assert_eq!(read("load_agent_state", json!({}))["state"], json!({"n": 1}));
    assert_eq!(read("record_agent_decision", json!({"decision_summary": "buy nothing"}))["recorded"], true);

    // Writes. A dry run leaves the chain as it is; the real one does not.
    let nonce = fixture.nonce("latest");
    let mut write = |tool: &'static str, params: Value| {
        called.insert(tool);
        let sent = fixture.nonce("latest");
        let mut dry = params.clone();
        dry["dry_run"] = json!(true);
        let simulated = ends("simulated", tool, dry);
        assert_eq!(simulated["tx_hash"], Value::Null, "{tool}");
        assert_eq!(fixture.nonce("latest"), sent, "{tool}: a dry run sends nothing");
        let done = ends("success", tool, params);
        assert!(done["tx_hash"].is_string(), "{tool}: {done}");
        assert!(fixture.nonce("latest") > sent, "{tool}");
        done
    };
    write("swap_tokens", on(json!({"token_in": "WETH", "token_out": "USDC", "amount": "0.05"})));
    write("wrap_native", on(json!({"token": "WETH", "amount": "0.1"})));
    write("unwrap_native", on(json!({"token": "WETH", "amount": "0.1"})));
    write("supply_lending", on(json!({"token": "WETH", "amount": "0.3"})));
    let borrow = json!({"token": "USDC", "amount": "50", "collateral_token": "WETH", "collateral_amount": "0"});
    write("borrow_lending", on(borrow));
    write("repay_lending", on(json!({"token": "USDC", "amount": "all"})));
    write("withdraw_lending", on(json!({"token": "WETH", "amount": "all"})));
    let price: f64 = pool["current_price"].as_str().unwrap().parse().unwrap();
    let opened = write(
        "open_lp_position",
        on(json!({"token_a": "WETH", "token_b": "USDC", "amount_a": "0.1", "amount_b": "300", "fee_tier": 3000,
            "price_lower": format!("{:.18}", price * 0.8), "price_upper": format!("{:.18}", price * 1.2)})),
    );
    let id = json!({"position_id": opened["position_id"]});
    called.extend(["get_lp_position", "list_lp_positions", "compute_rebalance_candidate"]);
    assert_eq!(ends("success", "get_lp_position", on(id.clone()))["in_range"], true);
    assert_eq!(ends("success", "list_lp_positions", on(json!({})))["count"], 1);
    let mut write = |tool: &'static str, params: Value| {
        called.insert(tool);
        ends("success", tool, params)
    };
    // The pool's swaps are too few to compute anything from, which is an error that says so, or a figure.
    let (candidate, _) = fixture.almanak("compute_rebalance_candidate", &on(id.clone()), &[]);
    assert!(
        candidate["data"]["viable"].is_boolean() || candidate["error"]["error_code"] == "validation_error",
        "{candidate:#}"
    );
    let closed = write("close_lp_position", on(id));
    assert!(closed["token_a_received"].as_str().is_some_and(|amount| !amount.is_empty()), "{closed}");
    assert!(fixture.nonce("latest") > nonce);

    // A bundle is of the session that compiled it, which ended with its call.
    called.extend(["execute_compiled_bundle", "simulate_intent", "bridge_tokens", "get_indicator", "get_risk_metrics"]);
    let (lost, code) =
        fixture.almanak("execute_compiled_bundle", &json!({"bundle_id": bundle}), &["--approve", "always"]);
    assert_eq!((lost["error"]["error_code"].as_str(), code), (Some("timeout"), 3), "{lost:#}");
    assert!(lost["error"]["message"].as_str().unwrap().contains("each `bardo call` is a session of its own"));
    assert_eq!(ends("simulated", "simulate_intent", intent)["success"], true);
    let (bridged, _) = fixture.almanak(
        "bridge_tokens",
        &json!({"token": "USDC", "amount": "25", "from_chain": "ethereum", "to_chain": "base"}),
        &["--approve", "always"],
    );
    // Only one of the two chains is connected here.
    assert_eq!(bridged["decision_hints"]["native_error"]["code"], "CHAIN_UNKNOWN", "{bridged:#}");
    for (tool, params) in [
        ("get_indicator", on(json!({"token": "WETH", "indicator": "rsi"}))),
        ("get_risk_metrics", on(json!({"window_days": 1}))),
    ] {
        // A young devnet has too little history, and says how much it has.
        let (answer, _) = fixture.almanak(tool, &params, &[]);
        assert!(
            answer["status"] == "success" || answer["error"]["message"].as_str().unwrap().contains("intervals"),
            "{answer:#}"
        );
    }

    // Vaults: listed, and each says what it lacks until its native tool exists.
    let vault = json!({"vault_address": STRANGER, "underlying_token": STRANGER, "safe_address": account, "amount": "1",
        "valuator_address": account, "chain": "ethereum"});
    let catalog = listed("json");
    for tool in [
        "get_vault_state",
        "deploy_vault",
        "settle_vault",
        "deposit_vault",
        "teardown_vault",
        "approve_vault_underlying",
    ] {
        called.insert(tool);
        let row = catalog.as_array().unwrap().iter().find(|row| row["name"] == tool).unwrap();
        let known: Vec<&String> = row["input_schema"]["properties"].as_object().unwrap().keys().collect();
        let mut params: Value = json!({});
        for name in known {
            let value = match name.as_str() {
                "name" | "symbol" => json!("V"),
                other if other.ends_with("_address") && vault[other].is_null() => json!(account),
                other => vault[other].clone(),
            };
            if !value.is_null() {
                params[name] = value;
            }
        }
        let (answer, code) = fixture.almanak(tool, &params, &["--approve", "always"]);
        assert_ne!(code, 0, "{tool}: there is no vault at that address");
        if let Some(lacks) = row["lacks"].get(0) {
            let said = answer["error"]["message"].as_str().unwrap();
            assert!(said.contains(lacks.as_str().unwrap()), "{tool}: {said}");
        }
    }
    let all: BTreeSet<&str> = catalog.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(called, all, "every tool was called");
}

#[test]
fn words_of_the_command_line_and_both_chains_of_the_embedded_devnet() {
    let home = tempfile::tempdir().unwrap();
    let call = |arguments: &[&str]| run(bardo(home.path()).args(["call", "--dialect", "almanak"]).args(arguments));
    let words = ["swap_tokens", "token_in=WETH", "token_out=USDC", "amount=0.05", "slippage_bps=40", "dry_run=true"];
    let (out, _, code) = call(&words);
    let answer: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((answer["status"].as_str(), code), (Some("simulated"), 0), "{answer:#}");
    // Without a chain, the devnet's first one stands for the dialect's default.
    assert_eq!(answer["decision_hints"]["native_tool"], "uniswap_execute_swap");
    let bridge = ["bridge_tokens", "token=USDC", "amount=900", "from_chain=ethereum", "to_chain=base"];
    let (out, _, code) = call(&[&bridge[..], &["--approve", "always"]].concat());
    let answer: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((answer["status"].as_str(), code), (Some("success"), 0), "{answer:#}");
    // By Across's pools, with the transaction that deposited.
    assert_eq!(answer["data"]["bridge_used"], "across");
    assert!(answer["data"]["tx_hash"].as_str().is_some_and(|hash| hash.len() == 66), "{answer:#}");
    let (out, _, code) = call(&[&bridge[..], &["preferred_bridge=erc7683", "--approve", "always"]].concat());
    let answer: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((answer["status"].as_str(), code), (Some("partial"), 0), "{answer:#}");
    assert_eq!((&answer["data"]["bridge_used"], &answer["data"]["tx_hash"]), (&json!("erc7683"), &Value::Null));
    let said = answer["explanation"].as_str().unwrap();
    assert!(said.contains("This devnet and its state end with the call"), "{said}");
    // Of a small amount the relayer's gas would take more than the 50 bps, so that an order is placed.
    let small = ["bridge_tokens", "token=USDC", "amount=100", "from_chain=ethereum", "to_chain=base"];
    let (out, _, code) = call(&[&small[..], &["--approve", "always"]].concat());
    let answer: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((answer["data"]["bridge_used"].as_str(), code), (Some("erc7683"), 0), "{answer:#}");
    let (out, _, code) = call(&[&small[..], &["preferred_bridge=across", "dry_run=true"]].concat());
    let answer: Value = serde_json::from_str(&out).unwrap();
    assert!(code == 3 && answer["explanation"].as_str().unwrap().contains("would not arrive"), "{answer:#}");
    for (arguments, wanted) in [
        (&["swap_token"][..], "unknown tool 'swap_token'; did you mean 'swap_tokens'?"),
        (&["swap_tokens", "slippage_bps=x"], "slippage_bps takes a whole number"),
        (&["get_price", "token=WETH", "--idempotency-key", "a"], "get_price sends nothing"),
    ] {
        let (_, err, code) = call(arguments);
        assert!(code == 2 && err.contains(wanted), "{arguments:?}: {err}");
    }
    let (out, _, code) = call(&["get_price", "token=WETH", "tokenn=x"]);
    let answer: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((answer["error"]["error_code"].as_str(), code), (Some("validation_error"), 1));
}
