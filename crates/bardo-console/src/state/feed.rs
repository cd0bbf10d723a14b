//! Feed: events folded into what screens show. Holds calls with their steps, orders, bridge orders, the Golem's state,
//! and log lines. Every collection is bounded; older events are in the journal.

mod calls;
mod orders;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, OnceLock};

use alloy_primitives::map::HashMap;
use alloy_primitives::{B256, U256};
use rust_decimal::Decimal;
use serde_json::Value;

pub use calls::{CallSeen, CallStatus, StepSeen};
pub use orders::KeptOrders;

use super::line::{LogLevel, LogLine, is_logged, line};
use crate::widgets::card::CallCard;
use crate::widgets::chart::ChartMark;
use crate::widgets::reasons::Reasons;
use bardo_base::error::ErrorCode;
use bardo_base::fabric::{
    Caption, ChainOpened, Event, EventKind, GolemState, GolemThought, HaltChanged, IntentUpdate, LimitsChanged,
    MemoryHits, OrderUpdate, SafetyCheck, SpriteState, TxPurpose, TxUpdate, Vitals,
};
use bardo_base::id::CallId;
use bardo_base::model::Phase;
use bardo_base::text::SafeText;
use bardo_base::units::Usd;
use bardo_session::trades::TradeCounter;

/// Maximum number of calls kept.
pub const CALLS_KEPT: usize = 512;
/// Maximum number of ended auction orders kept, and of ended bridge orders.
pub const ORDERS_KEPT: usize = 256;
/// Maximum number of auction orders kept, and of bridge orders. Large, because an open order can still spend money and
/// must be shown.
pub const OPEN_ORDERS_KEPT: usize = 4_096;
/// Maximum number of log lines kept.
pub const LINES_KEPT: usize = 8_192;
/// Maximum number of points of a curve. They always cover the whole session, because the older half is thinned out.
pub const POINTS_KEPT: usize = 4_320;
/// Maximum number of thoughts kept.
pub const THOUGHTS_KEPT: usize = 64;
/// Maximum number of steps, checks and transactions kept per call; more than any tool has.
const PARTS_KEPT: usize = 64;
/// Minimum time between two prices that are kept, in milliseconds.
const PRICE_MILLIS: u64 = 1_500;
/// Time after a caption within which a new activity of the Golem belongs to it, in milliseconds.
const CAPTION_MILLIS: u64 = 2_000;
/// Time after a failed offer within which an offer for the same trade is linked to it, in milliseconds.
const ASKED_AGAIN_MILLIS: u64 = 600_000;
/// Minimum time between two points of the equity curve that are kept, in milliseconds.
const POINT_MILLIS: u64 = 5_000;

/// Thought of the Golem, joined from its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thought {
    /// Number of the thought.
    pub number: u64,
    /// Start of the thought, in milliseconds since the Unix epoch.
    pub at: u64,
    /// Text received so far.
    pub text: SafeText,
    /// True if more parts follow.
    pub more: bool,
}

/// Counts of outcomes over a period: the session so far, or an absence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Trades: confirmed swaps, filled auctions, delivered bridge orders.
    pub trades: u64,
    /// Actions blocked by a rule.
    pub blocked: u64,
    /// Approval requests that lapsed without an answer.
    pub lapsed: u64,
    /// Approval requests that the operator rejected.
    pub refused: u64,
    /// Calls that failed.
    pub failed: u64,
    /// Phase changes of the Golem.
    pub phases: u64,
    /// Gas cost, in wei.
    pub gas_wei: U256,
}

