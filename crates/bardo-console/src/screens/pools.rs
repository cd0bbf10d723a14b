//! Pool browser: pools of one token with their depth, fee, volume and hook. It reads by tools that sign nothing; liquidity
//! is added and swaps are made with the forms that it opens.

mod read;

use ratatui::buffer::Buffer;
use ratatui::layout::{Margin, Position, Rect};
use ratatui::widgets::Widget;
use rust_decimal::Decimal;
use serde_json::{Value, json};

use self::read::{PoolScope, Purpose, TokenPools};
use super::filter::Filter;
use super::reading::ReadQueue;
use super::screen_dialog::{DialogOption, ScreenDialog, ScreenDialogView, column};
use super::{CommandReply, ScreenContext, ScreenId, ScreenRequest, ScreenView, list};
use crate::format::round_dollars;
use crate::keymap::Action;
use crate::painter::{Painter, StyledText, line};
use crate::scroll::ScrollOffset;
use crate::theme::{Role, Theme};
use crate::widgets::figure::amount;
use crate::widgets::paint::{Row, cut, rows, wrapped};
use crate::widgets::pool::{Pool, PoolCard};
use bardo_base::text::{SafeText, fit, width};
use bardo_session::market::FeedPrice;

/// Width from which list and card stand side by side, in columns.
const SIDE_BY_SIDE: u16 = 160;
/// Least height of the card, in lines.
const LEAST_CARD: u16 = 9;
/// Maximum number of lines above the list.
const MOST_ABOVE: u16 = 3;
/// Height of the list from which its columns are named, in lines.
const NAMED_LINES: u16 = 3;
/// Maximum number of tokens whose pools are kept.
const MOST_KEPT: usize = 64;

