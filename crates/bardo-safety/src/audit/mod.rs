//! The audit log: who requested what, the findings, the approvals, the signatures and the outcomes. Each entry contains
//! the hash of the previous one, and a file outside the database contains the hash of the last one. So changing,
//! removing or swapping entries and truncating the log are all detected.
//!
//! Entries are appended inside the caller's transaction, so that an action and its record are stored together or not at
//! all.
//!
//! Not here: events for the screen (see `fabric`), and figures that decide anything (see `ledger`). Secrets are removed
//! before an entry is made.

mod anchor;
mod log;
#[cfg(test)]
mod tests;
mod verify;

use alloy::primitives::{B256, Keccak256};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use serde::Serialize;
use serde_json::Value;

use bardo_base::id::{CallId, GolemId};
use bardo_store::{Migrations, StoreError};

pub use anchor::{AnchorError, LogAnchor};
pub use bardo_session::audit::AuditKind;
pub use log::{AuditLog, AuditNote};
pub use verify::{LogFault, VerificationReport, verify};

/// Migrations of the audit log's table.
pub const MIGRATIONS: Migrations = Migrations { room: "audit", steps: &[FIRST] };

const FIRST: &str = "
    CREATE TABLE audit_entry (
        seq INTEGER PRIMARY KEY,
        at INTEGER NOT NULL,
        kind TEXT NOT NULL,
        call_id TEXT,
        golem_id TEXT NOT NULL,
        body TEXT NOT NULL,
        previous BLOB NOT NULL CHECK (length(previous) = 32),
        hash BLOB NOT NULL CHECK (length(hash) = 32)
    ) STRICT;
    CREATE INDEX audit_entry_call ON audit_entry (call_id, seq);
";

/// Domain separator of the entry hashes.
const DOMAIN: &[u8] = b"bardo audit entry 1";

/// Entry to append.
#[derive(Debug, Clone, Copy)]
pub struct LogEntry<'a, T: Serialize> {
    /// Kind of the event.
    pub kind: AuditKind,
    /// Tool call that the entry belongs to; `None` if there is none.
    pub call_id: Option<CallId>,
    /// Golem or operator that acted.
    pub golem_id: &'a GolemId,
    /// Details, without secrets.
    pub body: &'a T,
}

/// End of the audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LogHead {
    /// Number of the last entry; 0 if there is none.
    pub seq: u64,
    /// Hash of the last entry, which covers all entries before it.
    pub hash: B256,
}

impl LogHead {
    /// Head of an audit log without entries.
    pub const EMPTY: Self = Self { seq: 0, hash: B256::ZERO };
}

/// Entry as stored in the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StoredEntry {
    /// Number of the entry, counted from 1.
    pub seq: u64,
    /// Time of the entry, in milliseconds since the Unix epoch.
    pub at: u64,
    /// Kind of the event, by its name.
    pub kind: String,
    /// Tool call that the entry belongs to; `None` if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// Golem or operator that acted.
    pub golem_id: String,
    /// Details, as JSON text.
    pub body: String,
    /// Hash of the previous entry; zero for the first.
    pub previous: B256,
    /// Hash of this entry.
    pub hash: B256,
}

/// Reason for which an entry was not appended, or the log could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuditError {
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The details cannot be serialised.
    #[error("the entry cannot be written as JSON: {0}")]
    Body(String),
    /// A stored number or hash is invalid.
    #[error("entry {0} of the audit log is invalid; run `bardo log verify` for details")]
    Damaged(i64),
}

impl From<rusqlite::Error> for AuditError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error.into())
    }
}

