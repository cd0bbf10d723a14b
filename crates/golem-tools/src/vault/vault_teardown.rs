//! `vault_teardown`: ends a vault that the account manages, as far as its depositors let it.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::manage::{self, ManagedCall, Output};
use crate::engine::{CallContext, StepCaller, StepFailure, ToolDef, ToolReply, WriteTool};
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_safety::pipeline::CommitOutcome;
use bardo_safety::proposal::Proposal;
use bardo_session::envelope::CallStatus;
use golem_protocols::erc7540::manage::ManageCall;

/// Definition of the `vault_teardown` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<VaultTeardown>();

/// Parameters of `vault_teardown`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Address of a vault that the account manages.
    vault_address: String,
    /// Chain name, alias or decimal id.
    chain: String,
}

/// Implementation of `vault_teardown`; see [`TOOL_DEF`].
pub struct VaultTeardown;

impl WriteTool for VaultTeardown {
    const META: ToolMeta = ToolMeta {
        name: "vault_teardown",
        description: "Ends an asynchronous vault (ERC-7540, Lagoon's interface) that the account manages, in steps that are \
                      each a call of its own: a cap of zero, so that nothing new comes in; a withdrawal of what the account \
                      supplied to Aave of the vault's token; a settlement at the last valuation, which pays everybody who has \
                      asked to leave; and the revocation of the vault's allowance. The vault is not paused, so that what is \
                      settled can be claimed. Shares that nobody has asked to redeem stay, and the account owes for them. If \
                      a step fails, those before it stand, and the result says which is missing. The operator approves it.",
        category: Category::Vault,
        capability: CapabilityTier::Privileged,
        risk_tier: RiskTier::Layer3,
        tick_budget: TickBudget::Slow,
        progress_steps: manage::STEPS,
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Ends a managed vault: caps, unwinds, settles, revokes.",
        prompt_guidelines: Guidelines {
            thriving: "End a vault only when its depositors have left or know of it.",
            cautious: "End a vault whose strategy does not work any more.",
            declining: "Not possible as a whole; withdraw from Aave and settle one after the other.",
            terminal: "Not possible as a whole; withdraw from Aave and settle one after the other.",
            memory: None,
        },
        idempotent: false,
        action_class: ActionClass::NewPosition,
        checks: super::actions::CHECKS,
        event_params: &["vault_address", "chain"],
        summary_fields: &["tx_hash", "deposits_settled", "withdrawals_settled"],
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
        let left = vault.shares(vault.total_shares)?;
        let words = [
            format!("End vault {}: take nothing new, unwind, settle and revoke; {left} shares are out", vault.address),
            format!("Capped vault {} at zero", vault.address),
        ];
        manage::quiet(
            context,
            (chain, account, vault),
            ManageCall::SetCap { cap: alloy::primitives::U256::ZERO },
            words,
        )
        .await
    }

    async fn carry_on(
        context: &CallContext,
        steps: &StepCaller,
        plan: &mut ManagedCall,
        committed: &CommitOutcome,
    ) -> Result<(), StepFailure> {
        let _capped = committed;
        for (tool, params) in manage::teardown_steps(context, plan).await? {
            let failed = |status: CallStatus, error: ToolError| StepFailure { status, error };
            if let Err(error) = steps.may_begin() {
                plan.unfinished = Some(format!("{tool} and what follows it is missing: {}.", error.message()));
                return Err(failed(CallStatus::Error, error));
            }
            let response = steps.call(steps.new_call_id(), tool, params).await;
            if tool == "vault_settle" {
                plan.last.clone_from(&response.data);
            }
            if response.status != CallStatus::Success {
                let none = || ToolError::new(ErrorCode::ExecutionTxReverted, "the step did not succeed");
                let error = response.error.unwrap_or_else(none);
                plan.unfinished = Some(format!("{tool} and what follows it is missing: {}.", error.message()));
                return Err(failed(response.status, error));
            }
        }
        Ok(())
    }

    fn output(
        context: &CallContext,
        plan: ManagedCall,
        committed: &CommitOutcome,
    ) -> Result<ToolReply<Output>, ToolError> {
        manage::output(context, plan, committed)
    }
}
