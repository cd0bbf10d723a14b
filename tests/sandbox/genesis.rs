//! State after genesis.

use alloy::consensus::transaction::SignerRecoverable;
use alloy::primitives::{U256, address, aliases::U24, aliases::U160, keccak256};
use bardo::abi::erc20::Erc20;
use bardo::abi::uniswap_v2::{UniswapV2Factory, UniswapV2Pair};
use bardo::abi::uniswap_v3::{QuoterV2, SwapRouter02, TickLens, UniswapV3Factory, UniswapV3Pool};
use bardo::sandbox::market::pool_sqrt_price;
use bardo::sandbox::plan::{BASE, CHAINS, ETHEREUM, SandboxToken, Venue};

use crate::world::{START, World};

#[test]
fn every_contract_has_code_where_the_description_says() {
    for plan in CHAINS {
        let world = World::new(plan);
        let deployment = world.background_actors.deployment();
        let all = deployment.contracts.values().chain(deployment.enforcers.values());
        let all = all.chain(deployment.tokens.values()).chain(deployment.feeds.values());
        for address in all.copied().chain(deployment.pools.iter().map(|pool| pool.address)) {
            assert!(!world.chain.state().code(address).is_empty(), "{} {address}", plan.name);
        }
        assert_eq!(deployment.enforcers.len(), 33);
        let permit2 = address!("0x000000000022D473030F116dDEE9F6B43aC78BA3");
        assert_eq!(world.contract("permit2"), permit2);
        assert_eq!(world.chain.state().code(permit2).len(), 9_152);
        let multicall = world.chain.state().code(address!("0xcA11bde05977b3631167028862bE2a173976CA11"));
        assert!(keccak256(multicall).to_string().starts_with("0xd5c15df6"));
        let entry_point = address!("0x0000000071727De22E5E9d8BAf0edAc6f37da032");
        assert!(!world.chain.state().code(entry_point).is_empty());
        assert_eq!(world.chain.head().header.timestamp, START);
    }
}

#[test]
fn genesis_is_made_of_signed_transactions_alone() {
    let world = World::new(&ETHEREUM);
    let mut count = 0;
    for block in world.chain.blocks(0, world.chain.number()) {
        for transaction in &block.transactions {
            assert!(!transaction.impersonated);
            assert_eq!(transaction.envelope.recover_signer().unwrap(), transaction.sender);
            count += 1;
        }
        assert!(block.receipts.iter().all(|receipt| receipt.failure.is_none()));
    }
    assert!(count > 300);
}

#[test]
fn the_factories_know_the_pools_at_the_computed_addresses() {
    let world = World::new(&ETHEREUM);
    for pool in &world.background_actors.deployment().pools {
        let (a, b) = (pool.token0.address, pool.token1.address);
        let known = match pool.venue {
            Venue::V2 => world.ask(world.contract("v2Factory"), UniswapV2Factory::getPairCall { tokenA: a, tokenB: b }),
            Venue::V3(fee) => world.ask(
                world.contract("v3Factory"),
                UniswapV3Factory::getPoolCall { tokenA: a, tokenB: b, fee: U24::from(fee) },
            ),
        };
        assert_eq!(known, pool.address);
        // The market reads prices from storage: they equal the contract's answers.
        let at = pool_sqrt_price(world.chain.state(), pool);
        match pool.venue {
            Venue::V3(_) => {
                let slot0 = world.ask(pool.address, UniswapV3Pool::slot0Call {});
                assert_eq!(at, U256::from(slot0.sqrtPriceX96));
            }
            Venue::V2 => {
                let reserves = world.ask(pool.address, UniswapV2Pair::getReservesCall {});
                let squared: U256 = (at >> 32_usize) * (at >> 32_usize);
                let ratio = (U256::from(reserves.reserve1) << 128_usize) / U256::from(reserves.reserve0);
                assert!(squared.abs_diff(ratio) <= ratio / U256::from(1_000_000));
            }
        }
    }
}

#[test]
fn the_demo_wallet_has_exactly_what_it_should() {
    let ether = |tenths: u64| U256::from(tenths) * U256::from(10).pow(U256::from(17));
    let world = World::new(&ETHEREUM);
    assert_eq!(world.demo(), address!("0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"));
    assert_eq!(world.chain.state().balance(world.demo()), ether(14));
    assert_eq!(world.balance(SandboxToken::Weth, world.demo()), ether(45));
    assert_eq!(world.balance(SandboxToken::Usdc, world.demo()), U256::from(5_000_000_000_u64));
    for token in [SandboxToken::Usdt, SandboxToken::Dai, SandboxToken::Uni, SandboxToken::Link, SandboxToken::Wbtc] {
        assert_eq!(world.balance(token, world.demo()), U256::ZERO);
    }
    let world = World::new(&BASE);
    assert_eq!(world.chain.state().balance(world.demo()), ether(2));
    assert_eq!(world.balance(SandboxToken::Usdc, world.demo()), U256::from(500_000_000));
    assert_eq!(world.balance(SandboxToken::Weth, world.demo()), U256::ZERO);
}

#[test]
fn every_pool_stands_at_the_stated_price() {
    for plan in CHAINS {
        let world = World::new(plan);
        for pool in world.sound_pools() {
            let distance = world.distance(&pool).abs();
            let fee = f64::from(pool.venue.fee()) / 1e6;
            assert!(distance <= fee + 0.001, "{pool:?} is off by {distance}");
        }
        for (asset, stated) in [("ETH", 3_400.0), ("BTC", 68_000.0), ("UNI", 7.85), ("LINK", 17.0)] {
            let asset = bardo::sandbox::target::PricedAsset::FED.into_iter().find(|fed| fed.ticker() == asset).unwrap();
            assert!((world.price(asset) / stated - 1.0).abs() <= 0.008);
        }
    }
}

