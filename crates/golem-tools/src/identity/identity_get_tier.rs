//! `identity_get_tier`: an agent's tier by its reputation and activity.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::shared::FoundAgent;
use crate::engine::{CallContext, ReadTool, ToolDef, ToolReply};
use bardo_base::error::ToolError;
use bardo_base::format::grouped;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use golem_protocols::erc8004::trust::Tier;

/// Definition of the `identity_get_tier` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<GetTier>();

/// Parameters of `identity_get_tier`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Agent by chain id and number, such as "8453:42".
    agent_id: String,
}

/// Result of `identity_get_tier`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Id by chain and number, such as `8453:42`.
    agent_id: String,
    /// Tier: `bronze`, `silver`, `gold` or `platinum`.
    tier: &'static str,
    /// Points from evidence, validations and age.
    points: u32,
    /// Points at which the next tier begins; those of the tier itself for the highest.
    next_tier_threshold: u32,
    /// Benefits of the tier. The registries grant none, so the list is empty.
    tier_benefits: Vec<String>,
}

/// Implementation of `identity_get_tier`; see [`TOOL_DEF`].
pub struct GetTier;

impl ReadTool for GetTier {
    const META: ToolMeta = ToolMeta {
        name: "identity_get_tier",
        description: "Shows an agent's tier, bronze to platinum, by points for positive ratings, passed validations and \
                      age. Changes nothing.",
        category: Category::Identity,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Fast,
        progress_steps: &["Computing tier"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "Tier of an agent: bronze, silver, gold or platinum. A label of Bardo's, which grants nothing.",
        prompt_guidelines: Guidelines {
            thriving: "Check now and then to follow the progress.",
            cautious: "As when thriving.",
            declining: "Not relevant.",
            terminal: "Not needed.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &["agent_id"],
        summary_fields: &["tier", "points"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({"agent_id": "31337:0"})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        context.step("Computing tier");
        let found = FoundAgent::find(context, &params.agent_id).await?;
        let points = found.evaluate()?.points;
        let tier = Tier::of_points(points);
        let output = Output {
            agent_id: found.id.to_string(),
            tier: tier.as_str(),
            points,
            next_tier_threshold: tier.next().unwrap_or(tier).threshold(),
            tier_benefits: Vec::new(),
        };
        let next =
            tier.next().map(|next| format!("; {} begins at {}", next.as_str(), grouped(&next.threshold().to_string())));
        let explanation =
            format!("{} points: {}{}.", grouped(&points.to_string()), tier.as_str(), next.unwrap_or_default());
        Ok(ToolReply::new(output, explanation))
    }
}
