//! Gauges: a bar with figures and a mark, so that colour is never the only sign.

use ratatui::layout::Rect;

use super::paint::cut;
use crate::painter::{Painter, StyledText, line};
use crate::theme::Role;
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
pub enum Full {
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
    pub full: Full,
}

impl Gauge {
    /// Mark and role for the level: normal, attention, or bad.
    pub fn standing(&self) -> (&'static str, Role) {
        let Some((part, whole)) = self.level else { return ("?", Role::StateCare) };
        // If the product overflows, the level is divided by a hundredth of the maximum.
        let percent = part.checked_mul(100).and_then(|part| part.checked_div(whole));
        let percent = percent.unwrap_or_else(|| part / (whole / 100).max(1));
        match self.full {
            Full::Bad if whole == 0 || percent >= 100 => ("✕", Role::StateBad),
            Full::Bad if percent >= CARE_PERCENT => ("!", Role::StateCare),
            Full::Good if part == 0 => ("✕", Role::StateBad),
            Full::Good if percent <= 100 - CARE_PERCENT => ("!", Role::StateCare),
            Full::Bad | Full::Good => (" ", Role::StateGood),
        }
    }

    /// Bar of this width. A small level is never drawn as empty, nor an incomplete one as full.
    pub fn bar(&self, columns: usize) -> Vec<StyledText> {
        let (_, role) = self.standing();
        let Some((part, whole)) = self.level else { return vec![("░".repeat(columns), Role::TextDim)] };
        let columns_wide = u128::try_from(columns).unwrap_or(0);
        let part = part.min(whole);
        let mut filled = match whole {
            0 => columns,
            _ => {
                let scaled = part
                    .checked_mul(columns_wide)
                    .map_or_else(|| part / (whole / columns_wide.max(1)).max(1), |wide| wide / whole);
                usize::try_from(scaled).unwrap_or(columns).min(columns)
            }
        };
        if part > 0 && filled == 0 {
            filled = columns.min(1);
        }
        if part < whole && filled == columns && columns > 1 {
            filled = columns - 1;
        }
        vec![("█".repeat(filled), role), ("░".repeat(columns - filled), Role::TextDim)]
    }
}

/// Draws a gauge in one line: label, bar, figures. On a narrow line the bar is dropped first, then the label.
pub fn draw(gauge: &Gauge, painter: &mut Painter<'_>, area: Rect, label_columns: usize) {
    let area = line(area, 0);
    let columns = usize::from(area.width);
    if columns == 0 {
        return;
    }
    let (mark, role) = gauge.standing();
    let words =
        if gauge.level.is_none() && gauge.words.is_empty() { "not known".to_owned() } else { gauge.words.clone() };
    let words_role = if role == Role::StateGood { Role::Text } else { role };
    let padded = format!("{}{}", gauge.label, " ".repeat(label_columns.saturating_sub(width(&gauge.label))));
    let least = if columns >= USUAL { USUAL_WORDS } else { 0 };
    let needed = width(&words).max(least) + 2;
    let after_label = columns.saturating_sub(width(&padded) + 1);
    let mut left: Vec<StyledText> = Vec::new();
    if after_label >= needed {
        left.push((format!("{padded} "), Role::TextDim));
        let bar = after_label.saturating_sub(needed + 1).min(LONGEST);
        if bar >= 3 {
            left.extend(gauge.bar(bar));
            left.push((" ".to_owned(), Role::Text));
        }
        let used: usize = left.iter().map(|(text, _)| width(text)).sum();
        // The figures are right-aligned.
        left.push((" ".repeat(columns.saturating_sub(used + width(&words) + 2)), Role::Text));
    }
    left.push((format!("{mark} "), role));
    left.push((words, words_role));
    painter.pieces(area, &cut(&left, columns));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gauge(level: Option<(u128, u128)>, full: Full) -> Gauge {
        Gauge { label: "today".to_owned(), level, words: String::new(), full }
    }

    #[test]
    fn care_begins_at_four_fifths() {
        let limit = |part| gauge(Some((part, 100)), Full::Bad).standing();
        assert_eq!([limit(79).0, limit(80).0, limit(99).0, limit(100).0, limit(300).0], [" ", "!", "!", "✕", "✕"]);
        let supply = |part| gauge(Some((part, 100)), Full::Good).standing().0;
        assert_eq!([supply(100), supply(21), supply(20), supply(1), supply(0)], [" ", " ", "!", "!", "✕"]);
        assert_eq!(gauge(None, Full::Bad).standing().0, "?");
        assert_eq!(gauge(Some((u128::MAX, u128::MAX)), Full::Bad).standing().0, "✕");
        assert_eq!(gauge(Some((u128::MAX / 2, u128::MAX)), Full::Bad).standing().0, " ");
    }

    #[test]
    fn a_bar_shows_a_little_and_not_quite_all() {
        let bar = |part, whole| {
            gauge(Some((part, whole)), Full::Bad).bar(8).into_iter().map(|(text, _)| text).collect::<String>()
        };
        assert_eq!(bar(0, 100), "░░░░░░░░");
        assert_eq!(bar(1, 1000), "█░░░░░░░");
        assert_eq!(bar(50, 100), "████░░░░");
        assert_eq!(bar(999, 1000), "███████░");
        assert_eq!(bar(100, 100), "████████");
        assert_eq!(bar(u128::MAX / 2, u128::MAX), "████░░░░");
    }
}
