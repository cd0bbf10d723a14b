//! Display formats of figures. For screens only: nothing formatted here is used in a calculation.

use alloy_primitives::{Address, B256};
use rust_decimal::Decimal;

use crate::units::{Rounding, SignedUsd, TokenAmount, Usd};

/// Inserts commas between thousands of a plain numeral; a sign, a fraction and a final `…` stay as they are.
pub fn grouped(numeral: &str) -> String {
    let (sign, rest) = numeral.strip_prefix('-').map_or(("", numeral), |rest| ("-", rest));
    let whole = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (whole, fraction) = rest.split_at(whole);
    let mut text = String::with_capacity(numeral.len() + whole.len() / 3);
    text.push_str(sign);
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text.push_str(fraction);
    text
}

/// Dollars rounded to the nearest cent, half up, for display. A value that is compared with a limit is rounded at the
/// comparison, in the conservative direction.
pub fn nearest_cent(value: Usd) -> String {
    nearest(value, 2)
}

/// Dollars rounded half up to `places` decimals.
fn nearest(value: Usd, places: usize) -> String {
    // Rounding half up needs only the digit after the last one.
    let up = value.to_fixed(places + 1, Rounding::Down).ends_with(['5', '6', '7', '8', '9']);
    value.to_fixed(places, if up { Rounding::Up } else { Rounding::Down })
}

/// Dollars to the nearest cent, or finer where a cent would hide the price: `$3,412.56`, `$0.000123`.
pub fn dollars(value: Usd) -> String {
    let tiny = value.to_fixed(2, Rounding::Down) == "0.00" && !value.is_zero();
    let digits = if tiny { value.to_fixed(8, Rounding::Down) } else { nearest_cent(value) };
    format!("${}", grouped(&digits))
}

/// Gain or loss to the nearest cent with its sign: `+$12.50`, `-$2.07`; `$0.00` if it rounds to nothing.
pub fn signed_dollars(value: SignedUsd) -> String {
    let sign = if value.is_loss() { "-" } else { "+" };
    match nearest_cent(value.amount()).as_str() {
        "0.00" => "$0.00".to_owned(),
        cents => format!("{sign}${}", grouped(cents)),
    }
}

/// Dollars that exceed `limit`, to the nearest cent; less than a cent above it, rounded up, so that both differ.
pub fn dollars_above(value: Usd, limit: Usd) -> String {
    let nearest = dollars(value);
    let hidden = value > limit && nearest == dollars(limit);
    if hidden { format!("${}", grouped(&value.to_fixed(2, Rounding::Up))) } else { nearest }
}

/// Dollars that a limit leaves, rounded down to cents, or finer below one cent: an action of this value passes.
pub fn dollars_left(value: Usd) -> String {
    let cents = value.to_fixed(2, Rounding::Down);
    if cents == "0.00" { dollars(value) } else { format!("${}", grouped(&cents)) }
}

/// Dollars that count against a limit, rounded up to cents: never less than was used.
pub fn dollars_used(value: Usd) -> String {
    format!("${}", grouped(&value.to_fixed(2, Rounding::Up)))
}

/// A price in dollars, to the nearest: two decimals from a hundred dollars, four from one cent, eight below.
pub fn price(value: Usd) -> String {
    let whole = value.to_fixed(0, Rounding::Down).len();
    let tiny = value.to_fixed(2, Rounding::Down) == "0.00" && !value.is_zero();
    let places = if tiny {
        8
    } else if whole < 3 {
        4
    } else {
        2
    };
    format!("${}", grouped(&nearest(value, places)))
}

/// Dollars with about three digits: `$12.4 M`, `$850 k`, `$912`.
pub fn round_dollars(value: Usd) -> String {
    rounded_dollars(&value.to_fixed(0, Rounding::Down), Rounding::Down)
}

