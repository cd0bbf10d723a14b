//! The states of one transaction.

use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::U256;
use alloy::providers::Provider;
use bardo::base::clock::SystemClock;
use bardo::chain::devnet::{ChainConfig, ChainTransaction, Devnet, DevnetConfig, MiningMode, RunningConfig};
use bardo::chain::evm::ChainRules;
use bardo::chain::network::{AddressBook, Network};
use bardo::chain::provider::ChainClient;
use bardo::chain::sender::{
    FaultTreatment, FeeError, RecordError, SendFault, SendRoute, SendState, SenderError, TxFees, TxReplacement,
    WaitRules,
};

use bardo_testkit::sending::{CHAIN_ID, GWEI, NO_PATIENCE, PLENTY, TestHarness, ether, sign, waited};

#[tokio::test]
async fn a_restart_sends_the_same_bytes_and_never_a_second_transaction() {
    let world = TestHarness::new(MiningMode::OnTransaction);
    let sender = world.sender();
    let hash = world.keep(&sender, PLENTY).await.hash();
    let raw = sender.record(hash).unwrap().signed.raw().clone();
    // The process ends between storing and sending.
    drop(sender);

    let sender = world.sender();
    let pending = sender.pending().unwrap();
    assert_eq!(pending.len(), 1);
    assert_eq!((pending[0].hash(), pending[0].state, pending[0].signed.raw()), (hash, SendState::Stored, &raw));
    assert_eq!(sender.resend(hash).await.unwrap().treatment, FaultTreatment::WaitForReceipt);
    // It ends again before it receives the answer, twice.
    drop(sender);
    let sender = world.sender();
    for _ in 0..2 {
        let again = sender.resend(hash).await.unwrap();
        assert_ne!(again.treatment, FaultTreatment::DropAndReleaseNonce, "{again:?}");
    }
    let status = waited(&sender, hash).await;
    assert_eq!(status.record.state, SendState::Included);
    assert_eq!(status.mined.unwrap().hash, hash);
    assert_eq!((world.chain_nonce().await, world.received().await), (1, U256::from(1)));
    assert!(sender.pending().unwrap().is_empty());
    let after = sender.resend(hash).await.unwrap();
    assert_eq!((after.state, sender.record(hash).unwrap().sends), (SendState::Included, 3), "the end is the end");
}

#[tokio::test]
async fn a_definite_rejection_frees_the_nonce_for_the_next_transaction() {
    let world = TestHarness::new(MiningMode::OnTransaction);
    let sender = world.sender();
    let ticket = sender.reserve_nonce(world.account()).await.unwrap();
    let too_much = world.sign_as(&world.key, ticket.nonce, ether(11), PLENTY);
    let kept = sender.keep(ticket, too_much.clone(), SendRoute::Public, None).await.unwrap();
    let refused = sender.send(kept).await.unwrap();
    assert_eq!((refused.state, refused.treatment), (SendState::Dropped, FaultTreatment::DropAndReleaseNonce));
    assert_eq!(refused.fault.unwrap().0, SendFault::InsufficientFunds);
    assert!(sender.pending().unwrap().is_empty());

    // The same transaction can be signed again, with the same bytes.
    let ticket = sender.reserve_nonce(world.account()).await.unwrap();
    assert_eq!(ticket.nonce, 0);
    let kept = sender.keep(ticket, too_much, SendRoute::Public, None).await.unwrap();
    assert_eq!(sender.send(kept).await.unwrap().state, SendState::Dropped);
    let (hash, _) = world.send(&sender).await;
    assert_eq!(sender.record(hash).unwrap().signed.nonce(), 0);
    waited(&sender, hash).await;
}

