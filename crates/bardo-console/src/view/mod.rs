//! View: draws `&State` into cells. Works at any size, changes nothing, and has no access to chain or clock.

mod boot;
mod call_details;
mod dialogs;
mod header;
mod hit;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::widgets::Widget;

use crate::keymap::{Action, ActiveBinding, Context};
use crate::painter::{Painter, StyledText, line, styled_width};
use crate::state::{Candidate, HEADER_ROWS, Input, LEAST, Layer, State};
use crate::theme::{Role, Theme};
use crate::widgets::decision::Decision;
use crate::widgets::decision::{DecisionDialog, DecisionModel, VisiblePart, badge};
use crate::widgets::text_input::TextInput;
use bardo_base::text::{fit, width};

/// Width from which the hints of a text field name the key of the help, in columns.
const TYPING_HELP: u16 = 60;

/// Widget of the whole console.
#[derive(Debug, Clone, Copy)]
pub struct ConsoleView<'a> {
    state: &'a State,
    theme: &'a Theme,
}

impl<'a> ConsoleView<'a> {
    /// Creates the widget of the console's state.
    pub const fn new(state: &'a State, theme: &'a Theme) -> Self {
        Self { state, theme }
    }
}

impl Widget for ConsoleView<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        draw(self.state, self.theme, area, buffer);
    }
}

/// Draws the whole console into `area`.
pub fn draw(state: &State, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let mut painter = Painter { buffer, theme };
    painter.fill(area, Role::Background);
    if state.too_small() {
        painter.render(TooSmallView { theme: painter.theme, state }, area);
        return;
    }
    page(&mut painter, state, area);
    for one in &state.display.layers {
        layer(&mut painter, state, one, over(area));
    }
}

/// Draws the page: header, screen, prompt and hints, without layers.
fn page(painter: &mut Painter<'_>, state: &State, area: Rect) {
    painter.render(header::Header { theme: painter.theme, state }, area);
    let body = state.body();
    if state.booting() {
        painter.render(boot::BootView { theme: painter.theme, state }, body);
    } else if let Some(view) = state.display.screens.get(state.display.screen) {
        view.draw(&state.known_drawn(), painter, body);
    }
    notice_over(painter, state, area);
    painter.render(PromptLine { theme: painter.theme, state }, line(area, area.height.saturating_sub(2)));
    painter.render(HintLine { theme: painter.theme, state }, line(area, area.height.saturating_sub(1)));
}

/// Draws the first lines of a long notice over the end of the screen, above the prompt's line. A key, or a while, ends it.
fn notice_over(painter: &mut Painter<'_>, state: &State, area: Rect) {
    let Some((above, _)) = notice_lines(state, area.width) else { return };
    let over = above.split_last().map_or(&[][..], |(_, over)| over);
    let count = u16::try_from(over.len()).unwrap_or(u16::MAX);
    let first = area.height.saturating_sub(2).saturating_sub(count);
    for (at, words) in (first..area.height.saturating_sub(2)).zip(over) {
        let place = line(area, at);
        painter.fill(place, Role::Background);
        let words = fit(words, usize::from(place.width).saturating_sub(2));
        painter.pieces(place, &[(format!(" {words}"), Role::StateCare)]);
    }
}

fn layer(painter: &mut Painter<'_>, state: &State, layer: &Layer, over: Rect) {
    match layer {
        Layer::Help { offset, of } => {
            painter.render(dialogs::HelpDialog { theme: painter.theme, state, offset, of: *of }, over)
        }
        Layer::Quit { picked, .. } => {
            painter.render(dialogs::QuitDialog { theme: painter.theme, state, picked: *picked }, over)
        }
        Layer::Decision(shown) => {
            painter.render(DecisionDialog::new(decision(state, shown), painter.theme), beside_header(shown, over));
        }
        Layer::Hold { failure, .. } => {
            painter.render(dialogs::HoldDialog { theme: painter.theme, state, failure: failure.as_ref() }, over)
        }
        Layer::CallDetails(failure) => {
            painter.render(call_details::CallDetailsPage { theme: painter.theme, state, call_details: failure }, over)
        }
        Layer::Palette { field, at } => {
            painter.render(dialogs::PaletteDialog { theme: painter.theme, state, field, at: *at }, over)
        }
        Layer::Confirm { asks, title, picked, .. } => {
            let theme = painter.theme;
            painter.render(dialogs::ConfirmDialog { theme, state, title, asks, picked: *picked }, over)
        }
    }
}

