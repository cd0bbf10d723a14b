//! A route that somebody else names, made anew over our own pools: they say which pools and how much through each
//! path; what comes of it is counted here. Nothing that they say of prices, tokens or fees is taken over.

use std::collections::BTreeSet;

use alloy::primitives::{Address, U256, U512};

use super::graph::{Path, PoolSet, Step};
use super::search::Search;
use super::{MAX_HOPS, Route, RouteError, RouteRequest, assemble};

/// The most paths that are taken from others; their routers split over seven.
pub const MOST_PATHS: usize = 8;

/// A path as somebody else names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPath {
    /// The pools in the order of the trade.
    pub pools: Vec<Address>,
    /// Its part of the fixed side, in raw units.
    pub amount: U256,
}

/// Why a named route is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RebuildError {
    /// None, or more paths than anybody needs.
    #[error("it has {0} paths; 1 to {MOST_PATHS} are accepted")]
    Paths(usize),
    /// A path without a pool, or with more than are routed.
    #[error("a path has {0} pools; 1 to {MAX_HOPS} are accepted")]
    Hops(usize),
    /// No pool of the known factories between the tokens it names.
    #[error("{0} is not a Uniswap V2 or V3 pool of this chain's factories")]
    UnknownPool(Address),
    /// The pool does not trade what the path has at that point.
    #[error("the pool {0} does not have the token that the path delivers to it")]
    NotAChain(Address),
    /// The path ends somewhere else.
    #[error("a path ends in {0}, not in the requested token")]
    OtherToken(Address),
    /// Two paths, or one twice, through a pool: the second swap finds another price than was told.
    #[error("the pool {0} is used twice")]
    PoolTwice(Address),
    /// An exact output cannot follow the price over pools of two versions.
    #[error("a path of an exact output mixes V2 and V3 pools")]
    Mixed,
    /// The parts are not the whole.
    #[error("the parts of its paths do not add up to the requested amount")]
    Amounts,
    /// A part too small to count.
    #[error("a path takes less than a hundredth of a percent of the amount")]
    TinyPart,
    /// The pools cannot fill it.
    #[error("its pools have too little liquidity for the amount")]
    CannotFill,
    /// The request itself makes no sense here.
    #[error(transparent)]
    Route(#[from] RouteError),
}

/// The route along `named`, counted over `pools`.
///
/// # Errors
/// See [`RebuildError`].
pub fn rebuild(pools: &PoolSet, request: &RouteRequest, named: &[NamedPath]) -> Result<Route, RebuildError> {
    if named.is_empty() || named.len() > MOST_PATHS {
        return Err(RebuildError::Paths(named.len()));
    }
    let total = request.exact.amount();
    let sum = named.iter().try_fold(U256::ZERO, |sum, path| sum.checked_add(path.amount));
    if sum != Some(total) {
        return Err(RebuildError::Amounts);
    }
    let search = Search::new(pools, request)?;
    let mut taken = BTreeSet::new();
    let mut legs = Vec::with_capacity(named.len());
    for path in named {
        legs.push((path_of(pools, request, path, &mut taken)?, share(path.amount, total)?));
    }
    // Shares were rounded down: what is left over goes with the first, as it does with the amounts.
    let given: u32 = legs.iter().map(|(_, share)| *share).sum();
    if let Some((_, first)) = legs.first_mut() {
        *first += 10_000_u32.saturating_sub(given);
    }
    assemble(&search, &legs).ok_or(RebuildError::CannotFill)
}

fn path_of(
    pools: &PoolSet,
    request: &RouteRequest,
    named: &NamedPath,
    taken: &mut BTreeSet<Address>,
) -> Result<Path, RebuildError> {
    if named.pools.is_empty() || named.pools.len() > MAX_HOPS {
        return Err(RebuildError::Hops(named.pools.len()));
    }
    let mut token = request.token_in;
    let mut path = Path::EMPTY;
    let mut versions = BTreeSet::new();
    for address in &named.pools {
        if !taken.insert(*address) {
            return Err(RebuildError::PoolTwice(*address));
        }
        let at = pools.index(*address).ok_or(RebuildError::UnknownPool(*address))?;
        let pool = pools.pool(at).ok_or(RebuildError::UnknownPool(*address))?;
        let zero_for_one = pool.zero_for_one(token).map_err(|_| RebuildError::NotAChain(*address))?;
        let (token0, token1) = pool.tokens();
        token = if zero_for_one { token1 } else { token0 };
        versions.insert(pool.version());
        path = path.then(Step { pool: at, zero_for_one });
    }
    if token != request.token_out {
        return Err(RebuildError::OtherToken(token));
    }
    if versions.len() > 1 && !request.mixed_paths {
        return Err(RebuildError::Mixed);
    }
    Ok(path)
}

/// A part of the whole in basis points, rounded down.
fn share(part: U256, total: U256) -> Result<u32, RebuildError> {
    let points = (U512::from(part) * U512::from(10_000)).checked_div(U512::from(total)).unwrap_or_default();
    let points: u32 = points.saturating_to();
    if points == 0 { Err(RebuildError::TinyPart) } else { Ok(points.min(10_000)) }
}
