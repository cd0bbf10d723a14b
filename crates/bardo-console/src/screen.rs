//! Double buffer of the terminal: computes the bytes that bring the terminal to the next frame.
//!
//! A frame that equals the last one writes nothing. Terminal modes and frame times are handled elsewhere.
//!
//! Terminals disagree about the width of emoji sequences, flags, rare scripts and more, and cannot report it. A row
//! with such characters is therefore rewritten whole. Each such character is drawn over blanks, and the text after it
//! gets an explicit column. Whatever width the terminal uses, no remains stay on the screen.

use std::io;

use crossterm::queue;
use crossterm::terminal::{Clear, ClearType};
use ratatui::backend::{Backend, CrosstermBackend};
use ratatui::buffer::{Buffer, Cell, CellWidth};
use ratatui::layout::{Rect, Size};

use bardo_base::text::REPLACEMENT;

/// Frame on the terminal, and buffer for the next one.
#[derive(Debug)]
pub struct Screen {
    shown: Buffer,
    next: Buffer,
    /// Set when the content of the terminal is unknown: the next frame clears it and draws everything.
    unknown: bool,
}

impl Screen {
    /// Creates a screen of unknown content; the first frame draws everything.
    pub fn new(size: Size) -> Self {
        let area = Rect::new(0, 0, size.width, size.height);
        Self { shown: Buffer::empty(area), next: Buffer::empty(area), unknown: true }
    }

    /// Discards what is known of the terminal, after a resize, a suspension, or output of another program.
    pub fn forget(&mut self) {
        self.unknown = true;
    }

    /// Draws a frame and returns the bytes that bring the terminal to it; empty if nothing changed.
    ///
    /// # Errors
    /// An I/O error if a cell cannot be encoded.
    pub fn frame(&mut self, size: Size, draw: impl FnOnce(Rect, &mut Buffer)) -> io::Result<Vec<u8>> {
        let area = Rect::new(0, 0, size.width, size.height);
        if self.shown.area != area {
            self.shown = Buffer::empty(area);
            self.next = Buffer::empty(area);
            self.unknown = true;
        }
        self.next.reset();
        draw(area, &mut self.next);
        let mut bytes = Vec::new();
        if self.unknown {
            queue!(bytes, Clear(ClearType::All))?;
            self.shown.reset();
            self.unknown = false;
        }
        let width = usize::from(size.width).max(1);
        let rows = self.shown.content.chunks(width).zip(self.next.content.chunks(width));
        for (y, (was, now)) in (0..size.height).zip(rows) {
            if was != now {
                write_row(&mut bytes, y, was, now)?;
            }
        }
        std::mem::swap(&mut self.shown, &mut self.next);
        Ok(bytes)
    }
}

/// Writes the bytes that turn one row into another.
fn write_row(bytes: &mut Vec<u8>, y: u16, was: &[Cell], now: &[Cell]) -> io::Result<()> {
    let mut backend = CrosstermBackend::new(bytes);
    if was.iter().chain(now).all(is_sure) {
        let changed = (0..).zip(was.iter().zip(now)).filter(|(_, (was, now))| was != now);
        return backend.draw(changed.map(|(x, (_, now))| (x, y, now)));
    }
    let mut x: u16 = 0;
    while let Some(cell) = now.get(usize::from(x)) {
        let rest = now.get(usize::from(x)..).unwrap_or_default();
        let sure = rest.iter().take_while(|cell| is_sure(cell)).count();
        if sure > 0 {
            backend.draw((x..).zip(rest.iter().take(sure)).map(|(x, cell)| (x, y, cell)))?;
            x = x.saturating_add(u16::try_from(sure).unwrap_or(u16::MAX));
            continue;
        }
        let columns = cell.symbol().cell_width().max(1);
        let mut blank = cell.clone();
        blank.set_symbol(" ");
        // If something was drawn over part of a wide character, only its own cell is blanked.
        let whole = rest.get(1..usize::from(columns)).is_some_and(|covered| covered.iter().all(|c| *c == Cell::EMPTY));
        let columns = if whole { columns } else { 1 };
        backend.draw((x..x.saturating_add(columns)).map(|x| (x, y, &blank)))?;
        if whole {
            // No terminal draws a character wider than two columns. One that could break into the next row is replaced.
            let most = cell.symbol().chars().count().saturating_mul(2);
            let mut shown = cell.clone();
            if most > rest.len() {
                shown.set_char(REPLACEMENT);
            }
            backend.draw(std::iter::once((x, y, &shown)))?;
        }
        x = x.saturating_add(columns);
    }
    Ok(())
}

