//! The mind of a Golem that plays: one beat after the other through the eight tools, and the operator's plain words in
//! between.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use super::{Played, Voice};
use crate::base::clock::{Attendance, Clock};
use crate::base::model::StopLevel;
use crate::base::text::SafeText;
use crate::engine::{Status, ToolResponse};
use crate::fabric::{Caption, EventKind, GolemNow, GolemThought};
use crate::golem::brain::operator;
use crate::golem::pi::{ActionKind, PiSession};
use crate::golem::scenario::{ACT, Beat, Scenario};

/// How often it looks whether a stop was lifted.
const LOOK: Duration = Duration::from_millis(250);

/// Lines about what was not as expected after the show.
const MOST_MISSED: usize = 50;

/// The longest it waits at once.
const LISTENS: Duration = Duration::from_secs(60);

/// Why it does not wait any more although nothing is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waited {
    /// It is to leave.
    Leaves,
    /// It is to play another show.
    AnotherShow,
}

/// Plays.
pub(super) struct Mind {
    pub(super) pi: PiSession,
    pub(super) voice: Voice,
    pub(super) stop: watch::Receiver<Option<StopLevel>>,
    pub(super) leaving: watch::Receiver<bool>,
    pub(super) words: mpsc::Receiver<SafeText>,
    pub(super) shows: mpsc::Receiver<Scenario>,
    /// The show that is to be played instead.
    pub(super) next: Option<Scenario>,
    pub(super) played: watch::Sender<Played>,
    /// What came of the beats that have a name.
    pub(super) answers: BTreeMap<String, Value>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) thought: u64,
    pub(super) _attendance: Attendance,
}

impl Mind {
    /// Plays one show after the other, until it is to leave.
    pub(super) async fn play(mut self, first: Scenario) {
        let mut show = first;
        while !self.show(&show).await {
            let Some(next) = self.next.take() else { return };
            show = next;
            self.played.send_replace(Played::default());
            self.answers.clear();
        }
    }

    /// Plays a show and what comes after it; true: it is to leave, false: another is to be played.
    async fn show(&mut self, scenario: &Scenario) -> bool {
        let begun = self.clock.steady_millis();
        self.played.send_modify(|played| played.begun = Some(begun));
        for (number, beat) in (1_usize..).zip(&scenario.beats) {
            let due = begun.saturating_add(beat.at.saturating_mul(1_000));
            if let Some(over) = self.wait(due).await {
                return over == Waited::Leaves;
            }
            let missed = self.beat(&scenario.name, beat, begun).await;
            self.played.send_modify(|played| {
                played.missed.extend(missed.map(|missed| format!("beat {number} at {} s: {missed}", beat.at)));
                played.beats += 1;
            });
        }
        self.played.send_modify(|played| played.done = true);
        if scenario.later.is_empty() {
            // It lives on, and listens.
            loop {
                if let Some(over) = self.wait(self.clock.steady_millis().saturating_add(3_600_000)).await {
                    return over == Waited::Leaves;
                }
            }
        }
        for beat in scenario.later.iter().cycle() {
            let due = self.clock.steady_millis().saturating_add(beat.at.saturating_mul(1_000));
            if let Some(over) = self.wait(due).await {
                return over == Waited::Leaves;
            }
            if let Some(missed) = self.beat(&scenario.name, beat, begun).await {
                self.played.send_modify(|played| {
                    // It goes on for as long as somebody looks on.
                    if played.missed.len() < MOST_MISSED {
                        let at = beat.at;
                        played.missed.push(format!("afterwards, a beat {at} s after the one before: {missed}"));
                    }
                });
            }
        }
        true
    }

    /// Waits, listening to the operator; `None`: it is due. While a stop is in force nothing is due.
    async fn wait(&mut self, due: u64) -> Option<Waited> {
        loop {
            if *self.leaving.borrow() {
                return Some(Waited::Leaves);
            }
            if let Ok(show) = self.shows.try_recv() {
                self.next = Some(show);
                return Some(Waited::AnotherShow);
            }
            let now = self.clock.steady_millis();
            // Under exit-only and flatten the pipeline lets exits through: the mind goes on, and is told no.
            let held = matches!(*self.stop.borrow(), Some(StopLevel::Pause | StopLevel::Halt | StopLevel::Revoke));
            if now >= due && !held {
                return None;
            }
            let left = if held { LOOK } else { Duration::from_millis(due.saturating_sub(now)).min(LISTENS) };
            tokio::select! {
                () = self.clock.pause(left) => {}
                changed = self.leaving.changed() => if changed.is_err() { return Some(Waited::Leaves) },
                said = self.words.recv(), if !self.words.is_closed() => if let Some(said) = said {
                    self.hear(&said).await;
                },
                show = self.shows.recv(), if !self.shows.is_closed() => if let Some(show) = show {
                    self.next = Some(show);
                    return Some(Waited::AnotherShow);
                },
            }
        }
    }

