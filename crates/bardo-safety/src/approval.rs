//! The operator's yes: the desk where questions lie, what can be answered, and the grants that
//! answer for a while.
//!
//! Questions travel here and not over the fabric, which only announces them. A question holds no
//! lock, no reservation and no nonce. Nothing here survives a restart.

mod desk;
mod elsewhere;
mod grant;
mod limits;
#[cfg(test)]
mod model;
mod reason;
mod requirement;
mod worsening;

use std::sync::Arc;

use crate::operator_proof::ProofError;
use crate::pipeline::Preview;
use bardo_base::fabric::AskReason;
use bardo_base::id::PermitId;
use bardo_base::text::SafeText;
use bardo_base::units::Usd;

pub use bardo_session::confirmation::{Confirm, Confirmation, Requirement, ToRead, Unconfirmed};
pub use desk::{ApprovalDesk, Ticket};
pub use elsewhere::Elsewhere;
pub use grant::{Grant, Moment, Scope};
pub use limits::{AskRefused, MAX_OPEN, MAX_UNANSWERED};
pub use reason::Reason;
pub use requirement::{INCOMPLETE, receivers, requirement};
pub use worsening::Worsening;

/// How much consent an action takes, from the least to the most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalNeed {
    /// None.
    Instant,
    /// None; the operator is told.
    Notify,
    /// It waits, and the operator may cancel it meanwhile.
    Delay {
        /// How long, in milliseconds.
        millis: u64,
    },
    /// It waits for a yes.
    Approval {
        /// Why.
        reasons: Vec<Reason>,
    },
}

impl ApprovalNeed {
    /// Its name in one word, as envelopes and the audit trail have it.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Instant => "instant",
            Self::Notify => "notify",
            Self::Delay { .. } => "delay",
            Self::Approval { .. } => "approval",
        }
    }

    /// Why a yes is needed; nothing where none is.
    pub fn reasons(&self) -> &[Reason] {
        match self {
            Self::Approval { reasons } => reasons,
            Self::Instant | Self::Notify | Self::Delay { .. } => &[],
        }
    }

    /// The same, but with a yes for this reason too.
    #[must_use]
    pub fn and_asking(self, reason: Reason) -> Self {
        let mut reasons = match self {
            Self::Approval { reasons } => reasons,
            Self::Instant | Self::Notify | Self::Delay { .. } => Vec::new(),
        };
        reasons.push(reason);
        Self::Approval { reasons }
    }

    /// Whether a yes given for `self` is enough for `other`.
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

/// What the operator can answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Yes, to this.
    Once,
    /// Yes, to this and to more of its kind for a while.
    Similar {
        /// For how long, in milliseconds.
        millis: u64,
        /// Up to how much in all, this one included.
        total: Usd,
    },
    /// A smaller amount; prepared anew, asked anew.
    Edit {
        /// The amount, as the tool's parameter takes it.
        amount: String,
    },
    /// No.
    Refuse {
        /// Why, for the Golem.
        reason: SafeText,
    },
    /// No, and everything stops. Whoever takes the answer sets the stop.
    RefuseAndHalt {
        /// Why.
        reason: SafeText,
    },
}

/// An answer with what the operator read and typed before giving it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The answer.
    pub answer: Answer,
    /// What was read and typed; approvals need it, see [`Requirement`].
    pub confirmation: Confirmation,
}

impl From<Answer> for Reply {
    /// A reply with nothing read or typed.
    fn from(answer: Answer) -> Self {
        Self { answer, confirmation: Confirmation::default() }
    }
}

