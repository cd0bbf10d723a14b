//! Events folded into what screens show: calls with their steps, orders, bridge orders, the Golem's life, a log of
//! lines. Bounded: what falls off the end is in the journal.

mod calls;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use alloy_primitives::{B256, U256};
use rust_decimal::Decimal;

pub use calls::{CallSeen, Standing, StepSeen};

use super::line::{GAP, Level, Line, line};
use crate::widgets::bridge::is_over;
use crate::widgets::card::CallCard;
use crate::widgets::chart::ChartMark;
use crate::widgets::reasons::Reasons;
use bardo_base::error::ErrorCode;
use bardo_base::fabric::{
    Caption, ChainOpened, Event, EventKind, GolemNow, HaltChanged, IntentUpdate, LimitsChanged, MemoryHits,
    OrderUpdate, SpriteState, ToolEnd, Vitals,
};
use bardo_base::id::CallId;
use bardo_base::model::Phase;
use bardo_base::text::SafeText;
use bardo_base::units::Usd;
use bardo_session::trades::Trades;

/// Calls kept.
pub const CALLS_KEPT: usize = 512;
/// Orders kept that have ended, and bridge orders.
pub const ORDERS_KEPT: usize = 256;
/// Orders kept that can still change, and bridge orders: what can still take money is shown.
pub const OPEN_ORDERS_KEPT: usize = 4_096;
/// Lines of the log kept.
pub const LINES_KEPT: usize = 8_192;
/// Points of a curve kept. All of a session's time is kept: the older half is thinned out where there are more.
pub const POINTS_KEPT: usize = 4_320;
/// Thoughts kept.
pub const THOUGHTS_KEPT: usize = 64;
/// Steps, checks and transactions kept of one call: more than any tool has.
const PARTS_KEPT: usize = 64;
/// Milliseconds between two prices that are both kept.
const PRICE_MILLIS: u64 = 1_500;
/// A show's line and what the Golem does meanwhile are told within so many milliseconds.
const CAPTION_MILLIS: u64 = 2_000;
/// An offer so soon after one that the price has left is held against it.
const ASKED_AGAIN_MILLIS: u64 = 600_000;
/// Milliseconds between two points of the equity curve that are both kept.
const POINT_MILLIS: u64 = 5_000;

/// What the Golem said, as one thought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thought {
    /// Its number.
    pub number: u64,
    /// When it began.
    pub at: u64,
    /// The words so far.
    pub text: SafeText,
    /// Whether more follows.
    pub more: bool,
}

/// What happened while nobody looked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Trades: swaps that the chain confirmed, filled auctions, delivered bridge orders.
    pub trades: u64,
    /// Actions that a rule stopped.
    pub blocked: u64,
    /// Questions that lapsed.
    pub lapsed: u64,
    /// Questions that were refused.
    pub refused: u64,
    /// Calls that failed.
    pub failed: u64,
    /// Changes of phase.
    pub phases: u64,
    /// What gas cost, in wei.
    pub gas_wei: U256,
}

