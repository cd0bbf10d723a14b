//! Tests of the console as text: it draws at every size, cuts no part of an approval request silently, and treats
//! hostile text only as text.

use std::sync::Arc;

use alloy_primitives::{Address, B256};
use proptest::prelude::*;
use ratatui::buffer::Buffer;
use ratatui::layout::Size;

use crate::keymap::Key;
use crate::screens::ScreenId;
use crate::state::{Input, State};
use crate::theme::Theme;
use bardo_base::fabric::{AskReason, CheckOutcome, Event, EventKind, Finding, GolemState, GolemThought, SafetyCheck};
use bardo_base::id::{GolemId, PermitId};
use bardo_base::text::{SafeText, corpus};
use bardo_base::units::Usd;
use bardo_session::handle::SessionNews;
use bardo_session::market::{BlockRow, ChainIdentity, ChainSnapshot, MarketUpdate, MoneyKind, NetworkIdentity};
use bardo_session::questions::{
    ActionAddress, ActionCosts, ActionRequest, AddressPart, AllowanceAfter, AnswerKind, AnswerOption, ArrivalDetails,
    OrderDetails, Question, QuestionKey, RawCall, RequestSubject, TokenChange, WarningToRead,
};

pub(super) fn text(words: &str) -> SafeText {
    SafeText::clean(words, 200)
}

fn usd(figure: &str) -> Usd {
    figure.parse().unwrap()
}

pub(super) fn news(state: &mut State, news: SessionNews) {
    state.update(Input::News(Box::new(news)));
}

/// Console with a running chain and a Golem that says `words`.
pub(super) fn running(width: u16, height: u16, words: &SafeText) -> State {
    let mut state = State::new(Size { width, height }, 1_700_000_000_000, true);
    let chain = ChainIdentity { name: text("ethereum"), id: 31337, interval_millis: Some(2000) };
    let network = NetworkIdentity {
        name: text("devnet"),
        money: MoneyKind::Play,
        chains: vec![chain],
        wallet: Address::repeat_byte(7),
    };
    news(&mut state, SessionNews::Market(MarketUpdate::Started(network)));
    let block = BlockRow {
        number: 1284,
        timestamp: 1_700_000_000,
        base_fee_wei: 1_200_000_000,
        gas_used: 1,
        gas_limit: 2,
        transactions: 1,
    };
    let snapshot = ChainSnapshot {
        chain: 0,
        blocks: vec![block],
        tokens: vec![],
        pools: vec![],
        balances: vec![],
        positions: vec![],
        lending: None,
        activity: vec![],
    };
    news(&mut state, SessionNews::Market(MarketUpdate::Chain(Box::new(snapshot))));
    let golem_id: GolemId = "ada".parse().unwrap();
    let now = GolemState { now: words.clone(), next: words.clone(), step: Some((2, 4)), delegation: vec![] };
    let kinds = [
        EventKind::GolemNow(now),
        EventKind::GolemThought(GolemThought { thought: 1, text: words.clone(), more: false, report: false }),
    ];
    let event =
        |(seq, kind)| Arc::new(Event { seq, at: 1_700_000_000_000, golem_id: golem_id.clone(), call_id: None, kind });
    news(&mut state, SessionNews::Events((1..).zip(kinds).map(event).collect()));
    state
}

