//! Binding of a key to a ledger. Limits are effective because one ledger counts everything that a key signs. A key file
//! copied next to another ledger would have its limits twice, so each file names its ledger and opens for no other.
//!
//! Not here: the location and the name of a ledger (see `runtime::data`).

use std::fmt;
use std::str::FromStr;

use bardo_base::text::SafeText;

/// Maximum length of a name, in characters.
const LONGEST: usize = 80;

/// Name of a ledger: generated once at its creation, stored in it, and unique to it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LedgerId(String);

/// Error for a text that is not a valid ledger name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a valid ledger name: use 1 to {LONGEST} letters, digits and `-`")]
pub struct LedgerIdError(SafeText);

impl LedgerId {
    /// Returns the name as text.
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
    type Err = LedgerIdError;

    fn from_str(text: &str) -> Result<Self, LedgerIdError> {
        let fits = (1..=LONGEST).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if fits { Ok(Self(text.to_owned())) } else { Err(LedgerIdError(SafeText::clean(text, LONGEST))) }
    }
}
