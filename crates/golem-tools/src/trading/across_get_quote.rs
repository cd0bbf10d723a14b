//! `across_get_quote`: what a deposit with the bridge Across brings on another chain.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::across::{RouteParams, quoted};
use crate::engine::{CallContext, ReadTool, ToolDef, ToolReply};
use crate::shared::whole;
use bardo_base::error::ToolError;
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};

/// Definition of the `across_get_quote` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<AcrossGetQuote>();

/// Result of `across_get_quote`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Name of the source chain.
    source_chain: String,
    /// Name of the destination chain.
    destination_chain: String,
    /// Symbol of the deposited token, as listed; otherwise its address.
    token_in: String,
    /// Symbol of the received token, as listed; otherwise its address.
    token_out: String,
    /// Deposited amount, in whole tokens.
    amount_in: String,
    /// Amount that a deposit would ask for, in whole tokens: what the service quotes, and at most what the deposit is worth.
    amount_out: String,
    /// Part of the deposit's value that does not arrive, by both chains' price feeds, in whole tokens of token_out.
    fee: String,
    /// The same in basis points, rounded up.
    fee_bps: u64,
    /// Claimed time until the fill, in seconds; 0 if the service names none.
    estimated_seconds: u64,
    /// Time of the quote, in seconds since the Unix epoch.
    quote_timestamp: u32,
    /// Pool that takes the deposit.
    pool: String,
    /// Name of the service that quoted.
    quoted_by: String,
}

/// Implementation of `across_get_quote`; see [`TOOL_DEF`].
pub struct AcrossGetQuote;

impl ReadTool for AcrossGetQuote {
    const META: ToolMeta = ToolMeta {
        name: "across_get_quote",
        description: "Quotes a deposit with the bridge Across: amount on the destination, fee and time. The service's answer is \
                      compared with the request and the address book, and its amount with both chains' price feeds.",
        category: Category::Trading,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Medium,
        progress_steps: &["Validating chains", "Quoting"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "Quotes a move of a token to another chain through Across.",
        prompt_guidelines: Guidelines {
            thriving: "Compare its fee with the gain of the move before across_deposit.",
            cautious: "Look at the fee first: gas is the same for any amount, so small deposits cost much.",
            declining: "Only to know the cost; deposits are not allowed in this phase.",
            terminal: "Not needed: a bridge is not an exit.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &["token_in", "amount", "source_chain", "destination_chain"],
        summary_fields: &["amount_out", "fee_bps", "estimated_seconds"],
        card: None,
        spenders: &[],
    };
    type Params = RouteParams;
    type Output = Output;

    fn example() -> Value {
        json!({"token_in": "USDC", "amount": "500", "source_chain": "ethereum", "destination_chain": "base"})
    }

    async fn run(context: &CallContext, params: RouteParams) -> Result<ToolReply<Output>, ToolError> {
        let route = quoted(&context.world, &params, &|step| context.step(step)).await?;
        let (given, received, fee) = (route.given()?, route.received()?, route.fee()?);
        let name = |token: &golem_chain::token::TokenInfo, at: alloy::primitives::Address| match token.listed {
            true => token.symbol.to_string(),
            false => at.to_string(),
        };
        let [of_in, of_out] = route.contracts;
        let output = Output {
            source_chain: route.source.network().name.clone(),
            destination_chain: route.destination.network().name.clone(),
            token_in: name(&route.token_in, of_in),
            token_out: name(&route.token_out, of_out),
            amount_in: given.to_string(),
            amount_out: received.to_string(),
            fee: fee.to_string(),
            fee_bps: route.fee_bps(),
            estimated_seconds: route.fill_seconds,
            quote_timestamp: route.quote_timestamp,
            pool: route.pool.to_string(),
            quoted_by: route.quoted_by.clone(),
        };
        let explanation = format!(
            "{} {} on {} for {} {} on {}, a fee of {} bps.",
            whole(&given),
            output.token_in,
            output.source_chain,
            whole(&received),
            output.token_out,
            output.destination_chain,
            output.fee_bps
        );
        Ok(ToolReply::new(output, explanation))
    }
}