#[tokio::test]
async fn after_a_restart_no_rejection_frees_a_nonce() {
    let world = TestHarness::new(MiningMode::Manual);
    let sender = world.sender();
    let ticket = sender.reserve_nonce(world.account()).await.unwrap();
    let too_much = world.sign_as(&world.key, ticket.nonce, ether(11), PLENTY);
    let hash = sender.keep(ticket, too_much, SendRoute::Public, None).await.unwrap().hash();
    drop(sender);
    let sender = world.sender();
    let refused = sender.resend(hash).await.unwrap();
    assert_eq!((refused.state, refused.treatment), (SendState::Unclear, FaultTreatment::AskTheChain));
    assert_eq!(sender.reserve_nonce(world.account()).await.unwrap().nonce, 1, "nonce 0 stays with what was signed");
}

#[tokio::test]
async fn a_reverted_transaction_is_settled() {
    let world = TestHarness::new(MiningMode::OnTransaction);
    let sender = world.sender();
    let address = alloy::primitives::Address::repeat_byte(0x42);
    // INVALID: every call fails.
    world.devnet.run(move |chain| chain.set_code(address, [0xfe].into())).await.unwrap().unwrap();
    let ticket = sender.reserve_nonce(world.account()).await.unwrap();
    let signed = world.sign(&ticket, PLENTY);
    let kept = sender.keep(ticket, signed, SendRoute::Public, None).await.unwrap();
    let hash = kept.hash();
    sender.send(kept).await.unwrap();
    let status = waited(&sender, hash).await;
    assert_eq!(status.record.state, SendState::Reverted);
    assert!(!status.mined.unwrap().receipt.status());
}

#[tokio::test]
async fn a_replacement_takes_the_same_nonce_and_both_outcomes_are_recorded() {
    let world = TestHarness::new(MiningMode::Manual);
    let sender = world.sender();
    let low = TxFees { max_fee_per_gas: 2 * GWEI, max_priority_fee_per_gas: GWEI / 10 };
    let kept = world.keep(&sender, low).await;
    let old = kept.hash();
    sender.send(kept).await.unwrap();

    let capped = sender.outbid(old, TxFees { max_fee_per_gas: 2 * GWEI, max_priority_fee_per_gas: GWEI }).await;
    assert!(matches!(capped, Err(SenderError::Fees(FeeError::AboveCap { .. }))), "{capped:?}");
    let plan = sender.outbid(old, PLENTY).await.unwrap();
    let TxReplacement { replaces, nonce, fees, value, .. } = plan.clone();
    assert_eq!((replaces, nonce, value), (old, 0, U256::from(1)));
    assert!(fees.max_fee_per_gas * 10 >= low.max_fee_per_gas * 11, "{fees:?}");
    assert!(fees.max_priority_fee_per_gas * 10 >= low.max_priority_fee_per_gas * 11, "{fees:?}");

    let cheap = TxFees { max_fee_per_gas: low.max_fee_per_gas + 1, ..low };
    let refused = sender.store_replacement(old, world.sign_as(&world.key, 0, value, cheap)).await.unwrap_err();
    assert_eq!(refused, SenderError::Record(RecordError::TooCheap));
    let other_nonce = sender.store_replacement(old, world.sign_as(&world.key, 1, value, fees)).await.unwrap_err();
    assert!(matches!(other_nonce, SenderError::Record(RecordError::Mismatch { .. })), "{other_nonce}");

    let kept = sender.store_replacement(old, world.sign_as(&world.key, nonce, value, fees)).await.unwrap();
    let new = kept.hash();
    assert_eq!(sender.record(old).unwrap().state, SendState::Sent, "nothing has replaced it yet");
    assert_eq!(sender.send(kept).await.unwrap().state, SendState::Sent);
    assert_eq!(sender.record(old).unwrap().state, SendState::Replaced);
    world.devnet.mine().await.unwrap();

    let status = waited(&sender, old).await;
    assert_eq!(status.mined.unwrap().hash, new, "who asks for the old one hears of the new one");
    assert_eq!(sender.record(new).unwrap().state, SendState::Included);
    assert_eq!(sender.record(old).unwrap().state, SendState::Replaced);
    assert!(sender.pending().unwrap().is_empty());
    assert_eq!(world.received().await, U256::from(1), "paid once");
    assert!(matches!(sender.outbid(new, PLENTY).await, Err(SenderError::Record(RecordError::Ended { .. }))));
}

