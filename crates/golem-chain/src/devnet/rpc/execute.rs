//! Calls, gas estimates, fees and transaction submission.

use alloy::primitives::{Bytes, U256};
use alloy::rpc::types::state::StateOverride;
use alloy::rpc::types::{AccessListResult, BlockOverrides, TransactionRequest};
use serde_json::Value;

use super::super::handle::DevnetThread;
use super::error::RpcError;
use super::params::{Params, number};
use super::{RpcResult, json, quantity, sign};

pub(super) fn call(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    let request: TransactionRequest = params.required(0, "transaction")?;
    let state: Option<StateOverride> = params.optional(2, "state override")?;
    let surroundings: Option<BlockOverrides> = params.optional(3, "block override")?;
    let outcome = engine.chain.call(&request, params.block(1)?, state.as_ref(), surroundings.as_ref())?;
    json(&outcome.output)
}

pub(super) fn estimate_gas(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    let request: TransactionRequest = params.required(0, "transaction")?;
    let state: Option<StateOverride> = params.optional(2, "state override")?;
    let surroundings: Option<BlockOverrides> = params.optional(3, "block override")?;
    quantity(engine.chain.estimate_gas(&request, params.block(1)?, state.as_ref(), surroundings.as_ref())?)
}

pub(super) fn create_access_list(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    let request: TransactionRequest = params.required(0, "transaction")?;
    let state: Option<StateOverride> = params.optional(2, "state override")?;
    let outcome = engine.chain.create_access_list(&request, params.block(1)?, state.as_ref())?;
    json(&AccessListResult {
        access_list: outcome.access_list,
        gas_used: U256::from(outcome.gas_used),
        error: outcome.failure.map(|failure| failure.to_string()),
    })
}

pub(super) fn gas_price(engine: &mut DevnetThread, _: &Params<'_>) -> RpcResult {
    json(&U256::from(engine.chain.gas_price()))
}

pub(super) fn max_priority_fee(engine: &mut DevnetThread, _: &Params<'_>) -> RpcResult {
    json(&U256::from(engine.chain.config().suggested_tip))
}

pub(super) fn fee_history(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    let count = params.small_number(0, "block count")?;
    let percentiles = percentiles(params)?;
    json(&engine.chain.fee_history(count, params.block(1)?, &percentiles)?)
}

pub(super) fn send_raw_transaction(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    let raw: Bytes = params.required(0, "signed transaction")?;
    json(&engine.chain.submit_raw(&raw)?)
}

pub(super) fn send_transaction(engine: &mut DevnetThread, params: &Params<'_>) -> RpcResult {
    let request: TransactionRequest = params.required(0, "transaction")?;
    let transaction = sign::transaction(engine, request)?;
    json(&engine.chain.submit(transaction)?)
}

fn percentiles(params: &Params<'_>) -> Result<Vec<f64>, RpcError> {
    let given: Vec<Value> = params.optional(2, "reward percentiles")?.unwrap_or_default();
    let wrong = || RpcError::invalid_params("reward percentiles must rise from 0 to 100");
    let mut percentiles = Vec::with_capacity(given.len());
    for value in &given {
        let percentile = match value.as_f64() {
            Some(percentile) => percentile,
            // Some clients send whole numbers as hexadecimal quantities.
            None => number(value).map(|whole| whole.saturating_to::<u32>()).map(f64::from).ok_or_else(wrong)?,
        };
        let rises = percentiles.last().is_none_or(|last| *last <= percentile);
        if !(0.0..=100.0).contains(&percentile) || !rises {
            return Err(wrong());
        }
        percentiles.push(percentile);
    }
    Ok(percentiles)
}
