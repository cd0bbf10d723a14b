//! Interface of signing accounts: an account builds the signing payload of a proposal, and signs the content of a
//! [`Capability`]. Custody implements it; keys are not visible here.

use std::fmt;

use alloy::primitives::{Address, Bytes, U256};
use futures::future::BoxFuture;

use super::custody::safe::SafeSignatures;
use super::custody::{SafeRefusal, SessionRefusal};
use super::pipeline::{Capability, Order, SafeTransaction};
use super::proposal::Proposal;
use super::queue_key::QueueKey;
use super::signing_payload::{FeeBound, PayloadError, SigningPayload};
use bardo_base::error::ErrorCode;
use bardo_base::text::SafeText;
use golem_chain::signed::SignedTransaction;

/// Account that signs for the pipeline.
pub trait Account: fmt::Debug + Send + Sync {
    /// Returns the address of the account that owns the money, as named in proposals.
    fn address(&self) -> Address;

    /// Returns the address whose key signs the transactions and pays for gas: the account's own, an owner of a Safe, or a
    /// session key.
    fn signer(&self) -> Address;

    /// Returns how the account signs.
    fn kind(&self) -> AccountKind;

    /// Returns the reason why its keys were removed for good; `None` if they were not.
    fn revoked(&self) -> Option<RevocationCause> {
        None
    }

    /// Returns the key that authenticates this account's rows in the ledger named `ledger`; `None` if the account is
    /// locked, or if its key is public.
    fn queue_key(&self, ledger: &str) -> Option<QueueKey> {
        let _ = ledger;
        None
    }

    /// Reads what [`Self::prepare_payload`] depends on. The pipeline calls it before each preparation.
    ///
    /// # Errors
    /// [`PayloadError`] if it cannot be read.
    fn refresh(&self) -> BoxFuture<'_, Result<(), PayloadError>> {
        Box::pin(async { Ok(()) })
    }

    /// Builds the signing payload of a proposal: bytes, sender and payer, without nonces, with fees bounded by the
    /// context. Must not use a key, because previews call it too.
    ///
    /// # Errors
    /// [`PayloadError`] if the account cannot do what is proposed, for example on another chain.
    fn prepare_payload(&self, proposal: Proposal, context: &PayloadContext) -> Result<SigningPayload, PayloadError>;

    /// Builds the signing payload that executes a proposal of a Safe with its owners' signatures, as the Safe's transactions
    /// from this number on. Must not use a key.
    ///
    /// # Errors
    /// [`PayloadError`] if there are too few signatures, or if the Safe's next transaction is another one. The default
    /// implementation always refuses.
    fn prepare_signed(
        &self,
        proposal: Proposal,
        context: &PayloadContext,
        signed: (U256, &SafeSignatures),
    ) -> Result<SigningPayload, PayloadError> {
        let _ = (proposal, context, signed);
        Err(PayloadError::Unsupported("it is not a Safe that needs several owners".to_owned()))
    }

    /// Signs exactly the content of the capability: first each typed message, then the transaction with these
    /// signatures in its calldata. The pipeline compares the result with the payload.
    ///
    /// # Errors
    /// [`SignError`] if nothing was signed; [`SignError::Unclear`] if that is not known.
    fn sign(&self, capability: Capability) -> BoxFuture<'_, Result<SignedTransaction, SignError>>;

    /// Signs the order in the capability. Returns `r ‖ s ‖ v` with v 27 or 28; the pipeline recovers the signer.
    ///
    /// # Errors
    /// [`SignError`], as for [`Self::sign`]. The default implementation always refuses.
    fn sign_order(&self, capability: Capability<Order>) -> BoxFuture<'_, Result<Bytes, SignError>> {
        drop(capability);
        Box::pin(async { Err(SignError::Refused("this account signs no orders".to_owned())) })
    }

    /// Signs the Safe's transaction in the capability, for the Safe's other owners. Returns `r ‖ s ‖ v` with v 27 or 28; the
    /// pipeline recovers the signer.
    ///
    /// # Errors
    /// [`SignError`], as for [`Self::sign`]. The default implementation always refuses.
    fn sign_safe(&self, capability: Capability<SafeTransaction>) -> BoxFuture<'_, Result<Bytes, SignError>> {
        drop(capability);
        Box::pin(async { Err(SignError::Refused("this account signs no transaction of a Safe".to_owned())) })
    }
}

