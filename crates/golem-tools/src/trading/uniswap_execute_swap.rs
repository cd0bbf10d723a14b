//! `uniswap_execute_swap`: swaps two tokens through Uniswap pools, in one Universal Router transaction that includes
//! the Permit2 allowance, or by a UniswapX auction.

use alloy::primitives::{Address, Bytes, U256, U512, aliases::U48, aliases::U160};
use alloy::sol_types::SolCall as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::allowances::{self, approve};
use crate::auction::{self, AuctionRequest};
use crate::engine::{CallContext, ToolDef, ToolEnvironment, ToolReply, WriteTool};
use crate::mev::{MevMeasure, RouteCriteria, TradeVisibility, liquidity_share, measures, size_advice};
use crate::orders::{self, card};
use crate::route::{impact_of, impact_reached, pools_of};
use crate::schedules::LEAST_PRICE;
use crate::shared::{WORST_IMPACT, explorer_url, invalid, whole};
use crate::swap_query::{FoundRoute, SwapQuery, least_received, price_between, slippage};
use bardo_abi::permit2::Permit2;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::format::short_hash;
use bardo_base::model::{
    ActionClass, CapabilityTier, CardKind, Category, Check, Guidelines, RiskTier, SpenderRole, SpriteTrigger,
    TickBudget, ToolMeta,
};
use bardo_base::text::SafeText;
use bardo_base::units::{Rounding, TokenAmount, Usd};
use bardo_safety::pipeline::{CommitOutcome, CommitState};
use bardo_safety::proposal::{
    AllowanceBound, AllowanceKind, Inflow, LegPurpose, Outflow, PlanLeg, Proposal, ProposalIntent, SignatureSlot,
    TradeFigures,
};
use bardo_safety::typed::TypedMessage;
use golem_chain::evm::{PLACEHOLDER_SIGNATURE, TRANSACTION_GAS_CAP};
use golem_chain::network::KnownContract;
use golem_chain::permit2::{PermitDetails, PermitSingle, UNLIMITED};
use golem_chain::token::{TokenId, TokenInfo};
use golem_protocols::uniswap::pool::FixedAmount;
use golem_protocols::uniswap::quote::{BuiltCall, SourceClaim};
use golem_protocols::uniswap::ratio::Ratio;
use golem_protocols::uniswap::router::{
    OutputRecipient, RouterTrade as RouterCall, RouterVersion, SwapRequest, plan as plan_call,
};
use golem_protocols::uniswap::routing::Route;

/// Definition of the `uniswap_execute_swap` tool.
pub static TOOL_DEF: ToolDef = ToolDef::write::<ExecuteSwap>();

/// Maximum time until inclusion, in seconds: one day.
const MAX_DEADLINE: u64 = 86_400;

/// Gas on top of the route's estimate: the permit, and first writes to storage slots.
const GAS_MARGIN: u64 = 150_000;

/// Parameters of `uniswap_execute_swap`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Token paid: symbol or 0x address.
    token_in: String,
    /// Token received: symbol or 0x address.
    token_out: String,
    /// Amount of token_in, in whole tokens, such as "500" or "1.5". "max" is the wallet's whole balance; for the native
    /// token, minus a reserve for gas.
    amount: String,
    /// Chain name, alias or decimal id.
    chain: String,
    /// Slippage tolerance in basis points. Defaults to 50, or less if phase or policy allow less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", range(max = 10_000), extend("default" = 50))]
    slippage_bps: Option<u32>,
    /// Seconds until the transaction may no longer be included.
    #[serde(default = "three_hundred")]
    #[schemars(range(min = 1, max = 86_400))]
    deadline: u64,
    /// Prefer a UniswapX auction over a swap through pools.
    #[serde(default = "crate::swap_query::yes")]
    prefer_uniswapx: bool,
    /// Least price that the swap must be sure to get, after slippage: whole units of token_out for one of token_in. It
    /// is checked whenever the swap is quoted again, so also while it waits for a decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    least_price: Option<String>,
}

fn three_hundred() -> u64 {
    300
}

