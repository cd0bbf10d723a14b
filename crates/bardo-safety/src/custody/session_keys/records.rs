//! Rows of session keys in the ledger. The tag of a row covers every column, with a key that is derived from the session
//! key's secret: a changed row is refused, not believed.

use alloy::primitives::{Address, B256, Bytes};
use alloy::sol_types::SolValue as _;
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params};

use super::history::{acceptance_of, accepted, revocation_of};
use super::{RevokedBy, SessionKeyId, SessionKeyRecord, SessionKeyRevocation, SessionKeyState, SessionRefusal};
use crate::custody::delegated::is_signed;
use crate::queue_key::QueueKey;
use bardo_abi::delegation::Delegation;
use bardo_base::text::SafeText;
use bardo_store::StoreError;

/// Domain of the tags.
const DOMAIN: &str = "bardo session key 1";

const COLUMNS: &str = "id, label, address, owner, chain_id, manager, delegation, signature, created_at, expires_at, \
                       max_calls, uses, last_used, state, revoked_at, revoked_by, reason, tag";

/// Reason for which a record of a session key was not read or changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionKeyError {
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The ledger has no such session key.
    #[error("this ledger has no session key {0}")]
    Unknown(SessionKeyId),
    /// The row cannot be decoded.
    #[error("the row of session key {id} is damaged in `{column}`; `bardo keys session revoke {id}` still revokes it")]
    Damaged {
        /// Id as stored.
        id: SafeText,
        /// Column that is not valid.
        column: &'static str,
    },
    /// The state does not permit the change.
    #[error("session key {id} is {state}, so it cannot be granted")]
    State {
        /// Id of the session key.
        id: SessionKeyId,
        /// State that the key has.
        state: &'static str,
    },
    /// The row was not written by a holder of the session key.
    #[error(transparent)]
    Refused(#[from] SessionRefusal),
}

impl From<rusqlite::Error> for SessionKeyError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error.into())
    }
}

/// Row of a session key.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredSessionKey {
    record: SessionKeyRecord,
    tag: Option<Vec<u8>>,
}

impl StoredSessionKey {
    /// Returns what the row claims, which proves nothing.
    pub fn claims(&self) -> &SessionKeyRecord {
        &self.record
    }

    /// Returns the row as revoked if the audit log has its revocation: the log is anchored outside of the database, and
    /// one row of an older copy does not bring a key back. A row that says that it is revoked, of which the log knows nothing, is
    /// damaged: it could be changed back.
    fn with_history(mut self, connection: &Connection) -> Result<Self, SessionKeyError> {
        let id = self.record.id.to_string();
        match (&self.record.state, revocation_of(connection, &id)?) {
            (SessionKeyState::Revoked(_), None) => {
                return Err(SessionKeyError::Damaged { id: SafeText::clean(&id, 40), column: "state" });
            }
            (SessionKeyState::Drafted | SessionKeyState::Granted, Some(revocation)) => {
                self.record.state = SessionKeyState::Revoked(revocation);
            }
            (SessionKeyState::Revoked(_), Some(_)) | (SessionKeyState::Drafted | SessionKeyState::Granted, None) => {}
        }
        Ok(self)
    }

    /// Returns true if the row's delegation is the one of its draft, and its owner has signed it for the row's manager and
    /// chain. `accepted` is the owner and the chain by the audit log. Changed columns do not fit the signature.
    pub fn is_signed_by_its_owner(&self, accepted: Option<(Address, u64)>) -> bool {
        let SessionKeyRecord { id, address, owner, chain_id, manager, delegation, .. } = &self.record;
        accepted == Some((*owner, *chain_id))
            && delegation.delegator == *owner
            && delegation.delegate == *address
            && id.salt() == delegation.salt
            && is_signed(delegation, *manager, *chain_id)
    }

    /// Returns the record if `key` made its tag.
    ///
    /// # Errors
    /// [`SessionRefusal::Revoked`] for a revoked key, whose row has no tag, and [`SessionRefusal::Unverified`] if the tag
    /// is not the key's.
    pub fn verified(&self, key: &QueueKey) -> Result<&SessionKeyRecord, SessionRefusal> {
        if let SessionKeyState::Revoked(revocation) = &self.record.state {
            return Err(SessionRefusal::Revoked { by: revocation.by, reason: revocation.reason.clone() });
        }
        let genuine = key.account() == self.record.owner
            && self.tag.as_deref().is_some_and(|tag| {
                let parts = parts(&self.record);
                key.verifies(DOMAIN, &parts.each_ref().map(Vec::as_slice), tag)
            });
        match genuine {
            true => Ok(&self.record),
            false => Err(SessionRefusal::Unverified("its tag was not made by the session key")),
        }
    }
}

