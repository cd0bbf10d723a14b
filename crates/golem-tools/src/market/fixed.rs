//! Decimals of any size with a fixed number of places. Sums, differences and products with whole numbers are exact;
//! every other result is rounded towards zero in the last place. No result overflows.

use std::fmt;

use num_bigint::{BigInt, BigUint, Sign};

use golem_protocols::uniswap::ratio::Ratio;

/// Decimal places of every value.
const PLACES: u32 = 36;

/// Significant digits of a price. Its text has all of them, so that recomputing from the text gives the same.
const PRICE_DIGITS: usize = 18;

/// Signed decimal with 36 places.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Fixed(BigInt);

impl Fixed {
    /// Creates a whole number.
    pub(crate) fn whole(value: u64) -> Self {
        Self(BigInt::from(value) * one())
    }

    /// Creates `numerator / 10^places`; `None` for more places than a value has.
    pub(crate) fn scaled(numerator: impl Into<BigInt>, places: u32) -> Option<Self> {
        let missing = PLACES.checked_sub(places)?;
        Some(Self(numerator.into() * BigInt::from(BigUint::from(10u8).pow(missing))))
    }

    /// Converts a price, rounded down to 18 significant digits; `None` if nothing above zero remains.
    pub(crate) fn price(ratio: &Ratio) -> Option<Self> {
        let value = ratio.numerator() * one() / BigInt::from(ratio.denominator().clone());
        let digits = value.magnitude().to_string().len();
        let unit = BigInt::from(BigUint::from(10u8).pow(u32::try_from(digits.saturating_sub(PRICE_DIGITS)).ok()?));
        let rounded = &value / &unit * &unit;
        (rounded.sign() == Sign::Plus).then_some(Self(rounded))
    }

    /// Sum of two values.
    pub(crate) fn plus(&self, other: &Self) -> Self {
        Self(&self.0 + &other.0)
    }

    /// Difference of two values.
    pub(crate) fn minus(&self, other: &Self) -> Self {
        Self(&self.0 - &other.0)
    }

    /// Product with a whole number.
    pub(crate) fn by(&self, factor: u64) -> Self {
        Self(&self.0 * factor)
    }

    /// Product of two values.
    pub(crate) fn times(&self, other: &Self) -> Self {
        Self(&self.0 * &other.0 / one())
    }

    /// Quotient by a whole number; `None` for zero.
    pub(crate) fn part(&self, divisor: u64) -> Option<Self> {
        (divisor != 0).then(|| Self(&self.0 / divisor))
    }

    /// Quotient of two values; `None` for a divisor of zero.
    pub(crate) fn over(&self, divisor: &Self) -> Option<Self> {
        (divisor.0.sign() != Sign::NoSign).then(|| Self(&self.0 * one() / &divisor.0))
    }

    /// Square root; `None` for a negative value.
    pub(crate) fn root(&self) -> Option<Self> {
        let scaled = &self.0 * one();
        (scaled.sign() != Sign::Minus).then(|| Self(BigInt::from(scaled.magnitude().sqrt())))
    }

    /// Size without the sign.
    pub(crate) fn size(&self) -> Self {
        Self(BigInt::from(self.0.magnitude().clone()))
    }

    /// Sum of several values.
    pub(crate) fn sum<'a>(values: impl IntoIterator<Item = &'a Self>) -> Self {
        Self(values.into_iter().map(|value| &value.0).sum())
    }

    /// Mean of several values; `None` without any.
    pub(crate) fn mean<'a>(values: impl ExactSizeIterator<Item = &'a Self>) -> Option<Self> {
        let count = u64::try_from(values.len()).ok()?;
        Self::sum(values).part(count)
    }

    /// True for a value below zero.
    pub(crate) fn is_negative(&self) -> bool {
        self.0.sign() == Sign::Minus
    }

    /// Text with at most `places` decimals, rounded half away from zero, without trailing zeros.
    pub(crate) fn to_text(&self, places: u32) -> String {
        let cut = PLACES.saturating_sub(places);
        let unit = BigUint::from(10u8).pow(cut);
        let half = &unit / BigUint::from(2u8);
        let kept = (self.0.magnitude() + half) / unit;
        text(self.is_negative(), &kept, places.min(PLACES))
    }

    /// Text with at most `digits` significant digits, rounded half away from zero, without trailing zeros.
    pub(crate) fn to_significant(&self, digits: u32) -> String {
        let length = u32::try_from(self.0.magnitude().to_string().len()).unwrap_or(u32::MAX);
        let whole = length.saturating_sub(PLACES);
        if whole > 0 {
            return self.to_text(digits.saturating_sub(whole).min(PLACES));
        }
        let zeros = PLACES.saturating_sub(length);
        self.to_text(zeros.saturating_add(digits).min(PLACES))
    }
}

