//! The data folder of a show. What a show does to the stop file, the ledger or the playbook concerns nobody else, so
//! each show has a folder of its own below the operator's data folder, and takes it along when it ends. Only its
//! recording is made in the operator's folder, since `bardo replay` plays it again.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use super::folders::{create, folder_error, open_lock};
use super::{DataError, DataFolder, LOCK};
use bardo_base::config::Config;
use bardo_base::id::InstanceId;
use bardo_base::{regular_file, removal};

/// Folder of all shows, in the data folder.
pub(super) const SHOWS: &str = "shows";

/// A show's own data folder, removed when this is dropped unless it is to be kept.
#[derive(Debug)]
pub struct ShowFolder {
    path: PathBuf,
    keep: bool,
    /// Held as long as the show runs, so that the next show does not take it for one that was killed.
    _in_use: File,
}

impl ShowFolder {
    /// Makes a folder for a show that begins now, and removes those of shows that were killed. `config` is the
    /// operator's; the second value is the same with the show's folder in place of the operator's.
    ///
    /// # Errors
    /// [`DataError::Folder`].
    pub fn begin(config: &Config, keep: bool) -> Result<(Self, Config), DataError> {
        let outer = config.data_dir.value.clone();
        let shows = outer.join(SHOWS);
        create(&outer)?;
        create(&shows)?;
        // One show at a time begins or clears away: a folder that is not locked yet must not be taken for a left one.
        let beginning = shows.join(LOCK);
        let alone = open_lock(&beginning).map_err(folder_error(&beginning))?;
        alone.lock().map_err(folder_error(&beginning))?;
        clear_away(&shows);
        let path = shows.join(InstanceId::random().to_string());
        create(&path)?;
        let lock = path.join(LOCK);
        let in_use = open_lock(&lock).map_err(folder_error(&lock))?;
        in_use.lock().map_err(folder_error(&lock))?;
        let mut inside = config.clone();
        inside.data_dir.value.clone_from(&path);
        inside.outer_data_dir = Some(outer);
        Ok((Self { path, keep, _in_use: in_use }, inside))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ShowFolder {
    fn drop(&mut self) {
        if self.keep {
            // The next show must not clear it away.
            let _kept = fs::remove_file(self.path.join(LOCK));
        } else if let Err(error) = removal::folder(&self.path) {
            tracing::warn!(folder = %self.path.display(), %error, "cannot remove a scenario's data folder");
        }
    }
}

/// Removes the folders of shows that were killed. One without a lock was kept on purpose.
fn clear_away(shows: &Path) {
    let Ok(entries) = fs::read_dir(shows) else { return };
    for folder in entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()) {
        let Ok(lock) = regular_file::open(&folder.join(LOCK)) else { continue };
        match lock.try_lock() {
            Ok(()) => {
                if let Err(error) = removal::folder(&folder) {
                    tracing::warn!(folder = %folder.display(), %error, "cannot remove the data folder of a killed scenario");
                }
            }
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => {}
        }
    }
}

impl DataFolder {
    /// The ledgers' folders: the data folder's own, and those of the shows that run or were kept.
    pub(super) fn ledger_folders(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.root.join(SHOWS)).into_iter().flatten().flatten();
        // Beside the folders stands the lock that says that shows are in use.
        let shows = entries.map(|entry| entry.path()).filter(|path| path.is_dir());
        std::iter::once(self.root.clone()).chain(shows).map(|root| root.join(super::LEDGERS)).collect()
    }
}
