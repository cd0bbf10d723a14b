//! Ledger limits, taken from a policy, and the evaluation of a [`ReservationRequest`] against them. The checks evaluate
//! it before the simulation, and the reservation does so again inside the transaction that records the spending. Both
//! return all violations at once.

use bardo_base::model::{Rule, RuleName};
use std::collections::BTreeMap;

use super::micros::MicroUsd;
use super::usage::{FailureBreaker, LedgerUsage};
use bardo_base::error::{FigureUnit, RuleFigures, Violation};
use bardo_base::format::{self, dollars_above, dollars_left, dollars_used, wait};
use bardo_base::units::BasisPoints;
use golem_chain::token::TokenId;

/// Chain id and token.
pub type TokenKey = (u64, TokenId);

/// Period over which spending is summed. Every window slides; none restarts at a full hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CapPeriod {
    /// A single action.
    Once,
    /// The last 60 minutes.
    Hour,
    /// The last 24 hours.
    Day,
    /// The last 30 days.
    Month,
}

impl CapPeriod {
    /// All sliding windows, which excludes [`Self::Once`].
    pub const WINDOWS: [Self; 3] = [Self::Hour, Self::Day, Self::Month];

    /// Returns the length in milliseconds; 0 for [`Self::Once`].
    pub const fn millis(self) -> u64 {
        match self {
            Self::Once => 0,
            Self::Hour => 3_600_000,
            Self::Day => 86_400_000,
            Self::Month => 30 * 86_400_000,
        }
    }

    /// Returns the period as text, such as `in any 24 hours`.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Once => "in one action",
            Self::Hour => "in any 60 minutes",
            Self::Day => "in any 24 hours",
            Self::Month => "in any 30 days",
        }
    }
}

/// Dollar limit on spending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpendCap {
    /// Policy field that sets the limit.
    pub rule: RuleName,
    /// Period to which the limit applies.
    pub span: CapPeriod,
    /// Maximum value within the period.
    pub limit: MicroUsd,
    /// Share of the policy's figure that the Golem's phase leaves; `None` for the whole figure.
    pub scaled: Option<BasisPoints>,
}

/// Dollar limits of one token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TokenCaps {
    /// Maximum value in one action.
    pub once: Option<MicroUsd>,
    /// Maximum value in any 24 hours.
    pub day: Option<MicroUsd>,
}

/// Daily gas budget of revocations, as a multiple of `max_gas_usd`.
pub const REVOCATIONS_A_DAY: u64 = 5;

/// All limits that the ledger enforces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerCaps {
    /// Limits on the spending in all tokens together.
    pub spend: Vec<SpendCap>,
    /// Limits on single tokens.
    pub tokens: BTreeMap<TokenKey, TokenCaps>,
    /// Maximum number of trades in any 60 minutes. Above it, exits need the operator's approval and other trades are
    /// refused.
    pub trades_per_hour: u32,
    /// Maximum number of an account's revocations, cancellations and refunds in any 60 minutes.
    pub revocations_per_hour: u32,
    /// Maximum gas cost of an account's revocations, cancellations and refunds in any 24 hours; `None` for no limit.
    pub revocations_per_day: Option<MicroUsd>,
    /// Maximum number of calls of one caller in any 60 seconds.
    pub calls_per_minute: u32,
    /// Minimum time between two trades, in milliseconds.
    pub cooldown: u64,
    /// Number of consecutive failures that opens the breaker.
    pub failures: u32,
    /// Time for which the breaker stays open before a trial, in milliseconds.
    pub cool_off: u64,
    /// Drawdown from the high-water mark that stops trading.
    pub stop_loss: BasisPoints,
}

/// Amounts and properties of one action, as the limits see them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservationRequest {
    /// Total value that counts as spent, gas included.
    pub spend: MicroUsd,
    /// Part of it that is gas, which a smaller amount does not reduce.
    pub gas: MicroUsd,
    /// Part of the value in each token.
    pub tokens: BTreeMap<TokenKey, MicroUsd>,
    /// True for a trade: every action except revocations, cancellations and refunds.
    pub trade: bool,
    /// True if the action only revokes, cancels or refunds. Dollar limits and trade limits do not apply to it, but it
    /// has a rate limit of its own. Its gas is recorded.
    pub only_revokes: bool,
    /// True if the operator acts directly. Then the limits on revocations ask the operator instead of refusing.
    pub by_operator: bool,
    /// True for a fair exit. Then the dollar limits and the trade rate ask the operator instead of refusing.
    pub exit: bool,
    /// Full value that a fair exit sells, by token; empty for other actions.
    pub sold: BTreeMap<TokenKey, MicroUsd>,
    /// True if the operator was asked about the limits that an exit exceeds.
    pub asked: bool,
    /// Dollar value that a trade spends; zero for other actions. Only the success of a trade can close the failure
    /// breaker.
    pub traded: MicroUsd,
    /// True if stop-loss, breaker and cooldown do not apply: the simulation found an exit, a revocation or a
    /// cancellation.
    pub exempt: bool,
    /// Dollar value of the account's holdings.
    pub equity: MicroUsd,
}

