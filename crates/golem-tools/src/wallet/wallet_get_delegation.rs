//! `wallet_get_delegation`: what may act for the wallet's account, by its code and by the delegations that were used.
//!
//! A delegation of the framework (ERC-7710) is a signed message: the chain learns of it when it is first used. What is
//! listed here was therefore used at least once; one that waits to be used leaves no trace.

use std::collections::BTreeMap;

use alloy::primitives::{Address, B256};
use alloy::providers::Provider as _;
use alloy::providers::bindings::IMulticall3;
use alloy::rpc::types::{Filter, Log};
use alloy::sol_types::{SolCall as _, SolEvent as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::account_code::{AccountKindByCode, code_and_nonce};
use crate::engine::{CallContext, ConnectedChain, ReadTool, ToolDef, ToolReply, address};
use crate::session::selector;
use crate::shared::{ChainNamed, chain_or_first};
use bardo_abi::delegation::{DeleGator, Delegation, DelegationManager};
use bardo_abi::erc20::Erc20;
use bardo_abi::permit2::Permit2;
use bardo_abi::universal_router::UniversalRouter;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_base::text::SafeText;
use bardo_base::units::TokenAmount;
use bardo_safety::custody::delegated::{CallLimit, DelegationGrant, delegation_hash};
use golem_chain::multicall::CallBatch;
use golem_chain::network::{KnownContract, Network};
use golem_chain::provider::ProviderError;

/// Definition of the `wallet_get_delegation` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<GetDelegation>();

/// Maximum number of delegations that are read.
const MOST_DELEGATIONS: usize = 100;

/// Blocks that are searched if the endpoint does not search the whole chain at once.
const RECENT_BLOCKS: u64 = 10_000;

/// Delegations that the chain cannot show.
const UNSEEN: &str = "Delegations that were signed and never used leave no trace on the chain.";

/// Parameters of `wallet_get_delegation`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Contract whose calls are asked about, as a 0x address.
    #[serde(default)]
    contract: Option<String>,
    /// Function that is asked about: a signature such as "transfer(address,uint256)", or its selector as 0x and eight
    /// digits.
    #[serde(default)]
    method: Option<String>,
    /// Chain name, alias or id; defaults to the network's first chain.
    #[serde(default)]
    chain_id: Option<ChainNamed>,
}

/// Result of `wallet_get_delegation`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Name of the chain.
    chain: String,
    /// Address of the account.
    account: String,
    /// True if the account runs the code of a contract (EIP-7702).
    delegated: bool,
    /// Address of that contract; absent without a delegation.
    delegate_address: Option<String>,
    /// Its name in the address book; absent for an unknown contract.
    delegate_label: Option<String>,
    /// True if it is the delegation framework of the address book, whose delegations can be read. What another contract
    /// lets others do is unknown.
    understood: bool,
    /// True if the framework's manager is paused, so that no delegation works; absent unless it is understood.
    paused: Option<bool>,
    /// Delegations that were used, in the order of their hashes.
    permissions: Vec<UsedDelegation>,
    /// Latest end of a permission in force, in seconds since the Unix epoch; absent if there is none, or if the end of
    /// one is unknown. The account's own delegation (EIP-7702) has no end.
    expires_at: Option<u64>,
    /// First block that was searched; absent unless the contract is understood.
    searched_from_block: Option<u64>,
    /// Last block that was searched; absent unless the contract is understood.
    searched_to_block: Option<u64>,
    /// False if a part of the chain was not searched, or delegations were left out.
    complete: bool,
    /// Delegations that the chain cannot show.
    unseen: &'static str,
}

/// Delegation that was used at least once.
#[derive(Debug, Serialize, JsonSchema)]
struct UsedDelegation {
    /// Hash by which the manager knows it.
    hash: String,
    /// Address that may act.
    delegate: String,
    /// True if it works now, by its end and by what the manager says; its other limits can still refuse a call. One
    /// whose limits are not understood counts as in force until it is revoked.
    in_force: bool,
    /// True if the owner has revoked it.
    revoked: bool,
    /// End in seconds since the Unix epoch; absent if it is unknown.
    expires_at: Option<u64>,
    /// Limits of what it permits; empty if they are not understood.
    limits: Vec<String>,
    /// True if the limits let a call of the asked contract and function pass; absent if nothing was asked, or if the
    /// limits are not understood.
    permits: Option<bool>,
    /// Reason why the limits are not understood; absent if they are.
    not_understood: Option<String>,
}

/// Implementation of `wallet_get_delegation`; see [`TOOL_DEF`].
pub struct GetDelegation;

