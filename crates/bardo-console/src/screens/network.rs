//! Screen 7: chains with health, latency and block times, pools compared with price feeds, and on the devnet the
//! controls of time, blocks and market.

use std::collections::{BTreeMap, VecDeque};

use ratatui::buffer::Buffer;
use ratatui::layout::{Alignment, Position, Rect};
use ratatui::widgets::{Sparkline, Widget};
use serde_json::{Value, json};

use super::filter::Filter;
use super::{CommandReply, ScreenContext, ScreenId, ScreenRequest, ScreenView, list, ticket};
use crate::format::{age, fee, grouped, gwei, ratio, round_dollars, share, signed_percent, sparkline};
use crate::keymap::Action;
use crate::painter::{Painter, StyledText, line, styled_width};
use crate::state::model::{BlockRow, ChainPage, FeedPrice, MoneyKind, PoolRow, PoolVersion, Trend};
use crate::theme::{Role, Theme};
use crate::widgets::figure::text;
use crate::widgets::paint::{Row, cut, rows, wrapped};
use crate::widgets::table::Column;
use bardo_base::text::{SafeText, width};
use bardo_session::handle::{DevnetControl, SessionCommand};
use bardo_session::market::ChainIdentity;

/// Width from which chains and pools stand side by side, in columns.
const SIDE_BY_SIDE: u16 = 110;
/// Number of latency samples kept per endpoint.
const LATENCIES: usize = 60;
/// Number of block times from which their median is shown.
const LEAST_BLOCKS: usize = 3;
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
enum NetworkPanel {
    #[default]
    Chains,
    Markets,
    Controls,
}

/// State of screen 7.
#[derive(Debug, Default)]
pub struct NetworkScreen {
    focus: NetworkPanel,
    offset: usize,
    control: usize,
    zoomed: bool,
    filter: Filter,
    health: BTreeMap<u64, Health>,
    asked_at: u64,
    sent: u32,
}

/// Row of the market list.
enum MarketRow<'k> {
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

/// Controls of the session's own devnet: label and command. Empty on any other network.
fn controls(known: &ScreenContext<'_>) -> Vec<(String, DevnetControl)> {
    let own = known.ready.is_some_and(|ready| ready.own_devnet);
    let Some(network) = known.page.network.as_ref().filter(|network| own && network.money == MoneyKind::Play) else {
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

fn markets<'k>(known: &ScreenContext<'k>) -> Vec<MarketRow<'k>> {
    let mut all = Vec::new();
    for (at, chain) in known.page.chains.iter().enumerate() {
        let identity = known.page.network.as_ref().and_then(|network| network.chains.get(at));
        let name = identity.map_or(String::new(), |identity| identity.name.to_string());
        all.push(MarketRow::Chain(name));
        all.extend((0..chain.tokens.len()).map(|token| MarketRow::Token(chain, token)));
        if !chain.pools.is_empty() {
            all.push(MarketRow::Pools);
        }
        all.extend(chain.pools.iter().map(MarketRow::Pool));
    }
    all
}

impl NetworkScreen {
    fn plan(&self, known: &ScreenContext<'_>, area: Rect) -> (Rect, Rect, Rect) {
        let none = Rect { width: 0, height: 0, ..area };
        if self.zoomed {
            return match self.focus {
                NetworkPanel::Chains => (area, none, none),
                NetworkPanel::Markets => (none, area, none),
                NetworkPanel::Controls => (none, none, area),
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
    fn fitting<'k>(&self, known: &ScreenContext<'k>) -> Vec<MarketRow<'k>> {
        let mut chain = String::new();
        let mut kept: Vec<MarketRow<'k>> = Vec::new();
        for row in markets(known) {
            let words = match &row {
                MarketRow::Chain(name) => {
                    chain.clone_from(name);
                    None
                }
                MarketRow::Pools => None,
                MarketRow::Token(page, at) => page.tokens.get(*at).map(|token| format!("{chain} {}", token.symbol)),
                MarketRow::Pool(pool) => Some(format!("{chain} {}/{}", pool.base, pool.quote)),
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
                    Some(MarketRow::Token(..) | MarketRow::Pool(_)) => below = true,
                    Some(MarketRow::Pools) if matches!(kept.get(at + 1), Some(MarketRow::Pool(_))) => {}
                    Some(MarketRow::Chain(_)) if below => below = false,
                    _ => drop(kept.remove(at)),
                }
            }
        }
        kept
    }

