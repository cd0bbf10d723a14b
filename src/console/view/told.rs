//! What the screens say, and in which words: one test for each thing that an operator must not be told wrongly.

use std::sync::Arc;

use alloy::primitives::{B256, U256};
use crossterm::event::{KeyCode, KeyModifiers};
use serde_json::{Value, json};

use super::tests::{deciding, drawn, news, question, running, text};
use crate::base::error::ErrorCode;
use crate::base::id::{CallId, PermitId};
use crate::base::model::{Check, Phase, StopLevel};
use crate::base::units::Usd;
use crate::console::keymap::{Action, Context, Key};
use crate::console::screens::ScreenId;
use crate::console::state::{Effect, Input, Layer, State};
use crate::console::widgets::samples;
use crate::fabric::*;
use crate::runtime::handle::{
    AllowancesNow, BreakerNow, Command, GrantNow, Limits, News, PolicyNow, Ready, ReplayControl, ReplayNow, Snapshot,
    SpendNow, StopNow,
};
use crate::runtime::market::model::{BootStep, Money, Network, Update};

fn shown(state: &State) -> String {
    drawn(state).join("\n")
}

fn key(state: &mut State, letter: char) -> Vec<Effect> {
    state.update(Input::Key(Key::char(letter)))
}

fn control(letter: char) -> Input {
    Input::Key(Key { code: KeyCode::Char(letter), modifiers: KeyModifiers::CONTROL })
}

/// Events of one call, or of none, told one after another.
pub(super) fn tell(state: &mut State, call: Option<CallId>, kinds: Vec<EventKind>) {
    let first = state.feed.last + 1;
    let at = state.now_millis;
    let event = |(seq, kind)| Arc::new(Event { seq, at, golem_id: "ada".parse().unwrap(), call_id: call, kind });
    news(state, News::Events((first..).zip(kinds).map(event).collect()));
}

pub(super) fn start(tool: &'static str, params: Value) -> EventKind {
    EventKind::ToolStart(ToolStart {
        tool_name: tool.into(),
        params: Redacted::new(&params, &[]),
        params_hash: B256::ZERO,
        tick: None,
    })
}

fn tx(state: TxState) -> EventKind {
    let hash = B256::repeat_byte(0x8c);
    EventKind::TxUpdate(TxUpdate { chain_id: 31_337, hash, leg: 1, of: 1, state, block: Some(1285) })
}

fn usd(figure: &str) -> Usd {
    figure.parse().unwrap()
}

pub(super) fn snapshot() -> Snapshot {
    let spend = |used, limit| SpendNow { used: usd(used), limit: Some(usd(limit)) };
    Snapshot {
        golem_id: "ada".parse().unwrap(),
        at: samples::START_MILLIS,
        account: Some(alloy::primitives::Address::repeat_byte(7)),
        paper: false,
        phase: Phase::Thriving,
        policy: PolicyNow { name: text("demo"), version: 3, hash: B256::ZERO },
        limits: Some(Limits {
            day: spend("1966.02", "5000"),
            month: spend("1966.02", "50000"),
            one: spend("853.14", "2500"),
            reserved: usd("853.14"),
            asks_above: Some(usd("1000")),
            hot_lane: None,
            calls: (3, 10),
            trades: (1, 120),
            breaker: BreakerNow::Closed { failures: 0 },
            failures_limit: 3,
            stop_loss_bps: 1_000,
            high_water: usd("25400"),
        }),
        fault: None,
        stop: None,
        keys_revoked: false,
        holdings: Vec::new(),
        equity: Some(usd("25310.42")),
        all_priced: true,
        allowances: AllowancesNow::default(),
        grants: Vec::new(),
        running: 0,
    }
}

pub(super) fn stopped(level: StopLevel, own_hold: bool) -> Snapshot {
    let stop = StopNow { level, by: text("operator"), reason: text("price"), at: 1, own_hold };
    Snapshot { stop: Some(stop), ..snapshot() }
}

pub(super) fn ready() -> News {
    News::Ready(Box::new(Ready {
        golem_id: "ada".parse().unwrap(),
        name: text("Ada"),
        role: text("golem-instance"),
        tools: Vec::new(),
        scenarios: vec![text("first-tour"), text("price-moved")],
        journal: None,
    }))
}

