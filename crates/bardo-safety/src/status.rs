//! Usage of the operator's rules: every limit with its used and remaining part, for display. It decides nothing; the
//! checks read the same ledger again.

use alloy::primitives::{Address, B256};

use super::ledger::{
    self, CapPeriod, FailureBreaker, LedgerError, LedgerUsage, MicroUsd, SpendCap, SpendWindow, TokenKey, token_name,
};
use super::operator_policy::OperatorPolicyEngine;
use super::policy::{FieldChange, PendingPolicy, Policy};
use super::stop::ActiveStop;
use bardo_base::id::GolemId;
use bardo_base::model::{Phase, Rule};
use bardo_base::units::BasisPoints;
use bardo_store::Store;

/// Usage of the rules by one account on one chain.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleStatus {
    /// Stop in force, as read from the stop file.
    pub stop: ActiveStop,
    /// Phase that the limits are computed for.
    pub phase: Phase,
    /// Display name of the policy.
    pub policy: String,
    /// Number of the policy in this process, from 1; each change increments it.
    pub policy_version: u64,
    /// Hash of the policy's rules.
    pub policy_hash: B256,
    /// Changes in the looser policy that waits for a decision; `None` if none waits.
    pub waiting: Option<Vec<FieldChange>>,
    /// Every cap in dollars.
    pub caps: Vec<CapStatus>,
    /// Limit on trades in any 60 minutes.
    pub trades: CountStatus,
    /// Limit on calls in any 60 seconds.
    pub calls: CountStatus,
    /// Time until the next trade may begin, in milliseconds. Exits need not wait.
    pub cooldown_left: u64,
    /// State of the failure breaker.
    pub breaker: FailureBreaker,
    /// Number of consecutive failures that opens the failure breaker.
    pub breaker_limit: u32,
    /// High-water mark of the account on the chain; `None` until its holdings there were read. A mark of arrivals alone
    /// says nothing of what it held before them.
    pub high_water: Option<MicroUsd>,
    /// Value from which the stop-loss lets only exits pass; `None` without a mark.
    pub stops_at: Option<MicroUsd>,
    /// Stop-loss distance below the high-water mark.
    pub stop_loss: BasisPoints,
}

/// Usage of one cap in dollars.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapStatus {
    /// Policy field of the cap.
    pub rule: Rule,
    /// Time span of the cap.
    pub span: CapPeriod,
    /// Maximum spending in the span.
    pub limit: MicroUsd,
    /// Spent or reserved in the span; zero for a cap on one action.
    pub used: MicroUsd,
    /// Remaining spending in the span.
    pub left: MicroUsd,
    /// Milliseconds until part of the usage leaves the window; `None` if that is not known, or if nothing is used.
    pub frees_in: Option<u64>,
}

/// Usage of one limit on a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountStatus {
    /// Maximum number in the window.
    pub limit: u32,
    /// Number made in the window.
    pub used: u32,
    /// Remaining number in the window.
    pub left: u32,
}

impl CountStatus {
    fn of(limit: u32, used: u32) -> Self {
        Self { limit, used, left: limit.saturating_sub(used) }
    }
}

impl OperatorPolicyEngine {
    /// Returns the usage of the rules by `account` on a chain in `phase`, and the call rate of `caller`; `now` is in
    /// milliseconds since the Unix epoch.
    ///
    /// # Errors
    /// [`LedgerError`] if the ledger cannot be read; then nothing can be signed either.
    pub fn status(
        &self,
        chain_id: u64,
        account: Address,
        caller: &GolemId,
        phase: Phase,
        now: u64,
    ) -> Result<RuleStatus, LedgerError> {
        let waiting = self.pending().map(|PendingPolicy { changes, .. }| changes);
        let adopted = self.adopted();
        let (usage, high_water) = usage(self.store(), &adopted.policy, (chain_id, account, caller), phase, now)?;
        let high_water = Some(high_water).filter(|mark| *mark > MicroUsd::ZERO);
        let caps = adopted.policy.caps(phase, false);
        let mut told: Vec<CapStatus> = caps.spend.iter().map(|cap| cap_status(cap, &usage)).collect();
        for (key, limits) in &caps.tokens {
            let used = usage.tokens.get(key).copied().unwrap_or_default();
            told.extend(limits.once.map(|limit| token_status(*key, CapPeriod::Once, limit, MicroUsd::ZERO)));
            told.extend(limits.day.map(|limit| token_status(*key, CapPeriod::Day, limit, used)));
        }
        let free = usage.last_trade.map_or(0, |last| last.saturating_add(caps.cooldown));
        Ok(RuleStatus {
            stop: self.stop_in_force(),
            phase,
            policy: adopted.policy.name(),
            policy_version: adopted.version,
            policy_hash: adopted.policy.hash(),
            waiting,
            caps: told,
            trades: CountStatus::of(caps.trades_per_hour, usage.trades_hour),
            calls: CountStatus::of(caps.calls_per_minute, usage.calls_minute),
            cooldown_left: free.saturating_sub(usage.now),
            breaker: usage.breaker,
            breaker_limit: caps.failures,
            high_water,
            stops_at: high_water.map(|mark| mark.less(mark.share(caps.stop_loss))),
            stop_loss: caps.stop_loss,
        })
    }
}

/// Reads the usage, and the observed high-water mark.
fn usage(
    store: &Store,
    policy: &Policy,
    (chain_id, account, caller): (u64, Address, &GolemId),
    phase: Phase,
    now: u64,
) -> Result<(LedgerUsage, MicroUsd), LedgerError> {
    let caps = policy.caps(phase, false);
    store.read(|connection| {
        let used = ledger::usage(connection, now, chain_id, account, caps.tokens.keys(), caps.cool_off)?;
        Ok((used.called_by(connection, caller)?, ledger::observed_high_water(connection, chain_id, account)?))
    })
}

fn cap_status(cap: &SpendCap, usage: &LedgerUsage) -> CapStatus {
    let SpendWindow { spent, frees_at } = usage.window(cap.span);
    CapStatus {
        rule: cap.rule.into(),
        span: cap.span,
        limit: cap.limit,
        used: spent,
        left: cap.limit.less(spent),
        frees_in: frees_at.map(|at| at.saturating_sub(usage.now)),
    }
}

fn token_status(key: TokenKey, span: CapPeriod, limit: MicroUsd, used: MicroUsd) -> CapStatus {
    let rule = Rule::token_caps(&token_name(key));
    CapStatus { rule, span, limit, used, left: limit.less(used), frees_in: None }
}
