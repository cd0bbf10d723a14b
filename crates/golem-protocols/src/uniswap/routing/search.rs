//! Search for the best simple paths of up to three pools for one amount. Gas depends on the ticks that an amount
//! crosses, so amounts alone do not eliminate a path. All paths are bounded (see `bound`), the most promising are
//! quoted first, and the search ends when no remaining bound exceeds the best score.

use std::cell::Cell;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::ops::ControlFlow;

use alloy::primitives::{I256, U256};

use super::bound::{Rate, side};
use super::graph::{PathStep, PoolPath, PoolSet};
use super::{MAX_HOPS, RouteError, RouteRequest};
use crate::uniswap::pool::{FixedAmount, Pool, PoolError, PoolQuote, ProtocolVersion};

/// Path with its score for the given amount.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScoredPath {
    pub(super) path: PoolPath,
    /// Score after gas; see [`PathSearch::score`].
    pub(super) score: I256,
    pub(super) gas_units: u64,
}

impl ScoredPath {
    /// Orders by score, best first.
    pub(super) fn rank(&self, other: &Self) -> Ordering {
        let key = |found: &Self| (Reverse(found.score), found.gas_units, found.path);
        key(self).cmp(&key(other))
    }
}

/// Search for one request over one set of pools.
pub(super) struct PathSearch<'a> {
    pub(super) pools: &'a PoolSet,
    pub(super) request: &'a RouteRequest,
    /// Start and end of the walk, which follows the fixed amount: backwards for an exact output.
    origin: usize,
    destination: usize,
    distances: Vec<usize>,
    max_hops: usize,
    /// True if any pool ran out of liquidity. This distinguishes "too much" from "too little".
    exhausted: Cell<bool>,
}

/// Partial path up to `token`.
#[derive(Clone, Copy)]
struct PartialPath {
    path: PoolPath,
    token: usize,
    visited: [usize; MAX_HOPS],
    hops: usize,
    /// Exact result of the first pool for the amount; `None` if it cannot fill it.
    amount: Option<U256>,
    /// Bounds over all pools, and over those after the first.
    whole: Rate,
    rest: Rate,
    /// Exact for the first pool; without ticks for the others.
    gas_units: u64,
    /// Pool before, on the walk.
    previous: Option<usize>,
}

/// Paths found for one amount, best first, and the best rate of all paths for any amount.
pub(super) struct FoundPaths {
    pub(super) found: Vec<ScoredPath>,
    reach: Option<Rate>,
}

/// Upper bound of a path's score. The maximum is the most promising one; ties prefer the lowest path.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ScoreBound {
    score: I256,
    path: Reverse<PoolPath>,
}

impl<'a> PathSearch<'a> {
    pub(super) fn new(pools: &'a PoolSet, request: &'a RouteRequest) -> Result<Self, RouteError> {
        let (token_in, token_out) = (request.token_in, request.token_out);
        if token_in == token_out {
            return Err(RouteError::SameToken { token: token_in });
        }
        if request.exact.amount().is_zero() {
            return Err(RouteError::ZeroAmount);
        }
        if request.exact.amount() >= U256::from(1) << 255 {
            return Err(RouteError::AmountTooLarge);
        }
        let max_hops = request.max_hops.clamp(1, MAX_HOPS);
        let no_route = RouteError::NoRoute { token_in, token_out, max_hops };
        let (Some(from), Some(to)) = (pools.token_index(token_in), pools.token_index(token_out)) else {
            return Err(no_route);
        };
        let (origin, destination) = if matches!(request.exact, FixedAmount::In(_)) { (from, to) } else { (to, from) };
        let distances = pools.distances(destination);
        let search = Self { pools, request, origin, destination, distances, max_hops, exhausted: Cell::new(false) };
        if search.any_path() { Ok(search) } else { Err(no_route) }
    }

    /// Finds the paths that can fill `amount` of the fixed side: always the best one, and those among the `at_least`
    /// most promising.
    pub(super) fn paths(&self, amount: U256, at_least: usize) -> FoundPaths {
        let (bounds, reach) = self.bounds(amount);
        let mut bounds = BinaryHeap::from(bounds);
        let mut found: Vec<ScoredPath> = Vec::new();
        let mut best: Option<I256> = None;
        let mut tried = 0usize;
        while let Some(ScoreBound { score: bound, path: Reverse(path) }) = bounds.pop() {
            if tried >= at_least && best.is_some_and(|best| bound < best) {
                break;
            }
            tried += 1;
            let Some((made, gas_units)) = self.quote_path(&path, amount) else { continue };
            let score = self.score(made, gas_units);
            best = best.max(Some(score));
            found.push(ScoredPath { path, score, gas_units });
        }
        found.sort_unstable_by(ScoredPath::rank);
        FoundPaths { found, reach }
    }

