//! Layout of the trade screen.

use ratatui::layout::Rect;

use super::{BELOW, LEAST_FORM, ROOMY, SIDE_BY_SIDE, ToolForm, Trade};
use crate::screens::list;
use crate::widgets;
use bardo_base::text::width;

impl Trade {
    pub(super) fn plan(&self, area: Rect) -> (Rect, Rect, Rect) {
        let list = Rect { height: 1.min(area.height), ..area };
        let body = Rect { y: area.y + list.height, height: area.height - list.height, ..area };
        if self.zoomed {
            return (list, Rect { width: 0, height: 0, ..body }, body);
        }
        if area.width >= SIDE_BY_SIDE {
            let (form, answer) = list::beside(body, (area.width * 2 / 5).min(64));
            return (list, form, answer);
        }
        let lines = self.form().map_or(3, ToolForm::lines) + BELOW + 2;
        // In a low window the frame takes most of that share; a field and the button still fit.
        let form = lines.min((body.height * 3 / 5).max(LEAST_FORM.min(body.height)));
        let (form, answer) = list::stacked(body, form);
        (list, form, answer)
    }

    /// Areas of the fields and of the button inside the form.
    pub(super) fn inside(&self, form: Rect) -> (Rect, Rect) {
        let inner = Rect {
            x: form.x + 1.min(form.width),
            y: form.y + 1.min(form.height),
            width: form.width.saturating_sub(2),
            height: form.height.saturating_sub(2),
        };
        // If not all fields fit, the line of choices is dropped first.
        let lines = self.form().map_or(0, ToolForm::lines);
        let below = match inner.height {
            roomy if roomy >= lines.saturating_add(BELOW) => BELOW,
            // No line of help either: the field that is edited goes before it.
            0..=BELOW => 1,
            _ => BELOW - 1,
        }
        .min(inner.height);
        let spare = inner.height - below - lines.min(inner.height - below);
        let fields = Rect { height: inner.height - below - spare, ..inner };
        // Spare lines go to the help and to blank lines around it.
        let shift = spare.min(ROOMY);
        let last = fields.bottom() + below + shift;
        let button = Rect {
            y: last.saturating_sub(1).min(inner.bottom().saturating_sub(1)),
            height: 1.min(inner.height),
            ..inner
        };
        let margin = 2.min(button.width);
        (fields, Rect { x: button.x + margin, width: button.width - margin, ..button })
    }

    /// Tools that fit the line of tabs, with their indices.
    pub(super) fn tabs(&self, width_of_line: u16) -> Vec<(usize, String)> {
        let mut tabs = Vec::new();
        let mut used = 0;
        for (at, name) in self.tools.iter().enumerate() {
            let word = format!(" {} ", widgets::plain::tool_word(name));
            used += width(&word) + 1;
            // The chosen tool is always in the line, whatever else has no room.
            let more = if at + 1 < self.tools.len() { " + 9 more".len() } else { 0 };
            if used + more <= usize::from(width_of_line) || at == self.chosen {
                tabs.push((at, word));
            }
        }
        tabs
    }
}
