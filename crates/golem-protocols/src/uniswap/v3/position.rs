//! Positions of V3 and V4 pools: amounts of a range at a price, liquidity of amounts, fees, and prices around the current
//! one. Rounded like the contracts; fee growth wraps at 256 bits, as theirs does.
//!
//! Formulas: Uniswap v3-core `SqrtPriceMath`, `Tick.getFeeGrowthInside` and `Position.update`, v3-periphery
//! `LiquidityAmounts`.

use alloy::primitives::{U256, U512};

use super::super::ratio::{Ratio, big};
use super::math::{MathError, amount0_between, amount1_between, mul_div};
use super::tick_math::{MAX_SQRT_PRICE, MAX_TICK, MIN_SQRT_PRICE, MIN_TICK, sqrt_price_at_tick, tick_at_sqrt_price};
use bardo_base::units::BasisPoints;

/// Whole of a proportion in basis points.
const WHOLE_BPS: u32 = 10_000;

/// Range of a position: from its lower tick up to, and without, its upper tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TickRange {
    lower: i32,
    upper: i32,
}

impl TickRange {
    /// Creates a range.
    ///
    /// # Errors
    /// [`MathError::TickOutOfRange`] if the ticks are not ascending or beyond ±887,272.
    pub fn new(lower: i32, upper: i32) -> Result<Self, MathError> {
        if lower >= upper || lower < MIN_TICK || upper > MAX_TICK {
            return Err(MathError::TickOutOfRange);
        }
        Ok(Self { lower, upper })
    }

    /// Creates the smallest range that contains the given one and whose ends a pool of this tick spacing can have, as far
    /// as the valid ticks allow.
    ///
    /// # Errors
    /// [`MathError::TickOutOfRange`] for a spacing below one, and like [`TickRange::new`].
    pub fn outward(lower: i32, upper: i32, spacing: i32) -> Result<Self, MathError> {
        let most = MAX_TICK.checked_div(spacing).filter(|_| spacing > 0).ok_or(MathError::TickOutOfRange)?;
        // Multiples of the spacing within the valid ticks.
        let usable = |multiple: i32| multiple.clamp(-most, most).saturating_mul(spacing);
        let down = lower.div_euclid(spacing);
        let up = upper.saturating_neg().div_euclid(spacing).saturating_neg();
        Self::new(usable(down), usable(up))
    }

    /// Creates the smallest range of a pool of this tick spacing that contains the prices between two square roots, times
    /// 2^96.
    ///
    /// # Errors
    /// [`MathError::PriceOutOfRange`] beyond the valid prices, and like [`TickRange::outward`].
    pub fn around_prices(low: U256, high: U256, spacing: i32) -> Result<Self, MathError> {
        let (lower, below) = (tick_at_sqrt_price(low)?, tick_at_sqrt_price(high)?);
        // The tick at or above the upper price.
        let upper = if sqrt_price_at_tick(below)? < high { below.saturating_add(1) } else { below };
        Self::outward(lower, upper, spacing)
    }

    /// Returns the lower tick.
    pub fn lower(self) -> i32 {
        self.lower
    }

    /// Returns the upper tick.
    pub fn upper(self) -> i32 {
        self.upper
    }

    /// Returns true if liquidity of this range is in use at `tick`.
    pub fn contains(self, tick: i32) -> bool {
        (self.lower..self.upper).contains(&tick)
    }

    /// Square roots of the prices at both ticks, times 2^96.
    ///
    /// # Errors
    /// None for a range that [`TickRange::new`] made.
    pub fn sqrt_prices(self) -> Result<[U256; 2], MathError> {
        Ok([sqrt_price_at_tick(self.lower)?, sqrt_price_at_tick(self.upper)?])
    }

    /// Amounts of token0 and token1 that `liquidity` is worth at a price: rounded down as a withdrawal pays them, or up as
    /// a deposit takes them.
    ///
    /// # Errors
    /// [`MathError::Overflow`] if an amount exceeds 256 bits.
    pub fn amounts(self, sqrt_price_x96: U256, liquidity: u128, round_up: bool) -> Result<[U256; 2], MathError> {
        let [low, high] = self.sqrt_prices()?;
        let price = sqrt_price_x96.clamp(low, high);
        Ok([amount0_between(price, high, liquidity, round_up)?, amount1_between(low, price, liquidity, round_up)?])
    }

