//! What one endpoint's word is not enough for: nonces, receipts, and whatever is asked through a client's
//! [`witnessed`](super::ChainClient::witnessed) provider. Where a chain has several endpoints that answer, they must
//! say the same; while they do not, there is no answer.
//!
//! An endpoint may be a moment behind another, so they are asked again a few times before their difference counts. One
//! that does not answer abstains, and so does one whose own latest block is too old by the clock while at least two others
//! make blocks: it has come to a stand, and would hold up everything for as long as it does. One that is only slow or
//! behind does not: who claims to be ahead would silence it.

use alloy::rpc::json_rpc::{RequestPacket, ResponsePacket, ResponsePayload, SerializedRequest};
use serde_json::Value;

use super::answer;

/// How often endpoints that differ are asked again.
pub(super) const ROUNDS: u32 = 5;

/// Fields of a receipt that decide beside its events: what, whose, where, how it ended, what it cost, on a rollup with
/// what was paid for the chain below.
const RECEIPT: &[&str] =
    &["transactionHash", "from", "blockHash", "blockNumber", "status", "gasUsed", "effectiveGasPrice", "l1Fee"];

/// Fields of an event that decide: whose, what, and where it stands.
const LOG: &[&str] = &["address", "topics", "data", "blockHash", "transactionHash", "logIndex"];

/// Whether several endpoints are asked about this; `witnessed` says that the asker wants it whatever it is.
pub(super) fn is_asked_of_several(packet: &RequestPacket, witnessed: bool) -> bool {
    let RequestPacket::Single(request) = packet else { return witnessed };
    match request.method() {
        "eth_getTransactionReceipt" => true,
        // What waits at one endpoint need not wait at another.
        "eth_getTransactionCount" => !request.params().is_some_and(|params| params.get().contains("\"pending\"")),
        _ => witnessed,
    }
}

/// Whether two answers to one question say the same in what decides.
pub(super) fn is_the_same(packet: &RequestPacket, one: &ResponsePacket, other: &ResponsePacket) -> bool {
    // One that lacks the block has not said anything about it yet.
    if answer::is_behind(one) || answer::is_behind(other) {
        return false;
    }
    match (packet, one, other) {
        (RequestPacket::Single(request), ResponsePacket::Single(one), ResponsePacket::Single(other)) => {
            word(request, &one.payload) == word(request, &other.payload)
        }
        (RequestPacket::Batch(requests), ResponsePacket::Batch(one), ResponsePacket::Batch(other)) => {
            requests.iter().all(|request| {
                let of = |batch: &[alloy::rpc::json_rpc::Response]| {
                    let found = batch.iter().find(|response| response.id == *request.id());
                    found.map(|response| word(request, &response.payload))
                };
                of(one) == of(other)
            })
        }
        _ => false,
    }
}

/// What an answer says, as far as it decides.
fn word(request: &SerializedRequest, payload: &ResponsePayload) -> Value {
    let said = match payload {
        // The same refusal in other words is the same refusal.
        ResponsePayload::Failure(error) => return Value::from(error.code),
        ResponsePayload::Success(raw) => serde_json::from_str::<Value>(raw.get()).unwrap_or_default(),
    };
    match (request.method(), said) {
        ("eth_getTransactionReceipt", Value::Object(receipt)) => {
            let field = |name: &&str| receipt.get(*name).map(lower).unwrap_or_default();
            let logs = receipt.get("logs").and_then(Value::as_array).map(|logs| events(logs));
            RECEIPT.iter().map(field).chain([logs.unwrap_or_default()]).collect()
        }
        ("eth_getLogs", Value::Array(logs)) => events(&logs),
        (_, said) => lower(&said),
    }
}

/// Whatever else an endpoint tells of an event, such as the time of its block, others may leave out.
fn events(logs: &[Value]) -> Value {
    let fields =
        |log: &Value| -> Value { LOG.iter().map(|name| log.get(*name).map(lower).unwrap_or_default()).collect() };
    logs.iter().map(fields).collect()
}

/// Hexadecimal digits are the same in either case.
fn lower(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::from(text.to_ascii_lowercase()),
        other => other.clone(),
    }
}
