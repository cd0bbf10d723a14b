//! Named locks with one holder at a time, among all users of a database, in this and other processes. The operating
//! system releases a lock however its process ends, so no lock outlives its holder. While the holder is alive nobody
//! else gets the lock, so work under it need not check again.
//!
//! Within this process, waiting tasks queue in order. Between processes, a second lock precedes the first: its holder
//! is next. So a process with a long queue cannot exclude the others.

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

/// Polling interval for a lock that another process holds.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Reason for which a lock was not acquired.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileLockError {
    /// The lock was not released before the timeout.
    #[error("timed out waiting for lock `{0}`: another process holds it")]
    Busy(String),
    /// The lock file cannot be opened or locked.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Held lock, released on drop.
#[derive(Debug)]
pub struct FileLock {
    // Dropped first, so that the next task in this process finds the file unlocked.
    _file: File,
    _line: OwnedMutexGuard<()>,
    count: u64,
}

impl FileLock {
    /// Returns the number of times that the lock was held before.
    pub fn count(&self) -> u64 {
        self.count
    }
}

/// Named locks of one database.
#[derive(Debug)]
pub(super) struct FileLocks {
    folder: PathBuf,
    lines: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl FileLocks {
    /// Creates the locks of the database at `path`, in a folder next to it.
    pub(super) fn beside(path: &Path) -> Self {
        let mut folder = path.as_os_str().to_owned();
        folder.push("-holds");
        Self { folder: PathBuf::from(folder), lines: Mutex::default() }
    }

    /// Returns the number of times that a lock was held; `None` while it is held.
    pub(super) fn count(&self, name: &str) -> Result<Option<u64>, StoreError> {
        let mut file = match regular_file::open(&self.path(name)?) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some(0)),
            Err(error) => return Err(self.broken(&error)),
        };
        // The shared lock ends with the file; a process that wants the lock polls again shortly.
        match file.try_lock_shared() {
            Ok(()) => Ok(Some(counted(&mut file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(self.broken(&error)),
        }
    }

    /// Waits for a lock, up to `patience`.
    pub(super) async fn acquire_lock(&self, name: &str, patience: Duration) -> Result<FileLock, FileLockError> {
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
            Ok(FileLock { _file: file, _line: line, count })
        };
        timeout(patience, wait).await.unwrap_or_else(|_| Err(FileLockError::Busy(name.to_owned())))
    }

    async fn lock(&self, path: &Path) -> Result<File, StoreError> {
        let file = self.open(path).map_err(|error| self.broken(&error))?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) => sleep(POLL_INTERVAL).await,
                Err(TryLockError::Error(error)) => return Err(self.broken(&error)),
            }
        }
    }

    /// Lock files are never removed: otherwise two waiting processes could hold different files of one name.
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
        if plain { Ok(self.folder.join(name)) } else { Err(StoreError::Query(format!("cannot acquire lock `{name}`"))) }
    }

    fn broken(&self, error: &io::Error) -> StoreError {
        StoreError::Open { path: self.folder.clone(), reason: error.to_string() }
    }
}

/// Reads the count from a lock file. It only shows whether someone held the lock in between, so an unreadable count is
/// zero.
fn counted(file: &mut File) -> u64 {
    let mut text = String::new();
    let read = io::Read::by_ref(file).take(20).read_to_string(&mut text);
    read.ok().and_then(|_| text.trim().parse().ok()).unwrap_or_default()
}

fn write_count(file: &mut File, count: u64) -> io::Result<()> {
    file.rewind()?;
    // Fixed length, so that no reader sees the rest of an older value.
    file.write_all(format!("{count:020}").as_bytes())
}
