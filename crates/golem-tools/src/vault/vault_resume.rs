//! `vault_resume`: ends the pause of a vault that the account manages.

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

/// Definition of the `vault_resume` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<VaultResume>();

/// Parameters of `vault_resume`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Address of a vault that the account manages.
    vault_address: String,
    /// Chain name, alias or decimal id.
    chain: String,
}

/// Implementation of `vault_resume`; see [`TOOL_DEF`].
pub struct VaultResume;

impl WriteTool for VaultResume {
    const META: ToolMeta = ToolMeta {
        name: "vault_resume",
        description: "Ends the pause of an asynchronous vault (ERC-7540, Lagoon's interface) that the account \
                      manages. The operator approves it.",
        category: Category::Vault,
        capability: CapabilityTier::Privileged,
        risk_tier: RiskTier::Layer3,
        tick_budget: TickBudget::Medium,
        progress_steps: manage::STEPS,
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Resumes a managed vault after a pause.",
        prompt_guidelines: Guidelines {
            thriving: "Resume once the reason of the pause is gone.",
            cautious: "Resume only when the valuation is certain.",
            declining: "Not allowed.",
            terminal: "Not allowed.",
            memory: None,
        },
        idempotent: false,
        action_class: ActionClass::NewPosition,
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
        if !vault.is_paused {
            return Err(invalid("vault_address", &"the vault is not paused"));
        }
        let words = ["Resume", "Resumed"].map(|verb| format!("{verb} vault {}", vault.address));
        manage::quiet(context, (chain, account, vault), ManageCall::Resume, words).await
    }

    fn output(
        context: &CallContext,
        plan: ManagedCall,
        committed: &CommitOutcome,
    ) -> Result<ToolReply<Output>, ToolError> {
        manage::output(context, plan, committed)
    }
}
