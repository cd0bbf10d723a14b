//! Shares of a cost.

use alloy_primitives::{U256, U512};

use bardo_base::units::{Rounding, Usd, UsdError};

/// Decimals of every dollar figure in the books.
const SCALE: u8 = 12;

/// Part of `cost` that falls to `part` of `whole` units, rounded down to 12 decimals.
///
/// # Errors
/// [`UsdError::OutOfRange`] if `whole` is zero or less than `part`, or if `cost` has more than 12 decimals.
pub(crate) fn share(cost: Usd, part: U256, whole: U256) -> Result<Usd, UsdError> {
    if part == whole {
        return Ok(cost);
    }
    if whole.is_zero() || part > whole {
        return Err(UsdError::OutOfRange);
    }
    let scaled = cost.scaled(SCALE, Rounding::Down).ok_or(UsdError::OutOfRange)?;
    // Below 2^128 · 2^256, and the quotient below 2^128, since the part is less than the whole.
    let shared = U512::from(scaled) * U512::from(part) / U512::from(whole);
    let shared = u128::try_from(shared).map_err(|_| UsdError::OutOfRange)?;
    Usd::from_scaled(U256::from(shared), SCALE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usd(text: &str) -> Usd {
        text.parse().unwrap()
    }

    #[test]
    fn a_share_is_rounded_down_and_the_whole_stays_whole() {
        let of = |part: u64, whole: u64| share(usd("10"), U256::from(part), U256::from(whole)).unwrap().to_string();
        assert_eq!(of(1, 3), "3.333333333333");
        assert_eq!(of(2, 3), "6.666666666666");
        assert_eq!(of(3, 3), "10");
        assert_eq!(of(0, 3), "0");
        assert_eq!(share(usd("10"), U256::from(4), U256::from(3)), Err(UsdError::OutOfRange));
        assert_eq!(share(usd("10"), U256::from(1), U256::ZERO), Err(UsdError::OutOfRange));
        // A whole supply of a token with a great many units neither overflows nor loses the cost.
        assert_eq!(share(usd("10"), U256::MAX / U256::from(2), U256::MAX).unwrap().to_string(), "4.999999999999");
    }
}
