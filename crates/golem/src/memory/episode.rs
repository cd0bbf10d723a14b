//! Record of one past write, with the reflection after it.

use std::fmt;

use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params};
use serde_json::Value;

use super::search::index;
use super::{EntryKind, signed, unsigned};
use bardo_base::error::ErrorCode;
use bardo_base::model::Phase;
use bardo_base::text::SafeText;
use bardo_store::StoreError;
use golem_tools::engine::{CallStatus, ToolResponse};

/// Topic of a write. Writes of the same topic are comparable.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Topic {
    /// Kind of action, such as `swap`.
    pub kind: String,
    /// Name of the chain, as given in the parameters.
    pub chain: String,
    /// Token paid; empty without one.
    pub token_in: String,
    /// Token received; empty without one.
    pub token_out: String,
}

impl Topic {
    /// Derives the topic of an action from its parameters.
    pub fn of(kind: &str, params: &Value) -> Self {
        let text = |names: &[&str]| {
            let found = names.iter().find_map(|name| params.get(*name).and_then(Value::as_str)).unwrap_or_default();
            SafeText::clean(found, 64).to_string()
        };
        Self {
            kind: kind.to_owned(),
            chain: text(&["chain", "source_chain"]).to_ascii_lowercase(),
            token_in: text(&["token_in", "token"]),
            token_out: text(&["token_out"]),
        }
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if !self.token_in.is_empty() {
            write!(f, " {}", self.token_in)?;
        }
        if !self.token_out.is_empty() {
            write!(f, " to {}", self.token_out)?;
        }
        if !self.chain.is_empty() {
            write!(f, " on {}", self.chain)?;
        }
        Ok(())
    }
}

/// Outcome of a past write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EpisodeOutcome {
    /// Completed as planned.
    Done,
    /// Not ended when the episode was recorded.
    Open,
    /// Expired without spending anything.
    Lapsed,
    /// Blocked by a rule.
    Blocked,
    /// Rejected by the operator.
    Refused,
    /// Failed with an error.
    Failed,
}

impl EpisodeOutcome {
    const ALL: [Self; 6] = [Self::Done, Self::Open, Self::Lapsed, Self::Blocked, Self::Refused, Self::Failed];

    /// Returns the form that is stored in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Open => "open",
            Self::Lapsed => "lapsed",
            Self::Blocked => "blocked",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }

    fn of(response: &ToolResponse) -> Self {
        let code = response.error.as_ref().map(|error| error.code());
        match (response.status, code) {
            (CallStatus::Success, _) => Self::Done,
            (CallStatus::Simulated | CallStatus::Partial, _) => Self::Open,
            (CallStatus::Blocked, _) => Self::Blocked,
            // An approval request without an answer is not a rejection.
            (CallStatus::Rejected, Some(ErrorCode::ApprovalLapsed)) => Self::Lapsed,
            (CallStatus::Rejected, _) => Self::Refused,
            (
                CallStatus::Error,
                Some(ErrorCode::UniswapxOrderExpired | ErrorCode::PermitExpired | ErrorCode::ToolCancelled),
            ) => Self::Lapsed,
            (CallStatus::Error, _) => Self::Failed,
        }
    }
}

/// Past write with its reflection.
#[derive(Debug, Clone, PartialEq)]
pub struct Episode {
    /// End of the write, in milliseconds since the Unix epoch.
    pub at: u64,
    /// Id of the call, as text.
    pub call_id: String,
    /// Topic of the write.
    pub topic: Topic,
    /// Amount counted as spent, in cents.
    pub cents: u64,
    /// Phase in which the write was made.
    pub phase: Phase,
    /// Outcome of the write.
    pub outcome: EpisodeOutcome,
    /// Error code, if there was an error.
    pub code: Option<String>,
    /// Allowed slippage, in basis points; `None` if the call named none.
    pub allowed_bps: Option<i64>,
    /// Shortfall of the received amount against the quote, in basis points; `None` if not measured.
    pub slipped_bps: Option<i64>,
    /// Expected outcome, from the permit.
    pub expected: SafeText,
    /// Actual outcome, from the response.
    pub actual: SafeText,
    /// Difference between the two.
    pub difference: SafeText,
    /// Lesson for similar writes.
    pub lesson: SafeText,
}

