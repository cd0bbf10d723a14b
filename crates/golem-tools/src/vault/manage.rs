//! Shared parts of the tools that manage an asynchronous vault of the account's own: what is read of it, the proposals, and the
//! result.

use alloy::primitives::{Address, U256};
use alloy::sol_types::{SolCall as _, SolEvent as _};
use schemars::JsonSchema;
use serde::Serialize;

use super::actions::{GAS_ROOM, failed};
use super::earnings::Earnings;
use super::{Vault, VaultAccount};
use crate::allowances::{self, approve};
use crate::engine::{CallContext, ConnectedChain, StepCaller, StepFailure, ToolReply};
use crate::shared::{PlanReceipt, invalid};
use bardo_abi::erc20::Erc20;
use bardo_abi::erc7540::LagoonFactory;
use bardo_base::contracts::KnownContract;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::fabric::TxState;
use bardo_base::text::SafeText;
use bardo_safety::pipeline::{CommitOutcome, CommitState};
use bardo_safety::proposal::{
    AllowanceBound, AllowanceKind, Inflow, LegPurpose, Outflow, PlanLeg, Proposal, ProposalIntent,
};
use bardo_session::envelope::CallStatus;
use golem_chain::fork::{ExecutionStatus, ForkCall, Simulation};
use golem_chain::multicall::CallBatch;
use golem_protocols::erc7540::manage::ManageCall;
use golem_protocols::erc7540::requests::SettlerQuestions;

alloy::sol! {
    /// Events of a settlement.
    #[derive(Debug)]
    interface Settlement {
        event SettleDeposit(
            uint40 indexed epochId,
            uint40 indexed settledId,
            uint256 totalAssets,
            uint256 totalSupply,
            uint256 assetsDeposited,
            uint256 sharesMinted
        );
        event SettleRedeem(
            uint40 indexed epochId,
            uint40 indexed settledId,
            uint256 totalAssets,
            uint256 totalSupply,
            uint256 assetsWithdrawed,
            uint256 sharesBurned
        );
    }
}

/// Steps of the tools.
pub(super) const STEPS: &[&str] = &[
    "Reading vault",
    "Simulating via Revm",
    "Approving token",
    "Signing transaction",
    "Broadcasting",
    "Confirming receipt",
];

/// Result of the tools.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Hash of the last transaction; absent if none was sent.
    tx_hash: Option<String>,
    /// Number of its block; absent before inclusion.
    block_number: Option<u64>,
    /// Address of the vault; absent for a new one before inclusion.
    pub(super) vault_address: Option<String>,
    /// Worth of the vault that was stated, in whole tokens; absent for an action without one.
    total_assets: Option<String>,
    /// Worth of the vault after the settlement, in the token's smallest units; absent unless it was settled.
    total_assets_after_raw: Option<String>,
    /// Tokens of settled requests to deposit, in whole tokens; absent unless something was settled.
    deposits_settled: Option<String>,
    /// Tokens of settled requests to withdraw, in whole tokens; absent unless something was settled.
    withdrawals_settled: Option<String>,
    /// Epoch of the requests that were settled, the last one if there were two, by the vault's event in the receipt; absent unless
    /// requests were settled.
    epoch_id: Option<u64>,
    /// Earnings withdrawn from the lending market, in whole tokens; absent unless that was done.
    harvested: Option<String>,
    /// Gas of all transactions, in gas units; the simulated gas if none is known.
    gas_used: u64,
    /// URL of the last transaction; absent if none was sent.
    explorer_url: Option<String>,
}

/// Values kept from preparation for the result.
pub struct ManagedCall {
    pub(super) call: ManageCall,
    pub(super) target: Address,
    /// Description of the vault; `None` for a new one.
    vault: Option<Vault>,
    chain_id: u64,
    /// Intention, as a sentence.
    intention: String,
    /// The same after it was done.
    done: String,
    /// Tokens of the settled requests: deposits and withdrawals.
    settled: Option<[U256; 2]>,
    /// Earnings that were withdrawn from the lending market, in whole tokens.
    pub(super) harvested: Option<String>,
    /// Failure of a further step, as a sentence.
    pub(super) unfinished: Option<String>,
    /// Result of the last further step.
    pub(super) last: Option<serde_json::Value>,
}

