//! Selection of the chains to use, from the configuration: looks up names, compares ids and reads address books.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::{
    AddressBook, DEVNET_BASE, DEVNET_ETHEREUM, DescriptionError, Network, NetworkDescription, OverlayError,
    UnknownChain, by_id, named, resolve,
};
use bardo_base::{
    config::{ChainSettings, Config, DEFAULT_NETWORK, ForkSettings, RpcUrl, SettingOrigin},
    regular_file,
    text::SafeText,
};

/// Maximum size of an address book file, in bytes.
const MAX_BOOK_BYTES: u64 = 4 << 20;

/// The chains to use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkPlan {
    /// Chains inside the process: the two of the devnet, or a rehearsal's.
    Devnet,
    /// Chains that are reached through endpoints.
    Endpoints(Vec<ChainPlan>),
}

/// One chain that is reached through endpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainPlan {
    /// Name of the known network, or else the configured name.
    pub name: String,
    /// Known properties, from `--book` or else from the table of named networks; `None` for an unknown chain.
    pub network: Option<Network>,
    /// Configured chain id, which every endpoint must return; `None` if the configuration sets none.
    pub chain_id: Option<u64>,
    /// Endpoint URLs in order of preference; never empty.
    pub endpoints: Vec<RpcUrl>,
}

/// Error for a configuration that selects no usable chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetworkPlanError {
    /// A chain name that is not known.
    #[error("{origin}: {source}")]
    Unknown {
        /// Source of the setting.
        origin: String,
        /// Cause, with the most similar known name.
        source: UnknownChain,
    },
    /// A chain without an endpoint.
    #[error(
        "no endpoint for {chain}: set {variable}, `rpc` in [chains.{chain}] of the config file, or --rpc {chain}=URL"
    )]
    NoEndpoint {
        /// Name of the chain.
        chain: String,
        /// Environment variable that would set the endpoint.
        variable: String,
    },
    /// The configured id differs from the chain's id.
    #[error(
        "{origin}: chain_id = {configured}, but {chain} has id {actual}; correct it, or choose another name for your chain"
    )]
    ConfiguredId {
        /// Source of the setting.
        origin: String,
        /// Name of the chain.
        chain: String,
        /// The configured chain id.
        configured: u64,
        /// The chain's actual id.
        actual: u64,
    },
    /// Two configured names select the same chain.
    #[error("'{first}' and '{second}' both mean {chain}; keep one of them")]
    Twice {
        /// First configured name.
        first: String,
        /// Second configured name.
        second: String,
        /// Name and id of the chain.
        chain: String,
    },
    /// The address book file cannot be read.
    #[error("address book {}: {reason}", path.display())]
    BookUnreadable {
        /// Path of the file.
        path: PathBuf,
        /// Cause of the failure.
        reason: SafeText,
    },
    /// The address book file contains an entry that is not allowed.
    #[error("address book {}: {source}", path.display())]
    Overlay {
        /// Path of the file.
        path: PathBuf,
        /// The refused entry and the reason.
        source: OverlayError,
    },
    /// The file is not a valid address book.
    #[error("address book {}: {source}", path.display())]
    Book {
        /// Path of the file.
        path: PathBuf,
        /// Cause of the failure.
        source: DescriptionError,
    },
}

/// Name of a configured chain, its settings, and its known properties.
type BundledChain<'a> = (&'a str, &'a ChainSettings, Option<Network>);

/// Error for an endpoint that belongs to another chain than the requested one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the endpoint of {chain} returns chain id {found}, but {chain} is {expected}; check the URL, or give your own \
     chain another name"
)]
pub struct WrongChainId {
    /// Name of the requested chain.
    pub chain: String,
    /// Acceptable chain ids, as text.
    pub expected: String,
    /// Chain id that the endpoint returned.
    pub found: u64,
}