/// Result of `uniswap_execute_swap`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Hash of the swap transaction; absent if none was sent.
    tx_hash: Option<String>,
    /// Number of its block; absent before inclusion.
    block_number: Option<u64>,
    /// Gas used, or the simulated gas, in gas units; null for an auction, whose filler pays the gas.
    gas_used: Option<u64>,
    /// Amount paid, in whole tokens; null while an auction is not filled.
    amount_in: Option<String>,
    /// Amount received, in whole tokens; null while an auction is not filled.
    amount_out: Option<String>,
    /// Tokens received per token paid, for display; null while an auction is not filled.
    effective_price: Option<f64>,
    /// Expected price impact in percent, without pool fees. For display.
    price_impact_pct: f64,
    /// Shortfall of the received amount against the quote, in basis points; negative if more was received. Null while an
    /// auction is not filled.
    slippage_actual_bps: Option<i32>,
    /// URL of the transaction; absent if none was sent.
    explorer_url: Option<String>,
    /// Hash of the order if the swap is an auction; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    order_hash: Option<String>,
    /// Amount that the auction's order sells, in whole tokens, as it was signed; absent for a swap through pools.
    #[serde(skip_serializing_if = "Option::is_none")]
    order_amount_in: Option<String>,
    /// Output at the start of the auction, in whole tokens; absent for a swap through pools.
    #[serde(skip_serializing_if = "Option::is_none")]
    start_amount: Option<String>,
    /// Minimum output of the auction, in whole tokens; absent for a swap through pools.
    #[serde(skip_serializing_if = "Option::is_none")]
    end_amount: Option<String>,
}

/// Values kept from preparation for the result.
pub struct SwapPlan {
    token_in: TokenInfo,
    token_out: TokenInfo,
    expected_out: U256,
    price_impact: Ratio,
    prefer_uniswapx: bool,
    why: String,
    /// Advice about the trade size; `None` if none is needed.
    size: Option<MevMeasure>,
    /// Quote source and its comparison with Bardo's own router.
    source: Value,
    /// Auction order; `None` for a swap through pools.
    auction: Option<auction::AuctionPlan>,
}

/// Implementation of `uniswap_execute_swap`; see [`TOOL_DEF`].
pub struct ExecuteSwap;

impl WriteTool for ExecuteSwap {
    const META: ToolMeta = ToolMeta {
        name: "uniswap_execute_swap",
        description: "Swaps one token for another on Uniswap. The exact transaction passes token allowlist, spending \
                      limit, rate limit, balance circuit breaker, slippage guard, policy contract and a simulation on \
                      a fork of the chain; if any of them fails, it returns a structured error and signs nothing. \
                      Custody: caveat enforcers limit the targets and spending of a delegated session key on chain, \
                      and the key expires; for an embedded wallet, its wallet server signs, the owner's policy \
                      contract is checked off chain only, and the owner keeps its recovery; a local key signs in this \
                      process, and because a plain account has no on-chain bounds, the same rules are checked off \
                      chain only.",
        category: Category::Trading,
        capability: CapabilityTier::Write,
        risk_tier: RiskTier::Layer3,
        tick_budget: TickBudget::Slow,
        progress_steps: &[
            "Simulating via Revm",
            "Approving token",
            "Building calldata",
            "Signing transaction",
            "Broadcasting",
            "Confirming receipt",
        ],
        sprite_trigger: SpriteTrigger::Executing,
        prompt_snippet: "Swaps tokens on Uniswap in one atomic transaction. Call uniswap_get_quote before every swap. \
                         Halve the size in Cautious; in Defensive and Survival only sell holdings; in Terminal only \
                         sales into stables or ETH go through.",
        prompt_guidelines: Guidelines {
            thriving: "Trade at the full planned size. Leave prefer_uniswapx on against MEV: from the policy's \
                       uniswapx_from_usd ($1K by default) it makes the swap an auction. Call intel_assess_mev_risk \
                       above $10K.",
            cautious: "Halve the planned size, tighten slippage to 30 bps, and trade only where the price impact is below \
                       1 %.",
            declining: "Only exits: sell risky tokens for stables or ETH, at most 25 % of a position in one trade. Open \
                        nothing.",
            terminal: "Only exits: sell everything into USDC or ETH, with as much slippage as the policy allows (200 \
                       bps at most) to exit at once. Open no position.",
            memory: Some(
                "Outcomes of similar swaps adjust slippage, timing and route within the allowed range. They never \
                 override limits, the allowlist or the simulation.",
            ),
        },
        idempotent: false,
        // The least strict class that a write can claim. The pipeline derives the actual class from the simulated
        // changes.
        action_class: ActionClass::ClosePosition,
        checks: &[
            Check::Halt,
            Check::PhaseGate,
            Check::TokenAllowlist,
            Check::SpendingLimit,
            Check::RateLimit,
            Check::BalanceBreaker,
            Check::SlippageGuard,
            Check::PolicyCage,
            Check::Simulation,
        ],
        event_params: &["token_in", "token_out", "amount", "chain"],
        summary_fields: &["tx_hash", "amount_out", "slippage_actual_bps"],
        card: Some(CardKind::Swap),
        // With `prefer_uniswapx`, the swap can become an order.
        spenders: &[SpenderRole::OrderReactor],
    };
    type Params = Params;
    type Output = Output;
    type Plan = SwapPlan;

