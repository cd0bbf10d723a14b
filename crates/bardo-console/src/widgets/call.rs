//! State that every call has, whatever its card: start, progress, end.

use alloy_primitives::Address;
use serde_json::Value;

use super::Moment;
use super::decision::ends_words;
use super::figure::{countdown, left, running, took};
use super::paint::Row;
use super::status::CardStatus;
use super::words::failure_words;
use crate::format::short_address;
use crate::painter::StyledText;
use crate::theme::Role;
use bardo_base::error::ErrorCode;
use bardo_base::fabric::{ApprovalOutcome, EventKind, NOT_RECORDED, SimulatedChange, ToolFacts};
use bardo_base::text::SafeText;

/// Maximum length of a failure message, in characters.
const MAX_FAILURE: usize = 400;

/// Maximum width of a status at the edge of a card, in columns.
const EDGE: usize = 24;

/// Failure of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Code of the error.
    pub code: ErrorCode,
    /// Description of the error.
    pub message: SafeText,
}

/// Call as its card sees it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CallModel {
    /// Start of the call, in milliseconds since the Unix epoch.
    pub at: u64,
    /// Name of the tool.
    pub tool: SafeText,
    /// Parameters, with secrets redacted.
    pub params: Value,
    /// Status of the call.
    pub status: CardStatus,
    /// Current step: name, position starting at 1, number of steps.
    pub step: Option<(SafeText, u32, u32)>,
    /// Duration of an ended call, in milliseconds.
    pub millis: Option<u64>,
    /// Failure that ended the call.
    pub failure: Option<Failure>,
    /// Deadline of the approval request, in milliseconds since the Unix epoch, while there is one.
    pub lapses_at: Option<u64>,
    /// True if the call proceeds at that deadline unless the operator rejects it.
    pub passes_by_itself: bool,
    /// True if the call exceeds its time budget.
    pub overrun: bool,
    /// Reason given with the end of the approval request: the operator's own, or why the request was withdrawn.
    pub answer: Option<SafeText>,
    /// True if the request was withdrawn, so that the reason is not the operator's.
    pub withdrawn: bool,
    /// True if its tool signs something.
    pub signs: bool,
    /// True for a call that was done in paper mode, with nothing signed.
    pub on_paper: bool,
    /// Expiry of its simulated offer while nobody has committed it, in milliseconds since the Unix epoch.
    pub offered_until: Option<u64>,
}

impl CallModel {
    /// Creates a call of which only the request is known.
    pub fn asked(at: u64, tool: &str, params: Value) -> Self {
        let signs = ToolFacts::of_earlier_versions(tool).signs;
        Self { at, tool: SafeText::clean(tool, 80), params, status: CardStatus::Loading, signs, ..Self::default() }
    }

    /// Applies an event of this call.
    pub fn fold(&mut self, at: u64, kind: &EventKind) {
        match kind {
            EventKind::PermitIssued(permit) => {
                self.offered_until = Some(permit.expires_at);
                self.use_amount_of(&permit.changes);
                self.name_tokens(&permit.changes);
            }
            // Checks are made again before the signature, and say nothing about the offer.
            EventKind::SafetyCheck(_) | EventKind::ToolOverrun(_) | EventKind::MemoryHits(_) => {}
            _ => self.offered_until = None,
        }
        match kind {
            EventKind::ToolStart(start) => {
                let signs = start.facts().signs;
                *self = Self { signs, ..Self::asked(at, &start.tool_name, start.params.value().clone()) };
            }
            EventKind::ToolUpdate(update) => {
                self.status = CardStatus::Running;
                self.step = Some((update.step.clone(), update.index, update.of));
            }
            EventKind::SafetyCheck(_) | EventKind::PermitIssued(_) | EventKind::TxUpdate(_)
                if self.status == CardStatus::Loading =>
            {
                self.status = CardStatus::Running;
            }
            EventKind::ToolOverrun(_) => self.overrun = true,
            EventKind::ApprovalRequested(asked) => {
                self.status = CardStatus::Waiting;
                self.lapses_at = Some(asked.lapses_at);
                self.passes_by_itself = asked.passes_by_itself;
            }
            EventKind::ApprovalResolved(answered) => {
                self.lapses_at = None;
                self.answer.clone_from(&answered.reason);
                if let (Some(amount), Some(asked)) = (&answered.amount, self.params.get_mut("amount")) {
                    *asked = Value::from(amount.as_str());
                }
                self.withdrawn = answered.outcome == ApprovalOutcome::Withdrawn;
                self.status = match answered.outcome {
                    ApprovalOutcome::Approved | ApprovalOutcome::ApprovedSimilar | ApprovalOutcome::Edited => {
                        CardStatus::Running
                    }
                    ApprovalOutcome::Refused | ApprovalOutcome::RefusedAndHalted => CardStatus::Refused,
                    ApprovalOutcome::Lapsed => CardStatus::Lapsed,
                    ApprovalOutcome::Withdrawn => CardStatus::Cancelled,
                };
            }
            EventKind::ToolError(error) => {
                self.status = CardStatus::of_error(error.error_code);
                self.lapses_at = None;
                self.failure = Some(Failure {
                    code: error.error_code,
                    message: SafeText::clean(&failure_words(error), MAX_FAILURE),
                });
            }
            EventKind::ToolEnd(end) => {
                self.millis = Some(end.duration_ms);
                self.lapses_at = None;
                self.step = None;
                let hints = end.card.as_ref().and_then(|card| card.hints.as_ref());
                let state = hints.and_then(|hints| hints.get("state")?.as_str());
                self.on_paper = hints.and_then(|hints| hints.get("paper")?.as_bool()) == Some(true);
                self.status = match (end.success, state) {
                    (true, Some("simulated")) => CardStatus::Simulated,
                    (true, Some("unclear")) => CardStatus::Unclear,
                    (true, _) => CardStatus::Done,
                    (false, _) if self.failure.is_none() && !self.status.is_over() => CardStatus::Failed,
                    (false, _) => self.status,
                };
            }
            _ => {}
        }
    }

