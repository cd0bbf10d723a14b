//! Line charts drawn with braille dots: curves with marks and time ranges, and a one-line form.
//!
//! Floats are used for dot positions only, never for an amount that is shown as a number.

use std::cmp::Ordering;

use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::style::Color;
use ratatui::symbols::Marker;
use ratatui::widgets::Widget;
use ratatui::widgets::canvas::{self, Canvas};
use rust_decimal::prelude::ToPrimitive;
use rust_decimal::{Decimal, RoundingStrategy};

use super::Moment;
use super::figure::percent;
use super::paint::{Group, Row, chosen, rows, wrapped};
use crate::format::{grouped, sparkline};
use crate::painter::{Painter, StyledText, line};
use crate::theme::{Role, Theme};
use bardo_base::text::width;

/// Minimum length of the line of marks before its legend, in columns.
const LEAST_LINE: usize = 8;

/// Maximum number of dots per side of a curve.
const MOST: usize = 4096;

/// Curve in braille dots, two per column and four per row, with marks over it. The library draws it.
///
/// Its points are positions of dots instead of values, because the marks and labels beside a curve need the cell that a
/// value is drawn in.
#[derive(Debug, Clone)]
pub struct Curve {
    columns: usize,
    rows: usize,
    strokes: Vec<[(usize, usize); 2]>,
    marks: Vec<(usize, usize, char, Role)>,
}

impl Curve {
    /// Creates an empty curve with this number of character columns and rows.
    pub fn new(columns: usize, rows: usize) -> Self {
        Self { columns: columns.min(MOST / 2), rows: rows.min(MOST / 4), strokes: Vec::new(), marks: Vec::new() }
    }

    /// Number of dots horizontally and vertically.
    pub fn dots(&self) -> (usize, usize) {
        (self.columns * 2, self.rows * 4)
    }

    /// Adds a straight line between two dots, counted from the upper left.
    pub fn stroke(&mut self, from: (usize, usize), to: (usize, usize)) {
        self.strokes.push([from, to]);
    }

    /// Puts a character over the dots of a cell.
    pub fn mark(&mut self, column: usize, row: usize, character: char, role: Role) {
        self.marks.push((column, row, character, role));
    }

    /// Draws the curve at the upper left of an area.
    pub fn render(&self, painter: &mut Painter<'_>, area: Rect) {
        let place = Rect { width: size(self.columns), height: size(self.rows), ..area }.intersection(area);
        let place = place.intersection(painter.buffer.area);
        let style = painter.theme.style(Role::Chart);
        painter.buffer.set_style(place, style);
        self.dot(place, style.fg.unwrap_or_default(), painter.buffer);
        for (column, row, character, role) in &self.marks {
            let at = line(place, size(*row));
            painter.text(at, at.x.saturating_add(size(*column)), &character.to_string(), *role);
        }
    }

    /// Draws the dots into an area of the curve's size.
    fn dot(&self, place: Rect, color: Color, buffer: &mut Buffer) {
        if place.is_empty() {
            return;
        }
        let (across, down) = self.dots();
        let float = |at: usize| at.to_f64().unwrap_or(0.0);
        let (right, bottom) = (float(across.saturating_sub(1)), float(down.saturating_sub(1)));
        Canvas::default()
            .marker(Marker::Braille)
            .x_bounds([0.0, right])
            .y_bounds([0.0, bottom])
            .paint(|context| {
                for [from, to] in &self.strokes {
                    let (x1, y1) = (float(from.0), bottom - float(from.1));
                    let (x2, y2) = (float(to.0), bottom - float(to.1));
                    context.draw(&canvas::Line { x1, y1, x2, y2, color });
                }
            })
            .render(place, buffer);
    }

    /// Rows of the curve as pieces, for a card whose rows wrap and are counted.
    pub fn rows(&self) -> Vec<Vec<StyledText>> {
        let area = Rect::new(0, 0, size(self.columns), size(self.rows));
        let mut buffer = Buffer::empty(area);
        self.dot(area, Color::Reset, &mut buffer);
        for (column, row, character, _) in &self.marks {
            if let Some(cell) = buffer.cell_mut((size(*column), size(*row))) {
                cell.set_char(*character);
            }
        }
        let role_at = |column: usize, row: usize| {
            let mark = self.marks.iter().rev().find(|mark| (mark.0, mark.1) == (column, row));
            mark.map_or(Role::Chart, |(.., role)| *role)
        };
        let row = |(at, cells): (usize, &[Cell])| {
            let mut pieces: Vec<StyledText> = Vec::new();
            for (column, cell) in cells.iter().enumerate() {
                let role = role_at(column, at);
                match pieces.last_mut() {
                    Some(last) if last.1 == role => last.0.push_str(cell.symbol()),
                    _ => pieces.push((cell.symbol().to_owned(), role)),
                }
            }
            pieces
        };
        buffer.content.chunks(self.columns.max(1)).enumerate().map(row).collect()
    }
}

