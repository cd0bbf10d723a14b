use super::*;
use crate::orders::order_end::has_arrived;
use crate::sample::bridge_order;
use crate::typed::TypedMessage;

const DEADLINE: u32 = 1_000;

fn place() -> TxPlace {
    TxPlace { chain_id: 31_338, hash: B256::ZERO, block: Some(5) }
}

/// Poll result and money line of an order that the origin's settler has repaid, given the delivery seen and the
/// destination's time.
fn told(received: Option<Option<u64>>, time: u64) -> (PollResult, String) {
    told_by(received, time, false)
}

/// The same with endpoints on the destination that may disagree.
fn told_by(received: Option<Option<u64>>, time: u64, read_error: bool) -> (PollResult, String) {
    told_with(received.map(|received| (Address::ZERO, received)), time, read_error, &[])
}

/// The same with the deliverer and the relayers' bids.
fn told_with(
    received: Option<(Address, Option<u64>)>,
    time: u64,
    read_error: bool,
    bids: &[RelayerBid],
) -> (PollResult, String) {
    let record = bridge_order(Address::repeat_byte(9), Address::repeat_byte(2), DEADLINE);
    let TypedMessage::CrossChainOrder { intent, .. } = &record.message else { panic!("{record:#?}") };
    let mut destination: Header = Header::default();
    destination.inner.timestamp = time;
    let standing = BridgeState {
        deposit: REPAID,
        over: true,
        destination,
        locked: Some(place()),
        repaid: Some(place()),
        refunded: None,
        delivery: received.map(|(filler, received)| DeliveryEvent {
            place: place(),
            filler,
            received: received.map(U256::from),
        }),
        read_error,
        refund_from: None,
    };
    let seen = seen(&record, intent, &standing, bids, Vec::new(), ("ethereum".to_owned(), "base".to_owned()));
    let CardState::Intent(update) = &seen.card else { panic!("a bridge has a bridge's card") };
    let money = update.money.as_str().to_owned();
    (seen, money)
}

#[test]
fn what_was_paid_on_and_not_seen_to_arrive_is_told_as_that_and_waited_for() {
    let deadline = u64::from(DEADLINE);
    let nowhere = "paid to the filler on ethereum; no delivery has been seen on base";
    let (seen, money) = told(None, deadline);
    assert_eq!((seen.end, money.as_str()), (None, nowhere), "it may be told over there a little later");
    let (seen, money) = told(None, deadline + 1);
    assert_eq!((seen.end, money.as_str()), (Some(OrderEnd::Took), nowhere));
    assert!(!has_arrived(&seen.card, OrderEnd::Took));

    // The settler reports a delivery that the balance does not confirm: this is not an arrival.
    for received in [None, Some(3_999_999)] {
        let (seen, money) = told(Some(received), deadline);
        assert_eq!((seen.end, money.as_str()), (Some(OrderEnd::Took), "delivered on base, according to its settler"));
        assert!(!has_arrived(&seen.card, OrderEnd::Took));
    }
    let (seen, money) = told(Some(Some(4_000_000)), deadline);
    assert_eq!((seen.end, money.as_str()), (Some(OrderEnd::Took), "4 USDC arrived on base"));
    assert!(has_arrived(&seen.card, OrderEnd::Took));
    assert!(!has_arrived(&seen.card, OrderEnd::TookNothing));
}

#[test]
fn endpoints_that_contradict_each_other_about_a_delivery_end_nothing() {
    let late = u64::from(DEADLINE) + 1;
    assert_eq!(told_by(None, late, false).0.end, Some(OrderEnd::Took));
    let (seen, _) = told_by(None, late, true);
    assert_eq!(seen.end, None, "it may have been delivered");
    let CardState::Intent(update) = &seen.card else { panic!("a bridge has a bridge's card") };
    assert!(update.remark.as_str().contains("contradict each other"), "{}", update.remark);
}

#[test]
fn the_account_that_delivered_is_the_one_chosen_bid() {
    let bid = |seed: u8, chosen| RelayerBid {
        relayer: Address::repeat_byte(seed),
        name: SafeText::clean(&format!("filler-{seed}"), 20),
        output: U256::from(4_000_000),
        seconds: 5,
        chosen,
    };
    let chosen = |filler: Option<u8>, bids: &[RelayerBid]| {
        let received = filler.map(|seed| (Address::repeat_byte(seed), Some(4_000_000)));
        let (seen, _) = told_with(received, u64::from(DEADLINE), false, bids);
        let CardState::Intent(update) = seen.card else { panic!("a bridge has a bridge's card") };
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
