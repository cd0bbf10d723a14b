//! The engine over a test chain: tools under a policy's rules, acting with the test's account.

use std::path::Path;
use std::sync::Arc;

use bardo_base::clock::{Clock, SystemClock};
use bardo_base::fabric::Fabric;
use bardo_base::id::GolemId;
use bardo_base::model::Phase;
use bardo_safety::operator_policy::OperatorPolicyEngine;
use bardo_safety::pipeline::Pipeline;
use bardo_safety::policy::{PolicyKeeper, parse};
use bardo_safety::stop::StopFile;
use bardo_store::{Store, StoreConfig};
use golem_chain::price::PriceChain;
use golem_tools::engine::{self, ApprovalMode, Catalog, ConnectedChain, Executor, ExecutorConfig, WriteAccess};
use tokio::sync::watch;

use crate::harness::TestHarness;

/// The demo preset with these lines, on a ledger, with the stop file in `folder`.
pub fn ruled(world: &TestHarness, folder: &Path, store: &Store, lines: &str) -> Arc<OperatorPolicyEngine> {
    let policy = parse(&format!("preset = \"demo\"\n{lines}"), Path::new("policy.toml")).unwrap();
    let networks = [world.client.network().clone()];
    let stop = StopFile::in_folder(folder);
    Arc::new(OperatorPolicyEngine::new(Arc::new(PolicyKeeper::fixed(policy)), stop, store.clone(), networks))
}

/// The test chain as tools see it, with its account.
pub fn seen(world: &TestHarness) -> engine::ToolEnvironment {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let prices = PriceChain::for_chain(&world.client, &Default::default(), clock.clone()).unwrap();
    let chains = vec![ConnectedChain::new(world.client.clone(), prices)];
    engine::ToolEnvironment::new(clock, Some(world.account()), chains, vec![])
}

/// The test account acting through this pipeline, and the sender of its Golem's phase.
pub fn acting(world: &TestHarness, pipeline: Pipeline, approve: ApprovalMode) -> (WriteAccess, watch::Sender<Phase>) {
    let (phase, own) = watch::channel(Phase::Thriving);
    let paper = golem_tools::engine::PaperMode::default();
    (WriteAccess { pipeline, account: world.wallet.clone(), phase: own, approve, paper }, phase)
}

/// Store for answers under idempotency keys, in a temporary folder.
pub fn keys() -> (Store, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(StoreConfig::at(folder.path().join("keys.db")), &[engine::MIGRATIONS]).unwrap();
    (store, folder)
}

/// Executor of these tools that emits to `fabric`.
pub fn executor(
    catalog: Catalog,
    world: engine::ToolEnvironment,
    fabric: Fabric,
    store: Option<Store>,
    acting: Option<WriteAccess>,
) -> Executor {
    Executor::new(ExecutorConfig {
        catalog,
        world: Arc::new(world),
        fabric,
        golem_id: GolemId::operator(),
        calls_per_minute: 1_000,
        hooks: vec![],
        store,
        acting,
    })
}
