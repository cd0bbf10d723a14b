//! One queue of approval requests for all processes on one ledger. Each process stores what its own approval queue asks,
//! shows what the others ask beside it, and may answer either. The first answer counts; the process that asked hands it to
//! its own approval queue, which alone decides whether it counts.
//!
//! Anyone who can write the database can write these rows, so both kinds carry a tag that only a holder of the account's
//! [`QueueKey`] can make. A question's tag covers its whole text, the asking session and a nonce. An answer's tag covers
//! the tag of the question that it answers, what was typed and read with it, who answered and when. An answer counts only
//! for a question that this process stored itself and has not ended, and only with an audit entry that was written in the
//! same transaction. Rows that fail are ignored, and reported once each.
//!
//! Only questions about actions are shared. Every process that follows a policy file asks about a looser policy itself,
//! and what the operator asked for is answered where it was asked.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use alloy::primitives::{Address, B256, keccak256};
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params};
use serde::{Deserialize, Serialize};

use bardo_base::fabric::AskReason;
use bardo_base::id::{GolemId, InstanceId, PermitId};
use bardo_base::text::SafeText;
use bardo_safety::approval::{Confirmation, Elsewhere};
use bardo_safety::audit::{self, AuditError, Entry, Kind};
use bardo_safety::operator_proof::{Authorisation, OperatorProof, ProofError};
use bardo_safety::queue_key::QueueKey;
use bardo_session::questions::{OperatorAnswer, Question, QuestionKey};
use bardo_store::{Migrations, Store, StoreError};

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
        // Who asks, the tags of both kinds of rows, and the audit entry of an answer.
        "
ALTER TABLE shared_question ADD COLUMN account TEXT;
ALTER TABLE shared_question ADD COLUMN tag BLOB;
ALTER TABLE shared_answer ADD COLUMN tag BLOB;
ALTER TABLE shared_answer ADD COLUMN entry INTEGER;
",
        // Sessions in which an operator answers questions of other processes.
        "
CREATE TABLE shared_console (
    session TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;
",
    ],
};

/// Separate the tags of questions and of answers from each other, and versions of their forms.
const QUESTION: &str = "bardo shared question 1";
const ANSWER: &str = "bardo shared answer 1";

/// Most rejected rows that are remembered as reported.
const MAX_REPORTED: usize = 4_096;

/// Why a question of another process was not answered.
#[derive(Debug, thiserror::Error)]
pub enum ShareError {
    /// It is over, or was asked again under another permit.
    #[error("this question is over, or has changed: look at it again")]
    Over,
    /// It was not proved that the operator answered.
    #[error(transparent)]
    Proof(#[from] ProofError),
    /// Another process was quicker.
    #[error("somebody else has answered this question already")]
    Answered,
    /// No key of the account is open here.
    #[error(
        "the account's key is not open in this process, so its answers cannot be verified: answer in the process that \
         asks, or open the console with the key's password"
    )]
    Locked,
    /// The stored question is not as a holder of the account's key stored it.
    #[error("this question cannot be verified: its row in the ledger was not written by a holder of the account's key")]
    Unverified,
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

/// An answer that was given in another process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// The permit that waits for it.
    pub permit_id: PermitId,
    /// The answer.
    pub answer: OperatorAnswer,
    /// What was typed and marked as read with it.
    pub confirmation: Confirmation,
    /// Process in which it was given.
    pub by: SafeText,
}

/// Why a row of the shared queue is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Forgery {
    /// A question whose tag does not verify.
    Question,
    /// A question of this process that is not as this process stored it.
    OwnQuestion,
    /// An answer whose tag does not verify.
    Answer,
    /// An authentic answer to another question, or to an earlier form of this one.
    OtherAnswer,
    /// An answer without its entry in the audit log.
    Unrecorded,
}

impl fmt::Display for Forgery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Question => "a question in the shared queue failed authentication and is ignored",
            Self::OwnQuestion => "a question of this process was changed in the shared queue; the change is ignored",
            Self::Answer => "an answer in the shared queue failed authentication and is ignored",
            Self::OtherAnswer => "an answer in the shared queue belongs to another question and is ignored",
            Self::Unrecorded => "an answer in the shared queue has no entry in the audit log and is ignored",
        })
    }
}

