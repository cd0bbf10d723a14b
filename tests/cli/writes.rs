//! Every way in which a write can be refused or fail, each from a real situation and through the binary: exit code,
//! envelope, and each violated rule with its limit, the violating value and a passing value.
//!
//! | code | situation |
//! |---|---|
//! | `TOKEN_NOT_FOUND`, `TOKEN_LOOKALIKE`, `ROUTING_NO_ROUTE`, `CHAIN_UNKNOWN`, `VALIDATION_FAILED` | a parameter |
//! | `SAFETY_SPENDING_LIMIT_EXCEEDED`, `SAFETY_TOKEN_NOT_ALLOWED`, `SAFETY_NOT_ALLOWED`, `SAFETY_SLIPPAGE`, `SAFETY_RATE_LIMITED`, `SAFETY_BALANCE_BREAKER`, `SAFETY_PHASE_BLOCKED` | a policy, alone and in combination |
//! | `SAFETY_SIMULATION_FAILED` | the sale exceeds the balance |
//! | `SAFETY_PRICE_UNKNOWN` | a token without a price source |
//! | `APPROVAL_REQUIRED`, `APPROVAL_REFUSED`, `APPROVAL_LAPSED` | no operator, a rejection, no answer on a terminal |
//! | `HALTED` | a stop |
//! | `EXECUTION_TX_REVERTED` | the router changes between signature and block |
//! | `EXECUTION_TX_TIMEOUT` | no block is made |
//! | `UNISWAPX_ORDER_EXPIRED` | no block is made until the order has expired |
//! | `CROSS_CHAIN_DESTINATION_DEGRADED` | the destination does not answer |
//! | `IDEMPOTENCY_CONFLICT` | one key for two calls |
//! | `PERMIT_EXPIRED`, `PERMIT_MISMATCH`, `PERMIT_CONSUMED`, `SAFETY_CAGE_VIOLATION` | covered by `permits` |
//! | `WALLET_NOT_CONFIGURED` | covered by `figures`, and in all variants by `signing` |
//! | `ROUTING_INSUFFICIENT_LIQUIDITY` | covered by `figures` for a bridge that nobody can fill: a swap fixes its input, which can always be quoted |
//!
//! The figures of each rule are covered by `figures`.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::fixture::{Answer, Fixture, ended, swap};
use crate::{bardo, run};
use bardo_testkit::devnet::ask;

/// Category of `001`, group of `000`, status and exit code of the specification.
const CODES: [(&str, &str, &str, &str, i32); 31] = [
    ("TOKEN_NOT_FOUND", "validation_error", "data", "error", 1),
    ("TOKEN_LOOKALIKE", "risk_blocked", "data", "blocked", 3),
    ("ROUTING_NO_ROUTE", "validation_error", "routing", "error", 1),
    ("ROUTING_INSUFFICIENT_LIQUIDITY", "validation_error", "routing", "error", 1),
    ("WALLET_NOT_CONFIGURED", "permission_denied", "wallet", "error", 1),
    ("CHAIN_UNKNOWN", "validation_error", "chain", "error", 1),
    ("VALIDATION_FAILED", "validation_error", "call", "error", 1),
    ("INSUFFICIENT_BALANCE", "validation_error", "data", "error", 1),
    ("ORDER_STILL_OPEN", "timeout", "order", "error", 1),
    ("IDEMPOTENCY_CONFLICT", "validation_error", "call", "error", 1),
    ("SAFETY_SPENDING_LIMIT_EXCEEDED", "risk_blocked", "safety", "blocked", 3),
    ("SAFETY_TOKEN_NOT_ALLOWED", "risk_blocked", "safety", "blocked", 3),
    ("SAFETY_NOT_ALLOWED", "permission_denied", "safety", "blocked", 3),
    ("SAFETY_SLIPPAGE", "risk_blocked", "safety", "blocked", 3),
    ("SAFETY_RATE_LIMITED", "timeout", "safety", "blocked", 3),
    ("SAFETY_BALANCE_BREAKER", "risk_blocked", "safety", "blocked", 3),
    ("SAFETY_PHASE_BLOCKED", "risk_blocked", "safety", "blocked", 3),
    ("SAFETY_PRICE_UNKNOWN", "upstream_unavailable", "safety", "blocked", 3),
    ("SAFETY_SIMULATION_FAILED", "simulation_failed", "safety", "blocked", 3),
    ("APPROVAL_REQUIRED", "permission_denied", "approval", "blocked", 3),
    ("APPROVAL_REFUSED", "permission_denied", "approval", "rejected", 4),
    ("APPROVAL_LAPSED", "timeout", "approval", "rejected", 4),
    ("SAFETY_CAGE_VIOLATION", "risk_blocked", "safety", "blocked", 3),
    ("PERMIT_EXPIRED", "timeout", "permit", "blocked", 3),
    ("PERMIT_MISMATCH", "simulation_failed", "permit", "blocked", 3),
    ("PERMIT_CONSUMED", "risk_blocked", "permit", "blocked", 3),
    ("HALTED", "permission_denied", "safety", "blocked", 3),
    ("EXECUTION_TX_REVERTED", "execution_failed", "execution", "error", 1),
    ("EXECUTION_TX_TIMEOUT", "execution_failed", "execution", "partial", 0),
    ("UNISWAPX_ORDER_EXPIRED", "execution_failed", "order", "error", 1),
    ("CROSS_CHAIN_DESTINATION_DEGRADED", "upstream_unavailable", "chain", "error", 1),
];

