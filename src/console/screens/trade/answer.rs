//! What a tool answered, as rows: the simulated offer, what was wrong, the fields of a result.

use serde_json::Value;

use crate::base::text::SafeText;
use crate::console::theme::Role;
use crate::console::widgets::figure::{amount, left, text};
use crate::console::widgets::paint::Row;
use crate::console::widgets::swap::check_word;
use crate::console::widgets::{self, Moment};
use crate::engine::{Status, ToolResponse};
use crate::fabric::{Card, EventKind, ToolEnd, ToolFailed};

/// The simulated offer inside an answer, where there is one.
pub(super) fn permit(response: &ToolResponse) -> Option<&Value> {
    response.decision_hints.as_ref()?.get("permit").or_else(|| {
        let details = response.error.as_ref()?;
        details.details().get("permit")
    })
}

/// A simulated offer: what goes and comes at worst, who may take what, gas, and the checks.
pub(super) fn offer_rows(response: &ToolResponse, now: Moment) -> Vec<Row> {
    let Some(permit) = permit(response) else { return Vec::new() };
    let mut all = Vec::new();
    if let Some(expected) = text(permit, "expected_outcome") {
        all.push(Row::new(expected.as_str(), Role::TextStrong).kept());
    }
    let bounds = permit.get("bounds").unwrap_or(&Value::Null);
    let mut flows = |field: &str, words: &str| {
        for one in bounds.get(field).and_then(Value::as_array).into_iter().flatten() {
            let (token, value) = (text(one, "token").unwrap_or_default(), text(one, "amount").unwrap_or_default());
            let usd = text(one, "usd").and_then(|usd| usd.as_str().parse().ok()).map(crate::console::format::dollars);
            all.push(
                Row::new(words, Role::TextDim)
                    .then(format!("{} {token}", amount(value.as_str())), Role::Text)
                    .end(usd.unwrap_or_else(|| "no price".to_owned()), Role::Text)
                    .kept(),
            );
        }
    };
    flows("pays_at_most", "pays at most   ");
    flows("receives_at_least", "gets at least  ");
    flows("still_takeable", "takeable after ");
    if let Some(gas) = text(permit, "gas_usd").and_then(|usd| usd.as_str().parse().ok()) {
        all.push(Row::new("gas at most    ", Role::TextDim).end(crate::console::format::dollars(gas), Role::Text));
    }
    for leg in permit.get("legs").and_then(Value::as_array).into_iter().flatten() {
        if let (Some(purpose), Some(to)) = (text(leg, "purpose"), text(leg, "to")) {
            // Addresses stand whole where something is decided.
            all.push(Row::new(format!("{purpose} calls "), Role::TextDim).then(to.as_str(), Role::Text));
        }
    }
    for reason in permit.get("reasons").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        let words = format!("! asks you: {}", SafeText::clean(reason, 200));
        all.push(Row::new(words, Role::StateCare).kept());
    }
    all.push(check_row(permit.get("checks")));
    if let Some(until) = permit.get("expires_at").and_then(Value::as_u64) {
        let over = until <= now.millis;
        let (words, role) = if over {
            ("○ over: Enter previews again".to_owned(), Role::StateCare)
        } else {
            (left(until / 1000, now), Role::Text)
        };
        all.push(Row::new("holds ", Role::TextDim).then(words, role).kept());
    }
    all
}

/// The checks in a row: what passed by name, what did not with its reason.
fn check_row(checks: Option<&Value>) -> Row {
    let mut row = Row::new("checks ", Role::TextDim);
    for check in checks.and_then(Value::as_array).into_iter().flatten() {
        let name = text(check, "check").unwrap_or_default();
        let word = name.as_str().parse().map_or_else(|_| name.to_string(), |known| check_word(known).to_owned());
        let (mark, role) = match check.get("outcome").and_then(Value::as_str) {
            Some("passed") => ("✓", Role::StateGood),
            Some("blocked") => ("✕", Role::StateBad),
            _ => ("!", Role::StateCare),
        };
        row = row.then(format!("{mark} "), role).then(format!("{word}  "), Role::Text);
        if mark != "✓" {
            row = row.then(format!("{}  ", text(check, "detail").unwrap_or_default()), role);
        }
    }
    row
}

/// Any answer: the offer, or what was wrong, or the fields of the result.
pub(super) fn answer_rows(response: &ToolResponse, now: Moment) -> Vec<Row> {
    let mut all = Vec::new();
    if let Some(error) = &response.error {
        let word = if response.status == Status::Blocked { "BLOCKED" } else { "FAILED" };
        let message = SafeText::clean(error.message(), 400);
        all.push(Row::new(format!("✕ {word}: "), Role::StateBad).then(message.as_str(), Role::StateBad).kept());
        let violations = error.details().get("violations").and_then(Value::as_array);
        for one in violations.into_iter().flatten() {
            let part = |field: &str| text(one, field).unwrap_or_default();
            all.push(
                Row::new(format!("  {}: ", part("rule")), Role::Text)
                    .then(format!("{}; would pass: {}", part("value"), part("would_pass")), Role::Text),
            );
        }
        if let Some(checks) = error.details().get("checks") {
            all.push(check_row(Some(checks)));
        }
        all.push(Row::new(SafeText::clean(error.suggestion(), 300).as_str(), Role::TextDim));
    }
    all.extend(offer_rows(response, now));
    if response.status == Status::Simulated {
        all.push(
            Row::new("Enter", Role::Key).then(" asks whether to do it. Nothing is signed yet.", Role::Text).kept(),
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

/// An answer as the events a card folds.
pub(super) fn events_of(response: &ToolResponse, millis: u64) -> Vec<EventKind> {
    let mut events = Vec::new();
    if let Some(error) = &response.error {
        let error_message = SafeText::clean(error.message(), 400);
        events.push(EventKind::ToolError(ToolFailed { error_code: error.code(), error_message }));
    }
    let card = response.data.clone().map(|data| Card {
        widget: crate::base::model::CardKind::Quote,
        data,
        hints: response.decision_hints.clone(),
    });
    events.push(EventKind::ToolEnd(ToolEnd {
        success: response.error.is_none(),
        duration_ms: millis,
        result_summary: Value::Null,
        card,
    }));
    events
}
