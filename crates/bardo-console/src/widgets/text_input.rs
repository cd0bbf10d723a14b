//! Text field in one line: `ratatui-textarea` with the styles of the theme, and marks where the text goes on.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;
use ratatui::widgets::Widget;
use ratatui_textarea::{CursorMove, TextArea};

use crate::painter::StyledText;
use crate::theme::{Role, Theme};
use crate::widgets::text_field::TextField;
use bardo_base::text::width;

/// Focused text field. The text scrolls so that the cursor is in view.
#[derive(Debug, Clone, Copy)]
pub struct TextInput<'a> {
    field: &'a TextField,
    theme: &'a Theme,
}

impl<'a> TextInput<'a> {
    /// Creates the widget of a field.
    pub const fn new(field: &'a TextField, theme: &'a Theme) -> Self {
        Self { field, theme }
    }

    /// Copy of the field's text, cursor and selection, without its history.
    fn styled(&self) -> TextArea<'static> {
        let mut area = TextArea::new(vec![self.field.text().to_owned()]);
        let jump = |column: usize| CursorMove::Jump(0, u16::try_from(column).unwrap_or(u16::MAX));
        let cursor = self.field.cursor();
        if let Some(selected) = self.field.selection() {
            area.move_cursor(jump(if selected.start == cursor { selected.end } else { selected.start }));
            area.start_selection();
        }
        area.move_cursor(jump(cursor));
        area.set_style(self.theme.style(Role::TextStrong));
        area.set_cursor_line_style(Style::default());
        area.set_cursor_style(self.theme.style(Role::Frozen));
        area.set_selection_style(self.theme.style(Role::Selection));
        area
    }
}

impl Widget for TextInput<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let area = Rect { height: area.height.min(1), ..area }.intersection(buffer.area);
        if area.is_empty() {
            return;
        }
        let text = self.styled();
        Widget::render(&text, area, buffer);
        let (_, hidden) = text.scroll_offset();
        let mut mark = |x: u16| {
            if let Some(cell) = buffer.cell_mut(Position { x, y: area.y }) {
                cell.set_symbol("…").set_style(self.theme.style(Role::TextDim));
            }
        };
        // The library cuts a text at both ends without a mark.
        if hidden > 0 && area.width > 2 {
            mark(area.x);
        }
        let before: String = self.field.text().chars().take(self.field.cursor()).collect();
        let end = usize::from(hidden) + usize::from(area.width);
        if width(self.field.text()) > end && width(&before) + 1 < end && area.width > 2 {
            mark(area.right() - 1);
        }
    }
}

/// Cursor of a text field within a line.
pub const CURSOR: &str = "▏";

/// Text of a focused field with its cursor and selection, for a line or a row that holds other text too. The library's
/// widget needs an area of its own.
pub fn pieces(field: &TextField, role: Role) -> Vec<StyledText> {
    let (cursor, selected) = (field.cursor(), field.selection().unwrap_or(0..0));
    let mut pieces: Vec<StyledText> = Vec::new();
    for (at, character) in field.text().chars().enumerate() {
        if at == cursor {
            pieces.push((CURSOR.to_owned(), Role::Key));
        }
        let role = if selected.contains(&at) { Role::Frozen } else { role };
        match pieces.last_mut() {
            Some(last) if last.1 == role => last.0.push(character),
            _ => pieces.push((character.to_string(), role)),
        }
    }
    if cursor >= field.text().chars().count() {
        pieces.push((CURSOR.to_owned(), Role::Key));
    }
    pieces
}
