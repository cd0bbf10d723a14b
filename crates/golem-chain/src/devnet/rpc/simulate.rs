//! `eth_simulateV1`: blocks of calls on top of a block, each based on its predecessor, none of them kept
//! ([execution-apis](https://github.com/ethereum/execution-apis/blob/main/src/eth/execute.yaml)). Defaults, limits and
//! error codes are those of go-ethereum.

use std::sync::Arc;

use alloy::consensus::{Signed, TxEnvelope, TypedTransaction};
use alloy::primitives::{B256, Bytes, Signature, U256};
use alloy::rpc::types::simulate::{
    MAX_SIMULATE_BLOCKS, SimBlock, SimCallResult, SimulateError, SimulatePayload, SimulatedBlock,
};
use alloy::rpc::types::{Block as RpcBlock, Log as RpcLog, TransactionRequest};
use revm::context::TxEnv;
use revm::context::result::InvalidTransaction;
use revm_inspectors::transfer::TransferInspector;

use super::super::block::{Block, ChainTransaction, Receipt};
use super::super::call::{failure, override_account, override_block};
use super::super::chain::ExecutionView;
use super::super::error::CallError;
use super::super::handle::DevnetThread;
use super::super::produce::{push_receipt, record_parent};
use super::super::state::WorldState;
use super::answer::Answer;
use super::error::RpcError;
use super::params::Params;
use super::{json, render};
use crate::evm::{self, BlockContext, ChainRules, CheckMode, EvmError, Execution, next_base_fee};

/// Default block interval, in seconds.
const BLOCK_SECONDS: u64 = 12;

/// Maximum total size of return data, in bytes.
const MAX_RETURNED: usize = 16 << 20;

/// Error code for a block number that does not increase.
const BLOCK_NUMBER_INVALID: i64 = -38_020;
/// Error code for a timestamp that does not increase.
const BLOCK_TIMESTAMP_INVALID: i64 = -38_021;
/// Error code for too many blocks in a request.
const TOO_MANY_BLOCKS: i64 = -38_026;
/// Error code for a call whose gas exceeds the rest of its block.
const BLOCK_GAS_LIMIT_REACHED: i64 = -38_015;

/// A chain of simulated blocks.
struct BlockSimulation {
    rules: ChainRules,
    state: WorldState,
    /// The preceding block.
    parent: Arc<Block>,
    least_base_fee: u64,
    validation: bool,
    trace_transfers: bool,
    full: bool,
    /// Remaining gas of the request.
    gas_left: u64,
    returned: usize,
}

/// Results of the current block's calls so far.
#[derive(Default)]
struct BlockResults {
    transactions: Vec<Arc<ChainTransaction>>,
    receipts: Vec<Receipt>,
    results: Vec<SimCallResult>,
    gas_used: u64,
}

/// `eth_simulateV1`: blocks of calls, and the block on which they are based.
pub(super) fn simulate(engine: &mut DevnetThread, params: &Params<'_>) -> Result<Answer, RpcError> {
    let payload: SimulatePayload = params.required(0, "simulation")?;
    let id = params.block(1)?;
    let blocks = payload.block_state_calls;
    if blocks.is_empty() {
        return Err(RpcError::invalid_params("empty input"));
    }
    if blocks.len() as u64 > MAX_SIMULATE_BLOCKS {
        return Err(RpcError::coded(TOO_MANY_BLOCKS, "too many blocks"));
    }
    let view = engine.chain.view(id)?;
    let parent = match engine.chain.block(id) {
        Some(block) => Arc::clone(block),
        None => Arc::new(engine.chain.pending_block().0),
    };
    let mut simulation = BlockSimulation {
        rules: *engine.chain.rules(),
        state: view.state,
        parent,
        least_base_fee: engine.chain.config().least_base_fee,
        validation: payload.validation,
        trace_transfers: payload.trace_transfers,
        full: payload.return_full_transactions,
        gas_left: engine.chain.call_gas_cap(),
        returned: 0,
    };
    Ok(Answer::elsewhere(move || json(&simulation.run(blocks)?)))
}

impl BlockSimulation {
    fn run(&mut self, blocks: Vec<SimBlock>) -> Result<Vec<SimulatedBlock<RpcBlock>>, RpcError> {
        let base = self.parent.number();
        let mut made = Vec::with_capacity(blocks.len());
        for block in blocks {
            let next = self.parent.number() + 1;
            let number = block.block_number_override().map_or(next, |number| number.saturating_to());
            if number < next {
                let message = format!("block numbers must be in order: {number} <= {}", next - 1);
                return Err(RpcError::coded(BLOCK_NUMBER_INVALID, message));
            }
            if number - base > MAX_SIMULATE_BLOCKS {
                return Err(RpcError::coded(TOO_MANY_BLOCKS, "too many blocks"));
            }
            for _ in next..number {
                made.push(self.block(SimBlock::default())?);
            }
            made.push(self.block(block)?);
        }
        Ok(made)
    }

