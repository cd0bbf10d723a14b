//! Recognition and counting of trades in events: confirmed swaps, filled auctions, delivered bridge orders. Approvals,
//! revocations and cancellations change no position and are not trades.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use alloy_primitives::B256;
use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;
use serde_json::Value;

use bardo_base::fabric::{Event, EventKind, IntentStatus, OrderStatus, ResultCard};
use bardo_base::id::CallId;

/// Tool whose own transactions are a trade.
const SWAP: &str = "uniswap_execute_swap";
/// Maximum number of counted orders remembered, so that a later update does not count one again.
const ORDERS_KEPT: usize = 4_096;
/// Maximum number of running swaps remembered.
const SWAPS_KEPT: usize = 512;

/// Counter of trades.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TradeCounter {
    /// Number of trades so far.
    pub count: u64,
    /// Total shortfall from the quotes, in hundredths of a basis point.
    short: i64,
    /// Number of trades with a quote.
    compared: i64,
    /// Running swaps, and whether the chain has confirmed a result.
    swaps: BTreeMap<CallId, bool>,
    settled: BTreeSet<B256>,
    order: VecDeque<B256>,
}

impl TradeCounter {
    /// Applies an event. Returns true if it makes a call or an order a trade.
    pub fn take(&mut self, event: &Event) -> bool {
        match &event.kind {
            EventKind::ToolStart(start) if start.tool_name == SWAP => {
                if let Some(call) = event.call_id {
                    if self.swaps.len() >= SWAPS_KEPT {
                        self.swaps.pop_first();
                    }
                    self.swaps.insert(call, false);
                }
                false
            }
            EventKind::ToolVerified(_) => {
                if let Some(seen) = event.call_id.and_then(|call| self.swaps.get_mut(&call)) {
                    *seen = true;
                }
                false
            }
            EventKind::ToolEnd(end) => {
                let settled = event.call_id.and_then(|call| self.swaps.remove(&call)) == Some(true);
                if !settled || !end.success {
                    return false;
                }
                self.add(end.card.as_ref().and_then(short_of_swap));
                true
            }
            EventKind::OrderUpdate(order) => {
                // A swap that went to auction is a trade only once it is filled.
                if let Some(call) = event.call_id {
                    self.swaps.remove(&call);
                }
                let fill = order.fill.as_ref().filter(|_| order.status == OrderStatus::Filled);
                let Some(fill) = fill.filter(|_| self.is_first_trade_event(order.order_hash)) else { return false };
                self.add(below(&fill.amount_out, &order.quoted_out));
                true
            }
            EventKind::IntentUpdate(intent) => {
                let got = intent.amount_out.as_ref().filter(|_| intent.status == IntentStatus::Filled);
                if intent.status != IntentStatus::Filled || !self.is_first_trade_event(intent.intent_id) {
                    return false;
                }
                self.add(got.and_then(|got| below(got, &intent.estimated_output)));
                true
            }
            _ => false,
        }
    }

    /// Average shortfall from the quotes, in hundredths of a basis point; negative if trades were above. `None` without
    /// quotes.
    pub fn average_short(&self) -> Option<i64> {
        self.short.checked_div(self.compared)
    }

    fn add(&mut self, short: Option<i64>) {
        self.count = self.count.saturating_add(1);
        if let Some(short) = short {
            self.short = self.short.saturating_add(short);
            self.compared = self.compared.saturating_add(1);
        }
    }

    fn is_first_trade_event(&mut self, hash: B256) -> bool {
        if !self.settled.insert(hash) {
            return false;
        }
        self.order.push_back(hash);
        if self.order.len() > ORDERS_KEPT
            && let Some(oldest) = self.order.pop_front()
        {
            self.settled.remove(&oldest);
        }
        true
    }
}

/// Shortfall of a swap from its quote, in hundredths of a basis point: of the amounts, else of the whole basis points
/// that it reports.
fn short_of_swap(card: &ResultCard) -> Option<i64> {
    let got = card.data.get("amount_out").and_then(Value::as_str);
    let quoted = card.hints.as_ref().and_then(|hints| hints.get("quoted_out")?.as_str());
    got.zip(quoted).and_then(|(got, quoted)| below(got, quoted)).or_else(|| {
        let points = card.data.get("slippage_actual_bps")?.as_i64()?;
        points.checked_mul(100)
    })
}

/// Shortfall of `got` from `quoted`, in hundredths of a basis point.
fn below(got: &str, quoted: &str) -> Option<i64> {
    let (got, quoted): (Decimal, Decimal) = (got.parse().ok()?, quoted.parse().ok()?);
    quoted.checked_sub(got)?.checked_mul(Decimal::from(1_000_000))?.checked_div(quoted)?.round().to_i64()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use bardo_base::model::CardKind;

    #[test]
    fn a_swap_a_little_under_its_quote_is_not_at_the_quote() {
        let card = |data, hints| ResultCard { widget: CardKind::Swap, data, hints: Some(hints) };
        let bps = json!({ "amount_out": "853.3", "slippage_actual_bps": 0 });
        // (853.34 − 853.3) / 853.34 is 0.00468746 %, or 0.4687 basis points.
        assert_eq!(short_of_swap(&card(bps.clone(), json!({ "quoted_out": "853.34" }))), Some(47));
        assert_eq!(short_of_swap(&card(json!({ "slippage_actual_bps": 3 }), json!({}))), Some(300));
        assert_eq!(short_of_swap(&card(bps, json!({}))), Some(0));
    }
}
