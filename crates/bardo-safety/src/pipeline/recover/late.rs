//! What was given up, because an endpoint refused it when it was sent first, and is in a block all the same: whoever
//! refuses bytes has them, and can pass them on. What was held for it is held again, and its permit has no end any more;
//! then it is settled by the table like all that is left open.

use rusqlite::Transaction;
use serde_json::json;

use super::super::{Pipeline, Refusal};
use super::unavailable;
use crate::audit::{self, AuditError, Entry, Kind};
use crate::permit;
use crate::rulebook::{Reservation, ReserveError, Rulebook};
use bardo_base::id::GolemId;
use golem_chain::sender::{self, SenderError};

impl Pipeline {
    /// Asks every chain for what was given up on it.
    ///
    /// # Errors
    /// [`Refusal`]: the ledger cannot be read or written. A chain that does not answer is asked the next time.
    pub(super) async fn look_at_given_up(&self) -> Result<(), Refusal> {
        for chain in &self.inner.chains {
            match chain.sender.look_at_given_up().await {
                Ok(()) => {}
                Err(SenderError::Record(error)) => return Err(unavailable(error)),
                Err(error) => tracing::warn!("what became of what was given up is not told: {error}"),
            }
        }
        Ok(())
    }

    /// Holds again what was held for everything that is in a block although it was given up.
    ///
    /// # Errors
    /// [`Refusal`]: the ledger cannot be read or written.
    pub(super) async fn hold_late_again(&self) -> Result<(), Refusal> {
        if self.inner.store.read(sender::late).map_err(unavailable)?.is_empty() {
            return Ok(());
        }
        let (rules, clock) = (self.inner.rules.clone(), self.inner.clock.clone());
        let held = self.inner.store.write(move |transaction| hold_late_again(transaction, &*rules, clock.now_millis()));
        held.await.map_err(unavailable)
    }
}

/// The same within a transaction: of what reserves after it, nobody can take the place.
///
/// # Errors
/// [`ReserveError`]: the transaction is given up.
pub(in super::super) fn hold_late_again(
    transaction: &Transaction<'_>,
    rules: &dyn Rulebook,
    now: u64,
) -> Result<(), ReserveError> {
    let refused = |error: sender::RecordError| ReserveError::Ledger(error.to_string());
    for hash in sender::late(transaction).map_err(refused)? {
        sender::took_note(transaction, hash).map_err(refused)?;
        // What is still held needs nothing.
        let Some((permit_id, before)) = permit::ended_with(transaction, hash)? else { continue };
        let Reservation(held) = rules.hold_again(transaction, now, Reservation(before))?;
        permit::reopen(transaction, permit_id, held)?;
        let body = json!({ "permit_id": permit_id, "hash": hash });
        let golem_id = GolemId::operator();
        let entry = Entry { kind: Kind::TxLate, call_id: None, golem_id: &golem_id, body: &body };
        audit::append(transaction, now, &entry).map_err(|error| match error {
            AuditError::Store(error) => ReserveError::Store(error),
            other => ReserveError::Ledger(other.to_string()),
        })?;
    }
    Ok(())
}
