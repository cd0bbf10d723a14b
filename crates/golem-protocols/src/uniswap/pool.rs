//! Pool of any version behind one interface: tokens, fee, mid price and quotes.

use std::sync::Arc;

use alloy::primitives::{Address, U256};

use super::pool_id::PoolId;
use super::ratio::Ratio;
use super::v2::V2Pool;
use super::v3::V3Pool;
use super::v4::V4Pool;
use bardo_abi::uniswap_v4::PoolKey;

/// Fixed amount of a trade, in raw units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FixedAmount {
    /// Exact input amount.
    In(U256),
    /// Exact output amount.
    Out(U256),
}

impl FixedAmount {
    /// Returns the fixed amount.
    pub fn amount(self) -> U256 {
        match self {
            Self::In(amount) | Self::Out(amount) => amount,
        }
    }
}

/// Protocol version of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProtocolVersion {
    /// Constant product pairs.
    V2,
    /// Concentrated liquidity pools.
    V3,
    /// Concentrated liquidity pools of one contract, named by keys.
    V4,
}

impl std::fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::V2 => "V2",
            Self::V3 => "V3",
            Self::V4 => "V4",
        })
    }
}

/// Error in quoting a pool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// Pool without enough liquidity for the amount.
    #[error("pool {pool} has too little liquidity for this amount; reduce it")]
    InsufficientLiquidity {
        /// Identity of the pool.
        pool: PoolId,
    },
    /// Amount of zero.
    #[error("an amount of zero cannot be swapped; use an amount above zero")]
    ZeroAmount,
    /// Amount beyond the signed 256-bit integers that pools use.
    #[error("the amount is above 2^255 - 1 raw units, the maximum of a pool")]
    AmountTooLarge,
    /// Token that the pool does not contain.
    #[error("token {token} is not in pool {pool}")]
    ForeignToken {
        /// Token that was requested.
        token: Address,
        /// Identity of the pool.
        pool: PoolId,
    },
    /// Pool whose swaps are not computed.
    #[error("pool {pool} is not quoted: {what}")]
    Unsupported {
        /// Identity of the pool.
        pool: PoolId,
        /// Property of the pool that prevents the computation.
        what: &'static str,
    },
    /// Inconsistent pool state.
    #[error("pool {pool} reports an impossible state: {what}")]
    InvalidState {
        /// Identity of the pool.
        pool: PoolId,
        /// Description of the inconsistency.
        what: &'static str,
    },
}

/// Result of a swap through one pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolQuote {
    /// Input in raw units, including the fee.
    pub amount_in: U256,
    /// Output in raw units.
    pub amount_out: U256,
    /// Number of initialized ticks crossed; 0 for V2.
    pub ticks_crossed: u32,
}

/// State of a pool at one block. Cheap to clone.
#[derive(Debug, Clone)]
pub enum Pool {
    /// Constant product pair.
    V2(Arc<V2Pool>),
    /// Concentrated liquidity pool.
    V3(Arc<V3Pool>),
    /// Pool of the V4 pool manager.
    V4(Arc<V4Pool>),
}

impl From<V2Pool> for Pool {
    fn from(pool: V2Pool) -> Self {
        Self::V2(Arc::new(pool))
    }
}

impl From<V3Pool> for Pool {
    fn from(pool: V3Pool) -> Self {
        Self::V3(Arc::new(pool))
    }
}

impl From<V4Pool> for Pool {
    fn from(pool: V4Pool) -> Self {
        Self::V4(Arc::new(pool))
    }
}

impl Pool {
    /// Returns the pool's identity.
    pub fn id(&self) -> PoolId {
        match self {
            Self::V2(pool) => pool.address.into(),
            Self::V3(pool) => pool.state().id,
            Self::V4(pool) => pool.id(),
        }
    }

    /// Returns the two tokens in the pool's order. The wrapped token stands for the native one, which only V4 pools trade.
    pub fn tokens(&self) -> (Address, Address) {
        match self {
            Self::V2(pool) => (pool.token0, pool.token1),
            Self::V3(pool) => (pool.state().token0, pool.state().token1),
            Self::V4(pool) => pool.tokens(),
        }
    }

    /// Returns the protocol version.
    pub fn version(&self) -> ProtocolVersion {
        match self {
            Self::V2(_) => ProtocolVersion::V2,
            Self::V3(_) => ProtocolVersion::V3,
            Self::V4(_) => ProtocolVersion::V4,
        }
    }

    /// Returns the fee that names the pool among others of its tokens, in hundredths of a basis point (3000 is 0.3 %).
    pub fn fee(&self) -> u32 {
        match self {
            Self::V2(_) => super::v2::FEE_PIPS,
            Self::V3(pool) => pool.state().fee,
            Self::V4(pool) => pool.key().fee.to(),
        }
    }

    /// Returns the fee of a swap in this direction, in hundredths of a basis point: in a V4 pool with the protocol's fee.
    pub fn swap_fee(&self, zero_for_one: bool) -> u32 {
        match self {
            Self::V2(_) | Self::V3(_) => self.fee(),
            Self::V4(pool) => pool.fee(zero_for_one),
        }
    }

