//! Calls of a proposal to the lending pool of the address book: their rules, the changes that they declare, what the
//! simulation must show of supplies and debts, and the events that prove them.
//!
//! Rules follow from the calldata alone. Supplies and debts are not tokens that an account holds or trades:
//! their changes are compared with the calldata here, to the rounding of the pool's own arithmetic, and never count as
//! inflows or outflows.

use std::collections::{BTreeMap, BTreeSet};

use alloy::primitives::{Address, Log, U256, U512};
use alloy::providers::bindings::IMulticall3;
use alloy::sol_types::{SolCall as _, SolEvent as _};

use crate::proposal::{LegPurpose, PlanLeg, Proposal, ProposalIntent};
use crate::signing_payload::SigningPayload;
use crate::simulate::{DeclarationFault, JudgeContext, figure};
use crate::value::PriceSpreads;
use bardo_abi::aave::{AaveBalance, AaveOracle, AavePool};
use bardo_abi::erc20::Erc20;
use bardo_base::fabric::LiquidationMove;
use bardo_base::model::{ActionClass, RuleName};
use bardo_base::text::SafeText;
use bardo_base::units::{BasisPoints, Rounding, Usd};
use golem_chain::fork::{ForkCall, Simulation, ValueChange};
use golem_chain::network::{AddressBook, BookToken, KnownContract};
use golem_chain::token::TokenId;
use golem_protocols::aave::call::{LendingCall, LendingCallError};
use golem_protocols::aave::market::{BASE_DECIMALS, MarketState};
use golem_protocols::aave::math::{RAY, percent_mul, wad_div};
use golem_protocols::aave::position::{AccountSums, ReservePosition, price_moves};

/// Largest distance of the market's price of a token from every price source of Bardo, in basis points. Feeds follow the
/// market with a deviation of up to one percent, and a market's feed may differ from the book's.
const PRICE_TOLERANCE: u32 = 300;

/// Reason why a call to the lending pool is not allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LendingRuleError {
    /// The action is not declared as one of the lending market.
    #[error("the lending pool can only be called by a lending tool")]
    Beside,
    /// The action is declared as one of the lending market and calls another contract.
    #[error("a lending action calls only the pool of the address book, and the token that it gives")]
    Elsewhere,
    /// The plan does more than one call of the pool with its allowance.
    #[error(
        "a lending action sends no value, signs no message, and makes one call of the pool beside the allowance for it"
    )]
    DoesMore,
    /// The flows differ from the calldata.
    #[error("a supply or repayment declares its token as the one outflow, a withdrawal or borrowing as the one inflow")]
    Flows,
    /// An allowance other than for the pool would be left.
    #[error("a lending action leaves no allowance")]
    Allowance,
    /// The calldata is none of the closed forms.
    #[error(transparent)]
    Call(#[from] LendingCallError),
}

/// Lending market around a proposal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LendingContext {
    /// Pool in the address book.
    pub pool: Address,
    /// Multicall3 in the address book.
    pub multicall: Option<Address>,
    /// The market on the pinned block; `None` if it was not read.
    pub state: Option<MarketState>,
    /// Symbols of the address book's tokens.
    pub symbols: BTreeMap<Address, SafeText>,
    /// Dollar stablecoins of the address book.
    pub stablecoins: BTreeSet<Address>,
}

impl LendingContext {
    /// Market of an address book; `None` if the book has none.
    pub fn of(book: &AddressBook, state: Option<MarketState>) -> Option<Self> {
        let symbol = |token: &BookToken| (token.address, SafeText::clean(&token.symbol, 40));
        let multicall = book.contract(KnownContract::Multicall3);
        let symbols = book.tokens().iter().map(symbol).collect();
        let stablecoins = book.stablecoins().map(|token| token.address).collect();
        Some(Self { pool: pool(book)?, multicall, state, symbols, stablecoins })
    }
}

/// Changes that a lending action makes to a debt and its security, by the simulated state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LendingEffects {
    /// Call of the pool that the action consists of.
    pub call: LendingCall,
    /// The account's sums before.
    pub before: AccountSums,
    /// The account's sums after, as the pool computes them in the simulated state.
    pub after: AccountSums,
    /// Tokens of the account's supplies and debts whose price in the market differs from Bardo's sources, or is unknown to
    /// them.
    pub gaps: Vec<PriceGap>,
    /// Health factor after, if supplies whose price is not confirmed secured nothing; `None` if the price of a debt is not
    /// confirmed.
    pub confirmed_health: Option<U256>,
    /// Changes of single prices that make the debt liquidable afterwards.
    pub falls: Vec<LiquidationMove>,
    /// Symbol of the asset, or its address if it is not listed.
    pub symbol: SafeText,
    /// Decimals of the asset.
    pub decimals: u8,
    /// Supply of the asset before and after, in raw units.
    pub supply: [U256; 2],
    /// Debt of the asset before and after, in raw units.
    pub debt: [U256; 2],
}

