//! Expected benefit of moving a liquidity position to another range: fees of the new range, less the loss to
//! arbitrage, the swap of what the range does not take, and gas, over a stated horizon. Shared by
//! `compute_rebalance_candidate`, which shows it, and `rebalance_position`, which needs it.

use alloy::eips::BlockId;
use alloy::primitives::{U256, U512};
use schemars::JsonSchema;
use serde::Serialize;

use super::history::{INTERVAL, PoolHistory, pool_history, pool_of};
use super::named_pool::NamedPool;
use super::range::RangeWish;
use crate::blocks::BlockPoint;
use crate::data::get_position::not_found;
use crate::engine::{CallContext, ConnectedChain};
use crate::market::fixed::Fixed;
use crate::positions::{self, AmountPair, Described, impossible};
use crate::shared::{invalid, per_whole};
use crate::swap_query::{SwapQuery, slippage};
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::units::{BasisPoints, Rounding, SignedUsd, TokenAmount, Usd};
use golem_chain::network::KnownContract;
use golem_chain::token::{TokenId, TokenInfo};
use golem_protocols::uniswap::outlook::{
    MarketSample, RangeOutlook, exchange_into, in_token1, liquidity_after_exchange,
};
use golem_protocols::uniswap::positions::{PoolState, PositionId, PositionPool, PositionState};
use golem_protocols::uniswap::ratio::Ratio;
use golem_protocols::uniswap::v3::math::MathError;
use golem_protocols::uniswap::v3::position::{TickRange, price_of, sqrt_prices_around};

/// Least numbers of swaps and of intervals that figures are computed from.
const LEAST_SWAPS: usize = 20;
const LEAST_INTERVALS: usize = 12;

/// Hours that are read, and that the expectation is over, if a call names none.
pub(super) const USUAL_HOURS: u64 = 24;
/// Maximum number of hours that are read: longer ago says less about the next ones.
const MOST_LOOKBACK: u64 = 72;
/// Maximum number of hours that an expectation is over: thirty days.
const MOST_HORIZON: u64 = 720;

/// Part of a position below which what its new range does not take is not swapped: one two-hundredth. It stays in the
/// wallet.
const SWAP_FROM: u64 = 200;

/// Gas units of the withdrawal, and of the deposit into a new position, with its allowances and their end, for plain tokens
/// on V3 and V4. The swap's come from its route, with the allowance for it.
const WITHDRAWAL_GAS: u64 = 250_000;
const DEPOSIT_GAS: u64 = 700_000;
const ALLOWANCE_GAS: u64 = 150_000;

/// Position, and the range that it may be moved to, at one block.
pub(super) struct Ground {
    pub(super) head: BlockPoint,
    pub(super) read: Described,
    pub(super) state: PositionState,
    /// Pool of the new range: the position's own, or the one that it may be moved to.
    pub(super) pool: PoolState,
    pub(super) range: TickRange,
}

impl Ground {
    /// Returns true if the new range is in another pool than the position.
    pub(super) fn leaves_pool(&self) -> bool {
        self.pool.pool.id() != self.state.key.pool.id()
    }

    /// Returns true if the pool of the new range has a hook.
    pub(super) fn has_hook(&self) -> bool {
        matches!(self.pool.pool, PositionPool::Keyed(key) if !key.hooks.is_zero())
    }
}

/// Times of an expectation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Times {
    lookback: u64,
    horizon: u64,
}

impl Times {
    /// Reads the parameters `lookback_hours` and `horizon_hours`.
    ///
    /// # Errors
    /// `VALIDATION_FAILED` outside their limits.
    pub(super) fn of(lookback: u64, horizon: u64) -> Result<Self, ToolError> {
        if !(1..=MOST_LOOKBACK).contains(&lookback) {
            return Err(invalid("lookback_hours", &format_args!("use 1 to {MOST_LOOKBACK} hours")));
        }
        if !(1..=MOST_HORIZON).contains(&horizon) {
            return Err(invalid("horizon_hours", &format_args!("use 1 to {MOST_HORIZON} hours")));
        }
        Ok(Self { lookback, horizon })
    }
}

