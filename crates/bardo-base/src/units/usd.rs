//! Dollars as decimal fixed point. Every operation is checked; none rounds silently.

use std::{fmt, str::FromStr};

use alloy_primitives::{U256, U512};
use rust_decimal::Decimal;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{NumeralError, Rounding, TokenAmount, digit, split_numeral};

/// Decimals of a value computed from an amount and a price.
const VALUE_SCALE: u32 = 12;
/// Maximum number of decimals of a [`Decimal`].
const MAX_SCALE: u32 = 28;
/// Exclusive upper bound of a [`Decimal`]'s mantissa.
const MANTISSA_LIMIT: u128 = 1 << 96;

/// A non-negative amount of US dollars: the price of one whole token, or a value.
///
/// The inner [`Decimal`] is private: its operators panic on overflow, and its arithmetic rounds when it runs out of
/// digits. Here either is an error, so that a check that cannot be computed fails closed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Usd(Decimal);

/// Errors of parsing or computing a dollar figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UsdError {
    /// The text is not a plain decimal numeral.
    #[error(transparent)]
    Numeral(#[from] NumeralError),
    /// More than 28 significant digits or 28 decimals: not exactly representable.
    #[error("the dollar amount is too large or too precise to be stored exactly (28 digits in all)")]
    OutOfRange,
    /// A difference below zero.
    #[error("the result would be below zero dollars")]
    Negative,
}

impl Usd {
    /// Zero dollars. Never stands for "unknown".
    pub const ZERO: Self = Self(Decimal::ZERO);

    /// A whole number of dollars.
    pub fn whole(dollars: u32) -> Self {
        Self(Decimal::from(dollars))
    }

    /// `mantissa / 10^decimals` dollars, exactly, the form of price feed answers.
    ///
    /// # Errors
    /// [`UsdError::OutOfRange`] if that needs more than 28 digits.
    pub fn from_scaled(mantissa: U256, decimals: u8) -> Result<Self, UsdError> {
        exact(U512::from(mantissa), decimals.into())
    }

    /// Value of `amount` at `price` dollars per whole token, with 12 decimals.
    ///
    /// # Errors
    /// [`UsdError::OutOfRange`] for a value that no decimal can hold (about 79 quadrillion dollars).
    pub fn value_of(amount: TokenAmount, price: Self, rounding: Rounding) -> Result<Self, UsdError> {
        let scale = u32::from(amount.decimals()) + price.0.scale();
        // Nearly every amount: the product is below 2^128 · 2^96, and the divisor fits.
        let divisor = 10_u128.checked_pow(scale.saturating_sub(VALUE_SCALE));
        if let (Ok(raw), Some(divisor)) = (u128::try_from(amount.raw()), divisor) {
            let product = U256::from(raw) * U256::from(price.mantissa());
            let (quotient, remainder) = product.div_rem(U256::from(divisor));
            let round_up = rounding == Rounding::Up && !remainder.is_zero();
            return exact(U512::from(quotient) + U512::from(u8::from(round_up)), scale.min(VALUE_SCALE));
        }
        // The product is below 2^256 · 2^96.
        let product = U512::from(amount.raw()) * U512::from(price.mantissa());
        if scale <= VALUE_SCALE {
            return exact(product, scale);
        }
        // At most 10^(77 + 28 − 12), below 2^309.
        let divisor = power_of_ten(scale - VALUE_SCALE);
        let (quotient, remainder) = product.div_rem(divisor);
        let round_up = rounding == Rounding::Up && !remainder.is_zero();
        exact(quotient + U512::from(u8::from(round_up)), VALUE_SCALE)
    }

    /// Sum of two amounts.
    ///
    /// # Errors
    /// [`UsdError::OutOfRange`] if the sum is not exactly representable.
    pub fn checked_add(self, other: Self) -> Result<Self, UsdError> {
        if let Some((left, right, scale)) = self.narrowly_aligned(other)
            && let Some(sum) = left.checked_add(right)
        {
            return exact_narrow(sum, scale);
        }
        let (left, right, scale) = self.aligned(other);
        exact(left + right, scale)
    }

    /// Difference of two amounts.
    ///
    /// # Errors
    /// [`UsdError::Negative`] if `other` is larger; [`UsdError::OutOfRange`] if the difference is not exactly
    /// representable.
    pub fn checked_sub(self, other: Self) -> Result<Self, UsdError> {
        if let Some((left, right, scale)) = self.narrowly_aligned(other) {
            return exact_narrow(left.checked_sub(right).ok_or(UsdError::Negative)?, scale);
        }
        let (left, right, scale) = self.aligned(other);
        exact(left.checked_sub(right).ok_or(UsdError::Negative)?, scale)
    }