/// Why an answer does not count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// The approval lacks something that must be read or typed.
    #[error("not approved: {0}")]
    Unconfirmed(#[from] Unconfirmed),
    /// Nobody asks that any more, or asks it anew under another permit.
    #[error("this question is over, or has changed: look at it again before answering")]
    NotAsked,
    /// The permit has run out; the question is being asked anew.
    #[error("the permit has expired meanwhile: it is simulated again, look at the difference before answering")]
    Expired,
    /// It was not proved that the operator gave it.
    #[error(transparent)]
    Unproved(#[from] ProofError),
    /// This action can only be approved one at a time.
    #[error("no standing approval for this: {0}")]
    NoGrant(&'static str),
    /// The amount to grant does not even cover this action.
    #[error("a total of ${total} does not cover this action's ${spent}")]
    TotalTooSmall {
        /// Offered.
        total: Usd,
        /// Needed now.
        spent: Usd,
    },
}

/// A question as it lies on the desk.
#[derive(Debug, Clone)]
pub struct ApprovalRequest {
    /// What is asked: frame, permit, simulation, values, verdicts.
    pub preview: Arc<Preview>,
    /// Who asked for it.
    pub asked_by: AskedBy,
    /// What an approval must come with.
    pub requirement: Requirement,
    /// Why it is asked.
    pub reasons: Vec<AskReason>,
    /// What became worse when it was last simulated again with a worse result, in the fixed order of the comparison.
    pub changed: Vec<SafeText>,
    /// Count of new simulations with a worse result. What was read and picked holds as long as it stays the same.
    pub revision: u32,
    /// Whether silence lets it pass when the time is over.
    pub passes_by_itself: bool,
    /// When it was first asked, in milliseconds since the Unix epoch.
    pub asked_at: u64,
    /// When it lapses, or passes by itself, in milliseconds since the Unix epoch.
    pub ends_at: u64,
    /// Its place among all open questions, from 1.
    pub place: usize,
    /// How many are open.
    pub of: usize,
}

/// Who asked for an action, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AskedBy {
    /// An agent, with the reason that it gave for this action; its words are not checked.
    Agent {
        /// The reason, where it gave one.
        why: Option<SafeText>,
    },
    /// The operator, by hand or by a command.
    Operator,
}

impl Default for AskedBy {
    fn default() -> Self {
        Self::Agent { why: None }
    }
}

/// How a question ended.
#[derive(Debug)]
pub enum Decision {
    /// It may be done.
    Approved(Yes),
    /// A smaller amount is wanted.
    Edit {
        /// The amount, as the tool's parameter takes it.
        amount: String,
    },
    /// No.
    Refused {
        /// Why.
        reason: SafeText,
    },
    /// No, and everything is to stop.
    RefusedAndHalted {
        /// Why.
        reason: SafeText,
    },
    /// Nobody answered in time, which is no refusal.
    Lapsed,
    /// It is over for another reason, such as a halt.
    Withdrawn {
        /// Why.
        reason: SafeText,
    },
    /// The permit ran out while the question was open: prepare anew, then [`Ticket::replace`].
    PermitExpired,
    /// The operator was not asked: the same was refused a short while ago, or too much was asked.
    NotAsked(AskRefused),
}

impl Decision {
    /// The words it came with, where it came with some.
    pub fn reason(&self) -> Option<&SafeText> {
        match self {
            Self::Refused { reason } | Self::RefusedAndHalted { reason } | Self::Withdrawn { reason } => Some(reason),
            Self::Approved(_) | Self::Edit { .. } | Self::Lapsed | Self::PermitExpired | Self::NotAsked(_) => None,
        }
    }
}

/// Somebody's yes to exactly one permit. Made by the desk; used up by a commit.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a yes that is not used says nothing"]
pub struct Yes {
    permit_id: PermitId,
    said: Said,
    /// The standing approval it comes from, where it comes from one.
    grant: Option<u64>,
    /// Permits under which the same was asked before, and which had run out.
    earlier: Vec<PermitId>,
}

/// Who said yes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// The operator, to this question.
    Operator,
    /// The operator, earlier, to its kind.
    Grant,
    /// Nobody objected while it waited.
    Waited,
}

impl Yes {
    /// To which permit.
    pub fn permit_id(&self) -> PermitId {
        self.permit_id
    }

    /// Who said it.
    pub fn said(&self) -> Said {
        self.said
    }

    /// Every permit under which it was asked.
    fn asked_as(&self) -> impl Iterator<Item = PermitId> {
        self.earlier.iter().copied().chain([self.permit_id])
    }
}

impl Said {
    /// The written form, as on the audit trail.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Grant => "standing_approval",
            Self::Waited => "waited",
        }
    }
}

/// With what consent a commit is asked for.
#[derive(Debug)]
pub enum Consent {
    /// With none: enough for what needs none.
    None,
    /// With a yes from the desk.
    Yes(Yes),
    /// With the operator's standing word to say yes wherever they may.
    Always,
}

impl Consent {
    /// Whose consent it is, in one word.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Yes(yes) => yes.said.as_str(),
            Self::Always => "always",
        }
    }
}
