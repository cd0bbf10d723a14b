//! Display of figures from the decimal strings of tools. Results are for display only and are never used in
//! calculations.

use rust_decimal::Decimal;

use super::Moment;
use super::paint::Row;
use super::words::counted;
use crate::format::{age, grouped, time_of_day};
use crate::theme::Role;
use bardo_base::text::SafeText;

pub use bardo_base::display::readable;

/// Maximum length of a text that should have been a figure, in characters.
const MAX_ODD: usize = 40;

/// Amount that is held or received, rounded down to useful digits. The details of a call show all digits. Text that is
/// not a plain number is cleaned and returned.
pub fn amount(numeral: &str) -> String {
    match useful_digits(numeral) {
        None => SafeText::clean(numeral, MAX_ODD).as_str().to_owned(),
        Some((whole, kept, _)) if kept.bytes().all(|digit| digit == b'0') => grouped(whole),
        Some((whole, kept, _)) => format!("{}.{kept}", grouped(whole)),
    }
}

/// Amount that is paid or may be spent, cut to useful digits. One that goes on ends with `…`: it states neither less than
/// what is paid nor more than what there is.
pub fn paid(numeral: &str) -> String {
    match useful_digits(numeral) {
        // Zeros show where it is cut.
        Some((whole, kept, true)) => format!("{}.{kept}…", grouped(whole)),
        Some((_, _, false)) | None => amount(numeral),
    }
}

/// Returns true if [`amount`] and [`paid`] leave out digits of the number.
pub fn is_rounded(numeral: &str) -> bool {
    amount(numeral) != paid(numeral)
}

/// Whole part and useful digits after the point of a plain number, and whether others are left out; `None` for other text.
fn useful_digits(numeral: &str) -> Option<(&str, &str, bool)> {
    let digits = |text: &str| text.chars().all(|c| c.is_ascii_digit());
    let (whole, fraction) = numeral.split_once('.').unwrap_or((numeral, ""));
    if whole.is_empty() || whole.len() > 60 || !digits(whole) || !digits(fraction) {
        return None;
    }
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        trimmed => trimmed,
    };
    let fraction = fraction.trim_end_matches('0');
    let places = match (whole, whole.len()) {
        // Four significant digits after the leading zeros.
        ("0", _) => fraction.len() - fraction.trim_start_matches('0').len() + 4,
        (_, 1..=2) => 4,
        _ => 2,
    };
    let kept = fraction.get(..places).unwrap_or(fraction);
    Some((whole, kept, kept.len() < fraction.len()))
}

/// Number in a tool's response; `None` for other text.
pub fn decimal(numeral: &str) -> Option<Decimal> {
    numeral.parse().ok()
}

/// Percentage with two digits; a smaller nonzero value is shown as `<0.01 %`.
pub fn percent(value: Decimal) -> String {
    let shown = value.round_dp(2);
    if shown.is_zero() && !value.is_zero() { "<0.01 %".to_owned() } else { format!("{shown:.2} %") }
}

/// Comparison of a result with its quote, with a role that marks a shortfall of 1 % or more. `None` if they cannot be
/// compared.
pub fn against_quote(actual: &str, quoted: &str) -> Option<(String, Role)> {
    against(actual, quoted, ["quote", "the quote"])
}

/// As [`against_quote`], with the names of the compared figure after `over` and after `exactly`.
pub(super) fn against(actual: &str, quoted: &str, [named, exact]: [&str; 2]) -> Option<(String, Role)> {
    let (actual, quoted) = (decimal(actual)?, decimal(quoted)?);
    if quoted.is_zero() {
        return None;
    }
    let change = actual.checked_sub(quoted)?.checked_div(quoted)?.checked_mul(Decimal::ONE_HUNDRED)?;
    if change.is_zero() {
        return Some((format!("exactly {exact}"), Role::StateGood));
    }
    let words = if change.is_sign_negative() { "under" } else { "over" };
    let far = change.abs() >= Decimal::ONE;
    let role = if change.is_sign_negative() && far { Role::StateCare } else { Role::StateGood };
    Some((format!("{} {words} {named}", percent(change.abs())), role))
}

