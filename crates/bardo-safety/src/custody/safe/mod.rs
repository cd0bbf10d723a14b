//! Safe 1.4.1 as the account. An owner's key sends `execTransaction`, so that the Safe makes the proposed call with its
//! own money; the owner pays for gas.
//!
//! The owner is the sender of the transaction, which the contract takes for the owner's agreement. Where the Safe needs one
//! owner, no signature over a Safe transaction exists that another could use. The call is always a plain one (`CALL`),
//! without a refund to anybody, and a call that fails makes the whole transaction fail.
//!
//! A Safe that needs several owners acts in three steps. The pipeline checks an action like any other and then signs its
//! Safe transactions instead of sending them (`pipeline::safe_proposals`); the other owners' signatures are collected; and
//! once there are enough, the same action goes through the whole pipeline again, with them in its calldata.
//!
//! The operator binds the Safe as it is ([`SafeState::fingerprint`]). Before each preparation and each signature the
//! state is read again; any difference is refused.
//!
//! Typed messages are refused: an order or a permit needs the Safe's own signature (ERC-1271), not its owner's.
//!
//! | file | contents |
//! |---|---|
//! | `state` | what the chain says of a Safe, and its fingerprint |
//! | `transaction` | transactions of a Safe as owners sign them, and the owners' signatures |

mod state;
#[cfg(test)]
mod tests;
mod transaction;

use std::fmt;

use alloy::primitives::{Address, B256, Bytes, Log, U256};
use alloy::sol_types::{SolCall as _, SolEvent as _};
use futures::future::BoxFuture;
use parking_lot::Mutex;

use super::local::{fits, with_margin};
use super::{DevelopmentAccount, EmbeddedAccount, LocalAccount};
use crate::pipeline::{SafeToSign, SafeTransaction, ToSign};
use crate::proposal::{PlanLeg, Proposal, SIGNATURE_BYTES};
use crate::queue_key::QueueKey;
use crate::{
    Account, AccountKind, Capability, PayloadContext, PayloadError, PayloadLeg, PayloadParts, SafePlan, SignError,
    SigningPayload,
};
use bardo_abi::safe::Safe;
use bardo_base::error::ErrorCode;
use golem_chain::fork::StorageWrite;
use golem_chain::provider::{ChainClient, ProviderError};
use golem_chain::signed::SignedTransaction;

pub use state::{SafeFingerprint, SafeState};
pub use transaction::{Agreement, SafeSignatures, SafeTx};

/// Gas of `execTransaction` around the call: the proxy, the hash, the owner, the nonce and the event.
const EXECUTE_GAS: u64 = 80_000;

/// Gas of each further signature: its calldata, the recovery and the owner's entry.
const SIGNATURE_GAS: u64 = 10_000;

/// Storage slot of the number of owners that must agree (`OwnerManager.sol`).
pub const THRESHOLD_SLOT: U256 = U256::from_limbs([4, 0, 0, 0]);

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
    /// More than one owner must agree, and this owner's key signs no Safe transaction.
    #[error("the Safe {safe} needs {threshold} owners, and a key on a wallet server signs no transaction of a Safe")]
    Threshold {
        /// Address of the Safe.
        safe: Address,
        /// Number of owners that must agree.
        threshold: U256,
    },
    /// The Safe's next transaction is another one.
    #[error("the Safe's next transaction is number {now}, and this one is number {nonce}")]
    Nonce {
        /// Number of the transaction.
        nonce: U256,
        /// Number of the Safe's next transaction.
        now: U256,
    },
    /// Too few owners have signed.
    #[error(
        "{signed} of {threshold} owners have signed; collect more with `bardo safe export` and `bardo safe import`"
    )]
    TooFew {
        /// Number of owners that have signed, the sender included.
        signed: usize,
        /// Number of owners that must agree.
        threshold: U256,
    },
    /// Another proposal of the Safe waits.
    #[error("proposal {0} of this Safe waits for signatures: execute it, or reject it, before you propose another")]
    Waiting(B256),
    /// The proposal is not in the state that the step needs.
    #[error("proposal {id} is {state}")]
    State {
        /// Hash of the proposal's first transaction.
        id: B256,
        /// State that the ledger has of it.
        state: String,
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
            | Self::Nonce { .. }
            | Self::TooFew { .. }
            | Self::Waiting(_)
            | Self::State { .. }
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

    fn sign_safe(&self, to_sign: &SafeToSign) -> Result<Bytes, SignError> {
        match self {
            Self::Local(account) => account.sign_safe_parts(to_sign),
            Self::Development(account) => account.sign_safe_parts(to_sign),
            Self::Embedded(_) => Err(SignError::Refused("a wallet server signs no transaction of a Safe".into())),
        }
    }
}

