//! The exact bytes that a signature would cover, with everything they were made from. Checks,
//! simulation, permit, approval and signature read this and nothing else.

use std::sync::Arc;

use alloy::primitives::{Address, B256, Bytes, U256};

use super::account::AccountKind;
use super::binding::Binding;
use super::content;
use super::permit::Bounds;
use super::proposal::{Proposal, Purpose, SIGNATURE_BYTES};
use super::typed::TypedMessage;

/// A proposal as one account would sign it. Cannot be changed once made; cheap to clone.
#[derive(Debug, Clone, PartialEq)]
pub struct Framed(Arc<Inner>);

#[derive(Debug, PartialEq)]
struct Inner {
    proposal: Proposal,
    kind: AccountKind,
    signer: Address,
    payer: Address,
    legs: Vec<FramedLeg>,
    order: Option<FramedOrder>,
    fees: FeeBound,
}

/// One transaction to be signed, without nonce and fees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FramedLeg {
    /// Why it is in the plan.
    pub purpose: Purpose,
    /// The account that sends it.
    pub from: Address,
    /// The contract or account called.
    pub to: Address,
    /// Wei sent along.
    pub value: U256,
    /// Calldata, with the fork's placeholder where a signature belongs.
    pub data: Bytes,
    /// The most gas it may use, in gas units.
    pub gas_limit: u64,
    /// Where signatures belong in `data`, in ascending order.
    pub slots: Vec<FramedSlot>,
}

/// A place in calldata that a signature will fill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FramedSlot {
    /// Where it begins, in bytes.
    pub offset: usize,
    /// What is signed.
    pub message: TypedMessage,
    /// Whose key signs it.
    pub signer: Address,
}

/// A message to be signed for others to settle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FramedOrder {
    /// What is signed.
    pub message: TypedMessage,
    /// Whose key signs it.
    pub signer: Address,
}

/// The most that gas may cost, in wei per unit of gas ([EIP-1559](https://eips.ethereum.org/EIPS/eip-1559)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FeeBound {
    /// All of it, base fee included.
    pub max_fee_per_gas: u128,
    /// The part for the block's producer.
    pub max_priority_fee_per_gas: u128,
}

/// What a frame is made of; see [`Framed::new`].
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    /// What was proposed, unchanged.
    pub proposal: Proposal,
    /// How the account signs.
    pub kind: AccountKind,
    /// Whose key signs the transactions.
    pub signer: Address,
    /// Who pays for gas.
    pub payer: Address,
    /// The transactions, one for each proposed leg, in the same order.
    pub legs: Vec<FramedLeg>,
    /// The proposed order, where there is one.
    pub order: Option<FramedOrder>,
    /// The most that gas may cost.
    pub fees: FeeBound,
}

/// Why a proposal cannot be framed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// It is for another account.
    #[error("the proposal is for account {asked}, this account is {own}")]
    WrongAccount {
        /// Named in the proposal.
        asked: Address,
        /// This one.
        own: Address,
    },
    /// It is for another chain, or for one this account may not sign for.
    #[error("this account does not sign for chain {chain_id}: {why}")]
    WrongChain {
        /// The chain's id.
        chain_id: u64,
        /// Why not.
        why: String,
    },
    /// It has nothing to sign, or more than can be looked through.
    #[error("a plan has 1 to {MAX_LEGS} transactions (none only where an order is signed), this one has {0}")]
    Legs(usize),
    /// A leg does not stand for the leg that was proposed.
    #[error("transaction {leg} of the frame does not fit the proposal: {why}")]
    Leg {
        /// Which, from 0.
        leg: usize,
        /// Why.
        why: String,
    },
    /// A signature's place is wrong.
    #[error("signature slot {slot} of transaction {leg}: {why}")]
    Slot {
        /// Which leg, from 0.
        leg: usize,
        /// Which slot, from 0.
        slot: usize,
        /// Why.
        why: &'static str,
    },
    /// The order is not the one proposed.
    #[error("the order of the frame is not the one that was proposed")]
    Order,
    /// The priority fee is above the whole fee, or gas could cost more than can be counted.
    #[error("the fee bounds make no sense")]
    Fees,
    /// The account cannot do what is proposed.
    #[error("this account cannot do that: {0}")]
    Unsupported(String),
}

/// The most transactions of one plan.
pub const MAX_LEGS: usize = 8;