/// Whole dollars with about three digits.
fn rounded_dollars(whole: &str, rounding: Rounding) -> String {
    // A dollar value is below 2^96, so it always fits.
    let whole: u128 = whole.parse().unwrap_or(u128::MAX);
    for (unit, suffix) in [(1_000_000_000_000, " T"), (1_000_000_000, " B"), (1_000_000, " M"), (1_000, " k")] {
        if whole >= unit {
            // Tenths of the unit below a hundred of it, else whole ones.
            let step = if whole / unit < 100 { unit / 10 } else { unit };
            let steps = if rounding == Rounding::Up { whole.div_ceil(step) } else { whole / step };
            let (count, tenth) = (steps * step / unit, steps * step % unit / (unit / 10));
            let digits = grouped(&count.to_string());
            return if step < unit { format!("${digits}.{tenth}{suffix}") } else { format!("${digits}{suffix}") };
        }
    }
    format!("${whole}")
}

/// The nearest whole dollars, with about three digits from a million up: `$1,966`, `$26,143`, `$12.4 M`.
pub fn whole_dollars(value: Usd) -> String {
    whole_or_rounded(&nearest(value, 0), Rounding::Down)
}

/// Whole dollars that count against a limit, rounded up: never less than was used.
pub fn whole_dollars_used(value: Usd) -> String {
    whole_or_rounded(&value.to_fixed(0, Rounding::Up), Rounding::Up)
}

fn whole_or_rounded(whole: &str, rounding: Rounding) -> String {
    if whole.len() <= 6 { format!("${}", grouped(whole)) } else { rounded_dollars(whole, rounding) }
}

/// Formats milliseconds since the Unix epoch as `2026-11-22 01:19:10Z`, with Howard Hinnant's `civil_from_days`
/// (<https://howardhinnant.github.io/date_algorithms.html>).
pub fn utc(millis: u64) -> String {
    let seconds = millis / 1_000;
    let days = seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}Z")
}

/// A price ratio with a readable number of digits: `3,412.5521`, `68,010.20`, `0.05014`.
pub fn ratio(value: Decimal) -> String {
    let places = if value >= Decimal::from(10_000) {
        2
    } else if value >= Decimal::ONE {
        4
    } else {
        // Five significant digits after the leading zeros.
        let zeros = value.normalize().scale().saturating_sub(digits(value.normalize().mantissa().unsigned_abs()));
        zeros + 5
    };
    let fixed = value.trunc_with_scale(places);
    grouped(&format!("{fixed:.*}", places.min(28) as usize))
}

fn digits(mantissa: u128) -> u32 {
    mantissa.checked_ilog10().map_or(0, |log| log + 1)
}

/// An amount with at most `places` decimals; `…` marks that more digits exist.
pub fn amount(value: TokenAmount, places: usize) -> String {
    grouped(&value.shortened(places).to_string())
}

/// Basis points as a signed percentage: 4 is `+0.04 %`.
pub fn signed_percent(points: i64) -> String {
    let sign = match points {
        0 => "",
        1.. => "+",
        _ => "−",
    };
    let points = points.unsigned_abs();
    format!("{sign}{}.{:02} %", grouped(&(points / 100).to_string()), points % 100)
}

/// A V3 fee in hundredths of a basis point, as a percentage: 500 is `0.05 %`.
pub fn fee(pips: u32) -> String {
    let percent = Decimal::new(i64::from(pips), 4).normalize();
    format!("{percent} %")
}

/// Wei as gwei with three significant digits: `0.914 gwei`, `12.5 gwei`.
pub fn gwei(wei: u128) -> String {
    let whole = wei / 1_000_000_000;
    let places = if whole >= 100 {
        0
    } else if whole >= 10 {
        1
    } else {
        3
    };
    let thousandths = wei / 1_000_000 % 1000;
    let fraction = format!("{thousandths:03}");
    let kept = fraction.get(..places).unwrap_or("").trim_end_matches('0');
    let whole = grouped(&whole.to_string());
    match (kept.is_empty(), wei > 0 && wei < 1_000_000) {
        (_, true) => "<0.001 gwei".to_owned(),
        (true, _) => format!("{whole} gwei"),
        (false, _) => format!("{whole}.{kept} gwei"),
    }
}

/// Share of `part` in `whole` as a whole percentage, such as the fill level of a block; a small share is `<1 %`, not
/// zero.
pub fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "–".to_owned();
    }
    let percent = u128::from(part) * 100 / u128::from(whole);
    if percent == 0 && part > 0 { "<1 %".to_owned() } else { format!("{percent} %") }
}

