//! A swap without a screen, through the whole pipeline: `cargo run --example headless_swap`.
//!
//! Data folder and policy live in a temporary folder, the account is the devnet's first, and the devnet ends with the
//! program. Every event of the run is printed as it comes.

use std::error::Error;
use std::sync::Arc;

use bardo::base::clock::{Clock, SystemClock};
use bardo::base::config::{Config, ConfigFlags, Environment};
use bardo::base::id::GolemId;
use bardo::engine::{ApprovalMode, Catalog, Executor, ExecutorConfig, ToolCall, ToolInput};
use bardo::fabric::Fabric;
use bardo::runtime::data::DataFolder;
use bardo::runtime::{self, SigningContext};
use bardo::sandbox::{BlockPace, MarketMode, SandboxConfig};
use bardo::tools::ALL_TOOL_DEFS;
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let home = tempfile::tempdir()?;
    let environment = Environment::from_iter([("BARDO_HOME".to_owned(), home.path().display().to_string())]);
    let config = Config::load(&environment, &ConfigFlags::default())?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let devnet = || SandboxConfig {
        seed: 1,
        start_time: SystemClock.now_seconds(),
        pace: BlockPace::OnTransaction,
        clock: Some(Arc::new(SystemClock)),
        market: MarketMode::Off,
        keeper: true,
    };
    let mut opened = runtime::open(&config, devnet, clock.clone()).await?;
    let fabric = Fabric::in_memory(1_024, clock.clone());

    // Every event of the run, as a JSON line.
    let mut events = fabric.subscribe(1_024);
    let printed = tokio::spawn(async move {
        let mut batch = Vec::new();
        while events.receive(&mut batch, 64).await {
            for event in batch.drain(..) {
                if let Ok(line) = serde_json::to_string(&*event) {
                    println!("{line}");
                }
            }
        }
    });

    // The ledger, the operator's rules over it, and the account that signs.
    let ledger = DataFolder::of(&config).open_ledger(&opened).await?;
    let rules = runtime::rules(&config, &opened, &ledger).await?;
    opened.world = opened.world.under(rules.clone());
    let picked = runtime::account::pick(&config, &opened.world)?.ok_or("no account is set up")?;
    let signing = SigningContext::of(runtime::account::locked(&picked, &opened, &ledger)?);
    let acting = runtime::acting(&config, &opened, &ledger, rules, &fabric, clock, signing).await?;
    let orders = acting.pipeline.orders().cloned();
    let executor = Executor::new(ExecutorConfig {
        catalog: Catalog::new(ALL_TOOL_DEFS.iter().copied())?,
        world: Arc::new(opened.world.with_orders(orders)),
        fabric: fabric.clone(),
        golem_id: GolemId::operator(),
        calls_per_minute: 60,
        hooks: Vec::new(),
        store: Some(ledger.store.clone()),
        acting: Some(acting),
    });

    // Whatever would need the operator's approval is refused rather than asked.
    let params = json!({"token_in": "WETH", "token_out": "USDC", "amount": "0.05", "chain": "ethereum"});
    let call = ToolCall {
        approve: Some(ApprovalMode::Never),
        ..ToolCall::new("uniswap_execute_swap", ToolInput::Json(params))
    };
    let response = executor.call(call).await;
    printed.abort();
    println!("{}", serde_json::to_string_pretty(&response)?);
    Ok(())
}
