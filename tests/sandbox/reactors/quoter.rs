//! Resolution of orders, compared with OrderQuoter over the real reactors.

use alloy::primitives::{B256, Bytes, U256, keccak256};
use bardo::abi::uniswapx::ResolvedOrder;
use bardo::uniswap::order::{OrderKind, OutputAmount, ReactorRevert, ResolutionPoint, ResolvedAmounts, UniswapXOrder};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::bare::Bare;
use super::random::{moment, order};

const ORDERS: u64 = 120;
const MOMENTS: u64 = 6;

fn agree(kind: OrderKind) {
    let bare = Bare::new();
    let mut random = ChaCha8Rng::seed_from_u64(7_683);
    let mut seen = std::collections::BTreeMap::<String, usize>::new();
    for nonce in 0..ORDERS {
        let order = bare.cosigned(order(&mut random, &bare, kind, nonce));
        for _ in 0..MOMENTS {
            let at = moment(&mut random, &bare);
            let outcome = compare(&bare, &order, &at);
            *seen.entry(outcome).or_default() += 1;
        }
    }
    println!("{kind}: {seen:?}");
    let resolved = seen.get("resolved").copied().unwrap_or_default();
    assert!(resolved > 200, "too few of the moments were fillable to say much: {seen:?}");
    assert!(seen.len() > 3, "too few ways to be refused came up: {seen:?}");
}

/// Compares both answers; returns their kind.
fn compare(bare: &Bare, order: &UniswapXOrder, at: &ResolutionPoint) -> String {
    match (order.resolve(at), bare.quote(order, at)) {
        (Ok(ours), Ok(theirs)) => {
            assert_eq!(ours, resolved(&theirs), "{order:?} at {at:?}");
            assert_eq!(order.hash(), theirs.hash, "{order:?}");
            "resolved".to_owned()
        }
        (Err(ours), Err(theirs)) => {
            assert_eq!(name_of(ours), name_in(&theirs), "{order:?} at {at:?}");
            format!("{ours:?}")
        }
        (ours, theirs) => panic!("{ours:?} against {theirs:?}: {order:?} at {at:?}"),
    }
}

fn resolved(theirs: &ResolvedOrder) -> ResolvedAmounts {
    let amount = |output: &bardo::abi::uniswapx::OutputToken| OutputAmount {
        token: output.token,
        amount: output.amount,
        recipient: output.recipient,
    };
    ResolvedAmounts {
        token_in: theirs.input.token,
        amount_in: theirs.input.amount,
        most_in: theirs.input.maxAmount,
        outputs: theirs.outputs.iter().map(amount).collect(),
    }
}

fn name_of(revert: ReactorRevert) -> String {
    format!("{revert:?}")
}

/// Variant whose error selector the chain returned.
fn name_in(data: &Bytes) -> String {
    let named = [
        ReactorRevert::DeadlineBeforeEndTime,
        ReactorRevert::EndTimeBeforeStartTime,
        ReactorRevert::IncorrectAmounts,
        ReactorRevert::InputAndOutputDecay,
        ReactorRevert::InvalidDecayCurve,
        ReactorRevert::InvalidCosignature,
        ReactorRevert::InvalidCosignerInput,
        ReactorRevert::InvalidCosignerOutput,
        ReactorRevert::NoExclusiveOverride,
        ReactorRevert::SignatureExpired,
        ReactorRevert::DeadlineReached,
        ReactorRevert::InvalidDeadline,
        ReactorRevert::OrderNotFillable,
        ReactorRevert::InputOutputScaling,
    ];
    let selector = |revert: &ReactorRevert| -> [u8; 4] {
        let arguments = if *revert == ReactorRevert::SignatureExpired { "uint256" } else { "" };
        let hash: B256 = keccak256(format!("{revert:?}({arguments})"));
        [hash[0], hash[1], hash[2], hash[3]]
    };
    let panic = [0x4e, 0x48, 0x7b, 0x71];
    match data.first_chunk::<4>() {
        None => "Overflow".to_owned(),
        Some(start) if *start == panic && U256::from_be_slice(&data[4..]) == U256::from(0x11) => "Overflow".to_owned(),
        Some(start) => match named.iter().find(|revert| selector(revert) == *start) {
            Some(revert) => format!("{revert:?}"),
            None => format!("{data}"),
        },
    }
}

#[test]
fn v2_dutch_orders_resolve_as_their_reactor_resolves_them() {
    agree(OrderKind::DutchV2);
}

#[test]
fn v3_dutch_orders_resolve_as_their_reactor_resolves_them() {
    agree(OrderKind::DutchV3);
}

#[test]
fn priority_orders_resolve_as_their_reactor_resolves_them() {
    agree(OrderKind::Priority);
}
