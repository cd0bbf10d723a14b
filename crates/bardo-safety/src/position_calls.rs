//! Calls of a proposal to the position managers of the address book, of V3 and V4: their rules, the changes that they declare, what the
//! chain must say of the position, and the events that prove them.
//!
//! The effects of a plan follow from the calldata alone. Its amounts are compared with the position's state on the pinned
//! block: a withdrawal or a deposit whose minimums are below what the policy's slippage allows is not signed. What only
//! deposits need is in `deposit`.

mod deposit;

use alloy::primitives::{Address, B256, I256, Log, U256};
use alloy::sol_types::SolEvent as _;

use crate::proposal::{LegPurpose, PlanLeg, Proposal, ProposalIntent};
use crate::simulate::{DeclarationFault, figure, when};
use bardo_abi::uniswap_v3::NonfungiblePositionManager as Manager;
use bardo_abi::uniswap_v4::{PoolManager, PositionManager as KeyedManager};
use bardo_base::model::{ActionClass, RuleName};
use bardo_base::units::BasisPoints;
use golem_chain::fork::NftChange;
use golem_chain::network::{AddressBook, KnownContract};
use golem_chain::token::TokenId;
use golem_protocols::uniswap::positions::{ChangeKind, PositionChange, PositionId, PositionState};
use golem_protocols::uniswap::v3::manager::{PositionCallError, PositionPlan, Withdrawal};
use golem_protocols::uniswap::v3::position::sqrt_prices_around;
use golem_protocols::uniswap::v4::manager::KeyedPlan;

pub use deposit::{DepositGround, MAX_DEVIATION, deposit_faults};

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
    #[error(
        "a deposit sends only the native token that it takes at most, signs no message, brings in nothing but what the \
         position is owed, and leaves no allowance"
    )]
    DepositMovesMore,
    /// Outflows other than the two tokens with the maximums of the call.
    #[error(
        "a deposit declares both tokens of the position as outflows, each with the maximum of the call, and nothing else"
    )]
    Outflows,
    /// Another call beside a deposit than an allowance for it.
    #[error(
        "a deposit's other calls allow the position manager exactly what the deposit takes at most, of V4 through Permit2 \
         until its deadline, and revoke it afterwards"
    )]
    BesideDeposit,
    /// Inflows other than two tokens for the account.
    #[error("a withdrawal declares both tokens of the position as inflows of the account, and nothing else")]
    Inflows,
    /// The calldata is none of the closed forms.
    #[error(transparent)]
    Call(#[from] PositionCallError),
}

/// Contracts of an address book through which positions are changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PositionManagers {
    /// Position manager of V3.
    pub v3: Option<Address>,
    /// Position manager of V4.
    pub v4: Option<Address>,
    /// Pool manager of V4, which holds its pools and their tokens.
    pub pools: Option<Address>,
    /// Permit2, through which the position manager of V4 takes tokens.
    pub permit2: Option<Address>,
}

impl PositionManagers {
    /// Contracts of an address book.
    pub fn of(book: &AddressBook) -> Self {
        Self {
            v3: book.contract(KnownContract::V3PositionManager),
            v4: book.contract(KnownContract::V4PositionManager),
            pools: book.contract(KnownContract::V4PoolManager),
            permit2: book.contract(KnownContract::Permit2),
        }
    }

    /// Returns true for a position manager.
    pub fn contains(self, contract: Address) -> bool {
        [self.v3, self.v4].contains(&Some(contract))
    }

    /// Manager of the position that a call changes.
    fn of_change(self, plan: &PositionChange) -> Option<Address> {
        match plan {
            PositionChange::V3(_) => self.v3,
            PositionChange::V4(_) => self.v4,
        }
    }
}

/// Returns true for a call that only this module may judge: to a position manager, or the main call of a change of a
/// position.
pub fn concerns(leg: &PlanLeg, proposal: &Proposal, managers: PositionManagers) -> bool {
    managers.contains(leg.to) || proposal.intent == ProposalIntent::Liquidity && leg.purpose == LegPurpose::Main
}