    fn example() -> Value {
        json!({"token_in": "USDC", "token_out": "WETH", "amount": "250", "chain": "ethereum"})
    }

    async fn prepare(context: &CallContext, params: Params) -> Result<(Proposal, SwapPlan), ToolError> {
        prepare(context, params).await
    }

    fn output(
        context: &CallContext,
        plan: SwapPlan,
        committed: &CommitOutcome,
    ) -> Result<ToolReply<Output>, ToolError> {
        output(context, &plan, committed)
    }
}

async fn prepare(context: &CallContext, params: Params) -> Result<(Proposal, SwapPlan), ToolError> {
    let world = &context.world;
    let chain = world.chain(&params.chain)?;
    // Without an account nothing else needs to be read.
    world.account(None)?;
    let slippage = slippage(context, params.slippage_bps)?;
    if params.deadline == 0 || params.deadline > MAX_DEADLINE {
        let what = format_args!(
            "parameter `deadline`: {} s; expected 1 to {MAX_DEADLINE} s from now, such as 300",
            params.deadline
        );
        return Err(ToolError::new(ErrorCode::ValidationFailed, what).detail("parameter", "deadline"));
    }
    let mut ask = SwapQuery::new(world, chain, [&params.token_in, &params.token_out], &params.amount, false).await?;
    ask = ask.within(slippage);
    let native_in = ask.token_in.id == TokenId::Native;
    let worth = match ask.exact {
        FixedAmount::In(amount) => worth(&ask, amount).await,
        FixedAmount::Out(_) => None,
    };
    let signs = context.conditions().signs_messages;
    let way = RouteCriteria { preferred: params.prefer_uniswapx, signs, native_in, value: worth };
    let way = way.choose_route(world, chain.network().chain_id);
    // The age of a quote counts from the state it was read from, not from the end of its preparation.
    let mut quoted_at = world.clock.now_millis();
    let mut found = ask.find_route(world).await?;
    if way.auction.is_some() {
        let (proposal, prepared) = by_auction(context, &params, &ask, &found, way.why).await?;
        check_least_price(params.least_price.as_deref(), &ask, &proposal)?;
        return Ok((proposal, prepared));
    }
    if let (TokenId::Native, FixedAmount::In(whole)) = (ask.token_in.id, ask.exact)
        && params.amount.trim().eq_ignore_ascii_case("max")
    {
        (found, quoted_at) = reserve_gas(world, &mut ask, whole, (found, quoted_at)).await?;
    }
    let source = found.source(world);
    let FoundRoute { route, snapshot, claim, .. } = found;
    let (router, version) = allowances::router(chain)?;
    let now = chain.deadline_time(&*world.clock, snapshot.timestamp);
    let deadline = now.saturating_add(params.deadline);
    let (payment, share) =
        futures::join!(pay(context, &ask, &route, router, deadline), liquidity_share(chain, &route, &snapshot));
    // The size note is advisory: failing to measure it does not block the trade.
    let size = size_advice(share.ok().as_ref(), &route.price_impact);
    let payment = payment?;
    context.step("Building calldata");
    let (trade, main) =
        router_call(context, &ask, &route, claim.as_ref(), &payment, (router, version), deadline).await?;
    let proposal = proposal(context, &ask, &route, &trade, payment.with(main), [quoted_at, deadline])?;
    check_least_price(params.least_price.as_deref(), &ask, &proposal)?;
    let prepared = SwapPlan {
        token_in: ask.token_in.clone(),
        token_out: ask.token_out.clone(),
        expected_out: route.amount_out,
        price_impact: route.price_impact.clone(),
        prefer_uniswapx: params.prefer_uniswapx,
        why: way.why,
        size,
        source,
        auction: None,
    };
    Ok((proposal, prepared))
}

