//! Planner of a Golem without a brain: plays a scenario step by step through the eight tools, and carries out the
//! operator's plain commands in between.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt as _};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use super::{EventOutput, ScenarioProgress};
use crate::agent_api::{ActionKind, AgentSession};
use crate::brain::operator::{self, OperatorRequest};
use crate::scenario::{ACT, PlayedStep, Scenario, ScenarioStep, StepEvents, with_amount};
use bardo_base::clock::{Clock, ClockParticipation};
use bardo_base::fabric::{ApprovalOutcome, Caption, Event, EventKind, GolemState, GolemThought, TxState};
use bardo_base::model::StopLevel;
use bardo_base::text::SafeText;
use golem_tools::engine::ToolResponse;

/// Maximum number of the operator's commands that wait for the end of a step's call.
const MOST_DEFERRED: usize = 8;

/// Poll interval for the end of a stop.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Maximum number of recorded deviations after the scenario's end.
const MOST_MISSED: usize = 50;

/// Maximum length of one wait.
const LISTENS: Duration = Duration::from_secs(60);

/// Maximum number of events that the planner may be behind during a call.
const EVENTS_BEHIND: usize = 4_096;

/// Reason for ending a wait early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitEnd {
    /// The Golem must leave.
    Leaves,
    /// Another scenario must be played.
    AnotherScenario,
}

/// Step that is shown, with its place in the scenario.
struct ShownStep<'a> {
    scenario: &'a str,
    step: &'a ScenarioStep,
    /// Start of the scenario on the clock's steady scale, in milliseconds.
    begun: u64,
    /// Number of the step and the total.
    place: Option<(u32, u32)>,
    /// True if the scenario stands still while a decision about the step is open.
    stands_still: bool,
}

/// Call of a step, as far as its texts depend on it.
struct StepCall {
    /// Amount of the call: the one in its parameters, or the smaller one that the operator chose.
    amount: Option<String>,
    events: StepEvents,
    /// True while a decision about the call is open.
    waits: bool,
}

impl StepCall {
    fn text(&self, text: &str) -> String {
        with_amount(text, self.amount.as_deref())
    }
}

/// State of the planner.
pub(super) struct Planner {
    pub(super) agent: AgentSession,
    pub(super) voice: EventOutput,
    pub(super) stop: watch::Receiver<Option<StopLevel>>,
    pub(super) leaving: watch::Receiver<bool>,
    pub(super) words: mpsc::Receiver<SafeText>,
    /// Commands that wait for the end of a step's call.
    pub(super) deferred: VecDeque<SafeText>,
    pub(super) scenarios: mpsc::Receiver<Scenario>,
    /// Scenario to play next.
    pub(super) next: Option<Scenario>,
    pub(super) played: watch::Sender<ScenarioProgress>,
    /// Results of the named steps.
    pub(super) answers: BTreeMap<String, Value>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) thought: u64,
    pub(super) _attendance: ClockParticipation,
}

impl Planner {
    /// Plays one scenario after the other, until the Golem must leave.
    pub(super) async fn play(mut self, first: Scenario) {
        let mut scenario = first;
        while !self.play_scenario(&scenario).await {
            let Some(next) = self.next.take() else { return };
            scenario = next;
            self.played.send_replace(ScenarioProgress::default());
            self.answers.clear();
        }
    }

