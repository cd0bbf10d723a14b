//! Migration of each module's tables from the version in a file to the current one.

use std::collections::BTreeMap;

use alloy_primitives::keccak256;
use bardo_base::failpoint::{self, Failpoint};
use rusqlite::{Connection, TransactionBehavior, params};

use super::error::StoreError;

/// Tables of one module. A released step never changes; later changes are appended as new steps.
#[derive(Debug, Clone, Copy)]
pub struct Migrations {
    /// Name of the module, which is the prefix of its tables' names.
    pub room: &'static str,
    /// SQL of each version, from 1.
    pub steps: &'static [&'static str],
}

const OWN_TABLE: &str = "CREATE TABLE IF NOT EXISTS store_migrations (
    room TEXT NOT NULL,
    version INTEGER NOT NULL,
    digest BLOB NOT NULL,
    PRIMARY KEY (room, version)
) STRICT";

/// Returns true if the file has tables of this program, and steps are missing. A new file has nothing to lose.
pub(super) fn is_pending(connection: &Connection, rooms: &[Migrations]) -> Result<bool, StoreError> {
    let exists = "SELECT COUNT(*) FROM sqlite_schema WHERE type = 'table' AND name = 'store_migrations'";
    if connection.query_row(exists, [], |row| row.get::<_, i64>(0))? == 0 {
        return Ok(false);
    }
    let mut done: BTreeMap<String, usize> = BTreeMap::new();
    let mut versions = connection.prepare("SELECT room, MAX(version) FROM store_migrations GROUP BY room")?;
    let mut rows = versions.query([])?;
    while let Some(row) = rows.next()? {
        done.insert(row.get(0)?, row.get::<_, i64>(1)?.try_into().unwrap_or(usize::MAX));
    }
    let is_behind = |rooms: &Migrations| done.get(rooms.room).copied().unwrap_or(0) < rooms.steps.len();
    Ok(!done.is_empty() && rooms.iter().any(is_behind))
}

/// Applies all missing steps in one transaction.
pub(super) fn run(connection: &mut Connection, rooms: &[Migrations]) -> Result<(), StoreError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(OWN_TABLE)?;
    for Migrations { room, steps } in rooms {
        let done: BTreeMap<usize, Vec<u8>> = transaction
            .prepare("SELECT version, digest FROM store_migrations WHERE room = ?1")?
            .query_map([room], |row| Ok((row.get::<_, i64>(0)?.try_into().unwrap_or(usize::MAX), row.get(1)?)))?
            .collect::<Result<_, _>>()?;
        if let Some(found) = done.keys().copied().max().filter(|found| *found > steps.len()) {
            return Err(StoreError::TooNew { room: (*room).to_owned(), found, known: steps.len() });
        }
        for (version, sql) in (1..).zip(*steps) {
            let digest = keccak256(sql);
            match done.get(&version) {
                Some(known) if known.as_slice() == digest.as_slice() => {}
                Some(_) => return Err(StoreError::Changed { room: (*room).to_owned(), version }),
                None => {
                    transaction.execute_batch(sql)?;
                    transaction.execute(
                        "INSERT INTO store_migrations (room, version, digest) VALUES (?1, ?2, ?3)",
                        params![room, version as i64, digest.as_slice()],
                    )?;
                }
            }
        }
    }
    failpoint::reach(Failpoint::MigrationInside);
    transaction.commit()?;
    Ok(())
}