/// Everything that events tell. Freezing the view is keeping a copy of this.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Feed {
    /// Sequence number of the newest event taken in.
    pub last: u64,
    /// Calls, oldest first.
    pub calls: VecDeque<CallSeen>,
    /// Auction orders as they stand, with the time of the newest word, in the order in which they came.
    pub orders: VecDeque<(u64, OrderUpdate)>,
    /// Bridge orders, the same.
    pub intents: VecDeque<(u64, IntentUpdate)>,
    /// What the Golem does and will do.
    pub now: Option<GolemNow>,
    /// What it remembered last.
    pub memory: Option<MemoryHits>,
    /// What it thought, oldest first.
    pub thoughts: VecDeque<Thought>,
    /// How it is doing.
    pub vitals: Option<Vitals>,
    /// Its phase.
    pub phase: Option<Phase>,
    /// What its body shows, and since when.
    pub sprite: Option<(u64, SpriteState)>,
    /// What it was worth, oldest first.
    pub equity: VecDeque<(u64, Usd)>,
    /// What the first chain's coin costs, oldest first: kept here so that a frozen view keeps it.
    pub prices: VecDeque<(u64, Decimal)>,
    /// The stop in force.
    pub stop: Option<HaltChanged>,
    /// The show's newest line.
    pub caption: Option<Caption>,
    /// The show that said a line last.
    pub show: Option<SafeText>,
    /// When it was said.
    captioned_at: Option<u64>,
    /// One line per event worth one, oldest first.
    pub lines: VecDeque<Line>,
    /// Calls that a form made by itself: reads that are no activity of their own.
    aside: BTreeSet<CallId>,
    /// What came of everything so far.
    pub counts: Counts,
    trades: Trades,
    /// Events that were missed and not looked up yet.
    pub missed: u64,
    /// The chains' names.
    pub chains: BTreeMap<u64, SafeText>,
    /// Symbol of each chain's native token, as the session said when it began.
    pub native_symbols: BTreeMap<u64, SafeText>,
    /// The policy and what was used of its limits, as last told.
    pub limits: Option<LimitsChanged>,
    /// The newest block of each chain, with its time.
    pub blocks: BTreeMap<u64, (u64, u64)>,
}

/// What the transactions of a call cost, as its card says.
fn gas_of(end: &ToolEnd) -> U256 {
    let hints = end.card.as_ref().and_then(|card| card.hints.as_ref());
    let all = hints.and_then(|hints| hints.get("transactions")?.as_array()).into_iter().flatten();
    let costs = all.filter_map(|one| one.get("gas_cost_wei")?.as_str()?.parse::<U256>().ok());
    costs.fold(U256::ZERO, U256::saturating_add)
}

fn push<T>(queue: &mut VecDeque<T>, item: T, most: usize) {
    if queue.len() >= most {
        queue.pop_front();
    }
    queue.push_back(item);
}

/// Adds a point. Where there are too many the older half is thinned out, evenly over its time: the beginning stays, however
/// long ago it was, and the newest keep all of theirs.
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
        // Times that do not go on, as a recording may have them, thin nothing out.
        points.drain(..points.len().saturating_sub(POINTS_KEPT - 1));
    }
    points.push_back(point);
}

/// Adds an order. Where there are too many the oldest that has ended goes, and an open one only beyond all measure.
fn push_order<T>(queue: &mut VecDeque<T>, item: T, has_ended: impl Fn(&T) -> bool) {
    if queue.iter().filter(|one| has_ended(one)).count() >= ORDERS_KEPT {
        let oldest = queue.iter().position(&has_ended);
        oldest.and_then(|at| queue.remove(at));
    }
    push(queue, item, OPEN_ORDERS_KEPT);
}

fn push_part<T>(parts: &mut Vec<T>, item: T) {
    if parts.len() < PARTS_KEPT {
        parts.push(item);
    }
}

impl Feed {
    /// Takes an event in. One that was taken in before, or is older, changes nothing.
    pub fn take(&mut self, event: &Arc<Event>) {
        if let EventKind::FabricGap(gap) = &event.kind {
            self.missed = self.missed.saturating_add(gap.missed);
            self.last = self.last.max(event.seq);
            // It has the number of the last event that was missed, so it is told whatever that number is.
            if let Some(line) = line(event, &self.chains) {
                push(&mut self.lines, line, LINES_KEPT);
            }
            return;
        }
        if event.seq <= self.last {
            return;
        }
        self.last = event.seq;
        if let Some(line) = line(event, &self.chains).filter(|_| !self.says_no_more(event)) {
            push(&mut self.lines, line, LINES_KEPT);
        }
        self.fold(event);
    }

