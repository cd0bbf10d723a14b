//! Tests against names and values typed from the service's own document, `uniswap-trading-openapi.yaml`: the required
//! lists of `DutchOrderInfoV2`, `DutchOrderInfoV3`, `PriorityOrderInfo` and the types they refer to.

use alloy::primitives::{Address, U256, address};
use serde_json::json;

use super::*;
use crate::uniswap::order::{AuctionTerms, OrderAmounts, OrderDraft};
use crate::uniswap::service::submission;

const REACTOR: Address = address!("0x0101010101010101010101010101010101010101");
const SWAPPER: Address = address!("0x0202020202020202020202020202020202020202");
const COSIGNER: Address = address!("0x0303030303030303030303030303030303030303");
const PAID: Address = address!("0x0404040404040404040404040404040404040404");
const WANTED: Address = address!("0x0505050505050505050505050505050505050505");

/// Required names of both Dutch kinds.
const OF_DUTCH: [&str; 13] = [
    "chainId",
    "nonce",
    "reactor",
    "swapper",
    "deadline",
    "validationContract",
    "validationData",
    "startTime",
    "endTime",
    "exclusiveFiller",
    "exclusivityOverrideBps",
    "input",
    "outputs",
];
const OF_PRIORITY: [&str; 12] = [
    "chainId",
    "nonce",
    "reactor",
    "swapper",
    "deadline",
    "validationContract",
    "validationData",
    "auctionStartBlock",
    "baselinePriorityFeeWei",
    "input",
    "outputs",
    "cosigner",
];

fn draft(auction: AuctionTerms) -> UniswapXOrder {
    let draft = OrderDraft {
        reactor: REACTOR,
        swapper: SWAPPER,
        recipient: SWAPPER,
        nonce: U256::from(77),
        deadline: 1_700_000_100,
        cosigner: COSIGNER,
        token_in: PAID,
        token_out: WANTED,
        legs: OrderAmounts::ExactIn {
            amount_in: U256::from(5_000),
            start_out: U256::from(900),
            least_out: U256::from(800),
        },
        auction,
    };
    draft.order().unwrap()
}

fn over_blocks() -> UniswapXOrder {
    draft(AuctionTerms::CosignedBlocks { over: 30, base_fee: 7, per_gwei: U256::from(3) })
}

fn by_priority() -> UniswapXOrder {
    draft(AuctionTerms::PriorityFee { start_block: 41, baseline: 6, mps_per_wei: U256::from(2) })
}

#[test]
fn every_documented_field_is_present() {
    for (order, required) in [
        (draft(AuctionTerms::CosignedTimes), &OF_DUTCH as &[&str]),
        (over_blocks(), &OF_DUTCH),
        (by_priority(), &OF_PRIORITY),
        (draft(AuctionTerms::Times { from: 5, until: 9 }), &OF_DUTCH),
    ] {
        let body = submission(31_337, &order, &vec![9; 65].into());
        for name in ["signature", "quote", "routing"] {
            assert!(body.get(name).is_some(), "{name}");
        }
        for name in ["encodedOrder", "orderInfo", "orderId"] {
            assert!(body["quote"].get(name).is_some(), "{name}");
        }
        let info = &body["quote"]["orderInfo"];
        for name in required {
            assert!(info.get(*name).is_some_and(|value| !value.is_null()), "{}: {name}", order.kind());
        }
        assert_eq!(info["chainId"], 31_337);
        assert_eq!((&info["nonce"], &info["deadline"]), (&json!("77"), &json!(1_700_000_100)));
        assert_eq!((&info["reactor"], &info["swapper"]), (&json!(REACTOR), &json!(SWAPPER)));
        assert_eq!(info["additionalValidationContract"], "0x0000000000000000000000000000000000000000");
        assert_eq!(info["additionalValidationData"], "0x");
    }
}

#[test]
fn amounts_have_the_format_of_each_order_kind() {
    let v2 = order_info(1, &draft(AuctionTerms::CosignedTimes));
    assert_eq!(v2["cosigner"], json!(COSIGNER));
    assert_eq!(v2["input"], json!({"token": PAID, "startAmount": "5000", "endAmount": "5000"}));
    assert_eq!(
        v2["outputs"],
        json!([{"token": WANTED, "startAmount": "900", "endAmount": "800", "recipient": SWAPPER}])
    );
    let v3 = order_info(1, &over_blocks());
    assert_eq!((&v3["cosigner"], &v3["startingBaseFee"]), (&json!(COSIGNER), &json!("7")));
    assert_eq!(
        v3["input"],
        json!({
            "token": PAID, "startAmount": "5000", "maxAmount": "5000", "adjustmentPerGweiBaseFee": "0",
            "curve": {"relativeBlocks": [], "relativeAmounts": []},
        })
    );
    assert_eq!(
        v3["outputs"],
        json!([{
            "token": WANTED, "startAmount": "900", "minAmount": "800", "adjustmentPerGweiBaseFee": "3",
            "curve": {"relativeBlocks": [30], "relativeAmounts": ["100"]}, "recipient": SWAPPER,
        }])
    );
    let priority = order_info(1, &by_priority());
    assert_eq!((&priority["auctionStartBlock"], &priority["baselinePriorityFeeWei"]), (&json!("41"), &json!("6")));
    assert_eq!(priority["input"], json!({"token": PAID, "amount": "5000", "mpsPerPriorityFeeWei": "0"}));
    assert_eq!(
        priority["outputs"],
        json!([{"token": WANTED, "amount": "800", "mpsPerPriorityFeeWei": "2", "recipient": SWAPPER}])
    );
    let first = order_info(1, &draft(AuctionTerms::Times { from: 5, until: 9 }));
    assert_eq!((&first["decayStartTime"], &first["decayEndTime"]), (&json!(5), &json!(9)));
    assert_eq!((&first["startTime"], &first["endTime"]), (&json!(5), &json!(9)));
}

/// The points of a curve have 16 bits each, the first one lowest.
#[test]
fn a_curve_of_several_points_is_unpacked_in_order() {
    let curve = NonlinearDutchDecay {
        relativeBlocks: U256::from(10_u64 | 20 << 16 | 65_535 << 32),
        relativeAmounts: [1, -2, 3].map(|amount| amount.try_into().unwrap()).to_vec(),
    };
    assert_eq!(super::curve(&curve), json!({"relativeBlocks": [10, 20, 65_535], "relativeAmounts": ["1", "-2", "3"]}));
}
