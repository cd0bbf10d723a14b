//! V2 pairs: constant product with a fee of 0.3 %, rounded like the pair and its library
//! (`UniswapV2Library.getAmountOut` / `getAmountIn`).

use alloy::primitives::{Address, U256};

use super::pool::{FixedAmount, PoolError, PoolQuote};
use super::ratio::Ratio;

/// Fee of every V2 pair, in hundredths of a basis point.
pub const FEE_PIPS: u32 = 3000;

/// Maximum reserve of a pair, a `uint112`.
const MAX_RESERVE: U256 = U256::from_limbs([u64::MAX, (1 << 48) - 1, 0, 0]);

/// State of a pair at one block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct V2Pool {
    /// Address of the pair contract.
    pub address: Address,
    /// Token with the lower address.
    pub token0: Address,
    /// Token with the higher address.
    pub token1: Address,
    /// Reserve of `token0` in raw units (a `uint112` on chain).
    pub reserve0: u128,
    /// Reserve of `token1` in raw units (a `uint112` on chain).
    pub reserve1: u128,
}

impl V2Pool {
    /// Quotes a swap of the whole amount.
    ///
    /// # Errors
    /// Returns a [`PoolError`] for an amount of zero, an input that would overflow the pair's reserves, or an output at
    /// or above its reserve. The pair reverts in these cases.
    pub fn quote(&self, zero_for_one: bool, exact: FixedAmount) -> Result<PoolQuote, PoolError> {
        let exhausted = PoolError::InsufficientLiquidity { pool: self.address.into() };
        let (reserve_in, reserve_out) =
            if zero_for_one { (self.reserve0, self.reserve1) } else { (self.reserve1, self.reserve0) };
        let (reserve_in, reserve_out) = (U256::from(reserve_in), U256::from(reserve_out));
        if exact.amount().is_zero() {
            return Err(PoolError::ZeroAmount);
        }
        if reserve_in.is_zero() || reserve_out.is_zero() || exact.amount() > MAX_RESERVE {
            return Err(exhausted);
        }
        // No overflow of 256 bits is possible: amount and reserves are below 2^112, the constants below 2^10.
        let (amount_in, amount_out) = match exact {
            FixedAmount::In(amount_in) => {
                let with_fee = amount_in * U256::from(997);
                (amount_in, with_fee * reserve_out / (reserve_in * U256::from(1000) + with_fee))
            }
            FixedAmount::Out(amount_out) => {
                if amount_out >= reserve_out {
                    return Err(exhausted);
                }
                let numerator = reserve_in * amount_out * U256::from(1000);
                let denominator = (reserve_out - amount_out) * U256::from(997);
                (numerator / denominator + U256::from(1), amount_out)
            }
        };
        if reserve_in + amount_in > MAX_RESERVE {
            return Err(exhausted);
        }
        Ok(PoolQuote { amount_in, amount_out, ticks_crossed: 0 })
    }

    /// Returns the pair's state after a swap that it quoted.
    pub(super) fn after(&self, zero_for_one: bool, quote: &PoolQuote) -> Result<Self, PoolError> {
        let exhausted = || PoolError::InsufficientLiquidity { pool: self.address.into() };
        let raw = |amount: U256| u128::try_from(amount).map_err(|_| exhausted());
        let (paid, given) = (raw(quote.amount_in)?, raw(quote.amount_out)?);
        let grown = |reserve: u128| reserve.checked_add(paid).ok_or_else(exhausted);
        let shrunk = |reserve: u128| reserve.checked_sub(given).ok_or_else(exhausted);
        let (reserve0, reserve1) = if zero_for_one {
            (grown(self.reserve0)?, shrunk(self.reserve1)?)
        } else {
            (shrunk(self.reserve0)?, grown(self.reserve1)?)
        };
        Ok(Self { reserve0, reserve1, ..self.clone() })
    }

    /// Returns the output reserve divided by the input reserve; `None` for an empty pair.
    pub fn mid_price(&self, zero_for_one: bool) -> Option<Ratio> {
        let (reserve_in, reserve_out) =
            if zero_for_one { (self.reserve0, self.reserve1) } else { (self.reserve1, self.reserve0) };
        if reserve_out == 0 {
            return None;
        }
        Ratio::of(U256::from(reserve_out), U256::from(reserve_in))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(reserve0: u128, reserve1: u128) -> V2Pool {
        V2Pool {
            address: Address::repeat_byte(9),
            token0: Address::repeat_byte(1),
            token1: Address::repeat_byte(2),
            reserve0,
            reserve1,
        }
    }

    #[test]
    fn an_output_never_empties_the_pair() {
        let pair = pair(1_000_000, 2_000_000);
        let exhausted = PoolError::InsufficientLiquidity { pool: pair.address.into() };
        assert_eq!(pair.quote(true, FixedAmount::Out(U256::from(2_000_000))), Err(exhausted.clone()));
        assert_eq!(pair.quote(true, FixedAmount::Out(U256::MAX)), Err(exhausted.clone()));
        assert_eq!(pair.quote(true, FixedAmount::In(U256::MAX)), Err(exhausted.clone()));
        assert_eq!(pair.quote(true, FixedAmount::In(U256::ZERO)), Err(PoolError::ZeroAmount));
        // 1,000,000 × 1,999,999 × 1000 / (1 × 997) + 1.
        let last = pair.quote(true, FixedAmount::Out(U256::from(1_999_999))).unwrap();
        assert_eq!(last.amount_in, U256::from(2_006_017_051_154u64));
        // reserve_in + amount must still fit 112 bits.
        let full = super::tests::pair((1 << 112) - 1, 5);
        assert_eq!(full.quote(true, FixedAmount::In(U256::from(1))), Err(exhausted));
    }

    #[test]
    fn an_empty_pair_has_no_price() {
        assert!(pair(0, 5).mid_price(true).is_none());
        assert!(pair(0, 5).mid_price(false).is_none());
        assert!(pair(0, 5).quote(true, FixedAmount::In(U256::from(1))).is_err());
    }
}
