//! Arithmetic of the devnet's actors: prices as V3 square roots, dollars as token amounts, and the payment that moves a
//! V2 pair to a price. Integers, rounded down.
//!
//! Not here: anything that a user's trade depends on (see `uniswap`).

use alloy::primitives::{U256, U512};

use super::target::PriceE8;

/// Price and decimals of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PricedToken {
    /// Price of one whole token, in dollars with eight decimals.
    pub price: PriceE8,
    /// Decimals of the token.
    pub decimals: u8,
}

/// Raw amount of a token that is worth `dollars`.
pub fn amount_for(dollars: u64, token: PricedToken) -> U256 {
    let unit = U256::from(10).pow(U256::from(token.decimals));
    U256::from(dollars) * U256::from(super::target::DOLLAR) * unit / U256::from(token.price.max(1))
}

/// √(raw amount of token 1 per raw amount of token 0) · 2^96, the price format of V3 pools.
pub fn sqrt_price_x96(token0: PricedToken, token1: PricedToken) -> U256 {
    let unit = |token: PricedToken| U512::from(10).pow(U512::from(token.decimals));
    let value0 = U512::from(token0.price) * unit(token1);
    let value1 = U512::from(token1.price.max(1)) * unit(token0);
    narrow(((value0 << 192_usize) / value1).root(2))
}

/// Square-root price for a price that is higher by `parts_per_million` (lower if negative). For fees up to one percent,
/// the error of this approximation is a hundredth of a basis point.
pub fn shift(sqrt_price: U256, parts_per_million: i32) -> U256 {
    let half = U256::from(parts_per_million.unsigned_abs());
    let whole = U256::from(2_000_000);
    let factor = if parts_per_million < 0 { whole.saturating_sub(half) } else { whole + half };
    sqrt_price * factor / whole
}

/// Square-root price of a V2 pair with these reserves, as Q64.96; zero if it has no token 0.
pub fn pair_sqrt_price(reserve0: U256, reserve1: U256) -> U256 {
    if reserve0.is_zero() {
        return U256::ZERO;
    }
    narrow(((U512::from(reserve1) << 192_usize) / U512::from(reserve0)).root(2))
}

/// Amounts of token 0 and token 1 to pay into a V2 pair, ignoring its fee, to reach the price `target`. Token 0 lowers
/// the price and token 1 raises it; the other amount is zero.
pub fn pair_payment(reserve0: U256, reserve1: U256, target: U256) -> (U256, U256) {
    if target.is_zero() {
        return (U256::ZERO, U256::ZERO);
    }
    let liquidity = (U512::from(reserve0) * U512::from(reserve1)).root(2);
    let wanted0 = narrow((liquidity << 96_usize) / U512::from(target));
    let wanted1 = narrow((liquidity * U512::from(target)) >> 96_usize);
    (wanted0.saturating_sub(reserve0), wanted1.saturating_sub(reserve1))
}

/// Liquidity of a position between two square-root prices that takes at most these amounts of token 0 and token 1 at
/// the square-root price `current`, all prices as Q64.96.
pub fn liquidity_for(current: U256, lower: U256, upper: U256, [amount0, amount1]: [U256; 2]) -> U256 {
    let of_token0 = |low: U256, high: U256| -> U512 {
        let product = (U512::from(low) * U512::from(high)) >> 96_usize;
        U512::from(amount0) * product / U512::from(high.saturating_sub(low).max(U256::ONE))
    };
    let of_token1 = |low: U256, high: U256| -> U512 {
        (U512::from(amount1) << 96_usize) / U512::from(high.saturating_sub(low).max(U256::ONE))
    };
    narrow(if current <= lower {
        of_token0(lower, upper)
    } else if current >= upper {
        of_token1(lower, upper)
    } else {
        of_token0(current, upper).min(of_token1(lower, current))
    })
}

/// Saturates: a price beyond 256 bits cannot occur between tokens of at most 18 decimals.
fn narrow(wide: U512) -> U256 {
    U256::saturating_from(wide)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ETHER: PricedToken = PricedToken { price: 340_000_000_000, decimals: 18 };
    const USDC: PricedToken = PricedToken { price: 100_000_000, decimals: 6 };

    #[test]
    fn square_root_prices_agree_with_known_figures() {
        // Two tokens with the same price and decimals have the square-root price 2^96.
        assert_eq!(sqrt_price_x96(USDC, USDC), U256::from(1) << 96);
        // 3 400 USDC per ether is 3.4e-9 raw per raw; its root times 2^96, by an independent calculator: 4.61976e24.
        let root = sqrt_price_x96(ETHER, USDC);
        let squared = U512::from(root) * U512::from(root) * U512::from(10_u64.pow(18));
        assert_eq!((squared >> 192) / U512::from(10_u64.pow(8)), U512::from(33));
        assert!(root > U256::from(4_619_700_000_000_000_000_000_000_u128));
        assert!(root < U256::from(4_619_800_000_000_000_000_000_000_u128));
    }

    #[test]
    fn dollars_are_converted_to_token_amounts() {
        assert_eq!(amount_for(3_400, ETHER), U256::from(10).pow(U256::from(18)));
        assert_eq!(amount_for(5, USDC), U256::from(5_000_000));
    }

    #[test]
    fn a_shift_applies_to_the_price_and_not_to_its_square_root() {
        let root = U256::from(1) << 96;
        let up = shift(root, 3_000);
        let price = (U512::from(up) * U512::from(up) * U512::from(1_000_000)) >> 192;
        assert_eq!(price, U512::from(1_003_002));
        assert!(shift(root, -3_000) < root);
    }

    /// Amounts of a position by the white paper's formulas (6.29, 6.30), computed by hand for prices 1, 4 and 16.
    #[test]
    fn the_liquidity_of_a_position_is_limited_by_the_scarcer_amount() {
        let root = |root: u64| U256::from(root) << 96;
        let [small, large] = [U256::from(1_000), U256::from(1_000_000)];
        // Between 1 and 2 in square roots, liquidity L takes L/2 of token 0 below the range and L of token 1 above it.
        assert_eq!(liquidity_for(root(1), root(1), root(2), [small, U256::ZERO]), U256::from(2_000));
        assert_eq!(liquidity_for(root(2), root(1), root(2), [U256::ZERO, small]), U256::from(1_000));
        // At 2 between 1 and 4: L/4 of token 0 and L of token 1.
        assert_eq!(liquidity_for(root(2), root(1), root(4), [small, large]), U256::from(4_000));
        assert_eq!(liquidity_for(root(2), root(1), root(4), [large, small]), U256::from(1_000));
    }

    #[test]
    fn a_payment_moves_a_pair_to_the_target_price() {
        let (reserve0, reserve1) = (U256::from(1_000_000_000_u64), U256::from(4_000_000_000_u64));
        assert_eq!(pair_sqrt_price(reserve0, reserve1), U256::from(2) << 96);
        // From 4 to 16: root 4, liquidity 2e9, so token 1 must reach 8e9.
        assert_eq!(pair_payment(reserve0, reserve1, U256::from(4) << 96), (U256::ZERO, U256::from(4_000_000_000_u64)));
        // From 4 to 1: both at 2e9.
        assert_eq!(pair_payment(reserve0, reserve1, U256::from(1) << 96), (U256::from(1_000_000_000_u64), U256::ZERO));
    }
}
