//! Validation of answers against requests: shape, ids and sanitised messages; classification of JSON-RPC errors.

use super::error::{MalformedAnswer, ProviderError, TEXT_LIMIT};
use alloy::rpc::json_rpc::{ErrorPayload, Id, RequestPacket, Response, ResponsePacket, ResponsePayload};
use bardo_base::text::SafeText;
use std::collections::HashSet;

/// Error code of nodes for a reverted call.
const EXECUTION_REVERTED: i64 = 3;
/// Phrases in providers' rate limit messages, in lower case.
const RATE_WORDS: [&str; 6] = [
    "rate limit",
    "rate exceeded",
    "too many requests",
    "credits limited",
    "request limit reached",
    "maximum number of concurrent requests",
];
/// Phrases in nodes' messages for a missing block, in lower case.
const BEHIND_WORDS: [&str; 4] = ["header not found", "header for hash not found", "block not found", "unknown block"];

/// Returns the packet if it answers the request, with sanitised error messages.
///
/// # Errors
/// [`ProviderError::Malformed`] if it does not match the request. [`ProviderError::Rpc`] if the endpoint refused the
/// packet as a whole: an error without an id, or one error for a batch.
pub(super) fn check(
    question: &RequestPacket,
    answer: ResponsePacket,
    endpoint: &SafeText,
) -> Result<ResponsePacket, ProviderError> {
    let malformed = |what| ProviderError::Malformed { endpoint: endpoint.clone(), what };
    match (question, answer) {
        (RequestPacket::Single(asked), ResponsePacket::Single(response)) => {
            if &response.id != asked.id() {
                return Err(whole_refusal(&response)
                    .unwrap_or_else(|| malformed(MalformedAnswer::WrongId { found: id_text(&response.id) })));
            }
            Ok(ResponsePacket::Single(cleaned(response)))
        }
        (RequestPacket::Batch(asked), ResponsePacket::Batch(responses)) => {
            let mut open: HashSet<&Id> = asked.iter().map(|request| request.id()).collect();
            for response in &responses {
                if !open.remove(&response.id) {
                    let known = asked.iter().any(|request| request.id() == &response.id);
                    let id = id_text(&response.id);
                    return Err(malformed(if known {
                        MalformedAnswer::DuplicateId { id }
                    } else {
                        MalformedAnswer::WrongId { found: id }
                    }));
                }
            }
            if !open.is_empty() {
                return Err(malformed(MalformedAnswer::HalfBatch { expected: asked.len(), missing: open.len() }));
            }
            Ok(ResponsePacket::Batch(responses.into_iter().map(cleaned).collect()))
        }
        (RequestPacket::Single(_), ResponsePacket::Batch(_)) => {
            Err(malformed(MalformedAnswer::Shape { expected: "one response", found: "a list" }))
        }
        (RequestPacket::Batch(_), ResponsePacket::Single(response)) => {
            Err(whole_refusal(&response).unwrap_or_else(|| {
                malformed(MalformedAnswer::Shape { expected: "a list of responses", found: "one response" })
            }))
        }
    }
}

/// Phrases of failed calls in messages with the code of an internal error, in lower case.
const CALL_WORDS: [&str; 5] = ["revert", "vm exception", "evm error", "invalid opcode", "out of gas"];

/// Returns true if the packet contains a rate limit error.
pub(super) fn is_rate_limited(packet: &ResponsePacket) -> bool {
    packet.iter_errors().any(means_rate_limited)
}

/// Returns true if the packet contains an error because the endpoint lacks the requested block. Endpoints that are
/// behind the one that named the block return such errors.
pub(super) fn is_behind(packet: &ResponsePacket) -> bool {
    packet.iter_errors().any(|error| {
        let message = error.message.to_lowercase();
        !is_of_a_call(error, &message) && message_means_behind(&message)
    })
}

/// Returns true if a message, given in lower case, says that the endpoint lacks the requested block.
pub(super) fn message_means_behind(message: &str) -> bool {
    BEHIND_WORDS.iter().any(|words| message.contains(words))
}

