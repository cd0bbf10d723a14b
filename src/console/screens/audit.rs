//! Screen 5: what was decided and what stands: open questions, standing approvals, past decisions, and the trail, whose
//! wholeness can be checked here.

use ratatui::layout::{Position, Rect};
use serde_json::json;

use super::{Heard, Known, ScreenId, ScreenView, Wish, list, ticket};
use crate::base::id::CallId;
use crate::base::text::SafeText;
use crate::console::format::{short_hash, time_of_day};
use crate::console::keymap::{Action, Key};
use crate::console::pen::{Pen, Piece, line, pieces_width};
use crate::console::state::feed::CallSeen;
use crate::console::state::field::Field;
use crate::console::state::story::name;
use crate::console::state::trail;
use crate::console::theme::Role;
use crate::console::view::{question_brief, question_line};
use crate::console::widgets::paint::cut;
use crate::console::widgets::plain::tool_word;
use crate::fabric::ApprovalOutcome;
use crate::runtime::handle::{AuditEntry, Command, Found, GrantNow, Query};
use crossterm::event::KeyCode;

/// Entries of the trail asked for.
const ENTRIES: u32 = 500;
/// The count of the query for the trail, and of the check of it.
const TRAIL: u32 = 1;
const VERIFY: u32 = 2;

/// Columns from which an entry's kind stands beside what it says.
const WITH_KIND: u16 = 90;

/// What wants a look among the entries.
fn trail_role(entry: &AuditEntry) -> Role {
    match entry.kind.as_str() {
        "action:refused" | "halt:raised" => Role::StateBad,
        "action:verified" if entry.body.get("matched").and_then(serde_json::Value::as_bool) != Some(true) => {
            Role::StateBad
        }
        "approval:requested" | "approval:resolved" | "permit:refused" | "halt:lowered" | "policy:accepted" => {
            Role::StateCare
        }
        _ => Role::Text,
    }
}

/// Both ends of a row.
type Ends = (Vec<Piece>, Vec<Piece>);

/// What stands around a list.
struct Head<'a> {
    title: &'a str,
    right: &'a [Piece],
    /// Said where there is nothing.
    empty: &'a str,
}

/// The panels, in the order of Tab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Panel {
    Questions,
    Grants,
    Decisions,
    Trail,
}

const PANELS: [Panel; 4] = [Panel::Questions, Panel::Grants, Panel::Decisions, Panel::Trail];

/// Screen 5.
#[derive(Debug)]
pub(super) struct Audit {
    panel: Panel,
    at: [usize; 4],
    entries: Vec<AuditEntry>,
    verdict: Option<(bool, SafeText)>,
    filter: Field,
    typing: bool,
}

impl Default for Audit {
    fn default() -> Self {
        Self {
            panel: Panel::Trail,
            at: [0; 4],
            entries: Vec::new(),
            verdict: None,
            filter: Field::default(),
            typing: false,
        }
    }
}

fn ask(count: u32, query: Query) -> Wish {
    Wish::Send(Box::new(Command::Look { ticket: ticket(ScreenId::Audit, count), query }))
}

/// Calls that were decided on, the newest first.
fn decisions<'a>(known: &'a Known<'_>) -> Vec<&'a CallSeen> {
    known.feed.calls.iter().rev().filter(|call| call.resolved.is_some()).collect()
}

fn outcome(call: &CallSeen) -> (&'static str, Role) {
    match call.resolved.as_ref().map(|resolved| resolved.outcome) {
        Some(ApprovalOutcome::Approved) => ("✓ approved", Role::StateGood),
        Some(ApprovalOutcome::ApprovedSimilar) => ("✓ approved, and similar", Role::StateGood),
        Some(ApprovalOutcome::Edited) => ("e smaller amount", Role::Text),
        Some(ApprovalOutcome::Refused) => ("✕ refused", Role::StateBad),
        Some(ApprovalOutcome::RefusedAndHalted) => ("✕ refused, all stopped", Role::StateBad),
        Some(ApprovalOutcome::Lapsed) => ("○ nobody answered", Role::StateCare),
        Some(ApprovalOutcome::Withdrawn) | None => ("○ taken back", Role::TextDim),
    }
}

impl Audit {
    fn place(&self) -> usize {
        PANELS.iter().position(|panel| *panel == self.panel).unwrap_or(0)
    }

