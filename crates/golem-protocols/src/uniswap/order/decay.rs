//! Decay of amounts: linear between two times, piecewise linear over blocks, and bounds. Rounding matches the reactors
//! (`DutchDecayLib`, `NonlinearDutchDecayLib`, `MathExt`). Where they revert on large numbers, this returns
//! [`ReactorRevert::Overflow`].
//!
//! Not here: the choice of rule for each amount (see `resolve`).

use std::cmp::Ordering;

use alloy::primitives::{I256, U256};

use super::ReactorRevert;
use bardo_abi::uniswapx::NonlinearDutchDecay;

/// Maximum number of points on a curve.
pub const MAX_POINTS: usize = 16;

/// Computes `floor(a × b / divisor)`; the product must fit 256 bits, as in the reactors' library.
pub(super) fn mul_div_down(a: U256, b: U256, divisor: U256) -> Result<U256, ReactorRevert> {
    let product = a.checked_mul(b).ok_or(ReactorRevert::Overflow)?;
    product.checked_div(divisor).ok_or(ReactorRevert::Overflow)
}

/// Computes `ceil(a × b / divisor)`; the product must fit 256 bits.
pub(super) fn mul_div_up(a: U256, b: U256, divisor: U256) -> Result<U256, ReactorRevert> {
    let product = a.checked_mul(b).ok_or(ReactorRevert::Overflow)?;
    if divisor.is_zero() { Err(ReactorRevert::Overflow) } else { Ok(product.div_ceil(divisor)) }
}

/// Computes a Dutch amount between two times. A falling output and a rising input are both rounded up.
pub(super) fn between_times(start: U256, end: U256, from: U256, until: U256, now: U256) -> Result<U256, ReactorRevert> {
    if start == end {
        return Ok(start);
    }
    if until <= from {
        return Err(ReactorRevert::EndTimeBeforeStartTime);
    }
    if until <= now {
        return Ok(end);
    }
    if from >= now {
        return Ok(start);
    }
    let (elapsed, duration) = (now - from, until - from);
    match end.cmp(&start) {
        Ordering::Less => Ok(start - mul_div_down(start - end, elapsed, duration)?),
        Ordering::Equal => Ok(start),
        Ordering::Greater => {
            start.checked_add(mul_div_up(end - start, elapsed, duration)?).ok_or(ReactorRevert::Overflow)
        }
    }
}

/// Side of an amount, which determines its rounding: always in favour of the swapper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AmountSide {
    /// Input: the smaller amount is chosen.
    Input,
    /// Output: the larger amount is chosen.
    Output,
}

/// Computes an amount on a V3 curve at `block`, bounded by `least` and `most`.
pub(super) fn on_curve(
    curve: &NonlinearDutchDecay,
    side: AmountSide,
    start: U256,
    start_block: U256,
    block: U256,
    (least, most): (U256, U256),
) -> Result<U256, ReactorRevert> {
    let amounts = &curve.relativeAmounts;
    if amounts.len() > MAX_POINTS {
        return Err(ReactorRevert::InvalidDecayCurve);
    }
    let (Some(first), Some(last)) = (amounts.first(), amounts.last()) else {
        return Ok(bound(start, least, most));
    };
    if start_block >= block {
        return Ok(bound(start, least, most));
    }
    let elapsed = (block - start_block).min(U256::from(u16::MAX)).to::<u16>();
    let point = |index: usize| (block_of(curve, index), amounts.get(index).copied().unwrap_or(*last));
    let (from, to) = if block_of(curve, 0) >= elapsed {
        ((0, I256::ZERO), (block_of(curve, 0), *first))
    } else {
        match (1..amounts.len()).find(|&index| block_of(curve, index) >= elapsed) {
            Some(index) => (point(index - 1), point(index)),
            None => (point(amounts.len() - 1), point(amounts.len() - 1)),
        }
    };
    let taken = between_points(side, from, to, elapsed)?;
    bounded_sub(start, taken, least, most)
}

/// Interpolates the curve's reduction between two of its points.
fn between_points(
    side: AmountSide,
    (from, start): (u16, I256),
    (until, end): (u16, I256),
    now: u16,
) -> Result<I256, ReactorRevert> {
    if now >= until {
        return Ok(end);
    }
    let (elapsed, duration) = (now.checked_sub(from), until.checked_sub(from));
    let elapsed = U256::from(elapsed.ok_or(ReactorRevert::Overflow)?);
    let duration = U256::from(duration.ok_or(ReactorRevert::Overflow)?);
    let span = end.checked_sub(start).ok_or(ReactorRevert::Overflow)?;
    // The reduction of an input is rounded up, that of an output down.
    let up = (side == AmountSide::Input) != span.is_negative();
    let scaled = if up {
        mul_div_up(span.unsigned_abs(), elapsed, duration)?
    } else {
        mul_div_down(span.unsigned_abs(), elapsed, duration)?
    };
    let scaled = I256::try_from(scaled).map_err(|_| ReactorRevert::Overflow)?;
    let moved = if span.is_negative() { start.checked_sub(scaled) } else { start.checked_add(scaled) };
    moved.ok_or(ReactorRevert::Overflow)
}

/// Returns the block offset of point `index`; each takes 16 bits.
fn block_of(curve: &NonlinearDutchDecay, index: usize) -> u16 {
    let shifted: U256 = curve.relativeBlocks >> (16 * index);
    (shifted & U256::from(u16::MAX)).to::<u16>()
}

/// Returns the points of a curve: block offset from the start, and the reduction at that block.
pub fn points(curve: &NonlinearDutchDecay) -> Vec<(u16, I256)> {
    let amounts = curve.relativeAmounts.iter().take(MAX_POINTS);
    amounts.enumerate().map(|(index, amount)| (block_of(curve, index), *amount)).collect()
}

/// Builds the curve through `points`. Only the first [`MAX_POINTS`] have room for a block offset.
pub fn curve(points: &[(u16, I256)]) -> NonlinearDutchDecay {
    let blocks = points.iter().take(MAX_POINTS).enumerate();
    NonlinearDutchDecay {
        relativeBlocks: blocks
            .fold(U256::ZERO, |packed, (index, (block, _))| packed | (U256::from(*block) << (16 * index))),
        relativeAmounts: points.iter().map(|(_, amount)| *amount).collect(),
    }
}

/// Raises `value` to `least`, then caps it at `most`.
fn bound(value: U256, least: U256, most: U256) -> U256 {
    value.max(least).min(most)
}

/// Computes `value - taken` within bounds. A result above 256 bits becomes `most`, a negative one `least`.
pub(super) fn bounded_sub(value: U256, taken: I256, least: U256, most: U256) -> Result<U256, ReactorRevert> {
    if taken == I256::MIN {
        return Err(ReactorRevert::Overflow);
    }
    let size = taken.unsigned_abs();
    Ok(if taken.is_negative() {
        value.checked_add(size).map_or(most, |sum| bound(sum, least, most))
    } else {
        value.checked_sub(size).map_or(least, |rest| bound(rest, least, most))
    })
}
