//! Recovery of used permits without a recorded end. It runs at startup and periodically, and brings each one to the end
//! that the chain shows, by the table in [`machine`]. Stored transactions are sent again while no stop is in force;
//! those that only revoke, cancel or refund also under a stop. A transaction that was never stored was never sent.
//! Recovery signs nothing.
//!
//! Every step is one database transaction that first checks whether the step is still needed. Recovery can therefore
//! stop anywhere, run twice at once, and run in several processes on one ledger.

mod late_inclusions;
mod machine;
mod unused_allowances;

use std::time::Duration;

use alloy::consensus::Transaction as _;
use alloy::primitives::B256;
use serde_json::json;
use tokio::time::Instant;

use super::commit::ReservedSpend;
use super::settle::ResendClearance;
use super::{Pipeline, PipelineRefusal};
use crate::audit::{self, AuditError, AuditKind, LogEntry};
use crate::custody::InnerCall;
use crate::orders::{OrderState, record as orders};
use crate::permit;
use crate::policy_engine::{ActionEnd, Reservation, ReserveError};
use crate::revocation;
use crate::safe_proposals::record as safe_record;
use crate::typed::TypedMessage;
use crate::waiting_plan::origin_of;
use bardo_base::error::ErrorCode;
use bardo_base::fabric::{ActionRecovered, EventKind, RecoveredEnd, TxState, TxUpdate};
use bardo_base::failpoint::{self, Failpoint};
use bardo_base::id::{CallId, GolemId, PermitId};
use bardo_base::units::Usd;
use bardo_store::StoreError;
use golem_chain::network::KnownContract;
use golem_chain::sender::{self, ReservedNonce, SendState as Stage, TxSender, TxStatus, WaitRules};

pub(super) use late_inclusions::reserve_late_inclusions;
pub use machine::{RecoveryState, RecoveryStep, TABLE as RECOVERY};
pub use unused_allowances::UnusedAllowance;
pub(super) use unused_allowances::allowed_before;

/// Grace period for rows that name no owning process, in milliseconds. If the owner is slower than this, storing its
/// transaction fails, and nothing is sent.
const LEAVE_ALONE: u64 = 30_000;

/// Total time that one recovery run waits for transactions that it sent again.
const START_PATIENCE: Duration = Duration::from_secs(5);

/// Result of recovering one used permit that had no recorded end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveredPermit {
    /// The recovered permit.
    pub permit_id: PermitId,
    /// Hash of its last transaction; `None` if nothing was signed or stored.
    pub hash: Option<B256>,
    /// Last finding about the permit.
    pub found: RecoveryState,
    /// Step that recovery took.
    pub step: RecoveryStep,
    /// Recorded end; [`ActionEnd::Unclear`] if there is none yet.
    pub end: ActionEnd,
}

/// Outcome of everything that was signed for a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignedOutcome {
    /// Nothing was signed, or nothing of it can ever be included: the call may be repeated.
    Nothing,
    /// Something of it is still unresolved.
    Open,
    /// An order was signed; fillers settle it.
    Placed {
        /// Order hash; for a bridge order, its order id.
        hash: B256,
        /// True for a bridge order.
        bridge: bool,
        /// Last known state of the order.
        status: OrderState,
    },
    /// Included, in these transactions.
    Ended {
        /// True if all transactions succeeded, false if one reverted.
        succeeded: bool,
        /// Transaction hashes, in signing order.
        transactions: Vec<B256>,
    },
}

/// Used permit without a recorded end.
#[derive(Debug, Clone)]
struct OpenPermit {
    permit_id: PermitId,
    call_id: CallId,
    golem_id: GolemId,
    chain_id: u64,
    reserved: ReservedSpend,
    last: Option<LastLeg>,
    consumed_at: u64,
    session: Option<String>,
}

/// Transaction that an earlier run signed and that no block includes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnincludedTx {
    /// Hash of the transaction.
    pub hash: B256,
    /// True if the next recovery sends it; false if it is only watched until the current stop is lifted.
    pub now: bool,
}

#[derive(Debug, Clone, Copy)]
struct LastLeg {
    hash: B256,
    leg: u32,
    of: u32,
    /// True if the permit's main transaction is signed: this one or an earlier one.
    main: bool,
    /// True if the main transaction is an earlier one. Then it succeeded, or this one would not have been signed.
    done: bool,
    /// True if it only revokes, cancels or refunds.
    only_revokes: bool,
}

