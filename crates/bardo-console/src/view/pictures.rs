//! Snapshot tests of screens and layers, and tests with hostile text. Those pass consecutive frames through a terminal
//! emulator and compare each row with its buffer.

use std::num::NonZero;
use std::sync::Arc;

use alloy_primitives::{B256, U256};
use crossterm::event::{KeyCode, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::{Rect, Size};
use rust_decimal::Decimal;
use serde_json::json;

use super::tests::{deciding, news, question, running, text};
use super::text_tests::{ready, snapshot, start, stopped, tell};
use crate::keymap::Key;
use crate::screen::{Screen, is_sure};
use crate::screens::ScreenId;
use crate::state::{Input, Layer, State};
use crate::theme::Theme;
use crate::widgets::samples;
use bardo_base::error::ErrorCode;
use bardo_base::fabric::*;
use bardo_base::id::{CallId, PermitId};
use bardo_base::model::{CardKind, Check, Phase, StopLevel};
use bardo_base::text::{REPLACEMENT, SafeText, corpus, width};
use bardo_base::units::TokenAmount;
use bardo_session::handle::{
    ChainHoldings, GrantState, HoldingRow, ReplayState, SessionCommand, SessionNews, SessionSnapshot,
};
use bardo_session::market::{BootStep, MarketUpdate, MoneyKind};
use bardo_session::questions::{PolicyChange, PolicyRequest, Question, RequestSubject};

/// Terminal emulator that has received every frame so far.
struct Picture {
    parser: vt100::Parser,
    screen: Screen,
    theme: Theme,
    size: Size,
}

impl Picture {
    fn new(columns: u16, rows: u16) -> Self {
        let cells = |count| NonZero::new(count).unwrap();
        Self {
            parser: vt100::Parser::new(cells(rows), cells(columns), 0),
            screen: Screen::new(Size { width: columns, height: rows }),
            theme: Theme::load("dark", None).unwrap().0,
            size: Size { width: columns, height: rows },
        }
    }

    /// Shows a frame and returns the cells that differ from the buffer.
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
                    // Where terminals disagree about widths, the cell may show the text, a part of it, nothing, or the
                    // replacement character.
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
        let mut shown = Picture::new(columns, rows);
        for (at, words) in all.iter().enumerate() {
            let told = |state: &State, shown: &mut Picture| {
                let wrong = shown.wrong(state);
                let picture = shown.parser.screen().contents();
                assert!(wrong.is_empty(), "{words:?} at {columns}×{rows}: {wrong:?}\n{picture}");
            };
            told(&deciding(columns, rows, words), &mut shown);
            let mut state = running(columns, rows, words);
            news(&mut state, SessionNews::Questions(Arc::new(vec![question(words)])));
            told(&state, &mut shown);
            let screen = ScreenId::ALL[at % ScreenId::ALL.len()];
            state.update(Input::Key(Key::char(screen.key())));
            told(&state, &mut shown);
        }
    }
}

