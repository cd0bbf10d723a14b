//! A life: a heart that takes the measure of it and moves the phase, a body that follows what happens, and a mind that
//! plays a scenario through the eight tools. It ends with the phase Terminal, or when it is told to leave.

mod mind;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use mind::Mind;

use super::brain::{Brain, Breath, End, Nerves, operator};
use super::memory::Memory;
use super::phase::{PhaseMachine, PhaseRules};
use super::pi::PiSession;
use super::scenario::Scenario;
use super::sprite::{Sprite, Trigger};
use super::vitals::{Gauge, Terms};
use bardo_base::clock::{Attendance, Clock};
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::fabric::{EventKind, Fabric, GolemThought, PhaseChanged, Receiver, SpriteChanged, Vitals};
use bardo_base::id::{CallId, GolemId};
use bardo_base::model::{Phase, StopLevel};
use bardo_base::text::SafeText;
use bardo_base::units::Usd;
use golem_tools::engine::World;

/// How long success and failure show on the body.
const MOMENT: Duration = Duration::from_secs(3);

/// Characters of the sentence that says why a brain has gone.
const LAST_WORD: usize = 300;

/// Words that may wait for a brain.
const PASSED_ON: usize = 16;

/// What the operator's commands may take to come to their end when it leaves.
const SETTLING: Duration = Duration::from_secs(20);

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
    /// Beats that were left out because their condition did not hold.
    pub skipped: usize,
    /// What was not as expected, a line each.
    pub missed: Vec<String>,
    /// The phases that were entered, in order.
    pub phases: Vec<Phase>,
    /// Whether the Golem has played all its beats, or has died.
    pub done: bool,
    /// Whether all cues were given.
    pub cued: bool,
    /// Whether what the show has set going has come to its end as well. Told where time is the session's own.
    pub settled: bool,
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
        shown: Arc::default(),
        vitals: Arc::default(),
    };
    config.pi.beats(life.born_at, config.heartbeat);
    let terms = Terms { born_at: life.born_at, high_water: life.high_water, lifespan_seconds: config.lifespan_seconds };
    if life.died_at.is_some() {
        // There is no way back: not by another phase, and not by another start.
        config.phase.send_replace(Phase::Terminal);
        let words = life.last_words.unwrap_or_default();
        return Err(ToolError::new(
            ErrorCode::SafetyPhaseBlocked,
            format_args!("this Golem has died. Its last entry: {words}"),
        ));
    }
    let heart = Heart {
        gauge: Gauge::new(Arc::clone(&config.world), terms)?,
        kept: life.high_water,
        machine: PhaseMachine::new(config.phases),
        phase: config.phase.clone(),
        clock: config.clock.clone(),
        voice: voice.clone(),
        memory,
        played: config.played.clone(),
        _attendance: config.clock.attend(),
    };
    let body = body(voice.clone(), config.fabric.subscribe(4_096), config.pi.clone(), config.clock.clone());
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
        let (ended, scenario, mut under_way) = match brain {
            None => (None, scenario, operator::UnderWay::none(&nerves.voice)),
            Some(brain) => {
                let (passed_on, unheard) = mpsc::channel(PASSED_ON);
                let words = std::mem::replace(&mut nerves.words, unheard);
                let mut hearing = operator::Hearing::of(words, &nerves.pi, &nerves.voice);
                let End { well, why } = tokio::select! {
                    end = brain.live(&mut nerves) => end,
                    never = hearing.hear(passed_on) => match never {},
                };
                let (words, under_way) = hearing.end();
                nerves.words = words;
                // Whatever it had open is taken back. The operator is heard as before, and what they asked for goes on.
                nerves.pi.take_back_own().await;
                let words = format!("My brain has stopped: {why}. I still listen to you.");
                // Said before anybody can see that it is over: whoever waits for that may leave at once.
                nerves.thought += 1;
                let (thought, text) = (nerves.thought, SafeText::clean(&words, LAST_WORD));
                nerves.voice.say(EventKind::GolemThought(GolemThought { thought, text, more: false }));
                let missed = if well { Vec::new() } else { vec![words.clone()] };
                (Some(missed), Scenario { beats: Vec::new(), ..Scenario::quiet(&words) }, under_way)
            }
        };
        let Nerves { pi, voice, stop, leaving, words, thought, phase: _, breath: _ } = nerves;
        if let Some(missed) = ended {
            played.send_modify(|played| {
                played.missed.extend(missed);
                played.done = true;
            });
        }
        let (next, answers, came) = (None, BTreeMap::new(), BTreeMap::new());
        let all = pi.clone();
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
            came,
            clock,
            thought,
            _attendance: attendance,
        };
        let mut play = std::pin::pin!(mind.play(scenario));
        tokio::select! {
            () = &mut play => {
                if timeout(SETTLING, under_way.tell()).await.is_err() {
                    // What is still being signed goes on by itself.
                    all.take_back_all().await;
                }
            }
            () = under_way.tell() => play.await,
        }
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
    /// The high-water mark that its memory has.
    kept: Option<Usd>,
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
            due = next_beat(due, every, self.clock.steady_millis());
            let now = self.clock.now_millis();
            if self.kept.is_some() && self.memory.life(&*self.clock).await.is_ok_and(|life| life.high_water.is_none()) {
                // Another program has forgotten it, by the operator's word.
                self.gauge.forget_high_water();
                self.kept = None;
            }
            let (reading, worth) = self.gauge.read(now).await;
            if let Some(high) = self.gauge.high_water().filter(|high| self.kept != Some(*high)) {
                match self.memory.set_high_water(high, self.kept.is_some()).await {
                    Ok(true) => self.kept = Some(high),
                    // Forgotten since it was looked at.
                    Ok(false) => {
                        self.gauge.forget_high_water();
                        self.kept = None;
                    }
                    // A mark that is not kept is kept at a later beat, or found again from what is held.
                    Err(_) => {}
                }
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
                    tracing::warn!(%error, "cannot store the last entry");
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

/// When the next beat is due, after one that was due at `due`: counted from there, so that delays do not add up, but none
/// that was missed is made up for.
fn next_beat(due: u64, every: u64, now: u64) -> u64 {
    let missed = now.saturating_sub(due).checked_div(every).unwrap_or(0);
    due.saturating_add(every.saturating_mul(missed.saturating_add(1)))
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

#[cfg(test)]
mod tests {
    use super::next_beat;

    #[test]
    fn a_heart_keeps_its_measure_and_makes_up_for_nothing() {
        // In time, and a little late.
        assert_eq!([next_beat(100, 20, 100), next_beat(100, 20, 119)], [120, 120]);
        // Late by one beat, by many, and by a machine that slept.
        assert_eq!(
            [next_beat(100, 20, 120), next_beat(100, 20, 145), next_beat(100, 20, 1_000_010)],
            [140, 160, 1_000_020]
        );
        // A clock that went back waits for no longer than was said.
        assert_eq!([next_beat(100, 20, 90), next_beat(u64::MAX, 20, 5), next_beat(100, 0, 200)], [120, u64::MAX, 100]);
    }
}
