//! Swaps of V2 and V3 pools, decoded from their logs.
//!
//! A swap's price is the pool's price after it, without fee: of V3 the square-root price of the event `Swap`, of V2 the
//! reserves of the event `Sync` that the pair emits right before `Swap` (`UniswapV2Pair._update` runs first in `swap`).
//! A deposit, a withdrawal or a donation is not a swap.
//!
//! Volumes are what the swap moved of each token, in or out, after what was paid back in the same swap.

use std::collections::{BTreeMap, BTreeSet};

use alloy::eips::BlockId;
use alloy::primitives::{Address, B256, I256, U256};
use alloy::sol_types::SolEvent as _;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};

use super::fixed::Fixed;
use super::logs::{LogQuery, PlacedLog, inconsistent};
use crate::blocks::block;
use crate::engine::ConnectedChain;
use bardo_abi::uniswap_v2::UniswapV2Pair;
use bardo_abi::uniswap_v3::UniswapV3Pool;
use bardo_base::error::ToolError;
use golem_protocols::uniswap::pool::{Pool, ProtocolVersion};
use golem_protocols::uniswap::ratio::{Ratio, big};
use golem_protocols::uniswap::v3::tick_math::tick_at_sqrt_price;

/// Number of headers requested at once.
const HEADERS_AT_ONCE: usize = 8;

/// Pool whose swaps are read, seen from one of its tokens: the base, whose price is in the other one, the quote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SwapSource {
    /// Address of the pool.
    pub(crate) pool: Address,
    /// Version, which says what its logs mean.
    pub(crate) version: ProtocolVersion,
    /// True if the base is the pool's first token.
    pub(crate) base_is_token0: bool,
    /// Decimals of the base and of the quote.
    pub(crate) decimals: [u8; 2],
}

/// Swap of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PoolSwap {
    /// Address of the pool.
    pub(crate) pool: Address,
    /// Number of the block.
    pub(crate) number: u64,
    /// Hash of the block.
    pub(crate) hash: B256,
    /// Time of the block by the log itself; see [`PlacedLog::time`].
    pub(crate) time: Option<u64>,
    /// Price of one whole base in whole quotes after the swap; `None` if it is too small to be written.
    pub(crate) price: Option<Fixed>,
    /// Moved amount of the base, in raw units.
    pub(crate) base: U256,
    /// Moved amount of the quote, in raw units.
    pub(crate) quote: U256,
}

impl SwapSource {
    /// Creates a source; `None` for a pool without a contract of its own, whose logs are not read.
    pub(crate) fn new(pool: &Pool, base_is_token0: bool, decimals: [u8; 2]) -> Option<Self> {
        Some(Self { pool: pool.id().contract()?, version: pool.version(), base_is_token0, decimals })
    }

    /// Converts a price in raw token1 per raw token0 to whole quotes per whole base.
    fn price(&self, raw: Option<Ratio>) -> Option<Fixed> {
        let raw = if self.base_is_token0 { raw? } else { Ratio::whole(U256::ONE).over(&raw?)? };
        let ten = |decimals: u8| U256::from(10).checked_pow(U256::from(decimals)).map(Ratio::whole);
        let [base, quote] = self.decimals;
        Fixed::price(&raw.times(&ten(base)?).over(&ten(quote)?)?)
    }

    fn swap(&self, log: &PlacedLog, price: Option<Fixed>, [amount0, amount1]: [U256; 2]) -> PoolSwap {
        let (base, quote) = if self.base_is_token0 { (amount0, amount1) } else { (amount1, amount0) };
        PoolSwap { pool: self.pool, number: log.number, hash: log.hash, time: log.time, price, base, quote }
    }
}

/// Price by the square-root price of V3: `(sqrtPriceX96 / 2^96)²`.
fn price_of_root(root: U256) -> Option<Ratio> {
    Ratio::new(big(root).pow(2).into(), big(U256::ONE) << 192_u32)
}

/// Logs that contain all swaps of these pools.
pub(crate) fn query(sources: &[SwapSource]) -> LogQuery {
    let events = sources.iter().flat_map(|source| match source.version {
        ProtocolVersion::V2 => vec![UniswapV2Pair::Sync::SIGNATURE_HASH, UniswapV2Pair::Swap::SIGNATURE_HASH],
        ProtocolVersion::V3 => vec![UniswapV3Pool::Swap::SIGNATURE_HASH],
        // No source has one: it has no contract.
        ProtocolVersion::V4 => Vec::new(),
    });
    let events: BTreeSet<B256> = events.collect();
    let addresses = sources.iter().map(|source| source.pool).collect();
    LogQuery { addresses, events: events.into_iter().collect(), first: None, second: None, third: None }
}

