//! Signed transactions on disk: their bytes are stored before they are sent, and their state is tracked. All state
//! changes go through [`advance`], which applies the transition table.

use alloy::consensus::Transaction as _;
use alloy::primitives::{Address, B256, Bytes};
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params};

use super::fees::TxFees;
use super::lane::{self, LaneError, NonceReservation, counted, from_row};
use super::state::{SendEvent, SendState};
use crate::signed::{SignedError, SignedTransaction};
use bardo_base::id::CallId;
use bardo_base::text::SafeText;
use bardo_store::StoreError;

pub(super) const TABLES: &str = "
CREATE TABLE sender_transaction (
    hash BLOB PRIMARY KEY,
    chain_id INTEGER NOT NULL,
    account BLOB NOT NULL,
    nonce INTEGER NOT NULL,
    raw BLOB NOT NULL,
    route TEXT NOT NULL CHECK (route IN ('public', 'private')),
    call_id TEXT,
    replaces BLOB REFERENCES sender_transaction (hash),
    state TEXT NOT NULL,
    stored_at INTEGER NOT NULL,
    sends INTEGER NOT NULL DEFAULT 0,
    block_number INTEGER,
    block_hash BLOB,
    note TEXT,
    settled_at INTEGER
) STRICT;
CREATE INDEX sender_transaction_nonce ON sender_transaction (chain_id, account, nonce);
CREATE INDEX sender_transaction_open ON sender_transaction (chain_id, account) WHERE settled_at IS NULL;
";

/// Flag for dropped transactions that a block contains after all, until the flag is acknowledged.
pub(super) const LATE: &str = "
ALTER TABLE sender_transaction ADD COLUMN late INTEGER NOT NULL DEFAULT 0;
CREATE INDEX sender_transaction_late ON sender_transaction (hash) WHERE late = 1;
CREATE INDEX sender_transaction_dropped ON sender_transaction (chain_id) WHERE state = 'dropped';
";

/// Chain time, in seconds, since which the transaction's nonce is used without a known cause.
pub(super) const MISSING: &str = "ALTER TABLE sender_transaction ADD COLUMN missing_since INTEGER";

/// Maximum length of a stored endpoint message, in characters.
const NOTE_CHARS: usize = 300;

/// Route of a transaction to the chain; it stays the same when the transaction is sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SendRoute {
    /// To the chain's endpoints, where the waiting transaction is publicly visible.
    Public,
    /// To the private relay alone.
    Private,
}

impl SendRoute {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Private => "private",
        }
    }
}

/// Stored record of a signed transaction.
#[derive(Debug, Clone, PartialEq)]
pub struct TxRecord {
    /// The signed transaction.
    pub signed: SignedTransaction,
    /// Route to the chain.
    pub route: SendRoute,
    /// Tool call to which the transaction belongs; `None` if it belongs to none.
    pub call_id: Option<CallId>,
    /// Hash of the transaction that it replaces.
    pub replaces: Option<B256>,
    /// Known state of the transaction.
    pub state: SendState,
    /// Time at which its bytes were stored, in milliseconds since the Unix epoch.
    pub stored_at: u64,
    /// Number of times that it was sent.
    pub sends: u64,
    /// Number and hash of the block in which it was last seen.
    pub block: Option<(u64, B256)>,
    /// Last message about it, sanitised.
    pub note: Option<SafeText>,
    /// Time at which its outcome became final, in milliseconds since the Unix epoch.
    pub settled_at: Option<u64>,
}

impl TxRecord {
    /// The transaction hash.
    pub fn hash(&self) -> B256 {
        self.signed.hash()
    }

    /// Fees with which it was signed.
    pub fn fees(&self) -> TxFees {
        use alloy::consensus::Transaction as _;
        let transaction = self.signed.transaction();
        let max_fee_per_gas = transaction.max_fee_per_gas();
        let tip = transaction.max_priority_fee_per_gas().unwrap_or(max_fee_per_gas);
        TxFees { max_fee_per_gas, max_priority_fee_per_gas: tip }
    }
}

