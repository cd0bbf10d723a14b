//! Brains: the decision makers of a Golem, behind one trait. A brain has the eight tools, an output for its
//! thoughts, and the operator's messages, and nothing else. Whatever it decides goes through the same safety pipeline.
//!
//! | module | holds |
//! |---|---|
//! | `model` | a language model behind a chat endpoint |
//! | `operator` | the operator's plain commands for the eight tools |
//! | `process` | a child process that speaks JSON lines |
//!
//! Not here: scenarios (see [`super::life`]), and the effects of a tool (see [`super::agent_api`]).

pub mod model;
pub mod operator;
pub mod process;

use std::fmt;
use std::future::Future;
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use model::{ApiStyle, ModelBrain, ModelError, ModelSetup};
use process::confinement::NotIsolated;
use process::confinement::{self, Confinement};
use process::{CommandLine, ProcessBrain, ProcessLimits};

use super::agent_api::{ActionKind, AgentSession};
use super::life::EventOutput;
use bardo_base::config::{Config, DEFAULT_BRAIN, GolemSettings, Setting};
use bardo_base::fabric::{EventKind, GolemState, GolemThought, Vitals};
use bardo_base::model::{ActionClass, Phase, StopLevel};
use bardo_base::text::SafeText;
use bardo_safety::checks::phase_gate::allows;
use golem_chain::network::NetworkPlan;
use golem_tools::engine::ToolResponse;

/// Maximum length of one piece of a thought, in characters.
const PIECE: usize = 1_000;
/// Maximum length of the current and the next activity, in characters.
const SENTENCE: usize = 200;
/// Limit for a brain's recorded text per minute, in bytes. At the limit, that is about 180 MB a day.
const WORDS_A_MINUTE: usize = 128 << 10;
const MINUTE: Duration = Duration::from_secs(60);
/// Overhead of an event beside its text, in bytes.
const BESIDE: usize = 300;
/// Delay before a model request is repeated the first time.
const BACKOFF: Duration = Duration::from_secs(1);
/// Timeout for a model's whole answer, even if it keeps streaming.
const LONGEST_ANSWER: Duration = Duration::from_secs(300);
/// Poll interval for the end of a stop.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Decision maker of a Golem.
pub trait Brain: Send + fmt::Debug {
    /// Runs until the brain is done, is asked to leave, or can no longer continue. Dropping the future leaves nothing
    /// running.
    fn live<'a>(self: Box<Self>, signals: &'a mut AgentSignals) -> BoxFuture<'a, BrainEnd>;
}

/// End of a brain's run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrainEnd {
    /// True if it ended regularly: by its own decision, or because it was asked to leave.
    pub well: bool,
    /// Reason for the end.
    pub why: SafeText,
}

/// Brain selected by the settings.
#[derive(Debug)]
pub enum BrainChoice {
    /// No brain: the Golem plays its scenario and listens to the operator.
    Scenario,
    /// Only the operator, with plain commands; no scenario is played.
    Operator,
    /// External program, as a confined child process.
    Process(CommandLine, ProcessLimits, Confinement),
    /// Language model behind a chat endpoint.
    Model(Box<ModelBrain>),
}

/// Error in the brain settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BrainError {
    /// Unknown kind of brain.
    #[error("golem.brain ({origin}): no brain is named `{name}`; use scenario, operator, process:COMMAND or model")]
    Unknown {
        /// Configured value, with control characters removed.
        name: SafeText,
        /// Origin of the setting.
        origin: String,
    },
    /// Unusable command line.
    #[error("golem.brain ({origin}): {what}; use process:COMMAND, such as process:python3 examples/golem.py")]
    Command {
        /// Description of the problem.
        what: &'static str,
        /// Origin of the setting.
        origin: String,
    },
    /// Missing process isolation on a real network.
    #[error("golem.brain ({origin}): {why}")]
    Unisolated {
        /// Missing measures and the remedy.
        why: NotIsolated,
        /// Origin of the setting.
        origin: String,
    },
    /// Unusable model settings, with the reason.
    #[error("golem.brain is model: {0}")]
    Model(ModelError),
}

