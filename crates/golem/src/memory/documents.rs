//! Documents of a Golem: STRATEGY.md, written by the owner, and PLAYBOOK.md, which the Golem changes by deltas that the
//! owner can undo.
//!
//! There is one playbook per ledger, network and Golem, beside the database with its deltas. Notes from a devnet end
//! with that devnet, and no playbook outlives the rows that undo its changes.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use alloy::primitives::keccak256;
use rusqlite::params;
use serde::Serialize;

use super::{Memory, signed};
use bardo_base::error::{ErrorCode, ToolError};
use bardo_base::id::GolemId;
use bardo_base::text::SafeText;
use bardo_base::{private, regular_file};
use bardo_store::StoreError;

const PLAYBOOK: &str = "PLAYBOOK.md";
const STRATEGY: &str = "STRATEGY.md";
/// Name of the folder of all playbooks, beside the database.
const PLAYBOOKS: &str = "playbooks";

/// Maximum size of a document, in bytes. Longer files are read only up to it.
const MOST_BYTES: u64 = 128 << 10;

/// Maximum length of a network key in clear text, in bytes.
const MOST_KEY: usize = 120;

/// Maximum length of the strategy that a brain always receives, in characters: it is part of every request to a model.
const MOST_STRATEGY: usize = 6_000;

/// Maximum length of a section, in characters.
const MOST_SECTION: usize = 4_000;

/// Documents of one Golem on one network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Documents {
    /// Folder of STRATEGY.md.
    strategy: PathBuf,
    /// Folder of PLAYBOOK.md.
    playbook: PathBuf,
    /// Key of the network whose playbook this is.
    network: String,
}

/// Author of a passage, which determines how far an agent may rely on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Authority {
    /// Written by the owner: a goal to follow.
    Owner,
    /// Written by the Golem itself, perhaps after text from outside: a note to weigh, never an instruction.
    AgentNote,
}

/// Passage found by a search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DocumentPassage {
    /// File name of the document.
    pub paper: &'static str,
    /// Author of the passage.
    pub authority: Authority,
    /// Heading of its section; empty before the first heading.
    pub section: SafeText,
    /// Text of the section, without its heading.
    pub text: SafeText,
}

/// Change of the playbook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlaybookDelta {
    /// Number of the change, unique in its ledger.
    pub delta: u64,
    /// Key of the network whose playbook it changed.
    pub network: String,
    /// Name of the changed section.
    pub section: SafeText,
    /// Text before the change; `None` if the section is new.
    pub before: Option<String>,
    /// Text after the change.
    pub after: String,
    /// Reason for the change.
    pub reason: SafeText,
    /// True if the change has been undone.
    pub undone: bool,
}

/// Error that leaves a document unchanged.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// Unusable document file.
    #[error("cannot use {}: {reason}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        reason: std::io::Error,
    },
    /// Section or playbook beyond its maximum length.
    #[error("a section has at most {MOST_SECTION} characters and the playbook at most {MOST_BYTES} bytes")]
    TooLong,
    /// Section name that cannot be a heading.
    #[error("a section needs a one-line name")]
    Section,
    /// Unknown change, or one that has already been undone.
    #[error("there is no change {0} that could be undone")]
    NoDelta(u64),
    /// Section that was changed again after the change to undo.
    #[error("the section has changed since: undo the later change first")]
    ChangedSince,
    /// Error of the database.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<DocumentError> for ToolError {
    fn from(error: DocumentError) -> Self {
        let code = match error {
            DocumentError::File { .. } | DocumentError::Store(_) => ErrorCode::StoreUnavailable,
            DocumentError::TooLong
            | DocumentError::Section
            | DocumentError::NoDelta(_)
            | DocumentError::ChangedSince => ErrorCode::ValidationFailed,
        };
        Self::new(code, error)
    }
}

impl Documents {
    /// Locates the documents of a Golem: its owner's strategy in the folder `strategy`, and its playbook for `network`
    /// below `ledger`, the folder of the database with the playbook's deltas. None of them need exist yet.
    pub fn new(strategy: impl Into<PathBuf>, ledger: &Path, network: &str, golem_id: &GolemId) -> Self {
        let playbook = ledger.join(PLAYBOOKS).join(network).join(golem_id.as_str());
        Self { strategy: strategy.into(), playbook, network: network.to_owned() }
    }

    /// Returns the same Golem's documents on the network of a delta; `None` if the key is not one that [`network_key`]
    /// makes. A database row must not lead to a file outside the playbooks' folder.
    fn of_network(&self, network: &str) -> Option<Self> {
        let is_key = !network.is_empty() && network.chars().all(is_key_character);
        let (root, golem) = self.playbook.parent().and_then(Path::parent).zip(self.playbook.file_name())?;
        let playbook = root.join(network).join(golem);
        is_key.then(|| Self { playbook, network: network.to_owned(), strategy: self.strategy.clone() })
    }

