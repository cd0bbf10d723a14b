//! An endpoint that rejects a transaction still knows its bytes, so the transaction can be included all the same. And
//! an endpoint that reports higher fees than the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use alloy::primitives::U256;
use alloy::providers::Provider as _;
use bardo::base::clock::SystemClock;
use bardo::base::config::RpcUrl;
use bardo::chain::devnet::{MiningMode, server};
use bardo::chain::network::{AddressBook, ChainPlan, Network};
use bardo::chain::provider::{ChainClient, ConnectRules};
use bardo::chain::sender::{self, SendRoute, SendState, TxFees, TxSender};
use serde_json::json;

use bardo_testkit::rpc_proxy::{Fate, Proxy};
use bardo_testkit::sending::{CHAIN_ID, GWEI, PLENTY, TestHarness, connect, is_ahead, waited};

const SEND: &str = "eth_sendRawTransaction";

/// Test chain whose endpoint rejects the first transaction.
async fn refusing() -> (TestHarness, TxSender, Proxy, server::RpcServer) {
    let world = TestHarness::new(MiningMode::OnTransaction);
    let served = server::serve(world.devnet.clone(), 0).await.unwrap();
    let fate = |method: &str, before| match method {
        SEND if before == 0 => Fate::Refuse(-32000, "insufficient funds for gas * price + value"),
        _ => Fate::Pass,
    };
    let proxy = Proxy::start(served.url(), fate).await;
    let sender = world.sender_over(connect(&proxy.url).await, None);
    (world, sender, proxy, served)
}