#[tokio::test]
async fn a_replaced_transaction_that_is_mined_after_all_counts() {
    let world = TestHarness::new(MiningMode::Manual);
    let sender = world.sender();
    let kept = world.keep(&sender, PLENTY).await;
    let old = kept.hash();
    sender.send(kept).await.unwrap();
    let raw = sender.record(old).unwrap().signed;
    let cap = TxFees { max_fee_per_gas: 50 * GWEI, max_priority_fee_per_gas: 5 * GWEI };
    let TxReplacement { fees, value, .. } = sender.outbid(old, cap).await.unwrap();
    let kept = sender.store_replacement(old, world.sign_as(&world.key, 0, value, fees)).await.unwrap();
    let new = kept.hash();
    sender.send(kept).await.unwrap();
    // The block's producer had only seen the first.
    world
        .devnet
        .run(move |chain| {
            let signed = ChainTransaction::decode(raw.raw()).unwrap();
            chain.mine();
            chain.reorg(1, vec![(signed, 0)]).unwrap();
        })
        .await
        .unwrap();
    let status = waited(&sender, new).await;
    assert_eq!(status.mined.unwrap().hash, old);
    assert_eq!(sender.record(old).unwrap().state, SendState::Included);
    assert_eq!(sender.record(new).unwrap().state, SendState::Replaced);
}

#[tokio::test]
async fn an_underpriced_transaction_must_be_signed_again() {
    let world = TestHarness::new(MiningMode::Manual);
    let sender = world.sender();
    let cheap = TxFees { max_fee_per_gas: GWEI / 2, max_priority_fee_per_gas: 1 };
    let kept = world.keep(&sender, cheap).await;
    let hash = kept.hash();
    let outcome = sender.send(kept).await.unwrap();
    assert_eq!((outcome.state, outcome.treatment), (SendState::Stored, FaultTreatment::Outbid));
    let plan = sender.outbid(hash, PLENTY).await.unwrap();
    let signed = world.sign_as(&world.key, plan.nonce, plan.value, plan.fees);
    let kept = sender.store_replacement(hash, signed).await.unwrap();
    assert_eq!(sender.send(kept).await.unwrap().state, SendState::Sent);
    world.devnet.mine().await.unwrap();
    assert!(waited(&sender, hash).await.mined.unwrap().receipt.status());
}

#[tokio::test]
async fn transactions_of_a_reorganised_block_are_pending_again() {
    let mut world = TestHarness::new(MiningMode::Manual);
    world.rules.confirmations = 3;
    let sender = world.sender();
    let (hash, _) = world.send(&sender).await;
    world.devnet.mine().await.unwrap();
    let status = sender.poll(hash).await.unwrap();
    assert_eq!((status.record.state, status.settled), (SendState::Included, false));
    assert_eq!(status.mined.unwrap().confirmations, 1);

    world.devnet.run(|chain| chain.reorg(1, Vec::new()).unwrap()).await.unwrap();
    let status = sender.poll(hash).await.unwrap();
    assert_eq!((status.record.state, status.record.block), (SendState::Sent, None));
    assert!(status.mined.is_none());

    // The wait itself resends the transaction.
    let waiting = {
        let sender = sender.clone();
        tokio::spawn(async move { waited(&sender, hash).await })
    };
    let provider = world.client.provider();
    while provider.get_transaction_by_hash(hash).await.unwrap().is_none() {
        tokio::task::yield_now().await;
    }
    for _ in 0..3 {
        world.devnet.mine().await.unwrap();
    }
    let status = waiting.await.unwrap();
    assert_eq!(status.record.state, SendState::Included);
    assert_eq!(status.mined.unwrap().confirmations, 3);
    assert_eq!(world.received().await, U256::from(1));
}

