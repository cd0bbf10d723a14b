//! Conditions of scenario steps, and outcomes of earlier steps.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer};
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
    /// Allowed outcomes of that step, in the words of [`PlayedStep::is`]; empty for any.
    #[serde(default, deserialize_with = "one_or_many")]
    pub status: Vec<String>,
    /// Name of a step whose call must not have ended yet.
    pub before: Option<String>,
}

/// Reads a text, or a list of texts.
pub(super) fn one_or_many<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a text or a list of texts")]
    enum OneOrMany {
        One(String),
        Many(Vec<String>),
    }
    Ok(match OneOrMany::deserialize(from)? {
        OneOrMany::One(one) => vec![one],
        OneOrMany::Many(many) => many,
    })
}

/// Outcome of an action that was carried out for a smaller amount than it asked for, by the operator's decision.
const SMALLER: &str = "smaller";

/// Outcome of a call that signed a transaction, and so paid gas.
const TRANSACTION: &str = "transaction";

/// Checks that an outcome can be met: a status, an error code, or one of the words above.
pub(super) fn check_outcome(word: &str) -> Result<(), ScenarioFlaw> {
    let value = Value::from(word);
    let known = serde_json::from_value::<CallStatus>(value.clone()).is_ok()
        || serde_json::from_value::<ErrorCode>(value).is_ok()
        || matches!(word, SMALLER | TRANSACTION);
    if known { Ok(()) } else { Err(ScenarioFlaw::UnknownStatus(SafeText::clean(word, 40))) }
}

/// Decision and signatures during a step's call, as the events report them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StepEvents {
    /// True if the operator's last answer was a smaller amount.
    pub smaller: bool,
    /// True if a transaction was signed.
    pub transaction: bool,
}

/// Outcome of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlayedStep {
    status: String,
    code: Option<&'static str>,
    events: StepEvents,
}

impl PlayedStep {
    /// Reads the outcome from the answer to a step.
    pub fn of(response: &ToolResponse) -> Self {
        let status = serde_json::to_value(response.status).ok();
        let status = status.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
        let code = response.error.as_ref().map(|error| error.code().as_str());
        Self { status, code, events: StepEvents::default() }
    }

    /// Adds what the events reported during the call.
    #[must_use]
    pub fn with(self, events: StepEvents) -> Self {
        Self { events, ..self }
    }

    /// True if `wanted` is this status or this error code. `smaller` is true for an action that was carried out for a
    /// smaller amount by the operator's decision, and `transaction` for a call that signed a transaction.
    pub fn is(&self, wanted: &str) -> bool {
        let carried_out = matches!(self.status.as_str(), "success" | "partial");
        match wanted {
            SMALLER => carried_out && self.events.smaller,
            TRANSACTION => self.events.transaction,
            status_or_code => self.status == status_or_code || self.code == Some(status_or_code),
        }
    }

    /// True if one of `wanted` is the outcome, or if `wanted` is empty.
    pub fn is_one_of(&self, wanted: &[String]) -> bool {
        wanted.is_empty() || wanted.iter().any(|one| self.is(one))
    }
}

impl fmt::Display for PlayedStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.status)?;
        self.code.map_or(Ok(()), |code| write!(f, " {code}"))
    }
}

impl StepCondition {
    /// Checks the condition. `named` are the names of the steps that it can refer to.
    pub(super) fn check(&self, named: &[&str]) -> Result<(), ScenarioFlaw> {
        if self.phase.is_none() && self.after.is_none() && self.before.is_none() && self.status.is_empty() {
            return Err(ScenarioFlaw::EmptyCondition);
        }
        if self.after.is_none() && !self.status.is_empty() {
            return Err(ScenarioFlaw::StatusWithoutBeat);
        }
        for name in self.after.iter().chain(&self.before) {
            check_name(name, named)?;
        }
        self.status.iter().try_for_each(|status| check_outcome(status))
    }

    /// True if the condition holds in this phase, with these outcomes of steps whose call has ended.
    pub fn holds(&self, phase: Phase, outcomes: &BTreeMap<String, PlayedStep>) -> bool {
        let ended = |after: &String| outcomes.get(after).is_some_and(|outcome| outcome.is_one_of(&self.status));
        self.phase.is_none_or(|wanted| wanted == phase)
            && self.after.as_ref().is_none_or(ended)
            && self.before.as_ref().is_none_or(|before| !outcomes.contains_key(before))
    }
}

