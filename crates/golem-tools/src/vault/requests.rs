//! Requests to asynchronous vaults (ERC-7540): deposits and withdrawals that the vault's manager settles, the claim of what was
//! settled, and the cancellation of a request to deposit.

use alloy::primitives::{Address, U256};

use super::actions::{VaultActionPlan, allowing, at_least, failed, main_leg, open, proposal, share};
use super::finding::{VaultFinding, sentence};
use super::trial::{Bench, CallTrial};
use super::{Vault, VaultAccount};
use crate::engine::{CallContext, ConnectedChain};
use crate::shared::invalid;
use bardo_base::error::ToolError;
use bardo_base::units::TokenAmount;
use bardo_safety::proposal::{Inflow, Outflow, Proposal};
use golem_protocols::erc4626::call::VaultCall;

/// Chain, account, vault, and what the account has there.
type Opened<'a> = (&'a ConnectedChain, Address, Vault, VaultAccount);

/// Part of a settled request that is claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claimed {
    /// Shares of a request to deposit.
    Shares,
    /// Tokens of a request to withdraw.
    Tokens,
}

/// Plan of a request, claim or cancellation.
fn planned(
    (vault, account): (&Vault, Address),
    call: VaultCall,
    [tokens, shares]: [U256; 2],
    findings: Vec<VaultFinding>,
) -> VaultActionPlan {
    VaultActionPlan {
        call,
        vault: vault.address,
        account,
        asset: vault.asset.clone(),
        asset_name: vault.asset_name(),
        share_decimals: vault.decimals,
        tokens,
        shares,
        findings,
    }
}

/// Result of the one call that was tried; the calls after it belong to its way back.
fn first<'a>(tried: &'a [CallTrial], what: &str) -> Result<&'a CallTrial, ToolError> {
    let one = tried.first().ok_or_else(|| failed(&"the simulation ended before the call"))?;
    match &one.refusal {
        None => Ok(one),
        Some(why) => Err(failed(&format_args!("the vault refuses {what}: {why}"))),
    }
}

/// Refuses while the vault is paused, or while something that was settled waits to be claimed.
fn usable(vault: &Vault, settled: U256) -> Result<(), ToolError> {
    if vault.is_paused {
        return Err(invalid(
            "vault_address",
            &"the vault is paused: nothing is requested, claimed or cancelled there now",
        ));
    }
    if settled.is_zero() {
        return Ok(());
    }
    Err(invalid("vault_address", &"an earlier request is settled: claim it with vault_claim first"))
}

/// Prepares a request to deposit.
///
/// # Errors
/// `VALIDATION_FAILED` if the vault is paused or full, or something waits to be claimed; `SAFETY_SIMULATION_FAILED` if the simulated
/// request or its cancellation fails; the errors of the chain.
pub(super) async fn deposit(
    context: &CallContext,
    (chain, account, vault, held): Opened<'_>,
    amount: U256,
) -> Result<(Proposal, VaultActionPlan), ToolError> {
    usable(&vault, held.requests.claimable_assets)?;
    let room = vault.cap.map(|cap| cap.saturating_sub(vault.total_assets));
    if let Some(room) = room.filter(|room| *room < amount) {
        let what = format_args!("the vault takes at most {} {} now", vault.tokens(room)?, vault.asset_name());
        return Err(invalid("amount", &what));
    }
    context.step("Reading past share prices");
    let mut findings = vault.findings(&vault.past(chain).await)?;
    findings.push(VaultFinding::SettledLater);
    context.step("Simulating via Revm");
    let call = VaultCall::RequestDeposit { assets: amount };
    let bench = Bench::open(context, chain, &vault, account).await?;
    let tried = bench.each(amount, &[call, VaultCall::CancelDeposit]).await?;
    let gas = first(&tried, "the request")?.gas_used;
    if let Some(why) = tried.get(1).and_then(|cancels| cancels.refusal.as_ref()) {
        findings.push(VaultFinding::WithdrawalFails { why: why.clone() });
        return Err(failed(&format_args!("the request could not be cancelled:{}", sentence(&findings))));
    }
    let (mut legs, bounds) = allowing(chain, account, &vault, amount).await?;
    legs.push(main_leg(&vault, call, account, gas));
    let plan = planned((&vault, account), call, [amount, U256::ZERO], findings);
    let outflow = Outflow { token: vault.asset, amount };
    Ok((proposal(context, chain, (account, legs, Some(outflow), None, bounds), &plan)?, plan))
}

