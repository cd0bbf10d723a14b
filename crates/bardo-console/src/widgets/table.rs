//! Tables of words and figures with ratatui's `Table`.

use ratatui::buffer::Buffer;
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::text::Text;
use ratatui::widgets::{Cell, Row, Table, Widget};

use crate::painter::{Painter, StyledText};
use crate::theme::Theme;
use bardo_base::text::fit;

/// Column of a table: its width in terminal columns, and its alignment. Figures are right-aligned.
pub type Column = (u16, Alignment);

/// Widget of a table: one row per line, one blank between the columns.
///
/// The library cuts a cell without a mark and narrows all columns of a table that does not fit. Here a cut text ends
/// with `…`, and the last columns are cut or left out, so that the first ones keep their place.
#[derive(Debug)]
pub struct FigureTable<'a> {
    rows: Vec<Vec<StyledText>>,
    columns: &'a [Column],
    theme: &'a Theme,
}

impl<'a> FigureTable<'a> {
    /// Creates the widget; each row has one text per column.
    pub const fn new(rows: Vec<Vec<StyledText>>, columns: &'a [Column], theme: &'a Theme) -> Self {
        Self { rows, columns, theme }
    }
}

impl Widget for FigureTable<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let area = area.intersection(buffer.area);
        let mut left = area.width;
        let mut columns: Vec<Column> = Vec::with_capacity(self.columns.len());
        for (width, alignment) in self.columns {
            let shown = (*width).min(left);
            if shown == 0 {
                break;
            }
            columns.push((shown, *alignment));
            left = left.saturating_sub(shown + 1);
        }
        let painter = Painter { buffer, theme: self.theme };
        let cell = |((text, role), (width, alignment)): (&StyledText, &Column)| {
            let shown = fit(text, usize::from(*width)).into_owned();
            Cell::from(Text::from(painter.line(&[(shown, *role)])).alignment(*alignment))
        };
        let rows: Vec<Row<'static>> =
            self.rows.iter().map(|row| row.iter().zip(&columns).map(cell).collect::<Row<'static>>()).collect();
        let widths = columns.iter().map(|(width, _)| Constraint::Length(*width));
        Widget::render(Table::new(rows, widths).column_spacing(1), area, buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theme::Role;

    #[test]
    fn a_cut_cell_has_a_mark_and_the_last_columns_go_first() {
        let (theme, _) = Theme::load("dark", None).unwrap();
        let columns = [(5, Alignment::Left), (6, Alignment::Right)];
        let drawn = |width: u16| {
            let text = |text: &str| (text.to_owned(), Role::Text);
            let rows = vec![vec![text("abcdefgh"), text("1.5")], vec![text("ab"), text("1234567")]];
            let area = Rect::new(0, 0, width, 2);
            let mut buffer = Buffer::empty(area);
            FigureTable::new(rows, &columns, &theme).render(area, &mut buffer);
            let line = |cells: &[ratatui::buffer::Cell]| cells.iter().map(|cell| cell.symbol()).collect::<String>();
            buffer.content.chunks(width.into()).map(line).collect::<Vec<_>>()
        };
        assert_eq!(drawn(14), ["abcd…    1.5  ", "ab    12345…  "]);
        assert_eq!(drawn(9), ["abcd… 1.5", "ab    12…"]);
        assert_eq!(drawn(4), ["abc…", "ab  "]);
    }
}
