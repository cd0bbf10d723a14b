//! `wallet_get_status`: the wallet's account on every chain, how it signs, and the policy that it acts under.

use alloy::primitives::Address;
use futures::future::join_all;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::account_code::{AccountKindByCode, code_and_nonce};
use crate::data::get_balances::{held_on, tokens_of, value};
use crate::engine::{CallContext, ConnectedChain, ReadTool, ToolDef, ToolEnvironment, ToolReply};
use crate::identity::own_agent;
use crate::session::session_get_keys;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::format::dollars;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_base::units::Usd;
use bardo_safety::AccountKind;
use bardo_safety::custody::SafeState;
use bardo_safety::policy::{MaxUsd, Policy};
use bardo_safety::safe_proposals::SafeProposalRecord;

/// Definition of the `wallet_get_status` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<GetStatus>();

/// Parameters of `wallet_get_status`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {}

/// Result of `wallet_get_status`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Kind of custody: `local_key`, `development_key` (public, devnets only), `delegated`, `embedded` or `safe`; absent
    /// if that is not known.
    provider: Option<&'static str>,
    /// Address of the account.
    address: String,
    /// `eoa` if the account has no code on any chain that was read, `eip7702` if it has delegated on one, `contract` if
    /// it is a contract on one.
    account_type: &'static str,
    /// Value over all chains that were read, in dollars. Tokens without a price are not counted.
    total_usd: String,
    /// One entry per chain that was read.
    balances: Vec<ChainStatus>,
    /// Chains that could not be read, with the reason; nothing of them is counted.
    not_read: Vec<UnreadChain>,
    /// Number of session keys of this machine that are active by its records and clocks, for any account.
    active_session_keys: usize,
    /// Nonces with signed transactions whose outcome is not final, over all chains that were read; absent without a
    /// ledger.
    pending_transactions: Option<usize>,
    /// Policy in force; absent if none is set up.
    policy_summary: Option<PolicySummary>,
    /// Agent (ERC-8004) that the account owns or serves as a wallet; absent without one, and on chains that could not be
    /// read.
    identity_status: Option<IdentityLink>,
}

/// Registered agent of the account.
#[derive(Debug, Serialize, JsonSchema)]
struct IdentityLink {
    /// Id by chain and number, such as `8453:42`.
    agent_id: String,
    /// EIP-155 id of its chain.
    chain_id: u64,
    /// `owner` if the account owns the agent; `wallet` if it is only the agent's wallet.
    role: &'static str,
}

/// The account on one chain.
#[derive(Debug, Serialize, JsonSchema)]
struct ChainStatus {
    /// Name of the chain.
    chain: String,
    /// EIP-155 chain id.
    chain_id: u64,
    /// Number of the block in which the balances were read.
    block_number: u64,
    /// Balance of the native token, in whole tokens.
    native_balance: String,
    /// Value of that balance in dollars; absent without a price.
    native_usd: Option<String>,
    /// Number of listed tokens with a balance, without the native one.
    token_count: usize,
    /// Number of balances without a price, which the value leaves out.
    unpriced: usize,
    /// Value on this chain in dollars.
    total_usd: String,
    /// Number of transactions that the account has sent.
    nonce: u64,
    /// `eoa`, `eip7702` or `contract`.
    account_type: &'static str,
    /// Contract whose code the account runs (EIP-7702), with its name if it is known; absent without a delegation.
    delegate: Option<String>,
    /// State of the Safe, for the account of a Safe on its chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    safe: Option<SafeStatus>,
    /// Nonces with signed transactions whose outcome is not final; absent without a ledger.
    pending_transactions: Option<usize>,
}

/// Chain that could not be read.
#[derive(Debug, Serialize, JsonSchema)]
struct UnreadChain {
    /// Name of the chain.
    chain: String,
    /// Reason why it could not be read.
    reason: String,
}

/// Policy in force, in brief.
#[derive(Debug, Serialize, JsonSchema)]
struct PolicySummary {
    /// Name of the policy; a star marks a file that differs from the preset.
    name: String,
    /// Hash of the policy.
    hash: String,
    /// Maximum value of one trade in dollars; absent without a limit.
    max_single_trade_usd: Option<String>,
    /// Maximum spending in a day, in dollars; absent without a limit.
    max_daily_spend_usd: Option<String>,
    /// Value in dollars above which the operator is asked; absent without one.
    approval_above_usd: Option<String>,
}

/// Implementation of `wallet_get_status`; see [`TOOL_DEF`].
pub struct GetStatus;

