//! Token amounts, dollars and basis points: exact, checked, never floating point.
//!
//! Symbols, and prices with a source and an age, are defined elsewhere (see `chain::price`).

mod amount;
mod bps;
mod signed_usd;
mod usd;

pub use amount::{AmountError, MAX_DECIMALS, TokenAmount, TruncatedAmount};
pub use bps::{BasisPoints, BasisPointsError};
pub use signed_usd::SignedUsd;
pub use usd::{Usd, UsdError};

/// Direction in which an inexact result is rounded.
///
/// Outgoing value is rounded [`Rounding::Up`], incoming value [`Rounding::Down`], so that a check never underestimates
/// the risk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// Round away from zero.
    Up,
    /// Round toward zero.
    Down,
}

/// Errors of a plain decimal numeral: digits, and at most one point with digits on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NumeralError {
    /// The text is empty.
    #[error("no number given: write digits such as 1.5")]
    Empty,
    /// More characters than any number of this kind needs.
    #[error("a number of {length} characters is too long: {limit} are enough for any amount")]
    TooLong {
        /// Length of the text, in characters.
        length: usize,
        /// Maximum length, in characters.
        limit: usize,
    },
    /// A plus or minus sign.
    #[error("'{0}' is not allowed: write the number without a sign")]
    Sign(char),
    /// Scientific notation such as `1e-6`.
    #[error("exponents are not allowed: write all digits, such as 0.000001 for 1e-6")]
    Exponent,
    /// `NaN`, `inf` and their spellings.
    #[error("not a finite number: write digits such as 1.5")]
    NotFinite,
    /// A comma, underscore or apostrophe between digits.
    #[error("'{0}' is not allowed: write thousands without separators and the fraction after a point, such as 1500.25")]
    Separator(char),
    /// A digit of another script.
    #[error("U+{:04X} is a digit of another script: use 0 to 9", u32::from(*.0))]
    ForeignDigit(char),
    /// A word instead of a number.
    #[error("this is not a number: write digits such as 1.5")]
    NotANumber,
    /// Any other character that is not a digit.
    #[error("{} at position {position} is not a digit: use 0 to 9 and at most one point", named(*.found))]
    NotADigit {
        /// The character itself.
        found: char,
        /// Position of the character, counted in characters from 1.
        position: usize,
    },
    /// A point without digits before or after it.
    #[error("the point needs digits on both sides: write 0.5 or 5")]
    BarePoint,
    /// A second point.
    #[error("more than one point: write thousands without separators, such as 1500.25")]
    TwoPoints,
}

/// Character for a message: itself if it is visible ASCII, else its code point.
fn named(found: char) -> String {
    if found.is_ascii_graphic() { format!("'{found}'") } else { format!("U+{:04X}", u32::from(found)) }
}

/// Splits a numeral at its point; the fraction is empty if there is none.
fn split_numeral(text: &str, limit: usize) -> Result<(&str, &str), NumeralError> {
    if text.is_empty() {
        return Err(NumeralError::Empty);
    }
    // Bytes are counted first: an input of megabytes must not cost a pass over it.
    if text.len() > limit.saturating_mul(4) {
        return Err(NumeralError::TooLong { length: text.len(), limit });
    }
    let length = text.chars().count();
    if length > limit {
        return Err(NumeralError::TooLong { length, limit });
    }
    if let Some(sign @ ('+' | '-' | '\u{2212}')) = text.chars().next() {
        return Err(NumeralError::Sign(sign));
    }
    let lower = text.to_ascii_lowercase();
    if matches!(lower.as_str(), "nan" | "inf" | "infinity" | "\u{221e}") {
        return Err(NumeralError::NotFinite);
    }
    let mut point = None;
    for (position, (byte, found)) in text.char_indices().enumerate() {
        match found {
            '0'..='9' => {}
            '.' if point.is_some() => return Err(NumeralError::TwoPoints),
            '.' => point = Some(byte),
            'e' | 'E' if position > 0 => return Err(NumeralError::Exponent),
            ',' | '_' | '\'' => return Err(NumeralError::Separator(found)),
            _ if !found.is_ascii() && found.is_numeric() => return Err(NumeralError::ForeignDigit(found)),
            _ if position == 0 && found.is_alphabetic() => return Err(NumeralError::NotANumber),
            _ => return Err(NumeralError::NotADigit { found, position: position + 1 }),
        }
    }
    let (whole, fraction) = match point {
        None => (text, ""),
        Some(byte) => {
            let (whole, rest) = text.split_at(byte);
            let fraction = rest.strip_prefix('.').unwrap_or(rest);
            if whole.is_empty() || fraction.is_empty() {
                return Err(NumeralError::BarePoint);
            }
            (whole, fraction)
        }
    };
    Ok((whole, fraction))
}

/// Value of an ASCII digit that [`split_numeral`] accepted.
fn digit(byte: u8) -> u64 {
    u64::from(byte.wrapping_sub(b'0'))
}

#[cfg(test)]
mod tests;
