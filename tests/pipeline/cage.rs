//! The owner's policy contract, asked before anything is signed.

use alloy::primitives::FixedBytes;
use alloy::sol_types::SolCall as _;
use bardo::abi::erc20::Erc20;
use bardo::abi::policy_cage::PolicyCage::{AssetRule, CallRule, Rules, clearCall, configureCall};
use bardo::base::error::ErrorCode;
use bardo::chain::network::Contract;

use crate::world::World;

const HUNDRED: u64 = 100_000_000;

/// Rules under which `proposal`'s calls may move at most `most` raw units of USDC.
fn rules(world: &World, calls: Vec<CallRule>, most: u128) -> Rules {
    let feed = |pair: &str| {
        let feeds = world.client.network().book.feeds();
        feeds.iter().find(|feed| feed.pair == pair).expect("a feed").address
    };
    let asset = |token, pair, exit, most| AssetRule {
        token,
        feed: feed(pair),
        exit,
        maxPerTransaction: most,
        maxPerDay: u128::MAX,
        maxPosition: u128::MAX,
    };
    Rules {
        assets: vec![
            asset(world.contract_of(&world.usdc), "USDC / USD", true, most),
            asset(world.contract_of(&world.weth), "ETH / USD", false, u128::MAX),
        ],
        calls,
        spenders: vec![world.contract(Contract::Permit2)],
        maxDrawdownBps: 5_000,
        maxLossBps: 500,
        minInterval: 0,
        maxPriceAge: 86_400,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_owners_contract_would_refuse_is_refused_before() {
    let world = World::new(9).await;
    let cage = world.contract(Contract::PolicyCage);
    let swap = world.swap(HUNDRED).await;
    assert!(world.preview(swap.clone()).await.is_ok(), "an account without rules is not caged");

    // Exactly the calls of the swap.
    let calls: Vec<CallRule> = swap
        .legs
        .iter()
        .map(|leg| CallRule { target: leg.to, selector: FixedBytes::from_slice(&leg.data[..4]) })
        .collect();
    assert_eq!(calls[0].selector, Erc20::approveCall::SELECTOR);
    let configure = async |calls: &[CallRule], most| {
        world.send(cage, configureCall { set: rules(&world, calls.to_vec(), most) }).await;
    };
    configure(&calls, u128::from(HUNDRED)).await;
    let passed = world.preview(world.swap(HUNDRED).await).await.expect("inside the rules");
    drop(passed);

    configure(&calls, u128::from(HUNDRED) - 1).await;
    let (code, broken) = world.refused(world.swap(HUNDRED).await).await;
    assert_eq!(code, ErrorCode::SafetyCageViolation);
    assert!(broken.contains("policy_cage.maxPerTransaction"), "{broken:?}");

    configure(&calls[..1], u128::MAX).await;
    let (code, broken) = world.refused(world.swap(HUNDRED).await).await;
    assert_eq!((code, broken.len()), (ErrorCode::SafetyCageViolation, 1), "{broken:?}");
    assert!(broken.contains("policy_cage.calls"), "{broken:?}");

    // Nothing was signed for any of it, and without rules it goes again.
    world.send(cage, clearCall {}).await;
    assert!(world.preview(world.swap(HUNDRED).await).await.is_ok());
}