/// State folded from events. A frozen view keeps a copy of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Feed {
    /// Sequence number of the newest event applied.
    pub last: u64,
    /// Calls, oldest first.
    pub calls: VecDeque<CallSeen>,
    /// Auction orders, each with its newest update and the time of that.
    pub orders: KeptOrders<OrderUpdate>,
    /// Bridge orders, each with its newest update and the time of that.
    pub intents: KeptOrders<IntentUpdate>,
    /// Calls that placed an order, by its hash.
    placed: HashMap<B256, Vec<CallId>>,
    /// Current and next activity of the Golem.
    pub now: Option<GolemState>,
    /// Result of the last memory search.
    pub memory: Option<MemoryHits>,
    /// Thoughts of the Golem, oldest first.
    pub thoughts: VecDeque<Thought>,
    /// Vital signs of the Golem: equity, gas, failures.
    pub vitals: Option<Vitals>,
    /// Behavioural phase of the Golem.
    pub phase: Option<Phase>,
    /// State of the Golem's sprite, with the time of its start.
    pub sprite: Option<(u64, SpriteState)>,
    /// Equity over time, oldest first.
    pub equity: VecDeque<(u64, Usd)>,
    /// Price of the first chain's native token over time, oldest first. Kept here so that a frozen view keeps it.
    pub prices: VecDeque<(u64, Decimal)>,
    /// Fee of the pool that these prices are of, in hundredths of a basis point; `None` if they are the feed's.
    pub price_pool: Option<u32>,
    /// Stop in force, as the newest event reports it.
    pub stop: Option<HaltChanged>,
    /// Newest caption of a scenario.
    pub caption: Option<Caption>,
    /// Scenario that showed the last caption.
    pub show: Option<SafeText>,
    /// Time of the newest caption, in milliseconds since the Unix epoch.
    captioned_at: Option<u64>,
    /// Events of the log, oldest first.
    logged: VecDeque<LoggedEvent>,
    /// Calls that a form made automatically: reads that are hidden from the activity.
    aside: BTreeSet<CallId>,
    /// Counts of outcomes so far.
    pub counts: Counts,
    trades: TradeCounter,
    /// Number of missed events that were not queried yet.
    pub missed: u64,
    /// Names of the chains by chain id.
    pub chains: BTreeMap<u64, SafeText>,
    /// Symbol of each chain's native token, as the session said when it began.
    pub native_symbols: BTreeMap<u64, SafeText>,
    /// Policy and usage of its limits, from the latest `limits:changed` event.
    pub limits: Option<LimitsChanged>,
    /// The newest block of each chain, with its time.
    pub blocks: BTreeMap<u64, (u64, u64)>,
}

/// Returns true if both are of the same step of the same plan. The plan that revokes what an unfinished one left counts its
/// steps from one again.
fn same_step(known: &TxUpdate, update: &TxUpdate) -> bool {
    let cleans_up = |one: &TxUpdate| one.purpose == Some(TxPurpose::CleanUp);
    known.leg == update.leg && cleans_up(known) == cleans_up(update)
}

fn push<T>(queue: &mut VecDeque<T>, item: T, most: usize) {
    if queue.len() >= most {
        queue.pop_front();
    }
    queue.push_back(item);
}

/// Adds a point. A full curve thins out its older half evenly over time. The first point and the newer half are kept.
fn push_point<T>(points: &mut VecDeque<(u64, T)>, point: (u64, T)) {
    const HALF: usize = POINTS_KEPT / 2;
    if points.len() >= POINTS_KEPT {
        let time = |at: usize| points.get(at).map_or(0, |(at, _)| *at);
        let apart = time(HALF).saturating_sub(time(0)) / (HALF as u64 / 2);
        let (mut place, mut last) = (0, None);
        points.retain(|(at, _)| {
            place += 1;
            let keeps = place > HALF || last.is_none_or(|last: u64| *at > last.saturating_add(apart));
            if keeps {
                last = Some(*at);
            }
            keeps
        });
        // If times do not increase, as in some recordings, nothing was thinned out, so the oldest points are dropped.
        points.drain(..points.len().saturating_sub(POINTS_KEPT - 1));
    }
    points.push_back(point);
}

/// Event of the log, with its line once that was looked at.
#[derive(Debug, Clone)]
struct LoggedEvent {
    event: Arc<Event>,
    /// True if the line is a detail, whatever its kind.
    is_detail: bool,
    line: OnceLock<Option<LogLine>>,
}

/// By the event: whether its line was looked at makes no difference.
impl PartialEq for LoggedEvent {
    fn eq(&self, other: &Self) -> bool {
        (&self.event, self.is_detail) == (&other.event, other.is_detail)
    }
}

impl LoggedEvent {
    fn new(event: &Arc<Event>, is_detail: bool) -> Self {
        Self { event: Arc::clone(event), is_detail, line: OnceLock::new() }
    }

