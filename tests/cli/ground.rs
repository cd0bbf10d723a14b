//! Reported outcomes compared with the chain: balances over JSON-RPC before and after, and the wording and sources that
//! the tools' document defines.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::desk::Desk;
use bardo_testkit::devnet::ask;

/// Balance of the account in raw units, according to the token itself.
fn balance(desk: &Desk, symbol: &str) -> u128 {
    // balanceOf(address) selector.
    let data = format!("0x70a08231{:0>64}", desk.account().trim_start_matches("0x"));
    let answer = desk.ask("eth_call", json!([{ "to": desk.token(symbol), "data": data }, "latest"]));
    u128::from_str_radix(answer.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

/// A whole-token amount in raw units, by its digits.
fn raw(amount: &Value, decimals: usize) -> u128 {
    let text = amount.as_str().unwrap();
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    format!("{whole}{part:0<decimals$}").parse().unwrap()
}

/// Journaled events of the folder's only run.
fn journaled(desk: &Desk) -> Vec<Value> {
    let runs: Vec<_> =
        std::fs::read_dir(desk.home.path().join("data/runs")).unwrap().map(|run| run.unwrap().path()).collect();
    assert_eq!(runs.len(), 1, "{runs:?}");
    let text = std::fs::read_to_string(&runs[0]).unwrap();
    let mut lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    assert_eq!(lines.next(), Some(json!({ "journal": 4 })), "the version of the format comes first");
    lines.collect()
}

/// Entries of this kind in the audit log, as `bardo log` prints them.
fn trail(desk: &Desk, kind: &str) -> Vec<Value> {
    let (out, err, code) = crate::run(crate::bardo(desk.home.path()).args(["--rpc", &desk.given, "log", "--json"]));
    assert_eq!(code, 0, "{err}");
    let all: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    all.into_iter().filter(|entry| entry["kind"] == kind).collect()
}

#[test]
fn a_swap_says_what_its_document_says_and_its_events_stand_in_order() {
    let desk = Desk::new();
    let swap = json!({"token_in": "USDC", "token_out": "WETH", "amount": "100", "chain": "ethereum",
                      "prefer_uniswapx": false});
    let before = balance(&desk, "WETH");
    let (answer, code) = desk.call("uniswap_execute_swap", &swap, &["--approve", "always"]);
    assert_eq!(code, 0, "{answer}");
    let data = &answer["data"];
    assert_eq!(balance(&desk, "WETH") - before, raw(&data["amount_out"], 18), "{answer}");

    let events = journaled(&desk);
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
    let [kept] = trail(&desk, "action:verified").try_into().unwrap_or_else(|all| panic!("{all:?}"));
    for fact in ["expected_outcome", "actual_outcome", "ground_truth_source", "matched"] {
        assert_eq!(kept["body"][fact], told[fact], "{kept}");
    }
}

#[test]
fn a_swap_by_auction_moves_nothing_until_it_is_filled_and_then_what_the_chain_says() {
    let swap = json!({"token_in": "WETH", "token_out": "USDC", "amount": "0.35", "chain": "ethereum"});
    let attempt = || {
        let desk = Desk::new();
        let (weth, usdc) = (balance(&desk, "WETH"), balance(&desk, "USDC"));
        // Fillers act with each block, and nobody else makes any here.
        let (url, over) = (desk.devnet.url(0).to_owned(), Arc::new(AtomicBool::new(false)));
        let until = Arc::clone(&over);
        let mining = std::thread::spawn(move || {
            while !until.load(Ordering::SeqCst) {
                ask(&url, "evm_mine", json!([]));
                std::thread::sleep(Duration::from_millis(300));
            }
        });
        let (answer, code) = desk.call("uniswap_execute_swap", &swap, &["--approve", "always", "--wait"]);
        over.store(true, Ordering::SeqCst);
        mining.join().unwrap();
        // One order in a hundred is overlooked by all fillers and expires; another test covers that.
        if answer["error"]["code"] == "UNISWAPX_ORDER_EXPIRED" {
            return None;
        }
        assert_eq!((code, &answer["status"]), (0, &json!("success")), "{answer}");
        Some((desk, answer, weth, usdc))
    };
    let (desk, answer, weth, usdc) = (0..4).find_map(|_| attempt()).expect("nobody fills anything");
    let data = &answer["data"];
    let hash = data["order_hash"].as_str().unwrap();
    assert_eq!(raw(&data["amount_in"], 18), weth - balance(&desk, "WETH"), "{answer}");
    assert_eq!(raw(&data["amount_out"], 6), balance(&desk, "USDC") - usdc, "{answer}");
    assert_eq!(raw(&data["amount_in"], 18), 350_000_000_000_000_000, "{answer}");
    // The price is the output per unit of input, up to the precision of a double.
    let price = raw(&data["amount_out"], 6) as f64 / 1e6 / 0.35;
    assert!((data["effective_price"].as_f64().unwrap() - price).abs() < 1e-6 * price, "{answer}");
    let receipt = desk.ask("eth_getTransactionReceipt", json!([data["tx_hash"]]));
    assert_eq!(receipt["status"], "0x1", "{answer}");
    let block = receipt["blockNumber"].as_str().unwrap();
    assert_eq!(u64::from_str_radix(block.trim_start_matches("0x"), 16).unwrap(), data["block_number"], "{answer}");
    let [signed] = trail(&desk, "order:signed").try_into().unwrap_or_else(|all| panic!("{all:?}"));
    assert_eq!(signed["body"]["order"], hash);
    let [ended] = trail(&desk, "order:ended").try_into().unwrap_or_else(|all| panic!("{all:?}"));
    assert_eq!(ended["body"]["actual_outcome"], format!("Order {hash} status: filled"));
    assert_eq!((&ended["body"]["status"], &ended["body"]["tx"]), (&json!("filled"), &data["tx_hash"]));
    let told = journaled(&desk).into_iter().rfind(|event| event["kind"] == "tool:verified").unwrap();
    assert_eq!(told["actual_outcome"], ended["body"]["actual_outcome"]);
}

#[test]
fn a_swap_by_auction_that_is_not_waited_for_claims_nothing() {
    let desk = Desk::new();
    // Without blocks nobody can fill it.
    desk.call(
        "token_approve",
        &json!({"token": "WETH", "amount": "1", "chain": "ethereum",
              "spender": desk.contract("permit2")}),
        &["--approve", "always"],
    );
    desk.ask("evm_setAutomine", json!([false]));
    let swap = json!({"token_in": "WETH", "token_out": "USDC", "amount": "0.35", "chain": "ethereum"});
    let (answer, code) = desk.call("uniswap_execute_swap", &swap, &["--approve", "always"]);
    assert_eq!((code, &answer["status"]), (0, &json!("partial")), "{answer}");
    let data = &answer["data"];
    for (fact, nothing) in [
        ("amount_in", json!("0")),
        ("amount_out", json!("0")),
        ("effective_price", json!(0.0)),
        ("slippage_actual_bps", json!(0)),
        ("gas_used", json!(0)),
        ("tx_hash", Value::Null),
    ] {
        assert_eq!(data[fact], nothing, "{fact}: {answer}");
    }
    let hints = &answer["decision_hints"];
    assert!(hints["quoted_out"].as_str().unwrap().parse::<f64>().unwrap() > 100.0, "{hints}");
}