/// Approval request with content in every part.
pub(super) fn question(words: &SafeText) -> Question {
    let from = Address::repeat_byte(0xf3);
    let place = |part, address| ActionAddress {
        part,
        address,
        label: Some(words.clone()),
        listed: false,
        in_book: true,
        is_from: false,
        first_seen: false,
    };
    let action = ActionRequest {
        tool: text("uniswap_execute_swap"),
        intent: text("swap"),
        chain: text("ethereum"),
        chain_id: 31337,
        valid_until: 1_700_000_041_000,
        valid_since: 1_699_999_981_000,
        asked_by: vec![text("trade-executor")],
        opinion: None,
        words: Some(words.clone()),
        quoted_at: Some(1_699_999_979_000),
        block: 1286,
        changes: vec![TokenChange {
            symbol: text("UNI"),
            address: Some(Address::repeat_byte(1)),
            expected: "+259.8297".to_owned(),
            dollars: Some("+$2,037.06".to_owned()),
            before: "0".to_owned(),
            after: "259.8297".to_owned(),
            worst: Some("+258.530551".to_owned()),
            gas: false,
        }],
        lending: None,
        arrival: Some(ArrivalDetails {
            chain_id: 31338,
            symbol: words.clone(),
            address: Some(Address::repeat_byte(0x33)),
            expected: "99.8".to_owned(),
            least: "99.2".to_owned(),
            decimals: None,
        }),
        order: Some(OrderDetails {
            kind: words.clone(),
            usable_until: 1_700_000_200,
            fields: vec![(text("recipient"), words.clone()), (words.clone(), text("7"))],
        }),
        publishes: Vec::new(),
        allowances: vec![AllowanceAfter {
            symbol: text("WETH"),
            spender: Address::repeat_byte(0x22),
            label: None,
            amount: "0.6".to_owned(),
            unlimited: true,
            through_permit2: true,
            expires_at: Some(1_700_000_100),
            before: Some("0".to_owned()),
            before_unlimited: false,
            for_open_orders: None,
            until_settled: None,
        }],
        nothing_else: Ok(()),
        costs: ActionCosts {
            spent: usd("2047.53"),
            counted: None,
            received: usd("2030"),
            gas: usd("0.58"),
            worst_loss_bps: Some(100),
            expected_loss: Some((usd("10.47"), 51)),
        },
        places: vec![place(AddressPart::From, from), place(AddressPart::Receiver, Address::repeat_byte(0xab))],
        checks: vec![SafetyCheck {
            check: bardo_base::model::Check::Simulation,
            outcome: CheckOutcome::Passed,
            finding: Finding::said("fine"),
        }],
        permit: PermitId::random(),
        hash: B256::repeat_byte(5),
        raw: vec![RawCall {
            purpose: text("main"),
            to: Address::repeat_byte(9),
            value_wei: "0".to_owned(),
            gas_limit: 300_000,
            data: format!("0x{}", "ab".repeat(300)),
            signs: vec![words.clone()],
        }],
        bound: None,
        amount: Some(("0.6".to_owned(), text("WETH"))),
        similar: None,
    };
    Question {
        key: QuestionKey::Own(1),
        number: 1,
        golem_id: "ada".parse().unwrap(),
        call_id: None,
        place: 1,
        of: 1,
        title: words.clone(),
        value: Some(usd("2047.53")),
        money: MoneyKind::Play,
        asked_at: 1,
        ends_at: Some(1_700_000_300_000),
        passes_by_itself: false,
        needs_password: false,
        reasons: vec![AskReason::Said { text: words.clone() }],
        changed: vec![],
        revision: 0,
        second: None,
        to_read: vec![WarningToRead::plain(text("first buy of UNI"))],
        confirm: None,
        answers: AnswerKind::ALL.into_iter().map(|kind| AnswerOption { kind, why_not: None }).collect(),
        about: RequestSubject::Action(Box::new(action)),
    }
}

pub(super) fn drawn(state: &State) -> Vec<String> {
    let (theme, _) = Theme::load("dark", None).unwrap();
    let area = state.area();
    let mut buffer = Buffer::empty(area);
    super::draw(state, &theme, area, &mut buffer);
    let width = usize::from(area.width).max(1);
    buffer.content.chunks(width).map(|row| row.iter().map(|cell| cell.symbol()).collect()).collect()
}

/// Console of [`running`] with that request open.
pub(super) fn deciding(width: u16, height: u16, words: &SafeText) -> State {
    let mut state = running(width, height, words);
    news(&mut state, SessionNews::Questions(Arc::new(vec![question(words)])));
    state.update(Input::Key(Key::char('a')));
    state.update(crate::view::drawn(&state));
    state
}

#[test]
fn the_badge_and_the_waiting_decision_never_collapse() {
    for (width, height) in [(40, 10), (60, 16), (80, 24), (100, 30), (120, 40), (200, 50)] {
        let mut state = running(width, height, &text("Selling."));
        news(&mut state, SessionNews::Questions(Arc::new(vec![question(&text("Buy UNI"))])));
        let shown = drawn(&state).join("\n");
        assert!(shown.contains("PLAY MONEY"), "{width}×{height}\n{shown}");
        assert!(shown.contains("WAITS FOR YOU"), "{width}×{height}\n{shown}");
    }
}

#[test]
fn live_shows_now_next_and_the_agents_words() {
    for (width, height) in [(80, 24), (120, 40), (200, 50)] {
        let shown = drawn(&running(width, height, &text("Selling a little."))).join("\n");
        assert!(shown.contains("Selling a little."), "{shown}");
        let next = if width < 100 { "Next Selling a little." } else { "Next: Selling a little." };
        assert!(shown.contains(next), "{shown}");
    }
}

