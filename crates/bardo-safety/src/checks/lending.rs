//! Limits on debts in the lending market: the health factor that stays, the prices behind it, the size of one borrowing,
//! and the debt afterwards. Part of the spending limits.
//!
//! The health factor is the pool's own, read in the simulated state. The pool computes it by its own oracle, so it counts
//! only while the prices of that oracle are confirmed by Bardo's sources: an oracle that is too high would let the account
//! borrow what the next correct price liquidates. A supply without such a price secures nothing here, and holds nothing up
//! where the rest suffices: anybody can supply one for the account.

use alloy::primitives::U256;

use super::policy_context::PolicyContext;
use super::spending_limit::above;
use crate::check_inputs::CheckInputs;
use crate::lending_calls;
use crate::proposal::ProposalIntent;
use crate::signing_payload::SigningPayload;
use crate::value::ActionValues;
use bardo_base::error::Violation;
use bardo_base::fabric::health_factor;
use bardo_base::model::RuleName;
use bardo_base::units::Usd;
use golem_protocols::aave::call::LendingCall;
use golem_protocols::aave::market::BASE_DECIMALS;

/// Ten thousandths of one, in the 18 decimals of a health factor.
const TEN_THOUSANDTH: u64 = 100_000_000_000_000;

/// Returns true if a violation is about the security of a debt.
pub(super) fn is_about_health(violation: &Violation) -> bool {
    violation.rule.is(RuleName::MinHealthFactor) || violation.rule.is(RuleName::LendingPrices)
}

/// Checks a lending action against the policy's limits on debts.
pub(super) fn check(
    payload: &SigningPayload,
    inputs: &CheckInputs,
    values: &ActionValues,
    context: &PolicyContext<'_>,
    violations: &mut Vec<Violation>,
) {
    if payload.proposal().intent != ProposalIntent::Lending || inputs.only_revokes() {
        return;
    }
    // Without a simulation, or if it failed, the simulation's own check blocks the action, with its reason.
    let Some(simulated) = inputs.simulation.as_ref().filter(|simulated| simulated.simulation.succeeded()) else {
        return;
    };
    let rules = context.policy.rules();
    let least = rules.min_health_factor;
    let Some(effects) = &simulated.lending else {
        // A silent oracle must keep nobody from paying back.
        if lending_calls::repays(payload.proposal()) {
            return;
        }
        let (limit, unknown) = (format!("at least {}", least.text()), "the health factor afterwards is unknown");
        violations.push(Violation::new(
            RuleName::MinHealthFactor,
            limit,
            unknown,
            "the same when the lending market can be read",
        ));
        return;
    };
    if matches!(effects.call, LendingCall::Borrow { .. }) {
        // Borrowings spend nothing, so that only the sum bounds many small ones.
        let Ok(owed) = Usd::from_scaled(effects.after.debt, BASE_DECIMALS) else {
            let (limit, found) = ("a debt that can be counted in dollars", "too much to count");
            violations.push(Violation::new(RuleName::MaxBorrowUsd, limit, found, "a smaller amount"));
            return;
        };
        let before = violations.len();
        above(rules.max_borrow_usd, owed.max(values.exposed), RuleName::MaxBorrowUsd, "owed afterwards", violations);
        // One violation is enough: the first limit is the borrowing's own.
        if violations.len() == before {
            above(rules.max_single_trade_usd, values.exposed, RuleName::MaxBorrowUsd, "borrowed", violations);
        }
    }
    if !effects.worsens() || effects.after.debt.is_zero() {
        return;
    }
    let needed = U256::from(least.ten_thousandths()).saturating_mul(U256::from(TEN_THOUSANDTH));
    let is_confirmed = effects.confirmed_health.is_some_and(|health| health >= needed);
    for gap in effects.gaps.iter().filter(|_| !is_confirmed) {
        let found = match gap.own {
            Some([lowest, highest]) => {
                format!("the market has ${} for {}, the price sources ${lowest} to ${highest}", gap.market, gap.token)
            }
            None => format!("the market has ${} for {}, the price sources nothing", gap.market, gap.token),
        };
        violations.push(Violation::new(
            RuleName::LendingPrices,
            "each price of the lending market within 3 % of all price sources",
            found,
            "the same when the prices agree, or a repayment",
        ));
    }
    if effects.after.health < needed {
        let hundredths = effects.after.health_hundredths();
        violations.push(Violation::new(
            RuleName::MinHealthFactor,
            format!("at least {}", least.text()),
            format!("{} afterwards", health_factor(hundredths)),
            "a smaller amount, more collateral, or a repayment first",
        ));
    }
}
