//! `intel_assess_mev_risk`: potential loss of a swap to a sandwich attack, and ways to prevent it.

use alloy::primitives::{Address, U256};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::engine::{CallContext, ReadTool, ToolDef, ToolReply};
use crate::mev::{SPLIT_ABOVE, liquidity_share};
use crate::swap_query::{SwapQuery, slippage};
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_base::units::{BasisPoints, Rounding, TokenAmount, Usd};
use golem_chain::network::KnownContract;
use golem_chain::token;
use golem_protocols::uniswap::discovery::PoolSnapshot;
use golem_protocols::uniswap::pool::minimum_out;
use golem_protocols::uniswap::ratio::Ratio;
use golem_protocols::uniswap::routing::{GasModel, Route};
use golem_protocols::uniswap::sandwich::{Sandwich, sandwiches};

/// Definition of the `intel_assess_mev_risk` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<AssessMevRisk>();

/// Thresholds of medium and high risk: the attacker's share of the trade, in hundredths of a basis point.
const MEDIUM_FROM: u64 = 500;
const HIGH_FROM: u64 = 5_000;

/// Parameters of `intel_assess_mev_risk`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Token paid: symbol or 0x address.
    token_in: String,
    /// Token received: symbol or 0x address.
    token_out: String,
    /// Amount of token_in, in whole tokens, such as "500" or "1.5"; "max" is the wallet's whole balance.
    amount: String,
    /// Chain name, alias or decimal id.
    chain: String,
    /// Slippage tolerance of the planned swap, in basis points. Defaults to 50, or less if phase or policy allow less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", range(max = 10_000), extend("default" = 50))]
    slippage_bps: Option<u32>,
}

/// Result of `intel_assess_mev_risk`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Symbol of the token paid.
    token_in: String,
    /// Symbol of the token received.
    token_out: String,
    /// Amount paid, in whole tokens.
    amount_in: String,
    /// Amount received without interference, in whole tokens.
    amount_out: String,
    /// Minimum output of the swap, in whole tokens.
    minimum_out: String,
    /// Risk: `none`, `low`, `medium` or `high`; see the explanation.
    risk: Risk,
    /// Value of the difference between expected and minimum output, in dollars: the upper limit of any attack's cost.
    /// Absent without a price.
    exposed_usd: Option<String>,
    /// Sandwich that takes the largest share of the trade; absent if none is profitable before gas.
    sandwich: Option<SandwichFound>,
    /// Largest slippage tolerance, in basis points, that leaves at most a low risk; absent if there is none.
    safe_slippage_bps: Option<u32>,
    /// Largest share of a pool's token balance that the trade takes, in percent.
    liquidity_share_pct: String,
    /// True if the trade should be split, because that share is above 1 %.
    split_recommended: bool,
    /// Number of parts that keeps each share at or below 1 %; 1 if no split is needed.
    parts: u64,
    /// Advice, most helpful first.
    advice: Vec<String>,
}

/// Share of the trade that an attacker could take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Risk {
    /// No sandwich is profitable.
    None,
    /// The gain is below the attacker's gas, or below 0.05 % of the trade.
    Low,
    /// The gain is below 0.5 % of the trade.
    Medium,
    /// The gain is 0.5 % of the trade or more.
    High,
}

/// Sandwich attack on one pool.
#[derive(Debug, Serialize, JsonSchema)]
struct SandwichFound {
    /// Address of the attacked pool; in V4 the hash of its key.
    pool: String,
    /// Symbol of the token that the attacker pays and gains.
    token: String,
    /// Amount of the attacker's first trade, in whole tokens.
    first: String,
    /// Attacker's gain in whole tokens, before gas.
    gain: String,
    /// Attacker's gain in dollars after the gas of both trades; negative if the attack does not pay. Absent without a
    /// price.
    net_gain_usd: Option<String>,
    /// Output that the swap would still receive, in whole tokens.
    amount_out: String,
}

/// Implementation of `intel_assess_mev_risk`; see [`TOOL_DEF`].
pub struct AssessMevRisk;

