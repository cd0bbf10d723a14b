//! Secrets that authenticate the approval queue of a devnet. The accounts of the development mnemonic are public, so
//! nothing can be derived from them. The files are outside the ledgers' folders, and readable by their owner only from
//! the moment of creation.

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

/// Secret of an approval queue, wiped on drop.
pub type QueueSecret = Zeroizing<[u8; QUEUE_KEY_BYTES]>;

/// Errors of creating or reading a secret.
#[derive(Debug, thiserror::Error)]
pub enum QueueSecretError {
    /// A file operation failed.
    #[error(
        "cannot use the approval queue's secret {}: {reason}; check that the data folder can be written",
        path.display()
    )]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        reason: io::Error,
    },
    /// The file's permissions let other users read or modify it.
    #[error(
        "other users can access the approval queue's secret {} (mode {mode:03o}): anyone who has read it can forge \
         approvals. Delete it and start again",
        path.display()
    )]
    Exposed {
        /// Path of the file.
        path: PathBuf,
        /// Permission bits of the file.
        mode: u32,
    },
    /// The file is a link, belongs to another user, or has the wrong length.
    #[error("the approval queue's secret {} is damaged. Delete it and start again", path.display())]
    Damaged {
        /// Path of the file.
        path: PathBuf,
    },
    /// The system provides no random numbers.
    #[error("the system provides no random numbers, so the approval queue has no secret")]
    NoRandomness,
}

/// Creates a secret that only this process knows.
///
/// # Errors
/// [`QueueSecretError::NoRandomness`] if the system provides no random numbers.
pub fn in_memory() -> Result<QueueSecret, QueueSecretError> {
    let mut secret = Zeroizing::new([0; QUEUE_KEY_BYTES]);
    OsRng.try_fill_bytes(secret.as_mut_slice()).map_err(|_| QueueSecretError::NoRandomness)?;
    Ok(secret)
}

/// Secret of a devnet's ledger, created by the first process that requests it.
///
/// # Errors
/// A [`QueueSecretError`] if the secret cannot be created or read, or others could have used it.
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

/// Writes the secret to a temporary file and links it into place. So no process reads half of it, and the first secret
/// wins.
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
            // Another process was faster: its secret is used.
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

/// Removes secrets of devnets whose ledgers are gone. Files that cannot be removed stay.
pub(super) fn remove_leftovers(root: &Path) {
    let Ok(entries) = fs::read_dir(root.join(QUEUE_SECRETS)) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_of_devnet = name.to_str().is_some_and(|name| name.starts_with("devnet-"));
        // The secret's file and the ledger's folder have the same name.
        if is_of_devnet && !root.join(LEDGERS).join(&name).exists() {
            let _stays = fs::remove_file(entry.path());
        }
    }
}
