//! `get_vault_state`: a vault of the ERC-4626 standard or an asynchronous one of ERC-7540, its share price now and at past blocks,
//! and an account's shares and requests.

use alloy::eips::BlockId;
use alloy::primitives::Address;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::engine::{CallContext, ConnectedChain, ReadTool, ToolDef, ToolReply};
use crate::vault::finding::{VaultFinding, sentence};
use crate::vault::{PastPrice, Vault, limit};
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use golem_chain::fork::SimulationOptions;
use golem_protocols::erc4626::holding::cancelled_after;
use golem_protocols::erc7540::requests::{Asynchrony, Requests};

/// Definition of the `get_vault_state` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<GetVaultState>();

/// Parameters of `get_vault_state`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Address of the vault; defaults to the one in the address book, which the devnet has.
    #[serde(default)]
    vault_address: Option<String>,
    /// Chain name, alias or decimal id.
    chain: String,
    /// Account whose shares are shown, as a 0x address; defaults to the wallet's account.
    #[serde(default)]
    account: Option<String>,
}

/// Result of `get_vault_state`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Address of the vault.
    vault_address: String,
    /// Name of the chain.
    chain: String,
    /// Number of the block that all figures are from.
    block_number: u64,
    /// True if several endpoints agree on the answers; false if they are those of one endpoint.
    agreed_by_endpoints: bool,
    /// Symbol of the token that the vault holds, as listed; otherwise its address.
    asset: String,
    /// Address of that token.
    asset_address: String,
    /// Decimals of the shares.
    share_decimals: u8,
    /// Tokens that the vault says it has, in whole tokens.
    total_assets: String,
    /// All shares, in whole shares.
    total_shares: String,
    /// Tokens for one whole share, by the vault's own conversion. Fees are not in it.
    share_price: String,
    /// Share price at past blocks, the newest first; blocks whose state no endpoint has are left out.
    past_share_prices: Vec<PastPrice>,
    /// Address of the account.
    account: String,
    /// Shares of the account, in whole shares.
    shares: String,
    /// Tokens that redeeming them would pay by the vault's preview, in whole tokens; absent if the vault refuses.
    redeems_for: Option<String>,
    /// Largest deposit that the vault takes from the account now, in whole tokens; absent without a limit.
    max_deposit: Option<String>,
    /// Most shares that the account may redeem now; absent without a limit.
    max_redeem: Option<String>,
    /// True if deposits or withdrawals are requests, which the vault's manager settles (ERC-7540). Then the largest deposit and
    /// the most shares to redeem are what can be claimed.
    is_asynchronous: bool,
    /// Requests of the account; absent without any.
    requests: Option<OpenRequests>,
    /// Reasons for caution.
    findings: Vec<VaultFinding>,
}

/// Requests of an account to an asynchronous vault.
#[derive(Debug, Serialize, JsonSchema)]
struct OpenRequests {
    /// Tokens of a request to deposit that is not settled, in whole tokens.
    pending_deposit: String,
    /// True if that request can still be cancelled, by a simulation; absent without such a request.
    cancellable: Option<bool>,
    /// Tokens of a settled request to deposit, whose shares can be claimed, in whole tokens.
    claimable_deposit: String,
    /// Shares of a request to withdraw that is not settled, in whole shares.
    pending_withdrawal: String,
    /// Shares of a settled request to withdraw, whose tokens can be claimed, in whole shares.
    claimable_withdrawal: String,
}

/// Implementation of `get_vault_state`; see [`TOOL_DEF`].
pub struct GetVaultState;

