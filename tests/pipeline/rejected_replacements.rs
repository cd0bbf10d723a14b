//! Rejected replacements, and revocations under a stop that comes after their signature.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use alloy::primitives::{B256, U256};
use alloy::providers::Provider as _;
use bardo::base::model::StopLevel;
use bardo::chain::network::KnownContract;
use bardo::fabric::TxState;
use bardo::safety::approval::Consent;
use bardo::safety::pipeline::{CommitState, RecoveryState, RecoveryStep};
use bardo::safety::policy_engine::ActionEnd;
use bardo::store::StoreError;

use crate::sends::{Behind, DEAR, HUNDRED, PATIENT, SEND};
use bardo_testkit::harness::{TestHarness, cents};
use bardo_testkit::rpc_proxy::Fate;

const BROKE: Fate = Fate::Refuse(-32_000, "insufficient funds for gas * price + value");

/// An endpoint that rejects the price as too low twice, which causes a replacement, and rejects that one; then it does
/// `after`.
async fn refusing(account: usize, after: Fate) -> Arc<Behind> {
    let fate = move |_: &TestHarness| {
        move |method: &str, before| match (method, before) {
            (SEND, 0 | 1) => DEAR,
            (SEND, 2) => BROKE,
            (SEND, _) => after.clone(),
            _ => Fate::Pass,
        }
    };
    Arc::new(Behind::new(account, PATIENT, fate).await)
}

/// Hash and bytes, as the ledger stores them.
type Row = (Vec<u8>, Vec<u8>);

