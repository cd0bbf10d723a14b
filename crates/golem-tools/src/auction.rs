//! UniswapX auction orders: start and minimum output, the order itself, and the Permit2 approval before it. Shared by
//! the order tools and by swaps that prefer an auction. A limit order is one whose price does not fall.

use alloy::primitives::{Address, B256, U256, U512};

use crate::allowances::{self, approve};
use crate::engine::{CallContext, ToolEnvironment};
use crate::mev::{MevMeasure, liquidity_share, size_advice};
use crate::orders::random_nonce;
use crate::route::{impact_of, impact_reached, pools_of};
use crate::shared::{insufficient, invalid, whole};
use crate::swap_query::SwapQuery;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::text::SafeText;
use bardo_base::units::{BasisPoints, TokenAmount};
use bardo_safety::proposal::{
    AllowanceBound, AllowanceKind, Inflow, LegPurpose, Outflow, PlanLeg, Proposal, ProposalIntent, SignedOrder,
    TradeFigures,
};
use bardo_safety::simulate::reactor_role;
use bardo_safety::typed::TypedMessage;
use golem_chain::network::KnownContract;
use golem_chain::token::{TokenId, TokenInfo};
use golem_protocols::uniswap::discovery::PoolSnapshot;
use golem_protocols::uniswap::order::{AuctionTerms, OrderAmounts, OrderDraft, OrderKind};
use golem_protocols::uniswap::quote::{NOBODY, OrderQuery, QuoteError, SourceAuction};
use golem_protocols::uniswap::routing::Route;

/// Margin of the start output above the pools' quote, in basis points.
const HOPE_BPS: u32 = 10;

/// Upper limit for a quote source's start output above our own start output, in basis points.
const MOST_ABOVE_BPS: u32 = 200;

/// Blocks until a priority auction opens to all fillers. The cosigner may open it earlier.
const LEAD_BLOCKS: u64 = 3;

/// Default of `decay_start_time`, in seconds. Cosigners of Dutch orders start the decay after about this time.
pub(super) const STARTS_IN: u64 = 10;

/// Values that the order tool keeps from preparation until its answer.
pub struct AuctionPlan {
    pub(super) hash: B256,
    pub(super) kind: OrderKind,
    pub(super) deadline: u64,
    pub(super) start: TokenAmount,
    pub(super) end: TokenAmount,
    pub(super) symbol: SafeText,
    pub(super) notes: Vec<String>,
    /// Advice about the order size; `None` if none is needed or nothing could be measured.
    pub(super) size: Option<MevMeasure>,
    /// Output of the same input in the pools, when the order was made.
    pub(super) market: TokenAmount,
    /// True for an order with one price, which waits for it.
    waits: bool,
}

impl AuctionPlan {
    /// Expected outcome of selling `sold`, an amount with its symbol, in this auction.
    fn outcome(&self, sold: &str) -> String {
        let Self { start, end, symbol, waits, .. } = self;
        let is_constant = start == end;
        let (start, end) = (whole(start), whole(end));
        match is_constant {
            _ if *waits => format!("Limit order: {sold} for >= {end} {symbol}, or not at all"),
            true => format!("Auction {sold} for >= {end} {symbol}"),
            false => format!("Auction {sold} for {start} {symbol}, falling to {end}"),
        }
    }
}

/// Parameters of an auction order.
pub(super) struct AuctionRequest<'a> {
    pub(super) token_in: &'a str,
    pub(super) token_out: &'a str,
    pub(super) amount: &'a str,
    pub(super) chain: &'a str,
    /// Seconds until the auction starts. [`STARTS_IN`] leaves the start to the order kind.
    pub(super) starts_in: u64,
    pub(super) ends_in: u64,
    pub(super) slippage: BasisPoints,
    /// Price of one whole input token in whole output tokens, for an order with this price alone; `None` for an auction
    /// from the quote on.
    pub(super) limit: Option<&'a str>,
}

/// Start and minimum output of an auction for the input of a route, in raw units of the output token.
pub(super) struct AuctionOutputs {
    /// Output at the start of the auction.
    pub(super) start_out: U256,
    /// Minimum output at the end of the auction.
    pub(super) least_out: U256,
    /// Note for the caller about the quote source's order; `None` if the source returned none.
    note: Option<String>,
}

