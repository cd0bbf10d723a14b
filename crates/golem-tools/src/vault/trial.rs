//! Deposits and withdrawals simulated at the vault's block. What counts are balances before and after, not what the vault
//! returns.

use alloy::eips::BlockId;
use alloy::primitives::{Address, U256};
use alloy::sol_types::SolCall;

use super::finding::{VaultFinding, share_pct};
use super::{Vault, VaultAccount};
use crate::engine::{CallContext, ConnectedChain};
use bardo_abi::erc20::Erc20;
use bardo_abi::erc4626::Erc4626;
use bardo_base::error::{ErrorCode, ToolError};
use golem_chain::fork::{ExecutionStatus, Fork, ForkCall, SimulatedOutcome, Simulation, SimulationOptions, WatchList};
use golem_protocols::erc4626::call::VaultCall;

/// Loss of a deposit that is withdrawn at once from which on it is reported, in raw units of the asset. The standard rounds
/// both ways in favour of the vault.
const ROUNDING: u64 = 2;

/// Result of a simulated deposit. Amounts in raw units; `None` where the simulation did not get that far.
#[derive(Debug)]
pub(super) struct DepositTrial {
    /// Shares by the vault's preview in the same block.
    pub(super) previewed: Option<U256>,
    /// Shares that the account received.
    pub(super) shares: Option<U256>,
    /// Tokens that withdrawing all of them at once paid.
    pub(super) returned: Option<U256>,
    pub(super) gas_used: u64,
    /// Gas of the deposit alone, in gas units.
    pub(super) call_gas: u64,
    pub(super) findings: Vec<VaultFinding>,
}

/// Result of a simulated withdrawal, in the same form.
#[derive(Debug)]
pub(super) struct WithdrawalTrial {
    /// Tokens by the vault's preview in the same block.
    pub(super) previewed: Option<U256>,
    /// Tokens that the account received.
    pub(super) received: Option<U256>,
    pub(super) gas_used: u64,
    pub(super) findings: Vec<VaultFinding>,
}

/// Result of one call of the vault in a simulation, in raw units.
#[derive(Debug)]
pub(super) struct CallTrial {
    /// Reason of the contract if it was refused.
    pub(super) refusal: Option<String>,
    /// Tokens that came to the account.
    pub(super) assets_in: U256,
    /// Tokens that left it.
    pub(super) assets_out: U256,
    /// Shares that came to the account.
    pub(super) shares_in: U256,
    pub(super) gas_used: u64,
}

/// Simulations for an account at the vault's block.
pub(super) struct Bench<'a> {
    vault: &'a Vault,
    account: Address,
    fork: Fork,
    options: SimulationOptions,
}

impl<'a> Bench<'a> {
    /// Opens the block of the vault.
    ///
    /// # Errors
    /// The errors of the chain.
    pub(super) async fn open(
        context: &CallContext,
        chain: &ConnectedChain,
        vault: &'a Vault,
        account: Address,
    ) -> Result<Self, ToolError> {
        let fork = chain.fork(BlockId::hash(vault.head.hash)).await?;
        let watch = WatchList {
            tokens: vec![vault.asset_address, vault.address],
            owners: vec![account],
            ..WatchList::default()
        };
        let shifts = context.world.shifts(chain.network().chain_id, account)?;
        Ok(Self { vault, account, fork, options: SimulationOptions { watch, shifts, ..SimulationOptions::default() } })
    }

    fn call(&self, to: Address, call: &impl SolCall) -> ForkCall {
        ForkCall::new(self.account, to, call.abi_encode())
    }

