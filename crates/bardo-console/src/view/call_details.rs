//! Details page of a call.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::Widget;
use serde_json::Value;

use crate::format::{grouped, short_hash, time_of_day};
use crate::painter::Painter;
use crate::state::State;
use crate::state::call_details::{self, CallDetails, named};
use crate::state::feed::CallSeen;
use crate::theme::{Role, Theme};
use crate::widgets::card::CallCard;
use crate::widgets::dialog::open;
use crate::widgets::figure::{is_rounded, readable};
use crate::widgets::paint::{Row, wrapped};
use crate::widgets::swap::source_words;
use crate::widgets::words::{self, check_word, failure_words, found, outcome_words, transaction_words};
use crate::widgets::{CardKeys, Moment, all_rows};
use bardo_base::fabric::{CheckOutcome, SimulatedChange};
use bardo_base::text::SafeText;
use bardo_session::audit_words;
use bardo_session::handle::{NamedAddress, QueryResult, names_in};

/// Page with the details of a call.
pub(super) struct CallDetailsPage<'a> {
    pub(super) theme: &'a Theme,
    pub(super) state: &'a State,
    pub(super) call_details: &'a CallDetails,
}

impl Widget for CallDetailsPage<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, state, call_details } = self;
        let painter = &mut Painter { buffer, theme };
        let call = state.session.feed.call(call_details.call_id);
        let name = call.map_or_else(|| "a call".to_owned(), named);
        let columns = usize::from(area.width).saturating_sub(4);
        let lines = wrapped(rows(state, call_details, call, columns), columns);
        let room = usize::from(area.height).saturating_sub(2);
        let offset = call_details.offset.first(lines.len(), room);
        let right = if lines.len() > room {
            vec![(
                format!("{}–{} of {} · j k", offset + 1, (offset + room).min(lines.len()), lines.len()),
                Role::TextDim,
            )]
        } else {
            Vec::new()
        };
        let inner = open(painter, area, &[(format!("Call details · {name}"), Role::Title)], &right);
        painter.scrollbar(area, lines.len(), room, offset);
        for (at, row) in (0..inner.height).zip(lines.iter().skip(offset)) {
            painter.row(crate::painter::line(inner, at), &row.left, &row.right);
        }
    }
}

/// Rows of the amounts that the card rounds, with all digits as requested and as returned.
fn exact_rows(call: &CallSeen) -> Vec<Row> {
    let asked = call.start.as_ref().map(|start| start.params.value());
    let answered = call.end().and_then(|end| end.card.as_ref()).map(|card| &card.data);
    let fields = |value: Option<&Value>| {
        let all = value.and_then(Value::as_object).into_iter().flatten();
        let value_row = |(name, value): (&String, &Value)| {
            Some((name.clone(), value.as_str().filter(|text| is_rounded(text))?.to_owned()))
        };
        all.filter_map(value_row).collect::<Vec<_>>()
    };
    let row = |(name, figure): (String, String)| {
        let name = SafeText::clean(&name.replace('_', " "), 40);
        Row::new(format!("{name}  "), Role::TextDim).then(SafeText::clean(&figure, 120).as_str(), Role::Text)
    };
    fields(asked).into_iter().chain(fields(answered)).map(row).collect()
}

/// Rows of the whole addresses that the call was given or answered, and that have a name.
fn named_rows(call: &CallSeen, names: &[NamedAddress]) -> Vec<Row> {
    let asked = call.start.as_ref().map(|start| start.params.value());
    let answered = call.end().and_then(|end| end.card.as_ref()).map(|card| &card.data);
    let found = asked.into_iter().chain(answered).flat_map(|value| names_in(value, names));
    let mut shown: Vec<&NamedAddress> = Vec::new();
    for named in found {
        if !shown.contains(&named) {
            shown.push(named);
        }
    }
    let row = |one: &NamedAddress| {
        Row::new(one.address.to_string(), Role::TextStrong).then(format!("  {}", one.name), Role::Text)
    };
    shown.into_iter().map(row).collect()
}

/// Row of a simulated balance change.
fn change_row(change: &SimulatedChange) -> Row {
    let role = if change.change.as_str().starts_with('+') { Role::PriceUp } else { Role::PriceDown };
    let what = if change.gas { format!("  {} for gas  ", change.symbol) } else { format!("  {}  ", change.symbol) };
    let row = Row::new(what, Role::Text).then(readable(change.change.as_str(), 6), role);
    if change.before.is_empty() {
        return row;
    }
    let (before, after) = (readable(change.before.as_str(), 6), readable(change.after.as_str(), 6));
    row.then(format!("  {before} → {after}"), Role::TextDim)
}

