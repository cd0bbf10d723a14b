//! `identity_evaluate_agent_trust`: a composite trust score from all registries.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::shared::FoundAgent;
use crate::engine::{CallContext, ReadTool, ToolDef, ToolReply};
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use golem_protocols::erc8004::trust::{TRANSFERRED_LIMIT, TrustFlag};

/// Definition of the `identity_evaluate_agent_trust` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<EvaluateAgentTrust>();

/// Score above which an agent is fit for dealings of high value in the Thriving phase.
const THRIVING_SCORE: u32 = TRANSFERRED_LIMIT;
/// Score above which an agent is fit for dealings of high value in every phase.
const CAUTIOUS_SCORE: u32 = 80;

/// Parameters of `identity_evaluate_agent_trust`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Agent by chain id and number, such as "8453:42".
    agent_id: String,
}

/// Result of `identity_evaluate_agent_trust`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Composite score from 0 to 100.
    trust_score: u32,
    /// Parts of the score.
    breakdown: TrustBreakdown,
    /// Certainty about the reputation, from 0 to 1.
    confidence: f64,
    /// Reasons for caution, such as `no_validation` or `hostile_text`.
    flags: Vec<&'static str>,
    /// Recommendation: `high_value` (fit for dealings of high value), `while_thriving` (in that phase only) or
    /// `low_value` (not fit for them).
    recommendation: &'static str,
}

/// Parts of the score, each from 0 to 100.
#[derive(Debug, Serialize, JsonSchema)]
struct TrustBreakdown {
    /// Score of the identity.
    identity_score: u32,
    /// Score of the reputation.
    reputation_score: u32,
    /// Mean of the recent validations; 0 without any.
    validation_score: u32,
}

/// Implementation of `identity_evaluate_agent_trust`; see [`TOOL_DEF`].
pub struct EvaluateAgentTrust;

impl ReadTool for EvaluateAgentTrust {
    const META: ToolMeta = ToolMeta {
        name: "identity_evaluate_agent_trust",
        description: "Computes a trust score from 0 to 100 for a registered agent (ERC-8004), from its identity, \
                      reputation and validations, with reasons for caution. Use it before dealings of high value.",
        category: Category::Identity,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Medium,
        progress_steps: &["Loading identity", "Loading reputation", "Loading validation", "Computing trust score"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "Trust score of an agent, 0 to 100, from identity, reputation and validation. Check it before \
                         anything of high value.",
        prompt_guidelines: Guidelines {
            thriving: "Run before dealings of high value; require more than 70.",
            cautious: "Require more than 80, and a recent validation.",
            declining: "A quick check of agents that help with an exit.",
            terminal: "Not needed.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &["agent_id"],
        summary_fields: &["trust_score", "recommendation"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({"agent_id": "31337:0"})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        context.step("Loading identity");
        let found = FoundAgent::find(context, &params.agent_id).await?.with_file(context).await?;
        context.step("Loading reputation");
        let evaluation = found.evaluate()?;
        context.step("Loading validation");
        let trust = evaluation.trust;
        context.step("Computing trust score");
        let (recommendation, words) = if trust.score <= THRIVING_SCORE {
            ("low_value", "low-value tier")
        } else if trust.score <= CAUTIOUS_SCORE {
            ("while_thriving", "high-value tier while thriving")
        } else {
            ("high_value", "high-value tier")
        };
        let because = if trust.flags.contains(&TrustFlag::RecentlyTransferred) {
            ", because it changed its owner lately and the ratings are of the former owner's work"
        } else {
            ""
        };
        let explanation = format!("Trust {} of 100: {words}{because}.", trust.score);
        let output = Output {
            trust_score: trust.score,
            breakdown: TrustBreakdown {
                identity_score: trust.identity,
                reputation_score: trust.reputation,
                validation_score: trust.validation,
            },
            // To four places, as far as the figures of a formula mean anything.
            confidence: (trust.confidence * 10_000.0).round() / 10_000.0,
            flags: trust.flags.into_iter().map(TrustFlag::as_str).collect(),
            recommendation,
        };
        Ok(ToolReply::new(output, explanation))
    }
}
