//! Base of every dialog: a centred area with a cleared background and a frame.

use ratatui::layout::Rect;

use crate::painter::{Painter, StyledText};
use crate::theme::Role;

/// Centred area of at most this size.
pub fn middle(area: Rect, columns: usize, rows: usize) -> Rect {
    let width = u16::try_from(columns).unwrap_or(u16::MAX).min(area.width);
    let height = u16::try_from(rows).unwrap_or(u16::MAX).min(area.height);
    Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height }
}

/// Clears and frames an area. Returns the area inside the frame.
pub fn open(painter: &mut Painter<'_>, place: Rect, title: &[StyledText], right: &[StyledText]) -> Rect {
    painter.fill(place, Role::Dialog);
    painter.frame(place, title, right, Role::DialogBorder);
    inside(place)
}

/// Area inside the frame of a dialog, with one blank column at each side.
pub fn inside(place: Rect) -> Rect {
    let (width, height) = (place.width.saturating_sub(4), place.height.saturating_sub(2));
    Rect { x: place.x + 2, y: place.y + 1, width, height }
}
