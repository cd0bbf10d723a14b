//! `get_price_history`: candles of a pair from the swap logs of its deepest pool.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::engine::{CallContext, ReadTool, ToolDef, ToolReply};
use crate::market::candles::{Candle, Interval};
use crate::market::history::{self, HistoryRequest, PriceHistory};
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_base::units::TokenAmount;

/// Definition of the `get_price_history` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<GetPriceHistory>();

/// Parameters of `get_price_history`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Token whose price is wanted: symbol or 0x address.
    token: String,
    /// Token in which prices are given: symbol or 0x address; defaults to the first of USDC, USDT and DAI that has a pool
    /// with the token.
    #[serde(default)]
    quote: Option<String>,
    /// Chain name, alias or decimal id.
    chain: String,
    /// Length of a candle.
    #[serde(default = "five_minutes")]
    interval: Interval,
    /// Number of finished candles, 1 to 500.
    #[serde(default = "dozen")]
    lookback: u64,
    /// Address of the pool to read; defaults to the deepest V2 or V3 pool of the pair.
    #[serde(default)]
    pool: Option<String>,
}

fn five_minutes() -> Interval {
    Interval::FiveMinutes
}

fn dozen() -> u64 {
    12
}

/// Result of `get_price_history`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Symbol of the token.
    token: String,
    /// Symbol of the token in which prices are given.
    quote: String,
    /// Name of the chain.
    chain: String,
    /// Address of the pool whose swaps were read.
    pool: String,
    /// Uniswap version of the pool: `V2` or `V3`.
    version: String,
    /// Fee of the pool in hundredths of a basis point: 3000 is 0.3 %.
    fee_tier: u32,
    /// Length of a candle.
    interval: Interval,
    /// First block that was read.
    from_block: u64,
    /// Newest block, the last one that was read.
    to_block: u64,
    /// True if several endpoints agree on the logs; false if they are those of one endpoint.
    agreed_by_endpoints: bool,
    /// Number of swaps in all candles.
    swap_count: u64,
    /// Number of finished candles without a swap, which repeat the close before them.
    empty_intervals: u64,
    /// Finished candles, oldest first.
    candles: Vec<CandleRow>,
    /// Candle of the newest block's interval, which may still change; absent without a swap in it.
    unfinished: Option<CandleRow>,
}

/// Candle of one interval. Prices are the pool's after each swap, without fee, in whole quote tokens for one whole token.
#[derive(Debug, Serialize, JsonSchema)]
struct CandleRow {
    /// Start of the interval, in seconds since the Unix epoch; a multiple of its length.
    start: u64,
    /// Price after the first swap.
    open: String,
    /// Highest price after a swap.
    high: String,
    /// Lowest price after a swap.
    low: String,
    /// Price after the last swap.
    close: String,
    /// Traded amount of the token, in whole tokens.
    volume: String,
    /// Traded amount of the quote token, in whole tokens.
    quote_volume: String,
    /// Number of swaps.
    swaps: u64,
}

/// Implementation of `get_price_history`; see [`TOOL_DEF`].
pub struct GetPriceHistory;

impl ReadTool for GetPriceHistory {
    const META: ToolMeta = ToolMeta {
        name: "get_price_history",
        description: "Returns candles of a pair (open, high, low, close, volume) from the swap logs of its deepest \
                      Uniswap V2 or V3 pool, with the pool, the blocks that were read and the number of swaps. Too \
                      little history is an error that says how much there is. One trade can bend a candle of one pool: \
                      no limit and no trade rests on it.",
        category: Category::Data,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Slow,
        progress_steps: &["Reading swaps"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "Candles of a pair from on-chain swaps. For the present price, use get_token_price; for a trade, \
                         request a quote.",
        prompt_guidelines: Guidelines {
            thriving: "Use it to see the trend and the range before choosing an entry.",
            cautious: "Compare the last close with get_token_price; a candle of one pool can be bent by one trade.",
            declining: "Use it to judge whether a fall goes on before an exit; do not wait for a better price.",
            terminal: "Not needed for the last exits.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &["token", "quote", "chain", "interval"],
        summary_fields: &["pool", "swap_count", "empty_intervals"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({"token": "WETH", "chain": "ethereum", "interval": "15m", "lookback": 4})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        let chain = context.world.chain(&params.chain)?;
        context.step("Reading swaps");
        let request = HistoryRequest {
            token: &params.token,
            quote: params.quote.as_deref(),
            pool: params.pool.as_deref(),
            interval: params.interval,
            lookback: params.lookback,
        };
        let history = history::read(chain, &request).await?;
        let missing = usize::try_from(params.lookback).unwrap_or(usize::MAX) > history.candles.len();
        let (Some(first), Some(last)) = (history.candles.first(), history.candles.last()) else {
            return Err(history.too_short("lookback", params.lookback, params.interval));
        };
        if missing {
            return Err(history.too_short("lookback", params.lookback, params.interval));
        }
        let explanation = format!(
            "{} candles of {} from {} swaps: {} opened at {} and closed at {} {}.",
            history.candles.len(),
            params.interval.as_str(),
            history.swaps,
            history.base.symbol,
            first.open.to_significant(8),
            last.close.to_significant(8),
            history.quote.symbol,
        );
        let row = |candle: &Candle| row(candle, &history);
        let output = Output {
            token: history.base.symbol.to_string(),
            quote: history.quote.symbol.to_string(),
            chain: chain.network().name.clone(),
            pool: history.pool.to_string(),
            version: history.version.clone(),
            fee_tier: history.fee,
            interval: params.interval,
            from_block: history.from_block,
            to_block: history.head.number,
            agreed_by_endpoints: chain.client.has_several_endpoints(),
            swap_count: history.swaps,
            empty_intervals: history.empty_intervals(),
            candles: history.candles.iter().map(row).collect::<Result<_, _>>()?,
            unfinished: history.unfinished.as_ref().map(row).transpose()?,
        };
        Ok(ToolReply::new(output, explanation))
    }
}

fn row(candle: &Candle, history: &PriceHistory) -> Result<CandleRow, ToolError> {
    let whole = |raw, decimals| {
        let amount = TokenAmount::new(raw, decimals);
        amount.map(|amount| amount.to_string()).map_err(|error| ToolError::new(ErrorCode::TokenInvalid, error))
    };
    Ok(CandleRow {
        start: candle.start,
        open: candle.open.to_string(),
        high: candle.high.to_string(),
        low: candle.low.to_string(),
        close: candle.close.to_string(),
        volume: whole(candle.base, history.base.decimals)?,
        quote_volume: whole(candle.quote, history.quote.decimals)?,
        swaps: candle.swaps,
    })
}
