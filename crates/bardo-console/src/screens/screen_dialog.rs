//! Confirmation dialog of a screen: shows facts and options, with no option chosen at first. A letter chooses an
//! option, Enter confirms it, Esc closes the dialog. Facts that do not fit scroll, and nothing is confirmed before
//! every line was shown. The dialog itself sends nothing. Keys act only half a second after it opened and after the
//! last keystroke, as in an approval request.

use std::cell::Cell;

use crossterm::event::{KeyCode, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::widgets::Widget;

use crate::keymap::Key;
use crate::painter::{Painter, StyledText, line};
use crate::screens::ScreenRequest;
use crate::theme::{Role, Theme};
use crate::widgets::decision::GUARD_MILLIS;
use crate::widgets::dialog;
use crate::widgets::paint::{Row, rows, wrapped};
use bardo_base::text::width;

/// Maximum width of the dialog, in columns.
const WIDEST: u16 = 76;

/// Option of the dialog.
#[derive(Debug, Clone, PartialEq)]
pub struct DialogOption<T = Vec<ScreenRequest>> {
    /// Letter that chooses the option.
    pub letter: char,
    /// Text that describes the option.
    pub words: String,
    /// Value returned when the option is confirmed.
    pub then: T,
}

/// Confirmation dialog with its scroll and guard state.
#[derive(Debug, Clone, PartialEq)]
pub struct ScreenDialog<T = Vec<ScreenRequest>> {
    /// Title in the frame of the dialog.
    pub title: String,
    /// Facts to read before confirming, one per row.
    pub facts: Vec<Row>,
    /// Options that can be chosen, in display order.
    pub ways: Vec<DialogOption<T>>,
    picked: Option<usize>,
    /// Time of the last key or of opening, in milliseconds of the machine's clock. `None` ignores the next key.
    touched_at: Option<u64>,
    /// Set when the last key came within the guard time.
    hurried: bool,
    /// First line of the facts to show.
    first: usize,
    /// Lines shown so far. In a cell, because only drawing knows them and drawing takes `&self`.
    shown: Cell<Option<ShownLines>>,
}

/// Record of the fact lines that were on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ShownLines {
    /// Total number of fact lines at the width they were drawn in.
    of: usize,
    width: u16,
    /// Number of lines that fit.
    room: usize,
    /// First line that is shown now.
    first: usize,
    /// Number of lines from the start that have been shown so far.
    seen: usize,
}

/// Result of a key or a click.
#[derive(Debug, Clone, PartialEq)]
pub enum DialogOutcome<T> {
    /// The dialog stays open.
    Open,
    /// The dialog is closed without any action.
    Closed,
    /// The option with this value was confirmed.
    Do(T),
}

impl<T: Clone> ScreenDialog<T> {
    /// Creates a dialog with no option chosen. Without [`Self::opened`], its first key is ignored.
    pub fn new(title: impl Into<String>, facts: Vec<Row>, ways: Vec<DialogOption<T>>) -> Self {
        let (title, shown) = (title.into(), Cell::new(None));
        Self { title, facts, ways, picked: None, touched_at: None, hurried: false, first: 0, shown }
    }

    /// Sets the time of opening, in milliseconds of the machine's clock. Without it, the first key does not act.
    #[must_use]
    pub fn opened(self, now: u64) -> Self {
        Self { touched_at: Some(now), ..self }
    }

    /// Records a paste: the next key is ignored, whenever it comes.
    pub fn pasted(&mut self) {
        self.touched_at = None;
    }

    /// Restarts the guard time after another layer covered the dialog, so that keys meant for that layer do nothing
    /// here.
    pub fn uncovered(&mut self, now: u64) {
        self.touched_at = Some(now);
    }

    /// Returns true if the guard time has passed since the last keystroke, and restarts it.
    fn settled(&mut self, now: u64) -> bool {
        let before = self.touched_at.replace(now);
        let settled = before.is_some_and(|before| now >= before.saturating_add(GUARD_MILLIS));
        self.hurried = !settled;
        settled
    }

    /// Handles a key at the given time of the machine's clock, in milliseconds.
    pub fn key(&mut self, key: Key, now: u64) -> DialogOutcome<T> {
        let settled = self.settled(now);
        match key.code {
            KeyCode::Esc => DialogOutcome::Closed,
            KeyCode::Char('c') if key.modifiers == KeyModifiers::CONTROL => DialogOutcome::Closed,
            KeyCode::Char('q') if key.modifiers.is_empty() => DialogOutcome::Closed,
            KeyCode::Enter if !settled => DialogOutcome::Open,
            KeyCode::Enter => self.done(),
            KeyCode::Down | KeyCode::PageDown | KeyCode::Up | KeyCode::PageUp => {
                let step = if matches!(key.code, KeyCode::Down | KeyCode::Up) { 1 } else { self.page() };
                self.scroll(step, matches!(key.code, KeyCode::Down | KeyCode::PageDown));
                DialogOutcome::Open
            }
            KeyCode::Char(letter) if key.modifiers.is_empty() => {
                if let Some(at) = self.ways.iter().position(|way| settled && way.letter == letter) {
                    self.picked = Some(at);
                }
                DialogOutcome::Open
            }
            _ => DialogOutcome::Open,
        }
    }

