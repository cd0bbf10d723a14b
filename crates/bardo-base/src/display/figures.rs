//! Figures in sentences, shortened for reading.

use crate::format::grouped;

/// Sentence with readable figures: digits beyond `places` are replaced by `…`, dollars are rounded to cents, and the
/// thousands of both are grouped. Never used for signed values.
pub fn readable(sentence: &str, places: usize) -> String {
    let sentence = sentence.replace(">= ", "at least ").replace("<= ", "at most ").replace(" -> ", " → ");
    let mut text = String::with_capacity(sentence.len());
    let mut rest = sentence.as_str();
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from) = rest.split_at(start);
        text.push_str(before);
        let end = from.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ',').unwrap_or(from.len());
        // The full stop of a sentence is not part of the figure.
        let end = from.get(..end).map_or(end, |run| run.trim_end_matches(['.', ',']).len());
        let (run, after) = from.split_at(end);
        let inside_a_word = before.chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '#');
        let dollars = before.ends_with('$');
        match run.split_once('.') {
            Some((whole, fraction)) if !inside_a_word && fraction.chars().all(|c| c.is_ascii_digit()) => {
                let whole = &if whole.contains(',') { whole.to_owned() } else { grouped(whole) };
                if !dollars || whole == "0" {
                    text.push_str(whole);
                }
                match dollars {
                    true if whole == "0" => push_fraction(&mut text, fraction, 8, false),
                    true => text.push_str(&to_cents(whole, fraction)),
                    false if whole == "0" => {
                        let zeros = fraction.len() - fraction.trim_start_matches('0').len();
                        push_fraction(&mut text, fraction, places.max(zeros + 4), true);
                    }
                    false => push_fraction(&mut text, fraction, places, true),
                }
            }
            None if dollars && run.bytes().all(|digit| digit.is_ascii_digit()) => text.push_str(&grouped(run)),
            _ => text.push_str(run),
        }
        // A figure that was cut before is not marked twice.
        let after = if text.ends_with('…') { after.strip_prefix('…').unwrap_or(after) } else { after };
        // A hexadecimal number or a name with digits continues unchanged.
        let tail = after.find(|c: char| !c.is_alphanumeric()).unwrap_or(after.len());
        let (word, left) = after.split_at(tail);
        text.push_str(word);
        rest = left;
    }
    text.push_str(rest);
    text
}

/// Plain numeral with its sign, as [`readable`] shows it, with grouped thousands also without a fraction.
pub fn readable_figure(numeral: &str, places: usize) -> String {
    let unsigned = numeral.trim_start_matches(['+', '-', '−']);
    let sign = numeral.strip_suffix(unsigned).unwrap_or("");
    format!("{sign}{}", grouped(&readable(unsigned, places)))
}

/// Dollars rounded to the nearest cent, half a cent up, with grouped thousands.
fn to_cents(whole: &str, fraction: &str) -> String {
    let Some((kept, gone)) = fraction.split_at_checked(2).filter(|(_, gone)| !gone.is_empty()) else {
        return format!("{whole}.{fraction}");
    };
    if !gone.starts_with(|digit: char| digit >= '5') {
        return format!("{whole}.{kept}");
    }
    let (up, cents) = next(&whole.replace(',', ""), kept);
    format!("{}.{cents}", grouped(&up))
}

fn push_fraction(text: &mut String, fraction: &str, places: usize, mark: bool) {
    text.push('.');
    match fraction.get(..places).filter(|_| fraction.len() > places) {
        Some(kept) => {
            text.push_str(kept);
            if mark && fraction.get(places..).is_some_and(|gone| gone.contains(|c| c != '0')) {
                text.push('…');
            }
        }
        None => text.push_str(fraction),
    }
}

/// Next larger number with the same number of digits after the point.
pub fn next(whole: &str, fraction: &str) -> (String, String) {
    let mut digits: Vec<char> = whole.chars().chain(fraction.chars()).collect();
    let mut carries = true;
    for digit in digits.iter_mut().rev() {
        match (carries, *digit) {
            (false, _) => break,
            (true, '9') => *digit = '0',
            (true, other) => {
                *digit = char::from_digit(other.to_digit(10).unwrap_or(0) + 1, 10).unwrap_or(other);
                carries = false;
            }
        }
    }
    if carries {
        digits.insert(0, '1');
    }
    let point = digits.len().saturating_sub(fraction.chars().count());
    (digits.iter().take(point).collect(), digits.iter().skip(point).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_that_was_cut_before_is_marked_once() {
        assert_eq!(readable("6 sales, 3.031312… left: 1.25…", 4), "6 sales, 3.0313… left: 1.25…");
        assert_eq!(readable("0.5… and…", 6), "0.5… and…");
    }

    #[test]
    fn a_figure_keeps_its_sign_and_groups_its_thousands() {
        for (figure, shown) in [
            ("+3000", "+3,000"),
            ("−4000.25", "−4,000.25"),
            ("0.360000000000000001", "0.360000…"),
            ("-1234567.5", "-1,234,567.5"),
            ("0", "0"),
            ("max", "max"),
        ] {
            assert_eq!(readable_figure(figure, 6), shown);
        }
    }

    #[test]
    fn a_sentence_has_readable_figures_and_marks_omissions() {
        let text = |sentence| readable(sentence, 6);
        assert_eq!(
            text("Swap 0.36 WETH for >= 153.580596776546714146 UNI"),
            "Swap 0.36 WETH for at least 153.580596… UNI"
        );
        // Dollars are rounded to the nearest cent, half a cent up, also across a thousand.
        assert_eq!(text("$1,462.756983 is above $1,000.00 (x)"), "$1,462.76 is above $1,000.00 (x)");
        assert_eq!(text("$1,462.754999 and $999.995, $1,999.999"), "$1,462.75 and $1,000.00, $2,000.00");
        // Dollars and fractions are figures; another whole number may be an id or a year.
        assert_eq!(text("$10000 of 20001.5 USDC on chain 31338"), "$10,000 of 20,001.5 USDC on chain 31338");
        assert_eq!(text("100 USDC -> >= 98.22105 USDC."), "100 USDC → at least 98.22105 USDC.");
        assert_eq!(text("0.000000000000123456789 WETH"), "0.0000000000001234… WETH");
        assert_eq!(text("1.5000000000 X"), "1.500000 X");
        // Hashes, versions, names and addresses are not figures and stay unchanged.
        for same in
            ["0x1b68F3D91f6f8B3D817b", "V2.1234567890", "block #12.3456789", "3.", "1.2.3456789012", "", "no figure"]
        {
            assert_eq!(text(same), same);
        }
    }
}
