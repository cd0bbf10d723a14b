//! Left column of screen 1: the Golem, approval requests, limits, holdings, thoughts, and the summary of an absence.

mod golem;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::widgets::Widget;

pub(super) use golem::FaceLine;
use golem::GolemPanel;

use super::{LivePanel, PanelFocus, inside, nothing};
use crate::format::{age, amount, dollars, whole_dollars, whole_dollars_used, whole_percents};
use crate::painter::{Painter, StyledText, line, styled_width};
use crate::screens::ScreenContext;
use crate::state::away::Summary;
use crate::state::feed::CallStatus;
use crate::theme::{Role, Theme};
use crate::widgets::bridge::is_over;
use crate::widgets::decision::{question_brief, question_line};
use crate::widgets::figure::{paid, readable};
use crate::widgets::gauge::{FullMeaning, Gauge, GaugeLine};
use crate::widgets::paint::{Row, cut, wrapped};
use crate::widgets::words;
use bardo_base::fabric::{IntentStatus, IntentUpdate, OrderUpdate};
use bardo_base::text::{SafeText, fit, width};
use bardo_base::units::{Rounding, Usd};
use bardo_session::handle::{BreakerState, LimitUsage, SpendState};
use bardo_session::market::MoneyKind;
use bardo_session::questions::Question;

/// Index of the approval request panel in [`places`].
const QUESTIONS: usize = 1;
/// Index of the absence summary panel in [`places`].
const ABSENCE: usize = 5;

/// Areas of the panels, top to bottom. Each gets its full height where there is room. A smaller terminal shrinks the
/// last panels first.
fn places(known: &ScreenContext<'_>, area: Rect) -> Vec<(usize, Rect)> {
    let waiting = u16::try_from(known.questions.len()).unwrap_or(u16::MAX).clamp(1, 3);
    let held = u16::try_from(holding_count(known)).unwrap_or(u16::MAX).clamp(1, 7);
    let thoughts = 3;
    let wanted: [(u16, u16); 6] = [(9, 4), (waiting * 2 + 1, 2), (6, 3), (held + 1, 2), (thoughts + 1, 0), (4, 0)];
    let away = known.away.is_some();
    let mut heights: Vec<u16> = wanted.iter().map(|(most, _)| *most).collect();
    if !away {
        heights.pop();
    }
    // The frame of the last panel needs one more line.
    let total = |heights: &[u16]| heights.iter().copied().fold(1_u16, u16::saturating_add);
    for at in (0..heights.len()).rev() {
        let over = total(&heights).saturating_sub(area.height);
        if let (Some(height), Some((_, least))) = (heights.get_mut(at), wanted.get(at)) {
            *height = height.saturating_sub(over.min(height.saturating_sub(*least)));
            if *height == 1 {
                *height = 0;
            }
        }
    }
    // Spare lines go to the thoughts.
    let spare = area.height.saturating_sub(total(&heights));
    if let Some(thoughts) = heights.get_mut(4) {
        *thoughts = thoughts.saturating_add(spare);
    }
    let mut y = area.y;
    let mut places = Vec::new();
    for (at, height) in heights.iter().enumerate().filter(|(_, height)| **height > 0) {
        places.push((at, Rect { y, height: height.saturating_add(1).min(area.bottom().saturating_sub(y)), ..area }));
        y = y.saturating_add(*height);
    }
    places
}

/// Returns true if the summary of an absence is shown with at least one line of content.
pub(super) fn shows_absence(known: &ScreenContext<'_>, area: Rect) -> bool {
    known.away.is_some() && places(known, area).iter().any(|(panel, place)| *panel == ABSENCE && place.height > 3)
}

/// Index of the approval request that is drawn at a position.
pub(super) fn question_at(known: &ScreenContext<'_>, area: Rect, at: Position) -> Option<usize> {
    let (_, place) =
        places(known, area).into_iter().find(|(panel, place)| *panel == QUESTIONS && place.contains(at))?;
    let inner = inside(place);
    let row = usize::from(at.y.checked_sub(inner.y)?);
    let mut y = 0;
    for (index, one) in known.questions.iter().enumerate() {
        let lines = 1 + usize::from(second_line(one, 0).is_some());
        if (y..y + lines).contains(&row) {
            return Some(index);
        }
        y += lines;
    }
    None
}

