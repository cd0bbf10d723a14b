//! `vault_claim`: claims what an asynchronous vault has settled.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::actions::{self, Output, VaultActionPlan};
use super::requests::{self, Claimed};
use crate::engine::{CallContext, ToolDef, ToolReply, WriteTool};
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_safety::pipeline::CommitOutcome;
use bardo_safety::proposal::Proposal;

/// Definition of the `vault_claim` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<VaultClaim>();

/// Request whose result is claimed.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Request {
    /// Shares of a request to deposit.
    Deposit,
    /// Tokens of a request to withdraw.
    Withdrawal,
}

/// Parameters of `vault_claim`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Address of the asynchronous vault.
    vault_address: String,
    /// Request whose result is claimed.
    request: Request,
    /// Chain name, alias or decimal id.
    chain: String,
}

/// Implementation of `vault_claim`; see [`TOOL_DEF`].
pub struct VaultClaim;

impl WriteTool for VaultClaim {
    const META: ToolMeta = ToolMeta {
        name: "vault_claim",
        description: "Claims what an asynchronous vault (ERC-7540) has settled for the account: the shares of a request to \
                      deposit, or the tokens of a request to withdraw. Nothing leaves the account but gas, and it passes in \
                      every phase. get_vault_state shows what can be claimed.",
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
        prompt_snippet: "Claims the settled result of a vault request.",
        prompt_guidelines: Guidelines {
            thriving: "Claim as soon as get_vault_state shows something claimable.",
            cautious: "Claim as soon as get_vault_state shows something claimable.",
            declining: "Claim shares so that you can request their withdrawal, and claim what was withdrawn.",
            terminal: "Claim everything before holdings are sold.",
            memory: None,
        },
        idempotent: false,
        action_class: ActionClass::ClosePosition,
        checks: actions::CHECKS,
        event_params: &["vault_address", "request", "chain"],
        summary_fields: &["tx_hash", "amount", "shares"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;
    type Plan = VaultActionPlan;

    fn example() -> Value {
        json!({"vault_address": "0x0000000000000000000000000000000000000001", "request": "deposit", "chain": "ethereum"})
    }

    async fn prepare(context: &CallContext, params: Params) -> Result<(Proposal, VaultActionPlan), ToolError> {
        let claimed = match params.request {
            Request::Deposit => Claimed::Shares,
            Request::Withdrawal => Claimed::Tokens,
        };
        requests::claim(context, (&params.chain, Some(&params.vault_address)), claimed).await
    }

    fn output(
        context: &CallContext,
        plan: VaultActionPlan,
        committed: &CommitOutcome,
    ) -> Result<ToolReply<Output>, ToolError> {
        actions::output(context, plan, committed)
    }
}