/// Reason why there are no figures.
#[derive(Debug)]
pub(super) enum Unweighed {
    /// The chain tells too little: too few swaps, no price, or no route.
    Unknown(ToolError),
    /// The chain could not be read, or contradicts itself.
    Failed(ToolError),
}

impl From<ToolError> for Unweighed {
    fn from(error: ToolError) -> Self {
        Self::Failed(error)
    }
}

impl From<Unweighed> for ToolError {
    fn from(unweighed: Unweighed) -> Self {
        match unweighed {
            Unweighed::Unknown(error) | Unweighed::Failed(error) => error,
        }
    }
}

/// Swaps that the figures are computed from.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(super) struct SampleRow {
    /// First block that was read.
    from_block: u64,
    /// Newest block, the last one that was read.
    to_block: u64,
    /// Length of the window, in seconds.
    seconds: u64,
    /// Number of swaps of the pool in the window.
    swap_count: usize,
    /// Number of price changes that the variance is computed from, one for each interval.
    return_count: usize,
    /// Length of an interval, in seconds.
    interval_seconds: u64,
    /// Volatility of the pool's price in the window, in percent a year of 365 days.
    volatility_pct: String,
    /// True if a limit on logs or requests ended the reading before the window began.
    was_limited: bool,
}

/// Expectation of a range over the horizon.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(super) struct OutlookRow {
    /// Expected part of the time in the range, in percent.
    time_in_range_pct: String,
    /// Expected fees, in whole tokens.
    fees: AmountPair,
    /// Expected fees in dollars.
    fees_usd: String,
    /// Expected loss to arbitrage (loss-versus-rebalancing) in dollars.
    lvr_usd: String,
}

/// Swap of what the new range does not take.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(super) struct SwapRow {
    /// Symbol of the token paid, as listed; otherwise its address.
    token_in: String,
    /// Symbol of the token received.
    token_out: String,
    /// Amount paid, in whole tokens.
    amount_in: String,
    /// Amount received by the quote, in whole tokens.
    amount_out: String,
}

/// Figures of a move.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(super) struct FiguresRow {
    /// Hours that the expectation is over.
    horizon_hours: u64,
    /// Liquidity of the position in its new range, in the pool's units, before costs.
    new_liquidity: String,
    /// Its part of the pool's liquidity at the current price, in percent, the pool's counted without it; absent for a move to
    /// another pool.
    liquidity_share_pct: Option<String>,
    /// Expectation of the new range.
    expected: OutlookRow,
    /// Expectation of the present range, for comparison; the benefit does not contain it. Absent for a move to another pool,
    /// whose swaps say nothing about the present one.
    if_kept: Option<OutlookRow>,
    /// Swap that the move needs; absent if both tokens fit the new range but for a half percent.
    swap: Option<SwapRow>,
    /// Loss of the swap against the pool's price in dollars: fees and price impact, by a quote.
    swap_cost_usd: String,
    /// Gas of all steps in dollars at the present gas price, without a rollup's data fee.
    gas_usd: String,
    /// Expected fees of the new range less its loss to arbitrage, the swap's cost and the gas.
    benefit_usd: String,
    /// Swaps that the figures are computed from.
    sample: SampleRow,
}

/// Figures of a move, with what decides on it.
pub(super) struct Figures {
    pub(super) row: FiguresRow,
    pub(super) benefit: SignedUsd,
}

impl Figures {
    /// Returns true if the benefit is at least `minimum`.
    pub(super) fn reach(&self, minimum: Usd) -> bool {
        !self.benefit.is_loss() && self.benefit.amount() >= minimum
    }

