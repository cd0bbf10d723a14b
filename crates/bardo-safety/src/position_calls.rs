//! Calls of a proposal to the position manager of the address book: their rules, the changes that they declare, what the
//! chain must say of the position, and the events that prove them.
//!
//! The effects of a plan follow from the calldata alone. Its amounts are compared with the position's state on the pinned
//! block: a withdrawal or a deposit whose minimums are below what the policy's slippage allows is not signed. What only
//! deposits need is in `deposit`.

mod deposit;

use alloy::primitives::{Address, Log, U256};
use alloy::sol_types::SolEvent as _;

use crate::proposal::{LegPurpose, PlanLeg, Proposal, ProposalIntent};
use crate::simulate::{DeclarationFault, figure, when};
use bardo_abi::uniswap_v3::NonfungiblePositionManager as Manager;
use bardo_base::model::{ActionClass, RuleName};
use bardo_base::units::BasisPoints;
use golem_chain::fork::NftChange;
use golem_chain::network::{AddressBook, KnownContract};
use golem_chain::token::TokenId;
use golem_protocols::uniswap::positions::PositionState;
use golem_protocols::uniswap::v3::manager::{PositionCallError, PositionPlan, Withdrawal};
use golem_protocols::uniswap::v3::position::sqrt_prices_around;

pub use deposit::{DepositGround, deposit_faults};

/// Maximum time until the deadline of a change of a position, in seconds.
const MAX_DEADLINE: u64 = 3_600;

/// Movement of the price since the tool read it that a withdrawal's minimums may be below the policy's slippage for, in
/// basis points. A withdrawal at the policy's own slippage must not fail because a trade came between.
const DRIFT: u32 = 50;

/// Reason why a call to the position manager is not allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PositionRuleError {
    /// The action is not declared as a change of a position.
    #[error("the position manager can only be called by a liquidity tool")]
    Beside,
    /// The action is declared as a change of a position and calls another contract.
    #[error("a change of a position calls only the position manager of the address book")]
    Elsewhere,
    /// The plan does more than withdraw.
    #[error("a withdrawal sends no value, signs no message, sets no allowance and takes no tokens")]
    MovesMore,
    /// A deposit whose plan does more.
    #[error("a deposit sends no value, signs no message, brings nothing in, and leaves no allowance")]
    DepositMovesMore,
    /// Outflows other than the two tokens with the maximums of the call.
    #[error(
        "a deposit declares both tokens of the position as outflows, each with the maximum of the call, and nothing else"
    )]
    Outflows,
    /// Another call beside a deposit than an allowance for it.
    #[error(
        "a deposit's other calls allow the position manager exactly what the deposit takes at most, and revoke it afterwards"
    )]
    BesideDeposit,
    /// Inflows other than two tokens for the account.
    #[error("a withdrawal declares both tokens of the position as inflows of the account, and nothing else")]
    Inflows,
    /// The calldata is none of the closed forms.
    #[error(transparent)]
    Call(#[from] PositionCallError),
}

/// Returns the position manager of the address book.
pub fn manager(book: &AddressBook) -> Option<Address> {
    book.contract(KnownContract::V3PositionManager)
}

/// Returns true for a call that only this module may judge: to the position manager, or the main call of a change of a
/// position.
pub fn concerns(leg: &PlanLeg, proposal: &Proposal, manager: Option<Address>) -> bool {
    Some(leg.to) == manager || proposal.intent == ProposalIntent::Liquidity && leg.purpose == LegPurpose::Main
}

/// Decodes a call of a proposal to the position manager.
///
/// # Errors
/// [`PositionRuleError`] if the call must not be signed.
pub fn decode(leg: &PlanLeg, proposal: &Proposal, manager: Option<Address>) -> Result<PositionPlan, PositionRuleError> {
    if manager != Some(leg.to) {
        return Err(PositionRuleError::Elsewhere);
    }
    if proposal.intent != ProposalIntent::Liquidity {
        return Err(PositionRuleError::Beside);
    }
    let plan = PositionPlan::decode(&leg.data, proposal.account)?;
    if let Some(deposit) = plan.deposit() {
        deposit::check(&plan, deposit, leg, proposal)?;
        return Ok(plan);
    }
    let moves_more = !leg.value.is_zero()
        || !leg.slots.is_empty()
        || leg.purpose != LegPurpose::Main
        || proposal.legs.len() != 1
        || !proposal.outflows.is_empty()
        || !proposal.allowances.is_empty()
        || proposal.trade.is_some()
        || proposal.order.is_some()
        || proposal.replaces.is_some();
    if moves_more {
        return Err(PositionRuleError::MovesMore);
    }
    tokens(proposal).ok_or(PositionRuleError::Inflows)?;
    Ok(plan)
}

