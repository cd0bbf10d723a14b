//! V4 pools, read by their keys through the network's state view.

use alloy::eips::BlockId;
use alloy::primitives::aliases::{I24, U24};
use alloy::primitives::{Address, U256};

use super::ticks::TickRequest;
use super::{DiscoveryError, FEE_TIERS, PoolReader, TickReach};
use crate::uniswap::address::sort_tokens;
use crate::uniswap::pool::PoolError;
use crate::uniswap::pool_id::PoolId;
use crate::uniswap::v3::ALL_TICKS;
use crate::uniswap::v4::{V4Pool, V4State, key_fault, key_hash};
use bardo_abi::uniswap_v4::{PoolKey, StateView};
use golem_chain::multicall::CallBatch;
use golem_chain::network::{AddressBook, KnownContract};

/// V4 contracts of a network.
#[derive(Debug, Clone, Copy)]
pub(super) struct V4Contracts {
    /// Contract that holds all pools.
    manager: Address,
    /// Contract that reads the manager's storage.
    view: Address,
    wrapped_native: Address,
}

impl V4Contracts {
    /// Returns the contracts of the address book; `None` if one is missing.
    pub(super) fn of(book: &AddressBook) -> Option<Self> {
        Some(Self {
            manager: book.contract(KnownContract::V4PoolManager)?,
            view: book.contract(KnownContract::V4StateView)?,
            wrapped_native: book.contract(KnownContract::WrappedNative)?,
        })
    }
}

/// Returns the keys of the usual pools between two currencies, in their order, without hooks. The zero address is the
/// native token.
pub fn keys_of(currency0: Address, currency1: Address) -> impl Iterator<Item = PoolKey> {
    FEE_TIERS.into_iter().map(move |(fee, spacing)| PoolKey {
        currency0,
        currency1,
        fee: U24::from(fee),
        tickSpacing: I24::try_from(spacing).unwrap_or_default(),
        hooks: Address::ZERO,
    })
}

/// A V4 pool with a hook at one block, and what it would be without.
#[derive(Debug, Clone)]
pub struct HookedPool {
    /// Key of the pool.
    pub key: PoolKey,
    /// Contract that holds the pool.
    pub manager: Address,
    /// Square root of the price in raw currency 1 per raw currency 0, times 2^96.
    pub sqrt_price_x96: U256,
    /// Tick of the price.
    pub tick: i32,
    /// Liquidity in range.
    pub liquidity: u128,
    /// Fee of the liquidity providers as the pool states it, in millionths; of a pool whose hook sets it, the last one that was
    /// set.
    pub lp_fee: u32,
    /// The pool as it would trade with the stated fee and without its hook, or the reason why that is not computed.
    pub without_hook: Result<V4Pool, PoolError>,
}

/// V4 pools at one block.
#[derive(Debug, Clone, Default)]
pub struct KeyedPools {
    /// Pools with valid state.
    pub pools: Vec<V4Pool>,
    /// Errors of pools that were left out, because their swaps are not computed or their state is invalid.
    pub refused: Vec<PoolError>,
}

impl PoolReader {
    /// Returns the keys of the usual pools between two tokens, without hooks. The native token has pools of its own
    /// beside those of the wrapped one, which stands for both here. Empty on a network without V4.
    pub fn usual_keys(&self, a: Address, b: Address) -> Vec<PoolKey> {
        let Some(v4) = self.v4 else { return Vec::new() };
        let sides = |token: Address| {
            let native = (token == v4.wrapped_native).then_some(Address::ZERO);
            std::iter::once(token).chain(native)
        };
        let pairs = sides(a).flat_map(|a| sides(b).map(move |b| sort_tokens(a, b)));
        let keys = pairs.flat_map(|(currency0, currency1)| keys_of(currency0, currency1));
        keys.filter(|key| key_fault(key).is_none()).collect()
    }

    /// Reads the pools of these keys at `block`. A key without a pool is left out. So are all if the network has no V4,
    /// or its state view reads another pool manager than the address book's.
    ///
    /// # Errors
    /// Returns a [`DiscoveryError`] if the chain does not answer or does not know the block.
    pub async fn keyed_pools(
        &self,
        keys: &[PoolKey],
        block: BlockId,
        reach: TickReach,
    ) -> Result<KeyedPools, DiscoveryError> {
        let pin = self.pin(block).await?;
        self.read_keyed(keys, BlockId::from(pin.hash), reach).await
    }

