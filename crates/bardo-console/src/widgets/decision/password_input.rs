//! Password field: never drawn, never printed, and wiped when dropped.

use crossterm::event::{KeyCode, KeyModifiers};
use zeroize::{Zeroize as _, Zeroizing};

use crate::keymap::Key;
use bardo_base::secret::{LONGEST_SECRET, Password};

/// Password typed so far.
#[derive(Clone)]
pub(super) struct PasswordInput(Zeroizing<String>);

impl Default for PasswordInput {
    /// Empty field with the maximum capacity, so that growth never leaves a copy in memory.
    fn default() -> Self {
        Self(Zeroizing::new(String::with_capacity(LONGEST_SECRET)))
    }
}

impl PasswordInput {
    /// Handles a key of the password field.
    pub(super) fn key(&mut self, key: Key) {
        match (key.code, key.modifiers) {
            (KeyCode::Char(letter), KeyModifiers::NONE | KeyModifiers::SHIFT)
                if self.0.len() + letter.len_utf8() <= LONGEST_SECRET =>
            {
                self.0.push(letter);
            }
            (KeyCode::Char('u'), KeyModifiers::CONTROL) => self.clear(),
            (KeyCode::Backspace, _) => drop(self.0.pop()),
            _ => {}
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.zeroize();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the password and clears the field; `None` if nothing was typed.
    pub(super) fn take(&mut self) -> Option<Password> {
        let typed = (!self.0.is_empty()).then(|| Password::new(self.0.as_str().to_owned()));
        self.clear();
        typed
    }
}

impl PartialEq for PasswordInput {
    /// Compares only whether something was typed, so that a comparison reveals nothing.
    fn eq(&self, other: &Self) -> bool {
        self.is_empty() == other.is_empty()
    }
}

impl std::fmt::Debug for PasswordInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PasswordInput(…)")
    }
}
