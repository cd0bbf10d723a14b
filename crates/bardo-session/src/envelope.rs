//! What every call answers with.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use bardo_base::error::ToolError;
use bardo_base::id::CallId;

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It did what was asked.
    Success,
    /// It showed what would happen; nothing changed.
    Simulated,
    /// It is on its way and not over: an order that can fill, a transaction not yet confirmed.
    Partial,
    /// A rule stands against it.
    Blocked,
    /// The operator refused, or did not answer in time.
    Rejected,
    /// It failed.
    Error,
}

impl Status {
    /// Every one, in order.
    pub const ALL: [Self; 6] =
        [Self::Success, Self::Simulated, Self::Partial, Self::Blocked, Self::Rejected, Self::Error];

    /// Name of the status, as it is serialised.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Simulated => "simulated",
            Self::Partial => "partial",
            Self::Blocked => "blocked",
            Self::Rejected => "rejected",
            Self::Error => "error",
        }
    }
}

/// The envelope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResponse {
    /// Which call it answers.
    pub call_id: CallId,
    /// How it ended.
    pub status: Status,
    /// The tool's output, shaped by its schema.
    pub data: Option<Value>,
    /// What was wrong, where something was.
    pub error: Option<ToolError>,
    /// Facts that help to decide what to do next, for a machine.
    pub decision_hints: Option<Value>,
    /// The same for a person, in a sentence or two.
    pub explanation: Option<String>,
}

impl ToolResponse {
    /// An answer without a result. The explanation is the error's own message.
    pub fn failed(call_id: CallId, status: Status, error: ToolError) -> Self {
        let explanation = Some(error.message().to_owned());
        Self { call_id, status, data: None, error: Some(error), decision_hints: None, explanation }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use bardo_base::error::ErrorCode;

    #[test]
    fn every_field_is_always_there() {
        let response = ToolResponse::failed(
            "00000000000000000000000001".parse().unwrap(),
            Status::Error,
            ToolError::new(ErrorCode::TokenNotFound, "no token `FOO` on ethereum"),
        );
        let json = serde_json::to_value(&response).unwrap();
        assert_eq!(
            json,
            json!({
                "call_id": "00000000000000000000000001", "status": "error", "data": null, "decision_hints": null,
                "error": {
                    "code": "TOKEN_NOT_FOUND", "category": "validation_error", "message": "no token `FOO` on ethereum",
                    "recoverable": true, "suggestion": ErrorCode::TokenNotFound.suggestion(),
                    "details": {"group": "data"},
                },
                "explanation": "no token `FOO` on ethereum",
            })
        );
        assert_eq!(serde_json::from_value::<ToolResponse>(json).unwrap(), response);
    }
}