impl ReadTool for GetVaultState {
    const META: ToolMeta = ToolMeta {
        name: "get_vault_state",
        description: "Shows an ERC-4626 vault at one block: its token, what it holds, the share price now and at past blocks, \
                      the limits for deposits and withdrawals, and an account's shares with what they pay out; of an \
                      asynchronous vault (ERC-7540) also its open requests, what can be claimed, and whether a request that \
                      waits can still be cancelled. A sudden rise \
                      of the share price and a near-empty supply of shares are named, as in an inflation attack. The vault's \
                      code is not judged.",
        category: Category::Data,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Medium,
        progress_steps: &["Reading vault", "Reading past share prices", "Simulating via Revm"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "An ERC-4626 vault: share price now and before, limits, your shares.",
        prompt_guidelines: Guidelines {
            thriving: "Look at a vault's past share prices before anything else about it.",
            cautious: "Leave a vault alone that has a finding here.",
            declining: "Use it to see what your shares pay out now.",
            terminal: "Use it to see which shares are left to withdraw.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &["vault_address", "chain"],
        summary_fields: &["share_price", "redeems_for"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({"chain": "ethereum"})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        let chain = context.world.chain(&params.chain)?;
        let account = context.world.account(params.account.as_deref())?;
        context.step("Reading vault");
        let vault = Vault::read(chain, params.vault_address.as_deref()).await?;
        let held = vault.account(chain, account).await?;
        context.step("Reading past share prices");
        let past = vault.past(chain).await;
        let mut findings = vault.findings(&past)?;
        let requests = Box::pin(requests(context, chain, (&vault, account), &held.requests, &mut findings)).await?;
        let (asset, price) = (vault.asset_name(), vault.tokens(vault.unit_worth)?);
        let total = vault.tokens(vault.total_assets)?;
        let waits = requests.as_ref().map_or_else(String::new, |open| open.sentence(&asset));
        let explanation =
            format!("One share is {price} {asset}; the vault has {total} {asset}.{waits}{}", sentence(&findings));
        let output = Output {
            vault_address: vault.address.to_string(),
            chain: chain.network().name.clone(),
            block_number: vault.head.number,
            agreed_by_endpoints: chain.client.has_several_endpoints(),
            asset,
            asset_address: vault.asset_address.to_string(),
            share_decimals: vault.decimals,
            total_assets: total,
            total_shares: vault.shares(vault.total_shares)?,
            share_price: price,
            past_share_prices: past,
            account: account.to_string(),
            shares: vault.shares(held.shares)?,
            redeems_for: held.redeems_for.map(|raw| vault.tokens(raw)).transpose()?,
            max_deposit: limit(held.max_deposit, |raw| vault.tokens(raw))?,
            max_redeem: limit(held.max_redeem, |raw| vault.shares(raw))?,
            is_asynchronous: vault.asynchrony != Asynchrony::default(),
            requests,
            findings,
        };
        Ok(ToolReply::new(output, explanation))
    }
}

impl OpenRequests {
    /// Waiting requests, in one sentence for each kind.
    fn sentence(&self, asset: &str) -> String {
        let Self { pending_deposit, claimable_deposit, pending_withdrawal, claimable_withdrawal, .. } = self;
        let each = [
            (pending_deposit, format!(" A request to deposit {pending_deposit} {asset} is not settled.")),
            (claimable_deposit, format!(" The shares for {claimable_deposit} {asset} can be claimed.")),
            (pending_withdrawal, format!(" A request to withdraw {pending_withdrawal} shares is not settled.")),
            (claimable_withdrawal, format!(" The {asset} for {claimable_withdrawal} shares can be claimed.")),
        ];
        each.into_iter().filter(|(amount, _)| amount.as_str() != "0").map(|(_, sentence)| sentence).collect()
    }
}

/// Describes an account's requests; `None` without any. One that can no longer be cancelled is a finding.
async fn requests(
    context: &CallContext,
    chain: &ConnectedChain,
    (vault, account): (&Vault, Address),
    open: &Requests,
    findings: &mut Vec<VaultFinding>,
) -> Result<Option<OpenRequests>, ToolError> {
    if open.is_empty() {
        return Ok(None);
    }
    let mut cancellable = None;
    if !open.pending_assets.is_zero() {
        context.step("Simulating via Revm");
        let fork = chain.fork(BlockId::hash(vault.head.hash)).await?;
        let of = (vault.address, vault.asset_address, account);
        let back = cancelled_after(&fork, &[], &SimulationOptions::default(), of).await?;
        let is_back = back.is_ok_and(|back| back >= open.pending_assets);
        cancellable = Some(is_back);
        if !is_back {
            findings.push(VaultFinding::RequestStuck { amount: vault.tokens(open.pending_assets)? });
        }
    }
    Ok(Some(OpenRequests {
        pending_deposit: vault.tokens(open.pending_assets)?,
        cancellable,
        claimable_deposit: vault.tokens(open.claimable_assets)?,
        pending_withdrawal: vault.shares(open.pending_shares)?,
        claimable_withdrawal: vault.shares(open.claimable_shares)?,
    }))
}
