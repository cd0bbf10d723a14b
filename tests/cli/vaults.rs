//! `bardo call` with the devnet's vault as it stands: nothing is named, configured or running.

use serde_json::{Value, json};

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