/// A row of the shared queue that is ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// Permit that the row names, as it stands there.
    pub permit_id: SafeText,
    /// Why it is ignored.
    pub why: Forgery,
    /// Digest of the row, by which it is reported once.
    digest: B256,
    /// The permit's text and the answer's, for removing an answer that blocks genuine ones.
    row: (String, Option<String>),
}

/// A question as it is stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct StoredQuestion {
    /// Drawn each time it is stored again, so that no earlier answer serves for it.
    nonce: String,
    question: Question,
}

/// An answer as it is stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct StoredAnswer {
    /// Tag of the question that it answers.
    question: B256,
    answer: OperatorAnswer,
    confirmation: Confirmation,
    /// Session in which it was given.
    session: String,
    by: SafeText,
    /// When it was given, in milliseconds since the Unix epoch.
    at: u64,
}

/// A question of this process, as it was stored.
#[derive(Debug, Clone)]
struct Laid {
    stored: StoredQuestion,
    text: String,
    tag: B256,
}

#[derive(Debug, Default)]
struct Inner {
    key: OnceLock<QueueKey>,
    laid: Mutex<BTreeMap<PermitId, Laid>>,
    reported: Mutex<BTreeSet<B256>>,
}

/// The questions and answers of all processes on one ledger, as one of them sees them. A clone is the same.
#[derive(Debug, Clone)]
pub struct Shared {
    store: Store,
    inner: Arc<Inner>,
}

/// Names of the sessions in which an operator answers, those that have ended included.
fn consoles(connection: &Connection) -> Result<Vec<String>, StoreError> {
    let mut statement = connection.prepare_cached("SELECT session FROM shared_console")?;
    Ok(statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?)
}

/// One row of `shared_question`.
struct QuestionRow {
    permit_id: String,
    session: String,
    text: String,
    account: Option<String>,
    tag: Option<Vec<u8>>,
}

impl QuestionRow {
    const COLUMNS: &str = "permit_id, session, question, account, tag";

    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let (permit_id, session, text) = (row.get(0)?, row.get(1)?, row.get(2)?);
        // A column of another type was not written by this program.
        let (account, tag) = (row.get(3).unwrap_or_default(), row.get(4).unwrap_or_default());
        Ok(Self { permit_id, session, text, account, tag })
    }

    /// Whether it is about this account, as far as the row says; one that names no account may be about any.
    fn concerns(&self, account: Address) -> bool {
        self.account.as_ref().is_none_or(|own| own.parse::<Address>().map_or(true, |own| own == account))
    }

    /// The question, where a holder of `key` stored exactly this row.
    fn verified(&self, key: &QueueKey) -> Option<StoredQuestion> {
        let own = self.account.as_ref()?.parse::<Address>().ok()? == key.account();
        let tag = self.tag.as_deref().filter(|_| own)?;
        let parts: [&[u8]; 3] = [self.permit_id.as_bytes(), self.session.as_bytes(), self.text.as_bytes()];
        if !key.verifies(QUESTION, &parts, tag) {
            return None;
        }
        // One of another version of this program is not shown either: what it means is not known here.
        let stored: StoredQuestion = serde_json::from_str(&self.text).ok()?;
        let named = matches!(stored.question.key, QuestionKey::Action(id) if id.to_string() == self.permit_id);
        (named && super::is_bound(&stored.question)).then_some(stored)
    }

    fn digest(&self) -> B256 {
        keccak256(format!("{}\n{}\n{}\n{:?}", self.permit_id, self.session, self.text, self.tag))
    }
}

/// One row of `shared_answer`.
struct AnswerRow {
    permit_id: String,
    text: String,
    tag: Option<Vec<u8>>,
    entry: Option<i64>,
}

