//! Screen 1: the Golem, live. What it does and why, what waits, what is used of the limits, what is held, what happened.
//!
//! Wide terminals get two columns, narrow ones lines by priority. Panels shrink before they go, and what is left out
//! is on another screen.

mod left;
mod right;

pub(super) use right::equity_model;

use ratatui::layout::{Position, Rect};

use super::{Known, ScreenId, ScreenView, Wish, list};
use crate::base::id::CallId;
use crate::base::text::SafeText;
use crate::console::keymap::{Action, Key};
use crate::console::pen::{Pen, Piece, line};
use crate::console::state::feed::{CallSeen, Standing};
use crate::console::state::field::Field;
use crate::console::state::story::name;
use crate::console::theme::Role;
use crate::console::widgets::chart::Range;
use crossterm::event::KeyCode;

/// Columns from which there are two of panels.
const WIDE: u16 = 100;
/// Lines from which there are.
const TALL: u16 = 24;
/// Columns of the left one; its last is the first of the next.
const LEFT: u16 = 35;
/// Columns from which prices, equity and events stand in a column of their own.
const WIDEST: u16 = 170;

/// Screen 1.
#[derive(Debug, Default)]
pub(super) struct Live {
    selected: Option<CallId>,
    filter: Field,
    typing: bool,
    zoomed: bool,
    range: Range,
}

/// What the activity panel needs beside the feed.
pub(super) struct Listing<'a> {
    pub calls: Vec<&'a CallSeen>,
    pub selected: Option<CallId>,
    pub filter: Vec<Piece>,
    pub expand: bool,
}

impl Live {
    /// The calls that are shown, the newest first.
    fn calls<'a>(&self, known: &Known<'a>) -> Vec<&'a CallSeen> {
        let words: Vec<String> = self.filter.text().split_whitespace().map(str::to_lowercase).collect();
        known.feed.activity().filter(|call| words.iter().all(|word| fits(call, word, known.now_millis))).collect()
    }

    fn listing<'a>(&self, known: &Known<'a>) -> Listing<'a> {
        let words = match (self.typing, self.filter.text()) {
            (true, text) => format!("/{text}▏"),
            (false, "") => "/ all".to_owned(),
            (false, text) => format!("/{text}"),
        };
        let follow = if self.selected.is_none() { "following" } else { "f follows" };
        Listing {
            calls: self.calls(known),
            selected: self.selected,
            filter: vec![(format!("{words} · {follow}"), Role::TextDim)],
            expand: true,
        }
    }

    /// Moves the selection; true: the action moves one.
    fn moved(&mut self, action: Action, known: &Known<'_>, page: usize) -> bool {
        let calls: Vec<CallId> = self.calls(known).iter().map(|call| call.call_id).collect();
        let at = self.selected.and_then(|id| calls.iter().position(|one| *one == id));
        let to = list::moved_from(action, at, calls.len().saturating_sub(1), page);
        if let Some(to) = to {
            self.selected = calls.get(to).copied();
        }
        to.is_some()
    }
}

/// Whether a call fits one word of the filter: `token:`, `status:`, `since:`, or anything it shows.
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
            let text = format!("{} {params}", name(call)).to_lowercase();
            text.contains(wanted)
        }
    }
}