    /// True for zero dollars.
    pub fn is_zero(self) -> bool {
        self.0.is_zero()
    }

    /// The inner decimal, for display and comparison only, never for spending.
    pub fn decimal(self) -> Decimal {
        self.0
    }

    /// Text with exactly `places` decimals, for display.
    pub fn to_fixed(self, places: usize, rounding: Rounding) -> String {
        let places = u32::try_from(places).unwrap_or(MAX_SCALE).min(MAX_SCALE);
        let scale = self.0.scale();
        let mantissa = U512::from(self.mantissa());
        let shown = if scale <= places {
            mantissa * power_of_ten(places - scale)
        } else {
            let (quotient, remainder) = mantissa.div_rem(power_of_ten(scale - places));
            quotient + U512::from(u8::from(rounding == Rounding::Up && !remainder.is_zero()))
        };
        let places = places as usize;
        let digits = format!("{:0>width$}", shown.to_string(), width = places + 1);
        let (whole, fraction) = digits.split_at(digits.len() - places);
        if fraction.is_empty() { whole.to_owned() } else { format!("{whole}.{fraction}") }
    }

    /// `self · 10^places`, rounded to an integer. `None` above 2^128 − 1.
    pub fn scaled(self, places: u8, rounding: Rounding) -> Option<u128> {
        let (scale, places) = (self.0.scale(), u32::from(places));
        if scale <= places {
            return self.mantissa().checked_mul(10_u128.checked_pow(places - scale)?);
        }
        // At most 10^28, below 2^94; the quotient is below 2^96.
        let divisor = 10_u128.checked_pow(scale - places)?;
        let round_up = rounding == Rounding::Up && !self.mantissa().is_multiple_of(divisor);
        Some(self.mantissa() / divisor + u128::from(round_up))
    }

    /// Mantissa, non-negative by construction and below 2^96 by the decimal's own limit.
    fn mantissa(self) -> u128 {
        self.0.mantissa().unsigned_abs()
    }

    /// Both mantissas at the finer scale of the two, if they fit.
    fn narrowly_aligned(self, other: Self) -> Option<(u128, u128, u32)> {
        let scale = self.0.scale().max(other.0.scale());
        let at = |value: Self| value.mantissa().checked_mul(10_u128.checked_pow(scale - value.0.scale())?);
        Some((at(self)?, at(other)?, scale))
    }

    /// Both mantissas at the finer scale of the two: below 2^96 · 10^28 each.
    fn aligned(self, other: Self) -> (U512, U512, u32) {
        let scale = self.0.scale().max(other.0.scale());
        let at = |value: Self| U512::from(value.mantissa()) * power_of_ten(scale - value.0.scale());
        (at(self), at(other), scale)
    }
}

/// Converts `mantissa / 10^scale` without loss, dropping trailing zeros until it fits.
fn exact(mut wide: U512, mut scale: u32) -> Result<Usd, UsdError> {
    // Most fit at once; a wide one may fit without its trailing zeros.
    let mantissa = loop {
        match u128::try_from(wide) {
            Ok(mantissa) => break mantissa,
            Err(_) if scale == 0 => return Err(UsdError::OutOfRange),
            Err(_) => {
                let (quotient, remainder) = wide.div_rem(U512::from(10));
                if !remainder.is_zero() {
                    return Err(UsdError::OutOfRange);
                }
                (wide, scale) = (quotient, scale - 1);
            }
        }
    };
    exact_narrow(mantissa, scale)
}

/// Converts like [`exact`]. Trailing zeros that fit stay: every comparison and text of a decimal is by its value.
fn exact_narrow(mut mantissa: u128, mut scale: u32) -> Result<Usd, UsdError> {
    if mantissa == 0 {
        return Ok(Usd::ZERO);
    }
    while (scale > MAX_SCALE || mantissa >= MANTISSA_LIMIT) && scale > 0 && mantissa.is_multiple_of(10) {
        (mantissa, scale) = (mantissa / 10, scale - 1);
    }
    if scale > MAX_SCALE || mantissa >= MANTISSA_LIMIT {
        return Err(UsdError::OutOfRange);
    }
    i128::try_from(mantissa)
        .ok()
        .and_then(|mantissa| Decimal::try_from_i128_with_scale(mantissa, scale).ok())
        .map(Usd)
        .ok_or(UsdError::OutOfRange)
}