#[test]
fn a_decision_shows_addresses_whole_and_the_worst_case() {
    let shown = drawn(&deciding(120, 50, &text("Buy UNI"))).join("\n");
    for words in [
        "DECISION 1 of 1",
        "PLAY MONEY",
        "worst case +258.530551",
        "WITHOUT LIMIT",
        "nothing is selected",
        &Address::repeat_byte(0xab).to_string(),
        "! [ ]",
    ] {
        assert!(shown.contains(words), "{words}\n{shown}");
    }
    assert!(!shown.contains(" · PgDn"), "{shown}");
}

/// Clicks on the first occurrence of `words`, after the guard time.
fn click(state: &mut State, words: &str) -> Vec<crate::state::Effect> {
    state.update(crate::view::drawn(state));
    state.update(Input::Time(state.clock.now_millis + 1_000));
    let rows = drawn(state);
    let found = rows.iter().enumerate().find_map(|(row, line)| {
        let at = line.find(words)?;
        Some((u16::try_from(line[..at].chars().count()).unwrap(), u16::try_from(row).unwrap()))
    });
    let (column, row) = found.unwrap_or_else(|| panic!("no `{words}` in\n{}", rows.join("\n")));
    state.update(crate::view::click(state, column, row))
}

#[test]
fn a_mouse_alone_opens_reads_picks_and_answers() {
    for (width, height) in [(80, 50), (120, 50), (200, 50)] {
        let mut state = running(width, height, &text("Selling."));
        news(&mut state, SessionNews::Questions(Arc::new(vec![question(&text("Buy UNI"))])));
        click(&mut state, "WAITS FOR YOU");
        click(&mut state, "! [ ]");
        assert!(drawn(&state).join("\n").contains("! [x]"));
        click(&mut state, "a approve once");
        assert!(drawn(&state).join("\n").contains("selected: approve once"), "{width}×{height}");
        let effects = click(&mut state, "Enter confirms");
        assert!(matches!(effects.as_slice(), [crate::state::Effect::Send(_)]), "{effects:?}");
    }
}

#[test]
fn a_click_outside_a_dialog_or_on_somebodys_words_presses_nothing() {
    // The agent's text looks like a button, but it is drawn as the agent's text and is not one.
    let words = text("a approve once Enter confirms");
    let mut state = deciding(120, 50, &words);
    state.update(Input::Time(state.clock.now_millis + 5_000));
    let rows = drawn(&state);
    let row = rows.iter().position(|line| line.contains("agent's words, not checked")).unwrap();
    for column in 0..120 {
        state.update(Input::Time(state.clock.now_millis + 1_000));
        let click = crate::view::click(&state, column, u16::try_from(row).unwrap());
        assert!(state.update(click).is_empty());
        assert!(drawn(&state).join("\n").contains("nothing is selected"), "column {column}");
    }
    // Within the guard time, a click does as little as a key.
    let mut state = deciding(120, 50, &text("Buy UNI"));
    let rows = drawn(&state);
    let row = rows.iter().position(|line| line.contains("a approve once")).unwrap();
    let column = rows[row].find("a approve once").map(|at| rows[row][..at].chars().count()).unwrap();
    let click = crate::view::click(&state, u16::try_from(column).unwrap(), u16::try_from(row).unwrap());
    state.update(click);
    assert!(drawn(&state).join("\n").contains("too soon"));
}

#[test]
fn a_decision_that_is_not_drawn_takes_not_even_a_no() {
    // On the first size the answers are shortened so that a line has room, on the second nothing is drawn.
    for (width, height, taken) in [(40, 10, true), (39, 30, false), (80, 24, true)] {
        let mut state = deciding(width, height, &text("Buy UNI"));
        state.update(Input::Time(state.clock.now_millis + 1_000));
        state.update(Input::Key(Key::char('r')));
        let Some(crate::state::Layer::Decision(decision)) = state.display.layers.last() else { panic!() };
        assert_eq!(decision.picked.is_some(), taken, "{width}×{height}\n{}", drawn(&state).join("\n"));
    }
}

/// Column and row of a text on the screen.
fn place(state: &State, words: &str) -> (u16, u16) {
    let rows = drawn(state);
    let found = rows.iter().enumerate().find_map(|(row, line)| {
        let at = line.find(words)?;
        Some((u16::try_from(line[..at].chars().count()).unwrap(), u16::try_from(row).unwrap()))
    });
    found.unwrap_or_else(|| panic!("no `{words}` in\n{}", rows.join("\n")))
}