impl Pipeline {
    /// Resolves every open permit on this ledger that no process is executing, as far as the chain allows. Safe to call
    /// at any time, from several processes at once.
    ///
    /// # Errors
    /// [`PipelineRefusal`] if the ledger cannot be read or written. If a chain does not answer, its permits stay open.
    pub async fn recover(&self) -> Result<Vec<RecoveredPermit>, PipelineRefusal> {
        self.recover_as(true).await
    }

    /// Like [`Self::recover`], but sends nothing: it only records what the chain shows.
    ///
    /// # Errors
    /// As [`Self::recover`].
    pub async fn recover_unsent(&self) -> Result<Vec<RecoveredPermit>, PipelineRefusal> {
        self.recover_as(false).await
    }

    async fn recover_as(&self, sends: bool) -> Result<Vec<RecoveredPermit>, PipelineRefusal> {
        let now = self.inner.clock.now_millis();
        self.poll_dropped().await?;
        self.reserve_late_inclusions().await?;
        let open = self.inner.store.read(open_permits).map_err(unavailable)?;
        let taken = self.inner.store.read(sender::reserved).map_err(unavailable)?;
        failpoint::reach(Failpoint::RecoveryRead);
        let held = |one: &ReservedNonce| {
            if self.is_loose(one, now) { RecoveryState::LooseNonce } else { RecoveryState::Owned }
        };
        let loose: Vec<_> =
            taken.into_iter().filter(|one| machine::step(held(one), !sends) == RecoveryStep::GiveBack).collect();
        if !loose.is_empty() {
            self.release_all(loose).await.map_err(unavailable)?;
        }
        failpoint::reach(Failpoint::RecoveryNonces);
        let deadline = Instant::now() + START_PATIENCE.min(self.inner.patience);
        let mut recovered = Vec::new();
        for one in open {
            recovered.extend(self.resolve(one, now, sends, deadline).await.map_err(unavailable)?);
        }
        Ok(recovered)
    }

    /// Returns the transactions that recovery follows: stored, not included, and not in progress in any process. Under
    /// a stop, only revocations have [`UnincludedTx::now`] set.
    ///
    /// # Errors
    /// [`PipelineRefusal`] if the ledger cannot be read.
    pub fn to_send_again(&self) -> Result<Vec<UnincludedTx>, PipelineRefusal> {
        let now = self.inner.clock.now_millis();
        let open = self.inner.store.read(open_permits).map_err(unavailable)?;
        let mut waiting = Vec::new();
        let alone = |one: &OpenPermit| {
            self.is_owned(one, now) && machine::step(RecoveryState::Owned, false) == RecoveryStep::LeaveAlone
        };
        for one in open.iter().filter(|one| !alone(one)) {
            let Some(LastLeg { hash, only_revokes, .. }) = one.last else { continue };
            let revokes = self.still_revokes(one.chain_id, hash, only_revokes).map_err(unavailable)?;
            let sent_now = self.may_send_again(ResendClearance::of_left(revokes));
            let record = self.inner.store.read(|connection| sender::sendable(connection, hash)).map_err(unavailable)?;
            waiting.extend(record.map(|record| UnincludedTx { hash: record.hash(), now: sent_now }));
        }
        Ok(waiting)
    }

