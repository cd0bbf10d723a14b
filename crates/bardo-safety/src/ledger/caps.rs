//! What the ledger is held against: plain figures taken from a policy, and the one judgement of a
//! [`Request`] under them. The checks ask it before anything is simulated, the reservation asks it
//! again inside the transaction that records the spending; both get every violation at once.

use bardo_base::model::{Rule, RuleName};
use std::collections::BTreeMap;

use super::micros::Micros;
use super::usage::{Breaker, Usage};
use bardo_base::error::{FigureUnit, Figures, Violation};
use bardo_base::units::BasisPoints;
use golem_chain::token::TokenId;

/// A token on a chain.
pub type TokenKey = (u64, TokenId);

/// Over which time spending is added up. Every window slides; none starts anew at a round hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Span {
    /// One action.
    Once,
    /// The last 60 minutes.
    Hour,
    /// The last 24 hours.
    Day,
    /// The last 30 days.
    Month,
}

impl Span {
    /// The windows, without [`Self::Once`].
    pub const WINDOWS: [Self; 3] = [Self::Hour, Self::Day, Self::Month];

    /// How long, in milliseconds.
    pub const fn millis(self) -> u64 {
        match self {
            Self::Once => 0,
            Self::Hour => 3_600_000,
            Self::Day => 86_400_000,
            Self::Month => 30 * 86_400_000,
        }
    }

    /// In words, such as `in any 24 hours`.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Once => "in one action",
            Self::Hour => "in any 60 minutes",
            Self::Day => "in any 24 hours",
            Self::Month => "in any 30 days",
        }
    }
}

/// A limit on dollars.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpendCap {
    /// The policy's field.
    pub rule: RuleName,
    /// Over which time.
    pub span: Span,
    /// The most.
    pub limit: Micros,
    /// Of which share of the policy's figure the phase leaves, where it is not all.
    pub scaled: Option<BasisPoints>,
}

/// Limits on one token's dollars.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TokenCaps {
    /// In one action.
    pub once: Option<Micros>,
    /// In any 24 hours.
    pub day: Option<Micros>,
}

/// How many times `max_gas_usd` the gas of a day's revocations may cost.
pub const REVOCATIONS_A_DAY: u64 = 5;

/// Everything the ledger enforces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caps {
    /// On what is spent, in all tokens together.
    pub spend: Vec<SpendCap>,
    /// On single tokens.
    pub tokens: BTreeMap<TokenKey, TokenCaps>,
    /// Trades in any 60 minutes, above which exits are asked about and everything else is refused.
    pub trades_per_hour: u32,
    /// Revocations, cancellations and refunds of one account in any 60 minutes.
    pub revocations_per_hour: u32,
    /// Dollars that the gas of one account's revocations, cancellations and refunds may cost in any 24 hours.
    pub revocations_per_day: Option<Micros>,
    /// Calls of one caller in any 60 seconds.
    pub calls_per_minute: u32,
    /// Between one trade and the next, in milliseconds.
    pub cooldown: u64,
    /// Failures in a row that open the breaker.
    pub failures: u32,
    /// How long it stays open before one trial, in milliseconds.
    pub cool_off: u64,
    /// How far the portfolio may fall below its highest.
    pub stop_loss: BasisPoints,
}