/// Console with content in every panel of Live: a sent swap, ended calls, prices, holdings, limits.
pub(super) fn lively(columns: u16, rows: u16) -> State {
    let mut state = running(columns, rows, &text("Selling 0.25 WETH for USDC, to bring WETH under its share."));
    news(&mut state, ready());
    let amount = |units: u64, decimals| TokenAmount::new(U256::from(units), decimals).unwrap();
    let held =
        |symbol: &str, amount, value: &str| HoldingRow { symbol: text(symbol), amount, value: value.parse().ok() };
    let holdings = vec![ChainHoldings {
        chain: text("ethereum"),
        chain_id: 31_337,
        block: 1284,
        rows: vec![
            held("ETH", amount(1_373_500_000_000_000_000, 18), "4687.08"),
            held("WETH", amount(4_250_000_000_000_000_000, 18), "14503.34"),
            held("USDC", amount(6_120_000_000, 6), "6120"),
        ],
        positions: vec![],
        lending: None,
    }];
    news(&mut state, SessionNews::Snapshot(Arc::new(SessionSnapshot { holdings, ..snapshot() })));
    for at in 0..170 {
        let wave = i64::try_from(at * 7_919 % 97).unwrap() - 48;
        let millis = samples::START_MILLIS - 850_000 + at * 5_000;
        state.session.feed.take_price(millis, Decimal::new(341_800 + wave * 9, 2));
        state.session.feed.equity.push_back((millis, format!("253{:02}.25", at % 20 + 5).parse().unwrap()));
    }
    let vitals = Vitals {
        phase: Phase::Thriving,
        why: text("nothing is wrong"),
        equity: "25310.42".parse().ok(),
        high_water: "25400".parse().ok(),
        drawdown_bps: Some(35),
        stop_loss_bps: 1_000,
        gas_runway_seconds: Some(777_600),
        gas_wei: Some(U256::from(1_373_500_000_000_000_000_u64)),
        failures: 0,
        failures_limit: 3,
        age_seconds: 2_460,
        lifespan_seconds: Some(7_200),
        lending: None,
    };
    let words = |now: &str, next: &str| GolemState {
        now: text(now),
        next: text(next),
        step: Some((2, 4)),
        delegation: vec![text("trade-executor"), text("safety-guardian")],
    };
    let thought = GolemThought {
        thought: 2,
        text: text("WETH is 57 % of what I hold. Target is 55. Sell 0.25 now, then UNI if it stays cheap."),
        more: false,
        report: false,
    };
    let now = words("Selling 0.25 WETH for USDC, to bring WETH under 55 %.", "Buy UNI for $2,047. Waits for you.");
    tell(
        &mut state,
        None,
        vec![EventKind::Vitals(Box::new(vitals)), EventKind::GolemNow(now), EventKind::GolemThought(thought)],
    );
    let end = |widget, (data, hints)| {
        let card = Some(ResultCard { widget, data, hints: Some(hints) });
        EventKind::ToolEnd(ToolEnd {
            success: true,
            state: None,
            duration_ms: 120,
            result_summary: serde_json::Value::Null,
            card,
        })
    };
    let check = |check, outcome, detail: &str| SafetyCheck {
        check,
        outcome,
        finding: Finding::of_earlier_versions(check, &text(detail)),
    };
    let lookalike = vec![
        start("uniswap_execute_swap", json!({ "token_in": "WETH", "token_out": "USD\u{421}", "amount": "1" })),
        EventKind::ToolError(ToolFailed {
            error_code: ErrorCode::TokenLookalike,
            error_message: text("the symbol mixes Cyrillic and Latin letters"),
            checks: None,
        }),
        EventKind::ToolEnd(ToolEnd {
            success: false,
            state: None,
            duration_ms: 9,
            result_summary: serde_json::Value::Null,
            card: None,
        }),
    ];
    let id = |last: u8| format!("01HF7YAT0{last:017}").parse::<CallId>().ok();
    tell(&mut state, id(1), lookalike);
    let unlimited = json!({"token": "USDC", "spender": "0xA3AF642Cb02a15E2aD2eDf63eD80279d059562bb",
        "allowance": "unlimited", "expires_at": null, "tx_hash": null, "gas_used": 0});
    let approved = vec![
        start("token_approve", json!({ "token": "USDC", "chain": "ethereum" })),
        end(CardKind::Allowance, (unlimited, json!({}))),
    ];
    tell(&mut state, id(2), approved);
    let quoted = vec![
        start("uniswap_get_quote", samples::swap_params()),
        end(CardKind::Quote, samples::quote_answer(false, 0.02)),
    ];
    tell(&mut state, id(3), quoted);
    let moves = |symbol: &str, change: &str, before: &str, after: &str| SimulatedChange {
        symbol: text(symbol),
        address: None,
        change: text(change),
        before: text(before),
        after: text(after),
        gas: false,
    };
    let tx = |state| {
        let hash = B256::repeat_byte(0x8c);
        EventKind::TxUpdate(TxUpdate {
            chain_id: 31_337,
            hash,
            leg: 1,
            of: 1,
            state,
            block: None,
            gas_cost_wei: None,
            purpose: None,
        })
    };
    let limits = "$853.14 now, $1,966.02 of $5,000.00 in 24 hours after it";
    let simulated = "block 1284, 128412 gas, 2 balances move as declared and nothing else";
    let permit: PermitId = "7c1e0000000000000000000000000001".parse().unwrap();
    let swapped = vec![
        start("uniswap_execute_swap", samples::swap_params()),
        EventKind::ToolUpdate(ToolUpdate { step: text("Building calldata"), index: 3, of: 6 }),
        EventKind::SafetyCheck(check(Check::SpendingLimit, CheckOutcome::Passed, limits)),
        EventKind::SafetyCheck(check(Check::Simulation, CheckOutcome::Passed, simulated)),
        EventKind::MemoryHits(MemoryHits { similar: 3, changes: Vec::new() }),
        EventKind::PermitIssued(PermitIssued {
            permit_id: permit,
            simulation_hash: B256::repeat_byte(0x51),
            expected_outcome: text("Swap 0.25 WETH for >= 848.283372 USDC"),
            expires_at: samples::START_MILLIS + 48_000,
            notify: false,
            changes: vec![
                moves("WETH", "−0.25", "4.5", "4.25"),
                moves("USDC", "+852.546102", "5000", "5852.546102"),
                SimulatedChange {
                    gas: true, ..moves("ETH", "−0.000301768200000001", "1.999", "1.998698231799999999")
                },
            ],
            least_out: None,
            leaves_usd: None,
            is_order: false,
        }),
        EventKind::PermitConsumed(PermitUsed { permit_id: permit, simulation_hash: B256::repeat_byte(0x51) }),
        tx(TxState::Signed),
        tx(TxState::Sent),
    ];
    tell(&mut state, id(4), swapped);
    state.update(Input::Time(samples::START_MILLIS + 9_000));
    state.display.notice = None;
    state
}

