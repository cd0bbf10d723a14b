//! The `--wait` option: waits until everything that a call has started has ended. On a devnet inside this process it
//! produces the blocks itself.

use std::time::Duration;

use serde_json::{Value, json};

use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::fabric::{IntentStatus as Bridge, OrderStatus as Auction, OrderUpdate};
use bardo_safety::orders::{OrderRecord, OrderState, Orders};
use bardo_safety::typed::TypedMessage;
use bardo_sandbox::SandboxChain;
use golem_tools::engine::{CallStatus, ToolResponse};
use golem_tools::trading::filled;

/// Time added to an order's remaining time, in which the chain can confirm its end.
const GRACE: Duration = Duration::from_secs(120);

/// Interval between blocks produced here.
const BETWEEN_BLOCKS: Duration = Duration::from_secs(1);

/// Waits for the end of every order of the call, and updates the response.
pub(super) async fn until_ended(
    orders: &Orders,
    inhabited: &[SandboxChain],
    now_seconds: u64,
    mut response: ToolResponse,
) -> ToolResponse {
    let own: Vec<OrderRecord> = match orders.every() {
        Ok(all) => all.into_iter().filter(|record| record.call_id == response.call_id).collect(),
        Err(error) => return with_remark(response, &format!("its orders could not be read: {error}")),
    };
    for record in own {
        let left = Duration::from_secs(last_second(&record).saturating_sub(now_seconds));
        let nudge = || async {
            tokio::time::sleep(BETWEEN_BLOCKS).await;
            for chain in inhabited {
                // A failed chain is reported at the next poll.
                let _made = chain.devnet.mine().await;
            }
        };
        response = match orders.wait(record.hash, left.saturating_add(GRACE), nudge).await {
            Ok(record) => ended(orders, response, &record),
            Err(error) => with_remark(response, &format!("its outcome could not be read: {error}")),
        };
    }
    response
}

/// Returns the last second in which the order can succeed, since the Unix epoch. A locked bridge order can still be
/// delivered after the deadline for locking.
fn last_second(record: &OrderRecord) -> u64 {
    match &record.message {
        TypedMessage::CrossChainOrder { intent, .. } => u64::from(intent.fill_deadline).max(record.usable_until()),
        TypedMessage::UniswapxOrder { .. }
        | TypedMessage::Permit2Allowance { .. }
        | TypedMessage::Permit2Transfer { .. } => record.usable_until(),
    }
}

fn ended(orders: &Orders, mut response: ToolResponse, record: &OrderRecord) -> ToolResponse {
    let card: Value = record.card.as_deref().and_then(|card| serde_json::from_str(card).ok()).unwrap_or_default();
    if let Some(Value::Object(data)) = &mut response.data {
        if data.contains_key("status") {
            data.insert("status".to_owned(), json!(record.status));
        }
        let update = serde_json::from_value::<OrderUpdate>(card.clone());
        if let (Ok(update), Ok(chain)) = (update, orders.chain(record.chain_id)) {
            filled::write_fill(data, chain.client.network(), &update);
        }
    }
    (response.status, response.error) = how_it_ended(record);
    let text = |name: &str| card.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let what = if matches!(record.status, OrderState::Bridge(_)) { "Intent" } else { "Order" };
    let outcome = format!("{what} {} status: {}. {}. {}", record.hash, record.status, text("money"), text("remark"));
    let refund = if is_locked(record) { " Get it back with intent_refund." } else { "" };
    response.explanation = Some(format!("{}{refund}", outcome.trim_end()));
    let hints = response.decision_hints.get_or_insert_with(|| json!({}));
    if let Value::Object(hints) = hints {
        hints.insert("order".to_owned(), card);
    }
    response
}

/// Returns true if the order expired with its money locked in the settler. It must then be refunded rather than sent
/// again.
fn is_locked(record: &OrderRecord) -> bool {
    record.status == OrderState::Bridge(Bridge::Expired) && record.is_live()
}

/// Returns the response's status and error for the order's end.
fn how_it_ended(record: &OrderRecord) -> (CallStatus, Option<ToolError>) {
    match record.status {
        OrderState::Auction(Auction::Filled) | OrderState::Bridge(Bridge::Filled) => (CallStatus::Success, None),
        OrderState::Auction(Auction::Expired) | OrderState::Bridge(Bridge::Expired) if !is_locked(record) => {
            let error = ToolError::new(
                ErrorCode::UniswapxOrderExpired,
                format_args!("order {} expired without being filled", record.hash),
            );
            (CallStatus::Error, Some(error))
        }
        // The order did not succeed, but nothing is lost.
        OrderState::Auction(
            Auction::Pending
            | Auction::Open
            | Auction::Cancelled
            | Auction::Expired
            | Auction::InsufficientFunds
            | Auction::Error,
        )
        | OrderState::Bridge(Bridge::Pending | Bridge::Filling | Bridge::Expired | Bridge::Refunded)
        | OrderState::Unplaced => (CallStatus::Partial, None),
    }
}

fn with_remark(mut response: ToolResponse, remark: &str) -> ToolResponse {
    response.explanation = Some(format!("{} {remark}.", response.explanation.unwrap_or_default()));
    response
}
