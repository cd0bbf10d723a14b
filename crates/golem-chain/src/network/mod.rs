//! The supported networks: names, aliases, ids, address books, and their combination with the configuration.
//!
//! Not here: connections (see `chain::provider`) and reads from a chain (see `chain::token`, `chain::price`).

mod book;
mod description;
mod overlay;
mod plan;

use std::{fmt, sync::LazyLock};

use alloy::primitives::{Address, B256, address};
use serde::{Deserialize, Serialize};

use crate::evm::SpecId;
use bardo_base::chains::known;
use bardo_base::clock::{BlockTimes, CLOCK_TOLERANCE};
use bardo_base::text::{SafeText, nearest};

pub use book::{
    AddressBook, BookSpender, BookToken, KnownContract, NoSpender, PriceFeed, UniswapVersion, bundled_never,
};
pub use description::{ChainDescription, DescribedFeed, DescribedToken, DescriptionError, NetworkDescription};
pub use overlay::{OverlayError, check as check_overlay};
pub use plan::{ChainPlan, NetworkPlan, NetworkPlanError, WrongChainId, read_book};

pub use bardo_base::chains::{DEVNET_BASE, DEVNET_ETHEREUM};

/// One chain: its names, properties and known contracts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// Primary name, with which users select the chain.
    pub name: String,
    /// Alternative names that select the same chain.
    pub aliases: &'static [&'static str],
    /// EIP-155 chain id.
    pub chain_id: u64,
    /// Hardfork for simulations. Rollups and unknown chains use Prague. Code that needs a newer hardfork then fails in
    /// the simulation and is not signed.
    pub hardfork: SpecId,
    /// Devnet, public test network or real money.
    pub kind: NetworkKind,
    /// Symbol of the native token that pays for gas; it has 18 decimals on every chain here.
    pub native_symbol: &'static str,
    /// Usual block interval, in milliseconds.
    pub block_millis: u64,
    /// Base URL of the block explorer: `{explorer}/tx/{hash}`.
    pub explorer: Option<&'static str>,
    /// Fees that a transaction pays in addition to gas.
    pub data_fees: DataFees,
    /// Known contracts, tokens and price feeds.
    pub book: AddressBook,
    /// Block of a live network that this local chain continues from; `None` for any other chain.
    pub rehearses: Option<LiveBlock>,
}

/// Block of a live network that a rehearsal continues from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveBlock {
    /// EIP-155 id of the live chain.
    pub chain_id: u64,
    /// Number of the block.
    pub number: u64,
    /// Hash of the block.
    pub hash: B256,
    /// Timestamp of the block, in seconds since the Unix epoch.
    pub timestamp: u64,
}

impl LiveBlock {
    /// Kind of the live network.
    pub fn kind(&self) -> NetworkKind {
        match self.chain_id {
            DEVNET_ETHEREUM | DEVNET_BASE => NetworkKind::Devnet,
            chain_id => by_id(chain_id).map_or(NetworkKind::Real, |network| network.kind),
        }
    }
}

/// Fee that a chain charges in addition to gas, such as a rollup's fee for posting data to its base chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DataFees {
    /// The chain charges gas only.
    None,
    /// A contract computes the fee: the OP stack's GasPriceOracle
    /// ([specification](https://specs.optimism.io/protocol/predeploys.html#gaspriceoracle)).
    Oracle(Address),
    /// Unknown, so the cost of a transaction cannot be bounded and nothing is signed.
    Unknown,
}

/// Kind of value that a network's native token has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NetworkKind {
    /// A devnet of this process or of another Bardo.
    Devnet,
    /// A public test network, whose native token has no price.
    Test,
    /// Real money. Unknown chains are assumed to be of this kind.
    Real,
}

/// Error for a chain name or id that selects none of the networks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownChain {
    /// No network has this name or alias.
    #[error("unknown chain '{asked}'{}; known: {known}", nearest.as_ref().map(|near| format!(" (did you mean '{near}'?)")).unwrap_or_default())]
    Name {
        /// The requested name.
        asked: SafeText,
        /// The most similar known name.
        nearest: Option<String>,
        /// All known names.
        known: String,
    },
    /// No network has this id.
    #[error("no chain with id {id}; known: {known}")]
    Id {
        /// The requested chain id.
        id: u64,
        /// All known names with their ids.
        known: String,
    },
    /// A number that is not in plain decimal notation.
    #[error("'{asked}' is not a chain id: write it in decimal, such as 8453")]
    NotDecimal {
        /// The requested name.
        asked: SafeText,
    },
}

