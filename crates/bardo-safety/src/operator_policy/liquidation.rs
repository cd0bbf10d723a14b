//! Plans to sell complete holdings, with their records in the audit log.

use std::time::Duration;

use alloy::primitives::Address;
use serde_json::json;

use super::{AcceptError, MAX_CHANGE, OperatorPolicyEngine};
use crate::audit::AuditKind;
use crate::ledger::{self, LedgerError};
use bardo_base::text::SafeText;
use bardo_store::{FileLock, FileLockError};

/// Timeout for finding out whether another process is selling.
const SOON: Duration = Duration::from_millis(100);

fn lock_name(account: Address) -> String {
    format!("liquidation-{account:x}")
}

impl OperatorPolicyEngine {
    /// Records that these holdings of an account are to be sold completely, on the operator's decision. From then on,
    /// each partial sale counts as closing the position.
    ///
    /// # Errors
    /// [`AcceptError`] if it cannot be recorded; then nothing is planned.
    pub async fn plan_liquidation(
        &self,
        account: Address,
        holdings: Vec<ledger::TokenKey>,
        by: &str,
        now: u64,
    ) -> Result<(), AcceptError> {
        let names: Vec<_> = holdings.iter().map(|key| ledger::token_name(*key)).collect();
        let body = json!({ "account": account, "holdings": names, "by": SafeText::clean(by, MAX_CHANGE) });
        self.recorded(AuditKind::LiquidationPlanned, body, now, move |transaction| {
            for (chain_id, token) in holdings {
                ledger::plan_liquidation(transaction, now, chain_id, account, token)?;
            }
            Ok(())
        })
        .await
    }

    /// Acquires the liquidation lock of an account: no other process sells its holdings until the lock is dropped.
    ///
    /// # Errors
    /// [`FileLockError::Busy`] if another process keeps the lock for longer than `patience`; [`FileLockError::Store`]
    /// if the lock cannot be read.
    pub async fn lock_liquidation(&self, account: Address, patience: Duration) -> Result<FileLock, FileLockError> {
        self.store.acquire_lock(&lock_name(account), patience).await
    }

    /// Returns true if a process is liquidating this account on the operator's decision; false if that cannot be read.
    pub fn is_liquidating(&self, account: Address) -> bool {
        matches!(self.store.times_locked(&lock_name(account)), Ok(None))
    }

    /// Ends the liquidation plans of an account whose process has ended. Otherwise each partial sale would count as
    /// closing the position for good. Returns the number of ended plans; zero while another process
    /// is selling.
    ///
    /// # Errors
    /// [`AcceptError`] if the ledger fails; the remaining plans stay in force.
    pub async fn end_orphaned_liquidations(&self, account: Address, now: u64) -> Result<usize, AcceptError> {
        let _alone = match self.lock_liquidation(account, SOON).await {
            Ok(alone) => alone,
            Err(FileLockError::Busy(_)) => return Ok(0),
            Err(FileLockError::Store(error)) => return Err(error.into()),
        };
        let mut left = Vec::new();
        for network in &self.networks {
            let chain_id = network.chain_id;
            let read = self.store.read(|connection| ledger::usage(connection, now, chain_id, account, [], 0));
            let planned = read.map_err(|error: LedgerError| AcceptError::from(error))?.liquidating;
            left.extend(planned.into_iter().map(|token| (chain_id, token)));
        }
        for holding in &left {
            self.end_liquidation(account, *holding, "the process that sold it ended before", now).await?;
        }
        Ok(left.len())
    }

    /// Ends the plan for one holding, with a remark for the audit log.
    ///
    /// # Errors
    /// [`AcceptError`] if it cannot be recorded; then the plan stays in force.
    pub async fn end_liquidation(
        &self,
        account: Address,
        holding: ledger::TokenKey,
        told: &str,
        now: u64,
    ) -> Result<(), AcceptError> {
        let name = ledger::token_name(holding);
        let body = json!({ "account": account, "holding": name, "told": SafeText::clean(told, 400) });
        self.recorded(AuditKind::LiquidationEnded, body, now, move |transaction| {
            let (chain_id, token) = holding;
            Ok(ledger::end_liquidation(transaction, chain_id, account, token)?)
        })
        .await
    }
}