/// Form to open: a tool with known parameters.
type Form = (&'static str, Value);

/// State of the pool browser.
#[derive(Debug, Default)]
pub struct Pools {
    /// Tokens whose pools were read, each with its chain.
    read: Vec<(PoolScope, TokenPools)>,
    queue: ReadQueue<Purpose>,
    /// Chosen chain and token; `None` takes the first.
    scope: Option<PoolScope>,
    /// Id of the chosen pool.
    chosen: Option<SafeText>,
    /// Selected row, used if the chosen one is gone.
    selected: usize,
    zoomed: bool,
    card_offset: ScrollOffset,
    filter: Filter,
    ask: Option<ScreenDialog>,
}

impl Pools {
    /// Tokens of all chains, in the order of the network.
    fn scopes(known: &ScreenContext<'_>) -> Vec<PoolScope> {
        let chains = known.page.network.iter().flat_map(|network| &network.chains).zip(&known.page.chains);
        let scopes = chains.enumerate().flat_map(|(chain, (identity, state))| {
            let name = &identity.name;
            state.tokens.iter().map(move |token| PoolScope { chain, name: name.clone(), token: token.symbol.clone() })
        });
        scopes.collect()
    }

    fn scope(&self, known: &ScreenContext<'_>) -> Option<PoolScope> {
        let mut all = Self::scopes(known);
        let at = self.place(&all, known);
        (at < all.len()).then(|| all.swap_remove(at))
    }

    /// Index of the chosen token; before a choice, that of the first pool's token, which is traded.
    fn place(&self, all: &[PoolScope], known: &ScreenContext<'_>) -> usize {
        let chosen = self.scope.as_ref().and_then(|scope| all.iter().position(|one| one == scope));
        let traded = || {
            let base = &known.page.chains.first()?.pools.first()?.base;
            all.iter().position(|one| one.chain == 0 && one.token == *base)
        };
        chosen.or_else(traded).unwrap_or(0)
    }

    fn pools_of(&self, scope: &PoolScope) -> Option<&TokenPools> {
        self.read.iter().find(|(of, _)| of == scope).map(|(_, pools)| pools)
    }

    fn pools_mut(&mut self, scope: &PoolScope) -> &mut TokenPools {
        let at = self.read.iter().position(|(of, _)| of == scope).unwrap_or_else(|| {
            // The oldest goes, so that browsing through many tokens keeps a bounded amount.
            if self.read.len() >= MOST_KEPT {
                self.read.remove(0);
            }
            self.read.push((scope.clone(), TokenPools::default()));
            self.read.len() - 1
        });
        // Cannot be out of range: `at` is the place of an entry that was found or just added.
        &mut self.read[at].1
    }

    /// Pools of the chosen token that the filter lets through.
    fn listed(&self, known: &ScreenContext<'_>) -> Vec<&Pool> {
        let Some(pools) = self.scope(known).and_then(|scope| self.pools_of(&scope)) else { return Vec::new() };
        let fits = |pool: &&Pool| {
            let hook = pool.hook.as_ref().map_or("", |_| "hook");
            !self.filter.stands() || self.filter.lets(&format!("{} {} {} {hook}", pool.pair(), pool.kind(), pool.id))
        };
        pools.pools().filter(fits).collect()
    }

    fn row(&self, all: &[&Pool]) -> usize {
        let chosen = self.chosen.as_ref().and_then(|id| all.iter().position(|pool| pool.id == *id));
        chosen.unwrap_or_else(|| self.selected.min(all.len().saturating_sub(1)))
    }

    fn choose(&mut self, row: usize, known: &ScreenContext<'_>) {
        self.chosen = self.listed(known).get(row).map(|pool| pool.id.clone());
        self.selected = row;
        self.card_offset = ScrollOffset::default();
    }

    /// Reads the pools of the chosen token, if they are old or `again` is set.
    fn read_scope(&mut self, known: &ScreenContext<'_>, again: bool) -> Vec<ScreenRequest> {
        let Some(scope) = self.scope(known).filter(|_| known.may_read()) else { return Vec::new() };
        let now = known.machine_millis;
        let pools = self.pools_mut(&scope);
        if again || pools.is_old(now) {
            pools.asked_at = Some(now);
            self.queue.ask(Purpose::List(scope));
        }
        self.queue.start(ScreenId::Pools, now)
    }

    /// Chooses the next or previous token, and reads its pools.
    fn step(&mut self, forward: bool, known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        let mut all = Self::scopes(known);
        if all.is_empty() {
            return Vec::new();
        }
        let at = self.place(&all, known);
        let to = if forward { at + 1 } else { at + all.len() - 1 } % all.len();
        self.scope = Some(all.swap_remove(to));
        (self.chosen, self.selected, self.card_offset) = (None, 0, ScrollOffset::default());
        self.read_scope(known, false)
    }

    fn give_up(&mut self, purposes: &[Purpose], why: &str) {
        for purpose in purposes {
            self.pools_mut(purpose.scope()).fail(purpose, why);
        }
    }

    /// Price of one token in another by the feeds.
    fn feed_price(known: &ScreenContext<'_>, scope: &PoolScope, quote: &SafeText) -> Option<Decimal> {
        let tokens = &known.page.chains.get(scope.chain)?.tokens;
        let price = |symbol: &SafeText| match &tokens.iter().find(|token| token.symbol == *symbol)?.price {
            FeedPrice::Live(price) => Some(price.decimal()),
            FeedPrice::None(_) => None,
        };
        price(&scope.token)?.checked_div(price(quote)?)
    }

    fn above(&self, known: &ScreenContext<'_>) -> Vec<Row> {
        let Some(scope) = self.scope(known) else { return Vec::new() };
        let mut all = Vec::new();
        if let Some(pools) = self.pools_of(&scope) {
            all.extend(pools.faults().map(|(what, why)| Row::new(format!("! {what}: {why}"), Role::StateBad)));
        }
        if self.queue.asked().any(|purpose| *purpose.scope() == scope) {
            let words = format!("Reading the pools of {} on {}…  ", scope.token, scope.name);
            all.push(Row::new(words, Role::TextDim).then("Esc", Role::Key).then(" stops", Role::TextDim));
        }
        all
    }

    fn empty_words(&self, known: &ScreenContext<'_>) -> String {
        match self.scope(known) {
            _ if known.replayed() => "A recording has no pools to read.".to_owned(),
            _ if known.watch_only => "A read-only console calls no tools, so it reads no pools.".to_owned(),
            None => "The tokens are not known yet.".to_owned(),
            Some(_) if self.filter.stands() => "No pool matches the filter.".to_owned(),
            Some(scope) if self.queue.asked().any(|purpose| *purpose.scope() == scope) => "Reading pools…".to_owned(),
            Some(scope) => match self.pools_of(&scope) {
                Some(pools) if pools.was_read() => format!("No pool of {} on {} was found.", scope.token, scope.name),
                Some(_) | None => "Not read. f reads.".to_owned(),
            },
        }
    }

    fn plan(&self, known: &ScreenContext<'_>, count: usize, area: Rect) -> (Rect, Rect) {
        let none = Rect { width: 0, height: 0, ..area };
        if count == 0 {
            return (area, none);
        }
        if self.zoomed {
            return (none, area);
        }
        if area.width >= SIDE_BY_SIDE {
            return list::beside(area, area.width / 2);
        }
        let above = self.above(known).len().min(usize::from(MOST_ABOVE));
        // With the frame and the names of the columns.
        let lines = u16::try_from(count + above + 3).unwrap_or(u16::MAX);
        let most = area.height.saturating_sub(LEAST_CARD).min(area.height * 2 / 5).max(3);
        list::stacked(area, lines.min(most))
    }

    fn rows_area(&self, known: &ScreenContext<'_>, list: Rect) -> (Vec<Row>, Rect) {
        let inner = list.inner(Margin::new(2, 1));
        let lines = wrapped(self.above(known), usize::from(inner.width).max(1));
        let most = MOST_ABOVE.min(inner.height.saturating_sub(1));
        let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).min(most);
        (lines, Rect { y: inner.y + height, height: inner.height - height, ..inner })
    }

    fn open(&mut self, known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        let all = self.listed(known);
        let (Some(pool), Some(scope)) = (all.get(self.row(&all)).copied(), self.scope(known)) else {
            return self.read_scope(known, true);
        };
        let notice = |words: &str| vec![ScreenRequest::Notice(SafeText::clean(words, 80))];
        if known.watch_only {
            return notice("this console is read-only: it cannot change anything");
        }
        let [first, second] = pool.tokens.clone().map(|token| token.to_string());
        let chain = scope.name.to_string();
        let mut ways: Vec<(char, String, Form)> = vec![
            (
                's',
                format!("sell {first} for {second}…"),
                ("uniswap_execute_swap", json!({ "token_in": first, "token_out": second, "chain": chain })),
            ),
            (
                'b',
                format!("buy {first} with {second}…"),
                ("uniswap_execute_swap", json!({ "token_in": second, "token_out": first, "chain": chain })),
            ),
        ];
        let version = pool.version.as_str().to_lowercase();
        if version != "v2" && pool.hook.is_none() {
            let mut params = json!({ "token_a": first, "token_b": second, "chain": chain, "version": version });
            if let (Some(params), Some(pips)) = (params.as_object_mut(), pool.fee_pips) {
                params.insert("fee_tier".to_owned(), Value::from(pips));
            }
            ways.push(('a', "add liquidity to this pool…".to_owned(), ("add_liquidity", params)));
        }
        let tools = known.ready.map(|ready| ready.tools.as_slice()).unwrap_or_default();
        ways.retain(|(.., (tool, _))| tools.iter().any(|one| one.name.as_str() == *tool));
        if ways.is_empty() {
            return notice("this session has no tool for it");
        }
        let title = format!("What to do with {} {}?", pool.pair(), pool.kind());
        let facts = vec![Row::new(
            "Opens the form on screen 2. A swap takes the best route, whatever pool is chosen here.",
            Role::Dialog,
        )];
        let id = pool.id.clone();
        let option = |(letter, words, (tool, params)): (char, String, Form)| DialogOption {
            letter,
            words,
            then: vec![ScreenRequest::OpenForm { tool: tool.to_owned(), params }],
        };
        let ways = ways.into_iter().map(option).collect();
        self.ask = Some(ScreenDialog::new(title, facts, ways).opened(known.machine_millis));
        self.chosen = Some(id);
        Vec::new()
    }
}

