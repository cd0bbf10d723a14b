//! One queue of approval requests for all processes on one ledger. Each process stores the requests of its own approval
//! queue, shows those of the other processes beside them, and may answer either. The first answer counts. The process
//! that asked delivers it to its own approval queue, which alone decides whether it is valid.
//!
//! Anyone who can write the database can write these rows, so requests and answers carry a tag that only a holder of
//! the account's [`QueueKey`] can create. A request's tag covers its whole text, the asking session and a nonce. An
//! answer's tag covers the tag of its request, the confirmation, its author and its time. An answer counts only for an
//! open request that this process stored itself, and only with an audit entry that was written in the same transaction.
//! Rows that fail these checks are ignored and reported once each.
//!
//! Only requests about actions are shared. Every process that follows a policy file asks about a looser policy itself,
//! and requests that the operator initiated are answered where they were made.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, OnceLock};

use alloy::primitives::{Address, B256, keccak256};
use parking_lot::{Mutex, MutexGuard};
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params};
use serde::{Deserialize, Serialize};

use bardo_base::fabric::AskReason;
use bardo_base::id::{GolemId, InstanceId, PermitId};
use bardo_base::text::SafeText;
use bardo_safety::approval::{Confirmation, RemoteAnswers};
use bardo_safety::audit::{self, AuditError, AuditKind, LogEntry};
use bardo_safety::operator_proof::{Authorisation, OperatorProof, ProofError};
use bardo_safety::queue_key::QueueKey;
use bardo_safety::second_approval::SecondSignature;
use bardo_session::questions::{OperatorAnswer, Question, QuestionKey};
use bardo_store::{Migrations, Store, StoreError};

/// Tables of shared requests and their answers.
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
        // Sessions that are led by an external brain process.
        "
CREATE TABLE shared_leader (
    session TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;
",
        // The account of a request, the tags of requests and answers, and the audit entry of an answer.
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
        // Second approvals for requests of other processes. They need no tag: the signature is what decides.
        "
CREATE TABLE shared_second (
    permit_id TEXT NOT NULL REFERENCES shared_question (permit_id) ON DELETE CASCADE,
    signature TEXT NOT NULL,
    PRIMARY KEY (permit_id, signature)
) STRICT, WITHOUT ROWID;
",
    ],
};

/// Domain separators for the tags of requests and of answers, with the version of their format.
const QUESTION: &str = "bardo shared question 1";
const ANSWER: &str = "bardo shared answer 1";

/// Maximum number of rejected rows that are remembered as reported.
const MAX_REPORTED: usize = 4_096;

/// Errors of the shared queue.
#[derive(Debug, thiserror::Error)]
pub enum ShareError {
    /// The request has ended, or was replaced by one under another permit.
    #[error("this decision has ended or changed: open it again")]
    Over,
    /// The operator's authorisation is missing or invalid.
    #[error(transparent)]
    Proof(#[from] ProofError),
    /// Another process answered first.
    #[error("this decision was already answered elsewhere")]
    Answered,
    /// No key of the account is unlocked in this process.
    #[error(
        "the account's key is not open in this process, so its answers cannot be verified: answer in the process that \
         asks, or open the console with the key's password"
    )]
    Locked,
    /// The stored request was not written by a holder of the account's key.
    #[error("this decision cannot be verified: its row in the ledger was not written by a holder of the account's key")]
    Unverified,
    /// The ledger reported an error.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The audit entry could not be written, so the answer does not count.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// The request or answer could not be serialised.
    #[error("cannot store the decision or its answer: {0}")]
    Form(String),
}

impl From<rusqlite::Error> for ShareError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error.into())
    }
}

/// An answer that was given in another process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteAnswer {
    /// Permit that waits for the answer.
    pub permit_id: PermitId,
    /// The operator's answer.
    pub answer: OperatorAnswer,
    /// Text that was typed, and parts that were marked as read.
    pub confirmation: Confirmation,
    /// Process in which the answer was given.
    pub by: SafeText,
}

/// Reason that a row of the shared queue is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Forgery {
    /// A request whose tag does not verify.
    Question,
    /// A request of this process that differs from the one it stored.
    OwnQuestion,
    /// An answer whose tag does not verify.
    Answer,
    /// An authentic answer to another request, or to an earlier version of this one.
    OtherAnswer,
    /// An answer without its entry in the audit log.
    Unrecorded,
}

