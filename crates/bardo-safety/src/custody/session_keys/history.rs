//! Session keys in the audit log: acceptances and revocations. The log's head is anchored in a file beside the database, so
//! that entries which disappear are noticed.

use std::collections::BTreeSet;
use std::path::Path;

use alloy::primitives::Address;
use rusqlite::{Connection, OptionalExtension as _, params};
use serde_json::Value;

use super::records::SessionKeyError;
use super::{RevokedBy, SessionKeyRevocation, SessionRefusal};
use crate::audit::{AuditKind, LogAnchor, LogHead};
use bardo_base::text::SafeText;

/// Revocation of a session key by the audit log; `None` if it has none.
///
/// # Errors
/// [`SessionKeyError::Store`] if the database fails.
pub fn revocation_of(connection: &Connection, id: &str) -> Result<Option<SessionKeyRevocation>, SessionKeyError> {
    let Some((at, body)) = newest(connection, AuditKind::KeysRevoked, id)? else { return Ok(None) };
    let by = body["by"].as_str().and_then(RevokedBy::parse).unwrap_or(RevokedBy::Operator);
    let reason = SafeText::clean(body["reason"].as_str().unwrap_or_default(), 200);
    Ok(Some(SessionKeyRevocation { at, by, reason }))
}

/// Owner and EIP-155 id of the chain for which a session key was accepted, by the audit log; `None` if it was not.
///
/// # Errors
/// [`SessionKeyError::Store`] if the database fails.
pub fn acceptance_of(connection: &Connection, id: &str) -> Result<Option<(Address, u64)>, SessionKeyError> {
    let Some((_, body)) = newest(connection, AuditKind::KeysGranted, id)? else { return Ok(None) };
    let owner = body["owner"].as_str().and_then(|owner| owner.parse().ok());
    Ok(owner.zip(body["chain_id"].as_u64()))
}

/// Ids of all session keys that were accepted, by the audit log.
///
/// # Errors
/// [`SessionKeyError::Store`] if the database fails.
pub(super) fn accepted(connection: &Connection) -> Result<BTreeSet<String>, SessionKeyError> {
    let mut asked = connection.prepare_cached("SELECT body FROM audit_entry WHERE kind = ?1")?;
    let bodies = asked.query_map([AuditKind::KeysGranted.as_str()], |row| row.get::<_, String>(0))?;
    let mut ids = BTreeSet::new();
    for body in bodies {
        let body: Value = serde_json::from_str(&body?).unwrap_or_default();
        ids.extend(body["session_key"].as_str().map(str::to_owned));
    }
    Ok(ids)
}

/// Checks that the audit log in `database` reaches as far as its anchor. `connection` must not be in a transaction.
///
/// # Errors
/// [`SessionRefusal::Unverified`] if entries are missing or the anchor cannot be read, and [`SessionKeyError::Store`] if
/// the database fails.
pub fn check_anchor(connection: &Connection, database: &Path) -> Result<(), SessionKeyError> {
    let head = anchor(database)?;
    reaches(connection, head)
}

/// Reads the anchor of the audit log beside a database. It must be read before the database is, which can only be ahead of
/// it then.
///
/// # Errors
/// [`SessionRefusal::Unverified`] if it cannot be read or is malformed.
pub(super) fn anchor(database: &Path) -> Result<Option<LogHead>, SessionRefusal> {
    let unread = |_| SessionRefusal::Unverified("the anchor of the audit log cannot be read");
    LogAnchor::beside(database).read().map_err(unread)
}

/// Checks that the audit log reaches as far as its anchor: that of a database that was put back to an older state does
/// not.
///
/// # Errors
/// [`SessionRefusal::Unverified`] if entries are missing.
pub(super) fn reaches(connection: &Connection, anchor: Option<LogHead>) -> Result<(), SessionKeyError> {
    let Some(head) = anchor.filter(|head| *head != LogHead::EMPTY) else { return Ok(()) };
    let seq = i64::try_from(head.seq).unwrap_or(i64::MAX);
    let mut asked = connection.prepare_cached("SELECT hash FROM audit_entry WHERE seq = ?1")?;
    let hash: Option<Vec<u8>> = asked.query_row([seq], |row| row.get(0)).optional()?;
    match hash.as_deref() == Some(head.hash.as_slice()) {
        true => Ok(()),
        false => {
            Err(SessionRefusal::Unverified("the audit log lacks entries that it had: the ledger was put back").into())
        }
    }
}

/// Time in milliseconds since the Unix epoch and body of the newest entry about a session key.
fn newest(connection: &Connection, kind: AuditKind, id: &str) -> Result<Option<(u64, Value)>, SessionKeyError> {
    // The text narrows the search; the field decides.
    let sql = "SELECT at, body FROM audit_entry WHERE kind = ?1 AND instr(body, ?2) > 0 ORDER BY seq DESC";
    let mut asked = connection.prepare_cached(sql)?;
    let mut rows = asked.query(params![kind.as_str(), id])?;
    while let Some(row) = rows.next()? {
        let (at, body): (i64, String) = (row.get(0)?, row.get(1)?);
        let body: Value = serde_json::from_str(&body).unwrap_or_default();
        if body["session_key"] == id {
            return Ok(Some((u64::try_from(at).unwrap_or_default(), body)));
        }
    }
    Ok(None)
}
