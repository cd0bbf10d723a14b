//! Screen of positions: liquidity, supplies, debts and shares, with what can be done about each. It reads by tools that
//! sign nothing. Every action opens the form of its tool on the trade screen, filled in as far as it is known.

mod actions;
mod read;

use ratatui::buffer::Buffer;
use ratatui::layout::{Margin, Position, Rect};
use ratatui::widgets::Widget;

use self::read::{ChainPositions, Purpose};
use super::filter::Filter;
use super::reading::{ReadQueue, age_words};
use super::screen_dialog::{ScreenDialog, ScreenDialogView, column};
use super::{CommandReply, ScreenContext, ScreenId, ScreenRequest, ScreenView, list};
use crate::format::dollars;
use crate::keymap::Action;
use crate::painter::{Painter, StyledText, line};
use crate::scroll::ScrollOffset;
use crate::theme::{Role, Theme};
use crate::widgets::paint::{Row, cut, rows, wrapped};
use crate::widgets::positions::lent::{LendingAccount, LentToken};
use crate::widgets::positions::liquidity::{ExitState, LiquidityPosition};
use crate::widgets::positions::shares::VaultShares;
use crate::widgets::positions::{PositionCard, PositionView};
use bardo_base::format::counted;
use bardo_base::text::{SafeText, width};
use bardo_base::units::Usd;
use bardo_session::market::FeedPrice;

/// Width from which list and card stand side by side, in columns.
const SIDE_BY_SIDE: u16 = 170;
/// Least height of the card, in lines.
const LEAST_CARD: u16 = 9;
/// Maximum number of lines above the list.
const MOST_ABOVE: u16 = 4;
/// Explanation shown where the account has no position.
const NOTHING: &[&str] = &[
    "This account has no position.",
    "",
    "Liquidity in Uniswap V3 and V4, supplies and debts in Aave, and shares and requests in the vaults that the address book and the policy name are \
     listed here, each with what an exit pays now. Forms on screen 2 open them.",
];

