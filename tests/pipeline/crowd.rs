//! A thousand simultaneous commits of two processes with one ledger, under a spending limit and under a rate limit.
//! Rules, ledger and commits are real, including signatures and transactions. Exactly as many succeed as the limit
//! permits.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command as Process, Stdio};
use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::aliases::U24;
use alloy::primitives::{Address, U256};
use bardo::abi::uniswap_v3::QuoterV2;
use bardo::base::clock::{Clock as _, SystemClock};
use bardo::base::error::ErrorCode;
use bardo::base::units::BasisPoints;
use bardo::chain::network::KnownContract;
use bardo::chain::token::{self, TokenInfo};
use bardo::runtime::data::ALL_MIGRATIONS;
use bardo::safety::approval::Consent;
use bardo::safety::ledger::{self, CapPeriod};
use bardo::safety::operator_policy::OperatorPolicyEngine;
use bardo::safety::pipeline::{CommitState, Pipeline};
use bardo::safety::proposal::{Inflow, LegPurpose, Outflow, PlanLeg, Proposal, ProposalIntent};
use bardo::store::{Store, StoreConfig};
use bardo::uniswap::router::{
    CALLER, RouterCommand, RouterExecution, RouterVersion, SwapAmounts, SwapCommand, SwapPath as Hops, THE_ROUTER,
    V3Path,
};

use bardo_testkit::acting::ruled;
use bardo_testkit::harness::{ASKED, TestHarness, leg, trade};

/// Environment variables of the other process: folder of the ledger, and kind of limit.
const FILE: &str = "BARDO_TEST_CROWD";
const KIND: &str = "BARDO_TEST_CROWD_KIND";

/// Amount sold by each purchase, in wei: a hundredth of a native token, about 34 dollars.
const SOLD: u64 = 10_000_000_000_000_000;

/// Accounts of this process and of the other. Each process has its own devnet, so no account is used by both.
const ACCOUNTS: [[usize; 3]; 2] = [[0, 5, 6], [1, 2, 3]];

/// Number of commits of one account.
const EACH: usize = 168;

/// Number of commits of both processes.
const OFFERED: usize = 6 * EACH;

const CAP: &str = "max_daily_spend_usd = \"600\"\nmax_trades_per_hour = 100000\n";
const RATE: &str = "max_trades_per_hour = 20\nmax_daily_spend_usd = \"100000\"\nmax_monthly_spend_usd = \"100000\"\n";

fn policy_of(kind: &str) -> &'static str {
    if kind == "cap" { CAP } else { RATE }
}

fn open(folder: &Path) -> Store {
    let patience = Duration::from_secs(60);
    Store::open(StoreConfig { path: folder.join("ledger.db"), patience }, ALL_MIGRATIONS).unwrap()
}

fn rules(folder: &Path, kind: &str, store: &Store, world: &TestHarness) -> Arc<OperatorPolicyEngine> {
    let lines = format!("max_consecutive_failures = 100000\nmax_quote_age_seconds = 3600\n{}", policy_of(kind));
    ruled(world, folder, store, &lines)
}

/// Purchase of UNI with the native token. It needs no allowance, so that no purchase invalidates another, and counts
/// with its full input.
async fn purchase(world: &TestHarness) -> Proposal {
    let (router, amount) = (world.contract(KnownContract::UniversalRouterV210), U256::from(SOLD));
    let uni = token::resolve("UNI", world.client.network(), world.client.provider()).await.unwrap();
    let (weth, out) = (world.contract_of(&world.weth), world.contract_of(&uni));
    let params = QuoterV2::QuoteExactInputSingleParams {
        tokenIn: weth,
        tokenOut: out,
        amountIn: amount,
        fee: U24::from(3_000),
        sqrtPriceLimitX96: Default::default(),
    };
    let quoted =
        world.ask(world.contract(KnownContract::QuoterV2), QuoterV2::quoteExactInputSingleCall { params }).await;
    let (expected, slippage) = (quoted.amountOut, BasisPoints::new(100).unwrap());
    let least = slippage.minimum_out(expected);
    let now = SystemClock.now_millis();
    let deadline = now / 1_000 + 3_000;
    let execution = RouterExecution {
        commands: vec![
            RouterCommand::WrapEth { recipient: THE_ROUTER, amount },
            RouterCommand::Swap(SwapCommand {
                path: Hops::V3(V3Path::new(weth, vec![(3_000, out)]).unwrap()),
                exact: SwapAmounts::In { amount, out_min: least },
                recipient: CALLER,
                payer_is_user: false,
                min_hop_prices: vec![],
            }),
        ],
        deadline: Some(U256::from(deadline)),
    };
    let main = PlanLeg { value: amount, ..leg(LegPurpose::Main, router, execution.encode(RouterVersion::V2_0)) };
    let native = TokenInfo::native(world.client.network());
    Proposal {
        outflows: vec![Outflow { token: native.clone(), amount }],
        inflows: vec![Inflow { token: uni.clone(), at_least: least, expected, recipient: world.account() }],
        trade: Some(trade((native, amount), (uni.clone(), expected, least), slippage, now, deadline)),
        recipients: vec![world.account()],
        ..world.proposal(ProposalIntent::Swap, vec![main])
    }
}

