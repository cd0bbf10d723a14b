//! Address books: the contracts, tokens and price feeds of one chain with their addresses.
//!
//! The bundled books come from `assets/networks/addresses.json`. That file names its sources, and lists the entries
//! that were left out with the reasons.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use alloy::primitives::{Address, B256};
use serde::{Deserialize, Serialize};

use bardo_base::model::SpenderRole;

pub use bardo_base::contracts::{KnownContract, NoSpender};

/// Result of looking up a token spender in the address book.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BookSpender {
    /// The address is not in the book.
    Unknown,
    /// A contract that takes tokens in this role.
    Takes(SpenderRole),
    /// An entry that must never get an allowance.
    Never {
        /// Display name of the entry.
        name: String,
        /// Reason for the refusal.
        why: NoSpender,
    },
}

/// A version of the Uniswap protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum UniswapVersion {
    /// Constant product, one pool per pair.
    V2,
    /// Concentrated liquidity in fee tiers.
    V3,
    /// One contract for all pools. Recognised, but not used for routing.
    V4,
}

/// A token of an address book.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BookToken {
    /// Symbol with which users select the token.
    pub symbol: String,
    /// Full name of the token.
    pub name: String,
    /// Decimals of the token; compared with the contract before use.
    pub decimals: u8,
    /// Address of the token contract.
    pub address: Address,
}

/// A Chainlink price feed, or the devnet's contract with the same interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PriceFeed {
    /// Pair as in the feed's `description()`, such as `ETH / USD`.
    pub pair: String,
    /// Address of the feed's proxy contract.
    pub address: Address,
    /// Decimals of the feed's answers.
    pub decimals: u8,
}

/// Symbols of the dollar stablecoins.
const STABLECOINS: [&str; 3] = ["USDC", "USDT", "DAI"];

/// Contracts, tokens and price feeds of one chain.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AddressBook {
    contracts: BTreeMap<KnownContract, Address>,
    others: BTreeMap<String, Address>,
    tokens: Vec<BookToken>,
    feeds: Vec<PriceFeed>,
    code_hashes: BTreeMap<KnownContract, B256>,
}

impl AddressBook {
    /// Address of a contract; `None` if the book does not list it.
    pub fn contract(&self, contract: KnownContract) -> Option<Address> {
        self.contracts.get(&contract).copied()
    }

    /// Expected code hash of a contract (`keccak256` of its deployed code), where known. Contracts that settle signed
    /// orders are not trusted without one.
    pub fn code_hash(&self, contract: KnownContract) -> Option<B256> {
        self.code_hashes.get(&contract).copied()
    }