    /// Tells the figures in a sentence.
    pub(super) fn sentence(&self) -> String {
        let FiguresRow { expected, horizon_hours, swap_cost_usd, gas_usd, sample, .. } = &self.row;
        let cents = |text: &str, rounding| {
            text.parse::<Usd>().map_or_else(|_| text.to_owned(), |usd| usd.to_fixed(2, rounding))
        };
        format!(
            "Over {horizon_hours} hours the new range is expected to earn ${} and to lose ${} to arbitrage; the swap costs ${} \
             and gas ${}: a benefit of {}, by {} swaps in {} minutes",
            cents(&expected.fees_usd, Rounding::Down),
            cents(&expected.lvr_usd, Rounding::Up),
            cents(swap_cost_usd, Rounding::Up),
            cents(gas_usd, Rounding::Up),
            written(self.benefit),
            sample.swap_count,
            sample.seconds / 60,
        )
    }
}

/// A benefit with its sign and two decimals.
pub(super) fn written(benefit: SignedUsd) -> String {
    let (sign, rounding) = if benefit.is_loss() { ("-", Rounding::Up) } else { ("", Rounding::Down) };
    format!("{sign}${}", benefit.amount().to_fixed(2, rounding))
}

/// Reads a position and the range that it may be moved to: the wished one; without it, in its own pool one of the same
/// width around the present price, and in another pool the present one.
///
/// # Errors
/// `POSITION_NOT_FOUND` without such a position; `POOL_NOT_FOUND` without such a pool; `VALIDATION_FAILED` for an empty one, or a range that the pool cannot
/// have; the errors of the chain.
pub(super) async fn ground(
    context: &CallContext,
    chain: &ConnectedChain,
    position: &str,
    other: Option<NamedPool>,
    wish: Option<&RangeWish>,
) -> Result<Ground, ToolError> {
    let id: PositionId = position.parse().map_err(|error| invalid("position_id", &error))?;
    context.step("Reading position");
    let (head, read) = positions::read(chain, &[id]).await?;
    let Some(state) = read.states.first().copied().flatten() else { return Err(not_found(chain.network(), id)) };
    if state.liquidity == 0 {
        return Err(invalid("position_id", &format_args!("position {id} has no liquidity to move")));
    }
    let (key, contracts) = (state.key, positions::contracts(chain)?);
    let (provider, at) = (chain.client.agreed(), BlockId::hash(head.hash));
    let pair = [key.token0, key.token1];
    let pool = match other {
        Some(named) => named
            .read(&contracts, provider, pair, at)
            .await?
            .ok_or_else(|| named.missing([&read.symbol(key.token0), &read.symbol(key.token1)]))?,
        None => pool_of(chain, &state, at).await?,
    };
    let range = match wish {
        None if pool.pool.id() != key.pool.id() => {
            TickRange::outward(key.range.lower(), key.range.upper(), pool.tick_spacing).map_err(impossible)?
        }
        Some(wish) => {
            let decimals = [read.token(key.token0)?.decimals, read.token(key.token1)?.decimals];
            wish.ticks(&pool, decimals, true)?
        }
        None => {
            // At most twice 887,272.
            let half = (key.range.upper() - key.range.lower()) / 2;
            let (lower, upper) = (pool.tick.saturating_sub(half), pool.tick.saturating_add(half.max(1)));
            TickRange::outward(lower, upper, pool.tick_spacing).map_err(impossible)?
        }
    };
    Ok(Ground { head, read, state, pool, range })
}

/// Liquidity that a deposit into V4 adds: a fixed one that the amounts suffice for while the price moves by the slippage. The rest
/// stays in the wallet, and earns nothing.
fn in_v4(range: TickRange, price: U256, whole: u128, slippage: BasisPoints) -> Result<u128, MathError> {
    let amounts = range.amounts(price, whole, false)?;
    let [low, high] = sqrt_prices_around(price, slippage);
    Ok(range.liquidity_for(low, amounts)?.min(range.liquidity_for(high, amounts)?))
}

/// Amounts that the position pays now with what it is owed.
fn held(state: &PositionState) -> Result<[U256; 2], ToolError> {
    let [now0, now1] = state.withdrawn(state.liquidity).map_err(impossible)?;
    let [owed0, owed1] = state.owed.map(U256::from);
    let sum = |now: U256, owed| now.checked_add(owed).ok_or_else(|| impossible(MathError::Overflow));
    Ok([sum(now0, owed0)?, sum(now1, owed1)?])
}

