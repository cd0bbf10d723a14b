//! What has been spent, and what may still be: reservations in sliding windows, rates, the failure
//! breaker and the portfolio's highest mark, in the one SQLite file that all processes share.
//!
//! Everything that changes happens inside an immediate transaction the caller brings, so that what
//! is checked and what is recorded cannot come apart, whoever else is at work. What is reserved
//! counts in full until it is settled, however long that takes; then it counts from the moment it
//! was settled. So no window of the true spending times ever exceeds its cap.
//!
//! The ledger has a clock of its own, which only goes forward: the latest time any caller told it.
//! A machine's clock that is set back frees nothing. One that is set forward frees nothing either where the chain has a
//! time of its own: then a reservation is judged as of the chain's time ([`reserve_by_chain`]). One that is behind the chain
//! reserves nothing there: what was counted by it would be old at once when it is set right. Calls have their own clock.
//!
//! Not here: what a limit is (see `policy`), prices (see `value`), nonces and signed bytes (see
//! `chain::sender`).

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

pub use bridged::{Leaving, MarkMoved, carried, note_arrived, note_leaving, weigh_away};
pub(crate) use caps::percent;
pub use caps::{Caps, REVOCATIONS_A_DAY, Request, Span, SpendCap, TokenCaps, TokenKey, token_name};
pub use liquidation::{end_liquidation, plan_liquidation};
pub use micros::{Micros, TooMuch, sum};
pub use tables::MIGRATIONS;
pub(crate) use usage::clock;
pub use usage::{Breaker, Usage, Window, held, high_water, usage};
use usage::{sql, token_text};

/// How far a clock may be from a chain's latest block, in milliseconds: some chains make one a minute or two late.
pub const CLOCK_SLACK: u64 = 120_000;

/// Over which time calls are counted, in milliseconds.
const CALL_WINDOW: u64 = 60_000;

/// How long an account must have been worth more before its high-water mark rises, in milliseconds: five blocks of
/// Ethereum's.
pub const MARK_DWELL: u64 = 60_000;
/// The same for a jump beyond [`MARK_JUMP`].
pub const JUMP_DWELL: u64 = 3_600_000;
/// From how many percent of the mark on a rise is a jump that nothing explains.
pub const MARK_JUMP: i64 = 25;
/// How often a jump has to be read.
const JUMP_READINGS: u32 = 3;
/// A mark below this, in millionths of a dollar, is an empty account's: the next reading replaces it.
const SMALLEST_MARK: i64 = 1_000_000;

/// One reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReservationId(i64);

impl ReservationId {
    /// As another room stores it.
    pub fn get(self) -> i64 {
        self.0
    }

    /// As another room has stored it.
    pub fn stored(id: i64) -> Self {
        Self(id)
    }
}

/// Who reserves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Party {
    /// The call it belongs to.
    pub call_id: CallId,
    /// On whose behalf.
    pub golem_id: GolemId,
    /// Where.
    pub chain_id: u64,
    /// Whose money.
    pub account: Address,
}

/// How an action ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It succeeded, and this much counts as spent, gas included.
    Done {
        /// At the prices of the reservation; above the reservation only by a fault.
        spent: Micros,
    },
    /// It came to an end before it did what it was for, without failing: a plan stopped half-way, or an order that
    /// nobody filled.
    Partly {
        /// At the prices of the reservation.
        spent: Micros,
    },
    /// It was included and failed.
    Reverted {
        /// The gas it took.
        gas: Micros,
    },
    /// It failed, and for certain nothing of it can ever be included.
    NotSent,
    /// It was called off before anything was signed; nobody failed.
    Withdrawn,
    /// Nobody can tell yet: everything stays reserved.
    Unclear,
}

/// Why there is no reservation, or no change to one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// Limits stand against it. Nothing was recorded.
    #[error("{} of the policy's limits stand against it", .0.len())]
    Exceeded(Vec<Violation>),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// More dollars than can be counted.
    #[error(transparent)]
    TooMuch(#[from] TooMuch),
    /// No such reservation.
    #[error("the ledger has no reservation {0}")]
    Unknown(i64),
    /// The reservation has been settled before.
    #[error("reservation {id} is settled already, as {state}")]
    Settled {
        /// Which.
        id: i64,
        /// How.
        state: String,
    },
    /// A number the database cannot hold.
    #[error("{value} is too large for the ledger")]
    OutOfRange {
        /// The number.
        value: u64,
    },
    /// Nobody has told the ledger as late a time as the chain's, so what is counted now would be too old later.
    #[error("this machine's clock is {} s behind the chain: set it right, nothing is counted by it until then", .by / 1_000)]
    ClockBehind {
        /// How far, in milliseconds.
        by: u64,
    },
    /// Something in the file makes no sense.
    #[error("the ledger holds {0}: keep the file aside and look at it before anything is spent")]
    Damaged(&'static str),
}

impl From<rusqlite::Error> for LedgerError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error.into())
    }
}

