//! Drawing by role into a buffer with ratatui's widgets.
//!
//! The library's widgets take styles, and the console has semantic roles that a theme maps to styles. Its texts are cut
//! without a mark, and a line has one alignment. So the painter adds text that ends with `…` where it is cut, rows with
//! two ends, and frames whose titles are dropped whole. Frames, rules and everything else are the library's own.

use ratatui::buffer::Buffer;
use ratatui::layout::{Margin, Position, Rect};
use ratatui::style::Modifier;
use ratatui::symbols::merge::MergeStrategy;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Scrollbar, ScrollbarOrientation, ScrollbarState, StatefulWidget, Widget};

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

/// Total width of `pieces`, in terminal columns.
pub fn styled_width(pieces: &[StyledText]) -> usize {
    pieces.iter().map(|(text, _)| width(text)).sum()
}

/// Line `at` of `area`, or an empty area if there is no such line.
pub fn line(area: Rect, at: u16) -> Rect {
    if at < area.height { Rect { y: area.y + at, height: 1, ..area } } else { Rect { height: 0, width: 0, ..area } }
}

impl Painter<'_> {
    /// Pieces as a line of the library, in the styles of their roles.
    pub fn line(&self, pieces: &[StyledText]) -> Line<'static> {
        pieces.iter().map(|(text, role)| Span::styled(text.clone(), self.theme.style(*role))).collect()
    }

    /// Draws a widget into an area.
    pub fn render(&mut self, widget: impl Widget, area: Rect) {
        widget.render(area.intersection(self.buffer.area), self.buffer);
    }

    /// Fills `area` with blanks in the style of a role. `Clear` and a `Block` with a style would visit each cell twice,
    /// and every frame fills the whole screen.
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

    /// Draws a horizontal rule with a title and a text at its right end.
    pub fn rule(&mut self, line: Rect, title: &[StyledText], right: &[StyledText], role: Role) {
        self.bordered(Rect { height: line.height.min(1), ..line }, Borders::TOP, title, right, role);
    }

    /// Draws a rule across a frame at line `y`, joined to both sides, with a title and a text at its right end.
    pub fn division(&mut self, frame: Rect, y: u16, title: &[StyledText], right: &[StyledText], role: Role) {
        // The frame's next line is drawn again, so that the library joins the corners.
        let below = Rect { y, height: frame.bottom().saturating_sub(y).min(2), ..frame };
        let sides = if below.height < 2 { Borders::NONE } else { Borders::LEFT | Borders::RIGHT };
        let borders = Borders::TOP | sides;
        self.bordered(below, borders, title, right, role);
    }

    /// Draws a frame with a title and a text at the right end of its upper edge. Frames that share an edge are joined,
    /// so the panels look like one drawing.
    pub fn frame(&mut self, area: Rect, title: &[StyledText], right: &[StyledText], role: Role) {
        if area.height >= 2 {
            self.bordered(area, Borders::ALL, title, right, role);
        }
    }

    fn bordered(&mut self, area: Rect, borders: Borders, title: &[StyledText], right: &[StyledText], role: Role) {
        let area = area.intersection(self.buffer.area);
        if area.width < 2 || area.height == 0 {
            return;
        }
        let kept = self.prepared_edge(area, borders, role);
        Block::new()
            .borders(borders)
            .border_style(self.theme.style(role))
            .merge_borders(MergeStrategy::Exact)
            .render(area, self.buffer);
        let focus = self.theme.style(Role::BorderFocus);
        for position in kept {
            if let Some(cell) = self.buffer.cell_mut(position) {
                cell.set_style(focus);
            }
        }
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
        let inset = if area.width > 4 { 2 } else { 1 };
        let inner = Rect { x: area.x + inset, width: area.width - 2 * inset, height: 1, ..area };
        self.row(inner, &spaced(title), &spaced(right));
    }

    /// Draws the thumb of a scrollbar on the right edge of a frame, if not all of its lines are in view.
    pub fn scrollbar(&mut self, frame: Rect, lines: usize, visible: usize, offset: usize) {
        if lines <= visible || frame.height < 3 {
            return;
        }
        let edge = frame.inner(Margin::new(0, 1));
        let bar = Scrollbar::new(ScrollbarOrientation::VerticalRight)
            .begin_symbol(None)
            .end_symbol(None)
            .track_symbol(None)
            .thumb_symbol("┃")
            .thumb_style(self.theme.style(Role::TextDim));
        // The library counts positions of the first line in view.
        let mut state = ScrollbarState::new(lines - visible + 1).viewport_content_length(visible).position(offset);
        bar.render(edge.intersection(self.buffer.area), self.buffer, &mut state);
    }

    /// Draws a widget with a state of its own into an area.
    pub fn render_stateful<W: StatefulWidget>(&mut self, widget: W, area: Rect, state: &mut W::State) {
        widget.render(area.intersection(self.buffer.area), self.buffer, state);
    }

    /// Removes text from an area's edge, because the library would keep it, and returns the cells that keep their
    /// colour: those of the focused panel beside it.
    fn prepared_edge(&mut self, area: Rect, borders: Borders, role: Role) -> Vec<Position> {
        let focus = self.theme.style(Role::BorderFocus).fg;
        let (right, bottom) = (area.right() - 1, area.bottom() - 1);
        let across = |y: u16| (area.left()..area.right()).map(move |x| Position { x, y });
        let down = |x: u16| (area.top()..area.bottom()).map(move |y| Position { x, y });
        let drawn = |side: Borders| usize::from(borders.contains(side));
        let above = across(area.y).take(drawn(Borders::TOP) * usize::from(area.width));
        let below = across(bottom).take(drawn(Borders::BOTTOM) * usize::from(area.width));
        let left = down(area.x).take(drawn(Borders::LEFT) * usize::from(area.height));
        let right = down(right).take(drawn(Borders::RIGHT) * usize::from(area.height));
        let mut kept = Vec::new();
        for position in above.chain(below).chain(left).chain(right) {
            let Some(cell) = self.buffer.cell_mut(position) else { continue };
            if !EDGES.contains(cell.symbol()) {
                let style = cell.style();
                cell.reset();
                cell.set_style(style);
            } else if role != Role::BorderFocus && cell.style().fg == focus {
                kept.push(position);
            }
        }
        kept
    }
}

