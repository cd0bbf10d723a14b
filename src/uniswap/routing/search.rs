//! Every simple path of up to three pools, with what it gives for one amount. Complete on purpose:
//! gas depends on the ticks an amount crosses, so no path can be dropped for another before both
//! are swapped. What paths share from their start is swapped once.

use std::cell::Cell;
use std::cmp::{Ordering, Reverse};
use std::ops::ControlFlow;

use alloy::primitives::{I256, U256};

use super::graph::{Path, PoolSet, Step};
use super::{MAX_HOPS, RouteError, RouteRequest};
use crate::uniswap::pool::{Exact, Pool, PoolError, PoolQuote, Version};

/// A path and what it makes of the amount it was given.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) path: Path,
    /// See [`Search::score`].
    pub(super) score: I256,
    pub(super) gas_units: u64,
}

impl Found {
    /// Best first.
    pub(super) fn rank(&self, other: &Self) -> Ordering {
        let key = |found: &Self| (Reverse(found.score), found.gas_units, found.path);
        key(self).cmp(&key(other))
    }
}

/// One request over one set of pools.
pub(super) struct Search<'a> {
    pub(super) pools: &'a PoolSet,
    pub(super) request: &'a RouteRequest,
    /// Where the walk starts and ends: it follows the fixed side, so backwards for an exact output.
    origin: usize,
    destination: usize,
    distances: Vec<usize>,
    max_hops: usize,
    /// Whether a pool ran out somewhere: tells "too much" from "too little".
    exhausted: Cell<bool>,
}

/// A walk that has come as far as `token`.
#[derive(Clone, Copy)]
struct Walk {
    path: Path,
    token: usize,
    visited: [usize; MAX_HOPS],
    hops: usize,
    amount: U256,
    gas_units: u64,
    version: Option<Version>,
}

impl<'a> Search<'a> {
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
        let (origin, destination) = if matches!(request.exact, Exact::In(_)) { (from, to) } else { (to, from) };
        let distances = pools.distances(destination);
        let search = Self { pools, request, origin, destination, distances, max_hops, exhausted: Cell::new(false) };
        if search.any_path() { Ok(search) } else { Err(no_route) }
    }

    /// All paths that can fill `amount` of the fixed side, best first.
    pub(super) fn paths(&self, amount: U256) -> Vec<Found> {
        let mut found = Vec::new();
        let _ = self.walk(&self.start(amount), true, &mut |walk| {
            let score = self.score(walk.amount, walk.gas_units);
            found.push(Found { path: walk.path, score, gas_units: walk.gas_units });
            ControlFlow::Continue(())
        });
        found.sort_unstable_by(Found::rank);
        found
    }

    /// What `amount` of the fixed side makes of the other along a path, and its gas.
    pub(super) fn quote_path(&self, path: &Path, amount: U256) -> Option<(U256, u64)> {
        let mut gas_units = self.request.gas_model.leg;
        let mut amount = amount;
        let mut swap = |step: &Step| {
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

    /// The quotes along a path in the order of the trade.
    pub(super) fn quote_hops(&self, path: &Path, amount: U256) -> Option<Vec<PoolQuote>> {
        let mut amount = amount;
        let mut quotes = Vec::with_capacity(MAX_HOPS);
        let mut swap = |step: &Step| {
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

    /// The other side's amount after gas, higher is better: what comes out less the gas, or minus
    /// what goes in and the gas.
    pub(super) fn score(&self, amount: U256, gas_units: u64) -> I256 {
        let signed = |amount: U256| I256::try_from(amount).unwrap_or(I256::MAX);
        let cost = signed(self.request.gas.map_or(U256::ZERO, |gas| gas.of(gas_units)));
        let gain = if self.forwards() { signed(amount) } else { -signed(amount) };
        gain.saturating_sub(cost)
    }

    /// Why nothing was found, when the tokens are joined.
    pub(super) fn refusal(&self) -> RouteError {
        let (token_in, token_out) = (self.request.token_in, self.request.token_out);
        if self.exhausted.get() {
            RouteError::InsufficientLiquidity { token_in, token_out }
        } else {
            RouteError::AmountTooSmall { token_out }
        }
    }

    fn forwards(&self) -> bool {
        matches!(self.request.exact, Exact::In(_))
    }

    fn start(&self, amount: U256) -> Walk {
        let gas_units = self.request.gas_model.leg;
        let visited = [self.origin; MAX_HOPS];
        Walk { path: Path::EMPTY, token: self.origin, visited, hops: 0, amount, gas_units, version: None }
    }

    fn any_path(&self) -> bool {
        self.walk(&self.start(U256::ZERO), false, &mut |_| ControlFlow::Break(())).is_break()
    }

    /// Visits every complete path that goes on from `from`, swapping along it if `swapping`.
    fn walk(&self, from: &Walk, swapping: bool, visit: &mut dyn FnMut(&Walk) -> ControlFlow<()>) -> ControlFlow<()> {
        let hops = from.hops + 1;
        for edge in self.pools.edges_of(from.token) {
            // Hops still needed from there; further than any path reaches is `usize::MAX`.
            let beyond = self.distances.get(edge.to).copied().unwrap_or(usize::MAX);
            if beyond > self.max_hops - hops || from.visited.contains(&edge.to) {
                continue;
            }
            let Some(version) = self.pools.pool(edge.pool).map(Pool::version) else { continue };
            if !self.request.mixed_paths && from.version.is_some_and(|before| before != version) {
                continue;
            }
            let zero_for_one = edge.zero_for_one == self.forwards();
            let step = Step { pool: edge.pool, zero_for_one };
            let path = if self.forwards() { from.path.then(step) } else { from.path.after(step) };
            let mut next = Walk { path, token: edge.to, hops, version: Some(version), ..*from };
            if swapping {
                let Some(quote) = self.quote(&step, from.amount) else { continue };
                let Some(gas) = self.hop_gas(&step, &quote) else { continue };
                next.amount = self.carried(&quote);
                next.gas_units = from.gas_units.saturating_add(gas);
            }
            if edge.to == self.destination {
                visit(&next)?;
            } else if let Some(slot) = next.visited.get_mut(hops) {
                *slot = edge.to;
                self.walk(&next, swapping, visit)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// One hop; an output of nothing counts as none.
    fn quote(&self, step: &Step, amount: U256) -> Option<PoolQuote> {
        let exact = if self.forwards() { Exact::In(amount) } else { Exact::Out(amount) };
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

    /// What a hop hands to the next one on the walk.
    fn carried(&self, quote: &PoolQuote) -> U256 {
        if self.forwards() { quote.amount_out } else { quote.amount_in }
    }

    fn hop_gas(&self, step: &Step, quote: &PoolQuote) -> Option<u64> {
        Some(self.request.gas_model.hop(self.pools.pool(step.pool)?.version(), quote.ticks_crossed))
    }
}