#[test]
fn a_click_beside_the_words_of_a_key_is_not_that_key() {
    let mut state = deciding(120, 50, &text("Buy UNI"));
    click(&mut state, "! [ ]");
    // Blanks between two answers.
    let (column, row) = place(&state, "a approve once");
    let next = place(&state, "s approve similar").0;
    for column in column + 16..next - 1 {
        state.update(Input::Time(state.clock.now_millis + 1_000));
        state.update(crate::view::click(&state, column, row));
        assert!(drawn(&state).join("\n").contains("nothing is selected"), "column {column}");
    }
    // The text after `Enter confirms`.
    click(&mut state, "a approve once");
    let (column, row) = place(&state, "A letter selects, Enter confirms");
    let next = place(&state, "selected: approve once").0;
    for column in column + 33..next - 1 {
        state.update(Input::Time(state.clock.now_millis + 1_000));
        assert!(state.update(crate::view::click(&state, column, row)).is_empty(), "column {column}");
    }
    assert!(drawn(&state).join("\n").contains("selected: approve once"));
}

#[test]
fn a_click_marks_nothing_as_read_that_is_not_on_the_screen() {
    // A field of the raw call that looks like a warning.
    let mut state = deciding(120, 50, &text("! [ ] trap"));
    state.update(Input::Key(Key::char('d')));
    state.update(crate::view::drawn(&state));
    let rows = drawn(&state);
    let row = rows.iter().rposition(|line| line.contains("│ ! [ ] trap")).unwrap();
    state.update(Input::Time(state.clock.now_millis + 1_000));
    state.update(crate::view::click(&state, 20, u16::try_from(row).unwrap()));
    state.update(Input::Key(Key::char('d')));
    assert!(drawn(&state).join("\n").contains("! [ ] first buy of UNI"));
}

#[test]
fn what_waits_is_opened_by_its_words_and_not_by_what_stands_below_them() {
    let mut state = running(120, 40, &text("Selling."));
    news(&mut state, SessionNews::Questions(Arc::new(vec![question(&text("Buy UNI"))])));
    let (column, _) = place(&state, "WAITS FOR YOU");
    for row in 30..36 {
        state.update(Input::Time(state.clock.now_millis + 1_000));
        state.update(crate::view::click(&state, column, row));
        assert!(!drawn(&state).join("\n").contains("DECISION"), "row {row}");
    }
}

#[test]
fn on_a_terminal_that_is_too_small_no_click_leaves() {
    let mut state = running(39, 20, &text("Selling."));
    news(&mut state, SessionNews::Questions(Arc::new(vec![question(&text("Buy UNI"))])));
    state.update(Input::Key(Key {
        code: crossterm::event::KeyCode::Char('c'),
        modifiers: crossterm::event::KeyModifiers::CONTROL,
    }));
    assert!(matches!(state.display.layers.last(), Some(crate::state::Layer::Quit { .. })));
    for (column, row) in (0..39).flat_map(|column| (0..20).map(move |row| (column, row))) {
        state.update(Input::Time(state.clock.now_millis + 1_000));
        assert!(state.update(crate::view::click(&state, column, row)).is_empty(), "{column}, {row}");
    }
    assert!(!state.display.layers.is_empty() && !state.session.leaving);
}

#[test]
fn the_click_that_brings_the_terminal_to_the_front_presses_nothing() {
    let mut state = running(120, 40, &text("Selling."));
    news(&mut state, SessionNews::Questions(Arc::new(vec![question(&text("Buy UNI"))])));
    state.update(Input::Focus(true));
    let column = drawn(&state)[0].find("‼").map(|at| drawn(&state)[0][..at].chars().count()).unwrap();
    let click = crate::view::click(&state, u16::try_from(column).unwrap(), 0);
    state.update(click.clone());
    assert!(!drawn(&state).join("\n").contains("DECISION"));
    state.update(Input::Time(state.clock.now_millis + 1_000));
    state.update(click);
    assert!(drawn(&state).join("\n").contains("DECISION"));
}

#[test]
fn the_hint_line_and_the_tabs_can_be_clicked() {
    for (width, height) in [(80, 24), (120, 40)] {
        let mut state = running(width, height, &text("Selling."));
        click(&mut state, "? help");
        assert!(drawn(&state).join("\n").contains("Keys and terms"), "{width}×{height}");
        click(&mut state, "Esc close");
        assert!(!drawn(&state).join("\n").contains("Keys and terms"));
        click(&mut state, if width < 100 { "0-9 screens" } else { "4 Portfolio" });
        let next = if width < 100 { ScreenId::Trade } else { ScreenId::Portfolio };
        assert_eq!(state.display.screen, next, "{width}×{height}");
    }
}

