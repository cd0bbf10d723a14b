//! `uniswap_schedule_swaps`: a total that is swapped in slices over time.

use alloy::primitives::U256;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::schedule_info::ScheduleInfo;
use crate::engine::{CallContext, RecordTool, ToolDef, ToolReply};
use crate::schedules::{
    self, INTERVAL, LONGEST, MOST_ACTIVE, SLICES, Schedule, ScheduleProgress, ScheduleState, ScheduleTerms,
    ScheduledToken,
};
use crate::shared::invalid;
use crate::swap_query::SwapQuery;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::format::{age, counted, utc};
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_base::units::{BasisPoints, TokenAmount};
use golem_chain::token::{TokenId, TokenInfo};
use golem_protocols::uniswap::pool::FixedAmount;

/// Definition of the `uniswap_schedule_swaps` tool.
pub static TOOL_DEF: ToolDef = ToolDef::record::<ScheduleSwaps>();

/// Parameters of `uniswap_schedule_swaps`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Token paid: symbol or 0x address.
    token_in: String,
    /// Token received: symbol or 0x address.
    token_out: String,
    /// Amount of token_in that all slices pay together, in whole tokens, such as "1000".
    total: String,
    /// Number of slices of equal size.
    #[schemars(range(min = 2, max = 1_000))]
    slices: u32,
    /// Seconds from one slice to the next.
    #[schemars(range(min = 10, max = 2_678_400))]
    interval_seconds: u64,
    /// Chain name, alias or decimal id.
    chain: String,
    /// Slippage tolerance of each slice, in basis points. Defaults to that of a single swap.
    #[serde(default)]
    #[schemars(range(max = 10_000))]
    slippage_bps: Option<u32>,
    /// Least price that a slice must be sure to get, after slippage: whole units of token_out for one of token_in. While the
    /// price is below it, slices wait for their next time.
    #[serde(default)]
    least_price: Option<String>,
    /// Seconds until the first slice; defaults to 0.
    #[serde(default)]
    #[schemars(range(max = 31_622_400))]
    start_in_seconds: u64,
    /// Seconds until the schedule ends, whatever is left of it. Defaults to twice the time that its slices take.
    #[serde(default)]
    #[schemars(range(min = 1, max = 31_622_400))]
    ends_in_seconds: Option<u64>,
}

/// Result of `uniswap_schedule_swaps`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Schedule as it was stored.
    schedule: ScheduleInfo,
    /// Amount that one slice would bring now, before slippage, in whole units of the received token.
    expected_per_slice: String,
}

/// Implementation of `uniswap_schedule_swaps`; see [`TOOL_DEF`].
pub struct ScheduleSwaps;

impl RecordTool for ScheduleSwaps {
    const META: ToolMeta = ToolMeta {
        name: "uniswap_schedule_swaps",
        description: "Schedules a total to be swapped in equal slices at an interval: a recurring buy, or a large swap spread over \
                      time. It signs and approves nothing: an open session runs each slice as a swap of its \
                      own, with every check, limit and approval of that moment, at its own price. A slice that fails or would \
                      get less than least_price waits for its next time. The schedule survives a restart; times that pass \
                      without a session are not made up for.",
        category: Category::Trading,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer2,
        tick_budget: TickBudget::Medium,
        progress_steps: &["Quoting a slice", "Storing the schedule"],
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Schedules a total to be swapped in slices at an interval, each checked and approved as a swap of its own.",
        prompt_guidelines: Guidelines {
            thriving: "Spread what would move the price, and what is bought regularly. Set a least price.",
            cautious: "Use smaller slices, a longer interval and a least price.",
            declining: "Only sell holdings over time, with an early end. Cancel schedules that buy.",
            terminal: "Schedule nothing; cancel what is left.",
            memory: None,
        },
        idempotent: false,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::Halt, Check::RateLimit],
        event_params: &["token_in", "token_out", "total", "slices", "interval_seconds", "chain"],
        summary_fields: &["expected_per_slice"],
        card: None,
        spenders: &[],
    };
    const ALWAYS_RUNS: bool = false;
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({"token_in": "USDC", "token_out": "WETH", "total": "1000", "slices": 10, "interval_seconds": 3_600,
               "chain": "ethereum"})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        let world = &context.world;
        let chain = world.chain(&params.chain)?;
        let account = world.account(None)?;
        let store = context.ledger()?;
        context.step("Quoting a slice");
        let tokens = [params.token_in.as_str(), params.token_out.as_str()];
        let mut ask = SwapQuery::new(world, chain, tokens, &params.total, false).await?;
        let FixedAmount::In(total) = ask.exact else { return Err(invalid("total", &"expected an amount to pay")) };
        let terms = terms(&params, &ask, total, world.clock.now_millis())?;
        // Without a route none of the slices could be swapped.
        ask.exact = FixedAmount::In(terms.slice(1));
        let (route, ..) = ask.route(world).await?;
        let whole = |raw, token: &TokenInfo| TokenAmount::new(raw, token.decimals).map(|amount| amount.to_string());
        let expected = whole(route.amount_out, &ask.token_out).map_err(|error| invalid("token_out", &error))?;
        context.step("Storing the schedule");
        let schedule = Schedule {
            id: context.call_id().to_string(),
            golem_id: context.golem_id().clone(),
            network: context.network_name(),
            account,
            state: ScheduleState::Active,
            next_at: terms.created_at.saturating_add(params.start_in_seconds.saturating_mul(1_000)),
            terms,
            progress: ScheduleProgress::default(),
        };
        let info = ScheduleInfo::of(&schedule);
        let first = utc(schedule.next_at);
        let stored = schedules::insert(&store, schedule).await;
        if !stored.map_err(|error| ToolError::new(ErrorCode::StoreUnavailable, error))? {
            let what = format_args!("{MOST_ACTIVE} schedules are active already");
            let error = ToolError::new(ErrorCode::ValidationFailed, what);
            return Err(error.suggest("Cancel one with cancel_schedule."));
        }
        let explanation = format!(
            "{} of {} {} for {}, one every {}, the first at {first}: each is checked and approved as a swap of its own, while a \
             session runs. Now a slice would bring {expected} {}.",
            counted(u64::from(params.slices), "slice", "slices"),
            info.amount_per_slice,
            info.token_in,
            info.token_out,
            age(params.interval_seconds),
            info.token_out,
        );
        Ok(ToolReply::new(Output { schedule: info, expected_per_slice: expected }, explanation))
    }
}

