//! The best route over 10, 50 and 200 pools, and a rebalance candidate. Warm: every pool was quoted before, as from the second quote of a block
//! on. Cold: in a new set of pools. Also a complete quote with all reads, over the pools of a devnet in this process,
//! and our router compared with Uniswap's smart-order-router.

use std::hint::black_box;
use std::sync::Arc;

use alloy::eips::BlockId;
use alloy::primitives::{Address, U256};
use bardo::base::clock::SystemClock;
use bardo::chain::provider::ChainClient;
use bardo::sandbox::plan::SandboxToken;
use bardo::sandbox::{BlockPace, MarketMode, Sandbox, SandboxConfig};
use bardo::uniswap::discovery::PoolReader;
use bardo::uniswap::outlook::{MarketSample, PoolTrade};
use bardo::uniswap::pool::{FixedAmount, Pool};
use bardo::uniswap::ratio::Ratio;
use bardo::uniswap::routing::{GasCost, PoolSet, RouteRequest, best_route};
use bardo::uniswap::v2::V2Pool;
use bardo::uniswap::v3::position::TickRange;
use bardo::uniswap::v3::tick_math::sqrt_price_at_tick;
use bardo::uniswap::v3::{ALL_TICKS, Tick, V3Pool, V3State};
use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};

fn token(index: usize) -> Address {
    Address::from_word(U256::from(index + 1).into())
}

/// All pairs of `tokens` tokens, with five pools per pair: one V2 pool, and four V3 fee tiers with twenty positions.
fn pools(count: usize, tokens: usize) -> Vec<Pool> {
    let mut pools = Vec::new();
    for kind in 0..5 {
        for a in 0..tokens {
            for b in a + 1..tokens {
                let at = pools.len() + 1000;
                // Depth and price differ between pools deterministically.
                let depth = 10u128.pow(21) * (1 + (at as u128 * 7) % 13);
                let skew = (at as i32 * 37) % 61 - 30;
                pools.push(pool(Address::from_word(U256::from(at).into()), token(a), token(b), kind, depth, skew));
            }
        }
    }
    pools.truncate(count);
    assert_eq!(pools.len(), count);
    pools
}

fn pool(address: Address, token0: Address, token1: Address, kind: usize, depth: u128, skew: i32) -> Pool {
    let (fee, spacing) = match kind {
        0 => return V2Pool { address, token0, token1, reserve0: depth, reserve1: depth }.into(),
        1 => (500, 10),
        2 => (3000, 60),
        3 => (100, 1),
        _ => (10_000, 200),
    };
    let mut ticks = Vec::new();
    for position in 1..=20i32 {
        let liquidity_net = i128::try_from(depth).unwrap();
        ticks.push(Tick { index: -position * spacing * 3, liquidity_net });
        ticks.push(Tick { index: position * spacing * 3, liquidity_net: -liquidity_net });
    }
    ticks.sort_by_key(|tick| tick.index);
    let tick = skew.clamp(-3 * spacing, 3 * spacing - 1);
    let state = V3State {
        id: address.into(),
        token0,
        token1,
        fee,
        tick_spacing: spacing,
        sqrt_price_x96: sqrt_price_at_tick(tick).unwrap(),
        liquidity: depth * 20,
        tick,
        ticks,
        known_ticks: ALL_TICKS,
    };
    V3Pool::new(state).unwrap().into()
}

fn quote(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("best_route_warm");
    for (count, tokens) in [(10, 4), (50, 5), (200, 10)] {
        let set = PoolSet::new(pools(count, tokens));
        let price = Ratio::of(U256::from(1), U256::from(1)).unwrap();
        for (name, amount) in [("small", 10u128.pow(18)), ("large", 3 * 10u128.pow(21))] {
            for exact in [FixedAmount::In(U256::from(amount)), FixedAmount::Out(U256::from(amount))] {
                let gas = GasCost::new(1_000_000_000, &price);
                let request = RouteRequest { gas, ..RouteRequest::new(token(0), token(1), exact) };
                let side = if matches!(exact, FixedAmount::In(_)) { "in" } else { "out" };
                let route = best_route(&set, &request).unwrap();
                let id = BenchmarkId::new(format!("{name}_{side}_{}_legs", route.legs.len()), count);
                group.bench_function(id, |bencher| bencher.iter(|| best_route(black_box(&set), black_box(&request))));
            }
        }
    }
    group.finish();
}

