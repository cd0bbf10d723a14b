//! Screen 5: approval requests, standing approvals, past decisions, and the audit log, which can be verified here.

mod rows;

use std::collections::VecDeque;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::widgets::Widget;
use serde_json::json;

use rows::{AuditRow, RowEnds, decision_row, grant_row, offer_row, offers, question_row, trail_role, trail_row};

use super::filter::Filter;
use super::{CommandReply, ScreenContext, ScreenId, ScreenRequest, ScreenView, list, ticket};
use crate::format::{counted, dollars, short_hash, time_of_day};
use crate::keymap::Action;
use crate::painter::{Painter, StyledText, line, styled_width};
use crate::state::call_details::grant_words;
use crate::state::feed::CallSeen;
use crate::state::line::chain_words;
use crate::theme::{Role, Theme};
use crate::widgets::paint::{self, Row, cut, wrapped};
use bardo_base::id::CallId;
use bardo_base::text::SafeText;
use bardo_session::handle::{
    AuditEntry, GrantState, NamedAddress, QueryResult, SessionCommand, SessionQuery, names_in,
};

/// Maximum number of audit log entries per query, and kept here.
const ENTRIES: u32 = 500;
/// Counts that identify the replies: the newest entries, the verification, and the entries written since.
const TRAIL: u32 = 1;
const VERIFY: u32 = 2;
const MORE: u32 = 3;
/// Delay between an event and the query for its audit log entries, in milliseconds. By then they are written.
const SETTLED_MILLIS: u64 = 1_000;

/// Number of lines below the audit log that show the selected entry in full, with the rule above them; 0 in a small
/// panel.
const fn detail_lines(area: Rect) -> u16 {
    match area.height {
        20.. if area.width >= 24 => 5,
        10.. if area.width >= 24 => 3,
        _ => 0,
    }
}

/// Number of rows of a list, and a function that builds the row at an index.
type PanelRows<'a> = (usize, &'a dyn Fn(usize) -> Option<RowEnds>);

/// Title and texts around a list.
struct PanelHead<'a> {
    title: &'a str,
    right: &'a [StyledText],
    /// Text for an empty list.
    empty: &'a str,
}

/// Panels of the screen, in the order of Tab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AuditPanel {
    Questions,
    Grants,
    Decisions,
    Trail,
}

const PANELS: [AuditPanel; 4] = [AuditPanel::Questions, AuditPanel::Grants, AuditPanel::Decisions, AuditPanel::Trail];

/// State of screen 5.
#[derive(Debug)]
pub(super) struct Audit {
    panel: AuditPanel,
    at: [usize; 4],
    /// Audit log entries, oldest first.
    entries: VecDeque<AuditRow>,
    /// Set once the audit log could be read: entries written from then on are queried after each event.
    follows: bool,
    /// Number of the newest event for which entries were queried.
    seen: u64,
    /// Time of the next query, in milliseconds of the machine's clock.
    due: Option<u64>,
    /// Result of the last verification.
    verdict: Option<Verdict>,
    filter: Filter,
    /// Set while the focused panel fills the screen.
    zoomed: bool,
}

impl Default for Audit {
    fn default() -> Self {
        Self {
            panel: AuditPanel::Trail,
            at: [0; 4],
            entries: VecDeque::new(),
            follows: false,
            seen: 0,
            due: None,
            verdict: None,
            filter: Filter::default(),
            zoomed: false,
        }
    }
}

/// Result of a verification of the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Verdict {
    good: bool,
    words: SafeText,
    /// Number of entries that were verified.
    entries: u64,
    /// Time of the result, in milliseconds since the Unix epoch.
    at: u64,
}

impl Verdict {
    /// Note about the result, with its time, and with the entries up to number `newest` that it does not cover.
    fn note(&self, newest: u64) -> StyledText {
        let Self { good, words, entries, at } = self;
        let more = newest.saturating_sub(*entries);
        let since = if more == 0 { String::new() } else { format!(", {more} more since") };
        let at = time_of_day(at / 1_000);
        match good {
            true if more == 0 => (format!("✓ {words} · at {at}"), Role::StateGood),
            true => (format!("✓ {words} · at {at}{since}"), Role::StateCare),
            false => (format!("✕ {words} · at {at}{since}"), Role::StateBad),
        }
    }
}