    /// Calls [`Self::recover`] at the interval `every`, whenever `acts` returns true, until the last handle to this
    /// pipeline is dropped. Findings go to the Event Fabric and the audit log. An error is logged, and the next
    /// interval tries again.
    pub fn keep_recovering(&self, every: Duration, acts: impl Fn() -> bool + Send + 'static) {
        let inner = std::sync::Arc::downgrade(&self.inner);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(every).await;
                let Some(inner) = inner.upgrade() else { return };
                if !acts() {
                    continue;
                }
                let pipeline = Self { inner };
                if let Err(refusal) = pipeline.recover().await {
                    tracing::warn!("the open entries of the ledger cannot be checked: {}", refusal.message);
                }
                if let Err(refusal) = pipeline.follow_safe_proposals().await {
                    tracing::warn!("the proposals of Safes cannot be checked: {}", refusal.message);
                }
            }
        });
    }

    /// Returns the outcome of everything that was signed for a call, in this run or an earlier one.
    ///
    /// # Errors
    /// [`PipelineRefusal`] if the ledger cannot be read.
    pub fn fate(&self, call_id: CallId) -> Result<SignedOutcome, PipelineRefusal> {
        self.inner.store.read(|connection| fate(connection, call_id)).map_err(unavailable)
    }

    /// Returns true if the process that used this permit is still executing it.
    fn is_owned(&self, one: &OpenPermit, now: u64) -> bool {
        match &one.session {
            Some(session) if session == self.inner.store.session() => self.mark_in_progress().contains(&one.permit_id),
            Some(session) => self.inner.store.is_session_alive(session),
            None => one.last.is_none() && one.consumed_at.saturating_add(LEAVE_ALONE) > now,
        }
    }

    /// Returns true if no process will sign with this nonce any more.
    fn is_loose(&self, one: &ReservedNonce, now: u64) -> bool {
        let old = one.at.saturating_add(LEAVE_ALONE) <= now;
        match &one.session {
            // The ledger does not say which commit of this process took the nonce, so none is free while a commit runs.
            Some(session) if session == self.inner.store.session() => old && self.mark_in_progress().is_empty(),
            Some(session) => !self.inner.store.is_session_alive(session),
            None => old,
        }
    }

    async fn release_all(&self, loose: Vec<ReservedNonce>) -> Result<(), ReserveError> {
        let clock = self.inner.clock.clone();
        let given = self.inner.store.write(move |transaction| {
            for one in &loose {
                match sender::release_nonce(transaction, &one.ticket) {
                    Ok(()) => record_nonce(transaction, clock.now_millis(), one)?,
                    // Another process released it first and recorded that.
                    Err(sender::LaneError::NotHeld { .. }) => {}
                    Err(error) => return Err(ReserveError::Ledger(error.to_string())),
                }
            }
            failpoint::reach(Failpoint::RecoveryInsideNonces);
            Ok(())
        });
        given.await
    }

    /// Returns true if a stored transaction may be sent under any stop: it was stored as a revocation, and its calldata
    /// still is one. The stored flag alone is not trusted, because anyone who can write the ledger could set it.
    pub(super) fn still_revokes(&self, chain_id: u64, hash: B256, noted: bool) -> Result<bool, StoreError> {
        let Some(chain) = self.chain(chain_id).ok().filter(|_| noted) else { return Ok(false) };
        let record = self.inner.store.read(|connection| sender::sendable(connection, hash));
        let record = match record {
            Ok(record) => record,
            Err(sender::RecordError::Store(error)) => return Err(error),
            Err(_) => return Ok(false),
        };
        let Some(record) = record else { return Ok(false) };
        let signed = record.signed.transaction();
        let book = &chain.reader.network().book;
        let contracts = (book.contract(KnownContract::Permit2), book.contract(KnownContract::OriginSettler));
        let Some(to) = signed.to() else { return Ok(false) };
        let InnerCall { account, to, value, data } =
            InnerCall::of(record.signed.from(), to, signed.value(), signed.input());
        let promised = self.inner.store.read(|connection| orders::promised(connection, chain_id, account))?;
        Ok(revocation::is_revoking_call(account, to, value, &data, contracts, promised))
    }

    /// Applies the steps of the table to one open permit, until it must wait or has an end. `None` if the permit is
    /// left alone.
    async fn resolve(
        &self,
        one: OpenPermit,
        now: u64,
        sends: bool,
        deadline: Instant,
    ) -> Result<Option<RecoveredPermit>, ReserveError> {
        let hash = one.last.map(|leg| leg.hash);
        let revokes = match one.last {
            Some(leg) => self.still_revokes(one.chain_id, leg.hash, leg.only_revokes).map_err(ReserveError::Store)?,
            None => false,
        };
        let leave = ResendClearance::of_left(revokes);
        // Evaluated each time, because a stop can be set meanwhile.
        let held_back = || !sends || !self.may_send_again(leave);
        let (mut found, mut cancelled_by) = self.find(&one, now).await?;
        let mut step = machine::step(found, held_back());
        if step == RecoveryStep::LeaveAlone {
            return Ok(None);
        }
        failpoint::reach(Failpoint::RecoveryFound);
        if let (RecoveryStep::SendAgain, Some(hash), Ok(sender)) = (step, hash, self.sender(one.chain_id)) {
            self.note_found(&one, found, step).await?;
            failpoint::reach(Failpoint::RecoveryResending);
            // The result is ignored: the chain is polled next.
            let _answered = sender.resend(hash).await;
            failpoint::reach(Failpoint::RecoveryResent);
            let patience = deadline.saturating_duration_since(Instant::now());
            found = match sender.wait(hash, WaitRules { patience, resend: false }).await {
                Ok(status) => {
                    cancelled_by = status.displaced_by;
                    of_tx_status(&status, one.last)
                }
                Err(error) => unknown_state(error)?,
            };
            step = match machine::step(found, held_back()) {
                // It was sent a moment ago; the next run sends it again.
                RecoveryStep::SendAgain => RecoveryStep::Watch,
                step => step,
            };
        }
        let end = cancelled(machine::end(step, one.reserved), cancelled_by.is_some(), one.reserved);
        match end {
            ActionEnd::Unclear => self.note_found(&one, found, step).await?,
            ActionEnd::Done { .. }
            | ActionEnd::Partly { .. }
            | ActionEnd::MaybeSigned { .. }
            | ActionEnd::Reverted { .. }
            | ActionEnd::NotSent
            | ActionEnd::Withdrawn => {
                self.write_end(&one, found, step, end).await?;
            }
        }
        Ok(Some(RecoveredPermit { permit_id: one.permit_id, hash, found, step, end }))
    }

    /// Returns the finding, and the transaction that cancelled the permit's last one or kept it from cancelling another.
    async fn find(&self, one: &OpenPermit, now: u64) -> Result<(RecoveryState, Option<B256>), ReserveError> {
        if self.is_owned(one, now) {
            return Ok((RecoveryState::Owned, None));
        }
        let Some(LastLeg { hash, .. }) = one.last else { return Ok((RecoveryState::Unsigned, None)) };
        let Ok(sender) = self.sender(one.chain_id) else { return Ok((RecoveryState::Untold, None)) };
        match sender.poll(hash).await {
            Ok(status) => Ok((of_tx_status(&status, one.last), status.displaced_by)),
            Err(error) => Ok((unknown_state(error)?, None)),
        }
    }

    /// Records an end, unless one is already recorded.
    async fn write_end(
        &self,
        one: &OpenPermit,
        found: RecoveryState,
        step: RecoveryStep,
        end: ActionEnd,
    ) -> Result<(), ReserveError> {
        let (rules, clock, left) = (self.inner.rules.clone(), self.inner.clock.clone(), one.clone());
        let written = self.inner.store.write(move |transaction| {
            if permit::has_ended(transaction, left.permit_id)? {
                return Ok(false);
            }
            // A plan that signed only preparatory transactions may be repeated under the same idempotency key.
            let word = if found == RecoveryState::Begun { Some("withdrawn") } else { ended(end) };
            let Some(ended) = word else { return Ok(false) };
            let now = clock.now_millis();
            rules.settle(transaction, now, left.reserved.reservation, end)?;
            safe_record::after_action(transaction, &*rules, (left.reserved.reservation, end), now)?;
            permit::note_end(transaction, left.permit_id, ended)?;
            // Ends an order that was recorded and never signed.
            if let Some(order) = orders::find_by_permit(transaction, left.permit_id)? {
                orders::end(transaction, order.hash, OrderState::failed(&order.message), now)?;
            }
            record(transaction, now, &left, found, step)?;
            failpoint::reach(Failpoint::RecoveryInsideEnd);
            Ok::<_, ReserveError>(true)
        });
        if written.await? {
            failpoint::reach(Failpoint::RecoveryEnded);
            self.describe().remove(&one.permit_id);
            self.report_recovered(one, found);
            self.report_end(one, recovered_end(found, end));
        }
        Ok(())
    }

    /// Records a finding when it differs from the previous one of the same permit.
    async fn note_found(&self, one: &OpenPermit, found: RecoveryState, step: RecoveryStep) -> Result<(), ReserveError> {
        if self.describe().insert(one.permit_id, found) == Some(found) {
            return Ok(());
        }
        let (clock, left) = (self.inner.clock.clone(), one.clone());
        let noted = self.inner.store.write(move |tx| record(tx, clock.now_millis(), &left, found, step));
        noted.await?;
        self.report_recovered(one, found);
        self.report_end(one, None);
        Ok(())
    }

    /// Reports the action with its tool, so that a screen that never saw its start can name it.
    fn report_end(&self, one: &OpenPermit, end: Option<RecoveredEnd>) {
        let hash = one.last.map(|last| last.hash);
        // For display alone: without a readable origin the action has no name.
        let origin =
            hash.and_then(|hash| self.inner.store.read(|connection| origin_of(connection, hash)).ok().flatten());
        let tool = origin.and_then(|origin| origin.tool);
        let kind = EventKind::ActionRecovered(ActionRecovered { tool, end });
        self.inner.fabric.emit(&one.golem_id, Some(one.call_id), kind);
    }

    fn report_recovered(&self, one: &OpenPermit, found: RecoveryState) {
        let Some(LastLeg { hash, leg, of, .. }) = one.last else { return };
        let state = match found {
            // If the main transaction succeeded earlier, the last one failed or was never included; the receipts show
            // which.
            RecoveryState::Half if one.last.is_some_and(|last| last.done) => TxState::Unclear,
            RecoveryState::Whole | RecoveryState::Begun | RecoveryState::Half => TxState::Confirmed,
            RecoveryState::Failed => TxState::Reverted,
            RecoveryState::Gone | RecoveryState::GoneHalfway => TxState::Dropped,
            RecoveryState::Owned
            | RecoveryState::LooseNonce
            | RecoveryState::Unsigned
            | RecoveryState::Waiting
            | RecoveryState::Shallow
            | RecoveryState::Untold => TxState::Unclear,
        };
        let record = self.sender(one.chain_id).ok().and_then(|sender: TxSender| sender.record(hash).ok());
        let block = record.and_then(|record| record.block).map(|(number, _)| number);
        let update = TxUpdate {
            chain_id: one.chain_id,
            hash,
            leg: leg.saturating_add(1),
            of,
            state,
            block,
            gas_cost_wei: None,
            purpose: None,
        };
        self.inner.fabric.emit(&one.golem_id, Some(one.call_id), EventKind::TxUpdate(update));
    }
}