    /// Handles a click: on an option it chooses it, on the last line it confirms or closes, elsewhere it does nothing.
    pub fn click(&mut self, at: Position, area: Rect, now: u64) -> DialogOutcome<T> {
        let settled = self.settled(now);
        let inner = self.inside(area);
        if !inner.contains(at) {
            return DialogOutcome::Open;
        }
        let from_below = usize::from(inner.bottom() - 1 - at.y);
        if from_below == 0 {
            // The left half confirms, the right half closes.
            return match at.x < inner.x + inner.width / 2 {
                true if !settled => DialogOutcome::Open,
                true => self.done(),
                false => DialogOutcome::Closed,
            };
        }
        if !settled {
            return DialogOutcome::Open;
        }
        if let Some(way) = self.ways.len().checked_sub(from_below).filter(|way| *way < self.ways.len()) {
            self.picked = Some(way);
        }
        DialogOutcome::Open
    }

    fn done(&mut self) -> DialogOutcome<T> {
        let way = self.picked.and_then(|at| self.ways.get(at));
        match way.filter(|_| self.is_read()) {
            Some(way) => DialogOutcome::Do(way.then.clone()),
            None => {
                // Enter first shows the fact lines that were not on the screen yet.
                if !self.is_read() {
                    self.scroll(self.page(), true);
                }
                DialogOutcome::Open
            }
        }
    }

    /// Returns true if every fact line has been on the screen.
    fn is_read(&self) -> bool {
        self.shown.get().is_some_and(|shown| shown.seen >= shown.of)
    }

    fn page(&self) -> usize {
        self.shown.get().map_or(1, |shown| shown.room.max(1))
    }

    fn scroll(&mut self, lines: usize, down: bool) {
        let Some(shown) = self.shown.get() else { return };
        let last = shown.of.saturating_sub(shown.room);
        let first = if down { shown.first.saturating_add(lines) } else { shown.first.saturating_sub(lines) };
        self.first = first.min(last);
    }

    /// Records the lines that are drawn now.
    fn show(&self, of: usize, width: u16, height: u16) -> ShownLines {
        let height = usize::from(height);
        // If not all lines fit, the last one is needed for the scroll hint.
        let room = if of > height { height.saturating_sub(1) } else { height };
        let first = self.first.min(of.saturating_sub(room));
        // After a change of width the lines break differently, so all of them must be read again.
        let before = self.shown.get().filter(|shown| (shown.of, shown.width) == (of, width));
        let before = before.map_or(0, |shown| shown.seen);
        let seen = if first <= before { before.max((first + room).min(of)) } else { before };
        let shown = ShownLines { of, width, room, first, seen };
        self.shown.set(Some(shown));
        shown
    }

    fn place(&self, area: Rect) -> Rect {
        let columns = area.width.min(WIDEST);
        let inner = usize::from(columns.saturating_sub(4));
        let lines = wrapped(self.facts.clone(), inner).len() + self.ways.len() + 4;
        dialog::middle(area, usize::from(columns), lines)
    }

    fn inside(&self, area: Rect) -> Rect {
        dialog::inside(self.place(area))
    }
}

/// Widget of the dialog over its area. Options and the last line are kept even if little room is left for the facts.
#[derive(Debug)]
pub struct ScreenDialogView<'a, T> {
    dialog: &'a ScreenDialog<T>,
    theme: &'a Theme,
}

impl<'a, T> ScreenDialogView<'a, T> {
    /// Creates the widget of a dialog.
    pub const fn new(dialog: &'a ScreenDialog<T>, theme: &'a Theme) -> Self {
        Self { dialog, theme }
    }
}

