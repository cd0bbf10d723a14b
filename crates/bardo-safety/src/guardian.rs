//! Interface of the safety-guardian, which must agree to every action above the hot lane. Without a guardian such
//! actions are blocked, except that a fair exit may proceed with the operator's approval.

use std::fmt;

use futures::future::BoxFuture;

use super::framed::Framed;
use super::simulate::Simulated;
use super::value::Values;
use bardo_base::text::SafeText;
use golem_chain::fork::BalanceShift;

/// Independent reviewer of actions.
pub trait Guardian: fmt::Debug + Send + Sync {
    /// Reviews an action. An error does not count as agreement.
    fn review<'a>(&'a self, case: Case<'a>) -> BoxFuture<'a, Result<Opinion, GuardianError>>;
}

/// Inputs of a guardian's review.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    /// Payload that would be signed.
    pub framed: &'a Framed,
    /// Simulated effect of the payload.
    pub simulated: &'a Simulated,
    /// Dollar values of costs and proceeds.
    pub values: &'a Values,
    /// Changes of the account's balances by paper actions; empty for a real action.
    pub shifts: &'a [BalanceShift],
}

/// Result of a guardian's review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opinion {
    /// True if the guardian agrees to the action.
    pub agrees: bool,
    /// Explanation for the operator.
    pub why: SafeText,
    /// True if a fair exit may proceed without the guardian's agreement when the operator approves it: the guardian
    /// objects to the size only, or there is none.
    pub left_to_operator: bool,
}

/// Error of a guardian that gave no opinion.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the safety-guardian gave no answer: {0}")]
pub struct GuardianError(pub String);
