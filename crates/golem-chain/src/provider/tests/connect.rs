//! Tests of connecting by a plan: comparison of ids, choice of the network, and errors.

use super::{
    PATIENT, rules,
    server::{CHAIN_ID, Reaction, Server, dead_url, result},
};
use crate::{
    devnet::{ChainConfig, Devnet, DevnetConfig, RunningConfig},
    network::{AddressBook, ChainPlan, KnownContract, Network, NetworkKind, by_id},
    provider::{ChainClient, ConnectError, ConnectRules, EndpointCondition, HttpLimits, ProviderError},
};
use alloy::providers::Provider;
use bardo_base::{clock::SystemClock, config::RpcUrl};
use serde_json::json;
use std::sync::Arc;

fn plan(name: &str, chain_id: Option<u64>, urls: &[&str]) -> ChainPlan {
    ChainPlan {
        name: name.into(),
        network: match name {
            "ethereum" => by_id(1).cloned(),
            _ => None,
        },
        chain_id,
        endpoints: urls.iter().map(|url| RpcUrl::parse(url).unwrap()).collect(),
    }
}

async fn connect(plan: ChainPlan) -> Result<ChainClient, ConnectError> {
    let limits = HttpLimits { timeout: PATIENT, connect_timeout: PATIENT, max_body: 1 << 16 };
    ChainClient::connect(&plan, ConnectRules { limits, retry: rules(1) }, Arc::new(SystemClock)).await
}

/// Server of a chain that knows its id and height, but has no description.
async fn node(chain_id: u64) -> Server {
    Server::start(chain_id, |_, question| {
        Reaction::Body(match question["method"].as_str() {
            Some("eth_blockNumber") => result(question, json!("0x10")),
            Some("eth_getBlockByNumber") => result(question, json!({"number": "0x10", "timestamp": "0x65"})),
            _ => {
                let error = json!({"code": -32601, "message": "no such method"});
                json!({"jsonrpc": "2.0", "id": question["id"], "error": error}).to_string()
            }
        })
    })
    .await
}

#[tokio::test]
async fn an_unknown_chain_counts_as_real_money() {
    let node = node(987_654).await;
    let client = connect(plan("mine", None, &[&node.url])).await.unwrap();
    assert_eq!((client.chain_id(), client.network().kind), (987_654, NetworkKind::Real));
    assert_eq!(client.network().name, "mine");
    assert_eq!(client.provider().get_block_number().await.unwrap(), 16);
}

#[tokio::test]
async fn a_wrong_id_names_what_was_expected_and_what_was_found() {
    let node = node(5).await;
    for plan in [plan("ethereum", None, &[&node.url]), plan("mine", Some(1), &[&node.url])] {
        let error = connect(plan).await.unwrap_err();
        assert!(matches!(error, ConnectError::WrongChain { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("chain id 5") && text.contains(" is 1"), "{text}");
    }
}

#[tokio::test]
async fn endpoints_that_disagree_are_an_error_and_dead_ones_are_not() {
    let (one, other) = (node(77).await, node(78).await);
    let dead = dead_url().await;
    let error = connect(plan("mine", None, &[&one.url, &other.url])).await.unwrap_err().to_string();
    assert!(error.contains("returns chain id 77") && error.contains("returns 78"), "{error}");

    let client = connect(plan("mine", None, &[&dead, &one.url])).await.unwrap();
    assert_eq!(client.provider().get_block_number().await.unwrap(), 16);

    let error = connect(plan("mine", None, &[&dead])).await.unwrap_err();
    let ConnectError::Silent { failures, .. } = &error else { panic!("{error:?}") };
    assert!(matches!(failures[..], [ProviderError::Unreachable { .. }]), "{failures:?}");
}

#[tokio::test]
async fn a_devnet_describes_itself() {
    let devnet = Server::start(CHAIN_ID, |_, question| {
        assert_eq!(question["method"], "bardo_describe");
        let chain = json!({
            "name": "ethereum",
            "chain_id": CHAIN_ID,
            "rpc": "http://127.0.0.1:8545",
            "contracts": {"permit2": "0x000000000022D473030F116dDEE9F6B43aC78BA3"},
        });
        Reaction::Body(result(question, json!({"chains": [chain]})))
    })
    .await;
    let client = connect(plan("ethereum", None, &[&devnet.url])).await.unwrap();
    assert_eq!((client.chain_id(), client.network().kind), (CHAIN_ID, NetworkKind::Devnet));
    let permit2 = client.network().book.contract(KnownContract::Permit2);
    assert_eq!(permit2.unwrap().to_string(), "0x000000000022D473030F116dDEE9F6B43aC78BA3");
}

#[tokio::test]
async fn a_chain_of_this_process_is_watched_like_any_other() {
    let chain = ChainConfig::default();
    assert_eq!(chain.rules.chain_id, CHAIN_ID);
    let devnet = Devnet::spawn(DevnetConfig { chain, running: RunningConfig::default() }).unwrap();
    devnet.mine().await.unwrap();
    let clock = Arc::new(SystemClock);

    let other = Network::devnet("base", 31_338, AddressBook::default());
    let error = ChainClient::devnet(other, devnet.clone(), clock.clone()).unwrap_err();
    assert_eq!(error, ConnectError::OtherDevnet { expected: 31_338, found: CHAIN_ID });

    let network = Network::devnet("ethereum", CHAIN_ID, AddressBook::default());
    let client = ChainClient::devnet(network, devnet, clock).unwrap();
    assert_eq!(client.provider().get_block_number().await.unwrap(), 1);
    let mut health = client.health_handle();
    let first = health.next().await.unwrap();
    assert_eq!((first.condition, first.head.map(|head| head.number)), (EndpointCondition::Healthy, Some(1)));
}
