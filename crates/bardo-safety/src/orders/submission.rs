//! Submission of signed orders to their services, once each and not during a stop, and withdrawal of orders that no
//! service has seen.

use std::time::Duration;

use alloy::primitives::{B256, Bytes};

use super::record::{self, OrderRecord, OrderStage};
use super::{CardState, OrderEnd, OrderError, Orders, card_text};
use crate::orders::OrderState;
use crate::typed::TypedMessage;
use bardo_base::fabric::{IntentStatus, OrderStatus};
use bardo_base::failpoint::{self, Failpoint};
use bardo_base::model::StopLevel;
use bardo_base::service::ServiceError;
use bardo_store::StoreError;

/// Maximum time between an order's signature and its submission, in milliseconds, equal to the lifetime of a permit.
/// Prices and limits were checked before the signature, and may have changed later.
const MAX_SUBMISSION_AGE_MILLIS: u64 = 60_000;

/// Timeout for a service's answer, after which the outcome is unclear.
const SERVICE_TIMEOUT: Duration = Duration::from_secs(20);

/// Card remark on an order that was not submitted in time.
const TOO_OLD_REMARK: &str = "it was not submitted within a minute of its signature and will not be submitted";

/// Returns true if the signature is too old for a submission, or if its time is unknown. A clock that was set back
/// hides the age, so a signature time too far in the future counts as too old.
fn is_too_old(record: &OrderRecord, now: u64) -> bool {
    record.signed_at.is_none_or(|signed| now.abs_diff(signed) > MAX_SUBMISSION_AGE_MILLIS)
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
        let waiting = self.record(hash)?;
        if waiting.stage == OrderStage::Signed && is_too_old(&waiting, now) {
            return self.poll_order(hash, TOO_OLD_REMARK).await;
        }
        let stages = (OrderStage::Signed, OrderStage::Submitting);
        let is_claimed = self
            .inner
            .store
            .write(move |transaction| -> Result<bool, StoreError> {
                record::advance(transaction, hash, stages, OrderState::pending(&waiting.message), now)
            })
            .await?;
        let record = self.record(hash)?;
        let (true, Some(signature)) = (is_claimed, record.signature.clone()) else { return Ok(record) };
        failpoint::reach(Failpoint::OrderSubmitting);
        let answer = tokio::time::timeout(SERVICE_TIMEOUT, self.send_to_service(&record, &signature)).await;
        let answer = answer.unwrap_or_else(|_| Err(ServiceError::Unclear(card_text("it did not respond in time"))));
        failpoint::reach(Failpoint::OrderAnswered);
        // A busy service has not accepted the order, but has received it.
        let maybe_seen = matches!(answer, Err(ServiceError::Busy { .. }));
        let (stage, remark) = match answer {
            Ok(stored_hash) if stored_hash == hash => (OrderStage::Submitted, String::new()),
            Ok(stored_hash) => {
                let remark = format!("the service stored it as {stored_hash}, which is another order");
                (OrderStage::Submitting, remark)
            }
            Err(error @ ServiceError::Refused(_)) => (OrderStage::Refused, error.to_string()),
            // The service did not accept the order, so the same bytes may be submitted again.
            Err(error @ (ServiceError::Unreachable(_) | ServiceError::Busy { .. })) => {
                (OrderStage::Signed, error.to_string())
            }
            Err(error @ (ServiceError::Unclear(_) | ServiceError::InvalidResponse(_))) => {
                (OrderStage::Submitting, error.to_string())
            }
        };
        let now = self.inner.clock.now_millis();
        let status = match (OrderState::pending(&record.message), stage) {
            (OrderState::Auction(_), OrderStage::Submitted) => OrderState::Auction(OrderStatus::Open),
            (OrderState::Auction(_), OrderStage::Refused) => OrderState::Auction(OrderStatus::Error),
            // A bridge order stays pending until its input is locked.
            (pending, _) => pending,
        };
        self.inner
            .store
            .write(move |transaction| -> Result<bool, StoreError> {
                if maybe_seen {
                    record::note_maybe_seen(transaction, hash)?;
                }
                record::advance(transaction, hash, (OrderStage::Submitting, stage), status, now)
            })
            .await?;
        failpoint::reach(Failpoint::OrderSubmitted);
        self.poll_order(hash, &remark).await
    }

    async fn send_to_service(&self, record: &OrderRecord, signature: &Bytes) -> Result<B256, ServiceError> {
        let no_service = || ServiceError::Unreachable(card_text("no service is connected for it"));
        let chain = self.chain(record.chain_id).map_err(|_| no_service())?;
        match &record.message {
            TypedMessage::UniswapxOrder { order, .. } => {
                chain.auctions.as_ref().ok_or_else(no_service)?.submit(order, signature).await
            }
            TypedMessage::CrossChainOrder { intent, .. } => {
                chain.bridges.as_ref().ok_or_else(no_service)?.submit(intent, signature).await
            }
            TypedMessage::Permit2Allowance { .. } | TypedMessage::Permit2Transfer { .. } => Err(no_service()),
        }
    }

    /// Ends a signed order that no service has seen, and releases its reservation. An order that a service has received
    /// in the meantime stays unchanged.
    async fn withdraw(&self, record: &OrderRecord, remark: &str) -> Result<(), OrderError> {
        let _lock = self.lock_order(record.hash).await;
        let mut result = self.read_state(record, remark).await?;
        if result.end.is_none() {
            result.end = Some(OrderEnd::Withdrawn);
            match &mut result.card {
                CardState::Order(update) => update.status = OrderStatus::Cancelled,
                CardState::Intent(update) => update.status = IntentStatus::Expired,
            }
        }
        self.store_result(record, result).await
    }

    /// Submits the signed orders that have not been submitted, including those of a process that was killed. Returns
    /// the number of submissions attempted.
    ///
    /// During a stop, no order is submitted. Orders that are expired or too old are not submitted either. An order that
    /// no service has seen is withdrawn if it is too old, or if a stop of level halt or higher is in force. So lifting
    /// a stop does not release orders that were signed before it.
    ///
    /// # Errors
    /// The database's failure. Other failures are logged, and the next call tries again.
    pub async fn submit_stored(&self) -> Result<usize, OrderError> {
        let (now, stop) = (self.inner.clock.now_millis(), self.inner.rules.stop());
        let mut attempted = 0;
        for record in self.live()?.into_iter().filter(|record| record.stage == OrderStage::Signed) {
            let hash = record.hash;
            let too_old = is_too_old(&record, now);
            let result = if !record.maybe_seen && (too_old || stop >= Some(StopLevel::Halt)) {
                let remark =
                    if too_old { TOO_OLD_REMARK } else { "a stop was set before it was submitted: it is withdrawn" };
                self.withdraw(&record, remark).await
            } else if stop.is_none() && !too_old && record.usable_until() > now / 1_000 {
                attempted += 1;
                self.submit(hash).await.map(drop)
            } else {
                Ok(())
            };
            if let Err(error) = result {
                tracing::warn!(order = %hash, %error, "an order could not be submitted or withdrawn");
            }
        }
        Ok(attempted)
    }
}
