//! Pools of a token, as the browser lists them.

use ratatui::layout::Rect;
use serde_json::{Value, json};

use super::world::{TestHarness, world};
use super::{AREA, calls, drawn, typed};
use crate::keymap::Action;
use crate::screens::pools::Pools;
use crate::screens::{CommandReply, ScreenRequest, ScreenView};
use crate::widgets::samples::pools as samples;
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

/// Hook that is called around swaps and may change what they take in.
const HOOK: &str = "0x00000000000000000000000000000000000000C8";

fn answer(tool: &str, params: &Value) -> CommandReply {
    let name = |field: &str| params[field].as_str().unwrap_or_default().to_owned();
    let data = match tool {
        "list_pools" => samples::list_reply(&name("token")),
        "get_pool_info" => samples::info_reply(&name("token_a"), &name("token_b"), Some(HOOK)),
        other => panic!("{other}"),
    };
    response(Some(data), None)
}

/// Reply to a read with this tool.
pub(crate) fn sample(tool: &str, params: &Value) -> CommandReply {
    answer(tool, params)
}

fn served(
    screen: &mut Pools,
    world: &TestHarness,
    mut requests: Vec<ScreenRequest>,
    reply: &dyn Fn(&str, &Value) -> CommandReply,
) -> Vec<String> {
    let mut tools = Vec::new();
    while !requests.is_empty() {
        let asked = calls(&std::mem::take(&mut requests));
        for (ticket, tool, params, dry_run) in asked {
            assert!(dry_run, "{tool}");
            requests.extend(screen.receive_reply(ticket, reply(&tool, &params), &world.known()));
            tools.push(tool);
        }
    }
    tools
}

/// Screen with the pools of the first token.
pub(super) fn read(world: &TestHarness) -> Pools {
    let mut screen = Pools::default();
    let requests = screen.shown(&world.known());
    let tools = served(&mut screen, world, requests, &answer);
    assert_eq!(tools, ["list_pools", "get_pool_info", "get_pool_info"], "one read for each other token");
    screen
}

/// Screen with pools whose tokens have this name.
pub(super) fn read_named(world: &TestHarness, word: &str) -> Pools {
    let mut screen = Pools::default();
    let requests = screen.shown(&world.known());
    served(&mut screen, world, requests, &|tool, _| {
        let data = match tool {
            "list_pools" => samples::list_reply(word),
            _ => samples::info_reply(word, "USDC", Some(word)),
        };
        response(Some(data), None)
    });
    screen
}

fn pictured(name: &str, screen: &Pools, world: &TestHarness) {
    for (width, height) in [(200, 46), (120, 36), (80, 24), (40, 24), (14, 5)] {
        let area = Rect { x: 0, y: 0, width, height };
        insta::assert_snapshot!(format!("pools_{name}_{width}x{height}"), drawn(screen, world, area));
    }
}

#[test]
fn pools_of_a_token_at_each_size() {
    let mut world = world();
    let mut screen = Pools::default();
    let requests = screen.shown(&world.known());
    pictured("loading", &screen, &world);
    served(&mut screen, &world, requests, &answer);
    world.now += 12_000;
    pictured("filled", &screen, &world);
    screen.act(Action::Bottom, &world.known(), AREA);
    pictured("hook", &screen, &world);
    screen.act(Action::Zoom, &world.known(), AREA);
    pictured("zoomed", &screen, &world);
}

#[test]
fn without_pools_after_a_failure_and_with_old_figures() {
    let mut world = world();
    let failing = |_: &str, _: &Value| {
        response(None, Some(ToolError::new(ErrorCode::ChainUnreachable, "no endpoint of ethereum answers")))
    };
    let mut screen = Pools::default();
    let requests = screen.shown(&world.known());
    served(&mut screen, &world, requests, &failing);
    pictured("failed", &screen, &world);
    let mut screen = Pools::default();
    let requests = screen.shown(&world.known());
    served(&mut screen, &world, requests, &|_, _| response(Some(json!({"pools": []})), None));
    pictured("empty", &screen, &world);
    let mut screen = read(&world);
    world.now += 200_000;
    let requests = screen.shown(&world.known());
    served(&mut screen, &world, requests, &failing);
    let text = drawn(&screen, &world, AREA);
    assert!(text.contains("! read 3 min ago") && text.contains("3,412.55"), "{text}");
    assert!(text.contains("! depth and volume: no endpoint"), "{text}");
    pictured("stale", &screen, &world);
}

