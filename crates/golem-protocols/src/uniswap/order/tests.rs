//! Tests of faults in every field, drafts of every kind, and rejected encodings.

use alloy::primitives::{Address, Bytes, I256, U256, address};

use super::decay::{curve, points};
use super::*;
use bardo_abi::uniswapx::{DutchOutput, V3DutchOutput};

const NOW: u64 = 1_800_000_000;
const SWAPPER: Address = address!("0x00000000000000000000000000000000000000a1");
const REACTOR: Address = address!("0x00000000000000000000000000000000000000a2");
const COSIGNER: Address = address!("0x00000000000000000000000000000000000000a3");
const TOKEN_IN: Address = address!("0x00000000000000000000000000000000000000b1");
const TOKEN_OUT: Address = address!("0x00000000000000000000000000000000000000b2");
const STRANGER: Address = address!("0x00000000000000000000000000000000000000c1");
const EXPECTED: OrderExpectation = OrderExpectation {
    chain_id: 31_337,
    now: NOW,
    reactor: REACTOR,
    swapper: SWAPPER,
    recipient: SWAPPER,
    cosigner: COSIGNER,
};

fn draft(kind: OrderKind) -> OrderDraft {
    OrderDraft {
        reactor: REACTOR,
        swapper: SWAPPER,
        recipient: SWAPPER,
        nonce: U256::from(7),
        deadline: NOW + 120,
        cosigner: COSIGNER,
        token_in: TOKEN_IN,
        token_out: TOKEN_OUT,
        legs: OrderAmounts::ExactIn {
            amount_in: U256::from(1_000),
            start_out: U256::from(500),
            least_out: U256::from(480),
        },
        auction: match kind {
            OrderKind::Dutch => AuctionTerms::Times { from: NOW + 10, until: NOW + 70 },
            OrderKind::DutchV2 => AuctionTerms::CosignedTimes,
            OrderKind::DutchV3 => AuctionTerms::CosignedBlocks { over: 30, base_fee: 0, per_gwei: U256::ZERO },
            OrderKind::Priority => {
                AuctionTerms::PriorityFee { start_block: 9, baseline: 0, mps_per_wei: U256::from(1) }
            }
        },
    }
}

fn sound(kind: OrderKind) -> UniswapXOrder {
    let order = draft(kind).order().unwrap();
    assert_eq!(order.faults(&EXPECTED), []);
    order
}

fn info(order: &mut UniswapXOrder) -> &mut OrderInfo {
    match order {
        UniswapXOrder::Dutch(order) => &mut order.info,
        UniswapXOrder::DutchV2(order) => &mut order.info,
        UniswapXOrder::DutchV3(order) => &mut order.info,
        UniswapXOrder::Priority(order) => &mut order.info,
    }
}

fn v2(change: impl FnOnce(&mut EncodedV2DutchOrder)) -> UniswapXOrder {
    let UniswapXOrder::DutchV2(mut order) = sound(OrderKind::DutchV2) else { panic!("another kind") };
    change(&mut order);
    UniswapXOrder::DutchV2(order)
}

fn v3(change: impl FnOnce(&mut EncodedV3DutchOrder)) -> UniswapXOrder {
    let UniswapXOrder::DutchV3(mut order) = sound(OrderKind::DutchV3) else { panic!("another kind") };
    change(&mut order);
    UniswapXOrder::DutchV3(order)
}

#[test]
fn the_first_reactor_rounds_an_exclusivity_override_down() {
    let UniswapXOrder::Dutch(mut order) = sound(OrderKind::Dutch) else { panic!("another kind") };
    order.exclusiveFiller = STRANGER;
    order.exclusivityOverrideBps = U256::from(100);
    order.outputs[0].startAmount = U256::from(1_000_000_007_u64);
    let at = ResolutionPoint { chain_id: 1, timestamp: NOW, block: 1, base_fee: 0, priority_fee: 0, filler: SWAPPER };
    // 1,000,000,007 times 1.01 is 1,010,000,007.07.
    let resolved = UniswapXOrder::Dutch(order).resolve(&at).unwrap();
    assert_eq!(resolved.outputs[0].amount, U256::from(1_010_000_007_u64));
}

