//! A pool of any version behind one face: tokens, fee, mid price and quotes.

use std::sync::Arc;

use alloy::primitives::{Address, U256};

use super::ratio::Ratio;
use super::v2::V2Pool;
use super::v3::V3Pool;

/// Which side of a trade is fixed, in raw units of that side's token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Exact {
    /// Exactly this much is paid.
    In(U256),
    /// Exactly this much is received.
    Out(U256),
}

impl Exact {
    /// The fixed amount.
    pub fn amount(self) -> U256 {
        match self {
            Self::In(amount) | Self::Out(amount) => amount,
        }
    }
}

/// The protocol version a pool belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// Constant product pairs.
    V2,
    /// Concentrated liquidity.
    V3,
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::V2 => "V2",
            Self::V3 => "V3",
        })
    }
}

/// Why a pool cannot be quoted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// The pool would run out before the amount is filled.
    #[error("pool {pool} has too little liquidity for this amount; reduce it")]
    InsufficientLiquidity {
        /// The pool that runs out.
        pool: Address,
    },
    /// The amount is zero.
    #[error("an amount of zero cannot be swapped; use an amount above zero")]
    ZeroAmount,
    /// The amount does not fit the signed 256-bit integer pools count with.
    #[error("the amount is above 2^255 - 1 raw units, the maximum of a pool")]
    AmountTooLarge,
    /// The token is not one of the pool's two.
    #[error("token {token} is not in pool {pool}")]
    ForeignToken {
        /// The token asked for.
        token: Address,
        /// The pool asked.
        pool: Address,
    },
    /// The pool's numbers contradict each other.
    #[error("pool {pool} reports an impossible state: {what}")]
    InvalidState {
        /// The pool.
        pool: Address,
        /// What does not fit.
        what: &'static str,
    },
}

/// What a swap through one pool gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolQuote {
    /// What the pool takes, fee included.
    pub amount_in: U256,
    /// What the pool gives.
    pub amount_out: U256,
    /// Initialised ticks crossed on the way; 0 for V2.
    pub ticks_crossed: u32,
}

/// A pool's state at one block; cheap to clone.
#[derive(Debug, Clone)]
pub enum Pool {
    /// A constant product pair.
    V2(Arc<V2Pool>),
    /// A concentrated liquidity pool.
    V3(Arc<V3Pool>),
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

impl Pool {
    /// The pool contract.
    pub fn address(&self) -> Address {
        match self {
            Self::V2(pool) => pool.address,
            Self::V3(pool) => pool.state().address,
        }
    }

    /// The two tokens, lower address first.
    pub fn tokens(&self) -> (Address, Address) {
        match self {
            Self::V2(pool) => (pool.token0, pool.token1),
            Self::V3(pool) => (pool.state().token0, pool.state().token1),
        }
    }

    /// The protocol version.
    pub fn version(&self) -> Version {
        match self {
            Self::V2(_) => Version::V2,
            Self::V3(_) => Version::V3,
        }
    }

    /// The fee in hundredths of a basis point (3000 is 0.3 %).
    pub fn fee(&self) -> u32 {
        match self {
            Self::V2(_) => super::v2::FEE_PIPS,
            Self::V3(pool) => pool.state().fee,
        }
    }

    /// Whether `token_in` is the pool's first token.
    pub fn zero_for_one(&self, token_in: Address) -> Result<bool, PoolError> {
        let (token0, token1) = self.tokens();
        if token_in == token0 {
            Ok(true)
        } else if token_in == token1 {
            Ok(false)
        } else {
            Err(PoolError::ForeignToken { token: token_in, pool: self.address() })
        }
    }

    /// The whole amount swapped through the pool, or an error: never a partial fill.
    pub fn quote(&self, zero_for_one: bool, exact: Exact) -> Result<PoolQuote, PoolError> {
        match self {
            Self::V2(pool) => pool.quote(zero_for_one, exact),
            Self::V3(pool) => pool.quote(zero_for_one, exact),
        }
    }

    /// As [`Pool::quote`], with the pool as the swap leaves it.
    pub fn after(&self, zero_for_one: bool, exact: Exact) -> Result<(PoolQuote, Self), PoolError> {
        match self {
            Self::V2(pool) => {
                let quote = pool.quote(zero_for_one, exact)?;
                Ok((quote, pool.after(zero_for_one, &quote)?.into()))
            }
            Self::V3(pool) => {
                let (quote, after) = pool.after(zero_for_one, exact)?;
                Ok((quote, after.into()))
            }
        }
    }

    /// Raw units out per raw unit in at the current price, before fee and impact. Nothing when the
    /// pool has no price (an empty pair).
    pub fn mid_price(&self, zero_for_one: bool) -> Option<Ratio> {
        match self {
            Self::V2(pool) => pool.mid_price(zero_for_one),
            Self::V3(pool) => pool.mid_price(zero_for_one),
        }
    }

    /// The reserve of one side as a constant product would have it at the current price: real for
    /// V2, virtual (of the liquidity in range) for V3. A measure of depth, not of what can be taken.
    pub fn virtual_reserve(&self, of_token0: bool) -> U256 {
        match self {
            Self::V2(pool) => U256::from(if of_token0 { pool.reserve0 } else { pool.reserve1 }),
            Self::V3(pool) => pool.virtual_reserve(of_token0),
        }
    }
}

/// The least to receive for `amount_out` under a slippage in basis points: `floor(out × (1 − s))`.
/// Nothing when the slippage is above the whole (10,000).
pub fn minimum_out(amount_out: U256, slippage_bps: u32) -> Option<U256> {
    let kept = 10_000u32.checked_sub(slippage_bps)?;
    super::v3::math::mul_div(amount_out, U256::from(kept), U256::from(10_000)).ok()
}

/// The most to pay for `amount_in` under a slippage in basis points: `floor(in × (1 + s))`.
/// Nothing when that does not fit 256 bits.
pub fn maximum_in(amount_in: U256, slippage_bps: u32) -> Option<U256> {
    let raised = 10_000u64 + u64::from(slippage_bps);
    super::v3::math::mul_div(amount_in, U256::from(raised), U256::from(10_000)).ok()
}