/// Whole percentages of the parts that add up to the rounded percentage of their sum: the largest remainders are
/// rounded up. `None` for an unknown part, or if the whole is zero.
pub fn whole_percents(parts: &[Option<u128>], whole: u128) -> Vec<Option<u128>> {
    if whole == 0 {
        return vec![None; parts.len()];
    }
    let hundredfold = |part: u128| part.saturating_mul(100);
    let mut percents: Vec<Option<u128>> = parts.iter().map(|part| part.map(|part| hundredfold(part) / whole)).collect();
    let sum = parts.iter().flatten().copied().fold(0, u128::saturating_add);
    let together = hundredfold(sum).saturating_add(whole / 2) / whole;
    let missing = together.saturating_sub(percents.iter().flatten().copied().fold(0, u128::saturating_add));
    let rest = |at: &usize| parts.get(*at).copied().flatten().map_or(0, |part| hundredfold(part) % whole);
    let mut order: Vec<usize> = (0..parts.len()).filter(|at| rest(at) > 0).collect();
    order.sort_by_key(|at| std::cmp::Reverse(rest(at)));
    for at in order.into_iter().take(usize::try_from(missing).unwrap_or(usize::MAX)) {
        if let Some(Some(percent)) = percents.get_mut(at) {
            *percent = percent.saturating_add(1);
        }
    }
    percents
}

/// A duration since an event, in one unit: `now`, `12 s`, `5 min`, `3 h`, `2 d`.
pub fn age(seconds: u64) -> String {
    match seconds {
        0 => "now".to_owned(),
        1..=99 => format!("{seconds} s"),
        100..=5_999 => format!("{} min", seconds / 60),
        6_000..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// A time to wait, in its two largest units, rounded up so that nobody comes too early: `15 s`, `55 min 51 s`,
/// `1 day`, `3 days 1 h`.
pub fn wait(seconds: u64) -> String {
    const UNITS: [(u64, u64, &str, &str); 3] =
        [(86_400, 3_600, "day", "h"), (3_600, 60, "h", "min"), (60, 1, "min", "s")];
    let up_to = |unit: u64| seconds.div_ceil(unit).saturating_mul(unit);
    // Rounded up, it may fill the larger unit.
    let rounded = match seconds {
        0..=3_599 => seconds,
        3_600..=86_399 => up_to(60),
        _ => up_to(3_600),
    };
    let Some((unit, smaller, name, less)) = UNITS.into_iter().find(|(unit, ..)| rounded >= *unit) else {
        return format!("{seconds} s");
    };
    let (whole, rest) = (rounded / unit, rounded % unit / smaller);
    let plural = if name == "day" && whole != 1 { "s" } else { "" };
    let rest = if rest == 0 { String::new() } else { format!(" {rest} {less}") };
    format!("{whole} {name}{plural}{rest}")
}

/// Time of day of a Unix time in seconds, in UTC.
pub fn time_of_day(seconds: u64) -> String {
    let day = seconds % 86_400;
    format!("{:02}:{:02}:{:02}", day / 3600, day / 60 % 60, day % 60)
}

/// A count with its noun, such as `1 entry` and `2,000 entries`.
pub fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(&count.to_string()), if count == 1 { one } else { many })
}

/// First and last four digits of an address: enough to recognise it, not enough to approve it.
pub fn short_address(address: Address) -> String {
    ends(&address.to_checksum(None))
}

/// First and last four digits of a hash.
pub fn short_hash(hash: B256) -> String {
    ends(&hash.to_string())
}

fn ends(text: &str) -> String {
    match (text.get(..6), text.len().checked_sub(4).and_then(|from| text.get(from..))) {
        (Some(head), Some(tail)) => format!("{head}…{tail}"),
        _ => text.to_owned(),
    }
}

