//! Which ledger a key belongs to. Caps hold because everything a key signs is counted in one ledger; a key file copied
//! beside another ledger would be counted twice over, so a file names its ledger and opens for no other.
//!
//! Not here: where a ledger is and how it got its name (see `runtime::data`).

use std::fmt;
use std::str::FromStr;

use bardo_base::text::SafeText;

/// The longest name, in characters.
const LONGEST: usize = 80;

/// A ledger's name: drawn once when the ledger was begun, kept in it, no other's.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LedgerId(String);

/// A text that names no ledger.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` names no ledger: a name has 1 to {LONGEST} letters, digits and `-`")]
pub struct BadLedgerId(SafeText);

impl LedgerId {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LedgerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for LedgerId {
    type Err = BadLedgerId;

    fn from_str(text: &str) -> Result<Self, BadLedgerId> {
        let fits = (1..=LONGEST).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if fits { Ok(Self(text.to_owned())) } else { Err(BadLedgerId(SafeText::clean(text, LONGEST))) }
    }
}