/// End of an action for its report; `None` while it is not known.
const fn recovered_end(found: RecoveryState, end: ActionEnd) -> Option<RecoveredEnd> {
    Some(match (end, found) {
        (ActionEnd::Done { .. }, _) => RecoveredEnd::Done,
        // Only preparatory transactions were signed.
        (_, RecoveryState::Begun) | (ActionEnd::Partly { .. }, _) => RecoveredEnd::Partly,
        (ActionEnd::MaybeSigned { .. }, _) => RecoveredEnd::Unclear,
        (ActionEnd::Reverted { .. } | ActionEnd::NotSent, _) => RecoveredEnd::Failed,
        (ActionEnd::Withdrawn, _) => RecoveredEnd::Withdrawn,
        (ActionEnd::Unclear, _) => return None,
    })
}

/// Records a recovery step in the audit log, in the database transaction that takes it.
fn record(
    transaction: &rusqlite::Transaction<'_>,
    now: u64,
    left: &OpenPermit,
    found: RecoveryState,
    step: RecoveryStep,
) -> Result<(), ReserveError> {
    let body = json!({
        "permit": left.permit_id, "reservation": left.reserved.reservation.0, "chain_id": left.chain_id,
        "transaction": left.last.map(|leg| leg.hash), "found": found.as_str(), "step": step.as_str(),
    });
    let entry =
        LogEntry { kind: AuditKind::RecoveryStep, call_id: Some(left.call_id), golem_id: &left.golem_id, body: &body };
    append(transaction, now, &entry)
}

