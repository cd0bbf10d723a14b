//! A fill in a block moves the order's amounts for that block, exactly once.

use alloy::primitives::U256;
use alloy::sol_types::SolEvent;
use bardo::abi::permit2::Permit2;
use bardo::abi::uniswapx::Reactor;
use bardo::chain::devnet::Receipt;
use bardo::chain::permit2::nonce_position;
use bardo::sandbox::contracts::PERMIT2;
use bardo::uniswap::order::{
    AuctionTerms, OrderAmounts, OrderDraft, OrderExpectation, OrderKind, ResolutionPoint, UniswapXOrder,
};

use super::bare::{Bare, CHAIN_ID};

const MOST: u64 = 2_600_000_007;
const LEAST: u64 = 2_399_999_989;

/// Expectations of the bare chain's order service.
fn expectation(bare: &Bare, kind: OrderKind) -> OrderExpectation {
    OrderExpectation {
        chain_id: CHAIN_ID,
        now: bare.fixture.chain.head().header.timestamp,
        reactor: bare.reactor(kind),
        swapper: bare.swapper.address(),
        recipient: bare.swapper.address(),
        cosigner: bare.cosigner.address(),
    }
}

/// A valid, cosigned order of this kind: its decay starts after three blocks or ten seconds.
fn sound(bare: &Bare, kind: OrderKind, exact_in: bool, nonce: u64) -> UniswapXOrder {
    let legs = if exact_in {
        OrderAmounts::ExactIn {
            amount_in: U256::from(10).pow(U256::from(18)),
            start_out: U256::from(MOST),
            least_out: U256::from(LEAST),
        }
    } else {
        OrderAmounts::ExactOut {
            amount_out: U256::from(1_000_003),
            start_in: U256::from(LEAST),
            most_in: U256::from(MOST),
        }
    };
    let (now, block) = (bare.fixture.chain.head().header.timestamp, bare.fixture.chain.number());
    let draft = OrderDraft {
        reactor: bare.reactor(kind),
        swapper: bare.swapper.address(),
        recipient: bare.swapper.address(),
        nonce: U256::from(nonce),
        deadline: now + 400,
        cosigner: bare.cosigner.address(),
        token_in: bare.token_in,
        token_out: bare.token_out,
        legs,
        auction: match kind {
            OrderKind::Dutch => AuctionTerms::Times { from: now + 10, until: now + 70 },
            OrderKind::DutchV2 => AuctionTerms::CosignedTimes,
            OrderKind::DutchV3 => {
                AuctionTerms::CosignedBlocks { over: 7, base_fee: 3_000_000_000, per_gwei: U256::from(977) }
            }
            OrderKind::Priority => {
                AuctionTerms::PriorityFee { start_block: block + 2, baseline: 1_000, mps_per_wei: U256::from(1) }
            }
        },
    };
    let mut order = draft.order().unwrap();
    assert_eq!(order.faults(&expectation(bare, kind)), []);
    match &mut order {
        UniswapXOrder::Dutch(_) => {}
        UniswapXOrder::DutchV2(order) => {
            order.cosignerData.decayStartTime = U256::from(now + 10);
            order.cosignerData.decayEndTime = U256::from(now + 70);
        }
        UniswapXOrder::DutchV3(order) => order.cosignerData.decayStartBlock = U256::from(block + 3),
        UniswapXOrder::Priority(order) => order.cosignerData.auctionTargetBlock = U256::from(block + 1),
    }
    let order = bare.cosigned(order);
    assert_eq!(order.cosigner_faults(CHAIN_ID), []);
    order
}

/// Balances of swapper and filler, in both tokens.
fn balances(bare: &Bare) -> [U256; 4] {
    let (swapper, filler) = (bare.swapper.address(), bare.filler.address());
    [(bare.token_in, swapper), (bare.token_in, filler), (bare.token_out, swapper), (bare.token_out, filler)]
        .map(|(token, owner)| bare.fixture.balance(token, owner))
}

/// Fills in the next block and compares the flows with the order's amounts for that block.
fn fill_and_compare(bare: &mut Bare, order: &UniswapXOrder, tip: u128) -> (U256, U256) {
    let before = balances(bare);
    let receipt = bare.fill(order, tip);
    assert!(receipt.is_success(), "{:?}", receipt.failure);
    let header = &bare.fixture.chain.head().header;
    let at = ResolutionPoint {
        chain_id: CHAIN_ID,
        timestamp: header.timestamp,
        block: header.number,
        base_fee: header.base_fee_per_gas.unwrap().into(),
        priority_fee: tip,
        filler: bare.filler.address(),
    };
    let said = order.resolve(&at).unwrap();
    let (paid, got) = (said.amount_in, said.outputs[0].amount);
    let after = balances(bare);
    assert_eq!(after, [before[0] - paid, before[1] + paid, before[2] + got, before[3] - got], "{at:?}");
    let fill = Reactor::Fill::decode_log(&receipt.logs()[receipt.logs().len() - 1]).unwrap();
    let expected = (order.hash(), bare.filler.address(), bare.swapper.address(), order.info().nonce);
    assert_eq!((fill.orderHash, fill.filler, fill.swapper, fill.nonce), expected);
    (paid, got)
}

