//! Deposits with the bridge Across by the agent interface: one is filled, another expires and is paid back. An agent acts by
//! the kind `across-deposit` and asks by the query `across-deposits`.

use std::process::Command;

use serde_json::Value;

const CROSSING: &str = r#"
name = "crossing"
about = "Two deposits with a bridge."
operator = "approve"

[[beat]]
at = 5
do = "act"
params = { kind = "across-deposit", params = { token_in = "USDC", amount = "500", source_chain = "ethereum", destination_chain = "base" } }
expect = ["success"]

[[beat]]
at = 60
do = "query_state"
params = { query = "across-deposits", params = { source_chain = "ethereum" } }
expect = ["success"]

[[cue]]
at = 62
do = { relayers = { deliver = false } }

[[beat]]
at = 65
do = "act"
params = { kind = "across-deposit", params = { token_in = "USDC", amount = "500", source_chain = "ethereum", destination_chain = "base", deadline = 60 } }
expect = ["success"]

[[beat]]
at = 138
do = "query_state"
params = { query = "across-deposits", params = { source_chain = "ethereum" } }
expect = ["success"]

[[beat]]
at = 220
do = "query_state"
params = { query = "across-deposits", params = { source_chain = "ethereum" } }
expect = ["success"]
"#;

#[test]
fn an_agents_deposit_is_filled_and_another_expires_and_is_paid_back() {
    let home = tempfile::tempdir().unwrap();
    let show = home.path().join("crossing.toml");
    std::fs::write(&show, CROSSING).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_bardo"));
    command.args(["golem", "run", "--headless", "--scenario", show.to_str().unwrap()]);
    let output = command.env("BARDO_HOME", home.path()).env_remove("BARDO_NETWORK").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let events: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ends: Vec<&str> = events
        .iter()
        .filter(|event| event["kind"] == "tool:end")
        .filter_map(|event| event["result_summary"]["states"].as_str())
        .collect();
    assert_eq!(ends, ["0: filled", "0: filled, 1: expired", "0: filled, 1: refunded"]);
    let matched = events.iter().filter(|event| event["kind"] == "tool:verified" && event["matched"] == true).count();
    assert_eq!(matched, 2, "both deposits are proven by their receipts");
}