    fn line(&self, chains: &BTreeMap<u64, SafeText>) -> Option<&LogLine> {
        let write = || {
            let line = line(&self.event, chains)?;
            Some(if self.is_detail { LogLine { level: LogLevel::Detail, ..line } } else { line })
        };
        self.line.get_or_init(write).as_ref()
    }
}

fn push_part<T>(parts: &mut Vec<T>, item: T) {
    if parts.len() < PARTS_KEPT {
        parts.push(item);
    }
}

impl Feed {
    /// Applies an event. Events that were already applied, or that are older, change nothing.
    pub fn take(&mut self, event: &Arc<Event>) {
        if let EventKind::FabricGap(gap) = &event.kind {
            self.missed = self.missed.saturating_add(gap.missed);
            self.last = self.last.max(event.seq);
            // A gap has the number of the last missed event, so its line is added whatever that number is.
            push(&mut self.logged, LoggedEvent::new(event, false), LINES_KEPT);
            return;
        }
        if event.seq <= self.last {
            return;
        }
        self.last = event.seq;
        if is_logged(&event.kind) && !self.repeats_status(event) {
            let logged = LoggedEvent::new(event, self.renews_offer(event));
            push(&mut self.logged, logged, LINES_KEPT);
        }
        self.fold(event);
    }

    /// Rebuilds the feed from a history after events were missed. Earlier equity points, prices and gap lines are kept.
    pub fn take_history(&mut self, events: &[Arc<Event>], last: u64) {
        // The history contains its own equity points, so overlapping ones are dropped first.
        let begins = events.first().map_or(u64::MAX, |event| event.at);
        let mut equity = std::mem::take(&mut self.equity);
        equity.retain(|(at, _)| *at < begins);
        let is_gap = |logged: &LoggedEvent| matches!(logged.event.kind, EventKind::FabricGap(_));
        let gaps: Vec<LoggedEvent> = self.logged.drain(..).filter(is_gap).collect();
        let fresh = Self {
            equity,
            prices: std::mem::take(&mut self.prices),
            price_pool: self.price_pool,
            chains: std::mem::take(&mut self.chains),
            aside: std::mem::take(&mut self.aside),
            ..Self::default()
        };
        *self = fresh;
        for event in events {
            self.take(event);
        }
        self.last = self.last.max(last);
        // A history does not contain gap lines, so they are put back in their place.
        for gap in gaps {
            let place = self.logged.partition_point(|logged| logged.event.seq <= gap.event.seq);
            self.logged.insert(place, gap);
        }
        let over = self.logged.len().saturating_sub(LINES_KEPT);
        self.logged.drain(..over);
    }

    /// Discards everything but the chain names, because a recording jumps to another place and replays from its start.
    pub fn restart(&mut self) {
        *self = Self { chains: std::mem::take(&mut self.chains), ..Self::default() };
    }

    /// Adds a price of the first chain's native token, unless the last one is too recent.
    pub fn take_price(&mut self, at: u64, price: Decimal) {
        let close = self.prices.back().is_some_and(|(before, _)| at < before.saturating_add(PRICE_MILLIS));
        if !close {
            push_point(&mut self.prices, (at, price));
        }
    }

    /// Drops the newest equity point if it equals the one before. Used without motion, where time alone changes
    /// nothing.
    pub fn rest(&mut self) {
        let newest = self.equity.len().checked_sub(2).map(|before| self.equity.range(before..));
        if newest.is_some_and(|mut pair| pair.next().map(|(_, one)| one) == pair.next().map(|(_, other)| other)) {
            self.equity.pop_back();
        }
    }

    /// Call with this id, if it is kept.
    pub fn call(&self, call_id: CallId) -> Option<&CallSeen> {
        self.calls.iter().rev().find(|call| call.call_id == call_id)
    }

    /// Calls with a row of their own, newest first. Status queries of an order are left out if the order has a row.
    pub fn activity(&self) -> impl Iterator<Item = &CallSeen> {
        let rows = self.calls.iter().rev().filter(|call| call.is_activity());
        rows.filter(|call| !self.aside.contains(&call.call_id) && !self.is_told_elsewhere(call))
    }

