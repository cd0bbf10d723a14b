//! Right column of screen 1: current and next step, activity, price, equity, events.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::Widget;
use rust_decimal::Decimal;

use super::{ActivityList, LivePanel, inside, nothing, status_role};
use crate::format::{fee, time_of_day, whole_dollars};
use crate::painter::{Painter, StyledText, line, styled_width};
use crate::screens::ScreenContext;
use crate::screens::logs::role;
use crate::state::call_details::named;
use crate::state::feed::CallSeen;
use crate::state::line::{LogLevel, LogLine};
use crate::theme::{Role, Theme};
use crate::widgets::Card;
use crate::widgets::chart::{ChartModel, LineChart, TimeRange};
use crate::widgets::decision::WHOLE_GOLEM;
use crate::widgets::paint::{Row, cut, wrapped};
use bardo_base::fabric::{MemoryHits, Vitals};
use bardo_base::model::Phase;
use bardo_base::text::{fit, width};
use bardo_base::units::Usd;

/// Width from which rows end with a blank, in columns.
const ROOMY: u16 = 81;
/// Height of the expanded card among the activity, in lines.
const EXPANDED: u16 = 5;

/// Areas of the panels. The charts have no lines on a low terminal.
pub(super) struct WidePlaces {
    now: Rect,
    pub activity: Rect,
    pub price: Rect,
    pub equity: Rect,
    pub events: Rect,
}

/// Computes the areas. With a third column, charts and events are drawn there, one below the other.
pub(super) fn places(known: &ScreenContext<'_>, area: Rect, side: Option<Rect>) -> WidePlaces {
    let now_height = now_rows(known, usize::from(area.width).saturating_sub(4), false).len();
    let now = u16::try_from(now_height).unwrap_or(2) + 1;
    if let Some(side) = side {
        let part = |at: u16| side.y + (side.height - 1) * at / 3;
        let third = |at: u16| Rect { y: part(at), height: part(at + 1) - part(at) + 1, ..side };
        return WidePlaces {
            now: Rect { height: (now + 1).min(area.height), ..area },
            activity: Rect { y: area.y + now.min(area.height), height: area.height.saturating_sub(now), ..area },
            price: third(0),
            equity: third(1),
            events: third(2),
        };
    }
    let tall = area.height >= 32;
    let charts: u16 = if tall { 5 } else { 0 };
    let events: u16 = if tall { 6 } else { 4 };
    let rest = area.height.saturating_sub(now + charts * 2 + events + 1);
    let mut y = area.y;
    let mut place = |height: u16| {
        if height == 0 {
            return Rect { y, height: 0, ..area };
        }
        let place = Rect { y, height: (height + 1).min(area.bottom().saturating_sub(y)), ..area };
        y = y.saturating_add(height);
        place
    };
    WidePlaces {
        now: place(now),
        activity: place(rest),
        price: place(charts),
        equity: place(charts),
        events: place(events),
    }
}

pub(super) fn draw(
    painter: &mut Painter<'_>,
    known: &ScreenContext<'_>,
    places: &WidePlaces,
    listing: &ActivityList<'_>,
    range: TimeRange,
    keys: LivePanel,
) {
    painter.render(NowPanel { theme: painter.theme, known }, places.now);
    painter.render(
        ActivityPanel { theme: painter.theme, known, listing, focus: keys == LivePanel::Activity },
        places.activity,
    );
    if places.price.height > 0 {
        painter
            .render(PricePanel { theme: painter.theme, known, range, focus: keys == LivePanel::Price }, places.price);
        painter.render(
            EquityPanel { theme: painter.theme, known, range, focus: keys == LivePanel::Equity },
            places.equity,
        );
    }
    painter.render(EventsPanel { theme: painter.theme, known, focus: keys == LivePanel::Events }, places.events);
}

/// Panel of the newest event lines.
pub(super) struct EventsPanel<'a> {
    pub(super) theme: &'a Theme,
    pub(super) known: &'a ScreenContext<'a>,
    pub(super) focus: bool,
}

