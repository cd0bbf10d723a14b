//! Spending ledger: reservations in sliding windows, rates, the failure breaker and the high-water marks, in the one
//! SQLite file that all processes share.
//!
//! Every change happens inside an immediate transaction of the caller, so the limits that are checked and the spending
//! that is recorded stay consistent across processes. A reservation counts in full until it is settled; the settled
//! amount then counts from the time of settlement. So no window of the actual spending times exceeds its limit.
//!
//! The ledger has a clock of its own that never goes back: the latest time that any caller reported. Setting a
//! machine's clock back therefore frees nothing. Setting it forward frees nothing either where the chain has a time of
//! its own, since a reservation then uses the chain's time ([`reserve_by_chain`]). A clock behind the chain cannot
//! reserve there, since its records would be outdated as soon as the clock is corrected. Calls have a separate clock.
//!
//! Not here: the definition of limits (see `policy`), prices (see `value`), nonces and signed bytes (see
//! `golem_chain::sender`).

mod breaker;
mod bridged;
mod caps;
mod liquidation;
mod micros;
mod tables;
#[cfg(test)]
mod tests;
mod usage;

use std::collections::BTreeMap;

use alloy::primitives::Address;
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use bardo_base::error::Violation;
use bardo_base::id::{CallId, GolemId};
use bardo_store::StoreError;
use golem_chain::token::TokenId;

pub use bridged::{BridgedValue, MarkChange, carried, note_arrived, record_bridged, update_in_transit};
pub(crate) use caps::percent;
pub use caps::{
    CapPeriod, LedgerCaps, REVOCATIONS_A_DAY, ReservationRequest, SpendCap, TokenCaps, TokenKey, token_name,
};
pub use liquidation::{end_liquidation, plan_liquidation};
pub use micros::{MicroUsd, MicroUsdError, sum};
pub use tables::MIGRATIONS;
pub(crate) use usage::clock;
pub use usage::{FailureBreaker, LedgerUsage, SpendWindow, held, high_water, observed_high_water, usage};
use usage::{sql, token_text};

/// Tolerated difference between a clock and a chain's latest block, in milliseconds. Some chains produce a block only
/// every minute or two.
pub const CLOCK_SLACK: u64 = 120_000;

/// Window in which calls are counted, in milliseconds.
const CALL_WINDOW: u64 = 60_000;

/// Time for which an account must be worth more before its high-water mark rises, in milliseconds: five Ethereum
/// blocks.
pub const MARK_DWELL: u64 = 60_000;
/// Time before the mark rises by a jump beyond [`MARK_JUMP`], in milliseconds.
pub const JUMP_DWELL: u64 = 3_600_000;
/// Rise above the mark that counts as an unexplained jump, in percent.
pub const MARK_JUMP: i64 = 25;
/// Number of readings that must confirm a jump.
const JUMP_READINGS: u32 = 3;
/// Smallest mark that protects an account, in millionths of a dollar. A lower one belongs to an empty account, and the
/// next reading replaces it.
const SMALLEST_MARK: i64 = 1_000_000;
/// Time of a mark that no reading is in, only arrivals of bridge orders.
const ONLY_ARRIVED: u64 = 0;

/// Database key of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReservationId(i64);

impl ReservationId {
    /// Returns the key for storage in another module's table.
    pub fn get(self) -> i64 {
        self.0
    }

    /// Restores a key from another module's table.
    pub fn stored(id: i64) -> Self {
        Self(id)
    }
}

/// Originator of a reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Originator {
    /// Id of the tool call.
    pub call_id: CallId,
    /// Golem that acts.
    pub golem_id: GolemId,
    /// Chain id of the action.
    pub chain_id: u64,
    /// Account that pays.
    pub account: Address,
}

/// Outcome of a reserved action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReservationOutcome {
    /// The action succeeded.
    Done {
        /// Amount that counts as spent, gas included, at the prices of the reservation. It exceeds the reservation only
        /// through a fault.
        spent: MicroUsd,
    },
    /// The action ended without failing but did not complete: a plan that stopped half-way, or an order that was not
    /// filled.
    Partly {
        /// Amount that counts as spent, gas included, at the prices of the reservation.
        spent: MicroUsd,
    },
    /// A wallet server may have signed the rest, and may send it itself: a failure of which all counts.
    MaybeSigned {
        /// Amount that counts as spent, gas included, at the prices of the reservation.
        spent: MicroUsd,
    },
    /// The transaction was included and reverted.
    Reverted {
        /// Gas cost of the transaction.
        gas: MicroUsd,
    },
    /// The action failed, and it is certain that none of it can be included.
    NotSent,
    /// The action was withdrawn before anything was signed. This is not a failure.
    Withdrawn,
    /// The outcome is unknown; the reservation stays in force.
    Unclear,
}