/// Decodes the swaps in logs that are in the order of the chain.
///
/// # Errors
/// `CHAIN_INCONSISTENT` for a log that such a pool cannot emit: the pools have the code of the factory's address formula.
pub(crate) fn decode(
    chain: &ConnectedChain,
    sources: &[SwapSource],
    logs: &[PlacedLog],
) -> Result<Vec<PoolSwap>, ToolError> {
    let by_pool: BTreeMap<Address, &SwapSource> = sources.iter().map(|source| (source.pool, source)).collect();
    let invalid = || inconsistent(chain, "returned a log that no pool emits");
    let mut swaps = Vec::new();
    let mut before: Option<&PlacedLog> = None;
    for log in logs {
        let previous = before.replace(log);
        let source = by_pool.get(&log.log.address).ok_or_else(invalid)?;
        match source.version {
            ProtocolVersion::V2 if log.log.topics().first() == Some(&UniswapV2Pair::Swap::SIGNATURE_HASH) => {
                let event = UniswapV2Pair::Swap::decode_log(&log.log).map_err(|_| invalid())?.data;
                let sync = previous
                    .filter(|sync| {
                        let is_before = sync.number == log.number && sync.index.checked_add(1) == Some(log.index);
                        is_before && sync.transaction == log.transaction && sync.log.address == log.log.address
                    })
                    .ok_or_else(invalid)?;
                let sync = UniswapV2Pair::Sync::decode_log(&sync.log).map_err(|_| invalid())?.data;
                let price = source.price(Ratio::of(U256::from(sync.reserve1), U256::from(sync.reserve0)));
                let amounts = [event.amount0In.abs_diff(event.amount0Out), event.amount1In.abs_diff(event.amount1Out)];
                swaps.push(source.swap(log, price, amounts));
            }
            ProtocolVersion::V2 => {
                UniswapV2Pair::Sync::decode_log(&log.log).map_err(|_| invalid())?;
            }
            ProtocolVersion::V3 => {
                let event = UniswapV3Pool::Swap::decode_log(&log.log).map_err(|_| invalid())?.data;
                let root = U256::from(event.sqrtPriceX96);
                // A pool's price never leaves its ticks. The tick that it reports is that of its price; after a swap
                // that ends on a tick from above it is the one below.
                let tick = tick_at_sqrt_price(root).map_err(|_| invalid())?;
                if ![0, 1].contains(&(tick - event.tick.as_i32())) {
                    return Err(invalid());
                }
                let price = source.price(price_of_root(root));
                let amounts = [event.amount0, event.amount1].map(I256::unsigned_abs);
                swaps.push(source.swap(log, price, amounts));
            }
            ProtocolVersion::V4 => return Err(invalid()),
        }
    }
    Ok(swaps)
}

/// Block with a swap: number, hash, and time by the log itself; see [`PlacedLog::time`].
pub(crate) type SwapBlock = (u64, B256, Option<u64>);

/// Finds the start of the interval of each block with a swap, by block number. Times of blocks never fall: if the first
/// and the last block of a range are in one interval, so are all between them. Only headers at which an interval can end
/// are read.
///
/// # Errors
/// `CHAIN_INCONSISTENT` if a block has left the chain or times fall, or the provider's error.
pub(crate) async fn intervals_of_blocks(
    chain: &ConnectedChain,
    mut blocks: Vec<SwapBlock>,
    interval: u64,
) -> Result<BTreeMap<u64, u64>, ToolError> {
    blocks.dedup();
    let start = |time: u64| time - time % interval.max(1);
    let mut starts: Vec<Option<u64>> = blocks.iter().map(|(_, _, time)| time.map(start)).collect();
    let mut wanted: Vec<usize> = match (blocks.len(), starts.iter().all(Option::is_some)) {
        (0, _) | (_, true) => Vec::new(),
        (1, false) => vec![0],
        (count, false) => vec![0, count - 1],
    };
    while !wanted.is_empty() {
        let hashes: Vec<(usize, B256)> = wanted.iter().filter_map(|at| Some((*at, blocks.get(*at)?.1))).collect();
        let headers = stream::iter(hashes.into_iter().map(|(at, hash)| async move {
            let header = block(chain, BlockId::hash(hash)).await?;
            let header = header.ok_or_else(|| inconsistent(chain, "reorganised while its swaps were read"))?;
            Ok::<_, ToolError>((at, header.time))
        }));
        let headers: Vec<(usize, u64)> = headers.buffer_unordered(HEADERS_AT_ONCE).try_collect().await?;
        for (at, time) in headers {
            if let Some(slot) = starts.get_mut(at) {
                *slot = Some(start(time));
            }
        }
        wanted = fill_between(&mut starts).ok_or_else(|| inconsistent(chain, "has blocks whose times fall"))?;
    }
    if fill_between(&mut starts).is_none() {
        return Err(inconsistent(chain, "has blocks whose times fall"));
    }
    let known = blocks.into_iter().zip(starts).filter_map(|((number, ..), start)| Some((number, start?)));
    Ok(known.collect())
}