impl Widget for EventsPanel<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, known, focus } = self;
        let painter = &mut Painter { buffer, theme };
        let right = [("l full log".to_owned(), Role::TextDim)];
        painter.frame(area, &[("Events".to_owned(), Role::Title)], &right, border(focus));
        painter.render(EventLines { theme: painter.theme, known }, inside(area));
    }
}

const fn border(focus: bool) -> Role {
    if focus { Role::BorderFocus } else { Role::Border }
}

/// Rows of the current and the next step, and below them the caption of a scenario, wrapped to `columns`.
pub(super) fn now_rows(known: &ScreenContext<'_>, columns: usize, narrow: bool) -> Vec<Row> {
    let mut rows = plain_rows(known, narrow);
    if let (Some(why), None) = (known.ready.and_then(|ready| ready.not_attached.as_ref()), &known.feed.now) {
        rows.truncate(1);
        rows.extend(wrapped(vec![Row::new(why.as_str(), Role::Text)], columns.max(20)));
    }
    if let Some(caption) = &known.feed.caption {
        let spoken = Row::new("▷ ", Role::Key).then(caption.text.as_str(), Role::TextAgent);
        rows.extend(wrapped(vec![spoken], columns.max(20)));
        // Pads to a constant height, so that the panels below do not move with the length of the caption.
        while rows.len() < CAPTIONED {
            rows.push(Row::default());
        }
    }
    rows
}

/// Minimum number of lines of this panel while a caption is shown.
const CAPTIONED: usize = 4;

/// Delegation path of the current step, such as `Ada › trade-executor › safety-guardian`. `None` without a subagent.
fn delegation(known: &ScreenContext<'_>) -> Option<String> {
    let roles = &known.feed.now.as_ref()?.delegation;
    let name = known.ready.map_or("It", |ready| ready.name.as_str());
    let mut roles = roles.iter().map(|role| role.as_str()).filter(|role| *role != WHOLE_GOLEM).peekable();
    roles.peek()?;
    Some(std::iter::once(name).chain(roles).collect::<Vec<_>>().join(" › "))
}

/// Rows of the current and the next step. `narrow` means that there is no frame to show the labels and the delegation.
fn plain_rows(known: &ScreenContext<'_>, narrow: bool) -> Vec<Row> {
    let Some(now) = &known.feed.now else {
        let attached = known.ready.is_some_and(|ready| ready.served);
        let words = match (attached, known.watch_only) {
            (true, _) => "Nothing was reported yet.",
            (false, true) => "No Golem runs here: this console is read-only.",
            (false, false) => "Starting.",
        };
        return vec![Row::new(words, Role::TextDim), Row::default()];
    };
    // Without a frame, the first line carries the label.
    let label = if narrow { Row::new("Now  ", Role::TextDim) } else { Row::default() };
    let mut first = label.then(now.now.as_str(), Role::TextStrong);
    if let Some((at, of)) = now.step {
        first = first.end(format!("step {at} of {of}"), Role::TextDim);
    }
    let mut second = match now.next.is_empty() {
        true if narrow => Row::new("Next not decided yet.", Role::TextDim),
        true => Row::new("Next: not decided yet.", Role::TextDim),
        false => Row::new(if narrow { "Next " } else { "Next: " }, Role::TextDim).then(now.next.as_str(), Role::Text),
    };
    let chain = delegation(known).filter(|_| narrow);
    // In the narrow layout, the delegation replaces a memory note that changed nothing.
    let height = |memory: &&MemoryHits| memory.similar > 0 && (chain.is_none() || !memory.changes.is_empty());
    if let Some(memory) = known.feed.memory.as_ref().filter(height) {
        let changed = if memory.changes.is_empty() { "" } else { ", changed it" };
        second = second.end(format!("memory: {} similar{changed}", memory.similar), Role::TextDim);
    } else if let Some(chain) = chain {
        second = second.end(chain, Role::TextDim);
    }
    vec![first, second]
}

