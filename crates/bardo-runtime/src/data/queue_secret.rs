//! Secrets that authenticate the approval queue of a devnet. The accounts of the development mnemonic are known to
//! everyone, so nothing can be derived from them. The files are outside the ledgers' folders and readable by their owner
//! alone from the moment they are made.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use rand::TryRngCore as _;
use rand::rngs::OsRng;
use zeroize::Zeroizing;

use super::{DataFolder, LEDGERS, Ledger, QUEUE_SECRETS, folders};
use bardo_base::id::InstanceId;
use bardo_base::regular_file;
use bardo_safety::queue_key::QUEUE_KEY_BYTES;

/// Secret of an approval queue.
pub type QueueSecret = Zeroizing<[u8; QUEUE_KEY_BYTES]>;

/// Why there is no secret.
#[derive(Debug, thiserror::Error)]
pub enum QueueSecretError {
    /// The operating system failed.
    #[error(
        "cannot use the approval queue's secret {}: {reason}; check that the data folder can be written",
        path.display()
    )]
    File {
        /// The file.
        path: PathBuf,
        /// What failed.
        reason: io::Error,
    },
    /// Others than its owner can read or change it.
    #[error(
        "other users can access the approval queue's secret {} (mode {mode:03o}): anyone who has read it can forge \
         approvals. Delete it and start again",
        path.display()
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// It is a link, belongs to another user, or has another length.
    #[error("the approval queue's secret {} is damaged. Delete it and start again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// The system gave no randomness.
    #[error("the system provides no random numbers, so the approval queue has no secret")]
    NoRandomness,
}

/// A new secret that only this process has.
///
/// # Errors
/// [`QueueSecretError::NoRandomness`].
pub fn in_memory() -> Result<QueueSecret, QueueSecretError> {
    let mut secret = Zeroizing::new([0; QUEUE_KEY_BYTES]);
    OsRng.try_fill_bytes(secret.as_mut_slice()).map_err(|_| QueueSecretError::NoRandomness)?;
    Ok(secret)
}

/// The secret of a devnet's ledger, made with the first process that asks for it.
///
/// # Errors
/// [`QueueSecretError`].
pub fn of_instance(folder: &DataFolder, ledger: &Ledger) -> Result<QueueSecret, QueueSecretError> {
    let folder = folder.root().join(QUEUE_SECRETS);
    let path = folder.join(ledger.id());
    let failed = |reason| QueueSecretError::File { path: path.clone(), reason };
    match regular_file::open_no_link(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            folders::create(&folder).map_err(|error| failed(io::Error::other(error.to_string())))?;
            make(&folder, &path, &in_memory()?).map_err(failed)?;
            read(&path, regular_file::open_no_link(&path).map_err(failed)?)
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Err(QueueSecretError::Damaged { path }),
        opened => read(&path, opened.map_err(failed)?),
    }
}

/// Writes the secret beside its place and links it there, so that nobody reads half of it and the first one stays.
fn make(folder: &Path, path: &Path, secret: &QueueSecret) -> io::Result<()> {
    let beside = folder.join(format!("new-{}", InstanceId::random()));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let made = options.open(&beside).and_then(|mut file| {
        file.write_all(secret.as_slice())?;
        file.sync_all()?;
        match fs::hard_link(&beside, path) {
            // Another process was quicker: its secret is the one.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            linked => linked,
        }
    });
    let removed = fs::remove_file(&beside);
    made.and(removed)
}

fn read(path: &Path, file: File) -> Result<QueueSecret, QueueSecretError> {
    let failed = |reason| QueueSecretError::File { path: path.to_owned(), reason };
    let damaged = || QueueSecretError::Damaged { path: path.to_owned() };
    let found = file.metadata().map_err(failed)?;
    if found.len() != QUEUE_KEY_BYTES as u64 {
        return Err(damaged());
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let mode = found.mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(QueueSecretError::Exposed { path: path.to_owned(), mode });
        }
        if found.uid() != rustix::process::geteuid().as_raw() {
            return Err(damaged());
        }
    }
    let mut secret = Zeroizing::new([0; QUEUE_KEY_BYTES]);
    let mut file = file;
    file.read_exact(secret.as_mut_slice()).map_err(failed)?;
    Ok(secret)
}

/// Removes secrets of devnets whose ledgers are gone. What cannot be removed stays.
pub(super) fn clear_away(root: &Path) {
    let Ok(entries) = fs::read_dir(root.join(QUEUE_SECRETS)) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_of_devnet = name.to_str().is_some_and(|name| name.starts_with("devnet-"));
        // The ledger of a devnet is named like its folder.
        if is_of_devnet && !root.join(LEDGERS).join(&name).exists() {
            let _stays = fs::remove_file(entry.path());
        }
    }
}
