//! `get_lending_position`: supplies, debts and health factor of an account in the lending market.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::engine::{CallContext, ReadTool, ToolDef, ToolReply};
use crate::lending::liquidations::{LOOKBACK_BLOCKS, liquidations};
use crate::lending::{self, LendingRow, ReserveTokens};
use bardo_base::error::ToolError;
use bardo_base::fabric::{LendingLiquidated, health_factor};
use bardo_base::format::dollars;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};

/// Definition of the `get_lending_position` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<GetLendingPosition>();

/// Parameters of `get_lending_position`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Chain name, alias or decimal id.
    chain: String,
    /// Account, as a 0x address; defaults to the wallet's account.
    #[serde(default)]
    account: Option<String>,
}

/// Result of `get_lending_position`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Address of the account.
    account: String,
    /// Name of the chain.
    chain: String,
    /// Number of the block that all figures are from.
    block_number: u64,
    /// True if several endpoints agree on the answers; false if they are those of one endpoint.
    agreed_by_endpoints: bool,
    /// Value of all collateral in dollars, by the market's oracle.
    collateral_usd: String,
    /// Value of all debts in dollars, by the market's oracle.
    debt_usd: String,
    /// Dollars that the market would still lend, by its oracle. The policy's minimum health factor allows less.
    available_to_borrow_usd: String,
    /// Share of the collateral's value at which the debt is liquidated, in percent; the mean of all collateral.
    liquidation_threshold_pct: String,
    /// Health factor with 18 decimals; below 1 the debt can be liquidated. Absent without debt.
    health_factor: Option<String>,
    /// Category (e-mode) that the account chose, in which other thresholds hold; 0 for none.
    e_mode: u64,
    /// Supplies and debts of the account, by token.
    positions: Vec<LendingRow>,
    /// Liquidations of the account's debts by the pool's events, the oldest first; absent if the events could not be read.
    liquidations: Option<Vec<LiquidationEvent>>,
    /// First block in which liquidations were looked for; absent with them.
    liquidations_from_block: Option<u64>,
}

/// Liquidation of a part of a debt: a liquidator repaid it and took collateral for it.
#[derive(Debug, Serialize, JsonSchema)]
struct LiquidationEvent {
    /// Number of the block.
    block_number: u64,
    /// Hash of the liquidator's transaction.
    tx_hash: String,
    /// Symbol of the collateral that was taken, as listed; otherwise its address.
    collateral: String,
    /// Amount of it that was taken, in whole tokens.
    taken: String,
    /// Value of it in dollars at the present price; absent without one.
    taken_usd: Option<String>,
    /// Symbol of the debt's token, as listed; otherwise its address.
    debt: String,
    /// Amount of debt that was repaid for it, in whole tokens.
    covered: String,
    /// Value of it in dollars at the present price; absent without one.
    covered_usd: Option<String>,
    /// Account of the liquidator.
    liquidator: String,
}

impl LiquidationEvent {
    fn of(found: &LendingLiquidated) -> Self {
        Self {
            block_number: found.block,
            tx_hash: found.tx_hash.to_string(),
            collateral: found.collateral.to_string(),
            taken: found.taken.to_string(),
            taken_usd: found.taken_usd.map(|usd| usd.to_string()),
            debt: found.debt.to_string(),
            covered: found.covered.to_string(),
            covered_usd: found.covered_usd.map(|usd| usd.to_string()),
            liquidator: found.liquidator.to_string(),
        }
    }
}

/// Implementation of `get_lending_position`; see [`TOOL_DEF`].
pub struct GetLendingPosition;

impl ReadTool for GetLendingPosition {
    const META: ToolMeta = ToolMeta {
        name: "get_lending_position",
        description: "Shows what the wallet or another account has supplied to and borrowed from Aave V3, with interest: \
                      each token, values, rates, health factor, and the price of each token at which the debt is \
                      liquidated: a fall of what secures it, or a rise of what is owed; and what liquidators took of it in the \
                      newest blocks. All figures are the contracts' own, of one block.",
        category: Category::Data,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Medium,
        progress_steps: &["Reading lending market", "Reading liquidations"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "Supplies, debts, health factor and liquidation prices in Aave V3.",
        prompt_guidelines: Guidelines {
            thriving: "Look at the health factor before each change of a supply or a debt.",
            cautious: "Check the change of prices that liquidates the debt, and keep it well above what a day can bring.",
            declining: "Use it to decide which debt to repay first.",
            terminal: "Use it to see which debts are left to repay and which supplies to withdraw.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &["chain", "account"],
        summary_fields: &["health_factor", "debt_usd"],
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
        let account = context.world.account(params.account.as_deref())?;
        context.step("Reading lending market");
        let (head, state) = lending::read(chain, account).await?;
        let held = || state.positions.iter().filter(|one| !one.is_empty());
        let tokens = ReserveTokens::read(chain, held().map(|one| one.reserve)).await?;
        let moves = lending::moves(&state)?;
        let rows = state.positions.iter().zip(moves).filter(|(one, _)| !one.is_empty());
        let rows = rows.map(|(one, found)| tokens.row(one, found)).collect::<Result<Vec<_>, _>>()?;
        let sums = lending::sums(&state)?;
        let (collateral, debt) = (lending::base(sums.collateral)?, lending::base(sums.debt)?);
        let mut explanation = match (rows.is_empty(), sums.health_hundredths()) {
            (true, _) => format!("Nothing is supplied to or borrowed from Aave on {}", chain.network().name),
            (false, None) => format!("{} of collateral and no debt", dollars(collateral)),
            (false, health) => {
                let factor = health_factor(health);
                format!("{} of debt on {} of collateral, health factor {factor}", dollars(debt), dollars(collateral))
            }
        };
        for row in &rows {
            if let Some(at) = &row.liquidated_at {
                let (token, price) = (&row.token, dollars(at.price));
                let change = match (&at.fall_pct, &at.rise_pct) {
                    (_, Some(rise)) => format!("rises {rise} %"),
                    (fall, None) => format!("falls {} %", fall.as_deref().unwrap_or("0")),
                };
                explanation.push_str(&format!("; liquidated if {token} {change} to {price}"));
            }
        }
        explanation.push('.');
        context.step("Reading liquidations");
        // What is supplied and owed is known without them.
        let read = liquidations(chain, account, (head.number.saturating_sub(LOOKBACK_BLOCKS), head.number)).await.ok();
        if let Some(last) = read.as_ref().and_then(|read| read.found.last()) {
            explanation.push_str(&format!(" {last}, in block {}.", last.block));
        }
        let output = Output {
            account: account.to_string(),
            chain: chain.network().name.clone(),
            block_number: head.number,
            agreed_by_endpoints: chain.client.has_several_endpoints(),
            collateral_usd: collateral.to_string(),
            debt_usd: debt.to_string(),
            available_to_borrow_usd: lending::base(sums.available)?.to_string(),
            liquidation_threshold_pct: lending::percent(sums.threshold.saturating_to()),
            health_factor: lending::health(sums.health)?,
            e_mode: state.category,
            positions: rows,
            liquidations_from_block: read.as_ref().map(|read| read.from),
            liquidations: read.map(|read| read.found.iter().map(LiquidationEvent::of).collect()),
        };
        Ok(ToolReply::new(output, explanation))
    }
}