#[test]
fn a_draft_of_each_kind_bounds_what_it_can_cost_and_must_bring() {
    for kind in OrderKind::ALL {
        let order = sound(kind);
        assert_eq!(order.kind(), kind);
        let bounds = order.bounds();
        assert_eq!((bounds.token_in, bounds.most_in), (TOKEN_IN, U256::from(1_000)));
        let least = OutputAmount { token: TOKEN_OUT, amount: U256::from(480), recipient: SWAPPER };
        assert_eq!(bounds.least_out, [least]);

        let legs = OrderAmounts::ExactOut {
            amount_out: U256::from(500),
            start_in: U256::from(900),
            most_in: U256::from(1_000),
        };
        let order = OrderDraft { legs, ..draft(kind) }.order().unwrap();
        assert_eq!(order.faults(&EXPECTED), []);
        assert_eq!(order.most_in(), U256::from(1_000));
        assert_eq!(order.bounds().least_out[0].amount, U256::from(500));
    }
}

#[test]
fn every_kind_reports_a_wrong_reactor_or_swapper() {
    for kind in OrderKind::ALL {
        let changed = |change: fn(&mut OrderInfo)| {
            let mut order = sound(kind);
            change(info(&mut order));
            order.faults(&EXPECTED)
        };
        assert_eq!(
            changed(|info| info.reactor = STRANGER),
            [OrderFault::Reactor { found: STRANGER, expected: REACTOR }]
        );
        assert_eq!(
            changed(|info| info.swapper = STRANGER),
            [OrderFault::Swapper { found: STRANGER, expected: SWAPPER }]
        );
        assert_eq!(
            changed(|info| info.additionalValidationContract = STRANGER),
            [OrderFault::ValidationContract(STRANGER)]
        );
        assert_eq!(
            changed(|info| info.additionalValidationData = Bytes::from_static(b"x")),
            [OrderFault::ValidationData]
        );
        let late = changed(|info| info.deadline = U256::from(NOW));
        assert!(late.contains(&OrderFault::DeadlinePassed { deadline: U256::from(NOW), now: NOW }), "{late:?}");
        let elsewhere = OrderDraft { recipient: STRANGER, ..draft(kind) }.order().unwrap().faults(&EXPECTED);
        assert_eq!(elsewhere, [OrderFault::Recipient { index: 0, found: STRANGER, expected: SWAPPER }]);
        let same = OrderDraft { token_out: TOKEN_IN, ..draft(kind) }.order().unwrap().faults(&EXPECTED);
        assert_eq!(same, [OrderFault::SameToken { index: 0 }]);
        let foreign = OrderDraft { cosigner: STRANGER, ..draft(kind) }.order().unwrap().faults(&EXPECTED);
        let expected = OrderFault::Cosigner { found: STRANGER, expected: COSIGNER };
        assert_eq!(foreign, if kind == OrderKind::Dutch { vec![] } else { vec![expected] });
    }
}

#[test]
fn amounts_of_zero_and_amounts_that_move_the_wrong_way_are_reported() {
    let legs = |amount_in, start_out, least_out| OrderAmounts::ExactIn {
        amount_in: U256::from(amount_in),
        start_out: U256::from(start_out),
        least_out: U256::from(least_out),
    };
    for kind in OrderKind::ALL {
        let faults = |legs| OrderDraft { legs, ..draft(kind) }.order().unwrap().faults(&EXPECTED);
        assert_eq!(faults(legs(0, 500, 480)), [OrderFault::ZeroInput]);
        assert_eq!(faults(legs(1_000, 500, 0)), [OrderFault::ZeroOutput { index: 0 }]);
        if kind != OrderKind::Priority {
            assert_eq!(faults(legs(1_000, 480, 500)), [OrderFault::OutputRises { index: 0 }]);
            let falls =
                OrderAmounts::ExactOut { amount_out: U256::from(1), start_in: U256::from(9), most_in: U256::from(8) };
            assert_eq!(faults(falls), [OrderFault::InputFalls]);
        }
    }
    assert_eq!(v2(|order| order.baseOutputs.clear()).faults(&EXPECTED), [OrderFault::NoOutput]);
    assert_eq!(v2(|order| order.baseInput.startAmount = U256::from(999)).faults(&EXPECTED), [OrderFault::BothMove]);
    let UniswapXOrder::Priority(mut order) = sound(OrderKind::Priority) else { panic!("another kind") };
    order.input.mpsPerPriorityFeeWei = U256::from(1);
    assert_eq!(UniswapXOrder::Priority(order).faults(&EXPECTED), [OrderFault::BothMove]);
}

#[test]
fn every_output_must_go_to_the_recipient() {
    let fee = |order: &mut EncodedV2DutchOrder| {
        let one = U256::from(1);
        order.baseOutputs.push(DutchOutput { token: TOKEN_OUT, startAmount: one, endAmount: one, recipient: STRANGER });
    };
    let expected = [OrderFault::Recipient { index: 1, found: STRANGER, expected: SWAPPER }];
    assert_eq!(v2(fee).faults(&EXPECTED), expected);
}

