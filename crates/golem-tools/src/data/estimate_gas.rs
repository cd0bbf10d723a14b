//! `estimate_gas`: cost of a write, by the pipeline's own preview, which is ended as a dry run.

use alloy::primitives::U256;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::engine::{CallContext, ReadTool, ToolDef, ToolReply};
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo_base::units::{Rounding, TokenAmount, Usd};
use golem_chain::network::KnownContract;

/// Definition of the `estimate_gas` tool.
pub static TOOL_DEF: ToolDef = ToolDef::read::<EstimateGas>();

/// Parameters of `estimate_gas`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Name of the write tool, such as `uniswap_execute_swap`. An agent may name the kind of action instead.
    tool: String,
    /// Parameters of that tool.
    params: Map<String, Value>,
}

/// Result of `estimate_gas`. Amounts are in the chain's native token, in whole tokens.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Name of the write tool.
    tool: String,
    /// Name of the chain.
    chain: String,
    /// Symbol of the chain's native token, in which gas is paid.
    native_token: String,
    /// Number of transactions. An order that others fill has none of its own, except an approval before it.
    transaction_count: usize,
    /// Gas that the simulation used, in gas units, for all transactions.
    gas_used: u64,
    /// Sum of the gas limits, in gas units.
    gas_limit: u64,
    /// Cost of the simulated gas at the present base fee.
    gas_cost: String,
    /// The same in dollars; absent without a price.
    gas_cost_usd: Option<String>,
    /// Charge of a rollup for posting the transactions, at most: twice its present estimate. Zero elsewhere.
    data_fee: String,
    /// The same in dollars; absent without a price.
    data_fee_usd: Option<String>,
    /// Cost at most: every transaction at its gas limit and highest fee, and the data fee.
    worst_cost: String,
    /// The same in dollars; absent without a price.
    worst_cost_usd: Option<String>,
    /// Block whose state was simulated.
    block_number: u64,
}

/// Implementation of `estimate_gas`; see [`TOOL_DEF`].
pub struct EstimateGas;

impl ReadTool for EstimateGas {
    const META: ToolMeta = ToolMeta {
        name: "estimate_gas",
        description: "Estimates what a write would cost, in the native token and in dollars: it is prepared, checked \
                      and simulated like a dry run, with a rollup's data fee. Nothing is signed, reserved or left to \
                      commit. An action that the rules block has no estimate: the error says what blocks it.",
        category: Category::Data,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Slow,
        progress_steps: &["Simulating the action", "Reading the price of gas"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "Cost of an action in gas, native token and dollars, before you propose it.",
        prompt_guidelines: Guidelines {
            thriving: "Skip an action whose gas costs more than it earns.",
            cautious: "Compare the worst cost with the expected gain before each action.",
            declining: "Keep enough of the native token for the exits that are left.",
            terminal: "Check that the native token covers all remaining exits.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &["tool"],
        summary_fields: &["gas_used", "gas_cost_usd", "worst_cost_usd"],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Output;

    fn example() -> Value {
        json!({"tool": "wrap_native", "params": {"amount": "0.1", "chain": "ethereum"}})
    }

    async fn run(context: &CallContext, params: Params) -> Result<ToolReply<Output>, ToolError> {
        context.step("Simulating the action");
        let preview = context.dry_run(&params.tool, Value::Object(params.params)).await?;
        context.step("Reading the price of gas");
        let payload = &preview.payload;
        let chain = context.world.chain(&payload.proposal().chain_id.to_string())?;
        let network = chain.network();
        let price = match network.book.contract(KnownContract::WrappedNative) {
            Some(wrapped) => chain.prices.price(wrapped).await.ok().map(|price| price.usd),
            None => None,
        };
        let dollars = |wei: U256| Usd::value_of(TokenAmount::ether(wei), price?, Rounding::Up).ok();
        let written = |wei: U256| TokenAmount::ether(wei).to_string();
        let (cost, worst) = (preview.simulated.gas_cost, preview.values.gas_wei);
        let data_fee = worst
            .checked_sub(payload.worst_gas())
            .ok_or_else(|| ToolError::new(ErrorCode::ToolPanicked, "the worst cost is below that of the gas limits"))?;
        let gas_limit = payload.legs().iter().fold(0_u64, |sum, leg| sum.saturating_add(leg.gas_limit));
        let in_dollars = |wei: U256| dollars(wei).map(|usd| usd.to_string());
        let told = |wei: U256| match dollars(wei) {
            Some(usd) => format!("${}", usd.to_fixed(2, Rounding::Up)),
            None => format!("{} {}", written(wei), network.native_symbol),
        };
        let expected = cost.saturating_add(data_fee);
        let explanation = format!("It would cost about {}, and {} at most.", told(expected), told(worst));
        let output = Output {
            tool: payload.proposal().tool.name.to_owned(),
            chain: network.name.clone(),
            native_token: network.native_symbol.to_string(),
            transaction_count: payload.legs().len(),
            gas_used: preview.simulated.gas_used,
            gas_limit,
            gas_cost: written(cost),
            gas_cost_usd: in_dollars(cost),
            data_fee: written(data_fee),
            data_fee_usd: in_dollars(data_fee),
            worst_cost: written(worst),
            worst_cost_usd: in_dollars(worst),
            block_number: preview.simulated.pinned.number,
        };
        Ok(ToolReply::new(output, explanation))
    }
}