/// Label and role for a price impact in percent: below 0.5, up to 2, and above.
pub fn impact_badge(percent: Option<Decimal>) -> (&'static str, Role) {
    match percent {
        None => ("NOT KNOWN", Role::StateCare),
        Some(percent) if percent < Decimal::new(5, 1) => ("OK", Role::StateGood),
        Some(percent) if percent <= Decimal::TWO => ("CARE", Role::StateCare),
        Some(_) => ("HIGH", Role::StateBad),
    }
}

/// Duration as text, such as `12 ms`, `0.1 s`, `6.1 s` or `2 min`.
pub fn took(millis: u64) -> String {
    match millis {
        0..=99 => format!("{millis} ms"),
        100..=99_999 => format!("{}.{} s", millis / 1000, millis % 1000 / 100),
        _ => age(millis / 1000),
    }
}

/// Duration as minutes and seconds, such as `1:10`; from 100 minutes as words.
pub fn countdown(seconds: u64) -> String {
    if seconds < 6_000 { format!("{}:{:02}", seconds / 60, seconds % 60) } else { age(seconds) }
}

/// Time left until a second since the Unix epoch; without motion, that time of day.
pub fn left(until_seconds: u64, now: Moment) -> String {
    if !now.motion {
        return format!("until {}", time_of_day(until_seconds));
    }
    match until_seconds.saturating_sub(now.millis / 1000) {
        0 => "expired".to_owned(),
        seconds => format!("{} left", countdown(seconds)),
    }
}

/// Age of a moment in milliseconds since the Unix epoch; without motion, that time of day.
pub fn ago(at_millis: u64, now: Moment) -> String {
    if !now.motion {
        return format!("at {}", time_of_day(at_millis / 1000));
    }
    match now.millis.saturating_sub(at_millis) / 1000 {
        0 => "just now".to_owned(),
        seconds => format!("{} ago", age(seconds)),
    }
}

/// Running time since a moment in milliseconds since the Unix epoch; without motion, that time of day.
pub fn running(at_millis: u64, now: Moment) -> String {
    if now.motion {
        took(now.millis.saturating_sub(at_millis) / 100 * 100)
    } else {
        format!("since {}", time_of_day(at_millis / 1000))
    }
}

/// JSON field as cleaned text: a string, a number, or a boolean as yes or no. `None` for other values.
pub fn text(value: &serde_json::Value, field: &str) -> Option<SafeText> {
    match value.get(field)? {
        serde_json::Value::String(text) => Some(SafeText::clean(text, 400)),
        serde_json::Value::Number(number) => Some(SafeText::clean(&number.to_string(), 80)),
        serde_json::Value::Bool(yes) => Some(SafeText::clean(if *yes { "yes" } else { "no" }, 8)),
        _ => None,
    }
}

