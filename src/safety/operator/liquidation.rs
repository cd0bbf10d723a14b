//! Plans to sell holdings whole, on record with what became of them.

use alloy::primitives::Address;
use serde_json::json;

use super::{AcceptError, MAX_CHANGE, OperatorRules};
use crate::base::text::SafeText;
use crate::safety::ledger;

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
        self.recorded("liquidation:planned", body, now, move |transaction| {
            for (chain_id, token) in holdings {
                ledger::plan_liquidation(transaction, now, chain_id, account, token)?;
            }
            Ok(())
        })
        .await
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
        self.recorded("liquidation:ended", body, now, move |transaction| {
            let (chain_id, token) = holding;
            Ok(ledger::end_liquidation(transaction, chain_id, account, token)?)
        })
        .await
    }
}
