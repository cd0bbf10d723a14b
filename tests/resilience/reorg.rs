//! Reorganisations of one to twelve blocks while a transaction is in each of its states: in the end the ledger agrees
//! with the chain, and every nonce is used once.

use alloy::primitives::{B256, U256};
use alloy::providers::Provider as _;
use bardo::chain::devnet::{ChainTransaction, MiningMode, server};
use bardo::chain::sender::{SendRoute, SendState, TxFees, TxSender};

use bardo_testkit::rpc_proxy::{Fate, Proxy};
use bardo_testkit::sending::{GWEI, PLENTY, SINK, TestHarness, connect};

/// Enough confirmations for a reorganisation of twelve blocks.
const CONFIRMATIONS: u64 = 13;

async fn world() -> (TestHarness, TxSender) {
    let mut world = TestHarness::new(MiningMode::Manual);
    world.rules.confirmations = CONFIRMATIONS;
    mine(&world, 14).await;
    let sender = world.sender();
    (world, sender)
}

async fn mine(world: &TestHarness, blocks: u64) {
    for _ in 0..blocks {
        world.devnet.mine().await.unwrap();
    }
}

/// Replaces the newest blocks by empty ones, except that the first may contain `instead`.
async fn reorg(world: &TestHarness, depth: u64, instead: Option<ChainTransaction>) {
    let replacements = instead.into_iter().map(|transaction| (transaction, 0)).collect();
    world.devnet.run(move |chain| chain.reorg(depth, replacements).map(|_| ())).await.unwrap().unwrap();
}

/// Polls, resends pending transactions and makes blocks until the result is final.
async fn settle(world: &TestHarness, sender: &TxSender, hash: B256) -> SendState {
    for _ in 0..40 {
        let status = sender.poll(hash).await.unwrap();
        if status.settled {
            return status.record.state;
        }
        if status.mined.is_none() && status.record.state.may_be_sent() {
            sender.resend(hash).await.unwrap();
        }
        mine(world, 1).await;
    }
    panic!("{hash} has no end: {:?}", sender.record(hash))
}

