//! Shares of vaults that an account holds, as a part of its holdings: what a simulated redemption pays, at the prices of Bardo's
//! own sources.

use alloy::eips::BlockId;
use alloy::primitives::Address;
use schemars::JsonSchema;
use serde::Serialize;

use crate::engine::{CallContext, ConnectedChain, ToolEnvironment};
use bardo_base::error::ToolError;
use bardo_base::units::{Rounding, TokenAmount, Usd};
use bardo_safety::vault_calls;
use golem_chain::multicall::CallBatch;
use golem_chain::network::KnownContract;
use golem_protocols::erc4626::holding::{VaultHolding, VaultQuestions, redeemed};

/// Shares of one vault.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct HeldVault {
    /// Name of the chain.
    chain: String,
    /// Address of the vault.
    vault_address: String,
    /// Symbol of the vault's token, as listed; otherwise its address.
    asset: String,
    /// Shares in whole shares; absent if the vault does not tell their decimals.
    shares: Option<String>,
    /// Tokens that redeeming them paid in a simulation, in whole tokens; absent if they cannot be redeemed, or if the token is not
    /// listed. Of an asynchronous vault, what all requests and shares would pay if the vault were settled at its last valuation.
    pays: Option<String>,
    /// Value of that in dollars; absent without a price.
    value_usd: Option<String>,
    /// True if the simulation redeemed all of the shares for about what they are worth by the vault's price, now and 100
    /// blocks ago; what the vault does not let go counts as nothing.
    #[serde(rename = "all_redeemed")]
    pub(crate) is_whole: bool,
    /// True if requests of the account wait in the vault: get_vault_state shows them.
    has_requests: bool,
    /// Reason why they cannot be redeemed, or are not for what they are worth; absent otherwise.
    why: Option<String>,
    #[serde(skip)]
    pub(crate) value: Option<Usd>,
}

/// Shares that `account` holds of the known vaults of a chain, on a block.
///
/// # Errors
/// The error of the simulation, or the provider's.
pub(crate) async fn held_vaults(
    context: &CallContext,
    chain: &ConnectedChain,
    account: Address,
    block: u64,
) -> Result<Vec<HeldVault>, ToolError> {
    let mut described = Vec::new();
    for one in read(&context.world, chain, account, BlockId::number(block)).await? {
        described.push(describe(chain, &one).await?);
    }
    Ok(described)
}

/// Shares that `account` holds of the known vaults of a chain, on a block: the address book's vault, and those that the policy names.
///
/// # Errors
/// The error of the simulation, or the provider's.
pub async fn read(
    world: &ToolEnvironment,
    chain: &ConnectedChain,
    account: Address,
    block: BlockId,
) -> Result<Vec<VaultHolding>, ToolError> {
    let network = chain.network();
    let policy = world.policy();
    let rules = policy.as_ref().map(|policy| policy.rules());
    let vaults = vault_calls::known(network.chain_id, rules, &network.book);
    let Some(multicall) = network.book.contract(KnownContract::Multicall3).filter(|_| !vaults.is_empty()) else {
        return Ok(Vec::new());
    };
    let mut calls = CallBatch::default();
    let asked = VaultQuestions::push(&mut calls, account, &vaults);
    let answers = calls.send(chain.client.agreed(), multicall, block).await?;
    let held = asked.take(&answers);
    if held.is_empty() {
        return Ok(Vec::new());
    }
    let fork = chain.fork(block).await?;
    Ok(redeemed((chain.client.agreed(), multicall), &fork, account, held).await?)
}

async fn describe(chain: &ConnectedChain, one: &VaultHolding) -> Result<HeldVault, ToolError> {
    let listed = chain.network().book.token_at(one.asset);
    let pays = match (&one.pays, listed) {
        (Ok(pays), Some(token)) => Some(TokenAmount::new(*pays, token.decimals)?),
        (Ok(_) | Err(_), _) => None,
    };
    let value = match pays {
        Some(pays) => {
            let reports = chain.prices.prices(&[one.asset]).await;
            let price = reports.first().and_then(|report| report.price.as_ref()).map(|price| price.usd);
            price.and_then(|price| Usd::value_of(pays, price, Rounding::Down).ok())
        }
        None => None,
    };
    let shares = one.decimals.and_then(|decimals| TokenAmount::new(one.shares, decimals).ok());
    Ok(HeldVault {
        chain: chain.network().name.clone(),
        vault_address: one.vault.to_string(),
        asset: chain.network().book.symbol_at(one.asset),
        shares: shares.map(|shares| shares.to_string()),
        pays: pays.map(|pays| pays.to_string()),
        value_usd: value.map(|usd| usd.to_string()),
        is_whole: one.is_whole(),
        has_requests: one.requests.is_some_and(|requests| !requests.is_empty()),
        why: match &one.pays {
            Err(why) => Some(why.to_string()),
            Ok(_) => {
                one.is_short().then(|| "it pays far less than the shares are worth by the vault's price".to_owned())
            }
        },
        value,
    })
}
