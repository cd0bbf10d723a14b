//! Detection of the changes that a simulation makes for owners, independent of a token's events.
//!
//! [`candidates`](super::candidates) selects the queries. Only the contracts' answers before and after count. A storage
//! write that no answer explains is reported as unexplained. If it names an account and its contract does not answer
//! the query about it, the whole report is incomplete.

use alloy::primitives::{Address, B256, KECCAK256_EMPTY, Log, U256, map::HashSet};
use revm::state::AccountInfo;

use super::{
    SimulationOptions,
    call::ForkCall,
    machine::CallMachine,
    outcome::{
        AccountChange, AccountNonceChange, AllowanceChange, BalanceChange, DetectionGap, MultiBalanceChange, NftChange,
        NonceWordChange, OperatorChange, Permit2AllowanceChange, PermitNonceChange, QueryFailure, StateChanges,
        StorageWrite, SupplyChange, UnansweredQuery, ValueChange, WriteExplanation,
    },
    ownership_query::{OwnershipQuery, QueryReading},
    run::{RunBudget, RunThread},
    storage_trace::StorageTrace,
};
use crate::evm::EvmError;

/// Values to report in any case: the balance of each declared token for each declared owner, and its allowance for each
/// declared spender, even without a change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchList {
    /// Token contracts to watch.
    pub tokens: Vec<Address>,
    /// Owners whose balances are reported.
    pub owners: Vec<Address>,
    /// Spenders whose allowances are reported.
    pub spenders: Vec<Address>,
}

/// Limits on the queries that detect changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DetectionLimits {
    /// Number of queries; each is made once per point in time.
    pub questions: usize,
    /// Gas limit of one query.
    pub query_gas: u64,
    /// Gas limit of all queries together; over RPC it includes all speculative runs.
    pub total_gas: u64,
}

impl Default for DetectionLimits {
    fn default() -> Self {
        Self { questions: 1024, query_gas: 1_000_000, total_gas: 100_000_000 }
    }
}

/// Reason why a run did not finish.
#[derive(Debug)]
pub(super) enum UnfinishedRun {
    /// The EVM failed in a call, or in the queries after the last one.
    Failed {
        /// Index of the call in the plan, from 0; the number of calls for a query.
        index: usize,
        /// Error of the EVM.
        error: EvmError,
    },
    /// The balance of this token cannot be set.
    NotShifted(Address),
    /// The caller no longer waits.
    Cancelled,
    /// The queries need too much gas for this thread.
    TooLong,
}

/// Returns the changes of each call, and those of all calls together as the last element. A single call has the last
/// element only.
pub(super) fn find(
    machine: &mut CallMachine<'_>,
    calls: &[ForkCall],
    logs: &[Log],
    options: &SimulationOptions,
    budget: &RunBudget,
    thread: RunThread,
) -> Result<Vec<StateChanges>, UnfinishedRun> {
    let SimulationOptions { watch, limits, .. } = options;
    let failed = |error| UnfinishedRun::Failed { index: calls.len(), error };
    let mut survey = ChangeDetector::new(machine, calls, limits, budget, thread).map_err(failed)?;
    survey.first_round(calls, logs, watch);
    survey.ask(machine)?;
    survey.explain();
    if survey.second_round(calls) {
        survey.ask(machine)?;
        survey.explain();
    }
    survey.find_unanswered(machine, calls, watch).map_err(failed)?;
    budget.spend(survey.gas);
    let steps = calls.len();
    let mut found = Vec::with_capacity(steps + 1);
    if steps > 1 {
        found.extend((0..steps).map(|step| survey.changes(step, step + 1)));
    }
    found.push(survey.changes(0, steps));
    Ok(found)
}

/// Data collected about one simulation while its changes are detected.
pub(super) struct ChangeDetector<'l> {
    limits: &'l DetectionLimits,
    budget: &'l RunBudget,
    thread: RunThread,
    /// Number of points in time: before the first call, and after each.
    pub(super) points: usize,
    caller: Address,
    pub(super) accounts: Vec<(Address, Vec<AccountInfo>)>,
    pub(super) writes: Vec<SlotWrite>,
    pub(super) queries: Vec<TrackedQuery>,
    /// Queries that were considered, to avoid duplicates.
    pub(super) known: HashSet<OwnershipQuery>,
    /// Contracts that the caller or an event names as tokens.
    pub(super) tokens: HashSet<Address>,
    /// Contracts that returned a nonzero balance.
    pub(super) answering: HashSet<Address>,
    /// Number of queries in `asked` that have been made and evaluated.
    pub(super) answered: usize,
    explained_up_to: usize,
    gas: u64,
    gaps: Vec<DetectionGap>,
}