/// Draws the left column.
pub(super) fn draw(painter: &mut Painter<'_>, known: &ScreenContext<'_>, area: Rect, keys: PanelFocus) {
    for (at, place) in places(known, area) {
        match at {
            0 => painter.render(GolemPanel { theme: painter.theme, known }, place),
            QUESTIONS => painter.render(WaitingPanel { theme: painter.theme, known, keys }, place),
            2 => painter
                .render(LimitsPanel { theme: painter.theme, known, focus: keys.panel == LivePanel::Limits }, place),
            3 => painter
                .render(HoldingPanel { theme: painter.theme, known, focus: keys.panel == LivePanel::Holding }, place),
            4 => painter
                .render(ThoughtsPanel { theme: painter.theme, known, focus: keys.panel == LivePanel::Thoughts }, place),
            _ => painter.render(AbsencePanel { theme: painter.theme, known }, place),
        }
    }
}

fn frame(painter: &mut Painter<'_>, area: Rect, title: &str, focus: bool) -> Rect {
    let border = if focus { Role::BorderFocus } else { Role::Border };
    painter.frame(area, &[(title.to_owned(), Role::Title)], &[], border);
    let inner = inside(area);
    Rect { x: inner.x + 1, width: inner.width.saturating_sub(2), ..inner }
}

/// Panel of the approval requests that wait for the operator.
pub(super) struct WaitingPanel<'a> {
    pub(super) theme: &'a Theme,
    pub(super) known: &'a ScreenContext<'a>,
    pub(super) keys: PanelFocus,
}

impl Widget for WaitingPanel<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, known, keys } = self;
        let painter = &mut Painter { buffer, theme };
        let at_keys = if keys.panel == LivePanel::Waiting { keys.question } else { 0 };
        let title = match known.questions.len() {
            0 => "Waiting for you".to_owned(),
            many => format!("Waiting for you {many}"),
        };
        let inner = frame(painter, area, &title, keys.panel == LivePanel::Waiting);
        if known.questions.is_empty() {
            let words = match known.snapshot.is_some_and(|snapshot| snapshot.stop.is_some()) {
                _ if known.replayed() => "not part of a recording",
                true => "nothing: a stop is in force",
                false => "nothing: all within limits",
            };
            return nothing(painter, inner, words);
        }
        let mut y = 0;
        for (at, one) in known.questions.iter().enumerate() {
            if y >= inner.height {
                break;
            }
            painter.render(BriefRequest { theme: painter.theme, known, at, here: at == at_keys, one }, line(inner, y));
            y += 1;
            let room = usize::from(inner.width).saturating_sub(4);
            if let (Some(words), true) = (second_line(one, room), y < inner.height) {
                let late: Vec<StyledText> = match one.ends_at {
                    None if width(&words) + 9 < room => vec![("no limit".to_owned(), Role::TextDim)],
                    _ => Vec::new(),
                };
                let words = fit(&words, room).into_owned();
                painter.row(line(inner, y), &[(format!("    {words}"), Role::TextDim)], &late);
                y += 1;
            }
        }
        let hidden = known.questions.len().saturating_sub(usize::from(inner.height).div_ceil(2));
        if hidden > 0 && inner.height > 0 {
            let words = format!("… {hidden} more: a, then n");
            painter.pieces(line(inner, inner.height - 1), &[(words, Role::StateCare)]);
        }
    }
}

/// Second line of an approval request: a note if it passes without an answer, else its first reason.
fn second_line(one: &Question, room: usize) -> Option<String> {
    if one.passes_by_itself {
        return Some("goes ahead unless rejected".to_owned());
    }
    one.reasons.first().map(|reason| readable(&words::reason_in(reason, room), 2))
}

/// Short line of an approval request: description, whole dollars and time left. The figures are never cut.
struct BriefRequest<'a> {
    theme: &'a Theme,
    known: &'a ScreenContext<'a>,
    at: usize,
    here: bool,
    one: &'a Question,
}

impl Widget for BriefRequest<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, known, at, here, one } = self;
        let painter = &mut Painter { buffer, theme };
        // A request without a deadline says so in its second line, because the first has no room for it.
        let (_, right) = question_line(one, known.live(), area.width.into());
        let right = if one.ends_at.is_some() { right } else { Vec::new() };
        let mark = if here { "▸" } else { " " };
        let first = format!("{mark}{} ", at + 1);
        let worth = one.value.map(|value| format!(" {}", whole_dollars(value))).unwrap_or_default();
        let room = usize::from(area.width).saturating_sub(width(&first) + width(&worth) + styled_width(&right) + 1);
        let title = fit(&question_brief(one), room).into_owned();
        painter.row(area, &[(first, Role::StateCare), (title, Role::Text), (worth, Role::TextStrong)], &right);
    }
}

