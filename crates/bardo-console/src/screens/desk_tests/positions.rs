//! Screen of positions.

use ratatui::layout::Rect;
use serde_json::{Value, json};

use super::world::{TestHarness, world};
use super::{AREA, calls, drawn, typed};
use crate::keymap::Action;
use crate::screens::positions::Positions;
use crate::screens::{CommandReply, ScreenRequest, ScreenView};
use crate::widgets::samples::positions as samples;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::fabric::{EventKind, RedactedParams, ToolEnd, ToolStart};
use bardo_base::id::CallId;
use bardo_base::model::{CapabilityTier, Category};
use bardo_session::envelope::{CallStatus, ToolResponse};
use bardo_session::handle::{SessionCommand, ToolInfo};

/// Vault of the samples.
const VAULT: &str = "0x5FbDB2315678afecb367f032d93F642f64180aa3";

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

/// Reply to a read of the first chain. The second one has none of the contracts.
fn answer(tool: &str, params: &Value, word: &str) -> CommandReply {
    if params["chain"] != "ethereum" {
        let error = ToolError::new(ErrorCode::ChainUnsupported, "the address book of base has no such contract");
        return response(None, Some(error));
    }
    let data = match tool {
        "list_positions" => samples::positions_reply(
            vec![
                samples::position(word, "42", -196_000, "open"),
                samples::position(word, "43", -201_000, "open"),
                samples::position(word, "v4:7", -196_000, "locked"),
                samples::position(word, "v4:8", -196_000, "untried"),
            ],
            None,
            4,
            1,
        ),
        "get_lending_position" => samples::lending_reply(word, Some("1.563911")),
        "vault_list" => samples::vaults_reply(vec![samples::listed_vault(VAULT, "476.190476", json!({}))]),
        "get_vault_state" => samples::vault_reply("USDC", "476.190476"),
        "vault_simulate_withdraw" => samples::redemption_reply(Some("499.999999")),
        other => panic!("{other}"),
    };
    response(Some(data), None)
}

/// Reply to a read with this tool, with positions of every kind.
pub(crate) fn sample(tool: &str, params: &Value) -> CommandReply {
    answer(tool, params, "WETH")
}

