//! Refusal of an action: one error with every violation behind it.

use crate::chain_snapshot::SnapshotReadError;
use crate::simulate::{DeclarationFault, SimulatedEffects};
use crate::verdict::Verdict;
use bardo_base::error::{ErrorCode, ToolError, Violation};
use bardo_base::model::{Check, RuleName};
use bardo_base::text::SafeText;
use golem_chain::fork::ForkError;
use golem_chain::provider::ProviderError;
use golem_chain::sender::SenderError;

/// Reason why an action does not continue. Nothing of it was signed, unless the message says otherwise.
#[derive(Debug, Clone)]
pub struct PipelineRefusal {
    /// Error code of the refusal.
    pub code: ErrorCode,
    /// Reasons in one sentence.
    pub message: String,
    /// Verdicts in the order of the checks; empty if no check ran.
    pub verdicts: Vec<Verdict>,
    /// Every violated rule.
    pub violations: Vec<Violation>,
    /// Simulation result, if the action could be simulated.
    pub simulated: Option<Box<SimulatedEffects>>,
    /// Machine-readable details for the error response, by name.
    pub facts: Vec<(&'static str, serde_json::Value)>,
}

impl From<ProviderError> for PipelineRefusal {
    fn from(error: ProviderError) -> Self {
        Self::of_chain(&error.into())
    }
}

impl From<ForkError> for PipelineRefusal {
    fn from(error: ForkError) -> Self {
        Self::of_chain(&error.into())
    }
}

impl From<SenderError> for PipelineRefusal {
    fn from(error: SenderError) -> Self {
        Self::of_chain(&error.into())
    }
}

impl From<SnapshotReadError> for PipelineRefusal {
    fn from(error: SnapshotReadError) -> Self {
        match error {
            SnapshotReadError::Chain(error) => error.into(),
            SnapshotReadError::AgainstBook(_) | SnapshotReadError::NoToken(_) | SnapshotReadError::Doubt(_) => {
                Self::new(ErrorCode::ChainInconsistent, error)
            }
        }
    }
}

impl PipelineRefusal {
    /// Creates a refusal because the chain could not be read, with the code and message that tools report.
    fn of_chain(error: &ToolError) -> Self {
        Self::new(error.code(), error.message())
    }

    /// Creates a refusal for a reason that no check reported.
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

    /// Creates a refusal from the blocking verdicts. The first one determines the error code.
    pub fn by(verdicts: Vec<Verdict>, simulated: Option<SimulatedEffects>) -> Self {
        let blocking = || verdicts.iter().filter(|verdict| verdict.blocks());
        let code = blocking().find_map(|verdict| verdict.code).unwrap_or(ErrorCode::SafetySimulationFailed);
        // The stop's text already names the stop.
        let words = |verdict: &Verdict| match verdict.check {
            Check::Halt => verdict.detail().to_string(),
            check => format!("{check}: {}", verdict.detail()),
        };
        let message = blocking().map(words).collect::<Vec<_>>().join("; ");
        let violations = blocking().flat_map(|verdict| verdict.violations().to_vec()).collect();
        Self { code, message, verdicts, violations, simulated: simulated.map(Box::new), facts: Vec::new() }
    }

    /// Creates a refusal because the action would exceed its permit now.
    pub fn out_of_bounds(faults: &[DeclarationFault], simulated: Option<SimulatedEffects>) -> Self {
        let reported =
            |fault: &DeclarationFault| format!("{}: {} (permitted: {})", fault.rule, fault.found, fault.declared);
        let what = faults.iter().map(reported).collect::<Vec<_>>().join("; ");
        Self {
            violations: faults.iter().map(DeclarationFault::violation).collect(),
            simulated: simulated.map(Box::new),
            ..Self::new(ErrorCode::PermitMismatch, format_args!("not as simulated any more: {what}"))
        }
    }

    /// Converts the refusal into the error of a tool response.
    pub fn error(&self) -> ToolError {
        let error = ToolError::new(self.code, &self.message);
        let error = self.facts.iter().fold(error, |error, (name, value)| error.detail(name, value.clone()));
        // The usual suggestion for a stop does not restore session keys.
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

    /// Returns the message as display-safe text of at most 400 characters.
    pub fn why(&self) -> SafeText {
        SafeText::clean(&self.message, 400)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use golem_chain::provider::Dispute;

    use super::*;

    #[test]
    fn a_contradiction_between_endpoints_is_not_reported_as_an_unreachable_chain() {
        let [first, second] = ["one", "two"].map(|name| SafeText::clean(name, 10));
        let method = SafeText::clean("eth_getCode", 40);
        let read = ProviderError::Disagreement { method: method.clone(), first: first.clone(), second: second.clone() };
        let dispute = Dispute { subject: method, endpoints: vec![first.clone(), second], outvoted: false };
        for refusal in [
            PipelineRefusal::from(read.clone()),
            PipelineRefusal::from(SnapshotReadError::Chain(read.clone())),
            PipelineRefusal::from(SenderError::Provider(read)),
            PipelineRefusal::from(ForkError::Disputed(dispute)),
        ] {
            assert_eq!(refusal.code.as_str(), "CHAIN_INCONSISTENT", "{refusal:?}");
        }
        let silent = ProviderError::TimedOut { endpoint: first, after: Duration::from_secs(1) };
        assert_eq!(PipelineRefusal::from(silent).code.as_str(), "CHAIN_UNREACHABLE");
    }
}
