//! Pools of a token, as `list_pools` and `get_pool_info` describe them: a row, and the card with the depth beside other
//! pools of the pair.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::Widget;
use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;
use serde_json::Value;

use super::figure::{amount, decimal, text};
use super::hook::HookReport;
use super::paint::Row;
use super::positions::{dollars_of, field, framed_card, strong};
use crate::format::{dollars, fee, grouped, round_dollars};
use crate::painter::StyledText;
use crate::scroll::ScrollOffset;
use crate::theme::{Role, Theme};
use bardo_base::text::{SafeText, width};
use bardo_base::units::{Rounding, TokenAmount, Usd};

/// Maximum number of pools that are read of one reply; no tool lists more.
pub const MOST_POOLS: usize = 50;
/// Maximum number of pools in the depth chart.
const MOST_BARS: usize = 8;
/// Columns of the figures at each side of the depth chart.
const FIGURE: usize = 9;

/// Pool of a token. Amounts are decimal numbers as text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pool {
    /// Address of the pool; its id in V4.
    pub id: SafeText,
    /// Uniswap version, such as `V3`.
    pub version: SafeText,
    /// Fee in hundredths of a basis point.
    pub fee_pips: Option<u32>,
    /// Symbols of the token and of the other token.
    pub tokens: [SafeText; 2],
    /// Price of one token in other tokens; `None` without liquidity.
    pub price: Option<SafeText>,
    /// Amount of the token that can be bought until its price is 2 % higher.
    pub buy_depth: Option<SafeText>,
    /// Amount of the other token that sales bring until the price is 2 % lower.
    pub sell_depth: Option<SafeText>,
    /// The smaller of both in dollars.
    pub depth: Option<Usd>,
    /// Traded amount of the token, in whole tokens; `None` if it was not counted.
    pub volume: Option<SafeText>,
    /// Traded amount in dollars.
    pub volume_value: Option<Usd>,
    /// Number of swaps.
    pub swaps: Option<u64>,
    /// Value of the pool's balances in dollars; in V4 of what its ticks near the price hold, which is the least.
    pub holds: Option<Usd>,
    /// Balances of the token and of the other token.
    pub held: Option<[SafeText; 2]>,
    /// Liquidity in range, in the protocol's own unit.
    pub liquidity: Option<SafeText>,
    /// Tick of the current price.
    pub tick: Option<i64>,
    /// Hook of a V4 pool; `None` without one.
    pub hook: Option<HookReport>,
}

impl Pool {
    /// Reads an entry of `list_pools`. `None` if it names no pool.
    pub fn from_list(entry: &Value) -> Option<Self> {
        Some(Self {
            tokens: ["token", "quote"].map(|name| text(entry, name).unwrap_or_default()),
            price: text(entry, "price"),
            buy_depth: text(entry, "buy_depth"),
            sell_depth: text(entry, "sell_depth"),
            depth: dollars_of(entry, "depth_usd"),
            volume: text(entry, "volume"),
            volume_value: dollars_of(entry, "volume_usd"),
            swaps: entry.get("swap_count").and_then(Value::as_u64),
            ..Self::named(entry)?
        })
    }

    /// Reads an entry of `get_pool_info` between these tokens. `None` if it names no pool.
    pub fn from_info(tokens: [SafeText; 2], entry: &Value) -> Option<Self> {
        Some(Self {
            tokens,
            price: text(entry, "price_b_per_a"),
            holds: dollars_of(entry, "value_usd"),
            held: Some(["held_a", "held_b"].map(|name| text(entry, name).unwrap_or_default())),
            liquidity: text(entry, "liquidity"),
            tick: entry.get("tick").and_then(Value::as_i64),
            ..Self::named(entry)?
        })
    }

    fn named(entry: &Value) -> Option<Self> {
        let pips = entry.get("fee_tier").and_then(Value::as_u64).and_then(|pips| u32::try_from(pips).ok());
        Some(Self {
            id: text(entry, "pool").filter(|id| !id.is_empty())?,
            version: text(entry, "version").unwrap_or_default(),
            fee_pips: pips.filter(|pips| *pips <= 1_000_000),
            hook: text(entry, "hook").and_then(|hook| HookReport::of_address(hook.as_str())),
            ..Self::default()
        })
    }

    /// Adds what another reading says of the same pool.
    pub fn add(&mut self, other: &Self) {
        fn keep<T: Clone>(mine: &mut Option<T>, other: &Option<T>) {
            if mine.is_none() {
                mine.clone_from(other);
            }
        }
        keep(&mut self.price, &other.price);
        keep(&mut self.holds, &other.holds);
        keep(&mut self.held, &other.held);
        keep(&mut self.liquidity, &other.liquidity);
        keep(&mut self.tick, &other.tick);
        keep(&mut self.hook, &other.hook);
    }

