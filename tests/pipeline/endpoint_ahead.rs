//! An endpoint that claims to be ahead of the others: its answers about money are still contradicted.

use std::sync::Arc;

use alloy::eips::BlockId;
use alloy::primitives::{B256, Bytes, U256};
use alloy::providers::Provider as _;
use alloy::providers::bindings::IMulticall3;
use alloy::sol_types::{SolCall as _, SolValue as _};
use bardo::base::clock::{Clock as _, SystemClock};
use bardo::base::config::RpcUrl;
use bardo::chain::devnet::server;
use bardo::chain::network::{ChainPlan, KnownContract};
use bardo::chain::price::PriceChain;
use bardo::chain::provider::{ChainClient, ConnectRules, ProviderError};
use bardo::safety::chain_snapshot::SnapshotReader;
use bardo::safety::onchain_policy;
use serde_json::{Value, json};

use bardo_testkit::harness::TestHarness;
use bardo_testkit::rpc_proxy::{Fate, Proxy};

#[tokio::test(flavor = "multi_thread")]
async fn one_endpoint_alone_can_neither_add_nor_remove_contract_rules() {
    let world = TestHarness::new(0).await;
    let served = server::serve(bardo_testkit::harness::devnet().devnet.clone(), 0).await.unwrap();
    // Result of Multicall3 for the first four calls: there are no rules, whatever the rest is.
    let nothing = IMulticall3::Result { success: true, returnData: Bytes::from(U256::ZERO.abi_encode()) };
    let lie = json!(Bytes::from(IMulticall3::aggregate3Call::abi_encode_returns(&vec![nothing; 4])));
    let told = move |method: &str, _| if method == "eth_call" { Fate::Claim(lie.clone()) } else { Fate::Pass };
    let liar = Proxy::start(served.url(), told).await;
    let network = world.client.network();
    assert!(network.book.contract(KnownContract::PolicyCage).is_some());
    let latest = world.client.provider().get_block(BlockId::latest()).await.unwrap().unwrap();
    let read = async |urls: &[&str]| {
        let plan = ChainPlan {
            name: network.name.clone(),
            network: Some(network.clone()),
            chain_id: Some(network.chain_id),
            endpoints: urls.iter().map(|url| RpcUrl::parse(url).unwrap()).collect(),
        };
        let client = ChainClient::connect(&plan, ConnectRules::default(), Arc::new(SystemClock)).await.unwrap();
        let prices = PriceChain::for_chain(&client, &Default::default(), Arc::new(SystemClock)).unwrap();
        let reader = SnapshotReader::new(client, prices, "10000".parse().unwrap());
        onchain_policy::read(&reader, world.account(), BlockId::hash(latest.header.hash), latest.header.timestamp).await
    };
    assert_eq!(read(&[&liar.url]).await.unwrap(), None);
    assert!(read(&[&liar.url, &served.url()]).await.is_err(), "one endpoint alone says that there are none");
    assert_eq!(read(&[&served.url(), &served.url()]).await.unwrap(), None, "they agree");
}

/// The liar's false answer to this method.
fn lie(method: &str) -> Option<Value> {
    match method {
        "eth_getTransactionReceipt" => Some(Value::Null),
        "eth_getTransactionCount" => Some(json!("0x2000")),
        "eth_call" => Some(json!(B256::from(U256::from(7)))),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_claims_a_later_block_does_not_decide_reads_alone() {
    let world = TestHarness::new(0).await;
    let served = server::serve(bardo_testkit::harness::devnet().devnet.clone(), 0).await.unwrap();
    let head = world.client.provider().get_block_number().await.unwrap() + 10;
    let block = json!({"number": format!("{head:#x}"), "timestamp": format!("{:#x}", SystemClock.now_seconds())});
    let told = move |method: &str, _| match method {
        "eth_getBlockByNumber" => Fate::Claim(block.clone()),
        _ => lie(method).map_or(Fate::Pass, Fate::Claim),
    };
    let liar = Proxy::start(served.url(), told).await;
    let network = world.client.network();
    let plan = ChainPlan {
        name: network.name.clone(),
        network: Some(network.clone()),
        chain_id: Some(network.chain_id),
        endpoints: [served.url(), liar.url.clone()].iter().map(|url| RpcUrl::parse(url).unwrap()).collect(),
    };
    let client = ChainClient::connect(&plan, ConnectRules::default(), Arc::new(SystemClock)).await.unwrap();
    // Both have reported their heads, and the honest one has answered often enough to be judged by them.
    let mut health = client.health_handle();
    while health.now().endpoints.iter().any(|endpoint| endpoint.lag_blocks.is_none()) {
        health.next().await.unwrap();
    }
    for _ in 0..10 {
        client.provider().get_chain_id().await.unwrap();
    }
    let real = world.client.provider();
    // Other accounts make blocks of this chain, too, with and without transactions.
    let mut latest = real.get_block(BlockId::latest()).await.unwrap().unwrap();
    let hash = loop {
        if let Some(hash) = latest.transactions.hashes().next() {
            break hash;
        }
        latest = real.get_block(latest.header.parent_hash.into()).await.unwrap().unwrap();
    };
    let supply = json!({"to": world.contract_of(&world.usdc), "data": "0x18160ddd"});
    let questions = [
        ("eth_getTransactionReceipt", json!([hash])),
        ("eth_getTransactionCount", json!([world.account(), "latest"])),
        ("eth_call", json!([supply, {"blockHash": latest.header.hash}])),
    ];
    for (method, params) in questions {
        let provider = if method == "eth_call" { client.witnessed().unwrap() } else { client.provider() };
        let said: Result<Value, _> = provider.raw_request(method.into(), params.clone()).await;
        let refused = ProviderError::from(said.expect_err(method));
        assert!(matches!(refused, ProviderError::Disagreement { .. }), "{method}: {refused:?}");
        // The chain has an answer, which differs from the liar's.
        let really: Value = real.raw_request(method.into(), params).await.unwrap();
        assert_ne!(really, lie(method).unwrap(), "{method}");
    }
}