/// Price in the market that Bardo's sources do not confirm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriceGap {
    /// Address of the token.
    pub token: Address,
    /// Price in the market, in dollars.
    pub market: Usd,
    /// Lowest and highest price of Bardo's sources; `None` without one.
    pub own: Option<[Usd; 2]>,
}

impl LendingEffects {
    /// Returns true if the action can bring a debt nearer to its liquidation.
    pub fn worsens(&self) -> bool {
        matches!(self.call, LendingCall::Borrow { .. } | LendingCall::Withdraw { .. })
    }
}

/// Returns the lending pool of the address book.
pub fn pool(book: &AddressBook) -> Option<Address> {
    book.contract(KnownContract::AavePool)
}

/// Returns true for a call that only this module may judge: to the pool, or the main call of a lending action.
pub fn concerns(leg: &PlanLeg, proposal: &Proposal, pool: Option<Address>) -> bool {
    Some(leg.to) == pool || proposal.intent == ProposalIntent::Lending && leg.purpose == LegPurpose::Main
}

/// Decodes a call of a proposal to the pool.
///
/// # Errors
/// [`LendingRuleError`] if the call must not be signed.
pub fn decode(leg: &PlanLeg, proposal: &Proposal, pool: Option<Address>) -> Result<LendingCall, LendingRuleError> {
    if pool != Some(leg.to) {
        return Err(LendingRuleError::Elsewhere);
    }
    if proposal.intent != ProposalIntent::Lending {
        return Err(LendingRuleError::Beside);
    }
    let call = LendingCall::decode(&leg.data, proposal.account)?;
    let mains = proposal.legs.iter().filter(|leg| leg.purpose == LegPurpose::Main).count();
    let does_more = mains != 1
        || leg.purpose != LegPurpose::Main
        || proposal.legs.iter().any(|leg| !leg.value.is_zero() || !leg.slots.is_empty())
        || proposal.trade.is_some()
        || proposal.order.is_some()
        || proposal.replaces.is_some();
    if does_more {
        return Err(LendingRuleError::DoesMore);
    }
    let asset = TokenId::Erc20(call.asset());
    let fits = match (proposal.outflows.as_slice(), proposal.inflows.as_slice(), call) {
        ([out], [], LendingCall::Supply { amount, .. } | LendingCall::Repay { amount, .. }) => {
            (out.token.id, out.amount) == (asset, amount)
        }
        ([], [into], LendingCall::Borrow { amount, .. }) => {
            (into.token.id, into.at_least, into.recipient) == (asset, amount, proposal.account)
        }
        ([], [into], LendingCall::Withdraw { amount, .. }) => {
            let whole = (into.token.id, into.recipient) == (asset, proposal.account);
            whole && !into.at_least.is_zero() && (call.withdraws_all() || into.at_least == amount)
        }
        _ => false,
    };
    if !fits {
        return Err(LendingRuleError::Flows);
    }
    // Only the pool may be allowed to take the given token, and only while the plan runs.
    let gives = !proposal.outflows.is_empty();
    let allowed = proposal
        .allowances
        .iter()
        .all(|bound| gives && bound.token.id == asset && Some(bound.spender) == pool && bound.at_most.is_zero());
    let approvals = proposal.legs.iter().filter(|leg| leg.purpose != LegPurpose::Main).all(|leg| {
        let spender = Erc20::approveCall::abi_decode(&leg.data).ok().map(|call| call.spender);
        gives && leg.to == call.asset() && spender == pool
    });
    if allowed && approvals { Ok(call) } else { Err(LendingRuleError::Allowance) }
}

/// Returns the lending action that a proposal consists of; `None` for any other action, and for a call that must not be
/// signed.
pub fn plan(proposal: &Proposal, pool: Option<Address>) -> Option<LendingCall> {
    let main = proposal.legs.iter().find(|leg| leg.purpose == LegPurpose::Main)?;
    decode(main, proposal, pool).ok()
}

/// Returns the lending action of a proposal in its surroundings, as [`plan`].
pub fn plan_in(proposal: &Proposal, around: &JudgeContext) -> Option<LendingCall> {
    plan(proposal, around.lending.as_ref().map(|lending| lending.pool))
}

