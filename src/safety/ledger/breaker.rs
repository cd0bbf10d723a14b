//! The failure breaker: so many failures in a row stop new trades for a while; then one trial is
//! made, and its success closes the breaker again, its failure begins another cool-off.
//!
//! While it is open, exits go on, and how they end changes nothing: neither do their failures hold
//! it open, nor do their successes vouch for trades.

use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::LedgerError;
use super::usage::{Breaker, sql, time};

struct Row {
    failures: u32,
    opened_at: Option<u64>,
    trial: Option<i64>,
}

fn read(connection: &Connection) -> Result<Row, LedgerError> {
    let stored: Option<(i64, Option<i64>, Option<i64>)> = connection
        .prepare_cached("SELECT failures, opened_at, trial FROM ledger_breaker WHERE one = 1")?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let Some((failures, opened_at, trial)) = stored else {
        return Ok(Row { failures: 0, opened_at: None, trial: None });
    };
    Ok(Row {
        failures: u32::try_from(failures).unwrap_or(u32::MAX),
        opened_at: opened_at.map(time).transpose()?,
        trial,
    })
}

fn write(transaction: &Transaction<'_>, row: &Row) -> Result<(), LedgerError> {
    transaction
        .prepare_cached(
            "INSERT INTO ledger_breaker (one, failures, opened_at, trial) VALUES (1, ?1, ?2, ?3)
         ON CONFLICT (one) DO UPDATE SET failures = ?1, opened_at = ?2, trial = ?3",
        )?
        .execute(params![row.failures, row.opened_at.map(sql).transpose()?, row.trial])?;
    Ok(())
}

/// What the failures so far have come to.
pub(super) fn state(connection: &Connection, now: u64, cool_off: u64) -> Result<Breaker, LedgerError> {
    let Row { failures, opened_at, trial } = read(connection)?;
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
    let next = match (row.opened_at, row.trial == Some(reservation), success) {
        // Closed: what happens counts.
        (None, _, Some(true)) => Row { failures: 0, opened_at: None, trial: None },
        (None, _, Some(false)) => {
            let failures = row.failures.saturating_add(1);
            Row { failures, opened_at: (failures >= most.max(1)).then_some(now), trial: None }
        }
        // Open: the trial alone decides.
        (Some(_), true, Some(true)) => Row { failures: 0, opened_at: None, trial: None },
        (Some(_), true, Some(false)) => {
            Row { failures: row.failures.saturating_add(1), opened_at: Some(now), trial: None }
        }
        // The trial was called off: another may be made.
        (Some(_), true, None) => Row { trial: None, ..row },
        (Some(_), false, _) | (None, _, None) => return Ok(()),
    };
    write(transaction, &next)
}

/// Closes it, by the operator's word.
pub(super) fn reset(transaction: &Transaction<'_>) -> Result<(), LedgerError> {
    write(transaction, &Row { failures: 0, opened_at: None, trial: None })
}
