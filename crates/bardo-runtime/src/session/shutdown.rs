//! Shutdown after the Golem's death: open orders are cancelled, allowances are revoked, the Golem's keys are revoked,
//! and its holdings are sold on devnets or the operator is asked.
//!
//! A plain key has no session key on chain that could be revoked: its allowances are the only authority it leaves
//! behind. The owner's key stays the owner's.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use alloy::primitives::Address;
use serde_json::json;

use super::prompts::Own;
use super::selling::Cause;
use super::state::SessionState;
use bardo_base::fabric::{EventKind, GolemThought};
use bardo_base::model::{OnDeath, Phase};
use bardo_base::text::SafeText;
use bardo_safety::Revoked;
use bardo_safety::audit::{AuditLog, Kind, Note};
use bardo_sandbox::contracts::PERMIT2;
use bardo_session::market::Money;
use golem::memory::Memory;
use golem_tools::engine::{Call, Input, Status, WriteTool};
use golem_tools::trading::token_revoke::{self, TokenRevoke};

/// Timeout for transactions that are pending at the death, per chain.
const ON_ITS_WAY: Duration = Duration::from_secs(60);

/// Polling interval for the death, with simulated time.
const LOOK: Duration = Duration::from_secs(1);

/// Waits for the Golem's death, then winds up its affairs.
pub(super) async fn follow(state: Arc<SessionState>, on_death: OnDeath) {
    let mut phase = state.links.phase_now.clone();
    // Registered from the beginning, so that the time of its reaction in a scenario does not depend on the speed of the
    // machine.
    let _attendance = state.sources.clock.attend();
    if state.has_own_time {
        while *phase.borrow() != Phase::Terminal {
            state.sources.clock.pause(LOOK).await;
        }
    } else if phase.wait_for(|phase| *phase == Phase::Terminal).await.is_err() {
        return;
    }
    // The session must not end before this is done.
    state.control.running.fetch_add(1, Ordering::SeqCst);
    state.wind_up_once(on_death).await;
    state.control.running.fetch_sub(1, Ordering::SeqCst);
}

/// Treatment of the holdings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holdings {
    Stay,
    AreSold,
    /// The operator is asked.
    AreAskedFor,
}

/// Treatment of the holdings by the operator's setting. Except for play money, nothing is sold without approval.
fn at_death(on_death: OnDeath, money: Money) -> Holdings {
    match on_death {
        OnDeath::Keep => Holdings::Stay,
        OnDeath::Ask => Holdings::AreAskedFor,
        OnDeath::Sell => match money {
            Money::Play => Holdings::AreSold,
            // A rehearsal asks where the live network would ask.
            Money::Rehearsal | Money::Test | Money::Real | Money::Paper | Money::Replay => Holdings::AreAskedFor,
        },
    }
}

/// Result of revoking allowances.
#[derive(Debug, Clone, Copy)]
struct Allowances {
    taken_back: usize,
    /// Remaining allowances according to the chains; `None` if a chain did not answer.
    left: Option<Left>,
}

/// Allowances that remain, counted.
#[derive(Debug, Clone, Copy)]
struct Left {
    standing: usize,
    /// Number of tokens that did not answer.
    silent: usize,
}

/// Last message of the Golem: its completed and its failed steps.
fn last_words(revoked: bool, orders_left: usize, allowances: Allowances) -> String {
    let keys = if revoked { "My keys are revoked: I sign nothing more." } else { "I had no key and sign nothing." };
    let orders = match orders_left {
        0 => "I have no open orders.".to_owned(),
        left => format!("{left} of my orders could not be cancelled and can still fill."),
    };
    let stands = match allowances.left {
        Some(Left { standing: 0, silent: 0 }) => "none remain".to_owned(),
        Some(Left { standing, silent: 0 }) => format!("{standing} remain"),
        Some(Left { standing, silent }) => {
            format!("{standing} remain, and {silent} tokens could not be checked")
        }
        None => "the remaining ones could not be read".to_owned(),
    };
    format!("{keys} {orders} {} allowances were revoked, {stands}.", allowances.taken_back)
}

