//! Where quotes come from: a seam with Bardo's own router behind it unless another source is asked for.
//!
//! What another source answers is a claim: which pools, and how much through each. [`rebuilt`] counts it anew over the
//! pools' state on chain and sets it beside what the own router finds there; a claim that does not hold is refused with
//! the reason, never mended. Nothing that a source encodes is ever signed.

use std::fmt;
use std::sync::Arc;

use alloy::eips::BlockId;
use alloy::primitives::{Address, U256, U512, address};
use futures::future::BoxFuture;
use serde_json::Value;

use super::claim::{Asked, Claim, Wrong};
use super::discovery::{DiscoveryError, PoolReader, PoolSnapshot};
use super::order::OrderKind;
use super::pool::Exact;
use super::router::{Execution, Version};
use super::routing::{Route, RouteError, RouteRequest};
use bardo_base::service::ServiceError;
use bardo_base::text::SafeText;
use bardo_base::units::BasisPoints;
use golem_chain::permit2::PermitSingle;

/// Who asks where no wallet is set up: services want to be told an account. Nobody has its key.
pub const NOBODY: Address = address!("0x000000000000000000000000000000000000dEaD");

/// So much more than the pools give may be claimed, in basis points: a few blocks lie between two looks.
const CLAIM_TOLERANCE: i32 = 50;

/// So much worse than the own router's a source's route may be, in basis points.
const WORST: i32 = 100;

/// Why there is no quote.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuoteError {
    /// The source that was asked for is not there.
    #[error("{name} is selected for quotes, but cannot be used: {why}")]
    Absent {
        /// The source.
        name: &'static str,
        /// Why it is not there.
        why: &'static str,
    },
    /// The source was asked and did not answer with a quote.
    #[error("{name} returned no quote: {error}")]
    Service {
        /// The source.
        name: &'static str,
        /// What happened.
        error: ServiceError,
    },
    /// What the source answered does not hold.
    #[error("the response of {name} is rejected: {why}")]
    Refused {
        /// The source.
        name: &'static str,
        /// What does not hold.
        why: SafeText,
    },
    /// The pools could not be read, or give no route.
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
}

impl QuoteError {
    /// A refusal of what `name` answered.
    pub fn refused(name: &'static str, why: impl fmt::Display) -> Self {
        Self::Refused { name, why: SafeText::clean(&why.to_string(), 300) }
    }
}

/// What is asked.
#[derive(Debug)]
pub struct Ask<'a> {
    /// The pools of the chain.
    pub pools: &'a PoolReader,
    /// Between which tokens, how much; the chain's coin as what wraps it.
    pub request: &'a RouteRequest,
    /// Whether what is paid, and what is received, is the chain's coin itself.
    pub coin: [bool; 2],
    /// The block to count on.
    pub block: BlockId,
    /// The chain.
    pub chain_id: u64,
    /// Whose trade it is; [`NOBODY`]'s where no wallet is set up.
    pub swapper: Address,
    /// Decimals of the tokens paid and received.
    pub decimals: [u8; 2],
    /// How far the open side may be off.
    pub slippage: BasisPoints,
    /// The chain's Permit2, where its book has one.
    pub permit2: Option<Address>,
    /// The routers that a permit may be for.
    pub routers: &'a [Address],
    /// How the router that would be called takes its inputs.
    pub router_version: Version,
}

impl Ask<'_> {
    /// The part that an answer must repeat.
    pub fn asked(&self) -> Asked {
        let RouteRequest { token_in, token_out, exact, .. } = *self.request;
        Asked { chain_id: self.chain_id, token_in, token_out, exact, swapper: self.swapper }
    }

    /// The same for a service to which the coin is the zero address: only so does its call wrap and unwrap.
    pub fn asked_with_coin(&self) -> Asked {
        let asked = self.asked();
        let [paid, received] = self.coin;
        Asked {
            token_in: if paid { Address::ZERO } else { asked.token_in },
            token_out: if received { Address::ZERO } else { asked.token_out },
            ..asked
        }
    }
}

/// A route that was counted here, and what its source had to say.
#[derive(Debug, Clone)]
pub struct Quoted {
    /// The route.
    pub route: Route,
    /// The pools it was counted on.
    pub snapshot: Arc<PoolSnapshot>,
    /// What the source said; nothing where it is the own router.
    pub told: Option<Told>,
}