    /// Expected code hashes by contract.
    pub fn code_hashes(&self) -> impl Iterator<Item = (KnownContract, B256)> + '_ {
        self.code_hashes.iter().map(|(contract, hash)| (*contract, *hash))
    }

    /// Sets the expected code hash of a contract; a key that names no role is ignored.
    pub fn set_code_hash(&mut self, key: &str, hash: B256) {
        if let Some(contract) = KnownContract::from_key(key) {
            self.code_hashes.insert(contract, hash);
        }
    }

    /// All contracts with a known role.
    pub fn contracts(&self) -> impl Iterator<Item = (KnownContract, Address)> + '_ {
        self.contracts.iter().map(|(contract, address)| (*contract, *address))
    }

    /// Contracts without a known role, by the name in their description.
    pub fn others(&self) -> impl Iterator<Item = (&str, Address)> + '_ {
        self.others.iter().map(|(name, address)| (name.as_str(), *address))
    }

    /// Key of an address for labels: its contract role, or its name in the description.
    pub fn label(&self, address: Address) -> Option<String> {
        let role = self.contracts.iter().find(|(_, at)| **at == address).map(|(contract, _)| contract.key());
        role.or_else(|| self.others.iter().find(|(_, at)| **at == address).map(|(name, _)| name.clone()))
    }

    /// Display name of an address for screens and approval requests: a token's symbol, a contract's name, or a name
    /// from the description.
    pub fn name_of(&self, address: Address) -> Option<String> {
        let token = self.tokens.iter().find(|token| token.address == address).map(|token| token.symbol.clone());
        let role = || self.contracts.iter().find(|(_, at)| **at == address).map(|(contract, _)| contract.name());
        token.or_else(|| role().map(str::to_owned)).or_else(|| self.label(address))
    }

    /// Looks up the role in which an address may take tokens. If it has several roles, the strictest applies. An
    /// address that the bundled book of any network refuses is refused here too, because such contracts have the same
    /// address on many chains.
    pub fn spender(&self, address: Address) -> BookSpender {
        let never = |name: &str, why| BookSpender::Never { name: name.to_owned(), why };
        if let Some((name, why)) = bundled_never(address) {
            return never(name, why);
        }
        let mut takes = None;
        for (contract, _) in self.contracts.iter().filter(|(_, at)| **at == address) {
            match contract.spender_role() {
                Ok(role) => takes = takes.max(Some(role)),
                Err(why) => return never(contract.name(), why),
            }
        }
        let listed = self.others.iter().find(|(_, at)| **at == address).map(|(name, _)| name.as_str());
        let token = || self.tokens.iter().find(|token| token.address == address).map(|token| token.symbol.as_str());
        let feed = || self.feeds.iter().find(|feed| feed.address == address).map(|feed| feed.pair.as_str());
        match (takes, listed.or_else(token).or_else(feed)) {
            (Some(role), _) => BookSpender::Takes(role),
            (None, Some(name)) => never(name, NoSpender::NeverTakes),
            (None, None) => BookSpender::Unknown,
        }
    }

    /// Name of the entry at an address that must not receive tokens or native tokens: no contract, token or feed of the
    /// book belongs to an owner who could return them. `None` if the address is in no book.
    pub fn swallows(&self, address: Address) -> Option<String> {
        let feed = || self.feeds.iter().find(|feed| feed.address == address).map(|feed| feed.pair.clone());
        let bundled = || bundled_never(address).map(|(name, _)| name.to_owned());
        self.name_of(address).or_else(feed).or_else(bundled)
    }

    /// The tokens of this chain.
    pub fn tokens(&self) -> &[BookToken] {
        &self.tokens
    }

    /// Listed token at an address.
    pub fn token_at(&self, address: Address) -> Option<&BookToken> {
        self.tokens.iter().find(|token| token.address == address)
    }

    /// Listed dollar stablecoins, in the order in which prices are quoted in them. They are exit assets: a sale into one
    /// is an exit, and none of them is sold in a flatten.
    pub fn stablecoins(&self) -> impl Iterator<Item = &BookToken> {
        STABLECOINS.iter().flat_map(|symbol| self.tokens.iter().filter(move |token| token.symbol == *symbol))
    }

    /// Returns true for a listed dollar stablecoin.
    pub fn is_stablecoin(&self, address: Address) -> bool {
        self.stablecoins().any(|token| token.address == address)
    }

    /// Symbol of a listed token, or the address of any other.
    pub fn symbol_at(&self, address: Address) -> String {
        self.token_at(address).map_or_else(|| address.to_string(), |token| token.symbol.clone())
    }

    /// Address of the token with this symbol, or else of the contract with this key or name.
    pub fn contract_named(&self, name: &str) -> Option<Address> {
        let token = self.tokens.iter().find(|token| token.symbol == name).map(|token| token.address);
        let role = || self.contracts().find(|(contract, _)| contract.key() == name).map(|(_, address)| address);
        let other = || self.others().find(|(known, _)| *known == name).map(|(_, address)| address);
        token.or_else(role).or_else(other)
    }

    /// The price feeds of this chain.
    pub fn feeds(&self) -> &[PriceFeed] {
        &self.feeds
    }

    /// The price feed of a pair such as `ETH / USD`.
    pub fn feed(&self, pair: &str) -> Option<&PriceFeed> {
        self.feeds.iter().find(|feed| feed.pair == pair)
    }

    /// Supported Uniswap versions, derived from the known contracts, oldest first.
    pub fn uniswap_versions(&self) -> Vec<UniswapVersion> {
        let has = |contract| self.contracts.contains_key(&contract);
        [
            (UniswapVersion::V2, has(KnownContract::V2Factory) && has(KnownContract::V2Router)),
            (UniswapVersion::V3, has(KnownContract::V3Factory) && has(KnownContract::QuoterV2)),
            (UniswapVersion::V4, has(KnownContract::V4PoolManager) && has(KnownContract::V4PositionManager)),
        ]
        .into_iter()
        .filter_map(|(version, there)| there.then_some(version))
        .collect()
    }

    /// Sets a contract address by key; a key that names no known role is kept under its own name.
    pub fn set(&mut self, key: &str, address: Address) {
        match KnownContract::from_key(key) {
            Some(contract) => {
                self.contracts.insert(contract, address);
            }
            None => {
                self.others.insert(key.to_owned(), address);
            }
        }
    }

    /// Adds a token and replaces an existing one with the same symbol.
    pub fn set_token(&mut self, token: BookToken) {
        self.tokens.retain(|known| known.symbol != token.symbol);
        self.tokens.push(token);
    }

    /// Adds a feed and replaces an existing one with the same pair.
    pub fn set_feed(&mut self, feed: PriceFeed) {
        self.feeds.retain(|known| known.pair != feed.pair);
        self.feeds.push(feed);
    }
}

