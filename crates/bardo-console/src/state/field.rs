//! Single-line text field. Input is cleaned as it arrives, so nothing typed or pasted can act on the terminal.

use crossterm::event::{KeyCode, KeyModifiers};

use crate::keymap::Key;
use bardo_base::text::SafeText;

/// Maximum length of the text, in characters.
const LONGEST: usize = 400;

/// Text with a cursor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Field {
    text: String,
    /// Number of characters before the cursor.
    cursor: usize,
}

impl Field {
    /// Creates a field with initial text, cut to the maximum length, and the cursor at its end.
    pub fn holding(text: &str) -> Self {
        let text: String = text.chars().take(LONGEST).collect();
        Self { cursor: text.chars().count(), text }
    }

    /// Text as typed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Text cleaned for use outside the field.
    pub fn safe(&self) -> SafeText {
        SafeText::clean(&self.text, LONGEST)
    }

    /// Number of characters before the cursor.
    pub fn cursor(&self) -> usize {
        self.cursor
    }

    /// Clears the text. Returns false if it was empty.
    pub fn clear(&mut self) -> bool {
        let had = !self.text.is_empty();
        *self = Self::default();
        had
    }

    /// Handles a key. Returns false if the key does not edit a text.
    pub fn key(&mut self, key: Key) -> bool {
        let length = self.text.chars().count();
        match (key.code, key.modifiers) {
            (KeyCode::Char(character), KeyModifiers::NONE) => self.insert(character),
            (KeyCode::Char('u'), KeyModifiers::CONTROL) => {
                self.text = self.text.chars().skip(self.cursor).collect();
                self.cursor = 0;
            }
            (KeyCode::Char('w'), KeyModifiers::CONTROL) => {
                let before: Vec<char> = self.text.chars().take(self.cursor).collect();
                let solid = before.iter().rposition(|one| *one != ' ').map_or(0, |at| at + 1);
                let kept = before.iter().take(solid).rposition(|one| *one == ' ').map_or(0, |at| at + 1);
                let after: String = self.text.chars().skip(self.cursor).collect();
                self.text = before.iter().take(kept).collect::<String>() + &after;
                self.cursor = kept;
            }
            (KeyCode::Backspace, _) if self.cursor > 0 => {
                self.cursor -= 1;
                self.remove();
            }
            (KeyCode::Backspace, _) => {}
            (KeyCode::Delete, _) => self.remove(),
            (KeyCode::Left, _) => self.cursor = self.cursor.saturating_sub(1),
            (KeyCode::Right, _) => self.cursor = (self.cursor + 1).min(length),
            (KeyCode::Home, _) => self.cursor = 0,
            (KeyCode::End, _) => self.cursor = length,
            _ => return false,
        }
        true
    }

    /// Inserts pasted text; control characters are dropped.
    pub fn paste(&mut self, text: &SafeText) {
        for character in text.as_str().chars() {
            self.insert(character);
        }
    }

    fn insert(&mut self, character: char) {
        let length = self.text.chars().count();
        if length >= LONGEST || character.is_control() {
            return;
        }
        let at = self.text.char_indices().nth(self.cursor).map_or(self.text.len(), |(at, _)| at);
        self.text.insert(at, character);
        self.cursor += 1;
    }

    fn remove(&mut self) {
        let at = self.text.char_indices().nth(self.cursor).map(|(at, _)| at);
        if let Some(at) = at {
            self.text.remove(at);
        }
    }
}
