//! Checks between a permit and a signature: each repeated check is tested as the only one that can detect a change.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use alloy::primitives::{Address, U256, keccak256};
use alloy::sol_types::SolValue as _;
use bardo::abi::erc20::Erc20;
use bardo::base::clock::SystemClock;
use bardo::base::config::RpcUrl;
use bardo::base::error::ErrorCode;
use bardo::base::fabric::CheckReason;
use bardo::base::model::{CapabilityTier, StopLevel, ToolMeta};
use bardo::chain::devnet::{Chain, server};
use bardo::chain::network::{KnownContract, NetworkKind};
use bardo::chain::provider::HttpLimits;
use bardo::chain::sender::PrivateRelay;
use bardo::engine::{PreviewResult, ToolCall, ToolInput};
use bardo::safety::approval::{ApprovalNeed, ApprovalReason, Consent};
use bardo::safety::ledger::MicroUsd;
use bardo::safety::orders::OrderStage;
use bardo::safety::pipeline::CommitState;
use bardo::safety::policy_engine::ActionEnd;
use bardo::safety::proposal::Proposal;
use bardo::store::StoreError;
use bardo::uniswap::gateway::ServiceStatus;
use bardo::uniswap::order::OrderKind;

use crate::endpoints::connect;
use crate::orders::{Fixture, ServiceBehavior, order};
use crate::sends::SEND;
use bardo_testkit::harness::{ASKED, Hook, TOOL, TestHarness, devnet};
use bardo_testkit::rpc_proxy::{Fate, Proxy};

const HUNDRED: u64 = 100_000_000;

/// Runs a function at the `count`th call of the hook.
fn at(count: usize, does: impl Fn() + Send + Sync + 'static) -> (Arc<AtomicUsize>, Option<Hook>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let hook = Hook::new(move || {
        if counted.fetch_add(1, Ordering::SeqCst) == count {
            does();
        }
    });
    (asked, hook.into_inner().unwrap())
}

/// End of a commit: refused with nothing reserved, released before a signature, released after one, or done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    Refused,
    Unsigned,
    Signed,
    Done,
}

async fn ended(world: &TestHarness, proposal: Proposal, code: ErrorCode, set: impl FnOnce()) -> Ended {
    let permit = world.preview(proposal).await.unwrap().permit.permit_id;
    let (ends, signatures) = (world.book.ends.lock().unwrap().len(), world.wallet.signatures.load(Ordering::SeqCst));
    set();
    let committed = world.pipeline.commit(permit, Consent::None).await;
    *world.book.on_stop.lock().unwrap() = None;
    *world.book.on_version.lock().unwrap() = None;
    let signed = world.wallet.signatures.load(Ordering::SeqCst) - signatures;
    let new = world.book.ends.lock().unwrap()[ends..].to_vec();
    match (committed, new.as_slice(), signed) {
        (Ok(committed), [ActionEnd::Done { .. }], 1) if committed.state == CommitState::Done => Ended::Done,
        (Err(refusal), [], 0) if refusal.code == code => Ended::Refused,
        (Err(refusal), [ActionEnd::Withdrawn], 0) if refusal.code == code => Ended::Unsigned,
        (Err(refusal), [ActionEnd::Withdrawn], 1) if refusal.code == code => Ended::Signed,
        other => panic!("{other:?}"),
    }
}

/// A stop at any moment is seen by the next check, and each check is made in its place.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_is_seen_by_the_next_check_at_any_moment() {
    let world = TestHarness::new(3).await;
    let nonce = world.nonce().await;
    let mut found = Vec::new();
    for count in 0..20 {
        let book = Arc::clone(&world.book);
        let (_, hook) = at(count, move || *book.stop.lock().unwrap() = Some(StopLevel::Halt));
        let set = || *world.book.on_stop.lock().unwrap() = hook;
        found.push(ended(&world, world.approval(HUNDRED + count as u64), ErrorCode::Halted, set).await);
        *world.book.stop.lock().unwrap() = None;
        if found.last() == Some(&Ended::Done) {
            break;
        }
    }
    // At the recheck, in the transaction that reserves the funds, before the signature, before it is stored.
    assert_eq!(found, [Ended::Refused, Ended::Refused, Ended::Unsigned, Ended::Signed, Ended::Done]);
    assert_eq!(world.nonce().await, nonce + 1, "the last one alone was sent");
}

