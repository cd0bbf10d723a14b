//! Endpoints that fail, and the private relay.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use alloy::primitives::{Address, B256, U256};
use alloy::providers::Provider as _;
use bardo::base::clock::SystemClock;
use bardo::base::config::RpcUrl;
use bardo::chain::devnet::{MiningMode, server};
use bardo::chain::provider::HttpLimits;
use bardo::chain::sender::{
    FaultTreatment, PrivateRelay, RelayStatus, SendFault, SendRoute, SendState, SenderError, WaitRules,
};
use serde_json::{Value, json};

use bardo_testkit::rpc_proxy::{Fate, Proxy};
use bardo_testkit::sending::{CHAIN_ID, NO_PATIENCE, PLENTY, TestHarness, connect, waited};

const SEND: &str = "eth_sendRawTransaction";
const RECEIPT: &str = "eth_getTransactionReceipt";

/// Test chain whose sender connects through a proxy.
async fn behind(fate: impl Fn(&str, usize) -> Fate + Send + Sync + 'static) -> (TestHarness, Proxy, server::RpcServer) {
    let world = TestHarness::new(MiningMode::OnTransaction);
    let served = server::serve(world.devnet.clone(), 0).await.unwrap();
    let proxy = Proxy::start(served.url(), fate).await;
    (world, proxy, served)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_never_becomes_a_second_transaction() {
    for lost in [Fate::LoseAnswer, Fate::LoseRequest, Fate::Status(502), Fate::Refuse(-32603, "insufficient funds")] {
        let fate = lost.clone();
        let (world, proxy, _served) =
            behind(move |method, before| if method == SEND && before == 0 { fate.clone() } else { Fate::Pass }).await;
        let sender = world.sender_over(connect(&proxy.url).await, None);
        let (hash, outcome) = world.send(&sender).await;
        assert_eq!((outcome.state, outcome.treatment), (SendState::Unclear, FaultTreatment::AskTheChain), "{lost:?}");
        assert_eq!(outcome.fault.unwrap().0, SendFault::OutcomeUnknown);
        assert_eq!(proxy.count(SEND), 1, "nothing sends it again by itself");
        assert_eq!(sender.reserve_nonce(world.account()).await.unwrap().nonce, 1, "its nonce stays its own");
        let status = waited(&sender, hash).await;
        assert_eq!(status.record.state, SendState::Included, "{lost:?}");
        let sent = proxy.first_params(SEND);
        assert!(sent.iter().all(|raw| *raw == json!(sender.record(hash).unwrap().signed.raw())), "the same bytes");
        assert_eq!((world.chain_nonce().await, world.received().await), (1, U256::from(1)), "{lost:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_no_endpoint_accepted_is_resent_soon_and_an_accepted_one_later() {
    let long = Duration::from_secs(600);
    for (fate, sends) in [(Fate::LoseRequest, 2), (Fate::Pass, 1)] {
        let (first, pass) = (fate.clone(), fate == Fate::Pass);
        let mut world = TestHarness::new(if pass { MiningMode::Manual } else { MiningMode::OnTransaction });
        (world.rules.resend_after, world.rules.resend_unclear) = (long, Duration::from_millis(25));
        let served = server::serve(world.devnet.clone(), 0).await.unwrap();
        let told = move |method: &str, before| if method == SEND && before == 0 { first.clone() } else { Fate::Pass };
        let proxy = Proxy::start(served.url(), told).await;
        let sender = world.sender_over(connect(&proxy.url).await, None);
        let (hash, _) = world.send(&sender).await;
        let patience = if pass { Duration::from_millis(500) } else { Duration::from_secs(60) };
        let status = sender.wait(hash, WaitRules { patience, resend: true }).await.unwrap();
        assert_eq!((status.settled, proxy.count(SEND)), (!pass, sends), "{fate:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rejections_are_handled_by_their_class() {
    for (fate, class, treatment, state) in [
        (
            Fate::Refuse(-32000, "already known"),
            SendFault::AlreadyKnown,
            FaultTreatment::WaitForReceipt,
            SendState::Sent,
        ),
        (
            Fate::Refuse(-32000, "nonce too low"),
            SendFault::NonceTooLow,
            FaultTreatment::AskTheChain,
            SendState::Unclear,
        ),
        (Fate::Refuse(-32000, "nonce too high"), SendFault::NonceTooHigh, FaultTreatment::SendAgain, SendState::Stored),
        (
            Fate::Refuse(-32000, "transaction underpriced"),
            SendFault::Underpriced,
            FaultTreatment::Outbid,
            SendState::Stored,
        ),
        (
            Fate::Refuse(-32000, "intrinsic gas too low"),
            SendFault::Invalid,
            FaultTreatment::DropAndReleaseNonce,
            SendState::Dropped,
        ),
        (
            Fate::Refuse(3, "execution reverted"),
            SendFault::Reverted,
            FaultTreatment::DropAndReleaseNonce,
            SendState::Dropped,
        ),
        (Fate::Refuse(-32000, "txpool is full"), SendFault::Busy, FaultTreatment::SendAgain, SendState::Stored),
        (
            Fate::Refuse(-32000, "mercury rises"),
            SendFault::Unrecognised,
            FaultTreatment::AskTheChain,
            SendState::Unclear,
        ),
        (
            Fate::Claim(json!(B256::repeat_byte(9))),
            SendFault::Unrecognised,
            FaultTreatment::AskTheChain,
            SendState::Unclear,
        ),
    ] {
        let told = fate.clone();
        let (world, proxy, _served) =
            behind(move |method, before| if method == SEND && before == 0 { told.clone() } else { Fate::Pass }).await;
        let sender = world.sender_over(connect(&proxy.url).await, None);
        let (hash, outcome) = world.send(&sender).await;
        assert_eq!((outcome.treatment, outcome.state), (treatment, state), "{fate:?}");
        assert_eq!(outcome.fault.unwrap().0, class, "{fate:?}");
        // A transaction that the endpoint has already was refused by nobody.
        let is_noted = matches!(state, SendState::Dropped | SendState::Unclear);
        assert_eq!(sender.record(hash).unwrap().note.is_some(), is_noted, "{fate:?}");
        // In every case the lane drains: given up, or included in the end.
        match state {
            SendState::Dropped => assert_eq!(sender.reserve_nonce(world.account()).await.unwrap().nonce, 0),
            _ => assert_eq!(waited(&sender, hash).await.record.state, SendState::Included, "{fate:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_was_never_delivered_stays_to_be_sent() {
    let (world, proxy, served) = behind(|_, _| Fate::Pass).await;
    let sender = world.sender_over(connect(&proxy.url).await, None);
    let kept = world.keep(&sender, PLENTY).await;
    let hash = kept.hash();
    let url = proxy.url.clone();
    drop(proxy);
    let outcome = sender.send(kept).await.unwrap();
    // Without a listener nothing was sent; a lingering listener may have accepted it.
    assert!(matches!(outcome.treatment, FaultTreatment::SendAgain | FaultTreatment::AskTheChain), "{outcome:?} {url}");
    assert_ne!(outcome.state, SendState::Dropped);
    let sender = world.sender_over(connect(&served.url()).await, None);
    sender.resend(hash).await.unwrap();
    assert_eq!(waited(&sender, hash).await.record.state, SendState::Included);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receipt_of_another_transaction_is_not_believed() {
    let (world, proxy, _served) = behind(|_, _| Fate::Pass).await;
    let honest = world.sender_over(connect(&proxy.url).await, None);
    let (other, _) = world.send(&honest).await;
    waited(&honest, other).await;
    let receipt: Value = world.client.provider().raw_request(RECEIPT.into(), [other]).await.unwrap();
    let served = server::serve(world.devnet.clone(), 0).await.unwrap();
    let liar = Proxy::start(served.url(), move |method, _| match method {
        RECEIPT => Fate::Claim(receipt.clone()),
        SEND => Fate::LoseRequest,
        _ => Fate::Pass,
    })
    .await;
    let sender = world.sender_over(connect(&liar.url).await, None);
    let (hash, _) = world.send(&sender).await;
    let refused = sender.poll(hash).await.unwrap_err();
    assert!(matches!(refused, SenderError::InvalidAnswer { .. }), "{refused}");
    assert_eq!(sender.record(hash).unwrap().state, SendState::Unclear);
}

/// An endpoint whose receipt differs in one field from the genuine one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receipt_with_a_forged_field_settles_nothing() {
    let (other, block) = (Address::repeat_byte(7), B256::repeat_byte(7));
    for (field, value) in [("from", json!(other)), ("blockHash", json!(null)), ("blockHash", json!(block))] {
        let what = format!("{field}: {value}");
        let mut world = TestHarness::new(MiningMode::OnTransaction);
        world.rules.confirmations = 2;
        let served = server::serve(world.devnet.clone(), 0).await.unwrap();
        let forged: Arc<Mutex<Option<Value>>> = Arc::default();
        let told = Arc::clone(&forged);
        let liar = Proxy::start(served.url(), move |method, _| match (method, told.lock().unwrap().clone()) {
            (RECEIPT, Some(receipt)) => Fate::Claim(receipt),
            _ => Fate::Pass,
        })
        .await;
        let sender = world.sender_over(connect(&liar.url).await, None);
        let (hash, _) = world.send(&sender).await;
        world.devnet.mine().await.unwrap();
        let mut receipt: Value = world.client.provider().raw_request(RECEIPT.into(), [hash]).await.unwrap();
        receipt[field] = value;
        *forged.lock().unwrap() = Some(receipt);
        match sender.poll(hash).await {
            // The chain has no such block: the receipt is treated as reorganised away.
            Ok(status) => assert!(field == "blockHash" && status.mined.is_none() && !status.settled, "{what}"),
            Err(refused) => assert!(matches!(refused, SenderError::InvalidAnswer { .. }), "{what}: {refused}"),
        }
        let record = sender.record(hash).unwrap();
        assert_eq!((record.state, record.settled_at), (SendState::Sent, None), "{what}");
        *forged.lock().unwrap() = None;
        assert_eq!(waited(&sender, hash).await.record.state, SendState::Included, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lagging_endpoint_undoes_nothing_that_is_final() {
    let (world, proxy, _served) =
        behind(|method, _| if method == RECEIPT { Fate::Claim(Value::Null) } else { Fate::Pass }).await;
    let honest = world.sender();
    let (hash, _) = world.send(&honest).await;
    let final_at = waited(&honest, hash).await.record.settled_at;
    assert!(final_at.is_some());
    let status = world.sender_over(connect(&proxy.url).await, None).poll(hash).await.unwrap();
    assert_eq!((status.record.state, status.record.settled_at), (SendState::Included, final_at));
}

fn relay(proxy: &Proxy, status: bool) -> PrivateRelay {
    let url = RpcUrl::parse(&proxy.url).unwrap();
    let status = status.then(|| RpcUrl::parse(&format!("{}/tx", proxy.url)).unwrap());
    PrivateRelay::new(url, status, CHAIN_ID, HttpLimits::default(), Arc::new(SystemClock)).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_private_transaction_is_shown_to_the_relay_alone() {
    let (world, public, served) = behind(|_, _| Fate::Pass).await;
    let private = Proxy::start(served.url(), |method, before| match method {
        SEND if before == 0 => Fate::LoseRequest,
        _ => Fate::Pass,
    })
    .await;
    let client = connect(&public.url).await;
    let without = world.sender_over(client.clone(), None);
    let ticket = without.reserve_nonce(world.account()).await.unwrap();
    let signed = world.sign(&ticket, PLENTY);
    let kept = without.keep(ticket, signed, SendRoute::Private, None).await.unwrap();
    let hash = kept.hash();
    assert_eq!(without.send(kept).await.unwrap_err(), SenderError::NoRelay(hash));

    let sender = world.sender_over(client, Some(relay(&private, false)));
    assert_eq!(sender.resend(hash).await.unwrap().state, SendState::Unclear);
    let status = waited(&sender, hash).await;
    assert_eq!(status.record.state, SendState::Included);
    assert_eq!(public.count(SEND), 0, "nobody else has seen it wait");
    assert!(private.count(SEND) >= 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_relays_status_is_asked_by_hash() {
    let (world, public, _served) = behind(|_, _| Fate::Pass).await;
    for (said, expected) in [
        ("PENDING", RelayStatus::Pending),
        ("INCLUDED", RelayStatus::Included),
        ("FAILED", RelayStatus::Failed),
        ("CANCELLED", RelayStatus::Cancelled),
        ("UNKNOWN", RelayStatus::Unknown),
        ("SOMETHING NEW", RelayStatus::Unknown),
    ] {
        let status = bardo_testkit::rpc_proxy::status_page(said).await;
        let relay = relay(&status, true);
        let sender = world.sender_over(connect(&public.url).await, Some(relay.clone()));
        let ticket = sender.reserve_nonce(world.account()).await.unwrap();
        let signed = world.sign(&ticket, PLENTY);
        let hash = sender.keep(ticket, signed, SendRoute::Private, None).await.unwrap().hash();
        let standing = sender.wait(hash, NO_PATIENCE).await.unwrap();
        assert_eq!(standing.relay, Some(expected), "{said}");
        assert_eq!(expected.has_ended(), ["FAILED", "CANCELLED"].contains(&said));
        assert_eq!(status.first_params("GET"), [json!(format!("/tx/{hash}"))]);
    }
}
