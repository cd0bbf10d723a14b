//! A password typed by a person: it is never printed, and its memory is wiped on drop.

use std::fmt;

use secrecy::{ExposeSecret as _, SecretString};

/// Maximum length of a secret, in bytes: more than 24 words of any list.
pub const LONGEST_SECRET: usize = 1_024;

/// A password, wiped from memory on drop.
#[derive(Clone)]
pub struct Password(SecretString);

impl Password {
    /// Wraps a password of any length, for decryption.
    pub fn new(text: String) -> Self {
        Self(text.into())
    }

    /// True if both are equal, for the confirmation prompt.
    pub fn is(&self, other: &Self) -> bool {
        self.0.expose_secret() == other.0.expose_secret()
    }

    /// Length in characters.
    pub fn chars(&self) -> usize {
        self.0.expose_secret().chars().count()
    }

    /// True if the password is empty.
    pub fn is_empty(&self) -> bool {
        self.0.expose_secret().is_empty()
    }

    /// Bytes of the password, for deriving a key.
    pub fn expose(&self) -> &[u8] {
        self.0.expose_secret().as_bytes()
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

impl PartialEq for Password {
    fn eq(&self, other: &Self) -> bool {
        self.is(other)
    }
}

impl Eq for Password {}
