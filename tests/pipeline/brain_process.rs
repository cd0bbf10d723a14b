//! Processes with one ledger, one of which runs an external brain: meanwhile, approvals from other processes do not
//! count, and rejections do.

use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::Address;
use bardo::base::clock::SystemClock;
use bardo::base::fabric::CheckReason;
use bardo::base::id::PermitId;
use bardo::base::text::SafeText;
use bardo::runtime::data::ALL_MIGRATIONS;
use bardo::runtime::labels::AddressNames;
use bardo::runtime::questions::answering::serve_queue;
use bardo::runtime::questions::shared::SharedQueue;
use bardo::safety::approval::{ApprovalNeed, ApprovalReason, Decision};
use bardo::safety::operator_proof::{Authorisation, OperatorProof};
use bardo::safety::queue_key::QueueKey;
use bardo::session::questions::{Confirmation, OperatorAnswer};
use bardo::store::{Store, StoreConfig};

use bardo_testkit::harness::TestHarness;
use bardo_testkit::proof::proof;

const HUNDRED: u64 = 100_000_000;

/// Account whose key authenticates the requests.
const ACCOUNT: Address = Address::repeat_byte(1);

/// Shared queue of a process that holds the account's key.
pub fn unlocked(store: Store) -> SharedQueue {
    let shared = SharedQueue::new(store);
    shared.unlock(QueueKey::derive(&[7; 32], "test", ACCOUNT));
    shared
}

/// Waits until another process sees this request, as a console polls for it.
async fn wait_until_listed(other: &SharedQueue, permit: PermitId) {
    let asked = |question: &bardo::session::questions::Question| {
        question.key == bardo::session::questions::QuestionKey::Action(permit)
    };
    while !other.others().unwrap().iter().any(asked) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Proof that the operator approves the request of this permit.
fn approving(permit_id: PermitId, now: u64) -> Option<OperatorProof> {
    let folder = tempfile::tempdir().unwrap();
    Some(proof(folder.path(), Authorisation::Approve { permit_id, account: ACCOUNT }, now))
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_brain_process_runs_approvals_from_other_processes_do_not_count() {
    let world = TestHarness::new(0).await;
    let reasons = vec![ApprovalReason::Found(CheckReason::Transfer)];
    *world.book.need.lock().unwrap() = ApprovalNeed::Approval { reasons };
    let (sender, mut results) = tokio::sync::mpsc::unbounded_channel();
    let on_answer = move |counted, message| drop(sender.send((counted, message)));
    let clock = Arc::new(SystemClock);
    let names = AddressNames::default();
    let serving =
        serve_queue(world.queue.clone(), unlocked(world.store.clone()), vec![], names, clock, false, on_answer);
    let serving = tokio::spawn(serving);
    let open = || Store::open(StoreConfig::at(world.store.path()), ALL_MIGRATIONS).unwrap();
    let other = unlocked(open());
    let leading = SharedQueue::new(open());
    leading.lead().await.unwrap();
    assert!(other.is_led() && SharedQueue::new(world.store.clone()).is_led());

    let preview = Arc::new(world.preview(world.approval(HUNDRED)).await.unwrap());
    let permit = preview.permit.permit_id;
    let mut ticket = world.queue.ask(preview);
    wait_until_listed(&other, permit).await;
    other
        .answer(permit, &OperatorAnswer::Once, &Confirmation::default(), "process 2", 1, approving(permit, 1))
        .await
        .unwrap();
    let (counted, message) = results.recv().await.unwrap();
    assert!(!counted && message.contains("a brain process runs"), "{message}");
    assert_eq!(world.queue.pending().len(), 1, "the request is still open");
    wait_until_listed(&other, permit).await;
    let no = OperatorAnswer::Refuse { reason: SafeText::clean("not now", 40) };
    other.answer(permit, &no, &Confirmation::default(), "process 2", 2, None).await.unwrap();
    assert!(results.recv().await.unwrap().0);
    assert!(matches!(ticket.decision().await, Decision::Refused { .. }));

    // The process with the brain has ended.
    drop(leading);
    assert!(!other.is_led());
    let preview = Arc::new(world.preview(world.approval(HUNDRED)).await.unwrap());
    let permit = preview.permit.permit_id;
    let mut ticket = world.queue.ask(preview);
    wait_until_listed(&other, permit).await;
    other
        .answer(permit, &OperatorAnswer::Once, &Confirmation::default(), "process 2", 3, approving(permit, 3))
        .await
        .unwrap();
    assert!(results.recv().await.unwrap().0);
    assert!(matches!(ticket.decision().await, Decision::Approved(_)));
    serving.abort();
}
