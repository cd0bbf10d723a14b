//! Drawing by role into a buffer: text that stays within its line, two-ended rows, columns and frames.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;

use crate::theme::{Role, Theme};
use bardo_base::text::{fit, width};

/// Text with the role that sets its style.
pub type StyledText = (String, Role);

/// Buffer with the theme that it is drawn with.
#[derive(Debug)]
pub struct Painter<'a> {
    /// Buffer that receives the cells.
    pub buffer: &'a mut Buffer,
    /// Theme that maps roles to styles.
    pub theme: &'a Theme,
}

/// Alignment of a text in its column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Left-aligned, for words.
    Left,
    /// Right-aligned, for figures.
    Right,
}

/// One column of a row.
#[derive(Debug, Clone)]
pub struct TableCell {
    /// Text to draw; cut to the width.
    pub text: String,
    /// Role that sets the style.
    pub role: Role,
    /// Width in terminal columns.
    pub width: u16,
    /// Alignment of the text in its column.
    pub side: Side,
}

impl TableCell {
    /// Left-aligned cell, for words.
    pub fn left(text: impl Into<String>, role: Role, width: u16) -> Self {
        Self { text: text.into(), role, width, side: Side::Left }
    }

    /// Right-aligned cell, for figures.
    pub fn right(text: impl Into<String>, role: Role, width: u16) -> Self {
        Self { text: text.into(), role, width, side: Side::Right }
    }
}

/// Total width of `pieces`, in terminal columns.
pub fn styled_width(pieces: &[StyledText]) -> usize {
    pieces.iter().map(|(text, _)| width(text)).sum()
}

/// Line `at` of `area`, or an empty area if there is no such line.
pub fn line(area: Rect, at: u16) -> Rect {
    if at < area.height { Rect { y: area.y + at, height: 1, ..area } } else { Rect { height: 0, width: 0, ..area } }
}

