//! Tests of the texts on screens, one for each statement that must not mislead an operator.

use std::sync::Arc;

use alloy_primitives::{B256, U256};
use crossterm::event::{KeyCode, KeyModifiers};
use ratatui::layout::Size;
use serde_json::{Value, json};

use super::tests::{deciding, drawn, news, question, running, text};
use crate::keymap::{Action, Context, Key};
use crate::screens::ScreenId;
use crate::state::{Effect, Input, Layer, State};
use crate::widgets::samples;
use bardo_base::error::ErrorCode;
use bardo_base::fabric::*;
use bardo_base::id::{CallId, PermitId};
use bardo_base::model::{Check, Phase, StopLevel};
use bardo_base::units::Usd;
use bardo_session::handle::{
    AllowanceState, AllowancesState, Custody, GrantState, QueryResult, ReplayControl, ReplayState, SessionCommand,
    SessionInfo, SessionNews, SessionQuery, SessionSnapshot, StopState,
};
use bardo_session::market::{BootStep, MarketUpdate, MoneyKind, NetworkIdentity};

mod decisions;
mod dialogs;
mod events;
mod pages;
mod recordings;
mod silence;
mod wording;

pub(super) use dialogs::revoking;

fn shown(state: &State) -> String {
    drawn(state).join("\n")
}

fn key(state: &mut State, letter: char) -> Vec<Effect> {
    state.update(Input::Key(Key::char(letter)))
}

fn control(letter: char) -> Input {
    Input::Key(Key { code: KeyCode::Char(letter), modifiers: KeyModifiers::CONTROL })
}

/// Standing approval of $500, with `left` dollars remaining.
fn grant(left: &str) -> GrantState {
    GrantState {
        number: 4,
        golem_id: "ada".parse().unwrap(),
        tool: text("uniswap_execute_swap"),
        chain_id: 31_337,
        tokens: vec![text("WETH"), text("USDC")],
        recipients: vec![alloy_primitives::Address::repeat_byte(7)],
        granted: Some(usd("500")),
        left: usd(left),
        lasts_millis: 1_800_000,
    }
}

/// Applies events of one call, or of none, in order.
pub(super) fn tell(state: &mut State, call: Option<CallId>, kinds: Vec<EventKind>) {
    let first = state.session.feed.last + 1;
    let at = state.clock.now_millis;
    let event = |(seq, kind)| Arc::new(Event { seq, at, golem_id: "ada".parse().unwrap(), call_id: call, kind });
    news(state, SessionNews::Events((first..).zip(kinds).map(event).collect()));
}

pub(super) fn start(tool: &'static str, params: Value) -> EventKind {
    EventKind::ToolStart(ToolStart {
        tool_name: tool.into(),
        params: RedactedParams::new(&params, &[]),
        params_hash: B256::ZERO,
        tick: None,
        facts: None,
    })
}

fn tx(state: TxState) -> EventKind {
    let hash = B256::repeat_byte(0x8c);
    EventKind::TxUpdate(TxUpdate {
        chain_id: 31_337,
        hash,
        leg: 1,
        of: 1,
        state,
        block: Some(1285),
        gas_cost_wei: None,
        purpose: None,
    })
}

fn usd(figure: &str) -> Usd {
    figure.parse().unwrap()
}

pub(super) fn snapshot() -> SessionSnapshot {
    let spend = |used, limit| SpendState { used: usd(used), limit: Some(usd(limit)) };
    SessionSnapshot {
        golem_id: "ada".parse().unwrap(),
        at: samples::START_MILLIS,
        account: Some(alloy_primitives::Address::repeat_byte(7)),
        paper: false,
        phase: Phase::Thriving,
        policy: PolicyState { name: text("demo"), version: 3, hash: B256::ZERO },
        limits: Some(LimitUsage {
            day: spend("1966", "5000"),
            month: spend("1966", "50000"),
            one: Some(usd("2500")),
            reserved: usd("853"),
            asks_above: Some(usd("1000")),
            hot_lane: None,
            calls: (3, 10),
            trades: (1, 120),
            breaker: BreakerState::Closed { failures: 0 },
            failures_limit: 3,
            stop_loss_bps: 1_000,
            stop_losses: vec![],
        }),
        fault: None,
        stop: None,
        keys_revoked: false,
        custody: None,
        holdings: Vec::new(),
        equity: Some(usd("25310.42")),
        all_priced: true,
        allowances: AllowancesState::default(),
        grants: Vec::new(),
        running: 0,
        pnl: None,
        transactions: Some(std::sync::Arc::new(crate::screens::sample_transactions("base", "token_revoke"))),
        schedules: None,
        deposits: None,
        watched: Vec::new(),
        names: Vec::new(),
    }
}

pub(super) fn stopped(level: StopLevel, own_hold: bool) -> SessionSnapshot {
    let stop = StopState { level, by: text("operator"), reason: text("price"), at: 1, own_hold };
    SessionSnapshot { stop: Some(stop), ..snapshot() }
}

pub(super) fn ready() -> SessionNews {
    SessionNews::Ready(Box::new(SessionInfo {
        golem_id: "ada".parse().unwrap(),
        name: text("Ada"),
        role: text("golem-instance"),
        tools: Vec::new(),
        scenarios: vec![text("first-tour"), text("price-moved")],
        journal: None,
        commands: Vec::new(),
        brain: None,
        not_attached: None,
        own_devnet: true,
        served: false,
    }))
}