    /// Plays a scenario and then its repeated steps. Returns true if the Golem must leave, and false if another
    /// scenario must be played.
    async fn play_scenario(&mut self, scenario: &Scenario) -> bool {
        let begun = self.clock.steady_millis();
        self.played.send_modify(|played| played.begun = Some(begun));
        for (number, step) in (1_usize..).zip(&scenario.steps) {
            let held = self.played.borrow().held;
            let due = begun.saturating_add(held).saturating_add(step.at.saturating_mul(1_000));
            if let Some(over) = self.wait(due).await {
                return over == WaitEnd::Leaves;
            }
            if !self.is_on(step) {
                self.played.send_modify(|played| played.skipped += 1);
                continue;
            }
            let place = u32::try_from(number).ok().zip(u32::try_from(scenario.steps.len()).ok());
            // A single step has no progress to show.
            let place = place.filter(|(_, of)| *of > 1);
            let missed = self.play_step(scenario, step, begun, place).await;
            self.played.send_modify(|played| {
                played.missed.extend(missed.map(|missed| format!("beat {number} at {} s: {missed}", step.at)));
                played.steps += 1;
            });
        }
        self.played.send_modify(|played| played.done = true);
        if scenario.later.is_empty() {
            // All steps are played; the Golem continues and listens to the operator.
            loop {
                if let Some(over) = self.wait(self.clock.steady_millis().saturating_add(3_600_000)).await {
                    return over == WaitEnd::Leaves;
                }
            }
        }
        for step in scenario.later.iter().cycle() {
            let due = self.clock.steady_millis().saturating_add(step.at.saturating_mul(1_000));
            if let Some(over) = self.wait(due).await {
                return over == WaitEnd::Leaves;
            }
            if !self.is_on(step) {
                continue;
            }
            if let Some(missed) = self.play_step(scenario, step, begun, None).await {
                self.played.send_modify(|played| {
                    // The repetition has no end, so the list needs a limit.
                    if played.missed.len() < MOST_MISSED {
                        let at = step.at;
                        played.missed.push(format!("a repeated step, {at} s after the previous one: {missed}"));
                    }
                });
            }
        }
        true
    }

    /// Waits until `due` and listens to the operator. Returns `None` once due. While a stop holds the Golem, nothing
    /// becomes due.
    async fn wait(&mut self, due: u64) -> Option<WaitEnd> {
        loop {
            if *self.leaving.borrow() {
                return Some(WaitEnd::Leaves);
            }
            self.forget_after_stop();
            if let Some(said) = self.deferred.pop_front() {
                self.handle_command(&said).await;
                continue;
            }
            if let Ok(scenario) = self.scenarios.try_recv() {
                self.next = Some(scenario);
                return Some(WaitEnd::AnotherScenario);
            }
            let now = self.clock.steady_millis();
            // Under exit-only and flatten the pipeline allows exits: the planner continues, and other actions are
            // blocked.
            let held = matches!(*self.stop.borrow(), Some(StopLevel::Pause | StopLevel::Halt | StopLevel::Revoke))
                || self.agent.has_stopped_itself();
            if now >= due && !held {
                return None;
            }
            let left = if held { POLL_INTERVAL } else { Duration::from_millis(due.saturating_sub(now)).min(LISTENS) };
            tokio::select! {
                () = self.clock.pause(left) => {}
                changed = self.leaving.changed() => if changed.is_err() { return Some(WaitEnd::Leaves) },
                said = self.words.recv(), if !self.words.is_closed() => if let Some(said) = said {
                    self.handle_command(&said).await;
                },
                scenario = self.scenarios.recv(), if !self.scenarios.is_closed() => if let Some(scenario) = scenario {
                    self.next = Some(scenario);
                    return Some(WaitEnd::AnotherScenario);
                },
            }
        }
    }

    /// True if the step has no condition, or its condition holds now.
    fn is_on(&self, step: &ScenarioStep) -> bool {
        step.when.as_ref().is_none_or(|when| when.holds(self.agent.phase(), &self.played.borrow().outcomes))
    }

