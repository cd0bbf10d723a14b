//! PLAYBOOK.md, which the Golem may change by deltas that can be taken back, and STRATEGY.md, which is the owner's.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use rusqlite::params;
use serde::Serialize;

use super::{Memory, signed};
use crate::base::error::{ErrorCode, ToolError};
use crate::base::text::SafeText;
use crate::store::StoreError;

const PLAYBOOK: &str = "PLAYBOOK.md";
const STRATEGY: &str = "STRATEGY.md";

/// The longest paper that is read or written.
const MOST_BYTES: u64 = 128 << 10;

/// Characters of one section.
const MOST_SECTION: usize = 4_000;

/// The papers of one Golem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Papers {
    folder: PathBuf,
}

/// A passage that fits a search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Passage {
    /// Which paper.
    pub paper: &'static str,
    /// Its heading; empty for what stands before the first.
    pub section: SafeText,
    /// The text.
    pub text: SafeText,
}

/// A change of the playbook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Delta {
    /// Names it.
    pub delta: u64,
    /// The section.
    pub section: SafeText,
    /// What stood there; `None` where the section is new.
    pub before: Option<String>,
    /// What stands there.
    pub after: String,
    /// Why.
    pub reason: SafeText,
    /// Whether it was taken back.
    pub undone: bool,
}

/// Why a paper stays as it is.
#[derive(Debug, thiserror::Error)]
pub enum PaperError {
    /// The file cannot be used.
    #[error("cannot use {}: {reason}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        reason: std::io::Error,
    },
    /// It would be too long.
    #[error("a section has at most {MOST_SECTION} characters and the playbook at most {MOST_BYTES} bytes")]
    TooLong,
    /// The section's name cannot stand as a heading.
    #[error("a section needs a name of one line")]
    Section,
    /// No such change, or it was taken back already.
    #[error("there is no change {0} that could be taken back")]
    NoDelta(u64),
    /// The section was changed since.
    #[error("the section was changed since: take the later change back first")]
    ChangedSince,
    /// The database refused.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<PaperError> for ToolError {
    fn from(error: PaperError) -> Self {
        let code = match error {
            PaperError::File { .. } | PaperError::Store(_) => ErrorCode::StoreUnavailable,
            PaperError::TooLong | PaperError::Section | PaperError::NoDelta(_) | PaperError::ChangedSince => {
                ErrorCode::ValidationFailed
            }
        };
        Self::new(code, error)
    }
}

