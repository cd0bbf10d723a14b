//! Tests of the combined price sources of one token, and of the failures that leave it without a price.

use super::*;
use golem_chain::price::{Price, PriceOrigin};
use golem_protocols::uniswap::twap::PoolMean;

const TOKEN: Address = Address::repeat_byte(7);

fn usd(text: &str) -> Usd {
    text.parse().unwrap()
}

fn price(dollars: &str) -> Price {
    Price { usd: usd(dollars), source: PriceOrigin::Fixed, observed_at: None, age: None }
}

fn report(feed: Result<&str, NoPrice>) -> PriceReport {
    match feed {
        Ok(dollars) => PriceReport { token: TOKEN, price: Some(price(dollars)), refusals: vec![] },
        Err(why) => PriceReport { token: TOKEN, price: None, refusals: vec![("feeds", why)] },
    }
}

/// One pool's mean and recent price.
fn pool(mean: &str, lately: Option<&str>) -> PoolMean {
    PoolMean { pool: Address::repeat_byte(9), usd: usd(mean), lately: lately.map(usd) }
}

fn pools(pools: Vec<PoolMean>) -> Result<PoolPrices, NoPrice> {
    Ok(PoolPrices { pools, window: Duration::from_secs(1_800), read_at: 0 })
}

/// Highest and lowest price; `None` without a price.
fn said(feed: Result<&str, NoPrice>, mean: Result<&str, NoPrice>, is_stable: bool) -> Option<(String, String)> {
    let mean = mean.and_then(|dollars| pools(vec![pool(dollars, None)]));
    let all = spread(&report(feed), &mean, is_stable).ok()?.all;
    Some((all.highest.to_string(), all.lowest.to_string()))
}

/// Highest and lowest price of all sources, then of the current sources, in whole dollars.
fn bands(spread: &PriceSpread) -> [u32; 4] {
    let present = spread.present.unwrap();
    let ends = [spread.all.highest, spread.all.lowest, present.highest, present.lowest];
    ends.map(|usd| usd.to_fixed(0, Rounding::Down).parse().unwrap())
}

#[test]
fn a_straying_pool_is_outvoted_by_the_feed_and_by_other_pools() {
    let fed = |pools_of: Vec<PoolMean>| spread(&report(Ok("100")), &pools(pools_of), false).unwrap();
    // One pool: near the feed it counts, after a fall it lags, otherwise it does not count.
    assert_eq!(bands(&fed(vec![pool("102", Some("99"))])), [102, 100, 100, 99]);
    assert_eq!(bands(&fed(vec![pool("150", Some("101"))])), [150, 100, 101, 100]);
    for straying in [pool("500", Some("500")), pool("50", Some("50")), pool("500", None)] {
        let spread = fed(vec![straying]);
        assert_eq!(bands(&spread), [100; 4]);
        assert_eq!(spread.outvoted, Some(straying.usd), "the operator is asked");
    }
    // Manipulated in the last half minute only.
    assert_eq!(bands(&fed(vec![pool("102", Some("300"))])), [102, 100, 100, 100]);
    // Two pools: a stray one moves the median of three no further than to the next price source.
    assert_eq!(bands(&fed(vec![pool("99", Some("99")), pool("500", Some("500"))])), [100; 4]);
    assert_eq!(bands(&fed(vec![pool("50", Some("50")), pool("101", Some("101"))])), [100; 4]);
    // Three pools: the middle two of four.
    let three = vec![pool("98", Some("98")), pool("101", Some("101")), pool("500", Some("500"))];
    assert_eq!(bands(&fed(three)), [101, 100, 101, 100]);
    // Several agreeing pools count against a wrong feed.
    let spread = fed(vec![pool("110", Some("110")), pool("110", Some("110")), pool("111", None)]);
    assert_eq!((bands(&spread), spread.several_pools), ([110, 100, 110, 100], true));
}

