//! Revoked session keys, and what remains of their delegations on chain.

use alloy::primitives::{Address, Bytes};
use alloy::sol_types::SolCall as _;
use rusqlite::Connection;

use super::records::EndedSessionKey;
use super::{SessionKeyRecord, SessionKeyState, acceptance_of};
use bardo_abi::delegation::{Delegation, DelegationManager};
use bardo_base::text::SafeText;

/// Session key that a revocation ended.
#[derive(Debug, Clone)]
pub struct RevokedSessionKey {
    /// Id of the key as stored, which may be damaged.
    pub id: SafeText,
    /// Its delegation, as far as it is known.
    pub delegation: RevokedDelegation,
}

/// Delegation of a revoked session key, as far as it is known without asking the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RevokedDelegation {
    /// No signature of its owner was accepted here.
    NotAccepted,
    /// Its owner has signed it, so that it stands on chain until it expires or the owner disables it with this call.
    Signed(OwnersCall),
    /// The record fits no signature of its owner: the delegation may stand on chain.
    Unknown,
}

impl RevokedDelegation {
    /// Reads what the row before its revocation proves. Every field of the owner's call is covered by the owner's signature.
    pub fn of(connection: &Connection, ended: &EndedSessionKey) -> Self {
        let Ok(accepted) = acceptance_of(connection, &ended.id) else { return Self::Unknown };
        let Ok(row) = &ended.before else { return Self::Unknown };
        match &row.claims().state {
            SessionKeyState::Drafted if accepted.is_none() => Self::NotAccepted,
            SessionKeyState::Granted if row.is_signed_by_its_owner(accepted) => {
                Self::Signed(OwnersCall::of(row.claims()))
            }
            SessionKeyState::Drafted | SessionKeyState::Granted | SessionKeyState::Revoked(_) => Self::Unknown,
        }
    }

    /// Returns the words of the audit log.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::NotAccepted => "none was accepted",
            Self::Signed(_) => "stands until its owner disables it",
            Self::Unknown => "unknown: it may stand until its owner disables it",
        }
    }
}

/// Call of the owner's own account that disables a delegation on chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnersCall {
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// Owner, who sends it.
    pub from: Address,
    /// Address of the delegation manager.
    pub to: Address,
    /// Calldata of the call.
    pub data: Bytes,
}

impl OwnersCall {
    fn of(record: &SessionKeyRecord) -> Self {
        // The manager disables by hash, which does not cover the signature.
        let delegation = Delegation { signature: Bytes::new(), ..record.delegation.clone() };
        let data = DelegationManager::disableDelegationCall { delegation }.abi_encode().into();
        Self { chain_id: record.chain_id, from: record.owner, to: record.manager, data }
    }
}
