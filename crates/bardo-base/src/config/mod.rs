//! Configuration: built-in defaults, then the TOML file, then environment variables, then flags; the later wins.
//!
//! The file holds nothing that nothing reads: an unknown key is an error that names its line. What a chain's name
//! means is not known here (see `chain::network`), only that somebody gave it settings.

mod file;
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

pub use file::{KEYS, TEMPLATE};
pub use golem::{DEFAULT_ARCHETYPE, DEFAULT_BRAIN, GolemSettings, MODEL_KEY, MODEL_STYLES};
pub use log_format::{LogFormat, UnknownLogFormat};
pub use paths::Paths;
pub use quotes::{QuoteChoice, QuoteSettings};
pub use rpc_url::{RpcUrl, RpcUrlError};
pub use safety::SafetySettings;

/// The network that is used when nobody names one.
pub const DEFAULT_NETWORK: &str = "devnet";
/// Default of `intents.margin_bps`: a tenth of a percent for the filler's gas and for bids that are a little too high.
pub const DEFAULT_INTENT_MARGIN: BasisPoints = BasisPoints::constant::<10>();
/// Largest `intents.margin_bps`: a percent.
const MOST_INTENT_MARGIN: BasisPoints = BasisPoints::constant::<100>();
/// What is logged when nobody says otherwise.
const DEFAULT_LOG: &str = "info";
/// `BARDO_RPC_BASE_SEPOLIA` sets the endpoints of `base-sepolia`.
const RPC_PREFIX: &str = "BARDO_RPC_";

/// Everything that can be set, with where each setting came from.
#[derive(Debug, Clone)]
pub struct Config {
    /// The configuration file, whether it exists or not.
    pub file: PathBuf,
    /// Whether the configuration file exists.
    pub file_exists: bool,
    /// The network to work on: `devnet` or a chain's name, not yet looked up.
    pub network: Setting<String>,
    /// An address book to read, as `bardo devnet` prints one.
    pub book: Option<Setting<PathBuf>>,
    /// Entries of an address book for a real chain that the operator has decided to trust, see `chain::network::overlay`.
    pub trusted_entries: Vec<Setting<String>>,
    /// The data folder: logs, keys and ledgers.
    pub data_dir: Setting<PathBuf>,
    /// The operator's data folder, where `data_dir` is a show's own; `None` outside shows. Nothing sets it from outside.
    pub outer_data_dir: Option<PathBuf>,
    /// Name under which the devnet in this process is kept between runs; `None` for one that ends with the process. Only
    /// the command line sets it.
    pub kept_devnet: Option<String>,
    /// What is logged, as a `tracing` filter.
    pub log: Setting<String>,
    /// Format of the log file.
    pub log_format: Setting<LogFormat>,
    /// Settings by chain, under the name they were given with.
    pub chains: BTreeMap<String, ChainSettings>,
    /// Fixed dollar prices for test networks: by chain, then by symbol.
    pub prices: BTreeMap<String, Setting<BTreeMap<String, Usd>>>,
    /// Which account acts, in its user's words; not yet looked up.
    pub account: Option<Setting<String>>,
    /// What becomes of what a Golem holds when it dies.
    pub on_death: Setting<OnDeath>,
    /// How long the safety pipeline waits for what, and what it takes for a price.
    pub safety: SafetySettings,
    /// Which auction is used for UniswapX orders, by chain, where it is not the chain's own.
    pub order_types: BTreeMap<String, Setting<String>>,
    /// Margin below the fillers' bids at which a cross-chain intent asks, in basis points.
    pub intent_margin: Setting<BasisPoints>,
    /// Who is asked for quotes.
    pub quotes: QuoteSettings,
    /// Who decides in the Golem, and what it may use up.
    pub golem: GolemSettings,
    /// How a decision that waits calls for attention: `none`, `bell` or `notify`.
    pub attention: Option<Setting<String>>,
    /// The operator's own keys, by what they do; not yet looked up.
    pub keys: BTreeMap<String, Setting<String>>,
}