/// Returns token0 and token1 as a withdrawal declares them: its two inflows, both of the account, in the pool's order.
pub fn tokens(proposal: &Proposal) -> Option<[Address; 2]> {
    let [first, second] = proposal.inflows.as_slice() else { return None };
    let own = |flow: &crate::proposal::Inflow| match flow.token.id {
        TokenId::Erc20(address) if flow.recipient == proposal.account => Some(address),
        TokenId::Erc20(_) | TokenId::Native => None,
    };
    let tokens = [own(first)?, own(second)?];
    (tokens[0] < tokens[1]).then_some(tokens)
}

/// Returns token0 and token1 as a deposit declares them: its two outflows, in the pool's order.
pub fn given_tokens(proposal: &Proposal) -> Option<[Address; 2]> {
    let [first, second] = proposal.outflows.as_slice() else { return None };
    let address = |flow: &crate::proposal::Outflow| match flow.token.id {
        TokenId::Erc20(address) => Some(address),
        TokenId::Native => None,
    };
    let tokens = [address(first)?, address(second)?];
    (tokens[0] < tokens[1]).then_some(tokens)
}

/// Returns the change of a position that a proposal consists of; `None` for any other action, and for a call that must not
/// be signed.
pub fn plan(proposal: &Proposal, manager: Option<Address>) -> Option<PositionPlan> {
    let main = proposal.legs.iter().find(|leg| leg.purpose == LegPurpose::Main)?;
    decode(main, proposal, manager).ok()
}

/// Returns the least risky class that a change of a position can have.
pub fn class(plan: &PositionPlan) -> ActionClass {
    match plan {
        PositionPlan::Close { .. } => ActionClass::ClosePosition,
        PositionPlan::Collect { .. } | PositionPlan::Remove { .. } => ActionClass::DecreasePosition,
        PositionPlan::Increase { .. } | PositionPlan::Compound { .. } => ActionClass::IncreasePosition,
        PositionPlan::Mint { .. } => ActionClass::NewPosition,
    }
}

/// Returns true if the calldata declares that a single token moves as in `change`: the token of a closed position, which
/// the account gives up, or that of a new one, which it gets.
pub fn declares(proposal: &Proposal, manager: Option<Address>, change: &NftChange) -> bool {
    if Some(change.collection) != manager {
        return false;
    }
    let moved = (change.who.before, change.who.after);
    match plan(proposal, manager) {
        Some(PositionPlan::Close { token_id, .. }) => {
            token_id == change.id && moved == (proposal.account, Address::ZERO)
        }
        // The manager gives the number.
        Some(PositionPlan::Mint { .. }) => moved == (Address::ZERO, proposal.account),
        Some(
            PositionPlan::Collect { .. }
            | PositionPlan::Remove { .. }
            | PositionPlan::Increase { .. }
            | PositionPlan::Compound { .. },
        )
        | None => false,
    }
}

/// Returns what must be seen of a position's token, if the calldata declares that one moves.
pub fn moves_a_token(proposal: &Proposal, manager: Option<Address>) -> Option<&'static str> {
    match plan(proposal, manager)? {
        PositionPlan::Close { .. } => Some("the token of the closed position is burned"),
        PositionPlan::Mint { .. } => Some("the account gets the token of the new position"),
        PositionPlan::Collect { .. }
        | PositionPlan::Remove { .. }
        | PositionPlan::Increase { .. }
        | PositionPlan::Compound { .. } => None,
    }
}

/// Number of positions that `holder` has after the proposal, if it has `before` in `collection` now; `None` if it moves
/// none of them.
pub fn positions_after(
    proposal: &Proposal,
    manager: Option<Address>,
    (collection, holder): (Address, Address),
    before: U256,
) -> Option<U256> {
    if Some(collection) != manager || holder != proposal.account {
        return None;
    }
    match plan(proposal, manager)? {
        PositionPlan::Close { .. } => before.checked_sub(U256::ONE),
        PositionPlan::Mint { .. } => before.checked_add(U256::ONE),
        PositionPlan::Collect { .. }
        | PositionPlan::Remove { .. }
        | PositionPlan::Increase { .. }
        | PositionPlan::Compound { .. } => None,
    }
}

/// Returns the faults of a change of a position against the position's state on the pinned block: whose it is, its tokens
/// and its liquidity, and minimums that the policy's slippage does not allow. `now` is the time of the next block.
pub fn faults(
    proposal: &Proposal,
    manager: Option<Address>,
    state: Option<&PositionState>,
    now: u64,
    most: BasisPoints,
) -> Vec<DeclarationFault> {
    let Some(plan) = plan(proposal, manager) else { return Vec::new() };
    let fault = |rule, declared: String, found: String| DeclarationFault::new(rule, declared, found);
    let Some(token_id) = plan.token_id() else { return Vec::new() };
    let Some(state) = state.filter(|state| state.key.id.token() == token_id) else {
        return vec![fault(RuleName::Nft, format!("position {token_id} exists"), "it does not".to_owned())];
    };
    let mut found = Vec::new();
    if state.owner != proposal.account {
        let whose = format!("position {token_id} belongs to {}", state.owner);
        found.push(fault(RuleName::Nft, "a position of the account".to_owned(), whose));
    }
    let pool = [state.key.token0, state.key.token1];
    let (declared, rule) = match plan.is_exit() {
        true => (tokens(proposal), RuleName::Inflow),
        false => (given_tokens(proposal), RuleName::Outflow),
    };
    if declared != Some(pool) {
        let declared = format!("position {token_id} is of the declared tokens");
        found.push(fault(rule, declared, format!("it is of {} and {}", pool[0], pool[1])));
    }
    let part = plan.withdrawal();
    if let PositionPlan::Close { .. } = plan
        && part.map_or(0, |part| part.liquidity) != state.liquidity
    {
        let declared = format!("a closed position loses its liquidity of {}", state.liquidity);
        let taken = part.map_or(0, |part| part.liquidity).to_string();
        found.push(fault(RuleName::Calldata, declared, taken).passing("a new preview"));
    }
    if let Some(part) = part {
        withdrawal(proposal, state, part, now, most, &mut found);
    }
    found
}

