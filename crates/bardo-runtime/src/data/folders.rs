//! Folders and files of the data directory: created for their owner only, locked while in use, and removed once their
//! devnet has certainly ended.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use super::{DATABASE, DataError, LOCK};
use bardo_base::{private, regular_file, removal};

/// Number of ledgers of ended embedded devnets that are kept for inspection.
const KEPT_EMBEDDED: usize = 4;
/// Time without use after which the ledger of another process's devnet is removed: the devnet may be used again after a
/// pause.
const DEVNET_KEPT: Duration = Duration::from_secs(7 * 24 * 3_600);

pub(super) fn folder_error(path: &Path) -> impl FnOnce(std::io::Error) -> DataError {
    let path = path.to_owned();
    |reason| DataError::Folder { path, reason }
}

/// Creates a folder for its owner only, with its missing parents.
pub(super) fn create(path: &Path) -> Result<(), DataError> {
    private::folder(path).map_err(folder_error(path))
}

/// Marks the folder as in use until the returned file is closed.
pub(super) fn mark_in_use(folder: &Path) -> Result<File, DataError> {
    let path = folder.join(LOCK);
    let file = open_lock(&path).map_err(folder_error(&path))?;
    // Only the cleanup takes the exclusive lock, briefly.
    file.lock_shared().map_err(folder_error(&path))?;
    Ok(file)
}

pub(super) fn open_lock(path: &Path) -> std::io::Result<File> {
    regular_file::open_with(private::file().read(true).write(true).create(true).truncate(false), path)
}

/// Removes ledgers of ended devnets, except the newest, `own` and those of kept devnets. Ledgers that cannot be removed
/// stay.
pub(super) fn remove_leftovers(ledgers: &Path, own: &Path, kept: &BTreeSet<String>, now: Duration) {
    let (mut embedded, mut others) = (Vec::new(), Vec::new());
    for (folder, at) in folders(ledgers).unwrap_or_default() {
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if folder == own || kept.contains(name) {
            continue;
        } else if name.starts_with("embedded-") {
            embedded.push((at, folder));
        } else if name.starts_with("devnet-") && at.saturating_add(DEVNET_KEPT) < now {
            others.push(folder);
        }
    }
    embedded.sort_unstable();
    embedded.truncate(embedded.len().saturating_sub(KEPT_EMBEDDED));
    for folder in embedded.into_iter().map(|(_, folder)| folder).chain(others) {
        let Ok(lock) = open_lock(&folder.join(LOCK)) else { continue };
        match lock.try_lock() {
            Ok(()) => {
                if let Err(error) = removal::folder(&folder) {
                    tracing::warn!(folder = %folder.display(), %error, "cannot remove the ledger of an ended devnet");
                }
            }
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => {}
        }
    }
}

/// Path of the most recently written database.
pub(super) fn newest(ledgers: &[PathBuf]) -> Result<Option<PathBuf>, DataError> {
    Ok(all(ledgers)?.pop())
}

/// Paths of all databases, the most recently written last.
pub(super) fn all(ledgers: &[PathBuf]) -> Result<Vec<PathBuf>, DataError> {
    let mut found = Vec::new();
    for ledgers in ledgers {
        found.extend(folders(ledgers).map_err(folder_error(ledgers))?);
    }
    found.sort_by_key(|(_, at)| *at);
    Ok(found.into_iter().map(|(folder, _)| folder.join(DATABASE)).collect())
}

/// Folders that contain a database, each with its last write since the Unix epoch.
fn folders(ledgers: &Path) -> std::io::Result<Vec<(PathBuf, Duration)>> {
    let entries = match fs::read_dir(ledgers) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let folder = entry?.path();
        let database = folder.join(DATABASE);
        // Writes go to the WAL file beside the database first.
        let written = [database.with_extension("db-wal"), database].iter().filter_map(|file| written(file)).max();
        found.extend(written.map(|at| (folder, at)));
    }
    Ok(found)
}

fn written(file: &Path) -> Option<Duration> {
    fs::metadata(file).ok()?.modified().ok()?.duration_since(UNIX_EPOCH).ok()
}
