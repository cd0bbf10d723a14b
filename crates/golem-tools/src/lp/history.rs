//! Swaps of a pool in the last hours, and the part of that time that a position was in its range.

use std::collections::BTreeMap;

use alloy::eips::BlockId;
use alloy::primitives::{B256, I256, U256};
use alloy::sol_types::SolEvent as _;
use schemars::JsonSchema;
use serde::Serialize;

use crate::blocks::{BlockPoint, block, first_block_since, is_on_chain};
use crate::engine::ConnectedChain;
use crate::market::logs::{LogBudget, LogQuery, PlacedLog, inconsistent, read_backwards};
use crate::market::swaps::intervals_of_blocks;
use crate::positions::{self, impossible};
use bardo_abi::nft::Erc721;
use bardo_abi::uniswap_v3::UniswapV3Pool;
use bardo_abi::uniswap_v4::PoolManager;
use bardo_base::error::{ErrorCode, ToolError};
use golem_chain::network::KnownContract;
use golem_protocols::uniswap::outlook::PoolTrade;
use golem_protocols::uniswap::pool_id::PoolId;
use golem_protocols::uniswap::positions::{PoolState, PositionId, PositionPool, PositionState};
use golem_protocols::uniswap::ratio::Ratio;
use golem_protocols::uniswap::v3::tick_math::tick_at_sqrt_price;

/// Length of the intervals that prices are taken at the ends of, in seconds. Short enough for many of them, and long
/// enough that the price of each is not that of a single swap.
pub(crate) const INTERVAL: u64 = 300;
/// Maximum number of logs, and of requests for them.
const MOST_LOGS: usize = 20_000;
const MOST_REQUESTS: u32 = 40;

/// Swaps of a pool up to one block.
pub(crate) struct PoolHistory {
    /// Swaps in the order of the chain.
    pub(crate) trades: Vec<PoolTrade>,
    /// Square roots of the price at the end of each interval from that of the first swap on, times 2^96.
    pub(crate) closes: Vec<U256>,
    /// Start of the first of these intervals, in seconds since the Unix epoch; `None` without a swap.
    pub(crate) closes_from: Option<u64>,
    /// First block that was read.
    pub(crate) from_block: u64,
    /// Length of the time that was read, in seconds.
    pub(crate) seconds: u64,
    /// True if a limit on logs or requests ended the reading before the hours began.
    pub(crate) was_limited: bool,
}

/// Swap of a pool with its place.
struct PlacedTrade {
    block: (u64, B256, Option<u64>),
    trade: PoolTrade,
}

/// Reads the pool's swaps of the last hours before `head`.
///
/// # Errors
/// `CHAIN_INCONSISTENT` for logs that such a pool cannot emit, or if `head` leaves the chain meanwhile; the errors of the
/// chain.
pub(crate) async fn pool_history(
    chain: &ConnectedChain,
    head: &BlockPoint,
    pool: &PoolState,
    hours: u64,
) -> Result<PoolHistory, ToolError> {
    let start = head.time.saturating_sub(hours.saturating_mul(3_600));
    let first = first_block_since(chain, start, head).await?;
    let (address, event, id) = match pool.pool.id() {
        PoolId::Contract(address) => (address, UniswapV3Pool::Swap::SIGNATURE_HASH, None),
        PoolId::Keyed(id) => {
            (chain.contract(KnownContract::V4PoolManager)?, PoolManager::Swap::SIGNATURE_HASH, Some(id))
        }
    };
    let query = LogQuery { addresses: vec![address], events: vec![event], first: id, second: None, third: None };
    let mut budget = LogBudget::new(MOST_REQUESTS, MOST_LOGS);
    let range = read_backwards(chain, &query, (first.number, head.number), &mut budget, |_| false).await?;
    let invalid_log = || inconsistent(chain, "returned a log that no pool emits");
    let trades = range.logs.iter().map(|log| decode(pool, log).ok_or_else(invalid_log));
    let trades = trades.collect::<Result<Vec<PlacedTrade>, ToolError>>()?;
    let blocks: Vec<_> = trades.iter().map(|trade| trade.block).collect();
    let intervals = intervals_of_blocks(chain, blocks, INTERVAL).await?;
    let was_limited = range.from > first.number;
    let begins = match was_limited {
        true => block(chain, range.from.into()).await?.map_or(head.time, |block| block.time),
        false => first.time,
    };
    // Logs are requested by number: they are those of this head only if it is still on the chain.
    if !is_on_chain(chain, (head.number, head.hash)).await? {
        let what = format_args!("{} reorganised while its swaps were read", chain.network());
        return Err(ToolError::new(ErrorCode::ChainInconsistent, what).suggest("Try again after the next block."));
    }
    Ok(PoolHistory {
        closes: closes(&trades, &intervals, head.time),
        closes_from: intervals.values().min().copied(),
        trades: trades.into_iter().map(|placed| placed.trade).collect(),
        from_block: range.from,
        seconds: head.time.saturating_sub(begins),
        was_limited,
    })
}