/// Returns true if every terminal draws this cell in one column: a single character of ASCII, Latin, or the lines, bars
/// and marks of the console.
pub(crate) fn is_sure(cell: &Cell) -> bool {
    let mut characters = cell.symbol().chars();
    let (Some(character), None) = (characters.next(), characters.next()) else { return false };
    matches!(character, ' '..='~')
        || cell.symbol().cell_width() == 1
            && matches!(character,
                '\u{a1}'..='\u{2ff}' | '\u{2010}'..='\u{2027}' | '\u{2030}'..='\u{205e}' | '\u{2190}'..='\u{22ff}'
                | '\u{2500}'..='\u{25ff}' | '\u{2713}' | '\u{2715}' | '\u{2800}'..='\u{28ff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use bardo_base::text::{SafeText, corpus, fit};
    use ratatui::style::{Color, Style};

    const SIZE: Size = Size { width: 12, height: 3 };

    fn cells(count: u16) -> std::num::NonZero<u16> {
        std::num::NonZero::new(count).unwrap()
    }

    #[test]
    fn an_unchanged_frame_writes_nothing() {
        let mut screen = Screen::new(SIZE);
        let draw = |_: Rect, buffer: &mut Buffer| {
            buffer.set_string(0, 1, "quiet", Style::new().fg(Color::Red));
        };
        assert!(!screen.frame(SIZE, draw).unwrap().is_empty());
        assert!(screen.frame(SIZE, draw).unwrap().is_empty());
        screen.forget();
        assert!(!screen.frame(SIZE, draw).unwrap().is_empty());
    }

    #[test]
    fn a_terminal_shows_what_was_drawn_through_changes_and_resizes() {
        let mut terminal = vt100::Parser::new(cells(3), cells(12), 0);
        let mut screen = Screen::new(SIZE);
        terminal.process(
            &screen
                .frame(SIZE, |_, buffer| {
                    buffer.set_string(0, 0, "宽 text", Style::new());
                })
                .unwrap(),
        );
        assert_eq!(terminal.screen().contents().trim_end(), "宽 text");
        terminal.process(
            &screen
                .frame(SIZE, |_, buffer| {
                    buffer.set_string(1, 2, "over", Style::new());
                })
                .unwrap(),
        );
        let rows: Vec<String> = terminal.screen().contents().lines().map(|row| row.trim_end().to_owned()).collect();
        assert_eq!(rows, ["", "", " over"]);
        let tiny = Size { width: 1, height: 1 };
        terminal.screen_mut().set_size(cells(1), cells(1));
        terminal.process(
            &screen
                .frame(tiny, |_, buffer| {
                    buffer.set_stringn(0, 0, "x", 1, Style::new());
                })
                .unwrap(),
        );
        assert_eq!(terminal.screen().contents(), "x");
        assert!(screen.frame(Size { width: 0, height: 0 }, |_, _| {}).is_ok());
    }

    const LINE: Size = Size { width: 24, height: 4 };

    /// Draws a framed page with `text` in the middle of a row and at its end, and `other` after it.
    fn page(buffer: &mut Buffer, text: &str, other: &str) {
        let plain = Style::new();
        for y in 0..4 {
            buffer.set_string(0, y, "│", plain);
            buffer.set_string(23, y, "│", plain);
            buffer.set_string(14, y, other, plain);
        }
        buffer.set_stringn(2, 1, fit(text, 12), 12, plain);
        buffer.set_stringn(16, 2, fit(text, 8), 8, plain);
        buffer.set_stringn(1, 3, fit(text, 5), 5, plain);
    }

    /// Cells of certain width for which the terminal shows something else.
    fn wrong_cells(terminal: &vt100::Parser, buffer: &Buffer) -> Vec<(u16, u16, String)> {
        let mut wrong = Vec::new();
        for y in 0..LINE.height {
            let mut covered = 0;
            for x in 0..LINE.width {
                let cell = &buffer[(x, y)];
                if covered > 0 || !is_sure(cell) {
                    covered = if covered > 0 { covered - 1 } else { cell.symbol().cell_width().max(1) - 1 };
                    continue;
                }
                let shown = terminal.screen().cell(y, x).unwrap().contents();
                if (if shown.is_empty() { " " } else { shown }) != cell.symbol() {
                    wrong.push((x, y, shown.to_owned()));
                }
            }
        }
        wrong
    }

    #[test]
    fn nothing_of_a_hostile_text_stays_behind_whatever_its_width() {
        let cleaned = corpus::all().map(|raw| SafeText::clean(&raw, 40).as_str().to_owned());
        // The raw texts are tried too, without control characters: the emulator and the buffer measure some widths
        // differently.
        let raw = corpus::all().filter(|raw| !raw.chars().any(char::is_control));
        for text in cleaned.chain(raw) {
            let mut terminal = vt100::Parser::new(cells(4), cells(24), 0);
            let mut screen = Screen::new(LINE);
            for (text, other) in
                [("plain", "abc"), (&text, "abc"), (&text, "xy"), ("", "xy"), (&text, "abc"), ("p", "")]
            {
                let bytes = screen.frame(LINE, |_, buffer| page(buffer, text, other)).unwrap();
                terminal.process(&bytes);
                let wrong = wrong_cells(&terminal, &screen.shown);
                assert!(wrong.is_empty(), "{text:?}: {wrong:?}\n{}", terminal.screen().contents());
            }
        }
    }

    #[test]
    fn what_covers_half_a_wide_character_is_seen() {
        let mut terminal = vt100::Parser::new(cells(3), cells(12), 0);
        let bytes = Screen::new(SIZE).frame(SIZE, |_, buffer| {
            buffer.set_string(2, 1, "宽宽", Style::new());
            buffer.set_string(3, 1, "│", Style::new());
        });
        terminal.process(&bytes.unwrap());
        assert_eq!(terminal.screen().contents().trim(), "│宽");
    }
}
