//! Tests of input that must have no effect: typed ahead, meant for another layer, or in read-only mode.

use std::sync::Arc;

use crossterm::event::{KeyCode, KeyModifiers};
use ratatui::layout::Size;

use super::*;
use crate::state::Input;
use crate::widgets::decision::ENDED_MILLIS;
use bardo_base::fabric::{Event, EventKind, HaltChanged};
use bardo_base::id::GolemId;
use bardo_session::handle::{AddressedCommand, SessionInfo, SessionNews};
use bardo_session::market::{BlockRow, ChainIdentity, ChainSnapshot, MarketUpdate, NetworkIdentity};
use bardo_session::questions::{AnswerKind, AnswerOption, OperatorAnswer, Question, QuestionKey, RequestSubject};

/// Time beyond any guard time, in milliseconds.
const CALM: u64 = 2_000;

fn news(state: &mut State, news: SessionNews) {
    state.update(Input::News(Box::new(news)));
}

/// Console on a chain with blocks.
fn console() -> State {
    let mut state = State::new(Size { width: 120, height: 40 }, 1_700_000_000_000, true);
    let chain = ChainIdentity { name: SafeText::clean("ethereum", 20), id: 31_337, interval_millis: Some(2_000) };
    let name = SafeText::clean("devnet", 20);
    let wallet = alloy_primitives::Address::ZERO;
    let network = NetworkIdentity { name, money: MoneyKind::Play, chains: vec![chain], wallet };
    news(&mut state, SessionNews::Market(MarketUpdate::Started(network)));
    let block =
        BlockRow { number: 1, timestamp: 1_700_000_000, base_fee_wei: 1, gas_used: 1, gas_limit: 2, transactions: 0 };
    let (tokens, pools, balances, activity) = (vec![], vec![], vec![], vec![]);
    let snapshot = ChainSnapshot {
        chain: 0,
        blocks: vec![block],
        tokens,
        pools,
        balances,
        positions: vec![],
        lending: None,
        activity,
    };
    news(&mut state, SessionNews::Market(MarketUpdate::Chain(Box::new(snapshot))));
    state
}

/// Console with an open approval request that was drawn, past its guard time.
/// Session of the Golem "ada".
fn session(served: bool) -> SessionInfo {
    SessionInfo {
        golem_id: "ada".parse().unwrap(),
        name: SafeText::clean("Ada", 20),
        role: SafeText::clean("trade-executor", 20),
        tools: Vec::new(),
        scenarios: Vec::new(),
        journal: None,
        commands: Vec::new(),
        brain: None,
        not_attached: None,
        own_devnet: false,
        served,
    }
}

fn deciding() -> State {
    let mut state = console();
    let question = Question {
        key: QuestionKey::Own(1),
        number: 1,
        golem_id: GolemId::operator(),
        call_id: None,
        place: 1,
        of: 1,
        title: SafeText::clean("Leave paper", 20),
        value: None,
        money: MoneyKind::Play,
        asked_at: 0,
        ends_at: None,
        passes_by_itself: false,
        needs_password: false,
        reasons: vec![],
        changed: vec![],
        revision: 0,
        second: None,
        to_read: vec![],
        confirm: None,
        answers: AnswerKind::ALL.into_iter().map(|kind| AnswerOption { kind, why_not: None }).collect(),
        about: RequestSubject::LeavePaper,
    };
    news(&mut state, SessionNews::Questions(Arc::new(vec![question])));
    press(&mut state, Key::char('a'));
    state.update(crate::view::drawn(&state));
    wait(&mut state, CALM);
    state
}

fn wait(state: &mut State, millis: u64) {
    state.update(Input::Time(state.clock.now_millis + millis));
}

fn press(state: &mut State, key: Key) -> Vec<Effect> {
    state.update(Input::Key(key))
}

fn control(letter: char) -> Key {
    Key { code: KeyCode::Char(letter), modifiers: KeyModifiers::CONTROL }
}

fn enter() -> Key {
    Key::plain(KeyCode::Enter)
}

/// Commands among the effects.
fn sent(effects: &[Effect]) -> Vec<SessionCommand> {
    let command = |effect: &Effect| match effect {
        Effect::Send(AddressedCommand { command, .. }) => Some(command.clone()),
        _ => None,
    };
    effects.iter().filter_map(command).collect()
}

fn picked(state: &State) -> Option<AnswerKind> {
    match state.display.layers.last() {
        Some(Layer::Decision(decision)) => decision.picked,
        other => panic!("no decision but {other:?}"),
    }
}

#[test]
fn a_hold_is_sent_at_once_whatever_has_the_keys_and_what_was_typed_ahead_does_not_choose() {
    let mut state = console();
    press(&mut state, Key::char(':'));
    assert_eq!(
        sent(&press(&mut state, control('x'))),
        [SessionCommand::Hold],
        "no text keeps the stop from the operator"
    );
    for key in [enter(), Key::char('x'), Key::plain(KeyCode::Esc)] {
        assert!(press(&mut state, key).is_empty(), "{key:?}");
    }
    // Keys that only clear a text or close a layer release nothing.
    wait(&mut state, CALM);
    assert!(press(&mut state, control('c')).is_empty());
    assert!(matches!(state.display.layers.last(), Some(Layer::Hold { .. })));
    let done = sent(&press(&mut state, enter()));
    assert!(matches!(done[..], [SessionCommand::Raise { level: StopLevel::Halt, .. }]), "{done:?}");
    // The stop also works in the text field of an approval dialog.
    let mut state = deciding();
    press(&mut state, Key::char('r'));
    assert_eq!(state.context(), Context::Typing);
    assert_eq!(sent(&press(&mut state, control('x'))), [SessionCommand::Hold]);
}

#[test]
fn one_who_watches_a_served_session_stops_it_and_leaves_the_release_to_an_operator() {
    for (watch_only, served, releases) in [(true, true, false), (true, false, true), (false, true, true)] {
        let mut state = console();
        state.options.watch_only = watch_only;
        news(&mut state, SessionNews::Ready(Box::new(session(served))));
        assert_eq!(sent(&press(&mut state, control('x'))), [SessionCommand::Hold]);
        let words = screen(&state);
        assert_eq!(words.contains("Esc release"), releases, "{words}");
        assert_eq!(words.contains("An operator's console releases it"), !releases, "{words}");
        wait(&mut state, CALM);
        let done = sent(&press(&mut state, Key::plain(KeyCode::Esc)));
        assert_eq!(done == [SessionCommand::ReleaseHold], releases, "{done:?}");
        assert!(state.display.layers.is_empty());
        assert_eq!(state.display.notice.is_some(), !releases);
    }
}

#[test]
fn the_help_scrolls_by_pages_and_to_both_ends() {
    let mut state = console();
    state.update(Input::Resize(Size { width: 80, height: 24 }));
    press(&mut state, Key::char('?'));
    let top = screen(&state);
    press(&mut state, Key::char('G'));
    let bottom = screen(&state);
    assert!(bottom != top && bottom.contains("bridge order"), "{bottom}");
    press(&mut state, Key::char('k'));
    assert_ne!(screen(&state), bottom, "the first key after the end moves");
    press(&mut state, Key::char('g'));
    assert_eq!(screen(&state), top);
    press(&mut state, Key::plain(KeyCode::PageDown));
    let page = screen(&state);
    assert!(page != top && page != bottom);
    press(&mut state, Key::plain(KeyCode::PageUp));
    assert_eq!(screen(&state), top);
}

