//! Value of a position at the price of the feeds. Pure functions.
//!
//! A trade moves the price of a pool, and with it the amounts of every position in it. So a position is not valued by the
//! amounts at its pool's price, which anybody can set for the length of a block, but by those at the price that both
//! tokens' feeds imply:
//!
//! `√P = √(usd0 · 10^decimals1 / (usd1 · 10^decimals0)) · 2^96`,
//! value = `amount0(√P) · usd0 + amount1(√P) · usd1 + owed0 · usd0 + owed1 · usd1`
//!
//! with `amount0` and `amount1` of [`TickRange::amounts`](crate::uniswap::v3::position::TickRange::amounts). At the
//! feeds' prices no other amounts of the same liquidity are worth less: a moved pool can only make a withdrawal pay more than
//! this, and never changes the figure. (`amount0(√P)` and `amount1(√P)` minimise `x · P + y` on the curve of
//! the position; see Adams et al. 2021, "Uniswap v3 Core", equation 2.2, of which the tangent at `P` has the slope `−P`.)

use alloy::primitives::{U256, U512};

use super::super::v3::tick_math::{MAX_SQRT_PRICE, MIN_SQRT_PRICE};
use super::{Exit, PositionState};
use bardo_base::units::{Rounding, TokenAmount, Usd};

/// Digits of a dollar price that a ratio is computed with, more than any feed has.
const PRICE_DIGITS: u8 = 24;

/// Price of a token by its feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PricedToken {
    /// Dollars per whole token.
    pub usd: Usd,
    /// Decimals of the token.
    pub decimals: u8,
}

/// Square root of the price of raw token1 per raw token0 that the feeds of both tokens imply, times 2^96, rounded down and
/// within the prices that a pool can have. `None` for a price of zero or figures beyond 512 bits.
pub fn fair_sqrt_price([first, second]: [PricedToken; 2]) -> Option<U256> {
    let scaled = |token: PricedToken| token.usd.scaled(PRICE_DIGITS, Rounding::Down).filter(|scaled| *scaled > 0);
    let (usd0, usd1) = (U512::from(scaled(first)?), U512::from(scaled(second)?));
    let ten = |decimals: u8| U512::from(10).checked_pow(U512::from(decimals));
    let above = usd0.checked_mul(ten(second.decimals)?)?;
    let below = usd1.checked_mul(ten(first.decimals)?)?;
    let ratio = above.checked_mul(U512::ONE << 192)?.checked_div(below)?;
    // The root of 512 bits has 256.
    let root = U256::checked_from_limbs_slice(ratio.root(2).as_limbs())?;
    Some(root.clamp(MIN_SQRT_PRICE, MAX_SQRT_PRICE.saturating_sub(U256::ONE)))
}

impl PositionState {
    /// Amounts that count as the position's holdings: those of its liquidity at the feeds' price, and what it is owed, in
    /// raw units; none of a position that a hook does not let out. `None` if they are not known: see [`fair_sqrt_price`].
    pub fn fair_amounts(&self, prices: [PricedToken; 2]) -> Option<[U256; 2]> {
        match self.exit {
            Exit::Open => {}
            Exit::Untried | Exit::Locked => return Some([U256::ZERO; 2]),
        }
        let [first, second] = self.key.range.amounts(fair_sqrt_price(prices)?, self.liquidity, false).ok()?;
        let [owed0, owed1] = self.owed.map(U256::from);
        Some([first.checked_add(owed0)?, second.checked_add(owed1)?])
    }

    /// Amounts that a withdrawal would pay now, with what the position is owed, in raw units. The pool's price decides
    /// them, so that they serve for display, and for limits that a larger amount makes stricter.
    pub fn payable(&self) -> Option<[U256; 2]> {
        let [first, second] = self.withdrawn(self.liquidity).ok()?;
        let [owed0, owed1] = self.owed.map(U256::from);
        Some([first.checked_add(owed0)?, second.checked_add(owed1)?])
    }

    /// Value of [`PositionState::fair_amounts`] in dollars, rounded down; `None` if it is not known.
    pub fn exit_value(&self, prices: [PricedToken; 2]) -> Option<Usd> {
        value(self.fair_amounts(prices)?, prices)
    }
}

/// Value of amounts of two tokens in dollars, rounded down; `None` beyond what a decimal holds.
pub(super) fn value(amounts: [U256; 2], prices: [PricedToken; 2]) -> Option<Usd> {
    amounts.into_iter().zip(prices).try_fold(Usd::ZERO, |sum, (raw, token)| {
        let amount = TokenAmount::new(raw, token.decimals).ok()?;
        sum.checked_add(Usd::value_of(amount, token.usd, Rounding::Down).ok()?).ok()
    })
}

#[cfg(test)]
mod tests {
    use alloy::primitives::Address;
    use proptest::prelude::*;

    use super::*;
    use crate::uniswap::positions::{PositionId, PositionKey, PositionPool};
    use crate::uniswap::v3::position::TickRange;
    use crate::uniswap::v3::tick_math::sqrt_price_at_tick;

    fn priced(usd: &str, decimals: u8) -> PricedToken {
        PricedToken { usd: usd.parse().unwrap(), decimals }
    }