impl AnswerRow {
    const COLUMNS: &str = "permit_id, answer, shared_answer.tag, entry";

    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let (permit_id, text) = (row.get(0)?, row.get(1)?);
        Ok(Self { permit_id, text, tag: row.get(2).unwrap_or_default(), entry: row.get(3).unwrap_or_default() })
    }

    /// The answer, where a holder of `key` gave it to this permit.
    fn verified(&self, key: &QueueKey) -> Option<(StoredAnswer, B256)> {
        let tag = self.tag.as_deref()?;
        if !key.verifies(ANSWER, &[self.permit_id.as_bytes(), self.text.as_bytes()], tag) {
            return None;
        }
        Some((serde_json::from_str(&self.text).ok()?, B256::try_from(tag).ok()?))
    }

    fn digest(&self) -> B256 {
        keccak256(format!("{}\n{}\n{:?}\n{:?}", self.permit_id, self.text, self.tag, self.entry))
    }

    fn rejected(self, why: Forgery) -> Rejected {
        let digest = self.digest();
        Rejected {
            permit_id: SafeText::clean(&self.permit_id, 60),
            why,
            digest,
            row: (self.permit_id, Some(self.text)),
        }
    }
}

impl Shared {
    /// Those of the ledger in `store`, opened with [`MIGRATIONS`]. Nothing is shared before [`Self::unlock`].
    pub fn new(store: Store) -> Self {
        Self { store, inner: Arc::default() }
    }

    /// Takes the account's key. From then on questions are stored for other processes, and theirs are shown; a second key
    /// changes nothing.
    pub fn unlock(&self, key: QueueKey) {
        let _first_stays = self.inner.key.set(key);
    }

    /// Key of the account, where one was taken.
    pub fn key(&self) -> Option<&QueueKey> {
        self.inner.key.get()
    }

    fn laid(&self) -> MutexGuard<'_, BTreeMap<PermitId, Laid>> {
        self.inner.laid.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says to all processes on this ledger that an operator answers questions here, for as long as this process lives.
    ///
    /// # Errors
    /// [`ShareError`]: nobody knows of it.
    pub async fn attend(&self) -> Result<(), ShareError> {
        let store = self.store.clone();
        self.store
            .write(move |transaction| {
                for ended in consoles(transaction)?.iter().filter(|one| !store.session_lives(one)) {
                    transaction.execute("DELETE FROM shared_console WHERE session = ?1", [ended])?;
                }
                transaction.execute(
                    "INSERT INTO shared_console (session) VALUES (?1) ON CONFLICT DO NOTHING",
                    [store.session()],
                )?;
                Ok(())
            })
            .await
    }

