//! Result type of the checks. A check is a pure function of the payload and of inputs gathered before: `pub fn
//! check(framed: &Framed, facts: &Facts) -> Verdict`.

use std::fmt;

use bardo_base::error::{ErrorCode, Violation};
use bardo_base::fabric::{CheckOutcome, Finding, SafetyCheck};
use bardo_base::model::Check;
use bardo_base::text::SafeText;

/// Length limit of a verdict's sentence, in characters.
const MAX_DETAIL: usize = 400;

/// Result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Check that gave the verdict.
    pub check: Check,
    /// Decision of the check.
    pub outcome: CheckOutcome,
    /// Finding with its figures.
    pub finding: Finding,
    /// Error code of a blocking verdict; otherwise `None`.
    pub code: Option<ErrorCode>,
    /// Reasons for which the action needs the operator's approval; empty if it needs none.
    pub asks: Vec<SafeText>,
    /// Suggestion in place of the error code's usual one; `None` if that one helps.
    pub suggestion: Option<SafeText>,
}

impl Verdict {
    /// Creates a verdict that lets the action pass.
    pub fn passed(check: Check, finding: Finding) -> Self {
        Self { check, outcome: CheckOutcome::Passed, finding, code: None, asks: Vec::new(), suggestion: None }
    }

    /// Creates a verdict that lets the action pass with a warning for the operator.
    pub fn warned(check: Check, finding: Finding) -> Self {
        Self { outcome: CheckOutcome::Warned, ..Self::passed(check, finding) }
    }

    /// Creates a verdict that blocks the action.
    pub fn blocked(check: Check, code: ErrorCode, finding: Finding) -> Self {
        Self { outcome: CheckOutcome::Blocked, code: Some(code), ..Self::passed(check, finding) }
    }

    /// Creates a verdict that blocks the action because of these violations.
    pub fn broken(check: Check, code: ErrorCode, violations: Vec<Violation>) -> Self {
        Self::blocked(check, code, Finding::Broken { violations })
    }

    /// Creates a verdict that blocks the action for a reason from another party, such as an endpoint, a price source or
    /// the guardian.
    pub fn because(check: Check, code: ErrorCode, why: impl fmt::Display, violations: Vec<Violation>) -> Self {
        Self::blocked(check, code, Finding::because(why, violations))
    }

    /// Returns the violations of the finding.
    pub fn violations(&self) -> &[Violation] {
        self.finding.violations()
    }

    /// Returns the finding as a sentence.
    pub fn detail(&self) -> SafeText {
        self.finding.sentence()
    }

    /// Adds a reason for which the action needs the operator's approval.
    #[must_use]
    pub fn asking(mut self, why: impl fmt::Display) -> Self {
        self.asks.push(SafeText::clean(&why.to_string(), MAX_DETAIL));
        self
    }

    /// Sets the suggestion.
    #[must_use]
    pub fn suggesting(mut self, what: impl fmt::Display) -> Self {
        self.suggestion = Some(SafeText::clean(&what.to_string(), MAX_DETAIL));
        self
    }

    /// Returns true if the verdict blocks the action.
    pub fn blocks(&self) -> bool {
        self.outcome == CheckOutcome::Blocked
    }

    /// Converts the verdict into its event.
    pub fn event(&self) -> SafetyCheck {
        SafetyCheck { check: self.check, outcome: self.outcome, finding: self.finding.clone() }
    }
}
