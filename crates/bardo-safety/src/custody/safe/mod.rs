//! Safe 1.4.1 as the account. An owner's key sends `execTransaction`, so that the Safe makes the proposed call with its
//! own money; the owner pays for gas.
//!
//! Only a Safe that needs one owner acts. The owner is the sender of the transaction, which the contract takes for the
//! owner's agreement, so that no signature over a Safe transaction exists that another could use. The call is always a
//! plain one (`CALL`), without a refund to anybody, and a call that fails makes the whole transaction fail.
//!
//! The operator binds the Safe as it is ([`SafeState::fingerprint`]). Before each preparation and each signature the
//! state is read again; any difference is refused.
//!
//! Typed messages are refused: an order or a permit needs the Safe's own signature (ERC-1271), not its owner's.
//!
//! | file | contents |
//! |---|---|
//! | `state` | what the chain says of a Safe, and its fingerprint |

mod state;
#[cfg(test)]
mod tests;

use std::fmt;

use alloy::primitives::{Address, Bytes, Log, U256};
use alloy::sol_types::{SolCall as _, SolEvent as _};
use futures::future::BoxFuture;

use super::local::{fits, with_margin};
use super::{DevelopmentAccount, EmbeddedAccount, LocalAccount};
use crate::pipeline::ToSign;
use crate::proposal::{PlanLeg, Proposal};
use crate::queue_key::QueueKey;
use crate::{
    Account, AccountKind, Capability, PayloadContext, PayloadError, PayloadLeg, PayloadParts, SignError, SigningPayload,
};
use bardo_abi::safe::Safe;
use bardo_base::error::ErrorCode;
use golem_chain::fork::StorageWrite;
use golem_chain::provider::{ChainClient, ProviderError};
use golem_chain::signed::SignedTransaction;

pub use state::{SafeFingerprint, SafeState};

/// Gas of `execTransaction` around the call: the proxy, the hash, the owner, the nonce and the event.
const EXECUTE_GAS: u64 = 80_000;

/// Operation of a plain call. The other one, a delegate call, could change everything in the Safe.
const CALL: u8 = 0;

/// Reason for which a Safe does nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SafeRefusal {
    /// The account is not a Safe that Bardo knows.
    #[error("{safe} cannot be used as a Safe: {why}")]
    NotSafe {
        /// Address that was read as a Safe.
        safe: Address,
        /// Reason, such as its code.
        why: &'static str,
    },
    /// The key is not an owner's.
    #[error("{owner} is not an owner of the Safe {safe}")]
    NotOwner {
        /// Address of the Safe.
        safe: Address,
        /// Address of the key.
        owner: Address,
    },
    /// More than one owner must agree.
    #[error("the Safe {safe} needs {threshold} owners, and Bardo acts only for a Safe that needs one")]
    Threshold {
        /// Address of the Safe.
        safe: Address,
        /// Number of owners that must agree.
        threshold: U256,
    },
    /// The state differs from the bound one.
    #[error("the Safe {safe} is not as it was bound. It is now: {now}")]
    Changed {
        /// Address of the Safe.
        safe: Address,
        /// Its state now.
        now: String,
    },
    /// A call of the Safe itself would change who may act for it.
    #[error("transaction {leg} calls the Safe itself, which could change its owners, modules or guard")]
    Itself {
        /// Index of the transaction, from 0.
        leg: usize,
    },
    /// The chain is not the Safe's.
    #[error("the Safe acts on chain {bound} alone, not on chain {asked}")]
    Chain {
        /// Chain of the Safe.
        bound: u64,
        /// Chain of the call.
        asked: u64,
    },
    /// The bytes to sign are not the checked call of the Safe.
    #[error("an owner's key signs the Safe's checked calls alone: {0}")]
    Shape(&'static str),
    /// The chain could not be read.
    #[error("the Safe could not be read: {0}")]
    Unread(String),
}

impl SafeRefusal {
    /// Returns the error code of the refusal.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::NotSafe { .. }
            | Self::NotOwner { .. }
            | Self::Threshold { .. }
            | Self::Changed { .. }
            | Self::Itself { .. }
            | Self::Chain { .. }
            | Self::Shape(_) => ErrorCode::SafeRefused,
            Self::Unread(_) => ErrorCode::ChainUnreachable,
        }
    }
}

impl From<ProviderError> for SafeRefusal {
    fn from(error: ProviderError) -> Self {
        Self::Unread(error.to_string())
    }
}

