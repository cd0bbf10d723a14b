//! Holds an answer against its question: right shape, every id once, texts cleaned.

use super::error::{Malformed, ProviderError, TEXT_LIMIT};
use alloy::rpc::json_rpc::{ErrorPayload, Id, RequestPacket, Response, ResponsePacket, ResponsePayload};
use bardo_base::text::SafeText;
use std::collections::HashSet;

/// The code nodes give a call that reverted.
const EXECUTION_REVERTED: i64 = 3;
/// How providers word that they were asked too often, in lower case.
const RATE_WORDS: [&str; 6] = [
    "rate limit",
    "rate exceeded",
    "too many requests",
    "credits limited",
    "request limit reached",
    "maximum number of concurrent requests",
];
/// How nodes word that they do not have a block that was named, in lower case.
const BEHIND_WORDS: [&str; 4] = ["header not found", "header for hash not found", "block not found", "unknown block"];

/// The packet if it answers the question, with error messages cleaned.
///
/// # Errors
/// [`ProviderError::Malformed`] if not; [`ProviderError::Rpc`] if the endpoint refused the packet
/// as a whole (an error without an id, or one error for a batch), which answers no call in it.
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
                    .unwrap_or_else(|| malformed(Malformed::WrongId { found: id_text(&response.id) })));
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
                        Malformed::DuplicateId { id }
                    } else {
                        Malformed::WrongId { found: id }
                    }));
                }
            }
            if !open.is_empty() {
                return Err(malformed(Malformed::HalfBatch { expected: asked.len(), missing: open.len() }));
            }
            Ok(ResponsePacket::Batch(responses.into_iter().map(cleaned).collect()))
        }
        (RequestPacket::Single(_), ResponsePacket::Batch(_)) => {
            Err(malformed(Malformed::Shape { expected: "one response", found: "a list" }))
        }
        (RequestPacket::Batch(_), ResponsePacket::Single(response)) => Err(whole_refusal(&response)
            .unwrap_or_else(|| malformed(Malformed::Shape { expected: "a list of responses", found: "one response" }))),
    }
}

/// How nodes word, under the code of an internal error, what a call came to, in lower case.
const CALL_WORDS: [&str; 5] = ["revert", "vm exception", "evm error", "invalid opcode", "out of gas"];

/// Whether some answer in the packet means "too many requests".
pub(super) fn is_rate_limited(packet: &ResponsePacket) -> bool {
    packet.iter_errors().any(means_rate_limited)
}

/// Whether some answer in the packet means that the endpoint lacks the block it was asked about, as one does that is
/// behind the endpoint that named it.
pub(super) fn is_behind(packet: &ResponsePacket) -> bool {
    packet.iter_errors().any(|error| {
        let message = error.message.to_lowercase();
        !is_of_a_call(error, &message) && words_mean_behind(&message)
    })
}

/// Whether a message, in lower case, says that the endpoint lacks a block that was named.
pub(super) fn words_mean_behind(message: &str) -> bool {
    BEHIND_WORDS.iter().any(|words| message.contains(words))
}

/// Whether some answer in the packet is trouble of the endpoint's own, which may be over the next time it is asked.
pub(super) fn is_trouble(packet: &ResponsePacket) -> bool {
    packet.iter_errors().any(|error| {
        let message = error.message.to_lowercase();
        let of_a_call = is_of_a_call(error, &message) || CALL_WORDS.iter().any(|words| message.contains(words));
        !of_a_call && means_trouble(error)
    })
}

/// Whether an error is what a call came to on the chain, in whatever words and under whatever code a client puts it.
pub(super) fn means_call_failed(error: &ErrorPayload) -> bool {
    let message = error.message.to_lowercase();
    is_of_a_call(error, &message) || CALL_WORDS.iter().any(|words| message.contains(words))
}

/// Whether some answer in the packet is an error that says nothing about the chain: neither what a call came to, nor
/// that the block is missing. Such as state that the endpoint has pruned, or a method it does not serve.
pub(super) fn is_no_answer(packet: &ResponsePacket) -> bool {
    !is_behind(packet) && packet.iter_errors().any(|error| !means_call_failed(error))
}

/// Whether an error does not say what became of the request: an internal error, an unavailable resource
/// ([EIP-1474](https://eips.ethereum.org/EIPS/eip-1474)), or a gateway that stopped waiting for its node.
pub(super) fn means_trouble(error: &ErrorPayload) -> bool {
    words_mean_trouble(error.code, &error.message.to_lowercase())
}

/// The same of its code and its message, in lower case.
pub(super) fn words_mean_trouble(code: i64, message: &str) -> bool {
    is_trouble_code(code) || message.contains("timeout") || message.contains("timed out")
}

/// Whether a code is that of an internal error or of an unavailable resource.
pub(super) fn is_trouble_code(code: i64) -> bool {
    matches!(code, -32603 | -32002)
}

/// Whether an error is what a call came to, reverts above all: that is the answer, however its contract worded it,
/// and asking again or elsewhere does not help. `message` is the error's in lower case.
fn is_of_a_call(error: &ErrorPayload, message: &str) -> bool {
    error.code == EXECUTION_REVERTED || error.data.is_some() || message.contains("execution reverted")
}

/// Whether an error is about how often the endpoint is asked.
fn means_rate_limited(error: &ErrorPayload) -> bool {
    let message = error.message.to_lowercase();
    if is_of_a_call(error, &message) {
        return false;
    }
    match error.code {
        // As in HTTP; and providers' own codes for it (Cloudflare, WebSocket policy).
        429 | -32055 | 1008 => true,
        // EIP-1474's "limit exceeded": of requests, or of results, which asking again does not change.
        -32005 => !message.contains("query returned more than"),
        _ => RATE_WORDS.iter().any(|words| message.contains(words)),
    }
}

/// An error that is about the packet, not about a call in it.
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
    fn what_providers_say_when_asked_too_often_is_a_rate_limit() {
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
    fn what_a_call_came_to_is_no_rate_limit_whatever_its_words() {
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
}