impl BrainChoice {
    /// Reads the brain from the settings.
    ///
    /// # Errors
    /// Returns a [`BrainError`] that names the origin of the setting.
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
                    return Err(BrainError::Unisolated { why: NotIsolated(available), origin: origin() });
                }
                Ok(Self::Process(line, limits, confinement))
            }
            None if asked == "model" => model(settings).map(|brain| Self::Model(Box::new(brain))),
            _ => Err(BrainError::Unknown { name: SafeText::clean(asked, 80), origin: origin() }),
        }
    }

    /// Returns the configured model, whether or not it is the brain; `None` without a configured endpoint.
    ///
    /// # Errors
    /// [`BrainError::Model`] if the model settings are incomplete or unusable.
    pub fn model(settings: &GolemSettings) -> Result<Option<ModelBrain>, BrainError> {
        settings.model_url.as_ref().map(|_| model(settings)).transpose()
    }

    /// True if the settings select an external program, which runs as the operator's user.
    pub fn is_program(settings: &GolemSettings) -> bool {
        settings.brain.value.trim().starts_with("process:")
    }

    /// Limits the number of ticks of a process or a model; `None` removes the limit.
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

    /// Creates the brain; `None` for a scenario or the operator.
    pub fn make(self) -> Option<Box<dyn Brain>> {
        match self {
            Self::Scenario | Self::Operator => None,
            Self::Process(line, limits, confinement) => Some(Box::new(ProcessBrain::new(line, limits, confinement))),
            Self::Model(brain) => Some(brain),
        }
    }
}

/// Builds the access rules of a brain process. On the embedded devnet no money is at risk, so the process may run
/// without isolation.
fn confinement(config: &Config) -> Confinement {
    let settings = &config.golem;
    let folders = config.file.parent().into_iter().chain([config.data_dir.value.as_path()]);
    let protected = folders.chain(config.alerts.secret_files());
    Confinement {
        read: settings.read.value.clone(),
        write: settings.write.value.clone(),
        environment: settings.environment.value.clone(),
        network: settings.network.value,
        allow_unisolated: settings.allow_unisolated_brain.value
            || matches!(NetworkPlan::from_config(config), Ok(NetworkPlan::Devnet)),
        ..Confinement::protecting(protected)
    }
}

fn model(settings: &GolemSettings) -> Result<ModelBrain, BrainError> {
    let lacks = |what| BrainError::Model(ModelError::Unset(what));
    let (Some(url), Some(name)) = (&settings.model_url, &settings.model_name) else {
        return Err(lacks(if settings.model_url.is_none() { "model_url" } else { "model_name" }));
    };
    let setup = ModelSetup {
        url: url.value.clone(),
        style: ApiStyle::named(&settings.model_style.value),
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

/// Interface of a brain to its Golem: the eight tools, events, the operator's messages, and the controls that stop it.
#[derive(Debug)]
pub struct AgentSignals {
    pub(super) agent: AgentSession,
    pub(super) voice: EventOutput,
    pub(super) stop: watch::Receiver<Option<StopLevel>>,
    pub(super) leaving: watch::Receiver<bool>,
    pub(super) words: mpsc::Receiver<SafeText>,
    pub(super) phase: watch::Receiver<Phase>,
    pub(super) thought: u64,
    pub(super) budget: TextBudget,
}

/// Rate limit for a brain's text. All of it is stored on the same disk as the ledger.
#[derive(Debug, Default)]
pub struct TextBudget {
    /// Start of the current minute, and the bytes recorded since.
    spent: Mutex<Option<(Instant, usize)>>,
}

/// Decision of the rate limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BudgetDecision {
    Says,
    /// This text exceeds the limit and is dropped; the caller reports that once.
    Stops,
    Silent,
}

impl TextBudget {
    fn take(&self, words: usize) -> BudgetDecision {
        let mut spent = self.spent.lock();
        let now = Instant::now();
        let (since, before) = match *spent {
            Some((since, before)) if now.duration_since(since) < MINUTE => (since, before),
            _ => (now, 0),
        };
        let after = before.saturating_add(words).saturating_add(BESIDE);
        *spent = Some((since, after));
        match (before > WORDS_A_MINUTE, after > WORDS_A_MINUTE) {
            (false, false) => BudgetDecision::Says,
            (false, true) => BudgetDecision::Stops,
            (true, _) => BudgetDecision::Silent,
        }
    }
}

/// Reason for waking a brain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WakeReason {
    /// The brain must leave.
    Leave,
    /// The operator sent a message.
    Words(SafeText),
    /// The awaited time has come.
    Due,
}