/// Classes of `001` whose callers should retry.
const RECOVERABLE: [&str; 4] = ["validation_error", "simulation_failed", "timeout", "upstream_unavailable"];

/// Checks an answer against the tables; returns the violated rules by name.
pub fn expect((envelope, exit): &Answer, code: &str, what: &str) -> Vec<String> {
    let (_, _, _, _, exits) = CODES.iter().find(|row| row.0 == code).unwrap();
    assert_eq!(exit, exits, "{what}: {envelope}");
    envelope_is(envelope, code, what)
}

/// Checks an envelope without an exit code, such as a brain's; returns the violated rules by name.
pub fn envelope_is(envelope: &Value, code: &str, what: &str) -> Vec<String> {
    let error = &envelope["error"];
    assert_eq!(error["code"], code, "{what}: {envelope}");
    let (_, category, group, status, _) = CODES.iter().find(|row| row.0 == code).unwrap();
    assert_eq!(envelope["status"], *status, "{what}: {envelope}");
    assert_eq!((&error["category"], &error["details"]["group"]), (&json!(category), &json!(group)), "{what}");
    assert_eq!(error["recoverable"], RECOVERABLE.contains(category), "{what}");
    assert!(error["suggestion"].as_str().unwrap().len() > 20, "{what}: {error}");
    assert!(!error["message"].as_str().unwrap().is_empty() && !envelope["explanation"].as_str().unwrap().is_empty());
    assert_eq!(envelope["call_id"].as_str().unwrap().len(), 26, "{what}");
    // The suggestion is the table's own, unless it states a waiting time.
    let written: bardo::base::error::ToolError = serde_json::from_value(error.clone()).unwrap();
    if matches!(*group, "safety" | "permit" | "approval") && error["details"]["retry_after_ms"].is_null() {
        assert_eq!(written.suggestion(), written.code().suggestion(), "{what}");
    }
    let violations = error["details"]["violations"].as_array().cloned().unwrap_or_default();
    for violation in &violations {
        for field in ["rule", "limit", "value", "would_pass"] {
            let told = violation[field].as_str().unwrap_or_default();
            assert!(!told.is_empty(), "{what}: no `{field}` in {violation}");
        }
    }
    let mut rules: Vec<String> = violations.iter().map(|one| one["rule"].as_str().unwrap().to_owned()).collect();
    rules.sort();
    rules
}

