//! Interface of the operator's rules: the pipeline's access to policy, stop file and ledger. Every answer is based on a
//! signing payload and check inputs, never on a tool's claims.

use std::collections::BTreeSet;
use std::fmt;

use alloy::primitives::{Address, B256};
use rusqlite::Transaction;

use super::approval::ApprovalNeed;
use super::check_inputs::CheckInputs;
use super::checks::slippage::SlippageLimits;
use super::ledger::MarkChange;
use super::second_approval::SecondRequirement;
use super::signing_payload::SigningPayload;
use super::verdict::Verdict;
use bardo_base::model::{Phase, StopLevel};
use bardo_base::text::SafeText;
use bardo_base::units::Usd;
use bardo_store::StoreError;

/// Operator's rules in their current state.
pub trait PolicyEngine: fmt::Debug + Send + Sync {
    /// Returns the hash of the current rules; it changes with any of them.
    fn version(&self) -> B256;

    /// Reads the level of the stop in force from the file. An unreadable file counts as a halt.
    fn stop(&self) -> Option<StopLevel>;

    /// Returns the id of the last stop that was set, even if it has been lifted. It changes with every new stop.
    fn last_stop(&self) -> Option<SafeText>;

    /// Returns a trade's loss limits in `phase`.
    fn slippage(&self, phase: Phase) -> SlippageLimits;

    /// Runs every check except the slippage guard, PolicyCage and the simulation.
    fn check(&self, payload: &SigningPayload, inputs: &CheckInputs) -> Vec<Verdict>;

    /// Returns the consent that the action needs.
    fn consent(&self, payload: &SigningPayload, inputs: &CheckInputs) -> ApprovalNeed;

    /// Returns the second operator's approval that the action needs; `None` if it needs none.
    fn second_approval(&self, payload: &SigningPayload, inputs: &CheckInputs) -> Option<SecondRequirement>;

    /// Returns true if the action is above the hot lane, so that the safety-guardian must agree.
    fn above_hot_lane(&self, payload: &SigningPayload, inputs: &CheckInputs) -> bool;

    /// Returns the largest spending of one action that a standing approval can cover; `None` without a limit.
    fn largest_granted(&self) -> Option<Usd>;

    /// Returns the largest fee per gas unit that one transaction may offer, in wei; `None` without a limit.
    fn largest_gas_fee(&self) -> Option<u128>;

    /// Returns true if the operator's standing "always" may replace an approval of this action.
    fn always_covers(&self, payload: &SigningPayload, inputs: &CheckInputs) -> bool;

    /// Returns true if its transactions must go to a private relay only.
    fn needs_private_relay(&self, payload: &SigningPayload, inputs: &CheckInputs) -> bool;

    /// Checks the caps again and reserves what the action may spend, inside the database transaction that consumes the
    /// permit.
    ///
    /// # Errors
    /// [`ReserveError`] if a cap is exceeded or the ledger fails; the caller rolls the transaction back, so nothing is
    /// reserved.
    fn reserve(
        &self,
        transaction: &Transaction<'_>,
        now: u64,
        payload: &SigningPayload,
        inputs: &CheckInputs,
    ) -> Result<Reservation, ReserveError>;

    /// Records how a reservation ended.
    ///
    /// # Errors
    /// [`ReserveError`] if the ledger fails; then everything stays reserved.
    fn settle(
        &self,
        transaction: &Transaction<'_>,
        now: u64,
        reservation: Reservation,
        end: ActionEnd,
    ) -> Result<(), ReserveError>;

    /// Moves the high-water mark along with a bridge order's money, once it has arrived on the other chain. Call it
    /// before the order is settled, in the same database transaction.
    ///
    /// # Errors
    /// [`ReserveError`] if the ledger fails; the mark is unchanged.
    fn arrived(
        &self,
        transaction: &Transaction<'_>,
        now: u64,
        reservation: Reservation,
    ) -> Result<Option<MarkChange>, ReserveError>;

    /// Reserves a settled reservation's spending again, because its transaction was included after all. No cap is
    /// checked, since the money is already spent.
    ///
    /// # Errors
    /// [`ReserveError`] if the ledger fails; then nothing is reserved.
    fn reserve_again(
        &self,
        transaction: &Transaction<'_>,
        now: u64,
        reservation: Reservation,
    ) -> Result<Reservation, ReserveError>;

    /// Returns true if the policy names this recipient, or does not require approval of first-time recipients.
    fn knows_recipient(&self, recipient: Address) -> bool;

    /// Returns true if the policy names this spender, or does not require approval of first-time spenders. Contracts of
    /// the address book are known in any case.
    fn knows_spender(&self, spender: Address) -> bool;

    /// Returns the accounts that the policy names.
    fn named(&self) -> BTreeSet<Address>;

    /// Returns every address that the policy or a label names, or that the ledger lists as an earlier recipient, on any
    /// chain: these are the addresses that others may imitate. A ledger row alone does not make an address known.
    ///
    /// # Errors
    /// [`StoreError`] if the ledger cannot be read.
    fn acquaintances(&self) -> Result<BTreeSet<Address>, StoreError>;

    /// Returns true if the policy names this token explicitly, not only a set that contains it.
    fn names_token(&self, chain_id: u64, token: Address) -> bool;

    /// Returns the vaults that the policy names on a chain.
    fn named_vaults(&self, chain_id: u64) -> BTreeSet<Address>;
}

/// Id of an action's reservation in the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reservation(pub i64);

/// End of an action, for the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionEnd {
    /// The action succeeded.
    Done {
        /// Dollars that count as spent, gas included.
        spent: Usd,
    },
    /// The action ended before its purpose, without failing: a plan stopped early, or an order expired unfilled.
    Partly {
        /// Dollars that count as spent, gas included.
        spent: Usd,
    },
    /// A wallet server may have signed the rest, and may send it itself: a failure of which all counts.
    MaybeSigned {
        /// Dollars that count as spent, gas included.
        spent: Usd,
    },
    /// The action was included and reverted.
    Reverted {
        /// Gas cost in dollars.
        gas: Usd,
    },
    /// The action failed, and nothing of it can ever be included.
    NotSent,
    /// The action was withdrawn before anything was signed; this is not a failure.
    Withdrawn,
    /// The outcome is not known yet; everything stays reserved.
    Unclear,
}

/// Reason why nothing was reserved or recorded.
#[derive(Debug, thiserror::Error)]
pub enum ReserveError {
    /// Rules block the action now.
    #[error("{}", .0.iter().map(|verdict| verdict.detail().to_string()).collect::<Vec<_>>().join("; "))]
    Refused(Vec<Verdict>),
    /// The ledger's database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The ledger contains or received inconsistent data.
    #[error("the ledger rejected it: {0}")]
    Ledger(String),
}

impl From<rusqlite::Error> for ReserveError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error.into())
    }
}
