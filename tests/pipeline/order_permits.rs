//! A permit for an order covers that order only: a change of any field that the swapper's signature binds invalidates
//! it, for every kind of order.

use alloy::primitives::{Bytes, I256, keccak256};
use bardo::abi::uniswapx::{EncodedPriorityOrder, EncodedV2DutchOrder, EncodedV3DutchOrder, OrderInfo};
use bardo::safety::permit::{ActionPermit, PermitFault};
use bardo::safety::proposal::SignedOrder;
use bardo::safety::typed::TypedMessage;
use bardo::safety::{PayloadOrder, PayloadParts, SigningPayload};
use bardo::uniswap::order::{AuctionTerms, OrderAmounts, OrderDraft, UniswapXOrder};
use proptest::prelude::*;
use tokio::time::Instant;

use crate::properties::{GIVEN, ME, OTHER, PERMIT2, POOL, ROUTER, WANTED, number, valid_parts};

const NOW: u64 = 1_790_000_000_000;

fn order(auction: AuctionTerms) -> UniswapXOrder {
    let least_out = match auction {
        AuctionTerms::PriorityFee { .. } => number(900),
        AuctionTerms::Times { .. } | AuctionTerms::CosignedTimes | AuctionTerms::CosignedBlocks { .. } => number(850),
    };
    let draft = OrderDraft {
        reactor: ROUTER,
        swapper: ME,
        recipient: ME,
        nonce: number(77),
        deadline: 1_790_000_300,
        cosigner: POOL,
        token_in: GIVEN,
        token_out: WANTED,
        legs: OrderAmounts::ExactIn { amount_in: number(1_000), start_out: number(900), least_out },
        auction,
    };
    draft.order().unwrap()
}

fn v2() -> UniswapXOrder {
    order(AuctionTerms::CosignedTimes)
}

fn v3() -> UniswapXOrder {
    order(AuctionTerms::CosignedBlocks { over: 30, base_fee: 7, per_gwei: number(3) })
}

fn priority() -> UniswapXOrder {
    order(AuctionTerms::PriorityFee { start_block: 41, baseline: 6, mps_per_wei: number(2) })
}

/// Signing payload with this order beside its transactions.
fn framing(order: UniswapXOrder) -> PayloadParts {
    let mut parts = valid_parts();
    let message = TypedMessage::UniswapxOrder { permit2: PERMIT2, order: Box::new(order) };
    parts.proposal.order = Some(Box::new(SignedOrder { message: message.clone(), holder: ROUTER, arrival: None }));
    parts.order = Some(PayloadOrder { message, signer: ME });
    parts
}

