//! Regression tests for the findings of an adversarial review: each fails without its fix.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use alloy::consensus::TxEip1559;
use alloy::primitives::{Address, U256};
use alloy::providers::Provider as _;
use alloy::sol_types::SolCall as _;
use bardo::abi::erc20::{Erc20, OpenMint};
use bardo::base::clock::{Clock, SystemClock};
use bardo::base::error::ErrorCode;
use bardo::base::model::{Phase, StopLevel};
use bardo::chain::network::KnownContract;
use bardo::chain::provider::ChainClient;
use bardo::engine::{ApprovalMode, CallStatus, Catalog, PreviewResult, ToolCall, ToolInput};
use bardo::runtime::data::ALL_MIGRATIONS;
use bardo::safety::approval::{Consent, Decision, OperatorAnswer};
use bardo::safety::operator_policy::OperatorPolicyEngine;
use bardo::safety::operator_proof::Authorisation;
use bardo::safety::pipeline::{CommitState, PhaseRequest, Pipeline};
use bardo::safety::policy::{PolicyKeeper, PolicyPreset};
use bardo::safety::policy_engine::ActionEnd;
use bardo::safety::proposal::{AllowanceBound, AllowanceKind, LegPurpose, Proposal, ProposalIntent};
use bardo::safety::stop::StopFile;
use bardo::sandbox::keys::DevnetAccount;
use bardo::store::{Store, StoreConfig};
use tokio::sync::watch;

use bardo_testkit::acting::{acting, executor, ruled, seen};
use bardo_testkit::harness::{ASKED, Hook, TestHarness, cents, leg};
use bardo_testkit::proof::{lift, proof};

const HUNDRED: u64 = 100_000_000;

/// Another account sends a hundred USDC to `to`.
async fn gift(client: &ChainClient, usdc: Address, to: Address) {
    let party = DevnetAccount::development_accounts().unwrap().swap_remove(9);
    let provider = client.provider();
    let transaction = TxEip1559 {
        chain_id: 31_337,
        nonce: provider.get_transaction_count(party.address()).await.unwrap(),
        gas_limit: 1_000_000,
        max_fee_per_gas: 100_000_000_000,
        max_priority_fee_per_gas: 1_000_000_000,
        to: usdc.into(),
        value: U256::ZERO,
        access_list: Default::default(),
        input: OpenMint::mintCall { to, value: U256::from(HUNDRED) }.abi_encode().into(),
    };
    let raw = alloy::eips::eip2718::Encodable2718::encoded_2718(&party.sign(transaction).unwrap());
    assert!(provider.send_raw_transaction(&raw).await.unwrap().get_receipt().await.unwrap().status());
}

/// Inflows from elsewhere during a plan do not reduce the amount spent.
#[tokio::test(flavor = "multi_thread")]
async fn an_inflow_during_a_plan_does_not_reduce_its_spending() {
    let world = TestHarness::new(7).await;
    let preview = world.preview(world.swap(HUNDRED).await).await.unwrap();
    let (client, usdc, account) = (world.client.clone(), world.contract_of(&world.usdc), world.account());
    let signed = AtomicUsize::new(0);
    *world.wallet.on_sign.lock().unwrap() = Hook::new(move || {
        // Between the approval's block and the swap's.
        if signed.fetch_add(1, Ordering::SeqCst) == 1 {
            tokio::task::block_in_place(|| {
                tokio::runtime::Handle::current().block_on(gift(&client, usdc, account));
            });
        }
    })
    .into_inner()
    .unwrap();
    world.pipeline.commit(preview.permit.permit_id, Consent::None).await.unwrap();
    let ends = world.book.ends.lock().unwrap().clone();
    let [ActionEnd::Done { spent }] = ends.as_slice() else { panic!("{ends:?}") };
    assert!(cents(*spent) >= 10_000, "100 dollars left the wallet, and {spent} are counted");
}

/// An amount above every token's supply is an unlimited allowance, whatever its last bit.
#[tokio::test(flavor = "multi_thread")]
async fn an_allowance_one_unit_below_the_maximum_counts_as_unlimited() {
    let world = TestHarness::new(3).await;
    let folder = tempfile::tempdir().unwrap();
    let (pipeline, _store) = demo(&world, folder.path());
    let (permit2, weth) = (world.contract(KnownContract::Permit2), world.contract_of(&world.weth));
    for amount in [U256::MAX >> 96, (U256::MAX >> 96) - U256::from(1), U256::from(1) << 159] {
        let call = Erc20::approveCall { spender: permit2, value: amount };
        let proposal = Proposal {
            allowances: vec![AllowanceBound {
                token: world.weth.clone(),
                spender: permit2,
                kind: AllowanceKind::Erc20,
                at_most: amount,
            }],
            ..world.proposal(ProposalIntent::Approve, vec![leg(LegPurpose::Main, weth, call.abi_encode().into())])
        };
        let looked = pipeline.preview(proposal, world.wallet.clone(), ASKED).await;
        if let Ok(preview) = &looked {
            panic!("{amount} passes, counted as {} and needing {}", preview.values.spent, preview.needs.word());
        }
    }
}