/// Number of cells, at most the largest that a terminal can have.
fn size(count: usize) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}

/// Index of a value between two bounds, scaled to `count` places. The middle if the bounds are equal or the value is
/// not finite.
pub fn place(value: f64, low: f64, high: f64, count: usize) -> usize {
    let last = count.saturating_sub(1);
    if high.partial_cmp(&low) != Some(Ordering::Greater) || !value.is_finite() {
        return last / 2;
    }
    let share = ((value - low) / (high - low)).clamp(0.0, 1.0);
    // The share is between 0 and 1, so the result is between 0 and `last`.
    let at = (share * last.to_f64().unwrap_or(0.0)).round();
    at.to_usize().unwrap_or(0).min(last)
}

/// Time range of a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum TimeRange {
    /// The last 15 minutes.
    #[default]
    Quarter,
    /// The last hour.
    Hour,
    /// The last 24 hours.
    Day,
    /// All points of the curve.
    All,
}

impl TimeRange {
    /// Display text of the range.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Quarter => "15 min",
            Self::Hour => "1 h",
            Self::Day => "24 h",
            Self::All => "all",
        }
    }

    /// Length in milliseconds; `None` for all points.
    pub const fn millis(self) -> Option<u64> {
        match self {
            Self::Quarter => Some(900_000),
            Self::Hour => Some(3_600_000),
            Self::Day => Some(86_400_000),
            Self::All => None,
        }
    }

    /// Next longer range, or the longest.
    #[must_use]
    pub const fn longer(self) -> Self {
        match self {
            Self::Quarter => Self::Hour,
            Self::Hour => Self::Day,
            Self::Day | Self::All => Self::All,
        }
    }

    /// Next longer range; the shortest follows the longest.
    #[must_use]
    pub const fn next(self) -> Self {
        match self {
            Self::Quarter => Self::Hour,
            Self::Hour => Self::Day,
            Self::Day => Self::All,
            Self::All => Self::Quarter,
        }
    }

    /// Next shorter range, or the shortest.
    #[must_use]
    pub const fn shorter(self) -> Self {
        match self {
            Self::Quarter | Self::Hour => Self::Quarter,
            Self::Day => Self::Hour,
            Self::All => Self::Day,
        }
    }
}

/// Event marked on a chart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChartMark {
    /// Time of the event, in milliseconds since the Unix epoch.
    pub at: u64,
    /// Character on the line below the curve.
    pub character: char,
}

/// Model of a line chart.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChartModel {
    /// Times in milliseconds since the Unix epoch, and values, in order of time.
    pub points: Vec<(u64, Decimal)>,
    /// Events marked below the curve.
    pub marks: Vec<ChartMark>,
    /// Meaning of the marks, such as `s = your swaps`.
    pub legend: String,
    /// Text before each figure, such as `$`.
    pub unit: &'static str,
    /// Digits after the decimal point.
    pub places: u32,
    /// Time range to show.
    pub range: TimeRange,
    /// Minimum distance between the lowest and the highest line, in basis points of the newest value. Prevents tiny
    /// changes from looking like a fall.
    pub least_span_bps: u32,
}

impl ChartModel {
    fn shown(&self, now: Moment) -> &[(u64, Decimal)] {
        let from = self.range.millis().map_or(0, |span| self.end(now).saturating_sub(span));
        let at = self.points.partition_point(|(at, _)| *at < from);
        self.points.get(at..).unwrap_or(&[])
    }

    /// Time at the right end: the current time, or that of the newest point without motion.
    fn end(&self, now: Moment) -> u64 {
        let newest = self.points.last().map_or(0, |(at, _)| *at);
        if now.motion { now.millis.max(newest) } else { newest }
    }

    /// Figure with unit, digits and grouping of this chart.
    pub fn figure(&self, value: Decimal) -> String {
        let sign = if value.is_sign_negative() && !value.is_zero() { "−" } else { "" };
        // Half a cent counts up as everywhere else; the type's own formatting cuts.
        let rounded = value.abs().round_dp_with_strategy(self.places, RoundingStrategy::MidpointAwayFromZero);
        format!("{sign}{}{}", self.unit, grouped(&format!("{rounded:.*}", self.places as usize)))
    }

