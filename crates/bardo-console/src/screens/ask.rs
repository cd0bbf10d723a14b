//! A question of a screen before it does something: what it is about, the ways to go, nothing picked. A letter picks,
//! Enter does it, Esc goes back. What does not fit scrolls, and nothing is done before every line was on the screen. It
//! sends nothing by itself. Keys act half a second after it is there, and after the last keystroke, as in a decision.

use std::cell::Cell;

use crossterm::event::{KeyCode, KeyModifiers};
use ratatui::layout::{Position, Rect};

use crate::keymap::Key;
use crate::pen::{Pen, Piece, line};
use crate::state::decision::GUARD_MILLIS;
use crate::theme::Role;
use crate::widgets::paint::{Row, rows, wrapped};
use bardo_base::text::width;

/// The widest a question is drawn.
const WIDEST: u16 = 76;

/// One way to go.
#[derive(Debug, Clone, PartialEq)]
pub struct Way<T> {
    /// The letter that picks it.
    pub letter: char,
    /// What it does.
    pub words: String,
    /// What is wanted then.
    pub then: T,
}

/// The question.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask<T> {
    /// What it is about.
    pub title: String,
    /// The facts, a row each.
    pub facts: Vec<Row>,
    /// The ways to go.
    pub ways: Vec<Way<T>>,
    picked: Option<usize>,
    /// When the last key came, or since when it is open, by the machine's clock; `None`: nothing is taken yet.
    touched_at: Option<u64>,
    /// Whether the last key came too soon.
    hurried: bool,
    /// The first line of the facts that is wanted on the screen.
    first: usize,
    /// What was on the screen so far; drawing alone knows it.
    shown: Cell<Option<Shown>>,
}

/// What of the facts was on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shown {
    /// Lines of all facts, at the width they were drawn in.
    of: usize,
    width: u16,
    /// Lines that there is room for.
    room: usize,
    /// The first line that stands there now.
    first: usize,
    /// All lines before this one have stood there.
    seen: usize,
}

/// What came of a key or a click.
#[derive(Debug, Clone, PartialEq)]
pub enum Asked<T> {
    /// It stays open.
    Open,
    /// It is closed, and nothing is done.
    Closed,
    /// This is done.
    Do(T),
}

impl<T: Clone> Ask<T> {
    /// A question with nothing picked.
    pub fn new(title: impl Into<String>, facts: Vec<Row>, ways: Vec<Way<T>>) -> Self {
        let (title, shown) = (title.into(), Cell::new(None));
        Self { title, facts, ways, picked: None, touched_at: None, hurried: false, first: 0, shown }
    }

    /// The same, opened at this moment of the machine's clock. Without one, nothing is ever done.
    #[must_use]
    pub fn opened(self, now: u64) -> Self {
        Self { touched_at: Some(now), ..self }
    }

    /// Something was pasted: the next key comes too soon, whenever it comes.
    pub fn pasted(&mut self) {
        self.touched_at = None;
    }

    /// It was covered and is before the reader again at this moment of the machine's clock: what was meant for what
    /// covered it does nothing here.
    pub fn uncovered(&mut self, now: u64) {
        self.touched_at = Some(now);
    }

    /// Whether it has stood untouched for as long as a decision must; this keystroke guards it anew.
    fn settled(&mut self, now: u64) -> bool {
        let before = self.touched_at.replace(now);
        let settled = before.is_some_and(|before| now >= before.saturating_add(GUARD_MILLIS));
        self.hurried = !settled;
        settled
    }

    /// What a key comes to at this moment of the machine's clock.
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

