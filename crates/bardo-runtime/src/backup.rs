//! Backups of a data folder, and their restoration on this or another machine.
//!
//! A backup is a tar archive, encrypted with a passphrase by age (<https://age-encryption.org/v1>, scrypt): `age -d FILE |
//! tar x` reads it without Bardo. Its first entry lists all others with their sizes and hashes.
//!
//! ```text
//! manifest.json                                 format, origin, and every other file with its size and SHA-256
//! data/ledger/NAME/ledger.db, paper.db          databases, each as it was at one moment
//! data/ledger/NAME/ledger.audit-head            head of the audit log, at most as far as the database
//! data/ledger/NAME/playbooks/NETWORK/ID/…       playbooks
//! data/golems/ID/STRATEGY.md                    strategies
//! data/keys/…                                   encrypted key files, only if asked for
//! config/config.toml                            configuration, without credentials
//! config/policy.toml, config/policy-devnet.toml policies
//! config/archetypes/NAME.toml                   roles of the operator's own
//! ```
//!
//! Not in it: recordings, logs, kept devnets and their ledgers' chains, secrets of approval queues, and alert secrets.
//!
//! | module | contents |
//! |---|---|
//! | `archive` | manifest, permitted paths, and reading an archive that cannot be trusted |
//! | `make` | making a backup while sessions run |
//! | `restore` | restoring into an empty data folder, which starts halted |
//! | `redact` | removing credentials from a configuration file |

mod archive;
mod make;
mod redact;
mod restore;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use bardo_base::text::SafeText;
use bardo_safety::stop::StopError;
use bardo_store::StoreError;

pub use archive::{BackupManifest, BackupPath, ListedFile, ManifestFault};
pub use make::{BackupOptions, BackupSummary, check_before_backup, make};
pub use redact::RedactionFault;
pub use restore::{RestoreSummary, check_before_passphrase, install_configuration, is_configuration_waiting, restore};

/// Errors of a backup or a restore.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// A file or folder cannot be used.
    #[error("cannot use {}: {reason}", path.display())]
    File {
        /// Path of the file or folder.
        path: PathBuf,
        /// Error of the operating system.
        reason: std::io::Error,
    },
    /// The backup file would lie in the data folder.
    #[error("{} lies in the data folder, which it is a backup of: choose a place outside of it", .0.display())]
    Inside(PathBuf),
    /// The backup file exists already.
    #[error("{} exists already and was not changed: choose another name, or replace it with --force", .0.display())]
    Exists(PathBuf),
    /// There is nothing to back up.
    #[error("{} holds no ledger, strategy or policy: there is nothing to back up", .0.display())]
    Nothing(PathBuf),
    /// The data folder of a restore is in use.
    #[error("{} is not empty: restore into a new folder (set BARDO_DATA_DIR or data_dir), or move this one away", .0.display())]
    NotEmpty(PathBuf),
    /// A file of the configuration exists already.
    #[error(
        "{} exists already and would differ from the backup: move it away, or restore with --without-config",
        .0.display()
    )]
    ConfigExists(PathBuf),
    /// The passphrase is wrong.
    #[error("the passphrase is wrong, or the file was changed: nothing was restored")]
    Passphrase,
    /// The file is not a backup, was cut off or changed.
    #[error("{} is not a whole backup ({reason}): nothing was restored", path.display())]
    Damaged {
        /// Path of the backup.
        path: PathBuf,
        /// Description of the fault.
        reason: String,
    },
    /// The configuration cannot be written without credentials.
    #[error("cannot remove the credentials from {}: {reason}; correct the file, then try again", path.display())]
    Credentials {
        /// Path of the configuration file.
        path: PathBuf,
        /// Fault of the text.
        reason: RedactionFault,
    },
    /// A file has a name that a backup cannot hold.
    #[error(
        "{0} cannot be backed up: rename it to letters, digits, `-`, `_`, `.` and `+`, at most 128 in each part, or move \
         it away; no backup was made"
    )]
    Name(SafeText),
    /// The files exceed what a restore accepts.
    #[error("no restore would accept this backup: {0}; no backup was made")]
    Unrestorable(ManifestFault),
    /// A database cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The stop of the restored copy cannot be set.
    #[error(transparent)]
    Stop(#[from] StopError),
}

impl BackupError {
    fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Self + use<> {
        let path = path.to_owned();
        |reason| Self::File { path, reason }
    }

    fn damaged(path: &Path, reason: impl std::fmt::Display) -> Self {
        let reason = SafeText::clean(&reason.to_string(), 200).to_string();
        Self::Damaged { path: path.to_owned(), reason }
    }
}
