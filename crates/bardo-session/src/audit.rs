//! What the trail records, by kind.

use std::fmt;

/// A kind of entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Leave was given to do something.
    PermitIssued,
    /// It was not done although there was leave.
    PermitRefused,
    /// It is being done.
    PermitConsumed,
    /// It was rehearsed, which used the leave up: nothing can be signed by it.
    PermitRehearsed,
    /// The operator is asked.
    ApprovalRequested,
    /// How the question ended.
    ApprovalResolved,
    /// It was answered in another program.
    ApprovalAnswered,
    /// A row of the shared queue failed authentication and was ignored.
    ApprovalForged,
    /// Something stands against it.
    ActionRefused,
    /// What was refused last for a call was refused because another action of the account came between: it is made anew.
    ActionOvertaken,
    /// What it may take is held.
    ActionReserved,
    /// What it took is counted.
    ActionSettled,
    /// What the chain says of it.
    ActionVerified,
    /// It happened after all, and is held anew.
    ActionHeldAgain,
    /// An order was signed.
    OrderSigned,
    /// How it ended.
    OrderEnded,
    /// A transaction was signed.
    TxSigned,
    /// Another one was signed in its place.
    TxOutbid,
    /// One that had been given up is in a block.
    TxLate,
    /// What an earlier program left is brought on.
    RecoveryStep,
    /// The stop ladder went up.
    HaltRaised,
    /// It went down.
    HaltLowered,
    /// The Golem's keys were taken away.
    KeysRevoked,
    /// A policy holds.
    PolicyAdopted,
    /// It became tighter.
    PolicyTightened,
    /// A looser one was accepted.
    PolicyAccepted,
    /// A looser one was refused.
    PolicyRefused,
    /// The failure breaker was closed by hand.
    BreakerReset,
    /// The highest marks were forgotten by hand.
    HighWaterReset,
    /// What is held is to be sold.
    LiquidationPlanned,
    /// A holding was dealt with.
    LiquidationEnded,
    /// An account goes on from where its chain is.
    AccountReconciled,
    /// The Golem has died.
    GolemDied,
    /// A password that would have let more through was wrong, or one too many.
    PasswordRefused,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 34] = [
        Self::PermitIssued,
        Self::PermitRefused,
        Self::PermitConsumed,
        Self::PermitRehearsed,
        Self::ApprovalRequested,
        Self::ApprovalResolved,
        Self::ApprovalAnswered,
        Self::ApprovalForged,
        Self::ActionRefused,
        Self::ActionOvertaken,
        Self::ActionReserved,
        Self::ActionSettled,
        Self::ActionVerified,
        Self::ActionHeldAgain,
        Self::OrderSigned,
        Self::OrderEnded,
        Self::TxSigned,
        Self::TxOutbid,
        Self::TxLate,
        Self::RecoveryStep,
        Self::HaltRaised,
        Self::HaltLowered,
        Self::KeysRevoked,
        Self::PolicyAdopted,
        Self::PolicyTightened,
        Self::PolicyAccepted,
        Self::PolicyRefused,
        Self::BreakerReset,
        Self::HighWaterReset,
        Self::LiquidationPlanned,
        Self::LiquidationEnded,
        Self::AccountReconciled,
        Self::GolemDied,
        Self::PasswordRefused,
    ];

    /// The written form, by which the trail keeps it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PermitIssued => "permit:issued",
            Self::PermitRefused => "permit:refused",
            Self::PermitConsumed => "permit:consumed",
            Self::PermitRehearsed => "permit:rehearsed",
            Self::ApprovalRequested => "approval:requested",
            Self::ApprovalResolved => "approval:resolved",
            Self::ApprovalAnswered => "approval:answered",
            Self::ApprovalForged => "approval:forged",
            Self::ActionRefused => "action:refused",
            Self::ActionOvertaken => "action:overtaken",
            Self::ActionReserved => "action:reserved",
            Self::ActionSettled => "action:settled",
            Self::ActionVerified => "action:verified",
            Self::ActionHeldAgain => "action:held_again",
            Self::OrderSigned => "order:signed",
            Self::OrderEnded => "order:ended",
            Self::TxSigned => "tx:signed",
            Self::TxOutbid => "tx:outbid",
            Self::TxLate => "tx:late",
            Self::RecoveryStep => "recovery:step",
            Self::HaltRaised => "halt:raised",
            Self::HaltLowered => "halt:lowered",
            Self::KeysRevoked => "keys:revoked",
            Self::PolicyAdopted => "policy:adopted",
            Self::PolicyTightened => "policy:tightened",
            Self::PolicyAccepted => "policy:accepted",
            Self::PolicyRefused => "policy:refused",
            Self::BreakerReset => "breaker:reset",
            Self::HighWaterReset => "high_water:reset",
            Self::LiquidationPlanned => "liquidation:planned",
            Self::LiquidationEnded => "liquidation:ended",
            Self::AccountReconciled => "account:reconciled",
            Self::GolemDied => "golem:died",
            Self::PasswordRefused => "password:refused",
        }
    }

    /// The kind of this written form; `None` for one that this version does not write.
    pub fn of(written: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == written)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_found_by_its_written_form() {
        for kind in Kind::ALL {
            assert_eq!(Kind::of(kind.as_str()), Some(kind));
        }
        assert_eq!(Kind::of("test:entry"), None);
    }
}
