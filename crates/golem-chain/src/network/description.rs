//! Self-description of `bardo devnet`: one JSON object, on the first line of its output and as the result of
//! `bardo_describe`. Another Bardo builds its address book from it.

use std::collections::BTreeMap;

use alloy::primitives::{Address, B256};
use serde::{Deserialize, Serialize};

use super::{AddressBook, BookToken, DEVNET_BASE, DEVNET_ETHEREUM, LiveBlock, Network, PriceFeed, by_id};
use bardo_base::id::InstanceId;
use bardo_base::text::SafeText;

/// Maximum length of a name or symbol in a description, in characters.
const MAX_NAME: usize = 40;

/// Chains and services of one devnet or address book file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NetworkDescription {
    /// The chains, default one first.
    pub chains: Vec<ChainDescription>,
    /// Identity of the devnet instance, so that stored data of one instance is never used for another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<InstanceId>,
    /// Base URL of the order service; `None` if it does not run.
    #[serde(default)]
    pub order_service: Option<String>,
    /// Base URL of the intent service; `None` if it does not run.
    #[serde(default)]
    pub intent_service: Option<String>,
}

/// One chain of a [`NetworkDescription`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ChainDescription {
    /// Name with which users select the chain.
    pub name: String,
    /// EIP-155 chain id.
    pub chain_id: u64,
    /// JSON-RPC URL of the chain.
    #[serde(default)]
    pub rpc: String,
    /// Contract addresses by the key of their [`super::KnownContract`] or by any other name.
    #[serde(default)]
    pub contracts: BTreeMap<String, Address>,
    /// Expected code hashes by the same keys, for contracts that settle signed orders.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub code_hashes: BTreeMap<String, B256>,
    /// Tokens by symbol.
    #[serde(default)]
    pub tokens: BTreeMap<String, DescribedToken>,
    /// Price feeds by pair, such as `ETH / USD`.
    #[serde(default)]
    pub feeds: BTreeMap<String, DescribedFeed>,
    /// Funded accounts; on a devnet those of the well-known development mnemonic.
    #[serde(default)]
    pub accounts: Vec<Address>,
    /// Block of a live network that this chain continues from; absent for any other chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rehearses: Option<LiveBlock>,
}

/// A token of a [`ChainDescription`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DescribedToken {
    /// Address of the token contract.
    pub address: Address,
    /// Decimals of the token.
    pub decimals: u8,
    /// Full name of the token; the symbol is used if empty.
    #[serde(default)]
    pub name: String,
}

/// A price feed of a [`ChainDescription`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DescribedFeed {
    /// Address of the feed contract.
    pub address: Address,
    /// Decimals of the feed's answers.
    pub decimals: u8,
}

/// Error for a description that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DescriptionError {
    /// The text is not the expected JSON object.
    #[error("not an address book: {0}; it must be the JSON object that `bardo devnet` prints on its first line")]
    Json(SafeText),
    /// The description lists no chain.
    #[error("the address book names no chain")]
    Empty,
    /// A chain name that is too long, does not start with a lowercase letter, or has other characters than lowercase
    /// letters, digits and dashes.
    #[error("'{0}' is not a usable name: use up to {MAX_NAME} letters, digits and dashes")]
    Name(SafeText),
    /// Two chains have the same name or id.
    #[error("the address book lists chain {0} twice")]
    Twice(String),
    /// A chain has the id 0.
    #[error("chain '{0}' has id 0")]
    NoId(String),
    /// A symbol or pair that is not printable, or is too long.
    #[error(
        "chain '{chain}' lists a token or feed named '{name}', which is not printable text of up to {MAX_NAME} characters"
    )]
    Symbol {
        /// Name of the chain.
        chain: String,
        /// The sanitised symbol or pair.
        name: SafeText,
    },
    /// A contract, token or feed at the zero address.
    #[error("chain '{chain}' has '{name}' at the zero address")]
    ZeroAddress {
        /// Name of the chain.
        chain: String,
        /// Sanitised name of the entry.
        name: SafeText,
    },
    /// More decimals than any honest token has.
    #[error("chain '{chain}' gives '{name}' impossible decimals: {decimals}")]
    Decimals {
        /// Name of the chain.
        chain: String,
        /// Sanitised name of the entry.
        name: SafeText,
        /// The refused number of decimals.
        decimals: u8,
    },
    /// An endpoint describes a chain that is not a devnet's.
    #[error(
        "an endpoint may describe devnet chains only (ids {DEVNET_ETHEREUM} and {DEVNET_BASE}), not {chain} ({chain_id}); if you trust it, give its description with --book FILE"
    )]
    NotADevnet {
        /// Name of the chain.
        chain: String,
        /// EIP-155 id of the chain.
        chain_id: u64,
    },
}

impl NetworkDescription {
    /// Parses and checks a description.
    ///
    /// # Errors
    /// A [`DescriptionError`]; an invalid description is refused as a whole.
    pub fn parse(json: &str) -> Result<Self, DescriptionError> {
        let description: Self = serde_json::from_str(json)
            .map_err(|error| DescriptionError::Json(SafeText::clean(&error.to_string(), 200)))?;
        description.check()?;
        Ok(description)
    }