/// Permission to send a stored transaction for the first time. It is created when the transaction is stored and
/// consumed by sending. After a restart there is none, since it is unknown what was sent.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "an unsent stored transaction blocks its nonce and all later ones"]
pub struct SendPermit {
    pub(super) hash: B256,
}

impl SendPermit {
    /// The transaction hash.
    pub fn hash(&self) -> B256 {
        self.hash
    }
}

/// Reason that a transaction in this state no longer waits.
const fn why_ended(state: SendState) -> &'static str {
    match state {
        SendState::Replaced => "a later transaction has taken the nonce",
        SendState::Included => "it is in a block",
        SendState::Reverted => "it is in a block, where it reverted",
        SendState::Dropped => "it was given up",
        // It waits itself, and a later one with its nonce does as well or is in a block.
        SendState::Stored | SendState::Sent | SendState::Unclear => {
            "a later transaction with the nonce comes before it"
        }
    }
}

/// Error of an operation on transaction records.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The ledger has no transaction with this hash.
    #[error("the ledger has no transaction {0}")]
    Unknown(B256),
    /// The transaction does not match the one that its nonce was allocated for.
    #[error(
        "the signed transaction differs from the one its nonce was reserved for: {what} is {found}, expected {expected}"
    )]
    Mismatch {
        /// Name of the differing field.
        what: &'static str,
        /// Value in the transaction.
        found: String,
        /// Value that the ticket or the replaced transaction demands.
        expected: String,
    },
    /// The transaction to replace is no longer waiting.
    #[error("{}: transaction {hash} can no longer be replaced", why_ended(*state))]
    Ended {
        /// Hash of the transaction.
        hash: B256,
        /// State of the transaction.
        state: SendState,
    },
    /// The ledger already contains this transaction.
    #[error("transaction {0} is already in the ledger: it is re-sent from there, not stored twice")]
    Twice(B256),
    /// The fees of the replacement are too low for nodes to accept it.
    #[error("a replacement must raise both fees by at least 10 %: nodes would refuse this one")]
    TooCheap,
    /// The transaction is not of the one form that can be signed again.
    #[error("transaction {hash} cannot be replaced: {why}; wait for it, or send another one with its nonce elsewhere")]
    NotReplaceable {
        /// Hash of the transaction.
        hash: B256,
        /// Description of the form.
        why: &'static str,
    },
    /// The event is not possible in the transaction's state.
    #[error("transaction {hash} is {state}, but {event:?} was reported; its state is unchanged")]
    Impossible {
        /// Hash of the transaction.
        hash: B256,
        /// State of the transaction.
        state: SendState,
        /// The reported event.
        event: SendEvent,
    },
    /// A column of the stored row is invalid.
    #[error("the ledger's transaction cannot be read: {0}")]
    Damaged(&'static str),
    /// The stored bytes are not a signed transaction.
    #[error("the ledger's transaction cannot be read: {0}")]
    Bytes(#[from] SignedError),
    /// Error of the nonce lane.
    #[error(transparent)]
    Lane(#[from] LaneError),
    /// Error of the database.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<rusqlite::Error> for RecordError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error.into())
    }
}

/// Stores a signed transaction under the nonce of its ticket. It must not be sent before the database transaction is
/// committed.
///
/// # Errors
/// [`RecordError::Mismatch`] if it is not for the ticket's chain, account and nonce. [`LaneError::NotHeld`] if the
/// ticket was used or its nonce released; the transaction must not be sent then.
pub fn keep(
    transaction: &Transaction<'_>,
    ticket: &NonceReservation,
    signed: &SignedTransaction,
    route: SendRoute,
    call_id: Option<CallId>,
    now: u64,
) -> Result<SendPermit, RecordError> {
    same("the chain", signed.chain_id(), ticket.chain_id)?;
    same("the sender", signed.from(), ticket.account)?;
    same("the nonce", signed.nonce(), ticket.nonce)?;
    lane::ensure_held(transaction, ticket)?;
    lane::signed(transaction, ticket)?;
    insert(transaction, signed, route, call_id, None, now)
}

/// Stores a signed replacement of `old`: same chain, account and nonce, higher fees. The old one counts as replaced
/// once the new one has been sent.
///
/// # Errors
/// [`RecordError::Ended`] if the old one is settled, in a block or dropped; [`RecordError::Mismatch`];
/// [`RecordError::TooCheap`].
pub fn store_replacement(
    transaction: &Transaction<'_>,
    old: B256,
    signed: &SignedTransaction,
    now: u64,
) -> Result<SendPermit, RecordError> {
    let old = load(transaction, old)?.ok_or(RecordError::Unknown(old))?;
    let all = family(transaction, old.signed.chain_id(), old.signed.from(), old.signed.nonce())?;
    if old.settled_at.is_some() || !old.state.may_be_sent() || has_later_rival(&all, old.hash()) {
        return Err(RecordError::Ended { hash: old.hash(), state: old.state });
    }
    same("the chain", signed.chain_id(), old.signed.chain_id())?;
    same("the sender", signed.from(), old.signed.from())?;
    same("the nonce", signed.nonce(), old.signed.nonce())?;
    ensure_raised(&old, signed)?;
    insert(transaction, signed, old.route, old.call_id, Some(old.hash()), now)
}

/// Fails with [`RecordError::TooCheap`] unless both fees of `signed` exceed those of `old` by a tenth, as nodes
/// require.
pub(super) fn ensure_raised(old: &TxRecord, signed: &SignedTransaction) -> Result<(), RecordError> {
    let new = TxRecord { signed: signed.clone(), ..old.clone() }.fees();
    let enough = |new: u128, old: u128| new.saturating_mul(100) >= old.saturating_mul(110) && new > old;
    let fees = old.fees();
    let raised = enough(new.max_fee_per_gas, fees.max_fee_per_gas)
        && enough(new.max_priority_fee_per_gas, fees.max_priority_fee_per_gas);
    if raised { Ok(()) } else { Err(RecordError::TooCheap) }
}

/// Stores a transaction of another plan with the nonce of a waiting one.
pub(super) fn insert_rival(
    transaction: &Transaction<'_>,
    signed: &SignedTransaction,
    route: SendRoute,
    call_id: CallId,
    now: u64,
) -> Result<SendPermit, RecordError> {
    insert(transaction, signed, route, Some(call_id), None, now)
}

/// Applies an event to a transaction.
///
/// # Errors
/// [`RecordError::Impossible`] if the transition table does not allow the event.
pub(super) fn advance(
    transaction: &Transaction<'_>,
    hash: B256,
    event: SendEvent,
    note: Option<&str>,
) -> Result<SendState, RecordError> {
    let found: Option<String> = transaction
        .prepare_cached("SELECT state FROM sender_transaction WHERE hash = ?1")?
        .query_row([hash.as_slice()], |row| row.get(0))
        .optional()?;
    let state = SendState::parse(&found.ok_or(RecordError::Unknown(hash))?).ok_or(RecordError::Damaged("its state"))?;
    let next = state.after(event).ok_or(RecordError::Impossible { hash, state, event })?;
    let note = note.map(|note| SafeText::clean(note, NOTE_CHARS).to_string());
    transaction
        .prepare_cached("UPDATE sender_transaction SET state = ?2, note = COALESCE(?3, note) WHERE hash = ?1")?
        .execute(params![hash.as_slice(), next.as_str(), note])?;
    Ok(next)
}

/// Counts a send; called in the database transaction that records its result.
pub(super) fn count_send(transaction: &Transaction<'_>, hash: B256) -> Result<(), RecordError> {
    transaction
        .prepare_cached("UPDATE sender_transaction SET sends = sends + 1 WHERE hash = ?1")?
        .execute([hash.as_slice()])?;
    Ok(())
}

/// Records the block that contains the transaction, or `None`.
pub(super) fn place(transaction: &Transaction<'_>, hash: B256, block: Option<(u64, B256)>) -> Result<(), RecordError> {
    let number = block.map(|(number, _)| counted(number, "a block's number")).transpose()?;
    let block = block.map(|(_, block)| block.to_vec());
    transaction
        .prepare_cached("UPDATE sender_transaction SET block_number = ?2, block_hash = ?3 WHERE hash = ?1")?
        .execute(params![hash.as_slice(), number, block])?;
    Ok(())
}

/// Records since when the transaction is missing, in chain time in seconds, or `None`.
pub(super) fn missing(transaction: &Transaction<'_>, hash: B256, since: Option<u64>) -> Result<(), RecordError> {
    let since = since.map(|since| counted(since, "the time")).transpose()?;
    transaction
        .prepare_cached("UPDATE sender_transaction SET missing_since = ?2 WHERE hash = ?1")?
        .execute(params![hash.as_slice(), since])?;
    Ok(())
}

/// Marks all transactions of one nonce as settled.
pub(super) fn settle(
    transaction: &Transaction<'_>,
    chain_id: u64,
    account: Address,
    nonce: u64,
    now: u64,
) -> Result<(), RecordError> {
    transaction
        .prepare_cached(
            "UPDATE sender_transaction SET settled_at = ?4
         WHERE chain_id = ?1 AND account = ?2 AND nonce = ?3 AND settled_at IS NULL",
        )?
        .execute(params![
            counted(chain_id, "the chain's id")?,
            account.as_slice(),
            counted(nonce, "a nonce")?,
            counted(now, "the time")?
        ])?;
    Ok(())
}

/// Loads the record of a transaction; `None` if the ledger does not have it.
///
/// # Errors
/// [`RecordError::Store`], or an error for an invalid row.
pub fn load(connection: &Connection, hash: B256) -> Result<Option<TxRecord>, RecordError> {
    Ok(select(connection, "hash = ?1", [hash.as_slice()])?.pop())
}

/// The transaction that may be sent again for `hash`: itself if it is waiting. If it was a refused replacement, or was
/// replaced, the newest waiting transaction among its kin, which nothing else would send. `None` if none is waiting, or
/// if a later transaction of another plan takes the nonce: the operator wanted that one, whether or not it has been sent.
///
/// # Errors
/// As [`load`].
pub fn sendable(connection: &Connection, hash: B256) -> Result<Option<TxRecord>, RecordError> {
    let Some(record) = load(connection, hash)?.filter(|record| record.settled_at.is_none()) else { return Ok(None) };
    let signed = &record.signed;
    let all = family(connection, signed.chain_id(), signed.from(), signed.nonce())?;
    if has_later_rival(&all, hash) {
        return Ok(None);
    }
    if !matches!(record.state, SendState::Dropped | SendState::Replaced) {
        return Ok(Some(record).filter(|record| record.state.may_be_sent()));
    }
    let newest = all.iter().rfind(|one| !one.settled && one.state.may_be_sent() && are_kin(&all, one.hash, hash));
    newest.map_or(Ok(None), |one| load(connection, one.hash))
}

/// Returns true if a transaction of another plan was signed after `hash` for the same nonce and still waits or is in a
/// block.
fn has_later_rival(family: &[TxEntry], hash: B256) -> bool {
    let later = family.iter().skip_while(|one| one.hash != hash);
    later
        .filter(|one| !one.settled && (one.state.may_be_sent() || one.state.is_mined()))
        .any(|one| !are_kin(family, one.hash, hash))
}

/// Hashes of all transactions that were signed for the same plan's nonce as `hash`, itself included, in the order in
/// which they were stored.
///
/// # Errors
/// As [`load`]; [`RecordError::Unknown`] without a record.
pub fn kin(connection: &Connection, hash: B256) -> Result<Vec<B256>, RecordError> {
    let TxEntry { chain_id, account, nonce, .. } = entry(connection, hash)?;
    let all = family(connection, chain_id, account, nonce)?;
    Ok(all.iter().map(|one| one.hash).filter(|one| are_kin(&all, *one, hash)).collect())
}

/// Columns of a transaction without its bytes, to save decoding and signature recovery at every poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TxEntry {
    pub(super) hash: B256,
    pub(super) chain_id: u64,
    pub(super) account: Address,
    pub(super) nonce: u64,
    pub(super) state: SendState,
    pub(super) settled: bool,
    /// Chain time, in seconds, since which its nonce is used without a known cause.
    pub(super) missing_since: Option<u64>,
    /// Hash of the transaction that it replaces.
    pub(super) replaces: Option<B256>,
}

