//! `cancel_schedule`: ends a schedule of swaps.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::schedule_info::ScheduleInfo;
use crate::engine::{CallContext, RecordTool, ToolDef, ToolReply};
use crate::schedules::{self, ScheduleState};
use crate::shared::invalid;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};

/// Definition of the `cancel_schedule` tool.
pub static TOOL_DEF: ToolDef = ToolDef::record::<CancelSchedule>();

/// Parameters of `cancel_schedule`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Id of the schedule, from `list_schedules`.
    schedule_id: String,
}

/// Result of `cancel_schedule`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Schedule as it is now.
    schedule: ScheduleInfo,
}

/// Implementation of `cancel_schedule`; see [`TOOL_DEF`].
pub struct CancelSchedule;

impl RecordTool for CancelSchedule {
    const META: ToolMeta = ToolMeta {
        name: "cancel_schedule",
        description: "Ends a schedule of swaps. A slice that is being swapped ends as it does; none follows it. An agent ends its \
                      own, the operator any. Only takes back what was planned, so it needs no approval and passes every stop.",
        category: Category::Trading,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Fast,
        progress_steps: &["Cancelling the schedule"],
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Ends a schedule of swaps.",
        prompt_guidelines: Guidelines {
            thriving: "Cancel a schedule whose reason is gone.",
            cautious: "Cancel schedules that buy.",
            declining: "Cancel all schedules that buy.",
            terminal: "Cancel all schedules.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &["schedule_id"],
        summary_fields: &[],
        card: None,
        spenders: &[],
    };
    const ALWAYS_RUNS: bool = true;
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({"schedule_id": "01J0000000000000000000000"})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        context.step("Cancelling the schedule");
        let store = context.ledger()?;
        let cancelled = schedules::cancel(&store, params.schedule_id.trim(), context.golem_id().clone()).await;
        let cancelled = cancelled.map_err(|error| ToolError::new(ErrorCode::StoreUnavailable, error))?;
        let schedule = cancelled
            .ok_or_else(|| invalid("schedule_id", &"no schedule of yours has this id; list_schedules names them"))?;
        let explanation = match schedule.state {
            ScheduleState::Cancelled if schedule.progress.is_running => {
                "Cancelled. A slice that is under way ends as it does; none follows it.".to_owned()
            }
            ScheduleState::Cancelled => "Cancelled: no further slice is swapped.".to_owned(),
            state @ (ScheduleState::Active
            | ScheduleState::Done
            | ScheduleState::Rejected
            | ScheduleState::Failed
            | ScheduleState::Expired) => format!("It had ended before, as {state}."),
        };
        Ok(ToolReply::new(Output { schedule: ScheduleInfo::of(&schedule) }, explanation))
    }
}
