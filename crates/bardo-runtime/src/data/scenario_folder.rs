//! The data directory of a scenario run. A scenario changes the stop file, the ledger and the playbook, which must not
//! affect the operator. So each run has its own directory below the operator's, and removes it at the end. Only its
//! recording is written to the operator's directory, for `bardo replay`.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use super::folders::{create, folder_error, open_lock};
use super::{DataError, DataFolder, LOCK};
use bardo_base::config::Config;
use bardo_base::id::InstanceId;
use bardo_base::{regular_file, removal};

/// Folder of all scenario runs, in the data directory.
pub(super) const SHOWS: &str = "shows";

/// Data directory of a scenario run, removed on drop unless it is to be kept.
#[derive(Debug)]
pub struct ScenarioFolder {
    path: PathBuf,
    keep: bool,
    /// Lock that is held during the run, so that other runs do not take it for a killed one.
    _in_use: File,
}

impl ScenarioFolder {
    /// Creates a directory for a scenario run and removes those of killed runs. `config` is the operator's; the
    /// returned one has the new directory in its place.
    ///
    /// # Errors
    /// [`DataError::Folder`] if a folder or lock cannot be created.
    pub fn begin(config: &Config, keep: bool) -> Result<(Self, Config), DataError> {
        let outer = config.data_dir.value.clone();
        let shows = outer.join(SHOWS);
        create(&outer)?;
        create(&shows)?;
        // Serialises creation and cleanup: a directory that is not locked yet must not be taken for a killed run.
        let beginning = shows.join(LOCK);
        let alone = open_lock(&beginning).map_err(folder_error(&beginning))?;
        alone.lock().map_err(folder_error(&beginning))?;
        remove_leftovers(&shows);
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

    /// Path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScenarioFolder {
    fn drop(&mut self) {
        if self.keep {
            // Without a lock file the next run does not remove the directory.
            let _kept = fs::remove_file(self.path.join(LOCK));
        } else if let Err(error) = removal::folder(&self.path) {
            tracing::warn!(folder = %self.path.display(), %error, "cannot remove a scenario's data folder");
        }
    }
}

/// Removes the directories of killed runs. One without a lock file was kept on purpose.
fn remove_leftovers(shows: &Path) {
    let Ok(entries) = fs::read_dir(shows) else { return };
    for folder in entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()) {
        let Ok(lock) = regular_file::open(&folder.join(LOCK)) else { continue };
        match lock.try_lock() {
            Ok(()) => {
                if let Err(error) = removal::folder(&folder) {
                    let folder = folder.display();
                    tracing::warn!(%folder, %error, "cannot remove the data folder of a killed scenario");
                }
            }
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => {}
        }
    }
}

impl DataFolder {
    /// Folders of ledgers: the data directory's own, and those of running or kept scenario runs.
    pub(super) fn ledger_folders(&self) -> Vec<PathBuf> {
        let shows = self.scenario_folders();
        std::iter::once(self.root.clone()).chain(shows).map(|root| root.join(super::LEDGERS)).collect()
    }

    /// Data directories of running or kept scenario runs.
    pub(super) fn scenario_folders(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.root.join(SHOWS)).into_iter().flatten().flatten();
        // The folder also contains a lock file.
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
    }
}
