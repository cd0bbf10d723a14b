//! The whole story of a call, drawn.

use ratatui::layout::Rect;

use super::dialogs::open;
use crate::console::format::{short_hash, time_of_day};
use crate::console::pen::Pen;
use crate::console::state::State;
use crate::console::state::feed::CallSeen;
use crate::console::state::story::{Story, name};
use crate::console::theme::Role;
use crate::console::widgets::paint::{Row, wrapped};
use crate::console::widgets::{Moment, Sheet};
use crate::fabric::CheckOutcome;
use crate::runtime::handle::Found;

/// Draws it over the whole place.
pub(super) fn draw(pen: &mut Pen<'_>, state: &State, story: &Story, area: Rect) {
    let call = state.feed.call(story.call_id);
    let name = call.map_or_else(|| "a call".to_owned(), name);
    let columns = usize::from(area.width).saturating_sub(4);
    let lines = wrapped(rows(state, story, call, columns), columns);
    let room = usize::from(area.height).saturating_sub(2);
    let offset = story.offset.min(lines.len().saturating_sub(room));
    let right = if lines.len() > room {
        vec![(format!("{}–{} of {} · j k", offset + 1, (offset + room).min(lines.len()), lines.len()), Role::TextDim)]
    } else {
        Vec::new()
    };
    let inner = open(pen, area, &[(format!("The whole story · {name}"), Role::Title)], &right);
    for (at, row) in (0..inner.height).zip(lines.iter().skip(offset)) {
        pen.row(crate::console::pen::line(inner, at), &row.left, &row.right);
    }
}

fn rows(state: &State, story: &Story, call: Option<&CallSeen>, columns: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    let part = |rows: &mut Vec<Row>, words: &str| {
        if !rows.is_empty() {
            rows.push(Row::default());
        }
        rows.push(Row::new(words, Role::Title));
    };
    if let Some(call) = call {
        let now = Moment { millis: state.told_millis(), motion: state.motion };
        rows.push(
            Row::new(format!("{} by {}", time_of_day(call.started_at / 1000), call.golem_id), Role::TextDim)
                .then(format!("  {}  call {}", call.tool(), call.call_id), Role::TextDim),
        );
        if let Some(card) = &call.card {
            rows.extend(card.full(now, columns));
        }
        if !call.checks.is_empty() {
            part(&mut rows, "Checks");
        }
        for check in &call.checks {
            let (mark, role) = match check.outcome {
                CheckOutcome::Passed => ("✓", Role::StateGood),
                CheckOutcome::Warned => ("!", Role::StateCare),
                CheckOutcome::Blocked => ("✕", Role::StateBad),
            };
            rows.push(Row::new(format!("{mark} {:<24}", check.check), role).then(check.detail.as_str(), Role::Text));
        }
        if let Some(offer) = &call.offer {
            part(&mut rows, "Simulated offer");
            rows.push(Row::new(offer.expected_outcome.as_str(), Role::Text));
            let words = format!("permit {}  hash {}", offer.permit_id, short_hash(offer.simulation_hash));
            rows.push(Row::new(words, Role::TextDim));
        }
        if let Some((at, asked)) = &call.asked {
            part(&mut rows, "Decision");
            rows.push(Row::new(format!("{} asked: {}", time_of_day(at / 1000), asked.title), Role::Text));
            for reason in &asked.reasons {
                rows.push(Row::new(format!("  because {reason}"), Role::TextDim));
            }
            if let Some(resolved) = &call.resolved {
                let reason = resolved.reason.as_ref().map(|why| format!(": \"{why}\"")).unwrap_or_default();
                rows.push(Row::new(format!("  {:?}{reason}", resolved.outcome), Role::TextStrong));
            }
        }
        if !call.transactions.is_empty() {
            part(&mut rows, "Transactions");
        }
        for (at, update) in &call.transactions {
            let block = update.block.map(|block| format!(" in block #{block}")).unwrap_or_default();
            let words = format!(
                "{} {}/{} {} {:?}{block}",
                time_of_day(at / 1000),
                update.leg,
                update.of,
                update.hash,
                update.state
            );
            rows.push(Row::new(words, Role::Text));
        }
        if let Some(verified) = &call.verified {
            part(&mut rows, "Does the chain agree?");
            let (mark, role) = if verified.matched {
                ("chain agrees ✓", Role::StateGood)
            } else {
                ("chain disagrees ✕", Role::StateBad)
            };
            rows.push(Row::new(mark, role).then(format!("  {}", verified.actual_outcome), Role::Text));
            rows.push(Row::new(format!("by {}", verified.ground_truth_source), Role::TextDim));
        }
        if let Some(error) = &call.error {
            part(&mut rows, "What was wrong");
            rows.push(Row::new(format!("{}: {}", error.error_code, error.error_message), Role::StateBad));
        }
    } else {
        rows.push(Row::new("It is no longer on this screen; the trail has it.", Role::TextDim));
    }
    part(&mut rows, "On the audit trail");
    match story.trail.as_deref() {
        None => rows.push(Row::new("looking…", Role::TextDim)),
        Some(Found::Audit { entries }) if entries.is_empty() => {
            rows.push(Row::new("nothing: only what reserves money or is decided leaves an entry", Role::TextDim));
        }
        Some(Found::Audit { entries }) => {
            for entry in entries {
                let words = format!("#{} {} {}", entry.seq, time_of_day(entry.at / 1000), entry.kind);
                rows.push(Row::new(words, Role::Text).then(format!("  {}", entry.body), Role::TextDim));
            }
        }
        Some(Found::Nothing { why }) => rows.push(Row::new(why.as_str(), Role::StateCare)),
        Some(Found::Verified { .. } | Found::History { .. }) => {}
    }
    rows
}
