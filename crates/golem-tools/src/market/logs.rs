//! Bounded reading of logs: from the newest block backwards, in ranges that adapt to what the endpoints answer, until the
//! requested range, or a limit of requests or logs, is reached. The answers are those on which the endpoints agree; a
//! chain with one endpoint rests on that endpoint.

use alloy::primitives::{Address, B256};
use alloy::providers::Provider as _;
use alloy::rpc::types::{Filter, Log as RpcLog};

use crate::blocks::asks_for_less;
use crate::engine::ConnectedChain;
use bardo_base::error::{ErrorCode, ToolError};
use golem_chain::provider::ProviderError;

/// Number of blocks of the first request.
const FIRST_SPAN: u64 = 10_000;
/// Maximum number of blocks of a request.
const MAX_SPAN: u64 = 1_000_000;

/// Log with its place in the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlacedLog {
    /// Number of the block.
    pub(crate) number: u64,
    /// Hash of the block.
    pub(crate) hash: B256,
    /// Index of the log in the block.
    pub(crate) index: u64,
    /// Hash of the transaction.
    pub(crate) transaction: B256,
    /// Time of the block by the log itself, in seconds since the Unix epoch; `None` if the log has none, or if several
    /// endpoints answer, which do not have to agree on it.
    pub(crate) time: Option<u64>,
    /// Emitter, topics and data.
    pub(crate) log: alloy::primitives::Log,
}

/// Limits that remain for reading logs. Every request counts, failed ones too.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogBudget {
    /// Requests that may still be sent.
    requests: u32,
    /// Logs that may still be received.
    logs: usize,
    /// Number of blocks of the next request.
    span: u64,
}

impl LogBudget {
    /// Creates a budget.
    pub(crate) const fn new(requests: u32, logs: usize) -> Self {
        Self { requests, logs, span: FIRST_SPAN }
    }

    /// The rest of a budget, with at most this number of requests.
    pub(crate) fn limited(self, requests: u32) -> Self {
        Self { requests: self.requests.min(requests), ..self }
    }

    /// True if nothing more can be read.
    pub(crate) const fn is_spent(&self) -> bool {
        self.requests == 0 || self.logs == 0
    }
}

/// Logs of a range of blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogRange {
    /// Logs in the order of the chain.
    pub(crate) logs: Vec<PlacedLog>,
    /// First block that was read; after the last requested one if none was.
    pub(crate) from: u64,
}

/// Events to read.
#[derive(Debug, Clone)]
pub(crate) struct LogQuery {
    /// Contracts that emit them.
    pub(crate) addresses: Vec<Address>,
    /// First topics, which name the events.
    pub(crate) events: Vec<B256>,
    /// First indexed argument of the events; `None` for any.
    pub(crate) first: Option<B256>,
    /// Second indexed argument of the events; `None` for any.
    pub(crate) second: Option<B256>,
    /// Third indexed argument of the events; `None` for any.
    pub(crate) third: Option<B256>,
}

/// Reads the logs of `first..=last` from the end, until the budget is spent. With `enough`, it also stops after the
/// first request whose logs satisfy it.
///
/// # Errors
/// `CHAIN_INCONSISTENT` for a log that was not requested or has no place, or the provider's error.
pub(crate) async fn read_backwards(
    chain: &ConnectedChain,
    query: &LogQuery,
    (first, last): (u64, u64),
    budget: &mut LogBudget,
    enough: impl Fn(&[PlacedLog]) -> bool + Send + Sync,
) -> Result<LogRange, ToolError> {
    let mut range = LogRange { logs: Vec::new(), from: last.saturating_add(1) };
    let mut parts: Vec<Vec<PlacedLog>> = Vec::new();
    while range.from > first && !budget.is_spent() {
        budget.requests -= 1;
        let end = range.from - 1;
        let begin = end.saturating_sub(budget.span - 1).max(first);
        let filter = Filter::new()
            .address(query.addresses.clone())
            .event_signature(query.events.clone())
            .from_block(begin)
            .to_block(end);
        let filter = query.first.map_or(filter.clone(), |first| filter.topic1(first));
        let filter = query.second.map_or(filter.clone(), |second| filter.topic2(second));
        let filter = query.third.map_or(filter.clone(), |third| filter.topic3(third));
        let found = match chain.client.agreed().get_logs(&filter).await.map_err(ProviderError::from) {
            Ok(found) => found,
            Err(error) if begin < end && asks_for_less(&error) => {
                budget.span = (end - begin).div_ceil(2).max(1);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let part = placed(chain, query, (begin, end), found)?;
        if part.len() > budget.logs {
            // A part of these blocks would be a part of an interval.
            budget.logs = 0;
            break;
        }
        budget.logs -= part.len();
        budget.span = budget.span.saturating_mul(2).min(MAX_SPAN);
        range.from = begin;
        let done = enough(&part);
        parts.push(part);
        if done {
            break;
        }
    }
    range.logs = parts.into_iter().rev().flatten().collect();
    Ok(range)
}

/// Checks that the logs are those that were requested, and sorts them.
fn placed(
    chain: &ConnectedChain,
    query: &LogQuery,
    (first, last): (u64, u64),
    found: Vec<RpcLog>,
) -> Result<Vec<PlacedLog>, ToolError> {
    let trusts_times = !chain.client.has_several_endpoints();
    let place = |log: RpcLog| {
        let placed = PlacedLog {
            number: log.block_number?,
            hash: log.block_hash?,
            index: log.log_index?,
            transaction: log.transaction_hash?,
            time: log.block_timestamp.filter(|_| trusts_times),
            log: log.inner,
        };
        let event = placed.log.topics().first()?;
        let is_wanted = !log.removed
            && (first..=last).contains(&placed.number)
            && query.addresses.contains(&placed.log.address)
            && query.events.contains(event)
            && query.first.is_none_or(|first| placed.log.topics().get(1) == Some(&first))
            && query.second.is_none_or(|second| placed.log.topics().get(2) == Some(&second))
            && query.third.is_none_or(|third| placed.log.topics().get(3) == Some(&third));
        is_wanted.then_some(placed)
    };
    let placed: Option<Vec<PlacedLog>> = found.into_iter().map(place).collect();
    let mut placed = placed.ok_or_else(|| inconsistent(chain, "returned a log that was not asked for"))?;
    placed.sort_by_key(|log| (log.number, log.index));
    let repeats = placed.windows(2).any(|pair| match pair {
        [one, next] => {
            let same_block = one.number == next.number;
            same_block && (one.index == next.index || one.hash != next.hash)
        }
        _ => false,
    });
    if repeats {
        return Err(inconsistent(chain, "returned two logs for one place"));
    }
    Ok(placed)
}

/// Error for an answer that no honest endpoint gives.
pub(crate) fn inconsistent(chain: &ConnectedChain, what: &str) -> ToolError {
    ToolError::new(ErrorCode::ChainInconsistent, format_args!("{} {what}", chain.network()))
}
