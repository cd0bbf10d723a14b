//! Prices in dollars, each with its source and age. No price is an answer; zero is not.
//!
//! A [`PriceSource`] is asked for several tokens at once and answers each with a [`Price`] or with
//! the reason why there is none ([`NoPrice`]). [`PriceChain`] asks sources in order and keeps what
//! each of them said, so that "no price" can always be explained. Native ether has the price of the
//! chain's wrapped native token: the caller maps one to the other.
//!
//! Not here: prices from pools (time-weighted, quotes), which know a protocol, and the choice of the
//! highest or lowest among several prices, which belongs to the checks.

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
use bardo_base::{text::SafeText, units::Usd};
use futures::future::BoxFuture;
use std::{fmt, sync::Arc, time::Duration};

/// What one whole token was worth, who said so, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Price {
    /// Dollars for one whole token; always above zero.
    pub usd: Usd,
    /// Who said so.
    pub source: PriceOrigin,
    /// When it was last stated, in seconds since the Unix epoch, by the chain's time. `None` for a
    /// price that no time belongs to, such as one from the configuration.
    pub observed_at: Option<u64>,
    /// How old it was when it was read, by the time of the block it was read in.
    pub age: Option<Duration>,
}

/// Where a price comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PriceOrigin {
    /// A feed contract.
    Feed {
        /// The contract.
        address: Address,
        /// Its pair, as checked on chain.
        pair: SafeText,
        /// The round that was read.
        round: u128,
    },
    /// The time-weighted mean of a pool.
    Twap {
        /// The pool.
        pool: Address,
        /// The time the mean is taken over.
        window: Duration,
    },
    /// The operator's configuration, on a test network.
    Fixed,
}

impl PriceOrigin {
    /// Whether a market stands behind it. A fixed price is good for rehearsal and nothing else.
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

/// Why there is no price.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoPrice {
    /// This source knows nothing of the token.
    #[error("no entry for this token")]
    UnknownToken,
    /// The feed has not spoken for longer than it may.
    #[error("stale: stated {} s ago, at most {} s are accepted", age.as_secs(), limit.as_secs())]
    Stale {
        /// By the time of the block it was read in.
        age: Duration,
        /// Age accepted at most.
        limit: Duration,
    },
    /// The block that was read is itself old: the endpoint has stopped following the chain.
    #[error("the latest block is {} s old, at most {} s are accepted", age.as_secs(), limit.as_secs())]
    OldBlock {
        /// By the machine's clock.
        age: Duration,
        /// Age accepted at most.
        limit: Duration,
    },
    /// Zero or below.
    #[error("the feed answers {answer}, which is not a price")]
    NotPositive {
        /// The raw answer.
        answer: I256,
    },
    /// The least or the most the aggregator can answer: the market may be anywhere beyond it.
    #[error("the feed answers {answer}, the end of what its aggregator can answer ({min} to {max})")]
    AtBound {
        /// The raw answer.
        answer: I256,
        /// The aggregator's `minAnswer()`.
        min: I256,
        /// The aggregator's `maxAnswer()`.
        max: I256,
    },
    /// More dollars, or finer ones, than can be held.
    #[error("the answer cannot be held as dollars")]
    OutOfRange,
    /// A round that was begun and not answered, or carries the answer of an earlier one.
    #[error("the feed's latest round is not complete")]
    IncompleteRound,
    /// A statement from after the block that was read.
    #[error("the feed's time lies {} s after its block", by.as_secs())]
    FromTheFuture {
        /// By how much.
        by: Duration,
    },
    /// The contract is not the feed that was meant.
    #[error("wrong feed: expected \"{expected_pair}\" with {expected_decimals} decimals, found {found}")]
    WrongFeed {
        /// The pair that was meant.
        expected_pair: SafeText,
        /// The decimals that were meant.
        expected_decimals: u8,
        /// What the contract says of itself.
        found: SafeText,
    },
    /// The contract reverts, or there is none at the address.
    #[error("the feed contract does not answer")]
    NoAnswer,
    /// The rollup's sequencer is down, so that nobody can act on feeds and feeds may not move.
    #[error("the chain's sequencer is down")]
    SequencerDown,
    /// The sequencer has only just returned: feeds may still carry the price from before.
    #[error("the chain's sequencer came back {} s ago, {} s are waited for", since.as_secs(), grace.as_secs())]
    SequencerGrace {
        /// Time since it is up again.
        since: Duration,
        /// Time that must pass.
        grace: Duration,
    },
    /// The pools of this token are too shallow.
    #[error("only ${depth} can be traded near the mean of its deepest pool; at least ${minimum} is needed")]
    TooShallow {
        /// What can be traded within 2 % of the deepest pool's mean.
        depth: Usd,
        /// What is asked for.
        minimum: Usd,
    },
    /// The pools of this token do not remember long enough.
    #[error("its pools do not remember {} min", window.as_secs() / 60)]
    TooYoung {
        /// The time the mean is taken over.
        window: Duration,
    },
    /// The pools of this token kept one price over the whole window: nobody traded in them.
    #[error("nobody traded in its pools for {} min", window.as_secs() / 60)]
    NotTraded {
        /// The time the mean is taken over.
        window: Duration,
    },
    /// The chain could not be read.
    #[error("the chain could not be read: {0}")]
    Unreachable(#[from] ProviderError),
}

/// A price, or why there is none.
pub type Quoted = Result<Price, NoPrice>;

/// Somewhere prices come from.
pub trait PriceSource: fmt::Debug + Send + Sync {
    /// Its name in reports.
    fn name(&self) -> &'static str;

