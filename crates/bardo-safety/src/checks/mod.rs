//! Safety checks, one file each: pure functions of a signing payload and of facts gathered beforehand. The operator's
//! checks also read the policy and its usage.

pub mod balance_breaker;
pub mod clocks;
pub mod halt;
#[cfg(test)]
pub(super) mod model;
pub mod phase_gate;
pub mod policy_cage;
pub mod rate_limit;
pub mod slippage;
pub mod spending_limit;
pub mod standing;
pub mod token_allowlist;

use super::facts::Facts;
use super::framed::Framed;
use super::verdict::Verdict;
use standing::Standing;

/// Runs every check of the operator, in order. All of them run, even if one blocks.
pub fn operators(framed: &Framed, facts: &Facts, standing: &Standing<'_>) -> Vec<Verdict> {
    vec![
        halt::check(framed, facts),
        phase_gate::check(framed, facts, standing),
        token_allowlist::check(framed, facts, standing),
        spending_limit::check(framed, facts, standing),
        rate_limit::check(framed, facts, standing),
        balance_breaker::check(facts, standing),
    ]
}
