//! Price impact as exact fractions: the trade's output compared with its value at mid prices.

use alloy::primitives::U256;

use super::RouteLeg;
use crate::uniswap::ratio::Ratio;
use crate::uniswap::v3::FEE_WHOLE;

/// Computes the share of value lost to price movement, without fees: compared with the mid prices after each pool's
/// fee. `None` if the legs' value is zero.
pub fn price_impact(legs: &[RouteLeg], amount_out: U256) -> Option<Ratio> {
    let whole = U256::from(FEE_WHOLE);
    let mut priced = Vec::with_capacity(legs.len());
    for leg in legs {
        let mut price = leg.mid_price.clone();
        for hop in &leg.hops {
            price = price.times(&Ratio::of(U256::from(FEE_WHOLE.saturating_sub(hop.fee)), whole)?);
        }
        priced.push((leg.amount_in, price));
    }
    price_impact_with_fee(&priced, amount_out)
}

/// Computes the shortfall of `amount_out` against the legs' value at their mid prices, with fees counted as impact: `(Σ
/// mid × in − out) / Σ mid × in`. `None` if that value is zero.
pub fn price_impact_with_fee(legs: &[(U256, Ratio)], amount_out: U256) -> Option<Ratio> {
    let worth = legs
        .iter()
        .map(|(amount_in, mid_price)| mid_price.times(&Ratio::whole(*amount_in)))
        .reduce(|sum, leg| sum.plus(&leg))?;
    worth.minus(&Ratio::whole(amount_out)).over(&worth)
}