#[test]
fn a_waiting_decision_calls_only_where_that_is_wanted() {
    use crate::state::{Attention, Effect};
    for (attention, called) in [(Attention::None, 0), (Attention::Bell, 1), (Attention::Notify, 1)] {
        let mut state = running(120, 40, &text("Selling."));
        state.options.attention = attention;
        let asked = SessionNews::Questions(Arc::new(vec![question(&text("Buy UNI"))]));
        let effects = state.update(Input::News(Box::new(asked.clone())));
        assert_eq!(effects.iter().filter(|one| **one == Effect::Attention(attention)).count(), called);
        // The same request sent again is not a new one.
        assert!(state.update(Input::News(Box::new(asked))).is_empty());
    }
}

#[test]
fn every_other_screen_is_drawn_or_said_to_be_absent() {
    let mut state = running(120, 40, &text("Selling."));
    for screen in ScreenId::ALL {
        state.update(Input::Key(Key::char(screen.key())));
        let there = state.display.screens.get(screen).is_some();
        assert_eq!(state.display.screen == screen, there, "{screen:?}");
        drawn(&state);
    }
}

/// State at machine time `now`, with an event and a block of the session's own time.
fn at_own_time(now: u64, event: u64, block: u64) -> State {
    let mut state = running(120, 40, &text("Selling."));
    state.update(Input::Time(now));
    let kind =
        EventKind::GolemNow(GolemState { now: text("Selling."), next: text(""), step: None, delegation: vec![] });
    let event = Event { seq: 10, at: event, golem_id: "ada".parse().unwrap(), call_id: None, kind };
    news(&mut state, SessionNews::Events(vec![Arc::new(event)]));
    let blocks = vec![BlockRow {
        number: 1285,
        timestamp: block / 1000,
        base_fee_wei: 1,
        gas_used: 1,
        gas_limit: 2,
        transactions: 1,
    }];
    let (tokens, pools, balances, activity) = (vec![], vec![], vec![], vec![]);
    let snapshot =
        ChainSnapshot { chain: 0, blocks, tokens, pools, balances, positions: vec![], lending: None, activity };
    news(&mut state, SessionNews::Market(MarketUpdate::Chain(Box::new(snapshot))));
    state
}

#[test]
fn what_is_shown_is_told_by_the_sessions_own_time_where_it_has_one() {
    let (day, machine) = (86_400_000, 1_800_000_000_000);
    let own = 1_700_000_000_000;
    // A scenario with its own time, or a recording: that clock counts, and stops without news.
    let mut state = at_own_time(machine, own, own + 4_000);
    assert_eq!(state.session_millis(), own + 4_000);
    assert!(drawn(&state)[0].contains("22:13:24"), "{}", drawn(&state)[0]);
    state.update(Input::Time(machine + 1_000));
    assert_eq!(state.session_millis(), own + 5_000);
    state.update(Input::Time(machine + day));
    assert!(state.session_millis() < own + 10_000);
    // Guard times still follow the machine's clock.
    assert_eq!(state.clock.now_millis, machine + day);
    // A recording made a minute ago is displayed in its own time too.
    let mut state = at_own_time(machine, machine - 60_000, machine - 58_000);
    assert_eq!(state.session_millis(), machine);
    state.session.page.network.as_mut().unwrap().money = MoneyKind::Replay;
    news(&mut state, SessionNews::Events(vec![]));
    assert_eq!(state.session_millis(), machine - 58_000);
    // An advanced chain or a night without events does not make another time.
    for (event, block) in [(machine - 1_000, machine + 3 * day), (machine - day, machine - 1_000)] {
        assert_eq!(at_own_time(machine, event, block).session_millis(), machine, "{event} {block}");
    }
}

