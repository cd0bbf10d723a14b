//! The TOML file: its keys, their types, and the line number of every error.
//!
//! Parsed by hand rather than derived, because every error must name its line and the nearest known key. A parser's own
//! error also prints the offending line, which may contain an endpoint's credential.

mod alerts;

use std::{
    collections::BTreeMap,
    io::ErrorKind,
    ops::Range,
    path::{Path, PathBuf},
};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use alloy_primitives::Address;

use crate::regular_file;

use super::golem::{LIFESPAN_MINUTES, MODEL_STYLES, MOST_GOAL, NUMBERS, golem_id};
use super::quotes::choices;
use super::safety::SECONDS;
use super::{
    AgentFileSettings, AlertSettings, ChainSettings, ConfigError, FileProblem, GolemSettings, LogFormat,
    MOST_INTENT_MARGIN, QuoteChoice, QuoteSettings, RpcUrl, SafetySettings, Setting, SettingOrigin, UnknownLogFormat,
    paths,
};
use crate::{
    model::{OnDeath, UnknownName},
    text::{SafeText, nearest},
    units::{BasisPoints, Usd},
};

/// Largest configuration file that is read.
const MAX_BYTES: u64 = 1 << 20;

/// Every key of the file with its purpose. `NAME` stands for a chain, `SYMBOL` for a token.
pub const KEYS: &[(&str, &str)] = &[
    ("network", "the network to use: devnet, or a chain such as sepolia"),
    ("book", "an address book file, as `bardo devnet` prints one"),
    ("trusted_entries", "trusted entries of a book file, in addition to the bundled ones, one string each"),
    ("allow_insecure_rpc", "whether remote endpoints and relays may be used without encryption"),
    ("data_dir", "where logs, keys and ledgers are kept"),
    ("log", "what is logged: error, warn, info, debug, trace, or a filter such as bardo=debug"),
    ("log_format", "format of the log file: text, or json for one JSON object per line"),
    ("chains.NAME.rpc", "endpoints of that chain, the preferred one first"),
    ("chains.NAME.chain_id", "the chain id that its endpoints must return"),
    ("chains.NAME.relay", "a private relay for transactions that must stay out of the public mempool"),
    ("chains.NAME.relay_status", "the relay's URL for the status of a transaction, by hash"),
    ("chains.NAME.data_fee_oracle", "the contract that returns the rollup's L1 data fee, or none"),
    ("chains.NAME.confirmations", "number of confirmations after which a transaction is final"),
    ("chains.NAME.allow_insecure_rpc", "the same for that chain alone"),
    ("account", "the signing key, by its name in `bardo keys list`; on devnets development:N"),
    ("on_death", "what happens to a Golem's holdings when it dies: ask, sell (on devnets only) or keep"),
    ("safety.permit_seconds", "how long a previewed action can be committed"),
    ("safety.approval_timeout_seconds", "how long an approval request waits before it expires"),
    ("safety.receipt_patience_seconds", "how long to wait for a receipt"),
    (
        "safety.minimum_pool_depth_usd",
        "minimum pool depth, in dollars tradable within 2 % of the mean, for a pool to count as a price source",
    ),
    ("console.attention", "how a pending decision alerts you outside the screen: none, bell or notify (OSC 9)"),
    ("keys.NAME", "keys of console actions, by action name, such as freeze = \"F2\"; several separated by spaces"),
    ("order_type.NAME", "the auction used for UniswapX orders on that chain: DUTCH_V2, DUTCH_V3 or PRIORITY"),
    ("intents.margin_bps", "how far below the fillers' bids a cross-chain intent asks, in basis points"),
    ("rehearsal.size", "the amount of the native token that `bardo doctor --rehearse` swaps"),
    ("quotes.source", "the source of quotes: trading-api, sidecar or own"),
    ("quotes.api_url", "the URL of the Trading API, if not the public one"),
    ("quotes.sidecar_socket", "the Unix socket of the smart-order-router sidecar"),
    ("agents.gateways", "the gateways to IPFS that agents' files are read from; [] for none"),
    ("agents.https", "whether agents' files are read from the https servers that they name: true or false"),
    ("agents.upload", "the RPC API of the IPFS node that stores own agents' files; without it they are on the chain"),
    ("agents.subgraphs.NAME", "a subgraph of that chain's registries, which finds agents; the chain confirms them"),
    ("golem.name", "the Golem's name; each name has its own memory and playbook"),
    ("golem.goal", "the owner's goal, which every brain receives beside STRATEGY.md"),
    ("golem.brain", "the Golem's decision maker: scenario, operator, process:COMMAND or model"),
    ("golem.archetype", "the Golem's role, as in `bardo tools --archetype`, which determines its tools"),
    ("golem.lifespan_minutes", "the Golem's lifespan; it becomes more careful with age, and dies at the end"),
    ("golem.tick_seconds", "how often a process or a model is asked for its next action"),
    ("golem.patience_seconds", "how long to wait for its answer"),
    ("golem.calls", "tool calls that it may make in one run"),
    ("golem.read", "files and folders that a brain process may read, in addition to those that its command needs"),
    ("golem.write", "files and folders that it may also change"),
    ("golem.environment", "environment variables that it receives, by name"),
    ("golem.network", "whether it may use the network: true or false"),
    ("golem.allow_unisolated_brain", "whether it may run on real networks if the system cannot isolate it"),
    ("golem.model_url", "the URL of the model; https, or http on this machine"),
    ("golem.model_name", "the name of the model"),
    ("golem.model_style", "the API format: openai or anthropic"),
    ("golem.model_tokens", "tokens that the model may read and write in one run"),
    ("golem.model_reply_tokens", "tokens of one response of the model"),
    ("alerts.rules", "the conditions under which an alert is sent"),
    ("alerts.detail", "brief, or full for amounts, prices and reasons in alerts"),
    ("alerts.decision_seconds", "how long a decision waits before it is reported"),
    ("alerts.within_minutes", "the time within which a move of balance or price counts"),
    ("alerts.repeat_minutes", "how long the same alert is not repeated"),
    ("alerts.per_hour", "messages per channel and hour"),
    ("alerts.gas_below", "the amount of a chain's native token below which its gas runs low"),
    ("alerts.balance_percent", "the reported move of the value of all holdings, in percent"),
    ("alerts.price_percent", "the reported move of a token's price, in percent"),
    ("alerts.webhook_url", "the URL that alerts are posted to; https, or http on this machine"),
    ("alerts.webhook_secret_file", "the file with the webhook's signing secret"),
    ("alerts.telegram_chat", "the Telegram chat that receives alerts, by its number or @name"),
    ("alerts.telegram_token_file", "the file with the Telegram bot's token"),
    ("alerts.telegram_api_url", "the URL of a Bot API server of your own"),
    ("alerts.email_server", "the mail server that sends alerts, by its host name"),
    ("alerts.email_port", "its port, if not the usual one of its encryption"),
    ("alerts.email_tls", "its encryption: starttls, tls, or none on this machine"),
    ("alerts.email_user", "the user name on the mail server"),
    ("alerts.email_password_file", "the file with that user's password"),
    ("alerts.email_from", "the address that sends alerts"),
    ("alerts.email_to", "the addresses that receive alerts"),
    ("alerts.desktop", "whether this machine's desktop shows alerts: true or false"),
    ("prices.NAME.SYMBOL", "a fixed dollar price, for test networks without live price feeds"),
];