/// Panel of the list.
struct ListPanel<'a> {
    theme: &'a Theme,
    screen: &'a Pools,
    known: &'a ScreenContext<'a>,
    all: &'a [&'a Pool],
}

/// Text at the right end of a column.
fn right(text: &str, columns: usize) -> String {
    let text = fit(text, columns);
    format!("{}{text} ", " ".repeat(columns.saturating_sub(width(&text))))
}

fn row_pieces(pool: &Pool, here: bool, columns: usize) -> Vec<StyledText> {
    let usd = |value| round_dollars(value);
    let hook = if pool.hook.is_some() { ("!", Role::StateCare) } else { (" ", Role::Text) };
    let mut pieces = vec![
        (if here { "▸" } else { " " }.to_owned(), Role::BorderFocus),
        (format!("{} ", hook.0), hook.1),
        (format!("{} ", column(&pool.pair(), 11)), Role::TextStrong),
        (format!("{} ", column(&pool.kind(), 10)), Role::Text),
    ];
    let price = pool.price.as_ref().map_or_else(|| "–".to_owned(), |price| amount(price.as_str()));
    pieces.push((right(&price, 11), Role::Text));
    if columns >= 50 {
        pieces.push((right(&pool.depth.map_or_else(|| "–".to_owned(), usd), 10), Role::TextStrong));
    }
    if columns >= 62 {
        pieces.push((right(&pool.volume_value.map_or_else(|| "–".to_owned(), usd), 10), Role::Text));
    }
    if columns >= 74 {
        pieces.push((right(&pool.holds.map_or_else(|| "–".to_owned(), usd), 10), Role::TextDim));
    }
    cut(&pieces, columns)
}