/// A storage slot that some call changed.
pub(super) struct SlotWrite {
    pub(super) account: Address,
    pub(super) slot: U256,
    /// Values of the slot, one per point in time.
    pub(super) values: Vec<U256>,
    /// Mapping keys that lead to the slot, outermost first.
    pub(super) keys: Vec<U256>,
    /// Indices of the queries whose changing answer is computed from this slot.
    pub(super) read_by: Vec<usize>,
    /// Index of an unanswered query that this slot suggests, if the slot concerns an account.
    pub(super) silent: Option<usize>,
}

/// A query with its answers.
pub(super) struct TrackedQuery {
    pub(super) question: OwnershipQuery,
    /// Reports a missing answer even if the contract is not known to be a token.
    must_answer: bool,
    /// The caller wants the answer even without a change.
    declared: bool,
    /// Answers, one per point in time.
    pub(super) readings: Vec<QueryReading>,
    reads: Vec<(Address, U256)>,
}

impl TrackedQuery {
    /// Creates a query for `points` points in time.
    pub(super) fn new(question: OwnershipQuery, must_answer: bool, declared: bool, points: usize) -> Self {
        Self { question, must_answer, declared, readings: Vec::with_capacity(points), reads: Vec::new() }
    }
}

impl<'l> ChangeDetector<'l> {
    fn new(
        machine: &mut CallMachine<'_>,
        calls: &[ForkCall],
        limits: &'l DetectionLimits,
        budget: &'l RunBudget,
        thread: RunThread,
    ) -> Result<Self, EvmError> {
        let mut touched: Vec<Address> = Vec::new();
        let mut slots: Vec<(Address, U256)> = Vec::new();
        for (address, account) in machine.calls().iter().flatten() {
            if account.is_touched() {
                touched.push(*address);
            }
            slots.extend(account.changed_storage_slots().map(|(slot, _)| (*address, *slot)));
        }
        touched.sort_unstable();
        touched.dedup();
        slots.sort_unstable();
        slots.dedup();
        let points = calls.len() + 1;
        let mut survey = Self {
            limits,
            budget,
            thread,
            points,
            caller: calls.first().map(|call| call.from).unwrap_or_default(),
            accounts: touched.into_iter().map(|address| (address, Vec::with_capacity(points))).collect(),
            writes: Vec::with_capacity(slots.len()),
            queries: Vec::with_capacity(16),
            known: HashSet::default(),
            tokens: HashSet::default(),
            answering: HashSet::default(),
            answered: 0,
            explained_up_to: 0,
            gas: 0,
            gaps: Vec::new(),
        };
        for point in 0..points {
            machine.select_state(point);
            for (address, infos) in &mut survey.accounts {
                infos.push(machine.account(*address)?.unwrap_or_default());
            }
        }
        let mut writes: Vec<SlotWrite> = slots
            .into_iter()
            .map(|(account, slot)| SlotWrite {
                account,
                slot,
                values: Vec::with_capacity(points),
                keys: Vec::new(),
                read_by: Vec::new(),
                silent: None,
            })
            .collect();
        for point in 0..points {
            machine.select_state(point);
            for write in &mut writes {
                write.values.push(machine.storage(write.account, write.slot)?);
            }
        }
        if machine.recorder().overflowed() {
            survey.gaps.push(DetectionGap::Preimages);
        }
        let trace = StorageTrace::new(machine.recorder());
        for write in &mut writes {
            write.keys = trace.keys(write.slot);
        }
        survey.writes = writes;
        Ok(survey)
    }

