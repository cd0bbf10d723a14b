//! Why something is not signed, or did not come to its end: one error with every rule behind it.

use crate::simulate::{Fault, Simulated};
use crate::verdict::Verdict;
use bardo_base::error::{ErrorCode, ToolError, Violation};
use bardo_base::model::{Check, RuleName};
use bardo_base::text::SafeText;

/// Why an action does not go on. Nothing of it was signed, unless it says so.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// The error it ends with.
    pub code: ErrorCode,
    /// What stands against it, in a sentence.
    pub message: String,
    /// Every verdict that was reached, in the order of the checks.
    pub verdicts: Vec<Verdict>,
    /// Every rule that stands against it.
    pub violations: Vec<Violation>,
    /// What it would do, where that could be simulated.
    pub simulated: Option<Box<Simulated>>,
    /// Machine-readable facts beside the message, by name.
    pub facts: Vec<(&'static str, serde_json::Value)>,
}

impl Refusal {
    /// A refusal for one reason that no check gave.
    pub fn new(code: ErrorCode, message: impl ToString) -> Self {
        Self {
            code,
            message: message.to_string(),
            verdicts: Vec::new(),
            violations: Vec::new(),
            simulated: None,
            facts: Vec::new(),
        }
    }

    /// A refusal by the verdicts that block; the first of them names the error.
    pub fn by(verdicts: Vec<Verdict>, simulated: Option<Simulated>) -> Self {
        let blocking = || verdicts.iter().filter(|verdict| verdict.blocks());
        let code = blocking().find_map(|verdict| verdict.code).unwrap_or(ErrorCode::SafetySimulationFailed);
        // The stop names itself.
        let words = |verdict: &Verdict| match verdict.check {
            Check::Halt => verdict.detail().to_string(),
            check => format!("{check}: {}", verdict.detail()),
        };
        let message = blocking().map(words).collect::<Vec<_>>().join("; ");
        let violations = blocking().flat_map(|verdict| verdict.violations().to_vec()).collect();
        Self { code, message, verdicts, violations, simulated: simulated.map(Box::new), facts: Vec::new() }
    }

    /// A refusal because what would happen breaks what was permitted.
    pub fn out_of_bounds(faults: &[Fault], simulated: Option<Simulated>) -> Self {
        let told = |fault: &Fault| format!("{}: {} (permitted: {})", fault.rule, fault.found, fault.declared);
        let what = faults.iter().map(told).collect::<Vec<_>>().join("; ");
        Self {
            violations: faults.iter().map(Fault::violation).collect(),
            simulated: simulated.map(Box::new),
            ..Self::new(ErrorCode::PermitMismatch, format_args!("it would no longer do what was permitted: {what}"))
        }
    }

    /// As an envelope carries it.
    pub fn error(&self) -> ToolError {
        let error = ToolError::new(self.code, &self.message);
        let error = self.facts.iter().fold(error, |error, (name, value)| error.detail(name, value.clone()));
        // What is usual to do about a stop gives nobody keys again.
        let suggested = self.verdicts.iter().filter(|verdict| verdict.blocks()).find_map(|one| one.suggestion.as_ref());
        let error = match self.violations.iter().find(|violation| violation.rule.is(RuleName::SessionKeys)) {
            Some(violation) => error.suggest(format_args!("What would pass: {}.", violation.would_pass)),
            None => match suggested {
                Some(suggestion) => error.suggest(suggestion),
                None => error,
            },
        };
        let checks: Vec<_> = self.verdicts.iter().map(Verdict::event).collect();
        let error = if checks.is_empty() { error } else { error.checked(&checks) };
        if self.violations.is_empty() { error } else { error.violating(&self.violations) }
    }

    /// The sentence, cleaned.
    pub fn why(&self) -> SafeText {
        SafeText::clean(&self.message, 400)
    }
}
