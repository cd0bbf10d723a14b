//! Shared parts of the tools for the bridge Across: the route between two chains, a quote that is bounded by both chains' price
//! feeds, and the state of deposits by the pools' own logs.

pub(crate) mod status;

pub use status::{DepositState, InTransit, KnownDeposit, in_transit, own_deposits, own_transactions};

use alloy::primitives::{Address, U256, U512};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::engine::{ConnectedChain, ToolEnvironment};
use crate::shared::{balance, head_time, invalid};
use crate::trading::uniswap_submit_cross_chain_intent::{degraded, fair_output, health};
use bardo_abi::across::AcrossSpokePool;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::service::ServiceError;
use bardo_base::units::TokenAmount;
use golem_chain::multicall::CallBatch;
use golem_chain::network::KnownContract;
use golem_chain::token::{TokenId, TokenInfo};
use golem_protocols::across::quote::{FeeQuote, FeeRequest};

/// Part of the input's value by which a quote may exceed it, in basis points: two feeds of one dollar differ by less. A deposit
/// for more would be filled by nobody, and come back only after its deadline.
const FEED_ROOM_BPS: u64 = 100;

/// Seconds by which a quote's time may be ahead of the origin's latest block.
const CLOCK_ROOM: u64 = 600;

/// Route and amount of a deposit. The same for the quote and the deposit.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteParams {
    /// Token deposited on the source chain: symbol or 0x address.
    pub token_in: String,
    /// Token received on the destination chain: symbol or 0x address. Defaults to the symbol of token_in.
    #[serde(default)]
    pub token_out: Option<String>,
    /// Amount of token_in, in whole tokens. "max" is the wallet's whole balance.
    pub amount: String,
    /// Source chain: name, alias or decimal id.
    pub source_chain: String,
    /// Destination chain: name, alias or decimal id.
    pub destination_chain: String,
}

/// A route with its quote. Amounts in raw units.
pub(crate) struct QuotedRoute<'a> {
    pub source: &'a ConnectedChain,
    pub destination: &'a ConnectedChain,
    pub account: Address,
    /// Pool on the source.
    pub pool: Address,
    pub token_in: TokenInfo,
    pub token_out: TokenInfo,
    /// Contracts of both tokens.
    pub contracts: [Address; 2],
    pub amount: U256,
    /// Output to ask for: what the service quotes, and no more than the input is worth.
    pub output: U256,
    /// Value of the input in units of the output.
    pub fair: U256,
    /// Time of the quote that the pool accepts, in seconds since the Unix epoch.
    pub quote_timestamp: u32,
    /// Last fill deadline that the pool accepts, in seconds since the Unix epoch.
    pub latest_deadline: u64,
    /// Latest time of both chains, in seconds since the Unix epoch.
    pub now: u64,
    /// Claimed time until the fill, in seconds.
    pub fill_seconds: u64,
    /// Name of the service that quoted.
    pub quoted_by: String,
}

impl QuotedRoute<'_> {
    /// Amount deposited, in whole tokens.
    pub(crate) fn given(&self) -> Result<TokenAmount, ToolError> {
        Ok(TokenAmount::new(self.amount, self.token_in.decimals)?)
    }

    /// Amount received, in whole tokens.
    pub(crate) fn received(&self) -> Result<TokenAmount, ToolError> {
        Ok(TokenAmount::new(self.output, self.token_out.decimals)?)
    }

    /// Part of the input's value that does not arrive, in units of the output.
    pub(crate) fn fee(&self) -> Result<TokenAmount, ToolError> {
        Ok(TokenAmount::new(self.fair.saturating_sub(self.output), self.token_out.decimals)?)
    }

    /// The same in basis points, rounded up.
    pub(crate) fn fee_bps(&self) -> u64 {
        fee_bps(self.fair, self.output)
    }
}

/// Part of `fair` that `output` lacks, in basis points, rounded up.
fn fee_bps(fair: U256, output: U256) -> u64 {
    let lacks = U512::from(fair.saturating_sub(output)) * U512::from(10_000);
    let fair = U512::from(fair).max(U512::from(1));
    u64::try_from(lacks.div_ceil(fair)).unwrap_or(u64::MAX)
}

/// Returns the output to ask for by a quote; `None` if the quote promises more than the input is worth.
fn bounded(quoted: U256, fair: U256) -> Option<U256> {
    let most = U512::from(fair) * U512::from(10_000 + FEED_ROOM_BPS);
    (U512::from(quoted) * U512::from(10_000) <= most).then(|| quoted.min(fair))
}