/// What is set for one chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainSettings {
    /// Endpoints, the preferred one first.
    pub rpc: Setting<Vec<RpcUrl>>,
    /// The chain id that every endpoint must answer.
    pub chain_id: Option<Setting<u64>>,
    /// Where transactions go that are not to be seen waiting.
    pub relay: Option<Setting<RpcUrl>>,
    /// Where that relay tells what became of them, by hash.
    pub relay_status: Option<Setting<RpcUrl>>,
    /// What is asked beside gas: nothing, or what this contract tells. Not set: as Bardo knows the chain.
    pub data_fee_oracle: Option<Setting<Option<Address>>>,
    /// How many blocks, its own included, must lie on what happened before it is final. Not set: as suits the network.
    pub confirmations: Option<Setting<u64>>,
    /// Whether its endpoints and its relay may be asked without encryption over a network. Not set: as the whole file says.
    pub allow_insecure_rpc: Option<Setting<bool>>,
}

impl ChainSettings {
    /// Endpoints, and nothing else.
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

/// A value and where it was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting<T> {
    /// The value.
    pub value: T,
    /// Who set it.
    pub origin: Origin,
}

/// Where a setting comes from, the weakest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Built in.
    Default,
    /// The configuration file, at this line.
    File {
        /// Counted from 1.
        line: usize,
    },
    /// This environment variable.
    Environment(String),
    /// This flag.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { line } => write!(f, "file, line {line}"),
            Self::Environment(name) => f.write_str(name),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Neither `BARDO_HOME` nor a home directory.
    #[error("no home directory found: set BARDO_HOME to a folder Bardo may use")]
    NoHome,
    /// The file is there and cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Something in the file is wrong.
    #[error("{}, line {line}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What.
        problem: Box<FileProblem>,
    },
    /// An endpoint or a relay without encryption.
    #[error("{key} ({origin}): {url} {INSECURE}")]
    Insecure {
        /// The setting.
        key: String,
        /// Who set it.
        origin: String,
        /// The URL, without its credentials.
        url: String,
    },
    /// An environment variable cannot be used.
    #[error("environment variable {name}: {reason}")]
    Environment {
        /// The variable.
        name: String,
        /// Why.
        reason: String,
    },
    /// A flag's value cannot be used.
    #[error("{flag}: {reason}")]
    Flag {
        /// The flag.
        flag: &'static str,
        /// Why.
        reason: String,
    },
}

/// Why an endpoint or a relay may not be used: what it answers decides about money, and anyone on the way could change it.
const INSECURE: &str = "is neither encrypted nor on this machine, so anyone on the network path can change its \
                        responses. Use https:// or wss://, or set allow_insecure_rpc = true in the configuration file";

/// Refuses endpoints and relays without encryption, except on this machine and where the file allows them.
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

/// What is wrong at a line of the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileProblem {
    /// Not TOML.
    #[error("not valid TOML: {0}")]
    Syntax(String),
    /// A key that nothing reads.
    #[error("unknown key '{key}'{} {place}; known keys: {known}", nearest.as_ref().map(|near| format!(" (did you mean '{near}'?)")).unwrap_or_default())]
    UnknownKey {
        /// The key, cleaned.
        key: String,
        /// Where it stands, in words.
        place: String,
        /// The known key most like it.
        nearest: Option<String>,
        /// All known keys.
        known: String,
    },
    /// A value of another type.
    #[error("'{key}' must be {expected}, but this is {found}")]
    WrongType {
        /// The key.
        key: String,
        /// What it should be, with an example.
        expected: &'static str,
        /// What it is.
        found: &'static str,
    },
    /// A value of the right type that makes no sense.
    #[error("'{key}': {reason}")]
    BadValue {
        /// The key.
        key: String,
        /// Why.
        reason: String,
    },
}

/// What was set on the command line.
#[derive(Debug, Clone, Default)]
pub struct Flags {
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
}

/// The environment variables that start with `BARDO_`, taken once so that tests can make their own.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