fn withdrawal(
    proposal: &Proposal,
    state: &PositionState,
    part: Withdrawal,
    now: u64,
    most: BasisPoints,
    found: &mut Vec<DeclarationFault>,
) {
    if part.liquidity == 0 || part.liquidity > state.liquidity {
        let declared = format!("1 to {} of the position's liquidity", state.liquidity);
        found.push(DeclarationFault::new(RuleName::Calldata, declared, part.liquidity));
    }
    expires_soon(part.deadline, now, found);
    // At the highest price the least of token0 comes out, at the lowest the least of token1.
    let bound = drifted(most);
    let [low, high] = sqrt_prices_around(state.sqrt_price_x96, bound);
    let range = state.key.range;
    let least = range.amounts(high, part.liquidity, false).and_then(|[least0, _]| {
        let [_, least1] = range.amounts(low, part.liquidity, false)?;
        Ok([least0, least1])
    });
    let Ok(least) = least else {
        let declared = "amounts that a pool can pay".to_owned();
        found.push(DeclarationFault::new(RuleName::MinOut, declared, "more than 256 bits"));
        return;
    };
    for ((token, least), given) in [state.key.token0, state.key.token1].into_iter().zip(least).zip(part.least) {
        if given < least {
            let token = TokenId::Erc20(token);
            let declared = format!("at least {}, the minimum at a price {bound} away", figure(proposal, token, least));
            let fault = DeclarationFault::new(RuleName::MinOut, declared, figure(proposal, token, given));
            found.push(fault.passing("a new preview with a slippage within the policy"));
        }
    }
}

/// Adds a fault unless a deadline, in seconds since the Unix epoch, lies within [`MAX_DEADLINE`] of `now`.
fn expires_soon(deadline: U256, now: u64, found: &mut Vec<DeclarationFault>) {
    let soon = now.saturating_add(MAX_DEADLINE);
    if deadline <= U256::from(now) || deadline > U256::from(soon) {
        let declared = format!("expires before {}", when(soon));
        let until = when(deadline.saturating_to());
        found.push(DeclarationFault::new(RuleName::Deadline, declared, format!("{until}, now is {}", when(now))));
    }
}

/// Policy's slippage and the movement of the price since the tool read it.
fn drifted(most: BasisPoints) -> BasisPoints {
    BasisPoints::new(most.get().saturating_add(DRIFT)).unwrap_or(most)
}

/// Returns the event that the receipts of a change of a position should contain and do not; `None` if it is proven.
pub fn unproven(proposal: &Proposal, manager: Option<Address>, logs: &[&Log]) -> Option<&'static str> {
    let plan = plan(proposal, manager)?;
    if let Some(deposit) = plan.deposit() {
        return deposit::unproven(&plan, deposit, proposal.account, manager, logs);
    }
    let own = || logs.iter().filter(|log| Some(log.address) == manager);
    let withdrawn = |token_id: U256, part: Withdrawal| {
        own().filter_map(|log| Manager::DecreaseLiquidity::decode_log(log).ok()).any(|event| {
            let paid = [event.amount0, event.amount1];
            event.tokenId == token_id
                && event.liquidity == part.liquidity
                && paid.iter().zip(part.least).all(|(paid, least)| *paid >= least)
        })
    };
    let collected = |token_id: U256| {
        own()
            .filter_map(|log| Manager::Collect::decode_log(log).ok())
            .any(|event| (event.tokenId, event.recipient) == (token_id, proposal.account))
    };
    let burned = |token_id: U256| {
        own()
            .filter_map(|log| Manager::Transfer::decode_log(log).ok())
            .any(|event| (event.from, event.to, event.tokenId) == (proposal.account, Address::ZERO, token_id))
    };
    let token_id = plan.token_id()?;
    if plan.withdrawal().is_some_and(|part| !withdrawn(token_id, part)) {
        return Some("DecreaseLiquidity");
    }
    if !collected(token_id) {
        return Some("Collect");
    }
    (matches!(plan, PositionPlan::Close { .. }) && !burned(token_id)).then_some("Transfer")
}

#[cfg(test)]
mod tests;
