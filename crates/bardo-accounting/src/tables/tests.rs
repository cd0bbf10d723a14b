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
    assert_eq!(at(500_000, Some(own)), Some(usd("1999")), "by the action, whenever it was included");
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
