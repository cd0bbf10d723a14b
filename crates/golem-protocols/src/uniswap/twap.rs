//! Time-weighted prices from Uniswap V3 pools, over half an hour or more.
//!
//! A pool prices a token in an anchor (the wrapped native token or a stable); the anchor's dollars come from its feed.
//! A pool is a witness only if it remembers the window, traded within it, and is deep: at least the configured dollars
//! can be sold into it, and bought from it, within [`NEAR_TICKS`] of its mean. That is counted over the initialised
//! ticks, never from virtual reserves, which one narrow position multiplies 20,000 times. Parked one-sided liquidity
//! therefore counts for nothing, and liquidity that appears for a block is bounded by the window's harmonic mean.
//!
//! Anybody can initialise thousands of ticks in a pool that holds nothing. So ticks are read only of pools that could be
//! witnesses by what they hold and by their mean liquidity, of each at most [`MOST_TICKS`], and a request that fails loses
//! the pools in it and no other.
//!
//! Every witness is reported; the median among them and the feed is taken by `safety::ground`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use alloy::eips::BlockId;
use alloy::primitives::aliases::I24;
use alloy::primitives::{Address, U256};
use alloy::providers::{DynProvider, bindings::IMulticall3};
use futures::future::join_all;
use num_bigint::BigUint;

use super::address::{V3_POOL_INIT_CODE_HASH, sort_tokens, v3_pool};
use super::discovery::{BASE_SYMBOLS, DiscoveryError, FEE_TIERS};
use super::ratio::{Ratio, big};
use super::v3::math::{MathError, amount0_between, amount1_between};
use super::v3::tick_math::{MAX_TICK, MIN_TICK, sqrt_price_at_tick};
use bardo_abi::erc20::Erc20;
use bardo_abi::uniswap_v3::UniswapV3Pool;
use bardo_base::units::{Rounding, TokenAmount, Usd};
use golem_chain::multicall::{Answers, Call, Calls};
use golem_chain::network::{Contract, Network};
use golem_chain::price::{NoPrice, Price, PriceOrigin, PriceReader};

/// Shortest window a mean may be taken over, in seconds.
pub const MIN_WINDOW: u32 = 1_800;

/// Window of a pool's recent price, in seconds: short enough to follow a fall, and longer than a block, so that a price
/// of one moment does not decide it.
pub const LATELY: u32 = 30;

/// Parts of the window that are compared to find out whether a pool traded in it.
const SAMPLES: u32 = 6;

/// Distance from the mean within which liquidity counts, in ticks: 2 %.
const NEAR_TICKS: i32 = 200;

/// Distance of the current tick from the mean beyond which a pool is no witness: a fall to a quarter, or a rise to four
/// times as much. It bounds what is read of a pool. It must stay well above the fall at which a sale is asked about
/// (`checks::slippage`), which takes the mean of such a pool.
const STRAYED_TICKS: i32 = 13_864;

/// Initialised ticks that are read of one pool. While the price stands near its mean there are at most 800 in the range
/// that counts. A pool with more, in a range that a moving price has widened, is not known ([`ObservedPool::is_known`]) and
/// counts with a depth of zero: it is no witness, and part of its ticks never passes for all of them. Whoever initialises
/// that many can so take one pool away as a witness, not bend a price; a token that no other pool and no feed prices is then
/// neither bought nor sold until the range narrows with the mean.
const MOST_TICKS: usize = 4_096;

/// Digits kept below an anchor's smallest unit, so that tokens worth little keep their digits.
const EXTRA_DIGITS: u8 = 12;

/// What a pool must show before its mean is a price.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TwapRules {
    /// Seconds the mean is taken over; values below [`MIN_WINDOW`] are read as that.
    pub window: u32,
    /// Dollars that must be sellable into the pool, and buyable from it, within 2 % of its mean.
    pub minimum_depth: Usd,
}