    /// Takes a history in, after events were missed: calls begin anew from it where it goes back far enough.
    pub fn take_history(&mut self, events: &[Arc<Event>], last: u64) {
        // What is told again is drawn from what is told: a curve never goes back.
        let begins = events.first().map_or(u64::MAX, |event| event.at);
        let mut equity = std::mem::take(&mut self.equity);
        equity.retain(|(at, _)| *at < begins);
        let gaps: Vec<Line> = self.lines.drain(..).filter(|line| line.kind == GAP).collect();
        let fresh = Self {
            equity,
            prices: std::mem::take(&mut self.prices),
            chains: std::mem::take(&mut self.chains),
            aside: std::mem::take(&mut self.aside),
            ..Self::default()
        };
        *self = fresh;
        for event in events {
            self.take(event);
        }
        self.last = self.last.max(last);
        // That something was missed stays told, at its place; no history knows of it.
        for gap in gaps {
            let place = self.lines.partition_point(|line| line.seq <= gap.seq);
            self.lines.insert(place, gap);
        }
        let over = self.lines.len().saturating_sub(LINES_KEPT);
        self.lines.drain(..over);
    }

    /// Forgets everything but the chains' names: a recording goes to another place, and is told anew from its beginning.
    pub fn begin_anew(&mut self) {
        *self = Self { chains: std::mem::take(&mut self.chains), ..Self::default() };
    }

    /// Takes a price of the first chain's coin in.
    pub fn take_price(&mut self, at: u64, price: Decimal) {
        let close = self.prices.back().is_some_and(|(before, _)| at < before.saturating_add(PRICE_MILLIS));
        if !close {
            push_point(&mut self.prices, (at, price));
        }
    }

    /// Forgets a newest point of the equity curve that says what the one before says: where nothing may move by itself,
    /// time alone is no news.
    pub fn rest(&mut self) {
        let newest = self.equity.len().checked_sub(2).map(|before| self.equity.range(before..));
        if newest.is_some_and(|mut pair| pair.next().map(|(_, one)| one) == pair.next().map(|(_, other)| other)) {
            self.equity.pop_back();
        }
    }

    /// The call of that id.
    pub fn call(&self, call_id: CallId) -> Option<&CallSeen> {
        self.calls.iter().rev().find(|call| call.call_id == call_id)
    }

    /// Calls worth a row, the newest first. What only asks how an order stands has none beside the row of its order.
    pub fn activity(&self) -> impl Iterator<Item = &CallSeen> {
        let rows = self.calls.iter().rev().filter(|call| call.is_activity());
        rows.filter(|call| !self.aside.contains(&call.call_id) && !self.is_told_elsewhere(call))
    }

    /// True for a call that only asked for an order's state, where the order's own row, or a later query of it, shows that.
    fn is_told_elsewhere(&self, call: &CallSeen) -> bool {
        let Some(hash) = call.order_asked_about() else { return false };
        let tells = |other: &CallSeen| match other.order_asked_about() {
            Some(same) => same == hash && other.call_id > call.call_id,
            None => other.card.as_ref().and_then(CallCard::order_placed) == Some(hash),
        };
        self.calls.iter().any(tells)
    }

    /// Takes a call out of the activity: a form asked for it by itself, while its operator was typing.
    pub fn set_aside(&mut self, call_id: CallId) {
        if self.aside.len() >= CALLS_KEPT {
            self.aside.pop_first();
        }
        let fresh = self.aside.insert(call_id);
        // It may have ended before it was known to be a form's.
        let ended = self.call(call_id).filter(|call| call.end.is_some()).map(CallSeen::standing);
        match ended.filter(|_| fresh) {
            Some(Standing::Blocked) => self.counts.blocked = self.counts.blocked.saturating_sub(1),
            Some(Standing::Failed) => self.counts.failed = self.counts.failed.saturating_sub(1),
            _ => {}
        }
    }

    /// Whether an order's word is of something that its line does not tell: where it stands has not changed.
    fn says_no_more(&self, event: &Event) -> bool {
        match &event.kind {
            EventKind::OrderUpdate(order) => {
                self.order(order.order_hash).is_some_and(|known| known.status == order.status)
            }
            EventKind::IntentUpdate(intent) => {
                let known = self.intents.iter().map(|(_, known)| known);
                known.into_iter().any(|known| known.intent_id == intent.intent_id && known.status == intent.status)
            }
            _ => false,
        }
    }

