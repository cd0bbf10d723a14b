//! Entries and prices in a database: stored once, in any order, and deleted with their block.

use alloy_primitives::address;

use super::*;
use crate::entry::AFTER_TRANSACTIONS;
use bardo_store::{Store, StoreConfig};

const ACCOUNT: Address = address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
const UNI: Address = address!("1f9840a85d5aF5bf1D1762F925BDADdC4201F984");

fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(StoreConfig::at(folder.path().join("books.db")), &[MIGRATIONS]).unwrap();
    (folder, store)
}

fn action(number: u64) -> Action {
    Action {
        call_id: CallId::new(number),
        golem_id: GolemId::operator(),
        tool: SafeText::clean("uniswap_execute_swap", 40),
    }
}

fn entry(block: u64, position: u64, action: Option<Action>) -> Entry {
    Entry {
        chain_id: 1,
        account: ACCOUNT,
        block: (block, B256::with_last_byte(u8::try_from(block).unwrap())),
        position,
        at: block * 12,
        tx: Some(B256::with_last_byte(7)),
        origin: Origin::Transaction,
        action,
        flows: BTreeMap::from([
            (None, Flow { received: U256::ZERO, given: U256::from(block) }),
            (Some(UNI), Flow { received: U256::MAX, given: U256::ZERO }),
        ]),
        gas: U256::from(21_000),
        note: Some(EntryNote::MayIncludeDeposit),
    }
}

async fn keep(store: &Store, entries: Vec<Entry>) {
    let work = move |tx: &Transaction<'_>| entries.iter().try_for_each(|entry| store_entry(tx, entry));
    store.write::<_, StoreError>(work).await.unwrap();
}

#[tokio::test]
async fn entries_come_back_as_they_were_whatever_the_order_and_however_often_they_were_stored() {
    let (_folder, store) = store();
    let known = action(5);
    let kept = known.clone();
    store.write::<_, StoreError>(move |tx| store_action(tx, &kept, 60)).await.unwrap();
    let mut all = vec![entry(3, 1, None), entry(3, 0, Some(known)), entry(5, AFTER_TRANSACTIONS, None)];
    keep(&store, all.iter().rev().cloned().collect()).await;
    keep(&store, all.clone()).await;
    all.sort_by_key(Entry::place);
    assert_eq!(store.read(entries).unwrap(), all);
}

#[tokio::test]
async fn a_block_that_left_the_chain_takes_its_entries_with_it() {
    let (_folder, store) = store();
    keep(&store, vec![entry(3, 0, None), entry(5, 0, None), entry(6, 0, None)]).await;
    let blocks_at = |tx: &Transaction<'_>| {
        (3..=6).try_for_each(|block| store_block(tx, 1, ACCOUNT, (block, B256::with_last_byte(1))))
    };
    store.write::<_, StoreError>(blocks_at).await.unwrap();
    let gone = store.write::<_, StoreError>(|tx| take_back(tx, 1, ACCOUNT, Some(3))).await.unwrap();
    assert_eq!(gone, 2);
    assert_eq!(store.read(entries).unwrap(), [entry(3, 0, None)]);
    assert_eq!(store.read(|c| last_block(c, 1, ACCOUNT)).unwrap().unwrap().0, 3);
    // Another account's and another chain's entries stay.
    keep(&store, vec![Entry { chain_id: 2, ..entry(9, 0, None) }]).await;
    store.write::<_, StoreError>(|tx| take_back(tx, 1, ACCOUNT, None)).await.unwrap();
    assert_eq!(store.read(entries).unwrap().len(), 1);
}

#[tokio::test]
async fn the_oldest_and_the_newest_blocks_are_kept() {
    let (_folder, store) = store();
    let many = |tx: &Transaction<'_>| {
        (10..1_000).try_for_each(|block| store_block(tx, 1, ACCOUNT, (block, B256::with_last_byte(1))))
    };
    store.write::<_, StoreError>(many).await.unwrap();
    let known: Vec<u64> =
        store.read(|c| blocks(c, 1, ACCOUNT)).unwrap().into_iter().map(|(number, _)| number).collect();
    assert_eq!((known.len(), known[0], known[255], known[256]), (257, 999, 744, 10));
}

#[test]
fn a_price_is_the_actions_own_or_a_near_one_and_else_missing() {
    let usd = |text: &str| text.parse::<Usd>().unwrap();
    let (mut history, own) = (PriceHistory::default(), CallId::new(1));
    history.add(1, None, 10_000, None, usd("2000"));
    history.add(1, None, 10_600, None, usd("2100"));
    history.add(1, None, 10_100, Some(own), usd("1999"));
    let at = |at, call| history.at(1, None, at, call);
    assert_eq!(at(40_000, Some(own)), Some(usd("1999")), "by the action, hours before it was included");
    assert_eq!(at(500_000, Some(own)), None, "an order that was signed days before says nothing of the price");
    assert_eq!(at(10_590, Some(own)), Some(usd("2100")), "the price at the time, not that of the decision");
    assert_eq!(at(10_000, None), Some(usd("2000")));
    assert_eq!(at(10_340, None), Some(usd("1999")), "240 seconds before, 260 after");
    assert_eq!(at(10_360, None), Some(usd("2100")), "260 seconds before, 240 after");
    assert_eq!(at(9_100, None), Some(usd("2000")), "15 minutes later");
    assert_eq!(at(9_099, None), None);
    assert_eq!(at(11_500, None), Some(usd("2100")));
    assert_eq!(at(11_501, None), None, "never estimated from an old one");
    assert_eq!(history.at(2, None, 10_000, None), None, "another chain's price is none");
    assert_eq!(history.before(1, None, 10_600 + 86_400), Some(usd("2100")));
    assert_eq!(history.before(1, None, 10_601 + 86_400), None);
}

