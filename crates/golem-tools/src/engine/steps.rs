//! Further steps of a write: each is a call of its own, which goes through the whole pipeline.

use serde_json::Value;

use super::executor::{Executor, ToolCall};
use super::input::ToolInput;
use super::write_access::ApprovalMode;
use bardo_base::error::ToolError;
use bardo_base::id::CallId;
use bardo_base::model::Phase;
use bardo_safety::approval::AskedBy;
use bardo_session::envelope::{CallStatus, ToolResponse};

/// Caller of the further steps of a write, under the same conditions as its first one: the same actor, approval mode and
/// phase. A step counts as a call of its own, asks for its own approval, and no approval of an earlier step covers it.
#[derive(Debug, Clone)]
pub struct StepCaller {
    executor: Executor,
    approve: Option<ApprovalMode>,
    phase: Option<Phase>,
    asked_by: AskedBy,
}

/// Failure of a step: status and error of its call.
#[derive(Debug, Clone, PartialEq)]
pub struct StepFailure {
    /// Status of the call, never a success.
    pub status: CallStatus,
    /// Error of the call, or the reason why it ended without one.
    pub error: ToolError,
}

impl StepCaller {
    pub(super) fn new(
        executor: Executor,
        (approve, phase, asked_by): (Option<ApprovalMode>, Option<Phase>, AskedBy),
    ) -> Self {
        Self { executor, approve, phase, asked_by }
    }

    /// Makes the id of a step, so that it is known before the step begins.
    pub fn new_call_id(&self) -> CallId {
        self.executor.new_call_id()
    }

    /// Runs a step to its end.
    pub async fn call(&self, call_id: CallId, tool: &str, params: Value) -> ToolResponse {
        let call = ToolCall {
            call_id: Some(call_id),
            approve: self.approve,
            phase: self.phase,
            asked_by: self.asked_by.clone(),
            ..ToolCall::new(tool, ToolInput::Json(params))
        };
        self.executor.call(call).await
    }
}
