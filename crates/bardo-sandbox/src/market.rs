//! The market: two traders who buy and sell at random, and an arbitrageur who moves every pool to the market's price.
//! Their transactions in a block depend only on the seed, the block and the state before it.
//!
//! Not here: the price model (see `target`), V4 pools (see `market_v4`), and sending (see `background_actors`).

use alloy::primitives::{Address, U256, aliases::U24, aliases::U160, keccak256};
use alloy::sol_types::SolCall;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::actors::{ActorRole, ActorTransaction, Actors};
use super::genesis::{DeployedToken, Deployment, GenesisPool};
use super::market_v4;
use super::math::{PricedToken, amount_for, pair_payment, pair_sqrt_price, shift, sqrt_price_x96};
use super::plan::{SandboxToken, Venue};
use super::target::AssetPrices;
use bardo_abi::uniswap_v2::UniswapV2Router02;
use bardo_abi::uniswap_v3::SwapRouter02;
use golem_chain::devnet::WorldState;

/// Maximum amount that the arbitrageur offers to one pool, in dollars. The pool uses the part needed to reach the
/// price.
pub(super) const LARGEST_ARBITRAGE: u64 = 100_000_000;

/// Expected trades per thousand seconds, for both traders together.
pub(super) const TRADES_IN_THOUSAND_SECONDS: u64 = 150;

/// Maximum probability that a trader acts in a block, per mille, for any block interval.
pub(super) const LARGEST_CHANCE: u64 = 500;

/// Range of trade sizes in dollars; small trades are more likely.
pub(super) const TRADE_DOLLARS: (u64, u64) = (150, 9_000);

/// Minimum ratio of a pool's initial liquidity to a trade in it: a trade moves a V2 pair by 0.2 % at most.
pub(super) const SMALLEST_POOL_IN_TRADES: u64 = 2_000;

/// Slippage that a trader accepts, in percent.
pub(super) const TRADER_SLIPPAGE_PERCENT: u64 = 5;

/// Storage slot of a V2 pair's reserves.
const PAIR_RESERVES_SLOT: u64 = 8;

pub(super) const SWAP_GAS: u64 = 400_000;

/// Context of the block in which the market acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MarketBlock {
    /// Seed of the market.
    pub seed: u64,
    /// Height of the next block.
    pub block: u64,
    /// Timestamp of the next block, in seconds since the Unix epoch.
    pub timestamp: u64,
    /// Timestamp of its parent, in seconds since the Unix epoch.
    pub parent_timestamp: u64,
}

/// Creates the market's transactions for one block.
pub fn orders(
    deployment: &Deployment,
    actors: &Actors,
    state: &WorldState,
    moment: &MarketBlock,
    prices: &AssetPrices,
) -> Vec<ActorTransaction> {
    let quoted =
        |token: SandboxToken| PricedToken { price: prices.of(token.plan().asset), decimals: token.plan().decimals };
    let arbitrageur = |pool: &GenesisPool| arbitrage(state, pool, &quoted);
    let swaps: Vec<_> = deployment.pools.iter().filter(|pool| is_sound(pool)).filter_map(arbitrageur).collect();

    let mut orders = Vec::new();
    if !swaps.is_empty() {
        let gas = 100_000 + SWAP_GAS * u64::try_from(swaps.len()).unwrap_or(u64::MAX);
        let deadline = U256::from(moment.timestamp.saturating_add(600));
        let call =
            SwapRouter02::multicallCall { deadline, data: swaps.into_iter().map(Into::into).collect() }.abi_encode();
        orders.push(ActorTransaction::call(ActorRole::Arbitrageur, deployment.swap_router, call, gas, "arbitrage"));
    }
    orders.extend(trades(deployment, actors, moment, &quoted));
    orders.extend(market_v4::orders(deployment, state, moment, &quoted));
    orders
}

/// Returns true if neither token of the pool is a bad one.
fn is_sound(pool: &GenesisPool) -> bool {
    !pool.token0.token.is_bad() && !pool.token1.token.is_bad()
}

/// Square-root price of a pool as Q64.96, read from its contract's storage.
pub fn pool_sqrt_price(state: &WorldState, pool: &GenesisPool) -> U256 {
    match pool.venue {
        Venue::V2 => {
            let (reserve0, reserve1) = reserves(state, pool.address);
            pair_sqrt_price(reserve0, reserve1)
        }
        Venue::V3(_) => state.storage_at(pool.address, U256::ZERO) & U256::from(U160::MAX),
    }
}

fn reserves(state: &WorldState, pair: Address) -> (U256, U256) {
    let word = state.storage_at(pair, U256::from(PAIR_RESERVES_SLOT));
    let mask = (U256::ONE << 112_usize) - U256::ONE;
    (word & mask, (word >> 112_usize) & mask)
}

