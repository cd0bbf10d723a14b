//! The journal: one file per run, one event per line, written by its own thread. The first line states the format
//! version; files of version 2 and earlier lack it.
//!
//! The writer passes events to the operating system in batches, so a killed process loses at most the events of the
//! pending batch. `flush` and closing also sync the disk. The journal is for reading and replaying only: money depends
//! on the ledger. The journal has a maximum size, so that it never takes the ledger's disk space.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read as _, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::event::Event;
use crate::regular_file;
use crate::text::SafeText;

/// The version of the format that is written. 3: findings, reasons and changes as values. 4: `session:opened` and
/// `limits:changed`. 5: `lending:liquidated`. 6: `action:recovered`, and the reasons of checks as values.
const VERSION: u32 = 6;
/// Bytes buffered before they are passed to the operating system.
const CHUNK: usize = 1 << 20;
/// Bytes between two entries of the index.
const INDEX_STEP: u64 = 1 << 20;
/// Maximum size of a journal, in bytes: weeks of a Golem that emits at its maximum rate.
const MOST: u64 = 4 << 30;
/// Longest line that is read, in bytes: a hundred times the longest line that is written.
const LONGEST_LINE: u64 = 4 << 20;

/// Errors of the journal.
#[derive(Debug, Clone, thiserror::Error)]
pub enum JournalError {
    /// The file could not be created.
    #[error("cannot create the journal {path}: {reason}; choose a writable data folder")]
    Create {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        reason: String,
    },
    /// The file could not be written.
    #[error(
        "cannot write the journal {path}: {reason}; events from {first_lost} on are not in it: free disk space or \
         repair the disk, then restart"
    )]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        reason: String,
        /// Sequence number of the first event that may be missing.
        first_lost: u64,
    },
    /// The file could not be read.
    #[error("cannot read the journal {path}: {reason}")]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        reason: String,
    },
    /// A later version of Bardo wrote the file.
    #[error(
        "{path} is a recording of version {found}, but this Bardo reads up to version {VERSION}: replay it with the \
         Bardo that recorded it, or a later one"
    )]
    Later {
        /// Path of the file.
        path: PathBuf,
        /// Format version in its first line.
        found: u32,
    },
    /// A line is not an event.
    #[error("{path} line {line}: {reason}")]
    Line {
        /// Path of the file.
        path: PathBuf,
        /// Line number, counted from 1.
        line: u64,
        /// Description of the error.
        reason: SafeText,
    },
}

/// First line of a journal.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct JournalHeader {
    /// Version of the format, see [`VERSION`].
    journal: u32,
}

/// A journal file that is being written.
#[derive(Debug)]
pub(super) struct JournalFile {
    path: PathBuf,
    file: File,
    buffer: Vec<u8>,
    written: u64,
    most: u64,
    /// Sequence number and byte offset of a line at intervals, for reading from the middle.
    index: Vec<(u64, u64)>,
}

impl JournalFile {
    /// Creates the file, readable by its owner only. An existing file is an error and is not overwritten.
    pub(super) fn create(path: &Path) -> Result<Self, JournalError> {
        let create = |reason: io::Error| JournalError::Create { path: path.to_owned(), reason: reason.to_string() };
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Ok(Self::over(path, options.open(path).map_err(create)?))
    }

    /// Writes to an open file from its beginning.
    pub(super) fn over(path: &Path, file: File) -> Self {
        let buffer = Vec::with_capacity(CHUNK);
        Self { path: path.to_owned(), file, buffer, written: 0, most: MOST, index: Vec::new() }
    }

    /// Sets a smaller maximum size, in bytes.
    #[cfg(test)]
    pub(super) fn at_most(mut self, bytes: u64) -> Self {
        self.most = bytes;
        self
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a batch and passes it to the operating system. Returns the index entries it adds.
    pub(super) fn append(&mut self, batch: &[Arc<Event>]) -> io::Result<Vec<(u64, u64)>> {
        let mut entries = Vec::new();
        if self.written == 0 && self.buffer.is_empty() {
            serde_json::to_writer(&mut self.buffer, &JournalHeader { journal: VERSION })?;
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
                self.write_buffer()?;
            }
        }
        self.write_buffer()?;
        Ok(entries)
    }

    /// Syncs the written data to disk.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn write_buffer(&mut self) -> io::Result<()> {
        if self.written.saturating_add(self.buffer.len() as u64) > self.most {
            return Err(io::Error::other(format!("it has {} bytes, the maximum", self.written)));
        }
        self.file.write_all(&self.buffer)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

/// Reads a journal from its beginning. An incomplete last line, as a crash leaves it, is skipped.
///
/// # Errors
/// [`JournalError::Read`] if the file cannot be read, [`JournalError::Later`] for a later format, and
/// [`JournalError::Line`] for any other line that is not an event.
pub fn read(path: &Path) -> Result<impl Iterator<Item = Result<Event, JournalError>>, JournalError> {
    read_from(path, 0)
}

/// Same as [`read`], from the byte offset of a line.
pub(super) fn read_from(
    path: &Path,
    offset: u64,
) -> Result<impl Iterator<Item = Result<Event, JournalError>> + use<>, JournalError> {
    let path = path.to_owned();
    let unreadable = |reason: io::Error| JournalError::Read { path: path.clone(), reason: reason.to_string() };
    let mut file = regular_file::open(&path).map_err(unreadable)?;
    if file.metadata().map_err(unreadable)?.len() > MOST {
        return Err(unreadable(io::Error::other("it is larger than the maximum of a recording (4 GiB)")));
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
        // An offset points to an event, so only a read from the start can meet the header.
        if line == 1
            && offset == 0
            && let Ok(JournalHeader { journal: found }) = serde_json::from_slice(&text)
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
                    reason: SafeText::clean("the line is longer than any event (4 MiB); this is not a recording", 200),
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