/// Panel of the current and the next step.
struct NowPanel<'a> {
    theme: &'a Theme,
    known: &'a ScreenContext<'a>,
}

impl Widget for NowPanel<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, known } = self;
        let painter = &mut Painter { buffer, theme };
        let room = usize::from(area.width).saturating_sub(12);
        let asks = delegation(known).map(|chain| (fit(&chain, room).into_owned(), Role::TextDim));
        let asks: Vec<StyledText> = asks.into_iter().collect();
        painter.frame(area, &[("Now".to_owned(), Role::Title)], &asks, Role::Border);
        let inner = inside(area);
        let columns = usize::from(inner.width).saturating_sub(2);
        for (at, row) in (0..inner.height).zip(now_rows(known, columns, false)) {
            let place = line(inner, at);
            let place = Rect { x: place.x + 1, width: place.width.saturating_sub(2), ..place };
            painter.row(place, &row.left, &row.right);
        }
    }
}

/// Panel of the activity.
pub(super) struct ActivityPanel<'a> {
    pub(super) theme: &'a Theme,
    pub(super) known: &'a ScreenContext<'a>,
    pub(super) listing: &'a ActivityList<'a>,
    pub(super) focus: bool,
}

impl Widget for ActivityPanel<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, known, listing, focus } = self;
        let painter = &mut Painter { buffer, theme };
        painter.frame(area, &[("Activity".to_owned(), Role::Title)], &listing.filter, border(focus));
        painter.render(CallList { theme: painter.theme, known, listing }, inside(area));
    }
}

/// Areas of the calls by their index in the list: one line each. The selected call, else the newest open one, is a
/// card.
pub(super) fn call_places(area: Rect, listing: &ActivityList<'_>) -> Vec<(usize, Rect)> {
    let at = listing.selected.and_then(|id| listing.calls.iter().position(|call| call.call_id == id));
    let open = match at {
        Some(at) => Some(at),
        None => listing.calls.iter().position(|call| call.standing().is_open()),
    };
    let open = open.filter(|_| listing.expand && area.height >= EXPANDED + 2);
    let room = usize::from(area.height);
    let taken = |from: usize, to: usize| {
        (from..=to).map(|one| if Some(one) == open { usize::from(EXPANDED) } else { 1 }).sum::<usize>()
    };
    let target = at.unwrap_or(0);
    let mut skip = 0;
    while skip < target && taken(skip, target) > room {
        skip += 1;
    }
    let mut y = area.y;
    let mut places = Vec::new();
    for place in skip..listing.calls.len() {
        let left = area.bottom().saturating_sub(y);
        if left == 0 {
            break;
        }
        let height = if Some(place) == open && left >= EXPANDED { EXPANDED } else { 1 };
        places.push((place, Rect { y, height, ..area }));
        y += height;
    }
    places
}

/// List of calls, newest first. The selected one, else the newest open one, is a card.
pub(super) struct CallList<'a> {
    pub(super) theme: &'a Theme,
    pub(super) known: &'a ScreenContext<'a>,
    pub(super) listing: &'a ActivityList<'a>,
}

impl Widget for CallList<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, known, listing } = self;
        let painter = &mut Painter { buffer, theme };
        if listing.calls.is_empty() {
            let all = known.feed.activity().next().is_none();
            return nothing(
                painter,
                area,
                if all { " nothing yet" } else { " nothing matches the filter; Esc clears it" },
            );
        }
        for (place, rect) in call_places(area, listing) {
            if let Some(call) = listing.calls.get(place) {
                painter.render(CallRow { theme: painter.theme, known, call, listing }, rect);
            }
        }
    }
}

/// Call of the activity: its card, or a line if its start was missed.
struct CallRow<'a> {
    theme: &'a Theme,
    known: &'a ScreenContext<'a>,
    call: &'a CallSeen,
    listing: &'a ActivityList<'a>,
}