    /// Deposits `amount`, and then withdraws it again.
    ///
    /// # Errors
    /// `SAFETY_SIMULATION_FAILED` if the token refuses the allowance, and the errors of the chain.
    pub(super) async fn deposit(&self, amount: U256, held: &VaultAccount) -> Result<DepositTrial, ToolError> {
        let (vault, account) = (self.vault, self.account);
        let mut findings = over_limit(amount, held.max_deposit, |raw| vault.tokens(raw))?;
        let mut calls = vec![
            self.call(vault.asset_address, &Erc20::approveCall { spender: vault.address, value: amount }),
            self.call(vault.address, &Erc4626::previewDepositCall { assets: amount }),
            self.call(vault.address, &Erc4626::depositCall { assets: amount, receiver: account }),
        ];
        let first = self.fork.simulate_with(&calls, &self.options).await?;
        let [approved, preview, deposit] = outcomes(&first)?;
        if let Some(why) = refusal(approved) {
            let what = format_args!("the token refuses an allowance for the vault: {why}");
            return Err(ToolError::new(ErrorCode::SafetySimulationFailed, what));
        }
        let previewed = returned::<Erc4626::previewDepositCall>(preview);
        let call_gas = deposit.gas_used;
        let gas_used = approved.gas_used.saturating_add(call_gas);
        if let Some(why) = refusal(deposit) {
            findings.push(VaultFinding::DepositFails { why });
            return Ok(DepositTrial { previewed, shares: None, returned: None, gas_used, call_gas, findings });
        }
        let shares = self.gained(&first, 2, vault.address);
        let taken = self.lost(&first, 2, vault.asset_address);
        if taken != amount {
            findings.push(VaultFinding::TakesOther { taken: vault.tokens(taken)? });
        }
        findings.extend(preview_too_high(previewed, shares, |raw| vault.shares(raw))?);
        if shares.is_zero() {
            findings.push(VaultFinding::NoShares);
            return Ok(DepositTrial { previewed, shares: Some(shares), returned: None, gas_used, call_gas, findings });
        }
        calls.push(self.call(vault.address, &Erc4626::redeemCall { shares, receiver: account, owner: account }));
        let both = self.fork.simulate_with(&calls, &self.options).await?;
        let [_, _, _, redeem] = outcomes(&both)?;
        if let Some(why) = refusal(redeem) {
            findings.push(VaultFinding::WithdrawalFails { why });
            return Ok(DepositTrial { previewed, shares: Some(shares), returned: None, gas_used, call_gas, findings });
        }
        let back = self.gained(&both, 3, vault.asset_address);
        let cost = taken.saturating_sub(back);
        if cost > U256::from(ROUNDING) {
            findings.push(VaultFinding::RoundTripCost { cost_pct: share_pct(cost, taken) });
        }
        Ok(DepositTrial { previewed, shares: Some(shares), returned: Some(back), gas_used, call_gas, findings })
    }

    /// Redeems `shares`.
    ///
    /// # Errors
    /// The errors of the chain.
    pub(super) async fn withdraw(&self, shares: U256, held: &VaultAccount) -> Result<WithdrawalTrial, ToolError> {
        let (vault, account) = (self.vault, self.account);
        let mut findings = over_limit(shares, held.max_redeem, |raw| vault.shares(raw))?;
        let calls = [
            self.call(vault.address, &Erc4626::previewRedeemCall { shares }),
            self.call(vault.address, &Erc4626::redeemCall { shares, receiver: account, owner: account }),
        ];
        let simulation = self.fork.simulate_with(&calls, &self.options).await?;
        let [preview, redeem] = outcomes(&simulation)?;
        let previewed = returned::<Erc4626::previewRedeemCall>(preview);
        let gas_used = redeem.gas_used;
        if let Some(why) = refusal(redeem) {
            findings.push(VaultFinding::WithdrawalFails { why });
            return Ok(WithdrawalTrial { previewed, received: None, gas_used, findings });
        }
        let received = self.gained(&simulation, 1, vault.asset_address);
        findings.extend(preview_too_high(previewed, received, |raw| vault.tokens(raw))?);
        Ok(WithdrawalTrial { previewed, received: Some(received), gas_used, findings })
    }

