//! Configuration: built-in defaults, then the TOML file, then environment variables, then flags; later ones win.
//!
//! An unknown key is an error that names its line. Names of chains are not resolved here (see `chain::network`).

mod agents;
mod alerts;
mod file;
mod fork;
mod golem;
mod log_format;
mod paths;
mod quotes;
mod rpc_url;
mod safety;

use std::{collections::BTreeMap, fmt, path::PathBuf};

use alloy_primitives::Address;

use crate::model::OnDeath;
use crate::units::{BasisPoints, Usd};

pub use agents::{AgentFileSettings, GATEWAYS};
pub use alerts::{
    AlertDetail, AlertRule, AlertSecret, AlertSettings, EMAIL_PASSWORD, EmailSettings, EmailTls, TELEGRAM_API,
    TELEGRAM_TOKEN, TelegramSettings, UnknownAlertRule, WEBHOOK_SECRET, WebhookSettings,
};
pub use file::{KEYS, TEMPLATE};
pub use fork::{ForkError, ForkSettings};
pub use golem::{DEFAULT_ARCHETYPE, DEFAULT_BRAIN, GolemSettings, MODEL_KEY, MODEL_STYLES};
pub use log_format::{LogFormat, UnknownLogFormat};
pub use paths::ConfigPaths;
pub use quotes::{QuoteChoice, QuoteSettings};
pub use rpc_url::{RpcUrl, RpcUrlError};
pub use safety::SafetySettings;

/// Default of the network setting.
pub const DEFAULT_NETWORK: &str = "devnet";
/// Default of `intents.margin_bps`: a tenth of a percent for the filler's gas and for bids that are slightly too high.
pub const DEFAULT_INTENT_MARGIN: BasisPoints = BasisPoints::constant::<10>();
/// Default of `rehearsal.size`.
const DEFAULT_REHEARSAL_SIZE: &str = "0.01";
/// Maximum of `intents.margin_bps`: one percent.
const MOST_INTENT_MARGIN: BasisPoints = BasisPoints::constant::<100>();
/// Default log filter.
const DEFAULT_LOG: &str = "info";
/// Prefix of endpoint variables: `BARDO_RPC_BASE_SEPOLIA` sets the endpoints of `base-sepolia`.
const RPC_PREFIX: &str = "BARDO_RPC_";

/// All settings, each with its origin.
#[derive(Debug, Clone)]
pub struct Config {
    /// Path of the configuration file, whether it exists or not.
    pub file: PathBuf,
    /// True if the configuration file exists.
    pub file_exists: bool,
    /// Network to work on: `devnet` or the name of a chain, not yet looked up.
    pub network: Setting<String>,
    /// Address book file, in the format that `bardo devnet` prints.
    pub book: Option<Setting<PathBuf>>,
    /// Entries of an address book for a real chain that the operator trusts, see `chain::network::overlay`.
    pub trusted_entries: Vec<Setting<String>>,
    /// Data directory: logs, keys and ledgers.
    pub data_dir: Setting<PathBuf>,
    /// The operator's data directory while a scenario runs in one of its own; `None` otherwise. Not configurable.
    pub outer_data_dir: Option<PathBuf>,
    /// Name under which the in-process devnet is kept between runs; `None` for one that ends with the process. Only the
    /// command line sets it.
    pub kept_devnet: Option<String>,
    /// Live network that the in-process chain continues from, for a rehearsal; `None` for the devnet. Only the command
    /// line sets it.
    pub fork: Option<ForkSettings>,
    /// Log filter in the syntax of `tracing`.
    pub log: Setting<String>,
    /// Format of the log file.
    pub log_format: Setting<LogFormat>,
    /// Settings by chain, under the name that the user gave.
    pub chains: BTreeMap<String, ChainSettings>,
    /// Fixed dollar prices for test networks, by chain and by symbol.
    pub prices: BTreeMap<String, Setting<BTreeMap<String, Usd>>>,
    /// Acting account as the user named it, not yet looked up.
    pub account: Option<Setting<String>>,
    /// Treatment of a Golem's holdings when it dies.
    pub on_death: Setting<OnDeath>,
    /// Timeouts of the safety pipeline and requirements for price sources.
    pub safety: SafetySettings,
    /// Auction type of UniswapX orders by chain, where it differs from the chain's default.
    pub order_types: BTreeMap<String, Setting<String>>,
    /// Margin below the fillers' bids at which a cross-chain intent is priced, in basis points.
    pub intent_margin: Setting<BasisPoints>,
    /// Amount of the native token that `bardo doctor --rehearse` swaps, as a decimal number.
    pub rehearsal_size: Setting<String>,
    /// Quote source and its endpoint.
    pub quotes: QuoteSettings,
    /// Reading of agents' files outside the chain.
    pub agents: AgentFileSettings,
    /// Brain of the Golem and its budgets.
    pub golem: GolemSettings,
    /// Rules and channels of the alerts.
    pub alerts: AlertSettings,
    /// Signal for a waiting decision: `none`, `bell` or `notify`.
    pub attention: Option<Setting<String>>,
    /// Custom key bindings by the name of their action, not yet looked up.
    pub keys: BTreeMap<String, Setting<String>>,
}

