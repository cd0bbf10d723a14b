//! What the pipeline asks of the operator's rules: the policy, the stop ladder and the ledger behind
//! one seam. Every answer is about a frame and facts, never about what a tool says.

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

/// The operator's rules, as they stand now.
pub trait Rulebook: fmt::Debug + Send + Sync {
    /// Names the rules exactly: another hash as soon as any of them is another.
    fn version(&self) -> B256;

    /// The stop in force, read anew from the file. A file that cannot be read is a halt.
    fn stop(&self) -> Option<StopLevel>;

    /// Names the stop that was set last, whether it stands or has been lifted; another name as soon as there was another.
    fn last_stop(&self) -> Option<SafeText>;

    /// How much a trade may lose in `phase`.
    fn slippage(&self, phase: Phase) -> SlippageLimits;

    /// Every check but the slippage guard, the policy contract and the simulation, each with its verdict.
    fn check(&self, framed: &Framed, facts: &Facts) -> Vec<Verdict>;

    /// How much consent it takes.
    fn consent(&self, framed: &Framed, facts: &Facts) -> ApprovalNeed;

    /// Whether the safety-guardian must agree: it is above the hot lane.
    fn above_hot_lane(&self, framed: &Framed, facts: &Facts) -> bool;

    /// Whether a standing "always" of the operator may stand for a yes here.
    fn always_covers(&self, framed: &Framed, facts: &Facts) -> bool;

    /// Whether its transactions are to be shown to a private relay alone.
    fn goes_private(&self, framed: &Framed, facts: &Facts) -> bool;

    /// Judges the caps again and holds what the frame may take, inside the transaction that consumes
    /// the permit.
    ///
    /// # Errors
    /// [`ReserveError`]: the transaction is given up, nothing is held.
    fn reserve(
        &self,
        transaction: &Transaction<'_>,
        now: u64,
        framed: &Framed,
        facts: &Facts,
    ) -> Result<Reservation, ReserveError>;

    /// Records how it ended.
    ///
    /// # Errors
    /// [`ReserveError::Store`]: then everything stays held.
    fn settle(
        &self,
        transaction: &Transaction<'_>,
        now: u64,
        reservation: Reservation,
        end: End,
    ) -> Result<(), ReserveError>;

    /// Lets the stop-loss's mark follow what a bridge order has carried to another chain, where it has arrived. To be told
    /// before the order is settled, in the same transaction.
    ///
    /// # Errors
    /// [`ReserveError`]: nothing has moved.
    fn arrived(
        &self,
        transaction: &Transaction<'_>,
        now: u64,
        reservation: Reservation,
    ) -> Result<Option<MarkMoved>, ReserveError>;

    /// Holds anew what was settled, because what it was for has happened after all: no cap is asked, it is gone.
    ///
    /// # Errors
    /// [`ReserveError`]: nothing is held.
    fn hold_again(
        &self,
        transaction: &Transaction<'_>,
        now: u64,
        reservation: Reservation,
    ) -> Result<Reservation, ReserveError>;

    /// Whether the policy names this recipient, or lets anyone be paid for the first time without a question.
    fn knows_recipient(&self, recipient: Address) -> bool;

    /// Whether the policy names this spender, or lets anyone take something for the first time without a question. The
    /// address book's contracts are known anyway.
    fn knows_spender(&self, spender: Address) -> bool;

    /// Accounts that the policy names.
    fn named(&self) -> BTreeSet<Address>;

    /// Everyone whom the policy names or of whom the ledger says that they were given something before, on whichever chain:
    /// the addresses that others may imitate. The ledger's word makes nobody known.
    ///
    /// # Errors
    /// The ledger does not tell.
    fn acquaintances(&self) -> Result<BTreeSet<Address>, StoreError>;

    /// Whether the policy names this token itself, rather than letting it pass among others.
    fn names_token(&self, chain_id: u64, token: Address) -> bool;
}

/// What was held for an action, as the ledger numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reservation(pub i64);

/// How an action ended, for the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It succeeded.
    Done {
        /// What counts as spent, gas included.
        spent: Usd,
    },
    /// It came to an end before it did what it was for, without failing: a plan stopped half-way, or an order that
    /// nobody filled.
    Partly {
        /// What counts as spent, gas included.
        spent: Usd,
    },
    /// It was included and failed.
    Reverted {
        /// What its gas cost.
        gas: Usd,
    },
    /// It failed, and for certain nothing of it can ever be included.
    NotSent,
    /// It was called off before anything was signed; nobody failed.
    Withdrawn,
    /// Nobody can tell yet: everything stays held.
    Unclear,
}

/// Why nothing is held.
#[derive(Debug, thiserror::Error)]
pub enum ReserveError {
    /// Rules stand against it now.
    #[error("{}", .0.iter().map(|verdict| verdict.detail().to_string()).collect::<Vec<_>>().join("; "))]
    Refused(Vec<Verdict>),
    /// The ledger failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The ledger holds what makes no sense.
    #[error("the ledger refused: {0}")]
    Ledger(String),
}

impl From<rusqlite::Error> for ReserveError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error.into())
    }
}
