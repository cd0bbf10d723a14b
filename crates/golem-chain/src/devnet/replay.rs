//! Repeated execution of a block's transactions for tracers, with a limit on the recorded data.
//!
//! A replay owns all its data and runs on any thread. Not here: the trace methods (see `rpc::trace`).

use std::sync::Arc;

use alloy::primitives::Log;
use alloy::primitives::map::{AddressMap, U256Set};
use revm::Inspector;
use revm::bytecode::opcode::{SLOAD, SSTORE};
use revm::context::{BlockEnv, ContextTr, TxEnv};
use revm::context_interface::context::ContextError;
use revm::interpreter::interpreter_types::{Jumps, LoopControl, MemoryTr};
use revm::interpreter::{CallInputs, CallOutcome, CreateInputs, CreateOutcome, Interpreter};

use super::block::{Block, ChainTransaction};
use super::chain::{Chain, ExecutionView};
use super::error::{BlockError, CallError};
use super::produce::record_parent;
use super::state::WorldState;
use crate::evm::{self, ChainRules, CheckMode, Execution};

/// Maximum size of a trace in bytes; its JSON is several times as large.
const MAX_RECORDED: usize = 32 << 20;

/// Size of a recorded step or call without its contents, in bytes.
const RECORD_OVERHEAD: usize = 128;

/// Error of a trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// The execution could not start, or its state is not available.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The trace exceeds the size limit.
    #[error(
        "the trace is too large: it records more than {} MiB. Ask for fewer steps (limit), leave out the stack \
         (disableStack) and the memory, or use callTracer",
        MAX_RECORDED >> 20
    )]
    TooLarge,
}

impl From<BlockError> for TraceError {
    fn from(error: BlockError) -> Self {
        Self::Call(error.into())
    }
}

/// A block to execute again.
pub(super) struct BlockReplay {
    pub(super) block: Arc<Block>,
    rules: ChainRules,
    state: WorldState,
    limit: TraceLimit,
}

/// Result of a replayed transaction.
pub(super) struct ReplayedTransaction {
    /// Execution result and state changes.
    pub(super) execution: Execution,
    /// State before the transaction.
    pub(super) before: WorldState,
    pub(super) tx: TxEnv,
    /// Environment of its block.
    pub(super) surroundings: BlockEnv,
}

impl Chain {
    /// Prepares the replay of `block` on the state before its first transaction, for tracers that keep `kept`.
    pub(super) fn replay(&self, block: &Arc<Block>, kept: RecordedParts) -> Result<BlockReplay, BlockError> {
        // Block 0 has no transactions, so its own state can be used.
        let parent = block.number().saturating_sub(1);
        let state = self.ledger.state(parent).ok_or_else(|| BlockError::StatePruned {
            number: parent,
            oldest: self.ledger.oldest_state(),
            head: self.number(),
        })?;
        let mut state = state.clone();
        record_parent(&mut state, &block.context(), block.header.parent_hash);
        Ok(BlockReplay { block: Arc::clone(block), rules: *self.rules(), state, limit: TraceLimit::new(kept) })
    }
}

impl BlockReplay {
    /// Executes the transactions before position `index` without a tracer.
    pub(super) fn skip_to(&mut self, index: usize) -> Result<(), TraceError> {
        let block = Arc::clone(&self.block);
        for transaction in block.transactions.iter().take(index) {
            let (checks, tx) = environment(transaction);
            let ran = evm::transact(&self.state, &self.rules, &block.context(), checks, tx);
            let execution = ran.map_err(|error| CallError::from_evm(error, transaction.sender))?;
            self.state.apply(execution.state);
        }
        Ok(())
    }

    /// Executes a transaction of the block with the tracer `watch`.
    pub(super) fn run<Watch>(
        &mut self,
        transaction: &ChainTransaction,
        watch: &mut Watch,
    ) -> Result<ReplayedTransaction, TraceError>
    where
        Watch: for<'a> Inspector<evm::EvmContext<'a>>,
    {
        let (checks, tx) = environment(transaction);
        let view = ExecutionView { state: self.state.clone(), context: self.block.context() };
        let replayed = watched(&self.rules, view, checks, tx, &mut self.limit, watch)?;
        self.state.apply(replayed.execution.state.clone());
        Ok(replayed)
    }

    /// Counter of all data recorded so far.
    pub(super) fn limit(&mut self) -> &mut TraceLimit {
        &mut self.limit
    }

    /// State after the executed transactions, and the block context.
    pub(super) fn into_view(self) -> ExecutionView {
        ExecutionView { state: self.state, context: self.block.context() }
    }
}

