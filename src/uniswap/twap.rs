//! Prices from what V3 pools remember: the time-weighted mean over half an hour or more, of pools
//! that held enough liquidity all that while.
//!
//! A pool prices a token in another (an anchor: wrapped native, a stable); dollars come from the
//! anchor's own price, which another source gives. Of several pools the deepest counts. The mean
//! is of ticks, so it is geometric, and depth is from the harmonic mean of liquidity, which a
//! moment of borrowed liquidity hardly moves.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use alloy::eips::BlockId;
use alloy::primitives::{Address, U256};
use alloy::providers::{DynProvider, bindings::IMulticall3};
use futures::future::BoxFuture;
use num_bigint::BigUint;

use super::address::{V3_POOL_INIT_CODE_HASH, sort_tokens, v3_pool};
use super::discovery::{BASE_SYMBOLS, DiscoveryError, FEE_TIERS};
use super::ratio::{Ratio, big};
use super::v3::math::mul_div;
use super::v3::tick_math::sqrt_price_at_tick;
use crate::abi::erc20::Erc20;
use crate::abi::uniswap_v3::UniswapV3Pool;
use crate::base::units::{Rounding, TokenAmount, Usd};
use crate::chain::multicall::{Call, Calls};
use crate::chain::network::{Contract, Network};
use crate::chain::price::{NoPrice, Price, PriceOrigin, PriceReader, PriceSource, Quoted};

/// The shortest window a mean may be taken over, in seconds.
pub const MIN_WINDOW: u32 = 1_800;

/// What a pool has been at lately is the mean of so many seconds: short enough to follow a fall, and longer than a
/// block, so that it tells of no price that stood for a moment only.
pub const LATELY: u32 = 30;

/// Digits kept below an anchor's smallest unit, so that tokens worth little keep their digits.
const EXTRA_DIGITS: u8 = 12;

/// What a pool must show before its mean is a price.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TwapRules {
    /// Seconds the mean is taken over; below [`MIN_WINDOW`] is read as that.
    pub window: u32,
    /// What the anchor's side must have been worth over the window, as a constant product has it.
    pub minimum_depth: Usd,
}

/// What a pool says of a token.
#[derive(Debug, Clone)]
pub struct PoolPrice {
    /// The mean over the rules' window.
    pub mean: Price,
    /// Dollars by the same pool's mean over the last [`LATELY`] seconds; `None` where it has been too shallow since.
    pub lately: Option<Usd>,
}

/// Time-weighted prices from the V3 pools of one chain.
pub struct TwapPrices {
    reader: PriceReader,
    multicall: Address,
    factory: Address,
    anchors: Vec<Address>,
    anchor_prices: Arc<dyn PriceSource>,
    rules: TwapRules,
    left_out: BTreeSet<Address>,
}

impl fmt::Debug for TwapPrices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TwapPrices").field("anchors", &self.anchors).field("rules", &self.rules).finish_non_exhaustive()
    }
}

