//! Outlook of a liquidity position by its pool's past swaps: fees, time in its range, and the loss to arbitrage. Integer arithmetic throughout; fees are rounded down, losses up.
//!
//! * Fees: of each swap in the sample, what it paid to the providers of liquidity, times `L / (pool + L)`. The pool's
//!   liquidity is that of the swap's event. It may contain the position's own already; the share is then understated.
//! * Time in range: the sample's price moves repeated from a given price. Every interval of the sample is the start of a
//!   path, and each path counts twice: as it was, and turned around, so that no trend of the sample is expected to go on.
//! * Loss to arbitrage (loss-versus-rebalancing): `σ² · L · √P / 4` for a time unit in range (Milionis, Moallemi,
//!   Roughgarden, Zhang: "Automated Market Making and Loss-Versus-Rebalancing", 2022), with the sample's realised variance.
//!   √P stays where it is; the formula counts in token1.

use alloy::primitives::{U256, U512};

use super::v3::math::MathError;
use super::v3::position::TickRange;

/// Millionths in the whole.
const MILLIONTHS: u64 = 1_000_000;

/// Liquidity that a unit of a range is measured by. Large, so that its amounts have many digits.
const UNIT: u128 = 1 << 100;

/// Swap of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolTrade {
    /// Square root of the price after it, times 2^96.
    pub sqrt_price_x96: U256,
    /// Liquidity that was in use after it.
    pub liquidity: u128,
    /// Amounts of token0 and token1 that were paid into the pool, with the fee; one of them is zero.
    pub paid: [U256; 2],
    /// Part of the paid amount that went to the providers of liquidity, in millionths.
    pub fee: u32,
}

/// Past swaps of a pool, and its price at the end of every interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarketSample {
    /// Swaps in the window.
    pub trades: Vec<PoolTrade>,
    /// Square roots of the price at the end of each interval, times 2^96, oldest first: from the first swap of the window on.
    pub closes: Vec<U256>,
    /// Length of an interval, in seconds.
    pub interval: u64,
    /// Length of the window that `trades` are from, in seconds.
    pub seconds: u64,
}

/// Expectation of a range over a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeOutlook {
    /// Expected part of the time in the range, in millionths.
    pub in_range: u64,
    /// Expected fees in token0 and token1, in raw units.
    pub fees: [U256; 2],
    /// Expected loss to arbitrage in token1, in raw units.
    pub loss: U256,
}

impl MarketSample {
    /// Realised variance of the logarithm of the price in the window: the sum of the squared returns, times 2^96. Before the
    /// first interval nobody traded, so that the price stood still.
    /// `None` for a price of zero.
    pub fn variance_x96(&self) -> Option<U256> {
        self.closes.windows(2).try_fold(U256::ZERO, |sum, pair| match pair {
            [before, after] => sum.checked_add(squared_return_x96(*before, *after)?),
            _ => Some(sum),
        })
    }

    /// Expectation of `liquidity` in a range over `horizon` seconds from a price; `None` for an empty sample, or figures
    /// that no pool can have.
    pub fn outlook(
        &self,
        range: TickRange,
        liquidity: u128,
        sqrt_price_x96: U256,
        horizon: u64,
    ) -> Option<RangeOutlook> {
        let in_range = self.in_range(range, sqrt_price_x96, horizon)?;
        let (wide_liquidity, part) = (U512::from(liquidity), U512::from(horizon) * U512::from(in_range));
        let mut earned = [U512::ZERO; 2];
        for trade in &self.trades {
            let all = U512::from(trade.liquidity) + wide_liquidity;
            for (sum, paid) in earned.iter_mut().zip(trade.paid) {
                // At most 256 + 20 + 128 bits.
                let fee = U512::from(paid) * U512::from(trade.fee) * wide_liquidity;
                *sum = sum.checked_add(fee.checked_div(all)?)?;
            }
        }
        // In millionths of a raw unit so far.
        let window = U512::from(self.seconds) * U512::from(MILLIONTHS) * U512::from(MILLIONTHS);
        let [fees0, fees1] = earned.map(|sum| narrow(sum.checked_mul(part)?.checked_div(window)?));
        let variance = self.variance_x96()?;
        // σ² · L · √P, both roots in 2^96.
        let moved: U512 = wide_liquidity.checked_mul(U512::from(sqrt_price_x96))? >> 96;
        let moved = moved.checked_mul(U512::from(variance))?.checked_mul(part)?;
        let spread: U512 = (U512::from(4) * U512::from(self.seconds) * U512::from(MILLIONTHS)) << 96;
        let loss = narrow(moved.checked_add(spread.checked_sub(U512::from(1))?)?.checked_div(spread)?)?;
        Some(RangeOutlook { in_range, fees: [fees0?, fees1?], loss })
    }