    /// Returns an upper bound of the score of any route with two or more legs.
    pub(super) fn split_bound(&self, paths: &FoundPaths) -> I256 {
        let model = &self.request.gas_model;
        let leg = model.leg.saturating_add(model.v2_hop.min(model.v3_hop).min(model.v4_hop));
        let made = paths.reach.map(|reach| reach.apply(self.request.exact.amount(), self.forwards()));
        made.map_or(I256::MIN, |made| self.score(made, leg.saturating_mul(2)))
    }

    /// Quotes `amount` of the fixed side along a path; returns the other side's amount and the gas.
    pub(super) fn quote_path(&self, path: &PoolPath, amount: U256) -> Option<(U256, u64)> {
        let mut gas_units = self.request.gas_model.leg;
        let mut amount = amount;
        let mut swap = |step: &PathStep| {
            let quote = self.quote(step, amount)?;
            gas_units = gas_units.saturating_add(self.hop_gas(step, &quote)?);
            amount = self.carried(&quote);
            Some(())
        };
        if self.forwards() {
            path.steps().iter().try_for_each(&mut swap)?;
        } else {
            path.steps().iter().rev().try_for_each(&mut swap)?;
        }
        Some((amount, gas_units))
    }

    /// Returns the quotes of each pool along a path, in trading order.
    pub(super) fn quote_hops(&self, path: &PoolPath, amount: U256) -> Option<Vec<PoolQuote>> {
        let mut amount = amount;
        let mut quotes = Vec::with_capacity(MAX_HOPS);
        let mut swap = |step: &PathStep| {
            let quote = self.quote(step, amount)?;
            amount = self.carried(&quote);
            quotes.push(quote);
            Some(())
        };
        if self.forwards() {
            path.steps().iter().try_for_each(&mut swap)?;
        } else {
            path.steps().iter().rev().try_for_each(&mut swap)?;
            quotes.reverse();
        }
        Some(quotes)
    }

    /// Scores the other side's amount after gas; higher is better. For an exact input this is the output minus gas, for
    /// an exact output the negative sum of input and gas.
    pub(super) fn score(&self, amount: U256, gas_units: u64) -> I256 {
        let signed = |amount: U256| I256::try_from(amount).unwrap_or(I256::MAX);
        let cost = signed(self.request.gas.map_or(U256::ZERO, |gas| gas.of(gas_units)));
        let gain = if self.forwards() { signed(amount) } else { -signed(amount) };
        gain.saturating_sub(cost)
    }

    /// Returns the reason why no route was found although pools join the tokens.
    pub(super) fn refusal(&self) -> RouteError {
        let (token_in, token_out) = (self.request.token_in, self.request.token_out);
        if self.exhausted.get() {
            RouteError::InsufficientLiquidity { token_in, token_out }
        } else {
            RouteError::AmountTooSmall { token_out }
        }
    }

    fn forwards(&self) -> bool {
        matches!(self.request.exact, FixedAmount::In(_))
    }

    fn start(&self, amount: Option<U256>) -> PartialPath {
        let gas_units = self.request.gas_model.leg;
        let visited = [self.origin; MAX_HOPS];
        let (whole, rest) = (Rate::ONE, Rate::ONE);
        PartialPath {
            path: PoolPath::EMPTY,
            token: self.origin,
            visited,
            hops: 0,
            amount,
            whole,
            rest,
            gas_units,
            previous: None,
        }
    }

    fn any_path(&self) -> bool {
        self.walk(&self.start(None), &mut |_| ControlFlow::Break(())).is_break()
    }

