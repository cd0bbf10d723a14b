//! View: draws `&State` into cells. Works at any size, changes nothing, and has no access to chain or clock.

mod boot;
mod call_details;
mod dialogs;
mod header;
mod hit;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use crate::keymap::{Action, Context, Row};
use crate::painter::{Painter, StyledText, line, styled_width};
use crate::screens::ScreenId;
use crate::state::decision::Decision;
use crate::state::{Candidate, LEAST, Layer, State};
use crate::theme::{Role, Theme};
use crate::widgets::decision::{DecisionModel, Fit, badge};
use bardo_base::text::{fit, width};

/// Draws the whole console into `area`.
pub fn draw(state: &State, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let mut painter = Painter { buffer, theme };
    painter.fill(area, Role::Background);
    if state.too_small() {
        too_small(&mut painter, state, area);
        return;
    }
    page(&mut painter, state, area);
    for one in &state.layers {
        layer(&mut painter, state, one, over(area));
    }
}

/// Draws the page: header, screen, prompt and hints, without layers.
fn page(painter: &mut Painter<'_>, state: &State, area: Rect) {
    header::draw(painter, state, area);
    let body = state.body();
    if state.booting() {
        boot::draw(painter, state, body);
    } else if let Some(view) = state.screens.get(state.screen) {
        view.draw(&state.known_drawn(), painter, body);
    }
    prompt(painter, state, line(area, area.height.saturating_sub(2)));
    hints(painter, state, line(area, area.height.saturating_sub(1)));
}

fn layer(painter: &mut Painter<'_>, state: &State, layer: &Layer, over: Rect) {
    match layer {
        Layer::Help { offset, of } => dialogs::help(painter, state, over, *offset, *of),
        Layer::Quit { picked, .. } => dialogs::quit(painter, state, over, *picked),
        Layer::Decision(shown) => decision(state, shown).draw(painter, over),
        Layer::Hold { told, .. } => dialogs::hold(painter, state, over, told.as_ref()),
        Layer::CallDetails(told) => call_details::draw(painter, state, told, over),
        Layer::Palette { field, at } => dialogs::palette(painter, state, over, field, *at),
        Layer::Confirm { title, picked, .. } => dialogs::confirm(painter, state, over, title, *picked),
    }
}

pub(crate) use hit::{key_at, screens_at, waiting_at};

/// Area of the layers: everything but the hint line.
fn over(area: Rect) -> Rect {
    Rect { height: area.height.saturating_sub(1), ..area }
}

/// View model of an approval dialog, with the state's context.
fn decision<'a>(state: &'a State, decision: &'a Decision) -> DecisionModel<'a> {
    let question = decision.shown.as_deref();
    // The name is known only for the Golem of this session; others have just an id.
    let here = state.ready.as_ref().filter(|ready| question.is_some_and(|one| one.golem_id == ready.golem_id));
    let call = question.and_then(|question| state.feed.call(question.call_id?));
    DecisionModel {
        decision,
        name: here.map(|ready| ready.name.as_str()),
        network: state.page.network.as_ref().map(|network| network.name.as_str()),
        before: call.and_then(|call| call.before.as_ref()),
        outcome: question.and_then(|question| state.outcome_of(question)),
        now: state.known().live(),
        clock: state.now_millis,
    }
}

/// Visible part of the topmost approval dialog at the state's size. `None` without one, or if it cannot be answered.
pub(crate) fn decision_fit(state: &State) -> Option<Fit> {
    let Some(Layer::Decision(shown)) = state.layers.last().filter(|_| !state.too_small()) else { return None };
    decision(state, shown).fit(over(Rect::new(0, 0, state.size.width, state.size.height)))
}

/// Index of the warning that is drawn at a position of the topmost approval dialog.
pub(crate) fn to_read_at(state: &State, at: Position) -> Option<usize> {
    let Some(Layer::Decision(shown)) = state.layers.last().filter(|_| !state.too_small()) else { return None };
    decision(state, shown).to_read_at(over(Rect::new(0, 0, state.size.width, state.size.height)), at)
}

/// Screen whose tab is at a position.
pub fn tab_at(state: &State, at: Position) -> Option<ScreenId> {
    header::tab_at(state, at)
}