fn cold(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("best_route_cold");
    for (count, tokens) in [(10, 4), (50, 5), (200, 10)] {
        let pools = pools(count, tokens);
        let gas = GasCost::new(1_000_000_000, &Ratio::of(U256::from(1), U256::from(1)).unwrap());
        let exact = FixedAmount::In(U256::from(10u128.pow(18)));
        let request = RouteRequest { gas, ..RouteRequest::new(token(0), token(1), exact) };
        group.bench_function(BenchmarkId::new("small_in", count), |bencher| {
            bencher.iter_batched(
                || PoolSet::new(pools.clone()),
                |set| best_route(black_box(&set), black_box(&request)),
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

/// A quote from an empty cache: find the pools, read their ticks, choose the route.
fn read_and_quoted(criterion: &mut Criterion) {
    let config = SandboxConfig {
        seed: 1,
        start_time: 1_800_000_000,
        pace: BlockPace::Manual,
        clock: None,
        market: MarketMode::Off,
        keeper: true,
    };
    let sandbox = Sandbox::boot(&config, &|_| {}).unwrap();
    let network = sandbox.description().networks().swap_remove(0);
    let chain = sandbox.chain("ethereum").unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    // The client watches its endpoints from tasks of its own.
    let _inside = runtime.enter();
    let client = ChainClient::devnet(network.clone(), chain.devnet.clone(), Arc::new(SystemClock)).unwrap();
    let usdc = chain.deployment.token(SandboxToken::Usdc).unwrap();
    let request = RouteRequest::new(chain.deployment.weth, usdc, FixedAmount::In(U256::from(10u128.pow(18))));
    let pools = chain.deployment.pools.len();
    criterion.bench_function(&format!("a quote with its reading, of {pools} pools on the devnet"), |bencher| {
        bencher.iter_batched(
            || PoolReader::new(client.provider().clone(), &network).unwrap(),
            |reader| runtime.block_on(reader.route(&request, BlockId::latest())).unwrap(),
            BatchSize::SmallInput,
        );
    });
}

/// The computation of a rebalance candidate over the most swaps and intervals that one is made of: both the new range and
/// the present one (goal: under 50 ms).
fn candidate(criterion: &mut Criterion) {
    let root = |at: usize| sqrt_price_at_tick((at as i32 * 37) % 401 - 200).unwrap();
    let trade = |at: usize| PoolTrade {
        sqrt_price_x96: root(at),
        liquidity: 10u128.pow(20) + at as u128,
        paid: [U256::from(10u128.pow(18) * (at as u128 % 2)), U256::from(10u128.pow(18) * (1 - at as u128 % 2))],
        fee: 500,
    };
    let sample = MarketSample {
        trades: (0..20_000).map(trade).collect(),
        closes: (0..865).map(root).collect(),
        interval: 300,
        seconds: 259_200,
    };
    let ranges = [(-600, 600), (-1_200, 1_200)].map(|(lower, upper)| TickRange::new(lower, upper).unwrap());
    let price = sqrt_price_at_tick(0).unwrap();
    criterion.bench_function("a rebalance candidate of 20,000 swaps in three days", |bencher| {
        bencher.iter(|| {
            let sample = black_box(&sample);
            ranges.map(|range| sample.outlook(range, 10u128.pow(19), price, 259_200).unwrap().fees)
        });
    });
}

/// Prints a comparison of our router with Uniswap's on the same pools. Both are started here, at the paths that
/// `.ci/tools/install` has set.
fn beside_the_sidecar(_: &mut Criterion) {
    let (Ok(anvil), Ok(sidecar)) = (std::env::var("BARDO_ANVIL"), std::env::var("BARDO_SIDECAR")) else {
        println!("no sidecar: run eval \"$(.ci/tools/install)\" first to see the own router beside Uniswap's");
        return;
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mainnet = bardo_testkit::mainnet::start(&anvil, std::path::Path::new(&sidecar)).await;
        // The first run fills the caches of both; the second produces the table.
        let _ = bardo_testkit::side_by_side::rows(&mainnet).await;
        println!("{}", bardo_testkit::side_by_side::table(&bardo_testkit::side_by_side::rows(&mainnet).await));
    });
}

criterion_group!(benches, quote, cold, candidate, read_and_quoted, beside_the_sidecar);
criterion_main!(benches);
