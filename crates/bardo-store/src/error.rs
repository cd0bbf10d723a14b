//! Errors of the database, with suggestions.

use std::path::PathBuf;

use rusqlite::ErrorCode as Sqlite;

/// Error of the database.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The database could not be opened.
    #[error("cannot open the database {path}: {reason}; check that the data folder exists and can be written")]
    Open {
        /// Path of the file.
        path: PathBuf,
        /// Error message of the operating system.
        reason: String,
    },
    /// Another process has locked the database.
    #[error("the database is locked by another process: close the other program, or wait until it is done")]
    Locked,
    /// The file or its folder is not writable.
    #[error("the database can only be read: give its folder and its file write permission")]
    ReadOnly,
    /// The disk is full.
    #[error("no room on the disk for the database: free some, then try again; nothing was lost")]
    DiskFull,
    /// The disk reported an error.
    #[error("the disk failed under the database ({0}): check it before going on")]
    Disk(String),
    /// The file is damaged or not a database.
    #[error("the database is damaged or no database ({0}): keep the file aside and restore a copy")]
    Corrupt(String),
    /// A newer version of the program has migrated the file.
    #[error("the tables of `{room}` are at version {found} and this program knows {known}: use the newer program")]
    TooNew {
        /// Module whose tables are too new.
        room: String,
        /// Version of the tables in the file.
        found: usize,
        /// Latest version that this program knows.
        known: usize,
    },
    /// A released migration differs from the one that was applied.
    #[error(
        "step {version} of the tables of `{room}` is not the one this file was made with: use the program that made it"
    )]
    Changed {
        /// Module whose migration differs.
        room: String,
        /// Number of the migration, from 1.
        version: usize,
    },
    /// The write panicked, or the writer thread has ended; the transaction is rolled back.
    #[error("the write was interrupted and undone: this is a fault in the program, please report it")]
    Interrupted,
    /// A statement failed for another reason.
    #[error("the database refused: {0}")]
    Query(String),
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(Sqlite::DatabaseBusy | Sqlite::DatabaseLocked) => Self::Locked,
            Some(Sqlite::ReadOnly | Sqlite::PermissionDenied) => Self::ReadOnly,
            Some(Sqlite::DiskFull) => Self::DiskFull,
            Some(Sqlite::SystemIoFailure) => Self::Disk(error.to_string()),
            Some(Sqlite::DatabaseCorrupt | Sqlite::NotADatabase) => Self::Corrupt(error.to_string()),
            _ => Self::Query(error.to_string()),
        }
    }
}
