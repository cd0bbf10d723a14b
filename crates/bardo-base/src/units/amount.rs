//! Amounts of a token in raw units, with the decimals that make them readable.

use std::fmt;

use alloy_primitives::U256;
use serde::{Deserialize, Serialize};

use super::{NumeralError, digit, split_numeral};

/// Maximum decimals of an amount: 10^77 is the largest power of ten below 2^256.
pub const MAX_DECIMALS: u8 = 77;

/// Maximum length of a numeral: 78 digits, a point, 77 digits, and some room for leading zeros.
const MAX_NUMERAL: usize = 160;

/// An amount of a token: `raw / 10^decimals`.
///
/// The token itself is not part of the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "AmountForm", try_from = "AmountForm")]
pub struct TokenAmount {
    raw: U256,
    decimals: u8,
}

/// Serialised form, validated when it is read.
#[derive(Serialize, Deserialize)]
struct AmountForm {
    raw: U256,
    decimals: u8,
}

impl From<TokenAmount> for AmountForm {
    fn from(TokenAmount { raw, decimals }: TokenAmount) -> Self {
        Self { raw, decimals }
    }
}

impl TryFrom<AmountForm> for TokenAmount {
    type Error = AmountError;

    fn try_from(AmountForm { raw, decimals }: AmountForm) -> Result<Self, AmountError> {
        Self::new(raw, decimals)
    }
}

/// Errors of parsing or creating an amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AmountError {
    /// The text is not a plain decimal numeral.
    #[error(transparent)]
    Numeral(#[from] NumeralError),
    /// More fraction digits than the token has decimals.
    #[error("{found} digits after the point, but this token has {decimals} decimals: write at most {decimals}")]
    TooManyFractionDigits {
        /// Fraction digits in the text.
        found: usize,
        /// Decimals of the token.
        decimals: u8,
    },
    /// More than 2^256 − 1 raw units.
    #[error("the amount is larger than any token can hold (2^256 − 1 of its smallest unit)")]
    TooLarge,
    /// More decimals than any honest token has.
    #[error("too many decimals: {0}; a token amount can have at most {MAX_DECIMALS}")]
    AbsurdDecimals(u64),
}

/// An amount truncated for display: rounded toward zero, ending in `…` if digits were cut off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TruncatedAmount {
    text: String,
    cut: bool,
}

impl TruncatedAmount {
    /// True if digits other than zero were cut off.
    pub fn is_cut(&self) -> bool {
        self.cut
    }
}

impl fmt::Display for TruncatedAmount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl TokenAmount {
    /// Amount of `raw` raw units.
    ///
    /// # Errors
    /// [`AmountError::AbsurdDecimals`] above [`MAX_DECIMALS`].
    pub fn new(raw: U256, decimals: u8) -> Result<Self, AmountError> {
        if decimals > MAX_DECIMALS {
            return Err(AmountError::AbsurdDecimals(decimals.into()));
        }
        Ok(Self { raw, decimals })
    }

    /// Amount of ether, from wei.
    pub fn ether(wei: U256) -> Self {
        Self { raw: wei, decimals: 18 }
    }

    /// Parses a plain decimal numeral such as `1.5`, exactly.
    ///
    /// # Errors
    /// An [`AmountError`] that describes the fault; the text is never rounded.
    pub fn parse(text: &str, decimals: u8) -> Result<Self, AmountError> {
        if decimals > MAX_DECIMALS {
            return Err(AmountError::AbsurdDecimals(decimals.into()));
        }
        let (whole, fraction) = split_numeral(text, MAX_NUMERAL)?;
        if fraction.len() > usize::from(decimals) {
            return Err(AmountError::TooManyFractionDigits { found: fraction.len(), decimals });
        }
        let padding = usize::from(decimals) - fraction.len();
        let mut raw = U256::ZERO;
        for byte in whole.bytes().chain(fraction.bytes()).chain(std::iter::repeat_n(b'0', padding)) {
            raw = raw
                .checked_mul(U256::from(10))
                .and_then(|tens| tens.checked_add(U256::from(digit(byte))))
                .ok_or(AmountError::TooLarge)?;
        }
        Ok(Self { raw, decimals })
    }

    /// Number of raw units.
    pub fn raw(&self) -> U256 {
        self.raw
    }

    /// Number of decimals; at most [`MAX_DECIMALS`].
    pub fn decimals(&self) -> u8 {
        self.decimals
    }

    /// Truncates to at most `fraction_digits` decimals; the result marks lost digits.
    pub fn shortened(&self, fraction_digits: usize) -> TruncatedAmount {
        let (whole, fraction) = self.digits();
        let kept = fraction.get(..fraction_digits).unwrap_or(&fraction);
        let cut = kept.len() < fraction.len();
        let mut text = whole;
        if !kept.is_empty() {
            text.push('.');
            text.push_str(kept);
        }
        if cut {
            text.push('…');
        }
        TruncatedAmount { text, cut }
    }

    /// Digits before the point, and those after it without trailing zeros.
    fn digits(&self) -> (String, String) {
        let decimals = usize::from(self.decimals);
        let padded = format!("{:0>width$}", self.raw.to_string(), width = decimals + 1);
        // The padding makes it at least one digit longer than the fraction.
        let (whole, fraction) = padded.split_at(padded.len() - decimals);
        (whole.to_owned(), fraction.trim_end_matches('0').to_owned())
    }
}

/// Exact figure: every digit except trailing zeros.
impl fmt::Display for TokenAmount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut text, fraction) = self.digits();
        if !fraction.is_empty() {
            text.push('.');
            text.push_str(&fraction);
        }
        f.pad(&text)
    }
}
