//! Settings of the Golem: its brain, the interval of its decisions, and their budgets. The policy limits its actions.

use std::path::PathBuf;

use secrecy::SecretString;

use super::{ConfigFlags, Environment, RpcUrl, Setting, SettingOrigin};
use crate::id::{GolemId, IdError};
use crate::text::SafeText;

/// Default of the brain setting.
pub const DEFAULT_BRAIN: &str = "scenario";
/// Default name of the Golem.
const DEFAULT_NAME: &str = "Ada";
/// Maximum length of a goal, in characters: it is part of every request to a model.
pub(super) const MOST_GOAL: usize = 2_000;
/// Default archetype. The existing archetypes are not known here.
pub const DEFAULT_ARCHETYPE: &str = "golem-instance";
/// Environment variable that holds the API key of the model's endpoint, and the only source of it.
pub const MODEL_KEY: &str = "BARDO_MODEL_KEY";
/// Supported API styles of a model's endpoint.
pub const MODEL_STYLES: [&str; 2] = ["openai", "anthropic"];

/// Integer settings: key, default, minimum, maximum.
pub(super) const NUMBERS: [(&str, u64, u64, u64); 5] = [
    ("tick_seconds", 20, 1, 3_600),
    ("patience_seconds", 60, 1, 3_600),
    ("calls", 2_000, 1, 1_000_000),
    ("model_tokens", 200_000, 100, 1_000_000_000),
    ("model_reply_tokens", 1_024, 64, 65_536),
];

/// Minimum and maximum lifespan, in minutes: the maximum is ten years.
pub(super) const LIFESPAN_MINUTES: (u64, u64) = (1, 5_256_000);

/// Brain of the Golem and its budgets.
#[derive(Debug, Clone)]
pub struct GolemSettings {
    /// Name of the Golem. Its lower-case form is a [`GolemId`] other than the operator's. Each name has its own memory
    /// and playbook.
    pub name: Setting<String>,
    /// The owner's goal, which every brain receives; `None` where STRATEGY.md alone states it.
    pub goal: Option<Setting<SafeText>>,
    /// `scenario`, `operator`, `process:COMMAND` or `model`.
    pub brain: Setting<String>,
    /// Name of its archetype, not yet looked up: the archetype decides its tools and the Golems it may delegate to.
    pub archetype: Setting<String>,
    /// Lifespan in minutes; `None` for no limit.
    pub lifespan_minutes: Option<Setting<u64>>,
    /// Interval between decisions of a process or a model, in seconds.
    pub tick_seconds: Setting<u64>,
    /// Timeout for its answer, in seconds.
    pub patience_seconds: Setting<u64>,
    /// Maximum number of tool calls in one run.
    pub calls: Setting<u64>,
    /// Maximum number of tokens that a model may read and write in one run.
    pub model_tokens: Setting<u64>,
    /// Maximum number of tokens of one answer of the model.
    pub model_reply_tokens: Setting<u64>,
    /// URL of the model's endpoint.
    pub model_url: Option<Setting<RpcUrl>>,
    /// Name of the model, as its endpoint expects it.
    pub model_name: Option<Setting<String>>,
    /// API style of the endpoint: one of [`MODEL_STYLES`].
    pub model_style: Setting<String>,
    /// Files and folders that a brain process may read and execute, besides what its command needs. Absolute paths.
    pub read: Setting<Vec<PathBuf>>,
    /// Files and folders that a brain process may also modify. Absolute paths.
    pub write: Setting<Vec<PathBuf>>,
    /// Names of environment variables that a brain process receives.
    pub environment: Setting<Vec<String>>,
    /// Permits a brain process to use the network.
    pub network: Setting<bool>,
    /// Permits a brain process on real networks even where the system cannot isolate it.
    pub allow_unisolated_brain: Setting<bool>,
    /// API key of the model's endpoint. Never shown.
    pub model_key: Option<Setting<SecretString>>,
}

impl Default for GolemSettings {
    fn default() -> Self {
        let [tick_seconds, patience_seconds, calls, model_tokens, model_reply_tokens] =
            NUMBERS.map(|(_, number, ..)| Setting { value: number, origin: SettingOrigin::Default });
        let text = |value: &str| Setting { value: value.to_owned(), origin: SettingOrigin::Default };
        Self {
            name: text(DEFAULT_NAME),
            goal: None,
            brain: text(DEFAULT_BRAIN),
            archetype: text(DEFAULT_ARCHETYPE),
            lifespan_minutes: None,
            tick_seconds,
            patience_seconds,
            calls,
            model_tokens,
            model_reply_tokens,
            model_url: None,
            model_name: None,
            model_style: text(MODEL_STYLES[0]),
            read: Setting { value: Vec::new(), origin: SettingOrigin::Default },
            write: Setting { value: Vec::new(), origin: SettingOrigin::Default },
            environment: Setting { value: Vec::new(), origin: SettingOrigin::Default },
            network: Setting { value: true, origin: SettingOrigin::Default },
            allow_unisolated_brain: Setting { value: false, origin: SettingOrigin::Default },
            model_key: None,
        }
    }
}