#[test]
fn a_yes_typed_ahead_confirms_nothing() {
    let mut state = console();
    let since = state.clock.now_millis;
    let command = Box::new(SessionCommand::RevokeGrant { number: 1 });
    let title = SafeText::clean("Revoke?", 20);
    state.display.layers.push(Layer::Confirm {
        asks: "Revoke this standing approval?",
        title,
        command,
        since,
        picked: false,
    });
    // A key typed ahead or too soon after another chooses nothing, and Enter alone confirms nothing.
    for calm in [0, GUARD_MILLIS - 1] {
        wait(&mut state, calm);
        assert!(press(&mut state, Key::char('y')).is_empty());
    }
    wait(&mut state, CALM);
    assert!(press(&mut state, enter()).is_empty(), "nothing was picked");
    wait(&mut state, CALM);
    assert!(press(&mut state, Key::char('y')).is_empty(), "a letter alone cancels nothing");
    assert!(press(&mut state, enter()).is_empty(), "too soon after it");
    wait(&mut state, CALM);
    assert!(matches!(sent(&press(&mut state, enter()))[..], [SessionCommand::RevokeGrant { number: 1 }]));
}

#[test]
fn leaving_with_orders_cancelled_takes_a_letter_and_enter_and_no_key_typed_ahead_leaves() {
    let asked = || {
        let mut state = console();
        press(&mut state, control('c'));
        assert!(matches!(state.display.layers.last(), Some(Layer::Quit { picked: false, .. })));
        state
    };
    let mut state = asked();
    for key in ['f', 'c'] {
        assert!(press(&mut state, Key::char(key)).is_empty(), "{key} was typed before it could be read");
    }
    assert!(press(&mut state, enter()).is_empty());
    wait(&mut state, CALM);
    assert!(press(&mut state, enter()).is_empty(), "nothing is selected");
    wait(&mut state, CALM);
    assert!(press(&mut state, Key::char('c')).is_empty(), "a letter alone cancels nothing");
    // A key without a meaning and a paste restart the guard time.
    for input in [Input::Key(Key::plain(KeyCode::F(9))), Input::Paste(SafeText::clean("\n", 2))] {
        wait(&mut state, CALM);
        state.update(input);
        assert!(press(&mut state, enter()).is_empty());
    }
    wait(&mut state, CALM);
    assert!(matches!(sent(&press(&mut state, enter()))[..], [SessionCommand::Leave(LeaveMode::CancelOrders)]));
    let mut state = asked();
    wait(&mut state, CALM);
    assert!(matches!(sent(&press(&mut state, Key::char('f')))[..], [SessionCommand::Leave(LeaveMode::Finish)]));
}

#[test]
fn a_paste_an_unbound_key_and_a_click_beside_all_guard_a_decision_anew() {
    type Disturb = fn(&State) -> Input;
    let disturb: [(&str, Disturb); 3] = [
        ("paste", |_| Input::Paste(SafeText::clean("rrrr", 10))),
        ("unbound", |_| Input::Key(Key::plain(KeyCode::F(9)))),
        ("click", |state| crate::view::click(state, 1, 1)),
    ];
    for (what, input) in disturb {
        let mut state = deciding();
        let input = input(&state);
        assert!(state.update(input).is_empty(), "{what}");
        press(&mut state, Key::char('r'));
        assert_eq!(picked(&state), None, "{what}: too soon after it");
        wait(&mut state, CALM);
        press(&mut state, Key::char('r'));
        assert_eq!(picked(&state), Some(AnswerKind::Refuse), "{what}");
    }
}

#[test]
fn a_console_that_only_watches_answers_nothing() {
    for watch_only in [false, true] {
        let mut state = deciding();
        state.options.watch_only = watch_only;
        press(&mut state, Key::char('r'));
        wait(&mut state, CALM);
        let answered = !sent(&press(&mut state, enter())).is_empty();
        assert_eq!(answered, !watch_only);
    }
}

#[test]
fn a_decision_below_another_dialog_is_not_before_the_reader() {
    let mut state = deciding();
    press(&mut state, control('x'));
    state.update(crate::view::drawn(&state));
    wait(&mut state, CALM);
    press(&mut state, Key::plain(KeyCode::Esc));
    // The dialog is visible again but not drawn yet, so it accepts nothing.
    wait(&mut state, CALM);
    press(&mut state, Key::char('r'));
    assert_eq!(picked(&state), None);
    state.update(crate::view::drawn(&state));
    wait(&mut state, CALM);
    press(&mut state, Key::char('r'));
    assert_eq!(picked(&state), Some(AnswerKind::Refuse));
}

#[test]
fn what_was_picked_before_another_size_is_not_done_before_it_is_drawn_again() {
    let mut state = deciding();
    press(&mut state, Key::char('r'));
    wait(&mut state, CALM);
    let size = state.display.size;
    state.update(Input::Resize(ratatui::layout::Size { width: size.width - 1, ..size }));
    assert!(sent(&press(&mut state, enter())).is_empty());
    state.update(crate::view::drawn(&state));
    wait(&mut state, CALM);
    assert!(!sent(&press(&mut state, enter())).is_empty());
}

#[test]
fn a_letter_that_a_text_does_not_take_is_no_key_of_the_page() {
    let mut state = console();
    press(&mut state, Key::char('3'));
    press(&mut state, Key::char('/'));
    // Letters beyond the maximum length of the filter neither leave the screen nor act as commands.
    for letter in std::iter::repeat_n('x', 80).chain(['q', '1', 'p']) {
        assert!(press(&mut state, Key::char(letter)).is_empty(), "{letter}");
    }
    assert_eq!((state.display.screen, state.display.layers.len()), (ScreenId::Orders, 0));
}

#[test]
fn a_paste_reaches_only_what_is_on_top() {
    let mut state = console();
    press(&mut state, Key::char(':'));
    state.display.layers.push(Layer::Help { offset: ScrollOffset::default(), of: Context::Page });
    state.update(Input::Paste(SafeText::clean("halt", 10)));
    assert_eq!(state.display.prompt.as_ref().map(|field| field.text().to_owned()), Some(String::new()));
    state.display.layers.clear();
    state.update(Input::Paste(SafeText::clean("halt", 10)));
    assert_eq!(state.display.prompt.as_ref().map(|field| field.text().to_owned()), Some("halt".to_owned()));
}

#[test]
fn while_it_leaves_nothing_new_begins_and_where_it_may_not_suspend_it_says_so() {
    let mut state = console();
    assert!(matches!(sent(&press(&mut state, Key::char('q')))[..], [SessionCommand::Leave(LeaveMode::Finish)]));
    for key in [Key::char('p'), Key::char(':'), Key::char('2'), control('p')] {
        assert!(press(&mut state, key).is_empty(), "{key:?}");
    }
    assert!(
        state.display.prompt.is_none() && state.display.layers.is_empty() && state.display.screen == ScreenId::Live
    );
    assert!(matches!(sent(&press(&mut state, Key::char('!')))[..], [SessionCommand::Leave(LeaveMode::Now)]));
    for may_suspend in [true, false] {
        let mut state = console();
        state.options.may_suspend = may_suspend;
        assert_eq!(press(&mut state, control('z')).contains(&Effect::Suspend), may_suspend);
        assert_eq!(state.display.notice.is_some(), !may_suspend);
    }
}

/// Returns true if the effects ask the session to end.
fn leaves(effects: &[Effect]) -> bool {
    matches!(sent(effects)[..], [SessionCommand::Leave(_)])
}

#[test]
fn q_goes_back_as_long_as_there_is_anything_to_go_back_from_and_then_leaves() {
    // A zoom, a filter, a layer.
    let before: [&[Key]; 4] = [
        &[Key::char('z')],
        &[Key::char('3'), Key::char('/'), Key::char('x'), enter()],
        &[Key::char('?')],
        &[Key::char('5'), Key::char('z')],
    ];
    for keys in before {
        let mut state = console();
        keys.iter().for_each(|key| drop(press(&mut state, *key)));
        assert!(!leaves(&press(&mut state, Key::char('q'))), "{keys:?}");
        assert!(state.display.layers.is_empty() && !state.session.leaving, "{keys:?}");
        assert!(leaves(&press(&mut state, Key::char('q'))), "{keys:?}");
    }
    // In a text field, the key is text.
    let mut state = console();
    for key in [Key::char('3'), Key::char('/'), Key::char('q')] {
        assert!(!leaves(&press(&mut state, key)));
    }
    assert!(state.display.screens.get(ScreenId::Orders).is_some_and(|view| view.has_filter()));
}

