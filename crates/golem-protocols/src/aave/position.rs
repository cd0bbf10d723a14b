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
    ///
    /// # Errors
    /// [`OutOfRange`]
    pub fn value(&self, amount: U256) -> Result<U256, OutOfRange> {
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

/// Change of one token's price, all other prices the same, at which the debt can be liquidated: a fall of what secures it, or
/// a rise of what is owed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PriceMove {
    /// Price in the base currency at which the debt can be liquidated: from there downwards, rounded up, or from there
    /// upwards, rounded down.
    pub price: U256,
    /// Change of the price in basis points, rounded down; zero if the debt can be liquidated already.
    pub basis_points: u32,
    /// True if the price must rise.
    pub rises: bool,
}

/// Returns for each reserve the change of its price that alone makes the debt liquidable: from
/// Σ collateralᵢ·thresholdᵢ = Σ debtᵢ, solved for one price. A token that is supplied and borrowed moves both sides, so that
/// the larger one decides whether it must fall or rise. `None` for a reserve whose price alone does not do it. The pool
/// rounds the mean threshold down to a basis point, so with several collaterals it liquidates up to 0.02 % earlier.
///
/// # Errors
/// [`OutOfRange`]
pub fn price_moves(positions: &[ReservePosition]) -> Result<Vec<Option<PriceMove>>, OutOfRange> {
    // Weighted values and debts, both times 10,000.
    let sides = |one: &ReservePosition| {
        let debt = one.value(one.debt)?.checked_mul(PERCENTS).ok_or(OutOfRange)?;
        if !one.counts() {
            return Ok((U256::ZERO, debt));
        }
        let weight = U256::from(one.reserve.config.threshold);
        Ok((one.value(one.supplied)?.checked_mul(weight).ok_or(OutOfRange)?, debt))
    };
    let sides: Vec<(U256, U256)> = positions.iter().map(sides).collect::<Result<_, OutOfRange>>()?;
    let sum =
        |of: fn(&(U256, U256)) -> U256| sides.iter().map(of).try_fold(U256::ZERO, U256::checked_add).ok_or(OutOfRange);
    let (secured, owed) = (sum(|side| side.0)?, sum(|side| side.1)?);
    positions.iter().zip(&sides).map(|(one, side)| price_move(one.reserve.price, *side, (secured, owed))).collect()
}

/// Basis points in the whole.
const PERCENTS: U256 = alloy::primitives::uint!(10_000_U256);

