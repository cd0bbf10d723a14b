//! A process is killed while it speeds up or cancels a waiting transaction. Whatever is left, one transaction with the
//! nonce is included, and the ledger agrees with the chain.

use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use bardo::base::failpoint::Failpoint;
use serde_json::{Value, json};

use crate::host::{AMOUNT, Devnet, Home, ROOMY, on_terminal, run};

/// Another account of the devnet.
const FRIEND: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";

/// Failpoints of a replacement, in the order in which it passes them.
const POINTS: [Failpoint; 8] = [
    Failpoint::InsideGate,
    Failpoint::Gated,
    Failpoint::Signed,
    Failpoint::InsideStore,
    Failpoint::Stored,
    Failpoint::Sending,
    Failpoint::Answered,
    Failpoint::Sent,
];

fn call(home: &Home, devnet: &Devnet, tool: &str, params: &Value, key: &str) -> Command {
    let given = format!("ethereum={}", devnet.url());
    let params = params.to_string();
    home.command(&["--rpc", &given, "call", "--approve", "always", "--idempotency-key", key, tool, &params])
}

/// Leaves a payment of a thousandth of a WETH without a block, and returns its hash.
fn stuck(home: &Home, devnet: &Devnet, key: &str) -> String {
    let params = json!({ "token": "WETH", "recipient": FRIEND, "amount": "0.001", "chain_id": "ethereum" });
    let sent = Failpoint::Sent.name();
    let ran = run(call(home, devnet, "wallet_transfer_token", &params, key).env("BARDO_FAILPOINT", sent));
    assert!(ran.killed(), "{ran:?}");
    let newest = "SELECT lower(hex(hash)) FROM sender_transaction ORDER BY rowid DESC LIMIT 1";
    format!("0x{}", home.ledger().query_row(newest, [], |row| row.get::<_, String>(0)).unwrap())
}

/// Runs `bardo transactions` until nothing is under way, mining in between.
fn settle(home: &Home, devnet: &Devnet, what: &str) {
    let given = format!("ethereum={}", devnet.url());
    for _ in 0..20 {
        devnet.ask("evm_mine", json!([]));
        // Any acting process recovers what an ended one left.
        let read = json!({ "token": "WETH", "spender": FRIEND, "chain": "ethereum" });
        run(&mut call(home, devnet, "token_revoke", &read, &format!("{what}-{}", rand::random::<u64>())));
        let listed = run(&mut home.command(&["--rpc", &given, "--json", "transactions"]));
        let answer = listed.answer.unwrap_or_else(|| panic!("{what}: {}", listed.said));
        if answer["transactions"].as_array().unwrap().iter().all(|chain| chain["rows"] == json!([])) {
            return;
        }
    }
    panic!("{what}: something is still under way");
}

fn after_a_kill_at_each_point(tool: &str, paid: u128) {
    let (devnet, home) = (Devnet::start(), Home::new(ROOMY));
    for point in POINTS {
        let what = format!("{tool}-{}", point.name());
        devnet.ask("evm_setAutomine", json!([false]));
        let (weth, nonce) = (devnet.balance("WETH"), devnet.nonce());
        let hash = stuck(&home, &devnet, &format!("original-{what}"));
        let params = json!({ "transaction": hash });
        let ran = run(call(&home, &devnet, tool, &params, &what).env("BARDO_FAILPOINT", point.name()));
        assert!(ran.killed(), "{what}: {ran:?}");
        // The endpoint still has the original, so either may be included; before the gate nothing new exists.
        devnet.ask("evm_setAutomine", json!([true]));
        settle(&home, &devnet, &what);
        let spent = weth - devnet.balance("WETH");
        assert!(spent == paid || spent == AMOUNT, "{what}: {spent}");
        let included = format!(
            "SELECT count(*) FROM sender_transaction WHERE nonce = {nonce} AND state IN ('included', 'reverted')"
        );
        assert_eq!(home.count(&included), 1, "{what}: one transaction with the nonce");
        assert_eq!(home.count("SELECT count(*) FROM safety_permit WHERE ended IS NULL"), 0, "{what}");
        assert_eq!(
            home.count("SELECT count(*) FROM ledger_reservation WHERE state IN ('open', 'unclear')"),
            0,
            "{what}"
        );
        if point == Failpoint::Sent {
            assert_eq!(spent, paid, "{what}: the endpoint had the replacement");
        }
    }
}

/// A decision about a transaction that another process replaces meanwhile ends at once, and does not wait to fail.
#[test]
fn a_decision_to_speed_up_ends_when_the_transaction_is_replaced_elsewhere() {
    let (devnet, home) = (Devnet::start(), Home::new(ROOMY));
    devnet.ask("evm_setAutomine", json!([false]));
    let hash = stuck(&home, &devnet, "original");
    let params = json!({ "transaction": hash }).to_string();
    let given = format!("ethereum={}", devnet.url());
    let folder = home.path().to_owned();
    let (_go, when) = mpsc::channel();
    let arguments = ["--rpc", &given, "call", "--approve", "ask", "speed_up_transaction", &params].map(str::to_owned);
    let asked = thread::spawn(move || {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        on_terminal(&folder, &arguments, "(nothing is typed)", "", &when)
    });
    let waits = "SELECT count(*) FROM audit_entry WHERE kind = 'approval:requested'";
    for _ in 0..600 {
        if home.count(waits) == 1 {
            break;
        }
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(home.count(waits), 1, "nobody was asked");
    let params = json!({ "transaction": hash });
    let ran =
        run(call(&home, &devnet, "speed_up_transaction", &params, "other")
            .env("BARDO_FAILPOINT", Failpoint::Sent.name()));
    assert!(ran.killed(), "{ran:?}");
    let (code, text) = asked.join().unwrap();
    assert!(text.contains("a later transaction has taken the nonce"), "{text}");
    assert_ne!(code, 0, "{text}");
    let withdrawn = "SELECT count(*) FROM audit_entry WHERE kind = 'approval:resolved' AND body LIKE '%withdrawn%'";
    assert_eq!(home.count(withdrawn), 1, "before the permit was over");
}

#[test]
fn after_a_kill_while_speeding_up_the_payment_is_made_once() {
    after_a_kill_at_each_point("speed_up_transaction", AMOUNT);
}

#[test]
fn after_a_kill_while_cancelling_at_most_the_original_is_included() {
    after_a_kill_at_each_point("cancel_transaction", 0);
}
