//! Row texts of the four lists: standing approvals, offers and approval requests, decisions, and audit log entries.

use super::super::ScreenContext;
use crate::format::{dollars, dollars_left, dollars_used, short_address, short_hash, time_of_day};
use crate::painter::{StyledText, styled_width};
use crate::state::call_details::{named, named_as_asked, word};
use crate::state::feed::CallSeen;
use crate::state::line::chain_words;
use crate::theme::Role;
use crate::widgets::decision::{question_brief, question_line};
use crate::widgets::figure::{left as time_left, paid, readable};
use crate::widgets::words::outcome_words;
use bardo_base::fabric::ApprovalOutcome;
use bardo_base::text::{SafeText, width};
use bardo_session::audit_words;
use bardo_session::handle::{AuditEntry, GrantState};
use bardo_session::questions::{Question, QuestionKey};

/// Minimum width of a standing approval's scope, in columns.
const LEAST_SCOPE: usize = 16;
/// Panel width from which the kind of an entry is shown, in columns.
const WITH_KIND: u16 = 90;

/// Role of an audit log entry: entries that need attention are highlighted.
pub(super) fn trail_role(entry: &AuditEntry) -> Role {
    match entry.kind.as_str() {
        "action:refused" | "halt:raised" => Role::StateBad,
        "order:ended" if entry.body.get("matched").and_then(serde_json::Value::as_bool) == Some(false) => {
            Role::StateBad
        }
        "action:verified" if entry.body.get("matched").and_then(serde_json::Value::as_bool) != Some(true) => {
            Role::StateBad
        }
        "approval:requested" | "approval:resolved" | "permit:refused" | "halt:lowered" | "policy:accepted" => {
            Role::StateCare
        }
        _ => Role::Text,
    }
}

/// Audit log entry with its text. Neither changes, so the text is made once, on arrival.
#[derive(Debug)]
pub(super) struct AuditRow {
    pub(super) entry: AuditEntry,
    pub(super) words: SafeText,
    /// Text that a search looks at, in lower case.
    pub(super) text: String,
}

impl AuditRow {
    pub(super) fn new(entry: AuditEntry) -> Self {
        let words = audit_words::sentence_of(entry.kind.as_str(), &entry.body);
        let AuditEntry { kind, golem_id, body, call_id, .. } = &entry;
        let text = format!("{kind} {golem_id} {words} {body} {call_id:?}").to_lowercase();
        Self { entry, words, text }
    }
}

/// Left and right end of a row.
pub(super) type RowEnds = (Vec<StyledText>, Vec<StyledText>);

pub(super) fn outcome(call: &CallSeen) -> (&'static str, Role) {
    let none = ApprovalOutcome::Withdrawn;
    outcome_words(call.resolved.as_ref().map_or(none, |resolved| resolved.outcome))
}

/// Row of a standing approval, `room` columns wide: its scope, and how much of it is used.
pub(super) fn grant_row(grant: &GrantState, known: &ScreenContext<'_>, room: usize) -> RowEnds {
    let tokens: Vec<&str> = grant.tokens.iter().map(SafeText::as_str).collect();
    let chain = chain_words(grant.chain_id, &known.feed.chains);
    let own = known.snapshot.and_then(|snapshot| snapshot.account);
    let to: Vec<String> = grant
        .recipients
        .iter()
        .map(|one| {
            let name = known.snapshot.and_then(|snapshot| snapshot.name_of(*one));
            match name.filter(|_| Some(*one) != own) {
                None if Some(*one) == own => "you".to_owned(),
                Some(name) => format!("{} {name}", short_address(*one)),
                None => short_address(*one),
            }
        })
        .collect();
    let to = if to.is_empty() { String::new() } else { format!(" to {}", to.join(", ")) };
    let tool = word(grant.tool.as_str());
    let left = vec![
        (format!("{tool} {} on {chain}{to}", tokens.join(" ")), Role::Text),
        (format!("  {}", grant.golem_id), Role::TextDim),
    ];
    let spent = grant.granted.and_then(|granted| Some((granted.checked_sub(grant.left).ok()?, granted)));
    let rest = format!("{} left", dollars_left(grant.left));
    let used = match spent {
        Some((used, granted)) => format!("{} of {} used", dollars_used(used), dollars(granted)),
        None => rest.clone(),
    };
    // No new snapshot arrives just because time passes, so the time left is counted from this snapshot's time.
    let made = known.snapshot.map_or(known.now_millis, |snapshot| snapshot.at);
    let end = made.saturating_add(grant.lasts_millis);
    // Without motion, the row shows the end time instead of the time left.
    let lasts = if known.motion {
        format!("{} min", end.saturating_sub(known.now_millis).div_ceil(60_000))
    } else {
        let end = time_of_day(end / 1000);
        format!("until {}", end.get(..5).unwrap_or(&end))
    };
    // The scope keeps a minimum width, however long the figures are.
    let row = [format!("{used} · {lasts}"), format!("{rest} · {lasts}"), rest];
    let fits = |words: &&String| width(words) + LEAST_SCOPE <= room;
    let words = row.iter().find(fits).or(row.last()).cloned().unwrap_or_default();
    (left, vec![(words, Role::TextDim)])
}

