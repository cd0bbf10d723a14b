//! Output to the terminal besides pictures: copies, calls for attention, colours.

use crate::pty::Pty;
use crate::terminal::leave;

/// True if the bytes contain these.
fn holds(raw: &[u8], bytes: &[u8]) -> bool {
    raw.windows(bytes.len()).any(|window| window == bytes)
}

/// Parameters of every style that was set.
fn styles(raw: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(raw).into_owned();
    let parts = text.split("\x1b[").skip(1);
    let style = |part: &str| {
        let end = part.find(|one: char| !matches!(one, '0'..='9' | ';' | ':'))?;
        part[end..].starts_with('m').then(|| part[..end].to_owned())
    };
    parts.filter_map(style).collect()
}

/// True if a style sets a colour.
fn is_colour(style: &str) -> bool {
    let first = style.split([';', ':']).find_map(|number| number.parse::<u32>().ok()).unwrap_or(0);
    style.split([';', ':']).any(|number| matches!(number, "38" | "48"))
        || matches!(first, 30..=37 | 40..=47 | 90..=97 | 100..=107)
}

#[test]
fn what_is_copied_reaches_the_terminals_own_clipboard() {
    let mut pty = Pty::script("call", 120, 40);
    pty.until_shown("✓ Swap");
    let before = pty.raw().len();
    assert!(!holds(&pty.raw(), b"\x1b]52;"));
    pty.type_keys("y");
    // The whole transaction hash in the clipboard message: 0x, then 07 32 times.
    let hash = b"\x1b]52;c;MHgwNzA3MDcwNzA3MDcwNzA3MDcwNzA3MDcwNzA3MDcwNzA3MDcwNzA3MDcwNzA3MDcwNzA3MDcwNzA3MDcwNzA3";
    pty.until_written("the copy", |raw| holds(&raw[before..], hash));
    pty.until_shown("copied");
    leave(&mut pty);
}

#[test]
fn without_colours_no_byte_of_one_is_written() {
    for (value, coloured) in [("1", false), ("", true)] {
        let mut pty = Pty::script_in("call", &[("NO_COLOR", value)], 120, 40);
        pty.until_shown("✓ Swap");
        for screen in ["4", "5", "8", "?"] {
            pty.type_keys(screen);
        }
        pty.until_shown("Keys and terms");
        pty.type_keys("q");
        pty.until_gone("Keys and terms");
        let styles = styles(&pty.raw());
        let found: Vec<&String> = styles.iter().filter(|style| is_colour(style)).collect();
        assert_eq!(!found.is_empty(), coloured, "NO_COLOR={value}: {found:?}");
        // Weight replaces colour.
        assert!(styles.iter().any(|style| style.split(';').any(|number| number == "1")), "{styles:?}");
        leave(&mut pty);
    }
}

#[test]
fn the_variable_keeps_everything_still() {
    // The clock changes first.
    let clock = |screen: &str| {
        let first = screen.lines().next().unwrap_or_default().trim_end();
        first.rsplit(' ').next().is_some_and(|last| last.len() == 8 && last.matches(':').count() == 2)
    };
    for (value, moves) in [("1", false), ("", true)] {
        let mut pty = Pty::script_in("call", &[("NO_MOTION", value), ("BARDO_CONSOLE_TEST_MOVES", "1")], 120, 40);
        pty.until_shown("✓ Swap");
        assert_eq!(clock(&pty.contents()), moves, "NO_MOTION={value}\n{}", pty.contents());
        leave(&mut pty);
    }
}

#[test]
fn a_decision_that_waits_calls_by_bell_or_by_message_where_that_is_wanted_and_else_not_at_all() {
    let message = b"\x1b]9;Bardo: a decision waits for you\x07";
    for (how, bell, told) in [("none", false, false), ("bell", true, false), ("notify", false, true)] {
        let mut pty = Pty::script_in("asks", &[("BARDO_CONSOLE_TEST_CALLS", how)], 120, 40);
        pty.until_shown("WAITS FOR YOU");
        pty.until_written("the call", |raw| !told || holds(raw, message));
        pty.until_written("the bell", |raw| !bell || raw.contains(&7));
        leave(&mut pty);
        // At its end everything is written. The message ends with a bell character, which does not ring.
        let raw = pty.raw();
        let rings = raw.iter().filter(|byte| **byte == 7).count();
        assert_eq!((rings, holds(&raw, message)), (usize::from(bell || told), told), "{how}");
    }
}
