//! Pool queries: size, contents, and a summary line per transaction.

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy::consensus::Transaction;
use alloy::primitives::{Address, U256};
use serde::Serialize;
use serde_json::json as object;

use super::super::block::ChainTransaction;
use super::super::handle::DevnetThread;
use super::error::RpcError;
use super::params::Params;
use super::{RpcResult, json, render};

/// Maximum total calldata in one answer, in bytes.
const MAX_INPUT: usize = 16 << 20;

/// Pending transactions by sender and nonce.
type ByNonce<T> = BTreeMap<Address, BTreeMap<String, T>>;

/// `txpool_status`: number of transactions with consecutive nonces, and of those after a nonce gap.
pub(super) fn status(engine: &mut DevnetThread, _: &Params<'_>) -> RpcResult {
    let (pending, queued): (Vec<_>, Vec<_>) =
        engine.chain.pool().iter().partition(|transaction| is_pending(engine, transaction));
    json(&object!({ "pending": format!("{:#x}", pending.len()), "queued": format!("{:#x}", queued.len()) }))
}

/// `txpool_content`: all transactions of the pool.
pub(super) fn content(engine: &mut DevnetThread, _: &Params<'_>) -> RpcResult {
    let input: usize = engine.chain.pool().iter().map(|transaction| transaction.envelope.input().len()).sum();
    if input > MAX_INPUT {
        let limit = MAX_INPUT >> 20;
        return Err(RpcError::server(format!(
            "the pending transactions have more than {limit} MiB of calldata: request them one by one, or use \
             txpool_inspect"
        )));
    }
    let base_fee = engine.chain.next_base_fee();
    listed(engine, |transaction| render::pending_transaction(transaction, base_fee))
}

/// `txpool_inspect`: one line per transaction, in go-ethereum's form.
pub(super) fn inspect(engine: &mut DevnetThread, _: &Params<'_>) -> RpcResult {
    listed(engine, |transaction| {
        let envelope = &transaction.envelope;
        let to = envelope.to().map_or_else(|| "contract creation".to_owned(), |to| format!("{to:#x}"));
        let (value, gas, price) = (envelope.value(), envelope.gas_limit(), U256::from(envelope.max_fee_per_gas()));
        format!("{to}: {value} wei + {gas} gas × {price} wei")
    })
}

fn listed<T: Serialize>(engine: &DevnetThread, show: impl Fn(&ChainTransaction) -> T) -> RpcResult {
    let (mut pending, mut queued) = (ByNonce::new(), ByNonce::new());
    for transaction in engine.chain.pool().iter() {
        let list = if is_pending(engine, transaction) { &mut pending } else { &mut queued };
        list.entry(transaction.sender).or_default().insert(transaction.envelope.nonce().to_string(), show(transaction));
    }
    json(&object!({ "pending": pending, "queued": queued }))
}

fn is_pending(engine: &DevnetThread, transaction: &Arc<ChainTransaction>) -> bool {
    transaction.envelope.nonce() < engine.chain.pending_nonce(transaction.sender)
}
