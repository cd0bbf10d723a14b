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

    /// Tools that fit the line of tabs, with their indices: consecutive ones around the chosen tool. If not all fit, the
    /// line keeps room for [`Self::place_words`].
    pub(super) fn tabs(&self, width_of_line: u16) -> Vec<(usize, String)> {
        let all: Vec<String> = self.tools.iter().map(|name| format!(" {} ", widgets::plain::tool_word(name))).collect();
        let columns = |of: &[String]| of.iter().map(|word| width(word) + 1).sum::<usize>();
        let whole = usize::from(width_of_line);
        let room = if columns(&all) <= whole { whole } else { whole.saturating_sub(width(&self.place_words()) + 1) };
        let fits = |first: usize, last: usize| all.get(first..=last).is_some_and(|of| columns(of) <= room);
        // The chosen tool with the next one, as far to the left as both stay in the line.
        let next = (self.chosen + 1).min(all.len().saturating_sub(1));
        let first = (0..=self.chosen).find(|first| fits(*first, next)).unwrap_or(self.chosen);
        let mut last = self.chosen.max(first);
        while last + 1 < all.len() && fits(first, last + 1) {
            last += 1;
        }
        all.into_iter().enumerate().skip(first).take(last + 1 - first).collect()
    }

    /// Place of the chosen tool among all, such as `7 of 17`.
    pub(super) fn place_words(&self) -> String {
        format!("{} of {} ", self.chosen + 1, self.tools.len())
    }
}
