//! Errors of requests to endpoints, distinguished by what the caller can do about them.

use super::answer;
use alloy::{
    primitives::Bytes,
    transports::{RpcError, TransportError, TransportErrorKind},
};
use bardo_base::text::SafeText;
use std::time::Duration;

/// Maximum length of an endpoint's text in an error, in characters.
pub(super) const TEXT_LIMIT: usize = 300;

/// Reason why a request has no answer. Messages name endpoints by label, never by URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// Endpoints of one chain contradict each other about a value that money depends on.
    #[error(
        "{first} and {second} contradict each other ({method}): nothing is signed with either; find the wrong one and \
         remove it"
    )]
    Disagreement {
        /// JSON-RPC method of the request.
        method: SafeText,
        /// Label of one endpoint.
        first: SafeText,
        /// Label of another endpoint with a different answer.
        second: SafeText,
    },
    /// The chain has no endpoint.
    #[error("no endpoint is configured for chain {chain_id}; set one with --rpc CHAIN=URL or in the config")]
    NoEndpoint {
        /// EIP-155 id of the chain.
        chain_id: u64,
    },
    /// The URL is not an HTTP URL.
    #[error("{endpoint}: requests need http:// or https://; use such a URL of the same endpoint")]
    BadUrl {
        /// Label of the endpoint.
        endpoint: SafeText,
    },
    /// The connection could not be established, so no part of the request was sent.
    #[error("{endpoint}: cannot connect ({reason}); nothing was sent")]
    Unreachable {
        /// Label of the endpoint.
        endpoint: SafeText,
        /// Network error message.
        reason: SafeText,
    },
    /// There was no complete answer within the timeout.
    #[error("{endpoint}: no response within {} ms", after.as_millis())]
    TimedOut {
        /// Label of the endpoint.
        endpoint: SafeText,
        /// Timeout of the request.
        after: Duration,
    },
    /// The connection broke after it was established.
    #[error("{endpoint}: the connection closed before the response was complete ({reason})")]
    Interrupted {
        /// Label of the endpoint.
        endpoint: SafeText,
        /// Network error message.
        reason: SafeText,
    },
    /// The answer exceeds the size limit; the rest was not read.
    #[error("{endpoint}: the response is larger than the limit of {limit} bytes; request less at once")]
    TooLarge {
        /// Label of the endpoint.
        endpoint: SafeText,
        /// Size limit, in bytes.
        limit: usize,
    },
    /// The answer does not match the request.
    #[error("{endpoint}: malformed response: {what}")]
    Malformed {
        /// Label of the endpoint.
        endpoint: SafeText,
        /// The kind of mismatch.
        what: MalformedAnswer,
    },
    /// An HTTP error status without a JSON-RPC answer.
    #[error("{endpoint}: HTTP status {status}{}", with_text(body))]
    Http {
        /// Label of the endpoint.
        endpoint: SafeText,
        /// HTTP status code.
        status: u16,
        /// Start of the response body.
        body: SafeText,
    },
    /// The endpoint asks for a pause.
    #[error("{endpoint}: rate limited{}", with_wait(*retry_after))]
    RateLimited {
        /// Label of the endpoint.
        endpoint: SafeText,
        /// Requested duration of the pause; `None` if the endpoint did not say.
        retry_after: Option<Duration>,
    },
    /// The endpoint serves another chain. No further requests are sent to it.
    #[error("{endpoint}: wrong chain: expected id {expected}, found id {found}; correct the URL or the chain's name")]
    WrongChain {
        /// Label of the endpoint.
        endpoint: SafeText,
        /// Id of the expected chain.
        expected: u64,
        /// Chain id that the endpoint returned.
        found: u64,
    },
    /// A JSON-RPC error, which is an answer: the endpoint processed the request and refused it.
    #[error("the endpoint refused (code {code}): {message}")]
    Rpc {
        /// JSON-RPC error code.
        code: i64,
        /// Sanitised error message.
        message: SafeText,
        /// Revert data; `None` if the error carries none.
        data: Option<Bytes>,
    },
    /// The request may have been executed, but its answer was lost. The stack never sends it again; the sender resolves
    /// it by receipt and nonce.
    #[error("the outcome of {method} is unknown: {cause}; check receipt and nonce before sending anything again")]
    OutcomeUnknown {
        /// Method that may have taken effect.
        method: SafeText,
        /// The failure that lost the answer.
        cause: Box<ProviderError>,
    },
    /// Several endpoints were tried and all of them failed.
    #[error("no endpoint of chain {chain_id} responded: {}", join(failures))]
    AllFailed {
        /// EIP-155 id of the chain.
        chain_id: u64,
        /// The last failure of each endpoint, in the operator's order.
        failures: Vec<ProviderError>,
    },
    /// The answer is complete but does not have the expected type.
    #[error("the response has an unexpected form: {detail}")]
    Decode {
        /// Description of the mismatch.
        detail: SafeText,
    },
    /// The request could not be made on this machine (TLS initialisation, serialisation).
    #[error("the request could not be made: {detail}")]
    Local {
        /// Description of the failure.
        detail: SafeText,
    },
}

