//! Interface to answers that other processes on the same ledger received and this queue has not seen.

use std::fmt::Debug;

use rusqlite::Transaction;

use bardo_base::id::PermitId;
use bardo_base::text::SafeText;
use bardo_store::StoreError;

/// Source of answers that other processes received.
pub trait RemoteAnswers: Debug + Send + Sync {
    /// Closes the requests under this permit in the shared ledger, so that no process answers them later. Returns the
    /// reason against the action if another process recorded a rejection, or an answer that cannot be read.
    ///
    /// # Errors
    /// The database's failure.
    fn close(&self, transaction: &Transaction<'_>, permit_id: PermitId) -> Result<Option<SafeText>, StoreError>;
}