/// Compares what the proposal is sure to bring the account with the price that the caller asks for.
///
/// # Errors
/// `SAFETY_SLIPPAGE` that names the parameter if it may bring less.
fn check_least_price(price: Option<&str>, ask: &SwapQuery<'_>, proposal: &Proposal) -> Result<(), ToolError> {
    let Some(price) = price else { return Ok(()) };
    let (token_in, token_out) = (&ask.token_in, &ask.token_out);
    let price = TokenAmount::parse(price, token_out.decimals).map_err(|error| invalid(LEAST_PRICE, &error))?;
    let paid = proposal.outflows.iter().fold(U256::ZERO, |sum, flow| sum.saturating_add(flow.amount));
    let own =
        proposal.inflows.iter().filter(|flow| flow.recipient == proposal.account && flow.token.id == token_out.id);
    let sure = own.fold(U256::ZERO, |sum, flow| sum.saturating_add(flow.at_least));
    let least = least_received(price.raw(), paid, token_in.decimals);
    if sure >= least {
        return Ok(());
    }
    let amount = |raw| TokenAmount::new(raw, token_out.decimals).map(|amount| amount.to_string());
    let (sure, least) = (amount(sure)?, amount(least)?);
    let what = format_args!("it would be sure of {sure} {}, and {LEAST_PRICE} asks for {least}", token_out.symbol);
    Err(ToolError::new(ErrorCode::SafetySlippage, what)
        .detail("parameter", LEAST_PRICE)
        .detail("sure", sure.clone())
        .detail("least", least.clone())
        .suggest("Wait for a better price, or ask for a lower one."))
}

/// The swap as an order for fillers to bid on.
async fn by_auction(
    context: &CallContext,
    params: &Params,
    ask: &SwapQuery<'_>,
    found: &FoundRoute,
    why: String,
) -> Result<(Proposal, SwapPlan), ToolError> {
    let request = AuctionRequest {
        token_in: &params.token_in,
        token_out: &params.token_out,
        amount: &params.amount,
        chain: &params.chain,
        starts_in: auction::STARTS_IN,
        ends_in: params.deadline,
        slippage: ask.slippage,
        limit: None,
    };
    let (mut proposal, placed) = auction::order(context, &request).await?;
    // The caller asked for a swap, so the outcome must say first that this is an order for others to fill.
    let titled = format!("{}; not filled at once", proposal.expected_outcome);
    proposal.expected_outcome = SafeText::clean(&titled, 300);
    let prepared = SwapPlan {
        token_in: ask.token_in.clone(),
        token_out: ask.token_out.clone(),
        expected_out: found.route.amount_out,
        price_impact: found.route.price_impact.clone(),
        prefer_uniswapx: true,
        why,
        size: placed.size.clone(),
        source: found.source(&context.world),
        auction: Some(placed),
    };
    Ok((proposal, prepared))
}