/// Mismatch between an answer and its request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MalformedAnswer {
    /// The body is not JSON or not a JSON-RPC response.
    #[error("not a JSON-RPC response ({detail})")]
    NotJson {
        /// Message of the parser.
        detail: SafeText,
    },
    /// A single response instead of a batch, or the reverse.
    #[error("received {found} instead of {expected}")]
    Shape {
        /// The expected shape.
        expected: &'static str,
        /// The received shape.
        found: &'static str,
    },
    /// A response with an id that was not requested.
    #[error("a response has id {found}, which was not requested")]
    WrongId {
        /// The unexpected id.
        found: SafeText,
    },
    /// Two responses with the same id.
    #[error("id {id} has two responses")]
    DuplicateId {
        /// The duplicate id.
        id: SafeText,
    },
    /// Some calls of a batch have no response.
    #[error("{missing} of {expected} calls of the batch have no response")]
    HalfBatch {
        /// Number of calls in the batch.
        expected: usize,
        /// Number of calls without a response.
        missing: usize,
    },
}

impl ProviderError {
    /// Returns true if an endpoint processed the request and refused it permanently: the error is neither the
    /// endpoint's own failure nor a missing block.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Rpc { code, message, .. } => {
                let message = message.as_str().to_lowercase();
                !answer::message_means_trouble(*code, &message) && !answer::message_means_behind(&message)
            }
            Self::Disagreement { .. }
            | Self::NoEndpoint { .. }
            | Self::BadUrl { .. }
            | Self::Unreachable { .. }
            | Self::TimedOut { .. }
            | Self::Interrupted { .. }
            | Self::TooLarge { .. }
            | Self::Malformed { .. }
            | Self::Http { .. }
            | Self::RateLimited { .. }
            | Self::WrongChain { .. }
            | Self::OutcomeUnknown { .. }
            | Self::AllFailed { .. }
            | Self::Decode { .. }
            | Self::Local { .. } => false,
        }
    }

    /// Returns true if the endpoints say that they no longer have the state of the block that was asked for.
    pub fn is_state_missing(&self) -> bool {
        match self {
            Self::Rpc { message, .. } => answer::message_means_state_missing(&message.as_str().to_lowercase()),
            Self::AllFailed { failures, .. } => !failures.is_empty() && failures.iter().all(Self::is_state_missing),
            Self::Disagreement { .. }
            | Self::NoEndpoint { .. }
            | Self::BadUrl { .. }
            | Self::Unreachable { .. }
            | Self::TimedOut { .. }
            | Self::Interrupted { .. }
            | Self::TooLarge { .. }
            | Self::Malformed { .. }
            | Self::Http { .. }
            | Self::RateLimited { .. }
            | Self::WrongChain { .. }
            | Self::OutcomeUnknown { .. }
            | Self::Decode { .. }
            | Self::Local { .. } => false,
        }
    }

    /// Returns true if the request may have taken effect although no answer came.
    pub fn is_outcome_unknown(&self) -> bool {
        matches!(self, Self::OutcomeUnknown { .. })
    }

    /// Returns true if certainly no byte of the request reached an endpoint.
    pub fn nothing_sent(&self) -> bool {
        match self {
            Self::NoEndpoint { .. }
            | Self::BadUrl { .. }
            | Self::Unreachable { .. }
            | Self::WrongChain { .. }
            | Self::Local { .. } => true,
            Self::AllFailed { failures, .. } => failures.iter().all(Self::nothing_sent),
            Self::Disagreement { .. }
            | Self::TimedOut { .. }
            | Self::Interrupted { .. }
            | Self::TooLarge { .. }
            | Self::Malformed { .. }
            | Self::Http { .. }
            | Self::RateLimited { .. }
            | Self::Rpc { .. }
            | Self::OutcomeUnknown { .. }
            | Self::Decode { .. } => false,
        }
    }

    /// Extracts the [`ProviderError`] from alloy's error; `None` if the error is not from this stack.
    pub fn find(error: &TransportError) -> Option<&Self> {
        match error {
            RpcError::Transport(TransportErrorKind::Custom(inner) | TransportErrorKind::NonRetryable(inner)) => {
                inner.downcast_ref()
            }
            _ => None,
        }
    }
}