impl ReservationRequest {
    /// Adds the value in transit over bridges to the equity. A sum too large to count leaves the equity unchanged.
    #[must_use]
    pub fn with_in_transit(self, away: MicroUsd) -> Self {
        let equity = self.equity.plus(away).unwrap_or(self.equity);
        Self { equity, ..self }
    }
}

impl LedgerCaps {
    /// Returns a violation for each dollar limit that `request` exceeds. Of the limits over the same period only the
    /// lowest is reported. An exit needs the operator's approval for them; other actions are refused.
    pub fn exceeded(&self, usage: &LedgerUsage, request: &ReservationRequest) -> Vec<Violation> {
        let mut found = Vec::new();
        if request.only_revokes {
            return found;
        }
        for (at, cap) in self.spend.iter().enumerate() {
            let of_span = self.spend.iter().enumerate().filter(|(_, other)| other.span == cap.span);
            if of_span.map(|(at, other)| (other.limit, at)).min() != Some((cap.limit, at)) {
                continue;
            }
            let before = usage.spent(cap.span);
            let after = before.plus(request.spend);
            if after.is_ok_and(|after| after <= cap.limit) {
                continue;
            }
            let share = cap.scaled.map(|share| format!(" ({} % of the policy's figure)", percent(share)));
            let limit = format!("{} {}{}", shown(cap.limit), cap.span.describe(), share.unwrap_or_default());
            let left = left(cap.limit.less(before).less(request.gas));
            let gas = match request.gas {
                MicroUsd::ZERO => String::new(),
                gas => format!(" besides gas of at most {}", used(gas)),
            };
            let spend = dollars_above(request.spend.dollars(), cap.limit.dollars());
            let (value, would_pass) = if cap.span == CapPeriod::Once {
                (spend, format!("at most {left}{gas}"))
            } else {
                let value = format!("{spend} on top of {} already spent or reserved", used(before));
                (value, format!("at most {left} now{gas}{}", usage.frees(cap.span)))
            };
            let of_window = usage.window(cap.span).frees_at.filter(|_| cap.span != CapPeriod::Once);
            let figures = dollars(cap.limit, before, request.spend)
                .leaving(cap.limit.less(before).less(request.gas).dollars())
                .freeing_in(of_window.map(|at| seconds(at, usage.now)));
            found.push(Violation::new(cap.rule, limit, value, would_pass).with(figures));
        }
        for (key, spend) in &request.tokens {
            let Some(caps) = self.tokens.get(key) else { continue };
            let before = usage.tokens.get(key).copied().unwrap_or_default();
            for (limit, span, before) in
                [(caps.once, CapPeriod::Once, MicroUsd::ZERO), (caps.day, CapPeriod::Day, before)]
            {
                let Some(limit) = limit else { continue };
                if before.plus(*spend).is_ok_and(|after| after <= limit) {
                    continue;
                }
                found.push(
                    Violation::new(
                        Rule::token_caps(&token_name(*key)),
                        format_args!("{} {}", shown(limit), span.describe()),
                        format_args!("{} on top of {}", dollars_above(spend.dollars(), limit.dollars()), used(before)),
                        format_args!("at most {} of this token now", left(limit.less(before))),
                    )
                    .with(dollars(limit, before, *spend)),
                );
            }
        }
        found
    }

    /// Returns a violation if another revocation, cancellation or refund exceeds the hourly rate. If the operator acts
    /// directly, it needs an approval; otherwise it is refused.
    pub fn revocation_rate(&self, usage: &LedgerUsage) -> Option<Violation> {
        (usage.revocations_hour >= self.revocations_per_hour).then(|| {
            Violation::new(
                RuleName::MaxRevocationsPerHour,
                format_args!("{} in any 60 minutes", self.revocations_per_hour),
                format_args!("{} were made", usage.revocations_hour),
                match usage.revocation_frees_at {
                    Some(at) if self.revocations_per_hour > 0 => {
                        format!("the next one in {}, or a manual one by the operator now", seconds_until(at, usage.now))
                    }
                    _ => "a manual one by the operator".to_owned(),
                },
            )
            .with(
                RuleFigures::new(
                    FigureUnit::Count,
                    self.revocations_per_hour,
                    usage.revocations_hour.saturating_add(1),
                )
                .leaving(0)
                .freeing_in(
                    usage
                        .revocation_frees_at
                        .filter(|_| self.revocations_per_hour > 0)
                        .map(|at| seconds(at, usage.now)),
                ),
            )
        })
    }

