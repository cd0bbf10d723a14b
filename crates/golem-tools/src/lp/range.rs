//! Range that a call asks for, as ticks of its pool. Pure functions.

use alloy::primitives::U256;

use crate::positions::impossible;
use crate::shared::invalid;
use bardo_base::error::ToolError;
use bardo_base::units::TokenAmount;
use golem_protocols::uniswap::positions::PoolState;
use golem_protocols::uniswap::ratio::Ratio;
use golem_protocols::uniswap::v3::position::{TickRange, price_of, sqrt_price_of};

/// Decimals that a price may have.
const PRICE_DECIMALS: u8 = 30;

/// Decimals that a percentage may have.
const PERCENT_DECIMALS: u8 = 4;

/// Hundred percent, with [`PERCENT_DECIMALS`].
const WHOLE: u32 = 1_000_000;

/// Range as a call names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RangeWish {
    /// Prices of one whole token A in whole tokens of token B.
    Prices(String, String),
    /// Ticks of the pool.
    Ticks(i32, i32),
    /// Distance of both ends from the pool's price, in percent.
    Width(String),
}

impl RangeWish {
    /// Reads the parameters, of which exactly one kind must be given in full.
    ///
    /// # Errors
    /// `VALIDATION_FAILED` otherwise.
    pub(super) fn of(
        prices: [Option<String>; 2],
        ticks: [Option<i32>; 2],
        width: Option<String>,
    ) -> Result<Self, ToolError> {
        match (prices, ticks, width) {
            ([Some(lower), Some(upper)], [None, None], None) => Ok(Self::Prices(lower, upper)),
            ([None, None], [Some(lower), Some(upper)], None) => Ok(Self::Ticks(lower, upper)),
            ([None, None], [None, None], Some(width)) => Ok(Self::Width(width)),
            _ => {
                let what =
                    "name the range by price_lower and price_upper, by tick_lower and tick_upper, or by width_pct";
                Err(invalid("price_lower", &what))
            }
        }
    }

    /// Reads the parameters like [`RangeWish::of`]; `None` if none is given.
    ///
    /// # Errors
    /// `VALIDATION_FAILED` for a part of a range, or for two.
    pub(super) fn if_named(
        prices: [Option<String>; 2],
        ticks: [Option<i32>; 2],
        width: Option<String>,
    ) -> Result<Option<Self>, ToolError> {
        match (&prices, &ticks, &width) {
            ([None, None], [None, None], None) => Ok(None),
            _ => Self::of(prices, ticks, width).map(Some),
        }
    }

    /// Ticks of the range, rounded outward to the pool's spacing. `decimals` are those of token0 and token1, and
    /// `a_is_first` is true if the call's token A is token0.
    ///
    /// # Errors
    /// `VALIDATION_FAILED` for a range that the pool cannot have.
    pub(super) fn ticks(&self, pool: &PoolState, decimals: [u8; 2], a_is_first: bool) -> Result<TickRange, ToolError> {
        let spacing = pool.tick_spacing;
        match self {
            // Rounded outward, reversed ticks of one step would make a range.
            Self::Ticks(lower, upper) if lower >= upper => {
                Err(invalid("tick_upper", &"the upper tick must be above the lower one"))
            }
            Self::Ticks(lower, upper) => {
                TickRange::outward(*lower, *upper, spacing).map_err(|error| invalid("tick_lower", &error))
            }
            Self::Prices(lower, upper) => {
                let root = |text: &str, parameter: &str| {
                    let price = parse(text, PRICE_DECIMALS, parameter)?;
                    let raw = raw_price(&price, decimals, a_is_first);
                    let root = raw.as_ref().and_then(sqrt_price_of);
                    root.ok_or_else(|| invalid(parameter, &format_args!("{text} is not a price that a pool can have")))
                };
                let (lower, upper) = (root(lower, "price_lower")?, root(upper, "price_upper")?);
                if lower == upper || (lower < upper) != a_is_first {
                    return Err(invalid("price_upper", &"the upper price must be above the lower one"));
                }
                let (low, high) = (lower.min(upper), lower.max(upper));
                TickRange::around_prices(low, high, spacing).map_err(|error| invalid("price_lower", &error))
            }
            Self::Width(text) => {
                let what = "use a percentage above 0 and below 100, such as \"10\"";
                let width = TokenAmount::parse(text.trim().trim_end_matches('%').trim_end(), PERCENT_DECIMALS);
                let width = width.map_err(|_| invalid("width_pct", &what))?.raw();
                let whole = U256::from(WHOLE);
                if width.is_zero() || width >= whole {
                    return Err(invalid("width_pct", &what));
                }
                let price = price_of(pool.sqrt_price_x96)
                    .ok_or_else(|| impossible(golem_protocols::uniswap::v3::math::MathError::PriceOutOfRange))?;
                let end = |parts: U256| Ratio::of(parts, whole).and_then(|part| sqrt_price_of(&price.times(&part)));
                let ends = end(whole.saturating_sub(width)).zip(end(whole.saturating_add(width)));
                let (low, high) = ends.ok_or_else(|| invalid("width_pct", &"no pool has such prices"))?;
                TickRange::around_prices(low, high, spacing).map_err(|error| invalid("width_pct", &error))
            }
        }
    }
}

