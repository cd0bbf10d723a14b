//! Contradictions between the endpoints of one chain: which endpoints, about what, and whether a majority settled it.

use std::time::Duration;

use bardo_base::text::SafeText;
use parking_lot::Mutex;

/// Time for which a contradiction stays on an endpoint's record, so that an operator can see it.
pub(super) const KEPT_FOR: Duration = Duration::from_secs(600);

/// One contradiction between endpoints of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dispute {
    /// What was read, such as `eth_call` or `storage slot 0x01 of 0x…`.
    pub subject: SafeText,
    /// The endpoints that the majority outvoted; where there is no majority, every endpoint that took part.
    pub endpoints: Vec<SafeText>,
    /// Whether a strict majority of the endpoints gave one answer.
    pub outvoted: bool,
}

impl std::fmt::Display for Dispute {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.endpoints.iter().map(SafeText::as_str).collect::<Vec<_>>().join(", ");
        match self.outvoted {
            true => write!(f, "{names} contradicts the other endpoints about {}", self.subject),
            false => write!(f, "{names} contradict each other about {}", self.subject),
        }
    }
}

/// The contradictions that a stack of endpoints has seen since it was made.
#[derive(Debug, Default)]
pub(super) struct DisputeLog(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    all: u64,
    /// Of them, those without a majority.
    undecided: u64,
    last: Option<Dispute>,
}

/// A point in the record of contradictions, to compare with a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DisputeMark {
    all: u64,
    undecided: u64,
}

/// What was contradicted since a [`DisputeMark`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisputesSince {
    /// The latest contradiction.
    pub last: Dispute,
    /// Whether a majority settled all of them.
    pub all_decided: bool,
}

impl DisputeLog {
    pub(super) fn note(&self, dispute: Dispute) {
        let mut counts = self.0.lock();
        counts.all = counts.all.wrapping_add(1);
        if !dispute.outvoted {
            counts.undecided = counts.undecided.wrapping_add(1);
        }
        counts.last = Some(dispute);
    }

    pub(super) fn mark(&self) -> DisputeMark {
        let counts = self.0.lock();
        DisputeMark { all: counts.all, undecided: counts.undecided }
    }

    pub(super) fn since(&self, mark: DisputeMark) -> Option<DisputesSince> {
        let counts = self.0.lock();
        let last = counts.last.clone().filter(|_| counts.all != mark.all)?;
        Some(DisputesSince { last, all_decided: counts.undecided == mark.undecided })
    }
}