/// Line of an approval request, with its reason beside it where there is room.
pub(super) struct RequestLine<'a> {
    pub(super) theme: &'a Theme,
    pub(super) known: &'a ScreenContext<'a>,
    pub(super) at: usize,
    pub(super) one: &'a Question,
    pub(super) reason: bool,
}

impl Widget for RequestLine<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, known, at, one, reason } = self;
        let painter = &mut Painter { buffer, theme };
        let (mut left, right) = question_line(one, known.live(), area.width.into());
        let mark = if at == 0 { "▸" } else { " " };
        let mut pieces = vec![(format!("{mark}{} ", at + 1), Role::StateCare)];
        let mut room = usize::from(area.width).saturating_sub(4 + styled_width(&right));
        // The reason matters more than the figures of the request, so the description is shortened first.
        let why = one.reasons.first().filter(|_| reason).map(|why| words::reason_in(why, 0));
        let brief = question_brief(one);
        let crowded = why.is_some_and(|why| styled_width(&left) + width(&why) + 4 > room);
        if let Some((title, _)) = left.first_mut().filter(|(title, _)| crowded && width(&brief) < width(title)) {
            *title = brief;
        }
        // Keeps room for the figure, which a long title would push out.
        let figure = left.get(1).map(|(text, _)| bardo_base::text::width(text)).unwrap_or(0);
        for (place, (text, role)) in left.into_iter().enumerate() {
            let most = if place == 0 { room.saturating_sub(figure) } else { room };
            let text = fit(&text, most).into_owned();
            room = room.saturating_sub(bardo_base::text::width(&text));
            pieces.push((text, role));
        }
        // In a space this short the reason would be cut to a word, so it is dropped.
        if let (true, Some(why)) = (reason && room > 12, one.reasons.first()) {
            let room = room.saturating_sub(4);
            let words = readable(&words::reason_in(why, room), 2);
            pieces.push((format!("   {}", fit(&words, room)), Role::TextDim));
        }
        painter.row(area, &pieces, &right);
    }
}

/// Amount in whole cents, for a gauge.
fn scaled(value: Usd) -> Option<u128> {
    value.scaled(2, Rounding::Down)
}

fn spend_gauge(label: &str, now: SpendState) -> Gauge {
    let level = now.limit.and_then(|limit| Some((scaled(now.used)?, scaled(limit)?)));
    let words = match now.limit {
        Some(limit) => format!("{}/{}", whole_dollars_used(now.used), whole_dollars(limit)),
        None => format!("{} no limit", whole_dollars_used(now.used)),
    };
    Gauge { label: label.to_owned(), level: level.or(Some((0, 1))), words, full: FullMeaning::Bad }
}

/// Limit of a single action. It has no gauge, because several actions share the reserved amount.
fn one_words(limits: &LimitUsage, before: &str) -> String {
    limits.one.map_or_else(|| "no limit".to_owned(), |limit| format!("{before} {}", whole_dollars(limit)))
}

fn limit_gauges(limits: &LimitUsage) -> [Gauge; 2] {
    let (used, most) = limits.calls;
    let calls = Gauge {
        label: "calls".to_owned(),
        level: Some((used.into(), most.max(1).into())),
        words: format!("{used}/{most} a min"),
        full: FullMeaning::Bad,
    };
    [spend_gauge("today", limits.day), calls]
}

fn breaker_words(limits: &LimitUsage, now: u64) -> StyledText {
    match limits.breaker {
        BreakerState::Closed { .. } => ("closed".to_owned(), Role::Text),
        BreakerState::Open { until, .. } => (format!("OPEN {}", age(until.saturating_sub(now) / 1000)), Role::StateBad),
        BreakerState::OneTrial => ("one trial allowed".to_owned(), Role::StateCare),
    }
}

/// Panel of the policy limits and their use.
pub(super) struct LimitsPanel<'a> {
    pub(super) theme: &'a Theme,
    pub(super) known: &'a ScreenContext<'a>,
    pub(super) focus: bool,
}

