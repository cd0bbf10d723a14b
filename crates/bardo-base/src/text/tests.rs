//! Tests of the sanitiser. The permitted characters are stated as ranges of code points, independent of the sanitiser's
//! own tables.

use alloy_primitives::address;
use proptest::prelude::*;
use unicode_normalization::is_nfc;

use super::{Lookalike, REPLACEMENT, SafeText, corpus, fit, lookalike::LookalikeReason, width};

/// Reason that `text` must not be drawn, judged by ranges written out from the Unicode charts.
fn offence(text: &str) -> Option<String> {
    let forbidden = |c: char| {
        matches!(u32::from(c),
            0x00..=0x1f | 0x7f..=0x9f | 0xa0 | 0xad | 0x34f | 0x61c | 0x115f | 0x1160 | 0x1680 | 0x17b4 | 0x17b5
            | 0x180b..=0x180f | 0x2000..=0x200f | 0x2028..=0x202f | 0x205f..=0x206f | 0x2800 | 0x3000 | 0x3164
            | 0xe000..=0xf8ff | 0xfdd0..=0xfdef | 0xfe00..=0xfe0f | 0xfeff | 0xffa0 | 0xfff0..=0xfffb
            | 0x1d173..=0x1d17a | 0xe0000..=0x10_ffff)
            || u32::from(c) & 0xfffe == 0xfffe
    };
    if let Some(bad) = text.chars().find(|c| forbidden(*c)) {
        return Some(format!("U+{:04X}", u32::from(bad)));
    }
    let mut marks = 0;
    for c in text.chars() {
        // The combining blocks, and Thai's above-vowels and tones as an example of a script's own marks.
        let mark = matches!(u32::from(c), 0x300..=0x36f | 0x483..=0x489 | 0x1ab0..=0x1aff | 0x1dc0..=0x1dff
            | 0x20d0..=0x20ff | 0xe31 | 0xe34..=0xe3a | 0xe47..=0xe4e | 0xfe20..=0xfe2f);
        marks = if mark { marks + 1 } else { 0 };
        if marks > 2 {
            return Some("a pile of combining marks".into());
        }
    }
    (!is_nfc(text)).then(|| "not in normal form".into())
}

#[test]
fn the_corpus_is_large_and_comes_out_harmless() {
    let all: Vec<String> = corpus::all().collect();
    assert!(all.len() >= 100, "{}", all.len());
    for raw in &all {
        for limit in [0, 1, 2, 12, 64, 400] {
            let clean = SafeText::clean(raw, limit);
            assert_eq!(offence(clean.as_str()), None, "{raw:?} → {clean:?}");
            assert!(clean.as_str().chars().count() <= limit, "{raw:?} at {limit}");
            assert_eq!(clean.altered(), clean.as_str() != raw, "{raw:?}");
            assert_eq!(SafeText::clean(clean.as_str(), limit).as_str(), clean.as_str(), "cleaning twice: {raw:?}");
        }
    }
}

#[test]
fn hostile_text_is_marked_except_plain_words_and_imitations() {
    for (kind, strings) in corpus::HOSTILE {
        let unaltered = [
            "imitations",
            "words aimed at people and models",
            "too long or too wide",
            "widths that terminals disagree about",
        ];
        if unaltered.contains(kind) {
            continue;
        }
        for raw in *strings {
            assert!(SafeText::clean(raw, 400).altered(), "{kind}: {raw:?}");
        }
    }
}