    fn ask(&mut self, known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        if known.replayed()
            || known.ready.is_none()
            || known.machine_millis < self.asked_at.saturating_add(ASK_EVERY_MILLIS)
        {
            return Vec::new();
        }
        self.asked_at = known.machine_millis;
        self.sent = self.sent.wrapping_add(1);
        vec![ScreenRequest::Send(Box::new(SessionCommand::Call {
            ticket: ticket(ScreenId::Network, self.sent),
            tool: "get_chain_status".to_owned(),
            params: json!({}),
            dry_run: true,
            idempotency_key: None,
            unasked: false,
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

    fn run(&self, known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        let notice = |words: &str| vec![ScreenRequest::Notice(SafeText::clean(words, 200))];
        if known.watch_only {
            return notice("this console is read-only: it cannot change anything");
        }
        let all = controls(known);
        match all.get(self.control.min(all.len().saturating_sub(1))) {
            Some((words, control)) => {
                let mut requests = vec![ScreenRequest::Send(Box::new(SessionCommand::Devnet(*control)))];
                requests.extend(notice(words));
                requests
            }
            None => notice("no controls: this is not a devnet"),
        }
    }

    fn chain_rows(&self, known: &ScreenContext<'_>, columns: usize) -> Vec<Row> {
        let mut all = Vec::new();
        let longest =
            known.page.network.iter().flat_map(|network| &network.chains).map(|chain| chain.name.width()).max();
        for (at, chain) in known.page.chains.iter().enumerate() {
            let Some(identity) = known.page.network.as_ref().and_then(|network| network.chains.get(at)) else {
                continue;
            };
            let health = self.health.get(&identity.id);
            all.push(chain_row(chain, identity, health, longest.unwrap_or(0), known));
            if let Some(block) = chain.blocks.front() {
                all.push(block_row(chain, block, identity, known, columns));
            }
            endpoint_rows(&mut all, chain, health);
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

/// Row of a chain: its state, its newest block and its id.
fn chain_row(
    chain: &ChainPage,
    identity: &ChainIdentity,
    health: Option<&Health>,
    longest: usize,
    known: &ScreenContext<'_>,
) -> Row {
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
    let pad = " ".repeat(longest.saturating_sub(identity.name.width()));
    let mut row = Row::new(format!("{mark} "), role)
        .then(format!("{}{pad} ", identity.name), Role::Title)
        .then(format!("{word}  "), role);
    if let Some(block) = chain.blocks.front() {
        let quiet = (known.now_millis / 1000).saturating_sub(block.timestamp);
        row = row.then(format!("#{}  ", grouped(&block.number.to_string())), Role::TextStrong);
        if known.motion {
            row = row.then(if quiet == 0 { "now".to_owned() } else { format!("{} ago", age(quiet)) }, Role::TextDim);
        }
    }
    row.end(format!("id {}", identity.id), Role::TextDim)
}

/// Row of a chain's newest blocks: their interval, and how full the newest is.
fn block_row(
    chain: &ChainPage,
    block: &BlockRow,
    identity: &ChainIdentity,
    known: &ScreenContext<'_>,
    columns: usize,
) -> Row {
    let times: Vec<u64> = chain
        .blocks
        .iter()
        .zip(chain.blocks.iter().skip(1))
        .map(|(newer, older)| newer.timestamp.saturating_sub(older.timestamp))
        .take(NEWEST_BLOCKS)
        .collect();
    let average = block_interval(chain, identity.interval_millis, &times);
    let full = share(block.gas_used, block.gas_limit);
    // A recording holds no base fee.
    let text = match known.replayed() {
        true => format!("block {full} full"),
        false => format!("block {full} full  fee {}", gwei(block.base_fee_wei)),
    };
    let left = Row::new("  every ", Role::TextDim)
        .then(average.map_or("–".to_owned(), |seconds| format!("{seconds} s ")), Role::Text);
    // The bars use the space between the two texts. If there is too little, they share a line with the left
    // text only.
    let alone = columns.saturating_sub(styled_width(&left.left));
    let room = alone.checked_sub(width(&text) + 2).filter(|room| *room >= LEAST_BARS).unwrap_or(alone);
    let bars = sparkline(times.iter().rev().copied(), room.clamp(1, NEWEST_BLOCKS));
    left.then(bars, Role::Chart).end(text, Role::TextDim)
}

/// Rows of a chain's endpoints: a dispute among them, a lack of them, and the state of each.
fn endpoint_rows(all: &mut Vec<Row>, chain: &ChainPage, health: Option<&Health>) {
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
        let behind = match endpoint.lag {
            0 => String::new(),
            1 => ", 1 block behind".to_owned(),
            many => format!(", {many} blocks behind"),
        };
        all.push(
            Row::new(format!("  {mark} "), role)
                .then(format!("{} ", endpoint.name), Role::Text)
                .then(sparkline(endpoint.latencies.iter().copied(), 16), Role::Chart)
                .end(format!("{newest}{behind}"), Role::TextDim),
        );
    }
}

/// Usual time between two blocks, in seconds; `None` if unknown. `times` holds the newest ones.
fn block_interval(chain: &ChainPage, interval_millis: Option<u64>, times: &[u64]) -> Option<u64> {
    match interval_millis {
        // Until enough blocks were made since the start, their times are those of the set-up.
        Some(millis) if chain.blocks.len() <= LEAST_BLOCKS => Some(millis.div_ceil(1_000)),
        Some(_) | None => {
            // The median, because time skipped on the devnet would distort the mean.
            let mut sorted = times.to_vec();
            sorted.sort_unstable();
            sorted.get(sorted.len() / 2).filter(|_| sorted.len() >= LEAST_BLOCKS).copied()
        }
    }
}

/// Number of levels of a bar.
const LEVELS: u64 = 8;

/// Last values as levels from 1 to [`LEVELS`]. The library scales bars from zero, which would hide the changes of a
/// price.
fn levels(values: impl DoubleEndedIterator<Item = u64>, most: usize) -> Vec<u64> {
    let mut shown: Vec<u64> = values.rev().take(most).collect();
    shown.reverse();
    let (low, high) = (shown.iter().min().copied().unwrap_or(0), shown.iter().max().copied().unwrap_or(0));
    let span = u128::from(high - low);
    let level = |value: u64| {
        let step = (u128::from(value - low) * u128::from(LEVELS - 1)).checked_div(span).unwrap_or(0);
        u64::try_from(step).unwrap_or(0) + 1
    };
    shown.into_iter().map(level).collect()
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
    let pieces = vec![
        (format!("  {} ", super::screen_dialog::column(token.symbol.as_str(), 10)), Role::Text),
        (format!("{price:>14} {mark} "), role),
    ];
    painter.pieces(place, &cut(&pieces, usize::from(place.width)));
    let room = place.width.saturating_sub(32);
    if let (true, Some(history)) = (room >= 8, chain.history.get(&token.address)) {
        let graph = Rect { x: place.x + 30, width: room.min(48), ..place };
        let style = painter.theme.style(Role::Chart);
        let levels = levels(history.iter().copied(), usize::from(graph.width));
        painter.render(Sparkline::default().data(levels).max(LEVELS).style(style), graph);
    }
}

/// Row of a pool. A gap within the fee is not profitable to close, so it is not highlighted; one above 2 % is marked
/// bad.
fn pool_row(pool: &PoolRow) -> Vec<StyledText> {
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
    vec![
        (format!("  {pair}"), Role::Text),
        (way, Role::TextDim),
        (price, Role::TextStrong),
        (gap, gap_role),
        (holds, Role::TextDim),
    ]
}

/// Headings of the pools.
fn pool_headings() -> Vec<StyledText> {
    ["  pool", "", "price", "off feed", "holds"].map(|words| (words.to_owned(), Role::TextDim)).to_vec()
}

/// Columns of the pools in this width.
fn pool_columns(width: u16) -> [Column; 5] {
    let spare = width.saturating_sub(58).min(16);
    [
        (14 + spare / 2, Alignment::Left),
        (9, Alignment::Left),
        (12 + spare / 2, Alignment::Right),
        (9, Alignment::Right),
        (8, Alignment::Right),
    ]
}

/// Panel of the chains and their endpoints.
struct ChainsPanel<'a> {
    theme: &'a Theme,
    screen: &'a NetworkScreen,
    known: &'a ScreenContext<'a>,
}

impl Widget for ChainsPanel<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, screen, known } = self;
        let painter = &mut Painter { buffer, theme };
        let name =
            known.page.network.as_ref().map_or("Network".to_owned(), |network| format!("Chains of {}", network.name));
        let inner = list::framed(painter, area, screen.focus == NetworkPanel::Chains, &name, &[]);
        rows(painter, inner, &wrapped(screen.chain_rows(known, inner.width.into()), inner.width.into()));
    }
}

/// Panel of prices and pools.
struct MarketPanel<'a> {
    theme: &'a Theme,
    screen: &'a NetworkScreen,
    known: &'a ScreenContext<'a>,
}

impl Widget for MarketPanel<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, screen, known } = self;
        let painter = &mut Painter { buffer, theme };
        let all = screen.fitting(known);
        let visible = usize::from(area.height.saturating_sub(2));
        let offset = screen.offset.min(all.len().saturating_sub(visible));
        let mut right = screen.filter.label();
        if all.len() > visible && visible > 0 {
            right.push((format!(" · {}–{} of {}", offset + 1, offset + visible, all.len()), Role::TextDim));
        }
        let inner = list::framed(painter, area, screen.focus == NetworkPanel::Markets, "Prices and pools", &right);
        let mut pools = Vec::new();
        for (at, row) in (0..inner.height).zip(all.iter().skip(offset)) {
            let place = line(inner, at);
            match row {
                MarketRow::Chain(name) => drop(painter.pieces(
                    place,
                    &[(format!("{name} "), Role::Title), ("· prices by feed".to_owned(), Role::TextDim)],
                )),
                MarketRow::Token(chain, token) => token_row(painter, chain, *token, place),
                MarketRow::Pools | MarketRow::Pool(_) => {
                    let cells = match row {
                        MarketRow::Pool(pool) => pool_row(pool),
                        MarketRow::Pools | MarketRow::Chain(_) | MarketRow::Token(..) => pool_headings(),
                    };
                    pools.push((at, cells));
                }
            }
        }
        list::draw_tables(painter, inner, pools, &pool_columns(inner.width));
        if all.is_empty() {
            let words = if screen.filter.stands() {
                "Nothing matches the filter; Esc clears it."
            } else {
                "No market data yet."
            };
            painter.text(line(inner, 0), inner.x, words, Role::TextDim);
        }
    }
}