/// Records a released nonce in the audit log. The ledger does not say which call took it.
fn record_nonce(transaction: &rusqlite::Transaction<'_>, now: u64, one: &ReservedNonce) -> Result<(), ReserveError> {
    let sender::NonceReservation { chain_id, account, nonce, .. } = &one.ticket;
    let body = json!({
        "chain_id": chain_id, "account": account, "nonce": nonce, "found": RecoveryState::LooseNonce.as_str(),
        "step": RecoveryStep::GiveBack.as_str(),
    });
    let operator = GolemId::operator();
    append(
        transaction,
        now,
        &LogEntry { kind: AuditKind::RecoveryStep, call_id: None, golem_id: &operator, body: &body },
    )
}

fn append(
    transaction: &rusqlite::Transaction<'_>,
    now: u64,
    entry: &LogEntry<'_, serde_json::Value>,
) -> Result<(), ReserveError> {
    match audit::append(transaction, now, entry) {
        Ok(_) => Ok(()),
        Err(AuditError::Store(error)) => Err(error.into()),
        Err(other) => Err(ReserveError::Ledger(other.to_string())),
    }
}

/// Returns the end of an action whose transaction is gone because the operator cancelled it, or whose cancellation came
/// too late: no failure, so the failure breaker does not count it.
const fn cancelled(end: ActionEnd, by_operator: bool, reserved: ReservedSpend) -> ActionEnd {
    match end {
        ActionEnd::NotSent if by_operator => ActionEnd::Withdrawn,
        ActionEnd::Reverted { .. } if by_operator => ActionEnd::Partly { spent: reserved.gas },
        other => other,
    }
}

