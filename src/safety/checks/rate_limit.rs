//! Not too often, not too soon after the last one, and at a time when it may act?

use super::spending_limit::no_ledger;
use super::standing::Standing;
use crate::base::error::{ErrorCode, Violation};
use crate::base::model::Check;
use crate::safety::facts::Facts;
use crate::safety::verdict::Verdict;

/// The rate limits.
pub fn check(facts: &Facts, standing: &Standing<'_>) -> Verdict {
    let usage = match standing.usage {
        Ok(usage) => usage,
        Err(why) => return no_ledger(Check::RateLimit, why),
    };
    let caps = &standing.caps;
    // How often does not depend on how much: an unknown value is the spending limit's affair.
    let (takes_back, exempt) = (facts.takes_back(), facts.takes_back() || facts.reduce_only());
    let mut violations = caps.against_rate(usage, !takes_back, exempt);
    let hours = &standing.policy.rules().active_hours;
    if !facts.takes_back() && !hours.contains(facts.now_millis) {
        let opens = hours.opens_in(facts.now_millis);
        violations.push(Violation {
            rule: "active_hours".to_owned(),
            limit: hours.words(),
            value: "now".to_owned(),
            would_pass: opens
                .map_or_else(|| "nothing at any time".to_owned(), |seconds| format!("the same in {seconds} s")),
        });
    }
    if violations.is_empty() {
        let made = usage.trades_hour;
        return Verdict::passed(
            Check::RateLimit,
            format_args!("{made} of {} trades in 60 minutes", caps.trades_per_hour),
        );
    }
    let detail = violations.iter().map(|one| format!("{}: {}", one.rule, one.value)).collect::<Vec<_>>().join("; ");
    Verdict::blocked(Check::RateLimit, ErrorCode::SafetyRateLimited, detail, violations)
}
