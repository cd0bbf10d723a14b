//! Router over a set of pools: paths of up to three hops, single or split, for an exact input or output, best after
//! gas. It is deterministic: the same pools and request give the same route.
//!
//! Not here: reading pools from a chain (see `uniswap::discovery`), and converting a route to calls.

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
pub use rebuild::{MAX_PATHS, NamedPath, RebuildError, rebuild};

use alloy::primitives::{Address, I256, U256};

use self::graph::PoolPath;
use self::search::PathSearch;
use super::pool::{FixedAmount, ProtocolVersion};
use super::pool_id::PoolId;
use super::ratio::Ratio;
use bardo_abi::uniswap_v4::PoolKey;

/// Number of promising paths that are always quoted, as candidates for a split, even after the best one is found.
const PROMISING: usize = 24;

/// Maximum number of hops on a path.
pub const MAX_HOPS: usize = 3;

/// Request to the router.
#[derive(Debug, Clone)]
pub struct RouteRequest {
    /// Address of the input token.
    pub token_in: Address,
    /// Address of the output token.
    pub token_out: Address,
    /// Fixed amount of the trade.
    pub exact: FixedAmount,
    /// Maximum number of hops per path, from 1 to [`MAX_HOPS`]; larger values are reduced.
    pub max_hops: usize,
    /// Maximum number of paths to split over; 1 disables splits.
    pub max_legs: usize,
    /// True if one path may contain pools of several versions.
    pub mixed_paths: bool,
    /// True if paths may contain V4 pools, which only the Universal Router reaches.
    pub v4: bool,
    /// True if the input is the native token itself, which `token_in` stands for. Only then can a path begin with a pool
    /// of the native token: the router cannot unwrap what it only takes for a swap.
    pub pays_native: bool,
    /// Price of gas in the token that is not fixed. Without it, gas only breaks ties.
    pub gas: Option<GasCost>,
    /// Gas model of a swap's parts.
    pub gas_model: GasModel,
}

impl RouteRequest {
    /// Creates a request with three hops and four legs, without V4 pools. Paths may mix versions for an exact input only.
    /// For an exact output, the first hop of another version buys a fixed amount for the next one. Any price movement
    /// before execution then makes the path fail or leaves a remainder.
    pub fn new(token_in: Address, token_out: Address, exact: FixedAmount) -> Self {
        Self {
            token_in,
            token_out,
            exact,
            max_hops: MAX_HOPS,
            max_legs: 4,
            mixed_paths: matches!(exact, FixedAmount::In(_)),
            v4: false,
            pays_native: false,
            gas: None,
            gas_model: GasModel::default(),
        }
    }
}

/// Pool on a path, with its amounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hop {
    /// Identity of the pool.
    pub pool: PoolId,
    /// Protocol version of the pool.
    pub version: ProtocolVersion,
    /// Key of a V4 pool.
    pub key: Option<PoolKey>,
    /// Fee in hundredths of a basis point, in a V4 pool with the protocol's fee.
    pub fee: u32,
    /// Token that the pool takes.
    pub token_in: Address,
    /// Token that the pool gives.
    pub token_out: Address,
    /// Input in raw units, including the fee.
    pub amount_in: U256,
    /// Output in raw units.
    pub amount_out: U256,
    /// Number of initialized ticks crossed.
    pub ticks_crossed: u32,
}

impl Hop {
    /// Returns the currencies that the pool itself takes and gives: the zero address where it trades the native token for
    /// which routes have the wrapped one.
    pub fn currencies(&self) -> (Address, Address) {
        match self.key.as_ref().filter(|key| key.currency0.is_zero()) {
            None => (self.token_in, self.token_out),
            Some(key) if key.currency1 == self.token_in => (self.token_in, Address::ZERO),
            Some(_) => (Address::ZERO, self.token_out),
        }
    }
}

/// Path with its part of the amount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteLeg {
    /// Share of the fixed amount in basis points. The shares of a route add up to 10,000.
    pub share_bps: u32,
    /// Pools in trading order.
    pub hops: Vec<Hop>,
    /// Input in raw units.
    pub amount_in: U256,
    /// Output in raw units.
    pub amount_out: U256,
    /// Estimated gas of this leg alone, in gas units.
    pub gas_units: u64,
    /// Current price before fees, in raw output units per raw input unit.
    pub mid_price: Ratio,
}

/// Route with its amounts, gas and price impact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Address of the input token.
    pub token_in: Address,
    /// Address of the output token.
    pub token_out: Address,
    /// Fixed amount of the request.
    pub exact: FixedAmount,
    /// Paths, largest share first. No pool occurs in two of them.
    pub legs: Vec<RouteLeg>,
    /// Total input in raw units.
    pub amount_in: U256,
    /// Total output in raw units.
    pub amount_out: U256,
    /// Estimated gas of the whole transaction, in gas units.
    pub gas_units: u64,
    /// Cost of that gas in the token that is not fixed; `None` if the request had no gas price.
    pub gas_cost: Option<U256>,
    /// Price impact without fees, as a fraction of 1.
    pub price_impact: Ratio,
    /// Price impact including fees, as a fraction of 1.
    pub price_impact_with_fee: Ratio,
}