impl GolemSettings {
    /// Lists every setting for display: key, value, origin. The API key appears only as present.
    pub fn shown(&self) -> Vec<(&'static str, String, &SettingOrigin)> {
        let mut shown = vec![
            ("name", self.name.value.clone(), &self.name.origin),
            ("brain", self.brain.value.clone(), &self.brain.origin),
            ("archetype", self.archetype.value.clone(), &self.archetype.origin),
        ];
        if let Some(goal) = &self.goal {
            shown.push(("goal", goal.value.to_string(), &goal.origin));
        }
        if let Some(lifespan) = &self.lifespan_minutes {
            shown.push(("lifespan_minutes", lifespan.value.to_string(), &lifespan.origin));
        }
        for (key, setting) in [
            ("tick_seconds", &self.tick_seconds),
            ("patience_seconds", &self.patience_seconds),
            ("calls", &self.calls),
            ("model_tokens", &self.model_tokens),
            ("model_reply_tokens", &self.model_reply_tokens),
        ] {
            shown.push((key, setting.value.to_string(), &setting.origin));
        }
        let paths = |paths: &[PathBuf]| paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
        for (key, words, origin) in [
            ("read", paths(&self.read.value), &self.read.origin),
            ("write", paths(&self.write.value), &self.write.origin),
            ("environment", self.environment.value.clone(), &self.environment.origin),
        ] {
            if !words.is_empty() {
                shown.push((key, words.join(", "), origin));
            }
        }
        for (key, setting) in [("network", &self.network), ("allow_unisolated_brain", &self.allow_unisolated_brain)] {
            shown.push((key, setting.value.to_string(), &setting.origin));
        }
        shown.push(("model_style", self.model_style.value.clone(), &self.model_style.origin));
        if let Some(url) = &self.model_url {
            shown.push(("model_url", url.value.to_string(), &url.origin));
        }
        if let Some(name) = &self.model_name {
            shown.push(("model_name", name.value.clone(), &name.origin));
        }
        if let Some(key) = &self.model_key {
            shown.push(("model_key", "set, hidden".to_owned(), &key.origin));
        }
        shown
    }

    /// The owner's goal, if the configuration states one.
    pub fn goal(&self) -> Option<SafeText> {
        self.goal.as_ref().map(|goal| goal.value.clone())
    }

    /// Id of the Golem: its name in lower case.
    pub fn id(&self) -> GolemId {
        // Cannot fail: [`golem_id`] validated the name when it was read.
        golem_id(&self.name.value).unwrap_or_else(|_| GolemId::nameless())
    }

    /// Lifespan of the Golem in seconds; `None` for no limit.
    pub fn lifespan_seconds(&self) -> Option<u64> {
        self.lifespan_minutes.as_ref().map(|minutes| minutes.value.saturating_mul(60))
    }

    /// The integer setting with this key, for assignment.
    pub(super) fn number_mut(&mut self, key: &str) -> Option<&mut Setting<u64>> {
        match key {
            "tick_seconds" => Some(&mut self.tick_seconds),
            "patience_seconds" => Some(&mut self.patience_seconds),
            "calls" => Some(&mut self.calls),
            "model_tokens" => Some(&mut self.model_tokens),
            "model_reply_tokens" => Some(&mut self.model_reply_tokens),
            _ => None,
        }
    }

    /// Applies environment variables and flags over the settings of the file.
    pub(super) fn under(mut self, environment: &Environment, flags: &ConfigFlags) -> Self {
        let from = |name: &str| environment.get(name).map(|value| (value, SettingOrigin::Environment(name.to_owned())));
        if let Some((value, origin)) = from("BARDO_BRAIN") {
            self.brain = Setting { value: value.to_owned(), origin };
        }
        if let Some(brain) = &flags.brain {
            self.brain = Setting { value: brain.clone(), origin: SettingOrigin::Flag("--brain") };
        }
        if let Some(archetype) = &flags.archetype {
            self.archetype = Setting { value: archetype.clone(), origin: SettingOrigin::Flag("--archetype") };
        }
        if let Some((value, origin)) = from(MODEL_KEY) {
            self.model_key = Some(Setting { value: SecretString::from(value.trim().to_owned()), origin });
        }
        self
    }
}

/// Error of an invalid Golem name in the configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum GolemNameError {
    /// It does not have the form of an id.
    #[error("{0}; use a name such as Ada")]
    Form(IdError),
    /// It is the operator's id.
    #[error("`operator` is reserved for you, the operator; use a name such as Ada")]
    Operator,
}

/// Id of a Golem of this name.
///
/// # Errors
/// [`GolemNameError`].
pub(super) fn golem_id(name: &str) -> Result<GolemId, GolemNameError> {
    let id = GolemId::stored(&name.to_ascii_lowercase()).map_err(GolemNameError::Form)?;
    if id == GolemId::operator() {
        return Err(GolemNameError::Operator);
    }
    Ok(id)
}