#[test]
fn ctrl_c_clears_what_is_typed_then_closes_what_takes_it_and_asks_only_at_the_base() {
    let quits = |state: &State| matches!(state.display.layers.last(), Some(Layer::Quit { .. }));
    let typing =
        |state: &State| state.display.screens.get(state.display.screen).is_some_and(|view| view.accepts_text());
    let mut state = console();
    for key in [Key::char('3'), Key::char('/'), Key::char('x'), control('c')] {
        assert!(press(&mut state, key).is_empty());
    }
    assert!(typing(&state) && !state.display.screens.get(ScreenId::Orders).is_some_and(|view| view.has_filter()));
    press(&mut state, control('c'));
    assert!(!typing(&state) && state.display.layers.is_empty());
    press(&mut state, control('c'));
    assert!(quits(&state));
    // The palette and the prompt behave the same.
    for opens in [control('p'), Key::char(':')] {
        let mut state = console();
        press(&mut state, opens);
        press(&mut state, Key::char('h'));
        press(&mut state, control('c'));
        assert_eq!(state.context(), Context::Typing, "{opens}: only what was typed is gone");
        press(&mut state, control('c'));
        assert!(state.display.layers.is_empty() && state.display.prompt.is_none(), "{opens}");
        press(&mut state, control('c'));
        assert!(quits(&state), "{opens}");
    }
}

#[test]
fn help_opens_over_every_dialog_tells_of_its_keys_and_answers_nothing() {
    let confirm = || {
        let mut state = console();
        let command = Box::new(SessionCommand::RevokeGrant { number: 1 });
        let (title, since) = (SafeText::clean("Revoke?", 20), state.clock.now_millis);
        state.display.layers.push(Layer::Confirm {
            asks: "Revoke this standing approval?",
            title,
            command,
            since,
            picked: false,
        });
        state
    };
    let after = |key: Key| {
        let mut state = console();
        press(&mut state, key);
        state
    };
    let call_details = || {
        let mut state = console();
        state.display.layers.push(Layer::CallDetails(Box::new(CallDetails::new(CallId::new(1)))));
        state
    };
    // Each dialog with a key that would act in it.
    let dialogs: [(Context, State, Key); 5] = [
        (Context::Decision, deciding(), Key::char('r')),
        (Context::Hold, after(control('x')), enter()),
        (Context::Quit, after(control('c')), Key::char('f')),
        (Context::Confirm, confirm(), Key::char('y')),
        (Context::CallDetails, call_details(), Key::char('j')),
    ];
    for (context, mut state, key) in dialogs {
        wait(&mut state, CALM);
        for asks in [Key::char('?'), Key::plain(KeyCode::F(1))] {
            assert!(press(&mut state, asks).is_empty(), "{context:?}");
            assert!(
                matches!(state.display.layers.last(), Some(Layer::Help { of, .. }) if *of == context),
                "{context:?}"
            );
            assert!(state.rows(context).any(|row| row.context == context && row.keys.contains(&key)), "{context:?}");
            state.update(crate::view::drawn(&state));
            wait(&mut state, CALM);
            // Keys do not act on the layer below.
            for any in [key, enter(), Key::char('y'), Key::char('f'), Key::char('a')] {
                assert!(press(&mut state, any).is_empty(), "{context:?} {any}");
            }
            press(&mut state, Key::plain(KeyCode::Esc));
            assert_eq!(state.context(), context);
            // The layer that became visible has a new guard time.
            assert!(press(&mut state, key).is_empty(), "{context:?}");
            let picked = match state.display.layers.last() {
                Some(Layer::Decision(decision)) => decision.picked.is_some(),
                Some(Layer::Quit { picked, .. } | Layer::Confirm { picked, .. }) => *picked,
                Some(Layer::Hold { .. } | Layer::CallDetails(_)) => false,
                other => panic!("{context:?}: {other:?}"),
            };
            assert!(!picked, "{context:?}");
            state.update(crate::view::drawn(&state));
            wait(&mut state, CALM);
        }
    }
}

#[test]
fn what_a_hold_covered_is_before_the_reader_anew_however_the_hold_ends() {
    let confirm = || {
        let mut state = console();
        let command = Box::new(SessionCommand::RevokeGrant { number: 1 });
        let (title, since) = (SafeText::clean("Revoke?", 20), state.clock.now_millis);
        state.display.layers.push(Layer::Confirm {
            asks: "Revoke this standing approval?",
            title,
            command,
            since,
            picked: false,
        });
        state
    };
    let quit = || {
        let mut state = console();
        press(&mut state, control('c'));
        state
    };
    let dialogs: [(&str, &dyn Fn() -> State, char); 3] =
        [("decision", &deciding, 'r'), ("confirm", &confirm, 'y'), ("quit", &quit, 'c')];
    for (name, opened, letter) in dialogs {
        for ends in [None, Some(Key::plain(KeyCode::Esc)), Some(Key::char('x')), Some(enter())] {
            let mut state = opened();
            wait(&mut state, CALM);
            assert!(press(&mut state, Key::char(letter)).is_empty(), "{name}");
            wait(&mut state, CALM);
            // No frame comes between, so the last drawing is the old one.
            if let Some(ends) = ends {
                press(&mut state, control('x'));
                wait(&mut state, CALM);
                assert_eq!(sent(&press(&mut state, ends)).len(), 1, "{name}: the hold is answered");
                assert!(press(&mut state, enter()).is_empty(), "{name} after {ends}: an Enter meant for the hold");
                state.update(crate::view::drawn(&state));
                wait(&mut state, CALM);
            }
            assert_eq!(sent(&press(&mut state, enter())).len(), 1, "{name} {ends:?}: what was picked is done");
        }
    }
}

#[test]
fn what_a_story_or_the_question_before_leaving_covered_is_before_the_reader_anew() {
    let over: [(Layer, Key); 2] = [
        (Layer::CallDetails(Box::new(CallDetails::new(CallId::new(1)))), Key::plain(KeyCode::Esc)),
        (Layer::Quit { since: 0, picked: false }, Key::plain(KeyCode::Esc)),
    ];
    for (layer, ends) in over {
        let mut state = console();
        let command = Box::new(SessionCommand::RevokeGrant { number: 1 });
        let (title, since) = (SafeText::clean("Revoke?", 20), state.clock.now_millis);
        state.display.layers.push(Layer::Confirm {
            asks: "Revoke this standing approval?",
            title,
            command,
            since,
            picked: true,
        });
        wait(&mut state, CALM);
        state.display.layers.push(layer.clone());
        assert!(press(&mut state, ends).is_empty());
        assert_eq!(state.display.layers.len(), 1, "{layer:?}");
        assert!(press(&mut state, enter()).is_empty(), "{layer:?}");
        wait(&mut state, CALM);
        assert_eq!(sent(&press(&mut state, enter())).len(), 1, "{layer:?}");
    }
}

/// Rejection reason in which every letter is a command somewhere.
const REASON: &str = "place an exit first, then halt. quit zap";