/// Keeps enough of the wallet's `whole` native balance for gas; the quote for the rest, and when it was read.
async fn reserve_gas(
    world: &ToolEnvironment,
    ask: &mut SwapQuery<'_>,
    whole: U256,
    (mut found, mut quoted_at): (FoundRoute, u64),
) -> Result<(FoundRoute, u64), ToolError> {
    // A smaller amount may take another route with more gas. Two attempts are enough.
    for _ in 0..2 {
        let gas_price = found.gas_price;
        let reserve = gas_reserve(&found.route, gas_price);
        ask.leaving(whole, reserve)?;
        quoted_at = world.clock.now_millis();
        found = ask.find_route(world).await?;
        if gas_reserve(&found.route, gas_price) <= reserve {
            break;
        }
    }
    Ok((found, quoted_at))
}

/// Approvals and permit that a swap needs before it may take the token that is paid.
#[derive(Default)]
struct SwapPayment {
    /// Approvals, in order.
    legs: Vec<PlanLeg>,
    /// Bounds of the allowances that are left afterwards.
    bounds: Vec<AllowanceBound>,
    /// Permit2's address, and the permit to be signed for it.
    permit: Option<(Address, PermitSingle)>,
}

impl SwapPayment {
    /// The same followed by the swap itself.
    fn with(mut self, main: PlanLeg) -> Self {
        self.legs.push(main);
        self
    }
}

/// Reads the allowances of the token that is paid, and makes those that are missing.
async fn pay(
    context: &CallContext,
    ask: &SwapQuery<'_>,
    route: &Route,
    router: Address,
    deadline: u64,
) -> Result<SwapPayment, ToolError> {
    let (world, chain) = (&context.world, ask.chain);
    let SwapPayment { mut legs, mut bounds, mut permit } = SwapPayment::default();
    let TokenId::Erc20(token) = ask.token_in.id else { return Ok(SwapPayment::default()) };
    let (account, permit2) = (world.account(None)?, chain.contract(KnownContract::Permit2)?);
    let (standing, inside) = allowances::read(chain, token, account, permit2, &[router]).await?;
    // Open orders keep their allowances: a swap must not invalidate them.
    let promised = world.promised(chain.network().chain_id, account, token)?;
    let needed = promised.checked_add(route.amount_in).ok_or_else(|| {
        ToolError::new(ErrorCode::ValidationFailed, "parameter `amount`: too large: exceeds 256 bits")
    })?;
    if standing.of_token < needed {
        if !standing.of_token.is_zero() && allowances::needs_zero_first(chain, token, account, permit2, needed).await? {
            legs.push(approve(LegPurpose::Approve, token, permit2, U256::ZERO));
        }
        legs.push(approve(LegPurpose::Approve, token, permit2, needed));
        bounds.push(AllowanceBound {
            token: ask.token_in.clone(),
            spender: permit2,
            kind: AllowanceKind::Erc20,
            at_most: promised,
        });
    }
    let nonce = inside.first().map(|inside| inside.nonce).unwrap_or_default();
    let allowance = allowance(route, token, router, deadline, nonce)?;
    if context.conditions().signs_messages {
        permit = Some((permit2, allowance));
    } else {
        // An account that acts for an owner sends calls and signs no messages, so the allowance needs its own call.
        legs.push(allow(permit2, &allowance));
    }
    // The router spends its allowance in the same transaction, so nothing remains.
    bounds.push(AllowanceBound {
        token: ask.token_in.clone(),
        spender: router,
        kind: AllowanceKind::Permit2 { expires_at: deadline },
        at_most: U256::ZERO,
    });
    Ok(SwapPayment { legs, bounds, permit })
}