    /// Tokens, such as `WETH/USDC`.
    pub fn pair(&self) -> String {
        let [first, second] = &self.tokens;
        format!("{first}/{second}")
    }

    /// Version and fee, such as `V3 0.3 %`.
    pub fn kind(&self) -> String {
        let fee = self.fee_pips.map_or_else(|| "fee by hook".to_owned(), fee);
        format!("{} {fee}", self.version)
    }

    /// Fees of the counted window in dollars: volume times fee.
    pub fn fees(&self) -> Option<Usd> {
        let (volume, pips) = (self.volume_value?, self.fee_pips?);
        let share = TokenAmount::parse(&format!("0.{pips:06}"), 6).ok()?;
        Usd::value_of(share, volume, Rounding::Down).ok()
    }
}

/// Bar of a depth, from the middle outward. `leftward` draws it to the left. The library's `BarChart` has one direction.
fn bar(part: Option<Decimal>, most: Decimal, columns: usize, leftward: bool) -> Vec<StyledText> {
    let share = part.and_then(|part| part.checked_mul(Decimal::from(columns))?.checked_div(most));
    let filled = share.and_then(|share| share.ceil().to_usize()).unwrap_or(0).min(columns);
    let full = ("█".repeat(filled), Role::Chart);
    let rest = (" ".repeat(columns - filled), Role::Text);
    if leftward { vec![rest, full] } else { vec![full, rest] }
}

/// Rows of the depth chart: for each pool what sales bring within 2 % (left) and what can be bought (right), both in
/// other tokens, at one scale.
fn depth_rows(pools: &[&Pool], chosen: &SafeText, columns: usize) -> Vec<Row> {
    // A bought amount is in tokens; at the pool's price it is comparable with the other side.
    let sides = |pool: &Pool| {
        let number = |text: &Option<SafeText>| text.as_ref().and_then(|text| decimal(text.as_str()));
        let bought = number(&pool.buy_depth).zip(number(&pool.price)).and_then(|(buy, price)| buy.checked_mul(price));
        (number(&pool.sell_depth), bought)
    };
    let shown: Vec<_> = pools
        .iter()
        .map(|pool| (*pool, sides(pool)))
        .filter(|(_, (sell, buy))| sell.is_some() || buy.is_some())
        .collect();
    let most =
        shown.iter().flat_map(|(_, (sell, buy))| [*sell, *buy]).flatten().max().filter(|most| *most > Decimal::ZERO);
    let label = shown.iter().map(|(pool, _)| width(&pool.kind())).max().unwrap_or(0) + 3;
    let half = columns.saturating_sub(label + 2 * FIGURE + 3) / 2;
    let Some(most) = most.filter(|_| half >= 4) else { return Vec::new() };
    let unit = shown.first().map(|(pool, _)| pool.tokens[1].to_string()).unwrap_or_default();
    let mut rows = vec![
        Row::new(format!("Depth within 2 % of the price, in {unit}"), Role::Title),
        Row::new(
            format!("{}{:>side$}│{}", " ".repeat(label), "sales bring ", " can be bought", side = FIGURE + half + 1),
            Role::TextDim,
        ),
    ];
    let figure = |value: Option<Decimal>| value.map_or_else(|| "?".to_owned(), short);
    for (pool, (sell, buy)) in shown.iter().take(MOST_BARS) {
        let here = pool.id == *chosen;
        let (mark, role) = if here { ("▸ ", Role::TextStrong) } else { ("  ", Role::Text) };
        let mut row = Row::new(mark, Role::BorderFocus).then(format!("{:<1$}", pool.kind(), label - 2), role);
        row = row.then(format!("{:>FIGURE$} ", figure(*sell)), role);
        row.left.extend(bar(*sell, most, half, true));
        row = row.then("│", Role::TextDim);
        row.left.extend(bar(*buy, most, half, false));
        rows.push(row.then(format!(" {:<FIGURE$}", figure(*buy)), role));
    }
    if shown.len() > MOST_BARS {
        rows.push(Row::new(format!("  and {} more", shown.len() - MOST_BARS), Role::TextDim));
    }
    rows
}

/// Number with about three digits, such as `1.2 M`, `853`, `0.0042`.
fn short(value: Decimal) -> String {
    let scaled = |by: i64, unit: &str| format!("{} {unit}", (value / Decimal::from(by)).round_dp(1).normalize());
    match value {
        value if value >= Decimal::from(1_000_000_000_i64) => scaled(1_000_000_000, "bn"),
        value if value >= Decimal::from(1_000_000) => scaled(1_000_000, "M"),
        value if value >= Decimal::from(1_000) => scaled(1_000, "k"),
        value if value >= Decimal::ONE => value.round_dp(1).normalize().to_string(),
        value => value.round_sf(2).unwrap_or(value).normalize().to_string(),
    }
}