impl Widget for LimitsPanel<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, known, focus } = self;
        let painter = &mut Painter { buffer, theme };
        let title = known.policy().map_or_else(
            || "Limits".to_owned(),
            |policy| format!("Limits · policy {} v{}", policy.name, policy.version),
        );
        let inner = frame(painter, area, &title, focus);
        let Some(limits) = known.limits() else {
            return match known.snapshot {
                Some(snapshot) => {
                    let why = snapshot.fault.as_ref().map_or("no account here", |fault| fault.as_str());
                    painter.row(line(inner, 0), &[(format!("▲ {why}"), Role::StateBad)], &[]);
                }
                None => nothing(painter, inner, unknown_words(known)),
            };
        };
        let [day, calls] = limit_gauges(limits);
        painter.render(GaugeLine::new(&day, painter.theme, 7), line(inner, 0));
        painter.row(
            line(inner, 1),
            &[("one action".to_owned(), Role::TextDim)],
            &[(one_words(limits, "up to"), Role::Text)],
        );
        painter.render(GaugeLine::new(&calls, painter.theme, 7), line(inner, 2));
        let (words, role) = breaker_words(limits, known.now_millis);
        let left = [("breaker ".to_owned(), Role::TextDim), (words, role)];
        let right = [("reserved ".to_owned(), Role::TextDim), (whole_dollars_used(limits.reserved), Role::Text)];
        painter.row(line(inner, 3), &left, &right);
        // A recording has no list of standing approvals.
        let Some(snapshot) = known.snapshot else { return };
        let grants = |many: String, role| [("standing approvals  ".to_owned(), Role::TextDim), (many, role)];
        let (last, key) = match (&snapshot.fault, snapshot.grants.len()) {
            (Some(fault), _) => ([("▲ ".to_owned(), Role::StateBad), (fault.to_string(), Role::StateBad)], ""),
            (None, 0) => (grants("none".to_owned(), Role::Text), ""),
            (None, many) => (grants(many.to_string(), Role::StateCare), "5 lists"),
        };
        painter.row(line(inner, 4), &last, &[(key.to_owned(), Role::TextDim)]);
    }
}

/// Placeholder for an unknown value: a recording never has it, a session does not have it yet.
const fn unknown_words(known: &ScreenContext<'_>) -> &'static str {
    match known.money {
        Some(MoneyKind::Replay) => "not in this recording",
        _ => "not known yet",
    }
}

/// Line of the policy limits for narrow terminals.
pub(super) struct LimitLine<'a> {
    pub(super) theme: &'a Theme,
    pub(super) known: &'a ScreenContext<'a>,
}

impl Widget for LimitLine<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, known } = self;
        let painter = &mut Painter { buffer, theme };
        let Some(limits) = known.limits() else {
            return nothing(painter, area, &format!("Limits {}", unknown_words(known)));
        };
        let mut pieces = Vec::new();
        for (at, gauge) in limit_gauges(limits).into_iter().enumerate() {
            if at == 1 {
                pieces.push(("one ".to_owned(), Role::TextDim));
                pieces.push((format!("{}  ", one_words(limits, "≤")), Role::Text));
            }
            let (_, role) = gauge.severity();
            pieces.push((format!("{} ", gauge.label), Role::TextDim));
            // The call rate matters least, so it has no bar.
            if area.width >= 78 && at == 0 {
                pieces.extend(gauge.bar(7));
                pieces.push((" ".to_owned(), Role::Text));
            }
            let words = gauge.words.trim_end_matches(" a min").to_owned();
            pieces.push((format!("{words}  "), if role == Role::StateGood { Role::Text } else { role }));
        }
        let (words, role) = breaker_words(limits, known.now_millis);
        pieces.push(("breaker ".to_owned(), Role::TextDim));
        pieces.push((if role == Role::Text { "ok".to_owned() } else { words }, role));
        painter.pieces(area, &cut(&pieces, usize::from(area.width)));
    }
}