/// Swap that brings amounts of the position's tokens into the proportion that a range takes at a price.
pub(super) struct NeededSwap {
    /// True if token0 is paid.
    pub(super) gives_first: bool,
    /// Amount paid, in raw units.
    pub(super) amount: U256,
}

/// Returns the swap that the amounts need for a range at the pool's price; `None` if it would be less than one
/// two-hundredth of them, or of what the range takes of one token.
///
/// # Errors
/// `CHAIN_INCONSISTENT` for figures that no pool can have.
pub(super) fn needed_swap(
    range: TickRange,
    pool: &PoolState,
    amounts: [U256; 2],
) -> Result<Option<NeededSwap>, ToolError> {
    let fee = pool.provider_fee.into_iter().max().unwrap_or_default();
    let exchange = exchange_into(range, pool.sqrt_price_x96, amounts, fee).map_err(impossible)?;
    let whole = in_token1(amounts, pool.sqrt_price_x96);
    let part = match exchange.gives_first {
        true => in_token1([exchange.amount, U256::ZERO], pool.sqrt_price_x96),
        false => Some(U512::from(exchange.amount)),
    };
    let (whole, part) = whole.zip(part).ok_or_else(|| impossible(MathError::Overflow))?;
    let is_worth_it = !exchange.amount.is_zero() && part.saturating_mul(U512::from(SWAP_FROM)) >= whole;
    Ok(is_worth_it.then_some(NeededSwap { gives_first: exchange.gives_first, amount: exchange.amount }))
}

/// Name under which a token is found again: the symbol of the native one, or an address.
pub(super) fn name_of(chain: &ConnectedChain, token: &TokenInfo) -> String {
    match token.id {
        TokenId::Native => chain.network().native_symbol.to_owned(),
        TokenId::Erc20(address) => address.to_string(),
    }
}