/// One pool's price of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolMean {
    /// The pool.
    pub pool: Address,
    /// Dollars for one whole token: the mean over the rules' window.
    pub usd: Usd,
    /// Dollars by the mean over the last [`LATELY`] seconds; `None` if the pool was too shallow in them.
    pub lately: Option<Usd>,
}

/// The pools that price a token, at least one, cheapest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolPrices {
    /// The pools.
    pub pools: Vec<PoolMean>,
    /// The time the means are taken over.
    pub window: Duration,
    /// Time of the block that was read, in seconds since the Unix epoch.
    pub read_at: u64,
}

impl PoolPrices {
    /// The lower median as one price.
    pub fn price(&self) -> Option<Price> {
        let middle = self.pools.len().saturating_sub(1) / 2;
        let PoolMean { pool, usd, .. } = *self.pools.get(middle)?;
        let source = PriceOrigin::Twap { pool, window: self.window };
        Some(Price { usd, source, observed_at: Some(self.read_at), age: Some(Duration::ZERO) })
    }
}

/// Bitmap words and initialised ticks that earlier reads needed. They are requested together with a pool's price, so
/// that a warm read takes one round trip; the answers, never the hints, decide.
#[derive(Debug, Default)]
pub struct TickHints(Mutex<HashMap<Address, Hint>>);

#[derive(Debug, Clone, Default)]
struct Hint {
    words: Vec<i16>,
    ticks: Vec<i32>,
}

/// Time-weighted prices from the V3 pools of one chain.
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

/// What the chain answered about the pools of some tokens.
#[derive(Debug)]
pub struct Observed {
    now: u64,
    decimals: BTreeMap<Address, u8>,
    of: Vec<(Address, Vec<ObservedPool>)>,
}

/// State and memory of one pool.
#[derive(Debug)]
struct ObservedPool {
    address: Address,
    anchor: Address,
    spacing: i32,
    tick: i32,
    liquidity: u128,
    /// Its balances of the token and of the anchor, raw.
    held: [U256; 2],
    /// `None` if the pool does not remember the whole window.
    totals: Option<UniswapV3Pool::observeReturn>,
    words: BTreeMap<i16, U256>,
    nets: BTreeMap<i32, i128>,
}

/// The calls that read one pool.
struct Question {
    pool: Address,
    anchor: Address,
    spacing: i32,
    slot0: Call<UniswapV3Pool::slot0Call>,
    liquidity: Call<UniswapV3Pool::liquidityCall>,
    observed: Call<UniswapV3Pool::observeCall>,
    held: [Call<Erc20::balanceOfCall>; 2],
    ladder: Ladder,
}

/// Words and ticks of a pool that are still to be read.
struct Wanted<'a> {
    pool: &'a mut ObservedPool,
    words: Vec<i16>,
    ticks: Vec<i32>,
}

impl Wanted<'_> {
    fn ask(&self, calls: &mut Calls) -> Ladder {
        Ladder::ask(calls, self.pool.address, &self.words, &self.ticks)
    }
}

/// The calls that read some bitmap words and ticks of a pool.
#[derive(Default)]
struct Ladder {
    words: Vec<(i16, Call<UniswapV3Pool::tickBitmapCall>)>,
    ticks: Vec<(i32, Call<UniswapV3Pool::ticksCall>)>,
}