    /// Returns a violation if `request` exceeds the daily gas budget of revocations, cancellations and refunds. If the
    /// operator acts directly, it needs an approval; otherwise it is refused.
    pub fn revocation_gas(&self, usage: &LedgerUsage, request: &ReservationRequest) -> Option<Violation> {
        let most = self.revocations_per_day.filter(|_| request.only_revokes)?;
        let before = usage.revocations_day;
        (!before.plus(request.spend).is_ok_and(|after| after <= most)).then(|| {
            Violation::new(
                RuleName::MaxGasUsd,
                format_args!(
                    "{} of gas for revocations in any 24 hours, {REVOCATIONS_A_DAY} times max_gas_usd",
                    shown(most)
                ),
                format_args!("{} on top of {}", dollars_above(request.spend.dollars(), most.dollars()), used(before)),
                "a manual one by the operator, or the same within a day",
            )
            .with(dollars(most, before, request.spend))
        })
    }

    /// Returns a violation if a Golem's exit exceeds the value that exits may sell in any 24 hours without an approval.
    /// The limit equals the lowest daily spending limit. Tokens of a recorded liquidation do not count, since the
    /// operator has decided to sell them.
    pub fn exit_volume(&self, usage: &LedgerUsage, request: &ReservationRequest) -> Option<Violation> {
        let cap = self.spend.iter().filter(|cap| cap.span == CapPeriod::Day).min_by_key(|cap| cap.limit)?;
        if !request.exit || request.by_operator {
            return None;
        }
        let mut sold = request.sold.iter().filter(|((_, token), _)| !usage.liquidating.contains(token));
        let sold = sold.try_fold(MicroUsd::ZERO, |sum, (_, part)| sum.plus(*part)).unwrap_or(MicroUsd::MAX);
        let before = usage.exits_day;
        if sold == MicroUsd::ZERO || before.plus(sold).is_ok_and(|after| after <= cap.limit) {
            return None;
        }
        Some(
            Violation::new(
                cap.rule,
                format_args!("{} sold by exits in any 24 hours without asking", shown(cap.limit)),
                format_args!("{} on top of {}", dollars_above(sold.dollars(), cap.limit.dollars()), used(before)),
                format_args!("at most {} now, or the same with the operator's approval", left(cap.limit.less(before))),
            )
            .with(dollars(cap.limit, before, sold)),
        )
    }

    /// Returns a violation if another trade exceeds the hourly rate. A fair exit needs the operator's approval, one by
    /// the operator directly is exempt, and other trades are refused.
    pub fn trade_rate(&self, usage: &LedgerUsage) -> Option<Violation> {
        (usage.trades_hour >= self.trades_per_hour).then(|| {
            Violation::new(
                RuleName::MaxTradesPerHour,
                format_args!("{} in any 60 minutes", self.trades_per_hour),
                format_args!("{} were made", usage.trades_hour),
                match usage.trade_frees_at {
                    Some(at) if self.trades_per_hour > 0 => {
                        format!("the next one in {}, or an exit now", seconds_until(at, usage.now))
                    }
                    _ => "exits only: the policy allows no other trade".to_owned(),
                },
            )
            .with(
                RuleFigures::new(FigureUnit::Count, self.trades_per_hour, usage.trades_hour.saturating_add(1))
                    .leaving(0)
                    .freeing_in(
                        usage.trade_frees_at.filter(|_| self.trades_per_hour > 0).map(|at| seconds(at, usage.now)),
                    ),
            )
        })
    }

    /// Returns the violations of the remaining rate limits: calls per minute, and the cooldown for a `trade` that is
    /// not `exempt`.
    pub fn against_rate(&self, usage: &LedgerUsage, trade: bool, exempt: bool) -> Vec<Violation> {
        let mut found = Vec::new();
        if usage.calls_minute > self.calls_per_minute {
            found.push(
                Violation::new(
                    RuleName::MaxToolCallsPerMinute,
                    format_args!("{} in any 60 seconds", self.calls_per_minute),
                    format_args!("{}, with this one", usage.calls_minute),
                    "the same call within a minute",
                )
                .with(RuleFigures::new(FigureUnit::Count, self.calls_per_minute, usage.calls_minute).leaving(0)),
            );
        }
        if let Some(last) = usage.last_trade.filter(|_| trade && !exempt) {
            let free = last.saturating_add(self.cooldown);
            if usage.now < free {
                found.push(
                    Violation::new(
                        RuleName::CooldownSeconds,
                        format_args!("{} between trades", wait(self.cooldown / 1_000)),
                        format_args!("{} after the last one", wait(usage.now.saturating_sub(last) / 1_000)),
                        format_args!("the same in {}, or an exit now", seconds_until(free, usage.now)),
                    )
                    .with(
                        RuleFigures::new(
                            FigureUnit::Seconds,
                            self.cooldown / 1_000,
                            usage.now.saturating_sub(last) / 1_000,
                        )
                        .freeing_in(Some(seconds(free, usage.now))),
                    ),
                );
            }
        }
        found
    }

