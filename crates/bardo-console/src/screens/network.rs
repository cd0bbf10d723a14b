//! Screen 7: chains with health, latency and block times, pools compared with price feeds, and on the devnet the
//! controls of time, blocks and market.

use std::collections::{BTreeMap, VecDeque};

use ratatui::layout::{Position, Rect};
use serde_json::{Value, json};

use super::filter::Filter;
use super::{Heard, Known, ScreenId, ScreenView, Wish, list, ticket};
use crate::format::{age, fee, grouped, gwei, ratio, round_dollars, share, signed_percent, sparkline};
use crate::keymap::Action;
use crate::painter::{Painter, StyledText, TableCell, line, styled_width};
use crate::state::model::{ChainPage, FeedPrice, Money, PoolRow, PoolVersion, Trend};
use crate::theme::Role;
use crate::widgets::figure::text;
use crate::widgets::paint::{Row, cut, rows, wrapped};
use bardo_base::text::{SafeText, width};
use bardo_session::handle::{Command, DevnetControl};

/// Width from which chains and pools stand side by side, in columns.
const SIDE_BY_SIDE: u16 = 110;
/// Number of latency samples kept per endpoint.
const LATENCIES: usize = 60;
/// Number of newest blocks whose times are shown.
const NEWEST_BLOCKS: usize = 24;
/// Minimum number of bars of a sparkline.
const LEAST_BARS: usize = 4;
/// Minimum time between two health queries, in milliseconds.
const ASK_EVERY_MILLIS: u64 = 10_000;

/// Health of an endpoint as of the last reply, with its latencies in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Endpoint {
    name: SafeText,
    condition: SafeText,
    lag: u64,
    latencies: VecDeque<u64>,
}

/// Health of a chain as of the last reply.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Health {
    condition: SafeText,
    error: Option<SafeText>,
    endpoints: Vec<Endpoint>,
}

/// Panels of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Panel {
    #[default]
    Chains,
    Markets,
    Controls,
}

/// State of screen 7.
#[derive(Debug, Default)]
pub struct NetworkScreen {
    focus: Panel,
    offset: usize,
    control: usize,
    zoomed: bool,
    filter: Filter,
    health: BTreeMap<u64, Health>,
    asked_at: u64,
    sent: u32,
}

/// Row of the market list.
enum Market<'k> {
    /// Name of a chain, as the heading of its rows.
    Chain(String),
    Token(&'k ChainPage, usize),
    /// Heading of the pool columns.
    Pools,
    Pool(&'k PoolRow),
}

fn mark_of(condition: &str) -> (&'static str, Role) {
    match condition {
        "healthy" => ("●", Role::StateGood),
        "degraded" => ("▲", Role::StateCare),
        "" => ("·", Role::TextDim),
        _ => ("✕", Role::StateBad),
    }
}

/// Controls of the devnet: label and command. Empty on any other network.
fn controls(known: &Known<'_>) -> Vec<(String, DevnetControl)> {
    let Some(network) = known.page.network.as_ref().filter(|network| network.money == Money::Play) else {
        return Vec::new();
    };
    let mut all = Vec::new();
    for chain in &network.chains {
        let name = &chain.name;
        all.push((format!("mine 1 block on {name}"), DevnetControl::Mine { chain_id: chain.id, blocks: 1 }));
        all.push((format!("mine 10 blocks on {name}"), DevnetControl::Mine { chain_id: chain.id, blocks: 10 }));
        all.push((format!("advance {name} by an hour"), DevnetControl::Advance { chain_id: chain.id, seconds: 3600 }));
    }
    all.push(("stop the blocks".to_owned(), DevnetControl::Blocks { running: false }));
    all.push(("resume the blocks".to_owned(), DevnetControl::Blocks { running: true }));
    all.push(("market off".to_owned(), DevnetControl::Market { on: false }));
    all.push(("market on".to_owned(), DevnetControl::Market { on: true }));
    all.push(("market falls 3 %".to_owned(), DevnetControl::Crash { bps: 300 }));
    all.push(("market falls 20 %".to_owned(), DevnetControl::Crash { bps: 2_000 }));
    all.push(("market spikes 5 %".to_owned(), DevnetControl::Spike { bps: 500 }));
    all
}

fn markets<'k>(known: &Known<'k>) -> Vec<Market<'k>> {
    let mut all = Vec::new();
    for (at, chain) in known.page.chains.iter().enumerate() {
        let identity = known.page.network.as_ref().and_then(|network| network.chains.get(at));
        let name = identity.map_or(String::new(), |identity| identity.name.to_string());
        all.push(Market::Chain(name));
        all.extend((0..chain.tokens.len()).map(|token| Market::Token(chain, token)));
        if !chain.pools.is_empty() {
            all.push(Market::Pools);
        }
        all.extend(chain.pools.iter().map(Market::Pool));
    }
    all
}