/// Returns true if two transactions with the same nonce were signed for the same action: one replaces the other, or
/// both replace a third. A released nonce is used for another plan, whose transaction is unrelated.
pub(super) fn are_kin(family: &[TxEntry], one: B256, other: B256) -> bool {
    let first = |mut hash: B256| {
        // The bound ends the loop even for a cycle, which cannot be stored.
        for _ in family {
            let entry = family.iter().find(|entry| entry.hash == hash);
            match entry.and_then(|entry| entry.replaces) {
                Some(older) => hash = older,
                None => break,
            }
        }
        hash
    };
    first(one) == first(other)
}

/// Dropped transactions whose nonce was not used since, ordered by nonce. If an endpoint passed one on after refusing
/// it, a block may still include it.
pub(super) fn dropped(connection: &Connection, chain_id: u64) -> Result<Vec<TxEntry>, RecordError> {
    let unused = "chain_id = ?1 AND state = 'dropped' AND (
        nonce >= (SELECT next_nonce FROM sender_lane AS lane
                  WHERE lane.chain_id = sender_transaction.chain_id AND lane.account = sender_transaction.account)
        OR EXISTS (SELECT 1 FROM sender_nonce AS taken
                   WHERE taken.chain_id = sender_transaction.chain_id AND taken.account = sender_transaction.account
                   AND taken.nonce = sender_transaction.nonce AND taken.state = 'free'))";
    let mut found = entries(connection, unused, [counted(chain_id, "the chain's id")?])?;
    found.sort_by_key(|entry| entry.nonce);
    Ok(found)
}

