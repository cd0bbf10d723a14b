//! A thousand simultaneous commits, from two processes on one ledger, with a spending limit and with a rate limit: the
//! real rules, ledger and commits, including signatures and transactions. Exactly as many pass as the limit permits.

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

const FILE: &str = "BARDO_TEST_CROWD";
const KIND: &str = "BARDO_TEST_CROWD_KIND";

/// Wei given each time: a hundredth of a native token, about 34 dollars.
const SOLD: u64 = 10_000_000_000_000_000;

/// Accounts of this process, and of the other. Each process has its own devnet, so each account belongs to one.
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

/// Buys UNI with the native token: a trade without allowances, so that none invalidates another, and a purchase, which
/// counts with all that it spends.
async fn purchase(world: &TestHarness) -> Proposal {
    let (router, amount) = (world.contract(KnownContract::UniversalRouter), U256::from(SOLD));
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
    let coin = TokenInfo::native(world.client.network());
    Proposal {
        outflows: vec![Outflow { token: coin.clone(), amount }],
        inflows: vec![Inflow { token: uni.clone(), at_least: least, expected, recipient: world.account() }],
        trade: Some(trade((coin, amount), (uni.clone(), expected, least), slippage, now, deadline)),
        recipients: vec![world.account()],
        ..world.proposal(ProposalIntent::Swap, vec![main])
    }
}

/// Results of one process's commits.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Came {
    /// Number of purchases, according to the chain.
    done: usize,
    /// Number of refusals by the spending limit or the rate limit.
    refused: usize,
}

struct Stand {
    world: TestHarness,
    pipeline: Pipeline,
    permits: Vec<bardo::base::id::PermitId>,
    nonce: u64,
}

/// Previews everything before anything is spent, so that each preview passes.
async fn previewed(folder: &Path, kind: &str, store: &Store, accounts: [usize; 3]) -> Vec<Stand> {
    let mut worlds = Vec::new();
    // One after the other: other tests wait for accounts, too.
    for account in accounts {
        worlds.push(TestHarness::new(account).await);
    }
    let stands = worlds.into_iter().map(|world| async move {
        let rules = rules(folder, kind, store, &world);
        let pipeline = world.pipeline_with(rules, store, Duration::from_secs(1_800));
        let mut permits = Vec::new();
        for _ in 0..EACH {
            let preview = pipeline.preview(purchase(&world).await, world.wallet.clone(), ASKED).await.unwrap();
            permits.push(preview.permit.permit_id);
        }
        let nonce = world.nonce().await;
        Stand { world, pipeline, permits, nonce }
    });
    futures::future::join_all(stands).await
}

/// Commits one in each process before all others, so that both take part however the machine schedules them.
async fn first(stands: &mut [Stand]) {
    let stand = &mut stands[0];
    let committed = stand.pipeline.commit(stand.permits.pop().unwrap(), Consent::None).await.unwrap();
    assert_eq!(committed.state, CommitState::Done, "{:?}", committed.remarks);
}

/// Commits all others at once.
async fn committed(stands: Vec<Stand>) -> Came {
    let mut came = Came { done: 1, refused: 0 };
    let commits = stands.iter().flat_map(|stand| {
        let pipeline = stand.pipeline.clone();
        stand.permits.iter().map(move |permit| {
            let (pipeline, permit) = (pipeline.clone(), *permit);
            tokio::spawn(async move { pipeline.commit(permit, Consent::None).await })
        })
    });
    let commits: Vec<_> = commits.collect();
    for commit in commits {
        match commit.await.unwrap() {
            Ok(committed) => {
                assert_eq!(committed.state, CommitState::Done, "{:?}", committed.remarks);
                came.done += 1;
            }
            Err(refusal) => {
                let expected = [ErrorCode::SafetySpendingLimitExceeded, ErrorCode::SafetyRateLimited];
                assert!(expected.contains(&refusal.code), "{refusal:#?}");
                came.refused += 1;
            }
        }
    }
    // The answers agree with the accounts' balances on chain.
    let mut sent = 0;
    for stand in &stands {
        sent += stand.world.nonce().await - stand.nonce;
    }
    assert_eq!(sent, came.done as u64);
    came
}

/// The other process: reports its previews and its first commit, waits for a line each time, commits the rest, and
/// reports the results.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by the tests of this file, as a process of its own"]
async fn other_half() {
    let (Some(folder), Ok(kind)) = (std::env::var_os(FILE), std::env::var(KIND)) else { return };
    let folder = Path::new(&folder);
    let mut stands = previewed(folder, &kind, &open(folder), ACCOUNTS[1]).await;
    println!("\nready");
    let mut word = String::new();
    std::io::stdin().read_line(&mut word).unwrap();
    first(&mut stands).await;
    println!("\nfirst");
    std::io::stdin().read_line(&mut word).unwrap();
    let came = committed(stands).await;
    println!("\ncame={} {}", came.done, came.refused);
}

/// The other process, which is ended on drop.
struct Other(Child);

impl Drop for Other {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _waited = self.0.wait();
    }
}

async fn two_processes(kind: &'static str) -> (Came, tempfile::TempDir) {
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
    let (mut word, told) = (other.0.stdin.take().unwrap(), other.0.stdout.take().unwrap());
    let (lines, mut heard) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        BufReader::new(told).lines().map_while(Result::ok).try_for_each(|line| lines.send(line))
    });
    let mut stands = previewed(folder.path(), kind, &store, ACCOUNTS[0]).await;
    while heard.recv().await.expect("it ended before it was ready") != "ready" {}
    word.write_all(b"go\n").unwrap();
    first(&mut stands).await;
    while heard.recv().await.expect("it ended before its first commit") != "first" {}
    word.write_all(b"go on\n").unwrap();
    let own = committed(stands).await;
    let theirs = loop {
        let line = heard.recv().await.expect("it ended without a word");
        if let Some(came) = line.strip_prefix("came=") {
            let (done, refused) = came.split_once(' ').unwrap();
            break Came { done: done.parse().unwrap(), refused: refused.parse().unwrap() };
        }
    };
    assert!(own.done > 0 && theirs.done > 0, "both got something through: {own:?} {theirs:?}");
    let came = Came { done: own.done + theirs.done, refused: own.refused + theirs.refused };
    assert_eq!(came.done + came.refused, OFFERED, "each has an answer");
    (came, folder)
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
    let (came, folder) = two_processes("cap").await;
    let (used, code, rules) = after_a_restart(folder.path(), "cap").await;
    assert_eq!(code, ErrorCode::SafetySpendingLimitExceeded);
    assert_eq!(rules, ["max_daily_spend_usd"]);
    let spent = used.spent(CapPeriod::Day);
    let dollars = |amount: u64| ledger::MicroUsd::new(amount * 1_000_000).unwrap();
    assert!(spent <= dollars(600), "{spent} of 600");
    // Less than one more fits: a hundredth of a native token at 3,400 dollars, some gas, and the worst-case gas.
    assert!(spent >= dollars(520), "{spent} of 600 after {came:?}");
    assert!((14..=17).contains(&came.done), "{came:?}");
    assert_eq!(used.trades_hour as usize, came.done, "none is lost, none is counted twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_commits_of_two_processes_never_exceed_a_rate_even_after_a_restart() {
    let (came, folder) = two_processes("rate").await;
    let (used, code, rules) = after_a_restart(folder.path(), "rate").await;
    assert_eq!(came.done, 20);
    assert_eq!(used.trades_hour, 20);
    assert_eq!((code, rules), (ErrorCode::SafetyRateLimited, vec!["max_trades_per_hour".to_owned()]));
}
