//! Time-weighted average prices from Uniswap V3 pools, over half an hour or more.
//!
//! A pool prices a token in an anchor (the wrapped native token or a stable token); the anchor's dollar price comes
//! from its feed. A pool counts as a price source only if its oracle covers the window, it traded within the window,
//! and it is deep. Deep means that at least the configured dollar amount can be sold into it, and bought from it,
//! within [`NEAR_TICKS`] of its mean. The depth is computed from the initialized ticks, never from virtual reserves,
//! which one narrow position multiplies 20,000 times. Parked one-sided liquidity therefore does not count, and
//! liquidity that appears for one block is limited by the window's harmonic mean.
//!
//! Anyone can initialize thousands of ticks in an empty pool. Ticks are therefore read only of pools whose balances and
//! mean liquidity could qualify, and at most [`MOST_TICKS`] of each. A failed request loses only its own pools.
//!
//! Every qualifying pool is reported; `safety::ground` takes the median of them and the feed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use alloy::eips::BlockId;
use alloy::primitives::aliases::I24;
use alloy::primitives::{Address, U256};
use alloy::providers::{DynProvider, bindings::IMulticall3};
use futures::future::join_all;
use num_bigint::BigUint;
use parking_lot::Mutex;

use super::address::{V3_POOL_INIT_CODE_HASH, sort_tokens, v3_pool};
use super::discovery::{BASE_SYMBOLS, DiscoveryError, FEE_TIERS};
use super::ratio::{Ratio, big};
use super::v3::math::{MathError, amount0_between, amount1_between};
use super::v3::tick_math::{MAX_TICK, MIN_TICK, sqrt_price_at_tick};
use bardo_abi::erc20::Erc20;
use bardo_abi::uniswap_v3::UniswapV3Pool;
use bardo_base::units::{Rounding, TokenAmount, Usd};
use golem_chain::multicall::{BatchResults, CallBatch, CallIndex};
use golem_chain::network::{KnownContract, Network};
use golem_chain::price::{NoPrice, Price, PriceOrigin, PriceReader};

/// Minimum window of a mean, in seconds.
pub const MIN_WINDOW: u32 = 1_800;

/// Window of a pool's recent price, in seconds: short enough to follow a fall, and longer than a block, so that a
/// momentary price does not decide.
pub const LATELY: u32 = 30;

/// Number of parts of the window that are compared to detect trading.
const SAMPLES: u32 = 6;

/// Distance from the mean within which liquidity counts, in ticks: 2 %.
const NEAR_TICKS: i32 = 200;

/// Maximum distance of the current tick from the mean of a price source, in ticks: a fall to a quarter, or a rise to
/// four times. It limits the ticks that are read. It must stay well above the fall at which a sale needs approval
/// (`checks::slippage`), because that check uses the mean of such a pool.
const STRAYED_TICKS: i32 = 13_864;

/// Maximum number of initialized ticks that are read of one pool. While the price is near its mean, at most 800 are in
/// the range that counts. A pool with more, in a range that a moving price has widened, is not known
/// ([`ObservedPool::is_known`]) and counts with a depth of zero. It is then not a price source, so that some of its
/// ticks never pass for all of them.
///
/// Anyone who initializes that many ticks can remove one pool as a price source, but cannot bend a price. A token that
/// no other pool and no feed prices can then be neither bought nor sold until the range narrows with the mean.
const MOST_TICKS: usize = 4_096;

/// Extra decimals below an anchor's smallest unit, so that tokens of low value keep their precision.
const EXTRA_DIGITS: u8 = 12;

/// Requirements for a pool's mean to count as a price.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TwapRules {
    /// Window of the mean, in seconds; raised to [`MIN_WINDOW`] if smaller.
    pub window: u32,
    /// Amount in dollars that must be sellable into the pool, and buyable from it, within 2 % of its mean.
    pub minimum_depth: Usd,
}

/// Price of a token in one pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolMean {
    /// Address of the pool.
    pub pool: Address,
    /// Price of one whole token in dollars: the mean over the rules' window.
    pub usd: Usd,
    /// Price in dollars over the last [`LATELY`] seconds; `None` if the pool was too shallow in that time.
    pub lately: Option<Usd>,
}

/// Qualifying pools of a token, at least one, lowest price first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolPrices {
    /// Prices per pool.
    pub pools: Vec<PoolMean>,
    /// Window of the means.
    pub window: Duration,
    /// Timestamp of the block that was read, in seconds since the Unix epoch.
    pub read_at: u64,
}

impl PoolPrices {
    /// Returns the lower median as one price.
    pub fn price(&self) -> Option<Price> {
        let middle = self.pools.len().saturating_sub(1) / 2;
        let PoolMean { pool, usd, .. } = *self.pools.get(middle)?;
        let source = PriceOrigin::Twap { pool, window: self.window };
        Some(Price { usd, source, observed_at: Some(self.read_at), age: Some(Duration::ZERO) })
    }
}

/// Bitmap words and initialized ticks that earlier reads needed. They are requested together with a pool's price, so
/// that a warm read takes one round trip. The answers decide, never the hints.
#[derive(Debug, Default)]
pub struct TickHints(Mutex<HashMap<Address, TickHint>>);