    /// Makes the new queries at all points in time, within the limits.
    fn ask(&mut self, machine: &mut CallMachine<'_>) -> Result<(), UnfinishedRun> {
        let total_gas = self.budget.query_gas();
        let gas_on_thread = self.thread.query_gas();
        let index = self.points - 1;
        if self.queries.len() > self.limits.questions {
            self.gap(DetectionGap::Questions(self.queries.len() - self.limits.questions));
            self.queries.truncate(self.limits.questions);
        }
        let calldata: Vec<_> = self.queries.iter().skip(self.answered).map(|asked| asked.question.calldata()).collect();
        for point in 0..self.points {
            if self.budget.is_cancelled() {
                return Err(UnfinishedRun::Cancelled);
            }
            machine.select_state(point);
            let mut left = 0;
            for (asked, calldata) in self.queries.iter_mut().skip(self.answered).zip(&calldata) {
                if self.gas >= total_gas {
                    asked.readings.push(QueryReading::Failed(QueryFailure::OutOfGas));
                    left += 1;
                    continue;
                }
                if self.gas >= gas_on_thread {
                    return Err(UnfinishedRun::TooLong);
                }
                let contract = asked.question.contract();
                let (answer, gas) = machine
                    .ask(self.caller, contract, calldata.clone(), self.limits.query_gas)
                    .map_err(|error| UnfinishedRun::Failed { index, error })?;
                self.gas = self.gas.saturating_add(gas);
                asked.reads.extend_from_slice(machine.reads());
                asked.readings.push(asked.question.read(&answer));
            }
            if left > 0 {
                self.gap(DetectionGap::Gas(left));
            }
        }
        self.settle_approvals();
        for asked in self.queries.iter().skip(self.answered) {
            if let OwnershipQuery::Balance { token, .. } = asked.question
                && asked
                    .readings
                    .iter()
                    .any(|reading| matches!(reading, QueryReading::Value(value) if !value.number().is_zero()))
            {
                self.answering.insert(token);
            }
        }
        self.answered = self.queries.len();
        Ok(())
    }

    /// Records a limit that was reached; per kind, the larger number is kept.
    fn gap(&mut self, gap: DetectionGap) {
        for known in &mut self.gaps {
            match (known, gap) {
                (DetectionGap::Questions(known), DetectionGap::Questions(left))
                | (DetectionGap::Gas(known), DetectionGap::Gas(left)) => {
                    *known = left.max(*known);
                    return;
                }
                _ => {}
            }
        }
        self.gaps.push(gap);
    }

    /// Links writes with the queries whose answers changed and are computed from them.
    fn explain(&mut self) {
        for (index, asked) in self.queries.iter().enumerate().skip(self.explained_up_to) {
            if !moved(&asked.readings) {
                continue;
            }
            for (account, slot) in &asked.reads {
                let at = self.writes.binary_search_by_key(&(*account, *slot), |write| (write.account, write.slot));
                if let Some(write) = at.ok().and_then(|at| self.writes.get_mut(at))
                    && write.read_by.last() != Some(&index)
                {
                    write.read_by.push(index);
                }
            }
        }
        self.explained_up_to = self.queries.len();
    }

    /// Collects the differences between two points in time.
    fn changes(&self, from: usize, to: usize) -> StateChanges {
        let mut changes = StateChanges { gaps: self.gaps.clone(), ..StateChanges::default() };
        for (account, infos) in &self.accounts {
            let (Some(before), Some(after)) = (infos.get(from), infos.get(to)) else { continue };
            let change = AccountChange {
                account: *account,
                balance: ValueChange { before: before.balance, after: after.balance },
                nonce: ValueChange { before: before.nonce, after: after.nonce },
                code_hash: ValueChange { before: code_hash(before), after: code_hash(after) },
                delegation: ValueChange { before: delegation(before), after: delegation(after) },
            };
            if change.balance.moved() || change.nonce.moved() || change.code_hash.moved() {
                changes.accounts.push(change);
            }
        }
        for asked in &self.queries {
            self.report(asked, from, to, &mut changes);
        }
        for write in &self.writes {
            let (Some(&before), Some(&after)) = (write.values.get(from), write.values.get(to)) else { continue };
            if before != after {
                let explained = self.explanation(write, after.wrapping_sub(before), from, to);
                if explained == WriteExplanation::No {
                    self.report_unanswered(write, from, to, &mut changes);
                }
                changes.writes.push(StorageWrite {
                    account: write.account,
                    slot: write.slot,
                    value: ValueChange { before, after },
                    keys: write.keys.clone(),
                    explained,
                });
            }
        }
        changes
    }

