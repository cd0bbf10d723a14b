//! The panels of the status page: chains, tokens, wallet, activity; pools are next door.

use ratatui::layout::Rect;

use super::header::quiet_for;
use super::pools;
use crate::base::text::{fit, width};
use crate::console::format::{
    self, age, amount, dollars, grouped, gwei, share, short_address, short_hash, sparkline, time_of_day,
};
use crate::console::pen::{Cell, Pen, Piece, line, pieces_width};
use crate::console::state::State;
use crate::console::state::layout::Panel;
use crate::console::state::model::{ActivityRow, BalanceRow, BlockRow, ChainPage, FeedPrice, Page, TokenRow, Trend};
use crate::console::state::rows::{self, Form, Row};
use crate::console::theme::Role;

/// Draws one panel in its place.
pub(super) fn draw(pen: &mut Pen<'_>, state: &State, panel: Panel, area: Rect) {
    let form = rows::form(state, panel, area);
    if form == Form::Line {
        match panel {
            Panel::Chain(chain) => chain_line(pen, state, chain, area),
            Panel::Pools => pen.row(area, &[(format!("pools {}", items(state, panel)), Role::TextDim)], &[]),
            Panel::Tokens | Panel::Wallet | Panel::Activity => {}
        }
        return;
    }
    let focused = state.focus == panel;
    let edge = if focused { Role::BorderFocus } else { Role::Border };
    let (mut title, mut right) = title(state, panel);
    // Colour alone would not tell which panel has the keys.
    if focused {
        title.insert(0, ("▸ ".to_owned(), Role::BorderFocus));
    }
    let visible = rows::visible(state, panel, area);
    let count = rows::count(state, panel);
    let offset = state.offset(panel).min(count.saturating_sub(visible));
    if form != Form::Flow && visible > 0 && count > visible {
        right = vec![(range(state, panel, offset, visible), Role::TextDim)];
    }
    match form {
        Form::Framed => pen.frame(area, &title, &right, edge),
        _ => pen.rule(line(area, 0), &title, &right, edge),
    }
    let inner = rows::inside(form, area);
    if form == Form::Flow {
        flow(pen, state.page(), panel, inner);
        return;
    }
    let fixed = rows::fixed_lines(panel, inner);
    match panel {
        Panel::Chain(chain) => chain_summary(pen, state, chain, Rect { height: fixed, ..inner }),
        Panel::Pools if fixed > 0 => pools::heading(pen, line(inner, 0)),
        _ => {}
    }
    let list = Rect { y: inner.y + fixed, height: inner.height.saturating_sub(fixed), ..inner };
    if count == 0 {
        pen.text(line(list, 0), list.x, empty_words(panel), Role::TextDim);
        return;
    }
    let entries = match panel {
        Panel::Chain(_) | Panel::Activity => Vec::new(),
        _ => rows::rows(state.page(), panel),
    };
    for (at, index) in (0..list.height).zip(offset..count) {
        draw_row(pen, state, panel, &entries, index, line(list, at));
    }
}

fn draw_row(pen: &mut Pen<'_>, state: &State, panel: Panel, entries: &[Row], index: usize, place: Rect) {
    let page = state.page();
    match panel {
        Panel::Chain(chain) => {
            if let Some(block) = page.chains.get(chain).and_then(|chain| chain.blocks.get(index)) {
                block_row(pen, block, place);
            }
        }
        Panel::Activity => {
            if let Some(row) = page.activity.get(index) {
                activity_row(pen, page, row, place);
            }
        }
        Panel::Tokens | Panel::Wallet | Panel::Pools => match entries.get(index) {
            Some(Row::Heading(chain)) => {
                pen.text(place, place.x, &chain_name(page, *chain), Role::Title);
            }
            Some(Row::Item(chain, item)) => {
                let Some(chain) = page.chains.get(*chain) else { return };
                match panel {
                    Panel::Tokens => {
                        chain.tokens.get(*item).into_iter().for_each(|row| token_row(pen, chain, row, place))
                    }
                    Panel::Wallet => chain.balances.get(*item).into_iter().for_each(|row| balance_row(pen, row, place)),
                    _ => chain.pools.get(*item).into_iter().for_each(|row| pools::row(pen, row, place)),
                }
            }
            None => {}
        },
    }
}