#[test]
fn an_impossible_parameter_is_reported_and_nothing_is_sent() {
    let fixture = Fixture::new();
    let lookalike = fixture.contract("badLookalikeToken");
    let at = |address: &str| address.parse::<alloy::primitives::Address>().unwrap();
    let imitates = format!(
        "'USD\u{421}', the symbol of {}, can be mistaken for USDC: it mixes letters of several scripts; it is not \
         used. The listed one is USDC {}",
        at(lookalike),
        at(fixture.token("USDC"))
    );
    let itself = format!("a token cannot be swapped for itself: {}", at(fixture.token("WETH")));
    let unknown = "unknown token 'USDX' (did you mean USDC?) on ethereum (31337); known by symbol: ETH, DAI, LINK, UNI, USDC, \
                   USDT, WBTC, WETH; name any other by its address";
    let told = |changed: Value, code: &str, message: &str| {
        let answer = fixture.swap(changed.clone(), &[]);
        expect(&answer, code, &changed.to_string());
        assert_eq!(answer.0["error"]["message"], message, "{changed}");
    };
    for (changed, code, message) in [
        (json!({"token_in": "USDX"}), "TOKEN_NOT_FOUND", unknown),
        (json!({"token_out": lookalike}), "TOKEN_LOOKALIKE", imitates.as_str()),
        (json!({"token_out": "ETH"}), "VALIDATION_FAILED", itself.as_str()),
        (
            json!({"amount": "0"}),
            "VALIDATION_FAILED",
            "parameter `amount`: an amount of zero cannot be swapped; use an amount above zero",
        ),
        (
            json!({"amount": "-1"}),
            "VALIDATION_FAILED",
            "parameter `amount`: '-' is not allowed: write the number without a sign",
        ),
        (
            json!({"slippage_bps": 10_001}),
            "VALIDATION_FAILED",
            "parameter `slippage_bps`: more than 10000 basis points (100 %): write 0 to 10000, such as 50 for 0.5 %",
        ),
        (
            json!({"deadline": 0}),
            "VALIDATION_FAILED",
            "parameter `deadline`: 0 s; expected 1 to 86400 s from now, such as 300",
        ),
        (
            json!({"chain": "etherium"}),
            "CHAIN_UNKNOWN",
            "unknown chain 'etherium' (did you mean 'ethereum'?); known: ethereum",
        ),
    ] {
        told(changed, code, message);
    }
    // A valid token that no pool trades: the share of a pair.
    let asked = json!({"token_a": "WETH", "token_b": "USDC", "chain": "ethereum"});
    let (pools, _) = fixture.call("get_pool_info", &asked, &[]);
    let pair = pools["data"]["pools"].as_array().unwrap().iter().find(|pool| pool["version"] == "V2").unwrap();
    let no_way = "no route of Uniswap pools leads from ETH to UNI-V2 on ethereum (31337)";
    told(json!({"token_out": pair["pool"]}), "ROUTING_NO_ROUTE", no_way);
    // One key for two different calls.
    let first = fixture.swap(json!({}), &["--idempotency-key", "k"]);
    assert_eq!((&first.0["status"], first.1), (&json!("success"), 0), "{}", first.0);
    let second = fixture.swap(json!({"amount": "0.02"}), &["--idempotency-key", "k"]);
    expect(&second, "IDEMPOTENCY_CONFLICT", "a key");
    assert_eq!(second.0["error"]["message"], "the key `k` was already used for another call, of uniswap_execute_swap");
    assert_eq!(fixture.swap(json!({}), &["--idempotency-key", "k"]), first);
    assert_eq!(fixture.nonce("latest"), 1, "one swap, once");
}

