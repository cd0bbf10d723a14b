//! Endpoints that lie, lag, or fall silent: several endpoints must agree, and until they do, nothing is signed; a send
//! that fails in any way at any point results in one transaction.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use alloy::primitives::U256;
use bardo::base::clock::SystemClock;
use bardo::base::config::RpcUrl;
use bardo::chain::devnet::{MiningMode, server};
use bardo::chain::network::{AddressBook, ChainPlan, KnownContract, Network};
use bardo::chain::provider::{ChainClient, ConnectRules, ProviderError};
use bardo::chain::sender::{SendState, SenderError, WaitRules};
use serde_json::{Value, json};

use crate::host::Devnet;
use bardo_testkit::rpc_proxy::{Fate, Proxy, send_faults};
use bardo_testkit::sending::{CHAIN_ID, PLENTY, TestHarness};

const SEND: &str = "eth_sendRawTransaction";
const COUNT: &str = "eth_getTransactionCount";
const RECEIPT: &str = "eth_getTransactionReceipt";

/// Client of a chain behind several endpoints.
async fn connect(urls: &[&str]) -> ChainClient {
    let plan = ChainPlan {
        name: "ethereum".into(),
        network: Some(Network::devnet("ethereum", CHAIN_ID, AddressBook::default())),
        chain_id: Some(CHAIN_ID),
        endpoints: urls.iter().map(|url| RpcUrl::parse(url).unwrap()).collect(),
    };
    ChainClient::connect(&plan, ConnectRules::default(), Arc::new(SystemClock)).await.unwrap()
}