impl ChainPlan {
    /// Determines the network of an endpoint that returned `found` as its chain id and `described` as its description.
    ///
    /// A description from the operator (`--book`) comes first, then a devnet's own description, then the table of named
    /// networks.
    ///
    /// # Errors
    /// [`WrongChainId`] if the configuration, the book or the name demands another id. The names of the devnet's chains
    /// also accept the devnet's ids.
    pub fn settle(&self, found: u64, described: Option<&NetworkDescription>) -> Result<Network, WrongChainId> {
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

impl NetworkPlan {
    /// Determines the chains that `config` selects.
    ///
    /// Endpoints given by `--rpc` take precedence; without any, the configured network is used.
    ///
    /// # Errors
    /// A [`NetworkPlanError`] that names the wrong setting and a correct alternative.
    pub fn from_config(config: &Config) -> Result<Self, NetworkPlanError> {
        if config.fork.is_some() {
            return Ok(Self::Devnet);
        }
        let (described, known) = find_all_chains(config)?;
        let from_flags: Vec<ChainPlan> = known
            .iter()
            .filter(|(_, settings, _)| matches!(settings.rpc.origin, SettingOrigin::Flag(_)))
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
        // A known network without an endpoint and an unknown name get different errors.
        let network = resolve(&asked, &described).or_else(|_| resolve(&asked, named())).map_err(|source| {
            NetworkPlanError::Unknown {
                origin: format!("network ({})", config.network.origin),
                source: with_devnet(source),
            }
        })?;
        Err(NetworkPlanError::NoEndpoint {
            chain: network.name.clone(),
            variable: format!("BARDO_RPC_{}", network.name.to_uppercase().replace('-', "_")),
        })
    }
}

impl ChainPlan {
    /// The live network that a rehearsal reads. `live` is the configuration for it (see `Config::live_of`). The plan
    /// has no endpoints if none is configured, which suffices for a cached block.
    ///
    /// # Errors
    /// As [`NetworkPlan::from_config`]; also for `devnet`, which is not a live network.
    pub fn live(live: &Config, fork: &ForkSettings) -> Result<Self, NetworkPlanError> {
        let unknown = |source| NetworkPlanError::Unknown { origin: "--fork".to_owned(), source };
        match NetworkPlan::from_config(live) {
            Ok(NetworkPlan::Endpoints(plans)) => {
                let named = |plan: &Self| {
                    let is_alias = |network: &Network| resolve(&fork.network, std::slice::from_ref(network)).is_ok();
                    plan.name == fork.network || plan.network.as_ref().is_some_and(is_alias)
                };
                let chosen = plans.into_iter().find(named);
                chosen.ok_or_else(|| NetworkPlanError::NoEndpoint {
                    chain: fork.network.clone(),
                    variable: format!("BARDO_RPC_{}", fork.network.to_uppercase().replace('-', "_")),
                })
            }
            Ok(NetworkPlan::Devnet) => {
                let known = named().iter().map(|network| network.name.as_str()).collect::<Vec<_>>().join(", ");
                let asked = SafeText::clean(&fork.network, 64);
                Err(unknown(UnknownChain::Name { asked, nearest: None, known }))
            }
            Err(NetworkPlanError::NoEndpoint { .. }) => {
                let (described, _) = find_all_chains(live)?;
                let network = resolve(&fork.network, &described).or_else(|_| resolve(&fork.network, named()));
                let network = network.map_err(unknown)?.clone();
                Ok(Self { name: network.name.clone(), network: Some(network), chain_id: None, endpoints: Vec::new() })
            }
            Err(error) => Err(error),
        }
    }

    /// All chains with endpoints, including those that are not selected.
    ///
    /// # Errors
    /// As [`NetworkPlan::from_config`].
    pub fn all(config: &Config) -> Result<Vec<Self>, NetworkPlanError> {
        let (_, known) = find_all_chains(config)?;
        let with_endpoints = known.into_iter().filter(|(_, settings, _)| !settings.rpc.value.is_empty());
        Ok(with_endpoints.map(|(name, settings, network)| chain_plan(name, settings, network)).collect())
    }
}

/// Returns the chains of the address book, and every configured chain. A misspelt chain name is an error.
fn find_all_chains(config: &Config) -> Result<(Vec<Network>, Vec<BundledChain<'_>>), NetworkPlanError> {
    let book = config.book.as_ref().map(|book| read_book(&book.value)).transpose()?;
    if let (Some(described), Some(file)) = (&book, &config.book) {
        let trusted: Vec<&str> = config.trusted_entries.iter().map(|entry| entry.value.as_str()).collect();
        super::check_overlay(described, &trusted)
            .map_err(|source| NetworkPlanError::Overlay { path: file.value.clone(), source })?;
    }
    let described = book.as_ref().map(NetworkDescription::networks).unwrap_or_default();
    let mut known: Vec<BundledChain<'_>> = Vec::new();
    for (name, settings) in &config.chains {
        let network = find_chain(name, settings, &described)?;
        if let Some(network) = &network {
            let same = |other: &Option<Network>| other.as_ref().is_some_and(|o| o.chain_id == network.chain_id);
            if let Some((first, ..)) = known.iter().find(|(_, _, other)| same(other)) {
                return Err(NetworkPlanError::Twice {
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

/// Reads an address book file in the format that `bardo devnet` prints.
///
/// # Errors
/// [`NetworkPlanError::BookUnreadable`] if the file cannot be read, [`NetworkPlanError::Book`] if it is not a valid
/// address book.
pub fn read_book(path: &Path) -> Result<NetworkDescription, NetworkPlanError> {
    let unreadable =
        |reason: &str| NetworkPlanError::BookUnreadable { path: path.to_owned(), reason: SafeText::clean(reason, 200) };
    let json = regular_file::read_text(path, MAX_BOOK_BYTES).map_err(|error| match error.kind() {
        ErrorKind::FileTooLarge => unreadable("not a file of at most 4 MiB"),
        _ => unreadable(&error.to_string()),
    })?;
    NetworkDescription::parse(&json).map_err(|source| NetworkPlanError::Book { path: path.to_owned(), source })
}

/// Known properties of a configured chain: from the book, else by name, else by its configured id.
///
/// An unknown name is allowed if the settings are sufficient: with an id, or from `--rpc`, whose endpoint returns the
/// id. Otherwise it counts as a misspelling.
fn find_chain(
    name: &str,
    settings: &ChainSettings,
    described: &[Network],
) -> Result<Option<Network>, NetworkPlanError> {
    let configured = settings.chain_id.as_ref();
    let found = match resolve(name, described).or_else(|_| resolve(name, named())) {
        Ok(network) => Some(network.clone()),
        Err(_) if configured.is_some() || matches!(settings.rpc.origin, SettingOrigin::Flag(_)) => None,
        Err(source) => {
            return Err(NetworkPlanError::Unknown { origin: format!("endpoints ({})", settings.rpc.origin), source });
        }
    };
    let Some(configured) = configured else {
        // `--rpc ethereum=URL` may point to a devnet or to the chain of that name; the endpoint's chain id decides.
        return Ok(found);
    };
    match found {
        Some(network) if network.chain_id == configured.value => Ok(Some(network)),
        // The devnet's chains have the names of real ones, so their ids are accepted too.
        _ if matches!(configured.value, DEVNET_ETHEREUM | DEVNET_BASE) => Ok(None),
        Some(network) => Err(NetworkPlanError::ConfiguredId {
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

/// Adds the devnet to the suggestions; it is a network but not one of the named chains.
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