/// Names of the columns, as wide as [`row_pieces`] draws them.
fn heading(columns: usize) -> Vec<StyledText> {
    let mut words = format!("   {} {} {}", column("pair", 11), column("pool", 10), right("price", 11));
    for (least, name) in [(50, "2 % depth"), (62, "volume"), (74, "holds")] {
        if columns >= least {
            words.push_str(&right(name, 10));
        }
    }
    cut(&[(words, Role::TextDim)], columns)
}

impl Widget for ListPanel<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let painter = &mut Painter { buffer, theme: self.theme };
        let Self { screen, known, all, .. } = &self;
        let scope = screen.scope(known);
        let name = scope.as_ref().map_or(String::new(), |scope| format!("  {} on {}", scope.token, scope.name));
        let pools = scope.as_ref().and_then(|scope| screen.pools_of(scope));
        let mut right: Vec<StyledText> = pools.and_then(|pools| pools.age(known)).into_iter().collect();
        if known.may_read() && scope.is_some() {
            let gap = if right.is_empty() { "" } else { " · " };
            right.extend([
                (gap.to_owned(), Role::TextDim),
                ("← →".to_owned(), Role::Key),
                (" token  ".to_owned(), Role::TextDim),
            ]);
        }
        right.extend(screen.filter.label());
        let room = usize::from(list_rows(screen.rows_area(known, area).1).height);
        let count = list::counted_rows(screen.row(all), room, all.len());
        let inner = list::framed(painter, area, true, &format!("Pools {count}{name}"), &right);
        if inner.is_empty() {
            return;
        }
        let (above, place) = screen.rows_area(known, area);
        rows(painter, Rect { height: inner.height - place.height, ..inner }, &above);
        if all.is_empty() {
            let words = vec![Row::new(screen.empty_words(known), Role::TextDim)];
            rows(painter, place, &wrapped(words, usize::from(place.width)));
            return;
        }
        let columns = usize::from(place.width);
        let named = place.height >= NAMED_LINES;
        if named {
            painter.pieces(line(place, 0), &heading(columns));
        }
        let place = list_rows(place);
        let (selected, room) = (screen.row(all), usize::from(place.height));
        let first = list::first_shown(selected, room);
        for (at, (index, pool)) in (0..place.height).zip(all.iter().enumerate().skip(first)) {
            if index == selected {
                painter.fill(line(place, at), Role::Selection);
            }
            painter.pieces(line(place, at), &row_pieces(pool, index == selected, columns));
        }
    }
}

/// Lines of the rows, below the names of the columns if there is room for them.
const fn list_rows(place: Rect) -> Rect {
    if place.height < NAMED_LINES {
        return place;
    }
    Rect { y: place.y + 1, height: place.height - 1, ..place }
}

impl ScreenView for Pools {
    fn id(&self) -> ScreenId {
        ScreenId::Pools
    }

    fn draw(&self, known: &ScreenContext<'_>, painter: &mut Painter<'_>, area: Rect) {
        let all = self.listed(known);
        let (list, card) = self.plan(known, all.len(), area);
        painter.render(ListPanel { theme: painter.theme, screen: self, known, all: &all }, list);
        if let (Some(pool), Some(scope), false) = (all.get(self.row(&all)).copied(), self.scope(known), card.is_empty())
        {
            let pools = self.pools_of(&scope);
            let beside: Vec<&Pool> =
                pools.into_iter().flat_map(TokenPools::pools).filter(|one| one.tokens == pool.tokens).collect();
            let age = pools.and_then(|pools| pools.age(known));
            let (hours, complete) = pools.map_or((24, true), TokenPools::window);
            let below =
                if known.watch_only { "y copies its id" } else { "Enter opens what can be done · y copies its id" };
            let widget = PoolCard::new(pool, &beside, painter.theme)
                .window(hours, complete)
                .feed(pool.tokens.get(1).and_then(|quote| Self::feed_price(known, &scope, quote)))
                .age(age.as_ref())
                .below(below)
                .scrolled(&self.card_offset);
            painter.render(widget, card);
        }
        if let Some(ask) = &self.ask {
            painter.render(ScreenDialogView::new(ask, painter.theme), area);
        }
    }

