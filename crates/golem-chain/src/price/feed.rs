//! Price feeds with Chainlink's AggregatorV3Interface, including the devnet's own.
//!
//! All feeds of one query are read in one `eth_call` through Multicall3, together with the block's time. All answers
//! therefore belong to one block, and ages are relative to its timestamp.

use super::{NoPrice, Price, PriceOrigin, PriceReader, PriceResult, PriceSource};
use crate::multicall::{BatchResults, CallBatch, CallIndex};
use alloy::{
    eips::BlockId,
    primitives::{Address, I256, U256},
    providers::{DynProvider, bindings::IMulticall3},
};
use bardo_abi::feed::{Aggregator, BoundedAggregator};
use bardo_base::{clock::Clock, text::SafeText, units::Usd};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

/// A feed as listed in the address book; the contract must agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedSpec {
    /// Address of the priced token.
    pub token: Address,
    /// Address of the feed contract, or of its proxy if it has one.
    pub address: Address,
    /// Expected `description()`, such as `ETH / USD`.
    pub pair: SafeText,
    /// Expected `decimals()` of the feed.
    pub decimals: u8,
    /// Maximum interval between two updates of the feed.
    pub heartbeat: Duration,
}

impl FeedSpec {
    /// Maximum accepted age: 1.25 times the heartbeat, since the heartbeat's transaction must be mined too.
    pub fn max_age(&self) -> Duration {
        self.heartbeat.saturating_add(self.heartbeat / 4)
    }
}

/// Sequencer uptime feed of a rollup (<https://docs.chain.link/data-feeds/l2-sequencer-feeds>): answer 0 is up, 1 is
/// down, and `startedAt` is the time of the last change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequencerSpec {
    /// Address of the feed contract.
    pub address: Address,
    /// Time for which the sequencer must be up before prices are accepted.
    pub grace: Duration,
}

/// Price source that reads the feed contracts of one chain.
#[derive(Debug)]
pub struct FeedPrices {
    reader: PriceReader,
    multicall: Address,
    feeds: HashMap<Address, FeedSpec>,
    sequencer: Option<SequencerSpec>,
    max_block_age: Option<Duration>,
    /// Time in seconds since the Unix epoch after which the feeds do not age; `None` for a live chain.
    frozen_at: Option<u64>,
    clock: Arc<dyn Clock>,
    /// Feeds whose pair and decimals have been verified.
    proven: Arc<Mutex<HashSet<Address>>>,
    /// Last known aggregator of each feed. Its bounds are read together with the round; if the aggregator has changed,
    /// a second request reads the new bounds.
    aggregators: Arc<Mutex<HashMap<Address, Address>>>,
}

/// Lowest and highest answer of an aggregator.
type AnswerBounds = (I256, I256);

impl FeedPrices {
    /// Creates a source with one feed per token; a later feed for a token replaces an earlier one, so that the
    /// operator's own table can be appended. `max_block_age` is `None` where blocks are produced on demand only.
    pub fn new(
        provider: DynProvider,
        multicall: Address,
        feeds: impl IntoIterator<Item = FeedSpec>,
        sequencer: Option<SequencerSpec>,
        max_block_age: Option<Duration>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let feeds = feeds.into_iter().map(|feed| (feed.token, feed)).collect();
        Self {
            reader: PriceReader::new(provider),
            multicall,
            feeds,
            sequencer,
            max_block_age,
            frozen_at: None,
            clock,
            proven: Arc::default(),
            aggregators: Arc::default(),
        }
    }

    /// Reads through `witness` if given, a provider whose endpoints must agree.
    #[must_use]
    pub fn witnessed_by(self, witness: Option<DynProvider>) -> Self {
        Self { reader: self.reader.witnessed_by(witness), ..self }
    }

    /// Judges the age of an answer at most at this time, in seconds since the Unix epoch: a rehearsal's feeds stand
    /// still with its market since the block that it continues from.
    #[must_use]
    pub fn frozen_at(self, time: Option<u64>) -> Self {
        Self { frozen_at: time, ..self }
    }

