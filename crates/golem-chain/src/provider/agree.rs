//! Agreement between endpoints, for nonces, receipts, and all requests through a client's
//! [`witnessed`](super::ChainClient::witnessed) provider. If several endpoints of a chain answer, they must agree;
//! until they do, the request has no answer.
//!
//! One endpoint may be a moment behind another, so they are queried several times before a difference counts. An
//! endpoint that does not answer abstains. So does one whose own latest block is too old by the clock while at least
//! two others follow the chain; otherwise it would block every request. An endpoint that is only slow or slightly
//! behind does not abstain: one that claims to be ahead could otherwise silence it.

use alloy::rpc::json_rpc::{RequestPacket, ResponsePacket, ResponsePayload, SerializedRequest};
use serde_json::Value;

use super::answer;

/// Number of rounds in which disagreeing endpoints are queried.
pub(super) const ROUNDS: u32 = 5;

/// Receipt fields that must agree, in addition to the events: identity, position, outcome and cost, including a
/// rollup's fees.
const RECEIPT: &[&str] = &[
    "transactionHash",
    "from",
    "blockHash",
    "blockNumber",
    "transactionIndex",
    "status",
    "gasUsed",
    "effectiveGasPrice",
    "l1Fee",
    "operatorFeeScalar",
    "operatorFeeConstant",
];

/// Block fields that must agree. Other fields differ between clients.
const BLOCK: &[&str] = &[
    "hash",
    "parentHash",
    "number",
    "timestamp",
    "gasLimit",
    "gasUsed",
    "baseFeePerGas",
    "miner",
    "mixHash",
    "excessBlobGas",
];

/// Log fields that must agree: emitter, content and position.
const LOG: &[&str] =
    &["address", "topics", "data", "blockHash", "blockNumber", "transactionHash", "transactionIndex", "logIndex"];

/// Transaction fields that must agree. Clients differ in the others, such as the block's time.
const TRANSACTION: &[&str] = &["hash", "from", "to", "value", "nonce", "input", "blockHash", "blockNumber"];

/// Returns true if the request goes to several endpoints; `witnessed` demands it for any request.
pub(super) fn is_asked_of_several(packet: &RequestPacket, witnessed: bool) -> bool {
    let RequestPacket::Single(request) = packet else { return witnessed };
    match request.method() {
        "eth_getTransactionReceipt" => true,
        // Pending transactions of one endpoint need not be known to another.
        "eth_getTransactionCount" => !request.params().is_some_and(|params| params.get().contains("\"pending\"")),
        _ => witnessed,
    }
}

/// Selector of Multicall3's `aggregate3((address,bool,bytes)[])`, as it begins calldata.
const AGGREGATE3: &str = "0x82ad56cb";

/// Returns true for a Multicall3 answer that is impossible on a chain with that contract: empty return data, or a
/// failure although every single call may fail. The endpoint lacks the contract, ran out of gas, or lies, so others are
/// tried first.
pub(super) fn is_impossible(packet: &RequestPacket, answer: &ResponsePacket) -> bool {
    let (RequestPacket::Single(request), ResponsePacket::Single(response)) = (packet, answer) else { return false };
    let of_multicall =
        request.method() == "eth_call" && request.params().is_some_and(|params| params.get().contains(AGGREGATE3));
    of_multicall
        && match &response.payload {
            ResponsePayload::Success(raw) => raw.get() == "\"0x\"",
            ResponsePayload::Failure(error) => answer::means_call_failed(error),
        }
}

