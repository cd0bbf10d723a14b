//! A single run of a plan on a state, from the first call to the last query, and the limits on its computation.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use revm::context::result::{EVMError, ExecutionResult, Output};

use super::{
    Fork, ForkError, MAX_TEXT, SimulationOptions, SlotOverride,
    balance_delta::BalanceDeltaError,
    call::{ForkCall, GasPayment},
    changes::{self, DetectionLimits, UnfinishedRun},
    machine::CallMachine,
    outcome::{ExecutionStatus, SimulatedOutcome, Simulation},
    revert::RevertReason,
};
use crate::evm::{DynDatabase, EvmError};
use bardo_base::text::SafeText;

/// Gas limit up to which a plan and its queries run on the calling thread, which takes a few milliseconds. A run with
/// more gas moves to a blocking thread.
const CALLING_THREAD_GAS: u64 = 3_000_000;

/// Thread on which a run executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunThread {
    /// The calling thread, which is an async worker.
    Caller,
    /// A thread for blocking work.
    Blocking,
}

/// Remaining query gas of one simulation over all its runs, and whether a caller still waits for it.
#[derive(Debug)]
pub(super) struct RunBudget {
    query_gas: AtomicU64,
    cancelled: AtomicBool,
}

/// Guard of a waiting caller; dropping it cancels the simulation.
pub(super) struct CallerGuard(Arc<RunBudget>);

impl RunBudget {
    /// Creates the budget that `limits` set.
    pub(super) fn of(limits: &DetectionLimits) -> Arc<Self> {
        Arc::new(Self { query_gas: AtomicU64::new(limits.total_gas), cancelled: AtomicBool::new(false) })
    }

    /// Creates the guard of the waiting caller.
    pub(super) fn caller_guard(self: &Arc<Self>) -> CallerGuard {
        CallerGuard(Arc::clone(self))
    }

    /// Returns true if no caller waits any more.
    pub(super) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    pub(super) fn query_gas(&self) -> u64 {
        self.query_gas.load(Ordering::Acquire)
    }

    /// Subtracts the gas that queries have used.
    pub(super) fn spend(&self, gas: u64) {
        // A simulation has one run at a time, so load and store need not be atomic together.
        self.query_gas.store(self.query_gas().saturating_sub(gas), Ordering::Release);
    }
}

impl Drop for CallerGuard {
    fn drop(&mut self) {
        self.0.cancelled.store(true, Ordering::Release);
    }
}

impl RunThread {
    /// Gas that queries may use on this thread before the run has to move.
    pub(super) fn query_gas(self) -> u64 {
        match self {
            Self::Caller => CALLING_THREAD_GAS,
            Self::Blocking => u64::MAX,
        }
    }
}

/// Returns true if a plan is small enough to start on the calling thread.
pub(super) fn may_run_on_caller(calls: &[ForkCall], limits: &DetectionLimits) -> bool {
    limits.query_gas <= CALLING_THREAD_GAS
        && calls.iter().fold(0, |sum: u64, call| sum.saturating_add(call.gas_limit)) <= CALLING_THREAD_GAS
}

/// Runs `calls` on `state` and detects their changes. `None` if the queries need more gas than this thread permits.
pub(super) fn run(
    fork: &Fork,
    state: &DynDatabase<'_>,
    calls: &[ForkCall],
    options: &SimulationOptions,
    budget: &RunBudget,
    thread: RunThread,
) -> Option<Result<Simulation, ForkError>> {
    match attempt(fork, state, calls, options, budget, thread) {
        Ok(simulation) => Some(Ok(simulation)),
        Err(UnfinishedRun::TooLong) => None,
        Err(UnfinishedRun::Cancelled) => Some(Err(ForkError::Stopped)),
        Err(UnfinishedRun::NotShifted(token)) => Some(Err(ForkError::Shift { token })),
        Err(UnfinishedRun::Failed { index, error }) => Some(Err(fork_error(index, error))),
    }
}

fn attempt(
    fork: &Fork,
    state: &DynDatabase<'_>,
    calls: &[ForkCall],
    options: &SimulationOptions,
    budget: &RunBudget,
    thread: RunThread,
) -> Result<Simulation, UnfinishedRun> {
    let Fork { pinned, rules, next, .. } = fork;
    let mut machine = CallMachine::new(*rules, next, pinned.hash, state, &options.signatures);
    machine.apply_deltas(&options.shifts).map_err(|failed| match failed {
        BalanceDeltaError::NoSlot(token) => UnfinishedRun::NotShifted(token),
        BalanceDeltaError::Machine(error) => UnfinishedRun::Failed { index: 0, error },
    })?;
    for SlotOverride { contract, slot, value } in &options.slots {
        machine.override_slot(*contract, *slot, Some(*value));
    }
    let mut outcomes = Vec::with_capacity(calls.len());
    let mut logs = Vec::new();
    for (index, call) in calls.iter().enumerate() {
        if budget.is_cancelled() {
            return Err(UnfinishedRun::Cancelled);
        }
        let failed = |error| UnfinishedRun::Failed { index, error };
        let nonce = match call.payment {
            GasPayment::Exact { nonce, .. } => nonce,
            GasPayment::Free => {
                machine.select_state(index);
                machine.account(call.from).map_err(failed)?.unwrap_or_default().nonce
            }
        };
        let result = machine.execute(call.environment(rules.chain_id, nonce), call.checks()).map_err(failed)?;
        let outcome = outcome(result);
        logs.extend_from_slice(&outcome.logs);
        outcomes.push(outcome);
    }
    let mut found = changes::find(&mut machine, calls, &logs, options, budget, thread)?;
    // `find` always ends with the changes of all calls together.
    let changes = found.pop().unwrap_or_default();
    for (outcome, changes) in outcomes.iter_mut().zip(found) {
        outcome.changes = Some(changes);
    }
    Ok(Simulation { pinned: *pinned, outcomes, changes })
}