/// Phrases of nodes that have dropped an old state, in lower case: geth, erigon, nethermind, reth, besu and the devnet.
const STATE_MISSING_WORDS: [&str; 6] = [
    "missing trie node",
    "missing state",
    "historical state",
    "state is not available",
    "pruned",
    "world state unavailable",
];

/// Returns true if a message, given in lower case, says that the endpoint has dropped the state of a block.
pub(super) fn message_means_state_missing(message: &str) -> bool {
    STATE_MISSING_WORDS.iter().any(|words| message.contains(words))
}

/// Returns true if the packet contains an error of the endpoint itself, which may be gone at the next attempt.
pub(super) fn is_trouble(packet: &ResponsePacket) -> bool {
    packet.iter_errors().any(|error| {
        let message = error.message.to_lowercase();
        let of_a_call = is_of_a_call(error, &message) || CALL_WORDS.iter().any(|words| message.contains(words));
        !of_a_call && means_trouble(error)
    })
}

/// Returns true if an error is the result of a call on the chain, for any client's messages and codes.
pub(super) fn means_call_failed(error: &ErrorPayload) -> bool {
    let message = error.message.to_lowercase();
    is_of_a_call(error, &message) || CALL_WORDS.iter().any(|words| message.contains(words))
}

/// Returns true if the packet contains an error that says nothing about the chain: neither a failed call nor a missing
/// block. Examples are pruned state and an unsupported method.
pub(super) fn is_no_answer(packet: &ResponsePacket) -> bool {
    !is_behind(packet) && packet.iter_errors().any(|error| !means_call_failed(error))
}

/// Returns true if an error leaves the outcome of the request open: an internal error, an unavailable resource
/// ([EIP-1474](https://eips.ethereum.org/EIPS/eip-1474)), or a gateway's timeout.
pub(super) fn means_trouble(error: &ErrorPayload) -> bool {
    message_means_trouble(error.code, &error.message.to_lowercase())
}

/// Like [`means_trouble`], for an error's code and its message in lower case.
pub(super) fn message_means_trouble(code: i64, message: &str) -> bool {
    is_trouble_code(code) || message.contains("timeout") || message.contains("timed out")
}

/// Returns true for the codes of an internal error and of an unavailable resource.
pub(super) fn is_trouble_code(code: i64) -> bool {
    matches!(code, -32603 | -32002)
}

/// Returns true if an error is the result of a call, such as a revert. A call's result is final for any message, so a
/// repetition does not help. `message` is the error's message in lower case.
fn is_of_a_call(error: &ErrorPayload, message: &str) -> bool {
    error.code == EXECUTION_REVERTED || error.data.is_some() || message.contains("execution reverted")
}

/// Returns true if an error reports that the endpoint receives too many requests.
fn means_rate_limited(error: &ErrorPayload) -> bool {
    let message = error.message.to_lowercase();
    if is_of_a_call(error, &message) {
        return false;
    }
    match error.code {
        // HTTP's code, and two codes of providers (Cloudflare, WebSocket policy).
        429 | -32055 | 1008 => true,
        // EIP-1474's "limit exceeded" is for requests or for results; a repetition does not help with the latter.
        -32005 => !message.contains("query returned more than"),
        _ => RATE_WORDS.iter().any(|words| message.contains(words)),
    }
}

/// Converts an error that concerns the whole packet, not one call in it.
fn whole_refusal(response: &Response) -> Option<ProviderError> {
    let error = response.payload.as_error()?;
    Some(ProviderError::Rpc { code: error.code, message: SafeText::clean(&error.message, TEXT_LIMIT), data: None })
}

fn cleaned(mut response: Response) -> Response {
    if let ResponsePayload::Failure(error) = &mut response.payload {
        error.message = SafeText::clean(&error.message, TEXT_LIMIT).to_string().into();
    }
    response
}