/// What one action wants to take out of the limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// All that counts as spent, gas included.
    pub spend: Micros,
    /// The part of it in each token.
    pub tokens: BTreeMap<TokenKey, Micros>,
    /// Whether it counts as a trade: anything but taking allowances and orders back.
    pub trade: bool,
    /// Whether it only revokes, cancels or refunds. No cap on dollars and no limit on trades applies to it, but a rate of
    /// its own; its gas is recorded all the same.
    pub takes_back: bool,
    /// Whether the operator's own hand acts: then the rate of revocations asks instead of refusing.
    pub by_operator: bool,
    /// Whether it is a fair exit: then caps on dollars and the rate of trades ask the operator instead of refusing.
    pub exit: bool,
    /// What a fair exit sells, in full, by token; nothing for everything else.
    pub sold: BTreeMap<TokenKey, Micros>,
    /// Whether the operator was asked about what an exit exceeds.
    pub asked: bool,
    /// What a trade gives, in dollars; zero for everything that is no trade. Only such a success closes the failure
    /// breaker.
    pub traded: Micros,
    /// Whether it is exempt from stop-loss, breaker and cooldown: an exit, a revocation or a
    /// cancellation, as the simulation found it.
    pub exempt: bool,
    /// What the account holds, in dollars.
    pub equity: Micros,
}

impl Request {
    /// The same with what is on its way over bridges among what is held. More than can be counted is left out.
    #[must_use]
    pub fn with_away(self, away: Micros) -> Self {
        let equity = self.equity.plus(away).unwrap_or(self.equity);
        Self { equity, ..self }
    }
}

impl Caps {
    /// Every cap on dollars that `request` exceeds; of those over one span only the lowest, since what passes it passes
    /// the others. For an exit they are a question to the operator, and otherwise a refusal.
    pub fn exceeded(&self, usage: &Usage, request: &Request) -> Vec<Violation> {
        let mut found = Vec::new();
        if request.takes_back {
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
            let limit = format!("{} {}{}", cap.limit, cap.span.words(), share.unwrap_or_default());
            let left = cap.limit.less(before);
            let (value, would_pass) = if cap.span == Span::Once {
                (request.spend.to_string(), format!("at most {left}"))
            } else {
                let value = format!("{} on top of {before} already spent or reserved", request.spend);
                (value, format!("at most {left} now{}", usage.frees(cap.span)))
            };
            let of_window = usage.window(cap.span).frees_at.filter(|_| cap.span != Span::Once);
            let figures =
                dollars(cap.limit, before, request.spend).freeing_in(of_window.map(|at| seconds(at, usage.now)));
            found.push(Violation::new(cap.rule, limit, value, would_pass).with(figures));
        }
        for (key, spend) in &request.tokens {
            let Some(caps) = self.tokens.get(key) else { continue };
            let before = usage.tokens.get(key).copied().unwrap_or_default();
            for (limit, span, before) in [(caps.once, Span::Once, Micros::ZERO), (caps.day, Span::Day, before)] {
                let Some(limit) = limit else { continue };
                if before.plus(*spend).is_ok_and(|after| after <= limit) {
                    continue;
                }
                found.push(
                    Violation::new(
                        Rule::token_caps(&token_name(*key)),
                        format_args!("{limit} {}", span.words()),
                        format_args!("{spend} on top of {before}"),
                        format_args!("at most {} of this token now", limit.less(before)),
                    )
                    .with(dollars(limit, before, *spend)),
                );
            }
        }
        found
    }

