//! Response envelope of a tool call.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use bardo_base::error::ToolError;
use bardo_base::id::CallId;

/// Final status of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    /// The call succeeded.
    Success,
    /// The call was only simulated; nothing changed.
    Simulated,
    /// The call ended before its result is final: an order can still fill, or a transaction is not confirmed yet.
    Partial,
    /// A rule blocked the call.
    Blocked,
    /// The operator rejected the call, or did not answer in time.
    Rejected,
    /// The call failed.
    Error,
}

impl CallStatus {
    /// All statuses, in the order of their declaration.
    pub const ALL: [Self; 6] =
        [Self::Success, Self::Simulated, Self::Partial, Self::Blocked, Self::Rejected, Self::Error];

    /// Serialized name of the status.
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

/// Response to a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResponse {
    /// Id of the call.
    pub call_id: CallId,
    /// Final status of the call.
    pub status: CallStatus,
    /// Output of the tool, as defined by its schema; `None` without a result.
    pub data: Option<Value>,
    /// Error of the call; `None` if there is none.
    pub error: Option<ToolError>,
    /// Machine-readable facts for the caller's next decision.
    pub decision_hints: Option<Value>,
    /// Explanation for a person, in one or two sentences.
    pub explanation: Option<String>,
}

impl ToolResponse {
    /// Creates a response without a result. The explanation is the message of the error.
    pub fn failed(call_id: CallId, status: CallStatus, error: ToolError) -> Self {
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
            CallStatus::Error,
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