/// Decodes a call of a proposal to a position manager.
///
/// # Errors
/// [`PositionRuleError`] if the call must not be signed.
pub fn decode(
    leg: &PlanLeg,
    proposal: &Proposal,
    managers: PositionManagers,
) -> Result<PositionChange, PositionRuleError> {
    if !managers.contains(leg.to) {
        return Err(PositionRuleError::Elsewhere);
    }
    if proposal.intent != ProposalIntent::Liquidity {
        return Err(PositionRuleError::Beside);
    }
    let plan = match managers.v3 == Some(leg.to) {
        true => PositionChange::decode_v3(&leg.data, proposal.account)?,
        false => PositionChange::decode_v4(&leg.data, proposal.account)?,
    };
    if let Some(most) = plan.most() {
        deposit::check(&plan, most, leg, proposal, managers)?;
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
    let tokens = tokens(proposal).ok_or(PositionRuleError::Inflows)?;
    if !may_name(&plan, tokens) {
        return Err(PositionRuleError::Inflows);
    }
    Ok(plan)
}

/// Returns true if a plan's call can be about these tokens. The calls of V4 name them; those of V3 know no native token.
fn may_name(plan: &PositionChange, tokens: [Address; 2]) -> bool {
    match plan {
        PositionChange::V3(PositionPlan::Mint { token0, token1, .. }) => tokens == [*token0, *token1],
        // The position's tokens are compared with its state.
        PositionChange::V3(
            PositionPlan::Collect { .. }
            | PositionPlan::Remove { .. }
            | PositionPlan::Close { .. }
            | PositionPlan::Increase { .. }
            | PositionPlan::Compound { .. },
        ) => !tokens[0].is_zero(),
        PositionChange::V4(KeyedPlan { currencies, .. }) => tokens == *currencies,
    }
}

/// Returns token0 and token1 as a withdrawal declares them: its two inflows, both of the account, in the pool's order. The
/// zero address is the native token.
pub fn tokens(proposal: &Proposal) -> Option<[Address; 2]> {
    let [first, second] = proposal.inflows.as_slice() else { return None };
    let own = |flow: &crate::proposal::Inflow| (flow.recipient == proposal.account).then(|| address(flow.token.id));
    let tokens = [own(first)?, own(second)?];
    (tokens[0] < tokens[1]).then_some(tokens)
}

/// Returns token0 and token1 as a deposit declares them: its two outflows, in the pool's order. The zero address is the
/// native token.
pub fn given_tokens(proposal: &Proposal) -> Option<[Address; 2]> {
    let [first, second] = proposal.outflows.as_slice() else { return None };
    let tokens = [address(first.token.id), address(second.token.id)];
    (tokens[0] < tokens[1]).then_some(tokens)
}

fn address(token: TokenId) -> Address {
    match token {
        TokenId::Erc20(address) => address,
        TokenId::Native => Address::ZERO,
    }
}

/// Returns the change of a position that a proposal consists of; `None` for any other action, and for a call that must not
/// be signed.
pub fn plan(proposal: &Proposal, managers: PositionManagers) -> Option<PositionChange> {
    let main = proposal.legs.iter().find(|leg| leg.purpose == LegPurpose::Main)?;
    decode(main, proposal, managers).ok()
}

/// Returns the least risky class that a change of a position can have.
pub fn class(plan: &PositionChange) -> ActionClass {
    match plan.kind() {
        ChangeKind::Close => ActionClass::ClosePosition,
        ChangeKind::Collect | ChangeKind::Remove => ActionClass::DecreasePosition,
        ChangeKind::Increase | ChangeKind::Compound => ActionClass::IncreasePosition,
        ChangeKind::Mint => ActionClass::NewPosition,
    }
}

/// Returns true if the calldata declares that a single token moves as in `change`: the token of a closed position, which
/// the account gives up, or that of a new one, which it gets.
pub fn declares(proposal: &Proposal, managers: PositionManagers, change: &NftChange) -> bool {
    let Some(plan) = plan(proposal, managers).filter(|plan| managers.of_change(plan) == Some(change.collection)) else {
        return false;
    };
    let moved = (change.who.before, change.who.after);
    match plan.kind() {
        ChangeKind::Close => {
            plan.id().map(PositionId::token) == Some(change.id) && moved == (proposal.account, Address::ZERO)
        }
        // The manager gives the number.
        ChangeKind::Mint => moved == (Address::ZERO, proposal.account),
        ChangeKind::Collect | ChangeKind::Remove | ChangeKind::Increase | ChangeKind::Compound => false,
    }
}

/// Returns what must be seen of a position's token, if the calldata declares that one moves.
pub fn moves_a_token(proposal: &Proposal, managers: PositionManagers) -> Option<&'static str> {
    match plan(proposal, managers)?.kind() {
        ChangeKind::Close => Some("the token of the closed position is burned"),
        ChangeKind::Mint => Some("the account gets the token of the new position"),
        ChangeKind::Collect | ChangeKind::Remove | ChangeKind::Increase | ChangeKind::Compound => None,
    }
}