/// Row of the list. Chains are named by their index.
#[derive(Debug, Clone, Copy)]
enum Entry<'a> {
    Liquidity(usize, &'a LiquidityPosition),
    /// Lending market with the security of its debts; its tokens follow.
    Market(usize, &'a LendingAccount),
    Lent(usize, &'a LendingAccount, &'a LentToken),
    Shares(usize, &'a VaultShares),
}

/// Identity of a row.
#[derive(Debug, Clone, PartialEq)]
enum EntryKey {
    Liquidity(usize, SafeText),
    Market(usize),
    Lent(usize, SafeText),
    Shares(usize, SafeText),
}

impl<'a> Entry<'a> {
    fn key(self) -> EntryKey {
        match self {
            Self::Liquidity(chain, position) => EntryKey::Liquidity(chain, position.id.clone()),
            Self::Market(chain, _) => EntryKey::Market(chain),
            Self::Lent(chain, _, token) => EntryKey::Lent(chain, token.token.clone()),
            Self::Shares(chain, shares) => EntryKey::Shares(chain, shares.vault.clone()),
        }
    }

    /// Returns true if the row has this identity. Compares without a copy, because every frame looks for the chosen row.
    fn is(self, key: &EntryKey) -> bool {
        match (self, key) {
            (Self::Liquidity(chain, position), EntryKey::Liquidity(of, id)) => chain == *of && position.id == *id,
            (Self::Market(chain, _), EntryKey::Market(of)) => chain == *of,
            (Self::Lent(chain, _, token), EntryKey::Lent(of, name)) => chain == *of && token.token == *name,
            (Self::Shares(chain, shares), EntryKey::Shares(of, vault)) => chain == *of && shares.vault == *vault,
            _ => false,
        }
    }

    const fn chain(self) -> usize {
        match self {
            Self::Liquidity(chain, _) | Self::Market(chain, _) | Self::Lent(chain, ..) | Self::Shares(chain, _) => {
                chain
            }
        }
    }

    fn view(self) -> PositionView<'a> {
        match self {
            Self::Liquidity(_, position) => PositionView::Liquidity(position),
            Self::Market(_, account) => PositionView::Lending(account, None),
            Self::Lent(_, account, token) => PositionView::Lending(account, Some(&token.token)),
            Self::Shares(_, shares) => PositionView::Shares(shares),
        }
    }

    /// Text that a filter is compared with.
    fn filtered(self) -> String {
        match self {
            Self::Liquidity(_, position) => {
                let hook = position.hook.as_ref().map_or("", |_| "hook");
                format!(
                    "{} {} {} {} {hook} liquidity",
                    position.chain,
                    position.name(),
                    position.pair(),
                    position.state().1
                )
            }
            Self::Market(_, account) => format!("{} aave lending {}", account.chain, account.state().1),
            Self::Lent(_, account, token) => format!("{} aave lending {}", account.chain, token.amount_text()),
            Self::Shares(_, shares) => {
                format!("{} vault {} {} {}", shares.chain, shares.asset, shares.state().1, shares.amount_text())
            }
        }
    }

    /// Parts of the row: mark, name, what it is, the figure that matters, value.
    fn parts(self) -> RowParts {
        match self {
            Self::Liquidity(_, position) => {
                let (mark, words, role) = position.state();
                RowParts {
                    mark: (mark, role),
                    name: position.name(),
                    what: position.pair(),
                    figure: (words.to_owned(), role),
                    value: position.value_words(),
                }
            }
            Self::Market(_, account) => {
                let (mark, words, role) = account.state();
                let nearest = account.nearest().and_then(|token| Some((token, token.liquidated_at.as_ref()?)));
                let nearest = nearest.map_or(String::new(), |(token, at)| {
                    let sign = if at.rises { "+" } else { "−" };
                    format!(", {} {sign}{} %", token.token, at.change_pct.normalize())
                });
                RowParts {
                    mark: (mark, role),
                    name: "Aave".to_owned(),
                    what: counted(u64::try_from(account.tokens.len()).unwrap_or(u64::MAX), "token", "tokens"),
                    figure: (format!("{words}{nearest}"), role),
                    value: account.value_words(),
                }
            }
            Self::Lent(_, _, token) => RowParts {
                mark: (" ", Role::Text),
                name: format!("  {}", token.token),
                what: token.amount_text(),
                figure: match (token.is_supplied(), token.is_owed()) {
                    (_, true) => (format!("owes {} % a year", token.borrow_rate), Role::TextDim),
                    (_, false) => (format!("earns {} % a year", token.supply_rate), Role::TextDim),
                },
                value: token.value_words(),
            },
            Self::Shares(_, shares) => {
                let (mark, words, role) = shares.state();
                RowParts {
                    mark: (mark, role),
                    name: "Vault".to_owned(),
                    what: shares.amount_text(),
                    figure: (words, role),
                    value: shares.value_words(),
                }
            }
        }
    }

    /// Range with the price, for a liquidity position.
    fn bar(self, columns: usize) -> Option<Vec<StyledText>> {
        let Self::Liquidity(_, position) = self else { return None };
        Some(position.range?.pieces(columns))
    }
}

/// Parts of a row, before they are laid out.
struct RowParts {
    mark: (&'static str, Role),
    name: String,
    what: String,
    figure: StyledText,
    value: StyledText,
}

/// Widths of a row's columns; zero leaves a column out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Columns {
    name: usize,
    what: usize,
    bar: usize,
    figure: usize,
    value: usize,
    chain: usize,
}

impl Columns {
    /// Columns that fit a width. Two marks stand before them, and one blank between them.
    const fn of(columns: usize) -> Self {
        match columns {
            112.. => Self { name: 10, what: 26, bar: 18, figure: 18, value: 14, chain: columns.saturating_sub(96) },
            86.. => Self { name: 10, what: 22, bar: 14, figure: 16, value: 13, chain: 0 },
            64.. => Self { name: 9, what: columns.saturating_sub(46), bar: 0, figure: 16, value: 12, chain: 0 },
            36.. => Self { name: 8, what: columns.saturating_sub(25), bar: 0, figure: 0, value: 11, chain: 0 },
            _ => Self { name: columns.saturating_sub(4), what: 0, bar: 0, figure: 0, value: 0, chain: 0 },
        }
    }
}

/// State of the screen of positions.
#[derive(Debug, Default)]
pub struct Positions {
    chains: Vec<ChainPositions>,
    queue: ReadQueue<Purpose>,
    /// Value of everything that counts, everything owed, and whether something has no value. Summed with each reply,
    /// because a sum over some hundred positions is too much for each frame.
    total: (Usd, Usd, bool),
    /// Time of the newest reading's start, in milliseconds of the machine's clock.
    asked_at: Option<u64>,
    /// Session time of that start, in milliseconds: actions that ended later make it outdated.
    asked_session_at: u64,
    chosen: Option<EntryKey>,
    /// Selected row, used if the chosen one is gone.
    selected: usize,
    zoomed: bool,
    card_offset: ScrollOffset,
    filter: Filter,
    ask: Option<ScreenDialog>,
}

impl Positions {
    fn every(&self) -> impl Iterator<Item = Entry<'_>> {
        self.chains.iter().enumerate().flat_map(|(at, chain)| {
            let liquidity = chain.positions().iter().map(move |position| Entry::Liquidity(at, position));
            let account = chain.lending.value.iter().flatten();
            let lending = account.flat_map(move |account| {
                let tokens = account.tokens.iter().map(move |token| Entry::Lent(at, account, token));
                std::iter::once(Entry::Market(at, account)).chain(tokens)
            });
            let vault = chain.vaults.value.iter().flatten().map(move |shares| Entry::Shares(at, shares));
            lending.chain(vault).chain(liquidity)
        })
    }

    /// Rows that the filter lets through.
    fn listed(&self) -> Vec<Entry<'_>> {
        // A text for each of some hundred rows is made only where it is compared.
        self.every().filter(|entry| !self.filter.stands() || self.filter.lets(&entry.filtered())).collect()
    }

    fn row(&self, all: &[Entry<'_>]) -> usize {
        let chosen = self.chosen.as_ref().and_then(|key| all.iter().position(|entry| entry.is(key)));
        chosen.unwrap_or_else(|| self.selected.min(all.len().saturating_sub(1)))
    }

    fn choose(&mut self, row: usize) {
        self.chosen = self.listed().get(row).map(|entry| entry.key());
        self.selected = row;
        self.card_offset = ScrollOffset::default();
    }

    /// Reads everything, unless it is being read.
    fn read_all(&mut self, known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        let Some(network) = known.page.network.as_ref().filter(|_| known.may_read()) else { return Vec::new() };
        let names: Vec<&SafeText> = network.chains.iter().map(|chain| &chain.name).collect();
        if !self.chains.iter().map(|chain| &chain.name).eq(names.iter().copied()) {
            self.chains = names.iter().map(|name| ChainPositions::new((*name).clone())).collect();
        }
        for (chain, name) in network.chains.iter().map(|chain| chain.name.clone()).enumerate() {
            // A page under way goes on from its own offset.
            let paging = |one: &Purpose| matches!(one, Purpose::Liquidity { chain: of, .. } if *of == chain);
            if !self.queue.asked().any(paging) {
                self.queue.ask(Purpose::Liquidity { chain, name: name.clone(), offset: 0 });
            }
            self.queue.ask(Purpose::Lending { chain, name: name.clone() });
            self.queue.ask(Purpose::Vaults { chain, name });
        }
        (self.asked_at, self.asked_session_at) = (Some(known.machine_millis), known.live_millis);
        self.queue.start(ScreenId::Positions, known.machine_millis)
    }

    /// Returns true if an action that may have changed a position ended since the newest reading began.
    fn is_outdated(&self, known: &ScreenContext<'_>) -> bool {
        let ended = known.live_feed.calls.iter().filter(|call| actions::changes_positions(call.tool()));
        ended.filter_map(|call| call.ended_at).any(|at| at >= self.asked_session_at)
    }

    /// Reads what is old, or what an action has changed.
    fn refresh(&mut self, known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        let old = known.machine_millis.saturating_sub(super::reading::OLD_MILLIS);
        let asked = self.asked_at.is_some_and(|at| at > old);
        let stale = self.chains.is_empty() || self.chains.iter().any(|chain| chain.is_older_than(old));
        if self.is_outdated(known) || (stale && !asked) { self.read_all(known) } else { Vec::new() }
    }

    /// Gives up reads, and records why.
    fn give_up(&mut self, purposes: &[Purpose], why: &str) {
        for purpose in purposes {
            if let Some(chain) = self.chains.get_mut(purpose.chain()) {
                chain.fail(purpose, why);
            }
        }
    }

    /// Price of a token by its address, as the feeds have it.
    fn price(known: &ScreenContext<'_>, chain: usize, token: &SafeText) -> Option<Usd> {
        let tokens = &known.page.chains.get(chain)?.tokens;
        let found = tokens.iter().find(|one| one.address.to_string().eq_ignore_ascii_case(token.as_str()))?;
        match &found.price {
            FeedPrice::Live(price) => Some(*price),
            FeedPrice::None(_) => None,
        }
    }

    /// Sums what was read.
    fn summed(&self) -> (Usd, Usd, bool) {
        let (mut held, mut owed, mut least) = (Usd::ZERO, Usd::ZERO, false);
        let mut add = |sum: &mut Usd, value: Option<Usd>| match value.and_then(|value| sum.checked_add(value).ok()) {
            Some(whole) => *sum = whole,
            None => least = true,
        };
        for entry in self.every() {
            match entry {
                Entry::Liquidity(_, position) if position.exit == ExitState::Open => add(&mut held, position.value),
                Entry::Liquidity(..) | Entry::Lent(..) => {}
                Entry::Market(_, account) => {
                    add(&mut held, account.collateral);
                    add(&mut owed, account.debt);
                }
                // What waits in an asynchronous vault, the portfolio values.
                Entry::Shares(_, shares) if shares.is_asynchronous || !shares.has_shares() => {}
                Entry::Shares(_, shares) => match &shares.redemption {
                    Some(found) if found.received.is_none() => {}
                    found => add(&mut held, found.as_ref().and_then(|found| found.value)),
                },
            }
        }
        (held, owed, least)
    }

    /// Lines above the list: failures, what is missing, what is being read.
    fn above(&self, known: &ScreenContext<'_>) -> Vec<Row> {
        let mut all = Vec::new();
        // Parts that failed for the same reason are named together.
        let mut faults: Vec<(&SafeText, String)> = Vec::new();
        for chain in &self.chains {
            for (part, why) in chain.faults() {
                let name = format!("{} {part}", chain.name);
                match faults.iter_mut().find(|(known, _)| *known == why) {
                    Some((_, names)) => names.push_str(&format!(", {name}")),
                    None => faults.push((why, name)),
                }
            }
        }
        all.extend(faults.iter().map(|(why, names)| Row::new(format!("! {names}: {why}"), Role::StateBad)));
        for chain in &self.chains {
            if let Some(list) = chain.liquidity.value.as_ref().filter(|list| list.missing > 0) {
                let words = counted(list.missing, "position", "positions");
                all.push(Row::new(format!("! {}: {words} not listed", chain.name), Role::StateCare));
            }
        }
        let asked: Vec<&Purpose> = self.queue.asked().collect();
        if !asked.is_empty() && known.may_read() {
            let mut names: Vec<&str> = Vec::new();
            for chain in asked.iter().filter_map(|purpose| self.chains.get(purpose.chain())) {
                if !names.contains(&chain.name.as_str()) {
                    names.push(chain.name.as_str());
                }
            }
            let words = format!("Reading {}…  ", names.join(", "));
            all.push(Row::new(words, Role::TextDim).then("Esc", Role::Key).then(" stops", Role::TextDim));
        }
        all
    }

    /// Age of the oldest part that is shown.
    fn age(&self, known: &ScreenContext<'_>) -> Option<StyledText> {
        let parts = self.chains.iter().flat_map(|chain| {
            [chain.liquidity.read_at(), chain.lending.read_at(), chain.vaults.read_at()].into_iter().flatten()
        });
        let failed = self.chains.iter().any(|chain| chain.faults().next().is_some());
        parts.min().map(|at| age_words(at, failed, known))
    }

    /// Age of the figures of one row.
    fn age_of(&self, entry: Entry<'_>, known: &ScreenContext<'_>) -> Option<StyledText> {
        let chain = self.chains.get(entry.chain())?;
        match entry {
            Entry::Liquidity(..) => chain.liquidity.age(known),
            Entry::Market(..) | Entry::Lent(..) => chain.lending.age(known),
            Entry::Shares(..) => chain.vaults.age(known),
        }
    }

    /// Explanation where nothing is listed.
    fn empty_words(&self, known: &ScreenContext<'_>) -> Vec<&'static str> {
        let failed = self.chains.iter().any(|chain| chain.faults().next().is_some());
        match () {
            () if known.replayed() => vec!["A recording has no positions to read."],
            () if known.watch_only && self.chains.is_empty() => {
                vec!["A read-only console calls no tools, so it reads no positions."]
            }
            () if self.filter.stands() => vec!["No position matches the filter."],
            () if !self.queue.is_idle() => vec!["Reading positions…"],
            () if self.chains.is_empty() => vec!["Not read yet."],
            () if failed => vec!["What could be read has no position."],
            () => NOTHING.to_vec(),
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
            return list::beside(area, area.width * 11 / 20);
        }
        let above = self.above(known).len().min(usize::from(MOST_ABOVE));
        let lines = u16::try_from(count + above + 2).unwrap_or(u16::MAX);
        let most = area.height.saturating_sub(LEAST_CARD).max(area.height * 2 / 5).max(3);
        list::stacked(area, lines.min(most.min(area.height / 2).max(3)))
    }

    /// Area of the rows inside the list's panel, below the lines above them.
    fn rows_area(&self, known: &ScreenContext<'_>, list: Rect) -> (Vec<Row>, Rect) {
        let inner = list.inner(Margin::new(2, 1));
        let lines = wrapped(self.above(known), usize::from(inner.width).max(1));
        let most = MOST_ABOVE.min(inner.height.saturating_sub(1));
        let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).min(most);
        (lines, Rect { y: inner.y + height, height: inner.height - height, ..inner })
    }

    /// Opens the actions of the selected row.
    fn open(&mut self, known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        let all = self.listed();
        let Some(entry) = all.get(self.row(&all)).copied() else { return self.read_all(known) };
        if known.watch_only {
            return vec![ScreenRequest::Notice(SafeText::clean(
                "this console is read-only: it cannot change anything",
                80,
            ))];
        }
        let (title, ways) = actions::of(entry.view(), known);
        if ways.is_empty() {
            return vec![ScreenRequest::Notice(SafeText::clean("nothing can be done about it", 80))];
        }
        let facts =
            vec![Row::new("Opens the form on screen 2. Nothing is signed before you decide there.", Role::Dialog)];
        let key = entry.key();
        self.ask = Some(ScreenDialog::new(title, facts, ways).opened(known.machine_millis));
        self.chosen = Some(key);
        Vec::new()
    }
}

