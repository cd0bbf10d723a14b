//! `session_provision_key`: creates a session key for the wallet's owner to sign. It can do nothing before that.

use alloy::eips::BlockNumberOrTag;
use alloy::primitives::{Address, U256};
use alloy::providers::Provider as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::permission::{RequestedPermission, SessionPermission, permissions, selector};
use super::session_get_keys::keyring;
use crate::engine::{CallContext, ConnectedChain, RecordTool, ToolDef, ToolReply, address};
use crate::shared::{ChainNamed, chain_or_first, invalid};
use crate::wallet::wallet_get_delegation;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::format::utc;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_base::text::SafeText;
use bardo_base::units::TokenAmount;
use bardo_safety::custody::delegated::{CallLimit, CallShape, DelegationGrant, DelegationLimits, DraftBounds};
use bardo_safety::custody::session_keys::{LONGEST_LABEL, SessionKeyRequest};
use golem_chain::network::{Network, NetworkKind};
use golem_chain::provider::ProviderError;
use golem_chain::token::TokenId;

/// Definition of the `session_provision_key` tool.
pub static TOOL_DEF: ToolDef = ToolDef::record::<ProvisionSessionKey>();

/// Lifetime if none is given, in seconds: a day.
const DEFAULT_LIFETIME: u64 = 86_400;

/// Longest lifetime that an agent may ask for, in seconds: a week.
const LONGEST_LIFETIME: u64 = 7 * 86_400;

fn default_lifetime() -> u64 {
    DEFAULT_LIFETIME
}

/// Parameters of `session_provision_key`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Contracts with their functions.
    #[serde(default)]
    permissions: Vec<RequestedPermission>,
    /// Tokens that it may swap through the Universal Router, with the maximum loss of one call. Allowances for anybody else
    /// are then impossible.
    #[serde(default)]
    swaps: Vec<TokenLoss>,
    /// Chain name, alias or id of a key that only swaps; the permissions name it otherwise.
    #[serde(default)]
    chain_id: Option<ChainNamed>,
    /// Seconds until it expires, at most 604,800 (7 days).
    #[serde(default = "default_lifetime")]
    expires_in: u64,
    /// Label for people, at most 40 characters.
    #[serde(default)]
    label: Option<String>,
    /// Maximum number of calls. Required unless the owner's policy contract checks each call.
    #[serde(default)]
    max_calls: Option<u64>,
    /// Maximum value of the native token that one call may send, in whole tokens.
    #[serde(default)]
    max_value: Option<String>,
    /// Maximum loss of tokens by the owner in one call.
    #[serde(default)]
    max_loss: Vec<TokenLoss>,
    /// True if every call must pass the rules in the owner's policy contract.
    #[serde(default)]
    policy_contract: bool,
}

/// Maximum loss of one token.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TokenLoss {
    /// Symbol or 0x address.
    token: String,
    /// Amount in whole tokens.
    amount: String,
}

/// Result of `session_provision_key`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Id of the key.
    key_id: String,
    /// Public key: the uncompressed point without its prefix, 64 bytes in hexadecimal.
    public_key: String,
    /// Address of the key: the last 20 bytes of the public key's Keccak-256.
    address: String,
    /// Owner, whose signature it waits for.
    owner: String,
    /// Always `drafted`: it can sign nothing until its owner's signature is accepted.
    state: &'static str,
    /// End of its validity in UTC.
    expires_at: String,
    /// Contracts and functions that it may call.
    permissions: Vec<SessionPermission>,
    /// Every limit in words.
    limits: Vec<String>,
    /// Label; absent if it has none.
    label: Option<String>,
    /// Delegation that the owner's wallet signs, as typed data (EIP-712).
    typed_data: Value,
    /// Command by which the operator accepts the owner's signature.
    accept_with: String,
}

/// Implementation of `session_provision_key`; see [`TOOL_DEF`].
pub struct ProvisionSessionKey;

