//! What every dialog has: a place in the middle, a cleared ground, a frame.

use ratatui::layout::Rect;

use crate::pen::{Pen, Piece};
use crate::theme::Role;

/// A place of at most this size in the middle of `area`.
pub fn middle(area: Rect, columns: usize, rows: usize) -> Rect {
    let width = u16::try_from(columns).unwrap_or(u16::MAX).min(area.width);
    let height = u16::try_from(rows).unwrap_or(u16::MAX).min(area.height);
    Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height }
}

/// Clears a place and frames it; returns what is inside.
pub fn open(pen: &mut Pen<'_>, place: Rect, title: &[Piece], right: &[Piece]) -> Rect {
    pen.fill(place, Role::Dialog);
    pen.frame(place, title, right, Role::DialogBorder);
    inside(place)
}

/// What is inside a dialog's frame.
pub fn inside(place: Rect) -> Rect {
    let (width, height) = (place.width.saturating_sub(4), place.height.saturating_sub(2));
    Rect { x: place.x + 2, y: place.y + 1, width, height }
}