/// Adds a drafted session key.
///
/// # Errors
/// [`SessionKeyError::Store`] if the database fails or has the id already.
pub fn insert(transaction: &Transaction<'_>, record: &SessionKeyRecord, key: &QueueKey) -> Result<(), SessionKeyError> {
    let unsigned = Delegation { signature: Bytes::new(), ..record.delegation.clone() };
    let drafted = SessionKeyRecord { delegation: unsigned, state: SessionKeyState::Drafted, ..record.clone() };
    let sql = "INSERT INTO safety_session_key
        (id, label, address, owner, chain_id, manager, delegation, created_at, expires_at, max_calls, uses, state, tag)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 'drafted', ?12)";
    transaction.prepare_cached(sql)?.execute(params![
        drafted.id.to_string(),
        drafted.label.to_string(),
        drafted.address.as_slice(),
        drafted.owner.as_slice(),
        number(drafted.chain_id)?,
        drafted.manager.as_slice(),
        drafted.delegation.abi_encode(),
        number(drafted.created_at)?,
        number(drafted.expires_at)?,
        drafted.max_calls.map(number).transpose()?,
        number(drafted.uses)?,
        tag(&drafted, key).as_slice(),
    ])?;
    Ok(())
}

/// Returns the row of a session key; `None` if the ledger has none. It is revoked if the row or the audit log says so.
///
/// # Errors
/// [`SessionKeyError`] if the database fails or the row is damaged.
pub fn find(connection: &Connection, id: SessionKeyId) -> Result<Option<StoredSessionKey>, SessionKeyError> {
    let sql = format!("SELECT {COLUMNS} FROM safety_session_key WHERE id = ?1");
    let row = connection.prepare_cached(&sql)?.query_row([id.to_string()], raw).optional()?;
    row.map(|row| row.decode().and_then(|stored| stored.with_history(connection))).transpose()
}

/// Returns every row, the newest first. A damaged row is an error of its own. A row is revoked if it or the audit log
/// says so.
///
/// # Errors
/// [`SessionKeyError::Store`] if the database fails.
pub fn all(connection: &Connection) -> Result<Vec<Result<StoredSessionKey, SessionKeyError>>, SessionKeyError> {
    let sql = format!("SELECT {COLUMNS} FROM safety_session_key ORDER BY created_at DESC, id");
    let read = read(connection, &sql, [])?;
    Ok(read.into_iter().map(|(_, row)| row.and_then(|stored| stored.with_history(connection))).collect())
}

/// Returns true if the ledger has a row with this id, whatever else the row says, or has accepted such a key by its audit log.
///
/// # Errors
/// [`SessionKeyError::Store`] if the database fails.
pub fn exists(connection: &Connection, id: &str) -> Result<bool, SessionKeyError> {
    Ok(has_row(connection, id)? || acceptance_of(connection, id)?.is_some())
}

fn has_row(connection: &Connection, id: &str) -> Result<bool, SessionKeyError> {
    let mut asked = connection.prepare_cached("SELECT EXISTS (SELECT 1 FROM safety_session_key WHERE id = ?1)")?;
    Ok(asked.query_row([id], |row| row.get(0))?)
}

/// Returns true if the ledger has a session key that is not revoked, by its row or by the audit log.
///
/// # Errors
/// [`SessionKeyError::Store`] if the database fails.
pub fn has_live(connection: &Connection) -> Result<bool, SessionKeyError> {
    let mut asked =
        connection.prepare_cached("SELECT EXISTS (SELECT 1 FROM safety_session_key WHERE state <> 'revoked')")?;
    let by_rows: bool = asked.query_row([], |row| row.get(0))?;
    Ok(by_rows || !hidden(connection, None)?.is_empty())
}

/// Returns the session keys with the stored id `id`, or all, that no row shows as live although the audit log has no revocation of
/// theirs: a row that only says that it is revoked, or a key that was accepted and has no row. Whoever can write the database could
/// hide a key so while everything is revoked, and put its row back later, with its genuine tag.
fn hidden(connection: &Connection, id: Option<&str>) -> Result<Vec<EndedSessionKey>, SessionKeyError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM safety_session_key WHERE state = 'revoked' AND (?1 IS NULL OR id = ?1) ORDER BY id"
    );
    let mut found = Vec::new();
    for (id, before) in read(connection, &sql, params![id])? {
        if revocation_of(connection, &id)?.is_none() {
            found.push(EndedSessionKey { id, before });
        }
    }
    for accepted in accepted(connection)?.into_iter().filter(|one| id.is_none_or(|id| id == one)) {
        let Ok(parsed) = accepted.parse() else { continue };
        if !has_row(connection, &accepted)? && revocation_of(connection, &accepted)?.is_none() {
            found.push(EndedSessionKey { id: accepted, before: Err(SessionKeyError::Unknown(parsed)) });
        }
    }
    Ok(found)
}