#[test]
fn a_key_typed_ahead_cancels_no_orders_on_leaving() {
    let mut state = running(120, 40, &text("Selling."));
    news(&mut state, SessionNews::Questions(Arc::new(vec![question(&text("Buy UNI"))])));
    state.update(Input::Key(Key {
        code: crossterm::event::KeyCode::Char('c'),
        modifiers: crossterm::event::KeyModifiers::CONTROL,
    }));
    assert!(drawn(&state).join("\n").contains("Quit Bardo?"));
    assert!(state.update(Input::Key(Key::char('c'))).is_empty(), "typed before it was seen");
    assert!(!drawn(&state).join("\n").contains("Picked: "));
    state.update(Input::Time(state.clock.now_millis + 1_000));
    assert!(state.update(Input::Key(Key::char('c'))).is_empty(), "a letter alone cancels nothing");
    assert!(drawn(&state).join("\n").contains("Picked: cancel orders and quit."));
    state.update(Input::Time(state.clock.now_millis + 1_000));
    let effects = state.update(Input::Key(Key::plain(crossterm::event::KeyCode::Enter)));
    assert!(matches!(effects.as_slice(), [crate::state::Effect::Send(_)]), "{effects:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// At any size, an approval dialog shows its answers or says that there is no room. Hidden parts are reported.
    #[test]
    fn a_decision_hides_nothing_in_silence(width in 1_u16..140, height in 1_u16..60, scroll in 0_usize..40) {
        let mut state = deciding(width, height, &text("Buy UNI for a good deal of WETH, at the price of now"));
        for _ in 0..scroll {
            state.update(Input::Key(Key::char('j')));
        }
        let shown = drawn(&state).join("\n");
        if width >= 40 && height >= 10 {
            let whole = shown.contains("worst case +258.530551") && shown.contains("hash ");
            prop_assert!(whole || shown.contains(" · Pg"), "{}×{}\n{}", width, height, shown);
        }
    }

    /// At any size, an approval is accepted only after every line was on the screen, whatever keys came before. If
    /// every line can be scrolled into view, scrolling suffices.
    #[test]
    fn nothing_is_approved_that_was_not_shown(
        width in 1_u16..140, height in 1_u16..60, keys in prop::collection::vec(prop::sample::select(vec!['j', 'k', 'G', 'g', 'z', 'd']), 0..12),
    ) {
        let mut state = deciding(width, height, &text("Buy UNI for a good deal of WETH"));
        let mut shown = String::new();
        let mut press = |state: &mut State, key: Key| {
            state.update(Input::Time(state.clock.now_millis + 1_000));
            let effects = state.update(Input::Key(key));
            shown.push_str(&drawn(state).join("\n"));
            state.update(crate::view::drawn(state));
            effects
        };
        press(&mut state, Key::char(' '));
        for key in keys {
            press(&mut state, Key::char(key));
        }
        press(&mut state, Key::char('a'));
        let effects = press(&mut state, Key::plain(crossterm::event::KeyCode::Enter));
        let answered = effects.iter().any(|effect| matches!(effect, crate::state::Effect::Send(_)));
        if answered {
            prop_assert!(width >= 40 && height >= 10, "{}×{}", width, height);
            // The first, the last, and one from the middle.
            for words in ["What changes", "258.530551", "receiver", "hash "] {
                prop_assert!(shown.contains(words), "{}×{} approved without {}", width, height, words);
            }
        }
        // After scrolling line by line to the end, it can be approved wherever it can be shown at all.
        if width >= 40 && height >= 20 && !answered {
            let mut state = deciding(width, height, &text("Buy UNI for a good deal of WETH"));
            let mut last = Vec::new();
            for key in [' '].into_iter().chain(std::iter::repeat_n('j', 120)).chain(['a', '\n']) {
                state.update(Input::Time(state.clock.now_millis + 1_000));
                let key = if key == '\n' { Key::plain(crossterm::event::KeyCode::Enter) } else { Key::char(key) };
                last = state.update(Input::Key(key));
                state.update(crate::view::drawn(&state));
            }
            let sent = last.iter().any(|effect| matches!(effect, crate::state::Effect::Send(_)));
            prop_assert!(sent, "{}×{}\n{}", width, height, drawn(&state).join("\n"));
        }
    }

    /// Hostile text is drawn as plain text, at any size, on every screen and in the approval dialog.
    #[test]
    fn hostile_words_are_only_words(width in 1_u16..140, height in 1_u16..50, pick in 0_usize..10_000) {
        let all: Vec<String> = corpus::all().collect();
        let words = SafeText::clean(&all[pick % all.len()], 200);
        let mut state = deciding(width, height, &words);
        for row in drawn(&state) {
            prop_assert!(!row.chars().any(char::is_control), "{:?}", row);
        }
        state.update(Input::Key(Key::plain(crossterm::event::KeyCode::Esc)));
        for screen in ScreenId::ALL {
            state.update(Input::Key(Key::char(screen.key())));
            for row in drawn(&state) {
                prop_assert!(!row.chars().any(char::is_control), "{:?}", row);
            }
        }
    }
}
