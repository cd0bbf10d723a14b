//! What was begun and has no end: found at the start and while running, and brought to the end that the chain says,
//! by the table in [`machine`]. Bytes that were stored are sent again where no stop is in force, and under any where they
//! only take back what others may take; what was never stored was never sent. Nothing is ever signed anew.
//!
//! Every step is one transaction that looks first whether it is still to be done, so that recovery can break off
//! anywhere, run twice at once, and run in several programs on one ledger.

mod late;
mod left_over;
mod machine;

use std::time::Duration;

use alloy::consensus::Transaction as _;
use alloy::primitives::B256;
use serde_json::json;
use tokio::time::Instant;

use super::commit::Held;
use super::settle::Leave;
use super::{Pipeline, Refusal};
use crate::audit::{self, AuditError, Entry, Kind};
use crate::orders::{OrderState, record as orders};
use crate::permit;
use crate::revocation;
use crate::rulebook::{End, Reservation, ReserveError};
use crate::typed::TypedMessage;
use bardo_base::error::ErrorCode;
use bardo_base::fabric::{EventKind, TxState, TxUpdate};
use bardo_base::failpoint::{self, Failpoint};
use bardo_base::id::{CallId, GolemId, PermitId};
use bardo_base::units::Usd;
use bardo_store::StoreError;
use golem_chain::network::Contract;
use golem_chain::sender::{self, ReservedNonce, Sender, Standing, TxState as Stage, WaitRules};

pub(super) use late::hold_late_again;
pub use left_over::LeftOver;
pub(super) use left_over::allowed_before;
pub use machine::{Found, Step, TABLE as RECOVERY};

/// Where nobody tells whose work something is, it is left alone for so long, in milliseconds. Were its owner slower,
/// storing its bytes would fail, and nothing be sent.
const LEAVE_ALONE: u64 = 30_000;

/// A start waits so long in all for what it has sent again; after that it goes on in the background.
const START_PATIENCE: Duration = Duration::from_secs(5);

/// What became of one permit that was used and had no end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// Which.
    pub permit_id: PermitId,
    /// Its last transaction; `None` if nothing was ever signed under it, or kept.
    pub hash: Option<B256>,
    /// What was found of it last.
    pub found: Found,
    /// What was done about that.
    pub step: Step,
    /// How it ended; [`End::Unclear`] if it has not yet.
    pub end: End,
}

/// What became of everything that was signed for a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// Nothing of it was signed, or nothing of it can ever happen: it may be done anew.
    Nothing,
    /// It goes on.
    Open,
    /// What was signed is an order, which others settle.
    Placed {
        /// The order's hash, or the bridge order's id.
        hash: B256,
        /// Whether it is a bridge order.
        bridge: bool,
        /// Where it stood when it was looked at last.
        status: OrderState,
    },
    /// It has come to its end, in these transactions.
    Ended {
        /// Whether they all succeeded, rather than one reverting.
        succeeded: bool,
        /// In the order in which they were signed.
        transactions: Vec<B256>,
    },
}

/// A used permit without an end.
#[derive(Debug, Clone)]
struct Left {
    permit_id: PermitId,
    call_id: CallId,
    golem_id: GolemId,
    chain_id: u64,
    held: Held,
    last: Option<LastLeg>,
    consumed_at: u64,
    session: Option<String>,
}

/// What an earlier run has signed, and no block has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToSend {
    /// Its transaction.
    pub hash: B256,
    /// Whether the next recovery sends it; else it is watched until the stop that is in force is lifted.
    pub now: bool,
}

#[derive(Debug, Clone, Copy)]
struct LastLeg {
    hash: B256,
    leg: u32,
    of: u32,
    /// Whether what the permit is for was signed, in this leg or an earlier one.
    main: bool,
    /// Whether it was signed in an earlier one. Then it succeeded, or this one would not have been signed.
    done: bool,
    /// Whether it only takes back what others may take.
    takes_back: bool,
}

