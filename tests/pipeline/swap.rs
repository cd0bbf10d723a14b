//! A swap from the proposal to the settled ledger, and effects that must not happen twice.

use std::sync::LazyLock;
use std::sync::atomic::Ordering;
use std::time::Duration;

use alloy::primitives::{Address, Bytes, U256};
use alloy::providers::Provider as _;
use bardo::base::error::{ErrorCode, ToolError};
use bardo::base::model::ActionClass;
use bardo::chain::devnet::Chain;
use bardo::chain::network::{KnownContract, NetworkKind};
use bardo::chain::sender::SenderRules;
use bardo::engine::{ApprovalMode, CallStatus, ToolCall, ToolInput};
use bardo::fabric::TxState;
use bardo::safety::approval::Consent;
use bardo::safety::pipeline::CommitState;
use bardo::safety::policy_engine::ActionEnd;
use bardo::safety::proposal::{Proposal, ProposalIntent};
use bardo::sandbox::Sandbox;
use bardo::store::StoreError;
use bardo::uniswap::order::OrderKind;
use rust_decimal::Decimal;
use serde_json::json;

use crate::orders::{Fixture, ServiceBehavior};
use bardo_testkit::harness::{ASKED, TestHarness, cents, sandbox};

/// 100 USDC in raw units.
const HUNDRED: u64 = 100_000_000;