/// Settings of one chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainSettings {
    /// Endpoints, in order of preference.
    pub rpc: Setting<Vec<RpcUrl>>,
    /// Chain id that every endpoint must report.
    pub chain_id: Option<Setting<u64>>,
    /// Private relay for transactions that must not be visible in the public mempool.
    pub relay: Option<Setting<RpcUrl>>,
    /// Status endpoint of that relay, queried by transaction hash.
    pub relay_status: Option<Setting<RpcUrl>>,
    /// Oracle of the data fee: `Some(None)` for no such fee, `Some(Some(_))` for that contract; `None` for Bardo's
    /// default.
    pub data_fee_oracle: Option<Setting<Option<Address>>>,
    /// Confirmations, including the block itself, before a result is final; `None` for the network's default.
    pub confirmations: Option<Setting<u64>>,
    /// Permits its endpoints and relay without encryption over a network; `None` for the file's general setting.
    pub allow_insecure_rpc: Option<Setting<bool>>,
}

impl ChainSettings {
    /// Settings with endpoints only.
    const fn of_endpoints(rpc: Setting<Vec<RpcUrl>>) -> Self {
        Self {
            rpc,
            chain_id: None,
            relay: None,
            relay_status: None,
            data_fee_oracle: None,
            confirmations: None,
            allow_insecure_rpc: None,
        }
    }
}

/// A value and its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting<T> {
    /// Value of the setting.
    pub value: T,
    /// Source that set the value.
    pub origin: SettingOrigin,
}

/// Origin of a setting, the weakest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingOrigin {
    /// Default that is built in.
    Default,
    /// Line of the configuration file.
    File {
        /// Line number, counted from 1.
        line: usize,
    },
    /// Environment variable of this name.
    Environment(String),
    /// Command-line flag of this name.
    Flag(&'static str),
}

impl fmt::Display for SettingOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { line } => write!(f, "file, line {line}"),
            Self::Environment(name) => f.write_str(name),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

/// Errors of loading the configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Neither `BARDO_HOME` nor a home directory exists.
    #[error("no home directory found: set BARDO_HOME to a folder Bardo may use")]
    NoHome,
    /// The file exists but cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Description of the failure.
        reason: String,
    },
    /// The file has an error.
    #[error("{}, line {line}: {problem}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Line number, counted from 1.
        line: usize,
        /// Error at this line.
        problem: Box<FileProblem>,
    },
    /// An endpoint or a relay without encryption.
    #[error("{key} ({origin}): {url} {INSECURE}")]
    Insecure {
        /// Key of the setting.
        key: String,
        /// Source that set it.
        origin: String,
        /// URL without its credentials.
        url: String,
    },
    /// The value of an environment variable is invalid.
    #[error("environment variable {name}: {reason}")]
    Environment {
        /// Name of the variable.
        name: String,
        /// Description of the failure.
        reason: String,
    },
    /// The value of a flag is invalid.
    #[error("{flag}: {reason}")]
    Flag {
        /// Name of the flag.
        flag: &'static str,
        /// Description of the failure.
        reason: String,
    },
}