/// Appends an entry and returns the new head. After the commit, the caller should move the [`LogAnchor`] to it.
///
/// # Errors
/// [`AuditError`] if the entry was not stored; the caller must then roll back its transaction, which would leave no
/// record.
pub fn append<T: Serialize>(
    transaction: &Transaction<'_>,
    now: u64,
    entry: &LogEntry<'_, T>,
) -> Result<LogHead, AuditError> {
    let before = head(transaction)?;
    let body = serde_json::to_string(entry.body).map_err(|error| AuditError::Body(error.to_string()))?;
    let mut recorded = StoredEntry {
        seq: before.seq.saturating_add(1),
        at: now,
        kind: entry.kind.as_str().to_owned(),
        call_id: entry.call_id.map(|id| id.to_string()),
        golem_id: entry.golem_id.as_str().to_owned(),
        body,
        previous: before.hash,
        hash: B256::ZERO,
    };
    recorded.hash = recorded.digest();
    transaction
        .prepare_cached(
            "INSERT INTO audit_entry (seq, at, kind, call_id, golem_id, body, previous, hash)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![
            sql(recorded.seq)?,
            sql(recorded.at)?,
            recorded.kind,
            recorded.call_id,
            recorded.golem_id,
            recorded.body,
            recorded.previous.as_slice(),
            recorded.hash.as_slice(),
        ])?;
    Ok(LogHead { seq: recorded.seq, hash: recorded.hash })
}

/// Returns the size of a golem's entries of one kind since `since`, in bytes of their bodies. Reads the log backwards up to
/// that moment, in milliseconds since the Unix epoch.
///
/// # Errors
/// [`AuditError`] if the database fails.
pub fn bytes_since(
    connection: &Connection,
    kind: AuditKind,
    golem_id: &GolemId,
    since: u64,
) -> Result<u64, AuditError> {
    let bytes: i64 = connection
        .prepare_cached(
            "SELECT COALESCE(SUM(LENGTH(CAST(body AS BLOB))), 0) FROM audit_entry
             WHERE seq > COALESCE((SELECT seq FROM audit_entry WHERE at < ?1 ORDER BY seq DESC LIMIT 1), 0)
               AND golem_id = ?2 AND kind = ?3",
        )?
        .query_row(params![sql(since)?, golem_id.as_str(), kind.as_str()], |row| row.get(0))?;
    Ok(u64::try_from(bytes).unwrap_or_default())
}

/// Returns the number of entries of one kind since `since`, in milliseconds since the Unix epoch, whose body satisfies
/// `fits`. An entry whose body cannot be read counts.
///
/// # Errors
/// [`AuditError`] if the database fails.
pub fn count_since(
    connection: &Connection,
    kind: AuditKind,
    since: u64,
    fits: impl Fn(&Value) -> bool,
) -> Result<u64, AuditError> {
    let mut statement = connection.prepare_cached("SELECT body FROM audit_entry WHERE kind = ?1 AND at >= ?2")?;
    let mut rows = statement.query(params![kind.as_str(), sql(since)?])?;
    let mut count = 0_u64;
    while let Some(row) = rows.next()? {
        let body: String = row.get(0)?;
        if serde_json::from_str::<Value>(&body).map_or(true, |body| fits(&body)) {
            count = count.saturating_add(1);
        }
    }
    Ok(count)
}

/// Returns the time of the newest entry, in milliseconds since the Unix epoch; 0 without one.
///
/// # Errors
/// [`AuditError`] if the database fails.
pub fn newest_time(connection: &Connection) -> Result<u64, AuditError> {
    let newest: i64 =
        connection.prepare_cached("SELECT COALESCE(MAX(at), 0) FROM audit_entry")?.query_row([], |row| row.get(0))?;
    Ok(u64::try_from(newest).unwrap_or_default())
}

/// Returns the head of the audit log.
///
/// # Errors
/// [`AuditError`] if the database fails or the last entry is damaged.
pub fn head(connection: &Connection) -> Result<LogHead, AuditError> {
    let last: Option<(i64, Vec<u8>)> = connection
        .prepare_cached("SELECT seq, hash FROM audit_entry ORDER BY seq DESC LIMIT 1")?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((seq, hash)) = last else { return Ok(LogHead::EMPTY) };
    let damaged = || AuditError::Damaged(seq);
    let hash = B256::try_from(hash.as_slice()).map_err(|_| damaged())?;
    Ok(LogHead { seq: u64::try_from(seq).map_err(|_| damaged())?, hash })
}

/// Returns up to `most` entries with numbers above `after`, the oldest first. If `call` is given, only its entries.
///
/// # Errors
/// [`AuditError`] if the database fails or an entry is damaged.
pub fn entries(
    connection: &Connection,
    after: u64,
    call: Option<CallId>,
    most: u32,
) -> Result<Vec<StoredEntry>, AuditError> {
    let call = call.map(|id| id.to_string());
    let mut statement = connection.prepare_cached(
        "SELECT seq, at, kind, call_id, golem_id, body, previous, hash FROM audit_entry
         WHERE seq > ?1 AND (?2 IS NULL OR call_id = ?2) ORDER BY seq LIMIT ?3",
    )?;
    let mut rows = statement.query(params![sql(after)?, call, most])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(StoredEntry::read(row)?);
    }
    Ok(found)
}

