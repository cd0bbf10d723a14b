//! Two buffers and the bytes between them: what a frame has to write so that the terminal shows it.
//!
//! A frame that looks like the one before writes nothing at all. Not here: the terminal's modes, and when to draw.

use std::io;

use crossterm::queue;
use crossterm::terminal::{Clear, ClearType};
use ratatui::backend::{Backend, CrosstermBackend};
use ratatui::buffer::Buffer;
use ratatui::layout::{Rect, Size};

/// What the terminal shows, and room for what it will show next.
#[derive(Debug)]
pub struct Screen {
    shown: Buffer,
    next: Buffer,
    /// Nothing is known of what the terminal shows: clear it and draw all.
    unknown: bool,
}

impl Screen {
    /// A screen of which nothing is known yet.
    pub fn new(size: Size) -> Self {
        let area = Rect::new(0, 0, size.width, size.height);
        Self { shown: Buffer::empty(area), next: Buffer::empty(area), unknown: true }
    }

    /// Forgets what the terminal shows: after a resize, a stop, or when something else wrote over it.
    pub fn forget(&mut self) {
        self.unknown = true;
    }

    /// Draws a frame of this size and returns the bytes that bring the terminal to it; none when nothing changed.
    ///
    /// # Errors
    /// When a cell cannot be encoded.
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
        let mut changed = self.shown.diff_iter(&self.next).peekable();
        if changed.peek().is_some() {
            CrosstermBackend::new(&mut bytes).draw(changed)?;
        }
        std::mem::swap(&mut self.shown, &mut self.next);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        assert_eq!(terminal.screen().contents(), "宽 text");
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
}
