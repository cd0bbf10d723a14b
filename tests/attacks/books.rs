//! Endpoints that lie about what the books are made of: receipts, events and balances.

use serde_json::{Value, json};

use super::endpoints::Attack;

type Lie = Box<dyn Fn(&Value, &mut Value) + Send + Sync>;

/// Another cost, and nothing that moved.
fn receipts() -> Lie {
    Box::new(|asked, answer| {
        if asked["method"] == "eth_getTransactionReceipt" && answer["result"].is_object() {
            answer["result"]["gasUsed"] = json!("0x1");
            answer["result"]["logs"] = json!([]);
        }
    })
}

/// No events at all.
fn events() -> Lie {
    Box::new(|asked, answer| {
        if asked["method"] == "eth_getLogs" && answer["result"].is_array() {
            answer["result"] = json!([]);
        }
    })
}

/// A fortune that nobody sent.
fn balances() -> Lie {
    Box::new(|asked, answer| {
        if asked["method"] == "eth_getBalance" && answer["result"].is_string() {
            answer["result"] = json!("0xffffffffffffffffffff");
        }
    })
}

fn pnl(attack: &Attack) -> (Value, i32) {
    let (text, code) = attack.run(&["pnl", "--json", "--reconcile", "--by", "trade"]);
    (serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")), code)
}

/// A purchase between two imports, as the honest endpoints show it.
fn bought(attack: &Attack) {
    let params = json!({"token_in": "USDC", "token_out": "WETH", "amount": "50", "chain": "ethereum",
                        "prefer_uniswapx": false});
    let answer = attack.call("uniswap_execute_swap", &params);
    assert_eq!(answer["status"], "success", "{answer:#}");
}

#[test]
fn a_lie_of_one_endpoint_of_three_is_in_no_book() {
    for (lie, what) in [(receipts(), "receipts"), (events(), "events"), (balances(), "balances")] {
        let attack = Attack::new(3, 1, lie);
        let (begun, code) = pnl(&attack);
        assert_eq!(code, 0, "{what}: {begun:#}");
        // A purchase is refused while they contradict each other.
        attack.lying(false);
        bought(&attack);
        attack.lying(true);
        let (report, code) = pnl(&attack);
        assert_eq!(code, 0, "{what}: {report:#}");
        let checks = report["reconciled"].as_array().unwrap();
        assert!(checks.len() >= 2 && checks.iter().all(|check| check["even"] == true), "{what}: {report:#}");
        assert_eq!(report["totals"]["trades"], 1, "{what}: {report:#}");
        // Gas is in the balance, so books that agree with it to the wei have the honest receipts' cost.
        assert_ne!(report["totals"]["gas"], "0", "{what}: {report:#}");
        let deposits = report["groups"].as_array().unwrap().iter().filter(|group| group["name"] == "").count();
        assert_eq!(deposits, 0, "{what}: {report:#}");
    }
}

#[test]
fn without_a_majority_nothing_is_imported_and_the_chain_is_named() {
    let attack = Attack::new(2, 1, balances());
    attack.lying(false);
    let (begun, code) = pnl(&attack);
    assert_eq!(code, 0, "{begun:#}");
    bought(&attack);
    attack.lying(true);
    let (report, code) = pnl(&attack);
    assert_eq!(code, 1, "{report:#}");
    assert_eq!(report["not_read"][0]["chain"], "ethereum", "{report:#}");
    assert_eq!(report["totals"]["trades"], 0, "{report:#}");
}

/// A node without old blocks answers null for them. That is no reorganisation, and takes nothing back.
#[test]
fn an_endpoint_without_old_blocks_deletes_no_books() {
    let gone: Lie = Box::new(|asked, answer| {
        let number = asked["params"][0].as_str().unwrap_or_default();
        if asked["method"] == "eth_getBlockByNumber" && number.starts_with("0x") {
            answer["result"] = Value::Null;
        }
    });
    let attack = Attack::new(1, 0, gone);
    attack.lying(false);
    let (_, code) = pnl(&attack);
    assert_eq!(code, 0);
    bought(&attack);
    let (before, code) = pnl(&attack);
    assert_eq!((code, &before["totals"]["trades"]), (0, &json!(1)), "{before:#}");
    attack.lying(true);
    let (refused, code) = pnl(&attack);
    assert_eq!(code, 1, "{refused:#}");
    assert!(refused["not_read"][0].to_string().contains("do not have block"), "{refused:#}");
    assert_eq!(refused["totals"]["trades"], 1, "{refused:#}");
    attack.lying(false);
    let (after, code) = pnl(&attack);
    assert_eq!((code, &after["totals"]), (0, &before["totals"]), "{after:#}");
}