/// Symbol, amount and dollar value of each holding over all chains, largest value first.
fn holdings(known: &ScreenContext<'_>) -> Vec<(String, String, Option<Usd>)> {
    let Some(snapshot) = known.snapshot else { return Vec::new() };
    let many = snapshot.holdings.len() > 1;
    let first = snapshot.holdings.first().map(|chain| chain.chain_id);
    let mut rows: Vec<(String, String, Option<Usd>)> = Vec::new();
    for chain in &snapshot.holdings {
        for row in chain.rows.iter().filter(|row| !row.amount.raw().is_zero()) {
            let on = if many && Some(chain.chain_id) != first { format!(" {}", chain.chain) } else { String::new() };
            // Truncated without a mark; screen 4 shows all digits.
            let lines = |places| amount(row.amount, places).trim_end_matches('…').to_owned();
            let held = [4, 2].into_iter().map(lines).find(|lines| width(lines) <= 9).unwrap_or_else(|| lines(0));
            rows.push((format!("{}{on}", row.symbol), held, row.value));
        }
        for position in &chain.positions {
            let on = if many && Some(chain.chain_id) != first { format!(" {}", chain.chain) } else { String::new() };
            rows.push((format!("{}{on}", position.name), position.pair.to_string(), position.value));
        }
    }
    rows.sort_by_key(|(_, _, value)| std::cmp::Reverse(*value));
    rows
}

/// Column at which the amounts of the holdings begin.
const AMOUNT_AT: usize = 10;

/// Line of the holdings: a held token, or the part of it that is leaving.
enum HoldingLine<'a> {
    Held(String, String, Option<Usd>),
    /// Payment of a token that has a line, or of another one.
    OnItsWay(Payment<'a>, IsHeld),
}

/// True if the token of a payment has a line of its own above.
type IsHeld = bool;

/// Signed and unsettled payment.
enum Payment<'a> {
    Auction(&'a OrderUpdate),
    Bridge(&'a IntentUpdate),
    Swap { amount: &'a str, symbol: SafeText },
}

impl Payment<'_> {
    /// Symbol of the paid token.
    fn symbol(&self) -> &str {
        match self {
            Self::Auction(order) => order.token_in.symbol.as_str(),
            Self::Bridge(intent) => intent.token_in.symbol.as_str(),
            Self::Swap { symbol, .. } => symbol.as_str(),
        }
    }

    /// Texts of the payment, the longest first. "More" marks an amount that has left the wallet, so that the figure above
    /// does not contain it.
    fn in_two_widths(&self) -> [String; 2] {
        let both = |words: String| [words.clone(), words];
        match self {
            // The tokens stay in the wallet, and in its figure, until a filler takes them.
            Self::Auction(order) => {
                let kind = if order.is_limit() { "a limit order" } else { "an auction" };
                both(format!("{} in {kind}", paid(&order.amount_in)))
            }
            Self::Swap { amount, .. } => both(format!("{} being sold", paid(amount))),
            Self::Bridge(intent) => {
                let (amount, to) = (paid(&intent.amount_in), &intent.destination_chain);
                match intent.status {
                    IntentStatus::Pending => [format!("{amount} leaving for {to}"), format!("{amount} leaving")],
                    IntentStatus::Filling | IntentStatus::Filled => {
                        [format!("{amount} more on its way to {to}"), format!("{amount} more on its way")]
                    }
                    IntentStatus::Expired | IntentStatus::Refunded => {
                        [format!("{amount} more to be refunded"), format!("{amount} to refund")]
                    }
                }
            }
        }
    }
}

/// Payments that are signed and unsettled. There may be thousands, and few have a line, so their texts are not built here.
fn unsettled_payments<'a>(known: &ScreenContext<'a>) -> impl Iterator<Item = Payment<'a>> + use<'a> {
    let feed = known.feed;
    let orders = feed.orders.iter().map(|(_, order)| order).filter(|order| !order.status.is_final());
    let intents = feed.intents.iter().map(|(_, intent)| intent).filter(|intent| !is_over(intent));
    // Auctions and bridge orders are listed already.
    let swaps = feed.calls.iter().filter(|call| call.tool() == "uniswap_execute_swap");
    let swaps = swaps.filter(|call| call.standing() == CallStatus::Sent).filter_map(|call| {
        let params = call.start.as_ref()?.params.value();
        let text = |name: &str| params.get(name).and_then(|value| value.as_str());
        text("token_out")?;
        Some(Payment::Swap { amount: text("amount")?, symbol: SafeText::clean(text("token_in")?, 20) })
    });
    orders.map(Payment::Auction).chain(intents.map(Payment::Bridge)).chain(swaps)
}

