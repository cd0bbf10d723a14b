//! `close_position`: withdraws a liquidity position as a whole and ends it.

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

/// Definition of the `close_position` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<ClosePosition>();

/// Parameters of `close_position`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Number of the position's token, such as "42" of V3 or "v4:42".
    position_id: String,
    /// Chain name, alias or decimal id.
    chain: String,
    /// Slippage tolerance in basis points, as a bound on the pool's price; the minimum amounts follow from it.
    #[serde(default)]
    slippage_bps: Option<u32>,
}

/// Implementation of `close_position`; see [`TOOL_DEF`].
pub struct ClosePosition;

impl WriteTool for ClosePosition {
    const META: ToolMeta = ToolMeta {
        name: "close_position",
        description: "Closes one of the wallet's Uniswap V3 or V4 liquidity positions in one transaction: withdraws all of its \
                      liquidity, collects its fees and burns its token. The least amounts follow from the slippage as a \
                      bound on the pool's price; both tokens go to the wallet, and wrapped ETH stays wrapped. Of V3 it \
                      reverts if anybody adds liquidity to the position just before; remove_liquidity with a share of 100 \
                      takes everything out in that case, too.",
        category: Category::Lp,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer2,
        tick_budget: TickBudget::Medium,
        progress_steps: exits::STEPS,
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Closes a liquidity position: withdraws everything, with its fees.",
        prompt_guidelines: Guidelines {
            thriving: "Close a position that no longer earns what it risks.",
            cautious: "Close positions outside their range first: they earn nothing.",
            declining: "Close positions, the largest first, then sell what is risky.",
            terminal: "Close every position, so that the owner receives its tokens.",
            memory: None,
        },
        idempotent: false,
        action_class: ActionClass::ClosePosition,
        checks: exits::CHECKS,
        event_params: &["position_id", "chain"],
        summary_fields: &["tx_hash", "amount0", "amount1"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;
    type Plan = ExitPlan;

    fn example() -> Value {
        json!({"position_id": "1", "chain": "ethereum"})
    }

    async fn prepare(context: &CallContext, params: Params) -> Result<(Proposal, ExitPlan), ToolError> {
        let exit = Exit::Whole(slippage(context, params.slippage_bps)?);
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
