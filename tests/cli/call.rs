//! `bardo call` as a shell runs it: its answers, its exit codes, and that stdout contains only the envelope.

use std::path::Path;

use serde_json::{Value, json};

use crate::devnet::Running;
use crate::fixture::Fixture;
use crate::{bardo, run};

/// Error classes of `001`: category, and whether the caller should retry.
const CLASSES: [(&str, bool); 7] = [
    ("validation_error", true),
    ("risk_blocked", false),
    ("simulation_failed", true),
    ("timeout", true),
    ("upstream_unavailable", true),
    ("permission_denied", false),
    ("execution_failed", false),
];

/// Codes of failed reads: class of `001`, group of `000`, and the exit code of the specification.
const CODES: [(&str, &str, &str, i32); 16] = [
    ("TOKEN_NOT_FOUND", "validation_error", "data", 1),
    ("TOKEN_AMBIGUOUS", "validation_error", "data", 1),
    ("TOKEN_LOOKALIKE", "risk_blocked", "data", 3),
    ("PRICE_UNAVAILABLE", "upstream_unavailable", "data", 1),
    ("TOKEN_INVALID", "validation_error", "data", 1),
    ("POOL_NOT_FOUND", "validation_error", "data", 1),
    ("ROUTING_NO_ROUTE", "validation_error", "routing", 1),
    ("ROUTING_INSUFFICIENT_LIQUIDITY", "validation_error", "routing", 1),
    ("SDK_FALLBACK_UNAVAILABLE", "upstream_unavailable", "routing", 1),
    ("CHAIN_UNKNOWN", "validation_error", "chain", 1),
    ("CHAIN_UNREACHABLE", "upstream_unavailable", "chain", 1),
    ("CHAIN_INCONSISTENT", "upstream_unavailable", "chain", 1),
    ("CHAIN_UNSUPPORTED", "validation_error", "chain", 1),
    ("TOOL_TIMEOUT", "timeout", "call", 1),
    ("VALIDATION_FAILED", "validation_error", "call", 1),
    ("TOOL_UNKNOWN", "validation_error", "call", 1),
];

