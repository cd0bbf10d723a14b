//! The account is used outside of Bardo, or a process ends between granting and using an allowance, or a nonce stays
//! free below a pending one: `bardo reconcile` shows both sides, and continues with the operator's approval.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use alloy::primitives::{Address, B256, U256, address, b256, hex};
use alloy::signers::local::PrivateKeySigner;
use bardo::base::clock::SystemClock;
use bardo::base::failpoint::Failpoint;
use bardo::chain::network::NetworkKind;
use bardo::chain::sender::{SendRoute, SendState, SenderRules, TxSender, WaitRules};
use bardo::runtime::data::ALL_MIGRATIONS;
use bardo::store::{Store, StoreConfig};
use serde_json::{Value, json};

use crate::host::{AMOUNT, Devnet, Home, ROOMY, on_terminal, run, settled};
use bardo_testkit::sending::{CHAIN_ID, PLENTY, sign};

/// First private key of the development mnemonic.
const KEY: B256 = b256!("0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80");
const PERMIT2: Address = address!("0x000000000022D473030F116dDEE9F6B43aC78BA3");

fn key() -> PrivateKeySigner {
    PrivateKeySigner::from_bytes(&KEY).unwrap()
}

/// `bardo reconcile --json` without a terminal: its exit code and the first chain.
fn looked(home: &Home, devnet: &Devnet) -> (Option<i32>, Value) {
    let ran = run(&mut home.command(&["--rpc", &format!("ethereum={}", devnet.url()), "reconcile", "--json"]));
    let answer = ran.answer.clone().unwrap_or_else(|| panic!("{ran:?}"));
    (ran.code, answer["chains"][0].clone())
}

/// The same on a terminal, where `answer` is typed at the prompt: the exit code and the output.
fn answered(home: &Home, devnet: &Devnet, answer: &str) -> (u32, String) {
    let (go, when) = mpsc::channel();
    go.send(()).unwrap();
    let given = format!("ethereum={}", devnet.url());
    on_terminal(home.path(), &["--rpc", &given, "reconcile"], "to confirm:", answer, &when)
}

#[test]
fn an_account_used_outside_signs_nothing_until_the_operator_approves() {
    let (devnet, home) = (Devnet::start(), Home::new(ROOMY));
    assert_eq!(run(&mut home.swap(devnet.url(), "first")).status(), "success");
    let (code, even) = looked(&home, &devnet);
    assert_eq!((code, &even["outside"]), (Some(0), &Value::Null), "{even}");

    let nonce = devnet.nonce();
    let outside = sign(&key(), CHAIN_ID, nonce, U256::from(1), PLENTY);
    devnet.ask("eth_sendRawTransaction", json!([hex::encode_prefixed(outside.raw())]));
    let refused = run(&mut home.swap(devnet.url(), "second"));
    assert_eq!((refused.code, refused.error_code()), (Some(3), "ACCOUNT_USED_OUTSIDE"), "{refused:?}");
    assert_eq!(devnet.nonce(), nonce + 1, "nothing was sent");

    // Shown, and nobody to approve it; then a rejection.
    let (code, status) = looked(&home, &devnet);
    assert_eq!((code, &status["outside"]), (Some(3), &json!([nonce, nonce])), "{status}");
    assert_eq!((&status["chain_next"], &status["ledger_next"]), (&json!(nonce + 1), &json!(nonce)), "{status}");
    let (code, text) = answered(&home, &devnet, "yes");
    assert_eq!(code, 4, "{text}");
    assert!(text.contains(&format!("nonce {nonce} was used by transactions that are not in this ledger")), "{text}");
    assert_ne!(run(&mut home.swap(devnet.url(), "second")).code, Some(0));

    let (code, text) = answered(&home, &devnet, "reconcile");
    assert_eq!(code, 0, "{text}");
    assert_eq!(home.count("SELECT count(*) FROM audit_entry WHERE kind = 'account:reconciled'"), 1);
    let before = devnet.balance("WETH");
    let ran = run(&mut home.swap(devnet.url(), "second"));
    assert_eq!(ran.status(), "success", "{ran:?}");
    assert_eq!(before - devnet.balance("WETH"), AMOUNT);
    assert_eq!(looked(&home, &devnet).0, Some(0));
}