    fn block(&mut self, block: SimBlock) -> Result<SimulatedBlock<RpcBlock>, RpcError> {
        let context = self.surroundings(&block)?;
        record_parent(&mut self.state, &context, self.parent.hash);
        for (address, account) in block.state_overrides.iter().flatten() {
            override_account(&mut self.state, *address, account).map_err(CallError::from)?;
        }
        let mut made = BlockResults::default();
        for call in block.calls {
            self.call(call, &context, &mut made)?;
        }
        let BlockResults { transactions, receipts, mut results, .. } = made;
        let sealed = Block::seal(&context, self.parent.hash, self.state.root(), Bytes::new(), transactions, receipts);
        let sealed = Arc::new(sealed);
        self.state.push_block_hash(context.number, sealed.hash);
        for log in render::logs(&sealed, false) {
            let index = log.transaction_index.and_then(|index| usize::try_from(index).ok());
            if let Some(result) = index.and_then(|index| results.get_mut(index)) {
                result.logs.push(RpcLog { removed: false, ..log });
            }
        }
        self.parent = Arc::clone(&sealed);
        Ok(SimulatedBlock { inner: render::block(&sealed, self.full), calls: results })
    }

    fn surroundings(&mut self, block: &SimBlock) -> Result<BlockContext, RpcError> {
        let parent = self.parent.context();
        let base_fee = match (self.validation, parent.number) {
            (false, _) => 0,
            // Block 1 has the same base fee as block 0, as on the chain itself.
            (true, 0) => parent.base_fee,
            (true, _) => next_base_fee(self.parent.header.gas_used, parent.gas_limit, parent.base_fee),
        };
        let context = BlockContext {
            number: parent.number + 1,
            timestamp: parent.timestamp.saturating_add(BLOCK_SECONDS),
            base_fee: if self.validation { base_fee.max(self.least_base_fee) } else { base_fee },
            prevrandao: B256::ZERO,
            ..parent
        };
        let mut view = ExecutionView { state: std::mem::take(&mut self.state), context };
        if let Some(overrides) = &block.block_overrides {
            override_block(&mut view, overrides);
        }
        let ExecutionView { state, context } = view;
        self.state = state;
        if context.timestamp <= parent.timestamp {
            let message = format!("block timestamps must be in order: {} <= {}", context.timestamp, parent.timestamp);
            return Err(RpcError::coded(BLOCK_TIMESTAMP_INVALID, message));
        }
        Ok(context)
    }

    fn call(
        &mut self,
        call: TransactionRequest,
        context: &BlockContext,
        made: &mut BlockResults,
    ) -> Result<(), RpcError> {
        let request = self.fill(call, context, made)?;
        let transaction = unsigned(&request)?;
        let gas_limit = request.gas.unwrap_or_default();
        let tx = evm::call_env(&request, &self.rules, context, gas_limit).map_err(CallError::from)?;
        let execution = self.execute(tx, context)?;
        let gas = execution.result.gas();
        let (gas_used, most_gas) = (execution.result.tx_gas_used(), gas.total_gas_spent());
        let error = failure(&execution).map(call_error);
        let return_data = execution.result.output().cloned().unwrap_or_default();
        self.returned = self.returned.saturating_add(return_data.len());
        if self.returned > MAX_RETURNED {
            return Err(RpcError::server(format!(
                "the calls return more than {} MiB: simulate fewer",
                MAX_RETURNED >> 20
            )));
        }
        self.state.apply(execution.state);
        self.gas_left = self.gas_left.saturating_sub(gas_used);
        made.gas_used = made.gas_used.saturating_add(gas_used);
        push_receipt(&mut made.receipts, &transaction, context, execution.result);
        made.transactions.push(Arc::new(transaction));
        made.results.push(SimCallResult {
            return_data,
            logs: Vec::new(),
            gas_used,
            max_used_gas: Some(most_gas),
            status: error.is_none(),
            error,
        });
        Ok(())
    }