/// Names of an object's fields, sorted.
fn fields(value: &Value) -> Vec<&str> {
    let mut names: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

/// Runs one call; stdout must be one envelope and stderr empty.
pub fn call(home: &Path, arguments: &[&str]) -> (Value, i32) {
    let (out, err, code) = run(bardo(home).arg("call").args(arguments));
    let envelope: Value =
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {out}{err}"));
    assert_eq!(err, "", "{arguments:?}");
    assert_eq!(
        fields(&envelope),
        ["call_id", "data", "decision_hints", "error", "explanation", "status"],
        "{arguments:?}"
    );
    assert_eq!(envelope["call_id"].as_str().unwrap().len(), 26, "a ULID");
    (envelope, code)
}

/// Checks an error: the whole envelope against the documents' tables.
pub fn expect(answer: (Value, i32), code: &str, says: &str, what: &str) -> Value {
    let (envelope, exit) = answer;
    let error = &envelope["error"];
    assert_eq!(error["code"], code, "{what}: {envelope}");
    let (_, class, group, exits) = CODES.iter().find(|row| row.0 == code).unwrap();
    let (_, recoverable) = CLASSES.iter().find(|row| row.0 == *class).unwrap();
    assert_eq!(exit, *exits, "{what}");
    assert_eq!(envelope["status"], if *exits == 3 { "blocked" } else { "error" }, "{what}");
    assert_eq!(envelope["data"], Value::Null, "{what}");
    assert_eq!(fields(error), ["category", "code", "details", "message", "recoverable", "suggestion"]);
    assert_eq!(error["category"], *class, "{what}");
    assert_eq!(error["recoverable"], *recoverable, "{what}");
    assert_eq!(error["details"]["group"], *group, "{what}");
    assert!(error["suggestion"].as_str().unwrap().len() > 20, "{what}: {error}");
    assert!(error["message"].as_str().unwrap().contains(says), "{what}: {error}");
    assert!(!envelope["explanation"].as_str().unwrap().is_empty(), "{what}");
    error.clone()
}

impl Fixture {
    fn reads(&self, tool: &str, params: &str) -> (Value, i32) {
        call(self.home.path(), &[tool, params, "--rpc", &self.given])
    }

    fn data(&self, tool: &str, params: Value) -> Value {
        let (envelope, exit) = self.reads(tool, &params.to_string());
        assert_eq!((&envelope["status"], exit), (&json!("success"), 0), "{tool}: {envelope}");
        assert_eq!(envelope["error"], Value::Null);
        envelope["data"].clone()
    }

    /// Quote of WETH for USDC with some parameters changed.
    fn quote(&self, changed: Value) -> (Value, i32) {
        let mut params = json!({"token_in": "WETH", "token_out": "USDC", "amount": "1.5", "chain": "ethereum"});
        for (name, value) in changed.as_object().unwrap() {
            params[name] = value.clone();
        }
        self.reads("uniswap_get_quote", &params.to_string())
    }
}

/// The native token's own V4 pool and the V3 pool of its wrapped token have the same fee. With this seed, both are best.
#[test]
fn a_swap_through_v4_is_quoted_and_executed() {
    let mut fixture = Fixture::on(Running::start("0", 1));
    fixture.under("");
    // The pool of V3 is deeper; after swaps of the wrapped token in it that of V4 is cheaper for a small amount.
    for _ in 0..2 {
        let first =
            fixture.swap(json!({"token_in": "WETH", "token_out": "UNI", "amount": "0.6"}), &["--approve", "always"]);
        assert_eq!(first.1, 0, "{}", first.0);
    }
    let asked = json!({"token_in": "ETH", "token_out": "UNI", "amount": "0.2", "chain": "ethereum"});
    let quote = fixture.data("uniswap_get_quote", asked.clone());
    let hops = quote["route"].as_array().unwrap();
    let v4 = hops.iter().find(|hop| hop["version"] == "V4").unwrap_or_else(|| panic!("{quote}"));
    let swap = fixture.swap(json!({"token_out": "UNI", "amount": "0.2"}), &["--approve", "always"]);
    assert_eq!((&swap.0["status"], swap.1), (&json!("success"), 0), "{}", swap.0);
    let data = &swap.0["data"];
    assert_eq!((&data["amount_out"], &data["slippage_actual_bps"]), (&quote["amount_out"], &json!(0)));
    // By the receipt, the pool manager swapped in the pool that the quote names (v4-core, `Swap(PoolId indexed id, …)`).
    let receipt = fixture.ask("eth_getTransactionReceipt", json!([data["tx_hash"]]));
    let manager = fixture.contract("v4PoolManager").to_lowercase();
    let logs = receipt["logs"].as_array().unwrap().iter();
    let pools: Vec<&Value> =
        logs.filter(|log| log["address"] == manager.as_str()).map(|log| &log["topics"][1]).collect();
    assert_eq!(pools, [&v4["pool"]]);
}

#[test]
fn every_tool_answers_over_a_devnet_of_another_process() {
    let fixture = Fixture::new();
    let token = |symbol: &str| fixture.devnet.described["chains"][0]["tokens"][symbol]["address"].clone();

    let quote = fixture.quote(json!({}));
    assert_eq!(quote.1, 0, "{}", quote.0);
    let data = &quote.0["data"];
    assert_eq!(
        (&data["token_in"], &data["token_out"], &data["amount_in"]),
        (&json!("WETH"), &json!("USDC"), &json!("1.5"))
    );
    // 1.5 × 3,400, within the market's movement (0.8 %), a fee of 0.3 % and the pool's depth.
    let out: f64 = data["amount_out"].as_str().unwrap().parse().unwrap();
    assert!((5_020.0..5_180.0).contains(&out), "{data}");
    // The devnet has an order service, and an auction is preferred if there is one.
    assert_eq!(data["route_type"], "DUTCH_V2");
    let pools = fixture.quote(json!({"prefer_uniswapx": false}));
    assert_eq!(pools.0["data"]["route_type"], "CLASSIC", "{}", pools.0);
    for hop in data["route"].as_array().unwrap() {
        assert_eq!((&hop["token_in"], &hop["token_out"]), (&json!("WETH"), &json!("USDC")));
    }

    // Demo wallet of the specification.
    let balances = fixture.data("get_balances", json!({"chain": "ethereum", "tokens": ["ETH", "WETH", "USDC"]}));
    let amounts: Vec<_> =
        balances["chains"][0]["balances"].as_array().unwrap().iter().map(|balance| &balance["amount"]).collect();
    assert_eq!(amounts, ["1.4", "4.5", "5000"]);
    assert_eq!(balances["not_reached"], json!([]));

    let status = fixture.data("wallet_get_status", json!({}));
    assert_eq!((&status["provider"], &status["address"]), (&json!("development_key"), &balances["account"]));
    assert_eq!(status["balances"][0]["native_balance"], "1.4");
    // Only the devnet of the process itself has the demo policy without a file.
    assert_eq!(status["policy_summary"]["name"], "read-only");

    let allowance = fixture.data("uniswap_check_allowance", json!({"token": "USDC", "chain": "31337"}));
    assert_eq!(
        allowance["spender"].as_str().unwrap().to_lowercase(),
        fixture.contract("universalRouterV2_1_0").to_lowercase()
    );
    assert_eq!((&allowance["sufficient"], &allowance["needs_approval"]), (&json!(false), &json!(true)));

    let price = fixture.data("get_token_price", json!({"token": "WETH", "chain": "eth"}));
    let usd: f64 = price["price_usd"].as_str().unwrap().parse().unwrap();
    assert!((3_370.0..3_430.0).contains(&usd), "{price}");

    // The devnet's pools of this pair: V2, four fee tiers of V3, and two of V4, one of them for the native token.
    let pools = fixture.data("get_pool_info", json!({"token_a": "WETH", "token_b": "USDC", "chain": "ethereum"}));
    let mut kinds: Vec<_> = pools["pools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pool| (pool["version"].as_str().unwrap(), pool["fee_tier"].as_u64().unwrap()))
        .collect();
    kinds.sort_unstable();
    let v3 = [("V3", 100), ("V3", 500), ("V3", 3_000), ("V3", 10_000)];
    assert_eq!(kinds, [&[("V2", 3_000)][..], &v3, &[("V4", 3_000); 2]].concat());

    let found = fixture.data("search_tokens", json!({"query": "usdc", "chain": "ethereum"}));
    assert_eq!(
        found["tokens"][0]["address"].as_str().unwrap().to_lowercase(),
        token("USDC").as_str().unwrap().to_lowercase()
    );

    // Without parameters at all.
    let (status, exit) = call(fixture.home.path(), &["get_chain_status", "--rpc", &fixture.given]);
    assert_eq!((&status["data"]["all_healthy"], exit), (&json!(true), 0), "{status}");
    let chain = &status["data"]["chains"][0];
    assert_eq!((&chain["chain_id"], &chain["money"]), (&json!(31_337), &json!("devnet")), "{chain}");
    assert_eq!(chain["endpoints"][0]["condition"], "healthy", "{chain}");
}

#[test]
fn every_read_error_agrees_with_the_documents() {
    let fixture = Fixture::new();
    let bad = |changed: Value, code: &str, says: &str| {
        let what = changed.to_string();
        expect(fixture.quote(changed), code, says, &what)
    };

    // Faults of tokens.
    let error = bad(json!({"token_in": "USDX"}), "TOKEN_NOT_FOUND", "USDX");
    assert_eq!(error["details"]["nearest"], "USDC");
    bad(json!({"token_in": "NOPE"}), "TOKEN_NOT_FOUND", "NOPE");
    bad(json!({"token_out": "0x00000000000000000000000000000000000000A1"}), "TOKEN_NOT_FOUND", "no contract at");
    bad(json!({"token_in": "0x12"}), "VALIDATION_FAILED", "40 hexadecimal digits");
    bad(json!({"token_in": ""}), "VALIDATION_FAILED", "no token given");
    let error = bad(json!({"token_out": fixture.contract("badLookalikeToken")}), "TOKEN_LOOKALIKE", "USDC");
    assert_eq!(error["details"]["candidates"][0]["symbol"], "USDC");
    bad(json!({"token_out": "USD\u{421}"}), "TOKEN_LOOKALIKE", "scripts");
    let hostile = bad(json!({"token_in": "\u{1b}[31mA\u{202e}B"}), "TOKEN_LOOKALIKE", "invisible");
    assert!(!hostile["message"].as_str().unwrap().chars().any(|c| c.is_control() || c == '\u{202e}'), "{hostile}");

    // Faults of routes. A pair's share token is a valid ERC-20 that no pool trades.
    let pools = fixture.data("get_pool_info", json!({"token_a": "WETH", "token_b": "USDC", "chain": "ethereum"}));
    let share = pools["pools"].as_array().unwrap().iter().find(|pool| pool["version"] == "V2").unwrap()["pool"].clone();
    bad(json!({"token_in": share}), "ROUTING_NO_ROUTE", "to USDC on ethereum");
    // More LINK than the chain's pools hold: 4 M dollars of it at 17 dollars is well below a million.
    let beyond = json!({"token_out": "LINK", "amount": "1000000", "exact_output": true});
    bad(beyond, "ROUTING_INSUFFICIENT_LIQUIDITY", "from WETH to LINK on ethereum");
    bad(json!({"token_out": "WETH"}), "VALIDATION_FAILED", "swapped for itself");
    bad(json!({"token_out": "ETH"}), "VALIDATION_FAILED", "swapped for itself");

    // Faults of prices.
    let answer = fixture.reads("get_token_price", &json!({"token": share, "chain": "ethereum"}).to_string());
    expect(answer, "PRICE_UNAVAILABLE", "no price for", "a token without a feed");

    // Faults of chains.
    let error = bad(json!({"chain": "etherium"}), "CHAIN_UNKNOWN", "did you mean 'ethereum'?");
    assert_eq!((&error["details"]["nearest"], &error["details"]["known"]), (&json!("ethereum"), &json!("ethereum")));
    bad(json!({"chain": "1"}), "CHAIN_UNKNOWN", "ethereum (31337)");
    bad(json!({"chain": "0x7a69"}), "CHAIN_UNKNOWN", "decimal");

    // Faults of amounts.
    for (amount, says) in [
        ("0", "zero"),
        ("0.000", "zero"),
        ("-1", "without a sign"),
        ("+1", "without a sign"),
        ("NaN", "not a finite number"),
        ("inf", "not a finite number"),
        ("1e400", "exponents"),
        ("1,5", "separators"),
        ("1.5.0", "more than one point"),
        (".5", "both sides"),
        ("0x10", "not a digit"),
        ("", "no number given"),
        ("\u{661}\u{662}\u{663}", "digit of another script"),
        ("\u{ff11}", "digit of another script"),
        (&"7".repeat(80), "larger than any token can hold"),
        (&"7".repeat(100_000), "too long"),
        ("1.1234567890123456789", "18 decimals"),
    ] {
        let error = bad(json!({"amount": amount}), "VALIDATION_FAILED", says);
        assert_eq!(error["details"]["parameter"], "amount", "{amount}");
    }
    let error =
        bad(json!({"amount": "1.1234567", "token_in": "USDC", "token_out": "WETH"}), "VALIDATION_FAILED", "6 decimals");
    assert_eq!(error["details"]["parameter"], "amount");
    bad(json!({"amount": "max", "exact_output": true}), "VALIDATION_FAILED", "max");

    // Faults of the input's form.
    let error = bad(json!({"slippage": 50}), "VALIDATION_FAILED", "did you mean `slippage_bps`?");
    assert_eq!(error["details"]["parameter"], "slippage");
    for (changed, parameter, says) in [
        (json!({"amount": null}), "amount", "expected a string"),
        (json!({"slippage_bps": "50"}), "slippage_bps", "expected a whole number"),
        (json!({"slippage_bps": -1}), "slippage_bps", "expected a whole number"),
        (json!({"slippage_bps": 10_001}), "slippage_bps", "10000"),
        (json!({"exact_output": "yes"}), "exact_output", "expected a boolean"),
    ] {
        let error = bad(changed, "VALIDATION_FAILED", says);
        assert_eq!(error["details"]["parameter"], parameter);
    }
    for (text, says) in [
        ("", "empty"),
        ("{}", "missing field `token_in`"),
        ("[]", "a list"),
        ("null", "null"),
        ("{\"token_in\":", "not valid JSON"),
        ("{\"amount\": NaN}", "not valid JSON"),
        ("{\"amount\": 1e400}", "number that is out of range"),
        ("{\"amount\": \"1\", \"amount\": \"2\"}", "given twice"),
        (&"[".repeat(100_000), "nested deeper"),
    ] {
        let error = expect(fixture.reads("uniswap_get_quote", text), "VALIDATION_FAILED", says, text);
        assert!(error["suggestion"].as_str().unwrap().contains("\"token_in\":\"WETH\""), "shows what would pass");
    }
    for tool in ["get_balances", "get_pool_info", "get_token_price", "search_tokens", "get_chain_status"] {
        expect(fixture.reads(tool, "{\"nonsense\": 1}"), "VALIDATION_FAILED", "unknown field `nonsense`", tool);
    }

    // Ten megabytes, from a file and through a pipe.
    let long = fixture.home.path().join("long.json");
    std::fs::write(&long, json!({"token_in": "x".repeat(10_000_000)}).to_string()).unwrap();
    let from_file = format!("@{}", long.display());
    expect(fixture.reads("uniswap_get_quote", &from_file), "VALIDATION_FAILED", "at most 1048576", "10 MB in a file");
    let mut piped = bardo(fixture.home.path());
    piped.args(["call", "uniswap_get_quote", "-", "--rpc", &fixture.given]).pipe_stdin(&long).unwrap();
    let (out, err, code) = run(&mut piped);
    assert_eq!(err, "");
    let envelope = serde_json::from_str(&out).unwrap();
    expect((envelope, code), "VALIDATION_FAILED", "at most 1048576", "10 MB through a pipe");

    // Faults of tools, and a requested quote source that is absent.
    let error = expect(fixture.reads("uniswap_get_qoute", "{}"), "TOOL_UNKNOWN", "uniswap_get_qoute", "a slip");
    assert_eq!(error["details"]["nearest"], "uniswap_get_quote");
    let example = json!({"token_in": "WETH", "token_out": "USDC", "amount": "1", "chain": "ethereum"}).to_string();
    let mut with_key = bardo(fixture.home.path());
    with_key.env("BARDO_UNISWAP_API_KEY", "key-secret").env("BARDO_QUOTE_SOURCE", "trading-api").args([
        "call",
        "uniswap_get_quote",
        &example,
        "--rpc",
        &fixture.given,
    ]);
    let (out, _, code) = run(&mut with_key);
    assert!(!out.contains("key-secret"), "{out}");
    expect((serde_json::from_str(&out).unwrap(), code), "SDK_FALLBACK_UNAVAILABLE", "Trading API", "a key is set");
}

#[test]
fn an_amount_far_beyond_depth_is_quoted_with_a_warning() {
    let fixture = Fixture::new();
    // The devnet's ether pools are tens of millions of dollars deep; this is three billion.
    let (ruinous, exit) = fixture.quote(json!({"amount": "1000000"}));
    assert_eq!((&ruinous["status"], exit), (&json!("success"), 0), "{ruinous}");
    assert!(ruinous["data"]["price_impact_pct"].as_f64().unwrap() > 50.0, "{ruinous}");
    assert_eq!(ruinous["decision_hints"]["warnings"], json!(["BEYOND_DEPTH"]));
    assert!(ruinous["explanation"].as_str().unwrap().contains("WARNING"), "{ruinous}");
    let (small, _) = fixture.quote(json!({"amount": "0.1"}));
    assert_eq!(small["decision_hints"]["warnings"], json!([]));
    assert!(!small["explanation"].as_str().unwrap().contains("WARNING"), "{small}");
}

#[test]
fn the_risk_of_a_sandwich_follows_size_and_slippage() {
    let fixture = Fixture::new();
    let assess = |amount: &str, slippage_bps: u32| {
        let params = json!({
            "token_in": "WETH", "token_out": "USDC", "amount": amount, "chain": "ethereum",
            "slippage_bps": slippage_bps,
        });
        fixture.data("intel_assess_mev_risk", params)
    };
    let small = assess("0.1", 50);
    assert!(["none", "low"].contains(&small["risk"].as_str().unwrap()), "{small}");
    assert_eq!((&small["split_recommended"], &small["parts"]), (&json!(false), &json!(1)));
    assert_eq!(small["safe_slippage_bps"], 50);

    // 1.7 million dollars at five percent: well above a hundredth of any pool.
    let large = assess("500", 500);
    assert_eq!(large["risk"], "high", "{large}");
    assert_eq!(large["split_recommended"], true);
    let share: f64 = large["liquidity_share_pct"].as_str().unwrap().parse().unwrap();
    let parts = large["parts"].as_u64().unwrap();
    assert!(share > 1.0 && (parts - 1) as f64 <= share && share <= parts as f64, "{large}");
    let sandwich = &large["sandwich"];
    let number = |value: &Value| value.as_str().unwrap().parse::<f64>().unwrap();
    assert!(number(&sandwich["gain"]) > 0.0 && number(&sandwich["net_gain_usd"]) > 0.0, "{large}");
    assert!(number(&sandwich["amount_out"]) >= number(&large["minimum_out"]), "the swap still passes: {large}");
    assert!(number(&large["minimum_out"]) < number(&large["amount_out"]));
    assert!(!large["advice"].as_array().unwrap().is_empty());
    // The recommended slippage is safe, and the next looser one is not.
    let safe = u32::try_from(large["safe_slippage_bps"].as_u64().unwrap()).unwrap();
    assert!(safe < 500, "{large}");

    for (amount, code) in [("0", "VALIDATION_FAILED"), ("1e3", "VALIDATION_FAILED")] {
        let params = json!({"token_in": "WETH", "token_out": "USDC", "amount": amount, "chain": "ethereum"});
        expect(fixture.reads("intel_assess_mev_risk", &params.to_string()), code, "amount", amount);
    }
}

#[test]
fn a_simulated_call_tells_what_it_would_change_and_changes_nothing() {
    let fixture = Fixture::new();
    let usdc = fixture.devnet.described["chains"][0]["tokens"]["USDC"]["address"].as_str().unwrap();
    let owner = fixture.devnet.described["chains"][0]["accounts"][0].as_str().unwrap();
    let to = "000000000000000000000000000000000000beef";
    // transfer(address,uint256) of 5 and of 5,001 dollars; the wallet holds 5,000.
    let transfer = |raw: u64| format!("0xa9059cbb{to:0>64}{raw:064x}");
    let call = |data: &str| json!({"chain": "ethereum", "to": usdc, "data": data});
    let data = fixture.data("simulate_transaction", call(&transfer(5_000_000)));
    assert_eq!((&data["outcome"], &data["complete"]), (&json!("success"), &json!(true)), "{data}");
    let moved = |account: &str| {
        let balances = data["balances"].as_array().unwrap().iter();
        balances.filter(|one| one["account"].as_str().unwrap().eq_ignore_ascii_case(account)).collect::<Vec<_>>()
    };
    let (own, theirs) = (moved(owner), moved(&format!("0x{to}")));
    assert_eq!((own.len(), theirs.len()), (1, 1), "{data}");
    assert_eq!((&own[0]["token"], &own[0]["change"]), (&json!("USDC"), &json!("-5")));
    assert_eq!((&own[0]["before_raw"], &theirs[0]["after_raw"]), (&json!("5000000000"), &json!("5000000")));

    let failed = fixture.data("simulate_transaction", call(&transfer(5_001_000_000)));
    assert_eq!(failed["outcome"], "reverted", "{failed}");
    assert!(!failed["reason"].as_str().unwrap().is_empty() && failed["balances"] == json!([]), "{failed}");
    // approve(address,uint256) without limit.
    let approved = fixture.data("simulate_transaction", call(&format!("0x095ea7b3{to:0>64}{:f>64}", "")));
    let allowance = &approved["allowances"][0];
    assert_eq!((&allowance["token"], &allowance["kept_by"]), (&json!("USDC"), &json!("token")), "{approved}");
    assert!(allowance["spender"].as_str().unwrap().eq_ignore_ascii_case(&format!("0x{to}")));

    let balances = fixture.data("get_balances", json!({"chain": "ethereum", "tokens": ["USDC"]}));
    assert_eq!(balances["chains"][0]["balances"][0]["amount"], "5000", "nothing was sent");
    for (params, says) in [
        (call("0xabc"), "hexadecimal"),
        (json!({"chain": "ethereum", "to": "0x12"}), "40 hexadecimal digits"),
        (json!({"chain": "ethereum"}), "a target address or the code"),
        (json!({"chain": "ethereum", "to": usdc, "value": "-1"}), "without a sign"),
    ] {
        expect(
            fixture.reads("simulate_transaction", &params.to_string()),
            "VALIDATION_FAILED",
            says,
            &params.to_string(),
        );
    }
}

#[test]
fn an_idempotency_key_runs_a_call_once_per_devnet() {
    let fixture = Fixture::new();
    let keyed = |given: &str, key: &str, params: &str| {
        call(fixture.home.path(), &["get_chain_status", params, "--idempotency-key", key, "--rpc", given])
    };
    let (first, exit) = keyed(&fixture.given, "morning", "{}");
    assert_eq!((&first["status"], exit), (&json!("success"), 0), "{first}");
    let (second, _) = keyed(&fixture.given, "morning", "{}");
    assert_eq!(second, first, "another process gives the first answer again");
    let (other, _) = keyed(&fixture.given, "evening", "{}");
    assert_ne!(other["call_id"], first["call_id"]);
    let (conflict, exit) = keyed(&fixture.given, "morning", "{\"chain\": \"ethereum\"}");
    assert_eq!((&conflict["error"]["code"], exit), (&json!("IDEMPOTENCY_CONFLICT"), 1), "{conflict}");

    // The next devnet may use the same address, and is another one.
    let next = crate::devnet::start();
    assert_ne!(next.described["instance"], fixture.devnet.described["instance"]);
    let (anew, _) = keyed(&format!("ethereum={}", next.url(0)), "morning", "{}");
    assert_eq!(anew["status"], "success", "{anew}");
    assert_ne!(anew["call_id"], first["call_id"]);

    // A read without an idempotency key stores nothing.
    let clean = tempfile::tempdir().unwrap();
    let (read, _) = call(clean.path(), &["get_chain_status", "--rpc", &fixture.given]);
    assert_eq!(read["status"], "success", "{read}");
    assert_eq!(std::fs::read_dir(clean.path()).unwrap().count(), 0);

    // If nothing can be stored, the call is not made.
    std::fs::write(clean.path().join("data"), "in the way").unwrap();
    let (refused, exit) = call(clean.path(), &["get_chain_status", "--idempotency-key", "k", "--rpc", &fixture.given]);
    assert_eq!((&refused["error"]["code"], exit), (&json!("STORE_UNAVAILABLE"), 1), "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().contains("data"), "names the folder: {refused}");
}

#[test]
fn a_symbol_that_fits_two_tokens_of_the_book_is_ambiguous() {
    let fixture = Fixture::new();
    let mut described = fixture.devnet.described.clone();
    let tokens = described["chains"][0]["tokens"].as_object_mut().unwrap();
    let (uni, link) = (tokens["UNI"].clone(), tokens["LINK"].clone());
    let mut other = link.clone();
    other["name"] = json!("Another Uni");
    tokens.remove("LINK");
    tokens.insert("Uni".to_owned(), other);
    let book = fixture.home.path().join("book.json");
    std::fs::write(&book, described.to_string()).unwrap();
    let book = book.to_str().unwrap();
    let price = |token: &str| {
        let params = json!({"token": token, "chain": "ethereum"}).to_string();
        call(fixture.home.path(), &["get_token_price", &params, "--rpc", &fixture.given, "--book", book])
    };
    let error = expect(price("uni"), "TOKEN_AMBIGUOUS", "several tokens", "uni");
    let mut candidates: Vec<_> = error["details"]["candidates"]
        .as_array()
        .unwrap()
        .iter()
        .map(|candidate| candidate["address"].as_str().unwrap().to_lowercase())
        .collect();
    candidates.sort();
    let mut expected = [&uni, &link].map(|token| token["address"].as_str().unwrap().to_lowercase());
    expected.sort();
    assert_eq!(candidates, expected);
    assert_eq!(price("UNI").1, 0, "an exact symbol is one token's");
}

#[test]
fn unreachable_chains_are_reported() {
    let home = tempfile::tempdir().unwrap();
    // A port that was free a moment ago: nobody listens.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let nobody = format!("ethereum=http://127.0.0.1:{port}");
    let example = json!({"token": "WETH", "chain": "ethereum"}).to_string();
    for (tool, params) in
        [("get_token_price", example.as_str()), ("get_balances", "{}"), ("get_balances", "{\"chain\":\"eth\"}")]
    {
        let answer = call(home.path(), &[tool, params, "--rpc", &nobody]);
        expect(answer, "CHAIN_UNREACHABLE", "no endpoint of ethereum responds", tool);
    }
    // A status was requested, so an unreachable chain is an answer.
    let (status, exit) = call(home.path(), &["get_chain_status", "--rpc", &nobody]);
    assert_eq!((&status["data"]["chains"][0]["condition"], exit), (&json!("down"), 0), "{status}");
    // A network without a configured endpoint.
    let answer = call(home.path(), &["get_token_price", &example, "--network", "sepolia"]);
    expect(answer, "CHAIN_UNREACHABLE", "BARDO_RPC_SEPOLIA", "no endpoint");
    // An unknown name of a network: the command line is wrong.
    let (out, err, code) = run(bardo(home.path()).args(["call", "get_chain_status", "--network", "sepolai"]));
    assert_eq!((out.as_str(), code), ("", 2), "{err}");
    assert!(err.contains("did you mean 'sepolia'?"), "{err}");

    // An endpoint of another chain, and one chain of two that does not answer.
    let fixture = Fixture::new();
    let other = format!("base={}", fixture.devnet.url(0));
    let price = json!({"token": "WETH", "chain": "base"}).to_string();
    let answer = call(home.path(), &["get_token_price", &price, "--rpc", &other]);
    expect(answer, "CHAIN_INCONSISTENT", "returns chain id 31337", "another chain");
    let half = ["get_balances", "{}", "--rpc", &fixture.given, "--rpc", &format!("base=http://127.0.0.1:{port}")];
    let (balances, exit) = call(home.path(), &half);
    assert_eq!((&balances["data"]["not_reached"], exit), (&json!(["base"]), 0), "{balances}");
    assert!(balances["explanation"].as_str().unwrap().contains("unreachable: base"), "{balances}");
}

#[test]
fn a_call_without_any_network_works_on_the_devnet_of_the_process() {
    let home = tempfile::tempdir().unwrap();
    let example = json!({"token_in": "WETH", "token_out": "USDC", "amount": "1.5", "chain": "ethereum"}).to_string();
    let (quote, exit) = call(home.path(), &["uniswap_get_quote", &example]);
    assert_eq!((&quote["status"], exit), (&json!("success"), 0), "{quote}");
    let (balances, _) = call(home.path(), &["get_balances"]);
    let ids: Vec<_> = balances["data"]["chains"].as_array().unwrap().iter().map(|chain| &chain["chain_id"]).collect();
    assert_eq!(ids, [31_337, 31_338]);
}

/// The minimum output of an order follows from its slippage: half a percent by default, less if the phase permits less.
#[test]
fn an_order_has_the_slippage_that_its_phase_allows_unless_it_asks_for_its_own() {
    let home = tempfile::tempdir().unwrap();
    let order = |phase: &str, slippage: Option<u32>| {
        let mut params = json!({"token_in": "WETH", "token_out": "USDC", "amount": "0.05", "chain": "ethereum"});
        if let Some(slippage) = slippage {
            params["slippage_bps"] = json!(slippage);
        }
        let params = params.to_string();
        call(home.path(), &["--dry-run", "--phase", phase, "uniswap_submit_uniswapx_order", &params])
    };
    for (phase, asked, bps) in
        [("thriving", None, 50), ("cautious", None, 30), ("cautious", Some(20), 20), ("thriving", Some(80), 80)]
    {
        let (answer, exit) = order(phase, asked);
        assert_eq!((&answer["status"], exit), (&json!("simulated"), 0), "{phase}: {answer}");
        let amount = |field: &str| answer["data"][field].as_str().unwrap().parse::<f64>().unwrap();
        // It begins a tenth of a percent above the quote.
        let kept = amount("end_amount") / (amount("start_amount") / 1.001);
        assert!((kept - (1.0 - f64::from(bps) / 10_000.0)).abs() < 1e-6, "{phase}: {kept}");
    }
    let (answer, exit) = order("cautious", Some(40));
    assert_eq!((&answer["error"]["code"], exit), (&json!("SAFETY_SLIPPAGE"), 3), "{answer}");
    assert_eq!(answer["error"]["details"]["violations"][0]["rule"], "max_slippage_bps");
    // A swap without a slippage parameter passes, too.
    let swap = r#"{"token_in":"WETH","token_out":"USDC","amount":"0.05","chain":"ethereum","prefer_uniswapx":false}"#;
    let (answer, exit) = call(home.path(), &["--dry-run", "--phase", "cautious", "uniswap_execute_swap", swap]);
    assert_eq!((&answer["status"], exit), (&json!("simulated"), 0), "{answer}");
}

#[test]
fn the_policy_decides_which_reads_are_made_and_what_becomes_an_auction() {
    let home = tempfile::tempdir().unwrap();
    let under = |lines: &str| {
        std::fs::write(home.path().join("policy-devnet.toml"), format!("preset = \"demo\"\n{lines}")).unwrap();
    };
    let quote = json!({"token_in": "WETH", "token_out": "USDC", "amount": "0.05", "chain": "ethereum"}).to_string();
    let route = || call(home.path(), &["uniswap_get_quote", &quote]).0["data"]["route_type"].clone();
    assert_eq!(route(), "CLASSIC", "170 dollars are less than a thousand");
    under("uniswapx_from_usd = \"100\"\n");
    assert_eq!(route(), "DUTCH_V2");
    let (answer, _) = call(home.path(), &["--dry-run", "uniswap_execute_swap", &quote]);
    let title = answer["decision_hints"]["permit"]["expected_outcome"].as_str().unwrap();
    assert!(title.starts_with("Auction 0.05 WETH for ") && title.ends_with("; not filled at once"), "{answer}");
    under("uniswapx_from_usd = \"none\"\n");
    assert_eq!(route(), "CLASSIC");

    under("allowed_tools = [\"get_balances\"]\nallowed_chains = [\"devnet-base\"]\n");
    let (answer, exit) = call(home.path(), &["uniswap_get_quote", &quote]);
    assert_eq!(
        (&answer["error"]["code"], &answer["status"], exit),
        (&json!("SAFETY_NOT_ALLOWED"), &json!("blocked"), 3)
    );
    let (answer, _) = call(home.path(), &["get_balances"]);
    let chains = answer["data"]["chains"].as_array().unwrap();
    assert_eq!(chains.iter().map(|chain| chain["chain_id"].clone()).collect::<Vec<_>>(), [31_338], "{answer}");
}

#[test]
fn a_write_on_the_devnet_of_the_process_says_that_it_ends_with_it_and_asks_nobody() {
    let home = tempfile::tempdir().unwrap();
    let approve = r#"{"token":"USDC","amount":10,"chain":"ethereum"}"#;
    let (answer, exit) = call(home.path(), &["token_approve", approve]);
    assert_eq!((&answer["status"], exit), (&json!("success"), 0), "{answer}");
    assert!(answer["explanation"].as_str().unwrap().contains("`bardo devnet`"), "{answer}");
    // Above the threshold it needs approval, which is impossible here: it does not wait for an answer.
    let swap = r#"{"token_in":"USDC","token_out":"WETH","amount":1500,"chain":"ethereum","prefer_uniswapx":false}"#;
    let began = std::time::Instant::now();
    let (answer, exit) = call(home.path(), &["--approve", "ask", "uniswap_execute_swap", swap]);
    assert_eq!((&answer["error"]["code"], exit), (&json!("APPROVAL_REQUIRED"), 3), "{answer}");
    assert!(answer["error"]["suggestion"].as_str().unwrap().contains("--approve ask"), "{answer}");
    assert!(began.elapsed() < std::time::Duration::from_secs(60));
}

/// On a chain of another process as well: without a terminal, and without a console that is open on the data folder, a
/// call that would ask is refused at once. A console that was open before changes nothing.
#[test]
fn a_call_that_would_ask_where_nobody_can_answer_is_refused_at_once() {
    let mut fixture = crate::fixture::Fixture::new();
    fixture.under("require_human_approval_above_usd = \"10\"\n");
    let buy = json!({"token_in": "USDC", "token_out": "LINK", "amount": "50"});
    let ask = || {
        let began = std::time::Instant::now();
        let (answer, exit) = fixture.swap(buy.clone(), &["--approve", "ask"]);
        assert_eq!((&answer["error"]["code"], exit), (&json!("APPROVAL_REQUIRED"), 3), "{answer}");
        let how = answer["error"]["suggestion"].as_str().unwrap();
        assert!(
            how.contains("`--approve ask` asks at the terminal") && how.contains("a console that is open"),
            "{how}"
        );
        assert!(began.elapsed() < std::time::Duration::from_secs(60), "{:?}", began.elapsed());
    };
    ask();
    // The row of a console whose process has ended.
    let ledger = std::fs::read_dir(fixture.home.path().join("data/ledger")).unwrap().next().unwrap().unwrap();
    let database = rusqlite::Connection::open(ledger.path().join("ledger.db")).unwrap();
    assert_eq!(
        database
            .execute("INSERT INTO shared_console (session) VALUES ('00000000000000000000000000000000')", [])
            .unwrap(),
        1
    );
    ask();
}

/// A bridge's fillers pay the same gas for any amount: the error of a small one names the amount from which it would
/// pass.
#[test]
fn the_error_of_a_small_bridge_names_the_smallest_amount_that_passes() {
    let home = tempfile::tempdir().unwrap();
    let bridge = |amount: &str| {
        let params = json!({"token_in": "USDC", "token_out": "USDC", "amount": amount, "source_chain": "ethereum",
                            "destination_chain": "base"});
        call(home.path(), &["--dry-run", "uniswap_submit_cross_chain_intent", &params.to_string()]).0
    };
    let small = bridge("5");
    assert_eq!(small["error"]["code"], "SAFETY_SLIPPAGE", "{small}");
    let suggestion = small["error"]["suggestion"].as_str().unwrap();
    let (_, from) = suggestion.split_once("From about $").unwrap();
    let from: f64 = from.split_once(' ').unwrap().0.parse().unwrap();
    assert!((5.0..400.0).contains(&from), "{suggestion}");
    let enough = bridge(&format!("{:.2}", from * 1.1));
    assert_eq!(enough["status"], "simulated", "{enough}");
    // The order asks for less than the second-best bid, so that a filler has a margin.
    let usual = bridge("200");
    let amount = |value: &Value| value.as_str().unwrap().parse::<f64>().unwrap();
    let bids = usual["data"]["filler_bids"].as_array().unwrap_or_else(|| panic!("{usual}"));
    let mut bids: Vec<f64> = bids.iter().map(|bid| amount(&bid["output_amount"])).collect();
    bids.sort_by(|one, other| other.total_cmp(one));
    assert!(bids.len() > 1 && amount(&usual["data"]["estimated_output"]) < bids[1], "{usual}");
    // The margin is the configuration's: 1 % less than without one. Prices move by less than 0.02 % in a second.
    let asked = |margin: u32| {
        std::fs::write(home.path().join("config.toml"), format!("[intents]\nmargin_bps = {margin}\n")).unwrap();
        amount(&bridge("200")["data"]["estimated_output"])
    };
    let ratio = asked(100) / asked(0);
    assert!((ratio - 0.99).abs() < 0.002, "{ratio}");
}

#[test]
fn parameters_that_cannot_be_read_are_a_usage_error() {
    let home = tempfile::tempdir().unwrap();
    let binary = home.path().join("binary");
    std::fs::write(&binary, [0xff, 0xfe]).unwrap();
    for (params, says) in
        [("@/nowhere/at/all.json".to_owned(), "/nowhere/at/all.json"), (format!("@{}", binary.display()), "UTF-8")]
    {
        let (out, err, code) = run(bardo(home.path()).args(["call", "get_chain_status", &params]));
        assert_eq!((out.as_str(), code), ("", 2), "{err}");
        assert!(err.contains(says), "{err}");
    }
    let (out, _, code) = run(bardo(home.path()).arg("call"));
    assert_eq!((out.as_str(), code), ("", 2));
}

/// The documents call the chain both `chain` and `chain_id`: every tool accepts either name.
#[test]
fn chain_and_chain_id_are_interchangeable() {
    let home = tempfile::tempdir().unwrap();
    for params in [
        r#"{"chain":"ethereum"}"#,
        r#"{"chain":31337}"#,
        r#"{"chain_id":"ethereum"}"#,
        r#"{"chain_id":31337}"#,
        r#"{"chain_id":"31337"}"#,
    ] {
        let (envelope, code) = call(home.path(), &["get_chain_status", params]);
        assert_eq!((&envelope["status"], code), (&serde_json::json!("success"), 0), "{params}: {envelope}");
    }
    // Two names with different chains are an error.
    let (envelope, code) = call(home.path(), &["get_chain_status", r#"{"chain":"ethereum","chain_id":31338}"#]);
    assert_eq!((&envelope["error"]["code"], code), (&serde_json::json!("VALIDATION_FAILED"), 1), "{envelope}");
}

/// The progress on a terminal counts the steps as they happen, and their order is that of the work: calldata is built,
/// simulated, signed, sent and confirmed.
#[cfg(unix)]
#[test]
fn the_steps_of_a_call_on_a_terminal_are_in_the_order_of_the_work() {
    let home = tempfile::tempdir().unwrap();
    let swap = crate::fixture::swap(json!({"token_in": "USDC", "amount": "50", "token_out": "WETH"})).to_string();
    let arguments = ["call", "uniswap_execute_swap", &swap, "--approve", "always"];
    let (shown, code) = crate::fixture::on_a_terminal(home.path(), &arguments, &[]);
    assert_eq!(code, 0, "{shown}");
    let steps: Vec<(u32, &str)> = shown
        .lines()
        .filter_map(|line| line.trim_end().strip_prefix("bardo: step ")?.split_once(": "))
        .map(|(number, step)| (number.parse().unwrap(), step))
        .collect();
    let numbers: Vec<u32> = steps.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (1..=u32::try_from(steps.len()).unwrap()).collect::<Vec<_>>(), "{shown}");
    let work =
        ["Building calldata", "Simulating via Revm", "Signing transaction", "Broadcasting", "Confirming receipt"];
    let places: Vec<Option<usize>> = work.iter().map(|name| steps.iter().position(|(_, step)| step == name)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?} {shown}");
}
