//! A life: a heart that takes the measure of it and moves the phase, a body that follows what happens, and a mind that
//! plays a scenario through the eight tools. It ends with the phase Terminal, or when it is told to leave.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use super::brain::{Brain, Breath, End, Nerves, operator};
use super::memory::Memory;
use super::phase::{PhaseMachine, PhaseRules};
use super::pi::{ActionKind, PiSession};
use super::scenario::{ACT, Beat, Scenario};
use super::sprite::{Sprite, Trigger};
use super::vitals::{Gauge, Terms};
use crate::base::clock::{Attendance, Clock};
use crate::base::error::{ErrorCode, ToolError};
use crate::base::id::{CallId, GolemId};
use crate::base::model::{Phase, StopLevel};
use crate::base::text::SafeText;
use crate::engine::{Status, ToolResponse, World};
use crate::fabric::{
    Caption, EventKind, Fabric, GolemNow, GolemThought, PhaseChanged, Receiver, SpriteChanged, Vitals,
};

/// How long success and failure show on the body.
const MOMENT: Duration = Duration::from_secs(3);

/// How often it looks whether a stop was lifted.
const LOOK: Duration = Duration::from_millis(250);

/// The longest it waits at once.
const LISTENS: Duration = Duration::from_secs(60);

/// What a life is made of.
#[derive(Debug)]
pub struct LifeConfig {
    /// The eight tools.
    pub pi: PiSession,
    /// The world its vitals are read from.
    pub world: Arc<World>,
    /// When each phase is entered.
    pub phases: PhaseRules,
    /// Where its phase is told to the pipeline.
    pub phase: watch::Sender<Phase>,
    /// The stop in force.
    pub stop: watch::Receiver<Option<StopLevel>>,
    /// Set when it is to begin nothing new.
    pub leaving: watch::Receiver<bool>,
    /// What the operator says to it.
    pub words: mpsc::Receiver<SafeText>,
    /// The shows that it is to play from now on.
    pub shows: mpsc::Receiver<Scenario>,
    /// How the present show goes.
    pub played: watch::Sender<Played>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Holds the time until it has begun to live.
    pub attendance: Attendance,
    /// Where it says what happens.
    pub fabric: Fabric,
    /// Who it is.
    pub golem_id: GolemId,
    /// Time between two heartbeats.
    pub heartbeat: Duration,
    /// How many times faster than written the show is played; zero is read as one.
    pub speed: u32,
    /// How long it is given, in seconds.
    pub lifespan_seconds: Option<u64>,
    /// Who decides in it; without one it plays its scenario.
    pub brain: Option<Box<dyn Brain>>,
}

/// How a show goes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Played {
    /// When the show began, on the clock's steady scale in milliseconds; `None` before.
    pub begun: Option<u64>,
    /// Beats that were played to their end.
    pub beats: usize,
    /// What was not as expected, a line each.
    pub missed: Vec<String>,
    /// The phases that were entered, in order.
    pub phases: Vec<Phase>,
    /// Whether the Golem has played all its beats, or has died.
    pub done: bool,
    /// Whether all cues were given.
    pub cued: bool,
}

impl Played {
    /// Whether nothing of the show is still to come.
    pub fn is_over(&self) -> bool {
        self.done && self.cued
    }
}

/// The voice, and what the three parts share.
#[derive(Debug, Clone)]
pub(super) struct Voice {
    fabric: Fabric,
    golem_id: GolemId,
    failures: Arc<AtomicU32>,
    shown: Arc<Mutex<Sprite>>,
    /// What was told of its vitals last.
    vitals: Arc<Mutex<Option<Vitals>>>,
}

impl Voice {
    /// Lets the body react, and says what it shows now.
    fn react(&self, call: Option<CallId>, trigger: Trigger) {
        let (from, to) = {
            let mut sprite = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
            (sprite.state(), sprite.take(call, trigger))
        };
        if let Some(to) = to {
            self.say(EventKind::SpriteChanged(SpriteChanged { from, to }));
        }
    }

    pub(super) fn say(&self, kind: EventKind) {
        if let EventKind::Vitals(vitals) = &kind {
            *self.vitals.lock().unwrap_or_else(PoisonError::into_inner) = Some((**vitals).clone());
        }
        self.fabric.emit(&self.golem_id, None, kind);
    }