/// Two approval requests: a swap above the limit, and a looser policy.
pub(super) fn asked() -> SessionNews {
    let swap = Question { of: 2, ..samples::question() };
    let change =
        PolicyChange { field: text("max_daily_spend_usd"), from: text("5000"), to: text("8000"), tighter: false };
    let policy = PolicyRequest {
        file: text("policy.toml"),
        changes: vec![change],
        binding: Vec::new(),
        names: Vec::new(),
        texts: None,
    };
    let looser = Question {
        number: 2,
        place: 2,
        of: 2,
        title: text("A looser policy"),
        value: None,
        ends_at: None,
        reasons: vec![AskReason::LoosensPolicy],
        about: RequestSubject::Policy(policy),
        ..samples::question()
    };
    SessionNews::Questions(Arc::new(vec![swap, looser]))
}

/// Screen as text.
fn picture(state: &State) -> String {
    let shown = super::tests::drawn(state).join("\n");
    shown.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
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
            state.update(Input::Key(Key::char(screen.key())));
            pictured(&screen.name().to_lowercase(), &state);
        }
        let mut state = lively(columns, rows);
        news(&mut state, asked());
        state.display.notice = None;
        pictured("waiting", &state);
        state.update(Input::Key(Key::char('a')));
        pictured("decision", &state);
        state.update(Input::Key(Key::plain(KeyCode::Esc)));
        for (name, key) in [("help", '?'), ("quit", 'q')] {
            let mut state = lively(columns, rows);
            state.update(Input::Key(Key::char(key)));
            pictured(name, &state);
        }
        pictured("revoking", &super::text_tests::revoking(columns, rows));
        let control = |letter| Key { code: KeyCode::Char(letter), modifiers: KeyModifiers::CONTROL };
        for (name, letter) in [("palette", 'p'), ("hold", 'x')] {
            let mut state = lively(columns, rows);
            state.update(Input::Key(control(letter)));
            pictured(name, &state);
        }
        let mut state = State::new(Size { width: columns, height: rows }, samples::START_MILLIS, false);
        for (chain, step, done) in [("ethereum", "deploying Uniswap", true), ("base", "moving the market", false)] {
            let told =
                BootStep { chain: text(chain), step: text(step), detail: text("2 of 9"), done, rehearses: false };
            news(&mut state, SessionNews::Market(MarketUpdate::Boot(told)));
        }
        pictured("boot", &state);
        let mut state = lively(columns, rows);
        let title = text("Revoke the standing approval for Swap?");
        let command = Box::new(SessionCommand::RevokeGrant { number: 1 });
        let since = state.clock.now_millis;
        state.display.layers.push(Layer::Confirm {
            asks: "Revoke this standing approval?",
            title,
            command,
            since,
            picked: false,
        });
        pictured("confirm", &state);
        state.update(Input::Time(since + 1_000));
        state.update(Input::Key(Key::char('y')));
        pictured("confirm_picked", &state);
    }
}

