//! Answer side of the trade screen: rows for the simulated offer, the errors, or the fields of a result.

use alloy_primitives::Address;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::Widget;
use serde_json::Value;

use super::super::ScreenContext;
use super::super::form::parameter_error;
use super::Trade;
use super::choices::CHAIN_FIELDS;
use crate::format::{amount as token_amount, dollars, dollars_used, grouped};
use crate::painter::Painter;
use crate::theme::{Role, Theme};
use crate::widgets::figure::{left, readable, text};
use crate::widgets::paint::{Row, rows, wrapped};
use crate::widgets::words::{check_word, failure_words, finding_words, rule_word};
use crate::widgets::{self, Card as CardWidget, CardKeys, Moment, QuoteCard};
use bardo_base::display::{exceeded, reasons};
use bardo_base::error::{FigureUnit, Violation};
use bardo_base::fabric::{AskReason, CheckOutcome, EventKind, ResultCard, SafetyCheck, ToolEnd, ToolFailed};
use bardo_base::format::{time_of_day, wait};
use bardo_base::text::{SafeText, width};
use bardo_session::envelope::{CallStatus, ToolResponse};
use bardo_session::questions::{Question, RequestSubject};
use serde::Deserialize as _;

/// Instructions for a tool that writes.
const HOW_TO_DO: &[&str] = &[
    "1  Fill in the form: the quote updates as you type.",
    "2  Enter previews: all checks, and a simulation of the exact calldata. Nothing is signed.",
    "3  Enter again opens the decision: a selects the approval, Enter signs and sends.",
];
/// Instructions for a tool that changes records and signs nothing.
const HOW_TO_RECORD: &[&str] = &[
    "1  Fill in the form.",
    "2  Enter, and Enter again, does it at once. It signs nothing, so there is nothing to preview.",
    "3  What follows from it later, such as the slices of a schedule, is checked and asked about when it is due.",
];
/// Instructions for a tool that only reads.
const HOW_TO_ASK: &[&str] = &["Fill in the form. Enter runs the tool; it is read-only."];

impl Trade {
    /// Holdings on the selected chain, as rows.
    fn held_rows(&self, known: &ScreenContext<'_>) -> Vec<Row> {
        let Some(form) = self.form() else { return Vec::new() };
        let named = CHAIN_FIELDS.map(|name| form.value(name));
        let chains = known.snapshot.into_iter().flat_map(|snapshot| &snapshot.holdings);
        let Some(chain) = chains.into_iter().find(|chain| named.contains(&chain.chain.as_str())) else {
            return Vec::new();
        };
        let mut all = vec![Row::default(), Row::new(format!("You hold on {}", chain.chain), Role::Title)];
        for row in chain.rows.iter().filter(|row| !row.amount.raw().is_zero()) {
            let worth = row.value.map_or_else(|| "no price".to_owned(), dollars);
            let held = token_amount(row.amount, 6);
            all.push(
                Row::new(format!("{:<8}{held:>20}", row.symbol), Role::Text)
                    .then(format!("{worth:>16}"), Role::TextDim),
            );
        }
        all
    }
}

/// Answer side of the screen: the card of the action, the quote, the simulated offer, or the instructions.
pub(super) struct AnswerPanel<'a> {
    pub(super) theme: &'a Theme,
    pub(super) screen: &'a Trade,
    pub(super) known: &'a ScreenContext<'a>,
}

