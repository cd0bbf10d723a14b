//! `lending_withdraw`: withdraws a token from the lending market.

use serde_json::{Value, json};

use super::actions::{self, LendingKind, LendingPlan, Output, Params};
use crate::engine::{CallContext, ToolDef, ToolReply, WriteTool};
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, CardKind, Category, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_safety::pipeline::CommitOutcome;
use bardo_safety::proposal::Proposal;

/// Definition of the `lending_withdraw` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<LendingWithdraw>();

/// Implementation of `lending_withdraw`; see [`TOOL_DEF`].
pub struct LendingWithdraw;

impl WriteTool for LendingWithdraw {
    const META: ToolMeta = ToolMeta {
        name: "lending_withdraw",
        description: "Withdraws a token that the wallet supplied to Aave V3, with its interest; \"max\" withdraws all of it. A \
                      withdrawal that leaves a debt with less than the policy's minimum health factor, or while the market's \
                      prices differ from the price sources, is blocked.",
        category: Category::Trading,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer2,
        tick_budget: TickBudget::Medium,
        progress_steps: actions::STEPS,
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Withdraws a supply from Aave V3; a debt must keep its minimum health factor.",
        prompt_guidelines: Guidelines {
            thriving: "Withdraw before a trade that needs the token; check the health factor of a debt first.",
            cautious: "Keep the supplies that secure a debt; repay before you withdraw them.",
            declining: "Withdraw what secures no debt. Repay first, then withdraw the rest.",
            terminal: "Withdraw everything with \"max\" once the debts are repaid.",
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
        actions::prepare(context, &params, LendingKind::Withdraw).await
    }

    fn output(
        context: &CallContext,
        plan: LendingPlan,
        committed: &CommitOutcome,
    ) -> Result<ToolReply<Output>, ToolError> {
        actions::output(context, &plan, committed)
    }
}
