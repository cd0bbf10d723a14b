//! Statistics of a run, counted from its events, and the latest known facts about each requesting agent.

use std::collections::{BTreeMap, BTreeSet};

use alloy::primitives::B256;

use crate::questions::RequestContext;
use bardo_base::chains::display_name;
use bardo_base::error::ErrorCode;
use bardo_base::fabric::{ApprovalOutcome, Event, EventKind, TxPurpose, TxState, TxUpdate};
use bardo_base::format::short_hash;
use bardo_base::id::{CallId, GolemId};
use bardo_base::text::SafeText;
use bardo_base::units::Usd;
use bardo_session::handle::SessionSummary;
use bardo_session::trades::TradeCounter;

/// Maximum number of remarks in a session summary.
const MOST_REMARKS: usize = 20;

/// Statistics of the run so far.
#[derive(Debug, Default)]
pub(super) struct SessionStats {
    counts: SessionSummary,
    trades: TradeCounter,
    contexts: BTreeMap<GolemId, RequestContext>,
    /// Transactions that are signed and not settled.
    open: BTreeMap<StepKey, SafeText>,
    /// Signed orders that can still be filled.
    orders: BTreeMap<B256, SafeText>,
    /// True once a transaction was included or an order filled: a value read before is not that of the end.
    has_moved: bool,
    /// Calls that end with an error but did not fail.
    held_back: BTreeSet<CallId>,
}

impl SessionStats {
    /// Counts an event.
    pub(super) fn take(&mut self, event: &Event) {
        self.trades.take(event);
        match &event.kind {
            EventKind::GolemNow(now) => {
                self.contexts.entry(event.golem_id.clone()).or_default().asked_by = now.delegation.clone();
            }
            EventKind::Vitals(vitals) => {
                if let Some(equity) = vitals.equity {
                    let first = self.counts.equity.map_or(equity, |(first, _)| first);
                    self.counts.equity = Some((first, equity));
                }
            }
            EventKind::ToolError(failed) => {
                // An offer that was declined, or left alone until it expired, was refused by nothing and did not fail.
                let taken_back = matches!(failed.error_code, ErrorCode::ToolCancelled | ErrorCode::PermitExpired);
                // A stop holds back as much as a rule does.
                let blocked = !taken_back && (failed.error_code.is_denial() || failed.error_code == ErrorCode::Halted);
                self.counts.blocked += u64::from(blocked);
                if let (true, Some(call)) = (blocked || taken_back, event.call_id) {
                    self.held_back.insert(call);
                }
            }
            EventKind::ApprovalResolved(resolved) => {
                match resolved.outcome {
                    ApprovalOutcome::Refused | ApprovalOutcome::RefusedAndHalted => self.counts.refused += 1,
                    ApprovalOutcome::Lapsed => self.counts.lapsed += 1,
                    ApprovalOutcome::Approved
                    | ApprovalOutcome::ApprovedSimilar
                    | ApprovalOutcome::Edited
                    | ApprovalOutcome::Withdrawn => return,
                }
                self.held_back.extend(event.call_id);
            }
            EventKind::ToolEnd(end) => {
                let held_back = event.call_id.is_some_and(|call| self.held_back.remove(&call));
                self.counts.failed += u64::from(!end.success && !held_back);
            }
            EventKind::TxUpdate(update) => match update.state {
                TxState::Signed | TxState::Sent | TxState::Unclear => {
                    let words = format!("transaction {} on {}", short_hash(update.hash), display_name(update.chain_id));
                    // A replacement has the place of what it replaces: only one of them is ever included.
                    self.open.insert(step_of(event.call_id, update), SafeText::clean(&words, 200));
                }
                TxState::Confirmed | TxState::Reverted | TxState::Dropped => {
                    self.has_moved |= update.state != TxState::Dropped;
                    self.open.remove(&step_of(event.call_id, update));
                }
            },
            EventKind::OrderUpdate(order) => {
                let words = format!("order {} on {}", short_hash(order.order_hash), display_name(order.chain_id));
                self.note_order(order.order_hash, order.status.is_final(), &words);
            }
            EventKind::IntentUpdate(intent) => {
                let words = format!("bridge order {} from {}", short_hash(intent.intent_id), intent.source_chain);
                self.note_order(intent.intent_id, intent.status.is_final(), &words);
            }
            _ => {}
        }
    }

    fn note_order(&mut self, hash: B256, ended: bool, words: &str) {
        match ended {
            true => {
                self.has_moved = true;
                self.orders.remove(&hash);
            }
            false => drop(self.orders.insert(hash, SafeText::clean(words, 200))),
        }
    }

