//! The whole engine from a configuration, as `bardo call` creates it.

use std::path::Path;
use std::sync::Arc;

use bardo_base::clock::{Clock, SystemClock};
use bardo_base::config::{Config, ConfigFlags, Environment};
use bardo_base::fabric::Fabric;
use bardo_base::id::GolemId;
use bardo_runtime::SigningContext;
use bardo_runtime::data::DataFolder;
use bardo_safety::orders::Orders;
use bardo_safety::policy_engine::PolicyEngine;
use bardo_sandbox::{BlockPace, MarketMode, Sandbox, SandboxConfig};
use bardo_store::Store;
use golem_tools::ALL_TOOL_DEFS;
use golem_tools::engine::{Catalog, Executor, ExecutorConfig, ToolEnvironment, WriteAccess};

/// An executor with its chains and pipeline.
pub struct Engine {
    pub executor: Executor,
    pub world: Arc<ToolEnvironment>,
    pub orders: Option<Orders>,
    pub store: Store,
    pub rules: Arc<dyn PolicyEngine>,
    /// Signing context of the executor.
    pub acting: WriteAccess,
    /// Devnet in this process, if any.
    pub sandbox: Option<Sandbox>,
}

impl Engine {
    /// Engine on the data directory and policy in `home`; `sandbox` configures an embedded devnet.
    pub async fn open(home: &Path, flags: &ConfigFlags, sandbox: fn() -> SandboxConfig) -> Self {
        let variables = [("BARDO_HOME".to_owned(), home.to_str().unwrap().to_owned())];
        let config = Config::load(&Environment::from_iter(variables), flags).unwrap();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let mut opened = bardo_runtime::open(&config, sandbox, clock.clone()).await.unwrap();
        let ledger = DataFolder::of(&config).open_ledger(&opened).await.unwrap();
        let fabric = Fabric::in_memory(256, clock.clone());
        let rules = bardo_runtime::rules(&config, &opened, &ledger).await.unwrap();
        opened.world = opened.world.under(rules.clone());
        let picked = bardo_runtime::account::pick(&config, &opened.world).unwrap().unwrap();
        let signing = SigningContext::of(bardo_runtime::account::locked(&picked, &opened, &ledger).unwrap());
        let acting =
            bardo_runtime::acting(&config, &opened, &ledger, rules.clone(), &fabric, clock, signing).await.unwrap();
        let orders = acting.pipeline.orders().cloned();
        let world = Arc::new(opened.world.with_orders(orders.clone()));
        let executor = Executor::new(ExecutorConfig {
            catalog: Catalog::new(ALL_TOOL_DEFS.iter().copied()).unwrap(),
            world: world.clone(),
            fabric,
            golem_id: GolemId::operator(),
            calls_per_minute: 1_000_000,
            hooks: Vec::new(),
            store: Some(ledger.store.clone()),
            acting: Some(acting.clone()),
        });
        Self { executor, world, orders, store: ledger.store.clone(), rules, acting, sandbox: opened.sandbox }
    }
}

/// Devnet with a block for each transaction and without trading.
pub fn still(seed: u64, keeper: bool) -> SandboxConfig {
    SandboxConfig {
        seed,
        start_time: SystemClock.now_seconds(),
        pace: BlockPace::OnTransaction,
        clock: Some(Arc::new(SystemClock)),
        market: MarketMode::Off,
        keeper,
    }
}