/// Key of an owner.
#[derive(Debug)]
pub enum SafeOwnerKey {
    /// Key in a local encrypted file.
    Local(LocalAccount),
    /// Account of the development mnemonic.
    Development(DevelopmentAccount),
    /// Key on a wallet server.
    Embedded(EmbeddedAccount),
}

impl SafeOwnerKey {
    /// Returns the address of the key.
    pub fn address(&self) -> Address {
        match self {
            Self::Local(account) => account.address(),
            Self::Development(account) => account.address(),
            Self::Embedded(account) => account.address(),
        }
    }

    async fn sign(&self, to_sign: &ToSign) -> Result<SignedTransaction, SignError> {
        match self {
            Self::Local(account) => account.sign_parts(to_sign),
            Self::Development(account) => account.sign_parts(to_sign),
            Self::Embedded(account) => account.sign_parts(to_sign).await,
        }
    }
}

/// Safe that acts through the key of one owner.
pub struct SafeAccount {
    safe: Address,
    bound: SafeFingerprint,
    owner: SafeOwnerKey,
    client: ChainClient,
}

impl SafeAccount {
    /// Creates the account of the Safe at `safe` on the chain of `client`, which acts while its state has the
    /// fingerprint `bound`.
    pub fn new(safe: Address, bound: SafeFingerprint, owner: SafeOwnerKey, client: ChainClient) -> Self {
        Self { safe, bound, owner, client }
    }

    /// Checks that the chain's state is the bound one, and that the owner alone can act.
    ///
    /// # Errors
    /// The first [`SafeRefusal`] that applies.
    pub async fn check(&self) -> Result<SafeState, SafeRefusal> {
        let state = SafeState::read(&self.client, self.safe).await?;
        if state.fingerprint() != self.bound {
            return Err(SafeRefusal::Changed { safe: self.safe, now: state.describe() });
        }
        state.check_owner(self.owner.address())?;
        Ok(state)
    }

    /// Checks that exactly what is to be signed is the Safe's call that was checked.
    fn inspect(&self, to_sign: &ToSign) -> Result<(), SafeRefusal> {
        let (bound, asked) = (self.client.chain_id(), to_sign.chain_id);
        if asked != bound {
            return Err(SafeRefusal::Chain { bound, asked });
        }
        if to_sign.payload.account() != self.safe {
            return Err(SafeRefusal::Shape("this one is for another account"));
        }
        let wrong = SafeRefusal::Shape("this one does something else");
        let proposed = to_sign.payload.proposal().legs.get(to_sign.leg).ok_or_else(|| wrong.clone())?;
        let leg = &to_sign.transaction;
        if leg.to != self.safe || !leg.value.is_zero() || !leg.slots.is_empty() {
            return Err(wrong);
        }
        if proposed.to == self.safe {
            return Err(SafeRefusal::Itself { leg: to_sign.leg });
        }
        match leg.data == execution(self.owner.address(), proposed) {
            true => Ok(()),
            false => Err(wrong),
        }
    }

    async fn sign_checked(&self, to_sign: ToSign) -> Result<SignedTransaction, SignError> {
        self.inspect(&to_sign)?;
        self.check().await?;
        self.owner.sign(&to_sign).await
    }

    /// Converts a proposed transaction into a call of the Safe.
    fn wrap(&self, index: usize, leg: &PlanLeg) -> Result<PayloadLeg, PayloadError> {
        if !leg.slots.is_empty() {
            return Err(PayloadError::Unsupported(
                "a typed message of a Safe needs the Safe's own signature (ERC-1271), not its owner's; set the allowance \
                 by a call instead"
                    .into(),
            ));
        }
        if leg.to == self.safe {
            return Err(SafeRefusal::Itself { leg: index }.into());
        }
        let owner = self.owner.address();
        Ok(PayloadLeg {
            purpose: leg.purpose,
            from: owner,
            to: self.safe,
            // The value comes from the Safe's balance, not from the owner's.
            value: U256::ZERO,
            data: execution(owner, leg),
            gas_limit: with_margin(leg.gas_limit.saturating_add(EXECUTE_GAS)),
            slots: Vec::new(),
        })
    }
}

