//! Killed as by `kill -9`, at every failpoint and at any time, and killed again during recovery.

use std::time::{Duration, Instant};

use bardo::base::failpoint::Failpoint;
use rand::{Rng as _, SeedableRng as _};
use serde_json::json;

use crate::host::{AMOUNT, Devnet, Home, ROOMY, Ran, drawn, run, settled};

/// Runs a swap under `key` that is killed at `point`.
fn killed(home: &Home, devnet: &Devnet, key: &str, point: &str) {
    let ran = run(home.swap(devnet.url(), key).env("BARDO_FAILPOINT", point));
    assert!(ran.killed(), "{point} is not on the way: {ran:?}");
}

/// Runs it again, undisturbed, and expects success.
fn done(home: &Home, devnet: &Devnet, key: &str) -> Ran {
    let ran = run(&mut home.swap(devnet.url(), key));
    assert!(matches!(ran.status(), "success" | "partial") && ran.code == Some(0), "{key}: {ran:?}");
    ran
}

/// Failpoints that a plan of two transactions passes twice.
const TWICE: [Failpoint; 8] = [
    Failpoint::Signed,
    Failpoint::InsideStore,
    Failpoint::Stored,
    Failpoint::Sending,
    Failpoint::Answered,
    Failpoint::Sent,
    Failpoint::Seen,
    Failpoint::Mined,
];

pub fn is_recovery(point: Failpoint) -> bool {
    point.name().starts_with("recovery.")
}

/// True for failpoints of orders only; see `orders`.
pub fn is_of_orders(point: Failpoint) -> bool {
    point.name().starts_with("order.")
}

/// True for failpoints of replacements only, which need a chain without blocks.
pub fn is_of_outbidding(point: Failpoint) -> bool {
    point.name().starts_with("outbid.")
}

/// True for failpoints that every swap passes.
pub fn is_of_swaps(point: Failpoint) -> bool {
    !is_recovery(point) && !is_of_orders(point) && !is_of_outbidding(point)
}

#[test]
fn after_a_kill_while_outbidding_a_swap_is_made_once() {
    let (devnet, home) = (Devnet::start(), Home::new(ROOMY));
    let mut swaps = 0;
    for point in Failpoint::ALL.iter().copied().filter(|point| is_of_outbidding(*point)) {
        let (key, before) = (point.name(), devnet.balance("WETH"));
        // No block is made: transactions wait until they are replaced.
        devnet.ask("evm_setAutomine", json!([false]));
        killed(&home, &devnet, key, key);
        devnet.ask("evm_setAutomine", json!([true]));
        devnet.ask("evm_mine", json!([]));
        done(&home, &devnet, key);
        swaps += 1;
        assert_eq!(settled(&home, &devnet), swaps, "{key}");
        assert_eq!(before - devnet.balance("WETH"), AMOUNT, "{key}: sold once");
        assert_eq!(home_swaps(&home, swaps), swaps, "{key}: counted once");
    }
    assert_eq!(swaps, 3);
}

#[test]
fn after_a_kill_at_every_failpoint_a_swap_is_made_once() {
    let (devnet, home) = (Devnet::start(), Home::new(ROOMY));
    let mut swaps = 0;
    for point in Failpoint::ALL.iter().copied().filter(|point| is_of_swaps(*point)) {
        let passes: &[u32] = if TWICE.contains(&point) { &[1, 2] } else { &[1] };
        for pass in passes {
            let place = format!("{}:{pass}", point.name());
            let (before, spent) = (devnet.balance("WETH"), home_swaps(&home, swaps));
            killed(&home, &devnet, &place, &place);
            let first = done(&home, &devnet, &place);
            swaps += 1;
            assert_eq!(settled(&home, &devnet), swaps, "{place}");
            assert_eq!(before - devnet.balance("WETH"), AMOUNT, "{place}: sold once");
            assert_eq!(home_swaps(&home, swaps), spent + 1, "{place}: counted once");
            // A repeated call is answered without being done again.
            let again = done(&home, &devnet, &place);
            assert_eq!(again.answer.unwrap()["status"], first.answer.unwrap()["status"], "{place}");
            assert_eq!(settled(&home, &devnet), swaps, "{place}: asked again");
        }
    }
}

/// Number of swaps that the ledger counts as done. Before the first run there is no ledger.
fn home_swaps(home: &Home, so_far: u64) -> u64 {
    if so_far == 0 && !home.path().join("data/ledger").exists() {
        return 0;
    }
    home.count("SELECT count(*) FROM safety_permit WHERE ended = 'done'")
}

