//! `get_risk_metrics`: risk figures of an account's present holdings at past prices.

use std::collections::BTreeMap;

use alloy::primitives::Address;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::get_balances::{held_on, tokens_of};
use crate::engine::{CallContext, ConnectedChain, ReadTool, ToolDef, ToolReply};
use crate::market::candles::Interval;
use crate::market::fixed::Fixed;
use crate::market::history::{self, HistoryRequest};
use crate::market::risk::{LEAST_RETURNS, Risk, concentration, risk};
use crate::shared::{contract_of, invalid};
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_base::units::{Rounding, TokenAmount, Usd};
use golem_chain::token::TokenInfo;

/// Definition of the `get_risk_metrics` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<GetRiskMetrics>();

/// Maximum number of tokens whose prices are read.
const MOST_TOKENS: usize = 8;
/// Least value that counts as a holding, in dollars.
const LEAST_VALUE: u32 = 1;
/// Significant digits of figures.
const DIGITS: u32 = 8;

/// Parameters of `get_risk_metrics`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Chain name, alias or decimal id.
    chain: String,
    /// Account, as a 0x address; defaults to the wallet's account.
    #[serde(default)]
    account: Option<String>,
    /// Length of a return.
    #[serde(default = "hour")]
    interval: Interval,
    /// Number of finished intervals before the newest block, 21 to 500.
    #[serde(default = "week")]
    lookback: u64,
}

fn hour() -> Interval {
    Interval::Hour
}

fn week() -> u64 {
    168
}

/// Result of `get_risk_metrics`. Shares are fractions: 0.05 is 5 %.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Name of the chain.
    chain: String,
    /// Address of the account.
    account: String,
    /// Value of the counted holdings in dollars.
    value_usd: String,
    /// Counted holdings, largest first.
    holdings: Vec<HoldingShare>,
    /// Symbols of held tokens without a price, and of those beyond the eight largest; they are in no figure.
    not_counted: Vec<String>,
    /// Length of a return.
    interval: Interval,
    /// Start of the window, in seconds since the Unix epoch.
    window_start: u64,
    /// End of the window, in seconds since the Unix epoch.
    window_end: u64,
    /// Number of returns in the window.
    sample_count: u64,
    /// Part of the sampled closes without a swap in their interval, as a fraction; many of them make a price look calm.
    empty_share: String,
    /// Loss within one interval that 95 % of the intervals stayed within, as a fraction of the value.
    var_95: String,
    /// The same in dollars.
    var_95_usd: String,
    /// Standard deviation of the returns per year of 365 days, as a fraction.
    volatility: String,
    /// Mean return by standard deviation, per year, with a risk-free rate of zero; absent without any deviation.
    sharpe: Option<String>,
    /// Mean return by downside deviation, per year; absent without a loss.
    sortino: Option<String>,
    /// Largest fall from a high to a later low in the window, as a fraction of the high.
    max_drawdown: String,
    /// Herfindahl–Hirschman index of the holdings: 1 for a single one, 1/n for n equal ones.
    concentration: String,
    /// True if several endpoints agree on the logs behind it; false if they are those of one endpoint.
    agreed_by_endpoints: bool,
}

/// Holding and its share of the value.
#[derive(Debug, Serialize, JsonSchema)]
struct HoldingShare {
    /// Symbol of the token.
    token: String,
    /// Amount in whole tokens.
    amount: String,
    /// Value in dollars.
    value_usd: String,
    /// Share of the value, as a fraction.
    share: String,
}

/// Implementation of `get_risk_metrics`; see [`TOOL_DEF`].
pub struct GetRiskMetrics;