/// Rows of the memory search for a call, and its effect.
pub(super) fn memory_rows(memory: Option<&(u32, Vec<SafeText>)>) -> Vec<Row> {
    let Some((similar, changes)) = memory else { return Vec::new() };
    if changes.is_empty() {
        let words = format!("{}, no changes", counted(*similar, "similar trade"));
        return vec![Row::new("memory: ", Role::TextDim).then(words, Role::TextDim)];
    }
    let row = |change: &SafeText| Row::new("memory: ", Role::TextDim).then(change.as_str(), Role::Text);
    changes.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn amounts_keep_what_says_something_and_what_is_paid_is_neither_less_nor_more() {
        for (given, held, pays) in [
            ("0.25", "0.25", "0.25"),
            ("500", "500", "500"),
            ("846.38012", "846.38", "846.38…"),
            ("1074.707276108501076874", "1,074.70", "1,074.70…"),
            ("0.000000123456", "0.0000001234", "0.0000001234…"),
            // A limit order of 0.123456 WETH once read 0.1235, more than it sold.
            ("0.123456", "0.1234", "0.1234…"),
            ("12.34567", "12.3456", "12.3456…"),
            ("999.999", "999.99", "999.99…"),
            ("9.99999", "9.9999", "9.9999…"),
            ("100.001", "100", "100.00…"),
            ("0", "0", "0"),
            ("0.0", "0", "0"),
            ("00012.50", "12.5", "12.5"),
            ("max", "max", "max"),
            ("1e9", "1e9", "1e9"),
            ("", "", ""),
        ] {
            assert_eq!((amount(given), paid(given)), (held.to_owned(), pays.to_owned()), "{given}");
            assert_eq!(is_rounded(given), held != pays, "{given}");
        }
    }

    proptest! {
        /// A displayed figure never exceeds the exact value, is close to it, and one that is paid says when it goes on.
        #[test]
        fn a_figure_is_cut_and_says_so_where_it_is_paid(whole in 0_u64..2_000_000, fraction in "[0-9]{0,18}") {
            let given = if fraction.is_empty() { whole.to_string() } else { format!("{whole}.{fraction}") };
            let exact: Decimal = given.parse().unwrap();
            let read = |shown: &str| shown.replace([',', '…'], "").parse::<Decimal>().unwrap();
            let (held, pays) = (amount(&given), paid(&given));
            prop_assert_eq!(read(&held), read(&pays));
            prop_assert!(read(&held) <= exact, "{} is shown as {}", given, held);
            // The difference is at most a thousandth.
            prop_assert!((exact - read(&held)) * Decimal::from(1000) <= exact.max(Decimal::ONE), "{} {}", given, held);
            prop_assert_eq!(pays.ends_with('…'), read(&pays) < exact);
            prop_assert_eq!(is_rounded(&given), pays.ends_with('…'));
        }
    }

    #[test]
    fn results_are_held_against_the_quote() {
        let said = |actual, quoted| against_quote(actual, quoted).unwrap();
        assert_eq!(said("99", "100"), ("1.00 % under quote".to_owned(), Role::StateCare));
        assert_eq!(said("99.98", "100").0, "0.02 % under quote");
        assert_eq!(said("100.5", "100"), ("0.50 % over quote".to_owned(), Role::StateGood));
        assert_eq!(said("100", "100").0, "exactly the quote");
        assert_eq!(said("99.9999999", "100").0, "<0.01 % under quote");
        assert_eq!(against_quote("1", "0"), None);
        assert_eq!(against_quote("x", "1"), None);
    }

    #[test]
    fn the_impact_badge_turns_where_the_specification_says() {
        let badge = |text: &str| impact_badge(decimal(text)).0;
        assert_eq!([badge("0"), badge("0.4999"), badge("0.5")], ["OK", "OK", "CARE"]);
        assert_eq!([badge("2"), badge("2.0001")], ["CARE", "HIGH"]);
        assert_eq!(impact_badge(None).0, "NOT KNOWN");
    }

    #[test]
    fn times_do_not_run_where_nothing_may_move() {
        let moving = Moment { millis: 1_700_000_010_000, motion: true };
        let still = Moment { motion: false, ..moving };
        assert_eq!(left(1_700_000_080, moving), "1:10 left");
        assert_eq!(left(1_700_000_080, still), "until 22:14:40");
        assert_eq!(left(1_700_000_010, moving), "expired");
        assert_eq!(ago(1_700_000_000_000, moving), "10 s ago");
        assert_eq!(ago(1_700_000_000_000, still), "at 22:13:20");
        assert_eq!(running(1_700_000_005_850, moving), "4.1 s");
        assert_eq!(took(12), "12 ms");
        assert_eq!(took(6_149), "6.1 s");
    }
}