#[derive(Debug, Clone, Default)]
struct TickHint {
    words: Vec<i16>,
    ticks: Vec<i32>,
}

/// TWAP reader for the V3 pools of one chain.
pub struct TwapPrices {
    reader: PriceReader,
    multicall: Address,
    factory: Address,
    anchors: Vec<Address>,
    rules: TwapRules,
    left_out: BTreeSet<Address>,
    hints: Arc<TickHints>,
}

impl fmt::Debug for TwapPrices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TwapPrices").field("anchors", &self.anchors).field("rules", &self.rules).finish_non_exhaustive()
    }
}

/// State of the pools of some tokens, as the chain returned it.
#[derive(Debug)]
pub struct ObservedPools {
    now: u64,
    decimals: BTreeMap<Address, u8>,
    of: Vec<(Address, Vec<ObservedPool>)>,
}

/// State and oracle data of one pool.
#[derive(Debug)]
struct ObservedPool {
    address: Address,
    anchor: Address,
    spacing: i32,
    tick: i32,
    liquidity: u128,
    /// Pool's balances of the token and of the anchor, in raw units.
    held: [U256; 2],
    /// Cumulative oracle values; `None` if the pool's oracle does not cover the whole window.
    totals: Option<UniswapV3Pool::observeReturn>,
    words: BTreeMap<i16, U256>,
    nets: BTreeMap<i32, i128>,
}

/// Calls that read one pool.
struct PoolCalls {
    pool: Address,
    anchor: Address,
    spacing: i32,
    slot0: CallIndex<UniswapV3Pool::slot0Call>,
    liquidity: CallIndex<UniswapV3Pool::liquidityCall>,
    observed: CallIndex<UniswapV3Pool::observeCall>,
    held: [CallIndex<Erc20::balanceOfCall>; 2],
    ladder: LadderCalls,
}

/// Words and ticks of a pool that are still missing.
struct MissingTicks<'a> {
    pool: &'a mut ObservedPool,
    words: Vec<i16>,
    ticks: Vec<i32>,
}

impl MissingTicks<'_> {
    fn ask(&self, calls: &mut CallBatch) -> LadderCalls {
        LadderCalls::ask(calls, self.pool.address, &self.words, &self.ticks)
    }
}

/// Calls that read bitmap words and ticks of a pool.
#[derive(Default)]
struct LadderCalls {
    words: Vec<(i16, CallIndex<UniswapV3Pool::tickBitmapCall>)>,
    ticks: Vec<(i32, CallIndex<UniswapV3Pool::ticksCall>)>,
}

impl LadderCalls {
    fn ask(calls: &mut CallBatch, pool: Address, words: &[i16], ticks: &[i32]) -> Self {
        let word = |word: &i16| (*word, calls.push(pool, &UniswapV3Pool::tickBitmapCall { wordPosition: *word }));
        let words = words.iter().map(word).collect();
        let ticks = ticks.iter().filter_map(|index| {
            let tick = I24::try_from(*index).ok()?;
            Some((*index, calls.push(pool, &UniswapV3Pool::ticksCall { tick })))
        });
        Self { words, ticks: ticks.collect() }
    }
}

impl TwapPrices {
    /// Creates a reader for a network with Multicall3 and the V3 factory in its address book. Its wrapped native token
    /// and its listed base tokens are the anchors.
    ///
    /// # Errors
    /// [`DiscoveryError::NotHere`] with the missing contract.
    pub fn new(provider: DynProvider, network: &Network, rules: TwapRules) -> Result<Self, DiscoveryError> {
        let book = &network.book;
        let missing = |missing| DiscoveryError::NotHere { network: network.name.clone(), missing };
        let listed = book.tokens().iter().filter(|token| BASE_SYMBOLS.contains(&token.symbol.as_str()));
        Ok(Self {
            reader: PriceReader::new(provider),
            multicall: book.contract(KnownContract::Multicall3).ok_or_else(|| missing("Multicall3"))?,
            factory: book.contract(KnownContract::V3Factory).ok_or_else(|| missing("Uniswap V3 factory"))?,
            anchors: book
                .contract(KnownContract::WrappedNative)
                .into_iter()
                .chain(listed.map(|token| token.address))
                .collect(),
            rules: TwapRules { window: rules.window.max(MIN_WINDOW), ..rules },
            left_out: BTreeSet::new(),
            hints: Arc::default(),
        })
    }

    /// Reads through a provider whose endpoints must agree, if one is given.
    #[must_use]
    pub fn witnessed_by(self, witness: Option<DynProvider>) -> Self {
        Self { reader: self.reader.witnessed_by(witness), ..self }
    }

    /// Reads this block instead of the latest one.
    #[must_use]
    pub fn at(self, block: Option<BlockId>) -> Self {
        Self { reader: self.reader.at(block), ..self }
    }

    /// Excludes some pools: those that a trade is about to move must not be its only price source.
    #[must_use]
    pub fn without(mut self, pools: impl IntoIterator<Item = Address>) -> Self {
        self.left_out.extend(pools);
        self
    }