/// Names only: endpoints and keys are among the values.
impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Environment {
    /// Those of this process.
    ///
    /// # Errors
    /// [`ConfigError::Environment`] for one that is not valid UTF-8.
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

    /// A variable's value; an empty one counts as not set.
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
    /// Reads the file, lays environment and flags over it.
    ///
    /// # Errors
    /// A [`ConfigError`] that names the line, variable or flag and says what would be right. A missing file is none.
    pub fn load(environment: &Environment, flags: &Flags) -> Result<Self, ConfigError> {
        let Paths { config_file, data_dir } = Paths::find(environment)?;
        let file = file::read(&config_file)?;
        let file_exists = file.is_some();
        let file = file.unwrap_or_default();
        let from = |name: &str| {
            environment
                .get(name)
                .map(|value| Setting { value: value.to_owned(), origin: Origin::Environment(name.to_owned()) })
        };
        let network = flags
            .network
            .clone()
            .map(|value| Setting { value, origin: Origin::Flag("--network") })
            .or_else(|| from("BARDO_NETWORK"))
            .or(file.network)
            .unwrap_or_else(|| Setting { value: DEFAULT_NETWORK.into(), origin: Origin::Default });
        let book = flags
            .book
            .clone()
            .map(|value| Setting { value, origin: Origin::Flag("--book") })
            .or_else(|| from("BARDO_BOOK").map(|book| Setting { value: book.value.into(), origin: book.origin }))
            .or(file.book);
        let account = flags
            .account
            .clone()
            .map(|value| Setting { value, origin: Origin::Flag("--key") })
            .or_else(|| from("BARDO_ACCOUNT"))
            .or(file.account);
        let log = from("BARDO_LOG")
            .or(file.log)
            .unwrap_or_else(|| Setting { value: DEFAULT_LOG.into(), origin: Origin::Default });
        let log_format = match (flags.log_format, from("BARDO_LOG_FORMAT")) {
            (Some(value), _) => Setting { value, origin: Origin::Flag("--log-format") },
            (None, Some(given)) => {
                let read = given.value.parse().map_err(|error: UnknownLogFormat| ConfigError::Environment {
                    name: "BARDO_LOG_FORMAT".into(),
                    reason: error.to_string(),
                });
                Setting { value: read?, origin: given.origin }
            }
            (None, None) => file.log_format.unwrap_or(Setting { value: LogFormat::default(), origin: Origin::Default }),
        };

        let data_dir = match from("BARDO_DATA_DIR") {
            Some(given) => {
                let value = paths::absolute(&given.value)
                    .map_err(|reason| ConfigError::Environment { name: "BARDO_DATA_DIR".into(), reason })?;
                Setting { value, origin: given.origin }
            }
            None => file.data_dir.unwrap_or(Setting { value: data_dir, origin: Origin::Default }),
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
            log,
            log_format,
            chains,
            prices: file.prices,
            account,
            on_death: file.on_death.unwrap_or(Setting { value: OnDeath::Ask, origin: Origin::Default }),
            safety: file.safety,
            order_types: file.order_types,
            intent_margin: file
                .intent_margin
                .unwrap_or(Setting { value: DEFAULT_INTENT_MARGIN, origin: Origin::Default }),
            quotes: file.quotes.over(environment)?,
            golem: file.golem.under(environment, flags),
            attention: file.attention,
            keys: file.keys,
        })
    }

    /// Where log files go.
    pub fn log_dir(&self) -> PathBuf {
        self.data_dir.value.join("logs")
    }
}

/// Endpoints of a stronger origin replace those of a weaker one; the expected chain id stays.
fn set_endpoints(chains: &mut BTreeMap<String, ChainSettings>, chain: String, rpc: Setting<Vec<RpcUrl>>) {
    match chains.get_mut(&chain) {
        Some(settings) => settings.rpc = rpc,
        None => {
            chains.insert(chain, ChainSettings::of_endpoints(rpc));
        }
    }
}

/// `BARDO_RPC_<CHAIN>`: one or more URLs, separated by commas or spaces.
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
        found.insert(chain, Setting { value, origin: Origin::Environment(name.clone()) });
    }
    Ok(found)
}

/// `--rpc CHAIN=URL`, gathered by chain. The value is never repeated in an error: it may hold a credential.
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
            .or_insert_with(|| Setting { value: Vec::new(), origin: Origin::Flag("--rpc") })
            .value
            .push(url);
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
