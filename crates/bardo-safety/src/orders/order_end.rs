//! Comparison of an order's end with its expected outcome, and the audit entry about it. The entry is written in the
//! transaction that ends the order.

use rusqlite::Transaction;
use serde_json::json;

use super::{CardState, OrderEnd, OrderRecord};
use crate::audit::{self, AuditError, AuditKind, LogEntry};
use crate::ledger::MarkChange;
use crate::policy_engine::ReserveError;
use bardo_base::fabric::{EventKind, IntentStatus, OrderStatus, ToolVerified};
use bardo_base::text::SafeText;

/// Sources for an auction's end: the service's status, checked against the events of the reactor and of Permit2.
const AUCTION: &str = "uniswapx_api_order_status + fill_events";

/// Sources for a bridge order's end: the status of both settlers, and the balance change on the destination.
const BRIDGE: &str = "erc7683_intent_status + destination_balance_diff";

/// Compares the expected outcome of an order with its actual one.
pub(super) fn outcome(record: &OrderRecord, card: &CardState) -> ToolVerified {
    let (actual, source, matched) = match card {
        CardState::Order(update) => {
            let actual = format!("Order {} status: {}", update.order_hash, update.status.as_str());
            (actual, AUCTION, matches!(update.status, OrderStatus::Filled))
        }
        CardState::Intent(update) => {
            let received = update.amount_out.as_deref().unwrap_or("nothing");
            let status = update.status.as_str();
            let actual = format!("Intent {} status: {status}, received: {received}", update.intent_id);
            // A delivery that the destination's balance does not confirm does not match the expectation.
            let matched = matches!(update.status, IntentStatus::Filled) && update.amount_out.is_some();
            (actual, BRIDGE, matched)
        }
    };
    ToolVerified {
        expected_outcome: record.figures.expected_outcome.clone(),
        actual_outcome: SafeText::clean(&actual, 600),
        ground_truth_source: source.into(),
        matched,
        unfilled: match card {
            CardState::Order(update) => update.status != OrderStatus::Filled && update.fill.is_none(),
            CardState::Intent(update) => update.status != IntentStatus::Filled && update.amount_out.is_none(),
        },
    }
}

/// Returns the comparison as an event.
pub(super) fn event(record: &OrderRecord, card: &CardState) -> EventKind {
    EventKind::ToolVerified(outcome(record, card))
}

/// Returns true if a bridge order's value has arrived, as confirmed by the destination's balance.
pub(super) fn has_arrived(card: &CardState, end: OrderEnd) -> bool {
    match (card, end) {
        (CardState::Intent(update), OrderEnd::Filled) => update.amount_out.is_some(),
        (CardState::Intent(_), OrderEnd::Unfilled | OrderEnd::Withdrawn) | (CardState::Order(_), _) => false,
    }
}

/// Records the end in the audit log, with the change of the stop-loss's high-water mark, if there was one.
pub(super) fn record(
    transaction: &Transaction<'_>,
    now: u64,
    record: &OrderRecord,
    card: &CardState,
    (end, mark_change): (OrderEnd, Option<MarkChange>),
) -> Result<(), ReserveError> {
    let ToolVerified { expected_outcome, actual_outcome, ground_truth_source, matched, unfilled: _ } =
        outcome(record, card);
    let (amount_in, amount_out, hash) = match card {
        CardState::Order(update) => {
            let fill = update.fill.as_ref();
            let hash = fill.map(|fill| &fill.tx).or(update.cancelled_by.as_ref()).map(|place| place.hash);
            (fill.map(|fill| &fill.amount_in), fill.map(|fill| &fill.amount_out), hash)
        }
        CardState::Intent(update) => {
            let delivered = update.delivered.as_ref();
            let hash = update.refunded.as_ref().or(delivered).map(|place| place.hash);
            (delivered.map(|_| &update.amount_in), update.amount_out.as_ref(), hash)
        }
    };
    let took = match end {
        OrderEnd::Filled => "what it could",
        OrderEnd::Unfilled => "nothing",
        OrderEnd::Withdrawn => "nothing: nobody had seen it",
    };
    let mut body = json!({
        "order": record.hash, "kind": record.kind(), "status": card.status(), "took": took,
        "amount_in": amount_in, "amount_out": amount_out, "tx": hash, "permit_id": record.permit_id,
        "expected_outcome": expected_outcome, "actual_outcome": actual_outcome,
        "ground_truth_source": ground_truth_source, "matched": matched,
    });
    if let (Some(change), Some(body)) = (mark_change, body.as_object_mut()) {
        let mark = json!({ "before": change.before.dollars(), "after": change.after.dollars() });
        body.insert("stop_loss_mark".to_owned(), mark);
    }
    let entry = LogEntry {
        kind: AuditKind::OrderEnded,
        call_id: Some(record.call_id),
        golem_id: &record.golem_id,
        body: &body,
    };
    audit::append(transaction, now, &entry).map(drop).map_err(|error| match error {
        AuditError::Store(error) => ReserveError::Store(error),
        other => ReserveError::Ledger(other.to_string()),
    })
}
