//! A question of a screen before it does something: what it is about, the ways to go, nothing picked. A letter picks,
//! Enter does it, Esc goes back. It sends nothing by itself.

use crossterm::event::KeyCode;
use ratatui::layout::{Position, Rect};

use crate::base::text::width;
use crate::console::keymap::Key;
use crate::console::pen::{Pen, Piece, line};
use crate::console::theme::Role;
use crate::console::widgets::paint::{Row, rows, wrapped};

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
        Self { title: title.into(), facts, ways, picked: None }
    }

    /// What a key comes to.
    pub fn key(&mut self, key: Key) -> Asked<T> {
        match key.code {
            KeyCode::Esc => Asked::Closed,
            KeyCode::Enter => self.done(),
            KeyCode::Char(letter) if key.modifiers.is_empty() => {
                if let Some(at) = self.ways.iter().position(|way| way.letter == letter) {
                    self.picked = Some(at);
                }
                Asked::Open
            }
            _ => Asked::Open,
        }
    }

    /// What a click comes to: a way is picked, the last line does it, outside nothing happens.
    pub fn click(&mut self, at: Position, area: Rect) -> Asked<T> {
        let inner = self.inside(area);
        if !inner.contains(at) {
            return Asked::Open;
        }
        let from_below = usize::from(inner.bottom() - 1 - at.y);
        if from_below == 0 {
            // The left half does it, the right half goes back.
            return if at.x < inner.x + inner.width / 2 { self.done() } else { Asked::Closed };
        }
        if let Some(way) = self.ways.len().checked_sub(from_below).filter(|way| *way < self.ways.len()) {
            self.picked = Some(way);
        }
        Asked::Open
    }

    fn done(&self) -> Asked<T> {
        match self.picked.and_then(|at| self.ways.get(at)) {
            Some(way) => Asked::Do(way.then.clone()),
            None => Asked::Open,
        }
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
        rows(pen, facts, &wrapped(self.facts.clone(), usize::from(inner.width)));
        let ways = Rect { y: inner.y + facts.height, height: below, ..inner };
        for (at, way) in self.ways.iter().enumerate() {
            let picked = self.picked == Some(at);
            let (mark, role) = if picked { ("▸ ", Role::Selection) } else { ("  ", Role::Dialog) };
            let pieces: Vec<Piece> =
                vec![(mark.to_owned(), role), (way.letter.to_string(), Role::Key), (format!(" {}", way.words), role)];
            pen.pieces(line(ways, u16::try_from(at).unwrap_or(u16::MAX)), &pieces);
        }
        let (enter, role) = match self.picked {
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
    let shown = crate::base::text::fit(text, columns);
    format!("{shown}{}", " ".repeat(columns.saturating_sub(width(&shown))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossterm::event::KeyModifiers;

    fn key(code: KeyCode) -> Key {
        Key { code, modifiers: KeyModifiers::NONE }
    }

    fn ask() -> Ask<u8> {
        let way = |letter, then| Way { letter, words: "do it".to_owned(), then };
        Ask::new("Sure?", vec![Row::new("one fact", Role::Text)], vec![way('r', 1), way('s', 2)])
    }

    #[test]
    fn nothing_is_done_that_was_not_picked() {
        let mut ask = ask();
        assert_eq!(ask.key(key(KeyCode::Enter)), Asked::Open);
        assert_eq!(ask.key(key(KeyCode::Char('q'))), Asked::Open);
        assert_eq!(ask.key(key(KeyCode::Enter)), Asked::Open);
        assert_eq!(ask.key(key(KeyCode::Char('s'))), Asked::Open);
        assert_eq!(ask.key(key(KeyCode::Enter)), Asked::Do(2));
        assert_eq!(ask.key(key(KeyCode::Esc)), Asked::Closed);
    }

    #[test]
    fn a_mouse_picks_and_does_too() {
        let area = Rect::new(0, 0, 80, 24);
        let mut ask = ask();
        let inner = ask.inside(area);
        let at = |x, y| Position { x, y };
        assert_eq!(ask.click(at(inner.x + 1, inner.bottom() - 1), area), Asked::Open, "nothing is picked");
        assert_eq!(ask.click(at(inner.x + 1, inner.bottom() - 3), area), Asked::Open);
        assert_eq!(ask.click(at(inner.x + 1, inner.bottom() - 1), area), Asked::Do(1));
        assert_eq!(ask.click(at(inner.x + 1, inner.bottom() - 2), area), Asked::Open);
        assert_eq!(ask.click(at(inner.x + 1, inner.bottom() - 1), area), Asked::Do(2));
        assert_eq!(ask.click(at(inner.right() - 1, inner.bottom() - 1), area), Asked::Closed);
        assert_eq!(ask.click(at(0, 0), area), Asked::Open);
    }
}
