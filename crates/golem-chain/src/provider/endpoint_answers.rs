//! Answers of one endpoint to a batch that all endpoints of a chain receive.

use super::{answer, endpoint::Endpoint};
use alloy::rpc::json_rpc::{Id, Request, RequestPacket, Response, ResponsePacket, ResponsePayload, SerializedRequest};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use serde_json::Value;

/// Answers of one endpoint, in the order of the calls.
#[derive(Debug, Clone)]
pub(crate) struct EndpointAnswers {
    /// Index of the endpoint in its stack.
    pub endpoint: usize,
    /// True if the endpoint has stalled: its own latest block is too old by the local clock.
    pub is_stalled: bool,
    /// One answer per call.
    pub answers: Vec<CallAnswer>,
}

/// Answer of one endpoint to one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CallAnswer {
    /// The result of the call.
    Value(Value),
    /// The endpoint lacks the requested block.
    Behind,
    /// The endpoint rejects the form of the block parameter (EIP-1898) or another parameter.
    BadParams,
    /// Any other error.
    Failed,
}

/// Size and concurrency of batch requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Batching {
    /// Calls per request.
    pub calls: usize,
    /// Concurrent requests per endpoint.
    pub requests: usize,
}

/// Sends all `calls` to one endpoint. `None` if a request fails as a whole.
pub(super) async fn of(
    index: usize,
    endpoint: &Endpoint,
    batching: Batching,
    calls: Vec<(&'static str, Value)>,
) -> Option<EndpointAnswers> {
    let requests: Vec<SerializedRequest> = calls
        .into_iter()
        .zip(1_u64..)
        .map(|((method, params), id)| Request::new(method, Id::Number(id), params).serialize())
        .collect::<Result<_, _>>()
        .ok()?;
    let chunks: Vec<Vec<SerializedRequest>> = requests.chunks(batching.calls.max(1)).map(<[_]>::to_vec).collect();
    let chunks = stream::iter(chunks).map(|chunk| async move {
        let count = chunk.len();
        let packet = RequestPacket::Batch(chunk);
        let answer = endpoint.ask(packet).await.map_err(|_| ())?;
        let ResponsePacket::Batch(mut responses) = answer else { return Err(()) };
        responses.sort_by_key(|response| match &response.id {
            Id::Number(number) => *number,
            Id::String(_) | Id::None => u64::MAX,
        });
        if responses.len() != count || responses.iter().any(is_trouble) {
            return Err(());
        }
        Ok::<_, ()>(responses.into_iter().map(|response| answers_of(response.payload)).collect::<Vec<_>>())
    });
    let answers: Vec<Vec<CallAnswer>> = chunks.buffered(batching.requests.max(1)).try_collect().await.ok()?;
    let answers = answers.into_iter().flatten().collect();
    Some(EndpointAnswers { endpoint: index, is_stalled: endpoint.is_stalled(), answers })
}

fn is_trouble(response: &Response) -> bool {
    let packet = ResponsePacket::Single(response.clone());
    answer::is_rate_limited(&packet) || answer::is_trouble(&packet)
}

fn answers_of(payload: ResponsePayload) -> CallAnswer {
    match payload {
        ResponsePayload::Success(raw) => serde_json::from_str(raw.get()).map_or(CallAnswer::Failed, CallAnswer::Value),
        ResponsePayload::Failure(error) if error.code == -32_602 => CallAnswer::BadParams,
        ResponsePayload::Failure(error) if answer::message_means_behind(&error.message.to_lowercase()) => {
            CallAnswer::Behind
        }
        ResponsePayload::Failure(_) => CallAnswer::Failed,
    }
}