    /// Returns a bound for every path whose first pool can fill the amount, and the best rate of any path.
    fn bounds(&self, amount: U256) -> (Vec<ScoreBound>, Option<Rate>) {
        let mut bounds = Vec::new();
        let mut reach: Option<Rate> = None;
        let _ = self.walk(&self.start(Some(amount)), &mut |walk| {
            let better = |reach: Rate| if self.forwards() { walk.whole.max(reach) } else { walk.whole.min(reach) };
            reach = Some(reach.map_or(walk.whole, better));
            if let Some(amount) = walk.amount {
                let score = self.score(walk.rest.apply(amount, self.forwards()), walk.gas_units);
                bounds.push(ScoreBound { score, path: Reverse(walk.path) });
            }
            ControlFlow::Continue(())
        });
        (bounds, reach)
    }

    /// Visits every complete path that continues from `from`.
    fn walk(&self, from: &PartialPath, visit: &mut dyn FnMut(&PartialPath) -> ControlFlow<()>) -> ControlFlow<()> {
        let hops = from.hops + 1;
        for edge in self.pools.edges_of(from.token) {
            // Hops still needed from there; `usize::MAX` if the destination is out of reach.
            let beyond = self.distances.get(edge.to).copied().unwrap_or(usize::MAX);
            if beyond > self.max_hops - hops || from.visited.contains(&edge.to) {
                continue;
            }
            let Some(pool) = self.pools.pool(edge.pool) else { continue };
            if !self.is_open(pool, from) {
                continue;
            }
            let version = pool.version();
            let step = PathStep { pool: edge.pool, zero_for_one: edge.zero_for_one == self.forwards() };
            let path = if self.forwards() { from.path.then(step) } else { from.path.after(step) };
            let mut next = PartialPath { path, token: edge.to, hops, previous: Some(edge.pool), ..*from };
            // A pool without a price cannot swap.
            let Some(rate) = side(self.pools.rates(&step), self.request.exact) else { continue };
            let Some(whole) = from.whole.times(rate, self.forwards()) else { continue };
            next.whole = whole;
            if hops == 1 {
                let quote = from.amount.and_then(|amount| self.quote(&step, amount));
                let gas = quote.and_then(|quote| self.hop_gas(&step, &quote)).unwrap_or_default();
                next.amount = quote.map(|quote| self.carried(&quote));
                next.gas_units = from.gas_units.saturating_add(gas);
            } else {
                let Some(rest) = from.rest.times(rate, self.forwards()) else { continue };
                next.rest = rest;
                next.gas_units = from.gas_units.saturating_add(self.request.gas_model.hop(version, 0));
            }
            if edge.to == self.destination {
                visit(&next)?;
            } else if let Some(slot) = next.visited.get_mut(hops) {
                *slot = edge.to;
                self.walk(&next, visit)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Returns true if the request allows `pool` as the next one of a walk.
    fn is_open(&self, pool: &Pool, from: &PartialPath) -> bool {
        let request = self.request;
        let unpaid = pool.is_native_at(request.token_in) && !request.pays_native;
        if (pool.version() == ProtocolVersion::V4 && !request.v4) || unpaid {
            return false;
        }
        let (Some(before), Some(shared)) = (
            from.previous.and_then(|at| self.pools.pool(at)).filter(|_| !request.mixed_paths),
            self.pools.tokens().get(from.token),
        ) else {
            return true;
        };
        // One command has one version, and passes on one currency: the native token or its wrapped token.
        before.version() == pool.version() && before.is_native_at(*shared) == pool.is_native_at(*shared)
    }

    /// Quotes one hop; an output of zero counts as a failure.
    fn quote(&self, step: &PathStep, amount: U256) -> Option<PoolQuote> {
        let exact = if self.forwards() { FixedAmount::In(amount) } else { FixedAmount::Out(amount) };
        match self.pools.pool(step.pool)?.quote(step.zero_for_one, exact) {
            Ok(quote) if quote.amount_out.is_zero() => None,
            Ok(quote) => Some(quote),
            Err(PoolError::ZeroAmount) => None,
            Err(_) => {
                self.exhausted.set(true);
                None
            }
        }
    }

    /// Returns the amount that a hop passes to the next one on the walk.
    fn carried(&self, quote: &PoolQuote) -> U256 {
        if self.forwards() { quote.amount_out } else { quote.amount_in }
    }

    fn hop_gas(&self, step: &PathStep, quote: &PoolQuote) -> Option<u64> {
        Some(self.request.gas_model.hop(self.pools.pool(step.pool)?.version(), quote.ticks_crossed))
    }
}