impl Pipeline {
    /// Ends, as far as the chain allows, what is left open on this ledger and nobody is at. Safe to call at any time,
    /// from several programs at once.
    ///
    /// # Errors
    /// [`Refusal`]: the ledger cannot be read or written. A chain that does not answer leaves open what is on it.
    pub async fn recover(&self) -> Result<Vec<Recovered>, Refusal> {
        self.recover_as(true).await
    }

    /// The same for whoever only wants to know: what the chain says is written down, and nothing is sent again,
    /// whatever it does.
    ///
    /// # Errors
    /// As [`Self::recover`].
    pub async fn recover_unsent(&self) -> Result<Vec<Recovered>, Refusal> {
        self.recover_as(false).await
    }

    async fn recover_as(&self, sends: bool) -> Result<Vec<Recovered>, Refusal> {
        let now = self.inner.clock.now_millis();
        self.look_at_given_up().await?;
        self.hold_late_again().await?;
        let left = self.inner.store.read(left_open).map_err(unavailable)?;
        let taken = self.inner.store.read(sender::reserved).map_err(unavailable)?;
        failpoint::reach(Failpoint::RecoveryRead);
        let held = |one: &ReservedNonce| if self.is_loose(one, now) { Found::LooseNonce } else { Found::Owned };
        let loose: Vec<_> =
            taken.into_iter().filter(|one| machine::step(held(one), !sends) == Step::GiveBack).collect();
        if !loose.is_empty() {
            self.give_back_all(loose).await.map_err(unavailable)?;
        }
        failpoint::reach(Failpoint::RecoveryNonces);
        let deadline = Instant::now() + START_PATIENCE.min(self.inner.patience);
        let mut recovered = Vec::new();
        for one in left {
            recovered.extend(self.bring_on(one, now, sends, deadline).await.map_err(unavailable)?);
        }
        Ok(recovered)
    }

    /// The transactions that [`Self::recover`] would send again now: stored, in no block, and nobody is at them. Under a stop
    /// only what takes back is among them; the rest is watched.
    ///
    /// # Errors
    /// [`Refusal`]: the ledger cannot be read.
    pub fn to_send_again(&self) -> Result<Vec<ToSend>, Refusal> {
        let now = self.inner.clock.now_millis();
        let left = self.inner.store.read(left_open).map_err(unavailable)?;
        let mut waiting = Vec::new();
        let alone = |one: &Left| self.is_owned(one, now) && machine::step(Found::Owned, false) == Step::LeaveAlone;
        for one in left.iter().filter(|one| !alone(one)) {
            let Some(LastLeg { hash, takes_back, .. }) = one.last else { continue };
            let revokes = self.still_revokes(one.chain_id, hash, takes_back).map_err(unavailable)?;
            let sent_now = self.may_send_again(Leave::of_left(revokes));
            let record = self.inner.store.read(|connection| sender::sendable(connection, hash)).map_err(unavailable)?;
            waiting.extend(record.map(|record| ToSend { hash: record.hash(), now: sent_now }));
        }
        Ok(waiting)
    }

