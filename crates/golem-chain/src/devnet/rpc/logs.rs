//! Log queries and installed filters. Logs of a block that a reorganisation removed are reported again with `removed:
//! true`.

use alloy::eips::{BlockId, BlockNumberOrTag};
use alloy::primitives::B256;
use alloy::rpc::types::{Filter, FilterBlockOption, Log};

use super::super::chain::Chain;
use super::super::events::ChainEvent;
use super::super::filters::FilterKind;
use super::super::handle::DevnetThread;
use super::error::RpcError;
use super::params::Params;
use super::{RpcResult, json, quantity, render};

/// Maximum number of logs in one answer.
const MAX_LOGS: usize = 20_000;

pub(super) fn get_logs(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    json(&collect(&engine.chain, &params.required(0, "filter")?)?)
}

pub(super) fn new_filter(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    let filter: Filter = params.optional(0, "filter")?.unwrap_or_default();
    install(engine, FilterKind::Logs(Box::new(filter)))
}

pub(super) fn new_block_filter(engine: &mut DevnetThread, _: &Params<'_>) -> RpcResult {
    install(engine, FilterKind::Blocks)
}

pub(super) fn new_pending_transaction_filter(engine: &mut DevnetThread, _: &Params<'_>) -> RpcResult {
    install(engine, FilterKind::PendingTransactions)
}

pub(super) fn filter_changes(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    let id = params.small_number(0, "filter id")?;
    let chain = &engine.chain;
    let installed = engine.filters.get(id).ok_or_else(filter_not_found)?;
    // A filter that was not polled for too long would miss events, so it counts as removed.
    let events = chain.journal().since(installed.cursor).ok_or_else(filter_not_found)?;
    installed.cursor = chain.journal().end();
    match &installed.kind {
        FilterKind::Logs(filter) => json(&events.flat_map(|event| event_logs(filter, event)).collect::<Vec<_>>()),
        FilterKind::Blocks => json(
            &events
                .filter_map(|event| match event {
                    ChainEvent::Added(block) => Some(block.hash),
                    _ => None,
                })
                .collect::<Vec<B256>>(),
        ),
        FilterKind::PendingTransactions => json(
            &events
                .filter_map(|event| match event {
                    ChainEvent::Pending(transaction) => Some(transaction.hash),
                    _ => None,
                })
                .collect::<Vec<B256>>(),
        ),
    }
}

pub(super) fn filter_logs(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    let id = params.small_number(0, "filter id")?;
    match engine.filters.get(id).map(|installed| installed.kind.clone()) {
        Some(FilterKind::Logs(filter)) => json(&collect(&engine.chain, &filter)?),
        _ => Err(filter_not_found()),
    }
}

pub(super) fn uninstall_filter(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    json(&engine.filters.uninstall(params.small_number(0, "filter id")?))
}

/// Logs of an event that match `filter`.
pub(in super::super) fn event_logs(filter: &Filter, event: &ChainEvent) -> Vec<Log> {
    let (block, removed) = match event {
        ChainEvent::Added(block) => (block, false),
        ChainEvent::Removed(block) => (block, true),
        ChainEvent::Pending(_) | ChainEvent::Missed(_) => return Vec::new(),
    };
    let within = match filter.block_option {
        FilterBlockOption::AtBlockHash(hash) => hash == block.hash,
        FilterBlockOption::Range { from_block, to_block } => {
            // Only block numbers restrict the range; all tags mean future blocks.
            let from = from_block.and_then(|from| from.as_number()).unwrap_or_default();
            let to = to_block.and_then(|to| to.as_number()).unwrap_or(u64::MAX);
            (from..=to).contains(&block.number())
        }
    };
    if !within || !filter.matches_bloom(block.header.logs_bloom) {
        return Vec::new();
    }
    render::logs(block, removed).filter(|log| filter.matches(&log.inner)).collect()
}

fn collect(chain: &Chain, filter: &Filter) -> Result<Vec<Log>, RpcError> {
    let (from, to) = match filter.block_option {
        FilterBlockOption::AtBlockHash(hash) => {
            let block = chain.block(BlockId::hash(hash)).ok_or_else(|| RpcError::server("unknown block"))?;
            (block.number(), block.number())
        }
        FilterBlockOption::Range { from_block, to_block } => {
            let head = chain.number();
            let resolve = |bound: Option<BlockNumberOrTag>| match bound {
                Some(BlockNumberOrTag::Number(number)) => number,
                Some(BlockNumberOrTag::Earliest) => 0,
                _ => head,
            };
            (resolve(from_block), resolve(to_block))
        }
    };
    if from > to {
        return Err(RpcError::invalid_params(format!("invalid block range: fromBlock {from} is after toBlock {to}")));
    }
    let mut found = Vec::new();
    for block in chain.blocks(from, to).filter(|block| filter.matches_bloom(block.header.logs_bloom)) {
        found.extend(render::logs(block, false).filter(|log| filter.matches(&log.inner)));
        if found.len() > MAX_LOGS {
            return Err(RpcError::server(format!("query returned more than {MAX_LOGS} results: ask for fewer blocks")));
        }
    }
    Ok(found)
}

fn install(engine: &mut DevnetThread, kind: FilterKind) -> RpcResult {
    let cursor = engine.chain.journal().end();
    quantity(engine.filters.install(kind, cursor))
}

fn filter_not_found() -> RpcError {
    RpcError::server("filter not found")
}
