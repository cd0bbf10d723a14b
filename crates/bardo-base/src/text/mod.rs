//! Sanitised text: external text is hostile, and [`SafeText::clean`] is its only entry.
//!
//! Token names, revert strings, RPC errors and an agent's words may try to move the cursor, hide characters, reverse a
//! line or flood the screen. A [`SafeText`] cannot.
//!
//! The meaning of a text is not checked here; [`lookalike`] detects symbols that imitate others.

mod clean;
pub mod corpus;
pub mod lookalike;

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

pub use clean::REPLACEMENT;
pub use lookalike::{Lookalike, addresses_look_alike, lookalike, reads_like_address};

/// Maximum length of a text that is read from Bardo's own files and messages, in characters.
const MAX_STORED_CHARS: usize = 65_536;

/// External text in which everything that could move a cursor, hide, reorder or flood has been removed visibly.
///
/// The text is in Unicode normalisation form C, so that two spellings of one letter are equal. It contains no control,
/// format, private-use or unassigned character and no line break. Its only white space is the plain space, never two in
/// a row and never at an end. [`REPLACEMENT`] marks removed characters, so that a gap is never silent.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct SafeText {
    text: String,
    altered: bool,
}

impl SafeText {
    /// Cleans `raw`, keeping at most `max_chars` characters; a cut ends in `…`.
    ///
    /// The work is bounded by `max_chars`, however long `raw` is.
    pub fn clean(raw: &str, max_chars: usize) -> Self {
        let text = clean::clean(raw, max_chars);
        let altered = text != raw;
        Self { text, altered }
    }

    /// Cleans bytes that should be UTF-8; invalid bytes become [`REPLACEMENT`].
    pub fn clean_bytes(raw: &[u8], max_chars: usize) -> Self {
        // No character takes more than four bytes, and the sanitiser reads at most this many characters.
        let window = raw.get(..clean::window(max_chars).saturating_mul(4)).unwrap_or(raw);
        match String::from_utf8_lossy(window) {
            Cow::Borrowed(valid) => {
                let clean = Self::clean(valid, max_chars);
                Self { altered: clean.altered || window.len() < raw.len(), ..clean }
            }
            Cow::Owned(repaired) => Self { altered: true, ..Self::clean(&repaired, max_chars) },
        }
    }

    /// The cleaned text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// True if the text differs from its raw form.
    pub fn altered(&self) -> bool {
        self.altered
    }

    /// True if no characters remain.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Width on a terminal, in columns.
    pub fn width(&self) -> usize {
        width(&self.text)
    }
}

/// Width of `text` on a terminal, in columns: wide characters count two, combining marks none.
pub fn width(text: &str) -> usize {
    // Most measured text is ASCII, with one column per character.
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) { text.len() } else { text.width() }
}

/// Truncates `text` to `columns` at a grapheme boundary; a cut ends in `…`.
pub fn fit(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let Some(room) = columns.checked_sub(1) else { return Cow::Borrowed("") };
    let mut cut = String::new();
    let mut used = 0;
    for cluster in text.graphemes(true) {
        used += width(cluster);
        if used > room {
            break;
        }
        cut.push_str(cluster);
    }
    cut.push('…');
    Cow::Owned(cut)
}

/// Returns the candidate most similar to `word`, if it is similar enough for a typing error.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Longer than any name: nothing is similar, and the comparison would be expensive.
    if word.len() > 64 {
        return None;
    }
    let word = word.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&word, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.chars().count() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

impl fmt::Display for SafeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl PartialEq<&str> for SafeText {
    fn eq(&self, other: &&str) -> bool {
        self.text == *other
    }
}

impl PartialEq<String> for SafeText {
    fn eq(&self, other: &String) -> bool {
        self.text == *other
    }
}

/// Serialises as a plain string.
impl Serialize for SafeText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

/// Cleans again, since a file can be edited. `altered` is restored only where the text still shows it.
impl<'de> Deserialize<'de> for SafeText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = String::deserialize(deserializer)?;
        let clean = Self::clean(&raw, MAX_STORED_CHARS);
        let altered = clean.altered || clean.text.contains(REPLACEMENT) || clean.text.ends_with('…');
        Ok(Self { altered, ..clean })
    }
}

#[cfg(test)]
mod tests;