/// Marks a dropped transaction that a block contains after all; its outcome is open again.
pub(super) fn mark_late_inclusion(transaction: &Transaction<'_>, hash: B256) -> Result<(), RecordError> {
    transaction
        .prepare_cached("UPDATE sender_transaction SET late = 1, settled_at = NULL WHERE hash = ?1")?
        .execute([hash.as_slice()])?;
    Ok(())
}

/// Dropped transactions that a block contains, until [`acknowledge_late_inclusion`]. Their reservations were released
/// when they were dropped.
///
/// # Errors
/// [`RecordError::Store`], or an error for an invalid row.
pub fn late_inclusions(connection: &Connection) -> Result<Vec<B256>, RecordError> {
    Ok(entries(connection, "late = 1", [])?.into_iter().map(|entry| entry.hash).collect())
}

/// Acknowledges a transaction listed by [`late`], once its funds are reserved again.
///
/// # Errors
/// [`RecordError::Store`] if the database fails.
pub fn acknowledge_late_inclusion(transaction: &Transaction<'_>, hash: B256) -> Result<(), RecordError> {
    transaction.prepare_cached("UPDATE sender_transaction SET late = 0 WHERE hash = ?1")?.execute([hash.as_slice()])?;
    Ok(())
}

/// Loads the columns of a transaction.
///
/// # Errors
/// [`RecordError::Unknown`] if the ledger does not have it.
pub(super) fn entry(connection: &Connection, hash: B256) -> Result<TxEntry, RecordError> {
    entries(connection, "hash = ?1", [hash.as_slice()])?.pop().ok_or(RecordError::Unknown(hash))
}

