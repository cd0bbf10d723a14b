//! Initialized ticks of V3 and V4 pools: first the bitmap words within reach, then the ticks they point to.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use alloy::eips::BlockId;
use alloy::primitives::aliases::I24;
use alloy::primitives::{Address, U256};

use super::{DiscoveryError, PoolReader, TickReach};
use crate::uniswap::pool_id::PoolId;
use crate::uniswap::v3::Tick;
use crate::uniswap::v3::tick_math::{MAX_TICK, MIN_TICK};
use bardo_abi::uniswap_v3::UniswapV3Pool;
use bardo_abi::uniswap_v4::StateView;
use bardo_base::text::SafeText;
use golem_chain::multicall::{BatchResults, CallBatch, CallIndex};
use golem_chain::provider::ProviderError;

/// Distance of the first ticks read from the price, in each direction. It covers a price change of at least 22 %, in
/// whole bitmap words.
const NEAR_TICKS: i32 = 2_048;

/// Pool whose ticks are requested.
#[derive(Debug, Clone, Copy)]
pub(super) struct TickRequest {
    pub(super) id: PoolId,
    /// Contract that answers about the pool: its own one, or the state view.
    pub(super) contract: Address,
    pub(super) tick: i32,
    pub(super) spacing: i32,
}

/// Ticks of one pool, and the range they are complete in.
#[derive(Debug, Clone)]
pub(super) struct KnownTicks {
    pub(super) ticks: Vec<Tick>,
    pub(super) range: RangeInclusive<i32>,
}

/// Call for a bitmap word.
enum WordCall {
    V3(CallIndex<UniswapV3Pool::tickBitmapCall>),
    V4(CallIndex<StateView::getTickBitmapCall>),
}

/// Call for a tick.
enum TickCall {
    V3(CallIndex<UniswapV3Pool::ticksCall>),
    V4(CallIndex<StateView::getTickLiquidityCall>),
}

impl WordCall {
    fn push(calls: &mut CallBatch, pool: &TickRequest, position: i16) -> Self {
        match pool.id {
            PoolId::Contract(_) => {
                Self::V3(calls.push(pool.contract, &UniswapV3Pool::tickBitmapCall { wordPosition: position }))
            }
            PoolId::Keyed(id) => {
                Self::V4(calls.push(pool.contract, &StateView::getTickBitmapCall { poolId: id, tick: position }))
            }
        }
    }

    fn take(&self, answers: &BatchResults) -> Option<U256> {
        match self {
            Self::V3(call) => call.take(answers),
            Self::V4(call) => call.take(answers),
        }
    }
}

impl TickCall {
    fn push(calls: &mut CallBatch, pool: &TickRequest, tick: I24) -> Self {
        match pool.id {
            PoolId::Contract(_) => Self::V3(calls.push(pool.contract, &UniswapV3Pool::ticksCall { tick })),
            PoolId::Keyed(id) => {
                Self::V4(calls.push(pool.contract, &StateView::getTickLiquidityCall { poolId: id, tick }))
            }
        }
    }

    fn take(&self, answers: &BatchResults) -> Option<i128> {
        match self {
            Self::V3(call) => call.take(answers).map(|tick| tick.liquidityNet),
            Self::V4(call) => call.take(answers).map(|tick| tick.liquidityNet),
        }
    }
}

impl PoolReader {
    /// Reads the initialized ticks within reach of each pool, in the order of `pools`.
    pub(super) async fn read_ticks(
        &self,
        pools: &[TickRequest],
        block: BlockId,
        reach: TickReach,
    ) -> Result<Vec<KnownTicks>, DiscoveryError> {
        let mut calls = CallBatch::default();
        let mut words: Vec<(usize, i32, WordCall)> = Vec::new();
        let mut known = Vec::with_capacity(pools.len());
        for (at, pool) in pools.iter().enumerate() {
            let (first, last) = words_within(pool.tick, pool.spacing, reach);
            known.push(KnownTicks { ticks: Vec::new(), range: ticks_of_words(first, last, pool.spacing) });
            for word in first..=last {
                // Words are within ±3,466 for the smallest tick spacing.
                let Ok(position) = i16::try_from(word) else { continue };
                words.push((at, word, WordCall::push(&mut calls, pool, position)));
            }
        }
        let answers = calls.send(&self.provider, self.multicall, block).await?;
        let mut calls = CallBatch::default();
        let mut ticks: Vec<(usize, i32, TickCall)> = Vec::new();
        for (at, word, call) in words {
            let (Some(bits), Some(pool)) = (call.take(&answers), pools.get(at)) else { return Err(unreadable()) };
            for bit in (0..256usize).filter(|bit| bits.bit(*bit)) {
                let bit = i32::try_from(bit).unwrap_or_default();
                let index = (word * 256 + bit).saturating_mul(pool.spacing);
                let Ok(tick) = I24::try_from(index) else { return Err(unreadable()) };
                ticks.push((at, index, TickCall::push(&mut calls, pool, tick)));
            }
        }
        let answers = calls.send(&self.provider, self.multicall, block).await?;
        let mut found: BTreeMap<(usize, i32), i128> = BTreeMap::new();
        for (at, index, call) in ticks {
            found.insert((at, index), call.take(&answers).ok_or_else(unreadable)?);
        }
        for ((at, index), liquidity_net) in found {
            if let Some(pool) = known.get_mut(at) {
                pool.ticks.push(Tick { index, liquidity_net });
            }
        }
        Ok(known)
    }
}

/// Error for a pool that answered once in this block and then no more: the endpoint is at fault, not the pool.
fn unreadable() -> DiscoveryError {
    ProviderError::Decode { detail: SafeText::clean("a pool's ticks did not decode", 100) }.into()
}

/// Returns the first and last bitmap word to read.
fn words_within(tick: i32, spacing: i32, reach: TickReach) -> (i32, i32) {
    let word_of = |tick: i32| tick.clamp(MIN_TICK, MAX_TICK).div_euclid(spacing) >> 8;
    match reach {
        TickReach::Near => (word_of(tick - NEAR_TICKS), word_of(tick + NEAR_TICKS)),
        TickReach::Whole => (word_of(MIN_TICK), word_of(MAX_TICK)),
    }
}

/// Returns the range of ticks that the words cover, within the valid ticks.
fn ticks_of_words(first: i32, last: i32, spacing: i32) -> RangeInclusive<i32> {
    let word = 256 * spacing;
    (first * word).max(MIN_TICK)..=(last * word + word - 1).min(MAX_TICK)
}
