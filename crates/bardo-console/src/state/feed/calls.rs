//! Call as described by its events, and its status.

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy_primitives::{B256, U256};

use crate::widgets::card::CallCard;
use crate::widgets::status::CardStatus;
use bardo_base::error::ErrorCode;
use bardo_base::fabric::{
    ActionRecovered, ApprovalOutcome, ApprovalRequested, ApprovalResolved, Event, EventKind, MemoryHits, PermitIssued,
    RecoveredEnd, SafetyCheck, ToolEnd, ToolFailed, ToolStart, ToolVerified, TxState, TxUpdate,
};
use bardo_base::id::{CallId, GolemId};
use bardo_base::text::SafeText;

/// Tool that queries the status of an order.
const ORDER_STATUS_TOOL: &str = "uniswap_get_uniswapx_order_status";

/// Step that a call has reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepSeen {
    /// Name of the step, from the tool's own list.
    pub name: SafeText,
    /// Position in that list, starting at 1.
    pub index: u32,
    /// Number of steps in that list.
    pub of: u32,
    /// Start of the step, in milliseconds since the Unix epoch.
    pub at: u64,
}

/// Status of a call as shown to the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallStatus {
    /// The call is running.
    Running,
    /// An approval request waits for the operator.
    Waiting,
    /// A transaction is signed and not in a block yet.
    Sent,
    /// The call succeeded.
    Done,
    /// The call was only simulated, as requested.
    Rehearsed,
    /// The call succeeded in paper mode; nothing was signed.
    OnPaper,
    /// A rule blocked the call; nothing was signed.
    Blocked,
    /// The operator rejected the call.
    Refused,
    /// The approval request lapsed without an answer.
    Lapsed,
    /// The offer expired, or was withdrawn, before anything was signed.
    NotDone,
    /// The call failed.
    Failed,
    /// A transaction was signed but not settled when the call ended.
    Unclear,
}

impl CallStatus {
    /// Returns true if the status can still change.
    pub const fn is_open(self) -> bool {
        match self {
            Self::Running | Self::Waiting | Self::Sent => true,
            Self::Done
            | Self::Rehearsed
            | Self::OnPaper
            | Self::Blocked
            | Self::Refused
            | Self::Lapsed
            | Self::NotDone
            | Self::Failed
            | Self::Unclear => false,
        }
    }

    /// Symbol and text of the status, so that colour is never the only sign.
    pub const fn mark(self) -> (&'static str, &'static str) {
        match self {
            Self::Running => ("▸", "running"),
            Self::Waiting => ("‼", "waits for you"),
            Self::Sent => ("▸", "confirming"),
            Self::Done => ("✓", "done"),
            Self::Rehearsed => ("✓", "rehearsed"),
            Self::OnPaper => ("✓", "done on PAPER"),
            Self::Blocked => ("✕", "BLOCKED"),
            Self::Refused => ("✕", "Rejected"),
            Self::Lapsed => ("○", "Lapsed"),
            Self::NotDone => ("○", "not done"),
            Self::Failed => ("✕", "FAILED"),
            Self::Unclear => ("!", "not confirmed"),
        }
    }
}

/// Call with everything that events report about it.
#[derive(Debug, Clone, PartialEq)]
pub struct CallSeen {
    /// Id of the call.
    pub call_id: CallId,
    /// Golem that made the call.
    pub golem_id: GolemId,
    /// Start of the call, in milliseconds since the Unix epoch.
    pub started_at: u64,
    /// End of the call, in milliseconds since the Unix epoch.
    pub ended_at: Option<u64>,
    /// Start event; `None` if it was missed.
    pub start: Option<ToolStart>,
    /// Steps reached, in order.
    pub steps: Vec<StepSeen>,
    /// Newest verdict of each check.
    pub checks: Vec<SafetyCheck>,
    /// Time of the last check verdict, in milliseconds since the Unix epoch.
    pub checked_at: Option<u64>,
    /// Simulated offer, once issued.
    pub offer: Option<PermitIssued>,
    /// Approval request, with its time.
    pub asked: Option<(u64, ApprovalRequested)>,
    /// Resolution of the approval request.
    pub resolved: Option<ApprovalResolved>,
    /// Amount that the last approval request was about, if the operator chose a smaller one.
    pub asked_amount: Option<String>,
    /// Transactions, each with the time of its last update.
    pub transactions: Vec<(u64, TxUpdate)>,
    /// Error that ended the call.
    pub error: Option<ToolFailed>,
    /// End event of the call, shared with the fabric: a result can be large.
    pub(super) end: Option<Arc<Event>>,
    /// Verification of the claimed result on chain.
    pub verified: Option<ToolVerified>,
    /// End of the call as the chain tells it, if its process ended before it did.
    pub recovered: Option<ActionRecovered>,
    /// True if the call led to a trade.
    pub traded: bool,
    /// Result of the memory search for the call, and its effect.
    pub memory: Option<MemoryHits>,
    /// Expected outcome of an earlier offer for the same trade, which failed because the price moved.
    pub before: Option<SafeText>,
    /// True while the operator's own action waits for a decision.
    pub held: bool,
    /// True if the call has exceeded its time budget.
    pub overran: bool,
    /// Card that draws the call; `None` if its start was missed.
    pub card: Option<CallCard>,
}

impl CallSeen {
    /// Returns true while the call's approval request is open, as its events tell.
    pub(super) fn has_open_request(&self) -> bool {
        self.asked.is_some() && self.resolved.is_none() && self.end.is_none()
    }

