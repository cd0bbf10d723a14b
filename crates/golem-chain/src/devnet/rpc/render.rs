//! Conversion of blocks, transactions, receipts and logs to RPC types.

use std::sync::Arc;

use alloy::consensus::transaction::Recovered;
use alloy::consensus::{ReceiptEnvelope, Transaction as _};
use alloy::eips::eip2718::Encodable2718;
use alloy::primitives::{B256, U256};
use alloy::rlp::Encodable;
use alloy::rpc::types::{
    Block as RpcBlock, BlockTransactions, Header as RpcHeader, Log as RpcLog, Transaction as RpcTransaction,
    TransactionReceipt,
};

use super::super::block::{Block, ChainTransaction};

/// A block with full transactions or their hashes.
pub(in super::super) fn block(block: &Block, full: bool) -> RpcBlock {
    let transactions = if full {
        BlockTransactions::Full((0..block.transactions.len()).filter_map(|index| transaction(block, index)).collect())
    } else {
        BlockTransactions::Hashes(block.transactions.iter().map(|transaction| transaction.hash).collect())
    };
    RpcBlock { header: header(block), uncles: Vec::new(), transactions, withdrawals: Some(Default::default()) }
}

/// A header with size and total difficulty.
pub(in super::super) fn header(block: &Block) -> RpcHeader {
    RpcHeader {
        hash: block.hash,
        inner: block.header.clone(),
        total_difficulty: Some(U256::ZERO),
        size: Some(U256::from(size(block))),
    }
}

/// A header without size and total difficulty.
pub(in super::super) fn bare_header(block: &Block) -> RpcHeader {
    RpcHeader { total_difficulty: None, size: None, ..header(block) }
}

/// A mined transaction; `None` if `index` is out of range.
pub(in super::super) fn transaction(block: &Block, index: usize) -> Option<RpcTransaction> {
    let transaction = block.transactions.get(index)?;
    Some(RpcTransaction {
        inner: recovered(transaction),
        block_hash: Some(block.hash),
        block_number: Some(block.number()),
        transaction_index: Some(index as u64),
        effective_gas_price: block.receipts.get(index).map(|receipt| receipt.effective_gas_price),
        block_timestamp: Some(block.header.timestamp),
    })
}

pub(in super::super) fn pending_transaction(transaction: &ChainTransaction, base_fee: u64) -> RpcTransaction {
    RpcTransaction {
        inner: recovered(transaction),
        block_hash: None,
        block_number: None,
        transaction_index: None,
        effective_gas_price: Some(transaction.envelope.effective_gas_price(Some(base_fee))),
        block_timestamp: None,
    }
}

/// Receipt of a mined transaction; `None` if `index` is out of range.
pub(in super::super) fn receipt(block: &Block, index: usize) -> Option<TransactionReceipt> {
    let (transaction, receipt) = (block.transactions.get(index)?, block.receipts.get(index)?);
    let mut log_index = receipt.first_log_index;
    let envelope: ReceiptEnvelope<RpcLog> = receipt.envelope.clone().map_logs(|log| {
        let rendered = self::log(block, transaction.hash, index, log_index, log, false);
        log_index += 1;
        rendered
    });
    Some(TransactionReceipt {
        inner: envelope,
        transaction_hash: transaction.hash,
        transaction_index: Some(index as u64),
        block_hash: Some(block.hash),
        block_number: Some(block.number()),
        gas_used: receipt.gas_used,
        effective_gas_price: receipt.effective_gas_price,
        blob_gas_used: None,
        blob_gas_price: None,
        from: transaction.sender,
        to: transaction.envelope.to(),
        contract_address: receipt.contract_address,
    })
}

/// All logs of a block; `removed` marks a block that left the chain.
pub(in super::super) fn logs(block: &Arc<Block>, removed: bool) -> impl Iterator<Item = RpcLog> + '_ {
    block.transactions.iter().zip(&block.receipts).enumerate().flat_map(move |(index, (transaction, receipt))| {
        receipt
            .envelope
            .logs()
            .iter()
            .zip(receipt.first_log_index..)
            .map(move |(log, log_index)| self::log(block, transaction.hash, index, log_index, log.clone(), removed))
    })
}

fn log(
    block: &Block,
    transaction_hash: B256,
    index: usize,
    log_index: u64,
    log: alloy::primitives::Log,
    removed: bool,
) -> RpcLog {
    RpcLog {
        inner: log,
        block_hash: Some(block.hash),
        block_number: Some(block.number()),
        block_timestamp: Some(block.header.timestamp),
        transaction_hash: Some(transaction_hash),
        transaction_index: Some(index as u64),
        log_index: Some(log_index),
        removed,
    }
}

fn recovered(transaction: &ChainTransaction) -> Recovered<alloy::consensus::TxEnvelope> {
    Recovered::new_unchecked(transaction.envelope.clone(), transaction.sender)
}

/// Length of the block's RLP encoding, in bytes.
fn size(block: &Block) -> usize {
    let list = |payload: usize| alloy::rlp::length_of_length(payload) + payload;
    let transactions = block
        .transactions
        .iter()
        .map(|transaction| {
            let length = transaction.envelope.encode_2718_len();
            // In the list, a typed transaction is a byte string and a legacy one is itself a list.
            if transaction.envelope.is_legacy() { length } else { list(length) }
        })
        .sum();
    // Header, transactions, no uncles, no withdrawals.
    list(block.header.length() + list(transactions) + 1 + 1)
}
