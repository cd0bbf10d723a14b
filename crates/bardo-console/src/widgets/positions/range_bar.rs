//! Bar of a price range with the current price in it. Floats are not used: positions follow from ticks.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::Widget;

use crate::painter::{Painter, StyledText, line};
use crate::theme::{Role, Theme};

/// Least width of a bar in columns. Below it, a price beside the range looks like one within.
pub const LEAST_BAR: usize = 8;
/// Largest distance of a tick from zero (`TickMath.MAX_TICK` of Uniswap V3 and V4).
const MAX_TICK: i64 = 887_272;

/// Range of a position and the current tick. A tick is a power of 1.0001, so equal distances are equal ratios of prices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TickRange {
    /// Lower tick, which belongs to the range.
    pub lower: i32,
    /// Upper tick, which does not belong to the range.
    pub upper: i32,
    /// Current tick of the pool.
    pub now: i32,
}

/// Place of the price relative to a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PricePlace {
    /// Below the range: all of the position is the first token.
    Below,
    /// Within the range: the position earns fees.
    Inside,
    /// Above the range: all of the position is the second token.
    Above,
}

impl TickRange {
    /// Place of the current tick.
    pub const fn place(self) -> PricePlace {
        if self.now < self.lower {
            PricePlace::Below
        } else if self.now < self.upper {
            PricePlace::Inside
        } else {
            PricePlace::Above
        }
    }

    /// Pieces of a bar of `columns`: the range as a line, a quarter of its width beside it, and the price as a mark. A
    /// price further away is an arrow at the end. Empty below [`LEAST_BAR`] and for a range that no pool has.
    pub fn pieces(self, columns: usize) -> Vec<StyledText> {
        let (lower, upper, now) = (i64::from(self.lower), i64::from(self.upper), i64::from(self.now));
        let known = lower < upper && lower >= -MAX_TICK && upper <= MAX_TICK;
        let (Ok(last), true) = (i64::try_from(columns.saturating_sub(1)), known && columns >= LEAST_BAR) else {
            return Vec::new();
        };
        let beside = ((upper - lower) / 4).max(1);
        let (start, whole) = (lower - beside, upper - lower + 2 * beside);
        let column = |tick: i64| ((tick - start) * last / whole).clamp(0, last);
        let (from, to) = (column(lower), column(upper));
        let (at, mark, role) = match self.place() {
            PricePlace::Below if now < start => (0, "◂", Role::StateCare),
            PricePlace::Below => (column(now).min(from - 1).max(0), "○", Role::StateCare),
            PricePlace::Inside => (column(now).clamp(from, to), "●", Role::StateGood),
            PricePlace::Above if now > start + whole => (last, "▸", Role::StateCare),
            PricePlace::Above => (column(now).max(to + 1).min(last), "○", Role::StateCare),
        };
        let mut pieces: Vec<StyledText> = Vec::with_capacity(5);
        for x in 0..=last {
            let (symbol, role) = match x {
                x if x == at => (mark, role),
                x if x == from => ("├", Role::Chart),
                x if x == to => ("┤", Role::Chart),
                x if from < x && x < to => ("─", Role::Chart),
                _ => ("·", Role::TextDim),
            };
            match pieces.last_mut() {
                Some(before) if before.1 == role => before.0.push_str(symbol),
                _ => pieces.push((symbol.to_owned(), role)),
            }
        }
        pieces
    }
}

/// Widget of the bar, as wide as its area.
#[derive(Debug, Clone, Copy)]
pub struct RangeBar<'a> {
    range: TickRange,
    theme: &'a Theme,
}

impl<'a> RangeBar<'a> {
    /// Creates the widget.
    pub const fn new(range: TickRange, theme: &'a Theme) -> Self {
        Self { range, theme }
    }
}

impl Widget for RangeBar<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let area = line(area.intersection(buffer.area), 0);
        Painter { buffer, theme: self.theme }.pieces(area, &self.range.pieces(usize::from(area.width)));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn drawn(lower: i32, upper: i32, now: i32, columns: u16) -> String {
        let (theme, area) = (Theme::load("dark", None).unwrap().0, Rect::new(0, 0, columns, 1));
        let mut buffer = Buffer::empty(area);
        RangeBar::new(TickRange { lower, upper, now }, &theme).render(area, &mut buffer);
        buffer.content.iter().map(|cell| cell.symbol()).collect()
    }

    #[test]
    fn the_price_stands_where_it_is() {
        // 24 columns for 900 ticks, of which 600 are the range: 150 · 23 / 900 = 3, 750 · 23 / 900 = 19.
        assert_eq!(drawn(0, 600, 300, 24), "···├───────●───────┤····");
        assert_eq!(drawn(0, 600, 0, 24), "···●───────────────┤····");
        assert_eq!(drawn(0, 600, 590, 24), "···├──────────────●┤····");
        assert_eq!(drawn(0, 600, 599, 24), "···├───────────────●····", "in the range, on its edge");
        // The upper tick is outside.
        assert_eq!(drawn(0, 600, 600, 24), "···├───────────────┤○···");
        assert_eq!(drawn(0, 600, -1, 24), "··○├───────────────┤····");
        assert_eq!(drawn(0, 600, -151, 24), "◂··├───────────────┤····");
        assert_eq!(drawn(0, 600, 751, 24), "···├───────────────┤···▸");
        // 12 columns for 2,661,660 ticks: 443,610 · 11 / 2,661,660 = 1, then 6 and 9 in the same way.
        assert_eq!(drawn(-887_220, 887_220, 196_000, 12), "·├────●──┤··");
        assert_eq!(drawn(0, 600, 300, 7), "       ", "too narrow to be right");
        assert_eq!(drawn(600, 0, 300, 12), " ".repeat(12), "no such range");
    }

    proptest! {
        /// A price is drawn within the range exactly if it is, at any width.
        #[test]
        fn a_bar_never_says_in_range_of_a_price_that_is_not(
            lower in -887_272_i32..887_271, span in 1_i32..1_774_544, now in -887_272_i32..887_272, columns in 8_usize..200,
        ) {
            let range = TickRange { lower, upper: lower.saturating_add(span).min(887_272), now };
            let text: String = range.pieces(columns).iter().map(|(text, _)| text.as_str()).collect();
            prop_assert_eq!(text.chars().count(), columns);
            let at = text.chars().position(|mark| "●○◂▸".contains(mark)).unwrap();
            let edge = |mark: char| text.chars().position(|one| one == mark);
            match range.place() {
                PricePlace::Below => prop_assert!(Some(at) < edge('├'), "{}", text),
                PricePlace::Above => prop_assert!(edge('┤').is_some_and(|edge| edge < at), "{}", text),
                PricePlace::Inside => {
                    prop_assert!(text.contains('●'));
                    prop_assert!(edge('├').is_none_or(|edge| edge < at) && edge('┤').is_none_or(|edge| at < edge), "{}", text);
                }
            }
        }
    }
}