#[test]
fn a_decision_that_ends_while_a_reason_is_typed_stays_and_swallows_every_key() {
    let mut state = deciding();
    press(&mut state, Key::char('r'));
    assert_eq!(state.context(), Context::Typing);
    for letter in "gas is hi".chars() {
        press(&mut state, Key::char(letter));
    }
    news(&mut state, SessionNews::Questions(Arc::new(vec![])));
    let (screen, frozen) = (state.display.screen, state.display.frozen.is_some());
    // Keys that were still coming: letters, the Enter that would have sent them, and more letters.
    for key in REASON.chars().map(Key::char).chain([enter()]).chain(REASON.chars().map(Key::char)) {
        assert!(press(&mut state, key).is_empty(), "{key} did something");
        assert_eq!(state.context(), Context::Ended, "{key} closed the dialog");
    }
    assert_eq!(
        (state.display.screen, state.display.frozen.is_some(), state.display.prompt.is_some()),
        (screen, frozen, false)
    );
    let Some(Layer::Decision(decision)) = state.display.layers.last() else { panic!("the dialog is gone") };
    let typed = decision.form.as_ref().map(|form| form.fields[0].1.text().to_owned());
    assert_eq!(typed.as_deref(), Some("gas is hi"), "what was typed is lost");
    // Neither Enter nor Esc closes the dialog within the guard time; the stop works at once.
    assert!(press(&mut state, Key::plain(KeyCode::Esc)).is_empty());
    assert_eq!(state.context(), Context::Ended);
    assert!(!press(&mut state, control('x')).is_empty(), "Ctrl-X holds in every layer");
    wait(&mut state, CALM);
    press(&mut state, Key::plain(KeyCode::Esc));
    wait(&mut state, CALM);
    press(&mut state, enter());
    assert!(
        !state.display.layers.iter().any(|layer| matches!(layer, Layer::Decision(_))),
        "{:?}",
        state.display.layers
    );
}

/// The other process's events do not arrive here, and "no longer waits" reads as "not done".
#[test]
fn the_outcome_of_another_process_request_is_read_from_the_audit_log() {
    let mut state = console();
    let sample = crate::widgets::samples::question();
    let reasons = vec![bardo_base::fabric::AskReason::Elsewhere];
    let asked = Question { reasons, call_id: Some(bardo_base::id::CallId::new(9)), ..sample };
    let RequestSubject::Action(action) = &asked.about else { panic!() };
    let permit = action.permit;
    news(&mut state, SessionNews::Questions(Arc::new(vec![asked.clone()])));
    press(&mut state, Key::char('a'));
    let looks = |effects: &[Effect]| {
        effects
            .iter()
            .filter(
                |effect| matches!(effect, Effect::Send(sent) if matches!(sent.command, SessionCommand::Look { .. })),
            )
            .count()
    };
    let gone = state.update(Input::News(Box::new(SessionNews::Questions(Arc::new(vec![])))));
    assert_eq!(looks(&gone), 1);
    assert!(screen(&state).contains("no longer waits"), "{}", screen(&state));
    let entry = |permit: String, outcome: &str| bardo_session::handle::AuditEntry {
        seq: 4,
        at: 1,
        kind: SafeText::clean("approval:resolved", 40),
        call_id: None,
        golem_id: SafeText::clean("operator", 20),
        body: serde_json::json!({"permit_id": permit, "outcome": outcome, "by": "operator", "reason": null}),
        hash: alloy_primitives::B256::ZERO,
    };
    let found = |entries| SessionNews::Found {
        ticket: 3,
        found: Box::new(bardo_session::handle::QueryResult::Audit { entries }),
    };
    // Another request of the same call says nothing about this one, and the entry may come a moment later.
    news(&mut state, found(vec![entry("00".repeat(16), "refused")]));
    assert!(screen(&state).contains("no longer waits"), "{}", screen(&state));
    let at = state.clock.now_millis;
    assert_eq!(looks(&state.update(Input::Time(at + 1_000))), 1);
    news(&mut state, found(vec![entry(permit.to_string(), "approved")]));
    assert!(screen(&state).contains("It was approved elsewhere."), "{}", screen(&state));
    assert_eq!(looks(&state.update(Input::Time(at + 3_000))), 0, "it is known");
}

#[test]
fn a_decision_that_has_ended_cannot_be_answered_even_when_its_number_comes_back() {
    let mut state = deciding();
    let questions = Arc::clone(&state.session.questions);
    news(&mut state, SessionNews::Questions(Arc::new(vec![])));
    news(&mut state, SessionNews::Questions(questions));
    for key in ['a', 'r', 'h'] {
        wait(&mut state, CALM);
        assert!(press(&mut state, Key::char(key)).is_empty());
    }
    // Half a second later an Enter may still be meant as an answer; two seconds later it closes the dialog.
    for (pause, stays) in [(GUARD_MILLIS, true), (ENDED_MILLIS - 1, true), (ENDED_MILLIS, false)] {
        wait(&mut state, pause);
        assert!(press(&mut state, enter()).is_empty(), "an ended dialog answered");
        assert_eq!(!state.display.layers.is_empty(), stays, "{pause}");
    }
}

/// Text of the screen as drawn.
fn screen(state: &State) -> String {
    let theme = crate::theme::Theme::load("dark", None).unwrap().0;
    let area = state.area();
    let mut buffer = ratatui::buffer::Buffer::empty(area);
    crate::view::draw(state, &theme, area, &mut buffer);
    let rows = buffer.content.chunks(usize::from(area.width));
    let row = |cells: &[ratatui::buffer::Cell]| cells.iter().map(ratatui::buffer::Cell::symbol).collect::<String>();
    rows.map(row).collect::<Vec<_>>().join("\n")
}

/// Approval request about a manual action, held for a minute from now.
fn held(state: &State) -> Question {
    let sample = crate::widgets::samples::question();
    let RequestSubject::Action(mut action) = sample.about else { panic!("{:?}", sample.about) };
    let until = state.clock.now_millis + 60_000;
    (action.valid_since, action.valid_until, action.words) = (state.clock.now_millis, until, None);
    Question {
        key: QuestionKey::Action(action.permit),
        number: OFFER_NUMBER,
        golem_id: GolemId::operator(),
        place: 0,
        of: 0,
        ends_at: Some(until),
        about: RequestSubject::Action(action),
        ..sample
    }
}

/// Console with a held manual action whose approval dialog is open, drawn, and past its guard time.
fn offered() -> (State, Question) {
    let mut state = console();
    let question = held(&state);
    news(&mut state, SessionNews::Offered { ticket: 7, question: Box::new(question.clone()) });
    state.open_offer();
    state.update(crate::view::drawn(&state));
    wait(&mut state, CALM);
    (state, question)
}

#[test]
fn an_action_by_hand_is_decided_in_the_agents_dialog_by_the_agents_keys() {
    let (mut state, question) = offered();
    let shown = screen(&state);
    for words in
        ["YOUR DECISION", "Asked by       you", "Permit2 may take 0.6 WETH", "= from ✓", "Universal Router 2.0"]
    {
        assert!(shown.contains(words), "{words}\n{shown}");
    }
    assert!(!shown.contains("Ada says") && !shown.contains("being signed"), "{shown}");
    assert!(press(&mut state, enter()).is_empty(), "nothing is selected");
    wait(&mut state, CALM);
    press(&mut state, Key::char('a'));
    assert_eq!(picked(&state), Some(AnswerKind::Once));
    assert!(press(&mut state, enter()).is_empty(), "too soon");
    wait(&mut state, CALM);
    let done = sent(&press(&mut state, enter()));
    assert!(
        matches!(&done[..], [SessionCommand::Answer { key, answer: OperatorAnswer::Once, .. }] if *key == question.key),
        "{done:?}"
    );
    // A standing approval is not offered by hand; its key says why and changes nothing.
    let (mut standing, mut question) = offered();
    for offered in question.answers.iter_mut().filter(|offered| offered.kind == AnswerKind::Similar) {
        offered.why_not = Some(SafeText::clean("each manual action needs its own decision", 80));
    }
    news(&mut standing, SessionNews::Offered { ticket: 8, question: Box::new(question) });
    standing.open_offer();
    standing.update(crate::view::drawn(&standing));
    wait(&mut standing, CALM);
    assert!(press(&mut standing, Key::char('s')).is_empty());
    assert_eq!(picked(&standing), None);
    assert!(screen(&standing).contains("not available: each manual action"), "{}", screen(&standing));
    // The reason of a rejection is for the records: no agent asked.
    let (mut rejecting, _) = offered();
    press(&mut rejecting, Key::char('r'));
    assert!(screen(&rejecting).contains("reason (for the audit log"), "{}", screen(&rejecting));
    // Once the session has begun the execution, the offer is not held here any more.
    news(&mut state, SessionNews::Began { ticket: 7, call_id: CallId::new(1) });
    assert!(state.session.offer.is_none());
}