/// What another source said, beside what was counted here.
#[derive(Debug, Clone)]
pub struct Told {
    /// The open side as the source has it, in raw units.
    pub claimed: U256,
    /// The open side as the own router finds it on the same pools; nothing where it finds no way.
    pub own: Option<U256>,
    /// How much better than the own router's the source's route is after gas, in basis points; below zero where worse.
    pub ahead_bps: Option<i32>,
    /// A permit of Permit2 that the source thinks the swap needs; read and checked, never signed from here.
    pub permit: Option<PermitSingle>,
    /// The source's own words, for asking it again; nothing here reads them twice.
    pub words: Arc<Value>,
}

/// A call of our own making, for a source that can be asked what it would have called.
#[derive(Debug)]
pub struct OwnCall<'a> {
    /// The chain.
    pub chain_id: u64,
    /// Who calls, and receives.
    pub account: Address,
    /// The router.
    pub router: Address,
    /// How it takes its inputs.
    pub version: Version,
    /// Wei sent along.
    pub value: U256,
    /// What it is called with.
    pub execution: &'a Execution,
    /// The pools it trades through: one may be paid by the one before it.
    pub pools: &'a [Address],
}

/// A question about an approval.
#[derive(Debug, Clone, Copy)]
pub struct ApprovalAsk {
    /// The chain.
    pub chain_id: u64,
    /// Whose tokens.
    pub owner: Address,
    /// The token.
    pub token: Address,
    /// How much is to be taken.
    pub amount: U256,
    /// The chain's Permit2, which is who would be approved.
    pub permit2: Address,
}

/// What a source says of an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalWord {
    /// What is allowed is enough.
    Enough,
    /// Permit2 must be allowed so much first, after what stands was taken back where that is said.
    Needed {
        /// Raw units.
        amount: U256,
        /// Whether what stands must be taken back before.
        cancel_first: bool,
    },
}

/// A question about an order.
#[derive(Debug, Clone, Copy)]
pub struct OrderAsk {
    /// Which auction.
    pub kind: OrderKind,
    /// The chain.
    pub chain_id: u64,
    /// The time, in seconds since the Unix epoch.
    pub now: u64,
    /// Who would sign, and receive.
    pub swapper: Address,
    /// The reactor of that auction.
    pub reactor: Address,
    /// Who cosigns there.
    pub cosigner: Address,
    /// The token given.
    pub token_in: Address,
    /// The token wanted; zero is the chain's coin.
    pub token_out: Address,
    /// What is given, in raw units.
    pub amount_in: U256,
    /// How far below its start the order may end.
    pub slippage: BasisPoints,
}

/// What a source would ask for in an order: read from one that it encoded, and that our own builder encodes alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderWord {
    /// At first, in raw units.
    pub start_out: U256,
    /// At least, in raw units.
    pub least_out: U256,
}

/// A source of quotes.
pub trait QuoteSource: fmt::Debug + Send + Sync {
    /// Its name, as shown beside its quotes.
    fn name(&self) -> &'static str;

    /// The route for what is asked, counted over the pools it was found on.
    fn quote<'a>(&'a self, ask: &'a Ask<'a>) -> BoxFuture<'a, Result<Quoted, QuoteError>>;

    /// Asks what the source would have called for the quote it `told`, and holds it against our own call. Whether it
    /// was asked; one that differs in who gets what is an error.
    fn check_call<'a>(&'a self, told: &'a Told, own: &'a OwnCall<'a>) -> BoxFuture<'a, Result<bool, QuoteError>> {
        let _ = (told, own);
        Box::pin(async { Ok(false) })
    }

    /// What it says of an approval; nothing where it says nothing of such.
    fn approval<'a>(&'a self, ask: &'a ApprovalAsk) -> BoxFuture<'a, Result<Option<ApprovalWord>, QuoteError>> {
        let _ = ask;
        Box::pin(async { Ok(None) })
    }

    /// What its fillers would give for an order; nothing where none quotes, or it says nothing of such.
    fn order<'a>(&'a self, ask: &'a OrderAsk) -> BoxFuture<'a, Result<Option<OrderWord>, QuoteError>> {
        let _ = ask;
        Box::pin(async { Ok(None) })
    }
}

/// Bardo's own router over the pools' state on chain.
#[derive(Debug, Clone, Copy, Default)]
pub struct OwnRouter;

