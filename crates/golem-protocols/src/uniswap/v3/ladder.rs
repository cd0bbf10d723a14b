//! All boundaries a swap in one direction can meet, with running totals, laid out once per pool
//! state. A quote is then a binary search for the last boundary reached whole and one step from it.
//!
//! Why this is exact: a step that reaches its boundary costs and gives the same whatever amount is
//! behind it, and it is reached if and only if the amount left covers its cost. With `f` the fee
//! and `k = 1 − f`, the contract asks `floor(left × k) >= a`, which is `left >= ceil(a / k)`, and
//! charges `a + ceil(a × f / k) = ceil(a / k)`.
//!
//! The contract looks for the next initialised tick one bitmap word at a time and rounds at each
//! word's end, so words are boundaries too, except where there is no liquidity to round.

use alloy::primitives::U256;

use super::V3State;
use super::math::MathError;
use super::swap_step::{SwapStep, compute_inner_step, compute_swap_step};
use super::tick_math::{MAX_SQRT_PRICE, MAX_TICK, MIN_SQRT_PRICE, MIN_TICK, sqrt_price_at_tick, tick_at_sqrt_price};
use crate::uniswap::pool::Exact;

/// A swap through one pool and the state it leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Swap {
    /// What the pool took, fee included.
    pub amount_in: U256,
    /// What the pool gave.
    pub amount_out: U256,
    /// The price after.
    pub sqrt_price_after: U256,
    /// Liquidity in range after.
    pub liquidity_after: u128,
    /// Initialised ticks crossed.
    pub ticks_crossed: u32,
    /// The tick after, where the swap ended on a boundary; elsewhere it follows from the price.
    boundary_tick: Option<i32>,
}

impl Swap {
    /// The pool's tick after the swap.
    pub fn tick_after(&self) -> Result<i32, MathError> {
        self.boundary_tick.map_or_else(|| tick_at_sqrt_price(self.sqrt_price_after), Ok)
    }
}

/// The pool as it is when the price has just reached a boundary and crossed it.
#[derive(Debug, Clone, Copy)]
struct Rung {
    sqrt_price: U256,
    tick: i32,
    liquidity: u128,
    total_in: U256,
    total_out: U256,
    crossed: u32,
}

/// The rungs of one direction; the first is the pool as it stands.
#[derive(Debug, Clone)]
pub(super) struct Ladder {
    rungs: Vec<Rung>,
    fee: u32,
    /// Ticks from the start of one bitmap word to the start of the next.
    word: i32,
    zero_for_one: bool,
    /// Whether the last rung is the end of the pool, rather than the end of what was read of it.
    complete: bool,
}

