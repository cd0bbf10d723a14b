//! Ends of orders and intents on a chain with several endpoints, one of which lies: its answer alone ends nothing.

use std::sync::Arc;
use std::time::Duration;

use alloy::eips::BlockId;
use alloy::primitives::{Address, B256, Bytes, U256};
use alloy::providers::Provider as _;
use alloy::providers::bindings::IMulticall3;
use alloy::rpc::types::Filter;
use alloy::sol_types::{SolCall as _, SolEvent as _, SolValue as _};
use bardo::abi::erc20::Erc20;
use bardo::abi::erc7683::OriginSettler::{self, depositsReturn};
use bardo::abi::permit2::Permit2;
use bardo::abi::uniswapx::Reactor;
use bardo::base::clock::SystemClock;
use bardo::base::config::RpcUrl;
use bardo::base::units::Usd;
use bardo::chain::devnet::{Devnet, server};
use bardo::chain::network::{ChainPlan, DataFees, Network};
use bardo::chain::permit2::{nonce_position, nonce_used};
use bardo::chain::price::PriceChain;
use bardo::chain::provider::{ChainClient, ConnectRules};
use bardo::chain::token::TokenId;
use bardo::safety::chain_snapshot::SnapshotReader;
use bardo::safety::orders::OrderStage;
use bardo::uniswap::gateway::ServiceStatus;
use bardo::uniswap::order::OrderKind;
use serde_json::{Value, json};

use crate::bridges::Bridge;
use crate::orders::{Fixture, ServiceBehavior, UsedNonce, order, signed};
use bardo_testkit::harness::{TestHarness, devnet};
use bardo_testkit::rpc_proxy::{Fate, Proxy};

/// An honest endpoint, and one that lies about `method`.
struct Endpoints {
    honest: server::RpcServer,
    liar: Proxy,
    network: Network,
}

impl Endpoints {
    async fn new(devnet: Devnet, network: &Network, method: &'static str, lie: Value) -> Self {
        let honest = server::serve(devnet, 0).await.unwrap();
        let told = move |asked: &str, _| if asked == method { Fate::Claim(lie.clone()) } else { Fate::Pass };
        let liar = Proxy::start(honest.url(), told).await;
        Self { honest, liar, network: network.clone() }
    }

    /// Client of both endpoints.
    async fn both(&self) -> ChainClient {
        connect(&self.network, &[self.honest.url(), self.liar.url.clone()]).await
    }

    /// Client of the liar only.
    async fn believed(&self) -> ChainClient {
        connect(&self.network, std::slice::from_ref(&self.liar.url)).await
    }
}