    fn open_hint(&self, known: &ScreenContext<'_>) -> Option<&'static str> {
        match (known.watch_only, self.listed(known).is_empty()) {
            (_, true) => known.may_read().then_some("read"),
            (true, false) => None,
            (false, false) => Some("act"),
        }
    }

    fn act(&mut self, action: Action, known: &ScreenContext<'_>, area: Rect) -> Option<Vec<ScreenRequest>> {
        let all = self.listed(known);
        let (count, at) = (all.len(), self.row(&all));
        let (list, card) = self.plan(known, count, area);
        if matches!(action, Action::HalfPageDown | Action::HalfPageUp) && self.zoomed {
            self.card_offset.scroll(action, usize::from(card.height.saturating_sub(2)));
            return Some(Vec::new());
        }
        let page = usize::from(list.height.saturating_sub(2)).max(2);
        if let Some(to) = list::moved(action, at, count.saturating_sub(1), page) {
            self.choose(to, known);
            return Some(Vec::new());
        }
        match action {
            Action::Open => return Some(self.open(known)),
            Action::Follow => return Some(self.read_scope(known, true)),
            // In a recording the arrows move through it.
            Action::Left | Action::Right if known.may_read() => {
                return Some(self.step(action == Action::Right, known));
            }
            Action::Zoom if count > 0 => {
                self.zoomed = !self.zoomed;
                self.card_offset = ScrollOffset::default();
            }
            Action::Back if self.zoomed => self.zoomed = false,
            Action::Back if self.filter.stands() => self.filter.clear(),
            Action::Back if !self.queue.is_idle() => {
                let (purposes, requests) = self.queue.cancel();
                self.give_up(&purposes, "the reading was stopped");
                return Some(requests);
            }
            Action::Filter => self.filter.open(),
            Action::Copy => {
                let all = self.listed(known);
                return Some(vec![ScreenRequest::Copy(all.get(at)?.id.to_string())]);
            }
            _ => return None,
        }
        Some(Vec::new())
    }

    fn dialog(&self) -> Option<&ScreenDialog> {
        self.ask.as_ref()
    }

    fn dialog_slot(&mut self) -> Option<&mut Option<ScreenDialog>> {
        Some(&mut self.ask)
    }

    fn filter(&self) -> Option<&Filter> {
        Some(&self.filter)
    }

    fn filter_mut(&mut self) -> Option<&mut Filter> {
        Some(&mut self.filter)
    }

    fn click_page(&mut self, at: Position, known: &ScreenContext<'_>, area: Rect) -> Vec<ScreenRequest> {
        let all = self.listed(known);
        let (count, before) = (all.len(), self.row(&all));
        let (list, _) = self.plan(known, count, area);
        if list.width < 4 || list.height < 3 {
            return Vec::new();
        }
        let inside = list_rows(self.rows_area(known, list).1);
        let first = list::first_shown(before, usize::from(inside.height));
        match list::row_at(at, inside, first, count) {
            // A second click on a row opens what can be done about it.
            Some(row) if row == before && self.chosen.is_some() => self.open(known),
            Some(row) => {
                self.choose(row, known);
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    fn wheel(&mut self, _at: Position, down: bool, known: &ScreenContext<'_>, _area: Rect) {
        let all = self.listed(known);
        let (at, last) = (self.row(&all), all.len().saturating_sub(1));
        let to = if down { (at + 1).min(last) } else { at.saturating_sub(1) };
        self.choose(to, known);
    }

    fn shown(&mut self, known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        self.read_scope(known, false)
    }

    fn tick(&mut self, known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        let (late, mut requests) = self.queue.overdue(known.machine_millis);
        self.give_up(&late, "no reply came in time");
        requests.extend(self.queue.start(ScreenId::Pools, known.machine_millis));
        requests
    }

    fn receive_reply(&mut self, count: u32, reply: CommandReply, known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        match reply {
            CommandReply::Began(call) => return self.queue.began(count, call),
            CommandReply::Reply(response) => {
                let Some(purpose) = self.queue.ended(count) else { return Vec::new() };
                for next in self.pools_mut(purpose.scope()).receive(&purpose, &response, known.machine_millis) {
                    self.queue.ask(next);
                }
            }
            CommandReply::Found(_) => {}
        }
        self.queue.start(ScreenId::Pools, known.machine_millis)
    }
}