/// Computes the auction terms for `ask` and its route. Both orders and quotes of orders use them.
///
/// # Errors
/// `CHAIN_UNSUPPORTED` if orders of this kind are not supported or a contract is missing from the address book. Errors
/// of the quote source, and a start output that is too far above the pools, are passed on.
pub(super) async fn terms(
    world: &ToolEnvironment,
    ask: &SwapQuery<'_>,
    route: &Route,
    kind: OrderKind,
    now: u64,
) -> Result<AuctionOutputs, ToolError> {
    let chain = ask.chain;
    let unsupported = |what: &dyn std::fmt::Display| ToolError::new(ErrorCode::ChainUnsupported, what);
    let role = reactor_role(kind).ok_or_else(|| unsupported(&format_args!("{kind} orders are not supported here")))?;
    let least_out = ask.slippage.minimum_out(route.amount_out);
    let hoped = points(HOPE_BPS)?.maximum_in(route.amount_out).map_err(|error| invalid("amount", &error))?;
    let asked = OrderQuery {
        kind,
        chain_id: chain.network().chain_id,
        now,
        swapper: world.account.unwrap_or(NOBODY),
        reactor: chain.contract(role)?,
        cosigner: chain.contract(KnownContract::OrderCosigner)?,
        token_in: ask.contract_in,
        token_out: match ask.token_out.id {
            TokenId::Erc20(address) => address,
            TokenId::Native => Address::ZERO,
        },
        amount_in: route.amount_in,
        slippage: ask.slippage,
    };
    let name = world.quotes.name();
    let quoted = world.quotes.order(&asked).await?;
    // A priority order has no start output: it asks for the minimum, and fillers bid priority fees on top.
    let start_out = match kind {
        OrderKind::Priority => least_out,
        OrderKind::Dutch | OrderKind::DutchV2 | OrderKind::DutchV3 => start_of(name, hoped, least_out, quoted)?,
    };
    Ok(AuctionOutputs { start_out, least_out, note: quoted.map(|quoted| source_note(name, quoted, hoped)) })
}

/// Terms of an order with one price: the output at that price, rounded up, from its beginning to its end.
///
/// # Errors
/// `VALIDATION_FAILED` for a price that is none, or that the pools pay already.
fn limited(ask: &SwapQuery<'_>, route: &Route, price: &str) -> Result<AuctionOutputs, ToolError> {
    let price = TokenAmount::parse(price.trim(), ask.token_out.decimals)?;
    let unit = U512::from(10).pow(U512::from(ask.token_in.decimals));
    let (quotient, rest) = (U512::from(route.amount_in) * U512::from(price.raw())).div_rem(unit);
    let least = quotient.saturating_add(U512::from(u8::from(!rest.is_zero())));
    if least.is_zero() || least > U512::from(U256::MAX) {
        return Err(invalid("limit_price", &"it gives no amount of the received token: name a price above zero"));
    }
    let least = U256::from(least);
    if least <= route.amount_out {
        let market = TokenAmount::new(route.amount_out, ask.token_out.decimals)?;
        let wanted = TokenAmount::new(least, ask.token_out.decimals)?;
        let symbol = &ask.token_out.symbol;
        let what = format_args!(
            "the pools pay {market} {symbol} now, and this price asks for {wanted}: use uniswap_execute_swap, or name a \
             higher price"
        );
        return Err(invalid("limit_price", &what));
    }
    Ok(AuctionOutputs { start_out: least, least_out: least, note: None })
}

pub(super) fn points(bps: u32) -> Result<BasisPoints, ToolError> {
    BasisPoints::new(bps).map_err(|error| ToolError::new(ErrorCode::ValidationFailed, error))
}

