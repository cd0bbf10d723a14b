//! Transactions that were given up because an endpoint refused them, and that a block includes nevertheless. The
//! endpoint has the signed bytes and can broadcast them. Their spending is reserved again and their permit reopened;
//! the recovery table then settles them.

use rusqlite::Transaction;
use serde_json::json;

use super::super::{Pipeline, PipelineRefusal};
use super::unavailable;
use crate::audit::{self, AuditError, AuditKind, LogEntry};
use crate::permit;
use crate::policy_engine::{PolicyEngine, Reservation, ReserveError};
use bardo_base::id::GolemId;
use golem_chain::sender::{self, SenderError};

impl Pipeline {
    /// Polls every chain for transactions that were given up on it.
    ///
    /// # Errors
    /// [`PipelineRefusal`] if the ledger cannot be read or written. A chain that does not answer is polled again by the
    /// next recovery.
    pub(super) async fn poll_dropped(&self) -> Result<(), PipelineRefusal> {
        for chain in &self.inner.chains {
            match chain.sender.poll_dropped().await {
                Ok(()) => {}
                Err(SenderError::Record(error)) => return Err(unavailable(error)),
                Err(error) => tracing::warn!("the outcome of dropped transactions is unknown: {error}"),
            }
        }
        Ok(())
    }

    /// Reserves spending again for included transactions that had been given up.
    ///
    /// # Errors
    /// [`PipelineRefusal`] if the ledger cannot be read or written.
    pub(super) async fn reserve_late_inclusions(&self) -> Result<(), PipelineRefusal> {
        if self.inner.store.read(sender::late_inclusions).map_err(unavailable)?.is_empty() {
            return Ok(());
        }
        let (rules, clock) = (self.inner.rules.clone(), self.inner.clock.clone());
        let reserved = self
            .inner
            .store
            .write(move |transaction| reserve_late_inclusions(transaction, &*rules, clock.now_millis()));
        reserved.await.map_err(unavailable)
    }
}

/// Reserves spending again within a database transaction, so that a later reservation in it cannot use the same
/// headroom.
///
/// # Errors
/// [`ReserveError`] if the ledger fails; the database transaction must be rolled back.
pub(in super::super) fn reserve_late_inclusions(
    transaction: &Transaction<'_>,
    rules: &dyn PolicyEngine,
    now: u64,
) -> Result<(), ReserveError> {
    let refused = |error: sender::RecordError| ReserveError::Ledger(error.to_string());
    for hash in sender::late_inclusions(transaction).map_err(refused)? {
        sender::acknowledge_late_inclusion(transaction, hash).map_err(refused)?;
        // A reservation without an end still holds the spending.
        let Some((permit_id, before)) = permit::ended_with(transaction, hash)? else { continue };
        let Reservation(reserved) = rules.reserve_again(transaction, now, Reservation(before))?;
        permit::reopen(transaction, permit_id, reserved)?;
        let body = json!({ "permit_id": permit_id, "hash": hash });
        let golem_id = GolemId::operator();
        let entry = LogEntry { kind: AuditKind::TxLate, call_id: None, golem_id: &golem_id, body: &body };
        audit::append(transaction, now, &entry).map_err(|error| match error {
            AuditError::Store(error) => ReserveError::Store(error),
            other => ReserveError::Ledger(other.to_string()),
        })?;
    }
    Ok(())
}
