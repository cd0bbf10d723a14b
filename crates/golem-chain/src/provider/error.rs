//! What can go wrong between a question and an endpoint's answer, told so that the caller knows what to do next.

use super::answer;
use alloy::{
    primitives::Bytes,
    transports::{RpcError, TransportError, TransportErrorKind},
};
use bardo_base::text::SafeText;
use std::time::Duration;

/// Longest text of an endpoint that an error keeps, in characters.
pub(super) const TEXT_LIMIT: usize = 300;

/// Why a request has no answer. Names endpoints by label, never by URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// Endpoints of one chain contradict each other about what decides over money.
    #[error(
        "{first} and {second} contradict each other ({method}): nothing is signed on either's word; see which of them is wrong and remove it"
    )]
    Disagreement {
        /// What was asked.
        method: SafeText,
        /// One endpoint.
        first: SafeText,
        /// Another.
        second: SafeText,
    },
    /// The chain has no endpoint at all.
    #[error("no endpoint is configured for chain {chain_id}; give one with --rpc CHAIN=URL or in the config")]
    NoEndpoint {
        /// The chain's id.
        chain_id: u64,
    },
    /// The URL is not an HTTP one.
    #[error("{endpoint}: requests go over http:// or https://; give such a URL of the same endpoint")]
    BadUrl {
        /// Which endpoint.
        endpoint: SafeText,
    },
    /// No connection came about, so nothing of the request has left.
    #[error("{endpoint}: cannot connect ({reason}); nothing was sent")]
    Unreachable {
        /// Which endpoint.
        endpoint: SafeText,
        /// What the network said.
        reason: SafeText,
    },
    /// No whole answer within the time allowed.
    #[error("{endpoint}: no answer within {} ms", after.as_millis())]
    TimedOut {
        /// Which endpoint.
        endpoint: SafeText,
        /// The time allowed.
        after: Duration,
    },
    /// The connection broke after it stood.
    #[error("{endpoint}: the connection broke before the answer was complete ({reason})")]
    Interrupted {
        /// Which endpoint.
        endpoint: SafeText,
        /// What the network said.
        reason: SafeText,
    },
    /// The answer is longer than is accepted; the rest was not read.
    #[error("{endpoint}: the answer is larger than the limit of {limit} bytes; ask for less at once")]
    TooLarge {
        /// Which endpoint.
        endpoint: SafeText,
        /// Bytes accepted at most.
        limit: usize,
    },
    /// The answer is not one to the question.
    #[error("{endpoint}: malformed answer: {what}")]
    Malformed {
        /// Which endpoint.
        endpoint: SafeText,
        /// How.
        what: Malformed,
    },
    /// An HTTP status that is not success, without a JSON-RPC answer in it.
    #[error("{endpoint}: HTTP status {status}{}", with_text(body))]
    Http {
        /// Which endpoint.
        endpoint: SafeText,
        /// The status.
        status: u16,
        /// The start of the body.
        body: SafeText,
    },
    /// The endpoint asks to be left alone for a while.
    #[error("{endpoint}: rate limited{}", with_wait(*retry_after))]
    RateLimited {
        /// Which endpoint.
        endpoint: SafeText,
        /// How long it asked for, if it said.
        retry_after: Option<Duration>,
    },
    /// The URL leads to another chain. Nothing is asked of such an endpoint.
    #[error("{endpoint}: wrong chain: expected id {expected}, found id {found}; correct the URL or the chain's name")]
    WrongChain {
        /// Which endpoint.
        endpoint: SafeText,
        /// The id of the chain that was meant.
        expected: u64,
        /// The id the endpoint answers.
        found: u64,
    },
    /// A JSON-RPC error, which is an answer: the endpoint understood and refused.
    #[error("the endpoint refused (code {code}): {message}")]
    Rpc {
        /// JSON-RPC error code.
        code: i64,
        /// Its message.
        message: SafeText,
        /// Revert data, if the error carries any.
        data: Option<Bytes>,
    },
    /// The request may have been carried out and its answer was lost. Never sent again by the
    /// stack: whoever sent it settles it by receipt and nonce.
    #[error(
        "the outcome of {method} is unknown: {cause}; settle it by receipt and nonce before sending anything again"
    )]
    OutcomeUnknown {
        /// The method that may have taken effect.
        method: SafeText,
        /// How the answer was lost.
        cause: Box<ProviderError>,
    },
    /// Several endpoints were tried and each failed.
    #[error("no endpoint of chain {chain_id} answered: {}", join(failures))]
    AllFailed {
        /// The chain's id.
        chain_id: u64,
        /// The last failure of each endpoint that was tried, in order.
        failures: Vec<ProviderError>,
    },
    /// The answer arrived whole, and is not of the type the method has.
    #[error("the answer has an unexpected form: {detail}")]
    Decode {
        /// What was found.
        detail: SafeText,
    },
    /// This machine cannot ask (TLS set-up, a request that cannot be written down).
    #[error("the request could not be made: {detail}")]
    Local {
        /// What failed.
        detail: SafeText,
    },
}