#[test]
fn a_transaction_that_is_out_is_in_flight() {
    for last in [TxState::Signed, TxState::Sent, TxState::Unclear] {
        let mut state = running(120, 40, &text("Selling."));
        tell(&mut state, Some(CallId::new(1)), vec![start("uniswap_execute_swap", samples::swap_params()), tx(last)]);
        assert!(key(&mut state, 'q').is_empty(), "{last:?}: it leaves without a word");
        let words = shown(&state);
        assert!(words.contains("In flight:") && words.contains("· Swap 0.25 WETH → USDC, "), "{last:?}\n{words}");
        state.update(Input::Key(Key::plain(KeyCode::Esc)));
        state.update(control('x'));
        let words = shown(&state);
        assert!(words.contains("· Swap 0.25 WETH → USDC, ") && !words.contains("nothing is in flight"), "{words}");
    }
    // A call that ended without knowing leaves its transaction out there.
    let mut state = running(120, 40, &text("Selling."));
    let end = ToolEnd { success: true, duration_ms: 9, result_summary: Value::Null, card: None };
    let kinds =
        vec![start("uniswap_execute_swap", samples::swap_params()), tx(TxState::Unclear), EventKind::ToolEnd(end)];
    tell(&mut state, Some(CallId::new(1)), kinds);
    assert!(key(&mut state, 'q').is_empty());
    assert!(shown(&state).contains("not confirmed"), "{}", shown(&state));
}

#[test]
fn live_shows_who_asks_and_through_whom_and_what_memory_changed() {
    for (width, height) in [(80, 24), (120, 40), (200, 50)] {
        let mut state = running(width, height, &text("Selling."));
        news(&mut state, ready());
        let now = GolemNow {
            now: text("Selling."),
            next: text("Rest."),
            step: None,
            delegation: vec![text("trade-executor"), text("safety-guardian")],
        };
        tell(&mut state, None, vec![EventKind::GolemNow(now)]);
        let words = shown(&state);
        assert!(words.contains("Ada › trade-executor › safety-guardian"), "{width}\n{words}");
    }
    let mut state = running(120, 40, &text("Selling."));
    let changes = vec![text("slippage 50 bps to 30 bps: the worst of 4 alike was 10 bps under its quote")];
    let call = CallId::new(1);
    let kinds = vec![
        start("uniswap_execute_swap", samples::swap_params()),
        EventKind::MemoryHits(MemoryHits { similar: 4, changes }),
        tx(TxState::Sent),
    ];
    tell(&mut state, Some(call), kinds);
    assert!(shown(&state).contains("slippage 50 bps to 30 bps"), "the events\n{}", shown(&state));
    state.update(Input::Key(Key::plain(KeyCode::Enter)));
    let words = shown(&state);
    assert!(words.contains("The whole story · Swap 0.25 WETH → USDC"), "{words}");
    assert!(words.contains("What was remembered") && words.contains("4 past trades alike"), "{words}");
    assert!(words.contains("memory: slippage 50 bps to 30 bps"), "{words}");
}

#[test]
fn the_bare_word_scenario_opens_the_palette_and_restart_plays_the_show_again() {
    let mut state = running(120, 40, &text("Selling."));
    news(&mut state, ready());
    let typed = |state: &mut State, line: &str| {
        key(state, ':');
        for letter in line.chars() {
            key(state, letter);
        }
        state.update(Input::Key(Key::plain(KeyCode::Enter)))
    };
    let played = |effects: Vec<Effect>| match effects.as_slice() {
        [Effect::Send(sent)] => match &sent.command {
            Command::Scenario { name } => Some(name.clone()),
            _ => None,
        },
        _ => None,
    };
    assert!(typed(&mut state, "restart").is_empty());
    assert!(shown(&state).contains("no show plays"));
    assert!(typed(&mut state, "scenario").is_empty(), "nothing is said to the Golem");
    assert!(matches!(state.layers.last(), Some(Layer::Palette { .. })));
    let words = shown(&state);
    assert!(words.contains("scenario first-tour") && words.contains("scenario price-moved"), "{words}");
    for letter in "price".chars() {
        key(&mut state, letter);
    }
    assert_eq!(played(state.update(Input::Key(Key::plain(KeyCode::Enter)))), Some("price-moved".to_owned()));
    assert_eq!(played(typed(&mut state, "restart")), Some("price-moved".to_owned()));
    // A show that began by itself is known by its lines.
    let mut state = running(120, 40, &text("Selling."));
    let caption = Caption { show: text("first-tour"), text: text("Look."), at_seconds: 0 };
    tell(&mut state, None, vec![EventKind::Caption(caption)]);
    assert_eq!(played(typed(&mut state, "restart")), Some("first-tour".to_owned()));
}