/// Draws the view of a too small terminal: kind of money, required and actual size, waiting requests, and an open leave
/// or hold dialog.
fn too_small(painter: &mut Painter<'_>, state: &State, area: Rect) {
    let mut lines: Vec<StyledText> = Vec::new();
    if let Some(money) = state.money() {
        lines.push((money.words().to_owned(), badge(money)));
    }
    match state.layers.last() {
        Some(Layer::Quit { .. }) => lines.push(("quit? f / Esc".to_owned(), Role::StateCare)),
        Some(Layer::Hold { .. }) => {
            let word = if state.held() { "HELD" } else { "stopping…" };
            lines.push((format!("{word} Enter x Esc"), Role::StateBad));
        }
        _ => {}
    }
    if !state.questions.is_empty() {
        lines.push((format!("‼ {} wait", state.questions.len()), Role::StateCare));
    }
    lines.push(("too small".to_owned(), Role::Text));
    lines.push((format!("needs {}×{}", LEAST.width, LEAST.height), Role::Text));
    lines.push((format!("has {}×{}", area.width, area.height), Role::TextDim));
    for (at, piece) in (0..area.height).zip(lines) {
        painter.pieces(line(area, at), &[piece]);
    }
}

/// Draws the prompt line: the typed text if it is open, else its purpose or the newest alert.
fn prompt(painter: &mut Painter<'_>, state: &State, place: Rect) {
    let name = state.ready.as_ref().map_or("the Golem", |ready| ready.name.as_str());
    let room = usize::from(place.width).saturating_sub(4);
    if let Some(field) = &state.prompt {
        let (text, cursor) = window(field.text(), field.cursor(), room);
        painter.pieces(place, &[(" : ".to_owned(), Role::Key), (text.clone(), Role::TextStrong)]);
        let at = text.chars().take(cursor).collect::<String>();
        let x = place.x.saturating_add(3).saturating_add(u16::try_from(width(&at)).unwrap_or(0));
        let under = text.chars().nth(cursor).unwrap_or(' ').to_string();
        painter.text(place, x, &under, Role::Frozen);
        return;
    }
    if let Some((first, _)) = notice_in_two(state, place.width) {
        painter.pieces(place, &[(format!(" {first}"), Role::StateCare)]);
        return;
    }
    if let Some(alert) = state.fresh_alert() {
        let words = fit(alert.text.as_str(), room.saturating_sub(2)).into_owned();
        painter.pieces(place, &[(" ▲ ".to_owned(), Role::StateCare), (words, Role::StateCare)]);
        return;
    }
    if state.types_on_screen() {
        let words = fit("   After Esc, : takes a command or a message to the agent", room).into_owned();
        painter.pieces(place, &[(words, Role::TextDim)]);
        return;
    }
    // In a recording and in a read-only console there is no Golem to write to.
    let words = match state.replaying() || state.watch_only {
        true => "type a command…".to_owned(),
        false => format!("write to {name}, or type a command…"),
    };
    painter.pieces(place, &[(" : ".to_owned(), Role::Key), (fit(&words, room).into_owned(), Role::TextDim)]);
}

/// A notice that the line of hints has no room for, beside the key that stops: its beginning, which stands in the line
/// above, and the rest of it. `None` where it fits, and while the prompt has that line.
fn notice_in_two(state: &State, columns: u16) -> Option<(String, String)> {
    let notice = state.notice.as_ref().filter(|_| state.prompt.is_none())?;
    let columns = usize::from(columns);
    let stop: Vec<StyledText> =
        state.rows(Context::Page).filter(|row| row.action == Action::Hold).flat_map(hint).collect();
    if notice.width() + styled_width(&stop) + 5 <= columns {
        return None;
    }
    let mut first = String::new();
    let mut words = notice.as_str().split(' ');
    let mut rest = Vec::new();
    for word in words.by_ref() {
        if width(&first) + width(word) + 3 > columns {
            rest.push(word);
            break;
        }
        if !first.is_empty() {
            first.push(' ');
        }
        first.push_str(word);
    }
    rest.extend(words);
    Some((first, rest.join(" ")))
}

/// Part of a text that fits around the cursor, and the cursor's position in it.
fn window(text: &str, cursor: usize, room: usize) -> (String, usize) {
    let skip = cursor.saturating_sub(room.saturating_sub(1));
    (text.chars().skip(skip).take(room).collect(), cursor - skip)
}