/// Results of one process's commits.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct CommitCounts {
    /// Number of purchases, according to the chain.
    done: usize,
    /// Number of refusals by the spending limit or the rate limit.
    refused: usize,
}

/// One account with its previews.
struct PreviewedAccount {
    world: TestHarness,
    pipeline: Pipeline,
    permits: Vec<bardo::base::id::PermitId>,
    nonce: u64,
}

/// Previews all purchases before the first is committed, so that each preview passes.
async fn preview_all(folder: &Path, kind: &str, store: &Store, accounts: [usize; 3]) -> Vec<PreviewedAccount> {
    let mut worlds = Vec::new();
    // One after the other, since other tests wait for accounts as well.
    for account in accounts {
        worlds.push(TestHarness::new(account).await);
    }
    let accounts = worlds.into_iter().map(|world| async move {
        let rules = rules(folder, kind, store, &world);
        let pipeline = world.pipeline_with(rules, store, Duration::from_secs(1_800));
        let mut permits = Vec::new();
        for _ in 0..EACH {
            let preview = pipeline.preview(purchase(&world).await, world.wallet.clone(), ASKED).await.unwrap();
            permits.push(preview.permit.permit_id);
        }
        let nonce = world.nonce().await;
        PreviewedAccount { world, pipeline, permits, nonce }
    });
    futures::future::join_all(accounts).await
}

/// Commits one purchase. Each process does so before all others are committed, so that both take part however the
/// machine schedules them.
async fn commit_first(accounts: &mut [PreviewedAccount]) {
    let account = &mut accounts[0];
    let committed = account.pipeline.commit(account.permits.pop().unwrap(), Consent::None).await.unwrap();
    assert_eq!(committed.state, CommitState::Done, "{:?}", committed.remarks);
}

/// Commits all remaining purchases at once.
async fn commit_rest(accounts: Vec<PreviewedAccount>) -> CommitCounts {
    let mut counts = CommitCounts { done: 1, refused: 0 };
    let commits = accounts.iter().flat_map(|account| {
        let pipeline = account.pipeline.clone();
        account.permits.iter().map(move |permit| {
            let (pipeline, permit) = (pipeline.clone(), *permit);
            tokio::spawn(async move { pipeline.commit(permit, Consent::None).await })
        })
    });
    let commits: Vec<_> = commits.collect();
    for commit in commits {
        match commit.await.unwrap() {
            Ok(committed) => {
                assert_eq!(committed.state, CommitState::Done, "{:?}", committed.remarks);
                counts.done += 1;
            }
            Err(refusal) => {
                let expected = [ErrorCode::SafetySpendingLimitExceeded, ErrorCode::SafetyRateLimited];
                assert!(expected.contains(&refusal.code), "{refusal:#?}");
                counts.refused += 1;
            }
        }
    }
    // The answers agree with the accounts' nonces on the chain.
    let mut sent = 0;
    for account in &accounts {
        sent += account.world.nonce().await - account.nonce;
    }
    assert_eq!(sent, counts.done as u64);
    counts
}