/// Panel of the list.
struct ListPanel<'a> {
    theme: &'a Theme,
    screen: &'a Positions,
    known: &'a ScreenContext<'a>,
    all: &'a [Entry<'a>],
}

impl ListPanel<'_> {
    fn draw_row(&self, painter: &mut Painter<'_>, place: Rect, entry: Entry<'_>, here: bool, columns: Columns) {
        if here {
            painter.fill(place, Role::Selection);
        }
        let RowParts { mark, name, what, figure, value } = entry.parts();
        let mut pieces: Vec<StyledText> = vec![
            (if here { "▸" } else { " " }.to_owned(), Role::BorderFocus),
            (format!("{} ", mark.0), mark.1),
            (format!("{} ", column(&name, columns.name)), Role::TextStrong),
        ];
        if columns.what > 0 {
            pieces.push((format!("{} ", column(&what, columns.what)), Role::Text));
        }
        let bar = if columns.bar > 0 { entry.bar(columns.bar) } else { None };
        // Where a row has no bar, its figure has the room of it.
        let figure_columns = match (&bar, columns.bar) {
            (None, 1..) => columns.figure + columns.bar + 1,
            _ => columns.figure,
        };
        if let Some(bar) = bar {
            let drawn = bar.iter().map(|(text, _)| width(text)).sum::<usize>();
            pieces.extend(bar);
            pieces.push((" ".repeat(columns.bar.saturating_sub(drawn) + 1), Role::Text));
        }
        if figure_columns > 0 {
            pieces.push((format!("{} ", column(&figure.0, figure_columns)), figure.1));
        }
        if columns.value > 0 {
            let (text, role) = value;
            let text = bardo_base::text::fit(&text, columns.value).into_owned();
            pieces.push((format!("{}{text}", " ".repeat(columns.value.saturating_sub(width(&text)))), role));
        }
        if let Some(chain) = self.screen.chains.get(entry.chain()).filter(|_| columns.chain > 2) {
            pieces.push((format!("  {}", column(chain.name.as_str(), columns.chain - 2)), Role::TextDim));
        }
        painter.pieces(place, &cut(&pieces, usize::from(place.width)));
    }
}

