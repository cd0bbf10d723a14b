//! Terminal modes of the console, which it restores on every exit.

use bardo::base::text::corpus;

use crate::program::press;
use crate::pty::Pty;

/// End sequence of a synchronized update.
const END_OF_UPDATE: &[u8] = b"\x1b[?2026l";

/// Output split into updates.
fn updates(raw: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut left = raw;
    std::iter::from_fn(move || {
        let at = left.windows(END_OF_UPDATE.len()).position(|window| window == END_OF_UPDATE)?;
        let (update, rest) = left.split_at(at + END_OF_UPDATE.len());
        left = rest;
        Some(update)
    })
}

/// Waits for this block or a later one: blocks come faster than the screen is read.
fn until_block(pty: &Pty, least: u64) {
    pty.until(&format!("block {least} or a later one"), |screen| {
        let shown = screen.contents();
        let number = shown.split('#').nth(1).and_then(|rest| rest.split([' ', '\n']).next()).unwrap_or_default();
        number.replace(',', "").parse::<u64>().is_ok_and(|number| number >= least)
    });
}

/// Number of updates after the first `from`, until one shows `words`.
fn updates_until(raw: &[u8], size: (u16, u16), from: usize, words: &str) -> Option<usize> {
    let mut replayed = vt100::Parser::new(size.1.try_into().unwrap(), size.0.try_into().unwrap(), 0);
    for (at, update) in updates(raw).enumerate() {
        replayed.process(update);
        if at >= from && replayed.screen().contents().contains(words) {
            return Some(at + 1 - from);
        }
    }
    None
}

#[test]
fn under_a_flood_of_events_a_key_is_answered_by_the_next_frame_and_no_card_is_lost() {
    let mut pty = Pty::script("flood", 120, 40);
    pty.until_shown("✓ Swap");
    let mut frames = Vec::new();
    for _ in 0..5 {
        // Counted rather than timed: the program is stopped while the key is written to its terminal.
        pty.signal("STOP");
        pty.until_stopped();
        pty.until_drained();
        let from = updates(&pty.raw()).count();
        pty.type_keys("?");
        pty.signal("CONT");
        pty.until_shown("Keys and terms");
        let found = |raw: &[u8]| updates_until(raw, (120, 40), from, "Keys and terms");
        pty.until_written("the whole of that frame", |raw| found(raw).is_some());
        frames.push(found(&pty.raw()).unwrap());
        pty.type_keys("\x1b");
        pty.until_gone("Keys and terms");
    }
    // The frame in progress at the stop, the one that restores the terminal, and the next. A busy machine may draw more
    // before the terminal's bytes arrive, but not in each run; a key that waited behind the events would be late in
    // each run.
    assert!(frames.iter().any(|taken| *taken <= 3), "{frames:?} frames");
    pty.until_shown("the flood is over");
    // The newest calls are shown, each completed, none missing.
    let last = super::harness::flood_calls() - 1;
    pty.until("the newest calls in a row", |screen| {
        let shown = screen.contents();
        (0..8).all(|back| {
            let amount = bardo::base::format::grouped(&(last - back).to_string());
            shown.lines().any(|line| line.contains("✓ Swap") && line.contains(&format!(" {amount} WETH")))
        })
    });
    let grown = pty.known("how much memory it took", |shown| {
        shown.split("is over; ").nth(1)?.split(' ').next()?.parse::<u64>().ok()
    });
    assert!(grown < 64, "{grown} MiB more in the second half");
    leave(&mut pty);
}

/// Leaves with nothing in progress, so the program quits at once.
pub fn leave(pty: &mut Pty) {
    pty.type_keys("q");
    assert!(pty.ended().success());
    pty.until_whole();
}

#[test]
fn blocks_rise_the_help_opens_and_leaving_leaves_the_terminal_whole() {
    let mut pty = Pty::script("blocks", 80, 24);
    pty.until_shown("PLAY MONEY");
    until_block(&pty, 3);
    until_block(&pty, 21);
    pty.type_keys("?");
    pty.until_shown("Shift-Tab");
    pty.type_keys("\x1b");
    pty.until_gone("Shift-Tab");
    leave(&mut pty);
}

#[test]
fn it_survives_a_terminal_of_one_cell() {
    let mut pty = Pty::script("blocks", 120, 40);
    pty.until_shown("Activity");
    pty.resize(1, 1);
    pty.until("the badge's first letter", |screen| screen.contents() == "…" || screen.contents() == "P");
    pty.resize(80, 24);
    pty.until_shown("Activity");
    pty.until_shown("PLAY MONEY");
    leave(&mut pty);
}

