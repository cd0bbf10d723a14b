//! Traces by go-ethereum's `debug_` methods and Parity's `trace_` methods. The tracers are those of `revm-inspectors`.
//! The recorded data per request is limited, and no tracer runs on the chain's thread.

use std::sync::Arc;

use alloy::eips::BlockId;
use alloy::primitives::B256;
use alloy::rpc::types::{TransactionInfo, TransactionRequest};
use alloy_rpc_types_trace::common::TraceResult;
use alloy_rpc_types_trace::geth::{
    GethDebugBuiltInTracerType, GethDebugTracerType, GethDebugTracingCallOptions, GethDebugTracingOptions, GethTrace,
};
use alloy_rpc_types_trace::parity::LocalizedTransactionTrace;
use revm_inspectors::tracing::{DebugInspector, TracingInspector, TracingInspectorConfig, TransactionContext};

use super::super::block::Block;
use super::super::call::override_view;
use super::super::error::CallError;
use super::super::handle::DevnetThread;
use super::super::replay::{BlockReplay, RecordedParts, ReplayedTransaction, TraceError, TraceLimit, watched};
use super::answer::Answer;
use super::error::RpcError;
use super::json;
use super::params::Params;
use crate::evm::{self, CheckMode};

/// `debug_traceTransaction`: hash and options.
pub(super) fn trace_transaction(engine: &mut DevnetThread, params: &Params<'_>) -> Result<Answer, RpcError> {
    let hash: B256 = params.required(0, "transaction hash")?;
    let options = tracing_options(params, 1)?;
    let included = engine.chain.transaction(hash).ok_or_else(|| RpcError::server("transaction not found"))?;
    let mut replay = engine.chain.replay(&included.block, kept(&options))?;
    Ok(Answer::elsewhere(move || {
        replay.skip_to(included.index)?;
        json(&geth_trace(&mut replay, included.index, &options)?)
    }))
}

/// `debug_traceBlockByNumber` and `debug_traceBlockByHash`: block and options.
pub(super) fn trace_block(engine: &mut DevnetThread, params: &Params<'_>) -> Result<Answer, RpcError> {
    let options = tracing_options(params, 1)?;
    let block = known_block(engine, params.block(0)?)?;
    let mut replay = engine.chain.replay(&block, kept(&options))?;
    Ok(Answer::elsewhere(move || {
        let mut traces = Vec::with_capacity(block.transactions.len());
        for (index, transaction) in block.transactions.iter().enumerate() {
            let trace = geth_trace(&mut replay, index, &options)?;
            traces.push(TraceResult::<GethTrace, String>::new_success(trace, Some(transaction.hash)));
        }
        json(&traces)
    }))
}

/// `debug_traceCall`: request, block, and options with overrides; with `txIndex`, on the state before that transaction.
pub(super) fn trace_call(engine: &mut DevnetThread, params: &Params<'_>) -> Result<Answer, RpcError> {
    let request: TransactionRequest = params.required(0, "transaction")?;
    let options: GethDebugTracingCallOptions = params.optional(2, "tracing options")?.unwrap_or_default();
    let tracing = options.tracing_options;
    check_tracer(&tracing)?;
    let id = params.block(1)?;
    let (view, replay) = match options.tx_index.and_then(|index| usize::try_from(index).ok()) {
        None => (Some(engine.chain.view(id)?), None),
        Some(index) => {
            let block = known_block(engine, id)?;
            if index >= block.transactions.len() {
                return Err(RpcError::server(format!(
                    "transaction index {index} out of range for block {}",
                    block.hash
                )));
            }
            (None, Some((engine.chain.replay(&block, RecordedParts::default())?, index)))
        }
    };
    let (rules, gas, cap) = (*engine.chain.rules(), engine.chain.gas_limit(), engine.chain.call_gas_cap());
    Ok(Answer::elsewhere(move || {
        let mut view = match (view, replay) {
            (Some(view), _) => view,
            (None, Some((mut replay, index))) => {
                replay.skip_to(index)?;
                replay.into_view()
            }
            (None, None) => return Err(RpcError::internal("no state is available for the call")),
        };
        override_view(&mut view, options.state_overrides.as_ref(), options.block_overrides.as_ref())
            .map_err(CallError::from)?;
        let mut tx = evm::call_env(&request, &rules, &view.context, gas).map_err(CallError::from)?;
        tx.gas_limit = tx.gas_limit.min(cap);
        let mut tracer = DebugInspector::new(tracing.clone()).map_err(|_| bad_config())?;
        let mut limit = TraceLimit::new(kept(&tracing));
        let replayed = watched(&rules, view, CheckMode::Call, tx, &mut limit, &mut tracer)?;
        json(&result(&mut tracer, replayed, None, &mut limit)?)
    }))
}

/// `trace_transaction`: hash; the result for an unknown one is empty.
pub(super) fn parity_transaction(engine: &mut DevnetThread, params: &Params<'_>) -> Result<Answer, RpcError> {
    let hash: B256 = params.required(0, "transaction hash")?;
    let Some(included) = engine.chain.transaction(hash) else { return Ok(Answer::now(json::<[(); 0]>(&[]))) };
    let mut replay = engine.chain.replay(&included.block, RecordedParts::default())?;
    Ok(Answer::elsewhere(move || {
        replay.skip_to(included.index)?;
        json(&parity_traces(&mut replay, included.index)?)
    }))
}