fn id_text(id: &Id) -> SafeText {
    SafeText::clean(&id.to_string(), 40)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(error: &str) -> ResponsePacket {
        let answer = format!(r#"{{"jsonrpc":"2.0","id":1,"error":{error}}}"#);
        serde_json::from_str(&answer).expect("a response")
    }

    fn limited(error: &str) -> bool {
        is_rate_limited(&answer(error))
    }

    #[test]
    fn an_endpoint_that_lacks_the_block_is_behind_and_a_call_that_says_so_is_not() {
        for error in [
            r#"{"code":-32000,"message":"header not found"}"#,
            r#"{"code":-32000,"message":"header for hash not found"}"#,
            r#"{"code":-32001,"message":"Block not found"}"#,
        ] {
            assert!(is_behind(&answer(error)), "{error}");
        }
        for error in [
            r#"{"code":3,"message":"execution reverted: header not found"}"#,
            r#"{"code":-32000,"message":"execution reverted: unknown block"}"#,
            r#"{"code":-32000,"message":"VM: block not found","data":"0x08c379a0"}"#,
            r#"{"code":-32601,"message":"the method was not found"}"#,
            r#"{"code":-32000,"message":"missing trie node"}"#,
        ] {
            assert!(!is_behind(&answer(error)), "{error}");
        }
    }

    #[test]
    fn an_endpoint_in_trouble_is_not_a_call_that_failed() {
        for error in [
            r#"{"code":-32603,"message":"internal error"}"#,
            r#"{"code":-32002,"message":"resource unavailable"}"#,
            r#"{"code":-32000,"message":"upstream request timed out"}"#,
        ] {
            assert!(is_trouble(&answer(error)), "{error}");
        }
        for error in [
            r#"{"code":3,"message":"execution reverted: internal error"}"#,
            r#"{"code":-32603,"message":"VM Exception while processing transaction: revert STF"}"#,
            r#"{"code":-32603,"message":"EVM error: InvalidFEOpcode"}"#,
            r#"{"code":-32603,"message":"internal error","data":"0x08c379a0"}"#,
            r#"{"code":-32601,"message":"the method was not found"}"#,
            r#"{"code":-32000,"message":"nonce too low"}"#,
        ] {
            assert!(!is_trouble(&answer(error)), "{error}");
        }
    }

    #[test]
    fn rate_limit_errors_of_providers_are_recognised() {
        for error in [
            r#"{"code":429,"message":"Your app has exceeded its compute units per second capacity"}"#,
            r#"{"code":-32005,"message":"project ID request rate exceeded"}"#,
            r#"{"code":-32005,"message":"daily request count exceeded, request rate limited"}"#,
            r#"{"code":-32016,"message":"Your IP has exceeded its requests per second: over rate limit"}"#,
            r#"{"code":-32012,"message":"credits limited to 6000/sec"}"#,
            r#"{"code":-32007,"message":"100/second request limit reached - reduce calls per second"}"#,
            r#"{"code":-32000,"message":"Too Many Requests"}"#,
            r#"{"code":1008,"message":"You have exceeded the maximum number of concurrent requests"}"#,
        ] {
            assert!(limited(error), "{error}");
        }
    }

    #[test]
    fn results_of_a_call_are_no_rate_limit_whatever_their_text() {
        for error in [
            r#"{"code":3,"message":"execution reverted: mint rate limit exceeded"}"#,
            r#"{"code":3,"message":"rate limit"}"#,
            r#"{"code":-32000,"message":"execution reverted: too many requests"}"#,
            r#"{"code":-32000,"message":"VM: rate limit","data":"0x08c379a0"}"#,
            r#"{"code":-32005,"message":"query returned more than 10000 results"}"#,
            r#"{"code":-32000,"message":"header not found"}"#,
            r#"{"code":-32602,"message":"invalid argument"}"#,
        ] {
            assert!(!limited(error), "{error}");
        }
    }

    #[test]
    fn a_dropped_state_is_told_from_other_errors() {
        for message in [
            "missing trie node 5f (path )",
            "required historical state unavailable (reexec=128)",
            "state at block #5 is pruned",
            "missing state of block 7: this chain keeps the states of blocks 9 to 12",
            "World state unavailable",
        ] {
            assert!(message_means_state_missing(&message.to_lowercase()), "{message}");
        }
        for message in ["header not found", "execution timeout", "rate limited", "execution reverted"] {
            assert!(!message_means_state_missing(message), "{message}");
        }
    }
}