/// Builds the order for `request`, with the Permit2 approval that it needs.
///
/// # Errors
/// `VALIDATION_FAILED` for parameters that do not fit, `CHAIN_UNSUPPORTED` where this kind of order cannot be placed,
/// and the errors of routing, quoting and reading allowances.
pub(super) async fn order(
    context: &CallContext,
    request: &AuctionRequest<'_>,
) -> Result<(Proposal, AuctionPlan), ToolError> {
    let world = &context.world;
    let chain = world.chain(request.chain)?;
    let account = world.account(None)?;
    let orders = world.orders()?;
    let kind = orders.chain(chain.network().chain_id)?.kind;
    settable_start(kind, request)?;
    let unsupported = |what: &dyn std::fmt::Display| ToolError::new(ErrorCode::ChainUnsupported, what);
    let role = reactor_role(kind).ok_or_else(|| unsupported(&format_args!("{kind} orders are not supported here")))?;
    let reactor = chain.contract(role)?;
    let cosigner = chain.contract(KnownContract::OrderCosigner)?;
    let permit2 = chain.contract(KnownContract::Permit2)?;
    let ask = SwapQuery::new(world, chain, [request.token_in, request.token_out], request.amount, false)
        .await?
        .within(request.slippage);
    let (token, wanted) = tokens(&ask)?;
    let quoted_at = world.clock.now_millis();
    let (route, snapshot, _) = ask.route(world).await?;
    let now = chain.deadline_time(&*world.clock, snapshot.timestamp);
    let (terms, size) = match request.limit {
        // Whoever fills it pays this price from wherever: its size moves nothing here.
        Some(price) => (limited(&ask, &route, price), None),
        None => {
            let (terms, share) =
                futures::join!(terms(world, &ask, &route, kind, now), liquidity_share(chain, &route, &snapshot));
            // The size note is advisory: failing to measure it does not block the order.
            (terms, size_advice(share.ok().as_ref(), &route.price_impact))
        }
    };
    let AuctionOutputs { start_out, least_out: least, note } = terms?;
    let deadline = now.saturating_add(request.ends_in);
    let auction = decay(kind, request, chain.network().block_millis, snapshot.block_number)?;
    let draft = OrderDraft {
        reactor,
        swapper: account,
        recipient: account,
        nonce: random_nonce(world),
        deadline,
        cosigner,
        token_in: token,
        token_out: wanted,
        legs: OrderAmounts::ExactIn { amount_in: route.amount_in, start_out, least_out: least },
        auction,
    };
    let order = draft.order().map_err(|fault| ToolError::new(ErrorCode::ValidationFailed, fault))?;
    let (legs, bounds) = approvals(world, chain, &ask.token_in, route.amount_in, permit2).await?;
    let amount_in = TokenAmount::new(route.amount_in, ask.token_in.decimals)?;
    let plan = AuctionPlan {
        hash: order.hash(),
        kind,
        deadline,
        start: TokenAmount::new(start_out, ask.token_out.decimals)?,
        end: TokenAmount::new(least, ask.token_out.decimals)?,
        symbol: ask.token_out.symbol.clone(),
        notes: notes(kind).into_iter().map(str::to_owned).chain(note).collect(),
        size,
        market: TokenAmount::new(route.amount_out, ask.token_out.decimals)?,
        waits: request.limit.is_some(),
    };
    let expected = plan.outcome(&format!("{} {}", whole(&amount_in), ask.token_in.symbol));
    let holder = pool_with(&route, &snapshot, ask.contract_out);
    let proposal = Proposal {
        legs,
        outflows: vec![Outflow { token: ask.token_in.clone(), amount: route.amount_in }],
        inflows: vec![Inflow {
            token: ask.token_out.clone(),
            at_least: least,
            expected: route.amount_out,
            recipient: account,
        }],
        allowances: bounds,
        trade: Some(TradeFigures {
            token_in: ask.token_in.clone(),
            token_out: ask.token_out.clone(),
            amount_in: route.amount_in,
            expected_out: route.amount_out,
            min_out: least,
            slippage: request.slippage,
            // Fillers pay with their own funds, so the order itself does not move a pool's price.
            price_impact: impact_of(&route),
            impact_reached: impact_reached(&route),
            quoted_at,
            deadline,
            pools: pools_of(&route),
            exact_output: false,
        }),
        order: Some(Box::new(SignedOrder {
            message: TypedMessage::UniswapxOrder { permit2, order: Box::new(order) },
            holder,
            arrival: None,
        })),
        ..context.proposal(chain.network().chain_id, account, ProposalIntent::PlaceOrder, &expected)
    };
    Ok((proposal, plan))
}

/// Contracts of the token to sell and of the token to buy; the latter is zero for the native token.
///
/// # Errors
/// `VALIDATION_FAILED` if the native token would be sold, or if both are the same.
fn tokens(ask: &SwapQuery<'_>) -> Result<(Address, Address), ToolError> {
    let TokenId::Erc20(sold) = ask.token_in.id else {
        return Err(invalid("token_in", &"an order cannot sell the native token: wrap it and name the wrapped token"));
    };
    let bought = match ask.token_out.id {
        TokenId::Erc20(address) => address,
        TokenId::Native => Address::ZERO,
    };
    if bought == sold {
        return Err(invalid("token_out", &"the token to sell"));
    }
    Ok((sold, bought))
}

