//! Scenarios: scripted steps of a Golem at fixed times, in TOML, with their expected outcomes.
//!
//! ```toml
//! name = "first-tour"
//! about = "Each kind of card once, and one decision."
//! operator = "wait"          # answer where no person decides: wait, approve, refuse
//! archetype = "agent-keeper" # role that plays it where none is configured; absent for the usual one
//!
//! [[beat]]
//! at = 8                     # seconds since the start
//! caption = "A quote"
//! now = "Asking what 0.25 WETH would bring."
//! think = "WETH is more than half of what I hold."
//! do = "query_state"         # one of the eight tools, or `act`: preview, then commit
//! params = { query = "quote", params = { token_in = "WETH", token_out = "USDC", amount = "0.25", chain = "ethereum" } }
//! expect = ["success"]       # allowed statuses and error codes; empty for any
//! name = "sale"              # later steps refer to the result by this name: "$sale.tx_hash"
//! want = { chain = "ethereum" }  # required fields of the result
//! says = "WETH"              # text that the answer must contain
//!
//! waits = "This waits for you."  # replaces `now` while its decision is open
//! approved = "It goes on."   # caption once the operator has approved it
//!
//! [[beat.ended]]             # texts after the end of the call; the first that fits is shown
//! is = ["smaller"]           # outcomes: statuses, error codes, smaller (than the amount), transaction (was signed)
//! now = "Sold $amount WETH." # the amount of the call, or the smaller one that the operator chose
//!
//! [[beat]]
//! at = 20
//! # Condition of the step; all parts must hold when its time comes. A skipped step is counted separately and expects
//! # nothing. `after` names an earlier step that was played, and `status` its outcome or outcomes, in the words of `is`.
//! when = { phase = "Thriving", after = "sale", status = "success" }
//!
//! [[cue]]                    # external event, on the same time scale
//! at = 15
//! when = { before = "sale" } # condition at that time, also: this step's call has not ended
//! waits_for = "sale"         # not before this step's call has ended
//! do = { market = { asset = "ETH", bps = -300, blocks = 5 } }
//!
//! [[later]]                  # repeated once all steps are played
//! at = 30                    # seconds after the previous step
//! ```

mod condition;
mod event;
mod flaw;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

pub use condition::{PlayedStep, StepCondition, StepEvents};
pub use event::{EventEffect, ScenarioEvent, ScriptedReply};
pub use flaw::ScenarioFlaw;

use super::agent_api::AGENT_TOOLS;
use bardo_base::model::Phase;
use bardo_base::regular_file;
use bardo_base::text::{SafeText, nearest};
use golem_tools::engine::ToolResponse;

/// Pseudo tool that previews and commits in one step.
pub const ACT: &str = "act";

/// Name of the default scenario.
pub const DEFAULT: &str = "first-tour";

/// Maximum tick, in seconds: with longer ticks, feed prices would soon exceed their maximum age.
const LONGEST_TICK: u64 = 300;

/// Maximum size of a scenario file, in bytes.
const MOST_BYTES: u64 = 256 << 10;

/// Built-in scenarios, by name.
const BUNDLED: &[(&str, &str)] = &[
    ("first-tour", include_str!("../../../assets/scenarios/first-tour.toml")),
    ("price-moved", include_str!("../../../assets/scenarios/price-moved.toml")),
    ("falling-price", include_str!("../../../assets/scenarios/falling-price.toml")),
    ("poisoned-note", include_str!("../../../assets/scenarios/poisoned-note.toml")),
    ("crash", include_str!("../../../assets/scenarios/crash.toml")),
    ("day-of-trading", include_str!("../../../assets/scenarios/day-of-trading.toml")),
    ("rebalancing", include_str!("../../../assets/scenarios/rebalancing.toml")),
    ("market-maker", include_str!("../../../assets/scenarios/market-maker.toml")),
    ("repaid-in-time", include_str!("../../../assets/scenarios/repaid-in-time.toml")),
    ("liquidated", include_str!("../../../assets/scenarios/liquidated.toml")),
    ("known-agent", include_str!("../../../assets/scenarios/known-agent.toml")),
];