/// Calldata of `execTransaction` for a plain call, sent by `owner`: no refund, and a failed call fails the transaction,
/// which the contract does where both the gas of the call and the gas price are zero.
pub(crate) fn execution(owner: Address, leg: &PlanLeg) -> Bytes {
    // The form of an agreement that the sender of the transaction gives: the owner, nothing, and 1.
    let agreement = [owner.into_word().as_slice(), &[0; 32], &[1]].concat();
    Safe::execTransactionCall {
        to: leg.to,
        value: leg.value,
        data: leg.data.clone(),
        operation: CALL,
        safeTxGas: U256::ZERO,
        baseGas: U256::ZERO,
        gasPrice: U256::ZERO,
        gasToken: Address::ZERO,
        refundReceiver: Address::ZERO,
        signatures: agreement.into(),
    }
    .abi_encode()
    .into()
}

/// Returns true if a prepared transaction is the plain call of `safe` by `owner` that carries the proposed one.
pub(crate) fn carries(prepared: &PayloadLeg, proposed: &PlanLeg, safe: Address) -> bool {
    prepared.to == safe
        && prepared.value.is_zero()
        && prepared.slots.is_empty()
        && proposed.to != safe
        && prepared.data == execution(prepared.from, proposed)
}

/// Storage slot of a Safe's nonce.
const NONCE_SLOT: U256 = U256::from_limbs([5, 0, 0, 0]);

/// Returns true if a storage write is the Safe's count of exactly `calls` of its calls.
pub(crate) fn counts(safe: Address, write: &StorageWrite, calls: usize) -> bool {
    let expected = write.value.before.checked_add(U256::from(calls));
    write.account == safe && write.slot == NONCE_SLOT && expected == Some(write.value.after)
}

/// Returns true if the logs say that `safe` executed its call without paying anybody, and none says that one failed.
pub(crate) fn executed<'a>(safe: Address, logs: impl IntoIterator<Item = &'a Log>) -> bool {
    let mut done = false;
    for log in logs.into_iter().filter(|log| log.address == safe) {
        if Safe::ExecutionFailure::decode_log(log).is_ok() {
            return false;
        }
        if let Ok(success) = Safe::ExecutionSuccess::decode_log(log) {
            if !success.payment.is_zero() {
                return false;
            }
            done = true;
        }
    }
    done
}

impl Account for SafeAccount {
    fn address(&self) -> Address {
        self.safe
    }

    fn signer(&self) -> Address {
        self.owner.address()
    }

    fn kind(&self) -> AccountKind {
        AccountKind::Safe
    }

    fn queue_key(&self, ledger: &str) -> Option<QueueKey> {
        match &self.owner {
            SafeOwnerKey::Local(account) => account.queue_key_of(ledger, self.safe),
            SafeOwnerKey::Embedded(account) => account.queue_key_of(ledger, self.safe),
            SafeOwnerKey::Development(_) => None,
        }
    }

    fn refresh(&self) -> BoxFuture<'_, Result<(), PayloadError>> {
        Box::pin(async {
            self.check().await?;
            Ok(())
        })
    }

    fn prepare_payload(&self, proposal: Proposal, context: &PayloadContext) -> Result<SigningPayload, PayloadError> {
        fits(self.safe, &proposal, context)?;
        let (bound, asked) = (self.client.chain_id(), proposal.chain_id);
        if asked != bound {
            return Err(SafeRefusal::Chain { bound, asked }.into());
        }
        // On another chain nobody may have the Safe's address, or somebody else.
        if proposal.arrival.is_some() {
            return Err(PayloadError::Unsupported(
                "a Safe exists on one chain only: what is sent to its address on another one can be lost".into(),
            ));
        }
        if proposal.order.is_some() {
            return Err(PayloadError::Unsupported(
                "an order of a Safe needs the Safe's own signature (ERC-1271), not its owner's".into(),
            ));
        }
        if proposal.replaces.is_some() {
            return Err(PayloadError::Unsupported(
                "a waiting transaction of a Safe is its owner's: replace it with the owner's account".into(),
            ));
        }
        let legs =
            proposal.legs.iter().enumerate().map(|(index, leg)| self.wrap(index, leg)).collect::<Result<_, _>>()?;
        let owner = self.owner.address();
        SigningPayload::new(PayloadParts {
            proposal,
            kind: AccountKind::Safe,
            signer: owner,
            payer: owner,
            legs,
            order: None,
            fees: context.fees,
        })
    }

    fn sign(&self, capability: Capability) -> BoxFuture<'_, Result<SignedTransaction, SignError>> {
        Box::pin(self.sign_checked(capability.into_parts()))
    }
}

impl fmt::Debug for SafeAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SafeAccount")
            .field("safe", &self.safe)
            .field("owner", &self.owner.address())
            .finish_non_exhaustive()
    }
}
