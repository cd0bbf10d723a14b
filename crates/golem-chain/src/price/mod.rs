//! Token prices in dollars, each with its source and age. A missing price is reported as such, never as zero.
//!
//! A [`PriceSource`] is queried for several tokens at once and returns for each a [`Price`] or a [`NoPrice`] reason.
//! [`PriceChain`] queries sources in order and keeps every refusal, so that a missing price can be explained. Native
//! ether has the price of the chain's wrapped native token; the caller maps one to the other.
//!
//! Not here: prices from pools (TWAP, quotes), which need protocol knowledge, and the choice of the highest or lowest
//! of several prices, which belongs to the checks.

mod book;
mod feed;
mod fixed;
mod reader;
#[cfg(test)]
mod tests;

pub use book::{DEVNET_HEARTBEAT, feed_specs, fixed_prices};
pub use feed::{FeedPrices, FeedSpec, SequencerSpec};
pub use fixed::{FixedPriceError, FixedPrices};
pub use reader::PriceReader;

use super::provider::ProviderError;
use alloy::eips::BlockId;
use alloy::primitives::{Address, I256};
use alloy::providers::DynProvider;
use bardo_base::{format::dollars, text::SafeText, units::Usd};
use futures::future::BoxFuture;
use std::{fmt, sync::Arc, time::Duration};

/// Price of one whole token, with its source and time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Price {
    /// Dollars per whole token; always above zero.
    pub usd: Usd,
    /// Origin of the price.
    pub source: PriceOrigin,
    /// Time of the observation in chain time, in seconds since the Unix epoch. `None` for a price without a time, such
    /// as one from the configuration.
    pub observed_at: Option<u64>,
    /// Age of the observation at the block in which it was read.
    pub age: Option<Duration>,
}

/// Origin of a price.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PriceOrigin {
    /// A price feed contract.
    Feed {
        /// Address of the feed contract.
        address: Address,
        /// Pair of the feed, as checked on chain.
        pair: SafeText,
        /// The round that was read.
        round: u128,
    },
    /// The time-weighted average price of a pool.
    Twap {
        /// Address of the pool.
        pool: Address,
        /// Length of the averaging window.
        window: Duration,
    },
    /// A fixed price from the configuration, on a test network.
    Fixed,
}

impl PriceOrigin {
    /// Returns true for a market price; fixed prices are for rehearsals on test networks.
    pub fn is_live(&self) -> bool {
        matches!(self, Self::Feed { .. } | Self::Twap { .. })
    }
}

impl fmt::Display for PriceOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Feed { pair, .. } => write!(f, "feed {pair}"),
            Self::Twap { pool, window } => write!(f, "{} min mean of pool {pool}", window.as_secs() / 60),
            Self::Fixed => f.write_str("fixed test price"),
        }
    }
}

/// Reason why a source has no price.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoPrice {
    /// The source does not know the token.
    #[error("no entry for this token")]
    UnknownToken,
    /// The feed has not been updated within its maximum age.
    #[error("stale: updated {} s ago, at most {} s are accepted", age.as_secs(), limit.as_secs())]
    Stale {
        /// Age at the block in which the feed was read.
        age: Duration,
        /// Maximum accepted age.
        limit: Duration,
    },
    /// The latest block itself is old, so the endpoint has stopped following the chain.
    #[error("the latest block is {} s old, at most {} s are accepted", age.as_secs(), limit.as_secs())]
    OldBlock {
        /// Age of the block by the local clock.
        age: Duration,
        /// Maximum accepted age.
        limit: Duration,
    },
    /// The feed's answer is zero or negative.
    #[error("the feed returns {answer}, which is not a price")]
    NotPositive {
        /// Raw answer of the feed.
        answer: I256,
    },
    /// The answer is at the aggregator's lower or upper bound, so the market price may be anywhere beyond it.
    #[error("the feed returns {answer}, the bound of its aggregator's range ({min} to {max})")]
    AtBound {
        /// Raw answer of the feed.
        answer: I256,
        /// Lower bound, from the aggregator's `minAnswer()`.
        min: I256,
        /// Upper bound, from the aggregator's `maxAnswer()`.
        max: I256,
    },
    /// The answer is too large or too precise for a [`Usd`] value.
    #[error("the price cannot be represented in dollars")]
    OutOfRange,
    /// The latest round has no answer yet, or carries the answer of an earlier round.
    #[error("the feed's latest round is incomplete")]
    IncompleteRound,
    /// The feed's update time is after the block in which it was read.
    #[error("the feed's time is {} s after its block", by.as_secs())]
    FromTheFuture {
        /// Difference between the two times.
        by: Duration,
    },
    /// The contract is not the expected feed.
    #[error("wrong feed: expected \"{expected_pair}\" with {expected_decimals} decimals, found {found}")]
    WrongFeed {
        /// The expected pair.
        expected_pair: SafeText,
        /// The expected decimals.
        expected_decimals: u8,
        /// Pair and decimals that the contract reports.
        found: SafeText,
    },
    /// The contract reverts, or there is none at the address.
    #[error("the feed contract does not respond")]
    NoAnswer,
    /// The rollup's sequencer is down, so feeds may not be updated.
    #[error("the chain's sequencer is down")]
    SequencerDown,
    /// The sequencer has restarted only recently, so feeds may still carry an earlier price.
    #[error("the chain's sequencer resumed {} s ago; its prices count after {} s", since.as_secs(), grace.as_secs())]
    SequencerGrace {
        /// Time since the restart.
        since: Duration,
        /// Waiting time after a restart.
        grace: Duration,
    },
    /// The token's pools have too little liquidity.
    #[error(
        "only {} can be traded near the mean of its deepest pool; at least {} is needed",
        dollars(*depth),
        dollars(*minimum)
    )]
    TooShallow {
        /// Amount that can be traded within 2 % of the deepest pool's average price.
        depth: Usd,
        /// The required amount.
        minimum: Usd,
    },
    /// The pools' price history is shorter than the averaging window.
    #[error("its pools do not store {} min of history", window.as_secs() / 60)]
    TooYoung {
        /// Length of the averaging window.
        window: Duration,
    },
    /// The pools' price did not change in the whole window, so nobody traded in them.
    #[error("its pools had no trades for {} min", window.as_secs() / 60)]
    NotTraded {
        /// Length of the averaging window.
        window: Duration,
    },
    /// The chain could not be read.
    #[error("the chain could not be read: {0}")]
    Unreachable(#[from] ProviderError),
}

