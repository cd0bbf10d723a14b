//! V4 pools during genesis: creates them in the pool manager, approves its contracts, and adds liquidity.
//!
//! Not here: the contracts (see `deploy`), and V2 and V3 (see `liquidity`).

use alloy::primitives::{Address, Bytes, U256, aliases::I24, aliases::U48, aliases::U160};
use alloy::sol_types::{SolCall, SolValue};

use super::actors::{ActorRole, ActorTransaction};
use super::block_builder::BlockBuilder;
use super::contracts;
use super::error::SandboxError;
use super::genesis::{Deployment, V4GenesisPool};
use super::liquidity::{LiquidityRange, liquidity_ranges};
use super::math::{PricedToken, amount_for, liquidity_for, sqrt_price_x96};
use super::plan::{PoolCurrency, SandboxToken, tick_spacing};
use bardo_abi::erc20::Erc20;
use bardo_abi::permit2::Permit2;
use bardo_abi::uniswap_v4::{PoolManager, PositionManager};
use golem_chain::evm::TRANSACTION_GAS_CAP;
use golem_protocols::uniswap::v3::tick_math::{sqrt_price_at_tick, tick_at_sqrt_price};

/// Actions of the position manager (`Actions` of v4-periphery).
const MINT_POSITION: u8 = 0x02;
const SETTLE_PAIR: u8 = 0x0d;
const SWEEP: u8 = 0x14;

/// Price of a pool as a V4 square root.
pub(super) fn target_price(pool: &V4GenesisPool, quoted: &impl Fn(SandboxToken) -> PricedToken) -> U256 {
    sqrt_price_x96(quoted(pool.currency0.priced_as()), quoted(pool.currency1.priced_as()))
}

/// Creates the V4 pools at the current prices.
pub(super) fn make_v4_pools(
    builder: &mut BlockBuilder<'_>,
    deployment: &Deployment,
    quoted: &impl Fn(SandboxToken) -> PricedToken,
) -> Result<(), SandboxError> {
    make(builder, deployment, &deployment.v4_pools, quoted)
}

/// Creates these pools at the current prices.
pub(super) fn make(
    builder: &mut BlockBuilder<'_>,
    deployment: &Deployment,
    pools: &[V4GenesisPool],
    quoted: &impl Fn(SandboxToken) -> PricedToken,
) -> Result<(), SandboxError> {
    let manager = deployment.contracts.get("v4PoolManager").copied().unwrap_or_default();
    for pool in pools {
        let price = U160::saturating_from(target_price(pool, quoted));
        let create = PoolManager::initializeCall { key: pool.key, sqrtPriceX96: price }.abi_encode();
        builder.call(ActorRole::Treasury, manager, create, 200_000, "creating a V4 pool")?;
    }
    Ok(())
}

/// Approves the position manager for the treasury, and the market's V4 contract for the arbitrageur and the traders.
pub(super) fn fund_v4(builder: &mut BlockBuilder<'_>, deployment: &Deployment) -> Result<(), SandboxError> {
    let at = |name| deployment.contracts.get(name).copied().unwrap_or_default();
    let (positions, trader) = (at("v4PositionManager"), at("poolTrader"));
    for (&token, &address) in &deployment.tokens {
        let is_pooled = |pool: &V4GenesisPool| [pool.currency0, pool.currency1].contains(&PoolCurrency::Token(token));
        if !deployment.v4_pools.iter().any(is_pooled) {
            continue;
        }
        for (role, spender) in [
            (ActorRole::Treasury, contracts::PERMIT2),
            (ActorRole::Arbitrageur, trader),
            (ActorRole::FirstTrader, trader),
            (ActorRole::SecondTrader, trader),
        ] {
            let approve = Erc20::approveCall { spender, value: U256::MAX }.abi_encode();
            builder.call(role, address, approve, 80_000, "approving a V4 contract")?;
        }
        let permit =
            Permit2::approveCall { token: address, spender: positions, amount: U160::MAX, expiration: U48::MAX };
        builder.call(
            ActorRole::Treasury,
            contracts::PERMIT2,
            permit.abi_encode(),
            80_000,
            "approving the V4 position manager",
        )?;
    }
    Ok(())
}

