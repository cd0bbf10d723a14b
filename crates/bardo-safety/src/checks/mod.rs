//! Safety checks, one file each: pure functions of a signing payload and of facts gathered beforehand. The operator's
//! checks also read the policy and its usage.

pub mod balance_breaker;
pub mod clocks;
pub mod halt;
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
pub fn operators(framed: &SigningPayload, facts: &CheckInputs, context: &PolicyContext<'_>) -> Vec<Verdict> {
    vec![
        halt::check(framed, facts),
        phase_gate::check(framed, facts, context),
        token_allowlist::check(framed, facts, context),
        spending_limit::check(framed, facts, context),
        rate_limit::check(framed, facts, context),
        balance_breaker::check(facts, context),
    ]
}
