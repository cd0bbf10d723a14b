//! Signing payload: the exact bytes that a signature would cover, with everything they were made from. Checks,
//! simulation, permit, approval and signature read only this.

use std::sync::Arc;

use alloy::primitives::{Address, B256, Bytes, U256};

use super::account::AccountKind;
use super::binding::BindingHash;
use super::content;
use super::custody::{InnerCall, SafeRefusal, SessionRefusal};
use super::permit::PermitBounds;
use super::proposal::{LegPurpose, Proposal, SIGNATURE_BYTES};
use super::typed::TypedMessage;
use bardo_base::error::ErrorCode;

/// Proposal in the form that one account would sign. Immutable and cheap to clone.
#[derive(Debug, Clone, PartialEq)]
pub struct SigningPayload(Arc<Inner>);

#[derive(Debug, PartialEq)]
struct Inner {
    proposal: Proposal,
    kind: AccountKind,
    signer: Address,
    payer: Address,
    legs: Vec<PayloadLeg>,
    order: Option<PayloadOrder>,
    fees: FeeBound,
    safe: Option<SafePlan>,
}

/// Transactions of a Safe that needs several owners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SafePlan {
    /// Number of the first transaction; each further one has the next.
    pub nonce: U256,
    /// Number of owners that must agree.
    pub threshold: U256,
    /// True if the calls carry the owners' signatures; false for a proposal, for which they are collected.
    pub executes: bool,
}

/// Transaction to sign, without nonce and fees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadLeg {
    /// Role of the transaction in the plan.
    pub purpose: LegPurpose,
    /// Account that sends the transaction.
    pub from: Address,
    /// Contract or account that is called.
    pub to: Address,
    /// Value sent along, in wei.
    pub value: U256,
    /// Calldata, with the fork's placeholder in place of each signature.
    pub data: Bytes,
    /// Gas limit, in gas units.
    pub gas_limit: u64,
    /// Places of signatures in `data`, in ascending order.
    pub slots: Vec<PayloadSlot>,
}

impl PayloadLeg {
    /// Returns the call that the transaction makes for `account`, without the wrapper of a Safe or of a session key.
    pub fn call(&self, account: Address) -> InnerCall {
        InnerCall::of_account(account, self.to, self.value, &self.data)
    }
}

/// Place in calldata that a signature will fill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadSlot {
    /// Offset in the calldata, in bytes.
    pub offset: usize,
    /// Typed message to sign.
    pub message: TypedMessage,
    /// Address whose key signs the message.
    pub signer: Address,
}

/// Order message to sign, which others settle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadOrder {
    /// Typed message to sign.
    pub message: TypedMessage,
    /// Address whose key signs the message.
    pub signer: Address,
}

/// Maximum gas fees, in wei per unit of gas ([EIP-1559](https://eips.ethereum.org/EIPS/eip-1559)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FeeBound {
    /// Maximum total fee, base fee included.
    pub max_fee_per_gas: u128,
    /// Maximum priority fee for the block's producer.
    pub max_priority_fee_per_gas: u128,
}

/// Parts of a signing payload; see [`SigningPayload::new`].
#[derive(Debug, Clone, PartialEq)]
pub struct PayloadParts {
    /// Proposal that the payload was built from, unchanged.
    pub proposal: Proposal,
    /// Kind of account that signs.
    pub kind: AccountKind,
    /// Address whose key signs the transactions.
    pub signer: Address,
    /// Address that pays for gas.
    pub payer: Address,
    /// Transactions, one per proposed call, in the same order.
    pub legs: Vec<PayloadLeg>,
    /// Proposed order, if there is one.
    pub order: Option<PayloadOrder>,
    /// Maximum fees, in wei per unit of gas.
    pub fees: FeeBound,
}

/// Reason why a proposal cannot be turned into a signing payload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// The proposal is for another account.
    #[error("the proposal is for account {asked}, this account is {own}")]
    WrongAccount {
        /// Account named in the proposal.
        asked: Address,
        /// This account's address.
        own: Address,
    },
    /// The proposal is for another chain, or for one that this account must not sign for.
    #[error("this account does not sign for chain {chain_id}: {why}")]
    WrongChain {
        /// EIP-155 id of the chain.
        chain_id: u64,
        /// Reason for the refusal.
        why: String,
    },
    /// The plan has nothing to sign, too many transactions, or a different number than the proposal.
    #[error("a plan has 1 to {MAX_LEGS} transactions (none only where an order is signed), this one has {0}")]
    Legs(usize),
    /// A transaction does not match the proposed call.
    #[error("prepared transaction {leg} does not match the proposal: {why}")]
    Leg {
        /// Index of the transaction, from 0.
        leg: usize,
        /// Description of the mismatch.
        why: String,
    },
    /// A signature slot is wrong.
    #[error("signature slot {slot} of transaction {leg}: {why}")]
    Slot {
        /// Index of the transaction, from 0.
        leg: usize,
        /// Index of the slot, from 0.
        slot: usize,
        /// Description of the problem.
        why: &'static str,
    },
    /// The order differs from the proposed one.
    #[error("the prepared order differs from the proposed one")]
    Order,
    /// The total fee is zero, or the priority fee is above it.
    #[error("the fee bounds are invalid")]
    Fees,
    /// The account does not support the proposed action.
    #[error("this account cannot do that: {0}")]
    Unsupported(String),
    /// The session key may not do this, or no longer.
    #[error(transparent)]
    Session(#[from] SessionRefusal),
    /// The Safe may not do this, or is not as it was bound.
    #[error(transparent)]
    Safe(#[from] SafeRefusal),
}

impl PayloadError {
    /// Returns the error code of a refused payload.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Session(refusal) => refusal.code(),
            Self::Safe(refusal) => refusal.code(),
            Self::WrongAccount { .. }
            | Self::WrongChain { .. }
            | Self::Legs(_)
            | Self::Leg { .. }
            | Self::Slot { .. }
            | Self::Order
            | Self::Fees
            | Self::Unsupported(_) => ErrorCode::ValidationFailed,
        }
    }
}

