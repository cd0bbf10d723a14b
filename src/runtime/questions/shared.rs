//! One queue of decisions for all programs on one ledger. Each lays down what its own desk asks, shows what the others
//! ask beside it, and may answer either. Whoever answers first is heard; the program that asked takes the answer to its
//! own desk, which alone decides whether it counts.
//!
//! Only questions about actions are shared. A looser policy is asked by every program that follows its file, and the
//! operator's own wishes are asked where they were made.

use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use super::{OperatorAnswer, Question, QuestionKey};
use crate::base::id::{GolemId, PermitId};
use crate::base::text::SafeText;
use crate::safety::approval::Elsewhere;
use crate::safety::audit::{self, AuditError, Entry, Kind};
use crate::safety::operator_proof::{OperatorProof, ProofError};
use crate::store::{Migrations, Store, StoreError};

/// The tables of shared questions and the answers they got.
pub const MIGRATIONS: Migrations = Migrations {
    room: "questions",
    steps: &[
        "
CREATE TABLE shared_question (
    permit_id TEXT PRIMARY KEY,
    session TEXT NOT NULL,
    question TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE shared_answer (
    permit_id TEXT PRIMARY KEY REFERENCES shared_question (permit_id) ON DELETE CASCADE,
    answer TEXT NOT NULL,
    said_by TEXT NOT NULL
) STRICT, WITHOUT ROWID;
",
        // Sessions in which a program of its own leads.
        "
CREATE TABLE shared_leader (
    session TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;
",
    ],
};

/// Said beside the reasons of a question that another program asks.
const ELSEWHERE: &str = "asked by another program on this ledger";

/// Why a question of another program was not answered.
#[derive(Debug, thiserror::Error)]
pub enum ShareError {
    /// It is over, or was asked anew under another permit.
    #[error("this question is over, or has changed: look at it again")]
    Over,
    /// It was not proved that the operator answered.
    #[error(transparent)]
    Proof(#[from] ProofError),
    /// Somebody was quicker.
    #[error("somebody else has answered this question already")]
    Answered,
    /// The ledger refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It could not be put on record, and so does not count.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// It could not be written down.
    #[error("the question or its answer cannot be written down: {0}")]
    Form(String),
}

impl From<rusqlite::Error> for ShareError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error.into())
    }
}

/// An answer that was given in another program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// The permit that waits for it.
    pub permit_id: PermitId,
    /// What was said.
    pub answer: OperatorAnswer,
    /// Which program it was said in.
    pub by: SafeText,
}

/// The questions and answers of all programs on one ledger, as one of them sees them. A clone is the same.
#[derive(Debug, Clone)]
pub struct Shared {
    store: Store,
}

impl Shared {
    /// Those of the ledger in `store`, opened with [`MIGRATIONS`].
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// Says to all programs on this ledger that a program of its own leads here, for as long as this one lives. That
    /// program runs as the operator's user and can write to the ledger: as long as it may be there, only a refusal is heard
    /// from other programs, by whichever program asks.
    ///
    /// # Errors
    /// [`ShareError`]: nobody knows of it.
    pub async fn lead(&self) -> Result<(), ShareError> {
        let session = self.store.session().to_owned();
        self.store
            .write(move |transaction| {
                transaction
                    .execute("INSERT INTO shared_leader (session) VALUES (?1) ON CONFLICT DO NOTHING", [session])?;
                Ok(())
            })
            .await
    }

    /// Whether a program of its own leads in any living session on this ledger. Where that cannot be told, one may.
    pub fn is_led(&self) -> bool {
        let led = self.store.read(|connection| -> Result<Vec<String>, StoreError> {
            let mut statement = connection.prepare_cached("SELECT session FROM shared_leader")?;
            Ok(statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?)
        });
        led.map_or(true, |sessions| sessions.iter().any(|session| self.store.session_lives(session)))
    }