    /// Returns true for a status query of an order whose own row, or a later query, shows the same.
    fn is_told_elsewhere(&self, call: &CallSeen) -> bool {
        let Some(hash) = call.order_asked_about() else { return false };
        let tells = |other: &CallSeen| match other.order_asked_about() {
            Some(same) => same == hash && other.call_id > call.call_id,
            None => other.card.as_ref().and_then(CallCard::order_placed) == Some(hash),
        };
        self.calls.iter().any(tells)
    }

    /// Marks the operator's own call as waiting for a decision, with its deadline in milliseconds since the Unix epoch.
    /// No event reports it, because such a request is not in the approval queue. `None` if no call waits.
    pub fn wait_for_operator(&mut self, waiting: Option<(CallId, Option<u64>)>) {
        for call in self.calls.iter_mut().rev() {
            let until = waiting.filter(|(call_id, _)| *call_id == call.call_id).map(|(_, until)| until);
            if call.held == until.is_some() || call.end().is_some() {
                continue;
            }
            call.held = until.is_some();
            if let Some(card) = &mut call.card {
                card.wait_for_operator(until);
            }
        }
    }

    /// Hides a call from the activity, because a form made it automatically.
    pub fn set_aside(&mut self, call_id: CallId) {
        if self.aside.len() >= CALLS_KEPT {
            self.aside.pop_first();
        }
        let fresh = self.aside.insert(call_id);
        // The call may have ended, and been counted, before it was known to come from a form.
        let ended = self.call(call_id).filter(|call| call.end().is_some()).map(CallSeen::standing);
        match ended.filter(|_| fresh) {
            Some(CallStatus::Blocked) => self.counts.blocked = self.counts.blocked.saturating_sub(1),
            Some(CallStatus::Failed) => self.counts.failed = self.counts.failed.saturating_sub(1),
            _ => {}
        }
    }

    /// Returns true for an order update with an unchanged status, which needs no log line.
    fn repeats_status(&self, event: &Event) -> bool {
        match &event.kind {
            EventKind::OrderUpdate(order) => {
                self.order(order.order_hash).is_some_and(|known| known.status == order.status)
            }
            EventKind::IntentUpdate(intent) => {
                self.intents.get(intent.intent_id).is_some_and(|known| known.status == intent.status)
            }
            EventKind::GolemNow(now) => self.now.as_ref().is_some_and(|known| known.now == now.now),
            _ => false,
        }
    }

    /// Returns true for the offer of a call that waits for the operator: its action was simulated again, which the request says.
    fn renews_offer(&self, event: &Event) -> bool {
        matches!(event.kind, EventKind::PermitIssued(_))
            && event.call_id.and_then(|id| self.call(id)).is_some_and(CallSeen::has_open_request)
    }

