//! Account queries at any kept block.

use alloy::eips::BlockId;
use alloy::primitives::{Address, B256};

use super::super::handle::DevnetThread;
use super::params::Params;
use super::{RpcResult, json, quantity, sign};

/// Accounts that can send: development accounts, for which this node signs, and impersonated ones.
pub(super) fn accounts(engine: &mut DevnetThread, _: &Params<'_>) -> RpcResult {
    let mut accounts: Vec<Address> = sign::accounts(engine).collect();
    for address in engine.chain.impersonated() {
        if !accounts.contains(&address) {
            accounts.push(address);
        }
    }
    json(&accounts)
}

pub(super) fn balance(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    let address: Address = params.required(0, "address")?;
    json(&engine.chain.view(params.block(1)?)?.state.balance(address))
}

pub(super) fn code(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    let address: Address = params.required(0, "address")?;
    json(&engine.chain.view(params.block(1)?)?.state.code(address))
}

pub(super) fn storage_at(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    let address: Address = params.required(0, "address")?;
    let slot = params.number(1, "slot")?;
    let value = engine.chain.view(params.block(2)?)?.state.storage_at(address, slot);
    json(&B256::from(value))
}

pub(super) fn transaction_count(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    let address: Address = params.required(0, "address")?;
    match params.block(1)? {
        // All pending transactions count, even those that a pending block would not include.
        block if block == BlockId::pending() => quantity(engine.chain.pending_nonce(address)),
        block => quantity(engine.chain.view(block)?.state.nonce(address)),
    }
}