#[test]
fn n_goes_from_one_that_fits_to_the_next_and_says_where_nothing_is_filtered() {
    let mut state = running(120, 40, &text("Selling."));
    for (at, token) in [(1, "WETH"), (2, "UNI"), (3, "WETH")] {
        let params = json!({ "token_in": token, "token_out": "USDC", "amount": format!("{at}"), "chain": "ethereum" });
        tell(&mut state, Some(CallId::new(at)), vec![start("uniswap_execute_swap", params), tx(TxState::Confirmed)]);
    }
    key(&mut state, 'n');
    assert!(shown(&state).contains("no filter stands"));
    key(&mut state, '/');
    for letter in "token:weth".chars() {
        key(&mut state, letter);
    }
    state.update(Input::Key(Key::plain(KeyCode::Enter)));
    let selected = |state: &State| {
        let rows = drawn(state);
        let at = rows.iter().position(|row| row.contains("▸┌") || row.contains("│▸2")).unwrap_or(0);
        rows.get(at).cloned().unwrap_or_default()
    };
    key(&mut state, 'n');
    let first = selected(&state);
    assert!(first.contains("3 WETH"), "{first}\n{}", shown(&state));
    key(&mut state, 'n');
    assert!(selected(&state).contains("1 WETH"), "{}", shown(&state));
    key(&mut state, 'N');
    assert_eq!(selected(&state), first);
}

#[test]
fn tab_gives_the_keys_to_a_panel_of_live_and_z_shows_it_alone() {
    let mut state = running(120, 40, &text("Selling."));
    news(&mut state, News::Questions(Arc::new(vec![question(&text("Buy UNI"))])));
    let tab = |state: &mut State| state.update(Input::Key(Key::plain(KeyCode::Tab)));
    for name in ["the price", "Equity", "Events", "Waiting for you"] {
        tab(&mut state);
        assert!(shown(&state).contains(&format!("the keys are on {name}")), "{}", shown(&state));
    }
    key(&mut state, 'z');
    let words = shown(&state);
    assert!(words.contains("Waiting for you 1") && !words.contains("Activity"), "{words}");
    state.update(Input::Key(Key::plain(KeyCode::Enter)));
    assert!(shown(&state).contains("DECISION 1 of 1"), "Enter opens what the keys are on");
    state.update(Input::Key(Key::plain(KeyCode::Esc)));
    state.update(Input::Key(Key::plain(KeyCode::Esc)));
    assert!(shown(&state).contains("Activity"));
}

#[test]
fn the_help_lists_a_key_only_where_it_does_something() {
    let listed = |state: &State, action: Action| state.rows(Context::Page).any(|row| row.action == action);
    let mut state = running(120, 40, &text("Selling."));
    for screen in ScreenId::ALL {
        state.update(Input::Key(Key::char(screen.digit())));
        for action in [Action::NextPanel, Action::NextMatch, Action::Zoom, Action::Follow, Action::Explorer] {
            assert_eq!(listed(&state, action), screen.does(action), "{screen:?} {action:?}");
            // What is not listed means nothing to the screen either.
            if !screen.does(action) {
                let body = state.body();
                let mut screens = std::mem::take(&mut state.screens);
                let known = state.known();
                let acts = screens.get_mut(screen).and_then(|view| view.act(action, &known, body));
                assert!(acts.is_none(), "{screen:?} {action:?}");
                state.screens = screens;
            }
        }
        assert!(!listed(&state, Action::ReplayStep), "only a recording is stepped through");
    }
    assert!(!ScreenId::Logs.does(Action::NextPanel) && !ScreenId::Trade.does(Action::NextMatch));
    let mut network = state.page.network.clone().unwrap();
    network.money = Money::Replay;
    state.page.network = Some(network);
    assert!(listed(&state, Action::ReplayStep));
}

#[test]
fn events_and_alerts_speak_the_words_of_the_screen() {
    let mut state = running(120, 40, &text("Selling."));
    let phase = PhaseChanged { from: Phase::Cautious, to: Phase::Defensive, why: text("a fall of 8 %") };
    tell(&mut state, None, vec![EventKind::PhaseChanged(phase)]);
    let words = shown(&state);
    assert!(words.contains("CAUTIOUS → EXITS ONLY") && !words.contains("Defensive"), "{words}");
    assert!(words.contains("phase CAUTIOUS → EXITS ONLY: a fall of 8 %"), "the alert\n{words}");
    let health = ChainHealth { chain_id: 31_337, state: ChainState::Degraded, why: text("timed out") };
    let blocked = SafetyCheck {
        check: Check::SpendingLimit,
        outcome: CheckOutcome::Blocked,
        detail: text("max_single_trade_usd: $6,785.11 is above it"),
    };
    let call = Some(CallId::new(1));
    tell(&mut state, call, vec![EventKind::ChainHealth(health), EventKind::SafetyCheck(blocked)]);
    let words = shown(&state);
    assert!(words.contains("ethereum answers badly") && !words.contains("31337"), "{words}");
    assert!(words.contains("limits blocked: One trade: $6,785.11 is above it"), "{words}");
}