/// Hashes of transactions in this state, with their bytes.
fn in_state(world: &TestHarness, state: &str) -> Vec<(B256, Vec<u8>)> {
    let rows = world.store.read(|connection| -> Result<Vec<Row>, StoreError> {
        let mut statement = connection.prepare("SELECT hash, raw FROM sender_transaction WHERE state = ?1")?;
        Ok(statement.query_map([state], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?)
    });
    rows.unwrap().into_iter().map(|(hash, raw)| (B256::from_slice(&hash), raw)).collect()
}

/// Waits until a condition is met.
async fn until(what: &str, mut is: impl FnMut() -> bool) {
    for _ in 0..24_000 {
        if is() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{what}");
}

/// Revokes the allowance, bypassing the proxy.
async fn revoke(world: &TestHarness) {
    let permit = world.preview(world.revocation()).await.unwrap().permit.permit_id;
    assert_eq!(world.pipeline.commit(permit, Consent::None).await.unwrap().state, CommitState::Done);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_rejected_replacement_the_first_transaction_continues_and_is_reported() {
    let behind = refusing(4, Fate::Pass).await;
    let world = &behind.world;
    let nonce = world.nonce().await;
    world.told();
    let committed = behind.commit(world.approval(HUNDRED)).await.unwrap();
    assert_eq!((&committed.state, behind.kept()), (&CommitState::Done, 2), "{committed:?}");
    let [(refused, _)] = in_state(world, "dropped")[..] else { panic!("one was refused") };
    let [(first, _)] = in_state(world, "included")[..] else { panic!("one is in a block") };
    assert_eq!(committed.legs[0].hash, first);
    let told = world.told();
    let at = told.iter().position(|one| *one == (refused, TxState::Dropped)).expect("its end is told");
    assert_eq!(told[at + 1..], [(first, TxState::Sent), (first, TxState::Confirmed)], "{told:?}");
    revoke(world).await;
    behind.drained(nonce, "refused").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_replacement_that_is_included_counts_once() {
    let behind = refusing(4, DEAR).await;
    let world = &behind.world;
    let (nonce, proposal) = (world.nonce().await, world.approval(HUNDRED));
    let commit = tokio::spawn({
        let behind = Arc::clone(&behind);
        async move { behind.commit(proposal).await }
    });
    until("the replacement was refused", || !in_state(world, "dropped").is_empty()).await;
    // The rejecting endpoint has the bytes and forwards them.
    let [(hash, raw)] = &in_state(world, "dropped")[..] else { panic!("one was refused") };
    let sent = world.client.provider().send_raw_transaction(raw).await.unwrap();
    assert_eq!(sent.tx_hash(), hash);
    let committed = commit.await.unwrap().unwrap();
    assert_eq!((&committed.state, committed.legs[0].hash), (&CommitState::Done, *hash), "{committed:?}");
    let ends = world.book.ends.lock().unwrap().clone();
    let [ActionEnd::Done { spent }] = ends[..] else { panic!("{ends:?}") };
    for _ in 0..2 {
        assert_eq!(behind.pipeline.recover().await.unwrap(), []);
    }
    assert_eq!(*world.book.ends.lock().unwrap(), ends, "it has its end, once");
    let held = world.store.read(|connection| -> Result<i64, StoreError> {
        Ok(connection.query_row("SELECT sum(cents) FROM book_held", [], |row| row.get(0))?)
    });
    assert_eq!(held.unwrap(), cents(spent));
    assert!(world.trail().iter().all(|(kind, _)| kind != "tx:late"));
    revoke(world).await;
    behind.drained(nonce, "passed on").await;
}

/// A revocation that was signed under one stop and lost, while a higher one comes.
#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_is_resent_under_a_higher_stop() {
    // While the call waits for it, and afterwards, while it is only tracked.
    for patience in [PATIENT, Duration::ZERO] {
        let what = format!("waited for {patience:?}");
        let behind = Behind::new(5, patience, |world| {
            let book = Arc::clone(&world.book);
            move |method: &str, _| {
                let lost = method == SEND && *book.stop.lock().unwrap() == Some(StopLevel::Pause);
                if lost { Fate::LoseRequest } else { Fate::Pass }
            }
        });
        let behind = Arc::new(behind.await);
        let world = &behind.world;
        let nonce = world.nonce().await;
        let permit = world.preview(world.approval(HUNDRED)).await.unwrap().permit.permit_id;
        assert_eq!(world.pipeline.commit(permit, Consent::None).await.unwrap().state, CommitState::Done);
        *world.book.stop.lock().unwrap() = Some(StopLevel::Pause);
        world.told();
        let proposal = world.revocation();
        let commit = tokio::spawn({
            let behind = Arc::clone(&behind);
            async move { behind.commit(proposal).await }
        });
        behind.sent(1).await;
        *world.book.stop.lock().unwrap() = Some(StopLevel::Halt);
        let committed = commit.await.unwrap().unwrap();
        let known = if patience.is_zero() { CommitState::Unclear } else { CommitState::Done };
        assert_eq!(committed.state, known, "{what}: {:?}", committed.remarks);
        // However it was settled, its end is reported.
        let (hash, mut told) = (committed.legs[0].hash, Vec::new());
        until(&format!("{what}: its end is told"), || {
            told.extend(world.told());
            told.contains(&(hash, TxState::Confirmed))
        })
        .await;
        let last = told.iter().rposition(|(of, _)| *of == hash).unwrap();
        assert_eq!(told[last].1, TxState::Confirmed, "{what}: and told last: {told:?}");
        assert!(matches!(world.book.ends.lock().unwrap().last(), Some(ActionEnd::Done { .. })), "{what}");
        assert_eq!(world.allowance(world.contract(KnownContract::Permit2)).await, U256::ZERO, "{what}");
        behind.drained(nonce, &what).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_is_replaced_at_a_higher_fee_under_a_higher_stop() {
    let behind = Behind::new(5, PATIENT, |world| {
        let (book, wallet) = (Arc::clone(&world.book), Arc::clone(&world.wallet));
        // The allowance, bypassing the proxy, is the first signature, the revocation the second.
        move |method: &str, before| {
            if method != SEND || wallet.signatures.load(Ordering::SeqCst) > 2 {
                return Fate::Pass;
            }
            if before == 1 {
                *book.stop.lock().unwrap() = Some(StopLevel::Halt);
            }
            DEAR
        }
    })
    .await;
    let world = &behind.world;
    let nonce = world.nonce().await;
    let permit = world.preview(world.approval(HUNDRED)).await.unwrap().permit.permit_id;
    assert_eq!(world.pipeline.commit(permit, Consent::None).await.unwrap().state, CommitState::Done);
    *world.book.stop.lock().unwrap() = Some(StopLevel::Pause);
    let revoked = behind.commit(world.revocation()).await.unwrap();
    assert_eq!((&revoked.state, revoked.remarks.len()), (&CommitState::Done, 1), "{revoked:?}");
    assert_eq!(*world.book.stop.lock().unwrap(), Some(StopLevel::Halt));
    behind.drained(nonce, "outbid").await;
}

/// A revocation that an ended process signed under a stop, and that no endpoint has: the next process sends it while
/// the stop is in force. Other actions are covered by
/// `sends::under_a_stop_transactions_of_an_ended_process_are_only_watched`.
#[tokio::test(flavor = "multi_thread")]
async fn under_a_stop_a_revocation_left_by_an_ended_process_is_sent() {
    let willing = Arc::new(AtomicBool::new(false));
    let behind = Behind::new(8, PATIENT, |_| {
        let willing = Arc::clone(&willing);
        move |method: &str, _| {
            if method == SEND && !willing.load(Ordering::SeqCst) { Fate::LoseRequest } else { Fate::Pass }
        }
    });
    let behind = Arc::new(behind.await);
    let world = &behind.world;
    let nonce = world.nonce().await;
    // The allowance, bypassing the proxy.
    let permit = world.preview(world.approval(HUNDRED)).await.unwrap().permit.permit_id;
    assert_eq!(world.pipeline.commit(permit, Consent::None).await.unwrap().state, CommitState::Done);
    *world.book.stop.lock().unwrap() = Some(StopLevel::Halt);
    behind.left(world.revocation(), 1).await;
    until("the system lets go of what it held", || !behind.pipeline.to_send_again().unwrap().is_empty()).await;
    // A read-only process sends nothing.
    let sends = behind.proxy.count(SEND);
    let looked = behind.pipeline.recover_unsent().await.unwrap();
    let looked: Vec<_> = looked.into_iter().map(|one| (one.found, one.step)).collect();
    assert_eq!((looked, behind.proxy.count(SEND)), (vec![(RecoveryState::Waiting, RecoveryStep::Watch)], sends));
    willing.store(true, Ordering::SeqCst);
    let mut recovered = behind.pipeline.recover().await.unwrap();
    assert_eq!(behind.proxy.count(SEND), sends + 1, "{recovered:?}");
    // It is included while the stop is in force, however long that takes.
    while recovered[0].step == RecoveryStep::Watch {
        recovered = behind.pipeline.recover().await.unwrap();
    }
    assert_eq!((recovered[0].found, recovered[0].step), (RecoveryState::Whole, RecoveryStep::CountAll));
    assert_eq!(*world.book.stop.lock().unwrap(), Some(StopLevel::Halt));
    assert_eq!(world.allowance(world.contract(KnownContract::Permit2)).await, U256::ZERO);
    behind.drained(nonce, "left to take back").await;
}
