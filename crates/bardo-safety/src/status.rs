//! How the operator's rules stand: every limit with what is used and left of it, for whoever asks before acting.
//! Nothing here decides anything; the checks read the same ledger again.

use alloy::primitives::{Address, B256};

use super::ledger::{self, Breaker, LedgerError, Micros, Span, SpendCap, TokenKey, Usage, Window, token_name};
use super::operator::OperatorRules;
use super::policy::{Change, Pending, Policy};
use super::stop::InForce;
use bardo_base::id::GolemId;
use bardo_base::model::{Phase, Rule};
use bardo_base::units::BasisPoints;
use bardo_store::Store;

/// How the rules stand for one account on one chain.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    /// The stop file, as it is now.
    pub stop: InForce,
    /// The phase it is told for.
    pub phase: Phase,
    /// The policy's name.
    pub policy: String,
    /// Counts its changes in this program, from 1.
    pub policy_version: u64,
    /// Names it exactly.
    pub policy_hash: B256,
    /// What a looser policy would change, while one waits for a decision.
    pub waiting: Option<Vec<Change>>,
    /// Every cap on dollars.
    pub caps: Vec<CapStatus>,
    /// Trades in any 60 minutes.
    pub trades: CountStatus,
    /// Calls in any 60 seconds.
    pub calls: CountStatus,
    /// Milliseconds until the next trade may begin; exits do not wait.
    pub cooldown_left: u64,
    /// What failures in a row have come to.
    pub breaker: Breaker,
    /// Failures in a row that open it.
    pub breaker_limit: u32,
    /// The most the account was worth; zero where nothing has been seen of it.
    pub high_water: Micros,
    /// From which value on the stop-loss lets only exits pass.
    pub stops_at: Micros,
    /// How far below the highest that is.
    pub stop_loss: BasisPoints,
}

/// A cap on dollars.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapStatus {
    /// The policy's field.
    pub rule: Rule,
    /// Over which time.
    pub span: Span,
    /// The most.
    pub limit: Micros,
    /// Spent or reserved; nothing for one action.
    pub used: Micros,
    /// What is left.
    pub left: Micros,
    /// Milliseconds until some of it is free again; `None` where that is not known, or nothing is used.
    pub frees_in: Option<u64>,
}

/// A limit on how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountStatus {
    /// The most.
    pub limit: u32,
    /// Made.
    pub used: u32,
    /// What is left.
    pub left: u32,
}

impl CountStatus {
    fn of(limit: u32, used: u32) -> Self {
        Self { limit, used, left: limit.saturating_sub(used) }
    }
}

impl OperatorRules {
    /// How the rules stand for `account` on a chain, in `phase`, with the calls of `caller`.
    ///
    /// # Errors
    /// [`LedgerError`]: then nothing is known of what is left, and nothing is signed either.
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
