//! Scheduled swaps: a session runs their slices, also after it was killed in one, and never one twice.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use alloy::primitives::U256;
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
        Self::armed(fixture, dies_at.map(Failpoint::name))
    }

    /// Starts a session with a failpoint, as the environment names it.
    fn armed(fixture: &Fixture, failpoint: Option<&str>) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bardo"));
        command.args(["--brain", "operator", "--rpc", &fixture.given, "serve"]).env_clear();
        command.env("BARDO_HOME", fixture.home.path()).stdin(Stdio::null()).stdout(Stdio::null());
        if let Some(place) = failpoint {
            command.env("BARDO_FAILPOINT", place);
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

/// Terms of a schedule of two slices of 20 USDC.
fn two_slices() -> Value {
    json!({"token_in": "USDC", "token_out": "WETH", "total": "40", "slices": 2, "interval_seconds": 10, "chain": "ethereum",
           "ends_in_seconds": 3_600})
}

impl Fixture {
    /// Makes a schedule.
    fn schedules(&self, params: &Value) {
        let (made, code) = self.call("uniswap_schedule_swaps", params, &[]);
        assert_eq!((made["status"].as_str(), code), (Some("success"), 0), "{made:#}");
    }

    /// Cancels the only schedule.
    fn cancels(&self) {
        let id = self.schedule()["schedule_id"].clone();
        let (cancelled, code) = self.call("cancel_schedule", &json!({"schedule_id": id}), &[]);
        assert_eq!((code, &cancelled["data"]["schedule"]["state"]), (0, &json!("cancelled")), "{cancelled:#}");
    }

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

/// A session that stands still in a slice is alive: a second one that begins meanwhile neither swaps this slice nor notes
/// how it ended.
#[test]
fn a_second_session_leaves_a_slice_alone_that_another_one_swaps() {
    let fixture = Fixture::new();
    let before = fixture.balance("USDC");
    fixture.schedules(&two_slices());
    let first = Session::armed(&fixture, Some(&format!("{}:1:stop", Failpoint::Framed.name())));
    fixture.until("the first session takes it", |schedule| schedule["is_running"] == true);
    let second = Session::start(&fixture, None);
    // More than the time between two slices, and than the look of the second session at what is open.
    std::thread::sleep(Duration::from_secs(15));
    let open = fixture.schedule();
    assert_eq!((&open["is_running"], &open["attempts"], &open["slices_done"]), (&json!(true), &json!([]), &json!(0)));
    assert_eq!(fixture.balance("USDC"), before, "nobody has signed anything");
    let go_on = Command::new("kill").args(["-CONT", &first.0.id().to_string()]).status().unwrap();
    assert!(go_on.success());
    let done = fixture.until("it ends", |schedule| schedule["state"] != "active");
    let outcomes: Vec<_> =
        done["attempts"].as_array().unwrap().iter().filter_map(|one| one["outcome"].as_str()).collect();
    assert_eq!((&done["state"], outcomes), (&json!("done"), vec!["done", "done"]), "{done:#}");
    drop((first, second));
    assert_eq!(before - fixture.balance("USDC"), 40_000_000, "{done:#}");
}

/// The limit of calls refuses the call before its key is asked: that says nothing of what a dead session has signed, so the
/// slice must not count as failed, and be swapped again.
#[test]
fn a_refused_call_is_no_proof_that_nothing_was_signed() {
    const LIMIT: u32 = 5;
    let mut fixture = Fixture::new();
    let before = fixture.balance("USDC");
    fixture.under(&format!("max_tool_calls_per_minute = {LIMIT}\n"));
    fixture.schedules(&two_slices());
    // The first transaction approves, the second swaps.
    Session::armed(&fixture, Some(&format!("{}:2", Failpoint::Sent.name()))).dies();
    let used_up = || fixture.call("list_schedules", &json!({}), &[]).0["error"]["code"] == "SAFETY_RATE_LIMITED";
    assert!((0..=LIMIT).any(|_| used_up()), "the limit is never reached");
    let session = Session::start(&fixture, None);
    let begun = Instant::now();
    let done = loop {
        std::thread::sleep(Duration::from_secs(25));
        let (listed, _) = fixture.call("list_schedules", &json!({"include_ended": true}), &[]);
        let found = &listed["data"]["schedules"][0];
        if found["state"].as_str().is_some_and(|state| state != "active") {
            break found.clone();
        }
        assert!(begun.elapsed() < WAIT * 2, "{listed:#}");
    };
    drop(session);
    std::thread::sleep(Duration::from_secs(61));
    assert_eq!(before - fixture.balance("USDC"), 40_000_000, "{done:#}");
    assert_eq!((&done["state"], &done["slices_done"]), (&json!("done"), &json!(2)), "{done:#}");
}

/// Cancelling a schedule while a slice waits for a decision ends that slice as well; and what a session died in
/// before it was signed is not swapped by a later one.
#[test]
fn a_slice_that_is_not_signed_ends_with_its_schedule() {
    let mut fixture = Fixture::new();
    fixture.under("require_human_approval_above_usd = \"10\"\n");
    let before = fixture.balance("USDC");
    fixture.schedules(&two_slices());
    let session = Session::start(&fixture, None);
    fixture.until("it waits for a decision", |_| fixture.kinds().iter().any(|kind| kind == "approval:requested"));
    fixture.cancels();
    let ended = fixture.until("the slice ends", |schedule| schedule["is_running"] == false);
    let attempt = &ended["attempts"][0];
    assert_eq!((&attempt["outcome"], &attempt["tx_hash"]), (&json!("failed"), &Value::Null), "{ended:#}");
    drop(session);

    // Before a permit exists, and when the key already says that a signature is about to be made, which never was.
    for place in [Failpoint::Framed, Failpoint::Acting] {
        let fixture = Fixture::new();
        fixture.schedules(&two_slices());
        Session::start(&fixture, Some(place)).dies();
        fixture.cancels();
        let session = Session::start(&fixture, None);
        let ended = fixture.until("the slice ends", |schedule| schedule["is_running"] == false);
        let found = (&ended["state"], &ended["slices_done"], &ended["attempts"][0]["outcome"]);
        assert_eq!(found, (&json!("cancelled"), &json!(0), &json!("failed")), "{place:?}: {ended:#}");
        drop(session);
        assert_eq!(fixture.balance("USDC"), before, "{place:?}");
    }
}

/// A slice whose bytes a dead session has sent is swapped, whatever became of its schedule meanwhile: the next session learns it
/// from the ledger, and cancels nothing.
#[test]
fn a_signed_slice_is_noted_after_its_schedule_was_cancelled() {
    let fixture = Fixture::new();
    let before = fixture.balance("USDC");
    fixture.schedules(&two_slices());
    // The first transaction approves, the second swaps.
    Session::armed(&fixture, Some(&format!("{}:2", Failpoint::Sent.name()))).dies();
    fixture.cancels();
    let session = Session::start(&fixture, None);
    let ended = fixture.until("the slice ends", |schedule| schedule["is_running"] == false);
    let found = (&ended["state"], &ended["slices_done"], &ended["attempts"][0]["outcome"]);
    assert_eq!(found, (&json!("cancelled"), &json!(1), &json!("done")), "{ended:#}");
    drop(session);
    assert_eq!(before - fixture.balance("USDC"), 20_000_000, "one slice");
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

/// A slice is sure of its least price at its preview and waits for its delay; then the pool of its route loses a fifth, and the next
/// best route costs a third of a percent more. The new preview is compared again.
#[test]
fn the_price_of_a_slice_holds_while_it_waits_for_a_decision() {
    let mut fixture = Fixture::new();
    fixture.under("delay_above_usd = \"10\"\ndelay_seconds = 60\n");
    fixture.configure("[safety]\npermit_seconds = 5\n");
    let pair = json!({"token_a": "USDC", "token_b": "DAI", "chain": "ethereum"});
    let pools = fixture.read("get_pool_info", &pair);
    let quoted = json!({"token_in": "USDC", "token_out": "DAI", "amount": "20", "chain": "ethereum"});
    let quote = fixture.read("uniswap_get_quote", &quoted);
    let out: f64 = quote["amount_out"].as_str().unwrap_or_else(|| panic!("{quote:#}")).parse().unwrap();
    // Half a percent of slippage, and a seventh of a percent of room for the market.
    let least = out / 20.0 * 0.995 * 0.9985;
    let params = json!({"token_in": "USDC", "token_out": "DAI", "total": "40", "slices": 2, "interval_seconds": 3_600,
                        "chain": "ethereum", "slippage_bps": 50, "least_price": format!("{least:.9}")});
    fixture.schedules(&params);
    let session = Session::start(&fixture, None);
    fixture.until("it waits", |_| fixture.kinds().iter().any(|kind| kind == "approval:requested"));
    assert_eq!(fixture.schedule()["attempts"], json!([]), "at its first preview it is sure of the price");
    fixture.ask("evm_setAutomine", json!([false]));
    for pool in pools["pools"].as_array().unwrap().iter().filter(|pool| pool["version"] == "V3") {
        let word = fixture.ask("eth_getStorageAt", json!([pool["pool"], "0x0", "latest"]));
        let (rest, root) = word.as_str().unwrap().trim_start_matches("0x").split_at(24);
        let (rest, tick) = rest.split_at(18);
        let is_usdc_first = fixture.token("USDC").to_lowercase() < fixture.token("DAI").to_lowercase();
        // 2,000 ticks against USDC: the root of the price is multiplied by 1.0001^±1000.
        let root = U256::from_str_radix(root, 16).unwrap();
        let (root, by) = match is_usdc_first {
            true => (root * U256::from(904_841) / U256::from(1_000_000), -2_000),
            false => (root * U256::from(1_105_165) / U256::from(1_000_000), 2_000),
        };
        let tick = (i32::from_str_radix(tick, 16).unwrap() + by) & 0xff_ffff;
        fixture.ask("anvil_setStorageAt", json!([pool["pool"], "0x0", format!("0x{rest}{tick:06x}{root:040x}")]));
    }
    fixture.ask("evm_mine", json!([]));
    let below = fixture.until("an end of the attempt", |schedule| schedule["attempts"] != json!([]));
    let attempt = &below["attempts"][0];
    assert_eq!((&attempt["outcome"], &attempt["tx_hash"]), (&json!("below_bound"), &Value::Null), "{below:#}");
    assert_eq!((&below["slices_done"], &below["is_running"]), (&json!(0), &json!(false)), "{below:#}");
    drop(session);
}
