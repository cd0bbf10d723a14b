//! Operator approval: the approval queue, the possible answers, and standing approvals.
//!
//! Requests and answers pass through the queue; the event fabric only announces them. An open request holds no lock, no
//! reservation and no nonce. The queue is in memory only and starts empty after a restart.

mod grant;
mod limits;
#[cfg(test)]
pub(crate) mod model;
mod queue;
mod reason;
mod remote_answers;
mod requirement;
pub(crate) mod worsening;

use std::sync::Arc;

use crate::operator_proof::ProofError;
use crate::pipeline::Preview;
use crate::second_approval::{GivenApproval, SecondError};
use bardo_base::fabric::{AskReason, HoldingsSale};
use bardo_base::format::dollars;
use bardo_base::id::{CallId, PermitId};
use bardo_base::text::SafeText;
use bardo_base::units::Usd;

pub use bardo_session::confirmation::{
    ApprovalRequirement, Confirmation, TypedConfirmation, Unconfirmed, WarningToRead,
};
pub use bardo_session::questions::OperatorAnswer;
pub use grant::{ApprovalGrant, GrantScope, GrantTime};
pub use limits::{AskRefused, MAX_OPEN, MAX_UNANSWERED};
pub use queue::{ApprovalQueue, PendingApproval, is_blocked};
pub use reason::ApprovalReason;
pub use remote_answers::RemoteAnswers;
pub use requirement::{INCOMPLETE, receivers, requirement};
pub use worsening::Worsening;

/// Level of consent that an action needs, from least to most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalNeed {
    /// The action runs without consent.
    Instant,
    /// The action runs without consent, and the operator is notified.
    Notify,
    /// The action runs after a delay, unless the operator cancels it first.
    Delay {
        /// Delay in milliseconds.
        millis: u64,
    },
    /// The action needs the operator's approval.
    Approval {
        /// Reasons for which the approval is needed.
        reasons: Vec<ApprovalReason>,
    },
}

impl ApprovalNeed {
    /// Returns the level's name as response envelopes and the audit log contain it.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Instant => "instant",
            Self::Notify => "notify",
            Self::Delay { .. } => "delay",
            Self::Approval { .. } => "approval",
        }
    }

    /// Returns the reasons for an approval; empty for every other level.
    pub fn reasons(&self) -> &[ApprovalReason] {
        match self {
            Self::Approval { reasons } => reasons,
            Self::Instant | Self::Notify | Self::Delay { .. } => &[],
        }
    }

    /// Raises the level to [`Self::Approval`] and appends `reason` to its reasons.
    #[must_use]
    pub fn and_asking(self, reason: ApprovalReason) -> Self {
        let mut reasons = match self {
            Self::Approval { reasons } => reasons,
            Self::Instant | Self::Notify | Self::Delay { .. } => Vec::new(),
        };
        reasons.push(reason);
        Self::Approval { reasons }
    }

    /// Returns whether consent given for `self` is also enough for `other`.
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (_, Self::Instant | Self::Notify) | (Self::Approval { .. }, Self::Delay { .. }) => true,
            (Self::Delay { millis: waited }, Self::Delay { millis }) => waited >= millis,
            (Self::Approval { reasons: known }, Self::Approval { reasons }) => {
                reasons.iter().all(|reason| known.iter().any(|known| known.covers(reason)))
            }
            (Self::Instant | Self::Notify, Self::Delay { .. } | Self::Approval { .. })
            | (Self::Delay { .. }, Self::Approval { .. }) => false,
        }
    }
}

/// Answer together with what the operator viewed and typed before giving it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorReply {
    /// Answer to the request.
    pub answer: OperatorAnswer,
    /// Items that the operator viewed and text that they typed. An approval must satisfy the [`ApprovalRequirement`].
    pub confirmation: Confirmation,
}

impl From<OperatorAnswer> for OperatorReply {
    /// Makes a reply with an empty confirmation.
    fn from(answer: OperatorAnswer) -> Self {
        Self { answer, confirmation: Confirmation::default() }
    }
}

