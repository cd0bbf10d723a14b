//! Price feeds and the faucet.

use alloy::primitives::{U256, address};
use bardo::abi::feed::Aggregator;
use bardo::sandbox::faucet::FaucetAsset;
use bardo::sandbox::keeper::{FeedFault, HEARTBEAT_SECONDS};
use bardo::sandbox::plan::{BASE, ETHEREUM, SandboxToken};
use bardo::sandbox::target::PricedAsset;

use crate::world::World;

fn read(world: &World, asset: PricedAsset) -> Result<(i128, u64), String> {
    let feed = world.background_actors.deployment().feeds[&asset];
    let round = world.try_ask(feed, Aggregator::latestRoundDataCall {})?;
    Ok((i128::try_from(round.answer).unwrap(), round.updatedAt.to()))
}

#[test]
fn feeds_follow_the_market_and_keep_their_heartbeat() {
    let mut world = World::new(&BASE);
    for asset in PricedAsset::FED {
        let feed = world.background_actors.deployment().feeds[&asset];
        assert_eq!(world.ask(feed, Aggregator::decimalsCall {}), 8);
        assert_eq!(world.ask(feed, Aggregator::descriptionCall {}), format!("{} / USD", asset.ticker()));
    }
    for _ in 0..400 {
        world.block();
        let now = world.chain.head().header.timestamp;
        for asset in [PricedAsset::Eth, PricedAsset::Usdc] {
            let (answer, at) = read(&world, asset).unwrap();
            assert!(now - at <= HEARTBEAT_SECONDS);
            let off = (answer as f64 / 1e8 / world.price(asset) - 1.0).abs();
            assert!(off < 0.0015, "{asset:?} is off by {off}");
        }
    }
    assert_eq!(read(&world, PricedAsset::Usdc).unwrap().0, 100_000_000);
}

#[test]
fn a_silent_feed_grows_stale() {
    let mut world = World::new(&BASE);
    let (_, before) = read(&world, PricedAsset::Link).unwrap();
    world.background_actors.silence(PricedAsset::Link, true);
    world.chain.increase_time(2 * HEARTBEAT_SECONDS);
    world.block();
    assert_eq!(read(&world, PricedAsset::Link).unwrap().1, before);
    assert!(read(&world, PricedAsset::Eth).unwrap().1 > before);
    world.background_actors.silence(PricedAsset::Link, false);
    world.block();
    assert_eq!(read(&world, PricedAsset::Link).unwrap().1, world.chain.head().header.timestamp);
}

#[test]
fn a_frozen_feed_keeps_its_answer_a_forced_one_lies_a_broken_one_reverts() {
    let mut world = World::new(&BASE);
    let (answer, at) = read(&world, PricedAsset::Eth).unwrap();
    world.background_actors.set_fault(PricedAsset::Eth, FeedFault::Frozen);
    world.chain.increase_time(1);
    world.block();
    let frozen = read(&world, PricedAsset::Eth).unwrap();
    world.chain.increase_time(3 * HEARTBEAT_SECONDS);
    world.block();
    assert_eq!(read(&world, PricedAsset::Eth).unwrap(), frozen);
    assert!(frozen.1 >= at && (frozen.0 - answer).abs() < answer / 50);

    for lie in [0, -5, 1] {
        world.background_actors.set_fault(PricedAsset::Eth, FeedFault::Forced(lie));
        world.block();
        let (said, _) = read(&world, PricedAsset::Eth).unwrap();
        assert_eq!(said, lie);
    }
    world.background_actors.set_fault(PricedAsset::Eth, FeedFault::Broken);
    world.block();
    assert!(read(&world, PricedAsset::Eth).is_err());
    world.background_actors.set_fault(PricedAsset::Eth, FeedFault::None);
    world.block();
    world.block();
    let (said, when) = read(&world, PricedAsset::Eth).unwrap();
    assert!(said > 3_000 * 100_000_000 && when + HEARTBEAT_SECONDS >= world.chain.head().header.timestamp);
}

#[test]
fn the_faucet_gives_what_is_asked() {
    let mut world = World::quiet(&ETHEREUM);
    let to = address!("0x00000000000000000000000000000000deadbeef");
    let amount = U256::from(12_345_678_u64);
    for gift in [
        FaucetAsset::Ether(amount),
        FaucetAsset::Token(SandboxToken::Weth, amount),
        FaucetAsset::Token(SandboxToken::Wbtc, amount),
    ] {
        world.background_actors.give(&mut world.chain, to, gift).unwrap();
    }
    world.block();
    assert_eq!(world.chain.state().balance(to), amount);
    assert_eq!(world.balance(SandboxToken::Weth, to), amount);
    assert_eq!(world.balance(SandboxToken::Wbtc, to), amount);

    let mut base = World::quiet(&BASE);
    let refused = base.background_actors.give(&mut base.chain, to, FaucetAsset::Token(SandboxToken::Wbtc, amount));
    assert_eq!(refused.unwrap_err().to_string(), "base has no WBTC");
}