/// An action that the phase forbids at the commit is not signed, whatever the phase was at the preview.
#[tokio::test(flavor = "multi_thread")]
async fn an_offer_is_not_executed_after_its_phase_worsened() {
    let world = TestHarness::new(6).await;
    let folder = tempfile::tempdir().unwrap();
    let (pipeline, store) = demo(&world, folder.path());
    let (acting, phase) = acting(&world, pipeline, ApprovalMode::Never);
    let catalog = Catalog::new(bardo::tools::ALL_TOOL_DEFS.iter().copied()).unwrap();
    let executor = executor(catalog, seen(&world), world.fabric(), Some(store), Some(acting));
    let params = serde_json::json!({"token_in": "USDC", "token_out": "WETH", "amount": "50", "chain": "ethereum",
                                    "prefer_uniswapx": false});
    let offer = match executor.offer(ToolCall::new("uniswap_execute_swap", ToolInput::Json(params))).await {
        PreviewResult::Held(offer) => *offer,
        PreviewResult::Over(response) => panic!("{response:#?}"),
    };
    phase.send_replace(Phase::Terminal);
    let response = offer.commit().await;
    assert_ne!(response.status, CallStatus::Success, "a position was opened in the terminal phase");
}

/// The demo preset with its own ledger.
fn demo(world: &TestHarness, folder: &Path) -> (Pipeline, Store) {
    let store = Store::open(StoreConfig::at(folder.join("ledger.db")), ALL_MIGRATIONS).unwrap();
    (world.pipeline_under(ruled(world, folder, &store, ""), &store), store)
}

/// The transaction that consumes the permit sees a phase that worsened during the preparation.
#[tokio::test(flavor = "multi_thread")]
async fn a_phase_that_worsens_at_the_reservation_consumes_nothing() {
    let world = TestHarness::new(1).await;
    let (phase, own) = watch::channel(Phase::Thriving);
    let asked = PhaseRequest { phase: Phase::Thriving, own: Some(own) };
    let preview = world.pipeline.preview(world.swap(HUNDRED).await, world.wallet.clone(), asked).await.unwrap();
    *world.book.on_reserve.lock().unwrap() = Hook::new(move || {
        phase.send_replace(Phase::Defensive);
    })
    .into_inner()
    .unwrap();
    let nonce = world.nonce().await;
    let refusal = world.pipeline.commit(preview.permit.permit_id, Consent::None).await.unwrap_err();
    assert_eq!(refusal.code, ErrorCode::PermitMismatch, "{refusal:?}");
    assert_eq!(world.wallet.signatures.load(Ordering::SeqCst), 0);
    assert_eq!(world.nonce().await, nonce);
    assert!(world.book.ends.lock().unwrap().is_empty(), "nothing was held");
}

/// Each step of a plan is checked in its present phase.
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_stops_before_opening_a_position_in_a_worse_phase() {
    let world = TestHarness::new(2).await;
    let folder = tempfile::tempdir().unwrap();
    let (pipeline, _store) = demo(&world, folder.path());
    let (phase, own) = watch::channel(Phase::Thriving);
    let asked = PhaseRequest { phase: Phase::Thriving, own: Some(own) };
    let preview = pipeline.preview(world.swap(HUNDRED).await, world.wallet.clone(), asked).await.unwrap();
    *world.wallet.on_sign.lock().unwrap() = Hook::new(move || {
        phase.send_replace(Phase::Terminal);
    })
    .into_inner()
    .unwrap();
    let before = world.balance(&world.weth).await;
    let committed = pipeline.commit(preview.permit.permit_id, Consent::None).await.unwrap();
    assert!(
        matches!(committed.state, CommitState::Stopped { code: ErrorCode::SafetyPhaseBlocked, .. }),
        "{:?}",
        committed.state
    );
    assert_eq!(world.balance(&world.weth).await, before);
    assert_eq!(
        world.allowance(world.contract(KnownContract::Permit2)).await,
        U256::ZERO,
        "and what it allowed is taken back"
    );
}

/// A policy text that an earlier version of the program parsed differently was not approved.
#[tokio::test(flavor = "multi_thread")]
async fn a_preset_that_a_new_version_loosened_waits_for_approval() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(StoreConfig::at(folder.path().join("ledger.db")), ALL_MIGRATIONS).unwrap();
    let path = folder.path().join("policy.toml");
    std::fs::write(&path, "preset = \"demo\"\n").unwrap();
    // The policy in force under the earlier program: the same text, with another hash because its preset differed.
    store
        .write(|transaction| -> Result<(), bardo::store::StoreError> {
            transaction.execute(
                "INSERT INTO policy_held (one, hash, sources, at) VALUES (1, ?1, ?2, 1)",
                (vec![7u8; 32], "[\"preset = \\\"demo\\\"\\n\"]"),
            )?;
            Ok(())
        })
        .await
        .unwrap();
    let keeper = Arc::new(PolicyKeeper::open(path, PolicyPreset::ReadOnly).unwrap());
    let rules = OperatorPolicyEngine::new(keeper, StopFile::in_folder(folder.path()), store.clone(), []);
    rules.resume(SystemClock.now_millis()).await.unwrap();
    assert!(rules.pending().is_some(), "other rules than were agreed to hold, and nobody was asked");
}

