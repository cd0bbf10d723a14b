//! Gauges: a bar with figures and a mark, so that colour is never the only sign. Floats set only the length of a bar.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Span;
use ratatui::widgets::{LineGauge, Widget};
use rust_decimal::prelude::ToPrimitive;

use super::paint::cut;
use crate::painter::{Painter, StyledText, line};
use crate::theme::{Role, Theme};
use bardo_base::text::width;

/// Share from which a limit needs attention, in percent.
pub const CARE_PERCENT: u128 = 80;
/// Maximum width of a bar, in columns.
const LONGEST: usize = 24;
/// Minimum width of the figures, so that bars below each other have the same length; in columns.
const USUAL_WORDS: usize = 13;
/// Gauge width from which the figures get that minimum, in columns.
const USUAL: usize = 28;

/// Meaning of a full gauge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FullMeaning {
    /// The limit is reached: attention from 80 %, bad at 100 %.
    Bad,
    /// Everything is available: attention from 20 % down, bad at zero.
    Good,
}

/// Model of a gauge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gauge {
    /// Name of the measured value.
    pub label: String,
    /// Level and its maximum; `None` if unknown.
    pub level: Option<(u128, u128)>,
    /// Figures as text.
    pub words: String,
    /// Meaning of a full gauge.
    pub full: FullMeaning,
}

impl Gauge {
    /// Mark and role for the level: normal, attention, or bad.
    pub fn severity(&self) -> (&'static str, Role) {
        let Some((part, whole)) = self.level else { return ("?", Role::StateCare) };
        // If the product overflows, the level is divided by a hundredth of the maximum.
        let percent = part.checked_mul(100).and_then(|part| part.checked_div(whole));
        let percent = percent.unwrap_or_else(|| part / (whole / 100).max(1));
        match self.full {
            FullMeaning::Bad if whole == 0 || percent >= 100 => ("✕", Role::StateBad),
            FullMeaning::Bad if percent >= CARE_PERCENT => ("!", Role::StateCare),
            FullMeaning::Good if part == 0 => ("✕", Role::StateBad),
            FullMeaning::Good if percent <= 100 - CARE_PERCENT => ("!", Role::StateCare),
            FullMeaning::Bad | FullMeaning::Good => (" ", Role::StateGood),
        }
    }

    /// Bar of this width as pieces, for a line with several gauges.
    pub fn bar(&self, columns: usize) -> Vec<StyledText> {
        let (_, role) = self.severity();
        let filled = self.filled(columns);
        vec![("█".repeat(filled), role), ("░".repeat(columns - filled), Role::TextDim)]
    }

    /// Number of filled columns of a bar. A small level is never drawn as empty, nor an incomplete one as full.
    fn filled(&self, columns: usize) -> usize {
        let Some((part, whole)) = self.level else { return 0 };
        let columns_wide = u128::try_from(columns).unwrap_or(0);
        let part = part.min(whole);
        let filled = match whole {
            0 => columns,
            _ => {
                let scaled = part
                    .checked_mul(columns_wide)
                    .map_or_else(|| part / (whole / columns_wide.max(1)).max(1), |wide| wide / whole);
                usize::try_from(scaled).unwrap_or(columns).min(columns)
            }
        };
        match filled {
            0 if part > 0 => columns.min(1),
            full if part < whole && full == columns && columns > 1 => columns - 1,
            filled => filled,
        }
    }
}

/// Widget of a gauge in one line: label, bar, figures. On a narrow line the bar is dropped first, then the label.
#[derive(Debug, Clone, Copy)]
pub struct GaugeLine<'a> {
    gauge: &'a Gauge,
    theme: &'a Theme,
    label_columns: usize,
}

impl<'a> GaugeLine<'a> {
    /// Creates the widget. Gauges below each other get the same width for their labels, in columns.
    pub const fn new(gauge: &'a Gauge, theme: &'a Theme, label_columns: usize) -> Self {
        Self { gauge, theme, label_columns }
    }