impl Ladder {
    /// Lays out the boundaries until liquidity, ticks or knowledge end. A state that cannot be
    /// (liquidity below zero) ends the ladder there, so that no swap passes.
    pub(super) fn build(state: &V3State, zero_for_one: bool) -> Self {
        let start = Rung {
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

    /// The whole amount, or nothing.
    pub(super) fn swap(&self, exact: Exact) -> Option<Swap> {
        if !countable(exact) {
            return None;
        }
        let at = self.first_covering(exact);
        let reached = self.rungs.get(at)?;
        if total(reached, exact) == exact.amount() {
            return Some(end_on(reached));
        }
        // `at` is above 0: the first rung's totals are zero and would have matched only a zero amount.
        let from = self.rungs.get(at.checked_sub(1)?)?;
        let left = left(from, exact)?;
        let (paid, got, price) =
            compute_inner_step(from.sqrt_price, from.liquidity, left, self.fee, self.zero_for_one).ok()?;
        let totals = (from.total_in.checked_add(paid)?, from.total_out.checked_add(got)?);
        Some(self.land(from, reached, totals, price))
    }

    /// What fits before the price reaches `limit`.
    pub(super) fn swap_to_limit(&self, exact: Exact, limit: U256) -> Option<Swap> {
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
            |rung: &Rung| if self.zero_for_one { rung.sqrt_price > limit } else { rung.sqrt_price < limit };
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
            // Past the end of the pool the price moves freely and nothing is swapped.
            None if self.complete && from.liquidity == 0 => {
                Some(Swap { sqrt_price_after: limit, boundary_tick: self.skipped_boundary(limit), ..end_on(from) })
            }
            None => None,
        }
    }

    /// The first rung whose total covers the amount.
    fn first_covering(&self, exact: Exact) -> usize {
        self.rungs.partition_point(|rung| total(rung, exact) < exact.amount())
    }

    /// One step from a rung towards a limit at or before the next.
    fn towards(&self, from: &Rung, reached: &Rung, limit: U256, exact: Exact) -> Option<Swap> {
        let left = left(from, exact)?;
        let step = compute_swap_step(from.sqrt_price, limit, from.liquidity, left, self.fee).ok()?;
        Some(self.land(from, reached, add(from, &step)?, step.sqrt_price_next))
    }

    /// The pool after a step from one rung that ended at `price`, on the next rung or before it.
    fn land(&self, from: &Rung, reached: &Rung, (amount_in, amount_out): (U256, U256), price: U256) -> Swap {
        let on_boundary = price == reached.sqrt_price;
        Swap {
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

    /// The tick the contract is left with when a limit downwards falls on the start of a word that
    /// the ladder skipped for lack of liquidity: one below, as on every boundary.
    fn skipped_boundary(&self, price: U256) -> Option<i32> {
        let tick = tick_at_sqrt_price(price).ok()?;
        let on_word = tick % self.word == 0 && sqrt_price_at_tick(tick) == Ok(price);
        (self.zero_for_one && on_word).then(|| tick.saturating_sub(1))
    }
}

/// What is left of the amount at a rung.
fn left(from: &Rung, exact: Exact) -> Option<Exact> {
    let left = exact.amount().checked_sub(total(from, exact))?;
    Some(match exact {
        Exact::In(_) => Exact::In(left),
        Exact::Out(_) => Exact::Out(left),
    })
}

/// Amounts above zero that fit the contract's `int256`.
fn countable(exact: Exact) -> bool {
    !exact.amount().is_zero() && exact.amount() < U256::from(1) << 255
}

fn total(rung: &Rung, exact: Exact) -> U256 {
    match exact {
        Exact::In(_) => rung.total_in,
        Exact::Out(_) => rung.total_out,
    }
}

fn end_on(rung: &Rung) -> Swap {
    Swap {
        amount_in: rung.total_in,
        amount_out: rung.total_out,
        sqrt_price_after: rung.sqrt_price,
        liquidity_after: rung.liquidity,
        ticks_crossed: rung.crossed,
        boundary_tick: Some(rung.tick),
    }
}

fn add(from: &Rung, step: &SwapStep) -> Option<(U256, U256)> {
    let cost = step.amount_in.checked_add(step.fee_amount)?;
    Some((from.total_in.checked_add(cost)?, from.total_out.checked_add(step.amount_out)?))
}

/// The next boundary and the pool's state once it is crossed; nothing at the end.
fn next_rung(state: &V3State, zero_for_one: bool, from: &Rung) -> Result<Option<Rung>, MathError> {
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
    // An amount no pool can hold: the step always reaches its target.
    let step = compute_swap_step(from.sqrt_price, target, from.liquidity, Exact::Out(U256::MAX), state.fee)?;
    let (total_in, total_out) = add(from, &step).ok_or(MathError::Overflow)?;
    let mut rung = Rung { sqrt_price: target, total_in, total_out, ..*from };
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

/// The next tick to stop at, and its net liquidity if it is initialised: the next initialised tick
/// within the current bitmap word, else the word's end; without liquidity the next in any word.
fn next_boundary(state: &V3State, zero_for_one: bool, from: &Rung) -> (i32, Option<i128>) {
    let spacing = state.tick_spacing;
    let position = from.tick.div_euclid(spacing);
    let word_end = if zero_for_one { (position >> 8) << 8 } else { (((position + 1) >> 8) << 8) + 255 };
    // Positions are within ± 887,272 and spacings below 16,384, but a word's end may lie far outside.
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