    /// Plays one step; `place` is its number and the total. Returns the deviation from its expectations, if any.
    async fn play_step(
        &mut self,
        scenario: &Scenario,
        step: &ScenarioStep,
        begun: u64,
        place: Option<(u32, u32)>,
    ) -> Option<String> {
        let shown = ShownStep { scenario: &scenario.name, step, begun, place, stands_still: scenario.stands_still };
        let mut call =
            StepCall { amount: step.amount().map(str::to_owned), events: StepEvents::default(), waits: false };
        self.caption(&shown, step.caption.as_deref(), &call);
        if let Some(now) = &step.now {
            self.now(&shown, now, step.next.as_deref(), &call);
        }
        if let Some(text) = &step.think {
            self.think(&call.text(text));
        }
        let does = step.does.as_deref()?;
        let params = if step.params.is_null() { json!({}) } else { step.params_with(&self.answers) };
        let (response, committed) = self.call(&shown, does, params, &mut call).await;
        if let Some(error) = response.error.as_ref().filter(|_| committed) {
            self.think(&format!("It was not done: {}", error.message()));
        }
        let outcome = PlayedStep::of(&response).with(call.events);
        if let Some(texts) = step.texts_after(&outcome) {
            self.caption(&shown, texts.caption.as_deref(), &call);
            if let Some(now) = &texts.now {
                self.now(&shown, now, texts.next.as_deref(), &call);
            }
            if let Some(text) = &texts.think {
                self.think(&call.text(text));
            }
        }
        if let Some(name) = &step.name {
            self.played.send_modify(|played| drop(played.outcomes.insert(name.clone(), outcome)));
            if let Some(data) = &response.data {
                self.answers.insert(name.clone(), data.clone());
            }
        }
        step.missed(&response)
    }

    /// Makes the call of a step, and keeps the shown activity true while the operator decides about it. The operator's
    /// questions are answered meanwhile; actions wait for the end of the call. Returns the response, and whether it comes
    /// from a commit.
    async fn call(
        &mut self,
        shown: &ShownStep<'_>,
        does: &str,
        params: Value,
        call: &mut StepCall,
    ) -> (ToolResponse, bool) {
        let mut events = self.voice.fabric.subscribe(EVENTS_BEHIND);
        let mut batch = Vec::new();
        let (agent, voice) = (self.agent.clone(), self.voice.clone());
        let mut questions = FuturesUnordered::new();
        let answered = {
            let mut answer = std::pin::pin!(async {
                match does {
                    ACT => operator::act(&agent, params).await,
                    tool => (agent.call(tool, params).await, false),
                }
            });
            loop {
                tokio::select! {
                    biased;
                    answered = &mut answer => break answered,
                    more = events.receive(&mut batch, 256) => match more {
                        true => self.follow_call(&mut batch, shown, call),
                        false => break answer.await,
                    },
                    said = self.words.recv(), if !self.words.is_closed() => if let Some(said) = said {
                        match OperatorRequest::of(said.as_str(), &agent) {
                            None => self.think(&operator::not_understood(said.as_str())),
                            Some(wish) if wish.is_action() => self.defer(said),
                            Some(wish) => {
                                let (agent, voice) = (agent.clone(), voice.clone());
                                questions.push(async move { wish.carry_out(&said, &agent, &voice).await });
                            }
                        }
                    },
                    Some(told) = questions.next(), if !questions.is_empty() => {
                        self.think(&told);
                        let waits = shown.step.waits.as_deref().filter(|_| call.waits);
                        let now = waits.or(shown.step.now.as_deref());
                        if let Some(now) = now {
                            self.now(shown, now, shown.step.next.as_deref(), call);
                        }
                    }
                }
            }
        };
        while let Some(told) = questions.next().await {
            self.think(&told);
        }
        while events.try_receive(&mut batch, 256) {
            self.follow_call(&mut batch, shown, call);
        }
        self.hold(shown, false);
        answered
    }

    /// Keeps a command for the end of the step's call.
    fn defer(&mut self, said: SafeText) {
        if self.deferred.len() >= MOST_DEFERRED {
            return self.think(&format!(
                "You said: {said}. I did nothing: {MOST_DEFERRED} commands already wait for the end of this step."
            ));
        }
        if self.deferred.is_empty() {
            // From here on, a change of the stop counts: see `forget_after_stop`.
            self.stop.mark_unchanged();
        }
        self.think(&format!("You said: {said}. I do it once this step is over."));
        self.deferred.push_back(said);
    }

    /// Forgets the commands that wait if a stop was raised or lifted since: lifting a stop does not ask for what was
    /// asked before it.
    fn forget_after_stop(&mut self) {
        if self.deferred.is_empty() || self.stop.has_changed().is_ok_and(|changed| !changed) {
            return;
        }
        for said in std::mem::take(&mut self.deferred) {
            self.think(&format!("You said: {said}. I did nothing: a stop was raised or lifted since. Say it again."));
        }
    }