fn notice(words: &str) -> Vec<ScreenRequest> {
    vec![ScreenRequest::Notice(SafeText::clean(words, 100))]
}

fn ask(count: u32, query: SessionQuery) -> ScreenRequest {
    ScreenRequest::Send(Box::new(SessionCommand::Look { ticket: ticket(ScreenId::Audit, count), query }))
}

/// Calls with a decided approval request, newest first.
fn decisions<'a>(known: &'a ScreenContext<'_>) -> Vec<&'a CallSeen> {
    known.feed.calls.iter().rev().filter(|call| call.resolved.is_some()).collect()
}

impl Audit {
    fn place(&self) -> usize {
        PANELS.iter().position(|panel| *panel == self.panel).unwrap_or(0)
    }

    fn selected(&self, panel: AuditPanel) -> usize {
        let at = PANELS.iter().position(|one| *one == panel).unwrap_or(0);
        self.at.get(at).copied().unwrap_or(0)
    }

    /// Entries that contain every word of the filter, newest first.
    fn fitting(&self) -> Vec<&AuditRow> {
        let words: Vec<String> = self.filter.describe().collect();
        let fits = |row: &&AuditRow| words.iter().all(|word| row.text.contains(word.as_str()));
        self.entries.iter().rev().filter(fits).collect()
    }

    /// Changes the known entries. The selected entry stays selected; a selection at the newest entry stays at the
    /// newest.
    fn change(&mut self, change: impl FnOnce(&mut VecDeque<AuditRow>)) {
        let place = self.selected(AuditPanel::Trail);
        let kept = self.fitting().get(place).map(|row| row.entry.seq).filter(|_| place > 0);
        change(&mut self.entries);
        let found = kept.and_then(|seq| self.fitting().iter().position(|row| row.entry.seq == seq));
        if let (Some(found), [.., at]) = (found, &mut self.at) {
            *at = found;
        }
    }

    /// Adds the entries that were written since the last query.
    fn append(&mut self, more: Vec<AuditEntry>) -> Vec<ScreenRequest> {
        // A full reply may leave a gap to the newest entries, so the newest ones are queried instead.
        if more.len() >= ENTRIES as usize {
            return vec![ask(TRAIL, SessionQuery::AuditTail { most: ENTRIES })];
        }
        let newest = self.newest();
        self.change(|entries| {
            entries.extend(more.into_iter().filter(|entry| entry.seq > newest).map(AuditRow::new));
            let over = entries.len().saturating_sub(ENTRIES as usize);
            entries.drain(..over);
        });
        Vec::new()
    }

    fn newest(&self) -> u64 {
        self.entries.back().map_or(0, |row| row.entry.seq)
    }

    fn count(&self, panel: AuditPanel, known: &ScreenContext<'_>) -> usize {
        match panel {
            AuditPanel::Questions => known.questions.len() + offers(known).count(),
            AuditPanel::Grants => known.snapshot.map_or(0, |snapshot| snapshot.grants.len()),
            AuditPanel::Decisions => decisions(known).len(),
            AuditPanel::Trail => self.fitting().len(),
        }
    }

    /// Moves the selection of the focused panel. Returns true if the action moves a selection.
    fn moved(&mut self, action: Action, known: &ScreenContext<'_>, page: usize) -> bool {
        let (place, last) = (self.place(), self.count(self.panel, known).saturating_sub(1));
        let Some(at) = self.at.get_mut(place) else { return false };
        let to = list::moved(action, *at, last, page);
        *at = to.unwrap_or(*at);
        to.is_some()
    }

    /// Notes above the audit log: the result of the verification, and a note if older entries are not loaded.
    fn notes(&self) -> Vec<StyledText> {
        let verdict = self.verdict.as_ref().map(|verdict| verdict.note(self.newest()));
        let older = self.entries.front().filter(|oldest| oldest.entry.seq > 1).map(|_| {
            let words = format!("newest {} only, also when filtering; all: bardo log", self.entries.len());
            (words, Role::TextDim)
        });
        verdict.into_iter().chain(older).collect()
    }