const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The last `width` values as a row of bars, scaled between their minimum and maximum; equal values give a low line.
pub fn sparkline(values: impl DoubleEndedIterator<Item = u64>, width: usize) -> String {
    let mut shown: Vec<u64> = values.rev().take(width).collect();
    shown.reverse();
    let (Some(low), Some(high)) = (shown.iter().min(), shown.iter().max()) else { return String::new() };
    let span = u128::from(high - low);
    let level = |value: u64| {
        let step = (u128::from(value - low) * 7).checked_div(span).unwrap_or(0);
        usize::try_from(step).ok().and_then(|step| LEVELS.get(step)).copied().unwrap_or(' ')
    };
    shown.iter().map(|value| level(*value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{U256, address};

    fn usd(text: &str) -> Usd {
        text.parse().unwrap()
    }

    #[test]
    fn a_count_of_one_has_the_noun_for_one() {
        let entries = |count| counted(count, "entry", "entries");
        assert_eq!([0, 1, 2, 2_000].map(entries), ["0 entries", "1 entry", "2 entries", "2,000 entries"]);
    }

    #[test]
    fn percents_add_up_to_what_the_parts_are_together() {
        let shares = |parts: &[u128], whole| {
            let parts: Vec<_> = parts.iter().copied().map(Some).collect();
            whole_percents(&parts, whole).into_iter().map(Option::unwrap).collect::<Vec<_>>()
        };
        // Each is a third: one of them gets the remaining percent.
        assert_eq!(shares(&[1, 1, 1], 3), [34, 33, 33]);
        // 58.9, 19.9, 15.8 and 5.4 percent; rounding all of them down would give 97.
        assert_eq!(shares(&[589, 199, 158, 54], 1_000), [59, 20, 16, 5]);
        assert_eq!(shares(&[589, 199, 158], 1_000), [59, 20, 16], "without the rest they are 94.6 together");
        assert_eq!(shares(&[5, 0], 5), [100, 0]);
        assert_eq!(whole_percents(&[Some(1), None], 2), [Some(50), None]);
        assert_eq!(whole_percents(&[Some(1), None], 0), [None, None]);
    }

    #[test]
    fn dollars_read_well_at_every_size() {
        assert_eq!(dollars(usd("3412.559")), "$3,412.56");
        for (exact, shown) in [
            ("3412.554999", "$3,412.55"),
            ("3412.555", "$3,412.56"),
            ("3412.55", "$3,412.55"),
            ("0.99500001", "$1.00"),
            ("999.999", "$1,000.00"),
        ] {
            assert_eq!(dollars(usd(exact)), shown, "{exact}");
        }
        assert_eq!(dollars_above(usd("1462.756983"), usd("1000")), "$1,462.76");
        assert_eq!(dollars_above(usd("1000.000001"), usd("1000")), "$1,000.01", "less than a cent above the limit");
        assert_eq!(dollars_above(usd("1000"), usd("1000")), "$1,000.00");
        assert_eq!(dollars_left(usd("485.189516")), "$485.18", "$485.19 would not pass");
        assert_eq!([usd("0.0000001"), usd("0")].map(dollars_left), ["$0.00000010", "$0.00"]);
        assert_eq!(dollars(usd("0")), "$0.00");
        assert_eq!(dollars(usd("0.000123")), "$0.00012300");
        assert_eq!(price(usd("3412.559")), "$3,412.56");
        assert_eq!(price(usd("17.01235")), "$17.0124");
        assert_eq!(price(usd("17.0123")), "$17.0123");
        assert_eq!(price(usd("0.9998")), "$0.9998");
        assert_eq!(price(usd("0.000123")), "$0.00012300");
        assert_eq!(round_dollars(usd("12450000")), "$12.4 M");
        assert_eq!(round_dollars(usd("850999")), "$850 k");
        assert_eq!(round_dollars(usd("912.7")), "$912");
        assert_eq!(round_dollars(usd("1500000000")), "$1.5 B");
    }

    /// Used dollars are never shown as fewer than they are, and left ones never as more. The figures are rounded by hand.
    #[test]
    fn a_gain_or_loss_has_its_sign_before_the_dollars() {
        let cents = |text: &str| text.parse::<Usd>().unwrap();
        for (value, words) in [
            (SignedUsd::loss(cents("2.070047272164")), "-$2.07"),
            (SignedUsd::gain(cents("1234.565")), "+$1,234.57"),
            (SignedUsd::loss(cents("0.004")), "$0.00"),
        ] {
            assert_eq!(signed_dollars(value), words);
        }
    }

    #[test]
    fn used_dollars_round_up_and_those_that_are_left_down() {
        let usd = |text: &str| text.parse::<Usd>().unwrap();
        for (exact, used, left) in [
            ("1966.020001", "$1,966.03", "$1,966.02"),
            ("1966.02", "$1,966.02", "$1,966.02"),
            ("0.001", "$0.01", "$0.00100000"),
            ("0", "$0.00", "$0.00"),
        ] {
            assert_eq!((dollars_used(usd(exact)).as_str(), dollars_left(usd(exact)).as_str()), (used, left), "{exact}");
        }
        for (exact, used, whole) in [
            ("1966.02", "$1,967", "$1,966"),
            ("1966", "$1,966", "$1,966"),
            ("1966.5", "$1,967", "$1,967"),
            ("999999.01", "$1.0 M", "$999,999"),
            ("999999.5", "$1.0 M", "$1.0 M"),
            ("12400000.01", "$12.5 M", "$12.4 M"),
            ("12400000", "$12.4 M", "$12.4 M"),
            ("123000001", "$124 M", "$123 M"),
            ("0", "$0", "$0"),
        ] {
            let shown = [whole_dollars_used(usd(exact)), whole_dollars(usd(exact))];
            assert_eq!(shown, [used, whole], "{exact}");
        }
    }

    #[test]
    fn ratios_keep_their_significant_digits() {
        let of = |text: &str| ratio(text.parse().unwrap());
        assert_eq!(of("3412.552149"), "3,412.5521");
        assert_eq!(of("68010.2"), "68,010.20");
        assert_eq!(of("0.05014259"), "0.050142");
        assert_eq!(of("0.000002949852"), "0.0000029498");
        assert_eq!(of("1"), "1.0000");
        assert_eq!(of("0"), "0.00000");
    }

    #[test]
    fn small_figures_are_not_shown_as_zero() {
        assert_eq!(gwei(914_000_000), "0.914 gwei");
        assert_eq!(gwei(1_000_000_000), "1 gwei");
        assert_eq!(gwei(12_540_000_000), "12.5 gwei");
        assert_eq!(gwei(7), "<0.001 gwei");
        assert_eq!(gwei(0), "0 gwei");
        assert_eq!(share(1, 30_000_000), "<1 %");
        assert_eq!(share(15_000_000, 30_000_000), "50 %");
        assert_eq!(share(0, 30_000_000), "0 %");
        assert_eq!(share(1, 0), "–");
        assert_eq!(fee(500), "0.05 %");
        assert_eq!(fee(10_000), "1 %");
        assert_eq!([4, 0, -7, -1250].map(signed_percent), ["+0.04 %", "0.00 %", "−0.07 %", "−12.50 %"]);
    }

    #[test]
    fn amounts_say_when_digits_are_missing() {
        let value = TokenAmount::new(U256::from(1_234_567_891_u64), 6).unwrap();
        assert_eq!(amount(value, 2), "1,234.56…");
        assert_eq!(amount(value, 6), "1,234.567891");
    }

    #[test]
    fn times_and_names_are_short() {
        assert_eq!([0, 59, 130, 7200, 200_000].map(age), ["now", "59 s", "2 min", "2 h", "2 d"]);
        assert_eq!([0, 15, 60, 3_351, 3_600].map(wait), ["0 s", "15 s", "1 min", "55 min 51 s", "1 h"]);
        assert_eq!(
            [7_141, 86_340, 86_341].map(wait),
            ["2 h", "23 h 59 min", "1 day"],
            "rounded up, into the next unit"
        );
        assert_eq!([86_400, 172_800, 262_800].map(wait), ["1 day", "2 days", "3 days 1 h"]);
        assert_eq!(time_of_day(1_700_000_000), "22:13:20");
        assert_eq!(short_address(address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266")), "0xf39F…2266");
    }

    #[test]
    fn sparklines_span_lowest_to_highest() {
        assert_eq!(sparkline([1, 8, 4].into_iter(), 8), "▁█▄");
        assert_eq!(sparkline([5, 5].into_iter(), 8), "▁▁");
        assert_eq!(sparkline([9, 1, 2].into_iter(), 2), "▁█");
        assert_eq!(sparkline([0, u64::MAX].into_iter(), 2), "▁█");
        assert_eq!(sparkline(std::iter::empty(), 4), "");
    }
}
