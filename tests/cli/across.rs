//! `bardo call` with the bridge Across, on a devnet in another process: a deposit is filled, another expires and is paid back.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::fixture::Fixture;

/// Asks for the deposit's state until it is this one, while the devnet makes blocks.
fn until(fixture: &Fixture, id: &Value, status: &str, flags: &[&str]) -> Value {
    let params = json!({"source_chain": "ethereum", "deposit_id": id});
    let patience = Instant::now() + Duration::from_secs(90);
    loop {
        let (answer, code) = fixture.call("across_get_deposit_status", &params, flags);
        assert_eq!((&answer["status"], code), (&json!("success"), 0), "{answer:#}");
        let told = answer["data"]["deposits"][0].clone();
        if told["status"] == status || Instant::now() > patience {
            return told;
        }
        for chain in 0..2 {
            bardo_testkit::devnet::ask(fixture.devnet.url(chain), "evm_mine", json!([]));
        }
    }
}

#[test]
fn a_deposit_is_filled_and_another_expires_and_is_paid_back() {
    let fixture = Fixture::new();
    let base = format!("base={}", fixture.devnet.url(1));
    let flags = ["--approve", "always", "--rpc", base.as_str()];
    let deposit = |seconds: u64| {
        let params = json!({"token_in": "USDC", "amount": "500", "source_chain": "ethereum", "destination_chain": "base",
                            "deadline": seconds});
        let (answer, code) = fixture.call("across_deposit", &params, &flags);
        assert_eq!((&answer["status"], code), (&json!("success"), 0), "{answer:#}");
        answer["data"]["deposit_id"].clone()
    };
    let filled = until(&fixture, &deposit(3_600), "filled", &flags[2..]);
    assert_eq!(filled["status"], "filled", "{filled:#}");

    // The destination makes no block that a relayer could fill it in, until it is too late.
    let two = |method: &str, params: Value| {
        for chain in 0..2 {
            bardo_testkit::devnet::ask(fixture.devnet.url(chain), method, params.clone());
        }
    };
    let id = deposit(60);
    two("evm_increaseTime", json!([70]));
    let expired = until(&fixture, &id, "expired", &flags[2..]);
    assert_eq!(expired["status"], "expired", "{expired:#}");
    two("evm_increaseTime", json!([30]));
    let refunded = until(&fixture, &id, "refunded", &flags[2..]);
    assert_eq!(refunded["status"], "refunded", "{refunded:#}");
}
