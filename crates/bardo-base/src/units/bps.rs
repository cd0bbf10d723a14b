//! Shares of a whole in basis points (hundredths of a percent).

use std::fmt;

use alloy_primitives::{U256, U512};
use serde::{Deserialize, Serialize};

use super::{NumeralError, Rounding, digit, split_numeral};

/// Basis points of the whole.
const WHOLE: u32 = 10_000;

/// A share of a whole: 0 to 10,000 basis points (hundredths of a percent).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct BasisPoints(u32);

/// Errors of basis points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BasisPointsError {
    /// The text is not a plain numeral.
    #[error(transparent)]
    Numeral(#[from] NumeralError),
    /// A fraction of a basis point.
    #[error("basis points are whole numbers: write 50 for 0.5 %")]
    Fraction,
    /// More than 10,000 basis points.
    #[error("more than 10000 basis points (100 %): write 0 to 10000, such as 50 for 0.5 %")]
    MoreThanWhole,
    /// The resulting amount exceeds 2^256 − 1.
    #[error("the result is larger than any token amount (2^256 − 1)")]
    TooLarge,
}

impl BasisPoints {
    /// A share of zero.
    pub const ZERO: Self = Self(0);

    /// Share that is fixed at compile time; more than the whole does not compile.
    pub const fn constant<const POINTS: u32>() -> Self {
        const { assert!(POINTS <= WHOLE) };
        Self(POINTS)
    }

    /// Share of `points` basis points.
    ///
    /// # Errors
    /// [`BasisPointsError::MoreThanWhole`] above 10,000.
    pub fn new(points: u32) -> Result<Self, BasisPointsError> {
        if points > WHOLE { Err(BasisPointsError::MoreThanWhole) } else { Ok(Self(points)) }
    }

    /// Parses a whole number of basis points.
    ///
    /// # Errors
    /// A [`BasisPointsError`] that states the correct form.
    pub fn parse(text: &str) -> Result<Self, BasisPointsError> {
        let (whole, fraction) = split_numeral(text, 16)?;
        if !fraction.is_empty() {
            return Err(BasisPointsError::Fraction);
        }
        // At most 16 digits: far below u64::MAX.
        let points = whole.bytes().fold(0_u64, |sum, byte| sum * 10 + digit(byte));
        u32::try_from(points).map_err(|_| BasisPointsError::MoreThanWhole).and_then(Self::new)
    }

    /// Number of basis points.
    pub fn get(self) -> u32 {
        self.0
    }

    /// This share of `amount`: `amount · points / 10000`.
    pub fn of(self, amount: U256, rounding: Rounding) -> U256 {
        scale(amount, self.0, rounding)
    }

    /// Minimum output for a quote of `quoted` and this slippage tolerance: `floor(quoted · (1 − s))`, as Uniswap's SDKs
    /// since 2024 compute `minimumAmountOut`.
    pub fn minimum_out(self, quoted: U256) -> U256 {
        scale(quoted, WHOLE - self.0, Rounding::Down)
    }

    /// Maximum input for a quote of `quoted` and this slippage tolerance: `floor(quoted · (1 + s))`, as Uniswap's SDKs
    /// compute `maximumAmountIn`.
    ///
    /// # Errors
    /// [`BasisPointsError::TooLarge`] above 2^256 − 1.
    pub fn maximum_in(self, quoted: U256) -> Result<U256, BasisPointsError> {
        quoted.checked_add(self.of(quoted, Rounding::Down)).ok_or(BasisPointsError::TooLarge)
    }
}

/// Computes `amount · points / 10000` for `points` of at most 10,000, so that the result fits.
fn scale(amount: U256, points: u32, rounding: Rounding) -> U256 {
    let whole = U512::from(WHOLE);
    let (quotient, remainder) = (U512::from(amount) * U512::from(points)).div_rem(whole);
    let round_up = rounding == Rounding::Up && !remainder.is_zero();
    // At most `amount`: with points = 10000 the remainder is zero.
    U256::from(quotient + U512::from(u8::from(round_up)))
}

impl TryFrom<u32> for BasisPoints {
    type Error = BasisPointsError;

    fn try_from(points: u32) -> Result<Self, Self::Error> {
        Self::new(points)
    }
}

impl From<BasisPoints> for u32 {
    fn from(points: BasisPoints) -> Self {
        points.0
    }
}

impl fmt::Display for BasisPoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bps", self.0)
    }
}