/// Asserts that ledger and chain agree on the receipt, the next nonce, and the received amount.
async fn agree(world: &TestHarness, sender: &TxSender, hash: B256, state: SendState, arrived: u64, what: &str) {
    let receipt = world.client.provider().get_transaction_receipt(hash).await.unwrap();
    let expected = match &receipt {
        None => SendState::Dropped,
        Some(receipt) if receipt.status() => SendState::Included,
        Some(_) => SendState::Reverted,
    };
    assert_eq!(state, expected, "{what}");
    let record = sender.record(hash).unwrap();
    let block = receipt.map(|receipt| (receipt.block_number.unwrap(), receipt.block_hash.unwrap()));
    assert_eq!(record.block, block, "{what}: the block of the chain as it is now");
    assert_eq!(world.received().await, U256::from(arrived), "{what}");
    assert!(sender.pending().unwrap().is_empty(), "{what}");
    let next = sender.reserve_nonce(world.account()).await.unwrap();
    assert_eq!(next.nonce, world.chain_nonce().await, "{what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stored_sent_and_unclear_transactions_survive_every_depth() {
    for depth in 1..=12 {
        for state in [SendState::Stored, SendState::Sent, SendState::Unclear] {
            let (world, sender) = world().await;
            let kept = world.keep(&sender, PLENTY).await;
            let hash = kept.hash();
            match state {
                SendState::Sent => assert_eq!(sender.send(kept).await.unwrap().state, SendState::Sent),
                SendState::Unclear => {
                    // Sent, with the answer lost.
                    let served = server::serve(world.devnet.clone(), 0).await.unwrap();
                    let lost = |method: &str, before| match (method, before) {
                        ("eth_sendRawTransaction", 0) => Fate::LoseAnswer,
                        _ => Fate::Pass,
                    };
                    let proxy = Proxy::start(served.url(), lost).await;
                    let over = world.sender_over(connect(&proxy.url).await, None);
                    assert_eq!(over.send(kept).await.unwrap().state, SendState::Unclear);
                }
                _ => drop(kept),
            }
            assert_eq!(sender.record(hash).unwrap().state, state, "depth {depth}");
            reorg(&world, depth, None).await;
            let end = settle(&world, &sender, hash).await;
            agree(&world, &sender, hash, end, 1, &format!("{state} at depth {depth}")).await;
            assert_eq!(end, SendState::Included);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn included_and_reverted_transactions_are_removed_and_included_again() {
    for depth in 1..=12 {
        for fails in [false, true] {
            let (world, sender) = world().await;
            let code = |bytes: &'static [u8]| world.devnet.run(move |chain| chain.set_code(SINK, bytes.into()));
            let (hash, _) = world.send(&sender).await;
            if fails {
                // INVALID: every call fails.
                code(&[0xfe]).await.unwrap().unwrap();
            }
            mine(&world, 1).await;
            mine(&world, depth - 1).await;
            let seen = sender.poll(hash).await.unwrap();
            let before = if fails { SendState::Reverted } else { SendState::Included };
            assert_eq!((seen.record.state, seen.settled), (before, false), "depth {depth}");
            reorg(&world, depth, None).await;
            let gone = sender.poll(hash).await.unwrap();
            assert_eq!((gone.record.state, gone.record.block), (SendState::Sent, None), "depth {depth}");
            // On the new branch the result is the opposite.
            code(if fails { &[] } else { &[0xfe] }).await.unwrap().unwrap();
            let end = settle(&world, &sender, hash).await;
            agree(&world, &sender, hash, end, u64::from(fails), &format!("{before} at depth {depth}")).await;
            assert_eq!(end, if fails { SendState::Included } else { SendState::Reverted });
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replaced_transaction_may_win_on_the_new_branch() {
    for depth in 1..=12 {
        let (world, sender) = world().await;
        let low = TxFees { max_fee_per_gas: 5 * GWEI, max_priority_fee_per_gas: GWEI / 10 };
        let kept = world.keep(&sender, low).await;
        let old = kept.hash();
        sender.send(kept).await.unwrap();
        let dearer = world.sign_as(&world.key, 0, U256::from(5), PLENTY);
        let kept = sender.store_replacement(old, dearer).await.unwrap();
        let new = kept.hash();
        sender.send(kept).await.unwrap();
        mine(&world, depth).await;
        assert_eq!(sender.poll(new).await.unwrap().record.state, SendState::Included);
        assert_eq!(sender.record(old).unwrap().state, SendState::Replaced);
        let transaction = sender.record(old).unwrap().signed.raw().clone();
        let transaction = ChainTransaction::decode(&transaction).unwrap();
        reorg(&world, depth, Some(transaction)).await;
        let end = settle(&world, &sender, old).await;
        agree(&world, &sender, old, end, 1, &format!("replaced at depth {depth}")).await;
        assert_eq!(end, SendState::Included);
        assert!(!sender.record(new).unwrap().state.is_mined(), "one of them at most happened");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_the_new_branch_another_program_may_use_the_nonce() {
    for depth in 1..=12 {
        let (world, sender) = world().await;
        let (hash, _) = world.send(&sender).await;
        mine(&world, depth).await;
        assert_eq!(sender.poll(hash).await.unwrap().record.state, SendState::Included);
        let outside = world.sign_as(&world.key, 0, U256::from(7), PLENTY);
        reorg(&world, depth, Some(ChainTransaction::decode(outside.raw()).unwrap())).await;
        let end = settle(&world, &sender, hash).await;
        agree(&world, &sender, hash, end, 7, &format!("taken at depth {depth}")).await;
        assert_eq!(end, SendState::Dropped);
        // The nonce is known to be used, and the next one follows it.
        let ticket = sender.reserve_nonce(world.account()).await.unwrap();
        let signed = world.sign(&ticket, PLENTY);
        assert!(signed.nonce() > 0);
        let next = sender.keep(ticket, signed, SendRoute::Public, None).await.unwrap();
        drop(next);
    }
}
