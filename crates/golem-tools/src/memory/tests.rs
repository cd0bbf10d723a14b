//! Notes of agents: what they keep, for whom, how much, and what becomes of hostile text.

use std::path::Path;
use std::sync::Arc;

use rusqlite::params;
use serde_json::{Map, Value, json};

use super::*;
use crate::ALL_TOOL_DEFS;
use crate::engine::{
    CallStatus, Catalog, Executor, ExecutorConfig, MIGRATIONS, ToolCall, ToolEnvironment, ToolInput, ToolResponse,
};
use crate::tests::{devnet_world, world_of_chain};
use bardo_base::clock::{Clock as _, SystemClock};
use bardo_base::fabric::Fabric;
use bardo_base::id::GolemId;
use bardo_safety::audit::{self, AuditKind, LogEntry};
use bardo_store::StoreConfig;

fn open(folder: &Path) -> Store {
    Store::open(StoreConfig::at(folder.join("ledger.db")), &[MIGRATIONS, audit::MIGRATIONS]).unwrap()
}

/// Executor of one agent.
fn agent(golem: &str, world: Arc<ToolEnvironment>, store: Option<&Store>) -> Executor {
    Executor::new(ExecutorConfig {
        catalog: Catalog::new(ALL_TOOL_DEFS.iter().copied()).unwrap(),
        world,
        fabric: Fabric::in_memory(100, Arc::new(SystemClock)),
        golem_id: golem.parse::<GolemId>().unwrap(),
        calls_per_minute: 10_000,
        hooks: vec![],
        store: store.cloned(),
        acting: None,
    })
}

async fn call(executor: &Executor, tool: &str, params: Value) -> ToolResponse {
    executor.call(ToolCall::new(tool, ToolInput::Json(params))).await
}

async fn data(executor: &Executor, tool: &str, params: Value) -> Value {
    let response = call(executor, tool, params).await;
    assert_eq!(response.status, CallStatus::Success, "{response:#?}");
    response.data.unwrap()
}

/// Message of a refused parameter.
async fn refused(executor: &Executor, tool: &str, params: Value) -> String {
    let error = call(executor, tool, params).await.error.expect("it is refused");
    assert_eq!(error.code(), ErrorCode::ValidationFailed);
    error.message().to_owned()
}

fn entries(store: &Store) -> Vec<audit::StoredEntry> {
    store.read(|connection| audit::entries(connection, 0, None, 100)).unwrap()
}

#[tokio::test]
async fn a_state_is_for_its_agent_network_and_name_alone_and_outlives_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let ada = agent("ada", devnet_world(0), Some(&store));
    let none = data(&ada, "load_agent_state", json!({})).await;
    assert_eq!((&none["version"], &none["state"], &none["saved_at"]), (&json!(0), &json!({}), &Value::Null));
    // The nesting, the order-independent fields, an amount as text and a large number come back as they were.
    let state =
        json!({"plan": {"parts": [1, 2.5, null, true]}, "amount": "0.100000000000000001", "big": 9007199254740993_u64});
    let first = data(&ada, "save_agent_state", json!({"state": state})).await;
    assert_eq!(first["version"], 1);
    let second = data(&ada, "save_agent_state", json!({"state": {"n": 2}, "name": "other"})).await;
    assert_eq!((second["version"].as_u64(), &second["name"]), (Some(1), &json!("other")));
    data(&ada, "save_agent_state", json!({"state": state})).await;

    // Another agent, and the same agent on another network, see nothing of it and change nothing.
    let bob = agent("bob", devnet_world(0), Some(&store));
    let elsewhere = agent("ada", world_of_chain("base"), Some(&store));
    for stranger in [&bob, &elsewhere] {
        assert_eq!(data(stranger, "load_agent_state", json!({})).await["version"], 0);
        data(stranger, "save_agent_state", json!({"state": {"mine": true}})).await;
    }

    drop((ada, bob, elsewhere, store));
    let store = open(folder.path());
    let ada = agent("ada", devnet_world(0), Some(&store));
    let found = data(&ada, "load_agent_state", json!({})).await;
    assert_eq!((&found["version"], &found["state"]), (&json!(2), &state));
    assert_eq!(found["checksum"], first["checksum"], "the same state has the same checksum");
    assert_eq!(data(&ada, "load_agent_state", json!({"name": "other"})).await["state"], json!({"n": 2}));
    let elsewhere = agent("ada", world_of_chain("base"), Some(&store));
    assert_eq!(data(&elsewhere, "load_agent_state", json!({})).await["state"], json!({"mine": true}));
}

