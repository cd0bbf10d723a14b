//! Indicators over candles, oldest first. Each function returns the latest value, or `None` if there are too few candles;
//! the constants and functions named `…_candles` say how many are needed.
//!
//! Averages with memory (Wilder's, exponential) begin with the plain mean of their first values, as in TA-Lib, and need
//! some candles more before that beginning no longer matters.
//!
//! Sources: RSI and ATR are J. Welles Wilder, *New Concepts in Technical Trading Systems* (1978), with his smoothing
//! `(previous · (n − 1) + new) / n`. MACD is Gerald Appel's, 12/26/9. Bands are John Bollinger's, *Bollinger on Bollinger
//! Bands* (2001): 20 closes, two population standard deviations.

use super::candles::Candle;
use super::fixed::Fixed;

/// Periods of MACD: fast, slow and signal.
pub(crate) const MACD: [u64; 3] = [12, 26, 9];

/// Number of candles that MACD needs: the slow average, and its signal's first mean.
pub(crate) const MACD_CANDLES: u64 = MACD[1] + MACD[2] - 1;

/// Moving average convergence and divergence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Macd {
    /// Fast average less slow average.
    pub(crate) line: Fixed,
    /// Exponential average of the line.
    pub(crate) signal: Fixed,
    /// Line less signal.
    pub(crate) histogram: Fixed,
}

/// Bollinger bands around a mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bands {
    /// Mean less two standard deviations.
    pub(crate) lower: Fixed,
    /// Simple mean of the closes.
    pub(crate) middle: Fixed,
    /// Mean plus two standard deviations.
    pub(crate) upper: Fixed,
    /// Population standard deviation.
    pub(crate) deviation: Fixed,
}

/// Simple moving average: the mean of the last `period` values.
pub(crate) fn sma(values: &[Fixed], period: u64) -> Option<Fixed> {
    Fixed::mean(last(values, period)?.iter())
}

/// Exponential moving average of each value from the `period`th on. The first is the mean of the first `period` values;
/// then `average + (value − average) · 2 / (period + 1)`.
pub(crate) fn ema(values: &[Fixed], period: u64) -> Option<Vec<Fixed>> {
    let (first, rest) = values.split_at_checked(usize::try_from(period).ok()?)?;
    let mut average = Fixed::mean(first.iter())?;
    let mut averages = vec![average.clone()];
    for value in rest {
        average = average.plus(&value.minus(&average).by(2).part(period.checked_add(1)?)?);
        averages.push(average.clone());
    }
    Some(averages)
}

/// Wilder's average: the mean of the first `period` values, then `(average · (period − 1) + value) / period`.
fn wilder(values: &[Fixed], period: u64) -> Option<Fixed> {
    let (first, rest) = values.split_at_checked(usize::try_from(period).ok()?)?;
    let mut average = Fixed::mean(first.iter())?;
    for value in rest {
        average = average.by(period.checked_sub(1)?).plus(value).part(period)?;
    }
    Some(average)
}

/// Relative strength index, from 0 to 100: `100 · gains / (gains + losses)`, both Wilder's averages of the changes of
/// closes. Needs `period + 1` candles. `None` also without any change, for which it is not defined.
pub(crate) fn rsi(closes: &[Fixed], period: u64) -> Option<Fixed> {
    let changes: Vec<Fixed> = changes(closes);
    let side = |down: bool| -> Vec<Fixed> {
        let part = |change: &Fixed| if change.is_negative() == down { change.size() } else { Fixed::default() };
        changes.iter().map(part).collect()
    };
    let (gains, losses) = (wilder(&side(false), period)?, wilder(&side(true), period)?);
    gains.by(100).over(&gains.plus(&losses))
}

/// Average true range: Wilder's average of the true ranges, each the largest of high − low, |high − previous close| and
/// |low − previous close|. Needs `period + 1` candles, because the first has no previous close.
pub(crate) fn atr(candles: &[Candle], period: u64) -> Option<Fixed> {
    let ranges: Vec<Fixed> = candles
        .windows(2)
        .filter_map(|pair| {
            let [before, candle] = pair else { return None };
            let to_high = candle.high.minus(&before.close).size();
            let to_low = candle.low.minus(&before.close).size();
            Some(candle.high.minus(&candle.low).max(to_high).max(to_low))
        })
        .collect();
    wilder(&ranges, period)
}