/// File that `bardo config init` writes: every key with its default or an example, commented out.
pub const TEMPLATE: &str = include_str!("template.toml");

const TOP: &[&str] = &[
    "agents",
    "network",
    "book",
    "allow_insecure_rpc",
    "trusted_entries",
    "data_dir",
    "log",
    "log_format",
    "account",
    "alerts",
    "on_death",
    "chains",
    "console",
    "golem",
    "intents",
    "keys",
    "order_type",
    "prices",
    "quotes",
    "rehearsal",
    "safety",
];
const QUOTES: &[&str] = &["source", "api_url", "sidecar_socket"];
const AGENTS: &[&str] = &["gateways", "https", "upload", "subgraphs"];
const INTENTS: &[&str] = &["margin_bps"];
const REHEARSAL: &[&str] = &["size"];
const CHAIN: &[&str] =
    &["rpc", "chain_id", "relay", "relay_status", "data_fee_oracle", "confirmations", "allow_insecure_rpc"];
/// Smallest and largest number of confirmations. Reorganisations deeper than the maximum are not expected to be
/// survived, and every confirmation would wait for it.
const CONFIRMATIONS: (u64, u64) = (1, 64);
const SAFETY: &[&str] =
    &["permit_seconds", "approval_timeout_seconds", "receipt_patience_seconds", "minimum_pool_depth_usd"];