/// Judges `request` under `caps` and, where nothing stands against it, holds what it wants.
///
/// # Errors
/// [`LedgerError::Exceeded`] with every violation; any other [`LedgerError`] means as little may be
/// spent. The caller's transaction must then be given up.
pub fn reserve(
    transaction: &Transaction<'_>,
    now: u64,
    caps: &Caps,
    party: &Party,
    request: &Request,
) -> Result<ReservationId, LedgerError> {
    reserve_at(transaction, advance(transaction, now)?, caps, party, request)
}

/// The same on a chain whose latest block is of `block_time`, in milliseconds since the Unix epoch: neither the machine's
/// clock nor the ledger's counts where it shows a later time than that, apart from [`CLOCK_SLACK`]. What was settled while
/// a clock was ahead counts until that time has come. Where both are behind it by more than that, nothing is reserved but
/// what takes back: an endpoint that lies about the time can only refuse by it.
///
/// # Errors
/// As [`reserve`], and [`LedgerError::ClockBehind`].
pub fn reserve_by_chain(
    transaction: &Transaction<'_>,
    now: u64,
    block_time: u64,
    caps: &Caps,
    party: &Party,
    request: &Request,
) -> Result<ReservationId, LedgerError> {
    let shown = now.max(usage::clock(transaction)?);
    if !request.takes_back && shown.saturating_add(CLOCK_SLACK) < block_time {
        return Err(LedgerError::ClockBehind { by: block_time.saturating_sub(shown) });
    }
    let latest = block_time.saturating_add(CLOCK_SLACK);
    let now = advance(transaction, now.min(latest))?.min(latest);
    reserve_at(transaction, now, caps, party, request)
}

fn reserve_at(
    transaction: &Transaction<'_>,
    now: u64,
    caps: &Caps,
    party: &Party,
    request: &Request,
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
    if usage.breaker == Breaker::HalfOpen && !request.exempt {
        breaker::begin_trial(transaction, id)?;
    }
    Ok(ReservationId(id))
}