impl Widget for CallRow<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, known, call, listing } = self;
        let painter = &mut Painter { buffer, theme };
        let mark = if Some(call.call_id) == listing.selected { "▸" } else { " " };
        painter.pieces(Rect { height: 1, width: 1, ..area }, &[(mark.to_owned(), Role::Key)]);
        let margin = if area.width >= ROOMY { 2 } else { 1 };
        let place = Rect { x: area.x + 1, width: area.width.saturating_sub(margin), ..area };
        match &call.card {
            Some(card) => painter.render(Card::new(card, painter.theme, known.moment()).keys(listing.keys), place),
            None => {
                let standing = call.standing();
                let (mark, words) = standing.mark();
                let pieces: [StyledText; 3] = [
                    (format!("{} ", time_of_day(call.started_at / 1000)), Role::TextDim),
                    (format!("{mark} "), status_role(standing)),
                    (format!("{} {words}", named(call)), Role::Text),
                ];
                painter.pieces(place, &pieces);
            }
        }
    }
}

/// Panel of the price chart.
pub(super) struct PricePanel<'a> {
    pub(super) theme: &'a Theme,
    pub(super) known: &'a ScreenContext<'a>,
    pub(super) range: TimeRange,
    pub(super) focus: bool,
}

impl Widget for PricePanel<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, known, range, focus } = self;
        let painter = &mut Painter { buffer, theme };
        let points = known.feed.prices.iter().copied().collect();
        let (marks, mut legend) = known.feed.trade_marks();
        // Holdings are valued by the feed, which moves in steps.
        if let Some(pips) = known.feed.price_pool {
            legend.push_str(&format!(" · {} pool", fee(pips)));
        }
        let mut model = ChartModel { points, marks, legend, unit: "", places: 2, range, least_span_bps: 5 };
        let right = model.newest(known.moment());
        let title = titled(format!("ETH/USDC {}", range.describe()), &mut model.legend, &right, area.width);
        painter.frame(area, &title, &right, border(focus));
        painter.render(LineChart::new(&model, painter.theme, known.moment()), roomy(area));
    }
}

/// Title of a chart with as much of its legend as fits: all of it, or its last part. The rest stays in `legend`.
fn titled(title: String, legend: &mut String, right: &[StyledText], columns: u16) -> Vec<StyledText> {
    let mut pieces = vec![(title, Role::Title)];
    // Corners, dashes, and the blanks around both ends.
    let taken = styled_width(&pieces) + styled_width(right) + 12;
    let room = usize::from(columns).saturating_sub(taken);
    let (before, last) = legend.rsplit_once(" · ").unwrap_or(("", legend.as_str()));
    let (rest, shown) = match (width(legend.as_str()) <= room, width(last) <= room) {
        (true, _) => ("", legend.as_str()),
        (false, true) => (before, last),
        (false, false) => (legend.as_str(), ""),
    };
    if !shown.is_empty() {
        pieces.push((format!("  {shown}"), Role::TextDim));
    }
    *legend = rest.to_owned();
    pieces
}

/// Area inside a frame, with one blank column at each side.
fn roomy(area: Rect) -> Rect {
    let inner = inside(area);
    Rect { x: inner.x + 1, width: inner.width.saturating_sub(2), ..inner }
}

/// Panel of the equity chart.
pub(super) struct EquityPanel<'a> {
    pub(super) theme: &'a Theme,
    pub(super) known: &'a ScreenContext<'a>,
    pub(super) range: TimeRange,
    pub(super) focus: bool,
}

impl Widget for EquityPanel<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, known, range, focus } = self;
        let painter = &mut Painter { buffer, theme };
        let mut model = equity_model(known, range);
        let right = model.newest(known.moment());
        // The Golem measured it, so that the curve ends with the Golem; the header goes on.
        let ended = if known.feed.phase == Some(Phase::Terminal) { ", until the Golem died" } else { "" };
        let title = titled(format!("Equity {}{ended}", range.describe()), &mut model.legend, &right, area.width);
        painter.frame(area, &title, &right, border(focus));
        painter.render(LineChart::new(&model, painter.theme, known.moment()), roomy(area));
    }
}

