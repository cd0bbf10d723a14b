//! Fields that come from outside.

use super::*;

#[test]
fn a_symbol_can_neither_be_a_formula_nor_end_its_field() {
    for (symbol, field) in [
        ("UNI", "UNI"),
        ("=HYPERLINK(1)", "'=HYPERLINK(1)"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM", "'@SUM"),
        ("A,B", "\"A,B\""),
        ("A\"B", "\"A\"\"B\""),
        ("=\"x\",1", "\"'=\"\"x\"\",1\""),
        ("A\nB", "\"A\nB\""),
    ] {
        assert_eq!(quoted(symbol), field);
    }
}