/// A tightened policy is stored as the one in force, even if it is first read on a thread without a runtime, as in the
/// gate.
#[tokio::test(flavor = "multi_thread")]
async fn a_tightened_policy_first_read_during_a_reservation_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(StoreConfig::at(folder.path().join("ledger.db")), ALL_MIGRATIONS).unwrap();
    let path = folder.path().join("policy.toml");
    std::fs::write(&path, "preset = \"demo\"\n").unwrap();
    let keeper = Arc::new(PolicyKeeper::open(path.clone(), PolicyPreset::ReadOnly).unwrap());
    let rules = Arc::new(OperatorPolicyEngine::new(keeper, StopFile::in_folder(folder.path()), store.clone(), []));
    rules.resume(SystemClock.now_millis()).await.unwrap();
    std::fs::write(&path, "preset = \"demo\"\n[spending_limits]\nhot_lane = \"5\"\n").unwrap();
    let seen = {
        let rules = Arc::clone(&rules);
        std::thread::spawn(move || rules.policy().hash()).join().unwrap()
    };
    let held = || {
        store
            .read(|connection| {
                let hash: Result<Vec<u8>, _> =
                    connection.query_row("SELECT hash FROM policy_held", [], |row| row.get(0));
                hash.map_err(bardo::store::StoreError::from)
            })
            .unwrap()
    };
    for _ in 0..2_400 {
        if held() == seen.as_slice() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("what holds was not kept");
}

/// The operator approves a looser policy in another process, reconsiders and restores the file: the looser one is then
/// no longer approved.
#[tokio::test(flavor = "multi_thread")]
async fn a_restored_policy_file_revokes_the_approval_of_a_looser_one() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Store::open(StoreConfig::at(folder.path().join("ledger.db")), ALL_MIGRATIONS).unwrap();
    let path = folder.path().join("policy.toml");
    let (tight, loose) = ("preset = \"demo\"\nmax_gas_usd = \"5\"\n", "preset = \"demo\"\nmax_gas_usd = \"50\"\n");
    std::fs::write(&path, tight).unwrap();
    let rules = async |store: Store| {
        let keeper = Arc::new(PolicyKeeper::open(path.clone(), PolicyPreset::ReadOnly).unwrap());
        let rules = OperatorPolicyEngine::new(keeper, StopFile::in_folder(folder.path()), store, []);
        rules.resume(SystemClock.now_millis()).await.unwrap();
        rules
    };
    let (here, there) = (open(), open());
    let console = rules(here.clone()).await;
    let agreed = console.policy().hash();
    let held = || {
        here.read(|connection| {
            let hash: Result<Vec<u8>, _> = connection.query_row("SELECT hash FROM policy_held", [], |row| row.get(0));
            hash.map_err(bardo::store::StoreError::from)
        })
        .unwrap()
    };
    assert_eq!(held(), agreed.as_slice());
    // Files of the same length and time look alike; these differ in length.
    std::fs::write(&path, loose).unwrap();
    assert_eq!(console.policy().hash(), agreed, "the looser one waits");
    let other = rules(there).await;
    let waits = other.pending().unwrap().policy.hash();
    let now = SystemClock.now_millis();
    let proof = proof(folder.path(), Authorisation::AcceptPolicy { hash: waits }, now);
    other.accept(waits, "operator", now, proof).await.unwrap().unwrap();
    assert_eq!(held(), waits.as_slice());
    // The console never adopted it. The file is restored.
    std::fs::write(&path, tight).unwrap();
    assert_eq!(console.policy().hash(), agreed);
    for _ in 0..2_400 {
        if held() != waits.as_slice() {
            // If the looser one is written again, it waits for a decision.
            std::fs::write(&path, loose).unwrap();
            assert!(rules(open()).await.pending().is_some());
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("the looser policy holds without anybody's word");
}

/// A standing approval ends with a stop, even with one that was lifted before anyone read it.
#[tokio::test(flavor = "multi_thread")]
async fn a_short_halt_ends_standing_approvals() {
    let world = TestHarness::new(3).await;
    let folder = tempfile::tempdir().unwrap();
    let (pipeline, _store) = demo(&world, folder.path());
    let look =
        async || Arc::new(pipeline.preview(world.swap(11 * HUNDRED).await, world.wallet.clone(), ASKED).await.unwrap());
    let first = look().await;
    let mut ticket = world.queue.ask(Arc::clone(&first));
    let similar = OperatorAnswer::Similar { millis: 600_000, total: "9000".parse().unwrap() };
    world.queue.answer(first.permit.permit_id, similar).unwrap();
    assert!(matches!(ticket.decision().await, Decision::Approved(_)));
    assert!(world.queue.granted(&*look().await).is_some());
    let stop = StopFile::in_folder(folder.path());
    let now = SystemClock.now_millis();
    stop.raise(StopLevel::Halt, "a doubt", "operator", now).unwrap();
    lift(folder.path());
    assert!(world.queue.granted(&*look().await).is_none(), "it outlived a halt");
}
