//! `speed_up_transaction`: signs a waiting transaction again with the same nonce and call, and higher fees.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::replacement::{Replacement, ReplacementOutput, STEPS};
use crate::engine::{CallContext, ToolDef, ToolReply, WriteTool};
use crate::shared::CHECKS;
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_safety::pipeline::CommitOutcome;
use bardo_safety::proposal::{Proposal, ProposalIntent};

/// Definition of the `speed_up_transaction` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<SpeedUp>();

/// Parameters of `speed_up_transaction`.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Hash of the waiting transaction: 0x and 64 hexadecimal digits.
    pub transaction: String,
}

/// Implementation of `speed_up_transaction`; see [`TOOL_DEF`].
pub struct SpeedUp;

impl WriteTool for SpeedUp {
    const META: ToolMeta = ToolMeta {
        name: "speed_up_transaction",
        description: "Signs a waiting transaction of the account again: same nonce, same bytes, both fees at least an \
                      eighth higher. Only one of the two can be included. Always asks the operator, and shows what it \
                      may cost more.",
        category: Category::Wallet,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer2,
        tick_budget: TickBudget::Slow,
        progress_steps: STEPS,
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Raises the fees of a waiting transaction. The operator decides.",
        prompt_guidelines: Guidelines {
            thriving: "Wait: a transaction is replaced within its own bound without a call.",
            cautious: "Wait: a transaction is replaced within its own bound without a call.",
            declining: "Ask for it only if an exit waits for the base fee.",
            terminal: "Ask for it only if an exit waits for the base fee.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ClosePosition,
        checks: CHECKS,
        event_params: &["transaction"],
        summary_fields: &["status", "tx_hash"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = ReplacementOutput;
    type Plan = Replacement;

    fn example() -> Value {
        json!({"transaction": format!("0x{}", "00".repeat(32))})
    }

    async fn prepare(context: &CallContext, params: Params) -> Result<(Proposal, Replacement), ToolError> {
        Replacement::propose(context, &params.transaction, ProposalIntent::SpeedUp)
    }

    fn output(
        context: &CallContext,
        replacement: Replacement,
        committed: &CommitOutcome,
    ) -> Result<ToolReply<ReplacementOutput>, ToolError> {
        replacement.reply(context, committed)
    }
}