impl<T: Clone> Widget for ScreenDialogView<'_, T> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { dialog, theme } = self;
        let painter = &mut Painter { buffer, theme };
        let place = dialog.place(area);
        let inner = crate::widgets::dialog::open(painter, place, &[(dialog.title.clone(), Role::Title)], &[]);
        let below = u16::try_from(dialog.ways.len() + 1).unwrap_or(u16::MAX).min(inner.height);
        let facts = Rect { height: inner.height - below, ..inner };
        let lines = wrapped(dialog.facts.clone(), usize::from(inner.width));
        let shown = dialog.show(lines.len(), inner.width, facts.height);
        let standing: Vec<Row> = lines.into_iter().skip(shown.first).take(shown.room).collect();
        rows(painter, facts, &standing);
        if shown.of > shown.room && facts.height > 0 {
            let (above, below) = (shown.first, shown.of - shown.room - shown.first);
            let words = format!("▼ {below} more lines, ▲ {above} above: scroll with the arrows");
            let role = if dialog.is_read() { Role::TextDim } else { Role::StateCare };
            painter.text(line(facts, facts.height - 1), facts.x, &words, role);
        }
        let ways = Rect { y: inner.y + facts.height, height: below, ..inner };
        for (at, way) in dialog.ways.iter().enumerate() {
            let picked = dialog.picked == Some(at);
            let (mark, role) = if picked { ("▸ ", Role::Selection) } else { ("  ", Role::Dialog) };
            let pieces: Vec<StyledText> =
                vec![(mark.to_owned(), role), (way.letter.to_string(), Role::Key), (format!(" {}", way.words), role)];
            painter.pieces(line(ways, u16::try_from(at).unwrap_or(u16::MAX)), &pieces);
        }
        let (enter, role) = match dialog.picked {
            _ if dialog.hurried => (" too soon: read it first, then press again", Role::StateCare),
            _ if !dialog.is_read() => (" shows the rest; read it before confirming", Role::StateCare),
            Some(_) => (" confirms", Role::Dialog),
            None => (" confirms; nothing is selected", Role::TextDim),
        };
        let left: Vec<StyledText> = vec![("Enter".to_owned(), Role::Key), (enter.to_owned(), role)];
        let right: Vec<StyledText> = vec![("Esc".to_owned(), Role::Key), (" back".to_owned(), Role::Dialog)];
        painter.row(line(ways, below.saturating_sub(1)), &left, &right);
    }
}

