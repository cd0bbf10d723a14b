//! Tests of the screens on which an operator acts: by keyboard alone, by mouse alone, at every size, with hostile text.

use alloy_primitives::{Address, B256};
use crossterm::event::{KeyCode, KeyModifiers};
use proptest::prelude::*;
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::{Position, Rect};
use serde_json::{Value, json};

use super::agents::Agents;
use super::audit::Audit;
use super::custody::Custody;
use super::network::NetworkScreen;
use super::orders::Orders;
use super::pools::Pools;
use super::portfolio::Portfolio;
use super::positions::Positions;
use super::tools::Tools;
use super::trade::Trade;
use super::transactions::Transactions;
use super::{CommandReply, ScreenId, ScreenRequest, ScreenView, holder};
use crate::keymap::{Action, Key};
use crate::painter::Painter;
use crate::state::model::*;
use crate::theme::Theme;
use crate::widgets::samples::{self, START_MILLIS};
use bardo_base::fabric::{DecayUnit, Event, EventKind, IntentStatus, RedactedParams, ToolStart, TxState, TxUpdate};
use bardo_base::id::{CallId, PermitId};
use bardo_base::text::{SafeText, corpus};
use bardo_session::envelope::{CallStatus, ToolResponse};
use bardo_session::handle::{DevnetControl, QueryResult, SessionCommand};

mod asking;
mod audit;
mod custody;
mod deposits;
mod lending;
mod narrowing;
mod pools;
mod positions;
mod registry;
mod results;
mod schedules;
mod trading;
mod under_way;
mod world;

pub(crate) use custody::sample as sample_custody;
pub(crate) use pools::sample as sample_pools;
pub(crate) use positions::sample as sample_positions;
pub(crate) use registry::sample as sample_agents;
pub(crate) use under_way::sample as sample_transactions;
use world::{TestHarness, in_words, world};

const AREA: Rect = Rect { x: 0, y: 0, width: 120, height: 36 };

fn safe(text: &str) -> SafeText {
    SafeText::clean(text, 200)
}

fn key(code: KeyCode) -> Key {
    Key { code, modifiers: KeyModifiers::NONE }
}

fn typed(screen: &mut dyn ScreenView, world: &TestHarness, words: &str) -> Vec<ScreenRequest> {
    let mut requests = Vec::new();
    for (at, letter) in words.char_indices() {
        // Waits for the guard time before a pair of keys that ends with Enter.
        if words[at..].chars().take(2).any(|one| one == '\n') {
            world.calm.set(world.calm.get() + 1_000);
        }
        let code = match letter {
            '\n' => KeyCode::Enter,
            '\t' => KeyCode::Tab,
            letter => KeyCode::Char(letter),
        };
        assert!(screen.type_key(key(code), &world.known(), &mut requests), "{letter:?} was not taken");
    }
    requests
}

fn calls(requests: &[ScreenRequest]) -> Vec<(u32, String, Value, bool)> {
    let of = |request: &ScreenRequest| match request {
        ScreenRequest::Send(command) => match command.as_ref() {
            SessionCommand::Call { ticket, tool, params, dry_run, .. } => {
                Some((holder(*ticket).unwrap().1, tool.clone(), params.clone(), *dry_run))
            }
            // A write of the trade screen signs nothing before it is committed.
            SessionCommand::Offer { ticket, tool, params } => {
                Some((holder(*ticket).unwrap().1, tool.clone(), params.clone(), true))
            }
            _ => None,
        },
        _ => None,
    };
    requests.iter().filter_map(of).collect()
}