#[tokio::test]
async fn a_used_nonce_counts_only_at_the_depth_of_a_final_block() {
    let mut world = TestHarness::new(MiningMode::Manual);
    world.rules.confirmations = 2;
    let sender = world.sender();
    let ours = world.keep(&sender, PLENTY).await.hash();
    world.send_outside(0, U256::from(5)).await;
    world.devnet.mine().await.unwrap();
    assert_eq!(sender.poll(ours).await.unwrap().record.state, SendState::Stored, "that block may leave yet");
    world.devnet.mine().await.unwrap();
    let status = sender.poll(ours).await.unwrap();
    assert_eq!((status.record.state, status.settled), (SendState::Dropped, true));
}

#[tokio::test]
async fn waiting_without_resending_sends_nothing() {
    let world = TestHarness::new(MiningMode::Manual);
    let sender = world.sender();
    let hash = world.keep(&sender, PLENTY).await.hash();
    let rules = WaitRules { patience: Duration::from_millis(300), resend: false };
    let status = sender.wait(hash, rules).await.unwrap();
    assert_eq!((status.record.state, status.record.sends, status.settled), (SendState::Stored, 0, false));
    assert!(world.client.provider().get_transaction_by_hash(hash).await.unwrap().is_none());
    assert!(!sender.wait(hash, NO_PATIENCE).await.unwrap().settled);
}

#[tokio::test]
async fn fees_come_from_the_chain_and_stay_under_the_cap() {
    let world = TestHarness::new(MiningMode::OnTransaction);
    let sender = world.sender();
    let quote = sender.fee_quote().await.unwrap();
    // The chain begins at one gwei, and its first block was empty.
    assert_eq!((quote.base_fee, quote.tip), (GWEI, sender.rules().fees.least_tip));
    let (hash, _) = world.send(&sender).await;
    waited(&sender, hash).await;
    let quote = sender.fee_quote().await.unwrap();
    assert_eq!(quote.tip, GWEI, "what the only transaction paid");
    assert!(quote.within(TxFees { max_fee_per_gas: GWEI, max_priority_fee_per_gas: GWEI }).is_err());
    assert_eq!(quote.within(PLENTY).unwrap().max_priority_fee_per_gas, GWEI);
}

#[tokio::test]
async fn only_pending_transactions_are_replaced_and_only_by_their_account_on_their_chain() {
    let world = TestHarness::new(MiningMode::Manual);
    let sender = world.sender();
    let low = TxFees { max_fee_per_gas: 2 * GWEI, max_priority_fee_per_gas: GWEI / 10 };
    let kept = world.keep(&sender, low).await;
    let old = kept.hash();
    sender.send(kept).await.unwrap();
    let stranger = alloy::signers::local::PrivateKeySigner::random();
    for (wrong, what) in [
        (sign(&world.key, 1, 0, U256::from(1), PLENTY), "the chain"),
        (sign(&stranger, CHAIN_ID, 0, U256::from(1), PLENTY), "the sender"),
        (sign(&world.key, CHAIN_ID, 1, U256::from(1), PLENTY), "the nonce"),
    ] {
        let refused = sender.store_replacement(old, wrong).await.unwrap_err();
        assert!(
            matches!(&refused, SenderError::Record(RecordError::Mismatch { what: found, .. }) if *found == what),
            "{refused}"
        );
    }
    // The same bytes are stored once.
    let right = sign(&world.key, CHAIN_ID, 0, U256::from(1), PLENTY);
    let kept = sender.store_replacement(old, right.clone()).await.unwrap();
    let again = sender.store_replacement(old, right.clone()).await.unwrap_err();
    assert_eq!(again, SenderError::Record(RecordError::Twice(right.hash())));
    // A replaced transaction is not pending any more, nor is an included one.
    assert_eq!(sender.send(kept).await.unwrap().state, SendState::Sent);
    let dearer = TxFees { max_fee_per_gas: 100 * GWEI, max_priority_fee_per_gas: 10 * GWEI };
    let late = sign(&world.key, CHAIN_ID, 0, U256::from(1), dearer);
    let ended = |hash, state| SenderError::Record(RecordError::Ended { hash, state });
    let refused = sender.store_replacement(old, late.clone()).await.unwrap_err();
    assert_eq!(refused, ended(old, SendState::Replaced));
    world.devnet.mine().await.unwrap();
    waited(&sender, right.hash()).await;
    let refused = sender.store_replacement(right.hash(), late).await.unwrap_err();
    assert_eq!(refused, ended(right.hash(), SendState::Included));
    assert_eq!((world.received().await, world.chain_nonce().await), (U256::from(1), 1));
}