    /// Liquidity and amounts of a deposit of at most these amounts of token0 and token1 at a price, as
    /// `increaseLiquidity` computes them: the largest liquidity that they pay for, and what that takes, rounded up.
    ///
    /// # Errors
    /// [`MathError::Overflow`] if the liquidity exceeds 128 bits; the contract reverts then.
    pub fn deposit(self, sqrt_price_x96: U256, most: [U256; 2]) -> Result<(u128, [U256; 2]), MathError> {
        let liquidity = self.liquidity_for(sqrt_price_x96, most)?;
        Ok((liquidity, self.amounts(sqrt_price_x96, liquidity, true)?))
    }

    /// Least amounts that a deposit of at most these amounts takes while the price is within `slippage` of the given one.
    /// The higher the price, the less of token0 is taken, so the least of it is taken at the upper bound, and the least of
    /// token1 at the lower one.
    ///
    /// # Errors
    /// [`MathError::Overflow`] if a liquidity exceeds 128 bits.
    pub fn least_deposit(
        self,
        sqrt_price_x96: U256,
        most: [U256; 2],
        slippage: BasisPoints,
    ) -> Result<[U256; 2], MathError> {
        let [low, high] = sqrt_prices_around(sqrt_price_x96, slippage);
        let ((_, [least0, _]), (_, [_, least1])) = (self.deposit(high, most)?, self.deposit(low, most)?);
        Ok([least0, least1])
    }

    /// Amount of the other token that a deposit of an amount of token0 takes at a price, rounded up; zero below the range.
    ///
    /// # Errors
    /// [`MathError::PriceOutOfRange`] above the range, which takes no token0; [`MathError::Overflow`] beyond 128 bits of
    /// liquidity.
    pub fn beside_first(self, sqrt_price_x96: U256, amount0: U256) -> Result<U256, MathError> {
        let liquidity = self.liquidity_for_first(sqrt_price_x96, amount0)?;
        self.amounts(sqrt_price_x96, liquidity, true).map(|[_, second]| second)
    }

    /// Largest liquidity that an amount of token0 pays for at a price, beside as much of the other token as that takes.
    ///
    /// # Errors
    /// As [`TickRange::beside_first`].
    pub fn liquidity_for_first(self, sqrt_price_x96: U256, amount0: U256) -> Result<u128, MathError> {
        let [low, high] = self.sqrt_prices()?;
        if sqrt_price_x96 >= high {
            return Err(MathError::PriceOutOfRange);
        }
        liquidity_for_amount0(sqrt_price_x96.max(low), high, amount0)
    }

    /// Amount of the other token that a deposit of an amount of token1 takes at a price, rounded up; zero above the range.
    ///
    /// # Errors
    /// [`MathError::PriceOutOfRange`] below the range, which takes no token1; [`MathError::Overflow`] beyond 128 bits of
    /// liquidity.
    pub fn beside_second(self, sqrt_price_x96: U256, amount1: U256) -> Result<U256, MathError> {
        let liquidity = self.liquidity_for_second(sqrt_price_x96, amount1)?;
        self.amounts(sqrt_price_x96, liquidity, true).map(|[first, _]| first)
    }

    /// Largest liquidity that an amount of token1 pays for at a price, beside as much of the other token as that takes.
    ///
    /// # Errors
    /// As [`TickRange::beside_second`].
    pub fn liquidity_for_second(self, sqrt_price_x96: U256, amount1: U256) -> Result<u128, MathError> {
        let [low, high] = self.sqrt_prices()?;
        if sqrt_price_x96 <= low {
            return Err(MathError::PriceOutOfRange);
        }
        liquidity_for_amount1(low, sqrt_price_x96.min(high), amount1)
    }

    /// Largest liquidity that these amounts of token0 and token1 pay for at a price.
    ///
    /// # Errors
    /// [`MathError::Overflow`] if it exceeds 128 bits; the contract reverts then.
    pub fn liquidity_for(self, sqrt_price_x96: U256, [amount0, amount1]: [U256; 2]) -> Result<u128, MathError> {
        let [low, high] = self.sqrt_prices()?;
        if sqrt_price_x96 <= low {
            return liquidity_for_amount0(low, high, amount0);
        }
        if sqrt_price_x96 >= high {
            return liquidity_for_amount1(low, high, amount1);
        }
        let by_first = liquidity_for_amount0(sqrt_price_x96, high, amount0)?;
        Ok(by_first.min(liquidity_for_amount1(low, sqrt_price_x96, amount1)?))
    }
}