fn parse(text: &str, decimals: u8, parameter: &str) -> Result<Ratio, ToolError> {
    let what = "use a price above zero in decimal digits, such as \"3400.5\"";
    let amount = TokenAmount::parse(text.trim(), decimals).map_err(|_| invalid(parameter, &what))?;
    let one = U256::from(10).checked_pow(U256::from(decimals)).unwrap_or(U256::MAX);
    Ratio::of(amount.raw(), one).filter(|_| !amount.raw().is_zero()).ok_or_else(|| invalid(parameter, &what))
}

/// Price of raw token0 in raw token1, from the price of whole token A in whole tokens of token B.
fn raw_price(price: &Ratio, decimals: [u8; 2], a_is_first: bool) -> Option<Ratio> {
    let [one0, one1] = decimals.map(|decimals| U256::from(10).checked_pow(U256::from(decimals)).map(Ratio::whole));
    let whole = if a_is_first { price.clone() } else { Ratio::whole(U256::ONE).over(price)? };
    whole.times(&one1?).over(&one0?)
}

#[cfg(test)]
mod tests {
    use alloy::primitives::Address;
    use golem_protocols::uniswap::positions::PositionPool;
    use golem_protocols::uniswap::v3::tick_math::sqrt_price_at_tick;

    use super::*;

    fn pool(tick: i32, tick_spacing: i32) -> PoolState {
        PoolState {
            pool: PositionPool::Contract(Address::repeat_byte(3)),
            token0: Address::repeat_byte(1),
            token1: Address::repeat_byte(2),
            fee: 3_000,
            sqrt_price_x96: sqrt_price_at_tick(tick).unwrap(),
            tick,
            tick_spacing,
            provider_fee: [3_000; 2],
        }
    }

    fn ticks(wish: &RangeWish, pool: &PoolState, decimals: [u8; 2], a_is_first: bool) -> Option<(i32, i32)> {
        wish.ticks(pool, decimals, a_is_first).ok().map(|range| (range.lower(), range.upper()))
    }

    fn prices(lower: &str, upper: &str) -> RangeWish {
        RangeWish::Prices(lower.to_owned(), upper.to_owned())
    }

    /// By hand: WETH of 18 decimals as token0, at 3,000 to 4,000 USDC of 6 decimals: raw 3 · 10^-9 and 4 · 10^-9, whose
    /// logarithms to the base 1.0001 are −196,256.4 and −193,379.4. With USDC as token0 the signs and ends change places.
    #[test]
    fn prices_are_those_of_token_a_in_token_b() {
        assert_eq!(ticks(&prices("3000", "4000"), &pool(-194_000, 60), [18, 6], true), Some((-196_260, -193_320)));
        assert_eq!(ticks(&prices("3000", "4000"), &pool(194_000, 60), [6, 18], false), Some((193_320, 196_260)));
        assert_eq!(ticks(&prices("3000", "4000"), &pool(-194_000, 1), [18, 6], true), Some((-196_257, -193_379)));
        for (lower, upper) in [("4000", "3000"), ("3000", "3000"), ("0", "3000"), ("-1", "3000"), ("a", "3000")] {
            assert_eq!(ticks(&prices(lower, upper), &pool(-194_000, 60), [18, 6], true), None, "{lower} {upper}");
        }
    }

    /// Ten percent around a price of one: 0.9 and 1.1 have the logarithms −1,053.66 and 953.15.
    #[test]
    fn a_width_is_around_the_pools_price() {
        let width = |text: &str| RangeWish::Width(text.to_owned());
        assert_eq!(ticks(&width("10"), &pool(0, 1), [18, 18], true), Some((-1_054, 954)));
        assert_eq!(ticks(&width("10 %"), &pool(0, 60), [18, 18], false), Some((-1_080, 960)));
        for text in ["0", "100", "-5", "ten"] {
            assert_eq!(ticks(&width(text), &pool(0, 60), [18, 18], true), None, "{text}");
        }
    }

    #[test]
    fn a_call_names_its_range_once() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(RangeWish::of([some("1"), some("2")], [None; 2], None), Ok(prices("1", "2")));
        assert_eq!(RangeWish::of([None, None], [Some(1), Some(2)], None), Ok(RangeWish::Ticks(1, 2)));
        assert!(RangeWish::of([None, None], [None; 2], None).is_err());
        assert!(RangeWish::of([some("1"), None], [None; 2], None).is_err());
        assert!(RangeWish::of([some("1"), some("2")], [None; 2], some("5")).is_err());
        assert!(RangeWish::of([None, None], [Some(1), Some(2)], some("5")).is_err());
    }
}
