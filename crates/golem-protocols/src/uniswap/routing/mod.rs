//! Routing over a set of pools: direct and up to three hops, whole and split, exact input and
//! exact output, best after gas. Pure: the same pools and the same request give the same route.
//!
//! Not here: reading pools from a chain (see `uniswap::discovery`) and turning a route into calls.

mod bound;
mod gas;
mod graph;
mod impact;
mod rebuild;
mod search;
mod split;

pub use gas::{GasCost, GasModel};
pub use graph::PoolSet;
pub use impact::{price_impact, price_impact_with_fee};
pub use rebuild::{MOST_PATHS, NamedPath, RebuildError, rebuild};

use alloy::primitives::{Address, I256, U256};

use self::graph::Path;
use self::search::Search;
use super::pool::{Exact, Version};
use super::ratio::Ratio;

/// How many of the most promising paths are swapped even when the best is found, as candidates for a split.
const PROMISING: usize = 24;

/// The most hops a path may have.
pub const MAX_HOPS: usize = 3;

/// What is asked of the router.
#[derive(Debug, Clone)]
pub struct RouteRequest {
    /// The token paid.
    pub token_in: Address,
    /// The token received.
    pub token_out: Address,
    /// The fixed side and its amount.
    pub exact: Exact,
    /// Most hops per path, 1 to [`MAX_HOPS`]; more is read as that.
    pub max_hops: usize,
    /// Most paths to split over; 1 never splits.
    pub max_legs: usize,
    /// Whether one path may hold both V2 and V3 pools.
    pub mixed_paths: bool,
    /// What gas costs in the token that is not fixed; without it gas counts for nothing but ties.
    pub gas: Option<GasCost>,
    /// What each part of a swap uses.
    pub gas_model: GasModel,
}

impl RouteRequest {
    /// Three hops, four legs. Paths may mix versions when the input is exact; when the output is,
    /// they may not: what a first hop of another version buys for the next cannot follow the price
    /// within one transaction, so such a path fails, or leaves a rest behind, on the least movement.
    pub fn new(token_in: Address, token_out: Address, exact: Exact) -> Self {
        Self {
            token_in,
            token_out,
            exact,
            max_hops: MAX_HOPS,
            max_legs: 4,
            mixed_paths: matches!(exact, Exact::In(_)),
            gas: None,
            gas_model: GasModel::default(),
        }
    }
}

/// One pool on a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hop {
    /// The pool contract.
    pub pool: Address,
    /// Its protocol version.
    pub version: Version,
    /// Its fee in hundredths of a basis point.
    pub fee: u32,
    /// The token this hop takes.
    pub token_in: Address,
    /// The token this hop gives.
    pub token_out: Address,
    /// What it takes, fee included.
    pub amount_in: U256,
    /// What it gives.
    pub amount_out: U256,
    /// Initialised ticks it crosses.
    pub ticks_crossed: u32,
}

/// One path and its part of the amount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leg {
    /// Its share of the fixed amount in basis points; the shares of a route add up to 10,000.
    pub share_bps: u32,
    /// The pools in the order of the trade.
    pub hops: Vec<Hop>,
    /// What it takes.
    pub amount_in: U256,
    /// What it gives.
    pub amount_out: U256,
    /// Gas for this leg alone, in units.
    pub gas_units: u64,
    /// Raw units out per raw unit in at the current prices, before fees.
    pub mid_price: Ratio,
}

/// The answer: how to trade, what it gives and what it costs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The token paid.
    pub token_in: Address,
    /// The token received.
    pub token_out: Address,
    /// The side that was asked for.
    pub exact: Exact,
    /// The paths, largest share first. No pool is in two of them.
    pub legs: Vec<Leg>,
    /// Paid over all legs.
    pub amount_in: U256,
    /// Received over all legs.
    pub amount_out: U256,
    /// Estimated gas of the whole transaction, in units.
    pub gas_units: u64,
    /// That gas in the token that is not fixed; nothing if no gas cost was given.
    pub gas_cost: Option<U256>,
    /// How far the trade moves the price, fees not counted: a fraction of 1.
    pub price_impact: Ratio,
    /// The same with fees counted as impact.
    pub price_impact_with_fee: Ratio,
}

/// Why there is no route.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// Both sides are the same token.
    #[error("a token cannot be swapped for itself: {token}")]
    SameToken {
        /// The token.
        token: Address,
    },
    /// The amount is zero.
    #[error("an amount of zero cannot be swapped; use an amount above zero")]
    ZeroAmount,
    /// The amount does not fit what pools count with.
    #[error("the amount is above 2^255 - 1 raw units, the maximum of a pool")]
    AmountTooLarge,
    /// No chain of pools joins the tokens.
    #[error("no V2 or V3 pools connect {token_in} to {token_out} within {max_hops} hops")]
    NoRoute {
        /// The token paid.
        token_in: Address,
        /// The token received.
        token_out: Address,
        /// The limit in force.
        max_hops: usize,
    },
    /// Pools join the tokens, and all of them together cannot fill the amount.
    #[error("the pools from {token_in} to {token_out} have too little liquidity for this amount; reduce it")]
    InsufficientLiquidity {
        /// The token paid.
        token_in: Address,
        /// The token received.
        token_out: Address,
    },
    /// The input buys less than one raw unit.
    #[error("this amount is too small to buy a single unit of {token_out}; increase it")]
    AmountTooSmall {
        /// The token received.
        token_out: Address,
    },
}