/// One network of the bundled file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BundledNetwork {
    chain_id: u64,
    contracts: BTreeMap<KnownContract, Address>,
    tokens: Vec<BookToken>,
    feeds: Vec<PriceFeed>,
}

/// The unit tests parse this constant, so an empty default cannot occur in a tested build.
static BUNDLED: LazyLock<BTreeMap<String, BundledNetwork>> = LazyLock::new(|| parse_bundled().unwrap_or_default());

fn parse_bundled() -> serde_json::Result<BTreeMap<String, BundledNetwork>> {
    #[derive(Deserialize)]
    struct File {
        networks: BTreeMap<String, BundledNetwork>,
    }
    serde_json::from_str::<File>(include_str!("../../../../assets/networks/addresses.json")).map(|file| file.networks)
}

/// Bundled book of a network; empty if none exists under this name and id.
pub(super) fn bundled(name: &str, chain_id: u64) -> AddressBook {
    let found = BUNDLED.get(name).filter(|found| found.chain_id == chain_id);
    found.map_or_else(AddressBook::default, |found| AddressBook {
        code_hashes: BTreeMap::new(),
        contracts: found.contracts.clone(),
        others: BTreeMap::new(),
        tokens: found.tokens.clone(),
        feeds: found.feeds.clone(),
    })
}

/// Role of an address that some bundled book lists and that no bundled book lets take tokens.
pub fn bundled_never(address: Address) -> Option<(&'static str, NoSpender)> {
    static NEVER: LazyLock<BTreeMap<Address, (&'static str, NoSpender)>> = LazyLock::new(|| {
        let all = || BUNDLED.values().flat_map(|network| network.contracts.iter());
        let takes: BTreeSet<Address> =
            all().filter(|(role, _)| role.spender_role().is_ok()).map(|(_, at)| *at).collect();
        let never = all().filter_map(|(role, at)| role.spender_role().err().map(|why| (*at, (role.name(), why))));
        never.filter(|(at, _)| !takes.contains(at)).collect()
    });
    NEVER.get(&address).copied()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_bundled_file_parses() {
        assert_eq!(super::parse_bundled().unwrap().len(), 8);
    }
}
