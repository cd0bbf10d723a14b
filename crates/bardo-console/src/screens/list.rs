//! Lists with a selected row: key movement, rows in view, and clicks. Every screen uses these functions, so all lists
//! move alike. Also splits areas into panels with a shared edge.

use ratatui::layout::{Constraint, Layout, Margin, Position, Rect, Spacing};

use crate::keymap::Action;
use crate::painter::{Painter, StyledText, line};
use crate::theme::Role;
use crate::widgets::paint::cut;
use crate::widgets::table::{Column, FigureTable};
use bardo_base::text::width;

/// Splits an area into a left part of `width` columns and the rest; both share an edge.
pub(super) fn beside(area: Rect, width: u16) -> (Rect, Rect) {
    if width == 0 {
        return (Rect { width, ..area }, area);
    }
    let parts = [Constraint::Length(width.min(area.width)), Constraint::Fill(1)];
    let [left, right] = Layout::horizontal(parts).spacing(Spacing::Overlap(1)).areas(area);
    (left, right)
}

/// Splits an area into an upper part of `height` lines and the rest. Both share an edge, unless one of them is empty.
pub(super) fn stacked(area: Rect, height: u16) -> (Rect, Rect) {
    if height == 0 || height >= area.height {
        let height = height.min(area.height);
        return (Rect { height, ..area }, Rect { y: area.y + height, height: area.height - height, ..area });
    }
    let parts = [Constraint::Length(height), Constraint::Fill(1)];
    let [above, below] = Layout::vertical(parts).spacing(Spacing::Overlap(1)).areas(area);
    (above, below)
}

/// New index of a selection at `at` after `action`, in a list with last index `last` and `page` rows per page. `None`
/// if the action moves no selection.
pub(super) fn moved(action: Action, at: usize, last: usize, page: usize) -> Option<usize> {
    let half = (page / 2).max(1);
    let at = at.min(last);
    let to = match action {
        Action::Down => at.saturating_add(1),
        Action::Up => at.saturating_sub(1),
        Action::HalfPageDown => at.saturating_add(half),
        Action::HalfPageUp => at.saturating_sub(half),
        Action::Top => 0,
        Action::Bottom => last,
        _ => return None,
    };
    Some(to.min(last))
}

/// Like [`moved`], but without a selection while the list follows the newest row: one step then selects the first row.
pub(super) fn moved_from(action: Action, at: Option<usize>, last: usize, page: usize) -> Option<usize> {
    match (at, action) {
        (None, Action::Down | Action::Up) => Some(0),
        (at, action) => moved(action, at.unwrap_or(0), last, page),
    }
}

/// Index of the first row in view of a window of `room` rows that contains the selection.
pub(super) fn first_shown(at: usize, room: usize) -> usize {
    (at + 1).saturating_sub(room)
}

/// Number of rows for the title of a list, with those in view if not all of them are. The lower edge of a list may be the
/// upper one of another panel.
pub(super) fn counted_rows(at: usize, room: usize, count: usize) -> String {
    if count <= room || room == 0 {
        return count.to_string();
    }
    let first = first_shown(at, room);
    format!("{}–{} of {count}", first + 1, first + room)
}

/// Index of the row at a position inside a list; `first` is the first row in view.
pub(super) fn row_at(at: Position, inside: Rect, first: usize, count: usize) -> Option<usize> {
    let row = usize::from(at.y.checked_sub(inside.y)?) + first;
    (inside.contains(at) && row < count).then_some(row)
}

/// Draws the frame of a panel and returns the area inside it, with one blank column at each side.
pub(super) fn framed(painter: &mut Painter<'_>, area: Rect, focused: bool, title: &str, right: &[StyledText]) -> Rect {
    if area.height < 2 || area.width < 4 {
        return Rect { width: 0, height: 0, ..area };
    }
    // The mark shows the focus without relying on colour.
    let (edge, mark) = if focused { (Role::BorderFocus, "▸ ") } else { (Role::Border, "") };
    painter.frame(area, &[(format!("{mark}{title}"), Role::Title)], right, edge);
    area.inner(Margin::new(2, 1))
}

