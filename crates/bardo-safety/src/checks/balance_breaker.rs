//! Balance breaker: stop-loss and failure breaker. Exits and revocations are exempt.

use super::policy_context::PolicyContext;
use super::spending_limit::no_ledger;
use crate::check_inputs::CheckInputs;
use crate::verdict::Verdict;
use bardo_base::error::{ErrorCode, Violation};
use bardo_base::fabric::Finding;
use bardo_base::model::{Check, RuleName};

/// Checks the stop-loss and the failure breaker.
pub fn check(inputs: &CheckInputs, context: &PolicyContext<'_>) -> Verdict {
    if inputs.only_revokes() || inputs.reduce_only() {
        return Verdict::passed(Check::BalanceBreaker, Finding::BreakerExempt);
    }
    let usage = match context.usage {
        Ok(usage) => usage,
        Err(why) => return no_ledger(Check::BalanceBreaker, why),
    };
    let request = match &context.request {
        Ok(request) => request,
        Err(doubt) => {
            let violation = Violation::new(
                RuleName::StopLossPct,
                "the account's value must be known",
                doubt.to_string(),
                "the same when it is known, or an exit now",
            );
            return Verdict::because(Check::BalanceBreaker, ErrorCode::SafetyPriceUnknown, doubt, vec![violation]);
        }
    };
    let violations = context.caps.against_losses(usage, request);
    if violations.is_empty() {
        let highest = usage.high_water.max(request.equity);
        return Verdict::passed(
            Check::BalanceBreaker,
            Finding::Equity { now: request.equity.dollars(), highest: highest.dollars() },
        );
    }
    Verdict::broken(Check::BalanceBreaker, ErrorCode::SafetyBalanceBreaker, violations)
}