impl Widget for AnswerPanel<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let Self { theme, screen, known } = self;
        let painter = &mut Painter { buffer, theme };
        // The operator's own request goes on while the view is frozen.
        let now = known.live();
        let seen = screen.done(known);
        if let Some(card) = seen.and_then(|seen| seen.card.as_ref()) {
            // While the form has the focus, letters are text.
            let sent = seen.is_some_and(|seen| !seen.transactions.is_empty());
            let keys = CardKeys { copy: !screen.typing, explorer: !screen.typing && sent, ..CardKeys::default() };
            let card = CardWidget::new(card, painter.theme, now).keys(keys);
            let height = card.height(area.width).min(area.height);
            painter.render(card, Rect { height, ..area });
            return;
        }
        let mut below = area;
        // A quote for other parameters is not shown. A failure needs the room for its reasons.
        let failed = screen.preview.as_ref().is_some_and(|preview| preview.response.error.is_some());
        if let Some(quote) = screen.quote.as_ref().filter(|_| !failed && screen.quote_fits()) {
            let card = QuoteCard::new(quote, painter.theme, now);
            let wanted = card.height(area.width);
            // The preview is needed for the decision, so the quote leaves room for it.
            let room = if screen.preview.is_some() || screen.previewing.is_some() {
                5.min(area.height / 2)
            } else {
                area.height
            };
            let height = wanted.min(room);
            painter.render(card, Rect { height, ..area });
            below = super::super::list::stacked(area, height).1;
        }
        let body = match (&screen.preview, screen.previewing.is_some()) {
            (_, true) => vec![Row::new("▸ checking…", Role::Chart)],
            (Some(preview), false) => {
                let held = known.offer.filter(|_| screen.is_held(known));
                answer_rows(&preview.response, Some(preview.answered_at), now, held)
            }
            // Execution without a card still shows its state, so that it is not started twice by mistake.
            (None, false) if screen.execution.is_some() => match &screen.execution_response {
                Some(response) => answer_rows(response, None, now, None),
                None => vec![Row::new("▸ approved; waiting for its status", Role::Chart)],
            },
            (None, false) if screen.quote.is_some() && screen.quote_fits() => return,
            (None, false) => {
                let words: &[&str] = match (screen.records(known), screen.writes(known)) {
                    (true, _) => HOW_TO_RECORD,
                    (false, true) => HOW_TO_DO,
                    (false, false) => HOW_TO_ASK,
                };
                let mut rows: Vec<Row> = words.iter().map(|words| Row::new(*words, Role::TextDim)).collect();
                if let Some(first) = rows.first_mut().filter(|_| screen.writes(known) && !screen.is_quoted()) {
                    *first = Row::new("1  Fill in the form.", Role::TextDim);
                }
                rows.extend(screen.held_rows(known));
                rows
            }
        };
        if below.height < 3 || below.width < 4 {
            return;
        }
        let title = if screen.writes(known) && !screen.records(known) { "Simulated offer" } else { "Answer" };
        painter.frame(below, &[(title.to_owned(), Role::Title)], &[], Role::Border);
        let inner = Rect { x: below.x + 2, y: below.y + 1, width: below.width - 4, height: below.height - 2 };
        rows(painter, inner, &wrapped(body, inner.width.into()));
    }
}

/// Simulated offer in a response, or in the details of its error.
pub(super) fn permit(response: &ToolResponse) -> Option<&Value> {
    response.decision_hints.as_ref()?.get("permit").or_else(|| {
        let details = response.error.as_ref()?;
        details.details().get("permit")
    })
}

/// Name that the held offer has for an address.
fn named(offer: &Question, address: Address) -> Option<&SafeText> {
    let RequestSubject::Action(action) = &offer.about else { return None };
    action.places.iter().find(|place| place.address == address)?.label.as_ref()
}

