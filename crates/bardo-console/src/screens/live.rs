//! Screen 1: live view of the Golem. Shows its activity and reasons, waiting requests, use of limits, holdings and
//! events.
//!
//! Wide terminals get two or three columns, narrow ones a list of lines by priority. Panels shrink before they are
//! dropped, and dropped content is available on another screen.

mod left;
mod right;

pub(super) use right::equity_model;

use ratatui::layout::{Position, Rect};

use super::filter::{Filter, since};
use super::{ScreenContext, ScreenId, ScreenRequest, ScreenView, copied, copy_explorer_link, list};
use crate::keymap::Action;
use crate::painter::{Painter, StyledText, line};
use crate::state::call_details::named;
use crate::state::feed::{CallSeen, CallStatus};
use crate::theme::Role;
use crate::widgets::CardKeys;
use crate::widgets::chart::TimeRange;
use bardo_base::id::CallId;
use bardo_base::text::SafeText;

/// Width from which panels are drawn in columns, in terminal columns.
const WIDE: u16 = 100;
/// Height from which panels are drawn in columns, in lines.
const TALL: u16 = 24;
/// Width of the left column; its last column is shared with the next panel.
const LEFT: u16 = 35;
/// Width from which prices, equity and events have a third column.
const WIDEST: u16 = 170;

/// State of screen 1.
#[derive(Debug, Default)]
pub(super) struct Live {
    selected: Option<CallId>,
    filter: Filter,
    zoomed: bool,
    range: TimeRange,
    panel: LivePanel,
    /// Index of the selected approval request.
    question: usize,
}

/// Panels that can have the focus, in the order of Tab.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum LivePanel {
    #[default]
    Activity,
    Price,
    Equity,
    Events,
    Waiting,
    Limits,
    Holding,
    Thoughts,
}

const PANELS: [LivePanel; 8] = [
    LivePanel::Activity,
    LivePanel::Price,
    LivePanel::Equity,
    LivePanel::Events,
    LivePanel::Waiting,
    LivePanel::Limits,
    LivePanel::Holding,
    LivePanel::Thoughts,
];

impl LivePanel {
    const fn name(self) -> &'static str {
        match self {
            Self::Activity => "Activity",
            Self::Price => "the price",
            Self::Equity => "Equity",
            Self::Events => "Events",
            Self::Waiting => "Waiting for you",
            Self::Limits => "Limits",
            Self::Holding => "Holding",
            Self::Thoughts => "its thoughts",
        }
    }

    /// Panel `by` steps further, with wraparound.
    fn moved(self, by: usize) -> Self {
        let at = PANELS.iter().position(|one| *one == self).unwrap_or(0);
        PANELS.get((at + by) % PANELS.len()).copied().unwrap_or_default()
    }
}

/// Focused panel and its selected approval request.
#[derive(Debug, Clone, Copy)]
pub(super) struct PanelFocus {
    pub panel: LivePanel,
    pub question: usize,
}

/// Content of the activity panel.
pub(super) struct ActivityList<'a> {
    pub calls: Vec<&'a CallSeen>,
    pub selected: Option<CallId>,
    pub filter: Vec<StyledText>,
    pub expand: bool,
    /// Hints for the keys of the expanded card.
    pub keys: CardKeys,
}

