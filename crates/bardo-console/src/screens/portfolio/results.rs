//! Profit and loss: a chart of the result over days, a table by token or by day, and the comparison with the chain.

use ratatui::buffer::Buffer;
use ratatui::layout::{Alignment, Rect};
use ratatui::widgets::Widget;
use rust_decimal::Decimal;

use super::super::{ScreenContext, list};
use super::moment;
use crate::format::{counted, dollars, grouped, nearest_cent, short_address, utc};
use crate::painter::{Painter, StyledText};
use crate::theme::{Role, Theme};
use crate::widgets::chart::{ChartModel, LineChart, TimeRange};
use crate::widgets::paint::{Row, rows, wrapped};
use bardo_base::units::{SignedUsd, Usd};
use bardo_session::handle::{PnlDay, PnlState, PnlSums};
use bardo_session::market::MoneyKind;

/// Height from which the chart has room above the table, in lines.
const WITH_CHART: u16 = 14;
/// Width from which all columns fit, in columns.
const ALL_COLUMNS: u16 = 76;
/// Seconds of a day.
const DAY: u64 = 86_400;

/// Grouping of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum ResultGrouping {
    /// By token, in the order of chains.
    #[default]
    Token,
    /// By day, the newest first.
    Day,
}

impl ResultGrouping {
    /// Grouping that follows this one.
    pub(super) fn other(self) -> Self {
        match self {
            Self::Token => Self::Day,
            Self::Day => Self::Token,
        }
    }
}

/// Number of rows of the table, without its heading and its sum.
pub(super) fn count(known: &ScreenContext<'_>, grouping: ResultGrouping) -> usize {
    let state = state(known);
    state.map_or(0, |state| match grouping {
        ResultGrouping::Token => state.tokens.len(),
        ResultGrouping::Day => days(state).count(),
    })
}

/// Days of the table: those with entries.
fn days(state: &PnlState) -> impl DoubleEndedIterator<Item = &PnlDay> {
    state.days.iter().filter(|day| day.entries > 0)
}

fn state<'k>(known: &ScreenContext<'k>) -> Option<&'k PnlState> {
    known.snapshot?.pnl.as_deref()
}

/// Profit and loss on the whole screen.
pub(super) struct ResultsView<'a> {
    pub theme: &'a Theme,
    pub known: &'a ScreenContext<'a>,
    pub grouping: ResultGrouping,
    pub offset: usize,
}

impl Widget for ResultsView<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let painter = &mut Painter { buffer, theme: self.theme };
        let Some(state) = state(self.known).filter(|state| !is_empty(state)) else {
            let inner = list::framed(painter, area, true, "Profit and loss", &[]);
            rows(painter, inner, &wrapped(self.nothing(), inner.width.into()));
            return;
        };
        let (chart, table) =
            if area.height >= WITH_CHART { list::stacked(area, area.height * 2 / 5) } else { list::stacked(area, 0) };
        if !chart.is_empty() {
            let inner = list::framed(painter, chart, false, &title(state), &result(state));
            let model = model(state);
            painter.render(LineChart::new(&model, self.theme, moment(self.known)), inner);
        }
        self.draw_table(painter, state, table, chart.is_empty());
    }
}

impl ResultsView<'_> {
    fn nothing(&self) -> Vec<Row> {
        let words = match (self.known.snapshot, state(self.known)) {
            (None, _) if self.known.replayed() => "Not in this recording.".to_owned(),
            (Some(_), None) if self.known.replayed() => "Not in this recording.".to_owned(),
            (None, _) | (_, None) => "Not known yet.".to_owned(),
            (Some(_), Some(state)) => match &state.fault {
                Some(fault) => format!("No entries yet. {fault}"),
                None if state.paper => "PAPER: no entries yet.".to_owned(),
                None => "No entries yet.".to_owned(),
            },
        };
        vec![Row::new(words, Role::TextDim)]
    }

    fn draw_table(&self, painter: &mut Painter<'_>, state: &PnlState, area: Rect, alone: bool) {
        let heading = match self.grouping {
            ResultGrouping::Token => "By token",
            ResultGrouping::Day => "By day, UTC",
        };
        let heading = if alone { format!("{} · {heading}", title(state)) } else { heading.to_owned() };
        let hint = if area.width >= 40 { "Tab regroups  Esc back" } else { "" };
        let inner = list::framed(painter, area, true, &heading, &[(hint.to_owned(), Role::TextDim)]);
        let notes = wrapped(notes(state), inner.width.into());
        // The notes leave at least as much room to the table.
        let below = u16::try_from(notes.len()).unwrap_or(u16::MAX).min(inner.height / 2);
        let room = Rect { height: inner.height.saturating_sub(below), ..inner };
        let wide = inner.width >= ALL_COLUMNS;
        let mut table = vec![headings(wide)];
        let visible = usize::from(room.height).saturating_sub(2);
        let all = self.lines(state, wide);
        let offset = self.offset.min(all.len().saturating_sub(visible));
        table.extend(all.into_iter().skip(offset).take(visible));
        table.push(cells("total", &state.total, state.unrealised, wide, Role::TextStrong));
        let figures = if wide { 5 } else { 2 };
        // Each figure has eleven columns and a blank before it.
        let first = inner.width.saturating_sub(figures * 12).clamp(6, 32);
        let columns: Vec<(u16, Alignment)> = std::iter::once((first, Alignment::Left))
            .chain(std::iter::repeat_n((11, Alignment::Right), figures.into()))
            .collect();
        let lines: Vec<(u16, Vec<StyledText>)> = (0..room.height).zip(table).collect();
        list::draw_tables(painter, room, lines, &columns);
        let place = Rect { y: room.bottom(), height: below, ..inner };
        rows(painter, place, &notes);
    }

    fn lines(&self, state: &PnlState, wide: bool) -> Vec<Vec<StyledText>> {
        match self.grouping {
            ResultGrouping::Token => {
                let line = |token: &bardo_session::handle::PnlToken| {
                    let name = format!("{} {}", token.symbol, token.chain);
                    cells(&name, &token.sums, token.unrealised, wide, Role::Text)
                };
                state.tokens.iter().map(line).collect()
            }
            ResultGrouping::Day => {
                let line = |day: &PnlDay| {
                    let name: String = utc(day.begins.saturating_mul(1_000)).chars().take(10).collect();
                    cells(&name, &day.sums, day.unrealised, wide, Role::Text)
                };
                days(state).rev().map(line).collect()
            }
        }
    }
}

