//! The operator's yes: what they are asked, and what they can answer.

use crate::base::text::SafeText;
use crate::base::units::Usd;

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
        reasons: Vec<SafeText>,
    },
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
        /// Up to how much in all.
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
    /// No, and everything stops.
    RefuseAndHalt {
        /// Why.
        reason: SafeText,
    },
}