/// Safe that acts through the key of one owner.
pub struct SafeAccount {
    safe: Address,
    bound: SafeFingerprint,
    owner: SafeOwnerKey,
    client: ChainClient,
    /// State that the last refresh has read.
    latest: Mutex<Option<SafeState>>,
}

impl SafeAccount {
    /// Creates the account of the Safe at `safe` on the chain of `client`, which acts while its state has the
    /// fingerprint `bound`.
    pub fn new(safe: Address, bound: SafeFingerprint, owner: SafeOwnerKey, client: ChainClient) -> Self {
        Self { safe, bound, owner, client, latest: Mutex::new(None) }
    }

    /// Checks that the chain's state is the bound one, and that the owner is one of the Safe's.
    ///
    /// # Errors
    /// The first [`SafeRefusal`] that applies.
    pub async fn check(&self) -> Result<SafeState, SafeRefusal> {
        let state = SafeState::read(&self.client, self.safe).await?;
        if state.fingerprint() != self.bound {
            return Err(SafeRefusal::Changed { safe: self.safe, now: state.describe() });
        }
        state.check_owner(self.owner.address())?;
        if state.needs_several() && matches!(self.owner, SafeOwnerKey::Embedded(_)) {
            return Err(SafeRefusal::Threshold { safe: self.safe, threshold: state.threshold });
        }
        Ok(state)
    }

    fn latest(&self) -> Result<SafeState, SafeRefusal> {
        self.latest.lock().clone().ok_or_else(|| SafeRefusal::Unread("its state was not read".to_owned()))
    }

    /// Checks that exactly what is to be signed is the Safe's call that was checked. Returns the signatures in it where the
    /// Safe needs several owners.
    fn inspect(&self, to_sign: &ToSign) -> Result<Option<Bytes>, SafeRefusal> {
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
        match to_sign.payload.safe() {
            None if leg.data == execution(self.owner.address(), proposed) => Ok(None),
            Some(plan) if plan.executes => signatures_in(&leg.data, proposed).map(Some).ok_or(wrong),
            Some(_) => Err(SafeRefusal::Shape("this one is only proposed, and nothing of it is sent")),
            None => Err(wrong),
        }
    }

    async fn sign_checked(&self, to_sign: ToSign) -> Result<SignedTransaction, SignError> {
        let signatures = self.inspect(&to_sign)?;
        let state = self.check().await?;
        match (signatures, state.needs_several()) {
            (None, false) => {}
            (Some(signatures), true) => self.check_agreed(&state, &to_sign, &signatures).await?,
            (None, true) | (Some(_), false) => {
                return Err(SafeRefusal::Shape("the Safe needs another number of owners").into());
            }
        }
        self.owner.sign(&to_sign).await
    }

    /// Checks that enough owners agree to the transaction, and that it is the Safe's next one.
    async fn check_agreed(&self, state: &SafeState, to_sign: &ToSign, signatures: &[u8]) -> Result<(), SafeRefusal> {
        let plan = to_sign.payload.safe().filter(|plan| plan.threshold == state.threshold);
        let transaction = plan.and_then(|_| SafeTx::of_leg(&to_sign.payload, to_sign.leg));
        let transaction = transaction.ok_or(SafeRefusal::Shape("the Safe needs another number of owners"))?;
        if transaction.nonce != state.nonce {
            return Err(SafeRefusal::Nonce { nonce: transaction.nonce, now: state.nonce });
        }
        let (hash, owners) = (transaction.hash(), (state.owners.as_slice(), state.threshold));
        let approved = transaction::check_joined(signatures, hash, owners, self.owner.address());
        for owner in approved.map_err(SafeRefusal::Shape)? {
            if !SafeState::has_approved(&self.client, self.safe, owner, hash).await? {
                return Err(SafeRefusal::Shape("an owner has not agreed on chain"));
            }
        }
        Ok(())
    }

