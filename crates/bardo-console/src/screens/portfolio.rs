//! Screen 4: holdings by chain, allowances with their revocation, equity over time with marked trades, and spending.
//! Enter shows profit and loss instead.

mod results;
mod spent;

use ratatui::buffer::Buffer;
use ratatui::layout::{Alignment, Position, Rect};
use ratatui::widgets::Widget;
use serde_json::json;

use results::{ResultGrouping, ResultsView};
use spent::spent_rows;

use super::filter::Filter;
use super::screen_dialog::{DialogOption, ScreenDialog, ScreenDialogView, column};
use super::{ScreenContext, ScreenId, ScreenRequest, ScreenView, call, list};
use crate::format::{amount, dollars, fee, grouped, short_address, whole_percents};
use crate::keymap::Action;
use crate::painter::{Painter, StyledText, line, styled_width};
use crate::state::trades;
use crate::theme::{Role, Theme};
use crate::widgets::Moment;
use crate::widgets::chart::{LineChart, TimeRange};
use crate::widgets::figure::left;
use crate::widgets::paint::{Row, cut, rows, wrapped};
use bardo_base::fabric::{LiquidationMove, health_factor};
use bardo_base::text::{SafeText, width};
use bardo_base::units::{TokenAmount, Usd};
use bardo_session::handle::{AllowanceState, AllowancesState, SessionSnapshot, SilentToken, WatchedHoldings};
use bardo_session::market::{LendingRow, LendingState, PositionRow};

/// Height of the spending panel if only gas costs fit, in lines with the frame.
const LEAST_SPENT: u16 = 4;
/// Width from which holdings and curve stand side by side, in columns.
const SIDE_BY_SIDE: u16 = 100;

/// Panels of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum PortfolioPanel {
    #[default]
    Holdings,
    Allowances,
    Curve,
    Spending,
}

impl PortfolioPanel {
    /// Next or previous panel, with wraparound.
    const fn step(self, next: bool) -> Self {
        match (self, next) {
            (Self::Holdings, true) | (Self::Curve, false) => Self::Allowances,
            (Self::Allowances, true) | (Self::Spending, false) => Self::Curve,
            (Self::Curve, true) | (Self::Holdings, false) => Self::Spending,
            (Self::Spending, true) | (Self::Allowances, false) => Self::Holdings,
        }
    }
}

/// State of screen 4.
#[derive(Debug, Default)]
pub struct Portfolio {
    focus: PortfolioPanel,
    offset: usize,
    /// First spending row in view, while its panel has the focus.
    spent_offset: usize,
    selected: usize,
    range: TimeRange,
    zoomed: bool,
    filter: Filter,
    ask: Option<ScreenDialog>,
    sent: u32,
    /// Grouping and first row of profit and loss, while it is shown.
    results: Option<(ResultGrouping, usize)>,
}

/// Areas of the panels.
struct Plan {
    holdings: Rect,
    allowances: Rect,
    curve: Rect,
    gas: Rect,
    /// Spending rows, wrapped to the panel's width.
    spent: Vec<Row>,
}

/// Height of a panel with this many rows, with the frame.
fn framed_lines(rows: usize) -> u16 {
    u16::try_from(rows).unwrap_or(u16::MAX).max(1).saturating_add(2)
}

fn moment(known: &ScreenContext<'_>) -> Moment {
    Moment { millis: known.now_millis, motion: known.motion }
}

