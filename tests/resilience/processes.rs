//! Four processes on one data directory at the spending limit and at the rate limit: never exceeded, none lost, every
//! nonce used once.

use std::collections::BTreeMap;
use std::process::Child;

use crate::fellow;
use crate::host::{Devnet, Home, ROOMY, run, settled};

/// Number of swaps that each of the four requests.
fn wanted() -> usize {
    std::env::var("BARDO_FELLOW_SWAPS").ok().and_then(|text| text.parse().ok()).unwrap_or(60)
}

/// Rate that lets seven in eight of all requests pass: most succeed, and all four processes reach the limit.
fn rate() -> usize {
    4 * wanted() * 7 / 8
}

/// Runs four processes on one folder with this trade; counts the results of their calls.
fn four_trading(home: &Home, devnet: &Devnet, trade: fellow::Trade) -> BTreeMap<String, usize> {
    // The first use creates the tables; four at once would test that instead.
    let children: Vec<Child> = (0..4)
        .map(|number| fellow::start_trading(&format!("p{number}"), wanted(), home.path(), devnet.url(), trade))
        .collect();
    let mut ended: BTreeMap<String, usize> = BTreeMap::new();
    for child in children {
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        for line in said.lines().filter(|line| line.starts_with("said ") && !line.ends_with("\"\"")) {
            println!("{line}");
        }
        let mut calls = 0;
        for line in said.lines().filter_map(|line| line.strip_prefix("ended ")) {
            let how = line.split_once(' ').unwrap().1.trim().to_owned();
            *ended.entry(how).or_default() += 1;
            calls += 1;
        }
        assert_eq!(calls, wanted(), "every call has an answer: {said}");
    }
    println!("{ended:?}");
    ended
}

/// Asserts that purchases according to the chain equal the answers and the ledger.
fn told_once(home: &Home, devnet: &Devnet, before: u128, ended: &BTreeMap<String, usize>) -> u64 {
    // Transactions in progress still reach their end, without help.
    let swaps = settled(home, devnet);
    assert_eq!(before - devnet.balance("USDC"), 3_400_000 * u128::from(swaps));
    let made = ended.iter().filter(|(how, _)| how.starts_with("Success") || how.starts_with("Partial"));
    let answered: usize = made.map(|(_, calls)| calls).sum();
    assert_eq!(swaps, answered as u64, "{ended:?}");
    // All use the same token of the same account, and none uses up another's allowance: each waits for the account
    // lock.
    assert_eq!(home.count("SELECT count(*) FROM sender_transaction WHERE state = 'reverted'"), 0, "{ended:?}");
    assert!(!ended.keys().any(|how| how.contains("REVERTED") || how.contains("MISMATCH")), "{ended:?}");
    swaps
}

#[test]
fn four_programs_never_exceed_the_rate() {
    let policy = ROOMY.replace("max_trades_per_hour = 100000", &format!("max_trades_per_hour = {}", rate()));
    let (devnet, home) = (Devnet::start(), Home::new(&policy));
    let before = devnet.balance("USDC");
    // Purchases: the rate limit does not apply to the operator's own exits.
    let ended = four_trading(&home, &devnet, fellow::PURCHASE);
    told_once(&home, &devnet, before, &ended);
    let trades = "SELECT count(*) FROM ledger_reservation WHERE trade = 1 AND state NOT IN ('not_sent', 'withdrawn')";
    assert_eq!(home.count(trades), rate() as u64, "{ended:?}");
    assert!(ended.contains_key("Blocked SAFETY_RATE_LIMITED"), "{ended:?}");
}

#[test]
fn four_programs_never_pass_the_cap() {
    let policy = ROOMY.replace("max_daily_spend_usd = \"1000000\"", "max_daily_spend_usd = \"600\"");
    let (devnet, home) = (Devnet::start(), Home::new(&policy));
    let before = devnet.balance("USDC");
    let ended = four_trading(&home, &devnet, fellow::PURCHASE);
    // Purchases: a sale for dollars counts with its possible loss, and needs approval above the limit.
    let swaps = settled(&home, &devnet);
    assert_eq!(before - devnet.balance("USDC"), 3_400_000 * u128::from(swaps), "{ended:?}");
    let spent = home.count("SELECT coalesce(sum(settled_micros), 0) FROM ledger_reservation");
    assert!(spent <= 600_000_000, "{spent} of 600 dollars");
    // Less than one more swap fits, including its worst-case gas.
    let largest = home.count("SELECT max(micros) FROM ledger_reservation");
    assert!(spent + largest > 600_000_000, "{spent} and {largest} after {swaps} swaps: {ended:?}");
    assert!(ended.contains_key("Blocked SAFETY_SPENDING_LIMIT_EXCEEDED"), "{ended:?}");
}

#[test]
fn a_stop_reaches_every_program() {
    if fellow::asked() {
        return;
    }
    let (devnet, home) = (Devnet::start(), Home::new(ROOMY));
    assert_eq!(run(&mut home.swap(devnet.url(), "first")).status(), "success");
    let children: Vec<Child> =
        (0..2).map(|number| fellow::start(&format!("p{number}"), 400, home.path(), devnet.url())).collect();
    // Once both are running, a third process stops them.
    while home.count("SELECT count(*) FROM safety_permit") < 8 {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(run(&mut home.command(&["halt", "--reason", "a test"])).code, Some(0));
    let signed = home.count("SELECT count(*) FROM safety_leg");
    for child in children {
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains("Blocked HALTED"), "{said}");
        let last = said.lines().rfind(|line| line.starts_with("ended ")).unwrap().to_owned();
        assert!(last.ends_with("Blocked HALTED"), "{last}");
    }
    // Each process may have passed its last read of the file, with one transaction.
    assert!(home.count("SELECT count(*) FROM safety_leg") <= signed + 2);
    // Lifting it needs the operator's approval on a terminal; here a folder without keys proves it.
    assert_eq!(run(&mut home.command(&["resume"])).code, Some(3));
    bardo_testkit::proof::lift(&home.path().join("data"));
    assert_eq!(run(&mut home.swap(devnet.url(), "after")).status(), "success");
    settled(&home, &devnet);
}