#[test]
fn the_weth_usdc_pools_hold_twenty_million_dollars() {
    let world = World::new(&ETHEREUM);
    let mut dollars = 0.0;
    let venues = [Venue::V2, Venue::V3(100), Venue::V3(500), Venue::V3(3_000), Venue::V3(10_000)];
    for venue in venues {
        let pool = world.pool(SandboxToken::Weth, SandboxToken::Usdc, venue);
        let held = |token| u128::try_from(world.balance(token, pool.address)).unwrap() as f64;
        dollars += held(SandboxToken::Weth) / 1e18 * 3_400.0 + held(SandboxToken::Usdc) / 1e6;
    }
    assert!((dollars / 20e6 - 1.0).abs() < 0.1, "{dollars}");
}

#[test]
fn v3_pools_have_many_ticks_and_an_hour_of_observations() {
    let world = World::new(&ETHEREUM);
    for pool in world.sound_pools() {
        let Venue::V3(fee) = pool.venue else { continue };
        let spacing: i32 = world.ask(pool.address, UniswapV3Pool::tickSpacingCall {}).as_i32();
        let slot0 = world.ask(pool.address, UniswapV3Pool::slot0Call {});
        assert!(slot0.observationCardinalityNext >= 300);
        let word = slot0.tick.as_i32().div_euclid(spacing).div_euclid(256);
        let ticks: usize = (word - 20..=word + 20)
            .map(|word| {
                let call = TickLens::getPopulatedTicksInWordCall {
                    pool: pool.address,
                    tickBitmapIndex: i16::try_from(word).unwrap(),
                };
                world.ask(world.contract("tickLens"), call).len()
            })
            .sum();
        assert!(ticks >= 20, "fee {fee}: only {ticks} initialised ticks near the price");

        let observed = world.ask(pool.address, UniswapV3Pool::observeCall { secondsAgos: vec![3_600, 0] });
        let moved: i64 = observed.tickCumulatives[1].as_i64() - observed.tickCumulatives[0].as_i64();
        let average = moved as f64 / 3_600.0;
        let price = 1.0001_f64.powf(average);
        let (token0, token1) = (pool.token0.token.plan(), pool.token1.token.plan());
        let stated = token0.asset.anchor() as f64 / token1.asset.anchor() as f64
            * 10_f64.powi(i32::from(token1.decimals) - i32::from(token0.decimals));
        // Both assets move by 0.8 %, and a pool may lag by its fee.
        let tolerance = 0.017 + f64::from(fee) / 1e6;
        assert!((price / stated - 1.0).abs() < tolerance, "{pool:?}: {price} against {stated}");
    }
}

#[test]
fn a_swap_pays_exactly_what_the_quoter_says() {
    let mut world = World::quiet(&ETHEREUM);
    let (weth, usdc, router) =
        (world.token(SandboxToken::Weth), world.token(SandboxToken::Usdc), world.contract("swapRouter02"));
    let approved = world.transact(0, weth, Erc20::approveCall { spender: router, value: U256::MAX });
    assert!(approved.failure.is_none());
    for (fee, tenths) in [(100_u32, 1_u64), (500, 10), (3_000, 10), (10_000, 5)] {
        let amount = U256::from(tenths) * U256::from(10).pow(U256::from(17));
        let quoted = world.ask(
            world.contract("quoterV2"),
            QuoterV2::quoteExactInputSingleCall {
                params: QuoterV2::QuoteExactInputSingleParams {
                    tokenIn: weth,
                    tokenOut: usdc,
                    amountIn: amount,
                    fee: U24::from(fee),
                    sqrtPriceLimitX96: U160::ZERO,
                },
            },
        );
        let before = world.balance(SandboxToken::Usdc, world.demo());
        let swap = SwapRouter02::exactInputSingleCall {
            params: SwapRouter02::ExactInputSingleParams {
                tokenIn: weth,
                tokenOut: usdc,
                fee: U24::from(fee),
                recipient: world.demo(),
                amountIn: amount,
                amountOutMinimum: quoted.amountOut,
                sqrtPriceLimitX96: U160::ZERO,
            },
        };
        let receipt = world.transact(0, router, swap);
        assert!(receipt.failure.is_none(), "{:?}", receipt.failure);
        assert_eq!(world.balance(SandboxToken::Usdc, world.demo()) - before, quoted.amountOut);
        let swapped = UniswapV3Pool::slot0Call {};
        let pool = world.pool(SandboxToken::Weth, SandboxToken::Usdc, Venue::V3(fee));
        assert_eq!(world.ask(pool.address, swapped).sqrtPriceX96, quoted.sqrtPriceX96After);
    }
}

#[test]
fn positions_have_pictures() {
    // The descriptor was linked with its library: only then it can draw.
    let world = World::new(&ETHEREUM);
    let uri = bardo::abi::uniswap_v3::NonfungiblePositionManager::tokenURICall { tokenId: U256::ONE };
    let uri = world.ask(world.contract("v3PositionManager"), uri);
    assert!(uri.starts_with("data:application/json;base64,"));
}

#[test]
fn the_same_seed_gives_the_same_chain_and_another_seed_the_same_addresses() {
    let (first, second, other) = (World::seeded(&BASE, 5), World::seeded(&BASE, 5), World::seeded(&BASE, 6));
    assert_eq!(first.chain.head().hash, second.chain.head().hash);
    assert_ne!(first.chain.head().hash, other.chain.head().hash);
    let places = |world: &World| {
        let deployment = world.background_actors.deployment();
        (deployment.contracts.clone(), deployment.tokens.clone(), deployment.pools.clone())
    };
    assert_eq!(places(&first), places(&second));
    assert_eq!(places(&first), places(&other));
}
