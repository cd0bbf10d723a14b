//! Gains and losses: dollars with a sign.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Usd, UsdError};

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
}
