//! How a card stands: a mark, a word and a role for each, so that colour is never the only carrier.

use crate::theme::Role;
use bardo_base::error::ErrorCode;

/// How a card stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Status {
    /// There is nothing to show.
    #[default]
    Empty,
    /// It was asked for; nothing is known yet.
    Loading,
    /// It is under way.
    Running,
    /// It waits for the operator.
    Waiting,
    /// It did what was asked.
    Done,
    /// It was tried on a fork and nothing was signed.
    Simulated,
    /// What it says was true and need not be any more.
    Stale,
    /// A rule stands against it.
    Blocked,
    /// The operator said no.
    Refused,
    /// Nobody answered.
    Lapsed,
    /// It did not do what was asked.
    Failed,
    /// Its time is over.
    Expired,
    /// It was called off.
    Cancelled,
    /// It is on its way and its end is not known.
    Unclear,
}

impl Status {
    /// All of them.
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

    /// One column.
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

    /// Its mark and its colour.
    pub const fn sign(self) -> (&'static str, Role) {
        (self.mark(), self.role())
    }

    /// One or two words.
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
            Self::Refused => "REFUSED",
            Self::Lapsed => "LAPSED",
            Self::Failed => "FAILED",
            Self::Expired => "EXPIRED",
            Self::Cancelled => "CANCELLED",
            Self::Unclear => "NOT SETTLED",
        }
    }

    /// Its colour.
    pub const fn role(self) -> Role {
        match self {
            Self::Empty | Self::Loading | Self::Lapsed | Self::Expired | Self::Cancelled => Role::TextDim,
            Self::Running | Self::Simulated => Role::Chart,
            Self::Done => Role::StateGood,
            Self::Waiting | Self::Stale | Self::Unclear => Role::StateCare,
            Self::Blocked | Self::Refused | Self::Failed => Role::StateBad,
        }
    }

    /// The colour of a card's frame.
    pub const fn edge(self) -> Role {
        match self {
            Self::Running | Self::Waiting | Self::Blocked | Self::Refused | Self::Failed | Self::Unclear => self.role(),
            _ => Role::BorderCard,
        }
    }

    /// Whether it ended in a way that someone should read.
    pub const fn is_bad(self) -> bool {
        matches!(self, Self::Blocked | Self::Refused | Self::Failed)
    }

    /// Whether money may be under way: its card says where it is.
    pub const fn in_flight(self) -> bool {
        matches!(self, Self::Running | Self::Waiting | Self::Unclear)
    }

    /// Whether nothing more comes.
    pub const fn is_over(self) -> bool {
        !matches!(self, Self::Empty | Self::Loading | Self::Running | Self::Waiting | Self::Unclear)
    }

    /// How a call stands that ended with this error.
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
        for status in Status::ALL {
            assert_eq!(width(status.mark()), 1, "{status:?}");
            assert!(!status.word().is_empty());
        }
        let words: std::collections::BTreeSet<_> = Status::ALL.iter().map(|status| status.word()).collect();
        assert_eq!(words.len(), Status::ALL.len());
    }

    #[test]
    fn an_unanswered_question_is_no_refusal() {
        assert_eq!(Status::of_error(ErrorCode::ApprovalLapsed), Status::Lapsed);
        assert_eq!(Status::of_error(ErrorCode::ApprovalRefused), Status::Refused);
        assert_eq!(Status::of_error(ErrorCode::SafetySpendingLimitExceeded), Status::Blocked);
        assert_eq!(Status::of_error(ErrorCode::RoutingNoRoute), Status::Failed);
        assert_eq!(Status::of_error(ErrorCode::ExecutionTxTimeout), Status::Unclear);
    }
}
