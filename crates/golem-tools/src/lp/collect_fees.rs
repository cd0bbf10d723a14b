//! `collect_fees`: pays out what a liquidity position is owed.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::exits::{self, Exit, ExitPlan, Output};
use crate::engine::{CallContext, ToolDef, ToolReply, WriteTool};
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_safety::pipeline::CommitOutcome;
use bardo_safety::proposal::Proposal;

/// Definition of the `collect_fees` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<CollectFees>();

/// Parameters of `collect_fees`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Number of the position's token, such as "42" of V3 or "v4:42".
    position_id: String,
    /// Chain name, alias or decimal id.
    chain: String,
}

/// Implementation of `collect_fees`; see [`TOOL_DEF`].
pub struct CollectFees;

impl WriteTool for CollectFees {
    const META: ToolMeta = ToolMeta {
        name: "collect_fees",
        description: "Pays out the fees of one of the wallet's Uniswap V3 or V4 liquidity positions, and what was withdrawn from it \
                      before. The position stays as it is; both tokens go to the wallet, and wrapped ETH stays wrapped.",
        category: Category::Lp,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer2,
        tick_budget: TickBudget::Medium,
        progress_steps: exits::STEPS,
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Collects the fees of a liquidity position.",
        prompt_guidelines: Guidelines {
            thriving: "Collect when the fees are worth much more than the gas.",
            cautious: "Collect before you decide whether a position earns enough.",
            declining: "Closing a position collects its fees as well; do not pay gas twice.",
            terminal: "Not allowed; close the position, which collects them.",
            memory: None,
        },
        idempotent: false,
        action_class: ActionClass::DecreasePosition,
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
        exits::prepare(context, (&params.position_id, &params.chain), Exit::Fees).await
    }

    fn output(
        context: &CallContext,
        plan: ExitPlan,
        committed: &CommitOutcome,
    ) -> Result<ToolReply<Output>, ToolError> {
        exits::output(context, &plan, committed)
    }
}
