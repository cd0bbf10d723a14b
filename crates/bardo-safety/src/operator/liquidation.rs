//! Plans to sell holdings whole, on record with what became of them.

use std::time::Duration;

use alloy::primitives::Address;
use serde_json::json;

use super::{AcceptError, MAX_CHANGE, OperatorRules};
use crate::audit::Kind;
use crate::ledger::{self, LedgerError};
use bardo_base::text::SafeText;
use bardo_store::{Hold, HoldError};

/// How long is waited to see that nobody sells.
const SOON: Duration = Duration::from_millis(100);

fn hold_of(account: Address) -> String {
    format!("liquidation-{account:x}")
}

impl OperatorRules {
    /// Records that these holdings of an account are to be sold whole, by the operator's decision: from then on each part
    /// of it counts as closing the position.
    ///
    /// # Errors
    /// [`AcceptError`]: nothing is planned.
    pub async fn plan_liquidation(
        &self,
        account: Address,
        holdings: Vec<ledger::TokenKey>,
        by: &str,
        now: u64,
    ) -> Result<(), AcceptError> {
        let names: Vec<_> = holdings.iter().map(|key| ledger::token_name(*key)).collect();
        let body = json!({ "account": account, "holdings": names, "by": SafeText::clean(by, MAX_CHANGE) });
        self.recorded(Kind::LiquidationPlanned, body, now, move |transaction| {
            for (chain_id, token) in holdings {
                ledger::plan_liquidation(transaction, now, chain_id, account, token)?;
            }
            Ok(())
        })
        .await
    }

    /// Waits until no other program sells what this account holds, and keeps it so until the answer is dropped.
    ///
    /// # Errors
    /// [`HoldError::Busy`] where somebody sells for as long as `patience` lasts; [`HoldError::Store`].
    pub async fn alone_liquidating(&self, account: Address, patience: Duration) -> Result<Hold, HoldError> {
        self.store.hold(&hold_of(account), patience).await
    }

    /// Whether some process is selling what this account holds, by the operator's decision. False where that cannot be read.
    pub fn is_liquidating(&self, account: Address) -> bool {
        matches!(self.store.held_before(&hold_of(account)), Ok(None))
    }

    /// Ends the plans of an account that nobody carries out any more, because the program that did was ended: a part of
    /// a holding would count as closing the position for good. Answers how many there were.
    ///
    /// # Errors
    /// [`AcceptError`]: those that were not ended stand on.
    pub async fn end_left_liquidations(&self, account: Address, now: u64) -> Result<usize, AcceptError> {
        let _alone = match self.alone_liquidating(account, SOON).await {
            Ok(alone) => alone,
            Err(HoldError::Busy(_)) => return Ok(0),
            Err(HoldError::Store(error)) => return Err(error.into()),
        };
        let mut left = Vec::new();
        for network in &self.networks {
            let chain_id = network.chain_id;
            let read = self.store.read(|connection| ledger::usage(connection, now, chain_id, account, [], 0));
            let planned = read.map_err(|error: LedgerError| AcceptError::from(error))?.liquidating;
            left.extend(planned.into_iter().map(|token| (chain_id, token)));
        }
        for holding in &left {
            self.end_liquidation(account, *holding, "the program that sold it was ended before", now).await?;
        }
        Ok(left.len())
    }

    /// Ends the plan for one holding, with what there is to say of it.
    ///
    /// # Errors
    /// [`AcceptError`]: it stands on.
    pub async fn end_liquidation(
        &self,
        account: Address,
        holding: ledger::TokenKey,
        told: &str,
        now: u64,
    ) -> Result<(), AcceptError> {
        let name = ledger::token_name(holding);
        let body = json!({ "account": account, "holding": name, "told": SafeText::clean(told, 400) });
        self.recorded(Kind::LiquidationEnded, body, now, move |transaction| {
            let (chain_id, token) = holding;
            Ok(ledger::end_liquidation(transaction, chain_id, account, token)?)
        })
        .await
    }
}