    /// Returns the owner's strategy, cleaned and cut to [`MOST_STRATEGY`] characters; empty without one.
    ///
    /// # Errors
    /// [`DocumentError::File`] if the file exists and cannot be read.
    pub fn strategy(&self) -> Result<String, DocumentError> {
        let text = read(&self.strategy.join(STRATEGY))?;
        let mut left = MOST_STRATEGY;
        let mut kept = Vec::new();
        for line in text.lines() {
            let line = SafeText::clean(line.trim_end(), left).to_string();
            left = left.saturating_sub(line.chars().count() + 1);
            kept.push(line);
            if left == 0 {
                break;
            }
        }
        Ok(kept.join("\n").trim().to_owned())
    }

    /// Searches both documents for sections with a word of `query`, those with the most words first. The text is
    /// cleaned, because it may come from anywhere.
    ///
    /// # Errors
    /// [`DocumentError::File`] if a document exists and cannot be read.
    pub fn search(&self, query: &str, most: usize) -> Result<Vec<DocumentPassage>, DocumentError> {
        let words: Vec<String> = query
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| word.chars().count() > 1)
            .map(str::to_lowercase)
            .take(16)
            .collect();
        let mut found = Vec::new();
        let documents =
            [(STRATEGY, &self.strategy, Authority::Owner), (PLAYBOOK, &self.playbook, Authority::AgentNote)];
        for (paper, folder, authority) in documents {
            for (section, text) in sections(&read(&folder.join(paper))?) {
                let body = format!("{section}\n{text}").to_lowercase();
                let hits = words.iter().filter(|word| body.contains(word.as_str())).count();
                if hits > 0 {
                    let passage = DocumentPassage {
                        paper,
                        authority,
                        section: SafeText::clean(&section, 120),
                        text: SafeText::clean(text.trim(), 1_200),
                    };
                    found.push((hits, passage));
                }
            }
        }
        found.sort_by_key(|(hits, _)| std::cmp::Reverse(*hits));
        Ok(found.into_iter().take(most).map(|(_, passage)| passage).collect())
    }

    /// Sets a section of the playbook, and stores the change with the previous text.
    ///
    /// # Errors
    /// [`DocumentError`]; the playbook is then unchanged.
    pub async fn update(
        &self,
        memory: &Memory,
        section: &str,
        text: &str,
        reason: &str,
        now: u64,
    ) -> Result<PlaybookDelta, DocumentError> {
        let section = SafeText::clean(section.trim().trim_start_matches('#').trim(), 80);
        if section.is_empty() {
            return Err(DocumentError::Section);
        }
        if text.chars().count() > MOST_SECTION {
            return Err(DocumentError::TooLong);
        }
        // A heading inside would start another section, which no delta could undo.
        let clean = |line: &str| SafeText::clean(line.trim_start_matches('#').trim_end(), MOST_SECTION).to_string();
        let lines = text.lines().map(clean);
        let after = lines.collect::<Vec<_>>().join("\n").trim().to_owned();
        if after.chars().count() > MOST_SECTION {
            return Err(DocumentError::TooLong);
        }
        let reason = SafeText::clean(reason, 300);
        let before = self.set(&section, Some(&after))?;
        let row = (
            memory.golem_id().to_string(),
            self.network.clone(),
            section.to_string(),
            before.clone(),
            after.clone(),
            reason.to_string(),
        );
        let kept = memory.store().write(move |transaction| {
            let (golem_id, network, section, before, after, reason) = row;
            transaction.execute(
                "INSERT INTO golem_delta (golem_id, network, at, section, before, after, reason)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                params![golem_id, network, signed(now), section, before, after, reason],
            )?;
            Ok::<_, StoreError>(transaction.last_insert_rowid())
        });
        match kept.await {
            Ok(id) => {
                let delta = u64::try_from(id).unwrap_or(0);
                Ok(PlaybookDelta {
                    delta,
                    network: self.network.clone(),
                    section,
                    before,
                    after,
                    reason,
                    undone: false,
                })
            }
            Err(error) => {
                // A change that cannot be undone later must not stay.
                self.set(&section, before.as_deref())?;
                Err(error.into())
            }
        }
    }

    /// Undoes a change.
    ///
    /// # Errors
    /// [`DocumentError::ChangedSince`] if the section has changed since, [`DocumentError::NoDelta`] for an unknown or
    /// undone change, and errors of the file or the database.
    pub async fn undo(&self, memory: &Memory, delta: u64, now: u64) -> Result<PlaybookDelta, DocumentError> {
        let found = Self::read_deltas(memory, Some(delta))?.into_iter().find(|one| !one.undone);
        let Some(mut found) = found else { return Err(DocumentError::NoDelta(delta)) };
        let Some(documents) = self.of_network(&found.network) else { return Err(DocumentError::NoDelta(delta)) };
        let stands = sections(&read(&documents.playbook.join(PLAYBOOK))?)
            .into_iter()
            .find(|(section, _)| *section == found.section.as_str())
            .map(|(_, text)| text);
        if stands.as_deref() != Some(found.after.as_str()) {
            return Err(DocumentError::ChangedSince);
        }
        documents.set(&found.section, found.before.as_deref())?;
        let kept = memory.store().write(move |transaction| {
            transaction
                .execute("UPDATE golem_delta SET undone_at = ?2 WHERE id = ?1", params![signed(delta), signed(now)])?;
            Ok::<_, StoreError>(())
        });
        kept.await?;
        found.undone = true;
        Ok(found)
    }

    /// Returns the latest 200 changes, newest first.
    ///
    /// # Errors
    /// [`DocumentError::Store`] if the database cannot be read.
    pub fn deltas(&self, memory: &Memory) -> Result<Vec<PlaybookDelta>, DocumentError> {
        Self::read_deltas(memory, None)
    }

    /// Returns the change with the number `only`, or the latest 200 changes, newest first.
    fn read_deltas(memory: &Memory, only: Option<u64>) -> Result<Vec<PlaybookDelta>, DocumentError> {
        let golem_id = memory.golem_id().to_string();
        // A number beyond SQLite's integers belongs to no change.
        let only = only.map(|delta| i64::try_from(delta).unwrap_or(-1));
        let read = memory.store().read(|connection| {
            let mut query = connection.prepare_cached(
                "SELECT id, section, before, after, reason, undone_at, network FROM golem_delta
                 WHERE golem_id = ?1 AND (?2 IS NULL OR id = ?2) ORDER BY id DESC LIMIT 200",
            )?;
            let rows = query.query_map((golem_id, only), |row| {
                Ok(PlaybookDelta {
                    delta: u64::try_from(row.get::<_, i64>(0)?).unwrap_or(0),
                    section: SafeText::clean(&row.get::<_, String>(1)?, 80),
                    before: row.get(2)?,
                    after: row.get(3)?,
                    reason: SafeText::clean(&row.get::<_, String>(4)?, 300),
                    undone: row.get::<_, Option<i64>>(5)?.is_some(),
                    network: row.get(6)?,
                })
            })?;
            Ok::<Vec<PlaybookDelta>, StoreError>(rows.collect::<Result<_, _>>()?)
        });
        Ok(read?)
    }

    /// Sets or removes a section; returns its previous text.
    fn set(&self, section: &SafeText, text: Option<&str>) -> Result<Option<String>, DocumentError> {
        let path = self.playbook.join(PLAYBOOK);
        let mut all = sections(&read(&path)?);
        let at = all.iter().position(|(name, _)| *name == section.as_str());
        let before = at.and_then(|at| all.get(at)).map(|(_, text)| text.clone());
        match (at, text) {
            (Some(at), Some(text)) => {
                if let Some(found) = all.get_mut(at) {
                    text.clone_into(&mut found.1);
                }
            }
            (Some(at), None) => drop(all.remove(at)),
            (None, Some(text)) => all.push((section.to_string(), text.to_owned())),
            (None, None) => {}
        }
        let written: String = all
            .iter()
            .map(
                |(name, text)| if name.is_empty() { format!("{text}\n\n") } else { format!("## {name}\n\n{text}\n\n") },
            )
            .collect();
        if written.len() as u64 > MOST_BYTES {
            return Err(DocumentError::TooLong);
        }
        write(&path, &written).map_err(|reason| DocumentError::File { path, reason })?;
        Ok(before)
    }
}