impl ReadTool for GetRiskMetrics {
    const META: ToolMeta = ToolMeta {
        name: "get_risk_metrics",
        description: "Computes value at risk (95 %, historical simulation), volatility, Sharpe and Sortino ratio, \
                      maximum drawdown and concentration of the tokens that an account holds now, at the past prices \
                      of their deepest pools, annualised by 365 days, with window and number of samples. Stablecoins \
                      count at a constant price. Liquidity positions, loans and vault shares are not read. Too little \
                      history is an error that says how much there is.",
        category: Category::Data,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Slow,
        progress_steps: &["Reading balances", "Reading swaps", "Computing"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "Value at risk, volatility, Sharpe, Sortino, drawdown and concentration of the present holdings.",
        prompt_guidelines: Guidelines {
            thriving: "Check the concentration and the value at risk before a position grows.",
            cautious: "Keep the value at risk of a day below what the stop-loss leaves.",
            declining: "Use it to choose what to exit first: the holding with the largest share.",
            terminal: "Not needed for the last exits.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &["chain", "account", "interval"],
        summary_fields: &["var_95_usd", "volatility", "sample_count"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({"chain": "ethereum", "interval": "1m", "lookback": 60})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        let chain = context.world.chain(&params.chain)?;
        let account = context.world.account(params.account.as_deref())?;
        let needed = LEAST_RETURNS.saturating_add(1);
        if params.lookback < needed {
            let what = format_args!("{} intervals; {LEAST_RETURNS} returns need at least {needed}", params.lookback);
            return Err(invalid("lookback", &what));
        }
        context.step("Reading balances");
        let (holdings, not_counted) = holdings(context, chain, account).await?;
        context.step("Reading swaps");
        let window = Window::read(chain, &holdings, &params).await?;
        context.step("Computing");
        let out_of_range =
            || ToolError::new(ErrorCode::PriceUnavailable, "a figure cannot be computed from these prices");
        let found: Risk = risk(&window.values, params.interval.seconds()).ok_or_else(out_of_range)?;
        let parts: Vec<Fixed> = holdings.iter().map(|holding| holding.value.clone()).collect();
        let total = Fixed::sum(&parts);
        let written = |value: &Fixed| value.to_significant(DIGITS);
        let shares = holdings.iter().zip(&parts).map(|(holding, part)| {
            Some(HoldingShare {
                token: holding.token.symbol.to_string(),
                amount: holding.amount.to_string(),
                value_usd: holding.usd.to_string(),
                share: written(&part.over(&total)?),
            })
        });
        let shares: Vec<HoldingShare> = shares.collect::<Option<_>>().ok_or_else(out_of_range)?;
        let loss = found.value_at_risk.times(&total);
        let explanation = format!(
            "In 95 % of {} intervals of {} these holdings lost no more than ${}; volatility {} % a year, largest fall \
             {} %.",
            found.returns,
            params.interval.as_str(),
            loss.to_text(2),
            found.volatility.by(100).to_text(2),
            found.drawdown.by(100).to_text(2),
        );
        let output = Output {
            chain: chain.network().name.clone(),
            account: account.to_string(),
            value_usd: total.to_text(12),
            holdings: shares,
            not_counted,
            interval: params.interval,
            window_start: window.start,
            window_end: window.end,
            sample_count: found.returns,
            empty_share: written(&window.empty_share().ok_or_else(out_of_range)?),
            var_95: written(&found.value_at_risk),
            var_95_usd: loss.to_text(12),
            volatility: written(&found.volatility),
            sharpe: found.sharpe.as_ref().map(written),
            sortino: found.sortino.as_ref().map(written),
            max_drawdown: written(&found.drawdown),
            concentration: written(&concentration(&parts).ok_or_else(out_of_range)?),
            agreed_by_endpoints: chain.client.has_several_endpoints(),
        };
        Ok(ToolReply::new(output, explanation))
    }
}

/// Token that is held, with its value now. The native token and its wrapped form are one holding.
struct Holding {
    token: TokenInfo,
    contract: Address,
    amount: TokenAmount,
    usd: Usd,
    value: Fixed,
}

/// Holdings of at least a dollar, largest first, and the symbols of held tokens that are not counted: without a price, or
/// not among the [`MOST_TOKENS`] largest.
///
/// # Errors
/// `INSUFFICIENT_BALANCE` without a holding, and the errors of the chain.
async fn holdings(
    context: &CallContext,
    chain: &ConnectedChain,
    account: Address,
) -> Result<(Vec<Holding>, Vec<String>), ToolError> {
    let tokens = tokens_of(chain, None).await?;
    let held = held_on(&context.world, chain, account, tokens).await?;
    let mut by_contract: BTreeMap<Address, (TokenInfo, TokenAmount)> = BTreeMap::new();
    for (token, amount) in held.balances.into_iter().filter(|(_, amount)| !amount.raw().is_zero()) {
        let contract = contract_of(chain, &token)?;
        let sum = match by_contract.get(&contract) {
            Some((_, other)) => TokenAmount::new(other.raw().saturating_add(amount.raw()), amount.decimals())?,
            None => amount,
        };
        by_contract.insert(contract, (token, sum));
    }
    let contracts: Vec<Address> = by_contract.keys().copied().collect();
    let reports = chain.prices.prices(&contracts).await;
    let (mut holdings, mut left_out) = (Vec::new(), Vec::new());
    for ((contract, (token, amount)), report) in by_contract.into_iter().zip(reports.iter()) {
        let value = report.price.as_ref().and_then(|price| {
            let usd = Usd::value_of(amount, price.usd, Rounding::Down).ok()?;
            // A value has 12 decimals.
            Some((usd, Fixed::scaled(usd.scaled(12, Rounding::Down)?, 12)?))
        });
        match value {
            Some((usd, value)) if usd >= Usd::whole(LEAST_VALUE) => {
                holdings.push(Holding { token, contract, amount, usd, value });
            }
            Some(_) => {}
            None => left_out.push(token.symbol.to_string()),
        }
    }
    holdings.sort_by(|one, other| other.value.cmp(&one.value));
    if holdings.is_empty() {
        let what = format_args!("{account} holds no listed token worth ${LEAST_VALUE} on {}", chain.network());
        return Err(ToolError::new(ErrorCode::InsufficientBalance, what).suggest("Name an account that holds tokens."));
    }
    let mut risky = 0;
    holdings.retain(|holding| {
        risky += usize::from(!is_stable(chain, holding.contract));
        let is_counted = risky <= MOST_TOKENS || is_stable(chain, holding.contract);
        if !is_counted {
            left_out.push(holding.token.symbol.to_string());
        }
        is_counted
    });
    Ok((holdings, left_out))
}

/// Returns true for a token whose dollar price is taken as constant.
fn is_stable(chain: &ConnectedChain, token: Address) -> bool {
    chain.network().book.is_stablecoin(token)
}

/// Value of the holdings at the end of each interval.
struct Window {
    start: u64,
    end: u64,
    values: Vec<Fixed>,
    closes: u64,
    empty: u64,
}

impl Window {
    /// Part of the closes without a swap in their interval.
    fn empty_share(&self) -> Option<Fixed> {
        if self.closes == 0 { Some(Fixed::default()) } else { Fixed::whole(self.empty).part(self.closes) }
    }

    /// Reads the histories of all holdings that are not stable, and adds up `value now · close / last close` of each.
    async fn read(chain: &ConnectedChain, holdings: &[Holding], params: &Params) -> Result<Self, ToolError> {
        let interval = params.interval.seconds();
        let mut constant = Fixed::default();
        let mut sums: Option<BTreeMap<u64, Fixed>> = None;
        let (mut closes, mut empty) = (0_u64, 0_u64);
        for holding in holdings {
            if is_stable(chain, holding.contract) {
                constant = constant.plus(&holding.value);
                continue;
            }
            let token = holding.contract.to_string();
            let request = HistoryRequest {
                token: &token,
                quote: None,
                pool: None,
                interval: params.interval,
                lookback: params.lookback,
            };
            let history = history::read(chain, &request).await?;
            let missing = usize::try_from(params.lookback).unwrap_or(usize::MAX) > history.candles.len();
            let last = history.candles.last().filter(|_| !missing);
            let Some(last) = last else {
                return Err(history.too_short("lookback", params.lookback, params.interval));
            };
            let mut values = BTreeMap::new();
            for candle in &history.candles {
                let value = holding.value.times(&candle.close).over(&last.close).ok_or_else(|| {
                    ToolError::new(ErrorCode::PriceUnavailable, format_args!("{token} has a price of zero"))
                })?;
                values.insert(candle.start, value);
            }
            closes = closes.saturating_add(params.lookback);
            empty = empty.saturating_add(history.empty_intervals());
            sums = Some(match sums {
                None => values,
                // A block between two readings moves the window by an interval: only common ones count.
                Some(sums) => {
                    sums.into_iter().filter_map(|(start, sum)| Some((start, sum.plus(values.get(&start)?)))).collect()
                }
            });
        }
        let Some(sums) = sums else {
            let what = "only stablecoins are held, which count at a constant price: they have no risk to measure here";
            return Err(
                ToolError::new(ErrorCode::ValidationFailed, what).suggest("Name an account that holds other tokens.")
            );
        };
        let end = sums.keys().next_back().copied().unwrap_or_default().saturating_add(interval);
        let start = sums.keys().next().copied().unwrap_or_default();
        let values: Vec<Fixed> = sums.into_values().map(|sum| sum.plus(&constant)).collect();
        Ok(Self { start, end, values, closes, empty })
    }
}
