//! `vault_settle`: values and settles a vault that the account manages.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::earnings::Earnings;
use super::manage::{self, ManagedCall, Output};
use crate::engine::{CallContext, StepCaller, StepFailure, ToolDef, ToolReply, WriteTool};
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_base::units::TokenAmount;
use bardo_safety::pipeline::CommitOutcome;
use bardo_safety::proposal::Proposal;
use golem_protocols::erc7540::manage::ManageCall;

/// Definition of the `vault_settle` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<VaultSettle>();

/// Parameters of `vault_settle`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Address of a vault that the account manages.
    vault_address: String,
    /// Worth of the vault before the requests, in whole tokens; defaults to its last valuation with what the account's supply of the
    /// token to Aave has earned since. It cannot be more than the account holds of the token for this vault.
    #[serde(default)]
    new_total_assets: Option<String>,
    /// True to settle at a valuation that an earlier call has stated, without stating it again; defaults to false.
    #[serde(default)]
    is_valued: bool,
    /// Chain name, alias or decimal id.
    chain: String,
}

/// Implementation of `vault_settle`; see [`TOOL_DEF`].
pub struct VaultSettle;

impl WriteTool for VaultSettle {
    const META: ToolMeta = ToolMeta {
        name: "vault_settle",
        description: "Settles an asynchronous vault (ERC-7540, Lagoon's interface) that the account manages, in \
                      two transactions: the first states what the vault is worth, the second settles the requests \
                      made before that. Deposits come to the account, which is the vault's Safe, and withdrawals \
                      are paid by it, by an exact allowance. A valuation above what the Safe holds is blocked; one \
                      below the last, more than 1 % above it, or higher than interest explains needs approval.",
        category: Category::Vault,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer3,
        tick_budget: TickBudget::Medium,
        progress_steps: manage::STEPS,
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Values a managed vault and settles its requests.",
        prompt_guidelines: Guidelines {
            thriving: "Settle regularly at what the vault is really worth.",
            cautious: "Settle at what the vault is really worth; the depositors rely on it.",
            declining: "Settle what is requested, so that everybody can leave.",
            terminal: "Settle what is requested before holdings are sold.",
            memory: None,
        },
        idempotent: false,
        action_class: ActionClass::ClosePosition,
        checks: super::actions::CHECKS,
        event_params: &["vault_address", "new_total_assets", "chain"],
        summary_fields: &["tx_hash", "total_assets", "deposits_settled", "withdrawals_settled"],
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
        let total = match &params.new_total_assets {
            Some(text) => TokenAmount::parse(text, vault.asset.decimals)?.raw(),
            None => Earnings::read(&context.world, chain, &vault, account).await?.worth(&vault),
        };
        if params.is_valued {
            return manage::settle(context, (chain, account, vault), total).await;
        }
        let (worth, asset) = (vault.tokens(total)?, vault.asset_name());
        let what = format!("vault {} at {worth} {asset}", vault.address);
        let words = [format!("Value {what}, and settle its requests then"), format!("Valued {what}")];
        manage::quiet(context, (chain, account, vault), ManageCall::Value { total }, words).await
    }

    async fn carry_on(
        _context: &CallContext,
        steps: &StepCaller,
        plan: &mut ManagedCall,
        committed: &CommitOutcome,
    ) -> Result<(), StepFailure> {
        let _valued = committed;
        manage::settle_next(steps, plan).await
    }

    fn output(
        context: &CallContext,
        plan: ManagedCall,
        committed: &CommitOutcome,
    ) -> Result<ToolReply<Output>, ToolError> {
        manage::output(context, plan, committed)
    }
}