/// Inputs for building a signing payload, apart from the proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayloadContext {
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// Maximum fees, in wei per gas unit.
    pub fees: FeeBound,
}

/// Kind of signing account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AccountKind {
    /// Key in a local encrypted file.
    LocalKey,
    /// Well-known development mnemonic, on devnets only.
    DevelopmentKey,
    /// Session key under on-chain caveats.
    Delegated,
    /// Key on a wallet server.
    Embedded,
    /// Safe that acts through the key of an owner.
    Safe,
}

impl AccountKind {
    /// Returns true if the account signs typed messages as the owner of the money. A delegated account cannot: only the
    /// owner's own key makes such signatures. Nor can a Safe, whose signature is not its owner's.
    pub const fn signs_messages(self) -> bool {
        match self {
            Self::LocalKey | Self::DevelopmentKey | Self::Embedded => true,
            Self::Delegated | Self::Safe => false,
        }
    }

    /// Returns the identifier that events and the ledger use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::LocalKey => "local_key",
            Self::DevelopmentKey => "development_key",
            Self::Delegated => "delegated",
            Self::Embedded => "embedded",
            Self::Safe => "safe",
        }
    }
}

/// Reason why an account's keys were removed for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RevocationCause {
    /// The account's Golem has died.
    Death,
    /// A `revoke` stop was in force while the process ran.
    Stop,
}

impl fmt::Display for RevocationCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Death => "its Golem has died, and its keys are revoked",
            Self::Stop => {
                "its keys are revoked because the stop level was revoke; lift the stop and restart the process to load \
                 the keys again"
            }
        })
    }
}

/// Reason why an account returned no signature.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// The key cannot be used now.
    #[error("the account is locked: {0}")]
    Locked(String),
    /// The keys were removed for good.
    #[error("the account is locked: {0}")]
    Revoked(RevocationCause),
    /// The account never signs such content.
    #[error("the account refuses to sign: {0}")]
    Refused(String),
    /// The session key may not sign this, or no longer.
    #[error(transparent)]
    Session(#[from] SessionRefusal),
    /// The Safe may not do this, or is not as it was bound.
    #[error(transparent)]
    Safe(#[from] SafeRefusal),
    /// The wallet server refused, for example by a policy of its own.
    #[error("the wallet server refuses to sign: {0}")]
    ServerRefused(SafeText),
    /// The wallet server does not serve now.
    #[error("the wallet server does not answer: {0}")]
    ServerUnavailable(SafeText),
    /// The signer did not answer clearly, so it may have signed.
    #[error("the wallet server's answer is unclear, so it may have signed: {0}")]
    Unclear(String),
}

impl SignError {
    /// Returns the error code of a call that ended with this.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Revoked(RevocationCause::Stop) => ErrorCode::Halted,
            Self::Locked(_) | Self::Revoked(RevocationCause::Death) | Self::Refused(_) => {
                ErrorCode::WalletNotConfigured
            }
            Self::Session(refusal) => refusal.code(),
            Self::Safe(refusal) => refusal.code(),
            Self::ServerRefused(_) => ErrorCode::WalletServerRefused,
            Self::ServerUnavailable(_) => ErrorCode::WalletServerUnavailable,
            Self::Unclear(_) => ErrorCode::WalletServerUnclear,
        }
    }

    /// Returns true if it counts as a failure for the failure breaker. A stop, and the limits of the owner or of the
    /// owner's wallet server, are none.
    pub const fn is_failure(&self) -> bool {
        match self {
            Self::Revoked(RevocationCause::Stop) | Self::Session(_) | Self::Safe(_) | Self::ServerRefused(_) => false,
            Self::Locked(_)
            | Self::Revoked(RevocationCause::Death)
            | Self::Refused(_)
            | Self::ServerUnavailable(_)
            | Self::Unclear(_) => true,
        }
    }
}