/// Chart of the Golem's equity, with its trades marked and the level of its stop-loss in the legend.
pub(in crate::screens) fn equity_model(known: &ScreenContext<'_>, range: TimeRange) -> ChartModel {
    let (marks, mut legend) = known.feed.trade_marks();
    if let Some(stops) = stops_words(known) {
        legend = format!("{legend} · {stops}");
    }
    let points = known.feed.equity.iter().map(|(at, equity)| (*at, equity.decimal())).collect();
    ChartModel { points, marks, legend, unit: "$", places: 2, range, least_span_bps: 100 }
}

/// Stop-loss levels for the legend, in whole dollars; `None` if none is known. The stop-loss is checked for each chain
/// separately: with several chains each has its own level, and the curve shows none of them.
fn stops_words(known: &ScreenContext<'_>) -> Option<String> {
    let stops = known.limits().map(|limits| limits.stop_losses.as_slice()).unwrap_or_default();
    let marked: Vec<_> = stops.iter().filter(|one| one.high_water > Usd::ZERO).collect();
    match (stops, marked.as_slice()) {
        ([], _) => {
            // A recording before version 4.
            let stop = known.feed.vitals.as_ref().and_then(stop_loss)?;
            Some(format!("stop-loss at {}", whole_dollars(stop)))
        }
        (_, []) => None,
        ([_], [one]) => Some(format!("stop-loss at {}", whole_dollars(one.stops_at))),
        (_, many) => {
            let each = many.iter().map(|one| format!("{} at {}", one.chain, whole_dollars(one.stops_at)));
            Some(format!("stop-loss on {}", each.collect::<Vec<_>>().join(", ")))
        }
    }
}

/// The worth at which the stop-loss acts, for a recording that has no figures by chain.
fn stop_loss(vitals: &Vitals) -> Option<Usd> {
    let most = vitals.high_water?.decimal();
    let left = Decimal::from(10_000_u64.checked_sub(vitals.stop_loss_bps)?).checked_div(Decimal::from(10_000))?;
    most.checked_mul(left)?.round_dp(2).to_string().parse().ok()
}

/// Newest important event lines, two in one line where they fit.
pub(super) struct PackedEvents<'a> {
    pub(super) theme: &'a Theme,
    pub(super) known: &'a ScreenContext<'a>,
}

impl Widget for PackedEvents<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, known } = self;
        let painter = &mut Painter { buffer, theme };
        let mut lines = known.feed.lines_from(LogLevel::Plain).peekable();
        for at in 0..area.height {
            let Some(one) = lines.next() else { return };
            let mut pieces = event_pieces(one);
            if let Some(other) = lines.next_if(|other| {
                styled_width(&pieces) + 2 + styled_width(&event_pieces(other)) <= usize::from(area.width)
            }) {
                pieces.push(("  ".to_owned(), Role::TextDim));
                pieces.extend(event_pieces(other));
            }
            painter.pieces(line(area, at), &cut(&pieces, usize::from(area.width)));
        }
    }
}

fn event_pieces(one: &LogLine) -> Vec<StyledText> {
    vec![(format!(" {} ", time_of_day(one.at / 1000)), Role::TextDim), (one.text.to_string(), role(one.level))]
}

/// Newest important event lines.
pub(super) struct EventLines<'a> {
    pub(super) theme: &'a Theme,
    pub(super) known: &'a ScreenContext<'a>,
}

impl Widget for EventLines<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, known } = self;
        let painter = &mut Painter { buffer, theme };
        let lines = known.feed.lines_from(LogLevel::Plain).take(usize::from(area.height));
        for (at, one) in (0..area.height).zip(lines) {
            painter.pieces(line(area, at), &cut(&event_pieces(one), usize::from(area.width)));
        }
    }
}
