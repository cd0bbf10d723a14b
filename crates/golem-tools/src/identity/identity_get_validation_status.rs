//! `identity_get_validation_status`: validations of an agent by others.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::shared::{FoundAgent, utc};
use crate::engine::{CallContext, ReadTool, ToolDef, ToolReply};
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use golem_protocols::erc8004::directory::{AgentRecord, ValidationRecord, ValidatorResponse};
use golem_protocols::erc8004::trust::{PASSED, validation_score};

/// Definition of the `identity_get_validation_status` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<GetValidationStatus>();

/// Maximum number of entries of the history; the newest.
const MAX_HISTORY: usize = 100;
/// Methods of the specification.
pub(super) const METHODS: [&str; 3] = ["zkml", "tee-attestation", "stake-secured"];

/// Parameters of `identity_get_validation_status`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Agent by chain id and number, such as "8453:42".
    agent_id: String,
}

/// Result of `identity_get_validation_status`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Id by chain and number, such as `8453:42`.
    agent_id: String,
    /// True if the mean response of the last 90 days is 80 or more.
    validated: bool,
    /// Method of the newest response: `zkml`, `tee-attestation` or `stake-secured`; absent without one.
    method: Option<&'static str>,
    /// Time of the newest response, in UTC; absent without one.
    last_validated: Option<String>,
    /// Mean response of the last 90 days, from 0 to 100, of unrelated validators; absent without any.
    validation_score: Option<f64>,
    /// Requests and their responses, newest first.
    history: Vec<ValidationEvent>,
    /// False on a network without a validation registry.
    registry_exists: bool,
}

/// Request for a validation, with the response if there is one.
#[derive(Debug, Serialize, JsonSchema)]
struct ValidationEvent {
    /// Hash of the request.
    request_hash: String,
    /// Address of the validator.
    validator: String,
    /// Time of the request, in UTC.
    requested_at: String,
    /// Response from 0 to 100; absent before one.
    response: Option<u8>,
    /// Method by the response's tag; absent if it is none of the known ones.
    method: Option<&'static str>,
    /// Time of the response, in UTC; absent before one.
    responded_at: Option<String>,
    /// False if the validator is or was an owner, a wallet or an operator of the agent, so that its response never counts.
    independent: bool,
}

/// Implementation of `identity_get_validation_status`; see [`TOOL_DEF`].
pub struct GetValidationStatus;

impl ReadTool for GetValidationStatus {
    const META: ToolMeta = ToolMeta {
        name: "identity_get_validation_status",
        description: "Shows an agent's validations (ERC-8004) by zkML, TEE attestation or stake: mean of the recent \
                      responses, method, and history. Changes nothing.",
        category: Category::Identity,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Fast,
        progress_steps: &["Querying Validation Registry"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "Validations of an agent by zkML, TEE or stake. Check before anything of high value.",
        prompt_guidelines: Guidelines {
            thriving: "Check before dealings of high value.",
            cautious: "Always check, and require a recent validation.",
            declining: "A quick check of agents that help with an exit.",
            terminal: "Not needed.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &["agent_id"],
        summary_fields: &["validated", "method"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({"agent_id": "31337:0"})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        context.step("Querying Validation Registry");
        let found = FoundAgent::find(context, &params.agent_id).await?;
        let agent = found.record()?;
        let score = validation_score(&found.evaluate()?.validations, found.now());
        let newest = newest_response(agent);
        let output = Output {
            agent_id: found.id.to_string(),
            validated: score.is_some_and(|score| score >= u32::from(PASSED)),
            method: newest.and_then(method),
            last_validated: newest.map(|given| utc(given.time)),
            validation_score: score.map(f64::from),
            history: agent
                .validations
                .iter()
                .rev()
                .take(MAX_HISTORY)
                .map(|record| event(&found, agent, record))
                .collect(),
            registry_exists: !found.lacks_validations(),
        };
        let explanation = if found.lacks_validations() {
            format!("{} has no validation registry.", found.chain.network())
        } else {
            match score {
                None => "No validation of the last 90 days.".to_owned(),
                Some(score) => format!("The mean response of the last 90 days is {score} of 100."),
            }
        };
        Ok(ToolReply::new(output, explanation))
    }
}

fn newest_response(agent: &AgentRecord) -> Option<&ValidatorResponse> {
    agent.validations.iter().filter_map(|record| record.response.as_ref()).max_by_key(|given| given.time)
}

fn method(given: &ValidatorResponse) -> Option<&'static str> {
    METHODS.into_iter().find(|method| given.tag.as_str() == *method)
}

fn event(found: &FoundAgent<'_>, agent: &AgentRecord, record: &ValidationRecord) -> ValidationEvent {
    let given = record.response.as_ref();
    ValidationEvent {
        request_hash: record.request.to_string(),
        validator: record.validator.to_string(),
        requested_at: utc(record.requested),
        response: given.map(|given| given.response),
        method: given.and_then(method),
        responded_at: given.map(|given| utc(given.time)),
        independent: !found.is_related(agent, record.validator),
    }
}