impl Live {
    /// Calls that match the filter, newest first.
    fn calls<'a>(&self, known: &ScreenContext<'a>) -> Vec<&'a CallSeen> {
        let words: Vec<String> = self.filter.describe().collect();
        known.feed.activity().filter(|call| words.iter().all(|word| fits(call, word, known.now_millis))).collect()
    }

    fn listing<'a>(&self, known: &ScreenContext<'a>, area: Rect) -> ActivityList<'a> {
        let mut filter = self.filter.label();
        let follow = if self.selected.is_none() { "following" } else { "f follows" };
        filter.push((format!(" · {follow}"), Role::TextDim));
        ActivityList {
            calls: self.calls(known),
            selected: self.selected,
            filter,
            expand: true,
            keys: CardKeys { open: if self.enter_opens(known, area) { "opens" } else { "" }, ..CardKeys::default() },
        }
    }

    /// Returns true if Enter opens a call; some panels use Enter for their own rows.
    fn enter_opens(&self, known: &ScreenContext<'_>, area: Rect) -> bool {
        !matches!(self.panel, LivePanel::Waiting | LivePanel::Events | LivePanel::Holding)
            && !self.enter_tells_all(known, area)
    }

    /// Returns true if Enter shows the summary of the operator's absence: while it is on the screen and no call is
    /// selected.
    fn enter_tells_all(&self, known: &ScreenContext<'_>, area: Rect) -> bool {
        let free = !self.zoomed && self.selected.is_none() && self.panel == LivePanel::Activity;
        let shown = if area.width >= WIDE && area.height >= TALL {
            left::shows_absence(known, columns(area).0)
        } else {
            narrow_places(known, area).away.height > 0
        };
        free && shown
    }

    fn keys(&self, known: &ScreenContext<'_>) -> PanelFocus {
        PanelFocus { panel: self.panel, question: self.question.min(known.questions.len().saturating_sub(1)) }
    }

    /// Draws the focused panel over the whole area.
    fn draw_alone(&self, known: &ScreenContext<'_>, painter: &mut Painter<'_>, area: Rect, listing: &ActivityList<'_>) {
        match self.panel {
            LivePanel::Activity => {
                painter.render(right::ActivityPanel { theme: painter.theme, known, listing, focus: true }, area)
            }
            LivePanel::Price => {
                painter.render(right::PricePanel { theme: painter.theme, known, range: self.range, focus: true }, area)
            }
            LivePanel::Equity => {
                painter.render(right::EquityPanel { theme: painter.theme, known, range: self.range, focus: true }, area)
            }
            LivePanel::Events => painter.render(right::EventsPanel { theme: painter.theme, known, focus: true }, area),
            LivePanel::Waiting => {
                painter.render(left::WaitingPanel { theme: painter.theme, known, keys: self.keys(known) }, area)
            }
            LivePanel::Limits => painter.render(left::LimitsPanel { theme: painter.theme, known, focus: true }, area),
            LivePanel::Holding => painter.render(left::HoldingPanel { theme: painter.theme, known, focus: true }, area),
            LivePanel::Thoughts => {
                painter.render(left::ThoughtsPanel { theme: painter.theme, known, focus: true }, area)
            }
        }
    }

    /// Handles an action while the approval requests have the focus. `None` if the action does not concern them.
    fn act_on_questions(&mut self, action: Action, known: &ScreenContext<'_>) -> Option<Vec<ScreenRequest>> {
        if self.panel != LivePanel::Waiting {
            return None;
        }
        let at = self.keys(known).question;
        if action == Action::Open {
            let open = known.questions.get(at).map(|question| ScreenRequest::OpenQuestion(question.number));
            return Some(open.into_iter().collect());
        }
        self.question = list::moved(action, at, known.questions.len().saturating_sub(1), 2)?;
        Some(Vec::new())
    }

    /// Call that Enter, `y` and `o` act on: the selected one, else the newest open one, else the newest.
    fn call_in_focus<'a>(&self, known: &ScreenContext<'a>) -> Option<&'a CallSeen> {
        let chosen = self.selected.and_then(|id| known.feed.call(id));
        chosen.or_else(|| {
            let calls = self.calls(known);
            calls.iter().find(|call| call.standing().is_open()).or(calls.first()).copied()
        })
    }

    /// Moves the selection. Returns true if the action moves a selection.
    fn moved(&mut self, action: Action, known: &ScreenContext<'_>, page: usize) -> bool {
        let calls: Vec<CallId> = self.calls(known).iter().map(|call| call.call_id).collect();
        let at = self.selected.and_then(|id| calls.iter().position(|one| *one == id));
        let to = list::moved_from(action, at, calls.len().saturating_sub(1), page);
        if let Some(to) = to {
            self.selected = calls.get(to).copied();
        }
        to.is_some()
    }
}

