//! What recovery finds of something that was begun, and what it does about it. Their words stand on the audit log.

use std::fmt;

/// What the ledger and the chain say of one thing that was begun and has no end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Found {
    /// The program that began it still runs.
    Owned,
    /// A nonce is taken, nothing signed with it is stored, and whoever took it is gone.
    LooseNonce,
    /// The permit is used and the money held; no signed bytes are stored.
    Unsigned,
    /// Signed bytes are stored; no block has them, and their nonce is not spent.
    Waiting,
    /// A block has it; too few blocks lie on it.
    Shallow,
    /// Deep in the chain; it succeeded and was the plan's last transaction.
    Whole,
    /// Deep in the chain; it succeeded, and what the plan is for was never signed.
    Begun,
    /// Deep in the chain; the plan's purpose was served, and its rest failed or was never signed.
    Half,
    /// Deep in the chain; it failed.
    Failed,
    /// It can never happen, and nothing of its plan has.
    Gone,
    /// It can never happen; earlier transactions of its plan have.
    GoneHalfway,
    /// The chain does not answer, or contradicts itself.
    Untold,
}

/// What is done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// Nothing: it is somebody's work.
    LeaveAlone,
    /// The nonce goes to the next transaction.
    GiveBack,
    /// What was held is free; nobody failed.
    Withdraw,
    /// The same bytes go out once more; then it is looked at again.
    SendAgain,
    /// It is looked at again later; what was held stays held.
    Watch,
    /// All that was held counts as spent.
    CountAll,
    /// The gas that was held counts as spent; the rest is free, and nobody failed.
    CountFees,
    /// The gas that was held counts as spent, and it counts as a failure.
    CountGas,
    /// Nothing was spent, and it counts as a failure.
    CountNothing,
}

impl Found {
    /// Everything that can be found.
    pub const ALL: [Self; 12] = [
        Self::Owned,
        Self::LooseNonce,
        Self::Unsigned,
        Self::Waiting,
        Self::Shallow,
        Self::Whole,
        Self::Begun,
        Self::Half,
        Self::Failed,
        Self::Gone,
        Self::GoneHalfway,
        Self::Untold,
    ];

    /// The word for it on the audit trail.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Owned => "owned",
            Self::LooseNonce => "loose_nonce",
            Self::Unsigned => "unsigned",
            Self::Waiting => "waiting",
            Self::Shallow => "shallow",
            Self::Whole => "whole",
            Self::Begun => "begun",
            Self::Half => "half",
            Self::Failed => "failed",
            Self::Gone => "gone",
            Self::GoneHalfway => "gone_halfway",
            Self::Untold => "untold",
        }
    }

    /// What it means, for people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Owned => "whoever began it is still at it",
            Self::LooseNonce => "a nonce that nobody will sign with any more",
            Self::Unsigned => "money held, and nothing signed",
            Self::Waiting => "a signed transaction that no block has",
            Self::Shallow => "a transaction with too few blocks on it",
            Self::Whole => "a transaction that succeeded",
            Self::Begun => "a plan that was only begun",
            Self::Half => "a plan that did what it is for, and not its rest",
            Self::Failed => "a transaction that failed",
            Self::Gone => "a transaction that can never happen",
            Self::GoneHalfway => "a plan that ended half-way",
            Self::Untold => "the chain does not tell",
        }
    }

    /// The other way round from [`Self::as_str`].
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|found| found.as_str() == word)
    }
}

impl Step {
    /// Every step.
    pub const ALL: [Self; 9] = [
        Self::LeaveAlone,
        Self::GiveBack,
        Self::Withdraw,
        Self::SendAgain,
        Self::Watch,
        Self::CountAll,
        Self::CountFees,
        Self::CountGas,
        Self::CountNothing,
    ];

    /// The word for it on the audit trail.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::LeaveAlone => "leave_alone",
            Self::GiveBack => "give_back",
            Self::Withdraw => "withdraw",
            Self::SendAgain => "send_again",
            Self::Watch => "watch",
            Self::CountAll => "count_all",
            Self::CountFees => "count_fees",
            Self::CountGas => "count_gas",
            Self::CountNothing => "count_nothing",
        }
    }

    /// What it does, for people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::LeaveAlone => "it was left alone",
            Self::GiveBack => "the nonce goes to the next transaction",
            Self::Withdraw => "what was held is free again",
            Self::SendAgain => "the same bytes were sent once more",
            Self::Watch => "it is looked at again",
            Self::CountAll => "all that was held counts as spent",
            Self::CountFees => "the gas counts as spent, the rest is free",
            Self::CountGas => "the gas counts as spent, and it counts as a failure",
            Self::CountNothing => "nothing was spent, and it counts as a failure",
        }
    }

    /// The other way round from [`Self::as_str`].
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|step| step.as_str() == word)
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_found_again_and_told_as_something_of_its_own() {
        for found in Found::ALL {
            assert_eq!(Found::named(found.as_str()), Some(found));
        }
        for step in Step::ALL {
            assert_eq!(Step::named(step.as_str()), Some(step));
        }
        let told = Found::ALL.map(Found::words).into_iter().chain(Step::ALL.map(Step::words));
        assert_eq!(told.collect::<std::collections::BTreeSet<_>>().len(), Found::ALL.len() + Step::ALL.len());
        assert_eq!((Found::named("lost"), Step::named("")), (None, None));
    }
}
