//! Client for Uniswap's Trading API: quotes, order quotes, approvals, calls and swap states. Orders are submitted and
//! polled through `service`.
//!
//! Requests are limited to three per second. Answers are parsed strictly (`claim`, `trading::read`), recomputed by our
//! own code and compared; no byte of them is signed.

mod read;

use std::fmt::Write as _;

use alloy::primitives::{B256, U256};
use futures::future::BoxFuture;
use secrecy::SecretString;
use serde_json::{Value, json};

pub use read::{SwapStatus, approval, call, order, permit, swaps};

use super::claim;
use super::order::OrderKind;
use super::pool::FixedAmount;
use super::quote::{
    ApprovalQuery, BuiltCall, OrderQuery, QuoteError, QuoteRequest, QuoteSource, QuotedRoute, SourceApproval,
    SourceAuction, SourceClaim, rebuilt,
};
use super::router::RouterVersion;
use bardo_base::service::{ServiceError, ServiceRefusal};
use bardo_base::text::SafeText;
use bardo_base::units::BasisPoints;
use golem_chain::service::{JsonService, ServiceUrlError};

/// Public base URL of the API.
pub const PUBLIC: &str = "https://trade-api.gateway.uniswap.org/v1";
/// Limit of requests per second that the API allows.
const PER_SECOND: usize = 3;
/// Header with the router's input encoding.
const ROUTER_VERSION: &str = "x-universal-router-version";
/// Display name of the API.
const NAME: &str = "the Uniswap Trading API";

/// Client for Uniswap's Trading API. Clones share the rate limit.
#[derive(Debug, Clone)]
pub struct TradingApi {
    service: JsonService,
}

impl TradingApi {
    /// Creates a client for the API at `base`, or at its public URL, with `key`.
    ///
    /// # Errors
    /// [`ServiceUrlError`] for a base that is neither https nor on this machine, or a key that does not fit into a
    /// header.
    pub fn new(base: Option<&str>, key: &SecretString) -> Result<Self, ServiceUrlError> {
        Ok(Self::over(JsonService::new(base.unwrap_or(PUBLIC))?.with_key(key)?))
    }

    /// Creates a client over `service`, with its timeouts and key.
    pub fn over(service: JsonService) -> Self {
        Self { service: service.at_most(PER_SECOND) }
    }

    /// Returns the underlying service, for order submissions under the same rate limit.
    pub fn service(&self) -> &JsonService {
        &self.service
    }

    async fn ask(&self, path: &str, body: &Value) -> Result<Value, QuoteError> {
        self.service.ask(path, body).await.map_err(failed)
    }

    /// Sends a request about a call of a router with this input encoding. All requests about one swap must use the same
    /// one.
    async fn ask_of(&self, version: RouterVersion, path: &str, body: &Value) -> Result<Value, QuoteError> {
        self.service.ask_with(path, body, Some((ROUTER_VERSION, version.name()))).await.map_err(failed)
    }

    /// Returns the API's states of transactions. Each hash occurs at most once, and only requested hashes occur.
    ///
    /// # Errors
    /// Returns a [`ServiceError`], also for an invalid answer.
    pub async fn swaps(&self, chain_id: u64, hashes: &[B256]) -> Result<Vec<(B256, SwapStatus)>, ServiceError> {
        let mut path = format!("/swaps?chainId={chain_id}&txHashes=");
        for (at, hash) in hashes.iter().enumerate() {
            // Writing to a string cannot fail.
            let _ = write!(path, "{}{hash}", if at == 0 { "" } else { "," });
        }
        let Some(answer) = self.service.get(&path).await? else { return Ok(Vec::new()) };
        swaps(&answer, hashes).map_err(|why| ServiceError::InvalidResponse(SafeText::clean(why, 100)))
    }
}

fn failed(error: ServiceError) -> QuoteError {
    QuoteError::Service { name: NAME, error }
}

/// Converts a tolerance to the API's format: percent with two decimals.
fn percent(slippage: BasisPoints) -> f64 {
    f64::from(slippage.get()) / 100.0
}

/// Builds the request for a swap through pools.
fn classic_question(ask: &QuoteRequest<'_>) -> Value {
    let asked = ask.claim_request_with_native();
    let (kind, amount) = match asked.exact {
        FixedAmount::In(amount) => ("EXACT_INPUT", amount),
        FixedAmount::Out(amount) => ("EXACT_OUTPUT", amount),
    };
    json!({
        "type": kind,
        "amount": amount.to_string(),
        "tokenInChainId": ask.chain_id,
        "tokenOutChainId": ask.chain_id,
        "tokenIn": asked.token_in,
        "tokenOut": asked.token_out,
        "swapper": ask.swapper,
        "slippageTolerance": percent(ask.slippage),
        "protocols": ["V2", "V3"],
        "routingPreference": "BEST_PRICE",
        "permitAmount": "EXACT",
    })
}

