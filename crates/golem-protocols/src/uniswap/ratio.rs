//! Exact fractions of any size, for prices and impacts. Every conversion states its rounding.

use std::cmp::Ordering;
use std::fmt;

use alloy::primitives::U256;
use num_bigint::{BigInt, BigUint, Sign};

/// Signed fraction with a positive denominator, not reduced.
#[derive(Debug, Clone)]
pub struct Ratio {
    numerator: BigInt,
    denominator: BigUint,
}

impl Ratio {
    /// Creates `numerator / denominator`; `None` for a denominator of zero.
    pub fn new(numerator: BigInt, denominator: BigUint) -> Option<Self> {
        (denominator != BigUint::ZERO).then_some(Self { numerator, denominator })
    }

    /// Creates the fraction of two unsigned integers; `None` for a denominator of zero.
    pub fn of(numerator: U256, denominator: U256) -> Option<Self> {
        Self::new(big(numerator).into(), big(denominator))
    }

    /// Creates a whole number.
    pub fn whole(value: U256) -> Self {
        Self { numerator: big(value).into(), denominator: BigUint::from(1u8) }
    }

    /// Returns the numerator.
    pub fn numerator(&self) -> &BigInt {
        &self.numerator
    }

    /// Returns the denominator, which is positive.
    pub fn denominator(&self) -> &BigUint {
        &self.denominator
    }

    /// Returns the product of two fractions.
    pub fn times(&self, other: &Self) -> Self {
        Self { numerator: &self.numerator * &other.numerator, denominator: &self.denominator * &other.denominator }
    }

    /// Returns the sum of two fractions.
    pub fn plus(&self, other: &Self) -> Self {
        let denominator = &self.denominator * &other.denominator;
        let left = &self.numerator * BigInt::from(other.denominator.clone());
        let right = &other.numerator * BigInt::from(self.denominator.clone());
        Self { numerator: left + right, denominator }
    }

    /// Returns the difference of two fractions.
    pub fn minus(&self, other: &Self) -> Self {
        let negated = Self { numerator: -&other.numerator, denominator: other.denominator.clone() };
        self.plus(&negated)
    }

    /// Returns the quotient; `None` if `other` is zero.
    pub fn over(&self, other: &Self) -> Option<Self> {
        let (sign, magnitude) = other.numerator.clone().into_parts();
        let numerator = &self.numerator * BigInt::from(other.denominator.clone());
        let numerator = if sign == Sign::Minus { -numerator } else { numerator };
        Self::new(numerator, &self.denominator * magnitude)
    }

    /// Converts to units of 2^-128, rounded down; `None` for negative values and from 2^128 on.
    pub fn to_q128(&self) -> Option<U256> {
        let (sign, magnitude) = self.numerator.clone().into_parts();
        if sign == Sign::Minus {
            return None;
        }
        let scaled = (magnitude << 128u32) / &self.denominator;
        U256::try_from_le_slice(&scaled.to_bytes_le())
    }

    /// Rounds up to a whole number; `None` for negative values and from 2^256 on.
    pub fn ceil(&self) -> Option<U256> {
        let (sign, magnitude) = self.numerator.clone().into_parts();
        if sign == Sign::Minus {
            return None;
        }
        let one_less = BigUint::from(1u8);
        U256::try_from_le_slice(&((magnitude + &self.denominator - one_less) / &self.denominator).to_bytes_le())
    }

    /// Formats as a decimal with `decimals` places, half rounded away from zero. For display.
    pub fn to_fixed(&self, decimals: usize) -> String {
        let (sign, magnitude) = self.numerator.clone().into_parts();
        let scale = BigUint::from(10u8).pow(u32::try_from(decimals).unwrap_or(u32::MAX));
        let twice = BigUint::from(2u8);
        let rounded = (magnitude * &scale * &twice + &self.denominator) / (&self.denominator * twice);
        let (whole, part) = (&rounded / &scale, &rounded % &scale);
        let minus = if sign == Sign::Minus && rounded != BigUint::ZERO { "-" } else { "" };
        if decimals == 0 { format!("{minus}{whole}") } else { format!("{minus}{whole}.{part:0>decimals$}") }
    }

    /// Formats as a percentage with `decimals` places, without a percent sign. For display.
    pub fn to_percent(&self, decimals: usize) -> String {
        let hundredfold = Self { numerator: &self.numerator * 100, denominator: self.denominator.clone() };
        hundredfold.to_fixed(decimals)
    }
}

impl PartialEq for Ratio {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ratio {}

impl PartialOrd for Ratio {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ratio {
    fn cmp(&self, other: &Self) -> Ordering {
        let left = &self.numerator * BigInt::from(other.denominator.clone());
        let right = &other.numerator * BigInt::from(self.denominator.clone());
        left.cmp(&right)
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.numerator, self.denominator)
    }
}

/// Converts to an integer of arbitrary size.
pub fn big(value: U256) -> BigUint {
    BigUint::from_bytes_le(&value.to_le_bytes::<32>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(numerator: i64, denominator: u64) -> Ratio {
        Ratio::new(numerator.into(), denominator.into()).unwrap()
    }

    #[test]
    fn arithmetic_is_exact() {
        assert_eq!(ratio(1, 3).plus(&ratio(1, 6)), ratio(1, 2));
        assert_eq!(ratio(1, 3).minus(&ratio(1, 2)), ratio(-1, 6));
        assert_eq!(ratio(1, 3).over(&ratio(-1, 6)), Some(ratio(-2, 1)));
        assert_eq!(ratio(1, 3).over(&ratio(0, 6)), None);
        assert!(Ratio::new(1.into(), 0u8.into()).is_none());
        assert!(ratio(-1, 2) < ratio(1, 1000));
    }

    #[test]
    fn fixed_decimals_are_rounded_half_away_from_zero() {
        assert_eq!(ratio(1, 8).to_fixed(2), "0.13");
        assert_eq!(ratio(-1, 8).to_fixed(2), "-0.13");
        assert_eq!(ratio(-1, 1000).to_fixed(2), "0.00");
        assert_eq!(ratio(5, 2).to_fixed(0), "3");
        assert_eq!(ratio(3, 1000).to_percent(1), "0.3");
        assert_eq!(ratio(1, 2).to_q128(), Some(U256::from(1) << 127));
        assert_eq!(ratio(-1, 2).to_q128(), None);
        assert_eq!(Ratio::whole(U256::from(1) << 128).to_q128(), None);
    }
}
