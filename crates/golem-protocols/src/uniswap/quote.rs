//! Quote sources: Bardo's own router, unless another source is configured.
//!
//! The answer of another source is a claim about pools and their shares. [`rebuilt`] recomputes it from the pools'
//! state on chain and compares it with the own router's result. A claim that does not hold is refused with the reason,
//! never corrected. Nothing that a source encodes is ever signed.

use std::fmt;
use std::sync::Arc;

use alloy::eips::BlockId;
use alloy::primitives::{Address, U256, U512, address};
use futures::future::BoxFuture;
use serde_json::Value;

use super::claim::{ClaimMismatch, ClaimRequest, QuoteClaim};
use super::discovery::{DiscoveryError, PoolReader, PoolSnapshot};
use super::order::OrderKind;
use super::pool::FixedAmount;
use super::router::{RouterExecution, RouterVersion};
use super::routing::{Route, RouteError, RouteRequest};
use bardo_base::service::ServiceError;
use bardo_base::text::SafeText;
use bardo_base::units::BasisPoints;
use golem_chain::permit2::PermitSingle;

/// Placeholder account for services that require one when no wallet is set up. Nobody has its key.
pub const NOBODY: Address = address!("0x000000000000000000000000000000000000dEaD");

/// Tolerance of a claim above the recomputed amount, in basis points: a few blocks may lie between the two reads.
const CLAIM_TOLERANCE: i32 = 50;

/// Maximum disadvantage of a source's route against the own router's, in basis points.
const WORST: i32 = 100;

/// Error in obtaining a quote.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuoteError {
    /// Configured source that is not available.
    #[error("{name} is selected for quotes, but cannot be used: {why}")]
    Absent {
        /// Name of the source.
        name: &'static str,
        /// Reason for its absence.
        why: &'static str,
    },
    /// Source that failed or found no quote.
    #[error("{name} returned no quote: {error}")]
    Service {
        /// Name of the source.
        name: &'static str,
        /// Error of the service.
        error: ServiceError,
    },
    /// Claim that does not hold.
    #[error("the response of {name} is rejected: {why}")]
    Refused {
        /// Name of the source.
        name: &'static str,
        /// Reason for the refusal.
        why: SafeText,
    },
    /// Error in reading pools, or no route.
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
}

impl QuoteError {
    /// Builds the refusal of a claim by the source `name`.
    pub fn refused(name: &'static str, why: impl fmt::Display) -> Self {
        Self::Refused { name, why: SafeText::clean(&why.to_string(), 300) }
    }
}

/// Quote request for a source.
#[derive(Debug)]
pub struct QuoteRequest<'a> {
    /// Pool reader of the chain.
    pub pools: &'a PoolReader,
    /// Tokens and amount. The native token is given as its wrapped token.
    pub request: &'a RouteRequest,
    /// True for input and output, respectively, if it is the native token itself.
    pub coin: [bool; 2],
    /// Block for the computation.
    pub block: BlockId,
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// Account that trades; [`NOBODY`] without a wallet.
    pub swapper: Address,
    /// Decimals of the input and the output token.
    pub decimals: [u8; 2],
    /// Slippage tolerance of the amount that is not fixed.
    pub slippage: BasisPoints,
    /// Permit2 contract of the chain, if its address book contains one.
    pub permit2: Option<Address>,
    /// Routers that a permit may name as spender.
    pub routers: &'a [Address],
    /// Input encoding of the router that would be called.
    pub router_version: RouterVersion,
}

impl QuoteRequest<'_> {
    /// Returns the values that an answer must repeat.
    pub fn claim_request(&self) -> ClaimRequest {
        let RouteRequest { token_in, token_out, exact, .. } = *self.request;
        ClaimRequest { chain_id: self.chain_id, token_in, token_out, exact, swapper: self.swapper }
    }

    /// Returns the same values for a service that represents the native token by the zero address. Only then does its
    /// call wrap and unwrap.
    pub fn claim_request_with_native(&self) -> ClaimRequest {
        let asked = self.claim_request();
        let [paid, received] = self.coin;
        ClaimRequest {
            token_in: if paid { Address::ZERO } else { asked.token_in },
            token_out: if received { Address::ZERO } else { asked.token_out },
            ..asked
        }
    }
}

