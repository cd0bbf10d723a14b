//! `identity_get_reputation_summary`: the reputation of an agent from its feedback.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::shared::{self, FeedbackProvider, FoundAgent, count, stars};
use crate::engine::{CallContext, ReadTool, ToolDef, ToolReply};
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};

/// Definition of the `identity_get_reputation_summary` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<GetReputationSummary>();

/// Parameters of `identity_get_reputation_summary`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Agent by chain id and number, such as "8453:42".
    agent_id: String,
}

/// Result of `identity_get_reputation_summary`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Id by chain and number, such as `8453:42`.
    agent_id: String,
    /// Number of ratings that count: not revoked, on the scale, and not given by the agent's own accounts.
    total_feedback: u32,
    /// Mean of these ratings, from 0.0 to 5.0; 0.0 without any.
    average_score: f64,
    /// Frequency of the most frequent tags.
    tag_breakdown: BTreeMap<String, u32>,
    /// Trend of the last 14 days: `improving`, `declining` or `stable`.
    recent_trend: &'static str,
    /// Clients with the most ratings.
    top_providers: Vec<FeedbackProvider>,
    /// Parameters alpha and beta of the Beta posterior.
    beta_distribution: (f64, f64),
    /// Score from 0 to 100: the posterior's mean less one standard deviation.
    score: u32,
}

/// Implementation of `identity_get_reputation_summary`; see [`TOOL_DEF`].
pub struct GetReputationSummary;

impl ReadTool for GetReputationSummary {
    const META: ToolMeta = ToolMeta {
        name: "identity_get_reputation_summary",
        description: "Shows an agent's reputation from its feedback (ERC-8004): number and mean of its ratings, trend, \
                      tags, clients, and the Beta posterior with audited weights. Changes nothing.",
        category: Category::Identity,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Fast,
        progress_steps: &["Querying Reputation Registry"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "Reputation of an agent: ratings, trend, Beta posterior. Check a counterparty before you deal \
                         with it.",
        prompt_guidelines: Guidelines {
            thriving: "Check before you deal with an agent; require a mean above 3.5 of 5.",
            cautious: "Require a mean above 4.0 of 5, and no falling trend.",
            declining: "A quick check of agents that help with an exit.",
            terminal: "Not needed.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &["agent_id"],
        summary_fields: &["total_feedback", "average_score", "recent_trend"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({"agent_id": "31337:0"})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        context.step("Querying Reputation Registry");
        let found = FoundAgent::find(context, &params.agent_id).await?;
        let evaluation = found.evaluate()?;
        let reputation = &evaluation.reputation;
        let output = Output {
            agent_id: found.id.to_string(),
            total_feedback: count(reputation.ratings),
            average_score: stars(reputation.mean),
            tag_breakdown: shared::tag_breakdown(found.record()?, &evaluation),
            recent_trend: reputation.trend.as_str(),
            top_providers: shared::top_providers(&evaluation),
            beta_distribution: (reputation.alpha, reputation.beta),
            score: reputation.score(),
        };
        let ratings = bardo_base::format::counted(u64::from(output.total_feedback), "rating", "ratings");
        let explanation = format!("{ratings}, {:.2} of 5 on average.", output.average_score);
        Ok(ToolReply::new(output, explanation))
    }
}
