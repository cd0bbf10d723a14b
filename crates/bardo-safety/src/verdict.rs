//! Result of a check. A check is a pure function of the signing payload and its
//! [`CheckInputs`](crate::check_inputs::CheckInputs).

use std::fmt;

use bardo_base::error::{ErrorCode, Violation};
use bardo_base::fabric::{CheckOutcome, CheckReason, Finding, SafetyCheck};
use bardo_base::model::Check;
use bardo_base::text::SafeText;

/// Maximum length of a suggestion, in characters.
const MAX_SUGGESTION: usize = 400;

/// Result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Check that reached the verdict.
    pub check: Check,
    /// Outcome of the check.
    pub outcome: CheckOutcome,
    /// Finding with its figures.
    pub finding: Finding,
    /// Error code of a blocking verdict; `None` if it does not block.
    pub code: Option<ErrorCode>,
    /// Reasons why the action needs approval; empty if it needs none.
    pub asks: Vec<CheckReason>,
    /// Suggestion that replaces the error code's usual one; `None` if that one helps.
    pub suggestion: Option<SafeText>,
}

impl Verdict {
    /// Creates a passing verdict.
    pub fn passed(check: Check, finding: Finding) -> Self {
        Self { check, outcome: CheckOutcome::Passed, finding, code: None, asks: Vec::new(), suggestion: None }
    }

    /// Creates a passing verdict with a warning for the operator.
    pub fn warned(check: Check, finding: Finding) -> Self {
        Self { outcome: CheckOutcome::Warned, ..Self::passed(check, finding) }
    }

    /// Creates a blocking verdict.
    pub fn blocked(check: Check, code: ErrorCode, finding: Finding) -> Self {
        Self { outcome: CheckOutcome::Blocked, code: Some(code), ..Self::passed(check, finding) }
    }

    /// Creates a blocking verdict with the violated rules.
    pub fn broken(check: Check, code: ErrorCode, violations: Vec<Violation>) -> Self {
        Self::blocked(check, code, Finding::Broken { violations })
    }

    /// Creates a blocking verdict for a reason from another party: an endpoint, a price source, the guardian.
    pub fn because(check: Check, code: ErrorCode, why: impl fmt::Display, violations: Vec<Violation>) -> Self {
        Self::blocked(check, code, Finding::because(why, violations))
    }

    /// Returns the violated rules; empty unless the verdict blocks.
    pub fn violations(&self) -> &[Violation] {
        self.finding.violations()
    }

    /// Returns the finding as a sentence.
    pub fn detail(&self) -> SafeText {
        self.finding.sentence()
    }

    /// Adds a reason why the action needs approval.
    #[must_use]
    pub fn asking(mut self, why: CheckReason) -> Self {
        self.asks.push(why);
        self
    }

    /// Sets the suggestion.
    #[must_use]
    pub fn suggesting(mut self, what: impl fmt::Display) -> Self {
        self.suggestion = Some(SafeText::clean(&what.to_string(), MAX_SUGGESTION));
        self
    }

    /// Returns true if the verdict blocks the action.
    pub fn blocks(&self) -> bool {
        self.outcome == CheckOutcome::Blocked
    }

    /// Converts the verdict into an event.
    pub fn event(&self) -> SafetyCheck {
        SafetyCheck { check: self.check, outcome: self.outcome, finding: self.finding.clone() }
    }
}