#[test]
fn after_kills_at_every_step_of_recovery_the_result_is_the_same() {
    let (devnet, home) = (Devnet::start(), Home::new(ROOMY));
    let mut swaps = 0;
    for point in Failpoint::ALL.iter().copied().filter(|point| is_recovery(*point)) {
        // State that makes recovery pass this failpoint.
        let left: &[&str] = match point {
            Failpoint::RecoveryInsideNonces | Failpoint::RecoveryNonces => &["commit.gated"],
            Failpoint::RecoveryResending | Failpoint::RecoveryResent => &["commit.stored:2", "send.sending:1"],
            _ => &["commit.gated", "commit.stored:2", "send.answered:2"],
        };
        for begun in left {
            let key = format!("{}-{begun}", point.name());
            let before = devnet.balance("WETH");
            killed(&home, &devnet, &key, begun);
            // Twice at the same step: the first recovery must not mislead the second.
            killed(&home, &devnet, &key, point.name());
            let second = run(home.swap(devnet.url(), &key).env("BARDO_FAILPOINT", point.name()));
            if !second.killed() {
                assert_eq!(second.code, Some(0), "{key}: {second:?}");
            }
            done(&home, &devnet, &key);
            swaps += 1;
            assert_eq!(settled(&home, &devnet), swaps, "{key}");
            assert_eq!(before - devnet.balance("WETH"), AMOUNT, "{key}: sold once");
        }
    }
    // The audit log records it.
    assert!(home.count("SELECT count(*) FROM audit_entry WHERE kind = 'recovery:step'") >= 10);
    for found in ["unsigned", "waiting", "whole", "begun"] {
        let question = format!(
            "SELECT count(*) FROM audit_entry WHERE kind = 'recovery:step' AND json_extract(body, '$.found') = '{found}'"
        );
        assert!(home.count(&question) > 0, "{found} was never found");
    }
}

#[test]
fn after_kills_at_random_times_every_swap_is_made_once() {
    let kills: u64 = std::env::var("BARDO_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(100);
    let (devnet, home) = (Devnet::start(), Home::new(ROOMY));
    let seed = drawn();
    println!("seed {seed}");
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    let started = Instant::now();
    done(&home, &devnet, "first");
    // Present duration of a run, so that kills hit all of it.
    let mut whole = started.elapsed();
    let (before, began) = (devnet.balance("WETH"), settled(&home, &devnet));
    let (mut killed, mut wishes, mut answered, mut at) = (0_u64, 0_u64, 0_u64, 0);
    while killed < kills {
        let key = format!("wish-{wishes}");
        let (mut child, started) = (home.swap(devnet.url(), &key).spawn().unwrap(), Instant::now());
        let until = random.random_range(Duration::ZERO..whole.mul_f64(1.2));
        let over = loop {
            if child.try_wait().unwrap().is_some() {
                whole = (whole * 3 + started.elapsed()) / 4;
                break true;
            }
            if started.elapsed() >= until {
                break false;
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        if !over {
            child.kill().unwrap();
        }
        let ran = crate::host::finish(child);
        if ran.killed() {
            killed += 1;
        } else {
            assert!(matches!(ran.status(), "success" | "partial"), "{key}: {ran:?}");
            (wishes, answered) = (wishes + 1, answered + 1);
        }
        // Occasionally a run is not killed, and everything must be intact.
        if killed % 25 == 24 && killed != at {
            at = killed;
            if kills > 1_000 {
                println!("{killed} kills, {wishes} wishes, a run takes {whole:?}");
            }
            let started = Instant::now();
            done(&home, &devnet, &key);
            whole = (whole + started.elapsed()) / 2;
            wishes = wishes.max(1 + key.trim_start_matches("wish-").parse::<u64>().unwrap());
            assert_eq!(settled(&home, &devnet) - began, wishes, "after {killed} kills");
        }
    }
    done(&home, &devnet, &format!("wish-{wishes}"));
    wishes += 1;
    assert_eq!(settled(&home, &devnet) - began, wishes, "transactions that do what was wished");
    assert_eq!(before - devnet.balance("WETH"), AMOUNT * u128::from(wishes), "what was sold");
    println!("{killed} kills over {wishes} wishes, {answered} answered at once: each fulfilled once");
}