const GOLEM: &[&str] = &[
    "name",
    "goal",
    "brain",
    "archetype",
    "lifespan_minutes",
    "tick_seconds",
    "patience_seconds",
    "calls",
    "read",
    "write",
    "environment",
    "network",
    "allow_unisolated_brain",
    "model_url",
    "model_name",
    "model_style",
    "model_tokens",
    "model_reply_tokens",
];
const CONSOLE: &[&str] = &["attention"];
/// Ways in which the console can call for attention.
const ATTENTION: &[&str] = &["none", "bell", "notify"];
/// Auctions that orders can be placed in.
const ORDER_TYPES: &[&str] = &["DUTCH_V2", "DUTCH_V3", "PRIORITY"];

/// Settings of the file.
#[derive(Debug, Default)]
pub(super) struct File {
    pub network: Option<Setting<String>>,
    pub book: Option<Setting<PathBuf>>,
    pub allow_insecure_rpc: Option<Setting<bool>>,
    pub trusted_entries: Vec<Setting<String>>,
    pub data_dir: Option<Setting<PathBuf>>,
    pub log: Option<Setting<String>>,
    pub log_format: Option<Setting<LogFormat>>,
    pub chains: BTreeMap<String, ChainSettings>,
    pub prices: BTreeMap<String, Setting<BTreeMap<String, Usd>>>,
    pub account: Option<Setting<String>>,
    pub on_death: Option<Setting<OnDeath>>,
    pub safety: SafetySettings,
    pub order_types: BTreeMap<String, Setting<String>>,
    pub intent_margin: Option<Setting<BasisPoints>>,
    pub rehearsal_size: Option<Setting<String>>,
    pub quotes: QuoteSettings,
    pub agents: AgentFileSettings,
    pub golem: GolemSettings,
    pub alerts: AlertSettings,
    pub attention: Option<Setting<String>>,
    pub keys: BTreeMap<String, Setting<String>>,
}

/// Returns true for digits with at most one point between them, of which one is not zero.
fn is_positive_decimal(text: &str) -> bool {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    digits(whole) && digits(fraction) && text.bytes().any(|byte| matches!(byte, b'1'..=b'9'))
}

/// Reads the file at `path`; `None` if it does not exist.
pub(super) fn read(path: &Path) -> Result<Option<File>, ConfigError> {
    let unreadable = |reason: String| ConfigError::Unreadable { path: path.to_owned(), reason };
    let text = match regular_file::read_text(path, MAX_BYTES) {
        Ok(text) => text,
        Err(error) => match error.kind() {
            ErrorKind::NotFound => return Ok(None),
            ErrorKind::FileTooLarge => {
                return Err(unreadable("larger than 1 MiB, so not a Bardo configuration".into()));
            }
            ErrorKind::InvalidData => return Err(unreadable("not valid UTF-8".into())),
            _ => return Err(unreadable(error.to_string())),
        },
    };
    Source { path, text: &text }.parse().map(Some)
}

struct Source<'a> {
    path: &'a Path,
    text: &'a str,
}

type Value<'i> = Spanned<DeValue<'i>>;