#[test]
fn where_nothing_may_move_time_and_what_is_told_again_change_no_screen() {
    for (columns, rows) in [(80, 24), (120, 40), (200, 50)] {
        for screen in ScreenId::ALL {
            let mut state = lively(columns, rows);
            state.clock.motion = false;
            // One-time changes, such as a stale quote or an expired offer, have happened by then.
            state.update(Input::Time(state.clock.now_millis + 120_000));
            news(&mut state, asked());
            let grant = GrantState {
                number: 1,
                golem_id: "ada".parse().unwrap(),
                tool: text("uniswap_execute_swap"),
                chain_id: 31_337,
                tokens: vec![text("WETH")],
                recipients: Vec::new(),
                granted: "500".parse().ok(),
                left: "380".parse().unwrap(),
                lasts_millis: 1_800_000,
            };
            let (start, vitals) = (state.clock.now_millis, state.session.feed.vitals.clone().unwrap());
            let known = state.session.snapshot.as_deref().cloned().unwrap();
            let again = |state: &mut State, after: u64| {
                let vitals = Vitals { age_seconds: vitals.age_seconds + after / 1_000, ..vitals.clone() };
                tell(state, None, vec![EventKind::Vitals(Box::new(vitals))]);
                let grants = vec![GrantState { lasts_millis: grant.lasts_millis - after, ..grant.clone() }];
                let next = SessionSnapshot { at: start + after, grants, ..known.clone() };
                // The session does not send a snapshot that equals the previous one.
                if !state.session.snapshot.as_ref().is_some_and(|known| known.same_content(&next)) {
                    news(state, SessionNews::Snapshot(Arc::new(next)));
                }
                state.update(crate::view::drawn(state));
            };
            state.update(Input::Key(Key::char(screen.key())));
            // A read that gets no reply is given up once.
            for _ in 0..8 {
                state.update(Input::Time(state.clock.now_millis + 31_000));
            }
            let start = state.clock.now_millis;
            again(&mut state, 0);
            let first = picture(&state);
            for after in (1..=30).map(|second| second * 1_000) {
                state.update(Input::Time(start + after));
                again(&mut state, after);
                assert_eq!(picture(&state), first, "{screen:?} at {columns}×{rows}, after {after} ms");
            }
        }
    }
}

#[test]
fn states_that_are_rare_as_pictures() {
    for (columns, rows) in [(40, 24), (80, 24), (120, 40), (20, 5)] {
        let pictured = |name: &str, change: &dyn Fn(&mut State)| {
            let mut state = lively(columns, rows);
            change(&mut state);
            insta::assert_snapshot!(format!("{name}_{columns}x{rows}"), picture(&state));
        };
        let press = |state: &mut State, key: Key| drop(state.update(Input::Key(key)));
        let network = |state: &mut State, money| {
            if let Some(network) = &mut state.session.page.network {
                network.money = money;
            }
        };
        pictured("frozen", &|state| {
            press(state, Key::char(' '));
            let now = GolemState { now: text("Later."), next: text(""), step: None, delegation: Vec::new() };
            tell(state, None, vec![EventKind::GolemNow(now)]);
        });
        pictured("away", &|state| {
            state.update(Input::Focus(false));
            let at = state.clock.now_millis;
            state.update(Input::Time(at + 720_000));
            state.update(Input::Focus(true));
        });
        pictured("story", &|state| press(state, Key::plain(KeyCode::Enter)));
        pictured("fault", &|state| {
            let message = text("base: no endpoint answers");
            news(state, SessionNews::Market(MarketUpdate::Fault { chain: None, message }));
        });
        pictured("halted", &|state| news(state, SessionNews::Snapshot(Arc::new(stopped(StopLevel::Halt, false)))));
        pictured("held", &|state| {
            press(state, Key { code: KeyCode::Char('x'), modifiers: KeyModifiers::CONTROL });
            news(state, SessionNews::Snapshot(Arc::new(stopped(StopLevel::Halt, true))));
        });
        pictured("watch", &|state| state.options.watch_only = true);
        pictured("paper", &|state| {
            news(state, SessionNews::Snapshot(Arc::new(SessionSnapshot { paper: true, ..snapshot() })))
        });
        pictured("replay", &|state| {
            network(state, MoneyKind::Replay);
            news(state, SessionNews::Replay(ReplayState { paused: true, speed_percent: 200, told: 1_234, of: 5_678 }));
        });
        pictured("caption", &|state| {
            let line = "A decision: this swap is above your limit, so the Golem waits for you.";
            let caption = Caption { show: text("price-moved"), text: text(line), at_seconds: 0 };
            tell(state, None, vec![EventKind::Caption(caption)]);
        });
        pictured("filter", &|state| {
            "/token:weth".chars().for_each(|letter| press(state, Key::char(letter)));
        });
        pictured("alert", &|state| {
            let changed = PhaseChanged { from: Phase::Thriving, to: Phase::Cautious, why: text("a fall of 5 %") };
            tell(state, None, vec![EventKind::PhaseChanged(changed)]);
        });
        pictured("shows", &|state| {
            ":scenario".chars().for_each(|letter| press(state, Key::char(letter)));
            press(state, Key::plain(KeyCode::Enter));
        });
    }
}