/// Converts any transport error and sanitises the endpoint's texts.
impl From<TransportError> for ProviderError {
    fn from(error: TransportError) -> Self {
        if let Some(ours) = Self::find(&error) {
            return ours.clone();
        }
        match error {
            RpcError::ErrorResp(payload) => Self::Rpc {
                code: payload.code,
                message: SafeText::clean(&payload.message, TEXT_LIMIT),
                data: revert_data(payload.data.as_deref().map(|raw| raw.get())),
            },
            RpcError::NullResp => Self::Decode { detail: SafeText::clean("null instead of a value", TEXT_LIMIT) },
            RpcError::DeserError { err, .. } => Self::Decode { detail: SafeText::clean(&err.to_string(), TEXT_LIMIT) },
            // Another transport failed; it is not certain that nothing was sent.
            RpcError::Transport(kind) => Self::Interrupted {
                endpoint: SafeText::clean("the chain", TEXT_LIMIT),
                reason: SafeText::clean(&kind.to_string(), TEXT_LIMIT),
            },
            other => Self::Local { detail: SafeText::clean(&other.to_string(), TEXT_LIMIT) },
        }
    }
}

/// Wraps a [`ProviderError`] so that no layer of alloy repeats the request.
impl From<ProviderError> for TransportError {
    fn from(error: ProviderError) -> Self {
        TransportErrorKind::non_retryable(error)
    }
}

/// Revert data of an error: a hex string, or an object with a `data` member as some endpoints return.
fn revert_data(raw: Option<&str>) -> Option<Bytes> {
    let value: serde_json::Value = serde_json::from_str(raw?).ok()?;
    let text = value.as_str().or_else(|| value.get("data").and_then(serde_json::Value::as_str))?;
    text.parse().ok()
}

fn with_text(body: &SafeText) -> String {
    if body.as_str().is_empty() { String::new() } else { format!(" ({body})") }
}

fn with_wait(retry_after: Option<Duration>) -> String {
    retry_after.map_or_else(String::new, |wait| format!("; it asks to wait {} ms", wait.as_millis()))
}

/// Failures in one line. Endpoints that cannot be reached for the same reason are named together, where the first stands.
pub(super) fn join(failures: &[ProviderError]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut named: Vec<&SafeText> = Vec::new();
    for failure in failures {
        let ProviderError::Unreachable { reason, .. } = failure else {
            parts.push(failure.to_string());
            continue;
        };
        if named.contains(&reason) {
            continue;
        }
        named.push(reason);
        let same = failures.iter().filter_map(|one| match one {
            ProviderError::Unreachable { endpoint, reason: other } if other == reason => Some(endpoint.as_str()),
            _ => None,
        });
        let endpoint = SafeText::clean(&same.collect::<Vec<_>>().join(", "), TEXT_LIMIT);
        parts.push(ProviderError::Unreachable { endpoint, reason: reason.clone() }.to_string());
    }
    parts.join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_that_fail_alike_are_named_together() {
        let text = |text: &str| SafeText::clean(text, 40);
        let unreachable = |endpoint: &str, reason: &str| ProviderError::Unreachable {
            endpoint: text(endpoint),
            reason: text(reason),
        };
        let failures = vec![
            unreachable("one.example", "no such host"),
            ProviderError::TimedOut { endpoint: text("two.example"), after: Duration::from_millis(5) },
            unreachable("three.example", "no such host"),
            unreachable("four.example", "refused"),
        ];
        assert_eq!(
            join(&failures),
            "one.example, three.example: cannot connect (no such host); nothing was sent | two.example: no response \
             within 5 ms | four.example: cannot connect (refused); nothing was sent"
        );
    }
}