    /// What a click comes to: a way is picked, the last line does it, outside nothing happens.
    pub fn click(&mut self, at: Position, area: Rect, now: u64) -> Asked<T> {
        let settled = self.settled(now);
        let inner = self.inside(area);
        if !inner.contains(at) {
            return Asked::Open;
        }
        let from_below = usize::from(inner.bottom() - 1 - at.y);
        if from_below == 0 {
            // The left half does it, the right half goes back.
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
                // What was not on the screen yet is what comes next.
                if !self.is_read() {
                    self.scroll(self.page(), true);
                }
                Asked::Open
            }
        }
    }

    /// Whether every line of the facts has been on the screen.
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

    /// Notes what is drawn now: from which line, and for how many lines there is room.
    fn show(&self, of: usize, width: u16, height: u16) -> Shown {
        let height = usize::from(height);
        // Where they do not all fit, a line says so.
        let room = if of > height { height.saturating_sub(1) } else { height };
        let first = self.first.min(of.saturating_sub(room));
        // Broken into other lines than before, they are read anew.
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

    /// Draws it over an area. The ways and the last line stay, whatever else has no room.
    pub fn draw(&self, pen: &mut Pen<'_>, area: Rect) {
        let place = self.place(area);
        pen.fill(place, Role::Dialog);
        pen.frame(place, &[(self.title.clone(), Role::Title)], &[], Role::DialogBorder);
        let inner = self.inside(area);
        let below = u16::try_from(self.ways.len() + 1).unwrap_or(u16::MAX).min(inner.height);
        let facts = Rect { height: inner.height - below, ..inner };
        let lines = wrapped(self.facts.clone(), usize::from(inner.width));
        let shown = self.show(lines.len(), inner.width, facts.height);
        let standing: Vec<Row> = lines.into_iter().skip(shown.first).take(shown.room).collect();
        rows(pen, facts, &standing);
        if shown.of > shown.room && facts.height > 0 {
            let (above, below) = (shown.first, shown.of - shown.room - shown.first);
            let words = format!("▼ {below} more lines, ▲ {above} above: the arrows scroll");
            let role = if self.is_read() { Role::TextDim } else { Role::StateCare };
            pen.text(line(facts, facts.height - 1), facts.x, &words, role);
        }
        let ways = Rect { y: inner.y + facts.height, height: below, ..inner };
        for (at, way) in self.ways.iter().enumerate() {
            let picked = self.picked == Some(at);
            let (mark, role) = if picked { ("▸ ", Role::Selection) } else { ("  ", Role::Dialog) };
            let pieces: Vec<Piece> =
                vec![(mark.to_owned(), role), (way.letter.to_string(), Role::Key), (format!(" {}", way.words), role)];
            pen.pieces(line(ways, u16::try_from(at).unwrap_or(u16::MAX)), &pieces);
        }
        let (enter, role) = match self.picked {
            _ if self.hurried => (" too soon: read it first, then press again", Role::StateCare),
            _ if !self.is_read() => (" shows the rest; nothing is done before", Role::StateCare),
            Some(_) => (" does it", Role::Dialog),
            None => (" does what is picked; nothing is picked", Role::TextDim),
        };
        let left: Vec<Piece> = vec![("Enter".to_owned(), Role::Key), (enter.to_owned(), role)];
        let right: Vec<Piece> = vec![("Esc".to_owned(), Role::Key), (" back".to_owned(), Role::Dialog)];
        pen.row(line(ways, below.saturating_sub(1)), &left, &right);
    }
}

/// A table's column of so many columns, its text cut with a mark.
pub fn column(text: &str, columns: usize) -> String {
    let shown = bardo_base::text::fit(text, columns);
    format!("{shown}{}", " ".repeat(columns.saturating_sub(width(&shown))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Long after whatever was typed before.
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
        ask.draw(&mut Pen { buffer: &mut buffer, theme: &theme }, area);
        buffer.content.iter().map(ratatui::buffer::Cell::symbol).collect()
    }

    #[test]
    fn nothing_is_done_before_every_fact_was_on_the_screen() {
        let facts = (0..20).map(|at| Row::new(format!("fact {at:02}"), Role::Text)).collect();
        let mut ask = Ask::new("Sure?", facts, vec![Way { letter: 's', words: "do it".to_owned(), then: 2 }]).opened(0);
        assert_eq!(calmly(&mut ask, key(KeyCode::Char('s'))), Asked::Open);
        assert_eq!(calmly(&mut ask, key(KeyCode::Enter)), Asked::Open, "nobody has seen any of it");
        // Twelve lines: six of the facts, one that says so, the way, the last line, the edges.
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
        // Since it opened, since the last key, and since a paste.
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
        // One that nobody has said the time of takes nothing; what only goes back needs no calm.
        let mut unopened = Ask { touched_at: None, ..super::tests::ask() };
        drawn(&unopened, area);
        assert_eq!(unopened.key(key(KeyCode::Char('s')), now), Asked::Open);
        assert!(!picked(&unopened));
        assert_eq!(unopened.key(key(KeyCode::Esc), now), Asked::Closed);
    }
}
