//! Risk figures of a portfolio, from the values that its present holdings had at past closes (historical simulation: the
//! holdings stay as they are, prices move as they did).
//!
//! Sources: value at risk by historical simulation and the definitions of return and drawdown as in Philippe Jorion,
//! *Value at Risk* (3rd ed., 2007), chapters 5 and 10; the ratio of William F. Sharpe, *The Sharpe Ratio* (1994), with a
//! risk-free rate of zero; that of Frank A. Sortino and Lee N. Price, *Performance Measurement in a Downside Risk
//! Framework* (1994), with a target of zero; concentration is the Herfindahl–Hirschman index of the weights.

use super::fixed::Fixed;
use super::indicators::deviation;

/// Minimum number of returns: one in twenty of them is the value at risk of 95 %.
pub(crate) const LEAST_RETURNS: u64 = 20;

/// Seconds of the year by which figures are annualised: 365 days, because chains trade on every one of them.
const YEAR_SECONDS: u64 = 365 * 86_400;

/// Risk figures. Shares are fractions: 0.05 is 5 %.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Risk {
    /// Loss that 95 % of the intervals stayed within, as a share of the value; zero if that return is a gain.
    pub(crate) value_at_risk: Fixed,
    /// Sample standard deviation of the returns, per year.
    pub(crate) volatility: Fixed,
    /// Mean return by standard deviation, per year; `None` without any deviation.
    pub(crate) sharpe: Option<Fixed>,
    /// Mean return by downside deviation, per year; `None` without a loss.
    pub(crate) sortino: Option<Fixed>,
    /// Largest fall from a high to a later low, as a share of the high.
    pub(crate) drawdown: Fixed,
    /// Number of returns.
    pub(crate) returns: u64,
}

/// Computes the figures from values at the ends of intervals of this length, in seconds. `None` for fewer than
/// [`LEAST_RETURNS`] returns, or a value that is not above zero.
pub(crate) fn risk(values: &[Fixed], interval: u64) -> Option<Risk> {
    if values.iter().any(|value| value.is_negative() || *value == Fixed::default()) {
        return None;
    }
    let returns: Vec<Fixed> = values
        .windows(2)
        .map(|pair| match pair {
            [before, value] => value.minus(before).over(before),
            _ => None,
        })
        .collect::<Option<_>>()?;
    let count = u64::try_from(returns.len()).ok().filter(|count| *count >= LEAST_RETURNS)?;
    let mean = Fixed::mean(returns.iter())?;
    let deviation_of_returns = deviation(&returns, &mean, count.checked_sub(1)?)?;
    let losses: Vec<Fixed> =
        returns.iter().map(|value| if value.is_negative() { value.clone() } else { Fixed::default() }).collect();
    let downside = deviation(&losses, &Fixed::default(), count)?;
    // Means grow with time, deviations with its root: a ratio of both grows with the root, too.
    let per_year = Fixed::whole(YEAR_SECONDS).part(interval)?.root()?;
    let mut sorted = returns;
    sorted.sort_unstable();
    // The worst twentieth: of 100 returns the fifth from below.
    let worst = usize::try_from(count.div_ceil(20)).ok()?.checked_sub(1)?;
    let worst = sorted.get(worst)?;
    Some(Risk {
        value_at_risk: if worst.is_negative() { worst.size() } else { Fixed::default() },
        volatility: deviation_of_returns.times(&per_year),
        sharpe: mean.over(&deviation_of_returns).map(|ratio| ratio.times(&per_year)),
        sortino: mean.over(&downside).map(|ratio| ratio.times(&per_year)),
        drawdown: drawdown(values)?,
        returns: count,
    })
}

/// Largest fall from a high to a later low, as a share of the high.
fn drawdown(values: &[Fixed]) -> Option<Fixed> {
    let mut high = values.first()?.clone();
    let mut largest = Fixed::default();
    for value in values {
        if *value > high {
            high = value.clone();
        }
        let fall = high.minus(value).over(&high)?;
        if fall > largest {
            largest = fall;
        }
    }
    Some(largest)
}

