//! Tests of the units. Expected values come from another bigint library, from string arithmetic, and from the SDK's
//! published vectors.

use alloy_primitives::U256;
use num_bigint::BigUint;
use proptest::prelude::*;

use super::{AmountError, BasisPoints, BasisPointsError, NumeralError, Rounding, TokenAmount, Usd, UsdError};

fn big(value: U256) -> BigUint {
    BigUint::from_bytes_be(&value.to_be_bytes::<32>())
}

fn u256() -> impl Strategy<Value = U256> {
    // Bit lengths drawn evenly, so that small, medium and huge values all appear.
    (any::<[u8; 32]>(), 0_usize..=256).prop_map(|(bytes, bits)| {
        let value = U256::from_be_bytes(bytes);
        if bits == 0 { U256::ZERO } else { value >> (256 - bits) }
    })
}

#[test]
fn reads_and_prints_plain_amounts() {
    for (text, decimals, raw, printed) in [
        ("0", 18, "0", "0"),
        ("1", 18, "1000000000000000000", "1"),
        ("1.5", 6, "1500000", "1.5"),
        ("0.000001", 6, "1", "0.000001"),
        ("007.10", 2, "710", "7.1"),
        ("12", 0, "12", "12"),
        (
            "115792089237316195423570985008687907853269984665640564039457584007913129639935",
            0,
            "115792089237316195423570985008687907853269984665640564039457584007913129639935",
            "115792089237316195423570985008687907853269984665640564039457584007913129639935",
        ),
    ] {
        let amount = TokenAmount::parse(text, decimals).unwrap();
        assert_eq!(amount.raw().to_string(), raw, "{text}");
        assert_eq!(amount.to_string(), printed, "{text}");
    }
}

#[test]
fn refuses_everything_else_and_says_why() {
    use AmountError as A;
    use NumeralError as N;
    for (text, decimals, error) in [
        ("", 18, A::Numeral(N::Empty)),
        ("-1", 18, A::Numeral(N::Sign('-'))),
        ("+1", 18, A::Numeral(N::Sign('+'))),
        ("\u{2212}1", 18, A::Numeral(N::Sign('\u{2212}'))),
        ("1e6", 18, A::Numeral(N::Exponent)),
        ("1E6", 18, A::Numeral(N::Exponent)),
        ("NaN", 18, A::Numeral(N::NotFinite)),
        ("inf", 18, A::Numeral(N::NotFinite)),
        ("Infinity", 18, A::Numeral(N::NotFinite)),
        ("∞", 18, A::Numeral(N::NotFinite)),
        ("1,5", 18, A::Numeral(N::Separator(','))),
        ("1_000", 18, A::Numeral(N::Separator('_'))),
        ("1'000", 18, A::Numeral(N::Separator('\''))),
        ("\u{661}", 18, A::Numeral(N::ForeignDigit('\u{661}'))),
        ("１", 18, A::Numeral(N::ForeignDigit('１'))),
        ("½", 18, A::Numeral(N::ForeignDigit('½'))),
        ("abc", 18, A::Numeral(N::NotANumber)),
        ("1 ", 18, A::Numeral(N::NotADigit { found: ' ', position: 2 })),
        ("0x10", 18, A::Numeral(N::NotADigit { found: 'x', position: 2 })),
        ("1\u{200b}0", 18, A::Numeral(N::NotADigit { found: '\u{200b}', position: 2 })),
        (".5", 18, A::Numeral(N::BarePoint)),
        ("5.", 18, A::Numeral(N::BarePoint)),
        (".", 18, A::Numeral(N::BarePoint)),
        ("1.2.3", 18, A::Numeral(N::TwoPoints)),
        ("1.0000001", 6, A::TooManyFractionDigits { found: 7, decimals: 6 }),
        ("1.0", 0, A::TooManyFractionDigits { found: 1, decimals: 0 }),
        ("115792089237316195423570985008687907853269984665640564039457584007913129639936", 0, A::TooLarge),
        ("2", 77, A::TooLarge),
        ("1", 78, A::AbsurdDecimals(78)),
        ("1", 255, A::AbsurdDecimals(255)),
    ] {
        assert_eq!(TokenAmount::parse(text, decimals), Err(error), "{text:?}");
    }
    let long = "0".repeat(161);
    assert_eq!(TokenAmount::parse(&long, 18), Err(A::Numeral(N::TooLong { length: 161, limit: 160 })));
    assert_eq!(TokenAmount::new(U256::ZERO, 78), Err(A::AbsurdDecimals(78)));
}

