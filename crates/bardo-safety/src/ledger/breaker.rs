//! The failure breaker: a number of failures in a row stops new trades for a while; then one trial is
//! made, and its success closes the breaker again, its failure begins another cool-off.
//!
//! Only a success of the kind that failed resets the count: a trade that moved money, worth at least
//! a tenth of the largest trade that failed ([`FAILED_PART`]), or at least a dollar where only actions that
//! are no trades failed ([`LEAST`]). Approvals, transfers, revocations, cancellations and refunds neither
//! reset the count nor close the breaker, nor does a plan that stopped half-way or an order that nobody filled.
//!
//! While it is open, exits go on, and how they end changes nothing: neither do their failures hold
//! it open, nor do their successes vouch for trades.

use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::LedgerError;
use super::micros::Micros;
use super::usage::{Breaker, sql, time};

/// What part of the largest failed trade a success must be worth: one in this many.
const FAILED_PART: u64 = 10;

/// What a success must be worth where no trade failed, in millionths of a dollar.
const LEAST: u64 = 1_000_000;

struct Row {
    failures: u32,
    opened_at: Option<u64>,
    trial: Option<i64>,
    /// The largest trade among the failures counted.
    largest: Micros,
}

impl Row {
    const CLOSED: Self = Self { failures: 0, opened_at: None, trial: None, largest: Micros::ZERO };

    /// Whether a successful trade of this worth shows that what failed works again.
    fn is_disproved_by(&self, traded: Micros) -> bool {
        let least = if self.largest == Micros::ZERO { LEAST } else { self.largest.get().div_ceil(FAILED_PART) };
        traded.get() >= least
    }

    fn failed(self, traded: Micros) -> Self {
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
        largest: Micros::from_sql(largest)?,
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

/// Failures in a row, however long ago, since the last success that vouches for them.
pub(super) fn failures(connection: &Connection) -> Result<u32, LedgerError> {
    read(connection).map(|row| row.failures)
}

/// What the failures so far have come to.
pub(super) fn state(connection: &Connection, now: u64, cool_off: u64) -> Result<Breaker, LedgerError> {
    let Row { failures, opened_at, trial, .. } = read(connection)?;
    Ok(match (opened_at, trial) {
        (None, _) => Breaker::Closed { failures },
        (Some(_), Some(_)) => Breaker::Trial,
        (Some(opened), None) => {
            let until = opened.saturating_add(cool_off);
            if now >= until { Breaker::HalfOpen } else { Breaker::Open { until, failures } }
        }
    })
}

/// Makes a reservation the one trial.
pub(super) fn begin_trial(transaction: &Transaction<'_>, reservation: i64) -> Result<(), LedgerError> {
    let row = read(transaction)?;
    write(transaction, &Row { trial: Some(reservation), ..row })
}

/// Takes in how a reservation ended; `None` where it ended in neither success nor failure.
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
    let traded = Micros::from_sql(traded)?;
    let next = match (row.opened_at, row.trial == Some(reservation), success) {
        // Closed: what happens counts.
        (None, _, Some(true)) if row.is_disproved_by(traded) => Row::CLOSED,
        (None, _, Some(false)) => {
            let row = row.failed(traded);
            let opened_at = (row.failures >= most.max(1)).then_some(now);
            Row { opened_at, trial: None, ..row }
        }
        // Open: the trial alone decides.
        (Some(_), true, Some(true)) if row.is_disproved_by(traded) => Row::CLOSED,
        (Some(_), true, Some(false)) => Row { opened_at: Some(now), trial: None, ..row.failed(traded) },
        // The trial was called off, or shows nothing of what failed: another may be made.
        (Some(_), true, None | Some(true)) => Row { trial: None, ..row },
        (Some(_), false, _) | (None, _, None | Some(true)) => return Ok(()),
    };
    write(transaction, &next)
}

/// Closes it, by the operator's word.
pub(super) fn reset(transaction: &Transaction<'_>) -> Result<(), LedgerError> {
    write(transaction, &Row::CLOSED)
}
