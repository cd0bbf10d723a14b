//! Does a symbol imitate another one?
//!
//! Skeletons are those of Unicode's security mechanisms (UTS #39, "confusables"), made stricter for symbols:
//! case, punctuation, compatibility forms and the digits that pass for letters do not count as a difference.
//! Not noticed, because honest symbols are as close: letters swapped, added or left out.

use unicode_normalization::UnicodeNormalization;
use unicode_security::{MixedScript, skeleton};

use super::SafeText;

/// A symbol that can be taken for another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lookalike {
    /// The known symbol it can be taken for, where it is one.
    pub of: Option<String>,
    /// What makes it one.
    pub why: Why,
}

/// What makes a symbol a lookalike, the gravest reason first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The very symbol of something else.
    SameSymbol,
    /// Characters that cannot be seen were in it.
    HiddenCharacters,
    /// Letters of several writing systems in one word.
    MixedScripts,
    /// Other letters that look the same.
    ConfusableLetters,
    /// The same but for case or punctuation.
    SmallDifference,
}

impl Why {
    /// In words, to follow "this symbol".
    pub fn words(self) -> &'static str {
        match self {
            Self::SameSymbol => "is the same symbol",
            Self::HiddenCharacters => "contains invisible characters",
            Self::MixedScripts => "mixes letters of several scripts",
            Self::ConfusableLetters => "uses letters that look like others",
            Self::SmallDifference => "differs only in case or punctuation",
        }
    }
}

impl std::fmt::Display for Lookalike {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.of {
            Some(known) => write!(f, "can be mistaken for {known}: it {}", self.why.words()),
            None => f.write_str(self.why.words()),
        }
    }
}

/// Whether `symbol` can be taken for one of `known`, or is built to be taken for something.
///
/// A symbol that *equals* a known one is no lookalike here: that two tokens share a symbol is seen by address.
pub fn lookalike<'a>(symbol: &SafeText, known: impl IntoIterator<Item = &'a str>) -> Option<Lookalike> {
    let text = symbol.as_str();
    let shape = shape(text);
    let mut of = None;
    for candidate in known {
        if candidate == text && !symbol.altered() {
            return None;
        }
        if of.is_none() && !shape.is_empty() && self::shape(candidate) == shape {
            of = Some(candidate);
        }
    }
    let why = if symbol.altered() && (of.is_some() || text.contains(super::REPLACEMENT)) {
        Why::HiddenCharacters
    } else if !text.is_single_script() {
        Why::MixedScripts
    } else if of.is_some_and(|known| plain(known) == plain(text)) {
        Why::SmallDifference
    } else if of.is_some() {
        Why::ConfusableLetters
    } else {
        return None;
    };
    Some(Lookalike { of: of.map(str::to_owned), why })
}

/// Letters and digits only, in lower case.
fn plain(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// One string for all texts that can be taken for each other.
fn shape(text: &str) -> String {
    // Compatibility forms first (fullwidth, mathematical, circled), then the look, then case, then the look of
    // that: capital I and small l meet only after both steps.
    let compatible: String = text.nfkc().collect();
    let seen: String = skeleton(&compatible).flat_map(char::to_lowercase).collect();
    let letters: String = skeleton(&seen)
        .map(|c| match c {
            '0' => 'o',
            '1' | 'i' | '|' | '!' => 'l',
            '5' | '$' => 's',
            '8' => 'b',
            c => c,
        })
        .filter(|c| c.is_alphanumeric())
        .collect();
    letters
}
