//! A first submission that an endpoint rejected and still forwarded: its effects count as those of the signed action.

use std::sync::Arc;

use alloy::providers::Provider as _;
use bardo::base::clock::SystemClock;
use bardo::base::config::RpcUrl;
use bardo::base::error::ErrorCode;
use bardo::chain::devnet::server;
use bardo::chain::network::ChainPlan;
use bardo::chain::provider::{ChainClient, ConnectRules};
use bardo::safety::approval::Consent;
use bardo::safety::pipeline::{CommitState, RecoveryState, RecoveryStep};
use bardo::safety::policy_engine::ActionEnd;
use bardo::store::StoreError;

use bardo_testkit::harness::{ASKED, TestHarness, cents};
use bardo_testkit::rpc_proxy::{Fate, Proxy};

const HUNDRED: u64 = 100_000_000;

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_every_endpoint_rejected_counts_once_it_is_included() {
    let world = TestHarness::new(0).await;
    let served = server::serve(bardo_testkit::harness::devnet().devnet.clone(), 0).await.unwrap();
    let refusing = Proxy::start(served.url(), |method, before| match method {
        "eth_sendRawTransaction" if before == 0 => Fate::Refuse(-32000, "insufficient funds for gas * price + value"),
        _ => Fate::Pass,
    })
    .await;
    let network = world.client.network();
    let plan = ChainPlan {
        name: network.name.clone(),
        network: Some(network.clone()),
        chain_id: Some(network.chain_id),
        endpoints: vec![RpcUrl::parse(&refusing.url).unwrap()],
    };
    let client = ChainClient::connect(&plan, ConnectRules::default(), Arc::new(SystemClock)).await.unwrap();
    let pipeline = world.over_client(&client);
    let preview = pipeline.preview(world.approval(HUNDRED), world.wallet.clone(), ASKED).await.unwrap();
    let (permit_id, spent) = (preview.permit.permit_id, preview.values.spent);
    let refused = pipeline.commit(permit_id, Consent::None).await.expect_err("no endpoint took it");
    assert!(refused.message.contains("insufficient funds"), "{refused:?}");
    assert_eq!(*world.book.ends.lock().unwrap(), [ActionEnd::NotSent]);
    let held = || {
        let sum = world.store.read(|connection| -> Result<i64, StoreError> {
            Ok(connection.query_row("SELECT sum(cents) FROM book_held", [], |row| row.get(0))?)
        });
        sum.unwrap()
    };
    assert_eq!(held(), 0);

    // The rejecting endpoint has the bytes, and forwards them.
    let raw = world.store.read(|connection| -> Result<Vec<u8>, StoreError> {
        Ok(connection.query_row("SELECT raw FROM sender_transaction", [], |row| row.get(0))?)
    });
    let hash = *world.client.provider().send_raw_transaction(&raw.unwrap()).await.unwrap().tx_hash();
    // It counts before anything more is spent, whichever process finds it.
    *world.book.cap.lock().unwrap() = "250".parse().unwrap();
    let more = pipeline.preview(world.approval(2 * HUNDRED), world.wallet.clone(), ASKED).await.unwrap();
    let refused = pipeline.commit(more.permit.permit_id, Consent::None).await.expect_err("300 of 250 dollars");
    assert_eq!(refused.code, ErrorCode::SafetySpendingLimitExceeded, "{refused:?}");
    *world.book.cap.lock().unwrap() = "1000".parse().unwrap();
    let recovered = pipeline.recover().await.unwrap();
    let [one] = recovered.as_slice() else { panic!("{recovered:?}") };
    assert_eq!(
        (one.permit_id, one.hash, one.found, one.step),
        (permit_id, Some(hash), RecoveryState::Whole, RecoveryStep::CountAll)
    );
    assert_eq!(one.end, ActionEnd::Done { spent });
    assert_eq!((held(), world.book.ends.lock().unwrap().len()), (cents(spent), 2));
    assert!(world.trail().iter().any(|(kind, body)| kind == "tx:late" && body["hash"] == serde_json::json!(hash)));
    // Found once, and the account continues.
    assert_eq!(pipeline.recover().await.unwrap(), []);
    let preview = pipeline.preview(world.approval(2 * HUNDRED), world.wallet.clone(), ASKED).await.unwrap();
    let committed = pipeline.commit(preview.permit.permit_id, Consent::None).await.unwrap();
    assert_eq!(committed.state, CommitState::Done, "{:?}", committed.remarks);
}
