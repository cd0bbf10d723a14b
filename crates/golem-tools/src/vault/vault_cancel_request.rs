//! `vault_cancel_request`: takes a request to deposit to an asynchronous vault back.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::actions::{self, Output, VaultActionPlan};
use super::requests;
use crate::engine::{CallContext, ToolDef, ToolReply, WriteTool};
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_safety::pipeline::CommitOutcome;
use bardo_safety::proposal::Proposal;

/// Definition of the `vault_cancel_request` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<VaultCancelRequest>();

/// Parameters of `vault_cancel_request`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Address of the asynchronous vault.
    vault_address: String,
    /// Chain name, alias or decimal id.
    chain: String,
}

/// Implementation of `vault_cancel_request`; see [`TOOL_DEF`].
pub struct VaultCancelRequest;

impl WriteTool for VaultCancelRequest {
    const META: ToolMeta = ToolMeta {
        name: "vault_cancel_request",
        description: "Takes the account's request to deposit to an asynchronous vault (ERC-7540, Lagoon's interface) back, all \
                      of it, before the vault's manager values it. After that the vault refuses: the request can only be \
                      settled and claimed. A request to withdraw cannot be cancelled.",
        category: Category::Vault,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer2,
        tick_budget: TickBudget::Medium,
        progress_steps: &[
            "Reading vault",
            "Simulating via Revm",
            "Signing transaction",
            "Broadcasting",
            "Confirming receipt",
        ],
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Cancels a vault deposit that is requested and not valued yet.",
        prompt_guidelines: Guidelines {
            thriving: "Cancel a request that waits for much longer than the vault usually takes.",
            cautious: "Cancel a request when the vault has a finding.",
            declining: "Cancel what is requested and not settled.",
            terminal: "Cancel every request before holdings are sold.",
            memory: None,
        },
        idempotent: false,
        action_class: ActionClass::ClosePosition,
        checks: actions::CHECKS,
        event_params: &["vault_address", "chain"],
        summary_fields: &["tx_hash", "amount"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;
    type Plan = VaultActionPlan;

    fn example() -> Value {
        json!({"vault_address": "0x0000000000000000000000000000000000000001", "chain": "ethereum"})
    }

    async fn prepare(context: &CallContext, params: Params) -> Result<(Proposal, VaultActionPlan), ToolError> {
        requests::cancel(context, (&params.chain, Some(&params.vault_address))).await
    }

    fn output(
        context: &CallContext,
        plan: VaultActionPlan,
        committed: &CommitOutcome,
    ) -> Result<ToolReply<Output>, ToolError> {
        actions::output(context, plan, committed)
    }
}