#[test]
fn an_allowance_left_by_an_ended_program_is_found_and_revoked() {
    let (devnet, home) = (Devnet::start(), Home::new(ROOMY));
    // Its approval is in a block, and its swap was never signed.
    let ran = run(home.swap(devnet.url(), "first").env("BARDO_FAILPOINT", "settle.mined:1"));
    assert!(ran.killed(), "{ran:?}");
    let (code, status) = looked(&home, &devnet);
    let weth: Address = devnet.token("WETH").parse().unwrap();
    let [left] = status["left_over"].as_array().unwrap().as_slice() else { panic!("{status}") };
    let figures: (Address, Address, U256) = (
        left["token"].as_str().unwrap().parse().unwrap(),
        left["spender"].as_str().unwrap().parse().unwrap(),
        left["amount"].as_str().unwrap().parse().unwrap(),
    );
    assert_eq!((code, figures), (Some(3), (weth, PERMIT2, U256::from(AMOUNT))), "{status}");
    let (code, text) = answered(&home, &devnet, "send");
    assert_eq!(code, 0, "{text}");
    // allowance(owner, spender), read from the token.
    let data = format!("0xdd62ed3e{:0>64}{:0>64}", hex::encode(key().address()), hex::encode(PERMIT2));
    let allowed = devnet.ask("eth_call", json!([{ "to": weth, "data": data }, "latest"]));
    assert_eq!(allowed, format!("0x{}", "0".repeat(64)));
    let (code, status) = looked(&home, &devnet);
    assert_eq!((code, &status["left_over"]), (Some(0), &json!([])), "{status}");
    // An allowance that was used as intended is not a left-over.
    assert_eq!(run(&mut home.swap(devnet.url(), "second")).status(), "success");
    assert_eq!(looked(&home, &devnet).0, Some(0));
    settled(&home, &devnet);
}

#[test]
fn a_token_without_readable_allowances_is_named() {
    let (devnet, home) = (Devnet::start(), Home::new(ROOMY));
    let (_, status) = looked(&home, &devnet);
    assert_eq!(status["allowances"]["silent"], json!([]), "{status}");
    // PUSH0 PUSH0 REVERT: it has code and does not answer.
    devnet.ask("anvil_setCode", json!([devnet.token("DAI"), "0x5f5ffd"]));
    let (_, status) = looked(&home, &devnet);
    let silent = status["allowances"]["silent"].as_array().unwrap();
    assert_eq!(silent.len(), 1, "once, for all who might take: {status}");
    assert_eq!(silent[0]["symbol"], "DAI", "{status}");
    // Without a contract, there is no allowance.
    devnet.ask("anvil_setCode", json!([devnet.token("DAI"), "0x"]));
    let (_, status) = looked(&home, &devnet);
    assert_eq!(status["allowances"]["silent"], json!([]), "{status}");
}

#[test]
fn transactions_already_signed_are_listed_before_the_approval() {
    let (devnet, home) = (Devnet::start(), Home::new(ROOMY));
    let ran = run(home.swap(devnet.url(), "first").env("BARDO_FAILPOINT", "settle.mined:1"));
    assert!(ran.killed(), "{ran:?}");
    let ran = run(home.swap(devnet.url(), "second").env("BARDO_FAILPOINT", Failpoint::Stored.name()));
    assert!(ran.killed(), "{ran:?}");
    let nonce = devnet.nonce();
    let (code, text) = answered(&home, &devnet, "no");
    assert_eq!(code, 4, "{text}");
    assert!(text.contains("re-sent, signed by an earlier run: 0x"), "{text}");
    assert_eq!(devnet.nonce(), nonce, "nothing was sent");
}

/// The router's allowance for WETH inside Permit2: the amount, in wei.
fn inside(devnet: &Devnet, router: &str) -> U256 {
    // allowance(owner, token, spender) returns amount, expiration and nonce.
    let word = |address: &str| format!("{:0>64}", address.trim_start_matches("0x"));
    let (owner, token) = (hex::encode(key().address()), devnet.token("WETH"));
    let data = format!("0x927da105{}{}{}", word(&owner), word(token), word(router));
    let answer = devnet.ask("eth_call", json!([{ "to": PERMIT2, "data": data }, "latest"]));
    U256::from_str_radix(&answer.as_str().unwrap()[2..66], 16).unwrap()
}