/// Prepares a request to withdraw.
///
/// # Errors
/// `VALIDATION_FAILED` if the vault is paused, the account lacks the shares, or something waits to be claimed;
/// `SAFETY_SIMULATION_FAILED` if the simulated request fails; the errors of the chain.
pub(super) async fn withdraw(
    context: &CallContext,
    (chain, account, vault, held): Opened<'_>,
    shares: &str,
) -> Result<(Proposal, VaultActionPlan), ToolError> {
    usable(&vault, held.requests.claimable_shares)?;
    let shares = match shares.trim() {
        text if text.eq_ignore_ascii_case("max") => held.shares,
        text => TokenAmount::parse(text, vault.decimals)?.raw(),
    };
    if shares.is_zero() || shares > held.shares {
        let waits = match held.requests.claimable_assets.is_zero() {
            true => "",
            false => "; more wait to be claimed with vault_claim",
        };
        let what = format_args!("the account has {} shares{waits}", vault.shares(held.shares)?);
        return Err(invalid("shares", &what));
    }
    context.step("Reading past share prices");
    let mut findings = vault.findings(&vault.past(chain).await)?;
    findings.push(VaultFinding::SettledLater);
    context.step("Simulating via Revm");
    let call = VaultCall::RequestRedeem { shares };
    let bench = Bench::open(context, chain, &vault, account).await?;
    let gas = first(&bench.each(U256::ZERO, &[call]).await?, "the request")?.gas_used;
    let token = share(chain, &vault).await?;
    let legs = vec![main_leg(&vault, call, account, gas)];
    let plan = planned((&vault, account), call, [U256::ZERO, shares], findings);
    let outflow = Outflow { token, amount: shares };
    Ok((proposal(context, chain, (account, legs, Some(outflow), None, Vec::new()), &plan)?, plan))
}

/// Prepares the claim of a settled request.
///
/// # Errors
/// `VALIDATION_FAILED` if nothing is settled, or the vault takes no requests; `SAFETY_SIMULATION_FAILED` if the simulated claim
/// fails or brings nothing; the errors of the chain.
pub(super) async fn claim(
    context: &CallContext,
    (chain, vault_address): (&str, Option<&str>),
    claimed: Claimed,
) -> Result<(Proposal, VaultActionPlan), ToolError> {
    let (chain, account, vault, held) = open(context, chain, vault_address).await?;
    let (settled, pending, call) = match claimed {
        Claimed::Shares => {
            let assets = held.requests.claimable_assets;
            (assets, held.requests.pending_assets, VaultCall::ClaimShares { assets })
        }
        Claimed::Tokens => {
            let shares = held.requests.claimable_shares;
            (shares, held.requests.pending_shares, VaultCall::ClaimAssets { shares })
        }
    };
    if settled.is_zero() {
        let what = match pending.is_zero() {
            true => "the account has no request there that could be claimed",
            false => "the request is not settled yet: the vault's manager decides when",
        };
        return Err(invalid("vault_address", &what));
    }
    usable(&vault, U256::ZERO)?;
    context.step("Simulating via Revm");
    let bench = Bench::open(context, chain, &vault, account).await?;
    let tried = bench.each(U256::ZERO, &[call]).await?;
    let one = first(&tried, "the claim")?;
    let (token, comes) = match claimed {
        Claimed::Shares => (share(chain, &vault).await?, one.shares_in),
        Claimed::Tokens => (vault.asset.clone(), one.assets_in),
    };
    if comes.is_zero() {
        return Err(failed(&"the claim brings nothing"));
    }
    // What was settled does not change any more; a unit of rounding would not matter either.
    let least = at_least(comes);
    let amounts = match claimed {
        Claimed::Shares => [settled, least],
        Claimed::Tokens => [least, settled],
    };
    let legs = vec![main_leg(&vault, call, account, one.gas_used)];
    let plan = planned((&vault, account), call, amounts, Vec::new());
    let inflow = Inflow { token, at_least: least, expected: comes, recipient: account };
    Ok((proposal(context, chain, (account, legs, None, Some(inflow), Vec::new()), &plan)?, plan))
}

/// Prepares the cancellation of a request to deposit.
///
/// # Errors
/// `VALIDATION_FAILED` without such a request; `SAFETY_SIMULATION_FAILED` if the vault no longer lets it be cancelled; the errors of
/// the chain.
pub(super) async fn cancel(
    context: &CallContext,
    (chain, vault_address): (&str, Option<&str>),
) -> Result<(Proposal, VaultActionPlan), ToolError> {
    let (chain, account, vault, held) = open(context, chain, vault_address).await?;
    let pending = held.requests.pending_assets;
    if pending.is_zero() {
        let what = match held.requests.claimable_assets.is_zero() {
            true => "the account has no request to deposit there",
            false => "the request is settled: claim its shares with vault_claim",
        };
        return Err(invalid("vault_address", &what));
    }
    usable(&vault, U256::ZERO)?;
    context.step("Simulating via Revm");
    let call = VaultCall::CancelDeposit;
    let bench = Bench::open(context, chain, &vault, account).await?;
    let tried = bench.each(U256::ZERO, &[call]).await?;
    let one = first(&tried, "the cancellation, because the request has been valued and waits for the settlement")?;
    if one.assets_in < pending {
        let back = vault.tokens(one.assets_in)?;
        return Err(failed(&format_args!("the cancellation pays {back} of {} back", vault.tokens(pending)?)));
    }
    let legs = vec![main_leg(&vault, call, account, one.gas_used)];
    let plan = planned((&vault, account), call, [pending, U256::ZERO], Vec::new());
    let inflow = Inflow { token: vault.asset, at_least: pending, expected: one.assets_in, recipient: account };
    Ok((proposal(context, chain, (account, legs, None, Some(inflow), Vec::new()), &plan)?, plan))
}
