//! Price history of a pair: candles of the swaps of one pool, by default the deepest one of the pair.

use std::collections::BTreeMap;

use alloy::eips::BlockId;
use alloy::primitives::Address;

use super::candles::{Candle, Interval, candles};
use super::depth::comparable;
use super::fixed::Fixed;
use super::logs::{LogBudget, PlacedLog, read_backwards};
use super::swaps::{PoolSwap, SwapSource, decode, intervals_of_blocks, query};
use crate::blocks::{BlockPoint, block, first_block_since, is_on_chain};
use crate::engine::{ConnectedChain, address};
use crate::shared::{contract_of, invalid};
use bardo_base::error::{ErrorCode, ToolError};
use golem_chain::token::TokenInfo;
use golem_protocols::uniswap::discovery::TickReach;
use golem_protocols::uniswap::pool::Pool;

/// Maximum number of intervals.
pub(crate) const MOST_INTERVALS: u64 = 500;
/// Maximum number of requests for logs.
const MOST_REQUESTS: u32 = 40;
/// Maximum number of logs.
const MOST_LOGS: usize = 50_000;
/// Maximum number of requests in search of the last swap before the window.
const MOST_EARLIER_REQUESTS: u32 = 6;

/// Request for a history.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HistoryRequest<'a> {
    /// Token whose price is wanted: symbol or address.
    pub(crate) token: &'a str,
    /// Token in which prices are given; the first listed stablecoin with a pool if absent.
    pub(crate) quote: Option<&'a str>,
    /// Address of the pool; the deepest one of the pair if absent.
    pub(crate) pool: Option<&'a str>,
    /// Length of a candle.
    pub(crate) interval: Interval,
    /// Number of finished intervals before the newest block.
    pub(crate) lookback: u64,
}

/// Candles of a pair.
#[derive(Debug, Clone)]
pub(crate) struct PriceHistory {
    /// Token whose price it is.
    pub(crate) base: TokenInfo,
    /// Token in which prices and closes are.
    pub(crate) quote: TokenInfo,
    /// Pool whose swaps were read.
    pub(crate) pool: Address,
    /// Version of the pool, such as `V3`.
    pub(crate) version: String,
    /// Fee of the pool in hundredths of a basis point.
    pub(crate) fee: u32,
    /// Finished intervals, oldest first. Fewer than requested if the history is shorter.
    pub(crate) candles: Vec<Candle>,
    /// Interval of the newest block, if a swap happened in it; it may still change.
    pub(crate) unfinished: Option<Candle>,
    /// First block that was read.
    pub(crate) from_block: u64,
    /// Newest block, the last one that was read.
    pub(crate) head: BlockPoint,
    /// Number of swaps in the finished intervals and in the unfinished one.
    pub(crate) swaps: u64,
    /// True if a limit on logs or requests ended the reading before the window began.
    pub(crate) was_limited: bool,
}

impl PriceHistory {
    /// Number of finished intervals without a swap.
    pub(crate) fn empty_intervals(&self) -> u64 {
        self.candles.iter().filter(|candle| candle.swaps == 0).map(|_| 1_u64).sum()
    }

    /// Error for a history that is too short, with the number of intervals that it has.
    pub(crate) fn too_short(&self, parameter: &str, needed: u64, interval: Interval) -> ToolError {
        let available = self.candles.len();
        let (limit, advice) = if self.was_limited {
            (
                format!(" within the {MOST_LOGS} logs and {MOST_REQUESTS} requests that one call reads"),
                "Use a shorter interval or fewer intervals, or name a pool with fewer swaps.",
            )
        } else {
            (String::new(), "Use a shorter interval or fewer intervals, or name another pool.")
        };
        let what = format!(
            "{needed} intervals of {} are needed, and pool {} has {available}{limit}",
            interval.as_str(),
            self.pool
        );
        invalid(parameter, &what).detail("needed", needed).detail("available", available).suggest(advice)
    }
}