impl NetworkScreen {
    fn plan(&self, known: &Known<'_>, area: Rect) -> (Rect, Rect, Rect) {
        let none = Rect { width: 0, height: 0, ..area };
        if self.zoomed {
            return match self.focus {
                Panel::Chains => (area, none, none),
                Panel::Markets => (none, area, none),
                Panel::Controls => (none, none, area),
            };
        }
        let controls = u16::try_from(controls(known).len()).unwrap_or(0);
        let wide = area.width >= SIDE_BY_SIDE;
        if wide {
            let (one, two) = list::beside(area, 52);
            let below = if controls == 0 { 0 } else { (controls + 2).min(area.height / 2) };
            let (chains, controls) = list::stacked(one, area.height - below + u16::from(below > 0));
            return (chains, two, controls);
        }
        let chains = (u16::try_from(known.page.chains.len()).unwrap_or(2) * 3 + 2).min(area.height);
        let (chains, rest) = list::stacked(area, chains);
        let below = if controls == 0 { 0 } else { (controls + 2).min(rest.height / 2) };
        let (market, controls) = list::stacked(rest, rest.height - below + u16::from(below > 0));
        (chains, market, controls)
    }

    /// Market rows that match the filter, with their headings.
    fn fitting<'k>(&self, known: &Known<'k>) -> Vec<Market<'k>> {
        let mut chain = String::new();
        let mut kept: Vec<Market<'k>> = Vec::new();
        for row in markets(known) {
            let words = match &row {
                Market::Chain(name) => {
                    chain.clone_from(name);
                    None
                }
                Market::Pools => None,
                Market::Token(page, at) => page.tokens.get(*at).map(|token| format!("{chain} {}", token.symbol)),
                Market::Pool(pool) => Some(format!("{chain} {}/{}", pool.base, pool.quote)),
            };
            if words.is_none_or(|words| self.filter.lets(&words)) {
                kept.push(row);
            }
        }
        if self.filter.stands() {
            // Removes headings without rows, from the bottom up.
            let mut below = false;
            for at in (0..kept.len()).rev() {
                match kept.get(at) {
                    Some(Market::Token(..) | Market::Pool(_)) => below = true,
                    Some(Market::Pools) if matches!(kept.get(at + 1), Some(Market::Pool(_))) => {}
                    Some(Market::Chain(_)) if below => below = false,
                    _ => drop(kept.remove(at)),
                }
            }
        }
        kept
    }

    fn ask(&mut self, known: &Known<'_>) -> Vec<Wish> {
        if known.ready.is_none() || known.machine_millis < self.asked_at.saturating_add(ASK_EVERY_MILLIS) {
            return Vec::new();
        }
        self.asked_at = known.machine_millis;
        self.sent = self.sent.wrapping_add(1);
        vec![Wish::Send(Box::new(Command::Call {
            ticket: ticket(ScreenId::Network, self.sent),
            tool: "get_chain_status".to_owned(),
            params: json!({}),
            dry_run: true,
            idempotency_key: None,
        }))]
    }

    fn learn(&mut self, data: &Value) {
        for chain in data.get("chains").and_then(Value::as_array).into_iter().flatten() {
            let Some(id) = chain.get("chain_id").and_then(Value::as_u64) else { continue };
            let known = self.health.entry(id).or_default();
            known.condition = text(chain, "condition").unwrap_or_default();
            known.error = text(chain, "last_error");
            for one in chain.get("endpoints").and_then(Value::as_array).into_iter().flatten() {
                let name = text(one, "endpoint").unwrap_or_default();
                let at = match known.endpoints.iter().position(|endpoint| endpoint.name == name) {
                    Some(at) => at,
                    None => {
                        known.endpoints.push(Endpoint { name, ..Endpoint::default() });
                        known.endpoints.len() - 1
                    }
                };
                let Some(endpoint) = known.endpoints.get_mut(at) else { continue };
                endpoint.condition = text(one, "condition").unwrap_or_default();
                endpoint.lag = one.get("lag_blocks").and_then(Value::as_u64).unwrap_or(0);
                if let Some(latency) = one.get("latency_ms").and_then(Value::as_u64) {
                    if endpoint.latencies.len() >= LATENCIES {
                        endpoint.latencies.pop_front();
                    }
                    endpoint.latencies.push_back(latency);
                }
            }
        }
    }

    fn run(&self, known: &Known<'_>) -> Vec<Wish> {
        let notice = |words: &str| vec![Wish::Notice(SafeText::clean(words, 200))];
        if known.watch_only {
            return notice("this console is read-only: it cannot change anything");
        }
        let all = controls(known);
        match all.get(self.control.min(all.len().saturating_sub(1))) {
            Some((words, control)) => {
                let mut wishes = vec![Wish::Send(Box::new(Command::Devnet(*control)))];
                wishes.extend(notice(words));
                wishes
            }
            None => notice("no controls: this is not a devnet"),
        }
    }

    fn chain_rows(&self, known: &Known<'_>, columns: usize) -> Vec<Row> {
        let mut all = Vec::new();
        let longest =
            known.page.network.iter().flat_map(|network| &network.chains).map(|chain| chain.name.width()).max();
        for (at, chain) in known.page.chains.iter().enumerate() {
            let Some(identity) = known.page.network.as_ref().and_then(|network| network.chains.get(at)) else {
                continue;
            };
            let health = self.health.get(&identity.id);
            let condition = match (&chain.fault, health) {
                (Some(_), _) => "down",
                (None, Some(health)) => health.condition.as_str(),
                (None, None) => "",
            };
            let (mark, role) = mark_of(condition);
            // Until its endpoints are queried, the blocks of a chain show its state.
            let word = match (condition, chain.blocks.front()) {
                ("", Some(_)) => "producing blocks",
                ("", None) => "no block yet",
                (asked, _) => asked,
            };
            let pad = " ".repeat(longest.unwrap_or(0).saturating_sub(identity.name.width()));
            let mut row = Row::new(format!("{mark} "), role)
                .then(format!("{}{pad} ", identity.name), Role::Title)
                .then(format!("{word}  "), role);
            if let Some(block) = chain.blocks.front() {
                let quiet = (known.now_millis / 1000).saturating_sub(block.timestamp);
                row = row.then(format!("#{}  ", grouped(&block.number.to_string())), Role::TextStrong);
                if known.motion {
                    row = row
                        .then(if quiet == 0 { "now".to_owned() } else { format!("{} ago", age(quiet)) }, Role::TextDim);
                }
            }
            all.push(row.end(format!("id {}", identity.id), Role::TextDim));
            if let Some(block) = chain.blocks.front() {
                let times: Vec<u64> = chain
                    .blocks
                    .iter()
                    .zip(chain.blocks.iter().skip(1))
                    .map(|(newer, older)| newer.timestamp.saturating_sub(older.timestamp))
                    .take(NEWEST_BLOCKS)
                    .collect();
                // The median, because time skipped on the devnet would distort the mean.
                let mut sorted = times.clone();
                sorted.sort_unstable();
                let average = sorted.get(sorted.len() / 2);
                let full = share(block.gas_used, block.gas_limit);
                let told = format!("block {full} full  fee {}", gwei(block.base_fee_wei));
                let left = Row::new("  every ", Role::TextDim)
                    .then(average.map_or("–".to_owned(), |seconds| format!("{seconds} s ")), Role::Text);
                // The bars use the space between the two texts. If there is too little, they share a line with the left
                // text only.
                let alone = columns.saturating_sub(styled_width(&left.left));
                let room = alone.checked_sub(width(&told) + 2).filter(|room| *room >= LEAST_BARS).unwrap_or(alone);
                let bars = sparkline(times.iter().rev().copied(), room.clamp(1, NEWEST_BLOCKS));
                all.push(left.then(bars, Role::Chart).end(told, Role::TextDim));
            }
            let endpoints = &chain.endpoints;
            if let Some(dispute) = &endpoints.dispute {
                all.push(Row::new("  ▲ ", Role::StateBad).then(dispute.as_str(), Role::StateBad).kept());
                let what = "Only exits, revocations and cancellations are signed until the wrong endpoint is removed.";
                all.push(Row::new("    ", Role::TextDim).then(what, Role::TextDim).kept());
            }
            match (endpoints.answering, endpoints.configured) {
                (_, 0) => {}
                (_, 1) => {
                    let what = "One endpoint: its answers are not cross-checked. Add a second one.";
                    all.push(Row::new("  ", Role::StateCare).then(what, Role::StateCare).kept());
                }
                (answering @ 0..=1, configured) => {
                    let what = format!("{answering} of {configured} endpoints responding: not cross-checked.");
                    all.push(Row::new("  ", Role::StateCare).then(what, Role::StateCare).kept());
                }
                (_, _) => {}
            }
            for endpoint in health.into_iter().flat_map(|health| &health.endpoints) {
                let (mark, role) = mark_of(endpoint.condition.as_str());
                let newest = endpoint.latencies.back().map_or("–".to_owned(), |latency| format!("{latency} ms"));
                let behind = if endpoint.lag > 0 { format!(", {} blocks behind", endpoint.lag) } else { String::new() };
                all.push(
                    Row::new(format!("  {mark} "), role)
                        .then(format!("{} ", endpoint.name), Role::Text)
                        .then(sparkline(endpoint.latencies.iter().copied(), 16), Role::Chart)
                        .end(format!("{newest}{behind}"), Role::TextDim),
                );
            }
            let wrong = chain.fault.as_ref().or_else(|| health.and_then(|health| health.error.as_ref()));
            if let Some(wrong) = wrong {
                all.push(Row::new("  ▲ ", Role::StateBad).then(wrong.as_str(), Role::StateBad).kept());
            }
        }
        if all.is_empty() {
            all.push(Row::new("No chains yet.", Role::TextDim));
        }
        all
    }
}