/// Result of a price query for one token.
pub type PriceResult = Result<Price, NoPrice>;

/// A source of token prices.
pub trait PriceSource: fmt::Debug + Send + Sync {
    /// Name of the source in reports.
    fn name(&self) -> &'static str;

    /// Queries prices; returns one result per token, in the given order.
    fn prices<'a>(&'a self, tokens: &'a [Address]) -> BoxFuture<'a, Vec<PriceResult>>;

    /// Returns the same source with another provider of the same chain, reading at `block` if given. `None` for a
    /// source that does not read the chain.
    fn through(&self, _provider: &DynProvider, _block: Option<BlockId>) -> Option<Arc<dyn PriceSource>> {
        None
    }

    /// The same source for a caller that compares the time of the latest block with this machine's clock itself, so
    /// that no price is refused because of it. `None` for a source that does not compare them.
    fn at_any_block_age(&self) -> Option<Arc<dyn PriceSource>> {
        None
    }
}

/// Price sources in order; the first with a price for a token determines it.
#[derive(Debug, Clone, Default)]
pub struct PriceChain {
    sources: Vec<Arc<dyn PriceSource>>,
}

/// Results of all queried sources for one token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriceReport {
    /// Address of the token.
    pub token: Address,
    /// Price from the first source that has one.
    pub price: Option<Price>,
    /// Sources queried before it, with their reasons.
    pub refusals: Vec<(&'static str, NoPrice)>,
}

impl PriceReport {
    /// Returns the price.
    ///
    /// # Errors
    /// [`PriceUnknown`] with the reasons of all queried sources.
    pub fn require(&self) -> Result<&Price, PriceUnknown> {
        self.price.as_ref().ok_or_else(|| PriceUnknown { token: self.token, refusals: self.refusals.clone() })
    }
}

/// Error for a token that no source has a price for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no price for {token}: {}", explain(refusals))]
pub struct PriceUnknown {
    /// Address of the token.
    pub token: Address,
    /// Sources with their reasons.
    pub refusals: Vec<(&'static str, NoPrice)>,
}

impl PriceChain {
    /// Returns the same sources with another provider of the same chain, reading at `block` if given.
    #[must_use]
    pub fn through(&self, provider: &DynProvider, block: Option<BlockId>) -> Self {
        let moved =
            |source: &Arc<dyn PriceSource>| source.through(provider, block).unwrap_or_else(|| Arc::clone(source));
        Self { sources: self.sources.iter().map(moved).collect() }
    }

    /// The same sources for a caller that compares the time of the latest block with this machine's clock itself.
    #[must_use]
    pub fn at_any_block_age(&self) -> Self {
        let aged = |source: &Arc<dyn PriceSource>| source.at_any_block_age().unwrap_or_else(|| Arc::clone(source));
        Self { sources: self.sources.iter().map(aged).collect() }
    }

    /// Creates a chain of sources; the most trusted one comes first.
    pub fn new(sources: Vec<Arc<dyn PriceSource>>) -> Self {
        Self { sources }
    }

    /// Queries a report for each token, in the given order. Each source is queried once, for all tokens that still have
    /// no price.
    pub async fn prices(&self, tokens: &[Address]) -> Vec<PriceReport> {
        let mut reports: Vec<PriceReport> =
            tokens.iter().map(|token| PriceReport { token: *token, price: None, refusals: Vec::new() }).collect();
        for source in &self.sources {
            let open: Vec<&mut PriceReport> = reports.iter_mut().filter(|report| report.price.is_none()).collect();
            if open.is_empty() {
                break;
            }
            let asked: Vec<Address> = open.iter().map(|report| report.token).collect();
            // A source that returns fewer results than requested has no price for the rest.
            let answers = source.prices(&asked).await.into_iter().map(Some).chain(std::iter::repeat(None));
            for (report, answer) in open.into_iter().zip(answers) {
                match answer.unwrap_or(Err(NoPrice::UnknownToken)) {
                    Ok(price) if !price.usd.is_zero() => report.price = Some(price),
                    Ok(_) => report.refusals.push((source.name(), NoPrice::NotPositive { answer: I256::ZERO })),
                    Err(reason) => report.refusals.push((source.name(), reason)),
                }
            }
        }
        reports
    }

    /// Queries the price of one token.
    ///
    /// # Errors
    /// [`PriceUnknown`] with the reasons of all queried sources.
    pub async fn price(&self, token: Address) -> Result<Price, PriceUnknown> {
        match self.prices(&[token]).await.pop() {
            Some(report) => report.require().cloned(),
            None => Err(PriceUnknown { token, refusals: Vec::new() }),
        }
    }
}

fn explain(refusals: &[(&'static str, NoPrice)]) -> String {
    if refusals.is_empty() {
        return "no price source is configured".into();
    }
    refusals.iter().map(|(source, reason)| format!("{source}: {reason}")).collect::<Vec<_>>().join("; ")
}