fn holding_lines<'a>(known: &ScreenContext<'a>) -> Vec<HoldingLine<'a>> {
    let mut moving: Vec<Payment<'a>> = unsettled_payments(known).collect();
    let mut lines = Vec::new();
    for (symbol, held, value) in holdings(known) {
        let below: Vec<_> = moving.extract_if(.., |payment| payment.symbol() == symbol).collect();
        lines.push(HoldingLine::Held(symbol, held, value));
        lines.extend(below.into_iter().map(|payment| HoldingLine::OnItsWay(payment, true)));
    }
    // Tokens that are no longer held but still leaving.
    lines.extend(moving.into_iter().map(|payment| HoldingLine::OnItsWay(payment, false)));
    lines
}

/// Number of lines of [`holding_lines`], without building them.
fn holding_count(known: &ScreenContext<'_>) -> usize {
    let chains = known.snapshot.into_iter().flat_map(|snapshot| &snapshot.holdings);
    let held = chains.flat_map(|chain| &chain.rows).filter(|row| !row.amount.raw().is_zero());
    let positions = known.snapshot.into_iter().flat_map(|snapshot| &snapshot.holdings);
    let positions = positions.fold(0, |sum, chain| sum + chain.positions.len());
    held.count() + positions + unsettled_payments(known).count()
}

/// Panel of the largest confirmed holdings.
pub(super) struct HoldingPanel<'a> {
    pub(super) theme: &'a Theme,
    pub(super) known: &'a ScreenContext<'a>,
    pub(super) focus: bool,
}

impl Widget for HoldingPanel<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, known, focus } = self;
        let painter = &mut Painter { buffer, theme };
        let inner = frame(painter, area, "Holding, confirmed", focus);
        let rows = holding_lines(known);
        if rows.is_empty() {
            return nothing(painter, inner, if known.replayed() { unknown_words(known) } else { "loading…" });
        }
        let total = known.snapshot.and_then(|snapshot| snapshot.equity).and_then(scaled).unwrap_or(0);
        let worths = rows.iter().map(|row| match row {
            HoldingLine::Held(.., value) => value.and_then(scaled),
            HoldingLine::OnItsWay(..) => None,
        });
        let parts = whole_percents(&worths.collect::<Vec<_>>(), total);
        let room = usize::from(inner.height);
        let shown = if rows.len() > room { room.saturating_sub(1) } else { room };
        for ((at, row), part) in (0..).zip(rows.iter().take(shown)).zip(parts) {
            let (symbol, held, value) = match row {
                HoldingLine::Held(symbol, held, value) => (symbol, held, value),
                HoldingLine::OnItsWay(payment, is_held) => {
                    let whole = usize::from(inner.width);
                    let symbol = payment.symbol();
                    let texts =
                        payment.in_two_widths().map(|words| if *is_held { words } else { format!("{symbol} {words}") });
                    let [_, short] = &texts;
                    let words = texts.iter().find(|words| width(words) <= whole).unwrap_or(short);
                    // Below the amount, moved to the left as far as the text needs.
                    let indent = AMOUNT_AT.min(whole.saturating_sub(width(words)));
                    let left = [(" ".repeat(indent), Role::Text), (words.clone(), Role::StateCare)];
                    painter.pieces(line(inner, at), &cut(&left, usize::from(inner.width)));
                    continue;
                }
            };
            let share = part.map(|part| format!("{part:>3}%")).unwrap_or_default();
            let left = [(format!("{symbol:<9} "), Role::TextStrong), (format!("{held:>9}"), Role::Text)];
            // The value is rounded to whole dollars if cents do not fit.
            let room = usize::from(inner.width).saturating_sub(styled_width(&left) + width(&share) + 1);
            let mut worth = value.map_or_else(|| "no price".to_owned(), dollars);
            if let Some(value) = value
                && width(&worth) > room
            {
                worth = whole_dollars(*value);
            }
            painter.row(line(inner, at), &left, &[(worth, Role::Text), (share, Role::TextDim)]);
        }
        if rows.len() > shown && inner.height > 0 {
            let words = format!("… {} more on screen 4", rows.len() - shown);
            painter.pieces(line(inner, inner.height - 1), &[(words, Role::TextDim)]);
        }
    }
}

/// Panel of the newest words of the agent, which nothing has checked.
pub(super) struct ThoughtsPanel<'a> {
    pub(super) theme: &'a Theme,
    pub(super) known: &'a ScreenContext<'a>,
    pub(super) focus: bool,
}

