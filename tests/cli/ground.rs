//! Reported outcomes compared with the chain: balances over JSON-RPC before and after, and the wording and sources that
//! the tools' document defines.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::fixture::Fixture;
use bardo_testkit::devnet::ask;

/// Balance of the account in raw units, according to the token itself.
fn balance(fixture: &Fixture, symbol: &str) -> u128 {
    // balanceOf(address) selector.
    let data = format!("0x70a08231{:0>64}", fixture.account().trim_start_matches("0x"));
    let answer = fixture.ask("eth_call", json!([{ "to": fixture.token(symbol), "data": data }, "latest"]));
    u128::from_str_radix(answer.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

/// A whole-token amount in raw units, by its digits.
fn raw(amount: &Value, decimals: usize) -> u128 {
    let text = amount.as_str().unwrap();
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    format!("{whole}{part:0<decimals$}").parse().unwrap()
}

/// Journaled events of the folder's only run.
fn journaled(fixture: &Fixture) -> Vec<Value> {
    let runs: Vec<_> =
        std::fs::read_dir(fixture.home.path().join("data/runs")).unwrap().map(|run| run.unwrap().path()).collect();
    assert_eq!(runs.len(), 1, "{runs:?}");
    let text = std::fs::read_to_string(&runs[0]).unwrap();
    let mut lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    assert_eq!(lines.next(), Some(json!({ "journal": 6 })), "the version of the format comes first");
    lines.collect()
}

/// Entries of this kind in the audit log, as `bardo log` prints them.
fn trail(fixture: &Fixture, kind: &str) -> Vec<Value> {
    let (out, err, code) =
        crate::run(crate::bardo(fixture.home.path()).args(["--rpc", &fixture.given, "log", "--json"]));
    assert_eq!(code, 0, "{err}");
    let all: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    all.into_iter().filter(|entry| entry["kind"] == kind).collect()
}

#[test]
fn a_swap_says_what_its_document_says_and_its_events_stand_in_order() {
    let fixture = Fixture::new();
    let swap = json!({"token_in": "USDC", "token_out": "WETH", "amount": "100", "chain": "ethereum",
                      "prefer_uniswapx": false});
    let before = balance(&fixture, "WETH");
    let (answer, code) = fixture.call("uniswap_execute_swap", &swap, &["--approve", "always"]);
    assert_eq!(code, 0, "{answer}");
    let data = &answer["data"];
    assert_eq!(balance(&fixture, "WETH") - before, raw(&data["amount_out"], 18), "{answer}");

    let events = journaled(&fixture);
    let kinds: Vec<&str> = events.iter().map(|event| event["kind"].as_str().unwrap()).collect();
    let at = |kind: &str| kinds.iter().position(|one| *one == kind).unwrap_or_else(|| panic!("no {kind}: {kinds:?}"));
    assert!(at("tool:start") < at("safety:check"), "{kinds:?}");
    assert!(at("safety:check") < at("permit:issued"), "{kinds:?}");
    assert!(at("permit:issued") < at("permit:consumed"), "{kinds:?}");
    assert!(at("permit:consumed") < at("tool:verified"), "{kinds:?}");
    assert_eq!(at("tool:end"), kinds.len() - 1, "{kinds:?}");

    let told = &events[at("tool:verified")];
    let (out, hash) = (data["amount_out"].as_str().unwrap(), data["tx_hash"].as_str().unwrap());
    assert_eq!(told["actual_outcome"], format!("Received {out} WETH, tx {hash}"));
    assert_eq!(told["ground_truth_source"], "transaction_receipt + balance_diff");
    let expected = told["expected_outcome"].as_str().unwrap();
    assert!(expected.starts_with("Swap 100 USDC for >= 0.") && expected.ends_with(" WETH"), "{expected}");
    assert_eq!(told["matched"], true);
    let [kept] = trail(&fixture, "action:verified").try_into().unwrap_or_else(|all| panic!("{all:?}"));
    for fact in ["expected_outcome", "actual_outcome", "ground_truth_source", "matched"] {
        assert_eq!(kept["body"][fact], told[fact], "{kept}");
    }
}

#[test]
fn a_swap_by_auction_moves_nothing_until_it_is_filled_and_then_what_the_chain_says() {
    let swap = json!({"token_in": "WETH", "token_out": "USDC", "amount": "0.35", "chain": "ethereum"});
    let attempt = || {
        let fixture = Fixture::new();
        let (weth, usdc) = (balance(&fixture, "WETH"), balance(&fixture, "USDC"));
        // Fillers act with each block, and nobody else makes any here.
        let (url, over) = (fixture.devnet.url(0).to_owned(), Arc::new(AtomicBool::new(false)));
        let until = Arc::clone(&over);
        let mining = std::thread::spawn(move || {
            while !until.load(Ordering::SeqCst) {
                ask(&url, "evm_mine", json!([]));
                std::thread::sleep(Duration::from_millis(300));
            }
        });
        let (answer, code) = fixture.call("uniswap_execute_swap", &swap, &["--approve", "always", "--wait"]);
        over.store(true, Ordering::SeqCst);
        mining.join().unwrap();
        // One order in a hundred is overlooked by all fillers and expires; another test covers that.
        if answer["error"]["code"] == "UNISWAPX_ORDER_EXPIRED" {
            return None;
        }
        assert_eq!((code, &answer["status"]), (0, &json!("success")), "{answer}");
        Some((fixture, answer, weth, usdc))
    };
    let (fixture, answer, weth, usdc) = (0..4).find_map(|_| attempt()).expect("nobody fills anything");
    let data = &answer["data"];
    let hash = data["order_hash"].as_str().unwrap();
    assert_eq!(raw(&data["amount_in"], 18), weth - balance(&fixture, "WETH"), "{answer}");
    assert_eq!(raw(&data["amount_out"], 6), balance(&fixture, "USDC") - usdc, "{answer}");
    assert_eq!(raw(&data["amount_in"], 18), 350_000_000_000_000_000, "{answer}");
    // The price is the output per unit of input, up to the precision of a double.
    let price = raw(&data["amount_out"], 6) as f64 / 1e6 / 0.35;
    assert!((data["effective_price"].as_f64().unwrap() - price).abs() < 1e-6 * price, "{answer}");
    let receipt = fixture.ask("eth_getTransactionReceipt", json!([data["tx_hash"]]));
    assert_eq!(receipt["status"], "0x1", "{answer}");
    let block = receipt["blockNumber"].as_str().unwrap();
    assert_eq!(u64::from_str_radix(block.trim_start_matches("0x"), 16).unwrap(), data["block_number"], "{answer}");
    let [signed] = trail(&fixture, "order:signed").try_into().unwrap_or_else(|all| panic!("{all:?}"));
    assert_eq!(signed["body"]["order"], hash);
    let [ended] = trail(&fixture, "order:ended").try_into().unwrap_or_else(|all| panic!("{all:?}"));
    assert_eq!(ended["body"]["actual_outcome"], format!("Order {hash} status: filled"));
    assert_eq!((&ended["body"]["status"], &ended["body"]["tx"]), (&json!("filled"), &data["tx_hash"]));
    let told = journaled(&fixture).into_iter().rfind(|event| event["kind"] == "tool:verified").unwrap();
    assert_eq!(told["actual_outcome"], ended["body"]["actual_outcome"]);
}

#[test]
fn a_swap_by_auction_without_waiting_claims_nothing() {
    let fixture = Fixture::new();
    // Without blocks nobody can fill it.
    fixture.call(
        "token_approve",
        &json!({"token": "WETH", "amount": "1", "chain": "ethereum",
              "spender": fixture.contract("permit2")}),
        &["--approve", "always"],
    );
    fixture.ask("evm_setAutomine", json!([false]));
    let swap = json!({"token_in": "WETH", "token_out": "USDC", "amount": "0.35", "chain": "ethereum"});
    let (answer, code) = fixture.call("uniswap_execute_swap", &swap, &["--approve", "always"]);
    assert_eq!((code, &answer["status"]), (0, &json!("partial")), "{answer}");
    let data = &answer["data"];
    for fact in ["amount_in", "amount_out", "effective_price", "slippage_actual_bps", "gas_used", "tx_hash"] {
        assert_eq!((data.get(fact), fact), (Some(&Value::Null), fact), "{answer}");
    }
    // What was signed: the whole input for the quote plus 10 basis points at the start, and less 50 at the end.
    assert_eq!(data["order_amount_in"], "0.35", "{answer}");
    let figure = |of: &Value| of.as_str().unwrap_or_else(|| panic!("{answer}")).parse::<f64>().unwrap();
    let quoted = figure(&answer["decision_hints"]["quoted_out"]);
    assert!(quoted > 100.0, "{answer}");
    for (field, share) in [("start_amount", 1.001), ("end_amount", 0.995)] {
        let off = figure(&data[field]) - quoted * share;
        assert!(off.abs() < 0.000_002, "{field} is off by {off}: {answer}");
    }
    // A person reads no zeros either.
    let arguments = ["call", "uniswap_execute_swap", &swap.to_string(), "--dry-run", "--rpc", &fixture.given];
    let (shown, code) = fixture.at_a_terminal("", &arguments, "no prompt", None, || {});
    assert!(code == 0 && shown.contains("Order amount in") && !shown.contains("Amount out  0"), "{code} {shown}");
}