/// Opens a vault that the account manages: it is the vault's Safe, valuation manager and owner.
///
/// # Errors
/// `VALIDATION_FAILED` for a vault of somebody else, or without Lagoon's interface; the errors of the chain.
pub(super) async fn open<'a>(
    context: &'a CallContext,
    chain: &str,
    vault_address: &str,
) -> Result<(&'a ConnectedChain, Address, Vault, VaultAccount), ToolError> {
    let (chain, account, vault, held) = super::actions::open(context, chain, Some(vault_address)).await?;
    let mut calls = CallBatch::default();
    let settlers = SettlerQuestions::push(&mut calls, vault.address);
    let owner = calls.push(vault.address, &bardo_abi::erc7540::LagoonVault::ownerCall {});
    let code = chain.network().book.contract(KnownContract::AsyncVaultFactory);
    let made = code.map(|factory| calls.push(factory, &LagoonFactory::isInstanceCall { vault: vault.address }));
    let answers = chain.ask_at(calls, vault.head.hash).await?;
    let silent = || invalid("vault_address", &"no vault with Lagoon's interface answers at this address");
    let (settlers, owner) = (settlers.take(&answers).ok_or_else(silent)?, owner.take(&answers).ok_or_else(silent)?);
    if [settlers.safe, settlers.valuation_manager, owner].iter().any(|one| *one != account) {
        let what = "the account does not manage this vault: it must be its owner, its valuation manager and its Safe";
        return Err(invalid("vault_address", &what));
    }
    // A vault may answer anything about its roles; only the factory knows which code it has.
    if made.is_some_and(|made| made.take(&answers) != Some(true)) {
        return Err(invalid(
            "vault_address",
            &"the address book's factory did not make this vault, so its code is not known",
        ));
    }
    Ok((chain, account, vault, held))
}

/// Refuses paper mode.
pub(super) fn refuse_paper(context: &CallContext) -> Result<(), ToolError> {
    if context.world.paper().is_none() {
        return Ok(());
    }
    Err(ToolError::new(ErrorCode::ValidationFailed, "vaults are not managed in paper mode: nobody would see it"))
}

fn leg(target: Address, call: &ManageCall, account: Address, gas: u64) -> PlanLeg {
    PlanLeg {
        purpose: LegPurpose::Main,
        to: target,
        value: U256::ZERO,
        data: call.calldata(account),
        gas_limit: gas.saturating_add(gas / 2).saturating_add(GAS_ROOM),
        slots: Vec::new(),
    }
}

/// Calls and flows of a proposal.
#[derive(Default)]
struct Parts {
    before: Vec<PlanLeg>,
    outflows: Vec<Outflow>,
    inflows: Vec<Inflow>,
    allowances: Vec<AllowanceBound>,
}

fn proposal(
    context: &CallContext,
    chain: &ConnectedChain,
    (account, main): (Address, PlanLeg),
    parts: Parts,
    sentence: &str,
) -> Proposal {
    let mut legs = parts.before;
    legs.push(main);
    Proposal {
        chain_id: chain.network().chain_id,
        tool: *context.meta(),
        call_id: context.call_id(),
        golem_id: context.golem_id().clone(),
        account,
        intent: ProposalIntent::VaultManagement,
        legs,
        outflows: parts.outflows,
        inflows: parts.inflows,
        allowances: parts.allowances,
        trade: None,
        recipients: vec![account],
        order: None,
        files: Vec::new(),
        replaces: None,
        arrival: None,
        expected_outcome: SafeText::clean(&format!("{sentence}."), 300),
    }
}

