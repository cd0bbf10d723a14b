//! `vault_pause`: pauses a vault that the account manages.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::manage::{self, ManagedCall, Output};
use crate::engine::{CallContext, ToolDef, ToolReply, WriteTool};
use crate::shared::invalid;
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_safety::pipeline::CommitOutcome;
use bardo_safety::proposal::Proposal;
use golem_protocols::erc7540::manage::ManageCall;

/// Definition of the `vault_pause` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<VaultPause>();

/// Parameters of `vault_pause`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Address of a vault that the account manages.
    vault_address: String,
    /// Chain name, alias or decimal id.
    chain: String,
}

/// Implementation of `vault_pause`; see [`TOOL_DEF`].
pub struct VaultPause;

impl WriteTool for VaultPause {
    const META: ToolMeta = ToolMeta {
        name: "vault_pause",
        description: "Pauses an asynchronous vault (ERC-7540, Lagoon's interface) that the account manages: \
                      nothing is requested, settled, claimed or cancelled there until vault_resume. It moves \
                      nothing and passes in every phase; the operator approves it.",
        category: Category::Vault,
        capability: CapabilityTier::Privileged,
        risk_tier: RiskTier::Layer3,
        tick_budget: TickBudget::Medium,
        progress_steps: manage::STEPS,
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Pauses a managed vault.",
        prompt_guidelines: Guidelines {
            thriving: "Pause when a valuation would be wrong, or after a theft.",
            cautious: "Pause when the vault's own strategy is in doubt.",
            declining: "Pause so that nobody deposits any more.",
            terminal: "Pause before the end, after everything is settled.",
            memory: None,
        },
        idempotent: false,
        action_class: ActionClass::ClosePosition,
        checks: super::actions::CHECKS,
        event_params: &["vault_address", "chain"],
        summary_fields: &["tx_hash", "vault_address"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;
    type Plan = ManagedCall;

    fn example() -> Value {
        json!({"vault_address": "0x0000000000000000000000000000000000000001", "chain": "ethereum"})
    }

    async fn prepare(context: &CallContext, params: Params) -> Result<(Proposal, ManagedCall), ToolError> {
        manage::refuse_paper(context)?;
        let (chain, account, vault, _) = manage::open(context, &params.chain, &params.vault_address).await?;
        if vault.is_paused {
            return Err(invalid("vault_address", &"the vault is paused already"));
        }
        let words = ["Pause", "Paused"].map(|verb| format!("{verb} vault {}", vault.address));
        manage::quiet(context, (chain, account, vault), ManageCall::Pause, words).await
    }

    fn output(
        context: &CallContext,
        plan: ManagedCall,
        committed: &CommitOutcome,
    ) -> Result<ToolReply<Output>, ToolError> {
        manage::output(context, plan, committed)
    }
}