/// All transactions signed for one nonce, in the order in which they were stored.
pub(super) fn family(
    connection: &Connection,
    chain_id: u64,
    account: Address,
    nonce: u64,
) -> Result<Vec<TxEntry>, RecordError> {
    let (chain, number) = (counted(chain_id, "the chain's id")?, counted(nonce, "a nonce")?);
    let condition = "chain_id = ?1 AND account = ?2 AND nonce = ?3";
    let mut all = entries(connection, condition, params![chain, account.as_slice(), number])?;
    for one in &mut all {
        if let Some(older) = one.replaces
            && !repeats(connection, one.hash, older, (chain_id, account, nonce))?
        {
            one.replaces = None;
        }
    }
    Ok(all)
}

/// Returns true if two stored transactions are the same call for one nonce by their signed bytes. The row alone is not
/// believed: a writer of the ledger could make another plan's transaction the kin of this one.
fn repeats(
    connection: &Connection,
    hash: B256,
    older: B256,
    nonce_of: (u64, Address, u64),
) -> Result<bool, RecordError> {
    let (Some(one), Some(other)) = (load(connection, hash)?, load(connection, older)?) else { return Ok(false) };
    let of = |record: &TxRecord| {
        let signed = &record.signed;
        let (to, value) = (signed.transaction().to(), signed.transaction().value());
        (to, value, signed.transaction().input().clone(), (signed.chain_id(), signed.from(), signed.nonce()))
    };
    let named = (one.hash(), other.hash()) == (hash, older);
    Ok(named && of(&one) == of(&other) && of(&one).3 == nonce_of)
}