fn disagree(error: &SenderError, method: &str) -> bool {
    matches!(error, SenderError::Provider(ProviderError::Disagreement { method: asked, .. }) if asked.as_str() == method)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contradictory_endpoints_are_not_believed_about_a_nonce() {
    let world = TestHarness::new(MiningMode::OnTransaction);
    let served = server::serve(world.devnet.clone(), 0).await.unwrap();
    let lies = Arc::new(AtomicBool::new(true));
    let told = Arc::clone(&lies);
    let liar = Proxy::start(served.url(), move |method, _| match method {
        COUNT if told.load(Ordering::SeqCst) => Fate::Claim(json!("0x5")),
        _ => Fate::Pass,
    })
    .await;
    // Whichever of the two is asked first.
    for urls in [[served.url(), liar.url.clone()], [liar.url.clone(), served.url()]] {
        lies.store(true, Ordering::SeqCst);
        let client = connect(&[&urls[0], &urls[1]]).await;
        let sender = world.sender_over(client, None);
        let refused = sender.reserve_nonce(world.account()).await.unwrap_err();
        assert!(disagree(&refused, COUNT), "{refused}");
        assert!(refused.to_string().contains("nothing is signed"), "{refused}");
        assert!(sender.pending().unwrap().is_empty());
        // As soon as they agree it continues.
        lies.store(false, Ordering::SeqCst);
        let ticket = sender.reserve_nonce(world.account()).await.unwrap();
        assert_eq!(ticket.nonce, 0);
        sender.release_nonce(ticket).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receipt_that_only_one_endpoint_has_settles_nothing() {
    let world = TestHarness::new(MiningMode::OnTransaction);
    let served = server::serve(world.devnet.clone(), 0).await.unwrap();
    let lies = Arc::new(AtomicBool::new(true));
    for forged in ["none", "failed", "elsewhere"] {
        lies.store(true, Ordering::SeqCst);
        let (told, target) = (Arc::clone(&lies), served.url());
        let real: Arc<std::sync::Mutex<Value>> = Arc::default();
        let source = Arc::clone(&real);
        let liar = Proxy::start(target.clone(), move |method, _| match method {
            RECEIPT if told.load(Ordering::SeqCst) => {
                let mut receipt = source.lock().unwrap().clone();
                match forged {
                    "none" => receipt = Value::Null,
                    "failed" => receipt["status"] = json!("0x0"),
                    _ => receipt["blockHash"] = json!(format!("0x{}", "7".repeat(64))),
                }
                Fate::Claim(receipt)
            }
            _ => Fate::Pass,
        })
        .await;
        let sender = world.sender_over(connect(&[&target, &liar.url]).await, None);
        let (hash, sent) = world.send(&sender).await;
        assert_eq!(sent.state, SendState::Sent, "{forged}");
        {
            use alloy::providers::Provider as _;
            let receipt: Value = world.client.provider().raw_request(RECEIPT.into(), [hash]).await.unwrap();
            *real.lock().unwrap() = receipt;
        }
        let untold = sender.poll(hash).await.unwrap_err();
        let is_told = match forged {
            "none" => matches!(&untold, SenderError::ReceiptDisputed { hash: of, .. } if *of == hash),
            _ => disagree(&untold, RECEIPT),
        };
        assert!(is_told, "{forged}: {untold}");
        assert_eq!(sender.record(hash).unwrap().settled_at, None, "{forged}");
        lies.store(false, Ordering::SeqCst);
        let status = sender.poll(hash).await.unwrap();
        assert_eq!((status.record.state, status.settled), (SendState::Included, true), "{forged}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_briefly_lagging_or_silent_endpoint_delays_nothing() {
    let world = TestHarness::new(MiningMode::OnTransaction);
    let served = server::serve(world.devnet.clone(), 0).await.unwrap();
    // Behind for its first two answers, then level.
    let late = Proxy::start(served.url(), |method, before| match (method, before) {
        (RECEIPT, 0..=1) => Fate::Claim(Value::Null),
        _ => Fate::Pass,
    })
    .await;
    let silent = Proxy::start(served.url(), |method, _| match method {
        COUNT | RECEIPT => Fate::Status(503),
        _ => Fate::Pass,
    })
    .await;
    for other in [&late, &silent] {
        let sender = world.sender_over(connect(&[&served.url(), &other.url]).await, None);
        let (hash, _) = world.send(&sender).await;
        let status = sender.poll(hash).await.unwrap();
        assert_eq!((status.record.state, status.settled), (SendState::Included, true));
    }
    assert!(late.count(RECEIPT) >= 3, "it was asked until it had caught up");
}

/// Failures of answers, each once or twice, before the endpoint recovers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_first_answer_does_not_prevent_connecting() {
    let devnet = Devnet::start();
    for fault in [Fate::LoseAnswer, Fate::LoseRequest, Fate::Status(502), Fate::Refuse(-32_603, "internal error")] {
        for method in ["eth_chainId", "bardo_describe"] {
            let (told, asked) = (fault.clone(), method);
            let proxy = Proxy::start(devnet.url().to_owned(), move |method, before| {
                if method == asked && before < 2 { told.clone() } else { Fate::Pass }
            })
            .await;
            let what = format!("{fault:?} to {method}");
            let plan = ChainPlan {
                name: "ethereum".into(),
                network: None,
                chain_id: None,
                endpoints: vec![RpcUrl::parse(&proxy.url).unwrap()],
            };
            let client = ChainClient::connect(&plan, ConnectRules::default(), Arc::new(SystemClock)).await;
            let client = client.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(client.chain_id(), CHAIN_ID, "{what}");
            assert!(
                client.network().book.contract(KnownContract::UniversalRouterV210).is_some(),
                "{what}: it knows its contracts"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_fault_at_each_send_ends_in_one_transaction_and_no_gap() {
    // At the first send, at the next one, and at both: nothing is known when it is resent.
    for points in [&[0_usize][..], &[1], &[0, 1]] {
        for (fault, _) in send_faults() {
            let world = TestHarness::new(MiningMode::OnTransaction);
            let served = server::serve(world.devnet.clone(), 0).await.unwrap();
            let told = fault.clone();
            let proxy = Proxy::start(served.url(), move |method, before| {
                if method == SEND && points.contains(&before) { told.clone() } else { Fate::Pass }
            })
            .await;
            let what = format!("{fault:?} at {points:?}");
            let sender = world.sender_over(connect(&[&proxy.url]).await, None);
            let patient = WaitRules { patience: Duration::from_secs(20), resend: true };
            let mut wished = 0_u64;
            // Three payments in sequence, each until it is done; one that was given up for good is requested again.
            while wished < 3 {
                let kept = world.keep(&sender, PLENTY).await;
                let hash = kept.hash();
                let sent = sender.send(kept).await.unwrap();
                if sent.state == SendState::Dropped {
                    continue;
                }
                // A restarted process knows only the ledger.
                let sender = world.sender_over(connect(&[&proxy.url]).await, None);
                let mut status = sender.wait(hash, patient).await.unwrap();
                if !status.settled {
                    // Resent on request: the same bytes, to an endpoint that now accepts them.
                    sender.resend(hash).await.unwrap();
                    status = sender.wait(hash, patient).await.unwrap();
                }
                assert_eq!((status.record.state, status.settled), (SendState::Included, true), "{what}");
                wished += 1;
            }
            assert_eq!(world.received().await, U256::from(wished), "{what}: each wish was paid once");
            assert_eq!(world.chain_nonce().await, wished, "{what}: no nonce was skipped or used twice");
            assert!(sender.pending().unwrap().is_empty(), "{what}");
            assert_eq!(
                sender.reserve_nonce(world.account()).await.unwrap().nonce,
                wished,
                "{what}: the lane has drained"
            );
        }
    }
}