/// Fills the gaps between equal neighbours, and returns the middle of every other gap; `None` if a known start is below
/// an earlier one.
fn fill_between(starts: &mut [Option<u64>]) -> Option<Vec<usize>> {
    let known: Vec<(usize, u64)> = starts.iter().enumerate().filter_map(|(at, start)| Some((at, (*start)?))).collect();
    let mut middles = Vec::new();
    for pair in known.windows(2) {
        let [(low, first), (high, last)] = *pair else { continue };
        if first > last {
            return None;
        }
        if first == last {
            starts.get_mut(low..high)?.fill(Some(first));
        } else if high - low > 1 {
            middles.push(low + (high - low) / 2);
        }
    }
    Some(middles)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(version: ProtocolVersion, base_is_token0: bool, decimals: [u8; 2]) -> SwapSource {
        SwapSource { pool: Address::repeat_byte(7), version, base_is_token0, decimals }
    }

    #[test]
    fn prices_of_whole_tokens_follow_from_reserves_and_roots() {
        // 3 WETH (18 decimals) and 10,200 USDC (6): 3,400 USDC for one WETH, in either order of the tokens.
        let (weth, usdc) = (U256::from(3_000_000_000_000_000_000_u64), U256::from(10_200_000_000_u64));
        let price = source(ProtocolVersion::V2, true, [18, 6]).price(Ratio::of(usdc, weth));
        assert_eq!(price.unwrap().to_string(), "3400");
        let price = source(ProtocolVersion::V2, false, [18, 6]).price(Ratio::of(weth, usdc));
        assert_eq!(price.unwrap().to_string(), "3400");
        assert_eq!(source(ProtocolVersion::V2, false, [18, 6]).price(Ratio::of(U256::ZERO, usdc)), None);
        // A root of 2^96 · 3 is a raw price of 9 token1 for one token0: 9 · 10^12 with 18 and 6 decimals, and 1/9 the
        // other way round.
        let root = U256::from(3) << 96;
        let price = source(ProtocolVersion::V3, true, [18, 6]).price(price_of_root(root));
        assert_eq!(price.unwrap().to_string(), "9000000000000");
        let price = source(ProtocolVersion::V3, false, [6, 6]).price(price_of_root(root));
        assert_eq!(price.unwrap().to_string(), "0.111111111111111111");
        assert_eq!(source(ProtocolVersion::V3, true, [18, 6]).price(price_of_root(U256::ZERO)), None);
    }

    #[test]
    fn gaps_between_blocks_of_one_interval_are_filled_and_others_halved() {
        let mut starts = vec![Some(0), None, None, Some(0), None, None, None, Some(60), None, Some(60)];
        assert_eq!(fill_between(&mut starts), Some(vec![5]));
        assert_eq!(starts[..4], [Some(0); 4]);
        assert_eq!(starts[4..7], [None; 3]);
        assert_eq!(starts[7..], [Some(60); 3]);
        starts[5] = Some(0);
        // Between 0 and 60 one block is left.
        assert_eq!(fill_between(&mut starts), Some(vec![6]));
        starts[6] = Some(60);
        assert_eq!(fill_between(&mut starts), Some(vec![]));
        assert!(starts.iter().all(Option::is_some));
        assert_eq!(fill_between(&mut [Some(60), None, Some(0)]), None, "times that fall");
    }
}