/// Returns true if a call matches a word of the filter: `token:`, `status:`, `since:`, or any text it shows.
fn fits(call: &CallSeen, wanted: &str, now: u64) -> bool {
    let params = call.start.as_ref().map(|start| start.params.value().to_string().to_lowercase()).unwrap_or_default();
    match wanted.split_once(':') {
        Some(("token", token)) => params.contains(&format!("\"{token}\"")),
        Some(("status", status)) => {
            let (_, words) = call.standing().mark();
            words.to_lowercase().contains(status)
        }
        Some(("since", span)) => since(span).is_none_or(|millis| call.started_at >= now.saturating_sub(millis)),
        _ => {
            let text = format!("{} {params}", named(call)).to_lowercase();
            text.contains(wanted)
        }
    }
}

/// Columns of a wide terminal. Neighbours share an edge.
fn columns(area: Rect) -> (Rect, Rect, Option<Rect>) {
    let left = Rect { width: LEFT, ..area };
    let rest = Rect { x: area.x + LEFT - 1, width: area.width - LEFT + 1, ..area };
    if area.width < WIDEST {
        return (left, rest, None);
    }
    let side = rest.width * 9 / 20;
    let middle = Rect { width: rest.width - side + 1, ..rest };
    (left, middle, Some(Rect { x: middle.right() - 1, width: side, ..rest }))
}

/// Area inside a frame.
pub(super) fn inside(area: Rect) -> Rect {
    Rect { x: area.x + 1, y: area.y + 1, width: area.width.saturating_sub(2), height: area.height.saturating_sub(2) }
}

/// Role for the status of a call.
pub(super) const fn status_role(standing: CallStatus) -> Role {
    match standing {
        CallStatus::Running | CallStatus::Sent => Role::Chart,
        CallStatus::Waiting | CallStatus::Lapsed | CallStatus::Unclear => Role::StateCare,
        CallStatus::NotDone => Role::TextDim,
        CallStatus::Done | CallStatus::Rehearsed | CallStatus::OnPaper => Role::StateGood,
        CallStatus::Blocked | CallStatus::Refused | CallStatus::Failed => Role::StateBad,
    }
}

impl ScreenView for Live {
    fn id(&self) -> ScreenId {
        ScreenId::Live
    }

    fn draw(&self, known: &ScreenContext<'_>, painter: &mut Painter<'_>, area: Rect) {
        let listing = self.listing(known, area);
        let keys = self.keys(known);
        if self.zoomed {
            self.draw_alone(known, painter, area, &listing);
        } else if area.width >= WIDE && area.height >= TALL {
            let (left, middle, side) = columns(area);
            left::draw(painter, known, left, keys);
            right::draw(painter, known, &right::places(known, middle, side), &listing, self.range, keys.panel);
        } else {
            narrow(painter, known, area, &listing, keys);
        }
    }