fn facts(symbol: &str, decimals: u8, listed: bool) -> TokenFacts {
    let symbol = SafeText::clean(symbol, 40);
    TokenFacts { symbol, decimals, listed, is_dollar: false, wraps_native: false }
}

/// A contract that turns 18 decimals into 0 would make ten tokens out of ten raw units.
#[tokio::test]
async fn the_first_facts_of_a_token_stay() {
    let (_folder, store) = store();
    for (new, known) in [
        (facts("UNI", 18, false), facts("UNI", 18, false)),
        (facts("USDC", 0, false), facts("UNI", 18, false)),
        // Only the address book may rename it.
        (facts("Uniswap", 0, true), facts("Uniswap", 18, true)),
    ] {
        store.write::<_, StoreError>(move |tx| store_token(tx, 1, Some(UNI), &new)).await.unwrap();
        assert_eq!(store.read(tokens).unwrap().get(&(1, Some(UNI))), Some(&known));
    }
}

#[tokio::test]
async fn faults_are_those_of_the_last_import() {
    let (_folder, store) = store();
    let first = BTreeMap::from([(Some(UNI), TokenFault::JoinedLate), (None, TokenFault::BalanceUnreadable)]);
    let second = BTreeMap::from([(Some(Address::ZERO), TokenFault::Overflow)]);
    for found in [first, second] {
        store.write::<_, StoreError>(move |tx| store_faults(tx, (1, ACCOUNT), 7, &found)).await.unwrap();
    }
    let known: Vec<_> = store.read(faults).unwrap().into_iter().map(|((_, _, token), fault)| (token, fault)).collect();
    assert_eq!(known, [(Some(Address::ZERO), TokenFault::Overflow), (Some(UNI), TokenFault::JoinedLate)]);
}

/// A token whose balances change with every block has one unexplained entry a day.
#[tokio::test]
async fn unexplained_differences_of_a_day_are_one_entry() {
    let (_folder, store) = store();
    let found = |block: u64, at: u64, received: u64, given: u64| Entry {
        at,
        tx: None,
        position: crate::entry::UNEXPLAINED_POSITION,
        origin: Origin::Unexplained,
        gas: U256::ZERO,
        flows: BTreeMap::from([(Some(UNI), Flow { received: U256::from(received), given: U256::from(given) })]),
        ..entry(block, 0, None)
    };
    for one in [found(1, 86_400, 5, 0), found(2, 90_000, 0, 2), found(3, 172_799, 4, 0), found(4, 172_800, 1, 0)] {
        store.write::<_, StoreError>(move |tx| store_unexplained(tx, one)).await.unwrap();
    }
    let known: Vec<_> =
        store.read(entries).unwrap().into_iter().map(|one| (one.block.0, one.flows[&Some(UNI)])).collect();
    let flow = |received: u64, given: u64| Flow { received: U256::from(received), given: U256::from(given) };
    assert_eq!(known, [(3, flow(9, 2)), (4, flow(1, 0))]);
}

/// Prices of each minute over two days, with an entry in the middle of the first: a day later one in 15 minutes is left,
/// and all within 15 minutes of the entry.
#[tokio::test]
async fn old_prices_are_thinned_out_except_near_an_entry() {
    let (_folder, store) = store();
    keep(&store, vec![Entry { at: 43_200, ..entry(3, 0, None) }]).await;
    let work = |tx: &Transaction<'_>| {
        (0..2_880_u64).try_for_each(|minute| store_price(tx, (1, None), minute * 60, None, Usd::ZERO))
    };
    store.write::<_, StoreError>(work).await.unwrap();
    store.write::<_, StoreError>(|tx| thin_prices(tx, 1, 86_400)).await.unwrap();
    let count = |from: i64, to: i64| {
        let counted = "SELECT COUNT(*) FROM accounting_price WHERE at >= ?1 AND at < ?2";
        store.read(|c| Ok::<i64, StoreError>(c.query_row(counted, [from, to], |row| row.get(0))?)).unwrap()
    };
    // 1,440 minutes of the second day; 96 quarters of the first, of which the two around the entry have 15 each, and the
    // minute at its end is the first of its quarter.
    assert_eq!((count(86_400, 172_800), count(0, 86_400)), (1_440, 96 + 2 * 14));
}

#[tokio::test]
async fn a_traded_token_without_a_price_is_in_the_books() {
    let (_folder, store) = store();
    store.write::<_, StoreError>(|tx| store_traded(tx, 1, UNI)).await.unwrap();
    assert_eq!(store.read(|c| traded_tokens(c, 1)).unwrap(), [UNI]);
    assert!(store.read(|c| traded_tokens(c, 2)).unwrap().is_empty());
}