impl TwapPrices {
    /// For a network with Multicall3 and the V3 factory in its book; its wrapped native token and
    /// listed stables are the anchors, priced by `anchor_prices`.
    ///
    /// # Errors
    /// [`DiscoveryError::NotHere`] says what the book lacks.
    pub fn new(
        provider: DynProvider,
        network: &Network,
        anchor_prices: Arc<dyn PriceSource>,
        rules: TwapRules,
    ) -> Result<Self, DiscoveryError> {
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
            anchor_prices,
            rules: TwapRules { window: rules.window.max(MIN_WINDOW), ..rules },
            left_out: BTreeSet::new(),
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
    pub fn without(mut self, pools: impl IntoIterator<Item = Address>) -> Self {
        self.left_out.extend(pools);
        self
    }

    /// What the deepest pool of each token says, or why none does.
    pub async fn means(&self, tokens: &[Address]) -> Vec<Result<PoolPrice, NoPrice>> {
        match self.read(tokens).await {
            Ok(prices) => prices,
            Err(reason) => vec![Err(reason); tokens.len()],
        }
    }

    async fn read(&self, tokens: &[Address]) -> Result<Vec<Result<PoolPrice, NoPrice>>, NoPrice> {
        let anchor_prices = self.anchor_prices.prices(&self.anchors).await;
        let anchors: Vec<(Address, Usd)> = self
            .anchors
            .iter()
            .zip(anchor_prices)
            .filter_map(|(anchor, price)| Some((*anchor, price.ok()?.usd)))
            .filter(|(_, usd)| !usd.is_zero())
            .collect();
        let mut calls = Calls::default();
        let time = calls.push(self.multicall, &IMulticall3::getCurrentBlockTimestampCall {});
        let mut decimals: BTreeMap<Address, Call<Erc20::decimalsCall>> = BTreeMap::new();
        for token in tokens.iter().chain(anchors.iter().map(|(anchor, _)| anchor)) {
            decimals.entry(*token).or_insert_with(|| calls.push(*token, &Erc20::decimalsCall {}));
        }
        let mut asked = Vec::new();
        for token in tokens {
            let mut pools = Vec::new();
            for (anchor, usd) in anchors.iter().filter(|(anchor, _)| anchor != token) {
                for (fee, _) in FEE_TIERS {
                    let pool = v3_pool(self.factory, *token, *anchor, fee, V3_POOL_INIT_CODE_HASH);
                    if self.left_out.contains(&pool) {
                        continue;
                    }
                    let exists = calls.push(pool, &UniswapV3Pool::liquidityCall {});
                    let seconds = vec![self.rules.window, LATELY, 0];
                    let observed = calls.push(pool, &UniswapV3Pool::observeCall { secondsAgos: seconds });
                    pools.push((pool, *anchor, *usd, exists, observed));
                }
            }
            asked.push((*token, pools));
        }
        let answers = self.reader.send(calls, self.multicall).await?;
        let now = time.take(&answers).and_then(|time| u64::try_from(time).ok()).ok_or(NoPrice::NoAnswer)?;
        let decimals: BTreeMap<Address, u8> =
            decimals.into_iter().filter_map(|(token, call)| Some((token, call.take(&answers)?))).collect();
        let answer = |(token, pools): (Address, Vec<_>)| {
            let (mut young, mut best) = (false, None::<(Usd, Usd, Address, Option<Usd>)>);
            for (pool, anchor, anchor_usd, exists, observed) in pools {
                let _: &Call<UniswapV3Pool::liquidityCall> = &exists;
                let observed: Call<UniswapV3Pool::observeCall> = observed;
                let Some(observed) = observed.take(&answers) else {
                    young |= exists.take(&answers).is_some();
                    continue;
                };
                let (Some(own), Some(of_anchor)) = (decimals.get(&token), decimals.get(&anchor)) else { continue };
                let token_is_first = sort_tokens(token, anchor).0 == token;
                let valued = |mean: Mean| mean.value(token_is_first, *own, *of_anchor, anchor_usd);
                let mean = Mean::of(&observed, 0, self.rules.window).and_then(valued);
                if let Some((usd, depth)) = mean
                    && best.is_none_or(|(_, deepest, ..)| depth > deepest)
                {
                    let lately = Mean::of(&observed, 1, LATELY).and_then(valued);
                    let lately = lately.filter(|(usd, depth)| *depth >= self.rules.minimum_depth && !usd.is_zero());
                    best = Some((usd, depth, pool, lately.map(|(usd, _)| usd)));
                }
            }
            match best {
                Some((usd, depth, pool, lately)) if depth >= self.rules.minimum_depth && !usd.is_zero() => {
                    let window = std::time::Duration::from_secs(self.rules.window.into());
                    let source = PriceOrigin::Twap { pool, window };
                    let mean = Price { usd, source, observed_at: Some(now), age: Some(std::time::Duration::ZERO) };
                    Ok(PoolPrice { mean, lately })
                }
                Some((_, depth, ..)) => Err(NoPrice::TooShallow { depth, minimum: self.rules.minimum_depth }),
                None if young => {
                    Err(NoPrice::TooYoung { window: std::time::Duration::from_secs(self.rules.window.into()) })
                }
                None => Err(NoPrice::UnknownToken),
            }
        };
        Ok(asked.into_iter().map(answer).collect())
    }
}

impl PriceSource for TwapPrices {
    fn name(&self) -> &'static str {
        "Uniswap V3 time-weighted mean"
    }

    fn prices<'a>(&'a self, tokens: &'a [Address]) -> BoxFuture<'a, Vec<Quoted>> {
        Box::pin(async move {
            let prices = self.means(tokens).await;
            prices.into_iter().map(|price| price.map(|price| price.mean)).collect()
        })
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

    /// Dollars for one whole token, rounded down, and the dollars on the anchor's side.
    fn value(self, token_is_first: bool, own_decimals: u8, anchor_decimals: u8, anchor_usd: Usd) -> Option<(Usd, Usd)> {
        let sqrt_price = sqrt_price_at_tick(self.tick).ok()?;
        let (squared, unit) = (big(sqrt_price).pow(2), BigUint::from(1u8) << 192u32);
        let price = if token_is_first { Ratio::new(squared.into(), unit) } else { Ratio::new(unit.into(), squared) }?;
        let digits = u32::from(own_decimals) + u32::from(EXTRA_DIGITS);
        let scaled = price.times(&Ratio::new(BigUint::from(10u8).pow(digits).into(), BigUint::from(1u8))?);
        let raw = U256::try_from_le_slice(&(scaled.numerator().magnitude() / scaled.denominator()).to_bytes_le())?;
        let one = TokenAmount::new(raw, anchor_decimals.checked_add(EXTRA_DIGITS)?).ok()?;
        let usd = Usd::value_of(one, anchor_usd, Rounding::Down).ok()?;

        let (liquidity, q96) = (U256::from(self.liquidity), U256::from(1) << 96);
        let anchored =
            if token_is_first { mul_div(liquidity, sqrt_price, q96) } else { mul_div(liquidity, q96, sqrt_price) };
        let depth = TokenAmount::new(anchored.ok()?, anchor_decimals).ok()?;
        Some((usd, Usd::value_of(depth, anchor_usd, Rounding::Down).ok()?))
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
        let mean = Mean { tick: 195_135, liquidity: 1 << 80 };
        let (usd, depth) = mean.value(false, 18, 6, dollar).unwrap();
        assert_eq!(usd.to_fixed(4, Rounding::Down), "3355.9720");
        assert_eq!(depth.to_fixed(0, Rounding::Down), "70033981613883");
        // The other way round: USDC priced by WETH at that many dollars is a dollar again.
        let (usd, _) = mean.value(true, 6, 18, usd).unwrap();
        assert_eq!(usd.to_fixed(6, Rounding::Up), "1.000000");
    }
}
