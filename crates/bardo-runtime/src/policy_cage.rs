//! An account's rules in PolicyCage: their on-chain state, the rules derived from the policy, and the operator's
//! changes. On a devnet that ends with the process they follow the policy in force.
//!
//! The derivation is in `safety::onchain_policy::derive`, the operator's prompt in `cli::policy_cage`.

use std::sync::Arc;

use alloy::primitives::{Address, Bytes, U256, keccak256};
use alloy::rpc::types::TransactionRequest;
use alloy::sol_types::SolCall as _;
use serde::Serialize;

use super::{OpenEnvironment, operator_action};
use bardo_abi::policy_cage::PolicyCage::{self, Rules};
use bardo_base::clock::Clock;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::id::{CallId, GolemId};
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, Phase, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_base::text::SafeText;
use bardo_safety::onchain_policy::{DeriveError, DerivedRules, RuleDifference, UnenforcedRule, derive, differences};
use bardo_safety::operator_proof::{Authorisation, OperatorProof};
use bardo_safety::pipeline::{CommitOutcome, PhaseRequest};
use bardo_safety::policy::Policy;
use bardo_safety::proposal::{LegPurpose, PlanLeg, Proposal, ProposalIntent};
use bardo_sandbox::Sandbox;
use golem_chain::devnet::DevnetStopped;
use golem_chain::devnet::error::CallError;
use golem_chain::multicall::CallBatch;
use golem_chain::network::KnownContract;
use golem_tools::engine::{ConnectedChain, WriteAccess};

/// Gas of a call that writes no storage, including the transaction's base cost, in gas units.
const BASE_GAS: u64 = 120_000;
/// Gas per storage slot that is written or cleared, including calldata and copying, in gas units.
const SLOT_GAS: u64 = 30_000;

/// Metadata under which a change of the rules is recorded. Not in the catalog: no agent can propose it.
const META: ToolMeta = ToolMeta {
    name: "policy_cage",
    description: "Sets or clears the rules that PolicyCage keeps of the account.",
    category: Category::Safety,
    capability: CapabilityTier::Privileged,
    risk_tier: RiskTier::Layer3,
    tick_budget: TickBudget::Slow,
    progress_steps: &["Simulating via Revm", "Signing transaction", "Broadcasting", "Confirming receipt"],
    sprite_trigger: SpriteTrigger::Executing,
    prompt_snippet: "",
    prompt_guidelines: Guidelines { thriving: "", cautious: "", declining: "", terminal: "", memory: None },
    idempotent: true,
    action_class: ActionClass::NewPosition,
    checks: Check::ALL,
    event_params: &[],
    summary_fields: &[],
    card: None,
    spenders: &[],
};

/// An account's rules on one chain, and those that the policy implies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CageState {
    /// Name of the chain.
    pub chain: String,
    /// EIP-155 chain id.
    pub chain_id: u64,
    /// Address of the account.
    pub account: Address,
    /// Address of the PolicyCage contract.
    pub contract: Address,
    /// Rules on chain; `None` if the account has set none.
    pub on_chain: Option<Rules>,
    /// Rules derived from the policy, or the reason that none can be derived.
    pub by_policy: Result<DerivedRules, DeriveError>,
    /// Rules that differ; empty if one side has none.
    pub differences: Vec<RuleDifference>,
}

/// Comparison of the on-chain rules with the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CageStatus {
    /// The account has set no rules: the contract restricts nothing.
    None,
    /// The on-chain rules are exactly those derived from the policy.
    Agrees,
    /// The on-chain rules differ.
    Differs,
}

impl CageState {
    /// Compares the on-chain rules with the policy.
    pub fn status(&self) -> CageStatus {
        match (&self.on_chain, &self.by_policy) {
            (None, _) => CageStatus::None,
            (Some(_), Ok(_)) if self.differences.is_empty() => CageStatus::Agrees,
            (Some(_), _) => CageStatus::Differs,
        }
    }
}