/// Draws the rows of a list in view of the selected one, in columns as wide as their widest cell. `area` is the panel,
/// whose lower edge counts the rows if they do not all fit, and `inner` the room inside it.
pub(super) fn draw_cells<const COLUMNS: usize>(
    painter: &mut Painter<'_>,
    (area, inner): (Rect, Rect),
    cells: &[[StyledText; COLUMNS]],
    selected: usize,
) {
    let widest = |at: usize| cells.iter().filter_map(|row| row.get(at)).map(|(text, _)| width(text)).max().unwrap_or(0);
    let widths: Vec<usize> = (0..COLUMNS).map(widest).collect();
    let room = usize::from(inner.height);
    let first = first_shown(selected, room);
    for (at, (index, row)) in (0..inner.height).zip(cells.iter().enumerate().skip(first)) {
        let place = line(inner, at);
        if index == selected {
            painter.fill(place, Role::Selection);
        }
        let mark = if index == selected { "▸" } else { " " };
        let mut pieces = vec![(mark.to_owned(), Role::BorderFocus)];
        let mut used = 1;
        for ((text, role), wide) in row.iter().zip(&widths) {
            // A column that does not fit is left out whole; the details have it.
            if used + wide > usize::from(inner.width) && used > 1 {
                break;
            }
            let pad = " ".repeat(wide.saturating_sub(width(text)) + 2);
            used += wide + 2;
            pieces.push((format!("{text}{pad}"), *role));
        }
        // The padding of the last column would cost a row that fits exactly its end.
        if let Some((last, _)) = pieces.last_mut() {
            last.truncate(last.trim_end().len());
        }
        painter.pieces(place, &cut(&pieces, usize::from(inner.width)));
    }
    if cells.len() > room && room > 0 {
        let words = format!(" {}–{} of {} ", first + 1, first + room, cells.len());
        let below = line(area, area.height - 1);
        painter.text(below, below.x + 2, &words, Role::TextDim);
    }
}

/// Draws rows of cells at their lines of an area. Rows below each other are one table; other rows between them are not
/// drawn here.
pub(super) fn draw_tables(
    painter: &mut Painter<'_>,
    area: Rect,
    rows: Vec<(u16, Vec<StyledText>)>,
    columns: &[Column],
) {
    let mut rows = rows.into_iter().peekable();
    while let Some((first, cells)) = rows.next() {
        let mut table = vec![cells];
        let mut next = first.saturating_add(1);
        while let Some((_, cells)) = rows.next_if(|(at, _)| *at == next) {
            table.push(cells);
            next = next.saturating_add(1);
        }
        let place = Rect { y: area.y.saturating_add(first), height: next - first, ..area };
        painter.render(FigureTable::new(table, columns, painter.theme), place.intersection(area));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parts_of_a_place_share_one_edge() {
        let area = Rect::new(3, 2, 100, 30);
        let (one, two) = beside(area, 40);
        assert_eq!((one.right() - 1, two.right(), one.x), (two.x, area.right(), 3));
        let (above, below) = stacked(area, 10);
        assert_eq!((above.bottom() - 1, below.bottom(), above.y), (below.y, area.bottom(), 2));
        assert_eq!(beside(area, 0), (Rect { width: 0, ..area }, area));
        assert_eq!(stacked(area, 0), (Rect { height: 0, ..area }, area));
        assert_eq!(stacked(area, 99), (area, Rect { y: area.bottom(), height: 0, ..area }));
    }

    #[test]
    fn keys_move_and_stay_inside() {
        assert_eq!(moved(Action::Down, 0, 9, 8), Some(1));
        assert_eq!(moved(Action::Down, 9, 9, 8), Some(9));
        assert_eq!(moved(Action::Up, 0, 9, 8), Some(0));
        assert_eq!(moved(Action::HalfPageDown, 0, 9, 8), Some(4));
        assert_eq!(moved(Action::HalfPageUp, 9, 9, 8), Some(5));
        assert_eq!(moved(Action::Bottom, 0, 9, 8), Some(9));
        assert_eq!(moved(Action::Top, 5, 9, 8), Some(0));
        assert_eq!(moved(Action::Copy, 5, 9, 8), None);
        // The list has become shorter than the index of the selection.
        assert_eq!(moved(Action::Up, 50, 9, 8), Some(8));
        assert_eq!(moved_from(Action::Down, None, 9, 8), Some(0));
        assert_eq!(moved_from(Action::Down, Some(0), 9, 8), Some(1));
        assert_eq!(moved_from(Action::HalfPageDown, None, 9, 8), Some(4));
    }

    proptest! {
        /// After any sequence of keys, the selected row is in the list and in view.
        #[test]
        fn what_is_selected_is_in_view(count in 1_usize..60, room in 1_usize..20, keys in prop::collection::vec(0_usize..6, 0..40)) {
            let actions = [Action::Down, Action::Up, Action::HalfPageDown, Action::HalfPageUp, Action::Top, Action::Bottom];
            let mut at = 0;
            for key in keys {
                at = moved(actions[key], at, count - 1, room).unwrap();
                let first = first_shown(at, room);
                prop_assert!(at < count && (first..first + room).contains(&at));
            }
        }
    }
}