#[tokio::test(flavor = "multi_thread")]
async fn a_swap_does_exactly_what_it_declares() {
    let world = TestHarness::new(1).await;
    let (usdc, weth) = (world.balance(&world.usdc).await, world.balance(&world.weth).await);
    let nonce = world.nonce().await;
    let held = world.client.provider().get_balance(world.account()).await.unwrap();
    let ether = Decimal::from_i128_with_scale(held.to::<i128>(), 18);
    let proposal = world.swap(HUNDRED).await;
    let least = proposal.inflows[0].at_least;
    let preview = world.preview(proposal).await.unwrap();
    // Nothing is reserved before the commit.
    assert_eq!((world.balance(&world.usdc).await, world.nonce().await), (usdc, nonce));
    // Other tests may have bought with this account before.
    let class = if weth.is_zero() { ActionClass::NewPosition } else { ActionClass::IncreasePosition };
    assert_eq!(preview.simulated.class, class);
    assert!(!preview.simulated.leaves && !preview.simulated.only_revokes);
    // 100 dollars and a little gas, rounded up.
    assert!((10_000..11_500).contains(&cents(preview.values.spent)), "{:?}", preview.values);

    let committed = world.pipeline.commit(preview.permit.permit_id, Consent::None).await.unwrap();
    assert_eq!(committed.state, CommitState::Done, "{:?}", committed.remarks);
    assert_eq!(committed.remarks, Vec::<String>::new());
    assert!(committed.legs.iter().all(|leg| leg.state == TxState::Confirmed));
    assert_eq!(committed.legs.len(), 2);
    assert_eq!(world.balance(&world.usdc).await, usdc - U256::from(HUNDRED));
    let came = world.balance(&world.weth).await - weth;
    assert!(came >= least);
    assert_eq!(world.allowance(world.contract(KnownContract::Permit2)).await, U256::ZERO);
    assert_eq!(world.nonce().await, nonce + 2);
    let truth = committed.truth.unwrap();
    assert!(truth.matched(), "{:?}", truth.mismatches);
    let told = truth.moves.iter().find(|moved| moved.token == world.weth.id).unwrap();
    assert_eq!((told.before, told.after), (weth, weth + came));
    let ends = world.book.ends.lock().unwrap().clone();
    let [ActionEnd::Done { spent }] = ends.as_slice() else { panic!("{ends:?}") };
    assert!((10_000..11_500).contains(&cents(*spent)));
    assert_eq!(world.wallet.signatures.load(Ordering::SeqCst), 2);

    // The audit log has the simulated changes in whole tokens: balances before and after.
    let log = world.trail();
    let issued = &log.iter().find(|(kind, _)| kind == "permit:issued").unwrap().1["changes"];
    let moved = |symbol: &str, decimals: u32, before: U256, after: U256| {
        let change = issued.as_array().unwrap().iter().find(|change| change["symbol"] == symbol).unwrap();
        let raw = |field: &str| {
            let figure = change[field].as_str().unwrap().replace('−', "-").parse::<Decimal>().unwrap();
            (figure * Decimal::from(10_u128.pow(decimals))).normalize().to_string()
        };
        assert_eq!((raw("before"), raw("after")), (before.to_string(), after.to_string()), "{issued}");
        let comes = after > before;
        let delta = format!("{}{}", if comes { "" } else { "-" }, after.abs_diff(before));
        assert_eq!(raw("change"), delta, "{issued}");
        assert_eq!(change["gas"], false);
    };
    moved("USDC", 6, usdc, usdc - U256::from(HUNDRED));
    moved("WETH", 18, weth, weth + came);
    let gas = issued.as_array().unwrap().last().unwrap();
    assert!(gas["gas"] == true && gas["symbol"] == "ETH", "{issued}");
    let whole = |field: &str| gas[field].as_str().unwrap().replace('−', "-").parse::<Decimal>().unwrap();
    assert_eq!(whole("before"), ether, "{issued}");
    assert_eq!(whole("before") + whole("change"), whole("after"), "{issued}");
    assert!(whole("change") < Decimal::ZERO, "{issued}");

    let events = world.events();
    let first =
        |kind: &str| events.iter().position(|event| event == kind).unwrap_or_else(|| panic!("{kind}: {events:?}"));
    assert!(first("safety:check") < first("permit:issued"));
    assert!(first("permit:issued") < first("permit:consumed"));
    assert!(first("permit:consumed") < first("tx:update"));
    assert!(first("tx:update") < first("tool:verified"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_permit_is_valid_once_and_not_after_a_restart() {
    let mut world = TestHarness::new(2).await;
    let used = world.preview(world.swap(HUNDRED).await).await.unwrap().permit.permit_id;
    let unused = world.preview(world.swap(HUNDRED).await).await.unwrap().permit.permit_id;
    world.pipeline.commit(used, Consent::None).await.unwrap();
    let nonce = world.nonce().await;
    let code = |refusal: bardo::safety::pipeline::PipelineRefusal| refusal.code;
    let again = world.pipeline.commit(used, Consent::None).await.map_err(code);
    assert_eq!(again.err(), Some(ErrorCode::PermitConsumed));
    world.restart();
    let again = world.pipeline.commit(used, Consent::None).await.map_err(code);
    assert_eq!(again.err(), Some(ErrorCode::PermitConsumed));
    let later = world.pipeline.commit(unused, Consent::None).await.map_err(code);
    assert_eq!(later.err(), Some(ErrorCode::PermitExpired));
    assert_eq!(world.nonce().await, nonce);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_commits_of_one_permit_only_one_proceeds() {
    let world = TestHarness::new(3).await;
    let nonce = world.nonce().await;
    let permit = world.preview(world.swap(HUNDRED).await).await.unwrap().permit.permit_id;
    let (one, other) =
        tokio::join!(world.pipeline.commit(permit, Consent::None), world.pipeline.commit(permit, Consent::None));
    let codes: Vec<_> =
        [one, other].into_iter().filter_map(|result| result.err()).map(|refusal| refusal.code).collect();
    assert_eq!(codes, [ErrorCode::PermitConsumed]);
    assert_eq!(world.nonce().await, nonce + 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_commits_stay_under_the_cap_and_never_share_a_nonce() {
    let world = TestHarness::new(4).await;
    // Enough for three of about 100 dollars each.
    *world.book.cap.lock().unwrap() = "320".parse().unwrap();
    let nonce = world.nonce().await;
    let mut permits = Vec::new();
    for _ in 0..8 {
        permits.push(world.preview(world.approval(HUNDRED)).await.unwrap().permit.permit_id);
    }
    let commits = permits.iter().map(|permit| world.pipeline.commit(*permit, Consent::None));
    let results = futures::future::join_all(commits).await;
    let done = results.iter().filter(|result| result.as_ref().is_ok_and(|one| one.state == CommitState::Done)).count();
    let refused: Vec<_> =
        results.iter().filter_map(|result| result.as_ref().err()).map(|refusal| refusal.code).collect();
    assert_eq!(done, 3, "{refused:?}");
    assert!(refused.iter().all(|code| *code == ErrorCode::SafetySpendingLimitExceeded), "{refused:?}");
    assert_eq!(world.nonce().await, nonce + 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rehearsal_changes_nothing() {
    let world = TestHarness::new(5).await;
    let (usdc, nonce) = (world.balance(&world.usdc).await, world.nonce().await);
    let permit = world.preview(world.swap(HUNDRED).await).await.unwrap().permit.permit_id;
    let rehearsed = world.pipeline.rehearse(permit).await.unwrap();
    assert_eq!(rehearsed.state, CommitState::Simulated);
    assert_eq!(rehearsed.simulated.moves.len(), 2);
    assert_eq!((world.balance(&world.usdc).await, world.nonce().await), (usdc, nonce));
    assert_eq!(world.wallet.signatures.load(Ordering::SeqCst), 0);
    let again = world.pipeline.commit(permit, Consent::None).await;
    assert_eq!(again.err().map(|refusal| refusal.code), Some(ErrorCode::PermitConsumed));
}

/// Devnet of this file: a contract is broken there for a while.
static BROKEN: LazyLock<Sandbox> = LazyLock::new(|| sandbox(8));

/// A preview that fails during another action of the account is repeated afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn a_preview_overtaken_by_another_action_is_repeated() {
    let world = TestHarness::over(&BROKEN, 0, SenderRules::for_network(NetworkKind::Devnet, 1_000)).await;
    let fixture = Fixture::of(world, OrderKind::DutchV2, ServiceBehavior::Unreachable).await;
    let world = &fixture.world;
    let (router, devnet) = (world.contract(KnownContract::UniversalRouterV210), &BROKEN.chains()[0].devnet);
    let code = world.client.provider().get_code_at(router).await.unwrap();
    let becomes = async |code: Bytes| {
        devnet.run(move |chain: &mut Chain| chain.set_code(router, code)).await.unwrap().unwrap();
        // In a block, where reads by block hash find it.
        devnet.mine().await.unwrap();
    };
    let params = json!({"token_in": "USDC", "token_out": "WETH", "amount": "50", "chain": "ethereum",
                        "prefer_uniswapx": false});
    let call = ToolCall {
        approve: Some(ApprovalMode::Always),
        ..ToolCall::new("uniswap_execute_swap", ToolInput::Json(params))
    };
    let usdc = world.balance(&world.usdc).await;
    // PUSH0 PUSH0 REVERT: every call reverts.
    becomes(Bytes::from_static(&[0x5f, 0x5f, 0xfd])).await;
    // Without another action it is refused at once.
    let refused = fixture.executor.call(call.clone()).await;
    assert_eq!(refused.error.as_ref().map(ToolError::code), Some(ErrorCode::SafetySimulationFailed), "{refused:#?}");
    world.events();
    let turn =
        world.pipeline.lock_account(world.client.network().chain_id, world.account(), Duration::from_secs(5)).await;
    let executor = fixture.executor.clone();
    let calling = tokio::spawn(async move { executor.call(call).await });
    while !world.blocked() {
        assert!(!calling.is_finished(), "{:?}", calling.await);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    becomes(code).await;
    drop(turn.unwrap());
    let response = calling.await.unwrap();
    assert_eq!(response.status, CallStatus::Success, "{response:#?}");
    assert_eq!(usdc - world.balance(&world.usdc).await, U256::from(50_000_000));
    // The audit log distinguishes the refused preview from the premature one.
    let kinds = world.store.read(|connection| -> Result<Vec<String>, StoreError> {
        let wanted = "SELECT kind FROM audit_entry WHERE kind IN ('action:refused', 'action:overtaken') ORDER BY seq";
        let mut statement = connection.prepare(wanted)?;
        Ok(statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?)
    });
    assert_eq!(kinds.unwrap(), ["action:refused", "action:refused", "action:overtaken"]);
}

/// Changes that another process makes to balances, allowances and Permit2's nonce during the preparation do not refuse
/// a call: it is prepared again.
#[tokio::test(flavor = "multi_thread")]
async fn a_proposal_prepared_during_another_action_is_prepared_again() {
    let fixture = Fixture::new(7, OrderKind::DutchV2, ServiceBehavior::Unreachable).await;
    let world = &fixture.world;
    let first = world.preview(world.swap(70_000_000).await).await.unwrap().permit.permit_id;
    let chain_id = world.client.network().chain_id;
    let turn = world.pipeline.lock_account(chain_id, world.account(), Duration::from_secs(5)).await.unwrap();
    // The account lock is held, but nothing is on the chain yet: the call is prepared on that state.
    let params = json!({"token_in": "USDC", "token_out": "WETH", "amount": "50", "chain": "ethereum",
                        "prefer_uniswapx": false});
    let call = ToolCall {
        approve: Some(ApprovalMode::Always),
        ..ToolCall::new("uniswap_execute_swap", ToolInput::Json(params))
    };
    world.events();
    let (usdc, executor) = (world.balance(&world.usdc).await, fixture.executor.clone());
    let calling = tokio::spawn(async move { executor.call(call).await });
    while !world.events().iter().any(|kind| kind == "permit:issued") {
        assert!(!calling.is_finished(), "{:?}", calling.await);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let done = world.pipeline.commit_in(turn, first, Consent::None).await.unwrap();
    assert_eq!(done.state, CommitState::Done, "{:?}", done.remarks);
    let response = calling.await.unwrap();
    assert_eq!(response.status, CallStatus::Success, "{response:#?}");
    assert_eq!(usdc - world.balance(&world.usdc).await, U256::from(120_000_000));
    fixture.clear().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_concurrent_swaps_neither_uses_the_others_allowance() {
    let world = TestHarness::new(3).await;
    // Prepared concurrently: each sets the allowance for itself, and both have the same nonce of Permit2.
    let (one, other) = (world.swap(100_000_000).await, world.swap(70_000_000).await);
    let (one, other) = (world.preview(one).await.unwrap(), world.preview(other).await.unwrap());
    let (nonce, usdc) = (world.nonce().await, world.balance(&world.usdc).await);
    let (one, other) = tokio::join!(
        world.pipeline.commit(one.permit.permit_id, Consent::None),
        world.pipeline.commit(other.permit.permit_id, Consent::None)
    );
    let (done, refused, sold) = match (one, other) {
        (Ok(done), Err(refused)) => (done, refused, 100_000_000),
        (Err(refused), Ok(done)) => (done, refused, 70_000_000),
        (one, other) => panic!("{one:#?} {other:#?}"),
    };
    assert_eq!(done.state, CommitState::Done, "{:?}", done.remarks);
    // The second was rechecked after the first and found invalid: nothing of it was signed.
    assert_eq!(refused.code, ErrorCode::PermitMismatch, "{refused:#?}");
    assert_eq!(world.nonce().await, nonce + 2, "no gas was spent on a transaction that reverts");
    assert_eq!(world.wallet.signatures.load(Ordering::SeqCst), 2);
    assert_eq!(usdc - world.balance(&world.usdc).await, U256::from(sold));
    assert_eq!(world.allowance(world.contract(KnownContract::Permit2)).await, U256::ZERO);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_waits_for_the_account_lock_while_its_permit_is_valid() {
    let world = TestHarness::new(3).await;
    let turn = world.pipeline.lock_account(31_337, world.account(), Duration::from_secs(1)).await.unwrap();
    let preview = world.preview(world.approval(1)).await.unwrap();
    let short = world.with_permits_of(Duration::from_millis(150));
    let hasty = short.preview(world.approval(2), world.wallet.clone(), ASKED).await.unwrap();
    let refused = short.commit(hasty.permit.permit_id, Consent::None).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::PermitExpired, "{refused:#?}");
    assert_eq!(world.wallet.signatures.load(Ordering::SeqCst), 0);
    // Another account's lock is independent, and the holder of the lock commits under it.
    drop(world.pipeline.lock_account(31_337, Address::repeat_byte(9), Duration::from_millis(50)).await.unwrap());
    let committed = world.pipeline.commit_in(turn, preview.permit.permit_id, Consent::None).await.unwrap();
    assert_eq!(committed.state, CommitState::Done);
    // A revocation passes while another action holds the lock: a stuck transaction must not block it.
    let _turn = world.pipeline.lock_account(31_337, world.account(), Duration::from_millis(50)).await.unwrap();
    let permit2 = world.contract(KnownContract::Permit2);
    let revoke = Proposal { intent: ProposalIntent::Revoke, ..world.approval(0) };
    let preview = world.preview(revoke).await.unwrap();
    let committed = world.pipeline.commit(preview.permit.permit_id, Consent::None).await.unwrap();
    assert_eq!(committed.state, CommitState::Done);
    assert_eq!(world.allowance(permit2).await, U256::ZERO);
}
