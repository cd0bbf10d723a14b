//! State of the pool that a deposit goes to, at one block.

use alloy::eips::BlockId;
use alloy::primitives::{Address, U256};
use alloy::providers::DynProvider;

use super::super::address::{V3_POOL_INIT_CODE_HASH, v3_pool};
use super::PositionContracts;
use bardo_abi::uniswap_v3::UniswapV3Pool;
use golem_chain::multicall::CallBatch;
use golem_chain::provider::ProviderError;

/// State of a V3 pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolState {
    /// Contract of the pool.
    pub pool: Address,
    /// Token with the lower address.
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
}

impl PositionContracts {
    /// Contract of the pool of two tokens in the pool's order, whether it exists or not.
    pub fn pool_of(&self, [token0, token1]: [Address; 2], fee: u32) -> Address {
        v3_pool(self.factory, token0, token1, fee, V3_POOL_INIT_CODE_HASH)
    }

    /// Returns the state of the pool of two tokens in the pool's order, in one round trip; `None` if it does not exist or
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
        Ok(Some(PoolState { pool, token0, token1, fee, sqrt_price_x96, tick, tick_spacing }))
    }
}
