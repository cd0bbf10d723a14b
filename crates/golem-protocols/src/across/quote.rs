//! Quotes in the form of Across's API: `GET /suggested-fees` with chains, tokens and amount in, the fee and the time of the
//! quote out. Everything in the answer is a claim: what can be compared is compared here, and the amount is bounded by the
//! caller.
//!
//! Not used from the answer: an exclusive relayer, a message, a recipient, calldata. A deposit has none of the first two, and is
//! encoded here for its own account.

use std::fmt;
use std::str::FromStr;

use alloy::primitives::{Address, U256};
use futures::future::BoxFuture;
use serde_json::{Value, json};

use bardo_base::service::ServiceError;
use bardo_base::text::SafeText;
use golem_chain::service::JsonService;

/// Longest estimate of a fill's time that is believed, in seconds: a day.
const LONGEST_FILL: u64 = 86_400;

/// Route and amount that a quote is requested for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeeRequest {
    /// EIP-155 id of the chain of the deposit.
    pub origin_chain_id: u64,
    /// EIP-155 id of the chain of the fill.
    pub destination_chain_id: u64,
    /// Token that is deposited.
    pub input_token: Address,
    /// Token that is received.
    pub output_token: Address,
    /// Amount that is deposited, in raw units.
    pub amount: U256,
    /// Pool of the deposit, by the address book.
    pub pool: Address,
    /// Pool of the fill, by the address book.
    pub destination_pool: Address,
}

/// Quote that agrees with its request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeeQuote {
    /// Amount that relayers would deliver, in raw units of the output token. Not more than a claim.
    pub output_amount: U256,
    /// Time of the quote, in seconds since the Unix epoch.
    pub timestamp: u32,
    /// Claimed time until the fill, in seconds.
    pub fill_seconds: u64,
    /// Least deposit in raw units; `None` if the service names none.
    pub least: Option<U256>,
    /// Largest deposit in raw units; `None` if the service names none.
    pub most: Option<U256>,
}

