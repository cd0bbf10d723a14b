//! Boundaries that a swap in one direction can meet, with cumulative amounts, computed once per pool state. A quote is
//! then a binary search for the last boundary that is fully reached, and one step from it.
//!
//! The result is exact: a step that reaches its boundary costs and gives the same for any larger amount, and it is
//! reached exactly if the remaining amount covers its cost. With the fee `f` and `k = 1 − f`, the contract checks
//! `floor(left × k) >= a`, which is `left >= ceil(a / k)`. It charges `a + ceil(a × f / k) = ceil(a / k)`.
//!
//! The contract looks for the next initialized tick one bitmap word at a time and rounds at the end of each word. Words
//! are therefore boundaries too, except where there is no liquidity to round.

use alloy::primitives::U256;

use super::V3State;
use super::math::MathError;
use super::swap_step::{SwapStep, compute_inner_step, compute_swap_step};
use super::tick_math::{MAX_SQRT_PRICE, MAX_TICK, MIN_SQRT_PRICE, MIN_TICK, sqrt_price_at_tick, tick_at_sqrt_price};
use crate::uniswap::pool::FixedAmount;

/// Result of a swap through one pool, with the pool's final state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolSwap {
    /// Input in raw units, including the fee.
    pub amount_in: U256,
    /// Output in raw units.
    pub amount_out: U256,
    /// Square root price after the swap, Q64.96.
    pub sqrt_price_after: U256,
    /// Liquidity in range after the swap.
    pub liquidity_after: u128,
    /// Number of initialized ticks crossed.
    pub ticks_crossed: u32,
    /// Tick after a swap that ended on a boundary; otherwise the tick follows from the price.
    boundary_tick: Option<i32>,
}

impl PoolSwap {
    /// Returns the pool's tick after the swap.
    ///
    /// # Errors
    /// Returns a [`MathError`] if the price is out of range.
    pub fn tick_after(&self) -> Result<i32, MathError> {
        self.boundary_tick.map_or_else(|| tick_at_sqrt_price(self.sqrt_price_after), Ok)
    }
}

/// State of the pool when the price has just reached and crossed a boundary.
#[derive(Debug, Clone, Copy)]
struct TickBoundary {
    sqrt_price: U256,
    tick: i32,
    liquidity: u128,
    total_in: U256,
    total_out: U256,
    crossed: u32,
}

/// Boundaries of one direction; the first entry is the current state.
#[derive(Debug, Clone)]
pub(super) struct TickLadder {
    rungs: Vec<TickBoundary>,
    fee: u32,
    /// Number of ticks covered by one bitmap word.
    word: i32,
    zero_for_one: bool,
    /// True if the last boundary is the end of the pool, not only the end of the known ticks.
    complete: bool,
}

impl TickLadder {
    /// Computes the boundaries until liquidity, ticks or known data end. An impossible state (negative liquidity) ends
    /// the ladder, so that no swap passes it.
    pub(super) fn build(state: &V3State, zero_for_one: bool) -> Self {
        let start = TickBoundary {
            sqrt_price: state.sqrt_price_x96,
            tick: state.tick,
            liquidity: state.liquidity,
            total_in: U256::ZERO,
            total_out: U256::ZERO,
            crossed: 0,
        };
        let word = state.tick_spacing.saturating_mul(256);
        let mut ladder = Self { rungs: vec![start], fee: state.fee, word, zero_for_one, complete: false };
        let mut last = start;
        loop {
            match next_rung(state, zero_for_one, &last) {
                Ok(Some(rung)) => {
                    ladder.rungs.push(rung);
                    last = rung;
                }
                Ok(None) => break,
                Err(_) => return ladder,
            }
        }
        let edge =
            if zero_for_one { *state.known_ticks.start() <= MIN_TICK } else { *state.known_ticks.end() >= MAX_TICK };
        ladder.complete = edge;
        ladder
    }

    /// Returns the output up to the last boundary, in raw units.
    pub(super) fn total_out(&self) -> U256 {
        self.rungs.last().map_or(U256::ZERO, |rung| rung.total_out)
    }