    /// Calls [`Self::recover`] every so often, while `acts` says so, until the last handle to this pipeline is gone. What
    /// it meets is told on the fabric and on the audit trail; a ledger that cannot be read is tried again.
    pub fn keep_recovering(&self, every: Duration, acts: impl Fn() -> bool + Send + 'static) {
        let inner = std::sync::Arc::downgrade(&self.inner);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(every).await;
                let Some(inner) = inner.upgrade() else { return };
                if !acts() {
                    continue;
                }
                if let Err(refusal) = (Self { inner }).recover().await {
                    tracing::warn!("what is left open on the ledger cannot be looked at: {}", refusal.message);
                }
            }
        });
    }

    /// What became of everything that was signed for a call, by this program or an earlier one.
    ///
    /// # Errors
    /// [`Refusal`]: the ledger cannot be read.
    pub fn fate(&self, call_id: CallId) -> Result<Fate, Refusal> {
        self.inner.store.read(|connection| fate(connection, call_id)).map_err(unavailable)
    }

    /// Whether the program that used this permit is still at it.
    fn is_owned(&self, one: &Left, now: u64) -> bool {
        match &one.session {
            Some(session) if session == self.inner.store.session() => self.at_work().contains(&one.permit_id),
            Some(session) => self.inner.store.session_lives(session),
            None => one.last.is_none() && one.consumed_at.saturating_add(LEAVE_ALONE) > now,
        }
    }

    /// Whether nobody will sign with this nonce any more.
    fn is_loose(&self, one: &ReservedNonce, now: u64) -> bool {
        let old = one.at.saturating_add(LEAVE_ALONE) <= now;
        match &one.session {
            // Which of our own commits took it is not written down; while one runs, none is loose.
            Some(session) if session == self.inner.store.session() => old && self.at_work().is_empty(),
            Some(session) => !self.inner.store.session_lives(session),
            None => old,
        }
    }

    async fn give_back_all(&self, loose: Vec<ReservedNonce>) -> Result<(), ReserveError> {
        let clock = self.inner.clock.clone();
        let given = self.inner.store.write(move |transaction| {
            for one in &loose {
                match sender::give_back(transaction, &one.ticket) {
                    Ok(()) => record_nonce(transaction, clock.now_millis(), one)?,
                    // Another program was quicker, and has put it on record.
                    Err(sender::LaneError::NotHeld { .. }) => {}
                    Err(error) => return Err(ReserveError::Ledger(error.to_string())),
                }
            }
            failpoint::reach(Failpoint::RecoveryInsideNonces);
            Ok(())
        });
        given.await
    }

    /// Whether a stored transaction may go out under any stop: it was noted as one that only revokes, and its own bytes
    /// still say so. The note alone is not believed; whoever can write the ledger could set it.
    fn still_revokes(&self, chain_id: u64, hash: B256, noted: bool) -> Result<bool, StoreError> {
        let Some(chain) = self.chain(chain_id).ok().filter(|_| noted) else { return Ok(false) };
        let record = self.inner.store.read(|connection| sender::sendable(connection, hash));
        let record = match record {
            Ok(record) => record,
            Err(sender::RecordError::Store(error)) => return Err(error),
            Err(_) => return Ok(false),
        };
        let Some(record) = record else { return Ok(false) };
        let signed = record.signed.transaction();
        let book = &chain.ground.network().book;
        let contracts = (book.contract(Contract::Permit2), book.contract(Contract::OriginSettler));
        let from = record.signed.from();
        let promised = self.inner.store.read(|connection| orders::promised(connection, chain_id, from))?;
        let (value, data) = (signed.value(), signed.input());
        Ok(signed.to().is_some_and(|to| revocation::is_revoking_call(to, value, data, contracts, promised)))
    }

    /// One thing left open, one step of the table after the other, until a step has to wait or there is an end. Nothing is
    /// told of what is left alone.
    async fn bring_on(
        &self,
        one: Left,
        now: u64,
        sends: bool,
        deadline: Instant,
    ) -> Result<Option<Recovered>, ReserveError> {
        let hash = one.last.map(|leg| leg.hash);
        let revokes = match one.last {
            Some(leg) => self.still_revokes(one.chain_id, leg.hash, leg.takes_back).map_err(ReserveError::Store)?,
            None => false,
        };
        let leave = Leave::of_left(revokes);
        // Asked each time: a stop may be set meanwhile.
        let held_back = || !sends || !self.may_send_again(leave);
        let mut found = self.find(&one, now).await?;
        let mut step = machine::step(found, held_back());
        if step == Step::LeaveAlone {
            return Ok(None);
        }
        failpoint::reach(Failpoint::RecoveryFound);
        if let (Step::SendAgain, Some(hash), Ok(sender)) = (step, hash, self.sender(one.chain_id)) {
            self.note_found(&one, found, step).await?;
            failpoint::reach(Failpoint::RecoveryResending);
            // Whatever is answered: what the chain has is asked next.
            let _answered = sender.resend(hash).await;
            failpoint::reach(Failpoint::RecoveryResent);
            let patience = deadline.saturating_duration_since(Instant::now());
            found = match sender.wait(hash, WaitRules { patience, resend: false }).await {
                Ok(standing) => of_standing(&standing, one.last),
                Err(error) => untold(error)?,
            };
            step = match machine::step(found, held_back()) {
                // Sent a moment ago: the next round sends it again.
                Step::SendAgain => Step::Watch,
                step => step,
            };
        }
        let end = machine::end(step, one.held);
        match end {
            End::Unclear => self.note_found(&one, found, step).await?,
            End::Done { .. } | End::Partly { .. } | End::Reverted { .. } | End::NotSent | End::Withdrawn => {
                self.write_end(&one, found, step, end).await?;
            }
        }
        Ok(Some(Recovered { permit_id: one.permit_id, hash, found, step, end }))
    }

    async fn find(&self, one: &Left, now: u64) -> Result<Found, ReserveError> {
        if self.is_owned(one, now) {
            return Ok(Found::Owned);
        }
        let Some(LastLeg { hash, .. }) = one.last else { return Ok(Found::Unsigned) };
        let Ok(sender) = self.sender(one.chain_id) else { return Ok(Found::Untold) };
        match sender.look(hash).await {
            Ok(standing) => Ok(of_standing(&standing, one.last)),
            Err(error) => untold(error),
        }
    }

    /// Writes an end down, unless somebody else has.
    async fn write_end(&self, one: &Left, found: Found, step: Step, end: End) -> Result<(), ReserveError> {
        let (rules, clock, left) = (self.inner.rules.clone(), self.inner.clock.clone(), one.clone());
        let written = self.inner.store.write(move |transaction| {
            if permit::has_ended(transaction, left.permit_id)? {
                return Ok(false);
            }
            // What was only prepared may be done anew under the same key.
            let word = if found == Found::Begun { Some("withdrawn") } else { ended(end) };
            let Some(ended) = word else { return Ok(false) };
            let now = clock.now_millis();
            rules.settle(transaction, now, left.held.reservation, end)?;
            permit::note_end(transaction, left.permit_id, ended)?;
            // An order that was written down and never signed.
            if let Some(order) = orders::of_permit(transaction, left.permit_id)? {
                orders::end(transaction, order.hash, OrderState::failed(&order.message), now)?;
            }
            record(transaction, now, &left, found, step)?;
            failpoint::reach(Failpoint::RecoveryInsideEnd);
            Ok::<_, ReserveError>(true)
        });
        if written.await? {
            failpoint::reach(Failpoint::RecoveryEnded);
            self.told().remove(&one.permit_id);
            self.say_found(one, found);
        }
        Ok(())
    }

    /// Puts on record what is found, once for each time that it is something else.
    async fn note_found(&self, one: &Left, found: Found, step: Step) -> Result<(), ReserveError> {
        if self.told().insert(one.permit_id, found) == Some(found) {
            return Ok(());
        }
        let (clock, left) = (self.inner.clock.clone(), one.clone());
        let noted = self.inner.store.write(move |tx| record(tx, clock.now_millis(), &left, found, step));
        noted.await?;
        self.say_found(one, found);
        Ok(())
    }

    fn say_found(&self, one: &Left, found: Found) {
        let Some(LastLeg { hash, leg, of, .. }) = one.last else { return };
        let state = match found {
            // Where the purpose was served earlier, the last one failed or never was: the chain's receipts tell.
            Found::Half if one.last.is_some_and(|last| last.done) => TxState::Unclear,
            Found::Whole | Found::Begun | Found::Half => TxState::Confirmed,
            Found::Failed => TxState::Reverted,
            Found::Gone | Found::GoneHalfway => TxState::Dropped,
            Found::Owned | Found::LooseNonce | Found::Unsigned | Found::Waiting | Found::Shallow | Found::Untold => {
                TxState::Unclear
            }
        };
        let record = self.sender(one.chain_id).ok().and_then(|sender: Sender| sender.record(hash).ok());
        let block = record.and_then(|record| record.block).map(|(number, _)| number);
        let update = TxUpdate { chain_id: one.chain_id, hash, leg: leg.saturating_add(1), of, state, block };
        self.inner.fabric.emit(&one.golem_id, Some(one.call_id), EventKind::TxUpdate(update));
    }
}