    /// Counts the requests that are still open when the session ends.
    pub(super) fn leave_unanswered(&mut self, open: usize) {
        self.counts.lapsed = self.counts.lapsed.saturating_add(u64::try_from(open).unwrap_or(u64::MAX));
    }

    /// Latest known facts about a requesting agent.
    pub(super) fn request_context(&self, golem_id: &GolemId) -> RequestContext {
        self.contexts.get(golem_id).cloned().unwrap_or_default()
    }

    /// Counts a request of the session itself that the operator rejected; no event reports it.
    pub(super) fn note_rejected(&mut self) {
        self.counts.refused = self.counts.refused.saturating_add(1);
    }

    /// Adds a remark about a step that could not be done on leaving.
    pub(super) fn remark(&mut self, words: &str) {
        if self.counts.remarks.len() < MOST_REMARKS {
            self.counts.remarks.push(SafeText::clean(words, 300));
        }
    }

    /// Summary of the session.
    pub(super) fn session_summary(&self, journal: &SafeText) -> SessionSummary {
        SessionSummary {
            trades: self.trades.count,
            average_short: self.trades.average_short(),
            unsettled: self.open.values().chain(self.orders.values()).cloned().collect(),
            journal: Some(journal.clone()),
            ..self.counts.clone()
        }
    }

    /// True if the value at the start and something that moved it are known, so that the value at the end must be read.
    pub(super) fn awaits_last_value(&self) -> bool {
        self.has_moved && self.counts.equity.is_some()
    }

    /// Sets the value at the end, in dollars. Without one, the summary compares nothing: an earlier value would say that
    /// the last trades cost nothing.
    pub(super) fn close_at(&mut self, value: Option<Usd>) {
        let compared = self.counts.equity.zip(value).map(|((first, _), last)| (first, last));
        if compared.is_none() && self.counts.equity.is_some() {
            self.remark(
                "The holdings at the end could not be read, so what the session made or lost is not shown here.",
            );
        }
        self.counts.equity = compared;
    }

    /// Latest known total value, in dollars.
    pub(super) fn equity(&self) -> Option<Usd> {
        self.counts.equity.map(|(_, last)| last)
    }
}
/// Step of a plan: its call, its number, and true for the plan that revokes what an unfinished one left.
type StepKey = (Option<CallId>, u32, bool);

fn step_of(call_id: Option<CallId>, update: &TxUpdate) -> StepKey {
    (call_id, update.leg, update.purpose == Some(TxPurpose::CleanUp))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bardo_base::fabric::Vitals;
    use bardo_base::model::Phase;

    fn event(kind: EventKind) -> Event {
        Event { seq: 1, at: 0, golem_id: GolemId::operator(), call_id: None, kind }
    }

    fn vitals(equity: Usd) -> Event {
        event(EventKind::Vitals(Box::new(Vitals {
            phase: Phase::Thriving,
            why: SafeText::default(),
            equity: Some(equity),
            high_water: None,
            drawdown_bps: None,
            stop_loss_bps: 0,
            gas_runway_seconds: None,
            gas_wei: None,
            failures: 0,
            failures_limit: 0,
            age_seconds: 0,
            lifespan_seconds: None,
            lending: None,
        })))
    }

    fn transaction(state: TxState) -> Event {
        event(EventKind::TxUpdate(TxUpdate {
            chain_id: 1,
            hash: B256::repeat_byte(1),
            leg: 1,
            of: 1,
            state,
            block: None,
            gas_cost_wei: None,
            purpose: Some(TxPurpose::Main),
        }))
    }

    /// Heartbeats before a trade say nothing of what it cost: the value at the end is read after it.
    #[test]
    fn a_session_that_stops_right_after_a_trade_reads_its_value_again() {
        let journal = SafeText::default();
        let mut stats = SessionStats::default();
        stats.take(&vitals(Usd::whole(1_000)));
        assert!(!stats.awaits_last_value(), "nothing moved");
        stats.take(&transaction(TxState::Signed));
        stats.take(&transaction(TxState::Dropped));
        assert!(!stats.awaits_last_value(), "nothing was included");
        stats.take(&transaction(TxState::Confirmed));
        assert!(stats.awaits_last_value());
        stats.close_at(Some(Usd::whole(996)));
        assert_eq!(stats.session_summary(&journal).equity, Some((Usd::whole(1_000), Usd::whole(996))));
        // An unread value is none, and not that of the last heartbeat.
        stats.close_at(None);
        let told = stats.session_summary(&journal);
        assert_eq!(told.equity, None);
        assert!(told.remarks.iter().any(|words| words.as_str().contains("could not be read")), "{:?}", told.remarks);
    }
}