/// Symbols that an edge is drawn with.
const EDGES: &str = "─│┌┐└┘├┤┬┴┼┃";

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
        let piece = |text: &str| vec![(text.to_owned(), Role::Text)];
        assert_eq!(drawn(&|painter, area| painter.row(area, &piece("abcd"), &piece("xyz"))), "abcd xyz");
        assert_eq!(drawn(&|painter, area| painter.row(area, &piece("abcde"), &piece("xyz"))), "abcde   ");
    }

    #[test]
    fn a_scrollbar_shows_which_lines_are_in_view_and_none_where_all_are() {
        let (theme, _) = Theme::load("dark", None).unwrap();
        let drawn = |lines: usize, offset: usize| {
            let area = Rect::new(0, 0, 3, 6);
            let mut buffer = Buffer::empty(area);
            let mut painter = Painter { buffer: &mut buffer, theme: &theme };
            painter.frame(area, &[], &[], Role::Border);
            painter.scrollbar(area, lines, 4, offset);
            (0..6).map(|y| buffer[(2, y)].symbol().to_owned()).collect::<String>()
        };
        assert_eq!(drawn(8, 0), "┐┃┃││┘");
        assert_eq!(drawn(8, 4), "┐││┃┃┘");
        assert_eq!(drawn(4, 0), "┐││││┘");
        assert_eq!(drawn(400, 396), "┐│││┃┘", "the thumb never vanishes");
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