    /// Follows the decision about a step's call, and its signatures. The planner makes one call at a time, so that every
    /// such event of its Golem belongs to this step.
    fn follow_call(&self, batch: &mut Vec<Arc<Event>>, shown: &ShownStep<'_>, call: &mut StepCall) {
        let step = shown.step;
        for event in batch.drain(..).filter(|event| event.golem_id == self.voice.golem_id) {
            match &event.kind {
                EventKind::ApprovalRequested(_) => {
                    call.waits = true;
                    self.hold(shown, true);
                    if let Some(waits) = &step.waits {
                        self.now(shown, waits, step.next.as_deref(), call);
                    }
                }
                EventKind::ApprovalResolved(resolved) => {
                    call.waits = false;
                    self.hold(shown, false);
                    call.events.smaller = resolved.outcome == ApprovalOutcome::Edited;
                    if let Some(amount) = resolved.amount.as_ref().filter(|_| call.events.smaller) {
                        call.amount = Some(amount.to_string());
                    }
                    let prefix = match resolved.outcome {
                        ApprovalOutcome::Approved | ApprovalOutcome::ApprovedSimilar => "",
                        ApprovalOutcome::Edited => "You chose a smaller amount. ",
                        // The texts after the call say what became of it.
                        ApprovalOutcome::Refused
                        | ApprovalOutcome::RefusedAndHalted
                        | ApprovalOutcome::Lapsed
                        | ApprovalOutcome::Withdrawn => continue,
                    };
                    self.caption(shown, step.approved.as_deref(), call);
                    if let Some(now) = &step.now {
                        self.now(shown, &format!("{prefix}{now}"), step.next.as_deref(), call);
                    }
                }
                EventKind::TxUpdate(update) if update.state == TxState::Signed => call.events.transaction = true,
                _ => {}
            }
        }
    }

    /// Lets the scenario stand still for a decision, or go on, if it is one that does.
    fn hold(&self, shown: &ShownStep<'_>, stands: bool) {
        if shown.stands_still {
            let now = self.clock.steady_millis();
            self.played.send_modify(|played| played.hold(stands, now));
        }
    }

    fn caption(&self, shown: &ShownStep<'_>, caption: Option<&str>, call: &StepCall) {
        if let Some(caption) = caption {
            let now = self.clock.steady_millis();
            let held = self.played.borrow().held_by(now);
            let at_seconds = now.saturating_sub(shown.begun).saturating_sub(held) / 1_000;
            let caption = Caption { show: clean(shown.scenario), text: clean(&call.text(caption)), at_seconds };
            self.voice.emit(EventKind::Caption(caption));
        }
    }

    /// Shows the current activity, with the roles that the step's action passes through.
    fn now(&self, shown: &ShownStep<'_>, now: &str, next: Option<&str>, call: &StepCall) {
        let kind = shown.step.params.get("kind").and_then(Value::as_str).and_then(ActionKind::named);
        let delegation = kind.map(|kind| self.agent.delegation(kind.acts)).unwrap_or_default();
        let (now, next) = (clean(&call.text(now)), clean(&call.text(next.unwrap_or_default())));
        self.voice.emit(EventKind::GolemNow(GolemState { now, next, step: shown.place, delegation }));
    }

    fn think(&mut self, text: &str) {
        self.thought += 1;
        let thought = GolemThought { thought: self.thought, text: clean(text), more: false, report: false };
        self.voice.emit(EventKind::GolemThought(thought));
    }

    /// Carries out a plain command of the operator, or explains that the text was not understood.
    async fn handle_command(&mut self, said: &SafeText) {
        let told = match OperatorRequest::of(said.as_str(), &self.agent) {
            None => operator::not_understood(said.as_str()),
            Some(wish) => wish.carry_out(said, &self.agent, &self.voice).await,
        };
        self.think(&told);
    }
}

fn clean(text: &str) -> SafeText {
    SafeText::clean(text, 400)
}