#[test]
fn messages_contain_no_terminal_commands() {
    let error = TokenAmount::parse("1\u{1b}[2J", 18).unwrap_err();
    assert_eq!(error.to_string(), "U+001B at position 2 is not a digit: use 0 to 9 and at most one point");
}

#[test]
fn shortening_rounds_toward_zero_and_says_so() {
    for (text, digits, shown, cut) in [
        ("1.999999", 2, "1.99…", true),
        ("0.000001", 4, "0.0000…", true),
        ("1.5", 2, "1.5", false),
        ("1.5", 0, "1…", true),
        ("2", 0, "2", false),
        ("2", 4, "2", false),
    ] {
        let short = TokenAmount::parse(text, 6).unwrap().shortened(digits);
        assert_eq!((short.to_string().as_str(), short.is_cut()), (shown, cut), "{text}");
    }
}

#[test]
fn slippage_agrees_with_the_sdk() {
    // Uniswap universal-router-sdk 5.13.0, swap of 1000 USDC for WETH at 50 bps.
    let half_percent = BasisPoints::new(50).unwrap();
    assert_eq!(
        half_percent.minimum_out(U256::from(399_799_840_160_023_904_u64)),
        U256::from(397_800_840_959_223_784_u64)
    );
    assert_eq!(half_percent.maximum_in(U256::from(1_000_000_001_u64)), Ok(U256::from(1_005_000_001_u64)));
    assert_eq!(half_percent.maximum_in(U256::MAX), Err(BasisPointsError::TooLarge));
}

#[test]
fn basis_points_are_at_most_the_whole() {
    assert_eq!(BasisPoints::parse("50").map(BasisPoints::get), Ok(50));
    assert_eq!(BasisPoints::parse("10000").map(BasisPoints::get), Ok(10_000));
    assert_eq!(BasisPoints::parse("10001"), Err(BasisPointsError::MoreThanWhole));
    assert_eq!(BasisPoints::parse("9999999999999999"), Err(BasisPointsError::MoreThanWhole));
    assert_eq!(BasisPoints::parse("0.5"), Err(BasisPointsError::Fraction));
    assert!(matches!(BasisPoints::parse("5%"), Err(BasisPointsError::Numeral(NumeralError::NotADigit { .. }))));
    assert!(serde_json::from_str::<BasisPoints>("10001").is_err());
    assert_eq!(serde_json::to_string(&BasisPoints::new(7).unwrap()).unwrap(), "7");
}

#[test]
fn dollars_are_exact_or_an_error() {
    let usd = |text: &str| text.parse::<Usd>();
    assert_eq!(usd("3400.00").unwrap().to_string(), "3400");
    assert_eq!(usd("0.1").unwrap().checked_add(usd("0.2").unwrap()).unwrap(), usd("0.3").unwrap());
    assert_eq!(usd("1").unwrap().checked_sub(usd("2").unwrap()), Err(UsdError::Negative));
    assert_eq!(usd("79228162514264337593543950335").unwrap().to_string(), "79228162514264337593543950335");
    assert_eq!(usd("79228162514264337593543950336"), Err(UsdError::OutOfRange));
    // Would need 30 digits, where a plain decimal type would round.
    let huge = usd("79228162514264337593543950335").unwrap();
    assert_eq!(huge.checked_add(usd("0.5").unwrap()), Err(UsdError::OutOfRange));
    assert_eq!(huge.checked_add(usd("1").unwrap()), Err(UsdError::OutOfRange));
    assert_eq!(usd("-1"), Err(UsdError::Numeral(NumeralError::Sign('-'))));
    assert_eq!(Usd::from_scaled(U256::from(340_012_345_678_u64), 8).unwrap(), usd("3400.12345678").unwrap());
    assert_eq!(Usd::from_scaled(U256::MAX, 8), Err(UsdError::OutOfRange));
    assert_eq!(Usd::from_scaled(U256::MAX, 255), Err(UsdError::OutOfRange));
    assert_eq!(Usd::from_scaled(U256::ZERO, 255), Ok(Usd::ZERO));
}