impl ReadTool for AssessMevRisk {
    const META: ToolMeta = ToolMeta {
        name: "intel_assess_mev_risk",
        description: "Estimates how much a sandwich could take from a swap, from its size, its slippage and the depth \
                      of the pools on its route, and shows what would make a sandwich unprofitable: a tighter \
                      slippage, or several smaller trades. Changes no state.",
        category: Category::Intelligence,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Medium,
        progress_steps: &["Resolving tokens", "Computing route", "Simulating sandwiches"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "Estimates what a sandwich could take from a swap, and which slippage or split prevents it. \
                         For trades that are large for their pools.",
        prompt_guidelines: Guidelines {
            thriving: "Check trades above $10K; split a trade above 1 % of a pool.",
            cautious: "Check every trade above $1K, and use the slippage it calls safe.",
            declining: "Check each exit that is large for its pools, and split it if advised.",
            terminal: "Check only large exits; exiting matters more than the last tenth of a percent.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &["token_in", "token_out", "amount", "chain", "slippage_bps"],
        summary_fields: &["risk", "exposed_usd", "split_recommended"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({"token_in": "WETH", "token_out": "USDC", "amount": "50", "chain": "ethereum", "slippage_bps": 100})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        let world = &context.world;
        let chain = world.chain(&params.chain)?;
        let slippage = slippage(context, params.slippage_bps)?;
        context.step("Resolving tokens");
        let ask = SwapQuery::new(world, chain, [&params.token_in, &params.token_out], &params.amount, false).await?;
        context.step("Computing route");
        let (route, snapshot, gas_price) = ask.route(world).await?;
        context.step("Simulating sandwiches");
        let assessed = ValuedRoute::new(&ask, &route, &snapshot, gas_price).await?;
        assessed.answer(slippage)
    }
}

/// Route with the prices and the gas cost that value an attack on it.
struct ValuedRoute<'a> {
    ask: &'a SwapQuery<'a>,
    route: &'a Route,
    snapshot: &'a PoolSnapshot,
    /// Input tokens of the route's hops, in which a sandwich can be paid: token, contract and price.
    paid: Vec<(token::TokenInfo, Address, Option<Usd>)>,
    price_out: Option<Usd>,
    /// Largest share of a pool's token balance that the trade takes.
    share: Ratio,
    /// Gas cost of the attacker's two trades, in dollars.
    gas: Option<Usd>,
}

impl<'a> ValuedRoute<'a> {
    async fn new(
        ask: &'a SwapQuery<'a>,
        route: &'a Route,
        snapshot: &'a PoolSnapshot,
        gas_price: u128,
    ) -> Result<Self, ToolError> {
        let (chain, network) = (ask.chain, ask.chain.network());
        let mut paid: Vec<Address> =
            route.legs.iter().flat_map(|leg| leg.hops.iter().map(|hop| hop.token_in)).collect();
        paid.sort_unstable();
        paid.dedup();
        let wrapped = network.book.contract(KnownContract::WrappedNative);
        let priced: Vec<Address> = paid.iter().copied().chain([ask.contract_out]).chain(wrapped).collect();
        let (tokens, reports) =
            futures::join!(token::read(&paid, network, chain.client.agreed()), chain.prices.prices(&priced));
        let price = |at: usize| reports.get(at).and_then(|report| report.price.as_ref()).map(|price| price.usd);
        let mut known = Vec::with_capacity(paid.len());
        for (at, (address, token)) in paid.iter().zip(tokens?).enumerate() {
            known.push((token?, *address, price(at)));
        }
        let model = GasModel::default();
        let hop = model.v3_hop.max(model.v2_hop).saturating_add(model.v3_tick);
        let units = model.transaction.saturating_add(model.leg).saturating_add(hop).saturating_mul(2);
        let wei = U256::from(units).saturating_mul(U256::from(gas_price));
        let coin = wrapped.and_then(|_| price(paid.len() + 1));
        let gas = coin.and_then(|price| Usd::value_of(TokenAmount::ether(wei), price, Rounding::Up).ok());
        let share = liquidity_share(ask.chain, route, snapshot).await?;
        Ok(Self { ask, route, snapshot, paid: known, price_out: price(paid.len()), share, gas })
    }

    /// Finds the sandwich that takes the largest share of the trade at this slippage. Returns it with that share and
    /// its gain in dollars before gas.
    fn worst(&self, slippage_bps: u32) -> Option<(Sandwich, Ratio, Option<Usd>)> {
        let minimum = minimum_out(self.route.amount_out, slippage_bps)?;
        let found = sandwiches(self.route, &self.snapshot.pools, minimum);
        let weighed = found.into_iter().filter_map(|sandwich| {
            let leg = self.route.legs.get(sandwich.leg)?;
            let hop = leg.hops.get(sandwich.hop)?;
            // Share of this pool's flow, times the share of the trade that takes this leg.
            let part = Ratio::of(sandwich.gain, hop.amount_in)?;
            let part = part.times(&Ratio::of(leg.amount_in, self.route.amount_in)?);
            Some((sandwich, part))
        });
        let (sandwich, part) = weighed.max_by(|(_, left), (_, right)| left.cmp(right))?;
        let usd = self.paid.iter().find(|(_, address, _)| *address == sandwich.token).and_then(|(token, _, price)| {
            let gain = TokenAmount::new(sandwich.gain, token.decimals).ok()?;
            Usd::value_of(gain, (*price)?, Rounding::Up).ok()
        });
        Some((sandwich, part, usd))
    }

    /// Rates a sandwich. A gain that does not exceed the attacker's gas is a low risk.
    fn risk(&self, worst: Option<&(Sandwich, Ratio, Option<Usd>)>) -> Risk {
        let Some((_, part, usd)) = worst else { return Risk::None };
        let at_least = |millionths: u64| {
            Ratio::of(U256::from(millionths), U256::from(1_000_000)).is_none_or(|bound| *part >= bound)
        };
        let unprofitable = usd.zip(self.gas).is_some_and(|(gain, gas)| gain <= gas);
        if unprofitable || !at_least(MEDIUM_FROM) {
            Risk::Low
        } else if at_least(HIGH_FROM) {
            Risk::High
        } else {
            Risk::Medium
        }
    }

    /// Returns the largest slippage, up to `slippage_bps`, that leaves at most a low risk; `None` if even zero does
    /// not.
    fn safe_slippage(&self, slippage_bps: u32) -> Option<u32> {
        let safe = |bps: u32| self.risk(self.worst(bps).as_ref()) <= Risk::Low;
        if safe(slippage_bps) {
            return Some(slippage_bps);
        }
        let (mut low, mut high) = (0, slippage_bps);
        if !safe(low) {
            return None;
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if safe(middle) {
                low = middle;
            } else {
                high = middle;
            }
        }
        Some(low)
    }

    fn answer(&self, slippage: BasisPoints) -> Result<ToolReply<Output>, ToolError> {
        let (token_in, token_out) = (&self.ask.token_in, &self.ask.token_out);
        let amount_in = TokenAmount::new(self.route.amount_in, token_in.decimals)?;
        let amount_out = TokenAmount::new(self.route.amount_out, token_out.decimals)?;
        let least = minimum_out(self.route.amount_out, slippage.get()).unwrap_or_default();
        let exposed = TokenAmount::new(self.route.amount_out.saturating_sub(least), token_out.decimals)?;
        let exposed_usd = self.price_out.and_then(|price| Usd::value_of(exposed, price, Rounding::Up).ok());
        let worst = self.worst(slippage.get());
        let risk = self.risk(worst.as_ref());
        let safe_slippage_bps = self.safe_slippage(slippage.get());
        let share_bps = self.share.times(&Ratio::whole(U256::from(10_000))).ceil().unwrap_or(U256::MAX);
        let split = share_bps > U256::from(SPLIT_ABOVE);
        let parts = if split { share_bps.div_ceil(U256::from(SPLIT_ABOVE)).saturating_to() } else { 1 };
        let sandwich = match &worst {
            None => None,
            Some((found, _, usd)) => Some(self.describe(found, *usd)?),
        };
        let advice = advice(risk, slippage.get(), safe_slippage_bps, parts);
        let explanation = format!(
            "{} risk for {amount_in} {} to {}: {}",
            match risk {
                Risk::None => "No",
                Risk::Low => "Low",
                Risk::Medium => "Medium",
                Risk::High => "High",
            },
            token_in.symbol,
            token_out.symbol,
            match (&sandwich, risk) {
                (None, _) => "no sandwich earns more than it pays in pool fees.".to_owned(),
                (Some(found), Risk::None | Risk::Low) => {
                    format!("a sandwich could gain {} {}, which is hardly profitable.", found.gain, found.token)
                }
                (Some(found), Risk::Medium | Risk::High) => format!(
                    "a sandwich could gain {} {}, and you would get {} {}. {}",
                    found.gain,
                    found.token,
                    found.amount_out,
                    token_out.symbol,
                    advice.first().map(String::as_str).unwrap_or_default()
                ),
            },
        );
        let hints = json!({
            "block_number": self.snapshot.block_number,
            "slippage_bps": slippage.get(),
            "attacker_gas_usd": self.gas.map(|gas| gas.to_string()),
            "taken_share_pct": worst.as_ref().map(|(_, part, _)| part.to_percent(4)),
        });
        let output = Output {
            token_in: token_in.symbol.to_string(),
            token_out: token_out.symbol.to_string(),
            amount_in: amount_in.to_string(),
            amount_out: amount_out.to_string(),
            minimum_out: TokenAmount::new(least, token_out.decimals)?.to_string(),
            risk,
            exposed_usd: exposed_usd.map(|usd| usd.to_string()),
            sandwich,
            safe_slippage_bps,
            liquidity_share_pct: self.share.to_percent(4),
            split_recommended: split,
            parts,
            advice,
        };
        Ok(ToolReply::new(output, explanation).hint(hints))
    }

    fn describe(&self, found: &Sandwich, usd: Option<Usd>) -> Result<SandwichFound, ToolError> {
        let token = self.paid.iter().find(|(_, address, _)| *address == found.token).map(|(token, _, _)| token);
        let amount = |raw: U256| match token {
            Some(token) => TokenAmount::new(raw, token.decimals).map(|amount| amount.to_string()),
            None => Ok(raw.to_string()),
        };
        let net = usd.zip(self.gas).map(|(gain, gas)| match gain.checked_sub(gas) {
            Ok(net) => net.to_string(),
            Err(_) => gas.checked_sub(gain).map(|short| format!("-{short}")).unwrap_or_default(),
        });
        Ok(SandwichFound {
            pool: found.pool.to_string(),
            token: token.map_or_else(|| found.token.to_string(), |token| token.symbol.to_string()),
            first: amount(found.first)?,
            gain: amount(found.gain)?,
            net_gain_usd: net,
            amount_out: TokenAmount::new(found.amount_out, self.ask.token_out.decimals)?.to_string(),
        })
    }
}

fn advice(risk: Risk, slippage_bps: u32, safe_slippage_bps: Option<u32>, parts: u64) -> Vec<String> {
    let mut advice = Vec::new();
    if risk > Risk::Low {
        match safe_slippage_bps {
            Some(safe) if safe > 0 && safe < slippage_bps => {
                advice.push(format!("Use a slippage of {safe} basis points or less: the risk is then at most low."));
            }
            _ => advice.push("No slippage tolerance makes it safe as one trade: reduce the amount.".to_owned()),
        }
    }
    if parts > 1 {
        advice.push(format!(
            "Split it into {parts} parts over several blocks, so that none takes more than 1 % of a pool."
        ));
    }
    if risk > Risk::Low {
        advice.push("Send it through a private relay, or as an order that fillers compete for.".to_owned());
    }
    advice
}
