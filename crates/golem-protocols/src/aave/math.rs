//! Fixed-point arithmetic of Aave: wads (18 decimals), rays (27 decimals) and basis points, each rounded half up as its
//! contracts round, and interest over time.

use alloy::primitives::{U256, uint};

/// One, with 18 decimals.
pub const WAD: U256 = uint!(1_000_000_000_000_000_000_U256);

/// One, with 27 decimals.
pub const RAY: U256 = uint!(1_000_000_000_000_000_000_000_000_000_U256);

/// Seconds of a year, which Aave counts without leap days.
pub const SECONDS_PER_YEAR: u64 = 365 * 86_400;

/// Basis points in the whole.
const PERCENTAGE_FACTOR: U256 = uint!(10_000_U256);

/// A figure exceeds 256 bits, or a divisor is zero. The contracts revert there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a figure of the lending market is out of range")]
pub struct OutOfRange;

/// Computes `a · b / unit`, rounded half up.
fn scaled(a: U256, b: U256, unit: U256) -> Result<U256, OutOfRange> {
    let half = unit >> 1_usize;
    let sum = a.checked_mul(b).and_then(|product| product.checked_add(half)).ok_or(OutOfRange)?;
    sum.checked_div(unit).ok_or(OutOfRange)
}

/// Product of an amount and a ray: `WadRayMath.rayMul`.
///
/// # Errors
/// [`OutOfRange`]
pub fn ray_mul(a: U256, b: U256) -> Result<U256, OutOfRange> {
    scaled(a, b, RAY)
}

/// Quotient of an amount and a ray: `WadRayMath.rayDiv`.
///
/// # Errors
/// [`OutOfRange`]
pub fn ray_div(a: U256, b: U256) -> Result<U256, OutOfRange> {
    scaled(a, RAY, b)
}

/// Quotient of two amounts as a wad: `WadRayMath.wadDiv`.
///
/// # Errors
/// [`OutOfRange`]
pub fn wad_div(a: U256, b: U256) -> Result<U256, OutOfRange> {
    scaled(a, WAD, b)
}

/// Part of an amount in basis points: `PercentageMath.percentMul`.
///
/// # Errors
/// [`OutOfRange`]
pub fn percent_mul(value: U256, basis_points: U256) -> Result<U256, OutOfRange> {
    scaled(value, basis_points, PERCENTAGE_FACTOR)
}

/// Growth of a supply within `seconds` at a yearly `rate`, both rays: `MathUtils.calculateLinearInterest`.
///
/// # Errors
/// [`OutOfRange`]
pub fn linear_interest(rate: U256, seconds: u64) -> Result<U256, OutOfRange> {
    let earned = rate.checked_mul(U256::from(seconds)).ok_or(OutOfRange)? / U256::from(SECONDS_PER_YEAR);
    RAY.checked_add(earned).ok_or(OutOfRange)
}

/// Growth of a debt within `seconds` at a yearly `rate`, both rays: the first three terms of the binomial series,
/// `MathUtils.calculateCompoundedInterest`.
///
/// # Errors
/// [`OutOfRange`]
pub fn compounded_interest(rate: U256, seconds: u64) -> Result<U256, OutOfRange> {
    let year = U256::from(SECONDS_PER_YEAR);
    let times = |number: u64| U256::from(seconds.saturating_sub(number));
    let squared = ray_mul(rate, rate)? / (year * year);
    let cubed = ray_mul(squared, rate)? / year;
    let pairs = times(0).checked_mul(times(1)).ok_or(OutOfRange)?;
    let second = pairs.checked_mul(squared).ok_or(OutOfRange)? / uint!(2_U256);
    let third = pairs.checked_mul(times(2)).and_then(|all| all.checked_mul(cubed)).ok_or(OutOfRange)? / uint!(6_U256);
    let first = rate.checked_mul(times(0)).ok_or(OutOfRange)? / year;
    [first, second, third].into_iter().try_fold(RAY, U256::checked_add).ok_or(OutOfRange)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: 5 % a year for one year is 1.05 linearly. Compounded, r + r²/2 is 0.05125. The third term would be
    /// r³/6 = 0.0000208, but the contract divides down first: r³ per second cubed is 3.98 of its units, of which 3 stay, and
    /// 31,536,000³ / 6 · 3 is 0.00001568 of a ray.
    #[test]
    fn interest_of_a_year() {
        let five = RAY / U256::from(20);
        assert_eq!(linear_interest(five, SECONDS_PER_YEAR).unwrap(), RAY + five);
        let compounded = compounded_interest(five, SECONDS_PER_YEAR).unwrap();
        let near = uint!(1_051_265_680_000_000_000_000_000_000_U256);
        assert!(compounded.abs_diff(near) < uint!(10_000_000_000_000_000_000_U256), "{compounded}");
        assert_eq!(compounded_interest(five, 0).unwrap(), RAY);
        assert_eq!(compounded_interest(five, 1).unwrap(), RAY + five / U256::from(SECONDS_PER_YEAR));
    }

    #[test]
    fn products_round_half_up_and_overflows_are_errors() {
        assert_eq!(ray_mul(U256::from(3), RAY / U256::from(2)).unwrap(), U256::from(2));
        assert_eq!(ray_div(U256::from(1), RAY * U256::from(3)).unwrap(), U256::ZERO);
        assert_eq!(percent_mul(U256::from(12_345), U256::from(8_250)).unwrap(), U256::from(10_185));
        assert_eq!(wad_div(U256::from(1), U256::ZERO), Err(OutOfRange));
        assert_eq!(ray_mul(U256::MAX, U256::from(2)), Err(OutOfRange));
        assert_eq!(compounded_interest(U256::MAX, 2), Err(OutOfRange));
    }
}
