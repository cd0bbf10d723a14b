//! Pools as a graph of tokens, and paths through it.

use std::collections::BTreeMap;

use alloy::primitives::Address;

use super::MAX_HOPS;
use super::bound::{PoolRates, pool_rates};
use crate::uniswap::pool::Pool;
use crate::uniswap::pool_id::PoolId;

/// Pool as an edge from one of its tokens; `to` is the other token.
#[derive(Debug, Clone, Copy)]
pub(super) struct PoolEdge {
    pub(super) pool: usize,
    pub(super) to: usize,
    /// True if a trade along the edge pays the pool's first token.
    pub(super) zero_for_one: bool,
}

/// Pools of one chain at one block, indexed for route searches. The order of the input does not matter.
#[derive(Debug, Clone, Default)]
pub struct PoolSet {
    /// Sorted by identity, so that indices order like identities.
    pools: Vec<Pool>,
    /// Sorted by address.
    tokens: Vec<Address>,
    /// Per token, sorted by pool.
    edges: Vec<Vec<PoolEdge>>,
    /// Per pool: bounds for paying its first token, and for paying its second token.
    rates: Vec<[PoolRates; 2]>,
}

impl PoolSet {
    /// Indexes the pools. Of several with the same identity, the last one counts.
    pub fn new(pools: impl IntoIterator<Item = Pool>) -> Self {
        let pools: BTreeMap<PoolId, Pool> = pools.into_iter().map(|pool| (pool.id(), pool)).collect();
        let pools: Vec<Pool> = pools.into_values().collect();
        let mut tokens: Vec<Address> = pools.iter().flat_map(|pool| <[Address; 2]>::from(pool.tokens())).collect();
        tokens.sort_unstable();
        tokens.dedup();
        let mut edges = vec![Vec::new(); tokens.len()];
        for (index, pool) in pools.iter().enumerate() {
            let (token0, token1) = pool.tokens();
            let (Ok(at0), Ok(at1)) = (tokens.binary_search(&token0), tokens.binary_search(&token1)) else { continue };
            for (from, to, zero_for_one) in [(at0, at1, true), (at1, at0, false)] {
                if let Some(list) = edges.get_mut(from) {
                    list.push(PoolEdge { pool: index, to, zero_for_one });
                }
            }
        }
        let rates = pools.iter().map(|pool| [pool_rates(pool, true), pool_rates(pool, false)]).collect();
        Self { pools, tokens, edges, rates }
    }

    /// Returns the pools, sorted by identity.
    pub fn pools(&self) -> &[Pool] {
        &self.pools
    }

    /// Returns the pool with this identity.
    pub fn get(&self, id: PoolId) -> Option<&Pool> {
        self.index(id).and_then(|at| self.pools.get(at))
    }

    /// Returns all tokens of the pools, sorted by address.
    pub fn tokens(&self) -> &[Address] {
        &self.tokens
    }

    /// Iterates over the pools between two tokens, each with a flag that is true if `from` is its first token.
    pub fn between(&self, from: Address, to: Address) -> impl Iterator<Item = (&Pool, bool)> {
        let to = self.token_index(to);
        self.token_index(from)
            .map_or(&[][..], |from| self.edges_of(from))
            .iter()
            .filter(move |edge| Some(edge.to) == to)
            .filter_map(|edge| Some((self.pool(edge.pool)?, edge.zero_for_one)))
    }

    /// Returns the tokens that share a pool with `token`, sorted by address.
    pub fn neighbours(&self, token: Address) -> Vec<Address> {
        let edges = self.token_index(token).map_or(&[][..], |at| self.edges_of(at));
        let mut found: Vec<Address> = edges.iter().filter_map(|edge| self.tokens.get(edge.to).copied()).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    pub(super) fn index(&self, id: PoolId) -> Option<usize> {
        self.pools.binary_search_by_key(&id, Pool::id).ok()
    }

    pub(super) fn pool(&self, index: usize) -> Option<&Pool> {
        self.pools.get(index)
    }

    pub(super) fn rates(&self, step: &PathStep) -> PoolRates {
        let [paying_first, paying_second] = self.rates.get(step.pool)?;
        if step.zero_for_one { *paying_first } else { *paying_second }
    }

    pub(super) fn token_index(&self, token: Address) -> Option<usize> {
        self.tokens.binary_search(&token).ok()
    }

    pub(super) fn edges_of(&self, token: usize) -> &[PoolEdge] {
        self.edges.get(token).map_or(&[], Vec::as_slice)
    }

    /// Returns the number of hops from every token to `target`, up to [`MAX_HOPS`]; `usize::MAX` beyond.
    pub(super) fn distances(&self, target: usize) -> Vec<usize> {
        let mut distances = vec![usize::MAX; self.tokens.len()];
        let mut frontier = vec![target];
        for distance in 0..=MAX_HOPS {
            let mut next = Vec::new();
            for token in frontier {
                match distances.get_mut(token) {
                    Some(known) if *known == usize::MAX => *known = distance,
                    _ => continue,
                }
                next.extend(self.edges_of(token).iter().map(|edge| edge.to));
            }
            frontier = next;
        }
        distances
    }
}

/// Pool of a path with the direction of the trade.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PathStep {
    pub(super) pool: usize,
    pub(super) zero_for_one: bool,
}

/// Up to three pools in trading order. Paths order by length, then by pool identities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PoolPath {
    length: usize,
    steps: [PathStep; MAX_HOPS],
}

impl PoolPath {
    pub(super) const EMPTY: Self = Self { length: 0, steps: [PathStep { pool: 0, zero_for_one: false }; MAX_HOPS] };

    /// Appends a pool; a full path stays unchanged.
    pub(super) fn then(mut self, step: PathStep) -> Self {
        if let Some(slot) = self.steps.get_mut(self.length) {
            *slot = step;
            self.length += 1;
        }
        self
    }

    /// Prepends a pool; a full path stays unchanged.
    pub(super) fn after(self, step: PathStep) -> Self {
        self.steps().iter().fold(Self::EMPTY.then(step), |path, next| path.then(*next))
    }

    pub(super) fn steps(&self) -> &[PathStep] {
        self.steps.get(..self.length).unwrap_or(&self.steps)
    }

    pub(super) fn shares_a_pool_with(&self, other: &Self) -> bool {
        self.steps().iter().any(|step| other.steps().iter().any(|theirs| theirs.pool == step.pool))
    }
}