/// Locally computed route, with its source's claim.
#[derive(Debug, Clone)]
pub struct QuotedRoute {
    /// Route with locally computed amounts.
    pub route: Route,
    /// Pools that the route was computed on.
    pub snapshot: Arc<PoolSnapshot>,
    /// Claim of the source; `None` for the own router.
    pub claim: Option<SourceClaim>,
}

/// Claim of another source, compared with the local computation.
#[derive(Debug, Clone)]
pub struct SourceClaim {
    /// Claimed amount of the side that is not fixed, in raw units.
    pub claimed: U256,
    /// Same amount by the own router on the same pools; `None` if it finds no route.
    pub own: Option<U256>,
    /// Advantage of the source's route over the own router's after gas, in basis points; negative if it is worse.
    pub ahead_bps: Option<i32>,
    /// Permit2 permit that the source considers necessary. Parsed and checked, never signed from here.
    pub permit: Option<PermitSingle>,
    /// Original answer of the source, for follow-up requests to it. It is not parsed again here.
    pub words: Arc<Value>,
}

/// Call built by Bardo, for comparison with the call that a source would build.
#[derive(Debug)]
pub struct BuiltCall<'a> {
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// Account that calls and receives.
    pub account: Address,
    /// Address of the router.
    pub router: Address,
    /// Input encoding of the router.
    pub version: RouterVersion,
    /// Native tokens sent with the call, in wei.
    pub value: U256,
    /// Commands of the call.
    pub execution: &'a RouterExecution,
    /// Pools on the route. One pool may receive the previous pool's output directly.
    pub pools: &'a [Address],
}

/// Query about an approval.
#[derive(Debug, Clone, Copy)]
pub struct ApprovalQuery {
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// Owner of the tokens.
    pub owner: Address,
    /// Token to approve.
    pub token: Address,
    /// Amount to be taken, in raw units.
    pub amount: U256,
    /// Permit2 contract of the chain, the spender of the approval.
    pub permit2: Address,
}

/// Answer of a source about an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceApproval {
    /// The existing allowance suffices.
    Enough,
    /// Permit2 needs an allowance first.
    Needed {
        /// Required allowance, in raw units.
        amount: U256,
        /// True if the existing allowance must be reset to zero first.
        cancel_first: bool,
    },
}

/// Query about an auction order.
#[derive(Debug, Clone, Copy)]
pub struct OrderQuery {
    /// Kind of the order.
    pub kind: OrderKind,
    /// EIP-155 id of the chain.
    pub chain_id: u64,
    /// Current time, in seconds since the Unix epoch.
    pub now: u64,
    /// Account that would sign and receive.
    pub swapper: Address,
    /// Reactor of the order kind.
    pub reactor: Address,
    /// Cosigner of the order service.
    pub cosigner: Address,
    /// Address of the input token.
    pub token_in: Address,
    /// Output token; the zero address is the native token.
    pub token_out: Address,
    /// Input amount, in raw units.
    pub amount_in: U256,
    /// Maximum distance of the order's end below its start.
    pub slippage: BasisPoints,
}

/// Auction amounts of a source, read from an order that it encoded and that our own builder encodes identically.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceAuction {
    /// Output at the start, in raw units.
    pub start_out: U256,
    /// Minimum output, in raw units.
    pub least_out: U256,
}

/// Source of swap quotes.
pub trait QuoteSource: fmt::Debug + Send + Sync {
    /// Name of the source, shown with its quotes.
    fn name(&self) -> &'static str;

