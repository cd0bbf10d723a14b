//! Bridged value and the high-water marks.
//!
//! Each chain has its own high-water mark. Value that a bridge carries to another chain is not a loss there, and a loss
//! must not disappear by bridging the rest. So the mark moves with the value: if a part of the holdings leaves, the
//! same part of the mark moves to the destination chain on arrival. The drawdown in percent stays the same on both
//! sides.
//!
//! If it is uncertain whether the value of one order was part of the total from which another one left, neither mark
//! may become too low. The source's mark is lowered by the smallest possible amount, and the destination's mark is
//! raised by the largest.
//!
//! Not here: whether an order's value is in transit (see `operator_policy::away`), and whether it has arrived (see
//! `orders::bridge`).

use alloy::primitives::Address;
use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use super::usage::{sql, time};
use super::{LedgerError, MicroUsd, Originator, ReservationId, raise_by_arrival};

/// Value that one bridge order carries away, as of its reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BridgedValue {
    /// Dollar value of the order.
    pub worth: MicroUsd,
    /// Dollar value of all the account's holdings on the source chain, including this order.
    pub whole: MicroUsd,
    /// Chain id of the destination.
    pub to: u64,
}

/// Change of the source chain's high-water mark after an arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MarkChange {
    /// High-water mark of the source chain before.
    pub before: MicroUsd,
    /// High-water mark of the source chain after.
    pub after: MicroUsd,
}

/// Stores the value that a reserved bridge order carries away.
///
/// # Errors
/// [`LedgerError`] if the database fails or a figure is out of range.
pub fn record_bridged(
    transaction: &Transaction<'_>,
    reservation: ReservationId,
    party: &Originator,
    leaving: BridgedValue,
) -> Result<(), LedgerError> {
    // An order cannot carry away more than the whole.
    let worth = leaving.worth.min(leaving.whole);
    let there = mark(transaction, leaving.to, party.account)?.unwrap_or_default();
    transaction
        .prepare_cached(
            "INSERT INTO ledger_bridged (reservation, chain_id, account, worth, whole, least, seen, to_chain, to_mark)
             VALUES (?1, ?2, ?3, ?4, ?5, ?5, 1, ?6, ?7)",
        )?
        .execute(params![
            reservation.get(),
            sql(party.chain_id)?,
            party.account.to_string(),
            worth.to_sql(),
            leaving.whole.to_sql(),
            sql(leaving.to)?,
            there.to_sql(),
        ])?;
    Ok(())
}

/// Updates the value of bridge orders that have not ended. `whole` is the value of all the account's holdings on the
/// chain. `away` lists the part that each order accounts for, whether it is still in the wallet or counted as in
/// transit. An order that is not listed counts as unseen.
///
/// # Errors
/// [`LedgerError`] if the database fails or a figure is out of range.
pub fn update_in_transit(
    transaction: &Transaction<'_>,
    party: &Originator,
    whole: MicroUsd,
    away: &[(ReservationId, MicroUsd)],
) -> Result<(), LedgerError> {
    transaction
        .prepare_cached("UPDATE ledger_bridged SET seen = 0 WHERE chain_id = ?1 AND account = ?2")?
        .execute(params![sql(party.chain_id)?, party.account.to_string()])?;
    for (reservation, worth) in away {
        transaction
            .prepare_cached(
                "UPDATE ledger_bridged SET worth = ?2, whole = ?3, least = ?3, seen = 1 WHERE reservation = ?1",
            )?
            .execute(params![reservation.get(), (*worth).min(whole).to_sql(), whole.to_sql()])?;
    }
    Ok(())
}

/// Returns what bridge orders that have not ended carry from a chain, in millionths of a dollar. It still belongs to
/// the account, and the stop-loss counts it.
///
/// # Errors
/// [`LedgerError`] where the ledger cannot be read.
pub fn carried(connection: &Connection, chain_id: u64, account: Address) -> Result<MicroUsd, LedgerError> {
    let worth: i64 = connection
        .prepare_cached("SELECT coalesce(sum(worth), 0) FROM ledger_bridged WHERE chain_id = ?1 AND account = ?2")?
        .query_row(params![sql(chain_id)?, account.to_string()], |row| row.get(0))?;
    Ok(MicroUsd::from_sql(worth)?)
}

/// Moves the share of the source chain's high-water mark that belongs to an arrived bridge order. Returns `None` if the
/// source has no mark, or if the order's value is unknown.
///
/// # Errors
/// [`LedgerError`] if the database fails or a stored figure is invalid.
pub fn note_arrived(
    transaction: &Transaction<'_>,
    now: u64,
    reservation: ReservationId,
) -> Result<Option<MarkChange>, LedgerError> {
    let Some(row) = row(transaction, reservation)? else { return Ok(None) };
    transaction.prepare_cached("DELETE FROM ledger_bridged WHERE reservation = ?1")?.execute([reservation.get()])?;
    let Some(before) = mark(transaction, row.chain_id, row.account)? else { return Ok(None) };
    if row.whole == MicroUsd::ZERO {
        return Ok(None);
    }
    let stays = |mark: MicroUsd| part(mark, row.whole.less(row.worth), row.whole);
    let after = stays(before);
    set_mark(transaction, row.chain_id, row.account, after)?;
    // Reduce the totals of the other orders from this chain by the value that arrived. `whole` shrinks only where it
    // certainly included that value, `least` always, since it may have.
    transaction
        .prepare_cached(
            "UPDATE ledger_bridged SET
                 whole = CASE WHEN ?4 AND seen = 1 AND whole - ?3 >= worth THEN whole - ?3 ELSE whole END,
                 least = max(worth, least - ?3)
             WHERE chain_id = ?1 AND account = ?2",
        )?
        .execute(params![sql(row.chain_id)?, row.account.to_string(), row.worth.to_sql(), row.seen])?;
    // Arrived value may have been observed before its order ended. Then the destination's mark includes it already, so
    // raise from the mark at reservation time.
    let went = before.less(part(before, row.least.less(row.worth), row.least));
    let party = Originator { chain_id: row.to_chain, ..row.party(transaction, reservation)? };
    raise_by_arrival(transaction, now, &party, row.to_mark.plus(went)?)?;
    for other in others(transaction, row.account)? {
        let there = match other.to_chain {
            chain if chain == row.to_chain => other.to_mark.plus(went)?,
            chain if chain == row.chain_id => stays(other.to_mark),
            _ => continue,
        };
        transaction
            .prepare_cached("UPDATE ledger_bridged SET to_mark = ?2 WHERE reservation = ?1")?
            .execute(params![other.reservation, there.to_sql()])?;
    }
    Ok(Some(MarkChange { before, after }))
}