#[test]
fn with_nothing_moving_not_one_byte_is_written_until_a_key() {
    let mut pty = Pty::script("same", 80, 24);
    pty.until_shown("#2 ");
    pty.until_written("the end of the update", |raw| raw.ends_with(END_OF_UPDATE));
    let raw = pty.raw();
    // All output is inside updates. The block was reported a hundred times, and is written at most once.
    let mut replayed = vt100::Parser::new(24.try_into().unwrap(), 80.try_into().unwrap(), 0);
    let mut shows_first = Vec::new();
    for update in updates(&raw) {
        replayed.process(update);
        shows_first.push(replayed.screen().contents().contains("#1 "));
    }
    // On a busy machine the next block may arrive before the first is drawn; it is never drawn twice.
    assert!(shows_first.iter().filter(|shows| **shows).count() <= 1, "{shows_first:?}");
    assert!(!shows_first[shows_first.len() - 1]);
    pty.type_keys("z");
    pty.until_gone("l full log");
    pty.until_written("the end of the update", |raw| raw.ends_with(END_OF_UPDATE));
    assert_eq!(updates(&pty.raw()).count(), shows_first.len() + 1, "a key, an answer");
    // The first goes back from the zoom.
    pty.type_keys("q");
    pty.until_shown("l full log");
    leave(&mut pty);
}

#[test]
fn a_signal_to_leave_leaves_the_terminal_whole() {
    for signal in ["TERM", "HUP", "INT"] {
        let mut pty = Pty::script("blocks", 80, 24);
        until_block(&pty, 2);
        pty.signal(signal);
        assert!(pty.ended().success(), "{signal}");
        pty.until_whole();
    }
}

#[test]
fn stopped_it_gives_the_terminal_back_and_continued_it_takes_it_again() {
    let mut pty = Pty::script("blocks", 80, 24);
    until_block(&pty, 2);
    pty.signal("TSTP");
    pty.until_whole();
    pty.until_stopped();
    pty.signal("CONT");
    pty.until("the alternate screen", |screen| screen.alternate_screen() && screen.contents().contains("PLAY MONEY"));
    leave(&mut pty);
}

#[test]
fn stopped_without_warning_it_still_finds_its_way_back() {
    let mut pty = Pty::script("still", 80, 24);
    pty.until_shown("#1 ");
    pty.signal("STOP");
    pty.until_stopped();
    pty.signal("CONT");
    pty.until_written("a second start of the alternate screen", |raw| {
        raw.windows(8).filter(|window| window == b"\x1b[?1049h").count() >= 2
    });
    leave(&mut pty);
}

#[test]
fn ctrl_z_without_a_shell_behind_says_so_instead_of_hanging() {
    let mut pty = Pty::script("still", 80, 24);
    pty.until_shown("#1 ");
    pty.type_keys("\x1a");
    pty.until_shown("this terminal has no shell");
    leave(&mut pty);
}

#[test]
fn a_panic_in_a_task_restores_first_and_reports_after() {
    let mut pty = Pty::script("panic", 80, 24);
    assert_eq!(pty.ended().exit_code(), 1);
    pty.until_whole();
    pty.until_shown("the script says so");
    pty.until_shown("its report is printed above");
}

#[test]
fn a_panic_where_the_terminal_is_held_restores_first_and_reports_after() {
    let mut pty = Pty::script("panic-here", 80, 24);
    assert!(!pty.ended().success());
    pty.until_whole();
    pty.until_shown("the script says so");
}

#[test]
fn pasted_text_presses_no_key() {
    let mut pty = Pty::script("still", 80, 24);
    pty.until_shown("#1 ");
    pty.type_keys("\x1b[200~qy?qy\x1b[201~z");
    // The zoom key after the paste shows that the paste has been read.
    pty.until_gone("l full log");
    assert!(!pty.contents().contains("Keys and terms"), "{}", pty.contents());
    pty.type_keys("q");
    pty.until_shown("l full log");
    leave(&mut pty);
}

/// Modes that the console switches on when it takes a terminal, and off when it restores it.
const MODES: [&str; 9] = ["?1049", "?1000", "?1002", "?1003", "?1015", "?1006", "?2004", "?1004", "?25"];

/// True for a style that the console's writer produces: attributes of a theme, none at all, or 24-bit colours. No theme
/// uses black on no background.
fn is_style(parameters: &str) -> bool {
    const PLAIN: [&str; 14] = ["", "0", "1", "2", "3", "4", "7", "22", "23", "24", "27", "39", "49", "59"];
    let numbers: Vec<&str> = parameters.split(';').collect();
    let colour = |parts: &[&str]| {
        matches!(parts, ["38" | "48", "2", rest @ ..] if rest.len() == 3 && rest.iter().all(|one| one.parse::<u8>().is_ok()))
            || matches!(parts, ["39" | "49"])
    };
    let whole = colour(&numbers) || (1..numbers.len()).any(|at| colour(&numbers[..at]) && colour(&numbers[at..]));
    (PLAIN[1..].contains(&parameters) || whole) && parameters != "38;2;0;0;0"
}

