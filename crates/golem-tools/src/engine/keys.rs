//! Idempotency keys: the same call with the same key is run once, and answered with the first answer.
//!
//! A key belongs to whoever acts, and to one tool with one set of parameters. Only a success is
//! kept: a read that failed gives its key back, so that trying again can help.

use alloy::primitives::B256;
use rusqlite::{OptionalExtension, params};

use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::id::{CallId, GolemId};
use bardo_base::model::{CapabilityTier, ToolMeta};
use bardo_session::envelope::ToolResponse;
use bardo_store::{Migrations, Store, StoreError};

/// The engine's tables.
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
        // Set before anything is signed: such a call is never taken for abandoned.
        "ALTER TABLE engine_idempotency ADD COLUMN acting INTEGER NOT NULL DEFAULT 0",
        // The store's name that was open when the key was claimed: whether its program still runs.
        "ALTER TABLE engine_idempotency ADD COLUMN session TEXT",
    ],
};

/// Forgets all idempotency keys: for a paper ledger that begins again.
///
/// # Errors
/// The database's failure.
pub fn forget_keys(transaction: &rusqlite::Transaction<'_>) -> Result<(), StoreError> {
    transaction.execute("DELETE FROM engine_idempotency", [])?;
    Ok(())
}

/// How long an answer is kept where nothing was signed, in milliseconds: a day. The others are kept for good.
const KEPT: u64 = 24 * 3_600 * 1_000;
/// How long a write may wait for the operator before its key counts as abandoned, in milliseconds: an hour.
const ASKING: u64 = 3_600 * 1_000;

/// A key and the call it stands for.
#[derive(Debug, Clone)]
pub(super) struct Claim {
    store: Store,
    golem_id: String,
    key: String,
    tool: &'static str,
    params_hash: B256,
    call_id: CallId,
}

/// What a key leads to.
pub(super) enum Claimed {
    /// Nobody has made this call: make it, then [`Claim::keep`] or [`Claim::release`].
    Fresh(Claim),
    /// It was made; this is its answer.
    Answered(Box<ToolResponse>),
    /// The program that made it ended before it had an answer.
    Orphaned(Orphan),
}

/// A key that an ended program has left without an answer.
pub(super) struct Orphan {
    claim: Claim,
    /// The call that had it.
    pub(super) first: CallId,
    /// Whether that call had come to where things are signed.
    pub(super) acted: bool,
}

impl Orphan {
    /// Takes the key over for the call that asks now.
    pub(super) async fn take_over(self, now: u64) -> Result<Claim, ToolError> {
        let Claim { store, golem_id, key, call_id, .. } = self.claim.clone();
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

    /// Keeps what the ledger knows of it as its answer.
    pub(super) async fn answer(self, response: ToolResponse) -> Result<ToolResponse, ToolError> {
        Claim { call_id: self.first, ..self.claim }.keep(&response).await?;
        Ok(response)
    }

    /// It goes on without its program.
    pub(super) fn in_progress(&self) -> ToolError {
        self.claim.in_progress(&self.first.to_string())
    }
}

impl Claim {
    /// Claims `key` for a call that starts now (milliseconds since the Unix epoch).
    pub(super) async fn take(
        store: &Store,
        golem_id: &GolemId,
        key: String,
        meta: &ToolMeta,
        params_hash: B256,
        call_id: CallId,
        now: u64,
    ) -> Result<Claimed, ToolError> {
        if !(1..=128).contains(&key.len()) || !key.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(ToolError::new(
                ErrorCode::ValidationFailed,
                "an idempotency key must be 1 to 128 visible ASCII characters without spaces",
            ));
        }
        let claim =
            Self { store: store.clone(), golem_id: golem_id.to_string(), key, tool: meta.name, params_hash, call_id };
        // A call that has not answered by then, and has signed nothing, was cancelled or its process is gone.
        let running = u64::try_from(meta.tick_budget.cancel_after().as_millis()).unwrap_or(u64::MAX);
        let asking = if meta.capability == CapabilityTier::Read { 0 } else { ASKING };
        let abandoned_after = running.saturating_add(asking);
        let mine = claim.clone();
        let found = store.write(move |tx| mine.enter(tx, now, abandoned_after)).await.map_err(unavailable)?;
        match found {
            Found::Nothing => Ok(Claimed::Fresh(claim)),
            Found::Answer(text) => match serde_json::from_str(&text) {
                Ok(response) => Ok(Claimed::Answered(Box::new(response))),
                Err(error) => Err(ToolError::new(
                    ErrorCode::StoreUnavailable,
                    format_args!("the response stored under this key cannot be read: {error}"),
                )),
            },
            Found::Running { first, session, acted } => {
                let orphaned = session.is_some_and(|session| !store.session_lives(&session));
                match first.parse() {
                    Ok(first) if orphaned => Ok(Claimed::Orphaned(Orphan { claim, first, acted })),
                    Ok(_) | Err(_) => Err(claim.in_progress(&first)),
                }
            }
            Found::Other(tool) => Err(ToolError::new(
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

    /// Keeps the answer under the key.
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

    /// Notes that something is about to be signed: from now on the key is not given back by time alone.
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

    /// Gives the key back.
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

    fn enter(&self, tx: &rusqlite::Transaction<'_>, now: u64, abandoned_after: u64) -> Result<Found, StoreError> {
        let signed = |millis: u64| i64::try_from(millis).unwrap_or(i64::MAX);
        // What was signed under a key is never done again under it, however long ago that was.
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
                Ok(Found::Other(tool))
            }
            Some((_, _, Some(response), ..)) => Ok(Found::Answer(response)),
            Some((_, _, None, first, session, acted)) => Ok(Found::Running { first, session, acted }),
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
                Ok(Found::Nothing)
            }
        }
    }
}

/// What the table had under a key.
enum Found {
    Nothing,
    Running { first: String, session: Option<String>, acted: bool },
    Answer(String),
    Other(String),
}

fn unavailable(error: StoreError) -> ToolError {
    ToolError::new(ErrorCode::StoreUnavailable, error)
}