#[test]
fn a_story_is_told_in_words_and_names_a_call_once() {
    let mut state = running(120, 60, &text("Selling."));
    let told = |state: &mut State, tool, params: Value, kinds: Vec<EventKind>| {
        let call = CallId::new(state.feed.last);
        let mut all = vec![start(tool, params)];
        all.extend(kinds);
        let error = ToolFailed { error_code: ErrorCode::RoutingNoRoute, error_message: text("no pool") };
        all.push(EventKind::ToolError(error));
        tell(state, Some(call), all);
        state.update(Input::Key(Key::plain(KeyCode::Enter)));
        let words = shown(state);
        state.update(Input::Key(Key::plain(KeyCode::Esc)));
        words
    };
    let words = told(&mut state, "uniswap_check_allowance", json!({ "token": "WETH" }), vec![]);
    assert!(words.contains("The whole story · Allowance WETH ─"), "{words}");
    let words = told(&mut state, "get_balances", json!({}), vec![]);
    assert!(words.contains("The whole story · Balances ─"), "{words}");
    let bridge = json!({ "token_in": "USDC", "token_out": "USDC", "amount": "100",
        "source_chain": "ethereum", "destination_chain": "base" });
    let words = told(&mut state, "uniswap_submit_cross_chain_intent", bridge, vec![]);
    assert!(words.contains("The whole story · Bridge 100 USDC ethereum → base ─"), "{words}");
    let asked = ApprovalRequested {
        permit_id: PermitId::random(),
        title: text("Swap"),
        reasons: vec![],
        lapses_at: samples::START_MILLIS + 9,
    };
    let resolved = ApprovalResolved {
        permit_id: asked.permit_id,
        outcome: ApprovalOutcome::RefusedAndHalted,
        reason: Some(text("wait")),
    };
    let check = SafetyCheck { check: Check::PolicyCage, outcome: CheckOutcome::Passed, detail: text("no rules") };
    let kinds = vec![
        EventKind::SafetyCheck(check),
        EventKind::ApprovalRequested(asked),
        EventKind::ApprovalResolved(resolved),
        tx(TxState::Confirmed),
    ];
    let words = told(&mut state, "uniswap_execute_swap", samples::swap_params(), kinds);
    for said in ["✕ refused, all stopped: \"wait\"", "confirmed ✓ in block #1,285", "✓ policy contract"] {
        assert!(words.contains(said), "{said}\n{words}");
    }
    for raw in ["RefusedAndHalted", "Confirmed", "policy_cage", "Swap Swap"] {
        assert!(!words.contains(raw), "{raw}\n{words}");
    }
}

#[test]
fn an_offer_that_the_price_left_is_told_beside_the_next() {
    let mut state = running(120, 60, &text("Selling."));
    let offer = |least: &str| {
        EventKind::PermitIssued(PermitIssued {
            permit_id: PermitId::random(),
            simulation_hash: B256::repeat_byte(3),
            expected_outcome: text(&format!("Swap 0.36 WETH for >= {least} USDC")),
            expires_at: samples::START_MILLIS + 900_000,
        })
    };
    let params = json!({ "token_in": "WETH", "token_out": "USDC", "amount": "0.36", "chain": "ethereum" });
    let (first, second) = (CallId::new(1), CallId::new(2));
    let failed = ToolFailed { error_code: ErrorCode::PermitMismatch, error_message: text("less would come in") };
    let end = ToolEnd { success: false, duration_ms: 9, result_summary: Value::Null, card: None };
    let kinds = vec![
        start("uniswap_execute_swap", params.clone()),
        offer("1220.12"),
        EventKind::ToolError(failed),
        EventKind::ToolEnd(end),
    ];
    tell(&mut state, Some(first), kinds);
    tell(&mut state, Some(second), vec![start("uniswap_execute_swap", params.clone()), offer("1190.03")]);
    let card = |state: &mut State, down: usize| {
        for _ in 0..down {
            key(state, 'j');
        }
        state.update(Input::Key(Key::plain(KeyCode::Enter)));
        let words = shown(state);
        state.update(Input::Key(Key::plain(KeyCode::Esc)));
        key(state, 'g');
        words
    };
    for down in [1, 2] {
        let words = card(&mut state, down);
        assert!(words.contains("was: Swap 0.36 WETH for at least 1220.12 USDC"), "{down}\n{words}");
        assert!(words.contains("is:  Swap 0.36 WETH for at least 1190.03 USDC"), "{down}\n{words}");
    }
    let mut asked = question(&text("Swap 0.36 WETH for >= 1190.03 USDC"));
    asked.call_id = Some(second);
    news(&mut state, News::Questions(Arc::new(vec![asked])));
    key(&mut state, 'a');
    let words = shown(&state);
    assert!(words.contains("Before         Swap 0.36 WETH for at least 1220.12 USDC (no longer"), "{words}");
    // Another trade is held against nothing.
    let other = json!({ "token_in": "UNI", "token_out": "USDC", "amount": "1", "chain": "ethereum" });
    tell(&mut state, Some(CallId::new(3)), vec![start("uniswap_execute_swap", other), offer("7")]);
    assert!(state.feed.calls.back().is_some_and(|call| call.before.is_none()));
}