/// Script of a Golem's steps and of external events.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Name of the scenario.
    pub name: String,
    /// Description of its content.
    pub about: String,
    /// Answer to approval requests where no person decides.
    #[serde(default)]
    pub operator: ScriptedOperator,
    /// Name of the role that plays it where none is configured; `None` for the usual one.
    #[serde(default)]
    pub archetype: Option<String>,
    /// Step of simulated time, in seconds. A scenario with a tick runs on its own simulated time, even on a screen.
    #[serde(default)]
    pub tick: Option<u64>,
    /// True if the scenario stands still while a decision about one of its steps is open, so that what it tells has happened.
    #[serde(default)]
    pub stands_still: bool,
    /// Expected phases, in the order in which they are entered; empty for any.
    #[serde(default)]
    pub phases: Vec<Phase>,
    /// Steps of the Golem, in order.
    #[serde(default, rename = "beat")]
    pub steps: Vec<ScenarioStep>,
    /// External events, in order.
    #[serde(default, rename = "cue")]
    pub events: Vec<ScenarioEvent>,
    /// Steps that are repeated afterwards.
    #[serde(default)]
    pub later: Vec<ScenarioStep>,
}

/// Answer to approval requests where no person decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScriptedOperator {
    /// No answer: requests expire.
    #[default]
    Wait,
    /// Approves every request.
    Approve,
    /// Rejects every request.
    Refuse,
}

/// Step of a scenario.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioStep {
    /// Seconds since the start; for repeated steps, seconds after the previous one.
    pub at: u64,
    /// Condition for playing the step; `None` for always.
    pub when: Option<StepCondition>,
    /// Name by which later steps refer to the result.
    pub name: Option<String>,
    /// Caption for viewers.
    pub caption: Option<String>,
    /// Current activity, in a sentence.
    pub now: Option<String>,
    /// Next activity, in a sentence.
    pub next: Option<String>,
    /// Thought to show.
    pub think: Option<String>,
    /// One of the eight tools, or [`ACT`].
    #[serde(rename = "do")]
    pub does: Option<String>,
    /// Parameters of the tool.
    #[serde(default)]
    pub params: Value,
    /// Allowed statuses and error codes; empty for any.
    #[serde(default)]
    pub expect: Vec<String>,
    /// Required fields of the result's data.
    #[serde(default)]
    pub want: BTreeMap<String, Value>,
    /// Text that the answer must contain.
    pub says: Option<String>,
    /// Current activity while a decision about the call is open; `None` for [`Self::now`].
    pub waits: Option<String>,
    /// Caption once the operator has approved the call, or a smaller amount; the call goes on then.
    pub approved: Option<String>,
    /// Texts after the end of the call. The first one whose outcome fits is shown.
    #[serde(default)]
    pub ended: Vec<OutcomeTexts>,
}

/// Texts that are true only after a certain outcome of a step.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutcomeTexts {
    /// Outcomes in the words of [`PlayedStep::is`]; empty for any.
    #[serde(default, deserialize_with = "condition::one_or_many")]
    pub is: Vec<String>,
    /// Caption for viewers.
    pub caption: Option<String>,
    /// Finished activity, in a sentence.
    pub now: Option<String>,
    /// Next activity, in a sentence.
    pub next: Option<String>,
    /// Thought to show.
    pub think: Option<String>,
}

impl OutcomeTexts {
    fn texts(&self) -> impl Iterator<Item = &String> {
        [&self.caption, &self.now, &self.next, &self.think].into_iter().flatten()
    }

    fn check(&self) -> Result<(), ScenarioFlaw> {
        if self.texts().next().is_none() {
            return Err(ScenarioFlaw::EmptyOutcome);
        }
        self.is.iter().try_for_each(|one| condition::check_outcome(one))
    }
}

/// Place of a step's amount in its texts.
const AMOUNT: &str = "$amount";

/// Returns a text of a step with the amount of its call in the place of `$amount`.
pub fn with_amount(text: &str, amount: Option<&str>) -> String {
    amount.map_or_else(|| text.to_owned(), |amount| text.replace(AMOUNT, amount))
}

/// Error in finding or parsing a scenario.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioError {
    /// Neither a known name nor an existing file.
    #[error("no scenario or file is named `{name}`{}; known scenarios: \
             {known}", near.as_ref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
    Unknown {
        /// Requested name or path.
        name: String,
        /// Closest known name, if any.
        near: Option<&'static str>,
        /// Names of all built-in scenarios.
        known: String,
    },
    /// Scenario file that cannot be read.
    #[error("cannot read the scenario {}: {reason}", path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Reason from the operating system, or an exceeded size.
        reason: String,
    },
    /// Scenario text with invalid content.
    #[error("the scenario {from}{at}: {what}")]
    Wrong {
        /// Name or path of the scenario.
        from: String,
        /// Line or step, if known.
        at: String,
        /// Description of the problem.
        what: ScenarioFlaw,
    },
}