    /// Whether an operator may answer a question of this process in another one on this ledger. Where that cannot be told,
    /// one may; while a program leads in some session, an approval is heard from no other process.
    pub fn is_attended_elsewhere(&self) -> bool {
        let attended =
            self.store.read(consoles).map_or(true, |sessions| sessions.iter().any(|one| self.store.session_lives(one)));
        attended && !self.is_led()
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

    /// Stores what is asked here now, in the place of what was asked here before. Without a key nothing is stored.
    ///
    /// # Errors
    /// [`ShareError`]: the others do not see it, and it can be answered here alone.
    pub async fn lay(&self, questions: &[Question]) -> Result<(), ShareError> {
        let Some(key) = self.key() else { return Ok(()) };
        let mut asked = BTreeMap::new();
        for question in questions {
            if let QuestionKey::Action(permit_id) = question.key {
                asked.insert(permit_id, self.stored_as(key, permit_id, question)?);
            }
        }
        let rows: Vec<(String, Laid)> = asked.iter().map(|(id, laid)| (id.to_string(), laid.clone())).collect();
        let (store, account) = (self.store.clone(), key.account().to_string());
        let kept: Vec<String> = self
            .store
            .write(move |transaction| {
                let stored: Vec<(String, String)> = transaction
                    .prepare_cached("SELECT permit_id, session FROM shared_question")?
                    .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
                    .collect::<Result<_, _>>()?;
                for (permit_id, session) in stored {
                    let asked = rows.iter().any(|(still, _)| *still == permit_id);
                    if !store.session_lives(&session) {
                        // Nobody waits for what an ended process asked.
                        transaction.execute("DELETE FROM shared_question WHERE permit_id = ?1", [permit_id])?;
                    } else if session == store.session() && !asked {
                        // An answer that was not read yet stays until it is: the same may be asked again under another
                        // permit by now, and a refusal counts for that as well.
                        transaction.execute(
                            "DELETE FROM shared_question WHERE permit_id = ?1
                             AND permit_id NOT IN (SELECT permit_id FROM shared_answer)",
                            [permit_id],
                        )?;
                    }
                }
                for (permit_id, laid) in &rows {
                    transaction.execute(
                        "INSERT INTO shared_question (permit_id, session, question, account, tag)
                         VALUES (?1, ?2, ?3, ?4, ?5)
                         ON CONFLICT (permit_id) DO UPDATE SET session = excluded.session,
                             question = excluded.question, account = excluded.account, tag = excluded.tag",
                        params![permit_id, store.session(), laid.text, account, laid.tag.as_slice()],
                    )?;
                }
                let mut left =
                    transaction.prepare_cached("SELECT permit_id FROM shared_question WHERE session = ?1")?;
                let left = left.query_map([store.session()], |row| row.get(0))?.collect::<Result<_, _>>()?;
                Ok::<_, ShareError>(left)
            })
            .await?;
        let mut laid = self.laid();
        laid.retain(|id, _| kept.contains(&id.to_string()));
        laid.extend(asked);
        Ok(())
    }

    /// The row of a question: the same as before where it has not changed, else one with a new nonce.
    fn stored_as(&self, key: &QueueKey, permit_id: PermitId, question: &Question) -> Result<Laid, ShareError> {
        if let Some(laid) = self.laid().get(&permit_id).filter(|laid| laid.stored.question == *question) {
            return Ok(laid.clone());
        }
        let stored = StoredQuestion { nonce: InstanceId::random().to_string(), question: question.clone() };
        let text = serde_json::to_string(&stored).map_err(|error| ShareError::Form(error.to_string()))?;
        let name = permit_id.to_string();
        let tag = key.tag(QUESTION, &[name.as_bytes(), self.store.session().as_bytes(), text.as_bytes()]);
        Ok(Laid { stored, text, tag })
    }

    /// What the other processes ask and nobody has answered yet: what verifies with this process's key. A process without
    /// a key shows nothing of others, because it could not tell a genuine question from an inserted row.
    ///
    /// # Errors
    /// [`ShareError`]: the ledger cannot be read.
    pub fn others(&self) -> Result<Vec<Question>, ShareError> {
        let Some(key) = self.key() else { return Ok(Vec::new()) };
        let found = self.store.read(|connection| others_in(connection, self.store.session()))?;
        let living = found.into_iter().filter(|row| self.store.session_lives(&row.session));
        let verified = living.filter_map(|row| {
            let mut question = row.verified(key)?.question;
            question.reasons.push(AskReason::Elsewhere);
            Some(question)
        });
        Ok(verified.collect())
    }

    /// Answers a question of another process, if nobody has. That it was answered, and where, goes into the audit log in
    /// the same transaction. What lets something through takes a proof that the operator answered; a refusal takes none.
    ///
    /// # Errors
    /// [`ShareError`]: the answer does not count.
    pub async fn answer(
        &self,
        permit_id: PermitId,
        answer: &OperatorAnswer,
        confirmation: &Confirmation,
        by: &str,
        now: u64,
        proof: Option<OperatorProof>,
    ) -> Result<(), ShareError> {
        let key = self.key().ok_or(ShareError::Locked)?.clone();
        if answer.kind().lets_through() {
            let proof = proof.ok_or(ProofError::NoPassword)?;
            // By the account whose key made the question, whatever account the proof names.
            proof.redeem(&Authorisation::Approve { permit_id, account: key.account() }, now)?;
        }
        let (kind, by, store) = (answer.kind(), SafeText::clean(by, 80), self.store.clone());
        let (answer, confirmation) = (answer.clone(), confirmation.clone());
        self.store
            .write(move |transaction| {
                let id = permit_id.to_string();
                let asked = question_in(transaction, &id)?.filter(|row| store.session_lives(&row.session));
                let asked = asked.ok_or(ShareError::Over)?;
                let question = asked.verified(&key).ok_or(ShareError::Unverified)?.question;
                if question.ends_at.is_some_and(|ends_at| now >= ends_at) {
                    return Err(ShareError::Over);
                }
                if let Some(given) = answer_in(transaction, &id)? {
                    // One that does not verify is no answer, and must not keep a genuine one out.
                    if given.verified(&key).is_some() {
                        return Err(ShareError::Answered);
                    }
                    transaction.execute("DELETE FROM shared_answer WHERE permit_id = ?1", [&id])?;
                }
                let tag = asked.tag.as_deref().and_then(|tag| B256::try_from(tag).ok());
                let stored = StoredAnswer {
                    question: tag.ok_or(ShareError::Unverified)?,
                    answer,
                    confirmation,
                    session: store.session().to_owned(),
                    by: by.clone(),
                    at: now,
                };
                let text = serde_json::to_string(&stored).map_err(|error| ShareError::Form(error.to_string()))?;
                let tag = key.tag(ANSWER, &[id.as_bytes(), text.as_bytes()]);
                let body = serde_json::json!({ "permit_id": permit_id, "answer": kind, "by": by, "tag": tag });
                let golem_id = GolemId::operator();
                let entry = Entry { kind: Kind::ApprovalAnswered, call_id: None, golem_id: &golem_id, body: &body };
                let head = audit::append(transaction, now, &entry)?;
                let entry = i64::try_from(head.seq).map_err(|error| ShareError::Form(error.to_string()))?;
                transaction.execute(
                    "INSERT INTO shared_answer (permit_id, answer, said_by, tag, entry) VALUES (?1, ?2, ?3, ?4, ?5)",
                    params![id, text, by.as_str(), tag.as_slice(), entry],
                )?;
                Ok(())
            })
            .await
    }

    /// The answers that were given elsewhere to what is asked here, and verify. They stay until [`Self::forget`], so that
    /// one that has not reached the approval queue yet is still in the ledger.
    ///
    /// # Errors
    /// [`ShareError`]: the ledger cannot be read.
    pub fn heard(&self) -> Result<Vec<Heard>, ShareError> {
        let mut heard = Vec::new();
        self.store.read(|connection| -> Result<(), ShareError> {
            for row in answers_to(connection, self.store.session())? {
                let Ok(permit_id) = row.permit_id.parse() else { continue };
                if let Ok(StoredAnswer { answer, confirmation, by, .. }) = self.check_answer(connection, &row)? {
                    heard.push(Heard { permit_id, answer, confirmation, by });
                }
            }
            Ok(())
        })?;
        Ok(heard)
    }

    /// An answer that counts here, or why it does not.
    fn check_answer(
        &self,
        connection: &Connection,
        row: &AnswerRow,
    ) -> Result<Result<StoredAnswer, Forgery>, StoreError> {
        let Some((stored, tag)) = self.key().and_then(|key| row.verified(key)) else {
            return Ok(Err(Forgery::Answer));
        };
        // Only what this process stored, as it stored it last: an answer to an earlier form of it says nothing of this one.
        let laid = row.permit_id.parse().ok().and_then(|id: PermitId| self.laid().get(&id).map(|laid| laid.tag));
        if laid != Some(stored.question) {
            return Ok(Err(Forgery::OtherAnswer));
        }
        Ok(if is_recorded(connection, row, tag)? { Ok(stored) } else { Err(Forgery::Unrecorded) })
    }

    /// Ends questions whose answers were handed to the approval queue. What is still asked is to be stored again.
    ///
    /// # Errors
    /// [`ShareError`]: they are heard once more.
    pub async fn forget(&self, heard: Vec<PermitId>) -> Result<(), ShareError> {
        let ended = heard.clone();
        self.store
            .write(move |transaction| {
                for permit_id in ended {
                    let id = permit_id.to_string();
                    transaction.execute("DELETE FROM shared_question WHERE permit_id = ?1", [id])?;
                }
                Ok::<_, ShareError>(())
            })
            .await?;
        // What is stored again gets a nonce of its own, so that no earlier answer serves for it.
        self.laid().retain(|id, _| !heard.contains(id));
        Ok(())
    }

    /// Reports the rows that are ignored because they do not verify, each once: in the audit log, and to the caller for
    /// the operator. An answer that does not verify is removed, because it would keep genuine ones out; so is a question
    /// of this process that was changed, which is to be stored again.
    ///
    /// # Errors
    /// [`ShareError`]: they are reported with the next call.
    pub async fn report(&self, now: u64) -> Result<Vec<Rejected>, ShareError> {
        let Some(key) = self.key() else { return Ok(Vec::new()) };
        let mut found = self.store.read(|connection| self.rejected(connection, key))?;
        {
            let reported = self.inner.reported.lock().unwrap_or_else(PoisonError::into_inner);
            found.retain(|one| !reported.contains(&one.digest));
        }
        if found.is_empty() {
            return Ok(found);
        }
        let noted = found.clone();
        self.store
            .write(move |transaction| {
                for Rejected { permit_id, why, row, .. } in &noted {
                    let body = serde_json::json!({ "permit_id": permit_id, "why": why });
                    let golem_id = GolemId::operator();
                    let entry = Entry { kind: Kind::ApprovalForged, call_id: None, golem_id: &golem_id, body: &body };
                    audit::append(transaction, now, &entry)?;
                    match (why, row) {
                        (Forgery::Answer | Forgery::OtherAnswer | Forgery::Unrecorded, (id, Some(text))) => {
                            let sql = "DELETE FROM shared_answer WHERE permit_id = ?1 AND answer = ?2";
                            transaction.execute(sql, [id, text])?;
                        }
                        (Forgery::OwnQuestion, (id, Some(text))) => {
                            let sql = "DELETE FROM shared_question WHERE permit_id = ?1 AND question = ?2";
                            transaction.execute(sql, [id, text])?;
                        }
                        (Forgery::Question, _) | (_, (_, None)) => {}
                    }
                }
                Ok::<_, ShareError>(())
            })
            .await?;
        let mut reported = self.inner.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.len() > MAX_REPORTED {
            reported.clear();
        }
        // What was removed is reported again where it comes again.
        reported.extend(found.iter().filter(|one| one.why == Forgery::Question).map(|one| one.digest));
        Ok(found)
    }

    /// Every row that concerns this process and does not verify.
    fn rejected(&self, connection: &Connection, key: &QueueKey) -> Result<Vec<Rejected>, ShareError> {
        let session = self.store.session();
        let mut rejected = Vec::new();
        for row in answers_to(connection, session)? {
            if let Err(why) = self.check_answer(connection, &row)? {
                rejected.push(row.rejected(why));
            }
        }
        let of = |row: QuestionRow, why| Rejected {
            permit_id: SafeText::clean(&row.permit_id, 60),
            why,
            digest: row.digest(),
            row: (row.permit_id, Some(row.text)),
        };
        for row in others_in(connection, session)? {
            if self.store.session_lives(&row.session) && row.concerns(key.account()) && row.verified(key).is_none() {
                rejected.push(of(row, Forgery::Question));
            }
        }
        for row in own_in(connection, session)? {
            let laid = row.permit_id.parse().ok().and_then(|id: PermitId| self.laid().get(&id).cloned());
            let same =
                laid.is_some_and(|laid| row.text == laid.text && row.tag.as_deref() == Some(laid.tag.as_slice()));
            if !same {
                rejected.push(of(row, Forgery::OwnQuestion));
            }
        }
        Ok(rejected)
    }
}

impl Elsewhere for Shared {
    fn close(&self, transaction: &Transaction<'_>, permit_id: PermitId) -> Result<Option<SafeText>, StoreError> {
        let id = permit_id.to_string();
        let given = answer_in(transaction, &id)?;
        let given = given.map(|row| self.check_answer(transaction, &row)).transpose()?;
        transaction.execute("DELETE FROM shared_question WHERE permit_id = ?1", [&id])?;
        // What does not verify is no answer, a refusal neither: anyone could have changed it.
        let Some(Ok(StoredAnswer { answer, .. })) = given else { return Ok(None) };
        Ok(match answer {
            OperatorAnswer::Once | OperatorAnswer::Similar { .. } => None,
            OperatorAnswer::Smaller { amount } => Some(amount_wanted(&amount)),
            OperatorAnswer::Refuse { reason } | OperatorAnswer::RefuseAndStop { reason } => Some(reason),
        })
    }
}

fn amount_wanted(amount: &str) -> SafeText {
    SafeText::clean(&format!("a smaller amount is wanted: {amount}"), 120)
}

/// Whether the answer has an audit entry of its own: the one it names, unchanged, of its kind, and carrying its tag.
fn is_recorded(connection: &Connection, row: &AnswerRow, tag: B256) -> Result<bool, StoreError> {
    let Some(before) = row.entry.and_then(|seq| u64::try_from(seq).ok()).and_then(|seq| seq.checked_sub(1)) else {
        return Ok(false);
    };
    let Ok(entries) = audit::entries(connection, before, None, 1) else { return Ok(false) };
    let Some(entry) = entries.into_iter().find(|entry| entry.seq == before + 1) else { return Ok(false) };
    let body: Option<serde_json::Value> = serde_json::from_str(&entry.body).ok();
    let carried = body.as_ref().and_then(|body| body.get("tag")?.as_str()?.parse::<B256>().ok());
    Ok(entry.kind == Kind::ApprovalAnswered.as_str() && entry.is_intact() && carried == Some(tag))
}

fn question_in(connection: &Connection, permit_id: &str) -> Result<Option<QuestionRow>, StoreError> {
    let sql = format!("SELECT {} FROM shared_question WHERE permit_id = ?1", QuestionRow::COLUMNS);
    Ok(connection.prepare_cached(&sql)?.query_row([permit_id], QuestionRow::read).optional()?)
}

fn answer_in(connection: &Connection, permit_id: &str) -> Result<Option<AnswerRow>, StoreError> {
    let sql = format!("SELECT {} FROM shared_answer WHERE permit_id = ?1", AnswerRow::COLUMNS);
    Ok(connection.prepare_cached(&sql)?.query_row([permit_id], AnswerRow::read).optional()?)
}

/// What other sessions ask and nobody has answered.
fn others_in(connection: &Connection, session: &str) -> Result<Vec<QuestionRow>, ShareError> {
    let sql = format!(
        "SELECT {} FROM shared_question WHERE session <> ?1 AND permit_id NOT IN (SELECT permit_id FROM shared_answer)",
        QuestionRow::COLUMNS
    );
    let mut statement = connection.prepare_cached(&sql)?;
    Ok(statement.query_map([session], QuestionRow::read)?.collect::<Result<_, _>>()?)
}

/// What `session` asks.
fn own_in(connection: &Connection, session: &str) -> Result<Vec<QuestionRow>, ShareError> {
    let sql = format!("SELECT {} FROM shared_question WHERE session = ?1", QuestionRow::COLUMNS);
    let mut statement = connection.prepare_cached(&sql)?;
    Ok(statement.query_map([session], QuestionRow::read)?.collect::<Result<_, _>>()?)
}

/// Every answer to what `session` asks.
fn answers_to(connection: &Connection, session: &str) -> Result<Vec<AnswerRow>, ShareError> {
    let sql = format!(
        "SELECT {} FROM shared_answer JOIN shared_question USING (permit_id) WHERE session = ?1 ORDER BY permit_id",
        AnswerRow::COLUMNS
    );
    let mut statement = connection.prepare_cached(&sql)?;
    Ok(statement.query_map([session], AnswerRow::read)?.collect::<Result<_, _>>()?)
}