/// Puts a step on the audit trail, in the transaction that takes it.
fn record(
    transaction: &rusqlite::Transaction<'_>,
    now: u64,
    left: &Left,
    found: Found,
    step: Step,
) -> Result<(), ReserveError> {
    let body = json!({
        "permit": left.permit_id, "reservation": left.held.reservation.0, "chain_id": left.chain_id,
        "transaction": left.last.map(|leg| leg.hash), "found": found.as_str(), "step": step.as_str(),
    });
    let entry = Entry { kind: Kind::RecoveryStep, call_id: Some(left.call_id), golem_id: &left.golem_id, body: &body };
    append(transaction, now, &entry)
}

/// The same of a nonce that is given back: which call took it is not written down.
fn record_nonce(transaction: &rusqlite::Transaction<'_>, now: u64, one: &ReservedNonce) -> Result<(), ReserveError> {
    let sender::NonceTicket { chain_id, account, nonce, .. } = &one.ticket;
    let body = json!({
        "chain_id": chain_id, "account": account, "nonce": nonce, "found": Found::LooseNonce.as_str(),
        "step": Step::GiveBack.as_str(),
    });
    let operator = GolemId::operator();
    append(transaction, now, &Entry { kind: Kind::RecoveryStep, call_id: None, golem_id: &operator, body: &body })
}

