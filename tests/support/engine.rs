//! The whole engine over a configuration, as `bardo call` makes it. Shared by the test programs through `#[path]`.

use std::path::Path;
use std::sync::Arc;

use bardo::base::clock::{Clock, SystemClock};
use bardo::base::config::{Config, Environment, Flags};
use bardo::base::id::GolemId;
use bardo::engine::{Catalog, Executor, ExecutorConfig, World};
use bardo::fabric::Fabric;
use bardo::runtime::data::DataFolder;
use bardo::runtime::{self, Hands};
use bardo::safety::orders::Orders;
use bardo::sandbox::{MarketMode, Pace, Sandbox, SandboxConfig};
use bardo::tools::ALL_TOOL_DEFS;

/// An executor, and what it stands on.
pub struct Engine {
    pub executor: Executor,
    pub world: Arc<World>,
    pub orders: Option<Orders>,
    /// The devnet, where it is in this process.
    pub sandbox: Option<Sandbox>,
}

impl Engine {
    /// On the data folder and the policy in `home`; `sandbox` is what the devnet is made from, where one is.
    pub async fn open(home: &Path, flags: &Flags, sandbox: fn() -> SandboxConfig) -> Self {
        let variables = [("BARDO_HOME".to_owned(), home.to_str().unwrap().to_owned())];
        let config = Config::load(&Environment::from_iter(variables), flags).unwrap();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let mut opened = runtime::open(&config, sandbox, clock.clone()).await.unwrap();
        let ledger = DataFolder::of(&config).open_ledger(&opened).await.unwrap();
        let fabric = Fabric::in_memory(256, clock.clone());
        let rules = runtime::rules(&config, &opened, &ledger).await.unwrap();
        opened.world = opened.world.under(rules.clone());
        let picked = runtime::account::pick(&config, &opened.world).unwrap().unwrap();
        let hands = Hands::of(runtime::account::locked(&picked, &opened, &ledger).unwrap());
        let acting = runtime::acting(&config, &opened, &ledger, rules, &fabric, clock, hands).await.unwrap();
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
            acting: Some(acting),
        });
        Self { executor, world, orders, sandbox: opened.sandbox }
    }
}

/// A devnet that makes a block for each transaction and where nobody trades.
pub fn still(seed: u64, keeper: bool) -> SandboxConfig {
    SandboxConfig {
        seed,
        start_time: SystemClock.now_seconds(),
        pace: Pace::OnTransaction,
        clock: Some(Arc::new(SystemClock)),
        market: MarketMode::Off,
        keeper,
    }
}