    /// Completes the nonce, gas and fees of `call`, within the remaining gas of its block and of the request.
    fn fill(
        &self,
        mut call: TransactionRequest,
        context: &BlockContext,
        made: &BlockResults,
    ) -> Result<TransactionRequest, RpcError> {
        let block_left = context.gas_limit.saturating_sub(made.gas_used);
        let asked = call.gas.unwrap_or_else(|| match self.validation {
            true => self.rules.transaction_gas_limit(block_left),
            false => block_left,
        });
        if asked > block_left {
            let message = format!("block gas limit reached: {asked} > {block_left}");
            return Err(RpcError::coded(BLOCK_GAS_LIMIT_REACHED, message));
        }
        if self.gas_left == 0 {
            return Err(RpcError::server("RPC gas cap exhausted"));
        }
        let sender = call.from.unwrap_or_default();
        call.from = Some(sender);
        call.gas = Some(asked.min(self.gas_left));
        call.to = Some(call.to.unwrap_or_default());
        call.nonce = Some(call.nonce.unwrap_or_else(|| self.state.nonce(sender)));
        call.chain_id = Some(call.chain_id.unwrap_or(self.rules.chain_id));
        if call.gas_price.is_none() {
            let tip = *call.max_priority_fee_per_gas.get_or_insert(0);
            call.max_fee_per_gas.get_or_insert(tip);
        }
        Ok(call)
    }

    fn execute(&self, tx: TxEnv, context: &BlockContext) -> Result<Execution, RpcError> {
        let checks = if self.validation { CheckMode::Transaction } else { CheckMode::Call };
        let sender = tx.caller;
        let ran = if self.trace_transfers {
            let watch = TransferInspector::new(false).with_logs(true);
            evm::inspect(&self.state, &self.rules, context, checks, tx, watch)
        } else {
            evm::transact(&self.state, &self.rules, context, checks, tx)
        };
        ran.map_err(|error| {
            let code = match &error {
                EvmError::Transaction(invalid) => refusal_code(invalid),
                _ => return RpcError::internal("execution failed inside the node"),
            };
            RpcError::coded(code, CallError::from_evm(error, sender).to_string())
        })
    }
}

/// Creates the unsigned transaction of a call.
fn unsigned(request: &TransactionRequest) -> Result<ChainTransaction, RpcError> {
    let sender = request.from.unwrap_or_default();
    let mut request = request.clone();
    if let Some(input) = request.input.input.take().or_else(|| request.input.data.take()) {
        request.input = input.into();
    }
    let signature = Signature::new(U256::ZERO, U256::ZERO, false);
    let incomplete = |_| RpcError::invalid_params("a call does not describe a transaction");
    let envelope = match request.build_typed_tx().map_err(incomplete)? {
        TypedTransaction::Legacy(tx) => TxEnvelope::Legacy(Signed::new_unhashed(tx, signature)),
        TypedTransaction::Eip2930(tx) => TxEnvelope::Eip2930(Signed::new_unhashed(tx, signature)),
        TypedTransaction::Eip1559(tx) => TxEnvelope::Eip1559(Signed::new_unhashed(tx, signature)),
        TypedTransaction::Eip4844(tx) => TxEnvelope::Eip4844(Signed::new_unhashed(tx, signature)),
        TypedTransaction::Eip7702(tx) => TxEnvelope::Eip7702(Signed::new_unhashed(tx, signature)),
    };
    let hash = *envelope.tx_hash();
    Ok(ChainTransaction { envelope, sender, hash, impersonated: true })
}

fn call_error(error: CallError) -> SimulateError {
    let message = error.to_string();
    match error {
        CallError::Reverted(output) => {
            SimulateError { code: SimulateError::EXECUTION_REVERTED_CODE, message, data: Some(output) }
        }
        _ => SimulateError { code: SimulateError::VM_EXECUTION_ERROR_CODE, message, data: None },
    }
}

/// go-ethereum's code for a call that cannot be part of its block.
fn refusal_code(invalid: &InvalidTransaction) -> i64 {
    match invalid {
        InvalidTransaction::NonceTooLow { .. } => -38_010,
        InvalidTransaction::NonceTooHigh { .. } => -38_011,
        InvalidTransaction::GasPriceLessThanBasefee => -38_012,
        InvalidTransaction::CallGasCostMoreThanGasLimit { .. }
        | InvalidTransaction::GasFloorMoreThanGasLimit { .. } => -38_013,
        InvalidTransaction::LackOfFundForMaxFee { .. } => -38_014,
        InvalidTransaction::RejectCallerWithCode => -38_024,
        InvalidTransaction::CreateInitCodeSizeLimit => -38_025,
        _ => -32_603,
    }
}
