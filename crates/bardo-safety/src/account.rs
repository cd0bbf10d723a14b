//! Interface of signing accounts. An account turns a proposal into exact bytes, and signs the content of a
//! [`Capability`]. Custody implements it; this module handles no keys.

use std::fmt;

use alloy::primitives::{Address, Bytes};
use futures::future::BoxFuture;

use super::framed::{FeeBound, FrameError, Framed};
use super::pipeline::{Capability, Order};
use super::proposal::Proposal;
use super::queue_key::QueueKey;
use golem_chain::signed::Signed;

/// Account that signs for the pipeline.
pub trait Account: fmt::Debug + Send + Sync {
    /// Returns the address of the account named in proposals, which pays and receives.
    fn address(&self) -> Address;

    /// Returns the type of the account.
    fn kind(&self) -> AccountKind;

    /// Returns the reason if the account's keys were revoked permanently.
    fn revoked(&self) -> Option<Revoked> {
        None
    }

    /// Returns the key that authenticates this account's rows in the ledger named `ledger`. `None` if the account is
    /// locked or its key is public.
    fn queue_key(&self, ledger: &str) -> Option<QueueKey> {
        let _ = ledger;
        None
    }

    /// Turns a proposal into the payload to sign: bytes, sender and payer, but no nonces. The context limits the fees.
    /// Must not read a key, since payloads are also prepared for previews.
    ///
    /// # Errors
    /// [`FrameError`] if the account cannot execute the proposal, for example on another chain.
    fn frame(&self, proposal: Proposal, context: &FrameContext) -> Result<Framed, FrameError>;

    /// Signs exactly the content of the capability: first each typed message, then the transaction with these
    /// signatures in place. The pipeline compares the result.
    ///
    /// # Errors
    /// [`SignError`] if no signature was made, or if that is unknown.
    fn sign(&self, capability: Capability) -> BoxFuture<'_, Result<Signed, SignError>>;

    /// Signs the order of the capability for others to settle: `r ‖ s ‖ v`, v 27 or 28. The pipeline recovers the
    /// signer.
    ///
    /// # Errors
    /// [`SignError`] if no signature was made. The default implementation always refuses.
    fn sign_order(&self, capability: Capability<Order>) -> BoxFuture<'_, Result<Bytes, SignError>> {
        drop(capability);
        Box::pin(async { Err(SignError::Refused("this account signs no orders".to_owned())) })
    }
}

/// Parameters for preparing a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameContext {
    /// EIP-155 id of the chain that the bytes are for.
    pub chain_id: u64,
    /// Fee limits per unit of gas.
    pub fees: FeeBound,
}

/// Type of an account, by its way of signing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AccountKind {
    /// Key in an encrypted file on this machine.
    LocalKey,
    /// Key of the public development mnemonic, on devnets only.
    DevelopmentKey,
    /// Session key under on-chain caveats.
    Delegated,
    /// Key on a wallet server.
    Embedded,
}

impl AccountKind {
    /// Returns true if the account signs typed messages for the account that pays. A session key cannot, since only the
    /// owner's own key makes signatures that count as the owner's.
    pub const fn signs_messages(self) -> bool {
        match self {
            Self::LocalKey | Self::DevelopmentKey | Self::Embedded => true,
            Self::Delegated => false,
        }
    }

    /// Returns the name that events and the ledger contain.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::LocalKey => "local_key",
            Self::DevelopmentKey => "development_key",
            Self::Delegated => "delegated",
            Self::Embedded => "embedded",
        }
    }
}

/// Reason for which an account's keys were revoked permanently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Revoked {
    /// The account's Golem has died.
    Death,
    /// The highest level of the stop ladder was in force while the Golem was running.
    Stop,
}

impl fmt::Display for Revoked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Death => "its Golem has died, and its keys are revoked",
            Self::Stop => {
                "its keys are revoked, because the stop ladder was at revoke; only a new start of the program, with that \
                 stop lifted, gives it keys again"
            }
        })
    }
}

/// Reason for which an account returned no signature.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// The key cannot be used now.
    #[error("the account is locked: {0}")]
    Locked(String),
    /// The account's keys were revoked.
    #[error("the account is locked: {0}")]
    Revoked(Revoked),
    /// The account never signs such content.
    #[error("the account refuses to sign: {0}")]
    Refused(String),
    /// The signer did not answer, so it is unknown whether it signed.
    #[error("the signer gave no clear answer: {0}")]
    Unclear(String),
}
