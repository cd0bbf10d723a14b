//! V4 positions: their states by the state view, the fees that they are owed, and whether a hook lets their liquidity out.

use std::collections::BTreeMap;

use alloy::eips::BlockId;
use alloy::network::TransactionBuilder as _;
use alloy::primitives::aliases::{I24, U24};
use alloy::primitives::{Address, B256, U256, U512};
use alloy::providers::{DynProvider, Provider as _};
use alloy::rpc::types::TransactionRequest;
use futures::future::join_all;

use super::super::v3::position::{FeeGrowth, TickRange};
use super::super::v4::manager::{KeyedChange, KeyedPlan};
use super::super::v4::{hook_joins_removal, key_hash};
use super::{Asked, Exit, PositionContracts, PositionId, PositionKey, PositionPool, PositionState};
use bardo_abi::uniswap_v4::{PoolKey, PositionManager, StateView};
use golem_chain::multicall::{BatchResults, CallBatch};
use golem_chain::network::{AddressBook, KnownContract};
use golem_chain::provider::ProviderError;

/// Maximum number of withdrawals that are simulated for one reading. Anybody can give an account positions in pools with a
/// hook; those beyond it count as nothing.
const MOST_TRIED: usize = 16;

/// Gas limit of such a simulation, twice that of a withdrawal: a hook that burns more holds every reading up.
const MOST_GAS: u64 = 1_000_000;

/// First amount that does not fit the signed 128-bit integers of a balance change, and reverts.
const AMOUNT_END: u128 = 1 << 127;

/// Contracts of V4 positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyedContracts {
    /// The `PositionManager`, whose tokens stand for positions.
    pub manager: Address,
    /// The `StateView`.
    pub view: Address,
    /// The `PoolManager`, which holds all pools and their tokens.
    pub pools: Address,
}

/// Question whether the contracts belong together.
#[derive(Debug)]
pub(super) struct CheckCalls {
    pools: Address,
    of_manager: Asked<PositionManager::poolManagerCall>,
    of_view: Asked<StateView::poolManagerCall>,
}

impl CheckCalls {
    /// Returns true if position manager and state view are those of the address book's pool manager.
    pub(super) fn holds(&self, answers: &BatchResults) -> bool {
        let pools = Some(self.pools);
        self.of_manager.take(answers) == pools && self.of_view.take(answers) == pools
    }
}

impl KeyedContracts {
    /// Contracts of an address book; `None` if one is missing.
    pub fn of(book: &AddressBook) -> Option<Self> {
        Some(Self {
            manager: book.contract(KnownContract::V4PositionManager)?,
            view: book.contract(KnownContract::V4StateView)?,
            pools: book.contract(KnownContract::V4PoolManager)?,
        })
    }

    pub(super) fn push_check(&self, calls: &mut CallBatch) -> CheckCalls {
        CheckCalls {
            pools: self.pools,
            of_manager: calls.push(self.manager, &PositionManager::poolManagerCall {}),
            of_view: calls.push(self.view, &StateView::poolManagerCall {}),
        }
    }
}

/// Question for the pool and the range of a V4 position.
#[derive(Debug)]
pub(super) struct KeyCall {
    token: U256,
    asked: Asked<PositionManager::getPoolAndPositionInfoCall>,
}

impl KeyCall {
    pub(super) fn push(calls: &mut CallBatch, v4: &KeyedContracts, token: U256) -> Self {
        let call = PositionManager::getPoolAndPositionInfoCall { tokenId: token };
        Self { token, asked: calls.push(v4.manager, &call) }
    }

    /// Key of the position, and whether it has a subscriber; `None` if no position can have it. Positions that do not exist
    /// are answered with zeros.
    pub(super) fn take(&self, answers: &BatchResults) -> Option<(PositionKey, bool)> {
        let answer = self.asked.take(answers)?;
        let (pool, info) = (answer.poolKey, answer.info);
        let tick = |from: usize| I24::from_raw(U24::wrapping_from(info >> from)).as_i32();
        let range = TickRange::new(tick(8), tick(32)).ok()?;
        let short = B256::from((info >> 56usize) << 56usize);
        // The manager keeps the first 200 bits of the pool's id beside the ticks.
        let is_its_pool = key_hash(&pool).as_slice().get(..25) == short.as_slice().get(..25);
        let subscribed = info & U256::from(0xff) != U256::ZERO;
        let key = PositionKey {
            id: PositionId::V4(self.token),
            token0: pool.currency0,
            token1: pool.currency1,
            fee: pool.fee.to(),
            range,
            pool: PositionPool::Keyed(pool),
        };
        is_its_pool.then_some((key, subscribed))
    }
}