/// Returns the time of a quote as the pool accepts it: not after its block, and not so old that the deposit's block would be
/// too late. `None` for a time out of reach. All in seconds since the Unix epoch; `buffer` is the pool's largest age.
fn accepted_time(quoted: u32, head: u64, buffer: u64) -> Option<u32> {
    let quoted = u64::from(quoted);
    let earliest = head.saturating_sub(buffer / 2);
    let in_reach = quoted >= earliest && quoted <= head.saturating_add(CLOCK_ROOM);
    u32::try_from(quoted.min(head)).ok().filter(|_| in_reach)
}

fn failed(error: &ServiceError) -> ToolError {
    match error {
        ServiceError::Refused(why) => ToolError::new(ErrorCode::RoutingInsufficientLiquidity, why),
        ServiceError::InvalidResponse(why) => ToolError::new(ErrorCode::ChainInconsistent, why),
        ServiceError::Unreachable(_) | ServiceError::Unclear(_) | ServiceError::Busy { .. } => {
            ToolError::new(ErrorCode::ChainUnreachable, error)
        }
    }
}

/// Finds the route, and quotes it. `step` gets each step of the call as it begins.
///
/// # Errors
/// `CHAIN_UNSUPPORTED` without a pool in the address book of either chain, or without a service; `VALIDATION_FAILED` for
/// parameters that make no route; `CROSS_CHAIN_DESTINATION_DEGRADED` for a destination that makes no blocks;
/// `CHAIN_INCONSISTENT` for a quote that contradicts the request, the address book or the price feeds;
/// `SAFETY_PRICE_UNKNOWN` without prices to bound it.
pub(crate) async fn quoted<'a>(
    world: &'a ToolEnvironment,
    params: &RouteParams,
    step: &(impl Fn(&'static str) + Sync),
) -> Result<QuotedRoute<'a>, ToolError> {
    step("Validating chains");
    let source = world.chain(&params.source_chain)?;
    let destination = match world.chain(&params.destination_chain) {
        Ok(chain) => chain,
        Err(error) if error.code() == ErrorCode::ChainUnknown => return Err(error),
        Err(error) => return Err(degraded(&params.destination_chain, error.message())),
    };
    let (from, to) = (source.network(), destination.network());
    if from.chain_id == to.chain_id {
        return Err(invalid("destination_chain", &"same as the source chain: use a swap instead"));
    }
    let account = world.account(None)?;
    let pool = source.contract(KnownContract::AcrossSpokePool)?;
    let destination_pool = destination.contract(KnownContract::AcrossSpokePool)?;
    let arrives_at = health(destination, world.clock.now_seconds()).await?;
    let wanted = params.token_out.as_deref().unwrap_or(&params.token_in);
    let (token_in, token_out) = futures::try_join!(source.token(&params.token_in), destination.token(wanted))?;
    let erc20 = |token: &TokenInfo, parameter: &str| match token.id {
        TokenId::Erc20(address) => Ok(address),
        TokenId::Native => {
            Err(invalid(parameter, &"the pools move ERC-20 tokens, not the native token: wrap it first"))
        }
    };
    let contracts = [erc20(&token_in, "token_in")?, erc20(&token_out, "token_out")?];
    let amount = match params.amount.trim() {
        text if text.eq_ignore_ascii_case("max") => balance(source, account, &token_in).await?,
        text => TokenAmount::parse(text, token_in.decimals)?.raw(),
    };
    if amount.is_zero() {
        return Err(invalid("amount", &"zero; give the amount to send"));
    }
    let (buffers, leaves_at) = futures::try_join!(PoolTimes::read(source, pool), head_time(source))?;
    step("Quoting");
    let service = world.bridge_fees(from.chain_id).ok_or_else(|| {
        ToolError::new(
            ErrorCode::ChainUnsupported,
            format_args!("no service is connected that quotes deposits from {from}"),
        )
    })?;
    let [input_token, output_token] = contracts;
    let request = FeeRequest {
        origin_chain_id: from.chain_id,
        destination_chain_id: to.chain_id,
        input_token,
        output_token,
        amount,
        pool,
        destination_pool,
    };
    let quote = service.suggested_fees(&request).await.map_err(|error| failed(&error))?;
    within_limits(&quote, &token_in, amount)?;
    let given = TokenAmount::new(amount, token_in.decimals)?;
    let fair = fair_output([source, destination], contracts, given, token_out.decimals).await.ok_or_else(|| {
        let what =
            format_args!("{} or {} has no price, so the quote cannot be bounded", token_in.symbol, token_out.symbol);
        ToolError::new(ErrorCode::SafetyPriceUnknown, what)
    })?;
    let lies = |what: std::fmt::Arguments<'_>| ToolError::new(ErrorCode::ChainInconsistent, what);
    let output = bounded(quote.output_amount, fair).ok_or_else(|| {
        lies(format_args!("{} quotes more than the deposit is worth, which nobody would fill", service.name()))
    })?;
    if output.is_zero() {
        return Err(invalid("amount", &"nothing would arrive of it"));
    }
    let quote_timestamp = accepted_time(quote.timestamp, leaves_at, buffers.quote)
        .ok_or_else(|| lies(format_args!("{} quotes for another time than the chain's", service.name())))?;
    Ok(QuotedRoute {
        source,
        destination,
        account,
        pool,
        token_in,
        token_out,
        contracts,
        amount,
        output,
        fair,
        quote_timestamp,
        latest_deadline: leaves_at.saturating_add(buffers.fill),
        now: source.deadline_time(&*world.clock, leaves_at.max(arrives_at)),
        fill_seconds: quote.fill_seconds,
        quoted_by: service.name().to_owned(),
    })
}