/// A change of the on-chain rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CageChange {
    /// Replaces the rules with these.
    Set(Rules),
    /// Clears the rules.
    Clear,
}

impl CageChange {
    fn calldata(&self) -> Bytes {
        match self {
            Self::Set(rules) => PolicyCage::configureCall { set: rules.clone() }.abi_encode().into(),
            Self::Clear => PolicyCage::clearCall {}.abi_encode().into(),
        }
    }

    /// Authorisation that the change needs, with a password where the network requires one.
    pub fn authorisation(&self, state: &CageState) -> Authorisation {
        let CageState { chain_id, account, .. } = *state;
        // The id has a fixed length, so that other chain ids and calldata cannot give the same hash.
        let change = keccak256([&chain_id.to_be_bytes()[..], &self.calldata()].concat());
        Authorisation::PolicyCage { account, change: Box::new(change) }
    }

    /// Maximum gas of replacing the on-chain rules, in gas units.
    fn gas(&self, on_chain: Option<&Rules>) -> u64 {
        // An asset takes four slots; a function and a spender take one each.
        let slots = |rules: &Rules| {
            let assets = rules.assets.len().saturating_mul(4);
            let slots = assets.saturating_add(rules.calls.len()).saturating_add(rules.spenders.len());
            u64::try_from(slots).unwrap_or(u64::MAX)
        };
        let set = match self {
            Self::Set(rules) => slots(rules),
            Self::Clear => 0,
        };
        SLOT_GAS.saturating_mul(set.saturating_add(on_chain.map_or(0, slots))).saturating_add(BASE_GAS)
    }
}

/// Rules of `account` on every connected chain whose address book names the contract.
///
/// # Errors
/// An error if a chain does not answer, or if no address book names the contract.
pub async fn states(opened: &OpenEnvironment, account: Address, policy: &Policy) -> Result<Vec<CageState>, ToolError> {
    let mut all = Vec::new();
    for chain in opened.world.chains() {
        if chain.network().book.contract(KnownContract::PolicyCage).is_some() {
            all.push(read(chain, account, policy).await?);
        }
    }
    if all.is_empty() {
        let error = "no address book of a connected chain has a PolicyCage contract";
        return Err(ToolError::new(ErrorCode::ChainUnsupported, error)
            .suggest("Deploy the contract and add its address as policyCage to the file given with --book."));
    }
    Ok(all)
}

async fn read(chain: &ConnectedChain, account: Address, policy: &Policy) -> Result<CageState, ToolError> {
    let network = chain.network();
    let contract = chain.contract(KnownContract::PolicyCage)?;
    let mut calls = CallBatch::default();
    let configured = calls.push(contract, &PolicyCage::configuredCall { owner: account });
    let rules = calls.push(contract, &PolicyCage::rulesOfCall { owner: account });
    let answers = chain.ask(calls).await?;
    let unread = || {
        let error = format_args!("PolicyCage at {contract} on {network} returns invalid data");
        ToolError::new(ErrorCode::ChainInconsistent, error)
    };
    let on_chain = match configured.take(&answers).ok_or_else(unread)? {
        true => Some(rules.take(&answers).ok_or_else(unread)?),
        false => None,
    };
    let by_policy = derive(policy, network, account);
    let both = on_chain.as_ref().zip(by_policy.as_ref().ok());
    let differences = both.map(|(chain, derived)| differences(network, chain, &derived.rules)).unwrap_or_default();
    Ok(CageState {
        chain: network.name.clone(),
        chain_id: network.chain_id,
        account,
        contract,
        on_chain,
        by_policy,
        differences,
    })
}

/// Error: the rules of an account could not be set by the control of the devnet.
#[derive(Debug, thiserror::Error)]
#[error("cannot set the rules of {account} in PolicyCage on {chain}: {why}")]
pub struct ControlError {
    account: Address,
    chain: &'static str,
    why: ControlFault,
}