/// The router's call, which the source of the quote must agree to, and its transaction.
async fn router_call(
    context: &CallContext,
    ask: &SwapQuery<'_>,
    route: &Route,
    claim: Option<&SourceClaim>,
    payment: &SwapPayment,
    (router, version): (Address, RouterVersion),
    deadline: u64,
) -> Result<(RouterCall, PlanLeg), ToolError> {
    let world = &context.world;
    let account = world.account(None)?;
    let trade = plan_call(&SwapRequest {
        route,
        native_in: ask.token_in.id == TokenId::Native,
        native_out: ask.token_out.id == TokenId::Native,
        slippage: ask.slippage,
        recipient: OutputRecipient::Account(account),
        permit: payment.permit.clone().map(|(_, permit)| (permit, Bytes::from(PLACEHOLDER_SIGNATURE))),
        portion: None,
        one_bound: true,
        deadline: Some(U256::from(deadline)),
    })
    .map_err(|error| ToolError::new(ErrorCode::RoutingNoRoute, error))?;
    if let Some(claim) = claim {
        // A quote source that would call something else for its own quote is not trusted with the quote either.
        let own = BuiltCall {
            chain_id: ask.chain.network().chain_id,
            account,
            router,
            version,
            value: trade.value,
            execution: &trade.execution,
            pools: &pools_of(route),
        };
        world.quotes.check_call(claim, &own).await?;
    }
    let offset = trade.execution.signature_offset(version);
    let slots = payment.permit.clone().zip(offset).map(|((permit2, permit), offset)| SignatureSlot {
        offset,
        message: TypedMessage::Permit2Allowance { permit2, permit },
    });
    let main = PlanLeg {
        purpose: LegPurpose::Main,
        to: router,
        value: trade.value,
        data: trade.execution.encode(version),
        gas_limit: gas_limit(route),
        slots: slots.into_iter().collect(),
    };
    Ok((trade, main))
}

/// The proposal: what goes out and comes in, and within what bounds. Times are those of the quote, in milliseconds, and
/// of the deadline, in seconds.
fn proposal(
    context: &CallContext,
    ask: &SwapQuery<'_>,
    route: &Route,
    trade: &RouterCall,
    SwapPayment { legs, bounds, .. }: SwapPayment,
    [quoted_at, deadline]: [u64; 2],
) -> Result<Proposal, ToolError> {
    let account = context.world.account(None)?;
    let amount_in = TokenAmount::new(route.amount_in, ask.token_in.decimals)?;
    let least = TokenAmount::new(trade.amount_out_min, ask.token_out.decimals)?;
    let (given, wanted) = (whole(&amount_in), whole(&least));
    let expected = format!("Swap {given} {} for >= {wanted} {}", ask.token_in.symbol, ask.token_out.symbol);
    Ok(Proposal {
        legs,
        outflows: vec![Outflow { token: ask.token_in.clone(), amount: trade.amount_in_max }],
        inflows: vec![Inflow {
            token: ask.token_out.clone(),
            at_least: trade.amount_out_min,
            expected: route.amount_out,
            recipient: account,
        }],
        allowances: bounds,
        trade: Some(TradeFigures {
            token_in: ask.token_in.clone(),
            token_out: ask.token_out.clone(),
            amount_in: trade.amount_in_max,
            expected_out: route.amount_out,
            min_out: trade.amount_out_min,
            slippage: ask.slippage,
            price_impact: impact_of(route),
            impact_reached: impact_reached(route),
            quoted_at,
            deadline,
            pools: pools_of(route),
            exact_output: false,
        }),
        ..context.proposal(ask.chain.network().chain_id, account, ProposalIntent::Swap, &expected)
    })
}

/// Returns the value of an amount of the input token in dollars; `None` without a price.
async fn worth(ask: &SwapQuery<'_>, amount: U256) -> Option<Usd> {
    let reports = ask.chain.prices.prices(&[ask.contract_in]).await;
    let price = reports.first()?.price.as_ref()?.usd;
    Usd::value_of(TokenAmount::new(amount, ask.token_in.decimals).ok()?, price, Rounding::Down).ok()
}

/// Returns the gas reserve for a swap of the whole native balance, in wei: the gas limit plus a margin of a tenth for
/// the account, at four times the current gas price. The pipeline bounds fees by three times the base fee plus twice
/// the tip, and the base fee may rise by an eighth before the next block.
fn gas_reserve(route: &Route, gas_price: u128) -> U256 {
    let limit = U256::from(gas_limit(route));
    let limit = limit.saturating_add(limit / U256::from(10)).saturating_add(U256::ONE);
    limit.saturating_mul(U256::from(gas_price)).saturating_mul(U256::from(4))
}