    /// Returns the violations of the stop-loss and the failure breaker.
    pub fn against_losses(&self, usage: &LedgerUsage, request: &ReservationRequest) -> Vec<Violation> {
        let mut found = Vec::new();
        if request.exempt {
            return found;
        }
        let highest = usage.high_water.max(request.equity);
        // Avoids a division: drawdown ≥ `stop_loss` · highest.
        let fallen = u128::from(highest.less(request.equity).get()) * 10_000;
        if fallen >= u128::from(highest.get()) * u128::from(self.stop_loss.get()) && fallen > 0 {
            let stops = highest.less(highest.share(self.stop_loss));
            found.push(
                Violation::new(
                    RuleName::StopLossPct,
                    format_args!(
                        "{} % below the highest, {}: stops at {}",
                        percent(self.stop_loss),
                        shown(highest),
                        shown(stops)
                    ),
                    shown(request.equity),
                    "exits, until the portfolio has recovered or the operator sets a new mark",
                )
                .with(RuleFigures::new(FigureUnit::Usd, stops.dollars(), request.equity.dollars())),
            );
        }
        match usage.breaker {
            FailureBreaker::Closed { .. } | FailureBreaker::HalfOpen => {}
            FailureBreaker::Open { until, failures } => found.push(
                Violation::new(
                    RuleName::MaxConsecutiveFailures,
                    format_args!("{} in a row", self.failures),
                    format_args!("{failures} in a row"),
                    format_args!("one trial in {}, or an exit now", seconds_until(until, usage.now)),
                )
                .with(
                    RuleFigures::new(FigureUnit::Count, self.failures, failures)
                        .freeing_in(Some(seconds(until, usage.now))),
                ),
            ),
            FailureBreaker::Trial => found.push(Violation::new(
                RuleName::MaxConsecutiveFailures,
                "one trial trade at a time after the cool-off",
                "a trial trade is in progress",
                "the same after the trial trade succeeds, or an exit now",
            )),
        }
        found
    }

    /// Returns all violations of `request`, except of limits about which the operator was asked already. If two exits
    /// were each within a limit when checked, the second one is refused here; a repeated request asks the operator.
    pub fn against(&self, usage: &LedgerUsage, request: &ReservationRequest) -> Vec<Violation> {
        let asked = request.exit && request.asked;
        let mut found = if asked { Vec::new() } else { self.exceeded(usage, request) };
        if !asked {
            found.extend(self.exit_volume(usage, request));
        }
        if request.trade && !asked && !(request.exit && request.by_operator) {
            found.extend(self.trade_rate(usage));
        }
        found.extend(self.against_rate(usage, request.trade, request.exempt));
        if request.only_revokes && !request.by_operator {
            found.extend(self.revocation_rate(usage));
            found.extend(self.revocation_gas(usage, request));
        }
        found.extend(self.against_losses(usage, request));
        found
    }
}

/// Formats a token as the policy file does: `8453:0x…` or `8453:native`.
pub fn token_name((chain_id, token): TokenKey) -> String {
    match token {
        TokenId::Native => format!("{chain_id}:native"),
        TokenId::Erc20(address) => format!("{chain_id}:{address}"),
    }
}

/// Formats basis points as percent, without trailing zeros.
pub(crate) fn percent(share: BasisPoints) -> String {
    let (whole, fraction) = (share.get() / 100, share.get() % 100);
    let text = format!("{whole}.{fraction:02}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn seconds_until(at: u64, now: u64) -> String {
    wait(seconds(at, now))
}

/// Dollars for a sentence, to the nearest cent. The figures of a violation are exact.
fn shown(value: MicroUsd) -> String {
    format::dollars(value.dollars())
}

/// Dollars that count against a limit, for a sentence.
fn used(value: MicroUsd) -> String {
    dollars_used(value.dollars())
}

/// Dollars that a limit leaves, for a sentence.
fn left(value: MicroUsd) -> String {
    dollars_left(value.dollars())
}

/// Returns the seconds from `now` to `at`, both in milliseconds, rounded up.
fn seconds(at: u64, now: u64) -> u64 {
    at.saturating_sub(now).div_ceil(1_000)
}

/// Figures of a dollar limit of which `before` is used, for a request of `spend`.
fn dollars(limit: MicroUsd, before: MicroUsd, spend: MicroUsd) -> RuleFigures {
    // A sum too large to count exceeds every limit anyway.
    let value = before.plus(spend).unwrap_or(MicroUsd::MAX);
    RuleFigures::new(FigureUnit::Usd, limit.dollars(), value.dollars()).leaving(limit.less(before).dollars())
}
