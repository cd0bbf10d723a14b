//! Screen 0: registered agents.

use ratatui::layout::Rect;
use serde_json::{Value, json};

use super::world::{TestHarness, world};
use super::{AREA, calls, drawn, typed};
use crate::keymap::Action;
use crate::screens::agents::Agents;
use crate::screens::{CommandReply, ScreenRequest, ScreenView};
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::id::CallId;
use bardo_session::envelope::{CallStatus, ToolResponse};

fn answered(data: Value) -> CommandReply {
    CommandReply::Reply(Box::new(ToolResponse {
        call_id: CallId::new(1),
        status: CallStatus::Success,
        data: Some(data),
        error: None,
        decision_hints: None,
        explanation: None,
    }))
}

fn entry(id: &str, name: Value, ratings: u64, active: bool) -> Value {
    json!({
        "agent_id": id, "name": name, "description": if name.is_null() { Value::Null } else { json!("Quotes swaps.") },
        "protocols": ["mcp", "a2a"], "feedback_count": ratings, "average_score": 4.26, "active": active,
        "agent_card": null, "relevance_score": null,
    })
}

fn list(word: &str) -> Value {
    json!({
        "agents": [
            entry("31337:3", json!(format!("quoter {word}")), 12, true),
            entry("31337:0", json!("watcher"), 0, false),
            entry("31338:1", Value::Null, 1, false),
        ],
        "total": 20, "has_more": true,
    })
}

/// Reply with a list of three agents.
pub(crate) fn sample(word: &str) -> CommandReply {
    answered(list(word))
}

fn profile(word: &str) -> Value {
    let given = |value: Value, counted: bool, revoked: bool| {
        json!({
            "id": "1", "value": value, "raw_value": "99.5", "tag1": word, "tag2": null,
            "client_address": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8", "created_at": "2026-11-20 08:00:00Z",
            "revoked": revoked, "counted": counted,
            "review": if counted { json!(format!("Quoted as filled. {word}")) } else { Value::Null },
        })
    };
    json!({
        "owner": "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266", "wallet": null,
        "registered_at": "2026-11-01 08:00:00Z", "file_status": "read",
        "services": [{"service_type": "mcp", "endpoint": format!("https://agent.example/{word}"), "version": null}],
        "engagement": {"total_feedback": 3, "recent_trend": "improving"},
        "feedback_history": [given(json!(425), true, false), given(Value::Null, false, false), given(json!(100), false, true)],
    })
}

fn trust() -> Value {
    json!({
        "trust_score": 74, "confidence": 0.8, "flags": ["no_validation", "recently_transferred"],
        "breakdown": {"identity_score": 90, "reputation_score": 68, "validation_score": 0},
        "recommendation": "while_thriving",
    })
}

/// Screen with the list, and with the first agent's card read.
pub(super) fn read(world: &TestHarness, word: &str) -> Agents {
    let mut screen = Agents::default();
    let asked = calls(&screen.shown(&world.known()));
    let [(count, tool, _, true)] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!(tool, "identity_discover_agents");
    screen.receive_reply(*count, sample(word), &world.known());
    let asked = calls(&screen.act(Action::Open, &world.known(), AREA).unwrap());
    for (count, tool, params, dry_run) in asked {
        assert_eq!((&params["agent_id"], dry_run), (&json!("31337:3"), true));
        let data = match tool.as_str() {
            "identity_get_agent_profile" => profile(word),
            "identity_evaluate_agent_trust" => trust(),
            "identity_get_tier" => json!({"tier": "silver", "points": 140, "next_tier_threshold": 300}),
            other => panic!("{other}"),
        };
        screen.receive_reply(count, answered(data), &world.known());
    }
    screen
}

#[test]
fn agents_and_the_card_of_one_at_each_size() {
    let world = world();
    let mut screen = read(&world, "one");
    for (width, height) in [(120, 36), (80, 24), (40, 24), (14, 5)] {
        let area = Rect { x: 0, y: 0, width, height };
        insta::assert_snapshot!(format!("registry_{width}x{height}"), drawn(&screen, &world, area));
    }
    screen.act(Action::Zoom, &world.known(), AREA);
    for (width, height) in [(80, 30), (40, 30)] {
        let area = Rect { x: 0, y: 0, width, height };
        insta::assert_snapshot!(format!("registry_card_{width}x{height}"), drawn(&screen, &world, area));
    }
}

#[test]
fn what_the_screen_reads_is_no_activity_and_is_not_read_again_at_once() {
    let mut world = world();
    let mut screen = read(&world, "one");
    assert!(screen.shown(&world.known()).is_empty(), "the list is new");
    let call = CallId::new(7);
    let aside = screen.receive_reply(9, CommandReply::Began(call), &world.known());
    assert_eq!(aside, [ScreenRequest::SetAside(call)]);
    world.now += 31_000;
    assert_eq!(calls(&screen.shown(&world.known())).len(), 1);
    // What was read of an agent survives a new list.
    screen.receive_reply(5, sample("two"), &world.known());
    let text = drawn(&screen, &world, AREA);
    assert!(text.contains("quoter two") && text.contains("74 of 100"), "{text}");
}

#[test]
fn a_failure_is_shown_and_a_filter_finds_by_words() {
    let world = world();
    let mut screen = Agents::default();
    let count = calls(&screen.shown(&world.known()))[0].0;
    let error = ToolError::new(ErrorCode::ChainUnsupported, "this network has no registries");
    let CommandReply::Reply(mut failed) = answered(Value::Null) else { panic!() };
    (failed.status, failed.data, failed.error) = (CallStatus::Error, None, Some(error));
    screen.receive_reply(count, CommandReply::Reply(failed), &world.known());
    let text = drawn(&screen, &world, AREA);
    assert!(text.contains("could not be read") && text.contains("network has no registries"), "{text}");
    let mut screen = read(&world, "one");
    screen.act(Action::Filter, &world.known(), AREA);
    typed(&mut screen, &world, "watch");
    let text = drawn(&screen, &world, AREA);
    assert!(text.contains("watcher") && !text.contains("quoter"), "{text}");
}