/// Change of a price that alone makes a debt liquidable. `own` are the weighted value and the debt that it moves, `all` those
/// of the account.
fn price_move(price: U256, own: (U256, U256), all: (U256, U256)) -> Result<Option<PriceMove>, OutOfRange> {
    if all.1.is_zero() || own.0 == own.1 || price.is_zero() {
        return Ok(None);
    }
    let rises = own.1 > own.0;
    if all.0 <= all.1 {
        return Ok(Some(PriceMove { price, basis_points: 0, rises }));
    }
    let (secured, owed) = (all.0.saturating_sub(own.0), all.1.saturating_sub(own.1));
    // What the rest lacks, or has to spare, per unit of what the price moves.
    let (rest, moved) = match rises {
        true => (secured.checked_sub(owed), own.1.saturating_sub(own.0)),
        false => (owed.checked_sub(secured).filter(|lacking| !lacking.is_zero()), own.0.saturating_sub(own.1)),
    };
    // Without it, the rest secures the debt whatever this price is.
    let Some(rest) = rest else { return Ok(None) };
    let (quotient, remainder) = (U512::from(price) * U512::from(rest)).div_rem(U512::from(moved));
    if quotient > U512::from(U256::MAX) {
        return Ok(None);
    }
    let up = U256::from(u8::from(!rises && !remainder.is_zero()));
    let limit = U256::from(quotient).saturating_add(up);
    let change = limit.abs_diff(price).checked_mul(PERCENTS).ok_or(OutOfRange)?;
    let basis_points = change.checked_div(price).unwrap_or_default().saturating_to();
    Ok(Some(PriceMove { price: limit, basis_points, rises }))
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
        // The dollar would have to rise to 2,822 / 2,000 = $1.411.
        let fall = PriceMove { price: U256::from(240_963_855_422_u64), basis_points: 2_912, rises: false };
        let rise = PriceMove { price: U256::from(141_100_000_u64), basis_points: 4_110, rises: true };
        assert_eq!(price_moves(&[ether, dollars]).unwrap(), [Some(fall), Some(rise)]);
        let nothing = AccountSums::of(&[ether]).unwrap();
        assert_eq!((nothing.health, nothing.health_hundredths()), (U256::MAX, None));
        assert_eq!(price_moves(&[ether]).unwrap(), [None]);
    }

    #[test]
    fn a_collateral_beside_another_may_fall_further_and_one_that_is_not_needed_to_nothing() {
        let ether = position(18, [8_050, 8_300], 340_000_000_000, [1_000_000_000_000_000_000, 0]);
        // $1,000 at 78 % carry $780: ETH must carry the other $1,220 of $2,000, so 1,220 / 0.83 = $1,469.88.
        let saved = position(6, [7_500, 7_800], 1_00000000, [1_000_000_000, 0]);
        let owed = position(18, [0, 0], 1_00000000, [0, 2_000_000_000_000_000_000_000]);
        let moves = price_moves(&[ether, saved, owed]).unwrap();
        assert_eq!(moves[0].unwrap().price, U256::from(146_987_951_808_u64));
        assert_eq!(moves[1], None, "without the dollars, ETH alone carries the debt");
        // (2,822 + 780) / 2,000 = $1.801.
        let rise = PriceMove { price: U256::from(180_100_000_u64), basis_points: 8_010, rises: true };
        assert_eq!(moves[2], Some(rise));
        let lost = position(18, [0, 0], 1_00000000, [0, 4_000_000_000_000_000_000_000]);
        assert_eq!(price_moves(&[ether, saved, lost]).unwrap()[0].unwrap().basis_points, 0);
    }

    /// By hand: 1 ETH at $3,400 and 83 % carries $2,822. With half an ETH borrowed too, $1,700 of debt move with the price:
    /// 0.83·p + 780 = 0.5·p + 1,500 at p = 720 / 0.33 = $2,181.81. With 1.2 ETH borrowed against $5,000 of dollars at 78 %,
    /// 0.83·p + 3,900 = 1.2·p at p = 3,900 / 0.37 = $10,540.54: the price must rise.
    #[test]
    fn a_token_on_both_sides_moves_by_the_larger_one() {
        let ether = |debt| position(18, [8_050, 8_300], 340_000_000_000, [1_000_000_000_000_000_000, debt]);
        let dollars = |supplied| position(6, [7_500, 7_800], 1_00000000, [supplied, 0]);
        let owed = position(18, [0, 0], 1_00000000, [0, 1_500_000_000_000_000_000_000]);
        let moves = price_moves(&[ether(500_000_000_000_000_000), dollars(1_000_000_000), owed]).unwrap();
        let fall = moves[0].unwrap();
        assert_eq!((fall.price, fall.rises), (U256::from(218_181_818_182_u64), false));
        let moves = price_moves(&[ether(1_200_000_000_000_000_000), dollars(5_000_000_000)]).unwrap();
        let rise = moves[0].unwrap();
        assert_eq!((rise.price, rise.rises, rise.basis_points), (U256::from(1_054_054_054_054_u64), true, 21_001));
        // 4,080 of debt less 2,822 leave 1,258 for the dollars, of 3,900.
        let fall = moves[1].unwrap();
        assert_eq!((fall.price, fall.rises), (U256::from(32_256_411_u64), false));
        // As much borrowed as it carries: its price moves nothing.
        let even = position(18, [8_050, 10_000], 340_000_000_000, [1_000_000_000_000_000_000; 2]);
        assert_eq!(price_moves(&[even, dollars(1_000_000)]).unwrap()[0], None);
    }
}
