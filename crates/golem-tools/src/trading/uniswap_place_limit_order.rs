//! `uniswap_place_limit_order`: signs a UniswapX order that is filled at a given price or not at all. Its price does not
//! fall; it stays open until a filler can pay the price, its end, or its cancellation.

use alloy::primitives::{U256, U512};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::auction::{self, AuctionPlan, AuctionRequest, STARTS_IN};
use crate::engine::{CallContext, ToolDef, ToolReply, WriteTool};
use crate::lending::percent;
use crate::mev::measures;
use crate::orders::{self, CHECKS, card};
use crate::shared::invalid;
use crate::swap_query::slippage;
use bardo_base::display::readable_figure;
use bardo_base::error::ToolError;
use bardo_base::format::{short_hash, time_of_day};
use bardo_base::model::{
    ActionClass, CapabilityTier, CardKind, Category, Guidelines, RiskTier, SpenderRole, SpriteTrigger, TickBudget,
    ToolMeta,
};
use bardo_safety::pipeline::{CommitOutcome, CommitState};
use bardo_safety::proposal::Proposal;

/// Definition of the `uniswap_place_limit_order` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<PlaceLimitOrder>();

/// Shortest time that an order stays open, in seconds.
const SHORTEST: u64 = 60;

/// Longest time that an order stays open, in seconds: thirty days. The policy's `max_allowance_seconds` allows less.
const LONGEST: u64 = 30 * 86_400;

/// Parameters of `uniswap_place_limit_order`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Token paid: symbol or 0x address. Orders cannot pay native tokens: pay WETH instead of ETH.
    token_in: String,
    /// Token received: symbol or 0x address.
    token_out: String,
    /// Amount of token_in, in whole tokens. "max" is the wallet's whole balance.
    amount: String,
    /// Least price of one whole token_in in whole tokens of token_out, such as "3600". It must be above what the pools pay
    /// now.
    limit_price: String,
    /// Chain name, alias or decimal id.
    chain: String,
    /// Seconds until the order ends. The policy's `max_allowance_seconds` limits it.
    #[serde(default = "fifty_minutes")]
    #[schemars(range(min = 60, max = 2_592_000))]
    expires_in: u64,
}

fn fifty_minutes() -> u64 {
    3_000
}

/// Result of `uniswap_place_limit_order`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Hash of the order, for uniswap_get_uniswapx_order_status and uniswapx_cancel_order.
    order_hash: String,
    /// Order type: `DUTCH_V2`, `DUTCH_V3` or `PRIORITY`.
    order_type: &'static str,
    /// Status: `pending`, `open`, `filled`, `expired` or `cancelled`; `insufficient_funds` or `error` if the order
    /// cannot be filled; `unclear` if it may have been signed but no service has confirmed it; `simulated` if nothing
    /// was signed.
    status: String,
    /// Last second in which the order can be filled, since the Unix epoch.
    deadline: u64,
    /// Least output, in whole tokens.
    least_out: String,
    /// Output of the same input in the pools when the order was made, in whole tokens.
    market_out: String,
    /// Rise of the market's price at which the pools would pay as much, in percent, rounded up. A filler needs its gas and
    /// margin on top.
    distance_pct: String,
}

/// Implementation of `uniswap_place_limit_order`; see [`TOOL_DEF`].
pub struct PlaceLimitOrder;

impl WriteTool for PlaceLimitOrder {
    const META: ToolMeta = ToolMeta {
        name: "uniswap_place_limit_order",
        description: "Signs a UniswapX order that is filled at a given price or better, or not at all. Its price does not fall; it \
                      stays open until a filler pays it, its end, or uniswapx_cancel_order. The money stays in the wallet until \
                      then, counts as spent in the limits and cannot be used elsewhere. The filler pays the gas. The fill is \
                      simulated through the real reactor before anything is signed.",
        category: Category::Trading,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer2,
        tick_budget: TickBudget::Medium,
        progress_steps: &["Validating order", "Signing Permit2", "Submitting to filler network"],
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Places an order that waits for a better price than the market's. Track it with \
                         uniswap_get_uniswapx_order_status, and see its distance in get_portfolio.",
        prompt_guidelines: Guidelines {
            thriving: "Use it where a better price is worth waiting for; the amount is bound until the order ends.",
            cautious: "Keep the time short: while it waits, the amount cannot leave the market.",
            declining: "For sales only, close to the market; sell at once if the price moves away.",
            terminal: "Do not use it: exit at once with uniswap_execute_swap.",
            memory: None,
        },
        idempotent: false,
        // The least strict class that a write can claim. The pipeline derives the actual class from the simulated fill.
        action_class: ActionClass::ClosePosition,
        checks: CHECKS,
        event_params: &["token_in", "token_out", "amount", "limit_price", "chain"],
        summary_fields: &["order_hash", "status", "distance_pct"],
        card: Some(CardKind::Order),
        spenders: &[SpenderRole::OrderReactor],
    };
    type Params = Params;
    type Output = Output;
    type Plan = AuctionPlan;