    fn fold(&mut self, event: &Arc<Event>) {
        let at = event.at;
        let traded = self.trades.take(event);
        self.counts.trades = self.trades.count;
        self.fold_cards(event);
        match &event.kind {
            EventKind::ToolStart(start) => self.update(event, |call| {
                call.card = Some(CallCard::start(at, start));
                call.start = Some(start.clone());
            }),
            EventKind::ToolUpdate(update) => self.update(event, |call| {
                let name = update.step.clone();
                push_part(&mut call.steps, StepSeen { name, index: update.index, of: update.of, at });
            }),
            EventKind::ToolOverrun(_) => self.update(event, |call| call.overran = true),
            EventKind::ToolError(failed) => self.update(event, |call| call.error = Some(failed.clone())),
            EventKind::ToolEnd(_) => self.call_ended(event, traded),
            EventKind::SafetyCheck(check) => self.checked(event, check),
            EventKind::PermitIssued(issued) => {
                let Some(call) = self.of(event) else { return };
                call.offer = Some(issued.clone());
                let call_id = call.call_id;
                self.link_failed_offer(call_id, at);
            }
            EventKind::ApprovalRequested(asked) => self.update(event, |call| {
                let since = call.asked.as_ref().map_or(at, |(since, _)| *since);
                call.asked = Some((since, asked.clone()));
                call.resolved = None;
            }),
            EventKind::ApprovalResolved(resolved) => self.update(event, |call| {
                call.resolved = Some(resolved.clone());
                if let (Some(amount), Some(start)) = (&resolved.amount, &mut call.start) {
                    let asked = start.params.value().get("amount").and_then(Value::as_str);
                    call.asked_amount = asked.map(ToOwned::to_owned);
                    start.params.use_amount(amount);
                }
            }),
            EventKind::TxUpdate(update) => self.transaction_moved(event, update),
            EventKind::ToolVerified(verified) => self.update(event, |call| call.verified = Some(verified.clone())),
            EventKind::OrderUpdate(order) => self.orders.insert(at, (**order).clone()),
            EventKind::IntentUpdate(intent) => self.intents.insert(at, (**intent).clone()),
            EventKind::ChainBlock(block) => {
                self.blocks.insert(block.chain_id, (block.number, block.timestamp));
            }
            EventKind::HaltRaised(halt) | EventKind::HaltLowered(halt) => {
                self.stop = halt.level.is_some().then(|| halt.clone());
            }
            EventKind::SessionOpened(opened) => {
                let coin = |chain: &ChainOpened| (chain.chain_id, chain.native_symbol.clone());
                self.native_symbols = opened.chains.iter().map(coin).collect();
            }
            EventKind::LimitsChanged(changed) => self.limits = Some((**changed).clone()),
            EventKind::Vitals(vitals) => self.measured(at, vitals),
            EventKind::PhaseChanged(changed) => {
                self.phase = Some(changed.to);
                self.counts.phases += 1;
            }
            EventKind::SpriteChanged(changed) => self.sprite = Some((at, changed.to)),
            EventKind::GolemNow(now) => {
                // A caption stays until the Golem turns to an activity that no caption describes.
                if self.captioned_at.is_some_and(|since| at > since.saturating_add(CAPTION_MILLIS)) {
                    self.caption = None;
                }
                self.now = Some(now.clone());
                // The memory result belongs to the previous activity.
                self.memory = None;
            }
            EventKind::GolemThought(thought) => self.thought(at, thought),
            EventKind::ActionRecovered(found) => self.update(event, |call| call.recovered = Some(found.clone())),
            EventKind::MemoryHits(hits) => {
                self.memory = Some(hits.clone());
                self.update(event, |call| call.memory = Some(hits.clone()));
            }
            EventKind::Caption(caption) => {
                self.caption = Some(caption.clone());
                self.show = Some(caption.show.clone());
                self.captioned_at = Some(at);
            }
            EventKind::PermitConsumed(_)
            | EventKind::PermitRefused(_)
            | EventKind::ChainHealth(_)
            | EventKind::PolicyChanged(_)
            | EventKind::DirectiveChanged(_)
            | EventKind::LendingLiquidated(_)
            | EventKind::AlertChannel(_)
            | EventKind::FabricGap(_)
            | EventKind::FabricFault(_) => {}
        }
    }

    /// Changes the call of an event, if it is kept.
    fn update(&mut self, event: &Event, change: impl FnOnce(&mut CallSeen)) {
        if let Some(call) = self.of(event) {
            change(call);
        }
    }

    /// Applies an event to the card of its call, and an order update also to the card that placed the order.
    fn fold_cards(&mut self, event: &Event) {
        let at = event.at;
        if let Some(call_id) = event.call_id
            && let Some(card) = self.of(event).and_then(|call| call.card.as_mut())
        {
            let before = card.order_placed();
            let after = match event.kind {
                // A new card takes its place.
                EventKind::ToolStart(_) => None,
                _ => {
                    card.fold(at, &event.kind);
                    card.order_placed()
                }
            };
            if before != after {
                self.forget_placed(call_id, before);
                if let Some(hash) = after {
                    self.placed.entry(hash).or_default().push(call_id);
                }
            }
        }
        let heard_of = match &event.kind {
            EventKind::OrderUpdate(order) => Some(order.order_hash),
            EventKind::IntentUpdate(intent) => Some(intent.intent_id),
            _ => None,
        };
        let placed_by = heard_of.and_then(|hash| self.placed.get(&hash)).into_iter().flatten();
        for call_id in placed_by.filter(|call_id| event.call_id != Some(**call_id)) {
            let call = self.calls.iter_mut().rev().find(|call| call.call_id == *call_id);
            if let Some(card) = call.and_then(|call| call.card.as_mut()) {
                card.fold(at, &event.kind);
            }
        }
    }