/// Records how a reserved action ended. `most_failures` is the policy's `max_consecutive_failures`.
///
/// # Errors
/// [`LedgerError::Settled`] for one that has ended before; [`LedgerError::Unknown`].
pub fn settle(
    transaction: &Transaction<'_>,
    now: u64,
    reservation: ReservationId,
    outcome: Outcome,
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
        Outcome::Done { spent } => ("done", spent, Some(true)),
        Outcome::Partly { spent } => ("done", spent, None),
        Outcome::Reverted { gas } => ("reverted", gas, Some(false)),
        Outcome::NotSent => ("not_sent", Micros::ZERO, Some(false)),
        Outcome::Withdrawn => ("withdrawn", Micros::ZERO, None),
        Outcome::Unclear => {
            transaction
                .prepare_cached("UPDATE ledger_reservation SET state = 'unclear' WHERE id = ?1")?
                .execute([id])?;
            return Ok(());
        }
    };
    transaction
        .prepare_cached("UPDATE ledger_reservation SET state = ?2, settled_at = ?3, settled_micros = ?4 WHERE id = ?1")?
        .execute(params![id, state, sql(now)?, spent.to_sql()])?;
    if spent > Micros::ZERO {
        transaction
            .prepare_cached(
                "INSERT INTO ledger_spent (at, reservation, total)
                 VALUES (?1, ?2, ?3 + coalesce((SELECT total FROM ledger_spent ORDER BY seq DESC LIMIT 1), 0))",
            )?
            .execute(params![sql(now)?, id, spent.to_sql()])?;
    }
    if let Outcome::Done { spent } | Outcome::Partly { spent } = outcome {
        // Nothing can have gone out for more than what counts as spent: of a plan that only began, or an order that took
        // nothing, that is what it cost. Only a completed exit moves more than it counts for.
        let whole = matches!(outcome, Outcome::Done { .. });
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
    if let Outcome::Reverted { gas } = outcome
        && gas > Micros::ZERO
    {
        // A failure takes the chain's coin, and nothing else.
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

/// Holds anew what was reserved once and settled since, because what it was for has happened after all. What was counted
/// when it was settled stays counted, and is not counted twice.
///
/// # Errors
/// [`LedgerError::Unknown`].
pub fn hold_again(
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

/// On whose behalf something was reserved, and by which call.
///
/// # Errors
/// [`LedgerError::Unknown`], or [`LedgerError::Damaged`] for names that are none.
pub fn party(connection: &Connection, reservation: ReservationId) -> Result<(CallId, GolemId), LedgerError> {
    let found: Option<(String, String)> = connection
        .prepare_cached("SELECT call_id, golem_id FROM ledger_reservation WHERE id = ?1")?
        .query_row([reservation.get()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let (call, golem) = found.ok_or(LedgerError::Unknown(reservation.get()))?;
    let call = call.parse().map_err(|_| LedgerError::Damaged("a call's id that is none"))?;
    Ok((call, GolemId::stored(&golem).map_err(|_| LedgerError::Damaged("a Golem's name that is none"))?))
}

/// Remembers what a reserved action moves out of the account, by token; it counts to what was held once it is done.
///
/// # Errors
/// [`LedgerError`].
pub fn note_moved(
    transaction: &Transaction<'_>,
    reservation: ReservationId,
    moved: &BTreeMap<TokenKey, Micros>,
) -> Result<(), LedgerError> {
    for ((chain_id, token), micros) in moved {
        transaction
            .prepare_cached("INSERT INTO ledger_moved (reservation, chain_id, token, micros) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![reservation.get(), sql(*chain_id)?, token_text(*token), micros.to_sql()])?;
    }
    Ok(())
}

/// Remembers to whom a reserved action gives something; they are known once it is done.
///
/// # Errors
/// [`LedgerError`].
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

/// Everyone who was given something before, on whichever chain, by an action that succeeded. A row that cannot be read names
/// nobody.
///
/// # Errors
/// [`LedgerError`].
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
            Err(_) => tracing::warn!("the ledger names a recipient by an address that cannot be read"),
        }
    }
    Ok(recipients)
}

/// Counts one call and judges its caller's rate: at most `most` calls in any 60 seconds, in all processes together. The
/// operator and every Golem have a window of their own: what an agent calls holds up nobody else. Returns the milliseconds
/// until the next call is allowed, where this one exceeds the rate; it then does not count.
///
/// # Errors
/// [`LedgerError`]: it is not counted.
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

/// Tells the ledger what an account is worth; the highest it was told is what the stop-loss measures
/// from.
///
/// # Errors
/// [`LedgerError`].
pub fn observe(transaction: &Transaction<'_>, now: u64, party: &Party, equity: Micros) -> Result<(), LedgerError> {
    let now = advance(transaction, now)?;
    observe_at(transaction, now, party, equity)
}

/// Notes what an account is worth. Its first reading is its high-water mark. Afterwards the mark rises to the least that
/// was read over a dwell ([`MARK_DWELL`]): what one lie, a flash loan or a gift that is withdrawn again made of one reading
/// never raises it. A jump beyond [`MARK_JUMP`] percent has to be read at least [`JUMP_READINGS`] times over
/// [`JUMP_DWELL`]; what a bridge brought is explained by the ledger and raises it at once ([`raise_at`]).
fn observe_at(transaction: &Transaction<'_>, now: u64, party: &Party, equity: Micros) -> Result<(), LedgerError> {
    let (chain_id, account) = (sql(party.chain_id)?, party.account.to_string());
    let forget = || -> Result<(), LedgerError> {
        transaction
            .prepare_cached("DELETE FROM ledger_mark_rise WHERE chain_id = ?1 AND account = ?2")?
            .execute(params![chain_id, account])?;
        Ok(())
    };
    let begin = |readings: u32, least: Micros, since: u64| -> Result<(), LedgerError> {
        transaction
            .prepare_cached(
                "INSERT OR REPLACE INTO ledger_mark_rise (chain_id, account, micros, since, readings)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![chain_id, account, least.to_sql(), sql(since)?, readings])?;
        Ok(())
    };
    let mark = bridged::mark(transaction, party.chain_id, party.account)?.unwrap_or_default();
    if mark.to_sql() < SMALLEST_MARK {
        forget()?;
        return raise_at(transaction, now, party, equity);
    }
    if equity <= mark {
        return forget();
    }
    let rise: Option<(i64, i64, u32)> = transaction
        .prepare_cached("SELECT micros, since, readings FROM ledger_mark_rise WHERE chain_id = ?1 AND account = ?2")?
        .query_row(params![chain_id, account], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let Some((least, since, readings)) = rise else { return begin(1, equity, now) };
    let (least, since) = (Micros::from_sql(least)?.min(equity), usage::time(since)?);
    let readings = readings.saturating_add(1);
    let jumps = least.to_sql() / 100 > mark.to_sql() / 100 + mark.to_sql() / 10_000 * MARK_JUMP;
    let (dwell, least_readings) = if jumps { (JUMP_DWELL, JUMP_READINGS) } else { (MARK_DWELL, 2) };
    if now.saturating_sub(since) < dwell || readings < least_readings {
        return begin(readings, least, since);
    }
    raise_at(transaction, now, party, least)?;
    if equity > least { begin(1, equity, now) } else { forget() }
}

/// Raises an account's high-water mark to `to`, where it is lower.
fn raise_at(transaction: &Transaction<'_>, now: u64, party: &Party, to: Micros) -> Result<(), LedgerError> {
    transaction
        .prepare_cached(
            "INSERT INTO ledger_high_water (chain_id, account, micros, at) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (chain_id, account) DO UPDATE SET micros = ?3, at = ?4 WHERE micros < ?3",
        )?
        .execute(params![sql(party.chain_id)?, party.account.to_string(), to.to_sql(), sql(now)?])?;
    Ok(())
}

/// Sets an account's highest mark to what it is worth now, by the operator's word: after a
/// withdrawal, or to go on after a loss.
///
/// # Errors
/// [`LedgerError`].
pub fn set_high_water(
    transaction: &Transaction<'_>,
    now: u64,
    party: &Party,
    equity: Micros,
) -> Result<(), LedgerError> {
    let now = advance(transaction, now)?;
    forget_rises(transaction, party.account)?;
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO ledger_high_water (chain_id, account, micros, at) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![sql(party.chain_id)?, party.account.to_string(), equity.to_sql(), sql(now)?])?;
    Ok(())
}

/// Forgets an account's highest marks, by the operator's word: what it is worth at its next action is its mark then.
/// Answers how many there were.
///
/// # Errors
/// [`LedgerError`].
pub fn forget_high_water(transaction: &Transaction<'_>, account: Address) -> Result<usize, LedgerError> {
    bridged::forget_marks(transaction, account)?;
    forget_rises(transaction, account)?;
    Ok(transaction
        .prepare_cached("DELETE FROM ledger_high_water WHERE account = ?1")?
        .execute([account.to_string()])?)
}

/// Forgets by how much an account's marks were about to rise.
fn forget_rises(transaction: &Transaction<'_>, account: Address) -> Result<(), LedgerError> {
    transaction.prepare_cached("DELETE FROM ledger_mark_rise WHERE account = ?1")?.execute([account.to_string()])?;
    Ok(())
}

/// Failures in a row that the breaker counts: of actions that were tried, by any process on this ledger.
///
/// # Errors
/// [`LedgerError`].
pub fn failures(connection: &Connection) -> Result<u32, LedgerError> {
    breaker::failures(connection)
}

/// Forgets everything that was spent, held and counted: for a ledger of paper trading, which begins again.
///
/// # Errors
/// The database's failure.
pub(super) fn forget_all(transaction: &Transaction<'_>) -> Result<(), StoreError> {
    // Rows go before those that they refer to.
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

/// Closes the breaker, by the operator's word.
///
/// # Errors
/// [`LedgerError`].
pub fn reset_breaker(transaction: &Transaction<'_>) -> Result<(), LedgerError> {
    breaker::reset(transaction)
}

/// Moves the ledger's clock on to `now`, never back; answers what it shows.
fn advance(transaction: &Transaction<'_>, now: u64) -> Result<u64, LedgerError> {
    let now = now.max(usage::clock(transaction)?);
    transaction
        .prepare_cached("INSERT INTO ledger_clock (one, now) VALUES (1, ?1) ON CONFLICT (one) DO UPDATE SET now = ?1")?
        .execute([sql(now)?])?;
    Ok(now)
}