/// Input for a click on a cell.
pub fn click(state: &State, column: u16, row: u16) -> Input {
    Input::Click { column, row, target: hit::target_at(state, Position { x: column, y: row }) }
}

/// Input after a frame with this state was written.
pub fn drawn(state: &State) -> Input {
    Input::Drawn(decision_fit(state))
}

/// Area of the layers: everything but the hint line.
fn over(area: Rect) -> Rect {
    Rect { height: area.height.saturating_sub(1), ..area }
}

/// Least height that leaves a decision room below the header, in rows.
const ROOM_FOR_HEADER: u16 = 34;

/// Area of an approval dialog: what is at stake, and what runs, stays in view above it where there is room. Full screen and
/// small terminals need all rows.
fn beside_header(shown: &Decision, over: Rect) -> Rect {
    if shown.full || over.height < ROOM_FOR_HEADER {
        return over;
    }
    Rect { y: over.y + HEADER_ROWS, height: over.height - HEADER_ROWS, ..over }
}

/// View model of an approval dialog, with the state's context.
fn decision<'a>(state: &'a State, decision: &'a Decision) -> DecisionModel<'a> {
    let question = decision.shown.as_deref();
    // The name is known only for the Golem of this session; others have just an id.
    let here = state.session.ready.as_ref().filter(|ready| question.is_some_and(|one| one.golem_id == ready.golem_id));
    let call = question.and_then(|question| state.session.feed.call(question.call_id?));
    DecisionModel {
        read_only: state.options.watch_only,
        decision,
        name: here.map(|ready| ready.name.as_str()),
        golem: state.session.ready.as_ref().map(|ready| (&ready.golem_id, ready.name.as_str())),
        network: state.session.page.network.as_ref().map(|network| network.name.as_str()),
        before: call.and_then(|call| call.before.as_ref()),
        outcome: decision.outcome.as_ref().or_else(|| question.and_then(|question| state.outcome_of(question))),
        now: state.known().live(),
        clock: state.clock.now_millis,
    }
}

/// Visible part of the topmost approval dialog at the state's size. `None` without one, or if it cannot be answered.
fn decision_fit(state: &State) -> Option<VisiblePart> {
    let Some(Layer::Decision(shown)) = state.display.layers.last().filter(|_| !state.too_small()) else { return None };
    decision(state, shown).fit(beside_header(shown, over(state.area())))
}

/// Index of the warning that is drawn at a position of the topmost approval dialog.
fn to_read_at(state: &State, at: Position) -> Option<usize> {
    let Some(Layer::Decision(shown)) = state.display.layers.last().filter(|_| !state.too_small()) else { return None };
    decision(state, shown).to_read_at(beside_header(shown, over(state.area())), at)
}

/// View of a too small terminal: kind of money, required and actual size, waiting requests, and an open leave or hold
/// dialog.
struct TooSmallView<'a> {
    theme: &'a Theme,
    state: &'a State,
}

