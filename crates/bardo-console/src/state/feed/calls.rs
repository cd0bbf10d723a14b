//! A call as its events tell it, and how it stands.

use alloy_primitives::B256;

use crate::widgets::card::CallCard;
use crate::widgets::status::Status;
use bardo_base::fabric::{
    ApprovalOutcome, ApprovalRequested, ApprovalResolved, MemoryHits, PermitIssued, SafetyCheck, ToolEnd, ToolFailed,
    ToolStart, ToolVerified, TxState, TxUpdate,
};
use bardo_base::id::{CallId, GolemId};
use bardo_base::text::SafeText;

/// The tool that asks how an order stands.
const ORDER_STATUS_TOOL: &str = "uniswap_get_uniswapx_order_status";

/// A step a call has reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepSeen {
    /// Its name, from the tool's own list.
    pub name: SafeText,
    /// Its place in that list, from 1.
    pub index: u32,
    /// How many the list has.
    pub of: u32,
    /// When it began, in milliseconds since the Unix epoch.
    pub at: u64,
}

/// How a call stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Standing {
    /// It runs.
    Running,
    /// The operator is asked.
    Waiting,
    /// Something of it is signed, and not in a block yet.
    Sent,
    /// Done.
    Done,
    /// Only rehearsed.
    Rehearsed,
    /// Done in paper mode, and nothing of it signed.
    OnPaper,
    /// A rule stood against it; nothing was signed.
    Blocked,
    /// The operator refused.
    Refused,
    /// Nobody answered.
    Lapsed,
    /// It failed.
    Failed,
    /// Signed, and not settled when the call ended.
    Unclear,
}

impl Standing {
    /// Whether it can still change.
    pub const fn is_open(self) -> bool {
        match self {
            Self::Running | Self::Waiting | Self::Sent => true,
            Self::Done
            | Self::Rehearsed
            | Self::OnPaper
            | Self::Blocked
            | Self::Refused
            | Self::Lapsed
            | Self::Failed
            | Self::Unclear => false,
        }
    }

    /// A mark for it, and a word: colour is never the only carrier.
    pub const fn mark(self) -> (&'static str, &'static str) {
        match self {
            Self::Running => ("▸", "running"),
            Self::Waiting => ("‼", "waits for you"),
            Self::Sent => ("▸", "confirming"),
            Self::Done => ("✓", "done"),
            Self::Rehearsed => ("✓", "rehearsed"),
            Self::OnPaper => ("✓", "done on PAPER"),
            Self::Blocked => ("✕", "BLOCKED"),
            Self::Refused => ("✕", "Refused"),
            Self::Lapsed => ("○", "Lapsed"),
            Self::Failed => ("✕", "FAILED"),
            Self::Unclear => ("!", "not confirmed"),
        }
    }
}

/// A call, with all that was said of it.
#[derive(Debug, Clone, PartialEq)]
pub struct CallSeen {
    /// Which call.
    pub call_id: CallId,
    /// Who made it.
    pub golem_id: GolemId,
    /// When it began, in milliseconds since the Unix epoch.
    pub started_at: u64,
    /// When it ended.
    pub ended_at: Option<u64>,
    /// How it began; absent where the beginning was missed.
    pub start: Option<ToolStart>,
    /// The steps it reached, in order.
    pub steps: Vec<StepSeen>,
    /// How the checks decided, the newest verdict of each.
    pub checks: Vec<SafetyCheck>,
    /// When the last check decided.
    pub checked_at: Option<u64>,
    /// The simulated offer.
    pub offer: Option<PermitIssued>,
    /// What the operator was asked, and when.
    pub asked: Option<(u64, ApprovalRequested)>,
    /// What became of that.
    pub resolved: Option<ApprovalResolved>,
    /// Its transactions, with the time of the newest word on each.
    pub transactions: Vec<(u64, TxUpdate)>,
    /// What was wrong.
    pub error: Option<ToolFailed>,
    /// How it ended.
    pub end: Option<ToolEnd>,
    /// What the chain says of what was claimed.
    pub verified: Option<ToolVerified>,
    /// Whether it came to a trade.
    pub traded: bool,
    /// What was remembered for it, and what that changed.
    pub memory: Option<MemoryHits>,
    /// What the offer for the same promised before, where the price has moved away from it.
    pub before: Option<SafeText>,
    /// Whether it has taken longer than its budget.
    pub overran: bool,
    /// What draws it; absent where the beginning was missed.
    pub card: Option<CallCard>,
}

impl CallSeen {
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
            transactions: Vec::new(),
            error: None,
            end: None,
            verified: None,
            traded: false,
            memory: None,
            before: None,
            overran: false,
            card: None,
        }
    }

    /// The tool's name; empty where the beginning was missed.
    pub fn tool(&self) -> &str {
        self.start.as_ref().map_or("", |start| start.tool_name.as_ref())
    }

    /// Whether the call only asks how an order stands.
    pub fn asks_about_an_order(&self) -> bool {
        self.tool() == ORDER_STATUS_TOOL
    }

    /// The order whose state the call asks for; `None` where it does anything else.
    pub fn order_asked_about(&self) -> Option<B256> {
        let start = self.start.as_ref().filter(|_| self.asks_about_an_order())?;
        start.params.value().get("order_hash")?.as_str()?.parse().ok()
    }

    /// Whether it is worth a row among the activity: it shows a card, asks to sign, has signed, or went wrong.
    pub fn is_activity(&self) -> bool {
        let card = self.end.as_ref().is_some_and(|end| end.card.is_some());
        let asks = self.offer.is_some() || self.asked.is_some() || !self.checks.is_empty();
        card || asks || !self.transactions.is_empty() || self.error.is_some()
    }

    /// How it stands.
    pub fn standing(&self) -> Standing {
        let outcome = self.resolved.as_ref().map(|resolved| resolved.outcome);
        let in_flight = self.transactions.iter().any(|(_, update)| match update.state {
            TxState::Signed | TxState::Sent | TxState::Unclear => true,
            TxState::Confirmed | TxState::Reverted | TxState::Dropped => false,
        });
        let Some(end) = &self.end else {
            return match (&self.asked, outcome) {
                (Some(_), None) => Standing::Waiting,
                _ if in_flight => Standing::Sent,
                _ => Standing::Running,
            };
        };
        let hints = end.card.as_ref().and_then(|card| card.hints.as_ref());
        if end.success && hints.and_then(|hints| hints.get("paper")?.as_bool()) == Some(true) {
            return Standing::OnPaper;
        }
        if end.success {
            return match (in_flight, self.offer.is_some(), self.transactions.is_empty()) {
                (true, _, _) => Standing::Unclear,
                (false, true, true) => Standing::Rehearsed,
                (false, _, _) => Standing::Done,
            };
        }
        match (outcome, &self.error) {
            (Some(ApprovalOutcome::Refused | ApprovalOutcome::RefusedAndHalted), _) => Standing::Refused,
            (Some(ApprovalOutcome::Lapsed), _) => Standing::Lapsed,
            // As its card says it, and what else is a denial.
            (_, Some(error))
                if error.error_code.is_denial() || Status::of_error(error.error_code) == Status::Blocked =>
            {
                Standing::Blocked
            }
            _ => Standing::Failed,
        }
    }
}