    /// Expected part of `horizon` seconds in a range, in millionths, rounded down; of a horizon longer than the sample, the
    /// part of the sample's length.
    fn in_range(&self, range: TickRange, sqrt_price_x96: U256, horizon: u64) -> Option<u64> {
        let [low, high] = range.sqrt_prices().ok()?;
        let most = usize::try_from(horizon.checked_div(self.interval)?.max(1)).unwrap_or(usize::MAX);
        let most = most.min(self.closes.len().checked_sub(1)?);
        let now = U512::from(sqrt_price_x96);
        let ends: Vec<[U512; 3]> = self
            .closes
            .iter()
            .map(|close| {
                [now * U512::from(*close), U512::from(low) * U512::from(*close), U512::from(high) * U512::from(*close)]
            })
            .collect();
        let (mut sum, mut lags) = (0_u64, 0_u64);
        for lag in 1..=most {
            let (mut inside, mut all) = (0_u64, 0_u64);
            for ([moved, start_low, start_high], [end, end_low, end_high]) in ends.iter().zip(ends.iter().skip(lag)) {
                // price · end / start, and price · start / end.
                inside += u64::from(end >= start_low && end < start_high);
                inside += u64::from(moved >= end_low && moved < end_high);
                all += 2;
            }
            sum = sum.checked_add(inside.checked_mul(MILLIONTHS)?.checked_div(all)?)?;
            lags += 1;
        }
        sum.checked_div(lags)
    }
}

/// Square of the logarithm of `after² / before²`, times 2^96; `None` for a price of zero. By the series of the inverse
/// hyperbolic tangent, `ln(b/a) = 2 · (z + z³/3 + z⁵/5 + …)` with `z = (b − a) / (b + a)`: of a return of 10 % the first three
/// terms leave out less than 10^-10.
fn squared_return_x96(before: U256, after: U256) -> Option<U256> {
    let (before, after) = (U512::from(before), U512::from(after));
    if before.is_zero() || after.is_zero() {
        return None;
    }
    let one: U512 = U512::from(1) << 96;
    let z: U512 = (before.abs_diff(after) * one).checked_div(before + after)?;
    let square: U512 = (z * z) >> 96;
    let cube: U512 = (z * square) >> 96;
    let fifth: U512 = (cube * square) >> 96;
    // The logarithm of the price is twice that of its root.
    let change: U512 = U512::from(4) * (z + cube / U512::from(3) + fifth / U512::from(5));
    narrow((change * change) >> 96)
}

/// Liquidity that both amounts make in a range at a price, after what the range does not take of one token was exchanged
/// for the other at that price, without cost.
///
/// # Errors
/// [`MathError::Overflow`] for a liquidity that no pool can have.
pub fn liquidity_after_exchange(range: TickRange, sqrt_price_x96: U256, amounts: [U256; 2]) -> Result<u128, MathError> {
    let unit = range.amounts(sqrt_price_x96, UNIT, true)?;
    let worth = in_token1(amounts, sqrt_price_x96).and_then(|worth| worth.checked_mul(U512::from(UNIT)));
    let liquidity = worth.zip(in_token1(unit, sqrt_price_x96)).and_then(|(worth, unit)| worth.checked_div(unit));
    liquidity.and_then(|liquidity| u128::try_from(liquidity).ok()).ok_or(MathError::Overflow)
}

/// Exchange that brings two amounts into the proportion of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// True if token0 is given for token1.
    pub gives_first: bool,
    /// Amount given, in raw units, rounded down.
    pub amount: U256,
}