/// A span such as `1h`, `15m`, `30s`, in milliseconds.
fn since(span: &str) -> Option<u64> {
    let (number, unit) = span.split_at_checked(span.len().checked_sub(1)?)?;
    let number: u64 = number.parse().ok()?;
    let unit = match unit {
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(unit)
}

/// The columns of a wide terminal, each sharing an edge with the next.
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

/// The inside of a frame.
pub(super) fn inside(area: Rect) -> Rect {
    Rect { x: area.x + 1, y: area.y + 1, width: area.width.saturating_sub(2), height: area.height.saturating_sub(2) }
}

/// A role for how a call stands.
pub(super) const fn standing_role(standing: Standing) -> Role {
    match standing {
        Standing::Running | Standing::Sent => Role::Chart,
        Standing::Waiting | Standing::Lapsed | Standing::Unclear => Role::StateCare,
        Standing::Done | Standing::Rehearsed => Role::StateGood,
        Standing::Blocked | Standing::Refused | Standing::Failed => Role::StateBad,
    }
}

impl ScreenView for Live {
    fn id(&self) -> ScreenId {
        ScreenId::Live
    }

    fn draw(&self, known: &Known<'_>, pen: &mut Pen<'_>, area: Rect) {
        let listing = self.listing(known);
        if self.zoomed {
            right::activity(pen, known, area, &listing, true);
        } else if area.width >= WIDE && area.height >= TALL {
            let (left, middle, side) = columns(area);
            left::draw(pen, known, left);
            right::draw(pen, known, &right::places(known, middle, side), &listing, self.range);
        } else {
            narrow(pen, known, area, &listing);
        }
    }

    fn act(&mut self, action: Action, known: &Known<'_>, area: Rect) -> Option<Vec<Wish>> {
        // The top is the newest: to go there is to follow it.
        if action != Action::Top && self.moved(action, known, usize::from(area.height / 2)) {
            return Some(Vec::new());
        }
        match action {
            Action::Top | Action::Follow => self.selected = None,
            Action::Filter => self.typing = true,
            Action::Zoom => self.zoomed = !self.zoomed,
            Action::ShorterRange => self.range = self.range.shorter(),
            Action::LongerRange => self.range = self.range.longer(),
            Action::Back if self.zoomed || self.selected.is_some() || !self.filter.text().is_empty() => {
                self.zoomed = false;
                self.selected = None;
                self.filter.clear();
            }
            Action::Open => {
                let calls = self.calls(known);
                let call = self.selected.or_else(|| calls.first().map(|call| call.call_id));
                return Some(call.map(Wish::OpenCall).into_iter().collect());
            }
            Action::Copy => {
                let call = self.selected.and_then(|id| known.feed.call(id))?;
                let hash = call.transactions.last().map(|(_, update)| update.hash.to_string());
                return Some(vec![Wish::Copy(hash.unwrap_or_else(|| call.call_id.to_string()))]);
            }
            Action::Explorer => {
                let call = self.selected.and_then(|id| known.feed.call(id))?;
                let (_, update) = call.transactions.last()?;
                let words = format!("bardo://tx/{}", update.hash);
                return Some(vec![Wish::Notice(SafeText::clean(&words, 100)), Wish::OpenCall(call.call_id)]);
            }
            Action::CancelSelected => {
                let call = self.selected.and_then(|id| known.feed.call(id)).filter(|call| call.standing().is_open())?;
                let words = format!("Cancel {}? Only what is not being signed can be.", name(call));
                let command = crate::runtime::handle::Command::Cancel { call_id: call.call_id };
                return Some(vec![Wish::Confirm { title: SafeText::clean(&words, 200), command: Box::new(command) }]);
            }
            _ => return None,
        }
        Some(Vec::new())
    }

    fn takes_text(&self) -> bool {
        self.typing
    }

    fn type_key(&mut self, key: Key, _known: &Known<'_>, _wishes: &mut Vec<Wish>) -> bool {
        match key.code {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                self.filter.clear();
            }
            _ => return self.filter.key(key),
        }
        true
    }

    fn paste(&mut self, text: &SafeText) {
        self.filter.paste(text);
    }

    fn click(&mut self, at: Position, known: &Known<'_>, area: Rect) -> Vec<Wish> {
        let listing = self.listing(known);
        let wide = area.width >= WIDE && area.height >= TALL && !self.zoomed;
        let calls = if self.zoomed {
            inside(area)
        } else if wide {
            let (left, middle, side) = columns(area);
            if let Some(question) = left::question_at(known, left, at) {
                return known.questions.get(question).map(|one| Wish::OpenQuestion(one.number)).into_iter().collect();
            }
            let places = right::places(known, middle, side);
            if places.events.contains(at) {
                return vec![Wish::GoTo(ScreenId::Logs)];
            }
            if places.price.contains(at) || places.equity.contains(at) {
                self.range = self.range.next();
                return Vec::new();
            }
            inside(places.activity)
        } else {
            let rows = narrow_places(known, area);
            if let Some((question, _)) = rows.questions.iter().find(|(_, place)| place.contains(at)) {
                return known.questions.get(*question).map(|one| Wish::OpenQuestion(one.number)).into_iter().collect();
            }
            if rows.events.contains(at) {
                return vec![Wish::GoTo(ScreenId::Logs)];
            }
            rows.calls
        };
        let hit = right::call_places(calls, &listing).into_iter().find(|(_, place)| place.contains(at));
        let call = hit.and_then(|(place, _)| listing.calls.get(place)).map(|call| call.call_id);
        match call {
            // The second click on a row opens its story, like Enter.
            Some(call) if self.selected == Some(call) => vec![Wish::OpenCall(call)],
            Some(call) => {
                self.selected = Some(call);
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    fn wheel(&mut self, _at: Position, down: bool, known: &Known<'_>, _area: Rect) {
        self.moved(if down { Action::Down } else { Action::Up }, known, 1);
    }
}

/// Where everything of the one column is; what has no room has no lines.
struct NarrowPlaces {
    face: Rect,
    now: Rect,
    limits: Rect,
    waiting: Rect,
    questions: Vec<(usize, Rect)>,
    title: Rect,
    calls: Rect,
    events: Rect,
}

/// One column: lines by priority, the activity with what is left.
fn narrow_places(known: &Known<'_>, area: Rect) -> NarrowPlaces {
    let bottom = area.bottom();
    let mut y = area.y;
    let mut next = || {
        let place = Rect { y, height: u16::from(y < bottom), ..area };
        y = y.saturating_add(1);
        place
    };
    let face = next();
    let told = right::now_rows(known, usize::from(area.width)).len();
    let first = next();
    let more: u16 = (1..told).map(|_| next().height).sum();
    let now = Rect { height: first.height + more, ..first };
    let limits = next();
    let none = Rect { height: 0, ..area };
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
        waiting,
        questions,
        title,
        calls: Rect { y: y.min(bottom), height: left.saturating_sub(events), ..area },
        events: Rect { y: bottom.saturating_sub(events), height: events, ..area },
    }
}

fn narrow(pen: &mut Pen<'_>, known: &Known<'_>, area: Rect, listing: &Listing<'_>) {
    let places = narrow_places(known, area);
    left::face_line(pen, known, places.face);
    for (at, row) in (0..places.now.height).zip(right::now_rows(known, usize::from(area.width))) {
        pen.row(line(places.now, at), &row.left, if area.width >= 60 { &row.right } else { &[] });
    }
    left::limit_line(pen, known, places.limits);
    let rule = |pen: &mut Pen<'_>, place: Rect, title: &str, right: &[Piece]| {
        pen.rule(place, &[(title.to_owned(), Role::Title)], right, Role::Border);
    };
    if !known.questions.is_empty() {
        rule(pen, places.waiting, &format!("Waiting for you {}", known.questions.len()), &[]);
        for (at, place) in &places.questions {
            if let Some(question) = known.questions.get(*at) {
                left::question(pen, known, *place, *at, question, true);
            }
        }
    }
    rule(pen, places.title, "Activity", &listing.filter);
    right::calls(pen, known, places.calls, listing);
    if places.events.height > 0 {
        rule(pen, line(places.events, 0), "Events", &[("l full log".to_owned(), Role::TextDim)]);
        let rest = Rect { y: places.events.y + 1, height: places.events.height - 1, ..places.events };
        right::events(pen, known, rest);
    }
}

/// The words for nothing.
pub(super) fn nothing(pen: &mut Pen<'_>, area: Rect, words: &str) {
    pen.pieces(line(area, 0), &[(words.to_owned(), Role::TextDim)]);
}