/// Reason for which a reservation was not made or changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// The request exceeds limits. Nothing was recorded.
    #[error("{} policy limits exceeded", .0.len())]
    Exceeded(Vec<Violation>),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A value is too large to store.
    #[error(transparent)]
    TooMuch(#[from] MicroUsdError),
    /// The reservation does not exist.
    #[error("the ledger has no reservation {0}")]
    Unknown(i64),
    /// The reservation has been settled before.
    #[error("reservation {id} is already settled, as {state}")]
    Settled {
        /// Key of the reservation.
        id: i64,
        /// State in which it was settled.
        state: String,
    },
    /// A number is too large for an SQLite integer.
    #[error("{value} is too large for the ledger")]
    OutOfRange {
        /// The number that does not fit.
        value: u64,
    },
    /// The machine's and the ledger's clocks are behind the chain, so that records made now would be outdated too
    /// early.
    #[error("this machine's clock is {} s behind the chain: correct it; nothing is counted until then", .by / 1_000)]
    ClockBehind {
        /// Difference in milliseconds.
        by: u64,
    },
    /// A stored value is invalid.
    #[error("the ledger contains {0}: back up the file and examine it before anything is spent")]
    Damaged(&'static str),
}

impl From<rusqlite::Error> for LedgerError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error.into())
    }
}

/// Evaluates `request` against `caps` and reserves its amounts if no limit is exceeded.
///
/// # Errors
/// [`LedgerError::Exceeded`] with all violations; any other [`LedgerError`] also means that nothing is reserved. The
/// caller must then roll back its transaction.
pub fn reserve(
    transaction: &Transaction<'_>,
    now: u64,
    caps: &LedgerCaps,
    party: &Originator,
    request: &ReservationRequest,
) -> Result<ReservationId, LedgerError> {
    reserve_at(transaction, advance(transaction, now)?, caps, party, request)
}

/// Like [`reserve`], on a chain whose latest block is of `block_time`, in milliseconds since the Unix epoch. The clocks
/// of the machine and the ledger count up to `block_time` plus [`CLOCK_SLACK`] at most. Amounts settled while a clock
/// was ahead count until that time has come.
///
/// If both clocks are behind `block_time` by more than the slack, only exits, revocations and cancellations are
/// reserved, at the later time of these two. An endpoint that lies about the time can thus only cause rejections, and
/// cannot make spent amounts expire early.
///
/// # Errors
/// The errors of [`reserve`], and [`LedgerError::ClockBehind`].
pub fn reserve_by_chain(
    transaction: &Transaction<'_>,
    now: u64,
    block_time: u64,
    caps: &LedgerCaps,
    party: &Originator,
    request: &ReservationRequest,
) -> Result<ReservationId, LedgerError> {
    let shown = now.max(usage::clock(transaction)?);
    if !request.exempt && shown.saturating_add(CLOCK_SLACK) < block_time {
        return Err(LedgerError::ClockBehind { by: block_time.saturating_sub(shown) });
    }
    let latest = block_time.saturating_add(CLOCK_SLACK);
    let now = advance(transaction, now.min(latest))?.min(latest);
    reserve_at(transaction, now, caps, party, request)
}