    /// Swaps the whole amount; `None` if the pool cannot fill it.
    pub(super) fn swap(&self, exact: FixedAmount) -> Option<PoolSwap> {
        if !countable(exact) {
            return None;
        }
        let at = self.first_covering(exact);
        let reached = self.rungs.get(at)?;
        if total(reached, exact) == exact.amount() {
            return Some(end_on(reached));
        }
        // `at` is above zero: the first entry's totals are zero and match only an amount of zero.
        let from = self.rungs.get(at.checked_sub(1)?)?;
        let left = left(from, exact)?;
        let (paid, got, price) =
            compute_inner_step(from.sqrt_price, from.liquidity, left, self.fee, self.zero_for_one).ok()?;
        let totals = (from.total_in.checked_add(paid)?, from.total_out.checked_add(got)?);
        Some(self.land(from, reached, totals, price))
    }

    /// Swaps as much as possible before the price reaches `limit`.
    pub(super) fn swap_to_limit(&self, exact: FixedAmount, limit: U256) -> Option<PoolSwap> {
        let start = self.rungs.first()?;
        let ahead = if self.zero_for_one {
            MIN_SQRT_PRICE < limit && limit < start.sqrt_price
        } else {
            start.sqrt_price < limit && limit < MAX_SQRT_PRICE
        };
        if !ahead || !countable(exact) {
            return None;
        }
        let before_limit =
            |rung: &TickBoundary| if self.zero_for_one { rung.sqrt_price > limit } else { rung.sqrt_price < limit };
        let at_limit = self.rungs.partition_point(before_limit);
        let at = self.first_covering(exact);
        if at < at_limit {
            return self.swap(exact);
        }
        let from = self.rungs.get(at_limit.checked_sub(1)?)?;
        match self.rungs.get(at_limit) {
            Some(reached) if reached.sqrt_price == limit && total(reached, exact) <= exact.amount() => {
                Some(end_on(reached))
            }
            Some(reached) => self.towards(from, reached, limit, exact),
            // Beyond the end of the pool, the price moves freely and nothing is swapped.
            None if self.complete && from.liquidity == 0 => {
                Some(PoolSwap { sqrt_price_after: limit, boundary_tick: self.skipped_boundary(limit), ..end_on(from) })
            }
            None => None,
        }
    }

    /// Returns the first boundary whose total covers the amount.
    fn first_covering(&self, exact: FixedAmount) -> usize {
        self.rungs.partition_point(|rung| total(rung, exact) < exact.amount())
    }

    /// Computes one step from a boundary towards a limit that is not beyond the next boundary.
    fn towards(
        &self,
        from: &TickBoundary,
        reached: &TickBoundary,
        limit: U256,
        exact: FixedAmount,
    ) -> Option<PoolSwap> {
        let left = left(from, exact)?;
        let step = compute_swap_step(from.sqrt_price, limit, from.liquidity, left, self.fee).ok()?;
        Some(self.land(from, reached, add(from, &step)?, step.sqrt_price_next))
    }

    /// Returns the state after a step that ended at `price`, on the next boundary or before it.
    fn land(
        &self,
        from: &TickBoundary,
        reached: &TickBoundary,
        (amount_in, amount_out): (U256, U256),
        price: U256,
    ) -> PoolSwap {
        let on_boundary = price == reached.sqrt_price;
        PoolSwap {
            amount_in,
            amount_out,
            sqrt_price_after: price,
            liquidity_after: if on_boundary { reached.liquidity } else { from.liquidity },
            ticks_crossed: if on_boundary { reached.crossed } else { from.crossed },
            boundary_tick: if on_boundary {
                Some(reached.tick)
            } else if price == from.sqrt_price {
                Some(from.tick)
            } else if from.liquidity == 0 {
                self.skipped_boundary(price)
            } else {
                None
            },
        }
    }

    /// Returns the contract's tick if a downward limit is the start of a word that the ladder skipped for lack of
    /// liquidity: one below, as on every boundary.
    fn skipped_boundary(&self, price: U256) -> Option<i32> {
        let tick = tick_at_sqrt_price(price).ok()?;
        let on_word = tick % self.word == 0 && sqrt_price_at_tick(tick) == Ok(price);
        (self.zero_for_one && on_word).then(|| tick.saturating_sub(1))
    }
}

/// Returns the remaining amount at a boundary.
fn left(from: &TickBoundary, exact: FixedAmount) -> Option<FixedAmount> {
    let left = exact.amount().checked_sub(total(from, exact))?;
    Some(match exact {
        FixedAmount::In(_) => FixedAmount::In(left),
        FixedAmount::Out(_) => FixedAmount::Out(left),
    })
}

