//! Causes of a Golem's death, and its remaining authority afterwards.

use std::sync::Arc;

use alloy::primitives::{U256, aliases::U24, aliases::U160, keccak256};
use alloy::sol_types::{SolCall, SolValue as _};
use bardo::abi::uniswap_v3::SwapRouter02;
use bardo::abi::uniswap_v4::PoolTrader;
use bardo::base::model::Phase;
use bardo::custody::RevocableAccount;
use bardo::engine::CallStatus;
use bardo::golem::phase::{PhaseMachine, PhaseRules};
use bardo::golem::vitals::{LifeTerms, VitalsMeter};
use bardo::safety::RevocationCause;
use bardo::sandbox::actors::{ActorRole, ActorTransaction, Actors, send};
use bardo::sandbox::genesis::GenesisPool;
use bardo::sandbox::keeper::FeedFault;
use bardo::sandbox::market;
use bardo::sandbox::plan::{PoolCurrency, SandboxToken, Venue};
use bardo::sandbox::target::{PriceShock, PricedAsset};

use bardo_testkit::golem_harness::{GolemHarness, permit, swap};

const DWELL: u64 = 10_000;

fn terms() -> LifeTerms {
    LifeTerms { born_at: 0, high_water: None, lifespan_seconds: None }
}

/// Reads vitals every two seconds for three minimum phase times; returns the resulting phase.
async fn lives_through(gauge: &mut VitalsMeter, machine: &mut PhaseMachine, now: &mut u64) -> Phase {
    for _ in 0..3 * DWELL / 2_000 {
        *now += 2_000;
        let (reading, _) = gauge.read(*now).await;
        machine.observe(&reading, *now);
    }
    machine.phase()
}

fn of_weth(pool: &GenesisPool) -> bool {
    let tokens = [pool.token0.token, pool.token1.token];
    tokens.contains(&SandboxToken::Weth) && tokens.contains(&SandboxToken::Usdc)
}

/// Sells WETH into every pool on ethereum of WETH and one of these tokens until the square root of its price there has
/// fallen to this many thousandths.
pub async fn bend_the_pools(harness: &GolemHarness, thousandths: u64, others: &[SandboxToken]) {
    let chain = &harness.sandbox().chains()[0];
    let deployment = Arc::clone(&chain.deployment);
    let (part, whole) = (U256::from(thousandths), U256::from(1_000));
    let others = others.to_vec();
    let sell = move |chain: &mut bardo::chain::devnet::Chain| {
        let actors = Actors::new().unwrap();
        let amount = U256::from(5_000) * U256::from(10).pow(U256::from(18));
        let to = actors.address(ActorRole::Arbitrageur);
        for pool in &deployment.pools {
            let tokens = [&pool.token0, &pool.token1];
            let other = tokens.into_iter().find(|one| others.contains(&one.token));
            let Some(other) = other.filter(|_| tokens.iter().any(|one| one.token == SandboxToken::Weth)) else {
                continue;
            };
            let price = market::pool_sqrt_price(chain.state(), pool);
            let weth_first = pool.token0.token == SandboxToken::Weth;
            // Without a price limit a swap would walk to the last tick, out of gas.
            let end = if weth_first { price * part / whole } else { price * whole / part };
            let call = match pool.venue {
                Venue::V3(fee) => SwapRouter02::exactInputSingleCall {
                    params: SwapRouter02::ExactInputSingleParams {
                        tokenIn: deployment.weth,
                        tokenOut: other.address,
                        fee: U24::saturating_from(fee),
                        recipient: to,
                        amountIn: amount,
                        amountOutMinimum: U256::ZERO,
                        sqrtPriceLimitX96: U160::from(end),
                    },
                }
                .abi_encode(),
                Venue::V2 => SwapRouter02::swapExactTokensForTokensCall {
                    amountIn: amount,
                    amountOutMin: U256::ZERO,
                    path: vec![deployment.weth, other.address],
                    to,
                }
                .abi_encode(),
            };
            let order = ActorTransaction::call(
                ActorRole::Arbitrageur,
                deployment.swap_router,
                call,
                3_000_000,
                "bending a pool",
            );
            send(chain, &actors, order).unwrap();
        }
        for pool in deployment.v4_pools.iter().filter(|pool| pool.key.hooks.is_zero()) {
            // The native token counts as WETH.
            let [first, second] = [pool.currency0, pool.currency1].map(PoolCurrency::priced_as);
            let weth_first = first == SandboxToken::Weth;
            let other = if weth_first { second } else { first };
            if !(weth_first || second == SandboxToken::Weth) || !others.contains(&other) {
                continue;
            }
            // Slot 6 of the pool manager is its mapping of pools; the price is the lower 160 bits (v4-core).
            let slot = keccak256((pool.id, U256::from(6)).abi_encode());
            let state = chain.state().storage_at(deployment.contracts["v4PoolManager"], slot.into());
            let price = state & U256::from(U160::MAX);
            let end = if weth_first { price * part / whole } else { price * whole / part };
            let amount = U256::from(200) * U256::from(10).pow(U256::from(18));
            let trade = PoolTrader::Trade {
                key: pool.key,
                zeroForOne: weth_first,
                amountIn: amount.to(),
                sqrtPriceLimitX96: U160::from(end),
                leastOut: 0,
            };
            let order = ActorTransaction {
                value: if pool.key.currency0.is_zero() { amount } else { U256::ZERO },
                ..ActorTransaction::call(
                    ActorRole::Arbitrageur,
                    deployment.contracts["poolTrader"],
                    PoolTrader::tradeCall { trades: vec![trade] }.abi_encode(),
                    3_000_000,
                    "bending a V4 pool",
                )
            };
            send(chain, &actors, order).unwrap();
        }
    };
    chain.devnet.run(sell).await.unwrap();
    chain.devnet.mine().await.unwrap();
}