/// Every key in every state of a decision, on a small screen: nothing but its own answers, the stop and the help.
#[test]
fn no_key_of_a_decision_does_anything_that_is_not_its_own() {
    let named = [
        KeyCode::Enter,
        KeyCode::Esc,
        KeyCode::Tab,
        KeyCode::BackTab,
        KeyCode::Backspace,
        KeyCode::Delete,
        KeyCode::Home,
        KeyCode::End,
        KeyCode::PageUp,
        KeyCode::PageDown,
        KeyCode::Up,
        KeyCode::Down,
        KeyCode::Left,
        KeyCode::Right,
        KeyCode::F(1),
        KeyCode::F(2),
        KeyCode::F(12),
    ];
    let printable = (' '..='~').map(Key::char);
    let controls = ('a'..='z').filter(|letter| !['c', 'l', 'x', 'z'].contains(letter)).map(control);
    let keys: Vec<Key> = named.into_iter().map(Key::plain).chain(printable).chain(controls).collect();
    for (name, decision) in crate::widgets::samples::decisions() {
        for key in &keys {
            let mut state = console();
            state.update(Input::Resize(Size { width: 80, height: 24 }));
            state.display.layers.push(Layer::Decision(Box::new(decision.clone())));
            state.update(Input::Time(crate::widgets::samples::NOW.millis + 60_000));
            let effects = press(&mut state, *key);
            let answers = |effect: &Effect| match effect {
                Effect::Send(AddressedCommand { command, .. }) => matches!(command, SessionCommand::Answer { .. }),
                _ => false,
            };
            assert!(effects.iter().all(answers), "{name}: {key} {effects:?}");
            assert!(effects.is_empty() || *key == enter(), "{name}: {key} answers by itself");
            assert_eq!((state.display.screen, state.display.prompt.is_none()), (ScreenId::Live, true), "{name}: {key}");
            let known =
                state.display.layers.iter().all(|layer| matches!(layer, Layer::Decision(_) | Layer::Help { .. }));
            assert!(known, "{name}: {key} opened {:?}", state.display.layers.last());
        }
    }
}

#[test]
fn an_action_by_hand_whose_time_is_over_looks_so_and_swallows_keys() {
    let (mut state, _) = offered();
    press(&mut state, Key::char('a'));
    for (seconds, words) in [(20, "valid 0:3"), (20, "valid 0:1")] {
        wait(&mut state, seconds * 1_000);
        assert!(screen(&state).contains(words), "{words}\n{}", screen(&state));
    }
    wait(&mut state, 20_000);
    let shown = screen(&state);
    assert!(shown.contains("DECISION ENDED") && shown.contains("The offer ended: it expired"), "{shown}");
    for key in REASON.chars().map(Key::char).chain([enter()]) {
        assert!(press(&mut state, key).is_empty(), "{key} did something");
        assert_eq!(state.context(), Context::Ended);
    }
    assert!(state.session.offer.is_none());
    // The offer cannot be opened again.
    wait(&mut state, CALM);
    press(&mut state, Key::plain(KeyCode::Esc));
    state.open_offer();
    assert!(state.display.layers.is_empty());
}

#[test]
fn a_decision_of_ones_own_that_is_put_off_waits_among_the_others_and_a_opens_it_again_until_it_lapses() {
    let mut state = console();
    let question = held(&state);
    news(&mut state, SessionNews::Offered { ticket: 7, question: Box::new(question.clone()) });
    assert!(!screen(&state).contains("FOR YOU"), "a preview asks nothing yet");
    assert!(!screen(&state).contains("a decide"), "no decision waits");
    state.open_offer();
    press(&mut state, Key::plain(KeyCode::Esc));
    assert!(state.display.layers.is_empty());
    for size in [Size { width: 120, height: 40 }, Size { width: 80, height: 24 }] {
        state.update(Input::Resize(size));
        let shown = screen(&state);
        for words in ["1 WAITS FOR YOU (a)", "Waiting for you 1", "UNI", "$2,04", "1:00"] {
            assert!(shown.contains(words), "{words}\n{shown}");
        }
    }
    // Requests of the agent come and go beside it.
    let other = Question { number: 4, ..crate::widgets::samples::question() };
    for (questions, waiting) in [(vec![other], 2), (vec![], 1)] {
        news(&mut state, SessionNews::Questions(Arc::new(questions)));
        assert_eq!(state.session.questions.len(), waiting);
        if waiting == 2 {
            press(&mut state, Key::char('a'));
            assert!(screen(&state).contains("DECISION 1 of 2"), "{}", screen(&state));
            press(&mut state, Key::plain(KeyCode::Esc));
        }
    }
    press(&mut state, Key::char('a'));
    assert!(screen(&state).contains("YOUR DECISION"), "{}", screen(&state));
    press(&mut state, Key::plain(KeyCode::Esc));
    wait(&mut state, 60_000);
    assert!(!screen(&state).contains("FOR YOU"), "{}", screen(&state));
    press(&mut state, Key::char('a'));
    assert!(state.display.layers.is_empty(), "its time is over");
}

#[test]
fn a_halt_withdraws_an_action_by_hand_unless_it_takes_something_back() {
    for (intent, stays) in [("swap", false), ("revoke", true)] {
        let (mut state, mut question) = offered();
        if let RequestSubject::Action(action) = &mut question.about {
            action.intent = SafeText::clean(intent, 20);
        }
        news(&mut state, SessionNews::Offered { ticket: 9, question: Box::new(question) });
        state.open_offer();
        let halted = HaltChanged {
            level: Some(StopLevel::Halt),
            by: SafeText::clean("operator", 20),
            reason: SafeText::default(),
            hold: false,
        };
        let event = Event {
            seq: 1,
            at: state.clock.now_millis,
            golem_id: GolemId::operator(),
            call_id: None,
            kind: EventKind::HaltRaised(halted),
        };
        news(&mut state, SessionNews::Events(vec![Arc::new(event)]));
        wait(&mut state, 100);
        assert_eq!(state.session.offer.is_some(), stays, "{intent}");
        assert_eq!(state.context() == Context::Ended, !stays, "{intent}");
    }
}

#[test]
fn the_sale_of_all_holdings_is_not_called_unsigned_in_its_raw_view() {
    let mut state = console();
    let sample = crate::widgets::samples::question();
    let sale = Question { about: RequestSubject::SellHoldings { plan: None }, confirm: None, ..sample };
    news(&mut state, SessionNews::Questions(Arc::new(vec![sale])));
    press(&mut state, Key::char('a'));
    press(&mut state, Key::char('d'));
    let words = screen(&state);
    assert!(words.contains("Each sale is a swap of its own") && !words.contains("Nothing is signed"), "{words}");
}

#[test]
fn a_notice_of_a_decision_goes_with_the_decision() {
    let mut state = console();
    news(&mut state, SessionNews::Questions(Arc::new(vec![crate::widgets::samples::question()])));
    assert!(state.display.notice.as_ref().is_some_and(|notice| notice.as_str().contains("a decision waits")));
    news(&mut state, SessionNews::Questions(Arc::new(Vec::new())));
    assert_eq!(state.display.notice, None);
}

