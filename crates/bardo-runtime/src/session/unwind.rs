//! Unwinding of open orders: on flattening, after a death, on leaving. Unfilled orders are cancelled. Bridge orders
//! that are locked on chain cannot be cancelled; they are refunded once nobody can deliver them any more.

use serde_json::{Value, json};

use super::state::SessionState;
use bardo_base::display::readable_figure;
use bardo_base::fabric::{IntentStatus, IntentUpdate};
use bardo_base::format::short_address;
use bardo_base::id::GolemId;
use bardo_safety::orders::{OrderRecord, OrderState};
use golem_tools::engine::{ToolCall, ToolInput, ToolResponse, WriteTool};
use golem_tools::trading::intent_refund::{self, IntentRefund};
use golem_tools::trading::uniswapx_cancel_order::{self, CancelOrder};

/// Orders of an account that remain after unwinding.
#[derive(Debug, Default)]
pub(super) struct RemainingOrders {
    /// Number of orders that can still take tokens.
    pub open: usize,
    /// For each bridge order with locked funds: a sentence about their location and their return.
    pub locked: Vec<String>,
}

/// Digits after the decimal point in a remark.
const PLACES: usize = 6;

/// Next step for an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CancelRoute {
    /// Cancel it: its signature can still take tokens.
    Cancel,
    /// Refund it: its funds are locked, and nobody can deliver it any more.
    Refund,
    /// Wait: its funds are locked, and it may still be delivered.
    Wait,
    /// Nothing to do: the order has ended.
    Nothing,
}

fn cancel_route(status: OrderState) -> CancelRoute {
    match status {
        OrderState::Auction(_) | OrderState::Unplaced | OrderState::Bridge(IntentStatus::Pending) => {
            CancelRoute::Cancel
        }
        OrderState::Bridge(IntentStatus::Filling) => CancelRoute::Wait,
        OrderState::Bridge(IntentStatus::Expired) => CancelRoute::Refund,
        OrderState::Bridge(IntentStatus::Filled | IntentStatus::Refunded) => CancelRoute::Nothing,
    }
}

/// Formats the UTC time of day of seconds since the Unix epoch.
fn time_of_day(seconds: u64) -> String {
    let of_day = seconds % 86_400;
    format!("{:02}:{:02}:{:02} UTC", of_day / 3_600, of_day / 60 % 60, of_day % 60)
}

/// Sentence about the funds of a bridge order; `end` describes the next step.
fn locked(record: &OrderRecord, end: &str) -> String {
    let card = record.card.as_deref().and_then(|card| serde_json::from_str::<IntentUpdate>(card).ok());
    match card {
        Some(card) => {
            let (amount, symbol, source) = (card.amount_in, card.token_in.symbol, card.source_chain);
            format!("{amount} {symbol} for {} is locked on {source}. {end}", card.destination_chain)
        }
        None => format!("The money of bridge order {} is locked. {end}", record.hash),
    }
}

/// Describes the next step for an order that may still be delivered: its deadline, and the start of the refund period.
fn ahead(record: &OrderRecord) -> String {
    let card = record.card.as_deref().and_then(|card| serde_json::from_str::<IntentUpdate>(card).ok());
    let by = card.as_ref().map(|card| format!(" by {}", time_of_day(card.fill_deadline))).unwrap_or_default();
    let from = card.and_then(|card| card.refund_from).map(|from| format!(" from {} on", time_of_day(from)));
    format!("If nobody delivers it{by}, intent_refund refunds it{}.", from.unwrap_or_default())
}

impl SessionState {
    /// True if the data folder was restored from a backup and nobody has confirmed that the other copy is stopped. The
    /// halt that is then in force lets cancellations and revocations pass, so what Bardo does by itself must ask this.
    pub(super) fn is_unconfirmed_copy(&self) -> bool {
        self.control.stop_watch.file.restored().is_some()
    }

    /// Unwinds the account's open orders, or those of one Golem, with the tools for it; returns the remaining ones.
    pub(super) async fn unwind_orders(&self, of: Option<&GolemId>) -> RemainingOrders {
        let mut left = RemainingOrders::default();
        let (Ok(orders), Some(account)) = (self.sources.world.orders(), self.sources.world.account) else {
            return left;
        };
        let live = match orders.live() {
            Ok(live) => live,
            Err(error) => {
                self.stats().remark(&format!("cannot read the open orders; none was cancelled: {error}"));
                left.open = 1;
                return left;
            }
        };
        let wanted = |order: &OrderRecord| order.account == account && of.is_none_or(|golem| order.golem_id == *golem);
        for order in live.into_iter().filter(wanted) {
            // If the chain does not answer, the known state decides, and the tools read the chain again.
            let order = orders.poll(order.hash).await.unwrap_or(order);
            if !order.is_live() {
                continue;
            }
            match cancel_route(order.status) {
                CancelRoute::Nothing => {}
                CancelRoute::Cancel => {
                    let params = json!(uniswapx_cancel_order::Params { order_hash: order.hash.to_string() });
                    if let Some(error) = self.by_hand(CancelOrder::META.name, params).await.error {
                        left.open += 1;
                        self.stats().remark(&format!("order {} was not cancelled: {}", order.hash, error.message()));
                    }
                }
                CancelRoute::Refund => {
                    let params = json!(intent_refund::Params { intent_id: order.hash.to_string() });
                    if let Some(error) = self.by_hand(IntentRefund::META.name, params).await.error {
                        left.locked.push(locked(&order, &format!("It was not refunded yet: {}.", error.message())));
                    }
                }
                CancelRoute::Wait => left.locked.push(locked(&order, &ahead(&order))),
            }
        }
        for words in &left.locked {
            self.stats().remark(words);
        }
        left
    }

    /// Remarks in the session summary which allowances stand when the session ends: a cancelled order leaves the one that it
    /// was placed under.
    pub(super) async fn remark_allowances(&self) {
        let Some(standing) = self.read_allowances().await else {
            return self
                .stats()
                .remark("the allowances could not be read: `bardo call get_allowances chain=NAME` lists them");
        };
        for row in standing.rows.iter().filter(|row| !row.raw.is_zero()) {
            let who = row.label.as_ref().map_or_else(|| short_address(row.spender), ToString::to_string);
            let amount = match (&row.amount, row.unlimited) {
                (Some(amount), false) => readable_figure(&amount.to_string(), PLACES),
                _ => "any amount of".to_owned(),
            };
            let (symbol, chain) = (&row.symbol, &row.chain);
            let words = format!(
                "{who} may still take {amount} {symbol} on {chain}: `bardo call token_revoke token={symbol} chain={chain}` \
                 ends it"
            );
            self.stats().remark(&words);
        }
        for one in &standing.silent {
            let words = format!("allowances of {} on {} could not be read", one.symbol, one.chain);
            self.stats().remark(&words);
        }
    }

    /// Calls a tool as the operator.
    pub(super) async fn by_hand(&self, tool: &str, params: Value) -> ToolResponse {
        self.sources.operator.call(ToolCall::new(tool, ToolInput::Json(params))).await
    }
}