    fn selected(&self, panel: Panel) -> usize {
        let at = PANELS.iter().position(|one| *one == panel).unwrap_or(0);
        self.at.get(at).copied().unwrap_or(0)
    }

    /// The entries that hold every word of the filter, the newest first.
    fn fitting(&self) -> Vec<&AuditEntry> {
        let words: Vec<String> = self.filter.text().split_whitespace().map(str::to_lowercase).collect();
        let fits = |entry: &&AuditEntry| {
            let (told, body) = (trail::words(entry), &entry.body);
            let text = format!("{} {} {told} {body} {:?}", entry.kind, entry.golem_id, entry.call_id).to_lowercase();
            words.iter().all(|word| text.contains(word.as_str()))
        };
        self.entries.iter().rev().filter(fits).collect()
    }

    fn count(&self, panel: Panel, known: &Known<'_>) -> usize {
        match panel {
            Panel::Questions => known.questions.len(),
            Panel::Grants => known.snapshot.map_or(0, |snapshot| snapshot.grants.len()),
            Panel::Decisions => decisions(known).len(),
            Panel::Trail => self.fitting().len(),
        }
    }

    /// Moves the selection of the panel with the keys; true: the action moves one.
    fn moved(&mut self, action: Action, known: &Known<'_>, page: usize) -> bool {
        let (place, last) = (self.place(), self.count(self.panel, known).saturating_sub(1));
        let Some(at) = self.at.get_mut(place) else { return false };
        let to = list::moved(action, *at, last, page);
        *at = to.unwrap_or(*at);
        to.is_some()
    }

    /// Where the panels are: those that hold little leave the lines to the others.
    fn panels(&self, known: &Known<'_>, area: Rect) -> [Rect; 4] {
        let (left, right) = if area.width >= 100 {
            list::beside(area, area.width * 9 / 20)
        } else {
            list::stacked(area, area.height * 11 / 20)
        };
        let third = left.height / 3;
        let lines = |panel| {
            let wanted = u16::try_from(self.count(panel, known)).unwrap_or(u16::MAX).max(1).saturating_add(2);
            wanted.clamp(third.min(4), third.max(4))
        };
        let (questions, rest) = list::stacked(left, lines(Panel::Questions));
        let (grants, decisions) = list::stacked(rest, lines(Panel::Grants));
        [questions, grants, decisions, right]
    }

    fn list(&self, pen: &mut Pen<'_>, area: Rect, panel: Panel, head: Head<'_>, rows: Vec<Ends>) {
        let focus = self.panel == panel;
        let border = if focus { Role::BorderFocus } else { Role::Border };
        pen.frame(area, &[(head.title.to_owned(), Role::Title)], head.right, border);
        let inner = Rect {
            x: area.x + 1,
            y: area.y + 1,
            width: area.width.saturating_sub(2),
            height: area.height.saturating_sub(2),
        };
        let room = usize::from(inner.height);
        let at = self.selected(panel).min(rows.len().saturating_sub(1));
        let skip = list::first_shown(at, room);
        if rows.is_empty() {
            pen.pieces(line(inner, 0), &[(format!(" {}", head.empty), Role::TextDim)]);
        }
        let count = rows.len();
        for (y, (place, (mut left, right))) in (0..).zip(rows.into_iter().enumerate().skip(skip).take(room)) {
            let mark = if focus && place == at { "▸" } else { " " };
            left.insert(0, (mark.to_owned(), Role::Key));
            // A blank before the edge; what does not fit says so.
            let place = Rect { width: inner.width.saturating_sub(1), ..line(inner, y) };
            let room =
                usize::from(place.width).saturating_sub(if right.is_empty() { 0 } else { pieces_width(&right) + 1 });
            let both = pieces_width(&left) <= room || panel != Panel::Trail;
            let (room, right) = if both { (room, right) } else { (usize::from(place.width), Vec::new()) };
            pen.row(place, &cut(&left, room), &right);
        }
        if count > room && room > 0 {
            let words = format!(" {} of {count} ", at + 1);
            let bottom = Rect { y: area.bottom().saturating_sub(1), height: 1, ..area };
            pen.row(Rect { width: bottom.width.saturating_sub(3), ..bottom }, &[], &[(words, Role::TextDim)]);
        }
    }
}