    /// Library's gauge of `columns` for a label and the bar after it.
    fn bar(&self, label: String, bar: usize) -> LineGauge<'static> {
        let style = |role: Role| self.theme.style(role);
        let (_, role) = self.gauge.severity();
        let filled = self.gauge.filled(bar);
        // Half a column more, so that rounding down in the library gives exactly this number.
        let ratio = filled.to_f64().zip(bar.to_f64()).map_or(0.0, |(filled, bar)| ((filled + 0.5) / bar).min(1.0));
        LineGauge::default()
            .label(Span::styled(label, style(Role::TextDim)))
            .ratio(if filled == 0 { 0.0 } else { ratio })
            .filled_symbol("█")
            .unfilled_symbol("░")
            .filled_style(style(role))
            .unfilled_style(style(Role::TextDim))
    }
}

impl Widget for GaugeLine<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let area = line(area.intersection(buffer.area), 0);
        let columns = usize::from(area.width);
        if columns == 0 {
            return;
        }
        let gauge = self.gauge;
        let (mark, role) = gauge.severity();
        let words = match gauge.level {
            None if gauge.words.is_empty() => "not known",
            Some(_) | None => gauge.words.as_str(),
        };
        let words_role = if role == Role::StateGood { Role::Text } else { role };
        let label = format!("{}{}", gauge.label, " ".repeat(self.label_columns.saturating_sub(width(&gauge.label))));
        let least = if columns >= USUAL { USUAL_WORDS } else { 0 };
        let needed = width(words).max(least) + 2;
        let after_label = columns.saturating_sub(width(&label) + 1);
        let figures: [StyledText; 2] = [(format!("{mark} "), role), (words.to_owned(), words_role)];
        let mut painter = Painter { buffer, theme: self.theme };
        if after_label < needed {
            painter.pieces(area, &cut(&figures, columns));
            return;
        }
        let bar = after_label.saturating_sub(needed + 1).min(LONGEST);
        if bar >= 3 {
            let taken = u16::try_from(width(&label) + 1 + bar).unwrap_or(area.width).min(area.width);
            painter.render(self.bar(label, bar), Rect { width: taken, ..area });
        } else {
            painter.pieces(area, &[(label, Role::TextDim)]);
        }
        let figures = painter.line(&figures).right_aligned();
        painter.render(figures, area);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gauge(level: Option<(u128, u128)>, full: FullMeaning) -> Gauge {
        Gauge { label: "today".to_owned(), level, words: String::new(), full }
    }

    #[test]
    fn care_begins_at_four_fifths() {
        let limit = |part| gauge(Some((part, 100)), FullMeaning::Bad).severity();
        assert_eq!([limit(79).0, limit(80).0, limit(99).0, limit(100).0, limit(300).0], [" ", "!", "!", "✕", "✕"]);
        let supply = |part| gauge(Some((part, 100)), FullMeaning::Good).severity().0;
        assert_eq!([supply(100), supply(21), supply(20), supply(1), supply(0)], [" ", " ", "!", "!", "✕"]);
        assert_eq!(gauge(None, FullMeaning::Bad).severity().0, "?");
        assert_eq!(gauge(Some((u128::MAX, u128::MAX)), FullMeaning::Bad).severity().0, "✕");
        assert_eq!(gauge(Some((u128::MAX / 2, u128::MAX)), FullMeaning::Bad).severity().0, " ");
    }

    #[test]
    fn a_bar_shows_a_little_and_not_quite_all() {
        let (theme, _) = Theme::load("dark", None).unwrap();
        let bar = |part, whole| {
            let gauge = gauge(Some((part, whole)), FullMeaning::Bad);
            let area = Rect::new(0, 0, 9, 1);
            let mut buffer = Buffer::empty(area);
            GaugeLine::new(&gauge, &theme, 0).bar(String::new(), 8).render(area, &mut buffer);
            buffer.content[1..].iter().map(|cell| cell.symbol()).collect::<String>()
        };
        assert_eq!(bar(0, 100), "░░░░░░░░");
        assert_eq!(bar(1, 1000), "█░░░░░░░");
        assert_eq!(bar(50, 100), "████░░░░");
        assert_eq!(bar(999, 1000), "███████░");
        assert_eq!(bar(100, 100), "████████");
        assert_eq!(bar(u128::MAX / 2, u128::MAX), "████░░░░");
    }
}
