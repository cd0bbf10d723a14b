//! How a check answers. A check is a pure function of what is framed and of facts gathered before:
//! `pub fn check(framed: &Framed, facts: &Facts) -> Verdict`.

use std::fmt;

use bardo_base::error::{ErrorCode, Violation};
use bardo_base::fabric::{CheckOutcome, SafetyCheck};
use bardo_base::model::Check;
use bardo_base::text::SafeText;

/// Characters kept of a verdict's sentence.
const MAX_DETAIL: usize = 400;

/// One check's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Which check.
    pub check: Check,
    /// How it decided.
    pub outcome: CheckOutcome,
    /// Why, with the figures.
    pub detail: SafeText,
    /// The error it blocks with; `None` unless it blocks.
    pub code: Option<ErrorCode>,
    /// Every rule that stands against it; empty unless it blocks.
    pub violations: Vec<Violation>,
    /// Whether it passes only with the operator's yes, and why.
    pub asks: Vec<SafeText>,
    /// What to do about it, where the error's usual suggestion would not help.
    pub suggestion: Option<SafeText>,
}

impl Verdict {
    /// Nothing stands against it.
    pub fn passed(check: Check, detail: impl fmt::Display) -> Self {
        Self {
            check,
            outcome: CheckOutcome::Passed,
            detail: SafeText::clean(&detail.to_string(), MAX_DETAIL),
            code: None,
            violations: Vec::new(),
            asks: Vec::new(),
            suggestion: None,
        }
    }

    /// Nothing stands against it, and the operator should read why it was close.
    pub fn warned(check: Check, detail: impl fmt::Display) -> Self {
        Self { outcome: CheckOutcome::Warned, ..Self::passed(check, detail) }
    }

    /// It may not go on.
    pub fn blocked(check: Check, code: ErrorCode, detail: impl fmt::Display, violations: Vec<Violation>) -> Self {
        Self { outcome: CheckOutcome::Blocked, code: Some(code), violations, ..Self::passed(check, detail) }
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
        SafetyCheck { check: self.check, outcome: self.outcome, detail: self.detail.clone() }
    }
}
