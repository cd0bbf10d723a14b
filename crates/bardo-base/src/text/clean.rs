//! The sanitiser: decides which characters stay, become a space, or become [`REPLACEMENT`].

use unicode_normalization::UnicodeNormalization;
use unicode_properties::{GeneralCategory, UnicodeEmoji, UnicodeGeneralCategory};
use unicode_segmentation::UnicodeSegmentation;

/// Replacement for each run of removed characters.
pub const REPLACEMENT: char = '\u{fffd}';

/// Maximum number of combining marks per base character; Vietnamese needs none after composition, Hebrew two.
const MAX_MARKS: usize = 2;

/// Number of characters of a raw text that are processed for a result of `max_chars`.
pub(super) fn window(max_chars: usize) -> usize {
    max_chars.saturating_mul(4).saturating_add(16)
}

/// Treatment of one character.
enum CharTreatment {
    Keep,
    Space,
    Replace,
    /// Removed without a trace: the remaining text looks the same and has the same meaning.
    Drop,
}

/// Cleans `raw`; see [`super::SafeText`] for the guarantees.
pub(super) fn clean(raw: &str, max_chars: usize) -> String {
    if is_plain(raw, max_chars) { raw.to_owned() } else { by_rules(raw, max_chars) }
}

/// Cleans `raw` character by character.
fn by_rules(raw: &str, max_chars: usize) -> String {
    let mut chars = raw.chars();
    let seen: String = chars.by_ref().take(window(max_chars)).collect();
    let more_unseen = chars.next().is_some();

    let mut text = String::with_capacity(seen.len());
    let mut marks = 0;
    for found in seen.nfc() {
        // Decides by the characters already kept, so that cleaning is idempotent.
        let previous = text.chars().next_back();
        let is_mark = is_mark(found);
        marks = if is_mark { marks + 1 } else { 0 };
        let fate = match fate(found) {
            CharTreatment::Keep if is_mark && (marks > MAX_MARKS || !carries_marks(previous)) => CharTreatment::Replace,
            CharTreatment::Drop if !previous.is_some_and(is_pictograph) => CharTreatment::Replace,
            fate => fate,
        };
        match fate {
            // Runs of spaces collapse: they could push important words off the screen.
            CharTreatment::Space if text.ends_with(' ') => {}
            CharTreatment::Keep => text.push(found),
            CharTreatment::Space => text.push(' '),
            // Runs of removed characters collapse into one replacement, which is visible but cannot flood the screen.
            CharTreatment::Replace if text.ends_with(REPLACEMENT) => {}
            CharTreatment::Replace => text.push(REPLACEMENT),
            CharTreatment::Drop => {}
        }
    }
    // Composes again: a replacement may have separated characters, or a dropped selector may have joined some.
    let text: String = text.nfc().collect();
    shorten(text.trim_matches(' '), max_chars, more_unseen)
}

/// True if `raw` is short text without surplus spaces in which every character is printable ASCII or a sign of Bardo's own,
/// which the rules below leave unchanged. This fast path covers nearly all of Bardo's own text.
fn is_plain(raw: &str, max_chars: usize) -> bool {
    let mut after_space = true;
    let mut length = 0_usize;
    let plain = raw.chars().all(|found| {
        let one_space = found == ' ' && !after_space;
        after_space = found == ' ';
        length += 1;
        length <= max_chars && (one_space || found.is_ascii_graphic() || is_own_sign(found))
    });
    plain && (!after_space || raw.is_empty())
}

/// True for signs in Bardo's own text. Each is kept, composes with nothing that is plain, and carries nothing.
const fn is_own_sign(found: char) -> bool {
    matches!(found, '→' | '…' | '✓' | '✕' | '·' | '−' | '–' | '×' | '○' | '“' | '”' | '’' | '≤' | '≥')
}