fn outcome(result: ExecutionResult) -> SimulatedOutcome {
    let gas_used = result.tx_gas_used();
    let (status, output, created, logs) = match result {
        ExecutionResult::Success { output: Output::Call(output), logs, .. } => {
            (ExecutionStatus::Success, output, None, logs)
        }
        ExecutionResult::Success { output: Output::Create(output, created), logs, .. } => {
            (ExecutionStatus::Success, output, created, logs)
        }
        ExecutionResult::Revert { output, .. } => {
            (ExecutionStatus::Reverted(RevertReason::decode(&output)), output, None, Vec::new())
        }
        ExecutionResult::Halt { reason, .. } => {
            let reason = SafeText::clean(&reason.to_string(), MAX_TEXT);
            (ExecutionStatus::Halted(reason), Default::default(), None, Vec::new())
        }
    };
    SimulatedOutcome { status, gas_used, output, created, logs, changes: None }
}

fn fork_error(index: usize, error: EvmError) -> ForkError {
    match error {
        EVMError::Transaction(reason) => {
            ForkError::Rejected { index, reason: SafeText::clean(&reason.to_string(), MAX_TEXT) }
        }
        EVMError::Database(error) => ForkError::State(SafeText::clean(&error.to_string(), MAX_TEXT)),
        other => ForkError::Machine(SafeText::clean(&other.to_string(), MAX_TEXT)),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use alloy::primitives::{Address, B256, Bytes, U256, bytes};
    use revm::{
        database_interface::DatabaseRef,
        state::{AccountInfo, Bytecode},
    };

    use super::*;
    use crate::{
        devnet::{ForkPoint, WorldState},
        evm::{BlockContext, ChainRules, DatabaseError},
        fork::WatchList,
    };

    const SENDER: Address = Address::repeat_byte(1);
    const TOKEN: Address = Address::repeat_byte(2);
    /// Returns its first slot for every call: `PUSH0 SLOAD PUSH0 MSTORE PUSH1 32 PUSH0 RETURN`.
    const READER: Bytes = bytes!("5f545f5260205ff3");

    /// State whose first storage read drops the caller's guard, as if the caller had stopped waiting.
    struct AbandonedState<'a> {
        state: &'a WorldState,
        caller: Cell<Option<CallerGuard>>,
        reads: Cell<usize>,
    }

    impl DatabaseRef for AbandonedState<'_> {
        type Error = DatabaseError;

        fn basic_ref(&self, address: Address) -> Result<Option<AccountInfo>, DatabaseError> {
            self.state.basic_ref(address)
        }

        fn code_by_hash_ref(&self, hash: B256) -> Result<Bytecode, DatabaseError> {
            self.state.code_by_hash_ref(hash)
        }

        fn storage_ref(&self, address: Address, slot: U256) -> Result<U256, DatabaseError> {
            self.reads.set(self.reads.get() + 1);
            drop(self.caller.take());
            self.state.storage_ref(address, slot)
        }

        fn block_hash_ref(&self, number: u64) -> Result<B256, DatabaseError> {
            self.state.block_hash_ref(number)
        }
    }

    /// Simulates on a state with one contract, whose caller leaves at the first storage read. Returns the number of
    /// storage reads until the run stopped.
    fn reads_until_stopped(calls: &[ForkCall], watch: WatchList) -> usize {
        let mut state = WorldState::default();
        state.set_code(TOKEN, READER).expect("code");
        let next = BlockContext {
            number: 2,
            timestamp: 1_800_000_000,
            base_fee: 0,
            gas_limit: 30_000_000,
            coinbase: Address::ZERO,
            prevrandao: B256::ZERO,
            excess_blob_gas: 0,
        };
        let block = BlockContext { number: 1, ..next };
        let rules = ChainRules::osaka(31_337);
        let fork = Fork::on_devnet(ForkPoint { rules, state: state.clone(), block, hash: B256::ZERO, next });
        let options = SimulationOptions { watch, ..SimulationOptions::default() };
        let budget = RunBudget::of(&options.limits);
        let caller = Cell::new(Some(budget.caller_guard()));
        let database = AbandonedState { state: &state, caller, reads: Cell::new(0) };
        let result = run(&fork, &database, calls, &options, &budget, RunThread::Blocking);
        assert!(matches!(result, Some(Err(ForkError::Stopped))), "{result:?}");
        database.reads.get()
    }

    #[test]
    fn a_run_without_a_caller_ends_before_its_next_call() {
        let call = ForkCall::new(SENDER, TOKEN, []);
        assert_eq!(reads_until_stopped(&[call.clone(), call.clone(), call], WatchList::default()), 1);
    }

    #[test]
    fn a_run_without_a_caller_ends_before_its_next_query() {
        let watch = WatchList { tokens: vec![TOKEN], owners: vec![SENDER], ..WatchList::default() };
        // Without cancellation, the balance would be read twice: before and after the call.
        assert_eq!(reads_until_stopped(&[ForkCall::new(SENDER, SENDER, [])], watch), 1);
    }

    #[test]
    fn a_plan_or_query_with_much_gas_does_not_start_on_the_calling_thread() {
        let small = ForkCall::new(SENDER, TOKEN, []).with_gas_limit(1_000_000);
        let limits = DetectionLimits::default();
        assert!(may_run_on_caller(&[small.clone(), small.clone(), small.clone()], &limits));
        assert!(!may_run_on_caller(&[small.clone(), small.clone(), small.clone(), small.clone()], &limits));
        assert!(!may_run_on_caller(&[small], &DetectionLimits { query_gas: 10_000_000, ..limits }));
    }
}
