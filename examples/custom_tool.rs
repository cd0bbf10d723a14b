//! A tool of one's own beside Bardo's: `cargo run --example custom_tool`.
//!
//! `chain_age` tells how long ago a chain's newest block was made. The catalog refuses a tool without a description, a
//! schema or guidelines, so each of them is written here.

use std::error::Error;
use std::sync::Arc;

use alloy::eips::BlockNumberOrTag;
use alloy::providers::Provider as _;
use bardo::base::clock::{Clock, SystemClock};
use bardo::base::config::{Config, ConfigFlags, Environment};
use bardo::base::error::{ErrorCode, ToolError};
use bardo::base::id::GolemId;
use bardo::base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, RiskTier, SpriteTrigger, TickBudget, ToolMeta,
};
use bardo::engine::{
    CallContext, Catalog, Executor, ExecutorConfig, ReadTool, ToolCall, ToolDef, ToolInput, ToolReply,
};
use bardo::fabric::Fabric;
use bardo::sandbox::{BlockPace, MarketMode, SandboxConfig};
use bardo::tools::ALL_TOOL_DEFS;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

static CHAIN_AGE: ToolDef = ToolDef::read::<ChainAge>();

/// Parameters of `chain_age`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Params {
    /// Chain name, alias or decimal id.
    chain: String,
}

/// Result of `chain_age`.
#[derive(Debug, Serialize, JsonSchema)]
struct Output {
    /// Number of the newest block.
    block: u64,
    /// Seconds since that block was made.
    age_seconds: u64,
}

struct ChainAge;

impl ReadTool for ChainAge {
    const META: ToolMeta = ToolMeta {
        name: "chain_age",
        description: "Tells how long ago a chain's newest block was made. Changes no state.",
        category: Category::Data,
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Fast,
        progress_steps: &["Reading the newest block"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "Tells whether a chain goes on making blocks. For doubts about stale data.",
        prompt_guidelines: Guidelines {
            thriving: "Ask when a quote looks stale.",
            cautious: "Ask before each trade.",
            declining: "Ask before each exit.",
            terminal: "Ask only when an exit does not confirm.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &["chain"],
        summary_fields: &["block", "age_seconds"],
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
        let newest = chain.client.agreed().get_block_by_number(BlockNumberOrTag::Latest).await;
        let newest = newest.map_err(|error| ToolError::new(ErrorCode::ChainUnreachable, error))?;
        let newest = newest.ok_or_else(|| ToolError::new(ErrorCode::ChainUnreachable, "the chain has no block"))?;
        let age_seconds = context.world.clock.now_seconds().saturating_sub(newest.header.timestamp);
        let said = format!("Block {} of {} is {age_seconds} s old.", newest.header.number, params.chain);
        Ok(ToolReply::new(Output { block: newest.header.number, age_seconds }, said))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let config = Config::load(&Environment::default(), &ConfigFlags::default())?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let devnet = || SandboxConfig {
        seed: 1,
        start_time: SystemClock.now_seconds(),
        pace: BlockPace::OnTransaction,
        clock: Some(Arc::new(SystemClock)),
        market: MarketMode::Off,
        keeper: true,
    };
    let opened = bardo::runtime::open(&config, devnet, clock.clone()).await?;
    let executor = Executor::new(ExecutorConfig {
        catalog: Catalog::new(ALL_TOOL_DEFS.iter().copied().chain([&CHAIN_AGE]))?,
        world: Arc::new(opened.world),
        fabric: Fabric::in_memory(256, clock),
        golem_id: GolemId::operator(),
        calls_per_minute: 60,
        hooks: Vec::new(),
        store: None,
        acting: None,
    });
    let response = executor.call(ToolCall::new("chain_age", ToolInput::Json(json!({"chain": "base"})))).await;
    println!("{}", serde_json::to_string_pretty(&response)?);
    Ok(())
}