fn grant_row(grant: &GrantNow) -> Ends {
    let tokens: Vec<&str> = grant.tokens.iter().map(SafeText::as_str).collect();
    let words = format!("{} · {} · {}", tool_word(grant.tool.as_str()), tokens.join(" "), grant.golem_id);
    let minutes = grant.lasts_millis.div_ceil(60_000);
    let right = format!("${} left · {minutes} min · x revokes", grant.left);
    (vec![(words, Role::Text)], vec![(right, Role::TextDim)])
}

impl ScreenView for Audit {
    fn id(&self) -> ScreenId {
        ScreenId::Audit
    }

    fn draw(&self, known: &Known<'_>, pen: &mut Pen<'_>, area: Rect) {
        let [questions, grants, decided, trail_area] = self.panels(known, area);
        let waiting = known.questions.iter().map(|question| {
            let (mut left, right) = question_line(question, known.now_millis, known.motion);
            // Where not all of it has room, what is traded is said in fewer words: the figure stays.
            let room = usize::from(questions.width).saturating_sub(5);
            if pieces_width(&left) + pieces_width(&right) > room
                && let Some((words, _)) = left.first_mut()
            {
                *words = question_brief(question);
            }
            (left, right)
        });
        let head = Head { title: "Waiting for you", right: &[], empty: "Nothing waits." };
        self.list(pen, questions, Panel::Questions, head, waiting.collect());
        let standing = known.snapshot.map(|snapshot| snapshot.grants.iter().map(grant_row).collect());
        let standing: Vec<_> = standing.unwrap_or_default();
        let head = Head { title: "Standing approvals", right: &[], empty: "None: every action asks for itself." };
        self.list(pen, grants, Panel::Grants, head, standing);
        let past = decisions(known).into_iter().map(|call| {
            let (words, role) = outcome(call);
            let why = call.resolved.as_ref().and_then(|resolved| resolved.reason.as_ref());
            let why = why.filter(|why| !why.is_empty()).map(|why| format!("  \"{why}\"")).unwrap_or_default();
            let left = vec![
                (format!("{} ", time_of_day(call.started_at / 1000)), Role::TextDim),
                (format!("{}  ", name(call)), Role::Text),
                (words.to_owned(), role),
                (why, Role::TextDim),
            ];
            (left, vec![("Enter".to_owned(), Role::Key)])
        });
        let head = Head { title: "Decisions", right: &[], empty: "You have decided nothing yet." };
        self.list(pen, decided, Panel::Decisions, head, past.collect());
        let filter = match (self.typing, self.filter.text()) {
            (true, text) => format!("/{text}▏"),
            (false, "") => "/ all".to_owned(),
            (false, text) => format!("/{text}"),
        };
        let mut right = vec![(filter, Role::TextDim)];
        match &self.verdict {
            Some((true, words)) => right.push((format!(" · ✓ {words}"), Role::StateGood)),
            Some((false, words)) => right.push((format!(" · ✕ {words}"), Role::StateBad)),
            None => right.push((" · z checks it · e exports".to_owned(), Role::TextDim)),
        }
        let rows = self.fitting().into_iter().map(|entry| {
            let mut left = vec![(format!("#{:<5} {} ", entry.seq, time_of_day(entry.at / 1000)), Role::TextDim)];
            if trail_area.width >= WITH_KIND {
                left.push((format!("{:<18} ", entry.kind), Role::TextDim));
            }
            left.push((trail::words(entry).to_string(), trail_role(entry)));
            (left, vec![(format!("{} {}", entry.golem_id, short_hash(entry.hash)), Role::TextDim)])
        });
        let head = Head { title: "The trail", right: &right, empty: "No entry yet." };
        self.list(pen, trail_area, Panel::Trail, head, rows.collect());
    }