    /// Uses hints that outlive this reader.
    #[must_use]
    pub fn hinted_by(self, hints: Arc<TickHints>) -> Self {
        Self { hints, ..self }
    }

    /// Reads the pools of `tokens` in one round trip. Ticks without a hint are still missing; see [`Self::complete`].
    ///
    /// # Errors
    /// Returns a [`NoPrice`] if the chain cannot be read.
    pub async fn observe(&self, tokens: &[Address]) -> Result<ObservedPools, NoPrice> {
        let known = self.hints.0.lock().clone();
        match self.observe_hinted(tokens, &known).await {
            // The failure may be due to the hinted ticks, so retry without hints.
            Err(_) if !known.is_empty() => self.observe_hinted(tokens, &HashMap::new()).await,
            observed => observed,
        }
    }

    async fn observe_hinted(
        &self,
        tokens: &[Address],
        known: &HashMap<Address, TickHint>,
    ) -> Result<ObservedPools, NoPrice> {
        let mut calls = CallBatch::default();
        let time = calls.push(self.multicall, &IMulticall3::getCurrentBlockTimestampCall {});
        let mut decimals: BTreeMap<Address, CallIndex<Erc20::decimalsCall>> = BTreeMap::new();
        for token in tokens.iter().chain(&self.anchors) {
            decimals.entry(*token).or_insert_with(|| calls.push(*token, &Erc20::decimalsCall {}));
        }
        let seconds = seconds_ago(self.rules.window);
        let mut asked: Vec<(Address, Vec<PoolCalls>)> = Vec::new();
        for token in tokens {
            let mut questions = Vec::new();
            for anchor in self.anchors.iter().filter(|anchor| *anchor != token) {
                for (fee, spacing) in FEE_TIERS {
                    let pool = v3_pool(self.factory, *token, *anchor, fee, V3_POOL_INIT_CODE_HASH);
                    if self.left_out.contains(&pool) {
                        continue;
                    }
                    let hint = known.get(&pool).cloned().unwrap_or_default();
                    let observe = UniswapV3Pool::observeCall { secondsAgos: seconds.clone() };
                    let held = Erc20::balanceOfCall { owner: pool };
                    questions.push(PoolCalls {
                        pool,
                        anchor: *anchor,
                        spacing,
                        slot0: calls.push(pool, &UniswapV3Pool::slot0Call {}),
                        liquidity: calls.push(pool, &UniswapV3Pool::liquidityCall {}),
                        observed: calls.push(pool, &observe),
                        held: [*token, *anchor].map(|of| calls.push(of, &held)),
                        ladder: LadderCalls::ask(&mut calls, pool, &hint.words, &hint.ticks),
                    });
                }
            }
            asked.push((*token, questions));
        }
        let answers = self.reader.send(calls, self.multicall).await?;
        let now = time.take(&answers).and_then(|time| u64::try_from(time).ok()).ok_or(NoPrice::NoAnswer)?;
        let decimals = decimals.into_iter().filter_map(|(token, call)| Some((token, call.take(&answers)?))).collect();
        let of = asked.into_iter().map(|(token, questions)| {
            let pools = questions.iter().filter_map(|question| ObservedPool::read(question, &answers));
            (token, pools.collect())
        });
        Ok(ObservedPools { now, decimals, of: of.collect() })
    }

    /// Reads the missing words and ticks near the means, for pools that could qualify given their anchors' dollar
    /// prices. This takes no round trip if the hints suffice, and at most two. A pool with unreadable data does not
    /// qualify.
    pub async fn complete(&self, observed: &mut ObservedPools, anchors: &BTreeMap<Address, Usd>) {
        let window = self.rules.window;
        let ObservedPools { decimals, of, .. } = observed;
        let mut candidates: Vec<&mut ObservedPool> = of
            .iter_mut()
            .flat_map(|(token, pools)| pools.iter_mut().map(|pool| (*token, pool)))
            .filter(|(token, pool)| self.may_be_witness(*token, pool, decimals, anchors))
            .map(|(_, pool)| pool)
            .collect();
        for wanted in [ObservedPool::needed_words, ObservedPool::ticks_wanted] {
            let wanted: Vec<MissingTicks<'_>> = candidates
                .iter_mut()
                .filter_map(|pool| {
                    let (words, ticks) = wanted(pool, window);
                    let is_read = ticks.len() <= MOST_TICKS && !(words.is_empty() && ticks.is_empty());
                    is_read.then_some(MissingTicks { pool, words, ticks })
                })
                .collect();
            self.read_wanted(wanted).await;
        }
        let mut hints = self.hints.0.lock();
        for pool in candidates.iter().filter(|pool| pool.is_known(window)) {
            hints.insert(pool.address, pool.hint(window));
        }
    }

