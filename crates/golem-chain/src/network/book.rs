//! Address books: which contracts, tokens and price feeds stand at which addresses of one chain.
//!
//! The bundled ones come from `assets/networks/addresses.json`, which names its sources and what was left out
//! of them and why.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use alloy::primitives::{Address, B256};
use serde::{Deserialize, Serialize};

use bardo_base::model::SpenderRole;

pub use bardo_base::contracts::{Contract, NoSpender};

/// What an address book knows of an address that is to take tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BookSpender {
    /// Not in the book.
    Unknown,
    /// A contract that takes tokens in this role.
    Takes(SpenderRole),
    /// An entry that must never get an allowance.
    Never {
        /// Its name.
        name: String,
        /// Why not.
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
    /// One contract for all pools: recognised, not routed.
    V4,
}

/// A token of the bundled list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BookToken {
    /// The symbol it is asked for with.
    pub symbol: String,
    /// Its name.
    pub name: String,
    /// Decimals, compared with the chain's before use.
    pub decimals: u8,
    /// Where it is.
    pub address: Address,
}

/// A Chainlink price feed, or the devnet's contract with the same interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feed {
    /// What it prices, as its `description()` says: `ETH / USD`.
    pub pair: String,
    /// Its proxy.
    pub address: Address,
    /// Decimals of its answers.
    pub decimals: u8,
}

/// What stands where on one chain.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AddressBook {
    contracts: BTreeMap<Contract, Address>,
    others: BTreeMap<String, Address>,
    tokens: Vec<BookToken>,
    feeds: Vec<Feed>,
    code_hashes: BTreeMap<Contract, B256>,
}

impl AddressBook {
    /// The address of a contract, if this chain has it.
    pub fn contract(&self, contract: Contract) -> Option<Address> {
        self.contracts.get(&contract).copied()
    }

    /// What a contract's code must hash to (`keccak256` of what the chain keeps), where that is known. Contracts that
    /// settle what was only signed are not believed without it.
    pub fn code_hash(&self, contract: Contract) -> Option<B256> {
        self.code_hashes.get(&contract).copied()
    }

    /// Says what a contract's code must hash to; a key that names no role is left out.
    pub fn set_code_hash(&mut self, key: &str, hash: B256) {
        if let Some(contract) = Contract::from_key(key) {
            self.code_hashes.insert(contract, hash);
        }
    }

    /// All known contracts.
    pub fn contracts(&self) -> impl Iterator<Item = (Contract, Address)> + '_ {
        self.contracts.iter().map(|(contract, address)| (*contract, *address))
    }

    /// Contracts without a role of their own, by the name their describer gave them.
    pub fn others(&self) -> impl Iterator<Item = (&str, Address)> + '_ {
        self.others.iter().map(|(name, address)| (name.as_str(), *address))
    }

    /// Which role an address plays, for labels: a contract's role or a describer's name for it.
    pub fn label(&self, address: Address) -> Option<String> {
        let role = self.contracts.iter().find(|(_, at)| **at == address).map(|(contract, _)| contract.key());
        role.or_else(|| self.others.iter().find(|(_, at)| **at == address).map(|(name, _)| name.clone()))
    }

    /// The same in words, for screens and questions: a contract's name, a token's symbol, or a describer's name for it.
    pub fn name_of(&self, address: Address) -> Option<String> {
        let token = self.tokens.iter().find(|token| token.address == address).map(|token| token.symbol.clone());
        let role = || self.contracts.iter().find(|(_, at)| **at == address).map(|(contract, _)| contract.name());
        token.or_else(|| role().map(str::to_owned)).or_else(|| self.label(address))
    }

    /// What an address may take tokens for. Where it plays several roles the strictest holds. What a bundled book of any
    /// network says must never take is refused here too: such contracts stand at one address on many chains.
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

    /// The name of the entry at an address that must not be sent tokens or coins: none of the book's contracts, tokens and
    /// feeds belongs to anyone who could send them back. `None` for an address that is in no book.
    pub fn swallows(&self, address: Address) -> Option<String> {
        let feed = || self.feeds.iter().find(|feed| feed.address == address).map(|feed| feed.pair.clone());
        let bundled = || bundled_never(address).map(|(name, _)| name.to_owned());
        self.name_of(address).or_else(feed).or_else(bundled)
    }

    /// The bundled or described tokens.
    pub fn tokens(&self) -> &[BookToken] {
        &self.tokens
    }

    /// The price feeds.
    pub fn feeds(&self) -> &[Feed] {
        &self.feeds
    }

    /// The feed of a pair, named as `ETH / USD`.
    pub fn feed(&self, pair: &str) -> Option<&Feed> {
        self.feeds.iter().find(|feed| feed.pair == pair)
    }

    /// The Uniswap versions that can be worked with here, by which contracts are known.
    pub fn uniswap_versions(&self) -> Vec<UniswapVersion> {
        let has = |contract| self.contracts.contains_key(&contract);
        [
            (UniswapVersion::V2, has(Contract::V2Factory) && has(Contract::V2Router)),
            (UniswapVersion::V3, has(Contract::V3Factory) && has(Contract::QuoterV2)),
            (UniswapVersion::V4, has(Contract::V4PoolManager) && has(Contract::V4PositionManager)),
        ]
        .into_iter()
        .filter_map(|(version, there)| there.then_some(version))
        .collect()
    }

    /// Sets a contract by its key; a key that names no known role is kept under its own name.
    pub fn set(&mut self, key: &str, address: Address) {
        match Contract::from_key(key) {
            Some(contract) => {
                self.contracts.insert(contract, address);
            }
            None => {
                self.others.insert(key.to_owned(), address);
            }
        }
    }

    /// Adds a token, replacing one of the same symbol.
    pub fn set_token(&mut self, token: BookToken) {
        self.tokens.retain(|known| known.symbol != token.symbol);
        self.tokens.push(token);
    }

    /// Adds a feed, replacing one of the same pair.
    pub fn set_feed(&mut self, feed: Feed) {
        self.feeds.retain(|known| known.pair != feed.pair);
        self.feeds.push(feed);
    }
}

/// One network of the bundled file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Bundled {
    chain_id: u64,
    contracts: BTreeMap<Contract, Address>,
    tokens: Vec<BookToken>,
    feeds: Vec<Feed>,
}

/// Tests parse the same constant, so it cannot fail to parse in a build that passed them.
static BUNDLED: LazyLock<BTreeMap<String, Bundled>> = LazyLock::new(|| parse_bundled().unwrap_or_default());

fn parse_bundled() -> serde_json::Result<BTreeMap<String, Bundled>> {
    #[derive(Deserialize)]
    struct File {
        networks: BTreeMap<String, Bundled>,
    }
    serde_json::from_str::<File>(include_str!("../../../../assets/networks/addresses.json")).map(|file| file.networks)
}

/// The bundled book of a network, empty if there is none under this name and id.
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

/// The role of an address that a bundled book of any network lists, where no bundled book lets it take tokens.
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