/// Panel of the devnet controls.
struct ControlsPanel<'a> {
    theme: &'a Theme,
    screen: &'a NetworkScreen,
    known: &'a ScreenContext<'a>,
}

impl Widget for ControlsPanel<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, screen, known } = self;
        let painter = &mut Painter { buffer, theme };
        let all = controls(known);
        let selected = screen.control.min(all.len().saturating_sub(1));
        let right = [("Enter runs it".to_owned(), Role::TextDim)];
        let inner = list::framed(painter, area, screen.focus == NetworkPanel::Controls, "Devnet controls", &right);
        let visible = usize::from(inner.height);
        let offset = (selected + 1).saturating_sub(visible);
        painter.scrollbar(area, all.len(), visible, offset);
        for (at, (index, (words, _))) in (0..inner.height).zip(all.iter().enumerate().skip(offset)) {
            let here = index == selected && screen.focus == NetworkPanel::Controls;
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

impl ScreenView for NetworkScreen {
    fn id(&self) -> ScreenId {
        ScreenId::Network
    }

    fn draw(&self, known: &ScreenContext<'_>, painter: &mut Painter<'_>, area: Rect) {
        let (chains, market, below) = self.plan(known, area);
        if !chains.is_empty() {
            painter.render(ChainsPanel { theme: painter.theme, screen: self, known }, chains);
        }
        if !market.is_empty() {
            painter.render(MarketPanel { theme: painter.theme, screen: self, known }, market);
        }
        if !below.is_empty() {
            painter.render(ControlsPanel { theme: painter.theme, screen: self, known }, below);
        }
    }

    fn act(&mut self, action: Action, known: &ScreenContext<'_>, area: Rect) -> Option<Vec<ScreenRequest>> {
        let (_, market, _) = self.plan(known, area);
        let page = usize::from(market.height.saturating_sub(2)).max(2);
        let rows = self.fitting(known).len();
        let (at, last) = match self.focus {
            NetworkPanel::Controls => (&mut self.control, controls(known).len().saturating_sub(1)),
            NetworkPanel::Chains | NetworkPanel::Markets => (&mut self.offset, rows.saturating_sub(page)),
        };
        if let Some(to) = list::moved(action, *at, last, page) {
            *at = to;
            return Some(Vec::new());
        }
        match action {
            Action::NextPanel | Action::PreviousPanel => {
                let next = action == Action::NextPanel;
                self.focus = match (self.focus, next) {
                    (NetworkPanel::Chains, true) | (NetworkPanel::Controls, false) => NetworkPanel::Markets,
                    (NetworkPanel::Markets, true) | (NetworkPanel::Chains, false) => NetworkPanel::Controls,
                    (NetworkPanel::Controls, true) | (NetworkPanel::Markets, false) => NetworkPanel::Chains,
                };
            }
            Action::Zoom => self.zoomed = !self.zoomed,
            Action::Back if self.zoomed => self.zoomed = false,
            Action::Back if self.filter.stands() => self.filter.clear(),
            Action::Filter => {
                self.focus = NetworkPanel::Markets;
                self.filter.open();
            }
            Action::Open if self.focus == NetworkPanel::Controls => return Some(self.run(known)),
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

    fn click_page(&mut self, at: Position, known: &ScreenContext<'_>, area: Rect) -> Vec<ScreenRequest> {
        let (chains, market, below) = self.plan(known, area);
        if below.contains(at) {
            let again = self.focus == NetworkPanel::Controls;
            self.focus = NetworkPanel::Controls;
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
            self.focus = NetworkPanel::Markets;
        } else if chains.contains(at) {
            self.focus = NetworkPanel::Chains;
            return self.ask(known);
        }
        Vec::new()
    }

    fn wheel(&mut self, at: Position, down: bool, known: &ScreenContext<'_>, area: Rect) {
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

    fn receive_reply(&mut self, _count: u32, reply: CommandReply, _known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        if let CommandReply::Reply(response) = reply
            && let Some(data) = &response.data
        {
            self.learn(data);
        }
        Vec::new()
    }

    fn shown(&mut self, known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        self.ask(known)
    }

    /// Queries health again while the screen is in front; without motion only a key does. A recording has no chains to
    /// query.
    fn tick(&mut self, known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        if known.motion && known.money != Some(MoneyKind::Replay) { self.ask(known) } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::levels;

    #[test]
    fn levels_show_changes_and_not_the_size_of_a_price() {
        assert_eq!(levels([3_000_000, 3_000_007, 3_000_003].into_iter(), 8), [1, 8, 4]);
        assert_eq!(levels([5, 5].into_iter(), 8), [1, 1]);
        assert_eq!(levels([1, 2, 9].into_iter(), 2), [1, 8]);
    }
}