/// Iterates over the names of the built-in scenarios.
pub fn names() -> impl Iterator<Item = &'static str> {
    BUNDLED.iter().map(|(name, _)| *name)
}

/// Finds a built-in scenario by name, or reads one from a file.
///
/// # Errors
/// Returns a [`ScenarioError`] for an unknown name, or an unreadable or invalid file.
pub fn find(asked: &str) -> Result<Scenario, ScenarioError> {
    if let Some((name, text)) = BUNDLED.iter().find(|(name, _)| *name == asked) {
        return parse(name, text);
    }
    let path = Path::new(asked);
    let unreadable =
        |error: &dyn std::fmt::Display| ScenarioError::Unreadable { path: path.to_owned(), reason: error.to_string() };
    match regular_file::read_text(path, MOST_BYTES) {
        Ok(text) => parse(&path.display().to_string(), &text),
        Err(error) => match error.kind() {
            ErrorKind::NotFound => Err(ScenarioError::Unknown {
                name: SafeText::clean(asked, 80).to_string(),
                near: nearest(asked, names()),
                known: names().collect::<Vec<_>>().join(", "),
            }),
            ErrorKind::FileTooLarge => Err(unreadable(&"larger than 256 KiB, the maximum for a scenario")),
            _ => Err(unreadable(&error)),
        },
    }
}

/// Parses a scenario; `from` is its name or path for errors.
///
/// # Errors
/// [`ScenarioError::Wrong`], with the line or step.
pub fn parse(from: &str, text: &str) -> Result<Scenario, ScenarioError> {
    let wrong = |at: String, what: ScenarioFlaw| ScenarioError::Wrong { from: from.to_owned(), at, what };
    let scenario: Scenario = toml::from_str(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        let line = text.bytes().take(start).filter(|byte| *byte == b'\n').count() + 1;
        wrong(format!(", line {line}"), ScenarioFlaw::Syntax(SafeText::clean(error.message(), 300)))
    })?;
    if let Some(tick) = scenario.tick.filter(|tick| *tick == 0 || *tick > LONGEST_TICK) {
        return Err(wrong(String::new(), ScenarioFlaw::Tick(tick)));
    }
    let mut last = 0;
    let mut named = Vec::new();
    for (number, beat) in (1..).zip(&scenario.steps) {
        let at = format!(", beat {number}");
        if beat.at < last {
            return Err(wrong(at, ScenarioFlaw::Order { at: beat.at, last }));
        }
        last = beat.at;
        check(beat, &named).map_err(|what| wrong(at, what))?;
        named.extend(beat.name.as_deref().filter(|_| beat.does.is_some()));
    }
    let mut last = 0;
    for (number, cue) in (1..).zip(&scenario.events) {
        let at = format!(", cue {number}");
        if cue.at < last {
            return Err(wrong(at, ScenarioFlaw::Order { at: cue.at, last }));
        }
        last = cue.at;
        cue.check(&named).map_err(|what| wrong(at, what))?;
    }
    for (number, beat) in (1..).zip(&scenario.later) {
        let at = format!(", later {number}");
        if beat.at == 0 {
            return Err(wrong(at, ScenarioFlaw::NoPause));
        }
        check(beat, &named).map_err(|what| wrong(at, what))?;
        named.extend(beat.name.as_deref().filter(|_| beat.does.is_some()));
    }
    Ok(scenario)
}

/// Checks a step. `named` are the names of the earlier steps that call a tool.
fn check(beat: &ScenarioStep, named: &[&str]) -> Result<(), ScenarioFlaw> {
    if let Some(when) = &beat.when {
        when.check(named)?;
    }
    let own = [&beat.caption, &beat.now, &beat.next, &beat.think, &beat.waits, &beat.approved].into_iter().flatten();
    let mut texts = own.chain(beat.ended.iter().flat_map(OutcomeTexts::texts));
    if beat.amount().is_none() && texts.any(|text| text.contains(AMOUNT)) {
        return Err(ScenarioFlaw::NoAmount);
    }
    let Some(does) = &beat.does else {
        let idle = beat.expect.is_empty() && beat.want.is_empty() && beat.says.is_none();
        return match idle && beat.waits.is_none() && beat.approved.is_none() && beat.ended.is_empty() {
            true => Ok(()),
            false => Err(ScenarioFlaw::IdleExpectation),
        };
    };
    beat.ended.iter().try_for_each(OutcomeTexts::check)?;
    let known = || AGENT_TOOLS.iter().map(|tool| tool.name).chain([ACT]);
    if known().any(|one| one == does) {
        return Ok(());
    }
    Err(ScenarioFlaw::UnknownTool { name: SafeText::clean(does, 40), near: nearest(does, known()) })
}