    /// Reads words and ticks of all pools in one request; if that fails, of each pool separately.
    async fn read_wanted(&self, mut wanted: Vec<MissingTicks<'_>>) {
        if wanted.is_empty() {
            return;
        }
        let mut calls = CallBatch::default();
        let ladders: Vec<LadderCalls> = wanted.iter().map(|one| one.ask(&mut calls)).collect();
        if let Ok(answers) = self.reader.send(calls, self.multicall).await {
            wanted.iter_mut().zip(&ladders).for_each(|(one, ladder)| one.pool.learn(ladder, &answers));
            return;
        }
        let mut calls: Vec<(CallBatch, LadderCalls)> = Vec::new();
        for one in &wanted {
            let mut own = CallBatch::default();
            let ladder = one.ask(&mut own);
            calls.push((own, ladder));
        }
        let asked = calls.into_iter().map(|(own, ladder)| async {
            self.reader.send(own, self.multicall).await.map(|answers| (ladder, answers))
        });
        let told = join_all(asked.collect::<Vec<_>>()).await;
        for (one, told) in wanted.iter_mut().zip(told) {
            match told {
                Ok((ladder, answers)) => one.pool.learn(&ladder, &answers),
                Err(error) => tracing::warn!(pool = %one.pool.address, %error, "its ticks cannot be read"),
            }
        }
    }

    /// Returns true if a pool could qualify by criteria that need no ticks: its oracle, its trading, and
    /// [`AnchorPair::bound`].
    fn may_be_witness(
        &self,
        token: Address,
        pool: &ObservedPool,
        decimals: &BTreeMap<Address, u8>,
        anchors: &BTreeMap<Address, Usd>,
    ) -> bool {
        let pair = AnchorPair::of(token, pool.anchor, decimals, anchors);
        let (Some(pair), Some(totals)) = (pair, &pool.totals) else { return false };
        let bound = PoolWindow::of(totals, 0, self.rules.window).and_then(|mean| pair.bound(mean, pool));
        bound.is_some_and(|bound| bound >= self.rules.minimum_depth) && traded(totals, self.rules.window)
    }

    /// Returns the qualifying pools of each observed token, given its anchors' dollar prices, or the reason why there
    /// are none.
    pub fn judge(
        &self,
        observed: &ObservedPools,
        anchors: &BTreeMap<Address, Usd>,
    ) -> Vec<Result<PoolPrices, NoPrice>> {
        observed.of.iter().map(|(token, pools)| self.judge_token(*token, pools, observed, anchors)).collect()
    }

    fn judge_token(
        &self,
        token: Address,
        pools: &[ObservedPool],
        observed: &ObservedPools,
        anchors: &BTreeMap<Address, Usd>,
    ) -> Result<PoolPrices, NoPrice> {
        let window = Duration::from_secs(self.rules.window.into());
        let (mut young, mut idle, mut deepest) = (false, false, None::<Usd>);
        let mut witnesses = Vec::new();
        for pool in pools {
            let Some(pair) = AnchorPair::of(token, pool.anchor, &observed.decimals, anchors) else { continue };
            let Some(totals) = &pool.totals else {
                young = true;
                continue;
            };
            let Some(mean) = PoolWindow::of(totals, 0, self.rules.window) else { continue };
            let Some(bound) = pair.bound(mean, pool) else { continue };
            if bound < self.rules.minimum_depth {
                // The ticks of such a pool were not read.
                deepest = Some(deepest.map_or(bound, |deepest| deepest.max(bound)));
                continue;
            }
            if !traded(totals, self.rules.window) {
                (idle, deepest) = (true, deepest.or(Some(bound)));
                continue;
            }
            let Some((usd, depth)) = pair.value(mean, pool).filter(|(usd, _)| !usd.is_zero()) else { continue };
            let depth = if pool.is_known(self.rules.window) { depth.min(bound) } else { Usd::ZERO };
            deepest = Some(deepest.map_or(depth, |deepest| deepest.max(depth)));
            if depth < self.rules.minimum_depth {
                continue;
            }
            let recent = PoolWindow::of(totals, totals.tickCumulatives.len().saturating_sub(2), LATELY);
            let recent = recent.filter(|recent| pool.reaches(recent.tick, self.rules.window));
            let recent = recent.and_then(|recent| pair.value(recent, pool));
            let lately = recent.filter(|(usd, depth)| *depth >= self.rules.minimum_depth && !usd.is_zero());
            witnesses.push(PoolMean { pool: pool.address, usd, lately: lately.map(|(usd, _)| usd) });
        }
        if !witnesses.is_empty() {
            witnesses.sort_by_key(|witness| witness.usd);
            return Ok(PoolPrices { pools: witnesses, window, read_at: observed.now });
        }
        Err(match deepest {
            Some(_) if idle => NoPrice::NotTraded { window },
            Some(depth) => NoPrice::TooShallow { depth, minimum: self.rules.minimum_depth },
            None if young => NoPrice::TooYoung { window },
            None => NoPrice::UnknownToken,
        })
    }
}

/// Returns the ages at which a pool's cumulative values are read, in seconds: even parts of the window, then [`LATELY`]
/// and zero.
fn seconds_ago(window: u32) -> Vec<u32> {
    (1..=SAMPLES).rev().map(|part| window / SAMPLES * part).chain([LATELY, 0]).collect()
}

