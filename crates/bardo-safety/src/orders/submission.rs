//! Submission of signed orders to their services, once each and not during a stop, and withdrawal of orders that no
//! service has seen.

use std::time::Duration;

use alloy::primitives::{B256, Bytes};

use super::record::{self, OrderRecord, OrderStage};
use super::{CardState, OrderEnd, OrderError, Orders, line};
use crate::orders::OrderState;
use crate::typed::TypedMessage;
use bardo_base::fabric::{IntentStatus, OrderStatus};
use bardo_base::failpoint::{self, Failpoint};
use bardo_base::model::StopLevel;
use bardo_base::service::ServiceError;
use bardo_store::StoreError;

/// Maximum time between an order's signature and its submission, in milliseconds, equal to the lifetime of a permit.
/// The checks before the signature say nothing about later times.
const FRESH: u64 = 60_000;

/// Timeout for a service's answer, after which the outcome is unclear.
const SERVICE_PATIENCE: Duration = Duration::from_secs(20);

/// Remark on an order that was not submitted in time.
const OLD: &str = "it was not submitted within a minute of its signature and will not be submitted";

/// Returns true if the order's signature is too old to submit it, or if its time is unknown. A clock that was set back
/// hides the age, so a signature time that is too far ahead counts as old.
fn is_old(record: &OrderRecord, now: u64) -> bool {
    record.signed_at.is_none_or(|signed| now.abs_diff(signed) > FRESH)
}

impl Orders {
    /// Submits a signed and stored order to its service, once. If the answer shows that the order was not accepted, the
    /// same bytes may be submitted again; if the outcome is unclear, they may not. During a stop the order is not
    /// submitted, only read.
    ///
    /// # Errors
    /// [`OrderError`] if the order cannot be read or the result cannot be stored.
    pub async fn submit(&self, hash: B256) -> Result<OrderRecord, OrderError> {
        if self.inner.rules.stop().is_some() {
            return self.poll_order(hash, "a stop is in force: it is not submitted").await;
        }
        let now = self.inner.clock.now_millis();
        let waits = self.record(hash)?;
        if waits.stage == OrderStage::Signed && is_old(&waits, now) {
            return self.poll_order(hash, OLD).await;
        }
        let stages = (OrderStage::Signed, OrderStage::Submitting);
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
        let answer = tokio::time::timeout(SERVICE_PATIENCE, self.send_to_service(&record, &signature)).await;
        let answer = answer.unwrap_or_else(|_| Err(ServiceError::Unclear(line("it did not respond in time"))));
        failpoint::reach(Failpoint::OrderAnswered);
        // A busy service has not accepted the order, but has seen it.
        let shown = matches!(answer, Err(ServiceError::Busy { .. }));
        let (stage, remark) = match answer {
            Ok(found) if found == hash => (OrderStage::Submitted, String::new()),
            Ok(found) => (OrderStage::Submitting, format!("the service stored it as {found}, which is another order")),
            Err(error @ ServiceError::Refused(_)) => (OrderStage::Refused, error.to_string()),
            // The service certainly did not accept the order: the same bytes may be submitted again.
            Err(error @ (ServiceError::Unreachable(_) | ServiceError::Busy { .. })) => {
                (OrderStage::Signed, error.to_string())
            }
            Err(error @ (ServiceError::Unclear(_) | ServiceError::Nonsense(_))) => {
                (OrderStage::Submitting, error.to_string())
            }
        };
        let now = self.inner.clock.now_millis();
        let status = match (OrderState::pending(&record.message), stage) {
            (OrderState::Auction(_), OrderStage::Submitted) => OrderState::Auction(OrderStatus::Open),
            (OrderState::Auction(_), OrderStage::Refused) => OrderState::Auction(OrderStatus::Error),
            // A bridge order has no other state before its money is locked.
            (pending, _) => pending,
        };
        self.inner
            .store
            .write(move |transaction| -> Result<bool, StoreError> {
                if shown {
                    record::note_shown(transaction, hash)?;
                }
                record::advance(transaction, hash, (OrderStage::Submitting, stage), status, now)
            })
            .await?;
        failpoint::reach(Failpoint::OrderSubmitted);
        self.poll_order(hash, &remark).await
    }

    async fn send_to_service(&self, record: &OrderRecord, signature: &Bytes) -> Result<B256, ServiceError> {
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

    /// Ends a signed order that no service has seen, and frees its money. An order that has meanwhile been seen stays
    /// unchanged.
    async fn withdraw(&self, record: &OrderRecord, why: &str) -> Result<(), OrderError> {
        let _lock = self.lock_order(record.hash).await;
        let mut seen = self.seen(record, why).await?;
        if seen.end.is_none() {
            seen.end = Some(OrderEnd::Withdrawn);
            match &mut seen.card {
                CardState::Order(update) => update.status = OrderStatus::Cancelled,
                CardState::Intent(update) => update.status = IntentStatus::Expired,
            }
        }
        self.write_down(record, seen).await
    }

    /// Submits the orders that were signed and stored but not submitted, by this process or one that was killed. It
    /// skips orders during a stop, and those that are expired or too old. An order that no service has seen is
    /// withdrawn if it is too old or if a stop of level halt or higher is in force. So lifting a stop does not release
    /// orders that were signed before it. Returns the number of submissions attempted.
    ///
    /// # Errors
    /// The database's failure. Other failures are logged, and the next call tries again.
    pub async fn submit_stored(&self) -> Result<usize, OrderError> {
        let (now, stop) = (self.inner.clock.now_millis(), self.inner.rules.stop());
        let mut handed = 0;
        for record in self.live()?.into_iter().filter(|record| record.stage == OrderStage::Signed) {
            let hash = record.hash;
            let old = is_old(&record, now);
            let done = if !record.shown && (old || stop >= Some(StopLevel::Halt)) {
                let why = if old { OLD } else { "a stop was set before it was submitted: it is withdrawn" };
                self.withdraw(&record, why).await
            } else if stop.is_none() && !old && record.usable_until() > now / 1_000 {
                handed += 1;
                self.submit(hash).await.map(drop)
            } else {
                Ok(())
            };
            if let Err(error) = done {
                tracing::warn!(order = %hash, %error, "an order could not be submitted or withdrawn");
            }
        }
        Ok(handed)
    }
}