impl AgentSignals {
    /// Returns the eight tools.
    pub fn agent(&self) -> &AgentSession {
        &self.agent
    }

    /// Calls one of the eight tools. The future owns its call and can run beside others.
    pub fn call(&self, tool: String, params: Value) -> impl Future<Output = ToolResponse> + Send + 'static {
        let agent = self.agent.clone();
        async move { agent.call(&tool, params).await }
    }

    /// Current phase of the Golem.
    pub fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Most recently reported vitals; `None` before the first report.
    pub fn vitals(&self) -> Option<Vitals> {
        self.voice.vitals()
    }

    /// Returns the situation as JSON, as a basis for the next decision: phase and allowed action classes, stop, open
    /// offers, vitals.
    pub fn context(&self) -> Value {
        let phase = *self.phase.borrow();
        let stop = *self.stop.borrow();
        json!({
            "phase": phase, "allowed": allowed(phase), "stop": stop, "open_offers": self.agent.offers(),
            "vitals": self.vitals(),
        })
    }

    /// Starts a new thought, or reports a whole one if `more` is false. A piece must contain whole words.
    pub fn think(&mut self, text: &str, more: bool) {
        self.thought += 1;
        self.think_on(text, more);
    }

    /// Reports the next piece of the current thought.
    pub fn think_on(&self, text: &str, more: bool) {
        let said = SafeText::clean(text, PIECE);
        let text = match self.budget.take(said.as_str().len()) {
            BudgetDecision::Says => said,
            BudgetDecision::Stops => SafeText::clean("… (too much output: the rest of this minute is dropped)", PIECE),
            BudgetDecision::Silent => return,
        };
        self.voice.emit(EventKind::GolemThought(GolemThought { thought: self.thought, text, more, report: false }));
    }

    /// Reports the current and the next activity. `step` is the current step and their total number, if known.
    pub fn now(&self, now: &str, next: &str, step: Option<(u32, u32)>, kind: Option<&ActionKind>) {
        let delegation = kind.map(|kind| self.agent.delegation(kind.acts)).unwrap_or_default();
        let (now, next) = (SafeText::clean(now, SENTENCE), SafeText::clean(next, SENTENCE));
        if self.budget.take(now.as_str().len() + next.as_str().len()) != BudgetDecision::Says {
            return;
        }
        self.voice.emit(EventKind::GolemNow(GolemState { now, next, step, delegation }));
    }

    /// True if a stop in force (pause, halt or revoke) forbids new activities.
    pub fn held(&self) -> bool {
        matches!(*self.stop.borrow(), Some(StopLevel::Pause | StopLevel::Halt | StopLevel::Revoke))
    }

    /// Waits until `due`, for the operator's message, or for the request to leave. While a stop holds the brain,
    /// nothing becomes due.
    pub async fn wake(&mut self, due: Instant) -> WakeReason {
        loop {
            if *self.leaving.borrow() {
                return WakeReason::Leave;
            }
            let now = Instant::now();
            if now >= due && !self.held() {
                return WakeReason::Due;
            }
            let until = if now >= due { now + POLL_INTERVAL } else { due };
            tokio::select! {
                () = sleep_until(until) => {}
                changed = self.leaving.changed() => if changed.is_err() { return WakeReason::Leave },
                said = self.words.recv() => match said {
                    Some(said) => return WakeReason::Words(said),
                    // No sender is left; the due time still applies.
                    None => sleep_until(until).await,
                },
            }
        }
    }
}

/// Tool whose calls run to their end once signing has begun.
pub(super) const COMMIT: &str = "commit_action";

/// Lists the action classes that a phase allows in principle. The phase gate and the policy's limits apply in any case.
fn allowed(phase: Phase) -> Vec<&'static str> {
    ActionClass::ALL.iter().filter(|class| allows(phase, **class)).map(|class| class.as_str()).collect()
}