/// Returns the `ended` value of the permit's row; `None` while it is unresolved.
pub(super) fn ended(end: ActionEnd) -> Option<&'static str> {
    match end {
        ActionEnd::Done { .. } => Some("done"),
        // Something was sent, and the action was not done. The table has no word of its own for a plan that stopped.
        ActionEnd::Reverted { .. } | ActionEnd::Partly { .. } => Some("reverted"),
        // Nothing was sent by Bardo, and a repetition takes the same nonce.
        ActionEnd::NotSent | ActionEnd::MaybeSigned { .. } => Some("not_sent"),
        ActionEnd::Withdrawn => Some("withdrawn"),
        ActionEnd::Unclear => None,
    }
}

fn of_tx_status(status: &TxStatus, last: Option<LastLeg>) -> RecoveryState {
    let (leg, of, main) = last.map_or((0, 1, true), |last| (last.leg, last.of, last.main));
    let done = last.is_some_and(|last| last.done);
    match (&status.mined, status.settled, status.record.state) {
        (Some(_), false, _) => RecoveryState::Shallow,
        (Some(mined), true, _) if !mined.receipt.status() && done => RecoveryState::Half,
        (Some(mined), true, _) if !mined.receipt.status() => RecoveryState::Failed,
        (Some(_), true, _) if !main => RecoveryState::Begun,
        (Some(_), true, _) if leg.saturating_add(1) < of => RecoveryState::Half,
        (Some(_), true, _) => RecoveryState::Whole,
        (None, true, Stage::Dropped) if done => RecoveryState::Half,
        (None, true, Stage::Dropped) if leg > 0 => RecoveryState::GoneHalfway,
        (None, true, Stage::Dropped) => RecoveryState::Gone,
        (None, _, _) => RecoveryState::Waiting,
    }
}

/// A chain error is a finding; a ledger error is returned.
fn unknown_state(error: sender::SenderError) -> Result<RecoveryState, ReserveError> {
    match error {
        sender::SenderError::Record(sender::RecordError::Store(error))
        | sender::SenderError::Lane(sender::LaneError::Store(error)) => Err(error.into()),
        other => {
            tracing::warn!("the outcome of a transaction is unknown: {other}");
            Ok(RecoveryState::Untold)
        }
    }
}

fn unavailable(error: impl std::fmt::Display) -> PipelineRefusal {
    PipelineRefusal::new(ErrorCode::StoreUnavailable, error)
}

fn open_permits(connection: &rusqlite::Connection) -> Result<Vec<OpenPermit>, StoreError> {
    let mut statement = connection.prepare(
        "SELECT used.permit_id, chain_id, reservation, spent_usd, gas_usd, consumed_at, call_id, golem_id, session,
                hash, leg, of, takes_back,
                (SELECT max(main) FROM safety_leg WHERE safety_leg.permit_id = used.permit_id),
                (SELECT max(earlier.main) FROM safety_leg AS earlier
                 WHERE earlier.permit_id = used.permit_id AND earlier.leg < signed.leg)
         FROM safety_permit AS used LEFT JOIN safety_leg AS signed ON signed.permit_id = used.permit_id
              AND leg = (SELECT max(leg) FROM safety_leg WHERE safety_leg.permit_id = used.permit_id)
         WHERE ended IS NULL AND NOT EXISTS (
             SELECT 1 FROM safety_order
             WHERE safety_order.permit_id = used.permit_id AND stage NOT IN ('reserved', 'ended'))
         ORDER BY consumed_at",
    )?;
    let read = |row: &rusqlite::Row<'_>| -> rusqlite::Result<Columns> {
        let reserved = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?);
        let leg = (row.get(9)?, row.get(10)?, row.get(11)?);
        let flags = (row.get(12)?, row.get(13)?, row.get(14)?);
        Ok((reserved, (row.get(6)?, row.get(7)?, row.get(8)?), leg, flags))
    };
    let rows: Vec<Columns> = statement.query_map([], read)?.collect::<Result<_, _>>()?;
    rows.into_iter().map(open_permit).collect::<Result<_, _>>()
}

