//! Nonce allocation, with one lane per chain and account. A nonce is allocated in the same database transaction that
//! reserves the funds. Concurrent tasks, several processes or a crash therefore never use a nonce twice or skip one.
//!
//! | `sender_nonce.state` | meaning |
//! |---|---|
//! | `reserved` | allocated for signing; nothing signed is stored yet |
//! | `free` | released while later ones were allocated: the next transaction uses it |
//! | `signed` | a signed transaction with it is in `sender_transaction` |
//!
//! If the chain is ahead of the lane, something else uses the account outside of Bardo. Nothing is signed then until
//! [`reconcile`] accepts that state.

use alloy::primitives::Address;
use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use bardo_store::StoreError;

/// Tables of lanes and nonces.
pub(super) const TABLES: &str = "
CREATE TABLE sender_lane (
    chain_id INTEGER NOT NULL,
    account BLOB NOT NULL,
    next_nonce INTEGER NOT NULL,
    PRIMARY KEY (chain_id, account)
) STRICT, WITHOUT ROWID;
CREATE TABLE sender_nonce (
    ticket INTEGER PRIMARY KEY AUTOINCREMENT,
    chain_id INTEGER NOT NULL,
    account BLOB NOT NULL,
    nonce INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('reserved', 'free', 'signed')),
    reserved_at INTEGER NOT NULL,
    UNIQUE (chain_id, account, nonce)
) STRICT;
";

/// Maximum number of nonces that [`reconcile`] frees at once.
const MOST_GIVEN_BACK: u64 = 1_024;

/// Column for the store session that allocated a nonce.
pub(super) const SESSIONS: &str = "ALTER TABLE sender_nonce ADD COLUMN session TEXT";

/// An account's transaction counts on the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainNonces {
    /// Number of included transactions, which is the next nonce to be included.
    pub latest: u64,
    /// Same, including transactions that are pending at the endpoint.
    pub pending: u64,
}

/// An allocated nonce. The holder must sign with it or release it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a nonce that is neither used nor released blocks all later ones"]
pub struct NonceReservation {
    pub(super) ticket: i64,
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// Account that the nonce belongs to.
    pub account: Address,
    /// The allocated nonce.
    pub nonce: u64,
}

/// Error of the nonce allocation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LaneError {
    /// The account has sent transactions that are not in this ledger.
    #[error(
        "account {account} is at nonce {chain} on chain {chain_id}, but at {ledger} in this ledger: something else has \
         sent from it; nothing is signed with it until you confirm this with `bardo reconcile`"
    )]
    ChainAhead {
        /// EIP-155 id of the chain.
        chain_id: u64,
        /// The affected account.
        account: Address,
        /// Lowest nonce that is unused according to the ledger.
        ledger: u64,
        /// The account's next nonce according to the chain, including pending transactions.
        chain: u64,
    },
    /// The ledger has unsettled transactions at nonces that the chain is past.
    #[error(
        "account {account} has unsettled transactions on chain {chain_id}, from nonce {nonce} on: settle them first"
    )]
    Open {
        /// EIP-155 id of the chain.
        chain_id: u64,
        /// The affected account.
        account: Address,
        /// Nonce of the first of these transactions.
        nonce: u64,
    },
    /// The ticket was used or its nonce was released.
    #[error("nonce {nonce} of {account} on chain {chain_id} is no longer reserved: nothing may be signed with it")]
    NotHeld {
        /// EIP-155 id of the chain.
        chain_id: u64,
        /// The affected account.
        account: Address,
        /// Nonce of the ticket.
        nonce: u64,
    },
    /// A number that does not fit the ledger, such as a nonce beyond 2⁶³.
    #[error("{0} is too large for the ledger")]
    Beyond(&'static str),
    /// Error of the database.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<rusqlite::Error> for LaneError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error.into())
    }
}

