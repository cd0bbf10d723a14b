//! Shared parts of the tools that deposit to a vault, withdraw from it, and deal with requests.

use alloy::primitives::{Address, U256};
use alloy::sol_types::SolEvent as _;
use schemars::JsonSchema;
use serde::Serialize;

use super::finding::{VaultFinding, sentence};
use super::trial::Bench;
use super::{Vault, VaultAccount, requests};
use crate::allowances::{self, approve};
use crate::engine::{CallContext, ConnectedChain, ToolReply};
use crate::shared::{PlanReceipt, insufficient, invalid};
use bardo_abi::erc20::Erc20;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::fabric::TxState;
use bardo_base::text::SafeText;
use bardo_base::units::TokenAmount;
use bardo_safety::pipeline::{CommitOutcome, CommitState};
use bardo_safety::proposal::{
    AllowanceBound, AllowanceKind, Inflow, LegPurpose, Outflow, PlanLeg, Proposal, ProposalIntent,
};
use golem_chain::token::{self, TokenId, TokenInfo};
use golem_protocols::erc4626::call::{VaultCall, VaultSide};

/// Steps of the tools.
pub(super) const STEPS: &[&str] = &[
    "Reading vault",
    "Reading past share prices",
    "Simulating via Revm",
    "Approving token",
    "Signing transaction",
    "Broadcasting",
    "Confirming receipt",
];

/// Checks of the tools.
pub(super) use crate::shared::CHECKS;

/// Part of what the simulation gave that may be missing when the transaction is included, as a divisor: a tenth of a percent.
/// Earnings between the two make each share dearer.
const SLACK_PART: u64 = 1_000;

/// Gas beside one and a half times that of the simulated call.
pub(super) const GAS_ROOM: u64 = 60_000;

/// Result of the tools.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Hash of the last transaction; absent if none was sent.
    tx_hash: Option<String>,
    /// Number of its block; absent before inclusion.
    block_number: Option<u64>,
    /// Address of the vault.
    vault_address: String,
    /// Symbol of the vault's token, as listed; otherwise its address.
    asset: String,
    /// Tokens that went in or came out, in whole tokens, by the token's own transfers in the receipt; before inclusion, what goes
    /// in or the least that comes out. Those of the request for a claim of shares; zero for a request to withdraw.
    amount: String,
    /// Shares that came in or went out, in whole shares, by their transfers in the receipt; before inclusion, the least that comes
    /// in or what goes out. Those of the request for a claim of tokens; zero for a request to deposit and its cancellation.
    shares: String,
    /// Reasons for caution, by the simulation of the call before signing and, for a deposit, of the way back.
    findings: Vec<VaultFinding>,
    /// Gas of all transactions, in gas units; the simulated gas if none is known.
    gas_used: u64,
    /// URL of the last transaction; absent if none was sent.
    explorer_url: Option<String>,
}

/// Values kept from preparation for the result.
pub struct VaultActionPlan {
    pub(super) call: VaultCall,
    pub(super) vault: Address,
    pub(super) account: Address,
    pub(super) asset: TokenInfo,
    pub(super) asset_name: String,
    pub(super) share_decimals: u8,
    /// Tokens in, or the least tokens out; zero for a request of tokens.
    pub(super) tokens: U256,
    /// The least shares in, or shares out; zero for a request of shares, and for its cancellation.
    pub(super) shares: U256,
    pub(super) findings: Vec<VaultFinding>,
}

impl VaultActionPlan {
    fn amounts(&self, tokens: U256, shares: U256) -> Result<[TokenAmount; 2], ToolError> {
        Ok([TokenAmount::new(tokens, self.asset.decimals)?, TokenAmount::new(shares, self.share_decimals)?])
    }

    /// Sentence about the action before it is done.
    fn sentence(&self) -> Result<String, ToolError> {
        let [tokens, shares] = self.amounts(self.tokens, self.shares)?;
        let (vault, asset) = (self.vault, &self.asset_name);
        Ok(match self.call {
            VaultCall::Deposit { .. } => {
                format!("Deposit {tokens} {asset} to vault {vault} for at least {shares} shares")
            }
            VaultCall::Redeem { .. } => {
                format!("Withdraw {shares} shares from vault {vault} for at least {tokens} {asset}")
            }
            VaultCall::RequestDeposit { .. } => {
                format!("Request a deposit of {tokens} {asset} to vault {vault}, whose manager settles the shares")
            }
            VaultCall::RequestRedeem { .. } => {
                format!("Request a withdrawal of {shares} shares from vault {vault}, whose manager settles the {asset}")
            }
            VaultCall::ClaimShares { .. } => {
                format!("Claim at least {shares} shares of vault {vault} for the settled request of {tokens} {asset}")
            }
            VaultCall::ClaimAssets { .. } => {
                format!("Claim at least {tokens} {asset} from vault {vault} for the settled request of {shares} shares")
            }
            VaultCall::CancelDeposit => format!("Cancel the request to deposit {tokens} {asset} to vault {vault}"),
        })
    }