fn reserve_at(
    transaction: &Transaction<'_>,
    now: u64,
    caps: &LedgerCaps,
    party: &Originator,
    request: &ReservationRequest,
) -> Result<ReservationId, LedgerError> {
    observe_at(transaction, now, party, request.equity)?;
    let usage = usage::as_of(transaction, now, party.chain_id, party.account, request.tokens.keys(), caps.cool_off)?
        .called_by(transaction, &party.golem_id)?;
    let violations = caps.against(&usage, request);
    if !violations.is_empty() {
        return Err(LedgerError::Exceeded(violations));
    }
    transaction
        .prepare_cached(
            "INSERT INTO ledger_reservation
             (call_id, golem_id, chain_id, account, trade, exempt, micros, reserved_at, traded, state)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 'open')",
        )?
        .execute(params![
            party.call_id.to_string(),
            party.golem_id.as_str(),
            sql(party.chain_id)?,
            party.account.to_string(),
            request.trade,
            request.exempt,
            request.spend.to_sql(),
            sql(now)?,
            request.traded.to_sql(),
        ])?;
    let id = transaction.last_insert_rowid();
    for ((chain_id, token), micros) in &request.tokens {
        transaction
            .prepare_cached(
                "INSERT INTO ledger_reservation_token (reservation, chain_id, token, micros, held)
                 VALUES (?1, ?2, ?3, ?4, 1)",
            )?
            .execute(params![id, sql(*chain_id)?, token_text(*token), micros.to_sql()])?;
    }
    if usage.breaker == FailureBreaker::HalfOpen && !request.exempt {
        breaker::begin_trial(transaction, id)?;
    }
    Ok(ReservationId(id))
}

/// Records the outcome of a reserved action. `most_failures` is the policy's `max_consecutive_failures`.
///
/// # Errors
/// [`LedgerError::Settled`] if the action was settled before; [`LedgerError::Unknown`] if the reservation does not
/// exist.
pub fn settle(
    transaction: &Transaction<'_>,
    now: u64,
    reservation: ReservationId,
    outcome: ReservationOutcome,
    most_failures: u32,
) -> Result<(), LedgerError> {
    let ReservationId(id) = reservation;
    let state: Option<String> = transaction
        .prepare_cached("SELECT state FROM ledger_reservation WHERE id = ?1")?
        .query_row([id], |row| row.get(0))
        .optional()?;
    let state = state.ok_or(LedgerError::Unknown(id))?;
    if !matches!(state.as_str(), "open" | "unclear") {
        return Err(LedgerError::Settled { id, state });
    }
    let now = advance(transaction, now)?;
    let (state, spent, success) = match outcome {
        ReservationOutcome::Done { spent } => ("done", spent, Some(true)),
        ReservationOutcome::Partly { spent } => ("done", spent, None),
        // The table has no word of its own for it; its spending has been settled like that of what was done.
        ReservationOutcome::MaybeSigned { spent } => ("done", spent, Some(false)),
        ReservationOutcome::Reverted { gas } => ("reverted", gas, Some(false)),
        ReservationOutcome::NotSent => ("not_sent", MicroUsd::ZERO, Some(false)),
        ReservationOutcome::Withdrawn => ("withdrawn", MicroUsd::ZERO, None),
        ReservationOutcome::Unclear => {
            transaction
                .prepare_cached("UPDATE ledger_reservation SET state = 'unclear' WHERE id = ?1")?
                .execute([id])?;
            return Ok(());
        }
    };
    transaction
        .prepare_cached("UPDATE ledger_reservation SET state = ?2, settled_at = ?3, settled_micros = ?4 WHERE id = ?1")?
        .execute(params![id, state, sql(now)?, spent.to_sql()])?;
    if spent > MicroUsd::ZERO {
        transaction
            .prepare_cached(
                "INSERT INTO ledger_spent (at, reservation, total)
                 VALUES (?1, ?2, ?3 + coalesce((SELECT total FROM ledger_spent ORDER BY seq DESC LIMIT 1), 0))",
            )?
            .execute(params![sql(now)?, id, spent.to_sql()])?;
    }
    if let ReservationOutcome::Done { spent }
    | ReservationOutcome::Partly { spent }
    | ReservationOutcome::MaybeSigned { spent } = outcome
    {
        // The amount that left the account is at most what counts as spent: for a plan that only began or an unfilled
        // order, that is its cost. Only a completed exit moves more than it counts for.
        let whole = matches!(outcome, ReservationOutcome::Done { .. });
        transaction
            .prepare_cached(
                "UPDATE ledger_moved SET at = ?2, micros = CASE
                     WHEN ?4 AND (SELECT exempt FROM ledger_reservation WHERE id = ?1) = 1 THEN micros
                     ELSE min(micros, ?3) END
                 WHERE reservation = ?1",
            )?
            .execute(params![id, sql(now)?, spent.to_sql(), whole])?;
        transaction
            .prepare_cached(
                "INSERT INTO ledger_token_spent (chain_id, token, at, total)
                 SELECT chain_id, token, ?2, micros + coalesce(
                     (SELECT total FROM ledger_token_spent AS before
                      WHERE before.chain_id = held.chain_id AND before.token = held.token
                      ORDER BY at DESC, seq DESC LIMIT 1), 0)
                 FROM ledger_reservation_token AS held WHERE reservation = ?1",
            )?
            .execute(params![id, sql(now)?])?;
    }
    if let ReservationOutcome::Reverted { gas } = outcome
        && gas > MicroUsd::ZERO
    {
        // A reverted transaction costs only the native token.
        transaction
            .prepare_cached(
                "INSERT INTO ledger_token_spent (chain_id, token, at, total)
                 SELECT chain_id, token, ?2, ?3 + coalesce(
                     (SELECT total FROM ledger_token_spent AS before
                      WHERE before.chain_id = held.chain_id AND before.token = held.token
                      ORDER BY at DESC, seq DESC LIMIT 1), 0)
                 FROM ledger_reservation_token AS held WHERE reservation = ?1 AND token = ?4",
            )?
            .execute(params![id, sql(now)?, gas.to_sql(), token_text(TokenId::Native)])?;
    }
    transaction.prepare_cached("UPDATE ledger_reservation_token SET held = 0 WHERE reservation = ?1")?.execute([id])?;
    bridged::forget(transaction, id)?;
    breaker::learn(transaction, now, id, success, most_failures)
}