/// Returns the exchange that brings both amounts into the proportion that a range takes at a price, through a pool at that
/// price with a fee in millionths: of token0 `(a0·n1 − a1·n0) / (n1 + P·n0)`, where n0 and n1 are the amounts of a unit of
/// liquidity and P is the price less the fee; of token1 alike. Zero where nothing is to be exchanged.
///
/// # Errors
/// [`MathError::Overflow`] for figures that no pool can have.
pub fn exchange_into(
    range: TickRange,
    sqrt_price_x96: U256,
    [amount0, amount1]: [U256; 2],
    fee: u32,
) -> Result<Exchange, MathError> {
    let [need0, need1] = range.amounts(sqrt_price_x96, UNIT, true)?.map(U512::from);
    let kept = U512::from(MILLIONTHS.saturating_sub(u64::from(fee)));
    let whole = U512::from(MILLIONTHS);
    let computed = || {
        let (first, second) = (U512::from(amount0).checked_mul(need1)?, U512::from(amount1).checked_mul(need0)?);
        let price: U512 = U512::from(sqrt_price_x96).checked_mul(U512::from(sqrt_price_x96))?;
        let priced = |amount: U512| -> Option<U512> { Some(amount.checked_mul(price >> 64)? >> 128) };
        let gives_first = first > second;
        let surplus = first.abs_diff(second);
        let amount = match gives_first {
            true => {
                let divisor = need1.checked_add(priced(need0)?.checked_mul(kept)?.checked_div(whole)?)?;
                surplus.checked_div(divisor)?
            }
            false => {
                // (a1·n0 − a0·n1) / (n0 + n1·kept / P), with P multiplied through.
                let divisor = priced(need0)?.checked_add(need1.checked_mul(kept)?.checked_div(whole)?)?;
                // The surplus is in token1 times need0; surplus · P / (P·n0 + n1).
                (surplus.checked_div(divisor)?.checked_mul(price >> 64)?) >> 128
            }
        };
        Some(Exchange { gives_first, amount: narrow(amount)? })
    };
    computed().ok_or(MathError::Overflow)
}

/// Value of both amounts in token1 at a price, in raw units, rounded down; `None` beyond 512 bits.
pub fn in_token1([amount0, amount1]: [U256; 2], sqrt_price_x96: U256) -> Option<U512> {
    let root = U512::from(sqrt_price_x96);
    // 256 + 160 bits twice would be too many: the first product is cut before the second.
    let first: U512 = U512::from(amount0).checked_mul(root)?.checked_mul(root >> 32)? >> 160;
    first.checked_add(U512::from(amount1))
}

fn narrow(value: U512) -> Option<U256> {
    (value <= U512::from(U256::MAX)).then(|| U256::from(value))
}

#[cfg(test)]
mod tests {
    use super::super::v3::tick_math::sqrt_price_at_tick;
    use super::*;

    fn root(tick: i32) -> U256 {
        sqrt_price_at_tick(tick).unwrap()
    }

    fn range(lower: i32, upper: i32) -> TickRange {
        TickRange::new(lower, upper).unwrap()
    }

    fn flat(trades: Vec<PoolTrade>) -> MarketSample {
        MarketSample { trades, closes: vec![root(0); 13], interval: 300, seconds: 3_600 }
    }

    /// By hand: the pool's liquidity is 3,000,000 and ours 1,000,000, so that a quarter of the fees is ours. 4,000,000 of
    /// token0 and 8,000,000 of token1 pay 0.3 %: 12,000 and 24,000, of which 3,000 and 6,000 are ours in the sample's hour,
    /// and 24 times that in a day. The price stood still, so nothing is lost, and the position is always in its range.
    #[test]
    fn fees_are_the_share_of_what_swaps_paid() {
        let trade = |paid: [u64; 2]| PoolTrade {
            sqrt_price_x96: root(0),
            liquidity: 3_000_000,
            paid: paid.map(U256::from),
            fee: 3_000,
        };
        let sample = flat(vec![trade([4_000_000, 0]), trade([0, 8_000_000])]);
        let outlook = sample.outlook(range(-60, 60), 1_000_000, root(0), 86_400).unwrap();
        let expected = RangeOutlook { in_range: 1_000_000, fees: [72_000, 144_000].map(U256::from), loss: U256::ZERO };
        assert_eq!(outlook, expected);
        // Out of its range a position earns and loses nothing.
        let outlook = sample.outlook(range(60, 120), 1_000_000, root(0), 86_400).unwrap();
        assert_eq!(outlook, RangeOutlook { in_range: 0, fees: [U256::ZERO; 2], loss: U256::ZERO });
    }

    /// By hand: twelve returns of ±1 % (100 ticks: ln 1.0001^100 = 0.00999950) in an hour have a variance of
    /// 12 · 0.0000999900 = 0.00119988. At a price of 1 with a liquidity of 10^18 the loss of that hour is
    /// 0.00119988 · 10^18 / 4 = 299,970,000,000,000 (to five digits), always in range.
    #[test]
    fn the_loss_to_arbitrage_follows_the_formula() {
        let closes = (0..13).map(|at| root(if at % 2 == 0 { 0 } else { 100 })).collect();
        let sample = MarketSample { trades: vec![], closes, interval: 300, seconds: 3_600 };
        let variance = sample.variance_x96().unwrap();
        let scaled: U256 = (variance * U256::from(1_000_000_000_u64)) >> 96;
        assert_eq!(scaled, U256::from(1_199_880));
        let outlook = sample.outlook(range(-1_000, 1_000), 10_u128.pow(18), root(0), 3_600).unwrap();
        assert_eq!(outlook.in_range, 1_000_000);
        assert_eq!(outlook.loss / U256::from(1_000_000_000_u64), U256::from(299_970), "{}", outlook.loss);
        // Twice the time and four times the price: twice the loss for the time, twice for the root of the price.
        let price_of_four = root(0) * U256::from(2);
        let outlook = sample.outlook(range(-100_000, 100_000), 10_u128.pow(18), price_of_four, 7_200).unwrap();
        assert_eq!(outlook.loss / U256::from(1_000_000_000_u64), U256::from(1_199_880), "{}", outlook.loss);
    }