/// Executes `tx` with the tracer `watch` and the counter `limit`.
pub(super) fn watched<Watch>(
    rules: &ChainRules,
    view: ExecutionView,
    checks: CheckMode,
    tx: TxEnv,
    limit: &mut TraceLimit,
    watch: &mut Watch,
) -> Result<ReplayedTransaction, TraceError>
where
    Watch: for<'a> Inspector<evm::EvmContext<'a>>,
{
    limit.begin();
    let ran = evm::inspect(&view.state, rules, &view.context, checks, tx.clone(), (&mut *limit, watch));
    if limit.is_exceeded() {
        return Err(TraceError::TooLarge);
    }
    let execution = ran.map_err(|error| CallError::from_evm(error, tx.caller))?;
    Ok(ReplayedTransaction { execution, before: view.state, tx, surroundings: evm::block_env(rules, &view.context) })
}

fn environment(transaction: &ChainTransaction) -> (CheckMode, TxEnv) {
    let checks = if transaction.impersonated { CheckMode::Impersonated } else { CheckMode::Transaction };
    (checks, evm::tx_env(&transaction.envelope, transaction.sender))
}

/// Parts of a step that a tracer records.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RecordedParts {
    pub(super) steps: bool,
    /// Maximum number of recorded steps.
    pub(super) at_most: Option<u64>,
    pub(super) stack: bool,
    pub(super) memory: bool,
    /// At each storage access, record all slots of the contract touched so far.
    pub(super) storage: bool,
}

/// Inspector that aborts an execution whose trace becomes too large. It counts an upper bound of the tracer's data over
/// all transactions of one request.
#[derive(Debug, Default)]
pub(super) struct TraceLimit {
    kept: RecordedParts,
    recorded: usize,
    steps: u64,
    touched: AddressMap<U256Set>,
}

impl TraceLimit {
    pub(super) fn new(kept: RecordedParts) -> Self {
        Self { kept, ..Self::default() }
    }

    /// Counts other recorded data, in bytes.
    pub(super) fn add(&mut self, bytes: usize) -> Result<(), TraceError> {
        self.recorded = self.recorded.saturating_add(RECORD_OVERHEAD).saturating_add(bytes);
        if self.is_exceeded() { Err(TraceError::TooLarge) } else { Ok(()) }
    }

    fn is_exceeded(&self) -> bool {
        self.recorded > MAX_RECORDED
    }

    fn begin(&mut self) {
        self.steps = 0;
        self.touched.clear();
    }

    fn count_step(&mut self, interpreter: &Interpreter) {
        let RecordedParts { steps, at_most, stack, memory, storage } = self.kept;
        if !steps || at_most.is_some_and(|most| self.steps >= most) {
            return;
        }
        self.steps += 1;
        let mut bytes = 0;
        if stack {
            bytes += interpreter.stack.len() * 32;
        }
        if memory {
            bytes += interpreter.memory.size();
        }
        if storage
            && matches!(interpreter.bytecode.opcode(), SLOAD | SSTORE)
            && let Ok(slot) = interpreter.stack.peek(0)
        {
            let touched = self.touched.entry(interpreter.input.target_address).or_default();
            touched.insert(slot);
            bytes += touched.len() * 64;
        }
        // The caller checks the limit in the same step.
        let _ = self.add(bytes);
    }
}

impl<CTX: ContextTr> Inspector<CTX> for TraceLimit {
    fn step(&mut self, interpreter: &mut Interpreter, context: &mut CTX) {
        self.count_step(interpreter);
        if self.is_exceeded() {
            if context.error().is_ok() {
                *context.error() = Err(ContextError::Custom("the trace is too large".to_owned()));
            }
            interpreter.bytecode.action().take();
            interpreter.bytecode.reset_action();
            interpreter.halt_fatal();
        }
    }

    fn log(&mut self, _: &mut CTX, log: Log) {
        let _ = self.add(log.data.data.len());
    }

    fn call(&mut self, _: &mut CTX, inputs: &mut CallInputs) -> Option<CallOutcome> {
        let _ = self.add(inputs.input.len());
        None
    }

    fn call_end(&mut self, _: &mut CTX, _: &CallInputs, outcome: &mut CallOutcome) {
        let _ = self.add(outcome.result.output.len());
    }

    fn create(&mut self, _: &mut CTX, inputs: &mut CreateInputs) -> Option<CreateOutcome> {
        let _ = self.add(inputs.init_code().len());
        None
    }

    fn create_end(&mut self, _: &mut CTX, _: &CreateInputs, outcome: &mut CreateOutcome) {
        let _ = self.add(outcome.result.output.len());
    }
}
