//! Fork simulation of a V3 swap, including its state changes: warm on the devnet's own state, and cold over JSON-RPC on
//! loopback. Cold is the state: the HTTP client is made once, as in the program. The round trips dominate, so their number is
//! printed.

use std::hint::black_box;

use alloy::eips::BlockId;
use alloy::primitives::U256;
use alloy::primitives::aliases::{U24, U160};
use alloy::providers::{Provider, ProviderBuilder};
use alloy::sol_types::SolCall;
use bardo::abi::erc20::{Erc20, Weth9};
use bardo::abi::uniswap_v3::SwapRouter02;
use bardo::chain::devnet::server;
use bardo::chain::fork::{
    Fork, ForkCall, ForkSource, NextBlock, PrefetchHints, RemoteLimits, RemoteState, SimulationOptions,
};
use bardo::sandbox::plan::{SandboxToken, Venue};
use bardo::sandbox::{BlockPace, MarketMode, Sandbox, SandboxConfig};
use criterion::{Criterion, criterion_group, criterion_main};

fn swap(criterion: &mut Criterion) {
    let config = SandboxConfig {
        seed: 1,
        start_time: 1_800_000_000,
        pace: BlockPace::Manual,
        clock: None,
        market: MarketMode::Off,
        keeper: false,
    };
    let sandbox = Sandbox::boot(&config, &|_| {}).expect("a sandbox");
    let chain = sandbox.chain("ethereum").expect("the first chain");
    let trader = *sandbox.accounts().first().expect("the demo wallet");
    let (weth, router) = (chain.deployment.weth, chain.deployment.swap_router);
    let usdc = chain.deployment.token(SandboxToken::Usdc).expect("on every chain");
    let pool = chain
        .deployment
        .pools
        .iter()
        .find(|pool| {
            let tokens = [pool.token0.token, pool.token1.token];
            pool.venue == Venue::V3(500) && tokens.contains(&SandboxToken::Weth) && tokens.contains(&SandboxToken::Usdc)
        })
        .expect("a pool");
    let amount = U256::from(10).pow(U256::from(16));
    let params = SwapRouter02::ExactInputSingleParams {
        tokenIn: weth,
        tokenOut: usdc,
        fee: U24::from(pool.venue.fee()),
        recipient: trader,
        amountIn: amount,
        amountOutMinimum: U256::from(1),
        sqrtPriceLimitX96: U160::ZERO,
    };
    // Wrapping and approval come first, so that only the swap is measured.
    let prepare = [
        ForkCall::new(trader, weth, Weth9::depositCall {}.abi_encode()).with_value(amount),
        ForkCall::new(trader, weth, Erc20::approveCall { spender: router, value: U256::MAX }.abi_encode()),
    ];
    let runtime = bardo::base::runtime::multi_threaded(None).expect("a runtime");
    let devnet = chain.devnet.clone();
    runtime.block_on(async {
        let fork = Fork::pin(&ForkSource::Devnet(devnet.clone()), BlockId::latest(), NextBlock::default()).await;
        let prepared = fork.expect("a fork").simulate(&prepare).await.expect("a simulation").changes;
        let written = prepared.writes.clone();
        devnet
            .run(move |chain| {
                for write in written {
                    chain.set_storage_at(write.account, write.slot, write.value.after);
                }
                chain.mine();
            })
            .await
            .expect("a chain");
    });
    let swap = SwapRouter02::exactInputSingleCall { params }.abi_encode();
    let calls = [ForkCall::new(trader, router, swap).with_gas_limit(500_000)];

    let source = ForkSource::Devnet(devnet.clone());
    let fork = runtime.block_on(Fork::pin(&source, BlockId::latest(), NextBlock::default())).expect("a fork");
    let expected = runtime.block_on(fork.simulate(&calls)).expect("a simulation");
    assert!(expected.succeeded() && expected.changes.complete(), "{:?}", expected.failure());
    criterion.bench_function("fork/warm V3 swap with changes", |bencher| {
        bencher.iter(|| runtime.block_on(fork.simulate(black_box(&calls))).expect("a simulation"));
    });

    let served = runtime.block_on(server::serve(devnet.clone(), 0)).expect("a server");
    let url: url::Url = served.url().parse().expect("a URL");
    let rules = runtime.block_on(devnet.run(|chain| *chain.rules())).expect("a chain");
    let hints = PrefetchHints { accounts: vec![pool.address], slots: vec![] };
    let options = SimulationOptions { hints, ..SimulationOptions::default() };
    let provider = ProviderBuilder::default().connect_http(url).erased();
    let cold = async || {
        let remote = RemoteState::new(provider.clone(), rules, RemoteLimits::default());
        let fork = remote.pin(BlockId::latest(), NextBlock::default()).await.expect("a fork");
        let simulation = fork.simulate_with(&calls, &options).await.expect("a simulation");
        (simulation, remote.round_trips())
    };
    let (simulation, round_trips) = runtime.block_on(cold());
    assert_eq!(simulation.outcomes[0].status, expected.outcomes[0].status);
    assert!(round_trips <= 6, "{round_trips} round trips");
    println!("fork/cold V3 swap over RPC: {round_trips} sequential round trips");
    criterion.bench_function("fork/cold V3 swap over RPC on loopback", |bencher| {
        bencher.iter(|| runtime.block_on(cold()));
    });
}

criterion_group!(benches, swap);
criterion_main!(benches);
