//! Shutdown after the Golem's death: open orders are cancelled, allowances are revoked, the Golem's keys are revoked,
//! and its holdings are sold on devnets or the operator is asked.
//!
//! A plain key has no session key on chain that could be revoked: its allowances are the only authority it leaves
//! behind. The owner's key stays the owner's.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::Address;
use serde_json::json;

use super::prompts::PromptSubject;
use super::selling::SaleCause;
use super::state::SessionState;
use bardo_base::fabric::{EventKind, GolemThought};
use bardo_base::format::counted;
use bardo_base::model::{OnDeath, Phase, StopLevel};
use bardo_base::text::SafeText;
use bardo_safety::RevocationCause;
use bardo_safety::audit::{AuditKind, AuditLog, AuditNote};
use bardo_sandbox::contracts::PERMIT2;
use bardo_session::market::MoneyKind;
use golem::memory::Memory;
use golem_tools::engine::{CallStatus, ToolCall, ToolInput, WriteTool};
use golem_tools::trading::token_revoke::{self, TokenRevoke};

/// Timeout for transactions that are pending at the death, per chain.
const ON_ITS_WAY: Duration = Duration::from_secs(60);

/// Polling interval for the death, with simulated time.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Waits for the Golem's death, then winds up its affairs.
pub(super) async fn follow(state: Arc<SessionState>, on_death: OnDeath) {
    let mut phase = state.links.phase_now.clone();
    // Registered from the beginning, so that the time of its reaction in a scenario does not depend on the speed of the
    // machine.
    let _attendance = state.sources.clock.attend();
    if state.has_own_time {
        while *phase.borrow() != Phase::Terminal {
            state.sources.clock.pause(POLL_INTERVAL).await;
        }
    } else if phase.wait_for(|phase| *phase == Phase::Terminal).await.is_err() {
        return;
    }
    // The session must not end before this is done.
    let _task = state.control.running.begin();
    state.settle_affairs_once(on_death).await;
}

/// Treatment of the holdings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HoldingsAtDeath {
    Stay,
    AreSold,
    /// The operator is asked.
    AreAskedFor,
}

/// Treatment of the holdings by the operator's setting. Except for play money, nothing is sold without approval.
fn at_death(on_death: OnDeath, money: MoneyKind) -> HoldingsAtDeath {
    match on_death {
        OnDeath::Keep => HoldingsAtDeath::Stay,
        OnDeath::Ask => HoldingsAtDeath::AreAskedFor,
        OnDeath::Sell => match money {
            MoneyKind::Play => HoldingsAtDeath::AreSold,
            // A rehearsal asks where the live network would ask.
            MoneyKind::Rehearsal | MoneyKind::Test | MoneyKind::Real | MoneyKind::Paper | MoneyKind::Replay => {
                HoldingsAtDeath::AreAskedFor
            }
        },
    }
}

/// Result of revoking allowances.
#[derive(Debug, Clone, Copy)]
struct RevokedAllowances {
    taken_back: usize,
    /// Remaining allowances according to the chains; `None` if a chain did not answer.
    left: Option<RemainingAllowances>,
}

/// Allowances that remain, counted.
#[derive(Debug, Clone, Copy)]
struct RemainingAllowances {
    standing: usize,
    /// Number of tokens that did not answer.
    silent: usize,
}

/// Last message of the Golem: its completed and its failed steps.
fn last_words(revoked: bool, flattens: bool, orders_left: usize, allowances: RevokedAllowances) -> String {
    let keys = if revoked { "My keys are revoked: I sign nothing more." } else { "I had no key and sign nothing." };
    let sales = if flattens { " The flatten is in force: its sales are the operator's, not mine." } else { "" };
    let orders = match orders_left {
        0 => "I have no open orders.".to_owned(),
        left => format!("{left} of my orders could not be cancelled and can still fill."),
    };
    let stands = match allowances.left {
        Some(RemainingAllowances { standing: 0, silent: 0 }) => "none remain".to_owned(),
        Some(RemainingAllowances { standing, silent: 0 }) => format!("{standing} remain"),
        Some(RemainingAllowances { standing, silent }) => {
            let silent = counted(u64::try_from(silent).unwrap_or(u64::MAX), "token", "tokens");
            format!("{standing} remain, and {silent} could not be checked")
        }
        None => "the remaining ones could not be read".to_owned(),
    };
    format!("{keys}{sales} {orders} {} allowances were revoked, {stands}.", allowances.taken_back)
}

