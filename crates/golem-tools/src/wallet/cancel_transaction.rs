//! `cancel_transaction`: uses the nonce of a waiting transaction for a transfer of nothing to the account itself.

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

/// Definition of the `cancel_transaction` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<CancelTransaction>();

/// Parameters of `cancel_transaction`.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Hash of the waiting transaction: 0x and 64 hexadecimal digits.
    pub transaction: String,
}

/// Implementation of `cancel_transaction`; see [`TOOL_DEF`].
pub struct CancelTransaction;

impl WriteTool for CancelTransaction {
    const META: ToolMeta = ToolMeta {
        name: "cancel_transaction",
        description: "Cancels a waiting transaction of the account: a transfer of 0 wei to the account itself takes its \
                      nonce, with both fees at least an eighth higher. Only one of the two can be included: if the \
                      original is first, it happens and the cancellation does not. Always asks the operator. Allowed \
                      in every phase and under every stop that still permits cancellations.",
        category: Category::Wallet,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer2,
        tick_budget: TickBudget::Slow,
        progress_steps: STEPS,
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Cancels a waiting transaction, if it is not included first. The operator decides.",
        prompt_guidelines: Guidelines {
            thriving: "Ask for it only if the transaction is no longer wanted.",
            cautious: "Ask for it only if the transaction is no longer wanted.",
            declining: "Ask for it for every waiting transaction that is not an exit.",
            terminal: "Ask for it for every waiting transaction that is not an exit.",
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
        Replacement::propose(context, &params.transaction, ProposalIntent::CancelTransaction)
    }

    fn output(
        context: &CallContext,
        replacement: Replacement,
        committed: &CommitOutcome,
    ) -> Result<ToolReply<ReplacementOutput>, ToolError> {
        replacement.reply(context, committed)
    }
}