/// Simulates calls of the account one after the other; fails with the reason of the first that is refused.
async fn tried(
    chain: &ConnectedChain,
    block: alloy::eips::BlockId,
    calls: &[ForkCall],
) -> Result<Simulation, ToolError> {
    let fork = chain.fork(block).await?;
    let simulation = fork.simulate(calls).await?;
    let refused = simulation.outcomes.iter().find_map(|outcome| match &outcome.status {
        ExecutionStatus::Success => None,
        ExecutionStatus::Reverted(why) => Some(why.to_string()),
        ExecutionStatus::Halted(why) => Some(why.to_string()),
    });
    match refused {
        Some(why) => Err(failed(&format_args!("the vault refuses it: {why}"))),
        None if simulation.outcomes.len() == calls.len() => Ok(simulation),
        None => Err(failed(&"the simulation ended before its last call")),
    }
}

/// Prepares the deployment of a vault through the address book's factory.
///
/// # Errors
/// `SAFETY_SIMULATION_FAILED` if the factory refuses it; the errors of the chain.
pub(super) async fn deploy(
    context: &CallContext,
    chain: &ConnectedChain,
    (account, factory): (Address, Address),
    (call, sentence): (ManageCall, String),
) -> Result<(Proposal, ManagedCall), ToolError> {
    context.step("Simulating via Revm");
    let calls = [ForkCall::new(account, factory, call.calldata(account))];
    let simulation = tried(chain, alloy::eips::BlockId::latest(), &calls).await?;
    let main = leg(factory, &call, account, simulation.gas_used());
    let proposed = proposal(context, chain, (account, main), Parts::default(), &format!("Deploy {sentence}"));
    let plan = ManagedCall {
        call,
        target: factory,
        vault: None,
        chain_id: chain.network().chain_id,
        intention: format!("Deploy {sentence}"),
        done: format!("Deployed {sentence}"),
        settled: None,
        harvested: None,
        unfinished: None,
        last: None,
    };
    Ok((proposed, plan))
}

/// Prepares a call that moves nothing.
///
/// # Errors
/// `SAFETY_SIMULATION_FAILED` if the vault refuses it; the errors of the chain.
pub(super) async fn quiet(
    context: &CallContext,
    (chain, account, vault): (&ConnectedChain, Address, Vault),
    call: ManageCall,
    [intention, done]: [String; 2],
) -> Result<(Proposal, ManagedCall), ToolError> {
    context.step("Simulating via Revm");
    let calls = [ForkCall::new(account, vault.address, call.calldata(account))];
    let simulation = tried(chain, alloy::eips::BlockId::hash(vault.head.hash), &calls).await?;
    let main = leg(vault.address, &call, account, simulation.gas_used());
    let proposed = proposal(context, chain, (account, main), Parts::default(), &intention);
    let (target, chain_id, vault) = (vault.address, chain.network().chain_id, Some(vault));
    let (settled, harvested, unfinished, last) = (None, None, None, None);
    Ok((proposed, ManagedCall { call, target, vault, chain_id, intention, done, settled, harvested, unfinished, last }))
}

