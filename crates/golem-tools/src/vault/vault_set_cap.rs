//! `vault_set_cap`: sets the most that a vault takes.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::manage::{self, ManagedCall, Output};
use crate::engine::{CallContext, ToolDef, ToolReply, WriteTool};
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_base::units::TokenAmount;
use bardo_safety::pipeline::CommitOutcome;
use bardo_safety::proposal::Proposal;
use golem_protocols::erc7540::manage::ManageCall;

/// Definition of the `vault_set_cap` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<VaultSetCap>();

/// Parameters of `vault_set_cap`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Address of a vault that the account manages.
    vault_address: String,
    /// Most that the vault takes in all, in whole tokens, such as "50000"; "0" takes nothing new.
    cap: String,
    /// Chain name, alias or decimal id.
    chain: String,
}

/// Implementation of `vault_set_cap`; see [`TOOL_DEF`].
pub struct VaultSetCap;

impl WriteTool for VaultSetCap {
    const META: ToolMeta = ToolMeta {
        name: "vault_set_cap",
        description: "Sets the most that an asynchronous vault (Lagoon's interface from 0.6.0) that the account \
                      manages takes in all. Requests above it are refused by the vault; what is there stays. The \
                      operator approves it.",
        category: Category::Vault,
        capability: CapabilityTier::Privileged,
        risk_tier: RiskTier::Layer3,
        tick_budget: TickBudget::Medium,
        progress_steps: manage::STEPS,
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Sets the cap of a managed vault.",
        prompt_guidelines: Guidelines {
            thriving: "Set a cap that the strategy can use.",
            cautious: "Lower the cap when the strategy earns less.",
            declining: "Not allowed; pause the vault instead.",
            terminal: "Not allowed; pause the vault instead.",
            memory: None,
        },
        idempotent: false,
        action_class: ActionClass::NewPosition,
        checks: super::actions::CHECKS,
        event_params: &["vault_address", "cap", "chain"],
        summary_fields: &["tx_hash", "vault_address"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;
    type Plan = ManagedCall;

    fn example() -> Value {
        json!({"vault_address": "0x0000000000000000000000000000000000000001", "cap": "50000", "chain": "ethereum"})
    }

    async fn prepare(context: &CallContext, params: Params) -> Result<(Proposal, ManagedCall), ToolError> {
        manage::refuse_paper(context)?;
        let (chain, account, vault, _) = manage::open(context, &params.chain, &params.vault_address).await?;
        let cap = TokenAmount::parse(&params.cap, vault.asset.decimals)?.raw();
        let (most, asset) = (vault.tokens(cap)?, vault.asset_name());
        let words =
            ["Set", "Have set"].map(|verb| format!("{verb} the cap of vault {} to {most} {asset}", vault.address));
        manage::quiet(context, (chain, account, vault), ManageCall::SetCap { cap }, words).await
    }

    fn output(
        context: &CallContext,
        plan: ManagedCall,
        committed: &CommitOutcome,
    ) -> Result<ToolReply<Output>, ToolError> {
        manage::output(context, plan, committed)
    }
}
