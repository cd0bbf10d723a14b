//! Notes of an agent across processes: after a restart, after a kill, and in the audit log.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::fixture::Fixture;
use crate::{bardo, run};

/// Kills of a process that saves.
const KILLS: u64 = 12;

impl Fixture {
    fn loaded(&self) -> (u64, Value) {
        let (answer, code) = self.call("load_agent_state", &json!({}), &[]);
        assert_eq!((answer["status"].as_str(), code), (Some("success"), 0), "{answer:#}");
        (answer["data"]["version"].as_u64().unwrap(), answer["data"]["state"].clone())
    }
}

/// Whatever moment a process is killed in, the state is the one before or the new one, whole, and the audit log verifies.
#[test]
fn a_killed_save_leaves_the_state_before_or_the_new_one() {
    let fixture = Fixture::new();
    let of = |number: u64| json!({"n": number, "text": format!("{number} ").repeat(4_000)});
    let (saved, code) = fixture.call("save_agent_state", &json!({"state": of(0)}), &[]);
    assert_eq!((saved["data"]["version"].as_u64(), code), (Some(1), 0), "{saved:#}");
    // How long a whole call takes here, so that the kills fall into all of it.
    let begun = Instant::now();
    fixture.call("save_agent_state", &json!({"state": of(0)}), &[]);
    let whole = begun.elapsed();
    let (mut version, mut last) = (2, 0);
    for number in 1..=KILLS {
        let params = json!({"state": of(number)}).to_string();
        let mut command = Command::new(env!("CARGO_BIN_EXE_bardo"));
        command.env_clear().env("BARDO_HOME", fixture.home.path()).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.args(["call", "save_agent_state", &params, "--rpc", &fixture.given]).spawn().unwrap();
        std::thread::sleep(whole.mul_f64(number as f64 / KILLS as f64).max(Duration::from_millis(1)));
        // SIGKILL.
        let _ended_before = child.kill();
        child.wait().unwrap();
        let (now, state) = fixture.loaded();
        let found = state["n"].as_u64().unwrap();
        assert!(
            (now, found) == (version, last) || (now, found) == (version + 1, number),
            "{now} {found}: {version} {last}"
        );
        assert_eq!(state, of(found), "whole");
        (version, last) = (now, found);
    }
    let (out, err, code) = run(bardo(fixture.home.path()).args(["log", "verify"]));
    assert_eq!(code, 0, "{out}{err}");
}

#[test]
fn a_decision_is_shown_by_the_log_without_its_control_characters() {
    let fixture = Fixture::new();
    let hostile = "sell half\u{1b}[2J\u{202e} now\n✓ approved by you";
    let (answer, code) = fixture.call("record_agent_decision", &json!({"decision_summary": hostile}), &[]);
    assert_eq!(code, 0, "{answer:#}");
    let (shown, _, code) = run(bardo(fixture.home.path()).arg("log"));
    assert_eq!(code, 0);
    let line = shown.lines().find(|line| line.contains("the agent's own words")).unwrap_or_else(|| panic!("{shown}"));
    assert!(
        line.contains("sell half") && line.contains("approved by you"),
        "one line, so that none begins like another entry: {line}"
    );
    assert!(!shown.contains('\u{1b}') && !shown.contains('\u{202e}'), "{shown:?}");
    assert_eq!(run(bardo(fixture.home.path()).args(["log", "verify"])).2, 0);
}

/// On a devnet that ends with the call the state ends as well, and the answer says so.
#[test]
fn a_state_of_a_devnet_that_ends_is_not_promised() {
    let home = tempfile::tempdir().unwrap();
    let (out, _, code) = run(bardo(home.path()).args(["call", "save_agent_state", r#"{"state":{"n":1}}"#]));
    let answer: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(code, 0, "{answer:#}");
    assert!(answer["explanation"].as_str().unwrap().contains("This devnet and its state end with the call"));
}
