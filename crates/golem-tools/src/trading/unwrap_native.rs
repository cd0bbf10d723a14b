//! `unwrap_native`: exchanges the wrapped native token for the native token, unit for unit.

use serde_json::{Value, json};

use super::wrapping::{self, Direction, Output, Params, WrappingPlan};
use crate::engine::{CallContext, ToolDef, ToolReply, WriteTool};
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_safety::pipeline::CommitOutcome;
use bardo_safety::proposal::Proposal;

/// Definition of the `unwrap_native` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<UnwrapNative>();

/// Implementation of `unwrap_native`; see [`TOOL_DEF`].
pub struct UnwrapNative;

impl WriteTool for UnwrapNative {
    const META: ToolMeta = ToolMeta {
        name: "unwrap_native",
        description: "Exchanges the wrapped native token for the native token (WETH for ETH), unit for unit, in the \
                      wrapping contract of the address book. It changes no value, so it counts as gas only; every \
                      phase allows it, and so does every stop that lets exits pass.",
        category: Category::Trading,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer2,
        tick_budget: TickBudget::Medium,
        progress_steps: wrapping::STEPS,
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Unwraps WETH to ETH, one for one. Use it when the wallet runs out of ETH for gas.",
        prompt_guidelines: Guidelines {
            thriving: "Unwrap when ETH for gas runs low.",
            cautious: "Unwrap when ETH for gas runs low.",
            declining: "Unwrap enough ETH for the gas of the exits.",
            terminal: "Unwrap everything after the last exit.",
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
        wrapping::prepare(context, &params, Direction::Unwrap).await
    }

    fn output(
        context: &CallContext,
        plan: WrappingPlan,
        committed: &CommitOutcome,
    ) -> Result<ToolReply<Output>, ToolError> {
        wrapping::output(context, &plan, committed)
    }
}
