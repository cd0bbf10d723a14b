//! Creation of price sources from a network's address book and the configuration.

use super::{FeedPrices, FeedSpec, FixedPriceError, FixedPrices, PriceChain, PriceSource, SequencerSpec};
use crate::{
    network::{KnownContract, Network, NetworkKind},
    provider::ChainClient,
};
use alloy::primitives::{Address, address};
use bardo_base::{
    clock::Clock,
    text::{SafeText, nearest},
    units::Usd,
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// Price feeds of tokens whose feed does not carry their symbol, closest pair first. A wrapped token that can lose its
/// peg uses the underlying's feed only if it has no feed of its own. Bridged stablecoins have no entry, since they can
/// lose their peg while the original keeps it.
const PAIRS: &[(&str, &[&str])] = &[
    ("WETH", &["ETH / USD"]),
    ("WPOL", &["POL / USD", "MATIC / USD"]),
    ("WBTC", &["WBTC / USD", "BTC / USD"]),
    ("cbBTC", &["cbBTC / USD", "BTC / USD"]),
    ("cbETH", &["CBETH / USD"]),
];

/// Stablecoin pairs, whose feeds update once a day unless the price moves.
const DAILY: &[&str] = &["USDC / USD", "USDT / USD", "DAI / USD"];
const DAY: Duration = Duration::from_secs(86_400);
/// Heartbeat of all other feeds. Some feeds promise less, but an older price is not safe for trading a volatile token.
const HOUR: Duration = Duration::from_secs(3_600);
/// Maximum interval between the devnet price keeper's updates, in chain time.
pub const DEVNET_HEARTBEAT: Duration = Duration::from_secs(300);
/// Waiting time after a sequencer restart, as the rollups' operators recommend.
const SEQUENCER_GRACE: Duration = Duration::from_secs(3_600);
/// Sequencer uptime feeds by chain id (npm `@chainlink/mcp-server` 0.0.1-alpha.17).
const SEQUENCERS: &[(u64, Address)] = &[
    (8_453, address!("0xBCF85224fc0756B9Fa45aA7892530B47e10b6433")),
    (42_161, address!("0xFdB631F5EE196F0ed6FAa767959853A9F217697D")),
    (10, address!("0x371EAD81c9102C9BF4874A9075FFFf170F2Ee389")),
];

impl PriceChain {
    /// Creates the price sources of a chain: its feeds, then the operator's fixed prices by symbol or address (test
    /// networks only).
    ///
    /// # Errors
    /// [`FixedPriceError`] if the fixed prices cannot be used.
    pub fn for_chain(
        client: &ChainClient,
        fixed: &BTreeMap<String, Usd>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, FixedPriceError> {
        let network = client.network();
        let mut sources: Vec<Arc<dyn PriceSource>> = Vec::new();
        let feeds = feed_specs(network);
        if let Some(multicall) = network.book.contract(KnownContract::Multicall3).filter(|_| !feeds.is_empty()) {
            let plain = FeedPrices::new(
                client.provider().clone(),
                multicall,
                feeds,
                sequencer(network.live().0),
                max_block_age(network),
                clock,
            );
            // Nobody updates the feeds of a rehearsal, and nobody moves its prices.
            let plain = plain.frozen_at(network.rehearses.map(|block| block.timestamp));
            sources.push(Arc::new(plain.witnessed_by(client.has_several_endpoints().then(|| client.agreed().clone()))));
        }
        if !fixed.is_empty() {
            sources.push(Arc::new(fixed_prices(network, fixed)?));
        }
        Ok(Self::new(sources))
    }
}

/// Feed specifications for all tokens of the book that have a feed.
pub fn feed_specs(network: &Network) -> Vec<FeedSpec> {
    let wrapped = network.book.contract(KnownContract::WrappedNative);
    let listed = network.book.tokens().iter().map(|token| (token.symbol.as_str(), token.address));
    // The wrapped native token has the native token's price, even if the book lists it under another symbol or not at
    // all.
    let native = wrapped.map(|address| (if network.native_symbol == "POL" { "WPOL" } else { "WETH" }, address));
    listed
        .filter(|(_, address)| Some(*address) != wrapped)
        .chain(native)
        .filter_map(|(symbol, token)| {
            let own = format!("{symbol} / USD");
            let pairs = PAIRS.iter().find(|(name, _)| *name == symbol).map(|(_, pairs)| *pairs);
            let feed = match pairs {
                Some(pairs) => pairs.iter().find_map(|pair| network.book.feed(pair)),
                None => network.book.feed(&own),
            }?;
            Some(FeedSpec {
                token,
                address: feed.address,
                pair: SafeText::clean(&feed.pair, 60),
                decimals: feed.decimals,
                heartbeat: heartbeat(network.live().1, &feed.pair),
            })
        })
        .collect()
}

/// Creates fixed prices by symbol or address.
///
/// # Errors
/// [`FixedPriceError`] for a network that is not a test network, a token that the book does not list, or a price of
/// zero.
pub fn fixed_prices(network: &Network, prices: &BTreeMap<String, Usd>) -> Result<FixedPrices, FixedPriceError> {
    let symbols = || network.book.tokens().iter().map(|token| token.symbol.as_str());
    let find = |name: &String| -> Result<Address, FixedPriceError> {
        let listed = network.book.tokens().iter().find(|token| token.symbol.eq_ignore_ascii_case(name));
        listed.map(|token| token.address).or_else(|| name.parse().ok()).ok_or_else(|| FixedPriceError::UnknownToken {
            asked: SafeText::clean(name, 60),
            network: network.name.clone(),
            nearest: nearest(name, symbols()).map(str::to_owned),
        })
    };
    let found: Result<Vec<_>, _> = prices.iter().map(|(name, usd)| Ok((find(name)?, *usd))).collect();
    FixedPrices::new(network.chain_id, network.kind != NetworkKind::Real, found?)
}

fn heartbeat(kind: NetworkKind, pair: &str) -> Duration {
    match kind {
        NetworkKind::Devnet => DEVNET_HEARTBEAT,
        NetworkKind::Test | NetworkKind::Real if DAILY.contains(&pair) => DAY,
        // Feeds of test networks are updated less often, and no money depends on them.
        NetworkKind::Test => DAY,
        NetworkKind::Real => HOUR,
    }
}

fn sequencer(chain_id: u64) -> Option<SequencerSpec> {
    let (_, address) = SEQUENCERS.iter().find(|(id, _)| *id == chain_id)?;
    Some(SequencerSpec { address: *address, grace: SEQUENCER_GRACE })
}

/// Maximum age of the latest block; an older one means that the endpoint has stopped following the chain. `None` for a
/// devnet, whose block times are its own.
fn max_block_age(network: &Network) -> Option<Duration> {
    let block = Duration::from_millis(network.block_millis);
    (network.kind != NetworkKind::Devnet).then(|| block.saturating_mul(10).max(Duration::from_secs(60)))
}