#[test]
fn dollars_travel_as_strings() {
    let price: Usd = "3400.5".parse().unwrap();
    assert_eq!(serde_json::to_string(&price).unwrap(), "\"3400.5\"");
    assert_eq!(serde_json::from_str::<Usd>("\"3400.5\"").unwrap(), price);
    assert!(serde_json::from_str::<Usd>("3400.5").is_err());
}

#[test]
fn dollars_for_people() {
    let price: Usd = "2047.535".parse().unwrap();
    assert_eq!(price.to_fixed(2, Rounding::Down), "2047.53");
    assert_eq!(price.to_fixed(2, Rounding::Up), "2047.54");
    assert_eq!(price.to_fixed(0, Rounding::Down), "2047");
    assert_eq!(price.to_fixed(5, Rounding::Up), "2047.53500");
    assert_eq!(Usd::ZERO.to_fixed(2, Rounding::Up), "0.00");
}

#[test]
fn a_value_is_rounded_in_the_requested_direction() {
    let price: Usd = "3400.12345678".parse().unwrap();
    let one_wei = TokenAmount::ether(U256::from(1));
    assert_eq!(Usd::value_of(one_wei, price, Rounding::Down), Ok(Usd::ZERO));
    assert_eq!(Usd::value_of(one_wei, price, Rounding::Up).unwrap().to_string(), "0.000000000001");
    let quarter = TokenAmount::parse("0.25", 18).unwrap();
    assert_eq!(Usd::value_of(quarter, price, Rounding::Down).unwrap().to_string(), "850.030864195");
    let everything = TokenAmount::new(U256::MAX, 0).unwrap();
    assert_eq!(Usd::value_of(everything, price, Rounding::Up), Err(UsdError::OutOfRange));
}

