//! V3 pools: tick and price mathematics, the swap step, and exact swaps across ticks.
//!
//! This is our own implementation over 512-bit products instead of `uniswap-v3-sdk` 7. The SDK's pools are asynchronous
//! over a tick provider, use integers of arbitrary size, walk all ticks again for every quote, and have operators that
//! wrap on overflow. A router quotes the same pool hundreds of times per block. Here a pool computes its boundaries
//! once ([`ladder`]), and a quote is one search and one step, with checked arithmetic.

pub mod ladder;
pub mod manager;
pub mod math;
pub mod position;
pub mod swap_step;
pub mod tick_math;

use std::ops::RangeInclusive;
use std::sync::OnceLock;

use alloy::primitives::{Address, U256};

use self::ladder::{PoolSwap, TickLadder};
use self::tick_math::{MAX_TICK, MIN_TICK, sqrt_price_at_tick};
use super::address::sort_tokens;
use super::pool::{FixedAmount, PoolError, PoolQuote};
use super::pool_id::PoolId;
use super::ratio::{Ratio, big};

/// Denominator of fees, which are in millionths of the input.
pub const FEE_WHOLE: u32 = 1_000_000;

/// Initialized tick. Crossing it upwards changes the liquidity by `liquidity_net`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tick {
    /// Index of the tick, a multiple of the pool's spacing.
    pub index: i32,
    /// Liquidity added when crossed upwards, and removed when crossed downwards.
    pub liquidity_net: i128,
}

/// State of a pool at one block, as read from the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct V3State {
    /// Identity of the pool.
    pub id: PoolId,
    /// Token with the lower address.
    pub token0: Address,
    /// Token with the higher address.
    pub token1: Address,
    /// Fee in hundredths of a basis point (3000 is 0.3 %).
    pub fee: u32,
    /// Distance between ticks that can be initialized.
    pub tick_spacing: i32,
    /// Square root of the price in raw token1 per raw token0, times 2^96.
    pub sqrt_price_x96: U256,
    /// Liquidity in range.
    pub liquidity: u128,
    /// Current tick from `slot0`.
    pub tick: i32,
    /// Initialized ticks within `known_ticks`, ascending.
    pub ticks: Vec<Tick>,
    /// Range of ticks whose state was read. Swaps beyond it are refused.
    pub known_ticks: RangeInclusive<i32>,
}

/// Value of `known_ticks` if all ticks were read.
pub const ALL_TICKS: RangeInclusive<i32> = MIN_TICK..=MAX_TICK;

/// Validated state with the boundaries of each direction, computed on first use.
#[derive(Debug)]
pub struct V3Pool {
    state: V3State,
    downwards: OnceLock<TickLadder>,
    upwards: OnceLock<TickLadder>,
}

impl V3Pool {
    /// Validates the state and creates a pool.
    ///
    /// # Errors
    /// [`PoolError::InvalidState`] for a state that no pool can have.
    pub fn new(state: V3State) -> Result<Self, PoolError> {
        check(&state).map_err(|what| PoolError::InvalidState { pool: state.id, what })?;
        Ok(Self { state, downwards: OnceLock::new(), upwards: OnceLock::new() })
    }

    /// Returns the pool's state.
    pub fn state(&self) -> &V3State {
        &self.state
    }

    /// Quotes a swap of the whole amount.
    ///
    /// # Errors
    /// Returns a [`PoolError`] if the amount is invalid or cannot be filled.
    pub fn quote(&self, zero_for_one: bool, exact: FixedAmount) -> Result<PoolQuote, PoolError> {
        let swap = self.ladder(zero_for_one).swap(exact).ok_or_else(|| self.refusal(exact))?;
        Ok(PoolQuote { amount_in: swap.amount_in, amount_out: swap.amount_out, ticks_crossed: swap.ticks_crossed })
    }

    /// Quotes like [`V3Pool::quote`], and returns the pool's state after the swap.
    ///
    /// # Errors
    /// Returns a [`PoolError`] if the amount is invalid or cannot be filled.
    pub fn swap(&self, zero_for_one: bool, exact: FixedAmount) -> Result<PoolSwap, PoolError> {
        self.ladder(zero_for_one).swap(exact).ok_or_else(|| self.refusal(exact))
    }

    /// Quotes like [`V3Pool::quote`], and returns the pool after the swap.
    pub(super) fn after(&self, zero_for_one: bool, exact: FixedAmount) -> Result<(PoolQuote, Self), PoolError> {
        let swap = self.swap(zero_for_one, exact)?;
        let pool = self.state.id;
        let tick =
            swap.tick_after().map_err(|_| PoolError::InvalidState { pool, what: "its price is out of range" })?;
        let after = V3State {
            sqrt_price_x96: swap.sqrt_price_after,
            liquidity: swap.liquidity_after,
            tick,
            ..self.state.clone()
        };
        let PoolSwap { amount_in, amount_out, ticks_crossed, .. } = swap;
        Ok((PoolQuote { amount_in, amount_out, ticks_crossed }, Self::new(after)?))
    }

