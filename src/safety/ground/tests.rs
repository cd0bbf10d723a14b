//! What the witnesses of one token say together, and which of their failures leave it without a price.

use super::*;
use crate::chain::price::PriceOrigin;

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

/// Highest and lowest; nothing where there is no price.
fn said(feed: Result<&str, NoPrice>, mean: Result<&str, NoPrice>, is_stable: bool) -> Option<(String, String)> {
    let spread = spread(&report(feed), &mean.map(price), is_stable).ok()?;
    Some((spread.highest.to_string(), spread.lowest.to_string()))
}

fn both(highest: &str, lowest: &str) -> Option<(String, String)> {
    Some((highest.to_owned(), lowest.to_owned()))
}

/// A source that knows the token and is not well.
fn unwell() -> NoPrice {
    NoPrice::Stale { age: Duration::from_secs(90_000), limit: Duration::from_secs(3_600) }
}

#[test]
fn two_witnesses_span_a_range_and_one_stands_alone_where_the_other_knows_nothing() {
    assert_eq!(said(Ok("3400"), Ok("3300"), false), both("3400", "3300"));
    assert_eq!(said(Ok("3300"), Ok("3400"), false), both("3400", "3300"));
    assert_eq!(said(Ok("3400"), Err(NoPrice::UnknownToken), false), both("3400", "3400"));
    assert_eq!(said(Err(NoPrice::UnknownToken), Ok("3300"), false), both("3300", "3300"));
    assert_eq!(said(Err(NoPrice::UnknownToken), Err(NoPrice::UnknownToken), false), None);
}

#[test]
fn a_witness_that_is_unwell_leaves_no_price_however_well_the_other_is() {
    assert_eq!(said(Err(unwell()), Ok("3300"), false), None, "a feed that knows the token must be well");
    assert_eq!(said(Ok("3400"), Err(unwell()), false), None);
    assert_eq!(said(Ok("3400"), Err(NoPrice::NoAnswer), false), None);
}

#[test]
fn a_dollar_coin_off_its_peg_has_no_price() {
    // Two hundredths of a dollar either way.
    for (dollars, holds) in [("1", true), ("0.98", true), ("1.02", true), ("0.9799", false), ("1.0201", false)] {
        assert_eq!(said(Ok(dollars), Err(NoPrice::UnknownToken), true).is_some(), holds, "{dollars}");
        assert!(said(Ok(dollars), Err(NoPrice::UnknownToken), false).is_some(), "any other token may cost that");
    }
    // Of a dollar coin the mean would tell of the coin it is taken in: the feed counts alone.
    assert_eq!(said(Ok("1"), Ok("0.5"), true), both("1", "1"));
    assert_eq!(said(Err(NoPrice::UnknownToken), Ok("0.5"), true), None);
}
