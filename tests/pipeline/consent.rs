//! Approvals: when they are required, what they cover, and when they end.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use alloy::primitives::B256;
use bardo::base::clock::{Clock, SystemClock};
use bardo::base::error::ErrorCode;
use bardo::base::model::{Phase, StopLevel};
use bardo::base::text::SafeText;
use bardo::base::units::BasisPoints;
use bardo::fabric::{AskReason, CheckReason, Fabric, HoldingsSale};
use bardo::runtime::data::ALL_MIGRATIONS;
use bardo::runtime::questions::RequestContext;
use bardo::runtime::questions::answering::queued_at;
use bardo::runtime::questions::shared::{Forgery, ShareError, SharedQueue};
use bardo::safety::approval::{
    ActionApproval, AnswerError, ApprovalNeed, ApprovalQueue, ApprovalReason, AskedBy, Consent, Decision, GrantScope,
    OperatorAnswer,
};
use bardo::safety::ledger::MicroUsd;
use bardo::safety::pipeline::{CommitState, PhaseRequest, Preview};
use bardo::session::questions::Confirmation;
use bardo::store::{Store, StoreConfig, StoreError};
use tokio::sync::watch;

use crate::brain_process::unlocked;
use bardo_testkit::harness::{ASKED, Hook, TestHarness};

const HUNDRED: u64 = 100_000_000;

