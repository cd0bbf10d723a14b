//! Kinds of audit log entries.

use std::fmt;

/// Kind of an audit log entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditKind {
    /// A permit for an action was issued.
    PermitIssued,
    /// An action was rejected after its permit was issued.
    PermitRefused,
    /// A permit was used: its action is being executed.
    PermitConsumed,
    /// A permit was used for a simulation only; nothing can be signed with it.
    PermitRehearsed,
    /// An approval request was queued.
    ApprovalRequested,
    /// An approval request was resolved.
    ApprovalResolved,
    /// A second operator approved an action.
    ApprovalSeconded,
    /// An approval request was answered in another process.
    ApprovalAnswered,
    /// A row of the shared queue failed authentication and was ignored.
    ApprovalForged,
    /// An action was rejected before a permit was issued.
    ActionRefused,
    /// The last rejection of a call was caused by another action of the account in between; the call is prepared again.
    ActionOvertaken,
    /// The possible cost of an action was reserved.
    ActionReserved,
    /// The actual cost of an action was booked.
    ActionSettled,
    /// The result of an action was verified on chain.
    ActionVerified,
    /// A transaction that had been given up was mined after all, and its cost was reserved again.
    ActionHeldAgain,
    /// An order was signed.
    OrderSigned,
    /// An order ended.
    OrderEnded,
    /// An owner signed transactions of a Safe, which other owners have to sign too.
    SafeSigned,
    /// Proposed transactions of a Safe ended.
    SafeEnded,
    /// A transaction was signed.
    TxSigned,
    /// A replacement for a pending transaction was signed.
    TxOutbid,
    /// The signed bytes of a waiting transaction were sent again, on the operator's request.
    TxRebroadcast,
    /// A transaction that had been given up was included in a block.
    TxLate,
    /// Recovery continued the work of an earlier process.
    RecoveryStep,
    /// The stop level was raised.
    HaltRaised,
    /// The stop level was lowered.
    HaltLowered,
    /// A session key was granted: its owner's signature was accepted.
    KeysGranted,
    /// The Golem's session keys were revoked.
    KeysRevoked,
    /// The creation of a wallet began, or ended with its address.
    WalletCreation,
    /// A policy came into force.
    PolicyAdopted,
    /// The policy became tighter.
    PolicyTightened,
    /// A looser policy was approved.
    PolicyAccepted,
    /// A looser policy was rejected.
    PolicyRefused,
    /// The failure breaker was reset manually.
    BreakerReset,
    /// The high-water marks were reset manually.
    HighWaterReset,
    /// The sale of all holdings was planned.
    LiquidationPlanned,
    /// The sale of a holding ended.
    LiquidationEnded,
    /// The nonce of an account was set to that of its chain.
    AccountReconciled,
    /// A liquidator repaid a part of the account's debt in a lending market and took collateral for it.
    LendingLiquidated,
    /// An agent recorded a decision, in its own words.
    AgentDecided,
    /// The Golem died.
    GolemDied,
    /// A password for a loosening action was wrong, or there were too many attempts.
    PasswordRefused,
}

impl AuditKind {
    /// All kinds, in the order of their declaration.
    pub const ALL: [Self; 42] = [
        Self::PermitIssued,
        Self::PermitRefused,
        Self::PermitConsumed,
        Self::PermitRehearsed,
        Self::ApprovalRequested,
        Self::ApprovalResolved,
        Self::ApprovalSeconded,
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
        Self::SafeSigned,
        Self::SafeEnded,
        Self::TxSigned,
        Self::TxOutbid,
        Self::TxRebroadcast,
        Self::TxLate,
        Self::RecoveryStep,
        Self::HaltRaised,
        Self::HaltLowered,
        Self::KeysGranted,
        Self::KeysRevoked,
        Self::WalletCreation,
        Self::PolicyAdopted,
        Self::PolicyTightened,
        Self::PolicyAccepted,
        Self::PolicyRefused,
        Self::BreakerReset,
        Self::HighWaterReset,
        Self::LiquidationPlanned,
        Self::LiquidationEnded,
        Self::AccountReconciled,
        Self::LendingLiquidated,
        Self::AgentDecided,
        Self::GolemDied,
        Self::PasswordRefused,
    ];

    /// Stored form of the kind in the audit log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PermitIssued => "permit:issued",
            Self::PermitRefused => "permit:refused",
            Self::PermitConsumed => "permit:consumed",
            Self::PermitRehearsed => "permit:rehearsed",
            Self::ApprovalRequested => "approval:requested",
            Self::ApprovalResolved => "approval:resolved",
            Self::ApprovalSeconded => "approval:seconded",
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
            Self::SafeSigned => "safe:signed",
            Self::SafeEnded => "safe:ended",
            Self::TxSigned => "tx:signed",
            Self::TxOutbid => "tx:outbid",
            Self::TxRebroadcast => "tx:rebroadcast",
            Self::TxLate => "tx:late",
            Self::RecoveryStep => "recovery:step",
            Self::HaltRaised => "halt:raised",
            Self::HaltLowered => "halt:lowered",
            Self::KeysGranted => "keys:granted",
            Self::KeysRevoked => "keys:revoked",
            Self::WalletCreation => "wallet:creation",
            Self::PolicyAdopted => "policy:adopted",
            Self::PolicyTightened => "policy:tightened",
            Self::PolicyAccepted => "policy:accepted",
            Self::PolicyRefused => "policy:refused",
            Self::BreakerReset => "breaker:reset",
            Self::HighWaterReset => "high_water:reset",
            Self::LiquidationPlanned => "liquidation:planned",
            Self::LiquidationEnded => "liquidation:ended",
            Self::AccountReconciled => "account:reconciled",
            Self::LendingLiquidated => "lending:liquidated",
            Self::AgentDecided => "agent:decided",
            Self::GolemDied => "golem:died",
            Self::PasswordRefused => "password:refused",
        }
    }

    /// Kind with this stored form; `None` for one that this version does not write.
    pub fn of(written: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == written)
    }
}

impl fmt::Display for AuditKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_found_by_its_written_form() {
        for kind in AuditKind::ALL {
            assert_eq!(AuditKind::of(kind.as_str()), Some(kind));
        }
        assert_eq!(AuditKind::of("test:entry"), None);
    }
}