/// Questions for the states of V4 positions, as a part of a batch.
#[derive(Debug)]
pub(super) struct KeyedCalls {
    check: Option<CheckCalls>,
    pools: BTreeMap<B256, PoolCalls>,
    positions: Vec<(PositionKey, B256, OwnCalls)>,
}

/// Questions for the state of a pool.
#[derive(Debug)]
struct PoolCalls {
    slot0: Asked<StateView::getSlot0Call>,
    liquidity: Asked<StateView::getLiquidityCall>,
}

/// Questions for one position.
#[derive(Debug)]
struct OwnCalls {
    key: KeyCall,
    owner: Asked<PositionManager::ownerOfCall>,
    held: Asked<StateView::getPositionInfoCall>,
    inside: Asked<StateView::getFeeGrowthInsideCall>,
}

impl KeyedCalls {
    pub(super) fn push(calls: &mut CallBatch, v4: KeyedContracts, keys: &[PositionKey]) -> Self {
        let keyed = |key: &PositionKey| match key.pool {
            PositionPool::Keyed(pool) => Some((*key, pool)),
            PositionPool::Contract(_) => None,
        };
        let keys: Vec<(PositionKey, PoolKey)> = keys.iter().filter_map(keyed).collect();
        let check = (!keys.is_empty()).then(|| v4.push_check(calls));
        let mut pools = BTreeMap::new();
        let mut positions = Vec::with_capacity(keys.len());
        for (key, pool) in keys {
            let (id, token) = (key_hash(&pool), key.id.token());
            pools.entry(id).or_insert_with(|| PoolCalls {
                slot0: calls.push(v4.view, &StateView::getSlot0Call { poolId: id }),
                liquidity: calls.push(v4.view, &StateView::getLiquidityCall { poolId: id }),
            });
            // Ticks of a range fit 24 bits.
            let tick = |tick| I24::try_from(tick).unwrap_or_default();
            let (lower, upper) = (tick(key.range.lower()), tick(key.range.upper()));
            // The manager holds each position under the number of its token.
            let held = StateView::getPositionInfoCall {
                poolId: id,
                owner: v4.manager,
                tickLower: lower,
                tickUpper: upper,
                salt: token.into(),
            };
            let inside = StateView::getFeeGrowthInsideCall { poolId: id, tickLower: lower, tickUpper: upper };
            let own = OwnCalls {
                key: KeyCall::push(calls, &v4, token),
                owner: calls.push(v4.manager, &PositionManager::ownerOfCall { id: token }),
                held: calls.push(v4.view, &held),
                inside: calls.push(v4.view, &inside),
            };
            positions.push((key, id, own));
        }
        Self { check, pools, positions }
    }

    /// States in the order of the keys; `None` for a position that does not exist or has another key, and for all of them
    /// if the contracts do not belong together.
    pub(super) fn take(&self, answers: &BatchResults) -> Vec<Option<PositionState>> {
        let belong = self.check.as_ref().is_some_and(|check| check.holds(answers));
        let states = self.positions.iter().map(|(key, pool, own)| {
            let (found, subscribed) = own.key.take(answers)?;
            if !belong || found != *key {
                return None;
            }
            let pool = self.pools.get(pool)?;
            let slot0 = pool.slot0.take(answers)?;
            let (held, inside) = (own.held.take(answers)?, own.inside.take(answers)?);
            let last = [held.feeGrowthInside0LastX128, held.feeGrowthInside1LastX128];
            let owed = fees_owed([inside.feeGrowthInside0X128, inside.feeGrowthInside1X128], last, held.liquidity);
            let joined = subscribed || key.pool.hook().is_some_and(hook_joins_removal);
            Some(PositionState {
                key: *key,
                owner: own.owner.take(answers)?,
                liquidity: held.liquidity,
                pool_liquidity: pool.liquidity.take(answers)?,
                sqrt_price_x96: U256::from(slot0.sqrtPriceX96),
                tick: slot0.tick.as_i32(),
                owed: owed.unwrap_or_default(),
                exit: match owed {
                    None => Exit::Locked,
                    Some(_) if joined => Exit::Untried,
                    Some(_) => Exit::Open,
                },
            })
        });
        states.collect()
    }
}

