//! Text filter of a list, typed after `/`.

use crossterm::event::{KeyCode, KeyModifiers};

use crate::keymap::Key;
use crate::painter::StyledText;
use crate::theme::Role;
use crate::widgets::text_field::TextField;
use crate::widgets::text_input;
use bardo_base::text::SafeText;

/// Filter of a list: its text, and whether it is being edited.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    field: TextField,
    typing: bool,
}

impl Filter {
    /// Starts editing the filter.
    pub(super) fn open(&mut self) {
        self.typing = true;
    }

    /// Returns true while the filter is being edited.
    pub(super) fn typing(&self) -> bool {
        self.typing
    }

    /// Returns true if the filter has text.
    pub(super) fn stands(&self) -> bool {
        !self.field.text().is_empty()
    }

    /// Removes the filter and ends editing.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Text of the filter, without spaces around it.
    pub(super) fn words(&self) -> String {
        self.field.text().trim().to_owned()
    }

    /// Words of the filter, in lower case.
    pub(super) fn describe(&self) -> impl Iterator<Item = String> + '_ {
        self.field.text().split_whitespace().map(str::to_lowercase)
    }

    /// Returns true if the text contains every word, in any case.
    pub(super) fn lets(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        self.describe().all(|word| text.contains(word.as_str()))
    }

    /// Label for the frame of the list, with the cursor while the filter is edited.
    pub(super) fn label(&self) -> Vec<StyledText> {
        let mut pieces = vec![("/".to_owned(), Role::TextDim)];
        match (self.typing, self.field.text()) {
            (true, _) => pieces.extend(text_input::pieces(&self.field, Role::TextDim)),
            (false, "") => pieces.push((" all".to_owned(), Role::TextDim)),
            (false, text) => pieces.push((text.to_owned(), Role::TextDim)),
        }
        pieces
    }

    /// Handles a key while editing. Returns false if the key does not edit a text.
    pub(super) fn key(&mut self, key: Key) -> bool {
        match (key.code, key.modifiers) {
            (KeyCode::Enter, _) => self.typing = false,
            (KeyCode::Esc, _) => self.clear(),
            // The first Ctrl-C clears the text, the second ends editing.
            (KeyCode::Char('c'), KeyModifiers::CONTROL) => self.typing = self.field.clear(),
            _ => return self.field.key(key),
        }
        true
    }

    /// Inserts pasted text while editing.
    pub(super) fn paste(&mut self, text: &SafeText) {
        if self.typing {
            self.field.paste(text);
        }
    }
}

/// Parses a time span such as `1h`, `15m` or `30s` into milliseconds.
pub(super) fn since(span: &str) -> Option<u64> {
    let (number, unit) = span.split_at_checked(span.len().checked_sub(1)?)?;
    let number: u64 = number.parse().ok()?;
    let unit = match unit {
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(filter: &Filter) -> String {
        filter.label().into_iter().map(|(text, _)| text).collect()
    }

    #[test]
    fn it_lets_pass_what_holds_every_word_and_esc_lets_all_pass() {
        let mut filter = Filter::default();
        assert!(filter.lets("anything") && !filter.stands());
        filter.paste(&SafeText::clean("no", 10));
        assert!(!filter.stands(), "without the keys nothing comes in");
        filter.open();
        "WETH base".chars().for_each(|letter| assert!(filter.key(Key::char(letter))));
        assert_eq!(label(&filter), "/WETH base▏");
        assert!(filter.key(Key::held(KeyModifiers::ALT, KeyCode::Char('b'))));
        assert_eq!(label(&filter), "/WETH ▏base");
        assert!(filter.key(Key::plain(KeyCode::Enter)) && !filter.typing());
        assert_eq!(label(&filter), "/WETH base");
        assert!(filter.lets("base: weth") && !filter.lets("weth on ethereum"));
        filter.open();
        assert!(filter.key(Key::ctrl('c')) && filter.typing() && !filter.stands(), "what is typed goes first");
        assert!(filter.key(Key::ctrl('c')) && !filter.typing(), "then the keys");
        filter.open();
        filter.key(Key::plain(KeyCode::Esc));
        assert!(!filter.typing() && !filter.stands() && label(&filter) == "/ all");
    }
}
