//! Text from outside is hostile: it enters through [`SafeText::clean`] and nowhere else.

use std::fmt;

/// Outside text with everything removed that could move a cursor, hide, reorder or flood.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SafeText {
    text: String,
    altered: bool,
}

impl SafeText {
    /// Cleans `raw`, keeping at most `max_chars` characters.
    pub fn clean(raw: &str, max_chars: usize) -> Self {
        let text: String = raw.chars().filter(|c| !c.is_control()).take(max_chars).collect();
        let altered = text != raw;
        Self { text, altered }
    }

    /// The cleaned text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether cleaning changed anything.
    pub fn altered(&self) -> bool {
        self.altered
    }
}

impl fmt::Display for SafeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
