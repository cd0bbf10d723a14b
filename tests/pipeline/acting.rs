//! The engine over a test chain: tools under a policy's rules, acting with the test's account.

use std::path::Path;
use std::sync::Arc;

use bardo::base::clock::{Clock, SystemClock};
use bardo::base::id::GolemId;
use bardo::base::model::Phase;
use bardo::chain::price::PriceChain;
use bardo::engine::{self, Acting, ApprovalMode, Catalog, Executor, ExecutorConfig, WorldChain};
use bardo::fabric::Fabric;
use bardo::safety::operator_policy::OperatorPolicyEngine;
use bardo::safety::pipeline::Pipeline;
use bardo::safety::policy::{Keeper, parse};
use bardo::safety::stop::StopFile;
use bardo::store::{Store, StoreConfig};
use tokio::sync::watch;

use crate::world::TestHarness;

/// The demo preset with these lines, on a ledger, with the stop file in `folder`.
pub fn ruled(world: &TestHarness, folder: &Path, store: &Store, lines: &str) -> Arc<OperatorPolicyEngine> {
    let policy = parse(&format!("preset = \"demo\"\n{lines}"), Path::new("policy.toml")).unwrap();
    let networks = [world.client.network().clone()];
    let stop = StopFile::in_folder(folder);
    Arc::new(OperatorPolicyEngine::new(Arc::new(Keeper::fixed(policy)), stop, store.clone(), networks))
}

/// The test chain as tools see it, with its account.
pub fn seen(world: &TestHarness) -> engine::World {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let prices = PriceChain::for_chain(&world.client, &Default::default(), clock.clone()).unwrap();
    let chains = vec![WorldChain::new(world.client.clone(), prices)];
    engine::World::new(clock, Some(world.account()), chains, vec![])
}

/// The test account acting through this pipeline, and the sender of its Golem's phase.
pub fn acting(world: &TestHarness, pipeline: Pipeline, approve: ApprovalMode) -> (Acting, watch::Sender<Phase>) {
    let (phase, own) = watch::channel(Phase::Thriving);
    let paper = bardo::engine::Paper::default();
    (Acting { pipeline, account: world.wallet.clone(), phase: own, approve, paper }, phase)
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
    world: engine::World,
    fabric: Fabric,
    store: Option<Store>,
    acting: Option<Acting>,
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