#[test]
fn each_rule_refuses_by_its_own_code_and_all_of_them_at_once() {
    let mut fixture = Fixture::new();
    let refused = |fixture: &Fixture, changed: Value, more: &[&str], code: &str, rules: &[&str]| {
        let what = format!("{changed} {more:?}");
        assert_eq!(expect(&fixture.swap(changed, more), code, &what), rules, "{what}");
    };
    fixture.under("max_single_trade_usd = \"20\"\n");
    // A sale for dollars counts with its possible loss, a purchase with the amount it spends.
    let bought = || json!({"token_in": "USDC", "token_out": "WETH", "amount": "34"});
    refused(&fixture, bought(), &[], "SAFETY_SPENDING_LIMIT_EXCEEDED", &["max_single_trade_usd"]);
    let (answer, _) = fixture.swap(bought(), &[]);
    let violation = &answer["error"]["details"]["violations"][0];
    assert!(violation["limit"].as_str().unwrap().starts_with("$20.00 "), "{violation}");
    // The gas of a revert counts as well.
    assert!(violation["value"].as_str().unwrap().starts_with("$3"), "{violation}");
    // The loss is irrelevant here, and this devnet's market drifts meanwhile.
    let wide = "max_loss_bps = 1000\n";
    fixture.under(&format!("allowed_tokens = [\"31337:{}\", \"31337:native\"]\n{wide}", fixture.token("USDC")));
    refused(&fixture, json!({"token_out": "UNI"}), &[], "SAFETY_TOKEN_NOT_ALLOWED", &["allowed_tokens"]);
    fixture.under("allowed_tools = [\"token_revoke\"]\n");
    refused(&fixture, json!({}), &[], "SAFETY_NOT_ALLOWED", &["allowed_tools"]);
    // At 300 basis points of slippage the worst case is a loss of the same size, which has its own rule.
    fixture.under("max_slippage_bps = 100\nmax_loss_bps = 1000\n");
    refused(&fixture, json!({"slippage_bps": 300}), &[], "SAFETY_SLIPPAGE", &["max_slippage_bps"]);
    let exits_only = ["phase Defensive", "phases.defensive.exit_only"];
    refused(&fixture, json!({"token_out": "UNI"}), &["--phase", "defensive"], "SAFETY_PHASE_BLOCKED", &exits_only);
    assert_eq!(fixture.nonce("latest"), 0);
    // All violations are reported together, in the order of the checks.
    fixture.under(&format!(
        "max_single_trade_usd = \"20\"\nallowed_tokens = [\"31337:{}\", \"31337:native\"]\nmax_slippage_bps = 100\n\
         max_loss_bps = 1000\n",
        fixture.token("USDC")
    ));
    let all = ["allowed_tokens", "max_single_trade_usd", "max_slippage_bps"];
    refused(&fixture, json!({"token_out": "UNI", "slippage_bps": 300}), &[], "SAFETY_TOKEN_NOT_ALLOWED", &all);
    // Counts over several calls include all processes.
    fixture.under("max_trades_per_hour = 1\n");
    assert_eq!(fixture.swap(json!({}), &[]).1, 0);
    let bought = json!({"token_in": "USDC", "token_out": "WETH", "amount": "20"});
    refused(&fixture, bought, &[], "SAFETY_RATE_LIMITED", &["max_trades_per_hour"]);
    fixture.under(&format!("stop_loss_pct = \"10\"\n{wide}"));
    assert_eq!(fixture.swap(json!({}), &[]).1, 0);
    // More than 4,000 of about 25,000 dollars are gone: the demo wallet has 1.4 native tokens at 3,400.
    fixture.ask("anvil_setBalance", json!([fixture.account(), "0x16345785d8a0000"]));
    let lost = fixture.swap(json!({"token_in": "USDC", "token_out": "UNI", "amount": "50"}), &[]);
    assert_eq!(expect(&lost, "SAFETY_BALANCE_BREAKER", "a loss"), ["stop_loss_pct"]);
    // Exits still pass.
    let out = fixture.swap(json!({"token_in": "WETH", "amount": "0.01"}), &[]);
    assert_eq!((&out.0["status"], out.1), (&json!("success"), 0), "{}", out.0);
}

#[test]
fn failed_simulations_and_missing_prices_are_refused() {
    let mut fixture = Fixture::new();
    let nonce = fixture.nonce("latest");
    // The wallet has no UNI.
    let answer = fixture.swap(json!({"token_in": "UNI", "amount": "3"}), &[]);
    let rules = expect(&answer, "SAFETY_SIMULATION_FAILED", "more than is held");
    assert!(rules.contains(&"simulation".to_owned()), "{rules:?}");
    let mute = fixture.contract("badNoReturnToken");
    fixture.under(&format!("allowed_tokens = [\"31337:{mute}\", \"31337:native\"]\n"));
    let priceless = json!({"token": fixture.contract("badNoReturnToken"), "amount": "5", "chain": "ethereum"});
    expect(&fixture.call("token_approve", &priceless, &[]), "SAFETY_PRICE_UNKNOWN", "no price");
    // A stop takes precedence over everything else.
    assert_eq!(run(bardo(fixture.home.path()).args(["halt", "--reason", "a test"])).2, 0);
    expect(&fixture.swap(json!({}), &[]), "HALTED", "a stop");
    assert_eq!(fixture.nonce("latest"), nonce);
}

