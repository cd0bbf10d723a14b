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
            true => drop(self.orders.remove(&hash)),
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