fn within_limits(quote: &FeeQuote, token: &TokenInfo, amount: U256) -> Result<(), ToolError> {
    let whole = |raw| TokenAmount::new(raw, token.decimals);
    if let Some(least) = quote.least.filter(|least| amount < *least) {
        let what = format_args!("the relayers take at least {} {}", whole(least)?, token.symbol);
        return Err(invalid("amount", &what));
    }
    if let Some(most) = quote.most.filter(|most| amount > *most) {
        let what = format_args!("the relayers take at most {} {} now", whole(most)?, token.symbol);
        return Err(invalid("amount", &what));
    }
    Ok(())
}

/// Times that a pool accepts, in seconds.
struct PoolTimes {
    /// Largest age of a quote.
    quote: u64,
    /// Longest time until a fill deadline.
    fill: u64,
}

impl PoolTimes {
    /// Reads them from an open pool.
    async fn read(chain: &ConnectedChain, pool: Address) -> Result<Self, ToolError> {
        let mut calls = CallBatch::default();
        let quote = calls.push(pool, &AcrossSpokePool::depositQuoteTimeBufferCall {});
        let fill = calls.push(pool, &AcrossSpokePool::fillDeadlineBufferCall {});
        let paused = calls.push(pool, &AcrossSpokePool::pausedDepositsCall {});
        let answers = chain.ask(calls).await?;
        let silent = || {
            let what = format_args!("the SpokePool of {} does not answer", chain.network());
            ToolError::new(ErrorCode::ChainInconsistent, what)
        };
        if paused.take(&answers).ok_or_else(silent)? {
            let what = format_args!("the SpokePool of {} takes no deposits now", chain.network());
            return Err(ToolError::new(ErrorCode::ChainUnsupported, what));
        }
        let [quote, fill] = [quote.take(&answers), fill.take(&answers)].map(|time| time.map(u64::from));
        Ok(Self { quote: quote.ok_or_else(silent)?, fill: fill.ok_or_else(silent)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_asks_for_no_more_than_the_deposit_is_worth() {
        let of = |quoted: u64, fair: u64| bounded(U256::from(quoted), U256::from(fair));
        assert_eq!(of(990, 1_000), Some(U256::from(990)));
        assert_eq!(of(1_000, 1_000), Some(U256::from(1_000)));
        // One percent more is the room of two feeds: 1,010, of which only what it is worth is asked for.
        assert_eq!(of(1_010, 1_000), Some(U256::from(1_000)));
        assert_eq!(of(1_011, 1_000), None);
        assert_eq!(bounded(U256::MAX, U256::from(1_000)), None);
        assert_eq!(of(1, 0), None);
    }

    #[test]
    fn the_fee_is_rounded_against_the_account() {
        let of = |fair: u64, output: u64| fee_bps(U256::from(fair), U256::from(output));
        assert_eq!([of(10_000, 10_000), of(10_000, 9_999), of(10_000, 9_950), of(10_000, 0)], [0, 1, 50, 10_000]);
        // By hand: 1 of 3,000 is 3.33 basis points.
        assert_eq!(of(3_000, 2_999), 4);
        assert_eq!(of(1_000, 2_000), 0);
        assert_eq!(fee_bps(U256::MAX, U256::ZERO), 10_000);
    }

    #[test]
    fn the_time_of_a_quote_is_that_of_the_chain() {
        let head = 1_800_000_000_u64;
        let of = |quoted: u64| accepted_time(u32::try_from(quoted).unwrap(), head, 3_600);
        assert_eq!(of(head), Some(1_800_000_000));
        assert_eq!(of(head - 1_800), Some(1_799_998_200));
        assert_eq!(of(head - 1_801), None, "half of the pool's time is for the deposit to be included");
        // The pool refuses a time after its block.
        assert_eq!(of(head + 600), Some(1_800_000_000));
        assert_eq!(of(head + 601), None);
    }
}