    /// Area of the rows of a panel: inside its frame, below the notes.
    fn inside(&self, panel: AuditPanel, area: Rect) -> Rect {
        let notes = if panel == AuditPanel::Trail { u16::try_from(self.notes().len()).unwrap_or(0) } else { 0 };
        // At least one entry is shown.
        let notes = notes.min(area.height.saturating_sub(3));
        let row = if panel == AuditPanel::Trail { detail_lines(area) } else { 0 };
        Rect {
            x: area.x.saturating_add(1),
            y: area.y.saturating_add(1).saturating_add(notes),
            width: area.width.saturating_sub(2),
            height: area.height.saturating_sub(2).saturating_sub(notes + row),
        }
    }

    /// Areas of the panels. Panels with few rows leave their lines to the others.
    fn panels(&self, known: &ScreenContext<'_>, area: Rect) -> [Rect; 4] {
        if self.zoomed {
            return PANELS.map(|panel| if panel == self.panel { area } else { Rect::default() });
        }
        let wide = area.width >= 100;
        let most = if wide { area.height } else { area.height * 11 / 20 };
        let third = most / 3;
        let wanted = |panel| u16::try_from(self.count(panel, known)).unwrap_or(u16::MAX).max(1).saturating_add(2);
        let lines = |panel| wanted(panel).clamp(third.min(4), third.max(4));
        let (left, right) = if wide {
            list::beside(area, area.width * 9 / 20)
        } else {
            // Neighbours share an edge. The audit log gets the lines that the other panels do not need.
            let all = lines(AuditPanel::Questions).saturating_add(lines(AuditPanel::Grants));
            let all = all.saturating_add(wanted(AuditPanel::Decisions)).saturating_sub(2);
            list::stacked(area, all.min(most))
        };
        let (questions, rest) = list::stacked(left, lines(AuditPanel::Questions));
        let (grants, decisions) = list::stacked(rest, lines(AuditPanel::Grants));
        [questions, grants, decisions, right]
    }
}

/// Panel of a list. Only the rows in view are formatted.
struct ListPanel<'a> {
    theme: &'a Theme,
    screen: &'a Audit,
    panel: AuditPanel,
    head: PanelHead<'a>,
    rows: PanelRows<'a>,
}

impl Widget for ListPanel<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, screen, panel, head, rows } = self;
        let painter = &mut Painter { buffer, theme };
        let (count, row) = rows;
        if area.is_empty() {
            return;
        }
        let focus = screen.panel == panel;
        let inner = screen.inside(panel, area);
        let border = if focus { Role::BorderFocus } else { Role::Border };
        // The title counts the rows, so that rows without room are not hidden silently.
        // The mark shows the focus without relying on colour.
        let mark = if focus { "▸ " } else { "" };
        let mut title = vec![(format!("{mark}{}", head.title), Role::Title)];
        if panel != AuditPanel::Trail && count > 0 {
            title.push((format!(" {count}"), Role::TextDim));
        }
        painter.frame(area, &title, head.right, border);
        let notes = if panel == AuditPanel::Trail { screen.notes() } else { Vec::new() };
        for (y, note) in (area.y.saturating_add(1)..inner.y).zip(notes) {
            let place = Rect { y, height: 1, ..inner };
            painter.pieces(place, &cut(&[(" ".to_owned(), Role::Text), note], usize::from(place.width)));
        }
        let room = usize::from(inner.height);
        let at = screen.selected(panel).min(count.saturating_sub(1));
        let skip = list::first_shown(at, room);
        if count == 0 {
            painter.pieces(line(inner, 0), &[(format!(" {}", head.empty), Role::TextDim)]);
        }
        for (y, place) in (0..inner.height).zip(skip..count) {
            let Some((mut left, right)) = row(place) else { continue };
            let mark = if focus && place == at { "▸" } else { " " };
            left.insert(0, (mark.to_owned(), Role::Key));
            // One blank column stays before the edge; rows that do not fit are cut with a mark.
            let place = Rect { width: inner.width.saturating_sub(1), ..line(inner, y) };
            let beside = |right: &[StyledText]| {
                usize::from(place.width).saturating_sub(if right.is_empty() { 0 } else { styled_width(right) + 1 })
            };
            // An entry keeps the name of its Golem before its hash, and half of its row for its words.
            let mut right = right;
            while panel == AuditPanel::Trail && styled_width(&left) > beside(&right) && right.len() > 1 {
                right.pop();
            }
            if panel == AuditPanel::Trail && beside(&right) < usize::from(place.width / 2) {
                right.clear();
            }
            painter.row(place, &cut(&left, beside(&right)), &right);
        }
        if count > room && room > 0 {
            let words = format!(" {} of {count} ", at + 1);
            let bottom = Rect { y: area.bottom().saturating_sub(1), height: 1, ..area };
            painter.row(Rect { width: bottom.width.saturating_sub(3), ..bottom }, &[], &[(words, Role::TextDim)]);
        }
    }
}