    /// Signs a transaction of the Safe for its other owners.
    async fn sign_safe_checked(&self, to_sign: SafeToSign) -> Result<Bytes, SignError> {
        let SafeToSign { payload, leg, transaction } = &to_sign;
        let (bound, asked) = (self.client.chain_id(), payload.proposal().chain_id);
        if asked != bound || transaction.chain_id != bound {
            return Err(SafeRefusal::Chain { bound, asked }.into());
        }
        if payload.account() != self.safe || transaction.safe != self.safe {
            return Err(SafeRefusal::Shape("this one is for another account").into());
        }
        if transaction.to == self.safe {
            return Err(SafeRefusal::Itself { leg: *leg }.into());
        }
        let is_checked = payload.proposes_to_safe() && SafeTx::of_leg(payload, *leg).as_ref() == Some(transaction);
        let proposed = payload.proposal().legs.get(*leg).filter(|proposed| is_checked && proposed.slots.is_empty());
        if proposed.is_none() {
            return Err(SafeRefusal::Shape("this one does something else").into());
        }
        let state = self.check().await?;
        let (nonce, now) = (payload.safe().map(|plan| plan.nonce).unwrap_or_default(), state.nonce);
        if nonce != now {
            return Err(SafeRefusal::Nonce { nonce, now }.into());
        }
        if !state.needs_several() {
            return Err(SafeRefusal::Shape("a Safe that needs one owner signs no transaction for others").into());
        }
        self.owner.sign_safe(&to_sign)
    }

    /// Checks that a Safe can make the proposed calls at all.
    fn check_kind(&self, proposal: &Proposal, context: &PayloadContext) -> Result<(), PayloadError> {
        fits(self.safe, proposal, context)?;
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
        Ok(())
    }

    /// Builds the payload of a proposal, where `signatures` gives the owners' agreement with each transaction.
    fn frame(
        &self,
        proposal: Proposal,
        context: &PayloadContext,
        plan: Option<SafePlan>,
        signatures: impl Fn(usize) -> Result<Bytes, SafeRefusal>,
    ) -> Result<SigningPayload, PayloadError> {
        let wrap = |(index, leg): (usize, &PlanLeg)| self.wrap(index, leg, signatures(index)?);
        let legs = proposal.legs.iter().enumerate().map(wrap).collect::<Result<_, _>>()?;
        let (kind, owner, fees) = (AccountKind::Safe, self.owner.address(), context.fees);
        let parts = PayloadParts { proposal, kind, signer: owner, payer: owner, legs, order: None, fees };
        match plan {
            Some(plan) => SigningPayload::of_safe(parts, plan),
            None => SigningPayload::new(parts),
        }
    }

    /// Converts a proposed transaction into a call of the Safe.
    fn wrap(&self, index: usize, leg: &PlanLeg, signatures: Bytes) -> Result<PayloadLeg, PayloadError> {
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
        let more = u64::try_from(signatures.len() / SIGNATURE_BYTES).unwrap_or(u64::MAX).saturating_sub(1);
        let gas = leg.gas_limit.saturating_add(EXECUTE_GAS).saturating_add(SIGNATURE_GAS.saturating_mul(more));
        Ok(PayloadLeg {
            purpose: leg.purpose,
            from: self.owner.address(),
            to: self.safe,
            // The value comes from the Safe's balance, not from the owner's.
            value: U256::ZERO,
            data: execution_with(leg, signatures),
            gas_limit: with_margin(gas),
            slots: Vec::new(),
        })
    }
}

/// The form of an agreement that the sender of the transaction gives: the owner, nothing, and 1.
fn agreement(owner: Address) -> Vec<u8> {
    [owner.into_word().as_slice(), &[0; 32], &[1]].concat()
}

/// Calldata of `execTransaction` for a plain call, sent by `owner`.
pub(crate) fn execution(owner: Address, leg: &PlanLeg) -> Bytes {
    execution_with(leg, agreement(owner).into())
}

/// Returns the signatures in the calldata of `execTransaction` that carries the proposed call; `None` for any other calldata.
fn signatures_in(data: &[u8], leg: &PlanLeg) -> Option<Bytes> {
    let call = Safe::execTransactionCall::abi_decode(data).ok()?;
    (execution_with(leg, call.signatures.clone()) == *data).then_some(call.signatures)
}

