//! Requirements of an approval: warnings to read and text to type, and the check that every approval must pass.

use bardo_base::display::{check_word, found};
use bardo_base::fabric::SafetyCheck;
use bardo_base::text::SafeText;
use serde::{Deserialize, Serialize};

/// Warning that must be read before an approval counts. It is identified by its text: a changed text must be read
/// again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarningToRead {
    /// Text of the warning.
    pub text: SafeText,
    /// Check that raised the warning, if it comes from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<SafetyCheck>,
}

impl WarningToRead {
    /// Creates a warning that comes from no check.
    pub fn plain(text: SafeText) -> Self {
        Self { text, check: None }
    }

    /// Text for display. A check's warning has the display name of the check and readable figures.
    pub fn describe(&self) -> String {
        match &self.check {
            Some(check) => format!("{}: {}", check_word(check.check), found(&check.finding)),
            None => self.text.to_string(),
        }
    }
}

/// Text that must be typed before an approval counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypedConfirmation {
    /// Description of what to type.
    pub what: SafeText,
    /// Expected characters; letter case is ignored.
    pub expected: SafeText,
}

/// Requirements that an approval must meet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApprovalRequirement {
    /// Warnings that must each be acknowledged.
    pub to_read: Vec<WarningToRead>,
    /// Characters that must be typed; `None` if there are none.
    pub confirm: Option<TypedConfirmation>,
}

/// Actions of an operator before an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confirmation {
    /// Texts of the warnings that were acknowledged.
    #[serde(default)]
    pub read: Vec<SafeText>,
    /// Characters that were typed.
    #[serde(default)]
    pub typed: Option<SafeText>,
}

/// Reason why an approval does not count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unconfirmed {
    /// This number of warnings was not acknowledged.
    #[error("{0} warnings were not acknowledged: read and acknowledge each one marked `!`")]
    Unread(usize),
    /// The expected characters, described here, were not typed.
    #[error("it must be confirmed by typing {0}")]
    NotTyped(SafeText),
}

impl ApprovalRequirement {
    /// Checks that `given` meets the requirements. Letter case of the typed characters is ignored.
    ///
    /// # Errors
    /// [`Unconfirmed`] if a warning was not acknowledged, or if the expected characters were not typed.
    pub fn check(&self, given: &Confirmation) -> Result<(), Unconfirmed> {
        let unread = self.to_read.iter().filter(|one| !given.read.contains(&one.text)).count();
        if unread > 0 {
            return Err(Unconfirmed::Unread(unread));
        }
        let Some(TypedConfirmation { what, expected }) = &self.confirm else { return Ok(()) };
        let typed = given.typed.as_ref().map(|typed| typed.as_str().trim());
        // An empty text never confirms, even if nothing is expected.
        match typed.filter(|typed| !typed.is_empty() && typed.eq_ignore_ascii_case(expected.as_str())) {
            Some(_) => Ok(()),
            None => Err(Unconfirmed::NotTyped(what.clone())),
        }
    }

    /// Confirmation that meets the requirements, for scripted operators on devnets, which read and type nothing.
    pub fn met(&self) -> Confirmation {
        Confirmation {
            read: self.to_read.iter().map(|one| one.text.clone()).collect(),
            typed: self.confirm.as_ref().map(|confirm| confirm.expected.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use bardo_base::fabric::{CheckOutcome, Finding};
    use bardo_base::model::Check;
    use bardo_base::units::BasisPoints;

    use super::*;

    #[test]
    fn a_warning_has_the_display_name_of_its_check() {
        let bps = |points| BasisPoints::new(points).unwrap();
        let check = SafetyCheck {
            check: Check::SlippageGuard,
            outcome: CheckOutcome::Warned,
            finding: Finding::Slippage { slippage: bps(50), impact: bps(2) },
        };
        let text = SafeText::clean("slippage_guard: slippage 50 bps, impact 2 bps", 100);
        assert_eq!(WarningToRead { text, check: Some(check) }.describe(), "slippage: 50 bps, impact 2 bps");
        for other in
            ["first payment from this account to 0xabAbAbab", "slippage_guard: a text that only looks like a check's"]
        {
            assert_eq!(WarningToRead::plain(SafeText::clean(other, 100)).describe(), other);
        }
    }
}