#[test]
fn removed_characters_are_marked() {
    for (raw, clean) in [
        ("\u{1b}[31mUSDC\u{1b}[0m", "\u{fffd}[31mUSDC\u{fffd}[0m"),
        ("US\u{200b}\u{200c}\u{200d}DC", "US\u{fffd}DC"),
        ("\u{202e}CDSU", "\u{fffd}CDSU"),
        ("USDC\nApproved", "USDC Approved"),
        ("  USDC\u{a0}", "USDC"),
        ("USDC      (fake)", "USDC (fake)"),
        ("USDC\u{e0041}\u{e0042}", "USDC\u{fffd}"),
        ("USDC\u{fe0f}", "USDC\u{fffd}"),
        ("⚠\u{fe0f} care", "⚠ care"),
        ("e\u{301}", "é"),
        ("5\u{301}", "5\u{fffd}"),
        ("100\u{336}", "100\u{fffd}"),
        ("\u{feff}", "\u{fffd}"),
        ("\u{212a}", "K"),
    ] {
        let safe = SafeText::clean(raw, 100);
        assert_eq!(safe.as_str(), clean, "{raw:?}");
        assert!(safe.altered(), "{raw:?}");
    }
}

#[test]
fn honest_text_of_any_script_is_left_alone() {
    for text in
        ["USD Coin", "", "Tether USD₮0", "数字人民币", "Ελλάδα", "שלום", "สวัสดี", "Việt Nam", "🦀 crab", "¯\\_(ツ)_/¯"]
    {
        let safe = SafeText::clean(text, 64);
        assert_eq!((safe.as_str(), safe.altered()), (text, false));
    }
}

#[test]
fn a_cut_is_visible_and_between_characters() {
    assert_eq!(SafeText::clean("ABCDEF", 4).as_str(), "ABC…");
    assert_eq!(SafeText::clean("ABCD", 4).as_str(), "ABCD");
    assert_eq!(SafeText::clean("A", 0).as_str(), "");
    // A flag is two characters that form one grapheme.
    assert_eq!(SafeText::clean("🇩🇪🇫🇷🇪🇸", 4).as_str(), "🇩🇪…");
    // All visible text is beyond the processed window; the result is still not empty.
    assert_eq!(SafeText::clean(&format!("{}x", " ".repeat(1000)), 8).as_str(), "…");
}

#[test]
fn bytes_that_are_not_utf8_are_marked() {
    assert_eq!(SafeText::clean_bytes(b"MKR", 8).as_str(), "MKR");
    let broken = SafeText::clean_bytes(b"M\xffR", 8);
    assert_eq!((broken.as_str(), broken.altered()), ("M\u{fffd}R", true));
    let long = SafeText::clean_bytes(&[b'a'; 100_000], 8);
    assert_eq!((long.as_str(), long.altered()), ("aaaaaaa…", true));
}

#[test]
fn a_stored_text_is_cleaned_again() {
    let safe: SafeText = serde_json::from_str("\"US\\u200bDC\"").unwrap();
    assert_eq!((safe.as_str(), safe.altered()), ("US\u{fffd}DC", true));
    assert_eq!(serde_json::to_string(&safe).unwrap(), "\"US\u{fffd}DC\"");
    let again: SafeText = serde_json::from_str("\"US\u{fffd}DC\"").unwrap();
    assert!(again.altered());
}

#[test]
fn text_is_fitted_by_columns() {
    assert_eq!(fit("USDC", 4), "USDC");
    assert_eq!(fit("USDC", 3), "US…");
    assert_eq!(fit("数字币", 4), "数…");
    assert_eq!(fit("数字币", 6), "数字币");
    assert_eq!(fit("USDC", 0), "");
    assert_eq!(width("数é"), 3);
}

const KNOWN: [&str; 7] = ["USDC", "USDT", "DAI", "WBTC", "WETH", "UNI", "LINK"];