impl Portfolio {
    fn plan(&self, known: &ScreenContext<'_>, area: Rect) -> Plan {
        let none = Rect { width: 0, height: 0, ..area };
        let mut plan = Plan { holdings: none, allowances: none, curve: none, gas: none, spent: Vec::new() };
        if self.zoomed {
            match self.focus {
                PortfolioPanel::Holdings => plan.holdings = area,
                PortfolioPanel::Allowances => plan.allowances = area,
                PortfolioPanel::Curve => {
                    plan.spent = wrapped(spent_rows(known), area.width.saturating_sub(4).into());
                    let most = area.height.saturating_sub(LEAST_SPENT).max(area.height / 2);
                    let spent = framed_lines(plan.spent.len()).min(most);
                    (plan.curve, plan.gas) = list::stacked(area, (area.height + 1).saturating_sub(spent));
                }
                PortfolioPanel::Spending => {
                    plan.spent = wrapped(spent_rows(known), area.width.saturating_sub(4).into());
                    plan.gas = area;
                }
            }
            return plan;
        }
        if area.width >= SIDE_BY_SIDE {
            let (one, two) = list::beside(area, area.width * 9 / 20);
            (plan.holdings, plan.allowances) = list::stacked(one, area.height * 3 / 5);
            plan.spent = wrapped(spent_rows(known), two.width.saturating_sub(4).into());
            let spent = framed_lines(plan.spent.len()).min(area.height / 2);
            (plan.curve, plan.gas) = list::stacked(two, (area.height + 1).saturating_sub(spent));
            return plan;
        }
        // The allowance panel leaves spare lines to the holdings.
        let silent = known.snapshot.is_some_and(|snapshot| !snapshot.allowances.silent.is_empty());
        let most = area.height / 4;
        let taken = framed_lines(self.allowances(known).len() + usize::from(silent)).min(most);
        let upper = (area.height * 2 / 5).max(3).saturating_add(most - taken);
        let upper = framed_lines(self.rows_of(known)).max(area.height * 2 / 5).min(upper).min(area.height);
        let rest;
        (plan.holdings, rest) = list::stacked(area, upper);
        (plan.allowances, plan.curve) = list::stacked(rest, taken);
        // The spending panel gets its lines only if the curve keeps as many. Rows without room are counted, and are on
        // screen 1.
        if plan.curve.height > 2 * LEAST_SPENT {
            plan.spent = wrapped(spent_rows(known), area.width.saturating_sub(4).into());
            let spent = framed_lines(plan.spent.len()).min(plan.curve.height / 2).max(LEAST_SPENT);
            (plan.curve, plan.gas) = list::stacked(plan.curve, plan.curve.height + 1 - spent);
        }
        plan
    }