/// Rows of a simulated offer: amounts with their worst-case bounds, recipients, gas and checks.
fn offer_rows(response: &ToolResponse, now: Moment, held: Option<&Question>) -> Vec<Row> {
    let Some(permit) = permit(response) else { return Vec::new() };
    let mut all = Vec::new();
    if let Some(expected) = text(permit, "expected_outcome") {
        all.push(Row::new(readable(expected.as_str(), 6), Role::TextStrong).kept());
    }
    // Stands near the top, so that an expired offer shows it on a small screen, too.
    if let Some(until) = permit.get("expires_at").and_then(Value::as_u64) {
        // The offer of a finished rehearsal is not held either.
        let (words, role) = match (until <= now.millis, held.is_some()) {
            (true, _) => ("○ expired: Enter previews again".to_owned(), Role::StateCare),
            // Rejected, withdrawn, or never more than a rehearsal.
            (false, false) => ("○ closed, nothing was signed: Enter previews again".to_owned(), Role::StateCare),
            (false, true) => (left(until / 1000, now), Role::Text),
        };
        all.push(Row::new("valid           ", Role::TextDim).then(words, role).kept());
    }
    let bounds = permit.get("bounds").unwrap_or(&Value::Null);
    let mut flows = |field: &str, words: &str| {
        for one in bounds.get(field).and_then(Value::as_array).into_iter().flatten() {
            let (token, value) = (text(one, "token").unwrap_or_default(), text(one, "amount").unwrap_or_default());
            let usd = text(one, "usd").and_then(|usd| usd.as_str().parse().ok()).map(dollars);
            all.push(
                Row::new(words, Role::TextDim)
                    .then(format!("{} {token}", grouped(&readable(value.as_str(), 6))), Role::Text)
                    .end(usd.unwrap_or_else(|| "no price".to_owned()), Role::Text)
                    .kept(),
            );
        }
    };
    flows("pays_at_most", "pays at most    ");
    flows("receives_at_least", "gets at least   ");
    flows("still_takeable", "allowance after ");
    let has = |field: &str| bounds.get(field).and_then(Value::as_array).is_some_and(|flows| !flows.is_empty());
    if has("pays_at_most") && has("receives_at_least") {
        // The quote above values the same tokens by their feeds.
        all.push(Row::new("dollars         ", Role::TextDim).then("at the least favourable prices", Role::TextDim));
    }
    if let Some(gas) = text(permit, "gas_usd").and_then(|usd| usd.as_str().parse().ok()) {
        all.push(Row::new("gas at most     ", Role::TextDim).end(dollars_used(gas), Role::Text));
    }
    for leg in permit.get("legs").and_then(Value::as_array).into_iter().flatten() {
        if let (Some(purpose), Some(to)) = (text(leg, "purpose"), text(leg, "to")) {
            // Addresses are shown in full and with their checksum, because the operator compares them.
            let address = to.as_str().parse::<Address>().ok();
            let to = address.map_or_else(|| to.to_string(), |to| to.to_string());
            let name = address.and_then(|address| named(held?, address));
            let to = name.map_or(to.clone(), |name| format!("{to}  {name}"));
            let words = match purpose.as_str() {
                "approve" => "approval call   ".to_owned(),
                "main" => "main call       ".to_owned(),
                other => format!("{:<16}", format!("{other} call")),
            };
            all.push(Row::new(words, Role::TextDim).then(to, Role::Text));
        }
    }
    let waits = permit.get("reasons").and_then(|rows| Vec::<AskReason>::deserialize(rows).ok());
    for reason in reasons(&waits.unwrap_or_default()) {
        let words = format!("! needs approval: {reason}");
        all.push(Row::new(words, Role::StateCare).kept());
    }
    all.extend(check_rows(permit.get("checks"), false));
    all
}

/// Width of one row of checks, in columns.
const CHECKS_WIDE: usize = 46;

/// Rows of the checks, several per row: passed ones by name, others with their reason. With `listed`, the violated rules
/// stand above, and a blocking check is only named. A mark stays with its word.
fn check_rows(checks: Option<&Value>, listed: bool) -> Vec<Row> {
    let label =
        |rows: &[Row]| Row::new(if rows.is_empty() { "checks          " } else { "                " }, Role::TextDim);
    let mut rows: Vec<Row> = Vec::new();
    let mut used = usize::MAX;
    let checks = checks.and_then(Value::as_array).into_iter().flatten();
    for check in checks.filter_map(|check| SafetyCheck::deserialize(check).ok()) {
        let word = check_word(check.check);
        let (mark, role) = match check.outcome {
            CheckOutcome::Passed => ("✓", Role::StateGood),
            CheckOutcome::Blocked => ("✕", Role::StateBad),
            CheckOutcome::Warned => ("!", Role::StateCare),
        };
        let columns = width(word) + 4;
        let explained = check.outcome == CheckOutcome::Warned || check.outcome == CheckOutcome::Blocked && !listed;
        if explained || used.saturating_add(columns) > CHECKS_WIDE {
            let next = label(&rows);
            rows.push(next);
            used = 0;
        }
        used += columns;
        let Some(row) = rows.last_mut() else { continue };
        row.left.extend([(format!("{mark} "), role), (format!("{word}  "), Role::Text)]);
        if explained {
            row.left.push((finding_words(&check.finding), role));
            used = usize::MAX;
        }
    }
    rows
}