impl Scenario {
    /// Creates a scenario in which the Golem only states the reason for doing nothing.
    pub fn quiet(why: &dyn std::fmt::Display) -> Self {
        let think = Some(SafeText::clean(&why.to_string(), 300).to_string());
        let words = ScenarioStep {
            at: 0,
            when: None,
            name: None,
            caption: None,
            now: Some("Waiting for your commands.".to_owned()),
            next: Some("what you ask for (:)".to_owned()),
            think,
            does: None,
            params: Value::Null,
            expect: Vec::new(),
            want: BTreeMap::new(),
            says: None,
            waits: None,
            approved: None,
            ended: Vec::new(),
        };
        let (name, about) = ("quiet".to_owned(), "Nothing happens.".to_owned());
        let (steps, operator) = (vec![words], ScriptedOperator::Wait);
        let (archetype, tick, phases, events, later) = (None, None, Vec::new(), Vec::new(), Vec::new());
        let stands_still = false;
        Self { name, about, operator, archetype, tick, stands_still, phases, steps, events, later }
    }

    /// Returns the times of all steps and external events, in seconds and in order.
    pub fn moments(&self) -> Vec<u64> {
        let steps = self.steps.iter().map(|beat| beat.at);
        let mut moments: Vec<u64> = steps.chain(self.events.iter().map(|cue| cue.at)).collect();
        moments.sort_unstable();
        moments.dedup();
        moments
    }

    /// Compares the phases entered with the expected ones; `None` if they match.
    pub fn missed_phases(&self, entered: &[Phase]) -> Option<String> {
        if self.phases.is_empty() || self.phases == entered {
            return None;
        }
        let words = |phases: &[Phase]| phases.iter().map(|phase| phase.as_str()).collect::<Vec<_>>().join(", ");
        Some(format!("expected the phases {}, found {}", words(&self.phases), words(entered)))
    }
}

impl ScenarioStep {
    /// Amount of the action, as written in its parameters; `None` for a call without one.
    pub fn amount(&self) -> Option<&str> {
        self.params.get("params")?.get("amount")?.as_str()
    }

    /// Returns the texts for an outcome, if any fit.
    pub fn texts_after(&self, outcome: &PlayedStep) -> Option<&OutcomeTexts> {
        self.ended.iter().find(|texts| outcome.is_one_of(&texts.is))
    }

    /// Returns the parameters with `"$name.field"` replaced by results of earlier steps. An unknown reference stays as
    /// written, so that the tool rejects it.
    pub fn params_with(&self, answers: &BTreeMap<String, Value>) -> Value {
        fn filled(value: &Value, answers: &BTreeMap<String, Value>) -> Value {
            match value {
                Value::String(text) => {
                    let found = text.strip_prefix('$').and_then(|place| {
                        let (name, field) = place.split_once('.')?;
                        answers.get(name)?.get(field)
                    });
                    found.unwrap_or(value).clone()
                }
                Value::Array(all) => all.iter().map(|one| filled(one, answers)).collect(),
                Value::Object(fields) => {
                    fields.iter().map(|(name, one)| (name.clone(), filled(one, answers))).collect()
                }
                Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
            }
        }
        filled(&self.params, answers)
    }

