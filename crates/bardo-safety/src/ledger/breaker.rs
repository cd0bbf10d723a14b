//! Failure breaker. A number of consecutive failures blocks new trades for a cool-off period. Then one trial is
//! allowed: its success closes the breaker, and its failure starts another cool-off.
//!
//! Only a success comparable to the failures resets the count: a trade worth at least a tenth of the largest failed
//! trade ([`FAILED_PART`]). If no trade failed, it must be worth at least a dollar ([`LEAST`]). Approvals, transfers,
//! revocations, cancellations and refunds neither reset the count nor close the breaker. The same holds for a plan that
//! stopped half-way and for an order that was not filled.
//!
//! While the breaker is open, exits are still allowed, and their outcomes do not affect it: a failed exit does not keep
//! it open, and a successful one does not close it.

use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::LedgerError;
use super::micros::MicroUsd;
use super::usage::{FailureBreaker, sql, time};

/// Divisor of the largest failed trade: a success must be worth at least this fraction of it.
const FAILED_PART: u64 = 10;

/// Minimum value of a success if no trade failed, in millionths of a dollar.
const LEAST: u64 = 1_000_000;

struct Row {
    failures: u32,
    opened_at: Option<u64>,
    trial: Option<i64>,
    /// Value of the largest trade among the counted failures.
    largest: MicroUsd,
}

impl Row {
    const CLOSED: Self = Self { failures: 0, opened_at: None, trial: None, largest: MicroUsd::ZERO };

    /// Returns true if a successful trade of this value resets the count.
    fn is_disproved_by(&self, traded: MicroUsd) -> bool {
        let least = if self.largest == MicroUsd::ZERO { LEAST } else { self.largest.get().div_ceil(FAILED_PART) };
        traded.get() >= least
    }

    fn failed(self, traded: MicroUsd) -> Self {
        Self { failures: self.failures.saturating_add(1), largest: self.largest.max(traded), ..self }
    }
}

fn read(connection: &Connection) -> Result<Row, LedgerError> {
    let stored: Option<(i64, Option<i64>, Option<i64>, i64)> = connection
        .prepare_cached("SELECT failures, opened_at, trial, largest FROM ledger_breaker WHERE one = 1")?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
        .optional()?;
    let Some((failures, opened_at, trial, largest)) = stored else { return Ok(Row::CLOSED) };
    Ok(Row {
        failures: u32::try_from(failures).unwrap_or(u32::MAX),
        opened_at: opened_at.map(time).transpose()?,
        trial,
        largest: MicroUsd::from_sql(largest)?,
    })
}

fn write(transaction: &Transaction<'_>, row: &Row) -> Result<(), LedgerError> {
    transaction
        .prepare_cached(
            "INSERT INTO ledger_breaker (one, failures, opened_at, trial, largest) VALUES (1, ?1, ?2, ?3, ?4)
         ON CONFLICT (one) DO UPDATE SET failures = ?1, opened_at = ?2, trial = ?3, largest = ?4",
        )?
        .execute(params![row.failures, row.opened_at.map(sql).transpose()?, row.trial, row.largest.to_sql()])?;
    Ok(())
}

/// Returns the number of consecutive failures since the last success that reset the count.
pub(super) fn failures(connection: &Connection) -> Result<u32, LedgerError> {
    read(connection).map(|row| row.failures)
}

/// Returns the breaker's state at `now`, with a cool-off of `cool_off` milliseconds.
pub(super) fn state(connection: &Connection, now: u64, cool_off: u64) -> Result<FailureBreaker, LedgerError> {
    let Row { failures, opened_at, trial, .. } = read(connection)?;
    Ok(match (opened_at, trial) {
        (None, _) => FailureBreaker::Closed { failures },
        (Some(_), Some(_)) => FailureBreaker::Trial,
        (Some(opened), None) => {
            let until = opened.saturating_add(cool_off);
            if now >= until { FailureBreaker::HalfOpen } else { FailureBreaker::Open { until, failures } }
        }
    })
}

/// Records `reservation` as the trial of a half-open breaker.
pub(super) fn begin_trial(transaction: &Transaction<'_>, reservation: i64) -> Result<(), LedgerError> {
    let row = read(transaction)?;
    write(transaction, &Row { trial: Some(reservation), ..row })
}

/// Records how a reservation ended; `success` is `None` if it neither succeeded nor failed. `most` failures open the
/// breaker.
pub(super) fn learn(
    transaction: &Transaction<'_>,
    now: u64,
    reservation: i64,
    success: Option<bool>,
    most: u32,
) -> Result<(), LedgerError> {
    let row = read(transaction)?;
    let traded: i64 = transaction
        .prepare_cached("SELECT traded FROM ledger_reservation WHERE id = ?1")?
        .query_row([reservation], |row| row.get(0))?;
    let traded = MicroUsd::from_sql(traded)?;
    let next = match (row.opened_at, row.trial == Some(reservation), success) {
        // Closed: every failure counts, and a comparable success resets the count.
        (None, _, Some(true)) if row.is_disproved_by(traded) => Row::CLOSED,
        (None, _, Some(false)) => {
            let row = row.failed(traded);
            let opened_at = (row.failures >= most.max(1)).then_some(now);
            Row { opened_at, trial: None, ..row }
        }
        // Open: only the trial counts.
        (Some(_), true, Some(true)) if row.is_disproved_by(traded) => Row::CLOSED,
        (Some(_), true, Some(false)) => Row { opened_at: Some(now), trial: None, ..row.failed(traded) },
        // The trial was withdrawn or is not comparable to the failures: allow another one.
        (Some(_), true, None | Some(true)) => Row { trial: None, ..row },
        (Some(_), false, _) | (None, _, None | Some(true)) => return Ok(()),
    };
    write(transaction, &next)
}

/// Closes the breaker and resets the count, on the operator's command.
pub(super) fn reset(transaction: &Transaction<'_>) -> Result<(), LedgerError> {
    write(transaction, &Row::CLOSED)
}
