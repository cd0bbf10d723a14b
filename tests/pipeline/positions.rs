//! Position limits, including the expected output of unsettled orders.

use std::path::Path;
use std::sync::Arc;

use bardo::safety::operator_policy::OperatorPolicyEngine;
use bardo::safety::pipeline::Pipeline;
use bardo::safety::policy::{PolicyKeeper, parse};
use bardo::safety::stop::StopFile;
use bardo::uniswap::gateway::ServiceStatus;
use bardo::uniswap::order::OrderKind;

use crate::orders::{Fixture, ServiceBehavior, order};
use bardo_testkit::harness::{ASKED, TestHarness};

const HUNDRED: u64 = 100_000_000;

/// The operator's rules over the ledger with the orders.
fn under(world: &TestHarness, folder: &Path, most: &str) -> Pipeline {
    let policy = format!("preset = \"demo\"\nmax_position_size_usd = \"{most}\"");
    let keeper = Arc::new(PolicyKeeper::fixed(parse(&policy, Path::new("policy.toml")).unwrap()));
    let networks = [world.client.network().clone()];
    let rules = OperatorPolicyEngine::new(keeper, StopFile::in_folder(folder), world.store.clone(), networks);
    world.pipeline_under(Arc::new(rules), &world.store)
}

/// WETH position after buying for 100 dollars, in whole dollars, from the refusal.
async fn afterwards(world: &TestHarness, folder: &Path) -> u64 {
    let looked = under(world, folder, "1").preview(world.swap(HUNDRED).await, world.wallet.clone(), ASKED).await;
    let refusal = looked.expect_err("one dollar is too little");
    let found = refusal.violations.iter().find(|one| one.rule == "max_position_size_usd").unwrap();
    let dollars = found.value.as_str().trim_start_matches('$').split(['.', ' ']).next().unwrap();
    dollars.replace(',', "").parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn open_orders_count_towards_the_position_that_they_bring() {
    let fixture = Fixture::new(4, OrderKind::DutchV2, ServiceBehavior::FalseStatus(ServiceStatus::Open)).await;
    let folder = tempfile::tempdir().unwrap();
    let before = afterwards(&fixture.world, folder.path()).await;
    fixture.place(order("100", 3_000)).await;
    let after = afterwards(&fixture.world, folder.path()).await;
    // 100 dollars were given for its expected output.
    assert!((95..115).contains(&(after - before)), "{before} and then {after}");
    fixture.clear().await;
}