    /// What was told of its vitals last.
    pub(super) fn vitals(&self) -> Option<Vitals> {
        self.vitals.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Counts what came of a commit.
    pub(super) fn count(&self, status: Status) {
        match status {
            Status::Success | Status::Simulated | Status::Partial => self.failures.store(0, Ordering::SeqCst),
            Status::Error => drop(self.failures.fetch_add(1, Ordering::SeqCst)),
            // Nothing failed: it was not to be.
            Status::Blocked | Status::Rejected => {}
        }
    }
}

/// Lives: plays `scenario` and what comes after it.
///
/// # Errors
/// Whatever keeps it from being born: no wallet, or a memory that cannot be read.
pub async fn live(config: LifeConfig, scenario: Scenario) -> Result<(), ToolError> {
    let memory = config.pi.memory().clone();
    let life = memory.life(&*config.clock).await?;
    let voice = Voice {
        fabric: config.fabric.clone(),
        golem_id: config.golem_id.clone(),
        failures: Arc::new(AtomicU32::new(0)),
        shown: Arc::default(),
        vitals: Arc::default(),
    };
    let terms = Terms { born_at: life.born_at, high_water: life.high_water, lifespan_seconds: config.lifespan_seconds };
    if life.died_at.is_some() {
        // There is no way back: not by another phase, and not by another start.
        config.phase.send_replace(Phase::Terminal);
        let words = life.last_words.unwrap_or_default();
        return Err(ToolError::new(
            ErrorCode::SafetyPhaseBlocked,
            format_args!("it has died. Its last entry: {words}"),
        ));
    }
    let heart = Heart {
        gauge: Gauge::new(Arc::clone(&config.world), terms)?,
        marked: life.high_water.is_some(),
        machine: PhaseMachine::new(config.phases),
        phase: config.phase.clone(),
        clock: config.clock.clone(),
        voice: voice.clone(),
        memory,
        played: config.played.clone(),
        _attendance: config.clock.attend(),
    };
    let body = body(voice.clone(), config.fabric.subscribe(4_096), config.pi.clone(), config.clock.clone());
    let speed = config.speed.max(1);
    let (pi, last_words) = (config.pi.clone(), voice.clone());
    let mut nerves = Nerves {
        pi: config.pi,
        voice,
        stop: config.stop,
        leaving: config.leaving,
        words: config.words,
        phase: config.phase.subscribe(),
        thought: 0,
        breath: Breath::default(),
    };
    let brain = config.brain;
    let (mut shows, played, clock, attendance) = (config.shows, config.played.clone(), config.clock, config.attendance);
    if brain.is_some() {
        // It plays no shows, so that none has cues for it.
        shows.close();
        played.send_modify(|played| played.cued = true);
    }
    let mind = async move {
        let (ended, scenario) = match brain {
            None => (None, scenario),
            Some(brain) => {
                let End { well, why } = brain.live(&mut nerves).await;
                // Whatever it had open is taken back; the operator is heard as before.
                nerves.pi.take_back_all().await;
                let words = format!("My brain has gone: {why}. I still listen to you.");
                (Some(if well { Vec::new() } else { vec![words.clone()] }), Scenario::quiet(&words))
            }
        };
        let Nerves { pi, voice, stop, leaving, words, thought, phase: _, breath: _ } = nerves;
        if let Some(missed) = ended {
            played.send_modify(|played| {
                played.missed.extend(missed);
                played.done = true;
            });
        }
        let (next, answers) = (None, BTreeMap::new());
        let mind = Mind {
            pi,
            voice,
            stop,
            leaving,
            words,
            shows,
            next,
            played,
            answers,
            clock,
            speed,
            thought,
            _attendance: attendance,
        };
        mind.play(scenario).await;
    };
    tokio::select! {
        () = mind => {}
        () = heart.beat(config.heartbeat) => {
            pi.take_back_all().await;
            last_words.react(None, Trigger::Dies);
        }
        () = body => {}
    }
    config.played.send_modify(|played| played.done = true);
    Ok(())
}

/// Takes the measure and moves the phase.
struct Heart {
    gauge: Gauge,
    /// Whether its memory has a high-water mark.
    marked: bool,
    machine: PhaseMachine,
    phase: watch::Sender<Phase>,
    clock: Arc<dyn Clock>,
    voice: Voice,
    memory: Memory,
    played: watch::Sender<Played>,
    _attendance: Attendance,
}

impl Heart {
    /// Beats until death.
    async fn beat(mut self, every: Duration) {
        let every = millis(every);
        let mut due = self.clock.steady_millis();
        loop {
            until(&*self.clock, due).await;
            // From when it was due, so that delays do not add up; but it makes up for no beat that was missed.
            due = due.saturating_add(every).max(self.clock.steady_millis());
            let now = self.clock.now_millis();
            self.gauge.set_failures(self.voice.failures.load(Ordering::SeqCst));
            if self.marked && self.memory.life(&*self.clock).await.is_ok_and(|life| life.high_water.is_none()) {
                // Another program has forgotten it, by the operator's word.
                self.gauge.forget_high_water();
                self.marked = false;
            }
            let before = self.gauge.high_water();
            let (reading, worth) = self.gauge.read(now).await;
            if let Some(high) = self.gauge.high_water().filter(|high| before != Some(*high) || !self.marked) {
                // A high-water mark that is not kept is found again from what is held.
                self.marked = self.memory.set_high_water(high).await.is_ok();
            }
            let change = self.machine.observe(&reading, now);
            if let Some(change) = change {
                self.phase.send_replace(change.to);
                let why = SafeText::clean(&change.why, 200);
                self.played.send_modify(|played| played.phases.push(change.to));
                self.voice.say(EventKind::PhaseChanged(PhaseChanged { from: change.from, to: change.to, why }));
            }
            self.voice.say(EventKind::Vitals(Box::new(self.gauge.told(&self.machine, &reading, &worth))));
            if self.machine.phase() == Phase::Terminal {
                let words = SafeText::clean(&format!("I end here: {}.", self.machine.why()), 300);
                if let Err(error) = self.memory.die(words, now).await {
                    tracing::warn!(%error, "the last entry was not kept");
                }
                return;
            }
        }
    }
}

/// A time in milliseconds.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Waits for a moment of the clock's steady scale.
async fn until(clock: &dyn Clock, due: u64) {
    while let Some(left) = due.checked_sub(clock.steady_millis()).filter(|left| *left > 0) {
        clock.pause(Duration::from_millis(left)).await;
    }
}

/// Shows what happens, until nothing more is told.
async fn body(voice: Voice, mut events: Receiver, pi: PiSession, clock: Arc<dyn Clock>) {
    let _attendance = clock.attend();
    let mut batch = Vec::new();
    let rest = || clock.steady_millis().saturating_add(millis(MOMENT));
    let mut rests = rest();
    loop {
        let told = tokio::select! {
            biased;
            told = events.receive(&mut batch, 256) => Some(told),
            () = until(&*clock, rests) => None,
        };
        match told {
            Some(false) => return,
            Some(true) => {
                for event in batch.drain(..).filter(|event| event.golem_id == voice.golem_id) {
                    let sprite_of = |tool: &str| pi.catalog().get(tool).map(|entry| entry.def.meta.sprite_trigger);
                    if let Some(trigger) = Trigger::of(&event.kind, sprite_of) {
                        voice.react(event.call_id, trigger);
                        rests = rest();
                    }
                }
            }
            None => {
                voice.react(None, Trigger::Rests);
                rests = rest();
            }
        }
    }
}

/// Why it does not wait any more although nothing is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waited {
    /// It is to leave.
    Leaves,
    /// It is to play another show.
    AnotherShow,
}