/// Prepares a settlement at a valuation that was stated before.
///
/// # Errors
/// `SAFETY_SIMULATION_FAILED` if the vault refuses it; the errors of the chain.
pub(super) async fn settle(
    context: &CallContext,
    (chain, account, vault): (&ConnectedChain, Address, Vault),
    total: U256,
) -> Result<(Proposal, ManagedCall), ToolError> {
    context.step("Simulating via Revm");
    let (call, target) = (ManageCall::Settle { total }, vault.address);
    // With any allowance, to see how much the settlement takes.
    let allow = Erc20::approveCall { spender: target, value: U256::MAX };
    let calls = [
        ForkCall::new(account, vault.asset_address, allow.abi_encode()),
        ForkCall::new(account, target, call.calldata(account)),
    ];
    let simulation = tried(chain, alloy::eips::BlockId::hash(vault.head.hash), &calls).await?;
    let [comes, leaves] = settled(simulation.outcomes.iter().flat_map(|outcome| &outcome.logs), target);
    let gas = simulation.outcomes.last().map_or(0, |outcome| outcome.gas_used);
    let mut parts = Parts::default();
    if !leaves.is_zero() {
        let (standing, _) = allowances::read(chain, vault.asset_address, account, target, &[]).await?;
        if standing.of_token < leaves {
            parts.before.push(approve(LegPurpose::Approve, vault.asset_address, target, leaves));
            let (token, kind, at_most) = (vault.asset.clone(), AllowanceKind::Erc20, U256::ZERO);
            parts.allowances.push(AllowanceBound { token, spender: target, kind, at_most });
        }
        parts.outflows.push(Outflow { token: vault.asset.clone(), amount: leaves });
    }
    if let Some(more) = comes.checked_sub(leaves).filter(|more| !more.is_zero()) {
        let token = vault.asset.clone();
        parts.inflows.push(Inflow { token, at_least: more, expected: more, recipient: account });
    }
    let asset = vault.asset_name();
    let [worth, comes_text, leaves_text] = [total, comes, leaves].map(|raw| vault.tokens(raw));
    let (worth, comes_text, leaves_text) = (worth?, comes_text?, leaves_text?);
    let what = format!(
        "vault {target} at a worth of {worth} {asset}: {comes_text} {asset} of deposits and {leaves_text} {asset} of withdrawals"
    );
    let intention = format!("Settle {what}");
    let proposed = proposal(context, chain, (account, leg(target, &call, account, gas)), parts, &intention);
    let done = format!("Settled {what}");
    let (settled, vault, chain_id) = (Some([comes, leaves]), Some(vault), chain.network().chain_id);
    let (harvested, unfinished, last) = (None, None, None);
    Ok((proposed, ManagedCall { call, target, vault, chain_id, intention, done, settled, harvested, unfinished, last }))
}

/// Tokens of settled deposits and withdrawals, by the vault's events.
fn settled<'a>(logs: impl Iterator<Item = &'a alloy::primitives::Log>, vault: Address) -> [U256; 2] {
    let mut sums = [U256::ZERO; 2];
    for log in logs.filter(|log| log.address == vault) {
        if let Ok(event) = Settlement::SettleDeposit::decode_log(log) {
            sums[0] = sums[0].saturating_add(event.assetsDeposited);
        } else if let Ok(event) = Settlement::SettleRedeem::decode_log(log) {
            sums[1] = sums[1].saturating_add(event.assetsWithdrawed);
        }
    }
    sums
}

/// Last epoch of requests that was settled, by the vault's events.
fn settled_epoch<'a>(logs: impl Iterator<Item = &'a alloy::primitives::Log>, vault: Address) -> Option<u64> {
    let epoch = |log: &alloy::primitives::Log| {
        let deposits = Settlement::SettleDeposit::decode_log(log).map(|event| event.epochId);
        deposits.or_else(|_| Settlement::SettleRedeem::decode_log(log).map(|event| event.epochId)).ok()
    };
    logs.filter(|log| log.address == vault).filter_map(epoch).last().map(|epoch| epoch.to::<u64>())
}

/// Address of the vault that the factory made, by its event in the receipt.
fn deployed(factory: Address, committed: &CommitOutcome) -> Option<Address> {
    let logs = committed.legs.iter().filter(|leg| leg.state == TxState::Confirmed).flat_map(|leg| &leg.logs);
    let mut own = logs.filter(|log| log.address == factory);
    own.find_map(|log| LagoonFactory::ProxyDeployed::decode_log(log).ok()).map(|event| event.proxy)
}