    /// Lays down what is asked here now, in the place of what was asked here before.
    ///
    /// # Errors
    /// [`ShareError`]: the others do not see it, and it can be answered here alone.
    pub async fn lay(&self, questions: &[Question]) -> Result<(), ShareError> {
        let mut rows = Vec::new();
        for question in questions {
            if let QuestionKey::Action(permit_id) = question.key {
                let text = serde_json::to_string(question).map_err(|error| ShareError::Form(error.to_string()))?;
                rows.push((permit_id.to_string(), text));
            }
        }
        let store = self.store.clone();
        self.store
            .write(move |transaction| {
                let standing: Vec<(String, String)> = transaction
                    .prepare_cached("SELECT permit_id, session FROM shared_question")?
                    .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
                    .collect::<Result<_, _>>()?;
                for (permit_id, session) in standing {
                    let asked = rows.iter().any(|(still, _)| *still == permit_id);
                    if !store.session_lives(&session) {
                        // What an ended program asked, nobody waits for.
                        transaction.execute("DELETE FROM shared_question WHERE permit_id = ?1", [permit_id])?;
                    } else if session == store.session() && !asked {
                        // An answer that has not been heard yet stays until it is: what was asked may be asked anew
                        // under another permit by now, and a no is one to that as well.
                        transaction.execute(
                            "DELETE FROM shared_question WHERE permit_id = ?1
                             AND permit_id NOT IN (SELECT permit_id FROM shared_answer)",
                            [permit_id],
                        )?;
                    }
                }
                for (permit_id, text) in &rows {
                    transaction.execute(
                        "INSERT INTO shared_question (permit_id, session, question) VALUES (?1, ?2, ?3)
                         ON CONFLICT (permit_id) DO UPDATE SET question = excluded.question",
                        params![permit_id, store.session(), text],
                    )?;
                }
                Ok(())
            })
            .await
    }