impl Widget for ListPanel<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let painter = &mut Painter { buffer, theme: self.theme };
        let Self { screen, known, all, .. } = &self;
        let (above, place) = screen.rows_area(known, area);
        let (selected, room) = (screen.row(all), usize::from(place.height));
        let mut title = format!("Positions {}", list::counted_rows(selected, room, all.len()));
        if !all.is_empty() {
            let (held, owed, least) = screen.total;
            let more = if least { "≥ " } else { "" };
            title.push_str(&match held.checked_sub(owed) {
                Ok(net) => format!("  {more}{}", dollars(net)),
                Err(_) => format!("  −{}", owed.checked_sub(held).map(dollars).unwrap_or_default()),
            });
        }
        let mut right: Vec<StyledText> = screen.age(known).into_iter().collect();
        if !right.is_empty() && known.may_read() {
            right.extend([
                (" · ".to_owned(), Role::TextDim),
                ("f".to_owned(), Role::Key),
                (" reads again  ".to_owned(), Role::TextDim),
            ]);
        }
        right.extend(screen.filter.label());
        let inner = list::framed(painter, area, true, &title, &right);
        if inner.is_empty() {
            return;
        }
        rows(painter, Rect { height: inner.height - place.height, ..inner }, &above);
        if all.is_empty() {
            let words = screen.empty_words(known).into_iter().map(|words| Row::new(words, Role::TextDim)).collect();
            rows(painter, place, &wrapped(words, usize::from(place.width)));
            return;
        }
        let first = list::first_shown(selected, room);
        let columns = Columns::of(usize::from(place.width));
        for (at, (index, entry)) in (0..place.height).zip(all.iter().enumerate().skip(first)) {
            self.draw_row(painter, line(place, at), *entry, index == selected, columns);
        }
    }
}