/// A change of a field that all kinds have.
type OfInfo = (&'static str, fn(&mut OrderInfo, u64));

const INFO: [OfInfo; 6] = [
    ("reactor", |info, _| info.reactor = OTHER),
    ("swapper", |info, _| info.swapper = OTHER),
    ("nonce", |info, by| info.nonce ^= number(by)),
    ("deadline", |info, by| info.deadline ^= number(by)),
    ("validation contract", |info, _| info.additionalValidationContract = OTHER),
    ("validation data", |info, by| info.additionalValidationData = Bytes::from(by.to_be_bytes().to_vec())),
];

type OfV2 = (&'static str, fn(&mut EncodedV2DutchOrder, u64));

const V2: [OfV2; 9] = [
    ("cosigner", |order, _| order.cosigner = OTHER),
    ("input token", |order, _| order.baseInput.token = OTHER),
    ("input start", |order, by| order.baseInput.startAmount ^= number(by)),
    ("input end", |order, by| order.baseInput.endAmount ^= number(by)),
    ("output token", |order, _| order.baseOutputs[0].token = OTHER),
    ("output start", |order, by| order.baseOutputs[0].startAmount ^= number(by)),
    ("output end", |order, by| order.baseOutputs[0].endAmount ^= number(by)),
    ("output recipient", |order, _| order.baseOutputs[0].recipient = OTHER),
    ("another output", |order, _| {
        let more = order.baseOutputs[0].clone();
        order.baseOutputs.push(more);
    }),
];

type OfV3 = (&'static str, fn(&mut EncodedV3DutchOrder, u64));

const V3: [OfV3; 13] = [
    ("cosigner", |order, _| order.cosigner = OTHER),
    ("base fee", |order, by| order.startingBaseFee ^= number(by)),
    ("input token", |order, _| order.baseInput.token = OTHER),
    ("input start", |order, by| order.baseInput.startAmount ^= number(by)),
    ("input most", |order, by| order.baseInput.maxAmount ^= number(by)),
    ("input per gwei", |order, by| order.baseInput.adjustmentPerGweiBaseFee ^= number(by)),
    ("output token", |order, _| order.baseOutputs[0].token = OTHER),
    ("output start", |order, by| order.baseOutputs[0].startAmount ^= number(by)),
    ("output least", |order, by| order.baseOutputs[0].minAmount ^= number(by)),
    ("output per gwei", |order, by| order.baseOutputs[0].adjustmentPerGweiBaseFee ^= number(by)),
    ("curve's blocks", |order, by| order.baseOutputs[0].curve.relativeBlocks ^= number(by)),
    ("curve's amounts", |order, by| {
        order.baseOutputs[0].curve.relativeAmounts[0] = I256::try_from(number(by % 40)).unwrap();
    }),
    ("output recipient", |order, _| order.baseOutputs[0].recipient = OTHER),
];

type OfPriority = (&'static str, fn(&mut EncodedPriorityOrder, u64));

const PRIORITY: [OfPriority; 10] = [
    ("cosigner", |order, _| order.cosigner = OTHER),
    ("start block", |order, by| order.auctionStartBlock ^= number(by)),
    ("baseline", |order, by| order.baselinePriorityFeeWei ^= number(by)),
    ("input token", |order, _| order.input.token = OTHER),
    ("input", |order, by| order.input.amount ^= number(by)),
    ("input per wei", |order, by| order.input.mpsPerPriorityFeeWei ^= number(by)),
    ("output token", |order, _| order.outputs[0].token = OTHER),
    ("output", |order, by| order.outputs[0].amount ^= number(by)),
    ("output per wei", |order, by| order.outputs[0].mpsPerPriorityFeeWei ^= number(by)),
    ("output recipient", |order, _| order.outputs[0].recipient = OTHER),
];

/// Every change of a single field of all three kinds, by name, with the order before and after it.
fn changed(by: u64) -> Vec<(String, UniswapXOrder, UniswapXOrder)> {
    let mut all = Vec::new();
    let mut push = |name: &str, before: UniswapXOrder, after: UniswapXOrder| {
        all.push((format!("{}: {name}", before.kind()), before, after))
    };
    for (name, change) in INFO {
        for before in [v2(), v3(), priority()] {
            let mut after = before.clone();
            match &mut after {
                UniswapXOrder::Dutch(order) => change(&mut order.info, by),
                UniswapXOrder::DutchV2(order) => change(&mut order.info, by),
                UniswapXOrder::DutchV3(order) => change(&mut order.info, by),
                UniswapXOrder::Priority(order) => change(&mut order.info, by),
            }
            push(name, before, after);
        }
    }
    for (name, change) in V2 {
        let UniswapXOrder::DutchV2(mut order) = v2() else { unreachable!("a V2 order") };
        change(&mut order, by);
        push(name, v2(), UniswapXOrder::DutchV2(order));
    }
    for (name, change) in V3 {
        let UniswapXOrder::DutchV3(mut order) = v3() else { unreachable!("a V3 order") };
        change(&mut order, by);
        push(name, v3(), UniswapXOrder::DutchV3(order));
    }
    for (name, change) in PRIORITY {
        let UniswapXOrder::Priority(mut order) = priority() else { unreachable!("a priority order") };
        change(&mut order, by);
        push(name, priority(), UniswapXOrder::Priority(order));
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_permit_is_valid_only_for_its_own_order(by in 1u64..) {
        let policy = keccak256("policy");
        for (what, before, after) in changed(by) {
            prop_assert_ne!(before.hash(), after.hash(), "{}: the swapper signs it", &what);
            let payload = SigningPayload::new(framing(before)).unwrap();
            let permit = ActionPermit::issue(&payload, policy, NOW, 60_000);
            prop_assert_eq!(permit.verify(&payload, policy, NOW, Instant::now()), Ok(()), "{}", &what);
            // An invalid payload cannot be signed; a payload's validity does not depend on the order's contents.
            let other = SigningPayload::new(framing(after));
            prop_assert!(other.is_ok(), "{}", &what);
            let answer = permit.verify(&other.unwrap(), policy, NOW, Instant::now());
            prop_assert_eq!(answer, Err(PermitFault::Mismatch), "{}", &what);
        }
    }
}

/// An order of another kind, another Permit2, and no order at all.
#[test]
fn a_permit_for_an_order_is_valid_for_no_other_kind_and_not_without_the_order() {
    let policy = keccak256("policy");
    let payload = SigningPayload::new(framing(v2())).unwrap();
    let permit = ActionPermit::issue(&payload, policy, NOW, 60_000);
    let mut elsewhere = framing(v2());
    let message = TypedMessage::UniswapxOrder { permit2: OTHER, order: Box::new(v2()) };
    elsewhere.proposal.order = Some(Box::new(SignedOrder { message: message.clone(), holder: ROUTER, arrival: None }));
    elsewhere.order = Some(PayloadOrder { message, signer: ME });
    let mut held_by_another = framing(v2());
    held_by_another.proposal.order.as_mut().unwrap().holder = OTHER;
    for other in [framing(v3()), framing(priority()), elsewhere, held_by_another, valid_parts()] {
        let other = SigningPayload::new(other).unwrap();
        assert_eq!(permit.verify(&other, policy, NOW, Instant::now()), Err(PermitFault::Mismatch));
    }
}
