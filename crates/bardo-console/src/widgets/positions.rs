//! Positions of an account outside its wallet: liquidity in Uniswap pools, supplies and debts in a lending market, and
//! shares of a vault. Plain models, read from replies of tools, and the card that draws one of them.
//!
//! Symbols, addresses and reasons in the models come from outside and are cleaned when they are read.

pub mod lent;
pub mod liquidity;
pub mod range_bar;
pub mod shares;

use ratatui::buffer::Buffer;
use ratatui::layout::{Margin, Rect};
use ratatui::widgets::Widget;
use serde_json::Value;

use self::lent::LendingAccount;
use self::liquidity::LiquidityPosition;
use self::shares::VaultShares;
use super::figure::text;
use super::paint::{Row, rows, wrapped};
use crate::painter::{Painter, StyledText};
use crate::scroll::ScrollOffset;
use crate::theme::{Role, Theme};
use bardo_base::text::SafeText;
use bardo_base::units::Usd;

/// Maximum number of texts that are read of a list.
const MAX_TEXTS: usize = 50;

/// Field of a reply as dollars; `None` for any other text.
pub(in crate::widgets) fn dollars_of(value: &Value, name: &str) -> Option<Usd> {
    text(value, name)?.as_str().parse().ok()
}

/// Field of a reply as a list of cleaned texts.
fn texts(value: &Value, name: &str) -> Vec<SafeText> {
    let all = value.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    all.take(MAX_TEXTS).map(|text| SafeText::clean(text, 100)).collect()
}

/// Field of a reply with an amount of each token of a pool.
fn pair_of(value: &Value, name: &str) -> [SafeText; 2] {
    let pair = value.get(name).unwrap_or(&Value::Null);
    ["amount0", "amount1"].map(|name| text(pair, name).unwrap_or_default())
}

/// Row with a label and a value.
pub(in crate::widgets) fn field(label: &str, value: impl Into<String>) -> Row {
    Row::new(format!("{label:<11}"), Role::TextDim).then(value, Role::Text)
}

/// Row with a label and a value that a reader looks for.
pub(in crate::widgets) fn strong(label: &str, value: impl Into<String>) -> Row {
    Row::new(format!("{label:<11}"), Role::TextDim).then(value, Role::TextStrong)
}

/// Row with a reason for caution.
pub(in crate::widgets) fn marked(words: &str, role: Role) -> Row {
    Row::new(format!("! {words}"), role)
}

/// Position that a card shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PositionView<'a> {
    /// Liquidity in a pool.
    Liquidity(&'a LiquidityPosition),
    /// Supplies and debts in a lending market; one token is marked.
    Lending(&'a LendingAccount, Option<&'a SafeText>),
    /// Shares of a vault.
    Shares(&'a VaultShares),
}

impl PositionView<'_> {
    /// Title of the card.
    fn title(self) -> String {
        match self {
            Self::Liquidity(position) => format!("{}  {}", position.name(), position.pair()),
            Self::Lending(account, _) => format!("Aave  {}", account.chain),
            Self::Shares(shares) => format!("Vault  {}", shares.asset),
        }
    }

    fn rows(self, columns: usize) -> Vec<Row> {
        match self {
            Self::Liquidity(position) => position.rows(columns),
            Self::Lending(account, chosen) => account.rows(chosen),
            Self::Shares(shares) => shares.rows(),
        }
    }
}

/// Card of a position, in a frame.
#[derive(Debug, Clone, Copy)]
pub struct PositionCard<'a> {
    position: PositionView<'a>,
    theme: &'a Theme,
    /// Age of the figures, at the right end of the title.
    age: Option<&'a StyledText>,
    /// Last line, such as the keys that act on the card.
    below: Option<&'a str>,
    scrolled: Option<&'a ScrollOffset>,
}

impl<'a> PositionCard<'a> {
    /// Creates the card.
    pub const fn new(position: PositionView<'a>, theme: &'a Theme) -> Self {
        Self { position, theme, age: None, below: None, scrolled: None }
    }

    /// Adds the age of the figures.
    #[must_use]
    pub const fn age(self, words: &'a StyledText) -> Self {
        Self { age: Some(words), ..self }
    }

    /// Adds a last line.
    #[must_use]
    pub const fn below(self, words: &'a str) -> Self {
        Self { below: Some(words), ..self }
    }

    /// Draws the card from a scroll position on.
    #[must_use]
    pub const fn scrolled(self, offset: &'a ScrollOffset) -> Self {
        Self { scrolled: Some(offset), ..self }
    }
}

impl Widget for PositionCard<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        framed_card(
            (self.theme, buffer, area),
            (&self.position.title(), self.age),
            |columns| self.position.rows(columns),
            (self.below, self.scrolled),
        );
    }
}

/// Draws rows in a frame from a scroll position on, with a last line that is kept.
pub(in crate::widgets) fn framed_card(
    (theme, buffer, area): (&Theme, &mut Buffer, Rect),
    (title, right): (&str, Option<&StyledText>),
    rows_of: impl FnOnce(usize) -> Vec<Row>,
    (below, scrolled): (Option<&str>, Option<&ScrollOffset>),
) {
    let painter = &mut Painter { buffer, theme };
    if area.height < 2 || area.width < 4 {
        return;
    }
    let right: Vec<StyledText> = right.into_iter().cloned().collect();
    painter.frame(area, &[(title.to_owned(), Role::Title)], &right, Role::Border);
    let inner = area.inner(Margin::new(2, 1));
    let columns = usize::from(inner.width).max(1);
    let mut all = rows_of(columns);
    all.extend(below.map(|words| Row::new(words, Role::TextDim).kept()));
    let mut lines = wrapped(all, columns);
    let (count, room) = (lines.len(), usize::from(inner.height));
    let first = scrolled.map_or(0, |offset| offset.first(count, room));
    lines.drain(..first.min(count));
    rows(painter, inner, &lines);
    painter.scrollbar(area, count, room, first);
}

#[cfg(test)]
mod tests;
