//! Screen 8: one line per event, with levels, filter and follow mode.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::widgets::{List, Widget};

use super::filter::Filter;
use super::{ScreenContext, ScreenId, ScreenRequest, ScreenView, list};
use crate::format::time_of_day;
use crate::keymap::Action;
use crate::painter::{Painter, line};
use crate::state::line::{LogLevel, LogLine};
use crate::theme::{Role, Theme};
use crate::widgets::paint::cut;
use bardo_base::id::CallId;
use bardo_base::text::SafeText;
use bardo_session::handle::name_addresses;

/// Identity of a line: event number and kind. A gap line has the number of the last missed event, which may have its
/// own line.
type Selected = (u64, &'static str);

const fn name(line: &LogLine) -> Selected {
    (line.seq, line.kind)
}

/// State of screen 8.
#[derive(Debug)]
pub(super) struct Logs {
    least: LogLevel,
    filter: Filter,
    /// Selected line; `None` follows the newest line.
    selected: Option<Selected>,
}

impl Default for Logs {
    fn default() -> Self {
        Self { least: LogLevel::Plain, filter: Filter::default(), selected: None }
    }
}

/// Role for the level of a line.
pub(super) const fn role(level: LogLevel) -> Role {
    match level {
        LogLevel::Detail => Role::TextDim,
        LogLevel::Plain => Role::Text,
        LogLevel::Care => Role::StateCare,
        LogLevel::Bad => Role::StateBad,
    }
}

/// Text of a line, with names beside whole addresses.
fn named_text(line: &LogLine, known: &ScreenContext<'_>) -> String {
    let names = known.snapshot.map_or(&[][..], |snapshot| snapshot.names.as_slice());
    name_addresses(line.text.as_str(), names)
}

impl Logs {
    /// Returns true if a line matches every word of the filter. `kind:`, `call:` and `level:` match those parts.
    fn fits(&self, line: &LogLine, known: &ScreenContext<'_>) -> bool {
        self.filter.describe().all(|word| match word.split_once(':') {
            Some(("kind", kind)) => line.kind.contains(kind),
            Some(("call", call)) => line.call_id.is_some_and(|id| id.to_string().to_lowercase().contains(call)),
            Some(("level", level)) => line.level.word() == level,
            _ => {
                let code = line.code.is_some_and(|code| code.as_str().to_lowercase().contains(&word));
                code || named_text(line, known).to_lowercase().contains(&word) || line.kind.contains(word.as_str())
            }
        })
    }

    fn inside(area: Rect) -> Rect {
        let (width, height) = (area.width.saturating_sub(2), area.height.saturating_sub(2));
        Rect { x: area.x + 1, y: area.y + 1, width, height }
    }

    /// Index of the first line in view. The selected line is in the middle if enough lines surround it.
    fn first_shown(&self, mut lines: impl Iterator<Item = Selected>, count: usize, room: usize) -> usize {
        let at = self.selected.and_then(|wanted| lines.position(|one| one == wanted)).unwrap_or(0);
        at.saturating_sub(room / 2).min(count.saturating_sub(room))
    }

    /// Lines that match level and filter, newest first.
    fn lines<'a>(&'a self, known: &'a ScreenContext<'_>) -> impl Iterator<Item = &'a LogLine> {
        known.feed.lines_from(self.least).filter(|line| self.fits(line, known))
    }

    /// Moves the selection. Returns true if the action moves a selection.
    fn moved(&mut self, action: Action, known: &ScreenContext<'_>, page: usize) -> bool {
        let lines: Vec<Selected> = self.lines(known).map(name).collect();
        let at = self.selected.and_then(|wanted| lines.iter().position(|one| *one == wanted));
        let to = list::moved_from(action, at, lines.len().saturating_sub(1), page);
        if let Some(to) = to {
            self.selected = lines.get(to).copied();
        }
        to.is_some()
    }
}

/// Panel of the log lines.
struct LogPanel<'a> {
    theme: &'a Theme,
    screen: &'a Logs,
    known: &'a ScreenContext<'a>,
}

