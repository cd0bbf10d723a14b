//! `compute_rebalance_candidate`: whether moving a liquidity position to another range is expected to pay.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::candidate::{self, FiguresRow, Times, USUAL_HOURS};
use super::range::RangeWish;
use crate::engine::{CallContext, ReadTool, ToolDef, ToolReply};
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};

/// Definition of the `compute_rebalance_candidate` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<ComputeRebalanceCandidate>();

/// Parameters of `compute_rebalance_candidate`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Number of the position's token, such as "42" of V3 or "v4:42".
    position_id: String,
    /// Chain name, alias or decimal id.
    chain: String,
    /// Lower price of the new range: one whole token0 in whole tokens of token1. Without any range, the new one is as wide as
    /// the present one, around the pool's price.
    #[serde(default)]
    price_lower: Option<String>,
    /// Upper price of the new range.
    #[serde(default)]
    price_upper: Option<String>,
    /// Lower tick of the new range, instead of prices.
    #[serde(default)]
    tick_lower: Option<i32>,
    /// Upper tick of the new range, instead of prices.
    #[serde(default)]
    tick_upper: Option<i32>,
    /// Distance of both ends of the new range from the pool's price in percent, instead of prices.
    #[serde(default)]
    width_pct: Option<String>,
    /// Hours that the expectation is over, 1 to 720. `rebalance_position` decides by 24.
    #[serde(default = "usual")]
    horizon_hours: u64,
    /// Hours of swaps that it is computed from, 1 to 72. `rebalance_position` decides by 24.
    #[serde(default = "usual")]
    lookback_hours: u64,
}

fn usual() -> u64 {
    USUAL_HOURS
}

/// Result of `compute_rebalance_candidate`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Name of the chain.
    chain: String,
    /// Number of the block that the position's figures are from.
    block_number: u64,
    /// True if several endpoints agree on the answers; false if they are those of one endpoint.
    agreed_by_endpoints: bool,
    /// Identity of the position.
    position_id: String,
    /// Address of the pool; its id in V4.
    pool: String,
    /// Symbol of the pool's first token, as listed; otherwise its address.
    token0: String,
    /// Symbol of the pool's second token, as listed; otherwise its address.
    token1: String,
    /// True if the price is within the present range.
    in_range: bool,
    /// Current tick of the pool.
    tick: i32,
    /// Lower tick of the new range, rounded outward to the pool's spacing.
    tick_lower: i32,
    /// Upper tick of the new range.
    tick_upper: i32,
    /// Price of one whole token0 in whole tokens of token1 at the lower tick.
    price_lower: String,
    /// Price at the upper tick.
    price_upper: String,
    /// Value of the position with what it is owed, in dollars; absent without a price of each token.
    value_usd: Option<String>,
    /// Expected benefit and costs of the move.
    figures: FiguresRow,
    /// Benefit that the policy asks of a move, in dollars; absent without a policy.
    min_benefit_usd: Option<String>,
    /// True if the benefit reaches it.
    reaches_minimum: bool,
}

/// Implementation of `compute_rebalance_candidate`; see [`TOOL_DEF`].
pub struct ComputeRebalanceCandidate;

impl ReadTool for ComputeRebalanceCandidate {
    const META: ToolMeta = ToolMeta {
        name: "compute_rebalance_candidate",
        description: "Computes whether moving a Uniswap V3 or V4 liquidity position to a new range is expected to pay over a \
                      horizon: fees by the swaps of the pool and the position's share of the liquidity, time in range by \
                      the past price moves in both directions, less the loss to arbitrage (loss-versus-rebalancing, \
                      volatility squared times liquidity times the root of the price over four; Milionis et al. 2022, by the \
                      realised variance of five-minute prices), the cost of the swap by a quote, and gas. Says the window and \
                      the number of swaps; too little data is an error. The past promises nothing.",
        category: Category::Lp,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Slow,
        progress_steps: &["Reading position", "Reading swaps", "Quoting the swap"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "Whether moving a liquidity position to another range is expected to pay, with the figures.",
        prompt_guidelines: Guidelines {
            thriving: "Compare several widths before you move a position, and leave it where the benefit is small.",
            cautious: "Prefer wide ranges; a move pays its costs at once and earns later.",
            declining: "Use it only to decide between leaving a position and closing it.",
            terminal: "Not needed: close the position.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &["position_id", "chain", "horizon_hours"],
        summary_fields: &["position_id", "reaches_minimum"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({"position_id": "1", "chain": "ethereum"})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        let chain = context.world.chain(&params.chain)?;
        let times = Times::of(params.lookback_hours, params.horizon_hours)?;
        let prices = [params.price_lower, params.price_upper];
        let wish = RangeWish::if_named(prices, [params.tick_lower, params.tick_upper], params.width_pct)?;
        let ground = candidate::ground(context, chain, &params.position_id, None, wish.as_ref()).await?;
        let figures = candidate::weigh(context, chain, &ground, times).await?;
        let minimum = context.world.policy().map(|policy| policy.rules().min_rebalance_benefit_usd.0);
        let reaches_minimum = figures.reach(minimum.unwrap_or_default());
        let key = ground.state.key;
        let [price_lower, price_upper] = candidate::prices_of(&ground, ground.range)?;
        let explanation = match minimum {
            Some(minimum) if !reaches_minimum => {
                format!("{}. The policy asks for at least ${minimum}.", figures.sentence())
            }
            Some(_) | None => format!("{}.", figures.sentence()),
        };
        let output = Output {
            chain: chain.network().name.clone(),
            block_number: ground.head.number,
            agreed_by_endpoints: chain.client.has_several_endpoints(),
            position_id: key.id.to_string(),
            pool: key.pool.id().to_string(),
            token0: ground.read.symbol(key.token0),
            token1: ground.read.symbol(key.token1),
            in_range: ground.state.is_in_range(),
            tick: ground.pool.tick,
            tick_lower: ground.range.lower(),
            tick_upper: ground.range.upper(),
            price_lower,
            price_upper,
            value_usd: ground.read.worth(&ground.state).map(|usd| usd.to_string()),
            figures: figures.row,
            min_benefit_usd: minimum.map(|usd| usd.to_string()),
            reaches_minimum,
        };
        Ok(ToolReply::new(output, explanation))
    }
}
