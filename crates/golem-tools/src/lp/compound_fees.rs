//! `compound_fees`: collects the fees of a liquidity position and adds them to it.

use alloy::primitives::U256;
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

/// Definition of the `compound_fees` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<CompoundFees>();

/// Parameters of `compound_fees`.
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

/// Implementation of `compound_fees`; see [`TOOL_DEF`].
pub struct CompoundFees;

impl WriteTool for CompoundFees {
    const META: ToolMeta = ToolMeta {
        name: "compound_fees",
        description: "Collects the fees of one of the wallet's Uniswap V3 or V4 liquidity positions and adds as much of them to it \
                      as its range takes at the pool's price, in one transaction; the rest goes to the wallet. Nothing else \
                      leaves the wallet. The conditions of increase_liquidity apply.",
        category: Category::Lp,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer2,
        tick_budget: TickBudget::Slow,
        progress_steps: super::exits::STEPS,
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Adds the fees that a liquidity position has earned to it.",
        prompt_guidelines: Guidelines {
            thriving: "Compound when the fees are worth many times the gas, and the position stays in its range.",
            cautious: "Collect the fees instead, unless the position is in the middle of its range.",
            declining: "Do not compound; collect.",
            terminal: "Not allowed; close the position.",
            memory: None,
        },
        idempotent: false,
        action_class: ActionClass::IncreasePosition,
        checks: deposits::CHECKS,
        event_params: &["position_id", "chain"],
        summary_fields: &["tx_hash", "position_id", "amount0", "amount1"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;
    type Plan = DepositPlan;

    fn example() -> Value {
        json!({"position_id": "1", "chain": "ethereum"})
    }

    async fn prepare(context: &CallContext, params: Params) -> Result<(Proposal, DepositPlan), ToolError> {
        let slippage = slippage(context, params.slippage_bps)?;
        let from = |state: &PositionState| Source::Fees(state.owed.map(U256::from));
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
