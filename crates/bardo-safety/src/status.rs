//! State of the policy engine: every limit with its used and remaining part, for display before acting. Nothing here
//! decides anything; the checks read the same ledger again.

use alloy::primitives::{Address, B256};

use super::ledger::{self, Breaker, LedgerError, Micros, Span, SpendCap, TokenKey, Usage, Window, token_name};
use super::operator::OperatorRules;
use super::policy::{Change, Pending, Policy};
use super::stop::InForce;
use bardo_base::id::GolemId;
use bardo_base::model::{Phase, Rule};
use bardo_base::units::BasisPoints;
use bardo_store::Store;

/// State of the limits for one account on one chain.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    /// Current content of the stop file.
    pub stop: InForce,
    /// Phase that the limits are scaled for.
    pub phase: Phase,
    /// Name of the policy.
    pub policy: String,
    /// Number of policy changes in this process, counted from 1.
    pub policy_version: u64,
    /// Hash of the policy.
    pub policy_hash: B256,
    /// Changes of a looser policy that awaits the operator's decision; `None` if there is none.
    pub waiting: Option<Vec<Change>>,
    /// Dollar limits on spending.
    pub caps: Vec<CapStatus>,
    /// Number of trades in any 60 minutes.
    pub trades: CountStatus,
    /// Number of calls in any 60 seconds.
    pub calls: CountStatus,
    /// Time until the next trade may begin, in milliseconds. Exits need not wait.
    pub cooldown_left: u64,
    /// State of the failure breaker.
    pub breaker: Breaker,
    /// Number of consecutive failures that opens the breaker.
    pub breaker_limit: u32,
    /// High-water mark of the account; zero if it has not been read yet.
    pub high_water: Micros,
    /// Value at which the stop-loss permits only exits.
    pub stops_at: Micros,
    /// Drawdown from the high-water mark that triggers the stop-loss.
    pub stop_loss: BasisPoints,
}

/// Dollar limit with its usage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapStatus {
    /// Policy field that sets the limit.
    pub rule: Rule,
    /// Period to which the limit applies.
    pub span: Span,
    /// Maximum value within the period.
    pub limit: Micros,
    /// Spent or reserved value; zero for a limit on single actions.
    pub used: Micros,
    /// Remaining value within the period.
    pub left: Micros,
    /// Time until some of it is free again, in milliseconds; `None` if it is unknown or nothing is used.
    pub frees_in: Option<u64>,
}

/// Limit on a count, with its usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountStatus {
    /// Maximum count within the period.
    pub limit: u32,
    /// Count within the period so far.
    pub used: u32,
    /// Remaining count within the period.
    pub left: u32,
}

impl CountStatus {
    fn of(limit: u32, used: u32) -> Self {
        Self { limit, used, left: limit.saturating_sub(used) }
    }
}

impl OperatorRules {
    /// Returns the state of the limits for `account` on a chain, in `phase`, with the calls of `caller`.
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
    ) -> Result<Status, LedgerError> {
        let waiting = self.pending().map(|Pending { changes, .. }| changes);
        let adopted = self.adopted();
        let usage = usage(self.store(), &adopted.policy, (chain_id, account, caller), phase, now)?;
        let caps = adopted.policy.caps(phase, false);
        let mut told: Vec<CapStatus> = caps.spend.iter().map(|cap| cap_status(cap, &usage)).collect();
        for (key, limits) in &caps.tokens {
            let used = usage.tokens.get(key).copied().unwrap_or_default();
            told.extend(limits.once.map(|limit| token_status(*key, Span::Once, limit, Micros::ZERO)));
            told.extend(limits.day.map(|limit| token_status(*key, Span::Day, limit, used)));
        }
        let free = usage.last_trade.map_or(0, |last| last.saturating_add(caps.cooldown));
        Ok(Status {
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
            high_water: usage.high_water,
            stops_at: usage.high_water.less(usage.high_water.share(caps.stop_loss)),
            stop_loss: caps.stop_loss,
        })
    }
}

fn usage(
    store: &Store,
    policy: &Policy,
    (chain_id, account, caller): (u64, Address, &GolemId),
    phase: Phase,
    now: u64,
) -> Result<Usage, LedgerError> {
    let caps = policy.caps(phase, false);
    store.read(|connection| {
        let used = ledger::usage(connection, now, chain_id, account, caps.tokens.keys(), caps.cool_off)?;
        used.called_by(connection, caller)
    })
}

fn cap_status(cap: &SpendCap, usage: &Usage) -> CapStatus {
    let Window { spent, frees_at } = usage.window(cap.span);
    CapStatus {
        rule: cap.rule.into(),
        span: cap.span,
        limit: cap.limit,
        used: spent,
        left: cap.limit.less(spent),
        frees_in: frees_at.map(|at| at.saturating_sub(usage.now)),
    }
}

fn token_status(key: TokenKey, span: Span, limit: Micros, used: Micros) -> CapStatus {
    let rule = Rule::token_caps(&token_name(key));
    CapStatus { rule, span, limit, used, left: limit.less(used), frees_in: None }
}