/// Reads the pool of a position on one block.
///
/// # Errors
/// `CHAIN_INCONSISTENT` if the chain has no such pool; the errors of the chain.
pub(crate) async fn pool_of(
    chain: &ConnectedChain,
    state: &PositionState,
    at: BlockId,
) -> Result<PoolState, ToolError> {
    let (key, contracts, provider) = (state.key, positions::contracts(chain)?, chain.client.agreed());
    let pool = match key.pool {
        PositionPool::Contract(_) => contracts.pool_state(provider, [key.token0, key.token1], key.fee, at).await?,
        PositionPool::Keyed(pool) => contracts.keyed_pool_state(provider, pool, at).await?,
    };
    pool.ok_or_else(|| inconsistent(chain, "has a position whose pool it does not have"))
}

/// Time that a position was in its range lately, by the swaps of its pool.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct TimeInRange {
    /// Part of the time that the price was in the range, in percent: of the intervals, those at whose end it was.
    time_in_range_pct: String,
    /// Time that this is a part of, in seconds: since the position was opened, or since the pool's first swap in the hours
    /// that were read, if it is older. Without a swap, all of these hours.
    seconds: u64,
    /// Length of an interval, in seconds.
    interval_seconds: u64,
    /// Swaps of the pool in the hours that were read.
    swap_count: usize,
    /// True if the position was opened in these hours.
    was_opened_in_it: bool,
    /// True if a limit on logs or requests ended the reading before the hours began.
    was_limited: bool,
}

impl TimeInRange {
    /// Tells the figures in a sentence.
    pub(crate) fn sentence(&self) -> String {
        let Self { time_in_range_pct, seconds, swap_count, .. } = self;
        format!("It was in its range {time_in_range_pct} % of {} minutes, by {swap_count} swaps.", seconds / 60)
    }
}

/// Measures the time that a position was in its range in the last hours before `head`.
///
/// # Errors
/// Those of [`pool_history`].
pub(crate) async fn time_in_range(
    chain: &ConnectedChain,
    head: &BlockPoint,
    (id, state): (PositionId, &PositionState),
    pool: &PoolState,
    hours: u64,
) -> Result<TimeInRange, ToolError> {
    let (history, opened) = futures::try_join!(pool_history(chain, head, pool, hours), opened(chain, head, id, hours))?;
    let [low, high] = state.key.range.sqrt_prices().map_err(impossible)?;
    let is_inside = |price: U256| price >= low && price < high;
    let (part, seconds) = match history.closes_from {
        // Nobody traded, so the price stood still.
        None => {
            let since = opened.unwrap_or(0).max(head.time.saturating_sub(history.seconds));
            (if is_inside(pool.sqrt_price_x96) { (1, 1) } else { (0, 1) }, head.time.saturating_sub(since))
        }
        Some(from) => {
            let since = opened.unwrap_or(0).max(from);
            let ends = (1_u64..).map(|count| from.saturating_add(count.saturating_mul(INTERVAL)));
            let after = ends.zip(&history.closes).filter(|(end, _)| *end > since);
            let counted = after.fold((0_u64, 0_u64), |(inside, all), (_, price)| {
                (inside.saturating_add(u64::from(is_inside(*price))), all.saturating_add(1))
            });
            (counted, head.time.saturating_sub(since))
        }
    };
    let share = Ratio::of(U256::from(part.0), U256::from(part.1));
    Ok(TimeInRange {
        time_in_range_pct: share.map_or_else(|| "0".to_owned(), |share| share.to_percent(2)),
        seconds,
        interval_seconds: INTERVAL,
        swap_count: history.trades.len(),
        was_opened_in_it: opened.is_some(),
        was_limited: history.was_limited,
    })
}

