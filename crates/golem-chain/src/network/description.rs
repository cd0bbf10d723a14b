//! What `bardo devnet` says of itself: one JSON object, on the first line of its output and as the answer to
//! `bardo_describe`. Another Bardo makes its address book from it.

use std::collections::BTreeMap;

use alloy::primitives::{Address, B256};
use serde::{Deserialize, Serialize};

use super::{AddressBook, BookToken, DEVNET_BASE, DEVNET_ETHEREUM, Feed, Network, by_id};
use bardo_base::id::InstanceId;
use bardo_base::text::SafeText;

/// The longest name or symbol taken from a description.
const MAX_NAME: usize = 40;

/// Chains and services that somebody serves.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Description {
    /// The chains, the default one first.
    pub chains: Vec<ChainDescription>,
    /// Which devnet this is, so that what is kept of one is never taken for another's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<InstanceId>,
    /// Base URL of the order service, where one runs.
    #[serde(default)]
    pub order_service: Option<String>,
    /// Base URL of the intent service, where one runs.
    #[serde(default)]
    pub intent_service: Option<String>,
}

/// One chain of a [`Description`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ChainDescription {
    /// The name it is asked for with.
    pub name: String,
    /// EIP-155 chain id.
    pub chain_id: u64,
    /// Where it answers JSON-RPC.
    #[serde(default)]
    pub rpc: String,
    /// Contracts by the key of their [`super::Contract`], or by any other name.
    #[serde(default)]
    pub contracts: BTreeMap<String, Address>,
    /// What the code of contracts hashes to, by the same keys, for those that settle what was only signed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub code_hashes: BTreeMap<String, B256>,
    /// Tokens by symbol.
    #[serde(default)]
    pub tokens: BTreeMap<String, DescribedToken>,
    /// Price feeds by pair, such as `ETH / USD`.
    #[serde(default)]
    pub feeds: BTreeMap<String, DescribedFeed>,
    /// Funded accounts, of the well-known development mnemonic on a devnet.
    #[serde(default)]
    pub accounts: Vec<Address>,
}

/// A token of a [`ChainDescription`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DescribedToken {
    /// Where it is.
    pub address: Address,
    /// Its decimals.
    pub decimals: u8,
    /// Its name.
    #[serde(default)]
    pub name: String,
}

/// A price feed of a [`ChainDescription`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DescribedFeed {
    /// Where it is.
    pub address: Address,
    /// Decimals of its answers.
    pub decimals: u8,
}

/// Why a description cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DescriptionError {
    /// Not the JSON it should be.
    #[error("not an address book: {0}; it must be the JSON object that `bardo devnet` prints on its first line")]
    Json(SafeText),
    /// No chain in it.
    #[error("the address book names no chain")]
    Empty,
    /// A name that cannot be typed.
    #[error("'{0}' is not a usable name: use up to {MAX_NAME} letters, digits and dashes")]
    Name(SafeText),
    /// Two chains of one name or id.
    #[error("the address book has chain {0} twice")]
    Twice(String),
    /// An id no chain has.
    #[error("chain '{0}' has id 0")]
    NoId(String),
    /// A symbol or pair with characters that cannot be seen, or far too long.
    #[error(
        "chain '{chain}' lists a token or feed named '{name}', which is not printable text of up to {MAX_NAME} characters"
    )]
    Symbol {
        /// The chain.
        chain: String,
        /// The name, cleaned.
        name: SafeText,
    },
    /// A contract or token at the zero address.
    #[error("chain '{chain}' has '{name}' at the zero address")]
    ZeroAddress {
        /// The chain.
        chain: String,
        /// The entry.
        name: SafeText,
    },
    /// Decimals no honest token has.
    #[error("chain '{chain}' gives '{name}' absurd decimals: {decimals}")]
    Decimals {
        /// The chain.
        chain: String,
        /// The entry.
        name: SafeText,
        /// The decimals.
        decimals: u8,
    },
    /// An endpoint that describes a chain other than a devnet's.
    #[error(
        "an endpoint may describe devnet chains only (ids {DEVNET_ETHEREUM} and {DEVNET_BASE}), not {chain} ({chain_id}); if you trust it, give its description with --book FILE"
    )]
    NotADevnet {
        /// The chain.
        chain: String,
        /// Its id.
        chain_id: u64,
    },
}

impl Description {
    /// Reads and checks a description.
    ///
    /// # Errors
    /// A [`DescriptionError`]; nothing of a bad one is used.
    pub fn parse(json: &str) -> Result<Self, DescriptionError> {
        let description: Self = serde_json::from_str(json)
            .map_err(|error| DescriptionError::Json(SafeText::clean(&error.to_string(), 200)))?;
        description.check()?;
        Ok(description)
    }

    /// Everything that can be wrong in one, whoever made it.
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

    /// Refuses a description that an endpoint gave of itself, unless it is of a devnet: on a real chain whoever
    /// runs the endpoint could otherwise name the contracts that money is sent to.
    ///
    /// # Errors
    /// [`DescriptionError::NotADevnet`].
    pub fn trust_as_devnet(&self) -> Result<(), DescriptionError> {
        match self.chains.iter().find(|chain| !matches!(chain.chain_id, DEVNET_ETHEREUM | DEVNET_BASE)) {
            Some(chain) => Err(DescriptionError::NotADevnet { chain: chain.name.clone(), chain_id: chain.chain_id }),
            None => Ok(()),
        }
    }

    /// The described chains as networks.
    pub fn networks(&self) -> Vec<Network> {
        self.chains.iter().map(ChainDescription::network).collect()
    }
}

impl ChainDescription {
    /// This chain as a network: laid over the bundled entry where the id is a known one.
    pub fn network(&self) -> Network {
        let mut network = match by_id(self.chain_id) {
            Some(known) => known.clone(),
            None if matches!(self.chain_id, DEVNET_ETHEREUM | DEVNET_BASE) => {
                Network::devnet(&self.name, self.chain_id, AddressBook::default())
            }
            None => Network::unknown(&self.name, self.chain_id),
        };
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
            network.book.set_feed(Feed { pair: pair.clone(), address: feed.address, decimals: feed.decimals });
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