/// Returns true if the tick moved within the window. A pool without swaps keeps one tick, at an arbitrary price of its
/// creator.
fn traded(totals: &UniswapV3Pool::observeReturn, window: u32) -> bool {
    let ages = seconds_ago(window);
    let ticks: Vec<i64> = totals.tickCumulatives.iter().filter_map(|tick| i64::try_from(*tick).ok()).collect();
    let mut rates = ticks.iter().zip(&ages).zip(ticks.iter().zip(&ages).skip(1)).map(|((start, from), (end, to))| {
        let seconds = i64::from(from.saturating_sub(*to)).max(1);
        (i128::from(end.wrapping_sub(*start)), i128::from(seconds))
    });
    let Some((moved, seconds)) = rates.next() else { return false };
    rates.any(|(other, of)| other * seconds != moved * of)
}

impl ObservedPool {
    /// Reads a pool; `None` if it does not exist or was never initialized.
    fn read(question: &PoolCalls, answers: &BatchResults) -> Option<Self> {
        let slot0 = question.slot0.take(answers)?;
        let mut pool = Self {
            address: question.pool,
            anchor: question.anchor,
            spacing: question.spacing,
            tick: slot0.tick.as_i32(),
            liquidity: question.liquidity.take(answers)?,
            held: question.held.each_ref().map(|call| call.take(answers).unwrap_or_default()),
            totals: question.observed.take(answers),
            words: BTreeMap::new(),
            nets: BTreeMap::new(),
        };
        if slot0.sqrtPriceX96.is_zero() {
            return None;
        }
        pool.learn(&question.ladder, answers);
        Some(pool)
    }

    fn learn(&mut self, ladder: &LadderCalls, answers: &BatchResults) {
        let words = ladder.words.iter().filter_map(|(word, call)| Some((*word, call.take(answers)?)));
        self.words.extend(words);
        let ticks = ladder.ticks.iter().filter_map(|(tick, call)| Some((*tick, call.take(answers)?.liquidityNet)));
        self.nets.extend(ticks);
    }

    /// Returns the tick range that must be known: from the current tick to both ends of the relevant range. `None` if
    /// the pool strayed from its mean or has no mean.
    fn span(&self, window: u32) -> Option<(i32, i32)> {
        let mean = PoolWindow::of(self.totals.as_ref()?, 0, window)?.tick;
        if mean.abs_diff(self.tick) > STRAYED_TICKS.unsigned_abs() {
            return None;
        }
        let low = mean.saturating_sub(NEAR_TICKS).min(self.tick).max(MIN_TICK);
        let high = mean.saturating_add(NEAR_TICKS).max(self.tick).min(MAX_TICK);
        // The recent mean is between the two, or slightly beyond; ticks that were not read do not count.
        Some((low.saturating_sub(NEAR_TICKS).max(MIN_TICK), high.saturating_add(NEAR_TICKS).min(MAX_TICK)))
    }

    fn span_words(&self, window: u32) -> Vec<i16> {
        let Some((low, high)) = self.span(window) else { return Vec::new() };
        let word = |tick: i32| tick.div_euclid(self.spacing) >> 8;
        (word(low)..=word(high)).filter_map(|word| i16::try_from(word).ok()).collect()
    }

    /// Returns the initialized ticks in the range, as far as its words are known.
    fn span_ticks(&self, window: u32) -> Vec<i32> {
        let Some((low, high)) = self.span(window) else { return Vec::new() };
        let mut ticks = Vec::new();
        for (word, bits) in &self.words {
            for bit in (0..256usize).filter(|bit| bits.bit(*bit)) {
                let bit = i32::try_from(bit).unwrap_or_default();
                let tick = i32::from(*word).saturating_mul(256).saturating_add(bit).saturating_mul(self.spacing);
                if (low..=high).contains(&tick) {
                    ticks.push(tick);
                }
            }
        }
        ticks
    }

    fn needed_words(&self, window: u32) -> (Vec<i16>, Vec<i32>) {
        let words = self.span_words(window).into_iter().filter(|word| !self.words.contains_key(word));
        (words.collect(), Vec::new())
    }

    fn ticks_wanted(&self, window: u32) -> (Vec<i16>, Vec<i32>) {
        let ticks = self.span_ticks(window).into_iter().filter(|tick| !self.nets.contains_key(tick));
        (Vec::new(), ticks.collect())
    }

    fn hint(&self, window: u32) -> TickHint {
        TickHint { words: self.span_words(window), ticks: self.span_ticks(window) }
    }

    /// Returns true if every word and initialized tick of the range was read.
    fn is_known(&self, window: u32) -> bool {
        self.span(window).is_some() && self.needed_words(window).0.is_empty() && self.ticks_wanted(window).1.is_empty()
    }

    /// Returns true if the ticks near `mean` were read.
    fn reaches(&self, mean: i32, window: u32) -> bool {
        self.span(window).is_some_and(|(low, high)| {
            low <= mean.saturating_sub(NEAR_TICKS) && mean.saturating_add(NEAR_TICKS) <= high
        })
    }

