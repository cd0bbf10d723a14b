//! Hit testing for clicks. The top layer, or the page without one, is drawn into a separate buffer with a distinct
//! colour per role. A cell of a key, or of the text behind it, counts as that key. So every drawn key can be clicked.
//! Outside text cannot imitate a key, because it is never drawn in that role.

use ratatui::buffer::Buffer;
use ratatui::layout::Position;
use ratatui::widgets::Widget;

use super::header::Header;
use super::{HintLine, layer, over, page};
use crate::keymap::{Context, Key};
use crate::painter::{Painter, line};
use crate::state::{ClickTarget, State};
use crate::theme::{Role, Theme};

/// Number of blanks that end the text of a key.
const GAP: usize = 2;

/// Part of the screen at a position.
pub(super) fn target_at(state: &State, at: Position) -> ClickTarget {
    let in_hints = at.y.saturating_add(1) == state.display.size.height;
    // On a screen, only the hint line has keys; the screen handles its own clicks.
    let has_keys = !state.display.layers.is_empty() || in_hints || state.booting();
    ClickTarget {
        warning: super::to_read_at(state, at),
        key: if has_keys { key_at(state, at) } else { None },
        next_screen: screens_at(state, at),
        tab: super::header::tab_at(state, at),
        waiting: waiting_at(state, at),
    }
}

/// Key that is drawn at a position.
fn key_at(state: &State, at: Position) -> Option<Key> {
    let area = state.area();
    if state.too_small() || !area.contains(at) {
        return None;
    }
    let theme = Theme::role_colours();
    let mut buffer = Buffer::empty(area);
    let mut painter = Painter { buffer: &mut buffer, theme: &theme };
    match state.display.layers.last() {
        // Content below a dialog accepts no clicks.
        Some(top) => {
            layer(&mut painter, state, top, over(area));
            painter.render(HintLine { theme: painter.theme, state }, line(area, area.height.saturating_sub(1)));
        }
        None => page(&mut painter, state, area),
    }
    let words = word_at(&buffer, &theme, at)?;
    named(state, words.trim())
}

/// Returns true if a position belongs to the header's count of waiting requests.
fn waiting_at(state: &State, at: Position) -> bool {
    if at.y != 0 || state.session.questions.is_empty() || state.too_small() {
        return false;
    }
    let area = state.area();
    let theme = Theme::role_colours();
    let mut buffer = Buffer::empty(area);
    Header { theme: &theme, state }.render(area, &mut buffer);
    let is = |x: u16, mark: &str| buffer.cell(Position { x, y: 0 }).is_some_and(|cell| cell.symbol() == mark);
    let begin = (0..area.width).find(|x| is(*x, "‼"));
    let end = begin.and_then(|begin| (begin..area.width).find(|x| is(*x, ")")));
    begin.zip(end).is_some_and(|(begin, end)| (begin..=end).contains(&at.x))
}

/// Returns true if a position belongs to the hint line's screen digits or their word. A click there opens the next screen.
fn screens_at(state: &State, at: Position) -> bool {
    let words = 1 + "0-9 screens".len();
    let here = state.compact() && !state.session.leaving && state.display.notice.is_none() && !state.too_small();
    here && state.context() == Context::Page && (1..words).contains(&usize::from(at.x))
}

/// Text of the key that a cell belongs to, directly or by its description.
fn word_at(buffer: &Buffer, theme: &Theme, at: Position) -> Option<String> {
    let key = theme.style(Role::Key).fg;
    let row = |x: u16| buffer.cell(Position { x, y: at.y });
    let is_key = |x: u16| row(x).is_some_and(|cell| cell.fg == key.unwrap_or_default());
    let is_blank = |x: u16| row(x).is_none_or(|cell| cell.symbol().trim().is_empty());
    let is_edge = |x: u16| row(x).is_some_and(|cell| "│─┌┐└┘├┤┬┴┼".contains(cell.symbol()) && cell.symbol() != "");
    // Goes left to the key, over words separated by single blanks.
    let mut x = at.x;
    let mut blanks = 0;
    while !is_key(x) {
        blanks = if is_blank(x) { blanks + 1 } else { 0 };
        if blanks >= GAP || is_edge(x) {
            return None;
        }
        x = x.checked_sub(1)?;
    }
    // Extends to the whole key, including its own blanks.
    let mut first = x;
    while first > 0 && is_key(first - 1) {
        first -= 1;
    }
    let mut last = x;
    while is_key(last + 1) {
        last += 1;
    }
    let word: String = (first..=last).filter_map(row).map(|cell| cell.symbol()).collect();
    // For two adjacent keys, the one at or before the position counts.
    let inside = usize::from(at.x.saturating_sub(first));
    let keys: Vec<&str> = word.trim().split(GAP_WORDS).map(str::trim).filter(|key| !key.is_empty()).collect();
    match keys.as_slice() {
        [_] | [] => Some(word),
        many => {
            many.iter().rfind(|key| word.find(**key).is_some_and(|from| from <= inside)).map(|key| (*key).to_owned())
        }
    }
}

/// Separator of two keys that are drawn in one piece.
const GAP_WORDS: &str = "  ";

/// Key with this name, if it is bound in the current context.
fn named(state: &State, name: &str) -> Option<Key> {
    let context = state.context();
    let of = |row: &crate::keymap::ActiveBinding| row.keys.iter().copied().find(|key| key.to_string() == name);
    let found = state.options.keys.rows(context).find_map(of);
    // Keys of a screen's own dialog are in no table, so they are parsed by name.
    found.or_else(|| Key::named(name).filter(|_| context != Context::Page))
}