    fn allowance<'k>(&self, known: &ScreenContext<'k>) -> Option<&'k AllowanceState> {
        let all = self.allowances(known);
        all.get(self.selected.min(all.len().saturating_sub(1))).copied()
    }

    /// Allowances that match the filter.
    fn allowances<'k>(&self, known: &ScreenContext<'k>) -> Vec<&'k AllowanceState> {
        let all = known.snapshot.map(|snapshot| snapshot.allowances.rows.as_slice()).unwrap_or_default();
        let fits = |one: &&AllowanceState| {
            let who = one.label.as_ref().map_or("", SafeText::as_str);
            self.filter.lets(&format!("{} {} {who} {}", one.symbol, one.chain, one.spender))
        };
        all.iter().filter(fits).collect()
    }

    /// Holdings that match the filter, below the heading of their chain.
    fn holdings<'k>(&self, snapshot: &'k SessionSnapshot) -> Vec<HoldingRow<'k>> {
        let mut chain = String::new();
        let mut kept: Vec<HoldingRow<'k>> = Vec::new();
        for row in holding_rows(snapshot) {
            match &row {
                HoldingRow::Chain(name, ..) => {
                    chain = name.to_string();
                    // A chain without matching tokens has no heading.
                    kept.pop_if(|last| self.filter.stands() && last.is_heading());
                }
                HoldingRow::Watched(watched) => {
                    chain = format!("watch-only {} {} {}", watched.name, watched.address, watched.holdings.chain);
                    kept.pop_if(|last| self.filter.stands() && last.is_heading());
                }
                HoldingRow::Token(symbol, ..) | HoldingRow::WatchedToken(symbol, ..)
                    if !self.filter.lets(&format!("{chain} {symbol}")) =>
                {
                    continue;
                }
                HoldingRow::Position(position)
                    if !self.filter.lets(&format!("{chain} {} {}", position.name, position.pair)) =>
                {
                    continue;
                }
                HoldingRow::Supply(lent) | HoldingRow::Debt(lent)
                    if !self.filter.lets(&format!("{chain} {} lending", lent.symbol)) =>
                {
                    continue;
                }
                HoldingRow::Security(_) | HoldingRow::Liquidation(_)
                    if !self.filter.lets(&format!("{chain} lending")) =>
                {
                    continue;
                }
                HoldingRow::Token(..)
                | HoldingRow::Position(_)
                | HoldingRow::Supply(_)
                | HoldingRow::Debt(_)
                | HoldingRow::Security(_)
                | HoldingRow::Liquidation(_)
                | HoldingRow::WatchedToken(..) => {}
            }
            kept.push(row);
        }
        kept.pop_if(|last| self.filter.stands() && last.is_heading());
        kept
    }

    fn ask_to_revoke(&mut self, known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        let Some(allowance) = self.allowance(known) else { return vec![notice("no allowance is selected")] };
        if known.watch_only {
            return vec![notice("this console is read-only: it cannot change anything")];
        }
        let who = allowance.label.as_ref().map_or_else(|| allowance.spender.to_string(), ToString::to_string);
        let facts = vec![
            Row::new(
                match allowance.unlimited {
                    true => format!("{who} may take any amount of {}", allowance.symbol),
                    false => format!("{who} may take {} {}", scope(allowance), allowance.symbol),
                },
                Role::Dialog,
            ),
            Row::new("token    ", Role::TextDim).then(allowance.token.to_string(), Role::Dialog),
            Row::new("spender  ", Role::TextDim).then(allowance.spender.to_string(), Role::Dialog),
            Row::new("on ", Role::TextDim)
                .then(format!("{}; costs gas, moves no tokens", allowance.chain), Role::Dialog),
        ];
        let params = json!({
            "token": allowance.token.to_string(),
            "chain": allowance.chain_id.to_string(),
            "spender": allowance.spender.to_string(),
        });
        self.sent = self.sent.wrapping_add(1);
        let then = vec![
            call(ScreenId::Portfolio, self.sent, "token_revoke", params),
            notice("revocation requested; its card is on Live"),
        ];
        let way = DialogOption { letter: 'r', words: "revoke it".to_owned(), then };
        self.ask = Some(ScreenDialog::new("Revoke this allowance?", facts, vec![way]).opened(known.machine_millis));
        Vec::new()
    }

    /// Draws the spending rows. With the focus they scroll; without it, those that do not fit are counted.
    fn draw_spending(&self, painter: &mut Painter<'_>, plan: &Plan) {
        let focused = self.focus == PortfolioPanel::Spending;
        let visible = usize::from(plan.gas.height.saturating_sub(2));
        let offset = self.spent_offset.min(plan.spent.len().saturating_sub(visible));
        let range = if focused { range_words(offset, visible, plan.spent.len()) } else { Vec::new() };
        let inner = list::framed(painter, plan.gas, focused, "Gas and limits", &range);
        let shown = plan.spent.get(offset..).filter(|_| focused).unwrap_or(&plan.spent);
        let fitting = if focused { shown.get(..visible).unwrap_or(shown) } else { shown };
        rows(painter, inner, fitting);
    }

    fn rows_of(&self, known: &ScreenContext<'_>) -> usize {
        known.snapshot.map_or(0, |snapshot| self.holdings(snapshot).len())
    }
}

fn notice(words: &str) -> ScreenRequest {
    ScreenRequest::Notice(SafeText::clean(words, 200))
}

/// Note on an exact Permit2 allowance: it outlives an order that ends without a fill.
fn for_orders(allowance: &AllowanceState) -> StyledText {
    match allowance.promised {
        Some(promised) if promised.is_zero() => ("  not needed by any order".to_owned(), Role::StateCare),
        Some(_) => ("  for signed orders".to_owned(), Role::TextDim),
        None => (String::new(), Role::TextDim),
    }
}

/// Amount that may be spent, as text.
fn scope(allowance: &AllowanceState) -> String {
    if allowance.unlimited {
        return "any amount".to_owned();
    }
    allowance.amount.map_or_else(|| format!("{} units", grouped(&allowance.raw.to_string())), |value| amount(value, 6))
}

/// Number of allowances that fit the framed `area`.
fn allowance_rows(known: &ScreenContext<'_>, area: Rect) -> usize {
    let silent = known.snapshot.is_some_and(|snapshot| !snapshot.allowances.silent.is_empty());
    usize::from(area.height.saturating_sub(2)).saturating_sub(usize::from(silent))
}

/// Lists the tokens whose allowances could not be read in the last row. Returns the rest of the area.
fn draw_silent(painter: &mut Painter<'_>, area: Rect, silent: &[SilentToken]) -> Rect {
    let Some(last) = area.height.checked_sub(1).filter(|_| !silent.is_empty()) else { return area };
    let names: Vec<String> = silent.iter().map(|token| format!("{} on {}", token.symbol, token.chain)).collect();
    let words = format!("? Unknown     {}", names.join(", "));
    painter.row(line(area, last), &cut(&[(words, Role::StateCare)], area.width.into()), &[]);
    Rect { height: last, ..area }
}