    /// Returns the route for a request, computed over the pools it was found on.
    ///
    /// # Errors
    /// Returns a [`QuoteError`] if there is no route, or the claim does not hold.
    fn quote<'a>(&'a self, ask: &'a QuoteRequest<'a>) -> BoxFuture<'a, Result<QuotedRoute, QuoteError>>;

    /// Requests the source's call for the quote it `claim`, and compares it with our own call. Returns true if the
    /// source was asked.
    ///
    /// # Errors
    /// Returns a [`QuoteError`] if the calls differ in payer, recipient or amounts, or if the service fails.
    fn check_call<'a>(
        &'a self,
        claim: &'a SourceClaim,
        own: &'a BuiltCall<'a>,
    ) -> BoxFuture<'a, Result<bool, QuoteError>> {
        let _ = (claim, own);
        Box::pin(async { Ok(false) })
    }

    /// Asks the source about an approval; `None` if it does not support this.
    ///
    /// # Errors
    /// Returns a [`QuoteError`] if the service fails or its answer is invalid.
    fn approval<'a>(&'a self, ask: &'a ApprovalQuery) -> BoxFuture<'a, Result<Option<SourceApproval>, QuoteError>> {
        let _ = ask;
        Box::pin(async { Ok(None) })
    }

    /// Asks the source for its fillers' price for an order; `None` if no filler quotes or it does not support this.
    ///
    /// # Errors
    /// Returns a [`QuoteError`] if the service fails or its answer is invalid.
    fn order<'a>(&'a self, ask: &'a OrderQuery) -> BoxFuture<'a, Result<Option<SourceAuction>, QuoteError>> {
        let _ = ask;
        Box::pin(async { Ok(None) })
    }
}

/// Bardo's own router over the pools' state on chain.
#[derive(Debug, Clone, Copy, Default)]
pub struct LocalRouter;

impl QuoteSource for LocalRouter {
    fn name(&self) -> &'static str {
        "Bardo's own router over on-chain pools"
    }

    fn quote<'a>(&'a self, ask: &'a QuoteRequest<'a>) -> BoxFuture<'a, Result<QuotedRoute, QuoteError>> {
        Box::pin(async move {
            let (route, snapshot) = ask.pools.route(ask.request, ask.block).await?;
            Ok(QuotedRoute { route, snapshot, claim: None })
        })
    }
}

/// Configured source that is not available. It returns an error, so that no other source answers in its name.
#[derive(Debug, Clone, Copy)]
pub struct AbsentSource {
    /// Name of the source.
    pub name: &'static str,
    /// Reason for its absence.
    pub why: &'static str,
}

impl QuoteSource for AbsentSource {
    fn name(&self) -> &'static str {
        self.name
    }

    fn quote<'a>(&'a self, _: &'a QuoteRequest<'a>) -> BoxFuture<'a, Result<QuotedRoute, QuoteError>> {
        Box::pin(async move { Err(QuoteError::Absent { name: self.name, why: self.why }) })
    }
}

