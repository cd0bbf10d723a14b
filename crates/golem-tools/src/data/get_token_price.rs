//! `get_token_price`: dollar price of one whole token, with its source and age.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::engine::{CallContext, ReadTool, ToolDef, ToolReply};
use crate::shared::contract_of;
use bardo_base::error::ToolError;
use bardo_base::format;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};

/// Definition of the `get_token_price` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<GetTokenPrice>();

/// Parameters of `get_token_price`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Token symbol or 0x address.
    token: String,
    /// Chain name, alias or decimal id.
    chain: String,
}

/// Result of `get_token_price`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Symbol of the token.
    token: String,
    /// Contract address; for the native token, the address of its wrapped token.
    address: String,
    /// Name of the chain.
    chain: String,
    /// Price of one whole token in dollars, as a decimal.
    price_usd: String,
    /// Source of the price.
    source: String,
    /// True if the price follows the market. Fixed prices, as used on test networks, do not.
    live: bool,
    /// Time at which the source published the price, in seconds since the Unix epoch by the chain's clock.
    observed_at: Option<u64>,
    /// Age of the price in the block that was read, in seconds.
    age_seconds: Option<u64>,
}

/// Implementation of `get_token_price`; see [`TOOL_DEF`].
pub struct GetTokenPrice;

impl ReadTool for GetTokenPrice {
    const META: ToolMeta = ToolMeta {
        name: "get_token_price",
        description: "Returns the dollar price of one whole token from the chain's price feeds, with its source and \
                      age. If no live source covers the token, it returns the reason, never zero.",
        category: Category::Data,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Fast,
        progress_steps: &["Resolving token", "Reading price feeds"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "Dollar price of a token with source and age. For the output of a trade, request a quote.",
        prompt_guidelines: Guidelines {
            thriving: "Use it to value holdings and to compare with quotes.",
            cautious: "Compare it with every quote; wait if they differ by more than 2 %.",
            declining: "Use it to judge whether an exit's quote is fair.",
            terminal: "Use it once per asset to be sold.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &[],
        summary_fields: &["token", "price_usd"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({"token": "WETH", "chain": "ethereum"})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        let chain = context.world.chain(&params.chain)?;
        context.step("Resolving token");
        let token = chain.token(&params.token).await?;
        let address = contract_of(chain, &token)?;
        context.step("Reading price feeds");
        let price = chain.prices.price(address).await?;
        let age_seconds = price.age.map(|age| age.as_secs());
        let age = age_seconds.map(|age| format!(", {age} s old")).unwrap_or_default();
        let explanation =
            format!("One {} is worth {} by {}{age}.", token.symbol, format::price(price.usd), price.source);
        let output = Output {
            token: token.symbol.to_string(),
            address: address.to_string(),
            chain: chain.network().name.clone(),
            price_usd: price.usd.to_string(),
            source: price.source.to_string(),
            live: price.source.is_live(),
            observed_at: price.observed_at,
            age_seconds,
        };
        Ok(ToolReply::new(output, explanation))
    }
}