impl RecordTool for ProvisionSessionKey {
    const META: ToolMeta = ToolMeta {
        name: "session_provision_key",
        description: "Creates a session key with narrow, time-limited permissions over the wallet's account. The operator \
                      is asked for the password of its key file. It can sign nothing until the account's owner has signed \
                      its delegation. Refused unless its limits bound what a stolen key could take.",
        category: Category::Wallet,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer2,
        tick_budget: TickBudget::Fast,
        progress_steps: &["Generating key", "Registering permissions"],
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Creates a session key for the owner to sign: contracts, functions, end, number of calls, losses.",
        prompt_guidelines: Guidelines {
            thriving: "Ask for one for a certain series of calls; 24 hours are a reasonable end.",
            cautious: "Only the contracts and functions that are strictly needed.",
            declining: "Do not create new ones. Revoke what is not needed.",
            terminal: "Create none.",
            memory: None,
        },
        idempotent: false,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::Halt, Check::RateLimit],
        event_params: &["permissions", "expires_in", "label"],
        summary_fields: &["key_id", "state", "expires_at"],
        card: None,
        spenders: &[],
    };
    const ALWAYS_RUNS: bool = false;
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({
            "swaps": [{"token": "USDC", "amount": "100"}], "chain_id": "ethereum", "expires_in": 3_600, "max_calls": 3,
        })
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        let owner = context.world.account(None)?;
        let chain = chain_of(context, &params)?;
        let network = chain.network();
        let limits = limits(chain, owner, &params, context.world.clock.now_seconds()).await?;
        let label = SafeText::clean(params.label.as_deref().unwrap_or_default(), LONGEST_LABEL);
        // What its owner would sign is shown before anybody decides.
        let words: Vec<String> =
            limits.all().iter().map(|limit| wallet_get_delegation::describe_limit(limit, network)).collect();
        let shown = format!("A session key for {owner} on {network}: {}.", words.join("; "));
        context.step("Generating key");
        let request = SessionKeyRequest { owner, limits: limits.clone(), bounds: DraftBounds::Required, label };
        let (record, public_key) = keyring(context)?.draft(network, request, &shown).await?;
        context.step("Registering permissions");
        let typed_data = DelegationGrant::typed_data(network, &record.delegation)
            .map_err(|error| ToolError::new(ErrorCode::ChainUnsupported, error))?;
        let output = Output {
            key_id: record.id.to_string(),
            public_key: public_key.to_string(),
            address: record.address.to_string(),
            owner: owner.to_string(),
            state: record.state.as_str(),
            expires_at: utc(record.expires_at.saturating_mul(1_000)),
            permissions: permissions(&limits, network.chain_id),
            limits: words,
            label: Some(record.label.to_string()).filter(|label| !label.is_empty()),
            typed_data,
            accept_with: format!("bardo keys session accept {} SIGNATURE", record.id),
        };
        let said = format!(
            "Session key {} was created. It can sign nothing until {owner} has signed its delegation and the operator has \
             accepted the signature.",
            output.key_id
        );
        Ok(ToolReply::new(output, said))
    }
}

/// Chain that all permissions name.
fn chain_of<'c>(context: &'c CallContext, params: &Params) -> Result<&'c ConnectedChain, ToolError> {
    let mut ids: Vec<u64> = params.permissions.iter().flat_map(|one| one.chains.iter().copied()).collect();
    ids.sort_unstable();
    ids.dedup();
    let own = match (&params.chain_id, ids.as_slice()) {
        (None, []) if params.swaps.is_empty() => {
            return Err(invalid("permissions", &"name contracts with their chain, or tokens in `swaps`"));
        }
        (named, []) => return chain_or_first(context, named.as_ref()),
        (None, [id]) => return context.world.chain(&id.to_string()),
        (Some(named), [id]) => (chain_or_first(context, Some(named))?, *id),
        (_, [..]) => {
            return Err(invalid(
                "permissions",
                &"a delegation is for one chain: ask for one session key for each chain",
            ));
        }
    };
    match own {
        (chain, id) if chain.network().chain_id == id => Ok(chain),
        (chain, _) => {
            Err(invalid("chain_id", &format_args!("{} is not the chain of the permissions", chain.network())))
        }
    }
}

