//! Scheduled swaps: a session runs their slices, also after it was killed in one, and never one twice.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bardo::base::failpoint::Failpoint;
use serde_json::{Value, json};

use crate::fixture::Fixture;
use crate::{bardo, run};

/// Timeout of everything that is waited for, on a busy machine.
const WAIT: Duration = Duration::from_secs(180);

/// Session of the fixture's folder on its devnet.
struct Session(Child);

impl Drop for Session {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _ended = self.0.wait();
    }
}

impl Session {
    /// Starts a session, which dies at this place.
    fn start(fixture: &Fixture, dies_at: Option<Failpoint>) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bardo"));
        command.args(["--brain", "operator", "--rpc", &fixture.given, "serve"]).env_clear();
        command.env("BARDO_HOME", fixture.home.path()).stdin(Stdio::null()).stdout(Stdio::null());
        if let Some(place) = dies_at {
            command.env("BARDO_FAILPOINT", place.name());
        }
        let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(process.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        // Its later lines must find a reader.
        std::thread::spawn(move || said.lines().for_each(drop));
        Self(process)
    }

    /// Waits until it is dead.
    fn dies(mut self) {
        let begun = Instant::now();
        while self.0.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < WAIT, "it never came to that place");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Fixture {
    fn read(&self, tool: &str, params: &Value) -> Value {
        let (answer, code) = self.call(tool, params, &[]);
        assert_eq!(code, 0, "{answer:#}");
        answer["data"].clone()
    }

    /// The only schedule.
    fn schedule(&self) -> Value {
        self.read("list_schedules", &json!({"include_ended": true}))["schedules"][0].clone()
    }

    fn until(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let schedule = self.schedule();
            if holds(&schedule) {
                return schedule;
            }
            assert!(begun.elapsed() < WAIT, "{what}: {schedule:#}");
            // A minute has sixty calls.
            std::thread::sleep(Duration::from_millis(2_500));
        }
    }

    /// Balance in raw units.
    fn balance(&self, token: &str) -> u128 {
        let read = self.read("get_balances", &json!({"chain": "ethereum"}));
        let balances = read["chains"][0]["balances"].as_array().unwrap_or_else(|| panic!("{read:#}"));
        let found = balances.iter().find(|one| one["token"] == token).unwrap_or_else(|| panic!("{token}: {read:#}"));
        found["raw"].as_str().unwrap().parse().unwrap()
    }
}

/// Killed before the preview, before the signature, once the signed bytes are stored, and once they are sent: what leaves
/// the wallet is the total, not a unit more.
#[test]
fn a_schedule_goes_on_after_each_kill_and_swaps_no_slice_twice() {
    let fixture = Fixture::new();
    let before = fixture.balance("USDC");
    let params = json!({"token_in": "USDC", "token_out": "WETH", "total": "100.000003", "slices": 5, "interval_seconds": 10,
                        "chain": "ethereum", "least_price": "0.0001"});
    let (made, code) = fixture.call("uniswap_schedule_swaps", &params, &[]);
    assert_eq!((made["status"].as_str(), code), (Some("success"), 0), "{made:#}");
    assert_eq!(made["data"]["schedule"]["amount_per_slice"], "20", "{made:#}");
    assert_eq!(fixture.schedule()["slices_done"], 0, "nothing runs without a session");
    for place in [Failpoint::KeyClaimed, Failpoint::Acting, Failpoint::Stored, Failpoint::Sent] {
        Session::start(&fixture, Some(place)).dies();
    }
    let session = Session::start(&fixture, None);
    let done = fixture.until("it ends", |schedule| schedule["state"] != "active");
    assert_eq!((&done["state"], &done["slices_done"]), (&json!("done"), &json!(5)), "{done:#}");
    drop(session);
    // 5 slices, of which the last takes the three units that the division leaves.
    assert_eq!(before - fixture.balance("USDC"), 100_000_003, "{done:#}");
    let (out, err, code) = run(bardo(fixture.home.path()).args(["log", "verify"]));
    assert_eq!(code, 0, "{out}{err}");
}

/// A price that no slice can get: nothing is signed; an end that comes before all slices are done is not a failure; and who
/// cancels it ends it.
#[test]
fn a_slice_below_the_least_price_is_not_swapped() {
    let fixture = Fixture::new();
    let before = fixture.balance("USDC");
    // A WETH for one USDC.
    let params = json!({"token_in": "USDC", "token_out": "WETH", "total": "40", "slices": 2, "interval_seconds": 10,
                        "chain": "ethereum", "least_price": "1"});
    let (made, code) = fixture.call("uniswap_schedule_swaps", &params, &[]);
    assert_eq!(code, 0, "{made:#}");
    let session = Session::start(&fixture, None);
    let waits =
        fixture.until("an attempt", |schedule| schedule["attempts"].as_array().is_some_and(|all| !all.is_empty()));
    assert_eq!(
        (&waits["state"], &waits["attempts"][0]["outcome"]),
        (&json!("active"), &json!("below_bound")),
        "{waits:#}"
    );
    assert_eq!((&waits["slices_done"], &waits["attempts"][0]["tx_hash"]), (&json!(0), &Value::Null), "{waits:#}");
    let (cancelled, code) = fixture.call("cancel_schedule", &json!({"schedule_id": waits["schedule_id"]}), &[]);
    assert_eq!((code, &cancelled["data"]["schedule"]["state"]), (0, &json!("cancelled")), "{cancelled:#}");
    drop(session);
    assert_eq!(fixture.balance("USDC"), before);
}

/// On a devnet that ends with the call nobody would run it.
#[test]
fn a_schedule_on_a_devnet_that_ends_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let params =
        r#"{"token_in":"USDC","token_out":"WETH","total":"40","slices":2,"interval_seconds":10,"chain":"ethereum"}"#;
    let (out, _, code) = run(bardo(home.path()).args(["call", "uniswap_schedule_swaps", params]));
    let answer: Value = serde_json::from_str(&out).unwrap();
    assert_ne!(code, 0, "{answer:#}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("end with the call"), "{answer:#}");
}
