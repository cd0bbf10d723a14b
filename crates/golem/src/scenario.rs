//! Scenarios: what a Golem does at which second of a show, in TOML, and what is to come of it.
//!
//! ```toml
//! name = "first-tour"
//! about = "Each kind of card once, and one decision."
//! operator = "wait"          # what answers where no person does: wait, approve, refuse
//!
//! [[beat]]
//! at = 8                     # seconds into the show
//! caption = "A quote"
//! now = "Asking what 0.25 WETH would bring."
//! think = "WETH is more than half of what I hold."
//! do = "query_state"         # one of the eight tools, or `act`: preview, then commit
//! params = { query = "quote", params = { token_in = "WETH", token_out = "USDC", amount = "0.25", chain = "ethereum" } }
//! expect = ["success"]       # statuses and error codes; none: whatever comes of it
//! name = "sale"              # later beats name what came of it: "$sale.tx_hash"
//! want = { chain = "ethereum" }  # fields that must be in the result
//! says = "WETH"              # words that must stand in the answer
//!
//! [[beat]]
//! at = 20
//! # Played only where all of this holds when its time comes; a beat that is left out is counted by itself, and expects
//! # nothing. `after` names an earlier beat, which was played, and `status` is how that ended: a status or an error code.
//! when = { phase = "Thriving", after = "sale", status = "success" }
//!
//! [[cue]]                    # what happens around the Golem, at the same time
//! at = 15
//! do = { market = { asset = "ETH", bps = -300, blocks = 5 } }
//!
//! [[later]]                  # over and over, once all beats are played
//! at = 30                    # seconds after the one before
//! ```

mod cue;
mod when;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

pub use cue::{Cue, Deed, Reply};
pub use when::{Came, When};

use super::pi::PI_TOOLS;
use bardo_base::model::Phase;
use bardo_base::regular_file;
use bardo_base::text::{SafeText, nearest};
use golem_tools::engine::ToolResponse;

/// The word for preview and commit in one beat.
pub const ACT: &str = "act";

/// The show that is played where no other is asked for.
pub const DEFAULT: &str = "first-tour";

/// The most that may pass at once, in seconds: prices of feeds are older than they may be soon after.
const LONGEST_TICK: u64 = 300;

/// The longest file that is read, in bytes.
const MOST_BYTES: u64 = 256 << 10;

/// The scenarios that are built in.
const BUNDLED: &[(&str, &str)] = &[
    ("first-tour", include_str!("../../../assets/scenarios/first-tour.toml")),
    ("price-moved", include_str!("../../../assets/scenarios/price-moved.toml")),
    ("falling-price", include_str!("../../../assets/scenarios/falling-price.toml")),
    ("poisoned-note", include_str!("../../../assets/scenarios/poisoned-note.toml")),
    ("crash", include_str!("../../../assets/scenarios/crash.toml")),
    ("day-of-trading", include_str!("../../../assets/scenarios/day-of-trading.toml")),
    ("rebalancing", include_str!("../../../assets/scenarios/rebalancing.toml")),
];

/// A show.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// What it shows.
    pub about: String,
    /// What answers the Golem's questions where no person does.
    #[serde(default)]
    pub operator: Operator,
    /// Seconds that pass at once. A show that says so has a time of its own, also on a screen.
    #[serde(default)]
    pub tick: Option<u64>,
    /// The phases that are to be entered, in order; none: whichever.
    #[serde(default)]
    pub phases: Vec<Phase>,
    /// What happens, in order.
    #[serde(default, rename = "beat")]
    pub beats: Vec<Beat>,
    /// What happens around it, in order.
    #[serde(default, rename = "cue")]
    pub cues: Vec<Cue>,
    /// What goes on afterwards.
    #[serde(default)]
    pub later: Vec<Beat>,
}

/// What answers where no person does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operator {
    /// Nobody: questions lapse.
    #[default]
    Wait,
    /// A yes to each.
    Approve,
    /// A no to each.
    Refuse,
}

/// One beat.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Beat {
    /// Seconds into the show; for what goes on afterwards, seconds after the one before.
    pub at: u64,
    /// When alone it is played.
    pub when: Option<When>,
    /// By which name later beats call what came of it.
    pub name: Option<String>,
    /// A line for whoever watches.
    pub caption: Option<String>,
    /// What it does now, in a sentence.
    pub now: Option<String>,
    /// What it will do next.
    pub next: Option<String>,
    /// What it thinks.
    pub think: Option<String>,
    /// What it does.
    #[serde(rename = "do")]
    pub does: Option<String>,
    /// With which parameters.
    #[serde(default)]
    pub params: Value,
    /// What may come of it: statuses and error codes.
    #[serde(default)]
    pub expect: Vec<String>,
    /// What must be in the result's data, field by field.
    #[serde(default)]
    pub want: BTreeMap<String, Value>,
    /// Words that must stand in the answer.
    pub says: Option<String>,
}