/// Makes every action need approval from now on.
fn require_approval(world: &TestHarness) {
    let dollars = |dollars: u64| MicroUsd::new(dollars * 1_000_000).unwrap();
    let reasons = vec![ApprovalReason::above(dollars(100), dollars(10), "requires_approval_above_usd")];
    *world.book.need.lock().unwrap() = ApprovalNeed::Approval { reasons };
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_that_needs_approval_waits_for_it() {
    let world = TestHarness::new(0).await;
    require_approval(&world);
    let without_consent = world.preview(world.approval(HUNDRED)).await.unwrap();
    let refused = world.pipeline.commit(without_consent.permit.permit_id, Consent::None).await;
    assert_eq!(refused.err().map(|refusal| refusal.code), Some(ErrorCode::ApprovalRequired));

    let preview = Arc::new(world.preview(world.approval(HUNDRED)).await.unwrap());
    let other = world.preview(world.approval(HUNDRED)).await.unwrap();
    let permit = preview.permit.permit_id;
    let mut ticket = world.queue.ask(Arc::clone(&preview));
    let open = world.queue.pending();
    assert_eq!((open.len(), open[0].place, open[0].of), (1, 1, 1));
    assert_eq!(open[0].reasons[0].to_string(), "$100.00 is above $10.00 (requires_approval_above_usd)");
    assert_eq!(world.queue.answer(other.permit.permit_id, OperatorAnswer::Once), Err(AnswerError::NotAsked));
    world.queue.answer(permit, OperatorAnswer::Once).unwrap();
    let Decision::Approved(approval) = ticket.decision().await else { panic!("not approved") };
    assert!(world.queue.pending().is_empty());
    // An approval of one permit does not cover another.
    let refused = world.pipeline.commit(other.permit.permit_id, Consent::Approved(approval)).await;
    assert_eq!(refused.err().map(|refusal| refusal.code), Some(ErrorCode::ApprovalRequired));

    let mut ticket = world.queue.ask(preview);
    world.queue.answer(permit, OperatorAnswer::Once).unwrap();
    let Decision::Approved(approval) = ticket.decision().await else { panic!("not approved") };
    let committed = world.pipeline.commit(permit, Consent::Approved(approval)).await.unwrap();
    assert_eq!(committed.state, CommitState::Done);

    // The audit log has the request, the answer, and the approval that did not apply.
    let log = world.trail();
    let of = |kind: &str| log.iter().filter(|(one, _)| one == kind).map(|(_, body)| body).collect::<Vec<_>>();
    let asked = of("approval:requested");
    assert_eq!(
        (asked.len(), &asked[0]["reasons"][0]["words"]),
        (2, &serde_json::json!("$100.00 is above $10.00 (requires_approval_above_usd)"))
    );
    let answered = of("approval:resolved");
    assert_eq!((answered.len(), &answered[1]["outcome"]), (2, &serde_json::json!("approved")));
    assert!(of("permit:refused").iter().all(|body| body["code"] == "APPROVAL_REQUIRED"));
    let used = of("permit:consumed");
    assert_eq!((used.len(), &used[0]["consent"]), (1, &serde_json::json!("operator")));
    assert_eq!(used[0]["permit_id"], serde_json::json!(permit));
}

#[tokio::test(flavor = "multi_thread")]
async fn above_the_hot_lane_every_action_needs_a_guardian() {
    let world = TestHarness::new(0).await;
    *world.book.hot_lane.lock().unwrap() = "50".parse().unwrap();
    let (code, rules) = world.refused(world.swap(HUNDRED).await).await;
    assert_eq!(code, ErrorCode::SafetySpendingLimitExceeded);
    assert!(rules.contains("spending_limits.hot_lane"), "{rules:?}");
    let log = world.trail();
    let (kind, refused) = log.last().unwrap();
    assert_eq!(
        (kind.as_str(), &refused["code"]),
        ("action:refused", &serde_json::json!("SAFETY_SPENDING_LIMIT_EXCEEDED"))
    );
    assert_eq!(refused["violations"][0]["rule"], "spending_limits.hot_lane");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_covers_its_kind_up_to_its_total() {
    let world = TestHarness::new(0).await;
    require_approval(&world);
    let first = Arc::new(world.preview(world.swap(HUNDRED).await).await.unwrap());
    let mut ticket = world.queue.ask(Arc::clone(&first));
    let similar = |total: &str| OperatorAnswer::Similar { millis: 600_000, total: total.parse().unwrap() };
    let too_small = world.queue.answer(first.permit.permit_id, similar("50"));
    assert!(matches!(too_small, Err(AnswerError::TotalTooSmall { .. })), "{too_small:?}");
    // The total suffices for this swap of about 100 dollars, and one more.
    world.queue.answer(first.permit.permit_id, similar("250")).unwrap();
    let Decision::Approved(approval) = ticket.decision().await else { panic!("it was approved") };
    // The grant has the operator's total, of which this swap has used its value.
    let left = || {
        let [(grant, _)] = world.queue.grants().try_into().unwrap_or_else(|all| panic!("{all:?}"));
        assert_eq!(grant.granted(), "250".parse().unwrap());
        grant.left()
    };
    let less = |of: &Preview| left().checked_add(of.values.spent).unwrap();
    assert_eq!(less(&first), "250".parse().unwrap());
    // What was not signed is given back, once, whether the operator's answer or the grant covered it.
    let refuse = async |approval: ActionApproval, of: &Preview| {
        *world.book.version.lock().unwrap() = B256::repeat_byte(9);
        let refused = world.pipeline.commit(of.permit.permit_id, Consent::Approved(approval)).await;
        *world.book.version.lock().unwrap() = first.policy;
        assert_eq!(refused.err().map(|refusal| refusal.code), Some(ErrorCode::PermitMismatch));
    };
    refuse(approval, &first).await;
    assert_eq!(left(), "250".parse().unwrap());
    let undone = world.preview(world.swap(HUNDRED).await).await.unwrap();
    let approval = world.queue.granted(&undone).unwrap();
    assert_eq!(less(&undone), "250".parse().unwrap());
    refuse(approval, &undone).await;
    assert_eq!(left(), "250".parse().unwrap());
    let again = world.pipeline.commit(undone.permit.permit_id, Consent::Always).await;
    assert_eq!(
        (again.err().map(|refusal| refusal.code), left()),
        (Some(ErrorCode::PermitConsumed), "250".parse().unwrap())
    );
    for _ in 0..2 {
        let covered = world.preview(world.swap(HUNDRED).await).await.unwrap();
        assert!(world.queue.granted(&covered).is_some());
    }
    let third = world.preview(world.swap(HUNDRED).await).await.unwrap();
    assert!(world.queue.granted(&third).is_none(), "the total is used up");
    // An action that leaves an allowance is never covered.
    let allowance = Arc::new(world.preview(world.approval(HUNDRED)).await.unwrap());
    let _ticket = world.queue.ask(Arc::clone(&allowance));
    let refused = world.queue.answer(allowance.permit.permit_id, similar("1000"));
    assert!(matches!(refused, Err(AnswerError::NoGrant(_))), "{refused:?}");
    world.queue.withdraw_all("halt");
    assert!(world.queue.grants().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_a_waiting_caller_is_withdrawn() {
    let world = TestHarness::new(0).await;
    require_approval(&world);
    let preview = Arc::new(world.preview(world.approval(HUNDRED)).await.unwrap());
    drop(world.queue.ask(Arc::clone(&preview)));
    assert!(world.queue.pending().is_empty());
    assert_eq!(world.queue.answer(preview.permit.permit_id, OperatorAnswer::Once), Err(AnswerError::NotAsked));
    // A request whose action a new stop blocks is withdrawn as well. One for a revocation stays open.
    let revocation = Arc::new(world.preview(world.revocation()).await.unwrap());
    let open = revocation.permit.permit_id;
    let _open = world.queue.ask(revocation);
    let mut blocked = world.queue.ask(Arc::clone(&preview));
    world.queue.withdraw_blocked(StopLevel::Flatten, "flatten is in force");
    let Decision::Withdrawn { reason } = blocked.decision().await else { panic!("the request was not withdrawn") };
    assert_eq!(reason.as_str(), "flatten is in force");
    drop(blocked);
    let waiting = || -> Vec<_> { world.queue.pending().iter().map(|one| one.preview.permit.permit_id).collect() };
    assert_eq!(waiting(), [open]);
    // A request whose action is no longer possible is withdrawn with the reason.
    let mut failed = world.queue.ask(preview);
    failed.withdraw("the day's limit").await;
    drop(failed);
    assert_eq!(waiting(), [open]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_answer_neither_approves_nor_rejects() {
    let world = TestHarness::new(0).await;
    require_approval(&world);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let impatient = ApprovalQueue::new(clock.clone(), Fabric::in_memory(10, clock), Duration::ZERO);
    let preview = Arc::new(world.preview(world.approval(HUNDRED)).await.unwrap());
    assert!(matches!(impatient.ask(preview).decision().await, Decision::Lapsed));

    // An action with a delay passes by itself, but this does not count as an approval.
    *world.book.need.lock().unwrap() = ApprovalNeed::Delay { millis: 0 };
    let preview = Arc::new(world.preview(world.approval(HUNDRED)).await.unwrap());
    let permit = preview.permit.permit_id;
    let Decision::Approved(approval) = world.queue.ask(preview).decision().await else {
        panic!("the delay did not pass")
    };
    require_approval(&world);
    let refused = world.pipeline.commit(permit, Consent::Approved(approval)).await;
    assert_eq!(
        refused.err().map(|refusal| refusal.code),
        Some(ErrorCode::ApprovalRequired),
        "a passed delay is not an approval"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_of_an_expired_permit_does_not_count() {
    let world = TestHarness::new(0).await;
    require_approval(&world);
    let brief = world.with_permits_of_no_time();
    let first = brief.preview(world.approval(HUNDRED), world.wallet.clone(), ASKED).await.unwrap();
    let first = Arc::new(first);
    let mut ticket = world.queue.ask(Arc::clone(&first));
    let answered = world.queue.answer(first.permit.permit_id, OperatorAnswer::Once);
    assert_eq!(answered, Err(AnswerError::Expired));
    assert!(matches!(ticket.decision().await, Decision::PermitExpired));
    // Requested again: the same number, another permit, and the changes are shown.
    let second = Arc::new(world.preview(world.approval(2 * HUNDRED)).await.unwrap());
    ticket.replace(Arc::clone(&second));
    let open = world.queue.pending();
    assert_eq!((open.len(), open[0].preview.permit.permit_id), (1, second.permit.permit_id));
    assert!(
        open[0].changed.iter().any(|text| text.as_str().starts_with("counts against the limits")),
        "{:?}",
        open[0].changed
    );
    assert_eq!(world.queue.answer(first.permit.permit_id, OperatorAnswer::Once), Err(AnswerError::NotAsked));
    world
        .queue
        .answer(second.permit.permit_id, OperatorAnswer::Refuse { reason: SafeText::clean("too much", 20) })
        .unwrap();
    let Decision::Refused { reason } = ticket.decision().await else { panic!("not rejected") };
    assert_eq!(reason.as_str(), "too much");
    let late = brief.commit(first.permit.permit_id, Consent::None).await;
    assert_eq!(late.err().map(|refusal| refusal.code), Some(ErrorCode::PermitExpired));
}

/// The decision is simulated again because the account's own action moved its ground; meanwhile the operator approves what
/// is on the screen.
#[tokio::test(flavor = "multi_thread")]
async fn an_approval_given_during_another_simulation_stands_unless_something_is_worse() {
    let world = TestHarness::new(0).await;
    require_approval(&world);
    let hundreds = async |count: u64| Arc::new(world.preview(world.approval(count * HUNDRED)).await.unwrap());
    for (count, stands) in [(2, true), (1, true), (3, false)] {
        let first = hundreds(2).await;
        let mut ticket = world.queue.ask(Arc::clone(&first));
        assert!(matches!(ticket.decision_until(std::future::ready(())).await, Decision::PermitExpired));
        world.queue.answer(first.permit.permit_id, OperatorAnswer::Once).unwrap();
        let second = hundreds(count).await;
        ticket.replace(Arc::clone(&second));
        let again = world.queue.answer(second.permit.permit_id, OperatorAnswer::Once);
        // Answered already, or asked again.
        assert_eq!(again, if stands { Err(AnswerError::NotAsked) } else { Ok(()) }, "{count}");
        let Decision::Approved(yes) = ticket.decision().await else { panic!("{count}") };
        let committed = world.pipeline.commit(second.permit.permit_id, Consent::Approved(yes)).await;
        assert_eq!(committed.unwrap().state, CommitState::Done, "{count}");
    }
    // A standing approval was given for the figures of its first action.
    let swap = async || Arc::new(world.preview(world.swap(HUNDRED).await).await.unwrap());
    let first = swap().await;
    let mut ticket = world.queue.ask(Arc::clone(&first));
    assert!(matches!(ticket.decision_until(std::future::ready(())).await, Decision::PermitExpired));
    let similar = OperatorAnswer::Similar { millis: 600_000, total: "9000".parse().unwrap() };
    world.queue.answer(first.permit.permit_id, similar).unwrap();
    let second = swap().await;
    ticket.replace(Arc::clone(&second));
    assert!(world.queue.granted(&second).is_none());
    assert!(world.queue.pending().iter().any(|one| one.preview.permit.permit_id == second.permit.permit_id));
    assert_eq!(world.queue.answer(second.permit.permit_id, OperatorAnswer::Once), Ok(()));
}

/// A value that worsened in steps stays marked until it is as good as at first, not only as good as at an earlier step.
#[tokio::test(flavor = "multi_thread")]
async fn a_worse_figure_stays_marked_until_it_is_as_good_as_at_first() {
    let world = TestHarness::new(0).await;
    require_approval(&world);
    let hundreds = async |count: u64| Arc::new(world.preview(world.approval(count * HUNDRED)).await.unwrap());
    let mut ticket = world.queue.ask(hundreds(1).await);
    for (count, is_marked) in [(2, true), (3, true), (2, true), (1, false), (2, true), (1, false)] {
        let preview = hundreds(count).await;
        ticket.replace(Arc::clone(&preview));
        let open = world.queue.pending();
        let mine = open.iter().find(|one| one.preview.permit.permit_id == preview.permit.permit_id).unwrap();
        assert_eq!(!mine.changed.is_empty(), is_marked, "{count}: {:?}", mine.changed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_covers_neither_an_actions_own_findings_nor_the_opposite_trade() {
    let world = TestHarness::new(0).await;
    require_approval(&world);
    let first = Arc::new(world.preview(world.swap(HUNDRED).await).await.unwrap());
    let mut ticket = world.queue.ask(Arc::clone(&first));
    let similar = || OperatorAnswer::Similar { millis: 600_000, total: "9000".parse().unwrap() };
    world.queue.answer(first.permit.permit_id, similar()).unwrap();
    assert!(matches!(ticket.decision().await, Decision::Approved(_)));

    for found in [
        ApprovalReason::Found(CheckReason::SellsBelowAverage { sold: Vec::new(), percent: 25 }),
        ApprovalReason::Untold,
    ] {
        let known = world.book.need.lock().unwrap().clone();
        *world.book.need.lock().unwrap() = known.clone().and_asking(found);
        let steep = Arc::new(world.preview(world.swap(HUNDRED).await).await.unwrap());
        assert!(world.queue.granted(&steep).is_none());
        let _ticket = world.queue.ask(Arc::clone(&steep));
        let refused = world.queue.answer(steep.permit.permit_id, similar());
        assert!(matches!(refused, Err(AnswerError::NoGrant(_))), "{refused:?}");
        *world.book.need.lock().unwrap() = known;
    }

    let same = world.preview(world.swap(HUNDRED).await).await.unwrap();
    let turned =
        GrantScope { gives: GrantScope::of(&same).gets, gets: GrantScope::of(&same).gives, ..GrantScope::of(&same) };
    let [(grant, _)] = world.queue.grants().try_into().unwrap_or_else(|all| panic!("{all:?}"));
    assert_eq!(grant.scope(), &GrantScope::of(&same));
    assert_ne!(grant.scope(), &turned);
    // An approval of a real action does not cover paper, or the other way round.
    let mut on_paper = same.clone();
    on_paper.paper = true;
    assert!(world.queue.granted(&on_paper).is_none());
    assert!(world.queue.granted(&same).is_some());
}

/// A grant's total limits the spending, not the possible loss.
#[tokio::test(flavor = "multi_thread")]
async fn a_grant_covers_no_more_slippage_than_it_was_given_for() {
    let world = TestHarness::new(0).await;
    require_approval(&world);
    let preview_action = async |points: u32| {
        let mut proposal = world.swap(HUNDRED).await;
        proposal.trade.as_mut().unwrap().slippage = BasisPoints::new(points).unwrap();
        Arc::new(world.preview(proposal).await.unwrap())
    };
    // The minimum output corresponds to 50 basis points; a trade may state a higher tolerance.
    let first = preview_action(60).await;
    let mut ticket = world.queue.ask(Arc::clone(&first));
    let answer = OperatorAnswer::Similar { millis: 600_000, total: "9000".parse().unwrap() };
    world.queue.answer(first.permit.permit_id, answer).unwrap();
    assert!(matches!(ticket.decision().await, Decision::Approved(_)));
    for (points, is_covered) in [(50, true), (60, true), (61, false), (200, false)] {
        assert_eq!(world.queue.granted(&*preview_action(points).await).is_some(), is_covered, "{points}");
    }
    let [(grant, _)] = world.queue.grants().try_into().unwrap_or_else(|all| panic!("{all:?}"));
    assert_eq!(grant.scope().slippage.get(), 60);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_ends_with_its_phase_and_when_it_is_revoked() {
    let world = TestHarness::new(0).await;
    require_approval(&world);
    let (phase, own) = watch::channel(Phase::Thriving);
    let asked = || PhaseRequest { phase: Phase::Thriving, own: Some(own.clone()) };
    let preview_action = async || {
        let preview = world.pipeline.preview(world.swap(HUNDRED).await, world.wallet.clone(), asked()).await;
        Arc::new(preview.unwrap())
    };
    let grant = async || {
        let first = preview_action().await;
        let mut ticket = world.queue.ask(Arc::clone(&first));
        let answer = OperatorAnswer::Similar { millis: 600_000, total: "5000".parse().unwrap() };
        world.queue.answer(first.permit.permit_id, answer).unwrap();
        assert!(matches!(ticket.decision().await, Decision::Approved(_)));
    };
    grant().await;
    assert!(world.queue.granted(&*preview_action().await).is_some());
    // The grant does not return with the phase.
    phase.send_replace(Phase::Cautious);
    phase.send_replace(Phase::Thriving);
    assert!(world.queue.granted(&*preview_action().await).is_none());

    grant().await;
    let preview = preview_action().await;
    let approval = world.queue.granted(&preview).unwrap();
    let fixture = world.queue.clone();
    // Inside the transaction that consumes the permit.
    *world.book.on_reserve.lock().unwrap() = Hook::new(move || fixture.drop_grants()).into_inner().unwrap();
    let refused = world.pipeline.commit(preview.permit.permit_id, Consent::Approved(approval)).await;
    assert_eq!(refused.err().map(|refusal| refusal.code), Some(ErrorCode::ApprovalRequired));
    assert_eq!(world.wallet.signatures.load(Ordering::SeqCst), 0);
}

fn refusal(reason: &str) -> OperatorAnswer {
    OperatorAnswer::Refuse { reason: SafeText::clean(reason, 40) }
}

/// Makes every action wait for this long from now on.
fn require_delay(world: &TestHarness, millis: u64) {
    *world.book.need.lock().unwrap() = ApprovalNeed::Delay { millis };
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejection_during_the_second_simulation_counts() {
    let world = TestHarness::new(0).await;
    require_delay(&world, 20);
    let brief = world.with_permits_of_no_time();
    let preview_action = async || {
        let preview = brief.preview(world.approval(HUNDRED), world.wallet.clone(), ASKED).await;
        Arc::new(preview.unwrap())
    };
    // A rejection before the renewed request: the delay is over by then, but the action must not pass by itself.
    let first = preview_action().await;
    let mut ticket = world.queue.ask(Arc::clone(&first));
    assert!(matches!(ticket.decision().await, Decision::PermitExpired));
    world.queue.answer(first.permit.permit_id, refusal("not now")).unwrap();
    let again = Arc::new(world.preview(world.approval(HUNDRED)).await.unwrap());
    ticket.replace(again);
    tokio::time::sleep(Duration::from_millis(30)).await;
    let Decision::Refused { reason } = ticket.decision().await else { panic!("the rejection was lost") };
    assert_eq!(reason.as_str(), "not now");
    assert!(world.queue.pending().is_empty());

    // A withdrawal in the same gap, as at a stop.
    let first = preview_action().await;
    let mut ticket = world.queue.ask(first);
    assert!(matches!(ticket.decision().await, Decision::PermitExpired));
    world.queue.withdraw_all("a halt");
    ticket.replace(Arc::new(world.preview(world.approval(HUNDRED)).await.unwrap()));
    assert!(matches!(ticket.decision().await, Decision::Withdrawn { .. }));

    // A rejection when the action cannot be simulated again.
    let first = preview_action().await;
    let mut ticket = world.queue.ask(Arc::clone(&first));
    assert!(matches!(ticket.decision().await, Decision::PermitExpired));
    world.queue.answer(first.permit.permit_id, refusal("never")).unwrap();
    let Some(Decision::Refused { reason }) = ticket.refused_meanwhile().await else { panic!("not rejected") };
    assert_eq!(reason.as_str(), "never");

    // An answer to the expired permit after a new request: a rejection counts, an approval does not.
    require_delay(&world, 60_000);
    let first = preview_action().await;
    let mut ticket = world.queue.ask(Arc::clone(&first));
    assert!(matches!(ticket.decision().await, Decision::PermitExpired));
    ticket.replace(Arc::new(world.preview(world.approval(HUNDRED)).await.unwrap()));
    assert_eq!(world.queue.answer(first.permit.permit_id, OperatorAnswer::Once), Err(AnswerError::NotAsked));
    world.queue.answer(first.permit.permit_id, refusal("late")).unwrap();
    assert!(matches!(ticket.decision().await, Decision::Refused { .. }));
}

/// The price recovers while the operator reads: the request neither goes ahead by itself nor stands without a reason.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_reason_has_passed_says_so_and_waits_for_its_answer() {
    let world = TestHarness::new(0).await;
    let needs = |need: ApprovalNeed| *world.book.need.lock().unwrap() = need;
    needs(ApprovalNeed::Approval { reasons: vec![ApprovalReason::HotLane] });
    let brief = world.with_permits_of_no_time();
    let first = Arc::new(brief.preview(world.approval(HUNDRED), world.wallet.clone(), ASKED).await.unwrap());
    let sale = AskReason::PartOfSale { sale: HoldingsSale::Flatten, more: Some(1) };
    for (by, named) in
        [(AskedBy::default(), vec![]), (AskedBy::Sale { sale: HoldingsSale::Flatten, more: Some(1) }, vec![sale])]
    {
        let mut ticket = world.queue.ask_for(Arc::clone(&first), by);
        let shown = || world.queue.pending().remove(0).reasons;
        assert_eq!(shown(), [named.clone(), vec![AskReason::HotLane]].concat());
        needs(ApprovalNeed::Instant);
        ticket.replace(Arc::new(world.preview(world.approval(HUNDRED)).await.unwrap()));
        assert_eq!(shown(), [named, vec![AskReason::NoneLeft]].concat());
        let waits = tokio::time::timeout(Duration::from_millis(50), ticket.decision()).await;
        assert!(waits.is_err(), "it was decided without an answer: {waits:?}");
        needs(ApprovalNeed::Approval { reasons: vec![ApprovalReason::HotLane] });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejection_after_the_delay_prevents_the_signature() {
    let world = TestHarness::new(0).await;
    require_delay(&world, 0);
    let preview = Arc::new(world.preview(world.approval(HUNDRED)).await.unwrap());
    let permit = preview.permit.permit_id;
    let Decision::Approved(approval) = world.queue.ask(preview).decision().await else {
        panic!("the delay did not pass")
    };
    assert_eq!(world.queue.answer(permit, refusal("stop it")), Err(AnswerError::NotAsked));
    let refused = world.pipeline.commit(permit, Consent::Approved(approval)).await;
    assert_eq!(refused.err().map(|refusal| refusal.code), Some(ErrorCode::ApprovalRequired));
    assert_eq!(world.wallet.signatures.load(Ordering::SeqCst), 0);
}

/// Stores the requests of this chain's approval queue for the other processes.
async fn publish(world: &TestHarness, shared: &SharedQueue) {
    shared.publish(&queued_at(&world.queue, &[], false, |_| RequestContext::default())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejection_by_another_process_is_read_before_the_signature() {
    let world = TestHarness::new(0).await;
    let shared = unlocked(world.store.clone());
    world.queue.listen(Arc::new(shared.clone()));
    let other = unlocked(Store::open(StoreConfig::at(world.store.path()), ALL_MIGRATIONS).unwrap());
    let rejection = || OperatorAnswer::Refuse { reason: SafeText::clean("wait for gas", 40) };
    let reject =
        async |permit| other.answer(permit, &rejection(), &Confirmation::default(), "process 2", 1, None).await;

    // The other process rejects the first permit. Meanwhile the action is requested again here, and its delay passes.
    require_delay(&world, 20);
    let brief = world.with_permits_of_no_time();
    let first = brief.preview(world.approval(HUNDRED), world.wallet.clone(), ASKED).await.unwrap();
    let first = Arc::new(first);
    let mut ticket = world.queue.ask(Arc::clone(&first));
    publish(&world, &shared).await;
    assert!(matches!(ticket.decision().await, Decision::PermitExpired));
    reject(first.permit.permit_id).await.unwrap();
    let second = Arc::new(world.preview(world.approval(HUNDRED)).await.unwrap());
    let permit = second.permit.permit_id;
    ticket.replace(second);
    // The first is no longer requested; its answer has not been read.
    shared.publish(&[]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(30)).await;
    let Decision::Approved(approval) = ticket.decision().await else { panic!("the delay did not pass") };
    let refused = world.pipeline.commit(permit, Consent::Approved(approval)).await.err().unwrap();
    assert_eq!(refused.code, ErrorCode::ApprovalRefused);
    assert!(refused.why().to_string().contains("wait for gas"), "{}", refused.why());
    assert_eq!(world.wallet.signatures.load(Ordering::SeqCst), 0);
    let answers = shared.remote_answers().unwrap();
    assert_eq!((answers.len(), answers[0].permit_id, &answers[0].answer), (1, first.permit.permit_id, &rejection()));
    shared.forget(vec![first.permit.permit_id]).await.unwrap();
    assert!(shared.remote_answers().unwrap().is_empty());

    // An answer without a valid tag is ignored, reported, and does not block a genuine one.
    require_delay(&world, 60_000);
    let odd = Arc::new(world.preview(world.approval(HUNDRED)).await.unwrap());
    let permit = odd.permit.permit_id;
    let ticket = world.queue.ask(odd);
    publish(&world, &shared).await;
    let inserted = world.store.write(move |transaction| {
        let row = [permit.to_string(), r#"{"answer":"refuse","reason":"no"}"#.to_owned()];
        let sql = "INSERT INTO shared_answer (permit_id, answer, said_by) VALUES (?1, ?2, 'process 3')";
        transaction.execute(sql, row)?;
        Ok::<_, StoreError>(())
    });
    inserted.await.unwrap();
    assert!(shared.remote_answers().unwrap().is_empty());
    let reported: Vec<_> = shared.report(1).await.unwrap().iter().map(|one| one.why).collect();
    assert_eq!(reported, [Forgery::Answer]);
    reject(permit).await.unwrap();
    assert_eq!(shared.remote_answers().unwrap().len(), 1);
    shared.forget(vec![permit]).await.unwrap();
    drop(ticket);

    // After the signature, a rejection is answered with `Over`.
    require_delay(&world, 0);
    let third = Arc::new(world.preview(world.approval(HUNDRED)).await.unwrap());
    let permit = third.permit.permit_id;
    let mut ticket = world.queue.ask(third);
    publish(&world, &shared).await;
    let Decision::Approved(approval) = ticket.decision().await else { panic!("the delay did not pass") };
    assert_eq!(world.pipeline.commit(permit, Consent::Approved(approval)).await.unwrap().state, CommitState::Done);
    let late = reject(permit).await;
    assert!(matches!(late, Err(ShareError::Over)), "{late:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standing_approval_that_cannot_be_recorded_does_not_count() {
    let world = TestHarness::new(0).await;
    require_approval(&world);
    let first = Arc::new(world.preview(world.swap(HUNDRED).await).await.unwrap());
    let mut ticket = world.queue.ask(Arc::clone(&first));
    let similar = OperatorAnswer::Similar { millis: 600_000, total: "5000".parse().unwrap() };
    let answers = async {
        while !world.trail().iter().any(|(kind, _)| kind == "approval:requested") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let lost = world.store.write(|transaction| {
            transaction.execute("ALTER TABLE audit_entry RENAME TO audit_lost", [])?;
            Ok::<_, StoreError>(())
        });
        lost.await.unwrap();
        world.queue.answer(first.permit.permit_id, similar).unwrap();
    };
    let (decision, ()) = tokio::join!(ticket.decision(), answers);
    assert!(matches!(decision, Decision::Withdrawn { .. }), "{decision:?}");
    assert!(world.queue.grants().is_empty());
    assert!(world.queue.granted(&first).is_none());
}