/// Records the owner's signature. `key` must be the session key's, which checks the row first.
///
/// # Errors
/// [`SessionKeyError::State`] unless it is drafted, and [`SessionKeyError::Refused`] if the row is not genuine.
pub fn grant(
    transaction: &Transaction<'_>,
    id: SessionKeyId,
    signature: &Bytes,
    key: &QueueKey,
) -> Result<SessionKeyRecord, SessionKeyError> {
    let stored = find(transaction, id)?.ok_or(SessionKeyError::Unknown(id))?;
    let mut record = stored.verified(key)?.clone();
    if record.state != SessionKeyState::Drafted {
        return Err(SessionKeyError::State { id, state: record.state.as_str() });
    }
    record.delegation.signature = signature.clone();
    record.state = SessionKeyState::Granted;
    transaction
        .prepare_cached("UPDATE safety_session_key SET signature = ?2, state = 'granted', tag = ?3 WHERE id = ?1")?
        .execute(params![id.to_string(), signature.as_ref(), tag(&record, key).as_slice()])?;
    Ok(record)
}

/// Counts one signature at `now`, in milliseconds since the Unix epoch. The caller has checked the row in the same
/// transaction.
pub(super) fn count(
    transaction: &Transaction<'_>,
    record: &SessionKeyRecord,
    now: u64,
    key: &QueueKey,
) -> Result<(), SessionKeyError> {
    let used = SessionKeyRecord { uses: record.uses.saturating_add(1), last_used: Some(now), ..record.clone() };
    transaction
        .prepare_cached("UPDATE safety_session_key SET uses = ?2, last_used = ?3, tag = ?4 WHERE id = ?1")?
        .execute(params![used.id.to_string(), number(used.uses)?, number(now)?, tag(&used, key).as_slice()])?;
    Ok(())
}

/// Row that a revocation ended.
#[derive(Debug, Clone, PartialEq)]
pub struct EndedSessionKey {
    /// Id as stored, which may be damaged.
    pub id: String,
    /// Row before the revocation.
    pub before: Result<StoredSessionKey, SessionKeyError>,
}

/// Revokes session keys for good, the one with the stored id `id` or all: tag and the owner's signature are removed by
/// statements that read nothing else, so that it needs no key and works on damaged rows. Returns those that the audit log has no
/// revocation of, whatever their rows say; the caller records it there in the same transaction.
///
/// # Errors
/// [`SessionKeyError::Store`] if the database fails.
pub fn revoke(
    transaction: &Transaction<'_>,
    id: Option<&str>,
    revocation: &SessionKeyRevocation,
) -> Result<Vec<EndedSessionKey>, SessionKeyError> {
    const LIVE: &str = "state <> 'revoked' AND (?1 IS NULL OR id = ?1)";
    let sql = format!("SELECT {COLUMNS} FROM safety_session_key WHERE {LIVE} ORDER BY id");
    let ended = read(transaction, &sql, params![id])?.into_iter().map(|(id, before)| EndedSessionKey { id, before });
    let mut ended: Vec<EndedSessionKey> = ended.collect();
    let hidden = hidden(transaction, id)?;
    let update = |which: &str, id: Option<&str>| {
        let sql = format!(
            "UPDATE safety_session_key SET state = 'revoked', tag = NULL, signature = NULL, revoked_at = ?2, \
             revoked_by = ?3, reason = ?4 WHERE {which}"
        );
        let (at, by, reason) = (number(revocation.at)?, revocation.by.as_str(), revocation.reason.to_string());
        transaction.prepare_cached(&sql)?.execute(params![id, at, by, reason])?;
        Ok::<_, SessionKeyError>(())
    };
    update(LIVE, id)?;
    for key in &hidden {
        update("id = ?1", Some(&key.id))?;
    }
    ended.extend(hidden);
    Ok(ended)
}

/// Row with its id as stored, or the error of a row that cannot be decoded.
type ReadRow = (String, Result<StoredSessionKey, SessionKeyError>);

/// Reads rows. One that cannot be decoded is an error of its own.
fn read(connection: &Connection, sql: &str, params: impl rusqlite::Params) -> Result<Vec<ReadRow>, SessionKeyError> {
    let mut asked = connection.prepare_cached(sql)?;
    let mut rows = asked.query(params)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let id = row.get_ref(0)?.as_str().unwrap_or("?").to_owned();
        let decoded =
            raw(row).map_err(|_| SessionKeyError::Damaged { id: SafeText::clean(&id, 40), column: "a column" });
        found.push((id, decoded.and_then(RawRow::decode)));
    }
    Ok(found)
}

