//! Pictures: of each screen and layer; and what a terminal shows of a hostile world: the console's own frames, one after another through an emulator, and each
//! row of its picture held against the buffer it was made from.

use std::num::NonZero;
use std::sync::Arc;

use alloy::primitives::{B256, U256};
use crossterm::event::{KeyCode, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::{Rect, Size};

use super::tests::{deciding, news, question, running, text};
use crate::base::id::{CallId, GolemId};
use crate::base::model::{CardKind, Phase};
use crate::base::text::{REPLACEMENT, SafeText, corpus, width};
use crate::console::keymap::Key;
use crate::console::screen::{Screen, is_sure};
use crate::console::screens::ScreenId;
use crate::console::state::{Input, State};
use crate::console::theme::Theme;
use crate::console::widgets::samples;
use crate::fabric::{Card, Event, EventKind, Redacted, ToolEnd, ToolStart, TxState, TxUpdate, Vitals};
use crate::runtime::handle::News;

/// A terminal that has seen every frame so far.
struct Shown {
    parser: vt100::Parser,
    screen: Screen,
    theme: Theme,
    size: Size,
}

impl Shown {
    fn new(columns: u16, rows: u16) -> Self {
        let cells = |count| NonZero::new(count).unwrap();
        Self {
            parser: vt100::Parser::new(cells(rows), cells(columns), 0),
            screen: Screen::new(Size { width: columns, height: rows }),
            theme: Theme::load("dark", None).unwrap().0,
            size: Size { width: columns, height: rows },
        }
    }

    /// Shows a frame of this state; the cells that are not what the buffer says.
    fn wrong(&mut self, state: &State) -> Vec<String> {
        let mut drawn = Buffer::empty(Rect::default());
        let bytes = self.screen.frame(self.size, |area, buffer| {
            super::draw(state, &self.theme, area, buffer);
            drawn = buffer.clone();
        });
        self.parser.process(&bytes.unwrap());
        let mut wrong = Vec::new();
        for y in 0..self.size.height {
            let mut covered = 0;
            let mut over = String::new();
            for x in 0..self.size.width {
                let cell = &drawn[(x, y)];
                let shown = self.parser.screen().cell(y, x).unwrap().contents();
                let shown = if shown.is_empty() { " " } else { shown };
                if covered == 0 {
                    covered = width(cell.symbol()).max(1);
                    over = cell.symbol().to_owned();
                }
                covered -= 1;
                let right = match is_sure(cell) && over == cell.symbol() {
                    true => shown == cell.symbol(),
                    // Where terminals disagree about widths: itself, a part of it, nothing, or what stands for it. Never
                    // anything else's.
                    false => shown == " " || over.contains(shown) || shown == REPLACEMENT.to_string(),
                };
                if !right {
                    wrong.push(format!("{x},{y}: {shown:?} for {over:?}"));
                }
            }
        }
        wrong
    }
}

#[test]
fn the_picture_of_a_hostile_world_is_what_was_drawn() {
    let all: Vec<SafeText> = corpus::all().map(|raw| SafeText::clean(&raw, 200)).collect();
    assert!(all.len() > 100);
    for (columns, rows) in [(80, 24), (41, 12)] {
        let mut shown = Shown::new(columns, rows);
        for (at, words) in all.iter().enumerate() {
            let told = |state: &State, shown: &mut Shown| {
                let wrong = shown.wrong(state);
                let picture = shown.parser.screen().contents();
                assert!(wrong.is_empty(), "{words:?} at {columns}×{rows}: {wrong:?}\n{picture}");
            };
            told(&deciding(columns, rows, words), &mut shown);
            let mut state = running(columns, rows, words);
            news(&mut state, News::Questions(Arc::new(vec![question(words)])));
            told(&state, &mut shown);
            let screen = ScreenId::ALL[at % ScreenId::ALL.len()];
            state.update(Input::Key(Key::char(screen.digit())));
            told(&state, &mut shown);
        }
    }
}

/// A state with something in every panel of Live.
fn lively(columns: u16, rows: u16) -> State {
    let mut state = running(columns, rows, &text("Selling 0.25 WETH for USDC, to bring WETH under its share."));
    let golem_id: GolemId = "ada".parse().unwrap();
    let (asked, swapped) = (CallId::new(samples::START_MILLIS), CallId::new(samples::START_MILLIS + 1));
    let start = |tool: &'static str| {
        EventKind::ToolStart(ToolStart {
            tool_name: tool.into(),
            params: Redacted::new(&samples::swap_params(), &[]),
            params_hash: B256::ZERO,
            tick: None,
        })
    };
    let (data, hints) = samples::quote_answer(false, 0.02);
    let card = Some(Card { widget: CardKind::Quote, data, hints: Some(hints) });
    let end = ToolEnd { success: true, duration_ms: 120, result_summary: serde_json::Value::Null, card };
    let vitals = Vitals {
        phase: Phase::Thriving,
        why: text("nothing is wrong"),
        equity: "25310.42".parse().ok(),
        high_water: "25400".parse().ok(),
        drawdown_bps: Some(35),
        stop_loss_bps: 1_000,
        gas_runway_seconds: None,
        gas_wei: Some(U256::from(1_373_500_000_000_000_000_u64)),
        failures: 0,
        failures_limit: 3,
        age_seconds: 2_460,
        lifespan_seconds: Some(7_200),
    };
    let tx = |state| TxUpdate { chain_id: 31_337, hash: B256::repeat_byte(0x8c), leg: 1, of: 1, state, block: None };
    let kinds = [
        (None, EventKind::Vitals(Box::new(vitals))),
        (Some(asked), start("uniswap_get_quote")),
        (Some(asked), EventKind::ToolEnd(end)),
        (Some(swapped), start("uniswap_execute_swap")),
        (Some(swapped), EventKind::TxUpdate(tx(TxState::Signed))),
        (Some(swapped), EventKind::TxUpdate(tx(TxState::Sent))),
    ];
    let event = |(place, (call_id, kind)): (u64, _)| {
        let at = samples::START_MILLIS + place * 900;
        Arc::new(Event { seq: 10 + place, at, golem_id: golem_id.clone(), call_id, kind })
    };
    news(&mut state, News::Events((0..).zip(kinds).map(event).collect()));
    state.update(Input::Time(samples::START_MILLIS + 9_000));
    state.notice = None;
    state
}

