//! Line charts drawn with braille dots: curves with marks and time ranges, and a one-line form.
//!
//! Only this module uses floats, and only for dot positions.

use std::cmp::Ordering;

use ratatui::layout::Rect;
use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;

use super::Moment;
use super::figure::percent;
use super::paint::{Group, Row, chosen, rows, wrapped};
use crate::format::{grouped, sparkline};
use crate::painter::{Painter, StyledText, line};
use crate::theme::Role;
use bardo_base::text::width;

/// Minimum length of the line of marks before its legend, in columns.
const LEAST_LINE: usize = 8;

/// Maximum number of dots per side of a canvas.
const MOST: usize = 4096;

/// Grid of dots, two per column and four per row.
#[derive(Debug, Clone)]
pub struct Canvas {
    columns: usize,
    rows: usize,
    cells: Vec<u8>,
    over: Vec<(usize, usize, char, Role)>,
}

impl Canvas {
    /// Creates an empty canvas with this number of character columns and rows.
    pub fn new(columns: usize, rows: usize) -> Self {
        let (columns, rows) = (columns.min(MOST / 2), rows.min(MOST / 4));
        Self { columns, rows, cells: vec![0; columns * rows], over: Vec::new() }
    }

    /// Number of dots horizontally and vertically.
    pub fn dots(&self) -> (usize, usize) {
        (self.columns * 2, self.rows * 4)
    }

    /// Sets a dot, counted from the upper left. A dot outside the canvas is ignored.
    pub fn dot(&mut self, x: usize, y: usize) {
        if x / 2 >= self.columns || y / 4 >= self.rows {
            return;
        }
        let bit = match (x % 2, y % 4) {
            (0, 0) => 0x01,
            (0, 1) => 0x02,
            (0, 2) => 0x04,
            (0, _) => 0x40,
            (_, 0) => 0x08,
            (_, 1) => 0x10,
            (_, 2) => 0x20,
            _ => 0x80,
        };
        if let Some(cell) = self.cells.get_mut(y / 4 * self.columns + x / 2) {
            *cell |= bit;
        }
    }

    /// Draws a straight line between two dots.
    pub fn stroke(&mut self, from: (usize, usize), to: (usize, usize)) {
        let steps = from.0.abs_diff(to.0).max(from.1.abs_diff(to.1)).min(MOST);
        let between = |from: usize, to: usize, step: usize| {
            let far = from.abs_diff(to) * step;
            let moved = (far + steps / 2).checked_div(steps).unwrap_or(0);
            if to >= from { from + moved } else { from - moved }
        };
        for step in 0..=steps {
            self.dot(between(from.0, to.0, step), between(from.1, to.1, step));
        }
    }

    /// Puts a character over the dots of a cell.
    pub fn mark(&mut self, column: usize, row: usize, character: char, role: Role) {
        self.over.push((column, row, character, role));
    }

    /// Pieces of one row of characters.
    pub fn row(&self, row: usize) -> Vec<StyledText> {
        let mut pieces: Vec<StyledText> = Vec::new();
        for column in 0..self.columns {
            let dots = self.cells.get(row * self.columns + column).copied().unwrap_or(0);
            let over = self.over.iter().rev().find(|mark| mark.0 == column && mark.1 == row);
            let (character, role) = match over {
                Some((.., character, role)) => (*character, *role),
                None if dots == 0 => (' ', Role::Chart),
                None => (char::from_u32(0x2800 + u32::from(dots)).unwrap_or(' '), Role::Chart),
            };
            match pieces.last_mut() {
                Some(last) if last.1 == role => last.0.push(character),
                _ => pieces.push((character.to_string(), role)),
            }
        }
        pieces
    }
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
pub enum Range {
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

impl Range {
    /// Display text of the range.
    pub const fn words(self) -> &'static str {
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
    pub range: Range,
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
        format!("{}{}", self.unit, grouped(&format!("{:.*}", self.places as usize, value)))
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

/// Draws the curve between its lowest and highest value. In one line it draws the newest figure and a sparkline.
pub fn draw(chart: &ChartModel, painter: &mut Painter<'_>, area: Rect, now: Moment) {
    let area = area.intersection(painter.buffer.area);
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
    let mut canvas = Canvas::new(columns - gutter, lines);
    let (across, down) = canvas.dots();
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
                canvas.stroke(before.unwrap_or(dot), dot);
                before = Some(dot);
            }
        }
    }
    canvas.mark(x(last.0) / 2, y(last.1) / 4, '●', Role::ChartMark);
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
        let shift = u16::try_from(gutter).unwrap_or(0);
        painter.pieces(Rect { x: place.x + shift, width: place.width.saturating_sub(shift), ..place }, &canvas.row(at));
    }
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
        let mut canvas = Canvas::new(2, 1);
        canvas.dot(0, 0);
        canvas.dot(3, 3);
        canvas.dot(9, 9);
        assert_eq!(canvas.row(0), [("⠁⢀".to_owned(), Role::Chart)]);
        let mut canvas = Canvas::new(2, 1);
        canvas.stroke((0, 3), (3, 0));
        assert_eq!(canvas.row(0), [("⡠⠊".to_owned(), Role::Chart)]);
    }

    #[test]
    fn of_many_points_in_one_column_all_that_they_pass_is_drawn() {
        let (theme, _) = crate::theme::Theme::load("dark", None).unwrap();
        let area = Rect::new(0, 0, 12, 2);
        // Each column has a hundred points: the first and the last at the bottom, one at the top.
        let value = |at: u64| Decimal::from(if at % 100 == 50 { 109 } else { 101 });
        let points = (0..2_400).map(|at| (at, value(at))).collect();
        let model = ChartModel { points, range: Range::All, ..ChartModel::default() };
        let mut buffer = ratatui::buffer::Buffer::empty(area);
        let mut painter = Painter { buffer: &mut buffer, theme: &theme };
        draw(&model, &mut painter, area, Moment { millis: 2_400, motion: false });
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
        chart.range = Range::Hour;
        assert_eq!(said(&chart), "$110 ▲ 10.00 %");
        chart.range = Range::All;
        assert_eq!(said(&chart), "$110 ▲ 120.00 %");
        assert_eq!(Range::Quarter.longer().longer().longer().longer(), Range::All);
        assert_eq!(Range::All.shorter().shorter().shorter().shorter(), Range::Quarter);
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