/// Builds the request for an order quote.
fn order_question(ask: &OrderQuery) -> Value {
    let protocol = match ask.kind {
        OrderKind::DutchV3 => "UNISWAPX_V3",
        OrderKind::Dutch | OrderKind::DutchV2 | OrderKind::Priority => "UNISWAPX_V2",
    };
    json!({
        "type": "EXACT_INPUT",
        "amount": ask.amount_in.to_string(),
        "tokenInChainId": ask.chain_id,
        "tokenOutChainId": ask.chain_id,
        "tokenIn": ask.token_in,
        "tokenOut": ask.token_out,
        "swapper": ask.swapper,
        "slippageTolerance": percent(ask.slippage),
        "protocols": [protocol],
        "routingPreference": "BEST_PRICE",
        "permitAmount": "EXACT",
    })
}

impl QuoteSource for TradingApi {
    fn name(&self) -> &'static str {
        NAME
    }

    fn quote<'a>(&'a self, ask: &'a QuoteRequest<'a>) -> BoxFuture<'a, Result<QuotedRoute, QuoteError>> {
        Box::pin(async move {
            let answer = self.ask_of(ask.router_version, "/quote", &classic_question(ask)).await?;
            let asked = ask.claim_request_with_native();
            let routing = answer.get("routing").and_then(Value::as_str).unwrap_or("nothing");
            if routing != "CLASSIC" {
                let why = format!("it was asked for a swap through pools, but returned {routing}");
                return Err(QuoteError::refused(NAME, why));
            }
            let quote = answer.get("quote").cloned().unwrap_or_default();
            let claim = super::quote::read(NAME, claim::parse(&quote, &asked))?;
            let permit = answer.get("permitData").unwrap_or(&Value::Null);
            let permit = self::permit(permit, &asked, ask.permit2, ask.routers);
            let permit = permit.map_err(|wrong| QuoteError::refused(NAME, wrong))?;
            rebuilt(NAME, ask, claim, permit, quote).await
        })
    }

    fn check_call<'a>(
        &'a self,
        claim: &'a SourceClaim,
        own: &'a BuiltCall<'a>,
    ) -> BoxFuture<'a, Result<bool, QuoteError>> {
        Box::pin(async move {
            let answer = self.ask_of(own.version, "/swap", &json!({ "quote": &*claim.words })).await?;
            call(answer.get("swap").unwrap_or(&Value::Null), own).map_err(|wrong| QuoteError::refused(NAME, wrong))?;
            Ok(true)
        })
    }

    fn approval<'a>(&'a self, ask: &'a ApprovalQuery) -> BoxFuture<'a, Result<Option<SourceApproval>, QuoteError>> {
        Box::pin(async move {
            let body = json!({
                "walletAddress": ask.owner,
                "token": ask.token,
                "amount": ask.amount.to_string(),
                "chainId": ask.chain_id,
            });
            let answer = self.ask("/check_approval", &body).await?;
            approval(&answer, ask).map(Some).map_err(|wrong| QuoteError::refused(NAME, wrong))
        })
    }

    fn order<'a>(&'a self, ask: &'a OrderQuery) -> BoxFuture<'a, Result<Option<SourceAuction>, QuoteError>> {
        Box::pin(async move {
            let answer = match self.ask("/quote", &order_question(ask)).await {
                // The absence of a filler's quote is a valid answer.
                Err(QuoteError::Service { error, .. })
                    if matches!(error.refusal(), Some(ServiceRefusal::NoRoute | ServiceRefusal::TooLittle)) =>
                {
                    return Ok(None);
                }
                other => other?,
            };
            let routing = answer.get("routing").and_then(Value::as_str).unwrap_or("nothing");
            match routing {
                "CLASSIC" => Ok(None),
                said if said == ask.kind.name() => {
                    let quote = answer.get("quote").unwrap_or(&Value::Null);
                    order(quote, ask).map(Some).map_err(|wrong| QuoteError::refused(NAME, wrong))
                }
                other => {
                    let why = format!("it was asked for a {} order, but returned {other}", ask.kind);
                    Err(QuoteError::refused(NAME, why))
                }
            }
        })
    }
}

/// Parses an amount of a transaction: decimal digits, or hexadecimal digits after 0x.
pub(super) fn wei(value: Option<&Value>) -> Option<U256> {
    let text = value.and_then(Value::as_str).filter(|text| (1..=78).contains(&text.len()))?;
    match text.strip_prefix("0x") {
        Some("") => None,
        Some(digits) => U256::from_str_radix(digits, 16).ok(),
        None => text.bytes().all(|byte| byte.is_ascii_digit()).then(|| U256::from_str_radix(text, 10).ok()).flatten(),
    }
}
