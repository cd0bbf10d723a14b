//! Audit log handle for entries that belong to no other transaction: an answer, a rejection, a change of policy.

use std::fmt;
use std::sync::Arc;

use rusqlite::params;
use serde_json::Value;

use super::{AuditError, AuditKind, LogEntry, append};
use bardo_base::clock::Clock;
use bardo_base::id::{CallId, GolemId};
use bardo_store::Store;

/// Audit log of one ledger. Clones share it.
#[derive(Clone)]
pub struct AuditLog {
    store: Store,
    clock: Arc<dyn Clock>,
}

/// Entry to record in a transaction of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditNote {
    /// Kind of the event.
    pub kind: AuditKind,
    /// Tool call that the entry belongs to; `None` if there is none.
    pub call_id: Option<CallId>,
    /// Golem or operator that acted.
    pub golem_id: GolemId,
    /// Details, without secrets.
    pub body: Value,
}

impl AuditLog {
    /// Creates a handle for the audit log in `store`, which must have been opened with
    /// [`MIGRATIONS`](super::MIGRATIONS).
    pub fn new(store: Store, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock }
    }

    /// Records `note`, and returns once it is on disk.
    ///
    /// # Errors
    /// [`AuditError`] if it was not recorded. The caller may continue only where that is safer than stopping.
    pub async fn record(&self, note: AuditNote) -> Result<(), AuditError> {
        let now = self.clock.now_millis();
        let written = self.store.write(move |transaction| {
            let AuditNote { kind, call_id, golem_id, body } = &note;
            append(transaction, now, &LogEntry { kind: *kind, call_id: *call_id, golem_id, body })
        });
        written.await.map(drop)
    }

    /// Records `note` unless an entry of its kind names the same `stop`, since several processes on a ledger see the
    /// same change. An unreadable stop file has no name. It counts as the same while the last recorded change has its
    /// level and reason.
    ///
    /// # Errors
    /// [`AuditError`] if the check or the entry failed.
    pub async fn record_stop(&self, note: AuditNote) -> Result<(), AuditError> {
        let now = self.clock.now_millis();
        let written = self.store.write(move |transaction| {
            let AuditNote { kind, call_id, golem_id, body } = &note;
            let known = "SELECT EXISTS (SELECT 1 FROM audit_entry WHERE kind = ?1 AND body ->> '$.stop' = ?2)";
            let last = "SELECT EXISTS (SELECT 1 FROM (SELECT kind, body FROM audit_entry
                            WHERE kind IN ('halt:raised', 'halt:lowered') ORDER BY seq DESC LIMIT 1)
                        WHERE kind = ?1 AND body ->> '$.stop' = '' AND body ->> '$.level' IS ?2
                            AND body ->> '$.reason' IS ?3)";
            let text = |field: &str| body[field].as_str();
            let is_known = match text("stop").filter(|stop| !stop.is_empty()) {
                Some(stop) => transaction.query_row(known, params![kind.as_str(), stop], |row| row.get(0))?,
                None => transaction
                    .query_row(last, params![kind.as_str(), text("level"), text("reason")], |row| row.get(0))?,
            };
            if is_known {
                return Ok(());
            }
            append(transaction, now, &LogEntry { kind: *kind, call_id: *call_id, golem_id, body }).map(drop)
        });
        written.await
    }

    /// Records `note` in the background, for callers that cannot wait. A failure is only logged.
    pub fn record_soon(&self, note: AuditNote) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            tracing::warn!(kind = note.kind.as_str(), "not in the audit log: no writer is running");
            return;
        };
        let audit_log = self.clone();
        runtime.spawn(async move {
            let kind = note.kind;
            if let Err(error) = audit_log.record(note).await {
                tracing::warn!(%kind, %error, "not in the audit log");
            }
        });
    }
}

impl fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditLog").field("store", &self.store).finish_non_exhaustive()
    }
}
