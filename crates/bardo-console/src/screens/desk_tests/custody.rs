//! Screen of custody.

use ratatui::layout::Rect;
use serde_json::{Value, json};

use super::world::{TestHarness, world};
use super::{AREA, calls, drawn, typed};
use crate::keymap::Action;
use crate::screens::custody::Custody;
use crate::screens::{CommandReply, ScreenRequest, ScreenView};
use crate::widgets::custody::CustodyAccount;
use crate::widgets::samples::custody as samples;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::id::CallId;
use bardo_base::model::CapabilityTier;
use bardo_session::envelope::{CallStatus, ToolResponse};

fn response(data: Option<Value>, error: Option<ToolError>) -> CommandReply {
    let status = if error.is_some() { CallStatus::Error } else { CallStatus::Success };
    let call_id = CallId::new(1);
    CommandReply::Reply(Box::new(ToolResponse {
        call_id,
        status,
        data,
        error,
        decision_hints: None,
        explanation: None,
    }))
}

fn answer(tool: &str, params: &Value, word: &str) -> CommandReply {
    let on_ethereum = params["chain"] == "ethereum" || params["chain_id"] == "ethereum";
    let data = match tool {
        "wallet_get_status" => samples::status_reply("local_key"),
        "session_get_keys" => samples::keys_reply(word, "2023-11-14 23:13:20Z"),
        "wallet_get_delegation" if on_ethereum => samples::delegation_reply(),
        "wallet_get_delegation" => json!({"delegated": false, "complete": true, "permissions": []}),
        "get_allowances" if on_ethereum => samples::allowances_reply(word),
        "get_allowances" => {
            json!({"allowances": [], "complete": false, "unread_of_strangers": 2, "value_at_risk_usd": "0"})
        }
        other => panic!("{other}"),
    };
    response(Some(data), None)
}

/// Reply to a read with this tool.
pub(crate) fn sample(tool: &str, params: &Value) -> CommandReply {
    answer(tool, params, "traders")
}

fn served(
    screen: &mut Custody,
    world: &TestHarness,
    mut requests: Vec<ScreenRequest>,
    reply: &dyn Fn(&str, &Value) -> CommandReply,
) -> usize {
    let mut count = 0;
    while !requests.is_empty() {
        let asked = calls(&std::mem::take(&mut requests));
        for (ticket, tool, params, dry_run) in asked {
            assert!(dry_run, "{tool}");
            count += 1;
            requests.extend(screen.receive_reply(ticket, reply(&tool, &params), &world.known()));
        }
    }
    count
}

/// Screen with everything read.
pub(super) fn read(world: &TestHarness, word: &str) -> Custody {
    let mut screen = Custody::default();
    let requests = screen.shown(&world.known());
    let count = served(&mut screen, world, requests, &|tool, params| answer(tool, params, word));
    // Account and keys once, delegation and allowances on each of two chains.
    assert_eq!(count, 2 + 2 * 2);
    screen
}

fn pictured(name: &str, screen: &Custody, world: &TestHarness) {
    for (width, height) in [(160, 44), (120, 36), (80, 24), (40, 24), (14, 5)] {
        let area = Rect { x: 0, y: 0, width, height };
        insta::assert_snapshot!(format!("custody_{name}_{width}x{height}"), drawn(screen, world, area));
    }
}

fn with_tools(mut world: TestHarness) -> TestHarness {
    let tool = |name: &str| super::super::form::tests::tool(name, CapabilityTier::Write);
    world.ready.tools.extend(["session_revoke_key", "token_revoke"].map(tool));
    world
}

#[test]
fn custody_at_each_size_with_each_kind_of_row() {
    let mut world = world();
    let mut screen = Custody::default();
    let requests = screen.shown(&world.known());
    pictured("loading", &screen, &world);
    served(&mut screen, &world, requests, &|tool, params| answer(tool, params, "traders"));
    world.now += 12_000;
    for name in ["account", "key", "ended_key", "delegation", "allowance"] {
        pictured(name, &screen, &world);
        screen.act(Action::Down, &world.known(), AREA);
    }
    screen.act(Action::Open, &world.known(), AREA);
    pictured("zoomed", &screen, &world);
}

#[test]
fn a_failure_stands_above_what_was_read_and_a_part_that_is_missing_is_named() {
    let mut world = world();
    let failing = |_: &str, _: &Value| {
        response(None, Some(ToolError::new(ErrorCode::ChainUnreachable, "no endpoint of ethereum answers")))
    };
    let mut screen = Custody::default();
    let requests = screen.shown(&world.known());
    served(&mut screen, &world, requests, &failing);
    pictured("failed", &screen, &world);
    let mut screen = read(&world, "traders");
    let text = drawn(&screen, &world, AREA);
    assert!(text.contains("! base: not all allowances could be searched"), "{text}");
    assert!(text.contains("! base: 2 approvals of unknown contracts"), "{text}");
    // A part that was not searched makes the sum a lower bound.
    assert!(text.contains("≥ $6,212.50 at risk"), "{text}");
    world.now += 240_000;
    let requests = screen.shown(&world.known());
    served(&mut screen, &world, requests, &failing);
    let text = drawn(&screen, &world, AREA);
    assert!(text.contains("! read 4 min ago") && text.contains("! account, session keys"), "{text}");
    pictured("stale", &screen, &world);
}

