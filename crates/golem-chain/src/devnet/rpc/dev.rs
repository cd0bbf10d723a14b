//! Development methods: mining, time travel, snapshots and state changes. Names and parameters follow the usual
//! development nodes.

use std::time::{Duration, Instant};

use alloy::primitives::{Address, B256, Bytes};
use alloy::rpc::types::TransactionRequest;
use serde_json::Value;

use super::super::block::ChainTransaction;
use super::super::handle::{DevnetThread, MiningMode};
use super::answer::Answer;
use super::error::RpcError;
use super::params::{Params, number};
use super::{RpcResult, json, quantity, sign};

/// Maximum number of blocks mined per request.
const MAX_BLOCKS: u64 = 100_000;

/// Time after which mining pauses for other commands.
const LONGEST_SLICE: Duration = Duration::from_millis(20);

/// `evm_mine`: one block, optionally at a timestamp; or `{timestamp, blocks}`.
pub(super) fn evm_mine(engine: &mut DevnetThread, params: &Params<'_>) -> Result<Answer, RpcError> {
    let (mut timestamp, mut blocks) = (None, 1);
    match params.optional::<Value>(0, "timestamp")? {
        Some(Value::Object(options)) => {
            timestamp = options.get("timestamp").and_then(number);
            if let Some(count) = options.get("blocks").and_then(number) {
                blocks = count.saturating_to();
            }
        }
        Some(_) => timestamp = params.optional_number(0, "timestamp")?,
        None => {}
    }
    if let Some(timestamp) = timestamp.filter(|timestamp| !timestamp.is_zero()) {
        engine.chain.set_next_timestamp(timestamp.saturating_to())?;
    }
    let blocks = checked_blocks(blocks)?;
    Ok(mine_on(engine, MiningRun { blocks, interval: None, done: || json("0x0") }))
}

/// `anvil_mine`: a number of blocks, with an interval in seconds.
pub(super) fn mine(engine: &mut DevnetThread, params: &Params<'_>) -> Result<Answer, RpcError> {
    let blocks = checked_blocks(params.optional_small_number(0, "blocks")?.unwrap_or(1))?;
    let interval = params.optional_small_number(1, "seconds between blocks")?;
    Ok(mine_on(engine, MiningRun { blocks, interval, done: || json(&()) }))
}

/// Blocks that remain to be mined.
struct MiningRun {
    blocks: u64,
    /// Seconds between two blocks.
    interval: Option<u64>,
    /// Final result of the request.
    done: fn() -> RpcResult,
}

/// Mines some blocks of `run`, and the rest after waiting commands.
fn mine_on(engine: &mut DevnetThread, mut run: MiningRun) -> Answer {
    let began = Instant::now();
    while run.blocks > 0 {
        if let Some(seconds) = run.interval {
            let next = engine.chain.head().header.timestamp.saturating_add(seconds.max(1));
            if let Err(error) = engine.chain.set_next_timestamp(next) {
                return Answer::now(Err(error.into()));
            }
        }
        engine.mine_on_request();
        run.blocks -= 1;
        if run.blocks > 0 && began.elapsed() >= LONGEST_SLICE {
            return Answer::later(move |engine| mine_on(engine, run));
        }
    }
    Answer::now((run.done)())
}

pub(super) fn increase_time(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    json(&engine.chain.increase_time(params.small_number(0, "seconds")?))
}

pub(super) fn set_next_timestamp(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    engine.chain.set_next_timestamp(params.small_number(0, "timestamp")?)?;
    json(&())
}

pub(super) fn set_timestamp_interval(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    engine.chain.set_timestamp_interval(Some(params.small_number(0, "seconds")?));
    json(&())
}

pub(super) fn remove_timestamp_interval(engine: &mut DevnetThread, _: &Params<'_>) -> RpcResult {
    engine.chain.set_timestamp_interval(None);
    json(&true)
}

pub(super) fn set_automine(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    if params.required(0, "enabled")? {
        engine.set_mining(MiningMode::OnTransaction);
    } else if engine.mining() == MiningMode::OnTransaction {
        engine.set_mining(MiningMode::Manual);
    }
    json(&())
}

pub(super) fn get_automine(engine: &mut DevnetThread, _: &Params<'_>) -> RpcResult {
    json(&(engine.mining() == MiningMode::OnTransaction))
}

/// Maximum interval between blocks, in seconds.
const LONGEST_INTERVAL: u64 = 86_400;