/// Returns true if two answers to the same request agree in all relevant fields.
fn is_the_same(packet: &RequestPacket, one: &ResponsePacket, other: &ResponsePacket) -> bool {
    // An endpoint without the block has not answered yet.
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

/// Answers of several endpoints to one request, grouped by content.
#[derive(Debug)]
pub(super) struct AnswerGroups {
    /// Answers with the indices of the endpoints that gave them, largest group first.
    groups: Vec<(ResponsePacket, Vec<usize>)>,
    /// Endpoints that lack the requested block, and whether each of them has stalled.
    behind: Vec<(usize, ResponsePacket, bool)>,
    /// Block to act on, if the request was for the latest one.
    head: Option<ResponsePacket>,
}

/// Groups answers, which are given with the endpoint's index.
pub(super) fn tally(
    packet: &RequestPacket,
    answers: Vec<(usize, ResponsePacket)>,
    is_stalled: impl Fn(usize) -> bool,
) -> AnswerGroups {
    let head = is_of_the_head(packet).then(|| common_head(&answers, &is_stalled)).flatten();
    let mut groups: Vec<(ResponsePacket, Vec<usize>)> = Vec::new();
    let mut behind = Vec::new();
    for (index, answer) in answers {
        if answer::is_behind(&answer) {
            behind.push((index, answer, is_stalled(index)));
            continue;
        }
        match groups.iter_mut().find(|(known, _)| is_the_same(packet, known, &answer)) {
            Some((_, by)) => by.push(index),
            None => groups.push((answer, vec![index])),
        }
    }
    groups.sort_by_key(|(_, by)| std::cmp::Reverse(by.len()));
    AnswerGroups { groups, behind, head }
}

impl AnswerGroups {
    /// Block to act on, if the request was for the latest one: the highest that two endpoints have reached.
    pub(super) fn head(&self) -> Option<ResponsePacket> {
        self.head.clone()
    }

    /// Returns the answer if all endpoints agree. With `lenient`, an endpoint without the block is ignored if two
    /// others have it or if it has stalled. `lenient` needs a block named by its hash, which every endpoint understands
    /// alike.
    pub(super) fn unanimous(mut self, lenient: bool) -> Result<ResponsePacket, Self> {
        let excused = match self.groups.as_slice() {
            [(_, by)] => self.behind.iter().all(|(_, _, still)| lenient && (by.len() > 1 || *still)),
            [] | [_, ..] => false,
        };
        if excused && let Some((answer, _)) = self.groups.pop() {
            return Ok(answer);
        }
        Err(self)
    }

    /// Indices of all participating endpoints; those that contradict each other come first.
    pub(super) fn voices(&self) -> Vec<usize> {
        let first = self.groups.iter().filter_map(|(_, by)| by.first());
        let rest = self.groups.iter().flat_map(|(_, by)| by.iter().skip(1));
        let behind = self.behind.iter().map(|(index, ..)| index);
        // The first of each group, then those that lack the block, then the others.
        first.chain(behind).chain(rest).copied().collect()
    }

    /// Returns the answer of a strict majority of at least two, and the endpoints that contradict it.
    pub(super) fn majority(mut self) -> Option<(ResponsePacket, Vec<usize>)> {
        let lacking = self.behind.iter().filter(|(_, _, still)| !still).count();
        let all = self.groups.iter().map(|(_, by)| by.len()).sum::<usize>() + lacking;
        let votes = self.groups.first().map(|(_, by)| by.len()).filter(|votes| *votes > 1 && votes * 2 > all);
        votes?;
        let (answer, _) = self.groups.remove(0);
        Some((answer, self.groups.into_iter().flat_map(|(_, by)| by).collect()))
    }
}

/// Returns true if the request is for the latest block.
fn is_of_the_head(packet: &RequestPacket) -> bool {
    let RequestPacket::Single(request) = packet else { return false };
    request.method() == "eth_getBlockByNumber"
        && request.params().is_some_and(|params| params.get().contains("\"latest\""))
}

/// The highest of the latest blocks that two endpoints have reached, because the claim of a single endpoint is not
/// trusted. Stalled endpoints count only if all have stalled.
fn common_head(answers: &[(usize, ResponsePacket)], is_stalled: &impl Fn(usize) -> bool) -> Option<ResponsePacket> {
    let number = |answer: &ResponsePacket| {
        let ResponsePacket::Single(response) = answer else { return None };
        let ResponsePayload::Success(raw) = &response.payload else { return None };
        let block: Value = serde_json::from_str(raw.get()).ok()?;
        u64::from_str_radix(block.get("number")?.as_str()?.strip_prefix("0x")?, 16).ok()
    };
    let heads: Vec<_> =
        answers.iter().filter_map(|(index, answer)| Some((number(answer)?, is_stalled(*index), answer))).collect();
    reached(&heads.iter().map(|(number, still, _)| (*number, *still)).collect::<Vec<_>>())
        .and_then(|place| heads.get(place).map(|(_, _, answer)| (*answer).clone()))
}

/// Index of the highest block that two endpoints have reached, among heads given with a stalled flag. If only one
/// endpoint follows the chain, the index of its head.
pub(crate) fn reached(heads: &[(u64, bool)]) -> Option<usize> {
    let all_still = heads.iter().all(|(_, still)| *still);
    let mut order: Vec<usize> =
        heads.iter().enumerate().filter(|(_, (_, still))| all_still || !still).map(|(place, _)| place).collect();
    order.sort_by_key(|place| std::cmp::Reverse(heads.get(*place).map(|(number, _)| *number)));
    order.get(1).or(order.first()).copied()
}

/// The part of an answer that must agree, in a comparable form.
fn word(request: &SerializedRequest, payload: &ResponsePayload) -> Value {
    let result = match payload {
        // Clients report a reverted call with different messages and codes.
        ResponsePayload::Failure(error) if answer::means_call_failed(error) => return Value::from("reverted"),
        // Error messages may differ; the code must agree.
        ResponsePayload::Failure(error) => return Value::from(error.code),
        ResponsePayload::Success(raw) => serde_json::from_str::<Value>(raw.get()).unwrap_or_default(),
    };
    match (request.method(), result) {
        ("eth_getTransactionReceipt", Value::Object(receipt)) => {
            let field = |name: &&str| receipt.get(*name).map(lower).unwrap_or_default();
            let logs = receipt.get("logs").and_then(Value::as_array).map(|logs| events(logs));
            RECEIPT.iter().map(field).chain([logs.unwrap_or_default()]).collect()
        }
        ("eth_getLogs", Value::Array(logs)) => events(&logs),
        ("eth_getBlockByHash" | "eth_getBlockByNumber", Value::Object(block)) => {
            BLOCK.iter().map(|name| block.get(*name).map(lower).unwrap_or_default()).collect()
        }
        ("eth_getTransactionByHash", Value::Object(transaction)) => {
            TRANSACTION.iter().map(|name| transaction.get(*name).map(lower).unwrap_or_default()).collect()
        }
        (_, result) => lower(&result),
    }
}

/// Reduces logs to the fields that must agree; others, such as the block's time, are optional.
fn events(logs: &[Value]) -> Value {
    // Some clients leave out that an event is not removed.
    let removed = |log: &Value| Value::from(log.get("removed").and_then(Value::as_bool).unwrap_or_default());
    let fields = |log: &Value| -> Value {
        LOG.iter().map(|name| log.get(*name).map(lower).unwrap_or_default()).chain([removed(log)]).collect()
    };
    logs.iter().map(fields).collect()
}

/// Lowercases strings, since hexadecimal digits may have either case.
fn lower(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::from(text.to_ascii_lowercase()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use alloy::rpc::json_rpc::{Id, Request, Response};
    use serde_json::json;

    use super::*;

    /// Answer of an endpoint: a number, or an error because it lacks the block, with its stalled flag.
    #[derive(Clone, Copy)]
    enum SampleAnswer {
        Number(u64),
        Lacks { still: bool },
    }

    /// Majority among these answers: its answer, and the endpoints that contradict it.
    fn majority(result: &[SampleAnswer]) -> Option<(String, Vec<usize>)> {
        let request = Request::new("eth_getBalance", Id::Number(1), [(); 0]).serialize().unwrap();
        let answer = |result: &SampleAnswer| {
            let told = match result {
                SampleAnswer::Number(number) => json!({"jsonrpc": "2.0", "id": 1, "result": format!("{number:#x}")}),
                SampleAnswer::Lacks { .. } => {
                    json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "header not found"}})
                }
            };
            ResponsePacket::Single(serde_json::from_value::<Response>(told).unwrap())
        };
        let answers = result.iter().map(answer).enumerate().collect();
        let is_stalled = |at: usize| matches!(result[at], SampleAnswer::Lacks { still: true });
        let (answer, others) = tally(&RequestPacket::Single(request), answers, is_stalled).majority()?;
        let ResponsePacket::Single(answer) = answer else { panic!("{answer:?}") };
        Some((answer.payload.as_success().unwrap().get().trim_matches('"').to_owned(), others))
    }

    #[test]
    fn a_majority_is_more_than_half_of_the_participants_and_at_least_two() {
        use SampleAnswer::{Lacks, Number};
        let seven = |others: &[usize]| Some(("0x7".to_owned(), others.to_vec()));
        assert_eq!(majority(&[Number(7), Number(9), Number(7)]), seven(&[1]));
        assert_eq!(majority(&[Number(9), Number(7), Number(7), Number(8), Number(7)]), seven(&[0, 3]));
        // Half is not a majority, and neither is a single endpoint.
        assert_eq!(majority(&[Number(7), Number(9)]), None);
        assert_eq!(majority(&[Number(7), Number(7), Number(9), Number(9)]), None);
        assert_eq!(majority(&[Number(7), Number(7), Number(9), Number(8)]), None);
        assert_eq!(majority(&[Number(7), Lacks { still: true }]), None);
        // An endpoint that lacks the block counts unless it has stalled.
        assert_eq!(majority(&[Number(7), Number(7), Lacks { still: false }]), seven(&[]));
        assert_eq!(majority(&[Number(7), Number(7), Number(9), Lacks { still: false }]), None);
        assert_eq!(majority(&[Number(7), Number(7), Number(9), Lacks { still: true }]), seven(&[2]));
    }
}
