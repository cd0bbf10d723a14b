//! Reasons for which a session key signs nothing. Each has an error code of its own.

use alloy::primitives::U256;

use super::RevokedBy;
use crate::custody::delegated::LimitsError;
use bardo_base::error::ErrorCode;
use bardo_base::format::grouped;
use bardo_base::text::SafeText;
use bardo_base::units::TokenAmount;
use golem_chain::token::TokenInfo;

/// Whole tokens with all digits, or raw units for decimals beyond the limit.
fn whole(token: &TokenInfo, raw: U256) -> String {
    TokenAmount::new(raw, token.decimals)
        .map_or_else(|_| grouped(&raw.to_string()), |amount| grouped(&amount.to_string()))
}

/// Reason for which a session key signs nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionRefusal {
    /// Its time is over.
    #[error("the session key expired at {at} (seconds since 1970), and it is {now}")]
    Expired {
        /// End of its validity, exclusive, in seconds since the Unix epoch.
        at: u64,
        /// Latest of the machine's, the ledger's and the chain's time, in seconds since the Unix epoch.
        now: u64,
    },
    /// Its time has not begun.
    #[error("the session key works after {after} (seconds since 1970), and it is {now}")]
    TooEarly {
        /// Start of its validity, exclusive, in seconds since the Unix epoch.
        after: u64,
        /// Earliest of the machine's and the chain's time, in seconds since the Unix epoch.
        now: u64,
    },
    /// It was revoked.
    #[error("the session key was revoked by {}{}", .by.as_str(), because(.reason))]
    Revoked {
        /// Cause of the revocation.
        by: RevokedBy,
        /// Reason, if one was given.
        reason: SafeText,
    },
    /// The chain is not the delegation's.
    #[error("the session key acts on chain {granted} alone, not on chain {asked}")]
    Chain {
        /// Chain of the delegation.
        granted: u64,
        /// Chain of the call.
        asked: u64,
    },
    /// The call is outside the delegation's targets, functions or value.
    #[error("transaction {leg}: {limit}")]
    Limit {
        /// Index of the transaction, from 0.
        leg: usize,
        /// Limit that it violates.
        limit: LimitsError,
    },
    /// The action may take more of a token than one call may.
    #[error(
        "the action may take {} {} from the owner, and one call of the session key may take {}",
        whole(token, *asked),
        token.symbol,
        whole(token, *most)
    )]
    Loss {
        /// Token that leaves.
        token: Box<TokenInfo>,
        /// Maximum loss of one call, in raw units.
        most: U256,
        /// Maximum outflow of the action, in raw units.
        asked: U256,
    },
    /// The bytes to sign are not a call of the owner's account under this delegation.
    #[error("the session key signs calls of its delegation alone: {0}")]
    Shape(&'static str),
    /// All calls are made.
    #[error("the session key may make {most} calls, has made {used}, and the action takes {more}")]
    UsedUp {
        /// Maximum number of calls.
        most: u64,
        /// Number of calls made.
        used: u64,
        /// Number of calls of the action.
        more: u64,
    },
    /// The record does not authorise anything.
    #[error("the record of the session key authorises nothing: {0}")]
    Unverified(&'static str),
    /// The ledger or the chain could not be read.
    #[error("the session key's state could not be read: {0}")]
    Unread(String),
}

impl SessionRefusal {
    /// Returns the error code of the refusal.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Expired { .. } => ErrorCode::SessionKeyExpired,
            Self::Revoked { .. } => ErrorCode::SessionKeyRevoked,
            Self::TooEarly { .. } | Self::Chain { .. } | Self::Limit { .. } | Self::Loss { .. } | Self::Shape(_) => {
                ErrorCode::SessionKeyOutOfScope
            }
            Self::UsedUp { .. } => ErrorCode::SessionKeyUsedUp,
            Self::Unverified(_) => ErrorCode::SessionKeyUnverified,
            Self::Unread(_) => ErrorCode::StoreUnavailable,
        }
    }
}

fn because(reason: &SafeText) -> String {
    if reason.is_empty() { String::new() } else { format!(": {reason}") }
}
