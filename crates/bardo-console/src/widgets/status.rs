//! Status of a card: each has a mark, a word and a role, so that colour is never the only sign.

use crate::theme::Role;
use bardo_base::error::ErrorCode;

/// Status of a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum CardStatus {
    /// There is no content.
    #[default]
    Empty,
    /// The request was made; nothing is known yet.
    Loading,
    /// The call is running.
    Running,
    /// An approval request waits for the operator.
    Waiting,
    /// The call succeeded.
    Done,
    /// The call was only simulated on a fork; nothing was signed.
    Simulated,
    /// The content is outdated.
    Stale,
    /// A rule blocked the call.
    Blocked,
    /// The operator rejected the call.
    Refused,
    /// The approval request lapsed without an answer.
    Lapsed,
    /// The call failed.
    Failed,
    /// The offer, quote or order has expired.
    Expired,
    /// The order or call was cancelled.
    Cancelled,
    /// A transaction is pending, and its result is unknown.
    Unclear,
}

impl CardStatus {
    /// All statuses, in the order of their declaration.
    pub const ALL: [Self; 14] = [
        Self::Empty,
        Self::Loading,
        Self::Running,
        Self::Waiting,
        Self::Done,
        Self::Simulated,
        Self::Stale,
        Self::Blocked,
        Self::Refused,
        Self::Lapsed,
        Self::Failed,
        Self::Expired,
        Self::Cancelled,
        Self::Unclear,
    ];

    /// Symbol of one column.
    pub const fn mark(self) -> &'static str {
        match self {
            Self::Empty => "·",
            Self::Loading => "…",
            Self::Running => "▸",
            Self::Waiting => "‼",
            Self::Done => "✓",
            Self::Simulated => "≈",
            Self::Stale => "!",
            Self::Blocked | Self::Refused | Self::Failed => "✕",
            Self::Lapsed | Self::Expired | Self::Cancelled => "○",
            Self::Unclear => "?",
        }
    }

    /// Symbol with its role.
    pub const fn sign(self) -> (&'static str, Role) {
        (self.mark(), self.role())
    }

    /// Display text of one or two words.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Empty => "nothing yet",
            Self::Loading => "asked",
            Self::Running => "running",
            Self::Waiting => "WAITS FOR YOU",
            Self::Done => "DONE",
            Self::Simulated => "SIMULATED",
            Self::Stale => "STALE",
            Self::Blocked => "BLOCKED",
            Self::Refused => "REJECTED",
            Self::Lapsed => "LAPSED",
            Self::Failed => "FAILED",
            Self::Expired => "EXPIRED",
            Self::Cancelled => "CANCELLED",
            Self::Unclear => "NOT SETTLED",
        }
    }

    /// Role of the symbol and the text.
    pub const fn role(self) -> Role {
        match self {
            Self::Empty | Self::Loading | Self::Lapsed | Self::Expired | Self::Cancelled => Role::TextDim,
            Self::Running | Self::Simulated => Role::Chart,
            Self::Done => Role::StateGood,
            Self::Waiting | Self::Stale | Self::Unclear => Role::StateCare,
            Self::Blocked | Self::Refused | Self::Failed => Role::StateBad,
        }
    }

    /// Role of a card's frame.
    pub const fn edge(self) -> Role {
        match self {
            Self::Running | Self::Waiting | Self::Blocked | Self::Refused | Self::Failed | Self::Unclear => self.role(),
            _ => Role::BorderCard,
        }
    }

    /// Returns true for a bad end that the operator should read.
    pub const fn is_bad(self) -> bool {
        matches!(self, Self::Blocked | Self::Refused | Self::Failed)
    }

    /// Returns true if money may be moving, so that the card shows where it is.
    pub const fn in_flight(self) -> bool {
        matches!(self, Self::Running | Self::Waiting | Self::Unclear)
    }

    /// Returns true if the status is final.
    pub const fn is_over(self) -> bool {
        !matches!(self, Self::Empty | Self::Loading | Self::Running | Self::Waiting | Self::Unclear)
    }

    /// Status of a call that ended with this error.
    pub fn of_error(code: ErrorCode) -> Self {
        match code {
            ErrorCode::ApprovalRefused => Self::Refused,
            ErrorCode::ApprovalLapsed => Self::Lapsed,
            ErrorCode::PermitExpired | ErrorCode::UniswapxOrderExpired => Self::Expired,
            ErrorCode::ToolCancelled => Self::Cancelled,
            ErrorCode::ExecutionTxTimeout => Self::Unclear,
            ErrorCode::Halted
            | ErrorCode::ApprovalRequired
            | ErrorCode::SafetySimulationFailed
            | ErrorCode::SafetyNotAllowed => Self::Blocked,
            other if other.is_denial() => Self::Blocked,
            _ => Self::Failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bardo_base::text::width;

    #[test]
    fn marks_are_one_column_and_bad_ends_have_words_of_their_own() {
        for status in CardStatus::ALL {
            assert_eq!(width(status.mark()), 1, "{status:?}");
            assert!(!status.word().is_empty());
        }
        let words: std::collections::BTreeSet<_> = CardStatus::ALL.iter().map(|status| status.word()).collect();
        assert_eq!(words.len(), CardStatus::ALL.len());
    }

    #[test]
    fn an_unanswered_question_is_no_refusal() {
        assert_eq!(CardStatus::of_error(ErrorCode::ApprovalLapsed), CardStatus::Lapsed);
        assert_eq!(CardStatus::of_error(ErrorCode::ApprovalRefused), CardStatus::Refused);
        assert_eq!(CardStatus::of_error(ErrorCode::SafetySpendingLimitExceeded), CardStatus::Blocked);
        assert_eq!(CardStatus::of_error(ErrorCode::RoutingNoRoute), CardStatus::Failed);
        assert_eq!(CardStatus::of_error(ErrorCode::ExecutionTxTimeout), CardStatus::Unclear);
    }
}
