//! `bardo call` with the devnet's vaults: the one of the address book as it stands, where nothing is named, configured or running, and
//! the asynchronous ones.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::fixture::Fixture;
use crate::{bardo, run};

/// The devnet of a single call has the rules of PolicyCage, whose contract knows no shares.
#[test]
fn a_deposit_works_on_the_devnet_of_the_call_itself() {
    let home = tempfile::tempdir().unwrap();
    let params = json!({"amount": "500", "chain": "ethereum"}).to_string();
    let arguments = ["call", "vault_deposit", &params, "--approve", "always", "--json"];
    let (out, err, code) = run(bardo(home.path()).args(arguments));
    let answer: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&answer["status"], code), (&json!("success"), 0), "{err}{answer:#}");
    // By hand, at 1.05 USDC a share: 500 / 1.05 = 476.190476.
    assert_eq!((&answer["data"]["amount"], &answer["data"]["shares"]), (&json!("500"), &json!("476.190476")));
    assert_eq!(answer["data"]["findings"], json!([]), "{answer:#}");
}

/// On a devnet that runs: a request is partial, its manager settles it, and the shares are claimed; another one, to the vault that
/// nobody settles, stays and is cancelled; the paused one takes nothing.
#[test]
fn a_request_is_settled_and_claimed_and_another_one_cancelled() {
    let mut fixture = Fixture::new();
    let vault = |key: &str| fixture.contract(key).to_owned();
    let [open, stuck, paused] = ["asyncVault", "stuckAsyncVault", "pausedAsyncVault"].map(vault);
    let named: Vec<String> = [&open, &stuck, &paused].map(|at| format!("\"devnet-ethereum:{at}\"")).into();
    fixture.under(&format!("allowed_vaults = [{}]\n", named.join(", ")));
    let write = |tool: &str, params: Value| fixture.call(tool, &params, &["--approve", "always"]);
    let deposit = |at: &str| json!({"vault_address": at, "amount": "51", "chain": "ethereum"});
    let claim = json!({"vault_address": open, "request": "deposit", "chain": "ethereum"});
    let (asked, code) = write("vault_deposit", deposit(&open));
    assert_eq!((&asked["status"], code), (&json!("partial"), 0), "{asked:#}");
    assert_eq!((&asked["data"]["amount"], &asked["data"]["shares"]), (&json!("51"), &json!("0")), "{asked:#}");
    let state = |at: &str| {
        let (answer, _) = fixture.call("get_vault_state", &json!({"vault_address": at, "chain": "ethereum"}), &[]);
        answer["data"].clone()
    };
    let begun = Instant::now();
    while state(&open)["requests"]["claimable_deposit"] != "51" {
        assert!(begun.elapsed() < Duration::from_secs(90), "not settled: {:#}", state(&open));
        fixture.ask("evm_mine", json!([]));
    }
    let (claimed, code) = write("vault_claim", claim.clone());
    assert_eq!((&claimed["status"], code), (&json!("success"), 0), "{claimed:#}");
    // By hand, at 1.02 USDC a share: 51 / 1.02 = 50, but for a virtual unit.
    assert!(claimed["data"]["shares"].as_str().unwrap().starts_with("50.0000"), "{claimed:#}");
    let (nothing, code) = write("vault_claim", claim);
    assert!(code != 0 && nothing["error"]["message"].as_str().unwrap().contains("no request"), "{nothing:#}");

    let (asked, _) = write("vault_deposit", deposit(&stuck));
    assert_eq!(asked["status"], "partial", "{asked:#}");
    for _ in 0..6 {
        fixture.ask("evm_mine", json!([]));
    }
    let waits = state(&stuck)["requests"].clone();
    assert_eq!((&waits["pending_deposit"], &waits["cancellable"]), (&json!("51"), &json!(true)), "{waits:#}");
    let (back, code) = write("vault_cancel_request", json!({"vault_address": stuck, "chain": "ethereum"}));
    assert_eq!((&back["status"], &back["data"]["amount"], code), (&json!("success"), &json!("51"), 0), "{back:#}");
    let (refused, code) = write("vault_deposit", deposit(&paused));
    assert!(code != 0 && refused["error"]["message"].as_str().unwrap().contains("paused"), "{refused:#}");
}
