//! Has too much been lost, or too much failed, for anything but exits?

use super::spending_limit::no_ledger;
use super::standing::Standing;
use crate::facts::Facts;
use crate::verdict::Verdict;
use bardo_base::error::{ErrorCode, Violation};
use bardo_base::model::Check;

/// Stop-loss and failure breaker.
pub fn check(facts: &Facts, standing: &Standing<'_>) -> Verdict {
    if facts.takes_back() || facts.reduce_only() {
        return Verdict::passed(Check::BalanceBreaker, "exits and revocations pass");
    }
    let usage = match standing.usage {
        Ok(usage) => usage,
        Err(why) => return no_ledger(Check::BalanceBreaker, why),
    };
    let wish = match &standing.wish {
        Ok(wish) => wish,
        Err(doubt) => {
            let violation = Violation {
                rule: "stop_loss_pct".to_owned(),
                limit: "what is held must be told".to_owned(),
                value: doubt.to_string(),
                would_pass: "the same once it can, or an exit now".to_owned(),
                figures: None,
            };
            return Verdict::blocked(Check::BalanceBreaker, ErrorCode::SafetyPriceUnknown, doubt, vec![violation]);
        }
    };
    let violations = standing.caps.against_losses(usage, wish);
    if violations.is_empty() {
        let highest = usage.high_water.max(wish.equity);
        return Verdict::passed(Check::BalanceBreaker, format_args!("{} of {highest} at the highest", wish.equity));
    }
    let detail = violations.iter().map(|one| format!("{}: {}", one.rule, one.value)).collect::<Vec<_>>().join("; ");
    Verdict::blocked(Check::BalanceBreaker, ErrorCode::SafetyBalanceBreaker, detail, violations)
}