impl SessionState {
    /// Winds up its affairs once. Afterwards the account's holdings, allowances and orders are its owner's concern.
    async fn settle_affairs_once(&self, on_death: OnDeath) {
        if self.is_unconfirmed_copy() {
            // Done by a session after the confirmation: the other copy may trade with these orders and allowances.
            self.stats().remark("this restored copy winds nothing up: the copy that it was made from may still run");
            return;
        }
        let memory = Memory::new(self.sources.ledger.store.clone(), self.golem_id.clone());
        match memory.life(&*self.sources.clock).await {
            Ok(life) if life.wound_up_at.is_some() => return,
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "unknown whether the wind-up was done before; doing it now"),
        }
        self.settle_affairs(on_death).await;
        // A dead Golem's memory is not updated any more, so the outcome of pending orders is stored here.
        if let Err(error) = memory.record_ends(self.sources.clock.now_millis()).await {
            tracing::warn!(%error, "cannot store the outcomes of the last orders in memory");
        }
        if let Err(error) = memory.mark_shut_down(self.sources.clock.now_millis()).await {
            tracing::warn!(%error, "cannot record that the wind-up is complete");
        }
    }

    /// Waits until no transaction of the account is pending: a plan that has lost its key may just have granted an
    /// allowance.
    async fn settle_down(&self) {
        let (Some(pipeline), Some(account)) = (&self.sources.pipeline, self.sources.world.account) else { return };
        for chain in self.sources.world.chains() {
            if let Err(refusal) = pipeline.lock_account(chain.network().chain_id, account, ON_ITS_WAY).await {
                self.stats()
                    .remark(&format!("actions in flight at the Golem's death did not settle: {}", refusal.message));
            }
        }
    }

    async fn settle_affairs(&self, on_death: OnDeath) {
        if let Some(revocation) = &self.control.revocation {
            revocation.revoke(RevocationCause::Death);
        }
        let revoked = self.control.revocation.is_some();
        self.settle_down().await;
        let orders = self.unwind_orders(Some(&self.golem_id)).await;
        let allowances = self.revoke_allowances().await;
        let body = json!({
            "keys": if revoked { "revoked" } else { "none" },
            "orders_left_open": orders.open,
            "bridges_locked": orders.locked.len(),
            "allowances_taken_back": allowances.taken_back,
            "allowances_left": allowances.left.map(|left| left.standing),
            "tokens_silent": allowances.left.map(|left| left.silent),
            "on_death": on_death,
        });
        let audit_log = AuditLog::new(self.sources.ledger.store.clone(), self.sources.clock.clone());
        let note = AuditNote { kind: AuditKind::GolemDied, call_id: None, golem_id: self.golem_id.clone(), body };
        if let Err(error) = audit_log.record(note).await {
            tracing::warn!(%error, "cannot record the death in the audit log");
        }
        self.send_last_words(&last_words(revoked, self.flattens(), orders.open, allowances));
        for words in &orders.locked {
            self.report(words);
        }
        let treatment = at_death(on_death, self.sources.network.money);
        // A sale repays and withdraws first, and tells what stays.
        if let Some(account) = self.sources.world.account.filter(|_| treatment != HoldingsAtDeath::AreSold) {
            for words in self.vaults_left(account).await.into_iter().chain(self.lending_left(account).await) {
                self.report(&words);
            }
        }
        match treatment {
            HoldingsAtDeath::Stay => {}
            HoldingsAtDeath::AreSold => drop(self.sell_all(SaleCause::Death).await),
            // Under a flatten its holdings are sold already, or the operator is asked about that.
            HoldingsAtDeath::AreAskedFor if self.flattens() => {}
            HoldingsAtDeath::AreAskedFor => {
                self.control.own.ask(PromptSubject::SellAfterDeath, self.sources.clock.now_millis())
            }
        }
    }

    fn flattens(&self) -> bool {
        self.control.stop_watch.file.read().level() == Some(StopLevel::Flatten)
    }

    pub(super) fn send_last_words(&self, words: &str) {
        let text = SafeText::clean(words, 400);
        self.emit(None, EventKind::GolemThought(GolemThought { thought: 0, text, more: false, report: false }));
    }

    /// Reports what the program did or found for the account, beside the Golem's own words.
    pub(super) fn report(&self, words: &str) {
        let text = SafeText::clean(words, 400);
        self.emit(None, EventKind::GolemThought(GolemThought { thought: 0, text, more: false, report: true }));
    }

    /// Revokes every allowance, as calls of the operator.
    async fn revoke_allowances(&self) -> RevokedAllowances {
        let Some(standing) = self.read_allowances().await else {
            self.stats().remark("cannot read allowances at the Golem's death: check for open ones and revoke them");
            return RevokedAllowances { taken_back: 0, left: None };
        };
        let mut all: BTreeSet<(u64, Address, Option<Address>)> = BTreeSet::new();
        for one in &standing.rows {
            let by_itself = !one.through_permit2 && one.spender != PERMIT2;
            all.insert((one.chain_id, one.token, by_itself.then_some(one.spender)));
        }
        let mut taken_back = 0;
        for (chain_id, token, spender) in all {
            let params = token_revoke::Params {
                token: token.to_string(),
                spender: spender.map(|spender| spender.to_string()),
                chain: chain_id.to_string(),
            };
            let response =
                self.sources.operator.call(ToolCall::new(TokenRevoke::META.name, ToolInput::Json(json!(params)))).await;
            match response.status {
                CallStatus::Success => taken_back += 1,
                CallStatus::Partial
                | CallStatus::Simulated
                | CallStatus::Blocked
                | CallStatus::Rejected
                | CallStatus::Error => {
                    let why = response.error.map(|error| error.message().to_owned()).unwrap_or_default();
                    self.stats().remark(&format!("an allowance of {token} was not fully revoked: {why}"));
                }
            }
        }
        let left = self.read_allowances().await;
        let left = left.map(|now| RemainingAllowances { standing: now.rows.len(), silent: now.silent.len() });
        RevokedAllowances { taken_back, left }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_message_says_whose_the_sales_of_a_flatten_are() {
        let none = RevokedAllowances { taken_back: 0, left: Some(RemainingAllowances { standing: 0, silent: 0 }) };
        let orders = "I have no open orders. 0 allowances were revoked, none remain.";
        assert_eq!(last_words(true, false, 0, none), format!("My keys are revoked: I sign nothing more. {orders}"));
        assert_eq!(
            last_words(true, true, 0, none),
            format!(
                "My keys are revoked: I sign nothing more. The flatten is in force: its sales are the operator's, not mine. \
                 {orders}"
            )
        );
    }

    #[test]
    fn real_money_is_sold_only_after_a_decision() {
        for (on_death, play, elsewhere) in [
            (OnDeath::Ask, HoldingsAtDeath::AreAskedFor, HoldingsAtDeath::AreAskedFor),
            (OnDeath::Sell, HoldingsAtDeath::AreSold, HoldingsAtDeath::AreAskedFor),
            (OnDeath::Keep, HoldingsAtDeath::Stay, HoldingsAtDeath::Stay),
        ] {
            assert_eq!(at_death(on_death, MoneyKind::Play), play, "{on_death}");
            for money in [MoneyKind::Test, MoneyKind::Real, MoneyKind::Paper, MoneyKind::Replay] {
                assert_eq!(at_death(on_death, money), elsewhere, "{on_death} {money:?}");
            }
        }
    }
}