    /// Compares an outcome with the expectations of the step; `None` if they are met.
    pub fn missed(&self, response: &ToolResponse) -> Option<String> {
        let outcome = PlayedStep::of(response);
        let met = self.expect.iter().any(|one| outcome.is(one));
        if met || self.expect.is_empty() {
            let fields = self.want.iter().find_map(|(field, wanted)| {
                let outcome = response.data.as_ref().and_then(|data| data.get(field)).unwrap_or(&Value::Null);
                (outcome != wanted).then(|| {
                    let outcome = SafeText::clean(&outcome.to_string(), 200);
                    format!("expected {field} to be {wanted}, found {outcome}")
                })
            });
            return fields.or_else(|| {
                let answer = serde_json::to_string(response).unwrap_or_default();
                let unsaid = self.says.as_ref().filter(|words| !answer.contains(words.as_str()));
                unsaid.map(|words| format!("expected the answer to contain `{}`", SafeText::clean(words, 100)))
            });
        }
        let message = response.error.as_ref().map(|error| format!(" ({})", error.message())).unwrap_or_default();
        Some(format!("expected {}, found {outcome}{message}", self.expect.join(" or ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_scenarios_can_be_played() {
        for (name, _) in BUNDLED {
            let scenario = find(name).unwrap();
            assert_eq!(scenario.name, *name);
            assert!(!scenario.steps.is_empty() && scenario.steps.iter().any(|beat| !beat.expect.is_empty()), "{name}");
        }
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/scenarios");
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), BUNDLED.len());
    }

    #[test]
    fn after_the_first_tour_it_says_something_every_half_minute_and_trades_a_little() {
        let tour = find(DEFAULT).unwrap();
        assert!(tour.later.iter().all(|beat| (20..=40).contains(&beat.at) && beat.think.is_some()));
        let trades = || tour.later.iter().filter(|beat| beat.does.as_deref() == Some(ACT));
        let round: u64 = tour.later.iter().map(|beat| beat.at).sum();
        let between = round / trades().count() as u64;
        assert!((330..=390).contains(&between), "about every six minutes: {between} s");
        for trade in trades() {
            let params = &trade.params["params"];
            let amount: f64 = params["amount"].as_str().unwrap().parse().unwrap();
            let price = if params["token_in"] == "WETH" { 4_000.0 } else { 1.0 };
            assert!(amount * price <= 250.0, "{params}");
        }
    }

    #[test]
    fn an_unplayable_scenario_is_reported_with_its_place() {
        let beat = |text: &str| format!("name = \"a\"\nabout = \"b\"\n[[beat]]\n{text}\n");
        for (text, wanted) in [
            (
                beat("at = 1\ndo = \"preview_acton\""),
                "beat 1: there is no tool `preview_acton`; did you mean `preview_action`?",
            ),
            (beat("at = 1\ndoes = \"act\""), "line 5: unknown field `does`"),
            (beat("at = 1\nexpect = [\"success\"]"), "beat 1: it expects a result but has no `do`"),
            (beat("at = 5\n[[beat]]\nat = 4"), "beat 2: at 4 s it is earlier than"),
            (beat("at = 5\n[[later]]\nat = 0"), "later 1: a repeated step needs"),
            (beat("at = 1\nwaits = \"for you\""), "beat 1: it expects a result but has no `do`"),
            (beat("at = 1\nnow = \"$amount\""), "beat 1: a text says $amount, but"),
            (beat("at = 1\ndo = \"act\"\n[[beat.ended]]"), "beat 1: an `ended` needs a caption"),
            (beat("at = 1\ndo = \"act\"\n[[beat.ended]]\nis = \"fine\"\nnow = \"x\""), "`fine` is neither a status"),
            (
                beat("at = 1\n[[cue]]\nat = 1\ncaption = \"x\"\nwaits_for = \"sale\""),
                "cue 1: no earlier beat with a `do`",
            ),
        ] {
            let said = parse("x.toml", &text).unwrap_err().to_string();
            assert!(said.contains(wanted), "{said}");
        }
        let said = find("first-tuor").unwrap_err().to_string();
        assert!(said.contains("did you mean `first-tour`?"), "{said}");
    }

    #[test]
    fn the_received_amount_is_compared_with_the_expected_one() {
        use bardo_base::error::{ErrorCode, ToolError};
        use bardo_base::id::CallId;
        use golem_tools::engine::CallStatus;
        let text =
            "name = \"a\"\nabout = \"b\"\n[[beat]]\nat = 1\ndo = \"act\"\nexpect = [\"blocked\", \"TOOL_UNKNOWN\"]\n";
        let scenario = parse("x", text).unwrap();
        let outcome = |status, code| ToolResponse::failed(CallId::new(1), status, ToolError::new(code, "no"));
        let beat = &scenario.steps[0];
        assert_eq!(beat.missed(&outcome(CallStatus::Blocked, ErrorCode::Halted)), None);
        assert_eq!(beat.missed(&outcome(CallStatus::Error, ErrorCode::ToolUnknown)), None);
        let missed = beat.missed(&outcome(CallStatus::Error, ErrorCode::Halted)).unwrap();
        assert_eq!(missed, "expected blocked or TOOL_UNKNOWN, found error HALTED (no)");
        let says = |words: &str| parse("x", &format!("{text}says = \"{words}\"\n")).unwrap().steps.remove(0);
        let blocked = outcome(CallStatus::Blocked, ErrorCode::Halted);
        assert_eq!(says("HALTED").missed(&blocked), None);
        assert_eq!(says("approve").missed(&blocked).unwrap(), "expected the answer to contain `approve`");
    }
}
