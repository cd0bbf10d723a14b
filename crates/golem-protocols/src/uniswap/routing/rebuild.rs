//! Recomputation of a route named by another source. The source determines the pools and the amount through each path;
//! the result is computed here. Its prices, tokens and fees are not used.

use std::collections::BTreeSet;

use alloy::primitives::{Address, U256, U512};

use super::graph::{PathStep, PoolPath, PoolSet};
use super::search::PathSearch;
use super::{MAX_HOPS, Route, RouteError, RouteRequest, assemble};
use crate::uniswap::pool::ProtocolVersion;
use crate::uniswap::pool_id::PoolId;

/// Maximum number of paths accepted from another source; other routers split over up to seven.
pub const MAX_PATHS: usize = 8;

/// Path named by another source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPath {
    /// Pools in trading order.
    pub pools: Vec<PoolId>,
    /// Part of the fixed amount, in raw units.
    pub amount: U256,
}

/// Error for a named route that is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RebuildError {
    /// No paths or too many paths.
    #[error("it has {0} paths; 1 to {MAX_PATHS} are accepted")]
    Paths(usize),
    /// Path without pools or with too many pools.
    #[error("a path has {0} pools; 1 to {MAX_HOPS} are accepted")]
    Hops(usize),
    /// Identity that is not a pool of the known factories between the named tokens.
    #[error("{0} is not a Uniswap V2 or V3 pool of this chain's factories")]
    UnknownPool(PoolId),
    /// Pool that does not contain the path's token at that point.
    #[error("the pool {0} does not have the token that the path delivers to it")]
    NotAChain(PoolId),
    /// V4 pool that the request does not allow, or that would have to be paid with the native token.
    #[error("the pool {0} cannot be reached by this trade")]
    Unreachable(PoolId),
    /// Path that ends in another token.
    #[error("a path ends in {0}, not in the requested token")]
    OtherToken(Address),
    /// Pool that is used twice: the second swap would get another price than quoted.
    #[error("the pool {0} is used twice")]
    PoolTwice(PoolId),
    /// Exact output over pools of several versions, which cannot follow price movements.
    #[error("a path of an exact output mixes pools of several versions")]
    Mixed,
    /// Parts that do not add up to the amount.
    #[error("the parts of its paths do not add up to the requested amount")]
    Amounts,
    /// Part below one basis point of the amount.
    #[error("a path takes less than a hundredth of a percent of the amount")]
    TinyPart,
    /// Amount that the pools cannot fill.
    #[error("its pools have too little liquidity for the amount")]
    CannotFill,
    /// Request that is not valid.
    #[error(transparent)]
    Route(#[from] RouteError),
}

/// Computes the route along the paths `named` over `pools`.
///
/// # Errors
/// Returns a [`RebuildError`] if the paths are not a valid route.
pub fn rebuild(pools: &PoolSet, request: &RouteRequest, named: &[NamedPath]) -> Result<Route, RebuildError> {
    if named.is_empty() || named.len() > MAX_PATHS {
        return Err(RebuildError::Paths(named.len()));
    }
    let total = request.exact.amount();
    let sum = named.iter().try_fold(U256::ZERO, |sum, path| sum.checked_add(path.amount));
    if sum != Some(total) {
        return Err(RebuildError::Amounts);
    }
    let search = PathSearch::new(pools, request)?;
    let mut taken = BTreeSet::new();
    let mut legs = Vec::with_capacity(named.len());
    for path in named {
        legs.push((path_of(pools, request, path, &mut taken)?, share(path.amount, total)?));
    }
    // Shares were rounded down. The remainder goes to the first path, as with the amounts.
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
    taken: &mut BTreeSet<PoolId>,
) -> Result<PoolPath, RebuildError> {
    if named.pools.is_empty() || named.pools.len() > MAX_HOPS {
        return Err(RebuildError::Hops(named.pools.len()));
    }
    let mut token = request.token_in;
    let mut path = PoolPath::EMPTY;
    let mut versions = BTreeSet::new();
    for id in &named.pools {
        if !taken.insert(*id) {
            return Err(RebuildError::PoolTwice(*id));
        }
        let at = pools.index(*id).ok_or(RebuildError::UnknownPool(*id))?;
        let pool = pools.pool(at).ok_or(RebuildError::UnknownPool(*id))?;
        let zero_for_one = pool.zero_for_one(token).map_err(|_| RebuildError::NotAChain(*id))?;
        let (token0, token1) = pool.tokens();
        token = if zero_for_one { token1 } else { token0 };
        if (pool.version() == ProtocolVersion::V4 && !request.v4)
            || (pool.is_native_at(request.token_in) && !request.pays_native)
        {
            return Err(RebuildError::Unreachable(*id));
        }
        versions.insert(pool.version());
        path = path.then(PathStep { pool: at, zero_for_one });
    }
    if token != request.token_out {
        return Err(RebuildError::OtherToken(token));
    }
    if versions.len() > 1 && !request.mixed_paths {
        return Err(RebuildError::Mixed);
    }
    Ok(path)
}

/// Returns a part of the whole in basis points, rounded down.
///
/// # Errors
/// [`RebuildError::TinyPart`] below one basis point.
fn share(part: U256, total: U256) -> Result<u32, RebuildError> {
    let points = (U512::from(part) * U512::from(10_000)).checked_div(U512::from(total)).unwrap_or_default();
    let points: u32 = points.saturating_to();
    if points == 0 { Err(RebuildError::TinyPart) } else { Ok(points.min(10_000)) }
}
