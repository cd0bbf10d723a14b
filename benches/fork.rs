//! Fork simulation: a V3 swap with all its changes, warm on a devnet's state, and warm over RPC.

#[path = "../tests/simulation/world.rs"]
mod world;

use std::hint::black_box;

use alloy::primitives::U256;
use criterion::{Criterion, criterion_group, criterion_main};
use world::{ALICE, World};

fn swap(criterion: &mut Criterion) {
    let (world, market) = World::with_market();
    let fork = world.fork();
    let calls = [market.swap(ALICE, U256::from(1_000_000_000_u64))];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let simulation = runtime.block_on(fork.simulate(&calls)).expect("a simulation");
    assert!(simulation.succeeded() && simulation.changes.complete());
    criterion.bench_function("fork/warm V3 swap with changes", |bencher| {
        bencher.iter(|| runtime.block_on(fork.simulate(black_box(&calls))).expect("a simulation"));
    });
}

criterion_group!(benches, swap);
criterion_main!(benches);
