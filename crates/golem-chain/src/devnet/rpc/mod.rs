//! JSON-RPC of a devnet chain: one dispatcher for the in-process transport and the loopback server.
//!
//! [`METHODS`] lists the supported methods. Not here: transport of requests (`transport`, `server`).

mod accounts;
mod answer;
mod blocks;
mod dev;
mod dump;
mod error;
mod execute;
mod logs;
mod node;
mod params;
mod pool;
mod proof;
pub(super) mod render;
mod sign;
mod simulate;
#[cfg(test)]
mod tests;
mod trace;

use alloy::primitives::{Bytes, keccak256};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

pub(super) use answer::{Answer, Work};
pub use error::RpcError;
pub(super) use logs::event_logs;
use params::Params;
pub(super) use params::number;

use super::handle::DevnetThread;

/// Result of a method, as JSON text.
pub type RpcResult = Result<Box<RawValue>, RpcError>;

type Handler = fn(&mut DevnetThread, &Params<'_>) -> RpcResult;

type LongHandler = fn(&mut DevnetThread, &Params<'_>) -> Result<Answer, RpcError>;

/// Methods with immediate answers, and their handlers. Transports implement subscriptions. The `hardhat_` names of
/// `anvil_` methods are supported too.
const METHODS: &[(&str, Handler)] = &[
    ("web3_clientVersion", |_, _| json(node::CLIENT_VERSION)),
    ("web3_sha3", sha3),
    ("net_version", net_version),
    ("net_listening", |_, _| json(&true)),
    ("net_peerCount", |_, _| json(&"0x0")),
    ("rpc_modules", modules),
    ("eth_chainId", |engine, _| quantity(engine.chain.rules().chain_id)),
    ("eth_syncing", |_, _| json(&false)),
    ("eth_mining", |_, _| json(&true)),
    ("eth_blockNumber", |engine, _| quantity(engine.chain.number())),
    ("eth_coinbase", node::coinbase),
    ("eth_accounts", accounts::accounts),
    ("eth_getBalance", accounts::balance),
    ("eth_getCode", accounts::code),
    ("eth_getStorageAt", accounts::storage_at),
    ("eth_getTransactionCount", accounts::transaction_count),
    ("eth_getProof", proof::get_proof),
    ("eth_call", execute::call),
    ("eth_estimateGas", execute::estimate_gas),
    ("eth_createAccessList", execute::create_access_list),
    ("eth_gasPrice", execute::gas_price),
    ("eth_maxPriorityFeePerGas", execute::max_priority_fee),
    ("eth_blobBaseFee", |_, _| json(&"0x1")),
    ("eth_feeHistory", execute::fee_history),
    ("eth_sendRawTransaction", execute::send_raw_transaction),
    ("eth_sendTransaction", execute::send_transaction),
    ("eth_signTransaction", sign::sign_transaction),
    ("eth_sign", sign::sign_message),
    ("personal_sign", sign::personal_sign),
    ("eth_signTypedData", sign::sign_typed_data),
    ("eth_signTypedData_v4", sign::sign_typed_data),
    ("eth_getTransactionByHash", blocks::transaction_by_hash),
    ("eth_getTransactionReceipt", blocks::transaction_receipt),
    ("eth_getTransactionByBlockHashAndIndex", blocks::transaction_by_block_and_index),
    ("eth_getTransactionByBlockNumberAndIndex", blocks::transaction_by_block_and_index),
    ("eth_getRawTransactionByHash", blocks::raw_transaction),
    ("eth_getRawTransactionByBlockHashAndIndex", blocks::raw_transaction_by_block_and_index),
    ("eth_getRawTransactionByBlockNumberAndIndex", blocks::raw_transaction_by_block_and_index),
    ("eth_getHeaderByHash", blocks::header),
    ("eth_getHeaderByNumber", blocks::header),
    ("eth_getBlockByHash", blocks::block_by_hash),
    ("eth_getBlockByNumber", blocks::block_by_number),
    ("eth_getBlockReceipts", blocks::block_receipts),
    ("eth_getBlockTransactionCountByHash", blocks::transaction_count),
    ("eth_getBlockTransactionCountByNumber", blocks::transaction_count),
    ("eth_getUncleCountByBlockHash", blocks::uncle_count),
    ("eth_getUncleCountByBlockNumber", blocks::uncle_count),
    ("eth_getLogs", logs::get_logs),
    ("eth_newFilter", logs::new_filter),
    ("eth_newBlockFilter", logs::new_block_filter),
    ("eth_newPendingTransactionFilter", logs::new_pending_transaction_filter),
    ("eth_getFilterChanges", logs::filter_changes),
    ("eth_getFilterLogs", logs::filter_logs),
    ("eth_uninstallFilter", logs::uninstall_filter),
    ("txpool_status", pool::status),
    ("txpool_content", pool::content),
    ("txpool_inspect", pool::inspect),
    ("evm_increaseTime", dev::increase_time),
    ("evm_setNextBlockTimestamp", dev::set_next_timestamp),
    ("evm_setAutomine", dev::set_automine),
    ("evm_setIntervalMining", dev::set_interval_mining),
    ("evm_snapshot", dev::snapshot),
    ("evm_revert", dev::revert),
    ("anvil_increaseTime", dev::increase_time),
    ("anvil_setNextBlockTimestamp", dev::set_next_timestamp),
    ("anvil_setBlockTimestampInterval", dev::set_timestamp_interval),
    ("anvil_removeBlockTimestampInterval", dev::remove_timestamp_interval),
    ("anvil_setAutomine", dev::set_automine),
    ("anvil_getAutomine", dev::get_automine),
    ("anvil_setIntervalMining", dev::set_interval_mining),
    ("anvil_snapshot", dev::snapshot),
    ("anvil_revert", dev::revert),
    ("anvil_setBalance", dev::set_balance),
    ("anvil_setNonce", dev::set_nonce),
    ("anvil_setCode", dev::set_code),
    ("anvil_setStorageAt", dev::set_storage_at),
    ("anvil_setCoinbase", dev::set_coinbase),
    ("anvil_setNextBlockBaseFeePerGas", dev::set_next_base_fee),
    ("anvil_impersonateAccount", dev::impersonate),
    ("anvil_stopImpersonatingAccount", dev::stop_impersonating),
    ("anvil_autoImpersonateAccount", dev::impersonate_all),
    ("anvil_dropTransaction", dev::drop_transaction),
    ("anvil_reorg", dev::reorg),
    ("anvil_dumpState", dump::dump_state),
    ("anvil_loadState", dump::load_state),
    ("anvil_nodeInfo", node::info),
    ("anvil_metadata", node::metadata),
    ("anvil_reset", node::reset),
    ("bardo_describe", describe),
];

/// Methods with long-running answers, which do not block the chain.
const LONG_METHODS: &[(&str, LongHandler)] = &[
    ("eth_simulateV1", simulate::simulate),
    ("debug_traceTransaction", trace::trace_transaction),
    ("debug_traceCall", trace::trace_call),
    ("debug_traceBlockByNumber", trace::trace_block),
    ("debug_traceBlockByHash", trace::trace_block),
    ("trace_transaction", trace::parity_transaction),
    ("trace_block", trace::parity_block),
    ("evm_mine", dev::evm_mine),
    ("anvil_mine", dev::mine),
];

/// The `hardhat_` names that clients use.
const HARDHAT_NAMES: &[&str] = &[
    "hardhat_mine",
    "hardhat_setBalance",
    "hardhat_setNonce",
    "hardhat_setCode",
    "hardhat_setStorageAt",
    "hardhat_setCoinbase",
    "hardhat_setNextBlockBaseFeePerGas",
    "hardhat_impersonateAccount",
    "hardhat_stopImpersonatingAccount",
    "hardhat_getAutomine",
    "hardhat_dropTransaction",
    "hardhat_metadata",
    "hardhat_reset",
];

/// Names of all supported methods.
pub fn methods() -> impl Iterator<Item = &'static str> {
    METHODS.iter().map(|(name, _)| *name).chain(LONG_METHODS.iter().map(|(name, _)| *name))
}

/// Names of all supported methods and their `hardhat_` aliases, for servers that register methods in advance.
pub fn served_names() -> impl Iterator<Item = &'static str> {
    methods().chain(HARDHAT_NAMES.iter().copied())
}

