//! Contradictions between the endpoints of one chain: endpoints, subject, and whether a majority settled them.

use std::time::Duration;

use bardo_base::text::SafeText;
use parking_lot::Mutex;

/// Time for which an endpoint's record shows a contradiction.
pub(super) const KEPT_FOR: Duration = Duration::from_secs(600);

/// A contradiction between endpoints of one chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dispute {
    /// The value that was read, such as `eth_call` or `storage slot 0x01 of 0x…`.
    pub subject: SafeText,
    /// The outvoted endpoints; without a majority, all endpoints that answered.
    pub endpoints: Vec<SafeText>,
    /// True if a strict majority of the endpoints gave the same answer.
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

/// Contradictions that a stack of endpoints has seen since its creation.
#[derive(Debug, Default)]
pub(super) struct DisputeLog(Mutex<DisputeCounts>);

#[derive(Debug, Default)]
struct DisputeCounts {
    all: u64,
    /// Number of contradictions without a majority.
    undecided: u64,
    last: Option<Dispute>,
}

/// A position in the record of contradictions, for comparison with a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DisputeMark {
    all: u64,
    undecided: u64,
}

/// Contradictions since a [`DisputeMark`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisputesSince {
    /// The latest contradiction.
    pub last: Dispute,
    /// True if a majority settled all of them.
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
