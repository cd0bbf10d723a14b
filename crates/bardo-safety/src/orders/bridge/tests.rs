use super::*;
use crate::orders::order_end::has_arrived;
use crate::sample::bridge_order;
use crate::typed::TypedMessage;

const DEADLINE: u32 = 1_000;

fn place() -> TxPlace {
    TxPlace { chain_id: 31_338, hash: B256::ZERO, block: Some(5) }
}

/// Polls an order whose filler the origin's settler has repaid, at a time of the destination in seconds. `received` is
/// the delivery's rise of the balance, if a delivery was seen and the rise could be read. Returns the result and the
/// card's line about the money.
fn poll(received: Option<Option<u64>>, time: u64) -> (PollResult, String) {
    poll_with(received, time, false)
}

/// Polls as [`poll`] does, with endpoints of the destination that may disagree.
fn poll_with(received: Option<Option<u64>>, time: u64, endpoints_disagree: bool) -> (PollResult, String) {
    poll_with_bids(received.map(|received| (Address::ZERO, received)), time, endpoints_disagree, &[])
}

/// Polls as [`poll_with`] does, with the deliverer's address and the relayers' bids.
fn poll_with_bids(
    received: Option<(Address, Option<u64>)>,
    time: u64,
    endpoints_disagree: bool,
    bids: &[RelayerBid],
) -> (PollResult, String) {
    let record = bridge_order(Address::repeat_byte(9), Address::repeat_byte(2), DEADLINE);
    let TypedMessage::CrossChainOrder { intent, .. } = &record.message else { panic!("{record:#?}") };
    let mut destination: Header = Header::default();
    destination.inner.timestamp = time;
    let state = BridgeState {
        deposit: REPAID,
        past_open_deadline: true,
        destination,
        locked: Some(place()),
        repaid: Some(place()),
        refunded: None,
        delivery: received.map(|(filler, received)| DeliveryEvent {
            place: place(),
            filler,
            received: received.map(U256::from),
        }),
        endpoints_disagree,
        refund_from: None,
    };
    let result = poll_result(&record, intent, &state, bids, Vec::new(), ("ethereum".to_owned(), "base".to_owned()));
    let CardState::Intent(update) = &result.card else { panic!("a bridge has a bridge's card") };
    let money = update.money.as_str().to_owned();
    (result, money)
}

#[test]
fn a_repaid_order_waits_until_the_fill_deadline_for_its_delivery_to_be_seen() {
    let deadline = u64::from(DEADLINE);
    let undelivered = "paid to the filler on ethereum; no delivery has been seen on base";
    let (result, money) = poll(None, deadline);
    assert_eq!((result.end, money.as_str()), (None, undelivered), "the delivery may be seen later");
    let (result, money) = poll(None, deadline + 1);
    assert_eq!((result.end, money.as_str()), (Some(OrderEnd::Filled), undelivered));
    assert!(!has_arrived(&result.card, OrderEnd::Filled));

    // The settler reports a delivery that the balance does not confirm: this is not an arrival.
    for received in [None, Some(3_999_999)] {
        let (result, money) = poll(Some(received), deadline);
        assert_eq!(
            (result.end, money.as_str()),
            (Some(OrderEnd::Filled), "delivered on base, according to its settler")
        );
        assert!(!has_arrived(&result.card, OrderEnd::Filled));
    }
    let (result, money) = poll(Some(Some(4_000_000)), deadline);
    assert_eq!((result.end, money.as_str()), (Some(OrderEnd::Filled), "4 USDC arrived on base"));
    assert!(has_arrived(&result.card, OrderEnd::Filled));
    assert!(!has_arrived(&result.card, OrderEnd::Unfilled));
}

#[test]
fn an_order_does_not_end_while_endpoints_contradict_each_other_about_its_delivery() {
    let late = u64::from(DEADLINE) + 1;
    assert_eq!(poll_with(None, late, false).0.end, Some(OrderEnd::Filled));
    let (result, _) = poll_with(None, late, true);
    assert_eq!(result.end, None, "it may have been delivered");
    let CardState::Intent(update) = &result.card else { panic!("a bridge has a bridge's card") };
    assert!(update.remark.as_str().contains("contradict each other"), "{}", update.remark);
}

#[test]
fn the_chosen_bid_is_that_of_the_relayer_that_delivered() {
    let bid = |seed: u8, chosen| RelayerBid {
        relayer: Address::repeat_byte(seed),
        name: SafeText::clean(&format!("filler-{seed}"), 20),
        output: U256::from(4_000_000),
        seconds: 5,
        chosen,
    };
    let chosen = |filler: Option<u8>, bids: &[RelayerBid]| {
        let received = filler.map(|seed| (Address::repeat_byte(seed), Some(4_000_000)));
        let (result, _) = poll_with_bids(received, u64::from(DEADLINE), false, bids);
        let CardState::Intent(update) = result.card else { panic!("a bridge has a bridge's card") };
        let chosen: Vec<Address> = update.bids.iter().filter(|bid| bid.chosen).map(|bid| bid.filler).collect();
        (chosen, update.filler)
    };
    let [one, two] = [1, 2].map(Address::repeat_byte);
    // Before a delivery, the network's choice counts, and only its first entry.
    let bids = [bid(1, true), bid(2, false), bid(2, true)];
    assert_eq!(chosen(None, &bids), (vec![one], None));
    // A relayer other than the chosen one delivered; it had made two bids.
    assert_eq!(chosen(Some(2), &bids), (vec![two], Some(two)));
    // A relayer without a bid delivered: no bid is chosen, and the card names the deliverer.
    let three = Address::repeat_byte(3);
    assert_eq!(chosen(Some(3), &bids), (vec![], Some(three)));
}

#[test]
fn only_a_delivery_that_the_balance_confirms_is_as_expected() {
    let record = bridge_order(Address::repeat_byte(9), Address::repeat_byte(2), DEADLINE);
    let (result, _) = poll(Some(Some(4_000_000)), u64::from(DEADLINE));
    let CardState::Intent(delivered) = result.card else { panic!("a bridge has a bridge's card") };
    let is_expected = |status, received: bool| {
        let amount_out = delivered.amount_out.clone().filter(|_| received);
        let card = CardState::Intent(Box::new(IntentUpdate { status, amount_out, ..(*delivered).clone() }));
        let outcome = crate::orders::order_end::outcome(&record, &card);
        assert!(received || outcome.actual_outcome.as_str().ends_with("received: nothing"), "{outcome:?}");
        outcome.matched
    };
    assert!(is_expected(IntentStatus::Filled, true));
    for status in [IntentStatus::Filled, IntentStatus::Refunded, IntentStatus::Expired] {
        assert!(!is_expected(status, false), "{status:?}");
    }
}

#[test]
fn the_sender_of_the_transaction_delivered_the_order_whatever_the_event_names() {
    let [contract, relayer] = [1, 2].map(Address::repeat_byte);
    assert_eq!(deliverer(contract, Some(relayer)), relayer);
    assert_eq!(deliverer(contract, None), contract);
}
