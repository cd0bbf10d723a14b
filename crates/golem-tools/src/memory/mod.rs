//! Notes of an agent: a small state that it saves and loads, and its decisions in the audit log. They belong to one agent on
//! one network, decide nothing, and are text from outside to everyone else.

pub mod load_agent_state;
pub mod record_agent_decision;
pub mod save_agent_state;
#[cfg(test)]
mod tests;

use alloy::primitives::{B256, keccak256};
use rusqlite::{OptionalExtension as _, Transaction, params};
use serde_json::{Map, Value};

use crate::engine::CallContext;
use crate::shared::invalid;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_store::{Store, StoreError};

/// Table of the saved states. A state belongs to a Golem, or to the operator, on one network, under a name.
pub(crate) const STATES: &str = "CREATE TABLE engine_agent_state (
        golem_id TEXT NOT NULL,
        network TEXT NOT NULL,
        name TEXT NOT NULL,
        version INTEGER NOT NULL,
        saved_at INTEGER NOT NULL,
        state TEXT NOT NULL,
        checksum BLOB NOT NULL CHECK (length(checksum) = 32),
        PRIMARY KEY (golem_id, network, name)
    ) STRICT";

/// Maximum size of a state as JSON text, in bytes.
pub const MOST_STATE_BYTES: usize = 64 << 10;
/// Maximum number of names that one agent has on one network.
pub const MOST_STATES: i64 = 32;
/// Maximum length of a name, in characters.
pub const LONGEST_NAME: usize = 64;
/// Name of a state that a call does not name.
pub const USUAL_NAME: &str = "default";

/// Place of a state.
#[derive(Debug, Clone, PartialEq, Eq)]
struct StatePlace {
    golem_id: String,
    network: String,
    name: String,
}

/// State of an agent as it was saved.
#[derive(Debug, Clone, PartialEq)]
struct SavedState {
    version: u64,
    /// Time of the save, in milliseconds since the Unix epoch.
    saved_at: u64,
    state: Map<String, Value>,
    checksum: B256,
}

impl StatePlace {
    /// Place of the caller's state of this name.
    ///
    /// # Errors
    /// `VALIDATION_FAILED` for a name with other characters or too many.
    fn of(context: &CallContext, name: Option<&str>) -> Result<Self, ToolError> {
        let name = name.unwrap_or(USUAL_NAME);
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':');
        if name.is_empty() || name.len() > LONGEST_NAME || !name.bytes().all(is_plain) {
            let what = format_args!("expected 1 to {LONGEST_NAME} letters, digits and - _ . :");
            return Err(invalid("name", &what));
        }
        let golem_id = context.golem_id().to_string();
        Ok(Self { golem_id, network: context.network_name(), name: name.to_owned() })
    }

    /// Saves a state in this place instead of the one before. Returns its version, counted from 1, and its checksum.
    ///
    /// # Errors
    /// `VALIDATION_FAILED` for a state that is too large, or a name beyond the last one; `STORE_UNAVAILABLE` if it was not
    /// written.
    async fn save(self, store: &Store, state: &Map<String, Value>, now: u64) -> Result<(u64, B256, usize), ToolError> {
        let text = serde_json::to_string(state).map_err(|error| invalid("state", &error))?;
        let bytes = text.len();
        if bytes > MOST_STATE_BYTES {
            let what = format_args!("{bytes} bytes as JSON; at most {MOST_STATE_BYTES} are kept");
            return Err(invalid("state", &what));
        }
        let checksum = keccak256(&text);
        let written = store.write(move |transaction| self.write(transaction, &text, checksum, now));
        let version = written.await.map_err(unavailable)?.ok_or_else(|| {
            let what = format_args!("{MOST_STATES} states are kept already; save under one of their names");
            invalid("name", &what)
        })?;
        Ok((version, checksum, bytes))
    }

    /// Writes a state; `None` if all names are taken.
    fn write(
        &self,
        transaction: &Transaction<'_>,
        text: &str,
        checksum: B256,
        now: u64,
    ) -> Result<Option<u64>, StoreError> {
        let Self { golem_id, network, name } = self;
        let version: Option<i64> = transaction
            .query_row(
                "SELECT version FROM engine_agent_state WHERE golem_id = ?1 AND network = ?2 AND name = ?3",
                params![golem_id, network, name],
                |row| row.get(0),
            )
            .optional()?;
        let count: i64 = transaction.query_row(
            "SELECT COUNT(*) FROM engine_agent_state WHERE golem_id = ?1 AND network = ?2",
            params![golem_id, network],
            |row| row.get(0),
        )?;
        if version.is_none() && count >= MOST_STATES {
            return Ok(None);
        }
        let version = version.unwrap_or(0).saturating_add(1);
        transaction.execute(
            "INSERT OR REPLACE INTO engine_agent_state (golem_id, network, name, version, saved_at, state, checksum)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![
                golem_id,
                network,
                name,
                version,
                i64::try_from(now).unwrap_or(i64::MAX),
                text,
                checksum.as_slice()
            ],
        )?;
        Ok(Some(u64::try_from(version).unwrap_or(0)))
    }

    /// Loads the state of this place; `None` if none was saved.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` if it cannot be read, or is not what was saved.
    fn load(&self, store: &Store) -> Result<Option<SavedState>, ToolError> {
        let Self { golem_id, network, name } = self;
        type Columns = (i64, i64, String, Vec<u8>);
        let found: Option<Columns> = store
            .read(|connection| {
                connection
                    .query_row(
                        "SELECT version, saved_at, state, checksum FROM engine_agent_state
                         WHERE golem_id = ?1 AND network = ?2 AND name = ?3",
                        params![golem_id, network, name],
                        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
                    )
                    .optional()
                    .map_err(StoreError::from)
            })
            .map_err(unavailable)?;
        let Some((version, saved_at, text, checksum)) = found else { return Ok(None) };
        let is_whole = keccak256(&text).as_slice() == checksum.as_slice() && text.len() <= MOST_STATE_BYTES;
        let state = is_whole.then(|| serde_json::from_str(&text).ok()).flatten().ok_or_else(|| {
            let what = format_args!("the saved state `{name}` was changed outside Bardo, and is not returned");
            ToolError::new(ErrorCode::StoreUnavailable, what).suggest("Save it again.")
        })?;
        let unsigned = |value: i64| u64::try_from(value).unwrap_or(0);
        Ok(Some(SavedState {
            version: unsigned(version),
            saved_at: unsigned(saved_at),
            state,
            checksum: keccak256(&text),
        }))
    }
}

/// Deletes all saved states, for a paper ledger that is reset.
///
/// # Errors
/// Returns the database error.
pub fn forget_states(transaction: &Transaction<'_>) -> Result<(), StoreError> {
    transaction.execute("DELETE FROM engine_agent_state", [])?;
    Ok(())
}

fn unavailable(error: StoreError) -> ToolError {
    ToolError::new(ErrorCode::StoreUnavailable, error)
}