/// Columns of a row as stored.
struct RawRow {
    id: String,
    label: String,
    address: Vec<u8>,
    owner: Vec<u8>,
    chain_id: i64,
    manager: Vec<u8>,
    delegation: Vec<u8>,
    signature: Option<Vec<u8>>,
    created_at: i64,
    expires_at: i64,
    max_calls: Option<i64>,
    uses: i64,
    last_used: Option<i64>,
    state: String,
    revoked_at: Option<i64>,
    revoked_by: Option<String>,
    reason: Option<String>,
    tag: Option<Vec<u8>>,
}

fn raw(row: &Row<'_>) -> rusqlite::Result<RawRow> {
    Ok(RawRow {
        id: row.get(0)?,
        label: row.get(1)?,
        address: row.get(2)?,
        owner: row.get(3)?,
        chain_id: row.get(4)?,
        manager: row.get(5)?,
        delegation: row.get(6)?,
        signature: row.get(7)?,
        created_at: row.get(8)?,
        expires_at: row.get(9)?,
        max_calls: row.get(10)?,
        uses: row.get(11)?,
        last_used: row.get(12)?,
        state: row.get(13)?,
        revoked_at: row.get(14)?,
        revoked_by: row.get(15)?,
        reason: row.get(16)?,
        tag: row.get(17)?,
    })
}

impl RawRow {
    fn decode(self) -> Result<StoredSessionKey, SessionKeyError> {
        let damaged = |column| SessionKeyError::Damaged { id: SafeText::clean(&self.id, 40), column };
        let address = |bytes: &[u8], column| Address::try_from(bytes).map_err(|_| damaged(column));
        let unsigned = |value: i64, column| u64::try_from(value).map_err(|_| damaged(column));
        let mut delegation = Delegation::abi_decode(&self.delegation).map_err(|_| damaged("delegation"))?;
        delegation.signature = self.signature.clone().unwrap_or_default().into();
        let state = match (self.state.as_str(), self.revoked_at, self.revoked_by.as_deref()) {
            ("drafted", None, None) => SessionKeyState::Drafted,
            ("granted", None, None) => SessionKeyState::Granted,
            ("revoked", Some(at), Some(by)) => SessionKeyState::Revoked(SessionKeyRevocation {
                at: unsigned(at, "revoked_at")?,
                by: RevokedBy::parse(by).ok_or_else(|| damaged("revoked_by"))?,
                reason: SafeText::clean(self.reason.as_deref().unwrap_or_default(), 200),
            }),
            _ => return Err(damaged("state")),
        };
        let record = SessionKeyRecord {
            id: self.id.parse().map_err(|_| damaged("id"))?,
            label: SafeText::clean(&self.label, super::LONGEST_LABEL),
            address: address(&self.address, "address")?,
            owner: address(&self.owner, "owner")?,
            chain_id: unsigned(self.chain_id, "chain_id")?,
            manager: address(&self.manager, "manager")?,
            delegation,
            created_at: unsigned(self.created_at, "created_at")?,
            expires_at: unsigned(self.expires_at, "expires_at")?,
            max_calls: self.max_calls.map(|most| unsigned(most, "max_calls")).transpose()?,
            uses: unsigned(self.uses, "uses")?,
            last_used: self.last_used.map(|at| unsigned(at, "last_used")).transpose()?,
            state,
        };
        Ok(StoredSessionKey { record, tag: self.tag })
    }
}

fn tag(record: &SessionKeyRecord, key: &QueueKey) -> B256 {
    key.tag(DOMAIN, &parts(record).each_ref().map(Vec::as_slice))
}

/// Returns the content that a tag covers: every column but the revocation, which removes the tag.
fn parts(record: &SessionKeyRecord) -> [Vec<u8>; 13] {
    let optional = |value: Option<u64>| value.map(|value| value.to_be_bytes().to_vec()).unwrap_or_default();
    let unsigned = Delegation { signature: Bytes::new(), ..record.delegation.clone() };
    [
        record.id.to_string().into_bytes(),
        record.label.to_string().into_bytes(),
        record.address.to_vec(),
        record.owner.to_vec(),
        record.chain_id.to_be_bytes().to_vec(),
        record.manager.to_vec(),
        unsigned.abi_encode(),
        record.delegation.signature.to_vec(),
        record.created_at.to_be_bytes().to_vec(),
        record.expires_at.to_be_bytes().to_vec(),
        optional(record.max_calls),
        [record.uses.to_be_bytes().to_vec(), optional(record.last_used)].concat(),
        record.state.as_str().as_bytes().to_vec(),
    ]
}

fn number(value: u64) -> Result<i64, StoreError> {
    i64::try_from(value).map_err(|_| StoreError::Query(format!("{value} is too large for the database")))
}
