//! A stop at every stage: after it is set nothing is signed, kept or sent, and what others may take
//! is taken back.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use alloy::primitives::U256;
use bardo::base::error::ErrorCode;
use bardo::base::model::StopLevel;
use bardo::chain::network::Contract;
use bardo::safety::approval::Consent;
use bardo::safety::pipeline::State;
use bardo::safety::rulebook::End;

use crate::world::{Hook, World};

const HUNDRED: u64 = 100_000_000;

fn halt(world: &World) -> impl Fn() + Send + Sync + 'static {
    let book = Arc::clone(&world.book);
    move || *book.stop.lock().unwrap() = Some(StopLevel::Halt)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_before_the_preview_and_before_the_commit() {
    let world = World::new(9).await;
    let permit = world.preview(world.swap(HUNDRED).await).await.unwrap().permit.permit_id;
    let swap = world.swap(HUNDRED).await;
    halt(&world)();
    assert_eq!(world.refused(swap).await.0, ErrorCode::Halted);
    let refused = world.pipeline.commit(permit, Consent::None).await;
    assert_eq!(refused.err().map(|refusal| refusal.code), Some(ErrorCode::Halted));
    assert_eq!(world.wallet.signatures.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_while_the_spending_is_reserved() {
    let world = World::new(9).await;
    let nonce = world.nonce().await;
    let permit = world.preview(world.approval(HUNDRED)).await.unwrap().permit.permit_id;
    *world.book.on_reserve.lock().unwrap() = Hook::new(halt(&world)).into_inner().unwrap();
    let refused = world.pipeline.commit(permit, Consent::None).await;
    assert_eq!(refused.err().map(|refusal| refusal.code), Some(ErrorCode::Halted));
    assert_eq!(world.wallet.signatures.load(Ordering::SeqCst), 0);
    assert_eq!(*world.book.ends.lock().unwrap(), [End::Withdrawn]);
    assert_eq!(world.nonce().await, nonce);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_while_it_is_signed() {
    let world = World::new(9).await;
    let nonce = world.nonce().await;
    let permit = world.preview(world.approval(HUNDRED)).await.unwrap().permit.permit_id;
    *world.wallet.on_sign.lock().unwrap() = Hook::new(halt(&world)).into_inner().unwrap();
    let refused = world.pipeline.commit(permit, Consent::None).await;
    assert_eq!(refused.err().map(|refusal| refusal.code), Some(ErrorCode::Halted));
    assert_eq!(world.wallet.signatures.load(Ordering::SeqCst), 1);
    // What was signed is neither kept nor sent.
    assert_eq!(*world.book.ends.lock().unwrap(), [End::Withdrawn]);
    assert_eq!(world.nonce().await, nonce);
    let kept: i64 = world
        .store
        .read(|connection| {
            Ok::<_, bardo::store::StoreError>(connection.query_row(
                "SELECT count(*) FROM sender_transaction",
                [],
                |row| row.get(0),
            )?)
        })
        .unwrap();
    assert_eq!(kept, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_in_the_middle_of_a_plan_takes_the_allowance_back() {
    let world = World::new(9).await;
    let (usdc, nonce) = (world.balance(&world.usdc).await, world.nonce().await);
    let permit2 = world.contract(Contract::Permit2);
    let permit = world.preview(world.swap(HUNDRED).await).await.unwrap().permit.permit_id;
    // The stop is set once the allowance is in a block, that is, when the second leg is about to be signed.
    let (book, wallet) = (Arc::clone(&world.book), Arc::clone(&world.wallet));
    *world.wallet.on_sign.lock().unwrap() = Hook::new(move || {
        if wallet.signatures.load(Ordering::SeqCst) == 2 {
            *book.stop.lock().unwrap() = Some(StopLevel::Halt);
        }
    })
    .into_inner()
    .unwrap();
    let committed = world.pipeline.commit(permit, Consent::None).await.unwrap();
    let State::Stopped { code, .. } = committed.state else { panic!("{:?}", committed.state) };
    assert_eq!(code, ErrorCode::Halted);
    assert_eq!(committed.remarks, Vec::<String>::new());
    assert_eq!(world.balance(&world.usdc).await, usdc);
    // Given, and under the halt taken back: the swap itself never left.
    assert_eq!(world.allowance(permit2).await, U256::ZERO);
    assert_eq!(world.nonce().await, nonce + 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn under_a_halt_an_allowance_can_be_taken_back() {
    let world = World::new(9).await;
    let permit2 = world.contract(Contract::Permit2);
    let permit = world.preview(world.approval(HUNDRED)).await.unwrap().permit.permit_id;
    world.pipeline.commit(permit, Consent::None).await.unwrap();
    assert_eq!(world.allowance(permit2).await, U256::from(HUNDRED));
    halt(&world)();
    let preview = world.preview(world.revocation()).await.unwrap();
    assert!(preview.simulated.takes_back);
    world.pipeline.commit(preview.permit.permit_id, Consent::None).await.unwrap();
    assert_eq!(world.allowance(permit2).await, U256::ZERO);
}