impl Papers {
    /// The papers in this folder, which need not be there yet.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Passages of both papers that have a word of `query`, those with the most first. Cleaned: what stands in them
    /// may have come from anywhere.
    ///
    /// # Errors
    /// [`PaperError::File`] for a paper that is there and cannot be read.
    pub fn search(&self, query: &str, most: usize) -> Result<Vec<Passage>, PaperError> {
        let words: Vec<String> = query
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| word.chars().count() > 1)
            .map(str::to_lowercase)
            .take(16)
            .collect();
        let mut found = Vec::new();
        for paper in [STRATEGY, PLAYBOOK] {
            for (section, text) in sections(&read(&self.folder.join(paper))?) {
                let body = format!("{section}\n{text}").to_lowercase();
                let hits = words.iter().filter(|word| body.contains(word.as_str())).count();
                if hits > 0 {
                    let passage = Passage {
                        paper,
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

    /// Sets a section of the playbook, and keeps what stood there.
    ///
    /// # Errors
    /// [`PaperError`]: then the playbook is as it was.
    pub async fn update(
        &self,
        memory: &Memory,
        section: &str,
        text: &str,
        reason: &str,
        now: u64,
    ) -> Result<Delta, PaperError> {
        let section = SafeText::clean(section.trim().trim_start_matches('#').trim(), 80);
        if section.is_empty() {
            return Err(PaperError::Section);
        }
        if text.chars().count() > MOST_SECTION {
            return Err(PaperError::TooLong);
        }
        // A heading inside would make another section, which no delta could take back.
        let clean = |line: &str| SafeText::clean(line.trim_start_matches('#').trim_end(), MOST_SECTION).to_string();
        let lines = text.lines().map(clean);
        let after = lines.collect::<Vec<_>>().join("\n").trim().to_owned();
        if after.chars().count() > MOST_SECTION {
            return Err(PaperError::TooLong);
        }
        let reason = SafeText::clean(reason, 300);
        let before = self.set(&section, Some(&after))?;
        let row =
            (memory.golem_id().to_string(), section.to_string(), before.clone(), after.clone(), reason.to_string());
        let kept = memory.store().write(move |transaction| {
            let (golem_id, section, before, after, reason) = row;
            transaction.execute(
                "INSERT INTO golem_delta (golem_id, at, section, before, after, reason) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                params![golem_id, signed(now), section, before, after, reason],
            )?;
            Ok::<_, StoreError>(transaction.last_insert_rowid())
        });
        match kept.await {
            Ok(id) => {
                let delta = u64::try_from(id).unwrap_or(0);
                Ok(Delta { delta, section, before, after, reason, undone: false })
            }
            Err(error) => {
                // A change that nobody could take back is none.
                self.set(&section, before.as_deref())?;
                Err(error.into())
            }
        }
    }

    /// Takes a change back.
    ///
    /// # Errors
    /// [`PaperError::ChangedSince`] where the section is no longer as that change left it.
    pub async fn undo(&self, memory: &Memory, delta: u64, now: u64) -> Result<Delta, PaperError> {
        let found = self.deltas(memory)?.into_iter().find(|one| one.delta == delta && !one.undone);
        let Some(mut found) = found else { return Err(PaperError::NoDelta(delta)) };
        let stands = sections(&read(&self.folder.join(PLAYBOOK))?)
            .into_iter()
            .find(|(section, _)| *section == found.section.as_str())
            .map(|(_, text)| text);
        if stands.as_deref() != Some(found.after.as_str()) {
            return Err(PaperError::ChangedSince);
        }
        self.set(&found.section, found.before.as_deref())?;
        let kept = memory.store().write(move |transaction| {
            transaction
                .execute("UPDATE golem_delta SET undone_at = ?2 WHERE id = ?1", params![signed(delta), signed(now)])?;
            Ok::<_, StoreError>(())
        });
        kept.await?;
        found.undone = true;
        Ok(found)
    }

    /// Every change, the newest first.
    ///
    /// # Errors
    /// [`PaperError::Store`].
    pub fn deltas(&self, memory: &Memory) -> Result<Vec<Delta>, PaperError> {
        let golem_id = memory.golem_id().to_string();
        let read = memory.store().read(|connection| {
            let mut asked = connection.prepare_cached(
                "SELECT id, section, before, after, reason, undone_at FROM golem_delta WHERE golem_id = ?1 ORDER BY id DESC LIMIT 200",
            )?;
            let rows = asked.query_map([golem_id], |row| {
                Ok(Delta {
                    delta: u64::try_from(row.get::<_, i64>(0)?).unwrap_or(0),
                    section: SafeText::clean(&row.get::<_, String>(1)?, 80),
                    before: row.get(2)?,
                    after: row.get(3)?,
                    reason: SafeText::clean(&row.get::<_, String>(4)?, 300),
                    undone: row.get::<_, Option<i64>>(5)?.is_some(),
                })
            })?;
            Ok::<Vec<Delta>, StoreError>(rows.collect::<Result<_, _>>()?)
        });
        Ok(read?)
    }

    /// Sets or removes a section; what stood there.
    fn set(&self, section: &SafeText, text: Option<&str>) -> Result<Option<String>, PaperError> {
        let path = self.folder.join(PLAYBOOK);
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
            return Err(PaperError::TooLong);
        }
        write(&path, &written).map_err(|reason| PaperError::File { path, reason })?;
        Ok(before)
    }
}

/// Headings and what stands under them.
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

fn read(path: &Path) -> Result<String, PaperError> {
    let failed = |reason| PaperError::File { path: path.to_owned(), reason };
    let mut bytes = Vec::new();
    match std::fs::File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(String::new()),
        Err(error) => return Err(failed(error)),
        Ok(file) => file.take(MOST_BYTES).read_to_end(&mut bytes).map_err(failed)?,
    };
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Writes the whole file aside and moves it into place.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let aside = path.with_extension(format!("{:016x}.new", rand::random::<u64>()));
    let written = OpenOptions::new().write(true).create_new(true).open(&aside).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    let written = written.and_then(|()| std::fs::rename(&aside, path));
    if written.is_err() {
        // What is left aside says nothing.
        let _ = std::fs::remove_file(&aside);
    }
    written
}
