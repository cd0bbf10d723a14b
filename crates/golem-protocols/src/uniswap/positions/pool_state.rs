//! State of the pool that a deposit goes to, at one block.

use alloy::eips::BlockId;
use alloy::primitives::{Address, B256, FixedBytes, U256};
use alloy::providers::DynProvider;

use super::super::address::{V3_POOL_INIT_CODE_HASH, v3_pool};
use super::super::v4::key_hash;
use super::{PositionContracts, PositionPool};
use bardo_abi::uniswap_v3::UniswapV3Pool;
use bardo_abi::uniswap_v4::{PoolKey, PositionManager, StateView};
use golem_chain::multicall::CallBatch;
use golem_chain::provider::ProviderError;

/// State of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolState {
    /// Contract of the pool, or its key.
    pub pool: PositionPool,
    /// Token with the lower address; the zero address is the native token.
    pub token0: Address,
    /// Token with the higher address.
    pub token1: Address,
    /// Fee in hundredths of a basis point.
    pub fee: u32,
    /// Square root of the price in raw token1 per raw token0, times 2^96.
    pub sqrt_price_x96: U256,
    /// Highest tick whose price is at or below the current one.
    pub tick: i32,
    /// Distance between the ticks that a range may end at.
    pub tick_spacing: i32,
    /// Part of what a swap pays of token0, and of token1, that goes to the providers of liquidity, in millionths: the fee
    /// less the protocol's part.
    pub provider_fee: [u32; 2],
}

/// Fee in millionths less the part that V3's protocol takes of it: nothing, or one `divisor`-th.
fn less_protocol_part(fee: u32, divisor: u8) -> u32 {
    if divisor == 0 { fee } else { fee.saturating_sub(fee.div_ceil(u32::from(divisor))) }
}

/// Fee in millionths of what V4's protocol fee, in millionths of the paid amount, leaves of that.
fn after_protocol_fee(fee: u32, protocol: u32) -> u32 {
    let rest = u64::from(fee).saturating_mul(1_000_000_u64.saturating_sub(u64::from(protocol))) / 1_000_000;
    u32::try_from(rest).unwrap_or(fee)
}

impl PositionContracts {
    /// Contract of the pool of two tokens in the pool's order, whether it exists or not.
    pub fn pool_of(&self, [token0, token1]: [Address; 2], fee: u32) -> Address {
        v3_pool(self.factory, token0, token1, fee, V3_POOL_INIT_CODE_HASH)
    }

    /// Returns the state of the V3 pool of two tokens in the pool's order, in one round trip; `None` if it does not exist or
    /// was never given a price.
    ///
    /// # Errors
    /// The provider's error.
    pub async fn pool_state(
        &self,
        provider: &DynProvider,
        tokens: [Address; 2],
        fee: u32,
        block: BlockId,
    ) -> Result<Option<PoolState>, ProviderError> {
        let pool = self.pool_of(tokens, fee);
        let mut calls = CallBatch::default();
        let slot0 = calls.push(pool, &UniswapV3Pool::slot0Call {});
        let spacing = calls.push(pool, &UniswapV3Pool::tickSpacingCall {});
        let answers = calls.send(provider, self.multicall, block).await?;
        let (Some(slot0), Some(spacing)) = (slot0.take(&answers), spacing.take(&answers)) else { return Ok(None) };
        let sqrt_price_x96: U256 = slot0.sqrtPriceX96.to();
        let tick_spacing = spacing.as_i32();
        if sqrt_price_x96.is_zero() || tick_spacing <= 0 {
            return Ok(None);
        }
        let ([token0, token1], tick) = (tokens, slot0.tick.as_i32());
        let pool = PositionPool::Contract(pool);
        // `SetFeeProtocol`: the divisor of token0 in the lower four bits, that of token1 in the upper ones.
        let provider_fee = [slot0.feeProtocol % 16, slot0.feeProtocol >> 4].map(|part| less_protocol_part(fee, part));
        Ok(Some(PoolState { pool, token0, token1, fee, sqrt_price_x96, tick, tick_spacing, provider_fee }))
    }

    /// Returns the state of the V4 pool of a key, in one round trip; `None` if it was never given a price, or there is no
    /// V4.
    ///
    /// # Errors
    /// The provider's error.
    pub async fn keyed_pool_state(
        &self,
        provider: &DynProvider,
        key: PoolKey,
        block: BlockId,
    ) -> Result<Option<PoolState>, ProviderError> {
        let Some(v4) = self.v4 else { return Ok(None) };
        let mut calls = CallBatch::default();
        let checked = v4.push_check(&mut calls);
        let slot0 = calls.push(v4.view, &StateView::getSlot0Call { poolId: key_hash(&key) });
        let answers = calls.send(provider, self.multicall, block).await?;
        let Some(slot0) = slot0.take(&answers).filter(|_| checked.holds(&answers)) else { return Ok(None) };
        let (sqrt_price_x96, tick_spacing) = (U256::from(slot0.sqrtPriceX96), key.tickSpacing.as_i32());
        if sqrt_price_x96.is_zero() || tick_spacing <= 0 {
            return Ok(None);
        }
        // `ProtocolFeeLibrary`: twelve bits for what is paid in token0, and twelve for token1.
        let protocol = slot0.protocolFee.to::<u32>();
        let provider_fee =
            [protocol % 4_096, protocol >> 12].map(|protocol| after_protocol_fee(slot0.lpFee.to(), protocol));
        Ok(Some(PoolState {
            pool: PositionPool::Keyed(key),
            token0: key.currency0,
            token1: key.currency1,
            fee: key.fee.to(),
            sqrt_price_x96,
            tick: slot0.tick.as_i32(),
            tick_spacing,
            provider_fee,
        }))
    }

    /// Returns the key of a V4 pool by its id, from the position manager, which knows the pools in which a position was
    /// opened; `None` for any other, or without V4. That the key has this id is checked.
    ///
    /// # Errors
    /// The provider's error.
    pub async fn pool_key(
        &self,
        provider: &DynProvider,
        id: B256,
        block: BlockId,
    ) -> Result<Option<PoolKey>, ProviderError> {
        let Some(v4) = self.v4 else { return Ok(None) };
        let mut calls = CallBatch::default();
        let short = FixedBytes::<25>::try_from(id.as_slice().get(..25).unwrap_or_default()).unwrap_or_default();
        let key = calls.push(v4.manager, &PositionManager::poolKeysCall { poolId: short });
        let answers = calls.send(provider, self.multicall, block).await?;
        let key = key.take(&answers).map(|key| PoolKey {
            currency0: key.currency0,
            currency1: key.currency1,
            fee: key.fee,
            tickSpacing: key.tickSpacing,
            hooks: key.hooks,
        });
        Ok(key.filter(|key| key_hash(key) == id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `UniswapV3Pool.swap`: the protocol takes `feeAmount / feeProtocol`. `Pool.swap` of V4: the protocol's fee is taken from
    /// the input, and the pool's from what is left.
    #[test]
    fn the_protocol_takes_its_part_of_the_fee() {
        assert_eq!([0, 4, 10].map(|divisor| less_protocol_part(3_000, divisor)), [3_000, 2_250, 2_700]);
        assert_eq!([0, 1_000].map(|protocol| after_protocol_fee(3_000, protocol)), [3_000, 2_997]);
    }
}
