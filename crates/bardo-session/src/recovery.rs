//! Findings of recovery about unfinished work, and the steps that it takes. Both are recorded in the audit log.

use std::fmt;

/// State of unfinished work, according to ledger and chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RecoveryState {
    /// The process that started it is still running.
    Owned,
    /// A nonce is assigned without stored signed bytes, and the process that took it has ended.
    LooseNonce,
    /// The permit is used and the cost reserved, but no signed bytes are stored.
    Unsigned,
    /// Signed bytes are stored. No block contains the transaction, and its nonce is unused.
    Waiting,
    /// A block contains the transaction, with too few confirmations.
    Shallow,
    /// Confirmed: the last transaction of the plan succeeded.
    Whole,
    /// Confirmed: the transaction succeeded, but the main transaction of the plan was never signed.
    Begun,
    /// Confirmed: the main transaction of the plan succeeded, but a later one failed or was never signed.
    Half,
    /// Confirmed: the transaction failed.
    Failed,
    /// The transaction can never be included, and no other transaction of its plan was.
    Gone,
    /// The transaction can never be included, but earlier ones of its plan were.
    GoneHalfway,
    /// The chain does not respond, or contradicts itself.
    Untold,
}

/// Step that recovery takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RecoveryStep {
    /// Does nothing: another process works on it.
    LeaveAlone,
    /// Assigns the nonce to the next transaction.
    GiveBack,
    /// Releases the reservation; does not count as a failure.
    Withdraw,
    /// Sends the same bytes again, then checks later.
    SendAgain,
    /// Checks again later; the reservation is kept.
    Watch,
    /// Counts the whole reservation as spent.
    CountAll,
    /// Counts the reserved gas as spent and releases the rest; does not count as a failure.
    CountFees,
    /// Counts the reserved gas as spent; counts as a failure.
    CountGas,
    /// Counts nothing as spent; counts as a failure.
    CountNothing,
}

impl RecoveryState {
    /// All states, in the order of their declaration.
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

    /// Stored form in the audit log.
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

    /// Description for display.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Owned => "its owner is still working on it",
            Self::LooseNonce => "a reserved nonce that is no longer needed",
            Self::Unsigned => "a reservation without a signature",
            Self::Waiting => "a signed transaction that is in no block",
            Self::Shallow => "a transaction with too few confirmations",
            Self::Whole => "a transaction that succeeded",
            Self::Begun => "a plan that was only started",
            Self::Half => "a plan whose main step succeeded, but not the rest",
            Self::Failed => "a transaction that failed",
            Self::Gone => "a transaction that can no longer be included",
            Self::GoneHalfway => "a plan that ended halfway",
            Self::Untold => "no answer from the chain",
        }
    }

    /// State with this stored form; the inverse of [`Self::as_str`].
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|found| found.as_str() == word)
    }
}

impl RecoveryStep {
    /// All steps, in the order of their declaration.
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

    /// Stored form in the audit log.
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

    /// Description for display.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::LeaveAlone => "it was left unchanged",
            Self::GiveBack => "the nonce goes to the next transaction",
            Self::Withdraw => "the reservation was released",
            Self::SendAgain => "the same transaction was sent again",
            Self::Watch => "it is checked again later",
            Self::CountAll => "the whole reservation counts against the limits",
            Self::CountFees => "the gas counts against the limits, the rest is free",
            Self::CountGas => "the gas counts against the limits, and it counts as a failure",
            Self::CountNothing => "nothing was spent, and it counts as a failure",
        }
    }

    /// Step with this stored form; the inverse of [`Self::as_str`].
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|step| step.as_str() == word)
    }
}

impl fmt::Display for RecoveryState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Display for RecoveryStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_parses_back_and_has_its_own_description() {
        for found in RecoveryState::ALL {
            assert_eq!(RecoveryState::named(found.as_str()), Some(found));
        }
        for step in RecoveryStep::ALL {
            assert_eq!(RecoveryStep::named(step.as_str()), Some(step));
        }
        let told = RecoveryState::ALL
            .map(RecoveryState::describe)
            .into_iter()
            .chain(RecoveryStep::ALL.map(RecoveryStep::describe));
        assert_eq!(
            told.collect::<std::collections::BTreeSet<_>>().len(),
            RecoveryState::ALL.len() + RecoveryStep::ALL.len()
        );
        assert_eq!((RecoveryState::named("lost"), RecoveryStep::named("")), (None, None));
    }
}
