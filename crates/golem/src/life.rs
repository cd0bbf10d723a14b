//! Life of a Golem: a health monitor that measures vitals and sets the phase, an animation that follows events, a planner
//! that plays a scenario through the eight tools, and a rescuer that repays debts whose security falls too low. It ends with
//! the phase Terminal or on request.

mod planner;
mod rescue;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use planner::Planner;
use rescue::{LowHealth, RescueBell, Rescuer};

use super::agent_api::AgentSession;
use super::brain::{AgentSignals, Brain, BrainEnd, TextBudget, operator};
use super::memory::Memory;
use super::phase::{PhaseMachine, PhaseRules};
use super::scenario::{PlayedStep, Scenario};
use super::sprite::{Sprite, SpriteEvent};
use super::vitals::{LifeTerms, VitalsMeter};
use bardo_base::clock::{Clock, ClockParticipation};
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::fabric::{EventKind, Fabric, GolemThought, PhaseChanged, Receiver, SpriteChanged, Vitals};
use bardo_base::id::{CallId, GolemId};
use bardo_base::model::{Phase, StopLevel};
use bardo_base::text::SafeText;
use bardo_base::units::Usd;
use golem_tools::engine::ToolEnvironment;

/// Duration for which the sprite shows success or failure.
const MOMENT: Duration = Duration::from_secs(3);

/// Maximum length of the sentence about a brain's end, in characters.
const LAST_WORD: usize = 300;

/// Maximum number of messages that wait for a brain.
const PASSED_ON: usize = 16;

/// Timeout for the operator's running commands when the Golem leaves.
const SETTLING: Duration = Duration::from_secs(20);

/// Configuration of a Golem's life.
#[derive(Debug)]
pub struct LifeConfig {
    /// Session for the eight tools.
    pub agent: AgentSession,
    /// Chains and accounts from which vitals are read.
    pub world: Arc<ToolEnvironment>,
    /// Thresholds of the phases.
    pub phases: PhaseRules,
    /// Channel that reports the phase to the pipeline.
    pub phase: watch::Sender<Phase>,
    /// Stop in force.
    pub stop: watch::Receiver<Option<StopLevel>>,
    /// True once the Golem must begin nothing new.
    pub leaving: watch::Receiver<bool>,
    /// Messages from the operator.
    pub words: mpsc::Receiver<SafeText>,
    /// Scenarios to play from now on.
    pub scenarios: mpsc::Receiver<Scenario>,
    /// Progress of the current scenario.
    pub played: watch::Sender<ScenarioProgress>,
    /// Clock for vitals and scenario timing.
    pub clock: Arc<dyn Clock>,
    /// Attendance that keeps simulated time from advancing before the Golem runs.
    pub attendance: ClockParticipation,
    /// Event Fabric that receives its events.
    pub fabric: Fabric,
    /// Id of the Golem.
    pub golem_id: GolemId,
    /// Interval between two heartbeats.
    pub heartbeat: Duration,
    /// Lifespan in seconds; `None` for no limit.
    pub lifespan_seconds: Option<u64>,
    /// Brain that decides; without one, the Golem plays its scenario.
    pub brain: Option<Box<dyn Brain>>,
}

/// Progress of a scenario.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScenarioProgress {
    /// Start of the scenario on the clock's steady scale, in milliseconds; `None` before the start.
    pub begun: Option<u64>,
    /// Time for which the scenario stood still while a person decided, in milliseconds, without the present decision.
    pub held: u64,
    /// Start of the present decision during which it stands still, on the clock's steady scale, in milliseconds.
    pub held_since: Option<u64>,
    /// Number of steps played to their end.
    pub steps: usize,
    /// Number of steps skipped because their condition did not hold.
    pub skipped: usize,
    /// Outcomes of the named steps whose call has ended.
    pub outcomes: BTreeMap<String, PlayedStep>,
    /// Deviations from the expectations, one sentence each.
    pub missed: Vec<String>,
    /// Phases entered, in order.
    pub phases: Vec<Phase>,
    /// True once the Golem has played all steps or has died.
    pub done: bool,
    /// True once all external events were triggered.
    pub cued: bool,
    /// True once everything that the scenario started has ended too. Set only if time is the session's own.
    pub settled: bool,
}