/// Adds the planned liquidity to the V4 pools.
pub(super) fn fill_v4_pools(
    builder: &mut BlockBuilder<'_>,
    deployment: &Deployment,
    quoted: &impl Fn(SandboxToken) -> PricedToken,
) -> Result<(), SandboxError> {
    fill(builder, deployment, (&deployment.v4_pools, usize::MAX), quoted)
}

/// Adds liquidity of the treasury to these pools, in at most this number of positions each.
pub(super) fn fill(
    builder: &mut BlockBuilder<'_>,
    deployment: &Deployment,
    (pools, most): (&[V4GenesisPool], usize),
    quoted: &impl Fn(SandboxToken) -> PricedToken,
) -> Result<(), SandboxError> {
    let owner = builder.actors.address(ActorRole::Treasury);
    let manager = deployment.contracts.get("v4PositionManager").copied().unwrap_or_default();
    for pool in pools {
        let sides = [pool.currency0, pool.currency1].map(|side| quoted(side.priced_as()));
        let mut ranges = v4_ranges(pool, target_price(pool, quoted));
        ranges.truncate(most);
        let mut actions = vec![MINT_POSITION; ranges.len()];
        let mut inputs = Vec::with_capacity(ranges.len() + 2);
        for range in &ranges {
            inputs.push(mint_input(pool, target_price(pool, quoted), range, sides, owner)?);
        }
        actions.push(SETTLE_PAIR);
        inputs.push((pool.key.currency0, pool.key.currency1).abi_encode_params().into());
        let is_native = pool.currency0 == PoolCurrency::Native;
        if is_native {
            actions.push(SWEEP);
            inputs.push((pool.key.currency0, owner).abi_encode_params().into());
        }
        let fill = PositionManager::modifyLiquiditiesCall {
            unlockData: (Bytes::from(actions), inputs).abi_encode_params().into(),
            deadline: U256::MAX,
        };
        let gas = 300_000 + 550_000 * u64::try_from(ranges.len()).unwrap_or(u64::MAX);
        builder.send(ActorTransaction {
            // More than the pool takes; the position manager sends the rest back.
            value: if is_native { amount_for(pool.dollars, sides[0]) } else { U256::ZERO },
            ..ActorTransaction::call(
                ActorRole::Treasury,
                manager,
                fill.abi_encode(),
                gas.min(TRANSACTION_GAS_CAP),
                "filling a V4 pool",
            )
        })?;
    }
    Ok(())
}

/// Ranges of a pool's liquidity.
fn v4_ranges(pool: &V4GenesisPool, price: U256) -> Vec<LiquidityRange> {
    let fee = pool.key.fee.to::<u32>();
    let tick = tick_at_sqrt_price(price).unwrap_or_default();
    liquidity_ranges(fee, tick_spacing(fee), tick, pool.dollars)
}

/// Input of the action that mints a position with as much liquidity as the range's dollars give.
fn mint_input(
    pool: &V4GenesisPool,
    price: U256,
    range: &LiquidityRange,
    sides: [PricedToken; 2],
    owner: Address,
) -> Result<Bytes, SandboxError> {
    let bound = |tick| sqrt_price_at_tick(tick).map_err(|_| SandboxError::NoSuchPool { chain: "the plan" });
    let (lower, upper) = (bound(range.lower)?, bound(range.upper)?);
    let amounts = [amount_for(range.dollars0, sides[0]), amount_for(range.dollars1, sides[1])];
    let input = (
        pool.key,
        I24::try_from(range.lower).unwrap_or_default(),
        I24::try_from(range.upper).unwrap_or_default(),
        liquidity_for(price, lower, upper, amounts),
        u128::MAX,
        u128::MAX,
        owner,
        Bytes::new(),
    );
    Ok(input.abi_encode_params().into())
}