fn entries(
    connection: &Connection,
    condition: &str,
    values: impl rusqlite::Params,
) -> Result<Vec<TxEntry>, RecordError> {
    let sql = format!(
        "SELECT hash, chain_id, account, nonce, state, settled_at IS NOT NULL, replaces, missing_since
         FROM sender_transaction WHERE {condition} ORDER BY rowid"
    );
    type Columns = ((Vec<u8>, i64, Vec<u8>, i64), (String, bool, Option<Vec<u8>>, Option<i64>));
    let mut statement = connection.prepare_cached(&sql)?;
    let read = |row: &Row<'_>| -> rusqlite::Result<Columns> {
        Ok(((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?), (row.get(4)?, row.get(5)?, row.get(6)?, row.get(7)?)))
    };
    let rows: Vec<Columns> = statement.query_map(values, read)?.collect::<Result<_, _>>()?;
    rows.into_iter()
        .map(|((hash, chain_id, account, nonce), (state, settled, replaces, missing_since))| {
            let named = |hash: &[u8]| B256::try_from(hash).map_err(|_| RecordError::Damaged("a hash"));
            Ok(TxEntry {
                hash: named(&hash)?,
                replaces: replaces.as_deref().map(named).transpose()?,
                chain_id: from_row(chain_id, "the chain's id")?,
                account: lane::address(&account)?,
                nonce: from_row(nonce, "a nonce")?,
                state: SendState::parse(&state).ok_or(RecordError::Damaged("its state"))?,
                settled,
                missing_since: missing_since.map(|since| from_row(since, "the time")).transpose()?,
            })
        })
        .collect()
}

/// All transactions of a chain whose outcome is not final, ordered by account and nonce; a restart continues with them.
///
/// # Errors
/// [`RecordError::Store`], or an error for an invalid row.
pub fn open(connection: &Connection, chain_id: u64) -> Result<Vec<TxRecord>, RecordError> {
    select(connection, "chain_id = ?1 AND settled_at IS NULL", [counted(chain_id, "the chain's id")?])
}

