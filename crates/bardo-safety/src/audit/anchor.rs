//! Anchor: a file outside the database with the head of the audit log. It only moves forward, set by the process that
//! is ahead, and may lag behind if a process died while writing.

use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use alloy::primitives::B256;
use bardo_base::{private, regular_file};
use bardo_store::Store;

use super::{AuditError, LogHead};

/// Timeout for the file lock when moving the anchor. The anchor may lag, but a check must not wait for it for long.
const WAITS: Duration = Duration::from_millis(300);

/// Length of `SEQ HASH\n` in bytes. SEQ is padded, so that every anchor has the same length and is overwritten in
/// place.
const LENGTH: usize = 20 + 1 + 66 + 1;

/// Anchor file of one audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogAnchor {
    path: PathBuf,
}

/// Reason for which the anchor could not be moved or read.
#[derive(Debug, thiserror::Error)]
#[error("the audit log's anchor {}: {what}", path.display())]
pub struct AnchorError {
    /// Path of the anchor file.
    pub path: PathBuf,
    /// Description of the fault.
    pub what: String,
}

impl LogAnchor {
    /// Returns the anchor of the audit log in `database`, next to that file.
    pub fn beside(database: &Path) -> Self {
        Self { path: database.with_extension("audit-head") }
    }

    /// Creates the anchor of an audit log that has no entry yet, so that it exists before the first one. A log with
    /// entries gets no new anchor, so that the loss of its anchor is noticed. A failure is only logged, since the
    /// anchor may lag.
    pub fn begin(store: &Store) {
        let begun = match store.read(super::head) {
            Ok(LogHead::EMPTY) => Self::beside(store.path()).advance(LogHead::EMPTY).map_err(|error| error.to_string()),
            Ok(_) => Ok(()),
            Err::<_, AuditError>(error) => Err(error.to_string()),
        };
        if let Err(error) = begun {
            tracing::warn!("{error}");
        }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the anchor; `None` if the file does not exist.
    ///
    /// # Errors
    /// [`AnchorError`] if the file cannot be read or is malformed.
    pub fn read(&self) -> Result<Option<LogHead>, AnchorError> {
        let not_as_written = || self.wrong("was changed".to_owned());
        let bytes = match regular_file::read(&self.path, LENGTH as u64) {
            Ok(bytes) => bytes,
            Err(error) => match error.kind() {
                ErrorKind::NotFound => return Ok(None),
                ErrorKind::InvalidInput | ErrorKind::FileTooLarge => return Err(not_as_written()),
                _ => return Err(self.wrong(error.to_string())),
            },
        };
        parse(&bytes).map(Some).ok_or_else(not_as_written)
    }

    /// Moves the anchor to `head`, unless it is there already or further ahead.
    ///
    /// # Errors
    /// [`AnchorError`] if the file cannot be locked or written. The audit log is still valid, but its end is not
    /// anchored.
    pub fn advance(&self, head: LogHead) -> Result<(), AnchorError> {
        self.write(head).map_err(|error| self.wrong(error.to_string()))
    }

    fn write(&self, head: LogHead) -> std::io::Result<()> {
        let mut options = private::file();
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut file = regular_file::open_with(options, &self.path)?;
        // Held until the file is closed, since several processes write one audit log.
        lock(&file)?;
        let bytes = bounded(&mut file)?;
        // A malformed anchor stays unchanged, so that `verify` finds it.
        let stands = |bytes| parse(bytes).is_none_or(|standing: LogHead| standing.seq >= head.seq);
        if !bytes.is_empty() && stands(&bytes) {
            return Ok(());
        }
        file.seek(SeekFrom::Start(0))?;
        file.write_all(format!("{:020} {}\n", head.seq, head.hash).as_bytes())
    }

    fn wrong(&self, what: String) -> AnchorError {
        AnchorError { path: self.path.clone(), what }
    }
}

/// Locks the file, with a timeout of [`WAITS`].
fn lock(file: &File) -> std::io::Result<()> {
    let until = Instant::now() + WAITS;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
            Err(TryLockError::WouldBlock) => return Err(std::io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Reads at most one byte more than an anchor has, which shows a file that is too long.
fn bounded(file: &mut File) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(LENGTH as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn parse(bytes: &[u8]) -> Option<LogHead> {
    if bytes.len() != LENGTH {
        return None;
    }
    let (seq, hash) = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?.split_once(' ')?;
    let seq: u64 = seq.parse().ok()?;
    let hash: B256 = hash.parse().ok()?;
    Some(LogHead { seq, hash })
}
