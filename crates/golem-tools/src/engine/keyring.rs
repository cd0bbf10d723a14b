//! Session keys of this machine, and the faucet of a devnet, as tools reach them. Both are outside of the wallet's account:
//! what they do is not a transaction of it.

use std::fmt;

use alloy::primitives::{Address, B256, B512, U256};
use futures::future::BoxFuture;

use bardo_base::error::ToolError;
use bardo_base::id::GolemId;
use bardo_base::text::SafeText;
use bardo_safety::custody::session_keys::{RevokedSessionKey, SessionKeyRecord, SessionKeyRequest};
use golem_chain::network::Network;
use golem_chain::token::TokenId;

/// Session keys of the data folder.
pub trait SessionKeyring: Send + Sync + fmt::Debug {
    /// Returns the session keys of every ledger.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` if the ledgers cannot be listed.
    fn list(&self) -> Result<Vec<ListedSessionKey>, ToolError>;

    /// Revokes the session keys with these stored ids for good, or all if there are none: the operator those of every
    /// ledger, an agent those of its session's. The delegation of each stays on chain until its owner disables it or it
    /// expires.
    ///
    /// # Errors
    /// `WALLET_NOT_CONFIGURED` for an unknown id, before anything is revoked, and `STORE_UNAVAILABLE` if the ledgers cannot
    /// be listed, or for an agent without a session.
    fn revoke<'k>(
        &'k self,
        ids: &'k [String],
        by: &'k GolemId,
        reason: &'k SafeText,
    ) -> BoxFuture<'k, Result<KeyRevocations, ToolError>>;

    /// Creates a session key, which can sign nothing until its owner's signature is accepted. The operator is asked for the
    /// password of its key file, which is the decision to create it; `shown` is what they decide about. Returns the record
    /// and the public key, as an uncompressed point without its prefix.
    ///
    /// # Errors
    /// `APPROVAL_REQUIRED` if nobody can be asked, `APPROVAL_REFUSED` if the operator gives no password, and the errors
    /// of the draft.
    fn draft<'k>(
        &'k self,
        network: &'k Network,
        request: SessionKeyRequest,
        shown: &'k str,
    ) -> BoxFuture<'k, Result<(SessionKeyRecord, B512), ToolError>>;
}

/// Session key as a ledger has it.
#[derive(Debug)]
pub struct ListedSessionKey {
    /// Name of the ledger's folder, such as `real`.
    pub ledger: String,
    /// Record, or the reason why it cannot be read. It proves nothing by itself.
    pub record: Result<SessionKeyRecord, ToolError>,
    /// True if the owner's signature and the audit log confirm a granted record.
    pub is_signed: bool,
}

/// Session keys that were revoked, and what failed.
#[derive(Debug)]
pub struct KeyRevocations {
    /// Session keys that were revoked now.
    pub revoked: Vec<RevokedSessionKey>,
    /// Reasons for which a ledger or a key file was left out.
    pub failures: Vec<ToolError>,
}

/// Source of play money on a devnet.
pub trait Faucet: Send + Sync + fmt::Debug {
    /// Sends `amount`, in raw units, to `to`. Returns the hash of the transaction, which waits for a block.
    ///
    /// # Errors
    /// `CHAIN_UNSUPPORTED` on a chain without a faucet, `TOKEN_NOT_FOUND` for a token that it does not have, and the errors of
    /// the chain.
    fn send(
        &self,
        network: &Network,
        token: TokenId,
        to: Address,
        amount: U256,
    ) -> BoxFuture<'_, Result<B256, ToolError>>;
}
