//! Detection of symbols, names and addresses that imitate others.
//!
//! Skeletons follow Unicode's security mechanisms (UTS #39, "confusables"), made stricter for symbols: case,
//! punctuation, compatibility forms and digits that pass for letters do not count as a difference. Swapped, added or
//! missing letters are not detected, because honest symbols are that similar, too.

use alloy_primitives::Address;
use unicode_normalization::UnicodeNormalization;
use unicode_security::{MixedScript, skeleton};

use super::SafeText;

/// Bytes compared at each end of an address. People compare about four hexadecimal digits.
const COMPARED: usize = 2;
/// Hexadecimal digits in a row from which a name reads like an address.
const DIGITS_OF_ADDRESS: usize = 8;
/// Hexadecimal digits on either side of an ellipsis from which a name reads like a shortened address.
const DIGITS_AT_ELLIPSIS: usize = 3;

/// A symbol that can be mistaken for another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lookalike {
    /// Known symbol that it can be mistaken for, if any.
    pub of: Option<String>,
    /// Reason of the match.
    pub why: LookalikeReason,
}

/// Reason that a symbol is a lookalike, the gravest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookalikeReason {
    /// Identical to the symbol of another token.
    SameSymbol,
    /// Contained invisible characters.
    HiddenCharacters,
    /// Mixes letters of several scripts.
    MixedScripts,
    /// Uses other letters that look the same.
    ConfusableLetters,
    /// Differs only in case or punctuation.
    SmallDifference,
}

impl LookalikeReason {
    /// Predicate that follows "this symbol" in a sentence.
    pub fn describe(self) -> &'static str {
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
            Some(known) => write!(f, "can be mistaken for {known}: it {}", self.why.describe()),
            None => f.write_str(self.why.describe()),
        }
    }
}

/// Returns a match if `symbol` can be mistaken for one of `known`, or is built to deceive.
///
/// A symbol that *equals* a known one is not a lookalike here: addresses distinguish tokens with the same symbol.
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
        LookalikeReason::HiddenCharacters
    } else if !text.is_single_script() {
        LookalikeReason::MixedScripts
    } else if of.is_some_and(|known| plain(known) == plain(text)) {
        LookalikeReason::SmallDifference
    } else if of.is_some() {
        LookalikeReason::ConfusableLetters
    } else {
        return None;
    };
    Some(Lookalike { of: of.map(str::to_owned), why })
}

/// Returns true if two different addresses begin and end alike. Attackers make such addresses so that a victim copies
/// the wrong one from a transaction history (address poisoning).
pub fn addresses_look_alike(one: Address, other: Address) -> bool {
    one != other
        && one.first_chunk::<COMPARED>() == other.first_chunk()
        && one.last_chunk::<COMPARED>() == other.last_chunk()
}

/// Returns true if a name can be read as an address, whole or shortened: it begins like one, has eight hexadecimal
/// digits in a row, or an ellipsis between digits. Letters that look like Latin ones count as these.
pub fn reads_like_address(name: &str) -> bool {
    let compatible: String = name.nfkc().collect();
    // The skeleton turns a zero into the letter it looks like, and an ellipsis may be one sign or three.
    let seen: String = skeleton(&compatible).flat_map(char::to_lowercase).collect::<String>().replace("...", "…");
    let digit = |c: char| c.is_ascii_hexdigit() || matches!(c, 'o' | 'l' | 'i' | '|');
    let begins = ["0x", "ox"].iter().any(|start| seen.starts_with(start));
    let longest = seen.split(|c| !digit(c)).filter(|part| part.chars().any(|c| c.is_ascii_digit()));
    if begins || longest.map(|part| part.chars().count()).max().is_some_and(|most| most >= DIGITS_OF_ADDRESS) {
        return true;
    }
    let parts: Vec<&str> = seen.split(['…', '\u{2025}', '~']).map(|part| part.trim_matches([' ', '.'])).collect();
    parts.windows(2).any(|pair| {
        let [before, after] = pair else { return false };
        before.chars().rev().take_while(|c| digit(*c)).count() >= DIGITS_AT_ELLIPSIS
            && after.chars().take_while(|c| digit(*c)).count() >= DIGITS_AT_ELLIPSIS
    })
}

/// Letters and digits only, in lower case.
fn plain(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Canonical form that is equal for all texts that can be mistaken for each other.
fn shape(text: &str) -> String {
    // Compatibility forms first (fullwidth, mathematical, circled), then the skeleton, then case, then the skeleton
    // again: capital I and small l only meet after both steps.
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