/// Computes the figures of a move.
///
/// # Errors
/// [`Unweighed::Unknown`] with `VALIDATION_FAILED` for too little data, or `SAFETY_PRICE_UNKNOWN` without a price of each
/// token; [`Unweighed::Failed`] with the errors of the chain.
pub(super) async fn weigh(
    context: &CallContext,
    chain: &ConnectedChain,
    ground: &Ground,
    times: Times,
) -> Result<Figures, Unweighed> {
    context.step("Reading swaps");
    let (sample, mut row) = sample(chain, ground, times.lookback).await?;
    let Ground { read, state, pool, range, .. } = ground;
    let (key, price) = (state.key, pool.sqrt_price_x96);
    let horizon = times.horizon.saturating_mul(3_600);
    let unpriced = || {
        let what = "one of the position's tokens has no price, so that the benefit of moving it is not known";
        Unweighed::Unknown(ToolError::new(ErrorCode::SafetyPriceUnknown, what))
    };
    let broken = || Unweighed::Failed(impossible(MathError::Overflow));
    let amounts = held(state)?;
    let liquidity = liquidity_after_exchange(*range, price, amounts).map_err(impossible)?;
    let liquidity = match pool.pool {
        PositionPool::Contract(_) => liquidity,
        PositionPool::Keyed(_) => in_v4(*range, price, liquidity, slippage(context, None)?).map_err(impossible)?,
    };
    let outlook = |range: TickRange, liquidity| sample.outlook(range, liquidity, price, horizon).ok_or_else(broken);
    let new = outlook(*range, liquidity)?;
    let kept = (!ground.leaves_pool()).then(|| outlook(key.range, state.liquidity)).transpose()?;
    let fees = |outlook: &RangeOutlook| read.value_at(&key, outlook.fees, Rounding::Down).ok_or_else(unpriced);
    let loss =
        |outlook: &RangeOutlook| read.value_at(&key, [U256::ZERO, outlook.loss], Rounding::Up).ok_or_else(unpriced);
    let told = |outlook: &RangeOutlook| {
        Ok::<_, Unweighed>(OutlookRow {
            time_in_range_pct: share_text(outlook.in_range),
            fees: read.pair(&key, outlook.fees)?,
            fees_usd: fees(outlook)?.to_string(),
            lvr_usd: loss(outlook)?.to_string(),
        })
    };
    context.step("Quoting the swap");
    let gas_price = async { Ok::<_, Unweighed>(chain.client.gas_price().await.map_err(ToolError::from)?) };
    let needed = needed_swap(*range, pool, amounts)?;
    let (gas_price, quoted) = futures::try_join!(gas_price, quote(context, chain, ground, needed))?;
    let swap_cost = match &quoted {
        Some(swap) => read.value_at(&key, swap.lost, Rounding::Up).ok_or_else(unpriced)?,
        None => Usd::ZERO,
    };
    let units = WITHDRAWAL_GAS + DEPOSIT_GAS;
    let units = units.saturating_add(quoted.as_ref().map_or(0, |swap| swap.gas.saturating_add(ALLOWANCE_GAS)));
    let gas = match chain.network().book.contract(KnownContract::WrappedNative) {
        Some(wrapped) => chain.prices.price(wrapped).await.ok().map(|price| price.usd),
        None => None,
    };
    let wei = U256::from(gas_price).saturating_mul(U256::from(units));
    let gas = gas.and_then(|price| Usd::value_of(TokenAmount::ether(wei), price, Rounding::Up).ok());
    let gas = gas.ok_or_else(|| {
        let what = "the native token has no price, so that the cost of moving the position is not known";
        Unweighed::Unknown(ToolError::new(ErrorCode::SafetyPriceUnknown, what))
    })?;
    let spent = loss(&new)?.checked_add(swap_cost).and_then(|sum| sum.checked_add(gas)).map_err(|_| broken())?;
    let benefit = SignedUsd::difference(fees(&new)?, spent).map_err(|_| broken())?;
    row.volatility_pct = volatility(&sample).ok_or_else(broken)?;
    let share = Ratio::of(U256::from(liquidity), U256::from(liquidity) + U256::from(state.pool_liquidity));
    Ok(Figures {
        row: FiguresRow {
            horizon_hours: times.horizon,
            new_liquidity: liquidity.to_string(),
            liquidity_share_pct: (!ground.leaves_pool())
                .then(|| share.map_or_else(|| "0".to_owned(), |share| share.to_percent(4))),
            expected: told(&new)?,
            if_kept: kept.as_ref().map(told).transpose()?,
            swap: quoted.map(|swap| swap.row),
            swap_cost_usd: swap_cost.to_string(),
            gas_usd: gas.to_string(),
            benefit_usd: benefit.to_string(),
            sample: row,
        },
        benefit,
    })
}

/// Millionths as a percentage.
fn share_text(millionths: u64) -> String {
    Ratio::of(U256::from(millionths), U256::from(1_000_000_u32)).map(|share| share.to_percent(2)).unwrap_or_default()
}

/// Volatility of a sample in percent a year: the root of its variance, over the root of its part of a year.
fn volatility(sample: &MarketSample) -> Option<String> {
    let year = U256::from(365_u32 * 86_400);
    let yearly = Ratio::of(sample.variance_x96()?, U256::ONE << 96)?;
    let yearly = yearly.times(&Ratio::of(year, U256::from(sample.seconds))?);
    let root = Fixed::price(&yearly).unwrap_or_default().root()?;
    Some(root.by(100).to_text(2))
}

/// Swap that a move needs, as quoted.
struct QuotedSwap {
    row: SwapRow,
    /// Amounts of token0 and token1 that it loses against the pool's price; one of them is zero.
    lost: [U256; 2],
    gas: u64,
}