impl Painter<'_> {
    /// Fills `area` with blanks in the style of a role.
    pub fn fill(&mut self, area: Rect, role: Role) {
        let area = area.intersection(self.buffer.area);
        if area.is_empty() {
            return;
        }
        let columns = usize::from(self.buffer.area.width);
        let mut ground = ratatui::buffer::Cell::EMPTY;
        ground.set_style(self.theme.style(role));
        let left = usize::from(area.x - self.buffer.area.x);
        // Writes whole row slices at once, because every frame fills the whole screen.
        for y in area.top()..area.bottom() {
            let from = usize::from(y - self.buffer.area.y) * columns + left;
            if let Some(row) = self.buffer.content.get_mut(from..from + usize::from(area.width)) {
                row.fill(ground.clone());
            }
        }
    }

    /// Draws `text` at column `x` of a line, cut at the line's end. Returns the column after it.
    pub fn text(&mut self, line: Rect, x: u16, text: &str, role: Role) -> u16 {
        let line = line.intersection(self.buffer.area);
        if line.is_empty() || x >= line.right() || x < line.x {
            return x;
        }
        let room = line.right() - x;
        let shown = fit(text, usize::from(room));
        let mut style = self.theme.style(role);
        // Text on a dim line is not dim itself.
        if !style.add_modifier.contains(Modifier::DIM) {
            style = style.remove_modifier(Modifier::DIM);
        }
        // Fast path: most text is ASCII, where every character is one cell wide.
        if shown.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            let mut end = x;
            for letter in shown.chars() {
                if let Some(cell) = self.buffer.cell_mut((end, line.y)) {
                    cell.set_char(letter).set_style(style);
                }
                end = end.saturating_add(1);
            }
            return end;
        }
        let (end, _) = self.buffer.set_stringn(x, line.y, shown, usize::from(room), style);
        end
    }

    /// Draws pieces one after another from the start of the line. Returns the column after them.
    pub fn pieces(&mut self, line: Rect, pieces: &[StyledText]) -> u16 {
        let mut x = line.x;
        for (text, role) in pieces {
            x = self.text(line, x, text, *role);
        }
        x
    }

    /// Draws a row with a left and a right end. If both do not fit, only the left end is drawn.
    pub fn row(&mut self, line: Rect, left: &[StyledText], right: &[StyledText]) {
        let (left_width, right_width) = (styled_width(left), styled_width(right));
        self.pieces(line, left);
        if right_width > 0 && left_width + 1 + right_width <= usize::from(line.width) {
            // The width is at most that of the line, so the conversion cannot fail.
            let right_width = u16::try_from(right_width).unwrap_or(0);
            self.pieces(Rect { x: line.right() - right_width, width: right_width, ..line }, right);
        }
    }

    /// Draws cells side by side with one blank column between them. Cells that begin beyond the line are not drawn.
    pub fn cells(&mut self, line: Rect, cells: &[TableCell]) {
        let mut x = line.x;
        for cell in cells {
            if x >= line.right() {
                return;
            }
            let place = Rect { x, width: cell.width.min(line.right() - x), ..line };
            let shown = fit(&cell.text, usize::from(place.width));
            let blank = match cell.side {
                Side::Left => 0,
                Side::Right => place.width - u16::try_from(width(&shown)).unwrap_or(0).min(place.width),
            };
            self.text(place, place.x + blank, &shown, cell.role);
            x = x.saturating_add(cell.width).saturating_add(1);
        }
    }

    /// Draws a horizontal rule with a title and a text at its right end.
    pub fn rule(&mut self, line: Rect, title: &[StyledText], right: &[StyledText], role: Role) {
        self.ruled(line, title, right, role, [RIGHT | LEFT, RIGHT | LEFT]);
    }

    /// Draws a rule across a frame, joined to both sides, with a title and a text at its right end.
    pub fn division(&mut self, line: Rect, title: &[StyledText], right: &[StyledText], role: Role) {
        self.ruled(line, title, right, role, [UP | DOWN | RIGHT, UP | DOWN | LEFT]);
    }

    /// Draws a frame with a title and a text at the right end of its upper edge. Frames that share an edge are joined,
    /// so the panels look like one drawing.
    pub fn frame(&mut self, area: Rect, title: &[StyledText], right: &[StyledText], role: Role) {
        if area.width < 2 || area.height < 2 {
            return;
        }
        self.ruled(line(area, 0), title, right, role, [RIGHT | DOWN, DOWN | LEFT]);
        let bottom = line(area, area.height - 1);
        self.edges(bottom, role, [UP | RIGHT, UP | LEFT]);
        for row in 1..area.height - 1 {
            let row = line(area, row);
            self.edge(row.x, row.y, UP | DOWN, role);
            self.edge(row.right() - 1, row.y, UP | DOWN, role);
        }
    }

    fn ruled(&mut self, line: Rect, title: &[StyledText], right: &[StyledText], role: Role, ends: [u8; 2]) {
        if line.width < 2 || line.height == 0 {
            return;
        }
        self.edges(line, role, ends);
        let spaced = |pieces: &[StyledText]| {
            let mut spaced = Vec::with_capacity(pieces.len() + 2);
            if !pieces.is_empty() {
                spaced.push((" ".to_owned(), role));
                spaced.extend_from_slice(pieces);
                spaced.push((" ".to_owned(), role));
            }
            spaced
        };
        // One dash stays between a corner and the text.
        let inset = if line.width > 4 { 2 } else { 1 };
        let inner = Rect { x: line.x + inset, width: line.width - 2 * inset, ..line };
        self.row(inner, &spaced(title), &spaced(right));
    }

    /// Draws a horizontal line from one end to the other.
    fn edges(&mut self, line: Rect, role: Role, [first, last]: [u8; 2]) {
        self.edge(line.x, line.y, first, role);
        for x in line.x + 1..line.right() - 1 {
            self.edge(x, line.y, RIGHT | LEFT, role);
        }
        self.edge(line.right() - 1, line.y, last, role);
    }

    /// Draws one cell of a line and joins it to lines that are already there. An edge in the focus colour keeps it.
    fn edge(&mut self, x: u16, y: u16, arms: u8, role: Role) {
        let (style, focus) = (self.theme.style(role), self.theme.style(Role::BorderFocus));
        let Some(cell) = self.buffer.cell_mut((x, y)) else { return };
        // Most line cells are drawn on empty ground. ASCII symbols are never lines, so they skip the search.
        let joined = JOINS.iter().filter(|_| !cell.symbol().is_ascii());
        let before = joined.into_iter().find(|(_, symbol)| *symbol == cell.symbol()).map_or(0, |(arms, _)| *arms);
        let Some((_, symbol)) = JOINS.iter().find(|(joined, _)| *joined == before | arms) else { return };
        cell.set_symbol(symbol);
        if before == 0 || cell.style().fg != focus.fg {
            cell.set_style(style);
        }
    }
}

/// Directions in which a line cell continues, as bits.
const UP: u8 = 1;
const RIGHT: u8 = 2;
const DOWN: u8 = 4;
const LEFT: u8 = 8;

