//! What can go wrong with the database, and what to do about it.

use std::path::PathBuf;

use rusqlite::ErrorCode as Sqlite;

/// What can go wrong with the database.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// It could not be opened.
    #[error("cannot open the database {path}: {reason}; check that the data folder exists and can be written")]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// Another process holds it.
    #[error("the database is locked by another process: close the other program, or wait until it is done")]
    Locked,
    /// It cannot be written.
    #[error("the database can only be read: give its folder and its file write permission")]
    ReadOnly,
    /// The disk has no room.
    #[error("no room on the disk for the database: free some, then try again; nothing was lost")]
    DiskFull,
    /// The disk failed.
    #[error("the disk failed under the database ({0}): check it before going on")]
    Disk(String),
    /// It is no database, or a damaged one.
    #[error("the database is damaged or no database ({0}): keep the file aside and restore a copy")]
    Corrupt(String),
    /// A newer program has written it.
    #[error("the tables of `{room}` are at version {found} and this program knows {known}: use the newer program")]
    TooNew {
        /// Whose tables.
        room: String,
        /// The version in the file.
        found: usize,
        /// The newest this program knows.
        known: usize,
    },
    /// A migration differs from the one that was run.
    #[error(
        "step {version} of the tables of `{room}` is not the one this file was made with: use the program that made it"
    )]
    Changed {
        /// Whose tables.
        room: String,
        /// Which step, from 1.
        version: usize,
    },
    /// The writer ended in the middle of it; the transaction is undone.
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