fn drawn(screen: &dyn ScreenView, world: &TestHarness, area: Rect) -> String {
    let theme = Theme::load("dark", None).unwrap().0;
    let mut buffer = Buffer::empty(area);
    screen.draw(&world.known(), &mut Painter { buffer: &mut buffer, theme: &theme }, area);
    let line = |cells: &[Cell]| cells.iter().map(Cell::symbol).collect::<String>();
    let rows = buffer.content.chunks(usize::from(area.width.max(1)));
    rows.map(|row| line(row).trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// Position of a text on the screen.
fn place_of(screen: &dyn ScreenView, world: &TestHarness, words: &str) -> Position {
    let text = drawn(screen, world, AREA);
    for (y, row) in (0..).zip(text.lines()) {
        if let Some(at) = row.find(words) {
            return Position { x: u16::try_from(bardo_base::text::width(&row[..at])).unwrap(), y };
        }
    }
    panic!("`{words}` does not stand in\n{text}");
}

fn click(screen: &mut dyn ScreenView, world: &TestHarness, words: &str) -> Vec<ScreenRequest> {
    let at = place_of(screen, world, words);
    world.calm.set(world.calm.get() + 1_000);
    screen.click(at, &world.known(), AREA)
}

#[test]
fn an_allowance_is_revoked_by_keyboard_and_by_mouse_and_never_by_enter_alone() {
    let world = world();
    let mut screen = Portfolio::default();
    screen.act(Action::NextPanel, &world.known(), AREA);
    screen.act(Action::Down, &world.known(), AREA);
    assert!(screen.act(Action::CancelSelected, &world.known(), AREA).unwrap().is_empty());
    assert!(calls(&typed(&mut screen, &world, "\n\n")).is_empty());
    let spender = Address::repeat_byte(0xa3).to_string();
    assert!(drawn(&screen, &world, AREA).contains(&spender), "the address stands whole");
    let done = calls(&typed(&mut screen, &world, "r\n"));
    let [(_, tool, params, false)] = &done[..] else { panic!("{done:?}") };
    assert_eq!((tool.as_str(), &params["spender"]), ("token_revoke", &json!(spender)));
    assert_eq!(params["token"], json!(Address::repeat_byte(2).to_string()));
    let mut screen = Portfolio::default();
    click(&mut screen, &world, "x revokes");
    assert!(screen.accepts_text(), "the words at the edge are a button");
    let mut screen = Portfolio::default();
    click(&mut screen, &world, "✓ Approved");
    click(&mut screen, &world, "✓ Approved");
    assert!(screen.accepts_text(), "the second click on a row opens its question");
    click(&mut screen, &world, "r revoke it");
    let done = calls(&click(&mut screen, &world, "Enter confirms"));
    assert!(
        matches!(&done[..], [(_, tool, params, false)] if tool == "token_revoke" && params["token"] == json!(Address::repeat_byte(1).to_string()))
    );
}

#[test]
fn what_was_never_locked_is_over_and_nothing_of_it_is_taken_back() {
    let mut world = world();
    world.feed.intents.nth_mut(0).1.status = IntentStatus::Expired;
    world.feed.intents.nth_mut(0).1.refund_from = None;
    let mut screen = Orders::default();
    assert!(drawn(&screen, &world, AREA).contains("refund…"));
    assert!(screen.act(Action::CancelSelected, &world.known(), AREA).unwrap().is_empty() && screen.accepts_text());
    world.feed.intents.nth_mut(0).1.locked = None;
    let mut screen = Orders::default();
    assert!(drawn(&screen, &world, AREA).contains("1 open · 2 past"), "{}", drawn(&screen, &world, AREA));
    // The order is listed first among the past ones.
    screen.act(Action::Down, &world.known(), AREA);
    let shown = drawn(&screen, &world, AREA);
    assert!(shown.contains("Nothing was delivered") && !shown.contains("refund…"), "{shown}");
    let said = screen.act(Action::CancelSelected, &world.known(), AREA).unwrap();
    assert!(matches!(&said[..], [ScreenRequest::Notice(_)]) && !screen.accepts_text(), "{said:?}");
}

#[test]
fn the_choice_among_orders_goes_with_the_order_and_not_with_the_row() {
    let mut world = world();
    let mut screen = Orders::default();
    screen.act(Action::Down, &world.known(), AREA);
    let open = samples::order(DecayUnit::Seconds).order_hash.to_string();
    let copied = |screen: &mut Orders, world: &TestHarness| screen.act(Action::Copy, &world.known(), AREA).unwrap();
    assert_eq!(copied(&mut screen, &world), [ScreenRequest::Copy(open.clone())]);
    // The order ends and moves to the past ones. The selection follows it instead of staying in its row.
    let order = world.feed.orders.iter_mut().find(|(_, one)| one.order_hash.to_string() == open).unwrap();
    order.1.status = bardo_base::fabric::OrderStatus::Cancelled;
    world.feed.intents.nth_mut(0).1.status = IntentStatus::Filled;
    assert_eq!(copied(&mut screen, &world), [ScreenRequest::Copy(open)]);
}

#[test]
fn an_order_is_cancelled_while_it_is_open_and_money_taken_back_once_its_time_is_over() {
    let mut world = world();
    let mut screen = Orders::default();
    let notice =
        |requests: &[ScreenRequest]| requests.iter().any(|request| matches!(request, ScreenRequest::Notice(_)));
    // The bridge order is the newest open one, and it cannot be refunded yet.
    let said = screen.act(Action::CancelSelected, &world.known(), AREA).unwrap();
    assert!(notice(&said) && !screen.accepts_text());
    // The order has expired, but the settler does not refund yet: neither the card nor the key offers a refund.
    world.feed.intents.nth_mut(0).1.status = IntentStatus::Expired;
    let at = world.now / 1000;
    world.feed.intents.nth_mut(0).1.refund_from = Some(at + 1);
    let shown = drawn(&screen, &world, AREA);
    assert!(shown.contains("(in 1 s)") && !shown.contains("refund…"), "{shown}");
    let said = screen.act(Action::CancelSelected, &world.known(), AREA).unwrap();
    assert!(notice(&said) && !screen.accepts_text(), "{said:?}");
    assert!(format!("{said:?}").contains("refund from"), "{said:?}");
    world.feed.intents.nth_mut(0).1.refund_from = Some(at);
    assert!(drawn(&screen, &world, AREA).contains("refund…"));
    assert!(screen.act(Action::CancelSelected, &world.known(), AREA).unwrap().is_empty());
    drawn(&screen, &world, AREA);
    let done = calls(&typed(&mut screen, &world, "r\n"));
    let id = samples::intent().intent_id.to_string();
    assert!(
        matches!(&done[..], [(_, tool, params, false)] if tool == "intent_refund" && params["intent_id"] == json!(id)),
        "{done:?}"
    );
    screen.act(Action::Down, &world.known(), AREA);
    screen.act(Action::CancelSelected, &world.known(), AREA);
    drawn(&screen, &world, AREA);
    // 46,000 units of gas at 31 gwei, and 4.25 WETH that are worth $14,503.34.
    let shown = drawn(&screen, &world, AREA);
    assert!(shown.contains("gas   about 0.001426 WETH ($4.87) at the present base fee"), "{shown}");
    let done = calls(&typed(&mut screen, &world, "c\n"));
    let hash = samples::order(DecayUnit::Seconds).order_hash.to_string();
    assert!(
        matches!(&done[..], [(_, tool, params, false)] if tool == "uniswapx_cancel_order" && params["order_hash"] == json!(hash) && params["chain"] == "31337"),
        "{done:?}"
    );
    screen.act(Action::Bottom, &world.known(), AREA);
    assert!(notice(&screen.act(Action::CancelSelected, &world.known(), AREA).unwrap()), "a past order");
    // A tool that this build does not have is not offered.
    world.ready.tools.retain(|tool| !tool.name.as_str().contains("cancel"));
    screen.act(Action::Up, &world.known(), AREA);
    assert!(notice(&screen.act(Action::CancelSelected, &world.known(), AREA).unwrap()) && !screen.accepts_text());
}

#[test]
fn what_nobody_has_taken_yet_can_be_made_void_and_its_card_says_so() {
    let mut world = world();
    let mut screen = Orders::default();
    // A bridge order without a lock, and an auction that no service has confirmed.
    world.feed.intents.nth_mut(0).1.status = IntentStatus::Pending;
    world.feed.intents.nth_mut(0).1.locked = None;
    let hash = samples::order(DecayUnit::Seconds).order_hash;
    let order = world.feed.orders.iter_mut().find(|(_, one)| one.order_hash == hash).unwrap();
    order.1.status = bardo_base::fabric::OrderStatus::Pending;
    for id in [samples::intent().intent_id, hash] {
        let shown = drawn(&screen, &world, AREA);
        assert!(shown.contains("x cancel…"), "{shown}");
        let said = screen.act(Action::CancelSelected, &world.known(), AREA).unwrap();
        assert!(said.is_empty() && screen.accepts_text(), "{said:?}");
        drawn(&screen, &world, AREA);
        let done = calls(&typed(&mut screen, &world, "c\n"));
        assert!(
            matches!(&done[..], [(_, tool, params, false)] if tool == "uniswapx_cancel_order" && params["order_hash"] == json!(id.to_string())),
            "{done:?}"
        );
        screen.act(Action::Down, &world.known(), AREA);
    }
    // A locked order can no longer be cancelled.
    world.feed.intents.nth_mut(0).1 = samples::intent();
    screen.act(Action::Top, &world.known(), AREA);
    assert!(!drawn(&screen, &world, AREA).contains("x cancel…"));
    assert!(matches!(
        &screen.act(Action::CancelSelected, &world.known(), AREA).unwrap()[..],
        [ScreenRequest::Notice(_)]
    ));
}

#[test]
fn orders_are_filtered_as_one_types() {
    let world = world();
    let mut screen = Orders::default();
    assert!(drawn(&screen, &world, AREA).contains("2 open · 1 past"));
    screen.act(Action::Filter, &world.known(), AREA);
    typed(&mut screen, &world, "status:expired\n");
    assert!(!screen.accepts_text());
    assert!(drawn(&screen, &world, AREA).contains("0 open · 1 past"));
    screen.act(Action::Back, &world.known(), AREA);
    assert!(drawn(&screen, &world, AREA).contains("2 open · 1 past"));
}

#[test]
fn the_catalog_runs_what_reads_and_nothing_that_signs() {
    let world = world();
    let mut screen = Tools::default();
    screen.act(Action::Open, &world.known(), AREA);
    assert!(screen.accepts_text());
    let asked = calls(&typed(&mut screen, &world, "\n"));
    assert!(matches!(&asked[..], [(1, tool, ..)] if tool == "get_balances"), "{asked:?}");
    let call_id = CallId::new(START_MILLIS);
    let reply = ToolResponse {
        call_id,
        status: CallStatus::Success,
        data: Some(json!({"total_usd": "24979.76"})),
        error: None,
        decision_hints: None,
        explanation: Some("The account holds much.".to_owned()),
    };
    screen.receive_reply(1, CommandReply::Reply(Box::new(reply)), &world.known());
    let text = drawn(&screen, &world, AREA);
    assert!(text.contains("24979.76") && text.contains("The account holds much."), "{text}");
    let mut requests = Vec::new();
    screen.type_key(key(KeyCode::Esc), &world.known(), &mut requests);
    for _ in 0..10 {
        let chosen = drawn(&screen, &world, AREA);
        let opened = screen.act(Action::Open, &world.known(), AREA).unwrap();
        assert_eq!(screen.accepts_text(), !chosen.contains("signs, inside the policy"), "{chosen}");
        assert!(calls(&opened).is_empty());
        screen.type_key(key(KeyCode::Esc), &world.known(), &mut requests);
        screen.act(Action::Down, &world.known(), AREA);
    }
}

#[test]
fn the_devnet_is_controlled_where_there_is_one_and_nowhere_else() {
    let mut world = world();
    let mut screen = NetworkScreen::default();
    screen.act(Action::PreviousPanel, &world.known(), AREA);
    let requests = screen.act(Action::Open, &world.known(), AREA).unwrap();
    let mine = DevnetControl::Mine { chain_id: 31_337, blocks: 1 };
    assert!(
        requests.iter().any(
            |request| matches!(request, ScreenRequest::Send(command) if **command == SessionCommand::Devnet(mine))
        )
    );
    let Some(network) = &mut world.page.network else { panic!() };
    network.money = MoneyKind::Real;
    let requests = screen.act(Action::Open, &world.known(), AREA).unwrap();
    assert!(!requests.iter().any(|request| matches!(request, ScreenRequest::Send(_))), "{requests:?}");
    assert!(!drawn(&screen, &world, AREA).contains("mine 1 block"));
}

#[test]
fn health_and_latency_are_those_of_the_answer() {
    let world = world();
    let mut screen = NetworkScreen::default();
    assert_eq!(calls(&screen.shown(&world.known())).len(), 1);
    assert!(calls(&screen.shown(&world.known())).is_empty(), "not again so soon");
    let data = json!({"chains": [{"chain_id": 31338, "condition": "degraded", "last_error": "timed out",
        "endpoints": [{"endpoint": "rpc.example", "condition": "down", "lag_blocks": 7, "latency_ms": 412}]}]});
    let call_id = CallId::new(START_MILLIS);
    let reply = ToolResponse {
        call_id,
        status: CallStatus::Success,
        data: Some(data),
        error: None,
        decision_hints: None,
        explanation: None,
    };
    screen.receive_reply(1, CommandReply::Reply(Box::new(reply)), &world.known());
    let text = drawn(&screen, &world, AREA);
    for words in ["▲ base", "degraded", "✕ rpc.example", "412 ms, 7 blocks behind", "timed out"] {
        assert!(text.contains(words), "{words}\n{text}");
    }
}

fn screens() -> Vec<Box<dyn ScreenView>> {
    vec![
        Box::<Trade>::default(),
        Box::<Orders>::default(),
        Box::<Portfolio>::default(),
        Box::<Tools>::default(),
        Box::<NetworkScreen>::default(),
        Box::<Audit>::default(),
        Box::<Transactions>::default(),
        Box::<Agents>::default(),
        Box::<Positions>::default(),
        Box::<Pools>::default(),
        Box::<Custody>::default(),
    ]
}

/// Shows a screen and answers its audit log query.
fn open(screen: &mut dyn ScreenView, world: &TestHarness) -> Vec<ScreenRequest> {
    let requests = screen.shown(&world.known());
    if screen.id() == ScreenId::Audit {
        let found = QueryResult::Audit { entries: world.entries.clone() };
        screen.receive_reply(1, CommandReply::Found(Box::new(found)), &world.known());
    }
    requests
}

#[test]
fn a_console_that_only_watches_changes_nothing_from_any_screen() {
    let mut world = world();
    world.watch_only = true;
    let keys = "\n\tWETH\tUSDC\t0.25\n\nrcs\nq\n";
    for mut screen in screens() {
        let mut requests = open(screen.as_mut(), &world);
        for action in [
            Action::Open,
            Action::CancelSelected,
            Action::NextPanel,
            Action::Down,
            Action::CancelSelected,
            Action::NextPanel,
            Action::Open,
            Action::CancelSelected,
            Action::SpeedUp,
            Action::Rebroadcast,
        ] {
            requests.extend(screen.act(action, &world.known(), AREA).unwrap_or_default());
            for letter in keys.chars() {
                if screen.accepts_text() {
                    let code = if letter == '\n' { KeyCode::Enter } else { KeyCode::Char(letter) };
                    screen.type_key(key(code), &world.known(), &mut requests);
                }
            }
            screen.type_key(key(KeyCode::Esc), &world.known(), &mut requests);
        }
        for request in &requests {
            assert!(!matches!(request, ScreenRequest::Confirm { .. }), "{request:?}");
            if let ScreenRequest::Send(command) = request {
                let reads = [
                    "uniswap_get_quote",
                    "get_chain_status",
                    "get_balances",
                    "list_positions",
                    "get_lending_position",
                    "get_vault_state",
                    "vault_list",
                    "list_pools",
                    "get_pool_info",
                    "wallet_get_status",
                    "session_get_keys",
                    "wallet_get_delegation",
                    "get_allowances",
                ];
                let identity = |tool: &str| tool.starts_with("identity_");
                let harmless = match command.as_ref() {
                    SessionCommand::Call { tool, .. } => reads.contains(&tool.as_str()) || identity(tool),
                    SessionCommand::Look { .. } => true,
                    _ => false,
                };
                assert!(harmless, "{command:?}");
            }
        }
    }
}

#[test]
fn screens_as_pictures() {
    let world = world();
    for screen in &mut screens() {
        open(screen.as_mut(), &world);
        for (width, height) in [(80, 20), (120, 36), (40, 20), (14, 5)] {
            let text = drawn(screen.as_ref(), &world, Rect { x: 0, y: 0, width, height });
            insta::assert_snapshot!(format!("{}_{width}x{height}", screen.id().name().to_lowercase()), text);
        }
    }
}

#[test]
fn no_hostile_text_reaches_a_cell_of_these_screens() {
    let theme = Theme::load("dark", None).unwrap().0;
    for word in corpus::all() {
        let world = in_words(&word);
        for screen in &mut screens() {
            open(screen.as_mut(), &world);
            if screen.id() == ScreenId::Agents {
                *screen = Box::new(registry::read(&world, &word));
            }
            if screen.id() == ScreenId::Custody {
                *screen = Box::new(custody::read(&world, &word));
            }
            if screen.id() == ScreenId::Pools {
                *screen = Box::new(pools::read_named(&world, &word));
            }
            if screen.id() == ScreenId::Positions {
                *screen = Box::new(positions::read(&world, &word));
            }
            let mut buffer = Buffer::empty(AREA);
            screen.draw(&world.known(), &mut Painter { buffer: &mut buffer, theme: &theme }, AREA);
            for cell in &buffer.content {
                assert!(!cell.symbol().chars().any(char::is_control), "{word:?} on {:?}", screen.id());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn no_screen_draws_outside_or_panics(
        which in 0usize..11,
        (width, height, x, y) in (0u16..200, 0u16..60, 0u16..6, 0u16..6),
        actions in prop::collection::vec(0usize..14, 0..12),
        clicks in prop::collection::vec((0u16..206, 0u16..66, any::<bool>()), 0..8),
    ) {
        let world = world();
        let theme = Theme::load("dark", None).unwrap().0;
        let area = Rect::new(x, y, width, height);
        let mut screen = screens().swap_remove(which);
        open(screen.as_mut(), &world);
        if screen.id() == ScreenId::Positions {
            screen = Box::new(positions::read(&world, "WETH"));
        }
        if screen.id() == ScreenId::Pools {
            screen = Box::new(pools::read(&world));
        }
        if screen.id() == ScreenId::Custody {
            screen = Box::new(custody::read(&world, "WETH"));
        }
        let all = [
            Action::Down, Action::Up, Action::Top, Action::Bottom, Action::HalfPageDown, Action::HalfPageUp, Action::Open,
            Action::Filter, Action::NextPanel, Action::PreviousPanel, Action::Zoom, Action::LongerRange,
            Action::CancelSelected, Action::Back,
        ];
        for action in actions {
            screen.act(all[action], &world.known(), area);
        }
        for (column, row, down) in clicks {
            let at = Position { x: column, y: row };
            screen.click(at, &world.known(), area);
            screen.wheel(at, down, &world.known(), area);
        }
        let whole = Rect::new(0, 0, 210, 70);
        let mut buffer = Buffer::filled(whole, Cell::new("░"));
        screen.draw(&world.known(), &mut Painter { buffer: &mut buffer, theme: &theme }, area);
        for position in whole.positions() {
            if !area.contains(position) {
                prop_assert_eq!(buffer[position].symbol(), "░", "{:?} of {:?}", position, area);
            }
        }
    }
}

#[test]
fn a_young_chain_shows_its_own_interval_and_not_that_of_its_set_up() {
    let mut world = world();
    let shown = |world: &TestHarness| drawn(&NetworkScreen::default(), world, AREA);
    for chain in &mut world.page.chains {
        chain.blocks.truncate(2);
        // The set-up skipped a minute before the first block that counts.
        chain.blocks[1].timestamp = chain.blocks[0].timestamp - 60;
    }
    let text = shown(&world);
    assert!(text.contains("every 2 s") && text.contains("every 1 s") && !text.contains("60 s"), "{text}");
}