/// Recomputes `claim` over the pools on chain and compares it with the own router's route.
///
/// # Errors
/// [`QuoteError::Refused`] for unknown pools, for a claim above the recomputed amount, and for a route clearly worse
/// than the own router's; otherwise the errors of the chain.
pub async fn rebuilt(
    name: &'static str,
    ask: &QuoteRequest<'_>,
    claim: QuoteClaim,
    permit: Option<PermitSingle>,
    words: Value,
) -> Result<QuotedRoute, QuoteError> {
    let found = ask.pools.along(ask.request, &claim.paths, &claim.tokens, ask.block).await?;
    let (route, snapshot) = found.map_err(|wrong| QuoteError::refused(name, wrong))?;
    let (claimed, counted) = match ask.request.exact {
        FixedAmount::In(_) => (claim.amount_out, route.amount_out),
        FixedAmount::Out(_) => (claim.amount_in, route.amount_in),
    };
    if ahead(ask.request.exact, claimed, counted) > CLAIM_TOLERANCE {
        let block = snapshot.block_number;
        let why = format!("it claims {claimed}, but its pools give {counted} at block {block}");
        return Err(QuoteError::refused(name, why));
    }
    let own = match ask.pools.route(ask.request, BlockId::from(snapshot.block_hash)).await {
        Ok((own, _)) => Some(own),
        Err(DiscoveryError::Route(RouteError::NoRoute { .. } | RouteError::InsufficientLiquidity { .. })) => None,
        Err(error) => return Err(error.into()),
    };
    let ahead_bps = own.as_ref().map(|own| ahead(ask.request.exact, after_gas(&route), after_gas(own)));
    if let Some(behind) = ahead_bps.filter(|ahead| *ahead < -WORST) {
        let behind = behind.unsigned_abs();
        let why = format!("after gas, its route is {behind} bps worse than the best route over on-chain pools");
        return Err(QuoteError::refused(name, why));
    }
    let own = own.map(|own| if matches!(own.exact, FixedAmount::In(_)) { own.amount_out } else { own.amount_in });
    let claim = SourceClaim { claimed, own, ahead_bps, permit, words: Arc::new(words) };
    Ok(QuotedRoute { route, snapshot, claim: Some(claim) })
}

/// Converts the error of an answer that is not a valid claim to a refusal.
pub(super) fn read(name: &'static str, claim: Result<QuoteClaim, ClaimMismatch>) -> Result<QuoteClaim, QuoteError> {
    claim.map_err(|wrong| QuoteError::refused(name, wrong))
}

/// Returns the amount that is not fixed, after gas.
fn after_gas(route: &Route) -> U256 {
    let gas = route.gas_cost.unwrap_or_default();
    match route.exact {
        FixedAmount::In(_) => route.amount_out.saturating_sub(gas),
        FixedAmount::Out(_) => route.amount_in.saturating_add(gas),
    }
}

/// Returns the advantage of `one` over `other` for the trader, in basis points of `other`, rounded towards the
/// disadvantage.
fn ahead(exact: FixedAmount, one: U256, other: U256) -> i32 {
    let points = |difference: U256, up: bool| -> i32 {
        if other.is_zero() {
            return i32::MAX;
        }
        let (whole, rest) = (U512::from(difference) * U512::from(10_000)).div_rem(U512::from(other));
        whole.saturating_to::<i32>().saturating_add(i32::from(up && !rest.is_zero()))
    };
    let more = one >= other;
    let better = more == matches!(exact, FixedAmount::In(_)) || one == other;
    let difference = if more { one.saturating_sub(other) } else { other.saturating_sub(one) };
    if better { points(difference, false) } else { points(difference, true).saturating_neg() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn better_and_worse_are_from_the_traders_point_of_view() {
        let (receive, pay) = (FixedAmount::In(U256::from(1)), FixedAmount::Out(U256::from(1)));
        let of = |exact, one: u64, other: u64| ahead(exact, U256::from(one), U256::from(other));
        assert_eq!([of(receive, 10_100, 10_000), of(receive, 9_900, 10_000), of(receive, 5, 5)], [100, -100, 0]);
        assert_eq!([of(pay, 10_100, 10_000), of(pay, 9_900, 10_000), of(pay, 5, 5)], [-100, 100, 0]);
        // A gain below one basis point counts as none; a loss below one counts as a whole one.
        assert_eq!([of(receive, 100_001, 100_000), of(receive, 99_999, 100_000)], [0, -1]);
        assert_eq!([of(pay, 100_001, 100_000), of(pay, 99_999, 100_000)], [-1, 0]);
        assert_eq!(ahead(receive, U256::MAX, U256::from(1)), i32::MAX);
        assert_eq!(of(receive, 1, 0), i32::MAX);
    }
}
