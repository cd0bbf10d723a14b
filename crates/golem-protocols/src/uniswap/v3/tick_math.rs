//! Ticks and prices: `sqrt(1.0001^tick) × 2^96`, bit for bit like V3's `TickMath`.

use alloy::primitives::{U256, uint};

use super::math::MathError;

/// Lowest valid tick.
pub const MIN_TICK: i32 = -887_272;
/// Highest valid tick.
pub const MAX_TICK: i32 = 887_272;
/// Square root price at the lowest tick, Q64.96.
pub const MIN_SQRT_PRICE: U256 = uint!(4295128739_U256);
/// Square root price at the highest tick, Q64.96. No pool reaches it: the maximum is one less.
pub const MAX_SQRT_PRICE: U256 = uint!(1461446703485210103287273052203988822378723970342_U256);

/// Entry `i` is `2^128 / sqrt(1.0001)^(2^i)`, the factor for bit `i` of a tick.
const FACTORS: [U256; 20] = uint!([
    0xfffcb933bd6fad37aa2d162d1a594001_U256,
    0xfff97272373d413259a46990580e213a_U256,
    0xfff2e50f5f656932ef12357cf3c7fdcc_U256,
    0xffe5caca7e10e4e61c3624eaa0941cd0_U256,
    0xffcb9843d60f6159c9db58835c926644_U256,
    0xff973b41fa98c081472e6896dfb254c0_U256,
    0xff2ea16466c96a3843ec78b326b52861_U256,
    0xfe5dee046a99a2a811c461f1969c3053_U256,
    0xfcbe86c7900a88aedcffc83b479aa3a4_U256,
    0xf987a7253ac413176f2b074cf7815e54_U256,
    0xf3392b0822b70005940c7a398e4b70f3_U256,
    0xe7159475a2c29b7443b29c7fa6e889d9_U256,
    0xd097f3bdfd2022b8845ad8f792aa5825_U256,
    0xa9f746462d870fdf8a65dc1f90e061e5_U256,
    0x70d869a156d2a1b890bb3df62baf32f7_U256,
    0x31be135f97d08fd981231505542fcfa6_U256,
    0x9aa508b5b7a84e1c677de54f3e99bc9_U256,
    0x5d6af8dedb81196699c329225ee604_U256,
    0x2216e584f5fa1ea926041bedfe98_U256,
    0x48a170391f7dc42444e8fa2_U256,
]);

/// Returns the square root price at `tick`, Q64.96, rounded up.
///
/// # Errors
/// [`MathError::TickOutOfRange`] beyond the valid ticks.
pub fn sqrt_price_at_tick(tick: i32) -> Result<U256, MathError> {
    let magnitude = tick.unsigned_abs();
    if magnitude > MAX_TICK.unsigned_abs() {
        return Err(MathError::TickOutOfRange);
    }
    let mut ratio = U256::from(1) << 128;
    for (bit, factor) in FACTORS.iter().enumerate() {
        if magnitude >> bit & 1 == 1 {
            // Both factors are at most 2^128, so the product fits.
            ratio = (ratio * factor) >> 128;
        }
    }
    if tick > 0 {
        ratio = U256::MAX / ratio;
    }
    Ok((ratio + U256::from(u32::MAX)) >> 32)
}

/// Returns the highest tick whose price is at or below `sqrt_price`.
///
/// # Errors
/// [`MathError::PriceOutOfRange`] beyond the valid prices.
pub fn tick_at_sqrt_price(sqrt_price: U256) -> Result<i32, MathError> {
    if !(MIN_SQRT_PRICE..MAX_SQRT_PRICE).contains(&sqrt_price) {
        return Err(MathError::PriceOutOfRange);
    }
    // The bisection keeps `price(low) <= sqrt_price < price(high)`, because prices rise with ticks.
    let (mut low, mut high) = (MIN_TICK, MAX_TICK);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if sqrt_price_at_tick(middle)? <= sqrt_price {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(low)
}