/// Row of the holdings.
enum HoldingRow<'s> {
    Chain(&'s SafeText, u64, Option<Usd>),
    Token(&'s SafeText, TokenAmount, Option<Usd>),
    Position(&'s PositionRow),
    /// Supply in the lending market.
    Supply(&'s LendingRow),
    /// Debt in the lending market, which is subtracted.
    Debt(&'s LendingRow),
    /// Lending market with the security of its debts, above its supplies and debts; also that it could not be read.
    Security(&'s LendingState),
    /// Nearest change of a price that liquidates its debts.
    Liquidation(&'s LiquidationMove),
    /// Watch-only account on a chain: its holdings follow, and count in no total.
    Watched(&'s WatchedHoldings),
    WatchedToken(&'s SafeText, TokenAmount, Option<Usd>),
}

impl HoldingRow<'_> {
    fn is_heading(&self) -> bool {
        match self {
            Self::Chain(..) | Self::Watched(_) => true,
            Self::Token(..)
            | Self::Position(_)
            | Self::Supply(_)
            | Self::Debt(_)
            | Self::Security(_)
            | Self::Liquidation(_)
            | Self::WatchedToken(..) => false,
        }
    }
}

fn holding_rows(snapshot: &SessionSnapshot) -> Vec<HoldingRow<'_>> {
    let mut all = Vec::new();
    for chain in &snapshot.holdings {
        all.push(HoldingRow::Chain(&chain.chain, chain.block, chain.net()));
        all.extend(chain.rows.iter().map(|row| HoldingRow::Token(&row.symbol, row.amount, row.value)));
        all.extend(chain.positions.iter().map(HoldingRow::Position));
        if let Some(lending) = &chain.lending {
            let rows = || lending.rows.iter();
            all.push(HoldingRow::Security(lending));
            let nearest = lending.moves.first().filter(|_| lending.health.is_some_and(|health| health >= 100));
            all.extend(nearest.map(HoldingRow::Liquidation));
            all.extend(rows().filter(|row| !row.supplied.raw().is_zero()).map(HoldingRow::Supply));
            all.extend(rows().filter(|row| !row.owed.raw().is_zero()).map(HoldingRow::Debt));
        }
    }
    for watched in &snapshot.watched {
        all.push(HoldingRow::Watched(watched));
        let rows = watched.holdings.rows.iter();
        all.extend(rows.map(|row| HoldingRow::WatchedToken(&row.symbol, row.amount, row.value)));
    }
    all
}

/// Value of a row, or that it has no price.
fn worth_of(value: Option<Usd>) -> (String, Role) {
    value.map_or_else(|| ("no price".to_owned(), Role::StateCare), |value| (dollars(value), Role::Text))
}

/// Value of a debt with its minus sign, or that it has no price.
fn owed_of(value: Option<Usd>) -> (String, Role) {
    match value {
        Some(value) => (format!("−{}", dollars(value)), Role::StateCare),
        None => worth_of(None),
    }
}

/// Name of a lending market, with the health factor of the debts there.
fn security(lending: &LendingState) -> Vec<StyledText> {
    let name = ("Aave".to_owned(), Role::TextStrong);
    let (words, role) = match lending.health {
        _ if lending.unread => ("  ? could not be read".to_owned(), Role::StateCare),
        Some(health) if health < 100 => {
            (format!("  ✕ health {}, can be liquidated", health_factor(Some(health))), Role::StateBad)
        }
        Some(health) => (format!("  health {}", health_factor(Some(health))), Role::Text),
        None if lending.owes() => ("  ? health unknown".to_owned(), Role::StateCare),
        None => ("  supplied, no debt".to_owned(), Role::TextDim),
    };
    vec![name, (words, role)]
}

/// Share of each row in the total, as whole percents; empty for chain headings.
fn shares(held: &[HoldingRow<'_>], whole: Option<Usd>) -> Vec<String> {
    use bardo_base::units::Rounding::Down;
    let scaled = |value: Option<Usd>| value?.scaled(4, Down);
    let worths = held.iter().map(|row| match row {
        HoldingRow::Token(.., value) => scaled(*value),
        HoldingRow::Position(position) => scaled(position.value),
        HoldingRow::Supply(lent) => scaled(lent.supplied_value),
        HoldingRow::Debt(_) | HoldingRow::Security(_) | HoldingRow::Liquidation(_) => None,
        HoldingRow::Chain(..) | HoldingRow::Watched(_) | HoldingRow::WatchedToken(..) => None,
    });
    let percents = whole_percents(&worths.collect::<Vec<_>>(), scaled(whole).unwrap_or(0));
    percents.into_iter().map(|percent| percent.map(|percent| format!("{percent} %")).unwrap_or_default()).collect()
}

/// Label such as `3–12 of 40` for the rows in view; empty if all of them are.
fn range_words(offset: usize, visible: usize, count: usize) -> Vec<StyledText> {
    if count <= visible || visible == 0 {
        return Vec::new();
    }
    vec![(format!("{}–{} of {count}", offset + 1, (offset + visible).min(count)), Role::TextDim)]
}

/// Panel of the equity chart.
struct CurvePanel<'a> {
    theme: &'a Theme,
    screen: &'a Portfolio,
    known: &'a ScreenContext<'a>,
}

impl Widget for CurvePanel<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, screen, known } = self;
        let painter = &mut Painter { buffer, theme };
        if area.height < 2 || area.width < 4 {
            return;
        }
        let model = super::live::equity_model(known, screen.range);
        let title = if area.width >= 60 {
            format!("Equity {}  [ ] range  Enter profit and loss", screen.range.describe())
        } else {
            format!("Equity {}  Enter P&L", screen.range.describe())
        };
        let newest = model.newest(moment(known));
        let inner = list::framed(painter, area, screen.focus == PortfolioPanel::Curve, &title, &newest);
        painter.render(LineChart::new(&model, painter.theme, moment(known)), inner);
    }
}

/// Panel of the allowances.
struct AllowancesPanel<'a> {
    theme: &'a Theme,
    screen: &'a Portfolio,
    known: &'a ScreenContext<'a>,
}

impl Widget for AllowancesPanel<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, screen, known } = self;
        let painter = &mut Painter { buffer, theme };
        let focused = screen.focus == PortfolioPanel::Allowances;
        let none = AllowancesState::default();
        let AllowancesState { rows: every, silent } = known.snapshot.map_or(&none, |snapshot| &snapshot.allowances);
        let all = screen.allowances(known);
        let visible = allowance_rows(known, area);
        let selected = screen.selected.min(all.len().saturating_sub(1));
        let offset = list::first_shown(selected, visible);
        let count = range_words(offset, visible, all.len());
        let keys = if known.watch_only || known.replayed() { "" } else { "x revokes" };
        let right = if count.is_empty() { vec![(keys.to_owned(), Role::TextDim)] } else { count };
        let of = if all.len() < every.len() { format!(" of {}", every.len()) } else { String::new() };
        let inner = list::framed(painter, area, focused, &format!("Allowances {}{of}", all.len()), &right);
        let inner = draw_silent(painter, inner, silent);
        if all.is_empty() {
            let words = match known.snapshot {
                Some(_) if !every.is_empty() => "No allowance matches the filter.",
                Some(_) if silent.is_empty() => "No allowances.",
                Some(_) => "The other tokens have no allowances.",
                None if known.replayed() => "Not in this recording.",
                None => "Not known yet.",
            };
            rows(painter, inner, &wrapped(vec![Row::new(words, Role::TextDim)], inner.width.into()));
            return;
        }
        for (at, (index, allowance)) in (0..inner.height).zip(all.iter().enumerate().skip(offset)) {
            let here = focused && index == selected;
            let over = allowance.expires_at.is_some_and(|ends| ends <= known.now_millis / 1000);
            let idle = allowance.promised.is_some_and(|promised| promised.is_zero());
            let (mark, word, role) = match (over, allowance.unlimited, idle) {
                (true, ..) => ("○", "Expired", Role::TextDim),
                (_, true, _) => ("!", "UNLIMITED", Role::StateCare),
                (.., true) => ("!", "Unneeded", Role::StateCare),
                (.., false) => ("✓", "Approved", Role::StateGood),
            };
            let named = || known.snapshot.and_then(|snapshot| snapshot.name_of(allowance.spender));
            let who = allowance.label.as_ref().or_else(named);
            let (whole, short) = (allowance.spender.to_string(), short_address(allowance.spender));
            let words = |who: &str| format!("{} {} → {who}", scope(allowance), allowance.symbol);
            let way = if allowance.through_permit2 { " in Permit2" } else { "" };
            let until = allowance.expires_at.map_or(String::new(), |ends| format!("  {}", left(ends, moment(known))));
            let mut pieces = vec![
                (if here { "▸ " } else { "  " }.to_owned(), Role::BorderFocus),
                (format!("{mark} {} ", column(word, 9)), role),
                (
                    words(who.map_or(short.as_str(), |name| name.as_str())),
                    if here { Role::Selection } else { Role::Text },
                ),
                (format!("{way}{until}"), Role::TextDim),
            ];
            let right: Vec<StyledText> = vec![(allowance.chain.to_string(), Role::TextDim)];
            let room = usize::from(inner.width).saturating_sub(allowance.chain.width() + 1);
            // The first word says the same, so that a note without room is left out whole.
            let note = for_orders(allowance);
            if styled_width(&pieces) + width(&note.0) <= room {
                pieces.push(note);
            }
            // The address beside the name, and whole, where nothing else loses its place to it.
            let longer = match who {
                Some(name) => [format!("{name} {whole}"), format!("{name} {short}")],
                None => [whole, short],
            };
            let others = pieces.get(2).map_or(0, |(drawn, _)| styled_width(&pieces).saturating_sub(width(drawn)));
            let longest = longer.iter().map(|who| words(who)).find(|longer| others + width(longer) <= room);
            if let (Some(longest), Some((drawn, _))) = (longest, pieces.get_mut(2)) {
                *drawn = longest;
            }
            painter.row(line(inner, at), &cut(&pieces, room), &right);
        }
    }
}