/// Answers reads until the screen asks for nothing more.
fn served(
    screen: &mut dyn ScreenView,
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

/// Screen with positions of every kind on the first of two chains.
pub(super) fn read(world: &TestHarness, word: &str) -> Positions {
    let mut screen = Positions::default();
    let requests = screen.shown(&world.known());
    served(&mut screen, world, requests, &|tool, params| answer(tool, params, word));
    screen
}

fn pictured(name: &str, screen: &dyn ScreenView, world: &TestHarness) {
    for (width, height) in [(200, 46), (120, 36), (80, 20), (40, 24), (14, 5)] {
        let area = Rect { x: 0, y: 0, width, height };
        insta::assert_snapshot!(format!("positions_{name}_{width}x{height}"), drawn(screen, world, area));
    }
}

fn with_tools(mut world: TestHarness) -> TestHarness {
    let tool = |name: &str, category| ToolInfo {
        category,
        input_schema: json!({
            "properties": {
                "chain": {"type": "string"}, "position_id": {"type": "string"}, "share_pct": {"type": "string"},
                "token": {"type": "string"}, "amount": {"type": "string"}, "vault_address": {"type": "string"},
                "shares": {"type": "string"},
            },
            "required": ["chain"],
        }),
        ..super::super::form::tests::tool(name, CapabilityTier::Write)
    };
    let tools = [
        ("collect_fees", Category::Lp),
        ("remove_liquidity", Category::Lp),
        ("close_position", Category::Lp),
        ("lending_repay", Category::Trading),
        ("vault_withdraw", Category::Vault),
    ];
    world.ready.tools.extend(tools.map(|(name, category)| tool(name, category)));
    world
}

#[test]
fn positions_of_every_kind_at_each_size() {
    let mut world = world();
    let mut screen = read(&world, "WETH");
    world.now += 12_000;
    pictured("filled", &screen, &world);
    // A row of the lending market, and one that is locked.
    screen.act(Action::Down, &world.known(), AREA);
    pictured("lending", &screen, &world);
    for _ in 0..5 {
        screen.act(Action::Down, &world.known(), AREA);
    }
    pictured("locked", &screen, &world);
    screen.act(Action::Zoom, &world.known(), AREA);
    pictured("zoomed", &screen, &world);
}

#[test]
fn before_the_first_reply_without_positions_and_after_a_failure() {
    let world = world();
    let mut screen = Positions::default();
    let requests = screen.shown(&world.known());
    pictured("loading", &screen, &world);
    let nothing = |tool: &str, _: &Value| {
        let data = match tool {
            "list_positions" => samples::positions_reply(Vec::new(), None, 0, 0),
            "vault_list" => samples::vaults_reply(vec![samples::listed_vault(VAULT, "0", json!({}))]),
            _ => json!({"account": "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266", "positions": []}),
        };
        response(Some(data), None)
    };
    assert_eq!(served(&mut screen, &world, requests, &nothing), 6);
    pictured("empty", &screen, &world);
    let mut screen = Positions::default();
    let requests = screen.shown(&world.known());
    served(&mut screen, &world, requests, &|_, _| {
        response(None, Some(ToolError::new(ErrorCode::PriceUnavailable, "no endpoint of ethereum answers")))
    });
    pictured("failed", &screen, &world);
}

/// A failure never hides what was read, nor its age.
#[test]
fn what_was_read_stays_with_its_age_when_a_later_reading_fails() {
    let mut world = world();
    let mut screen = read(&world, "WETH");
    world.now += 185_000;
    let requests = screen.shown(&world.known());
    assert_eq!(calls(&requests).len(), 4, "four at once");
    served(&mut screen, &world, requests, &|_, _| {
        response(None, Some(ToolError::new(ErrorCode::PriceUnavailable, "no endpoint of ethereum answers")))
    });
    let text = drawn(&screen, &world, AREA);
    assert!(text.contains("! read 3 min ago") && text.contains("$1,708.41"), "{text}");
    assert!(text.contains("! ethereum liquidity, ethereum lending, ethereum vault"), "{text}");
    pictured("stale", &screen, &world);
}

#[test]
fn a_reading_without_a_reply_ends_and_its_calls_are_cancelled() {
    let mut world = world();
    let mut screen = Positions::default();
    let asked = calls(&screen.shown(&world.known()));
    let call = CallId::new(7);
    assert!(screen.receive_reply(asked[0].0, CommandReply::Began(call), &world.known()).is_empty());
    world.now += 29_000;
    assert!(screen.tick(&world.known()).is_empty());
    world.now += 1_000;
    let requests = screen.tick(&world.known());
    let cancelled = |request: &ScreenRequest| matches!(request, ScreenRequest::Send(command) if matches!(**command, SessionCommand::Cancel { call_id } if call_id == call));
    assert!(requests.iter().any(cancelled), "{requests:?}");
    assert!(drawn(&screen, &world, AREA).contains("no reply came in time"));
    // Its reply means nothing any more.
    let late = answer("list_positions", &json!({"chain": "ethereum"}), "WETH");
    screen.receive_reply(asked[0].0, late, &world.known());
    assert!(!drawn(&screen, &world, AREA).contains("V3 #42"));
    // The operator can stop it as well.
    let stopped = screen.act(Action::Back, &world.known(), AREA);
    assert!(stopped.is_some() && drawn(&screen, &world, AREA).contains("the reading was stopped"));
    assert!(screen.act(Action::Back, &world.known(), AREA).is_none(), "nothing is left to stop");
}

#[test]
fn all_pages_are_read_up_to_five_hundred_positions_and_the_rest_is_counted() {
    let world = world();
    let mut screen = Positions::default();
    let requests = screen.shown(&world.known());
    let pages = |tool: &str, params: &Value| {
        if tool != "list_positions" || params["chain"] != "ethereum" {
            return answer(tool, &json!({"chain": "base"}), "WETH");
        }
        let offset = params["offset"].as_u64().unwrap();
        let entry = |at: u64| samples::position("WETH", &(offset + at).to_string(), -196_000, "open");
        let entries = (0..100).map(entry).collect();
        response(Some(samples::positions_reply(entries, Some(offset + 100), 812, 3)), None)
    };
    // Five pages of one chain, two other reads there, and three on the other chain.
    assert_eq!(served(&mut screen, &world, requests, &pages), 5 + 2 + 3);
    let text = drawn(&screen, &world, AREA);
    assert!(text.contains("of 500  $854,205.00"), "{text}");
    // 812 less 500, and three of which the endpoint says nothing.
    assert!(text.contains("ethereum: 315 positions not listed"), "{text}");
}

#[test]
fn an_action_opens_the_form_of_its_tool_with_what_is_known_and_signs_nothing() {
    let world = with_tools(world());
    let mut screen = read(&world, "WETH");
    let opened = |screen: &mut Positions, letter: &str| {
        assert!(screen.act(Action::Open, &world.known(), AREA).unwrap().is_empty() && screen.asks());
        drawn(screen, &world, AREA);
        assert!(typed(screen, &world, "\n").is_empty(), "nothing is picked by itself");
        let requests = typed(screen, &world, &format!("{letter}\n"));
        let [ScreenRequest::OpenForm { tool, params }] = &requests[..] else { panic!("{requests:?}") };
        (tool.clone(), params.clone())
    };
    // Rows: the market, its two tokens, the vault, four liquidity positions.
    screen.act(Action::Down, &world.known(), AREA);
    screen.act(Action::Down, &world.known(), AREA);
    let expected = json!({"chain": "ethereum", "token": "USDC", "amount": "max"});
    assert_eq!(opened(&mut screen, "r"), ("lending_repay".to_owned(), expected));
    screen.act(Action::Down, &world.known(), AREA);
    let expected = json!({"chain": "ethereum", "vault_address": VAULT, "shares": "max"});
    assert_eq!(opened(&mut screen, "w"), ("vault_withdraw".to_owned(), expected));
    screen.act(Action::Down, &world.known(), AREA);
    let expected = json!({"chain": "ethereum", "position_id": "42"});
    assert_eq!(opened(&mut screen, "c"), ("collect_fees".to_owned(), expected));
    // A locked one cannot be collected from: only the try to close it is offered.
    screen.act(Action::Bottom, &world.known(), AREA);
    screen.act(Action::Up, &world.known(), AREA);
    let (tool, params) = opened(&mut screen, "x");
    assert_eq!((tool.as_str(), &params["position_id"]), ("close_position", &json!("v4:7")));
    screen.act(Action::Open, &world.known(), AREA);
    let text = drawn(&screen, &world, AREA);
    assert!(text.contains("the last simulated withdrawal failed") && !text.contains("collect its fees"), "{text}");
}

#[test]
fn a_form_that_is_opened_holds_nothing_of_an_earlier_input() {
    use crate::screens::trade::Trade;
    let world = with_tools(world());
    let mut trade = Trade::default();
    assert!(trade.fill_form("remove_liquidity", &json!({"chain": "base", "position_id": "9"}), &world.known()));
    typed(&mut trade, &world, "75");
    let text = drawn(&trade, &world, AREA);
    assert!(text.contains("75") && text.contains("base"), "{text}");
    assert!(trade.fill_form("remove_liquidity", &json!({"position_id": "42"}), &world.known()));
    let text = drawn(&trade, &world, AREA);
    assert!(!text.contains("75") && text.contains("42") && text.contains("ethereum"), "{text}");
    assert!(!trade.fill_form("burn_everything", &json!({}), &world.known()));
}

#[test]
fn a_console_that_only_watches_reads_no_positions_and_opens_no_form() {
    let mut world = with_tools(world());
    // The session refuses its calls, so it makes none and says so.
    let mut unread = Positions::default();
    world.watch_only = true;
    assert!(unread.shown(&world.known()).is_empty());
    assert!(drawn(&unread, &world, AREA).contains("reads no positions"), "{}", drawn(&unread, &world, AREA));
    world.watch_only = false;
    let mut screen = read(&world, "WETH");
    world.watch_only = true;
    let said = screen.act(Action::Open, &world.known(), AREA).unwrap();
    assert!(matches!(&said[..], [ScreenRequest::Notice(_)]) && !screen.asks(), "{said:?}");
}

/// An action on a position makes every earlier reading outdated.
#[test]
fn positions_are_read_again_after_an_action_and_not_before_they_are_old() {
    let mut world = world();
    let mut screen = read(&world, "WETH");
    assert!(screen.shown(&world.known()).is_empty(), "just read");
    assert!(screen.tick(&world.known()).is_empty());
    let call = CallId::new(9);
    let event = |seq: u64, kind: EventKind| {
        std::sync::Arc::new(bardo_base::fabric::Event {
            seq,
            at: world.now + 10,
            golem_id: "ada".parse().unwrap(),
            call_id: Some(call),
            kind,
        })
    };
    let started = |tool: &'static str| {
        EventKind::ToolStart(ToolStart {
            tool_name: tool.into(),
            params: RedactedParams::new(&json!({}), &[]),
            params_hash: alloy_primitives::B256::ZERO,
            tick: None,
            facts: None,
        })
    };
    let ended = || {
        EventKind::ToolEnd(ToolEnd {
            success: true,
            state: None,
            duration_ms: 9,
            result_summary: Value::Null,
            card: None,
        })
    };
    let first = world.feed.last;
    let both = [event(first + 1, started("close_position")), event(first + 2, ended())];
    both.iter().for_each(|event| world.feed.take(event));
    world.now += 1_000;
    let requests = screen.tick(&world.known());
    assert_eq!(calls(&requests).len(), 4, "{requests:?}");
    served(&mut screen, &world, requests, &sample);
    world.now += 5_000;
    assert!(screen.shown(&world.known()).is_empty());
    world.now += 31_000;
    assert_eq!(calls(&screen.shown(&world.known())).len(), 4);
}

