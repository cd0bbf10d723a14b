//! Deposits of a proposal with Across's SpokePool: their rules, and the event that proves them.
//!
//! Everything follows from the calldata: what leaves, what must arrive, where, for whom and until when. The declared arrival is
//! compared with it, and the pipeline values that arrival by the destination's own prices, so that no quote decides what a
//! deposit may cost. A relayer is found, or the pool pays the deposit back: neither is known before signing.

use alloy::primitives::{Address, Log, U256};
use alloy::sol_types::{SolCall as _, SolEvent as _};

use crate::proposal::{LegPurpose, PlanLeg, Proposal, ProposalIntent};
use crate::simulate::{DeclarationFault, when};
use bardo_abi::erc20::Erc20;
use bardo_base::model::RuleName;
use golem_chain::network::{AddressBook, KnownContract};
use golem_chain::token::TokenId;
use golem_protocols::across::call::{DepositCallError, OwnDeposit};
use golem_protocols::across::event::DepositEvent;
use golem_protocols::across::relay_of;

/// Shortest time for a fill that a deposit may leave, in seconds: less only ties the money up until its refund.
pub const SHORTEST_FILL: u64 = 30;

/// Longest time for a fill that a deposit may leave, in seconds: what the public pools permit.
pub const LONGEST_FILL: u64 = 21_600;

/// Reason why a call to a SpokePool is not allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DepositRuleError {
    /// The pool is called by another kind of action.
    #[error("a bridge's pool can only be called by a bridge deposit")]
    Beside,
    /// The plan does more than one deposit with its allowance.
    #[error(
        "a bridge deposit sends no value, signs no message, and makes one call of the pool beside the allowance for it"
    )]
    DoesMore,
    /// The flows differ from the calldata.
    #[error("a bridge deposit declares its token as the one outflow and nothing else, all of it for the account")]
    Flows,
    /// The declared arrival differs from the calldata.
    #[error("the declared arrival is another than the deposit asks for")]
    Arrival,
    /// The deposit stays on its chain.
    #[error("it stays on chain {0}")]
    SameChain(u64),
    /// An allowance other than for the pool would be left.
    #[error("a bridge deposit leaves no allowance")]
    Allowance,
    /// The calldata is not the closed form.
    #[error(transparent)]
    Call(#[from] DepositCallError),
}

/// Deposit that a proposal consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DepositPlan {
    /// Address of the pool.
    pub pool: Address,
    /// Terms of the deposit, decoded from the calldata.
    pub call: OwnDeposit,
}

/// Returns true for any call of the address book's pool: only this module may judge it.
pub fn concerns(leg: &PlanLeg, book: &AddressBook) -> bool {
    book.contract(KnownContract::AcrossSpokePool) == Some(leg.to)
}

/// Decodes a call of a proposal to the pool of `book`.
///
/// # Errors
/// [`DepositRuleError`] if the call must not be signed.
pub fn decode(leg: &PlanLeg, proposal: &Proposal, book: &AddressBook) -> Result<DepositPlan, DepositRuleError> {
    if proposal.intent != ProposalIntent::Bridge || !concerns(leg, book) {
        return Err(DepositRuleError::Beside);
    }
    let call = OwnDeposit::decode(&leg.data, proposal.account)?;
    let mains = proposal.legs.iter().filter(|leg| leg.purpose == LegPurpose::Main).count();
    let does_more = mains != 1
        || leg.purpose != LegPurpose::Main
        || proposal.legs.iter().any(|leg| !leg.value.is_zero() || !leg.slots.is_empty())
        || proposal.trade.is_some()
        || proposal.order.is_some()
        || proposal.replaces.is_some()
        || !proposal.files.is_empty();
    if does_more {
        return Err(DepositRuleError::DoesMore);
    }
    let token = TokenId::Erc20(call.input_token);
    let exact =
        matches!(proposal.outflows.as_slice(), [out] if (out.token.id, out.amount) == (token, call.input_amount));
    if !exact || !proposal.inflows.is_empty() || proposal.recipients.iter().any(|one| *one != proposal.account) {
        return Err(DepositRuleError::Flows);
    }
    if call.destination_chain_id == proposal.chain_id {
        return Err(DepositRuleError::SameChain(proposal.chain_id));
    }
    let arrives = proposal.arrival.as_ref().is_some_and(|arrival| {
        let asked = (call.destination_chain_id, TokenId::Erc20(call.output_token), call.output_amount);
        (arrival.chain_id, arrival.token.id, arrival.at_least) == asked && arrival.expected == arrival.at_least
    });
    if !arrives {
        return Err(DepositRuleError::Arrival);
    }
    // Only the pool may be allowed to take the token, no more than the deposit, and only while the plan runs.
    let allowed = proposal
        .allowances
        .iter()
        .all(|bound| bound.token.id == token && bound.spender == leg.to && bound.at_most.is_zero());
    let approvals = proposal.legs.iter().filter(|one| one.purpose != LegPurpose::Main).all(|one| {
        let approval = Erc20::approveCall::abi_decode(&one.data).ok();
        let exact = approval.is_some_and(|it| it.spender == leg.to && it.value <= call.input_amount);
        one.to == call.input_token && exact
    });
    if allowed && approvals { Ok(DepositPlan { pool: leg.to, call }) } else { Err(DepositRuleError::Allowance) }
}

