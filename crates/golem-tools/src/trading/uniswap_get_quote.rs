//! `uniswap_get_quote`: expected output, route and cost of a swap, without executing it.

use std::collections::BTreeMap;

use alloy::primitives::{Address, U256};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::allowances;
use crate::auction;
use crate::engine::{CallContext, ReadTool, ToolDef, ToolReply};
use crate::mev::{RouteChoice, RouteCriteria, liquidity_share, size_advice};
use crate::shared::WORST_IMPACT;
use crate::swap_query::{FoundRoute, SwapQuery, price_between, slippage};
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, CardKind, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_base::units::{BasisPoints, Rounding, TokenAmount, Usd};
use golem_chain::network::KnownContract;
use golem_chain::permit2::PermitSingle;
use golem_chain::token::TokenId;
use golem_protocols::uniswap::order::OrderKind;
use golem_protocols::uniswap::pool::FixedAmount;
use golem_protocols::uniswap::ratio::Ratio;
use golem_protocols::uniswap::routing::{Route, RouteLeg};

/// Definition of the `uniswap_get_quote` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<GetQuote>();

/// Validity of a quote after its block, in seconds.
const VALID_SECONDS: u64 = 300;

/// Price impacts that add a warning, in basis points: more than a careful trade accepts (the screens show it in red),
/// and more than half of the amount paid.
const HIGH_IMPACT: u64 = 200;
const RUINOUS_IMPACT: u64 = 5_000;

/// Gas of a plain ERC-20 `approve` that writes an empty slot, including the transaction's base cost, in gas units.
const USUAL_APPROVAL_GAS: u64 = 46_500;

/// Parameters of `uniswap_get_quote`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Token paid: symbol or 0x address.
    token_in: String,
    /// Token received: symbol or 0x address.
    token_out: String,
    /// Amount in whole tokens, such as "500" or "1.5": of token_in, or of token_out with exact_output. "max" is the
    /// wallet's whole balance of token_in.
    amount: String,
    /// Chain name, alias or decimal id.
    chain: String,
    /// Slippage tolerance in basis points. Defaults to 50, or less if phase or policy allow less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", range(max = 10_000), extend("default" = 50))]
    slippage_bps: Option<u32>,
    /// Prefer a UniswapX auction over a swap through pools.
    #[serde(default = "crate::swap_query::yes")]
    prefer_uniswapx: bool,
    /// Treat the amount as an exact output.
    #[serde(default)]
    exact_output: bool,
}

/// Result of `uniswap_get_quote`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Id of this quote.
    quote_id: String,
    /// Symbol of the token paid.
    token_in: String,
    /// Symbol of the token received.
    token_out: String,
    /// Amount paid, in whole tokens.
    amount_in: String,
    /// Amount received, in whole tokens; for an auction, its start amount.
    amount_out: String,
    /// Price impact in percent, without pool fees; for an auction, the impact that the same amount would have in the
    /// pools. For display.
    price_impact_pct: f64,
    /// Cost of the wallet's own gas in dollars; absent if the native token has no price. The filler of an auction pays
    /// for the fill, so that only an approval may remain. For display.
    gas_estimate_usd: Option<f64>,
    /// Pools of the route, leg by leg in trading order; empty for an auction.
    route: Vec<RouteHop>,
    /// Route type: `CLASSIC`, `DUTCH_V2`, `DUTCH_V3` or `PRIORITY`.
    route_type: &'static str,
    /// End of the quote's validity, in seconds since the Unix epoch by the chain's clock.
    deadline: u64,
    /// Typed data of the Permit2 permit for a swap through pools, if the quote source provides it.
    permit_data: Option<Value>,
}

/// Pool on the route.
#[derive(Debug, Serialize, JsonSchema)]
struct RouteHop {
    /// Address of the pool; in V4 the hash of its key.
    pool: String,
    /// Symbol of the input token.
    token_in: String,
    /// Symbol of the output token.
    token_out: String,
    /// Pool fee in hundredths of a basis point: 3000 is 0.3 %.
    fee_tier: u32,
    /// Uniswap version: `V2`, `V3` or `V4`.
    version: String,
    /// Number of the split's leg, counted from 1.
    leg: usize,
    /// Share of the amount that the leg takes, in basis points.
    share_bps: u32,
}

/// Implementation of `uniswap_get_quote`; see [`TOOL_DEF`].
pub struct GetQuote;