#[test]
fn own_agents_come_first_and_are_marked() {
    let world = world();
    let mut screen = Agents::default();
    let count = calls(&screen.shown(&world.known()))[0].0;
    let mut data = list("one");
    data["agents"][1]["is_own"] = json!(true);
    screen.receive_reply(count, answered(data), &world.known());
    for (count, tool, params, _) in calls(&screen.act(Action::Open, &world.known(), AREA).unwrap()) {
        // The first of the list is the own one now.
        assert_eq!(params["agent_id"], "31337:0");
        let data = match tool.as_str() {
            "identity_get_agent_profile" => profile("one"),
            "identity_evaluate_agent_trust" => trust(),
            _ => json!({"tier": "silver", "points": 140, "next_tier_threshold": 300}),
        };
        screen.receive_reply(count, answered(data), &world.known());
    }
    let text = drawn(&screen, &world, AREA);
    assert!(text.contains("watcher (yours)") && text.contains("(your account)"), "{text}");
}

/// A list of the hundred last active agents among 134, as the tool gives it: own ones first.
fn long_list() -> Value {
    let mut agents: Vec<Value> =
        (1..100).map(|at| entry(&format!("31337:{at}"), json!(format!("bot {at}")), 1, true)).collect();
    let mut own = entry("31337:114", json!("careful"), 2, true);
    own["is_own"] = json!(true);
    agents.insert(0, own);
    json!({"agents": agents, "total": 134, "has_more": true})
}

#[test]
fn a_filter_finds_an_agent_beyond_the_list_and_the_own_one_has_its_card() {
    let world = world();
    let mut screen = Agents::default();
    let count = calls(&screen.shown(&world.known()))[0].0;
    screen.receive_reply(count, answered(long_list()), &world.known());
    let text = drawn(&screen, &world, AREA);
    assert!(text.contains("careful (yours)") && text.contains("100 of 134"), "{text}");
    screen.act(Action::Filter, &world.known(), AREA);
    assert!(typed(&mut screen, &world, "meridian").is_empty(), "nothing is sent while it is typed");
    for (width, height) in [(120, 36), (80, 24), (40, 24), (14, 5)] {
        let area = Rect { x: 0, y: 0, width, height };
        insta::assert_snapshot!(format!("registry_beyond_{width}x{height}"), drawn(&screen, &world, area));
    }
    let asked = calls(&typed(&mut screen, &world, "\n"));
    let [(count, tool, params, true)] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!((tool.as_str(), &params["query"]), ("identity_discover_agents", &json!("meridian")));
    assert!(drawn(&screen, &world, AREA).contains("Searching all registered agents"));
    let found = json!({"agents": [entry("31337:0", json!("Meridian Router"), 7, true)], "total": 1, "has_more": false});
    screen.receive_reply(*count, answered(found), &world.known());
    let text = drawn(&screen, &world, AREA);
    assert!(text.contains("Meridian Router") && !text.contains("bot 7"), "{text}");
    // Its card is read as that of any other agent.
    for (count, tool, params, _) in calls(&screen.act(Action::Open, &world.known(), AREA).unwrap()) {
        assert_eq!(params["agent_id"], "31337:0");
        if tool == "identity_get_agent_profile" {
            screen.receive_reply(count, answered(profile("one")), &world.known());
        }
    }
    assert!(drawn(&screen, &world, AREA).contains("Feedback, 3 entries"));
    // Other words are another search; without any, the list is back.
    screen.act(Action::Filter, &world.known(), AREA);
    typed(&mut screen, &world, "s");
    assert!(!drawn(&screen, &world, AREA).contains("Meridian Router"));
    screen.act(Action::Back, &world.known(), AREA);
    typed(&mut screen, &world, "\n");
}

#[test]
fn a_search_that_fails_can_be_sent_again() {
    let world = world();
    let mut screen = Agents::default();
    let count = calls(&screen.shown(&world.known()))[0].0;
    screen.receive_reply(count, answered(long_list()), &world.known());
    screen.act(Action::Filter, &world.known(), AREA);
    let count = calls(&typed(&mut screen, &world, "meridian\n"))[0].0;
    let CommandReply::Reply(mut failed) = answered(Value::Null) else { panic!() };
    (failed.status, failed.data) = (CallStatus::Error, None);
    failed.error = Some(ToolError::new(ErrorCode::ChainUnsupported, "no endpoint responds"));
    screen.receive_reply(count, CommandReply::Reply(failed), &world.known());
    let text = drawn(&screen, &world, AREA);
    assert!(text.contains("could not be searched") && text.contains("endpoint responds"), "{text}");
    screen.act(Action::Filter, &world.known(), AREA);
    assert_eq!(calls(&typed(&mut screen, &world, "\n")).len(), 1);
}

#[test]
fn the_list_is_read_again_while_it_is_shown() {
    let mut world = world();
    let mut screen = read(&world, "one");
    assert!(screen.tick(&world.known()).is_empty(), "the list is new");
    world.now += 31_000;
    let asked = calls(&screen.tick(&world.known()));
    assert_eq!(asked.len(), 1);
    assert!(screen.tick(&world.known()).is_empty(), "it is being read");
    screen.receive_reply(asked[0].0, sample("two"), &world.known());
    assert!(screen.tick(&world.known()).is_empty());
}