fn token_row(painter: &mut Painter<'_>, chain: &ChainPage, at: usize, place: Rect) {
    let Some(token) = chain.tokens.get(at) else { return };
    let trend = chain.trends.get(&token.address).copied().unwrap_or_default();
    let (price, mark, role) = match (&token.price, trend) {
        (FeedPrice::Live(price), Trend::Up) => (crate::format::price(*price), "▲", Role::PriceUp),
        (FeedPrice::Live(price), Trend::Down) => (crate::format::price(*price), "▼", Role::PriceDown),
        (FeedPrice::Live(price), Trend::Flat) => (crate::format::price(*price), " ", Role::Text),
        (FeedPrice::None(why), _) => (format!("no price: {why}"), "!", Role::StateCare),
    };
    let mut pieces = vec![
        (format!("  {} ", super::ask::column(token.symbol.as_str(), 10)), Role::Text),
        (format!("{price:>14} {mark} "), role),
    ];
    let room = usize::from(place.width).saturating_sub(32);
    if let (true, Some(history)) = (room >= 8, chain.history.get(&token.address)) {
        pieces.push((sparkline(history.iter().copied(), room.min(48)), Role::Chart));
    }
    painter.pieces(place, &cut(&pieces, usize::from(place.width)));
}

/// Draws a pool. A gap within the fee is not profitable to close, so it is not highlighted; one above 2 % is marked
/// bad.
fn pool_row(painter: &mut Painter<'_>, pool: &PoolRow, place: Rect) {
    let version = match pool.version {
        PoolVersion::V2 => "V2",
        PoolVersion::V3 => "V3",
    };
    let gap = pool.gap_bps();
    let gap_role = match gap.map(i64::unsigned_abs) {
        None => Role::TextDim,
        Some(gap) if gap <= u64::from(pool.fee_pips / 100) + 10 => Role::StateGood,
        Some(gap) if gap <= 200 => Role::StateCare,
        Some(_) => Role::StateBad,
    };
    let pair = format!("{}/{}", pool.base, pool.quote);
    let way = format!("{version} {}", fee(pool.fee_pips));
    let price = pool.price.map_or("empty".to_owned(), ratio);
    let (gap, holds) = (gap.map_or("–".to_owned(), signed_percent), pool.holds.map_or("–".to_owned(), round_dollars));
    let mut cells = pool_cells(place, [&pair, &way, &price, &gap, &holds]);
    let roles = [Role::Text, Role::TextDim, Role::TextStrong, gap_role, Role::TextDim];
    cells.iter_mut().zip(roles).for_each(|(cell, role)| cell.role = role);
    painter.cells(place, &cells);
}

