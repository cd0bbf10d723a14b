//! Envelope of a dialect's answers: status, data, error, hints and explanation, and no other field.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::engine::{CallStatus, ToolResponse};
use bardo_base::error::{ErrorCategory, ErrorCode, ToolError};
use bardo_base::id::CallId;

/// Answer to a call. An error stands in `error` with the statuses `blocked` and `error` alone; with `rejected` it is in the
/// hints, as the dialect's own envelope has it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DialectResponse {
    /// Final status of the call.
    pub status: CallStatus,
    /// Result in the dialect's form; `None` without one.
    pub data: Option<Value>,
    /// Error in the dialect's form; `None` without one.
    pub error: Option<DialectError>,
    /// Hints of the native call: its id, its tool, and its error with every violated rule.
    pub decision_hints: Option<Value>,
    /// Explanation for a person.
    pub explanation: Option<String>,
}

/// Error in the dialect's form.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DialectError {
    /// Code of the error: the category of the native one.
    pub error_code: ErrorCategory,
    /// Description of the failure.
    pub message: String,
    /// True if the caller should retry after following the suggestion.
    pub recoverable: bool,
    /// Kind of the error by what a caller can do about it, in the dialect's words.
    pub error_category: &'static str,
    /// Advice for the caller.
    pub suggestion: Option<String>,
    /// Name of the dialect's tool.
    pub tool_name: Option<&'static str>,
}

impl DialectError {
    /// Written form of the code.
    pub fn code(&self) -> String {
        json!(self.error_code).as_str().unwrap_or_default().to_owned()
    }

    fn of(error: &ToolError, tool: Option<&'static str>) -> Self {
        let code = error.code().category();
        let error_category = match code {
            ErrorCategory::ValidationError | ErrorCategory::ExecutionFailed => "non_retryable",
            ErrorCategory::RiskBlocked | ErrorCategory::PermissionDenied => "policy_violation",
            ErrorCategory::SimulationFailed | ErrorCategory::Timeout | ErrorCategory::UpstreamUnavailable => {
                "retryable"
            }
        };
        Self {
            error_code: code,
            message: error.message().to_owned(),
            recoverable: code.recoverable(),
            error_category,
            suggestion: Some(error.suggestion().to_owned()),
            tool_name: tool,
        }
    }
}

impl DialectResponse {
    /// Answer of a call that did not get as far as a native one.
    pub fn refused(tool: Option<&'static str>, error: ToolError) -> Self {
        let blocked = error.code().is_denial();
        let status = if blocked { CallStatus::Blocked } else { CallStatus::Error };
        Self::failed(tool, status, &error, Map::new())
    }

    /// Answer of a call whose session could not be opened.
    pub fn not_called(tool: &'static str, response: ToolResponse) -> Self {
        Self::of(tool, "none", response, None)
    }

    /// Answer of a call whose last native one ended as `response`, with `data` in the dialect's form.
    pub(super) fn of(tool: &'static str, native: &'static str, response: ToolResponse, data: Option<Value>) -> Self {
        let ToolResponse { call_id, status, data: _, error, decision_hints, explanation } = response;
        let mut hints = match decision_hints {
            Some(Value::Object(hints)) => hints,
            Some(other) => Map::from_iter([("hints".to_owned(), other)]),
            None => Map::new(),
        };
        name_call(&mut hints, call_id, native);
        match error {
            Some(error) => Self { explanation, ..Self::failed(Some(tool), status, &error, hints) },
            None => Self { status, data, error: None, decision_hints: Some(Value::Object(hints)), explanation },
        }
    }

    fn failed(
        tool: Option<&'static str>,
        status: CallStatus,
        error: &ToolError,
        mut hints: Map<String, Value>,
    ) -> Self {
        hints.insert("native_error".to_owned(), json!(error));
        let has_error = match status {
            CallStatus::Blocked | CallStatus::Error => true,
            CallStatus::Success | CallStatus::Simulated | CallStatus::Partial | CallStatus::Rejected => false,
        };
        Self {
            status,
            data: None,
            error: has_error.then(|| DialectError::of(error, tool)),
            decision_hints: Some(Value::Object(hints)),
            explanation: Some(error.message().to_owned()),
        }
    }

    /// Adds a hint.
    #[must_use]
    pub(super) fn hint(mut self, name: &str, value: impl Into<Value>) -> Self {
        if let Some(Value::Object(hints)) = &mut self.decision_hints {
            hints.insert(name.to_owned(), value.into());
        }
        self
    }

    /// Appends a sentence to the explanation.
    #[must_use]
    pub fn saying(mut self, sentence: &str) -> Self {
        let before = self.explanation.take().map(|before| format!("{before} ")).unwrap_or_default();
        self.explanation = Some(format!("{before}{sentence}"));
        self
    }
}

/// Returns the schema of the envelope (JSON Schema, draft 2020-12).
pub fn envelope() -> Value {
    let words = |all: &[Value]| json!({ "enum": all });
    let categories = ["retryable", "non_retryable", "policy_violation", "requires_human", "configuration"];
    let (text, maybe_text) = (json!({ "type": "string" }), json!({ "type": ["string", "null"] }));
    let error = json!({
        "type": ["object", "null"], "additionalProperties": false,
        "required": ["error_code", "message", "recoverable", "error_category", "suggestion", "tool_name"],
        "properties": {
            "error_code": words(&ErrorCategory::ALL.map(|category| json!(category))), "message": text,
            "recoverable": { "type": "boolean" }, "error_category": { "enum": categories }, "suggestion": maybe_text,
            "tool_name": maybe_text,
        },
    });
    json!({
        "type": "object", "additionalProperties": false,
        "required": ["status", "data", "error", "decision_hints", "explanation"],
        "properties": {
            "status": words(&CallStatus::ALL.map(|status| json!(status))), "data": { "type": ["object", "null"] },
            "error": error, "decision_hints": { "type": ["object", "null"] }, "explanation": maybe_text,
        },
    })
}

fn name_call(hints: &mut Map<String, Value>, call_id: CallId, native: &str) {
    hints.insert("native_tool".to_owned(), Value::from(native));
    hints.insert("call_id".to_owned(), json!(call_id));
}

impl DialectResponse {
    /// Answer of a call whose native tool the session does not have. No call can mend that, so it is not recoverable.
    pub(super) fn lacking(tool: &'static str, native: &str) -> Self {
        let what = format_args!("{tool} needs the native tool {native}, which this session does not have");
        let error = ToolError::new(ErrorCode::ToolUnknown, what)
            .suggest("Use another tool, or do it without Bardo.")
            .detail("lacks", native);
        let mut answer = Self::failed(Some(tool), CallStatus::Error, &error, Map::new());
        if let Some(error) = &mut answer.error {
            error.error_code = ErrorCategory::PermissionDenied;
            error.recoverable = false;
            error.error_category = "policy_violation";
        }
        answer
    }
}
