//! A line of text being typed. What comes in is cleaned as it comes: nothing typed or pasted moves the cursor of a
//! terminal.

use crossterm::event::{KeyCode, KeyModifiers};

use crate::keymap::Key;
use bardo_base::text::SafeText;

/// The longest text, in characters.
const LONGEST: usize = 400;

/// A text field.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Field {
    text: String,
    /// Characters before the cursor.
    cursor: usize,
}

impl Field {
    /// One that holds something already.
    pub fn holding(text: &str) -> Self {
        let text: String = text.chars().take(LONGEST).collect();
        Self { cursor: text.chars().count(), text }
    }

    /// What is typed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The same, cleaned for everybody else.
    pub fn safe(&self) -> SafeText {
        SafeText::clean(&self.text, LONGEST)
    }

    /// Characters before the cursor.
    pub fn cursor(&self) -> usize {
        self.cursor
    }

    /// Empties it; false if it was empty.
    pub fn clear(&mut self) -> bool {
        let had = !self.text.is_empty();
        *self = Self::default();
        had
    }

    /// Takes a key; false if it means nothing to a text.
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

    /// Takes a text, its line breaks as blanks.
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
