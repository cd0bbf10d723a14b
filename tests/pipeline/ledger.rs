//! The ledger under several simultaneous processes: no spending limit and no rate limit is exceeded.

use std::path::Path;
use std::process::{Command, Stdio};

use alloy::primitives::address;
use bardo::base::id::{CallId, GolemId};
use bardo::base::model::RuleName;
use bardo::base::units::BasisPoints;
use bardo::safety::ledger::{
    self, CapPeriod, LedgerCaps, LedgerError, MicroUsd, Originator, ReservationOutcome, ReservationRequest, SpendCap,
};
use bardo::store::{Store, StoreConfig};

/// Environment variables that give the second process its file and its mode.
const FILE: &str = "BARDO_TEST_LEDGER";
const KIND: &str = "BARDO_TEST_KIND";
/// Number of attempts of each process.
const ATTEMPTS: usize = 600;
/// Number of concurrent attempts in each process.
const AT_ONCE: usize = 12;
const NOW: u64 = 1_800_000_000_000;

fn dollars(whole: u64) -> MicroUsd {
    MicroUsd::new(whole * 1_000_000).unwrap()
}

/// A daily limit of 1,000 dollars, or 100 trades per hour; the other limit is out of reach.
fn caps(kind: &str) -> LedgerCaps {
    let (day, trades_per_hour) = if kind == "cap" { (1_000, 10_000) } else { (1_000_000, 100) };
    LedgerCaps {
        spend: vec![SpendCap {
            rule: RuleName::MaxDailySpendUsd,
            span: CapPeriod::Day,
            limit: dollars(day),
            scaled: None,
        }],
        tokens: [].into(),
        trades_per_hour,
        revocations_per_hour: 1_000_000,
        revocations_per_day: None,
        calls_per_minute: 10_000,
        cooldown: 0,
        failures: u32::MAX,
        cool_off: 0,
        stop_loss: BasisPoints::new(10_000).unwrap(),
    }
}

fn party() -> Originator {
    Originator {
        call_id: CallId::new(NOW),
        golem_id: GolemId::operator(),
        chain_id: 31_337,
        account: address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266"),
    }
}

fn request() -> ReservationRequest {
    ReservationRequest {
        spend: dollars(3),
        gas: MicroUsd::ZERO,
        tokens: [].into(),
        trade: true,
        only_revokes: false,
        by_operator: false,
        exit: false,
        sold: [].into(),
        asked: false,
        traded: MicroUsd::ZERO,
        exempt: false,
        equity: dollars(10_000),
    }
}

fn open(path: &Path) -> Store {
    let patience = std::time::Duration::from_secs(60);
    Store::open(StoreConfig { path: path.to_owned(), patience }, &[ledger::MIGRATIONS]).unwrap()
}

/// Reserves as often as possible, settling meanwhile; returns the number of successes.
async fn attempt(store: &Store, kind: &'static str) -> usize {
    let tasks = (0..AT_ONCE).map(|lane| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut taken = 0;
            for round in 0..ATTEMPTS / AT_ONCE {
                let at = NOW + round as u64;
                let reserved = store
                    .write(move |transaction| {
                        match ledger::reserve(transaction, at, &caps(kind), &party(), &request()) {
                            Ok(id) => Ok(Some(id)),
                            Err(LedgerError::Exceeded(_)) => Ok(None),
                            Err(other) => Err(other),
                        }
                    })
                    .await
                    .unwrap();
                let Some(id) = reserved else { continue };
                taken += 1;
                // Some are done, some are unclear, some stay as a dead process leaves them.
                let outcome = match (lane + round) % 3 {
                    0 => ReservationOutcome::Done { spent: dollars(3) },
                    1 => ReservationOutcome::Unclear,
                    _ => continue,
                };
                store.write(move |transaction| ledger::settle(transaction, at, id, outcome, u32::MAX)).await.unwrap();
            }
            taken
        })
    });
    futures::future::join_all(tasks).await.into_iter().map(|taken| taken.unwrap()).sum()
}

fn kind_of(text: &str) -> &'static str {
    if text == "cap" { "cap" } else { "rate" }
}

/// The other process: prints the number of its successful reservations.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by the tests of this file, as a process of its own"]
async fn second_process() {
    // Without these variables the test was not started as the other process.
    let (Some(path), Ok(kind)) = (std::env::var_os(FILE), std::env::var(KIND)) else { return };
    let taken = attempt(&open(Path::new(&path)), kind_of(&kind)).await;
    println!("\ntaken={taken}");
}

async fn two_processes(kind: &'static str) -> (usize, ledger::LedgerUsage) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let store = open(&path);
    let other = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "ledger::second_process", "--ignored", "--nocapture"])
        .env(FILE, &path)
        .env(KIND, kind)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let own = attempt(&store, kind).await;
    let other = tokio::task::spawn_blocking(move || other.wait_with_output().unwrap()).await.unwrap();
    let text = String::from_utf8(other.stdout).unwrap();
    let theirs = text.lines().find_map(|line| line.strip_prefix("taken=")).unwrap_or_else(|| panic!("{text}"));
    let used = store
        .read(|connection| {
            let party = party();
            ledger::usage(connection, NOW, party.chain_id, party.account, [], 0)
        })
        .unwrap();
    (own + theirs.parse::<usize>().unwrap(), used)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twelve_hundred_attempts_of_two_processes_never_exceed_a_cap() {
    let (taken, used) = two_processes("cap").await;
    // At most 333 times three dollars fit into 1,000.
    assert_eq!((taken, used.spent(CapPeriod::Day)), (333, dollars(999)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twelve_hundred_attempts_of_two_processes_never_exceed_a_rate() {
    let (taken, used) = two_processes("rate").await;
    assert_eq!((taken, used.trades_hour, used.spent(CapPeriod::Day)), (100, 100, dollars(300)));
}