/// Asynchronous vaults with requests in each state, and one that the account manages, with and without a pause.
fn with_requests(world: &TestHarness) -> Positions {
    let address = |at: u8| format!("0x{}", format!("{at:02x}").repeat(20));
    let open = |pending: &str, cancellable: Option<bool>, claimable: &str| {
        json!({
            "pending_deposit": pending, "cancellable": cancellable, "claimable_deposit": claimable,
            "pending_withdrawal": "0", "claimable_withdrawal": "0",
        })
    };
    let leaving = json!({
        "pending_deposit": "0", "cancellable": null, "claimable_deposit": "0", "pending_withdrawal": "120.5",
        "claimable_withdrawal": "33",
    });
    let asks = json!({"is_asynchronous": true, "has_requests": true});
    let runs = |is_paused: bool| json!({"is_asynchronous": true, "is_managed": true, "is_paused": is_paused});
    let vaults = vec![
        samples::listed_vault(&address(1), "0", asks.clone()),
        samples::listed_vault(&address(2), "0", asks.clone()),
        samples::listed_vault(&address(3), "0", asks.clone()),
        samples::listed_vault(&address(4), "12", asks),
        samples::listed_vault(&address(5), "0", runs(false)),
        samples::listed_vault(&address(6), "0", runs(true)),
        samples::listed_vault(&address(7), "0", json!({"is_asynchronous": true})),
    ];
    let state = |at: &Value, requests: Value, shares: &str| {
        let mut data = samples::vault_reply("USDC", shares);
        data["vault_address"] = at.clone();
        data["is_asynchronous"] = json!(true);
        data["requests"] = requests;
        data
    };
    let reply = |tool: &str, params: &Value| {
        if params["chain"] != "ethereum" || tool == "get_lending_position" {
            let error = ToolError::new(ErrorCode::ChainUnsupported, "the address book has no such contract");
            return response(None, Some(error));
        }
        let at = &params["vault_address"];
        let data = match (tool, at.as_str().and_then(|at| at.chars().nth(3))) {
            ("list_positions", _) => samples::positions_reply(Vec::new(), None, 0, 0),
            ("vault_list", _) => samples::vaults_reply(vaults.clone()),
            ("get_vault_state", Some('1')) => state(at, open("510", Some(true), "0"), "0"),
            ("get_vault_state", Some('2')) => state(at, open("200", Some(false), "0"), "0"),
            ("get_vault_state", Some('3')) => state(at, open("0", None, "510"), "0"),
            ("get_vault_state", Some('4')) => state(at, leaving.clone(), "12"),
            ("get_vault_state", Some(_)) => state(at, Value::Null, "0"),
            (other, _) => panic!("{other}"),
        };
        response(Some(data), None)
    };
    let mut screen = Positions::default();
    let requests = screen.shown(&world.known());
    served(&mut screen, world, requests, &reply);
    screen
}