/// Creates the SwapRouter02 calldata of the swap that moves a pool's price into its fee band; `None` if it is inside.
fn arbitrage(state: &WorldState, pool: &GenesisPool, quoted: &impl Fn(SandboxToken) -> PricedToken) -> Option<Vec<u8>> {
    let target = sqrt_price_x96(quoted(pool.token0.token), quoted(pool.token1.token));
    let at = pool_sqrt_price(state, pool);
    if at.is_zero() {
        return None;
    }
    let (zero_for_one, limit) = arbitrage_to(at, target, pool.venue.fee())?;
    let (give, take) = if zero_for_one { (pool.token0, pool.token1) } else { (pool.token1, pool.token0) };
    match pool.venue {
        Venue::V3(fee) => Some(
            SwapRouter02::exactInputSingleCall {
                params: SwapRouter02::ExactInputSingleParams {
                    tokenIn: give.address,
                    tokenOut: take.address,
                    fee: U24::saturating_from(fee),
                    recipient: RECIPIENT_SENDER,
                    amountIn: amount_for(LARGEST_ARBITRAGE, quoted(give.token)),
                    amountOutMinimum: U256::ZERO,
                    sqrtPriceLimitX96: U160::saturating_from(limit),
                },
            }
            .abi_encode(),
        ),
        Venue::V2 => {
            let (reserve0, reserve1) = reserves(state, pool.address);
            let (payment0, payment1) = pair_payment(reserve0, reserve1, limit);
            let amount = if give == pool.token0 { payment0 } else { payment1 };
            (!amount.is_zero()).then(|| {
                SwapRouter02::swapExactTokensForTokensCall {
                    amountIn: amount,
                    amountOutMin: U256::ZERO,
                    path: vec![give.address, take.address],
                    to: RECIPIENT_SENDER,
                }
                .abi_encode()
            })
        }
    }
}

/// Direction and price limit of the swap that moves a pool with this fee from the square-root price `at` towards
/// `target`; `None` within the fee band. It acts beyond nine tenths of the fee and stops at half of it, so that a pool
/// is not swapped in every block.
pub(super) fn arbitrage_to(at: U256, target: U256, fee: u32) -> Option<(bool, U256)> {
    let fee = i32::try_from(fee).unwrap_or(i32::MAX);
    let (edge, stop) = (fee * 9 / 10, fee / 2);
    if at < shift(target, -edge) {
        Some((false, shift(target, -stop)))
    } else if at > shift(target, edge) {
        Some((true, shift(target, stop)))
    } else {
        None
    }
}

/// Recipient value that SwapRouter02 replaces by the sender.
const RECIPIENT_SENDER: Address = Address::with_last_byte(1);

fn trades(
    deployment: &Deployment,
    actors: &Actors,
    moment: &MarketBlock,
    quoted: &impl Fn(SandboxToken) -> PricedToken,
) -> Vec<ActorTransaction> {
    let seed = keccak256(format!("market/{}/{}/{}", moment.seed, deployment.plan.chain_id, moment.block));
    let mut random = ChaCha8Rng::from_seed(seed.0);
    let pools: Vec<&GenesisPool> = deployment.pools.iter().filter(|pool| is_sound(pool)).collect();
    let seconds = moment.timestamp.saturating_sub(moment.parent_timestamp);

    let mut orders = Vec::new();
    for role in [ActorRole::FirstTrader, ActorRole::SecondTrader] {
        let chance = (seconds.saturating_mul(TRADES_IN_THOUSAND_SECONDS) / 2).min(LARGEST_CHANCE);
        if random.random_range(0..1_000) >= chance {
            continue;
        }
        let Some(pool) = pools.get(random.random_range(0..pools.len().max(1))) else { continue };
        let (give, take) = if random.random() { (pool.token0, pool.token1) } else { (pool.token1, pool.token0) };
        let (least, largest) = TRADE_DOLLARS;
        let most = largest.min(pool.dollars / SMALLEST_POOL_IN_TRADES).max(least);
        let ceiling = random.random_range(least..=most);
        let dollars = random.random_range(least..=ceiling);
        let swap = TraderSwap { role, pool, give, take, dollars };
        orders.push(trade(deployment, actors, moment, &swap, quoted));
    }
    orders
}

/// Parameters of a trader's swap.
struct TraderSwap<'a> {
    role: ActorRole,
    pool: &'a GenesisPool,
    give: DeployedToken,
    take: DeployedToken,
    dollars: u64,
}

fn trade(
    deployment: &Deployment,
    actors: &Actors,
    moment: &MarketBlock,
    swap: &TraderSwap<'_>,
    quoted: &impl Fn(SandboxToken) -> PricedToken,
) -> ActorTransaction {
    let TraderSwap { role, pool, give, take, dollars } = *swap;
    let amount = amount_for(dollars, quoted(give.token));
    let least = amount_for(dollars, quoted(take.token)) * U256::from(100 - TRADER_SLIPPAGE_PERCENT) / U256::from(100);
    match pool.venue {
        Venue::V2 => {
            let call = UniswapV2Router02::swapExactTokensForTokensCall {
                amountIn: amount,
                amountOutMin: least,
                path: vec![give.address, take.address],
                to: actors.address(role),
                deadline: U256::from(moment.timestamp.saturating_add(600)),
            };
            ActorTransaction::call(role, deployment.v2_router, call.abi_encode(), SWAP_GAS, "a trade")
        }
        Venue::V3(fee) => {
            let call = SwapRouter02::exactInputSingleCall {
                params: SwapRouter02::ExactInputSingleParams {
                    tokenIn: give.address,
                    tokenOut: take.address,
                    fee: U24::saturating_from(fee),
                    recipient: RECIPIENT_SENDER,
                    amountIn: amount,
                    amountOutMinimum: least,
                    sqrtPriceLimitX96: U160::ZERO,
                },
            };
            ActorTransaction::call(role, deployment.swap_router, call.abi_encode(), SWAP_GAS, "a trade")
        }
    }
}