/// Hashes of the transactions of a chain that are in a block, were stored since a time in milliseconds since the Unix epoch, and
/// whose bytes contain an address, such as that of a contract they call, oldest first.
///
/// # Errors
/// [`RecordError::Store`], or an error for an invalid row.
pub fn included_with(
    connection: &Connection,
    chain_id: u64,
    address: Address,
    since: u64,
) -> Result<Vec<B256>, RecordError> {
    // From the newest row back to the first that is older, so that the ledger's length does not matter and no number of newer
    // rows, of whatever chain, hides one.
    let mut statement = connection.prepare_cached(
        "SELECT hash FROM sender_transaction
         WHERE rowid > coalesce((SELECT rowid FROM sender_transaction WHERE stored_at < ?2 ORDER BY rowid DESC LIMIT 1), 0)
         AND chain_id = ?1 AND state = 'included' AND stored_at >= ?2 AND instr(raw, ?3) > 0 ORDER BY rowid",
    )?;
    let values = params![counted(chain_id, "the chain's id")?, counted(since, "a time")?, address.as_slice()];
    let hashes = statement.query_map(values, |row| row.get::<_, [u8; 32]>(0))?;
    Ok(hashes.collect::<Result<Vec<_>, _>>()?.into_iter().map(B256::from).collect())
}

/// Every transaction that was signed for these nonces of an account, ordered by nonce, whatever its state.
///
/// # Errors
/// [`RecordError::Store`], or an error for an invalid row.
pub fn signed_for(
    connection: &Connection,
    chain_id: u64,
    account: Address,
    nonces: std::ops::Range<u64>,
) -> Result<Vec<TxRecord>, RecordError> {
    select(
        connection,
        "chain_id = ?1 AND account = ?2 AND nonce >= ?3 AND nonce < ?4",
        params![
            counted(chain_id, "the chain's id")?,
            account.as_slice(),
            counted(nonces.start, "a nonce")?,
            counted(nonces.end, "a nonce")?
        ],
    )
}