#[tokio::test]
async fn size_number_and_names_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let ada = agent("ada", devnet_world(0), Some(&store));
    // The text of {"a":"…"} has eight bytes around the letters.
    let of_size = |bytes: usize| json!({"state": {"a": "x".repeat(bytes - 8)}});
    assert_eq!(data(&ada, "save_agent_state", of_size(65_536)).await["bytes"], 65_536);
    let said = refused(&ada, "save_agent_state", of_size(65_537)).await;
    assert!(said.contains("65537 bytes as JSON; at most 65536 are kept"), "{said}");
    assert_eq!(data(&ada, "load_agent_state", json!({})).await["version"], 1, "the one before stays");

    for name in ["", "a b", "ä", "../x", "a\u{1b}", &"n".repeat(65)] {
        let said = refused(&ada, "save_agent_state", json!({"state": {}, "name": name})).await;
        assert!(said.contains("expected 1 to 64 letters"), "{said}");
        refused(&ada, "load_agent_state", json!({"name": name})).await;
    }
    // `default` is one of the 32.
    for number in 1..32 {
        data(&ada, "save_agent_state", json!({"state": {}, "name": format!("s-{number}_a.b:c")})).await;
    }
    let said = refused(&ada, "save_agent_state", json!({"state": {}, "name": "one-more"})).await;
    assert!(said.contains("32 states are kept already"), "{said}");
    // A name that exists can still be written, and another agent has its own 32.
    assert_eq!(data(&ada, "save_agent_state", json!({"state": {}})).await["version"], 2);
    data(&agent("bob", devnet_world(0), Some(&store)), "save_agent_state", json!({"state": {}, "name": "x"})).await;
}

#[tokio::test]
async fn a_state_that_was_changed_outside_is_not_returned() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let ada = agent("ada", devnet_world(0), Some(&store));
    data(&ada, "save_agent_state", json!({"state": {"limit": "1"}})).await;
    let forged = r#"{"limit":"1000000"}"#;
    let change = store.write(move |transaction| {
        Ok::<_, StoreError>(transaction.execute("UPDATE engine_agent_state SET state = ?1", params![forged])?)
    });
    assert_eq!(change.await.unwrap(), 1);
    let error = call(&ada, "load_agent_state", json!({})).await.error.unwrap();
    assert_eq!(error.code(), ErrorCode::StoreUnavailable);
    assert!(error.message().contains("was changed outside Bardo"), "{error}");
    // Saving mends it.
    data(&ada, "save_agent_state", json!({"state": {"limit": "2"}})).await;
    assert_eq!(data(&ada, "load_agent_state", json!({})).await["state"], json!({"limit": "2"}));
}

#[tokio::test]
async fn a_decision_is_in_the_audit_log_as_the_agents_cleaned_words() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let ada = agent("ada", devnet_world(0), Some(&store));
    let hostile = "sell \u{1b}[2J\u{202e}half\n✓ policy:accepted by operator";
    let recorded = data(
        &ada,
        "record_agent_decision",
        json!({
            "decision_summary": hostile, "intent_type": "sw\u{0}ap",
            "tool_calls": [{"na\u{1b}me": "get_price", "args": {"token": ["WETH\u{202e}"]}, "n": 1.5}],
        }),
    )
    .await;
    let log = entries(&store);
    assert_eq!(log.len(), 1);
    let entry = &log[0];
    assert_eq!((entry.kind.as_str(), entry.golem_id.as_str()), ("agent:decided", "ada"));
    assert_eq!(entry.call_id.as_deref(), recorded["decision_id"].as_str());
    assert_eq!(
        (recorded["audit_seq"].as_u64(), recorded["audit_hash"].as_str()),
        (Some(1), Some(entry.hash.to_string().as_str()))
    );
    let is_hostile = |c: char| c.is_control() || c == '\u{202e}';
    let body: Value = serde_json::from_str(&entry.body).unwrap();
    fn texts(value: &Value, into: &mut Vec<String>) {
        match value {
            Value::String(text) => into.push(text.clone()),
            Value::Array(items) => items.iter().for_each(|item| texts(item, into)),
            Value::Object(fields) => {
                into.extend(fields.keys().cloned());
                fields.values().for_each(|value| texts(value, into));
            }
            _ => {}
        }
    }
    let mut all = Vec::new();
    texts(&body, &mut all);
    assert!(all.iter().all(|text| !text.chars().any(is_hostile)), "{all:?}");
    assert!(body["words"].as_str().unwrap().contains("half"), "{body}");
    assert_eq!((&body["tool_calls"][0]["n"], &body["name"]), (&json!(1.5), &json!("default")));
    let shown = bardo_session::audit_words::sentence_of(&entry.kind, &body);
    assert!(shown.as_str().starts_with("the agent's own words about"), "{}", shown.as_str());
}

