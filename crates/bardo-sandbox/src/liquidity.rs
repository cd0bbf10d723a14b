//! V2 and V3 pools and funding: creates the pools, funds the actors, and adds liquidity.
//!
//! Not here: the contracts (see `deploy`), and V4 (see `v4_pools`).

use alloy::primitives::{Address, Bytes, U256, aliases::I24, aliases::U24, aliases::U160};
use alloy::sol_types::SolCall;

use super::actors::{ActorRole, ActorTransaction};
use super::block_builder::BlockBuilder;
use super::contracts;
use super::error::SandboxError;
use super::genesis::{Deployment, GenesisPool};
use super::math::{PricedToken, amount_for, sqrt_price_x96};
use super::plan::{OBSERVATIONS, STAIRS, SandboxToken, Venue, ranges_of, tick_spacing};
use bardo_abi::erc20::{Erc20, OpenMint, Weth9};
use bardo_abi::multicall3::Multicall3;
use bardo_abi::uniswap_v2::{UniswapV2Factory, UniswapV2Pair};
use bardo_abi::uniswap_v3::{NonfungiblePositionManager, UniswapV3Pool};
use golem_chain::devnet::Chain;
use golem_chain::evm::TRANSACTION_GAS_CAP;

/// Initial amounts of every token for the arbitrageur and for each trader, in dollars.
const ARBITRAGEUR_DOLLARS: u64 = 2_000_000_000;
const TRADER_DOLLARS: u64 = 50_000_000;

/// Creates the pools at the current prices.
pub(super) fn make_pools(
    builder: &mut BlockBuilder<'_>,
    deployment: &Deployment,
    quoted: &impl Fn(SandboxToken) -> PricedToken,
) -> Result<(), SandboxError> {
    let named = |name: &'static str| deployment.contracts.get(name).copied().unwrap_or_default();
    for pool in &deployment.pools {
        match pool.venue {
            Venue::V2 => {
                let create =
                    UniswapV2Factory::createPairCall { tokenA: pool.token0.address, tokenB: pool.token1.address };
                builder.call(
                    ActorRole::Treasury,
                    named("v2Factory"),
                    create.abi_encode(),
                    3_500_000,
                    "creating a V2 pair",
                )?;
            }
            Venue::V3(fee) => {
                let price = sqrt_price_x96(quoted(pool.token0.token), quoted(pool.token1.token));
                let create = NonfungiblePositionManager::createAndInitializePoolIfNecessaryCall {
                    token0: pool.token0.address,
                    token1: pool.token1.address,
                    fee: U24::saturating_from(fee),
                    sqrtPriceX96: U160::saturating_from(price),
                };
                let manager = named("v3PositionManager");
                builder.call(ActorRole::Treasury, manager, create.abi_encode(), 6_000_000, "creating a V3 pool")?;
                let grow =
                    UniswapV3Pool::increaseObservationCardinalityNextCall { observationCardinalityNext: OBSERVATIONS };
                let gas = 100_000 + u64::from(OBSERVATIONS) * 23_000;
                builder.call(
                    ActorRole::Treasury,
                    pool.address,
                    grow.abi_encode(),
                    gas,
                    "growing a pool's observation array",
                )?;
            }
        }
    }
    Ok(())
}

/// Mints and wraps the initial tokens, and approves the routers for the traders.
pub(super) fn fund(
    builder: &mut BlockBuilder<'_>,
    deployment: &Deployment,
    demo: Address,
    quoted: &impl Fn(SandboxToken) -> PricedToken,
) -> Result<(), SandboxError> {
    let actors = builder.actors;
    let at = |role| actors.address(role);
    let mut gifts: Vec<(SandboxToken, Address, U256)> = Vec::new();
    for &token in deployment.tokens.keys() {
        if !token.is_bad() {
            gifts.push((token, at(ActorRole::Arbitrageur), amount_for(ARBITRAGEUR_DOLLARS, quoted(token))));
            for trader in [ActorRole::FirstTrader, ActorRole::SecondTrader] {
                gifts.push((token, at(trader), amount_for(TRADER_DOLLARS, quoted(token))));
            }
            let pooled: u64 = deployment.plan.pools.iter().map(|pool| pool.dollars).sum();
            gifts.push((token, at(ActorRole::Treasury), amount_for(pooled, quoted(token))));
        }
    }
    gifts.extend(deployment.plan.demo_tokens.iter().map(|(token, amount)| (*token, demo, *amount)));
    for pool in &deployment.pools {
        if pool.venue == Venue::V2 {
            for side in [pool.token0, pool.token1] {
                gifts.push((side.token, pool.address, amount_for(pool.dollars / 2, quoted(side.token))));
            }
        }
    }

    let wrapped: U256 = gifts.iter().filter(|gift| gift.0 == SandboxToken::Weth).map(|gift| gift.2).sum();
    builder.send(ActorTransaction {
        value: wrapped,
        ..ActorTransaction::call(
            ActorRole::Treasury,
            deployment.weth,
            Weth9::depositCall {}.abi_encode(),
            100_000,
            "wrapping ether",
        )
    })?;
    let mut mints = Vec::new();
    for (token, to, value) in gifts {
        if token == SandboxToken::Weth {
            if to != at(ActorRole::Treasury) {
                let transfer = Erc20::transferCall { to, value }.abi_encode();
                builder.call(ActorRole::Treasury, deployment.weth, transfer, 100_000, "distributing wrapped ether")?;
            }
        } else {
            mints.push(Multicall3::Call3 {
                target: deployment.token(token)?,
                allowFailure: false,
                callData: OpenMint::mintCall { to, value }.abi_encode().into(),
            });
        }
    }
    let gas = 200_000 + 90_000 * u64::try_from(mints.len()).unwrap_or(u64::MAX);
    let mint = Multicall3::aggregate3Call { calls: mints }.abi_encode();
    builder.call(ActorRole::Treasury, contracts::MULTICALL3, mint, gas, "minting tokens")?;

    let manager = deployment.contracts.get("v3PositionManager").copied().unwrap_or_default();
    for (&token, &address) in &deployment.tokens {
        if token.is_bad() {
            continue;
        }
        for (role, spender) in [
            (ActorRole::Treasury, manager),
            (ActorRole::Arbitrageur, deployment.swap_router),
            (ActorRole::FirstTrader, deployment.swap_router),
            (ActorRole::FirstTrader, deployment.v2_router),
            (ActorRole::SecondTrader, deployment.swap_router),
            (ActorRole::SecondTrader, deployment.v2_router),
        ] {
            let approve = Erc20::approveCall { spender, value: U256::MAX }.abi_encode();
            builder.call(role, address, approve, 80_000, "approving a router")?;
        }
    }
    Ok(())
}