/// Number of positions that `holder` has after the proposal, if it has `before` in `collection` now; `None` if it moves
/// none of them.
pub fn positions_after(
    proposal: &Proposal,
    managers: PositionManagers,
    (collection, holder): (Address, Address),
    before: U256,
) -> Option<U256> {
    let plan = plan(proposal, managers)?;
    if managers.of_change(&plan) != Some(collection) || holder != proposal.account {
        return None;
    }
    match plan.kind() {
        ChangeKind::Close => before.checked_sub(U256::ONE),
        ChangeKind::Mint => before.checked_add(U256::ONE),
        ChangeKind::Collect | ChangeKind::Remove | ChangeKind::Increase | ChangeKind::Compound => None,
    }
}

/// Returns the faults of a change of a position against the position's state on the pinned block: whose it is, its tokens
/// and its liquidity, and minimums that the policy's slippage does not allow. `now` is the time of the next block.
pub fn faults(
    proposal: &Proposal,
    managers: PositionManagers,
    state: Option<&PositionState>,
    now: u64,
    most: BasisPoints,
) -> Vec<DeclarationFault> {
    let Some(plan) = plan(proposal, managers) else { return Vec::new() };
    let fault = |rule, declared: String, found: String| DeclarationFault::new(rule, declared, found);
    let Some(id) = plan.id() else { return Vec::new() };
    let Some(state) = state.filter(|state| state.key.id == id) else {
        return vec![fault(RuleName::Nft, format!("position {id} exists"), "it does not".to_owned())];
    };
    let mut found = Vec::new();
    if state.owner != proposal.account {
        let whose = format!("position {id} belongs to {}", state.owner);
        found.push(fault(RuleName::Nft, "a position of the account".to_owned(), whose));
    }
    let pool = [state.key.token0, state.key.token1];
    let (declared, rule) = match plan.is_exit() {
        true => (tokens(proposal), RuleName::Inflow),
        false => (given_tokens(proposal), RuleName::Outflow),
    };
    if declared != Some(pool) {
        let declared = format!("position {id} is of the declared tokens");
        found.push(fault(rule, declared, format!("it is of {} and {}", pool[0], pool[1])));
    }
    let liquidity = plan.withdrawn(state.liquidity);
    if plan.kind() == ChangeKind::Close && liquidity != state.liquidity {
        let declared = format!("a closed position loses its liquidity of {}", state.liquidity);
        found.push(fault(RuleName::Calldata, declared, liquidity.to_string()).passing("a new preview"));
    }
    if plan.is_exit()
        && let Some(deadline) = plan.deadline()
    {
        expires_soon(deadline, now, &mut found);
    }
    if let Some(least) = plan.least() {
        withdrawal(proposal, state, (&plan, liquidity, least), most, &mut found);
    }
    found
}

