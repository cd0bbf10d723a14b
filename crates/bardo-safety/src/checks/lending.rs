//! Limits on debts in the lending market: the health factor that stays, the prices behind it, the size of one borrowing,
//! and the debt afterwards. Part of the spending limits.
//!
//! The health factor is the pool's own, read in the simulated state. The pool computes it by its own oracle, so it counts
//! only while the prices of that oracle are confirmed by Bardo's sources: an oracle that is too high would let the account
//! borrow what the next correct price liquidates. A supply without such a price secures nothing here, and holds nothing up
//! where the rest suffices: anybody can supply one for the account.

use alloy::primitives::{U256, U512};

use super::policy_context::PolicyContext;
use super::spending_limit::above;
use crate::check_inputs::CheckInputs;
use crate::lending_calls::{self, LendingEffects};
use crate::proposal::ProposalIntent;
use crate::signing_payload::SigningPayload;
use crate::value::ActionValues;
use bardo_base::error::Violation;
use bardo_base::fabric::health_factor;
use bardo_base::model::RuleName;
use bardo_base::units::{TokenAmount, Usd};
use golem_protocols::aave::call::LendingCall;
use golem_protocols::aave::market::BASE_DECIMALS;
use golem_protocols::aave::position::AccountSums;

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
        let passes = match largest_amount(effects, needed) {
            Some(amount) => format!("at most {amount} {}", effects.symbol),
            None => "no amount now".to_owned(),
        };
        violations.push(Violation::new(
            RuleName::MinHealthFactor,
            format!("at least {}", least.text()),
            format!("{} afterwards", health_factor(hundredths)),
            format!("{passes}, more collateral, or a repayment first"),
        ));
    }
}

/// Parts of an amount that are left out of the largest one that passes, because prices move while it is typed.
const MARGIN: u64 = 1_000;

/// Largest amount of the borrowing or withdrawal that leaves the health factor `needed`, with 18 decimals; `None` if none
/// does. The weighted collateral of an account is its health factor times its debt, as in Aave's
/// `GenericLogic.calculateUserAccountData`. A borrowing leaves it and adds to the debt; a withdrawal takes from it in
/// proportion to its amount.
fn largest_amount(effects: &LendingEffects, needed: U256) -> Option<TokenAmount> {
    let (before, after) = (&effects.before, &effects.after);
    let secured = |sums: &AccountSums| U512::from(sums.health) * U512::from(sums.debt);
    let least = U512::from(needed);
    let (asked, spare, used) = match effects.call {
        LendingCall::Borrow { amount, .. } => {
            let most = secured(after).checked_div(least)?;
            let added = after.debt.checked_sub(before.debt)?;
            (amount, most.checked_sub(U512::from(before.debt))?, U512::from(added))
        }
        LendingCall::Withdraw { .. } => {
            let [had, has] = effects.supply;
            let spare = secured(before).checked_sub(least * U512::from(before.debt))?;
            (had.checked_sub(has)?, spare, secured(before).checked_sub(secured(after))?)
        }
        LendingCall::Supply { .. } | LendingCall::Repay { .. } => return None,
    };
    let whole = U512::from(asked).checked_mul(spare)?.checked_div(used)?;
    let kept = U256::checked_from_limbs_slice((whole - whole / U512::from(MARGIN)).as_limbs())?;
    // Six digits after the point suffice for an amount that somebody types.
    let unit = U256::from(10).checked_pow(U256::from(effects.decimals.saturating_sub(DIGITS)))?;
    let rounded = kept - kept.checked_rem(unit)?;
    (!rounded.is_zero()).then(|| TokenAmount::new(rounded, effects.decimals).ok()).flatten()
}

/// Digits after the point of that amount.
const DIGITS: u8 = 6;

#[cfg(test)]
mod tests {
    use super::*;
    use alloy::primitives::{Address, uint};
    use bardo_base::text::SafeText;

    const WAD: U256 = uint!(1_000_000_000_000_000_000_U256);

    fn sums(debt: u64, health: U256) -> AccountSums {
        let zero = U256::ZERO;
        AccountSums { collateral: zero, debt: U256::from(debt), available: zero, threshold: zero, ltv: zero, health }
    }

    fn effects(
        call: LendingCall,
        [before, after]: [AccountSums; 2],
        decimals: u8,
        supply: [U256; 2],
    ) -> LendingEffects {
        LendingEffects {
            call,
            before,
            after,
            gaps: Vec::new(),
            confirmed_health: None,
            falls: Vec::new(),
            symbol: SafeText::clean("USDC", 8),
            decimals,
            supply,
            debt: [U256::ZERO; 2],
        }
    }

    /// 0.1 WETH at $3,400 with a threshold of 83 % secures $282.20, so a factor of 1.5 allows $188.1333 of debt. Base
    /// currency units are 10⁻⁸ dollars.
    #[test]
    fn the_largest_borrowing_is_what_the_collateral_secures_at_the_limit_less_a_thousandth() {
        let asset = Address::ZERO;
        let needed = WAD * U256::from(3) / U256::from(2);
        // $250 of debt: 282.2 / 250 = 1.1288.
        let after = sums(25_000_000_000, WAD * U256::from(11_288) / U256::from(10_000));
        let borrow = |amount: u64| LendingCall::Borrow { asset, amount: U256::from(amount) };
        let of = |call, before, after| {
            largest_amount(&effects(call, [before, after], 6, [U256::ZERO; 2]), needed).map(|one| one.to_string())
        };
        let none = sums(0, U256::MAX);
        // 188.133333 less 0.188133 is 187.9452.
        assert_eq!(of(borrow(250_000_000), none, after).as_deref(), Some("187.9452"));
        // With $100 owed before, $88.1333 may be added; 88.133333 less 0.088133 is 88.0452.
        let before = sums(10_000_000_000, WAD * U256::from(2_822) / U256::from(1_000));
        assert_eq!(of(borrow(150_000_000), before, after).as_deref(), Some("88.0452"));
        // With $200 owed before, the limit is passed already.
        let before = sums(20_000_000_000, WAD * U256::from(1_411) / U256::from(1_000));
        assert_eq!(of(borrow(50_000_000), before, after), None);
    }

    /// 1 WETH at $3,400 and 83 % secures $2,822 of $1,000: the factor falls from 2.822 to 0.8466 when 0.7 are withdrawn. At
    /// 1.5, $1,322 of $2,822 may go: 0.46846… WETH.
    #[test]
    fn the_largest_withdrawal_leaves_what_the_debt_needs() {
        let call = LendingCall::Withdraw { asset: Address::ZERO, amount: WAD * U256::from(7) / U256::from(10) };
        let debt = 100_000_000_000;
        let [before, after] = [28_220_u64, 8_466].map(|parts| sums(debt, WAD * U256::from(parts) / U256::from(10_000)));
        let supply = [WAD, WAD * U256::from(3) / U256::from(10)];
        let needed = WAD * U256::from(3) / U256::from(2);
        let found = largest_amount(&effects(call, [before, after], 18, supply), needed).unwrap();
        // 1,322 / 2,822 is 0.468462…, less a thousandth 0.467993…
        assert_eq!(found.to_string(), "0.467993");
    }
}