/// Line symbols by their directions.
const JOINS: [(u8, &str); 11] = [
    (RIGHT | LEFT, "─"),
    (UP | DOWN, "│"),
    (RIGHT | DOWN, "┌"),
    (DOWN | LEFT, "┐"),
    (UP | RIGHT, "└"),
    (UP | LEFT, "┘"),
    (UP | RIGHT | DOWN, "├"),
    (UP | DOWN | LEFT, "┤"),
    (RIGHT | DOWN | LEFT, "┬"),
    (UP | RIGHT | LEFT, "┴"),
    (UP | RIGHT | DOWN | LEFT, "┼"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_that_share_an_edge_are_one_drawing() {
        let (theme, _) = Theme::load("dark", None).unwrap();
        let mut buffer = Buffer::empty(Rect::new(0, 0, 9, 5));
        let mut painter = Painter { buffer: &mut buffer, theme: &theme };
        painter.frame(Rect::new(0, 0, 5, 5), &[], &[], Role::BorderFocus);
        painter.frame(Rect::new(4, 0, 5, 3), &[], &[], Role::Border);
        painter.frame(Rect::new(4, 2, 5, 3), &[], &[], Role::Border);
        let rows: Vec<String> =
            buffer.content.chunks(9).map(|row| row.iter().map(|cell| cell.symbol()).collect()).collect();
        assert_eq!(rows, ["┌───┬───┐", "│   │   │", "│   ├───┤", "│   │   │", "└───┴───┘"]);
        // The focused panel has the focus colour on all its sides.
        let color = |x: u16, y: u16| buffer[(x, y)].fg;
        assert_eq!([color(0, 1), color(4, 1), color(4, 3)].map(Some), [theme.style(Role::BorderFocus).fg; 3]);
        assert_eq!(Some(color(8, 1)), theme.style(Role::Border).fg);
    }

    #[test]
    fn what_has_no_room_is_cut_with_a_mark_and_a_right_end_without_room_goes() {
        let (theme, _) = Theme::load("dark", None).unwrap();
        let drawn = |draw: &dyn Fn(&mut Painter<'_>, Rect)| {
            let area = Rect::new(0, 0, 8, 1);
            let mut buffer = Buffer::empty(area);
            draw(&mut Painter { buffer: &mut buffer, theme: &theme }, area);
            buffer.content.iter().map(|cell| cell.symbol()).collect::<String>()
        };
        let long = "abcdefghij".to_owned();
        assert_eq!(drawn(&|painter, area| _ = painter.text(area, 0, &long, Role::Text)), "abcdefg…");
        assert_eq!(
            drawn(&|painter, area| painter.cells(area, &[TableCell::left(long.clone(), Role::Text, 5)])),
            "abcd…   "
        );
        assert_eq!(
            drawn(&|painter, area| painter.cells(area, &[TableCell::right(long.clone(), Role::Text, 5)])),
            "abcd…   "
        );
        let piece = |text: &str| vec![(text.to_owned(), Role::Text)];
        assert_eq!(drawn(&|painter, area| painter.row(area, &piece("abcd"), &piece("xyz"))), "abcd xyz");
        assert_eq!(drawn(&|painter, area| painter.row(area, &piece("abcde"), &piece("xyz"))), "abcde   ");
    }

    #[test]
    fn a_title_on_a_faint_edge_is_not_faint() {
        let (theme, _) = Theme::load("sixteen", None).unwrap();
        let mut buffer = Buffer::empty(Rect::new(0, 0, 12, 3));
        let mut painter = Painter { buffer: &mut buffer, theme: &theme };
        painter.frame(Rect::new(0, 0, 12, 3), &[("Now".to_owned(), Role::Title)], &[], Role::Border);
        let is_dim = |x: u16| buffer[(x, 0)].modifier.contains(Modifier::DIM);
        assert_eq!(buffer[(3, 0)].symbol(), "N");
        assert!(is_dim(1) && !is_dim(3), "the edge is, the word on it is not");
    }

    #[test]
    fn what_is_drawn_anew_is_joined_to_nothing_below_it() {
        let (theme, _) = Theme::load("dark", None).unwrap();
        let mut buffer = Buffer::empty(Rect::new(0, 0, 6, 4));
        let mut painter = Painter { buffer: &mut buffer, theme: &theme };
        painter.frame(Rect::new(0, 0, 6, 4), &[], &[], Role::Border);
        painter.fill(Rect::new(0, 0, 4, 3), Role::Dialog);
        painter.frame(Rect::new(0, 0, 4, 3), &[], &[], Role::DialogBorder);
        let rows: Vec<String> =
            buffer.content.chunks(6).map(|row| row.iter().map(|cell| cell.symbol()).collect()).collect();
        assert_eq!(rows, ["┌──┐─┐", "│  │ │", "└──┘ │", "└────┘"]);
    }
}
