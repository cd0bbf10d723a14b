//! `wrap_native`: exchanges the native token for its wrapped form, unit for unit.

use serde_json::{Value, json};

use super::wrapping::{self, Direction, Output, Params, WrappingPlan};
use crate::engine::{CallContext, ToolDef, ToolReply, WriteTool};
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_safety::pipeline::CommitOutcome;
use bardo_safety::proposal::Proposal;

/// Definition of the `wrap_native` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<WrapNative>();

/// Implementation of `wrap_native`; see [`TOOL_DEF`].
pub struct WrapNative;

impl WriteTool for WrapNative {
    const META: ToolMeta = ToolMeta {
        name: "wrap_native",
        description: "Exchanges the native token for its wrapped form (ETH for WETH), unit for unit, in the wrapping \
                      contract of the address book. Only its gas counts as spent. Earlier allowances of the wrapped \
                      token can take what is wrapped, so it needs the approval that spending as much would need. It \
                      leaves native tokens for gas, and phases for exits only refuse it.",
        category: Category::Trading,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer2,
        tick_budget: TickBudget::Medium,
        progress_steps: wrapping::STEPS,
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Wraps ETH as WETH, one for one. Swaps accept ETH directly, so wrap only what must be an ERC-20 \
                         token, such as the input of an auction.",
        prompt_guidelines: Guidelines {
            thriving: "Wrap what an auction or an allowance needs, and keep ETH for gas.",
            cautious: "Wrap only the amount of the next action.",
            declining: "Not needed for exits; keep ETH for gas.",
            terminal: "Do not wrap: the owner receives ETH.",
            memory: None,
        },
        idempotent: false,
        action_class: ActionClass::ClosePosition,
        checks: wrapping::CHECKS,
        event_params: &["amount", "chain"],
        summary_fields: &["tx_hash", "amount", "received"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;
    type Plan = WrappingPlan;

    fn example() -> Value {
        json!({"amount": "0.5", "chain": "ethereum"})
    }

    async fn prepare(context: &CallContext, params: Params) -> Result<(Proposal, WrappingPlan), ToolError> {
        wrapping::prepare(context, &params, Direction::Wrap).await
    }

    fn output(
        context: &CallContext,
        plan: WrappingPlan,
        committed: &CommitOutcome,
    ) -> Result<ToolReply<Output>, ToolError> {
        wrapping::output(context, &plan, committed)
    }
}