    /// Returns the key of a V4 pool.
    pub fn key(&self) -> Option<&PoolKey> {
        match self {
            Self::V2(_) | Self::V3(_) => None,
            Self::V4(pool) => Some(pool.key()),
        }
    }

    /// Returns true if the pool trades the native token where routes have `token`, the wrapped one.
    pub fn is_native_at(&self, token: Address) -> bool {
        self.key().is_some_and(|key| key.currency0.is_zero()) && self.tokens().0 == token
    }

    /// Returns true if `token_in` is the pool's first token.
    ///
    /// # Errors
    /// [`PoolError::ForeignToken`] if the pool does not contain it.
    pub fn zero_for_one(&self, token_in: Address) -> Result<bool, PoolError> {
        let (token0, token1) = self.tokens();
        if token_in == token0 {
            Ok(true)
        } else if token_in == token1 {
            Ok(false)
        } else {
            Err(PoolError::ForeignToken { token: token_in, pool: self.id() })
        }
    }

    /// Quotes a swap of the whole amount; partial fills are errors.
    ///
    /// # Errors
    /// Returns a [`PoolError`] if the amount cannot be filled.
    pub fn quote(&self, zero_for_one: bool, exact: FixedAmount) -> Result<PoolQuote, PoolError> {
        match self {
            Self::V2(pool) => pool.quote(zero_for_one, exact),
            Self::V3(pool) => pool.quote(zero_for_one, exact),
            Self::V4(pool) => pool.quote(zero_for_one, exact),
        }
    }

    /// Quotes like [`Pool::quote`], and returns the pool's state after the swap.
    ///
    /// # Errors
    /// Returns a [`PoolError`] if the amount cannot be filled.
    pub fn after(&self, zero_for_one: bool, exact: FixedAmount) -> Result<(PoolQuote, Self), PoolError> {
        match self {
            Self::V2(pool) => {
                let quote = pool.quote(zero_for_one, exact)?;
                Ok((quote, pool.after(zero_for_one, &quote)?.into()))
            }
            Self::V3(pool) => {
                let (quote, after) = pool.after(zero_for_one, exact)?;
                Ok((quote, after.into()))
            }
            Self::V4(pool) => {
                let (quote, after) = pool.after(zero_for_one, exact)?;
                Ok((quote, after.into()))
            }
        }
    }

    /// Returns the current price before fee and impact, in raw output units per raw input unit. `None` if the pool has
    /// no price (an empty pair).
    pub fn mid_price(&self, zero_for_one: bool) -> Option<Ratio> {
        match self {
            Self::V2(pool) => pool.mid_price(zero_for_one),
            Self::V3(pool) => pool.mid_price(zero_for_one),
            Self::V4(pool) => pool.mid_price(zero_for_one),
        }
    }

    /// Returns what the known ticks of a V4 pool hold of a token, without fees that were not collected; `None` for a pool
    /// with a contract, whose balance says it, and for another token.
    pub fn held(&self, token: Address) -> Option<U256> {
        match self {
            Self::V2(_) | Self::V3(_) => None,
            // A sale of the other token takes it out.
            Self::V4(pool) => Some(pool.held_out(!self.zero_for_one(token).ok()?)),
        }
    }

    /// Returns an amount that no swap in this direction can exceed as output, in raw units: the reserve of a V2 pool, and what
    /// the known ticks of a V3 or V4 pool give.
    pub fn most_out(&self, zero_for_one: bool) -> U256 {
        match self {
            Self::V2(pool) => U256::from(if zero_for_one { pool.reserve1 } else { pool.reserve0 }),
            Self::V3(pool) => pool.held_out(zero_for_one),
            Self::V4(pool) => pool.held_out(zero_for_one),
        }
    }

    /// Returns the reserve of one side under a constant product at the current price: real for V2, virtual for the
    /// in-range liquidity of V3 and V4. It measures depth, not the amount that can be taken.
    pub fn virtual_reserve(&self, of_token0: bool) -> U256 {
        match self {
            Self::V2(pool) => U256::from(if of_token0 { pool.reserve0 } else { pool.reserve1 }),
            Self::V3(pool) => pool.virtual_reserve(of_token0),
            Self::V4(pool) => pool.virtual_reserve(of_token0),
        }
    }
}

/// Computes the minimum output under a slippage in basis points: `floor(out × (1 − s))`. `None` for a slippage above
/// 10,000.
pub fn minimum_out(amount_out: U256, slippage_bps: u32) -> Option<U256> {
    let kept = 10_000u32.checked_sub(slippage_bps)?;
    super::v3::math::mul_div(amount_out, U256::from(kept), U256::from(10_000)).ok()
}

/// Computes the maximum input under a slippage in basis points: `floor(in × (1 + s))`. `None` if the result exceeds 256
/// bits.
pub fn maximum_in(amount_in: U256, slippage_bps: u32) -> Option<U256> {
    let raised = 10_000u64 + u64::from(slippage_bps);
    super::v3::math::mul_div(amount_in, U256::from(raised), U256::from(10_000)).ok()
}