/// Selected entry of the audit log in full, because most entries do not fit a row.
struct EntryDetails<'a> {
    theme: &'a Theme,
    screen: &'a Audit,
    row: &'a AuditRow,
    /// Names of addresses, which are shown below the entry.
    names: &'a [NamedAddress],
}

impl Widget for EntryDetails<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, screen, row, names } = self;
        let painter = &mut Painter { buffer, theme };
        let lines = detail_lines(area);
        let Some(top) = area.height.checked_sub(lines + 1).filter(|_| lines > 0) else { return };
        let AuditEntry { kind, golem_id, hash, .. } = &row.entry;
        let right = [(format!("{kind} · {golem_id} · {}", short_hash(*hash)), Role::TextDim)];
        let title = [(format!("Entry {}", row.entry.seq), Role::Title)];
        let border = if screen.panel == AuditPanel::Trail { Role::BorderFocus } else { Role::Border };
        painter.division(area, area.y + top, &title, &right, border);
        let inner = Rect { x: area.x + 2, y: area.y + top + 1, width: area.width.saturating_sub(4), height: lines - 1 };
        let text = Row::new(row.words.as_str(), trail_role(&row.entry));
        let named = names_in(&row.entry.body, names);
        let named = named.into_iter().map(|one| Row::new(format!("{}  {}", one.address, one.name), Role::TextDim));
        let text = std::iter::once(text).chain(named).collect();
        paint::rows(painter, inner, &wrapped(text, inner.width.into()));
    }
}

impl ScreenView for Audit {
    fn id(&self) -> ScreenId {
        ScreenId::Audit
    }

    fn draw(&self, known: &ScreenContext<'_>, painter: &mut Painter<'_>, area: Rect) {
        let [questions, grants, decided, trail_area] = self.panels(known, area);
        let room = usize::from(questions.width).saturating_sub(5);
        let open: Vec<&CallSeen> = offers(known).collect();
        let waiting = |at: usize| match known.questions.get(at) {
            Some(question) => Some(question_row(question, known, room)),
            None => offer_row(open.get(at.checked_sub(known.questions.len())?)?, known),
        };
        let head = PanelHead { title: "Waiting for you", right: &[], empty: "No decision is waiting." };
        painter.render(
            ListPanel {
                theme: painter.theme,
                screen: self,
                panel: AuditPanel::Questions,
                head,
                rows: (known.questions.len() + open.len(), &waiting),
            },
            questions,
        );
        let room = usize::from(grants.width).saturating_sub(4);
        let standing = known.snapshot.map_or(&[] as &[GrantState], |snapshot| &snapshot.grants);
        let revokes = [("x revokes".to_owned(), Role::TextDim)];
        let right: &[StyledText] = if standing.is_empty() { &[] } else { &revokes };
        let head = PanelHead { title: "Standing approvals", right, empty: "None: each action asks separately." };
        let grant = |at: usize| standing.get(at).map(|grant| grant_row(grant, known, room));
        painter.render(
            ListPanel {
                theme: painter.theme,
                screen: self,
                panel: AuditPanel::Grants,
                head,
                rows: (standing.len(), &grant),
            },
            grants,
        );
        let past = decisions(known);
        let head = PanelHead { title: "Decisions", right: &[], empty: "No decisions yet." };
        let decision = |at: usize| past.get(at).map(|call| decision_row(call));
        painter.render(
            ListPanel {
                theme: painter.theme,
                screen: self,
                panel: AuditPanel::Decisions,
                head,
                rows: (past.len(), &decision),
            },
            decided,
        );
        // The label mentions `f` when new entries do not arrive by themselves.
        let still = if self.follows || self.entries.is_empty() { "" } else { " · f follows" };
        let keys = if known.replayed() { String::new() } else { format!(" · v checks it · e exports{still}") };
        let mut right = self.filter.label();
        right.push((keys, Role::TextDim));
        let empty = match self.entries.is_empty() {
            true if known.replayed() => "Not in this recording; see `bardo log`.",
            true => "No entries yet.",
            false => "No entry contains these words.",
        };
        let head = PanelHead { title: "Audit log", right: &right, empty };
        let fitting = self.fitting();
        let entry = |at: usize| fitting.get(at).map(|row| trail_row(row, trail_area.width));
        painter.render(
            ListPanel {
                theme: painter.theme,
                screen: self,
                panel: AuditPanel::Trail,
                head,
                rows: (fitting.len(), &entry),
            },
            trail_area,
        );
        let at = self.selected(AuditPanel::Trail).min(fitting.len().saturating_sub(1));
        if let Some(row) = fitting.get(at) {
            painter.render(
                EntryDetails {
                    theme: painter.theme,
                    screen: self,
                    row,
                    names: known.snapshot.map_or(&[], |snapshot| &snapshot.names),
                },
                trail_area,
            );
        }
    }

