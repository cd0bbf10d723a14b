//! Handing signed orders in at their services: each once, and not under a stop; and withdrawing what nobody has seen.

use std::time::Duration;

use alloy::primitives::{B256, Bytes};

use super::record::{self, Record, Stage};
use super::{Card, Ending, OrderError, Orders, line};
use crate::orders::OrderState;
use crate::typed::TypedMessage;
use bardo_base::fabric::{IntentStatus, OrderStatus};
use bardo_base::failpoint::{self, Failpoint};
use bardo_base::model::StopLevel;
use bardo_base::service::ServiceError;
use bardo_store::StoreError;

/// A signed order is handed in so long after its signature at most, in milliseconds: as long as a permit serves. What
/// was looked at before it was signed says nothing of later.
const FRESH: u64 = 60_000;

/// A service has so long to answer before the answer counts as unclear.
const SERVICE_PATIENCE: Duration = Duration::from_secs(20);

/// Said of an order that was not handed in in time.
const OLD: &str = "it was not handed in within a minute of its signature, and is not any more";

/// Whether its signature is so old that nobody is to see it any more. A clock that was set back since does not tell how old
/// it is, and makes nothing new.
fn is_old(record: &Record, now: u64) -> bool {
    record.signed_at.is_none_or(|signed| now.abs_diff(signed) > FRESH)
}

impl Orders {
    /// Hands a signed and stored order to its service: once. An answer that says it was not taken leaves it to be
    /// handed in again, the same bytes; one that leaves it open does not. Under a stop nothing is handed in: it waits
    /// here, and is looked at only.
    ///
    /// # Errors
    /// [`OrderError`] where what happened could not be written down.
    pub async fn submit(&self, hash: B256) -> Result<Record, OrderError> {
        if self.inner.rules.stop().is_some() {
            return self.look_with(hash, "a stop is in force: it is not handed in").await;
        }
        let now = self.inner.clock.now_millis();
        let waits = self.record(hash)?;
        if waits.stage == Stage::Signed && is_old(&waits, now) {
            return self.look_with(hash, OLD).await;
        }
        let stages = (Stage::Signed, Stage::Submitting);
        let ours = self
            .inner
            .store
            .write(move |transaction| -> Result<bool, StoreError> {
                record::advance(transaction, hash, stages, OrderState::pending(&waits.message), now)
            })
            .await?;
        let record = self.record(hash)?;
        let (true, Some(signature)) = (ours, record.signature.clone()) else { return Ok(record) };
        failpoint::reach(Failpoint::OrderSubmitting);
        let answer = tokio::time::timeout(SERVICE_PATIENCE, self.hand_in(&record, &signature)).await;
        let answer = answer.unwrap_or_else(|_| Err(ServiceError::Unclear(line("it did not answer in time"))));
        failpoint::reach(Failpoint::OrderAnswered);
        // A busy service has taken nothing, and has been given it all the same.
        let shown = matches!(answer, Err(ServiceError::Busy { .. }));
        let (stage, remark) = match answer {
            Ok(found) if found == hash => (Stage::Submitted, String::new()),
            Ok(found) => (Stage::Submitting, format!("the service keeps it as {found}, which is another order")),
            Err(error @ ServiceError::Refused(_)) => (Stage::Refused, error.to_string()),
            // It has not left us for certain: the same bytes may be handed in again.
            Err(error @ (ServiceError::Unreachable(_) | ServiceError::Busy { .. })) => {
                (Stage::Signed, error.to_string())
            }
            Err(error @ (ServiceError::Unclear(_) | ServiceError::Nonsense(_))) => {
                (Stage::Submitting, error.to_string())
            }
        };
        let now = self.inner.clock.now_millis();
        let status = match (OrderState::pending(&record.message), stage) {
            (OrderState::Auction(_), Stage::Submitted) => OrderState::Auction(OrderStatus::Open),
            (OrderState::Auction(_), Stage::Refused) => OrderState::Auction(OrderStatus::Error),
            // A bridge order stands nowhere before its money is locked.
            (pending, _) => pending,
        };
        self.inner
            .store
            .write(move |transaction| -> Result<bool, StoreError> {
                if shown {
                    record::note_shown(transaction, hash)?;
                }
                record::advance(transaction, hash, (Stage::Submitting, stage), status, now)
            })
            .await?;
        failpoint::reach(Failpoint::OrderSubmitted);
        self.look_with(hash, &remark).await
    }

    async fn hand_in(&self, record: &Record, signature: &Bytes) -> Result<B256, ServiceError> {
        let nobody = || ServiceError::Unreachable(line("no service is connected for it"));
        let chain = self.chain(record.chain_id).map_err(|_| nobody())?;
        match &record.message {
            TypedMessage::UniswapxOrder { order, .. } => {
                chain.auctions.as_ref().ok_or_else(nobody)?.submit(order, signature).await
            }
            TypedMessage::CrossChainOrder { intent, .. } => {
                chain.bridges.as_ref().ok_or_else(nobody)?.submit(intent, signature).await
            }
            TypedMessage::Permit2Allowance { .. } | TypedMessage::Permit2Transfer { .. } => Err(nobody()),
        }
    }

    /// Ends a signed order that nobody has seen, and frees its money. What somebody has seen by then stays as it is.
    async fn withdraw(&self, record: &Record, why: &str) -> Result<(), OrderError> {
        let _turn = self.turn(record.hash).await;
        let mut seen = self.seen(record, why).await?;
        if seen.end.is_none() {
            seen.end = Some(Ending::Withdrawn);
            match &mut seen.card {
                Card::Order(update) => update.status = OrderStatus::Cancelled,
                Card::Intent(update) => update.status = IntentStatus::Expired,
            }
        }
        self.write_down(record, seen).await
    }

    /// Hands in what was signed and stored and not handed in, by this program or one that was killed; unless a stop is
    /// in force, its time is over, or it was signed too long ago. What nobody has seen is withdrawn then, under a stop
    /// that halts and after that time: whatever lifts the stop, what was signed before it is not handed to anybody.
    /// Answers how many were to be handed in.
    ///
    /// # Errors
    /// The database's failure; what a service does not take is tried again by whoever calls this again.
    pub async fn hand_in_stored(&self) -> Result<usize, OrderError> {
        let (now, stop) = (self.inner.clock.now_millis(), self.inner.rules.stop());
        let mut handed = 0;
        for record in self.live()?.into_iter().filter(|record| record.stage == Stage::Signed) {
            let hash = record.hash;
            let old = is_old(&record, now);
            let done = if !record.shown && (old || stop >= Some(StopLevel::Halt)) {
                let why = if old { OLD } else { "a stop came before anybody had seen it: it is withdrawn" };
                self.withdraw(&record, why).await
            } else if stop.is_none() && !old && record.usable_until() > now / 1_000 {
                handed += 1;
                self.submit(hash).await.map(drop)
            } else {
                Ok(())
            };
            if let Err(error) = done {
                tracing::warn!(order = %hash, %error, "an order could not be handed in, or withdrawn");
            }
        }
        Ok(handed)
    }
}