/// Time at which a position's token was made, in seconds since the Unix epoch; `None` if that was before these hours.
async fn opened(
    chain: &ConnectedChain,
    head: &BlockPoint,
    id: PositionId,
    hours: u64,
) -> Result<Option<u64>, ToolError> {
    let start = head.time.saturating_sub(hours.saturating_mul(3_600));
    let first = first_block_since(chain, start, head).await?;
    let (manager, number) = match id {
        PositionId::V3(number) => (KnownContract::V3PositionManager, number),
        PositionId::V4(number) => (KnownContract::V4PositionManager, number),
    };
    let query = LogQuery {
        addresses: vec![chain.contract(manager)?],
        events: vec![Erc721::Transfer::SIGNATURE_HASH],
        first: Some(B256::ZERO),
        second: None,
        third: Some(B256::from(number)),
    };
    let mut budget = LogBudget::new(MOST_REQUESTS, MOST_LOGS);
    let range =
        read_backwards(chain, &query, (first.number, head.number), &mut budget, |logs| !logs.is_empty()).await?;
    match range.logs.first() {
        None => Ok(None),
        Some(PlacedLog { time: Some(time), .. }) => Ok(Some(*time)),
        Some(log) => {
            let opened = block(chain, log.hash.into()).await?;
            let opened = opened.ok_or_else(|| inconsistent(chain, "reorganised while its logs were read"))?;
            Ok(Some(opened.time))
        }
    }
}

/// Prices at the ends of the intervals from that of the first swap up to the one of `until`, in seconds since the Unix
/// epoch. An interval without a swap repeats the price before it.
fn closes(trades: &[PlacedTrade], intervals: &BTreeMap<u64, u64>, until: u64) -> Vec<U256> {
    let mut last_of = BTreeMap::new();
    for placed in trades {
        if let Some(start) = intervals.get(&placed.block.0) {
            last_of.insert(*start, placed.trade.sqrt_price_x96);
        }
    }
    let Some((first, price)) = last_of.iter().next() else { return Vec::new() };
    let (mut at, mut price, mut closes) = (*first, *price, Vec::new());
    while at <= until {
        price = last_of.get(&at).copied().unwrap_or(price);
        closes.push(price);
        at = at.saturating_add(INTERVAL);
    }
    closes
}

/// Decodes a swap of the pool; `None` for a log that such a pool cannot emit.
fn decode(pool: &PoolState, log: &PlacedLog) -> Option<PlacedTrade> {
    let (root, liquidity, tick, paid) = match pool.pool {
        PositionPool::Contract(_) => {
            let event = UniswapV3Pool::Swap::decode_log(&log.log).ok()?.data;
            // What the pool received is positive.
            let paid = [event.amount0, event.amount1].map(paid_in);
            (event.sqrtPriceX96, event.liquidity, event.tick, paid)
        }
        PositionPool::Keyed(_) => {
            let event = PoolManager::Swap::decode_log(&log.log).ok()?.data;
            // What the swapper paid is negative.
            let paid =
                [event.amount0, event.amount1].map(|amount| paid_in(-I256::try_from(amount).unwrap_or_default()));
            (event.sqrtPriceX96, event.liquidity, event.tick, paid)
        }
    };
    let root = U256::from(root);
    // The tick that a pool reports is that of its price; after a swap that ends on a tick from above it is the one below.
    let own = tick_at_sqrt_price(root).ok()?;
    if ![0, 1].contains(&own.checked_sub(tick.as_i32())?) {
        return None;
    }
    let [fee0, fee1] = pool.provider_fee;
    let fee = if paid[0].is_zero() { fee1 } else { fee0 };
    let trade = PoolTrade { sqrt_price_x96: root, liquidity, paid, fee };
    Some(PlacedTrade { block: (log.number, log.hash, log.time), trade })
}

fn paid_in(amount: I256) -> U256 {
    if amount.is_positive() { amount.unsigned_abs() } else { U256::ZERO }
}