#[tokio::test]
async fn a_transaction_is_neither_sent_to_nor_looked_for_on_another_chain() {
    let world = TestHarness::new(MiningMode::OnTransaction);
    let here = world.sender();
    let kept = world.keep(&here, PLENTY).await;
    let hash = kept.hash();
    // Another chain on the same ledger, as for a program with several chains.
    let chain = ChainConfig { rules: ChainRules::osaka(31_338), ..ChainConfig::default() };
    let devnet = Devnet::spawn(DevnetConfig { chain, running: RunningConfig::default() }).unwrap();
    let network = Network::devnet("base", 31_338, AddressBook::default());
    let client = ChainClient::devnet(network, devnet, Arc::new(SystemClock)).unwrap();
    let elsewhere = world.sender_over(client, None);
    let other = SenderError::OtherChain { hash, found: CHAIN_ID, own: 31_338 };
    assert_eq!(elsewhere.poll(hash).await.unwrap_err(), other);
    assert_eq!(elsewhere.resend(hash).await.unwrap_err(), other);
    assert_eq!(elsewhere.send(kept).await.unwrap_err(), other);
    assert_eq!(here.record(hash).unwrap().sends, 0, "nobody was shown it");
    // On its own chain it continues.
    here.resend(hash).await.unwrap();
    assert_eq!(waited(&here, hash).await.record.state, SendState::Included);
}

#[tokio::test]
async fn a_rejected_replacement_frees_no_nonce() {
    let world = TestHarness::new(MiningMode::Manual);
    let sender = world.sender();
    let (old, _) = world.send(&sender).await;
    // A gas price of a million gwei: more than the account's balance for the whole transaction.
    let dear = TxFees { max_fee_per_gas: 1_000_000 * GWEI, max_priority_fee_per_gas: 2 * GWEI };
    let kept = sender.store_replacement(old, world.sign_as(&world.key, 0, U256::from(1), dear)).await.unwrap();
    let refused = sender.send(kept).await.unwrap();
    assert_eq!((refused.state, refused.fault.unwrap().0), (SendState::Dropped, SendFault::InsufficientFunds));
    let first = sender.record(old).unwrap();
    assert_eq!((first.state, first.settled_at), (SendState::Sent, None), "the first one waits as before");
    assert_eq!(sender.reserve_nonce(world.account()).await.unwrap().nonce, 1, "and its nonce is its own");
    world.devnet.mine().await.unwrap();
    assert_eq!(waited(&sender, old).await.record.state, SendState::Included);
}

#[tokio::test]
async fn resending_the_original_does_not_replace_its_replacement() {
    let world = TestHarness::new(MiningMode::Manual);
    let sender = world.sender();
    let low = TxFees { max_fee_per_gas: 2 * GWEI, max_priority_fee_per_gas: GWEI / 10 };
    let kept = world.keep(&sender, low).await;
    let old = kept.hash();
    sender.send(kept).await.unwrap();
    let kept = sender.store_replacement(old, world.sign_as(&world.key, 0, U256::from(1), PLENTY)).await.unwrap();
    let new = kept.hash();
    sender.resend(old).await.unwrap();
    assert_eq!(
        (sender.record(old).unwrap().state, sender.record(new).unwrap().state),
        (SendState::Sent, SendState::Stored)
    );
    assert_eq!(sender.send(kept).await.unwrap().state, SendState::Sent);
    world.devnet.mine().await.unwrap();
    assert_eq!(waited(&sender, new).await.mined.unwrap().hash, new);
}