    async fn read(&self, tokens: &[Address]) -> Result<Vec<PriceResult>, NoPrice> {
        let mut calls = CallBatch::default();
        let time = calls.push(self.multicall, &IMulticall3::getCurrentBlockTimestampCall {});
        let sequencer =
            self.sequencer.map(|spec| (spec, calls.push(spec.address, &Aggregator::latestRoundDataCall {})));
        let asked: Vec<Option<FeedCalls<'_>>> =
            tokens.iter().map(|token| self.feeds.get(token).map(|spec| self.ask(spec, &mut calls))).collect();
        if asked.iter().all(Option::is_none) {
            return Ok(vec![Err(NoPrice::UnknownToken); tokens.len()]);
        }

        let answers = self.reader.send(calls, self.multicall).await?;
        let now: u64 = time.take(&answers).and_then(|time| u64::try_from(time).ok()).ok_or(NoPrice::NoAnswer)?;
        self.check_block(now)?;
        let now = self.frozen_at.map_or(now, |time| now.min(time));
        if let Some((spec, call)) = sequencer {
            check_sequencer(spec, call.take(&answers).ok_or(NoPrice::NoAnswer)?, now)?;
        }
        let bounds = self.bounds(&asked, &answers).await?;
        Ok(asked
            .into_iter()
            .map(|asked| asked.ok_or(NoPrice::UnknownToken).and_then(|asked| self.judge(asked, &answers, &bounds, now)))
            .collect())
    }

    fn ask<'a>(&self, spec: &'a FeedSpec, calls: &mut CallBatch) -> FeedCalls<'a> {
        let proven = self.proven.lock().contains(&spec.address);
        let identity = (!proven).then(|| FeedIdentity {
            pair: calls.push(spec.address, &Aggregator::descriptionCall {}),
            decimals: calls.push(spec.address, &Aggregator::decimalsCall {}),
        });
        let seen = self.aggregators.lock().get(&spec.address).copied();
        // A feed without a proxy is its own aggregator.
        let bounded = BoundsCalls::ask(calls, seen.unwrap_or(spec.address));
        let aggregator = calls.push(spec.address, &BoundedAggregator::aggregatorCall {});
        let round = calls.push(spec.address, &Aggregator::latestRoundDataCall {});
        FeedCalls { spec, identity, aggregator, bounded, round }
    }

    /// Bounds of each feed's current aggregator; `None` for an aggregator without bounds.
    async fn bounds(
        &self,
        asked: &[Option<FeedCalls<'_>>],
        answers: &BatchResults,
    ) -> Result<HashMap<Address, Option<AnswerBounds>>, NoPrice> {
        let (mut calls, mut moved, mut known) = (CallBatch::default(), Vec::new(), HashMap::new());
        for asked in asked.iter().flatten() {
            let feed = asked.spec.address;
            let aggregator = asked.aggregator.take(answers).unwrap_or(feed);
            if aggregator == asked.bounded.aggregator {
                known.insert(feed, asked.bounded.take(answers));
            } else {
                moved.push((feed, BoundsCalls::ask(&mut calls, aggregator)));
            }
        }
        if !moved.is_empty() {
            let answers = self.reader.send(calls, self.multicall).await?;
            let mut seen = self.aggregators.lock();
            for (feed, bounded) in moved {
                seen.insert(feed, bounded.aggregator);
                known.insert(feed, bounded.take(&answers));
            }
        }
        Ok(known)
    }

    fn judge(
        &self,
        asked: FeedCalls<'_>,
        answers: &BatchResults,
        bounds: &HashMap<Address, Option<AnswerBounds>>,
        now: u64,
    ) -> PriceResult {
        let FeedCalls { spec, identity, aggregator: _, bounded: _, round } = asked;
        if let Some(identity) = identity {
            check_identity(spec, &identity, answers)?;
            self.proven.lock().insert(spec.address);
        }
        let round = round.take(answers).ok_or(NoPrice::NoAnswer)?;
        if let Some(Some((min, max))) = bounds.get(&spec.address)
            && (round.answer <= *min || round.answer >= *max)
        {
            return Err(NoPrice::AtBound { answer: round.answer, min: *min, max: *max });
        }
        price_of(spec, round, now)
    }

    fn check_block(&self, now: u64) -> Result<(), NoPrice> {
        let age = Duration::from_secs(self.clock.now_seconds().saturating_sub(now));
        match self.max_block_age {
            Some(limit) if age > limit => Err(NoPrice::OldBlock { age, limit }),
            _ => Ok(()),
        }
    }
}

