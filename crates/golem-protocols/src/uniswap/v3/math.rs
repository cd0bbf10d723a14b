//! 512-bit products, and the price and amount formulas of V3's `SqrtPriceMath`, with the contract's rounding: always in
//! the pool's favour.

use alloy::primitives::{U256, U512};

/// Error of a formula. The contract reverts in the same cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MathError {
    /// The result does not fit its type, or the divisor is zero.
    #[error("the result does not fit its type")]
    Overflow,
    /// The price is zero or beyond the valid ticks.
    #[error("the price is out of range")]
    PriceOutOfRange,
    /// The tick is beyond ±887,272.
    #[error("the tick is out of range")]
    TickOutOfRange,
    /// The liquidity at this price does not suffice.
    #[error("there is not enough liquidity")]
    NotEnoughLiquidity,
}

/// Maximum value of a `uint160`.
const MAX_U160: U256 = U256::from_limbs([u64::MAX, u64::MAX, (1 << 32) - 1, 0]);

/// Computes `floor(a × b / divisor)` with full intermediate precision.
///
/// # Errors
/// [`MathError::Overflow`] if the result exceeds 256 bits or the divisor is zero.
pub fn mul_div(a: U256, b: U256, divisor: U256) -> Result<U256, MathError> {
    Ok(mul_div_with_remainder(a, b, divisor)?.0)
}

/// Computes `ceil(a × b / divisor)` with full intermediate precision.
///
/// # Errors
/// [`MathError::Overflow`] if the result exceeds 256 bits or the divisor is zero.
pub fn mul_div_up(a: U256, b: U256, divisor: U256) -> Result<U256, MathError> {
    let (quotient, exact) = mul_div_with_remainder(a, b, divisor)?;
    if exact { Ok(quotient) } else { quotient.checked_add(U256::from(1)).ok_or(MathError::Overflow) }
}

/// Returns the quotient, and whether it is exact.
fn mul_div_with_remainder(a: U256, b: U256, divisor: U256) -> Result<(U256, bool), MathError> {
    if divisor.is_zero() {
        return Err(MathError::Overflow);
    }
    let product: U512 = a.widening_mul(b);
    let limbs = product.as_limbs();
    if limbs[4] | limbs[5] | limbs[6] | limbs[7] == 0 {
        let (quotient, remainder) = U256::from_limbs([limbs[0], limbs[1], limbs[2], limbs[3]]).div_rem(divisor);
        return Ok((quotient, remainder.is_zero()));
    }
    let (quotient, remainder) = product.div_rem(U512::from(divisor));
    let quotient = U256::checked_from_limbs_slice(quotient.as_limbs()).ok_or(MathError::Overflow)?;
    Ok((quotient, remainder.is_zero()))
}

/// Computes `ceil(a / divisor)`.
fn div_up(a: U256, divisor: U256) -> Result<U256, MathError> {
    if divisor.is_zero() {
        return Err(MathError::Overflow);
    }
    Ok(a.div_ceil(divisor))
}

/// Computes the token0 amount between two prices: `L × 2^96 × (b − a) / (a × b)`.
///
/// # Errors
/// Returns a [`MathError`] for a price of zero or an overflow.
pub fn amount0_between(a: U256, b: U256, liquidity: u128, round_up: bool) -> Result<U256, MathError> {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    if low.is_zero() {
        return Err(MathError::PriceOutOfRange);
    }
    let scaled: U256 = U256::from(liquidity) << 96;
    if round_up {
        div_up(mul_div_up(scaled, high - low, high)?, low)
    } else {
        Ok(mul_div(scaled, high - low, high)? / low)
    }
}

/// Computes the token1 amount between two prices: `L × (b − a) / 2^96`.
///
/// # Errors
/// [`MathError::Overflow`] if the result exceeds 256 bits.
pub fn amount1_between(a: U256, b: U256, liquidity: u128, round_up: bool) -> Result<U256, MathError> {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    let product: U512 = U256::from(liquidity).widening_mul(high - low);
    let quotient: U512 = product >> 96;
    let whole = U256::checked_from_limbs_slice(quotient.as_limbs()).ok_or(MathError::Overflow)?;
    let exact = product.trailing_zeros() >= 96;
    if round_up && !exact { whole.checked_add(U256::from(1)).ok_or(MathError::Overflow) } else { Ok(whole) }
}

/// Computes the price after an input of `amount_in`, which excludes the fee.
///
/// # Errors
/// Returns a [`MathError`] for a price or liquidity of zero, or an overflow.
pub fn price_after_input(price: U256, liquidity: u128, amount_in: U256, zero_for_one: bool) -> Result<U256, MathError> {
    check_price_and_liquidity(price, liquidity)?;
    if zero_for_one {
        let scaled: U256 = U256::from(liquidity) << 96;
        if amount_in.is_zero() {
            return Ok(price);
        }
        let exact = amount_in.checked_mul(price).and_then(|product| scaled.checked_add(product));
        let next = match exact {
            Some(denominator) => mul_div_up(scaled, price, denominator)?,
            None => div_up(scaled, (scaled / price).checked_add(amount_in).ok_or(MathError::Overflow)?)?,
        };
        fits_160(next)
    } else {
        let risen = mul_div(amount_in, U256::from(1) << 96, U256::from(liquidity))?;
        fits_160(price.checked_add(risen).ok_or(MathError::Overflow)?)
    }
}

/// Computes the price after an output of `amount_out`.
///
/// # Errors
/// Returns a [`MathError`] for a price or liquidity of zero, or an output beyond the liquidity.
pub fn price_after_output(
    price: U256,
    liquidity: u128,
    amount_out: U256,
    zero_for_one: bool,
) -> Result<U256, MathError> {
    check_price_and_liquidity(price, liquidity)?;
    if zero_for_one {
        let fallen = mul_div_up(amount_out, U256::from(1) << 96, U256::from(liquidity))?;
        match price.checked_sub(fallen) {
            Some(next) if !next.is_zero() => Ok(next),
            _ => Err(MathError::NotEnoughLiquidity),
        }
    } else {
        if amount_out.is_zero() {
            return Ok(price);
        }
        let scaled: U256 = U256::from(liquidity) << 96;
        let product = amount_out.checked_mul(price).ok_or(MathError::NotEnoughLiquidity)?;
        match scaled.checked_sub(product) {
            Some(denominator) if !denominator.is_zero() => fits_160(mul_div_up(scaled, price, denominator)?),
            _ => Err(MathError::NotEnoughLiquidity),
        }
    }
}

fn check_price_and_liquidity(price: U256, liquidity: u128) -> Result<(), MathError> {
    if price.is_zero() {
        return Err(MathError::PriceOutOfRange);
    }
    if liquidity == 0 {
        return Err(MathError::NotEnoughLiquidity);
    }
    Ok(())
}

fn fits_160(price: U256) -> Result<U256, MathError> {
    if price > MAX_U160 { Err(MathError::Overflow) } else { Ok(price) }
}
