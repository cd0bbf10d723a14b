//! From the configuration to the chains that are to be worked on: names looked up, ids compared, books read.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::{
    AddressBook, DEVNET_BASE, DEVNET_ETHEREUM, Description, DescriptionError, Network, OverlayError, UnknownChain,
    by_id, named, resolve,
};
use bardo_base::{
    config::{ChainSettings, Config, DEFAULT_NETWORK, Origin, RpcUrl},
    regular_file,
    text::SafeText,
};

/// The largest address book file that is read.
const MAX_BOOK_BYTES: u64 = 4 << 20;

/// What is to be worked on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// The two chains inside the process.
    Devnet,
    /// Chains behind endpoints.
    Endpoints(Vec<ChainPlan>),
}

/// One chain behind endpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainPlan {
    /// The name it was asked for with, or the known network's own.
    pub name: String,
    /// What is known of it without asking an endpoint: from `--book`, else from the table of named networks.
    pub network: Option<Network>,
    /// The id every endpoint must answer; `None` where nothing says anything about it.
    pub chain_id: Option<u64>,
    /// Endpoints, the preferred one first; never empty.
    pub endpoints: Vec<RpcUrl>,
}

/// Why the configuration names nothing that could be worked on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A name that is no chain's.
    #[error("{origin}: {source}")]
    Unknown {
        /// Where the name was given.
        origin: String,
        /// Why it is none.
        source: UnknownChain,
    },
    /// A chain without an endpoint.
    #[error(
        "no endpoint for {chain}: set {variable}, `rpc` in [chains.{chain}] of the config file, or --rpc {chain}=URL"
    )]
    NoEndpoint {
        /// The chain.
        chain: String,
        /// The environment variable that would do.
        variable: String,
    },
    /// An id in the configuration that is not the chain's.
    #[error(
        "{origin}: chain_id = {configured}, but {chain} has id {actual}; correct it, or choose another name for your chain"
    )]
    ConfiguredId {
        /// Where it was set.
        origin: String,
        /// The chain.
        chain: String,
        /// What was set.
        configured: u64,
        /// What is right.
        actual: u64,
    },
    /// One chain under two names.
    #[error("'{first}' and '{second}' both mean {chain}; keep one of them")]
    Twice {
        /// One name.
        first: String,
        /// The other.
        second: String,
        /// The chain.
        chain: String,
    },
    /// The address book file cannot be read.
    #[error("address book {}: {reason}", path.display())]
    BookUnreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: SafeText,
    },
    /// The address book file says of a known chain what it may not.
    #[error("address book {}: {source}", path.display())]
    Overlay {
        /// The file.
        path: PathBuf,
        /// What.
        source: OverlayError,
    },
    /// The address book file is no address book.
    #[error("address book {}: {source}", path.display())]
    Book {
        /// The file.
        path: PathBuf,
        /// Why.
        source: DescriptionError,
    },
}

/// A chain's name in the configuration, its settings, and what is known of it.
type KnownChain<'a> = (&'a str, &'a ChainSettings, Option<Network>);

/// An endpoint of another chain than the one that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the endpoint of {chain} answers chain id {found}, but {chain} is {expected}; check the URL, or give your own chain a name of its own"
)]
pub struct WrongChainId {
    /// The chain that was asked for.
    pub chain: String,
    /// The ids it may have, in words.
    pub expected: String,
    /// The id that was answered.
    pub found: u64,
}

