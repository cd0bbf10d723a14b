//! Endpoints that are late, repeat requests, or are behind: whatever they do to a send and to reads about it, each
//! payment is made once, no nonce is skipped, and the lane drains.

use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::U256;
use bardo::base::clock::SystemClock;
use bardo::base::config::RpcUrl;
use bardo::chain::devnet::{MiningMode, server};
use bardo::chain::network::{AddressBook, ChainPlan, Network};
use bardo::chain::provider::{ChainClient, ConnectRules, HttpLimits};
use bardo::chain::sender::{SendState, WaitRules};

use bardo_testkit::rpc_proxy::{Fate, Proxy};
use bardo_testkit::sending::{CHAIN_ID, PLENTY, TestHarness};

const SEND: &str = "eth_sendRawTransaction";
/// Timeout of the client for one answer.
const PATIENCE: Duration = Duration::from_millis(400);

async fn connect(url: &str) -> ChainClient {
    let plan = ChainPlan {
        name: "ethereum".into(),
        network: Some(Network::devnet("ethereum", CHAIN_ID, AddressBook::default())),
        chain_id: Some(CHAIN_ID),
        endpoints: vec![RpcUrl::parse(url).unwrap()],
    };
    let limits = HttpLimits { timeout: PATIENCE, ..HttpLimits::default() };
    let rules = ConnectRules { limits, ..ConnectRules::default() };
    // A busy machine may miss even the first answers.
    for _ in 0..20 {
        if let Ok(client) = ChainClient::connect(&plan, rules, Arc::new(SystemClock)).await {
            return client;
        }
    }
    panic!("{url} never answers in time");
}

/// Makes three payments in sequence over an endpoint that does `fate` to the requests that `meant` selects, and checks
/// that each was made once.
async fn three_payments(fate: Fate, meant: fn(&str, usize) -> bool) {
    let world = TestHarness::new(MiningMode::OnTransaction);
    let served = server::serve(world.devnet.clone(), 0).await.unwrap();
    let (told, what) = (fate.clone(), format!("{fate:?}"));
    let proxy =
        Proxy::start(served.url(), move |method, before| if meant(method, before) { told.clone() } else { Fate::Pass })
            .await;
    let sender = world.sender_over(connect(&proxy.url).await, None);
    let patient = WaitRules { patience: Duration::from_secs(60), resend: true };
    for wished in 1..=3_u64 {
        let kept = world.keep(&sender, PLENTY).await;
        let hash = kept.hash();
        let sent = sender.send(kept).await.unwrap();
        assert_ne!(sent.state, SendState::Dropped, "{what}: its bytes may have left");
        // A restarted process knows only the ledger.
        let sender = world.sender_over(connect(&proxy.url).await, None);
        let status = sender.wait(hash, patient).await.unwrap();
        assert_eq!((status.record.state, status.settled), (SendState::Included, true), "{what}");
        assert_eq!(world.received().await, U256::from(wished), "{what}: each wish was paid once");
    }
    assert_eq!(world.chain_nonce().await, 3, "{what}: no nonce was skipped or used twice");
    assert!(sender.pending().unwrap().is_empty(), "{what}");
    assert_eq!(sender.reserve_nonce(world.account()).await.unwrap().nonce, 3, "{what}: the lane has drained");
    assert!(proxy.count(SEND) >= 3);
}

fn every_send(method: &str, _: usize) -> bool {
    method == SEND
}

fn first_sends(method: &str, before: usize) -> bool {
    method == SEND && before < 2
}

/// Selects a limited number of reads, without those of a new connection.
fn looks(method: &str, before: usize) -> bool {
    method != SEND && method != "eth_chainId" && before < 12
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_send_that_arrives_late_makes_no_second_transaction() {
    // Within the client's timeout, and long after it has given up and resent the same bytes.
    three_payments(Fate::Delay(Duration::from_millis(20)), every_send).await;
    three_payments(Fate::Delay(PATIENCE * 3), first_sends).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_send_that_is_delivered_twice_is_paid_once() {
    three_payments(Fate::Twice, every_send).await;
    three_payments(Fate::Twice, first_sends).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_several_blocks_behind_delays_and_loses_nothing() {
    three_payments(Fate::StaleHead(1), looks).await;
    three_payments(Fate::StaleHead(3), looks).await;
}
