//! Shares of vaults that an account holds, as a part of its holdings: what a simulated redemption pays, at the prices of Bardo's
//! own sources.

use alloy::eips::BlockId;
use alloy::primitives::Address;
use schemars::JsonSchema;
use serde::Serialize;

use crate::engine::{CallContext, ConnectedChain, ToolEnvironment};
use bardo_abi::erc7540::LagoonVault;
use bardo_base::error::ToolError;
use bardo_base::units::{Rounding, TokenAmount, Usd};
use bardo_safety::vault_calls;
use golem_chain::multicall::CallBatch;
use golem_chain::network::KnownContract;
use golem_protocols::erc4626::holding::{
    DepositorsTokens, HeldShares, HoldingSources, VaultHolding, VaultQuestions, redeemed,
};

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
    /// Tokens that the account holds for the depositors as the vault's Safe, in whole tokens: the last valuation, and the interest
    /// that its supply to the lending market may have earned since. Absent unless the account manages the vault.
    owed: Option<String>,
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
    /// Value of what is owed; `None` if it has no price.
    #[serde(skip)]
    pub(crate) owed_value: Option<Usd>,
}

impl HeldVault {
    /// True if everything of it has a value. The shares of a Safe in its own vault can only be counted, not redeemed.
    pub(crate) fn is_counted(&self) -> bool {
        self.owed_value.is_some() && (self.value.is_some() && self.is_whole || self.owed.is_some())
    }
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
    let held = shares(world, chain, account, block).await?;
    let Some(sources) = HoldingSources::of(chain.client.agreed(), &chain.network().book).filter(|_| !held.is_empty())
    else {
        return Ok(Vec::new());
    };
    let fork = chain.fork(block).await?;
    Ok(redeemed(sources, &fork, account, held).await?)
}

/// Shares and roles of an account in the known vaults, without a simulation of what they pay.
async fn shares(
    world: &ToolEnvironment,
    chain: &ConnectedChain,
    account: Address,
    block: BlockId,
) -> Result<Vec<HeldShares>, ToolError> {
    let network = chain.network();
    let policy = world.policy();
    let rules = policy.as_ref().map(|policy| policy.rules());
    let vaults = vault_calls::known(network.chain_id, rules, &network.book);
    let multicall = network.book.contract(KnownContract::Multicall3);
    let Some(multicall) = multicall.filter(|_| !vaults.is_empty()) else { return Ok(Vec::new()) };
    let mut calls = CallBatch::default();
    let factory = network.book.contract(KnownContract::AsyncVaultFactory);
    let asked = VaultQuestions::push(&mut calls, (account, factory), &vaults);
    let answers = calls.send(chain.client.agreed(), multicall, block).await?;
    Ok(asked.take(&answers))
}

/// Tokens that `account` holds for the depositors of vaults that it manages, by one batch of calls and no simulation.
///
/// # Errors
/// The provider's error. Nobody knows then what belongs to others.
pub async fn held_for_others(
    world: &ToolEnvironment,
    chain: &ConnectedChain,
    account: Address,
) -> Result<Vec<DepositorsTokens>, ToolError> {
    let held = shares(world, chain, account, BlockId::latest()).await?;
    Ok(held.iter().filter_map(|one| one.held_for_others(account)).collect())
}

/// Vaults among the known ones that `account` owns and that are not paused: those that it can pause.
///
/// # Errors
/// The provider's error.
pub async fn to_pause(
    world: &ToolEnvironment,
    chain: &ConnectedChain,
    account: Address,
) -> Result<Vec<Address>, ToolError> {
    let network = chain.network();
    let policy = world.policy();
    let vaults = vault_calls::known(network.chain_id, policy.as_ref().map(|policy| policy.rules()), &network.book);
    let mut calls = CallBatch::default();
    let asked = vaults.into_iter().map(|vault| {
        let owner = calls.push(vault, &LagoonVault::ownerCall {});
        (vault, owner, calls.push(vault, &LagoonVault::pausedCall {}))
    });
    let asked: Vec<_> = asked.collect();
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    let answers = chain.ask(calls).await?;
    let own = asked
        .into_iter()
        .filter(|(_, owner, paused)| owner.take(&answers) == Some(account) && paused.take(&answers) == Some(false));
    Ok(own.map(|(vault, ..)| vault).collect())
}

async fn describe(chain: &ConnectedChain, one: &VaultHolding) -> Result<HeldVault, ToolError> {
    let listed = chain.network().book.token_at(one.asset);
    let pays = match (&one.pays, listed) {
        (Ok(pays), Some(token)) => Some(TokenAmount::new(*pays, token.decimals)?),
        (Ok(_) | Err(_), _) => None,
    };
    let price = match pays.is_some() || !one.owed.is_zero() {
        true => {
            let reports = chain.prices.prices(&[one.asset]).await;
            reports.first().and_then(|report| report.price.as_ref()).map(|price| price.usd)
        }
        false => None,
    };
    let value = pays.zip(price).and_then(|(pays, price)| Usd::value_of(pays, price, Rounding::Down).ok());
    let owed = match (one.owed.is_zero(), listed) {
        (false, Some(token)) => Some(TokenAmount::new(one.owed, token.decimals)?),
        (true | false, _) => None,
    };
    let owed_value = match one.owed.is_zero() {
        true => Some(Usd::ZERO),
        false => owed.zip(price).and_then(|(owed, price)| Usd::value_of(owed, price, Rounding::Up).ok()),
    };
    let shares = one.decimals.and_then(|decimals| TokenAmount::new(one.shares, decimals).ok());
    Ok(HeldVault {
        chain: chain.network().name.clone(),
        vault_address: one.vault.to_string(),
        asset: chain.network().book.symbol_at(one.asset),
        shares: shares.map(|shares| shares.to_string()),
        pays: pays.map(|pays| pays.to_string()),
        value_usd: value.map(|usd| usd.to_string()),
        owed: owed.map(|owed| owed.to_string()),
        is_whole: one.is_whole(),
        has_requests: one.requests.is_some_and(|requests| !requests.is_empty()),
        why: match &one.pays {
            Err(why) => Some(why.to_string()),
            Ok(_) if one.is_short() => {
                Some("it pays far less than the shares are worth by the vault's price".to_owned())
            }
            Ok(_) => one.only_claims.then(|| "only the vault itself says that the account is its Safe".to_owned()),
        },
        value,
        owed_value,
    })
}
