//! Confirmation dialog of a screen: shows facts and options, with no option chosen at first. A letter chooses an
//! option, Enter confirms it, Esc closes the dialog. Facts that do not fit scroll, and nothing is confirmed before
//! every line was shown. The dialog itself sends nothing. Keys act only half a second after it opened and after the
//! last keystroke, as in an approval request.

use std::cell::Cell;

use crossterm::event::{KeyCode, KeyModifiers};
use ratatui::layout::{Position, Rect};

use crate::keymap::Key;
use crate::painter::{Painter, StyledText, line};
use crate::state::decision::GUARD_MILLIS;
use crate::theme::Role;
use crate::widgets::paint::{Row, rows, wrapped};
use bardo_base::text::width;

/// Maximum width of the dialog, in columns.
const WIDEST: u16 = 76;

/// Option of the dialog.
#[derive(Debug, Clone, PartialEq)]
pub struct Way<T> {
    /// Letter that chooses the option.
    pub letter: char,
    /// Text that describes the option.
    pub words: String,
    /// Value returned when the option is confirmed.
    pub then: T,
}

/// Confirmation dialog with its scroll and guard state.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask<T> {
    /// Title in the frame of the dialog.
    pub title: String,
    /// Facts to read before confirming, one per row.
    pub facts: Vec<Row>,
    /// Options that can be chosen, in display order.
    pub ways: Vec<Way<T>>,
    picked: Option<usize>,
    /// Time of the last key or of opening, in milliseconds of the machine's clock. `None` ignores the next key.
    touched_at: Option<u64>,
    /// Set when the last key came within the guard time.
    hurried: bool,
    /// First line of the facts to show.
    first: usize,
    /// Lines shown so far. In a cell, because only drawing knows them and drawing takes `&self`.
    shown: Cell<Option<Shown>>,
}

/// Record of the fact lines that were on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shown {
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
pub enum Asked<T> {
    /// The dialog stays open.
    Open,
    /// The dialog is closed without any action.
    Closed,
    /// The option with this value was confirmed.
    Do(T),
}