    fn fold(&mut self, event: &Event) {
        let at = event.at;
        let traded = self.trades.take(event);
        self.counts.trades = self.trades.count;
        if event.call_id.is_some()
            && !matches!(event.kind, EventKind::ToolStart(_))
            && let Some(card) = self.of(event).and_then(|call| call.card.as_mut())
        {
            card.fold(at, &event.kind);
        }
        // Whoever hears of an order, its own row says it.
        let heard_of = match &event.kind {
            EventKind::OrderUpdate(order) => Some(order.order_hash),
            EventKind::IntentUpdate(intent) => Some(intent.intent_id),
            _ => None,
        };
        if let Some(hash) = heard_of {
            let others = self.calls.iter_mut().filter(|call| event.call_id != Some(call.call_id));
            for card in others.filter_map(|call| call.card.as_mut()).filter(|card| card.order_placed() == Some(hash)) {
                card.fold(at, &event.kind);
            }
        }
        match &event.kind {
            EventKind::ToolStart(start) => {
                if let Some(call) = self.of(event) {
                    call.card = Some(CallCard::start(at, start));
                    call.start = Some(start.clone());
                }
            }
            EventKind::ToolUpdate(update) => {
                if let Some(call) = self.of(event) {
                    let name = update.step.clone();
                    push_part(&mut call.steps, StepSeen { name, index: update.index, of: update.of, at });
                }
            }
            EventKind::ToolOverrun(_) => {
                if let Some(call) = self.of(event) {
                    call.overran = true;
                }
            }
            EventKind::ToolError(failed) => {
                if let Some(call) = self.of(event) {
                    call.error = Some(failed.clone());
                }
            }
            EventKind::ToolEnd(end) => {
                let Some(call) = self.of(event) else { return };
                call.end = Some(end.clone());
                call.ended_at = Some(at);
                call.traded = traded;
                self.counts.gas_wei = self.counts.gas_wei.saturating_add(gas_of(end));
                let Some(call) = self.of(event) else { return };
                let (call_id, standing) = (call.call_id, call.standing());
                match standing {
                    // A form that is not filled in yet fails nothing.
                    Standing::Blocked | Standing::Failed if self.aside.contains(&call_id) => {}
                    Standing::Blocked => self.counts.blocked += 1,
                    Standing::Failed => self.counts.failed += 1,
                    Standing::Refused => self.counts.refused += 1,
                    Standing::Lapsed => self.counts.lapsed += 1,
                    Standing::Running
                    | Standing::Waiting
                    | Standing::Sent
                    | Standing::Done
                    | Standing::Rehearsed
                    | Standing::OnPaper
                    | Standing::Unclear => {}
                }
            }
            EventKind::SafetyCheck(check) => {
                if let Some(call) = self.of(event) {
                    call.checked_at = Some(at);
                    match call.checks.iter_mut().find(|known| known.check == check.check) {
                        Some(known) => *known = check.clone(),
                        None => push_part(&mut call.checks, check.clone()),
                    }
                }
            }
            EventKind::PermitIssued(issued) => {
                let Some(call) = self.of(event) else { return };
                call.offer = Some(issued.clone());
                let call_id = call.call_id;
                self.hold_against_the_last(call_id, at);
            }
            EventKind::ApprovalRequested(asked) => {
                if let Some(call) = self.of(event) {
                    let since = call.asked.as_ref().map_or(at, |(since, _)| *since);
                    call.asked = Some((since, asked.clone()));
                    call.resolved = None;
                }
            }
            EventKind::ApprovalResolved(resolved) => {
                if let Some(call) = self.of(event) {
                    call.resolved = Some(resolved.clone());
                }
            }
            EventKind::TxUpdate(update) => {
                if let Some(call) = self.of(event) {
                    match call.transactions.iter_mut().find(|(_, known)| known.leg == update.leg) {
                        Some(known) => *known = (at, update.clone()),
                        None => push_part(&mut call.transactions, (at, update.clone())),
                    }
                }
            }
            EventKind::ToolVerified(verified) => {
                if let Some(call) = self.of(event) {
                    call.verified = Some(verified.clone());
                }
            }
            EventKind::OrderUpdate(order) => {
                match self.orders.iter_mut().find(|(_, known)| known.order_hash == order.order_hash) {
                    Some(known) => *known = (at, (**order).clone()),
                    None => push_order(&mut self.orders, (at, (**order).clone()), |(_, one)| one.status.is_final()),
                }
            }
            EventKind::IntentUpdate(intent) => {
                match self.intents.iter_mut().find(|(_, known)| known.intent_id == intent.intent_id) {
                    Some(known) => *known = (at, (**intent).clone()),
                    None => push_order(&mut self.intents, (at, (**intent).clone()), |(_, one)| is_over(one)),
                }
            }
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
            EventKind::Vitals(vitals) => {
                self.phase = Some(vitals.phase);
                if let Some(equity) = vitals.equity {
                    // The newest is always kept; it takes the place of one that stands close to the one before.
                    let before = self.equity.len().checked_sub(2).and_then(|before| self.equity.get(before));
                    if before.is_some_and(|(before, _)| at < before.saturating_add(POINT_MILLIS)) {
                        self.equity.pop_back();
                    }
                    push_point(&mut self.equity, (at, equity));
                }
                self.vitals = Some((**vitals).clone());
            }
            EventKind::PhaseChanged(changed) => {
                self.phase = Some(changed.to);
                self.counts.phases += 1;
            }
            EventKind::SpriteChanged(changed) => self.sprite = Some((at, changed.to)),
            EventKind::GolemNow(now) => {
                // A line of the show stands until the Golem goes on to something that the show says nothing of.
                if self.captioned_at.is_some_and(|since| at > since.saturating_add(CAPTION_MILLIS)) {
                    self.caption = None;
                }
                self.now = Some(now.clone());
                // What was remembered was of what it did before.
                self.memory = None;
            }
            EventKind::GolemThought(said) => match self.thoughts.back_mut() {
                Some(last) if last.number == said.thought && last.more => {
                    last.text = SafeText::clean(&format!("{} {}", last.text, said.text), 4_000);
                    last.more = said.more;
                }
                _ => {
                    let thought = Thought { number: said.thought, at, text: said.text.clone(), more: said.more };
                    push(&mut self.thoughts, thought, THOUGHTS_KEPT);
                }
            },
            EventKind::MemoryHits(hits) => {
                self.memory = Some(hits.clone());
                if let Some(call) = self.of(event) {
                    call.memory = Some(hits.clone());
                }
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
            | EventKind::FabricGap(_)
            | EventKind::FabricFault(_) => {}
        }
    }

    /// An offer for what another offer was for, from which the price has moved away: each tells of the other.
    fn hold_against_the_last(&mut self, call_id: CallId, at: u64) {
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

    /// The call an event belongs to; begun here where its beginning was missed.
    fn of(&mut self, event: &Event) -> Option<&mut CallSeen> {
        let call_id = event.call_id?;
        // Calls end soon: the one meant is nearly always among the newest.
        let at = match self.calls.iter().rposition(|call| call.call_id == call_id) {
            Some(at) => at,
            None => {
                push(&mut self.calls, CallSeen::new(call_id, event.golem_id.clone(), event.at), CALLS_KEPT);
                self.calls.len().checked_sub(1)?
            }
        };
        self.calls.get_mut(at)
    }

    /// What was traded and when, as marks on a chart, and what the marks mean.
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

    /// The order of that hash.
    pub fn order(&self, hash: B256) -> Option<&OrderUpdate> {
        self.orders.iter().map(|(_, order)| order).find(|order| order.order_hash == hash)
    }

    /// Why an auction goes its way, as the call that placed it said; nothing where that call is not kept any more.
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
            | CallCard::Plain(_) => None,
        })
    }

    /// Lines of at least that level, the newest first.
    pub fn lines_from(&self, least: Level) -> impl Iterator<Item = &Line> {
        self.lines.iter().rev().filter(move |line| line.level >= least)
    }
}

#[cfg(test)]
mod tests;