    /// Makes calls of an asynchronous vault one after the other, with an allowance for the vault before them.
    ///
    /// # Errors
    /// `SAFETY_SIMULATION_FAILED` if the token refuses the allowance, and the errors of the chain.
    pub(super) async fn each(&self, allowed: U256, forms: &[VaultCall]) -> Result<Vec<CallTrial>, ToolError> {
        let (vault, account) = (self.vault, self.account);
        let approve = Erc20::approveCall { spender: vault.address, value: allowed };
        let mut calls = vec![self.call(vault.asset_address, &approve)];
        calls.extend(forms.iter().map(|form| ForkCall::new(account, vault.address, form.calldata(account))));
        let simulation = self.fork.simulate_with(&calls, &self.options).await?;
        let incomplete =
            || ToolError::new(ErrorCode::SafetySimulationFailed, "the simulation ended before its last call");
        let approved = simulation.outcomes.first().ok_or_else(incomplete)?;
        if let Some(why) = refusal(approved) {
            let what = format_args!("the token refuses an allowance for the vault: {why}");
            return Err(ToolError::new(ErrorCode::SafetySimulationFailed, what));
        }
        if simulation.outcomes.len() != calls.len() {
            return Err(incomplete());
        }
        let tried = simulation.outcomes.iter().enumerate().skip(1).map(|(at, outcome)| CallTrial {
            refusal: refusal(outcome),
            assets_in: self.gained(&simulation, at, vault.asset_address),
            assets_out: self.lost(&simulation, at, vault.asset_address),
            shares_in: self.gained(&simulation, at, vault.address),
            gas_used: outcome.gas_used,
        });
        Ok(tried.collect())
    }

    /// Increase of the account's balance of `token` by call `index`.
    fn gained(&self, simulation: &Simulation, index: usize, token: Address) -> U256 {
        let change = simulation.changes_of(index).and_then(|changes| changes.balance(token, self.account));
        change.map_or(U256::ZERO, |change| change.after.saturating_sub(change.before))
    }

    /// Decrease of the account's balance of `token` by call `index`.
    fn lost(&self, simulation: &Simulation, index: usize, token: Address) -> U256 {
        let change = simulation.changes_of(index).and_then(|changes| changes.balance(token, self.account));
        change.map_or(U256::ZERO, |change| change.before.saturating_sub(change.after))
    }
}

fn outcomes<const N: usize>(simulation: &Simulation) -> Result<&[SimulatedOutcome; N], ToolError> {
    simulation.outcomes.as_slice().try_into().map_err(|_| {
        ToolError::new(ErrorCode::SafetySimulationFailed, "the simulation ended without the outcome of each call")
    })
}

/// Reason why a call did not succeed; `None` if it did.
fn refusal(outcome: &SimulatedOutcome) -> Option<String> {
    match &outcome.status {
        ExecutionStatus::Success => None,
        ExecutionStatus::Reverted(why) => Some(why.to_string()),
        ExecutionStatus::Halted(why) => Some(why.to_string()),
    }
}

fn returned<C: SolCall<Return = U256>>(outcome: &SimulatedOutcome) -> Option<U256> {
    let succeeded = outcome.status == ExecutionStatus::Success;
    succeeded.then(|| C::abi_decode_returns_validate(&outcome.output).ok()).flatten()
}

fn over_limit(
    amount: U256,
    limit: Option<U256>,
    whole: impl Fn(U256) -> Result<String, ToolError>,
) -> Result<Vec<VaultFinding>, ToolError> {
    let reached = limit.filter(|limit| amount > *limit);
    reached.map(|limit| Ok(VaultFinding::OverLimit { limit: whole(limit)? })).into_iter().collect()
}

/// The standard forbids a preview that promises more than the call gives in the same block.
fn preview_too_high(
    previewed: Option<U256>,
    simulated: U256,
    whole: impl Fn(U256) -> Result<String, ToolError>,
) -> Result<Option<VaultFinding>, ToolError> {
    let Some(previewed) = previewed.filter(|previewed| *previewed > simulated) else { return Ok(None) };
    Ok(Some(VaultFinding::PreviewTooHigh {
        previewed: whole(previewed)?,
        simulated: whole(simulated)?,
        less_pct: share_pct(previewed.saturating_sub(simulated), previewed),
    }))
}