/// Row of a violated rule: its figures, and what would pass. A rule that time alone satisfies counts down from the
/// moment of the answer.
fn violation_row(one: &Violation, answered_at: Option<u64>, now: Moment) -> Row {
    let row = Row::new(format!("✕ {}: ", rule_word(&one.rule)), Role::StateBad);
    let frees = one.figures.as_ref().filter(|figures| figures.unit == FigureUnit::Seconds);
    let frees = frees.and_then(|figures| figures.frees_in_seconds).zip(answered_at);
    if let Some((seconds, at)) = frees {
        let free_at = at.saturating_add(seconds.saturating_mul(1_000));
        let words = match free_at.saturating_sub(now.millis).div_ceil(1_000) {
            0 => "free now: Enter previews again".to_owned(),
            _ if !now.motion => format!("too soon, free at {}", time_of_day(free_at / 1_000)),
            left => format!("too soon, free in {}", wait(left)),
        };
        return row.then(words, Role::StateBad).kept();
    }
    let row = row.then(exceeded(one), Role::StateBad);
    // What is left of a limit in dollars is in the words above.
    let figures = one.figures.as_ref().filter(|figures| figures.unit == FigureUnit::Usd);
    let is_told = figures.is_some_and(|figures| figures.left.as_ref().is_some_and(|left| *left != figures.limit));
    let passes = if is_told { String::new() } else { readable(one.would_pass.as_str(), 4) };
    let row = if passes.is_empty() { row } else { row.then(format!("; would pass: {passes}"), Role::Text) };
    row.kept()
}

/// Rows for any response: the offer, the errors, or the fields of the result. `answered_at` is the time of a preview's
/// answer, in milliseconds since the Unix epoch.
pub(super) fn answer_rows(
    response: &ToolResponse,
    answered_at: Option<u64>,
    now: Moment,
    held: Option<&Question>,
) -> Vec<Row> {
    let mut all = Vec::new();
    if let Some(error) = &response.error {
        let word = if response.status == CallStatus::Blocked { "BLOCKED" } else { "FAILED" };
        let violations = error.violations();
        let of_field = parameter_error(error).filter(|_| violations.is_empty());
        if violations.is_empty() {
            let words = of_field.as_ref().map(|(message, _)| message.clone());
            let message = SafeText::clean(&words.unwrap_or_else(|| failure_words(&ToolFailed::of(error))), 400);
            all.push(Row::new(format!("✕ {word}: "), Role::StateBad).then(message.as_str(), Role::StateBad).kept());
        } else {
            all.push(Row::new(format!("✕ {word}: nothing was signed"), Role::StateBad).kept());
            all.extend(violations.iter().map(|one| violation_row(one, answered_at, now)));
        }
        if let Some(checks) = error.details().get("checks") {
            all.extend(check_rows(Some(checks), !violations.is_empty()));
        }
        let suggestion = of_field.map_or_else(|| error.suggestion().to_owned(), |(_, suggestion)| suggestion);
        all.push(Row::new(SafeText::clean(&suggestion, 300).as_str(), Role::TextDim));
    }
    all.extend(offer_rows(response, now, held));
    if response.status == CallStatus::Simulated && held.is_some() {
        all.push(
            Row::new("Enter", Role::Key).then(" opens the decision. Nothing is signed before it.", Role::Text).kept(),
        );
    } else if let Some(data) = &response.data {
        for (name, value) in widgets::plain::fields(data) {
            all.push(Row::new(format!("{name} "), Role::TextDim).then(value.as_str(), Role::Text));
        }
        if let Some(words) = &response.explanation {
            all.push(Row::new(SafeText::clean(words, 500).as_str(), Role::TextDim));
        }
    }
    all
}

/// Events that a response stands for, to be applied to a card.
pub(super) fn events_of(response: &ToolResponse, millis: u64) -> Vec<EventKind> {
    let mut events = Vec::new();
    if let Some(error) = &response.error {
        events.push(EventKind::ToolError(ToolFailed::of(error)));
    }
    let card = response.data.clone().map(|data| ResultCard {
        widget: bardo_base::model::CardKind::Quote,
        data,
        hints: response.decision_hints.clone(),
    });
    events.push(EventKind::ToolEnd(ToolEnd {
        success: response.error.is_none(),
        state: None,
        duration_ms: millis,
        result_summary: Value::Null,
        card,
    }));
    events
}
