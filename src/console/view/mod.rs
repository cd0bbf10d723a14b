//! Drawing: reads `&State`, writes cells. Works at any size, changes nothing, knows no chain and no clock.

mod dialogs;
mod header;
mod panels;
mod pools;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::console::keymap::{self, Action, Binding};
use crate::console::pen::{Pen, Piece, line, pieces_width};
use crate::console::state::layout::{LEAST_HEIGHT, LEAST_WIDTH, Plan, Shape};
use crate::console::state::model::Money;
use crate::console::state::{Layer, State};
use crate::console::theme::{Role, Theme};

/// Draws the whole console into `area`.
pub fn draw(state: &State, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let mut pen = Pen { buffer, theme };
    pen.fill(area, Role::Background);
    let plan = state.plan();
    if plan.shape == Shape::TooSmall {
        too_small(&mut pen, state, area);
        return;
    }
    header::draw(&mut pen, state, plan.header);
    if state.booting() {
        boot(&mut pen, state, plan.body);
    } else {
        for (panel, place) in &plan.panels {
            panels::draw(&mut pen, state, *panel, *place);
        }
    }
    hints(&mut pen, state, &plan);
    for layer in &state.layers {
        match layer {
            Layer::Help { offset } => dialogs::help(&mut pen, area, *offset),
            Layer::Quit => dialogs::quit(&mut pen, state, area),
        }
    }
}

/// The badge's role.
fn badge(money: Money) -> Role {
    match money {
        Money::Play => Role::BadgePlay,
        Money::Test => Role::BadgeTest,
        Money::Real => Role::BadgeReal,
        Money::Paper => Role::BadgePaper,
        Money::Replay => Role::BadgeReplay,
    }
}

/// Whose money, what is needed, what there is; and the question before leaving, if it is open.
fn too_small(pen: &mut Pen<'_>, state: &State, area: Rect) {
    let mut lines: Vec<Piece> = Vec::new();
    if let Some(network) = &state.page().network {
        lines.push((network.money.words().to_owned(), badge(network.money)));
    }
    if state.layers.last() == Some(&Layer::Quit) {
        lines.push(("leave? y / n".to_owned(), Role::StateCare));
    }
    lines.push(("too small".to_owned(), Role::Text));
    lines.push((format!("needs {LEAST_WIDTH}×{LEAST_HEIGHT}"), Role::Text));
    lines.push((format!("has {}×{}", area.width, area.height), Role::TextDim));
    for (at, piece) in (0..area.height).zip(lines) {
        pen.pieces(line(area, at), &[piece]);
    }
}

/// The keys of what is on top; those that lead out and to the help stand at the right end and go last.
/// A notice, or a fault of the whole, comes first. An entry that does not fit is left out whole: `?` lists all.
fn hints(pen: &mut Pen<'_>, state: &State, plan: &Plan) {
    let mut left: Vec<Piece> = vec![(" ".to_owned(), Role::TextDim)];
    let mut right: Vec<Piece> = Vec::new();
    for row in keymap::rows(state.context()).filter(|row| !row.hint.is_empty()) {
        if matches!(row.action, Action::AskToQuit | Action::Help) {
            right.extend(hint(row));
        }
    }
    if let Some(notice) = &state.notice {
        left.push((format!("{notice}   "), Role::StateCare));
    } else if let (Some(fault), false) = (&state.page().fault, state.booting()) {
        left.push((format!("▲ {fault}   "), Role::StateBad));
    }
    for row in keymap::rows(state.context()).filter(|row| !row.hint.is_empty()) {
        let entry = hint(row);
        let known = matches!(row.action, Action::AskToQuit | Action::Help);
        let width = pieces_width(&left) + pieces_width(&entry) + pieces_width(&right);
        if !known && !state.booting() && width <= usize::from(plan.hints.width) {
            left.extend(entry);
        }
    }
    pen.row(plan.hints, &left, &right);
}

fn hint(row: &Binding) -> Vec<Piece> {
    let key = row.keys.first().map(ToString::to_string).unwrap_or_default();
    vec![(key, Role::Key), (format!(" {}  ", row.hint), Role::TextDim)]
}

const SPINNER: [&str; 8] = ["⣷", "⣯", "⣟", "⡿", "⢿", "⣻", "⣽", "⣾"];

/// What happens until the first block.
fn boot(pen: &mut Pen<'_>, state: &State, body: Rect) {
    let margin = if body.width >= 80 { 4 } else { 1 };
    let body = Rect { x: body.x + margin, width: body.width.saturating_sub(2 * margin), ..body };
    let page = state.page();
    pen.text(line(body, 1), body.x, "Starting the devnet: two chains inside this process.", Role::TextStrong);
    pen.text(
        line(body, 2),
        body.x,
        "Nothing here leaves this machine, and nothing here costs anything.",
        Role::TextDim,
    );
    let list = Rect { y: body.y + 4, height: body.height.saturating_sub(4), ..body };
    let room = usize::from(list.height).saturating_sub(usize::from(page.fault.is_some()));
    let skipped = page.boot.len().saturating_sub(room);
    let longest = page.boot.iter().map(|step| step.chain.width()).max().unwrap_or(0);
    let mut row = 0;
    for (at, step) in page.boot.iter().enumerate().skip(skipped) {
        let over = step.done || page.boot.iter().skip(at + 1).any(|later| later.chain == step.chain);
        let (mark, role) = match (over, page.fault.is_some(), state.motion) {
            (true, _, _) => ("✓", Role::StateGood),
            (false, true, _) => ("✕", Role::StateBad),
            (false, false, true) => (spinner(state.now_millis), Role::Chart),
            (false, false, false) => ("▸", Role::Chart),
        };
        let padding = " ".repeat(longest.saturating_sub(step.chain.width()));
        let pieces = [
            (format!("{mark} "), role),
            (format!("{}{padding}  ", step.chain), Role::Title),
            (step.step.to_string(), if over { Role::TextDim } else { Role::Text }),
            (format!("  {}", step.detail), Role::TextDim),
        ];
        pen.pieces(line(list, row), &pieces);
        row += 1;
    }
    if let Some(fault) = &page.fault {
        pen.pieces(line(list, row), &[("▲ ".to_owned(), Role::StateBad), (fault.to_string(), Role::StateBad)]);
    }
}

fn spinner(now_millis: u64) -> &'static str {
    let at = usize::try_from(now_millis / 120 % 8).unwrap_or(0);
    SPINNER.get(at).copied().unwrap_or("▸")
}

#[cfg(test)]
mod tests;