#[test]
fn both_readings_of_a_pool_are_one_row_and_only_v4_has_hooks() {
    let world = world();
    let mut screen = read(&world);
    let text = drawn(&screen, &world, AREA);
    // Four of the list and one that only the pair's reading has.
    assert!(text.contains("5  WETH on ethereum"), "{text}");
    assert!(text.contains("1,823.01 WETH + 6,200,411.5 USDC") && text.contains("tick -196013"), "{text}");
    screen.act(Action::Bottom, &world.known(), AREA);
    let text = drawn(&screen, &world, AREA);
    assert!(text.contains("V4 0.05 %") && text.contains("! it changes what swaps take in"), "{text}");
    assert!(text.contains("is called  after swaps, before swaps") && text.contains("not evaluated"), "{text}");
}

#[test]
fn tokens_are_browsed_with_the_arrows_and_read_once() {
    let world = world();
    let mut screen = read(&world);
    let requests = screen.act(Action::Right, &world.known(), AREA).unwrap();
    assert!(
        matches!(&calls(&requests)[..], [(_, tool, params, true)] if tool == "list_pools" && params["token"] == "DAI")
    );
    served(&mut screen, &world, requests, &answer);
    assert!(drawn(&screen, &world, AREA).contains("DAI on ethereum"));
    assert!(screen.act(Action::Left, &world.known(), AREA).unwrap().is_empty(), "just read");
    // Around the end: the last token of the last chain.
    let requests = screen.act(Action::Left, &world.known(), AREA).unwrap();
    assert!(
        matches!(&calls(&requests)[..], [(_, _, params, _)] if params["chain"] == "base" && params["token"] == "DAI")
    );
}

#[test]
fn a_pool_opens_the_form_for_liquidity_with_its_fee_and_none_for_a_pool_with_a_hook() {
    let mut world = world();
    world.ready.tools.push(super::super::form::tests::tool("add_liquidity", CapabilityTier::Write));
    let mut screen = read(&world);
    screen.act(Action::Open, &world.known(), AREA);
    drawn(&screen, &world, AREA);
    let requests = typed(&mut screen, &world, "a\n");
    let [ScreenRequest::OpenForm { tool, params }] = &requests[..] else { panic!("{requests:?}") };
    let expected = json!({"token_a": "WETH", "token_b": "USDC", "chain": "ethereum", "version": "v3", "fee_tier": 500});
    assert_eq!((tool.as_str(), params), ("add_liquidity", &expected));
    screen.act(Action::Bottom, &world.known(), AREA);
    screen.act(Action::Open, &world.known(), AREA);
    let text = drawn(&screen, &world, AREA);
    assert!(text.contains("sell WETH for USDC") && !text.contains("add liquidity"), "{text}");
}

#[test]
fn a_reading_of_pools_ends_and_can_be_stopped() {
    let mut world = world();
    let mut screen = Pools::default();
    let asked = calls(&screen.shown(&world.known()));
    screen.receive_reply(asked[0].0, CommandReply::Began(CallId::new(7)), &world.known());
    let stopped = screen.act(Action::Back, &world.known(), AREA).unwrap();
    assert_eq!(stopped.len(), 1, "its call is cancelled");
    assert!(drawn(&screen, &world, AREA).contains("the reading was stopped"));
    screen.act(Action::Follow, &world.known(), AREA);
    world.now += 31_000;
    screen.tick(&world.known());
    assert!(drawn(&screen, &world, AREA).contains("no reply came in time"));
}