impl SessionState {
    /// Winds up its affairs once. Afterwards the account's holdings, allowances and orders are its owner's concern.
    async fn wind_up_once(&self, on_death: OnDeath) {
        let memory = Memory::new(self.sources.ledger.store.clone(), self.golem_id.clone());
        match memory.life(&*self.sources.clock).await {
            Ok(life) if life.wound_up_at.is_some() => return,
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "unknown whether the wind-up was done before; doing it now"),
        }
        self.wind_up(on_death).await;
        // A dead Golem's memory is not updated any more, so the outcome of pending orders is stored here.
        if let Err(error) = memory.hear_of_ends(self.sources.clock.now_millis()).await {
            tracing::warn!(%error, "cannot store the outcomes of the last orders in memory");
        }
        if let Err(error) = memory.wound_up(self.sources.clock.now_millis()).await {
            tracing::warn!(%error, "cannot record that the wind-up is complete");
        }
    }

    /// Waits until no transaction of the account is pending: a plan that has lost its key may just have granted an
    /// allowance.
    async fn settle_down(&self) {
        let (Some(pipeline), Some(account)) = (&self.sources.pipeline, self.sources.world.account) else { return };
        for chain in self.sources.world.chains() {
            if let Err(refusal) = pipeline.turn(chain.network().chain_id, account, ON_ITS_WAY).await {
                self.stats()
                    .remark(&format!("actions in flight at the Golem's death did not settle: {}", refusal.message));
            }
        }
    }

    async fn wind_up(&self, on_death: OnDeath) {
        if let Some(revocation) = &self.control.revocation {
            revocation.revoke(Revoked::Death);
        }
        let revoked = self.control.revocation.is_some();
        self.settle_down().await;
        let orders = self.take_orders_back(Some(&self.golem_id)).await;
        let allowances = self.take_allowances_back().await;
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
        let note = Note { kind: Kind::GolemDied, call_id: None, golem_id: self.golem_id.clone(), body };
        if let Err(error) = audit_log.record(note).await {
            tracing::warn!(%error, "cannot record the death in the audit log");
        }
        self.tell_last(&last_words(revoked, orders.open, allowances));
        for words in &orders.locked {
            self.tell_last(words);
        }
        match at_death(on_death, self.sources.network.money) {
            Holdings::Stay => {}
            Holdings::AreSold => self.sell_all(Cause::Death).await,
            Holdings::AreAskedFor => self.control.own.ask(Own::SellAfterDeath, self.sources.clock.now_millis()),
        }
    }

    pub(super) fn tell_last(&self, words: &str) {
        let text = SafeText::clean(words, 400);
        self.emit(None, EventKind::GolemThought(GolemThought { thought: 0, text, more: false }));
    }

    /// Revokes every allowance, as calls of the operator.
    async fn take_allowances_back(&self) -> Allowances {
        let Some(standing) = self.read_allowances().await else {
            self.stats().remark("cannot read allowances at the Golem's death: check for open ones and revoke them");
            return Allowances { taken_back: 0, left: None };
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
                self.sources.operator.call(Call::new(TokenRevoke::META.name, Input::Json(json!(params)))).await;
            match response.status {
                Status::Success => taken_back += 1,
                Status::Partial | Status::Simulated | Status::Blocked | Status::Rejected | Status::Error => {
                    let why = response.error.map(|error| error.message().to_owned()).unwrap_or_default();
                    self.stats().remark(&format!("an allowance of {token} was not fully revoked: {why}"));
                }
            }
        }
        let left = self.read_allowances().await;
        let left = left.map(|now| Left { standing: now.rows.len(), silent: now.silent.len() });
        Allowances { taken_back, left }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_sold_without_a_decision_where_the_money_is_not_for_play() {
        for (on_death, play, elsewhere) in [
            (OnDeath::Ask, Holdings::AreAskedFor, Holdings::AreAskedFor),
            (OnDeath::Sell, Holdings::AreSold, Holdings::AreAskedFor),
            (OnDeath::Keep, Holdings::Stay, Holdings::Stay),
        ] {
            assert_eq!(at_death(on_death, Money::Play), play, "{on_death}");
            for money in [Money::Test, Money::Real, Money::Paper, Money::Replay] {
                assert_eq!(at_death(on_death, money), elsewhere, "{on_death} {money:?}");
            }
        }
    }
}
