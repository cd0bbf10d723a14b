//! Pool prices from the contracts' state, for display.

use alloy::primitives::{U256, U512};
use rust_decimal::Decimal;

/// Maximum number of decimals for display.
const DIGITS: u32 = 18;

/// Price of one whole token 0 of a V3 pool in whole token 1: `(sqrtPriceX96 / 2^96)²`, scaled to whole tokens.
///
/// `None` for a pool without a price. Source: Uniswap v3 core whitepaper, section 6.1.
pub(super) fn v3_price(sqrt_price_x96: U256, decimals0: u8, decimals1: u8) -> Option<Decimal> {
    // Below 2^320; below 2^440 after scaling by at most 36 decimals.
    let squared = U512::from(sqrt_price_x96) * U512::from(sqrt_price_x96);
    quotient(squared, U512::from(1) << 192, decimals0, decimals1)
}

/// Price of one whole token 0 of a V2 pair in whole token 1: the ratio of its reserves, scaled to whole tokens.
///
/// `None` for an empty pair.
pub(super) fn v2_price(reserve0: U256, reserve1: U256, decimals0: u8, decimals1: u8) -> Option<Decimal> {
    quotient(U512::from(reserve1), U512::from(reserve0), decimals0, decimals1)
}

/// The inverse price.
pub(super) fn inverted(price: Decimal) -> Option<Decimal> {
    Decimal::ONE.checked_div(price)
}

/// `numerator · 10^decimals0 / (denominator · 10^decimals1)`, truncated to a decimal's precision; `None` for a zero
/// denominator or an overflow.
fn quotient(numerator: U512, denominator: U512, decimals0: u8, decimals1: u8) -> Option<Decimal> {
    let numerator = numerator.checked_mul(power_of_ten(decimals0.into())?)?;
    let denominator = denominator.checked_mul(power_of_ten(decimals1.into())?)?;
    if denominator.is_zero() {
        return None;
    }
    (0..=DIGITS).rev().find_map(|scale| {
        let mantissa = numerator.checked_mul(power_of_ten(scale)?)?.checked_div(denominator)?;
        let price = Decimal::try_from_i128_with_scale(i128::try_from(mantissa).ok()?, scale).ok()?;
        (!price.is_zero()).then_some(price)
    })
}

fn power_of_ten(exponent: u32) -> Option<U512> {
    U512::from(10).checked_pow(U512::from(exponent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_v3_price_is_the_square_of_the_root() {
        // One to one: the root is 2^96.
        assert_eq!(v3_price(U256::from(1) << 96, 18, 18), Some(Decimal::ONE));
        // Twice the root is four times the price.
        assert_eq!(v3_price(U256::from(1) << 97, 18, 18), Some(Decimal::from(4)));
        // Equal raw units of tokens with 6 and 18 decimals: one whole token 0 costs 10^-12 of token 1.
        assert_eq!(v3_price(U256::from(1) << 96, 6, 18), Some(Decimal::new(1, 12)));
        assert_eq!(v3_price(U256::ZERO, 18, 6), None);
    }

    #[test]
    fn a_v2_price_is_the_ratio_of_the_reserves() {
        // 1,000 WETH (18) against 3,400,000 USDC (6).
        let (weth, usdc) = (U256::from(10).pow(U256::from(21)), U256::from(3_400_000_000_000_u64));
        assert_eq!(v2_price(weth, usdc, 18, 6), Some(Decimal::from(3400)));
        assert_eq!(inverted(Decimal::from(3400)).map(|price| price.round_dp(9)), Some(Decimal::new(294_118, 9)));
        assert_eq!(v2_price(U256::ZERO, usdc, 18, 6), None);
        assert_eq!(v2_price(weth, U256::ZERO, 18, 6), None);
    }

    #[test]
    fn extreme_values_are_right_or_absent_and_never_panic() {
        let widest = U256::MAX >> 96;
        assert_eq!(v3_price(widest, 18, 18), None, "2^128 is more than a decimal can hold");
        assert!(v3_price(U256::from(4_295_128_739_u64), 18, 18).is_none(), "the lowest root is below 18 digits");
        assert_eq!(v2_price(U256::from(1), U256::MAX, 255, 255), None);
    }
}