    fn act(&mut self, action: Action, known: &ScreenContext<'_>, area: Rect) -> Option<Vec<ScreenRequest>> {
        if self.moved(action, known, usize::from(area.height / 2)) {
            return Some(Vec::new());
        }
        match action {
            Action::NextPanel => self.panel = PANELS.get((self.place() + 1) % 4).copied().unwrap_or(AuditPanel::Trail),
            Action::PreviousPanel => {
                self.panel = PANELS.get((self.place() + 3) % 4).copied().unwrap_or(AuditPanel::Trail)
            }
            Action::Filter => {
                self.panel = AuditPanel::Trail;
                self.filter.open();
            }
            Action::Follow => {
                let [.., at] = &mut self.at;
                *at = 0;
                return Some(vec![ask(TRAIL, SessionQuery::AuditTail { most: ENTRIES })]);
            }
            Action::Zoom => self.zoomed = !self.zoomed,
            Action::Back if self.zoomed => self.zoomed = false,
            Action::Verify => return Some(vec![ask(VERIFY, SessionQuery::VerifyAudit)]),
            Action::Open => return Some(self.open(known)),
            Action::CancelSelected if self.panel == AuditPanel::Grants && known.watch_only => {
                return Some(vec![ScreenRequest::Notice(SafeText::clean("this console is read-only", 60))]);
            }
            Action::CancelSelected if self.panel == AuditPanel::Grants => {
                let grant = known.snapshot.and_then(|known| known.grants.get(self.selected(AuditPanel::Grants)));
                let Some(grant) = grant else { return Some(notice("there is no standing approval to revoke")) };
                let chain = chain_words(grant.chain_id, &known.feed.chains);
                let of = grant.granted.map(|granted| format!(" of {}", dollars(granted))).unwrap_or_default();
                let title = format!(
                    "{} on {chain}: {}{of} left. Later ones ask you again.",
                    grant_words(grant),
                    dollars(grant.left)
                );
                return Some(vec![ScreenRequest::Confirm {
                    asks: "Revoke this standing approval?",
                    title: SafeText::clean(&title, 200),
                    command: Box::new(SessionCommand::RevokeGrant { number: grant.number }),
                }]);
            }
            Action::CancelSelected => {
                return Some(notice("x revokes a standing approval: Tab moves to that panel"));
            }
            Action::Export => {
                let entries: Vec<&AuditEntry> = self.fitting().into_iter().map(|row| &row.entry).collect();
                let text = serde_json::to_string_pretty(&json!({ "entries": entries })).unwrap_or_default();
                return Some(vec![ScreenRequest::Write {
                    name: format!("bardo-audit-{}.json", known.now_millis),
                    text,
                }]);
            }
            Action::Copy => {
                let entry =
                    self.fitting().get(self.selected(AuditPanel::Trail)).map(|row| json!(row.entry).to_string());
                return Some(entry.map(ScreenRequest::Copy).into_iter().collect());
            }
            Action::Back if self.filter.stands() => self.filter.clear(),
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
        let hit = PANELS.into_iter().zip(self.panels(known, area)).find(|(_, place)| place.contains(at));
        let Some((panel, place)) = hit else { return Vec::new() };
        let again = self.panel == panel;
        self.panel = panel;
        let inside = self.inside(panel, place);
        let (count, selected) = (self.count(panel, known), self.selected(panel));
        let first = list::first_shown(selected.min(count.saturating_sub(1)), usize::from(inside.height));
        let Some(row) = list::row_at(at, inside, first, count) else { return Vec::new() };
        // A second click on a row opens it, as Enter does.
        if again && row == selected {
            return self.open(known);
        }
        let place = self.place();
        if let Some(at) = self.at.get_mut(place) {
            *at = row;
        }
        Vec::new()
    }

    fn wheel(&mut self, at: Position, down: bool, known: &ScreenContext<'_>, area: Rect) {
        if let Some((panel, _)) = PANELS.into_iter().zip(self.panels(known, area)).find(|(_, place)| place.contains(at))
        {
            self.panel = panel;
            self.moved(if down { Action::Down } else { Action::Up }, known, 1);
        }
    }

    fn shown(&mut self, known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        (self.seen, self.due) = (known.feed.last, None);
        vec![ask(TRAIL, SessionQuery::AuditTail { most: ENTRIES })]
    }

    /// Every audit log entry has an event, so new events trigger a query for new entries.
    fn tick(&mut self, known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        if !self.follows {
            return Vec::new();
        }
        if self.due.is_none() && known.feed.last != self.seen {
            // Events that arrive before the query trigger another one afterwards: their entries may not be written by
            // then.
            self.seen = known.feed.last;
            self.due = Some(known.machine_millis.saturating_add(SETTLED_MILLIS));
        }
        if self.due.take_if(|due| *due <= known.machine_millis).is_none() {
            return Vec::new();
        }
        vec![ask(MORE, SessionQuery::Audit { after: self.newest(), call: None, most: ENTRIES })]
    }

    fn wakes_at(&self) -> Option<u64> {
        self.due
    }

    fn receive_reply(&mut self, count: u32, reply: CommandReply, known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        if let CommandReply::Found(found) = reply {
            match (count, *found) {
                (TRAIL, QueryResult::Audit { entries }) => {
                    self.follows = true;
                    self.change(|known| *known = entries.into_iter().map(AuditRow::new).collect());
                }
                (MORE, QueryResult::Audit { entries }) => return self.append(entries),
                // Uses the words of `bardo log verify`.
                (VERIFY, QueryResult::Verified { good, entries, head, faults }) => {
                    let more = match faults.len() {
                        0 | 1 => String::new(),
                        many => format!("; and {} more", many - 1),
                    };
                    let words = match (good, faults.first()) {
                        (true, _) => {
                            let all = counted(entries, "entry", "entries");
                            format!("good: {all}, in order and unchanged · {}", short_hash(head))
                        }
                        (false, Some(first)) => format!("NOT GOOD: {first}{more}"),
                        (false, None) => "NOT GOOD".to_owned(),
                    };
                    let words = SafeText::clean(&words, 200);
                    self.verdict = Some(Verdict { good, words, entries, at: known.live_millis });
                }
                (asked, QueryResult::Nothing { why }) => {
                    self.follows &= asked == VERIFY;
                    return vec![ScreenRequest::Notice(why)];
                }
                _ => {}
            }
        }
        Vec::new()
    }
}

impl Audit {
    fn open(&self, known: &ScreenContext<'_>) -> Vec<ScreenRequest> {
        match self.panel {
            AuditPanel::Questions => {
                let question = known.questions.get(self.selected(AuditPanel::Questions));
                question.map(|question| ScreenRequest::OpenQuestion(question.number)).into_iter().collect()
            }
            AuditPanel::Decisions => {
                let decided = decisions(known);
                decided
                    .get(self.selected(AuditPanel::Decisions))
                    .map(|call| ScreenRequest::OpenCall(call.call_id))
                    .into_iter()
                    .collect()
            }
            AuditPanel::Trail => {
                let shown = self.fitting();
                let call = shown.get(self.selected(AuditPanel::Trail)).and_then(|row| row.entry.call_id.as_ref());
                let call: Option<CallId> = call.and_then(|id| id.as_str().parse().ok());
                call.map(ScreenRequest::OpenCall).into_iter().collect()
            }
            AuditPanel::Grants => Vec::new(),
        }
    }
}