/// Why there is no scenario.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioError {
    /// Neither a name that is known nor a file.
    #[error("no scenario or file is named `{name}`{}; known scenarios: \
             {known}", near.as_ref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
    Unknown {
        /// What was asked for.
        name: String,
        /// One nearly so called.
        near: Option<&'static str>,
        /// All that are built in.
        known: String,
    },
    /// The file cannot be read.
    #[error("cannot read the scenario {}: {reason}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Something in it is wrong.
    #[error("the scenario {from}{at}: {what}")]
    Wrong {
        /// Its file or name.
        from: String,
        /// The line, where one is known.
        at: String,
        /// What.
        what: String,
    },
}

/// The names of the scenarios that are built in.
pub fn names() -> impl Iterator<Item = &'static str> {
    BUNDLED.iter().map(|(name, _)| *name)
}

/// The scenario of that name, or in that file.
///
/// # Errors
/// [`ScenarioError`].
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

/// The scenario in a text.
///
/// # Errors
/// [`ScenarioError::Wrong`], with the line.
pub fn parse(from: &str, text: &str) -> Result<Scenario, ScenarioError> {
    let wrong = |at: String, what: String| ScenarioError::Wrong { from: from.to_owned(), at, what };
    let scenario: Scenario = toml::from_str(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        let line = text.bytes().take(start).filter(|byte| *byte == b'\n').count() + 1;
        wrong(format!(", line {line}"), SafeText::clean(error.message(), 300).to_string())
    })?;
    if let Some(tick) = scenario.tick.filter(|tick| *tick == 0 || *tick > LONGEST_TICK) {
        return Err(wrong(String::new(), format!("a tick of {tick} s; expected 1 to {LONGEST_TICK} s")));
    }
    let mut last = 0;
    let mut named = Vec::new();
    for (number, beat) in (1..).zip(&scenario.beats) {
        let at = format!(", beat {number}");
        if beat.at < last {
            return Err(wrong(at, format!("at {} s it is earlier than its predecessor, at {last} s", beat.at)));
        }
        last = beat.at;
        check(beat, &named).map_err(|what| wrong(at, what))?;
        named.extend(beat.name.as_deref().filter(|_| beat.does.is_some()));
    }
    let mut last = 0;
    for (number, cue) in (1..).zip(&scenario.cues) {
        let at = format!(", cue {number}");
        if cue.at < last {
            return Err(wrong(at, format!("at {} s it is earlier than its predecessor, at {last} s", cue.at)));
        }
        last = cue.at;
        cue.check().map_err(|what| wrong(at, what))?;
    }
    for (number, beat) in (1..).zip(&scenario.later) {
        let at = format!(", later {number}");
        if beat.at == 0 {
            return Err(wrong(at, "a repeated step needs an `at` of at least 1 s".to_owned()));
        }
        check(beat, &named).map_err(|what| wrong(at, what))?;
        named.extend(beat.name.as_deref().filter(|_| beat.does.is_some()));
    }
    Ok(scenario)
}

/// `named` are the names of the beats before it that do something.
fn check(beat: &Beat, named: &[&str]) -> Result<(), String> {
    if let Some(when) = &beat.when {
        when.check(named)?;
    }
    let Some(does) = &beat.does else {
        return match beat.expect.is_empty() && beat.want.is_empty() && beat.says.is_none() {
            true => Ok(()),
            false => Err("it expects a result but has no `do`".to_owned()),
        };
    };
    let known = || PI_TOOLS.iter().map(|tool| tool.name).chain([ACT]);
    if known().any(|one| one == does) {
        return Ok(());
    }
    let near = nearest(does, known()).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
    Err(format!("there is no tool `{}`{near}", SafeText::clean(does, 40)))
}

