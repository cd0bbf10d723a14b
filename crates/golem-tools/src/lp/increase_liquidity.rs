//! `increase_liquidity`: adds to a liquidity position.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::deposits::{self, DepositPlan, Output, Source};
use crate::engine::{CallContext, ToolDef, ToolReply, WriteTool};
use crate::swap_query::slippage;
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_safety::pipeline::CommitOutcome;
use bardo_safety::proposal::Proposal;
use golem_protocols::uniswap::positions::PositionState;

/// Definition of the `increase_liquidity` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<IncreaseLiquidity>();

/// Parameters of `increase_liquidity`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Number of the position's token, such as "42" of V3 or "v4:42".
    position_id: String,
    /// Most of the pool's first token, in whole tokens, or "max". Without it, as much as the other amount needs.
    #[serde(default)]
    amount0: Option<String>,
    /// Most of the pool's second token, in whole tokens, or "max". Without it, as much as the other amount needs.
    #[serde(default)]
    amount1: Option<String>,
    /// Chain name, alias or decimal id.
    chain: String,
    /// Slippage tolerance in basis points, as a bound on the pool's price; the minimum amounts follow from it.
    #[serde(default)]
    slippage_bps: Option<u32>,
}

/// Implementation of `increase_liquidity`; see [`TOOL_DEF`].
pub struct IncreaseLiquidity;

impl WriteTool for IncreaseLiquidity {
    const META: ToolMeta = ToolMeta {
        name: "increase_liquidity",
        description: "Adds to one of the wallet's Uniswap V3 or V4 liquidity positions. Both tokens need a price feed, and \
                      the pool's price must agree with the feeds. The position manager is allowed exactly what is \
                      deposited, and the allowance is revoked. An addition in V4 pays out the fees owed as well. The hook of a \
                      V4 pool is evaluated first: a hostile one is refused, and any that takes part in what happens there \
                      needs approval. get_position names the pool's \
                      first and second token.",
        category: Category::Lp,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer3,
        tick_budget: TickBudget::Slow,
        progress_steps: super::exits::STEPS,
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Adds amounts of both tokens to a liquidity position.",
        prompt_guidelines: Guidelines {
            thriving: "Add to a position that is in its range and earns more than it loses.",
            cautious: "Add only to positions in the middle of their range.",
            declining: "Do not add; withdraw instead.",
            terminal: "Not allowed; close the position.",
            memory: None,
        },
        idempotent: false,
        action_class: ActionClass::IncreasePosition,
        checks: deposits::CHECKS,
        event_params: &["position_id", "amount0", "amount1", "chain"],
        summary_fields: &["tx_hash", "position_id", "amount0", "amount1"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;
    type Plan = DepositPlan;

    fn example() -> Value {
        json!({"position_id": "1", "amount0": "0.1", "chain": "ethereum"})
    }

    async fn prepare(context: &CallContext, params: Params) -> Result<(Proposal, DepositPlan), ToolError> {
        let slippage = slippage(context, params.slippage_bps)?;
        let wished = [params.amount0.as_deref(), params.amount1.as_deref()];
        let from = |_: &PositionState| Source::Wallet(wished, ["amount0", "amount1"]);
        deposits::into_position(context, (&params.position_id, &params.chain), from, slippage).await
    }

    fn output(
        context: &CallContext,
        plan: DepositPlan,
        committed: &CommitOutcome,
    ) -> Result<ToolReply<Output>, ToolError> {
        deposits::output(context, plan, committed)
    }
}
