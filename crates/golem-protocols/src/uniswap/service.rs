//! HTTP client for an order service, in the format of Uniswap's Trading API: `POST /order` submits an order, `GET
//! /orders` returns its state. Its answers are unverified: the caller compares them with the chain, and never signs
//! anything from them.

mod info;

use std::str::FromStr as _;
use std::time::Duration;

use alloy::primitives::{Address, B256, Bytes, U256, hex};
use futures::future::BoxFuture;
use serde_json::{Value, json};

pub use info::order_info;

use super::gateway::{BestBid, OrderGateway, ServiceReport, ServiceStatus};
use super::order::{OrderKind, UniswapXOrder};
use bardo_base::service::ServiceError;
use bardo_base::text::SafeText;
use golem_chain::service::JsonService;

/// Minimum interval between two polls of an order.
const POLL_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum number of filler names that are read from a report.
const MAX_NAMES: usize = 32;

/// Client of an order service, for the orders of one chain.
#[derive(Debug, Clone)]
pub struct HttpOrders {
    service: JsonService,
    chain_id: u64,
}

impl HttpOrders {
    /// Creates a client of `service` for the orders on chain `chain_id`.
    pub fn new(service: JsonService, chain_id: u64) -> Self {
        Self { service, chain_id }
    }
}

/// Builds the body of a submission.
pub fn submission(chain_id: u64, order: &UniswapXOrder, signature: &Bytes) -> Value {
    json!({
        "signature": signature,
        "routing": order.kind().name(),
        "quote": {
            "encodedOrder": order.encode(),
            "orderId": order.hash(),
            "orderInfo": order_info(chain_id, order),
        },
    })
}

/// Parses a service's report about the order `hash`; `None` if the answer does not contain it.
///
/// # Errors
/// Returns a description of the problem.
pub fn parse_report(answer: &Value, hash: B256, chain_id: u64) -> Result<Option<ServiceReport>, &'static str> {
    let orders = answer.get("orders").and_then(Value::as_array).ok_or("not a list of orders")?;
    let order_id = |order: &Value| order.get("orderId").and_then(Value::as_str).and_then(|id| B256::from_str(id).ok());
    let Some(order) = orders.iter().find(|order| order_id(order) == Some(hash)) else { return Ok(None) };
    let text = |name: &str| order.get(name).and_then(Value::as_str);
    if order.get("chainId").and_then(Value::as_u64) != Some(chain_id) {
        return Err("an order of another chain");
    }
    let status = text("orderStatus").and_then(ServiceStatus::parse_name).ok_or("an unknown status")?;
    let kind = text("type").and_then(OrderKind::named).ok_or("an unknown kind of order")?;
    let encoded = text("encodedOrder").and_then(|text| hex::decode(text).ok()).ok_or("no encoded order")?;
    let cosigned = UniswapXOrder::decode(kind, &encoded).map_err(|_| "an unreadable encoded order")?;
    if cosigned.hash() != hash {
        return Err("a different order under this id");
    }
    let transaction = match text("txHash") {
        Some(text) => Some(B256::from_str(text).map_err(|_| "an invalid transaction hash")?),
        None => None,
    };
    let best_bid = order.get("bestBid").and_then(parse_bid);
    let fillers = order.get("fillers").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let names = fillers.iter().take(MAX_NAMES).filter_map(filler_name).collect();
    Ok(Some(ServiceReport { status, cosigned: Some(cosigned), transaction, best_bid, names }))
}

/// Parses a filler's address and name, which only a devnet's service reports.
fn filler_name(value: &Value) -> Option<(Address, SafeText)> {
    let text = |name: &str| value.get(name).and_then(Value::as_str);
    Some((Address::from_str(text("filler")?).ok()?, SafeText::clean(text("name")?, 40)))
}

/// Parses a bid, which only a devnet's service reports.
fn parse_bid(value: &Value) -> Option<BestBid> {
    let text = |name: &str| value.get(name).and_then(Value::as_str);
    Some(BestBid {
        filler: Address::from_str(text("filler")?).ok()?,
        name: SafeText::clean(text("name").unwrap_or_default(), 40),
        output: U256::from_str(text("output")?).ok()?,
    })
}

