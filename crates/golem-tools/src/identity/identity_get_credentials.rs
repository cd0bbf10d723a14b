//! `identity_get_credentials`: names of the credentials that this machine holds, never their values.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::shared::{self, utc};
use crate::engine::{CallContext, ReadTool, ToolDef, ToolReply};
use crate::session::session_get_keys;
use bardo_base::error::ToolError;
use bardo_base::format::counted;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_safety::custody::session_keys::SessionKeyRecord;

/// Definition of the `identity_get_credentials` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<GetCredentials>();

/// Parameters of `identity_get_credentials`; it has none.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {}

/// Result of `identity_get_credentials`. No field is ever a secret.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// First agent that the account owns or serves as a wallet; absent if none was found in time.
    agent_id: Option<String>,
    /// API keys in the configuration.
    api_keys: Vec<ApiKeyInfo>,
    /// Session keys that act for the agent.
    session_keys: Vec<SessionKeyInfo>,
}

/// API key, without its value.
#[derive(Debug, Serialize, JsonSchema)]
struct ApiKeyInfo {
    /// Name of the key.
    name: String,
    /// Purposes that it serves.
    scopes: Vec<String>,
    /// Expiry in UTC; absent if the key does not say.
    expires_at: Option<String>,
}

/// Session key, without its value.
#[derive(Debug, Serialize, JsonSchema)]
struct SessionKeyInfo {
    /// Id of the key.
    key_id: String,
    /// Purposes that it serves.
    scopes: Vec<String>,
    /// Expiry in UTC.
    expires_at: Option<String>,
}

/// Implementation of `identity_get_credentials`; see [`TOOL_DEF`].
pub struct GetCredentials;

impl ReadTool for GetCredentials {
    const META: ToolMeta = ToolMeta {
        name: "identity_get_credentials",
        description: "Lists the API keys and session keys that this machine holds for the agent: names, scopes and \
                      expiry, never a value.",
        category: Category::Identity,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Fast,
        progress_steps: &["Loading credentials"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "Names, scopes and expiry of the credentials here. Their values are never shown.",
        prompt_guidelines: Guidelines {
            thriving: "Check which services can be called with a key.",
            cautious: "As when thriving; compare each key's scopes with the use you intend.",
            declining: "As when thriving.",
            terminal: "Not needed.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &[],
        summary_fields: &["agent_id"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({})
    }

    async fn run(context: &CallContext, Params {}: Params) -> Result<ToolReply<Output>, ToolError> {
        context.step("Loading credentials");
        let world = &context.world;
        let api_keys: Vec<_> = world
            .credentials
            .iter()
            .map(|key| ApiKeyInfo {
                name: key.name.clone(),
                scopes: key.scopes.clone(),
                expires_at: key.expires_at.map(utc),
            })
            .collect();
        let agent_id = shared::own_agent(context).await.map(|(id, _)| id.to_string());
        let session_keys = session_keys(context)?;
        let count = |keys: usize, one, many| counted(u64::from(shared::count(keys)), one, many);
        let explanation = format!(
            "{}, {}. Values are never shown.",
            count(api_keys.len(), "API key", "API keys"),
            count(session_keys.len(), "session key", "session keys")
        );
        Ok(ToolReply::new(Output { agent_id, api_keys, session_keys }, explanation))
    }
}

/// Active session keys; `session_get_keys` shows what they may do.
fn session_keys(context: &CallContext) -> Result<Vec<SessionKeyInfo>, ToolError> {
    let info = |record: SessionKeyRecord| SessionKeyInfo {
        key_id: record.id.to_string(),
        scopes: vec![format!("delegation of {} on chain {}", record.owner, record.chain_id)],
        expires_at: Some(utc(record.expires_at)),
    };
    Ok(session_get_keys::active(&context.world)?.into_iter().map(info).collect())
}