/// Reason that an endpoint or a relay is rejected: its answers decide about money, and anyone on the path could alter
/// them.
const INSECURE: &str = "is neither encrypted nor on this machine, so anyone on the network path can change its \
                        responses. Use https:// or wss://, or set allow_insecure_rpc = true in the configuration file";

/// Rejects endpoints and relays without encryption, except on this machine and where the file permits them.
fn encrypted(chains: &BTreeMap<String, ChainSettings>, all_allowed: bool) -> Result<(), ConfigError> {
    for (chain, settings) in chains {
        if settings.allow_insecure_rpc.as_ref().map_or(all_allowed, |allowed| allowed.value) {
            continue;
        }
        let endpoints = settings.rpc.value.iter().map(|url| ("rpc", url, &settings.rpc.origin));
        let relays = [("relay", &settings.relay), ("relay_status", &settings.relay_status)];
        let relays = relays.into_iter().filter_map(|(key, set)| set.as_ref().map(|set| (key, &set.value, &set.origin)));
        if let Some((key, url, origin)) = endpoints.chain(relays).find(|(_, url, _)| url.is_insecure()) {
            let (key, origin) = (format!("chains.{chain}.{key}"), origin.to_string());
            return Err(ConfigError::Insecure { key, origin, url: url.to_string() });
        }
    }
    Ok(())
}

/// An error at one line of the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileProblem {
    /// The file is not valid TOML.
    #[error("not valid TOML: {0}")]
    Syntax(String),
    /// A key that no setting has.
    #[error("unknown key '{key}'{} {place}; known keys: {known}", nearest.as_ref().map(|near| format!(" (did you mean '{near}'?)")).unwrap_or_default())]
    UnknownKey {
        /// The key, with control characters removed.
        key: String,
        /// Place of the key in the file, in words.
        place: String,
        /// Known key that is most similar.
        nearest: Option<String>,
        /// All known keys.
        known: String,
    },
    /// A value of the wrong type.
    #[error("'{key}' must be {expected}, but this is {found}")]
    WrongType {
        /// Key of the value.
        key: String,
        /// Expected type, with an example.
        expected: &'static str,
        /// Type that was found.
        found: &'static str,
    },
    /// A value of the right type that is invalid.
    #[error("'{key}': {reason}")]
    BadValue {
        /// Key of the value.
        key: String,
        /// Description of the failure.
        reason: String,
    },
}

/// Command-line flags that override the configuration.
#[derive(Debug, Clone, Default)]
pub struct ConfigFlags {
    /// `--network NAME`.
    pub network: Option<String>,
    /// `--rpc CHAIN=URL`, as typed; several for one chain are tried in this order.
    pub rpc: Vec<String>,
    /// `--book FILE`.
    pub book: Option<PathBuf>,
    /// `--key NAME`.
    pub account: Option<String>,
    /// `--brain WHICH`.
    pub brain: Option<String>,
    /// `--archetype NAME`.
    pub archetype: Option<String>,
    /// `--log-format FORMAT`.
    pub log_format: Option<LogFormat>,
    /// `--fork NAME[=URL][@BLOCK]`, with the holder of `--holder`.
    pub fork: Option<ForkSettings>,
}

/// Environment variables that start with `BARDO_`, captured once so that tests can supply their own.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