fn empty_words(panel: Panel) -> &'static str {
    match panel {
        Panel::Chain(_) => "no block yet",
        Panel::Tokens => "no token known",
        Panel::Wallet => "nothing held",
        Panel::Pools => "no pool known",
        Panel::Activity => "nothing has happened yet",
    }
}

/// Entries of a panel without its headings.
fn items(state: &State, panel: Panel) -> usize {
    rows::rows(state.page(), panel).iter().filter(|row| matches!(row, Row::Item(..))).count()
}

/// Which entries are in view, and of how many: headings are none.
fn range(state: &State, panel: Panel, offset: usize, visible: usize) -> String {
    let entries = rows::rows(state.page(), panel);
    let ordinal = |row: usize| match panel {
        Panel::Chain(_) | Panel::Activity => row.min(rows::count(state, panel)),
        _ => entries.iter().take(row).filter(|row| matches!(row, Row::Item(..))).count(),
    };
    format!("{}–{} of {}", ordinal(offset) + 1, ordinal(offset + visible), ordinal(usize::MAX))
}

fn title(state: &State, panel: Panel) -> (Vec<Piece>, Vec<Piece>) {
    let page = state.page();
    let words = |text: &str| (text.to_owned(), Role::Title);
    let dim = |text: String| (text, Role::TextDim);
    match panel {
        Panel::Chain(chain) => {
            let identity = page.network.as_ref().and_then(|network| network.chains.get(chain));
            let id = identity.map_or(String::new(), |identity| format!(" {}", identity.id));
            let interval = identity.and_then(|identity| identity.interval_millis);
            let every = interval.map(|millis| dim(format!("a block every {} s", seconds(millis))));
            (vec![words(&chain_name(page, chain)), dim(id)], every.into_iter().collect())
        }
        Panel::Tokens => (vec![words("Tokens"), dim(" by their feeds".to_owned())], Vec::new()),
        Panel::Wallet => {
            let address = page.network.as_ref().map(|network| short_address(network.wallet)).unwrap_or_default();
            let (worth, unpriced) = page.worth();
            // What has no price is not nothing.
            let least = if unpriced { "≥ " } else { "" };
            let worth = worth.map_or("no price".to_owned(), |worth| format!("{least}{}", dollars(worth)));
            (vec![words("Wallet"), dim(format!(" {address}"))], vec![(worth, Role::TextStrong)])
        }
        Panel::Pools => (vec![words("Pools"), dim(format!(" {}", items(state, panel)))], Vec::new()),
        Panel::Activity => (vec![words("Activity")], vec![dim("newest first".to_owned())]),
    }
}

fn seconds(millis: u64) -> String {
    let (whole, tenth) = (millis / 1000, millis % 1000 / 100);
    if tenth == 0 { whole.to_string() } else { format!("{whole}.{tenth}") }
}

fn chain_name(page: &Page, chain: usize) -> String {
    let identity = page.network.as_ref().and_then(|network| network.chains.get(chain));
    identity.map_or(String::new(), |identity| identity.name.to_string())
}

/// How long ago the newest block was, or when, where nothing may move. A view that stands still says when.
fn when(state: &State, chain: usize, block: &BlockRow) -> Piece {
    if !state.motion || state.frozen.is_some() {
        return (format!("at {}", time_of_day(block.timestamp)), Role::TextDim);
    }
    if let Some(quiet) = quiet_for(state, chain) {
        return (format!("no block for {}", age(quiet)), Role::StateCare);
    }
    match (state.now_millis / 1000).saturating_sub(block.timestamp) {
        0 => ("just now".to_owned(), Role::TextDim),
        seconds => (format!("{} ago", age(seconds)), Role::TextDim),
    }
}

fn gas_bars(chain: &ChainPage, columns: usize) -> String {
    sparkline(chain.blocks.iter().rev().map(|block| block.gas_used), columns)
}