/// MACD with its fixed periods. Needs [`MACD_CANDLES`].
pub(crate) fn macd(closes: &[Fixed]) -> Option<Macd> {
    let [fast, slow, signal] = MACD;
    let (fast_averages, slow_averages) = (ema(closes, fast)?, ema(closes, slow)?);
    // The fast average begins earlier: both end at the last close.
    let skipped = fast_averages.len().checked_sub(slow_averages.len())?;
    let lines: Vec<Fixed> =
        fast_averages.iter().skip(skipped).zip(&slow_averages).map(|(fast, slow)| fast.minus(slow)).collect();
    let (line, signal) = (lines.last()?.clone(), ema(&lines, signal)?.pop()?);
    Some(Macd { histogram: line.minus(&signal), line, signal })
}

/// Bollinger bands: the mean of the last `period` closes, and two population standard deviations to each side.
pub(crate) fn bollinger(closes: &[Fixed], period: u64) -> Option<Bands> {
    let window = last(closes, period)?;
    let middle = Fixed::mean(window.iter())?;
    let deviation = deviation(window, &middle, period)?;
    let (lower, upper) = (middle.minus(&deviation.by(2)), middle.plus(&deviation.by(2)));
    Some(Bands { lower, middle, upper, deviation })
}

/// Standard deviation of values around their mean, with this divisor: their number for a population, one less for a
/// sample. `None` for a divisor of zero.
pub(crate) fn deviation(values: &[Fixed], mean: &Fixed, divisor: u64) -> Option<Fixed> {
    let squares: Vec<Fixed> = values
        .iter()
        .map(|value| {
            let distance = value.minus(mean);
            distance.times(&distance)
        })
        .collect();
    Fixed::sum(&squares).part(divisor)?.root()
}

/// Differences of neighbouring values.
fn changes(values: &[Fixed]) -> Vec<Fixed> {
    let change = |pair: &[Fixed]| match pair {
        [before, value] => Some(value.minus(before)),
        _ => None,
    };
    values.windows(2).filter_map(change).collect()
}