    /// Chain id and gas cost in wei of each of its transactions that is in a block.
    pub fn gas_costs(&self) -> Vec<(u64, U256)> {
        let mut paid: BTreeMap<B256, (u64, U256)> = BTreeMap::new();
        for (_, update) in &self.transactions {
            if let Some(cost) = update.gas_cost_wei {
                // A transaction is reported again when its state changes.
                paid.insert(update.hash, (update.chain_id, cost));
            }
        }
        if !paid.is_empty() {
            return paid.into_values().collect();
        }
        // Recordings of earlier versions have the costs in the result alone.
        let Some((_, last)) = self.transactions.last() else { return Vec::new() };
        let hints = self.end().and_then(|end| end.card.as_ref()?.hints.as_ref());
        let all = hints.and_then(|hints| hints.get("transactions")?.as_array()).into_iter().flatten();
        let costs = all.filter_map(|one| one.get("gas_cost_wei")?.as_str()?.parse::<U256>().ok());
        costs.map(|cost| (last.chain_id, cost)).collect()
    }

    pub(super) fn new(call_id: CallId, golem_id: GolemId, at: u64) -> Self {
        Self {
            call_id,
            golem_id,
            started_at: at,
            ended_at: None,
            start: None,
            steps: Vec::new(),
            checks: Vec::new(),
            checked_at: None,
            offer: None,
            asked: None,
            resolved: None,
            asked_amount: None,
            transactions: Vec::new(),
            error: None,
            end: None,
            verified: None,
            recovered: None,
            traded: false,
            memory: None,
            before: None,
            held: false,
            overran: false,
            card: None,
        }
    }

    /// End of the call; `None` while it runs.
    pub fn end(&self) -> Option<&ToolEnd> {
        match &self.end.as_ref()?.kind {
            EventKind::ToolEnd(end) => Some(end),
            _ => None,
        }
    }

    /// True while the call is a simulated offer that nobody has committed or withdrawn: nothing of it runs.
    pub fn is_offer(&self) -> bool {
        self.end().is_none() && self.card.as_ref().is_some_and(|card| card.call().offered_until.is_some())
    }

    /// Tool name; empty if the start event was missed.
    pub fn tool(&self) -> &str {
        let recovered = || self.recovered.as_ref()?.tool.as_ref().map(SafeText::as_str);
        self.start.as_ref().map(|start| start.tool_name.as_ref()).or_else(recovered).unwrap_or_default()
    }

    /// Returns true if the call only queries the status of an order.
    pub fn asks_about_an_order(&self) -> bool {
        self.tool() == ORDER_STATUS_TOOL
    }

    /// The order whose state the call asks for; `None` where it does anything else.
    pub fn order_asked_about(&self) -> Option<B256> {
        let start = self.start.as_ref().filter(|_| self.asks_about_an_order())?;
        start.params.value().get("order_hash")?.as_str()?.parse().ok()
    }

    /// Returns true if the call gets a row in the activity: it has a card, an approval request, a transaction or an
    /// error.
    pub fn is_activity(&self) -> bool {
        let card = self.end().is_some_and(|end| end.card.is_some());
        let asks = self.offer.is_some() || self.asked.is_some() || !self.checks.is_empty();
        card || asks || !self.transactions.is_empty() || self.error.is_some()
    }

    /// Current status of the call.
    pub fn standing(&self) -> CallStatus {
        let outcome = self.resolved.as_ref().map(|resolved| resolved.outcome);
        let in_flight = self.transactions.iter().any(|(_, update)| match update.state {
            TxState::Signed | TxState::Sent | TxState::Unclear => true,
            TxState::Confirmed | TxState::Reverted | TxState::Dropped => false,
        });
        let Some(end) = self.end() else {
            if let Some(end) = self.recovered.as_ref().and_then(|found| found.end) {
                return match end {
                    RecoveredEnd::Done => CallStatus::Done,
                    RecoveredEnd::Partly | RecoveredEnd::Withdrawn => CallStatus::NotDone,
                    RecoveredEnd::Failed => CallStatus::Failed,
                    RecoveredEnd::Unclear => CallStatus::Unclear,
                };
            }
            return match (&self.asked, outcome) {
                (Some(_), None) => CallStatus::Waiting,
                _ if in_flight => CallStatus::Sent,
                _ if self.held => CallStatus::Waiting,
                _ => CallStatus::Running,
            };
        };
        let hints = end.card.as_ref().and_then(|card| card.hints.as_ref());
        if end.success && hints.and_then(|hints| hints.get("paper")?.as_bool()) == Some(true) {
            return CallStatus::OnPaper;
        }
        if end.success {
            return match (in_flight, self.offer.is_some(), self.transactions.is_empty()) {
                (true, _, _) => CallStatus::Unclear,
                (false, true, true) => CallStatus::Rehearsed,
                (false, _, _) => CallStatus::Done,
            };
        }
        match (outcome, &self.error) {
            (Some(ApprovalOutcome::Refused | ApprovalOutcome::RefusedAndHalted), _) => CallStatus::Refused,
            (Some(ApprovalOutcome::Lapsed), _) => CallStatus::Lapsed,
            // Nobody was refused anything: the offer was left alone or withdrawn.
            (_, Some(error))
                if self.transactions.is_empty()
                    && matches!(error.error_code, ErrorCode::PermitExpired | ErrorCode::ToolCancelled) =>
            {
                CallStatus::NotDone
            }
            // A denial, as the card classifies it.
            (_, Some(error))
                if error.error_code.is_denial() || CardStatus::of_error(error.error_code) == CardStatus::Blocked =>
            {
                CallStatus::Blocked
            }
            _ => CallStatus::Failed,
        }
    }
}
