//! `get_indicator`: a technical indicator over the candles of a pair's deepest pool.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::engine::{CallContext, ReadTool, ToolDef, ToolReply};
use crate::market::candles::Interval;
use crate::market::fixed::Fixed;
use crate::market::history::{self, HistoryRequest, MOST_INTERVALS, PriceHistory};
use crate::market::indicators::{self, MACD, MACD_CANDLES};
use crate::shared::invalid;
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};

/// Definition of the `get_indicator` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<GetIndicator>();

/// Range of periods.
const PERIODS: std::ops::RangeInclusive<u64> = 2..=200;

/// Candles read beyond those that an average with memory needs, so that its first value no longer matters: after 150
/// candles a 14-period average of Wilder's keeps 15 millionths of it.
const WARM_UP: u64 = 150;

/// Significant digits of values.
const DIGITS: u32 = 18;

/// Technical indicator over candles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Indicator {
    /// Relative strength index with Wilder's smoothing, 0 to 100.
    Rsi,
    /// Average true range with Wilder's smoothing, in quote tokens.
    Atr,
    /// Simple moving average of closes.
    Sma,
    /// Exponential moving average of closes, begun with the simple one.
    Ema,
    /// Difference of the exponential averages of 12 and 26 closes, its 9-period average and their difference.
    Macd,
    /// Mean of closes and two population standard deviations to each side.
    Bollinger,
}

impl Indicator {
    /// Period if the call names none; `None` for MACD, whose periods are fixed.
    const fn default_period(self) -> Option<u64> {
        match self {
            Self::Rsi | Self::Atr => Some(14),
            Self::Sma | Self::Ema | Self::Bollinger => Some(20),
            Self::Macd => None,
        }
    }

    /// Number of candles without which there is no value.
    const fn needed(self, period: u64) -> u64 {
        match self {
            Self::Rsi | Self::Atr => period.saturating_add(1),
            Self::Sma | Self::Ema | Self::Bollinger => period,
            Self::Macd => MACD_CANDLES,
        }
    }

    /// Number of candles to read.
    const fn wanted(self, period: u64) -> u64 {
        match self {
            Self::Sma | Self::Bollinger => self.needed(period),
            Self::Rsi | Self::Atr | Self::Ema | Self::Macd => self.needed(period).saturating_add(WARM_UP),
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Rsi => "RSI",
            Self::Atr => "ATR",
            Self::Sma => "SMA",
            Self::Ema => "EMA",
            Self::Macd => "MACD",
            Self::Bollinger => "Bollinger",
        }
    }
}

/// Parameters of `get_indicator`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Token: symbol or 0x address.
    token: String,
    /// Indicator that is wanted.
    indicator: Indicator,
    /// Number of candles of the average, 2 to 200; defaults to 14 for `rsi` and `atr`, and to 20 for `sma`, `ema` and
    /// `bollinger`. `macd` takes none.
    #[serde(default)]
    period: Option<u64>,
    /// Chain name, alias or decimal id.
    chain: String,
    /// Length of a candle.
    #[serde(default = "five_minutes")]
    interval: Interval,
    /// Token in which prices are given: symbol or 0x address; defaults to the first of USDC, USDT and DAI that has a pool
    /// with the token.
    #[serde(default)]
    quote: Option<String>,
    /// Address of the pool to read; defaults to the deepest V2 or V3 pool of the pair.
    #[serde(default)]
    pool: Option<String>,
}

fn five_minutes() -> Interval {
    Interval::FiveMinutes
}

/// Result of `get_indicator`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Symbol of the token.
    token: String,
    /// Symbol of the token in which prices are given.
    quote: String,
    /// Name of the chain.
    chain: String,
    /// Indicator of the values below.
    indicator: Indicator,
    /// Period of the average; absent for `macd`.
    period: Option<u64>,
    /// Length of a candle.
    interval: Interval,
    /// Latest value: the index, range or average; of `macd` the line, of `bollinger` the middle.
    value: String,
    /// `macd`: average of the line.
    signal: Option<String>,
    /// `macd`: line less signal.
    histogram: Option<String>,
    /// `bollinger`: lower band.
    lower: Option<String>,
    /// `bollinger`: upper band.
    upper: Option<String>,
    /// Close of the last finished candle.
    close: String,
    /// Time of that close, in seconds since the Unix epoch.
    as_of: u64,
    /// Number of finished candles that were used.
    candle_count: usize,
    /// Number of those without a swap, which repeat the close before them.
    empty_intervals: u64,
    /// Number of swaps in them.
    swap_count: u64,
    /// Address of the pool whose swaps were read.
    pool: String,
    /// First block that was read.
    from_block: u64,
    /// Newest block, the last one that was read.
    to_block: u64,
    /// True if several endpoints agree on the logs; false if they are those of one endpoint.
    agreed_by_endpoints: bool,
}

/// Implementation of `get_indicator`; see [`TOOL_DEF`].
pub struct GetIndicator;

