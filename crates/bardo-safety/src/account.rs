//! The seam to whoever signs: an account puts a proposal into exact bytes, and signs what a
//! [`Capability`] carries. Custody implements it; nothing here knows a key.

use std::fmt;

use alloy::primitives::{Address, Bytes};
use futures::future::BoxFuture;

use super::framed::{FeeBound, FrameError, Framed};
use super::pipeline::{Capability, Order};
use super::proposal::Proposal;
use super::queue_key::QueueKey;
use golem_chain::signed::Signed;

/// Somebody who can sign on the pipeline's word.
pub trait Account: fmt::Debug + Send + Sync {
    /// Whose money it is: the account named in proposals.
    fn address(&self) -> Address;

    /// How it signs.
    fn kind(&self) -> AccountKind;

    /// Whether its keys were taken away for good, and why.
    fn revoked(&self) -> Option<Revoked> {
        None
    }

    /// Key that authenticates this account's rows in the ledger named `ledger`; `None` where the account is locked, or its
    /// key is public.
    fn queue_key(&self, ledger: &str) -> Option<QueueKey> {
        let _ = ledger;
        None
    }

    /// Puts a proposal into the bytes, sender and payer that it would sign: all but account nonces
    /// and fees, which the context bounds. Must not read a key: framing is done for previews too.
    ///
    /// # Errors
    /// [`FrameError`]: the account cannot do what is proposed, such as on another chain.
    fn frame(&self, proposal: Proposal, context: &FrameContext) -> Result<Framed, FrameError>;

    /// Signs exactly what the capability carries: first each typed message, then, with these
    /// signatures in their places, the transaction. The pipeline compares what comes back.
    ///
    /// # Errors
    /// [`SignError`]: nothing was signed, or nothing that left the account's hands.
    fn sign(&self, capability: Capability) -> BoxFuture<'_, Result<Signed, SignError>>;

    /// Signs the order that the capability carries, for others to settle: `r ‖ s ‖ v`, v 27 or 28. The pipeline
    /// recovers the signer.
    ///
    /// # Errors
    /// [`SignError`]. An account that says nothing else refuses.
    fn sign_order(&self, capability: Capability<Order>) -> BoxFuture<'_, Result<Bytes, SignError>> {
        drop(capability);
        Box::pin(async { Err(SignError::Refused("this account signs no orders".to_owned())) })
    }
}

/// What framing may rely on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameContext {
    /// The chain the bytes are for.
    pub chain_id: u64,
    /// The most that gas may cost.
    pub fees: FeeBound,
}

/// How an account signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AccountKind {
    /// A key in an encrypted file here.
    LocalKey,
    /// The well-known development mnemonic, on devnets only.
    DevelopmentKey,
    /// A session key under on-chain caveats.
    Delegated,
    /// A wallet server.
    Embedded,
}

impl AccountKind {
    /// Whether it signs typed messages for the account whose money it is. What acts for an owner by calls cannot: only
    /// the owner's own key makes signatures that count as the owner's.
    pub const fn signs_messages(self) -> bool {
        match self {
            Self::LocalKey | Self::DevelopmentKey | Self::Embedded => true,
            Self::Delegated => false,
        }
    }

    /// The written form, as in events and the ledger.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::LocalKey => "local_key",
            Self::DevelopmentKey => "development_key",
            Self::Delegated => "delegated",
            Self::Embedded => "embedded",
        }
    }
}

/// Why an account's keys were taken away for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Revoked {
    /// Its Golem has died.
    Death,
    /// The highest step of the stop ladder was in force while it lived.
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

/// Why nothing was signed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// The key cannot be used now.
    #[error("the account is locked: {0}")]
    Locked(String),
    /// Its keys were taken away.
    #[error("the account is locked: {0}")]
    Revoked(Revoked),
    /// The account never signs this.
    #[error("the account refuses to sign: {0}")]
    Refused(String),
    /// The signer did not answer, and whether it has signed is not known.
    #[error("the signer gave no clear answer: {0}")]
    Unclear(String),
}