/// Returns the nonce after the last one of `account` in this ledger, if the chain has no transactions beside the
/// ledger's. Allocates nothing.
///
/// # Errors
/// [`LaneError::ChainAhead`] if the chain has transactions that this ledger does not have: [`allocate`] would fail.
pub fn next_nonce(
    connection: &Connection,
    chain_id: u64,
    account: Address,
    seen: ChainNonces,
) -> Result<u64, LaneError> {
    let (chain, owner) = (counted(chain_id, "the chain's id")?, account.as_slice());
    let known: Option<i64> = connection
        .prepare_cached("SELECT next_nonce FROM sender_lane WHERE chain_id = ?1 AND account = ?2")?
        .query_row(params![chain, owner], |row| row.get(0))
        .optional()?;
    let ahead = |ledger: u64, found: u64| LaneError::ChainAhead { chain_id, account, ledger, chain: found };
    let next = match known {
        Some(next) => from_row(next, "a nonce")?,
        // On first use, the lane starts at the included count. Transactions that are pending beyond it are not ours.
        None => seen.latest,
    };
    // All nonces of the ledger are below `next`, so higher ones on the chain are not ours.
    let found = seen.latest.max(seen.pending);
    if found > next {
        return Err(ahead(next, found));
    }
    // Lowest nonce without a signed transaction that the chain is past.
    let spent: Option<i64> = connection
        .prepare_cached(
            "SELECT MIN(nonce) FROM sender_nonce
             WHERE chain_id = ?1 AND account = ?2 AND state <> 'signed' AND nonce < ?3",
        )?
        .query_row(params![chain, owner, counted(seen.latest, "a nonce")?], |row| row.get(0))?;
    match spent {
        Some(spent) => Err(ahead(from_row(spent, "a nonce")?, seen.latest)),
        None => Ok(next),
    }
}