fn chain_line(pen: &mut Pen<'_>, state: &State, chain: usize, place: Rect) {
    let page = state.page();
    let Some(known) = page.chains.get(chain) else { return };
    let longest = (0..page.chains.len()).map(|chain| width(&chain_name(page, chain))).max().unwrap_or(0);
    let name = chain_name(page, chain);
    let padding = " ".repeat(longest.saturating_sub(width(&name)));
    let mut pieces = vec![(format!(" {name}{padding} "), Role::Title)];
    if let Some(fault) = &known.fault {
        pieces.push((format!("▲ {fault}"), Role::StateBad));
        pen.pieces(place, &pieces);
        return;
    }
    let Some(block) = known.blocks.front() else {
        pieces.push(("no block yet".to_owned(), Role::TextDim));
        pen.pieces(place, &pieces);
        return;
    };
    let when = when(state, chain, block);
    pieces.push((format!("#{}  ", grouped(&block.number.to_string())), Role::TextStrong));
    pieces.push((format!("{:<9}", when.0), when.1));
    let facts = format!(
        "  {:>3} tx   gas {:>4}   {:>10}  ",
        block.transactions,
        share(block.gas_used, block.gas_limit),
        gwei(block.base_fee_wei)
    );
    pieces.push((facts, Role::Text));
    let room = usize::from(place.width).saturating_sub(pieces_width(&pieces) + 1);
    pieces.push((gas_bars(known, room.min(40)), Role::Chart));
    pen.pieces(place, &pieces);
}

fn chain_summary(pen: &mut Pen<'_>, state: &State, chain: usize, area: Rect) {
    let Some(known) = state.page().chains.get(chain) else { return };
    if let Some(fault) = &known.fault {
        pen.pieces(line(area, 0), &[(format!("▲ {fault}"), Role::StateBad)]);
    } else if let Some(block) = known.blocks.front() {
        let number = (format!("#{}  ", grouped(&block.number.to_string())), Role::TextStrong);
        let fee = vec![("base fee ".to_owned(), Role::TextDim), (gwei(block.base_fee_wei), Role::Text)];
        pen.row(line(area, 0), &[number, when(state, chain, block)], &fee);
    }
    let Some(block) = known.blocks.front() else { return };
    let used = vec![("gas used ".to_owned(), Role::TextDim), (share(block.gas_used, block.gas_limit), Role::Text)];
    let room = usize::from(area.width).saturating_sub(pieces_width(&used) + 1);
    pen.row(line(area, 1), &[(gas_bars(known, room), Role::Chart)], &used);
}

fn block_row(pen: &mut Pen<'_>, block: &BlockRow, place: Rect) {
    let cells = [
        Cell::left(format!("#{}", grouped(&block.number.to_string())), Role::Text, 8),
        Cell::left(time_of_day(block.timestamp), Role::TextDim, 8),
        Cell::right(format!("{} tx", block.transactions), Role::Text, 5),
        Cell::right(share(block.gas_used, block.gas_limit), Role::Text, 4),
        Cell::right(gwei(block.base_fee_wei), Role::TextDim, place.width.saturating_sub(29).min(12)),
    ];
    pen.cells(place, &cells);
}

/// A price with what the last block did to it. An arrow says what the colour says.
fn price(token: &TokenRow, trend: Trend) -> (Piece, Piece) {
    match &token.price {
        FeedPrice::Live(price) => {
            let (arrow, role) = match trend {
                Trend::Up => ("▲", Role::PriceUp),
                Trend::Down => ("▼", Role::PriceDown),
                Trend::Flat => (" ", Role::Text),
            };
            ((format::price(*price), role), (arrow.to_owned(), role))
        }
        FeedPrice::None(why) => (("no price".to_owned(), Role::StateCare), (why.to_string(), Role::TextDim)),
    }
}

fn token_row(pen: &mut Pen<'_>, chain: &ChainPage, token: &TokenRow, place: Rect) {
    let trend = chain.trends.get(&token.address).copied().unwrap_or_default();
    let ((price, price_role), (mark, mark_role)) = price(token, trend);
    let mark_width = u16::try_from(width(&mark)).unwrap_or(u16::MAX);
    let live = matches!(token.price, FeedPrice::Live(_));
    let mut cells = vec![
        Cell::left(token.symbol.as_str(), Role::Text, 10),
        Cell::right(price, price_role, 12),
        Cell::left(mark, mark_role, mark_width),
    ];
    let bars = place.width.saturating_sub(27);
    if let (true, Some(history)) = (live && bars > 0, chain.history.get(&token.address)) {
        cells.push(Cell::left(sparkline(history.iter().copied(), usize::from(bars)), Role::Chart, bars));
    }
    pen.cells(place, &cells);
}