/// Card of a pool, in a frame.
#[derive(Debug, Clone, Copy)]
pub struct PoolCard<'a> {
    pool: &'a Pool,
    /// Pools of the same pair, with this one.
    beside: &'a [&'a Pool],
    theme: &'a Theme,
    /// Window of the volumes in hours, and whether all of it was read.
    window: (u64, bool),
    /// Price of one token in other tokens by the feeds.
    feed: Option<Decimal>,
    age: Option<&'a StyledText>,
    below: Option<&'a str>,
    scrolled: Option<&'a ScrollOffset>,
}

impl<'a> PoolCard<'a> {
    /// Creates the card. `beside` are the pools of the same pair, for the depth chart.
    pub const fn new(pool: &'a Pool, beside: &'a [&'a Pool], theme: &'a Theme) -> Self {
        Self { pool, beside, theme, window: (24, true), feed: None, age: None, below: None, scrolled: None }
    }

    /// Sets the window of the volumes in hours, and whether all of it was read.
    #[must_use]
    pub const fn window(self, hours: u64, complete: bool) -> Self {
        Self { window: (hours, complete), ..self }
    }

    /// Sets the price of one token in other tokens by the feeds.
    #[must_use]
    pub const fn feed(self, price: Option<Decimal>) -> Self {
        Self { feed: price, ..self }
    }

    /// Adds the age of the figures.
    #[must_use]
    pub const fn age(self, words: Option<&'a StyledText>) -> Self {
        Self { age: words, ..self }
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

    fn rows(&self, columns: usize) -> Vec<Row> {
        let pool = self.pool;
        let [first, second] = &pool.tokens;
        let mut all = Vec::new();
        match &pool.price {
            Some(price) => {
                all.push(strong("price", format!("{} {second} for one {first}", amount(price.as_str()))).kept())
            }
            None => all.push(Row::new("! no price: it has no liquidity", Role::StateCare).kept()),
        }
        let price = pool.price.as_ref().and_then(|price| decimal(price.as_str()));
        if let Some(gap) = price.zip(self.feed).and_then(|(price, feed)| gap(price, feed)) {
            let role = if gap.abs() >= Decimal::TWO { Role::StateBad } else { Role::Text };
            let side = if gap.is_sign_negative() { "below" } else { "above" };
            let words = format!("{:.2} % {side} the price of the feeds", gap.abs());
            all.push(Row::new(format!("{:<11}", "feeds"), Role::TextDim).then(words, role));
        }
        all.extend(depth_rows(self.beside, &pool.id, columns));
        let depth = |text: &Option<SafeText>, token: &SafeText| {
            text.as_ref().map_or_else(|| "not read".to_owned(), |text| format!("{} {token}", amount(text.as_str())))
        };
        if pool.buy_depth.is_some() || pool.sell_depth.is_some() {
            all.push(field("buy 2 %", depth(&pool.buy_depth, first)));
            all.push(field("sell 2 %", depth(&pool.sell_depth, second)));
        }
        if let Some(swaps) = pool.swaps {
            let (hours, complete) = self.window;
            let part = if complete { "" } else { ", of a part of it" };
            let value = pool.volume_value.map_or_else(|| "no price".to_owned(), dollars);
            let fees = pool.fees().map_or(String::new(), |fees| format!(", fees {}", dollars(fees)));
            all.push(field(
                "volume",
                format!("{value} in {} swaps of {hours} h{part}{fees}", grouped(&swaps.to_string())),
            ));
        }
        if let Some([one, other]) = &pool.held {
            let near = if pool.version.as_str() == "V4" { " at least" } else { "" };
            let value = pool.holds.map_or(String::new(), |value| format!("  {}", dollars(value)));
            all.push(field(
                "holds",
                format!("{} {first} + {} {second}{near}{value}", amount(one.as_str()), amount(other.as_str())),
            ));
        }
        if let Some(liquidity) = &pool.liquidity {
            let tick = pool.tick.map_or(String::new(), |tick| format!(" at tick {tick}"));
            all.push(field("liquidity", format!("{liquidity}{tick}")));
        }
        all.push(field("pool", pool.id.as_str()));
        match &pool.hook {
            Some(report) => all.extend(report.rows()),
            None if pool.version.as_str() == "V4" => all.push(field("hook", "none")),
            None => {}
        }
        all
    }
}

/// Distance of a price from another in percent of the other one.
fn gap(price: Decimal, feed: Decimal) -> Option<Decimal> {
    price.checked_sub(feed)?.checked_div(feed)?.checked_mul(Decimal::ONE_HUNDRED)
}

impl Widget for PoolCard<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let depth = self.pool.depth.map_or(String::new(), |depth| format!("  {} deep", round_dollars(depth)));
        framed_card(
            (self.theme, buffer, area),
            (&format!("{}  {}{depth}", self.pool.pair(), self.pool.kind()), self.age),
            |columns| self.rows(columns),
            (self.below, self.scrolled),
        );
    }
}
