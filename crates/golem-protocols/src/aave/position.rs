//! An account's supplies and debts in the pool at one block: sums, health factor, and the falls of prices that liquidate
//! it.

use alloy::primitives::{U256, U512};

use super::math::{OutOfRange, percent_mul, wad_div};
use super::reserve::ReserveState;

/// Supply and debt of an account in one reserve. Amounts are in raw units of the asset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReservePosition {
    /// Reserve of the position, with its state.
    pub reserve: ReserveState,
    /// Supply with interest.
    pub supplied: U256,
    /// Debt with interest, at the variable rate.
    pub debt: U256,
    /// True if the supply is collateral.
    pub is_collateral: bool,
}

impl ReservePosition {
    /// True if the account neither supplied nor owes anything here.
    pub fn is_empty(&self) -> bool {
        self.supplied.is_zero() && self.debt.is_zero()
    }

    /// Value of an amount of this reserve in the base currency, rounded down.
    fn value(&self, amount: U256) -> Result<U256, OutOfRange> {
        let unit = U256::from(10).checked_pow(U256::from(self.reserve.config.decimals)).ok_or(OutOfRange)?;
        amount.checked_mul(self.reserve.price).ok_or(OutOfRange)?.checked_div(unit).ok_or(OutOfRange)
    }

    /// True if a fall of the asset's price can liquidate the account.
    fn counts(&self) -> bool {
        self.is_collateral && self.reserve.config.threshold != 0 && !self.supplied.is_zero()
    }
}

/// Sums of an account over all reserves, as `getUserAccountData` has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccountSums {
    /// Value of all collateral in the base currency.
    pub collateral: U256,
    /// Value of all debt in the base currency.
    pub debt: U256,
    /// Value that may still be borrowed, in the base currency.
    pub available: U256,
    /// Mean liquidation threshold of the collateral, in basis points.
    pub threshold: U256,
    /// Mean loan-to-value of the collateral, in basis points.
    pub ltv: U256,
    /// Health factor with 18 decimals; below one, the debt can be liquidated. The largest number without debt.
    pub health: U256,
}

impl AccountSums {
    /// Health factor in hundredths, rounded down; `None` without debt.
    pub fn health_hundredths(&self) -> Option<u64> {
        let hundredths = self.health / U256::from(10_000_000_000_000_000_u64);
        (self.health != U256::MAX).then(|| hundredths.saturating_to())
    }

    /// Computes the sums of these positions outside of any category (e-mode): `GenericLogic.calculateUserAccountData`.
    ///
    /// # Errors
    /// [`OutOfRange`]
    pub fn of(positions: &[ReservePosition]) -> Result<Self, OutOfRange> {
        let (mut collateral, mut debt, mut threshold, mut ltv) = (U256::ZERO, U256::ZERO, U256::ZERO, U256::ZERO);
        let add = |sum: &mut U256, part: Option<U256>| {
            *sum = part.and_then(|part| sum.checked_add(part)).ok_or(OutOfRange)?;
            Ok::<(), OutOfRange>(())
        };
        for one in positions {
            if one.is_collateral && one.reserve.config.threshold != 0 {
                let value = one.value(one.supplied)?;
                add(&mut collateral, Some(value))?;
                add(&mut ltv, value.checked_mul(U256::from(one.reserve.config.ltv)))?;
                add(&mut threshold, value.checked_mul(U256::from(one.reserve.config.threshold)))?;
            }
            if !one.debt.is_zero() {
                add(&mut debt, Some(one.value(one.debt)?))?;
            }
        }
        let mean = |sum: U256| sum.checked_div(collateral).unwrap_or_default();
        let (ltv, threshold) = (mean(ltv), mean(threshold));
        let health = match debt.is_zero() {
            true => U256::MAX,
            false => wad_div(percent_mul(collateral, threshold)?, debt)?,
        };
        let available = percent_mul(collateral, ltv)?.saturating_sub(debt);
        Ok(Self { collateral, debt, available, threshold, ltv, health })
    }
}

/// Fall of one collateral's price, all other prices the same, at which the debt can be liquidated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PriceFall {
    /// Price in the base currency from which downwards the debt can be liquidated, rounded up.
    pub price: U256,
    /// Fall of the price in basis points, rounded down; zero if the debt can be liquidated already.
    pub basis_points: u32,
}