/// Returns the deposit that a proposal consists of; `None` for any other action, and for a call that must not be signed.
pub fn plan(proposal: &Proposal, book: &AddressBook) -> Option<DepositPlan> {
    let main = proposal.legs.iter().find(|leg| leg.purpose == LegPurpose::Main)?;
    decode(main, proposal, book).ok()
}

/// Returns the pool that keeps what a deposit gives, by the calldata alone: that it is the address book's, [`decode`] says for the
/// same call. `None` for any other action.
pub fn keeper(proposal: &Proposal) -> Option<Address> {
    let main = proposal.legs.iter().find(|leg| leg.purpose == LegPurpose::Main)?;
    let deposits = proposal.intent == ProposalIntent::Bridge
        && proposal.arrival.is_some()
        && OwnDeposit::decode(&main.data, proposal.account).is_ok();
    deposits.then_some(main.to)
}

/// Returns the faults of a proposal that declares an arrival, at the time of the next block in seconds since the Unix epoch.
pub fn faults(proposal: &Proposal, book: &AddressBook, now: u64) -> Vec<DeclarationFault> {
    let Some(plan) = plan(proposal, book) else { return Vec::new() };
    let mut faults = Vec::new();
    let deadline = u64::from(plan.call.fill_deadline);
    let [earliest, latest] = [SHORTEST_FILL, LONGEST_FILL].map(|seconds| now.saturating_add(seconds));
    if deadline < earliest || deadline > latest {
        faults.push(DeclarationFault::new(
            RuleName::Calldata,
            format!("a deposit that can be filled for {SHORTEST_FILL} to {LONGEST_FILL} s"),
            format!("until {}", when(deadline)),
        ));
    }
    faults
}

/// Returns true if a proposal declares an arrival that no deposit of it brings. Such a claim would make any payment look like
/// an exchange.
pub fn claims_arrival(proposal: &Proposal, book: &AddressBook) -> bool {
    proposal.arrival.is_some() && plan(proposal, book).is_none()
}

/// Returns the event that the receipts of a deposit should contain and do not; `None` if it is proven. The pool's own event counts
/// only together with the token's transfer to the pool.
pub fn unproven(proposal: &Proposal, book: &AddressBook, logs: &[&Log]) -> Option<&'static str> {
    let plan = plan(proposal, book)?;
    let account = proposal.account;
    let told = logs.iter().filter(|log| log.address == plan.pool).any(|log| {
        let Some(event) = DepositEvent::decode(log, proposal.chain_id) else { return false };
        let own = relay_of(&plan.call, account, proposal.chain_id, event.relay.depositId);
        event.relay == own
            && event.destination_chain_id == U256::from(plan.call.destination_chain_id)
            && event.quote_timestamp == plan.call.quote_timestamp
    });
    let of_token = logs.iter().filter(|log| log.address == plan.call.input_token);
    let mut transfers = of_token.filter_map(|log| Erc20::Transfer::decode_log(log).ok());
    let paid = transfers.any(|one| (one.from, one.to, one.value) == (account, plan.pool, plan.call.input_amount));
    (!(told && paid)).then_some("FundsDeposited")
}

#[cfg(test)]
mod tests;