/// Parts of these bytes that the console's own writer cannot have produced, for a terminal of that size.
fn strange(raw: &str, (columns, rows): (u16, u16)) -> Vec<String> {
    let mut found = Vec::new();
    let mut switched: std::collections::BTreeMap<String, usize> = std::collections::BTreeMap::new();
    let mut begun = false;
    let mut rest = raw;
    while let Some(at) = rest.find(|letter: char| letter.is_control() || ('\u{202a}'..='\u{202e}').contains(&letter)) {
        begun &= at == 0;
        let from = &rest[at..];
        let shown = || from.chars().take(24).collect::<String>();
        rest = &from[from.chars().next().map_or(0, char::len_utf8)..];
        match from.chars().next() {
            // The test runner that contains the harness writes its own line ends around the picture.
            Some('\r' | '\n') => continue,
            Some('\x1b') if rest.starts_with('[') => {}
            _ => {
                found.push(shown());
                continue;
            }
        }
        let end = rest[1..].find(|letter: char| ('\u{40}'..='\u{7e}').contains(&letter)).map(|end| end + 1);
        let Some(end) = end else {
            found.push(shown());
            break;
        };
        let (parameters, last) = (&rest[1..end], rest.as_bytes()[end]);
        rest = &rest[end + 1..];
        let ours = match last {
            b'h' | b'l' if parameters == "?2026" => true,
            b'h' | b'l' if MODES.contains(&parameters) => {
                let times = switched.entry(format!("{parameters}{}", char::from(last))).or_default();
                *times += 1;
                *times == 1
            }
            b'H' => matches!(parameters.split_once(';'), Some((row, column))
                if row.parse().is_ok_and(|row: u16| (1..=rows).contains(&row))
                    && column.parse().is_ok_and(|column: u16| (1..=columns).contains(&column))),
            // The screen is cleared only for a complete redraw.
            b'J' => parameters == "2" && begun,
            b'm' => is_style(parameters),
            _ => false,
        };
        begun = last == b'h' && parameters == "?2026";
        if !ours {
            found.push(shown());
        }
    }
    found
}

#[test]
fn what_the_consoles_writer_cannot_make_is_told_from_what_it_makes() {
    let size = (80, 24);
    let ours =
        "\x1b[?1049h\x1b[?25h\x1b[?2026h\x1b[2J\x1b[24;80H\x1b[38;2;10;20;30;48;2;1;1;1mUSDC\x1b[1m\x1b[0m\x1b[?2026l";
    assert_eq!(strange(ours, size), [""; 0]);
    assert_eq!(strange("\x1b[?25h\x1b[?25h", size).len(), 1, "a mode is switched on once");
    // Every text of the corpus with a control is found except one: a cursor position, which the writer produces, too.
    // Another comparison, of the picture with the drawn cells, shows that it is drawn as text.
    let control = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\r');
    let controls = corpus::all().filter(|raw| raw.chars().any(control) && !raw.starts_with("\u{1b}[3;1H"));
    let controls: Vec<String> = controls.collect();
    assert!(controls.len() > 40, "{}", controls.len());
    for raw in controls {
        // Twice: each mode is switched only once.
        assert!(!strange(&format!("{raw}{raw}"), size).is_empty(), "{raw:?}");
    }
}

#[test]
fn no_control_of_a_hostile_world_reaches_the_terminal() {
    let size = (120, 40);
    let mut pty = Pty::script("hostile", size.0, size.1);
    until_block(&pty, 2);
    // Every screen, the details of a call, and the decision in all its forms, while the hostile source keeps sending. A
    // key is answered within two frames; its text is not awaited, because characters of unknown width may be anywhere
    // on the screen. The dialog of an ended decision stays on top until it is closed.
    const ENDED: &str = "This decision has ended";
    let close_ended = |pty: &mut Pty| {
        while pty.contents().contains(ENDED) {
            press(pty, "\x1b");
        }
    };
    let answered = |pty: &mut Pty, key: &str| {
        close_ended(pty);
        let before = updates(&pty.raw()).count();
        pty.type_keys(key);
        pty.until_written(&format!("three more pictures after {key:?}"), |raw| {
            updates(raw).count() >= before + 3 || pty.contents().contains(ENDED)
        });
    };
    let keys = [
        "1", "\r", "j", "G", "\x1b", "2", "3", "\t", "4", "\t", "5", "v", "z", "z", "f", "\t", "\t", "\t", "j", "6",
        "\r", "\x1b", "7", "8", "1", "a", "d", "z", "j", "G", "n", "d", "\x1b", "\x1b", "\x1b",
    ];
    for _ in 0..3 {
        for key in keys {
            answered(&mut pty, key);
        }
    }
    // A decision that ends while it is open.
    answered(&mut pty, "a");
    pty.until_shown(ENDED);
    close_ended(&mut pty);
    // All of it was displayed.
    let shown = String::from_utf8_lossy(&pty.raw()).into_owned();
    for words in ["DECISION", "Call details", "Audit log", "NOT GOOD", ENDED] {
        assert!(shown.contains(words), "{words}");
    }
    pty.signal("TERM");
    assert!(pty.ended().success());
    pty.until_whole();
    let raw = String::from_utf8(pty.raw()).unwrap();
    assert_eq!(strange(&raw, size), [""; 0]);
}