/// Reflects on a write: compares the expected with the actual outcome and derives a lesson.
pub fn reflect(
    topic: Topic,
    params: &Value,
    expected: &SafeText,
    spent_cents: u64,
    phase: Phase,
    response: &ToolResponse,
    at: u64,
) -> Episode {
    let outcome = EpisodeOutcome::of(response);
    let code = response.error.as_ref().map(|error| error.code());
    let data = response.data.as_ref();
    let slipped_bps = data.and_then(|data| data.get("slippage_actual_bps")).and_then(Value::as_i64);
    let allowed_bps = params.get("slippage_bps").and_then(Value::as_i64);
    let actual = match (&response.error, &response.explanation) {
        (Some(error), _) => format!("{}: {}", error.code().as_str(), error.message()),
        (None, Some(said)) => said.clone(),
        (None, None) => outcome.as_str().to_owned(),
    };
    let (difference, lesson) = match (outcome, slipped_bps, code) {
        (EpisodeOutcome::Done, Some(slipped), _) if slipped > 0 => (
            format!("{slipped} bps less than quoted"),
            if allowed_bps.is_some_and(|allowed| slipped.saturating_mul(4) > allowed.saturating_mul(3)) {
                "close to the allowed slippage: a smaller amount would move the price less".to_owned()
            } else {
                "well within the allowed slippage".to_owned()
            },
        ),
        (EpisodeOutcome::Done, Some(slipped), _) => {
            (format!("{} bps more than quoted", slipped.unsigned_abs()), "the quote was kept or better".to_owned())
        }
        (EpisodeOutcome::Done, None, _) => ("not measured".to_owned(), "it went as planned".to_owned()),
        (EpisodeOutcome::Open, ..) => {
            ("not known yet".to_owned(), "wait for the outcome before repeating it".to_owned())
        }
        (EpisodeOutcome::Lapsed, ..) => {
            ("nothing happened".to_owned(), "nothing was spent; ask earlier or try another way".to_owned())
        }
        (EpisodeOutcome::Blocked, _, code) => {
            let why = code.map_or("a rule", ErrorCode::as_str);
            ("nothing was signed".to_owned(), format!("{why} blocks this; do not repeat it unchanged"))
        }
        (EpisodeOutcome::Refused, ..) => {
            ("nothing was signed".to_owned(), "the operator refused it; consider the reason given".to_owned())
        }
        (EpisodeOutcome::Failed, ..) => ("it failed".to_owned(), "find the reason before trying again".to_owned()),
    };
    let clean = |text: &str| SafeText::clean(text, 300);
    Episode {
        at,
        call_id: response.call_id.to_string(),
        topic,
        cents: spent_cents,
        phase,
        outcome,
        code: code.map(|code| code.as_str().to_owned()),
        allowed_bps,
        slipped_bps,
        expected: expected.clone(),
        actual: clean(&actual),
        difference: clean(&difference),
        lesson: clean(&lesson),
    }
}

impl Episode {
    /// Returns the episode as one line, for the search index and the screen.
    pub fn describe(&self) -> String {
        format!(
            "{} {} in {}. Expected: {}. Actual: {}. Difference: {}. Lesson: {}",
            self.topic,
            self.outcome.as_str(),
            self.phase,
            self.expected,
            self.actual,
            self.difference,
            self.lesson
        )
    }

    pub(super) fn insert(&self, transaction: &Transaction<'_>, golem_id: &str) -> Result<i64, StoreError> {
        transaction
            .prepare_cached(
                "INSERT INTO golem_episode (golem_id, at, call_id, kind, chain, token_in, token_out, cents, phase,
                     outcome, code, allowed_bps, slipped_bps, expected, actual, difference, lesson)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)",
            )?
            .execute(params![
                golem_id,
                signed(self.at),
                self.call_id,
                self.topic.kind,
                self.topic.chain,
                self.topic.token_in,
                self.topic.token_out,
                signed(self.cents),
                self.phase.as_str(),
                self.outcome.as_str(),
                self.code,
                self.allowed_bps,
                self.slipped_bps,
                self.expected.as_str(),
                self.actual.as_str(),
                self.difference.as_str(),
                self.lesson.as_str(),
            ])?;
        let id = transaction.last_insert_rowid();
        index(transaction, golem_id, EntryKind::Episode, id, &self.describe())?;
        Ok(id)
    }

    pub(super) fn alike(
        connection: &Connection,
        golem_id: &str,
        topic: &Topic,
        most: usize,
    ) -> Result<Vec<Self>, StoreError> {
        let mut asked = connection.prepare_cached(
            "SELECT at, call_id, cents, phase, outcome, code, allowed_bps, slipped_bps, expected, actual, difference, lesson
             FROM golem_episode
             WHERE golem_id = ?1 AND kind = ?2 AND chain = ?3 AND token_in = ?4 AND token_out = ?5
             ORDER BY id DESC LIMIT ?6",
        )?;
        let of = params![golem_id, topic.kind, topic.chain, topic.token_in, topic.token_out, signed(most as u64)];
        let rows = asked.query_map(of, |row| Self::read(row, topic))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Reads the episode with this id. The caller provides its topic.
    pub(super) fn of_id(connection: &Connection, id: i64, topic: &Topic) -> Result<Option<Self>, StoreError> {
        let mut asked = connection.prepare_cached(
            "SELECT at, call_id, cents, phase, outcome, code, allowed_bps, slipped_bps, expected, actual, difference, lesson
             FROM golem_episode WHERE id = ?1",
        )?;
        Ok(asked.query_row([id], |row| Self::read(row, topic)).optional()?)
    }

    fn read(row: &Row<'_>, topic: &Topic) -> rusqlite::Result<Self> {
        let text = |at: usize| row.get::<_, String>(at).map(|text| SafeText::clean(&text, 300));
        let outcome: String = row.get(4)?;
        Ok(Self {
            at: unsigned(row.get(0)?),
            call_id: row.get(1)?,
            topic: topic.clone(),
            cents: unsigned(row.get(2)?),
            phase: row.get::<_, String>(3)?.parse().unwrap_or(Phase::Terminal),
            outcome: EpisodeOutcome::ALL
                .into_iter()
                .find(|one| one.as_str() == outcome)
                .unwrap_or(EpisodeOutcome::Failed),
            code: row.get(5)?,
            allowed_bps: row.get(6)?,
            slipped_bps: row.get(7)?,
            expected: text(8)?,
            actual: text(9)?,
            difference: text(10)?,
            lesson: text(11)?,
        })
    }
}
