//! `vault_rebalance`: moves what a managed vault is worth between the account's wallet and the lending market.

use alloy::primitives::U256;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::earnings::Earnings;
use super::{Vault, manage};
use crate::engine::{CallContext, ToolDef, ToolReply, WriteTool};
use crate::lending::actions::{self as lending, LendingKind, LendingPlan, Output};
use crate::shared::invalid;
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_base::units::TokenAmount;
use bardo_safety::pipeline::CommitOutcome;
use bardo_safety::proposal::Proposal;

/// Definition of the `vault_rebalance` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<VaultRebalance>();

/// Direction of a move.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Direction {
    /// From the wallet to Aave, where it earns interest.
    Invest,
    /// From Aave to the wallet, from which withdrawals are settled.
    Withdraw,
}

/// Parameters of `vault_rebalance`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Address of a vault that the account manages.
    vault_address: String,
    /// Direction of the move.
    direction: Direction,
    /// Amount of the vault's token in whole tokens, such as "25"; "max" moves all of the vault's that is there.
    amount: String,
    /// Chain name, alias or decimal id.
    chain: String,
}

/// Amount to invest, in whole tokens: no more than the vault is worth without what is invested already. The interest on more than
/// that, the account's own money, would be counted as the vault's.
fn investment(vault: &Vault, supplied: U256, amount: &str) -> Result<String, ToolError> {
    let most = vault.total_assets.saturating_sub(supplied);
    let asked = match amount.trim() {
        text if text.eq_ignore_ascii_case("max") => most,
        text => TokenAmount::parse(text, vault.asset.decimals)?.raw(),
    };
    if asked.is_zero() || asked > most {
        let (worth, supplied) = (vault.tokens(vault.total_assets)?, vault.tokens(supplied)?);
        let what =
            format_args!("the vault is worth {worth}, of which {supplied} are invested; deposits count once settled");
        return Err(invalid("amount", &what));
    }
    vault.tokens(asked)
}

/// Implementation of `vault_rebalance`; see [`TOOL_DEF`].
pub struct VaultRebalance;

impl WriteTool for VaultRebalance {
    const META: ToolMeta = ToolMeta {
        name: "vault_rebalance",
        description: "Moves what an asynchronous vault (Lagoon's interface) that the account manages is worth between the \
                      account's wallet, which is the vault's Safe, and Aave V3: invested it earns interest, in the wallet it \
                      pays those who leave. It is a supply or a withdrawal with all checks of lending_supply and \
                      lending_withdraw. The vault is worth the same afterwards.",
        category: Category::Vault,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer2,
        tick_budget: TickBudget::Medium,
        progress_steps: lending::STEPS,
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Moves a managed vault's tokens between wallet and Aave.",
        prompt_guidelines: Guidelines {
            thriving: "Invest what no request to withdraw needs soon.",
            cautious: "Keep enough in the wallet to settle all requests to withdraw.",
            declining: "Withdraw; new supplies are not allowed.",
            terminal: "Withdraw everything with \"max\".",
            memory: None,
        },
        idempotent: false,
        action_class: ActionClass::NewPosition,
        checks: lending::CHECKS,
        event_params: &["vault_address", "direction", "amount", "chain"],
        summary_fields: &["tx_hash", "amount"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;
    type Plan = LendingPlan;

    fn example() -> Value {
        json!({
            "vault_address": "0x0000000000000000000000000000000000000001", "direction": "invest", "amount": "100",
            "chain": "ethereum",
        })
    }

    async fn prepare(context: &CallContext, params: Params) -> Result<(Proposal, LendingPlan), ToolError> {
        manage::refuse_paper(context)?;
        let (chain, account, vault, _) = manage::open(context, &params.chain, &params.vault_address).await?;
        let (kind, amount) = match params.direction {
            Direction::Invest => {
                let supplied = Earnings::read(&context.world, chain, &vault, account).await?.supplied;
                (LendingKind::Supply, investment(&vault, supplied, &params.amount)?)
            }
            Direction::Withdraw => (LendingKind::Withdraw, params.amount),
        };
        let asked = lending::Params::new(vault.asset_address.to_string(), amount, params.chain);
        lending::prepare(context, &asked, kind).await
    }

    fn output(
        context: &CallContext,
        plan: LendingPlan,
        committed: &CommitOutcome,
    ) -> Result<ToolReply<Output>, ToolError> {
        lending::output(context, &plan, committed)
    }
}