/// Price curve of the order, on a chain with a block each `block_millis` milliseconds whose latest block is `block`.
///
/// # Errors
/// `CHAIN_UNSUPPORTED` for a kind of order that has no cosigner.
fn decay(
    kind: OrderKind,
    request: &AuctionRequest<'_>,
    block_millis: u64,
    block: u64,
) -> Result<AuctionTerms, ToolError> {
    let millis = block_millis.max(1);
    match kind {
        OrderKind::Dutch => {
            Err(ToolError::new(ErrorCode::ChainUnsupported, "orders without a cosigner are not supported"))
        }
        OrderKind::DutchV2 => Ok(AuctionTerms::CosignedTimes),
        OrderKind::DutchV3 => {
            let over =
                request.ends_in.saturating_sub(STARTS_IN.min(request.ends_in / 2)).saturating_mul(1_000) / millis;
            // The cosigner's lead precedes the decay; the curve must end before the order's deadline.
            let over = u16::try_from(over.saturating_sub(LEAD_BLOCKS).max(1)).unwrap_or(u16::MAX);
            Ok(AuctionTerms::CosignedBlocks { over, base_fee: 0, per_gwei: U256::ZERO })
        }
        OrderKind::Priority => Ok(AuctionTerms::PriorityFee {
            start_block: block.saturating_add(lead_blocks(request.starts_in, millis)),
            baseline: 0,
            mps_per_wei: U256::from(1),
        }),
    }
}

/// Returns the start output: the source's quote if it is above the minimum, otherwise our own start output. A quote far
/// above the pools is refused: the price would spend most of the auction time on the way down to a realistic level.
///
/// # Errors
/// `ROUTING_QUOTE_REFUSED` if the source's start output exceeds ours by more than [`MOST_ABOVE_BPS`].
fn start_of(source: &'static str, hoped: U256, least: U256, quoted: Option<SourceAuction>) -> Result<U256, ToolError> {
    let Some(quoted) = quoted else { return Ok(hoped) };
    let most = points(MOST_ABOVE_BPS)?.maximum_in(hoped).map_err(|error| invalid("amount", &error))?;
    if quoted.start_out > most {
        let why = format!("its order starts at {}, but the pools give {hoped}", quoted.start_out);
        return Err(QuoteError::refused(source, why).into());
    }
    Ok(if quoted.start_out > least { quoted.start_out } else { hoped })
}

/// Formats the note about the quote source's order for the person who decides.
fn source_note(source: &str, quoted: SourceAuction, hoped: U256) -> String {
    format!(
        "{source} quotes an order from {} down to {} (raw units); from the pools it would start at {hoped}",
        quoted.start_out, quoted.least_out
    )
}

/// Returns a pool contract that holds a balance of `token`: the first one on the route that pays it out, otherwise the
/// deepest one beside it, since V4 pools have no contracts. Zero if there is none.
fn pool_with(route: &Route, snapshot: &PoolSnapshot, token: Address) -> Address {
    let mut last = route.legs.iter().flat_map(|leg| leg.hops.iter()).filter(|hop| hop.token_out == token);
    let beside = || {
        let pools = snapshot.pools.pools().iter().filter_map(|pool| {
            let depth = pool.virtual_reserve(pool.zero_for_one(token).ok()?);
            Some((depth, pool.id().contract()?))
        });
        pools.max().map(|(_, contract)| contract)
    };
    last.find_map(|hop| hop.pool.contract()).or_else(beside).unwrap_or_default()
}

/// Builds the Permit2 approval that an order of `amount` needs on top of the inputs already promised to open orders.
/// The approval is exact, and omitted where the existing allowance suffices.
///
/// # Errors
/// `VALIDATION_FAILED` if the total overflows, an insufficient-balance error if the balance does not cover the total,
/// and the errors of reading the allowance.
pub(super) async fn approvals(
    world: &ToolEnvironment,
    chain: &crate::engine::ConnectedChain,
    token: &TokenInfo,
    amount: U256,
    permit2: Address,
) -> Result<(Vec<PlanLeg>, Vec<AllowanceBound>), ToolError> {
    let TokenId::Erc20(contract) = token.id else { return Ok((Vec::new(), Vec::new())) };
    let account = world.account(None)?;
    let (standing, _) = allowances::read(chain, contract, account, permit2, &[]).await?;
    let promised = world.promised(chain.network().chain_id, account, contract)?;
    let needed = promised.checked_add(amount).ok_or_else(|| invalid("amount", &"too large: exceeds 256 bits"))?;
    let balance = world.balance(chain.network().chain_id, account, token.id, standing.balance)?;
    if balance < needed {
        return Err(insufficient(token, [amount, balance, promised])?);
    }
    let mut legs = Vec::new();
    if standing.of_token < needed {
        if !standing.of_token.is_zero()
            && allowances::needs_zero_first(chain, contract, account, permit2, needed).await?
        {
            legs.push(approve(LegPurpose::Approve, contract, permit2, U256::ZERO));
        }
        legs.push(approve(LegPurpose::Approve, contract, permit2, needed));
    }
    // The allowance left after the fill covers the other orders, or stays at the previous allowance minus this order.
    let at_most = promised.max(standing.of_token.saturating_sub(amount));
    let bounds = if legs.is_empty() {
        Vec::new()
    } else {
        vec![AllowanceBound { token: token.clone(), spender: permit2, kind: AllowanceKind::Erc20, at_most }]
    };
    Ok((legs, bounds))
}

