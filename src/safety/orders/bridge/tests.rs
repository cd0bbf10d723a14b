use super::*;
use crate::safety::orders::ending::has_arrived;
use crate::safety::sample::bridge_order;
use crate::safety::typed::TypedMessage;

const DEADLINE: u32 = 1_000;

fn place() -> TxPlace {
    TxPlace { chain_id: 31_338, hash: B256::ZERO, block: Some(5) }
}

/// What is told of an order whose money the source's settler has paid on, by what was seen over there and when.
fn told(came: Option<Option<u64>>, time: u64) -> (Seen, String) {
    told_by(came, time, false)
}

/// The same where the endpoints over there contradict each other.
fn told_by(came: Option<Option<u64>>, time: u64, untold: bool) -> (Seen, String) {
    let record = bridge_order(Address::repeat_byte(9), Address::repeat_byte(2), DEADLINE);
    let TypedMessage::CrossChainOrder { intent, .. } = &record.message else { panic!("{record:#?}") };
    let mut destination: Header = Header::default();
    destination.inner.timestamp = time;
    let standing = Standing {
        deposit: REPAID,
        over: true,
        destination,
        locked: Some(place()),
        repaid: Some(place()),
        refunded: None,
        delivery: came.map(|came| Delivery { place: place(), filler: Address::ZERO, came: came.map(U256::from) }),
        untold,
        refund_from: None,
    };
    let seen = seen(&record, intent, &standing, &[], Vec::new(), ("ethereum".to_owned(), "base".to_owned()));
    let Card::Intent(update) = &seen.card else { panic!("a bridge has a bridge's card") };
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
    assert_eq!((seen.end, money.as_str()), (Some(Ending::Took), nowhere));
    assert!(!has_arrived(&seen.card, Ending::Took));

    // Delivered by the word of the settler over there, and not in the balance: that is no arrival.
    for came in [None, Some(3_999_999)] {
        let (seen, money) = told(Some(came), deadline);
        assert_eq!((seen.end, money.as_str()), (Some(Ending::Took), "delivered on base, as its settler says"));
        assert!(!has_arrived(&seen.card, Ending::Took));
    }
    let (seen, money) = told(Some(Some(4_000_000)), deadline);
    assert_eq!((seen.end, money.as_str()), (Some(Ending::Took), "4 USDC arrived on base"));
    assert!(has_arrived(&seen.card, Ending::Took));
    assert!(!has_arrived(&seen.card, Ending::TookNothing));
}

#[test]
fn endpoints_that_contradict_each_other_about_a_delivery_end_nothing() {
    let late = u64::from(DEADLINE) + 1;
    assert_eq!(told_by(None, late, false).0.end, Some(Ending::Took));
    let (seen, _) = told_by(None, late, true);
    assert_eq!(seen.end, None, "it may have been delivered");
    let Card::Intent(update) = &seen.card else { panic!("a bridge has a bridge's card") };
    assert!(update.remark.as_str().contains("contradict each other"), "{}", update.remark);
}
