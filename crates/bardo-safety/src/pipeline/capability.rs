//! Leave to sign one thing. It can be made in the pipeline only, cannot be copied, and is used up
//! by reading what is to be signed.

use std::fmt;
use std::marker::PhantomData;

use alloy::primitives::Address;

use crate::framed::{FeeBound, Framed, FramedLeg};
use crate::typed::TypedMessage;

/// A kind of thing that can be signed. Closed: the kinds are those of this file.
pub trait Action: sealed::Sealed {
    /// All that is needed to sign it.
    type ToSign: fmt::Debug;
}

mod sealed {
    pub trait Sealed {}
}

/// One transaction of a plan, with the typed messages inside its calldata.
#[derive(Debug)]
pub enum Transaction {}

impl sealed::Sealed for Transaction {}
impl Action for Transaction {
    type ToSign = ToSign;
}

/// One message for others to settle: an order.
#[derive(Debug)]
pub enum Order {}

impl sealed::Sealed for Order {}
impl Action for Order {
    type ToSign = OrderToSign;
}

/// Leave to sign one `A`, exactly as it was checked.
#[must_use = "a capability that is dropped has to be given back: its nonce is taken"]
pub struct Capability<A: Action = Transaction> {
    to_sign: A::ToSign,
    action: PhantomData<A>,
}

/// What is to be signed.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ToSign {
    /// What was checked.
    pub framed: Framed,
    /// Which of its legs, from 0.
    pub leg: usize,
    /// That leg: sender, target, value, calldata with the places of signatures, gas limit.
    pub transaction: FramedLeg,
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// The transaction's place among its sender's.
    pub nonce: u64,
    /// The fees, within the frame's bound.
    pub fees: FeeBound,
}

/// What is to be signed of an order.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct OrderToSign {
    /// What was checked.
    pub framed: Framed,
    /// The order.
    pub message: TypedMessage,
    /// Whose key signs it.
    pub signer: Address,
    /// EIP-155 id of the chain.
    pub chain_id: u64,
}

impl<A: Action> Capability<A> {
    /// What is to be signed. Uses the capability up.
    pub fn into_parts(self) -> A::ToSign {
        self.to_sign
    }
}

/// Without calldata: it is long, and stands in the frame.
impl fmt::Debug for Capability<Order> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capability")
            .field("kind", &self.to_sign.message.kind())
            .field("chain_id", &self.to_sign.chain_id)
            .finish_non_exhaustive()
    }
}

/// Without calldata: it is long, and stands in the frame.
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
    /// Leave to sign leg number `leg` of `framed`. `None` if there is no such leg, or the fees break
    /// the frame's bound.
    pub(super) fn new(framed: Framed, leg: usize, nonce: u64, fees: FeeBound) -> Option<Self> {
        let bound = framed.fees();
        let within = fees.max_fee_per_gas <= bound.max_fee_per_gas
            && fees.max_priority_fee_per_gas <= bound.max_priority_fee_per_gas
            && fees.max_priority_fee_per_gas <= fees.max_fee_per_gas;
        let transaction = framed.legs().get(leg).filter(|_| within)?.clone();
        let chain_id = framed.proposal().chain_id;
        Some(Self { to_sign: ToSign { framed, leg, transaction, chain_id, nonce, fees }, action: PhantomData })
    }
}

impl Capability<Order> {
    /// Leave to sign the order of `framed`. `None` if it has none.
    pub(super) fn of_order(framed: Framed) -> Option<Self> {
        let order = framed.order()?.clone();
        let chain_id = framed.proposal().chain_id;
        let to_sign = OrderToSign { framed, message: order.message, signer: order.signer, chain_id };
        Some(Self { to_sign, action: PhantomData })
    }
}