    /// Replaces an amount that says `max` by what the simulation moves of the token that it is about.
    fn use_amount_of(&mut self, changes: &[SimulatedChange]) {
        if !self.param("amount").as_str().eq_ignore_ascii_case("max") {
            return;
        }
        let named = ["token_in", "token"].map(|name| self.param(name));
        let is_named = |change: &&SimulatedChange| {
            let address = change.address.map(|address| address.to_string());
            named.iter().any(|name| {
                *name == change.symbol || address.as_ref().is_some_and(|own| own.eq_ignore_ascii_case(name.as_str()))
            })
        };
        let moved = changes.iter().filter(|change| !change.gas).find(is_named);
        let amount = moved.map(|change| change.change.as_str().trim_start_matches(['+', '-', '−']).to_owned());
        if let (Some(amount), Some(asked)) = (amount, self.params.get_mut("amount")) {
            *asked = Value::from(amount);
        }
    }

    /// Text about a simulated offer that nobody has committed; `None` if there is none.
    fn offer_words(&self, now: Moment) -> Option<String> {
        let until = self.offered_until.filter(|_| !self.status.is_over() && self.status != CardStatus::Waiting)?;
        Some(format!("≈ offer, {}: not signed", left(until / 1000, now)))
    }

    /// Replaces a token that the call names by its address by the symbol that the simulation reports for it.
    fn name_tokens(&mut self, changes: &[SimulatedChange]) {
        for name in ["token_in", "token_out", "token", "token_a", "token_b"] {
            let Some(asked) = address_of(&self.param(name)) else { continue };
            let known = changes.iter().find(|change| change.address == Some(asked));
            if let (Some(change), Some(param)) = (known, self.params.get_mut(name)) {
                *param = Value::from(change.symbol.as_str());
            }
        }
    }

    /// Parameter as text; empty if there is none, or if it was not recorded.
    pub fn param(&self, name: &str) -> SafeText {
        super::figure::text(&self.params, name).filter(|text| text.as_str() != NOT_RECORDED).unwrap_or_default()
    }

    /// Token that a parameter names: its symbol, or the ends of its address. The details of the call have all digits.
    pub fn token(&self, name: &str) -> SafeText {
        let named = self.param(name);
        address_of(&named).map_or(named, |address| SafeText::clean(&short_address(address), 20))
    }

    /// Status for the edge of a card, with the current step and running time, or with the duration.
    pub fn status_text(&self, now: Moment) -> Vec<StyledText> {
        let status = self.status;
        let word = if self.on_paper { "done on PAPER" } else { status.word() };
        let mut words = format!("{} {word}", status.mark());
        let mut role = status.role();
        if let Some(words) = self.offer_words(now) {
            return vec![(words, Role::Chart)];
        }
        match status {
            CardStatus::Loading | CardStatus::Running => {
                let doing = self.step.as_ref().map_or(status.word(), |(step, ..)| step.as_str());
                words = format!("{} {} {}", status.mark(), lower_first(doing), running(self.at, now));
                if self.overrun {
                    words.push_str(", slow");
                    role = Role::StateCare;
                }
            }
            CardStatus::Waiting => {
                if let (Some(ends), true) = (self.lapses_at, self.passes_by_itself) {
                    // A request that passes without an answer does not wait for the operator.
                    words = format!("{} {}", status.mark(), ends_words(ends, true, now, EDGE));
                } else if let Some(lapses) = self.lapses_at {
                    words = if now.motion {
                        format!("{words} {}", countdown(lapses.saturating_sub(now.millis) / 1000))
                    } else {
                        format!("{words} until {}", crate::format::time_of_day(lapses / 1000))
                    };
                }
            }
            _ => {
                if let Some(millis) = self.millis {
                    words = format!("{words} {}", took(millis));
                }
            }
        }
        vec![(words, role)]
    }

