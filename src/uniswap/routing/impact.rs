//! Price impact as exact fractions.

use alloy::primitives::U256;

use crate::uniswap::ratio::Ratio;

/// How far `amount_out` falls short of what the legs' inputs are worth at their mid prices, fees
/// counted as impact: `(Σ mid × in − out) / Σ mid × in`. Nothing when that worth is zero.
pub fn price_impact_with_fee(legs: &[(U256, Ratio)], amount_out: U256) -> Option<Ratio> {
    let worth = legs
        .iter()
        .map(|(amount_in, mid_price)| mid_price.times(&Ratio::whole(*amount_in)))
        .reduce(|sum, leg| sum.plus(&leg))?;
    worth.minus(&Ratio::whole(amount_out)).over(&worth)
}
