//! The market over time.

use bardo::sandbox::market::pool_sqrt_price;
use bardo::sandbox::plan::{BASE, ETHEREUM, SandboxToken, Venue};
use bardo::sandbox::target::PricedAsset;

use crate::world::{START, World};

#[test]
fn over_fifteen_minutes_prices_stay_in_their_band_and_pools_agree() {
    let mut world = World::new(&BASE);
    let mut seen: Vec<f64> = Vec::new();
    let mut trades = 0;
    for number in 1..=900_u32 {
        world.block();
        let block = world.chain.head();
        trades += block.transactions.len();
        seen.push(world.price(PricedAsset::Eth));
        if number % 50 == 0 {
            for pool in world.sound_pools() {
                let distance = world.distance(&pool).abs();
                // Within the pool's fee, plus the possible effect of one trade since the arbitrageur last acted.
                assert!(distance <= f64::from(pool.venue.fee()) / 1e6 + 0.002, "block {number}: {pool:?} {distance}");
            }
        }
    }
    let (low, high) = seen.iter().fold((f64::MAX, 0_f64), |(low, high), price| (low.min(*price), high.max(*price)));
    assert!(low >= 3_400.0 * 0.992 && high <= 3_400.0 * 1.008, "{low} to {high}");
    assert!(high / low > 1.002, "the market stood still: {low} to {high}");
    assert!(trades > 100, "only {trades} transactions in fifteen minutes");
}

#[test]
fn the_memory_of_a_busy_pool_reaches_back_an_hour() {
    use bardo::abi::uniswap_v3::UniswapV3Pool;
    let mut world = World::new(&BASE);
    for _ in 0..900 {
        world.block();
    }
    // A quarter of an hour of one-second blocks must use at most a quarter of the pool's observations.
    for venue in [Venue::V3(500), Venue::V3(3_000)] {
        let pool = world.pool(SandboxToken::Weth, SandboxToken::Usdc, venue);
        let slot0 = world.ask(pool.address, UniswapV3Pool::slot0Call {});
        let written = u32::from(slot0.observationIndex);
        assert!(written < 120 + 300 / 4, "{venue:?} wrote {written} observations");
        world.ask(pool.address, UniswapV3Pool::observeCall { secondsAgos: vec![3_600, 0] });
    }
}

/// No wave of the market has a period that equals or divides the hours between these two.
#[test]
fn whenever_it_is_begun_the_same_seed_shows_the_same_market() {
    let mut now = World::begun(&BASE, 1, START);
    let mut later = World::begun(&BASE, 1, START + 5 * 3_600 + 437);
    for block in 0..60 {
        for asset in PricedAsset::ALL {
            assert_eq!(
                now.background_actors.price(&now.chain, asset),
                later.background_actors.price(&later.chain, asset),
                "{asset:?}"
            );
        }
        let stands = |world: &World| -> Vec<_> {
            world.sound_pools().iter().map(|pool| pool_sqrt_price(world.chain.state(), pool)).collect()
        };
        assert_eq!(stands(&now), stands(&later), "block {block}");
        now.block();
        later.block();
    }
}

#[test]
fn a_crash_takes_pools_and_feeds_down_with_it() {
    let mut world = World::new(&ETHEREUM);
    let before = world.price(PricedAsset::Eth);
    world.background_actors.crash(&world.chain, 300_000, 10);
    for _ in 0..14 {
        world.block();
    }
    let after = world.price(PricedAsset::Eth);
    assert!((after / before - 0.7).abs() < 0.01, "{before} to {after}");
    for pool in world.sound_pools() {
        let distance = world.distance(&pool).abs();
        assert!(distance <= f64::from(pool.venue.fee()) / 1e6 + 0.003, "{pool:?} is off by {distance}");
    }
    let feed = world.background_actors.deployment().feeds[&PricedAsset::Eth];
    let round = world.ask(feed, bardo::abi::feed::Aggregator::latestRoundDataCall {});
    let answer = i128::try_from(round.answer).unwrap() as f64 / 1e8;
    assert!((answer / after - 1.0).abs() < 0.002, "the feed says {answer}");
}

#[test]
fn a_spike_passes() {
    let mut world = World::new(&BASE);
    let before = world.price(PricedAsset::Uni);
    world.background_actors.spike(&world.chain, 200_000, 5);
    let mut highest = before;
    for _ in 0..15 {
        world.block();
        highest = highest.max(world.price(PricedAsset::Uni));
    }
    assert!(highest / before > 1.19);
    assert!((world.price(PricedAsset::Uni) / before - 1.0).abs() < 0.005);
}

#[test]
fn a_market_that_is_off_sends_nothing() {
    let mut world = World::quiet(&BASE);
    let price = world.price(PricedAsset::Eth);
    for _ in 0..20 {
        world.block();
        assert!(world.chain.head().transactions.is_empty());
    }
    assert!((world.price(PricedAsset::Eth) - price).abs() < f64::EPSILON);
}

#[test]
fn time_travel_leaves_the_market_sound() {
    let mut world = World::new(&BASE);
    world.chain.increase_time(3 * 86_400);
    for _ in 0..5 {
        world.block();
    }
    for pool in world.sound_pools() {
        assert!(world.distance(&pool).abs() <= f64::from(pool.venue.fee()) / 1e6 + 0.002);
    }
}