/// Prints names only: values include endpoints and keys.
impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Environment {
    /// Captures the variables of this process.
    ///
    /// # Errors
    /// [`ConfigError::Environment`] for a value that is not valid UTF-8.
    pub fn from_process() -> Result<Self, ConfigError> {
        let mut found = BTreeMap::new();
        for (name, value) in std::env::vars_os() {
            let Ok(name) = name.into_string() else { continue };
            if !name.starts_with("BARDO_") {
                continue;
            }
            let Ok(value) = value.into_string() else {
                return Err(ConfigError::Environment { name, reason: "the value is not valid UTF-8".into() });
            };
            found.insert(name, value);
        }
        Ok(Self(found))
    }

    /// Value of a variable; an empty value counts as not set.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl Config {
    /// Reads the file and applies environment variables and flags over it.
    ///
    /// # Errors
    /// A [`ConfigError`] that names the line, variable or flag and the correction. A missing file is not an error.
    pub fn load(environment: &Environment, flags: &ConfigFlags) -> Result<Self, ConfigError> {
        let ConfigPaths { config_file, data_dir } = ConfigPaths::find(environment)?;
        let file = file::read(&config_file)?;
        let file_exists = file.is_some();
        let file = file.unwrap_or_default();
        let from = |name: &str| {
            environment
                .get(name)
                .map(|value| Setting { value: value.to_owned(), origin: SettingOrigin::Environment(name.to_owned()) })
        };
        let network = flags
            .network
            .clone()
            .map(|value| Setting { value, origin: SettingOrigin::Flag("--network") })
            .or_else(|| from("BARDO_NETWORK"))
            .or(file.network)
            .unwrap_or_else(|| Setting { value: DEFAULT_NETWORK.into(), origin: SettingOrigin::Default });
        let book = flags
            .book
            .clone()
            .map(|value| Setting { value, origin: SettingOrigin::Flag("--book") })
            .or_else(|| from("BARDO_BOOK").map(|book| Setting { value: book.value.into(), origin: book.origin }))
            .or(file.book);
        let account = flags
            .account
            .clone()
            .map(|value| Setting { value, origin: SettingOrigin::Flag("--key") })
            .or_else(|| from("BARDO_ACCOUNT"))
            .or(file.account);
        let log = from("BARDO_LOG")
            .or(file.log)
            .unwrap_or_else(|| Setting { value: DEFAULT_LOG.into(), origin: SettingOrigin::Default });
        let log_format = match (flags.log_format, from("BARDO_LOG_FORMAT")) {
            (Some(value), _) => Setting { value, origin: SettingOrigin::Flag("--log-format") },
            (None, Some(given)) => {
                let read = given.value.parse().map_err(|error: UnknownLogFormat| ConfigError::Environment {
                    name: "BARDO_LOG_FORMAT".into(),
                    reason: error.to_string(),
                });
                Setting { value: read?, origin: given.origin }
            }
            (None, None) => {
                file.log_format.unwrap_or(Setting { value: LogFormat::default(), origin: SettingOrigin::Default })
            }
        };

        let data_dir = match from("BARDO_DATA_DIR") {
            Some(given) => {
                let value = paths::absolute(&given.value).map_err(|error| ConfigError::Environment {
                    name: "BARDO_DATA_DIR".into(),
                    reason: error.to_string(),
                })?;
                Setting { value, origin: given.origin }
            }
            None => file.data_dir.unwrap_or(Setting { value: data_dir, origin: SettingOrigin::Default }),
        };

        let mut chains = file.chains;
        for (chain, urls) in environment_endpoints(environment)? {
            set_endpoints(&mut chains, chain, urls);
        }
        for (chain, urls) in flag_endpoints(&flags.rpc)? {
            set_endpoints(&mut chains, chain, urls);
        }
        encrypted(&chains, file.allow_insecure_rpc.as_ref().is_some_and(|allowed| allowed.value))?;
        Ok(Self {
            file: config_file,
            file_exists,
            network,
            book,
            trusted_entries: file.trusted_entries,
            data_dir,
            outer_data_dir: None,
            kept_devnet: None,
            fork: flags.fork.clone(),
            log,
            log_format,
            chains,
            prices: file.prices,
            account,
            on_death: file.on_death.unwrap_or(Setting { value: OnDeath::Ask, origin: SettingOrigin::Default }),
            safety: file.safety,
            order_types: file.order_types,
            intent_margin: file
                .intent_margin
                .unwrap_or(Setting { value: DEFAULT_INTENT_MARGIN, origin: SettingOrigin::Default }),
            rehearsal_size: file
                .rehearsal_size
                .unwrap_or(Setting { value: DEFAULT_REHEARSAL_SIZE.to_owned(), origin: SettingOrigin::Default }),
            quotes: file.quotes.over(environment)?,
            agents: file.agents,
            golem: file.golem.under(environment, flags),
            alerts: file.alerts.over(environment),
            attention: file.attention,
            keys: file.keys,
        })
    }

    /// Directory of log files.
    pub fn log_dir(&self) -> PathBuf {
        self.data_dir.value.join("logs")
    }
}