async fn quote(
    context: &CallContext,
    chain: &ConnectedChain,
    ground: &Ground,
    needed: Option<NeededSwap>,
) -> Result<Option<QuotedSwap>, Unweighed> {
    let Some(NeededSwap { gives_first, amount }) = needed else { return Ok(None) };
    let key = ground.state.key;
    let [paid, received] = match gives_first {
        true => [key.token0, key.token1],
        false => [key.token1, key.token0],
    };
    let (token_in, token_out) = (ground.read.token(paid)?, ground.read.token(received)?);
    let whole = TokenAmount::new(amount, token_in.decimals).map_err(ToolError::from)?;
    let names = [name_of(chain, token_in), name_of(chain, token_out)];
    let [name_in, name_out] = &names;
    let query = SwapQuery::new(&context.world, chain, [name_in, name_out], &whole.to_string(), false).await?;
    let (route, ..) = query.route(&context.world).await.map_err(|error| match error.code() {
        ErrorCode::RoutingNoRoute | ErrorCode::RoutingInsufficientLiquidity => Unweighed::Unknown(error),
        _ => Unweighed::Failed(error),
    })?;
    let broken = || Unweighed::Failed(impossible(MathError::Overflow));
    // What the amount is worth in the other token at the pool's price.
    let price = price_of(ground.pool.sqrt_price_x96).ok_or_else(broken)?;
    let given = Ratio::whole(amount);
    let fair = if gives_first { Some(given.times(&price)) } else { given.over(&price) };
    let fair = fair.and_then(|fair| fair.ceil()).ok_or_else(broken)?;
    let lost = fair.saturating_sub(route.amount_out);
    Ok(Some(QuotedSwap {
        row: SwapRow {
            token_in: ground.read.symbol(paid),
            token_out: ground.read.symbol(received),
            amount_in: whole.to_string(),
            amount_out: TokenAmount::new(route.amount_out, token_out.decimals).map_err(ToolError::from)?.to_string(),
        },
        lost: if gives_first { [U256::ZERO, lost] } else { [lost, U256::ZERO] },
        gas: route.gas_units,
    }))
}

/// Reads the pool's swaps of the last hours, as a sample of its market.
async fn sample(chain: &ConnectedChain, ground: &Ground, hours: u64) -> Result<(MarketSample, SampleRow), Unweighed> {
    let head = ground.head;
    let PoolHistory { trades, closes, from_block, seconds, was_limited, .. } =
        pool_history(chain, &head, &ground.pool, hours).await?;
    let (swap_count, return_count) = (trades.len(), closes.len().saturating_sub(1));
    if swap_count < LEAST_SWAPS || return_count < LEAST_INTERVALS {
        let what = format_args!(
            "too little data: {swap_count} swaps of the pool in {} minutes with {return_count} price changes over {} minutes \
             each; at least {LEAST_SWAPS} swaps and {LEAST_INTERVALS} price changes are needed",
            seconds / 60,
            INTERVAL / 60,
        );
        let error = invalid("lookback_hours", &what)
            .detail("swap_count", swap_count)
            .detail("return_count", return_count)
            .suggest("Use a longer lookback, or wait until the pool has traded more.");
        return Err(Unweighed::Unknown(error));
    }
    let row = SampleRow {
        from_block,
        to_block: head.number,
        seconds,
        swap_count,
        return_count,
        interval_seconds: INTERVAL,
        volatility_pct: String::new(),
        was_limited,
    };
    Ok((MarketSample { trades, closes, interval: INTERVAL, seconds }, row))
}

/// Prices of one whole token0 in whole tokens of token1 at both ends of a range.
///
/// # Errors
/// `TOKEN_INVALID` for a token that does not answer as one; `CHAIN_INCONSISTENT` for a price that no pool has.
pub(super) fn prices_of(ground: &Ground, range: TickRange) -> Result<[String; 2], ToolError> {
    let key = ground.state.key;
    let (first, second) = (ground.read.token(key.token0)?, ground.read.token(key.token1)?);
    let price = |root| per_whole(price_of(root), first, second).ok_or_else(|| impossible(MathError::PriceOutOfRange));
    let [low, high] = range.sqrt_prices().map_err(impossible)?;
    Ok([price(low)?, price(high)?])
}