    /// Swaps with a price limit like the pool contract: fills as much as possible up to the limit. The limit must be
    /// ahead of the price and within the valid range.
    ///
    /// # Errors
    /// Returns a [`PoolError`] if amount or limit is invalid, or the known ticks do not reach far enough.
    pub fn swap_to_limit(
        &self,
        zero_for_one: bool,
        exact: FixedAmount,
        limit_x96: U256,
    ) -> Result<PoolSwap, PoolError> {
        self.ladder(zero_for_one).swap_to_limit(exact, limit_x96).ok_or_else(|| self.refusal(exact))
    }

    /// Returns the current price of the input token in output tokens, in raw units: `sqrt_price² / 2^192` or its
    /// inverse.
    pub fn mid_price(&self, zero_for_one: bool) -> Option<Ratio> {
        let squared = big(self.state.sqrt_price_x96).pow(2);
        let unit = big(U256::from(1)) << 192u32;
        if zero_for_one { Ratio::new(squared.into(), unit) } else { Ratio::new(unit.into(), squared) }
    }

    /// Returns the reserve of a constant product with this price and liquidity: `L / √P` of token0, `L × √P` of token1.
    pub fn virtual_reserve(&self, of_token0: bool) -> U256 {
        let liquidity = U256::from(self.state.liquidity);
        if of_token0 {
            (liquidity << 96) / self.state.sqrt_price_x96
        } else {
            // The result has at most 128 + 160 − 96 bits, so it fits.
            math::mul_div(liquidity, self.state.sqrt_price_x96, U256::from(1) << 96).unwrap_or(U256::MAX)
        }
    }

    /// Returns the output that can be taken from the known ticks in this direction, in raw units.
    pub(super) fn held_out(&self, zero_for_one: bool) -> U256 {
        self.ladder(zero_for_one).total_out()
    }

    fn ladder(&self, zero_for_one: bool) -> &TickLadder {
        let slot = if zero_for_one { &self.downwards } else { &self.upwards };
        slot.get_or_init(|| TickLadder::build(&self.state, zero_for_one))
    }

    fn refusal(&self, exact: FixedAmount) -> PoolError {
        if exact.amount().is_zero() {
            PoolError::ZeroAmount
        } else if exact.amount() >= U256::from(1) << 255 {
            PoolError::AmountTooLarge
        } else {
            PoolError::InsufficientLiquidity { pool: self.state.id }
        }
    }
}

impl Clone for V3Pool {
    fn clone(&self) -> Self {
        Self { state: self.state.clone(), downwards: self.downwards.clone(), upwards: self.upwards.clone() }
    }
}

fn check(state: &V3State) -> Result<(), &'static str> {
    if state.token0 == state.token1 || sort_tokens(state.token0, state.token1).0 != state.token0 {
        return Err("its tokens are not in order");
    }
    if state.fee >= FEE_WHOLE {
        return Err("its fee is the whole input or more");
    }
    // The factory allows spacings from 1 to 16,383.
    if !(1..16_384).contains(&state.tick_spacing) {
        return Err("its tick spacing is out of range");
    }
    let known = &state.known_ticks;
    if *known.start() < MIN_TICK || *known.end() > MAX_TICK || !known.contains(&state.tick) {
        return Err("its tick is outside the ticks that were read");
    }
    let bounds = |tick| sqrt_price_at_tick(tick).map_err(|_| "its tick is out of range");
    let lower = bounds(state.tick)?;
    let upper = bounds(state.tick.saturating_add(1))?;
    // A downward swap that ends exactly on an initialized tick leaves `tick` one below the price.
    if state.sqrt_price_x96 < lower || state.sqrt_price_x96 > upper {
        return Err("its price and its tick disagree");
    }
    let mut previous = None;
    let mut in_range = 0i128;
    for tick in &state.ticks {
        if tick.index % state.tick_spacing != 0 || !known.contains(&tick.index) {
            return Err("one of its ticks is not a multiple of the spacing, or out of range");
        }
        if previous.is_some_and(|before| before >= tick.index) {
            return Err("its ticks are not ascending");
        }
        previous = Some(tick.index);
        if tick.index <= state.tick {
            in_range = in_range.checked_add(tick.liquidity_net).ok_or("its liquidity overflows")?;
        }
    }
    if *known == ALL_TICKS && u128::try_from(in_range) != Ok(state.liquidity) {
        return Err("its ticks do not add up to its liquidity");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
