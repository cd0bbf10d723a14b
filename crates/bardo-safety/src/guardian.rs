//! The seam to the safety-guardian, who must agree to whatever is above the hot lane. Where none
//! runs, such actions are blocked; a fair exit is a question to the operator then.

use std::fmt;

use futures::future::BoxFuture;

use super::framed::Framed;
use super::simulate::Simulated;
use super::value::Values;
use bardo_base::text::SafeText;
use golem_chain::fork::BalanceShift;

/// Someone who looks at an action with eyes of their own.
pub trait Guardian: fmt::Debug + Send + Sync {
    /// What it thinks of the action. An error is no consent.
    fn review<'a>(&'a self, case: Case<'a>) -> BoxFuture<'a, Result<Opinion, GuardianError>>;
}

/// What a guardian gets to see.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    /// What would be signed.
    pub framed: &'a Framed,
    /// What it does.
    pub simulated: &'a Simulated,
    /// What it costs and brings.
    pub values: &'a Values,
    /// Shifts of the account's balances by actions on paper; empty for a real action.
    pub shifts: &'a [BalanceShift],
}

/// What a guardian thinks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opinion {
    /// Whether it agrees.
    pub agrees: bool,
    /// Why.
    pub why: SafeText,
    /// Whether a fair exit may go on without its agreement if the operator approves it: it objects to nothing but the
    /// size, or there is no guardian.
    pub left_to_operator: bool,
}

/// Why there is no opinion.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the safety-guardian gave no answer: {0}")]
pub struct GuardianError(pub String);