/// Returns the gas limit: twice the route's estimate plus a margin. A trade that moves the price far may cross more
/// ticks than expected.
fn gas_limit(route: &Route) -> u64 {
    route.gas_units.saturating_mul(2).saturating_add(GAS_MARGIN).min(TRANSACTION_GAS_CAP)
}

/// Builds the exact Permit2 allowance for the router, which expires at the swap's deadline.
///
/// # Errors
/// `VALIDATION_FAILED` if the amount does not fit into 160 bits.
fn allowance(
    route: &Route,
    token: Address,
    router: Address,
    deadline: u64,
    nonce: u64,
) -> Result<PermitSingle, ToolError> {
    let amount = U160::checked_from_limbs_slice(route.amount_in.as_limbs()).filter(|amount| *amount < UNLIMITED);
    let amount = amount.ok_or_else(|| {
        ToolError::new(ErrorCode::ValidationFailed, "parameter `amount`: too large for Permit2: exceeds 160 bits")
            .detail("parameter", "amount")
    })?;
    let details = PermitDetails { token, amount, expiration: U48::from(deadline), nonce: U48::from(nonce) };
    Ok(PermitSingle { details, spender: router, sigDeadline: U256::from(deadline) })
}

/// Builds the call that grants the same allowance in Permit2 as a signed permit.
fn allow(permit2: Address, permit: &PermitSingle) -> PlanLeg {
    let PermitDetails { token, amount, expiration, .. } = permit.details;
    let call = Permit2::approveCall { token, spender: permit.spender, amount, expiration };
    PlanLeg {
        purpose: LegPurpose::Approve,
        to: permit2,
        value: U256::ZERO,
        data: call.abi_encode().into(),
        gas_limit: allowances::APPROVAL_GAS,
        slots: Vec::new(),
    }
}