proptest! {
    #[test]
    fn printing_then_reading_gives_the_same_amount(raw in u256(), decimals in 0_u8..=77) {
        let amount = TokenAmount::new(raw, decimals).unwrap();
        prop_assert_eq!(TokenAmount::parse(&amount.to_string(), decimals), Ok(amount));
    }

    #[test]
    fn printed_digits_are_those_of_the_integer(raw in u256(), decimals in 0_u8..=77) {
        // Reversed by string arithmetic only: drop the point, restore the trailing zeros.
        let printed = TokenAmount::new(raw, decimals).unwrap().to_string();
        let (whole, fraction) = printed.split_once('.').unwrap_or((&printed, ""));
        let digits = format!("{whole}{fraction:0<width$}", width = usize::from(decimals));
        prop_assert_eq!(digits.parse::<BigUint>().unwrap(), big(raw));
    }

    #[test]
    fn reading_never_panics(text in ".{0,200}", decimals in any::<u8>()) {
        let _ = TokenAmount::parse(&text, decimals);
        let _ = text.parse::<Usd>();
        let _ = BasisPoints::parse(&text);
    }

    #[test]
    fn a_shortened_amount_is_never_more_than_the_whole(raw in u256(), decimals in 0_u8..=77, digits in 0_usize..90) {
        let amount = TokenAmount::new(raw, decimals).unwrap();
        let short = amount.shortened(digits);
        let kept = TokenAmount::parse(short.to_string().trim_end_matches('…'), decimals).unwrap();
        prop_assert!(kept.raw() <= raw);
        prop_assert_eq!(short.is_cut(), kept.raw() < raw);
    }

    #[test]
    fn shares_agree_with_another_bigint(raw in u256(), points in 0_u32..=10_000) {
        let share = BasisPoints::new(points).unwrap();
        let ten_thousand = BigUint::from(10_000_u32);
        let product = big(raw) * BigUint::from(points);
        prop_assert_eq!(big(share.of(raw, Rounding::Down)), &product / &ten_thousand);
        prop_assert_eq!(big(share.of(raw, Rounding::Up)), (product + 9_999_u32) / &ten_thousand);
        if raw >= U256::from(10_000) {
            prop_assert_eq!(BasisPoints::lacking(raw, raw - share.of(raw, Rounding::Up)).get(), points);
        }
        prop_assert_eq!(big(share.minimum_out(raw)), big(raw) * BigUint::from(10_000 - points) / &ten_thousand);
        let maximum = big(raw) * BigUint::from(10_000 + points) / &ten_thousand;
        match share.maximum_in(raw) {
            Ok(value) => prop_assert_eq!(big(value), maximum),
            Err(_) => prop_assert!(maximum.bits() > 256),
        }
    }

    #[test]
    fn values_agree_with_another_bigint(
        raw in u256(), decimals in 0_u8..=77, mantissa in 0_u128..(1 << 96), scale in 0_u8..=28,
    ) {
        let amount = TokenAmount::new(raw, decimals).unwrap();
        let price = Usd::from_scaled(U256::from(mantissa), scale).unwrap();
        // In 10^-12 dollars: raw · mantissa · 10^12 / 10^(decimals + scale).
        let numerator = big(raw) * BigUint::from(mantissa) * BigUint::from(10_u8).pow(12);
        let denominator = BigUint::from(10_u8).pow(u32::from(decimals) + u32::from(scale));
        let down = &numerator / &denominator;
        let up = (numerator + &denominator - 1_u8) / &denominator;
        for (rounding, expected) in [(Rounding::Down, down), (Rounding::Up, up)] {
            match Usd::value_of(amount, price, rounding) {
                Ok(value) => {
                    let shown = value.to_fixed(12, Rounding::Down).replace('.', "");
                    prop_assert_eq!(shown.parse::<BigUint>().unwrap(), expected);
                }
                // Rejected only if it does not fit a decimal even without its trailing zeros.
                Err(_) => {
                    let mut digits = expected.to_string();
                    for _ in 0..12 {
                        if digits.ends_with('0') { digits.pop(); } else { break; }
                    }
                    prop_assert!(digits.parse::<BigUint>().unwrap().bits() > 96);
                }
            }
        }
    }

    #[test]
    fn scaled_dollars_agree_with_another_bigint(
        mantissa in 0_u128..(1 << 96), scale in 0_u8..=28, places in 0_u8..=40, more in 0_u8..=30,
    ) {
        // Zeros after the point change nothing, however many there are.
        let power = |exponent: u8| BigUint::from(10_u8).pow(u32::from(exponent));
        let wide = big(U256::from(mantissa)) * power(more);
        let dollars = Usd::from_scaled(wide.to_string().parse().unwrap(), scale + more).unwrap();
        prop_assert_eq!(Ok(dollars), Usd::from_scaled(U256::from(mantissa), scale));
        let (numerator, denominator) = (BigUint::from(mantissa) * power(places), power(scale));
        let down = &numerator / &denominator;
        let up = (numerator + &denominator - 1_u8) / &denominator;
        for (rounding, expected) in [(Rounding::Down, down), (Rounding::Up, up)] {
            match dollars.scaled(places, rounding) {
                Some(scaled) => prop_assert_eq!(BigUint::from(scaled), expected),
                None => prop_assert!(expected.bits() > 128),
            }
        }
    }

    #[test]
    fn more_tokens_are_never_worth_less(a in any::<u128>(), b in any::<u128>(), mantissa in 0_u64..) {
        let price = Usd::from_scaled(U256::from(mantissa), 8).unwrap();
        let worth = |raw: u128| {
            Usd::value_of(TokenAmount::new(U256::from(raw), 24).unwrap(), price, Rounding::Down)
        };
        if let (Ok(low), Ok(high)) = (worth(a.min(b)), worth(a.max(b))) {
            prop_assert!(low <= high);
        }
    }

    #[test]
    fn sums_are_exact(a in any::<u64>(), b in any::<u64>(), first in 0_u8..=9, second in 0_u8..=9) {
        let left = Usd::from_scaled(U256::from(a), first).unwrap();
        let right = Usd::from_scaled(U256::from(b), second).unwrap();
        let sum = left.checked_add(right).unwrap();
        let expected = BigUint::from(a) * BigUint::from(10_u8).pow(u32::from(9 - first))
            + BigUint::from(b) * BigUint::from(10_u8).pow(u32::from(9 - second));
        prop_assert_eq!(sum.to_fixed(9, Rounding::Down).replace('.', "").parse::<BigUint>().unwrap(), expected);
        prop_assert_eq!(sum.checked_sub(right), Ok(left));
    }
}
