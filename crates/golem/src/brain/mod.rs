//! Who decides in a Golem, behind one seam. A brain has the eight tools, a voice and ears, and nothing else: whatever it
//! is, and whatever it has read, all it does goes through the same pipeline.
//!
//! | room | holds |
//! |---|---|
//! | `model` | a language model behind a chat endpoint |
//! | `operator` | the operator's plain commands for the eight tools |
//! | `process` | a child program that speaks JSON lines |
//!
//! Not here: scenarios (see [`super::life`]), and what a tool does (see [`super::pi`]).

pub mod model;
pub mod operator;
pub mod process;

use std::fmt;
use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use model::{ModelBrain, ModelSetup, Style};
use process::confinement::launch::refusal;
use process::confinement::{self, Confinement};
use process::{CommandLine, ProcessBrain, ProcessLimits};

use super::life::Voice;
use super::pi::{ActionKind, PiSession};
use bardo_base::config::{Config, DEFAULT_BRAIN, GolemSettings, Setting};
use bardo_base::fabric::{EventKind, GolemNow, GolemThought, Vitals};
use bardo_base::model::{ActionClass, Phase, StopLevel};
use bardo_base::text::SafeText;
use bardo_safety::checks::phase_gate::allows;
use golem_chain::network::Plan;
use golem_tools::engine::ToolResponse;

/// Characters of one piece of a thought.
const PIECE: usize = 1_000;
/// Characters of what it does now, and will do next.
const SENTENCE: usize = 200;
/// Bytes of words that a brain may have told in a minute: some 180 MB a day, where it says as much as it can.
const WORDS_A_MINUTE: usize = 128 << 10;
const MINUTE: Duration = Duration::from_secs(60);
/// What an event takes beside its words.
const BESIDE: usize = 300;
/// Wait before a model is asked again the first time.
const BACKOFF: Duration = Duration::from_secs(1);
/// From asking a model to the end of its answer, however well it flows.
const LONGEST_ANSWER: Duration = Duration::from_secs(300);
/// How often it looks whether a stop was lifted.
const LOOK: Duration = Duration::from_millis(250);

/// Decides.
pub trait Brain: Send + fmt::Debug {
    /// Lives until it is done, is told to leave or can go on no longer. Dropped, it leaves nothing running behind.
    fn live<'a>(self: Box<Self>, nerves: &'a mut Nerves) -> BoxFuture<'a, End>;
}

/// How a brain ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// Whether it ended as it should: by its own word, or because it was told to leave.
    pub well: bool,
    /// Why.
    pub why: SafeText,
}

/// Which brain is wanted.
#[derive(Debug)]
pub enum Choice {
    /// None of its own: the Golem plays its scenario, and hears the operator.
    Scenario,
    /// The operator alone, in plain words: it plays nothing by itself.
    Operator,
    /// A program.
    Process(CommandLine, ProcessLimits, Confinement),
    /// A model.
    Model(Box<ModelBrain>),
}

/// Why there is no such brain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BrainError {
    /// No brain is called so.
    #[error("golem.brain ({origin}): no brain is named `{name}`; use scenario, operator, process:COMMAND or model")]
    Unknown {
        /// What was asked for.
        name: SafeText,
        /// Who asked.
        origin: String,
    },
    /// The command cannot be used.
    #[error("golem.brain ({origin}): {what}; use process:COMMAND, such as process:python3 examples/golem.py")]
    Command {
        /// What is wrong.
        what: &'static str,
        /// Who asked.
        origin: String,
    },
    /// The system cannot isolate a program, and the network is real.
    #[error("golem.brain ({origin}): {why}")]
    Unisolated {
        /// What is missing, and what to do.
        why: String,
        /// Who asked.
        origin: String,
    },
    /// The model cannot be asked.
    #[error("golem.brain is model: {0}")]
    Model(String),
}

