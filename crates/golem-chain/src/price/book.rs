//! From a network's address book and the configuration to sources of prices.

use super::{FeedPrices, FeedSpec, FixedPriceError, FixedPrices, PriceChain, PriceSource, SequencerSpec};
use crate::{
    network::{Contract, Network, NetworkKind},
    provider::ChainClient,
};
use alloy::primitives::{Address, address};
use bardo_base::{
    clock::Clock,
    text::{SafeText, nearest},
    units::Usd,
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// Tokens whose feed does not bear their symbol: the pairs that price them, the closest first. A
/// wrapped coin that can lose its peg is priced by the coin only where it has no feed of its own;
/// bridged stables have no entry, since they have failed apart from what they stand for.
const PAIRS: &[(&str, &[&str])] = &[
    ("WETH", &["ETH / USD"]),
    ("WPOL", &["POL / USD", "MATIC / USD"]),
    ("WBTC", &["WBTC / USD", "BTC / USD"]),
    ("cbBTC", &["cbBTC / USD", "BTC / USD"]),
    ("cbETH", &["CBETH / USD"]),
];

/// Pairs of dollar coins, whose feeds speak once a day unless the price moves.
const DAILY: &[&str] = &["USDC / USD", "USDT / USD", "DAI / USD"];
const DAY: Duration = Duration::from_secs(86_400);
/// All others. Some feeds promise less; a price older than this is not one to trade a volatile
/// token on, whatever its feed promises.
const HOUR: Duration = Duration::from_secs(3_600);
/// On the devnet the price keeper speaks at least this often by the chain's time.
pub const DEVNET_HEARTBEAT: Duration = Duration::from_secs(300);
/// After a rollup's sequencer has returned, for as long as its operators advise.
const SEQUENCER_GRACE: Duration = Duration::from_secs(3_600);
/// Feeds on rollups' sequencers, by chain id (npm `@chainlink/mcp-server` 0.0.1-alpha.17).
const SEQUENCERS: &[(u64, Address)] = &[
    (8_453, address!("0xBCF85224fc0756B9Fa45aA7892530B47e10b6433")),
    (42_161, address!("0xFdB631F5EE196F0ed6FAa767959853A9F217697D")),
    (10, address!("0x371EAD81c9102C9BF4874A9075FFFf170F2Ee389")),
];

impl PriceChain {
    /// The sources of a chain: its feeds, then, on test networks, the operator's fixed prices by
    /// symbol or address.
    ///
    /// # Errors
    /// [`FixedPriceError`] where the fixed prices cannot be used.
    pub fn for_chain(
        client: &ChainClient,
        fixed: &BTreeMap<String, Usd>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, FixedPriceError> {
        let network = client.network();
        let mut sources: Vec<Arc<dyn PriceSource>> = Vec::new();
        let feeds = feed_specs(network);
        if let Some(multicall) = network.book.contract(Contract::Multicall3).filter(|_| !feeds.is_empty()) {
            let plain = FeedPrices::new(
                client.provider().clone(),
                multicall,
                feeds,
                sequencer(network.chain_id),
                max_block_age(network),
                clock,
            );
            sources.push(Arc::new(plain.witnessed_by(client.has_several_endpoints().then(|| client.agreed().clone()))));
        }
        if !fixed.is_empty() {
            sources.push(Arc::new(fixed_prices(network, fixed)?));
        }
        Ok(Self::new(sources))
    }
}

/// One feed for each token of the book that has one.
pub fn feed_specs(network: &Network) -> Vec<FeedSpec> {
    let wrapped = network.book.contract(Contract::WrappedNative);
    let listed = network.book.tokens().iter().map(|token| (token.symbol.as_str(), token.address));
    // The wrapped native token has the coin's price, under whatever symbol the book lists it, if at all.
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
                heartbeat: heartbeat(network.kind, &feed.pair),
            })
        })
        .collect()
}

/// Fixed prices by symbol or address.
///
/// # Errors
/// [`FixedPriceError`] for a network that is not a test network, a token the book does not know, or
/// a price of zero.
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
        // Feeds of test networks are kept up less eagerly, and no money depends on them.
        NetworkKind::Test => DAY,
        NetworkKind::Real => HOUR,
    }
}

fn sequencer(chain_id: u64) -> Option<SequencerSpec> {
    let (_, address) = SEQUENCERS.iter().find(|(id, _)| *id == chain_id)?;
    Some(SequencerSpec { address: *address, grace: SEQUENCER_GRACE })
}

/// The time of a devnet's blocks is its own; elsewhere a latest block older than this means that
/// the endpoint has stopped following the chain.
fn max_block_age(network: &Network) -> Option<Duration> {
    let block = Duration::from_millis(network.block_millis);
    (network.kind != NetworkKind::Devnet).then(|| block.saturating_mul(10).max(Duration::from_secs(60)))
}