impl ScenarioProgress {
    /// Notes that all steps were played, with these deviations.
    fn end(&mut self, missed: Vec<String>) {
        self.missed.extend(missed);
        self.done = true;
    }

    /// Time for which the scenario has stood still by `now`, in milliseconds.
    pub fn held_by(&self, now: u64) -> u64 {
        let present = self.held_since.map_or(0, |since| now.saturating_sub(since));
        self.held.saturating_add(present)
    }

    /// Stands still from `now` on, or goes on.
    pub(crate) fn hold(&mut self, stands: bool, now: u64) {
        self.held = self.held_by(now);
        self.held_since = stands.then_some(now);
    }
}

impl ScenarioProgress {
    /// True if nothing of the scenario is left to come.
    pub fn is_over(&self) -> bool {
        self.done && self.cued
    }
}

/// Event output shared by the three parts.
#[derive(Debug, Clone)]
pub(super) struct EventOutput {
    fabric: Fabric,
    golem_id: GolemId,
    shown: Arc<Mutex<Sprite>>,
    /// Most recently reported vitals.
    vitals: Arc<Mutex<Option<Vitals>>>,
}

impl EventOutput {
    /// Updates the sprite and reports its new state.
    fn react(&self, call: Option<CallId>, trigger: SpriteEvent) {
        let (from, to) = {
            let mut sprite = self.shown.lock();
            (sprite.state(), sprite.take(call, trigger))
        };
        if let Some(to) = to {
            self.emit(EventKind::SpriteChanged(SpriteChanged { from, to }));
        }
    }

    pub(super) fn emit(&self, kind: EventKind) {
        if let EventKind::Vitals(vitals) = &kind {
            *self.vitals.lock() = Some((**vitals).clone());
        }
        self.fabric.emit(&self.golem_id, None, kind);
    }

    /// Returns the most recently reported vitals.
    pub(super) fn vitals(&self) -> Option<Vitals> {
        self.vitals.lock().clone()
    }
}

/// Runs the Golem: plays `scenario` and the scenarios that follow it.
///
/// # Errors
/// An error without a wallet or with unreadable memory; `SAFETY_PHASE_BLOCKED` if the Golem has died earlier.
pub async fn live(config: LifeConfig, scenario: Scenario) -> Result<(), ToolError> {
    let memory = config.agent.memory().clone();
    let life = memory.life(&*config.clock).await?;
    let voice = EventOutput {
        fabric: config.fabric.clone(),
        golem_id: config.golem_id.clone(),
        shown: Arc::default(),
        vitals: Arc::default(),
    };
    config.agent.beats(life.born_at, config.heartbeat);
    let terms =
        LifeTerms { born_at: life.born_at, high_water: life.high_water, lifespan_seconds: config.lifespan_seconds };
    if life.died_at.is_some() {
        // Death is final: neither another phase nor another start reverses it.
        config.phase.send_replace(Phase::Terminal);
        return Err(dead(life.last_words));
    }
    let (rescuer, bell) = Rescuer::new(
        config.agent.clone(),
        Arc::clone(&config.world),
        voice.clone(),
        config.stop.clone(),
        config.leaving.clone(),
        Arc::clone(&config.clock),
    );
    let health_monitor = HealthMonitor {
        bell,
        was_low: false,
        gauge: VitalsMeter::new(Arc::clone(&config.world), terms)?,
        stored_high_water: life.high_water,
        machine: PhaseMachine::new(config.phases),
        phase: config.phase.clone(),
        clock: config.clock.clone(),
        voice: voice.clone(),
        memory,
        played: config.played.clone(),
        _attendance: config.clock.attend(),
    };
    let body = body(voice.clone(), config.fabric.subscribe(4_096), config.agent.clone(), config.clock.clone());
    let (agent, last_words) = (config.agent.clone(), voice.clone());
    let mut signals = AgentSignals {
        agent: config.agent,
        voice,
        stop: config.stop,
        leaving: config.leaving,
        words: config.words,
        phase: config.phase.subscribe(),
        thought: 0,
        budget: TextBudget::default(),
    };
    let brain = config.brain;
    let (mut scenarios, played, clock, attendance) =
        (config.scenarios, config.played.clone(), config.clock, config.attendance);
    if brain.is_some() {
        // A Golem with a brain plays no scenarios, so there are no external events for it.
        scenarios.close();
        played.send_modify(|played| played.cued = true);
    }
    let planner = async move {
        let (ended, scenario, under_way) = match brain {
            None => (None, scenario, operator::RunningCommands::none(&signals.voice)),
            Some(brain) => {
                let (missed, scenario, under_way) = led_by(brain, &mut signals).await;
                (Some(missed), scenario, under_way)
            }
        };
        let AgentSignals { agent, voice, stop, leaving, words, thought, phase: _, budget: _ } = signals;
        if let Some(missed) = ended {
            played.send_modify(|played| played.end(missed));
        }
        let (next, answers) = (None, BTreeMap::new());
        let all = agent.clone();
        let planner = Planner {
            agent,
            voice,
            stop,
            leaving,
            words,
            deferred: VecDeque::new(),
            scenarios,
            next,
            played,
            answers,
            clock,
            thought,
            _attendance: attendance,
        };
        play_out(planner.play(scenario), under_way, all).await;
    };
    tokio::select! {
        () = planner => {}
        () = health_monitor.beat(config.heartbeat) => {
            agent.withdraw_offers().await;
            last_words.react(None, SpriteEvent::Dies);
        }
        () = body => {}
        () = rescuer.follow() => {}
    }
    config.played.send_modify(|played| played.done = true);
    Ok(())
}