/// Row of a used permit: permit and reservation, owner, last transaction if there is one, and three flags: it only
/// revokes, the main transaction is signed, the main transaction is an earlier one.
type Columns = (
    (String, i64, i64, String, String, i64),
    (String, Option<String>, Option<String>),
    (Option<Vec<u8>>, Option<i64>, Option<i64>),
    (Option<bool>, Option<bool>, Option<bool>),
);

fn open_permit((used, owner, last, flags): Columns) -> Result<OpenPermit, StoreError> {
    let (permit_id, chain_id, reservation, spent, gas, consumed_at) = used;
    let (call_id, golem_id, session) = owner;
    let ((hash, leg, of), (only_revokes, main, done)) = (last, flags);
    let garbled = |what: &str| StoreError::Corrupt(format!("a used permit has no readable {what}"));
    let usd = |text: String, what| text.parse::<Usd>().map_err(|_| garbled(what));
    let last = match (hash, leg, of) {
        (Some(hash), Some(leg), Some(of)) => Some(LastLeg {
            hash: B256::try_from(hash.as_slice()).map_err(|_| garbled("hash"))?,
            leg: u32::try_from(leg).map_err(|_| garbled("leg"))?,
            of: u32::try_from(of).map_err(|_| garbled("leg"))?,
            main: main.unwrap_or(true),
            done: done.unwrap_or(false),
            only_revokes: only_revokes.unwrap_or(false),
        }),
        _ => None,
    };
    Ok(OpenPermit {
        permit_id: permit_id.parse().map_err(|_| garbled("id"))?,
        call_id: call_id.parse().map_err(|_| garbled("call"))?,
        golem_id: match golem_id {
            Some(name) => GolemId::stored(&name).map_err(|_| garbled("Golem"))?,
            None => GolemId::operator(),
        },
        chain_id: u64::try_from(chain_id).map_err(|_| garbled("chain"))?,
        reserved: ReservedSpend {
            reservation: Reservation(reservation),
            spent: usd(spent, "value")?,
            gas: usd(gas, "gas")?,
        },
        last,
        consumed_at: u64::try_from(consumed_at).map_err(|_| garbled("time"))?,
        session,
    })
}

fn fate(connection: &rusqlite::Connection, call_id: CallId) -> Result<SignedOutcome, StoreError> {
    if let Some(order) = orders::find_by_call(connection, call_id)? {
        let bridge = matches!(order.message, TypedMessage::CrossChainOrder { .. });
        return Ok(SignedOutcome::Placed { hash: order.hash, bridge, status: order.status });
    }
    let mut statement = connection.prepare(
        "SELECT ended, hash FROM safety_permit AS used LEFT JOIN safety_leg AS signed ON signed.permit_id = used.permit_id
         WHERE call_id = ?1 ORDER BY consumed_at, leg",
    )?;
    let rows = statement.query_map([call_id.to_string()], |row| {
        Ok((row.get::<_, Option<String>>(0)?, row.get::<_, Option<Vec<u8>>>(1)?))
    })?;
    let (mut happened, mut succeeded, mut transactions) = (false, true, Vec::new());
    for row in rows {
        let (ended, hash) = row?;
        match ended.as_deref() {
            None => return Ok(SignedOutcome::Open),
            Some("done") => happened = true,
            Some("reverted") => (happened, succeeded) = (true, false),
            // Not sent, or withdrawn: its purpose can no longer happen.
            Some(_) => continue,
        }
        if let Some(hash) = hash {
            let garbled = || StoreError::Corrupt("a used permit has no readable hash".to_owned());
            transactions.push(B256::try_from(hash.as_slice()).map_err(|_| garbled())?);
        }
    }
    Ok(if happened { SignedOutcome::Ended { succeeded, transactions } } else { SignedOutcome::Nothing })
}

#[cfg(test)]
pub(super) mod tests;