/// Checks that a step with a call has this name.
pub(super) fn check_name(name: &str, named: &[&str]) -> Result<(), ScenarioFlaw> {
    if named.contains(&name) {
        return Ok(());
    }
    let near = nearest(name, named.iter().copied()).map(|near| SafeText::clean(near, 40));
    Err(ScenarioFlaw::UnknownBeat { name: SafeText::clean(name, 40), near })
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
        let status = vec!["SAFETY_SLIPPAGE".to_owned()];
        let wanted =
            StepCondition { phase: Some(Phase::Cautious), after: Some("look".to_owned()), status, before: None };
        assert_eq!(read.unwrap().steps[2].when, Some(wanted));
        for (when, says) in [
            ("{}", "`when` is empty"),
            ("{ status = \"success\" }", "name the beat with after"),
            ("{ after = \"loook\" }", "did you mean `look`?"),
            // That step calls no tool, so it has no outcome.
            ("{ after = \"idle\" }", "named `idle`"),
            ("{ after = \"look\", status = \"fine\" }", "`fine` is neither a status"),
            ("{ phase = \"Happy\" }", "line 12: `Happy` is not a valid phase"),
            ("{ since = \"look\" }", "unknown field `since`"),
            ("{ after = \"look\", status = [\"success\", \"fine\"] }", "`fine` is neither a status"),
            ("{ after = \"look\", status = 3 }", "expected a text or a list of texts"),
        ] {
            let why = parse("x", &show(when)).unwrap_err().to_string();
            assert!(why.contains(says), "{when}: {why}");
        }
        // A condition cannot refer to a later step.
        let early = "name = \"x\"\nabout = \"y\"\n[[beat]]\nat = 1\nwhen = { after = \"look\" }\n\
                     [[beat]]\nat = 2\nname = \"look\"\ndo = \"query_state\"\n";
        assert!(parse("x", early).unwrap_err().to_string().contains("beat 1: no earlier beat"));
    }

    #[test]
    fn a_condition_holds_if_all_of_its_parts_hold() {
        let blocked = PlayedStep {
            status: "blocked".to_owned(),
            code: Some("SAFETY_SLIPPAGE"),
            events: StepEvents { smaller: true, transaction: false },
        };
        let outcomes = BTreeMap::from([("sale".to_owned(), blocked)]);
        let when = |phase, after: Option<&str>, status: Option<&str>| {
            let (after, status) = (after.map(str::to_owned), status.map(str::to_owned).into_iter().collect());
            StepCondition { phase, after, status, before: None }.holds(Phase::Cautious, &outcomes)
        };
        assert!(when(Some(Phase::Cautious), None, None) && !when(Some(Phase::Thriving), None, None));
        assert!(when(None, Some("sale"), None) && !when(None, Some("buy"), None));
        assert!(when(None, Some("sale"), Some("blocked")) && when(None, Some("sale"), Some("SAFETY_SLIPPAGE")));
        assert!(!when(None, Some("sale"), Some("success")));
        assert!(!when(Some(Phase::Thriving), Some("sale"), Some("blocked")));
        // It was to be smaller, but was not carried out.
        assert!(!when(None, Some("sale"), Some("smaller")) && !when(None, Some("sale"), Some("transaction")));
        let before = |name: &str| {
            StepCondition { before: Some(name.to_owned()), ..StepCondition::default() }
                .holds(Phase::Cautious, &outcomes)
        };
        assert!(before("buy") && !before("sale"));
    }

    #[test]
    fn an_outcome_can_be_one_of_several() {
        let of = |status: &str, events| PlayedStep { status: status.to_owned(), code: None, events };
        let words = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
        let done = of("partial", StepEvents { smaller: true, transaction: true });
        assert!(done.is_one_of(&words(&["success", "partial"])) && done.is_one_of(&[]));
        assert!(done.is("smaller") && done.is("transaction"));
        assert!(!done.is_one_of(&words(&["success", "rejected"])));
        assert!(!of("success", StepEvents::default()).is("smaller"));
    }
}