impl<T: Clone> Ask<T> {
    /// Creates a dialog with no option chosen. Without [`Self::opened`], its first key is ignored.
    pub fn new(title: impl Into<String>, facts: Vec<Row>, ways: Vec<Way<T>>) -> Self {
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
    pub fn key(&mut self, key: Key, now: u64) -> Asked<T> {
        let settled = self.settled(now);
        match key.code {
            KeyCode::Esc => Asked::Closed,
            KeyCode::Char('c') if key.modifiers == KeyModifiers::CONTROL => Asked::Closed,
            KeyCode::Char('q') if key.modifiers.is_empty() => Asked::Closed,
            KeyCode::Enter if !settled => Asked::Open,
            KeyCode::Enter => self.done(),
            KeyCode::Down | KeyCode::PageDown | KeyCode::Up | KeyCode::PageUp => {
                let step = if matches!(key.code, KeyCode::Down | KeyCode::Up) { 1 } else { self.page() };
                self.scroll(step, matches!(key.code, KeyCode::Down | KeyCode::PageDown));
                Asked::Open
            }
            KeyCode::Char(letter) if key.modifiers.is_empty() => {
                if let Some(at) = self.ways.iter().position(|way| settled && way.letter == letter) {
                    self.picked = Some(at);
                }
                Asked::Open
            }
            _ => Asked::Open,
        }
    }

    /// Handles a click: on an option it chooses it, on the last line it confirms or closes, elsewhere it does nothing.
    pub fn click(&mut self, at: Position, area: Rect, now: u64) -> Asked<T> {
        let settled = self.settled(now);
        let inner = self.inside(area);
        if !inner.contains(at) {
            return Asked::Open;
        }
        let from_below = usize::from(inner.bottom() - 1 - at.y);
        if from_below == 0 {
            // The left half confirms, the right half closes.
            return match at.x < inner.x + inner.width / 2 {
                true if !settled => Asked::Open,
                true => self.done(),
                false => Asked::Closed,
            };
        }
        if !settled {
            return Asked::Open;
        }
        if let Some(way) = self.ways.len().checked_sub(from_below).filter(|way| *way < self.ways.len()) {
            self.picked = Some(way);
        }
        Asked::Open
    }

    fn done(&mut self) -> Asked<T> {
        let way = self.picked.and_then(|at| self.ways.get(at));
        match way.filter(|_| self.is_read()) {
            Some(way) => Asked::Do(way.then.clone()),
            None => {
                // Enter first shows the fact lines that were not on the screen yet.
                if !self.is_read() {
                    self.scroll(self.page(), true);
                }
                Asked::Open
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
    fn show(&self, of: usize, width: u16, height: u16) -> Shown {
        let height = usize::from(height);
        // If not all lines fit, the last one is needed for the scroll hint.
        let room = if of > height { height.saturating_sub(1) } else { height };
        let first = self.first.min(of.saturating_sub(room));
        // After a change of width the lines break differently, so all of them must be read again.
        let before = self.shown.get().filter(|shown| (shown.of, shown.width) == (of, width));
        let before = before.map_or(0, |shown| shown.seen);
        let seen = if first <= before { before.max((first + room).min(of)) } else { before };
        let shown = Shown { of, width, room, first, seen };
        self.shown.set(Some(shown));
        shown
    }

    fn place(&self, area: Rect) -> Rect {
        let columns = area.width.min(WIDEST);
        let inner = usize::from(columns.saturating_sub(4));
        let lines = wrapped(self.facts.clone(), inner).len() + self.ways.len() + 4;
        let height = u16::try_from(lines).unwrap_or(u16::MAX).min(area.height);
        let (x, y) = ((area.width - columns) / 2, (area.height - height) / 2);
        Rect { x: area.x + x, y: area.y + y, width: columns, height }
    }

    fn inside(&self, area: Rect) -> Rect {
        let place = self.place(area);
        let (width, height) = (place.width.saturating_sub(4), place.height.saturating_sub(2));
        Rect { x: place.x + 2, y: place.y + 1, width, height }
    }

    /// Draws the dialog over an area. Options and the last line are kept even if little room is left for the facts.
    pub fn draw(&self, painter: &mut Painter<'_>, area: Rect) {
        let place = self.place(area);
        painter.fill(place, Role::Dialog);
        painter.frame(place, &[(self.title.clone(), Role::Title)], &[], Role::DialogBorder);
        let inner = self.inside(area);
        let below = u16::try_from(self.ways.len() + 1).unwrap_or(u16::MAX).min(inner.height);
        let facts = Rect { height: inner.height - below, ..inner };
        let lines = wrapped(self.facts.clone(), usize::from(inner.width));
        let shown = self.show(lines.len(), inner.width, facts.height);
        let standing: Vec<Row> = lines.into_iter().skip(shown.first).take(shown.room).collect();
        rows(painter, facts, &standing);
        if shown.of > shown.room && facts.height > 0 {
            let (above, below) = (shown.first, shown.of - shown.room - shown.first);
            let words = format!("▼ {below} more lines, ▲ {above} above: scroll with the arrows");
            let role = if self.is_read() { Role::TextDim } else { Role::StateCare };
            painter.text(line(facts, facts.height - 1), facts.x, &words, role);
        }
        let ways = Rect { y: inner.y + facts.height, height: below, ..inner };
        for (at, way) in self.ways.iter().enumerate() {
            let picked = self.picked == Some(at);
            let (mark, role) = if picked { ("▸ ", Role::Selection) } else { ("  ", Role::Dialog) };
            let pieces: Vec<StyledText> =
                vec![(mark.to_owned(), role), (way.letter.to_string(), Role::Key), (format!(" {}", way.words), role)];
            painter.pieces(line(ways, u16::try_from(at).unwrap_or(u16::MAX)), &pieces);
        }
        let (enter, role) = match self.picked {
            _ if self.hurried => (" too soon: read it first, then press again", Role::StateCare),
            _ if !self.is_read() => (" shows the rest; read it before confirming", Role::StateCare),
            Some(_) => (" confirms", Role::Dialog),
            None => (" confirms; nothing is picked", Role::TextDim),
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
    fn calmly<T: Clone>(ask: &mut Ask<T>, key: Key) -> Asked<T> {
        let now = ask.touched_at.unwrap_or(0) + GUARD_MILLIS;
        ask.key(key, now)
    }

    fn clicked(ask: &mut Ask<u8>, at: Position, area: Rect) -> Asked<u8> {
        let now = ask.touched_at.unwrap_or(0) + GUARD_MILLIS;
        ask.click(at, area, now)
    }

    fn key(code: KeyCode) -> Key {
        Key { code, modifiers: KeyModifiers::NONE }
    }

    fn ask() -> Ask<u8> {
        let way = |letter, then| Way { letter, words: "do it".to_owned(), then };
        Ask::new("Sure?", vec![Row::new("one fact", Role::Text)], vec![way('r', 1), way('s', 2)]).opened(0)
    }

    fn drawn(ask: &Ask<u8>, area: Rect) -> String {
        let theme = crate::theme::Theme::load("dark", None).unwrap().0;
        let mut buffer = ratatui::buffer::Buffer::empty(area);
        ask.draw(&mut Painter { buffer: &mut buffer, theme: &theme }, area);
        buffer.content.iter().map(ratatui::buffer::Cell::symbol).collect()
    }

    #[test]
    fn nothing_is_done_before_every_fact_was_on_the_screen() {
        let facts = (0..20).map(|at| Row::new(format!("fact {at:02}"), Role::Text)).collect();
        let mut ask = Ask::new("Sure?", facts, vec![Way { letter: 's', words: "do it".to_owned(), then: 2 }]).opened(0);
        assert_eq!(calmly(&mut ask, key(KeyCode::Char('s'))), Asked::Open);
        assert_eq!(calmly(&mut ask, key(KeyCode::Enter)), Asked::Open, "nobody has seen any of it");
        // Twelve lines: six facts, the scroll hint, the option, the last line, the edges.
        let area = Rect::new(0, 0, 60, 11);
        let mut on_screen = std::collections::BTreeSet::new();
        let mut enters = 0;
        loop {
            let text = drawn(&ask, area);
            on_screen.extend((0..20).filter(|at| text.contains(&format!("fact {at:02}"))));
            assert!(text.contains("more lines"), "{text}");
            match calmly(&mut ask, key(KeyCode::Enter)) {
                Asked::Open => enters += 1,
                done => break assert_eq!(done, Asked::Do(2)),
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
            assert_eq!(calmly(&mut ask, key(KeyCode::Enter)), Asked::Open);
        }
    }

    #[test]
    fn nothing_is_done_that_was_not_picked() {
        let mut ask = ask();
        drawn(&ask, Rect::new(0, 0, 80, 24));
        assert_eq!(calmly(&mut ask, key(KeyCode::Enter)), Asked::Open);
        assert_eq!(calmly(&mut ask, key(KeyCode::Char('k'))), Asked::Open);
        assert_eq!(calmly(&mut ask, key(KeyCode::Enter)), Asked::Open);
        assert_eq!(calmly(&mut ask, key(KeyCode::Char('s'))), Asked::Open);
        assert_eq!(calmly(&mut ask, key(KeyCode::Enter)), Asked::Do(2));
        for back in [key(KeyCode::Esc), key(KeyCode::Char('q')), Key::ctrl('c')] {
            assert_eq!(calmly(&mut ask, back), Asked::Closed, "{back}");
        }
    }

    #[test]
    fn a_mouse_picks_and_does_too() {
        let area = Rect::new(0, 0, 80, 24);
        let mut ask = ask();
        drawn(&ask, area);
        let inner = ask.inside(area);
        let at = |x, y| Position { x, y };
        assert_eq!(clicked(&mut ask, at(inner.x + 1, inner.bottom() - 1), area), Asked::Open, "nothing is picked");
        assert_eq!(clicked(&mut ask, at(inner.x + 1, inner.bottom() - 3), area), Asked::Open);
        assert_eq!(clicked(&mut ask, at(inner.x + 1, inner.bottom() - 1), area), Asked::Do(1));
        assert_eq!(clicked(&mut ask, at(inner.x + 1, inner.bottom() - 2), area), Asked::Open);
        assert_eq!(clicked(&mut ask, at(inner.x + 1, inner.bottom() - 1), area), Asked::Do(2));
        assert_eq!(clicked(&mut ask, at(inner.right() - 1, inner.bottom() - 1), area), Asked::Closed);
        assert_eq!(clicked(&mut ask, at(0, 0), area), Asked::Open);
    }

    #[test]
    fn no_key_typed_ahead_and_no_paste_does_anything() {
        let area = Rect::new(0, 0, 80, 24);
        let picked = |ask: &Ask<u8>| ask.picked.is_some();
        let mut ask = ask();
        drawn(&ask, area);
        // The guard time runs from opening, from the last key, and from a paste.
        assert_eq!(ask.key(key(KeyCode::Char('s')), GUARD_MILLIS - 1), Asked::Open);
        assert!(!picked(&ask));
        assert!(drawn(&ask, area).contains("too soon"));
        assert_eq!(ask.key(key(KeyCode::Char('s')), 2 * GUARD_MILLIS - 2), Asked::Open);
        assert!(!picked(&ask), "each keystroke guards it anew");
        let mut now = 3 * GUARD_MILLIS;
        assert_eq!(ask.key(key(KeyCode::Char('s')), now), Asked::Open);
        assert!(picked(&ask));
        assert_eq!(ask.key(key(KeyCode::Enter), now + GUARD_MILLIS - 1), Asked::Open);
        now += 3 * GUARD_MILLIS;
        ask.pasted();
        assert_eq!(ask.key(key(KeyCode::Enter), now), Asked::Open);
        let inner = ask.inside(area);
        let does = Position { x: inner.x + 1, y: inner.bottom() - 1 };
        assert_eq!(ask.click(does, area, now + GUARD_MILLIS - 1), Asked::Open, "a click as little as a key");
        assert_eq!(ask.key(key(KeyCode::Enter), now + 2 * GUARD_MILLIS), Asked::Do(2));
        // A dialog without an opening time accepts nothing. Closing needs no guard time.
        let mut unopened = Ask { touched_at: None, ..super::tests::ask() };
        drawn(&unopened, area);
        assert_eq!(unopened.key(key(KeyCode::Char('s')), now), Asked::Open);
        assert!(!picked(&unopened));
        assert_eq!(unopened.key(key(KeyCode::Esc), now), Asked::Closed);
    }
}
