//! Detection of actions that only revoke, cancel or refund, by their intent and calldata alone.
//!
//! Such actions pass stops, caps, allowlists and consent, so no answer of an endpoint may make another action count as
//! one. The simulation can only veto the result (`simulate::judge`). All functions are pure.
//!
//! | call | at | condition |
//! |---|---|---|
//! | `approve(spender, 0)` | a known token | |
//! | `approve(permit2, amount)` | a known token | `amount` is exactly the total that open orders in the ledger may still take |
//! | `approve(token, spender, 0, …)` | Permit2 | |
//! | `lockdown(…)` | Permit2 | at least one pair |
//! | `invalidateUnorderedNonces(…)` | Permit2 | a mask that is not zero |
//! | a transfer of 0 wei, without calldata | the account itself | intents [`ProposalIntent::CancelTransaction`] and [`ProposalIntent::SpeedUp`] only |
//! | `refund(orderId)` | the settler of the address book | intent [`ProposalIntent::Refund`] only |

use std::collections::BTreeMap;

use alloy::primitives::{Address, U256};
use alloy::sol_types::SolCall as _;

use super::proposal::{LegPurpose, PlanLeg, Proposal, ProposalIntent};
use super::simulate::JudgeContext;
use bardo_abi::erc20::Erc20;
use bardo_abi::erc7683::OriginSettler;
use bardo_abi::permit2::Permit2;
use golem_chain::token::TokenId;

/// Maximum gas limit of all transactions of such an action together, in gas units. `max_gas_usd` bounds the cost in
/// dollars; this bound also holds if gas has no price.
pub const MAX_GAS: u64 = 1_000_000;

/// Call that removes an allowance, invalidates signatures, or refunds an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RevokingCall {
    /// Sets an allowance to zero, or Permit2's to the amount of open orders.
    Allowance,
    /// Invalidates signatures by their nonces.
    Nonces,
    /// Refunds a bridge order.
    Refund,
    /// Uses a nonce of the account, and nothing else.
    OwnNonce,
}

/// Returns true if the transactions of `proposal` from index `from` only revoke, cancel or refund.
///
/// The whole action must be declared as such. The exception is the clean-up of any other plan, once all transactions
/// before it are signed (`from` above zero).
pub fn only_revokes(proposal: &Proposal, from: usize, around: &JudgeContext) -> bool {
    let Some(legs) = proposal.legs.get(from..).filter(|legs| !legs.is_empty()) else { return false };
    if proposal.order.is_some() || total_gas(legs).is_none_or(|gas| gas > MAX_GAS) {
        return false;
    }
    let is_declared = match proposal.intent {
        ProposalIntent::Revoke
        | ProposalIntent::CancelOrder
        | ProposalIntent::Refund
        | ProposalIntent::SpeedUp
        | ProposalIntent::CancelTransaction => proposal.outflows.is_empty() && proposal.trade.is_none(),
        ProposalIntent::Swap
        | ProposalIntent::Approve
        | ProposalIntent::Transfer
        | ProposalIntent::PlaceOrder
        | ProposalIntent::Bridge
        | ProposalIntent::Identity
        | ProposalIntent::PolicyCage
        | ProposalIntent::Liquidity
        | ProposalIntent::Lending
        | ProposalIntent::Vault
        | ProposalIntent::VaultManagement
        | ProposalIntent::ProtocolFees
        | ProposalIntent::Hook
        | ProposalIntent::Wrap => from > 0 && legs.iter().all(|leg| leg.purpose == LegPurpose::CleanUp),
    };
    // A repetition of signed bytes is whatever they are; any other action is what its intent says.
    let repeats = proposal.intent == ProposalIntent::SpeedUp;
    let matches_intent = |call: RevokingCall| match call {
        RevokingCall::Allowance | RevokingCall::Nonces => {
            !matches!(proposal.intent, ProposalIntent::Refund | ProposalIntent::CancelTransaction)
        }
        RevokingCall::Refund => proposal.intent == ProposalIntent::Refund || repeats,
        RevokingCall::OwnNonce => proposal.intent == ProposalIntent::CancelTransaction || repeats,
    };
    is_declared && legs.iter().all(|leg| classify(leg, proposal.account, around).is_some_and(matches_intent))
}