#[test]
fn permit2_allowances_are_listed_as_in_the_console_and_left_over_ones_revoked() {
    let (devnet, home) = (Devnet::start(), Home::new(ROOMY));
    let (given, router) = (format!("ethereum={}", devnet.url()), devnet.contract("universalRouterV2_1_0").to_owned());
    let params = r#"{"token":"WETH","amount":"0.25","chain":"ethereum"}"#;
    let ran = run(&mut home.command(&["--rpc", &given, "call", "--approve", "always", "token_approve", params]));
    assert_eq!(ran.status(), "success", "{ran:?}");
    let quarter = U256::from(250_000_000_000_000_000_u64);
    assert_eq!(inside(&devnet, &router), quarter);
    // It was requested, so it is listed, and is not a left-over.
    let (code, status) = looked(&home, &devnet);
    assert_eq!((code, &status["left_over"]), (Some(0), &json!([])), "{status}");
    let told = status["allowances"]["rows"].as_array().unwrap();
    let row = |one: &Value| {
        let spender = one["spender"].as_str().unwrap().to_lowercase();
        (spender, one["through_permit2"].as_bool().unwrap(), one["raw"].as_str().unwrap().parse::<U256>().unwrap())
    };
    let mut rows: Vec<_> = told.iter().map(row).collect();
    rows.sort();
    let mut expected =
        vec![(PERMIT2.to_string().to_lowercase(), false, quarter), (router.to_lowercase(), true, quarter)];
    expected.sort();
    assert_eq!(rows, expected, "{status}");
    let runtime = bardo::base::runtime::multi_threaded(Some(2)).unwrap();
    let shown = runtime.block_on(crate::queue::allowances_shown(&home, &devnet, told.len()));
    assert_eq!(&serde_json::to_value(&shown).unwrap(), &status["allowances"]["rows"], "the screen shows the same");
    drop(runtime);

    // Left by a plan that grants both for another step, and whose process ends before that.
    let ledger = rusqlite::Connection::open(home.database()).unwrap();
    assert_eq!(ledger.execute("UPDATE safety_leg SET main = 0", []).unwrap(), 2);
    drop(ledger);
    let (code, status) = looked(&home, &devnet);
    assert_eq!((code, status["left_over"].as_array().unwrap().len()), (Some(3), 2), "{status}");
    let (code, text) = answered(&home, &devnet, "send");
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("through Permit2: left over"), "{text}");
    assert_eq!(inside(&devnet, &router), U256::ZERO);
    let (code, status) = looked(&home, &devnet);
    let nothing = json!([]);
    assert_eq!((code, &status["left_over"], &status["allowances"]["rows"]), (Some(0), &nothing, &nothing), "{status}");
}

#[test]
fn an_unused_nonce_below_a_pending_one_is_filled() {
    let (devnet, home) = (Devnet::start(), Home::new(ROOMY));
    assert_eq!(run(&mut home.swap(devnet.url(), "first")).status(), "success");
    // Needed to fill an open order.
    let given = format!("ethereum={}", devnet.url());
    let params = r#"{"token":"WETH","amount":"0.25","chain":"ethereum"}"#;
    let ran = run(&mut home.command(&["--rpc", &given, "call", "--approve", "always", "token_approve", params]));
    assert_eq!(ran.status(), "success", "{ran:?}");
    let allowed = || {
        // allowance(owner, spender), read from the token.
        let data = format!("0xdd62ed3e{:0>64}{:0>64}", hex::encode(key().address()), hex::encode(PERMIT2));
        devnet.ask("eth_call", json!([{ "to": devnet.token("WETH"), "data": data }, "latest"]))
    };
    let stands = allowed();
    assert_eq!(stands, format!("{:#066x}", U256::from(250_000_000_000_000_000_u64)));
    let nonce = devnet.nonce();
    let runtime = bardo::base::runtime::multi_threaded(Some(2)).unwrap();
    let sender = runtime.block_on(async {
        let client = bardo_testkit::sending::connect(devnet.url()).await;
        let store = Store::open(StoreConfig::at(home.database()), ALL_MIGRATIONS).unwrap();
        let rules = SenderRules::for_network(NetworkKind::Devnet, 1_000);
        TxSender::new(client, store, Arc::new(SystemClock), None, rules)
    });
    // Two nonces are reserved, the later one is used, the earlier one is freed.
    let late = runtime.block_on(async {
        let (first, second) = (
            sender.reserve_nonce(key().address()).await.unwrap(),
            sender.reserve_nonce(key().address()).await.unwrap(),
        );
        assert_eq!((first.nonce, second.nonce), (nonce, nonce + 1));
        let signed = sign(&key(), CHAIN_ID, second.nonce, U256::from(1), PLENTY);
        let kept = sender.keep(second, signed, SendRoute::Public, None).await.unwrap();
        sender.release_nonce(first).await.unwrap();
        kept.hash()
    });
    let (code, status) = looked(&home, &devnet);
    assert_eq!((code, &status["gaps"]), (Some(3), &json!([nonce])), "{status}");
    let (code, text) = answered(&home, &devnet, "send");
    assert_eq!(code, 0, "{text}");
    assert!(text.contains(&format!("nonce {nonce}")), "{text}");
    assert_eq!(allowed(), stands, "an order that is open can still be filled");
    // Now the waiting transaction can be included.
    let status = runtime.block_on(async {
        sender.resend(late).await.unwrap();
        sender.wait(late, WaitRules { patience: Duration::from_secs(60), resend: true }).await.unwrap()
    });
    assert_eq!((status.record.state, status.settled, devnet.nonce()), (SendState::Included, true, nonce + 2));
    assert_eq!(looked(&home, &devnet).0, Some(0));
}