impl Widget for TooSmallView<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, state } = self;
        let painter = &mut Painter { buffer, theme };
        let mut lines: Vec<StyledText> = Vec::new();
        if let Some(money) = state.money() {
            lines.push((money.describe().to_owned(), badge(money)));
        }
        match state.display.layers.last() {
            Some(Layer::Quit { .. }) => lines.push(("quit? f / Esc".to_owned(), Role::StateCare)),
            Some(Layer::Hold { .. }) => {
                let word = if state.held() { "HELD" } else { "stopping…" };
                lines.push((format!("{word} Enter x Esc"), Role::StateBad));
            }
            _ => {}
        }
        if !state.session.questions.is_empty() {
            lines.push((format!("‼ {} wait", state.session.questions.len()), Role::StateCare));
        }
        lines.push(("too small".to_owned(), Role::Text));
        lines.push((format!("needs {}×{}", LEAST.width, LEAST.height), Role::Text));
        lines.push((format!("has {}×{}", area.width, area.height), Role::TextDim));
        for (at, piece) in (0..area.height).zip(lines) {
            painter.pieces(line(area, at), &[piece]);
        }
    }
}

/// Prompt line: the typed text if it is open, else its purpose or the newest alert.
struct PromptLine<'a> {
    theme: &'a Theme,
    state: &'a State,
}

impl Widget for PromptLine<'_> {
    fn render(self, place: Rect, buffer: &mut Buffer) {
        let Self { theme, state } = self;
        let painter = &mut Painter { buffer, theme };
        let name = state.session.ready.as_ref().map_or("the Golem", |ready| ready.name.as_str());
        let room = usize::from(place.width).saturating_sub(4);
        if let Some(field) = &state.display.prompt {
            painter.pieces(place, &[(" : ".to_owned(), Role::Key)]);
            let input = Rect { x: place.x.saturating_add(3), width: place.width.saturating_sub(4), ..place };
            painter.render(TextInput::new(field, painter.theme), input);
            return;
        }
        if let Some(line) = notice_lines(state, place.width).and_then(|(above, _)| above.last().cloned()) {
            let words = fit(&line, room.saturating_add(2)).into_owned();
            painter.pieces(place, &[(format!(" {words}"), Role::StateCare)]);
            return;
        }
        if let Some(alert) = state.fresh_alert() {
            let words = fit(alert.text.as_str(), room.saturating_sub(2)).into_owned();
            painter.pieces(place, &[(" ▲ ".to_owned(), Role::StateCare), (words, Role::StateCare)]);
            return;
        }
        if state.types_on_screen() && !state.asks_on_screen() {
            let words = fit("   After Esc, : takes a command or a message to the agent", room).into_owned();
            painter.pieces(place, &[(words, Role::TextDim)]);
            return;
        }
        // In a recording and in a read-only console there is no Golem to write to.
        let words = match state.replaying() || state.options.watch_only {
            true => "type a command…".to_owned(),
            false => format!("write to {name}, or type a command…"),
        };
        // Without tabs, the name of the screen stands at the end of this line.
        let name = if state.compact() { format!("{} ", state.display.screen.name()) } else { String::new() };
        let left = [(" : ".to_owned(), Role::Key), (fit(&words, room).into_owned(), Role::TextDim)];
        painter.row(place, &left, &[(name, Role::TextDim)]);
    }
}

/// Maximum number of lines that a notice takes above the line of hints.
const NOTICE_LINES: usize = 6;

/// A notice that the line of hints has no room for, beside the key that stops: its lines above that one, of which the last
/// stands in the prompt's line and the others over the screen, and its end. `None` where it fits, and while the prompt has
/// that line.
fn notice_lines(state: &State, columns: u16) -> Option<(Vec<String>, String)> {
    let notice = state.display.notice.as_ref().filter(|_| state.display.prompt.is_none())?;
    let columns = usize::from(columns);
    let stop: Vec<StyledText> =
        state.rows(Context::Page).filter(|row| row.action == Action::Hold).flat_map(hint).collect();
    let room = columns.saturating_sub(styled_width(&stop) + 5);
    if notice.width() <= room {
        return None;
    }
    let mut above: Vec<String> = Vec::new();
    let mut left: &str = notice.as_str();
    while width(left) > room && above.len() < NOTICE_LINES {
        let mut at = 0;
        for (space, _) in left.match_indices(' ').chain([(left.len(), "")]) {
            let line = left.get(..space).unwrap_or(left);
            if width(line) + 2 > columns && at > 0 {
                break;
            }
            at = space;
        }
        let (line, rest) = left.split_at_checked(at).unwrap_or((left, ""));
        above.push(line.to_owned());
        left = rest.trim_start();
    }
    Some((above, left.to_owned()))
}