/// Lowers all prices except those of dollar tokens on both chains, in feeds and pools, by this many millionths.
pub async fn fall(harness: &GolemHarness, parts_per_million: i32) {
    for chain in harness.sandbox().chains() {
        let background_actors = chain.background_actors.clone();
        let fall = move |chain: &mut bardo::chain::devnet::Chain| {
            let from_block = chain.next_context().number;
            background_actors.shock(PriceShock {
                asset: None,
                parts_per_million,
                from_block,
                blocks: 1,
                passes: false,
            });
        };
        chain.devnet.run(fall).await.unwrap();
        // The market is paused in this harness; the keeper writes the given prices.
        let background_actors = chain.background_actors.clone();
        chain
            .devnet
            .run(move |chain| background_actors.set_market(chain, bardo::sandbox::MarketMode::On))
            .await
            .unwrap();
        for _ in 0..3 {
            chain.devnet.mine().await.unwrap();
        }
    }
}

/// State of these pools: the square root of the price of WETH, whichever token is first.
async fn standing(harness: &GolemHarness) -> Vec<U256> {
    let chain = &harness.sandbox().chains()[0];
    let deployment = Arc::clone(&chain.deployment);
    let read = move |chain: &mut bardo::chain::devnet::Chain| {
        let of = |pool: &GenesisPool| {
            let price = market::pool_sqrt_price(chain.state(), pool);
            if pool.token0.token == SandboxToken::Weth { price } else { (U256::ONE << 192_usize) / price }
        };
        deployment.pools.iter().filter(|pool| of_weth(pool)).map(of).collect()
    };
    chain.devnet.run(read).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn manipulated_pools_cause_no_death_and_feeds_do() {
    let harness = GolemHarness::new().await;
    let mut gauge = VitalsMeter::new(Arc::clone(&harness.world), terms()).unwrap();
    let mut machine = PhaseMachine::new(PhaseRules::DEFAULT.dwelling(DWELL));
    let mut now = 1_000_000;
    assert_eq!(lives_through(&mut gauge, &mut machine, &mut now).await, Phase::Thriving);
    let high = gauge.high_water().unwrap();

    let before = standing(&harness).await;
    bend_the_pools(&harness, 600, &[SandboxToken::Usdc]).await;
    let after = standing(&harness).await;
    assert!(before.len() >= 3, "{before:?}");
    for (before, after) in before.iter().zip(&after) {
        // Seven tenths of the root is about half of the price.
        assert!(*after * U256::from(10) < *before * U256::from(7), "a pool was not bent: {before} to {after}");
    }
    assert_eq!(lives_through(&mut gauge, &mut machine, &mut now).await, Phase::Thriving, "the feed says otherwise");

    // Without the feed only the bent pools remain, whose means have long moved. They cause no death either.
    let chain = &harness.sandbox().chains()[0];
    chain.background_actors.set_fault(PricedAsset::Eth, FeedFault::Broken);
    for _ in 0..45 {
        chain.devnet.run(|chain| chain.increase_time(60)).await.unwrap();
        chain.devnet.mine().await.unwrap();
    }
    let (reading, worth) = gauge.read(now).await;
    assert_eq!((worth.equity, reading.feed_grade), (None, false), "nothing is valued by a pool");
    assert_eq!(lives_through(&mut gauge, &mut machine, &mut now).await, Phase::Thriving);
    assert_eq!(gauge.high_water(), Some(high));

    // The feed itself does, over the whole minimum phase time.
    chain.background_actors.set_fault(PricedAsset::Eth, FeedFault::None);
    fall(&harness, -400_000).await;
    let (reading, _) = gauge.read(now).await;
    assert!(reading.feed_grade && reading.drawdown_bps >= Some(1_500), "{reading:?}");
    assert_eq!(lives_through(&mut gauge, &mut machine, &mut now).await, Phase::Terminal);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_without_a_readable_balance_is_no_loss() {
    let harness = GolemHarness::new().await;
    let mut gauge = VitalsMeter::new(Arc::clone(&harness.world), terms()).unwrap();
    let (_, worth) = gauge.read(1_000_000).await;
    assert!(worth.equity.is_some(), "{worth:?}");
    let chain = &harness.sandbox().chains()[0];
    let usdc = harness.address(SandboxToken::Usdc);
    // PUSH0 PUSH0 REVERT: it has code and does not answer.
    chain.devnet.run(move |chain| chain.set_code(usdc, vec![0x5f, 0x5f, 0xfd].into())).await.unwrap().unwrap();
    let (reading, worth) = gauge.read(1_005_000).await;
    assert_eq!((worth.equity, reading.drawdown_bps), (None, None), "what it does not tell may all be there");
    // Without a contract there is no balance.
    chain.devnet.run(move |chain| chain.set_code(usdc, Vec::new().into())).await.unwrap().unwrap();
    let (_, worth) = gauge.read(1_010_000).await;
    assert!(worth.equity.is_some(), "{worth:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_account_signs_nothing() {
    let mut harness = GolemHarness::new().await;
    let (account, revocation) = RevocableAccount::new(Arc::clone(&harness.acting.account));
    harness.acting.account = Arc::new(account);
    let golem = harness.golem("ada", "golem-instance");
    let first = golem.call("preview_action", swap("WETH", "USDC", "0.02")).await;
    let done = golem.call("commit_action", permit(&first)).await;
    assert_eq!(done.status, CallStatus::Success, "{done:#?}");
    let sent = harness.sent().await;
    let second = golem.call("preview_action", swap("WETH", "USDC", "0.02")).await;
    assert!(!revocation.is_revoked());
    assert!(revocation.revoke(RevocationCause::Death));
    let refused = golem.call("commit_action", permit(&second)).await;
    assert_ne!(refused.status, CallStatus::Success, "{refused:#?}");
    assert!(refused.error.unwrap().message().contains("revoked"));
    assert_eq!(harness.sent().await, sent);
}
