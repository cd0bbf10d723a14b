//! Errors of the database, with suggestions.

use std::path::PathBuf;

use rusqlite::ErrorCode as Sqlite;

/// Error of the database.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The database could not be opened.
    #[error("cannot open the database {path}: {reason}; check that the data folder exists and is writable")]
    Open {
        /// Path of the file.
        path: PathBuf,
        /// Error message of the operating system.
        reason: String,
    },
    /// Another process has locked the database.
    #[error("the database is locked by another process: close that process, or wait until it is done")]
    Locked,
    /// The file or its folder is not writable.
    #[error("the database is read-only: grant write permission on its folder and file")]
    ReadOnly,
    /// The disk is full.
    #[error("the disk is full: free some space, then try again; nothing was lost")]
    DiskFull,
    /// The disk reported an error.
    #[error("the disk of the database failed ({0}): check the disk before you continue")]
    Disk(String),
    /// The file is damaged or not a database.
    #[error("the database is damaged or not a database ({0}): move the file away and restore a copy")]
    Corrupt(String),
    /// A newer version of the program has migrated the file.
    #[error("the tables of `{room}` are at version {found}, but this Bardo supports {known}: use the newer Bardo")]
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
        "migration {version} of the tables of `{room}` differs from the one that created this file: use the Bardo that \
         created it"
    )]
    Changed {
        /// Module whose migration differs.
        room: String,
        /// Number of the migration, from 1.
        version: usize,
    },
    /// The write panicked, or the writer thread has ended; the transaction is rolled back.
    #[error("the write was interrupted and rolled back: this is a bug in Bardo, please report it")]
    Interrupted,
    /// A statement failed for another reason.
    #[error("the database returned an error: {0}")]
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