/// `evm_setIntervalMining`: seconds between blocks, or 0 to mine on request only.
pub(super) fn set_interval_mining(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    match params.small_number(0, "seconds")? {
        0 => engine.set_mining(MiningMode::Manual),
        seconds if seconds > LONGEST_INTERVAL => {
            let message = format!("{seconds} seconds between blocks are too many: at most {LONGEST_INTERVAL}");
            return Err(RpcError::invalid_params(message));
        }
        seconds => engine.set_mining(MiningMode::Interval(Duration::from_secs(seconds))),
    }
    json(&())
}

pub(super) fn snapshot(engine: &mut DevnetThread, _: &Params<'_>) -> RpcResult {
    quantity(engine.chain.save())
}

pub(super) fn revert(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    json(&engine.chain.revert(params.small_number(0, "snapshot id")?))
}

pub(super) fn set_balance(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    engine.chain.set_balance(params.required(0, "address")?, params.number(1, "balance")?);
    json(&())
}

pub(super) fn set_nonce(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    engine.chain.set_nonce(params.required(0, "address")?, params.small_number(1, "nonce")?);
    json(&())
}

pub(super) fn set_code(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    engine.chain.set_code(params.required(0, "address")?, params.required::<Bytes>(1, "code")?)?;
    json(&())
}

pub(super) fn set_storage_at(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    let address: Address = params.required(0, "address")?;
    engine.chain.set_storage_at(address, params.number(1, "slot")?, params.number(2, "value")?);
    json(&true)
}

pub(super) fn set_coinbase(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    engine.chain.set_coinbase(params.required(0, "address")?);
    json(&())
}

pub(super) fn set_next_base_fee(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    engine.chain.set_next_base_fee(params.small_number(0, "base fee")?);
    json(&())
}

pub(super) fn impersonate(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    engine.chain.set_impersonated(params.required(0, "address")?, true);
    json(&())
}

pub(super) fn stop_impersonating(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    engine.chain.set_impersonated(params.required(0, "address")?, false);
    json(&())
}

pub(super) fn impersonate_all(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    engine.chain.set_impersonate_all(params.required(0, "enabled")?);
    json(&())
}

pub(super) fn drop_transaction(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    let hash: B256 = params.required(0, "transaction hash")?;
    json(&engine.chain.drop_transaction(hash).map(|transaction| transaction.hash))
}

/// `anvil_reorg`: depth, and pairs of a transaction (raw, or a request of the sender) and the offset of its new block.
pub(super) fn reorg(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    let (depth, pairs) = match params.optional::<Value>(0, "options")? {
        Some(Value::Object(options)) => {
            let depth = options.get("depth").and_then(number).unwrap_or_default().saturating_to();
            let pairs = options.get("tx_block_pairs").or_else(|| options.get("txBlockPairs"));
            (depth, pairs.cloned())
        }
        _ => (params.small_number(0, "depth")?, params.optional(1, "transactions")?),
    };
    let pairs: Vec<(Value, Value)> = match pairs {
        None | Some(Value::Null) => Vec::new(),
        Some(pairs) => serde_json::from_value(pairs).map_err(|_| bad_pair())?,
    };
    let mut replacements = Vec::with_capacity(pairs.len());
    for (transaction, offset) in pairs {
        let offset = number(&offset).ok_or_else(bad_pair)?.saturating_to();
        replacements.push((replacement(engine, transaction)?, offset));
    }
    engine.chain.reorg(depth, replacements)?;
    json(&())
}

fn replacement(engine: &DevnetThread, transaction: Value) -> Result<ChainTransaction, RpcError> {
    if transaction.is_string() {
        let raw: Bytes = serde_json::from_value(transaction).map_err(|_| bad_pair())?;
        return Ok(ChainTransaction::decode(&raw)?);
    }
    let request: TransactionRequest = serde_json::from_value(transaction).map_err(|_| bad_pair())?;
    sign::transaction(engine, request)
}

fn bad_pair() -> RpcError {
    RpcError::invalid_params("replacements must be pairs of a transaction, raw or as an object, and a block offset")
}

fn checked_blocks(blocks: u64) -> Result<u64, RpcError> {
    if blocks > MAX_BLOCKS {
        return Err(RpcError::invalid_params(format!("{blocks} blocks are too many at once: at most {MAX_BLOCKS}")));
    }
    Ok(blocks)
}
