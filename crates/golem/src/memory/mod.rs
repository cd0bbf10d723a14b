//! Memory of a Golem (the Grimoire): past trades, their insights, and adjustments for the next trade.
//!
//! | file | holds |
//! |---|---|
//! | `episode` | past writes: expected, actual, difference, lesson |
//! | `outcomes` | late outcomes of open writes |
//! | `tuning` | adjustments that past trades may make to the next one |
//! | `documents` | PLAYBOOK.md and STRATEGY.md |
//! | `search` | search of all entries by words |
//!
//! Any text in here may come from outside. It is cleaned on entry, returned as text, and decides nothing. Only measured
//! figures adjust anything, and only tunable parameters.

mod documents;
mod episode;
mod outcomes;
mod search;
#[cfg(test)]
mod tests;
mod tuning;

use rusqlite::{Transaction, params};

use bardo_base::clock::Clock;
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::id::GolemId;
use bardo_base::text::SafeText;
use bardo_base::units::Usd;
use bardo_store::{Migrations, Store, StoreError};

pub use documents::{Authority, DocumentError, DocumentPassage, Documents, PlaybookDelta, network_key};
pub use episode::{Episode, EpisodeOutcome, Topic, reflect};
pub use tuning::{TunedParameters, soften};

/// Migrations of the memory's tables.
pub const MIGRATIONS: Migrations = Migrations {
    room: "golem",
    steps: &[
        "
    CREATE TABLE golem_episode (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        golem_id TEXT NOT NULL,
        at INTEGER NOT NULL,
        call_id TEXT NOT NULL,
        kind TEXT NOT NULL,
        chain TEXT NOT NULL,
        token_in TEXT NOT NULL,
        token_out TEXT NOT NULL,
        cents INTEGER NOT NULL,
        phase TEXT NOT NULL,
        outcome TEXT NOT NULL CHECK (outcome IN ('done', 'open', 'lapsed', 'blocked', 'refused', 'failed')),
        code TEXT,
        allowed_bps INTEGER,
        slipped_bps INTEGER,
        expected TEXT NOT NULL,
        actual TEXT NOT NULL,
        difference TEXT NOT NULL,
        lesson TEXT NOT NULL
    ) STRICT;
    CREATE INDEX golem_episode_alike ON golem_episode (golem_id, kind, chain, token_in, token_out, id);

    CREATE TABLE golem_note (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        golem_id TEXT NOT NULL,
        kind TEXT NOT NULL CHECK (kind IN ('insight', 'heuristic')),
        topic TEXT NOT NULL,
        at INTEGER NOT NULL,
        text TEXT NOT NULL,
        UNIQUE (golem_id, kind, topic)
    ) STRICT;

    CREATE VIRTUAL TABLE golem_words USING fts5 (golem_id UNINDEXED, kind UNINDEXED, ref UNINDEXED, text);

    CREATE TABLE golem_delta (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        golem_id TEXT NOT NULL,
        at INTEGER NOT NULL,
        section TEXT NOT NULL,
        before TEXT,
        after TEXT NOT NULL,
        reason TEXT NOT NULL,
        undone_at INTEGER
    ) STRICT;

    CREATE TABLE golem_life (
        golem_id TEXT PRIMARY KEY,
        born_at INTEGER NOT NULL,
        high_water TEXT,
        died_at INTEGER,
        last_words TEXT
    ) STRICT;
",
        "
    ALTER TABLE golem_life ADD COLUMN wound_up_at INTEGER;
",
        "
    CREATE INDEX golem_episode_open ON golem_episode (golem_id) WHERE outcome = 'open';
",
        "
    ALTER TABLE golem_delta ADD COLUMN network TEXT NOT NULL DEFAULT '';
",
        search::SCOPED,
    ],
};

/// Memory of one Golem. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Memory {
    store: Store,
    golem_id: GolemId,
}

/// Kind of a memory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// Past write with its reflection.
    Episode,
    /// Common result of several past writes.
    Insight,
    /// Recommendation for the next write.
    Heuristic,
}

impl EntryKind {
    /// Returns the form that is stored in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Episode => "episode",
            Self::Insight => "insight",
            Self::Heuristic => "heuristic",
        }
    }
}

/// Entry found by a search.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct MemoryHit {
    /// Kind of the entry.
    pub kind: EntryKind,
    /// Id of the entry within its kind.
    pub id: i64,
    /// Time of the last change, in milliseconds since the Unix epoch.
    pub at: u64,
    /// Text of the entry.
    pub text: SafeText,
}

/// Life of a Golem: birth, high-water mark and death.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LifeRecord {
    /// Birth, in milliseconds since the Unix epoch.
    pub born_at: u64,
    /// High-water mark of its holdings, in dollars; `None` before the first heartbeat or after a reset.
    pub high_water: Option<Usd>,
    /// Death, in milliseconds since the Unix epoch; `None` while it lives.
    pub died_at: Option<u64>,
    /// Final entry; `None` while it lives.
    pub last_words: Option<SafeText>,
    /// Completion of the shutdown after its death, in milliseconds since the Unix epoch; `None` before.
    pub wound_up_at: Option<u64>,
}

