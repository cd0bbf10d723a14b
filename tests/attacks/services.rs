//! Order and intent services that a devnet describes, and the chains whose signed orders they receive.

use std::collections::BTreeSet;
use std::sync::Arc;

use bardo::base::clock::{Clock, SystemClock};
use bardo::base::config::{Config, ConfigFlags, Environment};
use bardo::fabric::Fabric;
use bardo::runtime::{self, data::DataFolder};
use serde_json::{Value, json};

use bardo_testkit::devnet::Devnet;
use bardo_testkit::golem_harness::GolemHarness;
use bardo_testkit::lying_rpc::LyingRpc;

/// Returns the ids of the devnet's chains that get an order service, and of those that get an intent service. The
/// endpoint of the second chain describes only the chains that `keeps` accepts.
async fn service_chains(keeps: fn(&Value) -> bool) -> [BTreeSet<u64>; 2] {
    let devnet = Devnet::start("0", 72);
    let describes = move |asked: &Value, answer: &mut Value| {
        if asked["method"] == "bardo_describe" {
            answer["result"]["chains"].as_array_mut().unwrap().retain(keeps);
        }
    };
    let proxy = LyingRpc::start(devnet.url(1), Box::new(describes));
    let home = tempfile::tempdir().unwrap();
    let variables = [("BARDO_HOME".to_owned(), home.path().to_str().unwrap().to_owned())];
    let rpc = vec![format!("ethereum={}", devnet.url(0)), format!("base={}", proxy.url())];
    let flags = ConfigFlags { rpc, ..ConfigFlags::default() };
    let config = Config::load(&Environment::from_iter(variables), &flags).unwrap();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let opened =
        runtime::open(&config, || GolemHarness::still(&(Arc::new(SystemClock) as Arc<dyn Clock>)), clock.clone())
            .await
            .unwrap();
    let ledger = DataFolder::of(&config).open_ledger(&opened).await.unwrap();
    let rules = runtime::rules(&config, &opened, &ledger).await.unwrap();
    let fabric = Fabric::in_memory(16, clock.clone());
    let orders = runtime::orders(&config, &opened, &ledger, rules, &fabric, clock, || false).await;
    let ids = || opened.world.chains().iter().map(|chain| chain.network().chain_id);
    assert_eq!(ids().collect::<BTreeSet<u64>>(), [31_337, 31_338].into());
    let auctions: BTreeSet<u64> = ids().filter(|id| orders.chain(*id).unwrap().auctions.is_some()).collect();
    // Quotes, which need no ledger, assume auctions on the same chains.
    let quoted: BTreeSet<u64> = runtime::auctions(&config, &opened).await.into_keys().collect();
    assert_eq!(auctions, quoted);
    [auctions, ids().filter(|id| orders.chain(*id).unwrap().bridges.is_some()).collect()]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_gets_only_orders_of_chains_that_its_devnet_describes() {
    let both: BTreeSet<u64> = [31_337, 31_338].into();
    assert_eq!(service_chains(|_| true).await, [both.clone(), both]);
    let first: BTreeSet<u64> = [31_337].into();
    assert_eq!(service_chains(|chain| chain["chain_id"] == json!(31_337)).await, [first.clone(), first]);
}