impl fmt::Display for Forgery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Question => "a decision in the shared queue failed authentication and is ignored",
            Self::OwnQuestion => "a decision of this process was changed in the shared queue; the change is ignored",
            Self::Answer => "an answer in the shared queue failed authentication and is ignored",
            Self::OtherAnswer => "an answer in the shared queue belongs to another decision and is ignored",
            Self::Unrecorded => "an answer in the shared queue has no entry in the audit log and is ignored",
        })
    }
}

/// An ignored row of the shared queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedRow {
    /// Permit that the row names, as text.
    pub permit_id: SafeText,
    /// Reason that the row is ignored.
    pub why: Forgery,
    /// Digest of the row, used to report it once.
    digest: B256,
    /// Permit and answer as stored, for removing an answer that blocks genuine ones.
    row: (String, Option<String>),
}

/// Stored form of a request.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct StoredQuestion {
    /// Random for every version of the request, so that an answer to an earlier version does not match.
    nonce: String,
    question: Question,
}

/// Stored form of an answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct StoredAnswer {
    /// Tag of the answered request.
    question: B256,
    answer: OperatorAnswer,
    confirmation: Confirmation,
    /// Session in which the answer was given.
    session: String,
    by: SafeText,
    /// Time of the answer, in milliseconds since the Unix epoch.
    at: u64,
}

/// A request of this process, as it was stored.
#[derive(Debug, Clone)]
struct StoredRequest {
    stored: StoredQuestion,
    text: String,
    tag: B256,
}

#[derive(Debug, Default)]
struct Inner {
    key: OnceLock<QueueKey>,
    published: Mutex<BTreeMap<PermitId, StoredRequest>>,
    reported: Mutex<BTreeSet<B256>>,
}

/// Requests and answers of all processes on one ledger, from the view of one process. Clones share their state.
#[derive(Debug, Clone)]
pub struct SharedQueue {
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

    /// True if the request is about this account, as far as the row says; a row without an account may be about any.
    fn concerns(&self, account: Address) -> bool {
        self.account.as_ref().is_none_or(|own| own.parse::<Address>().map_or(true, |own| own == account))
    }

    /// Returns the request if a holder of `key` stored exactly this row.
    fn verified(&self, key: &QueueKey) -> Option<StoredQuestion> {
        let own = self.account.as_ref()?.parse::<Address>().ok()? == key.account();
        let tag = self.tag.as_deref().filter(|_| own)?;
        let parts: [&[u8]; 3] = [self.permit_id.as_bytes(), self.session.as_bytes(), self.text.as_bytes()];
        if !key.verifies(QUESTION, &parts, tag) {
            return None;
        }
        // Requests of another program version are not shown either: their meaning is not known here.
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

    /// Returns the answer if a holder of `key` gave it to this permit.
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

    fn rejected(self, why: Forgery) -> RejectedRow {
        let digest = self.digest();
        RejectedRow {
            permit_id: SafeText::clean(&self.permit_id, 60),
            why,
            digest,
            row: (self.permit_id, Some(self.text)),
        }
    }
}

impl SharedQueue {
    /// Shared queue in `store`, opened with [`MIGRATIONS`]. Nothing is shared before [`Self::unlock`].
    pub fn new(store: Store) -> Self {
        Self { store, inner: Arc::default() }
    }

    /// Sets the account's key. From then on requests are stored for other processes, and theirs are shown. A second key
    /// is ignored.
    pub fn unlock(&self, key: QueueKey) {
        let _first_stays = self.inner.key.set(key);
    }

    /// Key of the account, if it was set.
    pub fn key(&self) -> Option<&QueueKey> {
        self.inner.key.get()
    }

    fn published(&self) -> MutexGuard<'_, BTreeMap<PermitId, StoredRequest>> {
        self.inner.published.lock()
    }

