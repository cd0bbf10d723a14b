//! Gas estimate of a swap before any call is built, and the value of gas in a token.

use alloy::primitives::{Address, U256};

use super::PoolSet;
use crate::uniswap::pool::ProtocolVersion;
use crate::uniswap::ratio::Ratio;

/// Gas units per part of a swap. The estimate only ranks routes; the signed transaction is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GasModel {
    /// Base cost of the transaction, its calldata and the router's entry.
    pub transaction: u64,
    /// Cost per leg, for its call within the router.
    pub leg: u64,
    /// Cost per V3 pool, including transfers.
    pub v3_hop: u64,
    /// Cost per V4 pool, including transfers.
    pub v4_hop: u64,
    /// Cost per initialized tick crossed.
    pub v3_tick: u64,
    /// Cost per V2 pair, including transfers.
    pub v2_hop: u64,
}

impl Default for GasModel {
    /// Fit to several hundred best routes executed on the devnet through SwapRouter02 and the V2 router, by an account
    /// that holds both tokens (`tests/sandbox/execution.rs`). The mean error is one seventh. Most of a crossed tick's
    /// cost is the first write to a storage slot, and much of a V2 pair's cost is its price accumulators.
    /// The cost of a V4 pool comes from swaps through the Universal Router (`tests/chain`); those without an allowance in
    /// the call are within a fifth of the estimate.
    fn default() -> Self {
        Self { transaction: 36_000, leg: 2_000, v3_hop: 52_000, v4_hop: 68_000, v3_tick: 67_000, v2_hop: 104_000 }
    }
}

impl GasModel {
    /// Returns the estimate for one hop.
    pub fn hop(&self, version: ProtocolVersion, ticks_crossed: u32) -> u64 {
        match version {
            ProtocolVersion::V2 => self.v2_hop,
            ProtocolVersion::V3 => self.v3_hop.saturating_add(self.v3_tick.saturating_mul(u64::from(ticks_crossed))),
            ProtocolVersion::V4 => self.v4_hop.saturating_add(self.v3_tick.saturating_mul(u64::from(ticks_crossed))),
        }
    }
}

/// Price of one unit of gas in a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GasCost {
    /// Raw units per gas unit, times 2^128.
    per_unit_q128: U256,
}

impl GasCost {
    /// Creates a price from the gas price in wei, and the token's raw units per wei of the native token. `None` if the
    /// price is negative, or is 2^128 raw units per gas unit or more.
    pub fn new(gas_price_wei: u128, token_per_native: &Ratio) -> Option<Self> {
        let per_unit = token_per_native.times(&Ratio::whole(U256::from(gas_price_wei)));
        Some(Self { per_unit_q128: per_unit.to_q128()? })
    }

    /// Returns the cost of `gas_units`, rounded up. It saturates at the maximum; a route at that cost never wins.
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
    /// Returns the mid price of the native token in raw units of `token` per wei. It comes from the deepest direct
    /// pool, or from two pools via a third token, where the shallower of both is deepest. The price is good for valuing
    /// gas, not for decisions. `None` if no two pools join the tokens.
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
                // The second depth is in the middle token; the first price converts it to wei.
                let second_depth = Ratio::whole(second_depth).over(&first)?;
                Some((Ratio::whole(first_depth).min(second_depth), first.times(&second)))
            })
            .max_by(|(left, _), (right, _)| left.cmp(right))
            .map(|(_, price)| price)
    }

    /// Finds the deepest pool between two tokens; returns its virtual reserve of `from` and its mid price.
    fn deepest(&self, from: Address, to: Address) -> Option<(U256, Ratio)> {
        self.between(from, to)
            .filter_map(|(pool, zero_for_one)| {
                Some((pool.virtual_reserve(zero_for_one), pool.mid_price(zero_for_one)?))
            })
            .filter(|(depth, _)| !depth.is_zero())
            .max_by(|(left, _), (right, _)| left.cmp(right))
    }
}