/// Allocates the next nonce of `account`: the lowest released one, or else the one after the last.
///
/// `seen` is the chain's state read just before, and `now` the time in milliseconds since the Unix epoch.
///
/// # Errors
/// [`LaneError::ChainAhead`] if the chain has transactions that this ledger does not have.
pub fn allocate(
    transaction: &Transaction<'_>,
    chain_id: u64,
    account: Address,
    seen: ChainNonces,
    now: u64,
) -> Result<NonceReservation, LaneError> {
    let (chain, owner) = (counted(chain_id, "the chain's id")?, account.as_slice());
    let next = next_nonce(transaction, chain_id, account, seen)?;
    let free: Option<(i64, i64)> = transaction
        .prepare_cached(
            "SELECT ticket, nonce FROM sender_nonce WHERE chain_id = ?1 AND account = ?2 AND state = 'free'
             ORDER BY nonce LIMIT 1",
        )?
        .query_row(params![chain, owner], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let nonce = match free {
        Some((ticket, nonce)) => {
            // The row gets a new ticket, so that the previous holder no longer holds this nonce.
            transaction.prepare_cached("DELETE FROM sender_nonce WHERE ticket = ?1")?.execute([ticket])?;
            from_row(nonce, "a nonce")?
        }
        None => {
            let after = counted(next, "a nonce")?.checked_add(1).ok_or(LaneError::Beyond("a nonce"))?;
            transaction
                .prepare_cached(
                    "INSERT INTO sender_lane (chain_id, account, next_nonce) VALUES (?1, ?2, ?3)
                 ON CONFLICT (chain_id, account) DO UPDATE SET next_nonce = excluded.next_nonce",
                )?
                .execute(params![chain, owner, after])?;
            next
        }
    };
    transaction
        .prepare_cached(
            "INSERT INTO sender_nonce (chain_id, account, nonce, state, reserved_at, session)
         VALUES (?1, ?2, ?3, 'reserved', ?4, (SELECT id FROM temp.store_session))",
        )?
        .execute(params![chain, owner, counted(nonce, "a nonce")?, counted(now, "the time")?])?;
    Ok(NonceReservation { ticket: transaction.last_insert_rowid(), chain_id, account, nonce })
}

/// Releases a nonce with which nothing was signed, or whose signed bytes were never stored.
///
/// # Errors
/// [`LaneError::NotHeld`] if a transaction was stored with it, or it was released before.
pub fn release_nonce(transaction: &Transaction<'_>, ticket: &NonceReservation) -> Result<(), LaneError> {
    ensure_held(transaction, ticket)?;
    release(transaction, ticket.chain_id, ticket.account, ticket.nonce)
}

/// Fails with [`LaneError::NotHeld`] unless the ticket still holds its nonce.
pub(super) fn ensure_held(transaction: &Transaction<'_>, ticket: &NonceReservation) -> Result<(), LaneError> {
    let NonceReservation { ticket: number, chain_id, account, nonce } = ticket;
    let found: Option<i64> = transaction
        .prepare_cached(
            "SELECT 1 FROM sender_nonce WHERE ticket = ?1 AND chain_id = ?2 AND account = ?3 AND nonce = ?4
             AND state = 'reserved'",
        )?
        .query_row(
            params![number, counted(*chain_id, "the chain's id")?, account.as_slice(), counted(*nonce, "a nonce")?],
            |row| row.get(0),
        )
        .optional()?;
    let lost = LaneError::NotHeld { chain_id: *chain_id, account: *account, nonce: *nonce };
    found.map(|_| ()).ok_or(lost)
}

/// Marks the ticket's nonce as used by a stored transaction.
pub(super) fn signed(transaction: &Transaction<'_>, ticket: &NonceReservation) -> Result<(), LaneError> {
    transaction
        .prepare_cached("UPDATE sender_nonce SET state = 'signed' WHERE ticket = ?1")?
        .execute([ticket.ticket])?;
    Ok(())
}

/// Marks a nonce as used by a transaction of ours that is in a block, even if it was released meanwhile. Nothing more
/// is signed with it, and a ticket for it becomes invalid. A gap between the lane's end and a later nonce is left
/// alone.
pub(super) fn spent(
    transaction: &Transaction<'_>,
    chain_id: u64,
    account: Address,
    nonce: u64,
    now: u64,
) -> Result<(), LaneError> {
    let (chain, owner) = (counted(chain_id, "the chain's id")?, account.as_slice());
    let number = counted(nonce, "a nonce")?;
    let moved = transaction
        .prepare_cached(
            "UPDATE sender_lane SET next_nonce = next_nonce + 1
             WHERE chain_id = ?1 AND account = ?2 AND next_nonce = ?3",
        )?
        .execute(params![chain, owner, number])?;
    if moved > 0 {
        transaction
            .prepare_cached(
                "INSERT INTO sender_nonce (chain_id, account, nonce, state, reserved_at, session)
             VALUES (?1, ?2, ?3, 'signed', ?4, NULL)
             ON CONFLICT (chain_id, account, nonce) DO UPDATE SET state = 'signed'",
            )?
            .execute(params![chain, owner, number, counted(now, "the time")?])?;
    }
    transaction
        .prepare_cached("UPDATE sender_nonce SET state = 'signed' WHERE chain_id = ?1 AND account = ?2 AND nonce = ?3")?
        .execute(params![chain, owner, number])?;
    Ok(())
}

/// Releases a nonce: the last nonce shortens the lane, an earlier one becomes free for the next transaction.
pub(super) fn release(
    transaction: &Transaction<'_>,
    chain_id: u64,
    account: Address,
    nonce: u64,
) -> Result<(), LaneError> {
    let (chain, owner) = (counted(chain_id, "the chain's id")?, account.as_slice());
    transaction
        .prepare_cached("UPDATE sender_nonce SET state = 'free' WHERE chain_id = ?1 AND account = ?2 AND nonce = ?3")?
        .execute(params![chain, owner, counted(nonce, "a nonce")?])?;
    // Free nonces at the end are not gaps, so they are removed.
    loop {
        let dropped = transaction
            .prepare_cached(
                "DELETE FROM sender_nonce WHERE chain_id = ?1 AND account = ?2 AND state = 'free' AND nonce =
             (SELECT next_nonce - 1 FROM sender_lane WHERE chain_id = ?1 AND account = ?2)",
            )?
            .execute(params![chain, owner])?;
        if dropped == 0 {
            return Ok(());
        }
        transaction
            .prepare_cached("UPDATE sender_lane SET next_nonce = next_nonce - 1 WHERE chain_id = ?1 AND account = ?2")?
            .execute(params![chain, owner])?;
    }
}

/// Nonces from `latest` on that this ledger holds, in order: signed, reserved or released.
fn owned_from(connection: &Connection, chain: i64, owner: &[u8], latest: i64) -> Result<Vec<u64>, LaneError> {
    let mut statement = connection.prepare(
        "SELECT nonce FROM sender_transaction WHERE chain_id = ?1 AND account = ?2 AND nonce >= ?3
         UNION SELECT nonce FROM sender_nonce WHERE chain_id = ?1 AND account = ?2 AND nonce >= ?3
         ORDER BY nonce",
    )?;
    let found: Vec<i64> =
        statement.query_map(params![chain, owner, latest], |row| row.get(0))?.collect::<Result<_, _>>()?;
    found.into_iter().map(|nonce| from_row(nonce, "a nonce")).collect()
}

/// Spans of nonces (first and last, inclusive) in `latest..next` that are missing from the sorted `ensure_held`.
fn spans_without(held: &[u64], latest: u64, next: u64) -> Vec<(u64, u64)> {
    let mut spans = Vec::new();
    let mut from = latest;
    for nonce in held.iter().copied().filter(|nonce| *nonce < next).chain([next]) {
        if from < nonce {
            spans.push((from, nonce - 1));
        }
        from = from.max(nonce.saturating_add(1));
    }
    spans
}

/// Spans of nonces (first and last, inclusive) that the ledger is past, that the chain with next nonce `latest` is not,
/// and that no row of this ledger holds. They occur after an endpoint returned too high a nonce. Transactions with
/// later nonces wait for them.
///
/// # Errors
/// [`LaneError::Store`] if the database fails.
pub fn ahead(
    connection: &Connection,
    chain_id: u64,
    account: Address,
    latest: u64,
) -> Result<Vec<(u64, u64)>, LaneError> {
    let Some(next) = lane(connection, chain_id, account)?.next.filter(|next| *next > latest) else {
        return Ok(Vec::new());
    };
    let (chain, from) = (counted(chain_id, "the chain's id")?, counted(latest, "a nonce")?);
    Ok(spans_without(&owned_from(connection, chain, account.as_slice(), from)?, latest, next))
}

/// Accepts the account's use outside of this ledger: the lane continues from the chain's state. Nonces that the ledger
/// is past but does not hold are freed.
///
/// # Errors
/// [`LaneError::Beyond`] if there are more than [`MOST_GIVEN_BACK`] of those. [`LaneError::Open`] while a transaction
/// of ours at a nonce that the chain is past is unsettled. [`LaneError::ChainAhead`] while a foreign transaction is
/// pending at the endpoint.
pub fn reconcile(
    transaction: &Transaction<'_>,
    chain_id: u64,
    account: Address,
    seen: ChainNonces,
) -> Result<(), LaneError> {
    let (chain, owner) = (counted(chain_id, "the chain's id")?, account.as_slice());
    let latest = counted(seen.latest, "a nonce")?;
    let open: Option<i64> = transaction
        .prepare_cached(
            "SELECT MIN(nonce) FROM sender_transaction
         WHERE chain_id = ?1 AND account = ?2 AND nonce < ?3 AND settled_at IS NULL",
        )?
        .query_row(params![chain, owner, latest], |row| row.get(0))?;
    if let Some(nonce) = open {
        return Err(LaneError::Open { chain_id, account, nonce: from_row(nonce, "a nonce")? });
    }
    transaction
        .prepare_cached(
            "DELETE FROM sender_nonce WHERE chain_id = ?1 AND account = ?2 AND nonce < ?3 AND state <> 'signed'",
        )?
        .execute(params![chain, owner, latest])?;
    let held = owned_from(transaction, chain, owner, latest)?;
    let ledger = held.last().map_or(seen.latest, |highest| highest.saturating_add(1));
    transaction
        .prepare_cached(
            "INSERT INTO sender_lane (chain_id, account, next_nonce) VALUES (?1, ?2, ?3)
         ON CONFLICT (chain_id, account) DO UPDATE SET next_nonce = excluded.next_nonce",
        )?
        .execute(params![chain, owner, counted(ledger, "a nonce")?])?;
    let spans = spans_without(&held, seen.latest, ledger);
    let given_back = spans.iter().fold(0_u64, |sum, (first, last)| sum.saturating_add(last - first).saturating_add(1));
    if given_back > MOST_GIVEN_BACK {
        return Err(LaneError::Beyond("the number of nonces to give back"));
    }
    for nonce in spans.into_iter().flat_map(|(first, last)| first..=last) {
        transaction
            .prepare_cached(
                "INSERT INTO sender_nonce (chain_id, account, nonce, state, reserved_at) VALUES (?1, ?2, ?3, 'free', 0)",
            )?
            .execute(params![chain, owner, counted(nonce, "a nonce")?])?;
    }
    if seen.pending > ledger {
        return Err(LaneError::ChainAhead { chain_id, account, ledger, chain: seen.pending });
    }
    Ok(())
}

/// State of an account's nonces in the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NonceLane {
    /// Nonce after all allocated ones; `None` if the account never signed from this ledger.
    pub next: Option<u64>,
    /// Nonces of signed and stored transactions that are not settled.
    pub open: Vec<u64>,
    /// Nonces that were released while later ones were allocated. Transactions with later nonces wait until the next
    /// transaction, which uses the lowest of these.
    pub free: Vec<u64>,
    /// Allocated nonces without a stored transaction.
    pub reserved: Vec<u64>,
}

