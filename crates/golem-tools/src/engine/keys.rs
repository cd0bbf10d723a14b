//! Idempotency keys: a call with a key runs once, and repetitions return the first answer.
//!
//! A key is bound to one actor, one tool and one set of parameters. A read keeps only a successful answer; a write
//! keeps its answer once signing has begun. Otherwise the key is released, so that a retry can succeed.

use alloy::primitives::B256;
use rusqlite::{OptionalExtension, params};

use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::id::{CallId, GolemId};
use bardo_base::model::{CapabilityTier, ToolMeta};
use bardo_session::envelope::ToolResponse;
use bardo_store::{Migrations, Store, StoreError};

/// Migrations of the engine's tables.
pub const MIGRATIONS: Migrations = Migrations {
    room: "engine",
    steps: &[
        "CREATE TABLE engine_idempotency (
        golem_id TEXT NOT NULL,
        key TEXT NOT NULL,
        tool TEXT NOT NULL,
        params_hash BLOB NOT NULL,
        call_id TEXT NOT NULL,
        started_at INTEGER NOT NULL,
        response TEXT,
        PRIMARY KEY (golem_id, key)
    ) STRICT;
    CREATE INDEX engine_idempotency_started ON engine_idempotency (started_at)",
        // Set before signing: such a call never counts as abandoned.
        "ALTER TABLE engine_idempotency ADD COLUMN acting INTEGER NOT NULL DEFAULT 0",
        // Id of the store session that claimed the key. It shows whether the claiming process still runs.
        "ALTER TABLE engine_idempotency ADD COLUMN session TEXT",
        crate::memory::STATES,
        crate::schedules::SCHEDULES,
    ],
};

/// Deletes all idempotency keys, for a paper ledger that is reset.
///
/// # Errors
/// Returns the database error.
pub fn forget_keys(transaction: &rusqlite::Transaction<'_>) -> Result<(), StoreError> {
    transaction.execute("DELETE FROM engine_idempotency", [])?;
    Ok(())
}

/// Retention of answers where nothing was signed, in milliseconds: one day. Other answers are kept forever.
const KEPT: u64 = 24 * 3_600 * 1_000;
/// Time that a write may wait for the operator before its key counts as abandoned, in milliseconds: one hour.
const ASKING: u64 = 3_600 * 1_000;

/// Claimed key with its call.
#[derive(Debug, Clone)]
pub(super) struct KeyClaim {
    store: Store,
    golem_id: String,
    key: String,
    tool: &'static str,
    params_hash: B256,
    call_id: CallId,
}

/// Call that may have signed something under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignedCall {
    /// Id of the call.
    pub call_id: CallId,
    /// True if its answer is stored under the key.
    pub is_answered: bool,
}

/// Call that noted under a key that it was about to sign.
#[derive(Debug, Clone, Copy)]
pub(super) struct ActedCall {
    pub(super) call: SignedCall,
    /// True if its process ended.
    pub(super) is_orphaned: bool,
}

/// Returns the call that noted under an actor's key that it was about to sign; `None` if none has.
///
/// # Errors
/// `STORE_UNAVAILABLE` if the table cannot be read.
pub(super) fn signed_under(store: &Store, golem_id: &GolemId, key: &str) -> Result<Option<ActedCall>, ToolError> {
    let found = store.read(|connection| {
        let row = connection.query_row(
            "SELECT call_id, response IS NOT NULL, session FROM engine_idempotency
             WHERE golem_id = ?1 AND key = ?2 AND acting <> 0",
            params![golem_id.as_str(), key],
            |row| Ok((row.get::<_, String>(0)?, row.get::<_, bool>(1)?, row.get::<_, Option<String>>(2)?)),
        );
        Ok::<_, StoreError>(row.optional()?)
    });
    let Some((call_id, is_answered, session)) = found.map_err(unavailable)? else { return Ok(None) };
    let call_id = call_id.parse().map_err(|error| {
        ToolError::new(
            ErrorCode::StoreUnavailable,
            format_args!("the call stored under this key cannot be read: {error}"),
        )
    })?;
    let is_orphaned = session.is_some_and(|session| !store.is_session_alive(&session));
    Ok(Some(ActedCall { call: SignedCall { call_id, is_answered }, is_orphaned }))
}

/// Result of claiming a key.
pub(super) enum ClaimResult {
    /// First call with this key. Run it, then [`KeyClaim::keep`] or [`KeyClaim::release`].
    Fresh(KeyClaim),
    /// Answer of the earlier call.
    Answered(Box<ToolResponse>),
    /// The claiming process ended before it had an answer.
    Orphaned(OrphanedKey),
}