/// Cells of a pool row and of its heading.
fn pool_cells(place: Rect, [pair, way, price, gap, holds]: [&str; 5]) -> [TableCell; 5] {
    let spare = place.width.saturating_sub(58).min(16);
    [
        TableCell::left(format!("  {pair}"), Role::TextDim, 14 + spare / 2),
        TableCell::left(way, Role::TextDim, 9),
        TableCell::right(price, Role::TextDim, 12 + spare / 2),
        TableCell::right(gap, Role::TextDim, 9),
        TableCell::right(holds, Role::TextDim, 8),
    ]
}

fn framed(painter: &mut Painter<'_>, area: Rect, focused: bool, title: &str, right: &[StyledText]) -> Rect {
    if area.height < 2 || area.width < 4 {
        return Rect { width: 0, height: 0, ..area };
    }
    let (edge, mark) = if focused { (Role::BorderFocus, "▸ ") } else { (Role::Border, "") };
    painter.frame(area, &[(format!("{mark}{title}"), Role::Title)], right, edge);
    Rect { x: area.x + 2, y: area.y + 1, width: area.width - 4, height: area.height - 2 }
}

impl ScreenView for NetworkScreen {
    fn id(&self) -> ScreenId {
        ScreenId::Network
    }

    fn draw(&self, known: &Known<'_>, painter: &mut Painter<'_>, area: Rect) {
        let (chains, market, below) = self.plan(known, area);
        if !chains.is_empty() {
            let name = known
                .page
                .network
                .as_ref()
                .map_or("Network".to_owned(), |network| format!("Chains of {}", network.name));
            let inner = framed(painter, chains, self.focus == Panel::Chains, &name, &[]);
            rows(painter, inner, &wrapped(self.chain_rows(known, inner.width.into()), inner.width.into()));
        }
        if !market.is_empty() {
            let all = self.fitting(known);
            let visible = usize::from(market.height.saturating_sub(2));
            let offset = self.offset.min(all.len().saturating_sub(visible));
            let mut right: Vec<StyledText> = vec![(self.filter.label(), Role::TextDim)];
            if all.len() > visible && visible > 0 {
                right.push((format!(" · {}–{} of {}", offset + 1, offset + visible, all.len()), Role::TextDim));
            }
            let inner = framed(painter, market, self.focus == Panel::Markets, "Prices and pools", &right);
            for (at, row) in (0..inner.height).zip(all.iter().skip(offset)) {
                let place = line(inner, at);
                match row {
                    Market::Chain(name) => drop(painter.pieces(
                        place,
                        &[(format!("{name} "), Role::Title), ("· prices by feed".to_owned(), Role::TextDim)],
                    )),
                    Market::Pools => {
                        painter.cells(place, &pool_cells(place, ["pool", "", "price", "off feed", "holds"]))
                    }
                    Market::Token(chain, token) => token_row(painter, chain, *token, place),
                    Market::Pool(pool) => pool_row(painter, pool, place),
                }
            }
            if all.is_empty() {
                let words = if self.filter.stands() {
                    "Nothing matches the filter; Esc clears it."
                } else {
                    "No market data yet."
                };
                painter.text(line(inner, 0), inner.x, words, Role::TextDim);
            }
        }
        if !below.is_empty() {
            let all = controls(known);
            let selected = self.control.min(all.len().saturating_sub(1));
            let right = [("Enter runs it".to_owned(), Role::TextDim)];
            let inner = framed(painter, below, self.focus == Panel::Controls, "Devnet controls", &right);
            let visible = usize::from(inner.height);
            let offset = (selected + 1).saturating_sub(visible);
            for (at, (index, (words, _))) in (0..inner.height).zip(all.iter().enumerate().skip(offset)) {
                let here = index == selected && self.focus == Panel::Controls;
                let role = if here { Role::Selection } else { Role::Text };
                let mark = if here { "▸ " } else { "  " };
                let hidden = all.len().saturating_sub(visible);
                let more: Vec<StyledText> = if hidden > 0 && at + 1 == inner.height {
                    vec![(format!("+ {hidden} more"), Role::TextDim)]
                } else {
                    Vec::new()
                };
                painter.row(line(inner, at), &[(mark.to_owned(), Role::BorderFocus), (words.clone(), role)], &more);
            }
        }
    }

