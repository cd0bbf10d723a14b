//! Account lock: one commit per account at a time, across all processes on a ledger. A plan's allowances are exact, and
//! `approve` sets an allowance instead of adding to it. Two concurrent plans of one account would use up each other's
//! allowances, and both would pay for reverting transactions. Each commit therefore waits for the lock, assesses its
//! action again, and keeps the lock until its plan is over.
//!
//! The lock ends with the process, however that ends; `recover` handles what its plan left. Revocations wait only
//! briefly: they must pass even while another transaction is stuck.

use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::Address;

use super::{Pipeline, PipelineRefusal};
use bardo_base::error::ErrorCode;
use bardo_store::{FileLock, FileLockError};

/// Longest wait of a revocation for the account lock; after it, the revocation proceeds without the lock.
pub(super) const REVOCATION_WAIT: Duration = Duration::from_secs(2);

/// Lock on one account. Cheap to clone; released when the last clone is dropped.
#[derive(Debug, Clone)]
pub struct AccountLock {
    chain_id: u64,
    account: Address,
    file: Arc<FileLock>,
}

impl AccountLock {
    /// Returns how often the account had been locked before this lock.
    pub fn count(&self) -> u64 {
        self.file.count()
    }

    /// Returns true if this lock is on the given account.
    pub(super) fn is_of(&self, chain_id: u64, account: Address) -> bool {
        self.chain_id == chain_id && self.account == account
    }
}

/// Source of the account lock for a commit.
#[derive(Debug, Clone)]
pub(super) enum LockSource {
    /// The commit acquires the lock.
    Own,
    /// The caller already holds the lock.
    Given(AccountLock),
    /// The commit is part of a plan that holds the lock.
    Outer,
}

fn name(chain_id: u64, account: Address) -> String {
    format!("account-{chain_id}-{account:x}")
}

impl Pipeline {
    /// Waits until no other action of the account is being signed or followed, in this process or another one on the
    /// ledger.
    ///
    /// # Errors
    /// [`PipelineRefusal`] with `PERMIT_EXPIRED` if that takes longer than `patience`, or with `STORE_UNAVAILABLE` if
    /// the lock cannot be read.
    pub async fn lock_account(
        &self,
        chain_id: u64,
        account: Address,
        patience: Duration,
    ) -> Result<AccountLock, PipelineRefusal> {
        match self.inner.store.acquire_lock(&name(chain_id, account), patience).await {
            Ok(file) => Ok(AccountLock { chain_id, account, file: Arc::new(file) }),
            Err(FileLockError::Busy(_)) => {
                let why = "timed out waiting for another action of this account; nothing was signed";
                Err(PipelineRefusal::new(ErrorCode::PermitExpired, why))
            }
            Err(FileLockError::Store(error)) => Err(PipelineRefusal::new(ErrorCode::StoreUnavailable, error)),
        }
    }

    /// Returns how often the account has been locked; `None` while it is locked. A changed count means that earlier
    /// reads of the account are out of date.
    ///
    /// # Errors
    /// [`PipelineRefusal`] with `STORE_UNAVAILABLE` if the lock cannot be read.
    pub fn turns(&self, chain_id: u64, account: Address) -> Result<Option<u64>, PipelineRefusal> {
        let count = self.inner.store.times_locked(&name(chain_id, account));
        count.map_err(|error| PipelineRefusal::new(ErrorCode::StoreUnavailable, error))
    }
}