/// Returns the least risky class that a lending action can have. A repayment, a withdrawal of a whole supply, and one while
/// a debt is open close something.
pub fn class(proposal: &Proposal, around: &JudgeContext) -> Option<ActionClass> {
    let call = plan_in(proposal, around)?;
    Some(match call {
        LendingCall::Supply { .. } | LendingCall::Borrow { .. } => ActionClass::NewPosition,
        LendingCall::Withdraw { .. } if call.withdraws_all() => ActionClass::ClosePosition,
        // With a debt, what is withdrawn may be all there is to repay it with.
        LendingCall::Withdraw { .. } if owes(around) => ActionClass::ClosePosition,
        LendingCall::Withdraw { .. } => ActionClass::DecreasePosition,
        // Any part of a debt that is paid back passes in every phase: the rest may not be at hand.
        LendingCall::Repay { .. } => ActionClass::ClosePosition,
    })
}

/// Returns true if the account owes something in the market.
fn owes(around: &JudgeContext) -> bool {
    let state = around.lending.as_ref().and_then(|lending| lending.state.as_ref());
    state.is_some_and(|state| state.positions.iter().any(|one| !one.debt.is_zero()))
}

/// Returns true if a proposal only pays a debt back. That needs no price, so it passes while an oracle is silent.
pub fn repays(proposal: &Proposal) -> bool {
    let main = proposal.legs.iter().find(|leg| leg.purpose == LegPurpose::Main);
    let call = main.and_then(|main| LendingCall::decode(&main.data, proposal.account).ok());
    proposal.intent == ProposalIntent::Lending && matches!(call, Some(LendingCall::Repay { .. }))
}

/// Returns the account's position in the reserve that a lending action changes.
pub fn position<'a>(call: &LendingCall, around: &'a JudgeContext) -> Option<&'a ReservePosition> {
    around.lending.as_ref()?.state.as_ref()?.of(call.asset())
}

/// Returns true if `token` stands for a supply or a debt that the proposal changes. [`faults`] judges its changes.
pub fn is_record(token: Address, proposal: &Proposal, around: &JudgeContext) -> bool {
    let own = plan_in(proposal, around).and_then(|call| position(&call, around));
    own.is_some_and(|own| [own.reserve.a_token, own.reserve.debt_token].contains(&token))
}

/// Returns true if a lending action may write to `contract` under the account's name: the pool, the records of the
/// reserve, and what rewards them.
pub fn writes(contract: Address, proposal: &Proposal, around: &JudgeContext) -> bool {
    let Some(lending) = around.lending.as_ref().filter(|_| plan_in(proposal, around).is_some()) else { return false };
    let rewards = lending.state.as_ref().is_some_and(|state| state.rewards.contains(&contract));
    contract == lending.pool || rewards || is_record(contract, proposal, around)
}

/// Returns true if `receiver` keeps the tokens that the action gives: the reserve's own contract.
pub fn keeps(receiver: Address, proposal: &Proposal, around: &JudgeContext) -> bool {
    let own = plan_in(proposal, around).and_then(|call| position(&call, around));
    own.is_some_and(|own| own.reserve.a_token == receiver)
}

/// Calls that read the account's sums and reserves after a lending action; none for any other action.
pub fn probes(payload: &SigningPayload, from: usize, around: &JudgeContext) -> Vec<ForkCall> {
    let proposal = payload.proposal();
    let to_come = payload.legs().iter().skip(from).any(|leg| leg.purpose == LegPurpose::Main);
    let Some(lending) = around.lending.as_ref().filter(|_| to_come && plan_in(proposal, around).is_some()) else {
        return Vec::new();
    };
    let is_silent = lending.state.as_ref().is_some_and(|state| state.sums.is_none());
    if is_silent && repays(proposal) {
        return Vec::new();
    }
    let user = proposal.account;
    let sums = AavePool::getUserAccountDataCall { user }.abi_encode();
    let bits = AavePool::getUserConfigurationCall { user }.abi_encode();
    // Nobody's account, so that reading changes nothing of anybody's.
    [sums, bits].map(|data| ForkCall::new(Address::ZERO, lending.pool, data).with_gas_limit(PROBE_GAS)).into()
}

/// Gas limit of a call that reads the account's sums: every reserve costs some 30,000.
const PROBE_GAS: u64 = 8_000_000;

