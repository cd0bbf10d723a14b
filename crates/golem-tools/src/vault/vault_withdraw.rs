//! `vault_withdraw`: redeems shares of a vault for its token.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::actions::{self, Output, VaultActionPlan};
use crate::engine::{CallContext, ToolDef, ToolReply, WriteTool};
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_safety::pipeline::CommitOutcome;
use bardo_safety::proposal::Proposal;

/// Definition of the `vault_withdraw` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<VaultWithdraw>();

/// Parameters of `vault_withdraw`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Address of the vault; defaults to the one in the address book, which the devnet has.
    #[serde(default)]
    vault_address: Option<String>,
    /// Shares in whole shares, such as "25"; "max" is all that the vault lets go.
    shares: String,
    /// Chain name, alias or decimal id.
    chain: String,
}

/// Implementation of `vault_withdraw`; see [`TOOL_DEF`].
pub struct VaultWithdraw;

impl WriteTool for VaultWithdraw {
    const META: ToolMeta = ToolMeta {
        name: "vault_withdraw",
        description: "Redeems shares of an ERC-4626 vault for its token; \"max\" redeems all that the vault lets go. What must \
                      at least come in is bound by the simulation before every signature. With an asynchronous vault \
                      (ERC-7540) it is a request, reported as partial: the vault's manager settles it at a price that is not \
                      known before, then vault_claim claims the token. It spends nothing and passes in \
                      every phase that lets positions be closed. A vault that is not in the policy's allowed_vaults needs \
                      approval.",
        category: Category::Vault,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer2,
        tick_budget: TickBudget::Medium,
        progress_steps: actions::STEPS,
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Withdraws from a vault: redeems shares for its token.",
        prompt_guidelines: Guidelines {
            thriving: "Withdraw before a trade that needs the token.",
            cautious: "Withdraw where a finding is named, or where the share price falls.",
            declining: "Withdraw everything with \"max\".",
            terminal: "Withdraw everything with \"max\" before holdings are sold.",
            memory: None,
        },
        idempotent: false,
        action_class: ActionClass::ClosePosition,
        checks: actions::CHECKS,
        event_params: &["vault_address", "shares", "chain"],
        summary_fields: &["tx_hash", "amount", "shares"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;
    type Plan = VaultActionPlan;

    fn example() -> Value {
        json!({"shares": "max", "chain": "ethereum"})
    }

    async fn prepare(context: &CallContext, params: Params) -> Result<(Proposal, VaultActionPlan), ToolError> {
        actions::withdraw(context, (&params.chain, params.vault_address.as_deref(), &params.shares)).await
    }

    fn output(
        context: &CallContext,
        plan: VaultActionPlan,
        committed: &CommitOutcome,
    ) -> Result<ToolReply<Output>, ToolError> {
        actions::output(context, plan, committed)
    }
}