#[test]
fn a_hold_is_called_one_when_the_session_says_so() {
    let mut state = running(120, 40, &text("Selling."));
    news(&mut state, News::Snapshot(Arc::new(snapshot())));
    state.update(control('x'));
    let words = shown(&state);
    assert!(words.contains("stopping…") && !words.contains("HELD") && !words.contains("No new signature"), "{words}");
    let no = News::Told { done: false, words: text("the stop file cannot be written") };
    news(&mut state, no);
    assert!(shown(&state).contains("NOT STOPPED: the stop file cannot be written"), "{}", shown(&state));
    news(&mut state, News::Snapshot(Arc::new(stopped(StopLevel::Halt, true))));
    let words = shown(&state);
    assert!(words.contains("■ HELD") && words.contains("No new signature is made from now on."), "{words}");
    assert!(!words.contains("NOT STOPPED"), "{words}");
}

#[test]
fn at_forty_columns_a_stop_and_a_decision_both_stand_and_no_answer_is_cut() {
    for level in [StopLevel::Pause, StopLevel::ExitOnly, StopLevel::Halt, StopLevel::Revoke] {
        let mut state = running(40, 20, &text("Selling."));
        news(&mut state, News::Snapshot(Arc::new(stopped(level, false))));
        news(&mut state, News::Questions(Arc::new(vec![question(&text("Buy UNI"))])));
        let first = drawn(&state).remove(0);
        let word = super::header::stop_word(level);
        assert!(first.contains(word) && first.contains("‼ 1") && first.contains("(a)"), "{level:?}: {first}");
        assert!(first.contains("PLAY MONEY"), "{first}");
        // A frozen view gives its place up before a stop does.
        key(&mut state, ' ');
        let first = drawn(&state).remove(0);
        assert!(first.contains(word) && first.contains("‼ 1"), "{level:?}: {first}");
    }
    let mut state = running(40, 20, &text("Selling."));
    state.update(control('x'));
    let words = shown(&state);
    for answer in ["Enter halt", "x exit-only", "Esc release"] {
        assert!(words.contains(answer), "{answer}\n{words}");
    }
}

#[test]
fn at_eighty_columns_the_keys_that_freeze_and_pause_are_in_the_hints() {
    let state = running(80, 24, &text("Selling."));
    let last = drawn(&state).pop().unwrap();
    for words in ["1-8 Live", "Space freeze", "p pause", "Ctrl-X STOP", "? help"] {
        assert!(last.contains(words), "{words}: {last}");
    }
}

#[test]
fn a_waiting_row_keeps_its_countdown_at_forty_columns() {
    let mut state = running(40, 20, &text("Selling."));
    news(&mut state, News::Questions(Arc::new(vec![question(&text("Swap 0.6 WETH for at least 258.53 UNI"))])));
    assert!(shown(&state).contains("4:59") || shown(&state).contains("5:00"), "{}", shown(&state));
}