/// Sets the endpoints of a chain; its other settings stay.
impl Config {
    /// This configuration for the live network of a rehearsal: its name, and its endpoint where one was given.
    ///
    /// # Errors
    /// A [`ConfigError`] for an endpoint without encryption over a network.
    pub fn live_of(&self, fork: &ForkSettings) -> Result<Self, ConfigError> {
        let mut live = Self { fork: None, ..self.clone() };
        live.network = Setting { value: fork.network.clone(), origin: SettingOrigin::Flag("--fork") };
        if let Some(url) = &fork.url {
            let rpc = Setting { value: vec![url.clone()], origin: SettingOrigin::Flag("--fork") };
            set_endpoints(&mut live.chains, fork.network.clone(), rpc);
            let own = live.chains.iter().filter(|(name, _)| **name == fork.network);
            encrypted(&own.map(|(name, settings)| (name.clone(), settings.clone())).collect(), false)?;
        }
        Ok(live)
    }
}

fn set_endpoints(chains: &mut BTreeMap<String, ChainSettings>, chain: String, rpc: Setting<Vec<RpcUrl>>) {
    match chains.get_mut(&chain) {
        Some(settings) => settings.rpc = rpc,
        None => {
            chains.insert(chain, ChainSettings::of_endpoints(rpc));
        }
    }
}

/// Reads `BARDO_RPC_<CHAIN>`: one or more URLs, separated by commas or spaces.
fn environment_endpoints(environment: &Environment) -> Result<BTreeMap<String, Setting<Vec<RpcUrl>>>, ConfigError> {
    let mut found = BTreeMap::new();
    for (name, value) in &environment.0 {
        let Some(chain) = name.strip_prefix(RPC_PREFIX).filter(|_| !value.trim().is_empty()) else { continue };
        let fail = |reason: String| ConfigError::Environment { name: name.clone(), reason };
        if chain.is_empty() {
            return Err(fail(format!("no chain named: write {RPC_PREFIX}ETHEREUM")));
        }
        let urls: Result<Vec<_>, _> =
            value.split([',', ' ']).filter(|url| !url.is_empty()).map(RpcUrl::parse).collect();
        let value = urls.map_err(|error| fail(error.to_string()))?;
        let chain = chain.to_lowercase().replace('_', "-");
        found.insert(chain, Setting { value, origin: SettingOrigin::Environment(name.clone()) });
    }
    Ok(found)
}

/// Reads `--rpc CHAIN=URL`, grouped by chain. Errors never repeat the value: it may contain a credential.
fn flag_endpoints(given: &[String]) -> Result<BTreeMap<String, Setting<Vec<RpcUrl>>>, ConfigError> {
    let fail = |reason: String| ConfigError::Flag { flag: "--rpc", reason };
    let mut found: BTreeMap<String, Setting<Vec<RpcUrl>>> = BTreeMap::new();
    for pair in given {
        let (chain, url) =
            pair.split_once('=').filter(|(chain, _)| !chain.is_empty() && !chain.contains([':', '/'])).ok_or_else(
                || fail("no chain named: write CHAIN=URL, such as ethereum=http://127.0.0.1:8545".into()),
            )?;
        let url = RpcUrl::parse(url).map_err(|error| fail(error.to_string()))?;
        found
            .entry(chain.to_lowercase())
            .or_insert_with(|| Setting { value: Vec::new(), origin: SettingOrigin::Flag("--rpc") })
            .value
            .push(url);
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
