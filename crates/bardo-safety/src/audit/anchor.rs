//! The head of the trail in a file outside the database. It only moves forward, by whichever process
//! is ahead, and may lag the trail by what was written while a process died.

use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use alloy::primitives::B256;
use bardo_base::{private, regular_file};

use super::Head;

/// So long whoever moves the anchor waits for others who do. It may lag; a check that waits for it must not.
const WAITS: Duration = Duration::from_millis(300);

/// `SEQ HASH\n`, with SEQ padded so that every anchor has one length and is overwritten in place.
const LENGTH: usize = 20 + 1 + 66 + 1;

/// The file that keeps the head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anchor {
    path: PathBuf,
}

/// Why the anchor could not be moved or read.
#[derive(Debug, thiserror::Error)]
#[error("the audit trail's anchor {}: {what}", path.display())]
pub struct AnchorError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    pub what: String,
}

impl Anchor {
    /// The anchor of the trail in this database, beside it.
    pub fn beside(database: &Path) -> Self {
        Self { path: database.with_extension("audit-head") }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it says; `None` where there is no such file.
    ///
    /// # Errors
    /// [`AnchorError`] for a file that says nothing one can rely on.
    pub fn read(&self) -> Result<Option<Head>, AnchorError> {
        let not_as_written = || self.wrong("is not as it was written".to_owned());
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

    /// Moves it on to `head`, unless it is there already or further.
    ///
    /// # Errors
    /// [`AnchorError`]; the trail is good, but its end is not witnessed.
    pub fn advance(&self, head: Head) -> Result<(), AnchorError> {
        self.write(head).map_err(|error| self.wrong(error.to_string()))
    }

    fn write(&self, head: Head) -> std::io::Result<()> {
        let mut options = private::file();
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut file = regular_file::open_with(options, &self.path)?;
        // Until the file is closed: several processes write one trail.
        lock(&file)?;
        let bytes = bounded(&mut file)?;
        // A file that was tampered with stays as it is, for `verify` to find.
        let stands = |bytes| parse(bytes).is_none_or(|standing: Head| standing.seq >= head.seq);
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

/// Locks the file, unless somebody else holds it for longer than a move takes.
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

/// What the file holds, and no more of it than tells that it is not an anchor.
fn bounded(file: &mut File) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(LENGTH as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn parse(bytes: &[u8]) -> Option<Head> {
    if bytes.len() != LENGTH {
        return None;
    }
    let (seq, hash) = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?.split_once(' ')?;
    let seq: u64 = seq.parse().ok()?;
    let hash: B256 = hash.parse().ok()?;
    Some(Head { seq, hash })
}
