//! Dialogs over a screen: help, leaving, hold, palette and confirmation.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::{List, ListState, Widget};

use crate::keymap::{self, Action, Context};
use crate::painter::{Painter, StyledText, line, styled_width};
use crate::screen_id::ScreenId;
use crate::scroll::ScrollOffset;
use crate::state::PaletteEntry;
use crate::state::State;
use crate::state::model::MoneyKind;
use crate::theme::{Role, Theme};
use crate::widgets::dialog::{middle, open};
use crate::widgets::paint::{self, Row};
use crate::widgets::text_field::TextField;
use crate::widgets::text_input::TextInput;
use bardo_base::text::{SafeText, width};

fn titled(words: &str) -> Vec<StyledText> {
    vec![(words.to_owned(), Role::Title)]
}

fn keys_of(row: &keymap::ActiveBinding) -> String {
    let keys: Vec<_> = row.keys.iter().map(ToString::to_string).collect();
    keys.join("  ")
}

/// Help: the active keys and their effects, then the display terms beside those of the documents.
pub(super) struct HelpDialog<'a> {
    pub(super) theme: &'a Theme,
    pub(super) state: &'a State,
    pub(super) offset: &'a ScrollOffset,
    pub(super) of: Context,
}

impl Widget for HelpDialog<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, state, offset, of } = self;
        let painter = &mut Painter { buffer, theme };
        let here = |row: &keymap::ActiveBinding| match row.context {
            Context::Page if state.replaying() && row.action == Action::Pause => "pause or continue the recording",
            Context::Page if state.replaying() && row.action == Action::Prompt => {
                "type a command, such as logs or quit"
            }
            Context::Page if state.replaying() && row.action == Action::GoTo(ScreenId::Trade) => {
                "trade by hand: not in a recording"
            }
            Context::Page => keymap::help_on(state.display.screen, row.action).unwrap_or(row.help),
            _ => row.help,
        };
        let keys: Vec<(String, &str)> = state.rows(of).map(|row| (keys_of(row), here(row))).collect();
        let words: Vec<(String, &str)> =
            WORDS.iter().map(|(document, screen)| ((*document).to_owned(), *screen)).collect();
        // Each list has its own columns, so that a long term does not widen the list of keys.
        let mut rows: Vec<Vec<StyledText>> = listed(&keys, Role::Key);
        rows.push(Vec::new());
        rows.push(vec![("Terms on screen and in documents, code and logs".to_owned(), Role::Title)]);
        let turned: Vec<(String, &str)> =
            words.iter().map(|(document, screen)| ((*screen).to_owned(), &**document)).collect();
        rows.extend(listed(&turned, Role::TextStrong));
        let widest = rows.iter().map(|row| styled_width(row)).max().unwrap_or(0);
        let place = middle(area, widest + 4, rows.len() + 3);
        // Frame, and the line that says how to close the help.
        let room = usize::from(place.height).saturating_sub(3);
        let offset = offset.first(rows.len(), room);
        let more = if rows.len() > room {
            vec![(format!("{}–{} of {}", offset + 1, offset + room, rows.len()), Role::TextDim)]
        } else {
            Vec::new()
        };
        let inner = open(painter, place, &titled("Keys and terms"), &more);
        painter.scrollbar(place, rows.len(), room, offset);
        for (at, row) in (0..).zip(rows.iter().skip(offset).take(room)) {
            painter.pieces(line(inner, at), &paint::cut(row, usize::from(inner.width)));
        }
        choices(painter, state, inner, Context::Help);
    }
}

/// Rows of two columns: term and description.
fn listed(rows: &[(String, &str)], role: Role) -> Vec<Vec<StyledText>> {
    let column = rows.iter().map(|(word, _)| width(word)).max().unwrap_or(0);
    let row = |(word, about): &(String, &str)| {
        let padding = " ".repeat(column.saturating_sub(width(word)) + 2);
        vec![(word.clone(), role), (padding, Role::Dialog), ((*about).to_owned(), Role::Dialog)]
    };
    rows.iter().map(row).collect()
}

/// Terms of the documents and the corresponding display terms.
const WORDS: &[(&str, &str)] = &[
    ("approval (operator's)", "decision; \"approval\" stays for tokens"),
    ("ActionPermit", "simulated offer, valid 0:41"),
    ("needs_approval (chip)", "Allowance: needs approval"),
    ("Terminal, Survival, Defensive", "Dying, Last reserves, Exits only"),
    ("ground truth", "chain agrees ✓, chain disagrees ✕"),
    ("PolicyCage", "policy contract"),
    ("hot lane", "limit for a second opinion"),
    ("half-open breaker", "one trial allowed"),
    ("Grimoire, episode", "memory, past trade"),
    ("Pi, archetype, profile", "agent, role, tool set"),
    ("reduce-only", "selling and revoking"),
    ("fabric gap", "screen missed N events (nothing lost)"),
    ("lapsed", "nobody answered"),
    ("slippage −4 bps", "0.04 % under quote"),
    ("intent", "bridge order"),
];

