//! A machine's clock that is wrong, or that jumps: an attacker who answers its time requests, a battery that died, a
//! suspended laptop. The chain's blocks follow the real time throughout.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use alloy::eips::BlockNumberOrTag;
use alloy::primitives::U256;
use alloy::providers::Provider as _;
use bardo::abi::permit2::Permit2;
use bardo::base::clock::Clock as _;
use bardo::base::error::ErrorCode;
use bardo::base::model::Check;
use bardo::chain::network::{KnownContract, NetworkKind};
use bardo::chain::price::PriceChain;
use bardo::chain::provider::ChainClient;
use bardo::chain::sender::SenderRules;
use bardo::engine::{
    self, ApprovalMode, CallStatus, Catalog, ConnectedChain, Executor, ToolCall, ToolInput, ToolResponse,
};
use bardo::fabric::Finding;
use bardo::runtime::data::ALL_MIGRATIONS;
use bardo::safety::approval::Consent;
use bardo::safety::operator_policy::OperatorPolicyEngine;
use bardo::safety::pipeline::{CommitState, Pipeline};
use bardo::safety::policy::{PolicyKeeper, parse};
use bardo::safety::stop::StopFile;
use bardo::sandbox::Sandbox;
use bardo::store::{Store, StoreConfig};
use bardo::tools::ALL_TOOL_DEFS;
use serde_json::{Value, json};

use bardo_testkit::acting::{acting, executor};
use bardo_testkit::harness::{ASKED, Hook, TestHarness, sandbox};

/// Chain that makes a block for each of its own transactions only, so that its time does not run ahead.
static SANDBOX: LazyLock<Sandbox> = LazyLock::new(|| sandbox(71));

/// Clock error of more than an hour, in milliseconds.
const CLOCK_ERROR: i64 = 3_700_000;

const HUNDRED: u64 = 100_000_000;

/// Account with an executor and a new ledger, all with the clock of `world`.
struct Fixture {
    world: TestHarness,
    pipeline: Pipeline,
    executor: Executor,
    _folder: tempfile::TempDir,
}

