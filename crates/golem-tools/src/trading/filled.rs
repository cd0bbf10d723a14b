//! Result of a swap by auction after its order has ended, in the same fields as a swap by transaction.

use alloy::primitives::U256;
use serde_json::{Map, Value, json};

use super::uniswap_execute_swap::shortfall;
use crate::shared::explorer_url;
use crate::swap_query::price_between;
use bardo_base::fabric::{CardToken, OrderUpdate};
use bardo_base::units::TokenAmount;
use golem_chain::network::Network;

/// Writes the amounts of an order's fill into the data of an answer. Unfilled orders, and data of tools without these
/// fields, stay unchanged.
pub fn write_fill(data: &mut Map<String, Value>, network: &Network, update: &OrderUpdate) {
    let Some(fill) = update.fill.as_ref().filter(|_| data.contains_key("slippage_actual_bps")) else { return };
    let amount = |text: &str, asset: &CardToken| TokenAmount::parse(text, asset.decimals).ok();
    let paid = amount(&fill.amount_in, &update.token_in);
    let received = amount(&fill.amount_out, &update.token_out);
    let quoted = amount(&update.quoted_out, &update.token_out).map_or(U256::ZERO, |amount| amount.raw());
    let price = paid.as_ref().zip(received.as_ref()).and_then(|(paid, received)| price_between(paid, received));
    // Rounded for display, as in the answer of a swap by transaction.
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
