//! The npm package agent0-sdk and Bardo on the same registries: each registers an agent, reads the other's, and rates it.
//! The devnet's subgraph answers the package's own queries.

use std::process::Command;

use serde_json::{Value, json};

use crate::clients::process::{MNEMONIC, tool};
use crate::fixture::Fixture;

/// Account of the development mnemonic that the package acts with; Bardo acts with the first.
const ACCOUNT: u32 = 3;

fn agent0(fixture: &Fixture, step: &str, more: Value) -> Value {
    let mut asked = json!({"step": step, "account": ACCOUNT});
    asked.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/agent0.mjs");
    let output = Command::new("node")
        .arg(script)
        .env("BARDO_AGENT0", tool("BARDO_AGENT0"))
        .env("DEVNET", fixture.devnet.described.to_string())
        .env("MNEMONIC", MNEMONIC)
        .env("ASKED", asked.to_string())
        .output()
        .expect("node runs");
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{step}: {out}\n{errors}");
    serde_json::from_str(out.lines().last().unwrap()).unwrap_or_else(|error| panic!("{error}: {out}\n{errors}"))
}

fn ours(fixture: &Fixture, tool: &str, params: Value) -> Value {
    let (answer, exit) = fixture.call(tool, &params, &["--approve", "always"]);
    assert_eq!(exit, 0, "{tool}: {answer}");
    answer["data"].clone()
}

#[test]
#[ignore = "needs Node.js and agent0-sdk: run by .ci/run"]
fn agent0_sdk_and_bardo_read_and_rate_each_others_agents() {
    let fixture = Fixture::new();
    let theirs = agent0(&fixture, "register", json!({}));
    let outside = theirs["agentId"].as_str().unwrap();
    assert_eq!(outside, "31337:13", "the devnet has agents 0 to 12");

    let profile = ours(&fixture, "identity_get_agent_profile", json!({"agent_id": outside}));
    assert_eq!((&profile["name"], &profile["file_status"]), (&json!("Outside Agent"), &json!("read")), "{profile}");
    let (owner, registrant) = (profile["owner"].as_str().unwrap(), theirs["account"].as_str().unwrap());
    assert!(owner.eq_ignore_ascii_case(registrant), "{profile}");
    let registration = &profile["registration"];
    assert_eq!(registration["tool_endpoint"], "https://outside.example/mcp");
    assert_eq!(registration["a2a_endpoint"], "https://outside.example/.well-known/agent-card.json");
    assert_eq!(registration["ens"], "outside.eth");
    assert_eq!(registration["supported_trusts"], json!(["reputation", "tee-attestation"]));
    let found = ours(&fixture, "identity_discover_agents", json!({"query": "outside", "chain": "ethereum"}));
    assert_eq!((&found["total"], &found["agents"][0]["agent_id"]), (&json!(1), &json!(outside)), "{found}");

    // 4.25 stars are 85 of the network's 100.
    let params = json!({"agent_id": outside, "score": 425, "tag1": "reliable", "tag2": "swap", "review": "As quoted."});
    let given = ours(&fixture, "identity_submit_feedback", params);
    let wanted = format!("{outside}:{}:1", fixture.account());
    assert!(given["feedback_id"].as_str().unwrap().eq_ignore_ascii_case(&wanted), "{given}");
    let params = json!({
        "name": "Careful Golem", "description": "Swaps in small steps.", "chain_id": "ethereum",
        "registration": {
            "tool_endpoint": "https://golem.example/mcp", "tools": ["quote"], "prompts": ["explain"], "resources": ["fills"],
            "a2a_endpoint": "https://golem.example/card.json", "a2a_skills": ["small-steps"], "ens": "careful.eth",
            "did": "did:web:golem.example",
        },
    });
    let registered = ours(&fixture, "identity_register_agent", params);
    let own = registered["agent_id"].as_str().unwrap();

    let read = agent0(&fixture, "read", json!({"agent": own, "rated": outside, "client": fixture.account()}));
    for (field, wanted) in [
        ("name", json!("Careful Golem")),
        ("description", json!("Swaps in small steps.")),
        ("mcp", json!("https://golem.example/mcp")),
        ("a2a", json!("https://golem.example/card.json")),
        ("ens", json!("careful.eth")),
        ("tools", json!(["quote"])),
        ("prompts", json!(["explain"])),
        ("resources", json!(["fills"])),
        ("skills", json!(["small-steps"])),
        ("feedback", json!({"value": 85, "tags": ["reliable", "swap"], "isRevoked": false})),
        ("onChain", json!({"count": 1, "averageValue": 85})),
        ("inGraph", json!({"count": 1, "averageValue": 85})),
        ("found", json!([own])),
        ("graphName", json!("Careful Golem")),
        ("reviews", json!(["As quoted."])),
    ] {
        assert_eq!(read[field], wanted, "{field}: {read}");
    }

    let rated = agent0(&fixture, "rate", json!({"agent": own, "value": 90}));
    assert_eq!((&rated["value"], &rated["tags"]), (&json!(90), &json!(["reliable", "swap"])));
    let reputation = ours(&fixture, "identity_get_reputation_summary", json!({"agent_id": own}));
    // 90 of 100 are 4.5 stars.
    assert_eq!((&reputation["total_feedback"], &reputation["average_score"]), (&json!(1), &json!(4.5)), "{reputation}");
    let (by, reviewer) = (&reputation["top_providers"][0]["client_address"], rated["reviewer"].as_str().unwrap());
    assert!(by.as_str().unwrap().eq_ignore_ascii_case(reviewer), "{reputation}");
}