/// Returns true if a key is an answer of the dialog. Help is not: it is shown in the hint line.
fn is_answer(state: &State, row: &keymap::ActiveBinding, context: Context) -> bool {
    let answers = row.context == context && !row.hint.is_empty() && row.action != Action::Help;
    answers && state.can_answer(row.action)
}

/// Key of an answer and its word; empty if the key does nothing now.
fn answer(state: &State, row: &keymap::ActiveBinding) -> Vec<StyledText> {
    let Some(word) = state.hint_word(row) else { return Vec::new() };
    let mut pieces = super::hint(row);
    if let Some((words, _)) = pieces.get_mut(1) {
        *words = format!(" {word}  ");
    }
    pieces
}

fn answers(state: &State, context: Context) -> Vec<StyledText> {
    state
        .options
        .keys
        .rows(context)
        .filter(|row| is_answer(state, row, context))
        .flat_map(|row| answer(state, row))
        .collect()
}

fn choices(painter: &mut Painter<'_>, state: &State, inner: Rect, context: Context) {
    painter.pieces(line(inner, inner.height.saturating_sub(1)), &answers(state, context));
}

/// Draws a dialog with rows, and below them its answers, in as many lines as they need.
fn sheet(painter: &mut Painter<'_>, state: &State, area: Rect, title: &[StyledText], rows: Vec<Row>, context: Context) {
    let widest = rows.iter().map(|row| styled_width(&row.left)).max().unwrap_or(0).max(styled_width(title) + 4);
    let widest = widest.max(styled_width(&answers(state, context)));
    let columns = (widest + 4).clamp(44, 76);
    let room = columns.min(usize::from(area.width)).saturating_sub(4);
    let choices = answer_lines(state, context, room);
    let wrapped = paint::wrapped(rows, room);
    let place = middle(area, columns, wrapped.len() + choices.len() + 3);
    let inner = open(painter, place, title, &[]);
    let lines = u16::try_from(choices.len()).unwrap_or(u16::MAX);
    let body = Rect { height: inner.height.saturating_sub(lines + 1), ..inner };
    paint::rows(painter, body, &wrapped);
    let first = inner.height.saturating_sub(lines);
    for (at, choice) in (first..inner.height).zip(choices) {
        painter.pieces(line(inner, at), &choice);
    }
}

/// Answers wrapped to lines of `columns`; no answer is split.
fn answer_lines(state: &State, context: Context, columns: usize) -> Vec<Vec<StyledText>> {
    let mut lines: Vec<Vec<StyledText>> = vec![Vec::new()];
    for row in state.options.keys.rows(context).filter(|row| is_answer(state, row, context)) {
        let answer = answer(state, row);
        if answer.is_empty() {
            continue;
        }
        let taken = lines.last().map_or(0, |line| styled_width(line));
        // The two blanks after an answer may be cut.
        if taken > 0 && taken + styled_width(&answer) > columns + 2 {
            lines.push(Vec::new());
        }
        if let Some(line) = lines.last_mut() {
            line.extend(answer);
        }
    }
    for (last, _) in lines.iter_mut().filter_map(|line| line.last_mut()) {
        last.truncate(last.trim_end().len());
    }
    lines
}

/// Dialog before leaving: open items, and what happens to them.
pub(super) struct QuitDialog<'a> {
    pub(super) theme: &'a Theme,
    pub(super) state: &'a State,
    pub(super) picked: bool,
}

impl Widget for QuitDialog<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, state, picked } = self;
        let painter = &mut Painter { buffer, theme };
        let mut rows = Vec::new();
        let flying = state.in_flight();
        for question in state.session.questions.iter() {
            let words = format!("‼ Waits for your answer: {}", question.title);
            rows.push(Row::new(words, Role::StateCare).kept());
        }
        if flying.is_empty() {
            rows.push(Row::new("Nothing is in flight.", Role::Dialog));
        } else {
            rows.push(Row::new("In flight:", Role::TextStrong));
            rows.extend(flying.into_iter().map(|words| Row::new(format!("· {words}"), Role::Dialog)));
        }
        match state.money() {
            Some(MoneyKind::Play) => {
                let own = state.session.ready.as_ref().is_some_and(|ready| ready.own_devnet);
                let words = match own {
                    true => "The devnet ends with Bardo, unless it is kept.",
                    false => "The devnet runs in another process and continues.",
                };
                rows.push(Row::new(words, Role::TextDim));
            }
            Some(MoneyKind::Rehearsal) => {
                rows.push(Row::new("The rehearsal ends with Bardo, unless it is kept.", Role::TextDim));
            }
            Some(MoneyKind::Real | MoneyKind::Test) => {
                rows.push(Row::new("Open orders can still fill while Bardo is not running.", Role::StateCare));
            }
            Some(MoneyKind::Paper | MoneyKind::Replay) | None => {}
        }
        if picked {
            rows.push(Row::new("Picked: cancel orders and quit. Enter confirms.", Role::StateCare).kept());
        }
        sheet(painter, state, area, &titled("Quit Bardo?"), rows, Context::Quit);
    }
}