#[test]
fn without_a_feed_the_median_of_pools_is_the_price_and_no_equity() {
    let unfed = |pools_of| spread(&report(Err(NoPrice::UnknownToken)), &pools(pools_of), false).unwrap();
    let three = unfed(vec![pool("98", None), pool("101", None), pool("500", None)]);
    assert_eq!((three.all.highest, three.all.lowest), (usd("101"), usd("101")));
    let two = unfed(vec![pool("100", None), pool("500", None)]);
    assert_eq!((two.all.highest, two.all.lowest), (usd("500"), usd("100")), "nobody knows which of the two is right");
    assert_eq!((two.feed, two.present), (None, None));

    let token = crate::sample::token(TOKEN, "UNFED", 18);
    let amount = U256::from(10).pow(U256::from(18));
    let held = BTreeMap::from([(token.id, (token, amount))]);
    let spreads = |one: PriceSpread| PriceSpreads { of: BTreeMap::from([(TOKEN, Ok(one))]), wrapped: None };
    let by_pools = portfolio(&held, &AccountPositions::default(), &spreads(two)).unwrap();
    assert_eq!((by_pools.equity, by_pools.by_pools), (Usd::ZERO, usd("100")));
    // With a feed, no pool moves the equity.
    let bent = vec![pool("50", Some("50")), pool("51", Some("51"))];
    let fed = spread(&report(Ok("100")), &pools(bent), false).unwrap();
    let fed = portfolio(&held, &AccountPositions::default(), &spreads(fed)).unwrap();
    assert_eq!((fed.equity, fed.by_pools), (usd("100"), Usd::ZERO));
}

fn both(highest: &str, lowest: &str) -> Option<(String, String)> {
    Some((highest.to_owned(), lowest.to_owned()))
}

/// A source that knows the token and has failed.
fn unwell() -> NoPrice {
    NoPrice::Stale { age: Duration::from_secs(90_000), limit: Duration::from_secs(3_600) }
}

#[test]
fn two_price_sources_give_a_range_and_one_alone_a_point() {
    assert_eq!(said(Ok("3400"), Ok("3300"), false), both("3400", "3300"));
    assert_eq!(said(Ok("3320"), Ok("3400"), false), both("3400", "3320"));
    assert_eq!(said(Ok("3400"), Err(NoPrice::UnknownToken), false), both("3400", "3400"));
    assert_eq!(said(Err(NoPrice::UnknownToken), Ok("3300"), false), both("3300", "3300"));
    assert_eq!(said(Err(NoPrice::UnknownToken), Err(NoPrice::UnknownToken), false), None);
}

#[test]
fn a_witness_that_is_unwell_leaves_no_price_however_well_the_other_is() {
    assert_eq!(said(Err(unwell()), Ok("3300"), false), None, "a feed that knows the token must be well");
    assert_eq!(said(Ok("3400"), Err(unwell()), false), None);
    assert_eq!(said(Ok("3400"), Err(NoPrice::NoAnswer), false), None);
    for no_witness in [
        NoPrice::TooShallow { depth: usd("6"), minimum: usd("100000") },
        NoPrice::TooYoung { window: Duration::from_secs(1_800) },
        NoPrice::NotTraded { window: Duration::from_secs(1_800) },
    ] {
        assert_eq!(said(Ok("3400"), Err(no_witness.clone()), false), both("3400", "3400"), "{no_witness}");
        assert_eq!(said(Err(NoPrice::UnknownToken), Err(no_witness), false), None);
    }
}

#[test]
fn a_dollar_coin_off_its_peg_has_no_price() {
    // Two cents either way.
    for (dollars, holds) in [("1", true), ("0.98", true), ("1.02", true), ("0.9799", false), ("1.0201", false)] {
        assert_eq!(said(Ok(dollars), Err(NoPrice::UnknownToken), true).is_some(), holds, "{dollars}");
        assert!(said(Ok(dollars), Err(NoPrice::UnknownToken), false).is_some(), "any other token may cost that");
    }
    // The mean of a stablecoin's pools would reflect the quote token, so the feed counts alone.
    assert_eq!(said(Ok("1"), Ok("0.5"), true), both("1", "1"));
    assert_eq!(said(Err(NoPrice::UnknownToken), Ok("0.5"), true), None);
}