/// Computes `amount0 × (low × high / 2^96) / (high − low)`.
fn liquidity_for_amount0(low: U256, high: U256, amount0: U256) -> Result<u128, MathError> {
    let between = mul_div(low, high, U256::ONE << 96)?;
    fits_128(mul_div(amount0, between, high.checked_sub(low).ok_or(MathError::PriceOutOfRange)?)?)
}

/// Computes `amount1 × 2^96 / (high − low)`.
fn liquidity_for_amount1(low: U256, high: U256, amount1: U256) -> Result<u128, MathError> {
    let width = high.checked_sub(low).ok_or(MathError::PriceOutOfRange)?;
    fits_128(mul_div(amount1, U256::ONE << 96, width)?)
}

fn fits_128(liquidity: U256) -> Result<u128, MathError> {
    u128::try_from(liquidity).map_err(|_| MathError::Overflow)
}

/// Square roots of the prices `price × (1 − slippage)` and `price × (1 + slippage)`, rounded down, within the valid prices.
pub fn sqrt_prices_around(sqrt_price_x96: U256, slippage: BasisPoints) -> [U256; 2] {
    let at = |parts: u32| {
        // 160 bits squared, times 15 bits: 335 of 512.
        let squared = sqrt_price_x96.widening_mul::<256, 4, 512, 8>(sqrt_price_x96);
        let scaled: U512 = squared.saturating_mul(U512::from(parts)) / U512::from(WHOLE_BPS);
        let root = U256::checked_from_limbs_slice(scaled.root(2).as_limbs()).unwrap_or(MAX_SQRT_PRICE);
        root.clamp(MIN_SQRT_PRICE, MAX_SQRT_PRICE.saturating_sub(U256::ONE))
    };
    let part = slippage.get().min(WHOLE_BPS);
    [at(WHOLE_BPS.saturating_sub(part)), at(WHOLE_BPS.saturating_add(part))]
}

/// Square root of a price in raw token1 per raw token0, times 2^96, rounded down. `None` beyond the valid prices.
pub fn sqrt_price_of(price: &Ratio) -> Option<U256> {
    let (sign, magnitude) = price.numerator().clone().into_parts();
    if sign == num_bigint::Sign::Minus {
        return None;
    }
    let root = ((magnitude << 192_u32) / price.denominator()).sqrt();
    let root = U256::try_from_le_slice(&root.to_bytes_le())?;
    (MIN_SQRT_PRICE..MAX_SQRT_PRICE).contains(&root).then_some(root)
}

/// Price in raw token1 per raw token0: `sqrt_price² / 2^192`.
pub fn price_of(sqrt_price_x96: U256) -> Option<Ratio> {
    Ratio::new(big(sqrt_price_x96).pow(2).into(), big(U256::ONE) << 192_u32)
}

/// Fees of both tokens per unit of liquidity, times 2^128, modulo 2^256.
pub type FeeGrowth = [U256; 2];

/// Fee growth inside a range. `global` is the pool's, and `outside` that of the lower and of the upper tick.
pub fn fee_growth_inside(range: TickRange, tick: i32, global: FeeGrowth, outside: [FeeGrowth; 2]) -> FeeGrowth {
    let [lower, upper] = outside;
    let of = |global: U256, lower: U256, upper: U256| {
        let below = if tick >= range.lower { lower } else { global.wrapping_sub(lower) };
        let above = if tick < range.upper { upper } else { global.wrapping_sub(upper) };
        global.wrapping_sub(below).wrapping_sub(above)
    };
    let ([global0, global1], [lower0, lower1], [upper0, upper1]) = (global, lower, upper);
    [of(global0, lower0, upper0), of(global1, lower1, upper1)]
}

