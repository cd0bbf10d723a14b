//! Widgets: cards, gauges, charts and the sprite. Each is a plain model that is drawn into an area of any size.
//!
//! Models are folded from events and tool responses, and do not depend on the console. Any program with a ratatui
//! buffer and a [`Theme`](crate::theme::Theme) can draw them (`examples/widgets.rs`). The height of the area selects
//! one of three sizes of a card: one line, short (up to five lines), or full. Content that does not fit is counted,
//! never cut silently.

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

use super::painter::{Painter, styled_width};
use super::theme::Role;
use paint::{Line, Row, Title};

/// Moment for which a widget is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Time in milliseconds since the Unix epoch.
    pub millis: u64,
    /// False if ages and countdowns must not run; they are then replaced by points in time.
    pub motion: bool,
}

/// Keys that act on a card where it is drawn. A card names no others, because the same card appears in a list, on its
/// own screen and in the details, with different keys bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CardKeys {
    /// `y` copies the subject of the card.
    pub copy: bool,
    /// `o` shows the block explorer address of its transaction.
    pub explorer: bool,
    /// Effect of Enter on the card, as text; empty if it has none.
    pub open: &'static str,
    /// `x` cancels the order or refunds its money.
    pub cancel: bool,
}

/// Content of a card in each of its sizes.
pub trait CardView {
    /// Content of the one-line form.
    fn line(&self, now: Moment) -> Line;
    /// Title and status on the upper edge.
    fn title(&self, now: Moment) -> Title;
    /// Content of the short form, at most three lines.
    fn short(&self, now: Moment) -> Vec<Row>;
    /// Content of the full form for this width in columns, without its last row.
    fn full(&self, now: Moment, columns: usize) -> Vec<Row>;
    /// Last row of the full form: hash and keys. `None` if the card has no such row.
    fn last(&self, _now: Moment, _keys: CardKeys) -> Option<Row> {
        None
    }
    /// Role of the frame.
    fn edge(&self, now: Moment) -> Role;
}

/// Maximum height at which a card is drawn in its short form, in lines.
const SHORT_LINES: u16 = 5;

/// All rows of a full card, with the keys that act on it.
pub fn all_rows(card: &impl CardView, now: Moment, columns: usize, keys: CardKeys) -> Vec<Row> {
    let mut rows = card.full(now, columns);
    rows.extend(card.last(now, keys));
    rows
}

/// Draws a card without key hints. The height of the area selects the one-line, short or full form.
pub fn draw(card: &impl CardView, painter: &mut Painter<'_>, area: Rect, now: Moment) {
    draw_with(card, painter, area, now, CardKeys::default());
}

/// Draws a card like [`draw`], with hints for the keys that act on it.
pub fn draw_with(card: &impl CardView, painter: &mut Painter<'_>, area: Rect, now: Moment, keys: CardKeys) {
    let area = area.intersection(painter.buffer.area);
    if area.is_empty() {
        return;
    }
    match area.height {
        1 => paint::one_line(painter, area, card.line(now), now),
        2..=SHORT_LINES => {
            let columns = usize::from(area.width).saturating_sub(4);
            let rows = opening(card.short(now), columns, keys);
            paint::card(painter, area, card.title(now), rows, card.edge(now));
        }
        _ => {
            let columns = usize::from(area.width).saturating_sub(4);
            paint::card(painter, area, card.title(now), all_rows(card, now, columns, keys), card.edge(now));
        }
    }
}

/// Rows of a short card, with the Enter hint at the end if there is room.
fn opening(mut rows: Vec<Row>, columns: usize, keys: CardKeys) -> Vec<Row> {
    if let (false, Some(last)) = (keys.open.is_empty(), rows.last_mut())
        && last.right.is_empty()
        && styled_width(&last.left) + "Enter ".len() + keys.open.len() < columns
    {
        last.right = vec![("Enter".to_owned(), Role::Key), (format!(" {}", keys.open), Role::TextDim)];
    }
    rows
}

/// Row with a key and its effect appended.
fn keyed(row: Row, key: &str, does: &str) -> Row {
    row.then(format!("  {key}"), Role::Key).then(format!(" {does}"), Role::TextDim)
}

/// Number of lines of the full card at this width, without key hints.
pub fn height(card: &impl CardView, width: u16, now: Moment) -> u16 {
    height_with(card, width, now, CardKeys::default())
}

/// Number of lines of the full card at this width, with hints for the keys that act on it.
pub fn height_with(card: &impl CardView, width: u16, now: Moment, keys: CardKeys) -> u16 {
    let columns = usize::from(width).saturating_sub(4);
    // A lower card would be drawn in its short form.
    paint::card_height(width, card.title(now), all_rows(card, now, columns, keys)).max(SHORT_LINES + 1)
}

#[cfg(test)]
mod tests;
