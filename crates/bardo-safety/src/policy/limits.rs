//! Conversion of a policy's fields into the limits that the ledger enforces, and into required consent.

use super::rules::MaxUsd;
use super::{Policy, Rules, ToolRule};
use crate::approval::{ApprovalNeed, ApprovalReason};
use crate::checks::slippage::SlippageLimits;
use crate::ledger::{CapPeriod, LedgerCaps, MicroUsd, REVOCATIONS_A_DAY, SpendCap, TokenCaps};
use bardo_base::model::{Phase, RuleName};
use bardo_base::units::{BasisPoints, Rounding, Usd};

impl Policy {
    /// Returns the limits that the ledger enforces in this phase. `whole` leaves the limits per action unscaled, for
    /// exits: a phase that wants exits must not reduce them.
    pub fn caps(&self, phase: Phase, whole: bool) -> LedgerCaps {
        let rules = self.rules();
        let factor = rules.phases.of(phase).size_factor_bps.0;
        let scaled = (!whole && factor.get() < 10_000).then_some(factor);
        let mut spend = Vec::new();
        for (rule, span, most) in spend_caps(rules) {
            let Some(most) = most.0 else { continue };
            let limit = down(most);
            let scaled = scaled.filter(|_| span == CapPeriod::Once);
            let limit = scaled.map_or(limit, |factor| limit.share(factor));
            spend.push(SpendCap { rule, span, limit, scaled });
        }
        let tokens = rules.token_caps.0.iter().map(|(token, rule)| {
            let once = rule.max_single_usd.0.map(down);
            let once = scaled.map_or(once, |factor| once.map(|once| once.share(factor)));
            ((token.chain.0, token.token), TokenCaps { once, day: rule.max_daily_usd.0.map(down) })
        });
        LedgerCaps {
            spend,
            tokens: tokens.collect(),
            trades_per_hour: rules.max_trades_per_hour.0,
            revocations_per_hour: rules.max_revocations_per_hour.0,
            revocations_per_day: rules.max_gas_usd.0.map(|most| down(most).times(REVOCATIONS_A_DAY)),
            calls_per_minute: rules.max_tool_calls_per_minute.0,
            cooldown: rules.cooldown_seconds.0.saturating_mul(1_000),
            failures: rules.max_consecutive_failures.0,
            cool_off: rules.breaker_cool_off_seconds.0.saturating_mul(1_000),
            stop_loss: rules.stop_loss_pct.0,
        }
    }

    /// Returns the consent that an action of `tool` needs by its value alone; `spent` is in dollars. Other reasons for
    /// approval are added by the checks that find them.
    pub fn consent(&self, tool: &str, spent: Usd) -> ApprovalNeed {
        let rules = self.rules();
        let mut reasons = Vec::new();
        let mut ask = |threshold: MaxUsd, field: &str| {
            if let Some(most) = threshold.0.filter(|most| spent > *most) {
                reasons.push(ApprovalReason::above(up(spent), down(most), field));
            }
        };
        ask(rules.require_human_approval_above_usd, "require_human_approval_above_usd");
        if let Some(ToolRule { requires_approval_above_usd }) = rules.tools.0.get(tool) {
            ask(*requires_approval_above_usd, &format!("tools.{tool}.requires_approval_above_usd"));
        }
        ask(rules.spending_limits.hot_lane, "spending_limits.hot_lane");
        let above = |threshold: MaxUsd| threshold.0.is_some_and(|most| spent > most);
        if !reasons.is_empty() {
            ApprovalNeed::Approval { reasons }
        } else if above(rules.delay_above_usd) {
            ApprovalNeed::Delay { millis: rules.delay_seconds.0.saturating_mul(1_000) }
        } else if above(rules.notify_above_usd) {
            ApprovalNeed::Notify
        } else {
            ApprovalNeed::Instant
        }
    }

    /// Returns true if the safety-guardian must agree to spending of this value.
    pub fn above_hot_lane(&self, spent: Usd) -> bool {
        self.rules().spending_limits.hot_lane.0.is_some_and(|most| spent > most)
    }

    /// Returns the largest spending of one action that a standing approval can cover: above it, the safety-guardian or a
    /// second operator must agree to each. `None` without such a limit.
    pub fn largest_granted(&self) -> Option<Usd> {
        let second = self.second_approval().map(|(above, _)| above);
        self.rules().spending_limits.hot_lane.0.into_iter().chain(second).min()
    }

    /// Returns a trade's loss limits in this phase. A phase without a price impact limit adds none.
    pub fn slippage(&self, phase: Phase) -> SlippageLimits {
        let (rules, of_phase) = (self.rules(), self.rules().phases.of(phase));
        SlippageLimits {
            max_slippage: rules.max_slippage_bps.0.min(of_phase.max_slippage_bps.0),
            max_price_impact: rules.max_price_impact_bps.0,
            impact_below: Some(of_phase.max_price_impact_bps.0).filter(|below| below.get() < 10_000),
            max_loss: rules.max_loss_bps.0,
            max_quote_age: rules.max_quote_age_seconds.0.saturating_mul(1_000),
        }
    }

    /// Returns the maximum loss of a trade's value.
    pub fn max_loss(&self) -> BasisPoints {
        self.rules().max_loss_bps.0
    }

    /// Returns true if a transaction of this value on a public main network must go to a private endpoint only.
    pub fn wants_private_rpc(&self, spent: Usd) -> bool {
        self.rules().private_rpc_above_usd.0.is_some_and(|most| spent > most)
    }
}

/// Returns the caps in dollars, by field.
fn spend_caps(rules: &Rules) -> [(RuleName, CapPeriod, MaxUsd); 6] {
    [
        (RuleName::MaxSingleTradeUsd, CapPeriod::Once, rules.max_single_trade_usd),
        (RuleName::PerTransaction, CapPeriod::Once, rules.spending_limits.per_transaction),
        (RuleName::MaxHourlySpendUsd, CapPeriod::Hour, rules.max_hourly_spend_usd),
        (RuleName::MaxDailySpendUsd, CapPeriod::Day, rules.max_daily_spend_usd),
        (RuleName::PerDay, CapPeriod::Day, rules.spending_limits.per_day),
        (RuleName::MaxMonthlySpendUsd, CapPeriod::Month, rules.max_monthly_spend_usd),
    ]
}

/// Converts a limit into the ledger's unit, rounded down; a limit that is too large counts as the maximum.
fn down(most: Usd) -> MicroUsd {
    MicroUsd::of(most, Rounding::Down).unwrap_or(MicroUsd::MAX)
}

fn up(spent: Usd) -> MicroUsd {
    MicroUsd::of(spent, Rounding::Up).unwrap_or(MicroUsd::MAX)
}