/// Fixed properties of a network other than its addresses and its name.
struct NetworkProperties {
    chain_id: u64,
    aliases: &'static [&'static str],
    hardfork: SpecId,
    kind: NetworkKind,
    native_symbol: &'static str,
    block_millis: u64,
}

#[rustfmt::skip]
const FACTS: &[NetworkProperties] = &[
    NetworkProperties { chain_id: 1,          aliases: &["eth", "mainnet"],                    hardfork: SpecId::OSAKA,  kind: NetworkKind::Real, native_symbol: "ETH", block_millis: 12_000 },
    NetworkProperties { chain_id: 8_453,      aliases: &["base-mainnet"],                      hardfork: SpecId::PRAGUE, kind: NetworkKind::Real, native_symbol: "ETH", block_millis: 2_000 },
    NetworkProperties { chain_id: 42_161,     aliases: &["arb", "arbitrum-one"],               hardfork: SpecId::PRAGUE, kind: NetworkKind::Real, native_symbol: "ETH", block_millis: 250 },
    NetworkProperties { chain_id: 10,         aliases: &["op", "op-mainnet"],                  hardfork: SpecId::PRAGUE, kind: NetworkKind::Real, native_symbol: "ETH", block_millis: 2_000 },
    NetworkProperties { chain_id: 137,        aliases: &["matic", "pol", "polygon-pos"],       hardfork: SpecId::PRAGUE, kind: NetworkKind::Real, native_symbol: "POL", block_millis: 2_000 },
    NetworkProperties { chain_id: 130,        aliases: &["uni"],                               hardfork: SpecId::PRAGUE, kind: NetworkKind::Real, native_symbol: "ETH", block_millis: 1_000 },
    NetworkProperties { chain_id: 11_155_111, aliases: &["eth-sepolia", "ethereum-sepolia"],   hardfork: SpecId::OSAKA,  kind: NetworkKind::Test, native_symbol: "ETH", block_millis: 12_000 },
    NetworkProperties { chain_id: 84_532,     aliases: &["basesepolia"],                       hardfork: SpecId::PRAGUE, kind: NetworkKind::Test, native_symbol: "ETH", block_millis: 2_000 },
];

/// Ids of the OP stack rollups in `FACTS`: optimism, unichain, base, base-sepolia.
const OP_STACK: [u64; 4] = [10, 130, 8_453, 84_532];

/// Predeploy address of the OP stack's GasPriceOracle.
const GAS_PRICE_ORACLE: Address = address!("420000000000000000000000000000000000000F");

static NAMED: LazyLock<Vec<Network>> = LazyLock::new(|| {
    FACTS
        .iter()
        .filter_map(|facts| Some((facts, known(facts.chain_id)?)))
        .map(|(facts, chain)| Network {
            name: chain.name.to_owned(),
            aliases: facts.aliases,
            chain_id: facts.chain_id,
            hardfork: facts.hardfork,
            kind: facts.kind,
            native_symbol: facts.native_symbol,
            block_millis: facts.block_millis,
            explorer: Some(chain.explorer),
            data_fees: match OP_STACK.contains(&facts.chain_id) {
                true => DataFees::Oracle(GAS_PRICE_ORACLE),
                false => DataFees::None,
            },
            book: book::bundled(chain.name, facts.chain_id),
            rehearses: None,
        })
        .collect()
});

/// The named public networks with their bundled address books.
pub fn named() -> &'static [Network] {
    &NAMED
}

/// The named network with this id; `None` if there is none.
pub fn by_id(chain_id: u64) -> Option<&'static Network> {
    named().iter().find(|network| network.chain_id == chain_id)
}

