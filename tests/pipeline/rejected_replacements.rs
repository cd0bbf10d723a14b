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

use crate::sends::{HUNDRED, LONG_TIMEOUT, ProxiedHarness, SEND, UNDERPRICED};
use bardo_testkit::harness::{TestHarness, cents};
use bardo_testkit::rpc_proxy::Fate;

const INSUFFICIENT_FUNDS: Fate = Fate::Refuse(-32_000, "insufficient funds for gas * price + value");

/// Harness with an endpoint that rejects two submissions as underpriced, which causes a replacement, and rejects the
/// replacement. Its answer to further submissions is `after`.
async fn with_rejected_replacement(account: usize, after: Fate) -> Arc<ProxiedHarness> {
    let fate = move |_: &TestHarness| {
        move |method: &str, before| match (method, before) {
            (SEND, 0 | 1) => UNDERPRICED,
            (SEND, 2) => INSUFFICIENT_FUNDS,
            (SEND, _) => after.clone(),
            _ => Fate::Pass,
        }
    };
    Arc::new(ProxiedHarness::new(account, LONG_TIMEOUT, fate).await)
}

/// Hash and bytes of a transaction, as the ledger stores them.
type StoredTransaction = (Vec<u8>, Vec<u8>);

/// Hashes of transactions in this state, with their bytes.
fn in_state(world: &TestHarness, state: &str) -> Vec<(B256, Vec<u8>)> {
    let rows = world.store.read(|connection| -> Result<Vec<StoredTransaction>, StoreError> {
        let mut statement = connection.prepare("SELECT hash, raw FROM sender_transaction WHERE state = ?1")?;
        Ok(statement.query_map([state], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?)
    });
    rows.unwrap().into_iter().map(|(hash, raw)| (B256::from_slice(&hash), raw)).collect()
}

/// Waits until a condition is met.
async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..24_000 {
        if condition() {
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
    let proxied = with_rejected_replacement(4, Fate::Pass).await;
    let world = &proxied.world;
    let nonce = world.nonce().await;
    world.reported_states();
    let committed = proxied.commit(world.approval(HUNDRED)).await.unwrap();
    assert_eq!((&committed.state, proxied.stored_count()), (&CommitState::Done, 2), "{committed:?}");
    let [(refused, _)] = in_state(world, "dropped")[..] else { panic!("one was refused") };
    let [(first, _)] = in_state(world, "included")[..] else { panic!("one is in a block") };
    assert_eq!(committed.legs[0].hash, first);
    let reported = world.reported_states();
    let at = reported
        .iter()
        .position(|one| *one == (refused, TxState::Dropped))
        .expect("the rejected replacement's end is reported");
    assert_eq!(reported[at + 1..], [(first, TxState::Sent), (first, TxState::Confirmed)], "{reported:?}");
    revoke(world).await;
    proxied.assert_all_ended(nonce, "refused").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_replacement_that_is_included_counts_once() {
    let proxied = with_rejected_replacement(4, UNDERPRICED).await;
    let world = &proxied.world;
    let (nonce, proposal) = (world.nonce().await, world.approval(HUNDRED));
    let commit = tokio::spawn({
        let proxied = Arc::clone(&proxied);
        async move { proxied.commit(proposal).await }
    });
    until("the replacement was refused", || !in_state(world, "dropped").is_empty()).await;
    // The endpoint that rejected the replacement sends it nevertheless.
    let [(hash, raw)] = &in_state(world, "dropped")[..] else { panic!("one was refused") };
    let sent = world.client.provider().send_raw_transaction(raw).await.unwrap();
    assert_eq!(sent.tx_hash(), hash);
    let committed = commit.await.unwrap().unwrap();
    assert_eq!((&committed.state, committed.legs[0].hash), (&CommitState::Done, *hash), "{committed:?}");
    let ends = world.book.ends.lock().unwrap().clone();
    let [ActionEnd::Done { spent }] = ends[..] else { panic!("{ends:?}") };
    for _ in 0..2 {
        assert_eq!(proxied.pipeline.recover().await.unwrap(), []);
    }
    assert_eq!(*world.book.ends.lock().unwrap(), ends, "the action ended once");
    let held = world.store.read(|connection| -> Result<i64, StoreError> {
        Ok(connection.query_row("SELECT sum(cents) FROM book_held", [], |row| row.get(0))?)
    });
    assert_eq!(held.unwrap(), cents(spent));
    assert!(world.trail().iter().all(|(kind, _)| kind != "tx:late"));
    revoke(world).await;
    proxied.assert_all_ended(nonce, "sent nevertheless").await;
}

/// A revocation is signed under one stop and its submission lost, while a higher stop is set.
#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_is_resent_under_a_higher_stop() {
    // While the call waits for it, and afterwards, while it is only tracked.
    for patience in [LONG_TIMEOUT, Duration::ZERO] {
        let what = format!("waited for {patience:?}");
        let proxied = ProxiedHarness::new(5, patience, |world| {
            let book = Arc::clone(&world.book);
            move |method: &str, _| {
                let lost = method == SEND && *book.stop.lock().unwrap() == Some(StopLevel::Pause);
                if lost { Fate::LoseRequest } else { Fate::Pass }
            }
        });
        let proxied = Arc::new(proxied.await);
        let world = &proxied.world;
        let nonce = world.nonce().await;
        let permit = world.preview(world.approval(HUNDRED)).await.unwrap().permit.permit_id;
        assert_eq!(world.pipeline.commit(permit, Consent::None).await.unwrap().state, CommitState::Done);
        *world.book.stop.lock().unwrap() = Some(StopLevel::Pause);
        world.reported_states();
        let proposal = world.revocation();
        let commit = tokio::spawn({
            let proxied = Arc::clone(&proxied);
            async move { proxied.commit(proposal).await }
        });
        proxied.wait_for_sends(1).await;
        *world.book.stop.lock().unwrap() = Some(StopLevel::Halt);
        let committed = commit.await.unwrap().unwrap();
        let known = if patience.is_zero() { CommitState::Unclear } else { CommitState::Done };
        assert_eq!(committed.state, known, "{what}: {:?}", committed.remarks);
        // However it was settled, its end is reported.
        let (hash, mut reported) = (committed.legs[0].hash, Vec::new());
        until(&format!("{what}: its end is reported"), || {
            reported.extend(world.reported_states());
            reported.contains(&(hash, TxState::Confirmed))
        })
        .await;
        let last = reported.iter().rposition(|(of, _)| *of == hash).unwrap();
        assert_eq!(reported[last].1, TxState::Confirmed, "{what}: and reported last: {reported:?}");
        assert!(matches!(world.book.ends.lock().unwrap().last(), Some(ActionEnd::Done { .. })), "{what}");
        assert_eq!(world.allowance(world.contract(KnownContract::Permit2)).await, U256::ZERO, "{what}");
        proxied.assert_all_ended(nonce, &what).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_is_replaced_at_a_higher_fee_under_a_higher_stop() {
    let proxied = ProxiedHarness::new(5, LONG_TIMEOUT, |world| {
        let (book, wallet) = (Arc::clone(&world.book), Arc::clone(&world.wallet));
        // The allowance, bypassing the proxy, is the first signature, the revocation the second.
        move |method: &str, before| {
            if method != SEND || wallet.signatures.load(Ordering::SeqCst) > 2 {
                return Fate::Pass;
            }
            if before == 1 {
                *book.stop.lock().unwrap() = Some(StopLevel::Halt);
            }
            UNDERPRICED
        }
    })
    .await;
    let world = &proxied.world;
    let nonce = world.nonce().await;
    let permit = world.preview(world.approval(HUNDRED)).await.unwrap().permit.permit_id;
    assert_eq!(world.pipeline.commit(permit, Consent::None).await.unwrap().state, CommitState::Done);
    *world.book.stop.lock().unwrap() = Some(StopLevel::Pause);
    let revoked = proxied.commit(world.revocation()).await.unwrap();
    assert_eq!((&revoked.state, revoked.remarks.len()), (&CommitState::Done, 1), "{revoked:?}");
    assert_eq!(*world.book.stop.lock().unwrap(), Some(StopLevel::Halt));
    proxied.assert_all_ended(nonce, "outbid").await;
}

/// A revocation that an ended process signed under a stop, and that no endpoint has: the next process sends it while
/// the stop is in force. Other actions are covered by
/// `sends::under_a_stop_transactions_of_an_ended_process_are_only_watched`.
#[tokio::test(flavor = "multi_thread")]
async fn under_a_stop_a_revocation_left_by_an_ended_process_is_sent() {
    let accepts = Arc::new(AtomicBool::new(false));
    let proxied = ProxiedHarness::new(8, LONG_TIMEOUT, |_| {
        let accepts = Arc::clone(&accepts);
        move |method: &str, _| {
            if method == SEND && !accepts.load(Ordering::SeqCst) { Fate::LoseRequest } else { Fate::Pass }
        }
    });
    let proxied = Arc::new(proxied.await);
    let world = &proxied.world;
    let nonce = world.nonce().await;
    // The allowance, bypassing the proxy.
    let permit = world.preview(world.approval(HUNDRED)).await.unwrap().permit.permit_id;
    assert_eq!(world.pipeline.commit(permit, Consent::None).await.unwrap().state, CommitState::Done);
    *world.book.stop.lock().unwrap() = Some(StopLevel::Halt);
    proxied.commit_in_ending_process(world.revocation(), 1).await;
    until("the system has released the process's locks", || !proxied.pipeline.to_send_again().unwrap().is_empty())
        .await;
    // A read-only process sends nothing.
    let sends = proxied.proxy.count(SEND);
    let found = proxied.pipeline.recover_unsent().await.unwrap();
    let found: Vec<_> = found.into_iter().map(|one| (one.found, one.step)).collect();
    assert_eq!((found, proxied.proxy.count(SEND)), (vec![(RecoveryState::Waiting, RecoveryStep::Watch)], sends));
    accepts.store(true, Ordering::SeqCst);
    let mut recovered = proxied.pipeline.recover().await.unwrap();
    assert_eq!(proxied.proxy.count(SEND), sends + 1, "{recovered:?}");
    // The revocation is included while the stop is in force.
    while recovered[0].step == RecoveryStep::Watch {
        recovered = proxied.pipeline.recover().await.unwrap();
    }
    assert_eq!((recovered[0].found, recovered[0].step), (RecoveryState::Whole, RecoveryStep::CountAll));
    assert_eq!(*world.book.stop.lock().unwrap(), Some(StopLevel::Halt));
    assert_eq!(world.allowance(world.contract(KnownContract::Permit2)).await, U256::ZERO);
    proxied.assert_all_ended(nonce, "left by an ended process").await;
}