fn insert(
    transaction: &Transaction<'_>,
    signed: &SignedTransaction,
    route: SendRoute,
    call_id: Option<CallId>,
    replaces: Option<B256>,
    now: u64,
) -> Result<SendPermit, RecordError> {
    // The same action signed again with a released nonce has the same bytes and the same hash.
    let stored = transaction
        .prepare_cached(
            "INSERT INTO sender_transaction
             (hash, chain_id, account, nonce, raw, route, call_id, replaces, state, stored_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
         ON CONFLICT (hash) DO UPDATE SET route = excluded.route, call_id = excluded.call_id,
             replaces = excluded.replaces, state = excluded.state, stored_at = excluded.stored_at,
             note = NULL, settled_at = NULL, late = 0, missing_since = NULL
         WHERE state = 'dropped'",
        )?
        .execute(params![
            signed.hash().as_slice(),
            counted(signed.chain_id(), "the chain's id")?,
            signed.from().as_slice(),
            counted(signed.nonce(), "a nonce")?,
            signed.raw().as_ref(),
            route.as_str(),
            call_id.map(|call| call.to_string()),
            replaces.map(|hash| hash.to_vec()),
            SendState::Stored.as_str(),
            counted(now, "the time")?,
        ])?;
    match stored {
        0 => Err(RecordError::Twice(signed.hash())),
        _ => Ok(SendPermit { hash: signed.hash() }),
    }
}

/// A row before validation.
struct Raw {
    bytes: Vec<u8>,
    route: String,
    call_id: Option<String>,
    replaces: Option<Vec<u8>>,
    state: String,
    stored_at: i64,
    sends: i64,
    block_number: Option<i64>,
    block_hash: Option<Vec<u8>>,
    note: Option<String>,
    settled_at: Option<i64>,
}

fn select(
    connection: &Connection,
    condition: &str,
    values: impl rusqlite::Params,
) -> Result<Vec<TxRecord>, RecordError> {
    let sql = format!(
        "SELECT raw, route, call_id, replaces, state, stored_at, sends, block_number, block_hash, note, settled_at
         FROM sender_transaction WHERE {condition} ORDER BY account, nonce, stored_at, rowid"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let read = |row: &Row<'_>| {
        Ok(Raw {
            bytes: row.get(0)?,
            route: row.get(1)?,
            call_id: row.get(2)?,
            replaces: row.get(3)?,
            state: row.get(4)?,
            stored_at: row.get(5)?,
            sends: row.get(6)?,
            block_number: row.get(7)?,
            block_hash: row.get(8)?,
            note: row.get(9)?,
            settled_at: row.get(10)?,
        })
    };
    let rows: Vec<Raw> = statement.query_map(values, read)?.collect::<Result<_, _>>()?;
    rows.into_iter().map(TxRecord::try_from).collect()
}

impl TryFrom<Raw> for TxRecord {
    type Error = RecordError;

    fn try_from(raw: Raw) -> Result<Self, RecordError> {
        let hash = |bytes: Vec<u8>| B256::try_from(bytes.as_slice()).map_err(|_| RecordError::Damaged("a hash"));
        let block = match (raw.block_number, raw.block_hash) {
            (Some(number), Some(bytes)) => Some((from_row(number, "a block's number")?, hash(bytes)?)),
            _ => None,
        };
        Ok(Self {
            signed: SignedTransaction::decode(&Bytes::from(raw.bytes))?,
            route: match raw.route.as_str() {
                "public" => SendRoute::Public,
                "private" => SendRoute::Private,
                _ => return Err(RecordError::Damaged("its route")),
            },
            call_id: raw.call_id.map(|id| id.parse().map_err(|_| RecordError::Damaged("its call"))).transpose()?,
            replaces: raw.replaces.map(hash).transpose()?,
            state: SendState::parse(&raw.state).ok_or(RecordError::Damaged("its state"))?,
            stored_at: from_row(raw.stored_at, "the time")?,
            sends: from_row(raw.sends, "a count")?,
            block,
            note: raw.note.map(|note| SafeText::clean(&note, NOTE_CHARS)),
            settled_at: raw.settled_at.map(|at| from_row(at, "the time")).transpose()?,
        })
    }
}

pub(super) fn same<T: PartialEq + ToString>(what: &'static str, found: T, expected: T) -> Result<(), RecordError> {
    if found == expected {
        return Ok(());
    }
    Err(RecordError::Mismatch { what, found: found.to_string(), expected: expected.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_of_newer_rows_hides_a_transaction_and_older_ones_are_left_out() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(TABLES).unwrap();
        let pool = Address::repeat_byte(0x50);
        let insert = |number: u64, chain_id: u64, state: &str, stored_at: u64, to: Address| {
            let hash = B256::from(alloy::primitives::U256::from(number));
            let raw = [&[2; 9], to.as_slice(), &[3; 9]].concat();
            let values =
                params![hash.as_slice(), chain_id as i64, to.as_slice(), number as i64, raw, state, stored_at as i64];
            connection
                .execute(
                    "INSERT INTO sender_transaction (hash, chain_id, account, nonce, raw, route, state, stored_at)
                     VALUES (?1, ?2, ?3, ?4, ?5, 'public', ?6, ?7)",
                    values,
                )
                .unwrap();
            hash
        };
        insert(1, 1, "included", 99, pool);
        let first = insert(2, 1, "included", 100, pool);
        for (number, chain_id, state, to) in
            [(3, 1, "sent", pool), (4, 2, "included", pool), (5, 1, "included", Address::repeat_byte(0x51))]
        {
            insert(number, chain_id, state, 101, to);
        }
        for number in 6..3_000 {
            insert(number, 2, "included", 102, Address::repeat_byte(0x52));
        }
        let last = insert(3_000, 1, "included", 103, pool);
        assert_eq!(included_with(&connection, 1, pool, 100).unwrap(), [first, last]);
        assert!(included_with(&connection, 1, pool, 104).unwrap().is_empty());
    }
}
