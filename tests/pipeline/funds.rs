//! An order whose input tokens or allowance disappear and return. It may be filled again, so it stays reserved, and its
//! card names what is missing.

use alloy::primitives::{B256, U256};
use bardo::abi::erc20::Erc20;
use bardo::chain::network::KnownContract;
use bardo::safety::orders::OrderStage;
use bardo::uniswap::gateway::ServiceStatus;
use bardo::uniswap::order::OrderKind;
use serde_json::Value;

use crate::orders::{Fixture, ServiceBehavior, order};
use bardo_testkit::harness::TestHarness;

/// Input of the order, in raw units.
const ORDER_INPUT: u64 = 100_000_000;

/// Polls an order; returns its status and its card's remark.
async fn status_and_remark(fixture: &Fixture, hash: B256) -> (String, String) {
    let record = fixture.orders.poll(hash).await.unwrap();
    assert_eq!(record.stage, OrderStage::Submitted, "{record:#?}");
    assert!(fixture.world.book.ends.lock().unwrap().is_empty(), "its reservation stays open");
    let card: Value = serde_json::from_str(record.card.as_deref().unwrap()).unwrap();
    assert_eq!(card["status"], record.status.as_str());
    (record.status.to_string(), card["remark"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_lacks_funds_while_its_allowance_or_tokens_are_missing() {
    let fixture = Fixture::new(3, OrderKind::DutchV2, ServiceBehavior::FalseStatus(ServiceStatus::Open)).await;
    let world = &fixture.world;
    let (usdc, permit2) = (world.contract_of(&world.usdc), world.contract(KnownContract::Permit2));
    let hash = fixture.place(order("100", 3_000)).await;
    assert_eq!(status_and_remark(&fixture, hash).await.0, "open");

    // An allowance of one raw unit below the order's input.
    let allow = |value: u64| Erc20::approveCall { spender: permit2, value: U256::from(value) };
    world.send(usdc, allow(ORDER_INPUT - 1)).await;
    let (status, remark) = status_and_remark(&fixture, hash).await;
    assert_eq!(status, "insufficient_funds");
    assert!(remark.contains("USDC") && remark.contains("Permit2"), "{remark}");
    world.send(usdc, allow(ORDER_INPUT)).await;
    assert_eq!(status_and_remark(&fixture, hash).await, ("open".to_owned(), String::new()));

    // A balance of one raw unit below the order's input.
    let balance = world.balance(&world.usdc).await;
    let surplus = balance - U256::from(ORDER_INPUT - 1);
    let keeper = TestHarness::new(2).await;
    world.send(usdc, Erc20::transferCall { to: keeper.account(), value: surplus }).await;
    assert_eq!(status_and_remark(&fixture, hash).await.0, "insufficient_funds");
    // Missing funds do not end the order.
    fixture.orders.round().await.unwrap();
    assert_eq!(status_and_remark(&fixture, hash).await.0, "insufficient_funds");
    keeper.send(usdc, Erc20::transferCall { to: world.account(), value: surplus }).await;
    assert_eq!(status_and_remark(&fixture, hash).await.0, "open");
    fixture.clear().await;
}