/// Draws the hint line: the keys of the topmost layer. Stop, prompt and help are at the right end and dropped last. A
/// notice or a fault comes first. A key that does not fit is left out whole; `?` lists all.
fn hints(painter: &mut Painter<'_>, state: &State, place: Rect) {
    if let Some((_, all)) = state.candidates().filter(|(line, all)| !line.is_empty() && !all.is_empty()) {
        return candidates(painter, &all, place);
    }
    let context = if state.leaving && state.layers.is_empty() { Context::Leaving } else { state.context() };
    if context == Context::Page && state.types_on_screen() {
        return typing_hints(painter, state, place);
    }
    let mut left: Vec<StyledText> = vec![(" ".to_owned(), Role::TextDim)];
    let mut right: Vec<StyledText> = Vec::new();
    let last = |action: Action| matches!(action, Action::Hold | Action::Prompt | Action::Help);
    // On a narrow terminal the prompt line explains `:`, and the room is used for the stop key.
    let few = state.compact() && context == Context::Page;
    let left_out = |action: Action| few && matches!(action, Action::Prompt | Action::Filter);
    for row in state.rows(context).filter(|row| !row.hint.is_empty() && last(row.action)) {
        if !left_out(row.action) {
            right.extend(hint(row));
        }
    }
    // A notice that needs the whole line gets it; the keys that it displaces are in the help.
    if state.notice.as_ref().is_some_and(|notice| notice.width() + styled_width(&right) + 5 > usize::from(place.width))
    {
        // The stop key is always shown.
        right = state.rows(context).filter(|row| row.action == Action::Hold).flat_map(hint).collect();
    }
    let room = usize::from(place.width).saturating_sub(styled_width(&right) + 1);
    if let Some(notice) = &state.notice {
        let rest = notice_in_two(state, place.width).map_or_else(|| notice.to_string(), |(_, rest)| rest);
        left.push((fit(&rest, room.saturating_sub(4)).into_owned(), Role::StateCare));
        left.push(("   ".to_owned(), Role::TextDim));
    } else if let (Some(fault), false) = (&state.page.fault, state.booting()) {
        left.push((fit(&format!("▲ {fault}"), room.saturating_sub(4)).into_owned(), Role::StateBad));
        left.push(("   ".to_owned(), Role::TextDim));
    } else if state.leaving {
        left.push(("Quitting: signed actions settle first   ".to_owned(), Role::StateCare));
    } else if state.compact() && context == Context::Page {
        let last = state.tabs().last().map_or('8', |screen| screen.digit());
        left.push((format!("1-{last}"), Role::Key));
        left.push((format!(" {}  ", state.screen.name()), Role::TextDim));
    }
    for row in state.rows(context).filter(|row| !row.hint.is_empty() && !last(row.action)) {
        if left_out(row.action) {
            continue;
        }
        let mut entry = hint(row);
        if let (true, Some((words, _)), Some(first)) = (few, entry.get_mut(1), row.hint.split(' ').next()) {
            *words = format!(" {first}  ");
        }
        if !state.booting() && styled_width(&left) + styled_width(&entry) <= room {
            left.extend(entry);
        }
    }
    painter.row(place, &left, &right);
}

/// Draws the hint line while a text field of the screen has the focus.
fn typing_hints(painter: &mut Painter<'_>, state: &State, place: Rect) {
    let right: Vec<StyledText> =
        state.rows(Context::Page).filter(|row| row.action == Action::Hold).flat_map(hint).collect();
    let room = usize::from(place.width).saturating_sub(styled_width(&right) + 5);
    let mut left: Vec<StyledText> = vec![(" ".to_owned(), Role::TextDim)];
    match &state.notice {
        Some(notice) => {
            let rest = notice_in_two(state, place.width).map_or_else(|| notice.to_string(), |(_, rest)| rest);
            left.push((fit(&rest, room).into_owned(), Role::StateCare));
        }
        None => left.extend([
            ("Esc".to_owned(), Role::Key),
            (" ends typing  ".to_owned(), Role::TextDim),
            ("letters and digits are typed as text".to_owned(), Role::TextDim),
        ]),
    }
    painter.row(place, &left, &right);
}

/// Draws the completions of the prompt: as many as fit and the count of the rest, or the description of a single one.
fn candidates(painter: &mut Painter<'_>, all: &[Candidate], place: Rect) {
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

pub(crate) fn hint(row: &Row) -> Vec<StyledText> {
    let key = row.keys.first().map(ToString::to_string).unwrap_or_default();
    vec![(key, Role::Key), (format!(" {}  ", row.hint), Role::TextDim)]
}

#[cfg(test)]
mod asked;
#[cfg(test)]
mod keyed;
#[cfg(test)]
mod pictures;
#[cfg(test)]
mod styles;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod text_tests;
