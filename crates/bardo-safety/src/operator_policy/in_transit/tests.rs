use alloy::primitives::{Address, B256, U256};
use serde_json::json;

use super::*;
use crate::sample::bridge_order;
use crate::simulate::SimulatedEffects;
use crate::value::UnknownValue;
use bardo_base::model::{ActionClass, Phase};
use golem_chain::fork::{PinnedBlock, Simulation, StateChanges};

const ACCOUNT: Address = Address::repeat_byte(9);
const USDC: Address = Address::repeat_byte(2);
const DEADLINE: u32 = 1_000;
const LOCKED_IN: u64 = 7;

/// Five dollars of a stablecoin, locked in block 7.
fn order() -> OrderRecord {
    let locked = json!({"chain_id": 31_337, "hash": B256::ZERO, "block": LOCKED_IN});
    OrderRecord { card: Some(card(locked)), ..bridge_order(ACCOUNT, USDC, DEADLINE) }
}

fn card(locked: serde_json::Value) -> String {
    let asset = json!({"symbol": "USDC", "address": USDC, "decimals": 6});
    json!({
        "intent_id": B256::repeat_byte(1), "status": "filling", "source_chain": "ethereum", "destination_chain": "base",
        "token_in": asset, "token_out": asset, "amount_in": "5", "min_out": "4", "estimated_output": "5",
        "recipient": ACCOUNT, "settler": ACCOUNT, "bids": [], "locked": locked, "fill_deadline": DEADLINE,
        "money": "", "remark": "",
    })
    .to_string()
}

fn facts(block: u64, time: u64) -> CheckInputs {
    let pinned = PinnedBlock { chain_id: 31_337, number: block, hash: B256::ZERO };
    let price: Usd = "0.99".parse().unwrap();
    CheckInputs {
        asked: false,
        now_millis: 0,
        block_time: time,
        phase: Phase::Thriving,
        stop: None,
        tokens: [].into(),
        values: Err(UnknownValue::because("not asked")),
        portfolio: Ok(Portfolio { lowest: [(USDC, price)].into(), ..Portfolio::default() }),
        simulation: Some(SimulatedEffects {
            pinned,
            gas_used: 1,
            gas_cost: U256::ZERO,
            class: ActionClass::NewPosition,
            leaves: false,
            reduce_only: false,
            only_revokes: false,
            moves: vec![],
            paid: vec![],
            lending: None,
            simulation: Simulation { pinned, outcomes: vec![], changes: StateChanges::default() },
        }),
    }
}

#[test]
fn a_locked_order_counts_at_the_lowest_price_until_it_can_be_refunded() {
    let deadline = u64::from(DEADLINE);
    let told = |block, time| carried(&order(), &facts(block, time));
    let worth = MicroUsd::new(4_950_000).unwrap();
    assert_eq!(told(LOCKED_IN, 500), Some(OpenBridgeValue::OnItsWay(worth)));
    assert_eq!(told(LOCKED_IN, deadline), Some(OpenBridgeValue::OnItsWay(worth)));
    assert_eq!(told(LOCKED_IN, deadline + 1), None);
    // The balances of the block before still include it, so it would count twice.
    assert_eq!(told(LOCKED_IN - 1, 500), Some(OpenBridgeValue::InWallet(worth)));
}

#[test]
fn an_order_still_in_the_wallet_has_a_weight_and_is_not_counted_twice() {
    let five = MicroUsd::new(4_950_000).unwrap();
    let both = [
        (ReservationId::stored(1), OpenBridgeValue::InWallet(five)),
        (ReservationId::stored(2), OpenBridgeValue::OnItsWay(five)),
    ];
    // Counted once as a balance and once as open; each order has its part in the marks.
    assert_eq!(worth(&both), five);
    assert_eq!(weighed(&both), [(ReservationId::stored(1), five), (ReservationId::stored(2), five)]);
}

#[test]
fn an_order_paid_out_without_a_seen_delivery_no_longer_counts() {
    let now = facts(LOCKED_IN, 500);
    let place = json!({"chain_id": 31_337, "hash": B256::ZERO, "block": LOCKED_IN + 1});
    let with = |fields: &[&str]| {
        let mut card: serde_json::Value = serde_json::from_str(order().card.as_deref().unwrap()).unwrap();
        for field in fields {
            card[*field] = place.clone();
        }
        carried(&OrderRecord { card: Some(card.to_string()), ..order() }, &now)
    };
    assert!(matches!(with(&[]), Some(OpenBridgeValue::OnItsWay(_))));
    assert!(matches!(with(&["delivered"]), Some(OpenBridgeValue::OnItsWay(_))));
    assert!(matches!(with(&["delivered", "repaid"]), Some(OpenBridgeValue::OnItsWay(_))));
    assert_eq!(with(&["repaid"]), None);
    assert_eq!(with(&["refunded"]), None);
}

#[test]
fn an_order_with_unknown_state_counts_as_nothing() {
    let now = || facts(LOCKED_IN, 500);
    type Change = fn(&mut OrderRecord);
    let unknown: [(&str, Change); 4] = [
        ("nothing was told of it", |order| order.card = None),
        // It is not certainly in the wallet either: it may have been locked since the last poll.
        ("not seen locked", |order| order.card = Some(card(serde_json::Value::Null))),
        ("what was told cannot be read", |order| order.card = Some("{}".to_owned())),
        ("nobody knows since when", |order| {
            order.card = Some(card(json!({"chain_id": 31_337, "hash": B256::ZERO, "block": null})));
        }),
    ];
    for (why, change) in unknown {
        let mut order = order();
        change(&mut order);
        assert_eq!(carried(&order, &now()), None, "{why}");
    }
    let mut unpriced = now();
    unpriced.portfolio = Ok(Portfolio::default());
    assert_eq!(carried(&order(), &unpriced), None);
    let read_error = CheckInputs { portfolio: Err(UnknownValue::because("no balances")), ..now() };
    assert_eq!(carried(&order(), &read_error), None);
    let unsimulated = CheckInputs { simulation: None, ..now() };
    assert_eq!(carried(&order(), &unsimulated), None);
    let too_much = [1, 2].map(|id| (ReservationId::stored(id), OpenBridgeValue::OnItsWay(MicroUsd::MAX)));
    assert_eq!(worth(&too_much), MicroUsd::ZERO);
}
