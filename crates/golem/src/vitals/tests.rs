use super::{HighWaterMark, MARK_DWELL, drawdown};
use bardo_base::units::Usd;

const START: u64 = 1_790_000_000_000;

fn usd(text: &str) -> Usd {
    text.parse().unwrap()
}

/// Returns the mark after these readings, given in milliseconds after the start.
fn after(known: Option<&str>, readings: &[(u64, Option<&str>)]) -> Option<Usd> {
    let mut mark = HighWaterMark::new(known.map(usd));
    for (at, equity) in readings {
        mark.note(START + at, equity.map(usd));
    }
    mark.high
}

#[test]
fn the_first_reading_of_a_life_sets_its_mark() {
    assert_eq!(after(None, &[(0, None), (5_000, Some("100"))]), Some(usd("100")));
}

#[test]
fn one_reading_that_is_too_high_does_not_raise_the_mark() {
    let spike = [(0, Some("100")), (30_000, Some("100")), (35_000, Some("900")), (40_000, Some("100"))];
    assert_eq!(after(None, &spike), Some(usd("100")));
    // A single high reading at the start of the process does not raise it either.
    assert_eq!(after(Some("100"), &[(0, Some("900")), (5_000, Some("100"))]), Some(usd("100")));
}

#[test]
fn the_mark_rises_to_the_lowest_reading_of_the_dwell() {
    let held = [(0, Some("120")), (20_000, Some("110")), (40_000, Some("130")), (MARK_DWELL, Some("140"))];
    assert_eq!(after(Some("100"), &held), Some(usd("110")));
    assert_eq!(after(Some("100"), held.split_last().unwrap().1), Some(usd("100")), "a moment before");
    let later = [held.as_slice(), &[(MARK_DWELL + 20_000, Some("140"))]].concat();
    // The dwell of the newest reading begins at the reading of 110.
    assert_eq!(after(Some("100"), &later), Some(usd("110")));
    let later = [later.as_slice(), &[(MARK_DWELL + 40_000, Some("140"))]].concat();
    assert_eq!(after(Some("100"), &later), Some(usd("130")));
}

#[test]
fn a_failed_reading_restarts_the_dwell() {
    let gap = [(0, Some("120")), (30_000, None), (40_000, Some("120")), (MARK_DWELL, Some("120"))];
    assert_eq!(after(Some("100"), &gap), Some(usd("100")));
    let on = [gap.as_slice(), &[(40_000 + MARK_DWELL, Some("120"))]].concat();
    assert_eq!(after(Some("100"), &on), Some(usd("120")));
}

#[test]
fn a_clock_that_was_set_back_counts_for_no_time() {
    let back = [(0, Some("120")), (90_000, Some("120")), (10_000, Some("120")), (30_000, Some("120"))];
    let mut mark = HighWaterMark::new(Some(usd("150")));
    for (at, equity) in back {
        mark.note(START + at, equity.map(usd));
    }
    assert_eq!(mark.high, Some(usd("150")));
    assert_eq!(mark.recent.len(), 3, "the reading of the time that has not come is gone: {mark:?}");
}

#[test]
fn equity_above_the_mark_is_zero_drawdown_and_known() {
    let lost = |equity: &str, high: &str| drawdown(usd(equity), usd(high));
    assert_eq!([lost("97", "100"), lost("97.01", "100"), lost("0", "100")], [Some(300), Some(299), Some(10_000)]);
    assert_eq!([lost("100", "100"), lost("100.01", "100"), lost("900", "100")], [Some(0); 3]);
    assert_eq!([lost("0", "0"), lost("5", "0")], [None; 2], "there was nothing to lose");
}