    fn explanation(&self, write: &SlotWrite, delta: U256, from: usize, to: usize) -> WriteExplanation {
        let mut best = WriteExplanation::No;
        for asked in write.read_by.iter().filter_map(|index| self.queries.get(*index)) {
            let (Some(QueryReading::Value(before)), Some(QueryReading::Value(after))) =
                (asked.readings.get(from), asked.readings.get(to))
            else {
                continue;
            };
            if before == after {
                continue;
            }
            if after.stored().wrapping_sub(before.stored()) == delta {
                return WriteExplanation::Exactly;
            }
            best = WriteExplanation::Partly;
        }
        best
    }

    fn report(&self, asked: &TrackedQuery, from: usize, to: usize, changes: &mut StateChanges) {
        let (Some(earlier), Some(later)) = (asked.readings.get(from), asked.readings.get(to)) else { return };
        let (before, after) = match (earlier, later) {
            (QueryReading::Value(before), QueryReading::Value(after)) => (before, after),
            (QueryReading::Failed(failure), _) | (_, QueryReading::Failed(failure)) => {
                let contract = asked.question.contract();
                let of_a_token = matches!(asked.question, OwnershipQuery::Balance { .. })
                    && (self.tokens.contains(&contract) || self.answering.contains(&contract));
                if asked.must_answer || of_a_token {
                    changes.unreadable.push(UnansweredQuery {
                        contract,
                        question: asked.question.describe(),
                        failure: *failure,
                    });
                }
                return;
            }
        };
        if before == after && !asked.declared {
            return;
        }
        let number = ValueChange { before: before.number(), after: after.number() };
        match asked.question {
            OwnershipQuery::Balance { token, holder } => {
                changes.balances.push(BalanceChange { token, holder, balance: number });
            }
            OwnershipQuery::Allowance { token, owner, spender } => {
                changes.allowances.push(AllowanceChange { token, owner, spender, allowance: number });
            }
            OwnershipQuery::Permit2Allowance { permit2, owner, token, spender } => {
                let allowance = ValueChange { before: before.permit2(), after: after.permit2() };
                changes.permit2_allowances.push(Permit2AllowanceChange { permit2, owner, token, spender, allowance });
            }
            OwnershipQuery::NonceWord { permit2, owner, word } => {
                changes.permit2_nonces.push(NonceWordChange { permit2, owner, word, bits: number });
            }
            OwnershipQuery::Supply { token } => changes.supplies.push(SupplyChange { token, supply: number }),
            OwnershipQuery::PermitNonce { token, owner } => {
                changes.permit_nonces.push(PermitNonceChange { token, owner, nonce: number });
            }
            OwnershipQuery::AccountNonce { entry_point, account, key } => {
                changes.account_nonces.push(AccountNonceChange { entry_point, account, key, nonce: number });
            }
            OwnershipQuery::Operator { collection, owner, operator } => {
                let approved = ValueChange { before: before.as_bool(), after: after.as_bool() };
                changes.operators.push(OperatorChange { collection, owner, operator, approved });
            }
            OwnershipQuery::NftOwner { collection, id } => {
                let who = ValueChange { before: before.address(), after: after.address() };
                changes.nft_owners.push(NftChange { collection, id, who });
            }
            OwnershipQuery::NftApproved { collection, id } => {
                let who = ValueChange { before: before.address(), after: after.address() };
                changes.nft_approvals.push(NftChange { collection, id, who });
            }
            OwnershipQuery::MultiBalance { collection, holder, id } => {
                changes.multi_balances.push(MultiBalanceChange { collection, holder, id, balance: number });
            }
        }
    }
}

/// Returns true if values at two adjacent points in time differ.
pub(super) fn moved<T: PartialEq>(values: &[T]) -> bool {
    values.windows(2).any(|pair| pair.first() != pair.last())
}

/// Code hash of an account; the hash of empty code if the account does not exist.
pub(super) fn code_hash(info: &AccountInfo) -> B256 {
    if info.code_hash.is_zero() { KECCAK256_EMPTY } else { info.code_hash }
}

/// Target of the account's delegation.
pub(super) fn delegation(info: &AccountInfo) -> Option<Address> {
    info.code.as_ref().and_then(|code| code.eip7702_address())
}
