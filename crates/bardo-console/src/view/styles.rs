//! Tests of colours with a meaning: on whole screens and in every theme they are those of the role, and a word beside
//! them says the same.

use std::sync::Arc;

use alloy_primitives::{Address, U256};
use ratatui::buffer::Buffer;

use super::pictures::lively;
use super::tests::{news, question, running, text};
use super::text_tests::{snapshot, stopped};
use crate::keymap::Key;
use crate::state::{Input, State};
use crate::theme::{Role, Theme};
use bardo_base::model::StopLevel;
use bardo_base::text::width;
use bardo_session::handle::{AllowanceState, SessionNews, SessionSnapshot};
use bardo_session::market::MoneyKind;
use bardo_session::questions::{OpinionDetails, RequestSubject};

const THEMES: [&str; 4] = ["dark", "light", "bardo", "sixteen"];

/// Checks that the first occurrence of `words` is drawn in the role's colours.
fn is_drawn_as(state: &State, words: &str, role: Role) {
    for name in THEMES {
        let theme = Theme::load(name, None).unwrap().0;
        let area = state.area();
        let mut buffer = Buffer::empty(area);
        super::draw(state, &theme, area, &mut buffer);
        let rows: Vec<String> = buffer
            .content
            .chunks(usize::from(area.width))
            .map(|row| row.iter().map(|cell| cell.symbol()).collect())
            .collect();
        let place = rows.iter().enumerate().find_map(|(y, row)| Some((width(&row[..row.find(words)?]), y)));
        let (x, y) = place.unwrap_or_else(|| panic!("no `{words}` in\n{}", rows.join("\n")));
        let cell = &buffer[(u16::try_from(x).unwrap(), u16::try_from(y).unwrap())];
        let meant = theme.style(role);
        assert_eq!(cell.fg, meant.fg.unwrap_or(cell.fg), "{name}: `{words}` is not {role:?}");
        assert_eq!(cell.bg, meant.bg.unwrap_or(cell.bg), "{name}: `{words}` is not on {role:?}");
        // A role without its own colour would make this check empty.
        assert!(meant.fg.is_some() || meant.bg.is_some(), "{name}: {role:?}");
    }
}

#[test]
fn the_badge_has_the_colour_of_its_money_in_the_header_and_in_a_decision() {
    let badges = [
        (MoneyKind::Play, Role::BadgePlay),
        (MoneyKind::Rehearsal, Role::BadgePlay),
        (MoneyKind::Test, Role::BadgeTest),
        (MoneyKind::Real, Role::BadgeReal),
        (MoneyKind::Paper, Role::BadgePaper),
        (MoneyKind::Replay, Role::BadgeReplay),
    ];
    for (money, role) in badges {
        let mut state = running(120, 50, &text("Selling."));
        state.session.page.network.as_mut().unwrap().money = money;
        is_drawn_as(&state, &format!("▐ {} ▌", money.describe()), role);
        let mut asked = question(&text("Buy UNI"));
        asked.money = money;
        news(&mut state, SessionNews::Questions(Arc::new(vec![asked])));
        state.session.page.network.as_mut().unwrap().money = MoneyKind::Play;
        state.update(Input::Key(Key::char('a')));
        // The dialog's own badge, after its number.
        is_drawn_as(&state, &format!("▐ {} ▌ devnet ethereum", money.describe()), role);
    }
    let mut state = running(120, 40, &text("Selling."));
    news(&mut state, SessionNews::Snapshot(Arc::new(SessionSnapshot { paper: true, ..snapshot() })));
    is_drawn_as(&state, "▐ PAPER ▌", Role::BadgePaper);
}

#[test]
fn what_runs_is_good_and_what_is_stopped_is_bad() {
    let mut state = running(120, 40, &text("Selling."));
    is_drawn_as(&state, "● RUNNING", Role::StateGood);
    news(&mut state, SessionNews::Snapshot(Arc::new(stopped(StopLevel::Halt, false))));
    is_drawn_as(&state, "■ HALTED", Role::StateBad);
    news(&mut state, SessionNews::Snapshot(Arc::new(stopped(StopLevel::Halt, true))));
    is_drawn_as(&state, "■ HELD", Role::StateBad);
    let mut state = running(120, 40, &text("Selling."));
    news(&mut state, SessionNews::Questions(Arc::new(vec![question(&text("Buy UNI"))])));
    is_drawn_as(&state, "‼ 1 WAITS FOR YOU", Role::StateCare);
}

#[test]
fn what_a_decision_warns_of_is_drawn_as_a_warning() {
    let mut asked = question(&text("Buy UNI"));
    asked.passes_by_itself = true;
    if let RequestSubject::Action(action) = &mut asked.about {
        action.opinion = Some(OpinionDetails { agrees: false, why: text("own UNI price $7.83") });
    }
    let mut state = running(120, 60, &text("Selling."));
    news(&mut state, SessionNews::Questions(Arc::new(vec![asked.clone()])));
    state.update(Input::Key(Key::char('a')));
    for (words, role) in [
        ("0x2222222222222222222222222222222222222222 may take WITHOUT LIMIT", Role::StateBad),
        (" › safety-guardian (disagrees", Role::StateBad),
        ("it goes ahead in", Role::StateCare),
        ("[ ] first buy of UNI", Role::StateCare),
        ("worst case +258.530551", Role::StateCare),
        ("Nothing else moves ✓", Role::StateGood),
        ("+259.8297", Role::PriceUp),
    ] {
        is_drawn_as(&state, words, role);
    }
    if let RequestSubject::Action(action) = &mut asked.about {
        action.opinion = Some(OpinionDetails { agrees: true, why: text("own UNI price $7.83") });
    }
    news(&mut state, SessionNews::Questions(Arc::new(vec![asked])));
    is_drawn_as(&state, " › safety-guardian (agrees", Role::StateGood);
}

#[test]
fn chips_gauges_and_levels_are_drawn_as_what_they_say() {
    let mut state = lively(160, 44);
    let mut with = state.session.snapshot.as_deref().cloned().unwrap();
    let allowance = |seed, unlimited| AllowanceState {
        chain: text("ethereum"),
        chain_id: 31_337,
        symbol: text("WETH"),
        token: Address::repeat_byte(seed),
        spender: Address::repeat_byte(0xa3),
        label: None,
        through_permit2: false,
        raw: U256::from(7),
        amount: None,
        unlimited,
        expires_at: None,
        promised: None,
    };
    with.allowances.rows = vec![allowance(1, false), allowance(2, true)];
    if let Some(limits) = &mut with.limits {
        limits.day.used = "5000".parse().unwrap();
    }
    news(&mut state, SessionNews::Snapshot(Arc::new(with)));
    is_drawn_as(&state, "$5,000/$5,000", Role::StateBad);
    is_drawn_as(&state, "✕ Swap", Role::StateBad);
    state.update(Input::Key(Key::char('4')));
    is_drawn_as(&state, "✓ Approved", Role::StateGood);
    is_drawn_as(&state, "UNLIMITED", Role::StateCare);
    state.update(Input::Key(Key::char('8')));
    is_drawn_as(&state, "not done: the symbol mixes", Role::StateBad);
    is_drawn_as(&state, "simulated Swap", Role::Text);
}