#[test]
fn on_the_smallest_screen_a_decision_shows_some_of_itself() {
    for (name, decision) in crate::widgets::samples::decisions() {
        let mut state = console();
        state.update(Input::Resize(Size { width: 40, height: 12 }));
        state.display.layers.push(Layer::Decision(Box::new(decision.clone())));
        let drawn = crate::view::drawn(&state);
        let ends = decision.ended_at.is_some() || decision.form.is_some();
        assert!(ends || matches!(drawn, Input::Drawn(Some(_))), "{name}: {}", screen(&state));
    }
}

#[test]
fn an_action_by_hand_on_paper_says_so_and_ends_with_paper_mode() {
    let (mut state, question) = offered();
    news(
        &mut state,
        SessionNews::Offered { ticket: 8, question: Box::new(Question { money: MoneyKind::Paper, ..question }) },
    );
    assert!(state.session.offer.is_none(), "it is for other money than there is here");
    assert_eq!(state.context(), Context::Ended);
}

#[test]
fn at_80_by_24_the_shortest_form_comes_first_and_z_shows_more_of_it_at_once() {
    let mut state = console();
    state.update(Input::Resize(Size { width: 80, height: 24 }));
    let sample = crate::widgets::samples::question();
    let ends_at = Some(state.clock.now_millis + 252_000);
    news(&mut state, SessionNews::Questions(Arc::new(vec![Question { ends_at, ..sample }])));
    press(&mut state, Key::char('a'));
    state.update(crate::view::drawn(&state));
    let unseen = |state: &State| match state.display.layers.last() {
        Some(Layer::Decision(decision)) => decision.unseen(),
        other => panic!("{other:?}"),
    };
    // Outgoing amount, worst-case result, spender, called and receiving addresses, both deadlines, and every answer.
    let first = screen(&state);
    for words in [
        "$2,047.53",
        "worst case +258.530551",
        "Permit2 may take 0.6 WETH",
        "0x6666666666666666666666666666666666666666 Universal Router 2.0",
        "0x2222222222222222222222222222222222222222 Permit2",
        "= your account ✓",
        "valid 0:",
        "answer within 4:12",
        "lines 1–",
        "PgDn",
        "a approve once",
        "h reject and STOP",
    ] {
        assert!(first.contains(words), "{words}\n{first}");
    }
    // The rest is on later pages, and no approval is accepted before it was shown.
    assert!(unseen(&state).is_some_and(|lines| lines > 0));
    wait(&mut state, CALM);
    press(&mut state, Key::char('a'));
    assert_eq!(picked(&state), None);
    let mut rest = first.clone();
    for _ in 0..6 {
        press(&mut state, control('d'));
        state.update(crate::view::drawn(&state));
        rest += &screen(&state);
    }
    assert_eq!(unseen(&state), Some(0), "{rest}");
    for words in
        ["8 checks passed", "own UNI price $7.83", "– policy contract has no rules", "in address book: ", "the wallet"]
    {
        assert!(rest.contains(words), "{words}\n{rest}");
    }
    // Full screen shows the long form of what was read, and keeps the place in the text.
    press(&mut state, Key::char('z'));
    state.update(crate::view::drawn(&state));
    assert!(!screen(&state).contains("lines 1–"), "{}", screen(&state));
    assert_eq!(unseen(&state), Some(0), "{}", screen(&state));
    press(&mut state, Key::char('g'));
    state.update(crate::view::drawn(&state));
    let lines = |shown: &str| shown.split("lines 1–").nth(1)?.split(' ').next()?.parse::<usize>().ok();
    let (before, after) = (lines(&first).unwrap(), lines(&screen(&state)).unwrap());
    assert!(after >= before + 5, "{before} lines at once, then {after}\n{}", screen(&state));
    // One more page has all the rest.
    press(&mut state, Key::plain(KeyCode::PageDown));
    state.update(crate::view::drawn(&state));
    assert_eq!(unseen(&state), Some(0), "{}", screen(&state));
    // In a form, letters are text: none is offered as a key, and pages still turn.
    wait(&mut state, CALM);
    press(&mut state, Key::char('r'));
    press(&mut state, Key::plain(KeyCode::PageUp));
    state.update(crate::view::drawn(&state));
    let typing = screen(&state);
    assert!(typing.contains("Your answer") && typing.contains("lines 1–"), "{typing}");
    assert!(!typing.contains("A letter selects") && !typing.contains("z enlarges"), "{typing}");
}

#[test]
fn a_key_that_came_too_soon_is_counted_down() {
    let (mut state, _) = offered();
    press(&mut state, Key::char('a'));
    press(&mut state, enter());
    for (millis, words) in [(0, "too soon: keys act in 0.5 s"), (150, "in 0.4 s"), (200, "in 0.2 s")] {
        wait(&mut state, millis);
        assert!(screen(&state).contains(words), "{words}\n{}", screen(&state));
        let next = state.next_change_millis().unwrap();
        assert!(next <= state.clock.now_millis + 100, "it stands still");
    }
    wait(&mut state, 150);
    assert!(screen(&state).contains("too soon: press the key again"), "{}", screen(&state));
    press(&mut state, enter());
    assert!(!screen(&state).contains("too soon"), "{}", screen(&state));
}

#[test]
fn ctrl_c_in_the_question_about_leaving_leaves_but_not_typed_ahead() {
    let mut state = console();
    press(&mut state, control('c'));
    assert!(!leaves(&press(&mut state, control('c'))), "typed ahead");
    assert!(matches!(state.display.layers.last(), Some(Layer::Quit { .. })));
    wait(&mut state, GUARD_MILLIS);
    let done = sent(&press(&mut state, control('c')));
    assert!(matches!(done[..], [SessionCommand::Leave(LeaveMode::Finish)]), "{done:?}");
}

/// Input with one event of the agent, at the current time.
fn event(state: &State, kind: bardo_base::fabric::EventKind) -> Input {
    let event = bardo_base::fabric::Event {
        seq: state.session.feed.last + 1,
        at: state.clock.now_millis,
        golem_id: "ada".parse().unwrap(),
        call_id: None,
        kind,
    };
    Input::News(Box::new(bardo_session::handle::SessionNews::Events(vec![std::sync::Arc::new(event)])))
}

fn thought(words: &str) -> bardo_base::fabric::EventKind {
    let text = SafeText::clean(words, 80);
    bardo_base::fabric::EventKind::GolemThought(bardo_base::fabric::GolemThought {
        thought: 0,
        text,
        more: false,
        report: false,
    })
}

#[test]
fn the_first_words_after_the_operators_own_stand_beside_the_prompt() {
    let mut state = console();
    let first = event(&state, thought("nothing was asked"));
    state.update(first);
    assert_eq!(state.display.notice, None);
    for key in [Key::char(':'), Key::char('h'), Key::char('o'), Key::char('w'), enter()] {
        press(&mut state, key);
    }
    let answer = event(&state, thought("I did not understand"));
    state.update(answer);
    assert_eq!(state.display.notice.as_ref().map(SafeText::as_str), Some("I did not understand"));
    let later = event(&state, thought("another matter"));
    state.update(later);
    assert_eq!(state.display.notice.as_ref().map(SafeText::as_str), Some("I did not understand"));
}

#[test]
fn a_lifted_stop_takes_the_place_of_its_alert() {
    use bardo_base::fabric::{EventKind, HaltChanged};
    let mut state = console();
    let halt = |level| HaltChanged {
        level,
        by: SafeText::clean("operator", 20),
        reason: SafeText::clean("look", 20),
        hold: false,
    };
    let raised = event(&state, EventKind::HaltRaised(halt(Some(bardo_base::model::StopLevel::Halt))));
    state.update(raised);
    let lowered = event(&state, EventKind::HaltLowered(halt(None)));
    state.update(lowered);
    let alert = state.fresh_alert().map(|alert| alert.text.to_string());
    assert_eq!(alert.as_deref(), Some("the operator lifted the stop"));
}