/// Adds the planned liquidity to all pools.
pub(super) fn fill_pools(
    builder: &mut BlockBuilder<'_>,
    deployment: &Deployment,
    quoted: &impl Fn(SandboxToken) -> PricedToken,
) -> Result<(), SandboxError> {
    let treasury = builder.actors.address(ActorRole::Treasury);
    let manager = deployment.contracts.get("v3PositionManager").copied().unwrap_or_default();
    for pool in &deployment.pools {
        match pool.venue {
            Venue::V2 => {
                // The tokens have been transferred already; the pair uses its whole balance.
                let mint = UniswapV2Pair::mintCall { to: treasury }.abi_encode();
                builder.call(ActorRole::Treasury, pool.address, mint, 300_000, "filling a V2 pair")?;
            }
            Venue::V3(fee) => {
                let tick = v3_tick(builder.chain, pool.address);
                let positions: Vec<Bytes> = positions(pool, fee, tick, treasury, quoted)
                    .into_iter()
                    .map(|params| NonfungiblePositionManager::mintCall { params }.abi_encode().into())
                    .collect();
                let gas = 200_000 + 550_000 * u64::try_from(positions.len()).unwrap_or(u64::MAX);
                let fill = NonfungiblePositionManager::multicallCall { data: positions }.abi_encode();
                builder.call(ActorRole::Treasury, manager, fill, gas.min(TRANSACTION_GAS_CAP), "filling a V3 pool")?;
            }
        }
    }
    Ok(())
}

/// Current tick of a pool, from the storage word that also contains its price.
fn v3_tick(chain: &Chain, pool: Address) -> i32 {
    let slot0 = chain.state().storage_at(pool, U256::ZERO);
    let tick: U256 = (slot0 >> 160_usize) & U256::from(0xff_ffff);
    let unsigned = tick.saturating_to::<i32>();
    if unsigned >= 1 << 23 { unsigned - (1 << 24) } else { unsigned }
}

/// One position of a pool's liquidity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LiquidityRange {
    pub(super) lower: i32,
    pub(super) upper: i32,
    /// Amount of each token, in dollars.
    pub(super) dollars0: u64,
    pub(super) dollars1: u64,
}

/// Positions for a pool's liquidity: half of it around the price, a tenth over the whole range, and the rest in
/// one-sided steps above and below.
pub(super) fn liquidity_ranges(fee: u32, spacing: i32, tick: i32, dollars: u64) -> Vec<LiquidityRange> {
    let (widths, step) = ranges_of(fee);
    let floor = |tick: i32| tick.div_euclid(spacing) * spacing;
    let range = |lower, upper, dollars0, dollars1| LiquidityRange { lower, upper, dollars0, dollars1 };
    let everywhere = floor(887_272);
    let whole = dollars / 20;
    let mut made = vec![range(-everywhere, everywhere, whole, whole)];
    let around = dollars / 2 / u64::try_from(widths.len()).unwrap_or(1).max(1) / 2;
    for width in widths {
        made.push(range(floor(tick - width), floor(tick + width) + spacing, around, around));
    }
    let stair = dollars * 2 / 5 / u64::from(STAIRS.unsigned_abs() * 2).max(1);
    let (above, below) = (floor(tick) + spacing, floor(tick));
    for index in 0..STAIRS {
        let lower = floor(above + index * step);
        made.push(range(lower, floor(lower + step), stair, 0));
        let upper = floor(below - index * step);
        made.push(range(floor(upper - step), upper, 0, stair));
    }
    made
}

/// Positions for the liquidity of a V3 pool, see [`liquidity_ranges`].
fn positions(
    pool: &GenesisPool,
    fee: u32,
    tick: i32,
    owner: Address,
    quoted: &impl Fn(SandboxToken) -> PricedToken,
) -> Vec<NonfungiblePositionManager::MintParams> {
    let params = |range: LiquidityRange| NonfungiblePositionManager::MintParams {
        token0: pool.token0.address,
        token1: pool.token1.address,
        fee: U24::saturating_from(fee),
        tickLower: I24::try_from(range.lower).unwrap_or_default(),
        tickUpper: I24::try_from(range.upper).unwrap_or_default(),
        amount0Desired: amount_for(range.dollars0, quoted(pool.token0.token)),
        amount1Desired: amount_for(range.dollars1, quoted(pool.token1.token)),
        amount0Min: U256::ZERO,
        amount1Min: U256::ZERO,
        recipient: owner,
        deadline: U256::MAX,
    };
    liquidity_ranges(fee, tick_spacing(fee), tick, pool.dollars).into_iter().map(params).collect()
}