/// Gas limit of a call that reads every reserve apart: each costs some 150,000.
const AHEAD_GAS: u64 = 16_000_000;

/// Call whose result does not matter, with everything that the sums of [`probes`] rest on, reserve by reserve; `None` for any
/// other action. A simulation finds out by running which values to fetch, and reading the sums it learns of one reserve
/// after the other, within a bounded number of rounds. Independent reads it finds at once. Anybody can supply tokens for
/// the account, so that it may have many reserves.
pub fn reads_ahead(payload: &SigningPayload, from: usize, around: &JudgeContext) -> Option<ForkCall> {
    if probes(payload, from, around).is_empty() {
        return None;
    }
    let lending = around.lending.as_ref()?;
    let (state, multicall, user) = (lending.state.as_ref()?, lending.multicall?, payload.proposal().account);
    let changed = plan_in(payload.proposal(), around).map(|call| call.asset());
    let read =
        |target: Address, data: Vec<u8>| IMulticall3::Call3 { target, allowFailure: true, callData: data.into() };
    let used = state.positions.iter().filter(|one| !one.is_empty() || changed == Some(one.reserve.asset));
    let calls = used.flat_map(|one| {
        let asset = one.reserve.asset;
        let balance = AaveBalance::balanceOfCall { user }.abi_encode();
        [
            read(lending.pool, AavePool::getReserveDataCall { asset }.abi_encode()),
            read(state.oracle, AaveOracle::getAssetPriceCall { asset }.abi_encode()),
            read(one.reserve.a_token, balance.clone()),
            read(one.reserve.debt_token, balance),
        ]
    });
    let data = IMulticall3::aggregate3Call { calls: calls.collect() }.abi_encode();
    Some(ForkCall::new(Address::ZERO, multicall, data).with_gas_limit(AHEAD_GAS))
}

/// Returns the faults of a lending action's simulated changes against its calldata: the supply or the debt must move by the
/// amount, and the other one not at all. `shows` is false if the main transaction is not part of the simulation, or did not
/// run.
pub fn faults(
    proposal: &Proposal,
    around: &JudgeContext,
    simulation: &Simulation,
    shows: bool,
) -> Vec<DeclarationFault> {
    if proposal.intent != ProposalIntent::Lending || !shows {
        return Vec::new();
    }
    let unread =
        |found: &str| vec![DeclarationFault::new(RuleName::Calldata, "a lending market that can be read", found)];
    // Calldata without a closed form is a fault already.
    let Some(call) = plan_in(proposal, around) else { return Vec::new() };
    let Some(own) = position(&call, around) else { return unread("the token's reserve is not known") };
    let account = proposal.account;
    let of = |token: Address, known: U256| {
        simulation.changes.balance(token, account).unwrap_or(ValueChange { before: known, after: known })
    };
    let supply = of(own.reserve.a_token, own.supplied);
    let debt = of(own.reserve.debt_token, own.debt);
    let paid = of(call.asset(), U256::ZERO);
    let amount = call.amount();
    let up = |change: &ValueChange<U256>| change.after.saturating_sub(change.before);
    let down = |change: &ValueChange<U256>| change.before.saturating_sub(change.after);
    let (supply_slack, debt_slack) = (slack(own.reserve.liquidity_index), slack(own.reserve.debt_index));
    let near = |found: U256, wanted: U256, slack: U256| found.abs_diff(wanted) <= slack;
    let steady = |change: &ValueChange<U256>| change.before == change.after;
    let fits = match call {
        LendingCall::Supply { .. } => near(up(&supply), amount, supply_slack) && steady(&debt),
        LendingCall::Withdraw { .. } if call.withdraws_all() => {
            supply.after.is_zero() && near(down(&supply), up(&paid), supply_slack) && steady(&debt)
        }
        LendingCall::Withdraw { .. } => near(down(&supply), amount, supply_slack) && steady(&debt),
        LendingCall::Borrow { .. } => near(up(&debt), amount, debt_slack) && steady(&supply),
        LendingCall::Repay { .. } => {
            let less = down(&debt);
            !less.is_zero() && near(less, down(&paid), debt_slack) && steady(&supply)
        }
    };
    if fits {
        return Vec::new();
    }
    let asset = TokenId::Erc20(call.asset());
    let shown = |raw| figure(proposal, asset, raw);
    let declared = match call {
        LendingCall::Supply { .. } => format!("the supply grows by {}", shown(amount)),
        LendingCall::Withdraw { .. } if call.withdraws_all() => "the whole supply is withdrawn".to_owned(),
        LendingCall::Withdraw { .. } => format!("the supply falls by {}", shown(amount)),
        LendingCall::Borrow { .. } => format!("the debt grows by {}", shown(amount)),
        LendingCall::Repay { .. } => "the debt falls by what is paid".to_owned(),
    };
    let moved = |change: &ValueChange<U256>| format!("from {} to {}", shown(change.before), shown(change.after));
    let found = format!("the supply goes {}, the debt {}", moved(&supply), moved(&debt));
    let rule = match call {
        LendingCall::Supply { .. } | LendingCall::Repay { .. } => RuleName::Inflow,
        LendingCall::Withdraw { .. } | LendingCall::Borrow { .. } => RuleName::Outflow,
    };
    vec![DeclarationFault::new(rule, declared, found)]
}

