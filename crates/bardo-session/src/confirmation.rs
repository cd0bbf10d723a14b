//! What an operator must read and type before an approval counts, and the check that every approval passes.

use bardo_base::fabric::SafetyCheck;
use bardo_base::text::SafeText;
use serde::{Deserialize, Serialize};

/// Something that must be read before an approval counts. Its text names it: another text must be read again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToRead {
    /// The text.
    pub text: SafeText,
    /// The check that warns, where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<SafetyCheck>,
}

impl ToRead {
    /// A text of no check.
    pub fn plain(text: SafeText) -> Self {
        Self { text, check: None }
    }
}

/// Something that must be typed before an approval counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confirm {
    /// What to type, in words.
    pub what: SafeText,
    /// The characters.
    pub expected: SafeText,
}

/// What an approval must come with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requirement {
    /// Warnings, each to be acknowledged.
    pub to_read: Vec<ToRead>,
    /// Characters to type.
    pub confirm: Option<Confirm>,
}

/// What an operator did before answering.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confirmation {
    /// Warnings that were acknowledged, by their texts.
    #[serde(default)]
    pub read: Vec<SafeText>,
    /// Characters that were typed.
    #[serde(default)]
    pub typed: Option<SafeText>,
}

/// Why an approval does not count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unconfirmed {
    /// Warnings were not acknowledged.
    #[error("{0} of its warnings were not acknowledged: read each one marked `!` and acknowledge it")]
    Unread(usize),
    /// Nothing, or something else, was typed.
    #[error("it must be confirmed by typing {0}")]
    NotTyped(SafeText),
}

impl Requirement {
    /// Whether `given` is enough. Letter case of what was typed does not matter.
    ///
    /// # Errors
    /// [`Unconfirmed`].
    pub fn check(&self, given: &Confirmation) -> Result<(), Unconfirmed> {
        let unread = self.to_read.iter().filter(|one| !given.read.contains(&one.text)).count();
        if unread > 0 {
            return Err(Unconfirmed::Unread(unread));
        }
        let Some(Confirm { what, expected }) = &self.confirm else { return Ok(()) };
        let typed = given.typed.as_ref().map(|typed| typed.as_str().trim());
        // Nothing to type would be no confirmation.
        match typed.filter(|typed| !typed.is_empty() && typed.eq_ignore_ascii_case(expected.as_str())) {
            Some(_) => Ok(()),
            None => Err(Unconfirmed::NotTyped(what.clone())),
        }
    }

    /// A confirmation that meets it. For scripted operators on devnets, which read and type nothing.
    pub fn met(&self) -> Confirmation {
        Confirmation {
            read: self.to_read.iter().map(|one| one.text.clone()).collect(),
            typed: self.confirm.as_ref().map(|confirm| confirm.expected.clone()),
        }
    }
}