impl Ladder {
    fn ask(calls: &mut Calls, pool: Address, words: &[i16], ticks: &[i32]) -> Self {
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
    /// For a network with Multicall3 and the V3 factory in its book; its wrapped native token and listed stables are the
    /// anchors.
    ///
    /// # Errors
    /// [`DiscoveryError::NotHere`] says what the book lacks.
    pub fn new(provider: DynProvider, network: &Network, rules: TwapRules) -> Result<Self, DiscoveryError> {
        let book = &network.book;
        let missing = |missing| DiscoveryError::NotHere { network: network.name.clone(), missing };
        let listed = book.tokens().iter().filter(|token| BASE_SYMBOLS.contains(&token.symbol.as_str()));
        Ok(Self {
            reader: PriceReader::new(provider),
            multicall: book.contract(Contract::Multicall3).ok_or_else(|| missing("Multicall3"))?,
            factory: book.contract(Contract::V3Factory).ok_or_else(|| missing("Uniswap V3 factory"))?,
            anchors: book
                .contract(Contract::WrappedNative)
                .into_iter()
                .chain(listed.map(|token| token.address))
                .collect(),
            rules: TwapRules { window: rules.window.max(MIN_WINDOW), ..rules },
            left_out: BTreeSet::new(),
            hints: Arc::default(),
        })
    }

    /// The same, read through a provider whose endpoints must say the same, where there is one.
    #[must_use]
    pub fn witnessed_by(self, witness: Option<DynProvider>) -> Self {
        Self { reader: self.reader.witnessed_by(witness), ..self }
    }

    /// The same, which reads `block` instead of the latest one.
    #[must_use]
    pub fn at(self, block: Option<BlockId>) -> Self {
        Self { reader: self.reader.at(block), ..self }
    }

    /// The same without some pools: those a trade is about to move must not be its only witness.
    #[must_use]
    pub fn without(mut self, pools: impl IntoIterator<Item = Address>) -> Self {
        self.left_out.extend(pools);
        self
    }

    /// The same with hints that outlive it.
    #[must_use]
    pub fn hinted_by(self, hints: Arc<TickHints>) -> Self {
        Self { hints, ..self }
    }

    /// Reads the pools of `tokens`, in one round trip, but for the ticks that no hint names: see [`Self::complete`].
    ///
    /// # Errors
    /// [`NoPrice`] if the chain cannot be read.
    pub async fn observe(&self, tokens: &[Address]) -> Result<Observed, NoPrice> {
        let known = self.hints.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match self.observe_hinted(tokens, &known).await {
            // Ticks that earlier reads needed may be what the chain could not answer.
            Err(_) if !known.is_empty() => self.observe_hinted(tokens, &HashMap::new()).await,
            observed => observed,
        }
    }

    async fn observe_hinted(&self, tokens: &[Address], known: &HashMap<Address, Hint>) -> Result<Observed, NoPrice> {
        let mut calls = Calls::default();
        let time = calls.push(self.multicall, &IMulticall3::getCurrentBlockTimestampCall {});
        let mut decimals: BTreeMap<Address, Call<Erc20::decimalsCall>> = BTreeMap::new();
        for token in tokens.iter().chain(&self.anchors) {
            decimals.entry(*token).or_insert_with(|| calls.push(*token, &Erc20::decimalsCall {}));
        }
        let seconds = seconds_ago(self.rules.window);
        let mut asked: Vec<(Address, Vec<Question>)> = Vec::new();
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
                    questions.push(Question {
                        pool,
                        anchor: *anchor,
                        spacing,
                        slot0: calls.push(pool, &UniswapV3Pool::slot0Call {}),
                        liquidity: calls.push(pool, &UniswapV3Pool::liquidityCall {}),
                        observed: calls.push(pool, &observe),
                        held: [*token, *anchor].map(|of| calls.push(of, &held)),
                        ladder: Ladder::ask(&mut calls, pool, &hint.words, &hint.ticks),
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
        Ok(Observed { now, decimals, of: of.collect() })
    }

    /// Reads the words and ticks near the means that no hint has brought, of the pools that may be witnesses given their
    /// anchors' dollars: no round trip where the hints suffice, at most two. A pool of which something cannot be read is
    /// no witness.
    pub async fn complete(&self, observed: &mut Observed, anchors: &BTreeMap<Address, Usd>) {
        let window = self.rules.window;
        let Observed { decimals, of, .. } = observed;
        let mut candidates: Vec<&mut ObservedPool> = of
            .iter_mut()
            .flat_map(|(token, pools)| pools.iter_mut().map(|pool| (*token, pool)))
            .filter(|(token, pool)| self.may_be_witness(*token, pool, decimals, anchors))
            .map(|(_, pool)| pool)
            .collect();
        for wanted in [ObservedPool::words_wanted, ObservedPool::ticks_wanted] {
            let wanted: Vec<Wanted<'_>> = candidates
                .iter_mut()
                .filter_map(|pool| {
                    let (words, ticks) = wanted(pool, window);
                    let is_read = ticks.len() <= MOST_TICKS && !(words.is_empty() && ticks.is_empty());
                    is_read.then_some(Wanted { pool, words, ticks })
                })
                .collect();
            self.read_wanted(wanted).await;
        }
        let mut hints = self.hints.0.lock().unwrap_or_else(PoisonError::into_inner);
        for pool in candidates.iter().filter(|pool| pool.is_known(window)) {
            hints.insert(pool.address, pool.hint(window));
        }
    }

    /// Reads words and ticks of pools: of all together, or, where that fails, of each by itself.
    async fn read_wanted(&self, mut wanted: Vec<Wanted<'_>>) {
        if wanted.is_empty() {
            return;
        }
        let mut calls = Calls::default();
        let ladders: Vec<Ladder> = wanted.iter().map(|one| one.ask(&mut calls)).collect();
        if let Ok(answers) = self.reader.send(calls, self.multicall).await {
            wanted.iter_mut().zip(&ladders).for_each(|(one, ladder)| one.pool.learn(ladder, &answers));
            return;
        }
        let mut calls: Vec<(Calls, Ladder)> = Vec::new();
        for one in &wanted {
            let mut own = Calls::default();
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

    /// Whether a pool may be a witness, by what costs no ticks to read: its memory, its trades, and [`Pair::bound`].
    fn may_be_witness(
        &self,
        token: Address,
        pool: &ObservedPool,
        decimals: &BTreeMap<Address, u8>,
        anchors: &BTreeMap<Address, Usd>,
    ) -> bool {
        let pair = Pair::of(token, pool.anchor, decimals, anchors);
        let (Some(pair), Some(totals)) = (pair, &pool.totals) else { return false };
        let bound = Mean::of(totals, 0, self.rules.window).and_then(|mean| pair.bound(mean, pool));
        bound.is_some_and(|bound| bound >= self.rules.minimum_depth) && traded(totals, self.rules.window)
    }

    /// The pools that price each observed token, given its anchors' dollars, or why none does.
    pub fn judge(&self, observed: &Observed, anchors: &BTreeMap<Address, Usd>) -> Vec<Result<PoolPrices, NoPrice>> {
        observed.of.iter().map(|(token, pools)| self.judge_token(*token, pools, observed, anchors)).collect()
    }

    fn judge_token(
        &self,
        token: Address,
        pools: &[ObservedPool],
        observed: &Observed,
        anchors: &BTreeMap<Address, Usd>,
    ) -> Result<PoolPrices, NoPrice> {
        let window = Duration::from_secs(self.rules.window.into());
        let (mut young, mut idle, mut deepest) = (false, false, None::<Usd>);
        let mut witnesses = Vec::new();
        for pool in pools {
            let Some(pair) = Pair::of(token, pool.anchor, &observed.decimals, anchors) else { continue };
            let Some(totals) = &pool.totals else {
                young = true;
                continue;
            };
            let Some(mean) = Mean::of(totals, 0, self.rules.window) else { continue };
            let Some(bound) = pair.bound(mean, pool) else { continue };
            if bound < self.rules.minimum_depth {
                // Its ticks were not read.
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
            let recent = Mean::of(totals, totals.tickCumulatives.len().saturating_sub(2), LATELY);
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

/// Ages at which a pool's running totals are read: even parts of the window, then [`LATELY`] and now.
fn seconds_ago(window: u32) -> Vec<u32> {
    (1..=SAMPLES).rev().map(|part| window / SAMPLES * part).chain([LATELY, 0]).collect()
}

/// Whether the tick moved within the window. A pool that nobody swaps in keeps one tick, at whatever price its creator
/// chose.
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
    /// `None` where there is no pool, or one that was never given a price.
    fn read(question: &Question, answers: &Answers) -> Option<Self> {
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

    fn learn(&mut self, ladder: &Ladder, answers: &Answers) {
        let words = ladder.words.iter().filter_map(|(word, call)| Some((*word, call.take(answers)?)));
        self.words.extend(words);
        let ticks = ladder.ticks.iter().filter_map(|(tick, call)| Some((*tick, call.take(answers)?.liquidityNet)));
        self.nets.extend(ticks);
    }

    /// The ticks from the current one to both ends of the range that counts; `None` if the pool strayed from its mean or
    /// does not remember one.
    fn span(&self, window: u32) -> Option<(i32, i32)> {
        let mean = Mean::of(self.totals.as_ref()?, 0, window)?.tick;
        if mean.abs_diff(self.tick) > STRAYED_TICKS.unsigned_abs() {
            return None;
        }
        let low = mean.saturating_sub(NEAR_TICKS).min(self.tick).max(MIN_TICK);
        let high = mean.saturating_add(NEAR_TICKS).max(self.tick).min(MAX_TICK);
        // The recent mean lies between the two, or a little beyond them; what is not read counts for nothing.
        Some((low.saturating_sub(NEAR_TICKS).max(MIN_TICK), high.saturating_add(NEAR_TICKS).min(MAX_TICK)))
    }

    fn span_words(&self, window: u32) -> Vec<i16> {
        let Some((low, high)) = self.span(window) else { return Vec::new() };
        let word = |tick: i32| tick.div_euclid(self.spacing) >> 8;
        (word(low)..=word(high)).filter_map(|word| i16::try_from(word).ok()).collect()
    }

    /// The initialised ticks of the span, as far as its words are known.
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

    fn words_wanted(&self, window: u32) -> (Vec<i16>, Vec<i32>) {
        let words = self.span_words(window).into_iter().filter(|word| !self.words.contains_key(word));
        (words.collect(), Vec::new())
    }

    fn ticks_wanted(&self, window: u32) -> (Vec<i16>, Vec<i32>) {
        let ticks = self.span_ticks(window).into_iter().filter(|tick| !self.nets.contains_key(tick));
        (Vec::new(), ticks.collect())
    }

    fn hint(&self, window: u32) -> Hint {
        Hint { words: self.span_words(window), ticks: self.span_ticks(window) }
    }

    /// Whether every word and initialised tick of the span was read.
    fn is_known(&self, window: u32) -> bool {
        self.span(window).is_some() && self.words_wanted(window).0.is_empty() && self.ticks_wanted(window).1.is_empty()
    }

    /// Whether the ticks near `mean` were read.
    fn reaches(&self, mean: i32, window: u32) -> bool {
        self.span(window).is_some_and(|(low, high)| {
            low <= mean.saturating_sub(NEAR_TICKS) && mean.saturating_add(NEAR_TICKS) <= high
        })
    }

    /// Liquidity in force at `tick`; `None` where what was read contradicts itself.
    fn liquidity_at(&self, tick: i32) -> Option<u128> {
        let liquidity = i128::try_from(self.liquidity).ok()?;
        let sum = |low: i32, high: i32| {
            // `low` is never above `high`: a range whose start lies behind its end would panic.
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

    /// Token1 within [`NEAR_TICKS`] below `mean` and token0 within as many above it, in raw units.
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

/// What a pool was like over the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mean {
    /// The arithmetic mean of ticks, rounded down.
    tick: i32,
    /// The harmonic mean of liquidity.
    liquidity: u128,
}

impl Mean {
    /// From the running totals at number `from`, so many seconds ago, and at the last, which is now, as the
    /// periphery's `OracleLibrary.consult` does it. Totals wrap, so only their differences mean anything.
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

    /// As [`ObservedPool::near`], if the mean liquidity stood at every tick.
    fn near(self) -> Option<(U256, U256)> {
        let price = |tick: i32| sqrt_price_at_tick(tick).ok();
        let (low, high) = (self.tick.checked_sub(NEAR_TICKS)?, self.tick.checked_add(NEAR_TICKS)?);
        let (low, middle, high) = (price(low)?, price(self.tick)?, price(high)?);
        let below = amount1_between(low, middle, self.liquidity, false).ok()?;
        Some((below, amount0_between(middle, high, self.liquidity, false).ok()?))
    }
}

/// A token and its anchor in a pool.
#[derive(Debug, Clone, Copy)]
struct Pair {
    token_is_first: bool,
    own_decimals: u8,
    anchor_decimals: u8,
    anchor_usd: Usd,
}

impl Pair {
    /// `None` where decimals or the anchor's dollars are not known.
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

    /// Dollars for one whole token at `tick`, rounded down.
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

    /// Dollars for one whole token at `mean`, and the dollars that can be traded near it: the lesser of the two
    /// directions, by the ticks of now and by the mean's liquidity.
    fn value(self, mean: Mean, pool: &ObservedPool) -> Option<(Usd, Usd)> {
        let usd = self.price(mean.tick)?;
        let now = pool.near(mean.tick).and_then(|near| self.depth(usd, near)).unwrap_or(Usd::ZERO);
        Some((usd, now.min(self.depth_over_time(usd, mean))))
    }

    /// The most that a pool's depth near `mean` can come to, whatever its ticks say: by the mean's liquidity, and by the
    /// tokens that it holds. `None` if the token is worth nothing there.
    fn bound(self, mean: Mean, pool: &ObservedPool) -> Option<Usd> {
        let usd = self.price(mean.tick).filter(|usd| !usd.is_zero())?;
        let [own, of_anchor] = pool.held;
        // More than can be counted is no bound.
        let held = self.lesser(usd, of_anchor, own);
        let over_time = self.depth_over_time(usd, mean);
        Some(held.map_or(over_time, |held| held.min(over_time)))
    }

    fn depth_over_time(self, usd: Usd, mean: Mean) -> Usd {
        mean.near().and_then(|near| self.depth(usd, near)).unwrap_or(Usd::ZERO)
    }

    /// Dollars of token1 below a price and of token0 above it, the lesser.
    fn depth(self, usd: Usd, (below, above): (U256, U256)) -> Option<Usd> {
        let (of_anchor, own) = if self.token_is_first { (below, above) } else { (above, below) };
        self.lesser(usd, of_anchor, own)
    }

    /// The lesser of the dollars of two raw amounts, where the token is worth `usd`.
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
        // 1800 s at a liquidity of 2^64 add 1800 · 2^64 to the total, here across its end.
        let step = U160::from(1800) << 64;
        let start = U160::MAX - U160::from(5);
        let mean = Mean::of(&observed([10, 9], [start, start.wrapping_add(step)]), 0, 1800).unwrap();
        assert_eq!(mean, Mean { tick: -1, liquidity: 1 << 64 });
        let mean = Mean::of(&observed([0, 1800 * 7 + 1799], [U160::ZERO, step]), 0, 1800).unwrap();
        assert_eq!(mean.tick, 7);
        assert!(Mean::of(&observed([0, 0], [start, start]), 0, 1800).is_none());
        // The last 30 of 1800 seconds by themselves: at tick 8, after 1770 at tick 2; liquidity 2^64 and then 2^60.
        let total = U160::from(1770) << 64;
        let both = UniswapV3Pool::observeReturn {
            tickCumulatives: [0_i64, 1_770 * 2, 1_770 * 2 + 30 * 8].map(|tick| I56::try_from(tick).unwrap()).to_vec(),
            secondsPerLiquidityCumulativeX128s: vec![U160::ZERO, total, total + (U160::from(30) << 68)],
        };
        assert_eq!(Mean::of(&both, 1, LATELY), Some(Mean { tick: 8, liquidity: 1 << 60 }));
        assert_eq!(Mean::of(&both, 0, 1800).unwrap().tick, 2);
        assert_eq!(Mean::of(&both, 2, LATELY), None);
        let one = UniswapV3Pool::observeReturn {
            tickCumulatives: vec![I56::ZERO],
            secondsPerLiquidityCumulativeX128s: vec![U160::ZERO],
        };
        assert!(Mean::of(&one, 0, 1800).is_none());
    }

    #[test]
    fn dollars_come_by_way_of_the_anchor() {
        let dollar: Usd = "1".parse().unwrap();
        // USDC (6 decimals) first, WETH (18) second: 1.0001^195135 raw WETH per raw USDC is
        // 3,355.97… USDC for one WETH, by decimal arithmetic outside this program.
        let pair = Pair { token_is_first: false, own_decimals: 18, anchor_decimals: 6, anchor_usd: dollar };
        let usd = pair.price(195_135).unwrap();
        assert_eq!(usd.to_fixed(4, Rounding::Down), "3355.9720");
        // The other way round: USDC priced by WETH at that many dollars is a dollar again.
        let back = Pair { token_is_first: true, own_decimals: 6, anchor_decimals: 18, anchor_usd: usd };
        assert_eq!(back.price(195_135).unwrap().to_fixed(6, Rounding::Up), "1.000000");
    }

    /// A pool of two tokens with 18 decimals at tick 0, with positions as `(low, high, liquidity)`.
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
    fn depth_is_what_can_be_traded_near_the_mean_in_both_directions() {
        let pair =
            Pair { token_is_first: true, own_decimals: 18, anchor_decimals: 18, anchor_usd: "1".parse().unwrap() };
        let depth = |tick, positions: &[(i32, i32, u128)], over_time: u128| {
            let mean = Mean { tick: 0, liquidity: over_time };
            let (_, depth) = pair.value(mean, &pool(tick, positions)).unwrap();
            depth.to_fixed(0, Rounding::Down).parse::<u64>().unwrap()
        };
        // Liquidity of a million whole units everywhere: 10^6 × (1 − 1.0001^−100) = 9,949.67 within 2 % of the price.
        let (unit, million) = (10_u128.pow(18), 10_u128.pow(24));
        assert_eq!(depth(0, &[(-10_000, 10_000, million)], million), 9_949);
        // The same liquidity in one tick: 10^6 × (1 − 1.0001^−0.5) is 49.99 on one side, and nothing on the other.
        assert_eq!(depth(0, &[(0, 1, million)], million), 0);
        assert_eq!(depth(0, &[(-1, 1, million)], million), 49);
        // Parked on one side of the price, or far away on both.
        assert_eq!(depth(0, &[(-10_000, 0, million * 100), (-1, 1, unit)], million * 100), 0);
        assert_eq!(depth(0, &[(-9_000, -300, million), (300, 9_000, million), (-1, 1, million)], million), 49);
        // Provided for a moment: the window's mean bounds it.
        assert_eq!(depth(0, &[(-10_000, 10_000, million)], unit * 1_000), 9);
        // The price of now stands elsewhere: the ticks between count the same.
        assert_eq!(depth(500, &[(-10_000, 10_000, million)], million), 9_949);
        assert_eq!(depth(-500, &[(-300, 300, million), (-10_000, 300, unit)], million), 9_949);
    }

    #[test]
    fn a_pool_that_keeps_one_tick_has_not_traded() {
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
