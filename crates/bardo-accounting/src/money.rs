//! Dollars with a sign, and shares of a cost.

use std::fmt;

use alloy_primitives::{U256, U512};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use bardo_base::units::{Rounding, Usd, UsdError};

/// Decimals of every dollar figure in the books.
const SCALE: u8 = 12;

/// A gain, or a loss if negative, in US dollars. Zero is never negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SignedUsd {
    negative: bool,
    amount: Usd,
}

impl SignedUsd {
    /// Neither gain nor loss.
    pub const ZERO: Self = Self { negative: false, amount: Usd::ZERO };

    /// A gain of `amount`.
    pub const fn gain(amount: Usd) -> Self {
        Self { negative: false, amount }
    }

    /// A loss of `amount`.
    pub fn loss(amount: Usd) -> Self {
        Self { negative: !amount.is_zero(), amount }
    }

    /// `proceeds − cost`.
    ///
    /// # Errors
    /// [`UsdError::OutOfRange`] if the difference is not exactly representable.
    pub fn difference(proceeds: Usd, cost: Usd) -> Result<Self, UsdError> {
        if proceeds >= cost {
            Ok(Self::gain(proceeds.checked_sub(cost)?))
        } else {
            Ok(Self::loss(cost.checked_sub(proceeds)?))
        }
    }

    /// Sum of two figures.
    ///
    /// # Errors
    /// [`UsdError::OutOfRange`] if the sum is not exactly representable.
    pub fn checked_add(self, other: Self) -> Result<Self, UsdError> {
        if self.negative == other.negative {
            let amount = self.amount.checked_add(other.amount)?;
            return Ok(if self.negative { Self::loss(amount) } else { Self::gain(amount) });
        }
        let (gain, loss) = if self.negative { (other.amount, self.amount) } else { (self.amount, other.amount) };
        Self::difference(gain, loss)
    }

    /// Difference of two figures.
    ///
    /// # Errors
    /// [`UsdError::OutOfRange`] if the difference is not exactly representable.
    pub fn checked_sub(self, other: Self) -> Result<Self, UsdError> {
        self.checked_add(Self { negative: !other.negative && !other.amount.is_zero(), amount: other.amount })
    }

    /// True for a loss.
    pub const fn is_loss(self) -> bool {
        self.negative
    }

    /// Size of the gain or loss.
    pub const fn amount(self) -> Usd {
        self.amount
    }
}

/// Exact figure with a minus sign for a loss, without a dollar sign.
impl fmt::Display for SignedUsd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}{}", if self.negative { "-" } else { "" }, self.amount))
    }
}

impl Serialize for SignedUsd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SignedUsd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let parse = |text: &str| text.parse::<Usd>().map_err(serde::de::Error::custom);
        match text.strip_prefix('-') {
            Some(amount) => Ok(Self::loss(parse(amount)?)),
            None => Ok(Self::gain(parse(&text)?)),
        }
    }
}

/// Share of `cost` that `part` of `whole` units has, rounded down to 12 decimals.
///
/// # Errors
/// [`UsdError::OutOfRange`] if `whole` is zero or less than `part`, or if `cost` has more than 12 decimals.
pub(crate) fn share(cost: Usd, part: U256, whole: U256) -> Result<Usd, UsdError> {
    if part == whole {
        return Ok(cost);
    }
    if whole.is_zero() || part > whole {
        return Err(UsdError::OutOfRange);
    }
    let scaled = cost.scaled(SCALE, Rounding::Down).ok_or(UsdError::OutOfRange)?;
    // Below 2^128 · 2^256, and the quotient below 2^128, since the part is less than the whole.
    let shared = U512::from(scaled) * U512::from(part) / U512::from(whole);
    let shared = u128::try_from(shared).map_err(|_| UsdError::OutOfRange)?;
    Usd::from_scaled(U256::from(shared), SCALE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usd(text: &str) -> Usd {
        text.parse().unwrap()
    }

    #[test]
    fn gains_and_losses_add_up_in_every_combination_of_signs() {
        let signed = |text: &str| match text.strip_prefix('-') {
            Some(rest) => SignedUsd::loss(usd(rest)),
            None => SignedUsd::gain(usd(text)),
        };
        for (left, right, sum, difference) in [
            ("5", "3", "8", "2"),
            ("3", "5", "8", "-2"),
            ("5", "-3", "2", "8"),
            ("3", "-5", "-2", "8"),
            ("-3", "5", "2", "-8"),
            ("-3", "-5", "-8", "2"),
            ("-3", "3", "0", "-6"),
            ("0", "0", "0", "0"),
        ] {
            assert_eq!(signed(left).checked_add(signed(right)).unwrap().to_string(), sum, "{left} + {right}");
            assert_eq!(signed(left).checked_sub(signed(right)).unwrap().to_string(), difference, "{left} - {right}");
        }
        assert_eq!(SignedUsd::loss(Usd::ZERO), SignedUsd::ZERO, "there is one zero");
    }

    #[test]
    fn a_share_is_rounded_down_and_the_whole_stays_whole() {
        let of = |part: u64, whole: u64| share(usd("10"), U256::from(part), U256::from(whole)).unwrap().to_string();
        assert_eq!(of(1, 3), "3.333333333333");
        assert_eq!(of(2, 3), "6.666666666666");
        assert_eq!(of(3, 3), "10");
        assert_eq!(of(0, 3), "0");
        assert_eq!(share(usd("10"), U256::from(4), U256::from(3)), Err(UsdError::OutOfRange));
        assert_eq!(share(usd("10"), U256::from(1), U256::ZERO), Err(UsdError::OutOfRange));
        // A whole supply of a token with a great many units neither overflows nor loses the cost.
        assert_eq!(share(usd("10"), U256::MAX / U256::from(2), U256::MAX).unwrap().to_string(), "4.999999999999");
    }
}
