//! Safety checks, one file each: pure functions of a signing payload and of inputs gathered beforehand. The operator's
//! checks also read the policy and its usage.

pub mod balance_breaker;
pub mod clocks;
pub mod halt;
mod lending;
#[cfg(test)]
pub(super) mod model;
pub mod phase_gate;
pub mod policy_cage;
pub mod policy_context;
pub mod rate_limit;
pub mod slippage;
pub mod spending_limit;
pub mod token_allowlist;

use super::check_inputs::CheckInputs;
use super::signing_payload::SigningPayload;
use super::verdict::Verdict;
use policy_context::PolicyContext;

/// Runs every check of the operator, in order. All of them run, even if one blocks.
pub fn operators(payload: &SigningPayload, inputs: &CheckInputs, context: &PolicyContext<'_>) -> Vec<Verdict> {
    vec![
        halt::check(payload, inputs),
        phase_gate::check(payload, inputs, context),
        token_allowlist::check(payload, inputs, context),
        spending_limit::check(payload, inputs, context),
        rate_limit::check(payload, inputs, context),
        balance_breaker::check(inputs, context),
    ]
}