/// Reason of a [`ControlError`].
#[derive(Debug, thiserror::Error)]
enum ControlFault {
    /// The chain's thread has ended.
    #[error(transparent)]
    Gone(#[from] DevnetStopped),
    /// The contract refuses the rules.
    #[error(transparent)]
    Call(Box<CallError>),
    /// The address book of the chain has no such contract.
    #[error("the address book does not name the contract")]
    NoContract,
}

/// Makes the rules of `account` those of `policy` on every chain of a devnet that ends with this process.
///
/// It is done by the devnet's control and not by a transaction: the account's nonce and balance stay, and no log says
/// it. On a chain where the contract would reject what the policy allows (see [`UnenforcedRule::rejects_allowed`]), or
/// that the policy allows no token on, the account has no rules afterwards.
///
/// # Errors
/// [`ControlError`] if a chain has stopped or its contract refuses the rules.
pub async fn follow_policy(sandbox: &Sandbox, account: Address, policy: &Policy) -> Result<(), ControlError> {
    let described = sandbox.description().networks();
    for (network, chain) in described.iter().zip(sandbox.chains()) {
        let derived = derive(policy, network, account).ok();
        let carried = derived.filter(|derived| !derived.gaps.iter().any(UnenforcedRule::rejects_allowed));
        let change = carried.map_or(CageChange::Clear, |derived| CageChange::Set(derived.rules));
        let contract = network.book.contract(KnownContract::PolicyCage);
        let failed = |why| ControlError { account, chain: chain.deployment.plan.name, why };
        let request = TransactionRequest {
            from: Some(account),
            to: Some(contract.ok_or(ControlFault::NoContract).map_err(failed)?.into()),
            input: change.calldata().into(),
            ..Default::default()
        };
        let set = chain.devnet.run(move |chain| chain.set_storage_by_call(&request)).await;
        let set = set.map_err(ControlFault::from);
        set.and_then(|set| set.map_err(|error| ControlFault::Call(Box::new(error)))).map_err(failed)?;
    }
    Ok(())
}

/// Applies the change: preview, approval request for a privileged action, and commit through the whole pipeline.
/// `proof` is the operator's authorisation of exactly this change.
///
/// # Errors
/// The refusal of the pipeline, or an error if the operator did not approve.
pub async fn change(
    acting: &WriteAccess,
    opened: &OpenEnvironment,
    clock: &dyn Clock,
    devnet: bool,
    (state, change, proof): (&CageState, &CageChange, OperatorProof),
) -> Result<CommitOutcome, ToolError> {
    let proved = proof.redeem_on(devnet, &change.authorisation(state), clock.now_millis());
    proved.map_err(|error| ToolError::new(ErrorCode::ApprovalRequired, error))?;
    let chain = opened.world.chain(&state.chain_id.to_string())?;
    let outcome = match change {
        CageChange::Set(_) => "PolicyCage enforces the rules derived from the policy",
        CageChange::Clear => "PolicyCage has no rules for the account: it checks nothing and allows delegates nothing",
    };
    let account = acting.account.address();
    let proposal = Proposal {
        chain_id: state.chain_id,
        tool: META,
        call_id: CallId::new(clock.now_millis()),
        golem_id: GolemId::operator(),
        account,
        intent: ProposalIntent::PolicyCage,
        legs: vec![PlanLeg {
            purpose: LegPurpose::Main,
            to: chain.contract(KnownContract::PolicyCage)?,
            value: U256::ZERO,
            data: change.calldata(),
            gas_limit: change.gas(state.on_chain.as_ref()),
            slots: Vec::new(),
        }],
        outflows: Vec::new(),
        inflows: Vec::new(),
        allowances: Vec::new(),
        trade: None,
        recipients: vec![account],
        order: None,
        files: Vec::new(),
        replaces: None,
        arrival: None,
        expected_outcome: SafeText::clean(outcome, 200),
    };
    operator_action::carry_out(acting, async || {
        let asked = PhaseRequest { phase: Phase::Thriving, own: None };
        acting.pipeline.preview(proposal.clone(), Arc::clone(&acting.account), asked).await
    })
    .await
}

#[cfg(test)]
pub(crate) mod tests;