/// Hint line: the keys of the topmost layer.
struct HintLine<'a> {
    theme: &'a Theme,
    state: &'a State,
}

impl Widget for HintLine<'_> {
    fn render(self, place: Rect, buffer: &mut Buffer) {
        let Self { theme, state } = self;
        let painter = &mut Painter { buffer, theme };
        if let Some((_, all)) = state.candidates().filter(|(line, all)| !line.is_empty() && !all.is_empty()) {
            return painter.render(CompletionLine { theme: painter.theme, all: &all }, place);
        }
        let context =
            if state.session.leaving && state.display.layers.is_empty() { Context::Leaving } else { state.context() };
        if context == Context::Page && state.asks_on_screen() {
            return painter.render(AskingHints { theme: painter.theme, state }, place);
        }
        if context == Context::Page && state.types_on_screen() {
            return painter.render(TypingHints { theme: painter.theme, state }, place);
        }
        let mut left: Vec<StyledText> = vec![(" ".to_owned(), Role::TextDim)];
        let mut right: Vec<StyledText> = Vec::new();
        let last = |action: Action| matches!(action, Action::Hold | Action::Prompt | Action::Help);
        // On a narrow terminal the prompt line explains `:`, and the room is used for the stop key.
        let few = state.compact() && context == Context::Page;
        let narrow = context == Context::Typing && place.width < TYPING_HELP;
        let left_out = |action: Action| {
            few && matches!(action, Action::Prompt | Action::Filter) || narrow && action == Action::Help
        };
        for row in state.rows(context).filter(|row| !row.hint.is_empty() && last(row.action)) {
            if !left_out(row.action) {
                right.extend(hint(row));
            }
        }
        // A notice that needs the whole line gets it; the keys that it displaces are in the help.
        if state
            .display
            .notice
            .as_ref()
            .is_some_and(|notice| notice.width() + styled_width(&right) + 5 > usize::from(place.width))
        {
            // The stop key is always shown.
            right = state.rows(context).filter(|row| row.action == Action::Hold).flat_map(hint).collect();
        }
        let room = usize::from(place.width).saturating_sub(styled_width(&right) + 1);
        if let Some(notice) = &state.display.notice {
            let rest = notice_lines(state, place.width).map_or_else(|| notice.to_string(), |(_, rest)| rest);
            left.push((fit(&rest, room.saturating_sub(4)).into_owned(), Role::StateCare));
            left.push(("   ".to_owned(), Role::TextDim));
        } else if let (Some(fault), false) = (&state.session.page.fault, state.booting()) {
            left.push((fit(&format!("▲ {fault}"), room.saturating_sub(4)).into_owned(), Role::StateBad));
            left.push(("   ".to_owned(), Role::TextDim));
        } else if state.session.leaving {
            left.push(("Quitting: signed actions settle first   ".to_owned(), Role::StateCare));
        } else if state.compact() && context == Context::Page {
            // Every digit works, whatever tabs have room.
            left.push(("0-9".to_owned(), Role::Key));
            left.push((" screens  ".to_owned(), Role::TextDim));
        }
        for row in state.rows(context).filter(|row| !row.hint.is_empty() && !last(row.action)) {
            if left_out(row.action) || !state.can_answer(row.action) {
                continue;
            }
            let Some(word) = state.hint_word(row) else { continue };
            let mut entry = hint(row);
            // A screen's own word is short already.
            let word = if few && word == row.hint { word.split(' ').next().unwrap_or(word) } else { word };
            if let Some((words, _)) = entry.get_mut(1) {
                *words = format!(" {word}  ");
            }
            if !state.booting() && styled_width(&left) + styled_width(&entry) <= room {
                left.extend(entry);
            }
        }
        painter.row(place, &left, &right);
    }
}