/// Reason for which an answer is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// The approval lacks something that the operator must view or type.
    #[error("not approved: {0}")]
    Unconfirmed(#[from] Unconfirmed),
    /// No open request has this permit: the request is closed, or was renewed under another permit.
    #[error("this request has ended or changed: review it again before answering")]
    NotAsked,
    /// The permit has expired; the action is being simulated again under a new one.
    #[error("the permit expired in the meantime: it is re-simulated; review the difference before answering")]
    Expired,
    /// The proof that the operator gave the answer is missing or invalid.
    #[error(transparent)]
    Unproved(#[from] ProofError),
    /// The second operator's approval is missing or has ended.
    #[error("not approved: {0}")]
    Second(#[from] SecondError),
    /// No standing approval can cover this action.
    #[error("no standing approval is possible: {0}")]
    NoGrant(&'static str),
    /// The requested total is smaller than what this action spends.
    #[error("a total of {} does not cover this action's {}", dollars(*total), dollars(*spent))]
    TotalTooSmall {
        /// Requested total of the standing approval.
        total: Usd,
        /// Amount that this action spends.
        spent: Usd,
    },
}

/// Open approval request, as the queue lists it.
#[derive(Debug, Clone)]
pub struct ApprovalRequest {
    /// Preview of the action: signing payload, permit, simulation, values and verdicts.
    pub preview: Arc<Preview>,
    /// Requester of the action.
    pub asked_by: AskedBy,
    /// Items to view and text to type for an approval.
    pub requirement: ApprovalRequirement,
    /// Reasons for which the operator is asked.
    pub reasons: Vec<AskReason>,
    /// Changes for the worse found by the last repeated simulation that found any, in the fixed order of the
    /// comparison.
    pub changed: Vec<SafeText>,
    /// Number of repeated simulations with a worse result. What the operator viewed and selected stays valid while it
    /// is unchanged.
    pub revision: u32,
    /// True if the action proceeds when the time is over without an answer.
    pub passes_by_itself: bool,
    /// Second approval that was given.
    pub second: Option<GivenApproval>,
    /// Time of the first request, in milliseconds since the Unix epoch.
    pub asked_at: u64,
    /// Time at which the request lapses or the action proceeds, in milliseconds since the Unix epoch.
    pub ends_at: u64,
    /// Position among all open requests, counted from 1; 0 for a request that is not queued.
    pub place: usize,
    /// Number of open requests; 0 for a request that is not queued.
    pub of: usize,
}

/// Requester of an action, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AskedBy {
    /// An agent. Its reason for the action is not verified.
    Agent {
        /// Reason, if the agent gave one.
        why: Option<SafeText>,
    },
    /// The operator, on screen or by a command.
    Operator,
    /// A sale of all holdings, which the operator has approved or ordered.
    Sale {
        /// Sale that the action is a step of.
        sale: HoldingsSale,
        /// Number of holdings that are sold after this one; `None` for a step that sells none.
        more: Option<u32>,
    },
    /// An action of several steps, whose earlier ones are done.
    Step {
        /// Requester of the whole action.
        by: Box<Self>,
        /// Tool of the whole action.
        tool: SafeText,
        /// Call of the whole action.
        call_id: CallId,
    },
}

impl AskedBy {
    /// Requester of the whole action, of which this may be a further step.
    pub fn origin(&self) -> &Self {
        match self {
            Self::Step { by, .. } => by.origin(),
            Self::Agent { .. } | Self::Operator | Self::Sale { .. } => self,
        }
    }

    /// The same requester, in the name of the operator or of an agent: an agent makes no sale of all holdings, and what the
    /// operator asks for has no reason of an agent.
    #[must_use]
    pub fn of(self, is_operators: bool) -> Self {
        match (is_operators, self) {
            (_, Self::Step { by, tool, call_id }) => Self::Step { by: Box::new(by.of(is_operators)), tool, call_id },
            (true, sale @ Self::Sale { .. }) => sale,
            (true, Self::Operator | Self::Agent { .. }) => Self::Operator,
            (false, Self::Sale { .. }) => Self::default(),
            (false, asked_by @ (Self::Operator | Self::Agent { .. })) => asked_by,
        }
    }

    /// True if no agent asks: the limits on an agent's requests do not apply.
    pub fn is_operator(&self) -> bool {
        match self {
            Self::Operator | Self::Sale { .. } => true,
            Self::Agent { .. } => false,
            Self::Step { by, .. } => by.is_operator(),
        }
    }

    /// Reasons for the request: where it comes from, and those that the action itself has.
    pub(crate) fn reasons(&self, of_action: Vec<AskReason>) -> Vec<AskReason> {
        let part = match self {
            Self::Sale { sale, more } => Some(AskReason::PartOfSale { sale: *sale, more: *more }),
            Self::Step { tool, call_id, .. } => Some(AskReason::FurtherStep { tool: tool.clone(), call_id: *call_id }),
            Self::Agent { .. } | Self::Operator => None,
        };
        part.into_iter().chain(of_action).collect()
    }
}

impl Default for AskedBy {
    fn default() -> Self {
        Self::Agent { why: None }
    }
}

/// Outcome of an approval request.
#[derive(Debug)]
pub enum Decision {
    /// The action may run.
    Approved(ActionApproval),
    /// The operator wants another amount.
    Edit {
        /// New amount, in the format of the tool's parameter.
        amount: String,
    },
    /// The operator rejected the action.
    Refused {
        /// Reason that the operator gave.
        reason: SafeText,
    },
    /// The operator rejected the action and wants everything halted.
    RefusedAndHalted {
        /// Reason that the operator gave.
        reason: SafeText,
    },
    /// No answer arrived in time. This is not a rejection.
    Lapsed,
    /// The request ended for another reason, such as a halt.
    Withdrawn {
        /// Reason for the withdrawal.
        reason: SafeText,
    },
    /// The permit expired while the request was open. Prepare the action again, then call [`PendingApproval::replace`].
    PermitExpired,
    /// The operator was not asked: a recent rejection of the same action or a limit on open requests prevents it.
    NotAsked(AskRefused),
}

impl Decision {
    /// Returns the text that came with the decision, if any.
    pub fn reason(&self) -> Option<&SafeText> {
        match self {
            Self::Refused { reason } | Self::RefusedAndHalted { reason } | Self::Withdrawn { reason } => Some(reason),
            Self::Approved(_) | Self::Edit { .. } | Self::Lapsed | Self::PermitExpired | Self::NotAsked(_) => None,
        }
    }
}

/// Approval of exactly one permit. The approval queue creates it and a commit consumes it.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "an unused approval has no effect"]
pub struct ActionApproval {
    permit_id: PermitId,
    source: ApprovalSource,
    /// Number of the standing approval that covers the action; `None` if there is none.
    grant: Option<u64>,
    /// Expired permits under which the same action was requested before.
    earlier: Vec<PermitId>,
    /// Second operator's approval; `None` if none was given.
    second: Option<Box<GivenApproval>>,
}

/// Source of an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalSource {
    /// The operator approved this request.
    Operator,
    /// A standing approval of the operator covers the action.
    Grant,
    /// The delay passed without an objection.
    Waited,
}

impl ActionApproval {
    /// Returns the permit that is approved.
    pub fn permit_id(&self) -> PermitId {
        self.permit_id
    }

    /// Returns the source of the approval.
    pub fn said(&self) -> ApprovalSource {
        self.source
    }

    /// Returns the second operator's approval, if one was given.
    pub fn second(&self) -> Option<&GivenApproval> {
        self.second.as_deref()
    }

    /// Every permit under which the action was requested, the current one last.
    pub(crate) fn permit_ids(&self) -> impl Iterator<Item = PermitId> {
        self.earlier.iter().copied().chain([self.permit_id])
    }
}

impl ApprovalSource {
    /// Returns the name that the audit log contains.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Grant => "standing_approval",
            Self::Waited => "waited",
        }
    }
}

