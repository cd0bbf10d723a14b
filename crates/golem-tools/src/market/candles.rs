//! Candles: open, high, low and close of swaps in intervals of equal length, which begin at multiples of that length
//! since the Unix epoch (UTC).
//!
//! Open is the first swap's price, close the last one's. An interval without a swap repeats the close before it, with a
//! volume of zero: a pool keeps its price until somebody trades, and indicators need intervals of equal length. The
//! history begins with the first swap; before it there is none to repeat.

use std::collections::BTreeMap;

use alloy::primitives::U256;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fixed::Fixed;
use super::swaps::PoolSwap;

/// Length of a candle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) enum Interval {
    /// One minute: 60 seconds.
    #[serde(rename = "1m")]
    Minute,
    /// Five minutes: 300 seconds.
    #[serde(rename = "5m")]
    FiveMinutes,
    /// A quarter of an hour.
    #[serde(rename = "15m")]
    Quarter,
    /// One hour: 3,600 seconds.
    #[serde(rename = "1h")]
    Hour,
    /// Four hours: 14,400 seconds.
    #[serde(rename = "4h")]
    FourHours,
    /// One day: 86,400 seconds.
    #[serde(rename = "1d")]
    Day,
}

impl Interval {
    /// Length in seconds.
    pub(crate) const fn seconds(self) -> u64 {
        match self {
            Self::Minute => 60,
            Self::FiveMinutes => 300,
            Self::Quarter => 900,
            Self::Hour => 3_600,
            Self::FourHours => 14_400,
            Self::Day => 86_400,
        }
    }

    /// Written form, as in parameters.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Minute => "1m",
            Self::FiveMinutes => "5m",
            Self::Quarter => "15m",
            Self::Hour => "1h",
            Self::FourHours => "4h",
            Self::Day => "1d",
        }
    }
}

/// Prices and volumes of one interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candle {
    /// Start of the interval, in seconds since the Unix epoch.
    pub(crate) start: u64,
    /// Price of the first swap; without one, the close before.
    pub(crate) open: Fixed,
    /// Highest price after a swap.
    pub(crate) high: Fixed,
    /// Lowest price after a swap.
    pub(crate) low: Fixed,
    /// Price of the last swap; without one, the close before.
    pub(crate) close: Fixed,
    /// Traded amount of the base, in raw units.
    pub(crate) base: U256,
    /// Traded amount of the quote, in raw units.
    pub(crate) quote: U256,
    /// Number of swaps.
    pub(crate) swaps: u64,
}

/// Builds the candles of `count` intervals from `start`, from swaps in the order of the chain and the start of the
/// interval of each block. `before` is the price of the last swap before `start`. Without it, the first candle is that
/// of the first swap. Swaps of other intervals are left out.
pub(crate) fn candles(
    before: Option<&Fixed>,
    swaps: &[PoolSwap],
    intervals: &BTreeMap<u64, u64>,
    (start, interval, count): (u64, u64, u64),
) -> Vec<Candle> {
    let mut by_start: BTreeMap<u64, Candle> = BTreeMap::new();
    for swap in swaps {
        let (Some(at), Some(price)) = (intervals.get(&swap.number), &swap.price) else { continue };
        let candle = by_start.entry(*at).or_insert_with(|| flat(*at, price));
        if *price > candle.high {
            candle.high = price.clone();
        }
        if *price < candle.low {
            candle.low = price.clone();
        }
        candle.close = price.clone();
        candle.base = candle.base.saturating_add(swap.base);
        candle.quote = candle.quote.saturating_add(swap.quote);
        candle.swaps = candle.swaps.saturating_add(1);
    }
    let mut close = before.cloned();
    let mut candles = Vec::new();
    for number in 0..count {
        let at = start.saturating_add(number.saturating_mul(interval));
        let candle = by_start.remove(&at).or_else(|| close.as_ref().map(|close| flat(at, close)));
        if let Some(candle) = candle {
            close = Some(candle.close.clone());
            candles.push(candle);
        }
    }
    candles
}

fn flat(start: u64, price: &Fixed) -> Candle {
    let [open, high, low, close] = [(); 4].map(|()| price.clone());
    Candle { start, open, high, low, close, base: U256::ZERO, quote: U256::ZERO, swaps: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy::primitives::{Address, B256};

    fn price(cents: i64) -> Fixed {
        Fixed::scaled(cents, 2).unwrap()
    }

    fn swap(number: u64, cents: i64) -> PoolSwap {
        let (base, quote) = (U256::from(10), U256::from(3));
        let (pool, hash) = (Address::ZERO, B256::ZERO);
        PoolSwap { pool, number, hash, time: None, price: Some(price(cents)), base, quote }
    }

    /// Block 1 is in the interval from 60, blocks 2 and 3 in that from 120, block 9 in that from 240.
    fn intervals() -> BTreeMap<u64, u64> {
        BTreeMap::from([(1, 60), (2, 120), (3, 120), (9, 240)])
    }

    #[test]
    fn a_candle_has_the_first_highest_lowest_and_last_price() {
        let swaps = [swap(2, 300), swap(2, 350), swap(3, 250), swap(3, 310)];
        let made = candles(None, &swaps, &intervals(), (120, 60, 1));
        let [candle] = &made[..] else { panic!("{made:?}") };
        let prices = [&candle.open, &candle.high, &candle.low, &candle.close].map(ToString::to_string);
        assert_eq!(prices, ["3", "3.5", "2.5", "3.1"]);
        assert_eq!((candle.base, candle.quote, candle.swaps), (U256::from(40), U256::from(12), 4));
    }

    #[test]
    fn an_interval_without_a_swap_repeats_the_close_and_history_begins_with_the_first_swap() {
        let swaps = [swap(2, 300), swap(3, 310), swap(9, 200)];
        let made = candles(None, &swaps, &intervals(), (0, 60, 5));
        let told: Vec<_> = made.iter().map(|candle| (candle.start, candle.close.to_string(), candle.swaps)).collect();
        assert_eq!(told, [(120, "3.1".into(), 2), (180, "3.1".into(), 0), (240, "2".into(), 1)]);
        assert_eq!((made[1].high.clone(), made[1].base), (made[0].close.clone(), U256::ZERO));
        // With an earlier price, the first intervals have it.
        let made = candles(Some(&price(123)), &swaps, &intervals(), (0, 60, 5));
        assert_eq!(made.len(), 5);
        assert_eq!(
            (made[0].open.to_string(), made[1].close.to_string(), made[0].swaps),
            ("1.23".into(), "1.23".into(), 0)
        );
        // Only whole intervals within the window count.
        assert_eq!(candles(None, &swaps, &intervals(), (180, 60, 1)), []);
    }
}