/// Fees that a V4 position is owed: `(inside − last) × liquidity / 2^128` of each currency, the difference modulo 2^256
/// (v4-core: `Position.update`). `None` for an amount that no balance change can have: every change of the position reverts.
pub fn fees_owed(inside: FeeGrowth, last: FeeGrowth, liquidity: u128) -> Option<[u128; 2]> {
    let of = |inside: U256, last: U256| {
        let grown: U512 = inside.wrapping_sub(last).widening_mul::<256, 4, 512, 8>(U256::from(liquidity));
        u128::try_from(grown >> 128).ok().filter(|owed| *owed < AMOUNT_END)
    };
    let ([inside0, inside1], [last0, last1]) = (inside, last);
    Some([of(inside0, last0)?, of(inside1, last1)?])
}

impl PositionContracts {
    /// Simulates the end of each position whose withdrawal a hook or a subscriber takes part in, and notes whether it pays
    /// what the pool owes. An endpoint that does not answer leaves it untried, which counts like locked.
    pub async fn try_exits<'a>(
        &self,
        provider: &DynProvider,
        states: impl Iterator<Item = &'a mut PositionState>,
        block: BlockId,
    ) {
        let Some(v4) = self.v4 else { return };
        let untried = states.filter(|state| match state.exit {
            Exit::Untried => true,
            Exit::Open | Exit::Locked => false,
        });
        let tries = untried.take(MOST_TRIED).map(|state| async move {
            let Some(plan) = whole_exit(state) else {
                state.exit = Exit::Locked;
                return;
            };
            let request = TransactionRequest::default().with_from(state.owner).with_to(v4.manager);
            let request = request.with_input(plan.calldata(state.owner)).with_gas_limit(MOST_GAS);
            let answer = provider.call(request).block(block).await.map_err(ProviderError::from);
            state.exit = match answer {
                Ok(_) => Exit::Open,
                // The endpoint ran it.
                Err(ProviderError::Rpc { .. }) => Exit::Locked,
                Err(_) => Exit::Untried,
            };
        });
        join_all(tries).await;
    }
}

/// End of a position that pays at least what the pool owes for its liquidity.
fn whole_exit(state: &PositionState) -> Option<KeyedPlan> {
    let [first, second] = state.withdrawn(state.liquidity).ok()?;
    let least = [u128::try_from(first).ok()?, u128::try_from(second).ok()?];
    Some(KeyedPlan {
        currencies: [state.key.token0, state.key.token1],
        change: KeyedChange::Close { token_id: state.key.id.token(), least },
        deadline: U256::MAX,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: a growth of 2^100 per unit for 2^40 units is 2^140 / 2^128 = 4096; one that wraps past 2^256 counts on; and
    /// 2^127 is more than a signed 128-bit amount holds.
    #[test]
    fn fees_are_the_growth_since_the_last_change() {
        let unit = U256::ONE << 100;
        assert_eq!(fees_owed([unit, U256::ZERO], [U256::ZERO; 2], 1 << 40), Some([4_096, 0]));
        let last = [U256::MAX, U256::from(5)];
        assert_eq!(fees_owed([unit - U256::ONE, U256::from(5)], last, 1 << 40), Some([4_096, 0]));
        let most = U256::ONE << 255;
        assert_eq!(fees_owed([most, U256::ZERO], [U256::ZERO; 2], 1), None);
        assert_eq!(fees_owed([most - U256::ONE, U256::ZERO], [U256::ZERO; 2], 1), Some([AMOUNT_END - 1, 0]));
        assert_eq!(fees_owed([U256::MAX; 2], [U256::ZERO; 2], u128::MAX), None);
    }
}
