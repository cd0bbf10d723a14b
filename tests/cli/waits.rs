//! Policy rules that delay an action, through the binary: a delay that ends in a signature, one that the operator ends
//! early, and hours in which nothing is done.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::fixture::{Fixture, ended};
use crate::{bardo, run};

impl Fixture {
    /// Entries of the audit log, in order.
    fn recorded(&self) -> Vec<Value> {
        let (out, _, code) = run(bardo(self.home.path()).args(["log", "--json"]));
        assert_eq!(code, 0, "{out}");
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn at_of(&self, kind: &str) -> u64 {
        let recorded = self.recorded();
        let found = recorded.iter().find(|one| one["kind"] == kind).unwrap_or_else(|| panic!("{kind}: {recorded:#?}"));
        found["at"].as_u64().unwrap_or_else(|| panic!("{found}"))
    }
}

#[test]
fn an_action_above_the_delay_limit_waits_and_is_then_signed() {
    let mut fixture = Fixture::new();
    // A hundredth of a native token is about 34 dollars.
    fixture.under("delay_above_usd = \"10\"\ndelay_seconds = 3\n");
    let (done, exit) = fixture.swap(json!({}), &["--approve", "never"]);
    assert_eq!((&done["status"], exit), (&json!("success"), 0), "{done}");
    assert_eq!(fixture.nonce("latest"), 1);
    // Requested, resolved by the elapsed time, and only then consumed.
    let (asked, used) = (fixture.at_of("approval:requested"), fixture.at_of("permit:consumed"));
    assert!(used >= asked + 3_000, "signed {} ms after it was laid before the operator", used - asked);
    // Below the threshold nothing waits.
    let (small, exit) = fixture.swap(json!({"amount": "0.001"}), &["--approve", "never"]);
    assert_eq!((&small["status"], exit), (&json!("success"), 0), "{small}");
    let asked = fixture.recorded().iter().filter(|one| one["kind"] == "approval:requested").count();
    assert_eq!(asked, 1);
}

#[test]
fn a_waiting_action_is_not_signed_after_a_stop() {
    let mut fixture = Fixture::new();
    fixture.under("delay_above_usd = \"10\"\ndelay_seconds = 600\n");
    let waiting = fixture.swapping(json!({}));
    let since = Instant::now();
    loop {
        let (out, _, _) = run(bardo(fixture.home.path()).args(["log", "--json"]));
        if out.contains("approval:requested") {
            break;
        }
        assert!(since.elapsed() < Duration::from_secs(120), "it does not wait: {out}");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(run(bardo(fixture.home.path()).args(["halt", "--reason", "a test"])).2, 0);
    let (answer, exit) = ended(waiting);
    assert_eq!((&answer["error"]["code"], exit), (&json!("HALTED"), 3), "{answer}");
    assert_eq!(fixture.nonce("pending"), 0);
}

/// The day after tomorrow in a policy's syntax; 1 January 1970 was a Thursday.
fn later() -> &'static str {
    let days = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() / 86_400;
    ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][((days + 2) % 7) as usize]
}

#[test]
fn outside_its_hours_a_call_is_blocked_and_says_when_it_would_pass() {
    let (mut fixture, later) = (Fixture::new(), later());
    fixture.under(&format!("active_hours = [\"{later} 08:00-18:00\"]\n"));
    let answer = fixture.swap(json!({}), &[]);
    assert_eq!(crate::writes::expect(&answer, "SAFETY_RATE_LIMITED", "out of hours"), ["active_hours"]);
    let violation = &answer.0["error"]["details"]["violations"][0];
    assert_eq!(violation["limit"], format!("{later} 08:00-18:00 UTC"));
    assert!(violation["would_pass"].as_str().unwrap().starts_with("the same in "), "{violation}");
    assert_eq!(fixture.nonce("pending"), 0);
}