    /// Removes a call from those that placed the order with this hash.
    fn forget_placed(&mut self, call_id: CallId, hash: Option<B256>) {
        let Some(hash) = hash else { return };
        if let Some(calls) = self.placed.get_mut(&hash) {
            calls.retain(|known| *known != call_id);
            if calls.is_empty() {
                self.placed.remove(&hash);
            }
        }
    }

    fn call_ended(&mut self, event: &Arc<Event>, traded: bool) {
        let Some(call) = self.of(event) else { return };
        call.end = Some(Arc::clone(event));
        call.ended_at = Some(event.at);
        call.traded = traded;
        let gas = call.gas_costs().into_iter().fold(U256::ZERO, |sum, (_, cost)| sum.saturating_add(cost));
        self.counts.gas_wei = self.counts.gas_wei.saturating_add(gas);
        let Some(call) = self.of(event) else { return };
        let (call_id, standing) = (call.call_id, call.standing());
        match standing {
            // A form that is not filled in yet does not count as a failure.
            CallStatus::Blocked | CallStatus::Failed if self.aside.contains(&call_id) => {}
            CallStatus::Blocked => self.counts.blocked += 1,
            CallStatus::Failed => self.counts.failed += 1,
            CallStatus::Refused => self.counts.refused += 1,
            CallStatus::Lapsed => self.counts.lapsed += 1,
            CallStatus::Running
            | CallStatus::Waiting
            | CallStatus::Sent
            | CallStatus::Done
            | CallStatus::Rehearsed
            | CallStatus::OnPaper
            | CallStatus::NotDone
            | CallStatus::Unclear => {}
        }
    }

    fn checked(&mut self, event: &Event, check: &SafetyCheck) {
        if let Some(call) = self.of(event) {
            call.checked_at = Some(event.at);
            match call.checks.iter_mut().find(|known| known.check == check.check) {
                Some(known) => *known = check.clone(),
                None => push_part(&mut call.checks, check.clone()),
            }
        }
    }

    fn transaction_moved(&mut self, event: &Event, update: &TxUpdate) {
        if let Some(call) = self.of(event) {
            match call.transactions.iter_mut().find(|(_, known)| same_step(known, update)) {
                Some(known) => *known = (event.at, update.clone()),
                None => push_part(&mut call.transactions, (event.at, update.clone())),
            }
        }
    }

    fn measured(&mut self, at: u64, vitals: &Vitals) {
        self.phase = Some(vitals.phase);
        if let Some(equity) = vitals.equity {
            // The newest point is always kept. It replaces the last one if that was too close to its
            // predecessor.
            let before = self.equity.len().checked_sub(2).and_then(|before| self.equity.get(before));
            if before.is_some_and(|(before, _)| at < before.saturating_add(POINT_MILLIS)) {
                self.equity.pop_back();
            }
            push_point(&mut self.equity, (at, equity));
        }
        self.vitals = Some(vitals.clone());
    }

    fn thought(&mut self, at: u64, said: &GolemThought) {
        // A report of the program stands among the events, not under the agent's words.
        if said.report {
            return;
        }
        match self.thoughts.back_mut() {
            Some(last) if last.number == said.thought && last.more => {
                last.text = SafeText::clean(&format!("{} {}", last.text, said.text), 4_000);
                last.more = said.more;
            }
            _ => {
                let thought = Thought { number: said.thought, at, text: said.text.clone(), more: said.more };
                push(&mut self.thoughts, thought, THOUGHTS_KEPT);
            }
        }
    }