    /// Newest figure with its change since the first point in the range, such as `3,412.55 ▼ 0.40 %`.
    pub fn newest(&self, now: Moment) -> Vec<StyledText> {
        let shown = self.shown(now);
        let (Some((_, first)), Some((_, last))) = (shown.first(), shown.last()) else {
            return vec![("no data yet".to_owned(), Role::TextDim)];
        };
        let mut pieces = vec![(self.figure(*last), Role::TextStrong)];
        let change =
            last.checked_sub(*first).and_then(|change| change.checked_div(*first)?.checked_mul(Decimal::ONE_HUNDRED));
        match change {
            Some(change) if change.is_zero() => pieces.push((" = 0.00 %".to_owned(), Role::TextDim)),
            Some(change) if change.is_sign_negative() => {
                pieces.push((format!(" ▼ {}", percent(change.abs())), Role::PriceDown));
            }
            Some(change) => pieces.push((format!(" ▲ {}", percent(change)), Role::PriceUp)),
            None => {}
        }
        pieces
    }
}

/// Widget of a chart: the curve between its lowest and highest value. In one line it is the newest figure and a
/// sparkline.
///
/// The library's `Chart` draws an axis line and keeps room for its labels. Here the labels stand beside the curve, and
/// the line below it has the marks of events.
#[derive(Debug, Clone, Copy)]
pub struct LineChart<'a> {
    model: &'a ChartModel,
    theme: &'a Theme,
    now: Moment,
}

impl<'a> LineChart<'a> {
    /// Creates the widget of a chart at a moment.
    pub const fn new(model: &'a ChartModel, theme: &'a Theme, now: Moment) -> Self {
        Self { model, theme, now }
    }
}

impl Widget for LineChart<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let area = area.intersection(buffer.area);
        draw(self.model, &mut Painter { buffer, theme: self.theme }, area, self.now);
    }
}

fn draw(chart: &ChartModel, painter: &mut Painter<'_>, area: Rect, now: Moment) {
    let shown = chart.shown(now);
    if area.is_empty() {
        return;
    }
    let (Some((low, high)), Some(last)) = (bounds(shown), shown.last()) else {
        let words = vec![Row::new("no data yet in this range", Role::TextDim)];
        rows(painter, area, &wrapped(words, usize::from(area.width)));
        return;
    };
    if area.height == 1 {
        one_line(chart, painter, area, now);
        return;
    }
    let (low, high) = spread(low, high, last.1, chart.least_span_bps);
    let labels = [chart.figure(high), chart.figure(low)];
    let gutter = labels.iter().map(|label| width(label)).max().unwrap_or(0) + 1;
    let columns = usize::from(area.width);
    // The figures are dropped if they would leave no room for the curve.
    let gutter = if gutter * 2 > columns { 0 } else { gutter };
    let marked = area.height >= 3 && (!chart.marks.is_empty() || !chart.legend.is_empty());
    let lines = usize::from(area.height) - usize::from(marked);
    let mut curve = Curve::new(columns - gutter, lines);
    let (across, down) = curve.dots();
    let start = match chart.range.millis() {
        // A curve younger than its range starts at the left.
        Some(span) => shown.first().map_or(0, |(at, _)| *at).max(chart.end(now).saturating_sub(span)),
        None => shown.first().map_or(0, |(at, _)| *at),
    };
    let end = chart.end(now);
    let float = |value: u64| value.to_f64().unwrap_or(0.0);
    let x = |at: u64| place(float(at), float(start), float(end), across);
    let (bottom, top) = (low.to_f64().unwrap_or(0.0), high.to_f64().unwrap_or(0.0));
    let y = |value: Decimal| down.saturating_sub(1) - place(value.to_f64().unwrap_or(0.0), bottom, top, down);
    let mut before: Option<(usize, usize)> = None;
    // Within one column of dots, the first, lowest, highest and last points suffice: the line between them covers the
    // rest.
    for same in shown.chunk_by(|one, other| x(one.0) == x(other.0)) {
        let (Some(first), Some((low, high)), Some(last)) = (same.first(), bounds(same), same.last()) else { continue };
        for value in [first.1, low, high, last.1] {
            let dot = (x(first.0), y(value));
            if before != Some(dot) {
                curve.stroke(before.unwrap_or(dot), dot);
                before = Some(dot);
            }
        }
    }
    curve.mark(x(last.0) / 2, y(last.1) / 4, '●', Role::ChartMark);
    for at in 0..lines {
        let label = match at {
            0 => labels.first(),
            at if at + 1 == lines && low != high => labels.last(),
            _ => None,
        };
        let place = line(area, u16::try_from(at).unwrap_or(u16::MAX));
        if gutter > 0
            && let Some(label) = label
        {
            painter.text(place, place.x, label, Role::TextDim);
        }
    }
    let shift = u16::try_from(gutter).unwrap_or(0);
    curve.render(painter, Rect { x: area.x + shift, width: area.width.saturating_sub(shift), ..area });
    if marked {
        let mut base = vec!['·'; columns - gutter];
        for mark in chart.marks.iter().filter(|mark| mark.at >= start && mark.at <= end) {
            if let Some(cell) = base.get_mut(x(mark.at) / 2) {
                *cell = mark.character;
            }
        }
        write_legend(&mut base, &chart.legend);
        let base: String = base.into_iter().collect();
        let place = line(area, area.height - 1);
        painter.pieces(place, &[(" ".repeat(gutter), Role::TextDim), (base, Role::TextDim)]);
    }
}