/// The same with a changed policy: once the funds are reserved under the old one, it applies to the action.
#[tokio::test(flavor = "multi_thread")]
async fn rules_that_change_before_the_reservation_invalidate_the_permit() {
    let world = TestHarness::new(3).await;
    let rules = *world.book.version.lock().unwrap();
    let mut broken = 0;
    loop {
        let book = Arc::clone(&world.book);
        let (asked, hook) = at(broken, move || *book.version.lock().unwrap() = keccak256("other rules"));
        let set = || *world.book.on_version.lock().unwrap() = hook;
        let end = ended(&world, world.approval(HUNDRED + broken as u64), ErrorCode::PermitMismatch, set).await;
        *world.book.version.lock().unwrap() = rules;
        if end == Ended::Done {
            assert!(asked.load(Ordering::SeqCst) <= broken, "it was done under rules that nobody had looked at");
            break;
        }
        assert_eq!(end, Ended::Refused);
        broken += 1;
    }
    assert_eq!(broken, 3, "before the look, after it, and in the transaction that holds the money");
    // A rehearsal reserves no funds: it checks before and after.
    for count in 0..2 {
        let permit = world.preview(world.approval(HUNDRED)).await.unwrap().permit.permit_id;
        let book = Arc::clone(&world.book);
        let (_, hook) = at(count, move || *book.version.lock().unwrap() = keccak256("other rules"));
        *world.book.on_version.lock().unwrap() = hook;
        let refused = world.pipeline.rehearse(permit).await;
        *world.book.on_version.lock().unwrap() = None;
        *world.book.version.lock().unwrap() = rules;
        assert_eq!(refused.err().map(|refusal| refusal.code), Some(ErrorCode::PermitMismatch), "{count}");
    }
}

/// A permit that the database records as used is used, whatever memory contains.
#[tokio::test(flavor = "multi_thread")]
async fn a_permit_that_the_ledger_knows_reserves_nothing_again() {
    let world = TestHarness::new(3).await;
    let permit = world.preview(world.approval(HUNDRED)).await.unwrap().permit.permit_id;
    let used = world.store.write(move |transaction| -> Result<(), StoreError> {
        transaction.execute(
            "INSERT INTO safety_permit (permit_id, simulation_hash, call_id, chain_id, account, reservation, gas_usd,
             spent_usd, consumed_at) VALUES (?1, x'00', 'c', 31337, 'a', 1, '0', '0', 1)",
            [permit.to_string()],
        )?;
        Ok(())
    });
    used.await.unwrap();
    let refused = world.pipeline.commit(permit, Consent::None).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::PermitConsumed);
    let held: i64 = world
        .store
        .read(|connection| -> Result<i64, StoreError> {
            Ok(connection.query_row("SELECT count(*) FROM book_held", [], |row| row.get(0))?)
        })
        .unwrap();
    assert_eq!((held, world.wallet.signatures.load(Ordering::SeqCst)), (0, 0));
}

/// A transaction for a private relay is not signed without one, at the preview and at the commit.
#[tokio::test(flavor = "multi_thread")]
async fn a_private_transaction_is_not_signed_without_a_relay() {
    let world = TestHarness::new(3).await;
    let permit = world.preview(world.approval(HUNDRED)).await.unwrap().permit.permit_id;
    world.book.private.store(true, Ordering::SeqCst);
    let refused = world.preview(world.approval(HUNDRED)).await.unwrap_err();
    let again = world.pipeline.commit(permit, Consent::None).await.unwrap_err();
    for refused in [refused, again] {
        assert_eq!(refused.code, ErrorCode::SafetyNotAllowed, "{refused:?}");
        let [one] = refused.violations.as_slice() else { panic!("{refused:?}") };
        assert_eq!(
            (one.rule.as_str(), one.limit.as_str(), one.value.as_str(), one.would_pass.as_str()),
            (
                "private_rpc_above_usd",
                "above it, a transaction is sent to a private relay only",
                "no relay",
                "a smaller amount, or the same after setting `relay` for this chain in the configuration"
            )
        );
    }
    assert_eq!(world.wallet.signatures.load(Ordering::SeqCst), 0);
}

