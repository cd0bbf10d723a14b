//! `vault_deploy`: deploys a vault that the account manages.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use alloy::primitives::{B256, keccak256};

use super::manage::{self, ManagedCall, Output};
use crate::engine::{CallContext, ToolDef, ToolReply, WriteTool};
use crate::shared::invalid;
use bardo_base::contracts::KnownContract;
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_safety::pipeline::CommitOutcome;
use bardo_safety::proposal::Proposal;
use golem_chain::token::TokenId;
use golem_protocols::erc7540::manage::{LONGEST, ManageCall, NewVault, is_plain};

/// Definition of the `vault_deploy` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<VaultDeploy>();

/// Parameters of `vault_deploy`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Token that the vault takes: symbol or 0x address.
    token: String,
    /// Name of the shares: up to 64 letters, digits and signs.
    name: String,
    /// Symbol of the shares: up to 16 letters, digits and signs.
    symbol: String,
    /// Chain name, alias or decimal id.
    chain: String,
}

/// Implementation of `vault_deploy`; see [`TOOL_DEF`].
pub struct VaultDeploy;

impl WriteTool for VaultDeploy {
    const META: ToolMeta = ToolMeta {
        name: "vault_deploy",
        description: "Deploys an asynchronous vault (ERC-7540) through the address book's factory of Lagoon's \
                      interface. The account is everything in one: owner, valuation manager, receiver of fees, and \
                      the Safe that holds what is deposited. There are no fees and no whitelist. Add the address \
                      to the policy's allowed_vaults to manage the vault without further questions. The operator \
                      approves it.",
        category: Category::Vault,
        capability: CapabilityTier::Privileged,
        risk_tier: RiskTier::Layer3,
        tick_budget: TickBudget::Medium,
        progress_steps: manage::STEPS,
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Deploys a vault that you manage.",
        prompt_guidelines: Guidelines {
            thriving: "Deploy a vault only for a strategy that is tried.",
            cautious: "Not the time for a new vault.",
            declining: "Not allowed.",
            terminal: "Not allowed.",
            memory: None,
        },
        idempotent: false,
        action_class: ActionClass::NewPosition,
        checks: super::actions::CHECKS,
        event_params: &["token", "name", "symbol", "chain"],
        summary_fields: &["tx_hash", "vault_address"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;
    type Plan = ManagedCall;

    fn example() -> Value {
        json!({"token": "USDC", "name": "My vault", "symbol": "mV", "chain": "ethereum"})
    }

    async fn prepare(context: &CallContext, params: Params) -> Result<(Proposal, ManagedCall), ToolError> {
        manage::refuse_paper(context)?;
        let chain = context.world.chain(&params.chain)?;
        let account = context.world.account(None)?;
        let factory = chain.contract(KnownContract::AsyncVaultFactory)?;
        let token = chain.token(&params.token).await?;
        let TokenId::Erc20(asset) = token.id else {
            return Err(invalid("token", &"a vault takes a token with a contract, not the native one"));
        };
        let fields = [("name", &params.name), ("symbol", &params.symbol)];
        for ((field, text), longest) in fields.into_iter().zip(LONGEST) {
            if !is_plain(text, longest) {
                let what = format_args!("it must be 1 to {longest} printable ASCII characters without quotation marks");
                return Err(invalid(field, &what));
            }
        }
        let sentence = format!("vault \"{}\" (\"{}\") of {}", params.name, params.symbol, token.symbol);
        // Another one for each call, so that two vaults of one name are two.
        let salt: B256 = keccak256(context.call_id().to_string());
        let new = NewVault { asset, name: params.name, symbol: params.symbol, salt };
        manage::deploy(context, chain, (account, factory), (ManageCall::Deploy(new), sentence)).await
    }

    fn output(
        context: &CallContext,
        plan: ManagedCall,
        committed: &CommitOutcome,
    ) -> Result<ToolReply<Output>, ToolError> {
        manage::output(context, plan, committed)
    }
}
