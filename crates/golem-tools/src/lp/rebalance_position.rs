//! `rebalance_position`: moves a liquidity position to another range of its pool; see [`super::moves`].

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::deposits::refuse_paper;
use super::moves::{self, MovePlan, Output};
use super::range::RangeWish;
use super::{candidate, exits};
use crate::engine::{CallContext, StepCaller, StepFailure, ToolDef, ToolReply, WriteTool};
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_safety::pipeline::CommitOutcome;
use bardo_safety::proposal::Proposal;

/// Definition of the `rebalance_position` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<RebalancePosition>();

/// Parameters of `rebalance_position`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Number of the position's token, such as "42" of V3 or "v4:42".
    position_id: String,
    /// Chain name, alias or decimal id.
    chain: String,
    /// Lower price of the new range: one whole token0 in whole tokens of token1. Without any range, the new one is as wide as
    /// the present one, around the pool's price.
    #[serde(default)]
    price_lower: Option<String>,
    /// Upper price of the new range.
    #[serde(default)]
    price_upper: Option<String>,
    /// Lower tick of the new range, instead of prices.
    #[serde(default)]
    tick_lower: Option<i32>,
    /// Upper tick of the new range, instead of prices.
    #[serde(default)]
    tick_upper: Option<i32>,
    /// Distance of both ends of the new range from the pool's price in percent, instead of prices.
    #[serde(default)]
    width_pct: Option<String>,
    /// Slippage tolerance of each step in basis points.
    #[serde(default)]
    slippage_bps: Option<u32>,
}

/// Implementation of `rebalance_position`; see [`TOOL_DEF`].
pub struct RebalancePosition;

impl WriteTool for RebalancePosition {
    const META: ToolMeta = ToolMeta {
        name: "rebalance_position",
        description: "Moves one of the wallet's Uniswap V3 or V4 liquidity positions to a new range in the same pool: closes \
                      it with its fees, swaps what the new range does not take, and opens a new position with what came out, \
                      never with more. Each step is checked, simulated and, where the policy requires it, approved on its \
                      own; the preview covers the first. If a step fails, those before it stand, and the result says what \
                      is where and which call goes on. The policy's min_rebalance_benefit_usd and require_rebalance_check \
                      decide whether it begins, by compute_rebalance_candidate over 24 hours.",
        category: Category::Lp,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer3,
        tick_budget: TickBudget::Slow,
        progress_steps: &[
            "Reading position",
            "Reading swaps",
            "Quoting the swap",
            "Simulating via Revm",
            "Signing transaction",
            "Broadcasting",
            "Confirming receipt",
            "Swapping the rest",
            "Opening the new position",
        ],
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Moves a liquidity position to a new range, if the expected benefit reaches the policy's minimum.",
        prompt_guidelines: Guidelines {
            thriving: "Move a position that has left its range once compute_rebalance_candidate shows a clear benefit.",
            cautious: "Move rarely, and to wider ranges; each move pays gas and the swap.",
            declining: "Not possible: it ends with a new position. Close the position instead.",
            terminal: "Not allowed; close the position.",
            memory: None,
        },
        idempotent: false,
        action_class: ActionClass::Rebalance,
        checks: exits::CHECKS,
        event_params: &["position_id", "chain", "width_pct"],
        summary_fields: &["state", "old_position_id", "position_id"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;
    type Plan = MovePlan;

    fn example() -> Value {
        json!({"position_id": "1", "width_pct": "10", "chain": "ethereum"})
    }

    async fn prepare(context: &CallContext, params: Params) -> Result<(Proposal, MovePlan), ToolError> {
        let chain = context.world.chain(&params.chain)?;
        refuse_paper(context)?;
        let prices = [params.price_lower, params.price_upper];
        let wish = RangeWish::if_named(prices, [params.tick_lower, params.tick_upper], params.width_pct)?;
        let ground = candidate::ground(context, chain, &params.position_id, None, wish.as_ref()).await?;
        moves::prepare(context, chain, ground, params.slippage_bps).await
    }

    async fn carry_on(
        context: &CallContext,
        steps: &StepCaller,
        plan: &mut MovePlan,
        committed: &CommitOutcome,
    ) -> Result<(), StepFailure> {
        moves::carry_on(context, steps, plan, committed).await
    }

    fn output(
        context: &CallContext,
        plan: MovePlan,
        committed: &CommitOutcome,
    ) -> Result<ToolReply<Output>, ToolError> {
        moves::output(context, plan, committed)
    }
}