impl Framed {
    /// A frame whose parts fit each other. Whether its bytes do what the proposal says is not asked
    /// here: the simulation tells.
    ///
    /// # Errors
    /// [`FrameError`].
    pub fn new(frame: Frame) -> Result<Self, FrameError> {
        let Frame { proposal, kind, signer, payer, legs, order, fees } = frame;
        let too_few = legs.is_empty() && order.is_none();
        if too_few || legs.len() > MAX_LEGS || legs.len() != proposal.legs.len() {
            return Err(FrameError::Legs(legs.len()));
        }
        if proposal.order.as_ref().map(|proposed| &proposed.message) != order.as_ref().map(|order| &order.message) {
            return Err(FrameError::Order);
        }
        if fees.max_fee_per_gas == 0 || fees.max_priority_fee_per_gas > fees.max_fee_per_gas {
            return Err(FrameError::Fees);
        }
        for (index, (leg, proposed)) in legs.iter().zip(&proposal.legs).enumerate() {
            let wrong = |why: &str| FrameError::Leg { leg: index, why: why.to_owned() };
            if leg.from != signer {
                return Err(wrong("its sender is not the signer"));
            }
            if leg.purpose != proposed.purpose || leg.slots.len() != proposed.slots.len() {
                return Err(wrong("its purpose or its signatures differ"));
            }
            if leg.gas_limit == 0 || leg.gas_limit < proposed.gas_limit {
                return Err(wrong("its gas limit is below the proposed one"));
            }
            let mut free_from = 0;
            for (slot, (place, proposed)) in leg.slots.iter().zip(&proposed.slots).enumerate() {
                let wrong = |why| FrameError::Slot { leg: index, slot, why };
                if place.message != proposed.message {
                    return Err(wrong("what is signed differs from what was proposed"));
                }
                if place.offset < free_from {
                    return Err(wrong("it overlaps the one before it"));
                }
                free_from = place.offset.saturating_add(SIGNATURE_BYTES);
                if free_from > leg.data.len() {
                    return Err(wrong("it lies outside the calldata"));
                }
            }
        }
        Ok(Self(Arc::new(Inner { proposal, kind, signer, payer, legs, order, fees })))
    }

    /// What was proposed.
    pub fn proposal(&self) -> &Proposal {
        &self.0.proposal
    }

    /// How the account signs.
    pub fn kind(&self) -> AccountKind {
        self.0.kind
    }

    /// Whose money it is.
    pub fn account(&self) -> Address {
        self.0.proposal.account
    }

    /// Whose key signs the transactions.
    pub fn signer(&self) -> Address {
        self.0.signer
    }

    /// Who pays for gas.
    pub fn payer(&self) -> Address {
        self.0.payer
    }

    /// Everybody who could lose something by these signatures: account, signer and payer, each once.
    pub fn exposed(&self) -> Vec<Address> {
        let mut all = vec![self.account()];
        for one in [self.signer(), self.payer()] {
            if !all.contains(&one) {
                all.push(one);
            }
        }
        all
    }

    /// The transactions, in order.
    pub fn legs(&self) -> &[FramedLeg] {
        &self.0.legs
    }

    /// The message to be signed for others to settle, where there is one.
    pub fn order(&self) -> Option<&FramedOrder> {
        self.0.order.as_ref()
    }

    /// The most that gas may cost per unit.
    pub fn fees(&self) -> FeeBound {
        self.0.fees
    }

    /// The most that gas may cost in all, in wei: every leg to its limit, at the highest fee.
    pub fn worst_gas(&self) -> U256 {
        let fee = U256::from(self.0.fees.max_fee_per_gas);
        self.0.legs.iter().fold(U256::ZERO, |sum, leg| {
            // At most 8 · 2^64 · 2^128.
            sum.saturating_add(U256::from(leg.gas_limit).saturating_mul(fee))
        })
    }

    /// The hash that a permit carries: it differs as soon as anything that would be signed, or that
    /// the checks relied on, differs.
    pub fn binding_hash(&self, policy_hash: B256, bounds: &Bounds) -> B256 {
        content::bind(&content::signed(self, bounds), self.binding_rest(policy_hash, bounds))
    }

    /// Hash of everything that a permit binds beside its [`SignedContent`]: proposal, policy, fees.
    pub fn binding_rest(&self, policy_hash: B256, bounds: &Bounds) -> B256 {
        let mut binding = Binding::new();
        binding.framed(self);
        binding.hash_of(policy_hash);
        binding.bounds(bounds);
        binding.finish()
    }
}