    /// Says to all processes on this ledger that an operator answers questions here, for as long as this process lives.
    ///
    /// # Errors
    /// [`ShareError`]: nobody knows of it.
    pub async fn attend(&self) -> Result<(), ShareError> {
        let store = self.store.clone();
        self.store
            .write(move |transaction| {
                for ended in consoles(transaction)?.iter().filter(|one| !store.is_session_alive(one)) {
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

    /// Returns true if an operator may answer a request of this process in another process on this ledger. False if
    /// the list of consoles cannot be read. Also false if [`Self::is_led`], since approvals
    /// from other processes do not count then.
    pub fn is_attended_remotely(&self) -> bool {
        let attended =
            self.store.read(consoles).is_ok_and(|sessions| sessions.iter().any(|one| self.store.is_session_alive(one)));
        attended && !self.is_led()
    }

    /// Records on the ledger that an external brain process leads this session, until this process ends. The brain runs
    /// as the operator's user and can write to the ledger. While it may be running, every process on the ledger accepts
    /// only rejections from other processes.
    ///
    /// # Errors
    /// A [`ShareError`] if it could not be recorded.
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

    /// True if an external brain process leads any live session on this ledger, or if that cannot be read.
    pub fn is_led(&self) -> bool {
        let led = self.store.read(|connection| -> Result<Vec<String>, StoreError> {
            let mut statement = connection.prepare_cached("SELECT session FROM shared_leader")?;
            Ok(statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?)
        });
        led.map_or(true, |sessions| sessions.iter().any(|session| self.store.is_session_alive(session)))
    }

    /// Stores the present requests of this process in place of its earlier ones. Without a key nothing is stored.
    ///
    /// # Errors
    /// A [`ShareError`] if they could not be stored; they can then be answered only in this process.
    pub async fn publish(&self, questions: &[Question]) -> Result<(), ShareError> {
        let Some(key) = self.key() else { return Ok(()) };
        let mut asked = BTreeMap::new();
        for question in questions {
            if let QuestionKey::Action(permit_id) = question.key {
                asked.insert(permit_id, self.stored_as(key, permit_id, question)?);
            }
        }
        let rows: Vec<(String, StoredRequest)> =
            asked.iter().map(|(id, published)| (id.to_string(), published.clone())).collect();
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
                    if !store.is_session_alive(&session) {
                        // The asking process has ended, so nobody waits for an answer.
                        transaction.execute("DELETE FROM shared_question WHERE permit_id = ?1", [permit_id])?;
                    } else if session == store.session() && !asked {
                        // An unread answer stays until it is read: the same action may have been requested again under
                        // another permit, and a rejection counts for that, too.
                        transaction.execute(
                            "DELETE FROM shared_question WHERE permit_id = ?1
                             AND permit_id NOT IN (SELECT permit_id FROM shared_answer)",
                            [permit_id],
                        )?;
                    }
                }
                for (permit_id, published) in &rows {
                    transaction.execute(
                        "INSERT INTO shared_question (permit_id, session, question, account, tag)
                         VALUES (?1, ?2, ?3, ?4, ?5)
                         ON CONFLICT (permit_id) DO UPDATE SET session = excluded.session,
                             question = excluded.question, account = excluded.account, tag = excluded.tag",
                        params![permit_id, store.session(), published.text, account, published.tag.as_slice()],
                    )?;
                }
                let mut left =
                    transaction.prepare_cached("SELECT permit_id FROM shared_question WHERE session = ?1")?;
                let left = left.query_map([store.session()], |row| row.get(0))?.collect::<Result<_, _>>()?;
                Ok::<_, ShareError>(left)
            })
            .await?;
        let mut published = self.published();
        published.retain(|id, _| kept.contains(&id.to_string()));
        published.extend(asked);
        Ok(())
    }

    /// Row of a request: the stored one if it has not changed, or else a new one with a new nonce.
    fn stored_as(&self, key: &QueueKey, permit_id: PermitId, question: &Question) -> Result<StoredRequest, ShareError> {
        if let Some(published) =
            self.published().get(&permit_id).filter(|published| published.stored.question == *question)
        {
            return Ok(published.clone());
        }
        let stored = StoredQuestion { nonce: InstanceId::random().to_string(), question: question.clone() };
        let text = serde_json::to_string(&stored).map_err(|error| ShareError::Form(error.to_string()))?;
        let name = permit_id.to_string();
        let tag = key.tag(QUESTION, &[name.as_bytes(), self.store.session().as_bytes(), text.as_bytes()]);
        Ok(StoredRequest { stored, text, tag })
    }

    /// Unanswered requests of other processes that verify with this process's key. Without a key nothing is returned,
    /// because genuine requests could not be distinguished from inserted rows.
    ///
    /// # Errors
    /// A [`ShareError`] if the ledger cannot be read.
    pub fn others(&self) -> Result<Vec<Question>, ShareError> {
        let Some(key) = self.key() else { return Ok(Vec::new()) };
        let found = self.store.read(|connection| others_in(connection, self.store.session()))?;
        let living = found.into_iter().filter(|row| self.store.is_session_alive(&row.session));
        let verified = living.filter_map(|row| {
            let mut question = row.verified(key)?.question;
            question.reasons.push(AskReason::Elsewhere);
            Some(question)
        });
        Ok(verified.collect())
    }

    /// Returns true if another live process asks under this permit.
    ///
    /// # Errors
    /// A [`ShareError`] if the ledger cannot be read.
    pub fn asks_elsewhere(&self, permit_id: PermitId) -> Result<bool, ShareError> {
        let asked = self.store.read(|connection| question_in(connection, &permit_id.to_string()))?;
        Ok(asked.is_some_and(|row| row.session != self.store.session() && self.store.is_session_alive(&row.session)))
    }

    /// Stores a second approval for the process that asks, which verifies it. Any process may.
    ///
    /// # Errors
    /// A [`ShareError`] if it could not be stored.
    pub async fn approve_second(&self, permit_id: PermitId, signature: SecondSignature) -> Result<(), ShareError> {
        let row = (permit_id.to_string(), signature.to_string());
        self.store
            .write(move |transaction| {
                transaction.execute(
                    "INSERT INTO shared_second (permit_id, signature) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
                    row,
                )?;
                Ok(())
            })
            .await
    }

    /// Removes and returns the second approvals that other processes stored for requests of this one. Other text is
    /// dropped.
    ///
    /// # Errors
    /// A [`ShareError`] if the ledger cannot be read.
    pub async fn take_second_approvals(&self) -> Result<Vec<(PermitId, SecondSignature)>, ShareError> {
        let own = |connection: &Connection, session: &str| -> Result<Vec<(String, String)>, StoreError> {
            let mut statement = connection.prepare_cached(
                "SELECT permit_id, signature FROM shared_second JOIN shared_question USING (permit_id)
                 WHERE session = ?1",
            )?;
            Ok(statement.query_map([session], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?)
        };
        if self.store.read(|connection| own(connection, self.store.session()))?.is_empty() {
            return Ok(Vec::new());
        }
        let session = self.store.session().to_owned();
        let rows = self.store.write(move |transaction| -> Result<Vec<(String, String)>, ShareError> {
            let rows = own(transaction, &session)?;
            for (permit_id, _) in &rows {
                transaction.execute("DELETE FROM shared_second WHERE permit_id = ?1", [permit_id])?;
            }
            Ok(rows)
        });
        let parsed =
            |(permit_id, signature): (String, String)| Some((permit_id.parse().ok()?, signature.parse().ok()?));
        Ok(rows.await?.into_iter().filter_map(parsed).collect())
    }

    /// Answers an unanswered request of another process, and records the answer in the audit log in the same
    /// transaction. An approval needs proof of the operator's authorisation; a rejection needs none.
    ///
    /// # Errors
    /// A [`ShareError`] if the answer does not count.
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
            // For the account whose key made the request, whatever account the proof names.
            proof.redeem(&Authorisation::Approve { permit_id, account: key.account() }, now)?;
        }
        let (kind, by, store) = (answer.kind(), SafeText::clean(by, 80), self.store.clone());
        let (answer, confirmation) = (answer.clone(), confirmation.clone());
        self.store
            .write(move |transaction| {
                let id = permit_id.to_string();
                let asked = question_in(transaction, &id)?.filter(|row| store.is_session_alive(&row.session));
                let asked = asked.ok_or(ShareError::Over)?;
                let question = asked.verified(&key).ok_or(ShareError::Unverified)?.question;
                if question.ends_at.is_some_and(|ends_at| now >= ends_at) {
                    return Err(ShareError::Over);
                }
                if let Some(given) = answer_in(transaction, &id)? {
                    // An answer that does not verify must not block a genuine one.
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
                let entry =
                    LogEntry { kind: AuditKind::ApprovalAnswered, call_id: None, golem_id: &golem_id, body: &body };
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

    /// Verified answers of other processes to requests of this process. They stay until [`Self::forget`], so that the
    /// ledger keeps an answer that has not reached the approval queue.
    ///
    /// # Errors
    /// A [`ShareError`] if the ledger cannot be read.
    pub fn remote_answers(&self) -> Result<Vec<RemoteAnswer>, ShareError> {
        let mut answers = Vec::new();
        self.store.read(|connection| -> Result<(), ShareError> {
            for row in answers_to(connection, self.store.session())? {
                let Ok(permit_id) = row.permit_id.parse() else { continue };
                if let Ok(StoredAnswer { answer, confirmation, by, .. }) = self.check_answer(connection, &row)? {
                    answers.push(RemoteAnswer { permit_id, answer, confirmation, by });
                }
            }
            Ok(())
        })?;
        Ok(answers)
    }

    /// Returns an answer that counts here, or the reason that it does not.
    fn check_answer(
        &self,
        connection: &Connection,
        row: &AnswerRow,
    ) -> Result<Result<StoredAnswer, Forgery>, StoreError> {
        let Some((stored, tag)) = self.key().and_then(|key| row.verified(key)) else {
            return Ok(Err(Forgery::Answer));
        };
        // Only the latest stored version of a request: an answer to an earlier version does not apply to it.
        let published = row
            .permit_id
            .parse()
            .ok()
            .and_then(|id: PermitId| self.published().get(&id).map(|published| published.tag));
        if published != Some(stored.question) {
            return Ok(Err(Forgery::OtherAnswer));
        }
        Ok(if is_recorded(connection, row, tag)? { Ok(stored) } else { Err(Forgery::Unrecorded) })
    }

    /// Removes requests whose answers were delivered to the approval queue. Requests that are still open must be stored
    /// again.
    ///
    /// # Errors
    /// A [`ShareError`] if they were not removed; the answers are then delivered again.
    pub async fn forget(&self, answers: Vec<PermitId>) -> Result<(), ShareError> {
        let ended = answers.clone();
        self.store
            .write(move |transaction| {
                for permit_id in ended {
                    let id = permit_id.to_string();
                    transaction.execute("DELETE FROM shared_question WHERE permit_id = ?1", [id])?;
                }
                Ok::<_, ShareError>(())
            })
            .await?;
        // A request that is stored again gets a new nonce, so that no earlier answer matches it.
        self.published().retain(|id, _| !answers.contains(id));
        Ok(())
    }

    /// Reports ignored rows once each: in the audit log, and to the caller for the operator. An answer that does not
    /// verify is removed, because it would block genuine ones. A modified request of this process is removed as well
    /// and must be stored again.
    ///
    /// # Errors
    /// A [`ShareError`]; the rows are then reported with the next call.
    pub async fn report(&self, now: u64) -> Result<Vec<RejectedRow>, ShareError> {
        let Some(key) = self.key() else { return Ok(Vec::new()) };
        let mut found = self.store.read(|connection| self.rejected(connection, key))?;
        {
            let reported = self.inner.reported.lock();
            found.retain(|one| !reported.contains(&one.digest));
        }
        if found.is_empty() {
            return Ok(found);
        }
        let noted = found.clone();
        self.store
            .write(move |transaction| {
                for RejectedRow { permit_id, why, row, .. } in &noted {
                    let body = serde_json::json!({ "permit_id": permit_id, "why": why });
                    let golem_id = GolemId::operator();
                    let entry =
                        LogEntry { kind: AuditKind::ApprovalForged, call_id: None, golem_id: &golem_id, body: &body };
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
        let mut reported = self.inner.reported.lock();
        if reported.len() > MAX_REPORTED {
            reported.clear();
        }
        // Removed rows are reported again if they reappear.
        reported.extend(found.iter().filter(|one| one.why == Forgery::Question).map(|one| one.digest));
        Ok(found)
    }

    /// Rows that concern this process and do not verify.
    fn rejected(&self, connection: &Connection, key: &QueueKey) -> Result<Vec<RejectedRow>, ShareError> {
        let session = self.store.session();
        let mut rejected = Vec::new();
        for row in answers_to(connection, session)? {
            if let Err(why) = self.check_answer(connection, &row)? {
                rejected.push(row.rejected(why));
            }
        }
        let of = |row: QuestionRow, why| RejectedRow {
            permit_id: SafeText::clean(&row.permit_id, 60),
            why,
            digest: row.digest(),
            row: (row.permit_id, Some(row.text)),
        };
        for row in others_in(connection, session)? {
            if self.store.is_session_alive(&row.session) && row.concerns(key.account()) && row.verified(key).is_none() {
                rejected.push(of(row, Forgery::Question));
            }
        }
        for row in own_in(connection, session)? {
            let published = row.permit_id.parse().ok().and_then(|id: PermitId| self.published().get(&id).cloned());
            let same = published.is_some_and(|published| {
                row.text == published.text && row.tag.as_deref() == Some(published.tag.as_slice())
            });
            if !same {
                rejected.push(of(row, Forgery::OwnQuestion));
            }
        }
        Ok(rejected)
    }
}

impl RemoteAnswers for SharedQueue {
    fn close(&self, transaction: &Transaction<'_>, permit_id: PermitId) -> Result<Option<SafeText>, StoreError> {
        let id = permit_id.to_string();
        let given = answer_in(transaction, &id)?;
        let given = given.map(|row| self.check_answer(transaction, &row)).transpose()?;
        transaction.execute("DELETE FROM shared_question WHERE permit_id = ?1", [&id])?;
        // An answer that does not verify is ignored, even a rejection: anyone could have written it.
        let Some(Ok(StoredAnswer { answer, .. })) = given else { return Ok(None) };
        Ok(match answer {
            OperatorAnswer::Once | OperatorAnswer::Similar { .. } => None,
            OperatorAnswer::Smaller { amount } => Some(amount_wanted(&amount)),
            OperatorAnswer::Refuse { reason } | OperatorAnswer::RefuseAndStop { reason } => Some(reason),
        })
    }
}

fn amount_wanted(amount: &str) -> SafeText {
    SafeText::clean(&format!("a smaller amount was requested: {amount}"), 120)
}

/// True if the answer has its own audit entry: the one it names, unmodified, of its kind, and with its tag.
fn is_recorded(connection: &Connection, row: &AnswerRow, tag: B256) -> Result<bool, StoreError> {
    let Some(before) = row.entry.and_then(|seq| u64::try_from(seq).ok()).and_then(|seq| seq.checked_sub(1)) else {
        return Ok(false);
    };
    let Ok(entries) = audit::entries(connection, before, None, 1) else { return Ok(false) };
    let Some(entry) = entries.into_iter().find(|entry| entry.seq == before + 1) else { return Ok(false) };
    let body: Option<serde_json::Value> = serde_json::from_str(&entry.body).ok();
    let carried = body.as_ref().and_then(|body| body.get("tag")?.as_str()?.parse::<B256>().ok());
    Ok(entry.kind == AuditKind::ApprovalAnswered.as_str() && entry.is_intact() && carried == Some(tag))
}

fn question_in(connection: &Connection, permit_id: &str) -> Result<Option<QuestionRow>, StoreError> {
    let sql = format!("SELECT {} FROM shared_question WHERE permit_id = ?1", QuestionRow::COLUMNS);
    Ok(connection.prepare_cached(&sql)?.query_row([permit_id], QuestionRow::read).optional()?)
}

fn answer_in(connection: &Connection, permit_id: &str) -> Result<Option<AnswerRow>, StoreError> {
    let sql = format!("SELECT {} FROM shared_answer WHERE permit_id = ?1", AnswerRow::COLUMNS);
    Ok(connection.prepare_cached(&sql)?.query_row([permit_id], AnswerRow::read).optional()?)
}

/// Unanswered requests of other sessions.
fn others_in(connection: &Connection, session: &str) -> Result<Vec<QuestionRow>, ShareError> {
    let sql = format!(
        "SELECT {} FROM shared_question WHERE session <> ?1 AND permit_id NOT IN (SELECT permit_id FROM shared_answer)",
        QuestionRow::COLUMNS
    );
    let mut statement = connection.prepare_cached(&sql)?;
    Ok(statement.query_map([session], QuestionRow::read)?.collect::<Result<_, _>>()?)
}

/// Requests of `session`.
fn own_in(connection: &Connection, session: &str) -> Result<Vec<QuestionRow>, ShareError> {
    let sql = format!("SELECT {} FROM shared_question WHERE session = ?1", QuestionRow::COLUMNS);
    let mut statement = connection.prepare_cached(&sql)?;
    Ok(statement.query_map([session], QuestionRow::read)?.collect::<Result<_, _>>()?)
}

/// Answers to the requests of `session`.
fn answers_to(connection: &Connection, session: &str) -> Result<Vec<AnswerRow>, ShareError> {
    let sql = format!(
        "SELECT {} FROM shared_answer JOIN shared_question USING (permit_id) WHERE session = ?1 ORDER BY permit_id",
        AnswerRow::COLUMNS
    );
    let mut statement = connection.prepare_cached(&sql)?;
    Ok(statement.query_map([session], AnswerRow::read)?.collect::<Result<_, _>>()?)
}