/// Overlay of a hold, with the choices that follow.
pub(super) struct HoldDialog<'a> {
    pub(super) theme: &'a Theme,
    pub(super) state: &'a State,
    pub(super) failure: Option<&'a SafeText>,
}

impl Widget for HoldDialog<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, state, failure } = self;
        let painter = &mut Painter { buffer, theme };
        let held = state.held();
        let first = match (held, failure) {
            (true, _) => Row::new("No new signatures are made.", Role::StateBad),
            // The session has not answered, or reported that it could not stop.
            (false, Some(why)) => Row::new(format!("NOT STOPPED: {why}"), Role::StateBad).kept(),
            (false, None) => Row::new("Stopping: the session has not confirmed yet.", Role::StateCare),
        };
        let mut rows =
            vec![first, Row::new("Sent transactions still settle; open orders can still fill:", Role::Dialog)];
        let open: Vec<Row> =
            state.in_flight().into_iter().map(|words| Row::new(format!("· {words}"), Role::Dialog)).collect();
        if open.is_empty() {
            rows.push(Row::new("· nothing is in flight", Role::TextDim));
        }
        rows.extend(open);
        if state.only_watches_served() {
            rows.push(Row::new("An operator's console releases it. Esc closes this.", Role::TextDim));
        }
        let title = if held {
            ("■ HELD".to_owned(), Role::StateBad)
        } else {
            ("◌ stopping…".to_owned(), Role::StateCare)
        };
        sheet(painter, state, area, &[title], rows, Context::Hold);
    }
}

/// Dialog that confirms a cancellation or revocation.
pub(super) struct ConfirmDialog<'a> {
    pub(super) theme: &'a Theme,
    pub(super) state: &'a State,
    pub(super) title: &'a SafeText,
    pub(super) asks: &'static str,
    pub(super) picked: bool,
}

impl Widget for ConfirmDialog<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, state, title, asks, picked } = self;
        let painter = &mut Painter { buffer, theme };
        let standing = match picked {
            true => Row::new("Selected: yes. Enter confirms.", Role::StateCare).kept(),
            false => Row::new("Nothing is selected.", Role::TextDim),
        };
        let rows = vec![Row::new(title.as_str(), Role::Dialog).kept(), standing];
        sheet(painter, state, area, &titled(asks), rows, Context::Confirm);
    }
}

/// Palette of commands: a filter and the commands that match it.
pub(super) struct PaletteDialog<'a> {
    pub(super) theme: &'a Theme,
    pub(super) state: &'a State,
    pub(super) field: &'a TextField,
    pub(super) at: usize,
}

impl Widget for PaletteDialog<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, state, field, at } = self;
        let painter = &mut Painter { buffer, theme };
        let found = state.palette(field);
        let place = middle(area, 96, 22);
        let inner = open(painter, place, &titled("Find a command"), &[]);
        let first = line(inner, 0);
        let typed = Rect { x: painter.pieces(first, &[(": ".to_owned(), Role::Key)]), ..first };
        painter.render(TextInput::new(field, painter.theme), typed.intersection(first));
        let room = usize::from(inner.height).saturating_sub(2);
        let skip = (at + 1).saturating_sub(room);
        let entry = |(place, entry): (usize, &PaletteEntry)| {
            let role = if place == at { Role::Selection } else { Role::Dialog };
            let columns = usize::from(inner.width);
            let name = format!("{:<23} ", entry.name);
            painter.line(&paint::cut(&[(name, role), (entry.about.to_owned(), Role::TextDim)], columns))
        };
        let entries: Vec<_> = found.iter().enumerate().map(entry).collect();
        let list = Rect { y: inner.y + 1, height: inner.height.saturating_sub(2), ..inner };
        painter.scrollbar(place, found.len(), room, skip);
        painter.render_stateful(List::new(entries), list, &mut ListState::default().with_selected(Some(at)));
        if found.is_empty() {
            painter.pieces(line(inner, 1), &[("no matching command".to_owned(), Role::TextDim)]);
        } else if found.len() > room {
            let words = format!("{} of {}", (skip + room).min(found.len()), found.len());
            painter.row(line(inner, inner.height.saturating_sub(1)), &[], &[(words, Role::TextDim)]);
        }
    }
}