/// Maximum number of transactions in a plan.
pub const MAX_LEGS: usize = 8;

impl SigningPayload {
    /// Creates a signing payload from parts that match the proposal. It does not check whether the bytes do what the
    /// proposal says; the simulation does.
    ///
    /// # Errors
    /// [`PayloadError`] if the parts do not match the proposal or each other.
    pub fn new(frame: PayloadParts) -> Result<Self, PayloadError> {
        let PayloadParts { proposal, kind, signer, payer, legs, order, fees } = frame;
        let too_few = legs.is_empty() && order.is_none();
        if too_few || legs.len() > MAX_LEGS || legs.len() != proposal.legs.len() {
            return Err(PayloadError::Legs(legs.len()));
        }
        if proposal.order.as_ref().map(|proposed| &proposed.message) != order.as_ref().map(|order| &order.message) {
            return Err(PayloadError::Order);
        }
        if fees.max_fee_per_gas == 0 || fees.max_priority_fee_per_gas > fees.max_fee_per_gas {
            return Err(PayloadError::Fees);
        }
        for (index, (leg, proposed)) in legs.iter().zip(&proposal.legs).enumerate() {
            let wrong = |why: &str| PayloadError::Leg { leg: index, why: why.to_owned() };
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
                let wrong = |why| PayloadError::Slot { leg: index, slot, why };
                if place.message != proposed.message {
                    return Err(wrong("the message to sign differs from the proposed one"));
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
        Ok(Self(Arc::new(Inner { proposal, kind, signer, payer, legs, order, fees, safe: None })))
    }

    /// Creates the signing payload of a Safe that needs several owners.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of_safe(frame: PayloadParts, plan: SafePlan) -> Result<Self, PayloadError> {
        let Self(inner) = Self::new(frame)?;
        let Inner { proposal, kind, signer, payer, legs, order, fees, safe: _ } =
            Arc::try_unwrap(inner).map_err(|_| PayloadError::Order)?;
        Ok(Self(Arc::new(Inner { proposal, kind, signer, payer, legs, order, fees, safe: Some(plan) })))
    }

    /// Returns the plan of a Safe that needs several owners; `None` for any other account.
    pub fn safe(&self) -> Option<&SafePlan> {
        self.0.safe.as_ref()
    }

    /// Returns true if the payload is only proposed to the other owners of a Safe: its signatures are those of the Safe's
    /// transactions, and nothing is sent.
    pub fn proposes_to_safe(&self) -> bool {
        self.0.safe.is_some_and(|plan| !plan.executes)
    }

    /// Returns the proposal that the payload was built from.
    pub fn proposal(&self) -> &Proposal {
        &self.0.proposal
    }

    /// Returns the kind of account that signs.
    pub fn kind(&self) -> AccountKind {
        self.0.kind
    }

    /// Returns the account that owns the money.
    pub fn account(&self) -> Address {
        self.0.proposal.account
    }

    /// Returns the address whose key signs the transactions.
    pub fn signer(&self) -> Address {
        self.0.signer
    }

    /// Returns the address that pays for gas.
    pub fn payer(&self) -> Address {
        self.0.payer
    }

    /// Returns the addresses that could lose something by these signatures: account, signer and payer, without
    /// duplicates.
    pub fn exposed(&self) -> Vec<Address> {
        let mut all = vec![self.account()];
        for one in [self.signer(), self.payer()] {
            if !all.contains(&one) {
                all.push(one);
            }
        }
        all
    }

    /// Returns the transactions, in order.
    pub fn legs(&self) -> &[PayloadLeg] {
        &self.0.legs
    }

    /// Returns the order message to sign, if there is one.
    pub fn order(&self) -> Option<&PayloadOrder> {
        self.0.order.as_ref()
    }

    /// Returns the maximum fees, in wei per unit of gas.
    pub fn fees(&self) -> FeeBound {
        self.0.fees
    }

    /// Returns the worst total gas cost in wei: every transaction at its gas limit and the maximum fee.
    pub fn worst_gas(&self) -> U256 {
        let fee = U256::from(self.0.fees.max_fee_per_gas);
        self.0.legs.iter().fold(U256::ZERO, |sum, leg| {
            // Cannot overflow: at most 8 · 2^64 · 2^128.
            sum.saturating_add(U256::from(leg.gas_limit).saturating_mul(fee))
        })
    }

    /// Returns the hash that a permit carries. It changes with anything that would be signed or that the checks relied
    /// on.
    pub fn binding_hash(&self, policy_hash: B256, bounds: &PermitBounds) -> B256 {
        content::bind(&content::signed(self, bounds), self.binding_rest(policy_hash, bounds))
    }

    /// Returns the hash of everything that a permit binds in addition to its
    /// [`SignedContent`](bardo_session::content::SignedContent): proposal, policy, fees.
    pub fn binding_rest(&self, policy_hash: B256, bounds: &PermitBounds) -> B256 {
        let mut binding = BindingHash::new();
        binding.framed(self);
        binding.hash_of(policy_hash);
        binding.bounds(bounds);
        binding.finish()
    }
}