#[test]
fn a_v2_dutch_fill_moves_what_its_time_says() {
    let mut bare = Bare::new();
    for (nonce, exact_in) in [(0, true), (100, false)] {
        let mut moved = Vec::new();
        for (step, after) in [5, 10, 27, 69, 70, 300].into_iter().enumerate() {
            let order = sound(&bare, OrderKind::DutchV2, exact_in, nonce + u64::try_from(step).unwrap());
            let now = bare.fixture.chain.head().header.timestamp;
            bare.fixture.chain.set_next_timestamp(now + after).unwrap();
            moved.push(fill_and_compare(&mut bare, &order, 1));
        }
        // From the start to the end of the range, constant outside of it.
        let side = |(paid, got): &(U256, U256)| if exact_in { *got } else { *paid };
        let (first, last) = if exact_in { (MOST, LEAST) } else { (LEAST, MOST) };
        assert_eq!([side(&moved[0]), side(&moved[1])], [U256::from(first); 2]);
        assert_eq!([side(&moved[4]), side(&moved[5])], [U256::from(last); 2]);
        assert!(side(&moved[2]) != side(&moved[1]) && side(&moved[2]) != side(&moved[3]));
    }
}

#[test]
fn a_v3_dutch_fill_moves_what_its_block_and_base_fee_say() {
    let mut bare = Bare::new();
    for (nonce, exact_in) in [(0, true), (100, false)] {
        let mut moved = Vec::new();
        for (step, (wait, base_fee)) in
            [(0, 3_000_000_000), (4, 3_000_000_000), (4, 9_000_000_001), (4, 1_000_000_001), (30, 3_000_000_000)]
                .into_iter()
                .enumerate()
        {
            let order = sound(&bare, OrderKind::DutchV3, exact_in, nonce + u64::try_from(step).unwrap());
            (0..wait).for_each(|_| drop(bare.fixture.chain.mine()));
            bare.fixture.chain.set_next_base_fee(base_fee);
            moved.push(fill_and_compare(&mut bare, &order, 1));
        }
        let side = |(paid, got): &(U256, U256)| if exact_in { *got } else { *paid };
        let (first, last) = if exact_in { (MOST, LEAST) } else { (LEAST, MOST) };
        assert_eq!(side(&moved[0]), U256::from(first));
        assert_eq!(side(&moved[4]), U256::from(last));
        // A higher gas price is worse for the swapper, a lower one better.
        let worse = |a: U256, b: U256| if exact_in { a < b } else { a > b };
        assert!(worse(side(&moved[2]), side(&moved[1])), "{moved:?}");
        assert!(worse(side(&moved[1]), side(&moved[3])), "{moved:?}");
    }
}

#[test]
fn a_priority_fill_moves_what_its_fee_says() {
    let mut bare = Bare::new();
    for (nonce, exact_in) in [(0, true), (100, false)] {
        let mut moved = Vec::new();
        for (step, tip) in [0, 1_000, 1_001, 50_000, 9_999_999].into_iter().enumerate() {
            let order = sound(&bare, OrderKind::Priority, exact_in, nonce + u64::try_from(step).unwrap());
            moved.push(fill_and_compare(&mut bare, &order, tip));
        }
        let side = |(paid, got): &(U256, U256)| if exact_in { *got } else { *paid };
        let base = U256::from(if exact_in { LEAST } else { MOST });
        assert_eq!([side(&moved[0]), side(&moved[1])], [base; 2]);
        for pair in moved[1..].windows(2) {
            let better = if exact_in { pair[1].1 > pair[0].1 } else { pair[1].0 < pair[0].0 };
            assert!(better, "{moved:?}");
        }
    }
}

/// Asserts that both the chain and the order reject, and nothing moves.
fn refused(bare: &mut Bare, order: &UniswapXOrder) -> Receipt {
    let before = balances(bare);
    let receipt = bare.fill(order, 1);
    assert!(!receipt.is_success());
    assert_eq!(balances(bare), before);
    receipt
}

#[test]
fn an_order_fills_once_and_not_after_its_nonce_was_used_up_or_its_deadline_has_passed() {
    let mut bare = Bare::new();
    for kind in [OrderKind::DutchV2, OrderKind::DutchV3, OrderKind::Priority] {
        let order = sound(&bare, kind, true, 1);
        fill_and_compare(&mut bare, &order, 1);
        refused(&mut bare, &order);

        let order = sound(&bare, kind, true, 2);
        let (word, bit) = nonce_position(order.info().nonce);
        let cancel = Permit2::invalidateUnorderedNoncesCall { wordPos: word, mask: U256::from(1) << bit };
        assert!(bare.fixture.call(&bare.swapper, PERMIT2, &cancel, 1).is_success());
        refused(&mut bare, &order);

        let order = sound(&bare, kind, true, 3);
        let deadline = u64::try_from(order.info().deadline).unwrap();
        bare.fixture.chain.set_next_timestamp(deadline + 1).unwrap();
        refused(&mut bare, &order);
        bare = Bare::new();
    }
}

#[test]
fn a_cosigner_can_only_improve_an_order() {
    let mut bare = Bare::new();
    let mut order = sound(&bare, OrderKind::DutchV2, true, 1);
    let UniswapXOrder::DutchV2(inner) = &mut order else { panic!("{order:?}") };
    inner.cosignerData.outputAmounts = vec![U256::from(MOST - 1)];
    let lowered = bare.cosigned(order.clone());
    assert_eq!(lowered.cosigner_faults(CHAIN_ID).len(), 1);
    refused(&mut bare, &lowered);

    // Improved, but without a new cosignature.
    let UniswapXOrder::DutchV2(inner) = &mut order else { panic!("{order:?}") };
    inner.cosignerData.outputAmounts = vec![U256::from(MOST + 5)];
    assert_eq!(order.cosigner_faults(CHAIN_ID).len(), 1);
    refused(&mut bare, &order);

    let improved = bare.cosigned(order);
    assert_eq!(improved.cosigner_faults(CHAIN_ID), []);
    let (_, got) = fill_and_compare(&mut bare, &improved, 1);
    assert_eq!(got, U256::from(MOST + 5));
    assert_eq!(improved.bounds().least_out[0].amount, U256::from(LEAST));
}