    /// Links an offer with an earlier call for the same trade that failed because the price moved. Each shows the
    /// other.
    fn link_failed_offer(&mut self, call_id: CallId, at: u64) {
        let wanted = |call: &CallSeen| {
            let params = call.start.as_ref()?.params.value();
            let part = |name: &str| params.get(name).and_then(|value| value.as_str()).map(str::to_owned);
            Some((call.tool().to_owned(), part("token_in")?, part("token_out")?, part("chain")))
        };
        let Some(call) = self.call(call_id) else { return };
        let (same, now) = (wanted(call), call.offer.as_ref().map(|offer| offer.expected_outcome.clone()));
        let missed = |one: &CallSeen| {
            let code = one.error.as_ref().map(|error| error.error_code);
            let recent = one.ended_at.is_some_and(|ended| at <= ended.saturating_add(ASKED_AGAIN_MILLIS));
            code == Some(ErrorCode::PermitMismatch) && recent && one.call_id != call_id && wanted(one) == same
        };
        let Some(before) = self.calls.iter().rposition(missed).filter(|_| same.is_some()) else { return };
        let was = self.calls.get(before).and_then(|one| Some(one.offer.as_ref()?.expected_outcome.clone()));
        if let Some(CallCard::Swap(card)) = self.calls.get_mut(before).and_then(|one| one.card.as_mut()) {
            card.after = now;
        }
        if let Some(call) = self.calls.iter_mut().rev().find(|call| call.call_id == call_id) {
            if let Some(CallCard::Swap(card)) = &mut call.card {
                card.before.clone_from(&was);
            }
            call.before = was;
        }
    }

    /// Call that an event belongs to; created here if its start was missed.
    fn of(&mut self, event: &Event) -> Option<&mut CallSeen> {
        let call_id = event.call_id?;
        // Searches from the end, because nearly all events belong to recent calls.
        let at = match self.calls.iter().rposition(|call| call.call_id == call_id) {
            Some(at) => at,
            None => {
                if self.calls.len() >= CALLS_KEPT
                    && let Some(oldest) = self.calls.pop_front()
                {
                    self.forget_placed(oldest.call_id, oldest.card.and_then(|card| card.order_placed()));
                }
                self.calls.push_back(CallSeen::new(call_id, event.golem_id.clone(), event.at));
                self.calls.len().checked_sub(1)?
            }
        };
        self.calls.get_mut(at)
    }

    /// Trades as chart marks with their times, and the legend of the marks.
    pub fn trade_marks(&self) -> (Vec<ChartMark>, String) {
        let swaps = self.calls.iter().filter(|call| call.traded);
        let swaps = swaps.map(|call| ChartMark { at: call.ended_at.unwrap_or(call.started_at), character: 's' });
        let filled = self.orders.iter().filter(|(_, order)| order.fill.is_some());
        let auctions = filled.map(|(at, _)| ChartMark { at: *at, character: 'a' });
        let delivered = self.intents.iter().filter(|(_, intent)| intent.delivered.is_some());
        let bridges = delivered.map(|(at, _)| ChartMark { at: *at, character: 'b' });
        let marks: Vec<ChartMark> = swaps.chain(auctions).chain(bridges).collect();
        let has = |character| marks.iter().any(|mark| mark.character == character);
        let words = [('a', "a = auctions"), ('b', "b = bridges")].into_iter().filter(|(mark, _)| has(*mark));
        let mut legend = "s = swaps".to_owned();
        for (_, word) in words {
            legend.push_str(" · ");
            legend.push_str(word);
        }
        (marks, legend)
    }

    /// Auction order with this hash, if it is kept.
    pub fn order(&self, hash: B256) -> Option<&OrderUpdate> {
        self.orders.get(hash)
    }

    /// Reasons of an auction's routing, from the call that placed it; `None` if that call is no longer kept.
    pub fn reasons(&self, hash: B256) -> Option<&Reasons> {
        self.calls.iter().rev().find_map(|call| match call.card.as_ref()? {
            CallCard::Order(card) => {
                let own = card.order.as_ref().is_some_and(|order| order.order_hash == hash);
                (own && !card.reasons.is_empty()).then_some(&card.reasons)
            }
            CallCard::Quote(_)
            | CallCard::Swap(_)
            | CallCard::Bridge(_)
            | CallCard::Allowance(_)
            | CallCard::Lending(_)
            | CallCard::Position(_)
            | CallCard::Plain(_) => None,
        })
    }

    /// Log lines of at least this level, newest first.
    pub fn lines_from(&self, least: LogLevel) -> impl Iterator<Item = &LogLine> {
        self.lines().rev().filter(move |line| line.level >= least)
    }

    /// Log lines, at most one per event, oldest first. Each is written when it is first asked for, since far more events arrive
    /// than anybody looks at.
    pub fn lines(&self) -> impl DoubleEndedIterator<Item = &LogLine> {
        self.logged.iter().filter_map(|logged| logged.line(&self.chains))
    }
}

#[cfg(test)]
mod tests;