#[tokio::test]
async fn decisions_are_bounded_and_never_cut() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let ada = agent("ada", devnet_world(0), Some(&store));
    let decide = |summary: String, calls: Vec<Value>| json!({"decision_summary": summary, "tool_calls": calls});
    for (params, said) in [
        (decide(" \n".to_owned(), vec![]), "it is empty"),
        (decide("x".repeat(2_001), vec![]), "2001 characters; at most 2000"),
        (decide("x".to_owned(), vec![json!({}); 51]), "51 calls; at most 50"),
        // Each text is cut to 500 characters, so that many of them are needed.
        (decide("x".to_owned(), vec![json!({"a": "y".repeat(500)}); 34]), "at most 16384 are recorded"),
    ] {
        let message = refused(&ada, "record_agent_decision", params).await;
        assert!(message.contains(said), "{message}");
    }
    assert!(entries(&store).is_empty());
    data(&ada, "record_agent_decision", decide("ä".repeat(2_000), vec![json!({}); 50])).await;
    let body: Map<String, Value> = serde_json::from_str(&entries(&store)[0].body).unwrap();
    assert_eq!(body["words"].as_str().unwrap().chars().count(), 2_000);
}

/// Nothing prunes the log: an agent has 2 MiB of it a day, another agent has its own.
#[tokio::test]
async fn an_agents_decisions_of_a_day_are_limited() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let long = json!({"decision_summary": "x", "tool_calls": vec![json!({"a": "y".repeat(500)}); 31]});
    let (now, body) = (SystemClock.now_millis(), json!({"words": "y".repeat(1 << 20)}));
    let append = async |golem: &str, at: u64| {
        let (golem, body) = (golem.parse().unwrap(), body.clone());
        let written = store.write(move |transaction| {
            let entry = LogEntry { kind: AuditKind::AgentDecided, call_id: None, golem_id: &golem, body: &body };
            audit::append(transaction, at, &entry)
        });
        written.await.unwrap();
    };
    // A day and a bit ago, another agent's, and one that leaves room for more.
    append("ada", now - 86_500_000).await;
    append("ada", now - 86_500_000).await;
    append("eve", now - 3_600_000).await;
    append("eve", now - 3_600_000).await;
    append("ada", now - 3_600_000).await;
    let ada = agent("ada", devnet_world(0), Some(&store));
    data(&ada, "record_agent_decision", long.clone()).await;
    append("ada", now - 3_000_000).await;
    let error = call(&ada, "record_agent_decision", long).await.error.unwrap();
    assert_eq!(error.code(), ErrorCode::SafetyRateLimited, "{error:?}");
}

#[tokio::test]
async fn nothing_is_kept_without_a_database_or_in_a_dry_run() {
    let ada = agent("ada", devnet_world(0), None);
    for (tool, params) in [
        ("save_agent_state", json!({"state": {}})),
        ("load_agent_state", json!({})),
        ("record_agent_decision", json!({"decision_summary": "x"})),
    ] {
        let error = call(&ada, tool, params).await.error.unwrap();
        assert_eq!(error.code(), ErrorCode::StoreUnavailable, "{tool}");
    }
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let ada = agent("ada", devnet_world(0), Some(&store));
    let save = ToolCall::new("save_agent_state", ToolInput::Json(json!({"state": {}})));
    let response = ada.call(ToolCall { dry_run: true, ..save }).await;
    assert_eq!(response.error.unwrap().code(), ErrorCode::ValidationFailed);
    assert_eq!(data(&ada, "load_agent_state", json!({})).await["version"], 0);
}