    /// One answer for each token, in the order asked.
    fn prices<'a>(&'a self, tokens: &'a [Address]) -> BoxFuture<'a, Vec<Quoted>>;

    /// The same source, read through another provider of the same chain, at `block` where one is given. `None` for a
    /// source that does not read the chain.
    fn through(&self, _provider: &DynProvider, _block: Option<BlockId>) -> Option<Arc<dyn PriceSource>> {
        None
    }

    /// The same source for a caller that compares the time of the latest block with this machine's clock itself, so that no
    /// price is refused because of it. `None` for a source that does not compare them.
    fn at_any_block_age(&self) -> Option<Arc<dyn PriceSource>> {
        None
    }
}

/// Sources in order: the first that has a price for a token gives it.
#[derive(Debug, Clone, Default)]
pub struct PriceChain {
    sources: Vec<Arc<dyn PriceSource>>,
}

/// What all sources said about one token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriceReport {
    /// The token.
    pub token: Address,
    /// The first price found.
    pub price: Option<Price>,
    /// The sources that were asked before, and why each had none.
    pub refusals: Vec<(&'static str, NoPrice)>,
}

impl PriceReport {
    /// The price, or one sentence on why there is none.
    ///
    /// # Errors
    /// The reasons of every source that was asked.
    pub fn require(&self) -> Result<&Price, PriceUnknown> {
        self.price.as_ref().ok_or_else(|| PriceUnknown { token: self.token, refusals: self.refusals.clone() })
    }
}

/// No source has a price for a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no price for {token}: {}", explain(refusals))]
pub struct PriceUnknown {
    /// The token.
    pub token: Address,
    /// What each source said.
    pub refusals: Vec<(&'static str, NoPrice)>,
}

impl PriceChain {
    /// The same sources, read through another provider of the same chain, at `block` where one is given.
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

    /// A chain of sources, the most trusted first.
    pub fn new(sources: Vec<Arc<dyn PriceSource>>) -> Self {
        Self { sources }
    }

    /// A report for each token, in the order asked. A source is asked once, for all tokens that
    /// still have no price.
    pub async fn prices(&self, tokens: &[Address]) -> Vec<PriceReport> {
        let mut reports: Vec<PriceReport> =
            tokens.iter().map(|token| PriceReport { token: *token, price: None, refusals: Vec::new() }).collect();
        for source in &self.sources {
            let open: Vec<&mut PriceReport> = reports.iter_mut().filter(|report| report.price.is_none()).collect();
            if open.is_empty() {
                break;
            }
            let asked: Vec<Address> = open.iter().map(|report| report.token).collect();
            // A source that answers fewer tokens than were asked has no price for the rest.
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

    /// The price of one token.
    ///
    /// # Errors
    /// The reasons of every source that was asked.
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