    /// What the other programs ask and nobody has answered yet.
    ///
    /// # Errors
    /// [`ShareError`]: the ledger cannot be read.
    pub fn others(&self) -> Result<Vec<Question>, ShareError> {
        let found = self.store.read(|connection| -> Result<Vec<(String, String)>, ShareError> {
            let mut statement = connection.prepare_cached(
                "SELECT session, question FROM shared_question WHERE session <> ?1
                 AND permit_id NOT IN (SELECT permit_id FROM shared_answer)",
            )?;
            let rows = statement.query_map([self.store.session()], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok(rows.collect::<Result<_, _>>()?)
        })?;
        let living = found.into_iter().filter(|(session, _)| self.store.session_lives(session));
        let read = living.filter_map(|(_, text)| {
            let read: Result<Question, _> = serde_json::from_str(&text);
            // One of another version of this program hides none of the others.
            let read = read.map_err(|error| tracing::warn!(%error, "a question of another program cannot be read"));
            let mut question = read.ok()?;
            question.reasons.push(SafeText::clean(ELSEWHERE, 80));
            Some(question)
        });
        Ok(read.collect())
    }

    /// Answers a question of another program, if nobody has. That it was answered, and where, goes on the trail. What lets
    /// something through takes a proof that the operator answered; a refusal takes none.
    ///
    /// # Errors
    /// [`ShareError`]: the answer does not count.
    pub async fn answer(
        &self,
        permit_id: PermitId,
        answer: &OperatorAnswer,
        by: &str,
        now: u64,
        proof: Option<OperatorProof>,
    ) -> Result<(), ShareError> {
        if answer.kind().lets_through() {
            let proof = proof.ok_or(ProofError::NoPassword)?;
            let wanted = proof.approves(permit_id).ok_or(ProofError::OtherAction)?;
            proof.redeem(&wanted, now)?;
        }
        let text = serde_json::to_string(answer).map_err(|error| ShareError::Form(error.to_string()))?;
        let (kind, by, store) = (answer.kind(), by.to_owned(), self.store.clone());
        self.store
            .write(move |transaction| {
                let id = permit_id.to_string();
                let asked = asked_in(transaction, &id)?.filter(|session| store.session_lives(session));
                if asked.is_none() {
                    return Err(ShareError::Over);
                }
                let first = transaction.execute(
                    "INSERT INTO shared_answer (permit_id, answer, said_by) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
                    params![id, text, by],
                )?;
                if first == 0 {
                    return Err(ShareError::Answered);
                }
                let body = serde_json::json!({ "permit_id": permit_id, "answer": kind, "by": by });
                let golem_id = GolemId::operator();
                let entry = Entry { kind: Kind::ApprovalAnswered, call_id: None, golem_id: &golem_id, body: &body };
                audit::append(transaction, now, &entry)?;
                Ok(())
            })
            .await
    }

    /// The answers that were given elsewhere to what is asked here. They stay until [`Self::forget`]: so one that has not
    /// come to the desk yet still stands in the ledger. One that cannot be read counts as a no, and hides no other.
    ///
    /// # Errors
    /// [`ShareError`]: the ledger cannot be read.
    pub fn heard(&self) -> Result<Vec<Heard>, ShareError> {
        let answers = self.store.read(|connection| answers_to(connection, self.store.session()))?;
        let read = answers.into_iter().filter_map(|(permit_id, answer, by)| {
            let answer = serde_json::from_str(&answer);
            let answer = answer.unwrap_or_else(|_| OperatorAnswer::Refuse { reason: unreadable() });
            Some(Heard { permit_id: permit_id.parse().ok()?, answer, by: SafeText::clean(&by, 80) })
        });
        Ok(read.collect())
    }

    /// Ends questions whose answers have been taken to the desk. What is still asked is to be laid down again.
    ///
    /// # Errors
    /// [`ShareError`]: they are heard once more.
    pub async fn forget(&self, heard: Vec<PermitId>) -> Result<(), ShareError> {
        self.store
            .write(move |transaction| {
                for permit_id in heard {
                    let id = permit_id.to_string();
                    transaction.execute("DELETE FROM shared_question WHERE permit_id = ?1", [id])?;
                }
                Ok(())
            })
            .await
    }
}

impl Elsewhere for Shared {
    fn close(&self, transaction: &Transaction<'_>, permit_id: PermitId) -> Result<Option<SafeText>, StoreError> {
        let id = permit_id.to_string();
        let answer: Option<String> = transaction
            .prepare_cached("SELECT answer FROM shared_answer WHERE permit_id = ?1")?
            .query_row([&id], |row| row.get(0))
            .optional()?;
        transaction.execute("DELETE FROM shared_question WHERE permit_id = ?1", [&id])?;
        let Some(answer) = answer else { return Ok(None) };
        Ok(match serde_json::from_str(&answer) {
            Ok(OperatorAnswer::Once | OperatorAnswer::Similar { .. }) => None,
            Ok(OperatorAnswer::Smaller { amount }) => Some(amount_wanted(&amount)),
            Ok(OperatorAnswer::Refuse { reason } | OperatorAnswer::RefuseAndStop { reason }) => Some(reason),
            Err(_) => Some(unreadable()),
        })
    }
}

fn unreadable() -> SafeText {
    SafeText::clean("what was answered in another program cannot be read", 80)
}

fn amount_wanted(amount: &str) -> SafeText {
    SafeText::clean(&format!("a smaller amount is wanted: {amount}"), 120)
}

fn asked_in(connection: &Connection, permit_id: &str) -> Result<Option<String>, StoreError> {
    let found = connection
        .prepare_cached("SELECT session FROM shared_question WHERE permit_id = ?1")?
        .query_row([permit_id], |row| row.get(0))
        .optional()?;
    Ok(found)
}

/// Permit, answer and who said it, for every answer to what `session` asks.
fn answers_to(connection: &Connection, session: &str) -> Result<Vec<(String, String, String)>, ShareError> {
    let mut statement = connection.prepare_cached(
        "SELECT permit_id, answer, said_by FROM shared_answer JOIN shared_question USING (permit_id)
         WHERE session = ?1 ORDER BY permit_id",
    )?;
    let rows = statement.query_map([session], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
