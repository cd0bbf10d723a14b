//! A secret that a person types: it prints as nothing, and its memory is wiped when it goes.

use std::fmt;

use secrecy::{ExposeSecret as _, SecretString};

/// The longest secret that is read, in bytes: more than 24 words of any list.
pub const LONGEST_SECRET: usize = 1_024;

/// A password.
#[derive(Clone)]
pub struct Password(SecretString);

impl Password {
    /// A password, whatever its length; for opening.
    pub fn new(text: String) -> Self {
        Self(text.into())
    }

    /// Whether both are the same, for asking twice.
    pub fn is(&self, other: &Self) -> bool {
        self.0.expose_secret() == other.0.expose_secret()
    }

    /// How many characters it has.
    pub fn chars(&self) -> usize {
        self.0.expose_secret().chars().count()
    }

    /// Whether nothing was typed.
    pub fn is_empty(&self) -> bool {
        self.0.expose_secret().is_empty()
    }

    /// The bytes, for deriving a key from them.
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