/// Builds the result from the chain's balances if the transaction is included, otherwise from the last simulation.
fn output(context: &CallContext, plan: &SwapPlan, committed: &CommitOutcome) -> Result<ToolReply<Output>, ToolError> {
    let main = committed.legs.iter().find(|leg| leg.purpose == LegPurpose::Main);
    // A signed order has moved nothing yet; the simulated worst fill is not a result.
    let placed = plan.auction.is_some() && !matches!(committed.state, CommitState::Simulated);
    let moves = committed.truth.as_ref().map_or(&committed.simulated.moves, |truth| &truth.moves);
    let moved = |token: TokenId| moves.iter().find(|moved| moved.token == token);
    let paid = moved(plan.token_in.id).map_or(U256::ZERO, |moved| moved.before.saturating_sub(moved.after));
    let received = moved(plan.token_out.id).map_or(U256::ZERO, |moved| moved.after.saturating_sub(moved.before));
    let amount_in = TokenAmount::new(paid, plan.token_in.decimals)?;
    let amount_out = TokenAmount::new(received, plan.token_out.decimals)?;
    let network = context.world.chain(&committed.payload.proposal().chain_id.to_string())?.network();
    let price = price_between(&amount_in, &amount_out);
    let auction = plan.auction.as_ref();
    let sold = committed.payload.proposal().outflows.first().filter(|_| auction.is_some());
    let sold = sold.map(|flow| TokenAmount::new(flow.amount, plan.token_in.decimals)).transpose()?;
    let output = Output {
        tx_hash: main.map(|leg| leg.hash.to_string()),
        block_number: main.and_then(|leg| leg.block),
        gas_used: main.and_then(|leg| leg.gas_used).or((!placed).then_some(committed.simulated.gas_used)),
        amount_in: (!placed).then(|| amount_in.to_string()),
        amount_out: (!placed).then(|| amount_out.to_string()),
        // Rounded for display; all checks use exact fractions.
        effective_price: price.filter(|_| !placed).and_then(|price| price.to_fixed(12).parse().ok()),
        price_impact_pct: plan.price_impact.to_percent(4).parse().unwrap_or(WORST_IMPACT),
        slippage_actual_bps: (!placed).then(|| shortfall(plan.expected_out, received)),
        explorer_url: main.map(|leg| explorer_url(network, &leg.hash)),
        order_hash: auction.map(|order| order.hash.to_string()),
        order_amount_in: sold.map(|amount| amount.to_string()),
        start_amount: auction.map(|order| order.start.to_string()),
        end_amount: auction.map(|order| order.end.to_string()),
    };
    let symbol = &plan.token_out.symbol;
    let order = plan.auction.as_ref().map(|order| order.hash);
    let explanation =
        orders::swapped(&committed.state, main.map(|leg| leg.hash), order, &format!("{} {symbol}", whole(&amount_out)));
    let by_auction = plan.auction.as_ref().map(|order| order.kind.name());
    let (explanation, way) = match (&plan.auction, committed.order.as_deref()) {
        (Some(order), Some(record)) => (
            format!("Order {} was placed ({})", short_hash(order.hash), record.status),
            format!(" By UniswapX: {}.", plan.why),
        ),
        (Some(_), None) => (explanation, format!(" By UniswapX: {}.", plan.why)),
        (None, _) if plan.prefer_uniswapx => {
            (explanation, format!(" Classic route, although UniswapX is preferred: {}.", plan.why))
        }
        (None, _) => (explanation, String::new()),
    };
    let sight = match (by_auction, main.map(|leg| leg.route)) {
        (Some(_), _) => orders::sight(&committed.state),
        (None, Some(route)) => TradeVisibility::Sent(route),
        (None, None) => TradeVisibility::Nothing,
    };
    let least = committed.payload.proposal().inflows.first().map(|inflow| inflow.at_least);
    let whole = |raw| TokenAmount::new(raw, plan.token_out.decimals).map(|amount| amount.to_string()).ok();
    let hints = json!({
        "route_type": by_auction.unwrap_or("CLASSIC"),
        "quoted_out": whole(plan.expected_out),
        "source": plan.source,
        "minimum_out": least.and_then(whole),
        "uniswapx": {"preferred": plan.prefer_uniswapx, "used": by_auction.is_some(), "why": plan.why},
        "mev": measures(sight, plan.size.as_ref()),
        "order": committed.order.as_deref().map(card),
    });
    Ok(ToolReply::new(output, format!("{explanation}.{way}")).hint(hints))
}

/// Returns the shortfall of `received` against `expected` in whole basis points, rounded towards zero. A fill at the
/// minimum of a 50-basis-point tolerance returns 50. Negative if more was received.
pub(super) fn shortfall(expected: U256, received: U256) -> i32 {
    if expected.is_zero() {
        return 0;
    }
    let points = |amount: U256| (U512::from(amount) * U512::from(10_000)).div_rem(U512::from(expected));
    if received < expected {
        points(expected.saturating_sub(received)).0.saturating_to::<i32>()
    } else {
        points(received.saturating_sub(expected)).0.saturating_to::<i32>().saturating_neg()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fill_at_the_least_allowed_has_no_more_slippage_than_allowed() {
        let below = |received: u64| shortfall(U256::from(10_000), U256::from(received));
        assert_eq!([below(10_000), below(9_999), below(9_950), below(0)], [0, 1, 50, 10_000]);
        assert_eq!([below(10_001), below(10_050)], [-1, -50]);
        // The minimum output at 50 basis points is itself rounded down.
        let quoted = U256::from(1_234_567_891_u64);
        let least = golem_protocols::uniswap::pool::minimum_out(quoted, 50).unwrap();
        assert_eq!(shortfall(quoted, least), 50);
        assert_eq!(shortfall(U256::from(30_000), U256::from(29_999)), 0);
        assert_eq!(shortfall(U256::from(30_000), U256::from(30_001)), 0);
        assert_eq!(shortfall(U256::ZERO, U256::from(1)), 0);
    }
}
