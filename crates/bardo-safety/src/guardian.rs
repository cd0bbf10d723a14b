//! Interface of the safety-guardian, which must agree to actions above the hot lane. Without a guardian such actions
//! are blocked, except that a fair exit needs the operator's approval instead.

use std::fmt;

use futures::future::BoxFuture;

use super::signing_payload::SigningPayload;
use super::simulate::SimulatedEffects;
use super::value::ActionValues;
use bardo_base::text::SafeText;
use golem_chain::fork::BalanceDelta;

/// Independent reviewer of actions.
pub trait Guardian: fmt::Debug + Send + Sync {
    /// Reviews an action.
    ///
    /// # Errors
    /// [`GuardianError`] if there is no opinion, which counts as no agreement.
    fn review<'a>(&'a self, case: ReviewCase<'a>) -> BoxFuture<'a, Result<GuardianOpinion, GuardianError>>;
}

/// Input of a review.
#[derive(Debug, Clone, Copy)]
pub struct ReviewCase<'a> {
    /// Signing payload of the action.
    pub payload: &'a SigningPayload,
    /// Findings of the simulation.
    pub simulated: &'a SimulatedEffects,
    /// Dollar values of the action.
    pub values: &'a ActionValues,
    /// Shifts of the account's balances by paper actions; empty for a real action.
    pub shifts: &'a [BalanceDelta],
}

/// Result of a review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardianOpinion {
    /// True if the guardian agrees.
    pub agrees: bool,
    /// Reason for the opinion.
    pub why: SafeText,
    /// True if the operator may approve a fair exit without the guardian's agreement: the guardian only objects to the
    /// size, or there is no guardian.
    pub left_to_operator: bool,
}

/// Reason why there is no opinion.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the safety-guardian did not respond: {0}")]
pub struct GuardianError(pub String);