    /// The rate of revocations, cancellations and refunds, where one more exceeds it. For the operator's own hand it is
    /// a question, and otherwise a refusal.
    pub fn revocation_rate(&self, usage: &Usage) -> Option<Violation> {
        (usage.revocations_hour >= self.revocations_per_hour).then(|| {
            Violation::new(
                RuleName::MaxRevocationsPerHour,
                format_args!("{} in any 60 minutes", self.revocations_per_hour),
                format_args!("{} were made", usage.revocations_hour),
                match usage.revocation_frees_at {
                    Some(at) if self.revocations_per_hour > 0 => {
                        format!(
                            "the next one in {}, or one by the operator's own hand now",
                            seconds_until(at, usage.now)
                        )
                    }
                    _ => "one by the operator's own hand".to_owned(),
                },
            )
            .with(
                Figures::new(FigureUnit::Count, self.revocations_per_hour, usage.revocations_hour.saturating_add(1))
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

    /// The gas of a day's revocations, cancellations and refunds, where `request` exceeds it. For the operator's own hand it
    /// is a question, and otherwise a refusal.
    pub fn revocation_gas(&self, usage: &Usage, request: &Request) -> Option<Violation> {
        let most = self.revocations_per_day.filter(|_| request.takes_back)?;
        let before = usage.revocations_day;
        (!before.plus(request.spend).is_ok_and(|after| after <= most)).then(|| {
            Violation::new(
                RuleName::MaxGasUsd,
                format_args!("{most} of gas for revocations in any 24 hours, {REVOCATIONS_A_DAY} times max_gas_usd"),
                format_args!("{} on top of {before}", request.spend),
                "one by the operator's own hand, or the same within a day",
            )
            .with(dollars(most, before, request.spend))
        })
    }

    /// What exits may sell in any 24 hours before the operator is asked, where an exit of a Golem exceeds it: as much, in
    /// full, as may be spent in a day. A recorded liquidation is the operator's decision already.
    pub fn exit_volume(&self, usage: &Usage, request: &Request) -> Option<Violation> {
        let cap = self.spend.iter().filter(|cap| cap.span == Span::Day).min_by_key(|cap| cap.limit)?;
        if !request.exit || request.by_operator {
            return None;
        }
        let mut sold = request.sold.iter().filter(|((_, token), _)| !usage.liquidating.contains(token));
        let sold = sold.try_fold(Micros::ZERO, |sum, (_, part)| sum.plus(*part)).unwrap_or(Micros::MAX);
        let before = usage.exits_day;
        if sold == Micros::ZERO || before.plus(sold).is_ok_and(|after| after <= cap.limit) {
            return None;
        }
        Some(
            Violation::new(
                cap.rule,
                format_args!("{} sold by exits in any 24 hours without asking", cap.limit),
                format_args!("{sold} on top of {before}"),
                format_args!("at most {} now, or the same with the operator's approval", cap.limit.less(before)),
            )
            .with(dollars(cap.limit, before, sold)),
        )
    }

    /// The rate of trades, where one more exceeds it. For a fair exit it is a question to the operator, for one by the
    /// operator's own hand nothing, and for everything else a refusal.
    pub fn trade_rate(&self, usage: &Usage) -> Option<Violation> {
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
                Figures::new(FigureUnit::Count, self.trades_per_hour, usage.trades_hour.saturating_add(1))
                    .leaving(0)
                    .freeing_in(
                        usage.trade_frees_at.filter(|_| self.trades_per_hour > 0).map(|at| seconds(at, usage.now)),
                    ),
            )
        })
    }

    /// Every other limit on how often that stands against an action: a trade or none, exempt from the cooldown or not.
    pub fn against_rate(&self, usage: &Usage, trade: bool, exempt: bool) -> Vec<Violation> {
        let mut found = Vec::new();
        if usage.calls_minute > self.calls_per_minute {
            found.push(
                Violation::new(
                    RuleName::MaxToolCallsPerMinute,
                    format_args!("{} in any 60 seconds", self.calls_per_minute),
                    format_args!("{}, with this one", usage.calls_minute),
                    "the same call within a minute",
                )
                .with(Figures::new(FigureUnit::Count, self.calls_per_minute, usage.calls_minute).leaving(0)),
            );
        }
        if let Some(last) = usage.last_trade.filter(|_| trade && !exempt) {
            let free = last.saturating_add(self.cooldown);
            if usage.now < free {
                found.push(
                    Violation::new(
                        RuleName::CooldownSeconds,
                        format_args!("{} s between trades", self.cooldown / 1_000),
                        format_args!("{} s after the last one", usage.now.saturating_sub(last) / 1_000),
                        format_args!("the same in {}, or an exit now", seconds_until(free, usage.now)),
                    )
                    .with(
                        Figures::new(
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

    /// Every loss or row of failures that stands against `request`.
    pub fn against_losses(&self, usage: &Usage, request: &Request) -> Vec<Violation> {
        let mut found = Vec::new();
        if request.exempt {
            return found;
        }
        let highest = usage.high_water.max(request.equity);
        // Compared without division: fallen ≥ stop_loss · highest.
        let fallen = u128::from(highest.less(request.equity).get()) * 10_000;
        if fallen >= u128::from(highest.get()) * u128::from(self.stop_loss.get()) && fallen > 0 {
            let stops = highest.less(highest.share(self.stop_loss));
            found.push(
                Violation::new(
                    RuleName::StopLossPct,
                    format_args!("{} % below the highest, {highest}: stops at {stops}", percent(self.stop_loss)),
                    request.equity.to_string(),
                    "exits, until the portfolio has recovered or the operator sets a new mark",
                )
                .with(Figures::new(FigureUnit::Usd, stops.dollars(), request.equity.dollars())),
            );
        }
        match usage.breaker {
            Breaker::Closed { .. } | Breaker::HalfOpen => {}
            Breaker::Open { until, failures } => found.push(
                Violation::new(
                    RuleName::MaxConsecutiveFailures,
                    format_args!("{} in a row", self.failures),
                    format_args!("{failures} in a row"),
                    format_args!("one trial in {}, or an exit now", seconds_until(until, usage.now)),
                )
                .with(
                    Figures::new(FigureUnit::Count, self.failures, failures)
                        .freeing_in(Some(seconds(until, usage.now))),
                ),
            ),
            Breaker::Trial => found.push(Violation::new(
                RuleName::MaxConsecutiveFailures,
                "one trial at a time after a cool-off",
                "a trial is under way",
                "the same once the trial has succeeded, or an exit now",
            )),
        }
        found
    }

    /// Everything that stands against `request`, apart from what the operator has been asked about before. Two exits may
    /// each have been within a limit when they were checked: the second one is refused here, and asks when it is repeated.
    pub fn against(&self, usage: &Usage, request: &Request) -> Vec<Violation> {
        let asked = request.exit && request.asked;
        let mut found = if asked { Vec::new() } else { self.exceeded(usage, request) };
        if !asked {
            found.extend(self.exit_volume(usage, request));
        }
        if request.trade && !asked && !(request.exit && request.by_operator) {
            found.extend(self.trade_rate(usage));
        }
        found.extend(self.against_rate(usage, request.trade, request.exempt));
        if request.takes_back && !request.by_operator {
            found.extend(self.revocation_rate(usage));
            found.extend(self.revocation_gas(usage, request));
        }
        found.extend(self.against_losses(usage, request));
        found
    }
}

/// A token as the policy file writes it: `8453:0x…` or `8453:native`.
pub fn token_name((chain_id, token): TokenKey) -> String {
    match token {
        TokenId::Native => format!("{chain_id}:native"),
        TokenId::Erc20(address) => format!("{chain_id}:{address}"),
    }
}

/// Hundredths of a percent as percent, without trailing zeros.
pub(crate) fn percent(share: BasisPoints) -> String {
    let (whole, fraction) = (share.get() / 100, share.get() % 100);
    let text = format!("{whole}.{fraction:02}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn seconds_until(at: u64, now: u64) -> String {
    format!("{} s", seconds(at, now))
}

/// Seconds from `now` to `at`, both in milliseconds, rounded up.
fn seconds(at: u64, now: u64) -> u64 {
    at.saturating_sub(now).div_ceil(1_000)
}

/// Figures of a limit on dollars of which `before` is used when `spend` more is asked for.
fn dollars(limit: Micros, before: Micros, spend: Micros) -> Figures {
    // Past what can be counted it is above every limit all the same.
    let value = before.plus(spend).unwrap_or(Micros::MAX);
    Figures::new(FigureUnit::Usd, limit.dollars(), value.dollars()).leaving(limit.less(before).dollars())
}
