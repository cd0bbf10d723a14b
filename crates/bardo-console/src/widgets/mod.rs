//! Widgets: cards, gauges, charts and the sprite. Each implements ratatui's `Widget` for a plain view model, and works
//! in an area of any size.
//!
//! Models are folded from events and tool responses, and do not depend on the console. Any ratatui program with a
//! [`Theme`](crate::theme::Theme) can draw them (`examples/widgets.rs`). The height of the area selects
//! one of three sizes of a card: one line, short (up to five lines), or full. Content that does not fit is counted,
//! never cut silently.

pub mod allowance;
pub mod bridge;
pub mod call;
pub mod card;
pub mod chart;
pub mod custody;
pub mod decision;
pub mod deposit;
pub mod dialog;
pub mod figure;
pub mod gauge;
pub mod hook;
pub mod identity;
pub mod lending;
pub mod order;
pub mod paint;
pub mod plain;
pub mod pool;
pub mod position_change;
pub mod positions;
pub mod quote;
pub mod reasons;
pub mod samples;
pub mod schedule;
pub mod sprite;
pub mod status;
pub mod swap;
pub mod table;
pub mod text_field;
pub mod text_input;
pub mod words;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::Widget;

use super::painter::{Painter, styled_width};
use super::theme::{Role, Theme};
use paint::{CardLine, Row, Title};

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
    fn line(&self, now: Moment) -> CardLine;
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
pub fn all_rows<M: CardView + ?Sized>(card: &M, now: Moment, columns: usize, keys: CardKeys) -> Vec<Row> {
    let mut rows = card.full(now, columns);
    rows.extend(card.last(now, keys));
    rows
}

/// Widget of a card: a view model, drawn at a moment in the styles of a theme. The height of the area selects the
/// one-line, short or full form.
///
/// `frame.render_widget(QuoteCard::new(&model, &theme, now), area)` draws a quote in any ratatui program.
#[derive(Debug)]
pub struct Card<'a, M: ?Sized> {
    model: &'a M,
    theme: &'a Theme,
    now: Moment,
    keys: CardKeys,
}

/// Card of a quote.
pub type QuoteCard<'a> = Card<'a, quote::QuoteModel>;
/// Card of a swap: its checks, execution steps and result.
pub type SwapProgress<'a> = Card<'a, swap::SwapModel>;
/// Card of an auction order.
pub type OrderCard<'a> = Card<'a, order::OrderModel>;
/// Card of a schedule of swaps.
pub type ScheduleCard<'a> = Card<'a, schedule::ScheduleModel>;
/// Card of a deposit with a bridge's pool.
pub type DepositCard<'a> = Card<'a, deposit::DepositModel>;
/// Card of a bridge order: two chains and the fillers between them.
pub type CrossChainProgress<'a> = Card<'a, bridge::BridgeModel>;
/// Card of an allowance.
pub type AllowanceChip<'a> = Card<'a, allowance::AllowanceModel>;
/// Card of an action in a lending market.
pub type LendingCard<'a> = Card<'a, lending::LendingModel>;
/// Card of an action on a liquidity position or on shares of a vault.
pub type PositionChangeCard<'a> = Card<'a, position_change::PositionChangeModel>;

impl<'a, M: CardView + ?Sized> Card<'a, M> {
    /// Creates the widget of a card without key hints.
    pub fn new(model: &'a M, theme: &'a Theme, now: Moment) -> Self {
        Self { model, theme, now, keys: CardKeys::default() }
    }

    /// Adds hints for the keys that act on the card.
    #[must_use]
    pub fn keys(self, keys: CardKeys) -> Self {
        Self { keys, ..self }
    }

    /// Number of lines of the full card at this width, in columns.
    pub fn height(&self, width: u16) -> u16 {
        let columns = usize::from(width).saturating_sub(4);
        let rows = all_rows(self.model, self.now, columns, self.keys);
        // A lower card would be drawn in its short form.
        paint::card_height(width, self.model.title(self.now), rows).max(SHORT_LINES + 1)
    }
}

impl<M: CardView + ?Sized> Widget for Card<'_, M> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let area = area.intersection(buffer.area);
        if area.is_empty() {
            return;
        }
        let (card, now) = (self.model, self.now);
        let painter = &mut Painter { buffer, theme: self.theme };
        let columns = usize::from(area.width).saturating_sub(4);
        match area.height {
            1 => paint::one_line(painter, area, card.line(now), now),
            2..=SHORT_LINES => {
                let rows = opening(card.short(now), columns, self.keys);
                paint::card(painter, area, card.title(now), rows, card.edge(now));
            }
            _ => {
                let rows = all_rows(card, now, columns, self.keys);
                paint::card(painter, area, card.title(now), rows, card.edge(now));
            }
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

#[cfg(test)]
mod tests;
