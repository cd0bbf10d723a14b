//! Cheap upper bound of a path's output: the product of its pools' prices after fees.
//!
//! A pool never gives more than its price times the input after the fee: the trade moves the price against itself, and
//! all rounding favours the pool. The search sorts paths by this bound and stops when no remaining bound can win.

use alloy::primitives::U256;
use num_bigint::BigUint;

use crate::uniswap::pool::{FixedAmount, Pool};
use crate::uniswap::ratio::Ratio;
use crate::uniswap::v3::FEE_WHOLE;

/// Rounded factor `mantissa × 2^exponent` with its highest bit set. Its products are rounded in the same direction: up
/// for bounds on the output, down for bounds on the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rate {
    /// Declared first, so that the derived order compares by value.
    exponent: i32,
    mantissa: u64,
}

impl Rate {
    pub(super) const ONE: Self = Self { mantissa: 1 << 63, exponent: -63 };

    /// Computes `numerator / denominator`; both must be positive.
    fn of(numerator: &BigUint, denominator: &BigUint, up: bool) -> Option<Self> {
        let bits = |value: &BigUint| i64::try_from(value.bits()).ok();
        // Shifted so that the quotient has 65 or 66 bits, of which the top 64 are kept.
        let shift = 65 - (bits(numerator)? - bits(denominator)?);
        let size = shift.unsigned_abs();
        let (numerator, denominator) = if shift >= 0 {
            (numerator << size, denominator.clone())
        } else {
            (numerator.clone(), denominator << size)
        };
        if denominator == BigUint::ZERO {
            return None;
        }
        let quotient = u128::try_from(numerator / denominator).ok()?;
        // The quotient was rounded down; adding one covers the loss.
        Self::normal(if up { quotient + 1 } else { quotient }, i32::try_from(-shift).ok()?, up)
    }

    /// Normalizes `value × 2^exponent` to its top 64 bits.
    fn normal(value: u128, exponent: i32, up: bool) -> Option<Self> {
        if value == 0 {
            return None;
        }
        let excess = i32::try_from(128 - value.leading_zeros()).ok()? - 64;
        if excess <= 0 {
            let mantissa = u64::try_from(value << excess.unsigned_abs()).ok()?;
            return Some(Self { mantissa, exponent: exponent.checked_add(excess)? });
        }
        let kept = value >> excess;
        let lost = kept << excess != value;
        match u64::try_from(kept + u128::from(up && lost)) {
            Ok(mantissa) => Some(Self { mantissa, exponent: exponent.checked_add(excess)? }),
            // Rounding up carried into a 65th bit, so all other bits are zero.
            Err(_) => Some(Self { mantissa: 1 << 63, exponent: exponent.checked_add(excess)?.checked_add(1)? }),
        }
    }

    /// Returns the product, rounded in the same direction as its factors.
    pub(super) fn times(self, other: Self, up: bool) -> Option<Self> {
        let product = u128::from(self.mantissa) * u128::from(other.mantissa);
        Self::normal(product, self.exponent.checked_add(other.exponent)?, up)
    }

    /// Returns this rate, moved in the direction of rounding by more than the order of a few multiplications can change.
    pub(super) fn loosened(self, up: bool) -> Option<Self> {
        const ROUNDINGS: u128 = 16;
        let mantissa = u128::from(self.mantissa);
        Self::normal(if up { mantissa + ROUNDINGS } else { mantissa - ROUNDINGS }, self.exponent, up)
    }

    /// Multiplies `amount` by this rate, rounded; an overflow returns the maximum.
    pub(super) fn apply(self, amount: U256, up: bool) -> U256 {
        let Some(product) = amount.checked_mul(U256::from(self.mantissa)) else { return U256::MAX };
        let shift = usize::try_from(self.exponent.unsigned_abs()).unwrap_or(usize::MAX);
        if self.exponent >= 0 {
            return product.checked_shl(shift).unwrap_or(U256::MAX);
        }
        let floor: U256 = if shift < 256 { product >> shift } else { U256::ZERO };
        if up { floor.saturating_add(U256::from(1)) } else { floor }
    }
}

/// Bounds of a pool in one direction: `[maximum output per input, minimum input per output]`. `None` for a pool without
/// a price.
pub(super) type PoolRates = Option<[Rate; 2]>;

/// Computes the bounds of a pool in one direction.
pub(super) fn pool_rates(pool: &Pool, zero_for_one: bool) -> PoolRates {
    let kept = Ratio::of(U256::from(FEE_WHOLE.checked_sub(pool.swap_fee(zero_for_one))?), U256::from(FEE_WHOLE))?;
    let price = pool.mid_price(zero_for_one)?.times(&kept);
    let (numerator, denominator) = (price.numerator().magnitude(), price.denominator());
    Some([Rate::of(numerator, denominator, true)?, Rate::of(denominator, numerator, false)?])
}

/// Selects the bound for an exact input or an exact output.
pub(super) fn side(rates: PoolRates, exact: FixedAmount) -> Option<Rate> {
    let [most_out, least_in] = rates?;
    Some(if matches!(exact, FixedAmount::In(_)) { most_out } else { least_in })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uniswap::ratio::big;
    use proptest::prelude::*;

    fn exact_value(rate: Rate) -> Ratio {
        let mantissa = Ratio::whole(U256::from(rate.mantissa));
        let power = big(U256::from(1)) << rate.exponent.unsigned_abs();
        let one = big(U256::from(1));
        let scale = if rate.exponent >= 0 { Ratio::new(power.into(), one) } else { Ratio::new(one.into(), power) };
        mantissa.times(&scale.unwrap())
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn rates_round_in_the_given_direction(
            a in 1u128.., b in 1u128.., c in 1u64.., d in 1u64.., amount in any::<u128>(), up in any::<bool>(),
        ) {
            let int = |value: u128| big(U256::from(value));
            let first = Rate::of(&int(a), &int(b), up).unwrap();
            let second = Rate::of(&int(u128::from(c)), &int(u128::from(d)), up).unwrap();
            let product = first.times(second, up).unwrap();
            let truth = Ratio::of(U256::from(a), U256::from(b)).unwrap()
                .times(&Ratio::of(U256::from(c), U256::from(d)).unwrap());
            let applied = Ratio::whole(product.apply(U256::from(amount), up));
            let wanted = truth.times(&Ratio::whole(U256::from(amount)));
            if up {
                prop_assert!(exact_value(product) >= truth && applied >= wanted);
            } else {
                prop_assert!(exact_value(product) <= truth && applied <= wanted);
            }
            // The result is also close: within 2^-60.
            let off = exact_value(product).minus(&truth).over(&truth).unwrap();
            let tiny = Ratio::of(U256::from(1), U256::from(1u64 << 60)).unwrap();
            prop_assert!(off < tiny && off > Ratio::whole(U256::ZERO).minus(&tiny));
        }
    }
}