    fn state(range: TickRange, liquidity: u128, sqrt_price_x96: U256, owed: [u128; 2]) -> PositionState {
        let key = PositionKey {
            id: PositionId::V3(U256::ONE),
            token0: Address::repeat_byte(1),
            token1: Address::repeat_byte(2),
            fee: 3_000,
            range,
            pool: PositionPool::Contract(Address::repeat_byte(3)),
        };
        let (owner, exit) = (Address::ZERO, Exit::Open);
        PositionState { key, owner, liquidity, pool_liquidity: 0, sqrt_price_x96, tick: 0, owed, exit }
    }

    /// By hand: 4 dollars to 1 is a price of 4, whose root is 2. WETH of 18 decimals at 3,400 dollars against USDC of 6
    /// decimals at one: 3,400 · 10^6 / 10^18 = 3.4 · 10^-9, root 5.8309518948453 · 10^-5.
    #[test]
    fn the_fair_price_is_the_ratio_of_the_feeds() {
        let one = U256::ONE << 96;
        assert_eq!(fair_sqrt_price([priced("4", 18), priced("1", 18)]), Some(one << 1));
        assert_eq!(fair_sqrt_price([priced("1", 18), priced("4", 18)]), Some(one >> 1));
        let digits = U256::from(10).pow(U256::from(18));
        let weth = fair_sqrt_price([priced("3400", 18), priced("1", 6)]).unwrap();
        assert_eq!(weth * digits / one, U256::from(58_309_518_948_453_u64));
        assert_eq!(fair_sqrt_price([priced("0", 18), priced("1", 6)]), None);
        assert_eq!(fair_sqrt_price([priced("1", 18), priced("0", 6)]), None);
        // No pool has such a price: the nearest one counts.
        assert_eq!(fair_sqrt_price([priced("1", 0), priced("1", 40)]), Some(MAX_SQRT_PRICE - U256::ONE));
        assert_eq!(fair_sqrt_price([priced("1", 0), priced("1", 77)]), None, "beyond 512 bits");
    }

    /// By hand at a price of one and a range from 1/4 to 4 (roots 1/2 and 2, ticks ±13,863): a liquidity of 10^18 holds
    /// 10^18 · (1 − 1/2) of each token; wherever the pool is. At 3 dollars each that is 3 dollars, and 7 units are owed.
    #[test]
    fn the_price_of_the_pool_does_not_move_the_value() {
        let range = TickRange::new(-13_863, 13_863).unwrap();
        let prices = [priced("3", 18), priced("3", 18)];
        for tick in [-887_272, -13_863, -40, 0, 5_000, 887_271] {
            let state = state(range, 1_000_000_000_000_000_000, sqrt_price_at_tick(tick).unwrap(), [7, 0]);
            let usd = state.exit_value(prices).unwrap();
            let (least, most): (Usd, Usd) = ("2.9999".parse().unwrap(), "3.0001".parse().unwrap());
            assert!(usd > least && usd < most, "{usd} at {tick}");
            let [first, second] = state.fair_amounts(prices).unwrap();
            // Equal but for the rounding of the two ticks' prices.
            assert!((6..=8).contains(&(first - second).to::<u64>()), "{first} {second}");
        }
    }

    #[test]
    fn what_cannot_be_withdrawn_counts_as_nothing() {
        let range = TickRange::new(-13_863, 13_863).unwrap();
        let prices = [priced("3", 18), priced("3", 18)];
        let open = state(range, 1_000_000_000_000_000_000, sqrt_price_at_tick(0).unwrap(), [7, 0]);
        assert!(open.exit_value(prices).unwrap() > Usd::ZERO);
        for exit in [Exit::Locked, Exit::Untried] {
            let closed = PositionState { exit, ..open };
            assert_eq!(
                (closed.exit_value(prices), closed.fair_amounts(prices)),
                (Some(Usd::ZERO), Some([U256::ZERO; 2]))
            );
            assert_eq!(closed.payable(), open.payable(), "limits count what it holds");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// Whatever the pool's price, a withdrawal is worth at least the value that counts, at the feeds' prices.
        #[test]
        fn a_moved_pool_pays_no_less_than_the_value(
            ticks in (-100_000i32..100_000, 1i32..100_000), pool in -150_000i32..150_000, fair in -100_000i32..100_000,
            liquidity in 1u128 << 30..1 << 70, owed in [0u128..1 << 40, 0u128..1 << 40],
        ) {
            let range = TickRange::new(ticks.0, ticks.0 + ticks.1).unwrap();
            let state = state(range, liquidity, sqrt_price_at_tick(pool).unwrap(), owed);
            // A price of 1.0001^tick with 18 digits: of token0 in dollars if above one, else of token1.
            let price = |tick: i32| format!("{:.18}", 1.0001_f64.powi(tick.abs()));
            let prices = match fair >= 0 {
                true => [priced(&price(fair), 18), priced("1", 18)],
                false => [priced("1", 18), priced(&price(fair), 18)],
            };
            let counted = state.exit_value(prices).unwrap();
            let paid = value(state.payable().unwrap(), prices).unwrap();
            // Each amount is rounded down to a unit; a unit of 10^-18 is worth up to 22,000 · 10^-18 dollars here.
            let slack: Usd = "0.000001".parse().unwrap();
            prop_assert!(paid.checked_add(slack).unwrap() >= counted, "{} pays {} for {}", pool, paid, counted);
        }
    }
}