/// Finds one of `networks` by name, alias or decimal id.
///
/// The meaning of a name depends on `networks`: `ethereum` is chain 31337 among the devnet's chains and chain 1 among
/// the [`named`] ones.
///
/// # Errors
/// [`UnknownChain`], with the most similar name for an unknown one.
pub fn resolve<'a>(asked: &str, networks: &'a [Network]) -> Result<&'a Network, UnknownChain> {
    let lower = asked.trim().to_lowercase();
    let clean = || SafeText::clean(asked, 64);
    if let Some(network) = networks.iter().find(|network| network.answers_to(&lower)) {
        return Ok(network);
    }
    if lower.starts_with(|first: char| first.is_ascii_digit()) {
        let Some(id) = lower.parse::<u64>().ok().filter(|id| id.to_string() == lower) else {
            return Err(UnknownChain::NotDecimal { asked: clean() });
        };
        let known = networks.iter().map(|network| format!("{} ({})", network.name, network.chain_id));
        return networks
            .iter()
            .find(|network| network.chain_id == id)
            .ok_or_else(|| UnknownChain::Id { id, known: known.collect::<Vec<_>>().join(", ") });
    }
    let names = networks
        .iter()
        .flat_map(|network| std::iter::once(network.name.as_str()).chain(network.aliases.iter().copied()));
    Err(UnknownChain::Name {
        asked: clean(),
        nearest: nearest(&lower, names).map(str::to_owned),
        known: networks.iter().map(|network| network.name.as_str()).collect::<Vec<_>>().join(", "),
    })
}

/// Longest block interval of a rehearsal, in milliseconds, so that nobody waits for a slow live chain's pace.
const SLOWEST_REHEARSAL: u64 = 2_000;

/// Usual block times after which a chain's latest block counts as old.
const LATE_BLOCKS: u64 = 10;

impl Network {
    /// This machine's time beside the chain's, both in seconds since the Unix epoch.
    pub fn times(&self, machine: u64, chain: u64) -> BlockTimes {
        let late = self.block_millis.saturating_mul(LATE_BLOCKS) / 1_000;
        BlockTimes { machine, chain, tolerance: CLOCK_TOLERANCE.max(late) }
    }

    /// The devnet's chain with this id, with the given book.
    pub fn devnet(name: &str, chain_id: u64, book: AddressBook) -> Self {
        Self {
            name: name.to_owned(),
            aliases: match chain_id {
                DEVNET_ETHEREUM => &["eth", "devnet-ethereum"],
                DEVNET_BASE => &["devnet-base"],
                _ => &[],
            },
            chain_id,
            hardfork: SpecId::OSAKA,
            kind: NetworkKind::Devnet,
            native_symbol: "ETH",
            block_millis: if chain_id == DEVNET_BASE { 1_000 } else { 2_000 },
            explorer: None,
            data_fees: DataFees::None,
            book,
            rehearses: None,
        }
    }

    /// A local chain that continues from `block` of the `live` network under another id. Its native token is play
    /// money, and nothing beyond gas is charged.
    pub fn rehearsal(live: &Self, chain_id: u64, block: LiveBlock) -> Self {
        Self {
            chain_id,
            kind: NetworkKind::Devnet,
            block_millis: live.block_millis.min(SLOWEST_REHEARSAL),
            explorer: None,
            data_fees: DataFees::None,
            rehearses: Some(block),
            ..live.clone()
        }
    }

    /// Id and kind of the network whose contracts are on this chain: of the live one for a rehearsal.
    pub fn live(&self) -> (u64, NetworkKind) {
        self.rehearses.map_or((self.chain_id, self.kind), |block| (block.chain_id, block.kind()))
    }

    /// Creates a network for a chain without description: real money, unknown data fees, and an empty address book.
    pub fn unknown(name: &str, chain_id: u64) -> Self {
        Self {
            name: name.to_owned(),
            aliases: &[],
            chain_id,
            hardfork: SpecId::PRAGUE,
            kind: NetworkKind::Real,
            native_symbol: "ETH",
            block_millis: 12_000,
            explorer: None,
            data_fees: DataFees::Unknown,
            book: AddressBook::default(),
            rehearses: None,
        }
    }

    /// Uniswap versions whose contracts are in the address book, oldest first.
    pub fn uniswap_versions(&self) -> Vec<UniswapVersion> {
        self.book.uniswap_versions()
    }

    fn answers_to(&self, lower: &str) -> bool {
        self.name == lower || self.aliases.contains(&lower)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.chain_id)
    }
}

#[cfg(test)]
mod tests;