    /// Returns the active liquidity at `tick`; `None` if the data is inconsistent.
    fn liquidity_at(&self, tick: i32) -> Option<u128> {
        let liquidity = i128::try_from(self.liquidity).ok()?;
        let sum = |low: i32, high: i32| {
            // `low` is never above `high`: a reversed range would panic.
            let mut nets = self.nets.range(low..=high).filter(|(tick, _)| **tick > low).map(|(_, net)| *net);
            nets.try_fold(0_i128, i128::checked_add)
        };
        let there = if tick >= self.tick {
            liquidity.checked_add(sum(self.tick, tick)?)?
        } else {
            liquidity.checked_sub(sum(tick, self.tick)?)?
        };
        u128::try_from(there).ok()
    }

    /// Returns the token1 within [`NEAR_TICKS`] below `mean`, and the token0 within [`NEAR_TICKS`] above it, in raw
    /// units.
    fn near(&self, mean: i32) -> Option<(U256, U256)> {
        let side = |low: i32, high: i32, between: fn(U256, U256, u128, bool) -> Result<U256, MathError>| {
            let inner = self.nets.range(low..high).map(|(tick, _)| *tick).filter(|tick| *tick > low);
            let edges: Vec<i32> = std::iter::once(low).chain(inner).chain([high]).collect();
            edges.iter().zip(edges.iter().skip(1)).try_fold(U256::ZERO, |sum, (from, to)| {
                let (start, end) = (sqrt_price_at_tick(*from).ok()?, sqrt_price_at_tick(*to).ok()?);
                sum.checked_add(between(start, end, self.liquidity_at(*from)?, false).ok()?)
            })
        };
        let (low, high) = (mean.saturating_sub(NEAR_TICKS), mean.saturating_add(NEAR_TICKS));
        if low < MIN_TICK || high > MAX_TICK {
            return None;
        }
        Some((side(low, mean, amount1_between)?, side(mean, high, amount0_between)?))
    }
}

/// Means of a pool over a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PoolWindow {
    /// Arithmetic mean of the tick, rounded down.
    tick: i32,
    /// Harmonic mean of the liquidity.
    liquidity: u128,
}

impl PoolWindow {
    /// Computes the means between the cumulative values at index `from`, which is `window` seconds old, and the last
    /// one, which is current. This follows `OracleLibrary.consult` of Uniswap's v3-periphery. Cumulative values wrap,
    /// so only their differences are meaningful.
    fn of(observed: &UniswapV3Pool::observeReturn, from: usize, window: u32) -> Option<Self> {
        let [start, .., end] = observed.tickCumulatives.get(from..)? else { return None };
        let moved = i64::try_from(end.wrapping_sub(*start)).ok()?;
        let tick = i32::try_from(moved.div_euclid(i64::from(window))).ok()?;
        let [start, .., end] = observed.secondsPerLiquidityCumulativeX128s.get(from..)? else { return None };
        let seconds_per_liquidity = U256::from(end.wrapping_sub(*start));
        let scaled: U256 = U256::from(window) << 128;
        let liquidity = scaled.checked_div(seconds_per_liquidity)?;
        Some(Self { tick, liquidity: u128::try_from(liquidity).ok()? })
    }

    /// Computes the amounts of [`ObservedPool::near`] for the mean liquidity at every tick.
    fn near(self) -> Option<(U256, U256)> {
        let price = |tick: i32| sqrt_price_at_tick(tick).ok();
        let (low, high) = (self.tick.checked_sub(NEAR_TICKS)?, self.tick.checked_add(NEAR_TICKS)?);
        let (low, middle, high) = (price(low)?, price(self.tick)?, price(high)?);
        let below = amount1_between(low, middle, self.liquidity, false).ok()?;
        Some((below, amount0_between(middle, high, self.liquidity, false).ok()?))
    }
}

/// Token and anchor of a pool.
#[derive(Debug, Clone, Copy)]
struct AnchorPair {
    token_is_first: bool,
    own_decimals: u8,
    anchor_decimals: u8,
    anchor_usd: Usd,
}

impl AnchorPair {
    /// Creates a pair; `None` if decimals or the anchor's dollar price are unknown.
    fn of(
        token: Address,
        anchor: Address,
        decimals: &BTreeMap<Address, u8>,
        anchors: &BTreeMap<Address, Usd>,
    ) -> Option<Self> {
        Some(Self {
            token_is_first: sort_tokens(token, anchor).0 == token,
            own_decimals: *decimals.get(&token)?,
            anchor_decimals: *decimals.get(&anchor)?,
            anchor_usd: *anchors.get(&anchor).filter(|usd| !usd.is_zero())?,
        })
    }

    /// Returns the price of one whole token at `tick` in dollars, rounded down.
    fn price(self, tick: i32) -> Option<Usd> {
        let sqrt_price = sqrt_price_at_tick(tick).ok()?;
        let (squared, unit) = (big(sqrt_price).pow(2), BigUint::from(1u8) << 192u32);
        let ratio =
            if self.token_is_first { Ratio::new(squared.into(), unit) } else { Ratio::new(unit.into(), squared) }?;
        let digits = u32::from(self.own_decimals) + u32::from(EXTRA_DIGITS);
        let scaled = ratio.times(&Ratio::new(BigUint::from(10u8).pow(digits).into(), BigUint::from(1u8))?);
        let raw = U256::try_from_le_slice(&(scaled.numerator().magnitude() / scaled.denominator()).to_bytes_le())?;
        let one = TokenAmount::new(raw, self.anchor_decimals.checked_add(EXTRA_DIGITS)?).ok()?;
        Usd::value_of(one, self.anchor_usd, Rounding::Down).ok()
    }