/// The picture as text; a permit's name is made by chance and stands as `####`.
fn picture(state: &State) -> String {
    let shown = of_no_chance(&super::tests::drawn(state).join("\n"));
    shown.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// The four letters of a permit's name, made the same in every run.
fn of_no_chance(shown: &str) -> String {
    match shown.split_once("permit ") {
        Some((before, after)) if after.chars().nth(4) == Some('…') => {
            let rest: String = after.chars().skip(4).collect();
            format!("{before}permit ####{rest}")
        }
        _ => shown.to_owned(),
    }
}

#[test]
fn screens_and_layers_as_pictures() {
    for (columns, rows) in [(40, 24), (80, 24), (120, 40), (200, 50), (20, 5)] {
        let pictured = |name: &str, state: &State| {
            insta::assert_snapshot!(format!("{name}_{columns}x{rows}"), picture(state));
        };
        let mut state = lively(columns, rows);
        pictured("live", &state);
        for screen in [ScreenId::Audit, ScreenId::Logs] {
            state.update(Input::Key(Key::char(screen.digit())));
            pictured(&screen.name().to_lowercase(), &state);
        }
        let mut state = lively(columns, rows);
        let asked = question(&text("Swap 0.6 WETH for at least 258.53 UNI"));
        news(&mut state, News::Questions(Arc::new(vec![asked])));
        state.notice = None;
        pictured("waiting", &state);
        state.update(Input::Key(Key::char('a')));
        pictured("decision", &state);
        state.update(Input::Key(Key::plain(KeyCode::Esc)));
        for (name, key) in [("help", '?'), ("quit", 'q')] {
            let mut state = lively(columns, rows);
            state.update(Input::Key(Key::char(key)));
            pictured(name, &state);
        }
        let control = |letter| Key { code: KeyCode::Char(letter), modifiers: KeyModifiers::CONTROL };
        for (name, letter) in [("palette", 'p'), ("hold", 'x')] {
            let mut state = lively(columns, rows);
            state.update(Input::Key(control(letter)));
            pictured(name, &state);
        }
    }
}