/// Writes the legend into the line of marks, as far right as it covers no mark. If it does not fit, only its last parts
/// are written, or nothing, because the marks matter more.
fn write_legend(base: &mut Vec<char>, legend: &str) {
    base.push('·');
    let mut rest = legend;
    while !rest.is_empty() {
        // With blanks around it, so that it is not read as marks. The last blank may be beyond the end.
        let words: Vec<char> = format!("  {rest} ").chars().collect();
        let free = |from: &usize| {
            let cells = base.get(*from..*from + words.len());
            cells.is_some_and(|cells| cells.iter().all(|one| *one == '·'))
        };
        // Some of the line stays free before the legend.
        if let Some(from) = (LEAST_LINE..base.len()).rev().find(free) {
            base.iter_mut().skip(from).zip(words).for_each(|(cell, letter)| *cell = letter);
            break;
        }
        rest = rest.split_once(" · ").map_or("", |(_, after)| after);
    }
    base.pop();
}

/// Lowest and highest value; `None` without points.
fn bounds(points: &[(u64, Decimal)]) -> Option<(Decimal, Decimal)> {
    let (_, first) = *points.first()?;
    Some(points.iter().fold((first, first), |(low, high), (_, value)| (low.min(*value), high.max(*value))))
}

/// Bounds, moved apart evenly up to the minimum distance.
fn spread(low: Decimal, high: Decimal, newest: Decimal, least_bps: u32) -> (Decimal, Decimal) {
    let least = newest.abs().checked_mul(Decimal::new(i64::from(least_bps), 4));
    let missing = least.and_then(|least| least.checked_sub(high.checked_sub(low)?));
    let half = missing.filter(|missing| missing.is_sign_positive()).and_then(|missing| missing.checked_div(2.into()));
    let moved = half.and_then(|half| Some((low.checked_sub(half)?, high.checked_add(half)?)));
    moved.unwrap_or((low, high))
}