/// Plays to the end, and reports the ends of the operator's commands meanwhile. Commands that are still running
/// afterwards get a moment.
async fn play_out(play: impl Future<Output = ()>, mut under_way: operator::RunningCommands, agent: AgentSession) {
    let mut play = std::pin::pin!(play);
    tokio::select! {
        () = &mut play => {
            if timeout(SETTLING, under_way.report_ends()).await.is_err() {
                // Commits that are still being signed continue by themselves.
                agent.withdraw_offers().await;
            }
        }
        () = under_way.report_ends() => play.await,
    }
}

/// The error of a Golem that has died before, with its last entry.
fn dead(last_words: Option<SafeText>) -> ToolError {
    let words = last_words.unwrap_or_default();
    ToolError::new(ErrorCode::SafetyPhaseBlocked, format_args!("this Golem has died. Its last entry: {words}"))
}

/// Lets a brain decide until it ends, beside the operator's words. Returns what went wrong, the scenario after it, and
/// what the operator asked for that is not done yet.
async fn led_by(
    brain: Box<dyn Brain>,
    signals: &mut AgentSignals,
) -> (Vec<String>, Scenario, operator::RunningCommands) {
    let (passed_on, unheard) = mpsc::channel(PASSED_ON);
    let words = std::mem::replace(&mut signals.words, unheard);
    let mut inbox = operator::OperatorInbox::of(words, &signals.agent, &signals.voice);
    let BrainEnd { well, why } = tokio::select! {
        end = brain.live(signals) => end,
        never = inbox.receive(passed_on) => match never {},
    };
    let (words, under_way) = inbox.end();
    signals.words = words;
    // All of the brain's open offers are withdrawn. The operator's messages and running commands continue.
    signals.agent.withdraw_own().await;
    let words =
        format!("My brain has stopped: {}. You can still give me commands.", why.as_str().trim_end_matches('.'));
    // Report this before the run is marked as over: observers may leave at once.
    signals.thought += 1;
    let (thought, text) = (signals.thought, SafeText::clean(&words, LAST_WORD));
    signals.voice.emit(EventKind::GolemThought(GolemThought { thought, text, more: false, report: false }));
    let missed = if well { Vec::new() } else { vec![format!("the brain has stopped: {why}")] };
    (missed, Scenario { steps: Vec::new(), ..Scenario::quiet(&words) }, under_way)
}

/// Health monitor: measures the vitals and sets the phase.
struct HealthMonitor {
    bell: RescueBell,
    /// True if a health factor was too low at the last heartbeat.
    was_low: bool,
    gauge: VitalsMeter,
    /// High-water mark stored in memory.
    stored_high_water: Option<Usd>,
    machine: PhaseMachine,
    phase: watch::Sender<Phase>,
    clock: Arc<dyn Clock>,
    voice: EventOutput,
    memory: Memory,
    played: watch::Sender<ScenarioProgress>,
    _attendance: ClockParticipation,
}