impl ChainPlan {
    /// The network behind an endpoint that answered `found` as its chain id and `described` of itself.
    ///
    /// What the operator says of it comes first (`--book`), then what a devnet says of itself, then the table.
    ///
    /// # Errors
    /// [`WrongChainId`] where the configuration, the book or the name says another id. The names of the devnet's
    /// chains also mean the devnet.
    pub fn settle(&self, found: u64, described: Option<&Description>) -> Result<Network, WrongChainId> {
        let devnet = match self.name.as_str() {
            "ethereum" => Some(DEVNET_ETHEREUM),
            "base" => Some(DEVNET_BASE),
            _ => None,
        };
        let wrong = |expected: String| WrongChainId { chain: self.name.clone(), expected, found };
        if let Some(configured) = self.chain_id.filter(|id| *id != found) {
            return Err(wrong(configured.to_string()));
        }
        if let Some(network) = self.network.as_ref().filter(|network| network.chain_id == found) {
            return Ok(network.clone());
        }
        if let Some(network) = &self.network
            && self.chain_id.is_none()
            && devnet != Some(found)
        {
            let or_devnet = devnet.map(|id| format!(" (or {id} on a devnet)")).unwrap_or_default();
            return Err(wrong(format!("{}{or_devnet}", network.chain_id)));
        }
        let says = described
            .filter(|description| description.trust_as_devnet().is_ok())
            .and_then(|description| description.chains.iter().find(|chain| chain.chain_id == found));
        let mut network = match says {
            Some(chain) => chain.network(),
            None if matches!(found, DEVNET_ETHEREUM | DEVNET_BASE) => {
                Network::devnet(&self.name, found, AddressBook::default())
            }
            None => by_id(found).cloned().unwrap_or_else(|| Network::unknown(&self.name, found)),
        };
        network.name.clone_from(&self.name);
        Ok(network)
    }
}

impl Plan {
    /// Looks up what `config` asks for.
    ///
    /// Endpoints given by `--rpc` are the network; without any, the network is the one that is named.
    ///
    /// # Errors
    /// A [`PlanError`] that says which setting is wrong and what would be right.
    pub fn from_config(config: &Config) -> Result<Self, PlanError> {
        let (described, known) = look_up_all(config)?;
        let from_flags: Vec<ChainPlan> = known
            .iter()
            .filter(|(_, settings, _)| matches!(settings.rpc.origin, Origin::Flag(_)))
            .map(|(name, settings, network)| chain_plan(name, settings, network.clone()))
            .collect();
        if !from_flags.is_empty() {
            return Ok(Self::Endpoints(from_flags));
        }
        if config.network.value.eq_ignore_ascii_case(DEFAULT_NETWORK) {
            return Ok(Self::Devnet);
        }

        let asked = config.network.value.trim().to_lowercase();
        let by_name = known.iter().find(|(name, _, network)| {
            *name == asked
                || network.as_ref().is_some_and(|network| resolve(&asked, std::slice::from_ref(network)).is_ok())
        });
        if let Some((name, settings, network)) = by_name
            && !settings.rpc.value.is_empty()
        {
            return Ok(Self::Endpoints(vec![chain_plan(name, settings, network.clone())]));
        }
        // Known but without an endpoint, or not known at all: either is worth its own words.
        let network = resolve(&asked, &described).or_else(|_| resolve(&asked, named())).map_err(|source| {
            PlanError::Unknown { origin: format!("network ({})", config.network.origin), source: with_devnet(source) }
        })?;
        Err(PlanError::NoEndpoint {
            chain: network.name.clone(),
            variable: format!("BARDO_RPC_{}", network.name.to_uppercase().replace('-', "_")),
        })
    }
}

impl ChainPlan {
    /// Every chain that has endpoints, whether it is to be worked on now or not.
    ///
    /// # Errors
    /// As [`Plan::from_config`].
    pub fn all(config: &Config) -> Result<Vec<Self>, PlanError> {
        let (_, known) = look_up_all(config)?;
        let with_endpoints = known.into_iter().filter(|(_, settings, _)| !settings.rpc.value.is_empty());
        Ok(with_endpoints.map(|(name, settings, network)| chain_plan(name, settings, network)).collect())
    }
}

