//! Policy that the operator has accepted, stored in the ledger. A file that was loosened while no process ran then
//! waits for a decision, like one that was loosened under a running process.

use alloy::primitives::B256;
use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use super::Policy;
use bardo_store::{Migrations, StoreError};

/// Table of this module.
pub const MIGRATIONS: Migrations = Migrations {
    room: "policy",
    steps: &["CREATE TABLE policy_held (
        one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
        hash BLOB NOT NULL CHECK (length(hash) = 32),
        sources TEXT NOT NULL,
        at INTEGER NOT NULL
    ) STRICT"],
};

/// Returns the hash and the texts of the policy that was last in force; `None` on a new ledger.
///
/// # Errors
/// [`StoreError`] if the database fails, or if the row cannot be parsed.
pub fn stored_policy(connection: &Connection) -> Result<Option<(B256, Vec<String>)>, StoreError> {
    let stored: Option<(Vec<u8>, String)> = connection
        .prepare_cached("SELECT hash, sources FROM policy_held WHERE one = 1")?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((hash, sources)) = stored else { return Ok(None) };
    let garbled = || StoreError::Corrupt("the last policy in force cannot be read".to_owned());
    let hash = B256::try_from(hash.as_slice()).map_err(|_| garbled())?;
    let sources = serde_json::from_str(&sources).map_err(|_| garbled())?;
    Ok(Some((hash, sources)))
}

/// Stores `policy` as the one in force; `now` is in milliseconds since the Unix epoch.
///
/// # Errors
/// [`StoreError`] if the database fails.
pub fn store_policy(transaction: &Transaction<'_>, policy: &Policy, now: u64) -> Result<(), StoreError> {
    let sources = serde_json::to_string(&policy.sources().iter().map(AsRef::as_ref).collect::<Vec<&str>>())
        .map_err(|error| StoreError::Query(error.to_string()))?;
    let now = i64::try_from(now).map_err(|_| StoreError::Query(format!("{now} is too large for the database")))?;
    transaction
        .prepare_cached("INSERT OR REPLACE INTO policy_held (one, hash, sources, at) VALUES (1, ?1, ?2, ?3)")?
        .execute(params![policy.hash().as_slice(), sources, now])?;
    Ok(())
}