fn append(
    transaction: &rusqlite::Transaction<'_>,
    now: u64,
    entry: &Entry<'_, serde_json::Value>,
) -> Result<(), ReserveError> {
    match audit::append(transaction, now, entry) {
        Ok(_) => Ok(()),
        Err(AuditError::Store(error)) => Err(error.into()),
        Err(other) => Err(ReserveError::Ledger(other.to_string())),
    }
}

/// The word for an end in the permit's row; `None` where there is none yet.
pub(super) fn ended(end: End) -> Option<&'static str> {
    match end {
        End::Done { .. } | End::Partly { .. } => Some("done"),
        End::Reverted { .. } => Some("reverted"),
        End::NotSent => Some("not_sent"),
        End::Withdrawn => Some("withdrawn"),
        End::Unclear => None,
    }
}

fn of_standing(standing: &Standing, last: Option<LastLeg>) -> Found {
    let (leg, of, main) = last.map_or((0, 1, true), |last| (last.leg, last.of, last.main));
    let done = last.is_some_and(|last| last.done);
    match (&standing.mined, standing.settled, standing.record.state) {
        (Some(_), false, _) => Found::Shallow,
        (Some(mined), true, _) if !mined.receipt.status() && done => Found::Half,
        (Some(mined), true, _) if !mined.receipt.status() => Found::Failed,
        (Some(_), true, _) if !main => Found::Begun,
        (Some(_), true, _) if leg.saturating_add(1) < of => Found::Half,
        (Some(_), true, _) => Found::Whole,
        (None, true, Stage::Dropped) if done => Found::Half,
        (None, true, Stage::Dropped) if leg > 0 => Found::GoneHalfway,
        (None, true, Stage::Dropped) => Found::Gone,
        (None, _, _) => Found::Waiting,
    }
}

/// A chain that does not tell is found so; a ledger that does not is an error.
fn untold(error: sender::SenderError) -> Result<Found, ReserveError> {
    match error {
        sender::SenderError::Record(sender::RecordError::Store(error))
        | sender::SenderError::Lane(sender::LaneError::Store(error)) => Err(error.into()),
        other => {
            tracing::warn!("what became of a transaction is not told: {other}");
            Ok(Found::Untold)
        }
    }
}