    /// Checks the description; it may come from an untrusted source.
    fn check(&self) -> Result<(), DescriptionError> {
        if self.chains.is_empty() {
            return Err(DescriptionError::Empty);
        }
        for (index, chain) in self.chains.iter().enumerate() {
            chain.check()?;
            let earlier = self.chains.iter().take(index);
            if earlier.clone().any(|other| other.name == chain.name || other.chain_id == chain.chain_id) {
                return Err(DescriptionError::Twice(format!("{} ({})", chain.name, chain.chain_id)));
            }
        }
        Ok(())
    }

    /// Refuses a description that an endpoint gave of itself unless it describes a devnet. On a real chain the
    /// endpoint's operator could otherwise name the contracts that receive money.
    ///
    /// # Errors
    /// [`DescriptionError::NotADevnet`] for any chain id other than the devnet's.
    pub fn trust_as_devnet(&self) -> Result<(), DescriptionError> {
        match self.chains.iter().find(|chain| !matches!(chain.chain_id, DEVNET_ETHEREUM | DEVNET_BASE)) {
            Some(chain) => Err(DescriptionError::NotADevnet { chain: chain.name.clone(), chain_id: chain.chain_id }),
            None => Ok(()),
        }
    }

    /// Converts the described chains to networks.
    pub fn networks(&self) -> Vec<Network> {
        self.chains.iter().map(ChainDescription::network).collect()
    }
}

impl ChainDescription {
    /// Describes a network that runs on this machine. The server fills in its URL.
    pub fn of(network: &Network, accounts: &[Address]) -> Self {
        let book = &network.book;
        let roles = book.contracts().map(|(contract, address)| (contract.key(), address));
        let others = book.others().map(|(name, address)| (name.to_owned(), address));
        let token = |token: &BookToken| {
            let described =
                DescribedToken { address: token.address, decimals: token.decimals, name: token.name.clone() };
            (token.symbol.clone(), described)
        };
        let feed =
            |feed: &PriceFeed| (feed.pair.clone(), DescribedFeed { address: feed.address, decimals: feed.decimals });
        Self {
            name: network.name.clone(),
            chain_id: network.chain_id,
            rpc: String::new(),
            contracts: roles.chain(others).collect(),
            code_hashes: book.code_hashes().map(|(contract, hash)| (contract.key(), hash)).collect(),
            tokens: book.tokens().iter().map(token).collect(),
            feeds: book.feeds().iter().map(feed).collect(),
            accounts: accounts.to_vec(),
            rehearses: network.rehearses,
        }
    }

    /// Converts this chain to a network; its entries override the bundled ones if the id is known.
    pub fn network(&self) -> Network {
        let mut network = match by_id(self.chain_id) {
            Some(known) => known.clone(),
            None if matches!(self.chain_id, DEVNET_ETHEREUM | DEVNET_BASE) => {
                Network::devnet(&self.name, self.chain_id, AddressBook::default())
            }
            None => Network::unknown(&self.name, self.chain_id),
        };
        if let Some(block) = self.rehearses.filter(|_| network.kind == super::NetworkKind::Devnet) {
            let live = by_id(block.chain_id).cloned().unwrap_or_else(|| network.clone());
            network = Network { book: AddressBook::default(), ..Network::rehearsal(&live, self.chain_id, block) };
        }
        network.name.clone_from(&self.name);
        for (key, address) in &self.contracts {
            network.book.set(key, *address);
        }
        for (key, hash) in &self.code_hashes {
            network.book.set_code_hash(key, *hash);
        }
        for (symbol, token) in &self.tokens {
            network.book.set_token(BookToken {
                symbol: symbol.clone(),
                name: if token.name.is_empty() { symbol.clone() } else { token.name.clone() },
                decimals: token.decimals,
                address: token.address,
            });
        }
        for (pair, feed) in &self.feeds {
            network.book.set_feed(PriceFeed { pair: pair.clone(), address: feed.address, decimals: feed.decimals });
        }
        network
    }

    fn check(&self) -> Result<(), DescriptionError> {
        let usable = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if self.name.is_empty()
            || self.name.len() > MAX_NAME
            || !self.name.starts_with(|c: char| c.is_ascii_lowercase())
            || !self.name.chars().all(usable)
        {
            return Err(DescriptionError::Name(SafeText::clean(&self.name, MAX_NAME)));
        }
        if self.chain_id == 0 {
            return Err(DescriptionError::NoId(self.name.clone()));
        }
        let contracts = self.contracts.iter().map(|(name, address)| (name, *address, 0, ""));
        let tokens = self.tokens.iter().map(|(name, token)| (name, token.address, token.decimals, token.name.as_str()));
        let feeds = self.feeds.iter().map(|(name, feed)| (name, feed.address, feed.decimals, ""));
        for (name, address, decimals, long_name) in contracts.chain(tokens).chain(feeds) {
            let chain = self.name.clone();
            let clean = SafeText::clean(name, MAX_NAME);
            if clean.altered() || clean.is_empty() || SafeText::clean(long_name, 2 * MAX_NAME).altered() {
                return Err(DescriptionError::Symbol { chain, name: clean });
            }
            if address.is_zero() {
                return Err(DescriptionError::ZeroAddress { chain, name: clean });
            }
            if decimals > bardo_base::units::MAX_DECIMALS {
                return Err(DescriptionError::Decimals { chain, name: clean, decimals });
            }
        }
        Ok(())
    }
}
