//! `list_schedules`: schedules of swaps, with their progress.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::schedule_info::ScheduleInfo;
use crate::engine::{CallContext, ReadTool, ToolDef, ToolReply};
use crate::schedules::{self, ScheduleState};
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::format::counted;
use bardo_base::id::GolemId;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};

/// Definition of the `list_schedules` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<ListSchedules>();

/// Maximum number of schedules in a list.
const MOST_LISTED: usize = 100;

/// Parameters of `list_schedules`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// True to list schedules that have ended as well.
    #[serde(default)]
    include_ended: bool,
}

/// Result of `list_schedules`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Schedules, the newest first; at most 100.
    schedules: Vec<ScheduleInfo>,
    /// Number of schedules that the list would have without its limit.
    total: usize,
    /// Ids of rows that cannot be read; they do not run.
    unreadable: Vec<String>,
}

/// Implementation of `list_schedules`; see [`TOOL_DEF`].
pub struct ListSchedules;

impl ReadTool for ListSchedules {
    const META: ToolMeta = ToolMeta {
        name: "list_schedules",
        description: "Lists the schedules of swaps on this network with their terms, what they paid and received so far, their \
                      next time and their last attempts. An agent sees its own, the operator all.",
        category: Category::Trading,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Fast,
        progress_steps: &["Loading schedules"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "Your schedules of swaps, with what they paid and received. Read-only.",
        prompt_guidelines: Guidelines {
            thriving: "Look at it before you trade the same pair by hand.",
            cautious: "Look for schedules that still buy.",
            declining: "Look for schedules that still buy, and cancel them.",
            terminal: "Look for what is left, and cancel it.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &[],
        summary_fields: &["total"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        context.step("Loading schedules");
        let store = context.ledger()?;
        let caller = context.golem_id();
        let owner = (*caller != GolemId::operator()).then_some(caller);
        let (mut found, unreadable) = schedules::list(&store, &context.network_name(), owner)
            .map_err(|error| ToolError::new(ErrorCode::StoreUnavailable, error))?;
        found.retain(|one| params.include_ended || one.state == ScheduleState::Active);
        let total = found.len();
        let active = found.iter().filter(|one| one.state == ScheduleState::Active).count();
        let schedules = found.iter().take(MOST_LISTED).map(ScheduleInfo::of).collect();
        let active = u64::try_from(active).unwrap_or(u64::MAX);
        let explanation = format!("{}.", counted(active, "active schedule", "active schedules"));
        Ok(ToolReply::new(Output { schedules, total, unreadable }, explanation))
    }
}