impl OrderGateway for HttpOrders {
    fn name(&self) -> &str {
        "the order service"
    }

    fn submit<'a>(
        &'a self,
        order: &'a UniswapXOrder,
        signature: &'a Bytes,
    ) -> BoxFuture<'a, Result<B256, ServiceError>> {
        Box::pin(async move {
            let answer = self.service.post("/order", &submission(self.chain_id, order, signature)).await?;
            let id = answer.get("orderId").and_then(Value::as_str).and_then(|id| B256::from_str(id).ok());
            id.ok_or_else(|| ServiceError::InvalidResponse(SafeText::clean("a response without an order id", 60)))
        })
    }

    fn poll_interval(&self) -> Duration {
        POLL_INTERVAL
    }

    fn order_report(&self, hash: B256) -> BoxFuture<'_, Result<Option<ServiceReport>, ServiceError>> {
        Box::pin(async move {
            let path = format!("/orders?orderId={hash}");
            match self.service.get(&path).await? {
                None => Ok(None),
                Some(answer) => parse_report(&answer, hash, self.chain_id)
                    .map_err(|problem| ServiceError::InvalidResponse(SafeText::clean(problem, 100))),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uniswap::order::{AuctionTerms, OrderAmounts, OrderDraft};

    #[test]
    fn an_invalid_answer_differs_from_an_unknown_order() {
        let hash = B256::repeat_byte(7);
        let parse = |value: Value| parse_report(&value, hash, 31_337);
        assert_eq!(parse(json!({"orders": []})), Ok(None));
        assert_eq!(parse(json!({"orders": [{"orderId": B256::ZERO}]})), Ok(None));
        let with = |change: Value| {
            let mut order = json!({
                "orderId": hash, "chainId": 31_337, "orderStatus": "open", "type": "Dutch_V2", "encodedOrder": "0x00",
            });
            order.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            json!({ "orders": [order] })
        };
        for (change, wanted) in [
            (json!({"chainId": 1}), "another chain"),
            (json!({"orderStatus": "done"}), "status"),
            (json!({"type": "Dutch_V9"}), "kind"),
            (json!({"encodedOrder": 7}), "no encoded order"),
            (json!({"encodedOrder": "0xzz"}), "no encoded order"),
            (json!({}), "unreadable"),
        ] {
            assert!(parse(with(change.clone())).unwrap_err().contains(wanted), "{change}");
        }
        for value in [json!(null), json!([]), json!({"orders": "none"})] {
            assert!(parse(value).is_err());
        }
    }

    #[test]
    fn an_encoded_order_counts_only_under_its_own_hash() {
        let draft = OrderDraft {
            reactor: Address::repeat_byte(1),
            swapper: Address::repeat_byte(2),
            recipient: Address::repeat_byte(2),
            nonce: U256::from(4),
            deadline: 2_000_000_000,
            cosigner: Address::repeat_byte(5),
            token_in: Address::repeat_byte(6),
            token_out: Address::repeat_byte(7),
            legs: OrderAmounts::ExactIn {
                amount_in: U256::from(8),
                start_out: U256::from(9),
                least_out: U256::from(1),
            },
            auction: AuctionTerms::CosignedTimes,
        };
        let order = draft.order().unwrap();
        let answer = |id: B256, more: Value| {
            let mut entry = json!({
                "orderId": id, "chainId": 31_337, "orderStatus": "filled", "type": "Dutch_V2",
                "encodedOrder": hex::encode_prefixed(order.encode()),
            });
            entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({ "orders": [entry] })
        };
        let hash = order.hash();
        let report =
            parse_report(&answer(hash, json!({"txHash": B256::repeat_byte(3)})), hash, 31_337).unwrap().unwrap();
        assert_eq!((report.status, report.transaction), (ServiceStatus::Filled, Some(B256::repeat_byte(3))));
        assert_eq!(report.cosigned.unwrap().hash(), hash);
        let other = B256::repeat_byte(9);
        assert_eq!(parse_report(&answer(other, json!({})), other, 31_337), Err("a different order under this id"));
        assert_eq!(
            parse_report(&answer(hash, json!({"txHash": "0x12"})), hash, 31_337),
            Err("an invalid transaction hash")
        );
    }
}