    /// Text at the right end of the call's line.
    pub fn line_end(&self, now: Moment) -> Vec<StyledText> {
        match (self.status, self.millis) {
            (CardStatus::Loading | CardStatus::Running, _) if self.offered_until.is_some() => {
                vec![("offer".to_owned(), Role::Chart)]
            }
            (CardStatus::Loading | CardStatus::Running, _) => vec![(running(self.at, now), Role::Chart)],
            (CardStatus::Waiting, _) if self.passes_by_itself => {
                let words = self.lapses_at.map(|ends| ends_words(ends, true, now, EDGE)).unwrap_or_default();
                vec![(words, Role::StateCare)]
            }
            (status, _) if status.is_bad() || status == CardStatus::Lapsed => vec![("Enter".to_owned(), Role::Key)],
            (_, Some(millis)) if self.on_paper => {
                vec![("PAPER ".to_owned(), Role::StateCare), (took(millis), Role::TextDim)]
            }
            (_, Some(millis)) => vec![(took(millis), Role::TextDim)],
            _ => Vec::new(),
        }
    }

    /// Rows with the failure and the operator's reason. The failure row is always kept.
    pub fn failure_rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        if let Some(failure) = &self.failure {
            let mark = format!("{} ", self.status.mark());
            let words = failure.message.as_str();
            rows.push(Row::new(mark, self.status.role()).then(words, self.status.role()).kept());
        }
        if let Some(answer) = self.answer.as_ref().filter(|answer| !answer.is_empty() && !self.says(answer.as_str())) {
            let from = if self.withdrawn { "withdrawn: " } else { "you: " };
            rows.push(Row::new(from, Role::TextDim).then(answer.as_str(), Role::Text));
        }
        rows
    }

    /// Row of a call that has nothing to show yet: `working` while it runs, or that it waits for the operator.
    pub fn pending_row(&self, working: &'static str) -> Row {
        match self.status {
            CardStatus::Waiting if self.passes_by_itself => {
                Row::new("Nothing is signed yet: it goes ahead unless you reject it.", Role::TextDim)
            }
            CardStatus::Waiting => Row::new("Nothing is signed yet: it waits for your answer.", Role::TextDim),
            _ if self.on_paper => Row::new("Done on paper: nothing was signed.", Role::TextDim),
            _ => Row::new(working, Role::TextDim),
        }
    }

    /// Returns true if the failure message already contains these words.
    pub fn says(&self, words: &str) -> bool {
        self.failure.as_ref().is_some_and(|failure| failure.message.as_str().contains(words))
    }

    /// Operator's reason, else the failure message; `None` without either.
    pub fn failure_words(&self) -> Option<String> {
        match (&self.answer, &self.failure) {
            (Some(answer), _) if !answer.is_empty() && self.withdrawn => Some(format!("withdrawn: {answer}")),
            (Some(answer), _) if !answer.is_empty() => Some(format!("you: \"{answer}\"")),
            (_, Some(failure)) => Some(with_short_addresses(failure.message.as_str())),
            _ => None,
        }
    }
}

/// Address in a parameter; `None` for any other text.
fn address_of(text: &SafeText) -> Option<Address> {
    text.as_str().strip_prefix("0x").filter(|digits| digits.len() == 40)?;
    text.as_str().parse().ok()
}

/// Text with the first and last four digits of each address, for a line that would cut it. The whole story has all digits.
fn with_short_addresses(text: &str) -> String {
    const DIGITS: usize = 40;
    let mut short = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("0x") {
        let (before, from) = rest.split_at(at + 2);
        let digits = from.bytes().take_while(u8::is_ascii_hexdigit).count();
        short.push_str(before);
        match (digits, from.get(..4), from.get(DIGITS - 4..DIGITS), from.get(DIGITS..)) {
            (DIGITS, Some(head), Some(tail), Some(after)) => {
                short.push_str(&format!("{head}…{tail}"));
                rest = after;
            }
            _ => rest = from,
        }
    }
    short.push_str(rest);
    short
}

/// Name of a step in lower case, for use inside a sentence.
fn lower_first(text: &str) -> String {
    let mut characters = text.chars();
    match characters.next() {
        Some(first) => first.to_lowercase().chain(characters).collect(),
        None => String::new(),
    }
}