/// Sends the same bytes past the sender, as the rejecting endpoint could.
async fn passed_on(world: &TestHarness, sender: &TxSender, hash: alloy::primitives::B256) {
    let raw = sender.record(hash).unwrap().signed.raw().clone();
    assert_eq!(*world.client.provider().send_raw_transaction(&raw).await.unwrap().tx_hash(), hash);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rejected_transaction_that_is_included_counts_as_ours() {
    let (world, sender, _proxy, _served) = refusing().await;
    let (hash, outcome) = world.send(&sender).await;
    assert_eq!(outcome.state, SendState::Dropped);
    assert!(world.store().read(sender::late_inclusions).unwrap().is_empty());
    passed_on(&world, &sender, hash).await;
    // Its nonce is used, by a transaction of this ledger.
    assert_eq!(sender.reserve_nonce(world.account()).await.unwrap().nonce, 1);
    let record = sender.record(hash).unwrap();
    assert_eq!((record.state, record.settled_at.is_some()), (SendState::Included, true));
    assert_eq!(world.store().read(sender::late_inclusions).unwrap(), [hash]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_transaction_after_a_rejection_still_blocks() {
    let (world, sender, _proxy, _served) = refusing().await;
    world.send(&sender).await;
    world.send_outside(0, U256::from(7)).await;
    assert!(is_ahead(&sender.reserve_nonce(world.account()).await.unwrap_err()));
}

/// A pending transaction, and its replacement that was rejected for lack of balance.
async fn refused_replacement(
    world: &TestHarness,
    sender: &TxSender,
) -> (alloy::primitives::B256, alloy::primitives::B256) {
    let low = TxFees { max_fee_per_gas: 2 * GWEI, max_priority_fee_per_gas: GWEI / 10 };
    let kept = world.keep(sender, low).await;
    let first = kept.hash();
    assert_eq!(sender.send(kept).await.unwrap().state, SendState::Sent);
    let kept = sender.store_replacement(first, world.sign_as(&world.key, 0, U256::from(1), PLENTY)).await.unwrap();
    let second = kept.hash();
    assert_eq!(sender.send(kept).await.unwrap().state, SendState::Dropped);
    (first, second)
}

/// Test chain whose endpoint rejects the second transaction.
async fn refusing_the_second() -> (TestHarness, TxSender, Proxy, server::RpcServer) {
    let world = TestHarness::new(MiningMode::Manual);
    let served = server::serve(world.devnet.clone(), 0).await.unwrap();
    let fate = |method: &str, before| match method {
        SEND if before == 1 => Fate::Refuse(-32000, "insufficient funds for gas * price + value"),
        _ => Fate::Pass,
    };
    let proxy = Proxy::start(served.url(), fate).await;
    let sender = world.sender_over(connect(&proxy.url).await, None);
    (world, sender, proxy, served)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rejected_replacement_that_is_included_is_recorded() {
    let (world, sender, _proxy, _served) = refusing_the_second().await;
    let (first, second) = refused_replacement(&world, &sender).await;
    passed_on(&world, &sender, second).await;
    world.devnet.mine().await.unwrap();
    let status = waited(&sender, second).await;
    assert_eq!(status.mined.unwrap().hash, second, "what pays more is in the block");
    assert_eq!(sender.record(first).unwrap().state, SendState::Replaced);
    // Nothing was released, so nothing must be reserved again.
    assert!(world.store().read(sender::late_inclusions).unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_rejected_replacement_the_original_is_resent() {
    let (world, sender, proxy, _served) = refusing_the_second().await;
    let (first, second) = refused_replacement(&world, &sender).await;
    let raw = json!(sender.record(first).unwrap().signed.raw());
    let sent = |proxy: &Proxy| proxy.first_params(SEND).into_iter().filter(|bytes| *bytes == raw).count();
    assert_eq!(sent(&proxy), 1);
    // It is dropped from every pool, and only the rejected one is looked up.
    world.devnet.run(move |chain| chain.drop_transaction(first)).await.unwrap();
    let waiting = {
        let sender = sender.clone();
        tokio::spawn(async move { waited(&sender, second).await })
    };
    for _ in 0..12_000 {
        if sent(&proxy) > 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(sent(&proxy) > 1, "it is not sent again");
    // The same for a transaction that no process waits for.
    world.devnet.run(move |chain| chain.drop_transaction(first)).await.unwrap();
    let again = sender.resend(second).await.unwrap();
    assert_eq!((again.state, sender.record(second).unwrap().state), (SendState::Sent, SendState::Dropped));
    assert_eq!(world.store().read(|connection| sender::sendable(connection, second)).unwrap().unwrap().hash(), first);
    // Another one may be signed in its place.
    let plan = sender.outbid(second, PLENTY).await.unwrap();
    assert_eq!((plan.replaces, plan.nonce), (first, 0));
    world.devnet.mine().await.unwrap();
    let status = waiting.await.unwrap();
    assert_eq!(status.mined.unwrap().hash, first);
    assert_eq!(world.received().await, U256::from(1));
    // After its end nothing is sent any more.
    assert_eq!(world.store().read(|connection| sender::sendable(connection, second)).unwrap(), None);
}

/// A node that is about to store a block may already report its transaction count, even for the previous block, without
/// a receipt or the block.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_count_without_its_transaction_frees_nothing() {
    let world = TestHarness::new(MiningMode::Manual);
    let served = server::serve(world.devnet.clone(), 0).await.unwrap();
    let early = Arc::new(AtomicBool::new(false));
    let tells = Arc::clone(&early);
    let fate = move |method: &str, _| match (method, tells.load(Ordering::SeqCst)) {
        ("eth_getTransactionCount", true) => Fate::Claim(json!("0x1")),
        _ => Fate::Pass,
    };
    let proxy = Proxy::start(served.url(), fate).await;
    let sender = world.sender_over(connect(&proxy.url).await, None);
    world.devnet.mine().await.unwrap();
    let (hash, _) = world.send(&sender).await;
    early.store(true, Ordering::SeqCst);
    let status = sender.poll(hash).await.unwrap();
    assert_eq!((status.record.state, status.settled), (SendState::Sent, false), "{status:?}");
    early.store(false, Ordering::SeqCst);
    world.devnet.mine().await.unwrap();
    let status = waited(&sender, hash).await;
    assert_eq!(status.record.state, SendState::Included);
    // A nonce that another transaction used is reported with that transaction.
    let (second, _) = world.send(&sender).await;
    world.devnet.run(move |chain| chain.drop_transaction(second)).await.unwrap();
    world.send_outside(1, U256::from(7)).await;
    world.devnet.mine().await.unwrap();
    let status = waited(&sender, second).await;
    assert_eq!(status.record.state, SendState::Dropped, "{status:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_inclusion_does_not_complete_the_plan_that_reused_its_nonce() {
    let (world, sender, _proxy, _served) = refusing().await;
    let (first, _) = world.send(&sender).await;
    // Another plan signs with the freed nonce.
    let ticket = sender.reserve_nonce(world.account()).await.unwrap();
    assert_eq!(ticket.nonce, 0);
    let signed = world.sign_as(&world.key, 0, U256::from(5), PLENTY);
    let kept = sender.keep(ticket, signed, SendRoute::Public, None).await.unwrap();
    let second = kept.hash();
    passed_on(&world, &sender, first).await;
    sender.send(kept).await.unwrap();
    let status = waited(&sender, second).await;
    assert!(status.mined.is_none(), "{status:?}");
    assert_eq!(status.record.state, SendState::Dropped);
    assert_eq!(sender.record(first).unwrap().state, SendState::Included);
    assert_eq!(world.received().await, U256::from(1), "the first one's wei");
    assert_eq!(sender.reserve_nonce(world.account()).await.unwrap().nonce, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lower_of_two_reported_tips_is_paid() {
    let world = TestHarness::new(MiningMode::OnTransaction);
    let served = server::serve(world.devnet.clone(), 0).await.unwrap();
    let saying = async |tip: u128| {
        let history = json!({
            "oldestBlock": "0x0", "gasUsedRatio": [0.5], "reward": [[format!("{tip:#x}")]],
            "baseFeePerGas": [format!("{GWEI:#x}"), format!("{GWEI:#x}")],
        });
        let told = move |method: &str, _| match method {
            "eth_feeHistory" => Fate::Claim(history.clone()),
            _ => Fate::Pass,
        };
        Proxy::start(served.url(), told).await
    };
    let (greedy, honest) = (saying(29 * GWEI).await, saying(2 * GWEI).await);
    let plan = ChainPlan {
        name: "ethereum".into(),
        network: Some(Network::devnet("ethereum", CHAIN_ID, AddressBook::default())),
        chain_id: Some(CHAIN_ID),
        // The greedy endpoint is asked first.
        endpoints: [&greedy.url, &honest.url].iter().map(|url| RpcUrl::parse(url).unwrap()).collect(),
    };
    let client = ChainClient::connect(&plan, ConnectRules::default(), Arc::new(SystemClock)).await.unwrap();
    let quote = world.sender_over(client, None).fee_quote().await.unwrap();
    assert_eq!((quote.base_fee, quote.tip), (GWEI, 2 * GWEI));
    // It reports that if no other endpoint is asked.
    let alone = world.sender_over(connect(&greedy.url).await, None).fee_quote().await.unwrap();
    assert_eq!(alone.tip, 29 * GWEI);
}