/// Sum of the squared shares of the parts: 1 for one part alone, 1/n for n equal ones. `None` if the sum is zero.
pub(crate) fn concentration(parts: &[Fixed]) -> Option<Fixed> {
    let sum = Fixed::sum(parts);
    let squares: Option<Vec<Fixed>> = parts
        .iter()
        .map(|part| {
            let share = part.over(&sum)?;
            Some(share.times(&share))
        })
        .collect();
    Some(Fixed::sum(&squares?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fixed(numerator: i64, places: u32) -> Fixed {
        Fixed::scaled(numerator, places).unwrap()
    }

    /// Values that rise by 10 % and fall by 10 % in turns: each pair of intervals ends at 0.99 of its beginning.
    /// 20 returns, ten of +0.1 and ten of −0.1: mean 0; sample deviation √(20 · 0.01 / 19) = 0.102597835…; downside
    /// √(10 · 0.01 / 20) = 0.0707106781…. The worst of 20 is −0.1. From the first high, 1.1, the last value is 0.99^10 =
    /// 0.904382075…: a fall of 1 − 0.904382075/1.1 = 0.177834477….
    #[test]
    fn figures_follow_their_definitions() {
        let mut values = vec![Fixed::whole(1)];
        for step in 0..20 {
            let factor = if step % 2 == 0 { fixed(11, 1) } else { fixed(9, 1) };
            values.push(values.last().unwrap().times(&factor));
        }
        let told = risk(&values, 86_400).unwrap();
        assert_eq!((told.returns, told.value_at_risk.to_text(12)), (20, "0.1".to_owned()));
        // 0.102597835 · √365 = 1.960128889….
        assert_eq!(told.volatility.to_text(9), "1.960128889");
        assert_eq!(told.sharpe.unwrap().to_text(9), "0");
        assert_eq!(told.drawdown.to_text(9), "0.177834477");
        assert_eq!(risk(&values[..20], 86_400), None, "19 returns are too few");
    }

    /// 99 returns of +1 %, and one of −50 % after 49 of them. Mean (99 · 0.01 − 0.5)/100 = 0.0049. Downside
    /// √(0.25/100) = 0.05; the ratio is 0.0049/0.05 · √365 = 1.872287371…. The fifth worst of 100 is a gain.
    #[test]
    fn a_single_fall_counts_in_the_downside_and_not_in_the_value_at_risk() {
        let mut values = vec![Fixed::whole(100)];
        for step in 0..100 {
            let factor = if step == 49 { fixed(5, 1) } else { fixed(101, 2) };
            values.push(values.last().unwrap().times(&factor));
        }
        let told = risk(&values, 86_400).unwrap();
        assert_eq!(told.sortino.unwrap().to_text(6), "1.872287");
        assert_eq!((told.value_at_risk, told.drawdown.to_text(12)), (Fixed::default(), "0.5".to_owned()));
        // Hours: √(365 · 24) instead of √365, which is √24 = 4.898979… times as much.
        let hourly = risk(&values, 3_600).unwrap();
        assert_eq!(hourly.volatility.over(&told.volatility).unwrap().to_text(6), "4.898979");
    }

    #[test]
    fn growth_without_a_fall_has_no_downside() {
        let values: Vec<Fixed> = (0..30).map(|step| fixed(100 + step * step, 0)).collect();
        let told = risk(&values, 3_600).unwrap();
        assert_eq!((told.sortino, told.drawdown), (None, Fixed::default()));
        assert_eq!(risk(&vec![Fixed::default(); 30], 3_600), None);
        let flat = risk(&vec![Fixed::whole(1); 30], 3_600).unwrap();
        assert_eq!((flat.sharpe, flat.volatility), (None, Fixed::default()));
    }

    #[test]
    fn concentration_is_one_for_a_single_holding_and_a_part_of_it_for_equal_ones() {
        assert_eq!(concentration(&[Fixed::whole(7)]).unwrap().to_text(9), "1");
        assert_eq!(concentration(&vec![Fixed::whole(7); 4]).unwrap().to_text(9), "0.25");
        // Shares of 0.75 and 0.25: 0.5625 + 0.0625.
        assert_eq!(concentration(&[Fixed::whole(3), Fixed::whole(1)]).unwrap().to_text(9), "0.625");
        assert_eq!(concentration(&[Fixed::default()]), None);
    }

    proptest! {
        #[test]
        fn figures_stay_within_their_bounds(values in proptest::collection::vec(1_i64..1_000_000, 21..80)) {
            let values: Vec<Fixed> = values.into_iter().map(|value| fixed(value, 2)).collect();
            let told = risk(&values, 3_600).unwrap();
            let one = Fixed::whole(1);
            prop_assert!(told.value_at_risk <= one && told.drawdown < one);
            prop_assert!(!told.volatility.is_negative() && !told.drawdown.is_negative());
            // The value at risk is the loss of one interval; the largest fall is at least that of the worst one.
            prop_assert!(told.value_at_risk <= told.drawdown.plus(&Fixed::scaled(1, 20).unwrap()));
            let part = concentration(&values).unwrap();
            prop_assert!(part <= one && part.by(u64::try_from(values.len()).unwrap()) >= one.minus(&Fixed::scaled(1, 20).unwrap()));
        }
    }
}