fn one_line(chart: &ChartModel, painter: &mut Painter<'_>, area: Rect, now: Moment) {
    let mut groups = vec![Group { rank: 0, pieces: chart.newest(now) }];
    let columns = usize::from(area.width);
    let used: usize = groups.iter().flat_map(|group| &group.pieces).map(|(text, _)| width(text)).sum();
    let room = columns.saturating_sub(used + 1);
    if room >= 4 {
        let scaled = |value: Decimal| {
            let whole = value.checked_mul(Decimal::from(1_000_000)).map(|value| value.trunc());
            whole.and_then(|value| value.to_u64()).unwrap_or(0)
        };
        let bars = sparkline(chart.shown(now).iter().map(|(_, value)| scaled(*value)), room.min(60));
        groups.push(Group::new(1, format!(" {bars}"), Role::Chart));
    }
    painter.pieces(line(area, 0), &chosen(groups, columns));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_are_where_they_are_set() {
        let mut curve = Curve::new(2, 1);
        curve.stroke((0, 0), (0, 0));
        curve.stroke((3, 3), (3, 3));
        assert_eq!(curve.rows(), [[("⠁⢀".to_owned(), Role::Chart)]]);
        let mut curve = Curve::new(2, 1);
        curve.stroke((0, 3), (3, 0));
        assert_eq!(curve.rows(), [[("⡠⠊".to_owned(), Role::Chart)]]);
        curve.mark(1, 0, '●', Role::ChartMark);
        assert_eq!(curve.rows(), [[("⡠".to_owned(), Role::Chart), ("●".to_owned(), Role::ChartMark)]]);
        assert_eq!(Curve::new(0, 0).rows(), Vec::<Vec<StyledText>>::new());
    }

    #[test]
    fn of_many_points_in_one_column_all_that_they_pass_is_drawn() {
        let (theme, _) = crate::theme::Theme::load("dark", None).unwrap();
        let area = Rect::new(0, 0, 12, 2);
        // Each column has a hundred points: the first and the last at the bottom, one at the top.
        let value = |at: u64| Decimal::from(if at % 100 == 50 { 109 } else { 101 });
        let points = (0..2_400).map(|at| (at, value(at))).collect();
        let model = ChartModel { points, range: TimeRange::All, ..ChartModel::default() };
        let mut buffer = ratatui::buffer::Buffer::empty(area);
        LineChart::new(&model, &theme, Moment { millis: 2_400, motion: false }).render(area, &mut buffer);
        let drawn: Vec<&str> =
            buffer.content.chunks(12).flat_map(|row| &row[4..11]).map(|cell| cell.symbol()).collect();
        assert!(drawn.iter().all(|cell| *cell == "⣿"), "{drawn:?}");
    }

    #[test]
    fn places_span_the_bounds() {
        assert_eq!([place(0.0, 0.0, 10.0, 11), place(10.0, 0.0, 10.0, 11), place(4.0, 0.0, 10.0, 11)], [0, 10, 4]);
        assert_eq!([place(-5.0, 0.0, 1.0, 4), place(5.0, 0.0, 1.0, 4)], [0, 3]);
        assert_eq!(place(1.0, 1.0, 1.0, 5), 2);
        assert_eq!(place(f64::NAN, 0.0, 1.0, 5), 2);
        assert_eq!(place(1.0, 0.0, 1.0, 0), 0);
    }

    #[test]
    fn a_range_shows_no_more_than_it_says() {
        let point = |at: u64, value: i64| (at, Decimal::from(value));
        let mut chart = ChartModel {
            points: vec![point(0, 50), point(8_000_000, 100), point(9_900_000, 110)],
            unit: "$",
            places: 0,
            ..ChartModel::default()
        };
        let now = Moment { millis: 10_000_000, motion: true };
        let said = |chart: &ChartModel| chart.newest(now).into_iter().map(|(text, _)| text).collect::<String>();
        assert_eq!(said(&chart), "$110 = 0.00 %");
        chart.range = TimeRange::Hour;
        assert_eq!(said(&chart), "$110 ▲ 10.00 %");
        chart.range = TimeRange::All;
        assert_eq!(said(&chart), "$110 ▲ 120.00 %");
        assert_eq!(TimeRange::Quarter.longer().longer().longer().longer(), TimeRange::All);
        assert_eq!(TimeRange::All.shorter().shorter().shorter().shorter(), TimeRange::Quarter);
    }

    #[test]
    fn a_trifle_is_not_drawn_as_a_fall() {
        let dec = |value: i64| Decimal::from(value);
        // At least a hundredth of 1,000 is between the bounds, evenly above and below.
        assert_eq!(spread(dec(999), dec(1_000), dec(1_000), 100), (Decimal::new(9_945, 1), Decimal::new(10_045, 1)));
        assert_eq!(spread(dec(900), dec(1_000), dec(1_000), 100), (dec(900), dec(1_000)));
        assert_eq!(spread(dec(5), dec(5), dec(5), 0), (dec(5), dec(5)));
    }

    #[test]
    fn the_legend_stands_on_no_mark() {
        let line = |marks: &[usize], columns: usize| {
            let mut base = vec!['·'; columns];
            marks.iter().for_each(|at| base[*at] = 's');
            write_legend(&mut base, "s = swaps");
            base.into_iter().collect::<String>()
        };
        assert_eq!(line(&[], 24), "·············  s = swaps");
        assert_eq!(line(&[23], 24), "···········  s = swaps s");
        assert_eq!(line(&[20], 24), "········  s = swaps s···");
        // Without room, only the marks are drawn.
        assert_eq!(line(&[6, 14, 20], 24), "······s·······s·····s···");
        assert_eq!(line(&[], 12), "············");
        // Without room for all of it, the last part is drawn.
        let mut base: Vec<char> = "······s·······s················".chars().collect();
        write_legend(&mut base, "s = swaps · stops at $9");
        assert_eq!(base.into_iter().collect::<String>(), "······s·······s···  stops at $9");
    }
}