#[test]
fn four_fifths_of_any_cap_is_an_alert_once() {
    let mut state = running(120, 40, &text("Selling."));
    news(&mut state, News::Snapshot(Arc::new(snapshot())));
    let full = |state: &mut State, change: &dyn Fn(&mut Snapshot)| {
        let before = state.alerts.len();
        let mut next = snapshot();
        change(&mut next);
        news(state, News::Snapshot(Arc::new(next.clone())));
        news(state, News::Snapshot(Arc::new(next)));
        let said: Vec<String> = state.alerts.iter().skip(before).map(|alert| alert.text.to_string()).collect();
        news(state, News::Snapshot(Arc::new(snapshot())));
        said
    };
    fn limits(snapshot: &mut Snapshot) -> &mut Limits {
        snapshot.limits.as_mut().unwrap()
    }
    let day = full(&mut state, &|next| limits(next).day.used = usd("4000"));
    assert_eq!(day, ["more than 80 % of the day's cap is used"]);
    let month = full(&mut state, &|next| limits(next).month.used = usd("40000"));
    assert_eq!(month, ["more than 80 % of the 30-day cap is used"]);
    assert_eq!(full(&mut state, &|next| limits(next).calls = (8, 10)).len(), 1);
    assert_eq!(full(&mut state, &|next| limits(next).calls = (7, 10)), [""; 0]);
    let grant = |left: &str| GrantNow {
        number: 4,
        golem_id: "ada".parse().unwrap(),
        tool: text("uniswap_execute_swap"),
        chain_id: 31_337,
        tokens: vec![text("WETH"), text("USDC")],
        recipients: vec![alloy::primitives::Address::repeat_byte(7)],
        granted: Some(usd("500")),
        left: usd(left),
        lasts_millis: 1_800_000,
    };
    assert_eq!(full(&mut state, &|next| next.grants = vec![grant("101")]), [""; 0]);
    let used = full(&mut state, &|next| next.grants = vec![grant("99")]);
    assert_eq!(used, ["more than 80 % of standing approval 4 is used"]);
    // Its whole scope stands on the audit screen.
    let mut next = snapshot();
    next.grants = vec![grant("380")];
    news(&mut state, News::Snapshot(Arc::new(next)));
    state.update(Input::Resize(ratatui::layout::Size { width: 200, height: 40 }));
    key(&mut state, '5');
    let words = shown(&state);
    assert!(words.contains("Swap WETH USDC on ethereum to you"), "{words}");
    assert!(words.contains("$120.00 of $500.00 used · 30 min"), "{words}");
}

#[test]
fn an_offer_that_waits_stands_on_the_audit_screen_with_its_time() {
    let mut state = running(160, 40, &text("Selling."));
    let offer = |expires_at| {
        EventKind::PermitIssued(PermitIssued {
            permit_id: PermitId::random(),
            simulation_hash: B256::repeat_byte(3),
            expected_outcome: text("Swap 0.25 WETH for >= 848.28 USDC"),
            expires_at,
        })
    };
    let now = state.now_millis;
    let begun = || start("uniswap_execute_swap", samples::swap_params());
    tell(&mut state, Some(CallId::new(1)), vec![begun(), offer(now + 48_000)]);
    key(&mut state, '5');
    let words = shown(&state);
    assert!(words.contains("offer Swap 0.25 WETH for at least 848.28 USDC") && words.contains("0:48 left"), "{words}");
    state.update(Input::Time(now + 49_000));
    assert!(!shown(&state).contains("≈ offer"), "what is over waits no more");
}

#[test]
fn while_away_gas_and_refusals_are_counted_too() {
    let mut state = running(120, 40, &text("Selling."));
    state.update(Input::Focus(false));
    let data = json!({});
    let hints = json!({ "transactions": [{ "gas_cost_wei": "138582612000000" }] });
    let card = Some(Card { widget: crate::base::model::CardKind::Swap, data, hints: Some(hints) });
    let end = ToolEnd { success: true, duration_ms: 9, result_summary: Value::Null, card };
    let kinds = vec![start("token_approve", json!({ "token": "WETH" })), EventKind::ToolEnd(end)];
    tell(&mut state, Some(CallId::new(1)), kinds);
    assert_eq!(state.feed.counts.gas_wei, U256::from(138_582_612_000_000_u64));
    let resolved = ApprovalResolved {
        permit_id: PermitId::random(),
        outcome: ApprovalOutcome::Refused,
        reason: Some(text("wait")),
    };
    let end = ToolEnd { success: false, duration_ms: 9, result_summary: Value::Null, card: None };
    let kinds = vec![
        start("uniswap_execute_swap", samples::swap_params()),
        EventKind::ApprovalResolved(resolved),
        EventKind::ToolEnd(end),
    ];
    tell(&mut state, Some(CallId::new(2)), kinds);
    state.update(Input::Time(state.now_millis + 120_000));
    state.update(Input::Focus(true));
    let words = shown(&state);
    assert!(words.contains("0 trades") && words.contains("gas 0.0001386 ETH"), "{words}");
    assert!(words.contains("1 refused") && !words.contains("0 blocked"), "{words}");
}

