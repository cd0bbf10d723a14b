//! Block production from pending transactions: execution in order, receipts and gas.
//!
//! Not here: the block context and the time of production (see `chain`).

use std::sync::Arc;

use alloy::consensus::{Eip658Value, Receipt as ConsensusReceipt, ReceiptEnvelope, Transaction};
use alloy::eips::eip2935::{HISTORY_SERVE_WINDOW, HISTORY_STORAGE_ADDRESS};
use alloy::primitives::{B256, U256};
use revm::context::result::{ExecutionResult, HaltReason};

use super::block::{ChainTransaction, ExecutionFailure, Receipt};
use super::pool::TxPool;
use super::state::WorldState;
use crate::evm::{self, BlockContext, ChainRules, CheckMode, EvmError};

/// Contents of a block before it is sealed.
pub(super) struct BlockProduction {
    /// State after all transactions.
    pub(super) state: WorldState,
    /// Transactions in block order.
    pub(super) transactions: Vec<Arc<ChainTransaction>>,
    pub(super) receipts: Vec<Receipt>,
    /// Hashes of transactions that cannot be executed and must leave the pool.
    pub(super) rejected: Vec<B256>,
}

/// Fills a block in `context` on `state` from the pool, best tip first, up to the gas limit.
pub(super) fn produce(
    rules: &ChainRules,
    context: &BlockContext,
    parent_hash: B256,
    mut state: WorldState,
    pool: &TxPool,
) -> BlockProduction {
    record_parent(&mut state, context, parent_hash);
    let mut candidates = pool.candidates(&state, context.base_fee);
    let mut production =
        BlockProduction { state, transactions: Vec::new(), receipts: Vec::new(), rejected: Vec::new() };
    let mut gas_left = context.gas_limit;
    while let Some(transaction) = candidates.next_best() {
        if transaction.envelope.gas_limit() > gas_left {
            continue;
        }
        match production.execute(rules, context, &transaction) {
            Executed::Included => {
                gas_left = gas_left.saturating_sub(production.receipts.last().map_or(0, |receipt| receipt.gas_used));
                candidates.advance(&transaction);
            }
            Executed::Rejected => production.rejected.push(transaction.hash),
            Executed::Unread => {}
        }
    }
    production
}

/// Executes these transactions on `state` in this order, as in their block. Stops at one that cannot be part of a
/// block.
pub(super) fn replay(
    rules: &ChainRules,
    context: &BlockContext,
    parent_hash: B256,
    mut state: WorldState,
    transactions: &[Arc<ChainTransaction>],
) -> BlockProduction {
    record_parent(&mut state, context, parent_hash);
    let mut production =
        BlockProduction { state, transactions: Vec::new(), receipts: Vec::new(), rejected: Vec::new() };
    for transaction in transactions {
        if production.execute(rules, context, transaction) != Executed::Included {
            break;
        }
    }
    production
}

/// Stores the parent's hash in the [EIP-2935](https://eips.ethereum.org/EIPS/eip-2935) contract. The EIP allows a
/// client to write the slot directly instead of making the system call.
pub(super) fn record_parent(state: &mut WorldState, context: &BlockContext, parent_hash: B256) {
    if let Some(parent) = context.number.checked_sub(1)
        && !state.code(HISTORY_STORAGE_ADDRESS).is_empty()
    {
        let slot = U256::from(parent % HISTORY_SERVE_WINDOW as u64);
        state.set_storage_at(HISTORY_STORAGE_ADDRESS, slot, parent_hash.into());
    }
}

/// Outcome of a transaction in block production.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Executed {
    /// It is part of the block.
    Included,
    /// It cannot be part of a block.
    Rejected,
    /// It needs a value of the fork's origin that cannot be read now, and stays pending.
    Unread,
}

impl BlockProduction {
    /// Executes one transaction and records its receipt.
    fn execute(&mut self, rules: &ChainRules, context: &BlockContext, transaction: &Arc<ChainTransaction>) -> Executed {
        let envelope = &transaction.envelope;
        let checks = if transaction.impersonated { CheckMode::Impersonated } else { CheckMode::Transaction };
        let environment = evm::tx_env(envelope, transaction.sender);
        let ran =
            self.state.settled(|state| evm::transact_in_block(state, rules, context, checks, environment.clone()));
        let execution = match ran {
            Ok(execution) => execution,
            Err(EvmError::Database(error)) => {
                tracing::warn!(transaction = %transaction.hash, %error, "a transaction stays pending");
                return Executed::Unread;
            }
            Err(_) => return Executed::Rejected,
        };
        self.state.apply(execution.state);
        push_receipt(&mut self.receipts, transaction, context, execution.result);
        self.transactions.push(Arc::clone(transaction));
        Executed::Included
    }
}

/// Appends the receipt of a transaction with this `result`.
pub(super) fn push_receipt(
    receipts: &mut Vec<Receipt>,
    transaction: &ChainTransaction,
    context: &BlockContext,
    result: ExecutionResult<HaltReason>,
) {
    let envelope = &transaction.envelope;
    let (cumulative, first_log_index) = receipts.last().map_or((0, 0), |last| {
        let logs = u64::try_from(last.logs().len()).unwrap_or(u64::MAX);
        (cumulative_gas(last), last.first_log_index.saturating_add(logs))
    });
    let gas_used = result.tx_gas_used();
    let failure = match &result {
        ExecutionResult::Success { .. } => None,
        ExecutionResult::Revert { output, .. } => Some(ExecutionFailure::Reverted(output.clone())),
        ExecutionResult::Halt { reason, .. } => Some(ExecutionFailure::Halted(reason.clone())),
    };
    // A failed transaction has no logs, even if the interpreter emitted some.
    let logs = if failure.is_none() { result.into_logs() } else { Vec::new() };
    let receipt = ConsensusReceipt {
        status: Eip658Value::Eip658(failure.is_none()),
        cumulative_gas_used: cumulative.saturating_add(gas_used),
        logs,
    };
    receipts.push(Receipt {
        envelope: ReceiptEnvelope::from_typed(envelope.tx_type(), receipt),
        gas_used,
        effective_gas_price: envelope.effective_gas_price(Some(context.base_fee)),
        contract_address: envelope.is_create().then(|| transaction.sender.create(envelope.nonce())),
        first_log_index,
        failure,
    });
}

fn cumulative_gas(receipt: &Receipt) -> u64 {
    receipt.envelope.cumulative_gas_used()
}