#[test]
fn no_letter_is_offered_as_a_key_while_letters_are_text() {
    let letters = ["a decide", "(a)", "? help", "p pause", ": tell", "z full", "d raw"];
    for size in [Size { width: 120, height: 40 }, Size { width: 80, height: 24 }] {
        let mut state = console();
        state.update(Input::Resize(size));
        news(&mut state, SessionNews::Questions(Arc::new(vec![crate::widgets::samples::question()])));
        assert!(screen(&state).contains("a decide"), "{}", screen(&state));
        press(&mut state, Key::char('/'));
        let shown = screen(&state);
        assert!(letters.iter().all(|words| !shown.contains(words)), "{shown}");
        for words in ["WAITS FOR YOU (Esc a)", "Esc ends typing", "Ctrl-X STOP"] {
            assert!(shown.contains(words), "{words}\n{shown}");
        }
        press(&mut state, Key::plain(KeyCode::Esc));
        assert!(screen(&state).contains("a decide"));
        // Also in the text field of an approval dialog.
        press(&mut state, Key::char('a'));
        state.update(crate::view::drawn(&state));
        wait(&mut state, CALM);
        press(&mut state, Key::char('r'));
        let shown = screen(&state);
        assert!(shown.contains("reason (sent to the Golem") && shown.contains("Esc back"), "{shown}");
        assert!(["z full", "d raw", "n next"].iter().all(|words| !shown.contains(words)), "{shown}");
    }
}

#[test]
fn a_form_that_is_taller_than_the_screen_shows_the_field_that_has_the_keys() {
    let mut state = console();
    state.update(Input::Resize(Size { width: 50, height: 11 }));
    let sample = crate::widgets::samples::question();
    let to_read = Vec::new();
    news(&mut state, SessionNews::Questions(Arc::new(vec![Question { needs_password: true, to_read, ..sample }])));
    press(&mut state, Key::char('a'));
    let Some(Layer::Decision(decision)) = state.display.layers.last_mut() else { panic!("no decision") };
    let fields = (0..12).map(|_| ("a field of many", TextField::default())).chain([("the last", TextField::default())]);
    decision.picked = Some(AnswerKind::Similar);
    decision.form = Some(crate::widgets::decision::AnswerForm { fields: fields.collect(), at: 12 });
    let shown = screen(&state);
    assert!(shown.contains("the last: ▏"), "{shown}");
}

#[test]
fn full_screen_cuts_no_figure() {
    let mut state = console();
    state.update(Input::Resize(Size { width: 80, height: 24 }));
    let mut question = crate::widgets::samples::question();
    let RequestSubject::Action(action) = &mut question.about else { panic!("{:?}", question.about) };
    for (change, figure) in action.changes.iter_mut().zip(["−2.512345678901234567", "+8,482.123456789012345678"]) {
        change.expected = figure.to_owned();
    }
    news(&mut state, SessionNews::Questions(Arc::new(vec![question])));
    press(&mut state, Key::char('a'));
    assert!(screen(&state).contains("−2.512345…"), "{}", screen(&state));
    press(&mut state, Key::char('z'));
    let mut shown = String::new();
    for _ in 0..40 {
        state.update(crate::view::drawn(&state));
        shown += &screen(&state);
        press(&mut state, Key::char('j'));
    }
    for figure in ["−2.512345678901234567", "+8,482.123456789012345678"] {
        assert!(shown.contains(figure), "{figure}\n{shown}");
    }
}

#[test]
fn what_an_order_may_take_is_told_until_it_is_settled_and_after_in_whole_tokens() {
    let mut question = crate::widgets::samples::question();
    let RequestSubject::Action(action) = &mut question.about else { panic!("{:?}", question.about) };
    let mut after = action.allowances[0].clone();
    (after.amount, after.before, after.expires_at) = ("0.07".to_owned(), Some("0.07".to_owned()), None);
    (after.through_permit2, after.until_settled) = (false, Some("2.57".to_owned()));
    action.allowances = vec![after];
    let mut state = console();
    news(&mut state, SessionNews::Questions(Arc::new(vec![question])));
    press(&mut state, Key::char('a'));
    let shown = screen(&state).split_whitespace().collect::<Vec<_>>().join(" ");
    let words = "may take 2.57 WETH until it is settled, then 0.07 WETH (was 0.07 WETH; exact, not";
    assert!(shown.contains(words), "{shown}");
}

/// News that the agent's call waits for the operator. The event has a call's id; the list of questions comes after it.
fn asks(state: &State) -> Input {
    use bardo_base::fabric::{ApprovalRequested, Event, EventKind};
    let requested = ApprovalRequested {
        permit_id: bardo_base::id::PermitId::random(),
        title: SafeText::clean("Swap 0.25 WETH", 20),
        reasons: vec![],
        lapses_at: state.clock.now_millis + 60_000,
        passes_by_itself: false,
        renewal: None,
    };
    let event = Event {
        seq: state.session.feed.last + 1,
        at: state.clock.now_millis,
        golem_id: "ada".parse().unwrap(),
        call_id: Some(CallId::new(9)),
        kind: EventKind::ApprovalRequested(requested),
    };
    Input::News(Box::new(SessionNews::Events(vec![Arc::new(event)])))
}

#[test]
fn an_a_between_the_event_of_a_question_and_the_question_opens_it_when_it_comes() {
    let opened = |state: &State| matches!(state.display.layers.last(), Some(Layer::Decision(_)));
    let question = || SessionNews::Questions(Arc::new(vec![crate::widgets::samples::question()]));
    let awaiting = || {
        let mut state = console();
        let event = asks(&state);
        state.update(event);
        press(&mut state, Key::char('a'));
        state
    };
    let notice = |state: &State| state.display.notice.as_ref().map(ToString::to_string).unwrap_or_default();

    let mut state = awaiting();
    assert!(notice(&state).contains("as soon as"), "{}", notice(&state));
    wait(&mut state, 400);
    news(&mut state, question());
    assert!(opened(&state), "the key is lost: {:?}", state.display.notice);
    // The dialog is guarded like any other.
    state.update(crate::view::drawn(&state));
    assert!(press(&mut state, Key::char('a')).is_empty() && picked(&state).is_none());

    // After the timeout the console says that it gives up.
    let mut state = awaiting();
    wait(&mut state, 3_001);
    assert_eq!(notice(&state), "no decision is waiting");
    news(&mut state, question());
    assert!(!opened(&state));

    // What was done since then covers nothing: another key, the prompt, a dialog.
    for key in [Key::char('j'), Key::char(':'), Key::char('?'), control('x')] {
        let mut state = awaiting();
        press(&mut state, key);
        news(&mut state, question());
        assert!(!opened(&state), "{key}");
    }

    // Nothing waits, and nothing says so: there is nothing to keep.
    let mut state = console();
    press(&mut state, Key::char('a'));
    assert_eq!(notice(&state), "no decision is waiting");
    news(&mut state, question());
    assert!(!opened(&state));
}