impl ReadTool for GetQuote {
    const META: ToolMeta = ToolMeta {
        name: "uniswap_get_quote",
        description: "Returns the price of a swap without executing it: expected output, price impact, gas estimate \
                      and recommended route. Changes no state.",
        category: Category::Trading,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Medium,
        progress_steps: &["Resolving tokens", "Computing route", "Estimating gas"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "Shows the result of a swap: expected output, price impact, gas and route. It executes \
                         nothing, so call it as often as needed for planning.",
        prompt_guidelines: Guidelines {
            thriving: "Call it freely, to compare routes and to time a trade.",
            cautious: "Call it before each planned trade, and drop the trade if its price impact is above 2 %.",
            declining: "Call it for exits only, and compare UniswapX with Classic for the better exit price.",
            terminal: "Call it to price exits only, and accept any reasonable quote for an immediate exit.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &["token_in", "token_out", "amount", "chain"],
        summary_fields: &["amount_out", "route_type", "price_impact_pct"],
        card: Some(CardKind::Quote),
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({"token_in": "WETH", "token_out": "USDC", "amount": "1.5", "chain": "ethereum"})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        let world = &context.world;
        let chain = world.chain(&params.chain)?;
        let slippage = slippage(context, params.slippage_bps)?;
        context.step("Resolving tokens");
        let ask =
            SwapQuery::new(world, chain, [&params.token_in, &params.token_out], &params.amount, params.exact_output)
                .await?
                .within(slippage);
        context.step("Computing route");
        let found = ask.find_route(world).await?;
        context.step("Estimating gas");
        answer(&ask, context, &params, slippage, &found).await
    }
}

/// Amounts and costs of a trade by its chosen route type.
struct RouteTerms {
    amount_in: TokenAmount,
    amount_out: TokenAmount,
    /// Minimum output, or the maximum input for an exact output; `None` if the maximum overflows.
    bound: Option<TokenAmount>,
    impact: Ratio,
    impact_with_fee: Ratio,
    /// Gas of the wallet's own transactions, in gas units.
    gas_units: u64,
}

/// Computes the terms of a swap through the route's pools.
fn through_pools(ask: &SwapQuery<'_>, route: &Route) -> Result<RouteTerms, ToolError> {
    let bound = match route.exact {
        FixedAmount::In(_) => {
            TokenAmount::new(ask.slippage.minimum_out(route.amount_out), ask.token_out.decimals).map(Some)?
        }
        FixedAmount::Out(_) => match ask.slippage.maximum_in(route.amount_in) {
            Ok(most) => TokenAmount::new(most, ask.token_in.decimals).map(Some)?,
            Err(_) => None,
        },
    };
    Ok(RouteTerms {
        amount_in: TokenAmount::new(route.amount_in, ask.token_in.decimals)?,
        amount_out: TokenAmount::new(route.amount_out, ask.token_out.decimals)?,
        bound,
        impact: route.price_impact.clone(),
        impact_with_fee: route.price_impact_with_fee.clone(),
        gas_units: route.gas_units,
    })
}

/// Computes the terms of an auction for the route's amounts.
async fn by_auction(
    ask: &SwapQuery<'_>,
    context: &CallContext,
    found: &FoundRoute,
    kind: OrderKind,
) -> Result<RouteTerms, ToolError> {
    let world = &context.world;
    let now = ask.chain.deadline_time(&*world.clock, found.snapshot.timestamp);
    let (terms, approves) =
        futures::join!(auction::terms(world, ask, &found.route, kind, now), approval_gas(ask, context, &found.route));
    let terms = terms?;
    Ok(RouteTerms {
        amount_in: TokenAmount::new(found.route.amount_in, ask.token_in.decimals)?,
        amount_out: TokenAmount::new(terms.start_out, ask.token_out.decimals)?,
        bound: Some(TokenAmount::new(terms.least_out, ask.token_out.decimals)?),
        // The auction's price derives from the pools after this amount, and the slippage guard judges it by the same
        // impact.
        impact: found.route.price_impact.clone(),
        impact_with_fee: found.route.price_impact_with_fee.clone(),
        gas_units: approves?,
    })
}

/// Returns the gas of the Permit2 approval that the order needs, in gas units. Zero if the allowance suffices or no
/// wallet is set up.
async fn approval_gas(ask: &SwapQuery<'_>, context: &CallContext, route: &Route) -> Result<u64, ToolError> {
    let world = &context.world;
    let (Some(account), TokenId::Erc20(token)) = (world.account, ask.token_in.id) else { return Ok(0) };
    let permit2 = ask.chain.contract(KnownContract::Permit2)?;
    let (standing, _) = allowances::read(ask.chain, token, account, permit2, &[]).await?;
    let promised = world.promised(ask.chain.network().chain_id, account, token)?;
    let enough = promised.checked_add(route.amount_in).is_some_and(|needed| standing.of_token >= needed);
    Ok(if enough { 0 } else { USUAL_APPROVAL_GAS })
}

async fn answer(
    ask: &SwapQuery<'_>,
    context: &CallContext,
    params: &Params,
    slippage: BasisPoints,
    found: &FoundRoute,
) -> Result<ToolReply<Output>, ToolError> {
    let FoundRoute { route, snapshot, gas_price, claim } = found;
    let network = ask.chain.network();
    let priced: Vec<Address> = [ask.contract_in, ask.contract_out]
        .into_iter()
        .chain(network.book.contract(KnownContract::WrappedNative))
        .collect();
    let (reports, symbols, share) = futures::join!(
        ask.chain.prices.prices(&priced),
        ask.symbols(route),
        liquidity_share(ask.chain, route, snapshot)
    );
    let size = size_advice(share.ok().as_ref(), &route.price_impact);
    let symbols = symbols?;
    let price = |at: usize| reports.get(at).and_then(|report| report.price.as_ref()).map(|price| price.usd);
    let pools = through_pools(ask, route)?;
    let value = price(0).and_then(|price| Usd::value_of(pools.amount_in, price, Rounding::Down).ok());
    let native_in = ask.token_in.id == TokenId::Native;
    let asked = params.prefer_uniswapx && !params.exact_output;
    let wanted = RouteCriteria { preferred: asked, signs: context.conditions().signs_messages, native_in, value };
    let way = wanted.choose_route(&context.world, network.chain_id);
    let (terms, alternative) = match way.auction {
        Some(kind) => (by_auction(ask, context, found, kind).await?, Some(&pools)),
        None => (through_pools(ask, route)?, None),
    };
    let worth = |amount, at: usize| {
        price(at).and_then(|price| Usd::value_of(amount, price, Rounding::Down).ok()).map(|usd| usd.to_string())
    };
    let gas_usd = |units: u64| {
        let wei = U256::from(units).saturating_mul(U256::from(*gas_price));
        price(2).and_then(|price| Usd::value_of(TokenAmount::ether(wei), price, Rounding::Up).ok())
    };
    // Rounded for display; all checks use exact fractions.
    let shown_usd = |usd: Option<Usd>| usd.and_then(|usd| usd.to_fixed(6, Rounding::Up).parse::<f64>().ok());
    let bound = match route.exact {
        FixedAmount::In(_) => "minimum_out",
        FixedAmount::Out(_) => "maximum_in",
    };
    // The filler of an auction chooses its own route, so none is listed.
    let legs = if way.auction.is_some() { &[][..] } else { route.legs.as_slice() };
    let warning = warning_about(&terms.impact);
    let hints = json!({
        "source": context.world.quotes.name(),
        "source_compared": found.source(&context.world),
        "block_number": snapshot.block_number,
        "block_timestamp": snapshot.timestamp,
        "amount_in_raw": terms.amount_in.raw().to_string(),
        "amount_out_raw": terms.amount_out.raw().to_string(),
        "amount_in_usd": worth(terms.amount_in, 0),
        "amount_out_usd": worth(terms.amount_out, 1),
        "price_out_per_in": price_between(&terms.amount_in, &terms.amount_out).map(|price| price.to_fixed(8)),
        "price_in_per_out": price_between(&terms.amount_out, &terms.amount_in).map(|price| price.to_fixed(8)),
        bound: terms.bound.map(|bound| bound.to_string()),
        "legs": legs.iter().map(leg_hint).collect::<Vec<_>>(),
        "slippage_bps": slippage.get(),
        "warnings": warning.map(|(code, _)| code).into_iter().collect::<Vec<_>>(),
        "price_impact_with_fee_pct": terms.impact_with_fee.to_percent(4),
        "gas_units": terms.gas_units,
        "gas_price_wei": gas_price.to_string(),
        "uniswapx": {
            "preferred": params.prefer_uniswapx, "offered": way.auction.is_some(), "why": way.why,
        },
        "alternative": alternative.map(|pools| json!({
            "route_type": "CLASSIC",
            "amount_out": pools.amount_out.to_string(),
            "minimum_out": pools.bound.map(|bound| bound.to_string()),
            "price_impact_pct": pools.impact.to_percent(4).parse().unwrap_or(WORST_IMPACT),
            "gas_units": pools.gas_units,
            "gas_estimate_usd": shown_usd(gas_usd(pools.gas_units)),
        })),
        "mev": size.into_iter().collect::<Vec<_>>(),
    });
    let said = summary(ask, params, route, &terms, &way, warning.map(|(_, words)| words));
    let explanation = [said.0, found.describe(&context.world), said.1].concat();
    let permit = claim.as_ref().and_then(|claim| claim.permit.as_ref()).filter(|_| way.auction.is_none());
    let output = Output {
        quote_id: context.call_id().to_string(),
        token_in: ask.token_in.symbol.to_string(),
        token_out: ask.token_out.symbol.to_string(),
        amount_in: terms.amount_in.to_string(),
        amount_out: terms.amount_out.to_string(),
        price_impact_pct: terms.impact.to_percent(4).parse().unwrap_or(WORST_IMPACT),
        gas_estimate_usd: shown_usd(gas_usd(terms.gas_units)),
        route: hops(legs, &symbols),
        route_type: way.auction.map_or("CLASSIC", OrderKind::name),
        deadline: snapshot.timestamp.saturating_add(VALID_SECONDS),
        permit_data: permit
            .map(|permit| typed_permit(network.chain_id, network.book.contract(KnownContract::Permit2), permit)),
    };
    Ok(ToolReply::new(output, explanation).hint(hints))
}

/// A leg as `decision_hints` give it: its share and its raw amounts.
fn leg_hint(leg: &RouteLeg) -> Value {
    json!({
        "share_bps": leg.share_bps,
        "amount_in_raw": leg.amount_in.to_string(),
        "amount_out_raw": leg.amount_out.to_string(),
    })
}

/// Hops of the legs, in order. `symbols` names the tokens.
fn hops(legs: &[RouteLeg], symbols: &BTreeMap<Address, String>) -> Vec<RouteHop> {
    let symbol = |address: &Address| symbols.get(address).cloned().unwrap_or_else(|| address.to_string());
    let hops = legs.iter().enumerate().flat_map(|(leg, of)| {
        let symbol = &symbol;
        of.hops.iter().map(move |hop| RouteHop {
            pool: hop.pool.to_string(),
            token_in: symbol(&hop.token_in),
            token_out: symbol(&hop.token_out),
            fee_tier: hop.fee,
            version: hop.version.to_string(),
            leg: leg + 1,
            share_bps: of.share_bps,
        })
    });
    hops.collect()
}

/// Returns a summary of the quote, and a reason for the classic route; empty unless UniswapX was preferred but not
/// used.
fn summary(
    ask: &SwapQuery<'_>,
    params: &Params,
    route: &Route,
    terms: &RouteTerms,
    way: &RouteChoice,
    warning: Option<&str>,
) -> (String, String) {
    let (paid, got) = (&ask.token_in.symbol, &ask.token_out.symbol);
    let explanation = match (way.auction, &terms.bound) {
        (Some(kind), Some(least)) => format!(
            "{} {paid} would be sold by auction ({kind}): it starts at {} {got} and pays at least {least} {got}; {}.{}",
            terms.amount_in,
            terms.amount_out,
            way.why,
            warning.unwrap_or_default()
        ),
        (Some(_) | None, _) => format!(
            "{} {paid} gives {} {got} over {} {}; price impact {} %.{}",
            terms.amount_in,
            terms.amount_out,
            route.legs.len(),
            if route.legs.len() == 1 { "path" } else { "paths" },
            terms.impact.to_percent(2),
            warning.unwrap_or_default(),
        ),
    };
    let classic = if way.auction.is_none() && params.prefer_uniswapx {
        format!(" Classic route, although UniswapX is preferred: {}.", way.why)
    } else {
        String::new()
    };
    (explanation, classic)
}

/// Builds the typed data of a permit from parsed fields, so that only fields known to Permit2 are included.
fn typed_permit(chain_id: u64, permit2: Option<Address>, permit: &PermitSingle) -> Value {
    let field = |name: &str, kind: &str| json!({ "name": name, "type": kind });
    json!({
        "domain": { "name": "Permit2", "chainId": chain_id, "verifyingContract": permit2 },
        "types": {
            "PermitSingle": [
                field("details", "PermitDetails"), field("spender", "address"), field("sigDeadline", "uint256"),
            ],
            "PermitDetails": [
                field("token", "address"), field("amount", "uint160"),
                field("expiration", "uint48"), field("nonce", "uint48"),
            ],
        },
        "primaryType": "PermitSingle",
        "values": {
            "details": {
                "token": permit.details.token,
                "amount": permit.details.amount.to_string(),
                "expiration": permit.details.expiration.to_string(),
                "nonce": permit.details.nonce.to_string(),
            },
            "spender": permit.spender,
            "sigDeadline": permit.sigDeadline.to_string(),
        },
    })
}

/// Returns a warning code and sentence for a high price impact.
fn warning_about(impact: &Ratio) -> Option<(&'static str, &'static str)> {
    let at_least = |bps: u64| Ratio::of(U256::from(bps), U256::from(10_000)).is_some_and(|bound| *impact >= bound);
    if at_least(RUINOUS_IMPACT) {
        let words = " WARNING: the amount far exceeds the pools' liquidity near the current price; price impact costs \
                     more than half of the amount.";
        return Some(("BEYOND_DEPTH", words));
    }
    let words = " WARNING: the trade moves the price a lot; a smaller trade, or several over time, would lose less.";
    at_least(HIGH_IMPACT).then_some(("HIGH_PRICE_IMPACT", words))
}