/// Text padded or cut to a number of terminal columns; a cut text ends with a mark.
pub fn column(text: &str, columns: usize) -> String {
    let shown = bardo_base::text::fit(text, columns);
    format!("{shown}{}", " ".repeat(columns.saturating_sub(width(&shown))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Presses a key after the guard time.
    fn calmly<T: Clone>(ask: &mut ScreenDialog<T>, key: Key) -> DialogOutcome<T> {
        let now = ask.touched_at.unwrap_or(0) + GUARD_MILLIS;
        ask.key(key, now)
    }

    fn clicked(ask: &mut ScreenDialog<u8>, at: Position, area: Rect) -> DialogOutcome<u8> {
        let now = ask.touched_at.unwrap_or(0) + GUARD_MILLIS;
        ask.click(at, area, now)
    }

    fn key(code: KeyCode) -> Key {
        Key { code, modifiers: KeyModifiers::NONE }
    }

    fn ask() -> ScreenDialog<u8> {
        let way = |letter, then| DialogOption { letter, words: "do it".to_owned(), then };
        ScreenDialog::new("Sure?", vec![Row::new("one fact", Role::Text)], vec![way('r', 1), way('s', 2)]).opened(0)
    }

    fn drawn(ask: &ScreenDialog<u8>, area: Rect) -> String {
        let theme = crate::theme::Theme::load("dark", None).unwrap().0;
        let mut buffer = ratatui::buffer::Buffer::empty(area);
        ScreenDialogView::new(ask, &theme).render(area, &mut buffer);
        buffer.content.iter().map(ratatui::buffer::Cell::symbol).collect()
    }

    #[test]
    fn nothing_is_done_before_every_fact_was_on_the_screen() {
        let facts = (0..20).map(|at| Row::new(format!("fact {at:02}"), Role::Text)).collect();
        let mut ask =
            ScreenDialog::new("Sure?", facts, vec![DialogOption { letter: 's', words: "do it".to_owned(), then: 2 }])
                .opened(0);
        assert_eq!(calmly(&mut ask, key(KeyCode::Char('s'))), DialogOutcome::Open);
        assert_eq!(calmly(&mut ask, key(KeyCode::Enter)), DialogOutcome::Open, "nobody has seen any of it");
        // Twelve lines: six facts, the scroll hint, the option, the last line, the edges.
        let area = Rect::new(0, 0, 60, 11);
        let mut on_screen = std::collections::BTreeSet::new();
        let mut enters = 0;
        loop {
            let text = drawn(&ask, area);
            on_screen.extend((0..20).filter(|at| text.contains(&format!("fact {at:02}"))));
            assert!(text.contains("more lines"), "{text}");
            match calmly(&mut ask, key(KeyCode::Enter)) {
                DialogOutcome::Open => enters += 1,
                done => break assert_eq!(done, DialogOutcome::Do(2)),
            }
            assert!(enters < 20, "it can be read to its end");
        }
        assert_eq!(on_screen.len(), 20, "{on_screen:?}");
        assert!(enters > 1);
    }

    #[test]
    fn what_has_no_room_at_all_is_not_done() {
        let mut ask = ask();
        for _ in 0..5 {
            drawn(&ask, Rect::new(0, 0, 60, 4));
            calmly(&mut ask, key(KeyCode::Char('r')));
            assert_eq!(calmly(&mut ask, key(KeyCode::Enter)), DialogOutcome::Open);
        }
    }

    #[test]
    fn nothing_is_done_that_was_not_picked() {
        let mut ask = ask();
        drawn(&ask, Rect::new(0, 0, 80, 24));
        assert_eq!(calmly(&mut ask, key(KeyCode::Enter)), DialogOutcome::Open);
        assert_eq!(calmly(&mut ask, key(KeyCode::Char('k'))), DialogOutcome::Open);
        assert_eq!(calmly(&mut ask, key(KeyCode::Enter)), DialogOutcome::Open);
        assert_eq!(calmly(&mut ask, key(KeyCode::Char('s'))), DialogOutcome::Open);
        assert_eq!(calmly(&mut ask, key(KeyCode::Enter)), DialogOutcome::Do(2));
        for back in [key(KeyCode::Esc), key(KeyCode::Char('q')), Key::ctrl('c')] {
            assert_eq!(calmly(&mut ask, back), DialogOutcome::Closed, "{back}");
        }
    }

    #[test]
    fn a_mouse_picks_and_does_too() {
        let area = Rect::new(0, 0, 80, 24);
        let mut ask = ask();
        drawn(&ask, area);
        let inner = ask.inside(area);
        let at = |x, y| Position { x, y };
        assert_eq!(
            clicked(&mut ask, at(inner.x + 1, inner.bottom() - 1), area),
            DialogOutcome::Open,
            "nothing is selected"
        );
        assert_eq!(clicked(&mut ask, at(inner.x + 1, inner.bottom() - 3), area), DialogOutcome::Open);
        assert_eq!(clicked(&mut ask, at(inner.x + 1, inner.bottom() - 1), area), DialogOutcome::Do(1));
        assert_eq!(clicked(&mut ask, at(inner.x + 1, inner.bottom() - 2), area), DialogOutcome::Open);
        assert_eq!(clicked(&mut ask, at(inner.x + 1, inner.bottom() - 1), area), DialogOutcome::Do(2));
        assert_eq!(clicked(&mut ask, at(inner.right() - 1, inner.bottom() - 1), area), DialogOutcome::Closed);
        assert_eq!(clicked(&mut ask, at(0, 0), area), DialogOutcome::Open);
    }

    #[test]
    fn no_key_typed_ahead_and_no_paste_does_anything() {
        let area = Rect::new(0, 0, 80, 24);
        let picked = |ask: &ScreenDialog<u8>| ask.picked.is_some();
        let mut ask = ask();
        drawn(&ask, area);
        // The guard time runs from opening, from the last key, and from a paste.
        assert_eq!(ask.key(key(KeyCode::Char('s')), GUARD_MILLIS - 1), DialogOutcome::Open);
        assert!(!picked(&ask));
        assert!(drawn(&ask, area).contains("too soon"));
        assert_eq!(ask.key(key(KeyCode::Char('s')), 2 * GUARD_MILLIS - 2), DialogOutcome::Open);
        assert!(!picked(&ask), "each keystroke guards it anew");
        let mut now = 3 * GUARD_MILLIS;
        assert_eq!(ask.key(key(KeyCode::Char('s')), now), DialogOutcome::Open);
        assert!(picked(&ask));
        assert_eq!(ask.key(key(KeyCode::Enter), now + GUARD_MILLIS - 1), DialogOutcome::Open);
        now += 3 * GUARD_MILLIS;
        ask.pasted();
        assert_eq!(ask.key(key(KeyCode::Enter), now), DialogOutcome::Open);
        let inner = ask.inside(area);
        let does = Position { x: inner.x + 1, y: inner.bottom() - 1 };
        assert_eq!(ask.click(does, area, now + GUARD_MILLIS - 1), DialogOutcome::Open, "a click as little as a key");
        assert_eq!(ask.key(key(KeyCode::Enter), now + 2 * GUARD_MILLIS), DialogOutcome::Do(2));
        // A dialog without an opening time accepts nothing. Closing needs no guard time.
        let mut unopened = ScreenDialog { touched_at: None, ..super::tests::ask() };
        drawn(&unopened, area);
        assert_eq!(unopened.key(key(KeyCode::Char('s')), now), DialogOutcome::Open);
        assert!(!picked(&unopened));
        assert_eq!(unopened.key(key(KeyCode::Esc), now), DialogOutcome::Closed);
    }
}