impl ReadTool for GetDelegation {
    const META: ToolMeta = ToolMeta {
        name: "wallet_get_delegation",
        description: "Shows whether the wallet's account runs a contract's code (EIP-7702), and, if it is the known \
                      delegation framework, every delegation that was used: delegate, limits, end, and whether it \
                      permits a contract or function. Changes nothing.",
        category: Category::Wallet,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Fast,
        progress_steps: &["Checking delegation"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "What may act for the wallet's account, by its code and by used delegations.",
        prompt_guidelines: Guidelines {
            thriving: "Check before an action that needs a delegation.",
            cautious: "Always check, and tell the operator of any that is no longer needed.",
            declining: "Look for delegations that the operator should revoke.",
            terminal: "Check once, so that the operator can revoke all.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &["contract", "method", "chain_id"],
        summary_fields: &["delegated", "delegate_address"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({"chain_id": "ethereum"})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        let chain = chain_or_first(context, params.chain_id.as_ref())?;
        let asked = Asked::parse(&params)?;
        let account = context.world.account(None)?;
        context.step("Checking delegation");
        let network = chain.network();
        let (code, _) = code_and_nonce(chain, account).await?;
        let delegate = AccountKindByCode::of(&code).delegate();
        let framework = framework(chain, account, delegate).await?;
        let used = match &framework {
            Some(framework) => Some(used(chain, account, framework, &asked).await?),
            None => None,
        };
        let in_force = || used.iter().flat_map(|used| &used.delegations).filter(|one| one.in_force);
        let ends: Option<Vec<u64>> = in_force().map(|one| one.expires_at).collect();
        let label = delegate.and_then(|delegate| network.book.name_of(delegate));
        let mut said = match delegate {
            None => format!("The account runs no contract's code on {network}."),
            Some(delegate) => {
                let name = label.clone().unwrap_or_else(|| "an unknown contract".to_owned());
                format!("The account runs the code of {name} ({delegate}) on {network}.")
            }
        };
        match (&used, delegate) {
            (Some(used), _) => {
                said.push_str(&format!(
                    " {} delegations were used, of which {} are in force.",
                    used.delegations.len(),
                    in_force().count()
                ));
            }
            (None, Some(_)) => said.push_str(" What it lets others do cannot be read."),
            (None, None) => {}
        }
        let output = Output {
            chain: network.name.clone(),
            account: account.to_string(),
            delegated: delegate.is_some(),
            delegate_address: delegate.map(|delegate| delegate.to_string()),
            delegate_label: label,
            understood: framework.is_some(),
            paused: framework.map(|framework| framework.paused),
            expires_at: ends.and_then(|ends| ends.into_iter().max()),
            searched_from_block: used.as_ref().map(|used| used.blocks.0),
            searched_to_block: used.as_ref().map(|used| used.blocks.1),
            complete: used.as_ref().map_or(delegate.is_none(), |used| used.complete),
            permissions: used.map(|used| used.delegations).unwrap_or_default(),
            unseen: UNSEEN,
        };
        Ok(ToolReply::new(output, said))
    }
}

/// Contract and function that a call asks about.
struct Asked {
    contract: Option<Address>,
    method: Option<[u8; 4]>,
}

impl Asked {
    fn parse(params: &Params) -> Result<Self, ToolError> {
        let contract = params.contract.as_deref().map(|text| address(text, "contract")).transpose()?;
        Ok(Self { contract, method: params.method.as_deref().map(|text| selector(text, "method")).transpose()? })
    }

    /// True if the limits let such a call pass; `None` if nothing is asked.
    fn passes(&self, limits: &[CallLimit]) -> Option<bool> {
        if self.contract.is_none() && self.method.is_none() {
            return None;
        }
        Some(limits.iter().all(|limit| match limit {
            CallLimit::Targets(targets) => self.contract.is_none_or(|asked| targets.contains(&asked)),
            CallLimit::Methods(methods) => self.method.is_none_or(|asked| methods.contains(&asked)),
            // With some arguments; which ones is not asked.
            CallLimit::Shapes(shapes) => shapes.iter().any(|shape| {
                self.contract.is_none_or(|asked| shape.target == asked)
                    && self.method.is_none_or(|asked| shape.method == asked)
            }),
            CallLimit::Value(_)
            | CallLimit::Time { .. }
            | CallLimit::Calls(_)
            | CallLimit::TokenLoss { .. }
            | CallLimit::PolicyCage => true,
        }))
    }
}

/// Delegation framework that an account's code belongs to.
struct Framework {
    manager: Address,
    paused: bool,
}

/// The framework of the address book, if the account runs its code and names its manager.
///
/// # Errors
/// The errors of the chain; `CHAIN_INCONSISTENT` if the framework's contracts do not answer.
async fn framework(
    chain: &ConnectedChain,
    account: Address,
    delegate: Option<Address>,
) -> Result<Option<Framework>, ToolError> {
    let book = &chain.network().book;
    let (Some(delegate), Some(known), Some(manager)) =
        (delegate, book.contract(KnownContract::Eip7702Delegator), book.contract(KnownContract::DelegationManager))
    else {
        return Ok(None);
    };
    if delegate != known {
        return Ok(None);
    }
    let mut calls = CallBatch::default();
    let named = calls.push(account, &DeleGator::delegationManagerCall {});
    let paused = calls.push(manager, &DelegationManager::pausedCall {});
    let answers = chain.ask(calls).await?;
    let (Some(named), Some(paused)) = (named.take(&answers), paused.take(&answers)) else {
        let what = format_args!("the delegation framework on {} does not answer", chain.network());
        return Err(ToolError::new(ErrorCode::ChainInconsistent, what));
    };
    Ok((named == manager).then_some(Framework { manager, paused }))
}

/// Delegations that were used, and the blocks that were searched for them.
struct UsedDelegations {
    delegations: Vec<UsedDelegation>,
    blocks: (u64, u64),
    complete: bool,
}

/// Finds the delegations of `account` that were used, and reads which of them the manager still accepts.
///
/// # Errors
/// The errors of the chain; `CHAIN_INCONSISTENT` if the manager does not answer.
async fn used(
    chain: &ConnectedChain,
    account: Address,
    framework: &Framework,
    asked: &Asked,
) -> Result<UsedDelegations, ToolError> {
    let manager = framework.manager;
    let newest = chain.client.agreed().get_block_number().await.map_err(ProviderError::from)?;
    let (logs, first) = match logs(chain, account, manager, (0, newest)).await {
        Ok(logs) => (logs, 0),
        // Endpoints limit the range of blocks with this error; any other cause comes again.
        Err(ProviderError::Rpc { .. }) if newest >= RECENT_BLOCKS => {
            let first = newest - (RECENT_BLOCKS - 1);
            (logs(chain, account, manager, (first, newest)).await?, first)
        }
        Err(error) => return Err(error.into()),
    };
    let events = logs.iter().filter(|log| log.address() == manager);
    let events = events.filter_map(|log| DelegationManager::RedeemedDelegation::decode_log(&log.inner).ok());
    let mut found: BTreeMap<B256, Delegation> = BTreeMap::new();
    // A chain of delegations has one event per link; only the account's own are its to give.
    for event in events.filter(|event| event.data.delegation.delegator == account) {
        found.insert(delegation_hash(&event.data.delegation), event.data.delegation);
    }
    let complete = first == 0 && found.len() <= MOST_DELEGATIONS;
    let found: Vec<_> = found.into_iter().take(MOST_DELEGATIONS).collect();
    let mut calls = CallBatch::default();
    let time = calls.push(chain.contract(KnownContract::Multicall3)?, &IMulticall3::getCurrentBlockTimestampCall {});
    let revoked: Vec<_> = found
        .iter()
        .map(|(hash, _)| calls.push(manager, &DelegationManager::disabledDelegationsCall { delegationHash: *hash }))
        .collect();
    let answers = chain.ask(calls).await?;
    let silent = || {
        let what = format_args!("the delegation manager on {} does not answer", chain.network());
        ToolError::new(ErrorCode::ChainInconsistent, what)
    };
    let now: u64 = time.take(&answers).ok_or_else(silent)?.saturating_to();
    let delegations = found.into_iter().zip(revoked).map(|((hash, delegation), revoked)| {
        let revoked = revoked.take(&answers).ok_or_else(silent)?;
        let read = described(chain, (hash, delegation), revoked, now, asked);
        Ok(UsedDelegation { in_force: read.in_force && !framework.paused, ..read })
    });
    Ok(UsedDelegations {
        delegations: delegations.collect::<Result<_, ToolError>>()?,
        blocks: (first, newest),
        complete,
    })
}

async fn logs(
    chain: &ConnectedChain,
    account: Address,
    manager: Address,
    (first, last): (u64, u64),
) -> Result<Vec<Log>, ProviderError> {
    let filter = Filter::new().address(manager).from_block(first).to_block(last).topic1(account.into_word());
    let filter = filter.event_signature(DelegationManager::RedeemedDelegation::SIGNATURE_HASH);
    chain.client.agreed().get_logs(&filter).await.map_err(ProviderError::from)
}

fn described(
    chain: &ConnectedChain,
    (hash, delegation): (B256, Delegation),
    revoked: bool,
    now: u64,
    asked: &Asked,
) -> UsedDelegation {
    let delegate = delegation.delegate.to_string();
    let grant = DelegationGrant::read(chain.network(), delegation);
    let limits = grant.as_ref().map(|grant| grant.limits().all()).unwrap_or_default();
    let times = limits.iter().filter_map(|limit| match limit {
        CallLimit::Time { after, before } => Some((*after, if *before == 0 { u64::MAX } else { *before })),
        CallLimit::Targets(_)
        | CallLimit::Methods(_)
        | CallLimit::Shapes(_)
        | CallLimit::Value(_)
        | CallLimit::Calls(_)
        | CallLimit::TokenLoss { .. }
        | CallLimit::PolicyCage => None,
    });
    let within = times.clone().all(|(after, before)| after < now && now < before);
    UsedDelegation {
        hash: hash.to_string(),
        delegate,
        in_force: !revoked && within,
        revoked,
        expires_at: times.map(|(_, before)| before).min(),
        limits: limits.iter().map(|limit| describe_limit(limit, chain.network())).collect(),
        permits: grant.as_ref().ok().and_then(|grant| asked.passes(grant.limits().all())),
        not_understood: grant.err().map(|error| SafeText::clean(&error.to_string(), 300).to_string()),
    }
}

/// Time in seconds since the Unix epoch, as a date in UTC.
fn date(seconds: u64) -> String {
    bardo_base::format::utc(seconds.saturating_mul(1_000))
}

/// Functions that session keys and delegations usually name.
const FUNCTIONS: [(&str, [u8; 4]); 5] = [
    (Erc20::approveCall::SIGNATURE, Erc20::approveCall::SELECTOR),
    (Erc20::transferCall::SIGNATURE, Erc20::transferCall::SELECTOR),
    (Permit2::approveCall::SIGNATURE, Permit2::approveCall::SELECTOR),
    (UniversalRouter::execute_0Call::SIGNATURE, UniversalRouter::execute_0Call::SELECTOR),
    (UniversalRouter::execute_1Call::SIGNATURE, UniversalRouter::execute_1Call::SELECTOR),
];

/// Describes a limit for people: addresses are whole, with the names of the address book, functions have their signature
/// where it is known, and listed tokens have amounts in whole tokens.
pub fn describe_limit(limit: &CallLimit, network: &Network) -> String {
    let book = &network.book;
    let named = |address: &Address| match book.name_of(*address) {
        Some(name) => format!("{name} ({address})"),
        None => address.to_string(),
    };
    let function = |selector: &[u8; 4]| {
        let hex = alloy::primitives::hex::encode_prefixed(selector);
        match FUNCTIONS.iter().find(|(_, known)| known == selector) {
            Some((signature, _)) => format!("{signature} ({hex})"),
            None => hex,
        }
    };
    match limit {
        CallLimit::Targets(targets) => {
            format!("calls only {}", targets.iter().map(named).collect::<Vec<_>>().join(", "))
        }
        CallLimit::Methods(methods) => {
            format!("calls only the functions {}", methods.iter().map(function).collect::<Vec<_>>().join(", "))
        }
        CallLimit::Shapes(shapes) => {
            let shapes = shapes.iter().map(|shape| {
                let fixed = shape.fixed.iter().map(|(argument, address)| {
                    format!(" with argument {} = {}", u16::from(*argument) + 1, named(address))
                });
                let fixed = fixed.collect::<Vec<_>>().join(" and");
                format!("{} of {}{fixed}", function(&shape.method), named(&shape.target))
            });
            format!("makes only the calls {}", shapes.collect::<Vec<_>>().join("; "))
        }
        CallLimit::Value(most) if most.is_zero() => format!("sends no {} with a call", network.native_symbol),
        CallLimit::Value(most) => {
            format!("sends at most {} {} with a call", TokenAmount::ether(*most), network.native_symbol)
        }
        CallLimit::Time { after, before } => match (after, before) {
            (0, 0) => "has no bound in time".to_owned(),
            (0, before) => format!("works before {}", date(*before)),
            (after, 0) => format!("works after {}", date(*after)),
            (after, before) => format!("works after {} and before {}", date(*after), date(*before)),
        },
        CallLimit::Calls(most) => format!("works for at most {most} calls"),
        CallLimit::TokenLoss { token, owner, amount } => {
            let known = book.token_at(*token).and_then(|known| TokenAmount::new(*amount, known.decimals).ok());
            let amount = known.map_or_else(|| format!("{amount} raw units of"), |amount| amount.to_string());
            format!("takes at most {amount} {} from {} per call", named(token), named(owner))
        }
        CallLimit::PolicyCage => "obeys the owner's policy contract".to_owned(),
    }
}
