//! Cards, gauges, charts and the sprite: each a plain model that is drawn into an area of any size.
//!
//! Models are folded from events and tool answers, and know no console: any program that has a ratatui buffer and a
//! [`Theme`](crate::theme::Theme) can draw them (`examples/widgets.rs`). A card has three sizes, chosen by the
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
pub mod reasons;
pub mod samples;
pub mod sprite;
pub mod status;
pub mod swap;
pub mod words;

use ratatui::layout::Rect;

use super::pen::{Pen, pieces_width};
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

/// The keys that do something where a card is drawn. A card names no other: the same card stands in a list, on a screen
/// of its own and in a call's whole story, and not every key is bound in each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CardKeys {
    /// `y` copies what it is about.
    pub copy: bool,
    /// `o` says where to look at its transaction.
    pub explorer: bool,
    /// What Enter does with it, in words; empty: nothing.
    pub open: &'static str,
    /// `x` cancels it, or takes its money back.
    pub cancel: bool,
}

/// What a card says, in each of its sizes.
pub trait Sheet {
    /// In one line.
    fn line(&self, now: Moment) -> Line;
    /// On its upper edge.
    fn title(&self, now: Moment) -> Title;
    /// In three lines or fewer.
    fn short(&self, now: Moment) -> Vec<Row>;
    /// All of it, for so many columns, but its last row.
    fn full(&self, now: Moment, columns: usize) -> Vec<Row>;
    /// The last row of all of it: its hash, and what keys do with it there.
    fn last(&self, _now: Moment, _keys: CardKeys) -> Option<Row> {
        None
    }
    /// The colour of its frame.
    fn edge(&self, now: Moment) -> Role;
}

/// The tallest card that is drawn short.
const SHORT_LINES: u16 = 5;

/// All that a full card says, with the keys that do something where it stands.
pub fn all_rows(card: &impl Sheet, now: Moment, columns: usize, keys: CardKeys) -> Vec<Row> {
    let mut rows = card.full(now, columns);
    rows.extend(card.last(now, keys));
    rows
}

/// Draws a card into an area: as one line, short, or in full, by the area's height. It names no key.
pub fn draw(card: &impl Sheet, pen: &mut Pen<'_>, area: Rect, now: Moment) {
    draw_with(card, pen, area, now, CardKeys::default());
}

/// The same where keys do something with it.
pub fn draw_with(card: &impl Sheet, pen: &mut Pen<'_>, area: Rect, now: Moment, keys: CardKeys) {
    let area = area.intersection(pen.buffer.area);
    if area.is_empty() {
        return;
    }
    match area.height {
        1 => paint::one_line(pen, area, card.line(now), now),
        2..=SHORT_LINES => {
            let columns = usize::from(area.width).saturating_sub(4);
            let rows = opening(card.short(now), columns, keys);
            paint::card(pen, area, card.title(now), rows, card.edge(now));
        }
        _ => {
            let columns = usize::from(area.width).saturating_sub(4);
            paint::card(pen, area, card.title(now), all_rows(card, now, columns, keys), card.edge(now));
        }
    }
}

/// The rows of a short card, at whose end stands what Enter does, where there is room for it.
fn opening(mut rows: Vec<Row>, columns: usize, keys: CardKeys) -> Vec<Row> {
    if let (false, Some(last)) = (keys.open.is_empty(), rows.last_mut())
        && last.right.is_empty()
        && pieces_width(&last.left) + "Enter ".len() + keys.open.len() < columns
    {
        last.right = vec![("Enter".to_owned(), Role::Key), (format!(" {}", keys.open), Role::TextDim)];
    }
    rows
}

/// A key and what it does, behind what stands before it.
fn keyed(row: Row, key: &str, does: &str) -> Row {
    row.then(format!("  {key}"), Role::Key).then(format!(" {does}"), Role::TextDim)
}

/// How many lines the full card takes at this width.
pub fn height(card: &impl Sheet, width: u16, now: Moment) -> u16 {
    height_with(card, width, now, CardKeys::default())
}

/// The same where keys do something with it.
pub fn height_with(card: &impl Sheet, width: u16, now: Moment, keys: CardKeys) -> u16 {
    let columns = usize::from(width).saturating_sub(4);
    // Six at least: below that it would be drawn short.
    paint::card_height(width, card.title(now), all_rows(card, now, columns, keys)).max(SHORT_LINES + 1)
}

#[cfg(test)]
mod tests;
