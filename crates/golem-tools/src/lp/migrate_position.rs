//! `migrate_position`: moves a liquidity position to another pool of its tokens; see [`super::moves`].

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::deposits::refuse_paper;
use super::moves::{self, MovePlan, Output};
use super::named_pool::NamedPool;
use super::range::RangeWish;
use super::{candidate, exits};
use crate::engine::{CallContext, StepCaller, StepFailure, ToolDef, ToolReply, WriteTool};
use crate::shared::invalid;
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_safety::pipeline::CommitOutcome;
use bardo_safety::proposal::Proposal;

/// Definition of the `migrate_position` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<MigratePosition>();

/// Parameters of `migrate_position`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Number of the position's token, such as "42" of V3 or "v4:42".
    position_id: String,
    /// Chain name, alias or decimal id.
    chain: String,
    /// Fee of the new pool in hundredths of a basis point: 100, 500, 3000 or 10000. Needed unless `pool_id` names the pool.
    #[serde(default)]
    fee_tier: Option<u32>,
    /// Uniswap version of the new pool: "v3" or "v4". Of V3 if absent.
    #[serde(default)]
    version: Option<String>,
    /// Id of a V4 pool, as 64 hexadecimal digits with 0x before them, instead of fee and version.
    #[serde(default)]
    pool_id: Option<String>,
    /// Lower price of the new range: one whole token0 in whole tokens of token1. Without any range, the present one is kept,
    /// rounded outward to the new pool's ticks.
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

/// Implementation of `migrate_position`; see [`TOOL_DEF`].
pub struct MigratePosition;

impl WriteTool for MigratePosition {
    const META: ToolMeta = ToolMeta {
        name: "migrate_position",
        description: "Moves one of the wallet's Uniswap liquidity positions to another pool of the same two tokens, from V3 \
                      to V4, back, or to another fee: closes it with its fees, swaps what the new range does not take, and \
                      opens a new position with what came out, never with more. Pools with a hook are no targets. Each step \
                      is checked, simulated and, where the policy requires it, approved on its own; the preview covers the \
                      first. If a step fails, those before it stand, and the result says what is where and which call goes \
                      on. The policy's min_rebalance_benefit_usd and require_rebalance_check decide whether it begins, by \
                      the swaps of the new pool in 24 hours.",
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
        prompt_snippet: "Moves a liquidity position to another pool of its tokens, such as V4's or one with another fee.",
        prompt_guidelines: Guidelines {
            thriving: "Migrate where list_pools shows clearly more fees for the liquidity of the other pool.",
            cautious: "Migrate rarely; each move pays gas and the swap, and a shallow pool moves with every trade.",
            declining: "Not possible: it ends with a new position. Close the position instead.",
            terminal: "Not allowed; close the position.",
            memory: None,
        },
        idempotent: false,
        action_class: ActionClass::Rebalance,
        checks: exits::CHECKS,
        event_params: &["position_id", "chain", "fee_tier", "version"],
        summary_fields: &["state", "old_position_id", "position_id"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;
    type Plan = MovePlan;

    fn example() -> Value {
        json!({"position_id": "1", "fee_tier": 500, "version": "v3", "chain": "ethereum"})
    }

    async fn prepare(context: &CallContext, params: Params) -> Result<(Proposal, MovePlan), ToolError> {
        let chain = context.world.chain(&params.chain)?;
        refuse_paper(context)?;
        let prices = [params.price_lower, params.price_upper];
        let wish = RangeWish::if_named(prices, [params.tick_lower, params.tick_upper], params.width_pct)?;
        let named = NamedPool::of(params.version.as_deref(), params.fee_tier, params.pool_id.as_deref())?;
        let ground = candidate::ground(context, chain, &params.position_id, Some(named), wish.as_ref()).await?;
        if !ground.leaves_pool() {
            let what = "the position is in that pool already; rebalance_position changes its range";
            return Err(invalid(named.parameter(), &what));
        }
        if ground.has_hook() {
            return Err(invalid(
                named.parameter(),
                &"the pool has a hook; a position is migrated to pools without one",
            ));
        }
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