/// An endpoint once reported too high a nonce and was believed, so the ledger has skipped unused nonces: later
/// transactions wait until these are freed.
#[test]
fn nonces_that_the_ledger_skipped_are_released() {
    let (devnet, home) = (Devnet::start(), Home::new(ROOMY));
    assert_eq!(run(&mut home.swap(devnet.url(), "first")).status(), "success");
    let nonce = devnet.nonce();
    let pass_over = |count: i64| {
        let ledger = rusqlite::Connection::open(home.database()).unwrap();
        assert_eq!(ledger.execute("UPDATE sender_lane SET next_nonce = next_nonce + ?1", [count]).unwrap(), 1);
    };
    pass_over(7);
    let (code, status) = looked(&home, &devnet);
    assert_eq!((code, &status["ahead"]), (Some(3), &json!([[nonce, nonce + 6]])), "{status}");
    let (code, text) = answered(&home, &devnet, "reconcile");
    assert_eq!(code, 0, "{text}");
    assert!(text.contains(&format!("nonces {nonce} to {} are skipped", nonce + 6)), "{text}");
    let (code, status) = looked(&home, &devnet);
    assert_eq!((code, &status["ahead"], &status["ledger_next"]), (Some(0), &json!([]), &json!(nonce)), "{status}");
    assert_eq!(run(&mut home.swap(devnet.url(), "second")).status(), "success");

    // One of them is used and pending: those below it are freed, and the next transactions take them.
    let nonce = devnet.nonce();
    let waits = sign(&key(), CHAIN_ID, nonce + 2, U256::from(1), PLENTY);
    pass_over(2);
    let runtime = bardo::base::runtime::multi_threaded(Some(2)).unwrap();
    runtime.block_on(async {
        let client = bardo_testkit::sending::connect(devnet.url()).await;
        let store = Store::open(StoreConfig::at(home.database()), ALL_MIGRATIONS).unwrap();
        let rules = SenderRules::for_network(NetworkKind::Devnet, 1_000);
        let sender = TxSender::new(client, store, Arc::new(SystemClock), None, rules);
        let ticket = sender.reserve_nonce(key().address()).await.unwrap();
        assert_eq!(ticket.nonce, nonce + 2);
        let _kept = sender.keep(ticket, waits, SendRoute::Public, None).await.unwrap();
    });
    let (_, status) = looked(&home, &devnet);
    assert_eq!(status["ahead"], json!([[nonce, nonce + 1]]), "{status}");
    let (code, text) = answered(&home, &devnet, "reconcile");
    assert_eq!(code, 0, "{text}");
    let (_, status) = looked(&home, &devnet);
    assert_eq!((&status["ahead"], &status["gaps"]), (&json!([]), &json!([nonce, nonce + 1])), "{status}");
    assert_eq!(status["ledger_next"], json!(nonce + 3), "what is signed already stays ahead");
}