    fn example() -> Value {
        json!({"token_in": "WETH", "token_out": "USDC", "amount": "0.1", "limit_price": "3800", "chain": "ethereum"})
    }

    async fn prepare(context: &CallContext, params: Params) -> Result<(Proposal, AuctionPlan), ToolError> {
        context.step("Validating order");
        let Params { token_in, token_out, amount, limit_price, chain, expires_in } = params;
        if !(SHORTEST..=LONGEST).contains(&expires_in) {
            let what = format_args!("{expires_in} s; expected {SHORTEST} to {LONGEST} s from now");
            return Err(invalid("expires_in", &what));
        }
        let request = AuctionRequest {
            token_in: &token_in,
            token_out: &token_out,
            amount: &amount,
            chain: &chain,
            starts_in: STARTS_IN,
            ends_in: expires_in,
            slippage: slippage(context, None)?,
            limit: Some(&limit_price),
        };
        auction::order(context, &request).await
    }

    fn output(_: &CallContext, plan: AuctionPlan, committed: &CommitOutcome) -> Result<ToolReply<Output>, ToolError> {
        Ok(summed_up(&plan, committed))
    }
}

/// Rise in percent from one amount to another of the same token, with two decimals and rounded up; empty if the first is zero.
fn rise(from: U256, to: U256) -> String {
    let change = U512::from(to.saturating_sub(from)) * U512::from(10_000);
    let bps = change.checked_add(U512::from(from)).and_then(|sum| sum.checked_sub(U512::from(1)));
    let bps = bps.and_then(|sum| sum.checked_div(U512::from(from)));
    bps.map(|bps| percent(u32::try_from(bps).unwrap_or(u32::MAX))).unwrap_or_default()
}

/// Builds the result from the order's record and the outcome of the commit.
fn summed_up(plan: &AuctionPlan, committed: &CommitOutcome) -> ToolReply<Output> {
    let record = committed.order.as_deref();
    let status = orders::status(&committed.state, record);
    let distance = rise(plan.market.raw(), plan.end.raw());
    let said = match &committed.state {
        CommitState::Placed => format!("Order {} status: {status}", short_hash(plan.hash)),
        CommitState::Simulated => "Would be placed; nothing was signed".to_owned(),
        CommitState::Unclear => {
            format!("Order {} may have been signed: do not place it again, check its status", short_hash(plan.hash))
        }
        CommitState::Done | CommitState::Reverted | CommitState::Stopped { .. } => {
            "The order was not placed".to_owned()
        }
    };
    let explanation = format!(
        "{said}. It pays at least {} {} or is not filled, until {} UTC; the pools pay {} now, so their price must rise {distance} % \
         first.",
        plan.end,
        plan.symbol,
        time_of_day(plan.deadline),
        readable_figure(&plan.market.to_string(), 6),
    );
    let output = Output {
        order_hash: plan.hash.to_string(),
        order_type: plan.kind.name(),
        status,
        deadline: plan.deadline,
        least_out: plan.end.to_string(),
        market_out: plan.market.to_string(),
        distance_pct: distance,
    };
    let hints = json!({
        "route_type": plan.kind.name(),
        "notes": plan.notes,
        "uniswapx": {"preferred": true, "used": true, "why": "it was requested as an order"},
        "mev": measures(orders::sight(&committed.state), None),
        "order": record.map(card),
    });
    ToolReply::new(output, explanation).hint(hints)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_is_rounded_up() {
        for (from, to, expected) in
            [(340_u64, 374_u64, "10"), (3, 4, "33.34"), (100_000, 100_001, "0.01"), (5, 5, "0"), (0, 1, "")]
        {
            assert_eq!(rise(U256::from(from), U256::from(to)), expected, "{from} {to}");
        }
    }
}