fn balance_row(pen: &mut Pen<'_>, row: &BalanceRow, place: Rect) {
    let value = match row.value {
        Some(value) => (dollars(value), Role::Text),
        None => ("no price".to_owned(), Role::TextDim),
    };
    let shown = place.width.saturating_sub(24).clamp(8, 24);
    let cells = [
        Cell::left(row.symbol.as_str(), Role::Text, 10),
        Cell::right(amount(row.amount, 6), Role::TextStrong, shown),
        Cell::right(value.0, value.1, 12),
    ];
    pen.cells(place, &cells);
}

fn activity_row(pen: &mut Pen<'_>, page: &Page, row: &ActivityRow, place: Rect) {
    let roomy = place.width >= 60;
    let name = chain_name(page, row.chain);
    let (mark, role) = if row.failed { ("✕", Role::StateBad) } else { ("✓", Role::StateGood) };
    let columns = if roomy { 9 } else { 5 };
    let mut left = vec![
        (format!("{} ", time_of_day(row.at)), Role::TextDim),
        (format!("{:columns$} ", fit(&name, columns)), Role::TextDim),
        (format!("{mark} "), role),
    ];
    if row.failed {
        left.push((format!("{} reverted: {}", row.kind.word(), row.text), Role::StateBad));
    } else {
        if roomy {
            left.push((format!("{:<8} ", row.kind.word()), Role::TextDim));
        }
        left.push((row.text.to_string(), Role::Text));
    }
    // In every row or in none: a hash where there happens to be room for it makes no column.
    let hash = if place.width >= 90 { vec![(short_hash(row.transaction), Role::TextDim)] } else { Vec::new() };
    pen.row(place, &left, &hash);
}

/// Tokens or holdings one after another, as many as fit; what does not fit is counted.
fn flow(pen: &mut Pen<'_>, page: &Page, panel: Panel, area: Rect) {
    let entries = match panel {
        Panel::Tokens => token_entries(page),
        _ => balance_entries(page),
    };
    if entries.is_empty() {
        pen.text(line(area, 0), area.x, empty_words(panel), Role::TextDim);
        return;
    }
    let total = entries.len();
    let columns = if area.width >= 72 { area.width / 24 } else { area.width / 18 }.max(1);
    let each = area.width / columns;
    let room = usize::from(columns) * usize::from(area.height);
    let shown = if total > room { room.saturating_sub(1) } else { total };
    let places = (0..area.height).flat_map(|row| (0..columns).map(move |column| (row, column)));
    let mut places = places.map(|(row, column)| Rect {
        x: area.x + column * each,
        y: area.y + row,
        width: each.saturating_sub(1),
        height: 1,
    });
    for (entry, place) in entries.iter().take(shown).zip(places.by_ref()) {
        let place = Rect { x: place.x + 1, width: place.width.saturating_sub(1), ..place };
        pen.pieces(place, entry);
    }
    if let (true, Some(place)) = (shown < total, places.next()) {
        pen.text(place, place.x + 1, &format!("+ {} more", total - shown), Role::TextDim);
    }
}

/// Each symbol once: the first chain that has it speaks for it.
fn token_entries(page: &Page) -> Vec<Vec<Piece>> {
    let mut seen = std::collections::BTreeSet::new();
    let mut entries = Vec::new();
    for chain in &page.chains {
        for token in &chain.tokens {
            if seen.insert(token.symbol.as_str()) {
                let trend = chain.trends.get(&token.address).copied().unwrap_or_default();
                let ((text, role), (mark, mark_role)) = price(token, trend);
                entries.push(vec![
                    (format!("{} ", token.symbol), Role::Text),
                    (text, role),
                    (format!(" {mark}"), mark_role),
                ]);
            }
        }
    }
    entries
}

fn balance_entries(page: &Page) -> Vec<Vec<Piece>> {
    let several = page.chains.len() > 1;
    let mut entries = Vec::new();
    for (at, chain) in page.chains.iter().enumerate() {
        for row in chain.balances.iter().filter(|row| !row.amount.raw().is_zero()) {
            let place = if several { format!(" {}", chain_name(page, at)) } else { String::new() };
            entries.push(vec![
                (format!("{} ", row.symbol), Role::Text),
                (amount(row.amount, 4), Role::TextStrong),
                (place, Role::TextDim),
            ]);
        }
    }
    entries
}