impl PriceSource for FeedPrices {
    fn name(&self) -> &'static str {
        "price feeds"
    }

    fn prices<'a>(&'a self, tokens: &'a [Address]) -> BoxFuture<'a, Vec<PriceResult>> {
        Box::pin(async move { self.read(tokens).await.unwrap_or_else(|reason| vec![Err(reason); tokens.len()]) })
    }

    fn through(&self, provider: &DynProvider, block: Option<BlockId>) -> Option<Arc<dyn PriceSource>> {
        Some(Arc::new(Self {
            reader: PriceReader::new(provider.clone()).at(block),
            multicall: self.multicall,
            feeds: self.feeds.clone(),
            sequencer: self.sequencer,
            max_block_age: self.max_block_age,
            frozen_at: self.frozen_at,
            clock: Arc::clone(&self.clock),
            // Another provider's answers do not verify a feed for this one.
            proven: Arc::default(),
            // Only a hint: the current aggregator is read each time.
            aggregators: Arc::clone(&self.aggregators),
        }))
    }

    fn at_any_block_age(&self) -> Option<Arc<dyn PriceSource>> {
        Some(Arc::new(Self {
            reader: self.reader.clone(),
            multicall: self.multicall,
            feeds: self.feeds.clone(),
            sequencer: self.sequencer,
            max_block_age: None,
            frozen_at: self.frozen_at,
            clock: Arc::clone(&self.clock),
            proven: Arc::clone(&self.proven),
            aggregators: Arc::clone(&self.aggregators),
        }))
    }
}

struct FeedCalls<'a> {
    spec: &'a FeedSpec,
    identity: Option<FeedIdentity>,
    aggregator: CallIndex<BoundedAggregator::aggregatorCall>,
    bounded: BoundsCalls,
    round: CallIndex<Aggregator::latestRoundDataCall>,
}

/// Calls that read an aggregator's bounds.
struct BoundsCalls {
    aggregator: Address,
    min: CallIndex<BoundedAggregator::minAnswerCall>,
    max: CallIndex<BoundedAggregator::maxAnswerCall>,
}

impl BoundsCalls {
    fn ask(calls: &mut CallBatch, aggregator: Address) -> Self {
        let min = calls.push(aggregator, &BoundedAggregator::minAnswerCall {});
        let max = calls.push(aggregator, &BoundedAggregator::maxAnswerCall {});
        Self { aggregator, min, max }
    }

    fn take(&self, answers: &BatchResults) -> Option<AnswerBounds> {
        self.min.take(answers).zip(self.max.take(answers))
    }
}

struct FeedIdentity {
    pair: CallIndex<Aggregator::descriptionCall>,
    decimals: CallIndex<Aggregator::decimalsCall>,
}

fn check_identity(spec: &FeedSpec, identity: &FeedIdentity, answers: &BatchResults) -> Result<(), NoPrice> {
    let pair = identity.pair.take(answers).ok_or(NoPrice::NoAnswer)?;
    let decimals = identity.decimals.take(answers).ok_or(NoPrice::NoAnswer)?;
    if pair == spec.pair.as_str() && decimals == spec.decimals {
        return Ok(());
    }
    Err(NoPrice::WrongFeed {
        expected_pair: spec.pair.clone(),
        expected_decimals: spec.decimals,
        found: SafeText::clean(&format!("\"{pair}\" with {decimals} decimals"), 120),
    })
}

fn check_sequencer(spec: SequencerSpec, round: Aggregator::latestRoundDataReturn, now: u64) -> Result<(), NoPrice> {
    if round.startedAt.is_zero() {
        return Err(NoPrice::IncompleteRound);
    }
    // Any answer other than zero counts as down.
    if !round.answer.is_zero() {
        return Err(NoPrice::SequencerDown);
    }
    let since = Duration::from_secs(U256::from(now).saturating_sub(round.startedAt).saturating_to());
    if since < spec.grace {
        return Err(NoPrice::SequencerGrace { since, grace: spec.grace });
    }
    Ok(())
}

fn price_of(spec: &FeedSpec, round: Aggregator::latestRoundDataReturn, now: u64) -> PriceResult {
    if round.answer <= I256::ZERO {
        return Err(NoPrice::NotPositive { answer: round.answer });
    }
    if round.roundId.is_zero() || round.updatedAt.is_zero() || round.answeredInRound < round.roundId {
        return Err(NoPrice::IncompleteRound);
    }
    let stated = round.updatedAt.saturating_to::<u64>();
    if stated > now {
        return Err(NoPrice::FromTheFuture { by: Duration::from_secs(stated.saturating_sub(now)) });
    }
    let (age, limit) = (Duration::from_secs(now.saturating_sub(stated)), spec.max_age());
    if age > limit {
        return Err(NoPrice::Stale { age, limit });
    }
    let usd = Usd::from_scaled(round.answer.into_raw(), spec.decimals).map_err(|_| NoPrice::OutOfRange)?;
    let source =
        PriceOrigin::Feed { address: spec.address, pair: spec.pair.clone(), round: round.roundId.to::<u128>() };
    Ok(Price { usd, source, observed_at: Some(stated), age: Some(age) })
}