#[test]
fn a_decision_says_how_old_its_figures_are_who_may_take_and_what_it_costs() {
    let mut state = deciding(120, 60, &text("Buy UNI"));
    state.update(Input::Time(samples::START_MILLIS + 2_000));
    let words = shown(&state);
    for said in [
        "What changes · simulated on block #1,286, 21 s ago · quoted 23 s ago",
        "0x2222222222222222222222222222222222222222 may take WITHOUT LIMIT",
        "Costs $10.47 (0.51 %) against the mid price · worst case 1.00 %",
        "Counts against your limits as $2,047.53 · gas at most $0.58",
    ] {
        assert!(words.contains(said), "{said}\n{words}");
    }
}

#[test]
fn nothing_lost_has_no_minus() {
    let mut state = running(120, 40, &text("Selling."));
    let vitals = |bps| {
        EventKind::Vitals(Box::new(Vitals {
            phase: Phase::Thriving,
            why: text("nothing is wrong"),
            equity: "25310.42".parse().ok(),
            high_water: "25400".parse().ok(),
            drawdown_bps: Some(bps),
            stop_loss_bps: 1_000,
            gas_runway_seconds: None,
            gas_wei: None,
            failures: 0,
            failures_limit: 3,
            age_seconds: 0,
            lifespan_seconds: None,
        }))
    };
    for (bps, told) in [(0, " 0.0% of 10%"), (9, " 0.0% of 10%"), (35, "−0.3% of 10%")] {
        tell(&mut state, None, vec![vitals(bps)]);
        assert!(shown(&state).contains(told), "{bps}\n{}", shown(&state));
    }
}

#[test]
fn a_recording_says_how_it_goes_whatever_key_is_pressed_and_never_that_something_runs() {
    for (width, height) in [(40, 24), (80, 24), (120, 40)] {
        let mut state = running(width, height, &text("Selling."));
        state.page.network.as_mut().unwrap().money = Money::Replay;
        let at = |told, paused| News::Replay(ReplayNow { paused, speed_percent: 50, told, of: 5_678 });
        for (place, told) in
            [(at(1_234, true), "■ PAUSED"), (at(1_234, false), "▸ PLAYING"), (at(5_678, false), "■ AT ITS END")]
        {
            news(&mut state, place);
            key(&mut state, 'j');
            let first = drawn(&state).remove(0);
            assert!(first.contains("REPLAY") && first.contains(told) && !first.contains("RUNNING"), "{width}: {first}");
        }
        news(&mut state, at(1_234, true));
        let first = drawn(&state).remove(0);
        assert_eq!(first.contains("50 %  1,234 of 5,678"), width > 40, "{first}");
    }
}

#[test]
fn the_arrows_scrub_a_recording_and_nothing_else() {
    let mut state = running(120, 40, &text("Selling."));
    let arrow = |state: &mut State, code| match state.update(Input::Key(Key::plain(code))).as_slice() {
        [Effect::Send(sent)] => match &sent.command {
            Command::Replay(ReplayControl::Seek { percent }) => Some(*percent),
            other => panic!("{other:?}"),
        },
        [] => None,
        other => panic!("{other:?}"),
    };
    assert_eq!(arrow(&mut state, KeyCode::Right), None);
    state.page.network.as_mut().unwrap().money = Money::Replay;
    for (told, of, back, on) in
        [(50, 100, 45, 55), (0, 100, 0, 5), (100, 100, 95, 100), (98, 100, 93, 100), (1, 3, 28, 67), (0, 0, 0, 100)]
    {
        news(&mut state, News::Replay(ReplayNow { paused: true, speed_percent: 100, told, of }));
        assert_eq!(arrow(&mut state, KeyCode::Left), Some(back), "{told} of {of}");
        assert_eq!(arrow(&mut state, KeyCode::Right), Some(on), "{told} of {of}");
    }
}

/// A standing approval that is to be revoked: the question is open, and long enough before the reader.
pub(super) fn revoking(width: u16, height: u16) -> State {
    let mut state = running(width, height, &text("Selling."));
    let grant = GrantNow {
        number: 4,
        golem_id: "ada".parse().unwrap(),
        tool: text("uniswap_execute_swap"),
        chain_id: 31_337,
        tokens: vec![text("WETH"), text("USDC")],
        recipients: vec![alloy::primitives::Address::repeat_byte(7)],
        granted: Some(usd("500")),
        left: usd("380"),
        lasts_millis: 1_800_000,
    };
    news(&mut state, News::Snapshot(Arc::new(Snapshot { grants: vec![grant], ..snapshot() })));
    for letter in ['5', '\t', '\t', 'x'] {
        let pressed = if letter == '\t' { Key::plain(KeyCode::Tab) } else { Key::char(letter) };
        state.update(Input::Key(pressed));
    }
    state.update(Input::Time(state.now_millis + 1_000));
    state
}