/// Truncates to `max_chars` characters at grapheme boundaries, with `…` at the cut.
fn shorten(text: &str, max_chars: usize, more_unseen: bool) -> String {
    if !more_unseen && text.chars().count() <= max_chars {
        return text.to_owned();
    }
    let Some(room) = max_chars.checked_sub(1) else { return String::new() };
    let mut kept = String::new();
    let mut used = 0;
    for cluster in text.graphemes(true) {
        used += cluster.chars().count();
        if used > room {
            break;
        }
        kept.push_str(cluster);
    }
    kept.truncate(kept.trim_end_matches(' ').len());
    kept.push('…');
    kept
}

fn fate(found: char) -> CharTreatment {
    use GeneralCategory as Category;
    match found {
        // Most characters of most texts.
        '!'..='~' => return CharTreatment::Keep,
        ' ' | '\t' | '\n' | '\r' | '\u{0b}' | '\u{0c}' | '\u{85}' => return CharTreatment::Space,
        // Blank braille cell, which looks like a space.
        '\u{2800}' => return CharTreatment::Space,
        // Text and emoji presentation selectors.
        '\u{fe0e}' | '\u{fe0f}' => return CharTreatment::Drop,
        _ if is_invisible(found) || is_giant(found) => return CharTreatment::Replace,
        _ => {}
    }
    match found.general_category() {
        Category::Control | Category::Format | Category::Surrogate | Category::PrivateUse | Category::Unassigned => {
            CharTreatment::Replace
        }
        Category::LineSeparator | Category::ParagraphSeparator | Category::SpaceSeparator => CharTreatment::Space,
        // A ring or a "forbidden" bar around the base: it can cover the base character.
        Category::EnclosingMark => CharTreatment::Replace,
        Category::NonspacingMark if is_overlay(found) => CharTreatment::Replace,
        _ => CharTreatment::Keep,
    }
}

/// Letters and marks that draw nothing although their category says otherwise. (Unicode's
/// `Default_Ignorable_Code_Point` without the categories that [`fate`] replaces as a whole, plus some fillers.)
fn is_invisible(found: char) -> bool {
    matches!(found,
        '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{2065}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}'
        | '\u{16fe4}' | '\u{1d159}' | '\u{e0000}'..='\u{e0fff}')
}

/// Single characters that most fonts draw many cells wide, over the following text.
fn is_giant(found: char) -> bool {
    matches!(
        found,
        '\u{fdfa}' | '\u{fdfb}' | '\u{fdfd}' | '\u{a9c5}' | '\u{12031}' | '\u{12219}' | '\u{1242b}' | '\u{2e3b}'
    )
}

/// Strokes through the base character: they can turn a digit into another, or strike out a "not".
fn is_overlay(found: char) -> bool {
    matches!(found, '\u{334}'..='\u{338}' | '\u{20d2}' | '\u{20d3}' | '\u{20d8}'..='\u{20da}' | '\u{20e5}' | '\u{20e6}' | '\u{20ea}' | '\u{20eb}')
}

fn is_mark(found: char) -> bool {
    use GeneralCategory as Category;
    !found.is_ascii()
        && matches!(
            found.general_category(),
            Category::NonspacingMark | Category::SpacingMark | Category::EnclosingMark
        )
}

/// True if a combining mark may follow: only a letter, or a mark on one, is drawn together with it.
fn carries_marks(previous: Option<char>) -> bool {
    previous.is_some_and(|base| base.is_alphabetic() || is_mark(base))
}

/// True for an emoji other than the ASCII digits, `#` and `*`.
fn is_pictograph(found: char) -> bool {
    !found.is_ascii() && found.is_emoji_char()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn text_on_the_fast_path_is_what_the_rules_would_keep(raw in "[ a-c~\\t\\x1f\\x7f→…✓✕·−–×○“”’≤≥\u{301}\u{fe0f}\u{338}☺]{0,12}", limit in 0_usize..14) {
            prop_assert_eq!(clean(&raw, limit), by_rules(&raw, limit));
        }
    }
}
