//! `session_get_keys`: session keys of this machine, with what they may do, until when, and how often they did.

use futures::future::join_all;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::permission::{SessionPermission, permissions};
use crate::engine::{
    CallContext, ConnectedChain, ListedSessionKey, ReadTool, SessionKeyring, ToolDef, ToolEnvironment, ToolReply,
};
use crate::wallet::wallet_get_delegation;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::format::{counted, utc};
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_base::text::SafeText;
use bardo_safety::custody::delegated::{DelegationGrant, DelegationNotReady};
use bardo_safety::custody::session_keys::{SessionKeyRecord, SessionKeyState};
use bardo_safety::policy::ChainId;

/// Definition of the `session_get_keys` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<GetSessionKeys>();

/// Parameters of `session_get_keys`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// True to list expired, used up and revoked keys as well.
    #[serde(default)]
    include_ended: bool,
}

/// Result of `session_get_keys`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Session keys, the newest first within each ledger.
    keys: Vec<SessionKeyInfo>,
    /// Number of keys in the list.
    total: usize,
    /// Number of keys that can act now.
    active: usize,
    /// Ledgers or rows that could not be read.
    unreadable: Vec<UnreadableKey>,
}

/// Session key, without its secret.
#[derive(Debug, Serialize, JsonSchema)]
struct SessionKeyInfo {
    /// Id of the key.
    key_id: String,
    /// Label for people; absent if it has none.
    label: Option<String>,
    /// State by records and clocks of this machine: `active`, `drafted` (its owner has not signed), `unverified` (its
    /// record fits no signature of its owner), `expired`, `used_up` or `revoked`.
    state: &'static str,
    /// Address of the key.
    address: String,
    /// Owner of the account that it acts for.
    owner: String,
    /// EIP-155 id of its chain.
    chain_id: u64,
    /// Time of its creation in UTC.
    created_at: String,
    /// End of its validity in UTC.
    expires_at: String,
    /// Contracts and functions that it may call; empty if its limits cannot be read here.
    permissions: Vec<SessionPermission>,
    /// Every limit of its delegation in words; empty if they cannot be read here.
    limits: Vec<String>,
    /// Number of signatures that it made.
    usage_count: u64,
    /// Maximum number of signatures; absent without a limit.
    max_calls: Option<u64>,
    /// Time of its last signature in UTC; absent if it made none.
    last_used: Option<String>,
    /// True if the chain accepts its delegation now, false if not; absent if that was not or could not be asked.
    accepted_on_chain: Option<bool>,
    /// Reason for which the chain does not accept it, or could not be asked; absent otherwise.
    on_chain_problem: Option<String>,
    /// Name of the ledger that it belongs to.
    ledger: String,
}

/// Session key that could not be read.
#[derive(Debug, Serialize, JsonSchema)]
struct UnreadableKey {
    /// Name of the ledger.
    ledger: String,
    /// Error that reading it gave.
    reason: String,
}

/// Implementation of `session_get_keys`; see [`TOOL_DEF`].
pub struct GetSessionKeys;