/// Panel of the confirmed holdings.
struct HoldingsPanel<'a> {
    theme: &'a Theme,
    screen: &'a Portfolio,
    known: &'a ScreenContext<'a>,
}

impl Widget for HoldingsPanel<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, screen, known } = self;
        let painter = &mut Painter { buffer, theme };
        let focused = screen.focus == PortfolioPanel::Holdings;
        let Some(snapshot) = known.snapshot else {
            let inner = list::framed(painter, area, focused, "Holding", &[]);
            let words = if known.replayed() { "Not in this recording." } else { "Not known yet." };
            rows(painter, inner, &wrapped(vec![Row::new(words, Role::TextDim)], inner.width.into()));
            return;
        };
        // Holdings without a price are not counted, so the total is a lower bound.
        let least = if snapshot.all_priced { "" } else { "≥ " };
        let total = snapshot.equity.map_or("no price".to_owned(), |total| format!("{least}{}", dollars(total)));
        let mut right = screen.filter.label();
        right.extend([("  ".to_owned(), Role::TextDim), (total, Role::TextStrong)]);
        let all = screen.holdings(snapshot);
        let visible = usize::from(area.height.saturating_sub(2));
        let offset = screen.offset.min(all.len().saturating_sub(visible));
        // The lower edge is the next panel's upper one, so the title shows the range of rows.
        let shown = range_words(offset, visible, all.len());
        let title = shown.first().map_or("Holding, confirmed".to_owned(), |(words, _)| format!("Holding {words}"));
        let inner = list::framed(painter, area, focused, &title, &right);
        let parts = shares(&all, snapshot.equity);
        let mut tokens = Vec::new();
        for (at, (row, part)) in (0..inner.height).zip(all.iter().zip(parts).skip(offset)) {
            let place = line(inner, at);
            match row {
                HoldingRow::Chain(name, block, total) => {
                    let left = [
                        (name.to_string(), Role::Title),
                        (format!("  #{}", grouped(&block.to_string())), Role::TextDim),
                    ];
                    let right = [(total.map_or(String::new(), dollars), Role::TextDim)];
                    painter.row(place, &cut(&left, usize::from(inner.width)), &right);
                }
                HoldingRow::Watched(watched) => {
                    let left = [
                        (format!("watch-only “{}”", watched.name), Role::Title),
                        (format!("  {}  {}", watched.holdings.chain, watched.address), Role::TextDim),
                    ];
                    painter.row(place, &cut(&left, usize::from(inner.width)), &[]);
                }
                HoldingRow::Position(position) => {
                    let pair = match position.fee_pips {
                        0 => position.pair.to_string(),
                        pips => format!("{} {}", position.pair, fee(pips)),
                    };
                    let cells = vec![
                        (position.name.to_string(), Role::Text),
                        (pair, Role::TextStrong),
                        worth_of(position.value),
                        (part, Role::TextDim),
                    ];
                    tokens.push((at, cells));
                }
                HoldingRow::Supply(lent) => {
                    let cells = vec![
                        (lent.symbol.to_string(), Role::Text),
                        (amount(lent.supplied, 6), Role::TextStrong),
                        worth_of(lent.supplied_value),
                        (part, Role::TextDim),
                    ];
                    tokens.push((at, cells));
                }
                HoldingRow::Debt(lent) => {
                    let cells = vec![
                        (lent.symbol.to_string(), Role::Text),
                        (format!("owed {}", amount(lent.owed, 6)), Role::TextStrong),
                        owed_of(lent.owed_value),
                        (String::new(), Role::TextDim),
                    ];
                    tokens.push((at, cells));
                }
                HoldingRow::Security(lending) => {
                    painter.row(place, &cut(&security(lending), usize::from(inner.width)), &[]);
                }
                HoldingRow::Liquidation(found) => {
                    let words = [(found.to_string(), Role::TextDim)];
                    painter.row(place, &cut(&words, usize::from(inner.width)), &[]);
                }
                HoldingRow::Token(symbol, held, value) | HoldingRow::WatchedToken(symbol, held, value) => {
                    let cells = vec![
                        (symbol.to_string(), Role::Text),
                        (amount(*held, 6), Role::TextStrong),
                        worth_of(*value),
                        (part, Role::TextDim),
                    ];
                    tokens.push((at, cells));
                }
            }
        }
        let room = inner.width.saturating_sub(8 + 14 + 6 + 3).clamp(8, 26);
        let columns = [(8, Alignment::Left), (room, Alignment::Right), (14, Alignment::Right), (5, Alignment::Right)];
        list::draw_tables(painter, inner, tokens, &columns);
        if all.is_empty() {
            let words = if screen.filter.stands() { "nothing matches the filter" } else { "no holdings" };
            painter.text(line(inner, 0), inner.x, words, Role::TextDim);
        }
    }
}