    /// Returns the price of one whole token at `mean`, and the tradable amount near it, both in dollars. The amount is
    /// the smaller of both directions, and of the current ticks and the mean liquidity.
    fn value(self, mean: PoolWindow, pool: &ObservedPool) -> Option<(Usd, Usd)> {
        let usd = self.price(mean.tick)?;
        let now = pool.near(mean.tick).and_then(|near| self.depth(usd, near)).unwrap_or(Usd::ZERO);
        Some((usd, now.min(self.depth_over_time(usd, mean))))
    }

    /// Returns an upper bound of a pool's depth near `mean`, independent of its ticks: by the mean liquidity and by its
    /// balances. `None` if the token's value is zero there.
    fn bound(self, mean: PoolWindow, pool: &ObservedPool) -> Option<Usd> {
        let usd = self.price(mean.tick).filter(|usd| !usd.is_zero())?;
        let [own, of_anchor] = pool.held;
        // A value that overflows does not bound the depth.
        let held = self.lesser(usd, of_anchor, own);
        let over_time = self.depth_over_time(usd, mean);
        Some(held.map_or(over_time, |held| held.min(over_time)))
    }

    fn depth_over_time(self, usd: Usd, mean: PoolWindow) -> Usd {
        mean.near().and_then(|near| self.depth(usd, near)).unwrap_or(Usd::ZERO)
    }

    /// Returns the smaller dollar value of the token1 below a price and the token0 above it.
    fn depth(self, usd: Usd, (below, above): (U256, U256)) -> Option<Usd> {
        let (of_anchor, own) = if self.token_is_first { (below, above) } else { (above, below) };
        self.lesser(usd, of_anchor, own)
    }