    /// By hand, with a price that rose by 100 ticks in one interval and stayed: of the paths of one interval (0→100, 100→100),
    /// as they were and turned around, a range from −50 to 50 holds the two that stay, of four; of two intervals (0→100) none
    /// of two. The mean over both times is a quarter.
    #[test]
    fn time_in_range_is_the_mean_over_all_paths_and_both_directions() {
        let sample =
            MarketSample { trades: vec![], closes: [0, 100, 100].map(root).to_vec(), interval: 300, seconds: 600 };
        let part = |range, horizon| sample.outlook(range, 1, root(0), horizon).unwrap().in_range;
        assert_eq!(part(range(-50, 50), 300), 500_000);
        assert_eq!(part(range(-50, 50), 600), 250_000);
        assert_eq!(part(range(-50, 50), 86_400), 250_000, "no longer than the sample");
        // Upward, one half of what left the other range is back.
        assert_eq!(part(range(-50, 150), 300), 750_000);
        assert_eq!(part(range(-150, 150), 600), 1_000_000);
    }

    #[test]
    fn a_sample_without_prices_has_no_outlook() {
        let none = MarketSample { trades: vec![], closes: vec![], interval: 300, seconds: 0 };
        assert_eq!(none.outlook(range(-60, 60), 1, root(0), 60), None);
        let broken = MarketSample { closes: vec![U256::ZERO; 3], seconds: 600, ..none };
        assert_eq!(broken.outlook(range(-60, 60), 1, root(0), 600), None);
    }

    /// A range around the price takes both tokens alike at a price of one, but for the wider side. After the exchange without
    /// a fee, both amounts make what the whole was worth.
    #[test]
    fn an_exchange_brings_amounts_into_the_proportion_of_the_range() {
        let symmetric = range(-600, 600);
        for (gives_first, amounts) in [(true, [1_000_000_000_u64, 0]), (false, [0, 1_000_000_000])] {
            let found = exchange_into(symmetric, root(0), amounts.map(U256::from), 0).unwrap();
            assert_eq!(found.gives_first, gives_first);
            let half: u64 = found.amount.to();
            assert!((499_999_999..=500_000_000).contains(&half), "{half}");
            // With a fee of 1 % less comes back: 1/(1 + 0.99) of the whole is given.
            let found = exchange_into(symmetric, root(0), amounts.map(U256::from), 10_000).unwrap();
            let given: u64 = found.amount.to();
            assert!((502_512_561..=502_512_563).contains(&given), "{given}");
        }
        let balanced = exchange_into(symmetric, root(0), [1_000_000_u64; 2].map(U256::from), 0).unwrap();
        assert!(balanced.amount <= U256::ONE, "{balanced:?}");
        // At a price of four, 1,000 of token0 are worth 4,000 of token1; all of it goes into a range above the price as token0.
        let four = root(0) * U256::from(2);
        let found = exchange_into(range(20_000, 21_000), four, [0_u64, 4_000_000].map(U256::from), 0).unwrap();
        assert_eq!((found.gives_first, found.amount), (false, U256::from(4_000_000)));
        let found = exchange_into(range(1_000, 2_000), four, [1_000_000_u64, 0].map(U256::from), 0).unwrap();
        assert_eq!((found.gives_first, found.amount), (true, U256::from(1_000_000)));
        let liquidity = |amounts: [u64; 2]| {
            liquidity_after_exchange(symmetric, root(0), amounts.map(|one| U256::from(one) << 40)).unwrap()
        };
        let (one, other, both) =
            (liquidity([1_000_000_000, 0]), liquidity([0, 1_000_000_000]), liquidity([500_000_000; 2]));
        assert_eq!((one, other), (both, both));
        // And the contract's own rule gives the same for the exchanged amounts, but for the last digits.
        let direct = symmetric.liquidity_for(root(0), [U256::from(500_000_000_u64) << 40; 2]).unwrap();
        assert!(both.abs_diff(direct) < direct / 1_000_000, "{both} {direct}");
    }
}
