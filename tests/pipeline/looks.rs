//! Two concurrent reads of one order return the same state.

use std::time::Duration;

use bardo::safety::orders::OrderRecord;
use bardo::store::StoreError;
use bardo::uniswap::gateway::ServiceStatus;
use bardo::uniswap::order::OrderKind;
use serde_json::Value;

use crate::orders::{Fixture, Manner, order};
use bardo_testkit::harness::devnet;

/// Second of its card.
fn seen_at(record: &OrderRecord) -> u64 {
    let card: Value = serde_json::from_str(record.card.as_deref().unwrap()).unwrap();
    card["position"].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poll_during_another_polls_write_returns_no_older_state() {
    let fixture = Fixture::new(4, OrderKind::DutchV2, Manner::Lies(ServiceStatus::Open)).await;
    let hash = fixture.place(order("40", 3_000)).await;
    let before = seen_at(&fixture.orders.poll(hash).await.unwrap());
    // A later second, and so another card.
    devnet().devnet.mine().await.unwrap();
    // The ledger's only writer is busy: a reader that has seen the block cannot have stored it yet.
    let (store, (release, released)) = (fixture.world.store.clone(), std::sync::mpsc::channel::<()>());
    let (began, begun) = tokio::sync::oneshot::channel();
    let writing = tokio::spawn(async move {
        let work = move |_: &rusqlite::Transaction<'_>| {
            let _heard = began.send(());
            let _released = released.recv();
            Ok::<_, StoreError>(())
        };
        store.write(work).await
    });
    begun.await.unwrap();
    let poll = || {
        let orders = fixture.orders.clone();
        tokio::spawn(async move { orders.poll(hash).await.unwrap() })
    };
    let (mut one, mut other) = (poll(), poll());
    // Time for a premature answer; a correct reader does not answer within it, however long it is.
    let early = tokio::time::timeout(Duration::from_secs(1), async {
        tokio::select! {
            record = &mut one => record,
            record = &mut other => record,
        }
    });
    let early = early.await.map(|record| seen_at(&record.unwrap()));
    drop(release);
    writing.await.unwrap().unwrap();
    assert!(early.is_err(), "somebody was told of second {early:?} before anything later was written down");
    for record in [one, other] {
        assert!(seen_at(&record.await.unwrap()) > before, "what both have seen is later than that");
    }
    fixture.clear().await;
}