/// Returns the playbook folder name for a session on these chains: their names in alphabetical order. A name beyond 120
/// bytes is replaced by its hash.
pub fn network_key<'a>(chains: impl IntoIterator<Item = &'a str>) -> String {
    let clean = |name: &str| name.chars().map(|c| if is_key_character(c) { c } else { '_' }).collect::<String>();
    let names: BTreeSet<String> = chains.into_iter().map(clean).filter(|name| !name.is_empty()).collect();
    let key = names.into_iter().collect::<Vec<_>>().join("+");
    match key.len() {
        0 => "none".to_owned(),
        1..=MOST_KEY => key,
        // Every file system limits the length of a folder name.
        _ => keccak256(key).to_string(),
    }
}

const fn is_key_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '+')
}

/// Splits a document into headings and the text below each.
fn sections(text: &str) -> Vec<(String, String)> {
    let mut all: Vec<(String, Vec<&str>)> = vec![(String::new(), Vec::new())];
    for line in text.lines() {
        match line.strip_prefix("#") {
            Some(heading) => all.push((heading.trim_start_matches('#').trim().to_owned(), Vec::new())),
            None => {
                if let Some((_, lines)) = all.last_mut() {
                    lines.push(line);
                }
            }
        }
    }
    let joined = all.into_iter().map(|(name, lines)| (name, lines.join("\n").trim().to_owned()));
    joined.filter(|(name, text)| !name.is_empty() || !text.is_empty()).collect()
}

fn read(path: &Path) -> Result<String, DocumentError> {
    let failed = |reason| DocumentError::File { path: path.to_owned(), reason };
    let mut bytes = Vec::new();
    match regular_file::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(String::new()),
        Err(error) => return Err(failed(error)),
        Ok(file) => file.take(MOST_BYTES).read_to_end(&mut bytes).map_err(failed)?,
    };
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Replaces the file, and creates its folder if it is missing.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        private::make(folder)?;
    }
    private::replace(path, text.as_bytes())
}