    /// The same after it was done.
    fn done(&self, [tokens, shares]: &[TokenAmount; 2]) -> String {
        let (vault, asset) = (self.vault, &self.asset_name);
        match self.call {
            VaultCall::Deposit { .. } => format!("Deposited {tokens} {asset} to vault {vault} for {shares} shares"),
            VaultCall::Redeem { .. } => format!("Withdrew {shares} shares from vault {vault} for {tokens} {asset}"),
            VaultCall::RequestDeposit { .. } => format!(
                "Requested a deposit of {tokens} {asset} to vault {vault}. Nothing is settled yet: its manager decides when, \
                 and the shares are to be claimed then"
            ),
            VaultCall::RequestRedeem { .. } => format!(
                "Requested a withdrawal of {shares} shares from vault {vault}. Nothing is settled yet: its manager decides \
                 when, and the {asset} is to be claimed then"
            ),
            VaultCall::ClaimShares { .. } => {
                format!("Claimed {shares} shares of vault {vault} for the request of {tokens} {asset}")
            }
            VaultCall::ClaimAssets { .. } => {
                format!("Claimed {tokens} {asset} from vault {vault} for the request of {shares} shares")
            }
            VaultCall::CancelDeposit => {
                format!("Cancelled the request to deposit to vault {vault}: {tokens} {asset} came back")
            }
        }
    }
}

/// Beginning of both tools: chain, account, vault, and the account's shares.
pub(super) async fn open<'a>(
    context: &'a CallContext,
    chain: &str,
    vault_address: Option<&str>,
) -> Result<(&'a ConnectedChain, Address, Vault, VaultAccount), ToolError> {
    let chain = context.world.chain(chain)?;
    let account = context.world.account(None)?;
    if context.world.paper().is_some() {
        let what = "vaults are not kept in paper mode: shares of them would be lost";
        return Err(ToolError::new(ErrorCode::ValidationFailed, what));
    }
    context.step("Reading vault");
    let vault = Vault::read(chain, vault_address).await?;
    let held = vault.account(chain, account).await?;
    Ok((chain, account, vault, held))
}

/// Description of the shares as a token, as the pipeline reads it.
pub(super) async fn share(chain: &ConnectedChain, vault: &Vault) -> Result<TokenInfo, ToolError> {
    let unreadable = |error: &dyn std::fmt::Display| invalid("vault_address", error);
    let read = token::read(&[vault.address], chain.network(), chain.client.agreed()).await;
    let read = read.map_err(|error| unreadable(&error))?.into_iter().next();
    let read = read.ok_or_else(|| unreadable(&"its shares cannot be read"))?;
    read.map_err(|error| unreadable(&error))
}

/// Least amount to be declared where the simulation gave this one.
pub(super) fn at_least(simulated: U256) -> U256 {
    simulated.saturating_sub(simulated / U256::from(SLACK_PART))
}

pub(super) fn failed(what: &dyn std::fmt::Display) -> ToolError {
    ToolError::new(ErrorCode::SafetySimulationFailed, what)
}