fn unavailable(error: StoreError) -> ToolError {
    ToolError::new(ErrorCode::StoreUnavailable, error)
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

impl Memory {
    /// Creates the memory of `golem_id` in a database opened with [`MIGRATIONS`].
    pub fn new(store: Store, golem_id: GolemId) -> Self {
        Self { store, golem_id }
    }

    /// Stores an episode and updates the insight of its topic. Returns the episode's id.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` if the database cannot be written.
    pub async fn record(&self, episode: Episode) -> Result<i64, ToolError> {
        let golem_id = self.golem_id.to_string();
        let kept = self.store.write(move |transaction| {
            let id = episode.insert(transaction, &golem_id)?;
            learn(transaction, &golem_id, &episode.topic, episode.at)?;
            Ok::<_, StoreError>(id)
        });
        kept.await.map_err(unavailable)
    }

    /// Stores many episodes in one transaction, for example from an import.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` if the database cannot be written; nothing is stored then.
    pub async fn record_all(&self, episodes: Vec<Episode>) -> Result<(), ToolError> {
        let golem_id = self.golem_id.to_string();
        let kept = self.store.write(move |transaction| {
            let mut topics = Vec::new();
            for episode in &episodes {
                episode.insert(transaction, &golem_id)?;
                match topics.iter_mut().find(|(topic, _)| *topic == &episode.topic) {
                    Some((_, at)) => *at = episode.at,
                    None => topics.push((&episode.topic, episode.at)),
                }
            }
            for (topic, at) in topics {
                learn(transaction, &golem_id, topic, at)?;
            }
            Ok::<_, StoreError>(())
        });
        kept.await.map_err(unavailable)
    }

    /// Records the outcomes of open episodes that have ended, as far as the ledger knows; `now` is in milliseconds
    /// since the Unix epoch. Returns their number.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` if the database cannot be read or written.
    pub async fn record_ends(&self, now: u64) -> Result<usize, ToolError> {
        let golem_id = self.golem_id.to_string();
        let ends = self.store.read(|connection| outcomes::known(connection, &golem_id)).map_err(unavailable)?;
        let known = ends.len();
        if known > 0 {
            let noted = self.store.write(move |transaction| outcomes::note(transaction, &golem_id, now, &ends));
            noted.await.map_err(unavailable)?;
        }
        Ok(known)
    }

    /// Returns up to `most` episodes of this topic, newest first.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` if the database cannot be read.
    pub fn alike(&self, topic: &Topic, most: usize) -> Result<Vec<Episode>, ToolError> {
        let golem_id = self.golem_id.to_string();
        self.store.read(|connection| Episode::alike(connection, &golem_id, topic, most)).map_err(unavailable)
    }

    /// Searches for entries with any word of `query`, best match first.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` if the database cannot be read.
    pub fn search(&self, query: &str, kind: Option<EntryKind>, most: usize) -> Result<Vec<MemoryHit>, ToolError> {
        let golem_id = self.golem_id.to_string();
        let found = self.store.read(|connection| search::search(connection, &golem_id, query, kind, most));
        found.map_err(unavailable)
    }

    /// Returns the number of episodes.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` if the database cannot be read.
    pub fn count(&self) -> Result<u64, ToolError> {
        let golem_id = self.golem_id.to_string();
        let counted = self.store.read(|connection| {
            let mut asked = connection.prepare_cached("SELECT count(*) FROM golem_episode WHERE golem_id = ?1")?;
            Ok::<_, StoreError>(asked.query_row([golem_id], |row| row.get::<_, i64>(0))?)
        });
        counted.map(unsigned).map_err(unavailable)
    }

    /// Returns the life so far. The first call begins it.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` if the database cannot be written.
    pub async fn life(&self, clock: &dyn Clock) -> Result<LifeRecord, ToolError> {
        let (golem_id, now) = (self.golem_id.to_string(), clock.now_millis());
        let life = self.store.write(move |transaction| {
            transaction.execute(
                "INSERT INTO golem_life (golem_id, born_at) VALUES (?1, ?2) ON CONFLICT (golem_id) DO NOTHING",
                params![golem_id, signed(now)],
            )?;
            let life = transaction.query_row(
                "SELECT born_at, high_water, died_at, last_words, wound_up_at FROM golem_life WHERE golem_id = ?1",
                [golem_id],
                |row| {
                    Ok(LifeRecord {
                        born_at: unsigned(row.get(0)?),
                        high_water: row.get::<_, Option<String>>(1)?.and_then(|text| text.parse().ok()),
                        died_at: row.get::<_, Option<i64>>(2)?.map(unsigned),
                        last_words: row.get::<_, Option<String>>(3)?.map(|text| SafeText::clean(&text, 400)),
                        wound_up_at: row.get::<_, Option<i64>>(4)?.map(unsigned),
                    })
                },
            )?;
            Ok::<_, StoreError>(life)
        });
        life.await.map_err(unavailable)
    }

    /// Stores the high-water mark. If `marked` says that a mark existed, but it has been reset in the meantime, nothing
    /// is stored and the result is `false`.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` if the database cannot be written.
    pub async fn set_high_water(&self, high_water: Usd, marked: bool) -> Result<bool, ToolError> {
        let (golem_id, text) = (self.golem_id.to_string(), high_water.to_string());
        let kept = self.store.write(move |transaction| {
            let kept = transaction.execute(
                "UPDATE golem_life SET high_water = ?2 WHERE golem_id = ?1 AND (high_water IS NOT NULL OR NOT ?3)",
                params![golem_id, text, marked],
            )?;
            Ok::<_, StoreError>(kept > 0)
        });
        kept.await.map_err(unavailable)
    }

    /// Resets the high-water marks of all Golems on this ledger, at the operator's request. The next heartbeat sets new
    /// ones. Returns the number of marks that existed.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` if the database cannot be written.
    pub async fn forget_high_waters(store: &Store) -> Result<usize, ToolError> {
        let forgotten = store.write(|transaction| {
            let forgotten =
                transaction.execute("UPDATE golem_life SET high_water = NULL WHERE high_water IS NOT NULL", [])?;
            Ok::<_, StoreError>(forgotten)
        });
        forgotten.await.map_err(unavailable)
    }

    /// Records the death with a final entry. Later calls change nothing.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` if the database cannot be written.
    pub async fn die(&self, last_words: SafeText, now: u64) -> Result<(), ToolError> {
        let golem_id = self.golem_id.to_string();
        let kept = self.store.write(move |transaction| {
            transaction.execute(
                "UPDATE golem_life SET died_at = ?2, last_words = ?3 WHERE golem_id = ?1 AND died_at IS NULL",
                params![golem_id, signed(now), last_words.as_str()],
            )?;
            Ok::<_, StoreError>(())
        });
        kept.await.map_err(unavailable)
    }

    /// Records that the shutdown after death is complete. What the account's owner does afterwards no longer concerns
    /// the Golem.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` if the database cannot be written.
    pub async fn mark_shut_down(&self, now: u64) -> Result<(), ToolError> {
        let golem_id = self.golem_id.to_string();
        let kept = self.store.write(move |transaction| {
            transaction.execute(
                "UPDATE golem_life SET wound_up_at = ?2 WHERE golem_id = ?1",
                params![golem_id, signed(now)],
            )?;
            Ok::<_, StoreError>(())
        });
        kept.await.map_err(unavailable)
    }

    /// Returns the database.
    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the id of the Golem whose memory this is.
    pub fn golem_id(&self) -> &GolemId {
        &self.golem_id
    }
}

/// Derives an insight from the last episodes of a topic, if there are at least [`tuning::ENOUGH`], and a heuristic
/// where one follows from it.
fn learn(transaction: &Transaction<'_>, golem_id: &str, topic: &Topic, at: u64) -> Result<(), StoreError> {
    let last = Episode::alike(transaction, golem_id, topic, tuning::MAX_CONSIDERED)?;
    if last.len() < tuning::ENOUGH {
        return Ok(());
    }
    let done = last.iter().filter(|one| one.outcome == EpisodeOutcome::Done).count();
    let slipped: Vec<i64> = last.iter().filter_map(|one| one.slipped_bps).collect();
    let worst = slipped.iter().max().map_or(String::new(), |worst| format!(", at worst {worst} bps under the quote"));
    let insight = format!("{topic}: {done} of the last {} succeeded{worst}", last.len());
    note(transaction, golem_id, EntryKind::Insight, topic, at, &insight)?;
    if let Some(advice) = tuning::advice(&last) {
        note(transaction, golem_id, EntryKind::Heuristic, topic, at, &format!("{topic}: {advice}"))?;
    }
    Ok(())
}

fn note(
    transaction: &Transaction<'_>,
    golem_id: &str,
    kind: EntryKind,
    topic: &Topic,
    at: u64,
    text: &str,
) -> Result<(), StoreError> {
    let id: i64 = transaction
        .prepare_cached(
            "INSERT INTO golem_note (golem_id, kind, topic, at, text) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (golem_id, kind, topic) DO UPDATE SET at = excluded.at, text = excluded.text RETURNING id",
        )?
        .query_row(params![golem_id, kind.as_str(), topic.to_string(), signed(at), text], |row| row.get(0))?;
    search::index(transaction, golem_id, kind, id, text)
}
