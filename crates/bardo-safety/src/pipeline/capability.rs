//! Permission to sign one transaction or order. Only the pipeline can make one. It cannot be copied, and reading its
//! content consumes it.

use std::fmt;
use std::marker::PhantomData;

use alloy::primitives::Address;

use crate::custody::safe::SafeTx;
use crate::signing_payload::{FeeBound, PayloadLeg, SigningPayload};
use crate::typed::TypedMessage;

/// Kind of signable action. Sealed: this file defines all of them.
pub trait SignableAction: sealed::Sealed {
    /// Everything that an account needs to sign the action.
    type ToSign: fmt::Debug;
}

mod sealed {
    pub trait Sealed {}
}

/// One transaction of a plan, including the typed messages inside its calldata.
#[derive(Debug)]
pub enum Transaction {}

impl sealed::Sealed for Transaction {}
impl SignableAction for Transaction {
    type ToSign = ToSign;
}

/// One order message, which a filler or settler executes on chain.
#[derive(Debug)]
pub enum Order {}

impl sealed::Sealed for Order {}
impl SignableAction for Order {
    type ToSign = OrderToSign;
}

/// One transaction of a Safe, for the Safe's other owners.
#[derive(Debug)]
pub enum SafeTransaction {}

impl sealed::Sealed for SafeTransaction {}
impl SignableAction for SafeTransaction {
    type ToSign = SafeToSign;
}

/// Permission to sign one `A`, exactly as it was checked.
#[must_use = "an unused capability must be released: its nonce is reserved"]
pub struct Capability<A: SignableAction = Transaction> {
    to_sign: A::ToSign,
    action: PhantomData<A>,
}

/// Transaction to sign, with its nonce and fees.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ToSign {
    /// Signing payload that was checked.
    pub payload: SigningPayload,
    /// Index of the transaction in the payload, from 0.
    pub leg: usize,
    /// Sender, target, value, calldata with signature slots, and gas limit.
    pub transaction: PayloadLeg,
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// Nonce of the transaction.
    pub nonce: u64,
    /// Fees in wei per gas unit, within the payload's bound.
    pub fees: FeeBound,
}

/// Order to sign.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct OrderToSign {
    /// Signing payload that was checked.
    pub payload: SigningPayload,
    /// Typed order message.
    pub message: TypedMessage,
    /// Address whose key signs the order.
    pub signer: Address,
    /// EIP-155 id of the chain.
    pub chain_id: u64,
}

/// Transaction of a Safe to sign.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SafeToSign {
    /// Signing payload that was checked.
    pub payload: SigningPayload,
    /// Index of the transaction in the payload, from 0.
    pub leg: usize,
    /// The transaction, with its number.
    pub transaction: SafeTx,
}

impl<A: SignableAction> Capability<A> {
    /// Consumes the capability and returns its content.
    pub fn into_parts(self) -> A::ToSign {
        self.to_sign
    }
}

/// Omits the order's fields, which are in the payload.
impl fmt::Debug for Capability<Order> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capability")
            .field("kind", &self.to_sign.message.kind())
            .field("chain_id", &self.to_sign.chain_id)
            .finish_non_exhaustive()
    }
}

/// Omits the calldata, which is in the payload.
impl fmt::Debug for Capability<SafeTransaction> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capability")
            .field("leg", &self.to_sign.leg)
            .field("hash", &self.to_sign.transaction.hash())
            .finish_non_exhaustive()
    }
}

/// Omits the calldata, which is long and already in the payload.
impl fmt::Debug for Capability<Transaction> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capability")
            .field("leg", &self.to_sign.leg)
            .field("chain_id", &self.to_sign.chain_id)
            .field("nonce", &self.to_sign.nonce)
            .finish_non_exhaustive()
    }
}

impl Capability<Transaction> {
    /// Creates the permission to sign transaction number `leg` of `payload`. `None` if that transaction does not exist,
    /// or if the fees exceed the payload's bound.
    pub(super) fn new(payload: SigningPayload, leg: usize, nonce: u64, fees: FeeBound) -> Option<Self> {
        let bound = payload.fees();
        let within = fees.max_fee_per_gas <= bound.max_fee_per_gas
            && fees.max_priority_fee_per_gas <= bound.max_priority_fee_per_gas
            && fees.max_priority_fee_per_gas <= fees.max_fee_per_gas;
        let transaction = payload.legs().get(leg).filter(|_| within)?.clone();
        let chain_id = payload.proposal().chain_id;
        Some(Self { to_sign: ToSign { payload, leg, transaction, chain_id, nonce, fees }, action: PhantomData })
    }
}

impl Capability<Order> {
    /// Creates the permission to sign the order of `payload`. `None` if it has no order.
    pub(super) fn of_order(payload: SigningPayload) -> Option<Self> {
        let order = payload.order()?.clone();
        let chain_id = payload.proposal().chain_id;
        let to_sign = OrderToSign { payload, message: order.message, signer: order.signer, chain_id };
        Some(Self { to_sign, action: PhantomData })
    }
}

impl Capability<SafeTransaction> {
    /// Creates the permission to sign the Safe's transaction number `leg` of `payload`. `None` if the payload proposes
    /// nothing to a Safe's other owners, or has no such transaction.
    pub(super) fn of_safe(payload: SigningPayload, leg: usize) -> Option<Self> {
        let transaction = SafeTx::of_leg(&payload, leg).filter(|_| payload.proposes_to_safe())?;
        Some(Self { to_sign: SafeToSign { payload, leg, transaction }, action: PhantomData })
    }
}