/// `trace_block`: block; the result for an unknown one is empty.
pub(super) fn parity_block(engine: &mut DevnetThread, params: &Params<'_>) -> Result<Answer, RpcError> {
    let Ok(block) = known_block(engine, params.block(0)?) else { return Ok(Answer::now(json::<[(); 0]>(&[]))) };
    let mut replay = engine.chain.replay(&block, RecordedParts::default())?;
    Ok(Answer::elsewhere(move || {
        let mut traces = Vec::new();
        for index in 0..block.transactions.len() {
            traces.extend(parity_traces(&mut replay, index)?);
        }
        json(&traces)
    }))
}

fn known_block(engine: &DevnetThread, id: BlockId) -> Result<Arc<Block>, RpcError> {
    if id == BlockId::pending() {
        return Err(RpcError::server("tracing on top of pending is not supported"));
    }
    engine.chain.block(id).cloned().ok_or_else(|| match id {
        BlockId::Hash(hash) => RpcError::server(format!("block {} not found", hash.block_hash)),
        BlockId::Number(number) => {
            RpcError::server(format!("block #{} not found", number.as_number().unwrap_or_default()))
        }
    })
}

fn geth_trace(
    replay: &mut BlockReplay,
    index: usize,
    options: &GethDebugTracingOptions,
) -> Result<GethTrace, RpcError> {
    let block = Arc::clone(&replay.block);
    let Some(transaction) = block.transactions.get(index) else {
        return Err(RpcError::server("transaction not found"));
    };
    let mut tracer = DebugInspector::new(options.clone()).map_err(|_| bad_config())?;
    let replayed = replay.run(transaction, &mut tracer)?;
    let place =
        TransactionContext { block_hash: Some(block.hash), tx_index: Some(index), tx_hash: Some(transaction.hash) };
    result(&mut tracer, replayed, Some(place), replay.limit())
}

fn result(
    tracer: &mut DebugInspector,
    mut replayed: ReplayedTransaction,
    place: Option<TransactionContext>,
    limit: &mut TraceLimit,
) -> Result<GethTrace, RpcError> {
    if matches!(tracer, DebugInspector::PreStateTracer(..)) {
        // This tracer reports everything that was touched, including code.
        for account in replayed.execution.state.values() {
            let code = account.info.code.as_ref().map_or(0, |code| code.len());
            limit.add(code.saturating_add(account.storage.len().saturating_mul(64)))?;
        }
    }
    let ReplayedTransaction { tx, surroundings, execution, before } = &mut replayed;
    tracer
        .get_result(place, tx, surroundings, execution, before)
        .map_err(|_| RpcError::internal("the trace could not be made"))
}

fn parity_traces(replay: &mut BlockReplay, index: usize) -> Result<Vec<LocalizedTransactionTrace>, RpcError> {
    let block = Arc::clone(&replay.block);
    let Some(transaction) = block.transactions.get(index) else { return Ok(Vec::new()) };
    // Precompile calls are included, as in anvil.
    let config = TracingInspectorConfig::default_parity().set_exclude_precompile_calls(false);
    let mut tracer = TracingInspector::new(config);
    let replayed = replay.run(transaction, &mut tracer)?;
    // Parity reports gas without the transaction's intrinsic cost, so the gas limit is not set here.
    tracer.set_transaction_caller(replayed.tx.caller);
    let place = TransactionInfo {
        hash: Some(transaction.hash),
        index: Some(index as u64),
        block_hash: Some(block.hash),
        block_number: Some(block.number()),
        base_fee: block.header.base_fee_per_gas,
        ..Default::default()
    };
    Ok(tracer.into_parity_builder().into_localized_transaction_traces(place))
}

fn tracing_options(params: &Params<'_>, index: usize) -> Result<GethDebugTracingOptions, RpcError> {
    let options = params.optional(index, "tracing options")?.unwrap_or_default();
    check_tracer(&options)?;
    Ok(options)
}

/// Refuses an unknown tracer and an invalid configuration.
fn check_tracer(options: &GethDebugTracingOptions) -> Result<(), RpcError> {
    use GethDebugBuiltInTracerType::{CallTracer, FlatCallTracer, FourByteTracer, NoopTracer, PreStateTracer};
    let known = match &options.tracer {
        None => true,
        Some(GethDebugTracerType::BuiltInTracer(tracer)) => {
            matches!(tracer, CallTracer | FlatCallTracer | FourByteTracer | NoopTracer | PreStateTracer)
        }
        Some(tracer) => tracer.as_str().is_empty(),
    };
    if !known {
        let there = "callTracer, flatCallTracer, prestateTracer, 4byteTracer, noopTracer, or none for struct logs";
        return Err(RpcError::server(format!("tracer not found: use {there}")));
    }
    DebugInspector::new(options.clone()).map(drop).map_err(|_| bad_config())
}

/// Parts of a step that the tracer in `options` records.
fn kept(options: &GethDebugTracingOptions) -> RecordedParts {
    if options.tracer.as_ref().is_some_and(|tracer| !tracer.as_str().is_empty()) {
        return RecordedParts::default();
    }
    let config = &options.config;
    RecordedParts {
        steps: true,
        at_most: config.limit.filter(|limit| *limit > 0),
        stack: !config.disable_stack.unwrap_or_default(),
        memory: config.enable_memory.unwrap_or_default(),
        storage: !config.disable_storage.unwrap_or_default(),
    }
}

fn bad_config() -> RpcError {
    RpcError::invalid_params("the tracer's configuration (tracerConfig) is not valid")
}

impl From<TraceError> for RpcError {
    fn from(error: TraceError) -> Self {
        match error {
            TraceError::Call(error) => error.into(),
            TraceError::TooLarge => Self::server(error.to_string()),
        }
    }
}