impl Choice {
    /// What the settings ask for.
    ///
    /// # Errors
    /// [`BrainError`], which names where the setting comes from.
    pub fn of(config: &Config) -> Result<Self, BrainError> {
        let settings = &config.golem;
        let asked = settings.brain.value.trim();
        let origin = || settings.brain.origin.to_string();
        let seconds = |setting: &Setting<u64>| Duration::from_secs(setting.value);
        match asked.split_once(':') {
            None if asked == DEFAULT_BRAIN => Ok(Self::Scenario),
            None if asked == "operator" => Ok(Self::Operator),
            Some(("process", command)) => {
                let line =
                    CommandLine::parse(command).map_err(|what| BrainError::Command { what, origin: origin() })?;
                let (tick, patience) = (seconds(&settings.tick_seconds), seconds(&settings.patience_seconds));
                let limits = ProcessLimits { tick, patience, calls: settings.calls.value, ticks: None };
                let confinement = confinement(config);
                let available = confinement::available();
                if !available.is_isolated() && !confinement.allow_unisolated {
                    return Err(BrainError::Unisolated { why: refusal(&available), origin: origin() });
                }
                Ok(Self::Process(line, limits, confinement))
            }
            None if asked == "model" => model(settings).map(|brain| Self::Model(Box::new(brain))),
            _ => Err(BrainError::Unknown { name: SafeText::clean(asked, 80), origin: origin() }),
        }
    }

    /// The model that the settings name, whether it is the brain or not; `None` where they name no endpoint.
    ///
    /// # Errors
    /// [`BrainError::Model`].
    pub fn model(settings: &GolemSettings) -> Result<Option<ModelBrain>, BrainError> {
        settings.model_url.as_ref().map(|_| model(settings)).transpose()
    }

    /// Whether the settings name a program of its own, which runs as the operator's user.
    pub fn is_program(settings: &GolemSettings) -> bool {
        settings.brain.value.trim().starts_with("process:")
    }

    /// The same, where a brain is asked at most so often what it wants.
    #[must_use]
    pub fn asked_at_most(self, ticks: Option<u64>) -> Self {
        match self {
            Self::Process(line, limits, confinement) => {
                Self::Process(line, ProcessLimits { ticks, ..limits }, confinement)
            }
            Self::Model(brain) => Self::Model(Box::new(brain.asked_at_most(ticks))),
            other @ (Self::Scenario | Self::Operator) => other,
        }
    }

    /// The brain; none where a scenario is played, or the operator leads.
    pub fn make(self) -> Option<Box<dyn Brain>> {
        match self {
            Self::Scenario | Self::Operator => None,
            Self::Process(line, limits, confinement) => Some(Box::new(ProcessBrain::new(line, limits, confinement))),
            Self::Model(brain) => Some(brain),
        }
    }
}

/// What a brain process may reach. On the embedded devnet no money is at risk, so that it may run unisolated.
fn confinement(config: &Config) -> Confinement {
    let settings = &config.golem;
    let folders = config.file.parent().into_iter().chain([config.data_dir.value.as_path()]);
    Confinement {
        read: settings.read.value.clone(),
        write: settings.write.value.clone(),
        environment: settings.environment.value.clone(),
        network: settings.network.value,
        allow_unisolated: settings.allow_unisolated_brain.value
            || matches!(Plan::from_config(config), Ok(Plan::Devnet)),
        ..Confinement::protecting(folders)
    }
}

fn model(settings: &GolemSettings) -> Result<ModelBrain, BrainError> {
    let lacks = |what: &str| BrainError::Model(format!("set golem.{what} in the configuration file"));
    let (Some(url), Some(name)) = (&settings.model_url, &settings.model_name) else {
        return Err(lacks(if settings.model_url.is_none() { "model_url" } else { "model_name" }));
    };
    let setup = ModelSetup {
        url: url.value.clone(),
        style: Style::named(&settings.model_style.value),
        name: name.value.clone(),
        key: settings.model_key.as_ref().map(|key| key.value.clone()),
        tick: Duration::from_secs(settings.tick_seconds.value),
        patience: Duration::from_secs(settings.patience_seconds.value),
        longest: LONGEST_ANSWER,
        backoff: BACKOFF,
        calls: settings.calls.value,
        tokens: settings.model_tokens.value,
        reply_tokens: settings.model_reply_tokens.value,
        ticks: None,
    };
    ModelBrain::new(setup).map_err(BrainError::Model)
}

/// What a brain has of its Golem: eight tools, a voice, ears, and what holds it back.
#[derive(Debug)]
pub struct Nerves {
    pub(super) pi: PiSession,
    pub(super) voice: Voice,
    pub(super) stop: watch::Receiver<Option<StopLevel>>,
    pub(super) leaving: watch::Receiver<bool>,
    pub(super) words: mpsc::Receiver<SafeText>,
    pub(super) phase: watch::Receiver<Phase>,
    pub(super) thought: u64,
    pub(super) breath: Breath,
}

/// How much a brain may still say. Everything that is said is kept, on the disk that the ledger lies on.
#[derive(Debug, Default)]
pub struct Breath {
    /// Since when, and what has been said since.
    spent: Mutex<Option<(Instant, usize)>>,
}