/// Reason why an answer is not a quote for its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuoteFault {
    /// A field is missing or unreadable.
    #[error("its field `{0}` is missing or unreadable")]
    Field(&'static str),
    /// A field differs from the request or the address book.
    #[error("its `{0}` is another than was asked about")]
    Another(&'static str),
    /// The fee is larger than the amount.
    #[error("its fee takes the whole amount")]
    TakesAll,
    /// The amount is too small.
    #[error("the amount is too small for a relayer")]
    TooLow,
}

/// Service that quotes deposits.
pub trait FeeGateway: fmt::Debug + Send + Sync {
    /// Name of the service, shown with its statements.
    fn name(&self) -> &str;

    /// Asks for a quote. It binds nobody.
    ///
    /// # Errors
    /// The service's error; [`ServiceError::InvalidResponse`] for an answer that does not fit the request.
    fn suggested_fees<'a>(&'a self, request: &'a FeeRequest) -> BoxFuture<'a, Result<FeeQuote, ServiceError>>;
}

/// Across's API, or a service of its form.
#[derive(Debug, Clone)]
pub struct HttpFees {
    service: JsonService,
}

impl HttpFees {
    /// Creates a client for the service at `service`, whose paths end in `/suggested-fees`.
    pub fn new(service: JsonService) -> Self {
        Self { service }
    }
}

impl FeeGateway for HttpFees {
    fn name(&self) -> &str {
        "the Across API"
    }

    fn suggested_fees<'a>(&'a self, request: &'a FeeRequest) -> BoxFuture<'a, Result<FeeQuote, ServiceError>> {
        Box::pin(async move {
            let FeeRequest { origin_chain_id, destination_chain_id, input_token, output_token, amount, .. } = request;
            let path = format!(
                "/suggested-fees?inputToken={input_token}&outputToken={output_token}&originChainId={origin_chain_id}\
                 &destinationChainId={destination_chain_id}&amount={amount}"
            );
            let answer = self.service.get(&path).await?;
            let answer = answer.ok_or_else(|| refused("the service does not know this route"))?;
            read(&answer, request).map_err(|fault| match fault {
                QuoteFault::TooLow => refused(&fault.to_string()),
                QuoteFault::Field(_) | QuoteFault::Another(_) | QuoteFault::TakesAll => ServiceError::InvalidResponse(
                    SafeText::clean(&format!("a quote that cannot be used: {fault}"), 200),
                ),
            })
        })
    }
}

fn refused(what: &str) -> ServiceError {
    ServiceError::Refused(SafeText::clean(what, 200))
}

/// Number in an answer, as text or as a JSON integer.
fn number<T: FromStr + TryFrom<u64>>(value: &Value) -> Option<T> {
    match value {
        Value::String(text) if text.len() <= 80 && text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok(),
        Value::Number(number) => T::try_from(number.as_u64()?).ok(),
        _ => None,
    }
}

/// Reads the answer to a request. Fields that newer and older services leave out may be missing; those that are there must
/// agree.
///
/// # Errors
/// [`QuoteFault`] for the first field that is missing, unreadable or another than asked for.
pub fn read(answer: &Value, request: &FeeRequest) -> Result<FeeQuote, QuoteFault> {
    let address = |name: &'static str, value: &Value| -> Result<Address, QuoteFault> {
        value.as_str().and_then(|text| Address::from_str(text).ok()).ok_or(QuoteFault::Field(name))
    };
    let is = |name: &'static str, found: bool| if found { Ok(()) } else { Err(QuoteFault::Another(name)) };
    let pool = answer.get("spokePoolAddress").ok_or(QuoteFault::Field("spokePoolAddress"))?;
    is("spokePoolAddress", address("spokePoolAddress", pool)? == request.pool)?;
    if let Some(pool) = answer.get("destinationSpokePoolAddress") {
        let found = address("destinationSpokePoolAddress", pool)?;
        is("destinationSpokePoolAddress", found == request.destination_pool)?;
    }
    for (name, token, chain) in [
        ("inputToken", request.input_token, request.origin_chain_id),
        ("outputToken", request.output_token, request.destination_chain_id),
    ] {
        let Some(told) = answer.get(name) else { continue };
        let at = told.get("address").ok_or(QuoteFault::Field(name))?;
        is(name, address(name, at)? == token)?;
        if let Some(id) = told.get("chainId") {
            is(name, number::<u64>(id) == Some(chain))?;
        }
    }
    for (name, expected) in
        [("originChainId", request.origin_chain_id), ("destinationChainId", request.destination_chain_id)]
    {
        if let Some(id) = answer.get(name) {
            is(name, number::<u64>(id) == Some(expected))?;
        }
    }
    if let Some(amount) = answer.get("inputAmount") {
        is("inputAmount", number::<U256>(amount) == Some(request.amount))?;
    }
    match answer.get("isAmountTooLow") {
        None | Some(Value::Bool(false)) => {}
        Some(Value::Bool(true)) => return Err(QuoteFault::TooLow),
        Some(_) => return Err(QuoteFault::Field("isAmountTooLow")),
    }
    let timestamp = answer.get("timestamp").and_then(number::<u64>).and_then(|time| u32::try_from(time).ok());
    let timestamp = timestamp.ok_or(QuoteFault::Field("timestamp"))?;
    let fee = answer.get("totalRelayFee").and_then(|fee| fee.get("total")).and_then(number::<U256>);
    let output_amount = match (answer.get("outputAmount"), fee) {
        (Some(output), _) => number::<U256>(output).ok_or(QuoteFault::Field("outputAmount"))?,
        // The fee is in units of the input token, so that this holds only where both tokens have the same decimals; the caller
        // compares the amount's value in any case.
        (None, Some(fee)) => request.amount.checked_sub(fee).ok_or(QuoteFault::TakesAll)?,
        (None, None) => return Err(QuoteFault::Field("totalRelayFee")),
    };
    if output_amount.is_zero() {
        return Err(QuoteFault::TakesAll);
    }
    let limits = answer.get("limits");
    let limit = |name: &'static str| match limits.and_then(|limits| limits.get(name)) {
        None => Ok(None),
        Some(value) => number::<U256>(value).map(Some).ok_or(QuoteFault::Field("limits")),
    };
    let fill_seconds = match answer.get("estimatedFillTimeSec") {
        None => 0,
        Some(value) => number::<u64>(value).ok_or(QuoteFault::Field("estimatedFillTimeSec"))?.min(LONGEST_FILL),
    };
    Ok(FeeQuote { output_amount, timestamp, fill_seconds, least: limit("minDeposit")?, most: limit("maxDeposit")? })
}

/// Serializes a quote as the service of a devnet answers it.
pub fn quote_json(request: &FeeRequest, quote: &FeeQuote) -> Value {
    let token = |address: Address, chain_id: u64| json!({ "address": address, "chainId": chain_id });
    let limits = |amount: Option<U256>| amount.unwrap_or_default().to_string();
    json!({
        "spokePoolAddress": request.pool,
        "destinationSpokePoolAddress": request.destination_pool,
        "inputToken": token(request.input_token, request.origin_chain_id),
        "outputToken": token(request.output_token, request.destination_chain_id),
        "inputAmount": request.amount.to_string(),
        "outputAmount": quote.output_amount.to_string(),
        "timestamp": quote.timestamp.to_string(),
        "estimatedFillTimeSec": quote.fill_seconds,
        "isAmountTooLow": false,
        "exclusiveRelayer": Address::ZERO,
        "exclusivityDeadline": 0,
        "limits": { "minDeposit": limits(quote.least), "maxDeposit": limits(quote.most) },
    })
}