/// Reads the candles of the last whole intervals before the newest block. The result may have fewer candles than
/// requested: [`PriceHistory::too_short`] reports that.
///
/// # Errors
/// `VALIDATION_FAILED` for equal tokens or a number of intervals that is out of range, `POOL_NOT_FOUND` without a pool,
/// `CHAIN_INCONSISTENT` if the answers contradict each other or the chain reorganised, and the errors of the chain.
pub(crate) async fn read(chain: &ConnectedChain, request: &HistoryRequest<'_>) -> Result<PriceHistory, ToolError> {
    if !(1..=MOST_INTERVALS).contains(&request.lookback) {
        let what = format_args!("{} intervals; use 1 to {MOST_INTERVALS}", request.lookback);
        return Err(invalid("lookback", &what));
    }
    let base = chain.token(request.token).await?;
    let pool = request.pool.map(|pool| address(pool, "pool")).transpose()?;
    let Market { quote, source, fee, head } = market(chain, &base, request.quote, pool).await?;
    let interval = request.interval.seconds();
    let end = head.time - head.time % interval;
    let start = end.saturating_sub(interval.saturating_mul(request.lookback));
    let first = first_block_since(chain, start, &head).await?;
    let mut budget = LogBudget::new(MOST_REQUESTS, MOST_LOGS);
    let wanted = query(&[source]);
    let range = read_backwards(chain, &wanted, (first.number, head.number), &mut budget, |_| false).await?;
    let swaps = decode(chain, &[source], &range.logs)?;
    let was_limited = range.from > first.number;
    let blocks = swaps.iter().map(|swap| (swap.number, swap.hash, swap.time)).collect();
    let intervals = intervals_of_blocks(chain, blocks, interval).await?;
    let begins_with = |start: u64| swaps.first().is_some_and(|swap| intervals.get(&swap.number) == Some(&start));
    let (start, before, from_block) = if was_limited {
        // The interval of the first block that was read may have begun before it.
        let cut = block(chain, range.from.into()).await?;
        let start = cut.map_or(end, |cut| (cut.time - cut.time % interval).saturating_add(interval)).min(end);
        (start, price_before(&swaps, &intervals, start), range.from)
    } else if begins_with(start) {
        (start, None, first.number)
    } else {
        let (price, from) = earlier(chain, source, first.number, budget).await?;
        (start, price, from)
    };
    // Logs are requested by number: they are those of this head only if it is still on the chain.
    if !is_on_chain(chain, (head.number, head.hash)).await? {
        let what = format_args!("{} reorganised while its swaps were read", chain.network());
        return Err(ToolError::new(ErrorCode::ChainInconsistent, what).suggest("Try again after the next block."));
    }
    let count = end.saturating_sub(start) / interval;
    let finished = candles(before.as_ref(), &swaps, &intervals, (start, interval, count));
    let mut unfinished = candles(None, &swaps, &intervals, (end, interval, 1));
    let unfinished = unfinished.pop();
    Ok(PriceHistory {
        swaps: finished.iter().chain(&unfinished).map(|candle| candle.swaps).sum(),
        base,
        quote,
        pool: source.pool,
        version: source.version.to_string(),
        fee,
        candles: finished,
        unfinished,
        from_block,
        head,
        was_limited,
    })
}

/// Price of the last swap before an interval.
fn price_before(swaps: &[PoolSwap], intervals: &BTreeMap<u64, u64>, start: u64) -> Option<Fixed> {
    let is_before = |swap: &&PoolSwap| intervals.get(&swap.number).is_some_and(|at| *at < start);
    swaps.iter().rev().find(is_before).and_then(|swap| swap.price.clone())
}

/// Price of the last swap before a block, and the first block that was read for it.
async fn earlier(
    chain: &ConnectedChain,
    source: SwapSource,
    block: u64,
    budget: LogBudget,
) -> Result<(Option<Fixed>, u64), ToolError> {
    let Some(last) = block.checked_sub(1) else { return Ok((None, block)) };
    let mut budget = budget.limited(MOST_EARLIER_REQUESTS);
    let has_swap = |logs: &[PlacedLog]| decode(chain, &[source], logs).is_ok_and(|swaps| !swaps.is_empty());
    let range = read_backwards(chain, &query(&[source]), (0, last), &mut budget, has_swap).await?;
    let swaps = decode(chain, &[source], &range.logs)?;
    Ok((swaps.last().and_then(|swap| swap.price.clone()), range.from))
}

/// Pool of a pair at the newest block.
struct Market {
    quote: TokenInfo,
    source: SwapSource,
    fee: u32,
    head: BlockPoint,
}

/// Finds the pool: the named one, or the deepest one of the pair.
async fn market(
    chain: &ConnectedChain,
    base: &TokenInfo,
    quote: Option<&str>,
    pool: Option<Address>,
) -> Result<Market, ToolError> {
    let own = contract_of(chain, base)?;
    let mut candidates = Vec::new();
    match quote {
        Some(quote) => candidates.push(chain.token(quote).await?),
        None => {
            for token in chain.network().book.stablecoins().filter(|token| token.address != own) {
                candidates.push(chain.token(&token.address.to_string()).await?);
            }
        }
    }
    let contracts = candidates.iter().map(|quote| contract_of(chain, quote)).collect::<Result<Vec<_>, _>>()?;
    if contracts.contains(&own) {
        let what = format_args!("{} is the same token to a pool; name another one", base.symbol);
        return Err(invalid("quote", &what));
    }
    let tokens: Vec<Address> = contracts.iter().copied().chain([own]).collect();
    let snapshot = chain.pools()?.pools(&tokens, BlockId::latest(), TickReach::Near).await?;
    let head = BlockPoint { number: snapshot.block_number, hash: snapshot.block_hash, time: snapshot.timestamp };
    for (quote, contract) in candidates.iter().zip(contracts) {
        // Swaps of V4 pools are not read: they have no contract of their own.
        let named = |found: &Pool| found.id().contract().is_some() && pool.is_none_or(|pool| found.id() == pool.into());
        let pools = snapshot.pools.between(own, contract).filter(|(pool, _)| named(pool));
        let deepest = pools.max_by_key(|(pool, is_token0)| (comparable(pool, *is_token0), pool.id()));
        if let Some((pool, is_token0)) = deepest
            && let Some(source) = SwapSource::new(pool, is_token0, [base.decimals, quote.decimals])
        {
            return Ok(Market { quote: quote.clone(), source, fee: pool.fee(), head });
        }
    }
    let quotes: Vec<String> = candidates.iter().map(|quote| quote.symbol.to_string()).collect();
    let named = pool.map(|pool| format!(" at {pool}")).unwrap_or_default();
    let what = format_args!(
        "no pool{named} of {} with {} on {}",
        base.symbol,
        if quotes.is_empty() { "a stablecoin".to_owned() } else { quotes.join(" or ") },
        chain.network()
    );
    let advice = "Name the other token as quote; list_pools shows the pools of a token.";
    Err(ToolError::new(ErrorCode::PoolNotFound, what).suggest(advice))
}
