//! Crashes and clocks: started actions end exactly once, and no clock extends a permit.

use bardo::base::error::ErrorCode;
use bardo::safety::approval::Consent;
use bardo::safety::pipeline::{CommitState, RecoveredPermit, RecoveryState, RecoveryStep};
use bardo::safety::policy_engine::ActionEnd;

use bardo_testkit::harness::{Hook, TestHarness};

const HUNDRED: u64 = 100_000_000;

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_before_the_bytes_are_stored_releases_the_reservation() {
    let mut world = TestHarness::new(8).await;
    let nonce = world.nonce().await;
    let permit = world.preview(world.approval(HUNDRED)).await.unwrap().permit.permit_id;
    *world.wallet.on_sign.lock().unwrap() = Hook::new(|| panic!("the program ends here")).into_inner().unwrap();
    let ended = world.pipeline.commit(permit, Consent::None).await;
    assert_eq!(ended.err().map(|refusal| refusal.code), Some(ErrorCode::ToolPanicked));
    world.wallet.on_sign.clear_poison();
    *world.wallet.on_sign.lock().unwrap() = None;

    // Its process still seems to be alive: it is left alone, however old it gets.
    let owner = world.store.clone();
    world.restart();
    world.clock.shift(31_000);
    assert_eq!(world.pipeline.recover().await.unwrap(), []);
    // Now the process is gone.
    drop(owner);
    world.events();
    let recovered = world.pipeline.recover().await.unwrap();
    let (found, step) = (RecoveryState::Unsigned, RecoveryStep::Withdraw);
    assert_eq!(recovered, [RecoveredPermit { permit_id: permit, hash: None, found, step, end: ActionEnd::Withdrawn }]);
    assert_eq!(world.events(), ["action:recovered"], "a screen learns its end");
    assert_eq!(world.pipeline.recover().await.unwrap(), []);
    assert_eq!(world.nonce().await, nonce);
    // Its nonce is free again, and the permit is gone.
    let again = world.pipeline.commit(permit, Consent::None).await;
    assert_eq!(again.err().map(|refusal| refusal.code), Some(ErrorCode::PermitConsumed));
    let permit = world.preview(world.approval(HUNDRED)).await.unwrap().permit.permit_id;
    let committed = world.pipeline.commit(permit, Consent::None).await.unwrap();
    assert_eq!((committed.state, committed.legs[0].nonce), (CommitState::Done, nonce));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_jump_ends_a_permit_and_never_extends_it() {
    let world = TestHarness::new(7).await;
    let nonce = world.nonce().await;
    for jump in [60_000, -3_600_000] {
        let permit = world.preview(world.approval(HUNDRED)).await.unwrap().permit.permit_id;
        world.clock.shift(jump);
        let refused = world.pipeline.commit(permit, Consent::None).await;
        assert_eq!(refused.err().map(|refusal| refusal.code), Some(ErrorCode::PermitExpired), "{jump}");
        world.clock.shift(-jump);
    }
    assert_eq!(world.nonce().await, nonce);
}
