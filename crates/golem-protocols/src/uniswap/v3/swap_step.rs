//! One step of a swap: within one range of constant liquidity, up to a target price (V3's `SwapMath.computeSwapStep`).

use alloy::primitives::U256;

use super::FEE_WHOLE;
use super::math::{
    MathError, amount0_between, amount1_between, mul_div, mul_div_up, price_after_input, price_after_output,
};
use crate::uniswap::pool::FixedAmount;

/// Result of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwapStep {
    /// Price after the step; the target price unless the amount ended the step earlier.
    pub sqrt_price_next: U256,
    /// Input without the fee, in raw units.
    pub amount_in: U256,
    /// Output in raw units.
    pub amount_out: U256,
    /// Fee on top of `amount_in`, in raw units.
    pub fee_amount: U256,
}

/// Computes a step that is known to end before its target. Returns the input with the fee, the output, and the final
/// price. The result equals that of [`compute_swap_step`], without computing the amounts up to the target.
pub(super) fn compute_inner_step(
    current: U256,
    liquidity: u128,
    remaining: FixedAmount,
    fee_pips: u32,
    zero_for_one: bool,
) -> Result<(U256, U256, U256), MathError> {
    let whole = U256::from(FEE_WHOLE);
    let kept = U256::from(FEE_WHOLE.checked_sub(fee_pips).ok_or(MathError::Overflow)?);
    match remaining {
        FixedAmount::In(paid) => {
            let after_fee = mul_div(paid, kept, whole)?;
            let next = price_after_input(current, liquidity, after_fee, zero_for_one)?;
            let amount_out = if zero_for_one {
                amount1_between(next, current, liquidity, false)?
            } else {
                amount0_between(current, next, liquidity, false)?
            };
            Ok((paid, amount_out, next))
        }
        FixedAmount::Out(wanted) => {
            let next = price_after_output(current, liquidity, wanted, zero_for_one)?;
            let amount_in = if zero_for_one {
                amount0_between(next, current, liquidity, true)?
            } else {
                amount1_between(current, next, liquidity, true)?
            };
            let fee_amount = mul_div_up(amount_in, U256::from(fee_pips), kept)?;
            Ok((amount_in.checked_add(fee_amount).ok_or(MathError::Overflow)?, wanted, next))
        }
    }
}

/// Swaps at most `remaining` from the price `current` towards `target`, which determines the direction. `fee_pips` is
/// in millionths and below one million.
///
/// # Errors
/// Returns a [`MathError`] for an invalid fee, a price or liquidity of zero, or an overflow.
pub fn compute_swap_step(
    current: U256,
    target: U256,
    liquidity: u128,
    remaining: FixedAmount,
    fee_pips: u32,
) -> Result<SwapStep, MathError> {
    let whole = U256::from(FEE_WHOLE);
    let fee = U256::from(fee_pips);
    let kept = U256::from(FEE_WHOLE.checked_sub(fee_pips).filter(|kept| *kept > 0).ok_or(MathError::Overflow)?);
    let zero_for_one = current >= target;
    let in_between = |to: U256| {
        if zero_for_one {
            amount0_between(to, current, liquidity, true)
        } else {
            amount1_between(current, to, liquidity, true)
        }
    };
    let out_between = |to: U256| {
        if zero_for_one {
            amount1_between(to, current, liquidity, false)
        } else {
            amount0_between(current, to, liquidity, false)
        }
    };
    match remaining {
        FixedAmount::In(paid) => {
            let after_fee = mul_div(paid, kept, whole)?;
            let to_target = in_between(target)?;
            if after_fee >= to_target {
                return Ok(SwapStep {
                    sqrt_price_next: target,
                    amount_in: to_target,
                    amount_out: out_between(target)?,
                    fee_amount: mul_div_up(to_target, fee, kept)?,
                });
            }
            let next = price_after_input(current, liquidity, after_fee, zero_for_one)?;
            // Rounding works against reaching the target, so the rest of `paid` is the fee.
            let amount_in = in_between(next)?;
            let fee_amount = paid.checked_sub(amount_in).ok_or(MathError::Overflow)?;
            Ok(SwapStep { sqrt_price_next: next, amount_in, amount_out: out_between(next)?, fee_amount })
        }
        FixedAmount::Out(wanted) => {
            let to_target = out_between(target)?;
            let (next, reached) = if wanted >= to_target {
                (target, to_target)
            } else {
                (price_after_output(current, liquidity, wanted, zero_for_one)?, wanted)
            };
            let amount_in = in_between(next)?;
            // Rounding may move the price further than the amount needs: the pool gives no more than requested.
            let amount_out = if next == target { reached } else { out_between(next)?.min(wanted) };
            Ok(SwapStep { sqrt_price_next: next, amount_in, amount_out, fee_amount: mul_div_up(amount_in, fee, kept)? })
        }
    }
}