/// Calls with a valid simulated offer, but no approval request, transaction or end yet; newest first.
pub(super) fn offers<'a>(known: &ScreenContext<'a>) -> impl Iterator<Item = &'a CallSeen> {
    let now = known.now_millis;
    // The operator's own offer is listed among the approval requests once its dialog was opened.
    let questions = known.questions;
    let asked = move |call: &CallSeen| {
        let permit = call.offer.as_ref().map(|offer| QuestionKey::Action(offer.permit_id));
        questions.iter().any(|question| Some(question.key) == permit)
    };
    let waits = |call: &CallSeen| call.end().is_none() && call.asked.is_none() && call.transactions.is_empty();
    let stands = move |call: &CallSeen| call.offer.as_ref().is_some_and(|offer| offer.expires_at > now);
    known.feed.calls.iter().rev().filter(move |call| waits(call) && stands(call) && !asked(call))
}

/// Row of a simulated offer, with the time left.
pub(super) fn offer_row(call: &CallSeen, known: &ScreenContext<'_>) -> Option<RowEnds> {
    let offer = call.offer.as_ref()?;
    let words = readable(offer.expected_outcome.as_str(), 4);
    let left = vec![("≈ offer ".to_owned(), Role::TextDim), (words, Role::Text)];
    Some((left, vec![(time_left(offer.expires_at / 1000, known.moment()), Role::StateCare)]))
}

/// Row of an approval request. If it does not fit, a shorter description of the trade is used, so that the figure
/// stays.
pub(super) fn question_row(question: &Question, known: &ScreenContext<'_>, room: usize) -> RowEnds {
    let (mut left, right) = question_line(question, known.live(), room);
    if styled_width(&left) + styled_width(&right) > room
        && let Some((words, _)) = left.first_mut()
    {
        *words = question_brief(question);
    }
    (left, right)
}

/// Row of a past decision, with the reason given.
pub(super) fn decision_row(call: &CallSeen) -> RowEnds {
    let (words, role) = outcome(call);
    let smaller = call.resolved.as_ref().filter(|resolved| resolved.outcome == ApprovalOutcome::Edited);
    let smaller = smaller.and_then(|resolved| resolved.amount.as_ref());
    let (asked, words) = match smaller {
        Some(amount) => (named_as_asked(call), format!("smaller: {}", paid(amount.as_str()))),
        None => (named(call), words.to_owned()),
    };
    let why = call.resolved.as_ref().and_then(|resolved| resolved.reason.as_ref());
    let why = why.filter(|why| !why.is_empty()).map(|why| format!("  \"{why}\"")).unwrap_or_default();
    let left = vec![
        (format!("{} ", time_of_day(call.started_at / 1000)), Role::TextDim),
        (format!("{asked}  "), Role::Text),
        (words, role),
        (why, Role::TextDim),
    ];
    (left, vec![("Enter".to_owned(), Role::Key)])
}

pub(super) fn trail_row(row: &AuditRow, columns: u16) -> RowEnds {
    let entry = &row.entry;
    let mut left = vec![(format!("#{:<5} {} ", entry.seq, time_of_day(entry.at / 1000)), Role::TextDim)];
    if columns >= WITH_KIND {
        left.push((format!("{:<18} ", entry.kind), Role::TextDim));
    }
    left.push((row.words.to_string(), trail_role(entry)));
    // A list without room for both drops the hash.
    (left, vec![(entry.golem_id.to_string(), Role::TextDim), (format!(" {}", short_hash(entry.hash)), Role::TextDim)])
}