/// Key left without an answer by an ended process.
pub(super) struct OrphanedKey {
    claim: KeyClaim,
    /// Id of the call that claimed the key.
    pub(super) first: CallId,
    /// True if that call may have signed something.
    pub(super) acted: bool,
}

impl OrphanedKey {
    /// Transfers the key to the current call.
    ///
    /// # Errors
    /// `CALL_IN_PROGRESS` if another call took the key first; `STORE_UNAVAILABLE` if the write fails.
    pub(super) async fn take_over(self, now: u64) -> Result<KeyClaim, ToolError> {
        let KeyClaim { store, golem_id, key, call_id, .. } = self.claim.clone();
        let first = self.first.to_string();
        let taken = store.write(move |tx| {
            let rows = tx.execute(
                "UPDATE engine_idempotency SET call_id = ?1, started_at = ?2, acting = 0,
                        session = (SELECT id FROM temp.store_session)
                 WHERE golem_id = ?3 AND key = ?4 AND call_id = ?5 AND response IS NULL",
                params![call_id.to_string(), i64::try_from(now).unwrap_or(i64::MAX), golem_id, key, first],
            )?;
            Ok::<_, StoreError>(rows)
        });
        match taken.await.map_err(unavailable)? {
            1 => Ok(self.claim),
            _ => Err(self.in_progress()),
        }
    }

    /// Stores an answer derived from the ledger under the key and returns it.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` if the write fails.
    pub(super) async fn answer(self, response: ToolResponse) -> Result<ToolResponse, ToolError> {
        KeyClaim { call_id: self.first, ..self.claim }.keep(&response).await?;
        Ok(response)
    }

    /// Error for a call whose outcome is still open although its process ended.
    pub(super) fn in_progress(&self) -> ToolError {
        self.claim.in_progress(&self.first.to_string())
    }
}