/// Prepares a deposit.
///
/// # Errors
/// `VALIDATION_FAILED` for an amount that the vault does not take now; `INSUFFICIENT_BALANCE` if the wallet lacks it;
/// `SAFETY_SIMULATION_FAILED` if the simulated deposit fails or gives no shares; the errors of the chain.
pub(super) async fn deposit(
    context: &CallContext,
    (chain, vault_address, amount): (&str, Option<&str>, &str),
) -> Result<(Proposal, VaultActionPlan), ToolError> {
    let (chain, account, vault, held) = open(context, chain, vault_address).await?;
    let on_chain = crate::shared::balance(chain, account, &vault.asset).await?;
    let promised = context.world.promised(chain.network().chain_id, account, vault.asset_address)?;
    let free = on_chain.saturating_sub(promised);
    let amount = match amount.trim() {
        text if text.eq_ignore_ascii_case("max") => free,
        text => TokenAmount::parse(text, vault.asset.decimals)?.raw(),
    };
    let asset_name = vault.asset_name();
    if amount.is_zero() {
        let what = format_args!("name an amount above zero; the wallet has {} {asset_name}", vault.tokens(free)?);
        return Err(invalid("amount", &what));
    }
    if amount > free {
        return Err(insufficient(&vault.asset, [amount, on_chain, promised])?);
    }
    if vault.asynchrony.deposits {
        return Box::pin(requests::deposit(context, (chain, account, vault, held), amount)).await;
    }
    match held.max_deposit {
        Some(most) if most.is_zero() => {
            return Err(invalid("vault_address", &"the vault takes no deposits now: it is full or paused"));
        }
        Some(most) if amount > most => {
            let what = format_args!("the vault takes at most {} {asset_name} now", vault.tokens(most)?);
            return Err(invalid("amount", &what));
        }
        Some(_) | None => {}
    }
    context.step("Reading past share prices");
    let mut findings = vault.findings(&vault.past(chain).await)?;
    context.step("Simulating via Revm");
    let trial = Bench::open(context, chain, &vault, account).await?.deposit(amount, &held).await?;
    findings.extend(trial.findings);
    let Some(shares) = trial.shares.filter(|shares| !shares.is_zero()) else {
        return Err(failed(&format_args!("the vault is not deposited to:{}", sentence(&findings))));
    };
    let least = at_least(shares);
    let token = share(chain, &vault).await?;
    let (mut legs, bounds) = allowing(chain, account, &vault, amount).await?;
    let call = VaultCall::Deposit { assets: amount };
    legs.push(main_leg(&vault, call, account, trial.call_gas));
    let plan = VaultActionPlan {
        call,
        vault: vault.address,
        account,
        asset: vault.asset.clone(),
        asset_name,
        share_decimals: vault.decimals,
        tokens: amount,
        shares: least,
        findings,
    };
    let outflow = Outflow { token: vault.asset, amount };
    let inflow = Inflow { token, at_least: least, expected: shares, recipient: account };
    Ok((proposal(context, chain, (account, legs, Some(outflow), Some(inflow), bounds), &plan)?, plan))
}

/// Calls that allow the vault exactly `amount` of its token, unless it may take that much, and the allowance that stays: none.
pub(super) async fn allowing(
    chain: &ConnectedChain,
    account: Address,
    vault: &Vault,
    amount: U256,
) -> Result<(Vec<PlanLeg>, Vec<AllowanceBound>), ToolError> {
    let (standing, _) = allowances::read(chain, vault.asset_address, account, vault.address, &[]).await?;
    let (mut legs, mut bounds) = (Vec::new(), Vec::new());
    if standing.of_token < amount {
        let first = !standing.of_token.is_zero()
            && allowances::needs_zero_first(chain, vault.asset_address, account, vault.address, amount).await?;
        if first {
            legs.push(approve(LegPurpose::Approve, vault.asset_address, vault.address, U256::ZERO));
        }
        legs.push(approve(LegPurpose::Approve, vault.asset_address, vault.address, amount));
        let (spender, kind, at_most) = (vault.address, AllowanceKind::Erc20, U256::ZERO);
        bounds.push(AllowanceBound { token: vault.asset.clone(), spender, kind, at_most });
    }
    Ok((legs, bounds))
}

/// Prepares a withdrawal.
///
/// # Errors
/// `VALIDATION_FAILED` for shares that the account does not have or the vault does not let go of now;
/// `SAFETY_SIMULATION_FAILED` if the simulated withdrawal fails or pays nothing; the errors of the chain.
pub(super) async fn withdraw(
    context: &CallContext,
    (chain, vault_address, shares): (&str, Option<&str>, &str),
) -> Result<(Proposal, VaultActionPlan), ToolError> {
    let (chain, account, vault, held) = open(context, chain, vault_address).await?;
    if vault.asynchrony.redemptions {
        return Box::pin(requests::withdraw(context, (chain, account, vault, held), shares)).await;
    }
    let most = held.max_redeem.map_or(held.shares, |most| most.min(held.shares));
    let shares = match shares.trim() {
        text if text.eq_ignore_ascii_case("max") => most,
        text => TokenAmount::parse(text, vault.decimals)?.raw(),
    };
    if shares.is_zero() || shares > most {
        let (held, most) = (vault.shares(held.shares)?, vault.shares(most)?);
        let what = format_args!("the account has {held} shares, of which the vault lets {most} go now");
        return Err(invalid("shares", &what));
    }
    context.step("Reading past share prices");
    let mut findings = vault.findings(&vault.past(chain).await)?;
    context.step("Simulating via Revm");
    let trial = Bench::open(context, chain, &vault, account).await?.withdraw(shares, &held).await?;
    findings.extend(trial.findings);
    let Some(received) = trial.received.filter(|received| !received.is_zero()) else {
        return Err(failed(&format_args!("nothing is withdrawn from the vault:{}", sentence(&findings))));
    };
    let least = at_least(received);
    let token = share(chain, &vault).await?;
    let call = VaultCall::Redeem { shares };
    let legs = vec![main_leg(&vault, call, account, trial.gas_used)];
    let plan = VaultActionPlan {
        call,
        vault: vault.address,
        account,
        asset: vault.asset.clone(),
        asset_name: vault.asset_name(),
        share_decimals: vault.decimals,
        tokens: least,
        shares,
        findings,
    };
    let outflow = Outflow { token, amount: shares };
    let inflow = Inflow { token: vault.asset, at_least: least, expected: received, recipient: account };
    Ok((proposal(context, chain, (account, legs, Some(outflow), Some(inflow), Vec::new()), &plan)?, plan))
}