impl Widget for LogPanel<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, screen, known } = self;
        let painter = &mut Painter { buffer, theme };
        let title =
            [("Logs".to_owned(), Role::Title), (format!(" · {} and above ([ ])", screen.least.word()), Role::TextDim)];
        let follow = if screen.selected.is_none() { "following" } else { "f follows" };
        let mut right = screen.filter.label();
        right.push((format!(" · {follow}"), Role::TextDim));
        painter.frame(area, &title, &right, Role::BorderFocus);
        let inner = Logs::inside(area);
        let room = usize::from(inner.height);
        let lines: Vec<&LogLine> = screen.lines(known).collect();
        let skip = screen.first_shown(lines.iter().map(|line| name(line)), lines.len(), room);
        let shown = |one: &&LogLine| {
            let selected = screen.selected == Some(name(one));
            let text = if selected { Role::Selection } else { role(one.level) };
            let pieces = [
                (if selected { "▸" } else { " " }.to_owned(), Role::Key),
                (format!("{} ", time_of_day(one.at / 1000)), Role::TextDim),
                (format!("{:<18} ", one.kind), Role::TextDim),
                (named_text(one, known), text),
                (one.code.map(|code| format!("  {code}")).unwrap_or_default(), Role::TextDim),
            ];
            painter.line(&cut(&pieces, usize::from(inner.width).saturating_sub(1)))
        };
        let shown: Vec<_> = lines.iter().skip(skip).take(room).map(shown).collect();
        painter.render(List::new(shown), inner);
        painter.scrollbar(area, lines.len(), room, skip);
        if lines.is_empty() {
            painter.pieces(line(inner, 0), &[(" No matching lines yet.".to_owned(), Role::TextDim)]);
        }
    }
}

impl ScreenView for Logs {
    fn id(&self) -> ScreenId {
        ScreenId::Logs
    }

    fn draw(&self, known: &ScreenContext<'_>, painter: &mut Painter<'_>, area: Rect) {
        painter.render(LogPanel { theme: painter.theme, screen: self, known }, area);
    }

    fn act(&mut self, action: Action, known: &ScreenContext<'_>, area: Rect) -> Option<Vec<ScreenRequest>> {
        // The top line is the newest, so going there follows the newest.
        if action != Action::Top && self.moved(action, known, usize::from(area.height)) {
            return Some(Vec::new());
        }
        match action {
            Action::Top | Action::Follow => self.selected = None,
            Action::Filter => self.filter.open(),
            Action::ShorterRange => {
                self.least = match self.least {
                    LogLevel::Detail | LogLevel::Plain => LogLevel::Detail,
                    LogLevel::Care => LogLevel::Plain,
                    LogLevel::Bad => LogLevel::Care,
                };
            }
            Action::LongerRange => {
                self.least = match self.least {
                    LogLevel::Detail => LogLevel::Plain,
                    LogLevel::Plain => LogLevel::Care,
                    LogLevel::Care | LogLevel::Bad => LogLevel::Bad,
                };
            }
            Action::Back if self.selected.is_some() || self.filter.stands() => {
                self.selected = None;
                self.filter.clear();
            }
            Action::Open => {
                let call =
                    self.lines(known).find(|line| Some(name(line)) == self.selected).and_then(|line| line.call_id);
                return Some(match call {
                    Some(call) => vec![ScreenRequest::OpenCall(call)],
                    None => {
                        vec![ScreenRequest::Notice(SafeText::clean(
                            "select with j, k; a line of a call opens its details",
                            60,
                        ))]
                    }
                });
            }
            Action::Copy => {
                let line = self.lines(known).find(|line| Some(name(line)) == self.selected)?;
                return Some(vec![ScreenRequest::Copy(format!(
                    "{} {} {}",
                    line.at,
                    line.kind,
                    named_text(line, known)
                ))]);
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
        let inside = Self::inside(area);
        let lines: Vec<(Selected, Option<CallId>)> = self.lines(known).map(|line| (name(line), line.call_id)).collect();
        let first = self.first_shown(lines.iter().map(|(line, _)| *line), lines.len(), usize::from(inside.height));
        let hit = list::row_at(at, inside, first, lines.len()).and_then(|row| lines.get(row));
        match hit {
            // A second click on a line opens its call, as Enter does.
            Some((line, Some(call))) if self.selected == Some(*line) => vec![ScreenRequest::OpenCall(*call)],
            Some((line, _)) => {
                self.selected = Some(*line);
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    fn wheel(&mut self, _at: Position, down: bool, known: &ScreenContext<'_>, _area: Rect) {
        for _ in 0..3 {
            self.moved(if down { Action::Down } else { Action::Up }, known, 1);
        }
    }
}