#[test]
fn an_action_that_needs_approval_is_blocked_rejected_or_lapses() {
    let mut fixture = Fixture::new();
    fixture.under("require_human_approval_above_usd = \"10\"\n");
    let blocked = fixture.swap(json!({}), &[]);
    expect(&blocked, "APPROVAL_REQUIRED", "nobody to ask");
    let permit = &blocked.0["error"]["details"]["permit"];
    let permit = if permit.is_null() { &blocked.0["decision_hints"]["permit"] } else { permit };
    assert!(permit["simulation_hash"].as_str().is_some_and(|hash| hash.len() == 66), "the full preview: {}", blocked.0);

    for (answer, seconds, code) in [(Some("no\n"), 300, "APPROVAL_REFUSED"), (None, 5, "APPROVAL_LAPSED")] {
        fixture.configure(&format!("[safety]\napproval_timeout_seconds = {seconds}\n"));
        let (shown, exit) = fixture.on_a_terminal(&swap(json!({})), answer, || {});
        assert_eq!(exit, 4, "{shown}");
        assert!(shown.contains(code), "{shown}");
    }
    assert_eq!(fixture.nonce("latest"), 0);
}

#[test]
fn a_reverted_transaction_is_reported() {
    let fixture = Fixture::new();
    fixture.ask("evm_setAutomine", json!([false]));
    let swapping = fixture.swapping(json!({}));
    fixture.until_pending(1);
    // Between the last check and the block the router is broken: PUSH0 PUSH0 REVERT.
    fixture.ask("anvil_setCode", json!([fixture.contract("universalRouterV2_1_0"), "0x5f5ffd"]));
    fixture.ask("evm_mine", json!([]));
    let answer = ended(swapping);
    expect(&answer, "EXECUTION_TX_REVERTED", "a broken router");
    let hash = answer.0["data"]["tx_hash"].as_str().unwrap();
    assert_eq!(fixture.ask("eth_getTransactionReceipt", json!([hash]))["status"], "0x0");
    assert_eq!(answer.0["data"]["amount_out"], "0", "the chain's word, not the simulation's");
    let block = block_of(&fixture, hash);
    let told = format!("transaction {hash} is in block {block} and reverted: the contract gives no reason");
    assert_eq!(answer.0["error"]["message"], told);
}