/// The last `count` values; `None` if there are fewer, or for zero.
fn last(values: &[Fixed], count: u64) -> Option<&[Fixed]> {
    let count = usize::try_from(count).ok().filter(|count| *count > 0)?;
    values.get(values.len().checked_sub(count)?..)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy::primitives::U256;
    use proptest::prelude::*;

    fn fixed(numerator: i64, places: u32) -> Fixed {
        Fixed::scaled(numerator, places).unwrap()
    }

    fn closes(values: &[i64]) -> Vec<Fixed> {
        values.iter().map(|value| fixed(*value, 2)).collect()
    }

    fn candle(high: i64, low: i64, close: i64) -> Candle {
        let [high, low, close] = [high, low, close].map(|value| fixed(value, 0));
        Candle { start: 0, open: close.clone(), high, low, close, base: U256::ZERO, quote: U256::ZERO, swaps: 1 }
    }

    /// By hand, with a period of 3. Changes: +2, −1, +1, +3, −2.
    /// Gains: mean(2, 0, 1) = 1; (1·2 + 3)/3 = 5/3; (5/3·2 + 0)/3 = 10/9.
    /// Losses: mean(0, 1, 0) = 1/3; (1/3·2 + 0)/3 = 2/9; (2/9·2 + 2)/3 = 22/27.
    /// RSI = 100 · (10/9) / (10/9 + 22/27) = 100 · 30/52 = 57.6923….
    /// With plain means of the last three changes it would be 100 · 4/6, with an EMA's factor 2/4 another value again.
    #[test]
    fn rsi_uses_wilders_smoothing() {
        let values = closes(&[1_000, 1_200, 1_100, 1_200, 1_500, 1_300]);
        assert_eq!(rsi(&values, 3).unwrap().to_text(10), "57.6923076923");
        // The first value alone is 100 · 1 / (4/3).
        assert_eq!(rsi(&values[..4], 3).unwrap().to_text(10), "75");
        assert_eq!(rsi(&values[..3], 3), None, "three changes need four closes");
        assert_eq!(rsi(&closes(&[5, 6, 7, 8]), 3).unwrap().to_text(4), "100");
        assert_eq!(rsi(&closes(&[8, 7, 6, 5]), 3).unwrap().to_text(4), "0");
        assert_eq!(rsi(&closes(&[5, 5, 5, 5]), 3), None, "not defined without a change");
    }

    /// By hand, with a period of 2. True ranges: max(12 − 9, |12 − 10|, |9 − 10|) = 3; max(20 − 18, |20 − 11|, |18 − 11|) = 9;
    /// max(8 − 5, |8 − 19|, |5 − 19|) = 14. Mean(3, 9) = 6; (6·1 + 14)/2 = 10.
    #[test]
    fn atr_counts_gaps_and_uses_wilders_smoothing() {
        let candles = [candle(11, 9, 10), candle(12, 9, 11), candle(20, 18, 19), candle(8, 5, 6)];
        assert_eq!(atr(&candles, 2).unwrap().to_string(), "10");
        assert_eq!(atr(&candles[..3], 2).unwrap().to_string(), "6");
        assert_eq!(atr(&candles[..2], 2), None);
    }

    /// By hand, with a period of 3: mean(2, 4, 6) = 4; 4 + (8 − 4)·2/4 = 6; 6 + (5 − 6)·2/4 = 5.5.
    #[test]
    fn averages_follow_their_formulas() {
        let values = closes(&[200, 400, 600, 800, 500]);
        let averages: Vec<String> = ema(&values, 3).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(averages, ["4", "6", "5.5"]);
        assert_eq!(sma(&values, 3).unwrap().to_text(10), "6.3333333333");
        assert_eq!((sma(&values, 6), ema(&values, 6)), (None, None));
        assert_eq!((sma(&values, 0), ema(&values, 0)), (None, None));
    }

    /// On a straight line an average lags by a constant: an EMA of n begins (n − 1)/2 behind and keeps that distance. So
    /// the line is (25 − 11)/2 = 7 steps, and equal to its signal.
    #[test]
    fn macd_of_a_straight_line_is_the_distance_of_the_lags() {
        let line: Vec<i64> = (1..=34).map(|step| step * 100).collect();
        let macd_of_line = macd(&closes(&line)).unwrap();
        assert_eq!(macd_of_line.line.to_text(20), "7");
        assert_eq!((macd_of_line.signal.to_text(20), macd_of_line.histogram.to_text(20)), ("7".into(), "0".into()));
        assert_eq!(MACD_CANDLES, 34);
        assert_eq!(macd(&closes(&line[1..])), None);
        // One step more at the end, of 100 instead of 1. EMA12: +99·2/13, EMA26: +99·2/27; so the line is
        // 7 + 198/13 − 198/27 = 14.8974358974…, and the signal 7 + (198/13 − 198/27)·2/10 = 8.5794871794….
        let mut values = line;
        values.push(13_400);
        let jumped = macd(&closes(&values)).unwrap();
        assert_eq!(jumped.line.to_text(10), "14.8974358974");
        assert_eq!(jumped.signal.to_text(10), "8.5794871795");
    }

    /// The eight values of the textbook example have the mean 5 and the population deviation 2 (the sample's is 2.138).
    #[test]
    fn bands_are_two_population_deviations_wide() {
        let values = closes(&[9_900, 200, 400, 400, 400, 500, 500, 700, 900]);
        let bands = bollinger(&values, 8).unwrap();
        let told = [bands.lower, bands.middle, bands.upper, bands.deviation].map(|value| value.to_string());
        assert_eq!(told, ["1", "5", "9", "2"]);
        assert_eq!(bollinger(&values, 10), None);
    }

    /// The last values of 800 candles equal those of talipp, a library of indicators in Python. It begins its averages
    /// with other values than we do, which no longer matter at the end.
    #[test]
    #[ignore = "needs python3 and talipp: run by .ci/run"]
    fn indicators_equal_those_of_an_independent_library() {
        use std::io::Write as _;
        use std::process::{Command, Stdio};

        // A walk whose steps come from a linear congruential generator (Numerical Recipes' constants).
        let (mut state, mut close) = (7_u32, 340_000_i64);
        let mut step = |size: i64| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            i64::from(state >> 16) % (2 * size + 1) - size
        };
        let rows: Vec<(i64, i64, i64)> = (0..800)
            .map(|_| {
                let before = close;
                close += step(2_000);
                (before.max(close) + step(300).abs(), before.min(close) - step(300).abs(), close)
            })
            .collect();
        let two = |cents: i64| Fixed::scaled(cents, 2).unwrap();
        let text: String = rows.iter().map(|row| format!("{} {} {}\n", two(row.0), two(row.1), two(row.2))).collect();
        let folder = std::env::var("BARDO_TALIPP").expect("BARDO_TALIPP names the folder of talipp");
        let mut child = Command::new("python3")
            .args(["-B", "-c", include_str!("talipp.py")])
            .env("PYTHONPATH", folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 runs");
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("the script prints its values");

        let made: Vec<Candle> = rows
            .iter()
            .map(|row| Candle { high: two(row.0), low: two(row.1), close: two(row.2), ..candle(1, 1, 1) })
            .collect();
        let closes: Vec<Fixed> = made.iter().map(|candle| candle.close.clone()).collect();
        let (lines, bands) = (macd(&closes).unwrap(), bollinger(&closes, 20).unwrap());
        for (ours, theirs, name) in [
            (rsi(&closes, 14).unwrap(), &told["rsi"], "RSI"),
            (atr(&made, 14).unwrap(), &told["atr"], "ATR"),
            (sma(&closes, 20).unwrap(), &told["sma"], "SMA"),
            (ema(&closes, 20).unwrap().pop().unwrap(), &told["ema"], "EMA"),
            (lines.line, &told["macd"][0], "MACD"),
            (lines.signal, &told["macd"][1], "signal"),
            (lines.histogram, &told["macd"][2], "histogram"),
            (bands.lower, &told["bands"][0], "lower band"),
            (bands.middle, &told["bands"][1], "middle"),
            (bands.upper, &told["bands"][2], "upper band"),
        ] {
            let ours: f64 = ours.to_text(15).parse().unwrap();
            let theirs = theirs.as_f64().unwrap();
            assert!((ours - theirs).abs() < 1e-8 * theirs.abs().max(1.0), "{name}: {ours} and {theirs}");
        }
    }

    proptest! {
        #[test]
        fn indicators_stay_within_their_bounds(
            values in proptest::collection::vec(1_i64..=1_000_000_000, 40..120),
            period in 2_u64..30,
        ) {
            let prices = closes(&values);
            if let Some(strength) = rsi(&prices, period) {
                prop_assert!(!strength.is_negative() && strength <= Fixed::whole(100));
            }
            let candles: Vec<Candle> = values
                .windows(2)
                .map(|pair| candle(pair[0].max(pair[1]), pair[0].min(pair[1]), pair[1]))
                .collect();
            let widest = candles.windows(2).map(|pair| pair[0].high.clone().max(pair[1].high.clone()).minus(&pair[1].low.clone().min(pair[0].low.clone()))).max().unwrap();
            let range = atr(&candles, period).unwrap();
            prop_assert!(!range.is_negative() && range <= widest);
            let (low, high) = (prices.iter().min().unwrap(), prices.iter().max().unwrap());
            // Quotients are rounded in the 36th place.
            let tolerance = Fixed::scaled(1, 20).unwrap();
            for average in [sma(&prices, period).unwrap(), ema(&prices, period).unwrap().pop().unwrap()] {
                prop_assert!(low.minus(&tolerance) <= average && average <= high.plus(&tolerance));
            }
            let bands = bollinger(&prices, period).unwrap();
            prop_assert!(bands.lower <= bands.middle && bands.middle <= bands.upper);
            // No population deviates by more than half of its span (Popoviciu).
            prop_assert!(bands.deviation.by(2) <= high.minus(low).plus(&tolerance));
            let macd = macd(&prices).unwrap();
            prop_assert_eq!(macd.line.minus(&macd.signal), macd.histogram);
            // All are of the unit of the price: prices a thousand times as high have values a thousand times as high, and the
            // same strength.
            let scaled: Vec<Fixed> = prices.iter().map(|price| price.by(1_000)).collect();
            let close_to = |one: Fixed, other: Fixed| one.minus(&other).size() <= tolerance;
            prop_assert!(close_to(bollinger(&scaled, period).unwrap().deviation, bands.deviation.by(1_000)));
            if let (Some(one), Some(other)) = (rsi(&prices, period), rsi(&scaled, period)) {
                prop_assert!(close_to(one, other));
            }
        }
    }
}