    fn act(&mut self, action: Action, known: &Known<'_>, area: Rect) -> Option<Vec<Wish>> {
        let (_, market, _) = self.plan(known, area);
        let page = usize::from(market.height.saturating_sub(2)).max(2);
        let rows = self.fitting(known).len();
        let (at, last) = match self.focus {
            Panel::Controls => (&mut self.control, controls(known).len().saturating_sub(1)),
            Panel::Chains | Panel::Markets => (&mut self.offset, rows.saturating_sub(page)),
        };
        if let Some(to) = list::moved(action, *at, last, page) {
            *at = to;
            return Some(Vec::new());
        }
        match action {
            Action::NextPanel | Action::PreviousPanel => {
                let next = action == Action::NextPanel;
                self.focus = match (self.focus, next) {
                    (Panel::Chains, true) | (Panel::Controls, false) => Panel::Markets,
                    (Panel::Markets, true) | (Panel::Chains, false) => Panel::Controls,
                    (Panel::Controls, true) | (Panel::Markets, false) => Panel::Chains,
                };
            }
            Action::Zoom => self.zoomed = !self.zoomed,
            Action::Back if self.zoomed => self.zoomed = false,
            Action::Back if self.filter.stands() => self.filter.clear(),
            Action::Filter => {
                self.focus = Panel::Markets;
                self.filter.open();
            }
            Action::Open if self.focus == Panel::Controls => return Some(self.run(known)),
            Action::Open => return Some(self.ask(known)),
            _ => return None,
        }
        Some(Vec::new())
    }