/// Returns the note about this kind of auction for the caller.
const fn notes(kind: OrderKind) -> Option<&'static str> {
    match kind {
        OrderKind::Dutch | OrderKind::DutchV2 => None,
        OrderKind::DutchV3 => Some("the price of this kind falls per block, starting at a block set by the cosigner"),
        OrderKind::Priority => {
            Some("the price of this kind does not fall: its output rises with the filler's priority fee")
        }
    }
}

/// Checks whether an order of this kind can set its auction start. The start of a Dutch order is part of the cosigner's
/// data, which the swapper does not sign.
///
/// # Errors
/// `VALIDATION_FAILED` for a start that such an order cannot have.
fn settable_start(kind: OrderKind, request: &AuctionRequest<'_>) -> Result<(), ToolError> {
    if request.starts_in == STARTS_IN {
        return Ok(());
    }
    match kind {
        OrderKind::Priority if request.starts_in < request.ends_in => Ok(()),
        OrderKind::Priority => {
            let what = format_args!("{} s must be before the end at {} s", request.starts_in, request.ends_in);
            Err(invalid("decay_start_time", &what))
        }
        OrderKind::Dutch | OrderKind::DutchV2 | OrderKind::DutchV3 => {
            let what = format_args!(
                "{} s cannot be set: the cosigner of a {kind} order decides when its price starts to fall, after about \
                 {STARTS_IN} s. Omit the parameter",
                request.starts_in
            );
            Err(invalid("decay_start_time", &what))
        }
    }
}

/// Returns the number of blocks until a priority auction opens to all fillers; [`LEAD_BLOCKS`] for the default start.
fn lead_blocks(starts_in: u64, block_millis: u64) -> u64 {
    if starts_in == STARTS_IN {
        return LEAD_BLOCKS;
    }
    starts_in.saturating_mul(1_000).div_ceil(block_millis.max(1)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_time_is_used_or_rejected_with_the_reason_by_order_kind() {
        let request = |starts_in, ends_in| AuctionRequest {
            token_in: "USDC",
            token_out: "WETH",
            amount: "1",
            chain: "ethereum",
            starts_in,
            ends_in,
            slippage: BasisPoints::ZERO,
            limit: None,
        };
        for kind in [OrderKind::DutchV2, OrderKind::DutchV3] {
            assert_eq!(settable_start(kind, &request(10, 5)), Ok(()), "the default says nothing");
            for other in [0, 9, 30] {
                let error = settable_start(kind, &request(other, 120)).unwrap_err();
                assert!(error.message().contains("the cosigner of a"), "{error}");
            }
        }
        for (starts_in, ends_in, good) in
            [(0, 1, true), (30, 120, true), (120, 120, false), (121, 120, false), (10, 5, true)]
        {
            assert_eq!(settable_start(OrderKind::Priority, &request(starts_in, ends_in)).is_ok(), good);
        }
        // Base has two-second blocks: the count covers the requested time, and is at least one.
        assert_eq!([10, 0, 1, 2, 3, 30].map(|seconds| lead_blocks(seconds, 2_000)), [3, 1, 1, 1, 2, 15]);
    }

    #[test]
    fn a_quote_source_changes_the_start_and_never_the_minimum() {
        let [hoped, least] = [10_010u64, 9_950].map(U256::from);
        let of = |start: u64| {
            let word = SourceAuction { start_out: U256::from(start), least_out: U256::from(1) };
            start_of("a source", hoped, least, Some(word))
        };
        assert_eq!(start_of("a source", hoped, least, None).unwrap(), hoped);
        assert_eq!(of(10_100).unwrap(), U256::from(10_100));
        assert_eq!(of(9_990).unwrap(), U256::from(9_990));
        // A start below the minimum is ignored; a start more than 2 % above ours (10,210) is refused.
        assert_eq!(of(9_000).unwrap(), hoped);
        assert_eq!(of(10_210).unwrap(), U256::from(10_210));
        assert_eq!(of(10_211).unwrap_err().code(), ErrorCode::RoutingQuoteRefused);
    }
}
