//! `list_lending_reserves`: tokens of the lending market, with rates, limits and what can be borrowed.

use alloy::eips::BlockId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::blocks;
use crate::engine::{CallContext, ReadTool, ToolDef, ToolReply};
use crate::lending::{self, ReserveTokens};
use crate::shared::invalid;
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use golem_chain::token::TokenId;
use golem_protocols::aave::market::ReserveTotals;
use golem_protocols::aave::math::{RAY, SECONDS_PER_YEAR, compounded_interest};
use golem_protocols::aave::reserve::ReserveState;
use golem_protocols::uniswap::ratio::Ratio;

/// Definition of the `list_lending_reserves` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<ListLendingReserves>();

/// Parameters of `list_lending_reserves`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Chain name, alias or decimal id.
    chain: String,
    /// Token whose reserve is wanted: symbol or 0x address; defaults to all.
    #[serde(default)]
    token: Option<String>,
}

/// Reserve of the market.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReserveRow {
    /// Symbol of the token, as listed; otherwise its address.
    token: String,
    /// Address of the token.
    address: String,
    /// All supplies with interest, in whole tokens.
    supplied: String,
    /// All debts with interest, in whole tokens.
    borrowed: String,
    /// Amount that can be withdrawn or borrowed now, in whole tokens.
    available: String,
    /// Share of the supplies that is borrowed, in percent; absent without supplies.
    utilization_pct: Option<String>,
    /// Yearly rate that supplies earn, in percent, without compounding.
    supply_apr_pct: String,
    /// Yearly rate that debts pay, in percent, without compounding.
    borrow_apr_pct: String,
    /// Growth of a debt in a year at this rate, in percent.
    borrow_apy_pct: String,
    /// Share of a supply's value that can be borrowed against it, in percent; 0 if it cannot secure debts.
    max_ltv_pct: String,
    /// Share of a supply's value at which a debt against it is liquidated, in percent.
    liquidation_threshold_pct: String,
    /// Bonus of a liquidator beyond the value of the debt that it repays, in percent.
    liquidation_bonus_pct: String,
    /// Share of the interest that the protocol keeps, in percent.
    reserve_factor_pct: String,
    /// Maximum of all supplies in whole tokens; absent without a limit.
    supply_cap: Option<u64>,
    /// Maximum of all debts in whole tokens; absent without a limit.
    borrow_cap: Option<u64>,
    /// True if it can be supplied now.
    can_supply: bool,
    /// True if it can be borrowed now.
    can_borrow: bool,
    /// True if it can be withdrawn and repaid now.
    can_exit: bool,
    /// True if who supplies it may borrow against it alone, up to a limit for all.
    isolated: bool,
    /// Price of the token by the market's own oracle, in dollars.
    market_price_usd: String,
    /// Price of the token by Bardo's price sources, in dollars; absent without one.
    price_usd: Option<String>,
}

/// Result of `list_lending_reserves`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Name of the chain.
    chain: String,
    /// Address of the pool.
    pool: String,
    /// Number of the block that all figures are from.
    block_number: u64,
    /// True if several endpoints agree on the answers; false if they are those of one endpoint.
    agreed_by_endpoints: bool,
    /// Reserves in the pool's order.
    reserves: Vec<ReserveRow>,
}

/// Implementation of `list_lending_reserves`; see [`TOOL_DEF`].
pub struct ListLendingReserves;