/// Returns true if every transaction of a revoking action from index `from` only uses its own nonce: a cancellation, or
/// the repetition of one.
pub fn only_uses_nonces(proposal: &Proposal, from: usize, around: &JudgeContext) -> bool {
    is_all(proposal, from, around, RevokingCall::OwnNonce)
}

/// Returns true if every transaction of a revoking action from index `from` refunds an order, or repeats such a refund.
pub fn only_refunds(proposal: &Proposal, from: usize, around: &JudgeContext) -> bool {
    is_all(proposal, from, around, RevokingCall::Refund)
}

fn is_all(proposal: &Proposal, from: usize, around: &JudgeContext, kind: RevokingCall) -> bool {
    let legs = proposal.legs.get(from..).unwrap_or_default();
    let of_kind = |leg: &PlanLeg| classify(leg, proposal.account, around) == Some(kind);
    !legs.is_empty() && legs.iter().all(of_kind) && only_revokes(proposal, from, around)
}

/// Returns true if a stored call with this sender, recipient, value and calldata only revokes. `promised` is the amount that
/// open orders may still take, in raw units of each token.
///
/// The call belongs to an action that counted as a revocation when it was signed. Its token was known then, so any
/// recipient counts as a known token here. The amounts of orders are checked again, so that no allowance for an order
/// that has ended is sent during a stop.
pub fn is_revoking_call(
    from: Address,
    to: Address,
    value: U256,
    data: &[u8],
    (permit2, settler): (Option<Address>, Option<Address>),
    promised: BTreeMap<Address, U256>,
) -> bool {
    let around = JudgeContext { permit2, settler, promised, known_tokens: [to].into(), ..JudgeContext::default() };
    let leg = PlanLeg {
        purpose: LegPurpose::CleanUp,
        to,
        value,
        data: data.to_vec().into(),
        gas_limit: 0,
        slots: Vec::new(),
    };
    classify(&leg, from, &around).is_some()
}

/// Sum of the gas limits; `None` if it overflows.
fn total_gas(legs: &[PlanLeg]) -> Option<u64> {
    legs.iter().try_fold(0u64, |sum, leg| sum.checked_add(leg.gas_limit))
}

/// Classifies a call by its recipient and its exact calldata. `None` for any other call, for one with native value, and
/// for one that contains a signature.
fn classify(leg: &PlanLeg, from: Address, around: &JudgeContext) -> Option<RevokingCall> {
    if !leg.value.is_zero() || !leg.slots.is_empty() {
        return None;
    }
    let data = leg.data.as_ref();
    if leg.to == from && data.is_empty() {
        return Some(RevokingCall::OwnNonce);
    }
    // Bytes after the last argument are rejected, although the contract would ignore them.
    let is_exact = |encoded: Vec<u8>| encoded == data;
    if around.permit2 == Some(leg.to) {
        if let Ok(call) = Permit2::approveCall::abi_decode(data) {
            return (call.amount.is_zero() && is_exact(call.abi_encode())).then_some(RevokingCall::Allowance);
        }
        if let Ok(call) = Permit2::lockdownCall::abi_decode(data) {
            return (!call.approvals.is_empty() && is_exact(call.abi_encode())).then_some(RevokingCall::Allowance);
        }
        let call = Permit2::invalidateUnorderedNoncesCall::abi_decode(data).ok()?;
        return (!call.mask.is_zero() && is_exact(call.abi_encode())).then_some(RevokingCall::Nonces);
    }
    if around.settler == Some(leg.to) {
        let call = OriginSettler::refundCall::abi_decode(data).ok()?;
        return is_exact(call.abi_encode()).then_some(RevokingCall::Refund);
    }
    if !around.known_tokens.contains(&leg.to) {
        return None;
    }
    let call = Erc20::approveCall::abi_decode(data).ok()?;
    let promised = around.promised_to(TokenId::Erc20(leg.to), call.spender);
    // Any other amount is an approval, even a lower one: it could raise the current allowance.
    let is_permitted = call.value.is_zero() || call.value == promised;
    (is_permitted && is_exact(call.abi_encode())).then_some(RevokingCall::Allowance)
}
