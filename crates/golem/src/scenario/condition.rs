//! Conditions of scenario steps, and outcomes of earlier steps.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use super::ScenarioFlaw;
use bardo_base::error::ErrorCode;
use bardo_base::model::Phase;
use bardo_base::text::{SafeText, nearest};
use golem_tools::engine::{CallStatus, ToolResponse};

/// Condition of a step. All given parts must hold when its time comes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepCondition {
    /// Phase that must be current.
    pub phase: Option<Phase>,
    /// Name of an earlier step that must have been played.
    pub after: Option<String>,
    /// Required outcome of that step: a status or an error code.
    pub status: Option<String>,
}

/// Outcome of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlayedStep {
    status: String,
    code: Option<&'static str>,
}

impl PlayedStep {
    /// Reads the outcome from the answer to a step.
    pub fn of(response: &ToolResponse) -> Self {
        let status = serde_json::to_value(response.status).ok();
        let status = status.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
        Self { status, code: response.error.as_ref().map(|error| error.code().as_str()) }
    }

    /// True if `wanted` is this status or this error code.
    pub fn is(&self, wanted: &str) -> bool {
        self.status == wanted || self.code == Some(wanted)
    }
}

impl fmt::Display for PlayedStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.status)?;
        self.code.map_or(Ok(()), |code| write!(f, " {code}"))
    }
}

impl StepCondition {
    /// Checks the condition. `named` are the names of the earlier steps that call a tool.
    pub(super) fn check(&self, named: &[&str]) -> Result<(), ScenarioFlaw> {
        let known = |word: &str| {
            let word = Value::from(word);
            serde_json::from_value::<CallStatus>(word.clone()).is_ok()
                || serde_json::from_value::<ErrorCode>(word).is_ok()
        };
        match (&self.after, &self.status) {
            (None, None) if self.phase.is_none() => Err(ScenarioFlaw::EmptyCondition),
            (None, Some(_)) => Err(ScenarioFlaw::StatusWithoutBeat),
            (Some(after), _) if !named.contains(&after.as_str()) => {
                let near = nearest(after, named.iter().copied()).map(|near| SafeText::clean(near, 40));
                Err(ScenarioFlaw::UnknownBeat { name: SafeText::clean(after, 40), near })
            }
            (Some(_), Some(status)) if !known(status) => Err(ScenarioFlaw::UnknownStatus(SafeText::clean(status, 40))),
            (None | Some(_), None) | (Some(_), Some(_)) => Ok(()),
        }
    }

    /// True if the condition holds in this phase, with these outcomes of earlier steps.
    pub fn holds(&self, phase: Phase, outcomes: &BTreeMap<String, PlayedStep>) -> bool {
        let ended = |after: &String| {
            let outcomes = outcomes.get(after);
            outcomes.is_some_and(|outcomes| self.status.as_ref().is_none_or(|status| outcomes.is(status)))
        };
        self.phase.is_none_or(|wanted| wanted == phase) && self.after.as_ref().is_none_or(ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::parse;

    /// Builds a scenario with a query named `look`, an idle step, and a step under this condition.
    fn show(when: &str) -> String {
        format!(
            "name = \"x\"\nabout = \"y\"\n[[beat]]\nat = 1\nname = \"look\"\ndo = \"query_state\"\n\
             [[beat]]\nat = 1\nname = \"idle\"\n[[beat]]\nat = 2\nwhen = {when}\n"
        )
    }

    #[test]
    fn a_condition_is_read_and_one_that_can_never_hold_is_refused() {
        let read = parse("x", &show("{ phase = \"Cautious\", after = \"look\", status = \"SAFETY_SLIPPAGE\" }"));
        let status = Some("SAFETY_SLIPPAGE".to_owned());
        let wanted = StepCondition { phase: Some(Phase::Cautious), after: Some("look".to_owned()), status };
        assert_eq!(read.unwrap().steps[2].when, Some(wanted));
        for (when, says) in [
            ("{}", "`when` is empty"),
            ("{ status = \"success\" }", "name the beat with after"),
            ("{ after = \"loook\" }", "did you mean `look`?"),
            // That step calls no tool, so it has no outcome.
            ("{ after = \"idle\" }", "named `idle`"),
            ("{ after = \"look\", status = \"fine\" }", "`fine` is neither a status"),
            ("{ phase = \"Happy\" }", "line 12: `Happy` is not a valid phase"),
            ("{ before = \"look\" }", "unknown field `before`"),
        ] {
            let why = parse("x", &show(when)).unwrap_err().to_string();
            assert!(why.contains(says), "{when}: {why}");
        }
        // A condition cannot refer to a later step.
        let early = "name = \"x\"\nabout = \"y\"\n[[beat]]\nat = 1\nwhen = { after = \"look\" }\n\
                     [[beat]]\nat = 2\nname = \"look\"\ndo = \"query_state\"\n";
        assert!(parse("x", early).unwrap_err().to_string().contains("beat 1: `when`: no earlier beat"));
    }

    #[test]
    fn a_condition_holds_if_all_of_its_parts_hold() {
        let blocked = PlayedStep { status: "blocked".to_owned(), code: Some("SAFETY_SLIPPAGE") };
        let outcomes = BTreeMap::from([("sale".to_owned(), blocked)]);
        let when = |phase, after: Option<&str>, status: Option<&str>| {
            let text = |word: Option<&str>| word.map(str::to_owned);
            StepCondition { phase, after: text(after), status: text(status) }.holds(Phase::Cautious, &outcomes)
        };
        assert!(when(Some(Phase::Cautious), None, None) && !when(Some(Phase::Thriving), None, None));
        assert!(when(None, Some("sale"), None) && !when(None, Some("buy"), None));
        assert!(when(None, Some("sale"), Some("blocked")) && when(None, Some("sale"), Some("SAFETY_SLIPPAGE")));
        assert!(!when(None, Some("sale"), Some("success")));
        assert!(!when(Some(Phase::Thriving), Some("sale"), Some("blocked")));
    }
}