pub(super) fn output(
    context: &CallContext,
    plan: ManagedCall,
    committed: &CommitOutcome,
) -> Result<ToolReply<Output>, ToolError> {
    let sent = PlanReceipt::of(context, committed)?;
    let is_done = committed.state == CommitState::Done;
    let address = match plan.call {
        ManageCall::Deploy(_) => deployed(plan.target, committed),
        ManageCall::Value { .. }
        | ManageCall::Settle { .. }
        | ManageCall::Pause
        | ManageCall::Resume
        | ManageCall::SetCap { .. } => Some(plan.target),
    };
    let tokens = |raw: U256| plan.vault.as_ref().map(|vault| vault.tokens(raw)).transpose();
    let total_assets = plan.call.total().map(tokens).transpose()?.flatten();
    let logs = || committed.legs.iter().filter(|leg| leg.state == TxState::Confirmed).flat_map(|leg| &leg.logs);
    // By the receipt, once there is one.
    let settled = plan.settled.map(|planned| if is_done { settled(logs(), plan.target) } else { planned });
    let worth = plan.call.total().unwrap_or_default();
    let after = settled.map(|[comes, leaves]| worth.saturating_add(comes).saturating_sub(leaves).to_string());
    let [deposits_settled, withdrawals_settled] = match settled {
        Some([comes, leaves]) => [tokens(comes)?, tokens(leaves)?],
        None => [None, None],
    };
    let place = address
        .filter(|_| matches!(plan.call, ManageCall::Deploy(_)))
        .map_or_else(String::new, |at| format!(" at {at}"));
    let done = if is_done { format!("{}{place}", plan.done) } else { plan.intention.clone() };
    let mut output = Output {
        tx_hash: sent.tx_hash.clone(),
        block_number: sent.block_number,
        vault_address: address.map(|at| at.to_string()),
        total_assets,
        total_assets_after_raw: after,
        deposits_settled,
        withdrawals_settled,
        epoch_id: settled_epoch(logs(), plan.target).filter(|_| is_done),
        harvested: plan.harvested.clone(),
        gas_used: sent.gas_used,
        explorer_url: sent.explorer_url.clone(),
    };
    // A further step has settled what this one valued.
    if let Some(last) = &plan.last {
        let text = |field: &str| last.get(field).and_then(|value| value.as_str()).map(str::to_owned);
        output.tx_hash = text("tx_hash").or(output.tx_hash);
        output.total_assets = text("total_assets").or(output.total_assets);
        output.total_assets_after_raw = text("total_assets_after_raw");
        output.deposits_settled = text("deposits_settled");
        output.withdrawals_settled = text("withdrawals_settled");
        output.epoch_id = last.get("epoch_id").and_then(serde_json::Value::as_u64);
        output.block_number = last.get("block_number").and_then(serde_json::Value::as_u64).or(output.block_number);
        output.explorer_url = text("explorer_url").or(output.explorer_url);
        let gas = last.get("gas_used").and_then(serde_json::Value::as_u64).unwrap_or_default();
        output.gas_used = output.gas_used.saturating_add(gas);
    }
    let rest = plan.unfinished.map_or_else(String::new, |why| format!(" {why}"));
    let settled = match (&plan.last, &output.deposits_settled, &output.withdrawals_settled) {
        (Some(_), Some(comes), Some(leaves)) => format!(" Settled {comes} of deposits and {leaves} of withdrawals."),
        (_, _, _) => String::new(),
    };
    let explanation = format!("{}{settled}{rest}", sent.explain(&done));
    Ok(ToolReply::new(output, explanation))
}

/// Settles what the first transaction has valued, as a step of its own.
///
/// # Errors
/// [`StepFailure`] if the step does not succeed; the vault is valued then, and a call with the valuation stated settles it.
pub(super) async fn settle_next(steps: &StepCaller, plan: &mut ManagedCall) -> Result<(), StepFailure> {
    let ManageCall::Value { total } = plan.call else { return Ok(()) };
    let failed = |error: ToolError| StepFailure { status: CallStatus::Error, error };
    let Some(vault) = &plan.vault else { return Ok(()) };
    let params = serde_json::json!({
        "vault_address": vault.address.to_string(),
        "new_total_assets": vault.tokens(total).map_err(failed)?,
        "is_valued": true,
        "chain": plan.chain_id.to_string(),
    });
    if let Err(error) = steps.may_begin() {
        plan.unfinished = Some(format!("The vault is valued and not settled: {}.", error.message()));
        return Err(failed(error));
    }
    let response = steps.call(steps.new_call_id(), "vault_settle", params).await;
    plan.last.clone_from(&response.data);
    match (response.status, response.error) {
        (CallStatus::Success | CallStatus::Simulated, None) => Ok(()),
        (status, error) => {
            let error = error
                .unwrap_or_else(|| ToolError::new(ErrorCode::ExecutionTxReverted, "the settlement did not succeed"));
            plan.unfinished = Some(format!("The vault is valued and not settled: {}.", error.message()));
            Err(StepFailure { status, error })
        }
    }
}