fn is_empty(state: &PnlState) -> bool {
    state.tokens.is_empty() && state.days.is_empty()
}

fn title(state: &PnlState) -> String {
    let what = match (state.paper, state.money) {
        (true, _) => "PAPER profit and loss",
        (false, Some(MoneyKind::Test)) => "TEST money: profit and loss",
        (false, _) => "Profit and loss",
    };
    match state.account {
        Some(account) => format!("{what} of {}", short_address(account)),
        None => what.to_owned(),
    }
}

/// Result with its sign and colour: realised after gas and fees, and unrealised.
fn result(state: &PnlState) -> Vec<StyledText> {
    let mut pieces = vec![figure(state.total.net)];
    if let Some(unrealised) = state.unrealised {
        pieces.push(("  unrealised ".to_owned(), Role::TextDim));
        pieces.push(figure(unrealised));
    }
    pieces
}

fn figure(value: SignedUsd) -> StyledText {
    let cents = nearest_cent(value.amount());
    if cents == "0.00" {
        return ("$0.00".to_owned(), Role::Text);
    }
    let (sign, role) = if value.is_loss() { ("−", Role::PriceDown) } else { ("+", Role::PriceUp) };
    (format!("{sign}${}", grouped(&cents)), role)
}

/// Fees, which prices may turn into a gain.
fn fee(value: SignedUsd) -> StyledText {
    if value.is_loss() { (format!("−{}", dollars(value.amount())), Role::PriceUp) } else { cost(value.amount()) }
}

fn cost(value: Usd) -> StyledText {
    if value.is_zero() { ("–".to_owned(), Role::TextDim) } else { (dollars(value), Role::Text) }
}

fn headings(wide: bool) -> Vec<StyledText> {
    let names: &[&str] =
        if wide { &["", "realised", "unrealised", "gas", "fees", "net"] } else { &["", "unrealised", "net"] };
    names.iter().map(|name| ((*name).to_owned(), Role::TextDim)).collect()
}

fn cells(name: &str, sums: &PnlSums, unrealised: Option<SignedUsd>, wide: bool, role: Role) -> Vec<StyledText> {
    let unrealised = unrealised.map_or_else(|| ("unknown".to_owned(), Role::TextDim), figure);
    // What is not complete says so beside its name.
    let mark = if sums.incomplete > 0 { " ?" } else { "" };
    let name = (format!("{name}{mark}"), role);
    if wide {
        vec![name, figure(sums.realised), unrealised, cost(sums.gas), fee(sums.fees), figure(sums.net)]
    } else {
        vec![name, unrealised, figure(sums.net)]
    }
}

/// Comparison with the chain, and what is missing.
fn notes(state: &PnlState) -> Vec<Row> {
    let mut notes = Vec::new();
    if state.paper {
        notes.push(Row::new("PAPER: simulated; nothing of this happened on a chain", Role::StateCare));
    }
    if let Some(fault) = &state.fault {
        notes.push(Row::new(format!("! Not up to date: {fault}"), Role::StateCare));
    }
    notes.extend(state.left_out.iter().map(|words| Row::new(format!("! {words}"), Role::StateCare)));
    if state.more_tokens > 0 {
        let more = counted(state.more_tokens, "more token is", "more tokens are");
        notes.push(Row::new(format!("{more} in the sums, but not listed"), Role::TextDim));
    }
    notes.extend(state.differences.iter().map(|words| Row::new(format!("! {words}"), Role::StateBad)));
    if state.even > 0 {
        let words = if state.even == 1 { "balance agrees" } else { "balances agree" };
        notes.push(Row::new(format!("✓ {} {words} with the chain to the last unit", state.even), Role::StateGood));
    }
    if state.total.incomplete > 0 {
        let lack = counted(state.total.incomplete, "entry lacks", "entries lack");
        notes.push(Row::new(format!("? {lack} a price or a cost: the parts without are in no sum"), Role::TextDim));
    }
    if state.unvalued > 0 {
        let holdings = counted(state.unvalued, "holding", "holdings");
        notes.push(Row::new(format!("? unrealised leaves out {holdings} without a price or a cost"), Role::TextDim));
    }
    notes
}

/// Result at the end of each day, with what was unrealised then.
fn model(state: &PnlState) -> ChartModel {
    let mut points = Vec::new();
    if let Some(first) = state.days.first() {
        points.push((first.begins.saturating_mul(1_000), Decimal::ZERO));
    }
    // Where a price is missing, the curve has no point: it would show a loss that was none.
    for (day, unrealised) in state.days.iter().filter_map(|day| Some((day, day.unrealised?))) {
        let whole = day.net_so_far.checked_add(unrealised).unwrap_or(day.net_so_far);
        let value = whole.amount().decimal();
        let value = if whole.is_loss() { -value } else { value };
        points.push((day.begins.saturating_add(DAY - 1).saturating_mul(1_000), value));
    }
    ChartModel { points, unit: "$", places: 2, range: TimeRange::All, least_span_bps: 0, ..ChartModel::default() }
}
