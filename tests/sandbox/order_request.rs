//! `POST /order` on the devnet requires what the real service's document requires: a request whose quote describes the
//! encoded order. The names are copied from that document.

use alloy::primitives::{Address, Bytes, U256};
use bardo::base::service::ServiceError;
use bardo::chain::permit2::Permit2Domain;
use bardo::chain::service::JsonService;
use bardo::sandbox::contracts::PERMIT2;
use bardo::sandbox::keys::DevnetAccount;
use bardo::sandbox::plan::SandboxToken;
use bardo::sandbox::{BlockPace, MarketMode, Sandbox, SandboxConfig, services};
use bardo::uniswap::order::{AuctionTerms, OrderAmounts, OrderDraft, OrderKind};
use bardo::uniswap::service::submission;
use serde_json::{Value, json};

use crate::world::START;

const OF_ALL: [&str; 9] =
    ["chainId", "nonce", "reactor", "swapper", "deadline", "validationContract", "validationData", "input", "outputs"];
const OF_DUTCH: [&str; 4] = ["startTime", "endTime", "exclusiveFiller", "exclusivityOverrideBps"];
const OF_PRIORITY: [&str; 3] = ["auctionStartBlock", "baselinePriorityFeeWei", "cosigner"];

#[tokio::test(flavor = "multi_thread")]
async fn an_order_without_what_the_document_requires_is_not_taken() {
    let config = SandboxConfig {
        seed: 4,
        start_time: START,
        pace: BlockPace::Manual,
        clock: None,
        market: MarketMode::Off,
        keeper: true,
    };
    let sandbox = Sandbox::boot(&config, &|_| {}).unwrap();
    let served = services::serve(&sandbox, 0).await.unwrap();
    let service = JsonService::new(&served.url()).unwrap();
    let chain = sandbox.chain("ethereum").unwrap();
    let user = DevnetAccount::development_accounts().unwrap().swap_remove(1);
    let harness = chain.background_actors.order_service();
    let next = chain.devnet.head().borrow().header.number + 1;
    let over_blocks = AuctionTerms::CosignedBlocks { over: 30, base_fee: 0, per_gwei: U256::ZERO };
    let by_priority = AuctionTerms::PriorityFee { start_block: next + 2, baseline: 0, mps_per_wei: U256::from(1) };
    for (kind, auction, least_out, more) in [
        (OrderKind::DutchV2, AuctionTerms::CosignedTimes, 8, &OF_DUTCH as &[&str]),
        (OrderKind::DutchV3, over_blocks, 8, &OF_DUTCH),
        (OrderKind::Priority, by_priority, 9, &OF_PRIORITY),
    ] {
        let order = OrderDraft {
            reactor: harness.reactor(kind).unwrap(),
            swapper: user.address(),
            recipient: user.address(),
            nonce: U256::from(77),
            deadline: chain.devnet.head().borrow().header.timestamp + 100,
            cosigner: chain.deployment.cosigner,
            token_in: chain.deployment.token(SandboxToken::Usdc).unwrap(),
            token_out: chain.deployment.weth,
            legs: OrderAmounts::ExactIn {
                amount_in: U256::from(1_000_000),
                start_out: U256::from(9),
                least_out: U256::from(least_out),
            },
            auction,
        };
        let order = order.order().unwrap();
        let digest = order.permit().digest(&Permit2Domain { chain_id: 31_337, permit2: PERMIT2 });
        let signature: Bytes = user.sign_digest(31_337, digest).unwrap();
        let whole = submission(31_337, &order, &signature);

        for name in OF_ALL.iter().chain(more) {
            let mut body = whole.clone();
            assert!(body["quote"]["orderInfo"].as_object_mut().unwrap().remove(*name).is_some(), "{kind} {name}");
            let said = refused(&service, &body).await;
            assert!(said.contains(name), "{kind} without {name}: {said}");
        }
        let stranger = json!(Address::repeat_byte(0x77));
        for (pointer, value, says) in [
            ("/quote/orderInfo/nonce", json!("78"), "nonce"),
            ("/quote/orderInfo/reactor", stranger.clone(), "reactor"),
            ("/quote/orderInfo/swapper", stranger.clone(), "swapper"),
            ("/quote/orderInfo/input/token", stranger.clone(), "input"),
            ("/quote/orderInfo/input", json!({}), "input"),
            ("/quote/orderInfo/outputs", json!([]), "outputs"),
            ("/quote/orderInfo/outputs/0/recipient", json!(7), "outputs"),
        ] {
            let mut body = whole.clone();
            *body.pointer_mut(pointer).unwrap() = value;
            let said = refused(&service, &body).await;
            assert!(said.contains(says), "{kind} {pointer}: {said}");
        }
        // None of these was stored, and the complete one is accepted.
        let taken = service.post("/order", &whole).await.unwrap();
        assert_eq!((&taken["orderId"], &taken["orderStatus"]), (&json!(order.hash()), &json!("open")), "{kind}");
    }
}

async fn refused(service: &JsonService, body: &Value) -> String {
    match service.post("/order", body).await {
        Err(ServiceError::Refused(said)) => said.to_string(),
        other => panic!("{body}: {other:?}"),
    }
}