#[test]
fn a_decay_must_end_after_its_start_and_not_after_the_deadline() {
    let faults = |from, until| {
        let auction = AuctionTerms::Times { from: NOW + from, until: NOW + until };
        OrderDraft { auction, ..draft(OrderKind::Dutch) }.order().unwrap().faults(&EXPECTED)
    };
    let at = |after: u64| U256::from(NOW + after);
    assert_eq!(faults(10, 120), []);
    assert_eq!(faults(10, 9), [OrderFault::DecayEndsBeforeStart { start: at(10), end: at(9) }]);
    assert_eq!(faults(10, 10), [OrderFault::DecayEndsBeforeStart { start: at(10), end: at(10) }]);
    assert_eq!(faults(10, 121), [OrderFault::DecayEndsAfterDeadline { end: at(121), deadline: at(120) }]);

    let cosigned = |from, until| {
        let order = v2(|order| {
            order.cosignerData.decayStartTime = at(from);
            order.cosignerData.decayEndTime = at(until);
        });
        let mut faults = order.cosigner_faults(31_337);
        assert_eq!(faults.pop(), Some(OrderFault::Cosignature { cosigner: COSIGNER }), "nobody signed it");
        faults
    };
    assert_eq!(cosigned(10, 120), []);
    assert_eq!(cosigned(10, 9), [OrderFault::DecayEndsBeforeStart { start: at(10), end: at(9) }]);
    assert_eq!(cosigned(10, 121), [OrderFault::DecayEndsAfterDeadline { end: at(121), deadline: at(120) }]);
}

#[test]
fn a_dutch_order_may_not_be_exclusive_until_its_end() {
    let kept = |until: u64| {
        let UniswapXOrder::Dutch(mut order) = sound(OrderKind::Dutch) else { panic!("another kind") };
        order.exclusiveFiller = STRANGER;
        order.decayStartTime = U256::from(NOW + until);
        order.decayEndTime = U256::from(NOW + 120);
        UniswapXOrder::Dutch(order).faults(&EXPECTED)
    };
    // One second before the deadline, other fillers can still fill.
    assert_eq!(kept(119), []);
    let start = U256::from(NOW + 120);
    assert_eq!(
        kept(120),
        [OrderFault::DecayEndsBeforeStart { start, end: start }, OrderFault::ExclusiveToTheEnd { filler: STRANGER }]
    );
}

#[test]
fn a_cosigner_may_not_worsen_an_order_nor_keep_it_for_one_filler() {
    let without_signature = |order: UniswapXOrder| {
        let mut faults = order.cosigner_faults(31_337);
        assert_eq!(faults.pop(), Some(OrderFault::Cosignature { cosigner: COSIGNER }));
        faults
    };
    let timed = |change: fn(&mut EncodedV2DutchOrder)| {
        v2(|order| {
            order.cosignerData.decayStartTime = U256::from(NOW + 1);
            order.cosignerData.decayEndTime = U256::from(NOW + 2);
            change(order);
        })
    };
    let count = |given| OrderFault::OverrideCount { given, outputs: 1 };
    assert_eq!(without_signature(timed(|order| order.cosignerData.outputAmounts.clear())), [count(0)]);
    let two = timed(|order| order.cosignerData.outputAmounts = vec![U256::ZERO; 2]);
    assert_eq!(without_signature(two), [count(2)]);
    let low = timed(|order| order.cosignerData.outputAmounts = vec![U256::from(499)]);
    let fault = OrderFault::OutputOverride { index: 0, given: U256::from(499), start: U256::from(500) };
    assert_eq!(without_signature(low), [fault]);
    let high = timed(|order| order.cosignerData.inputAmount = U256::from(1_001));
    let fault = OrderFault::InputOverride { given: U256::from(1_001), start: U256::from(1_000) };
    assert_eq!(without_signature(high), [fault]);
    let alone = timed(|order| {
        order.cosignerData.exclusiveFiller = STRANGER;
        order.cosignerData.decayStartTime = order.info.deadline;
        order.cosignerData.decayEndTime = order.info.deadline + U256::from(1);
    });
    assert!(without_signature(alone).contains(&OrderFault::ExclusiveToTheEnd { filler: STRANGER }));
}