/// Deletes the record of a bridge order that has ended.
pub(super) fn forget(transaction: &Transaction<'_>, reservation: i64) -> Result<(), LedgerError> {
    transaction.prepare_cached("DELETE FROM ledger_bridged WHERE reservation = ?1")?.execute([reservation])?;
    Ok(())
}

/// Resets the stored destination marks of an account's bridge orders, when the marks themselves are deleted.
pub(super) fn forget_marks(transaction: &Transaction<'_>, account: Address) -> Result<(), LedgerError> {
    transaction
        .prepare_cached("UPDATE ledger_bridged SET to_mark = 0 WHERE account = ?1")?
        .execute([account.to_string()])?;
    Ok(())
}

/// Returns `mark` × `share` / `all`, rounded up and at most `mark`. A mark that is too high errs on the safe side.
fn part(mark: MicroUsd, share: MicroUsd, all: MicroUsd) -> MicroUsd {
    let product = u128::from(mark.get()) * u128::from(share.get());
    let part = product.div_ceil(u128::from(all.get()).max(1));
    u64::try_from(part).ok().and_then(|part| MicroUsd::new(part).ok()).unwrap_or(mark).min(mark)
}

struct Row {
    reservation: i64,
    chain_id: u64,
    account: Address,
    worth: MicroUsd,
    whole: MicroUsd,
    /// Lower bound of `whole`, without the value of orders that may have left it; at least `worth`.
    least: MicroUsd,
    seen: bool,
    to_chain: u64,
    to_mark: MicroUsd,
}

impl Row {
    fn party(&self, connection: &Connection, reservation: ReservationId) -> Result<Originator, LedgerError> {
        let (call_id, golem_id) = super::party(connection, reservation)?;
        Ok(Originator { call_id, golem_id, chain_id: self.chain_id, account: self.account })
    }
}

const COLUMNS: &str = "reservation, chain_id, account, worth, whole, least, seen, to_chain, to_mark";

type Raw = (i64, i64, String, [i64; 3], bool, i64, i64);

fn raw(row: &rusqlite::Row<'_>) -> rusqlite::Result<Raw> {
    let amounts = [row.get(3)?, row.get(4)?, row.get(5)?];
    Ok((row.get(0)?, row.get(1)?, row.get(2)?, amounts, row.get(6)?, row.get(7)?, row.get(8)?))
}

fn read(
    (reservation, chain_id, account, [worth, whole, least], seen, to_chain, to_mark): Raw,
) -> Result<Row, LedgerError> {
    Ok(Row {
        reservation,
        chain_id: time(chain_id)?,
        account: account.parse().map_err(|_| LedgerError::Damaged("an invalid account"))?,
        worth: MicroUsd::from_sql(worth)?,
        whole: MicroUsd::from_sql(whole)?,
        least: MicroUsd::from_sql(least)?,
        seen,
        to_chain: time(to_chain)?,
        to_mark: MicroUsd::from_sql(to_mark)?,
    })
}

fn row(connection: &Connection, reservation: ReservationId) -> Result<Option<Row>, LedgerError> {
    let found = connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM ledger_bridged WHERE reservation = ?1"))?
        .query_row([reservation.get()], raw)
        .optional()?;
    found.map(read).transpose()
}

fn others(connection: &Connection, account: Address) -> Result<Vec<Row>, LedgerError> {
    let mut statement =
        connection.prepare_cached(&format!("SELECT {COLUMNS} FROM ledger_bridged WHERE account = ?1"))?;
    let rows = statement.query_map([account.to_string()], raw)?.collect::<Result<Vec<_>, _>>()?;
    rows.into_iter().map(read).collect()
}

pub(super) fn mark(connection: &Connection, chain_id: u64, account: Address) -> Result<Option<MicroUsd>, LedgerError> {
    let mark: Option<i64> = connection
        .prepare_cached("SELECT micros FROM ledger_high_water WHERE chain_id = ?1 AND account = ?2")?
        .query_row(params![sql(chain_id)?, account.to_string()], |row| row.get(0))
        .optional()?;
    Ok(mark.map(MicroUsd::from_sql).transpose()?)
}

fn set_mark(transaction: &Transaction<'_>, chain_id: u64, account: Address, mark: MicroUsd) -> Result<(), LedgerError> {
    transaction
        .prepare_cached("UPDATE ledger_high_water SET micros = ?3 WHERE chain_id = ?1 AND account = ?2")?
        .execute(params![sql(chain_id)?, account.to_string(), mark.to_sql()])?;
    Ok(())
}
