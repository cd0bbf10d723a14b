//! Search for the best simple paths of up to three pools for one amount. Gas depends on the ticks that an amount
//! crosses, so amounts alone do not eliminate a path. Paths are bounded (see `bound`), complete ones and their beginnings;
//! the most promising are continued or quoted first, and the search ends when no remaining bound exceeds the best score.

use std::cell::Cell;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use alloy::primitives::{I256, U256};

use super::bound::{Rate, side};
use super::graph::{PathStep, PoolEdge, PoolPath, PoolSet};
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
    /// Best rate from each token to the destination: in one hop, and in at most two. It ignores which versions may
    /// follow each other, so it can only be too good.
    ahead: [Vec<Option<Rate>>; MAX_HOPS - 1],
    /// For an exact input, the most that any pool can give of the output token. Where an amount is far beyond the depth, this
    /// and [`PartialPath::most`] say more than the prices.
    most_received: U256,
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
    /// Exact amount and gas after the first pool.
    amount: U256,
    first_gas: u64,
    /// Bound over the pools after the first.
    rest: Rate,
    /// For an exact input, what the pools after the first can give at most, however much goes in.
    most: U256,
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

/// Upper bound of the score of a path, or of all paths with this beginning. The maximum is the most promising one. Ties
/// prefer beginnings, so that a path comes only after all with its bound are known, and then the lowest path.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ScoreBound {
    score: I256,
    is_beginning: bool,
    path: Reverse<PoolPath>,
    /// Place among the partial paths of the search.
    at: usize,
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
        let (ahead, most_received, exhausted) = (Default::default(), U256::MAX, Cell::new(false));
        let mut search =
            Self { pools, request, origin, destination, distances, max_hops, ahead, most_received, exhausted };
        search.most_received = search.most_into_destination();
        let in_one = search.best_rates(None);
        let in_two = search.best_rates(Some(&in_one));
        search.ahead = [in_one, in_two];
        if search.any_path(&search.start()) { Ok(search) } else { Err(no_route) }
    }

    /// Returns the best rate from each token to the destination: in one hop, or by way of another token that reaches it
    /// at the rate `ahead`.
    fn best_rates(&self, ahead: Option<&[Option<Rate>]>) -> Vec<Option<Rate>> {
        (0..self.pools.tokens().len()).map(|token| self.best_rate(token, ahead)).collect()
    }

    fn best_rate(&self, token: usize, ahead: Option<&[Option<Rate>]>) -> Option<Rate> {
        let edges = self.pools.edges_of(token).iter().filter(|edge| edge.to != self.origin);
        let rates = edges.filter_map(|edge| {
            if !self.is_allowed(self.pools.pool(edge.pool)?) {
                return None;
            }
            let rate = self.rate(&self.step(edge))?;
            if edge.to == self.destination {
                return Some(rate);
            }
            rate.times(ahead?.get(edge.to).copied().flatten()?, self.forwards())
        });
        rates.reduce(|one, other| if self.forwards() { one.max(other) } else { one.min(other) })
    }

    /// Most that any pool can give of the destination's token; no bound for an exact output.
    fn most_into_destination(&self) -> U256 {
        // A pool's edges at the destination lead away from it, so the other direction is asked.
        let edges = self.pools.edges_of(self.destination).iter();
        let pools = edges.filter_map(|edge| Some((self.pools.pool(edge.pool)?, !edge.zero_for_one)));
        let most = pools.map(|(pool, zero_for_one)| pool.most_out(zero_for_one)).max();
        most.filter(|_| self.forwards()).unwrap_or(U256::MAX)
    }

    /// Returns the best rate of all paths.
    fn reach(&self) -> Option<Rate> {
        let ahead = self.max_hops.checked_sub(2).and_then(|at| self.ahead.get(at));
        self.best_rate(self.origin, ahead.map(Vec::as_slice))
    }

    /// Finds the paths that can fill `amount` of the fixed side: always the best one, and those among the `at_least`
    /// most promising.
    pub(super) fn paths(&self, amount: U256, at_least: usize) -> FoundPaths {
        let mut partial = Vec::new();
        let mut bounds = BinaryHeap::new();
        self.begin(amount, &mut partial, &mut bounds);
        let mut found: Vec<ScoredPath> = Vec::new();
        let mut best: Option<I256> = None;
        let mut tried = 0usize;
        while let Some(ScoreBound { score: bound, is_beginning, at, .. }) = bounds.pop() {
            if tried >= at_least && best.is_some_and(|best| bound < best) {
                break;
            }
            let Some(walk) = partial.get(at).copied() else { continue };
            if is_beginning {
                self.advance(&walk, &mut partial, &mut bounds);
                continue;
            }
            tried += 1;
            let Some((made, gas_units)) = self.quote_rest(&walk) else { continue };
            let (path, score) = (walk.path, self.score(made, gas_units));
            best = best.max(Some(score));
            found.push(ScoredPath { path, score, gas_units });
        }
        found.sort_unstable_by(ScoredPath::rank);
        FoundPaths { found, reach: self.reach() }
    }

    /// Quotes the pools after the first of a complete path; returns the other side's amount and the gas.
    fn quote_rest(&self, walk: &PartialPath) -> Option<(U256, u64)> {
        self.quote_steps(walk.path, 1, (walk.amount, walk.first_gas))
    }

    /// Returns an upper bound of the score of any route with two or more legs.
    pub(super) fn split_bound(&self, paths: &FoundPaths) -> I256 {
        let leg = self.request.gas_model.leg.saturating_add(self.least_hop_gas());
        let made = paths.reach.map(|reach| reach.apply(self.request.exact.amount(), self.forwards()));
        made.map_or(I256::MIN, |made| self.score(made, leg.saturating_mul(2)))
    }

    /// Quotes `amount` of the fixed side along a path; returns the other side's amount and the gas.
    pub(super) fn quote_path(&self, path: &PoolPath, amount: U256) -> Option<(U256, u64)> {
        self.quote_steps(*path, 0, (amount, self.request.gas_model.leg))
    }

    /// Quotes the steps of a walk along `path` after the first `done`, from the amount and gas before them.
    fn quote_steps(&self, path: PoolPath, done: usize, before: (U256, u64)) -> Option<(U256, u64)> {
        let swap = |(amount, gas_units): (U256, u64), step: &PathStep| {
            let quote = self.quote(step, amount)?;
            Some((self.carried(&quote), gas_units.saturating_add(self.hop_gas(step, &quote)?)))
        };
        if self.forwards() {
            path.steps().iter().skip(done).try_fold(before, swap)
        } else {
            path.steps().iter().rev().skip(done).try_fold(before, swap)
        }
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

    fn start(&self) -> PartialPath {
        let gas = self.request.gas_model.leg;
        PartialPath {
            path: PoolPath::EMPTY,
            token: self.origin,
            visited: [self.origin; MAX_HOPS],
            hops: 0,
            amount: U256::ZERO,
            first_gas: gas,
            rest: Rate::ONE,
            most: U256::MAX,
            gas_units: gas,
            previous: None,
        }
    }

    fn any_path(&self, from: &PartialPath) -> bool {
        let mut next = self.edges_on(from).filter(|(edge, _)| self.rate(&self.step(edge)).is_some());
        next.any(|(edge, _)| edge.to == self.destination || self.any_path(&self.along(from, edge)))
    }

    /// Edges on which `from` can continue, with their pools.
    fn edges_on(&self, from: &PartialPath) -> impl Iterator<Item = (&'a PoolEdge, &'a Pool)> {
        let (from, hops) = (*from, from.hops + 1);
        self.pools.edges_of(from.token).iter().filter_map(move |edge| {
            // Hops still needed from there; `usize::MAX` if the destination is out of reach.
            let beyond = self.distances.get(edge.to).copied().unwrap_or(usize::MAX);
            if beyond > self.max_hops - hops || from.visited.contains(&edge.to) {
                return None;
            }
            let pool = self.pools.pool(edge.pool)?;
            self.is_open(pool, &from).then_some((edge, pool))
        })
    }

    /// Step of a path along an edge.
    fn step(&self, edge: &PoolEdge) -> PathStep {
        PathStep { pool: edge.pool, zero_for_one: edge.zero_for_one == self.forwards() }
    }

    /// Bound of a step; `None` for a pool without a price, which cannot swap.
    fn rate(&self, step: &PathStep) -> Option<Rate> {
        side(self.pools.rates(step), self.request.exact)
    }

    /// The path `from`, continued along an edge.
    fn along(&self, from: &PartialPath, edge: &PoolEdge) -> PartialPath {
        let step = self.step(edge);
        let path = if self.forwards() { from.path.then(step) } else { from.path.after(step) };
        let hops = from.hops + 1;
        let mut next = PartialPath { path, token: edge.to, hops, previous: Some(edge.pool), ..*from };
        if let Some(slot) = next.visited.get_mut(hops) {
            *slot = edge.to;
        }
        next
    }

    /// Adds every first pool that can fill the amount.
    fn begin(&self, amount: U256, partial: &mut Vec<PartialPath>, bounds: &mut BinaryHeap<ScoreBound>) {
        let start = self.start();
        for (edge, _) in self.edges_on(&start) {
            let step = self.step(edge);
            let quoted = self.rate(&step).and_then(|_| self.quote(&step, amount));
            let Some((quote, gas)) = quoted.and_then(|quote| Some((quote, self.hop_gas(&step, &quote)?))) else {
                continue;
            };
            let gas = start.gas_units.saturating_add(gas);
            let next = self.along(&start, edge);
            let next = PartialPath { amount: self.carried(&quote), first_gas: gas, gas_units: gas, ..next };
            self.add(next, partial, bounds);
        }
    }

    /// Adds every continuation of a partial path by one pool.
    fn advance(&self, from: &PartialPath, partial: &mut Vec<PartialPath>, bounds: &mut BinaryHeap<ScoreBound>) {
        for (edge, pool) in self.edges_on(from) {
            let Some(rate) = self.rate(&self.step(edge)) else { continue };
            let Some(rest) = from.rest.times(rate, self.forwards()) else { continue };
            let most = self.most_of(pool, edge, rate.apply(from.most, true));
            let gas_units = from.gas_units.saturating_add(self.request.gas_model.hop(pool.version(), 0));
            self.add(PartialPath { rest, most, gas_units, ..self.along(from, edge) }, partial, bounds);
        }
    }

    /// Bound of a pool's output: its holdings, or `before`, the bound by its price. No bound for an exact output.
    fn most_of(&self, pool: &Pool, edge: &PoolEdge, before: U256) -> U256 {
        if self.forwards() { before.min(pool.most_out(edge.zero_for_one)) } else { U256::MAX }
    }

    /// Adds a path with its bound. A beginning without a continuation is left out.
    fn add(&self, walk: PartialPath, partial: &mut Vec<PartialPath>, bounds: &mut BinaryHeap<ScoreBound>) {
        let is_beginning = walk.token != self.destination;
        let (rest, most, gas_units) = if is_beginning {
            // One or two hops are left.
            let ahead = self.ahead.get((self.max_hops - walk.hops).saturating_sub(1));
            let ahead = ahead.and_then(|rates| rates.get(walk.token).copied().flatten());
            let rest = ahead.and_then(|ahead| walk.rest.times(ahead, self.forwards())?.loosened(self.forwards()));
            let Some(rest) = rest else { return };
            (rest, self.most_received, walk.gas_units.saturating_add(self.least_hop_gas()))
        } else {
            (walk.rest, walk.most, walk.gas_units)
        };
        let made = rest.apply(walk.amount, self.forwards());
        let score = self.score(if self.forwards() { made.min(most) } else { made }, gas_units);
        bounds.push(ScoreBound { score, is_beginning, path: Reverse(walk.path), at: partial.len() });
        partial.push(walk);
    }

    fn least_hop_gas(&self) -> u64 {
        let model = &self.request.gas_model;
        model.v2_hop.min(model.v3_hop).min(model.v4_hop)
    }

    /// Returns true if the request allows `pool` at all.
    fn is_allowed(&self, pool: &Pool) -> bool {
        let unpaid = pool.is_native_at(self.request.token_in) && !self.request.pays_native;
        !unpaid && (pool.version() != ProtocolVersion::V4 || self.request.v4)
    }

    /// Returns true if the request allows `pool` as the next one of a walk.
    fn is_open(&self, pool: &Pool, from: &PartialPath) -> bool {
        if !self.is_allowed(pool) {
            return false;
        }
        let (Some(before), Some(shared)) = (
            from.previous.and_then(|at| self.pools.pool(at)).filter(|_| !self.request.mixed_paths),
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
