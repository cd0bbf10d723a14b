//! `vault_simulate_deposit`: simulates a deposit to a vault, and the withdrawal of its shares.

use alloy::primitives::{Address, U256};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Vault;
use super::finding::{VaultFinding, sentence};
use super::trial::Bench;
use crate::engine::{CallContext, ConnectedChain, ReadTool, ToolDef, ToolReply};
use crate::shared::{insufficient, invalid};
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_base::units::TokenAmount;
use golem_protocols::erc4626::call::VaultCall;
use golem_protocols::erc7540::math::{SHARE_DECIMALS, Valuation};

/// Definition of the `vault_simulate_deposit` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<VaultSimulateDeposit>();

/// Parameters of `vault_simulate_deposit`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Address of the vault; defaults to the one in the address book, which the devnet has.
    #[serde(default)]
    vault_address: Option<String>,
    /// Amount of the vault's token in whole tokens, such as "25". The wallet must hold it.
    amount: String,
    /// Chain name, alias or decimal id.
    chain: String,
}

/// Result of `vault_simulate_deposit`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Address of the vault.
    vault_address: String,
    /// Number of the block on whose state the deposit was simulated.
    block_number: u64,
    /// Symbol of the vault's token, as listed; otherwise its address.
    asset: String,
    /// Amount of the deposit in whole tokens.
    amount: String,
    /// Shares by the vault's preview in the same block, in whole shares; absent if the preview reverts.
    shares_previewed: Option<String>,
    /// Shares that the wallet received, by its balance, in whole shares; absent if the deposit fails.
    shares_received: Option<String>,
    /// Tokens that withdrawing these shares at once paid, or cancelling the request, in whole tokens; absent if that fails.
    returned: Option<String>,
    /// Shares that a request would bring at the vault's last valuation, in whole shares; only for an asynchronous vault. The price
    /// at its settlement is not known.
    shares_at_last_valuation: Option<String>,
    /// Gas of the allowance and the deposit or request, in gas units.
    gas_used: u64,
    /// Reasons for caution, also those about the vault itself.
    findings: Vec<VaultFinding>,
}

/// Implementation of `vault_simulate_deposit`; see [`TOOL_DEF`].
pub struct VaultSimulateDeposit;