/// The other process: reports its previews and its first commit, waits for a line each time, commits the rest, and
/// reports the results.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by the tests of this file, as a process of its own"]
async fn other_half() {
    let (Some(folder), Ok(kind)) = (std::env::var_os(FILE), std::env::var(KIND)) else { return };
    let folder = Path::new(&folder);
    let mut accounts = preview_all(folder, &kind, &open(folder), ACCOUNTS[1]).await;
    println!("\nready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    commit_first(&mut accounts).await;
    println!("\nfirst");
    std::io::stdin().read_line(&mut line).unwrap();
    let counts = commit_rest(accounts).await;
    println!("\ncame={} {}", counts.done, counts.refused);
}

/// The other process, which is ended on drop.
struct Other(Child);

impl Drop for Other {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _waited = self.0.wait();
    }
}

async fn two_processes(kind: &'static str) -> (CommitCounts, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let other = Process::new(std::env::current_exe().unwrap())
        .args(["--exact", "crowd::other_half", "--ignored", "--nocapture"])
        .env(FILE, folder.path())
        .env(KIND, kind)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut other = Other(other.unwrap());
    let (mut input, output) = (other.0.stdin.take().unwrap(), other.0.stdout.take().unwrap());
    let (lines, mut received) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| lines.send(line))
    });
    let mut accounts = preview_all(folder.path(), kind, &store, ACCOUNTS[0]).await;
    while received.recv().await.expect("the other process ended before it was ready") != "ready" {}
    input.write_all(b"go\n").unwrap();
    commit_first(&mut accounts).await;
    while received.recv().await.expect("the other process ended before its first commit") != "first" {}
    input.write_all(b"go on\n").unwrap();
    let own = commit_rest(accounts).await;
    let theirs = loop {
        let line = received.recv().await.expect("the other process ended without its results");
        if let Some(counts) = line.strip_prefix("came=") {
            let (done, refused) = counts.split_once(' ').unwrap();
            break CommitCounts { done: done.parse().unwrap(), refused: refused.parse().unwrap() };
        }
    };
    assert!(own.done > 0 && theirs.done > 0, "both processes committed a purchase: {own:?} {theirs:?}");
    let counts = CommitCounts { done: own.done + theirs.done, refused: own.refused + theirs.refused };
    assert_eq!(counts.done + counts.refused, OFFERED, "every commit has an answer");
    (counts, folder)
}

/// The ledger as a new process sees it after both have ended.
async fn after_a_restart(folder: &Path, kind: &str) -> (ledger::LedgerUsage, ErrorCode, Vec<String>) {
    let world = TestHarness::new(0).await;
    let store = open(folder);
    let rules = rules(folder, kind, &store, &world);
    let pipeline = world.pipeline_with(rules, &store, Duration::from_secs(60));
    let used =
        store.read(|connection| ledger::usage(connection, SystemClock.now_millis(), 31_337, Address::ZERO, [], 0));
    let refusal = pipeline.preview(purchase(&world).await, world.wallet.clone(), ASKED).await.unwrap_err();
    (used.unwrap(), refusal.code, refusal.violations.into_iter().map(|one| one.rule.to_string()).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_commits_of_two_processes_never_exceed_a_cap_even_after_a_restart() {
    let (counts, folder) = two_processes("cap").await;
    let (used, code, rules) = after_a_restart(folder.path(), "cap").await;
    assert_eq!(code, ErrorCode::SafetySpendingLimitExceeded);
    assert_eq!(rules, ["max_daily_spend_usd"]);
    let spent = used.spent(CapPeriod::Day);
    let dollars = |amount: u64| ledger::MicroUsd::new(amount * 1_000_000).unwrap();
    assert!(spent <= dollars(600), "{spent} of 600");
    // Less than one more purchase fits: a hundredth of a native token at 3,400 dollars, and the worst-case gas.
    assert!(spent >= dollars(520), "{spent} of 600 after {counts:?}");
    assert!((14..=17).contains(&counts.done), "{counts:?}");
    assert_eq!(used.trades_hour as usize, counts.done, "each trade counts once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_commits_of_two_processes_never_exceed_a_rate_even_after_a_restart() {
    let (counts, folder) = two_processes("rate").await;
    let (used, code, rules) = after_a_restart(folder.path(), "rate").await;
    assert_eq!(counts.done, 20);
    assert_eq!(used.trades_hour, 20);
    assert_eq!((code, rules), (ErrorCode::SafetyRateLimited, vec!["max_trades_per_hour".to_owned()]));
}
