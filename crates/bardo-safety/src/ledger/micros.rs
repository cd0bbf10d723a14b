//! Dollars in whole millionths, as the ledger stores and sums them. They are exact, and fit SQLite's integers.
//!
//! Not here: prices and values of tokens, which keep all their digits ([`Usd`]).

use std::fmt;

use alloy::primitives::U256;

use bardo_base::units::{BasisPoints, Rounding, Usd};

/// Decimal places of the stored values.
const PLACES: u8 = 6;
/// Millionths in one dollar.
const DOLLAR: u64 = 1_000_000;

/// Dollar value in millionths, at most the largest SQLite integer (about 9.2 trillion dollars).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MicroUsd(u64);

/// Error for a value above the largest that the ledger can store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("more dollars than the ledger can count")]
pub struct MicroUsdError;

impl MicroUsd {
    /// Zero dollars. Never used for an unknown value.
    pub const ZERO: Self = Self(0);
    /// The largest value that can be stored.
    pub const MAX: Self = Self(i64::MAX as u64);

    /// Creates a value from millionths of a dollar.
    ///
    /// # Errors
    /// [`MicroUsdError`] above [`Self::MAX`].
    pub fn new(micros: u64) -> Result<Self, MicroUsdError> {
        if micros > Self::MAX.0 { Err(MicroUsdError) } else { Ok(Self(micros)) }
    }

    /// Converts dollars into whole millionths: round up what is spent, and down what is allowed.
    ///
    /// # Errors
    /// [`MicroUsdError`] above [`Self::MAX`].
    pub fn of(dollars: Usd, rounding: Rounding) -> Result<Self, MicroUsdError> {
        let scaled = dollars.scaled(PLACES, rounding).ok_or(MicroUsdError)?;
        u64::try_from(scaled).map_err(|_| MicroUsdError).and_then(Self::new)
    }

    /// Returns the value in millionths of a dollar.
    pub fn get(self) -> u64 {
        self.0
    }

    /// Converts into SQLite's integer type.
    pub(super) fn to_sql(self) -> i64 {
        // At most `i64::MAX` by construction.
        i64::try_from(self.0).unwrap_or(i64::MAX)
    }

    /// Converts from SQLite's integer type; a negative figure is an error.
    pub(super) fn from_sql(stored: i64) -> Result<Self, MicroUsdError> {
        u64::try_from(stored).map(Self).map_err(|_| MicroUsdError)
    }

    /// Adds two values.
    ///
    /// # Errors
    /// [`MicroUsdError`] above [`Self::MAX`].
    pub fn plus(self, other: Self) -> Result<Self, MicroUsdError> {
        self.0.checked_add(other.0).ok_or(MicroUsdError).and_then(Self::new)
    }

    /// Subtracts `other`; zero if `other` is larger.
    #[must_use]
    pub fn less(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Multiplies by `factor`; [`Self::MAX`] if the product is too large.
    #[must_use]
    pub fn times(self, factor: u64) -> Self {
        self.0.checked_mul(factor).and_then(|product| Self::new(product).ok()).unwrap_or(Self::MAX)
    }

    /// Returns this share of the value, rounded down.
    #[must_use]
    pub fn share(self, share: BasisPoints) -> Self {
        // The share is at most the whole, so the result fits.
        Self((u128::from(self.0) * u128::from(share.get()) / 10_000) as u64)
    }

    /// Converts into dollars without rounding.
    pub fn dollars(self) -> Usd {
        // Below 2^63 with six decimal places, so always within 28 digits.
        Usd::from_scaled(U256::from(self.0), PLACES).unwrap_or(Usd::ZERO)
    }
}

/// Formats exactly, such as `$1,966.50`, with more than two decimal places only where needed.
impl fmt::Display for MicroUsd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (self.0 / DOLLAR, self.0 % DOLLAR);
        let digits = whole.to_string();
        let mut text = String::from("$");
        for (place, digit) in digits.chars().enumerate() {
            if place > 0 && (digits.len() - place).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        let fraction = format!("{fraction:06}");
        let needed = fraction.trim_end_matches('0').len().max(2);
        text.push('.');
        text.extend(fraction.chars().take(needed));
        f.pad(&text)
    }
}

/// Returns the sum of all values.
///
/// # Errors
/// [`MicroUsdError`] above [`MicroUsd::MAX`].
pub fn sum(all: impl IntoIterator<Item = MicroUsd>) -> Result<MicroUsd, MicroUsdError> {
    all.into_iter().try_fold(MicroUsd::ZERO, MicroUsd::plus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_are_rounded_against_the_spender() {
        let dollars: Usd = "1966.5000001".parse().unwrap();
        assert_eq!(MicroUsd::of(dollars, Rounding::Up), MicroUsd::new(1_966_500_001));
        assert_eq!(MicroUsd::of(dollars, Rounding::Down), MicroUsd::new(1_966_500_000));
        assert_eq!(MicroUsd::of("9223372036854.775808".parse().unwrap(), Rounding::Up), Err(MicroUsdError));
        assert_eq!(MicroUsd::of("9223372036854.775807".parse().unwrap(), Rounding::Up), Ok(MicroUsd::MAX));
        assert_eq!(MicroUsd::MAX.plus(MicroUsd(1)), Err(MicroUsdError));
        assert_eq!(MicroUsd::MAX.dollars().to_string(), "9223372036854.775807");
    }

    #[test]
    fn people_read_them() {
        for (micros, text) in [
            (0, "$0.00"),
            (1, "$0.000001"),
            (999_500_000, "$999.50"),
            (1_966_500_000, "$1,966.50"),
            (1_234_567_000_001, "$1,234,567.000001"),
        ] {
            assert_eq!(MicroUsd(micros).to_string(), text);
        }
    }

    #[test]
    fn shares_are_rounded_down() {
        let half = BasisPoints::new(5_000).unwrap();
        assert_eq!(MicroUsd(5).share(half), MicroUsd(2));
        assert_eq!(MicroUsd::MAX.share(BasisPoints::new(10_000).unwrap()), MicroUsd::MAX);
    }
}