impl ReadTool for VaultSimulateDeposit {
    const META: ToolMeta = ToolMeta {
        name: "vault_simulate_deposit",
        description: "Simulates a deposit to an ERC-4626 vault and the withdrawal of its shares, without sending anything, and \
                      compares both with the vault's preview, its limits and its past share prices. Names hidden fees, \
                      deposits that give no shares, previews that promise too much, and vaults that do not pay out. For an \
                      asynchronous vault (ERC-7540) it simulates the request and its cancellation: what the shares will cost \
                      is open until the vault's manager settles it.",
        category: Category::Vault,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Medium,
        progress_steps: &["Reading vault", "Reading past share prices", "Simulating via Revm"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "Simulates a vault deposit and its withdrawal; finds fees, traps and attacks.",
        prompt_guidelines: Guidelines {
            thriving: "Use it before you deposit, with the amount that you mean to deposit.",
            cautious: "Any finding is a reason not to deposit.",
            declining: "Not needed: new deposits are not allowed.",
            terminal: "Not needed: new deposits are not allowed.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &["vault_address", "amount", "chain"],
        summary_fields: &["shares_received", "returned"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({"amount": "500", "chain": "ethereum"})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        let chain = context.world.chain(&params.chain)?;
        let account = context.world.account(None)?;
        context.step("Reading vault");
        let vault = Vault::read(chain, params.vault_address.as_deref()).await?;
        let amount = TokenAmount::parse(&params.amount, vault.asset.decimals)?.raw();
        if amount.is_zero() {
            return Err(invalid("amount", &"it must be more than zero"));
        }
        let on_chain = crate::shared::balance(chain, account, &vault.asset).await?;
        let there = context.world.balance(chain.network().chain_id, account, vault.asset.id, on_chain)?;
        if there < amount {
            return Err(insufficient(&vault.asset, [amount, there, U256::ZERO])?);
        }
        let held = vault.account(chain, account).await?;
        if vault.asynchrony.deposits {
            return Box::pin(request(context, chain, (&vault, account), amount)).await;
        }
        context.step("Reading past share prices");
        let mut findings = vault.findings(&vault.past(chain).await)?;
        context.step("Simulating via Revm");
        let trial = Bench::open(context, chain, &vault, account).await?.deposit(amount, &held).await?;
        findings.extend(trial.findings);
        let (asset, text) = (vault.asset_name(), vault.tokens(amount)?);
        let shares = trial.shares.map(|raw| vault.shares(raw)).transpose()?;
        let returned = trial.returned.map(|raw| vault.tokens(raw)).transpose()?;
        let done = match (&shares, &returned) {
            (None, _) => format!("A deposit of {text} {asset} fails"),
            (Some(shares), None) => format!("{text} {asset} give {shares} shares, which pay nothing back"),
            (Some(shares), Some(back)) => {
                format!("{text} {asset} give {shares} shares, which would pay {back} {asset} back at once")
            }
        };
        let explanation = format!("{done}.{}", sentence(&findings));
        let output = Output {
            vault_address: vault.address.to_string(),
            block_number: vault.head.number,
            asset,
            amount: text,
            shares_previewed: trial.previewed.map(|raw| vault.shares(raw)).transpose()?,
            shares_received: shares,
            returned,
            shares_at_last_valuation: None,
            gas_used: trial.gas_used,
            findings,
        };
        Ok(ToolReply::new(output, explanation))
    }
}

/// Simulates a request to deposit to an asynchronous vault, and its cancellation.
async fn request(
    context: &CallContext,
    chain: &ConnectedChain,
    (vault, account): (&Vault, Address),
    amount: U256,
) -> Result<ToolReply<Output>, ToolError> {
    context.step("Reading past share prices");
    let mut findings = vault.findings(&vault.past(chain).await)?;
    findings.push(VaultFinding::SettledLater);
    context.step("Simulating via Revm");
    let bench = Bench::open(context, chain, vault, account).await?;
    let calls = [VaultCall::RequestDeposit { assets: amount }, VaultCall::CancelDeposit];
    let tried = bench.each(amount, &calls).await?;
    let (mut returned, mut gas_used) = (None, 0);
    if let [requested, cancelled] = tried.as_slice() {
        gas_used = requested.gas_used;
        match (&requested.refusal, &cancelled.refusal) {
            (Some(why), _) => findings.push(VaultFinding::DepositFails { why: why.clone() }),
            (None, Some(why)) => findings.push(VaultFinding::WithdrawalFails { why: why.clone() }),
            (None, None) => returned = Some(vault.tokens(cancelled.assets_in)?),
        }
        if requested.refusal.is_none() && requested.assets_out != amount {
            findings.push(VaultFinding::TakesOther { taken: vault.tokens(requested.assets_out)? });
        }
    }
    let (assets, shares, asset_decimals) = (vault.total_assets, vault.total_shares, vault.asset.decimals);
    let valued = Valuation { assets, shares, asset_decimals }.shares_for(amount);
    let valued = valued.filter(|_| vault.decimals == SHARE_DECIMALS).map(|raw| vault.shares(raw)).transpose()?;
    let (asset, text) = (vault.asset_name(), vault.tokens(amount)?);
    let done = match (&returned, &valued) {
        (None, _) => format!("A request to deposit {text} {asset} fails, or cannot be cancelled"),
        (Some(_), Some(shares)) => format!(
            "A request to deposit {text} {asset} is taken and can be cancelled; at the last valuation it would bring \
             {shares} shares"
        ),
        (Some(_), None) => format!("A request to deposit {text} {asset} is taken and can be cancelled"),
    };
    let explanation = format!("{done}.{}", sentence(&findings));
    let output = Output {
        vault_address: vault.address.to_string(),
        block_number: vault.head.number,
        asset,
        amount: text,
        shares_previewed: None,
        shares_received: None,
        returned,
        shares_at_last_valuation: valued,
        gas_used,
        findings,
    };
    Ok(ToolReply::new(output, explanation))
}
