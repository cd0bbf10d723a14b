//! Who is at work on a database. Every open store has a name, and a file of that name beside the database that it
//! holds locked for as long as it lives: the system lets go of it however the process ends. So what an ended
//! process has left half-way is known at once, and what a living one is at is never taken for left.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::error::StoreError;
use bardo_base::{private, regular_file};

/// Where a room writes down whose work a row is: `(SELECT id FROM temp.store_session)`, on the writer's connection.
const OWN_NAME: &str = "CREATE TEMP TABLE store_session (id TEXT NOT NULL)";

/// One open store among all that work on its database.
#[derive(Debug)]
pub(super) struct Session {
    folder: PathBuf,
    id: String,
    _held: File,
}

impl Session {
    /// Takes a name beside the database at `path`, and clears away those of ended processes.
    pub(super) fn begin(path: &Path) -> Result<Self, StoreError> {
        let mut folder = path.as_os_str().to_owned();
        folder.push("-sessions");
        let folder = PathBuf::from(folder);
        let id = format!("{:032x}", rand::random::<u128>());
        match Self::hold(&folder, &id) {
            Ok(held) => {
                let session = Self { folder, id, _held: held };
                session.clear_away();
                Ok(session)
            }
            Err(error) => Err(StoreError::Open { path: folder, reason: error.to_string() }),
        }
    }

    /// Locked under another name first: under its own it must never be seen unlocked.
    fn hold(folder: &Path, id: &str) -> std::io::Result<File> {
        private::folder(folder)?;
        let begun = folder.join(format!(".{id}"));
        let file = private::file().read(true).write(true).create_new(true).open(&begun)?;
        file.lock()?;
        fs::rename(&begun, folder.join(id))?;
        Ok(file)
    }

    /// Tells a connection whose writes these are.
    pub(super) fn name_on(&self, connection: &Connection) -> Result<(), StoreError> {
        connection.pragma_update(None, "temp_store", "memory")?;
        connection.execute_batch(OWN_NAME)?;
        connection.execute("INSERT INTO temp.store_session (id) VALUES (?1)", [&self.id])?;
        Ok(())
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Whether the store of that name is still open somewhere. Where that cannot be told it counts as open.
    pub(super) fn lives(&self, id: &str) -> bool {
        // A name that none of ours is belongs to nobody; it must not lead out of the folder either.
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
                    // Its name is random and never comes again: nobody can be about to take it.
                    let _gone = fs::remove_file(&path);
                    false
                }
                Err(TryLockError::WouldBlock | TryLockError::Error(_)) => true,
            },
        }
    }

    fn clear_away(&self) {
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        for entry in entries.flatten() {
            if let Some(id) = entry.file_name().to_str() {
                // Asking removes what nobody holds.
                let _lives = self.lives(id);
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _gone = fs::remove_file(self.folder.join(&self.id));
    }
}