#[test]
fn requests_and_managed_vaults_at_each_size() {
    let world = world();
    let mut screen = with_requests(&world);
    pictured("requests", &screen, &world);
    // The one whose request is stuck, and the one that the account manages.
    screen.act(Action::Down, &world.known(), AREA);
    screen.act(Action::Zoom, &world.known(), AREA);
    pictured("stuck", &screen, &world);
    for _ in 0..3 {
        screen.act(Action::Down, &world.known(), AREA);
    }
    pictured("managed", &screen, &world);
}

/// A vault in which the account has nothing is not listed; the others offer what can be done about them, and nothing else.
#[test]
fn a_vault_offers_what_its_requests_and_roles_allow() {
    let mut world = world();
    let tools = [
        "vault_claim",
        "vault_cancel_request",
        "vault_withdraw",
        "vault_deposit",
        "vault_settle",
        "vault_pause",
        "vault_resume",
        "vault_teardown",
    ];
    let tool = |name: &str| ToolInfo {
        category: Category::Vault,
        ..super::super::form::tests::tool(name, CapabilityTier::Write)
    };
    world.ready.tools.extend(tools.map(tool));
    let mut screen = with_requests(&world);
    let text = drawn(&screen, &world, AREA);
    assert!(text.contains("Positions 6") && text.contains("STUCK"), "{text}");
    let mut offers = Vec::new();
    for _ in 0..6 {
        assert!(screen.act(Action::Open, &world.known(), AREA).unwrap().is_empty());
        offers.push(drawn(&screen, &world, AREA));
        screen.act(Action::Back, &world.known(), AREA);
        screen.act(Action::Down, &world.known(), AREA);
    }
    let words =
        ["cancel the request", "claim the shares", "claim the tokens", "settle its requests", "pause it", "resume it"];
    let offered: Vec<Vec<&str>> =
        offers.iter().map(|text| words.into_iter().filter(|words| text.contains(words)).collect()).collect();
    let expected: [&[&str]; 6] = [
        &["cancel the request"],
        &[],
        &["claim the shares"],
        &["claim the tokens"],
        &["settle its requests", "pause it"],
        &["settle its requests", "resume it"],
    ];
    assert_eq!(offered, expected, "{}", offers.join("\n"));
}

#[test]
fn a_filter_finds_by_state() {
    let world = world();
    let mut screen = read(&world, "WETH");
    screen.act(Action::Filter, &world.known(), AREA);
    typed(&mut screen, &world, "locked\n");
    let text = drawn(&screen, &world, AREA);
    assert!(text.contains("Positions 1") && text.contains("V4 #7") && !text.contains("V3 #42"), "{text}");
}
