//! Reads of many positions: how many round trips they take.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use bardo::base::clock::SystemClock;
use bardo::base::config::RpcUrl;
use bardo::chain::devnet::server;
use bardo::chain::network::{ChainPlan, NetworkKind};
use bardo::chain::price::PriceChain;
use bardo::chain::provider::{ChainClient, ConnectRules};
use bardo::chain::sender::SenderRules;
use bardo::engine::{CallStatus, Catalog, ConnectedChain, ToolCall, ToolEnvironment, ToolInput};
use bardo::sandbox::Sandbox;
use bardo::tools::ALL_TOOL_DEFS;
use serde_json::{Value, json};

use super::liquidity::Fixture;
use bardo_testkit::acting::executor;
use bardo_testkit::harness::{TestHarness, sandbox};
use bardo_testkit::lying_rpc::{Heard, LyingRpc};

static DEVNET: LazyLock<Sandbox> = LazyLock::new(|| sandbox(45));

/// Time that the proxy holds each answer back.
const DELAY: Duration = Duration::from_millis(250);

/// Number of sequential round trips: requests that arrive while an earlier one is unanswered belong to its round trip.
fn round_trips(heard: &[Heard]) -> usize {
    let (mut trips, mut until): (usize, Option<Instant>) = (0, None);
    for one in heard {
        if until.is_none_or(|until| one.at >= until) {
            trips += 1;
            until = Some(one.at + DELAY);
        }
    }
    trips
}

/// True for requests of the health monitor, which polls on its own schedule.
fn is_poll(heard: &Heard) -> bool {
    matches!(heard.methods.as_slice(), [one] if one == "eth_getBlockByNumber" || one == "eth_chainId")
}

/// With one endpoint, a hundred positions of one account are read in two round trips: what they are, and their state with
/// tokens and prices. A list of them costs one before, which finds them.
#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_positions_are_read_in_two_round_trips() {
    let rules = SenderRules::for_network(NetworkKind::Devnet, 1_000);
    let fixture = Fixture::under(TestHarness::over(&DEVNET, 7, rules).await, "USDT", "").await;
    let mut ids = Vec::new();
    for at in 0..100 {
        ids.push(fixture.open_at([-200 - at, 200 + at], 50).await.to_string());
    }
    let served = server::serve(DEVNET.chains()[0].devnet.clone(), 0).await.unwrap();
    let proxy = LyingRpc::slow(&format!("http://{}", served.addr()), Box::new(|_, _| {}), DELAY);
    let plan = ChainPlan {
        name: "ethereum".into(),
        network: DEVNET.description().networks().into_iter().next(),
        chain_id: None,
        endpoints: vec![RpcUrl::parse(&proxy.url()).unwrap()],
    };
    let clock = Arc::new(SystemClock);
    let client = ChainClient::connect(&plan, ConnectRules::default(), clock.clone()).await.unwrap();
    let prices = PriceChain::for_chain(&client, &Default::default(), clock.clone()).unwrap();
    let chains = vec![ConnectedChain::new(client, prices)];
    let world = ToolEnvironment::new(clock, Some(fixture.world.account()), chains, vec![]);
    let catalog = Catalog::new(ALL_TOOL_DEFS.iter().copied()).unwrap();
    let reader = executor(catalog, world, fixture.world.fabric(), None, None);
    let asked = async |tool: &str, params: Value| {
        let before = proxy.heard().len();
        let response = reader.call(ToolCall::new(tool, ToolInput::Json(params))).await;
        assert_eq!(response.status, CallStatus::Success, "{response:#?}");
        let heard: Vec<Heard> = proxy.heard().into_iter().skip(before).filter(|one| !is_poll(one)).collect();
        (response.data.unwrap(), round_trips(&heard))
    };
    // The first call proves the endpoint's chain id and reads the price feeds' descriptions.
    asked("get_position", json!({"position_id": ids[0], "chain": "ethereum"})).await;
    let (read, trips) = asked("get_position", json!({"position_id": ids, "chain": "ethereum"})).await;
    assert_eq!(read["positions"].as_array().unwrap().len(), 100);
    assert!(trips <= 2, "{trips} round trips for a hundred positions");
    let (listed, trips) = asked("list_positions", json!({"chain": "ethereum", "limit": 100})).await;
    assert_eq!(listed["positions"].as_array().unwrap().len(), 100);
    println!("list_positions: {trips} round trips");
}