/// Calldata of `execTransaction` for a plain call with these signatures: no refund, and a failed call fails the transaction,
/// which the contract does where both the gas of the call and the gas price are zero.
fn execution_with(leg: &PlanLeg, signatures: Bytes) -> Bytes {
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
        signatures,
    }
    .abi_encode()
    .into()
}

/// Returns true if a prepared transaction is the plain call of `safe` that carries the proposed one, agreed to by its sender,
/// or with the signatures of several owners, which the contract verifies.
pub(crate) fn carries(prepared: &PayloadLeg, proposed: &PlanLeg, safe: Address) -> bool {
    let is_agreed = || match signatures_in(&prepared.data, proposed) {
        Some(signatures) if signatures.len() > SIGNATURE_BYTES => signatures.len().is_multiple_of(SIGNATURE_BYTES),
        Some(signatures) => *signatures == *agreement(prepared.from),
        None => false,
    };
    prepared.to == safe && prepared.value.is_zero() && prepared.slots.is_empty() && proposed.to != safe && is_agreed()
}

/// Storage slot of a Safe's nonce.
const NONCE_SLOT: U256 = U256::from_limbs([5, 0, 0, 0]);

/// Returns true if a storage write is the Safe's count of exactly `calls` of its calls.
pub(crate) fn counts(safe: Address, write: &StorageWrite, calls: usize) -> bool {
    let expected = write.value.before.checked_add(U256::from(calls));
    write.account == safe && write.slot == NONCE_SLOT && expected == Some(write.value.after)
}

/// Returns true if the logs say that `safe` executed its call without paying anybody, and none says that one failed. With
/// `hashes`, the call must be a transaction with one of them.
pub(crate) fn executed<'a>(safe: Address, hashes: Option<&[B256]>, logs: impl IntoIterator<Item = &'a Log>) -> bool {
    let mut done = false;
    for log in logs.into_iter().filter(|log| log.address == safe) {
        if Safe::ExecutionFailure::decode_log(log).is_ok() {
            return false;
        }
        if let Ok(success) = Safe::ExecutionSuccess::decode_log(log) {
            if !success.payment.is_zero() || hashes.is_some_and(|hashes| !hashes.contains(&success.txHash)) {
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
            let state = self.check().await;
            *self.latest.lock() = state.as_ref().ok().cloned();
            state?;
            Ok(())
        })
    }

    fn prepare_payload(&self, proposal: Proposal, context: &PayloadContext) -> Result<SigningPayload, PayloadError> {
        self.check_kind(&proposal, context)?;
        let state = self.latest()?;
        let SafeState { nonce, threshold, .. } = state;
        let plan = state.needs_several().then_some(SafePlan { nonce, threshold, executes: false });
        self.frame(proposal, context, plan, |_| Ok(agreement(self.owner.address()).into()))
    }

    fn prepare_signed(
        &self,
        proposal: Proposal,
        context: &PayloadContext,
        (nonce, signatures): (U256, &SafeSignatures),
    ) -> Result<SigningPayload, PayloadError> {
        self.check_kind(&proposal, context)?;
        let (state, owner) = (self.latest()?, self.owner.address());
        if nonce != state.nonce {
            return Err(SafeRefusal::Nonce { nonce, now: state.nonce }.into());
        }
        if !state.needs_several() {
            return Err(SafeRefusal::Shape("the Safe needs another number of owners").into());
        }
        let threshold = state.threshold;
        let joined = |leg| {
            let many = usize::try_from(threshold).ok();
            let joined = many.and_then(|many| signatures.joined(leg, owner, many));
            let signed = signatures.owners().filter(|other| *other != owner).count().saturating_add(1);
            joined.ok_or(SafeRefusal::TooFew { signed, threshold })
        };
        self.frame(proposal, context, Some(SafePlan { nonce, threshold, executes: true }), joined)
    }

    fn sign(&self, capability: Capability) -> BoxFuture<'_, Result<SignedTransaction, SignError>> {
        Box::pin(self.sign_checked(capability.into_parts()))
    }

    fn sign_safe(&self, capability: Capability<SafeTransaction>) -> BoxFuture<'_, Result<Bytes, SignError>> {
        Box::pin(self.sign_safe_checked(capability.into_parts()))
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