fn unavailable(error: impl std::fmt::Display) -> Refusal {
    Refusal::new(ErrorCode::StoreUnavailable, error)
}

fn left_open(connection: &rusqlite::Connection) -> Result<Vec<Left>, StoreError> {
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
        let held = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?);
        let leg = (row.get(9)?, row.get(10)?, row.get(11)?);
        let flags = (row.get(12)?, row.get(13)?, row.get(14)?);
        Ok((held, (row.get(6)?, row.get(7)?, row.get(8)?), leg, flags))
    };
    let rows: Vec<Columns> = statement.query_map([], read)?.collect::<Result<_, _>>()?;
    rows.into_iter().map(left).collect::<Result<_, _>>()
}

/// A used permit's row: the permit and what is held, whose it is, and its last leg where there is one, with whether it
/// takes back, whether the purpose was signed, and whether it was before.
type Columns = (
    (String, i64, i64, String, String, i64),
    (String, Option<String>, Option<String>),
    (Option<Vec<u8>>, Option<i64>, Option<i64>),
    (Option<bool>, Option<bool>, Option<bool>),
);

fn left((used, owner, last, flags): Columns) -> Result<Left, StoreError> {
    let (permit_id, chain_id, reservation, spent, gas, consumed_at) = used;
    let (call_id, golem_id, session) = owner;
    let ((hash, leg, of), (takes_back, main, done)) = (last, flags);
    let garbled = |what: &str| StoreError::Corrupt(format!("a used permit has no readable {what}"));
    let usd = |text: String, what| text.parse::<Usd>().map_err(|_| garbled(what));
    let last = match (hash, leg, of) {
        (Some(hash), Some(leg), Some(of)) => Some(LastLeg {
            hash: B256::try_from(hash.as_slice()).map_err(|_| garbled("hash"))?,
            leg: u32::try_from(leg).map_err(|_| garbled("leg"))?,
            of: u32::try_from(of).map_err(|_| garbled("leg"))?,
            main: main.unwrap_or(true),
            done: done.unwrap_or(false),
            takes_back: takes_back.unwrap_or(false),
        }),
        _ => None,
    };
    Ok(Left {
        permit_id: permit_id.parse().map_err(|_| garbled("id"))?,
        call_id: call_id.parse().map_err(|_| garbled("call"))?,
        golem_id: match golem_id {
            Some(name) => GolemId::stored(&name).map_err(|_| garbled("Golem"))?,
            None => GolemId::operator(),
        },
        chain_id: u64::try_from(chain_id).map_err(|_| garbled("chain"))?,
        held: Held { reservation: Reservation(reservation), spent: usd(spent, "value")?, gas: usd(gas, "gas")? },
        last,
        consumed_at: u64::try_from(consumed_at).map_err(|_| garbled("time"))?,
        session,
    })
}

fn fate(connection: &rusqlite::Connection, call_id: CallId) -> Result<Fate, StoreError> {
    if let Some(order) = orders::of_call(connection, call_id)? {
        let bridge = matches!(order.message, TypedMessage::CrossChainOrder { .. });
        return Ok(Fate::Placed { hash: order.hash, bridge, status: order.status });
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
            None => return Ok(Fate::Open),
            Some("done") => happened = true,
            Some("reverted") => (happened, succeeded) = (true, false),
            // Not sent, or withdrawn: nothing of what it is for can happen.
            Some(_) => continue,
        }
        if let Some(hash) = hash {
            let garbled = || StoreError::Corrupt("a used permit has no readable hash".to_owned());
            transactions.push(B256::try_from(hash.as_slice()).map_err(|_| garbled())?);
        }
    }
    Ok(if happened { Fate::Ended { succeeded, transactions } } else { Fate::Nothing })
}

#[cfg(test)]
pub(super) mod tests;