/// Every transaction of a private swap goes to the relay only; others do not use it.
#[tokio::test(flavor = "multi_thread")]
async fn a_private_transaction_is_sent_only_to_the_relay() {
    let world = TestHarness::new(4).await;
    let served = server::serve(devnet().devnet.clone(), 0).await.unwrap();
    let public = Proxy::start(served.url(), |_, _| Fate::Pass).await;
    let private = Proxy::start(served.url(), |_, _| Fate::Pass).await;
    let client = connect(world.client.network(), std::slice::from_ref(&public.url)).await;
    let url = RpcUrl::parse(&private.url).unwrap();
    let relay = PrivateRelay::new(url, None, 31_337, HttpLimits::default(), Arc::new(SystemClock)).unwrap();
    let pipeline = world.with_relay(&client, relay);
    let swapped = async |unseen| {
        world.book.private.store(unseen, Ordering::SeqCst);
        let preview = pipeline.preview(world.swap(HUNDRED).await, world.wallet.clone(), ASKED).await.unwrap();
        let committed = pipeline.commit(preview.permit.permit_id, Consent::None).await.unwrap();
        assert_eq!((committed.state, committed.legs.len()), (CommitState::Done, 2), "{:?}", committed.remarks);
        (public.count(SEND), private.count(SEND))
    };
    let (seen, hidden) = swapped(true).await;
    assert_eq!(seen, 0, "nobody else has seen it wait");
    assert!(hidden >= 2, "{hidden} sends for two transactions");
    let (seen, still) = swapped(false).await;
    assert!(seen >= 2 && still == hidden, "{seen} to everybody, {still} to the relay");
    let log = world.trail();
    let routes: Vec<_> = log.iter().filter(|(kind, _)| kind == "tx:signed").map(|(_, body)| &body["route"]).collect();
    assert_eq!(routes, ["private", "private", "public", "public"]);
}

/// An action that exceeds the hot lane only since its preview has not been reviewed by the guardian.
#[tokio::test(flavor = "multi_thread")]
async fn an_action_that_rises_above_the_hot_lane_needs_the_guardian_first() {
    let world = TestHarness::new(3).await;
    let permit = world.preview(world.approval(HUNDRED)).await.unwrap().permit.permit_id;
    *world.book.hot_lane.lock().unwrap() = "1".parse().unwrap();
    let refused = world.pipeline.commit(permit, Consent::Always).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::PermitMismatch, "{refused:?}");
    assert_eq!(
        refused.message,
        "it now needs the safety-guardian's agreement, and the safety-guardian has not been asked"
    );
    // With a new preview, there is no guardian to be asked.
    let refused = world.preview(world.approval(HUNDRED)).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::SafetySpendingLimitExceeded, "{refused:?}");
    let [one] = refused.violations.as_slice() else { panic!("{refused:?}") };
    assert_eq!(
        (one.rule.as_str(), one.limit.as_str(), one.value.as_str(), one.would_pass.as_str()),
        (
            "spending_limits.hot_lane",
            "above it, the safety-guardian must agree",
            "it needs the safety-guardian's agreement, but no safety-guardian is running",
            "a smaller amount"
        )
    );
}