/// Client of a chain behind these endpoints.
pub async fn connect(network: &Network, urls: &[String]) -> ChainClient {
    let plan = ChainPlan {
        name: network.name.clone(),
        network: Some(network.clone()),
        chain_id: Some(network.chain_id),
        endpoints: urls.iter().map(|url| RpcUrl::parse(url).unwrap()).collect(),
    };
    ChainClient::connect(&plan, ConnectRules::default(), Arc::new(SystemClock)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_endpoints_time_does_not_expire_an_order() {
    let fixture = Fixture::new(4, OrderKind::DutchV2, ServiceBehavior::FalseStatus(ServiceStatus::Filled)).await;
    let hash = fixture.place(order("100", 3_000)).await;
    // Results of Multicall3 for an order: its nonce unused, a time long after its deadline, enough money.
    let words = [U256::ZERO, U256::from(4_000_000_000u64), U256::MAX, U256::MAX];
    let results: Vec<_> = words
        .iter()
        .map(|word| IMulticall3::Result { success: true, returnData: Bytes::from(word.abi_encode()) })
        .collect();
    let lie = json!(Bytes::from(IMulticall3::aggregate3Call::abi_encode_returns(&results)));
    let network = fixture.world.client.network();
    let endpoints = Endpoints::new(devnet().devnet.clone(), network, "eth_call", lie).await;
    // They contradict each other: nothing is known, and nothing is freed.
    assert!(fixture.orders_over(endpoints.both().await).poll(hash).await.is_err());
    let orders = fixture.orders_over(endpoints.believed().await);
    assert_eq!(orders.record(hash).unwrap().stage, OrderStage::Submitted);
    assert!(fixture.world.book.ends.lock().unwrap().is_empty());
    // This lie would free the money if no other endpoint were asked.
    assert_eq!(orders.poll(hash).await.unwrap().status.as_str(), "expired");
    assert_eq!(fixture.world.book.ends.lock().unwrap().len(), 1);
    fixture.clear().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_endpoints_event_does_not_cancel_an_order() {
    let fixture = Fixture::new(4, OrderKind::DutchV2, ServiceBehavior::FalseStatus(ServiceStatus::Filled)).await;
    let hash = fixture.place(order("100", 3_000)).await;
    // In the previous block, the nonce was unused.
    let UsedNonce { permit2, block, .. } = fixture.use_nonce(hash).await;
    let believer = fixture.orders_over(fixture.world.client.clone());
    let (word, bit) = nonce_position(signed(&believer.record(hash).unwrap()).info().nonce);
    let owner = fixture.world.account();
    let void = Permit2::UnorderedNonceInvalidation { owner, word, mask: U256::from(1) << bit };
    let data = void.encode_log_data();
    let lie = json!([{
        "address": permit2, "topics": data.topics(), "data": data.data, "blockNumber": format!("{block:#x}"),
        "blockHash": B256::repeat_byte(1), "transactionHash": B256::repeat_byte(2), "transactionIndex": "0x0",
        "logIndex": "0x0", "removed": false,
    }]);
    let network = fixture.world.client.network();
    let endpoints = Endpoints::new(devnet().devnet.clone(), network, "eth_getLogs", lie).await;
    let record = fixture.orders_over(endpoints.both().await).poll(hash).await.unwrap();
    assert_ne!(record.stage, OrderStage::Ended, "{}", record.status);
    assert!(fixture.world.book.ends.lock().unwrap().is_empty());
    let record = fixture.orders_over(endpoints.believed().await).poll(hash).await.unwrap();
    assert_eq!((record.stage, record.status.as_str()), (OrderStage::Ended, "cancelled"));
    fixture.clear().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_endpoint_alone_does_not_refund_a_bridge_order() {
    let bridge = Bridge::open().await;
    let (id, _) = bridge.locked(600).await;
    let deposit = depositsReturn {
        user: bridge.account,
        fillDeadline: 1,
        // The settler's number for refunded.
        status: 3,
        token: Address::ZERO,
        amount: U256::ZERO,
    };
    let lie = json!(Bytes::from(OriginSettler::depositsCall::abi_encode_returns(&deposit)));
    let origin = bridge.world.chain("ethereum").unwrap().client.clone();
    let endpoints = Endpoints::new(bridge.chain("ethereum").devnet.clone(), origin.network(), "eth_call", lie).await;
    assert!(bridge.orders_over(endpoints.both().await).poll(id).await.is_err());
    assert_ne!(bridge.orders.record(id).unwrap().stage, OrderStage::Ended);
    assert_eq!(bridge.orders.poll(id).await.unwrap().status.as_str(), "filling", "by the chain's own word");
    let believed = bridge.orders_over(endpoints.believed().await).poll(id).await.unwrap();
    assert_eq!((believed.stage, believed.status.as_str()), (OrderStage::Ended, "refunded"));
}

/// A transaction that exists on the chain, as a base for a lie.
async fn any_transaction(fixture: &Fixture) -> (B256, u64) {
    let provider = fixture.world.client.provider();
    let mut number = provider.get_block_number().await.unwrap();
    loop {
        let block = provider.get_block_by_number(number.into()).await.unwrap().unwrap();
        match block.transactions.hashes().next() {
            Some(hash) => return (hash, number),
            None => number -= 1,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_endpoints_event_does_not_fill_an_order() {
    let fixture = Fixture::new(4, OrderKind::DutchV2, ServiceBehavior::FalseStatus(ServiceStatus::Filled)).await;
    let hash = fixture.place(order("100", 3_000)).await;
    // The lie's base: an existing transaction, and a nonce that was used by an unknown transaction.
    let (transaction, block) = any_transaction(&fixture).await;
    fixture.use_nonce(hash).await;
    let believer = fixture.orders_over(fixture.world.client.clone());
    let info = signed(&believer.record(hash).unwrap()).info().clone();
    let fill = Reactor::Fill {
        orderHash: hash,
        filler: Address::repeat_byte(0xf1),
        swapper: fixture.world.account(),
        nonce: info.nonce,
    };
    let data = fill.encode_log_data();
    let lie = json!([{
        "address": info.reactor, "topics": data.topics(), "data": data.data, "blockNumber": format!("{block:#x}"),
        "blockHash": B256::repeat_byte(1), "transactionHash": transaction, "transactionIndex": "0x0",
        "logIndex": "0x0", "removed": false,
    }]);
    let network = fixture.world.client.network();
    let endpoints = Endpoints::new(devnet().devnet.clone(), network, "eth_getLogs", lie).await;
    let record = fixture.orders_over(endpoints.both().await).poll(hash).await.unwrap();
    assert_ne!(record.stage, OrderStage::Ended, "{}", record.status);
    assert_ne!(record.status.as_str(), "filled");
    assert!(fixture.world.book.ends.lock().unwrap().is_empty(), "nothing is settled");
    // If no other endpoint is asked, it is believed.
    let record = fixture.orders_over(endpoints.believed().await).poll(hash).await.unwrap();
    assert_eq!((record.stage, record.status.as_str()), (OrderStage::Ended, "filled"));
    fixture.clear().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_endpoints_receipt_does_not_settle_an_order() {
    let fixture = Fixture::new(5, OrderKind::DutchV2, ServiceBehavior::Honest).await;
    let provider = fixture.world.client.provider().clone();
    let owner = fixture.world.account();
    let permit2 = fixture.world.contract(bardo::chain::network::KnownContract::Permit2);
    // A filler overlooks some orders: then they expire, and another one is placed.
    let (hash, fill) = 'placed: loop {
        let from = provider.get_block_number().await.unwrap();
        let hash = fixture.place(order("250", 40)).await;
        let nonce = signed(&fixture.orders_over(fixture.world.client.clone()).record(hash).unwrap()).info().nonce;
        let (word, _) = nonce_position(nonce);
        for _ in 0..60 {
            // In step with the clock: a chain that runs ahead would be in the future for other observers.
            tokio::time::sleep(Duration::from_millis(900)).await;
            drop(devnet().devnet.mine().await.unwrap());
            let bits = fixture.world.ask(permit2, Permit2::nonceBitmapCall { owner, word }).await;
            if nonce_used(nonce, bits) {
                let filter = Filter::new().from_block(from).event_signature(Reactor::Fill::SIGNATURE_HASH).topic1(hash);
                let logs = provider.get_logs(&filter).await.unwrap();
                break 'placed (hash, logs[0].transaction_hash.unwrap());
            }
        }
        assert_eq!(fixture.orders.poll(hash).await.unwrap().status.as_str(), "expired");
    };
    // The real receipt without its transfers: as if the fill had brought nothing.
    let mut lie: Value = provider.raw_request("eth_getTransactionReceipt".into(), [json!(fill)]).await.unwrap();
    lie["logs"] = json!([]);
    let ends = fixture.world.book.ends.lock().unwrap().len();
    let network = fixture.world.client.network();
    let endpoints = Endpoints::new(devnet().devnet.clone(), network, "eth_getTransactionReceipt", lie).await;
    assert!(fixture.orders_over(endpoints.both().await).poll(hash).await.is_err(), "they contradict each other");
    assert_ne!(fixture.orders.record(hash).unwrap().stage, OrderStage::Ended);
    assert_eq!(fixture.world.book.ends.lock().unwrap().len(), ends, "nothing is settled");
    // According to the chain there was an inflow, according to the liar there was none.
    let received = |record: &bardo::safety::orders::OrderRecord| {
        let card: Value = serde_json::from_str(record.card.as_deref().unwrap()).unwrap();
        card["fill"]["amount_out"].as_str().unwrap().to_owned()
    };
    let believed = fixture.orders_over(endpoints.believed().await).poll(hash).await.unwrap();
    assert_eq!((believed.status.as_str(), received(&believed).as_str()), ("filled", "0"));
    fixture.clear().await;
}

/// Transfers by others explain a balance only where all endpoints report the same ones.
#[tokio::test(flavor = "multi_thread")]
async fn one_endpoints_events_do_not_explain_a_balance() {
    let world = TestHarness::new(6).await;
    let (token, account) = (world.contract_of(&world.usdc), world.account());
    let transfer = Erc20::Transfer { from: Address::repeat_byte(1), to: account, value: U256::from(777) };
    let data = transfer.encode_log_data();
    let lie = json!([{
        "address": token, "topics": data.topics(), "data": data.data, "blockNumber": "0x1",
        "blockHash": B256::repeat_byte(1), "transactionHash": B256::repeat_byte(2), "transactionIndex": "0x0",
        "logIndex": "0x0", "removed": false,
    }]);
    let network = world.client.network();
    let endpoints = Endpoints::new(devnet().devnet.clone(), network, "eth_getLogs", lie).await;
    let told = async |urls: &[String]| {
        let client = connect(network, urls).await;
        let prices = PriceChain::for_chain(&client, &Default::default(), Arc::new(SystemClock)).unwrap();
        SnapshotReader::new(client, prices, Usd::whole(50_000)).transfers(account, TokenId::Erc20(token), (1, 1)).await
    };
    let (liar, honest) = (endpoints.liar.url.clone(), endpoints.honest.url());
    let lied = (U256::from(777), U256::from(777));
    assert_eq!(told(std::slice::from_ref(&liar)).await, Some(lied), "alone it is believed");
    assert_eq!(told(std::slice::from_ref(&honest)).await, Some((U256::ZERO, U256::ZERO)));
    for both in [[liar.clone(), honest.clone()], [honest, liar]] {
        assert_eq!(told(&both).await, None);
    }
}

/// A data fee that one endpoint reports lower, or without an oracle at all, is not known.
#[tokio::test(flavor = "multi_thread")]
async fn one_endpoint_alone_does_not_set_the_data_fee() {
    let world = TestHarness::new(6).await;
    let payload = world.preview(world.approval(1_000_000)).await.unwrap().payload;
    let network = world.client.network();
    let lie = json!(format!("{:#066x}", 5));
    let endpoints = Endpoints::new(devnet().devnet.clone(), network, "eth_call", lie).await;
    let told = async |urls: &[String]| {
        let client = connect(network, urls).await;
        let prices = PriceChain::for_chain(&client, &Default::default(), Arc::new(SystemClock)).unwrap();
        let reader = SnapshotReader::new(client, prices, Usd::whole(50_000));
        let reader = reader.charging(DataFees::Oracle(Address::repeat_byte(0xfe)));
        let fee = reader.data_fee(&payload, 0, BlockId::latest()).await;
        fee.map_err(|doubt| doubt.to_string())
    };
    let (liar, honest) = (endpoints.liar.url.clone(), endpoints.honest.url());
    // Twice what the oracle says: the base chain's fee may rise.
    assert_eq!(told(std::slice::from_ref(&liar)).await, Ok(U256::from(10)), "alone it is believed");
    let refused = told(&[liar, honest]).await.unwrap_err();
    assert!(refused.contains("contradict each other"), "{refused}");
}
