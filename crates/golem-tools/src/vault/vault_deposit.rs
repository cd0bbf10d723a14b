//! `vault_deposit`: deposits a token to a vault.

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

/// Definition of the `vault_deposit` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<VaultDeposit>();

/// Parameters of `vault_deposit`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Address of the vault; defaults to the one in the address book, which the devnet has.
    #[serde(default)]
    vault_address: Option<String>,
    /// Amount of the vault's token in whole tokens, such as "25"; "max" is the whole balance.
    amount: String,
    /// Chain name, alias or decimal id.
    chain: String,
}

/// Implementation of `vault_deposit`; see [`TOOL_DEF`].
pub struct VaultDeposit;

impl WriteTool for VaultDeposit {
    const META: ToolMeta = ToolMeta {
        name: "vault_deposit",
        description: "Deposits a token to an ERC-4626 vault for shares of it. The deposit and the withdrawal of its shares are \
                      simulated before every signature: a vault that keeps more than the policy's loss limit, that does not \
                      pay out, or that has almost no shares is refused. With an asynchronous vault (ERC-7540) it is a request, \
                      reported as partial: the vault's manager settles it, then vault_claim claims the shares. Only a request \
                      that can be cancelled at once is signed. The vault must be the address book's or in the \
                      policy's allowed_vaults. The allowance is exact and used up by the same plan. A deposit counts as \
                      spending, and its shares in the equity at what they pay out.",
        category: Category::Vault,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer2,
        tick_budget: TickBudget::Medium,
        progress_steps: actions::STEPS,
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Deposits a token to a vault; hidden fees and traps are found by simulation first.",
        prompt_guidelines: Guidelines {
            thriving: "Look at get_vault_state and vault_simulate_deposit first; deposit what no trade needs soon.",
            cautious: "Deposit only what can be withdrawn at once, and nothing where a finding is named.",
            declining: "Not allowed; withdraw instead.",
            terminal: "Not allowed; withdraw what is deposited.",
            memory: None,
        },
        idempotent: false,
        action_class: ActionClass::NewPosition,
        checks: actions::CHECKS,
        event_params: &["vault_address", "amount", "chain"],
        summary_fields: &["tx_hash", "amount", "shares"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;
    type Plan = VaultActionPlan;

    fn example() -> Value {
        json!({"amount": "500", "chain": "ethereum"})
    }

    async fn prepare(context: &CallContext, params: Params) -> Result<(Proposal, VaultActionPlan), ToolError> {
        actions::deposit(context, (&params.chain, params.vault_address.as_deref(), &params.amount)).await
    }

    fn output(
        context: &CallContext,
        plan: VaultActionPlan,
        committed: &CommitOutcome,
    ) -> Result<ToolReply<Output>, ToolError> {
        actions::output(context, plan, committed)
    }
}