#[test]
fn an_own_action_that_was_put_off_waits_on_the_screen_of_the_golem_and_does_not_simulate() {
    let mut state = console();
    let call = CallId::new(9);
    let now = state.clock.now_millis;
    let event = |seq, kind| {
        let golem_id = GolemId::operator();
        Arc::new(bardo_base::fabric::Event { seq, at: now, golem_id, call_id: Some(call), kind })
    };
    use bardo_base::fabric::{EventKind, ToolStart, ToolUpdate};
    let params = serde_json::json!({"token_in": "WETH", "token_out": "USDC", "amount": "0.25", "chain": "ethereum"});
    let start = ToolStart {
        tool_name: "uniswap_execute_swap".into(),
        params: bardo_base::fabric::RedactedParams::new(&params, &[]),
        params_hash: alloy_primitives::B256::ZERO,
        tick: None,
        facts: None,
    };
    let step = ToolUpdate { step: SafeText::clean("Simulating via Revm", 40), index: 1, of: 3 };
    let check = bardo_base::fabric::SafetyCheck {
        check: bardo_base::model::Check::Halt,
        outcome: bardo_base::fabric::CheckOutcome::Passed,
        finding: bardo_base::fabric::Finding::NoStop,
    };
    let kinds = [EventKind::ToolStart(start), EventKind::SafetyCheck(check), EventKind::ToolUpdate(step)];
    for (seq, kind) in (1..).zip(kinds) {
        state.session.feed.take(&event(seq, kind));
    }
    assert!(screen(&state).contains("▸ simulating"), "{}", screen(&state));
    let question = Question { call_id: Some(call), ..held(&state) };
    news(&mut state, SessionNews::Offered { ticket: 7, question: Box::new(question) });
    state.open_offer();
    press(&mut state, Key::plain(KeyCode::Esc));
    let shown = screen(&state);
    assert!(shown.contains("WAITS FOR YOU 1:00") && !shown.contains("▸ simulating"), "{shown}");
    // Once its execution has begun, it goes on.
    news(&mut state, SessionNews::Began { ticket: 7, call_id: call });
    let shown = screen(&state);
    assert!(!shown.contains("WAITS FOR YOU") && shown.contains("▸ simulating"), "{shown}");
}

#[test]
fn a_prompt_can_be_undone_and_its_help_lists_the_keys_that_edit() {
    let mut state = console();
    let text = |state: &State| state.display.prompt.as_ref().map(|field| field.text().to_owned()).unwrap();
    press(&mut state, Key::char(':'));
    "wait for gas".chars().for_each(|letter| drop(press(&mut state, Key::char(letter))));
    press(&mut state, control('_'));
    assert_eq!(text(&state), "wait for");
    press(&mut state, control('r'));
    assert_eq!(text(&state), "wait for gas");
    press(&mut state, Key::plain(KeyCode::F(1)));
    let shown = screen(&state);
    assert!(shown.contains("undo the last word or edit") && shown.contains("Ctrl-_  Ctrl-/"), "{shown}");
    assert!(!shown.contains("open the oldest decision"), "letters are text there\n{shown}");
    press(&mut state, Key::plain(KeyCode::Esc));
    assert_eq!((state.context(), text(&state).as_str()), (Context::Typing, "wait for gas"));
}

#[test]
fn no_key_that_edits_a_text_commands_anything() {
    let edits: Vec<Key> = crate::keymap::KEYMAP
        .iter()
        .filter(|row| row.context == Context::Field)
        .flat_map(|row| row.keys)
        .copied()
        .collect();
    assert!(edits.len() > 25, "{edits:?}");
    for opens in [Key::char(':'), control('p'), Key::char('/')] {
        let mut state = console();
        press(&mut state, opens);
        let context = state.context();
        for key in &edits {
            assert!(press(&mut state, *key).is_empty(), "{opens} {key}");
            assert_eq!((state.context(), state.display.screen), (context, ScreenId::Live), "{opens} {key}");
        }
    }
}

#[test]
fn a_typed_password_is_in_no_text_field() {
    let mut state = console();
    let sample = crate::widgets::samples::question();
    news(
        &mut state,
        SessionNews::Questions(Arc::new(vec![Question {
            needs_password: true,
            to_read: Vec::new(),
            confirm: None,
            ..sample
        }])),
    );
    press(&mut state, Key::char('a'));
    state.update(Input::Resize(Size { width: 120, height: 60 }));
    state.update(crate::view::drawn(&state));
    wait(&mut state, CALM);
    press(&mut state, Key::char('a'));
    assert_eq!(state.context(), Context::Typing, "{}", screen(&state));
    "open sesame".chars().for_each(|letter| drop(press(&mut state, Key::char(letter))));
    let all = format!("{state:?}");
    assert!(!all.contains("sesame") && !all.contains("InsertChar('s')"), "the history of a field would keep it");
}

#[test]
fn a_standing_approval_states_its_scope_before_it_is_given() {
    let mut state = console();
    state.update(Input::Resize(Size { width: 120, height: 50 }));
    let mut question = crate::widgets::samples::question();
    let RequestSubject::Action(action) = &mut question.about else { panic!("{question:?}") };
    let words = |words: &str| SafeText::clean(words, 40);
    action.similar = Some(bardo_session::questions::SimilarScope {
        golem_id: question.golem_id.clone(),
        tool: words("uniswap_execute_swap"),
        gives: vec![words("WETH")],
        gets: vec![words("UNI")],
        receivers: vec![action.places[0].address],
        arrives_on: None,
        slippage: Some(bardo_base::units::BasisPoints::new(50).unwrap()),
        each_up_to: None,
    });
    news(&mut state, SessionNews::Questions(Arc::new(vec![question])));
    press(&mut state, Key::char('a'));
    state.update(crate::view::drawn(&state));
    wait(&mut state, CALM);
    press(&mut state, Key::char('s'));
    let shown = screen(&state);
    for words in [
        "minutes: 60",
        "total limit in dollars:",
        "with Swap only: WETH → UNI on ethereum",
        "to             your account",
        "any, until the total is used up; this action uses $",
        "slippage       up to 50 bps",
        "also on a stop, a policy change or a phase change",
    ] {
        assert!(shown.contains(words), "{words}\n{shown}");
    }
}

#[test]
fn a_notice_is_removed_after_a_minute() {
    let mut state = console();
    state.show_notice("the intent is pending");
    wait(&mut state, 1);
    wait(&mut state, 59_999);
    assert!(screen(&state).contains("the intent is pending"));
    // Another notice has a minute of its own.
    state.show_notice("the intent is open");
    wait(&mut state, 1);
    wait(&mut state, 59_999);
    assert!(screen(&state).contains("the intent is open"));
    wait(&mut state, 1);
    assert!(!screen(&state).contains("the intent is open"), "{}", screen(&state));
}

#[test]
fn a_rejected_own_action_waits_no_longer() {
    let (mut state, question) = offered();
    wait(&mut state, CALM);
    press(&mut state, Key::char('r'));
    wait(&mut state, CALM);
    let done = sent(&press(&mut state, enter()));
    assert!(
        matches!(&done[..], [SessionCommand::Answer { key, answer: OperatorAnswer::Refuse { .. }, .. }] if *key == question.key),
        "{done:?}"
    );
    assert!(state.session.offer.is_none());
    assert!(!screen(&state).contains("FOR YOU") && screen(&state).contains("Waiting for you "), "{}", screen(&state));
}

/// Screens 9 and 0 and those with a letter have a tab where there is room, and else while they are shown.
#[test]
fn all_screens_have_a_tab_where_there_is_room() {
    let tabs = |width: u16, screen: ScreenId| {
        let mut state = State::new(Size { width, height: 40 }, 1_700_000_000_000, true);
        state.display.screen = screen;
        state.tabs()
    };
    assert_eq!(tabs(196, ScreenId::Trade).len(), ScreenId::ALL.len());
    assert_eq!(tabs(195, ScreenId::Trade).len(), 10);
    assert_eq!(tabs(195, ScreenId::Positions).len(), 11);
    assert_eq!(tabs(160, ScreenId::Trade).len(), 10);
    assert_eq!(tabs(159, ScreenId::Trade).len(), 8);
    assert_eq!(tabs(120, ScreenId::Agents).len(), 9);
    assert!(!tabs(120, ScreenId::Agents).contains(&ScreenId::Transactions));
}
