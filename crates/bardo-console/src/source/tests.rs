//! Tests of recordings in the console's state: seeking gives the same state as playing straight to that place.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use alloy_primitives::B256;
use ratatui::layout::Size;
use serde_json::{Value, json};

use super::*;
use crate::state::{Input, State};
use crate::widgets::samples;
use bardo_base::clock::Clock;
use bardo_base::fabric::*;
use bardo_base::id::{CallId, GolemId};
use bardo_base::model::{CardKind, Phase, StopLevel};
use bardo_session::handle::{AddressedCommand, ReplayControl, SessionCommand};

/// Start of the recorded run, in milliseconds since the Unix epoch; long before the machine's clock.
const BEGAN: u64 = 1_700_000_000_000;

/// Clock of the recorded run.
#[derive(Debug)]
struct Recorded(AtomicU64);

impl Clock for Recorded {
    fn now_millis(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Writes a journal with the event fabric: `rounds` of a swap, blocks of two chains, figures, texts, an order, and a
/// stop that is raised and lowered. Returns the number of events.
fn journal(path: &Path, rounds: u64) -> usize {
    let clock = Arc::new(Recorded(AtomicU64::new(BEGAN)));
    let config = FabricConfig { ring: 64, journal: Some(path.to_owned()), clock: clock.clone() };
    let fabric = Fabric::new(config).unwrap();
    let text = |words: &str| SafeText::clean(words, 80);
    let golem: GolemId = "ada".parse().unwrap();
    let mut written = 0;
    for round in 1..=rounds {
        clock.0.store(BEGAN + round * 7_000, Ordering::Relaxed);
        let call = CallId::new(BEGAN + round);
        let block =
            |chain_id, number| EventKind::ChainBlock(ChainBlock { chain_id, number, timestamp: BEGAN / 1000 + number });
        let tx = |state| {
            let hash = B256::repeat_byte(7);
            EventKind::TxUpdate(TxUpdate {
                chain_id: 31_337,
                hash,
                leg: 1,
                of: 1,
                state,
                block: Some(round),
                gas_cost_wei: None,
                purpose: None,
            })
        };
        let vitals = Vitals {
            phase: Phase::Thriving,
            why: text("nothing is wrong"),
            equity: format!("25{:03}.5", round * 13 % 900).parse().ok(),
            high_water: "25999".parse().ok(),
            drawdown_bps: Some(round % 50),
            stop_loss_bps: 1_000,
            gas_runway_seconds: None,
            gas_wei: None,
            failures: 0,
            failures_limit: 3,
            age_seconds: round,
            lifespan_seconds: None,
            lending: None,
        };
        let mut order = samples::order(DecayUnit::Seconds);
        order.order_hash = B256::repeat_byte(u8::try_from(round).unwrap());
        let stop = |level| HaltChanged { level, by: text("operator"), reason: text("a look"), hold: false };
        let halt = match round % 3 {
            0 => EventKind::HaltRaised(stop(Some(StopLevel::Pause))),
            _ => EventKind::HaltLowered(stop(None)),
        };
        let changed = PhaseChanged { from: Phase::Thriving, to: Phase::Cautious, why: text(&format!("fall {round}")) };
        let now = GolemState { now: text(&format!("Round {round}.")), next: text(""), step: None, delegation: vec![] };
        let said = GolemThought { thought: round, text: text("I think."), more: round % 2 == 0, report: false };
        let card = ResultCard { widget: CardKind::Swap, data: json!({ "amount_out": "9" }), hints: None };
        let kinds = [
            (None, block(31_337, round)),
            (None, block(31_338, round * 2)),
            (
                Some(call),
                EventKind::ToolStart(ToolStart {
                    tool_name: "uniswap_execute_swap".into(),
                    params: RedactedParams::new(&samples::swap_params(), &[]),
                    params_hash: B256::ZERO,
                    tick: None,
                    facts: None,
                }),
            ),
            (Some(call), tx(TxState::Sent)),
            (Some(call), tx(TxState::Confirmed)),
            (
                Some(call),
                EventKind::ToolEnd(ToolEnd {
                    success: true,
                    state: None,
                    duration_ms: 9,
                    result_summary: Value::Null,
                    card: Some(card),
                }),
            ),
            (None, EventKind::Vitals(Box::new(vitals))),
            (None, EventKind::OrderUpdate(Box::new(order))),
            (None, halt),
            (None, EventKind::PhaseChanged(changed)),
            (None, EventKind::GolemNow(now)),
            (None, EventKind::GolemThought(said)),
        ];
        for (call, kind) in kinds {
            fabric.emit(&golem, call, kind);
            written += 1;
        }
    }
    fabric.flush().unwrap();
    written
}

/// State of a console that plays a recording.
struct TestConsole {
    handle: SessionHandle,
    state: State,
}

impl TestConsole {
    fn on(path: &Path, motion: bool) -> Self {
        let source = recording(path.to_owned(), 100).unwrap();
        Self { handle: source(), state: State::new(Size { width: 120, height: 40 }, 1_800_000_000_000, motion) }
    }

    /// Applies news until the recording has played `told` events.
    async fn until(&mut self, told: usize) {
        let there = |state: &State| state.session.replay.is_some_and(|now| now.told == told as u64);
        while !there(&self.state) {
            let news = self.handle.news.recv().await.unwrap();
            self.state.update(Input::News(Box::new(news)));
        }
    }

    /// Stops before the first event, whatever was played meanwhile.
    async fn stand_at_the_start(&mut self) {
        self.steer(ReplayControl::Toggle).await;
        self.steer(ReplayControl::Seek { percent: 0 }).await;
        loop {
            let news = self.handle.news.recv().await.unwrap();
            let sought = matches!(news, SessionNews::Found { .. });
            self.state.update(Input::News(Box::new(news)));
            if sought {
                return self.until(0).await;
            }
        }
    }

    async fn steer(&self, control: ReplayControl) {
        let command = SessionCommand::Replay(control);
        self.handle.commands.send(AddressedCommand { golem_id: GolemId::operator(), command }).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn sought_to_any_place_back_or_forth_all_is_as_if_played_straight_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let count = journal(&path, 12);
    for motion in [true, false] {
        let mut sought = TestConsole::on(&path, motion);
        sought.until(count).await;
        sought.steer(ReplayControl::Toggle).await;
        for percent in [0, 100, 37, 36, 5, 80, 52] {
            let told = count * usize::from(percent) / 100;
            sought.steer(ReplayControl::Seek { percent }).await;
            sought.until(told).await;
            let mut straight = TestConsole::on(&path, motion);
            straight.stand_at_the_start().await;
            for step in 1..=told {
                straight.steer(ReplayControl::Step).await;
                straight.until(step).await;
            }
            assert_eq!(sought.state.session.feed, straight.state.session.feed, "{percent} %");
            assert_eq!(sought.state.session.page, straight.state.session.page, "{percent} %");
            assert_eq!(sought.state.operator.alerts, straight.state.operator.alerts, "{percent} %");
            assert_eq!(sought.state.session_millis(), straight.state.session_millis(), "{percent} %");
            // Checks against the journal: the number of blocks at that place.
            let rounds = told.div_ceil(12);
            assert_eq!(
                sought.state.session.feed.blocks.get(&31_337).map(|(number, _)| *number).unwrap_or(0),
                rounds as u64
            );
            assert_eq!(sought.state.session.page.chains[0].blocks.len(), rounds);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_alert_of_a_recording_stands_by_the_time_of_its_day() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let count = journal(&path, 12);
    let mut console = TestConsole::on(&path, true);
    console.until(count).await;
    let told = console.state.fresh_alert().map(|alert| alert.text.to_string());
    assert_eq!(told.as_deref(), Some("phase THRIVING → CAUTIOUS: fall 12"));
}

#[tokio::test(start_paused = true)]
async fn a_recording_without_a_block_is_shown_and_waits_for_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let clock = Arc::new(Recorded(AtomicU64::new(BEGAN)));
    let fabric = Fabric::new(FabricConfig { ring: 8, journal: Some(path.clone()), clock }).unwrap();
    let start = ToolStart {
        tool_name: "token_approve".into(),
        params: RedactedParams::new(&json!({ "token": "WETH" }), &[]),
        params_hash: B256::ZERO,
        tick: None,
        facts: None,
    };
    fabric.emit(&GolemId::operator(), Some(CallId::new(BEGAN)), EventKind::ToolStart(start));
    fabric.flush().unwrap();
    let mut console = TestConsole::on(&path, true);
    console.until(1).await;
    assert!(!console.state.booting(), "a call by hand records no block, and nothing starts");
    assert_eq!(console.state.session_millis(), BEGAN, "its time is that of its day");
}
