//! One commit of an account at a time, among all programs on a ledger. What a plan allows and signs is exact, and an
//! allowance is set, not added to: two plans of one account at once would use up each other's, and both pay for
//! transactions that revert. So each waits for its turn, looks again once it has it, and keeps it until its plan is over.
//!
//! The turn ends with the program, however that ends. What the plan of an ended program has left is for `recover`. What
//! only takes back is never kept waiting for long: it must pass also while somebody else's transaction is stuck.

use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::Address;

use super::{Pipeline, Refusal};
use bardo_base::error::ErrorCode;
use bardo_store::{Hold, HoldError};

/// So long what only takes back waits for its turn; then it goes without one.
pub(super) const TAKING_BACK_WAITS: Duration = Duration::from_secs(2);

/// An account's turn. Cheap to clone; it is over when the last clone is dropped.
#[derive(Debug, Clone)]
pub struct Turn {
    chain_id: u64,
    account: Address,
    hold: Arc<Hold>,
}

impl Turn {
    /// How many turns of the account there had been before this one.
    pub fn count(&self) -> u64 {
        self.hold.count()
    }

    /// Whether it is a turn of this account.
    pub(super) fn is_of(&self, chain_id: u64, account: Address) -> bool {
        self.chain_id == chain_id && self.account == account
    }
}

/// By whose turn a commit is made.
#[derive(Debug, Clone)]
pub(super) enum ByTurn {
    /// It waits for one of its own.
    Own,
    /// Whoever asks has it.
    Given(Turn),
    /// It is part of a plan that has it.
    Outer,
}

fn name(chain_id: u64, account: Address) -> String {
    format!("account-{chain_id}-{account:x}")
}

impl Pipeline {
    /// Waits until no other action of the account is being signed or on its way, by this program or another on the
    /// ledger.
    ///
    /// # Errors
    /// `PERMIT_EXPIRED` if that takes longer than `patience`; `STORE_UNAVAILABLE` if it cannot be told.
    pub async fn turn(&self, chain_id: u64, account: Address, patience: Duration) -> Result<Turn, Refusal> {
        match self.inner.store.hold(&name(chain_id, account), patience).await {
            Ok(hold) => Ok(Turn { chain_id, account, hold: Arc::new(hold) }),
            Err(HoldError::Busy(_)) => {
                let why =
                    "another action of this account was on its way for as long as this could wait; nothing was signed";
                Err(Refusal::new(ErrorCode::PermitExpired, why))
            }
            Err(HoldError::Store(error)) => Err(Refusal::new(ErrorCode::StoreUnavailable, error)),
        }
    }

    /// How many turns of the account there have been, nothing while one is going on: what was looked at before or
    /// during one is looked at again after it.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE`.
    pub fn turns(&self, chain_id: u64, account: Address) -> Result<Option<u64>, Refusal> {
        let count = self.inner.store.held_before(&name(chain_id, account));
        count.map_err(|error| Refusal::new(ErrorCode::StoreUnavailable, error))
    }
}
