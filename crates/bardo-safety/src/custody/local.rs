//! Account of a key file on this machine. Sender, payer and owner are the same address.

use std::fmt;

use alloy::primitives::{Address, B512, Bytes};
use futures::future::BoxFuture;

use super::signing::SigningKey;
use crate::pipeline::{Order, SafeToSign, ToSign};
use crate::proposal::{PlanLeg, Proposal};
use crate::queue_key::QueueKey;
use crate::{
    Account, AccountKind, Capability, PayloadContext, PayloadError, PayloadLeg, PayloadOrder, PayloadParts,
    PayloadSlot, SignError, SigningPayload,
};
use golem_chain::signed::SignedTransaction;

/// Margin on estimated gas limits, in percent: a contract may use a little more gas after its state has changed. The
/// simulation and the limits use the raised value.
const GAS_MARGIN_PERCENT: u64 = 10;

/// Gas limit cap of one transaction ([EIP-7825](https://eips.ethereum.org/EIPS/eip-7825)).
const TRANSACTION_GAS_CAP: u64 = 1 << 24;

/// Account of a key file: unlocked, or known by its address only, which is enough for previews.
pub struct LocalAccount {
    address: Address,
    key: Option<SigningKey>,
}

impl LocalAccount {
    /// Creates an account whose key file is not open. It can prepare payloads but not sign.
    pub fn locked(address: Address) -> Self {
        Self { address, key: None }
    }

    pub(super) fn open(key: SigningKey) -> Self {
        Self { address: key.address(), key: Some(key) }
    }

    /// Key that authenticates rows of `account`, for which this key acts; `None` while the account is locked.
    pub fn queue_key_of(&self, ledger: &str, account: Address) -> Option<QueueKey> {
        self.key.as_ref().map(|key| key.queue_key(ledger, account))
    }

    /// Public key, as an uncompressed point without its prefix; `None` while the account is locked.
    pub fn public_key(&self) -> Option<B512> {
        self.key.as_ref().map(SigningKey::public_key)
    }

    /// Signs the content of a capability.
    pub(super) fn sign_parts(&self, to_sign: &ToSign) -> Result<SignedTransaction, SignError> {
        let key = self.key.as_ref().ok_or_else(|| SignError::Locked("its key file was not opened".into()))?;
        key.sign(to_sign)
    }

    /// Signs the Safe's transaction of a capability.
    pub(super) fn sign_safe_parts(&self, to_sign: &SafeToSign) -> Result<Bytes, SignError> {
        let key = self.key.as_ref().ok_or_else(|| SignError::Locked("its key file was not opened".into()))?;
        key.sign_safe(to_sign)
    }

    /// Returns true if the key file is open, so that the account can sign.
    pub fn is_open(&self) -> bool {
        self.key.is_some()
    }
}

impl Account for LocalAccount {
    fn address(&self) -> Address {
        self.address
    }

    fn signer(&self) -> Address {
        self.address()
    }

    fn kind(&self) -> AccountKind {
        AccountKind::LocalKey
    }

    fn queue_key(&self, ledger: &str) -> Option<QueueKey> {
        self.queue_key_of(ledger, self.address)
    }

    fn prepare_payload(&self, proposal: Proposal, context: &PayloadContext) -> Result<SigningPayload, PayloadError> {
        frame_plain(self.address, AccountKind::LocalKey, proposal, context)
    }

    fn sign(&self, capability: Capability) -> BoxFuture<'_, Result<SignedTransaction, SignError>> {
        Box::pin(async move { self.sign_parts(&capability.into_parts()) })
    }

    fn sign_order(&self, capability: Capability<Order>) -> BoxFuture<'_, Result<Bytes, SignError>> {
        Box::pin(async move {
            let key = self.key.as_ref().ok_or_else(|| SignError::Locked("its key file was not opened".into()))?;
            key.sign_order(&capability.into_parts())
        })
    }
}

impl fmt::Debug for LocalAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalAccount").field("address", &self.address).field("open", &self.is_open()).finish()
    }
}

/// Prepares the payload of an account that sends for itself: every transaction as proposed, from its own address.
pub(super) fn frame_plain(
    own: Address,
    kind: AccountKind,
    proposal: Proposal,
    context: &PayloadContext,
) -> Result<SigningPayload, PayloadError> {
    fits(own, &proposal, context)?;
    let legs = proposal
        .legs
        .iter()
        .map(|leg| PayloadLeg {
            purpose: leg.purpose,
            from: own,
            to: leg.to,
            value: leg.value,
            data: leg.data.clone(),
            // A replacement is the waiting transaction's call, to the unit of gas.
            gas_limit: if proposal.replaces.is_some() { leg.gas_limit } else { with_margin(leg.gas_limit) },
            slots: slots(leg, own, 0),
        })
        .collect();
    let order = proposal.order.as_ref().map(|order| PayloadOrder { message: order.message.clone(), signer: own });
    SigningPayload::new(PayloadParts { proposal, kind, signer: own, payer: own, legs, order, fees: context.fees })
}

/// Checks that the proposal is for this account and for the context's chain.
pub(super) fn fits(own: Address, proposal: &Proposal, context: &PayloadContext) -> Result<(), PayloadError> {
    if proposal.account != own {
        return Err(PayloadError::WrongAccount { asked: proposal.account, own });
    }
    if proposal.chain_id != context.chain_id {
        return Err(PayloadError::WrongChain {
            chain_id: proposal.chain_id,
            why: format!("the payload is for chain {}", context.chain_id),
        });
    }
    Ok(())
}

/// Returns the signature slots of a call, moved by `shift` bytes and assigned to `signer`.
pub(super) fn slots(leg: &PlanLeg, signer: Address, shift: usize) -> Vec<PayloadSlot> {
    leg.slots
        .iter()
        .map(|slot| PayloadSlot { offset: slot.offset.saturating_add(shift), message: slot.message.clone(), signer })
        .collect()
}

/// Adds the margin to a gas limit, up to the cap of one transaction. A limit proposed above the cap stays unchanged.
pub(super) fn with_margin(gas: u64) -> u64 {
    let raised =
        gas.saturating_add(gas / 100 * GAS_MARGIN_PERCENT).saturating_add(gas % 100 * GAS_MARGIN_PERCENT / 100);
    raised.min(TRANSACTION_GAS_CAP).max(gas)
}
