//! Cards, gauges, charts and the sprite: each a plain model that is drawn into an area of any size.
//!
//! Models are folded from events and tool answers, and know no console: any program that has a ratatui buffer and a
//! [`Theme`](crate::console::theme::Theme) can draw them (`examples/widgets.rs`). A card has three sizes, chosen by the
//! height it is given: one line, up to five, full. What does not fit is counted, never cut in silence.

pub mod allowance;
pub mod bridge;
pub mod call;
pub mod card;
pub mod chart;
pub mod decision;
pub mod dialog;
pub mod figure;
pub mod gauge;
pub mod order;
pub mod paint;
pub mod plain;
pub mod quote;
pub mod samples;
pub mod sprite;
pub mod status;
pub mod swap;
pub mod words;

use ratatui::layout::Rect;

use super::pen::Pen;
use super::theme::Role;
use paint::{Line, Row, Title};

/// The moment for which something is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Milliseconds since the Unix epoch.
    pub millis: u64,
    /// Whether ages and countdowns may run. Where not, points in time stand in their place.
    pub motion: bool,
}

/// What a card says, in each of its sizes.
pub trait Sheet {
    /// In one line.
    fn line(&self, now: Moment) -> Line;
    /// On its upper edge.
    fn title(&self, now: Moment) -> Title;
    /// In three lines or fewer.
    fn short(&self, now: Moment) -> Vec<Row>;
    /// All of it, for so many columns.
    fn full(&self, now: Moment, columns: usize) -> Vec<Row>;
    /// The colour of its frame.
    fn edge(&self, now: Moment) -> Role;
}

/// The tallest card that is drawn short.
const SHORT_LINES: u16 = 5;

/// Draws a card into an area: as one line, short, or in full, by the area's height.
pub fn draw(card: &impl Sheet, pen: &mut Pen<'_>, area: Rect, now: Moment) {
    let area = area.intersection(pen.buffer.area);
    if area.is_empty() {
        return;
    }
    match area.height {
        1 => paint::one_line(pen, area, card.line(now), now),
        2..=SHORT_LINES => paint::card(pen, area, card.title(now), card.short(now), card.edge(now)),
        _ => {
            let columns = usize::from(area.width).saturating_sub(4);
            paint::card(pen, area, card.title(now), card.full(now, columns), card.edge(now));
        }
    }
}

/// How many lines the full card takes at this width.
pub fn height(card: &impl Sheet, width: u16, now: Moment) -> u16 {
    let columns = usize::from(width).saturating_sub(4);
    // Six at least: below that it would be drawn short.
    paint::card_height(width, card.title(now), card.full(now, columns)).max(SHORT_LINES + 1)
}

#[cfg(test)]
mod tests;