/// True for amounts above zero that fit the contract's `int256`.
fn countable(exact: FixedAmount) -> bool {
    !exact.amount().is_zero() && exact.amount() < U256::from(1) << 255
}

fn total(rung: &TickBoundary, exact: FixedAmount) -> U256 {
    match exact {
        FixedAmount::In(_) => rung.total_in,
        FixedAmount::Out(_) => rung.total_out,
    }
}

fn end_on(rung: &TickBoundary) -> PoolSwap {
    PoolSwap {
        amount_in: rung.total_in,
        amount_out: rung.total_out,
        sqrt_price_after: rung.sqrt_price,
        liquidity_after: rung.liquidity,
        ticks_crossed: rung.crossed,
        boundary_tick: Some(rung.tick),
    }
}

fn add(from: &TickBoundary, step: &SwapStep) -> Option<(U256, U256)> {
    let cost = step.amount_in.checked_add(step.fee_amount)?;
    Some((from.total_in.checked_add(cost)?, from.total_out.checked_add(step.amount_out)?))
}

/// Returns the next boundary with the state after crossing it; `None` at the end.
fn next_rung(state: &V3State, zero_for_one: bool, from: &TickBoundary) -> Result<Option<TickBoundary>, MathError> {
    let limit = if zero_for_one { MIN_SQRT_PRICE + U256::from(1) } else { MAX_SQRT_PRICE - U256::from(1) };
    if from.sqrt_price == limit {
        return Ok(None);
    }
    let (boundary, net) = next_boundary(state, zero_for_one, from);
    if net.is_none() && from.liquidity == 0 || !state.known_ticks.contains(&boundary) {
        return Ok(None);
    }
    let at_boundary = sqrt_price_at_tick(boundary)?;
    let target = if zero_for_one { at_boundary.max(limit) } else { at_boundary.min(limit) };
    // No pool can hold this amount, so the step always reaches its target.
    let step = compute_swap_step(from.sqrt_price, target, from.liquidity, FixedAmount::Out(U256::MAX), state.fee)?;
    let (total_in, total_out) = add(from, &step).ok_or(MathError::Overflow)?;
    let mut rung = TickBoundary { sqrt_price: target, total_in, total_out, ..*from };
    if target != at_boundary {
        rung.tick = tick_at_sqrt_price(target)?;
        return Ok(Some(rung));
    }
    rung.tick = if zero_for_one { boundary.saturating_sub(1) } else { boundary };
    if let Some(net) = net {
        let added = if zero_for_one { net.checked_neg().ok_or(MathError::Overflow)? } else { net };
        rung.liquidity = from.liquidity.checked_add_signed(added).ok_or(MathError::Overflow)?;
        rung.crossed = from.crossed.saturating_add(1);
    }
    Ok(Some(rung))
}

/// Returns the next boundary tick, and its net liquidity if it is initialized. This is the next initialized tick within
/// the current bitmap word, otherwise the end of the word. Without liquidity, it is the next initialized tick in any
/// word.
fn next_boundary(state: &V3State, zero_for_one: bool, from: &TickBoundary) -> (i32, Option<i128>) {
    let spacing = state.tick_spacing;
    let position = from.tick.div_euclid(spacing);
    let word_end = if zero_for_one { (position >> 8) << 8 } else { (((position + 1) >> 8) << 8) + 255 };
    // Positions are within ±887,272 and spacings below 16,384, but the end of a word may be far outside.
    let word_end = i32::try_from(i64::from(word_end) * i64::from(spacing)).unwrap_or(MAX_TICK);
    let word_end = word_end.clamp(MIN_TICK, MAX_TICK);
    let above = state.ticks.partition_point(|tick| tick.index <= from.tick);
    let next =
        if zero_for_one { above.checked_sub(1).and_then(|at| state.ticks.get(at)) } else { state.ticks.get(above) };
    match next {
        Some(tick) if from.liquidity == 0 => (tick.index, Some(tick.liquidity_net)),
        Some(tick) if zero_for_one && tick.index >= word_end => (tick.index, Some(tick.liquidity_net)),
        Some(tick) if !zero_for_one && tick.index <= word_end => (tick.index, Some(tick.liquidity_net)),
        _ => (word_end, None),
    }
}
