//! How a check answers. A check is a pure function of what is framed and of facts gathered before:
//! `pub fn check(framed: &Framed, facts: &Facts) -> Verdict`.

use std::fmt;

use bardo_base::error::{ErrorCode, Violation};
use bardo_base::fabric::{CheckOutcome, Finding, SafetyCheck};
use bardo_base::model::Check;
use bardo_base::text::SafeText;

/// Characters kept of a sentence of a verdict.
const MAX_DETAIL: usize = 400;

/// One check's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Which check.
    pub check: Check,
    /// How it decided.
    pub outcome: CheckOutcome,
    /// What it found, with the figures.
    pub finding: Finding,
    /// The error it blocks with; `None` unless it blocks.
    pub code: Option<ErrorCode>,
    /// Whether it passes only with the operator's yes, and why.
    pub asks: Vec<SafeText>,
    /// What to do about it, where the error's usual suggestion would not help.
    pub suggestion: Option<SafeText>,
}

impl Verdict {
    /// Nothing stands against it.
    pub fn passed(check: Check, finding: Finding) -> Self {
        Self { check, outcome: CheckOutcome::Passed, finding, code: None, asks: Vec::new(), suggestion: None }
    }

    /// Nothing stands against it, and the operator should read why it was close.
    pub fn warned(check: Check, finding: Finding) -> Self {
        Self { outcome: CheckOutcome::Warned, ..Self::passed(check, finding) }
    }

    /// It may not go on.
    pub fn blocked(check: Check, code: ErrorCode, finding: Finding) -> Self {
        Self { outcome: CheckOutcome::Blocked, code: Some(code), ..Self::passed(check, finding) }
    }

    /// It may not go on, by these rules.
    pub fn broken(check: Check, code: ErrorCode, violations: Vec<Violation>) -> Self {
        Self::blocked(check, code, Finding::Broken { violations })
    }

    /// It may not go on, for a reason that another party gave: an endpoint, a price source, the guardian.
    pub fn because(check: Check, code: ErrorCode, why: impl fmt::Display, violations: Vec<Violation>) -> Self {
        Self::blocked(check, code, Finding::because(why, violations))
    }

    /// Every rule that stands against it; empty unless it blocks.
    pub fn violations(&self) -> &[Violation] {
        self.finding.violations()
    }

    /// What it found, in a sentence.
    pub fn detail(&self) -> SafeText {
        self.finding.sentence()
    }

    /// The same, but the operator must agree, for this reason.
    #[must_use]
    pub fn asking(mut self, why: impl fmt::Display) -> Self {
        self.asks.push(SafeText::clean(&why.to_string(), MAX_DETAIL));
        self
    }

    /// The same with what to do about it.
    #[must_use]
    pub fn suggesting(mut self, what: impl fmt::Display) -> Self {
        self.suggestion = Some(SafeText::clean(&what.to_string(), MAX_DETAIL));
        self
    }

    /// Whether it stands against the action.
    pub fn blocks(&self) -> bool {
        self.outcome == CheckOutcome::Blocked
    }

    /// As the fabric tells it.
    pub fn event(&self) -> SafetyCheck {
        SafetyCheck { check: self.check, outcome: self.outcome, finding: self.finding.clone() }
    }
}