/// Makes a new reservation like a settled one whose action has happened after all. Amounts counted at settlement stay
/// counted, without being counted twice.
///
/// # Errors
/// [`LedgerError::Unknown`] if the reservation does not exist.
pub fn reserve_again(
    transaction: &Transaction<'_>,
    now: u64,
    reservation: ReservationId,
) -> Result<ReservationId, LedgerError> {
    let ReservationId(id) = reservation;
    let now = advance(transaction, now)?;
    let copied = transaction
        .prepare_cached(
            "INSERT INTO ledger_reservation
             (call_id, golem_id, chain_id, account, trade, exempt, micros, reserved_at, traded, state)
             SELECT call_id, golem_id, chain_id, account, trade, exempt, micros, ?2, traded, 'unclear'
             FROM ledger_reservation WHERE id = ?1",
        )?
        .execute(params![id, sql(now)?])?;
    if copied == 0 {
        return Err(LedgerError::Unknown(id));
    }
    let new = transaction.last_insert_rowid();
    transaction
        .prepare_cached(
            "INSERT INTO ledger_reservation_token (reservation, chain_id, token, micros, held)
             SELECT ?2, chain_id, token, micros, 1 FROM ledger_reservation_token WHERE reservation = ?1",
        )?
        .execute([id, new])?;
    transaction
        .prepare_cached(
            "INSERT INTO ledger_moved (reservation, chain_id, token, micros)
             SELECT ?2, chain_id, token, micros FROM ledger_moved WHERE reservation = ?1 AND at IS NULL",
        )?
        .execute([id, new])?;
    Ok(ReservationId(new))
}