/// Reads the current state of an account's lane.
///
/// # Errors
/// [`LaneError::Store`] if the database fails.
pub fn lane(connection: &Connection, chain_id: u64, account: Address) -> Result<NonceLane, LaneError> {
    let (chain, owner) = (counted(chain_id, "the chain's id")?, account.as_slice());
    let next: Option<i64> = connection
        .prepare_cached("SELECT next_nonce FROM sender_lane WHERE chain_id = ?1 AND account = ?2")?
        .query_row(params![chain, owner], |row| row.get(0))
        .optional()?;
    let nonces = |question: &str| -> Result<Vec<u64>, LaneError> {
        let mut statement = connection.prepare(question)?;
        let found: Vec<i64> =
            statement.query_map(params![chain, owner], |row| row.get(0))?.collect::<Result<_, _>>()?;
        found.into_iter().map(|nonce| from_row(nonce, "a nonce")).collect()
    };
    let of = |state: &str| {
        nonces(&format!(
            "SELECT nonce FROM sender_nonce WHERE chain_id = ?1 AND account = ?2 AND state = '{state}' ORDER BY nonce"
        ))
    };
    Ok(NonceLane {
        next: next.map(|next| from_row(next, "a nonce")).transpose()?,
        open: nonces(
            "SELECT DISTINCT nonce FROM sender_transaction
             WHERE chain_id = ?1 AND account = ?2 AND settled_at IS NULL ORDER BY nonce",
        )?,
        free: of("free")?,
        reserved: of("reserved")?,
    })
}