fn one() -> BigInt {
    BigInt::from(BigUint::from(10u8).pow(PLACES))
}

fn text(negative: bool, magnitude: &BigUint, places: u32) -> String {
    let places = places as usize;
    let digits = format!("{:0>width$}", magnitude.to_string(), width = places + 1);
    // The padding makes it at least one digit longer than the fraction.
    let (whole, fraction) = digits.split_at(digits.len() - places);
    let fraction = fraction.trim_end_matches('0');
    let sign = if negative && *magnitude != BigUint::ZERO { "-" } else { "" };
    if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

/// Exact text, without trailing zeros.
impl fmt::Display for Fixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&text(self.is_negative(), self.0.magnitude(), PLACES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy::primitives::U256;

    fn fixed(numerator: i64, places: u32) -> Fixed {
        Fixed::scaled(numerator, places).unwrap()
    }

    #[test]
    fn values_are_written_exactly_and_rounded_half_away_from_zero() {
        assert_eq!(fixed(1_250, 3).to_string(), "1.25");
        assert_eq!(fixed(-5, 1).to_string(), "-0.5");
        assert_eq!(Fixed::default().to_string(), "0");
        assert_eq!(fixed(12_345, 4).to_text(3), "1.235");
        assert_eq!(fixed(-12_345, 4).to_text(3), "-1.235");
        assert_eq!(fixed(-4, 1).to_text(0), "0");
        assert_eq!(fixed(123_456, 2).to_significant(4), "1235");
        assert_eq!(fixed(123_456, 8).to_significant(4), "0.001235");
        assert_eq!(Fixed::whole(12).to_significant(4), "12");
        assert_eq!(Fixed::scaled(1, 37), None);
    }

    #[test]
    fn quotients_and_roots_are_rounded_down_in_the_last_place() {
        assert_eq!(Fixed::whole(2).root().unwrap().to_text(20), "1.4142135623730950488");
        assert_eq!(Fixed::whole(2).part(3).unwrap().to_string(), "0.666666666666666666666666666666666666");
        assert_eq!(Fixed::whole(1).over(&Fixed::whole(8)).unwrap().to_string(), "0.125");
        assert_eq!(Fixed::whole(1).over(&Fixed::default()), None);
        assert_eq!(Fixed::whole(1).part(0), None);
        assert_eq!(fixed(-1, 0).root(), None);
        assert_eq!(fixed(15, 1).times(&fixed(-25, 1)).to_string(), "-3.75");
    }

    #[test]
    fn a_price_has_eighteen_digits_rounded_down() {
        let ratio =
            |numerator: u64, denominator: u64| Ratio::of(U256::from(numerator), U256::from(denominator)).unwrap();
        assert_eq!(Fixed::price(&ratio(20_000, 3)).unwrap().to_string(), "6666.66666666666666");
        assert_eq!(Fixed::price(&ratio(2, 3_000_000_000)).unwrap().to_string(), "0.000000000666666666666666666");
        assert_eq!(Fixed::price(&ratio(3_400, 1)).unwrap().to_string(), "3400");
        // 10^39 / 7 has 39 digits before the point.
        let large = Ratio::of(U256::from(10).pow(U256::from(39)), U256::from(7)).unwrap();
        assert_eq!(Fixed::price(&large).unwrap().to_string(), "142857142857142857000000000000000000000");
        let dust = Ratio::of(U256::from(1), U256::from(10).pow(U256::from(40))).unwrap();
        assert_eq!(Fixed::price(&dust), None);
    }
}