/// Rounding of a balance that the pool keeps divided by an index: half a unit of the divided balance, times the index, on
/// each of two roundings.
fn slack(index: U256) -> U256 {
    (index / RAY).saturating_add(U256::from(2))
}

/// Returns what a lending action changes of the account's debt and of what secures it, from the calls of [`probes`] at the
/// end of the simulation. `None` for any other action, and if the figures are not known.
pub fn effects(
    payload: &SigningPayload,
    from: usize,
    simulation: &Simulation,
    around: &JudgeContext,
    spreads: &PriceSpreads,
) -> Option<LendingEffects> {
    let proposal = payload.proposal();
    let call = plan_in(proposal, around)?;
    let lending = around.lending.as_ref()?;
    let state = lending.state.as_ref()?;
    let own = payload.legs().len().checked_sub(from)?;
    let answer = |index: usize| simulation.outcomes.get(own.checked_add(index)?).map(|outcome| &outcome.output);
    let sums = AavePool::getUserAccountDataCall::abi_decode_returns_validate(answer(0)?).ok()?;
    let bits = AavePool::getUserConfigurationCall::abi_decode_returns_validate(answer(1)?).ok()?;
    let after = AccountSums {
        collateral: sums.totalCollateralBase,
        debt: sums.totalDebtBase,
        available: sums.availableBorrowsBase,
        threshold: sums.currentLiquidationThreshold,
        ltv: sums.ltv,
        health: sums.healthFactor,
    };
    let positions: Vec<ReservePosition> = state
        .positions
        .iter()
        .map(|one| {
            let now = |token: Address, before: U256| {
                simulation.changes.balance(token, proposal.account).map_or(before, |change| change.after)
            };
            let bit = usize::from(one.reserve.id).saturating_mul(2).saturating_add(1);
            ReservePosition {
                supplied: now(one.reserve.a_token, one.supplied),
                debt: now(one.reserve.debt_token, one.debt),
                is_collateral: bits.bit(bit),
                ..*one
            }
        })
        .collect();
    // In a category, other thresholds hold than the reserves' own.
    let moves = match state.category {
        0 => price_moves(&positions).ok()?,
        _ => vec![None; positions.len()],
    };
    let symbol = |asset: Address| {
        let fallback = || SafeText::clean(&asset.to_string(), 60);
        lending.symbols.get(&asset).cloned().unwrap_or_else(fallback)
    };
    // Beside a collateral that falls, a dollar that rises is not worth naming.
    let some_falls = moves.iter().flatten().any(|found| !found.rises);
    let is_named = |asset: Address, rises: bool| !(rises && some_falls && lending.stablecoins.contains(&asset));
    let falls = positions.iter().zip(moves).filter_map(|(one, found)| {
        let found = found.filter(|found| is_named(one.reserve.asset, found.rises))?;
        Some(LiquidationMove {
            symbol: symbol(one.reserve.asset),
            // A price that would have to more than double is left out.
            fall: BasisPoints::new(found.basis_points).ok()?,
            price: Usd::from_scaled(found.price, BASE_DECIMALS).ok()?,
            rises: found.rises,
        })
    });
    let falls = falls.collect();
    let counted = positions.iter().filter(|one| !one.is_empty() || one.reserve.asset == call.asset());
    let doubtful: Vec<(&ReservePosition, PriceGap)> =
        counted.filter_map(|one| Some((one, gap(one, spreads)?))).collect();
    let confirmed_health = confirmed_health(&after, doubtful.iter().map(|(one, _)| *one));
    let gaps = doubtful.into_iter().map(|(_, gap)| gap).collect();
    let own = |all: &[ReservePosition]| all.iter().find(|one| one.reserve.asset == call.asset()).copied();
    let (was, is) = (own(&state.positions)?, own(&positions)?);
    Some(LendingEffects {
        before: state.sums?,
        after,
        gaps,
        confirmed_health,
        falls,
        symbol: symbol(call.asset()),
        decimals: is.reserve.config.decimals,
        supply: [was.supplied, is.supplied],
        debt: [was.debt, is.debt],
        call,
    })
}