/// Error in finding a route.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// Input and output are the same token.
    #[error("a token cannot be swapped for itself: {token}")]
    SameToken {
        /// Address of the token.
        token: Address,
    },
    /// Amount of zero.
    #[error("an amount of zero cannot be swapped; use an amount above zero")]
    ZeroAmount,
    /// Amount beyond the integers that pools use.
    #[error("the amount is above 2^255 - 1 raw units, the maximum of a pool")]
    AmountTooLarge,
    /// No path of pools joins the tokens.
    #[error("no Uniswap pools connect {token_in} to {token_out} within {max_hops} hops")]
    NoRoute {
        /// Address of the input token.
        token_in: Address,
        /// Address of the output token.
        token_out: Address,
        /// Limit of hops in force.
        max_hops: usize,
    },
    /// All pools together cannot fill the amount.
    #[error("the pools from {token_in} to {token_out} have too little liquidity for this amount; reduce it")]
    InsufficientLiquidity {
        /// Address of the input token.
        token_in: Address,
        /// Address of the output token.
        token_out: Address,
    },
    /// Input that buys less than one raw unit.
    #[error("this amount is too small to buy a single unit of {token_out}; increase it")]
    AmountTooSmall {
        /// Address of the output token.
        token_out: Address,
    },
}

/// Finds the best route after gas. Ties prefer less gas, then fewer legs and hops, then lower pool identities.
///
/// # Errors
/// Returns a [`RouteError`] if the request is invalid or no route can fill it.
pub fn best_route(pools: &PoolSet, request: &RouteRequest) -> Result<Route, RouteError> {
    let search = PathSearch::new(pools, request)?;
    let whole = search.paths(request.exact.amount(), PROMISING);
    let best = whole.found.first();
    let single = best.and_then(|found| assemble(&search, &[(found.path, 10_000)]));
    let can_gain = request.max_legs > 1 && best.is_none_or(|best| search.split_bound(&whole) > best.score);
    let legs = if can_gain { split::best_split(&search, &whole.found) } else { None };
    let split = legs.and_then(|legs| assemble(&search, &legs));
    match (single, split) {
        // The shares were found with amounts rounded down, so the split must still win with the whole amount.
        (Some(single), Some(split)) => {
            Ok(if score(&search, &split) > score(&search, &single) { split } else { single })
        }
        (single, split) => single.or(split).ok_or_else(|| search.refusal()),
    }
}

/// Scores a route after the gas of its legs, like [`PathSearch::score`] for one path.
fn score(search: &PathSearch<'_>, route: &Route) -> I256 {
    let open_side = |leg: &RouteLeg| match route.exact {
        FixedAmount::In(_) => leg.amount_out,
        FixedAmount::Out(_) => leg.amount_in,
    };
    route.legs.iter().fold(I256::ZERO, |sum, leg| sum.saturating_add(search.score(open_side(leg), leg.gas_units)))
}

/// Divides `amount` by shares in basis points, rounded down; the first part takes the remainder.
fn parts(amount: U256, shares: impl Iterator<Item = u32>) -> Vec<U256> {
    // Divide by 10,000 first to avoid overflow: amounts are below 2^255, and shares add up to 10,000.
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

/// Quotes each leg with its part of the amount and sums up the route. `None` if a leg cannot be filled.
fn assemble(search: &PathSearch<'_>, legs: &[(PoolPath, u32)]) -> Option<Route> {
    let request = search.request;
    let amounts = parts(request.exact.amount(), legs.iter().map(|(_, share)| *share));
    let legs: Option<Vec<RouteLeg>> =
        legs.iter().zip(amounts).map(|((path, share), amount)| assemble_leg(search, path, *share, amount)).collect();
    let legs = legs?;
    let sum = |side: fn(&RouteLeg) -> U256| legs.iter().try_fold(U256::ZERO, |sum, leg| sum.checked_add(side(leg)));
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

fn assemble_leg(search: &PathSearch<'_>, path: &PoolPath, share_bps: u32, amount: U256) -> Option<RouteLeg> {
    let quoted = search.quote_hops(path, amount)?;
    let mut mid_price = Ratio::whole(U256::from(1));
    let mut hops = Vec::with_capacity(quoted.len());
    for (step, quote) in path.steps().iter().zip(&quoted) {
        let pool = search.pools.pool(step.pool)?;
        mid_price = mid_price.times(&pool.mid_price(step.zero_for_one)?);
        let (token0, token1) = pool.tokens();
        let (token_in, token_out) = if step.zero_for_one { (token0, token1) } else { (token1, token0) };
        hops.push(Hop {
            pool: pool.id(),
            version: pool.version(),
            key: pool.key().cloned(),
            fee: pool.swap_fee(step.zero_for_one),
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
    Some(RouteLeg { share_bps, hops, amount_in, amount_out, gas_units, mid_price })
}

#[cfg(test)]
mod tests;