/// An allocated nonce without a stored transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservedNonce {
    /// The ticket that holds the nonce.
    pub ticket: NonceReservation,
    /// Time of the allocation, in milliseconds since the Unix epoch.
    pub at: u64,
    /// Session of the store that allocated it, from [`Store::session`](bardo_store::Store::session).
    pub session: Option<String>,
}

/// Lists all reserved nonces. A holder is about to sign with its nonce, unless its process has ended.
///
/// # Errors
/// [`LaneError::Store`] if the database fails.
pub fn reserved(connection: &Connection) -> Result<Vec<ReservedNonce>, LaneError> {
    let mut statement = connection.prepare(
        "SELECT ticket, chain_id, account, nonce, reserved_at, session FROM sender_nonce
         WHERE state = 'reserved' ORDER BY ticket",
    )?;
    type Columns = (i64, i64, Vec<u8>, i64, i64, Option<String>);
    let read = |row: &rusqlite::Row<'_>| -> rusqlite::Result<Columns> {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?))
    };
    let rows: Vec<Columns> = statement.query_map([], read)?.collect::<Result<_, _>>()?;
    rows.into_iter()
        .map(|(ticket, chain_id, account, nonce, at, session)| {
            let ticket = NonceReservation {
                ticket,
                chain_id: from_row(chain_id, "the chain's id")?,
                account: address(&account)?,
                nonce: from_row(nonce, "a nonce")?,
            };
            Ok(ReservedNonce { ticket, at: from_row(at, "the time")?, session })
        })
        .collect()
}

/// Converts a number to SQLite's signed type.
pub(super) fn counted(number: u64, what: &'static str) -> Result<i64, LaneError> {
    i64::try_from(number).map_err(|_| LaneError::Beyond(what))
}

/// Converts a number from SQLite's signed type.
pub(super) fn from_row(number: i64, what: &'static str) -> Result<u64, LaneError> {
    u64::try_from(number).map_err(|_| LaneError::Beyond(what))
}

/// Converts an address from its bytes in the database.
pub(super) fn address(bytes: &[u8]) -> Result<Address, LaneError> {
    Address::try_from(bytes).map_err(|_| LaneError::Beyond("an address"))
}