/// Returns the health factor by the pool's own sums `after`, without the supplies among `doubtful`, whose price is not
/// confirmed. Anybody can supply any token for an account, so that such a supply must neither secure a debt nor hold
/// anything up. `None` if something is owed in one of them, or if a sum is out of range.
///
/// Of the weighted collateral the whole value of each supply is taken, whatever its threshold: that is the most that it can
/// have added, in a category too.
fn confirmed_health<'a>(after: &AccountSums, doubtful: impl Iterator<Item = &'a ReservePosition>) -> Option<U256> {
    let mut weighted = percent_mul(after.collateral, after.threshold).ok()?;
    let mut is_whole = true;
    for one in doubtful {
        if !one.debt.is_zero() {
            return None;
        }
        if one.is_collateral && !one.supplied.is_zero() {
            is_whole = false;
            // The value is rounded down, and each rounding of the pool's sums may be off by one.
            let most = one.value(one.supplied).ok()?.checked_add(U256::from(2))?;
            weighted = weighted.saturating_sub(most);
        }
    }
    if is_whole || after.debt.is_zero() {
        return Some(after.health);
    }
    wad_div(weighted, after.debt).ok()
}

/// Returns the gap between the market's price of a reserve and Bardo's sources; `None` if they agree.
fn gap(one: &ReservePosition, spreads: &PriceSpreads) -> Option<PriceGap> {
    let token = one.reserve.asset;
    let market = Usd::from_scaled(one.reserve.price, BASE_DECIMALS).unwrap_or(Usd::ZERO);
    let own = spreads.get(TokenId::Erc20(token)).ok().map(|spread| [spread.all.lowest, spread.all.highest]);
    let agrees = own.is_some_and(|[lowest, highest]| {
        let scaled = |usd: Usd, rounding| usd.scaled(BASE_DECIMALS, rounding).map(U512::from);
        let (Some(lowest), Some(highest)) = (scaled(lowest, Rounding::Up), scaled(highest, Rounding::Down)) else {
            return false;
        };
        let market = U512::from(one.reserve.price) * U512::from(10_000);
        // Within the tolerance of both ends, so that no source contradicts it.
        market >= highest * U512::from(10_000 - PRICE_TOLERANCE)
            && market <= lowest * U512::from(10_000 + PRICE_TOLERANCE)
    });
    (!agrees).then_some(PriceGap { token, market, own })
}

/// Returns the event that the receipts of a lending action should contain and do not; `None` if it is proven.
pub fn unproven(proposal: &Proposal, pool: Option<Address>, logs: &[&Log]) -> Option<&'static str> {
    let call = plan(proposal, pool)?;
    let account = proposal.account;
    let (asset, amount) = (call.asset(), call.amount());
    let own = || logs.iter().filter(|log| Some(log.address) == pool);
    let (event, seen) = match call {
        LendingCall::Supply { .. } => {
            let mut all = own().filter_map(|log| AavePool::Supply::decode_log(log).ok());
            ("Supply", all.any(|one| (one.reserve, one.onBehalfOf, one.amount) == (asset, account, amount)))
        }
        LendingCall::Withdraw { .. } => {
            let mut all = own().filter_map(|log| AavePool::Withdraw::decode_log(log).ok());
            let right = |paid: U256| call.withdraws_all() || paid == amount;
            let own = all.any(|one| (one.reserve, one.user, one.to) == (asset, account, account) && right(one.amount));
            ("Withdraw", own)
        }
        LendingCall::Borrow { .. } => {
            let mut all = own().filter_map(|log| AavePool::Borrow::decode_log(log).ok());
            ("Borrow", all.any(|one| (one.reserve, one.onBehalfOf, one.amount) == (asset, account, amount)))
        }
        LendingCall::Repay { .. } => {
            let mut all = own().filter_map(|log| AavePool::Repay::decode_log(log).ok());
            let paid = |one: &AavePool::Repay| !one.amount.is_zero() && one.amount <= amount && !one.useATokens;
            ("Repay", all.any(|one| (one.reserve, one.user) == (asset, account) && paid(&one)))
        }
    };
    (!seen).then_some(event)
}

#[cfg(test)]
mod tests;
