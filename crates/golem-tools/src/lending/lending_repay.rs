//! `lending_repay`: repays a debt in the lending market.

use serde_json::{Value, json};

use super::actions::{self, LendingKind, LendingPlan, Output, Params};
use crate::engine::{CallContext, ToolDef, ToolReply, WriteTool};
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, CardKind, Category, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_safety::pipeline::CommitOutcome;
use bardo_safety::proposal::Proposal;

/// Definition of the `lending_repay` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<LendingRepay>();

/// Implementation of `lending_repay`; see [`TOOL_DEF`].
pub struct LendingRepay;

impl WriteTool for LendingRepay {
    const META: ToolMeta = ToolMeta {
        name: "lending_repay",
        description: "Repays a debt of the wallet in Aave V3; \"max\" repays all of it with the interest until its block, or as much \
                      as the wallet has. The allowance for it is exact, and what a full repayment does not use of it is revoked. \
                      Only its gas counts as spent: the debt falls by what is paid.",
        category: Category::Trading,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer2,
        tick_budget: TickBudget::Medium,
        progress_steps: actions::STEPS,
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Repays a debt in Aave V3, which raises the health factor.",
        prompt_guidelines: Guidelines {
            thriving: "Repay when the rate exceeds what the borrowed token earns.",
            cautious: "Repay a part as soon as the health factor nears the policy's minimum.",
            declining: "Repay first: a liquidation costs more than any sale.",
            terminal: "Repay everything with \"max\", then withdraw the supplies.",
            memory: None,
        },
        idempotent: false,
        action_class: ActionClass::ClosePosition,
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
        json!({"token": "USDC", "amount": "max", "chain": "ethereum"})
    }

    async fn prepare(context: &CallContext, params: Params) -> Result<(Proposal, LendingPlan), ToolError> {
        actions::prepare(context, &params, LendingKind::Repay).await
    }

    fn output(
        context: &CallContext,
        plan: LendingPlan,
        committed: &CommitOutcome,
    ) -> Result<ToolReply<Output>, ToolError> {
        actions::output(context, &plan, committed)
    }
}