    fn act(&mut self, action: Action, known: &Known<'_>, area: Rect) -> Option<Vec<Wish>> {
        if self.moved(action, known, usize::from(area.height / 2)) {
            return Some(Vec::new());
        }
        match action {
            Action::NextPanel => self.panel = PANELS.get((self.place() + 1) % 4).copied().unwrap_or(Panel::Trail),
            Action::PreviousPanel => self.panel = PANELS.get((self.place() + 3) % 4).copied().unwrap_or(Panel::Trail),
            Action::Filter => {
                self.panel = Panel::Trail;
                self.typing = true;
            }
            Action::Follow => return Some(vec![ask(TRAIL, Query::AuditTail { most: ENTRIES })]),
            Action::Zoom => return Some(vec![ask(VERIFY, Query::VerifyAudit)]),
            Action::Open => return Some(self.open(known)),
            Action::CancelSelected if self.panel == Panel::Grants => {
                let grant = known.snapshot?.grants.get(self.selected(Panel::Grants))?;
                let title = format!("Revoke the standing approval for {}?", tool_word(grant.tool.as_str()));
                return Some(vec![Wish::Confirm {
                    title: SafeText::clean(&title, 200),
                    command: Box::new(Command::RevokeGrant { number: grant.number }),
                }]);
            }
            Action::Export => {
                let text = serde_json::to_string_pretty(&json!({ "entries": self.fitting() })).unwrap_or_default();
                return Some(vec![Wish::Write { name: format!("bardo-trail-{}.json", known.now_millis), text }]);
            }
            Action::Copy => {
                let entry = self.fitting().get(self.selected(Panel::Trail)).map(|entry| json!(entry).to_string());
                return Some(entry.map(Wish::Copy).into_iter().collect());
            }
            Action::Back if !self.filter.text().is_empty() => drop(self.filter.clear()),
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
        let hit = PANELS.into_iter().zip(self.panels(known, area)).find(|(_, place)| place.contains(at));
        let Some((panel, place)) = hit else { return Vec::new() };
        let again = self.panel == panel;
        self.panel = panel;
        let inside = Rect { y: place.y + 1, height: place.height.saturating_sub(2), ..place };
        let (count, selected) = (self.count(panel, known), self.selected(panel));
        let first = list::first_shown(selected.min(count.saturating_sub(1)), usize::from(inside.height));
        let Some(row) = list::row_at(at, inside, first, count) else { return Vec::new() };
        // The second click on a row opens it, like Enter.
        if again && row == selected {
            return self.open(known);
        }
        let place = self.place();
        if let Some(at) = self.at.get_mut(place) {
            *at = row;
        }
        Vec::new()
    }

    fn wheel(&mut self, at: Position, down: bool, known: &Known<'_>, area: Rect) {
        if let Some((panel, _)) = PANELS.into_iter().zip(self.panels(known, area)).find(|(_, place)| place.contains(at))
        {
            self.panel = panel;
            self.moved(if down { Action::Down } else { Action::Up }, known, 1);
        }
    }

    fn shown(&mut self, _known: &Known<'_>) -> Vec<Wish> {
        vec![ask(TRAIL, Query::AuditTail { most: ENTRIES })]
    }

    fn hear(&mut self, count: u32, heard: Heard, _known: &Known<'_>) -> Vec<Wish> {
        if let Heard::Found(found) = heard {
            match (count, *found) {
                (TRAIL, Found::Audit { entries }) => self.entries = entries,
                (VERIFY, Found::Verified { good, entries, faults, .. }) => {
                    let words = match faults.first() {
                        Some(first) => first.to_string(),
                        None => format!("whole, {entries} entries"),
                    };
                    self.verdict = Some((good, SafeText::clean(&words, 200)));
                }
                (_, Found::Nothing { why }) => return vec![Wish::Notice(why)],
                _ => {}
            }
        }
        Vec::new()
    }
}

impl Audit {
    fn open(&self, known: &Known<'_>) -> Vec<Wish> {
        match self.panel {
            Panel::Questions => {
                let question = known.questions.get(self.selected(Panel::Questions));
                question.map(|question| Wish::OpenQuestion(question.number)).into_iter().collect()
            }
            Panel::Decisions => {
                let decided = decisions(known);
                decided
                    .get(self.selected(Panel::Decisions))
                    .map(|call| Wish::OpenCall(call.call_id))
                    .into_iter()
                    .collect()
            }
            Panel::Trail => {
                let shown = self.fitting();
                let call = shown.get(self.selected(Panel::Trail)).and_then(|entry| entry.call_id.as_ref());
                let call: Option<CallId> = call.and_then(|id| id.as_str().parse().ok());
                call.map(Wish::OpenCall).into_iter().collect()
            }
            Panel::Grants => Vec::new(),
        }
    }
}