impl Source<'_> {
    fn parse(&self) -> Result<File, ConfigError> {
        let root = DeTable::parse(self.text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            self.fail(span, FileProblem::Syntax(SafeText::clean(error.message(), 200).to_string()))
        })?;
        let mut file = File::default();
        for (key, value) in root.get_ref() {
            let name: &str = key.get_ref();
            match name {
                "network" => {
                    file.network = Some(self.setting(value, self.string(name, value, "a string such as \"devnet\"")?))
                }
                "allow_insecure_rpc" => file.allow_insecure_rpc = Some(self.flag(name, value)?),
                "trusted_entries" => file.trusted_entries = self.texts(name, value)?,
                "book" => file.book = Some(self.setting(value, self.path_of(name, value)?)),
                "data_dir" => file.data_dir = Some(self.setting(value, self.path_of(name, value)?)),
                "log" => file.log = Some(self.setting(value, self.string(name, value, "a string such as \"info\"")?)),
                "log_format" => {
                    let text = self.string(name, value, "a string such as \"json\"")?;
                    let read = text
                        .parse()
                        .map_err(|error: UnknownLogFormat| self.bad(value.span(), name, &error.to_string()))?;
                    file.log_format = Some(self.setting(value, read));
                }
                "account" => {
                    file.account = Some(self.setting(value, self.string(name, value, "a key's name in quotes")?))
                }
                "on_death" => {
                    let text = self.string(name, value, "a string such as \"ask\"")?;
                    let read =
                        text.parse().map_err(|error: UnknownName| self.bad(value.span(), name, &error.to_string()))?;
                    file.on_death = Some(self.setting(value, read));
                }
                "safety" => file.safety = self.safety(value)?,
                "chains" => file.chains = self.chains(value)?,
                "prices" => file.prices = self.prices(value)?,
                "golem" => file.golem = self.golem(value)?,
                "alerts" => file.alerts = self.alerts(value)?,
                "console" => file.attention = self.attention(value)?,
                "keys" => file.keys = self.keys(value)?,
                "intents" => file.intent_margin = self.intents(value)?,
                "rehearsal" => file.rehearsal_size = self.rehearsal(value)?,
                "order_type" => file.order_types = self.order_types(value)?,
                "quotes" => file.quotes = self.quotes(value)?,
                "agents" => file.agents = self.agents(value)?,
                _ => return Err(self.unknown(key.span(), name, "at the top of the file", TOP)),
            }
        }
        Ok(file)
    }

    fn chains(&self, value: &Value<'_>) -> Result<BTreeMap<String, ChainSettings>, ConfigError> {
        let mut chains = BTreeMap::new();
        for (key, value) in self.table("chains", value, "a table such as [chains.sepolia]")? {
            let chain = SafeText::clean(key.get_ref(), 64).to_string().to_lowercase();
            let place = format!("chains.{chain}");
            let none = Setting { value: Vec::new(), origin: self.origin(key.span()) };
            let mut settings = ChainSettings::of_endpoints(none);
            for (key, value) in self.table(&place, value, "a table such as [chains.sepolia]")? {
                let name: &str = key.get_ref();
                let full = format!("{place}.{name}");
                match name {
                    "rpc" => settings.rpc = self.setting(value, self.endpoints(&full, value)?),
                    "relay" => settings.relay = Some(self.setting(value, self.endpoint(&full, value)?)),
                    "relay_status" => settings.relay_status = Some(self.setting(value, self.endpoint(&full, value)?)),
                    "allow_insecure_rpc" => settings.allow_insecure_rpc = Some(self.flag(&full, value)?),
                    "data_fee_oracle" => {
                        settings.data_fee_oracle = Some(self.setting(value, self.oracle(&full, value)?));
                    }
                    "chain_id" => settings.chain_id = Some(self.setting(value, self.whole_number(&full, value)?)),
                    "confirmations" => {
                        let (least, most) = CONFIRMATIONS;
                        let number = self.number(&full, value, "a whole number of blocks such as 12")?;
                        if number < least || number > most {
                            let reason = format!("{number} is out of range: use {least} to {most} blocks");
                            return Err(self.bad(value.span(), &full, &reason));
                        }
                        settings.confirmations = Some(self.setting(value, number));
                    }
                    _ => return Err(self.unknown(key.span(), name, &format!("in [{place}]"), CHAIN)),
                }
            }
            if chains.insert(chain.clone(), settings).is_some() {
                return Err(self.bad(key.span(), &place, "this chain has settings twice; keep one table"));
            }
        }
        Ok(chains)
    }

    fn prices(&self, value: &Value<'_>) -> Result<BTreeMap<String, Setting<BTreeMap<String, Usd>>>, ConfigError> {
        let mut prices = BTreeMap::new();
        for (key, value) in self.table("prices", value, "a table such as [prices.sepolia]")? {
            let chain = SafeText::clean(key.get_ref(), 64).to_string().to_lowercase();
            let place = format!("prices.{chain}");
            let mut by_symbol = BTreeMap::new();
            for (symbol, price) in self.table(&place, value, "a table such as [prices.sepolia]")? {
                let symbol = SafeText::clean(symbol.get_ref(), 64).to_string();
                let full = format!("{place}.{symbol}");
                // A string, because a TOML float has already lost digits at this point.
                let text = self.string(&full, price, "a string of dollars such as \"3400.00\"")?;
                let price_read =
                    text.parse::<Usd>().map_err(|error| self.bad(price.span(), &full, &error.to_string()))?;
                if price_read.is_zero() {
                    return Err(self.bad(
                        price.span(),
                        &full,
                        "a price of zero would make a token look worthless; remove the line if there is no price",
                    ));
                }
                by_symbol.insert(symbol, price_read);
            }
            prices.insert(chain, Setting { value: by_symbol, origin: self.origin(key.span()) });
        }
        Ok(prices)
    }

    fn order_types(&self, value: &Value<'_>) -> Result<BTreeMap<String, Setting<String>>, ConfigError> {
        let mut types = BTreeMap::new();
        for (key, value) in self.table("order_type", value, "a table such as [order_type]")? {
            let chain = SafeText::clean(key.get_ref(), 64).to_string().to_lowercase();
            let full = format!("order_type.{chain}");
            let text = self.string(&full, value, "a string such as \"DUTCH_V2\"")?.to_uppercase();
            if !ORDER_TYPES.contains(&text.as_str()) {
                return Err(self.bad(
                    value.span(),
                    &full,
                    &format!("not an auction type; known: {}", ORDER_TYPES.join(", ")),
                ));
            }
            types.insert(chain, self.setting(value, text));
        }
        Ok(types)
    }

    fn intents(&self, value: &Value<'_>) -> Result<Option<Setting<BasisPoints>>, ConfigError> {
        let mut margin = None;
        for (key, value) in self.table("intents", value, "a table: [intents]")? {
            let name: &str = key.get_ref();
            if name != "margin_bps" {
                return Err(self.unknown(key.span(), name, "in [intents]", INTENTS));
            }
            let full = "intents.margin_bps";
            let number = self.number(full, value, "a whole number of basis points such as 10")?;
            let most = MOST_INTENT_MARGIN.get();
            let points = u32::try_from(number).ok().and_then(|number| BasisPoints::new(number).ok());
            let points = points.filter(|points| *points <= MOST_INTENT_MARGIN).ok_or_else(|| {
                let reason = format!("{number} is out of range: fillers keep the margin; use 0 to {most}");
                self.bad(value.span(), full, &reason)
            })?;
            margin = Some(self.setting(value, points));
        }
        Ok(margin)
    }

    fn rehearsal(&self, value: &Value<'_>) -> Result<Option<Setting<String>>, ConfigError> {
        let mut size = None;
        for (key, value) in self.table("rehearsal", value, "a table: [rehearsal]")? {
            let name: &str = key.get_ref();
            if name != "size" {
                return Err(self.unknown(key.span(), name, "in [rehearsal]", REHEARSAL));
            }
            let full = "rehearsal.size";
            let text = self.string(full, value, "an amount in quotes such as \"0.01\"")?;
            if !is_positive_decimal(&text) {
                return Err(self.bad(value.span(), full, "not a positive amount such as \"0.01\""));
            }
            size = Some(self.setting(value, text));
        }
        Ok(size)
    }

    fn quotes(&self, value: &Value<'_>) -> Result<QuoteSettings, ConfigError> {
        let mut quotes = QuoteSettings::default();
        for (key, value) in self.table("quotes", value, "a table: [quotes]")? {
            let name: &str = key.get_ref();
            let full = format!("quotes.{name}");
            match name {
                "source" => {
                    let word = self.string(&full, value, "a string such as \"own\"")?;
                    let choice =
                        QuoteChoice::parse_name(&word).ok_or_else(|| self.bad(value.span(), &full, &choices()))?;
                    quotes.source = Some(self.setting(value, choice));
                }
                "api_url" => {
                    let url = self.string(&full, value, "a URL such as \"http://127.0.0.1:8547\"")?;
                    quotes.api_url = Some(self.setting(value, url));
                }
                "sidecar_socket" => quotes.sidecar_socket = Some(self.setting(value, self.path_of(&full, value)?)),
                _ => return Err(self.unknown(key.span(), name, "in [quotes]", QUOTES)),
            }
        }
        Ok(quotes)
    }

    fn agents(&self, value: &Value<'_>) -> Result<AgentFileSettings, ConfigError> {
        let mut agents = AgentFileSettings::default();
        for (key, value) in self.table("agents", value, "a table: [agents]")? {
            let name: &str = key.get_ref();
            let full = format!("agents.{name}");
            match name {
                "gateways" => {
                    let gateways = self.endpoints(&full, value)?;
                    if let Some(gateway) = gateways.iter().find(|gateway| gateway.is_insecure()) {
                        let reason = format!("{gateway} is not encrypted: expected https, or http on this machine");
                        return Err(self.bad(value.span(), &full, &reason));
                    }
                    agents.gateways = Some(self.setting(value, gateways));
                }
                "https" => agents.https = Some(self.flag(&full, value)?),
                "upload" => agents.upload = Some(self.setting(value, self.web_endpoint(&full, value)?)),
                "subgraphs" => {
                    for (chain, value) in self.table(&full, value, "a table: [agents.subgraphs]")? {
                        let chain: &str = chain.get_ref();
                        let url = self.web_endpoint(&format!("{full}.{chain}"), value)?;
                        agents.subgraphs.insert(chain.to_owned(), self.setting(value, url));
                    }
                }
                _ => return Err(self.unknown(key.span(), name, "in [agents]", AGENTS)),
            }
        }
        Ok(agents)
    }

    fn attention(&self, value: &Value<'_>) -> Result<Option<Setting<String>>, ConfigError> {
        let mut found = None;
        for (key, value) in self.table("console", value, "a table: [console]")? {
            let name: &str = key.get_ref();
            if name != "attention" {
                return Err(self.unknown(key.span(), name, "in [console]", CONSOLE));
            }
            let text = self.string("console.attention", value, "a string such as \"bell\"")?;
            if !ATTENTION.contains(&text.as_str()) {
                let reason = format!("unknown; use {}", ATTENTION.join(", "));
                return Err(self.bad(value.span(), "console.attention", &reason));
            }
            found = Some(self.setting(value, text));
        }
        Ok(found)
    }

    /// The console validates names and keys; here they are only text with a line number.
    fn keys(&self, value: &Value<'_>) -> Result<BTreeMap<String, Setting<String>>, ConfigError> {
        let mut keys = BTreeMap::new();
        for (key, value) in self.table("keys", value, "a table: [keys]")? {
            let name = SafeText::clean(key.get_ref(), 64).to_string();
            let text = self.string(&format!("keys.{name}"), value, "a string such as \"F2\"")?;
            keys.insert(name, self.setting(value, text));
        }
        Ok(keys)
    }

    fn flag(&self, key: &str, value: &Value<'_>) -> Result<Setting<bool>, ConfigError> {
        let found = value.get_ref().as_bool().ok_or_else(|| self.wrong_type(key, value, "true or false"))?;
        Ok(self.setting(value, found))
    }

    fn texts(&self, key: &str, value: &Value<'_>) -> Result<Vec<Setting<String>>, ConfigError> {
        const EXPECTED: &str = "a list of strings";
        let list = value.get_ref().as_array().ok_or_else(|| self.wrong_type(key, value, EXPECTED))?;
        list.iter().map(|entry| Ok(self.setting(entry, self.string(key, entry, EXPECTED)?))).collect()
    }

    fn endpoints(&self, key: &str, value: &Value<'_>) -> Result<Vec<RpcUrl>, ConfigError> {
        const EXPECTED: &str = "a list of URLs such as [\"http://127.0.0.1:8545\"]";
        let list = value.get_ref().as_array().ok_or_else(|| self.wrong_type(key, value, EXPECTED))?;
        list.iter()
            .map(|entry| {
                let text = self.string(key, entry, EXPECTED)?;
                RpcUrl::parse(&text).map_err(|error| self.bad(entry.span(), key, &error.to_string()))
            })
            .collect()
    }

    fn endpoint(&self, key: &str, value: &Value<'_>) -> Result<RpcUrl, ConfigError> {
        let text = self.string(key, value, "a URL such as \"https://relay.example\"")?;
        RpcUrl::parse(&text).map_err(|error| self.bad(value.span(), key, &error.to_string()))
    }

    /// Parses the address of a web service that is reached over https, or over http on this machine.
    fn web_endpoint(&self, key: &str, value: &Value<'_>) -> Result<RpcUrl, ConfigError> {
        let url = self.endpoint(key, value)?;
        if matches!(url.expose().scheme(), "ws" | "wss") || url.is_insecure() {
            return Err(self.bad(value.span(), key, "expected https, or http on this machine"));
        }
        Ok(url)
    }

    /// Parses the address of a contract, or `"none"`.
    fn oracle(&self, key: &str, value: &Value<'_>) -> Result<Option<Address>, ConfigError> {
        let text = self.string(key, value, "\"none\" or an address in quotes")?;
        if text == "none" {
            return Ok(None);
        }
        let address = text.parse().map_err(|_| self.bad(value.span(), key, "neither \"none\" nor an address"))?;
        Ok(Some(address))
    }

    fn safety(&self, value: &Value<'_>) -> Result<SafetySettings, ConfigError> {
        let mut safety = SafetySettings::default();
        for (key, value) in self.table("safety", value, "a table: [safety]")? {
            let name: &str = key.get_ref();
            let full = format!("safety.{name}");
            let seconds = SECONDS.iter().find(|(known, ..)| *known == name);
            match (seconds, safety.seconds_mut(name)) {
                (Some((_, _, least, most)), Some(setting)) => {
                    let number = self.number(&full, value, "a whole number of seconds such as 60")?;
                    if number < *least || number > *most {
                        let reason = format!("{number} is out of range: use {least} to {most} seconds");
                        return Err(self.bad(value.span(), &full, &reason));
                    }
                    *setting = self.setting(value, number);
                }
                _ if name == "minimum_pool_depth_usd" => {
                    let text = self.string(&full, value, "a string of dollars such as \"50000\"")?;
                    let depth =
                        text.parse::<Usd>().map_err(|error| self.bad(value.span(), &full, &error.to_string()))?;
                    if depth.is_zero() {
                        let reason = "a pool without depth is not a price source; anyone could set its price";
                        return Err(self.bad(value.span(), &full, reason));
                    }
                    safety.minimum_pool_depth_usd = self.setting(value, depth);
                }
                _ => return Err(self.unknown(key.span(), name, "in [safety]", SAFETY)),
            }
        }
        Ok(safety)
    }

    fn golem(&self, value: &Value<'_>) -> Result<GolemSettings, ConfigError> {
        let mut golem = GolemSettings::default();
        for (key, value) in self.table("golem", value, "a table: [golem]")? {
            let name: &str = key.get_ref();
            let full = format!("golem.{name}");
            let within = |least: u64, most: u64| {
                let number = self.number(&full, value, "a whole number such as 20")?;
                if number < least || number > most {
                    let reason = format!("{number} is out of range: use {least} to {most}");
                    return Err(self.bad(value.span(), &full, &reason));
                }
                Ok(self.setting(value, number))
            };
            let bounds = NUMBERS.iter().find(|(known, ..)| *known == name);
            if let (Some((_, _, least, most)), Some(setting)) = (bounds, golem.number_mut(name)) {
                *setting = within(*least, *most)?;
                continue;
            }
            let text = || self.string(&full, value, "a string in quotes");
            match name {
                "name" => {
                    let text = text()?;
                    golem_id(&text).map_err(|error| self.bad(value.span(), &full, &error.to_string()))?;
                    golem.name = self.setting(value, text);
                }
                "goal" => {
                    let text = text()?;
                    if text.chars().count() > MOST_GOAL {
                        let reason = format!("longer than {MOST_GOAL} characters; move the rest to STRATEGY.md");
                        return Err(self.bad(value.span(), &full, &reason));
                    }
                    golem.goal = Some(self.setting(value, SafeText::clean(&text, MOST_GOAL)));
                }
                "brain" => golem.brain = self.setting(value, text()?),
                "archetype" => golem.archetype = self.setting(value, text()?),
                "lifespan_minutes" => {
                    let (least, most) = LIFESPAN_MINUTES;
                    golem.lifespan_minutes = Some(within(least, most)?);
                }
                "read" => golem.read = self.setting(value, self.paths(&full, value)?),
                "write" => golem.write = self.setting(value, self.paths(&full, value)?),
                "environment" => golem.environment = self.setting(value, self.variables(&full, value)?),
                "network" => golem.network = self.setting(value, self.boolean(&full, value)?),
                "allow_unisolated_brain" => {
                    golem.allow_unisolated_brain = self.setting(value, self.boolean(&full, value)?);
                }
                "model_url" => golem.model_url = Some(self.setting(value, self.endpoint(&full, value)?)),
                "model_name" => golem.model_name = Some(self.setting(value, text()?)),
                "model_style" => {
                    let style = text()?;
                    if !MODEL_STYLES.contains(&style.as_str()) {
                        let reason = format!("unknown API format; known: {}", MODEL_STYLES.join(", "));
                        return Err(self.bad(value.span(), &full, &reason));
                    }
                    golem.model_style = self.setting(value, style);
                }
                _ => return Err(self.unknown(key.span(), name, "in [golem]", GOLEM)),
            }
        }
        Ok(golem)
    }

    fn table<'v, 'i>(
        &self,
        key: &str,
        value: &'v Value<'i>,
        expected: &'static str,
    ) -> Result<&'v DeTable<'i>, ConfigError> {
        value.get_ref().as_table().ok_or_else(|| self.wrong_type(key, value, expected))
    }

    fn string(&self, key: &str, value: &Value<'_>, expected: &'static str) -> Result<String, ConfigError> {
        let text = value.get_ref().as_str().ok_or_else(|| self.wrong_type(key, value, expected))?;
        if text.trim().is_empty() {
            return Err(self.bad(value.span(), key, "empty; remove the line to use the default"));
        }
        Ok(text.to_owned())
    }

    fn path_of(&self, key: &str, value: &Value<'_>) -> Result<PathBuf, ConfigError> {
        let text = self.string(key, value, "a path in quotes")?;
        paths::absolute(&text).map_err(|error| self.bad(value.span(), key, &error.to_string()))
    }

    fn paths(&self, key: &str, value: &Value<'_>) -> Result<Vec<PathBuf>, ConfigError> {
        self.list(key, value, "a list of paths: [\"/opt/models\"]")?.iter().map(|one| self.path_of(key, one)).collect()
    }

    fn variables(&self, key: &str, value: &Value<'_>) -> Result<Vec<String>, ConfigError> {
        let named = self.list(key, value, "a list of names: [\"HTTPS_PROXY\"]")?.iter().map(|one| {
            let name = self.string(key, one, "a variable's name in quotes")?;
            // Bardo's own variables hold passwords and keys.
            if name.to_uppercase().starts_with("BARDO_") || name.contains(['=', '\0']) {
                let reason = "not a variable that a brain may receive: use names other than BARDO_…";
                return Err(self.bad(one.span(), key, reason));
            }
            Ok(name)
        });
        named.collect()
    }

    fn list<'v, 'i>(
        &self,
        key: &str,
        value: &'v Value<'i>,
        expected: &'static str,
    ) -> Result<&'v [Value<'i>], ConfigError> {
        value.get_ref().as_array().map(|list| &**list).ok_or_else(|| self.wrong_type(key, value, expected))
    }

    fn boolean(&self, key: &str, value: &Value<'_>) -> Result<bool, ConfigError> {
        value.get_ref().as_bool().ok_or_else(|| self.wrong_type(key, value, "true or false"))
    }

    fn whole_number(&self, key: &str, value: &Value<'_>) -> Result<u64, ConfigError> {
        let number = self.number(key, value, "a whole number such as 11155111")?;
        if number == 0 {
            return Err(self.bad(value.span(), key, "not a chain id: a whole number above zero, such as 11155111"));
        }
        Ok(number)
    }

    fn number(&self, key: &str, value: &Value<'_>, expected: &'static str) -> Result<u64, ConfigError> {
        let number = value.get_ref().as_integer().ok_or_else(|| self.wrong_type(key, value, expected))?;
        u64::from_str_radix(&number.as_str().replace('_', ""), number.radix())
            .map_err(|_| self.bad(value.span(), key, &format!("not {expected}")))
    }

    fn setting<T>(&self, at: &Value<'_>, value: T) -> Setting<T> {
        Setting { value, origin: self.origin(at.span()) }
    }

    fn origin(&self, span: Range<usize>) -> SettingOrigin {
        SettingOrigin::File { line: self.line(span) }
    }

    /// Line on which `span` starts, counted from 1.
    fn line(&self, span: Range<usize>) -> usize {
        self.text.bytes().take(span.start).filter(|byte| *byte == b'\n').count() + 1
    }

    fn fail(&self, span: Range<usize>, problem: FileProblem) -> ConfigError {
        ConfigError::File { path: self.path.to_owned(), line: self.line(span), problem: Box::new(problem) }
    }

    fn bad(&self, span: Range<usize>, key: &str, reason: &str) -> ConfigError {
        self.fail(span, FileProblem::BadValue { key: key.to_owned(), reason: reason.to_owned() })
    }

    fn wrong_type(&self, key: &str, value: &Value<'_>, expected: &'static str) -> ConfigError {
        let found = match value.get_ref() {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "a whole number",
            DeValue::Float(_) => "a number with a point",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date or time",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        self.fail(value.span(), FileProblem::WrongType { key: key.to_owned(), expected, found })
    }

    fn unknown(&self, span: Range<usize>, key: &str, place: &str, known: &[&str]) -> ConfigError {
        self.fail(
            span,
            FileProblem::UnknownKey {
                key: SafeText::clean(key, 64).to_string(),
                place: place.to_owned(),
                nearest: nearest(key, known.iter().copied()).map(str::to_owned),
                known: known.join(", "),
            },
        )
    }
}