    /// Plays one beat; what was not as expected.
    async fn beat(&mut self, show: &str, beat: &Beat, begun: u64) -> Option<String> {
        if let Some(caption) = &beat.caption {
            let at_seconds = self.clock.steady_millis().saturating_sub(begun) / 1_000;
            let caption = Caption { show: clean(show), text: clean(caption), at_seconds };
            self.voice.say(EventKind::Caption(caption));
        }
        let does = beat.does.as_deref();
        if let Some(now) = &beat.now {
            let kind = beat.params.get("kind").and_then(Value::as_str).and_then(ActionKind::named);
            let delegation = kind.map(|kind| self.pi.delegation(kind.acts)).unwrap_or_default();
            let next = clean(beat.next.as_deref().unwrap_or_default());
            self.voice.say(EventKind::GolemNow(GolemNow { now: clean(now), next, step: None, delegation }));
        }
        if let Some(text) = &beat.think {
            self.think(text);
        }
        let does = does?;
        let params = if beat.params.is_null() { json!({}) } else { beat.params_with(&self.answers) };
        let response = if does == ACT { self.act(params).await } else { self.pi.call(does, params).await };
        if let (Some(name), Some(data)) = (&beat.name, &response.data) {
            self.answers.insert(name.clone(), data.clone());
        }
        beat.missed(&response)
    }

    /// Previews, and commits what nothing stands against.
    async fn act(&mut self, params: Value) -> ToolResponse {
        let previewed = self.pi.call("preview_action", params).await;
        let (Status::Simulated, Some(data)) = (previewed.status, &previewed.data) else { return previewed };
        let permit = json!({"permit_id": data["permit_id"], "simulation_hash": data["simulation_hash"]});
        let response = self.pi.call("commit_action", permit).await;
        self.voice.count(response.status);
        if let Some(error) = &response.error {
            self.think(&format!("It was not done: {}", error.message()));
        }
        response
    }

    fn think(&mut self, text: &str) {
        self.thought += 1;
        let thought = GolemThought { thought: self.thought, text: clean(text), more: false };
        self.voice.say(EventKind::GolemThought(thought));
    }

    /// Does what the operator says, where it is one of the plain commands.
    async fn hear(&mut self, said: &SafeText) {
        if let Some(told) = self.hear_of_playbook(said.as_str()).await {
            return self.think(&told);
        }
        let plain = operator::command(said.as_str(), |tool| self.pi.schema_of(tool));
        let response = match plain.or_else(|| command(said.as_str())) {
            None => return self.think("I understand: swap, quote, balances, price, remember, playbook, halt."),
            Some((ACT, params)) => self.act(params).await,
            Some((tool, params)) => self.pi.call(tool, params).await,
        };
        let told = response.error.as_ref().map(|error| error.message().to_owned()).or(response.explanation);
        self.think(&format!("You said: {said}. {}", told.unwrap_or_default()));
    }
}

impl Mind {
    /// The operator's own word on the playbook's changes: `playbook changes`, `playbook undo 3`.
    async fn hear_of_playbook(&self, said: &str) -> Option<String> {
        let words: Vec<&str> = said.split_whitespace().collect();
        let (papers, memory) = (self.pi.papers(), self.pi.memory());
        match words.as_slice() {
            ["playbook", "changes"] => {
                let told = match papers.deltas(memory) {
                    Err(error) => return Some(format!("The changes cannot be read: {error}.")),
                    Ok(deltas) => deltas.into_iter().take(5).map(|one| {
                        let undone = if one.undone { ", taken back" } else { "" };
                        format!("{} in \"{}\" because {}{undone}", one.delta, one.section, one.reason)
                    }),
                };
                let told: Vec<String> = told.collect();
                Some(if told.is_empty() { "I have changed nothing.".to_owned() } else { told.join("; ") })
            }
            ["playbook", "undo", number] => Some(match number.parse() {
                Err(_) => format!("`{number}` is no number of a change."),
                Ok(delta) => match self.pi.undo_directive(delta).await {
                    Ok(undone) => format!("Change {delta} of \"{}\" is taken back.", undone.section),
                    Err(error) => format!("Change {delta} stays: {}.", error.message()),
                },
            }),
            _ => None,
        }
    }
}

/// A plain command as one of the eight: `swap 0.1 WETH USDC on base`, `quote …`, `balances`, `price UNI`,
/// `remember words`, `playbook words`, `halt why`.
fn command(said: &str) -> Option<(&'static str, Value)> {
    let mut words = said.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let chain = match words.iter().rposition(|word| word.eq_ignore_ascii_case("on")) {
        Some(at) if at + 2 == words.len() => {
            let chain = words.pop();
            words.pop();
            chain
        }
        _ => None,
    };
    let chain = chain.unwrap_or_else(|| "ethereum".to_owned());
    let rest = || words.iter().skip(1).cloned().collect::<Vec<_>>().join(" ");
    let first = words.first()?.to_ascii_lowercase();
    match (first.as_str(), words.get(1..)?) {
        ("swap" | "sell", [amount, from, filler @ .., to]) if filler.len() <= 1 => {
            let params = json!({"token_in": from, "token_out": to, "amount": amount, "chain": chain});
            Some((ACT, json!({"kind": "swap", "params": params, "why": "the operator said so"})))
        }
        ("quote", [amount, from, filler @ .., to]) if filler.len() <= 1 => {
            let params = json!({"token_in": from, "token_out": to, "amount": amount, "chain": chain});
            Some(("query_state", json!({"query": "quote", "params": params})))
        }
        ("balances", []) => Some(("query_state", json!({"query": "balances"}))),
        ("price", [token]) => {
            Some(("query_state", json!({"query": "price", "params": {"token": token, "chain": chain}})))
        }
        ("remember", [_, ..]) => Some(("query_grimoire", json!({"query": rest()}))),
        ("playbook", [_, ..]) => Some(("search_context", json!({"query": rest()}))),
        ("halt", _) => Some(("emergency_halt", json!({"reason": format!("the operator said: {}", rest())}))),
        _ => None,
    }
}

fn clean(text: &str) -> SafeText {
    SafeText::clean(text, 400)
}
