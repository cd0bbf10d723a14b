//! Holds an answer against its question: right shape, every id once, texts cleaned.

use super::error::{Malformed, ProviderError, TEXT_LIMIT};
use crate::base::text::SafeText;
use alloy::rpc::json_rpc::{Id, RequestPacket, Response, ResponsePacket, ResponsePayload};
use std::collections::HashSet;

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

/// The first error in the packet that means "too many requests".
pub(super) fn is_rate_limited(packet: &ResponsePacket) -> bool {
    packet.iter_errors().any(|error| error.is_retry_err())
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