#[test]
fn before_there_is_a_block_nothing_is_said_of_money_that_is_not_known() {
    let starting = || State::new(ratatui::layout::Size { width: 80, height: 24 }, samples::START_MILLIS, false);
    let mut state = starting();
    assert!(!shown(&state).contains("costs"), "{}", shown(&state));
    let step = BootStep { chain: text("base"), step: text("moving the market"), detail: text(""), done: false };
    news(&mut state, News::Market(Update::Boot(step)));
    assert!(shown(&state).contains("nothing here costs anything"), "{}", shown(&state));
    for (money, words) in
        [(Money::Real, "real money"), (Money::Test, "Test coins only"), (Money::Play, "Nothing here costs")]
    {
        let mut state = starting();
        let wallet = alloy::primitives::Address::ZERO;
        let network = Network { name: text("base"), money, chains: Vec::new(), wallet };
        news(&mut state, News::Market(Update::Started(network)));
        let shown = shown(&state);
        assert!(shown.contains(words) && !shown.contains("Starting the devnet"), "{shown}");
    }
}

#[test]
fn a_standing_approval_is_revoked_by_a_letter_and_enter_and_by_neither_alone() {
    let revoked = |effects: Vec<Effect>| match effects.as_slice() {
        [Effect::Send(sent)] => Some(sent.command.clone()),
        [] => None,
        other => panic!("{other:?}"),
    };
    let mut state = revoking(120, 40);
    let words = shown(&state);
    assert!(
        words.contains("Revoke the standing approval for Swap?") && words.contains("Nothing is picked."),
        "{words}"
    );
    // Each key a while after the one before, which guards the question anew.
    let calmly = |state: &mut State, pressed: Key| {
        state.update(Input::Time(state.now_millis + 1_000));
        revoked(state.update(Input::Key(pressed)))
    };
    assert_eq!(calmly(&mut state, Key::plain(KeyCode::Enter)), None);
    assert_eq!(calmly(&mut state, Key::char('y')), None);
    assert!(shown(&state).contains("Picked: yes"), "{}", shown(&state));
    let done = calmly(&mut state, Key::plain(KeyCode::Enter));
    assert_eq!(done, Some(Command::RevokeGrant { number: 4 }));
    // Where one only watches it is not even asked.
    let mut state = revoking(120, 40);
    state.update(Input::Key(Key::plain(KeyCode::Esc)));
    state.watch_only = true;
    key(&mut state, 'x');
    assert!(state.layers.is_empty() && shown(&state).contains("only watches"), "{}", shown(&state));
}

#[test]
fn the_trades_file_holds_the_trade_from_whatever_screen() {
    let mut state = running(120, 40, &text("Selling."));
    let data = json!({ "chain_id": 31_337, "amount_in": "0.25", "amount_out": "852.54", "token_in": "WETH",
        "token_out": "USDC", "slippage_actual_bps": 2 });
    let card = Some(Card { widget: crate::base::model::CardKind::Swap, data, hints: None });
    let end = ToolEnd { success: true, duration_ms: 9, result_summary: Value::Null, card };
    let kinds =
        vec![start("uniswap_execute_swap", samples::swap_params()), tx(TxState::Confirmed), EventKind::ToolEnd(end)];
    tell(&mut state, Some(CallId::new(1)), kinds);
    key(&mut state, '5');
    key(&mut state, ':');
    "export trades".chars().for_each(|letter| drop(key(&mut state, letter)));
    let effects = state.update(Input::Key(Key::plain(KeyCode::Enter)));
    let [Effect::Write { name, text }] = &effects[..] else { panic!("{effects:?}") };
    assert!(name.starts_with("bardo-trades-") && name.ends_with(".csv"), "{name}");
    let rows: Vec<&str> = text.lines().collect();
    assert_eq!(rows.len(), 2, "{text}");
    for cell in ["2023-11-14", "0.25", "WETH", "852.54", "USDC", &B256::repeat_byte(0x8c).to_string()] {
        assert!(rows[1].split(',').any(|one| one.contains(cell)), "{cell} in {}", rows[1]);
    }
}
