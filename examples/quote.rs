//! A quote on the embedded devnet: `cargo run --example quote -- [TOKEN_IN] [TOKEN_OUT] [AMOUNT]`.
//!
//! A read needs no account, no policy and no data folder: only chains, a catalog of tools and an executor.

use std::error::Error;
use std::sync::Arc;

use bardo::base::clock::{Clock, SystemClock};
use bardo::base::config::{Config, ConfigFlags, Environment};
use bardo::base::id::GolemId;
use bardo::engine::{Catalog, Executor, ExecutorConfig, ToolCall, ToolInput};
use bardo::fabric::Fabric;
use bardo::sandbox::{BlockPace, MarketMode, SandboxConfig};
use bardo::tools::ALL_TOOL_DEFS;
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let mut next = |default: &str| words.next().unwrap_or_else(|| default.to_owned());
    let (token_in, token_out, amount) = (next("WETH"), next("USDC"), next("1.5"));

    // Without any setting the configuration asks for the embedded devnet.
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
    // The devnet lives as long as `opened.sandbox`.
    let opened = bardo::runtime::open(&config, devnet, clock.clone()).await?;
    let executor = Executor::new(ExecutorConfig {
        catalog: Catalog::new(ALL_TOOL_DEFS.iter().copied())?,
        world: Arc::new(opened.world),
        fabric: Fabric::in_memory(256, clock),
        golem_id: GolemId::operator(),
        calls_per_minute: 60,
        hooks: Vec::new(),
        store: None,
        acting: None,
    });

    let params = json!({"token_in": token_in, "token_out": token_out, "amount": amount, "chain": "ethereum"});
    let response = executor.call(ToolCall::new("uniswap_get_quote", ToolInput::Json(params))).await;
    println!("{}", serde_json::to_string_pretty(&response)?);
    Ok(())
}
