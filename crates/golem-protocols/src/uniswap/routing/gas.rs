//! What a swap uses in gas, estimated before any call is built, and what gas is worth in a token.

use alloy::primitives::{Address, U256};

use super::PoolSet;
use crate::uniswap::pool::Version;
use crate::uniswap::ratio::Ratio;

/// Gas units per part of a swap. The estimate ranks routes; what is signed is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GasModel {
    /// Once: the transaction, its calldata and the router's entry.
    pub transaction: u64,
    /// Per leg: its call within the router.
    pub leg: u64,
    /// Per V3 pool, transfers included.
    pub v3_hop: u64,
    /// Per initialised tick crossed.
    pub v3_tick: u64,
    /// Per V2 pair, transfers included.
    pub v2_hop: u64,
}

impl Default for GasModel {
    /// A fit to several hundred best routes executed on the devnet through SwapRouter02 and the V2 router by somebody
    /// who holds both tokens (`tests/sandbox/execution.rs`): off by a seventh on average. Most of a crossed tick is
    /// storage written for the first time, and much of a V2 pair its price accumulators.
    fn default() -> Self {
        Self { transaction: 36_000, leg: 2_000, v3_hop: 52_000, v3_tick: 67_000, v2_hop: 104_000 }
    }
}

impl GasModel {
    /// One hop.
    pub fn hop(&self, version: Version, ticks_crossed: u32) -> u64 {
        match version {
            Version::V2 => self.v2_hop,
            Version::V3 => self.v3_hop.saturating_add(self.v3_tick.saturating_mul(u64::from(ticks_crossed))),
        }
    }
}

/// The price of one unit of gas in raw units of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GasCost {
    /// Raw units per gas unit, times 2^128.
    per_unit_q128: U256,
}

impl GasCost {
    /// From the gas price in wei and the token's raw units per wei of the native token. Nothing if
    /// the price is negative or beyond 2^128 raw units per gas unit.
    pub fn new(gas_price_wei: u128, token_per_native: &Ratio) -> Option<Self> {
        let per_unit = token_per_native.times(&Ratio::whole(U256::from(gas_price_wei)));
        Some(Self { per_unit_q128: per_unit.to_q128()? })
    }

    /// The cost of `gas_units`, rounded up. Saturates: such a cost beats no route.
    pub fn of(&self, gas_units: u64) -> U256 {
        let units = U256::from(gas_units);
        match self.per_unit_q128.checked_mul(units) {
            Some(product) => {
                let part = product & U256::from(u128::MAX);
                let whole: U256 = product >> 128;
                if part.is_zero() { whole } else { whole + U256::from(1) }
            }
            None => U256::MAX,
        }
    }
}

impl PoolSet {
    /// Raw units of `token` per wei of the native token by mid prices: of the pool that is deepest
    /// in wrapped native, or of two pools through the token where the shallower of both is deepest.
    /// Good for weighing gas; not a price to decide by. Nothing if no two pools join them.
    pub fn token_per_native(&self, wrapped_native: Address, token: Address) -> Option<Ratio> {
        if wrapped_native == token {
            return Some(Ratio::whole(U256::from(1)));
        }
        if let Some((_, price)) = self.deepest(wrapped_native, token) {
            return Some(price);
        }
        self.neighbours(wrapped_native)
            .into_iter()
            .filter_map(|middle| {
                let (first_depth, first) = self.deepest(wrapped_native, middle)?;
                let (second_depth, second) = self.deepest(middle, token)?;
                // The second depth, counted in the middle token, is brought to wei by the first price.
                let second_depth = Ratio::whole(second_depth).over(&first)?;
                Some((Ratio::whole(first_depth).min(second_depth), first.times(&second)))
            })
            .max_by(|(left, _), (right, _)| left.cmp(right))
            .map(|(_, price)| price)
    }

    /// The deepest pool between two tokens: its virtual reserve of `from` and its mid price.
    fn deepest(&self, from: Address, to: Address) -> Option<(U256, Ratio)> {
        self.between(from, to)
            .filter_map(|(pool, zero_for_one)| {
                Some((pool.virtual_reserve(zero_for_one), pool.mid_price(zero_for_one)?))
            })
            .filter(|(depth, _)| !depth.is_zero())
            .max_by(|(left, _), (right, _)| left.cmp(right))
    }
}