fn block_of(fixture: &Fixture, hash: &str) -> u64 {
    let receipt = fixture.ask("eth_getTransactionReceipt", json!([hash]));
    u64::from_str_radix(receipt["blockNumber"].as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

/// Between the last check and the block the native token falls by two percent in every pool, with half a percent of
/// slippage.
#[test]
fn a_swap_whose_price_moves_before_its_block_is_explained() {
    let fixture = Fixture::new();
    let pair = json!({"token_a": "WETH", "token_b": "USDC", "chain": "ethereum"});
    let (pools, _) = fixture.call("get_pool_info", &pair, &[]);
    fixture.ask("evm_setAutomine", json!([false]));
    let swapping = fixture.swapping(json!({}));
    fixture.until_pending(1);
    for pool in pools["data"]["pools"].as_array().unwrap().iter().filter(|pool| pool["version"] == "V3") {
        // The first word of a pool (`slot0`) has the square root of the price in its low 160 bits, then the price's
        // tick in 24 bits. 200 ticks lower the root is multiplied by 1.0001^-100.
        let word = fixture.ask("eth_getStorageAt", json!([pool["pool"], "0x0", "latest"]));
        let (rest, root) = word.as_str().unwrap().trim_start_matches("0x").split_at(24);
        let (rest, tick) = rest.split_at(18);
        let hex = |digits: &str| u128::from_str_radix(digits, 16).unwrap();
        let (root, tick) = (hex(root) * 990_050_328 / 1_000_000_000, hex(tick) - 200);
        fixture.ask("anvil_setStorageAt", json!([pool["pool"], "0x0", format!("0x{rest}{tick:06x}{root:040x}")]));
    }
    fixture.ask("evm_mine", json!([]));
    let answer = ended(swapping);
    expect(&answer, "EXECUTION_TX_REVERTED", "a price that fell");
    let hash = answer.0["data"]["tx_hash"].as_str().unwrap();
    assert_eq!(fixture.ask("eth_getTransactionReceipt", json!([hash]))["status"], "0x0");
    assert_eq!(
        answer.0["error"]["message"],
        format!(
            "transaction {hash} is in block {} and reverted: the price moved: the output would be below the minimum; \
             by the contract: V3TooLittleReceived()",
            block_of(&fixture, hash)
        )
    );
}

#[test]
fn a_pending_transaction_is_partial_and_not_sent_twice() {
    let fixture = Fixture::new();
    fixture.configure("[safety]\nreceipt_patience_seconds = 1\n");
    fixture.ask("evm_setAutomine", json!([false]));
    let answer = fixture.swap(json!({}), &["--idempotency-key", "slow"]);
    expect(&answer, "EXECUTION_TX_TIMEOUT", "no block");
    let hash = answer.0["data"]["tx_hash"].as_str().unwrap();
    let told = format!("transaction {hash} was signed, but did not settle within the timeout");
    assert_eq!(answer.0["error"]["message"], told);
    assert_eq!(answer.0["error"]["details"]["tx_hash"], answer.0["data"]["tx_hash"]);
    let again = fixture.swap(json!({}), &["--idempotency-key", "slow"]);
    assert_eq!(again.0["data"]["tx_hash"], answer.0["data"]["tx_hash"], "the same, and no second one");
    assert_eq!((fixture.nonce("pending"), fixture.nonce("latest")), (1, 0));
    fixture.ask("evm_mine", json!([]));
    let hash = answer.0["data"]["tx_hash"].as_str().unwrap();
    assert_eq!(fixture.ask("eth_getTransactionReceipt", json!([hash]))["status"], "0x1");
}

#[test]
fn a_pending_transaction_is_replaced_within_its_gas_budget() {
    let fixture = Fixture::new();
    fixture.configure("[safety]\nreceipt_patience_seconds = 600\n");
    fixture.ask("evm_setAutomine", json!([false]));
    let swapping = fixture.swapping(json!({}));
    fixture.until_pending(1);
    // The stored bytes are the signed ones; read from the database directly, without the code under test.
    let stored = || -> Vec<Vec<u8>> {
        let ledgers = fs::read_dir(fixture.home.path().join("data/ledger")).unwrap();
        let path = ledgers.map(|entry| entry.unwrap().path().join("ledger.db")).next().unwrap();
        let ledger = rusqlite::Connection::open_with_flags(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        let mut rows = ledger.prepare("SELECT hash FROM sender_transaction ORDER BY rowid").unwrap();
        rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let since = Instant::now();
    // Stored first and sent then: the chain must know it before there is a block.
    let known = |hash: &[u8]| {
        let hash = format!("0x{}", alloy::hex::encode(hash));
        !fixture.ask("eth_getTransactionByHash", json!([hash])).is_null()
    };
    while !stored().get(1).is_some_and(|hash| known(hash)) {
        assert!(since.elapsed() < Duration::from_secs(400), "it was not outbid");
        std::thread::sleep(Duration::from_millis(100));
    }
    fixture.ask("evm_mine", json!([]));
    let (answer, exit) = ended(swapping);
    assert_eq!((&answer["status"], exit), (&json!("success"), 0), "{answer}");
    let hash = answer["data"]["tx_hash"].as_str().unwrap();
    let hashes: Vec<String> = stored().iter().map(|hash| format!("0x{}", alloy::hex::encode(hash))).collect();
    assert_eq!(hash, hashes[1], "the second is the one that happened");
    assert!(answer["decision_hints"].to_string().contains("replaces"), "and it is said: {answer}");
    let get = |hash: &str| fixture.ask("eth_getTransactionByHash", json!([hash]));
    let fee = |of: &Value| u128::from_str_radix(of.as_str().unwrap().trim_start_matches("0x"), 16).unwrap();
    let second = get(hash);
    assert_eq!((fixture.nonce("latest"), &second["nonce"]), (1, &json!("0x0")), "one nonce, one transaction");
    // Never above the displayed and counted maximum: gas limit times fee is within the permit's worst gas.
    let (out, _, code) = run(bardo(fixture.home.path()).args(["log", "--json"]));
    assert_eq!(code, 0);
    assert!(out.contains("tx:outbid") && out.contains(hash), "the trail has it: {out}");
    assert!(fee(&second["maxFeePerGas"]) > 0);
    assert_eq!(run(bardo(fixture.home.path()).args(["log", "verify"])).2, 0);
}

#[test]
fn an_order_that_nobody_fills_in_time_has_expired() {
    let fixture = Fixture::new();
    // The allowance comes first, so that the order is only a signature.
    let allow = json!({"token": "USDC", "amount": "100", "chain": "ethereum"});
    let allowed = fixture.call("token_approve", &allow, &["--approve", "always"]);
    assert_eq!(allowed.1, 0, "{}", allowed.0);
    // Without blocks nobody can fill it.
    fixture.ask("evm_setAutomine", json!([false]));
    let order = json!({"token_in": "USDC", "token_out": "WETH", "amount": "100", "chain": "ethereum",
                       "decay_end_time": 16});
    let url = fixture.devnet.url(0).to_owned();
    let ledgers = fs::read_dir(fixture.home.path().join("data/ledger")).unwrap();
    let ledger = ledgers.map(|entry| entry.unwrap().path().join("ledger.db")).next().unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let until = Arc::clone(&over);
    let mining = std::thread::spawn(move || {
        let ledger = rusqlite::Connection::open_with_flags(ledger, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        let signed = "SELECT count(*) FROM safety_order WHERE signature IS NOT NULL";
        // The database may be busy while another process writes.
        while !until.load(Ordering::SeqCst)
            && !ledger.query_row(signed, [], |row| row.get::<_, i64>(0)).is_ok_and(|count| count > 0)
        {
            std::thread::sleep(Duration::from_millis(50));
        }
        // In the next block the order has expired.
        ask(&url, "evm_increaseTime", json!([20]));
        while !until.load(Ordering::SeqCst) {
            ask(&url, "evm_mine", json!([]));
            std::thread::sleep(Duration::from_millis(500));
        }
    });
    let answer = fixture.call("uniswap_submit_uniswapx_order", &order, &["--wait", "--approve", "always"]);
    over.store(true, Ordering::SeqCst);
    mining.join().unwrap();
    expect(&answer, "UNISWAPX_ORDER_EXPIRED", "no block in time");
    let hash = answer.0["data"]["order_hash"].as_str().unwrap();
    assert_eq!(answer.0["error"]["message"], format!("order {hash} expired without being filled"));
    assert_eq!(answer.0["data"]["status"], "expired");
}

#[test]
fn a_bridge_to_an_unreachable_chain_is_refused() {
    let fixture = Fixture::new();
    // A port that was free a moment ago: nobody listens.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let base = format!("base=http://127.0.0.1:{port}");
    let bridge = json!({"token_in": "USDC", "token_out": "USDC", "amount": "100",
                        "source_chain": "ethereum", "destination_chain": "base"});
    let answer = fixture.call("uniswap_submit_cross_chain_intent", &bridge, &["--rpc", &base]);
    expect(&answer, "CROSS_CHAIN_DESTINATION_DEGRADED", "nobody answers");
    // The message names the end and the address, and that nothing was sent.
    let message = answer.0["error"]["message"].as_str().unwrap();
    let start = format!("the destination base is unhealthy: no endpoint of base responds: http://127.0.0.1:{port}: ");
    assert!(message.starts_with(&start) && message.ends_with("; nothing was sent"), "{message}");
    assert_eq!(fixture.nonce("pending"), 0);
}