/// With real money the policy limits standing approvals, which never cover a change of authority.
#[tokio::test(flavor = "multi_thread")]
async fn standing_approvals_are_limited_on_a_real_network() {
    const PRIVILEGED: ToolMeta = ToolMeta { capability: CapabilityTier::Privileged, ..TOOL };
    // The chain that other tests use too may be ahead of the machine's clock.
    let world = TestHarness::in_step_with_shared(3).await;
    let dollars = |dollars: u64| MicroUsd::new(dollars * 1_000_000).unwrap();
    let above = vec![ApprovalReason::above(dollars(100), dollars(10), "requires_approval_above_usd")];
    let found = vec![ApprovalReason::Found(CheckReason::SellsBelowAverage { sold: Vec::new(), percent: 25 })];
    let mut amount = HUNDRED;
    for kind in [NetworkKind::Test, NetworkKind::Real] {
        let pipeline = world.as_kind(kind);
        for (named, tool, reasons, code) in [
            (false, TOOL, &above, Some(ErrorCode::ApprovalRequired)),
            (true, PRIVILEGED, &above, Some(ErrorCode::ApprovalRequired)),
            (true, TOOL, &found, Some(ErrorCode::ApprovalRequired)),
            (true, TOOL, &above, None),
        ] {
            *world.book.need.lock().unwrap() = ApprovalNeed::Approval { reasons: reasons.clone() };
            world.book.always.store(named, Ordering::SeqCst);
            // More than the present allowance: less would be a revocation, which needs no approval.
            amount += 1;
            let proposal = Proposal { tool, ..world.approval(amount) };
            // Except on a devnet, a chain without new blocks is not trusted.
            devnet().devnet.mine().await.unwrap();
            let preview = pipeline.preview(proposal, world.wallet.clone(), ASKED).await.unwrap();
            let before = world.wallet.signatures.load(Ordering::SeqCst);
            let committed = pipeline.commit(preview.permit.permit_id, Consent::Always).await;
            let signed = world.wallet.signatures.load(Ordering::SeqCst) - before;
            assert_eq!(
                committed.err().map(|refusal| refusal.code),
                code,
                "{kind:?} {named} {}",
                tool.capability.as_str()
            );
            assert_eq!(signed, usize::from(code.is_none()));
        }
    }
}

/// A policy change in the middle of a plan ends it, and its allowance is revoked.
#[tokio::test(flavor = "multi_thread")]
async fn changed_rules_stop_a_plan_half_way() {
    let world = TestHarness::new(3).await;
    let preview = world.preview(world.swap(HUNDRED).await).await.unwrap();
    let (book, rules) = (Arc::clone(&world.book), *world.book.version.lock().unwrap());
    let (_, hook) = at(0, move || *book.version.lock().unwrap() = keccak256("other rules"));
    *world.wallet.on_sign.lock().unwrap() = hook;
    let committed = world.pipeline.commit(preview.permit.permit_id, Consent::None).await.unwrap();
    let CommitState::Stopped { code, .. } = committed.state else { panic!("{:?}", committed.state) };
    assert_eq!((code, committed.legs.len()), (ErrorCode::PermitMismatch, 1));
    assert_eq!(world.allowance(world.contract(KnownContract::Permit2)).await, U256::ZERO);
    *world.book.version.lock().unwrap() = rules;
}

/// Removes the account's USDC between two blocks.
fn lose(token: Address, owner: Address) {
    let gone = async {
        let lost = devnet().devnet.run(move |chain: &mut Chain| {
            for slot in 0u8..8 {
                let place: U256 = keccak256((owner, U256::from(slot)).abi_encode()).into();
                chain.set_storage_at(token, place, U256::ZERO);
            }
        });
        lost.await.unwrap();
        devnet().devnet.mine().await.unwrap();
    };
    tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(gone));
}

/// The rest of a plan is simulated again before each transaction: a step that would now fail is not signed.
#[tokio::test(flavor = "multi_thread")]
async fn a_failure_stops_a_plan_half_way() {
    let world = TestHarness::new(3).await;
    let (token, owner) = (world.contract_of(&world.usdc), world.account());
    let preview = world.preview(world.swap(HUNDRED).await).await.unwrap();
    let (_, hook) = at(0, move || lose(token, owner));
    *world.wallet.on_sign.lock().unwrap() = hook;
    let committed = world.pipeline.commit(preview.permit.permit_id, Consent::None).await.unwrap();
    assert_eq!(world.ask(token, Erc20::balanceOfCall { owner }).await, U256::ZERO, "its balance is somewhere else");
    let CommitState::Stopped { code, .. } = committed.state else { panic!("{:?}", committed.state) };
    assert_eq!((code, committed.legs.len()), (ErrorCode::PermitMismatch, 1), "{:?}", committed.remarks);
    assert_eq!(world.allowance(world.contract(KnownContract::Permit2)).await, U256::ZERO);
}

