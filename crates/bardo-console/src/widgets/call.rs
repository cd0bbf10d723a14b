//! What every call has, whatever its card: when it began, how far it is, how it ended.

use serde_json::Value;

use super::Moment;
use super::decision::ends_words;
use super::figure::{countdown, running, took};
use super::paint::Row;
use super::status::Status;
use super::words::failure_words;
use crate::pen::Piece;
use crate::theme::Role;
use bardo_base::error::ErrorCode;
use bardo_base::fabric::{ApprovalOutcome, EventKind, ToolFacts};
use bardo_base::text::SafeText;

/// Characters kept of why a call failed.
const MAX_FAILURE: usize = 400;

/// Columns of what stands at the edge of a card, or of its line, at most.
const EDGE: usize = 24;

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The error's code.
    pub code: ErrorCode,
    /// What was wrong.
    pub message: SafeText,
}

/// A call as a card knows it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Call {
    /// When it began, in milliseconds since the Unix epoch.
    pub at: u64,
    /// Which tool.
    pub tool: SafeText,
    /// The parameters that may be shown.
    pub params: Value,
    /// How it stands.
    pub status: Status,
    /// The step it is at: name, place from 1, how many.
    pub step: Option<(SafeText, u32, u32)>,
    /// How long it took, once it is over, in milliseconds.
    pub millis: Option<u64>,
    /// Why it did not do what was asked.
    pub failure: Option<Failure>,
    /// When the question to the operator is over, in milliseconds since the Unix epoch, while there is one.
    pub lapses_at: Option<u64>,
    /// Whether it goes ahead then, unless it is refused.
    pub passes_by_itself: bool,
    /// Whether it takes longer than it should.
    pub overrun: bool,
    /// What the operator said.
    pub answer: Option<SafeText>,
    /// Whether its tool signs something.
    pub signs: bool,
    /// True for a call that was done in paper mode, with nothing signed.
    pub on_paper: bool,
}

impl Call {
    /// A call of which nothing is known but that it was asked for.
    pub fn asked(at: u64, tool: &str, params: Value) -> Self {
        let signs = ToolFacts::of_earlier_versions(tool).signs;
        Self { at, tool: SafeText::clean(tool, 80), params, status: Status::Loading, signs, ..Self::default() }
    }

    /// Takes in one event of this call.
    pub fn fold(&mut self, at: u64, kind: &EventKind) {
        match kind {
            EventKind::ToolStart(start) => {
                let signs = start.facts().signs;
                *self = Self { signs, ..Self::asked(at, &start.tool_name, start.params.value().clone()) };
            }
            EventKind::ToolUpdate(update) => {
                self.status = Status::Running;
                self.step = Some((update.step.clone(), update.index, update.of));
            }
            EventKind::SafetyCheck(_) | EventKind::PermitIssued(_) | EventKind::TxUpdate(_)
                if self.status == Status::Loading =>
            {
                self.status = Status::Running;
            }
            EventKind::ToolOverrun(_) => self.overrun = true,
            EventKind::ApprovalRequested(asked) => {
                self.status = Status::Waiting;
                self.lapses_at = Some(asked.lapses_at);
                self.passes_by_itself = asked.passes_by_itself;
            }
            EventKind::ApprovalResolved(answered) => {
                self.lapses_at = None;
                self.answer.clone_from(&answered.reason);
                self.status = match answered.outcome {
                    ApprovalOutcome::Approved | ApprovalOutcome::ApprovedSimilar | ApprovalOutcome::Edited => {
                        Status::Running
                    }
                    ApprovalOutcome::Refused | ApprovalOutcome::RefusedAndHalted => Status::Refused,
                    ApprovalOutcome::Lapsed => Status::Lapsed,
                    ApprovalOutcome::Withdrawn => Status::Cancelled,
                };
            }
            EventKind::ToolError(error) => {
                self.status = Status::of_error(error.error_code);
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
                    (true, Some("simulated")) => Status::Simulated,
                    (true, Some("unclear")) => Status::Unclear,
                    (true, _) => Status::Done,
                    (false, _) if self.failure.is_none() && !self.status.is_over() => Status::Failed,
                    (false, _) => self.status,
                };
            }
            _ => {}
        }
    }

    /// A parameter as text; empty where there is none.
    pub fn param(&self, name: &str) -> SafeText {
        super::figure::text(&self.params, name).unwrap_or_default()
    }

    /// How it stands, in words for a card's edge: with what is running, or how long it took.
    pub fn standing(&self, now: Moment) -> Vec<Piece> {
        let status = self.status;
        let word = if self.on_paper { "done on PAPER" } else { status.word() };
        let mut words = format!("{} {word}", status.mark());
        let mut role = status.role();
        match status {
            Status::Loading | Status::Running => {
                let doing = self.step.as_ref().map_or(status.word(), |(step, ..)| step.as_str());
                words = format!("{} {} {}", status.mark(), lower_first(doing), running(self.at, now));
                if self.overrun {
                    words.push_str(", slow");
                    role = Role::StateCare;
                }
            }
            Status::Waiting => {
                if let (Some(ends), true) = (self.lapses_at, self.passes_by_itself) {
                    // Nobody is waited for: silence lets it pass.
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

    /// The right end of its line.
    pub fn line_end(&self, now: Moment) -> Vec<Piece> {
        match (self.status, self.millis) {
            (Status::Loading | Status::Running, _) => vec![(running(self.at, now), Role::Chart)],
            (Status::Waiting, _) if self.passes_by_itself => {
                let words = self.lapses_at.map(|ends| ends_words(ends, true, now, EDGE)).unwrap_or_default();
                vec![(words, Role::StateCare)]
            }
            (status, _) if status.is_bad() || status == Status::Lapsed => vec![("Enter".to_owned(), Role::Key)],
            (_, Some(millis)) if self.on_paper => {
                vec![("PAPER ".to_owned(), Role::StateCare), (took(millis), Role::TextDim)]
            }
            (_, Some(millis)) => vec![(took(millis), Role::TextDim)],
            _ => Vec::new(),
        }
    }

    /// Why it did not do what was asked, as rows that stay.
    pub fn failure_rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        if let Some(failure) = &self.failure {
            let mark = format!("{} ", self.status.mark());
            let words = failure.message.as_str();
            rows.push(Row::new(mark, self.status.role()).then(words, self.status.role()).kept());
        }
        if let Some(answer) = self.answer.as_ref().filter(|answer| !answer.is_empty() && !self.says(answer.as_str())) {
            rows.push(Row::new("you: ", Role::TextDim).then(answer.as_str(), Role::Text));
        }
        rows
    }

    /// Whether what went wrong says so already.
    pub fn says(&self, words: &str) -> bool {
        self.failure.as_ref().is_some_and(|failure| failure.message.as_str().contains(words))
    }

    /// The reason in a line, where there is one.
    pub fn failure_words(&self) -> Option<String> {
        match (&self.answer, &self.failure) {
            (Some(answer), _) if !answer.is_empty() => Some(format!("you: \"{answer}\"")),
            (_, Some(failure)) => Some(failure.message.to_string()),
            _ => None,
        }
    }
}

/// A step's name inside a sentence.
fn lower_first(text: &str) -> String {
    let mut characters = text.chars();
    match characters.next() {
        Some(first) => first.to_lowercase().chain(characters).collect(),
        None => String::new(),
    }
}
