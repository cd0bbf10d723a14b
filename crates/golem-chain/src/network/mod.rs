//! The networks Bardo knows: names, aliases, ids, address books, and what the configuration makes of them.
//!
//! Not here: connections (see `chain::provider`), what is read from a chain (see `chain::token`, `chain::price`).

mod book;
mod description;
mod overlay;
mod plan;

use std::{fmt, sync::LazyLock};

use alloy::primitives::{Address, address};

use crate::evm::SpecId;
use bardo_base::chains::known;
use bardo_base::clock::{CLOCK_TOLERANCE, Times};
use bardo_base::text::{SafeText, nearest};

pub use book::{AddressBook, BookSpender, BookToken, Contract, Feed, NoSpender, UniswapVersion, bundled_never};
pub use description::{ChainDescription, DescribedFeed, DescribedToken, Description, DescriptionError};
pub use overlay::{OverlayError, check as check_overlay};
pub use plan::{ChainPlan, Plan, PlanError, WrongChainId, read_book};

pub use bardo_base::chains::{DEVNET_BASE, DEVNET_ETHEREUM};

/// One chain: how it is called and what stands on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// The name it is asked for with.
    pub name: String,
    /// Other names for it.
    pub aliases: &'static [&'static str],
    /// EIP-155 chain id.
    pub chain_id: u64,
    /// The rules simulations run under. Rollups and chains nobody has described are held to Prague: what only newer
    /// rules allow then fails in the simulation, and nothing is signed on the strength of it.
    pub hardfork: SpecId,
    /// Whose money moves on it.
    pub kind: NetworkKind,
    /// Symbol of the coin that pays for gas; it has 18 decimals on every chain here.
    pub native_symbol: &'static str,
    /// Usual time between blocks in milliseconds.
    pub block_millis: u64,
    /// Where people look at transactions: `{explorer}/tx/{hash}`.
    pub explorer: Option<&'static str>,
    /// What is paid beside gas.
    pub data_fees: DataFees,
    /// Contracts, tokens and feeds.
    pub book: AddressBook,
}

/// What a chain asks for a transaction beside gas: some rollups ask for putting it on their base chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DataFees {
    /// Gas is all.
    None,
    /// This contract tells: the OP stack's GasPriceOracle
    /// ([specification](https://specs.optimism.io/protocol/predeploys.html#gaspriceoracle)).
    Oracle(Address),
    /// Nobody has said so yet: what is spent there cannot be bounded, so nothing is signed.
    Unknown,
}

/// Whose money moves on a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NetworkKind {
    /// In this process, or another Bardo's.
    Devnet,
    /// A public test network: coins without a price.
    Test,
    /// Real money. Also what is assumed of a chain Bardo does not know.
    Real,
}

/// A chain named in a way that fits none, or more than one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownChain {
    /// No such name or alias.
    #[error("unknown chain '{asked}'{}; known: {known}", nearest.as_ref().map(|near| format!(" (did you mean '{near}'?)")).unwrap_or_default())]
    Name {
        /// What was asked for.
        asked: SafeText,
        /// The name most like it.
        nearest: Option<String>,
        /// All names.
        known: String,
    },
    /// No chain has this id.
    #[error("no chain with id {id}; known: {known}")]
    Id {
        /// The id.
        id: u64,
        /// All names with their ids.
        known: String,
    },
    /// A number in another form than plain decimal.
    #[error("'{asked}' is not a chain id: write it in decimal, such as 8453")]
    NotDecimal {
        /// What was asked for.
        asked: SafeText,
    },
}

/// What is fixed about a network beyond its addresses and its name.
struct Facts {
    chain_id: u64,
    aliases: &'static [&'static str],
    hardfork: SpecId,
    kind: NetworkKind,
    native_symbol: &'static str,
    block_millis: u64,
}

#[rustfmt::skip]
const FACTS: &[Facts] = &[
    Facts { chain_id: 1,          aliases: &["eth", "mainnet"],                    hardfork: SpecId::OSAKA,  kind: NetworkKind::Real, native_symbol: "ETH", block_millis: 12_000 },
    Facts { chain_id: 8_453,      aliases: &["base-mainnet"],                      hardfork: SpecId::PRAGUE, kind: NetworkKind::Real, native_symbol: "ETH", block_millis: 2_000 },
    Facts { chain_id: 42_161,     aliases: &["arb", "arbitrum-one"],               hardfork: SpecId::PRAGUE, kind: NetworkKind::Real, native_symbol: "ETH", block_millis: 250 },
    Facts { chain_id: 10,         aliases: &["op", "op-mainnet"],                  hardfork: SpecId::PRAGUE, kind: NetworkKind::Real, native_symbol: "ETH", block_millis: 2_000 },
    Facts { chain_id: 137,        aliases: &["matic", "pol", "polygon-pos"],       hardfork: SpecId::PRAGUE, kind: NetworkKind::Real, native_symbol: "POL", block_millis: 2_000 },
    Facts { chain_id: 130,        aliases: &["uni"],                               hardfork: SpecId::PRAGUE, kind: NetworkKind::Real, native_symbol: "ETH", block_millis: 1_000 },
    Facts { chain_id: 11_155_111, aliases: &["eth-sepolia", "ethereum-sepolia"],   hardfork: SpecId::OSAKA,  kind: NetworkKind::Test, native_symbol: "ETH", block_millis: 12_000 },
    Facts { chain_id: 84_532,     aliases: &["basesepolia"],                       hardfork: SpecId::PRAGUE, kind: NetworkKind::Test, native_symbol: "ETH", block_millis: 2_000 },
];

/// Ids of the OP stack's rollups among them: optimism, unichain, base, base-sepolia.
const OP_STACK: [u64; 4] = [10, 130, 8_453, 84_532];

/// Where the OP stack keeps its GasPriceOracle.
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
        })
        .collect()
});

/// The named public networks with their bundled address books.
pub fn named() -> &'static [Network] {
    &NAMED
}

/// The named network with this id, if there is one.
pub fn by_id(chain_id: u64) -> Option<&'static Network> {
    named().iter().find(|network| network.chain_id == chain_id)
}

/// Finds one of `networks` by name, alias or decimal id.
///
/// The set decides what a name means: `ethereum` is chain 31337 among the devnet's chains and chain 1 among the
/// [`named`] ones.
///
/// # Errors
/// [`UnknownChain`] with the nearest name.
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

/// So many usual times between blocks may pass without a block before a chain's latest block counts as old.
const LATE_BLOCKS: u64 = 10;

impl Network {
    /// This machine's time beside the chain's, both in seconds since the Unix epoch.
    pub fn times(&self, machine: u64, chain: u64) -> Times {
        let late = self.block_millis.saturating_mul(LATE_BLOCKS) / 1_000;
        Times { machine, chain, tolerance: CLOCK_TOLERANCE.max(late) }
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
        }
    }

    /// A chain nobody has described to Bardo: real money until the opposite is known, and an empty book.
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
        }
    }

    /// The Uniswap versions whose contracts the address book has, oldest first.
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