/// Checks the parameters, and returns the terms that they state.
///
/// # Errors
/// `VALIDATION_FAILED` with the parameter and what would be right.
fn terms(params: &Params, ask: &SwapQuery<'_>, total: U256, now: u64) -> Result<ScheduleTerms, ToolError> {
    if params.total.trim().eq_ignore_ascii_case("max") {
        return Err(invalid("total", &"\"max\" would change with every slice; give a number"));
    }
    if ask.token_in.id == ask.token_out.id {
        return Err(invalid("token_out", &"it is the token that is paid"));
    }
    if !SLICES.contains(&params.slices) {
        let what = format_args!("{}; expected {} to {}", params.slices, SLICES.start(), SLICES.end());
        return Err(invalid("slices", &what));
    }
    if !INTERVAL.contains(&params.interval_seconds) {
        let what = format_args!("{} s; expected {} to {} s", params.interval_seconds, INTERVAL.start(), INTERVAL.end());
        return Err(invalid("interval_seconds", &what));
    }
    if total < U256::from(params.slices) {
        return Err(invalid("total", &format_args!("it cannot be divided into {} slices", params.slices)));
    }
    if let Some(points) = params.slippage_bps {
        BasisPoints::new(points).map_err(|error| invalid("slippage_bps", &error))?;
    }
    let least_per_unit = match &params.least_price {
        None => None,
        Some(price) => {
            let price =
                TokenAmount::parse(price, ask.token_out.decimals).map_err(|error| invalid("least_price", &error))?;
            Some(price.raw()).filter(|raw| !raw.is_zero())
        }
    };
    let takes = u64::from(params.slices).saturating_mul(params.interval_seconds);
    let usual = params.start_in_seconds.saturating_add(takes.saturating_mul(2)).min(LONGEST);
    let ends_in = params.ends_in_seconds.unwrap_or(usual);
    if ends_in > LONGEST || ends_in <= params.start_in_seconds {
        let what = format_args!("{ends_in} s; expected more than the start, and at most {LONGEST} s");
        return Err(invalid("ends_in_seconds", &what));
    }
    let last = params.start_in_seconds.saturating_add(takes.saturating_sub(params.interval_seconds));
    if ends_in <= last {
        let what = format_args!("{ends_in} s; the last slice comes after {last} s");
        return Err(invalid("ends_in_seconds", &what));
    }
    Ok(ScheduleTerms {
        chain_id: ask.chain.network().chain_id,
        chain: ask.chain.network().name.to_string(),
        token_in: scheduled(&ask.token_in),
        token_out: scheduled(&ask.token_out),
        total,
        slices: params.slices,
        interval: params.interval_seconds.saturating_mul(1_000),
        slippage_bps: params.slippage_bps,
        least_per_unit,
        created_at: now,
        ends_at: now.saturating_add(ends_in.saturating_mul(1_000)),
    })
}

fn scheduled(token: &TokenInfo) -> ScheduledToken {
    let name = match token.id {
        TokenId::Native => token.symbol.to_string(),
        TokenId::Erc20(address) => address.to_string(),
    };
    ScheduledToken { name, symbol: token.symbol.clone(), decimals: token.decimals }
}