/// Hint line while a dialog of the screen is open. Its answers stand in the dialog.
struct AskingHints<'a> {
    theme: &'a Theme,
    state: &'a State,
}

impl Widget for AskingHints<'_> {
    fn render(self, place: Rect, buffer: &mut Buffer) {
        let Self { theme, state } = self;
        let painter = &mut Painter { buffer, theme };
        let right: Vec<StyledText> =
            state.rows(Context::Page).filter(|row| row.action == Action::Hold).flat_map(hint).collect();
        let keys = [("a letter", "selects"), ("Enter", "confirms"), ("Esc", "back")];
        let mut left: Vec<StyledText> = vec![(" ".to_owned(), Role::TextDim)];
        left.extend(
            keys.iter()
                .flat_map(|(key, words)| [((*key).to_owned(), Role::Key), (format!(" {words}  "), Role::TextDim)]),
        );
        painter.row(place, &left, &right);
    }
}

/// Hint line while a text field of the screen has the focus.
struct TypingHints<'a> {
    theme: &'a Theme,
    state: &'a State,
}

impl Widget for TypingHints<'_> {
    fn render(self, place: Rect, buffer: &mut Buffer) {
        let Self { theme, state } = self;
        let painter = &mut Painter { buffer, theme };
        let right: Vec<StyledText> =
            state.rows(Context::Page).filter(|row| row.action == Action::Hold).flat_map(hint).collect();
        let room = usize::from(place.width).saturating_sub(styled_width(&right) + 5);
        let mut left: Vec<StyledText> = vec![(" ".to_owned(), Role::TextDim)];
        match &state.display.notice {
            Some(notice) => {
                let rest = notice_lines(state, place.width).map_or_else(|| notice.to_string(), |(_, rest)| rest);
                left.push((fit(&rest, room).into_owned(), Role::StateCare));
            }
            None => left.extend([
                ("Esc".to_owned(), Role::Key),
                (" ends typing  ".to_owned(), Role::TextDim),
                ("letters and digits are typed as text".to_owned(), Role::TextDim),
            ]),
        }
        let keys: [StyledText; 2] = [("  F1".to_owned(), Role::Key), (" keys".to_owned(), Role::TextDim)];
        if state.display.notice.is_none() && styled_width(&left) + styled_width(&keys) <= room {
            left.extend(keys);
        }
        painter.row(place, &left, &right);
    }
}

/// Completions of the prompt: as many as fit and the count of the rest, or the description of a single one.
struct CompletionLine<'a> {
    theme: &'a Theme,
    all: &'a [Candidate],
}

impl Widget for CompletionLine<'_> {
    fn render(self, place: Rect, buffer: &mut Buffer) {
        let Self { theme, all } = self;
        let painter = &mut Painter { buffer, theme };
        let mut pieces: Vec<StyledText> = vec![(" Tab  ".to_owned(), Role::Key)];
        let room = usize::from(place.width).saturating_sub(6);
        if let [one] = all {
            pieces.push((format!("{}  ", one.word), Role::TextStrong));
            pieces.push((fit(&one.about, room.saturating_sub(width(&one.word))).into_owned(), Role::TextDim));
            painter.pieces(place, &pieces);
            return;
        }
        for (at, one) in all.iter().enumerate() {
            let left = format!("and {} more", all.len() - at);
            if styled_width(&pieces) + width(&one.word) + 2 + width(&left) > room {
                pieces.push((left, Role::TextDim));
                break;
            }
            pieces.push((format!("{}  ", one.word), Role::Text));
        }
        painter.pieces(place, &pieces);
    }
}

pub(crate) fn hint(row: &ActiveBinding) -> Vec<StyledText> {
    let key = row.keys.first().map(ToString::to_string).unwrap_or_default();
    vec![(key, Role::Key), (format!(" {}  ", row.hint), Role::TextDim)]
}

#[cfg(test)]
mod keyed;
#[cfg(test)]
mod pictures;
#[cfg(test)]
mod request_tests;
#[cfg(test)]
mod styles;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod text_tests;
