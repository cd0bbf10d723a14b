//! Orders: built, hashed, signed over, cosigned against, resolved; and a ledger with a thousand of them open.

use std::hint::black_box;

use alloy::primitives::{Address, B256, U256, address};
use bardo::chain::permit2::Domain;
use bardo::uniswap::order::{At, Auction, Draft, Legs, Order, OrderKind};
use criterion::{Criterion, criterion_group, criterion_main};

const PERMIT2: Address = address!("000000000022D473030F116dDEE9F6B43aC78BA3");

fn draft(kind: OrderKind, nonce: u64) -> Draft {
    Draft {
        reactor: Address::repeat_byte(1),
        swapper: Address::repeat_byte(2),
        recipient: Address::repeat_byte(2),
        nonce: U256::from(nonce),
        deadline: 2_000,
        cosigner: Address::repeat_byte(3),
        token_in: Address::repeat_byte(4),
        token_out: Address::repeat_byte(5),
        legs: Legs::ExactIn {
            amount_in: U256::from(1_000_000_000u64),
            start_out: U256::from(1_010_000_000u64),
            least_out: U256::from(990_000_000u64),
        },
        auction: match kind {
            OrderKind::Dutch => Auction::Times { from: 1_000, until: 1_900 },
            OrderKind::DutchV2 => Auction::CosignedTimes,
            OrderKind::DutchV3 => Auction::CosignedBlocks { over: 40, base_fee: 0, per_gwei: U256::ZERO },
            OrderKind::Priority => Auction::PriorityFee { start_block: 1, baseline: 0, mps_per_wei: U256::from(1) },
        },
    }
}

fn orders(criterion: &mut Criterion) {
    let domain = Domain { chain_id: 31_337, permit2: PERMIT2 };
    for kind in [OrderKind::DutchV2, OrderKind::DutchV3, OrderKind::Priority] {
        criterion.bench_function(&format!("{kind} built"), |bench| {
            bench.iter(|| draft(kind, black_box(1)).order().unwrap())
        });
        let order = draft(kind, 1).order().unwrap();
        criterion.bench_function(&format!("{kind} hashed"), |bench| bench.iter(|| black_box(&order).hash()));
        criterion.bench_function(&format!("{kind} digest to sign"), |bench| {
            bench.iter(|| black_box(&order).permit().digest(&domain))
        });
        let encoded = order.encode();
        criterion.bench_function(&format!("{kind} decoded and compared"), |bench| {
            bench.iter(|| Order::decode(kind, black_box(&encoded)).unwrap())
        });
    }
    // The first Dutch order needs no cosigner, so that resolving alone is measured.
    let order = draft(OrderKind::Dutch, 1).order().unwrap();
    let at = At { chain_id: 31_337, timestamp: 1_400, block: 9, base_fee: 7, priority_fee: 0, filler: Address::ZERO };
    criterion.bench_function("a Dutch order resolved", |bench| bench.iter(|| black_box(&order).resolve(&at).unwrap()));
    let many: Vec<Order> = (0..1_000).map(|nonce| draft(OrderKind::Dutch, nonce).order().unwrap()).collect();
    criterion.bench_function("1,000 open orders resolved", |bench| {
        bench.iter(|| many.iter().filter(|order| order.resolve(&at).is_ok()).count())
    });
    let hashes: Vec<B256> = many.iter().map(Order::hash).collect();
    assert_eq!(hashes.len(), 1_000);
}

criterion_group!(benches, orders);
criterion_main!(benches);