impl ReadTool for ListLendingReserves {
    const META: ToolMeta = ToolMeta {
        name: "list_lending_reserves",
        description: "Lists the tokens that can be supplied to or borrowed from Aave V3, with totals, yearly rates, loan \
                      to value, liquidation thresholds, caps and prices. All figures are the contracts' own, of one block.",
        category: Category::Data,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Medium,
        progress_steps: &["Reading reserves"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "Rates, limits and liquidity of the tokens in Aave V3.",
        prompt_guidelines: Guidelines {
            thriving: "Compare what a supply earns with what the same token earns elsewhere.",
            cautious: "Look at the utilization: near 100 % nothing can be withdrawn.",
            declining: "Check what is available before you plan a withdrawal.",
            terminal: "Check what is available before you plan a withdrawal.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &["chain", "token"],
        summary_fields: &["block_number"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({"chain": "ethereum"})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        let chain = context.world.chain(&params.chain)?;
        let contracts = lending::contracts(chain)?;
        let wanted = match &params.token {
            None => None,
            Some(named) => match chain.token(named).await?.id {
                TokenId::Erc20(asset) => Some(asset),
                TokenId::Native => return Err(invalid("token", &"the market lends wrapped tokens, such as WETH")),
            },
        };
        context.step("Reading reserves");
        let head = blocks::newest(chain).await?;
        let (provider, block) = (chain.client.agreed(), BlockId::hash(head.hash));
        let mut reserves = contracts.reserves(provider, block).await.map_err(lending::unreadable)?;
        reserves.retain(|one| wanted.is_none_or(|asset| one.asset == asset));
        if let (Some(named), true) = (&params.token, reserves.is_empty()) {
            return Err(invalid("token", &format_args!("the market does not have {named}")));
        }
        let (totals, tokens) = futures::join!(
            contracts.totals(provider, &reserves, block),
            ReserveTokens::read(chain, reserves.iter().copied())
        );
        let (totals, tokens) = (totals.map_err(lending::unreadable)?, tokens?);
        let rows = reserves.iter().zip(&totals).map(|(one, totals)| row(one, totals, &tokens));
        let rows = rows.collect::<Result<Vec<_>, _>>()?;
        let explanation = match rows.as_slice() {
            [one] => format!(
                "{}: supplies earn {} %, debts pay {} % a year.",
                one.token, one.supply_apr_pct, one.borrow_apr_pct
            ),
            many => format!("{} reserves of Aave on {}.", many.len(), chain.network().name),
        };
        let output = Output {
            chain: chain.network().name.clone(),
            pool: contracts.pool.to_string(),
            block_number: head.number,
            agreed_by_endpoints: chain.client.has_several_endpoints(),
            reserves: rows,
        };
        Ok(ToolReply::new(output, explanation))
    }
}

fn row(one: &ReserveState, totals: &ReserveTotals, tokens: &ReserveTokens) -> Result<ReserveRow, ToolError> {
    let config = &one.config;
    let growth = compounded_interest(one.debt_rate, SECONDS_PER_YEAR).map_err(lending::impossible)?;
    let open = config.active && !config.paused;
    Ok(ReserveRow {
        token: tokens.symbol(one.asset),
        address: one.asset.to_string(),
        supplied: lending::whole(one, totals.supplied)?,
        borrowed: lending::whole(one, totals.borrowed)?,
        available: lending::whole(one, totals.available)?,
        utilization_pct: Ratio::of(totals.borrowed, totals.supplied).map(|share| share.to_percent(2)),
        supply_apr_pct: lending::rate(one.supply_rate)?,
        borrow_apr_pct: lending::rate(one.debt_rate)?,
        borrow_apy_pct: lending::rate(growth.saturating_sub(RAY))?,
        max_ltv_pct: lending::percent(config.ltv),
        liquidation_threshold_pct: lending::percent(config.threshold),
        liquidation_bonus_pct: lending::percent(config.bonus.saturating_sub(10_000)),
        reserve_factor_pct: lending::percent(config.factor),
        supply_cap: (config.supply_cap != 0).then_some(config.supply_cap),
        borrow_cap: (config.borrow_cap != 0).then_some(config.borrow_cap),
        can_supply: open && !config.frozen,
        can_borrow: open && !config.frozen && config.borrowing,
        can_exit: open,
        isolated: config.debt_ceiling != 0,
        market_price_usd: lending::base(one.price)?.to_string(),
        price_usd: tokens.price(one.asset),
    })
}