/// Returns the call and the Golem that made a reservation.
///
/// # Errors
/// [`LedgerError::Unknown`] if the reservation does not exist, or [`LedgerError::Damaged`] for a stored id that cannot
/// be parsed.
pub fn party(connection: &Connection, reservation: ReservationId) -> Result<(CallId, GolemId), LedgerError> {
    let found: Option<(String, String)> = connection
        .prepare_cached("SELECT call_id, golem_id FROM ledger_reservation WHERE id = ?1")?
        .query_row([reservation.get()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let (call, golem) = found.ok_or(LedgerError::Unknown(reservation.get()))?;
    let call = call.parse().map_err(|_| LedgerError::Damaged("an invalid call id"))?;
    Ok((call, GolemId::stored(&golem).map_err(|_| LedgerError::Damaged("an invalid Golem name"))?))
}

/// Returns the Golem that reserved money for a call; `None` if none did, or if the row cannot be read.
///
/// # Errors
/// [`LedgerError`] if the database fails.
pub fn golem_of(connection: &Connection, call_id: CallId) -> Result<Option<GolemId>, LedgerError> {
    let found: Option<String> = connection
        .prepare_cached("SELECT golem_id FROM ledger_reservation WHERE call_id = ?1 LIMIT 1")?
        .query_row([call_id.to_string()], |row| row.get(0))
        .optional()?;
    Ok(found.and_then(|golem| GolemId::stored(&golem).ok()))
}

/// Stores the value that a reserved action moves out of the account, by token. It counts in the volume once the action
/// is done.
///
/// # Errors
/// [`LedgerError`] if the database fails or a figure is out of range.
pub fn note_moved(
    transaction: &Transaction<'_>,
    reservation: ReservationId,
    moved: &BTreeMap<TokenKey, MicroUsd>,
) -> Result<(), LedgerError> {
    for ((chain_id, token), micros) in moved {
        transaction
            .prepare_cached("INSERT INTO ledger_moved (reservation, chain_id, token, micros) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![reservation.get(), sql(*chain_id)?, token_text(*token), micros.to_sql()])?;
    }
    Ok(())
}

/// Stores the recipients of a reserved action. They become known recipients once it is done.
///
/// # Errors
/// [`LedgerError`] if the database fails or the chain id is out of range.
pub fn note_recipients(
    transaction: &Transaction<'_>,
    reservation: ReservationId,
    chain_id: u64,
    recipients: &[Address],
) -> Result<(), LedgerError> {
    for recipient in recipients {
        transaction
            .prepare_cached(
                "INSERT OR IGNORE INTO ledger_recipient (chain_id, recipient, reservation) VALUES (?1, ?2, ?3)",
            )?
            .execute(params![sql(chain_id)?, recipient.to_string(), reservation.get()])?;
    }
    Ok(())
}

/// Returns every recipient of a successful action, on any chain. A row that cannot be read is skipped.
///
/// # Errors
/// [`LedgerError`] if the database fails.
pub fn recipients(connection: &Connection) -> Result<Vec<Address>, LedgerError> {
    let mut asked = connection.prepare_cached(
        "SELECT DISTINCT recipient FROM ledger_recipient JOIN ledger_reservation ON id = reservation
         WHERE state = 'done'",
    )?;
    let found = asked.query_map([], |row| row.get::<_, String>(0))?;
    let mut recipients = Vec::new();
    for text in found {
        match text?.parse() {
            Ok(address) => recipients.push(address),
            Err(_) => tracing::warn!("the ledger has an unreadable recipient address"),
        }
    }
    Ok(recipients)
}

/// Counts one call of `caller` and enforces its rate: at most `most` calls in any 60 seconds, over all processes. The
/// operator and each Golem have a window of their own, so one caller cannot block another. If the call exceeds the
/// rate, it is not counted, and the milliseconds until the next allowed call are returned.
///
/// # Errors
/// [`LedgerError`] if the call could not be counted.
pub fn take_call(
    transaction: &Transaction<'_>,
    now: u64,
    caller: &GolemId,
    most: u32,
) -> Result<Option<u64>, LedgerError> {
    let now = now.max(usage::call_clock(transaction)?);
    transaction
        .prepare_cached(
            "INSERT INTO ledger_call_clock (one, now) VALUES (1, ?1) ON CONFLICT (one) DO UPDATE SET now = ?1",
        )?
        .execute([sql(now)?])?;
    if usage::calls(transaction, now, caller)? >= most {
        let edge = sql(now.saturating_sub(CALL_WINDOW))?;
        let oldest: Option<i64> = transaction
            .prepare_cached("SELECT min(at) FROM ledger_call WHERE golem_id = ?1 AND at > ?2")?
            .query_row(params![caller.as_str(), edge], |row| row.get(0))?;
        let free = oldest.map(usage::time).transpose()?.map_or(now, |at| at).saturating_add(CALL_WINDOW);
        return Ok(Some(free.saturating_sub(now)));
    }
    let edge = sql(now.saturating_sub(CALL_WINDOW))?;
    transaction.prepare_cached("DELETE FROM ledger_call WHERE at <= ?1")?.execute([edge])?;
    transaction
        .prepare_cached("INSERT INTO ledger_call (golem_id, at) VALUES (?1, ?2)")?
        .execute(params![caller.as_str(), sql(now)?])?;
    Ok(None)
}

/// Records an account's current value, from which its high-water mark follows. The stop-loss measures from that mark.
///
/// # Errors
/// [`LedgerError`] if the database fails or a figure is out of range.
pub fn observe(
    transaction: &Transaction<'_>,
    now: u64,
    party: &Originator,
    equity: MicroUsd,
) -> Result<(), LedgerError> {
    let now = advance(transaction, now)?;
    observe_at(transaction, now, party, equity)
}

/// Records an account's current value. The first reading is its high-water mark. Later, the mark rises to the lowest
/// value read over a period ([`MARK_DWELL`]). So a false price, a flash loan or a temporary gift in one reading cannot
/// raise it. A jump beyond [`MARK_JUMP`] percent must be read at least [`JUMP_READINGS`] times over [`JUMP_DWELL`].
/// Value that arrived over a bridge is known to the ledger and raises the mark at once ([`raise_at`]).
fn observe_at(
    transaction: &Transaction<'_>,
    now: u64,
    party: &Originator,
    equity: MicroUsd,
) -> Result<(), LedgerError> {
    let (chain_id, account) = (sql(party.chain_id)?, party.account.to_string());
    let forget = || -> Result<(), LedgerError> {
        transaction
            .prepare_cached("DELETE FROM ledger_mark_rise WHERE chain_id = ?1 AND account = ?2")?
            .execute(params![chain_id, account])?;
        Ok(())
    };
    let begin = |readings: u32, least: MicroUsd, since: u64| -> Result<(), LedgerError> {
        transaction
            .prepare_cached(
                "INSERT OR REPLACE INTO ledger_mark_rise (chain_id, account, micros, since, readings)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![chain_id, account, least.to_sql(), sql(since)?, readings])?;
        Ok(())
    };
    let mark = bridged::mark(transaction, party.chain_id, party.account)?.unwrap_or_default();
    if !is_observed(transaction, party.chain_id, party.account)? {
        // What an account held before the first arrival is in no mark yet.
        forget()?;
        return put_mark(transaction, now, party, mark.max(equity));
    }
    if equity <= mark {
        return forget();
    }
    let rise: Option<(i64, i64, u32)> = transaction
        .prepare_cached("SELECT micros, since, readings FROM ledger_mark_rise WHERE chain_id = ?1 AND account = ?2")?
        .query_row(params![chain_id, account], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let Some((least, since, readings)) = rise else { return begin(1, equity, now) };
    let (least, since) = (MicroUsd::from_sql(least)?.min(equity), usage::time(since)?);
    let readings = readings.saturating_add(1);
    let jumps = least.to_sql() / 100 > mark.to_sql() / 100 + mark.to_sql() / 10_000 * MARK_JUMP;
    let (dwell, least_readings) = if jumps { (JUMP_DWELL, JUMP_READINGS) } else { (MARK_DWELL, 2) };
    if now.saturating_sub(since) < dwell || readings < least_readings {
        return begin(readings, least, since);
    }
    raise_at(transaction, now, party, least)?;
    if equity > least { begin(1, equity, now) } else { forget() }
}

/// Returns true if a reading of the account's holdings is in its mark on the chain: not for an empty account, and not for
/// one of which only arrivals are known.
fn is_observed(connection: &Connection, chain_id: u64, account: Address) -> Result<bool, LedgerError> {
    let mark: Option<(i64, i64)> = connection
        .prepare_cached("SELECT micros, at FROM ledger_high_water WHERE chain_id = ?1 AND account = ?2")?
        .query_row(params![sql(chain_id)?, account.to_string()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    Ok(mark.is_some_and(|(micros, at)| micros >= SMALLEST_MARK && usage::time(at).is_ok_and(|at| at != ONLY_ARRIVED)))
}

/// Sets an account's high-water mark.
fn put_mark(transaction: &Transaction<'_>, at: u64, party: &Originator, to: MicroUsd) -> Result<(), LedgerError> {
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO ledger_high_water (chain_id, account, micros, at) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![sql(party.chain_id)?, party.account.to_string(), to.to_sql(), sql(at)?])?;
    Ok(())
}

/// Raises the mark of a chain on which value arrived to `to` if it is lower. Until the account's holdings there are read
/// for the first time, nobody knows what it held before: the first reading then sets the mark, which is at least `to`, so
/// that a loss does not disappear on the way.
fn raise_by_arrival(
    transaction: &Transaction<'_>,
    now: u64,
    party: &Originator,
    to: MicroUsd,
) -> Result<(), LedgerError> {
    if is_observed(transaction, party.chain_id, party.account)? {
        return raise_at(transaction, now, party, to);
    }
    let known = bridged::mark(transaction, party.chain_id, party.account)?.unwrap_or_default();
    put_mark(transaction, ONLY_ARRIVED, party, known.max(to))
}

/// Raises an account's high-water mark to `to` if it is lower.
fn raise_at(transaction: &Transaction<'_>, now: u64, party: &Originator, to: MicroUsd) -> Result<(), LedgerError> {
    transaction
        .prepare_cached(
            "INSERT INTO ledger_high_water (chain_id, account, micros, at) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (chain_id, account) DO UPDATE SET micros = ?3, at = ?4 WHERE micros < ?3",
        )?
        .execute(params![sql(party.chain_id)?, party.account.to_string(), to.to_sql(), sql(now)?])?;
    Ok(())
}

/// Sets an account's high-water mark to its current value, on the operator's command: after a withdrawal, or to
/// continue after a loss.
///
/// # Errors
/// [`LedgerError`] if the database fails or a figure is out of range.
pub fn set_high_water(
    transaction: &Transaction<'_>,
    now: u64,
    party: &Originator,
    equity: MicroUsd,
) -> Result<(), LedgerError> {
    let now = advance(transaction, now)?;
    delete_rises(transaction, party.account)?;
    put_mark(transaction, now, party, equity)
}

/// Deletes an account's high-water marks on all chains, on the operator's command. The next action sets new ones.
/// Returns the number of deleted marks.
///
/// # Errors
/// [`LedgerError`] if the database fails.
pub fn forget_high_water(transaction: &Transaction<'_>, account: Address) -> Result<usize, LedgerError> {
    bridged::forget_marks(transaction, account)?;
    delete_rises(transaction, account)?;
    Ok(transaction
        .prepare_cached("DELETE FROM ledger_high_water WHERE account = ?1")?
        .execute([account.to_string()])?)
}

/// Deletes the pending rises of an account's marks.
fn delete_rises(transaction: &Transaction<'_>, account: Address) -> Result<(), LedgerError> {
    transaction.prepare_cached("DELETE FROM ledger_mark_rise WHERE account = ?1")?.execute([account.to_string()])?;
    Ok(())
}

/// Returns the number of consecutive failures that the breaker counts, over all processes on this ledger.
///
/// # Errors
/// [`LedgerError`] if the database fails.
pub fn failures(connection: &Connection) -> Result<u32, LedgerError> {
    breaker::failures(connection)
}

/// Deletes all spending, reservations and counts of a paper ledger, which then starts again. The ledger's clocks stay.
///
/// # Errors
/// The database's failure.
pub(super) fn forget_all(transaction: &Transaction<'_>) -> Result<(), StoreError> {
    // Referencing rows must be deleted before the rows they refer to.
    for table in [
        "ledger_moved",
        "ledger_bridged",
        "ledger_reservation_token",
        "ledger_spent",
        "ledger_token_spent",
        "ledger_recipient",
        "ledger_breaker",
        "ledger_reservation",
        "ledger_call",
        "ledger_high_water",
        "ledger_mark_rise",
        "ledger_liquidation",
    ] {
        transaction.execute(&format!("DELETE FROM {table}"), [])?;
    }
    Ok(())
}

/// Closes the breaker and resets its count, on the operator's command.
///
/// # Errors
/// [`LedgerError`] if the database fails.
pub fn reset_breaker(transaction: &Transaction<'_>) -> Result<(), LedgerError> {
    breaker::reset(transaction)
}

/// Advances the ledger's clock to `now`, never backwards, and returns its time.
fn advance(transaction: &Transaction<'_>, now: u64) -> Result<u64, LedgerError> {
    let now = now.max(usage::clock(transaction)?);
    transaction
        .prepare_cached("INSERT INTO ledger_clock (one, now) VALUES (1, ?1) ON CONFLICT (one) DO UPDATE SET now = ?1")?
        .execute([sql(now)?])?;
    Ok(now)
}