/// Consent that a commit presents.
#[derive(Debug)]
pub enum Consent {
    /// None, which is enough for actions that need none.
    None,
    /// An approval from the approval queue.
    Approved(ActionApproval),
    /// The automatic approval mode, as far as the policy permits it.
    Always,
}

impl Consent {
    /// Returns the second approval for the audit log; `null` without one.
    pub(crate) fn second(&self) -> serde_json::Value {
        match self {
            Self::Approved(yes) => yes.second().map(GivenApproval::to_json).unwrap_or_default(),
            Self::None | Self::Always => serde_json::Value::Null,
        }
    }

    /// Returns the name of the consent's source.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Approved(yes) => yes.source.as_str(),
            Self::Always => "always",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(by: AskedBy) -> AskedBy {
        let tool = SafeText::clean("rebalance_position", 40);
        AskedBy::Step { by: Box::new(by), tool, call_id: CallId::new(7) }
    }

    /// The decisions of the later steps of an action name the action, and each step keeps who asked for the whole.
    #[test]
    fn a_further_step_says_what_it_goes_on_with_and_who_asked() {
        let asked = AskedBy::Agent { why: Some(SafeText::clean("fees are low", 40)) };
        let reasons = step(asked.clone()).reasons(vec![AskReason::HotLane]);
        let [AskReason::FurtherStep { tool, .. }, AskReason::HotLane] = &reasons[..] else { panic!("{reasons:?}") };
        assert_eq!(tool.as_str(), "rebalance_position");
        assert!(reasons[0].to_string().starts_with("it is a further step of \"Rebalance position\""), "{}", reasons[0]);
        assert_eq!(step(step(asked.clone())).origin(), &asked);
        assert!(!step(asked.clone()).is_operator() && step(AskedBy::Operator).is_operator());
        // Whatever a step claims, an agent's executor asks as an agent, and never as the operator's sale.
        let sale = AskedBy::Sale { sale: HoldingsSale::Flatten, more: None };
        assert_eq!(step(sale.clone()).of(false).origin(), &AskedBy::default());
        assert_eq!(step(sale.clone()).of(true).origin(), &sale);
        assert_eq!(step(asked).of(true).origin(), &AskedBy::Operator);
    }
}