    /// Reads the pool of a key with any hook at `block`; `None` if there is no such pool, no V4, or if the state view reads another
    /// pool manager than the address book's. Name the block by its hash.
    ///
    /// # Errors
    /// Returns a [`DiscoveryError`] if the chain does not answer or does not know the block.
    pub async fn hooked_pool(&self, key: &PoolKey, block: BlockId) -> Result<Option<HookedPool>, DiscoveryError> {
        let Some(v4) = self.v4 else { return Ok(None) };
        let id = key_hash(key);
        let mut calls = CallBatch::default();
        let manager = calls.push(v4.view, &StateView::poolManagerCall {});
        let slot0 = calls.push(v4.view, &StateView::getSlot0Call { poolId: id });
        let liquidity = calls.push(v4.view, &StateView::getLiquidityCall { poolId: id });
        let answers = calls.send(&self.provider, self.multicall, block).await?;
        let spacing = key.tickSpacing.as_i32();
        let (Some(slot0), Some(liquidity)) = (slot0.take(&answers), liquidity.take(&answers)) else { return Ok(None) };
        if manager.take(&answers) != Some(v4.manager) || slot0.sqrtPriceX96.is_zero() || spacing <= 0 {
            return Ok(None);
        }
        let (tick, lp_fee) = (slot0.tick.as_i32(), slot0.lpFee.to::<u32>());
        let request = TickRequest { id: PoolId::Keyed(id), contract: v4.view, tick, spacing };
        let known = self.read_ticks(&[request], block, TickReach::Near).await?.into_iter().next();
        let Some(known) = known else { return Ok(None) };
        let sqrt_price_x96 = U256::from(slot0.sqrtPriceX96);
        let without_hook = V4Pool::new(V4State {
            key: PoolKey { fee: slot0.lpFee, hooks: Address::ZERO, ..*key },
            wrapped_native: v4.wrapped_native,
            protocol_fee: slot0.protocolFee.to(),
            lp_fee,
            sqrt_price_x96,
            tick,
            liquidity,
            ticks: known.ticks,
            known_ticks: known.range,
        });
        let manager = v4.manager;
        Ok(Some(HookedPool { key: *key, manager, sqrt_price_x96, tick, liquidity, lp_fee, without_hook }))
    }

    pub(super) async fn read_keyed(
        &self,
        keys: &[PoolKey],
        block: BlockId,
        reach: TickReach,
    ) -> Result<KeyedPools, DiscoveryError> {
        let mut read = KeyedPools::default();
        let Some(v4) = self.v4.filter(|_| !keys.is_empty()) else { return Ok(read) };
        let mut calls = CallBatch::default();
        let manager = calls.push(v4.view, &StateView::poolManagerCall {});
        let mut asked = Vec::with_capacity(keys.len());
        for key in keys {
            let id = key_hash(key);
            if let Some(what) = key_fault(key) {
                read.refused.push(PoolError::Unsupported { pool: PoolId::Keyed(id), what });
                continue;
            }
            let slot0 = calls.push(v4.view, &StateView::getSlot0Call { poolId: id });
            let liquidity = calls.push(v4.view, &StateView::getLiquidityCall { poolId: id });
            asked.push((key, id, slot0, liquidity));
        }
        let answers = calls.send(&self.provider, self.multicall, block).await?;
        if manager.take(&answers) != Some(v4.manager) {
            return Ok(KeyedPools::default());
        }
        let states = asked.into_iter().filter_map(|(key, id, slot0, liquidity)| {
            let (slot0, liquidity) = (slot0.take(&answers)?, liquidity.take(&answers)?);
            let sqrt_price_x96 = U256::from(slot0.sqrtPriceX96);
            let (tick, spacing) = (slot0.tick.as_i32(), key.tickSpacing.as_i32());
            // A pool that was not initialized has no price.
            let exists = !sqrt_price_x96.is_zero() && spacing > 0;
            let state = V4State {
                key: *key,
                wrapped_native: v4.wrapped_native,
                protocol_fee: slot0.protocolFee.to(),
                lp_fee: slot0.lpFee.to(),
                sqrt_price_x96,
                tick,
                liquidity,
                ticks: Vec::new(),
                known_ticks: ALL_TICKS,
            };
            exists.then_some((TickRequest { id: PoolId::Keyed(id), contract: v4.view, tick, spacing }, state))
        });
        let (requests, states): (Vec<_>, Vec<_>) = states.unzip();
        let known = self.read_ticks(&requests, block, reach).await?;
        for (state, known) in states.into_iter().zip(known) {
            match V4Pool::new(V4State { ticks: known.ticks, known_ticks: known.range, ..state }) {
                Ok(pool) => read.pools.push(pool),
                Err(error) => read.refused.push(error),
            }
        }
        Ok(read)
    }
}
