//! `lending_supply`: supplies a token to the lending market.

use serde_json::{Value, json};

use super::actions::{self, LendingKind, LendingPlan, Output, Params};
use crate::engine::{CallContext, ToolDef, ToolReply, WriteTool};
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, CardKind, Category, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_safety::pipeline::CommitOutcome;
use bardo_safety::proposal::Proposal;

/// Definition of the `lending_supply` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<LendingSupply>();

/// Implementation of `lending_supply`; see [`TOOL_DEF`].
pub struct LendingSupply;

impl WriteTool for LendingSupply {
    const META: ToolMeta = ToolMeta {
        name: "lending_supply",
        description: "Supplies a token to Aave V3, where it earns interest and secures debts. The allowance for it is exact and \
                      used up by the same plan. A supply counts as spending and, in the equity, as a holding.",
        category: Category::Trading,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer2,
        tick_budget: TickBudget::Medium,
        progress_steps: actions::STEPS,
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Supplies a token to Aave V3 to earn interest or to secure a debt.",
        prompt_guidelines: Guidelines {
            thriving: "Supply what no trade needs soon; compare the rate with the gas.",
            cautious: "Supply only what can be withdrawn at once: look at the utilization first.",
            declining: "Not allowed, except that the operator may supply more collateral for a debt.",
            terminal: "Not allowed; withdraw what is supplied.",
            memory: None,
        },
        idempotent: false,
        action_class: ActionClass::NewPosition,
        checks: actions::CHECKS,
        event_params: &["token", "amount", "chain"],
        summary_fields: &["tx_hash", "amount", "health_factor_after"],
        card: Some(CardKind::Lending),
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;
    type Plan = LendingPlan;

    fn example() -> Value {
        json!({"token": "USDC", "amount": "500", "chain": "ethereum"})
    }

    async fn prepare(context: &CallContext, params: Params) -> Result<(Proposal, LendingPlan), ToolError> {
        actions::prepare(context, &params, LendingKind::Supply).await
    }

    fn output(
        context: &CallContext,
        plan: LendingPlan,
        committed: &CommitOutcome,
    ) -> Result<ToolReply<Output>, ToolError> {
        actions::output(context, &plan, committed)
    }
}
