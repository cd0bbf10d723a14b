//! `session_revoke_key`: ends session keys on this machine, at once and for good.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::session_get_keys::keyring;
use crate::engine::{CallContext, RecordTool, ToolDef, ToolReply};
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::format::counted;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_base::text::SafeText;
use bardo_safety::custody::session_keys::{RevokedDelegation, RevokedSessionKey};

/// Definition of the `session_revoke_key` tool.
pub static TOOL_DEF: ToolDef = ToolDef::record::<RevokeSessionKey>();

/// Maximum length of a reason, in characters.
const LONGEST_REASON: usize = 200;

/// Parameters of `session_revoke_key`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Ids of the session keys; empty for all: of this machine for the operator, and of its session's ledger for an agent.
    #[serde(default)]
    key_ids: Vec<String>,
    /// Reason, for the audit log.
    #[serde(default)]
    reason: Option<String>,
}

/// Result of `session_revoke_key`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Number of keys that were revoked now; keys that were revoked before are not counted.
    revoked_count: usize,
    /// Ids of the keys that were revoked now.
    revoked_keys: Vec<String>,
    /// Their delegations, which a revocation here does not end on chain.
    delegations: Vec<LeftDelegation>,
}

/// Delegation of a revoked session key.
#[derive(Debug, Serialize, JsonSchema)]
struct LeftDelegation {
    /// Id of the session key.
    key_id: String,
    /// `not_accepted` if no signature of its owner was accepted here, `signed` if it stands on chain until it ends or its
    /// owner disables it, and `unknown` if it may stand.
    state: &'static str,
    /// Call by which the owner disables it; absent unless it is signed.
    owners_call: Option<DisablingCall>,
}

/// Call of the owner's account.
#[derive(Debug, Serialize, JsonSchema)]
struct DisablingCall {
    /// EIP-155 id of the chain.
    chain_id: u64,
    /// Owner, who sends it.
    from: String,
    /// Address of the delegation manager.
    to: String,
    /// Calldata of the revocation, in hex.
    data: String,
}

/// Implementation of `session_revoke_key`; see [`TOOL_DEF`].
pub struct RevokeSessionKey;

impl RecordTool for RevokeSessionKey {
    const META: ToolMeta = ToolMeta {
        name: "session_revoke_key",
        description: "Revokes session keys of this machine at once and for good; without ids, all of them. An agent revokes \
                      those of its session's ledger alone. Only takes authority back, so it needs no approval and passes \
                      every stop. The delegation stays on chain until its owner disables it; the result has the owner's call.",
        category: Category::Wallet,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Fast,
        progress_steps: &["Revoking keys"],
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Revokes session keys; without ids, all. Only reduces risk.",
        prompt_guidelines: Guidelines {
            thriving: "Revoke what is not needed.",
            cautious: "Revoke every key that may do more than is needed now.",
            declining: "Revoke every key that the exits do not need.",
            terminal: "Revoke all at the end.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &["key_ids", "reason"],
        summary_fields: &["revoked_count"],
        card: None,
        spenders: &[],
    };
    const ALWAYS_RUNS: bool = true;
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({"reason": "no longer needed"})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        context.step("Revoking keys");
        let reason = SafeText::clean(params.reason.as_deref().unwrap_or_default(), LONGEST_REASON);
        let ids: Vec<String> =
            params.key_ids.iter().map(|id| id.strip_prefix("session:").unwrap_or(id).to_owned()).collect();
        let report = keyring(context)?.revoke(&ids, context.golem_id(), &reason).await?;
        let revoked_keys: Vec<String> = report.revoked.iter().map(|key| key.id.to_string()).collect();
        if !report.failures.is_empty() {
            let what: Vec<&str> = report.failures.iter().map(ToolError::message).collect();
            let what = format!("not every session key may be revoked: {}", what.join("; "));
            return Err(ToolError::new(ErrorCode::StoreUnavailable, what)
                .suggest("The operator mends this and runs `bardo keys session revoke --all`.")
                .detail("revoked_keys", revoked_keys));
        }
        let delegations: Vec<_> = report.revoked.iter().map(left).collect();
        let count = u64::try_from(revoked_keys.len()).unwrap_or(u64::MAX);
        let stand = delegations.iter().filter(|one| one.state != "not_accepted").count();
        let said = match (count, stand) {
            (0, _) => "Nothing was revoked: every session key was revoked before.".to_owned(),
            (_, 0) => format!("Revoked {}. No delegation of theirs was accepted here.", keys(count)),
            (_, _) => format!(
                "Revoked {}: Bardo never signs with them again. On chain a delegation stands until it ends or its owner \
                 disables it.",
                keys(count)
            ),
        };
        let output = Output { revoked_count: revoked_keys.len(), revoked_keys, delegations };
        Ok(ToolReply::new(output, said))
    }
}

fn keys(count: u64) -> String {
    counted(count, "session key", "session keys")
}

fn left(revoked: &RevokedSessionKey) -> LeftDelegation {
    let (state, owners_call) = match &revoked.delegation {
        RevokedDelegation::NotAccepted => ("not_accepted", None),
        RevokedDelegation::Unknown => ("unknown", None),
        RevokedDelegation::Signed(call) => (
            "signed",
            Some(DisablingCall {
                chain_id: call.chain_id,
                from: call.from.to_string(),
                to: call.to.to_string(),
                data: call.data.to_string(),
            }),
        ),
    };
    LeftDelegation { key_id: revoked.id.to_string(), state, owners_call }
}