/// Returns for each collateral the fall of its price that alone makes the debt liquidable: from
/// Σ collateralᵢ·thresholdᵢ = debt, solved for one price. `None` for a reserve without collateral, or whose fall to
/// zero would not do it, or that is also borrowed, so that its price moves both sides. The pool rounds the mean threshold
/// down to a basis point, so with several collaterals it liquidates up to 0.02 % earlier.
///
/// # Errors
/// [`OutOfRange`]
pub fn price_falls(positions: &[ReservePosition]) -> Result<Vec<Option<PriceFall>>, OutOfRange> {
    // Weighted values times 10,000.
    let weighted = |one: &ReservePosition| {
        if !one.counts() {
            return Ok(U256::ZERO);
        }
        one.value(one.supplied)?.checked_mul(U256::from(one.reserve.config.threshold)).ok_or(OutOfRange)
    };
    let mut all = U256::ZERO;
    let mut debt = U256::ZERO;
    for one in positions {
        all = all.checked_add(weighted(one)?).ok_or(OutOfRange)?;
        debt = debt.checked_add(one.value(one.debt)?).ok_or(OutOfRange)?;
    }
    let debt = debt.checked_mul(U256::from(10_000)).ok_or(OutOfRange)?;
    positions
        .iter()
        .map(|one| {
            let own = weighted(one)?;
            let needed = debt.saturating_sub(all.saturating_sub(own));
            if debt.is_zero() || own.is_zero() || needed.is_zero() || !one.debt.is_zero() {
                return Ok(None);
            }
            let price = one.reserve.price;
            if needed >= own {
                return Ok(Some(PriceFall { price, basis_points: 0 }));
            }
            // price · needed / own, rounded up.
            let (quotient, rest) = (U512::from(price) * U512::from(needed)).div_rem(U512::from(own));
            let least = U256::from(quotient).saturating_add(U256::from(u8::from(!rest.is_zero())));
            let fall = price.saturating_sub(least).checked_mul(U256::from(10_000)).ok_or(OutOfRange)?;
            let basis_points = fall.checked_div(price).unwrap_or_default().saturating_to();
            Ok(Some(PriceFall { price: least, basis_points }))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::reserve::ReserveConfig;
    use super::*;
    use alloy::primitives::Address;

    fn position(decimals: u8, [ltv, threshold]: [u32; 2], price: u64, [supplied, debt]: [u128; 2]) -> ReservePosition {
        let config = ReserveConfig { ltv, threshold, decimals, ..ReserveConfig::decode(U256::ZERO) };
        let reserve = ReserveState {
            asset: Address::ZERO,
            id: 0,
            config,
            a_token: Address::ZERO,
            debt_token: Address::ZERO,
            liquidity_index: super::super::math::RAY,
            debt_index: super::super::math::RAY,
            supply_rate: U256::ZERO,
            debt_rate: U256::ZERO,
            updated: 0,
            price: U256::from(price),
        };
        let [supplied, debt] = [supplied, debt].map(U256::from);
        ReservePosition { reserve, supplied, debt, is_collateral: true }
    }

    /// By hand: 1 ETH at $3,400 with a threshold of 83 % carries $2,822 of debt. A debt of $2,000 has the health factor
    /// 1.411, and is liquidable from an ETH price of 2,000 / 0.83 = $2,409.6385…, a fall of 29.12 %.
    #[test]
    fn health_and_the_fall_that_ends_it() {
        let ether = position(18, [8_050, 8_300], 340_000_000_000, [1_000_000_000_000_000_000, 0]);
        let dollars = position(6, [7_500, 7_800], 1_00000000, [0, 2_000_000_000]);
        let sums = AccountSums::of(&[ether, dollars]).unwrap();
        assert_eq!(sums.health, U256::from(1_411_000_000_000_000_000_u64));
        assert_eq!(sums.health_hundredths(), Some(141));
        assert_eq!((sums.collateral, sums.debt), (U256::from(340_000_000_000_u64), U256::from(200_000_000_000_u64)));
        assert_eq!(sums.available, U256::from(73_700_000_000_u64), "80.5 % of $3,400 less $2,000");
        let falls = price_falls(&[ether, dollars]).unwrap();
        let fall = PriceFall { price: U256::from(240_963_855_422_u64), basis_points: 2_912 };
        assert_eq!(falls, [Some(fall), None]);
        let nothing = AccountSums::of(&[ether]).unwrap();
        assert_eq!((nothing.health, nothing.health_hundredths()), (U256::MAX, None));
        assert_eq!(price_falls(&[ether]).unwrap(), [None]);
    }

    #[test]
    fn a_collateral_beside_another_may_fall_further_and_one_that_is_not_needed_to_nothing() {
        let ether = position(18, [8_050, 8_300], 340_000_000_000, [1_000_000_000_000_000_000, 0]);
        // $1,000 at 78 % carry $780: ETH must carry the other $1,220 of $2,000, so 1,220 / 0.83 = $1,469.88.
        let saved = position(6, [7_500, 7_800], 1_00000000, [1_000_000_000, 0]);
        let owed = position(18, [0, 0], 1_00000000, [0, 2_000_000_000_000_000_000_000]);
        let falls = price_falls(&[ether, saved, owed]).unwrap();
        assert_eq!(falls[0].unwrap().price, U256::from(146_987_951_808_u64));
        assert_eq!((falls[1], falls[2]), (None, None), "without the dollars, ETH alone carries the debt");
        let lost = position(18, [0, 0], 1_00000000, [0, 4_000_000_000_000_000_000_000]);
        assert_eq!(price_falls(&[ether, saved, lost]).unwrap()[0].unwrap().basis_points, 0);
    }
}
