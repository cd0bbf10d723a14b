//! `record_agent_decision`: writes a decision of the agent into the audit log, in its own words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{LONGEST_NAME, StatePlace};
use crate::engine::{CallContext, RecordTool, ToolDef, ToolReply};
use crate::shared::invalid;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_base::text::SafeText;
use bardo_safety::audit::{self, AuditError, AuditKind, LogAnchor, LogEntry};

/// Definition of the `record_agent_decision` tool.
pub static TOOL_DEF: ToolDef = ToolDef::record::<RecordAgentDecision>();

/// Maximum length of a decision, in characters.
pub const LONGEST_SUMMARY: usize = 2_000;
/// Maximum number of calls of a decision.
pub const MOST_CALLS: usize = 50;
/// Maximum size of the calls as JSON text, in bytes.
pub const MOST_CALL_BYTES: usize = 16 << 10;
/// Maximum size of an agent's decisions within a day, in bytes: nothing prunes the log, and its entries need no approval.
pub const MOST_DAILY_BYTES: u64 = 2 << 20;
/// Length of a day, in milliseconds.
const DAY: u64 = 24 * 60 * 60 * 1_000;
/// Maximum length of a text in a call, in characters.
const LONGEST_TEXT: usize = 500;

/// Parameters of `record_agent_decision`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Decision and its reason, up to 2,000 characters. It stays in the audit log for good: secrets do not belong here.
    decision_summary: String,
    /// Calls that belong to the decision: up to 50 objects, of 16 KiB together.
    #[serde(default)]
    tool_calls: Vec<Map<String, Value>>,
    /// Kind of action that follows from it, such as "swap".
    #[serde(default)]
    intent_type: Option<String>,
    /// Name of the state that it belongs to; defaults to "default".
    #[serde(default)]
    name: Option<String>,
}

/// Result of `record_agent_decision`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Id of the decision: that of this call, under which the audit log has it.
    decision_id: String,
    /// Number of the entry in the audit log.
    audit_seq: u64,
    /// Hash of the entry, which covers every entry before it.
    audit_hash: String,
}

/// Implementation of `record_agent_decision`; see [`TOOL_DEF`].
pub struct RecordAgentDecision;

impl RecordTool for RecordAgentDecision {
    const META: ToolMeta = ToolMeta {
        name: "record_agent_decision",
        description: "Writes a decision into the audit log as the calling agent's own words, with the calls that belong to it. \
                      The log is chained by hashes, so that it cannot be changed later. Control and invisible characters are \
                      replaced. Bardo checks nothing of what the decision says.",
        category: Category::Memory,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Fast,
        progress_steps: &["Writing audit log"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "Writes a decision and its reason into the audit log.",
        prompt_guidelines: Guidelines {
            thriving: "Record each decision that moves money, with the figures it rests on.",
            cautious: "Record why you act, and why you do not.",
            declining: "Record the order of the exits and the reason for it.",
            terminal: "Record what was left behind, and why.",
            memory: None,
        },
        idempotent: false,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &["intent_type"],
        summary_fields: &["audit_seq"],
        card: None,
        spenders: &[],
    };
    const ALWAYS_RUNS: bool = true;
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({"decision_summary": "WETH is above its share by 4 %, so 0.05 WETH is sold", "intent_type": "swap"})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        context.step("Writing audit log");
        let store = context.notes()?;
        let place = StatePlace::of(context, params.name.as_deref())?;
        let body = body(&params, &place.name)?;
        let anchor = LogAnchor::beside(store.path());
        let (now, call_id, golem_id) =
            (context.world.clock.now_millis(), context.call_id(), context.golem_id().clone());
        let written = store.write(move |transaction| -> Result<_, AuditError> {
            let kind = AuditKind::AgentDecided;
            let today = audit::bytes_since(transaction, kind, &golem_id, now.saturating_sub(DAY))?;
            if today >= MOST_DAILY_BYTES {
                return Ok(None);
            }
            let entry = LogEntry { kind, call_id: Some(call_id), golem_id: &golem_id, body: &body };
            audit::append(transaction, now, &entry).map(Some)
        });
        let written = written.await.map_err(|error| ToolError::new(ErrorCode::StoreUnavailable, error))?;
        let head = written.ok_or_else(|| {
            let what = format_args!("decisions of {} MiB were recorded within a day", MOST_DAILY_BYTES >> 20);
            ToolError::new(ErrorCode::SafetyRateLimited, what)
                .suggest("Record the decisions that move money, and the figures they rest on, not each tick.")
        })?;
        // The entry is on disk; an anchor that lags moves with the next one.
        if let Err(error) = anchor.advance(head) {
            tracing::warn!(%error, "cannot move the anchor of the audit log");
        }
        let explanation = format!("Recorded as entry {} of the audit log.", head.seq);
        let output =
            Output { decision_id: call_id.to_string(), audit_seq: head.seq, audit_hash: head.hash.to_string() };
        Ok(ToolReply::new(output, explanation))
    }
}

/// The entry's details: cleaned words, and nothing that claims to be a finding of Bardo.
///
/// # Errors
/// `VALIDATION_FAILED` for a decision without words, and for anything too long.
fn body(params: &Params, name: &str) -> Result<Value, ToolError> {
    let length = params.decision_summary.chars().count();
    if params.decision_summary.trim().is_empty() {
        return Err(invalid("decision_summary", &"it is empty"));
    }
    if length > LONGEST_SUMMARY {
        let what = format_args!("{length} characters; at most {LONGEST_SUMMARY} are recorded");
        return Err(invalid("decision_summary", &what));
    }
    if params.tool_calls.len() > MOST_CALLS {
        let what = format_args!("{} calls; at most {MOST_CALLS} are recorded", params.tool_calls.len());
        return Err(invalid("tool_calls", &what));
    }
    let calls: Vec<Value> = params.tool_calls.iter().map(cleaned_object).collect();
    let bytes = serde_json::to_string(&calls).map_or(usize::MAX, |text| text.len());
    if bytes > MOST_CALL_BYTES {
        let what = format_args!("{bytes} bytes as JSON; at most {MOST_CALL_BYTES} are recorded");
        return Err(invalid("tool_calls", &what));
    }
    let kind = params.intent_type.as_deref().map(|kind| SafeText::clean(kind, LONGEST_NAME));
    Ok(json!({
        "words": SafeText::clean(&params.decision_summary, LONGEST_SUMMARY), "intent_type": kind, "name": name,
        "tool_calls": calls,
    }))
}

/// A copy whose names and texts are cleaned like all outside text.
fn cleaned(value: &Value) -> Value {
    match value {
        Value::String(text) => json!(SafeText::clean(text, LONGEST_TEXT)),
        Value::Array(items) => items.iter().map(cleaned).collect(),
        Value::Object(fields) => cleaned_object(fields),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

fn cleaned_object(fields: &Map<String, Value>) -> Value {
    let fields = fields.iter().map(|(name, value)| (SafeText::clean(name, LONGEST_NAME).to_string(), cleaned(value)));
    Value::Object(fields.collect())
}
