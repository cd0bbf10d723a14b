//! `get_tokenjar_balances`: what the jar of protocol fees holds, what a release costs, and what V3 pools owe.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{AssetRow, Jar, OwedRow, dollars, sum};
use crate::engine::{CallContext, ReadTool, ToolDef, ToolReply};
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_base::units::Usd;

/// Definition of the `get_tokenjar_balances` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<GetTokenjarBalances>();

/// Parameters of `get_tokenjar_balances`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Chain name, alias or decimal id.
    chain: String,
}

/// Result of `get_tokenjar_balances`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Name of the chain.
    chain: String,
    /// Number of the block whose state was read.
    block_number: u64,
    /// Address of the jar.
    token_jar: String,
    /// Address of the contract that releases it.
    releaser: String,
    /// Listed tokens in the jar, the most valuable first.
    assets: Vec<AssetRow>,
    /// Value of the assets with a price, in dollars.
    total_usd: String,
    /// Symbol of the token that a release costs.
    threshold_token: String,
    /// Cost of a release in whole tokens.
    threshold: String,
    /// Cost of a release in dollars; absent without a price.
    threshold_usd: Option<String>,
    /// Profit of releasing everything that has a price, in dollars before gas, with a minus sign for a loss; absent without a price
    /// of the cost.
    profit_usd: Option<String>,
    /// Number of the next release.
    nonce: String,
    /// V3 pools that owe fees which `claim_fees` collects into the jar, the most valuable first.
    collectable: Vec<OwedRow>,
    /// Value of what they owe, in dollars.
    collectable_usd: String,
}

/// Implementation of `get_tokenjar_balances`; see [`TOOL_DEF`].
pub struct GetTokenjarBalances;

/// Difference in dollars with its sign.
fn difference(gain: Usd, cost: Usd) -> Option<String> {
    if gain >= cost {
        Some(dollars(gain.checked_sub(cost).ok()?))
    } else {
        Some(format!("-{}", dollars(cost.checked_sub(gain).ok()?)))
    }
}

impl ReadTool for GetTokenjarBalances {
    const META: ToolMeta = ToolMeta {
        name: "get_tokenjar_balances",
        description: "Shows the jar of Uniswap's protocol fees: the listed tokens in it with their value, the threshold of UNI that \
                      a release costs, the profit of a release before gas, and the fees that V3 pools owe and anybody may collect \
                      into the jar.",
        category: Category::Fees,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Medium,
        progress_steps: &["Reading jar", "Reading V3 pools"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "The protocol fee jar: assets, cost of a release, profit, and fees to collect.",
        prompt_guidelines: Guidelines {
            thriving: "Look at it before execute_burn: others release too, and the first one gets everything.",
            cautious: "A profit here is before gas, and gone when somebody else is first.",
            declining: "Not needed: releases are not allowed.",
            terminal: "Not needed: releases are not allowed.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &["chain"],
        summary_fields: &["total_usd", "threshold_usd", "profit_usd"],
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
        context.step("Reading jar");
        let jar = Jar::read(chain).await?;
        context.step("Reading V3 pools");
        let collectable = jar.owed(chain).await?;
        let total = sum(jar.assets.iter().map(|row| row.value))?;
        let owed = sum(collectable.iter().map(|row| row.value))?;
        let (cost, cost_usd) = (jar.cost()?, jar.cost_usd());
        let symbol = jar.resource.symbol.to_string();
        let explanation = format!(
            "The jar holds ${}; a release costs {cost} {symbol}. V3 pools owe ${} more.",
            dollars(total),
            dollars(owed)
        );
        let output = Output {
            chain: chain.network().name.clone(),
            block_number: jar.head.number,
            token_jar: jar.jar.to_string(),
            releaser: jar.releaser.to_string(),
            total_usd: dollars(total),
            threshold_token: symbol,
            threshold: cost.to_string(),
            threshold_usd: cost_usd.map(dollars),
            profit_usd: cost_usd.and_then(|cost| difference(total, cost)),
            nonce: jar.nonce.to_string(),
            assets: jar.assets,
            collectable,
            collectable_usd: dollars(owed),
        };
        Ok(ToolReply::new(output, explanation))
    }
}
