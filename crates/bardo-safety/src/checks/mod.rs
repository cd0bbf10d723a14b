//! The checks, one file each: pure functions of a frame and of facts gathered before. Those that are
//! the operator's also look at the policy and at what has been used of it.

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

/// Every check that is the operator's, in their order. All are asked, whatever the others say.
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
