//! The trail for whoever records something that is no part of another transaction: an answer, a refusal, a change of
//! rules.

use std::fmt;
use std::sync::Arc;

use rusqlite::params;
use serde_json::Value;

use super::{AuditError, Entry, Kind, append};
use bardo_base::clock::Clock;
use bardo_base::id::{CallId, GolemId};
use bardo_store::Store;

/// One ledger's trail. A clone is the same trail.
#[derive(Clone)]
pub struct Trail {
    store: Store,
    clock: Arc<dyn Clock>,
}

/// Something to be recorded, by itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Note {
    /// What happened.
    pub kind: Kind,
    /// The call it belongs to.
    pub call_id: Option<CallId>,
    /// Who acted.
    pub golem_id: GolemId,
    /// The particulars, without secrets.
    pub body: Value,
}

impl Trail {
    /// The trail in `store`, which was opened with this room's tables.
    pub fn new(store: Store, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock }
    }

    /// Records `note`; when this answers it is on disk.
    ///
    /// # Errors
    /// [`AuditError`]: what it says happened may go on only where that is safer than stopping.
    pub async fn record(&self, note: Note) -> Result<(), AuditError> {
        let now = self.clock.now_millis();
        let written = self.store.write(move |transaction| {
            let Note { kind, call_id, golem_id, body } = &note;
            append(transaction, now, &Entry { kind: *kind, call_id: *call_id, golem_id, body })
        });
        written.await.map(drop)
    }

    /// Records `note` unless an entry of its kind names the same `stop`: several programs on a ledger see the same change.
    /// A stop file that nobody can read names none: it is the same as long as the last change on record is of that level
    /// and for that reason.
    ///
    /// # Errors
    /// As [`Self::record`].
    pub async fn record_stop(&self, note: Note) -> Result<(), AuditError> {
        let now = self.clock.now_millis();
        let written = self.store.write(move |transaction| {
            let Note { kind, call_id, golem_id, body } = &note;
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
            append(transaction, now, &Entry { kind: *kind, call_id: *call_id, golem_id, body }).map(drop)
        });
        written.await
    }

    /// Records `note` when there is time, for whoever cannot wait. What could not be recorded is for the log.
    pub fn record_soon(&self, note: Note) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            tracing::warn!(kind = note.kind.as_str(), "not on the audit trail: nothing runs that could write it");
            return;
        };
        let trail = self.clone();
        runtime.spawn(async move {
            let kind = note.kind;
            if let Err(error) = trail.record(note).await {
                tracing::warn!(%kind, %error, "not on the audit trail");
            }
        });
    }
}

impl fmt::Debug for Trail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trail").field("store", &self.store).finish_non_exhaustive()
    }
}