impl Widget for ThoughtsPanel<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, known, focus } = self;
        let painter = &mut Painter { buffer, theme };
        let name = known.ready.map_or("The Golem", |ready| ready.name.as_str());
        let inner = frame(painter, area, &format!("{name} thinks (agent's words)"), focus);
        let columns = usize::from(inner.width).saturating_sub(2);
        let mut rows: Vec<Row> = Vec::new();
        for thought in known.feed.thoughts.iter().rev() {
            if rows.len() >= usize::from(inner.height) {
                break;
            }
            let mut thought_lines = wrapped(vec![Row::new(thought.text.as_str(), Role::TextAgent)], columns);
            thought_lines.extend(rows);
            rows = thought_lines;
        }
        let skip = rows.len().saturating_sub(usize::from(inner.height));
        for (at, row) in (0..).zip(rows.into_iter().skip(skip)) {
            let mut pieces = vec![("┆ ".to_owned(), Role::TextDim)];
            pieces.extend(row.left);
            painter.pieces(line(inner, at), &pieces);
        }
    }
}

/// Texts of an absence summary: title, trades with equity change and gas, failures, and phase changes.
fn absence(away: &Summary) -> (String, Vec<StyledText>, String, String) {
    let title = format!("While you were away {}", age(away.until.saturating_sub(away.since) / 1000));
    let counts = &away.counts;
    let change = away.equity.map(|(before, after)| match after.checked_sub(before) {
        Ok(more) => (format!("+{}", dollars(more)), Role::PriceUp),
        Err(_) => (format!("−{}", dollars(before.checked_sub(after).unwrap_or(Usd::ZERO))), Role::PriceDown),
    });
    let mut first = vec![(words::counted(counts.trades, "trade"), Role::Text)];
    // The change of all holdings, which the market moves too: it is not what the trades brought.
    if let Some(change) = change {
        first.extend([(" · value ".to_owned(), Role::TextDim), change]);
    }
    // Outcomes without any call are left out.
    let lines = [
        (counts.blocked, "blocked"),
        (counts.lapsed, "lapsed"),
        (counts.refused, "rejected"),
        (counts.failed, "failed"),
    ];
    let lines: Vec<String> =
        lines.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")).collect();
    let blocked = away.blocked_chains.iter().map(|chain| format!("nothing is signed on {chain}"));
    let lines: Vec<String> = blocked.chain(lines).collect();
    let mut words = if lines.is_empty() { "nothing went wrong".to_owned() } else { lines.join(" · ") };
    if let Some(gas) = away.gas() {
        words.push_str(&format!(" · gas {gas}"));
    }
    let phases =
        if counts.phases == 0 { "phase unchanged".to_owned() } else { words::counted(counts.phases, "phase change") };
    (title, first, words, phases)
}

/// Panel of the summary of the operator's absence.
struct AbsencePanel<'a> {
    theme: &'a Theme,
    known: &'a ScreenContext<'a>,
}

impl Widget for AbsencePanel<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, known } = self;
        let painter = &mut Painter { buffer, theme };
        let Some(away) = known.away else { return };
        let (title, first, words, phases) = absence(away);
        let inner = frame(painter, area, &title, false);
        painter.pieces(line(inner, 0), &cut(&first, usize::from(inner.width)));
        painter.pieces(line(inner, 1), &cut(&[(words, Role::Text)], usize::from(inner.width)));
        painter.row(
            line(inner, 2),
            &[(phases, Role::TextDim)],
            &[("Enter".to_owned(), Role::Key), (" all".to_owned(), Role::TextDim)],
        );
    }
}

/// Lines of the summary of the operator's absence for narrow terminals.
pub(super) struct AbsenceLines<'a> {
    pub(super) theme: &'a Theme,
    pub(super) known: &'a ScreenContext<'a>,
}

impl Widget for AbsenceLines<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, known } = self;
        let painter = &mut Painter { buffer, theme };
        let Some(away) = known.away else { return };
        let (title, first, words, phases) = absence(away);
        let right = [("Enter".to_owned(), Role::Key), (" all".to_owned(), Role::TextDim)];
        let room = usize::from(area.width).saturating_sub(styled_width(&right) + 1);
        let mut left = vec![(format!("{title}  "), Role::StateCare)];
        left.extend(first);
        painter.row(line(area, 0), &cut(&left, room), &right);
        let second = [(words, Role::Text), (format!(" · {phases}"), Role::TextDim)];
        painter.pieces(line(area, 1), &cut(&second, usize::from(area.width)));
    }
}