/// Plays.
struct Mind {
    pi: PiSession,
    voice: Voice,
    stop: watch::Receiver<Option<StopLevel>>,
    leaving: watch::Receiver<bool>,
    words: mpsc::Receiver<SafeText>,
    shows: mpsc::Receiver<Scenario>,
    /// The show that is to be played instead.
    next: Option<Scenario>,
    played: watch::Sender<Played>,
    /// What came of the beats that have a name.
    answers: BTreeMap<String, Value>,
    clock: Arc<dyn Clock>,
    speed: u32,
    thought: u64,
    _attendance: Attendance,
}

impl Mind {
    /// Plays one show after the other, until it is to leave.
    async fn play(mut self, first: Scenario) {
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
            let due = begun.saturating_add(self.scaled(beat.at));
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
            let due = self.clock.steady_millis().saturating_add(self.scaled(beat.at));
            if let Some(over) = self.wait(due).await {
                return over == Waited::Leaves;
            }
            // What goes on afterwards has no expectations.
            let _missed = self.beat(&scenario.name, beat, begun).await;
        }
        true
    }

    /// Seconds of a show in milliseconds of the clock.
    fn scaled(&self, seconds: u64) -> u64 {
        seconds.saturating_mul(1_000).checked_div(u64::from(self.speed)).unwrap_or_default()
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
            let elapsed = self.clock.steady_millis().saturating_sub(begun) / 1_000;
            let at_seconds = elapsed.saturating_mul(u64::from(self.speed));
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
pub fn command(said: &str) -> Option<(&'static str, Value)> {
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
