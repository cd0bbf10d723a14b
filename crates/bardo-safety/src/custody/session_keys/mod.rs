//! Session keys of this ledger: which key may act for which owner, until when, how often it did, and whether it was
//! revoked. The key itself is in an encrypted key file, and what it may do is in the owner's signed delegation.
//!
//! | file | contents |
//! |---|---|
//! | `records` | rows of the ledger, authenticated by the session key |
//! | `history` | acceptances and revocations in the audit log |
//! | `keeper` | the checks of one session key before each signature, against its row, clock and block time |
//! | `refusal` | reasons for which a session key signs nothing |
//! | `revoked` | what a revocation ended, and what remains on chain |
//!
//! A row is believed only with a tag that the session key made, since anyone who can write the database could otherwise
//! reset its count. Revoking needs no key: it removes tag and signature, and the audit log keeps it, so that neither a changed
//! row nor the row of an older copy brings the key back.
//!
//! Not here: what a delegation permits (see [`super::delegated`]), and the enforcement on chain (the framework's own).

mod history;
mod keeper;
mod records;
mod refusal;
mod revoked;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use alloy::primitives::{Address, U256};

use super::delegated::{DelegationLimits, DraftBounds};
use super::keystore::{KeyName, KeystoreError};
use bardo_abi::delegation::Delegation;
use bardo_base::id::{IdError, InstanceId};
use bardo_base::text::SafeText;

pub use history::{acceptance_of, check_anchor, revocation_of};
pub use keeper::SessionKeeper;
pub use records::{
    EndedSessionKey, SessionKeyError, StoredSessionKey, all, exists, find, grant, has_live, insert, revoke,
};
pub use refusal::SessionRefusal;
pub use revoked::{OwnersCall, RevokedDelegation, RevokedSessionKey};

/// Maximum length of a label, in characters.
pub const LONGEST_LABEL: usize = 40;

/// Beginning of the names of key files of session keys.
const PREFIX: &str = "session-";

/// Id of a session key: 128 random bits, written as 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionKeyId(InstanceId);

impl SessionKeyId {
    /// Creates the id of a new session key.
    pub fn random() -> Self {
        Self(InstanceId::random())
    }

    /// Returns the salt of its delegation, which binds the delegation to this id.
    pub fn salt(&self) -> U256 {
        // 32 hexadecimal digits, so it always parses.
        U256::from_str_radix(&self.to_string(), 16).unwrap_or_default()
    }

    /// Returns the name of its key file.
    ///
    /// # Errors
    /// [`KeystoreError::Name`] never occurs: the name has 40 letters, digits and `-`.
    pub fn key_name(&self) -> Result<KeyName, KeystoreError> {
        format!("{PREFIX}{self}").parse()
    }

    /// Returns the session key that a key file is named after; `None` for the name of any other key.
    pub fn of_key(name: &KeyName) -> Option<Self> {
        name.to_string().strip_prefix(PREFIX)?.parse().ok()
    }
}

impl fmt::Display for SessionKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for SessionKeyId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        text.parse().map(Self)
    }
}

/// Cause of a revocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RevokedBy {
    /// The operator, by a command.
    Operator,
    /// An agent, by a tool.
    Agent,
    /// The last rung of the stop ladder.
    Stop,
}

impl RevokedBy {
    /// Returns the stored form.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Agent => "agent",
            Self::Stop => "stop",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Operator, Self::Agent, Self::Stop].into_iter().find(|one| one.as_str() == text)
    }
}

/// Revocation of a session key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionKeyRevocation {
    /// Time, in milliseconds since the Unix epoch.
    pub at: u64,
    /// Cause of the revocation.
    pub by: RevokedBy,
    /// Reason, if one was given.
    pub reason: SafeText,
}

/// State of a session key. It goes from drafted to granted to revoked, or from drafted to revoked, and never back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionKeyState {
    /// The owner has not signed its delegation.
    Drafted,
    /// The owner has signed, so that the key can act.
    Granted,
    /// It never acts again.
    Revoked(SessionKeyRevocation),
}

impl SessionKeyState {
    /// Returns the stored form.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Drafted => "drafted",
            Self::Granted => "granted",
            Self::Revoked(_) => "revoked",
        }
    }
}

/// Record of a session key. Without a valid tag, it is only what the row claims.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionKeyRecord {
    /// Id of the session key.
    pub id: SessionKeyId,
    /// Label for people, up to [`LONGEST_LABEL`] characters.
    pub label: SafeText,
    /// Address of the session key.
    pub address: Address,
    /// Owner of the account that it acts for.
    pub owner: Address,
    /// EIP-155 id of the chain that it acts on.
    pub chain_id: u64,
    /// Delegation manager on that chain, with which the owner can disable the delegation.
    pub manager: Address,
    /// Delegation. Its signature is empty unless the state is granted.
    pub delegation: Delegation,
    /// Time of the draft, in milliseconds since the Unix epoch.
    pub created_at: u64,
    /// End of its validity, exclusive, in seconds since the Unix epoch.
    pub expires_at: u64,
    /// Maximum number of calls; `None` for no limit.
    pub max_calls: Option<u64>,
    /// Number of signatures made. Each counts, also of a transaction that got into no block.
    pub uses: u64,
    /// Time of the last signature, in milliseconds since the Unix epoch.
    pub last_used: Option<u64>,
    /// State of the key.
    pub state: SessionKeyState,
}

/// Request for a new session key: its owner and its limits.
#[derive(Debug, Clone)]
pub struct SessionKeyRequest {
    /// Owner of the account.
    pub owner: Address,
    /// Limits, with targets and an end.
    pub limits: DelegationLimits,
    /// Requirement that the limits bound what a stolen key could take.
    pub bounds: DraftBounds,
    /// Label for people.
    pub label: SafeText,
}