/// Limits of the delegation. Each contract may be called only with the functions that its own permission lists.
///
/// `now` is the machine's time in seconds since the Unix epoch.
async fn limits(
    chain: &ConnectedChain,
    owner: Address,
    params: &Params,
    now: u64,
) -> Result<DelegationLimits, ToolError> {
    let network = chain.network();
    let (mut targets, mut shapes) = (Vec::new(), Vec::new());
    for permission in &params.permissions {
        let target = contract_of(network, &permission.contract)?;
        if permission.methods.is_empty() {
            return Err(invalid("permissions", &"list the functions of each contract: none stands for no function"));
        }
        if !targets.contains(&target) {
            targets.push(target);
        }
        for method in &permission.methods {
            let shape = CallShape { target, method: selector(method, "permissions")?, fixed: Vec::new() };
            if !shapes.contains(&shape) {
                shapes.push(shape);
            }
        }
    }
    let mut losses: Vec<(Address, U256)> = Vec::new();
    for swap in &params.swaps {
        let (token, most) = loss(chain, swap, "swaps").await?;
        let calls = CallShape::swap(&network.book, token).ok_or_else(|| {
            let what = format_args!("{network} has no Universal Router with Permit2");
            ToolError::new(ErrorCode::ChainUnsupported, what)
        })?;
        for shape in calls {
            targets.extend(Some(shape.target).filter(|target| !targets.contains(target)));
            shapes.extend(Some(shape).filter(|shape| !shapes.contains(shape)));
        }
        losses.push((token, most));
    }
    let value = match &params.max_value {
        None => U256::ZERO,
        // Every supported chain's native token has 18 decimals.
        Some(text) => TokenAmount::parse(text, 18).map_err(|error| invalid("max_value", &error))?.raw(),
    };
    let before = end(chain, params.expires_in, now).await?;
    let mut limits = vec![
        CallLimit::Targets(targets),
        CallLimit::Shapes(shapes),
        CallLimit::Value(value),
        CallLimit::Time { after: 0, before },
    ];
    limits.extend(params.max_calls.map(CallLimit::Calls));
    for asked in &params.max_loss {
        losses.push(loss(chain, asked, "max_loss").await?);
    }
    limits.extend(losses.into_iter().map(|(token, amount)| CallLimit::TokenLoss { token, owner, amount }));
    if params.policy_contract {
        limits.push(CallLimit::PolicyCage);
    }
    DelegationLimits::new(limits).map_err(|error| invalid("permissions", &error))
}

/// Token and amount in raw units of a loss limit.
async fn loss(chain: &ConnectedChain, asked: &TokenLoss, parameter: &str) -> Result<(Address, U256), ToolError> {
    let token = chain.token(&asked.token).await?;
    let TokenId::Erc20(address) = token.id else {
        return Err(invalid(parameter, &"the native token has `max_value`"));
    };
    let amount = TokenAmount::parse(&asked.amount, token.decimals).map_err(|error| invalid(parameter, &error))?;
    Ok((address, amount.raw()))
}

/// End of a lifetime that begins with the chain's newest block, in seconds since the Unix epoch.
async fn end(chain: &ConnectedChain, lifetime: u64, machine: u64) -> Result<u64, ToolError> {
    if lifetime == 0 || lifetime > LONGEST_LIFETIME {
        return Err(invalid("expires_in", &format_args!("{lifetime} s: write from 1 to {LONGEST_LIFETIME} (7 days)")));
    }
    let network = chain.network();
    let head = chain.client.agreed().get_block_by_number(BlockNumberOrTag::Latest).await;
    let head = head.map_err(ProviderError::from)?;
    let head = head.ok_or_else(|| ToolError::new(ErrorCode::ChainInconsistent, "the chain has no newest block"))?;
    let block = head.header.timestamp;
    if network.kind != NetworkKind::Devnet && !network.times(machine, block).agree() {
        let what = format_args!("the clocks of this machine and of {network} disagree, so that no end can be set");
        return Err(ToolError::new(ErrorCode::ChainInconsistent, what));
    }
    block.checked_add(lifetime).ok_or_else(|| invalid("expires_in", &"the time is too large"))
}

/// Finds a contract by its address, a listed token's symbol, or its name in the chain's address book.
fn contract_of(network: &Network, text: &str) -> Result<Address, ToolError> {
    match network.book.contract_named(text) {
        Some(found) => Ok(found),
        None => address(text, "permissions"),
    }
}
