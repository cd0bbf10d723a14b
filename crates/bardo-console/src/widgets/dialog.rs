//! Base of every dialog: a centred area with a cleared background and a frame.

use ratatui::layout::{Margin, Rect};
use ratatui::widgets::{Block, Clear};

use crate::painter::{Painter, StyledText};
use crate::theme::Role;

/// Centred area of at most this size. A spare column or line is at the right or at the bottom; the library rounds
/// either way, and a dialog must not move by a cell when its text changes.
pub fn middle(area: Rect, columns: usize, rows: usize) -> Rect {
    let width = u16::try_from(columns).unwrap_or(u16::MAX).min(area.width);
    let height = u16::try_from(rows).unwrap_or(u16::MAX).min(area.height);
    Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height }
}

/// Clears and frames an area. Returns the area inside the frame.
pub fn open(painter: &mut Painter<'_>, place: Rect, title: &[StyledText], right: &[StyledText]) -> Rect {
    painter.render(Clear, place);
    painter.render(Block::new().style(painter.theme.style(Role::Dialog)), place);
    painter.frame(place, title, right, Role::DialogBorder);
    inside(place)
}

/// Area inside the frame of a dialog, with one blank column at each side.
pub fn inside(place: Rect) -> Rect {
    place.inner(Margin::new(2, 1))
}