/// How an answer fails to be one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Not JSON, or not a JSON-RPC response.
    #[error("not a JSON-RPC response ({detail})")]
    NotJson {
        /// What the parser said.
        detail: SafeText,
    },
    /// A single response where a batch was due, or the reverse.
    #[error("{found} came where {expected} was due")]
    Shape {
        /// What was due.
        expected: &'static str,
        /// What came.
        found: &'static str,
    },
    /// An id that was not asked.
    #[error("a response carries id {found}, which was not asked")]
    WrongId {
        /// The stray id.
        found: SafeText,
    },
    /// One id twice.
    #[error("id {id} is answered twice")]
    DuplicateId {
        /// The id.
        id: SafeText,
    },
    /// Some members of a batch have no answer.
    #[error("{missing} of {expected} calls of the batch have no answer")]
    HalfBatch {
        /// Calls in the batch.
        expected: usize,
        /// Calls without an answer.
        missing: usize,
    },
}

impl ProviderError {
    /// Whether an endpoint has understood the question and refused it, for good as far as can be told: neither trouble of
    /// its own, nor a block that it has not heard of yet.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Rpc { code, message, .. } => {
                let message = message.as_str().to_lowercase();
                !answer::words_mean_trouble(*code, &message) && !answer::words_mean_behind(&message)
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

    /// Whether the request may have taken effect although no answer came.
    pub fn is_outcome_unknown(&self) -> bool {
        matches!(self, Self::OutcomeUnknown { .. })
    }

    /// Whether it is certain that not a byte of the request reached an endpoint.
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

    /// Our error inside alloy's, if it came from this stack.
    pub fn find(error: &TransportError) -> Option<&Self> {
        match error {
            RpcError::Transport(TransportErrorKind::Custom(inner) | TransportErrorKind::NonRetryable(inner)) => {
                inner.downcast_ref()
            }
            _ => None,
        }
    }
}

/// Any transport error as ours, with every text of the endpoint cleaned.
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
            RpcError::NullResp => Self::Decode { detail: SafeText::clean("null where a value was due", TEXT_LIMIT) },
            RpcError::DeserError { err, .. } => Self::Decode { detail: SafeText::clean(&err.to_string(), TEXT_LIMIT) },
            // A transport that is not ours, failing in its own words: nothing says that nothing was sent.
            RpcError::Transport(kind) => Self::Interrupted {
                endpoint: SafeText::clean("the chain", TEXT_LIMIT),
                reason: SafeText::clean(&kind.to_string(), TEXT_LIMIT),
            },
            other => Self::Local { detail: SafeText::clean(&other.to_string(), TEXT_LIMIT) },
        }
    }
}

/// Ours inside alloy's, as one that no layer of alloy replays.
impl From<ProviderError> for TransportError {
    fn from(error: ProviderError) -> Self {
        TransportErrorKind::non_retryable(error)
    }
}

/// Hex data of an error: a plain string, or one member deep as some endpoints wrap it.
fn revert_data(raw: Option<&str>) -> Option<Bytes> {
    let value: serde_json::Value = serde_json::from_str(raw?).ok()?;
    let text = value.as_str().or_else(|| value.get("data").and_then(serde_json::Value::as_str))?;
    text.parse().ok()
}

fn with_text(body: &SafeText) -> String {
    if body.as_str().is_empty() { String::new() } else { format!(" ({body})") }
}

fn with_wait(retry_after: Option<Duration>) -> String {
    retry_after.map_or_else(String::new, |wait| format!("; it asks for {} ms of quiet", wait.as_millis()))
}

fn join(failures: &[ProviderError]) -> String {
    failures.iter().map(ToString::to_string).collect::<Vec<_>>().join(" | ")
}