impl ScreenView for Portfolio {
    fn id(&self) -> ScreenId {
        ScreenId::Portfolio
    }

    fn draw(&self, known: &ScreenContext<'_>, painter: &mut Painter<'_>, area: Rect) {
        if let Some((grouping, offset)) = self.results {
            painter.render(ResultsView { theme: painter.theme, known, grouping, offset }, area);
            return;
        }
        let plan = self.plan(known, area);
        painter.render(HoldingsPanel { theme: painter.theme, screen: self, known }, plan.holdings);
        if !plan.allowances.is_empty() {
            painter.render(AllowancesPanel { theme: painter.theme, screen: self, known }, plan.allowances);
        }
        if !plan.curve.is_empty() {
            painter.render(CurvePanel { theme: painter.theme, screen: self, known }, plan.curve);
        }
        if !plan.gas.is_empty() {
            self.draw_spending(painter, &plan);
        }
        if let Some(ask) = &self.ask {
            painter.render(ScreenDialogView::new(ask, painter.theme), area);
        }
    }

    fn act(&mut self, action: Action, known: &ScreenContext<'_>, area: Rect) -> Option<Vec<ScreenRequest>> {
        if let Some((grouping, offset)) = self.results {
            let last = results::count(known, grouping).saturating_sub(1);
            self.results = match action {
                Action::Back | Action::CloseOrQuit | Action::Open => None,
                Action::NextPanel | Action::PreviousPanel => Some((grouping.other(), 0)),
                _ => Some((grouping, list::moved(action, offset, last, usize::from(area.height / 2))?)),
            };
            return Some(Vec::new());
        }
        let plan = self.plan(known, area);
        let lines = |panel: Rect| usize::from(panel.height.saturating_sub(2));
        let page = match self.focus {
            PortfolioPanel::Spending => lines(plan.gas).max(1),
            PortfolioPanel::Holdings | PortfolioPanel::Allowances | PortfolioPanel::Curve => {
                lines(plan.holdings).max(2)
            }
        };
        let (held, allowed) = (self.rows_of(known), self.allowances(known).len());
        let (at, last) = match self.focus {
            PortfolioPanel::Allowances => (&mut self.selected, allowed.saturating_sub(1)),
            PortfolioPanel::Holdings | PortfolioPanel::Curve => (&mut self.offset, held.saturating_sub(page)),
            PortfolioPanel::Spending => (&mut self.spent_offset, plan.spent.len().saturating_sub(page)),
        };
        if let Some(to) = list::moved(action, *at, last, page) {
            *at = to;
            return Some(Vec::new());
        }
        match action {
            Action::NextPanel | Action::PreviousPanel => {
                let next = action == Action::NextPanel;
                self.focus = self.focus.step(next);
                // Without room beside the curve, the spending rows are in view with the zoomed curve.
                if self.focus == PortfolioPanel::Spending && !self.zoomed && plan.gas.is_empty() {
                    self.focus = self.focus.step(next);
                }
            }
            Action::Open => self.results = Some((ResultGrouping::default(), 0)),
            Action::Zoom => self.zoomed = !self.zoomed,
            Action::Back if self.zoomed => self.zoomed = false,
            Action::Back if self.filter.stands() => self.filter.clear(),
            Action::Filter => self.filter.open(),
            Action::LongerRange => self.range = self.range.longer(),
            Action::ShorterRange => self.range = self.range.shorter(),
            Action::CancelSelected => return Some(self.ask_to_revoke(known)),
            Action::Export => {
                let name = format!("bardo-trades-{}.csv", known.now_millis);
                return Some(vec![ScreenRequest::Write { name, text: trades::csv(known.feed) }]);
            }
            Action::Label => {
                let spender = self.allowance(known)?.spender;
                return Some(vec![ScreenRequest::Palette(format!("label {spender} "))]);
            }
            Action::Copy => {
                let allowance = self.allowance(known)?;
                return Some(vec![ScreenRequest::Copy(allowance.spender.to_string())]);
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
        if self.results.is_some() {
            return Vec::new();
        }
        let plan = self.plan(known, area);
        // The shared edge belongs to the lower panel, which has its button there.
        if plan.allowances.contains(at) {
            let again = self.focus == PortfolioPanel::Allowances;
            self.focus = PortfolioPanel::Allowances;
            let count = self.allowances(known).len();
            let visible = allowance_rows(known, plan.allowances);
            let offset = list::first_shown(self.selected.min(count.saturating_sub(1)), visible);
            let row = usize::from(at.y.saturating_sub(plan.allowances.y + 1)) + offset;
            if at.y == plan.allowances.y {
                // The text at the upper edge is a button.
                let from_right = plan.allowances.right().saturating_sub(at.x);
                if usize::from(from_right) <= width("x revokes") + 3 {
                    return self.ask_to_revoke(known);
                }
            } else if row < count && row < offset + visible {
                // A second click on a row opens its confirmation dialog.
                if again && row == self.selected {
                    return self.ask_to_revoke(known);
                }
                self.selected = row;
            }
        } else if plan.holdings.contains(at) {
            self.focus = PortfolioPanel::Holdings;
        } else if plan.gas.contains(at) {
            self.focus = PortfolioPanel::Spending;
        } else if plan.curve.contains(at) {
            self.focus = PortfolioPanel::Curve;
        }
        Vec::new()
    }

    fn wheel(&mut self, at: Position, down: bool, known: &ScreenContext<'_>, area: Rect) {
        if let Some((grouping, offset)) = self.results {
            let last = results::count(known, grouping).saturating_sub(1);
            let offset = if down { (offset + 1).min(last) } else { offset.saturating_sub(1) };
            self.results = Some((grouping, offset));
            return;
        }
        let plan = self.plan(known, area);
        let step = |value: usize, last: usize| if down { (value + 1).min(last) } else { value.saturating_sub(1) };
        if plan.allowances.contains(at) {
            let count = self.allowances(known).len();
            self.selected = step(self.selected, count.saturating_sub(1));
        } else if plan.holdings.contains(at) {
            let page = usize::from(plan.holdings.height.saturating_sub(2));
            self.offset = step(self.offset, self.rows_of(known).saturating_sub(page));
        } else if plan.gas.contains(at) && self.focus == PortfolioPanel::Spending {
            let page = usize::from(plan.gas.height.saturating_sub(2));
            self.spent_offset = step(self.spent_offset, plan.spent.len().saturating_sub(page));
        }
    }

    fn receive_reply(
        &mut self,
        _count: u32,
        reply: super::CommandReply,
        _known: &ScreenContext<'_>,
    ) -> Vec<ScreenRequest> {
        super::said(&reply)
    }
}
