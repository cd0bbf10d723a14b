//! HTTP client for a filler network. No standard protocol exists, so this one is our own: `POST /intents/quote`
//! requests bids, `POST /intents` submits a signed intent, `GET /intents/ID` returns its bids.

use std::str::FromStr as _;

use alloy::primitives::{Address, B256, Bytes, U256};
use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::CrossChainIntent;
use super::gateway::{BidRequest, IntentGateway, RelayerBid};
use bardo_base::service::ServiceError;
use bardo_base::text::SafeText;
use golem_chain::service::JsonService;

/// Maximum number of bids that are read.
const MOST_BIDS: usize = 32;

/// Filler network over HTTP.
#[derive(Debug, Clone)]
pub struct HttpIntents {
    service: JsonService,
}

impl HttpIntents {
    /// Creates a client for the network at `service`.
    pub fn new(service: JsonService) -> Self {
        Self { service }
    }
}

/// Serializes a request for bids.
pub fn bid_request_json(request: &BidRequest) -> Value {
    json!({
        "originChainId": request.origin_chain_id,
        "destinationChainId": request.destination_chain_id,
        "tokenIn": request.token_in,
        "amountIn": request.amount_in.to_string(),
        "tokenOut": request.token_out,
    })
}

/// Serializes a bid.
pub fn bid_json(bid: &RelayerBid) -> Value {
    json!({
        "filler": bid.relayer, "name": bid.name, "output": bid.output.to_string(), "seconds": bid.seconds,
        "chosen": bid.chosen,
    })
}

/// Parses the bids of an answer.
///
/// # Errors
/// Returns a description of the problem.
pub fn bids(answer: &Value) -> Result<Vec<RelayerBid>, &'static str> {
    let bids = answer.get("bids").and_then(Value::as_array).ok_or("not a list of bids")?;
    bids.iter()
        .take(MOST_BIDS)
        .map(|bid| {
            let text = |name: &str| bid.get(name).and_then(Value::as_str);
            let read = || {
                Some(RelayerBid {
                    relayer: Address::from_str(text("filler")?).ok()?,
                    name: SafeText::clean(text("name").unwrap_or_default(), 40),
                    output: U256::from_str(text("output")?).ok()?,
                    seconds: bid.get("seconds").and_then(Value::as_u64)?,
                    chosen: bid.get("chosen").and_then(Value::as_bool).unwrap_or(false),
                })
            };
            read().ok_or("an unreadable bid")
        })
        .collect()
}

fn invalid(what: &str) -> ServiceError {
    ServiceError::InvalidResponse(SafeText::clean(what, 100))
}

impl IntentGateway for HttpIntents {
    fn name(&self) -> &str {
        "the filler network"
    }

    fn quote<'a>(&'a self, asked: &'a BidRequest) -> BoxFuture<'a, Result<Vec<RelayerBid>, ServiceError>> {
        Box::pin(async move {
            let answer = self.service.post("/intents/quote", &bid_request_json(asked)).await?;
            bids(&answer).map_err(invalid)
        })
    }

    fn submit<'a>(
        &'a self,
        intent: &'a CrossChainIntent,
        signature: &'a Bytes,
    ) -> BoxFuture<'a, Result<B256, ServiceError>> {
        Box::pin(async move {
            let body = json!({ "encodedOrder": intent.encode(), "signature": signature });
            let answer = self.service.post("/intents", &body).await?;
            let id = answer.get("intentId").and_then(Value::as_str).and_then(|id| B256::from_str(id).ok());
            id.ok_or_else(|| invalid("a response without an intent id"))
        })
    }

    fn bids(&self, id: B256) -> BoxFuture<'_, Result<Option<Vec<RelayerBid>>, ServiceError>> {
        Box::pin(async move {
            match self.service.get(&format!("/intents/{id}")).await? {
                None => Ok(None),
                Some(answer) => {
                    // If the answer names an intent, it must be the requested one.
                    let named = answer.get("intentId").filter(|named| !named.is_null());
                    let named = named.map(|named| named.as_str().and_then(|named| B256::from_str(named).ok()));
                    if named.is_some_and(|named| named != Some(id)) {
                        return Err(invalid("the bids for another intent"));
                    }
                    bids(&answer).map(Some).map_err(invalid)
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bid_is_parsed_completely_or_rejected() {
        let filler = Address::repeat_byte(7);
        let bid = |change: Value| {
            let mut bid = json!({"filler": filler, "name": "Quick\u{202e}", "output": "1000", "seconds": 12});
            bid.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            json!({ "bids": [bid] })
        };
        let good = bids(&bid(json!({}))).unwrap();
        let told: Vec<_> = good.iter().map(|one| (one.relayer, one.output, one.seconds, one.chosen)).collect();
        assert_eq!(told, [(filler, U256::from(1_000), 12, false)]);
        assert_eq!(good[0].name.as_str(), "Quick\u{fffd}", "what cannot be seen is marked");
        for change in [
            json!({"filler": "0x12"}),
            json!({"filler": null}),
            json!({"output": "many"}),
            json!({"output": "-1"}),
            json!({"output": 1_000}),
            json!({"seconds": "soon"}),
            json!({"seconds": -1}),
        ] {
            assert_eq!(bids(&bid(change.clone())), Err("an unreadable bid"), "{change}");
        }
        for value in [json!(null), json!([]), json!({"bids": "none"})] {
            assert_eq!(bids(&value), Err("not a list of bids"));
        }
        let flood = json!({"bids": vec![bid(json!({}))["bids"][0].clone(); MOST_BIDS + 1]});
        assert_eq!(bids(&flood).unwrap().len(), MOST_BIDS);
    }
}
