//! The devnet's services over HTTP, with the clients that other processes use.

use alloy::primitives::{Address, B256, Bytes, U256};
use bardo::abi::erc7683::AcrossOrderData;
use bardo::base::service::ServiceError;
use bardo::chain::permit2::Permit2Domain;
use bardo::chain::service::JsonService;
use bardo::intents::CrossChainIntent;
use bardo::intents::gateway::{BidRequest, IntentGateway};
use bardo::intents::service::HttpIntents;
use bardo::sandbox::contracts::PERMIT2;
use bardo::sandbox::keys::DevnetAccount;
use bardo::sandbox::plan::SandboxToken;
use bardo::sandbox::{BlockPace, MarketMode, Sandbox, SandboxConfig, services};
use bardo::uniswap::gateway::{OrderGateway, ServiceStatus};
use bardo::uniswap::order::{AuctionTerms, OrderAmounts, OrderDraft, OrderKind};
use bardo::uniswap::service::HttpOrders;
use serde_json::json;

use crate::world::START;
use bardo_testkit::liar::{Liar, Lie, with_body};

fn devnet() -> Sandbox {
    let config = SandboxConfig {
        seed: 4,
        start_time: START,
        pace: BlockPace::Manual,
        clock: None,
        market: MarketMode::Off,
        keeper: true,
    };
    Sandbox::boot(&config, &|_| {}).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_and_intents_are_traded_over_http() {
    let sandbox = devnet();
    let served = services::serve(&sandbox, 0).await.unwrap();
    let service = JsonService::new(&served.url()).unwrap();
    let orders = HttpOrders::new(service.clone(), 31_337);
    let intents = HttpIntents::new(service.clone());
    assert_eq!(orders.order_report(B256::repeat_byte(1)).await.unwrap(), None);
    assert_eq!(intents.bids(B256::repeat_byte(1)).await.unwrap(), None);

    // A signed order is submitted, and returned cosigned.
    let chain = sandbox.chain("ethereum").unwrap();
    let (deployment, user) = (&chain.deployment, DevnetAccount::development_accounts().unwrap().swap_remove(1));
    let harness = chain.background_actors.order_service();
    let order = OrderDraft {
        reactor: harness.reactor(OrderKind::DutchV2).unwrap(),
        swapper: user.address(),
        recipient: user.address(),
        nonce: U256::from(77),
        deadline: chain.devnet.head().borrow().header.timestamp + 100,
        cosigner: deployment.cosigner,
        token_in: deployment.token(SandboxToken::Usdc).unwrap(),
        token_out: deployment.weth,
        legs: OrderAmounts::ExactIn {
            amount_in: U256::from(1_000_000),
            start_out: U256::from(9),
            least_out: U256::from(8),
        },
        auction: AuctionTerms::CosignedTimes,
    };
    let order = order.order().unwrap();
    let digest = order.permit().digest(&Permit2Domain { chain_id: 31_337, permit2: PERMIT2 });
    let signature = user.sign_digest(31_337, digest).unwrap();
    assert_eq!(orders.submit(&order, &signature).await.unwrap(), order.hash());
    let heard = orders.order_report(order.hash()).await.unwrap().unwrap();
    // The account has granted Permit2 no allowance.
    assert_eq!(heard.status, ServiceStatus::InsufficientFunds);
    let cosigned = heard.cosigned.unwrap();
    assert_eq!((cosigned.hash(), cosigned.cosigner_faults(31_337)), (order.hash(), vec![]));
    // A request for an order of another chain gets the answer that there is none.
    let elsewhere = HttpOrders::new(service.clone(), 31_338).order_report(order.hash()).await;
    assert!(matches!(elsewhere, Err(ServiceError::InvalidResponse(_))), "{elsewhere:?}");

    let request = BidRequest {
        origin_chain_id: 31_337,
        destination_chain_id: 31_338,
        token_in: deployment.token(SandboxToken::Usdc).unwrap(),
        amount_in: U256::from(50_000_000),
        token_out: sandbox.chain("base").unwrap().deployment.token(SandboxToken::Usdc).unwrap(),
    };
    assert_eq!(intents.quote(&request).await.unwrap().len(), 3);
    let nowhere = BidRequest { destination_chain_id: 1, ..request.clone() };
    assert!(matches!(intents.quote(&nowhere).await, Err(ServiceError::Refused(_))));
    let unknown = BidRequest { token_out: Address::repeat_byte(3), ..request };
    assert_eq!(intents.quote(&unknown).await.unwrap(), []);

    // Invalid orders are rejected with a message, and nothing of them is stored.
    let mut forged = signature.to_vec();
    forged[40] ^= 1;
    assert!(matches!(orders.submit(&order, &Bytes::from(forged)).await, Err(ServiceError::Refused(_))));
    for body in [json!(null), json!({}), json!({"routing": "DUTCH_V9"}), json!({"routing": "DUTCH_V2", "quote": 7})] {
        assert!(matches!(service.post("/order", &body).await, Err(ServiceError::Refused(_))), "{body}");
        assert!(matches!(service.post("/intents", &body).await, Err(ServiceError::Refused(_))), "{body}");
        assert!(matches!(service.post("/intents/quote", &body).await, Err(ServiceError::Refused(_))), "{body}");
    }
    assert_eq!(service.get("/nothing").await.unwrap(), None);
    assert!(matches!(service.get("/orders?orderId=7").await, Err(ServiceError::Refused(_))));
    drop(served);
    // The server ends asynchronously, once its task has received the signal.
    let gone = async {
        while !matches!(orders.submit(&order, &signature).await, Err(ServiceError::Unreachable(_))) {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), gone).await.expect("nobody answers any more");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filler_network_that_lies_over_http_is_heard_as_that() {
    let sandbox = devnet();
    let served = services::serve(&sandbox, 0).await.unwrap();
    let usdc = sandbox.chain("ethereum").unwrap().deployment.token(SandboxToken::Usdc).unwrap();
    let request = BidRequest {
        origin_chain_id: 31_337,
        destination_chain_id: 31_338,
        token_in: usdc,
        amount_in: U256::from(50_000_000),
        token_out: sandbox.chain("base").unwrap().deployment.token(SandboxToken::Usdc).unwrap(),
    };
    let intent = CrossChainIntent {
        origin_settler: Address::repeat_byte(1),
        user: Address::repeat_byte(2),
        nonce: U256::from(3),
        origin_chain_id: 31_337,
        open_deadline: 1,
        fill_deadline: 2,
        data: AcrossOrderData {
            inputToken: usdc,
            inputAmount: U256::from(50_000_000),
            outputToken: request.token_out,
            outputAmount: U256::from(49_000_000),
            destinationChainId: U256::from(31_338),
            recipient: Address::repeat_byte(2).into_word(),
            exclusiveRelayer: Address::ZERO,
            depositNonce: U256::ZERO,
            exclusivityPeriod: 0,
            message: Bytes::new(),
        },
    };
    let (id, other) = (intent.id(), B256::repeat_byte(0xee));
    let one: &'static str = format!("/intents/{id}").leak();
    let behind = |path: &'static str, status: &str, body: serde_json::Value| {
        let answer = with_body(&format!("HTTP/1.1 {status}"), body.to_string().as_bytes());
        let liar = Liar::start(&served.url(), path, Lie::Raw(answer));
        (HttpIntents::new(JsonService::new(&liar.url()).unwrap()), liar)
    };
    let is_invalid = |error: &ServiceError| matches!(error, ServiceError::InvalidResponse(_));
    // Bids for another intent, for none, and invalid bids.
    let good = json!({"filler": Address::repeat_byte(7), "name": "one", "output": "1", "seconds": 1});
    for (body, taken) in [
        (json!({"intentId": id, "bids": [good]}), true),
        (json!({"bids": [good]}), true),
        (json!({"intentId": other, "bids": [good]}), false),
        (json!({"intentId": 7, "bids": [good]}), false),
        (json!({"intentId": id, "bids": "filled"}), false),
        (json!({"intentId": id, "status": "filled"}), false),
    ] {
        let (network, _liar) = behind(one, "200 OK", body.clone());
        let told = network.bids(id).await;
        assert_eq!(told.is_ok(), taken, "{body}: {told:?}");
        assert!(told.is_ok() || told.is_err_and(|error| is_invalid(&error)), "{body}");
    }
    // The answer to a submission: the caller compares a different id, and a missing id is invalid.
    let signature = Bytes::from(vec![1; 65]);
    let (network, liar) = behind("/intents", "201 Created", json!({"intentId": other}));
    assert_eq!(network.submit(&intent, &signature).await, Ok(other));
    assert_eq!(liar.heard().len(), 1, "handed in once");
    let (network, _liar) = behind("/intents", "201 Created", json!({"intentId": "soon"}));
    assert!(network.submit(&intent, &signature).await.is_err_and(|error| is_invalid(&error)));
    // With these statuses it may have accepted the order: the client does not retry.
    for status in ["500 Internal Server Error", "502 Bad Gateway", "504 Gateway Timeout"] {
        let (network, liar) = behind("/intents", status, json!({"detail": "broken"}));
        let told = network.submit(&intent, &signature).await;
        assert!(matches!(told, Err(ServiceError::Unclear(_))), "{status}: {told:?}");
        assert_eq!(liar.heard().len(), 1, "{status}");
    }
    let (network, _liar) = behind("/intents", "400 Bad Request", json!({"errorCode": "Full", "detail": "no room"}));
    let told = network.submit(&intent, &signature).await;
    assert!(matches!(&told, Err(ServiceError::Refused(why)) if why.as_str().contains("no room")), "{told:?}");
    let (network, _liar) = behind("/intents/quote", "200 OK", json!({"bids": [{"filler": "me"}]}));
    assert!(network.quote(&request).await.is_err_and(|error| is_invalid(&error)));
}

#[test]
fn an_address_is_this_machine_or_encrypted() {
    for good in ["http://127.0.0.1:8547", "http://localhost:1", "https://trade-api.example/v1"] {
        assert!(JsonService::new(good).is_ok(), "{good}");
    }
    for bad in ["", "127.0.0.1:1", "http://example.com", "ftp://127.0.0.1", "file:///etc/passwd", "data:,x"] {
        assert!(JsonService::new(bad).is_err(), "{bad}");
    }
}
