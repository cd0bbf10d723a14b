//! What bridges carry away, and what becomes of the highest marks by it.
//!
//! A mark is kept for each chain. What a bridge carries to another chain is no loss, and what was lost before is not made
//! good by it: the mark goes with the money. As large a part of it as the part of the holdings that left goes from the
//! chain it left to the chain where it has arrived. So the fall in percent stays what it was on both sides, and nobody
//! can leave a loss behind by carrying the rest to and fro. Where it cannot be told whether the money of one order was
//! among what another left of, neither mark may come out too low by it: the one is lowered by the least that it may have
//! been, the other raised by the most.
//!
//! Not here: whether the money of an order is on its way (see `operator::away`), and whether it has arrived (see
//! `orders::bridge`).

use alloy::primitives::Address;
use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use super::usage::{sql, time};
use super::{LedgerError, Micros, Party, ReservationId, raise_at};

/// What one bridge order is to carry away, as it stood when it was reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leaving {
    /// What it is worth.
    pub worth: Micros,
    /// All that the account has on the chain it leaves, this included.
    pub whole: Micros,
    /// Where it is to arrive.
    pub to: u64,
}

/// What of the highest marks has gone from one chain to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MarkMoved {
    /// The mark of the chain it left, before.
    pub before: Micros,
    /// The same after.
    pub after: Micros,
}

/// Remembers what a reserved bridge order is to carry away.
///
/// # Errors
/// [`LedgerError`].
pub fn note_leaving(
    transaction: &Transaction<'_>,
    reservation: ReservationId,
    party: &Party,
    leaving: Leaving,
) -> Result<(), LedgerError> {
    // Of a sum nothing can leave that is more than the sum.
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

/// Weighs anew what bridge orders carry from a chain: `away` says what of it is among `whole`, all that the account has
/// there. It is where it is in the wallet still, and where it is counted as on its way.
///
/// # Errors
/// [`LedgerError`].
pub fn weigh_away(
    transaction: &Transaction<'_>,
    party: &Party,
    whole: Micros,
    away: &[(ReservationId, Micros)],
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

/// Returns what bridge orders that have not ended carry from a chain, in millionths of a dollar. It still belongs to the
/// account, and the stop-loss counts it.
///
/// # Errors
/// [`LedgerError`] where the ledger cannot be read.
pub fn carried(connection: &Connection, chain_id: u64, account: Address) -> Result<Micros, LedgerError> {
    let worth: i64 = connection
        .prepare_cached("SELECT coalesce(sum(worth), 0) FROM ledger_bridged WHERE chain_id = ?1 AND account = ?2")?
        .query_row(params![sql(chain_id)?, account.to_string()], |row| row.get(0))?;
    Ok(Micros::from_sql(worth)?)
}

/// Lets the mark follow what has arrived. Nothing where there is no mark, or nothing is known of what left.
///
/// # Errors
/// [`LedgerError`].
pub fn note_arrived(
    transaction: &Transaction<'_>,
    now: u64,
    reservation: ReservationId,
) -> Result<Option<MarkMoved>, LedgerError> {
    let Some(row) = row(transaction, reservation)? else { return Ok(None) };
    transaction.prepare_cached("DELETE FROM ledger_bridged WHERE reservation = ?1")?.execute([reservation.get()])?;
    let Some(before) = mark(transaction, row.chain_id, row.account)? else { return Ok(None) };
    if row.whole == Micros::ZERO {
        return Ok(None);
    }
    let stays = |mark: Micros| part(mark, row.whole.less(row.worth), row.whole);
    let after = stays(before);
    set_mark(transaction, row.chain_id, row.account, after)?;
    // Others on their way from there were weighed with this one among all that there was; where it was not known of, they
    // may have been.
    transaction
        .prepare_cached(
            "UPDATE ledger_bridged SET
                 whole = CASE WHEN ?4 AND seen = 1 AND whole - ?3 >= worth THEN whole - ?3 ELSE whole END,
                 least = max(worth, least - ?3)
             WHERE chain_id = ?1 AND account = ?2",
        )?
        .execute(params![sql(row.chain_id)?, row.account.to_string(), row.worth.to_sql(), row.seen])?;
    // What arrives may have been seen before its order ended: then the mark over there has risen by it already.
    let went = before.less(part(before, row.least.less(row.worth), row.least));
    let party = Party { chain_id: row.to_chain, ..row.party(transaction, reservation)? };
    raise_at(transaction, now, &party, row.to_mark.plus(went)?)?;
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
    Ok(Some(MarkMoved { before, after }))
}

/// Forgets what was to leave by an order that has ended.
pub(super) fn forget(transaction: &Transaction<'_>, reservation: i64) -> Result<(), LedgerError> {
    transaction.prepare_cached("DELETE FROM ledger_bridged WHERE reservation = ?1")?.execute([reservation])?;
    Ok(())
}

/// Forgets which marks stood where something is to arrive: they are forgotten themselves.
pub(super) fn forget_marks(transaction: &Transaction<'_>, account: Address) -> Result<(), LedgerError> {
    transaction
        .prepare_cached("UPDATE ledger_bridged SET to_mark = 0 WHERE account = ?1")?
        .execute([account.to_string()])?;
    Ok(())
}

/// `mark` times `share` over `all`, rounded up: a mark that is too high errs on the safe side.
fn part(mark: Micros, share: Micros, all: Micros) -> Micros {
    let product = u128::from(mark.get()) * u128::from(share.get());
    let part = product.div_ceil(u128::from(all.get()).max(1));
    u64::try_from(part).ok().and_then(|part| Micros::new(part).ok()).unwrap_or(mark).min(mark)
}

struct Row {
    reservation: i64,
    chain_id: u64,
    account: Address,
    worth: Micros,
    whole: Micros,
    /// The same without what may have left before: no more than `whole`, and no less than `worth`.
    least: Micros,
    seen: bool,
    to_chain: u64,
    to_mark: Micros,
}

impl Row {
    fn party(&self, connection: &Connection, reservation: ReservationId) -> Result<Party, LedgerError> {
        let (call_id, golem_id) = super::party(connection, reservation)?;
        Ok(Party { call_id, golem_id, chain_id: self.chain_id, account: self.account })
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
        account: account.parse().map_err(|_| LedgerError::Damaged("an account that is none"))?,
        worth: Micros::from_sql(worth)?,
        whole: Micros::from_sql(whole)?,
        least: Micros::from_sql(least)?,
        seen,
        to_chain: time(to_chain)?,
        to_mark: Micros::from_sql(to_mark)?,
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

pub(super) fn mark(connection: &Connection, chain_id: u64, account: Address) -> Result<Option<Micros>, LedgerError> {
    let mark: Option<i64> = connection
        .prepare_cached("SELECT micros FROM ledger_high_water WHERE chain_id = ?1 AND account = ?2")?
        .query_row(params![sql(chain_id)?, account.to_string()], |row| row.get(0))
        .optional()?;
    Ok(mark.map(Micros::from_sql).transpose()?)
}

fn set_mark(transaction: &Transaction<'_>, chain_id: u64, account: Address, mark: Micros) -> Result<(), LedgerError> {
    transaction
        .prepare_cached("UPDATE ledger_high_water SET micros = ?3 WHERE chain_id = ?1 AND account = ?2")?
        .execute(params![sql(chain_id)?, account.to_string(), mark.to_sql()])?;
    Ok(())
}
