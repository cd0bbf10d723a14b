//! `vault_simulate_withdraw`: simulates the withdrawal of shares from a vault.

use alloy::primitives::{Address, U256};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Vault;
use super::finding::{VaultFinding, sentence};
use super::trial::Bench;
use crate::engine::{CallContext, ConnectedChain, ReadTool, ToolDef, ToolReply};
use crate::shared::invalid;
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_base::units::TokenAmount;
use golem_protocols::erc4626::call::VaultCall;
use golem_protocols::erc7540::math::{SHARE_DECIMALS, Valuation};

/// Definition of the `vault_simulate_withdraw` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<VaultSimulateWithdraw>();

/// Parameters of `vault_simulate_withdraw`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Address of the vault; defaults to the one in the address book, which the devnet has.
    #[serde(default)]
    vault_address: Option<String>,
    /// Shares in whole shares, such as "25"; "max" is all of the account's.
    shares: String,
    /// Chain name, alias or decimal id.
    chain: String,
    /// Account whose shares are redeemed in the simulation, as a 0x address; defaults to the wallet's account.
    #[serde(default)]
    account: Option<String>,
}

/// Result of `vault_simulate_withdraw`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Address of the vault.
    vault_address: String,
    /// Number of the block on whose state the withdrawal was simulated.
    block_number: u64,
    /// Symbol of the vault's token, as listed; otherwise its address.
    asset: String,
    /// Shares that are redeemed, in whole shares.
    shares: String,
    /// Tokens by the vault's preview in the same block, in whole tokens; absent if the preview reverts.
    previewed: Option<String>,
    /// Tokens that the account received, by its balance, in whole tokens; absent if the withdrawal fails.
    received: Option<String>,
    /// Tokens that a request would bring at the vault's last valuation, in whole tokens; only for an asynchronous vault. The price
    /// at its settlement is not known, nor whether the vault can pay then.
    tokens_at_last_valuation: Option<String>,
    /// Gas of the withdrawal or request, in gas units.
    gas_used: u64,
    /// Reasons for caution, also those about the vault itself.
    findings: Vec<VaultFinding>,
}

/// Implementation of `vault_simulate_withdraw`; see [`TOOL_DEF`].
pub struct VaultSimulateWithdraw;

impl ReadTool for VaultSimulateWithdraw {
    const META: ToolMeta = ToolMeta {
        name: "vault_simulate_withdraw",
        description: "Simulates the withdrawal of shares from an ERC-4626 vault, without sending anything, and compares what \
                      arrives with the vault's preview, its limits and its past share prices. Names fees on exit that the \
                      preview hides, and vaults that do not pay out. For an asynchronous vault (ERC-7540) it simulates the \
                      request alone: what the shares pay is open until the vault's manager settles it.",
        category: Category::Vault,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Medium,
        progress_steps: &["Reading vault", "Reading past share prices", "Simulating via Revm"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "Simulates a vault withdrawal: what really arrives, and what is hidden.",
        prompt_guidelines: Guidelines {
            thriving: "Use it from time to time on vaults that you have shares of: can you still leave?",
            cautious: "A vault that does not pay out in the simulation is worth nothing until it does.",
            declining: "Use it to see what an exit pays.",
            terminal: "Use it to see what an exit pays.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &["vault_address", "shares", "chain"],
        summary_fields: &["received"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({"shares": "max", "chain": "ethereum"})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        let chain = context.world.chain(&params.chain)?;
        let account = context.world.account(params.account.as_deref())?;
        context.step("Reading vault");
        let vault = Vault::read(chain, params.vault_address.as_deref()).await?;
        let held = vault.account(chain, account).await?;
        let shares = match params.shares.trim() {
            "max" => held.shares,
            text => TokenAmount::parse(text, vault.decimals)?.raw(),
        };
        if shares.is_zero() || shares > held.shares {
            let what = format!("the account has {} shares", vault.shares(held.shares)?);
            return Err(invalid("shares", &what));
        }
        if vault.asynchrony.redemptions {
            return Box::pin(request(context, chain, (&vault, account), shares)).await;
        }
        context.step("Reading past share prices");
        let mut findings = vault.findings(&vault.past(chain).await)?;
        context.step("Simulating via Revm");
        let trial = Bench::open(context, chain, &vault, account).await?.withdraw(shares, &held).await?;
        findings.extend(trial.findings);
        let (asset, text) = (vault.asset_name(), vault.shares(shares)?);
        let received = trial.received.map(|raw| vault.tokens(raw)).transpose()?;
        let done = match &received {
            None => format!("A withdrawal of {text} shares fails"),
            Some(received) => format!("{text} shares pay {received} {asset}"),
        };
        let explanation = format!("{done}.{}", sentence(&findings));
        let output = Output {
            vault_address: vault.address.to_string(),
            block_number: vault.head.number,
            asset,
            shares: text,
            previewed: trial.previewed.map(|raw| vault.tokens(raw)).transpose()?,
            received,
            tokens_at_last_valuation: None,
            gas_used: trial.gas_used,
            findings,
        };
        Ok(ToolReply::new(output, explanation))
    }
}

/// Simulates a request to withdraw from an asynchronous vault.
async fn request(
    context: &CallContext,
    chain: &ConnectedChain,
    (vault, account): (&Vault, Address),
    shares: U256,
) -> Result<ToolReply<Output>, ToolError> {
    context.step("Reading past share prices");
    let mut findings = vault.findings(&vault.past(chain).await)?;
    findings.push(VaultFinding::SettledLater);
    context.step("Simulating via Revm");
    let bench = Bench::open(context, chain, vault, account).await?;
    let tried = bench.each(U256::ZERO, &[VaultCall::RequestRedeem { shares }]).await?;
    let gas_used = tried.iter().fold(0_u64, |sum, one| sum.saturating_add(one.gas_used));
    let refusal = tried.into_iter().find_map(|one| one.refusal);
    let (assets, supply, asset_decimals) = (vault.total_assets, vault.total_shares, vault.asset.decimals);
    let valued = Valuation { assets, shares: supply, asset_decimals }.assets_for(shares);
    let valued = valued.filter(|_| vault.decimals == SHARE_DECIMALS && refusal.is_none());
    let valued = valued.map(|raw| vault.tokens(raw)).transpose()?;
    let (asset, text) = (vault.asset_name(), vault.shares(shares)?);
    let done = match (&refusal, &valued) {
        (Some(_), _) => format!("A request to withdraw {text} shares fails"),
        (None, Some(tokens)) => {
            format!("A request to withdraw {text} shares is taken; at the last valuation they are {tokens} {asset}")
        }
        (None, None) => format!("A request to withdraw {text} shares is taken"),
    };
    findings.extend(refusal.map(|why| VaultFinding::WithdrawalFails { why }));
    let explanation = format!("{done}.{}", sentence(&findings));
    let output = Output {
        vault_address: vault.address.to_string(),
        block_number: vault.head.number,
        asset,
        shares: text,
        previewed: None,
        received: None,
        tokens_at_last_valuation: valued,
        gas_used,
        findings,
    };
    Ok(ToolReply::new(output, explanation))
}