/// 10^`exponent` for the exponents of this file, all at most 93 and so below 2^309.
fn power_of_ten(exponent: u32) -> U512 {
    match 10_u128.checked_pow(exponent) {
        Some(power) => U512::from(power),
        None => U512::from(10).pow(U512::from(exponent)),
    }
}

impl FromStr for Usd {
    type Err = UsdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (whole, fraction) = split_numeral(text, 64)?;
        // At most 64 digits: below 2^213.
        let mantissa = whole
            .bytes()
            .chain(fraction.bytes())
            .fold(U512::ZERO, |sum, byte| sum * U512::from(10) + U512::from(digit(byte)));
        let scale = u32::try_from(fraction.len()).map_err(|_| UsdError::OutOfRange)?;
        exact(mantissa, scale)
    }
}

/// Exact figure, without a dollar sign and without trailing zeros.
impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0.normalize().to_string())
    }
}

impl fmt::Debug for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Usd({self})")
    }
}

/// Serialises as a decimal string, so that no reader's floating point alters it.
impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Numerator and decimals of any figure, small and large, with and without trailing zeros.
    fn figure() -> impl Strategy<Value = (u128, u8)> {
        let mantissa =
            prop_oneof![0..2_000_u128, 0..MANTISSA_LIMIT, (0..1_000_000_u128).prop_map(|one| one * 1_000_000_000)];
        (mantissa, 0..29_u8)
    }

    /// `mantissa / 10^scale` as a whole number of 10^-93.
    fn whole(mantissa: U512, scale: u32) -> U512 {
        mantissa * U512::from(10).pow(U512::from(93 - scale))
    }

    proptest! {
        #[test]
        fn sums_and_differences_are_those_of_whole_numbers((a, at) in figure(), (b, under) in figure()) {
            let of = |mantissa: u128, scale: u8| Usd::from_scaled(U256::from(mantissa), scale).unwrap();
            let (left, right) = (of(a, at), of(b, under));
            let (one, other) = (whole(U512::from(a), at.into()), whole(U512::from(b), under.into()));
            prop_assert_eq!(left.cmp(&right), one.cmp(&other));
            match left.checked_add(right) {
                Ok(sum) => prop_assert_eq!(whole(U512::from(sum.mantissa()), sum.0.scale()), one + other),
                Err(error) => {
                    prop_assert_eq!(error, UsdError::OutOfRange);
                    // 28 decimals, or 29 digits: what a decimal cannot hold.
                    let mut kept = one + other;
                    while kept.div_rem(U512::from(10)).1.is_zero() {
                        kept /= U512::from(10);
                    }
                    prop_assert!(kept >= U512::from(MANTISSA_LIMIT), "{left} + {right}");
                }
            }
            match left.checked_sub(right) {
                Ok(rest) => prop_assert_eq!(whole(U512::from(rest.mantissa()), rest.0.scale()) + other, one),
                Err(UsdError::Negative) => prop_assert!(one < other),
                Err(error) => prop_assert!(error == UsdError::OutOfRange && one >= other),
            }
        }

        #[test]
        fn values_are_rounded_by_whole_numbers(raw in any::<u128>(), more in any::<bool>(), decimals in 0..40_u8, (price, scale) in figure()) {
            // Above 2^128, the wide way is taken.
            let raw = if more { U256::from(raw) << 60 } else { U256::from(raw) };
            let amount = TokenAmount::new(raw, decimals).unwrap();
            let price = Usd::from_scaled(U256::from(price), scale).unwrap();
            let product = U512::from(raw) * U512::from(price.mantissa());
            let places = u32::from(decimals) + price.0.scale();
            let (floor, rest) = if places > VALUE_SCALE {
                product.div_rem(U512::from(10).pow(U512::from(places - VALUE_SCALE)))
            } else {
                (product * U512::from(10).pow(U512::from(VALUE_SCALE - places)), U512::ZERO)
            };
            for (rounding, expected) in
                [(Rounding::Down, floor), (Rounding::Up, floor + U512::from(u8::from(!rest.is_zero())))]
            {
                if let Ok(value) = Usd::value_of(amount, price, rounding) {
                    let shown = U512::from(value.mantissa()) * U512::from(10).pow(U512::from(28 - value.0.scale()));
                    prop_assert_eq!(shown, expected * U512::from(10).pow(U512::from(28 - VALUE_SCALE)));
                } else {
                    prop_assert!(expected >= U512::from(MANTISSA_LIMIT));
                }
            }
        }
    }
}