/// Amounts that a position is owed once its fees are brought up to date: `owed + (inside − last) × liquidity / 2^128`, each
/// modulo 2^128 like the contract's. `last` is the growth at the position's last update.
pub fn owed_after_update(inside: FeeGrowth, last: FeeGrowth, liquidity: u128, owed: [u128; 2]) -> [u128; 2] {
    let of = |inside: U256, last: U256, owed: u128| {
        let grown = inside.wrapping_sub(last).widening_mul::<256, 4, 512, 8>(U256::from(liquidity));
        let earned: U512 = grown >> 128;
        let [low, high, ..] = *earned.as_limbs();
        owed.wrapping_add(u128::from(low) | u128::from(high) << 64)
    };
    let ([inside0, inside1], [last0, last1], [owed0, owed1]) = (inside, last, owed);
    [of(inside0, last0, owed0), of(inside1, last1, owed1)]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn range() -> impl Strategy<Value = TickRange> {
        (MIN_TICK..MAX_TICK, MIN_TICK..=MAX_TICK)
            .prop_filter_map("ascending", |(a, b)| TickRange::new(a.min(b), a.max(b)).ok())
    }

    fn price() -> impl Strategy<Value = U256> {
        (MIN_TICK..MAX_TICK).prop_map(|tick| sqrt_price_at_tick(tick).unwrap())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// Ticks and prices over the full range are inverse, and prices rise.
        #[test]
        fn a_tick_is_found_from_its_price_and_from_the_price_below_the_next(tick in MIN_TICK..MAX_TICK) {
            let (here, next) = (sqrt_price_at_tick(tick).unwrap(), sqrt_price_at_tick(tick + 1).unwrap());
            prop_assert!(here < next);
            prop_assert_eq!(tick_at_sqrt_price(here), Ok(tick));
            prop_assert_eq!(tick_at_sqrt_price(next - U256::ONE), Ok(tick));
        }

        /// A deposit never takes less than the withdrawal of the same liquidity pays, and at most one unit more; outside
        /// the range, one token is zero.
        #[test]
        fn deposits_round_up_and_withdrawals_down(range in range(), price in price(), liquidity in 1u128..1 << 100) {
            let taken = range.amounts(price, liquidity, true).unwrap();
            let paid = range.amounts(price, liquidity, false).unwrap();
            for (taken, paid) in taken.into_iter().zip(paid) {
                // Token0 is rounded in two divisions, of which the second divides by a price of at least 2^32.
                prop_assert!(taken >= paid && taken - paid <= U256::from(2u8));
            }
            let [low, high] = range.sqrt_prices().unwrap();
            prop_assert!(price > low || taken[1].is_zero());
            prop_assert!(price < high || taken[0].is_zero());
        }

        /// Anywhere within the slippage, a deposit takes no less than its minimums and no more than its maximums.
        #[test]
        fn a_deposit_within_the_slippage_takes_its_minimums(
            range in range(), tick in -300_000i32..300_000, amounts in [0u128..1 << 90, 0u128..1 << 90],
            slippage in 1u32..500,
            place in 0u32..=1_000,
        ) {
            let (most, slippage) = (amounts.map(U256::from), BasisPoints::new(slippage).unwrap());
            let price = sqrt_price_at_tick(tick).unwrap();
            if let Ok(least) = range.least_deposit(price, most, slippage) {
                let [low, high] = sqrt_prices_around(price, slippage);
                let between = low + (high - low) * U256::from(place) / U256::from(1_000);
                let Ok((_, taken)) = range.deposit(between, most) else { return Ok(()) };
                for ((taken, least), most) in taken.into_iter().zip(least).zip(most) {
                    // The liquidity is rounded down, in the contract's formula by more than a unit: by up to 2^-50 of it
                    // at these prices. What a unit takes is the most that may be missing beside that.
                    let unit = range.amounts(between, 1, true).unwrap().into_iter().max().unwrap();
                    prop_assert!(taken + unit + (least >> 50) >= least, "{taken} of {least}");
                    prop_assert!(taken <= most, "{taken} of {most}");
                }
            }
        }

        /// The liquidity of some amounts takes no more than them.
        #[test]
        fn liquidity_of_amounts_costs_at_most_these(
            range in range(), price in price(), amounts in [0u128..1 << 90, 0u128..1 << 90],
        ) {
            let amounts = amounts.map(U256::from);
            if let Ok(liquidity) = range.liquidity_for(price, amounts) {
                let taken = range.amounts(price, liquidity, true).unwrap();
                prop_assert!(taken[0] <= amounts[0] && taken[1] <= amounts[1], "{taken:?} of {amounts:?}");
            }
        }
    }

    #[test]
    fn a_range_must_ascend_within_the_valid_ticks() {
        for (lower, upper) in [(0, 0), (1, 0), (MIN_TICK - 1, 0), (0, MAX_TICK + 1)] {
            assert_eq!(TickRange::new(lower, upper), Err(MathError::TickOutOfRange));
        }
        let whole = TickRange::new(MIN_TICK, MAX_TICK).unwrap();
        assert!(whole.contains(MIN_TICK) && !whole.contains(MAX_TICK));
    }

    #[test]
    fn a_range_is_rounded_outward_to_the_spacing() {
        let outward = |lower, upper, spacing| {
            TickRange::outward(lower, upper, spacing).map(|range| (range.lower(), range.upper()))
        };
        assert_eq!(outward(-61, 61, 60), Ok((-120, 120)));
        assert_eq!(outward(-60, 60, 60), Ok((-60, 60)));
        assert_eq!(outward(1, 2, 60), Ok((0, 60)));
        assert_eq!(outward(-2, -1, 200), Ok((-200, 0)));
        // 887,272 is not a multiple of 60 or 200: the last usable ticks are 14,787 · 60 and 4,436 · 200.
        assert_eq!(outward(MIN_TICK, MAX_TICK, 60), Ok((-887_220, 887_220)));
        assert_eq!(outward(MIN_TICK, MAX_TICK, 200), Ok((-887_200, 887_200)));
        assert_eq!(outward(MIN_TICK, MAX_TICK, 1), Ok((MIN_TICK, MAX_TICK)));
        for spacing in [0, -60] {
            assert_eq!(outward(0, 1, spacing), Err(MathError::TickOutOfRange));
        }
        assert_eq!(
            outward(887_250, MAX_TICK, 60),
            Err(MathError::TickOutOfRange),
            "nothing is left beyond the last one"
        );
    }

    /// A price of four has the root two; tick 13,863 is the last one below it (1.0001^13863 is 3.99975, by hand).
    #[test]
    fn prices_become_the_ticks_around_them() {
        let one = U256::ONE << 96;
        let root = |numerator: u64, denominator: u64| {
            sqrt_price_of(&Ratio::of(U256::from(numerator), U256::from(denominator)).unwrap())
        };
        assert_eq!((root(4, 1), root(1, 4), root(1, 1)), (Some(one << 1), Some(one >> 1), Some(one)));
        assert_eq!(root(0, 1), None);
        let range = TickRange::around_prices(one, one << 1, 1).unwrap();
        assert_eq!((range.lower(), range.upper()), (0, 13_864));
        let range = TickRange::around_prices(one >> 1, one, 10).unwrap();
        assert_eq!((range.lower(), range.upper()), (-13_870, 0));
    }

    /// At a price of one, the square roots are those of 0.99 and 1.01: 0.99498743710662 and 1.00498756211209 by hand.
    #[test]
    fn prices_around_one_are_those_of_the_slippage() {
        let one = U256::ONE << 96;
        let [below, above] = sqrt_prices_around(one, BasisPoints::new(100).unwrap());
        let digits = U256::from(100_000_000_000_000_u64);
        assert_eq!(below * digits / one, U256::from(99_498_743_710_661_u64));
        assert_eq!(above * digits / one, U256::from(100_498_756_211_208_u64));
        assert_eq!(sqrt_prices_around(one, BasisPoints::new(0).unwrap()), [one, one]);
        assert_eq!(sqrt_prices_around(one, BasisPoints::new(10_000).unwrap())[0], MIN_SQRT_PRICE);
    }

    /// Growth of 7 inside, after the global counter wrapped, for a liquidity of 3 · 2^128 / 2^128.
    #[test]
    fn fee_growth_wraps_like_the_contracts() {
        let range = TickRange::new(-10, 10).unwrap();
        let start = U256::MAX - U256::from(2u8);
        let global = [start.wrapping_add(U256::from(7u8)), start];
        let outside = [[start, start], [U256::ZERO; 2]];
        let inside = fee_growth_inside(range, 0, global, outside);
        assert_eq!(inside, [U256::from(7u8), U256::ZERO]);
        // Below the range, the growth inside is what the lower tick saw less what the upper tick saw.
        let growth = |of: u8| [U256::from(of); 2];
        assert_eq!(fee_growth_inside(range, -11, growth(90), [growth(50), growth(20)]), growth(30));
        // Above it, the reverse.
        assert_eq!(fee_growth_inside(range, 10, growth(90), [growth(20), growth(50)]), growth(30));
        let unit = U256::ONE << 128;
        assert_eq!(owed_after_update([unit * U256::from(2u8), unit], [unit, unit], 5, [1, 1]), [6, 1]);
        assert_eq!(owed_after_update([unit, unit], [U256::ZERO, unit], 1, [u128::MAX, 0]), [0, 0], "modulo 2^128");
    }
}
