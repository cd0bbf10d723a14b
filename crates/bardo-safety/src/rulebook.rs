//! Interface of the policy engine: policy, stop ladder and ledger, as the pipeline uses them. Its inputs are payloads
//! and check inputs, never a tool's own statements.

use std::collections::BTreeSet;
use std::fmt;

use alloy::primitives::{Address, B256};
use rusqlite::Transaction;

use super::approval::ApprovalNeed;
use super::checks::slippage::SlippageLimits;
use super::facts::Facts;
use super::framed::Framed;
use super::ledger::MarkMoved;
use super::verdict::Verdict;
use bardo_base::model::{Phase, StopLevel};
use bardo_base::text::SafeText;
use bardo_base::units::Usd;
use bardo_store::StoreError;

/// The operator's policy, stop ladder and ledger, in their current state.
pub trait Rulebook: fmt::Debug + Send + Sync {
    /// Returns the hash of the rules, which changes with any of them.
    fn version(&self) -> B256;

    /// Returns the level of the stop in force, read from the file at each call. An unreadable file counts as a halt.
    fn stop(&self) -> Option<StopLevel>;

    /// Returns the identity of the last stop, in force or lifted. It changes with every new stop.
    fn last_stop(&self) -> Option<SafeText>;

    /// Returns the slippage limits for trades in `phase`.
    fn slippage(&self, phase: Phase) -> SlippageLimits;

    /// Runs every check except the slippage guard, the policy contract and the simulation, and returns their verdicts.
    fn check(&self, framed: &Framed, facts: &Facts) -> Vec<Verdict>;

    /// Returns the required level of consent.
    fn consent(&self, framed: &Framed, facts: &Facts) -> ApprovalNeed;

    /// Returns true if the action is above the hot lane, so that the safety-guardian must agree.
    fn above_hot_lane(&self, framed: &Framed, facts: &Facts) -> bool;

    /// Returns true if automatic approval is permitted for the action.
    fn always_covers(&self, framed: &Framed, facts: &Facts) -> bool;

    /// Returns true if the transactions may be sent only to a private relay.
    fn goes_private(&self, framed: &Framed, facts: &Facts) -> bool;

    /// Evaluates the limits again and reserves the payload's amounts, inside the transaction that consumes the permit.
    ///
    /// # Errors
    /// [`ReserveError`] if a limit is exceeded or the ledger fails; then nothing is reserved and the transaction must
    /// be rolled back.
    fn reserve(
        &self,
        transaction: &Transaction<'_>,
        now: u64,
        framed: &Framed,
        facts: &Facts,
    ) -> Result<Reservation, ReserveError>;

    /// Records the outcome of an action.
    ///
    /// # Errors
    /// [`ReserveError`] if the ledger fails; then everything stays reserved.
    fn settle(
        &self,
        transaction: &Transaction<'_>,
        now: u64,
        reservation: Reservation,
        end: End,
    ) -> Result<(), ReserveError>;

    /// Moves the stop-loss's high-water mark with a bridge order's value that has arrived. Must be called before the
    /// order is settled, in the same transaction.
    ///
    /// # Errors
    /// [`ReserveError`] if the ledger fails; then the mark is unchanged.
    fn arrived(
        &self,
        transaction: &Transaction<'_>,
        now: u64,
        reservation: Reservation,
    ) -> Result<Option<MarkMoved>, ReserveError>;

    /// Reserves the amounts of a settled action again, because it has happened after all. No limit applies, since the
    /// money has already left.
    ///
    /// # Errors
    /// [`ReserveError`] if the ledger fails; then nothing is reserved.
    fn hold_again(
        &self,
        transaction: &Transaction<'_>,
        now: u64,
        reservation: Reservation,
    ) -> Result<Reservation, ReserveError>;

    /// Returns true if the policy names this recipient, or permits first payments without an approval.
    fn knows_recipient(&self, recipient: Address) -> bool;

    /// Returns true if the policy names this spender, or permits first allowances without an approval. Contracts of the
    /// address book are known in any case.
    fn knows_spender(&self, spender: Address) -> bool;

    /// Returns the accounts that the policy names.
    fn named(&self) -> BTreeSet<Address>;

    /// Returns the accounts that the policy names and those that the ledger lists as paid before, on any chain: the
    /// addresses that others may imitate. An entry in the ledger does not make an address known.
    ///
    /// # Errors
    /// The ledger cannot be read.
    fn acquaintances(&self) -> Result<BTreeSet<Address>, StoreError>;

    /// Returns true if the policy names this token explicitly.
    fn names_token(&self, chain_id: u64, token: Address) -> bool;
}

/// Reservation in the ledger, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reservation(pub i64);

/// Outcome of an action, for the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The action succeeded.
    Done {
        /// Amount that counts as spent, gas included.
        spent: Usd,
    },
    /// The action ended without failing but did not complete: a plan that stopped half-way, or an order that was not
    /// filled.
    Partly {
        /// Amount that counts as spent, gas included.
        spent: Usd,
    },
    /// The transaction was included and reverted.
    Reverted {
        /// Gas cost of the transaction.
        gas: Usd,
    },
    /// The action failed, and it is certain that none of it can be included.
    NotSent,
    /// The action was withdrawn before anything was signed. This is not a failure.
    Withdrawn,
    /// The outcome is unknown; everything stays reserved.
    Unclear,
}

/// Reason for which nothing was reserved or recorded.
#[derive(Debug, thiserror::Error)]
pub enum ReserveError {
    /// Checks or limits reject the action now.
    #[error("{}", .0.iter().map(|verdict| verdict.detail().to_string()).collect::<Vec<_>>().join("; "))]
    Refused(Vec<Verdict>),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The ledger contains invalid data or rejected the change.
    #[error("the ledger refused: {0}")]
    Ledger(String),
}

impl From<rusqlite::Error> for ReserveError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error.into())
    }
}
