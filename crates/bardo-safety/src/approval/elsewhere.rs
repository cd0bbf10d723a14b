//! The seam to what other programs on the same ledger answer: said there, and not heard at this desk yet.

use std::fmt::Debug;

use rusqlite::Transaction;

use bardo_base::id::PermitId;
use bardo_base::text::SafeText;
use bardo_store::StoreError;

/// Answers that are given in other programs.
pub trait Elsewhere: Debug + Send + Sync {
    /// Ends what is asked under this permit, so that nobody answers it any more; answers why it must not be done, where
    /// somebody has said so. An answer that cannot be read says so as well.
    ///
    /// # Errors
    /// The database's failure.
    fn close(&self, transaction: &Transaction<'_>, permit_id: PermitId) -> Result<Option<SafeText>, StoreError>;
}