fn rows(state: &State, call_details: &CallDetails, call: Option<&CallSeen>, columns: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    if let Some(call) = call {
        let now = Moment { millis: state.session_millis(), motion: state.clock.motion };
        rows.push(
            Row::new(format!("{} by {}", time_of_day(call.started_at / 1000), call.golem_id), Role::TextDim)
                .then(format!("  {}  call {}", call.tool(), call.call_id), Role::TextDim),
        );
        if let Some(card) = &call.card {
            // Of the keys that a card can name, only the explorer key is bound here.
            let keys = CardKeys { explorer: !call.transactions.is_empty(), ..CardKeys::default() };
            rows.extend(all_rows(card, now, columns, keys));
        }
        let exact = exact_rows(call);
        if !exact.is_empty() {
            part(&mut rows, "Exact figures");
            rows.extend(exact);
        }
        let named =
            named_rows(call, state.session.snapshot.as_ref().map_or(&[][..], |snapshot| snapshot.names.as_slice()));
        if !named.is_empty() {
            part(&mut rows, "Names");
            rows.extend(named);
        }
        if let Some(memory) = call.memory.as_ref().filter(|memory| memory.similar > 0) {
            part(&mut rows, "Memory");
            rows.push(Row::new(words::counted(memory.similar, "similar past trade"), Role::Text));
            rows.extend(memory.changes.iter().map(|change| Row::new(change.as_str(), Role::TextStrong)));
            if memory.changes.is_empty() {
                rows.push(Row::new("no changes because of them", Role::TextDim));
            }
        }
        check_rows(&mut rows, call);
        if let Some(offer) = &call.offer {
            part(&mut rows, "Simulated offer");
            rows.push(Row::new(readable(offer.expected_outcome.as_str(), 6), Role::Text));
            let words = format!("offer {}  hash {}", offer.permit_id, short_hash(offer.simulation_hash));
            rows.push(Row::new(words, Role::TextDim));
            rows.extend(offer.changes.iter().map(change_row));
        }
        decision_rows(&mut rows, call);
        transaction_rows(&mut rows, call);
        // The card of a swap already shows the address.
        let is_linked = matches!(&call.card, Some(CallCard::Swap(swap)) if swap.link().is_some());
        if let (Some(link), false) = (call_details::link(call, &state.session.page), is_linked) {
            rows.push(Row::new("at ", Role::TextDim).then(link, Role::Text));
        }
        verified_rows(&mut rows, call);
        if let Some(error) = &call.error {
            part(&mut rows, "Error");
            rows.push(Row::new(format!("{}  ({})", failure_words(error), error.error_code), Role::StateBad));
        }
    } else {
        rows.push(Row::new("This call is no longer on this screen; see the audit log.", Role::TextDim));
    }
    part(&mut rows, "Audit log");
    trail_rows(&mut rows, call_details);
    rows
}

/// Begins a part of the story under its title.
fn part(rows: &mut Vec<Row>, title: &str) {
    if !rows.is_empty() {
        rows.push(Row::default());
    }
    rows.push(Row::new(title, Role::Title));
}

fn check_rows(rows: &mut Vec<Row>, call: &CallSeen) {
    if !call.checks.is_empty() {
        part(rows, "Checks");
    }
    for check in &call.checks {
        let (mark, role) = match check.outcome {
            CheckOutcome::Passed => ("✓", Role::StateGood),
            CheckOutcome::Warned => ("!", Role::StateCare),
            CheckOutcome::Blocked => ("✕", Role::StateBad),
        };
        rows.push(
            Row::new(format!("{mark} {:<16}", check_word(check.check)), role).then(found(&check.finding), Role::Text),
        );
    }
}

fn decision_rows(rows: &mut Vec<Row>, call: &CallSeen) {
    if let Some((at, asked)) = &call.asked {
        part(rows, "Decision");
        let title = readable(asked.title.as_str(), 6);
        rows.push(Row::new(format!("{} asked: {title}", time_of_day(at / 1000)), Role::Text));
        for reason in words::reasons(&asked.reasons) {
            let words = readable(&reason, 6);
            rows.push(Row::new(format!("  because {words}"), Role::TextDim));
        }
        if let Some(resolved) = &call.resolved {
            let (words, role) = outcome_words(resolved.outcome);
            let reason = resolved
                .reason
                .as_ref()
                .filter(|why| !why.is_empty())
                .map(|why| format!(": \"{why}\""))
                .unwrap_or_default();
            rows.push(Row::new(format!("  {words}{reason}"), role));
        }
    }
}

fn transaction_rows(rows: &mut Vec<Row>, call: &CallSeen) {
    if !call.transactions.is_empty() {
        part(rows, "Transactions");
    }
    for (at, update) in &call.transactions {
        let block = update.block.map(|block| format!(" in block #{}", grouped(&block.to_string()))).unwrap_or_default();
        let words = format!(
            "{} {}/{} {} {}{block}",
            time_of_day(at / 1000),
            update.leg,
            update.of,
            update.hash,
            transaction_words(update.state)
        );
        rows.push(Row::new(words, Role::Text));
    }
}

fn verified_rows(rows: &mut Vec<Row>, call: &CallSeen) {
    if let Some(verified) = &call.verified {
        part(rows, "Check against the chain");
        let (mark, role) = match (verified.matched, verified.unfilled) {
            (true, _) => ("chain agrees ✓", Role::StateGood),
            (false, true) => ("not done ○", Role::StateCare),
            (false, false) => ("chain disagrees ✕", Role::StateBad),
        };
        rows.push(Row::new(mark, role).then(format!("  {}", verified.actual_outcome), Role::Text));
        rows.push(Row::new(format!("by {}", source_words(&verified.ground_truth_source)), Role::TextDim));
    }
}

/// Entries of the audit log that belong to the call.
fn trail_rows(rows: &mut Vec<Row>, call_details: &CallDetails) {
    match call_details.audit_rows.as_deref() {
        None => rows.push(Row::new("reading…", Role::TextDim)),
        Some(QueryResult::Audit { entries }) if entries.is_empty() => {
            rows.push(Row::new("no entries: only reservations and decisions are logged", Role::TextDim));
        }
        Some(QueryResult::Audit { entries }) => {
            for entry in entries {
                let words = format!("#{} {} {}", entry.seq, time_of_day(entry.at / 1000), entry.kind);
                let text = audit_words::sentence_of(entry.kind.as_str(), &entry.body);
                rows.push(Row::new(words, Role::TextDim).then(format!("  {text}"), Role::Text));
            }
        }
        Some(QueryResult::Nothing { why }) => rows.push(Row::new(why.as_str(), Role::StateCare)),
        Some(QueryResult::Verified { .. } | QueryResult::History { .. }) => {}
    }
}