/// An order's proposal, as its tool makes it, with its allowance already granted.
pub async fn proposed(fixture: &Fixture) -> Proposal {
    let permit2 = fixture.world.contract(KnownContract::Permit2);
    let allow = Erc20::approveCall { spender: permit2, value: U256::from(HUNDRED) };
    fixture.world.send(fixture.world.contract_of(&fixture.world.usdc), allow).await;
    let call = ToolCall::new("uniswap_submit_uniswapx_order", ToolInput::Json(order("100", 3_000)));
    let offer = match fixture.executor.offer(call).await {
        PreviewResult::Held(offer) => offer,
        PreviewResult::Over(response) => panic!("{response:#?}"),
    };
    let proposal = offer.preview().payload.proposal().clone();
    offer.withdraw().await;
    assert!(proposal.legs.is_empty(), "nothing but a signature");
    proposal
}

/// A stop before an order is signed, and one after: no signature is stored or submitted.
#[tokio::test(flavor = "multi_thread")]
async fn an_order_signed_during_a_stop_is_not_submitted() {
    for after in [false, true] {
        let fixture = Fixture::new(8, OrderKind::DutchV2, ServiceBehavior::FalseStatus(ServiceStatus::Open)).await;
        let world = &fixture.world;
        let permit = world.preview(proposed(&fixture).await).await.unwrap().permit.permit_id;
        let book = Arc::clone(&world.book);
        let (_, hook) = at(0, move || *book.stop.lock().unwrap() = Some(StopLevel::Halt));
        let place = if after { &world.wallet.on_sign } else { &world.book.on_reserve };
        *place.lock().unwrap() = hook;
        let refused = world.pipeline.commit(permit, Consent::None).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::Halted);
        assert_eq!(world.wallet.signatures.load(Ordering::SeqCst), usize::from(after));
        assert_eq!(world.book.ends.lock().unwrap().as_slice(), [ActionEnd::Withdrawn]);
        let orders = fixture.orders.every().unwrap();
        assert!(orders.iter().all(|one| one.signature.is_none() && one.stage == OrderStage::Ended), "{orders:#?}");
        *world.book.stop.lock().unwrap() = None;
        fixture.clear().await;
    }
}

/// A signature over another message than the order is discarded.
#[tokio::test(flavor = "multi_thread")]
async fn a_signature_over_other_data_makes_no_order() {
    let fixture = Fixture::new(8, OrderKind::DutchV2, ServiceBehavior::FalseStatus(ServiceStatus::Open)).await;
    let world = &fixture.world;
    let permit = world.preview(proposed(&fixture).await).await.unwrap().permit.permit_id;
    *world.wallet.falsify.lock().unwrap() = Some(|_| {});
    let refused = world.pipeline.commit(permit, Consent::None).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::PermitMismatch);
    assert!(fixture.orders.every().unwrap().iter().all(|one| one.signature.is_none()));
    fixture.clear().await;
}

/// Without a settlement service no order is signed.
#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_nobody_would_take_is_not_signed() {
    let fixture = Fixture::new(8, OrderKind::DutchV2, ServiceBehavior::FalseStatus(ServiceStatus::Open)).await;
    let world = &fixture.world;
    let alone = world.with_permits_of(std::time::Duration::from_secs(60));
    let preview = alone.preview(proposed(&fixture).await, world.wallet.clone(), ASKED).await.unwrap();
    let refused = alone.commit(preview.permit.permit_id, Consent::None).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::ChainUnsupported);
    assert!(world.book.ends.lock().unwrap().is_empty() && fixture.orders.every().unwrap().is_empty());
    assert_eq!(world.wallet.signatures.load(Ordering::SeqCst), 0);
    fixture.clear().await;
}
