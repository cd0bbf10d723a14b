//! Two concurrent polls of one order return the same state.

use std::time::Duration;

use bardo::safety::orders::OrderRecord;
use bardo::store::StoreError;
use bardo::uniswap::gateway::ServiceStatus;
use bardo::uniswap::order::OrderKind;
use serde_json::Value;

use crate::orders::{Fixture, ServiceBehavior, order};
use bardo_testkit::harness::devnet;

/// Position of an order's card on its curve: the time of the block it was polled at, in seconds.
fn card_position(record: &OrderRecord) -> u64 {
    let card: Value = serde_json::from_str(record.card.as_deref().unwrap()).unwrap();
    card["position"].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poll_during_another_polls_write_returns_no_older_state() {
    let fixture = Fixture::new(4, OrderKind::DutchV2, ServiceBehavior::FalseStatus(ServiceStatus::Open)).await;
    let hash = fixture.place(order("40", 3_000)).await;
    let before = card_position(&fixture.orders.poll(hash).await.unwrap());
    // A later second, and so another card.
    devnet().devnet.mine().await.unwrap();
    // The ledger's only writer is busy: a poll that has read the new block cannot have stored it yet.
    let (store, (release, released)) = (fixture.world.store.clone(), std::sync::mpsc::channel::<()>());
    let (starts, started) = tokio::sync::oneshot::channel();
    let writing = tokio::spawn(async move {
        let work = move |_: &rusqlite::Transaction<'_>| {
            let _sent = starts.send(());
            let _released = released.recv();
            Ok::<_, StoreError>(())
        };
        store.write(work).await
    });
    started.await.unwrap();
    let poll = || {
        let orders = fixture.orders.clone();
        tokio::spawn(async move { orders.poll(hash).await.unwrap() })
    };
    let (mut one, mut other) = (poll(), poll());
    // Time for a premature answer. A correct poll does not return before the writer is free.
    let early = tokio::time::timeout(Duration::from_secs(1), async {
        tokio::select! {
            record = &mut one => record,
            record = &mut other => record,
        }
    });
    let early = early.await.map(|record| card_position(&record.unwrap()));
    drop(release);
    writing.await.unwrap().unwrap();
    assert!(early.is_err(), "a poll returned second {early:?} before a later state was stored");
    for record in [one, other] {
        assert!(card_position(&record.await.unwrap()) > before, "both polls return the later block's state");
    }
    fixture.clear().await;
}