    /// Returns the smaller dollar value of two raw amounts, at a token price of `usd`.
    fn lesser(self, usd: Usd, of_anchor: U256, own: U256) -> Option<Usd> {
        let of_anchor = TokenAmount::new(of_anchor, self.anchor_decimals).ok()?;
        let own = TokenAmount::new(own, self.own_decimals).ok()?;
        let out = Usd::value_of(of_anchor, self.anchor_usd, Rounding::Down).ok()?;
        Some(out.min(Usd::value_of(own, usd, Rounding::Down).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy::primitives::aliases::{I56, U160};

    fn observed(ticks: [i64; 2], seconds: [U160; 2]) -> UniswapV3Pool::observeReturn {
        UniswapV3Pool::observeReturn {
            tickCumulatives: ticks.map(|tick| I56::try_from(tick).unwrap()).to_vec(),
            secondsPerLiquidityCumulativeX128s: seconds.to_vec(),
        }
    }

    #[test]
    fn means_round_down_and_totals_may_wrap() {
        // 1800 s at a liquidity of 2^64 add 1800 · 2^64 to the cumulative value, here across its wrap.
        let step = U160::from(1800) << 64;
        let start = U160::MAX - U160::from(5);
        let mean = PoolWindow::of(&observed([10, 9], [start, start.wrapping_add(step)]), 0, 1800).unwrap();
        assert_eq!(mean, PoolWindow { tick: -1, liquidity: 1 << 64 });
        let mean = PoolWindow::of(&observed([0, 1800 * 7 + 1799], [U160::ZERO, step]), 0, 1800).unwrap();
        assert_eq!(mean.tick, 7);
        assert!(PoolWindow::of(&observed([0, 0], [start, start]), 0, 1800).is_none());
        // The last 30 of 1800 seconds alone: tick 8 after 1770 s at tick 2; liquidity 2^64 and then 2^60.
        let total = U160::from(1770) << 64;
        let both = UniswapV3Pool::observeReturn {
            tickCumulatives: [0_i64, 1_770 * 2, 1_770 * 2 + 30 * 8].map(|tick| I56::try_from(tick).unwrap()).to_vec(),
            secondsPerLiquidityCumulativeX128s: vec![U160::ZERO, total, total + (U160::from(30) << 68)],
        };
        assert_eq!(PoolWindow::of(&both, 1, LATELY), Some(PoolWindow { tick: 8, liquidity: 1 << 60 }));
        assert_eq!(PoolWindow::of(&both, 0, 1800).unwrap().tick, 2);
        assert_eq!(PoolWindow::of(&both, 2, LATELY), None);
        let one = UniswapV3Pool::observeReturn {
            tickCumulatives: vec![I56::ZERO],
            secondsPerLiquidityCumulativeX128s: vec![U160::ZERO],
        };
        assert!(PoolWindow::of(&one, 0, 1800).is_none());
    }

    #[test]
    fn dollar_prices_are_derived_from_the_anchor() {
        let dollar: Usd = "1".parse().unwrap();
        // USDC (6 decimals) first, WETH (18) second: 1.0001^195135 raw WETH per raw USDC is 3,355.97… USDC for one
        // WETH, computed independently with decimal arithmetic.
        let pair = AnchorPair { token_is_first: false, own_decimals: 18, anchor_decimals: 6, anchor_usd: dollar };
        let usd = pair.price(195_135).unwrap();
        assert_eq!(usd.to_fixed(4, Rounding::Down), "3355.9720");
        // In the other direction, USDC priced by WETH at that dollar price is one dollar again.
        let back = AnchorPair { token_is_first: true, own_decimals: 6, anchor_decimals: 18, anchor_usd: usd };
        assert_eq!(back.price(195_135).unwrap().to_fixed(6, Rounding::Up), "1.000000");
    }

    /// Builds a pool of two tokens with 18 decimals at tick `tick`, with positions as `(low, high, liquidity)`.
    fn pool(tick: i32, positions: &[(i32, i32, u128)]) -> ObservedPool {
        let mut nets: BTreeMap<i32, i128> = BTreeMap::new();
        let mut liquidity = 0;
        for (low, high, of) in positions {
            *nets.entry(*low).or_default() += i128::try_from(*of).unwrap();
            *nets.entry(*high).or_default() -= i128::try_from(*of).unwrap();
            if (*low..*high).contains(&tick) {
                liquidity += of;
            }
        }
        let (address, anchor) = (Address::ZERO, Address::ZERO);
        let (held, words) = ([U256::MAX; 2], BTreeMap::new());
        ObservedPool { address, anchor, spacing: 1, tick, liquidity, held, totals: None, words, nets }
    }

    #[test]
    fn depth_is_the_tradable_amount_near_the_mean_in_both_directions() {
        let pair = AnchorPair {
            token_is_first: true,
            own_decimals: 18,
            anchor_decimals: 18,
            anchor_usd: "1".parse().unwrap(),
        };
        let depth = |tick, positions: &[(i32, i32, u128)], over_time: u128| {
            let mean = PoolWindow { tick: 0, liquidity: over_time };
            let (_, depth) = pair.value(mean, &pool(tick, positions)).unwrap();
            depth.to_fixed(0, Rounding::Down).parse::<u64>().unwrap()
        };
        // Liquidity of a million whole units everywhere: 10^6 × (1 − 1.0001^−100) = 9,949.67 within 2 % of the price.
        let (unit, million) = (10_u128.pow(18), 10_u128.pow(24));
        assert_eq!(depth(0, &[(-10_000, 10_000, million)], million), 9_949);
        // The same liquidity in one tick: 10^6 × (1 − 1.0001^−0.5) is 49.99 on one side, and nothing on the other.
        assert_eq!(depth(0, &[(0, 1, million)], million), 0);
        assert_eq!(depth(0, &[(-1, 1, million)], million), 49);
        // Liquidity parked on one side of the price, or far away on both sides.
        assert_eq!(depth(0, &[(-10_000, 0, million * 100), (-1, 1, unit)], million * 100), 0);
        assert_eq!(depth(0, &[(-9_000, -300, million), (300, 9_000, million), (-1, 1, million)], million), 49);
        // Liquidity provided for a moment is limited by the window's mean.
        assert_eq!(depth(0, &[(-10_000, 10_000, million)], unit * 1_000), 9);
        // If the current price is elsewhere, the ticks near the mean still count the same.
        assert_eq!(depth(500, &[(-10_000, 10_000, million)], million), 9_949);
        assert_eq!(depth(-500, &[(-300, 300, million), (-10_000, 300, unit)], million), 9_949);
    }

    /// Four times the mean price is 1.0001^13,863.6, so the range ends at a distance of 13,864 ticks.
    #[test]
    fn ticks_of_a_pool_beyond_four_times_its_mean_are_not_read() {
        let steady = observed([0, 0], [U160::ZERO, U160::from(1_800) << 64]);
        for (tick, reads) in [(0, true), (13_864, true), (-13_864, true), (13_865, false), (-13_865, false)] {
            let pool = ObservedPool { totals: Some(steady.clone()), ..pool(tick, &[(-20_000, 20_000, 1)]) };
            assert_eq!(!pool.needed_words(1_800).0.is_empty(), reads, "{tick}");
            assert!(reads || !pool.is_known(1_800), "{tick}: what was not read is not known");
        }
    }

    #[test]
    fn a_pool_with_an_unchanged_tick_has_not_traded() {
        let at = |ticks: [i64; 8]| observeds(&ticks);
        let ages = [1_800, 1_500, 1_200, 900, 600, 300, 30, 0];
        assert_eq!(seconds_ago(1_800), ages);
        assert!(!traded(&at(ages.map(|age| -16_095 * i64::from(age))), 1_800));
        let mut moved = ages.map(|age| -16_095 * i64::from(age));
        moved[7] += 30;
        assert!(traded(&at(moved), 1_800), "one tick higher in the last half minute");
        assert!(!traded(&at([0; 8]), 1_800));
    }

    fn observeds(ticks: &[i64]) -> UniswapV3Pool::observeReturn {
        UniswapV3Pool::observeReturn {
            tickCumulatives: ticks.iter().map(|tick| I56::try_from(*tick).unwrap()).collect(),
            secondsPerLiquidityCumulativeX128s: Vec::new(),
        }
    }
}