impl Fixture {
    async fn on(kind: NetworkKind, account: usize) -> Self {
        let world = TestHarness::over(&SANDBOX, account, SenderRules::for_network(NetworkKind::Devnet, 1_000)).await;
        let mut network = world.client.network().clone();
        network.kind = kind;
        let devnet = SANDBOX.chains()[0].devnet.clone();
        let client = ChainClient::devnet(network.clone(), devnet, world.clock.clone()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(StoreConfig::at(folder.path().join("ledger.db")), ALL_MIGRATIONS).unwrap();
        let lines = "preset = \"demo\"\ncooldown_seconds = 0\nrequire_human_approval_above_usd = \"5000\"\n\
                     approve_first_seen = false\n";
        let keeper = Arc::new(PolicyKeeper::fixed(parse(lines, Path::new("policy.toml")).unwrap()));
        let rules = OperatorPolicyEngine::new(keeper, StopFile::in_folder(folder.path()), store.clone(), [network]);
        let pipeline = world.pipeline_of(&client, Arc::new(rules), &store);
        let prices = PriceChain::for_chain(&client, &Default::default(), world.clock.clone()).unwrap();
        let chains = vec![ConnectedChain::new(client, prices)];
        let seen = engine::ToolEnvironment::new(world.clock.clone(), Some(world.account()), chains, vec![]);
        let (acting, _phase) = acting(&world, pipeline.clone(), ApprovalMode::Always);
        let catalog = Catalog::new(ALL_TOOL_DEFS.iter().copied()).unwrap();
        let executor = executor(catalog, seen, world.fabric(), None, Some(acting));
        Self { world, pipeline, executor, _folder: folder }
    }

    async fn call(&self, tool: &str, params: Value) -> ToolResponse {
        self.executor.call(ToolCall::new(tool, ToolInput::Json(params))).await
    }

    async fn swap(&self, from: &str, to: &str, amount: &str) -> ToolResponse {
        let params = json!({"token_in": from, "token_out": to, "amount": amount, "chain": "ethereum",
                            "prefer_uniswapx": false});
        self.call("uniswap_execute_swap", params).await
    }

    async fn allow_router(&self, seconds: u64) -> ToolResponse {
        let params = json!({"token": "USDC", "amount": "5", "chain": "ethereum", "expires_in": seconds});
        self.call("token_approve", params).await
    }

    /// Time of the chain's latest block, in seconds.
    async fn head_time(&self) -> u64 {
        let head = self.world.client.provider().get_block_by_number(BlockNumberOrTag::Latest).await.unwrap();
        head.unwrap().header.timestamp
    }

    fn signatures(&self) -> usize {
        self.world.wallet.signatures.load(Ordering::SeqCst)
    }
}

/// Asserts that the check of the clocks blocked a call.
fn assert_blocked_by_clocks(response: &ToolResponse) {
    let error = response.error.as_ref().unwrap_or_else(|| panic!("{response:#?}"));
    assert_eq!(error.code(), ErrorCode::ChainInconsistent, "{response:#?}");
    let json = serde_json::to_value(response).unwrap().to_string();
    assert!(json.contains("\"clocks_agree\""), "{json}");
    assert!(json.contains("Set this machine's clock"), "{json}");
}

/// Asserts what passes with a clock that is wrong by `shift` milliseconds: an exit and a revocation, but no purchase,
/// allowance or payment.
async fn act_with_a_wrong_clock(account: usize, shift: i64) {
    let fixture = Fixture::on(NetworkKind::Real, account).await;
    // With a right clock, the same purchase passes.
    let bought = fixture.swap("USDC", "WETH", "100").await;
    assert_eq!(bought.status, CallStatus::Success, "{bought:#?}");
    let permit2 = fixture.world.contract(KnownContract::Permit2);
    let params = json!({"token": "USDC", "spender": permit2.to_string(), "amount": "5", "chain": "ethereum"});
    let allowed = fixture.call("token_approve", params).await;
    assert_eq!(allowed.status, CallStatus::Success, "{allowed:#?}");

    fixture.world.clock.shift(shift);
    let before = fixture.signatures();
    assert_blocked_by_clocks(&fixture.swap("USDC", "WETH", "100").await);
    assert_blocked_by_clocks(&fixture.allow_router(300).await);
    let params = json!({"token": "USDC", "recipient": "0x5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e01", "amount": "1",
                        "chain": "ethereum"});
    assert_blocked_by_clocks(&fixture.call("wallet_transfer_token", params).await);
    assert_eq!(fixture.signatures(), before);

    let sold = fixture.swap("WETH", "USDC", "0.01").await;
    assert_eq!(sold.status, CallStatus::Success, "{sold:#?}");
    let revoked = fixture.call("token_revoke", json!({"token": "USDC", "chain": "ethereum"})).await;
    assert_eq!(revoked.status, CallStatus::Success, "{revoked:#?}");
    assert_eq!(fixture.world.allowance(permit2).await, U256::ZERO);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_behind_blocks_all_but_exits_and_revocations() {
    act_with_a_wrong_clock(1, -CLOCK_ERROR).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_ahead_blocks_all_but_exits_and_revocations() {
    act_with_a_wrong_clock(6, CLOCK_ERROR).await;
}

/// A ledger without entries knows no later time than the machine's.
#[tokio::test(flavor = "multi_thread")]
async fn with_a_clock_that_is_behind_a_new_data_folder_reserves_nothing() {
    let fixture = Fixture::on(NetworkKind::Real, 2).await;
    fixture.world.clock.shift(-CLOCK_ERROR);
    let refusal = fixture.pipeline.preview(fixture.world.approval(HUNDRED), fixture.world.wallet.clone(), ASKED).await;
    let refusal = refusal.expect_err("the clock is behind");
    let verdict = refusal.verdicts.first().unwrap();
    assert_eq!(verdict.check, Check::ChainHealth);
    let Finding::ClocksDiffer { machine, chain, tolerance_seconds, .. } = verdict.finding else {
        panic!("{verdict:?}")
    };
    assert_eq!(tolerance_seconds, 120);
    assert!(machine.abs_diff(fixture.world.clock.now_millis() / 1_000) < 60, "{machine}");
    assert!(chain.abs_diff(fixture.head_time().await) < 60, "{chain}");
    // A small clock error blocks nothing.
    for correction in [CLOCK_ERROR - 60_000, 120_000] {
        fixture.world.clock.shift(correction);
        let preview =
            fixture.pipeline.preview(fixture.world.approval(HUNDRED), fixture.world.wallet.clone(), ASKED).await;
        assert!(preview.is_ok(), "{preview:#?}");
    }
}

/// A clock that is set forward or back while a permit waits invalidates the permit.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_jumps_between_preview_and_commit_signs_nothing() {
    let fixture = Fixture::on(NetworkKind::Real, 3).await;
    for shift in [-CLOCK_ERROR, CLOCK_ERROR, -90_000, 90_000] {
        let proposal = fixture.world.swap(HUNDRED).await;
        let preview = fixture.pipeline.preview(proposal, fixture.world.wallet.clone(), ASKED).await.unwrap();
        let before = fixture.signatures();
        fixture.world.clock.shift(shift);
        let refused = fixture.pipeline.commit(preview.permit.permit_id, Consent::None).await;
        assert_eq!(refused.expect_err("the clock jumped").code, ErrorCode::PermitExpired, "{shift}");
        assert_eq!(fixture.signatures(), before, "{shift}");
        fixture.world.clock.shift(-shift);
    }
}

/// If the clock is set after the first transaction of a plan is signed, the rest is not signed, and the allowance is
/// revoked.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_jumps_between_two_transactions_of_a_plan_stops_the_rest() {
    let fixture = Fixture::on(NetworkKind::Real, 4).await;
    for shift in [-CLOCK_ERROR, CLOCK_ERROR] {
        let proposal = fixture.world.swap(HUNDRED).await;
        let preview = fixture.pipeline.preview(proposal, fixture.world.wallet.clone(), ASKED).await.unwrap();
        let (clock, once) = (fixture.world.clock.clone(), std::sync::Once::new());
        *fixture.world.wallet.on_sign.lock().unwrap() =
            Hook::new(move || once.call_once(|| clock.shift(shift))).into_inner().unwrap();
        let committed = fixture.pipeline.commit(preview.permit.permit_id, Consent::None).await.unwrap();
        *fixture.world.wallet.on_sign.lock().unwrap() = None;
        let CommitState::Stopped { code, why } = &committed.state else { panic!("{shift}: {:?}", committed.state) };
        assert_eq!(*code, ErrorCode::ChainInconsistent, "{shift}: {why}");
        assert_eq!(
            fixture.world.allowance(fixture.world.contract(KnownContract::Permit2)).await,
            U256::ZERO,
            "{shift}"
        );
        fixture.world.clock.shift(-shift);
    }
}

/// A devnet has its own time, so the clocks are not compared there, and expirations follow the chain's time.
#[tokio::test(flavor = "multi_thread")]
async fn expirations_follow_the_chains_time_whatever_the_machine_shows() {
    let fixture = Fixture::on(NetworkKind::Devnet, 5).await;
    let (permit2, router) =
        (fixture.world.contract(KnownContract::Permit2), fixture.world.contract(KnownContract::UniversalRouterV210));
    let token = fixture.world.contract_of(&fixture.world.usdc);
    for shift in [-CLOCK_ERROR, CLOCK_ERROR] {
        fixture.world.clock.shift(shift);
        let before = fixture.head_time().await;
        let allowed = fixture.allow_router(300).await;
        assert_eq!(allowed.status, CallStatus::Success, "{allowed:#?}");
        let call = Permit2::allowanceCall { owner: fixture.world.account(), token, spender: router };
        let ends: u64 = fixture.world.ask(permit2, call).await.expiration.to();
        let after = fixture.head_time().await;
        assert!((before + 300..=after + 300).contains(&ends), "{shift}: {ends}, from {before} to {after}");
        assert_eq!(allowed.data.unwrap()["expires_at"], json!(ends));
        fixture.world.clock.shift(-shift);
        // Let the chain's time pass, so that the next allowance has another expiration.
        tokio::time::sleep(Duration::from_millis(1_100)).await;
    }
}