#[test]
fn one_key_or_every_key_is_revoked_and_nothing_by_enter_alone() {
    let world = with_tools(world());
    let mut screen = read(&world, "traders");
    screen.act(Action::Down, &world.known(), AREA);
    let mut asked = |keys: &str| {
        assert!(screen.act(Action::CancelSelected, &world.known(), AREA).unwrap().is_empty() && screen.asks());
        drawn(&screen, &world, AREA);
        assert!(typed(&mut screen, &world, "\n\n").is_empty(), "nothing is picked by itself");
        calls(&typed(&mut screen, &world, keys))
    };
    let one = asked("r\n");
    assert!(
        matches!(&one[..], [(_, tool, params, false)] if tool == "session_revoke_key" && params["key_ids"] == json!(["7c1e"])),
        "{one:?}"
    );
    let every = asked("a\n");
    assert!(
        matches!(&every[..], [(_, tool, params, false)] if tool == "session_revoke_key" && params.get("key_ids").is_none()),
        "{every:?}"
    );
    assert_ne!(one[0].0, every[0].0, "each has a ticket of its own");
    // An ended key is not revoked again.
    screen.act(Action::Down, &world.known(), AREA);
    screen.act(Action::CancelSelected, &world.known(), AREA);
    assert!(!drawn(&screen, &world, AREA).contains("revoke this key"));
}

#[test]
fn one_allowance_or_all_of_a_chain_are_revoked_each_by_a_call_of_its_own() {
    let world = with_tools(world());
    let mut screen = read(&world, "UNI");
    for _ in 0..4 {
        screen.act(Action::Down, &world.known(), AREA);
    }
    screen.act(Action::CancelSelected, &world.known(), AREA);
    drawn(&screen, &world, AREA);
    let every = calls(&typed(&mut screen, &world, "a\n"));
    let expected = [
        ("0x1f9840a85d5aF5bf1D1762F925BDADdC4201F984", "0x00000000000000000000000000000000DeaDBeef"),
        ("0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", "0x66a9893cC07D91D95644AEDD05D03f95e1dBA8Af"),
    ];
    assert_eq!(every.len(), 2);
    for ((_, tool, params, dry_run), (token, spender)) in every.iter().zip(expected) {
        let wanted = json!({"token": token, "chain": "ethereum", "spender": spender});
        assert_eq!((tool.as_str(), params, *dry_run), ("token_revoke", &wanted, false));
    }
    // After the end of a revocation everything is read again.
    let CommandReply::Reply(done) = answer("session_get_keys", &json!({}), "x") else { panic!() };
    let requests = screen.receive_reply(every[0].0, CommandReply::Reply(done), &world.known());
    assert!(matches!(&requests[0], ScreenRequest::Notice(_)) && calls(&requests).len() == 4, "{requests:?}");
    served(&mut screen, &world, requests, &sample);
}

#[test]
fn a_console_that_only_watches_revokes_nothing() {
    let mut world = with_tools(world());
    let mut screen = read(&world, "traders");
    world.watch_only = true;
    for _ in 0..5 {
        let said = screen.act(Action::CancelSelected, &world.known(), AREA).unwrap();
        assert!(matches!(&said[..], [ScreenRequest::Notice(_)]) && !screen.asks(), "{said:?}");
        screen.act(Action::Down, &world.known(), AREA);
    }
}

#[test]
fn a_key_counts_down_and_is_shown_as_expired() {
    let mut world = world();
    let screen = read(&world, "traders");
    let text = drawn(&screen, &world, AREA);
    assert!(text.contains("59:53 left") && text.contains("3 of 20 used"), "{text}");
    world.now += 3_600_000;
    assert!(drawn(&screen, &world, AREA).contains("expired"));
}

#[test]
fn a_safe_is_shown_with_everything_that_decides_who_may_act_for_it() {
    let of = |modules: Value, guard: Value| {
        let safe = json!({
            "version": "1.4.1", "owners": ["0xaaaa"], "threshold": "1", "nonce": "3", "modules": modules, "guard": guard,
            "fallback_handler": "0xdddd",
        });
        let chain = json!({"chain": "Ethereum", "account_type": "contract", "nonce": 1, "safe": safe});
        let data = json!({"provider": "safe", "address": "0x5afe", "balances": [chain]});
        format!("{:?}", CustodyAccount::from_data(&data).unwrap().rows())
    };
    let quiet = of(json!([]), Value::Null);
    for said in ["Safe, through the key of an owner", "version 1.4.1", "1 of 1 owner", "0xaaaa", "0xdddd"] {
        assert!(quiet.contains(said), "{said}: {quiet}");
    }
    assert!(!quiet.contains("acts without the owners"), "{quiet}");
    let loud = of(json!(["0xbbbb"]), json!("0xcccc"));
    for said in ["module 0xbbbb acts without the owners", "0xcccc"] {
        assert!(loud.contains(said), "{said}: {loud}");
    }
}
