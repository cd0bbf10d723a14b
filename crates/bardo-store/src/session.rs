//! Sessions of open stores. Every open store has a name and a file of that name next to the database, which it keeps
//! locked while it is open. The operating system releases the lock however the process ends. So work that an ended
//! process left unfinished is detected at once, and work of a running process never counts as left over.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::error::StoreError;
use bardo_base::{private, regular_file};

/// Table with the store's name on the writer's connection, which modules read by `(SELECT id FROM temp.store_session)`.
const OWN_NAME: &str = "CREATE TEMP TABLE store_session (id TEXT NOT NULL)";

/// Session of one open store.
#[derive(Debug)]
pub(super) struct StoreSession {
    folder: PathBuf,
    id: String,
    _held: File,
}

impl StoreSession {
    /// Creates a session for the database at `path`, and removes the files of ended processes.
    pub(super) fn begin(path: &Path) -> Result<Self, StoreError> {
        let mut folder = path.as_os_str().to_owned();
        folder.push("-sessions");
        let folder = PathBuf::from(folder);
        let id = format!("{:032x}", rand::random::<u128>());
        match Self::create_locked(&folder, &id) {
            Ok(held) => {
                let session = Self { folder, id, _held: held };
                session.remove_leftovers();
                Ok(session)
            }
            Err(error) => Err(StoreError::Open { path: folder, reason: error.to_string() }),
        }
    }

    /// Creates the file under a temporary name and locks it first, so that the final name never appears unlocked.
    fn create_locked(folder: &Path, id: &str) -> std::io::Result<File> {
        private::folder(folder)?;
        let begun = folder.join(format!(".{id}"));
        let file = private::file().read(true).write(true).create_new(true).open(&begun)?;
        file.lock()?;
        fs::rename(&begun, folder.join(id))?;
        Ok(file)
    }

    /// Stores the session's name on a connection.
    pub(super) fn name_on(&self, connection: &Connection) -> Result<(), StoreError> {
        connection.pragma_update(None, "temp_store", "memory")?;
        connection.execute_batch(OWN_NAME)?;
        connection.execute("INSERT INTO temp.store_session (id) VALUES (?1)", [&self.id])?;
        Ok(())
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Returns true if the store of that name is still open. If that is unknown, it counts as open.
    pub(super) fn is_alive(&self, id: &str) -> bool {
        // An invalid name belongs to no session, and must not lead out of the folder.
        let named = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !named {
            return false;
        }
        if id == self.id {
            return true;
        }
        let path = self.folder.join(id);
        match regular_file::open(&path) {
            Err(error) => error.kind() != std::io::ErrorKind::NotFound,
            Ok(file) => match file.try_lock() {
                Ok(()) => {
                    // The name is random and never reused, so no process can be about to lock it.
                    let _gone = fs::remove_file(&path);
                    false
                }
                Err(TryLockError::WouldBlock | TryLockError::Error(_)) => true,
            },
        }
    }

    fn remove_leftovers(&self) {
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        for entry in entries.flatten() {
            if let Some(id) = entry.file_name().to_str() {
                // The check removes files that no process holds.
                let _lives = self.is_alive(id);
            }
        }
    }
}

impl Drop for StoreSession {
    fn drop(&mut self) {
        let _gone = fs::remove_file(self.folder.join(&self.id));
    }
}
