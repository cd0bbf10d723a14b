//! `remove_liquidity`: withdraws a share of a liquidity position.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::exits::{self, Exit, ExitPlan, Output};
use crate::engine::{CallContext, ToolDef, ToolReply, WriteTool};
use crate::swap_query::slippage;
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_safety::pipeline::CommitOutcome;
use bardo_safety::proposal::Proposal;

/// Definition of the `remove_liquidity` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<RemoveLiquidity>();

/// Parameters of `remove_liquidity`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Number of the position's token, such as "42" of V3 or "v4:42".
    position_id: String,
    /// Share of the position's liquidity in percent, above 0 and up to 100.
    share_pct: String,
    /// Chain name, alias or decimal id.
    chain: String,
    /// Slippage tolerance in basis points, as a bound on the pool's price; the minimum amounts follow from it.
    #[serde(default)]
    slippage_bps: Option<u32>,
}

/// Implementation of `remove_liquidity`; see [`TOOL_DEF`].
pub struct RemoveLiquidity;

impl WriteTool for RemoveLiquidity {
    const META: ToolMeta = ToolMeta {
        name: "remove_liquidity",
        description: "Withdraws a share of one of the wallet's Uniswap V3 or V4 liquidity positions, and its fees. The least amounts \
                      follow from the slippage as a bound on the pool's price; both tokens go to the wallet, and \
                      wrapped ETH stays wrapped. The position stays, also without liquidity.",
        category: Category::Lp,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer2,
        tick_budget: TickBudget::Medium,
        progress_steps: exits::STEPS,
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Withdraws a share of a liquidity position, with its fees.",
        prompt_guidelines: Guidelines {
            thriving: "Reduce a position that has become too large a part of the holdings.",
            cautious: "Reduce positions whose tokens move most.",
            declining: "Prefer closing; withdraw a share where the whole would be too much at once.",
            terminal: "Not allowed; close the position.",
            memory: None,
        },
        idempotent: false,
        action_class: ActionClass::DecreasePosition,
        checks: exits::CHECKS,
        event_params: &["position_id", "share_pct", "chain"],
        summary_fields: &["tx_hash", "amount0", "amount1"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;
    type Plan = ExitPlan;

    fn example() -> Value {
        json!({"position_id": "1", "share_pct": "50", "chain": "ethereum"})
    }

    async fn prepare(context: &CallContext, params: Params) -> Result<(Proposal, ExitPlan), ToolError> {
        let exit = Exit::Part(exits::share(&params.share_pct)?, slippage(context, params.slippage_bps)?);
        exits::prepare(context, (&params.position_id, &params.chain), exit).await
    }

    fn output(
        context: &CallContext,
        plan: ExitPlan,
        committed: &CommitOutcome,
    ) -> Result<ToolReply<Output>, ToolError> {
        exits::output(context, &plan, committed)
    }
}