/// What becomes of words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Breathes {
    Says,
    /// These are not said, and the next neither: time to say so.
    Stops,
    Silent,
}

impl Breath {
    fn take(&self, words: usize) -> Breathes {
        // Nothing panics while it holds this lock.
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let (since, before) = match *spent {
            Some((since, before)) if now.duration_since(since) < MINUTE => (since, before),
            _ => (now, 0),
        };
        let after = before.saturating_add(words).saturating_add(BESIDE);
        *spent = Some((since, after));
        match (before > WORDS_A_MINUTE, after > WORDS_A_MINUTE) {
            (false, false) => Breathes::Says,
            (false, true) => Breathes::Stops,
            (true, _) => Breathes::Silent,
        }
    }
}

/// Why a brain is woken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wake {
    /// It is to leave.
    Leave,
    /// The operator says something.
    Words(SafeText),
    /// What it waited for is due.
    Due,
}

impl Nerves {
    /// The eight tools.
    pub fn pi(&self) -> &PiSession {
        &self.pi
    }

    /// Calls one of the eight. The call lives by itself and can be awaited beside others.
    pub fn call(&self, tool: String, params: Value) -> impl Future<Output = ToolResponse> + Send + 'static {
        let pi = self.pi.clone();
        async move { pi.call(&tool, params).await }
    }

    /// The Golem's phase.
    pub fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// How the Golem is doing, as last told.
    pub fn vitals(&self) -> Option<Vitals> {
        self.voice.vitals()
    }

    /// Where things stand, for whoever decides what to do next: phase and what it allows, stop, open offers, vitals.
    pub fn context(&self) -> Value {
        let phase = *self.phase.borrow();
        let stop = *self.stop.borrow();
        json!({
            "phase": phase, "allowed": allowed(phase), "stop": stop, "open_offers": self.pi.offers(),
            "vitals": self.vitals(),
        })
    }

    /// Begins a thought, or says a whole one. A piece is whole words.
    pub fn think(&mut self, text: &str, more: bool) {
        self.thought += 1;
        self.think_on(text, more);
    }

    /// The next piece of the same thought.
    pub fn think_on(&self, text: &str, more: bool) {
        let said = SafeText::clean(text, PIECE);
        let text = match self.breath.take(said.as_str().len()) {
            Breathes::Says => said,
            Breathes::Stops => SafeText::clean("… (too much output: the rest of this minute is dropped)", PIECE),
            Breathes::Silent => return,
        };
        self.voice.say(EventKind::GolemThought(GolemThought { thought: self.thought, text, more }));
    }

    /// Says what it does now and will do next, and which step of how many that is where it knows.
    pub fn now(&self, now: &str, next: &str, step: Option<(u32, u32)>, kind: Option<&ActionKind>) {
        let delegation = kind.map(|kind| self.pi.delegation(kind.acts)).unwrap_or_default();
        let (now, next) = (SafeText::clean(now, SENTENCE), SafeText::clean(next, SENTENCE));
        if self.breath.take(now.as_str().len() + next.as_str().len()) != Breathes::Says {
            return;
        }
        self.voice.say(EventKind::GolemNow(GolemNow { now, next, step, delegation }));
    }

    /// Whether the operator wants nothing new begun.
    pub fn held(&self) -> bool {
        matches!(*self.stop.borrow(), Some(StopLevel::Pause | StopLevel::Halt | StopLevel::Revoke))
    }

    /// Waits until `due`, for the operator's words, or to be told to leave. While it is held nothing is due.
    pub async fn wake(&mut self, due: Instant) -> Wake {
        loop {
            if *self.leaving.borrow() {
                return Wake::Leave;
            }
            let now = Instant::now();
            if now >= due && !self.held() {
                return Wake::Due;
            }
            let until = if now >= due { now + LOOK } else { due };
            tokio::select! {
                () = sleep_until(until) => {}
                changed = self.leaving.changed() => if changed.is_err() { return Wake::Leave },
                said = self.words.recv() => match said {
                    Some(said) => return Wake::Words(said),
                    // Nobody can say anything any more; what is due is still due.
                    None => sleep_until(until).await,
                },
            }
        }
    }
}

/// The tool whose calls go on to their end once something is being signed.
pub(super) const COMMIT: &str = "commit_action";

/// The classes of action that a phase allows at all; the phase gate holds that, and the policy's figures, in any case.
fn allowed(phase: Phase) -> Vec<&'static str> {
    ActionClass::ALL.iter().filter(|class| allows(phase, **class)).map(|class| class.as_str()).collect()
}
