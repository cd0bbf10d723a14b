//! Text from outside is hostile: it enters through [`SafeText::clean`] and nowhere else.
//!
//! Token names, revert strings, RPC errors, an agent's words: whoever wrote them may want to move the cursor,
//! hide a character, turn a line around or drown the screen. What comes out of here cannot.
//!
//! Not here: what is *said* by a text. Whether a symbol imitates another is [`lookalike`]'s question.

mod clean;
pub mod corpus;
pub mod lookalike;

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

pub use clean::REPLACEMENT;
pub use lookalike::{Lookalike, lookalike};

/// The longest text that is taken back from a file or a message of our own.
const MAX_STORED_CHARS: usize = 65_536;

/// Outside text in which everything that could move a cursor, hide, reorder or flood has been made visible.
///
/// The text is in Unicode normalisation form C, so that two spellings of one letter are one text. It holds no
/// control, format, private or unassigned character, no line break, no space but the plain one, no two of
/// these in a row and none at its ends. [`REPLACEMENT`] stands where something unseen was, so that a gap is never silent.
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

    /// Cleans bytes that claim to be UTF-8; what is not becomes [`REPLACEMENT`].
    pub fn clean_bytes(raw: &[u8], max_chars: usize) -> Self {
        // No character takes more than four bytes, and the cleaner looks at no more than this many.
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

    /// Whether this is not, character for character, what came in.
    pub fn altered(&self) -> bool {
        self.altered
    }

    /// Whether nothing is left to show.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Columns it takes on a terminal.
    pub fn width(&self) -> usize {
        width(&self.text)
    }
}

/// Columns `text` takes on a terminal: wide characters count two, combining marks none.
pub fn width(text: &str) -> usize {
    // Most of what is measured is ASCII, of which each character takes one.
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) { text.len() } else { text.width() }
}

/// `text` cut to `columns`, never inside a character a reader sees as one; a cut ends in `…`.
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

/// The candidate most like `word`, if one is close enough to be what was meant.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Longer than any name here: nothing is near it, and the comparison would cost.
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

/// The text alone, as a string.
impl Serialize for SafeText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

/// Cleaned again, since a file can be edited; the mark is set again where the text still shows why it was.
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
