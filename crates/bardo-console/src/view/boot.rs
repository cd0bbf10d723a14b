//! Boot view, shown until the first block.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::Widget;

use crate::painter::{Painter, line};
use crate::state::State;
use crate::theme::{Role, Theme};
use crate::widgets::paint::{Row, rows, wrapped};
use bardo_session::market::MoneyKind;

const SPINNER: [&str; 8] = ["⣷", "⣯", "⣟", "⡿", "⢿", "⣻", "⣽", "⣾"];

/// Boot view with the steps so far.
pub(super) struct BootView<'a> {
    pub(super) theme: &'a Theme,
    pub(super) state: &'a State,
}

impl Widget for BootView<'_> {
    fn render(self, body: Rect, buffer: &mut Buffer) {
        let Self { theme, state } = self;
        let painter = &mut Painter { buffer, theme };
        let margin = if body.width >= 80 { 4 } else { 1 };
        let body = Rect { x: body.x + margin, width: body.width.saturating_sub(2 * margin), ..body };
        let page = &state.session.page;
        // Only the in-process devnet reports steps. Before the first report, nothing is claimed about the kind of
        // money.
        let (begins, costs) = match state.money() {
            _ if page.boot.iter().any(|step| step.rehearses) => (
                "Starting a rehearsal: a local copy of a live network.",
                "The live network is only read, and nothing costs real money.",
            ),
            _ if !page.boot.is_empty() => (
                "Starting the devnet: two chains inside this process.",
                "Nothing leaves this machine, and nothing costs real money.",
            ),
            None => ("Starting.", ""),
            Some(MoneyKind::Play) => ("Connecting to the devnet.", "Nothing costs real money."),
            Some(MoneyKind::Rehearsal) => {
                ("Opening the rehearsal.", "A local copy of a live network: nothing is sent there.")
            }
            Some(MoneyKind::Test) => ("Connecting to the test network.", "Test tokens only."),
            Some(MoneyKind::Real) => ("Connecting to the network.", "Actions move real money."),
            Some(MoneyKind::Paper) => ("Connecting to the network.", "On paper: nothing is signed."),
            Some(MoneyKind::Replay) => ("Opening the recording.", "A recording, not live."),
        };
        let notice = vec![Row::new(begins, Role::TextStrong), Row::new(costs, Role::TextDim)];
        let notice = wrapped(notice, usize::from(body.width));
        let lines = u16::try_from(notice.len()).unwrap_or(2);
        let words = Rect { y: body.y + 1.min(body.height), height: body.height.saturating_sub(1).min(lines), ..body };
        rows(painter, words, &notice);
        let above = (lines + 2).min(body.height);
        let list = Rect { y: body.y + above, height: body.height - above, ..body };
        let fault = page.fault.iter().map(|fault| Row::new("▲ ", Role::StateBad).then(fault.as_str(), Role::StateBad));
        let fault = wrapped(fault.collect(), usize::from(list.width));
        let room = usize::from(list.height).saturating_sub(fault.len());
        let skipped = page.boot.len().saturating_sub(room);
        let longest = page.boot.iter().map(|step| step.chain.width()).max().unwrap_or(0);
        let mut row = 0;
        for (at, step) in page.boot.iter().enumerate().skip(skipped) {
            let over = step.done || page.boot.iter().skip(at + 1).any(|later| later.chain == step.chain);
            let (mark, role) = match (over, page.fault.is_some(), state.clock.motion) {
                (true, _, _) => ("✓", Role::StateGood),
                (false, true, _) => ("✕", Role::StateBad),
                (false, false, true) => (spinner(state.clock.now_millis), Role::Chart),
                (false, false, false) => ("▸", Role::Chart),
            };
            let padding = " ".repeat(longest.saturating_sub(step.chain.width()));
            let pieces = [
                (format!("{mark} "), role),
                (format!("{}{padding}  ", step.chain), Role::Title),
                (step.step.to_string(), if over { Role::TextDim } else { Role::Text }),
                (format!("  {}", step.detail), Role::TextDim),
            ];
            painter.pieces(line(list, row), &pieces);
            row += 1;
        }
        let above = row.min(list.height);
        rows(painter, Rect { y: list.y + above, height: list.height - above, ..list }, &fault);
    }
}

fn spinner(now_millis: u64) -> &'static str {
    let at = usize::try_from(now_millis / 120 % 8).unwrap_or(0);
    SPINNER.get(at).copied().unwrap_or("▸")
}