#[test]
fn imitations_are_recognised() {
    use LookalikeReason::{ConfusableLetters, HiddenCharacters, MixedScripts, SmallDifference};
    for (raw, of, why) in [
        ("USD\u{421}", "USDC", MixedScripts),
        ("WET\u{41d}", "WETH", MixedScripts),
        ("DA\u{406}", "DAI", MixedScripts),
        ("L\u{399}NK", "LINK", MixedScripts),
        ("\u{421}", "", ConfusableLetters),
        ("\u{ff35}\u{ff33}\u{ff24}\u{ff23}", "USDC", ConfusableLetters),
        ("\u{1d414}\u{1d412}\u{1d403}\u{1d402}", "USDC", ConfusableLetters),
        ("US0C", "", ConfusableLetters),
        ("U5DC", "USDC", ConfusableLetters),
        ("DA1", "DAI", ConfusableLetters),
        ("DAl", "DAI", ConfusableLetters),
        ("W8TC", "WBTC", ConfusableLetters),
        ("usdc", "USDC", SmallDifference),
        ("U.S.D.C", "USDC", SmallDifference),
        ("USD C", "USDC", SmallDifference),
        ("US\u{200b}DC", "USDC", HiddenCharacters),
        ("USDC\u{a0}", "USDC", HiddenCharacters),
        ("\u{202e}CDSU", "", HiddenCharacters),
    ] {
        let found = super::lookalike(&SafeText::clean(raw, 32), KNOWN);
        match (of, found) {
            ("", None) => {}
            ("", Some(Lookalike { of, why: found })) => assert_eq!((of, found), (None, why), "{raw:?}"),
            (of, found) => assert_eq!(found, Some(Lookalike { of: Some(of.into()), why }), "{raw:?}"),
        }
    }
}

#[test]
fn honest_symbols_are_no_lookalikes() {
    for symbol in ["USDC", "WETH", "USDC.e", "USDbC", "wstETH", "cbBTC", "AAVE", "OP", "UNI-V2", "1INCH", "数字", "ΕΛΛ"]
    {
        assert_eq!(super::lookalike(&SafeText::clean(symbol, 32), KNOWN), None, "{symbol}");
    }
}

#[test]
fn four_digits_at_both_ends_make_addresses_alike() {
    let known = address!("70997970C51812dc3A010C7d01b50e0d17dc79C8");
    assert!(super::addresses_look_alike(address!("70990000000000000000000000000000000079C8"), known));
    for other in [
        known,
        address!("70980000000000000000000000000000000079C8"),
        address!("70990000000000000000000000000000000079C9"),
        address!("07090000000000000000000000000000000079C8"),
        address!("70997970C51812dc3A010C7d01b50e0d17dc69C8"),
    ] {
        assert!(!super::addresses_look_alike(other, known), "{other}");
    }
}

#[test]
fn a_name_that_reads_like_an_address_is_found() {
    for name in [
        "0x90F7",
        "0X90f7",
        "Ox90F7…b906",
        "\u{ff10}\u{ff58}90F7",
        "90F79bf6…b906",
        "90F7...b906",
        "90F79bf6",
        "90F7 … b906",
        "90F79bf6EB2c4f870365E785982E1f101E93b906",
        "\u{41e}\u{445}90F7",
    ] {
        assert!(super::reads_like_address(name), "{name}");
    }
    for name in ["treasury", "Alice", "decade", "cold wallet 2", "Bob… and Eve", "facade 2026", "Kraken 12345", "a-b"]
    {
        assert!(!super::reads_like_address(name), "{name}");
    }
}

proptest! {
    #[test]
    fn any_string_comes_out_harmless(raw in "\\PC{0,80}|[\\u{0}-\\u{10ffff}]{0,80}", limit in 0_usize..60) {
        let clean = SafeText::clean(&raw, limit);
        prop_assert_eq!(offence(clean.as_str()), None);
        prop_assert!(clean.as_str().chars().count() <= limit);
        let again = SafeText::clean(clean.as_str(), limit);
        prop_assert_eq!(again.as_str(), clean.as_str());
        prop_assert!(width(&fit(clean.as_str(), 10)) <= 10);
        prop_assert!(clean.as_str().chars().all(|c| c == REPLACEMENT || c == '…' || !c.is_control()));
        let _ = super::lookalike(&clean, KNOWN);
    }

    #[test]
    fn any_bytes_come_out_harmless(raw in proptest::collection::vec(any::<u8>(), 0..200), limit in 0_usize..60) {
        prop_assert_eq!(offence(SafeText::clean_bytes(&raw, limit).as_str()), None);
    }
}
