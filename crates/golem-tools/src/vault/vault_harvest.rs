//! `vault_harvest`: hands what a managed vault has earned in the lending market to its depositors, and withdraws it to the wallet.

use alloy::primitives::U256;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::earnings::Earnings;
use super::manage::{self, ManagedCall, Output};
use crate::engine::{CallContext, StepCaller, StepFailure, ToolDef, ToolReply, WriteTool};
use crate::shared::invalid;
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_safety::pipeline::CommitOutcome;
use bardo_safety::proposal::Proposal;
use golem_protocols::erc7540::manage::ManageCall;

/// Definition of the `vault_harvest` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<VaultHarvest>();

/// Parameters of `vault_harvest`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Address of a vault that the account manages.
    vault_address: String,
    /// Chain name, alias or decimal id.
    chain: String,
}

/// Values kept from preparation: the valuation, and the earnings in whole tokens.
pub struct HarvestPlan {
    manage: ManagedCall,
    earned: String,
}

/// Implementation of `vault_harvest`; see [`TOOL_DEF`].
pub struct VaultHarvest;

impl WriteTool for VaultHarvest {
    const META: ToolMeta = ToolMeta {
        name: "vault_harvest",
        description: "Hands what an asynchronous vault (Lagoon's interface) that the account manages has earned on Aave to its \
                      depositors, in steps that are each a call of their own: it values the vault at its last valuation and \
                      the interest since then, which Aave's own records give; settles at that, also the requests that wait; \
                      and withdraws the interest from Aave to the account's wallet. The interest is the depositors' before \
                      it moves. All checks of vault_settle and lending_withdraw hold.",
        category: Category::Vault,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer3,
        tick_budget: TickBudget::Slow,
        progress_steps: manage::STEPS,
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Settles a managed vault's interest and withdraws it from Aave.",
        prompt_guidelines: Guidelines {
            thriving: "Harvest when the interest is worth the gas.",
            cautious: "Harvest when the wallet needs it to settle requests to withdraw.",
            declining: "Withdraw all of it with vault_rebalance.",
            terminal: "Withdraw all of it with vault_rebalance.",
            memory: None,
        },
        idempotent: false,
        action_class: ActionClass::ClosePosition,
        checks: super::actions::CHECKS,
        event_params: &["vault_address", "chain"],
        summary_fields: &["tx_hash", "total_assets", "harvested"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;
    type Plan = HarvestPlan;

    fn example() -> Value {
        json!({"vault_address": "0x0000000000000000000000000000000000000001", "chain": "ethereum"})
    }

    async fn prepare(context: &CallContext, params: Params) -> Result<(Proposal, HarvestPlan), ToolError> {
        manage::refuse_paper(context)?;
        let (chain, account, vault, _) = manage::open(context, &params.chain, &params.vault_address).await?;
        let earnings = Earnings::read(&context.world, chain, &vault, account).await?;
        if earnings.earned.is_zero() || earnings.supplied.is_zero() {
            return Err(invalid("vault_address", &"nothing was earned on Aave since the vault's last valuation"));
        }
        if let Some(own) = earnings.own_supply(vault.total_assets) {
            let own = vault.tokens(own)?;
            let what = format_args!(
                "the account supplied {own} {} more to Aave than its vaults are worth, whose interest is not theirs: \
                 take it out with lending_withdraw first",
                vault.asset_name()
            );
            return Err(invalid("vault_address", &what));
        }
        let total: U256 = earnings.worth(&vault);
        let earned = vault.tokens(earnings.of_vault(vault.total_assets).min(earnings.supplied))?;
        let (worth, asset) = (vault.tokens(total)?, vault.asset_name());
        let what = format!("vault {} at {worth} {asset}, of which {earned} are new earnings", vault.address);
        let words = [format!("Value {what}, settle it and withdraw them from Aave then"), format!("Valued {what}")];
        let call = ManageCall::Value { total };
        let (proposal, manage) = manage::quiet(context, (chain, account, vault), call, words).await?;
        Ok((proposal, HarvestPlan { manage, earned }))
    }

    async fn carry_on(
        _context: &CallContext,
        steps: &StepCaller,
        plan: &mut HarvestPlan,
        committed: &CommitOutcome,
    ) -> Result<(), StepFailure> {
        let _valued = committed;
        manage::settle_next(steps, &mut plan.manage).await?;
        manage::withdraw_next(steps, &mut plan.manage, plan.earned.clone()).await
    }

    fn output(
        context: &CallContext,
        plan: HarvestPlan,
        committed: &CommitOutcome,
    ) -> Result<ToolReply<Output>, ToolError> {
        manage::output(context, plan.manage, committed)
    }
}