#[test]
fn ambiguous_curves_are_reported() {
    let one = |amount: i64| I256::try_from(amount).unwrap();
    let with = |points: &[(u16, I256)]| {
        let curve = curve(points);
        v3(|order| order.baseOutputs[0].curve = curve).faults(&EXPECTED)
    };
    assert_eq!(with(&[(1, one(5)), (2, one(-5))]), []);
    assert_eq!(with(&[(0, one(5))]), [OrderFault::Curve]);
    assert_eq!(with(&[(3, one(5)), (3, one(6))]), [OrderFault::Curve]);
    assert_eq!(with(&[(3, one(5)), (2, one(6))]), [OrderFault::Curve]);
    let seventeen: Vec<_> = (1..=17).map(|block| (block, one(1))).collect();
    assert_eq!(with(&seventeen), [OrderFault::Curve]);
    assert_eq!(with(&seventeen[..16]), []);
    assert_eq!(with(&[(1, I256::MIN)]), [OrderFault::TooLarge]);
    let hidden = v3(|order| order.baseOutputs[0].curve.relativeBlocks |= U256::from(5) << 16);
    assert_eq!(hidden.faults(&EXPECTED), [OrderFault::Curve]);
    let input = v3(|order| order.baseInput.curve = curve(&[(0, one(1))]));
    assert_eq!(input.faults(&EXPECTED), [OrderFault::Curve]);
    assert_eq!(points(&curve(&[(9, one(-3)), (65_535, one(4))])), [(9, one(-3)), (65_535, one(4))]);
    let huge = OrderAmounts::ExactIn { amount_in: U256::from(1), start_out: U256::MAX, least_out: U256::from(1) };
    assert_eq!(OrderDraft { legs: huge, ..draft(OrderKind::DutchV3) }.order(), Err(OrderFault::TooLarge));
}

#[test]
fn numbers_that_no_reactor_can_multiply_are_refused_and_not_wrapped() {
    let at = ResolutionPoint { chain_id: 1, timestamp: NOW, block: 9, base_fee: 0, priority_fee: 2, filler: STRANGER };
    let UniswapXOrder::Priority(mut order) = sound(OrderKind::Priority) else { panic!("another kind") };
    order.outputs[0].amount = U256::MAX;
    assert_eq!(UniswapXOrder::Priority(order.clone()).resolve(&at), Err(ReactorRevert::Overflow));
    order.outputs[0].amount = U256::from(1);
    order.outputs[0].mpsPerPriorityFeeWei = U256::MAX;
    assert_eq!(UniswapXOrder::Priority(order).resolve(&at), Err(ReactorRevert::Overflow));
    let UniswapXOrder::Dutch(mut order) = sound(OrderKind::Dutch) else { panic!("another kind") };
    order.outputs[0].startAmount = U256::MAX;
    let at = ResolutionPoint { timestamp: NOW + 30, ..at };
    assert_eq!(UniswapXOrder::Dutch(order).resolve(&at), Err(ReactorRevert::Overflow));
}

#[test]
fn only_the_standard_encoding_is_read() {
    for kind in OrderKind::ALL {
        let order = sound(kind);
        let bytes = order.encode().to_vec();
        assert_eq!(UniswapXOrder::decode(kind, &bytes).as_ref(), Ok(&order));
        let longer = [bytes.as_slice(), &[0; 32]].concat();
        assert!(UniswapXOrder::decode(kind, &longer).is_err(), "{kind}");
        assert!(UniswapXOrder::decode(kind, &bytes[..bytes.len() - 1]).is_err(), "{kind}");
        // A non-zero byte in the padding of the first address, which a lenient decoder ignores.
        let mut dirty = bytes.clone();
        let reactor = bytes.windows(32).position(|word| word[12..] == *REACTOR && word[..12] == [0; 12]).unwrap();
        dirty[reactor] = 1;
        assert!(UniswapXOrder::decode(kind, &dirty).is_err(), "{kind}");
        let long = vec![0; MAX_ENCODED + 1];
        assert_eq!(UniswapXOrder::decode(kind, &long), Err(OrderDecodeError::TooLong { length: MAX_ENCODED + 1 }));
    }
}

#[test]
fn order_kinds_are_parsed_from_both_their_names() {
    for kind in OrderKind::ALL {
        assert_eq!(OrderKind::named(kind.name()), Some(kind));
        assert_eq!(OrderKind::named(kind.service_name()), Some(kind));
    }
    assert_eq!(OrderKind::named("dutch_v2"), None);
}

#[test]
fn v3_outputs_are_each_bounded_by_their_own_minimum() {
    let order = v3(|order| {
        let first = order.baseOutputs[0].clone();
        order.baseOutputs.push(V3DutchOutput { minAmount: U256::from(3), ..first });
    });
    let least: Vec<U256> = order.bounds().least_out.iter().map(|amount| amount.amount).collect();
    assert_eq!(least, [U256::from(480), U256::from(3)]);
}