/// Withdraws earnings that a settlement has counted from the lending market.
///
/// # Errors
/// [`StepFailure`] if the step does not succeed; the earnings are the depositors' then, and stay supplied.
pub(super) async fn withdraw_next(
    steps: &StepCaller,
    plan: &mut ManagedCall,
    earned: String,
) -> Result<(), StepFailure> {
    let Some(vault) = &plan.vault else { return Ok(()) };
    let params = serde_json::json!({
        "token": vault.asset_address.to_string(),
        "amount": earned,
        "chain": plan.chain_id.to_string(),
    });
    let stays = |error: &ToolError| Some(format!("The earnings are settled and stay supplied: {}.", error.message()));
    if let Err(error) = steps.may_begin() {
        plan.unfinished = stays(&error);
        return Err(StepFailure { status: CallStatus::Error, error });
    }
    let response = steps.call(steps.new_call_id(), "lending_withdraw", params).await;
    match (response.status, response.error) {
        (CallStatus::Success | CallStatus::Simulated, None) => {
            plan.harvested = Some(earned);
            Ok(())
        }
        (status, error) => {
            let none = || ToolError::new(ErrorCode::ExecutionTxReverted, "the withdrawal did not succeed");
            let error = error.unwrap_or_else(none);
            plan.unfinished = stays(&error);
            Err(StepFailure { status, error })
        }
    }
}

/// Steps of a teardown after the cap, each with its tool: those that have something to do.
///
/// # Errors
/// [`StepFailure`] if the chain cannot be read.
pub(super) async fn teardown_steps(
    context: &CallContext,
    plan: &ManagedCall,
) -> Result<Vec<(&'static str, serde_json::Value)>, StepFailure> {
    let failed = |error: ToolError| StepFailure { status: CallStatus::Error, error };
    let Some(vault) = &plan.vault else { return Ok(Vec::new()) };
    let chain_text = plan.chain_id.to_string();
    let chain = context.world.chain(&chain_text).map_err(failed)?;
    let account = context.world.account(None).map_err(failed)?;
    let token = vault.asset_address.to_string();
    let mut steps = Vec::new();
    let vault = Vault::read(chain, Some(&vault.address.to_string())).await.map_err(failed)?;
    // Measured before the withdrawal, so that the depositors get the interest.
    let earnings = Earnings::read(&context.world, chain, &vault, account).await.map_err(failed)?;
    if !earnings.supplied.is_zero() {
        // Another vault's stays, and the account's own.
        let is_all = earnings.others.is_zero() && earnings.own_supply(vault.total_assets).is_none();
        let amount = match is_all {
            true => "max".to_owned(),
            false => vault.tokens(earnings.supplied.min(earnings.worth(&vault))).map_err(failed)?,
        };
        let params = serde_json::json!({"token": token, "amount": amount, "chain": chain_text});
        steps.push(("lending_withdraw", params));
    }
    let worth = vault.tokens(earnings.worth(&vault)).map_err(failed)?;
    let params = serde_json::json!({
        "vault_address": vault.address.to_string(),
        "new_total_assets": worth,
        "chain": chain_text,
    });
    steps.push(("vault_settle", params));
    let (standing, _) =
        allowances::read(chain, vault.asset_address, account, vault.address, &[]).await.map_err(failed)?;
    if !standing.of_token.is_zero() {
        let params = serde_json::json!({"token": token, "spender": vault.address.to_string(), "chain": chain_text});
        steps.push(("token_revoke", params));
    }
    Ok(steps)
}
