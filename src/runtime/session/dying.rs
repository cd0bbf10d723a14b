//! What a session does when its Golem has died: open orders are made void, what others may still take is taken back, the
//! Golem's keys are revoked, and what becomes of its holdings is asked, or done where the money is for play.
//!
//! A plain key has no session key on a chain that could be revoked there: standing allowances are all the authority that
//! is left behind, so these are taken back. The owner's key stays the owner's.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use alloy::primitives::Address;
use serde_json::json;

use super::asking::Own;
use super::stage::Stage;
use crate::base::model::{OnDeath, Phase};
use crate::base::text::SafeText;
use crate::engine::{Call, Input, Status};
use crate::fabric::{EventKind, GolemThought};
use crate::runtime::market::model::Money;
use crate::safety::audit::{Note, Trail};
use crate::sandbox::contracts::PERMIT2;

/// What holdings are sold for.
const EXIT: &str = "USDC";

/// What needs no selling.
const EXITS: [&str; 5] = ["USDC", "USDT", "DAI", "ETH", "POL"];

/// Waits for the Golem's death, and then puts its affairs in order.
pub(super) async fn follow(stage: Arc<Stage>, on_death: OnDeath) {
    let mut phase = stage.phase_now.clone();
    if phase.wait_for(|phase| *phase == Phase::Terminal).await.is_err() {
        return;
    }
    let _attendance = stage.clock.attend();
    // The session does not end before this has.
    stage.running.fetch_add(1, Ordering::SeqCst);
    stage.wind_up(on_death).await;
    stage.running.fetch_sub(1, Ordering::SeqCst);
}

impl Stage {
    async fn wind_up(&self, on_death: OnDeath) {
        if let Some(revocation) = &self.revocation {
            revocation.revoke();
        }
        self.cancel_orders().await;
        let taken_back = self.take_allowances_back().await;
        let body = json!({"keys": "revoked", "allowances_taken_back": taken_back, "on_death": on_death});
        let trail = Trail::new(self.ledger.store.clone(), self.clock.clone());
        let note = Note { kind: "golem:died", call_id: None, golem_id: self.golem_id.clone(), body };
        if let Err(error) = trail.record(note).await {
            tracing::warn!(%error, "the death is not on the audit trail");
        }
        self.tell_last(&format!(
            "My keys are revoked: I sign nothing more. {taken_back} allowances were taken back, and nothing of mine is \
             left open."
        ));
        match on_death {
            OnDeath::Keep => {}
            OnDeath::Sell if self.network.money == Money::Play => self.sell_all().await,
            // Elsewhere nothing is sold without a decision.
            OnDeath::Ask | OnDeath::Sell => self.own.ask(Own::SellAfterDeath, self.clock.now_millis()),
        }
    }

    fn tell_last(&self, words: &str) {
        let text = SafeText::clean(words, 400);
        self.emit(None, EventKind::GolemThought(GolemThought { thought: 0, text, more: false }));
    }

    /// Takes every standing allowance back, by the operator's hand; how many were.
    async fn take_allowances_back(&self) -> usize {
        let Some(standing) = self.read_allowances().await else {
            self.tally().remark("allowances could not be read at the Golem's death: look whether any stand");
            return 0;
        };
        let mut all: BTreeSet<(u64, Address, Option<Address>)> = BTreeSet::new();
        for one in &standing {
            let by_itself = !one.through_permit2 && one.spender != PERMIT2;
            all.insert((one.chain_id, one.token, by_itself.then_some(one.spender)));
        }
        let mut taken_back = 0;
        for (chain_id, token, spender) in all {
            let mut params = json!({"token": token.to_string(), "chain": chain_id.to_string()});
            if let (Some(spender), Some(fields)) = (spender, params.as_object_mut()) {
                fields.insert("spender".to_owned(), json!(spender.to_string()));
            }
            let response = self.operator.call(Call::new("token_revoke", Input::Json(params))).await;
            match response.status {
                Status::Success | Status::Partial => taken_back += 1,
                Status::Simulated | Status::Blocked | Status::Rejected | Status::Error => {
                    let why = response.error.map(|error| error.message().to_owned()).unwrap_or_default();
                    self.tally().remark(&format!("an allowance of {token} was not taken back: {why}"));
                }
            }
        }
        taken_back
    }

    /// Sells what is neither a dollar nor the chain's own coin, as far as the policy lets it.
    pub(super) async fn sell_all(&self) {
        let mut risky: Vec<(u64, SafeText, SafeText)> = Vec::new();
        for chain in self.holdings.borrow().iter() {
            for row in &chain.rows {
                if !EXITS.contains(&row.symbol.as_str()) && !row.amount.raw().is_zero() {
                    risky.push((chain.chain_id, chain.chain.clone(), row.symbol.clone()));
                }
            }
        }
        for (chain_id, chain, symbol) in risky {
            let params = json!({
                "token_in": symbol, "token_out": EXIT, "amount": "max", "chain": chain_id.to_string(),
                "prefer_uniswapx": false,
            });
            let response = self.operator.call(Call::new("uniswap_execute_swap", Input::Json(params))).await;
            let told = match response.error {
                None => format!("Sold all {symbol} on {chain}."),
                Some(error) => format!("{symbol} on {chain} was not sold: {}", error.message()),
            };
            self.tally().remark(&told);
            self.tell_last(&told);
        }
    }
}