/// The chains of the address book, and every chain with settings as its name, its settings, and what is known of
/// it. A misspelt one is an error and not ignored.
fn look_up_all(config: &Config) -> Result<(Vec<Network>, Vec<KnownChain<'_>>), PlanError> {
    let book = config.book.as_ref().map(|book| read_book(&book.value)).transpose()?;
    if let (Some(described), Some(file)) = (&book, &config.book) {
        let trusted: Vec<&str> = config.trusted_entries.iter().map(|entry| entry.value.as_str()).collect();
        super::check_overlay(described, &trusted)
            .map_err(|source| PlanError::Overlay { path: file.value.clone(), source })?;
    }
    let described = book.as_ref().map(Description::networks).unwrap_or_default();
    let mut known: Vec<KnownChain<'_>> = Vec::new();
    for (name, settings) in &config.chains {
        let network = look_up(name, settings, &described)?;
        if let Some(network) = &network {
            let same = |other: &Option<Network>| other.as_ref().is_some_and(|o| o.chain_id == network.chain_id);
            if let Some((first, ..)) = known.iter().find(|(_, _, other)| same(other)) {
                return Err(PlanError::Twice {
                    first: (*first).to_owned(),
                    second: name.clone(),
                    chain: network.to_string(),
                });
            }
        }
        known.push((name, settings, network));
    }
    Ok((described, known))
}

/// Reads an address book file, as `bardo devnet` prints one.
///
/// # Errors
/// [`PlanError::BookUnreadable`] or [`PlanError::Book`].
pub fn read_book(path: &Path) -> Result<Description, PlanError> {
    let unreadable =
        |reason: &str| PlanError::BookUnreadable { path: path.to_owned(), reason: SafeText::clean(reason, 200) };
    let json = regular_file::read_text(path, MAX_BOOK_BYTES).map_err(|error| match error.kind() {
        ErrorKind::FileTooLarge => unreadable("not a file of at most 4 MiB"),
        _ => unreadable(&error.to_string()),
    })?;
    Description::parse(&json).map_err(|source| PlanError::Book { path: path.to_owned(), source })
}

/// What is known of a chain that has settings: from the book, else by name, else by its configured id.
///
/// A name nobody knows is allowed where the settings can stand on their own: with an id, or from `--rpc`, whose
/// endpoint will be asked. Elsewhere it is taken for a misspelling.
fn look_up(name: &str, settings: &ChainSettings, described: &[Network]) -> Result<Option<Network>, PlanError> {
    let configured = settings.chain_id.as_ref();
    let found = match resolve(name, described).or_else(|_| resolve(name, named())) {
        Ok(network) => Some(network.clone()),
        Err(_) if configured.is_some() || matches!(settings.rpc.origin, Origin::Flag(_)) => None,
        Err(source) => {
            return Err(PlanError::Unknown { origin: format!("endpoints ({})", settings.rpc.origin), source });
        }
    };
    let Some(configured) = configured else {
        // `--rpc ethereum=URL` may point to a devnet as well as to the chain of that name: the endpoint says which.
        return Ok(found);
    };
    match found {
        Some(network) if network.chain_id == configured.value => Ok(Some(network)),
        // The devnet's chains bear the names of real ones; an id that says so is right.
        _ if matches!(configured.value, DEVNET_ETHEREUM | DEVNET_BASE) => Ok(None),
        Some(network) => Err(PlanError::ConfiguredId {
            origin: configured.origin.to_string(),
            chain: network.name,
            configured: configured.value,
            actual: network.chain_id,
        }),
        None => Ok(by_id(configured.value).cloned()),
    }
}

fn chain_plan(name: &str, settings: &ChainSettings, network: Option<Network>) -> ChainPlan {
    let configured = settings.chain_id.as_ref().map(|id| id.value);
    ChainPlan {
        name: network.as_ref().map_or_else(|| name.to_owned(), |network| network.name.clone()),
        chain_id: configured,
        network,
        endpoints: settings.rpc.value.clone(),
    }
}

/// The devnet is a network too, though not one of the named chains.
fn with_devnet(error: UnknownChain) -> UnknownChain {
    match error {
        UnknownChain::Name { asked, nearest, known } => {
            let nearest =
                nearest.or_else(|| bardo_base::text::nearest(asked.as_str(), [DEFAULT_NETWORK]).map(str::to_owned));
            UnknownChain::Name { asked, nearest, known: format!("{DEFAULT_NETWORK}, {known}") }
        }
        other => other,
    }
}