impl ReadTool for GetStatus {
    const META: ToolMeta = ToolMeta {
        name: "wallet_get_status",
        description: "Shows how the wallet's account signs, its type, native balance, value and nonce on every chain, \
                      its unconfirmed transactions, and the policy in force. Changes nothing.",
        category: Category::Wallet,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Medium,
        progress_steps: &["Querying provider", "Loading balances", "Checking session keys"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "State of the wallet on every chain: custody, balances, nonce, unconfirmed transactions, policy.",
        prompt_guidelines: Guidelines {
            thriving: "Check at each heartbeat to know the balances.",
            cautious: "Check often, and look for balances that changed without an action of yours.",
            declining: "Check before each exit.",
            terminal: "Check once before the end.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &[],
        summary_fields: &["provider", "total_usd", "pending_transactions"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({})
    }

    async fn run(context: &CallContext, _params: Params) -> Result<ToolReply<Output>, ToolError> {
        context.step("Querying provider");
        let world = &context.world;
        let account = world.account(None)?;
        let chains = world.some_chains()?;
        context.step("Loading balances");
        let read = join_all(chains.iter().map(|chain| on_chain(world, chain, account))).await;
        context.step("Checking session keys");
        let mut total = Usd::ZERO;
        let mut balances = Vec::new();
        let mut not_read: Vec<UnreadChain> = Vec::new();
        for (chain, read) in chains.iter().zip(read) {
            match read {
                Ok((status, value)) => {
                    total =
                        total.checked_add(value).map_err(|error| ToolError::new(ErrorCode::PriceUnavailable, error))?;
                    balances.push(status);
                }
                Err(error) => not_read
                    .push(UnreadChain { chain: chain.network().name.clone(), reason: error.message().to_owned() }),
            }
        }
        not_read.extend(
            world.lost().iter().map(|lost| UnreadChain { chain: lost.name.clone(), reason: lost.reason.to_string() }),
        );
        let pending = balances.iter().map(|status| status.pending_transactions);
        let pending = pending.sum::<Option<usize>>().filter(|_| world.rules.is_some());
        let has = |kind: &str| balances.iter().any(|status| status.account_type == kind);
        let account_type = ["contract", "eip7702"].into_iter().find(|kind| has(kind)).unwrap_or("eoa");
        let mut said = format!("The account holds {} on {} chains", dollars(total), balances.len());
        match pending {
            Some(0) => said.push_str(" and has no unconfirmed transactions."),
            Some(count) => said.push_str(&format!(" and has {count} unconfirmed transactions.")),
            None => said.push('.'),
        }
        if world.paper().is_some() {
            said.push_str(" PAPER: includes paper trades.");
        }
        let names: Vec<_> = not_read.iter().map(|lost| lost.chain.as_str()).collect();
        if !names.is_empty() {
            said.push_str(&format!(" Not included, because they cannot be read: {}.", names.join(", ")));
        }
        let output = Output {
            provider: world.custody.map(|kind| kind.as_str()),
            address: account.to_string(),
            account_type,
            total_usd: total.to_string(),
            balances,
            not_read,
            active_session_keys: session_get_keys::active(world)?.len(),
            pending_transactions: pending,
            policy_summary: world.policy().map(|policy| summary(&policy)),
            identity_status: own_agent(context).await.map(|(id, owns)| IdentityLink {
                agent_id: id.to_string(),
                chain_id: id.chain_id,
                role: if owns { "owner" } else { "wallet" },
            }),
        };
        Ok(ToolReply::new(output, said))
    }
}

/// A Safe as the chain has it.
#[derive(Debug, Serialize, JsonSchema)]
struct SafeStatus {
    /// Version, by the contract that it runs.
    version: &'static str,
    /// Addresses of the owners.
    owners: Vec<String>,
    /// Number of owners that must agree.
    threshold: String,
    /// Number of the next transaction.
    nonce: String,
    /// Modules, which may act without any owner.
    modules: Vec<String>,
    /// Guard, which can refuse transactions; absent without one.
    guard: Option<String>,
    /// Handler of calls that the Safe does not know; absent without one.
    fallback_handler: Option<String>,
    /// Proposals that the Safe can still execute; empty for a Safe that needs one owner.
    proposals: Vec<ProposalStatus>,
}

/// Proposal that was signed for the other owners of a Safe.
#[derive(Debug, Serialize, JsonSchema)]
struct ProposalStatus {
    /// Hash of its first transaction.
    id: String,
    /// `waiting`, `executing` or `rejected`.
    state: &'static str,
    /// Number of its first transaction.
    nonce: String,
    /// Outcome that the proposing call expects.
    expected_outcome: String,
    /// Owners that have signed.
    signed_by: Vec<String>,
    /// Owners that have not signed.
    missing: Vec<String>,
}

impl ProposalStatus {
    fn of(record: &SafeProposalRecord, owners: &[Address]) -> Self {
        let missing = owners.iter().filter(|owner| !record.signatures.contains_key(*owner));
        Self {
            id: record.id.to_string(),
            state: record.state.as_str(),
            nonce: record.nonce.to_string(),
            expected_outcome: record.proposal.expected_outcome.to_string(),
            signed_by: record.signatures.keys().map(ToString::to_string).collect(),
            missing: missing.map(ToString::to_string).collect(),
        }
    }
}

impl SafeStatus {
    fn of(state: SafeState, proposals: &[SafeProposalRecord]) -> Self {
        let list = |list: &[Address]| list.iter().map(ToString::to_string).collect();
        let one = |address: Address| (!address.is_zero()).then(|| address.to_string());
        Self {
            version: state.version,
            owners: list(&state.owners),
            threshold: state.threshold.to_string(),
            nonce: state.nonce.to_string(),
            modules: list(&state.modules),
            guard: one(state.guard),
            fallback_handler: one(state.handler),
            proposals: proposals.iter().map(|record| ProposalStatus::of(record, &state.owners)).collect(),
        }
    }
}

/// The account on one chain, with its value there.
async fn on_chain(
    world: &ToolEnvironment,
    chain: &ConnectedChain,
    account: Address,
) -> Result<(ChainStatus, Usd), ToolError> {
    let network = chain.network();
    let held = async { held_on(world, chain, account, tokens_of(chain, None).await?).await };
    let ((code, nonce), held) = futures::try_join!(code_and_nonce(chain, account), held)?;
    let (read, total) = value(chain, held, true).await?;
    let pending =
        world.rules.as_ref().map(|rules| rules.unconfirmed(network.chain_id, world.signer_of(account))).transpose();
    let pending = pending.map_err(|error| ToolError::new(ErrorCode::StoreUnavailable, error))?;
    let kind = AccountKindByCode::of(&code);
    let safe = match (world.custody, kind) {
        (Some(AccountKind::Safe), AccountKindByCode::Contract) => {
            let state = SafeState::read(&chain.client, account).await;
            let state = state.map_err(|refusal| ToolError::new(refusal.code(), refusal))?;
            let proposals =
                world.rules.as_ref().map(|rules| rules.safe_proposals(network.chain_id, account)).transpose();
            let proposals = proposals.map_err(|error| ToolError::new(ErrorCode::StoreUnavailable, error))?;
            Some(SafeStatus::of(state, &proposals.unwrap_or_default()))
        }
        // On another chain the address may be nothing.
        _ => None,
    };
    let native = read.balances.iter().find(|balance| balance.address.is_none());
    let native =
        native.ok_or_else(|| ToolError::new(ErrorCode::ChainInconsistent, "the native balance was not read"))?;
    let not_empty = || read.balances.iter().filter(|balance| balance.raw != "0");
    let status = ChainStatus {
        chain: network.name.clone(),
        chain_id: network.chain_id,
        block_number: read.block_number,
        native_balance: native.amount.clone(),
        native_usd: native.value_usd.clone(),
        token_count: not_empty().filter(|balance| balance.address.is_some()).count(),
        unpriced: not_empty().filter(|balance| balance.no_price.is_some()).count(),
        total_usd: read.total_usd.clone(),
        nonce,
        account_type: kind.word(),
        safe,
        delegate: kind.delegate().map(|delegate| match network.book.name_of(delegate) {
            Some(name) => format!("{name} ({delegate})"),
            None => delegate.to_string(),
        }),
        pending_transactions: pending,
    };
    Ok((status, total))
}

fn summary(policy: &Policy) -> PolicySummary {
    let rules = policy.rules();
    let dollars = |limit: MaxUsd| limit.0.map(|limit| limit.to_string());
    PolicySummary {
        name: policy.name(),
        hash: policy.hash().to_string(),
        max_single_trade_usd: dollars(rules.max_single_trade_usd),
        max_daily_spend_usd: dollars(rules.max_daily_spend_usd),
        approval_above_usd: dollars(rules.require_human_approval_above_usd),
    }
}