impl Scenario {
    /// One in which nothing happens but that the Golem says why.
    pub fn quiet(why: &dyn std::fmt::Display) -> Self {
        let think = Some(SafeText::clean(&why.to_string(), 300).to_string());
        let words = Beat {
            at: 0,
            when: None,
            name: None,
            caption: None,
            now: None,
            next: None,
            think,
            does: None,
            params: Value::Null,
            expect: Vec::new(),
            want: BTreeMap::new(),
            says: None,
        };
        let (name, about) = ("quiet".to_owned(), "Nothing happens.".to_owned());
        let (beats, operator) = (vec![words], Operator::Wait);
        Self { name, about, operator, tick: None, phases: Vec::new(), beats, cues: Vec::new(), later: Vec::new() }
    }

    /// At which seconds something is to happen, in order.
    pub fn moments(&self) -> Vec<u64> {
        let beats = self.beats.iter().map(|beat| beat.at);
        let mut moments: Vec<u64> = beats.chain(self.cues.iter().map(|cue| cue.at)).collect();
        moments.sort_unstable();
        moments.dedup();
        moments
    }

    /// What is wrong with the phases that were entered; `None` where they are those expected.
    pub fn missed_phases(&self, entered: &[Phase]) -> Option<String> {
        if self.phases.is_empty() || self.phases == entered {
            return None;
        }
        let words = |phases: &[Phase]| phases.iter().map(|phase| phase.as_str()).collect::<Vec<_>>().join(", ");
        Some(format!("expected the phases {}, found {}", words(&self.phases), words(entered)))
    }
}

impl Beat {
    /// Its parameters with what came of earlier beats in the place of `"$name.field"`. What is not there stays as it
    /// is written, and whoever gets it says so.
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

    /// What is wrong with what came of it; `None` where it was expected.
    pub fn missed(&self, response: &ToolResponse) -> Option<String> {
        let came = Came::of(response);
        let met = self.expect.iter().any(|one| came.is(one));
        if met || self.expect.is_empty() {
            let fields = self.want.iter().find_map(|(field, wanted)| {
                let came = response.data.as_ref().and_then(|data| data.get(field)).unwrap_or(&Value::Null);
                (came != wanted).then(|| {
                    let came = SafeText::clean(&came.to_string(), 200);
                    format!("expected {field} to be {wanted}, found {came}")
                })
            });
            return fields.or_else(|| {
                let answer = serde_json::to_string(response).unwrap_or_default();
                let unsaid = self.says.as_ref().filter(|words| !answer.contains(words.as_str()));
                unsaid.map(|words| format!("expected the answer to contain `{}`", SafeText::clean(words, 100)))
            });
        }
        let message = response.error.as_ref().map(|error| format!(" ({})", error.message())).unwrap_or_default();
        Some(format!("expected {}, found {came}{message}", self.expect.join(" or ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_built_in_can_be_played() {
        for (name, _) in BUNDLED {
            let scenario = find(name).unwrap();
            assert_eq!(scenario.name, *name);
            assert!(!scenario.beats.is_empty() && scenario.beats.iter().any(|beat| !beat.expect.is_empty()), "{name}");
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
    fn what_cannot_be_played_is_told_with_its_place() {
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
        ] {
            let said = parse("x.toml", &text).unwrap_err().to_string();
            assert!(said.contains(wanted), "{said}");
        }
        let said = find("first-tuor").unwrap_err().to_string();
        assert!(said.contains("did you mean `first-tour`?"), "{said}");
    }

    #[test]
    fn what_came_is_held_against_what_was_expected() {
        use bardo_base::error::{ErrorCode, ToolError};
        use bardo_base::id::CallId;
        use golem_tools::engine::Status;
        let text =
            "name = \"a\"\nabout = \"b\"\n[[beat]]\nat = 1\ndo = \"act\"\nexpect = [\"blocked\", \"TOOL_UNKNOWN\"]\n";
        let scenario = parse("x", text).unwrap();
        let came = |status, code| ToolResponse::failed(CallId::new(1), status, ToolError::new(code, "no"));
        let beat = &scenario.beats[0];
        assert_eq!(beat.missed(&came(Status::Blocked, ErrorCode::Halted)), None);
        assert_eq!(beat.missed(&came(Status::Error, ErrorCode::ToolUnknown)), None);
        let missed = beat.missed(&came(Status::Error, ErrorCode::Halted)).unwrap();
        assert_eq!(missed, "expected blocked or TOOL_UNKNOWN, found error HALTED (no)");
        let says = |words: &str| parse("x", &format!("{text}says = \"{words}\"\n")).unwrap().beats.remove(0);
        let blocked = came(Status::Blocked, ErrorCode::Halted);
        assert_eq!(says("HALTED").missed(&blocked), None);
        assert_eq!(says("approve").missed(&blocked).unwrap(), "expected the answer to contain `approve`");
    }
}