/// Executes a request, or returns the remaining work for it. In the mode `OnTransaction`, a sent transaction is mined
/// before the next request.
pub(super) fn dispatch(engine: &mut DevnetThread, method: &str, params: Option<&RawValue>) -> Answer {
    let answer = handle(engine, method, params);
    let answer = unless_unread(engine, answer.into());
    engine.settle();
    answer
}

/// The answer, or an error if it rests on a value of a fork's origin that could not be read.
fn unless_unread(engine: &DevnetThread, answer: Answer) -> Answer {
    match engine.chain.origin().and_then(|origin| origin.take_failure()) {
        Some(failure) => Answer::now(Err(RpcError::server(failure.to_string()))),
        None => answer,
    }
}

fn handle(engine: &mut DevnetThread, method: &str, params: Option<&RawValue>) -> Result<Answer, RpcError> {
    let params = Params::parse(params)?;
    let anvil_name;
    let name = match method.strip_prefix("hardhat_") {
        Some(rest) => {
            anvil_name = format!("anvil_{rest}");
            anvil_name.as_str()
        }
        None => method,
    };
    if let Some((_, handler)) = METHODS.iter().find(|(known, _)| *known == name) {
        return Ok(Answer::Now(handler(engine, &params)));
    }
    match LONG_METHODS.iter().find(|(known, _)| *known == name) {
        Some((_, handler)) => handler(engine, &params),
        None => Err(RpcError::method_not_found(method)),
    }
}

/// Serialises any result as JSON.
fn json<T: Serialize + ?Sized>(value: &T) -> RpcResult {
    to_raw_value(value).map_err(|_| RpcError::internal("the result cannot be written as JSON"))
}

/// Serialises a number as QUANTITY of the specification.
fn quantity(value: u64) -> RpcResult {
    json(&format!("{value:#x}"))
}

fn net_version(engine: &mut DevnetThread, _: &Params<'_>) -> RpcResult {
    json(&engine.chain.rules().chain_id.to_string())
}

fn sha3(_: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    json(&keccak256(params.required::<Bytes>(0, "data")?))
}

fn modules(_: &mut DevnetThread, _: &Params<'_>) -> RpcResult {
    let mut modules = serde_json::Map::new();
    for name in methods().filter_map(|name| name.split('_').next()) {
        modules.insert(name.to_owned(), "1.0".into());
    }
    json(&modules)
}

fn describe(engine: &mut DevnetThread, _: &Params<'_>) -> RpcResult {
    match &engine.description {
        Some(description) => json(description.as_ref()),
        None => Err(RpcError::server("this chain has no description: it has no contracts of its own yet")),
    }
}
