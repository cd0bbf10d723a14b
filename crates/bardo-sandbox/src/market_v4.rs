//! The market in V4 pools: the arbitrageur keeps their prices and the traders trade in them, through one contract that
//! knows price limits. Its random numbers are its own, so that trades in V2 and V3 pools do not depend on V4.
//!
//! Nobody trades in a pool whose hook takes a part of the output; its price stays behind.
//!
//! Not here: the price model (see `target`), and sending (see `background_actors`).

use alloy::primitives::{Address, B256, U256, aliases::U160, keccak256};
use alloy::sol_types::{SolCall, SolValue};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::actors::{ActorRole, ActorTransaction};
use super::genesis::{Deployment, V4GenesisPool};
use super::market::{
    LARGEST_ARBITRAGE, LARGEST_CHANCE, MarketBlock, SMALLEST_POOL_IN_TRADES, SWAP_GAS, TRADE_DOLLARS,
    TRADER_SLIPPAGE_PERCENT, TRADES_IN_THOUSAND_SECONDS, arbitrage_to,
};
use super::math::{PricedToken, amount_for};
use super::plan::{PoolCurrency, PoolHook, SandboxToken};
use super::v4_pools::target_price;
use bardo_abi::uniswap_v4::PoolTrader;
use golem_chain::devnet::WorldState;
use golem_protocols::uniswap::v3::tick_math::{MAX_SQRT_PRICE, MIN_SQRT_PRICE};

/// Storage slot of the pool manager's mapping of pools (`StateLibrary` of v4-core).
const POOLS_SLOT: u64 = 6;

/// Creates the market's transactions in V4 pools for one block.
pub(super) fn orders(
    deployment: &Deployment,
    state: &WorldState,
    moment: &MarketBlock,
    quoted: &impl Fn(SandboxToken) -> PricedToken,
) -> Vec<ActorTransaction> {
    let at = |name| deployment.contracts.get(name).copied();
    let (Some(manager), Some(trader)) = (at("v4PoolManager"), at("poolTrader")) else { return Vec::new() };
    let pools: Vec<&V4GenesisPool> = deployment.v4_pools.iter().filter(|pool| is_traded(deployment, pool)).collect();
    let arbitrage: Vec<_> = pools.iter().filter_map(|pool| arbitrage(state, manager, pool, quoted)).collect();
    let mut orders = Vec::new();
    if !arbitrage.is_empty() {
        orders.push(order(ActorRole::Arbitrageur, trader, arbitrage, "arbitrage in V4"));
    }
    if let Some((role, trade)) = random_trade(deployment, moment, &pools, quoted) {
        orders.push(order(role, trader, vec![trade], "a trade in V4"));
    }
    orders
}

/// Square-root price of a V4 pool as Q64.96, read from the pool manager's storage; zero if there is no such pool.
pub(super) fn v4_sqrt_price(state: &WorldState, manager: Address, id: B256) -> U256 {
    let slot = keccak256((id, U256::from(POOLS_SLOT)).abi_encode());
    state.storage_at(manager, slot.into()) & U256::from(U160::MAX)
}

fn is_traded(deployment: &Deployment, pool: &V4GenesisPool) -> bool {
    deployment.contracts.get(PoolHook::SwapTax.key()).is_none_or(|tax| pool.key.hooks != *tax)
}

fn arbitrage(
    state: &WorldState,
    manager: Address,
    pool: &V4GenesisPool,
    quoted: &impl Fn(SandboxToken) -> PricedToken,
) -> Option<PoolTrader::Trade> {
    let price = v4_sqrt_price(state, manager, pool.id);
    let (zero_for_one, limit) = arbitrage_to(price, target_price(pool, quoted), pool.key.fee.to())?;
    let give = if zero_for_one { pool.currency0 } else { pool.currency1 };
    Some(PoolTrader::Trade {
        key: pool.key,
        zeroForOne: zero_for_one,
        amountIn: amount_for(LARGEST_ARBITRAGE, quoted(give.priced_as())).saturating_to(),
        sqrtPriceLimitX96: U160::saturating_from(limit),
        leastOut: 0,
    })
}

/// A trade by one of the traders, an eighth as often as in the other pools: their history costs time at each start.
fn random_trade(
    deployment: &Deployment,
    moment: &MarketBlock,
    pools: &[&V4GenesisPool],
    quoted: &impl Fn(SandboxToken) -> PricedToken,
) -> Option<(ActorRole, PoolTrader::Trade)> {
    let seed = keccak256(format!("market v4/{}/{}/{}", moment.seed, deployment.plan.chain_id, moment.block));
    let mut random = ChaCha8Rng::from_seed(seed.0);
    let seconds = moment.timestamp.saturating_sub(moment.parent_timestamp);
    let chance = (seconds.saturating_mul(TRADES_IN_THOUSAND_SECONDS) / 2).min(LARGEST_CHANCE) / 4;
    if random.random_range(0..1_000) >= chance {
        return None;
    }
    let role = if random.random() { ActorRole::FirstTrader } else { ActorRole::SecondTrader };
    let pool = pools.get(random.random_range(0..pools.len().max(1)))?;
    let zero_for_one = random.random();
    let (give, take) = if zero_for_one { (pool.currency0, pool.currency1) } else { (pool.currency1, pool.currency0) };
    let (least, largest) = TRADE_DOLLARS;
    let dollars = random.random_range(least..=largest.min(pool.dollars / SMALLEST_POOL_IN_TRADES).max(least));
    let amount = |side: PoolCurrency| amount_for(dollars, quoted(side.priced_as()));
    let trade = PoolTrader::Trade {
        key: pool.key,
        zeroForOne: zero_for_one,
        amountIn: amount(give).saturating_to(),
        sqrtPriceLimitX96: U160::saturating_from(if zero_for_one {
            MIN_SQRT_PRICE + U256::ONE
        } else {
            MAX_SQRT_PRICE - U256::ONE
        }),
        leastOut: (amount(take) * U256::from(100 - TRADER_SLIPPAGE_PERCENT) / U256::from(100)).saturating_to(),
    };
    Some((role, trade))
}

/// Transaction with enough value for all trades that sell the native token; the contract sends the rest back.
fn order(role: ActorRole, trader: Address, trades: Vec<PoolTrader::Trade>, step: &'static str) -> ActorTransaction {
    let native = trades.iter().filter(|trade| trade.zeroForOne && trade.key.currency0.is_zero());
    let value = native.map(|trade| U256::from(trade.amountIn)).sum();
    let gas = 150_000 + 2 * SWAP_GAS * u64::try_from(trades.len()).unwrap_or(u64::MAX);
    ActorTransaction {
        value,
        ..ActorTransaction::call(role, trader, PoolTrader::tradeCall { trades }.abi_encode(), gas, step)
    }
}