impl ReadTool for GetIndicator {
    const META: ToolMeta = ToolMeta {
        name: "get_indicator",
        description: "Computes RSI or ATR (Wilder's smoothing), SMA, EMA, MACD (12, 26, 9) or Bollinger bands (two \
                      population standard deviations) over the finished candles of a pair's deepest pool, with the \
                      number of candles and swaps behind it. Too little history is an error that says how much there \
                      is.",
        category: Category::Data,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Slow,
        progress_steps: &["Reading swaps", "Computing"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "RSI, ATR, SMA, EMA, MACD or Bollinger bands over on-chain candles.",
        prompt_guidelines: Guidelines {
            thriving: "Use it with other evidence; an indicator over few swaps says little.",
            cautious: "Check how many swaps are behind it before you rely on it.",
            declining: "Use ATR to see how far a price moves while an exit takes place.",
            terminal: "Not needed for the last exits.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &["token", "indicator", "period", "chain", "interval"],
        summary_fields: &["indicator", "value", "candle_count"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({"token": "WETH", "indicator": "rsi", "chain": "ethereum", "interval": "1m"})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        let chain = context.world.chain(&params.chain)?;
        let indicator = params.indicator;
        let period = match (indicator.default_period(), params.period) {
            (None, Some(_)) => return Err(invalid("period", &"MACD has the periods 12, 26 and 9; leave it out")),
            (None, None) => None,
            (Some(_), Some(period)) if !PERIODS.contains(&period) => {
                let what = format_args!("{period}; use {} to {}", PERIODS.start(), PERIODS.end());
                return Err(invalid("period", &what));
            }
            (Some(default), given) => Some(given.unwrap_or(default)),
        };
        let length = period.unwrap_or(MACD[1]);
        context.step("Reading swaps");
        let request = HistoryRequest {
            token: &params.token,
            quote: params.quote.as_deref(),
            pool: params.pool.as_deref(),
            interval: params.interval,
            lookback: indicator.wanted(length).min(MOST_INTERVALS),
        };
        let history = history::read(chain, &request).await?;
        context.step("Computing");
        let needed = indicator.needed(length);
        let short = || history.too_short("period", needed, params.interval);
        let Some(last) = history.candles.last() else { return Err(short()) };
        if history.candles.len() < usize::try_from(needed).unwrap_or(usize::MAX) {
            return Err(short());
        }
        let values = compute(indicator, length, &history).ok_or_else(|| {
            let what = format_args!(
                "it has no value: the price did not change in {} candles of {}",
                history.candles.len(),
                params.interval.as_str()
            );
            invalid("indicator", &what)
        })?;
        let written = |value: &Fixed| value.to_significant(DIGITS);
        let explanation = format!(
            "{} of {} is {} by {} candles of {}.",
            indicator.as_str(),
            history.base.symbol,
            values.value.to_significant(6),
            history.candles.len(),
            params.interval.as_str(),
        );
        let output = Output {
            token: history.base.symbol.to_string(),
            quote: history.quote.symbol.to_string(),
            chain: chain.network().name.clone(),
            indicator,
            period,
            interval: params.interval,
            value: written(&values.value),
            signal: values.signal.as_ref().map(written),
            histogram: values.histogram.as_ref().map(written),
            lower: values.lower.as_ref().map(written),
            upper: values.upper.as_ref().map(written),
            close: last.close.to_string(),
            as_of: last.start.saturating_add(params.interval.seconds()),
            candle_count: history.candles.len(),
            empty_intervals: history.empty_intervals(),
            swap_count: history.candles.iter().map(|candle| candle.swaps).sum(),
            pool: history.pool.to_string(),
            from_block: history.from_block,
            to_block: history.head.number,
            agreed_by_endpoints: chain.client.has_several_endpoints(),
        };
        Ok(ToolReply::new(output, explanation))
    }
}

/// Values of an indicator.
#[derive(Debug, Default)]
struct Values {
    value: Fixed,
    signal: Option<Fixed>,
    histogram: Option<Fixed>,
    lower: Option<Fixed>,
    upper: Option<Fixed>,
}

/// Computes the latest values; `None` without enough candles, or for an RSI without any change.
fn compute(indicator: Indicator, period: u64, history: &PriceHistory) -> Option<Values> {
    let closes: Vec<Fixed> = history.candles.iter().map(|candle| candle.close.clone()).collect();
    let single = |value: Fixed| Values { value, ..Values::default() };
    Some(match indicator {
        Indicator::Rsi => single(indicators::rsi(&closes, period)?),
        Indicator::Atr => single(indicators::atr(&history.candles, period)?),
        Indicator::Sma => single(indicators::sma(&closes, period)?),
        Indicator::Ema => single(indicators::ema(&closes, period)?.pop()?),
        Indicator::Macd => {
            let macd = indicators::macd(&closes)?;
            Values { value: macd.line, signal: Some(macd.signal), histogram: Some(macd.histogram), ..Values::default() }
        }
        Indicator::Bollinger => {
            let bands = indicators::bollinger(&closes, period)?;
            Values { value: bands.middle, lower: Some(bands.lower), upper: Some(bands.upper), ..Values::default() }
        }
    })
}
