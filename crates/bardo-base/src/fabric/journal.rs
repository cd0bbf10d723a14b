//! The journal: one file per run, one event per line, written by a thread of its own. The first line names the version of
//! the format; files of version 2 and before have none.
//!
//! What is emitted has reached the operating system as soon as the writer comes round, so that a
//! killed process loses at most the events it had not yet handed over; `flush`, and closing, also
//! tell the disk to keep it. The journal is for reading and replaying: money depends on the ledger, and so that it never
//! takes the ledger's room on the disk, it ends at a size.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read as _, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::event::Event;
use crate::regular_file;
use crate::text::SafeText;

/// The version of the format that is written. 3: findings, reasons and changes as values. 4: `session:opened` and
/// `limits:changed`.
const VERSION: u32 = 4;
/// Bytes gathered before they are handed to the operating system.
const CHUNK: usize = 1 << 20;
/// Bytes between two entries of the index.
const INDEX_STEP: u64 = 1 << 20;
/// Bytes at which a journal ends: weeks of a Golem that says as much as it can.
const MOST: u64 = 4 << 30;
/// The longest line that is read, in bytes: a hundred times the longest that is written.
const LONGEST_LINE: u64 = 4 << 20;

/// What can go wrong with the journal.
#[derive(Debug, Clone, thiserror::Error)]
pub enum JournalError {
    /// It could not be made.
    #[error("cannot create the journal {path}: {reason}; choose a data folder that can be written")]
    Create {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// It could not be written.
    #[error(
        "cannot write the journal {path}: {reason}; events from {first_lost} on are not in it: free or mend the disk and start again"
    )]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
        /// The first event that may be missing.
        first_lost: u64,
    },
    /// It could not be read.
    #[error("cannot read the journal {path}: {reason}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// It was written by a later version of Bardo.
    #[error(
        "{path} is a recording of version {found}, and this Bardo reads up to version {VERSION}: replay it with the Bardo that made it, or a later one"
    )]
    Later {
        /// The file.
        path: PathBuf,
        /// The version that its first line names.
        found: u32,
    },
    /// A line is no event.
    #[error("{path} line {line}: {reason}")]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: u64,
        /// What is wrong with it.
        reason: SafeText,
    },
}

/// The first line of a journal.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    /// The version of the format.
    journal: u32,
}

/// The file while it is being written.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    buffer: Vec<u8>,
    written: u64,
    most: u64,
    /// Sequence number and offset of a line now and then, for reading from the middle.
    index: Vec<(u64, u64)>,
}

impl Journal {
    /// Makes the file, readable by its owner alone. An existing one is refused, not overwritten.
    pub(super) fn create(path: &Path) -> Result<Self, JournalError> {
        let create = |reason: io::Error| JournalError::Create { path: path.to_owned(), reason: reason.to_string() };
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Ok(Self::over(path, options.open(path).map_err(create)?))
    }

    /// Writes to a file that is open already, from its beginning.
    pub(super) fn over(path: &Path, file: File) -> Self {
        let buffer = Vec::with_capacity(CHUNK);
        Self { path: path.to_owned(), file, buffer, written: 0, most: MOST, index: Vec::new() }
    }

    /// The same, ending at so many bytes.
    #[cfg(test)]
    pub(super) fn at_most(mut self, bytes: u64) -> Self {
        self.most = bytes;
        self
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a batch and hands it to the operating system. Returns the index entries it adds.
    pub(super) fn append(&mut self, batch: &[Arc<Event>]) -> io::Result<Vec<(u64, u64)>> {
        let mut entries = Vec::new();
        if self.written == 0 && self.buffer.is_empty() {
            serde_json::to_writer(&mut self.buffer, &Header { journal: VERSION })?;
            self.buffer.push(b'\n');
        }
        for event in batch {
            let offset = self.written + self.buffer.len() as u64;
            if self.index.last().is_none_or(|(_, last)| offset - last >= INDEX_STEP) {
                self.index.push((event.seq, offset));
                entries.push((event.seq, offset));
            }
            serde_json::to_writer(&mut self.buffer, event)?;
            self.buffer.push(b'\n');
            if self.buffer.len() >= CHUNK {
                self.hand_over()?;
            }
        }
        self.hand_over()?;
        Ok(entries)
    }

    /// Tells the disk to keep what was written.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn hand_over(&mut self) -> io::Result<()> {
        if self.written.saturating_add(self.buffer.len() as u64) > self.most {
            return Err(io::Error::other(format!("it has {} bytes, and is to have no more", self.written)));
        }
        self.file.write_all(&self.buffer)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

/// Reads a journal from its beginning. A last line without its end, as a crash leaves it, is not an
/// event and is left out; any other line that is no event is an error.
pub fn read(path: &Path) -> Result<impl Iterator<Item = Result<Event, JournalError>>, JournalError> {
    read_from(path, 0)
}

/// As [`read`], from a byte offset at which a line begins.
pub(super) fn read_from(
    path: &Path,
    offset: u64,
) -> Result<impl Iterator<Item = Result<Event, JournalError>> + use<>, JournalError> {
    let path = path.to_owned();
    let unreadable = |reason: io::Error| JournalError::Read { path: path.clone(), reason: reason.to_string() };
    let mut file = regular_file::open(&path).map_err(unreadable)?;
    if file.metadata().map_err(unreadable)?.len() > MOST {
        return Err(unreadable(io::Error::other("it is larger than any recording that Bardo makes (4 GiB)")));
    }
    file.seek(SeekFrom::Start(offset)).map_err(unreadable)?;
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let mut text = Vec::new();
    let mut line = 0;
    let mut over = false;
    Ok(std::iter::from_fn(move || {
        if over {
            return None;
        }
        text.clear();
        line += 1;
        let mut read = reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut text);
        // Reading from the middle begins at an event.
        if line == 1
            && offset == 0
            && let Ok(Header { journal: found }) = serde_json::from_slice(&text)
        {
            if found > VERSION {
                over = true;
                return Some(Err(JournalError::Later { path: path.clone(), found }));
            }
            text.clear();
            line += 1;
            read = reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut text);
        }
        let event = match read {
            Ok(_) if text.len() as u64 == LONGEST_LINE && text.last() != Some(&b'\n') => {
                Some(Err(JournalError::Line {
                    path: path.clone(),
                    line,
                    reason: SafeText::clean("the line is longer than any event (4 MiB); this is no recording", 200),
                }))
            }
            Ok(_) if text.last() != Some(&b'\n') => None,
            Ok(_) => Some(serde_json::from_slice(&text).map_err(|error| JournalError::Line {
                path: path.clone(),
                line,
                reason: SafeText::clean(&error.to_string(), 200),
            })),
            Err(error) => Some(Err(JournalError::Read { path: path.clone(), reason: error.to_string() })),
        };
        over = !matches!(event, Some(Ok(_)));
        event
    }))
}