    fn filter(&self) -> Option<&Filter> {
        Some(&self.filter)
    }

    fn filter_mut(&mut self) -> Option<&mut Filter> {
        Some(&mut self.filter)
    }

    fn click(&mut self, at: Position, known: &Known<'_>, area: Rect) -> Vec<Wish> {
        let (chains, market, below) = self.plan(known, area);
        if below.contains(at) {
            let again = self.focus == Panel::Controls;
            self.focus = Panel::Controls;
            let count = controls(known).len();
            let visible = usize::from(below.height.saturating_sub(2));
            let first = list::first_shown(self.control.min(count.saturating_sub(1)), visible);
            let inside = Rect { y: below.y + 1, height: below.height.saturating_sub(2), ..below };
            if let Some(row) = list::row_at(at, inside, first, count) {
                // The first click selects a control, the second runs it.
                if again && row == self.control {
                    return self.run(known);
                }
                self.control = row;
            }
        } else if market.contains(at) {
            self.focus = Panel::Markets;
        } else if chains.contains(at) {
            self.focus = Panel::Chains;
            return self.ask(known);
        }
        Vec::new()
    }

    fn wheel(&mut self, at: Position, down: bool, known: &Known<'_>, area: Rect) {
        let (_, market, below) = self.plan(known, area);
        let step = |value: usize, last: usize, by: usize| {
            if down { (value + by).min(last) } else { value.saturating_sub(by) }
        };
        if below.contains(at) {
            self.control = step(self.control, controls(known).len().saturating_sub(1), 1);
        } else {
            let page = usize::from(market.height.saturating_sub(2));
            self.offset = step(self.offset, self.fitting(known).len().saturating_sub(page), 3);
        }
    }

    fn hear(&mut self, _count: u32, heard: Heard, _known: &Known<'_>) -> Vec<Wish> {
        if let Heard::Reply(response) = heard
            && let Some(data) = &response.data
        {
            self.learn(data);
        }
        Vec::new()
    }

    fn shown(&mut self, known: &Known<'_>) -> Vec<Wish> {
        self.ask(known)
    }

    /// Queries health again while the screen is in front; without motion only a key does. A recording has no chains to
    /// query.
    fn tick(&mut self, known: &Known<'_>) -> Vec<Wish> {
        if known.motion && known.money != Some(Money::Replay) { self.ask(known) } else { Vec::new() }
    }
}
