//! Merkle proofs of accounts and slots for the state root in a block's header.

use alloy::primitives::{Address, B256, U256};
use alloy::rpc::types::{EIP1186AccountProofResponse, EIP1186StorageProof};
use alloy::serde::JsonStorageKey;
use serde_json::Value;

use super::super::handle::DevnetThread;
use super::error::RpcError;
use super::params::{Params, number};
use super::{RpcResult, json};

/// Maximum number of slots per request, as in go-ethereum.
const MAX_SLOTS: usize = 1_024;

/// `eth_getProof`: address, slots, block ([EIP-1186](https://eips.ethereum.org/EIPS/eip-1186)).
pub(super) fn get_proof(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    if engine.chain.origin().is_some() {
        let words = "a fork has no proofs: it does not know the state trie of its origin; ask the live network";
        return Err(RpcError::server(words));
    }
    let address: Address = params.required(0, "address")?;
    let keys: Vec<Value> = params.optional(1, "storage keys")?.unwrap_or_default();
    if keys.len() > MAX_SLOTS {
        return Err(RpcError::invalid_params(format!("too many slots (max: {MAX_SLOTS})")));
    }
    let keys: Option<Vec<JsonStorageKey>> = keys.iter().map(storage_key).collect();
    let keys = keys.ok_or_else(|| RpcError::invalid_params("storage keys must be numbers, such as \"0x1\""))?;
    let slots: Vec<U256> = keys.iter().map(|key| key.as_b256().into()).collect();
    let proof = engine.chain.view(params.block(2)?)?.state.prove(address, &slots);
    json(&EIP1186AccountProofResponse {
        address,
        balance: proof.account.balance,
        code_hash: proof.account.code_hash,
        nonce: proof.account.nonce,
        storage_hash: proof.account.storage_root,
        account_proof: proof.nodes,
        storage_proof: keys
            .into_iter()
            .zip(proof.slots)
            .map(|(key, (value, proof))| EIP1186StorageProof { key, value, proof })
            .collect(),
    })
}

/// Parses a slot and keeps its form, 32 bytes or a number.
fn storage_key(value: &Value) -> Option<JsonStorageKey> {
    let slot = number(value)?;
    let whole = value.as_str().is_some_and(|text| text.len() == 66);
    Some(if whole { JsonStorageKey::Hash(B256::from(slot)) } else { JsonStorageKey::Number(slot) })
}