impl KeyClaim {
    /// Claims `key` for a call that starts at `now`, in milliseconds since the Unix epoch.
    ///
    /// # Errors
    /// `VALIDATION_FAILED` for a malformed key, `CALL_IN_PROGRESS` while the first call runs, `IDEMPOTENCY_CONFLICT` if
    /// the key belongs to another call, `STORE_UNAVAILABLE` if the table cannot be used.
    pub(super) async fn take(
        store: &Store,
        golem_id: &GolemId,
        key: String,
        meta: &ToolMeta,
        params_hash: B256,
        call_id: CallId,
        now: u64,
    ) -> Result<ClaimResult, ToolError> {
        if !(1..=128).contains(&key.len()) || !key.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(ToolError::new(
                ErrorCode::ValidationFailed,
                "an idempotency key must be 1 to 128 visible ASCII characters without spaces",
            ));
        }
        let claim =
            Self { store: store.clone(), golem_id: golem_id.to_string(), key, tool: meta.name, params_hash, call_id };
        // A call without an answer by then, and without a signature, was cancelled or its process is gone.
        let running = u64::try_from(meta.tick_budget.cancel_after().as_millis()).unwrap_or(u64::MAX);
        let asking = if meta.capability == CapabilityTier::Read { 0 } else { ASKING };
        let abandoned_after = running.saturating_add(asking);
        let mine = claim.clone();
        let found = store.write(move |tx| mine.enter(tx, now, abandoned_after)).await.map_err(unavailable)?;
        match found {
            KeyRow::Nothing => Ok(ClaimResult::Fresh(claim)),
            KeyRow::Answer(text) => match serde_json::from_str(&text) {
                Ok(response) => Ok(ClaimResult::Answered(Box::new(response))),
                Err(error) => Err(ToolError::new(
                    ErrorCode::StoreUnavailable,
                    format_args!("the response stored under this key cannot be read: {error}"),
                )),
            },
            KeyRow::Running { first, session, acted } => {
                let orphaned = session.is_some_and(|session| !store.is_session_alive(&session));
                match first.parse() {
                    Ok(first) if orphaned => Ok(ClaimResult::Orphaned(OrphanedKey { claim, first, acted })),
                    Ok(_) | Err(_) => Err(claim.in_progress(&first)),
                }
            }
            KeyRow::Other(tool) => Err(ToolError::new(
                ErrorCode::IdempotencyConflict,
                format_args!("the key `{}` was already used for another call, of {tool}", claim.key),
            )),
        }
    }

    fn in_progress(&self, first: &str) -> ToolError {
        ToolError::new(
            ErrorCode::CallInProgress,
            format_args!(
                "a call of {} with the key `{}` is still running, or was interrupted while it acted",
                self.tool, self.key
            ),
        )
        .suggest(format_args!("Check what call {first} did before calling again under another key."))
        .detail("first_call_id", first)
    }

    /// Stores the answer under the key.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` if the write fails.
    pub(super) async fn keep(self, response: &ToolResponse) -> Result<(), ToolError> {
        let text = serde_json::to_string(response).map_err(|error| {
            ToolError::new(ErrorCode::StoreUnavailable, format_args!("cannot write the response: {error}"))
        })?;
        let Self { store, golem_id, key, call_id, .. } = self;
        let kept = store.write(move |tx| {
            tx.execute(
                "UPDATE engine_idempotency SET response = ?1 WHERE golem_id = ?2 AND key = ?3 AND call_id = ?4",
                params![text, golem_id, key, call_id.to_string()],
            )?;
            Ok::<_, StoreError>(())
        });
        kept.await.map_err(unavailable)
    }

    /// Records that signing is about to begin. From then on, the key does not expire.
    ///
    /// # Errors
    /// `CALL_IN_PROGRESS` if another call has taken the key; `STORE_UNAVAILABLE` if the write fails.
    pub(super) async fn begin_acting(&self) -> Result<(), ToolError> {
        let Self { store, golem_id, key, call_id, .. } = self.clone();
        let noted = store.write(move |tx| {
            let rows = tx.execute(
                "UPDATE engine_idempotency SET acting = 1 WHERE golem_id = ?1 AND key = ?2 AND call_id = ?3",
                params![golem_id, key, call_id.to_string()],
            )?;
            Ok::<_, StoreError>(rows)
        });
        match noted.await.map_err(unavailable)? {
            1 => Ok(()),
            _ => Err(ToolError::new(ErrorCode::CallInProgress, "another call is using this key; nothing was signed")),
        }
    }

    /// Releases the key.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` if the write fails.
    pub(super) async fn release(self) -> Result<(), ToolError> {
        let Self { store, golem_id, key, call_id, .. } = self;
        let released = store.write(move |tx| {
            tx.execute(
                "DELETE FROM engine_idempotency WHERE golem_id = ?1 AND key = ?2 AND call_id = ?3",
                params![golem_id, key, call_id.to_string()],
            )?;
            Ok::<_, StoreError>(())
        });
        released.await.map_err(unavailable)
    }

    fn enter(&self, tx: &rusqlite::Transaction<'_>, now: u64, abandoned_after: u64) -> Result<KeyRow, StoreError> {
        let signed = |millis: u64| i64::try_from(millis).unwrap_or(i64::MAX);
        // A key whose call signed something is never deleted, however old it is.
        tx.execute(
            "DELETE FROM engine_idempotency WHERE started_at < ?1 AND acting = 0",
            [signed(now.saturating_sub(KEPT))],
        )?;
        tx.execute(
            "DELETE FROM engine_idempotency
             WHERE golem_id = ?1 AND key = ?2 AND response IS NULL AND acting = 0 AND started_at < ?3",
            params![self.golem_id, self.key, signed(now.saturating_sub(abandoned_after))],
        )?;
        type Columns = (String, Vec<u8>, Option<String>, String, Option<String>, bool);
        let found: Option<Columns> = tx
            .query_row(
                "SELECT tool, params_hash, response, call_id, session, acting
                 FROM engine_idempotency WHERE golem_id = ?1 AND key = ?2",
                params![self.golem_id, self.key],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?)),
            )
            .optional()?;
        match found {
            Some((tool, hash, ..)) if tool != self.tool || hash != self.params_hash.as_slice() => {
                Ok(KeyRow::Other(tool))
            }
            Some((_, _, Some(response), ..)) => Ok(KeyRow::Answer(response)),
            Some((_, _, None, first, session, acted)) => Ok(KeyRow::Running { first, session, acted }),
            None => {
                tx.execute(
                    "INSERT INTO engine_idempotency (golem_id, key, tool, params_hash, call_id, started_at, session)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, (SELECT id FROM temp.store_session))",
                    params![
                        self.golem_id,
                        self.key,
                        self.tool,
                        self.params_hash.as_slice(),
                        self.call_id.to_string(),
                        signed(now),
                    ],
                )?;
                Ok(KeyRow::Nothing)
            }
        }
    }
}

/// Table row found under a key.
enum KeyRow {
    Nothing,
    Running { first: String, session: Option<String>, acted: bool },
    Answer(String),
    Other(String),
}

fn unavailable(error: StoreError) -> ToolError {
    ToolError::new(ErrorCode::StoreUnavailable, error)
}
