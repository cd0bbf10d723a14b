//! Tests of faults in every field. Hashes and encodings are checked against vectors in `tests/vectors.rs`.

use alloy::primitives::address;

use super::*;

const NOW: u64 = 1_800_000_000;
const USER: Address = address!("0x00000000000000000000000000000000000000a1");
const SETTLER: Address = address!("0x00000000000000000000000000000000000000a2");
const STRANGER: Address = address!("0x00000000000000000000000000000000000000c1");
const EXPECTED: IntentExpectation = IntentExpectation {
    now: NOW,
    origin_chain_id: 31_337,
    destination_chain_id: 31_338,
    origin_settler: SETTLER,
    user: USER,
    recipient: USER,
};

fn sound() -> CrossChainIntent {
    CrossChainIntent {
        origin_settler: SETTLER,
        user: USER,
        nonce: U256::from(5),
        origin_chain_id: 31_337,
        open_deadline: 1_800_000_300,
        fill_deadline: 1_800_003_600,
        data: AcrossOrderData {
            inputToken: address!("0x00000000000000000000000000000000000000b1"),
            inputAmount: U256::from(1_000),
            outputToken: address!("0x00000000000000000000000000000000000000b2"),
            outputAmount: U256::from(990),
            destinationChainId: U256::from(31_338),
            recipient: USER.into_word(),
            exclusiveRelayer: Address::ZERO,
            depositNonce: U256::ZERO,
            exclusivityPeriod: 0,
            message: Bytes::new(),
        },
    }
}

fn faults(change: impl FnOnce(&mut CrossChainIntent)) -> Vec<IntentFault> {
    let mut intent = sound();
    change(&mut intent);
    intent.faults(&EXPECTED)
}

#[test]
fn every_field_of_an_intent_is_compared_with_its_expected_value() {
    assert_eq!(faults(|_| {}), []);
    let settler = IntentFault::Settler { found: STRANGER, expected: SETTLER };
    assert_eq!(faults(|intent| intent.origin_settler = STRANGER), [settler]);
    assert_eq!(faults(|intent| intent.user = STRANGER), [IntentFault::User { found: STRANGER, expected: USER }]);
    assert_eq!(faults(|intent| intent.origin_chain_id = 1), [IntentFault::Origin { found: 1, expected: 31_337 }]);
    let destination = |found| IntentFault::Destination { found: U256::from(found), expected: 31_338 };
    assert_eq!(faults(|intent| intent.data.destinationChainId = U256::from(8453)), [destination(8453)]);
    let stays = faults(|intent| intent.data.destinationChainId = U256::from(31_337));
    assert_eq!(stays, [destination(31_337), IntentFault::SameChain(31_337)]);
    let recipient = IntentFault::Recipient { found: STRANGER.into_word(), expected: USER };
    assert_eq!(faults(|intent| intent.data.recipient = STRANGER.into_word()), [recipient]);
    // The right address with a non-zero byte in the padding.
    assert_eq!(faults(|intent| intent.data.recipient.0[0] = 1).len(), 1);
    assert_eq!(faults(|intent| intent.data.inputAmount = U256::ZERO), [IntentFault::ZeroInput]);
    assert_eq!(faults(|intent| intent.data.outputAmount = U256::ZERO), [IntentFault::ZeroOutput]);
    assert_eq!(faults(|intent| intent.data.inputToken = Address::ZERO), [IntentFault::NativeCoin("input")]);
    assert_eq!(faults(|intent| intent.data.outputToken = Address::ZERO), [IntentFault::NativeCoin("output")]);
    let now = u32::try_from(NOW).unwrap();
    assert_eq!(
        faults(|intent| intent.open_deadline = now),
        [IntentFault::OpenDeadlinePassed { deadline: now, now: NOW }]
    );
    let backwards = IntentFault::FillBeforeOpen { fill: 1_800_000_300, open: 1_800_000_300 };
    assert_eq!(faults(|intent| intent.fill_deadline = intent.open_deadline), [backwards]);
    assert_eq!(faults(|intent| intent.data.exclusiveRelayer = STRANGER), [IntentFault::Exclusive(STRANGER)]);
    assert_eq!(faults(|intent| intent.data.exclusivityPeriod = 1), [IntentFault::Exclusive(Address::ZERO)]);
    assert_eq!(faults(|intent| intent.data.message = Bytes::from_static(b"x")), [IntentFault::Message]);
}

#[test]
fn the_exclusivity_deadline_comes_from_the_exclusivity_period() {
    let mut intent = sound();
    assert_eq!(intent.relay(U256::from(1)).exclusivityDeadline, 0);
    intent.data.exclusivityPeriod = 90;
    assert_eq!(intent.relay(U256::from(1)).exclusivityDeadline, 90);
}

#[test]
fn the_id_depends_on_every_field_the_destination_receives() {
    let id = |change: fn(&mut CrossChainIntent)| {
        let mut intent = sound();
        change(&mut intent);
        intent.id()
    };
    let changes: [fn(&mut CrossChainIntent); 11] = [
        |_| {},
        |intent| intent.user = STRANGER,
        |intent| intent.nonce = U256::from(6),
        |intent| intent.origin_chain_id = 1,
        |intent| intent.fill_deadline += 1,
        |intent| intent.data.inputAmount += U256::from(1),
        |intent| intent.data.outputAmount += U256::from(1),
        |intent| intent.data.outputToken = STRANGER,
        |intent| intent.data.destinationChainId = U256::from(1),
        |intent| intent.data.recipient = STRANGER.into_word(),
        |intent| intent.data.exclusivityPeriod = 60,
    ];
    let ids: std::collections::BTreeSet<B256> = changes.into_iter().map(id).collect();
    assert_eq!(ids.len(), changes.len());
}

#[test]
fn only_the_standard_encoding_of_known_data_is_read() {
    let intent = sound();
    assert_eq!(CrossChainIntent::decode(&intent.encode()), Ok(intent.clone()));
    let longer = [intent.encode().as_ref(), &[0; 32]].concat();
    assert!(CrossChainIntent::decode(&longer).is_err());
    assert!(matches!(CrossChainIntent::decode(&vec![0; MAX_ENCODED + 1]), Err(IntentDecodeError::TooLong { .. })));
    let mut order = intent.order();
    order.orderDataType = B256::repeat_byte(7);
    assert_eq!(CrossChainIntent::read(&order), Err(IntentDecodeError::AnotherType(B256::repeat_byte(7))));
    let mut order = intent.order();
    order.orderData = [order.orderData.as_ref(), &[0; 32]].concat().into();
    assert!(matches!(CrossChainIntent::read(&order), Err(IntentDecodeError::NotCanonical { .. })));
    let mut order = intent.order();
    order.originChainId = U256::MAX;
    assert_eq!(CrossChainIntent::read(&order), Err(IntentDecodeError::ChainId(U256::MAX)));
}