/// Returns true if there is an entry of any of these kinds.
///
/// # Errors
/// [`AuditError`] if the database fails.
pub fn has_any(connection: &Connection, kinds: &[AuditKind]) -> Result<bool, AuditError> {
    let mut statement = connection.prepare_cached("SELECT EXISTS (SELECT 1 FROM audit_entry WHERE kind = ?1)")?;
    for kind in kinds {
        if statement.query_row([kind.as_str()], |row| row.get(0))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the hash of the newest entry of any of these kinds; `None` without one.
///
/// # Errors
/// [`AuditError`] if the database fails or the entry is damaged.
pub fn newest(connection: &Connection, kinds: &[AuditKind]) -> Result<Option<B256>, AuditError> {
    let mut statement =
        connection.prepare_cached("SELECT seq, hash FROM audit_entry WHERE kind = ?1 ORDER BY seq DESC LIMIT 1")?;
    let mut newest: Option<(i64, B256)> = None;
    for kind in kinds {
        let found: Option<(i64, Vec<u8>)> =
            statement.query_row([kind.as_str()], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        let Some((seq, hash)) = found else { continue };
        let hash = B256::try_from(hash.as_slice()).map_err(|_| AuditError::Damaged(seq))?;
        newest = newest.max(Some((seq, hash)));
    }
    Ok(newest.map(|(_, hash)| hash))
}

/// Returns the body of the newest entry of any of these kinds for which `fits` returns true; `None` without one.
///
/// # Errors
/// [`AuditError`] if the database fails.
pub fn newest_body(
    connection: &Connection,
    kinds: &[AuditKind],
    fits: impl Fn(&Value) -> bool,
) -> Result<Option<Value>, AuditError> {
    let mut statement = connection.prepare_cached("SELECT kind, body FROM audit_entry ORDER BY seq DESC")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (kind, body): (String, String) = (row.get(0)?, row.get(1)?);
        if kinds.iter().any(|wanted| wanted.as_str() == kind)
            && let Ok(body) = serde_json::from_str::<Value>(&body)
            && fits(&body)
        {
            return Ok(Some(body));
        }
    }
    Ok(None)
}

impl StoredEntry {
    fn read(row: &Row<'_>) -> Result<Self, AuditError> {
        let seq: i64 = row.get(0)?;
        let damaged = || AuditError::Damaged(seq);
        let number = |value: i64| u64::try_from(value).map_err(|_| damaged());
        let hash = |bytes: Vec<u8>| B256::try_from(bytes.as_slice()).map_err(|_| damaged());
        Ok(Self {
            seq: number(seq)?,
            at: number(row.get(1)?)?,
            kind: row.get(2)?,
            call_id: row.get(3)?,
            golem_id: row.get(4)?,
            body: row.get(5)?,
            previous: hash(row.get(6)?)?,
            hash: hash(row.get(7)?)?,
        })
    }

    /// Returns true if the stored hash matches the fields.
    pub fn is_intact(&self) -> bool {
        self.hash == self.digest()
    }

    /// Hash of the entry's fields, each text preceded by its length.
    fn digest(&self) -> B256 {
        let Self { seq, at, kind, call_id, golem_id, body, previous, hash: _ } = self;
        let mut hasher = Keccak256::new();
        hasher.update(DOMAIN);
        hasher.update(previous);
        hasher.update(seq.to_be_bytes());
        hasher.update(at.to_be_bytes());
        hasher.update([u8::from(call_id.is_some())]);
        for text in [kind, call_id.as_deref().unwrap_or_default(), golem_id, body] {
            hasher.update((text.len() as u64).to_be_bytes());
            hasher.update(text);
        }
        hasher.finalize()
    }
}

/// Converts a number for SQLite. Real values are far below the limit.
fn sql(value: u64) -> Result<i64, AuditError> {
    i64::try_from(value).map_err(|_| AuditError::Damaged(i64::MAX))
}
