//! Route figures for proposals.

use alloy::primitives::{Address, U256};

use bardo_base::units::BasisPoints;
use golem_protocols::uniswap::ratio::Ratio;
use golem_protocols::uniswap::routing::Route;

/// Returns the price impact in whole basis points, rounded up.
pub(super) fn impact_of(route: &Route) -> BasisPoints {
    whole_points(&route.price_impact).1
}

/// Returns the price impact in whole basis points, rounded down.
pub(super) fn impact_reached(route: &Route) -> BasisPoints {
    whole_points(&route.price_impact).0
}

/// Converts a fraction to whole basis points, rounded down and up; capped at 10,000.
fn whole_points(part: &Ratio) -> (BasisPoints, BasisPoints) {
    let at = |points: u32| Ratio::of(U256::from(points), U256::from(10_000));
    let up = (1..10_000).find(|points| at(*points).is_some_and(|bound| *part <= bound)).unwrap_or(10_000);
    let down = if at(up).is_some_and(|bound| *part >= bound) { up } else { up.saturating_sub(1) };
    let of = |points| BasisPoints::new(points).unwrap_or(BasisPoints::ZERO);
    (of(down), of(up))
}

/// Returns the contracts of the pools on the route.
pub(super) fn pools_of(route: &Route) -> Vec<Address> {
    let hops = route.legs.iter().flat_map(|leg| &leg.hops);
    let mut pools: Vec<Address> = hops.filter_map(|hop| hop.pool.contract()).collect();
    pools.sort_unstable();
    pools.dedup();
    pools
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_impact_is_computed_from_both_directions() {
        let told = |millionths: u64| {
            let (down, up) = whole_points(&Ratio::of(U256::from(millionths), U256::from(1_000_000)).unwrap());
            (down.get(), up.get())
        };
        // One basis point is one hundred millionths.
        assert_eq!([told(9_999), told(10_000), told(10_001)], [(99, 100), (100, 100), (100, 101)]);
        assert_eq!([told(1), told(999_999), told(1_000_000)], [(0, 1), (9_999, 10_000), (10_000, 10_000)]);
    }
}
