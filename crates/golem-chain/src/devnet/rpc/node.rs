//! Description of the node, and its reset.

use alloy::primitives::{B256, U256};
use serde_json::{Map, Value, json as object};

use super::super::handle::DevnetThread;
use super::error::RpcError;
use super::params::Params;
use super::{RpcResult, json};

pub(super) const CLIENT_VERSION: &str = concat!("bardo-devnet/v", env!("CARGO_PKG_VERSION"));

/// `anvil_nodeInfo`: the node's settings and newest block.
pub(super) fn info(engine: &mut DevnetThread, _: &Params<'_>) -> RpcResult {
    let chain = &engine.chain;
    let head = chain.head();
    json(&object!({
        "currentBlockNumber": U256::from(head.number()),
        "currentBlockTimestamp": head.header.timestamp,
        "currentBlockHash": head.hash,
        "hardFork": chain.rules().spec.to_string(),
        "transactionOrder": "fees",
        "environment": {
            "baseFee": U256::from(chain.next_base_fee()),
            "chainId": chain.rules().chain_id,
            "gasLimit": U256::from(chain.gas_limit()),
            "gasPrice": U256::from(chain.gas_price()),
        },
        "forkConfig": { "forkUrl": null, "forkBlockNumber": null, "forkRetryBackoff": null },
    }))
}

/// `anvil_metadata`: the node's identity, newest block and snapshots.
pub(super) fn metadata(engine: &mut DevnetThread, _: &Params<'_>) -> RpcResult {
    let head = engine.chain.head();
    let snapshots: Map<String, Value> = engine
        .chain
        .saved_heads()
        .map(|(id, block)| (format!("{id:#x}"), object!([block.number(), block.hash])))
        .collect();
    json(&object!({
        "clientVersion": CLIENT_VERSION,
        "clientSemver": env!("CARGO_PKG_VERSION"),
        "clientCommitSha": null,
        "chainId": engine.chain.rules().chain_id,
        "instanceId": B256::from(engine.instance),
        "latestBlockNumber": head.number(),
        "latestBlockHash": head.hash,
        "forkedNetwork": null,
        "snapshots": snapshots,
    }))
}

/// `anvil_reset`: restores the chain at the start of the node, with its contracts and balances.
pub(super) fn reset(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    let forking = params.optional::<Value>(0, "options")?.and_then(|options| options.get("forking").cloned());
    if forking.is_some_and(|forking| forking != Value::Null) {
        return Err(RpcError::invalid_params("this chain cannot become a fork: call anvil_reset without \"forking\""));
    }
    engine.reset();
    json(&())
}

/// `eth_coinbase`: recipient of the priority fees.
pub(super) fn coinbase(engine: &mut DevnetThread, _: &Params<'_>) -> RpcResult {
    json(&engine.chain.config().coinbase)
}