    fn act(&mut self, action: Action, known: &ScreenContext<'_>, area: Rect) -> Option<Vec<ScreenRequest>> {
        if let Some(requests) = self.act_on_questions(action, known) {
            return Some(requests);
        }
        // The top row is the newest call, so going there follows the newest.
        if self.panel == LivePanel::Activity
            && action != Action::Top
            && self.moved(action, known, usize::from(area.height / 2))
        {
            return Some(Vec::new());
        }
        match action {
            Action::Top | Action::Follow => self.selected = None,
            Action::Filter => self.filter.open(),
            Action::Zoom => self.zoomed = !self.zoomed,
            Action::NextPanel | Action::PreviousPanel => {
                let by = if action == Action::NextPanel { 1 } else { PANELS.len() - 1 };
                self.panel = self.panel.moved(by);
                let words = format!("focus: {}; z shows only this panel", self.panel.name());
                return Some(vec![ScreenRequest::Notice(SafeText::clean(&words, 100))]);
            }
            Action::Open if self.enter_tells_all(known, area) => {
                return Some(vec![ScreenRequest::AbsenceRead, ScreenRequest::GoTo(ScreenId::Logs)]);
            }
            Action::Open if self.panel == LivePanel::Events => return Some(vec![ScreenRequest::GoTo(ScreenId::Logs)]),
            Action::Open if self.panel == LivePanel::Holding => {
                return Some(vec![ScreenRequest::GoTo(ScreenId::Portfolio)]);
            }
            Action::ShorterRange => self.range = self.range.shorter(),
            Action::LongerRange => self.range = self.range.longer(),
            Action::Back if self.zoomed || self.selected.is_some() || self.filter.stands() => {
                self.zoomed = false;
                self.panel = LivePanel::Activity;
                self.selected = None;
                self.filter.clear();
            }
            Action::Open => {
                return Some(
                    self.call_in_focus(known).map(|call| ScreenRequest::OpenCall(call.call_id)).into_iter().collect(),
                );
            }
            Action::Copy => {
                return Some(vec![copied(self.call_in_focus(known)?)]);
            }
            Action::Explorer => {
                return Some(copy_explorer_link(self.call_in_focus(known)?, known));
            }
            Action::CancelSelected => {
                let call = self.selected.and_then(|id| known.feed.call(id)).filter(|call| call.standing().is_open())?;
                let words = format!("{}. This works only until signing begins.", named(call));
                let command = bardo_session::handle::SessionCommand::Cancel { call_id: call.call_id };
                return Some(vec![ScreenRequest::Confirm {
                    asks: "Cancel this call?",
                    title: SafeText::clean(&words, 200),
                    command: Box::new(command),
                }]);
            }
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
        let listing = self.listing(known, area);
        let wide = area.width >= WIDE && area.height >= TALL && !self.zoomed;
        let calls = if self.zoomed {
            if self.panel != LivePanel::Activity {
                return Vec::new();
            }
            inside(area)
        } else if wide {
            let (left, middle, side) = columns(area);
            if let Some(question) = left::question_at(known, left, at) {
                return known
                    .questions
                    .get(question)
                    .map(|one| ScreenRequest::OpenQuestion(one.number))
                    .into_iter()
                    .collect();
            }
            let places = right::places(known, middle, side);
            if places.events.contains(at) {
                return vec![ScreenRequest::GoTo(ScreenId::Logs)];
            }
            if places.price.contains(at) || places.equity.contains(at) {
                self.range = self.range.next();
                return Vec::new();
            }
            inside(places.activity)
        } else {
            let rows = narrow_places(known, area);
            if let Some((question, _)) = rows.questions.iter().find(|(_, place)| place.contains(at)) {
                return known
                    .questions
                    .get(*question)
                    .map(|one| ScreenRequest::OpenQuestion(one.number))
                    .into_iter()
                    .collect();
            }
            if rows.events.contains(at) {
                return vec![ScreenRequest::GoTo(ScreenId::Logs)];
            }
            rows.calls
        };
        let hit = right::call_places(calls, &listing).into_iter().find(|(_, place)| place.contains(at));
        let call = hit.and_then(|(place, _)| listing.calls.get(place)).map(|call| call.call_id);
        match call {
            // A second click on a row opens its details, as Enter does.
            Some(call) if self.selected == Some(call) => vec![ScreenRequest::OpenCall(call)],
            Some(call) => {
                self.selected = Some(call);
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    fn wheel(&mut self, _at: Position, down: bool, known: &ScreenContext<'_>, _area: Rect) {
        self.moved(if down { Action::Down } else { Action::Up }, known, 1);
    }
}

/// Areas of the single-column layout. An area without room has no lines.
struct NarrowPlaces {
    face: Rect,
    now: Rect,
    limits: Rect,
    away: Rect,
    waiting: Rect,
    questions: Vec<(usize, Rect)>,
    title: Rect,
    calls: Rect,
    events: Rect,
}

/// Computes the single-column layout: lines by priority, the rest for the activity.
fn narrow_places(known: &ScreenContext<'_>, area: Rect) -> NarrowPlaces {
    let bottom = area.bottom();
    let mut y = area.y;
    let mut next = || {
        let place = Rect { y, height: u16::from(y < bottom), ..area };
        y = y.saturating_add(1);
        place
    };
    let face = next();
    let now_height = right::now_rows(known, usize::from(area.width), true).len();
    let first = next();
    let more: u16 = (1..now_height).map(|_| next().height).sum();
    let now = Rect { height: first.height + more, ..first };
    let limits = next();
    let none = Rect { height: 0, ..area };
    let away = match known.away {
        Some(_) => {
            let first = next();
            Rect { height: first.height + next().height, ..first }
        }
        None => none,
    };
    let mut waiting = none;
    let mut questions = Vec::new();
    if !known.questions.is_empty() {
        waiting = next();
        let room = if bottom.saturating_sub(waiting.y) > 13 { 2 } else { 1 };
        questions = (0..known.questions.len().min(room)).map(|at| (at, next())).collect();
    }
    let title = next();
    let left = bottom.saturating_sub(y);
    let events = if left >= 9 { 3 } else { 0 };
    NarrowPlaces {
        face,
        now,
        limits,
        away,
        waiting,
        questions,
        title,
        calls: Rect { y: y.min(bottom), height: left.saturating_sub(events), ..area },
        events: Rect { y: bottom.saturating_sub(events), height: events, ..area },
    }
}

fn narrow(
    painter: &mut Painter<'_>,
    known: &ScreenContext<'_>,
    area: Rect,
    listing: &ActivityList<'_>,
    keys: PanelFocus,
) {
    let places = narrow_places(known, area);
    painter.render(left::FaceLine { theme: painter.theme, known }, places.face);
    for (at, row) in (0..places.now.height).zip(right::now_rows(known, usize::from(area.width), true)) {
        painter.row(line(places.now, at), &row.left, if area.width >= 60 { &row.right } else { &[] });
    }
    painter.render(left::LimitLine { theme: painter.theme, known }, places.limits);
    painter.render(left::AbsenceLines { theme: painter.theme, known }, places.away);
    let rule = |painter: &mut Painter<'_>, place: Rect, title: &str, right: &[StyledText], panel: LivePanel| {
        let role = if keys.panel == panel { Role::BorderFocus } else { Role::Border };
        painter.rule(place, &[(title.to_owned(), Role::Title)], right, role);
    };
    if !known.questions.is_empty() {
        rule(painter, places.waiting, &format!("Waiting for you {}", known.questions.len()), &[], LivePanel::Waiting);
        for (at, place) in &places.questions {
            if let Some(question) = known.questions.get(*at) {
                painter.render(
                    left::RequestLine { theme: painter.theme, known, at: *at, one: question, reason: true },
                    *place,
                );
            }
        }
    }
    rule(painter, places.title, "Activity", &listing.filter, LivePanel::Activity);
    painter.render(right::CallList { theme: painter.theme, known, listing }, places.calls);
    if places.events.height > 0 {
        let right = [("l full log".to_owned(), Role::TextDim)];
        rule(painter, line(places.events, 0), "Events", &right, LivePanel::Events);
        let rest = Rect { y: places.events.y + 1, height: places.events.height - 1, ..places.events };
        painter.render(right::PackedEvents { theme: painter.theme, known }, rest);
    }
}

/// Draws a text for an empty panel.
pub(super) fn nothing(painter: &mut Painter<'_>, area: Rect, words: &str) {
    painter.pieces(line(area, 0), &[(words.to_owned(), Role::TextDim)]);
}
