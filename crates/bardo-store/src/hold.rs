//! Names that one holder at a time has, among all who work on a database, here and in other processes. The system lets
//! go of a name however its holder ends, so none is ever held by the dead; and while its holder lives nobody else gets
//! it, so what is done under a name needs no second look at whether it is still held.
//!
//! Who waits in this process waits in line. Between processes there is a second lock before the first: whoever has it
//! is next, so that a process with a long line cannot keep the others out.

use std::collections::HashMap;
use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;
use tokio::time::{sleep, timeout};

use super::error::StoreError;
use bardo_base::{private, regular_file};

/// How often it is looked whether a name that another process holds is free.
const LOOK: Duration = Duration::from_millis(2);

/// Why a name is not held.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HoldError {
    /// Somebody else has it, and kept it for as long as was waited.
    #[error("somebody else is at work under `{0}`, and did not end in time")]
    Busy(String),
    /// Whether somebody has it cannot be told.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A held name; let go of when dropped.
#[derive(Debug)]
pub struct Hold {
    // Closed first: who is next in this process finds it free.
    _file: File,
    _line: OwnedMutexGuard<()>,
    count: u64,
}

impl Hold {
    /// How often the name had been held before this.
    pub fn count(&self) -> u64 {
        self.count
    }
}

/// The names of one database.
#[derive(Debug)]
pub(super) struct Holds {
    folder: PathBuf,
    lines: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl Holds {
    /// Of the database at `path`.
    pub(super) fn beside(path: &Path) -> Self {
        let mut folder = path.as_os_str().to_owned();
        folder.push("-holds");
        Self { folder: PathBuf::from(folder), lines: Mutex::default() }
    }

    /// How often a name has been held; nothing while somebody holds it.
    pub(super) fn count(&self, name: &str) -> Result<Option<u64>, StoreError> {
        let mut file = match regular_file::open(&self.path(name)?) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some(0)),
            Err(error) => return Err(self.broken(&error)),
        };
        // Let go of with the file; whoever comes for the name meanwhile looks again in a moment.
        match file.try_lock_shared() {
            Ok(()) => Ok(Some(counted(&mut file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(self.broken(&error)),
        }
    }

    /// Waits for a name for as long as `patience` says.
    pub(super) async fn hold(&self, name: &str, patience: Duration) -> Result<Hold, HoldError> {
        let (path, next) = (self.path(name)?, self.path(&format!("{name}-next"))?);
        let line = {
            let mut lines = self.lines.lock();
            Arc::clone(lines.entry(name.to_owned()).or_default())
        };
        let wait = async {
            let line = line.lock_owned().await;
            let _next = self.lock(&next).await?;
            let mut file = self.lock(&path).await?;
            let count = counted(&mut file);
            write_count(&mut file, count.saturating_add(1)).map_err(|error| self.broken(&error))?;
            Ok(Hold { _file: file, _line: line, count })
        };
        timeout(patience, wait).await.unwrap_or_else(|_| Err(HoldError::Busy(name.to_owned())))
    }

    async fn lock(&self, path: &Path) -> Result<File, StoreError> {
        let file = self.open(path).map_err(|error| self.broken(&error))?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) => sleep(LOOK).await,
                Err(TryLockError::Error(error)) => return Err(self.broken(&error)),
            }
        }
    }

    /// Never removed: a file that goes while somebody waits for it would be held twice.
    fn open(&self, path: &Path) -> io::Result<File> {
        let mut options = private::file();
        options.read(true).write(true).create(true).truncate(false);
        match regular_file::open_with(&mut options, path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                private::make(&self.folder)?;
                regular_file::open_with(&mut options, path)
            }
            opened => opened,
        }
    }

    fn path(&self, name: &str) -> Result<PathBuf, StoreError> {
        let plain = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if plain { Ok(self.folder.join(name)) } else { Err(StoreError::Query(format!("`{name}` cannot be held"))) }
    }

    fn broken(&self, error: &io::Error) -> StoreError {
        StoreError::Open { path: self.folder.clone(), reason: error.to_string() }
    }
}

/// What a file says of how often it was held. It only tells whether somebody came in between, so a file that says
/// nothing readable counts as one that never was.
fn counted(file: &mut File) -> u64 {
    let mut text = String::new();
    let read = io::Read::by_ref(file).take(20).read_to_string(&mut text);
    read.ok().and_then(|_| text.trim().parse().ok()).unwrap_or_default()
}

fn write_count(file: &mut File, count: u64) -> io::Result<()> {
    file.rewind()?;
    // Always of the same length, so that no reader sees the end of an older one.
    file.write_all(format!("{count:020}").as_bytes())
}
