//! Blocks, transactions and receipts. The result for a missing one is null, not an error.

use std::sync::Arc;

use alloy::eips::{BlockId, Encodable2718};
use alloy::primitives::{B256, Bytes};

use super::super::block::Block;
use super::super::handle::DevnetThread;
use super::params::Params;
use super::{RpcResult, json, render};

pub(super) fn block_by_hash(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    let hash: B256 = params.required(0, "block hash")?;
    let full = params.optional(1, "whole transactions")?.unwrap_or(false);
    json(&engine.chain.block(BlockId::hash(hash)).map(|block| render::block(block, full)))
}

pub(super) fn block_by_number(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    let full = params.optional(1, "whole transactions")?.unwrap_or(false);
    json(&find(engine, params.block(0)?).map(|block| render::block(&block, full)))
}

pub(super) fn block_receipts(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    let block = find(engine, params.block(0)?);
    json(
        &block.map(|block| {
            (0..block.receipts.len()).filter_map(|index| render::receipt(&block, index)).collect::<Vec<_>>()
        }),
    )
}

pub(super) fn transaction_count(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    json(&find(engine, params.block(0)?).map(|block| format!("{:#x}", block.transactions.len())))
}

/// Returns zero, since there are no uncles.
pub(super) fn uncle_count(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    json(&find(engine, params.block(0)?).map(|_| "0x0"))
}

pub(super) fn transaction_by_hash(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    let hash: B256 = params.required(0, "transaction hash")?;
    if let Some(included) = engine.chain.transaction(hash) {
        return json(&render::transaction(&included.block, included.index));
    }
    let waiting = engine.chain.pool().get(hash);
    json(&waiting.map(|transaction| render::pending_transaction(transaction, engine.chain.next_base_fee())))
}

pub(super) fn raw_transaction(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    let hash: B256 = params.required(0, "transaction hash")?;
    let mined = engine.chain.transaction(hash).and_then(|included| included.transaction().cloned());
    let found = mined.or_else(|| engine.chain.pool().get(hash).cloned());
    json(&found.map(|transaction| Bytes::from(transaction.envelope.encoded_2718())))
}

pub(super) fn raw_transaction_by_block_and_index(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    let index = usize::try_from(params.small_number(1, "index")?).unwrap_or(usize::MAX);
    let found = find(engine, params.block(0)?).and_then(|block| block.transactions.get(index).cloned());
    json(&found.map(|transaction| Bytes::from(transaction.envelope.encoded_2718())))
}

/// `eth_getHeaderByNumber` and `eth_getHeaderByHash`: the header alone, as in go-ethereum.
pub(super) fn header(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    json(&find(engine, params.block(0)?).map(|block| render::bare_header(&block)))
}

pub(super) fn transaction_by_block_and_index(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    let index = usize::try_from(params.small_number(1, "index")?).unwrap_or(usize::MAX);
    json(&find(engine, params.block(0)?).and_then(|block| render::transaction(&block, index)))
}

pub(super) fn transaction_receipt(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    let hash: B256 = params.required(0, "transaction hash")?;
    let included = engine.chain.transaction(hash);
    json(&included.and_then(|included| render::receipt(&included.block, included.index)))
}

/// Finds a block by any id, including the pending one.
fn find(engine: &DevnetThread, id: BlockId) -> Option<Arc<Block>> {
    if id == BlockId::pending() {
        return Some(Arc::new(engine.chain.pending_block().0));
    }
    engine.chain.block(id).cloned()
}