impl QuoteSource for OwnRouter {
    fn name(&self) -> &'static str {
        "own router over on-chain pools"
    }

    fn quote<'a>(&'a self, ask: &'a Ask<'a>) -> BoxFuture<'a, Result<Quoted, QuoteError>> {
        Box::pin(async move {
            let (route, snapshot) = ask.pools.route(ask.request, ask.block).await?;
            Ok(Quoted { route, snapshot, told: None })
        })
    }
}

/// A source that was asked for and is not there. It refuses rather than let another one answer in
/// its name.
#[derive(Debug, Clone, Copy)]
pub struct AbsentSource {
    /// Its name.
    pub name: &'static str,
    /// Why it is not there.
    pub why: &'static str,
}

impl QuoteSource for AbsentSource {
    fn name(&self) -> &'static str {
        self.name
    }

    fn quote<'a>(&'a self, _: &'a Ask<'a>) -> BoxFuture<'a, Result<Quoted, QuoteError>> {
        Box::pin(async move { Err(QuoteError::Absent { name: self.name, why: self.why }) })
    }
}

/// The quote that `claim` comes to: counted over the pools on chain, and set beside the own router's.
///
/// # Errors
/// [`QuoteError::Refused`] for pools that are none, for more claimed than they give, and for a route that is clearly
/// worse than the own router's; else the chain's own failure.
pub async fn rebuilt(
    name: &'static str,
    ask: &Ask<'_>,
    claim: Claim,
    permit: Option<PermitSingle>,
    words: Value,
) -> Result<Quoted, QuoteError> {
    let found = ask.pools.along(ask.request, &claim.paths, &claim.tokens, ask.block).await?;
    let (route, snapshot) = found.map_err(|wrong| QuoteError::refused(name, wrong))?;
    let (claimed, counted) = match ask.request.exact {
        Exact::In(_) => (claim.amount_out, route.amount_out),
        Exact::Out(_) => (claim.amount_in, route.amount_in),
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
    let own = own.map(|own| if matches!(own.exact, Exact::In(_)) { own.amount_out } else { own.amount_in });
    let told = Told { claimed, own, ahead_bps, permit, words: Arc::new(words) };
    Ok(Quoted { route, snapshot, told: Some(told) })
}

/// As [`rebuilt`], for an answer that may not even be a claim.
pub(super) fn read(name: &'static str, claim: Result<Claim, Wrong>) -> Result<Claim, QuoteError> {
    claim.map_err(|wrong| QuoteError::refused(name, wrong))
}

/// The open side with gas counted against the trade.
fn after_gas(route: &Route) -> U256 {
    let gas = route.gas_cost.unwrap_or_default();
    match route.exact {
        Exact::In(_) => route.amount_out.saturating_sub(gas),
        Exact::Out(_) => route.amount_in.saturating_add(gas),
    }
}

/// How much better `one` is than `other` for who trades, in basis points of `other`, rounded towards the worse.
fn ahead(exact: Exact, one: U256, other: U256) -> i32 {
    let points = |difference: U256, up: bool| -> i32 {
        if other.is_zero() {
            return i32::MAX;
        }
        let (whole, rest) = (U512::from(difference) * U512::from(10_000)).div_rem(U512::from(other));
        whole.saturating_to::<i32>().saturating_add(i32::from(up && !rest.is_zero()))
    };
    let more = one >= other;
    let better = more == matches!(exact, Exact::In(_)) || one == other;
    let difference = if more { one.saturating_sub(other) } else { other.saturating_sub(one) };
    if better { points(difference, false) } else { points(difference, true).saturating_neg() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn better_and_worse_are_told_from_the_traders_side() {
        let (receive, pay) = (Exact::In(U256::from(1)), Exact::Out(U256::from(1)));
        let of = |exact, one: u64, other: u64| ahead(exact, U256::from(one), U256::from(other));
        assert_eq!([of(receive, 10_100, 10_000), of(receive, 9_900, 10_000), of(receive, 5, 5)], [100, -100, 0]);
        assert_eq!([of(pay, 10_100, 10_000), of(pay, 9_900, 10_000), of(pay, 5, 5)], [-100, 100, 0]);
        // A part of a basis point better is none, worse is a whole one.
        assert_eq!([of(receive, 100_001, 100_000), of(receive, 99_999, 100_000)], [0, -1]);
        assert_eq!([of(pay, 100_001, 100_000), of(pay, 99_999, 100_000)], [-1, 0]);
        assert_eq!(ahead(receive, U256::MAX, U256::from(1)), i32::MAX);
        assert_eq!(of(receive, 1, 0), i32::MAX);
    }
}