impl HealthMonitor {
    /// Runs a heartbeat at each interval until death.
    async fn beat(mut self, every: Duration) {
        let every = millis(every);
        let mut due = self.clock.steady_millis();
        loop {
            until(&*self.clock, due).await;
            due = next_beat(due, every, self.clock.steady_millis());
            let now = self.clock.now_millis();
            if self.stored_high_water.is_some()
                && self.memory.life(&*self.clock).await.is_ok_and(|life| life.high_water.is_none())
            {
                // Another process has reset the high-water mark at the operator's request.
                self.gauge.forget_high_water();
                self.stored_high_water = None;
            }
            let (reading, worth) = self.gauge.read(now).await;
            if let Some(high) = self.gauge.high_water().filter(|high| self.stored_high_water != Some(*high)) {
                match self.memory.set_high_water(high, self.stored_high_water.is_some()).await {
                    Ok(true) => self.stored_high_water = Some(high),
                    // The mark was reset after the check above.
                    Ok(false) => {
                        self.gauge.forget_high_water();
                        self.stored_high_water = None;
                    }
                    // A mark that could not be stored is stored at a later heartbeat, or measured again.
                    Err(_) => {}
                }
            }
            let change = self.machine.observe(&reading, now);
            if let Some(change) = change {
                self.phase.send_replace(change.to);
                let why = SafeText::clean(&change.why, 200);
                self.played.send_modify(|played| played.phases.push(change.to));
                self.voice.emit(EventKind::PhaseChanged(PhaseChanged { from: change.from, to: change.to, why }));
            }
            self.voice.emit(EventKind::Vitals(Box::new(self.gauge.to_event(&self.machine, &reading, &worth))));
            let (markets, least) = (worth.lending, self.gauge.least_health());
            let is_low = rescue::is_low(&markets, least);
            // Also once when all are well again, so that the next fall is a new one.
            if (is_low || std::mem::replace(&mut self.was_low, is_low)) && self.machine.phase() != Phase::Terminal {
                self.was_low = is_low;
                self.bell.ring(LowHealth { markets, least, attendance: self.clock.attend() });
            }
            if self.machine.phase() == Phase::Terminal {
                let words = SafeText::clean(&format!("I end here: {}.", self.machine.why()), 300);
                if let Err(error) = self.memory.die(words, now).await {
                    tracing::warn!(%error, "cannot store the last entry");
                }
                return;
            }
        }
    }
}

/// Converts a duration to milliseconds.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the next due time after `due`. It is a multiple of the interval from there, so that delays do not add up;
/// missed heartbeats are skipped.
fn next_beat(due: u64, every: u64, now: u64) -> u64 {
    let missed = now.saturating_sub(due).checked_div(every).unwrap_or(0);
    due.saturating_add(every.saturating_mul(missed.saturating_add(1)))
}

/// Waits until a time on the clock's steady scale.
async fn until(clock: &dyn Clock, due: u64) {
    while let Some(left) = due.checked_sub(clock.steady_millis()).filter(|left| *left > 0) {
        clock.pause(Duration::from_millis(left)).await;
    }
}

/// Animates the sprite until the event stream ends.
async fn body(voice: EventOutput, mut events: Receiver, agent: AgentSession, clock: Arc<dyn Clock>) {
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
                    let sprite_of = |tool: &str| agent.catalog().get(tool).map(|entry| entry.def.meta.sprite_trigger);
                    if let Some(trigger) = SpriteEvent::of(&event.kind, sprite_of) {
                        voice.react(event.call_id, trigger);
                        rests = rest();
                    }
                }
            }
            None => {
                voice.react(None, SpriteEvent::Rests);
                rests = rest();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::next_beat;

    #[test]
    fn heartbeats_keep_their_interval_and_missed_ones_are_not_repeated() {
        // On time, and a little late.
        assert_eq!([next_beat(100, 20, 100), next_beat(100, 20, 119)], [120, 120]);
        // Late by one heartbeat, by several, and after the machine slept.
        assert_eq!(
            [next_beat(100, 20, 120), next_beat(100, 20, 145), next_beat(100, 20, 1_000_010)],
            [140, 160, 1_000_020]
        );
        // A clock that went backwards does not prolong the wait.
        assert_eq!([next_beat(100, 20, 90), next_beat(u64::MAX, 20, 5), next_beat(100, 0, 200)], [120, u64::MAX, 100]);
    }
}