fn withdrawal(
    proposal: &Proposal,
    state: &PositionState,
    (plan, liquidity, given): (&PositionChange, u128, [U256; 2]),
    most: BasisPoints,
    found: &mut Vec<DeclarationFault>,
) {
    // In V4 an empty position is closed like any other.
    let may_be_empty = matches!(plan, PositionChange::V4(_)) && plan.kind() == ChangeKind::Close;
    if liquidity == 0 && !may_be_empty || liquidity > state.liquidity {
        let declared = format!("1 to {} of the position's liquidity", state.liquidity);
        found.push(DeclarationFault::new(RuleName::Calldata, declared, liquidity));
    }
    // At the highest price the least of token0 comes out, at the lowest the least of token1.
    let bound = drifted(most);
    let [low, high] = sqrt_prices_around(state.sqrt_price_x96, bound);
    let range = state.key.range;
    let least = range.amounts(high, liquidity, false).and_then(|[least0, _]| {
        let [_, least1] = range.amounts(low, liquidity, false)?;
        Ok([least0, least1])
    });
    let Ok(least) = least else {
        let declared = "amounts that a pool can pay".to_owned();
        found.push(DeclarationFault::new(RuleName::MinOut, declared, "more than 256 bits"));
        return;
    };
    for ((token, least), given) in state.key.tokens().into_iter().zip(least).zip(given) {
        if given < least {
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

/// Returns the event that the receipts of a change of a position should contain and do not; `None` if it is proven. That V4
/// closes a position as a whole follows from the burned token.
pub fn unproven(proposal: &Proposal, managers: PositionManagers, logs: &[&Log]) -> Option<&'static str> {
    match plan(proposal, managers)? {
        PositionChange::V3(plan) => unproven_v3(&plan, proposal.account, managers.v3, logs),
        PositionChange::V4(plan) => unproven_v4(&plan, proposal.account, managers, logs),
    }
}

fn unproven_v3(plan: &PositionPlan, account: Address, manager: Option<Address>, logs: &[&Log]) -> Option<&'static str> {
    if let Some(deposit) = plan.deposit() {
        return deposit::unproven(plan, deposit, account, manager, logs);
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
            .any(|event| (event.tokenId, event.recipient) == (token_id, account))
    };
    let burned = |token_id: U256| {
        own()
            .filter_map(|log| Manager::Transfer::decode_log(log).ok())
            .any(|event| (event.from, event.to, event.tokenId) == (account, Address::ZERO, token_id))
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

/// The pool manager tells of each change of a position's liquidity, also of none, under the number of its token, and the
/// position manager of tokens that are made and burned. Amounts are no part of these events: their bounds are in the
/// calldata, and the balances are compared.
fn unproven_v4(plan: &KeyedPlan, account: Address, managers: PositionManagers, logs: &[&Log]) -> Option<&'static str> {
    let tokens = || {
        let own = logs.iter().filter(|log| Some(log.address) == managers.v4);
        own.filter_map(|log| KeyedManager::Transfer::decode_log(log).ok())
    };
    let change = PositionChange::V4(*plan);
    let token_id = match plan.token_id() {
        Some(token_id) => token_id,
        None => {
            let Some(made) = tokens().find(|event| (event.from, event.to) == (Address::ZERO, account)) else {
                return Some("Transfer");
            };
            made.id
        }
    };
    let burned = || tokens().any(|event| (event.from, event.to, event.id) == (account, Address::ZERO, token_id));
    if change.kind() == ChangeKind::Close {
        // An empty position is burned without a change of its liquidity.
        return (!burned()).then_some("Transfer");
    }
    let delta = match plan.deposit() {
        Some(deposit) => I256::try_from(deposit.liquidity),
        None => I256::try_from(change.withdrawn(0)).map(|withdrawn| -withdrawn),
    };
    let changed = logs
        .iter()
        .filter(|log| Some(log.address) == managers.pools)
        .filter_map(|log| PoolManager::ModifyLiquidity::decode_log(log).ok())
        .filter(|event| Some(event.sender) == managers.v4 && event.salt == B256::from(token_id))
        .any(|event| delta.as_ref().is_ok_and(|delta| event.liquidityDelta == *delta));
    (!changed).then_some("ModifyLiquidity")
}

#[cfg(test)]
mod tests;
