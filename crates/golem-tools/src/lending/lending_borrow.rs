//! `lending_borrow`: borrows a token from the lending market.

use serde_json::{Value, json};

use super::actions::{self, LendingKind, LendingPlan, Output, Params};
use crate::engine::{CallContext, ToolDef, ToolReply, WriteTool};
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, CardKind, Category, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_safety::pipeline::CommitOutcome;
use bardo_safety::proposal::Proposal;

/// Definition of the `lending_borrow` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<LendingBorrow>();

/// Implementation of `lending_borrow`; see [`TOOL_DEF`].
pub struct LendingBorrow;

impl WriteTool for LendingBorrow {
    const META: ToolMeta = ToolMeta {
        name: "lending_borrow",
        description: "Borrows a token from Aave V3 at the variable rate against what the wallet supplied. The simulated state \
                      afterwards must keep the policy's minimum health factor, and the market's prices must be those of the price \
                      sources; otherwise it is blocked. It needs the approval that spending as much would need.",
        category: Category::Trading,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer2,
        tick_budget: TickBudget::Medium,
        progress_steps: actions::STEPS,
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Borrows from Aave V3 at the variable rate; read the health factor and the liquidation price first.",
        prompt_guidelines: Guidelines {
            thriving: "Borrow only what a price fall of a bad week leaves secured; keep the health factor well above the minimum.",
            cautious: "Do not add to a debt; repay a part when prices fall.",
            declining: "Not allowed; repay.",
            terminal: "Not allowed; repay.",
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
        json!({"token": "USDC", "amount": "250", "chain": "ethereum"})
    }

    async fn prepare(context: &CallContext, params: Params) -> Result<(Proposal, LendingPlan), ToolError> {
        actions::prepare(context, &params, LendingKind::Borrow).await
    }

    fn output(
        context: &CallContext,
        plan: LendingPlan,
        committed: &CommitOutcome,
    ) -> Result<ToolReply<Output>, ToolError> {
        actions::output(context, &plan, committed)
    }
}
