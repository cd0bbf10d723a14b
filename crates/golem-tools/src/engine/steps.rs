//! Further steps of a write: each is a call of its own, which goes through the whole pipeline.

use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;

use super::executor::{Executor, ToolCall};
use super::input::ToolInput;
use super::write_access::ApprovalMode;
use bardo_base::clock::Clock;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::id::CallId;
use bardo_base::model::Phase;
use bardo_base::text::SafeText;
use bardo_safety::approval::AskedBy;
use bardo_session::envelope::{CallStatus, ToolResponse};

/// Caller of the further steps of a write, under the same conditions as its first one: the same actor, approval mode and
/// phase. A step counts as a call of its own, asks for its own approval, and no approval of an earlier step covers it.
/// None begins once the call was cancelled or the session ends.
#[derive(Debug, Clone)]
pub struct StepCaller {
    executor: Executor,
    cancelled: watch::Receiver<bool>,
    ending: watch::Receiver<bool>,
    approve: Option<ApprovalMode>,
    phase: Option<Phase>,
    /// The call whose steps these are, and its requester.
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
        (tool, call_id): (&'static str, CallId),
        (approve, phase, asked_by): (Option<ApprovalMode>, Option<Phase>, AskedBy),
        cancelled: watch::Receiver<bool>,
    ) -> Self {
        let ending = executor.steps_end();
        let asked_by = AskedBy::Step { by: Box::new(asked_by), tool: SafeText::clean(tool, 80), call_id };
        Self { executor, cancelled, ending, approve, phase, asked_by }
    }

    /// Makes the id of a step, so that it is known before the step begins.
    pub fn new_call_id(&self) -> CallId {
        self.executor.new_call_id()
    }

    /// Checks that a further step may begin.
    ///
    /// # Errors
    /// `TOOL_CANCELLED` if the call was cancelled or the session ends.
    pub fn may_begin(&self) -> Result<(), ToolError> {
        let why = match (*self.cancelled.borrow(), *self.ending.borrow()) {
            (true, _) => "the call was cancelled after an earlier step; nothing further was begun",
            (false, true) => "the session is ending; nothing further was begun",
            (false, false) => return Ok(()),
        };
        Err(ToolError::new(ErrorCode::ToolCancelled, why))
    }

    /// Waits before a further step.
    ///
    /// # Errors
    /// As [`Self::may_begin`], as soon as it applies.
    pub async fn pause(&self, clock: &dyn Clock, wait: Duration) -> Result<(), ToolError> {
        tokio::select! {
            () = self.ended() => {}
            () = clock.pause(wait) => {}
        }
        self.may_begin()
    }

    /// Runs a step to its end. If the call is cancelled or the session ends meanwhile, the step is cancelled unless it is
    /// being signed.
    pub async fn call(&self, call_id: CallId, tool: &str, params: Value) -> ToolResponse {
        let call = ToolCall {
            call_id: Some(call_id),
            approve: self.approve,
            phase: self.phase,
            asked_by: self.asked_by.clone(),
            ..ToolCall::new(tool, ToolInput::Json(params))
        };
        let mut running = std::pin::pin!(self.executor.call(call));
        tokio::select! {
            response = &mut running => response,
            () = self.ended() => {
                let _is_cancelled = self.executor.cancel(call_id);
                running.await
            }
        }
    }

    /// Waits until no further step may begin.
    async fn ended(&self) {
        let (mut cancelled, mut ending) = (self.cancelled.clone(), self.ending.clone());
        // A sender that is gone ends nothing.
        let wait = async |end: &mut watch::Receiver<bool>| {
            if end.wait_for(|ends| *ends).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = wait(&mut cancelled) => {}
            () = wait(&mut ending) => {}
        }
    }
}