pub(super) fn main_leg(vault: &Vault, call: VaultCall, account: Address, gas: u64) -> PlanLeg {
    PlanLeg {
        purpose: LegPurpose::Main,
        to: vault.address,
        value: U256::ZERO,
        data: call.calldata(account),
        gas_limit: gas.saturating_add(gas / 2).saturating_add(GAS_ROOM),
        slots: Vec::new(),
    }
}

/// Account, calls, flows and allowances of a proposal.
pub(super) type ProposedParts = (Address, Vec<PlanLeg>, Option<Outflow>, Option<Inflow>, Vec<AllowanceBound>);

pub(super) fn proposal(
    context: &CallContext,
    chain: &ConnectedChain,
    (account, legs, outflow, inflow, allowances): ProposedParts,
    plan: &VaultActionPlan,
) -> Result<Proposal, ToolError> {
    let caution = sentence(&plan.findings);
    Ok(Proposal {
        chain_id: chain.network().chain_id,
        tool: *context.meta(),
        call_id: context.call_id(),
        golem_id: context.golem_id().clone(),
        account,
        intent: ProposalIntent::Vault,
        legs,
        outflows: outflow.into_iter().collect(),
        inflows: inflow.into_iter().collect(),
        allowances,
        trade: None,
        recipients: vec![account],
        order: None,
        files: Vec::new(),
        replaces: None,
        arrival: None,
        expected_outcome: SafeText::clean(&format!("{}.{caution}", plan.sentence()?), 300),
    })
}

/// Tokens and shares that moved, by the transfers in the receipt of the main transaction; `None` before inclusion.
fn moved(plan: &VaultActionPlan, committed: &CommitOutcome) -> Option<[U256; 2]> {
    let main = committed.legs.iter().find(|leg| leg.purpose == LegPurpose::Main && leg.state == TxState::Confirmed)?;
    let TokenId::Erc20(asset) = plan.asset.id else { return None };
    let sum = |token: Address, comes: bool| {
        let own = main.logs.iter().filter(|log| log.address == token);
        let transfers = own.filter_map(|log| Erc20::Transfer::decode_log(log).ok());
        let ours = transfers.filter(|one| if comes { one.to == plan.account } else { one.from == plan.account });
        ours.fold(U256::ZERO, |sum, one| sum.saturating_add(one.value))
    };
    // What the call does not move, the plan knows.
    let of = |side: VaultSide, token: Address, planned: U256| {
        if plan.call.receives() == Some(side) {
            sum(token, true)
        } else if plan.call.gives() == Some(side) {
            sum(token, false)
        } else {
            planned
        }
    };
    Some([of(VaultSide::Asset, asset, plan.tokens), of(VaultSide::Share, plan.vault, plan.shares)])
}

pub(super) fn output(
    context: &CallContext,
    plan: VaultActionPlan,
    committed: &CommitOutcome,
) -> Result<ToolReply<Output>, ToolError> {
    let sent = PlanReceipt::of(context, committed)?;
    let [tokens, shares] = moved(&plan, committed).unwrap_or([plan.tokens, plan.shares]);
    let amounts = plan.amounts(tokens, shares)?;
    let done = match &committed.state {
        CommitState::Done => plan.done(&amounts),
        CommitState::Simulated
        | CommitState::Placed
        | CommitState::Reverted
        | CommitState::Unclear
        | CommitState::Stopped { .. } => plan.sentence()?,
    };
    // A request is done when somebody else settled it and the account has claimed.
    let is_open = plan.call.receives().is_none() && matches!(committed.state, CommitState::Done);
    let explanation = format!("{}{}", sent.explain(&done), sentence(&plan.findings));
    let [amount, shares] = amounts.map(|amount| amount.to_string());
    let output = Output {
        tx_hash: sent.tx_hash,
        block_number: sent.block_number,
        vault_address: plan.vault.to_string(),
        asset: plan.asset_name,
        amount,
        shares,
        findings: plan.findings,
        gas_used: sent.gas_used,
        explorer_url: sent.explorer_url,
    };
    Ok(ToolReply::new(output, explanation).open(is_open))
}
