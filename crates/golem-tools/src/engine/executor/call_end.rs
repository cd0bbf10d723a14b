//! End of a call: envelopes, final events and result summaries.

use std::any::Any;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::task::JoinError;
use tokio::time::Instant;

use super::Shared;
use crate::engine::context::CallContext;
use crate::engine::tool::ToolReply;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::fabric::{EndState, EventKind, ResultCard, ToolEnd, ToolFailed};
use bardo_base::id::CallId;
use bardo_base::model::ToolMeta;
use bardo_base::text::SafeText;
use bardo_session::envelope::{CallStatus, ToolResponse};

/// Reason why a call has no result.
#[derive(Debug)]
pub(super) struct CallRefusal {
    pub(super) status: CallStatus,
    pub(super) error: ToolError,
}

impl From<ToolError> for CallRefusal {
    /// Maps denials, missing approvals and stops to `blocked` and all other errors to `error`.
    fn from(error: ToolError) -> Self {
        let code = error.code();
        let blocked = code.is_denial() || matches!(code, ErrorCode::ApprovalRequired | ErrorCode::Halted);
        Self { status: if blocked { CallStatus::Blocked } else { CallStatus::Error }, error }
    }
}

/// Outcome of a call that ran to its end. Both `reply` and `error` are set if it succeeded only in part.
#[derive(Debug)]
pub(super) struct CallEnd {
    pub(super) status: CallStatus,
    pub(super) reply: Option<ToolReply<Value>>,
    pub(super) error: Option<ToolError>,
}

impl CallEnd {
    /// Outcome of a full success.
    pub(super) fn success(reply: ToolReply<Value>) -> Self {
        Self { status: CallStatus::Success, reply: Some(reply), error: None }
    }
}

impl From<CallRefusal> for CallEnd {
    fn from(CallRefusal { status, error }: CallRefusal) -> Self {
        Self { status, reply: None, error: Some(error) }
    }
}

impl Shared {
    /// Emits the final events of a call and builds its envelope.
    pub(super) fn answer(
        &self,
        context: &CallContext,
        meta: &ToolMeta,
        started: Instant,
        ended: CallEnd,
    ) -> ToolResponse {
        let CallEnd { status, reply, error } = ended;
        let call_id = context.call_id();
        let Some(ToolReply { output, decision_hints, explanation, is_open: _ }) = reply else {
            let error = error.unwrap_or_else(|| {
                ToolError::new(ErrorCode::ToolPanicked, format_args!("{} ended without a result", meta.name))
            });
            context.finish(failure(started, &error));
            return ToolResponse::failed(call_id, status, error);
        };
        if let Some(error) = &error {
            context.emit(EventKind::ToolError(ToolFailed::of(error)));
        }
        context.finish([EventKind::ToolEnd(ToolEnd {
            success: error.is_none(),
            state: Some(end_state(status, decision_hints.as_ref())),
            duration_ms: millis(started.elapsed()),
            result_summary: summary(meta, &output),
            card: meta.card.map(|widget| ResultCard { widget, data: output.clone(), hints: decision_hints.clone() }),
        })]);
        ToolResponse { call_id, status, data: Some(output), error, decision_hints, explanation: Some(explanation) }
    }

    /// Answers a call that was refused before it ran.
    pub(super) fn refuse_early(&self, call_id: CallId, started: Instant, refusal: CallRefusal) -> ToolResponse {
        for kind in failure(started, &refusal.error) {
            self.emit(call_id, kind);
        }
        ToolResponse::failed(call_id, refusal.status, refusal.error)
    }
}

/// Builds the two final events of a failed call.
pub(super) fn failure(started: Instant, error: &ToolError) -> [EventKind; 2] {
    [
        EventKind::ToolError(ToolFailed::of(error)),
        EventKind::ToolEnd(ToolEnd {
            success: false,
            state: Some(EndState::NotDone),
            duration_ms: millis(started.elapsed()),
            result_summary: Value::Null,
            card: None,
        }),
    ]
}

/// Maps the status of a call to its end state. A partial result counts as placed only if the hints say so; otherwise
/// its outcome is unclear.
pub(super) fn end_state(status: CallStatus, hints: Option<&Value>) -> EndState {
    match status {
        CallStatus::Success => EndState::Done,
        CallStatus::Simulated => EndState::Rehearsed,
        CallStatus::Partial => match hints.and_then(|hints| hints.get("state")?.as_str()) {
            Some("placed") => EndState::Placed,
            Some(_) | None => EndState::Unclear,
        },
        CallStatus::Blocked | CallStatus::Rejected | CallStatus::Error => EndState::NotDone,
    }
}

/// Extracts the result fields for the one-line summary.
fn summary(meta: &ToolMeta, output: &Value) -> Value {
    let fields: Map<_, _> = meta
        .summary_fields
        .iter()
        .filter_map(|name| output.get(*name).map(|value| ((*name).to_owned(), value.clone())))
        .collect();
    Value::Object(fields)
}

pub(super) fn ended_badly(meta: &ToolMeta, error: JoinError) -> CallRefusal {
    if error.is_cancelled() {
        return ToolError::new(ErrorCode::ToolCancelled, format_args!("{} was cancelled", meta.name)).into();
    }
    match error.try_into_panic() {
        Ok(panic) => panicked(meta.name, &*panic).into(),
        Err(error) => ToolError::new(ErrorCode::ToolPanicked, format_args!("{} ended: {error}", meta.name)).into(),
    }
}

pub(super) fn panicked(who: &str, panic: &(dyn Any + Send)) -> ToolError {
    let message = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    ToolError::new(
        ErrorCode::ToolPanicked,
        format_args!("{who} panicked: {}", SafeText::clean(message.unwrap_or("without a message"), 300)),
    )
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_success_is_reported_as_done() {
        let hints = |state: &str| Some(json!({ "state": state }));
        for (status, hints, told) in [
            (CallStatus::Success, hints("done"), EndState::Done),
            (CallStatus::Success, None, EndState::Done),
            (CallStatus::Simulated, hints("simulated"), EndState::Rehearsed),
            (CallStatus::Partial, hints("placed"), EndState::Placed),
            (CallStatus::Partial, hints("unclear"), EndState::Unclear),
            (CallStatus::Partial, hints("done"), EndState::Unclear),
            (CallStatus::Partial, None, EndState::Unclear),
            (CallStatus::Blocked, hints("stopped"), EndState::NotDone),
            (CallStatus::Rejected, None, EndState::NotDone),
            (CallStatus::Error, hints("reverted"), EndState::NotDone),
        ] {
            assert_eq!(end_state(status, hints.as_ref()), told, "{status:?} {hints:?}");
        }
    }
}