/// The best route after gas. Ties go to less gas, then fewer legs and hops, then lower pool addresses.
pub fn best_route(pools: &PoolSet, request: &RouteRequest) -> Result<Route, RouteError> {
    let search = Search::new(pools, request)?;
    let whole = search.paths(request.exact.amount(), PROMISING);
    let best = whole.found.first();
    let single = best.and_then(|found| assemble(&search, &[(found.path, 10_000)]));
    let can_gain = request.max_legs > 1 && best.is_none_or(|best| search.split_bound(&whole) > best.score);
    let legs = if can_gain { split::best_split(&search, &whole.found) } else { None };
    let split = legs.and_then(|legs| assemble(&search, &legs));
    match (single, split) {
        // The shares were found on parts rounded down, so the split must still win once it is whole.
        (Some(single), Some(split)) => {
            Ok(if score(&search, &split) > score(&search, &single) { split } else { single })
        }
        (single, split) => single.or(split).ok_or_else(|| search.refusal()),
    }
}

/// What a route gains after the gas of its legs, as [`Search::score`] has it for one path.
fn score(search: &Search<'_>, route: &Route) -> I256 {
    let open_side = |leg: &Leg| match route.exact {
        Exact::In(_) => leg.amount_out,
        Exact::Out(_) => leg.amount_in,
    };
    route.legs.iter().fold(I256::ZERO, |sum, leg| sum.saturating_add(search.score(open_side(leg), leg.gas_units)))
}

/// The parts of `amount` by shares in basis points: rounded down, the first taking the rest.
fn parts(amount: U256, shares: impl Iterator<Item = u32>) -> Vec<U256> {
    // 10,000ths first, so that nothing overflows; amounts are below 2^255 and shares add up to 10,000.
    let whole = U256::from(10_000);
    let (quotient, remainder) = (amount / whole, amount % whole);
    let mut parts: Vec<U256> = shares
        .map(|share| {
            let share = U256::from(share);
            quotient.saturating_mul(share).saturating_add(remainder * share / whole)
        })
        .collect();
    let given = parts.iter().fold(U256::ZERO, |sum, part| sum.saturating_add(*part));
    if let Some(first) = parts.first_mut() {
        *first = first.saturating_add(amount.saturating_sub(given));
    }
    parts
}

/// Swaps each leg's part anew and adds up. Nothing if a leg cannot be filled.
fn assemble(search: &Search<'_>, legs: &[(Path, u32)]) -> Option<Route> {
    let request = search.request;
    let amounts = parts(request.exact.amount(), legs.iter().map(|(_, share)| *share));
    let legs: Option<Vec<Leg>> =
        legs.iter().zip(amounts).map(|((path, share), amount)| assemble_leg(search, path, *share, amount)).collect();
    let legs = legs?;
    let sum = |side: fn(&Leg) -> U256| legs.iter().try_fold(U256::ZERO, |sum, leg| sum.checked_add(side(leg)));
    let (amount_in, amount_out) = (sum(|leg| leg.amount_in)?, sum(|leg| leg.amount_out)?);
    let gas_units = legs.iter().fold(request.gas_model.transaction, |sum, leg| sum.saturating_add(leg.gas_units));
    Some(Route {
        token_in: request.token_in,
        token_out: request.token_out,
        exact: request.exact,
        amount_in,
        amount_out,
        gas_units,
        gas_cost: request.gas.map(|gas| gas.of(gas_units)),
        price_impact: price_impact(&legs, amount_out)?,
        price_impact_with_fee: price_impact_with_fee(
            &legs.iter().map(|leg| (leg.amount_in, leg.mid_price.clone())).collect::<Vec<_>>(),
            amount_out,
        )?,
        legs,
    })
}

fn assemble_leg(search: &Search<'_>, path: &Path, share_bps: u32, amount: U256) -> Option<Leg> {
    let quoted = search.quote_hops(path, amount)?;
    let mut mid_price = Ratio::whole(U256::from(1));
    let mut hops = Vec::with_capacity(quoted.len());
    for (step, quote) in path.steps().iter().zip(&quoted) {
        let pool = search.pools.pool(step.pool)?;
        mid_price = mid_price.times(&pool.mid_price(step.zero_for_one)?);
        let (token0, token1) = pool.tokens();
        let (token_in, token_out) = if step.zero_for_one { (token0, token1) } else { (token1, token0) };
        hops.push(Hop {
            pool: pool.address(),
            version: pool.version(),
            fee: pool.fee(),
            token_in,
            token_out,
            amount_in: quote.amount_in,
            amount_out: quote.amount_out,
            ticks_crossed: quote.ticks_crossed,
        });
    }
    let (amount_in, amount_out) = (hops.first()?.amount_in, hops.last()?.amount_out);
    let model = &search.request.gas_model;
    let gas_units =
        hops.iter().fold(model.leg, |sum, hop| sum.saturating_add(model.hop(hop.version, hop.ticks_crossed)));
    Some(Leg { share_bps, hops, amount_in, amount_out, gas_units, mid_price })
}

#[cfg(test)]
mod tests;
