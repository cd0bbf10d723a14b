//! What a swap by auction came to, once its order has ended: the same fields that a swap by transaction fills at once.

use alloy::primitives::U256;
use serde_json::{Map, Value, json};

use super::uniswap_execute_swap::shortfall;
use crate::shared::explorer_url;
use crate::swap_ask::price_between;
use bardo_base::fabric::{Asset, OrderUpdate};
use bardo_base::units::TokenAmount;
use golem_chain::network::Network;

/// Writes into the data of an answer what the order's fill has moved. An order that was not filled has moved nothing,
/// which is what the data say already; data of a tool that has no such fields stay as they are.
pub fn tell(data: &mut Map<String, Value>, network: &Network, update: &OrderUpdate) {
    let Some(fill) = update.fill.as_ref().filter(|_| data.contains_key("slippage_actual_bps")) else { return };
    let amount = |text: &str, asset: &Asset| TokenAmount::parse(text, asset.decimals).ok();
    let paid = amount(&fill.amount_in, &update.token_in);
    let received = amount(&fill.amount_out, &update.token_out);
    let quoted = amount(&update.quoted_out, &update.token_out).map_or(U256::ZERO, |amount| amount.raw());
    let price = paid.as_ref().zip(received.as_ref()).and_then(|(paid, received)| price_between(paid, received));
    // Figures for people, as in the answer of a swap by transaction.
    let price: f64 = price.and_then(|price| price.to_fixed(12).parse().ok()).unwrap_or(0.0);
    let facts = [
        ("tx_hash", json!(fill.tx.hash)),
        ("block_number", json!(fill.tx.block)),
        ("amount_in", json!(fill.amount_in)),
        ("amount_out", json!(fill.amount_out)),
        ("effective_price", json!(price)),
        ("slippage_actual_bps", json!(received.map_or(0, |received| shortfall(quoted, received.raw())))),
        ("explorer_url", json!(explorer_url(network, &fill.tx.hash))),
    ];
    data.extend(facts.map(|(name, value)| (name.to_owned(), value)));
}
