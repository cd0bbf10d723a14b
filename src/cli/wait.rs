//! `--wait`: stays until what a call has set going has reached its end. On a devnet inside this process it makes the
//! blocks itself, since nobody else would.

use std::time::Duration;

use serde_json::{Value, json};

use crate::base::error::{ErrorCode, ToolError};
use crate::engine::{Status, ToolResponse};
use crate::safety::orders::{OrderState, Orders, Record};
use crate::sandbox::Sandbox;

/// Beside the time an order has, for the chain to tell how it ended.
const GRACE: Duration = Duration::from_secs(120);

/// Between blocks made here.
const BETWEEN_BLOCKS: Duration = Duration::from_secs(1);

/// Waits for the end of every order of the call, and answers with how they ended.
pub(super) async fn until_ended(
    orders: &Orders,
    sandbox: Option<&Sandbox>,
    now_seconds: u64,
    mut response: ToolResponse,
) -> ToolResponse {
    let own: Vec<Record> = match orders.every() {
        Ok(all) => all.into_iter().filter(|record| record.call_id == response.call_id).collect(),
        Err(error) => return with_remark(response, &format!("its orders could not be read: {error}")),
    };
    for record in own {
        let left = Duration::from_secs(record.usable_until().saturating_sub(now_seconds));
        let nudge = || async {
            tokio::time::sleep(BETWEEN_BLOCKS).await;
            for chain in sandbox.into_iter().flat_map(Sandbox::chains) {
                // A chain that is gone tells so at the next look.
                let _made = chain.devnet.mine().await;
            }
        };
        response = match orders.wait(record.hash, left.saturating_add(GRACE), nudge).await {
            Ok(record) => ended(response, &record),
            Err(error) => with_remark(response, &format!("its end could not be looked at: {error}")),
        };
    }
    response
}

fn ended(mut response: ToolResponse, record: &Record) -> ToolResponse {
    let card: Value = record.card.as_deref().and_then(|card| serde_json::from_str(card).ok()).unwrap_or_default();
    if let Some(Value::Object(data)) = &mut response.data
        && data.contains_key("status")
    {
        data.insert("status".to_owned(), json!(record.status));
    }
    let text = |name: &str| card.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    use crate::fabric::{IntentStatus as Bridge, OrderStatus as Auction};
    (response.status, response.error) = match record.status {
        OrderState::Auction(Auction::Filled | Auction::Cancelled)
        | OrderState::Bridge(Bridge::Filled | Bridge::Refunded) => (Status::Success, None),
        OrderState::Auction(Auction::Expired) | OrderState::Bridge(Bridge::Expired) => {
            let error = ToolError::new(
                ErrorCode::UniswapxOrderExpired,
                format_args!("order {} expired without being filled", record.hash),
            );
            (Status::Error, Some(error))
        }
        OrderState::Auction(Auction::Pending | Auction::Open | Auction::InsufficientFunds | Auction::Error)
        | OrderState::Bridge(Bridge::Pending | Bridge::Filling)
        | OrderState::Unplaced => (Status::Partial, None),
    };
    let said = format!("Order {} status: {}. {}. {}", record.hash, record.status, text("money"), text("remark"));
    response.explanation = Some(said.trim_end().to_owned());
    let hints = response.decision_hints.get_or_insert_with(|| json!({}));
    if let Value::Object(hints) = hints {
        hints.insert("order".to_owned(), card);
    }
    response
}

fn with_remark(mut response: ToolResponse, remark: &str) -> ToolResponse {
    response.explanation = Some(format!("{} {remark}.", response.explanation.unwrap_or_default()));
    response
}
