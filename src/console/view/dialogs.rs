//! What lies over the page: the help, made from the keymap, and the question before leaving.

use ratatui::layout::Rect;

use crate::base::text::width;
use crate::console::keymap::{self, Binding, Context};
use crate::console::pen::{Pen, Piece, line, pieces_width};
use crate::console::state::State;
use crate::console::state::model::Money;
use crate::console::theme::Role;

/// A place of at most this size in the middle of `area`.
fn middle(area: Rect, columns: usize, rows: usize) -> Rect {
    let width = u16::try_from(columns).unwrap_or(u16::MAX).min(area.width);
    let height = u16::try_from(rows).unwrap_or(u16::MAX).min(area.height);
    Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height }
}

/// Clears a place and frames it; returns what is inside.
fn open(pen: &mut Pen<'_>, place: Rect, title: &str, right: &[Piece]) -> Rect {
    pen.fill(place, Role::Dialog);
    pen.frame(place, &[(title.to_owned(), Role::Title)], right, Role::DialogBorder);
    Rect {
        x: place.x + 2,
        y: place.y + 1,
        width: place.width.saturating_sub(4),
        height: place.height.saturating_sub(2),
    }
}

fn keys_of(row: &Binding) -> String {
    let keys: Vec<_> = row.keys.iter().map(ToString::to_string).collect();
    keys.join("  ")
}

/// Every key that holds on the page, and what it does.
pub(super) fn help(pen: &mut Pen<'_>, area: Rect, offset: usize) {
    let rows: Vec<_> = keymap::rows(Context::Page).collect();
    let key_column = rows.iter().map(|row| width(&keys_of(row))).max().unwrap_or(0);
    let help_column = rows.iter().map(|row| width(row.help)).max().unwrap_or(0);
    let place = middle(area, key_column + help_column + 7, rows.len() + 3);
    // Frame and the line that says how to close it.
    let room = usize::from(place.height).saturating_sub(3);
    let offset = offset.min(rows.len().saturating_sub(room));
    let more = if rows.len() > room {
        vec![(format!("{}–{} of {}", offset + 1, offset + room, rows.len()), Role::TextDim)]
    } else {
        Vec::new()
    };
    let inner = open(pen, place, "Keys", &more);
    for (at, row) in (0..).zip(rows.iter().skip(offset).take(room)) {
        let keys = keys_of(row);
        let padding = " ".repeat(key_column.saturating_sub(width(&keys)) + 3);
        let pieces = [(keys, Role::Key), (padding, Role::Dialog), (row.help.to_owned(), Role::Dialog)];
        pen.pieces(line(inner, at), &pieces);
    }
    let last = line(inner, inner.height.saturating_sub(1));
    pen.pieces(last, &choices(Context::Help));
}

/// Asks before leaving, and says what leaving ends.
pub(super) fn quit(pen: &mut Pen<'_>, state: &State, area: Rect) {
    let money = state.live.network.as_ref().map_or(Money::Play, |network| network.money);
    let lines: &[&str] = match money {
        Money::Play => &["The devnet lives in this process:", "its chains end with it."],
        _ => &["The network goes on without you."],
    };
    let choices = choices(Context::Quit);
    let columns = lines.iter().map(|text| width(text)).max().unwrap_or(0).max(pieces_width(&choices));
    let place = middle(area, columns + 4, 6);
    let inner = open(pen, place, "Leave Bardo?", &[]);
    for (at, text) in (0..).zip(lines.iter()) {
        pen.text(line(inner, at), inner.x, text, Role::Dialog);
    }
    pen.pieces(line(inner, inner.height.saturating_sub(1)), &choices);
}

/// The keys of a dialog as its last line.
fn choices(context: Context) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for row in keymap::rows(context).filter(|row| !row.hint.is_empty()) {
        pieces.push((keys_of(row), Role::Key));
        pieces.push((format!(" {}   ", row.hint), Role::Dialog));
    }
    pieces
}