impl ReadTool for GetSessionKeys {
    const META: ToolMeta = ToolMeta {
        name: "session_get_keys",
        description: "Lists the session keys of this machine: whom they act for, contracts and functions, end, number of \
                      signatures, and whether the chain accepts their delegation. Never a secret.",
        category: Category::Wallet,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Fast,
        progress_steps: &["Loading session keys"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "Session keys with their limits, end and use. Read-only.",
        prompt_guidelines: Guidelines {
            thriving: "Review from time to time that each key is still needed.",
            cautious: "Review often, and revoke what is not needed.",
            declining: "Review, to revoke what the exits do not need.",
            terminal: "Check once before all are revoked.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &["include_ended"],
        summary_fields: &["total", "active"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        context.step("Loading session keys");
        let world = &context.world;
        let now = world.clock.now_seconds();
        let (mut listed, mut unreadable) = (Vec::new(), Vec::new());
        for ListedSessionKey { ledger, record, is_signed } in keyring(context)?.list()? {
            match record {
                Ok(record) => {
                    let state = state(&record, is_signed, now);
                    let ended = matches!(state, "expired" | "used_up" | "revoked");
                    if params.include_ended || !ended {
                        listed.push((ledger, record, state));
                    }
                }
                Err(error) => unreadable.push(UnreadableKey { ledger, reason: error.message().to_owned() }),
            }
        }
        let chains = world.some_chains()?;
        let keys = join_all(listed.into_iter().map(|(ledger, record, state)| {
            let chain = chains.iter().find(|chain| chain.network().chain_id == record.chain_id);
            info(chain, ledger, record, state)
        }));
        let keys = keys.await;
        let active = keys.iter().filter(|key| key.state == "active" && key.accepted_on_chain != Some(false)).count();
        let mut said = format!(
            "{}, of which {active} can act now.",
            counted(u64::try_from(keys.len()).unwrap_or(u64::MAX), "session key", "session keys")
        );
        if !unreadable.is_empty() {
            said.push_str(&format!(" {} could not be read.", unreadable.len()));
        }
        Ok(ToolReply::new(Output { total: keys.len(), active, keys, unreadable }, said))
    }
}

/// Session keys of this machine.
///
/// # Errors
/// `STORE_UNAVAILABLE` without a data folder.
pub(super) fn keyring(context: &CallContext) -> Result<&dyn SessionKeyring, ToolError> {
    let none = || ToolError::new(ErrorCode::StoreUnavailable, "no data folder is open, so no session keys are known");
    context.world.session_keys.as_deref().ok_or_else(none)
}

/// Session keys that are active by the records and clocks of this machine; none without a data folder.
///
/// # Errors
/// `STORE_UNAVAILABLE` if the ledgers cannot be listed.
pub(crate) fn active(world: &ToolEnvironment) -> Result<Vec<SessionKeyRecord>, ToolError> {
    let Some(keyring) = &world.session_keys else { return Ok(Vec::new()) };
    let now = world.clock.now_seconds();
    let known = keyring.list()?.into_iter().filter_map(|key| Some((key.record.ok()?, key.is_signed)));
    Ok(known
        .filter(|(record, is_signed)| state(record, *is_signed, now) == "active")
        .map(|(record, _)| record)
        .collect())
}

/// State of a session key at `now`, in seconds since the Unix epoch.
fn state(record: &SessionKeyRecord, is_signed: bool, now: u64) -> &'static str {
    match &record.state {
        SessionKeyState::Revoked(_) => "revoked",
        _ if now >= record.expires_at => "expired",
        SessionKeyState::Drafted => "drafted",
        SessionKeyState::Granted if !is_signed => "unverified",
        SessionKeyState::Granted if record.max_calls.is_some_and(|most| record.uses >= most) => "used_up",
        SessionKeyState::Granted => "active",
    }
}

async fn info(
    chain: Option<&ConnectedChain>,
    ledger: String,
    record: SessionKeyRecord,
    state: &'static str,
) -> SessionKeyInfo {
    let limits = chain.map(|chain| (chain, DelegationGrant::limits_of(chain.network(), &record.delegation)));
    let (permissions, words) = match &limits {
        Some((chain, Ok(limits))) => {
            let words = |limit| wallet_get_delegation::describe_limit(limit, chain.network());
            (permissions(limits, record.chain_id), limits.all().iter().map(words).collect())
        }
        Some((_, Err(_))) | None => (Vec::new(), Vec::new()),
    };
    let (accepted_on_chain, on_chain_problem) = match (state, &limits) {
        ("active", Some((chain, Ok(_)))) => accepted(chain, &record).await,
        ("active", Some((_, Err(error)))) => (None, Some(error.to_string())),
        ("active", None) => (None, Some(format!("{} is not connected", ChainId(record.chain_id)))),
        (_, _) => (None, None),
    };
    SessionKeyInfo {
        key_id: record.id.to_string(),
        label: Some(record.label.to_string()).filter(|label| !label.is_empty()),
        state,
        address: record.address.to_string(),
        owner: record.owner.to_string(),
        chain_id: record.chain_id,
        created_at: utc(record.created_at),
        expires_at: utc(record.expires_at.saturating_mul(1_000)),
        permissions,
        limits: words,
        usage_count: record.uses,
        max_calls: record.max_calls,
        last_used: record.last_used.map(utc),
        accepted_on_chain,
        on_chain_problem: on_chain_problem.map(|problem| SafeText::clean(&problem, 300).to_string()),
        ledger,
    }
}

/// True if the chain accepts the delegation, `None` if it could not be asked; then, or if it does not, with the reason.
async fn accepted(chain: &ConnectedChain, record: &SessionKeyRecord) -> (Option<bool>, Option<String>) {
    let grant = match DelegationGrant::read(chain.network(), record.delegation.clone()) {
        Ok(grant) => grant,
        Err(error) => return (Some(false), Some(error.to_string())),
    };
    match grant.check(&chain.client).await {
        Ok(()) => (Some(true), None),
        Err(error @ DelegationNotReady::Provider(_)) => (None, Some(error.to_string())),
        Err(
            error @ (DelegationNotReady::NoDelegator { .. }
            | DelegationNotReady::OtherManager { .. }
            | DelegationNotReady::Revoked
            | DelegationNotReady::Paused),
        ) => (Some(false), Some(error.to_string())),
    }
}
