//! Nonces: none used twice, none skipped, none shared with another program.

use std::collections::BTreeSet;
use std::sync::Arc;

use alloy::primitives::U256;
use alloy::providers::Provider;
use bardo::chain::devnet::MiningMode;
use bardo::chain::sender::{LaneError, RecordError, SendRoute, SendState, SenderError, TxSender, reserved};

use bardo_testkit::sending::{CHAIN_ID, PLENTY, TestHarness, is_ahead, sign, waited};

/// Sends `count` transfers from as many tasks over two handles of the ledger; every third signing fails first.
async fn crowd(world: Arc<TestHarness>, senders: [TxSender; 2], count: usize) -> BTreeSet<u64> {
    let tasks: Vec<_> = (0..count)
        .map(|number| {
            let (world, sender) = (world.clone(), senders[number % 2].clone());
            tokio::spawn(async move {
                if number % 3 == 0 {
                    let ticket = sender.reserve_nonce(world.account()).await.unwrap();
                    sender.release_nonce(ticket).await.unwrap();
                }
                let (hash, _) = world.send(&sender).await;
                let status = waited(&sender, hash).await;
                assert_eq!(status.record.state, SendState::Included);
                status.record.signed.nonce()
            })
        })
        .collect();
    let mut nonces = BTreeSet::new();
    for task in tasks {
        assert!(nonces.insert(task.await.unwrap()), "a nonce was used twice");
    }
    nonces
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_in_two_processes_never_collide() {
    let world = Arc::new(TestHarness::new(MiningMode::OnTransaction));
    let senders = [world.sender(), world.sender()];
    let nonces = crowd(world.clone(), senders.clone(), 120).await;
    assert_eq!(nonces, (0..120).collect(), "every nonce once, none left out");
    assert_eq!(world.chain_nonce().await, 120);
    assert_eq!(world.received().await, U256::from(120));
    assert!(senders[0].pending().unwrap().is_empty());
    assert!(world.store().read(reserved).unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs anvil: run by .ci/run"]
async fn many_tasks_never_collide_on_anvil() {
    let mut world = TestHarness::new(MiningMode::Manual);
    let (state, timestamp) =
        world.devnet.run(|chain| (chain.state().clone(), chain.head().header.timestamp)).await.unwrap();
    let (anvil, provider) = bardo_testkit::anvil::start(&state, timestamp, CHAIN_ID).await;
    let _: serde_json::Value = provider.raw_request("evm_setAutomine".into(), serde_json::json!([true])).await.unwrap();
    world.client = bardo_testkit::sending::connect(anvil.url()).await;
    let world = Arc::new(world);
    let nonces = crowd(world.clone(), [world.sender(), world.sender()], 60).await;
    assert_eq!(nonces, (0..60).collect());
    assert_eq!(world.chain_nonce().await, 60);
}

#[tokio::test]
async fn a_released_nonce_is_used_before_any_new_one() {
    let world = TestHarness::new(MiningMode::OnTransaction);
    let sender = world.sender();
    let first = sender.reserve_nonce(world.account()).await.unwrap();
    let (later, _) = world.send(&sender).await;
    assert_eq!(sender.record(later).unwrap().signed.nonce(), 1, "the first is still held");
    assert_eq!(world.chain_nonce().await, 0, "and the second waits for it");
    sender.release_nonce(first.clone()).await.unwrap();
    let twice = sender.release_nonce(first).await.unwrap_err();
    assert!(matches!(twice, SenderError::Lane(LaneError::NotHeld { nonce: 0, .. })), "{twice}");
    let (filling, _) = world.send(&sender).await;
    assert_eq!(sender.record(filling).unwrap().signed.nonce(), 0);
    waited(&sender, filling).await;
    waited(&sender, later).await;
    assert_eq!(sender.reserve_nonce(world.account()).await.unwrap().nonce, 2);
}

#[tokio::test]
async fn releasing_the_last_nonce_leaves_no_gap() {
    let world = TestHarness::new(MiningMode::Manual);
    let sender = world.sender();
    let (zero, one) =
        (sender.reserve_nonce(world.account()).await.unwrap(), sender.reserve_nonce(world.account()).await.unwrap());
    sender.release_nonce(zero).await.unwrap();
    sender.release_nonce(one).await.unwrap();
    let again = sender.reserve_nonce(world.account()).await.unwrap();
    assert_eq!(again.nonce, 0);
    assert_eq!(world.store().read(reserved).unwrap().len(), 1);
}

#[tokio::test]
async fn with_a_released_nonce_nothing_can_be_stored() {
    let world = TestHarness::new(MiningMode::Manual);
    let sender = world.sender();
    let ticket = sender.reserve_nonce(world.account()).await.unwrap();
    let signed = world.sign(&ticket, PLENTY);
    // Recovery in another process has decided that nobody will sign with it.
    let other = world.sender();
    let found = world.store().read(reserved).unwrap().pop().unwrap();
    other.release_nonce(found.ticket).await.unwrap();
    let refused = sender.keep(ticket, signed, SendRoute::Public, None).await.unwrap_err();
    assert!(
        matches!(refused, SenderError::Record(RecordError::Lane(LaneError::NotHeld { nonce: 0, .. }))),
        "{refused}"
    );
    assert!(sender.pending().unwrap().is_empty());
}

#[tokio::test]
async fn only_a_transaction_that_matches_its_reservation_is_stored() {
    let world = TestHarness::new(MiningMode::Manual);
    let sender = world.sender();
    let ticket = sender.reserve_nonce(world.account()).await.unwrap();
    let stranger = alloy::signers::local::PrivateKeySigner::random();
    for (wrong, what) in [
        (sign(&world.key, CHAIN_ID, ticket.nonce + 1, U256::ZERO, PLENTY), "the nonce"),
        (sign(&world.key, 1, ticket.nonce, U256::ZERO, PLENTY), "the chain"),
        (sign(&stranger, CHAIN_ID, ticket.nonce, U256::ZERO, PLENTY), "the sender"),
    ] {
        let refused = sender.keep(ticket.clone(), wrong, SendRoute::Public, None).await.unwrap_err();
        assert!(
            matches!(&refused, SenderError::Record(RecordError::Mismatch { what: found, .. }) if *found == what),
            "{refused}"
        );
    }
    let right = world.sign(&ticket, PLENTY);
    assert!(sender.keep(ticket.clone(), right.clone(), SendRoute::Public, None).await.is_ok());
    let again = sender.keep(ticket, right, SendRoute::Public, None).await.unwrap_err();
    assert!(matches!(again, SenderError::Record(RecordError::Lane(LaneError::NotHeld { .. }))), "{again}");
}

#[tokio::test]
async fn an_account_used_elsewhere_is_blocked_until_reconciled() {
    let world = TestHarness::new(MiningMode::OnTransaction);
    let sender = world.sender();
    let (hash, _) = world.send(&sender).await;
    waited(&sender, hash).await;
    world.send_outside(1, U256::from(5)).await;
    for _ in 0..2 {
        let blocked = sender.reserve_nonce(world.account()).await.unwrap_err();
        assert!(is_ahead(&blocked), "{blocked}");
    }
    sender.reconcile(world.account()).await.unwrap();
    assert_eq!(sender.reserve_nonce(world.account()).await.unwrap().nonce, 2);
}

#[tokio::test]
async fn pending_transactions_of_others_block_too() {
    let world = TestHarness::new(MiningMode::Manual);
    let sender = world.sender();
    world.send_outside(0, U256::from(5)).await;
    assert!(is_ahead(&sender.reserve_nonce(world.account()).await.unwrap_err()), "on the first use");
    assert!(is_ahead(&sender.reconcile(world.account()).await.unwrap_err()), "nobody knows yet what becomes of it");
    world.devnet.mine().await.unwrap();
    sender.reconcile(world.account()).await.unwrap();
    assert_eq!(sender.reserve_nonce(world.account()).await.unwrap().nonce, 1);
}

#[tokio::test]
async fn a_reserved_nonce_that_was_used_elsewhere_is_detected() {
    let world = TestHarness::new(MiningMode::OnTransaction);
    let sender = world.sender();
    let _held = sender.reserve_nonce(world.account()).await.unwrap();
    let _later = sender.reserve_nonce(world.account()).await.unwrap();
    world.send_outside(0, U256::from(5)).await;
    assert!(is_ahead(&sender.reserve_nonce(world.account()).await.unwrap_err()));
}

#[tokio::test]
async fn own_open_transactions_are_settled_before_reconciling() {
    let world = TestHarness::new(MiningMode::Manual);
    let sender = world.sender();
    let ours = world.keep(&sender, PLENTY).await.hash();
    let outside = world.send_outside(0, U256::from(5)).await;
    world.send_outside(1, U256::from(5)).await;
    world.devnet.mine().await.unwrap();
    let open = sender.reconcile(world.account()).await.unwrap_err();
    assert!(matches!(open, SenderError::Lane(LaneError::Open { nonce: 0, .. })), "{open}");
    let status = waited(&sender, ours).await;
    assert_eq!(status.record.state, SendState::Dropped, "{outside} has its nonce");
    sender.reconcile(world.account()).await.unwrap();
    assert_eq!(sender.reserve_nonce(world.account()).await.unwrap().nonce, 2);
}