impl ScreenView for Positions {
    fn id(&self) -> ScreenId {
        ScreenId::Positions
    }

    fn draw(&self, known: &ScreenContext<'_>, painter: &mut Painter<'_>, area: Rect) {
        let all = self.listed();
        let (list, card) = self.plan(known, all.len(), area);
        painter.render(ListPanel { theme: painter.theme, screen: self, known, all: &all }, list);
        if let Some(entry) = all.get(self.row(&all)).filter(|_| !card.is_empty()) {
            let age = self.age_of(*entry, known);
            let below =
                if known.watch_only { "y copies its id" } else { "Enter opens what can be done · y copies its id" };
            let widget = PositionCard::new(entry.view(), painter.theme).below(below).scrolled(&self.card_offset);
            let widget = match &age {
                Some(age) => widget.age(age),
                None => widget,
            };
            painter.render(widget, card);
        }
        if let Some(ask) = &self.ask {
            painter.render(ScreenDialogView::new(ask, painter.theme), area);
        }
    }

    fn open_hint(&self, known: &ScreenContext<'_>) -> Option<&'static str> {
        match (known.watch_only, self.every().next()) {
            (_, None) => known.may_read().then_some("read"),
            (true, Some(_)) => None,
            (false, Some(_)) => Some("act"),
        }
    }

    fn act(&mut self, action: Action, known: &ScreenContext<'_>, area: Rect) -> Option<Vec<ScreenRequest>> {
        let count = self.listed().len();
        let (list, card) = self.plan(known, count, area);
        if matches!(action, Action::HalfPageDown | Action::HalfPageUp) && self.zoomed {
            self.card_offset.scroll(action, usize::from(card.height.saturating_sub(2)));
            return Some(Vec::new());
        }
        let at = self.row(&self.listed());
        let page = usize::from(list.height.saturating_sub(2)).max(2);
        if let Some(to) = list::moved(action, at, count.saturating_sub(1), page) {
            self.choose(to);
            return Some(Vec::new());
        }
        match action {
            Action::Open => return Some(self.open(known)),
            Action::Follow => return Some(self.read_all(known)),
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
                let all = self.listed();
                let id = match all.get(at)? {
                    Entry::Liquidity(_, position) => position.id.to_string(),
                    Entry::Market(_, account) | Entry::Lent(_, account, _) => account.account.to_string(),
                    Entry::Shares(_, shares) => shares.vault.to_string(),
                };
                return Some(vec![ScreenRequest::Copy(id)]);
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
        let count = self.listed().len();
        let (list, _) = self.plan(known, count, area);
        if list.width < 4 || list.height < 3 {
            return Vec::new();
        }
        let (_, inside) = self.rows_area(known, list);
        let before = self.row(&self.listed());
        let first = list::first_shown(before, usize::from(inside.height));
        match list::row_at(at, inside, first, count) {
            // A second click on a row opens what can be done about it.
            Some(row) if row == before && self.chosen.is_some() => self.open(known),
            Some(row) => {
                self.choose(row);
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    fn wheel(&mut self, _at: Position, down: bool, _known: &ScreenContext<'_>, _area: Rect) {
        let all = self.listed();
        let (at, last) = (self.row(&all), all.len().saturating_sub(1));
        let to = if down { (at + 1).min(last) } else { at.saturating_sub(1) };
        self.choose(to);
    }

    fn shown(&mut self, known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        self.refresh(known)
    }

    fn tick(&mut self, known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        let (late, mut requests) = self.queue.overdue(known.machine_millis);
        self.give_up(&late, "no reply came in time");
        requests.extend(self.queue.start(ScreenId::Positions, known.machine_millis));
        if self.asked_at.is_some() && self.queue.is_idle() && self.is_outdated(known) {
            requests.extend(self.read_all(known));
        }
        requests
    }

    fn receive_reply(&mut self, count: u32, reply: CommandReply, known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        match reply {
            CommandReply::Began(call) => return self.queue.began(count, call),
            CommandReply::Reply(response) => {
                let Some(purpose) = self.queue.ended(count) else { return Vec::new() };
                let at = purpose.chain();
                let price = |token: &SafeText| Self::price(known, at, token);
                let chain = self.chains.get_mut(at);
                let next = chain.map(|chain| chain.receive(&purpose, &response, known.machine_millis, price));
                next.into_iter().flatten().for_each(|next| self.queue.ask(next));
                self.total = self.summed();
            }
            CommandReply::Found(_) => {}
        }
        self.queue.start(ScreenId::Positions, known.machine_millis)
    }
}
